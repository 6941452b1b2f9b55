/* ops_import.c - records that the scan thread has read become dead letters. */
#include <inttypes.h>
#include <string.h>

#include "engine/engine_int.h"

static enum dlq_code import_one(struct engine *e, struct batch *b, struct engine_op *op, int at)
{
	struct engine_import_result *res = &op->u.import.results[at];
	struct store_import *i = &op->u.import.parsed[at];
	struct equeue *q = equeue_by_id(e, i->queue_id);
	if (!q)
		return err_set(&res->err, DLQ_NOT_FOUND, "there is no queue " STR_FMT, STR_ARG(res->queue));
	/* Whatever time was left where it came from: here it gets the whole retention of its queue. */
	i->retention_due = b->now + q->config->policy.retention_ms;
	enum dlq_code c = e->ops->import_one(e->store, i, &res->err);
	if (c)
		return c;
	e->next_retention = e->next_retention < i->retention_due ? e->next_retention : i->retention_due;
	res->exists = i->exists;
	memcpy(res->dlq_id, i->dlq_id, sizeof(res->dlq_id));
	return DLQ_OK;
}

/* One row for all: where they went is in the row when it is one queue. */
static enum dlq_code import_audit(struct engine *e, struct batch *b, struct engine_op *op, int64_t exist, int64_t refused)
{
	struct buf detail = {0};
	struct str queue = {0};
	bool one = true;
	for (int i = 0; i < op->u.import.n; i++) {
		const struct engine_import_result *res = &op->u.import.results[i];
		if (res->code || res->exists)
			continue;
		one = one && (!queue.n || str_eq(queue, res->queue));
		queue = res->queue;
	}
	buf_addf(&detail, "%" PRId64 " imported, %" PRId64 " here already, %" PRId64 " refused", op->u.import.imported, exist, refused);
	enum dlq_code c = audit_row(e, b, op, "dead.import", one && queue.n ? queue : op->queue, (struct str){0}, op->u.import.reason,
	                            buf_str(&detail), &op->err);
	buf_release(&detail);
	return c;
}

enum dlq_code op_import(struct engine *e, struct batch *b, struct engine_op *op)
{
	int64_t exist = 0, refused = 0;
	if (!op->u.import.parsed || !op->u.import.results)
		return err_set(&op->err, DLQ_BAD_REQUEST, "the records were not read yet (OP_IMPORT_PARSE)");
	enum dlq_code c = op->u.import.reason.n ? reason_check(op->u.import.reason, &op->err) : DLQ_OK;
	if (!c)
		c = batch_tx(e, b, &op->err);
	op->u.import.imported = 0;
	for (int i = 0; i < op->u.import.n && !c; i++) {
		struct engine_import_result *res = &op->u.import.results[i];
		if (!res->code)
			res->code = import_one(e, b, op, i);
		if (store_fatal(res->code)) {
			op->err = res->err;
			c = res->code;
		}
		refused += res->code != DLQ_OK;
		exist += !res->code && res->exists;
		op->u.import.imported += !res->code && !res->exists;
	}
	return c ? c : import_audit(e, b, op, exist, refused);
}
