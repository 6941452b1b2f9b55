/* ops_dead.c - what operators do with one dead letter: discard, give up, restore; and the notices that are owed for new ones. */
#include "engine/engine_int.h"

/* ---- one dead letter ---- */

static enum dlq_code change(struct engine *e, int64_t seq, struct engine_op *op)
{
	struct str operator= op->operator.n ? op->operator: STR("dlq"), why = op->u.discard.reason;
	switch (op->type) {
	case OP_DISCARD:
		return e->ops->discard_one(e->store, seq, 0, operator, why, &op->err);
	case OP_GIVE_UP:
		return e->ops->give_up_one(e->store, seq, 0, operator, why, &op->err);
	default:
		return e->ops->restore_one(e->store, seq, 0, operator, why, &op->err);
	}
}

static enum dlq_code change_one(struct engine *e, struct batch *b, struct engine_op *op, const char *action)
{
	struct store_dead d;
	enum dlq_code c = reason_check(op->u.discard.reason, &op->err);
	if (!c)
		c = dead_by_id(e->wreader, op->u.discard.id, &e->scratch, &d, &op->err);
	if (!c && op->queue.n && !str_eq(op->queue, d.queue))
		c = err_set(&op->err, DLQ_NOT_FOUND, "dead letter %s is of queue " STR_FMT, d.dlq_id, STR_ARG(d.queue));
	if (!c)
		c = batch_tx(e, b, &op->err);
	if (!c)
		c = change(e, d.seq, op);
	if (!c)
		c = audit_row(e, b, op, action, d.queue, op->u.discard.id, op->u.discard.reason, (struct str){0}, &op->err);
	if (!c)
		e->due_gen++; /* it may have held followers back, or does so again */
	return c;
}

enum dlq_code op_discard(struct engine *e, struct batch *b, struct engine_op *op)
{
	return change_one(e, b, op, "dead.discard");
}

/* It stays in the store, as archived, until its retention ends. */
enum dlq_code op_give_up(struct engine *e, struct batch *b, struct engine_op *op)
{
	return change_one(e, b, op, "dead.archive");
}

/* A discarded or given up dead letter is dead again, until the end of the retention it had. */
enum dlq_code op_restore(struct engine *e, struct batch *b, struct engine_op *op)
{
	return change_one(e, b, op, "dead.restore");
}

/* ---- notices ---- */

enum dlq_code op_notice_claim(struct engine *e, struct batch *b, struct engine_op *op)
{
	int max = op->u.notice_claim.max;
	if (max < 1 || max > 1000)
		return err_set(&op->err, DLQ_BAD_REQUEST, "1 to 1000 notices can be taken at once, not %d", max);
	op->u.notice_claim.n = 0;
	op->u.notice_claim.next = NEVER;
	op->u.notice_claim.items = arena_alloc(&op->arena, (size_t)max * sizeof(struct store_notice));
	enum dlq_code c = batch_tx(e, b, &op->err);
	return c ? c
	         : e->ops->notice_due(e->store, b->now, max, &op->arena, op->u.notice_claim.items,
	                              &op->u.notice_claim.n, &op->u.notice_claim.next, &op->err);
}

enum dlq_code op_notice_settle(struct engine *e, struct batch *b, struct engine_op *op)
{
	enum dlq_code c = batch_tx(e, b, &op->err);
	if (c)
		return c;
	if (op->u.notice_settle.ok || op->u.notice_settle.give_up)
		return e->ops->notice_done(e->store, op->u.notice_settle.n, &op->err);
	int64_t delay = op->u.notice_settle.delay_ms;
	delay = delay < 0 ? 0 : delay > TIME_SPAN_MAX_MS ? TIME_SPAN_MAX_MS : delay;
	return e->ops->notice_later(e->store, op->u.notice_settle.n, b->now + delay, op->u.notice_settle.error,
	                            &op->err);
}
