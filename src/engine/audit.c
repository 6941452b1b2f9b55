/* audit.c - who did what, when and why: one row in the transaction of the change itself. */
#include "engine/engine_int.h"

enum dlq_code audit_row(struct engine *e, struct batch *b, const struct engine_op *op, const char *action,
                        struct str queue, struct str target, struct str reason, struct str detail, struct dlq_err *err)
{
	struct store_audit row = {.at_ms = b->wall,
	                          .operator= op && op->operator.n
	                          ? op->operator: STR("dlq"),
	                          .action = str_of(action),
	                          .queue = queue,
	                          .target = target,
	                          .reason = reason,
	                          .outcome = STR("ok"),
	                          .detail = detail, };
	enum dlq_code c = batch_tx(e, b, err);
	return c ? c : e->ops->audit_add(e->store, &row, err);
}

/* A refused change, told by the layer that refused it. */
enum dlq_code op_audit(struct engine *e, struct batch *b, struct engine_op *op)
{
	struct store_audit row = op->u.audit.row;
	if (!row.at_ms)
		row.at_ms = b->wall;
	if (!row.operator.n)
		row.operator= op->operator;
	if (!row.queue.n)
		row.queue = op->queue;
	enum dlq_code c = batch_tx(e, b, &op->err);
	return c ? c : e->ops->audit_add(e->store, &row, &op->err);
}

enum dlq_code reason_check(struct str reason, struct dlq_err *err)
{
	if (!reason.n)
		return err_set(err, DLQ_BAD_REQUEST,
		               "a reason is needed: say in 1 to %d bytes why this is done; it is kept in the audit log",
		               REASON_TEXT_MAX);
	if (reason.n > REASON_TEXT_MAX)
		return err_set(err, DLQ_BAD_REQUEST, "the reason has %zu bytes, at most %d are kept; shorten it",
		               reason.n, REASON_TEXT_MAX);
	if (!str_is_utf8(reason))
		return err_set(err, DLQ_BAD_REQUEST, "the reason is not valid UTF-8 text");
	return DLQ_OK;
}
