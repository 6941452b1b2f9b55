/* ops_dead.c - what operators do with dead letters: redrive, discard; and the notices that are owed for new ones. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine_int.h"

/* ---- redrive: making one ---- */

/* The rules that the store cannot know: the right queue, redrives left. */
static enum dlq_code member_check(struct engine *e, const struct engine_op *op, const struct store_dead *d,
                                  struct dlq_err *err)
{
	if (op->queue.n && !str_eq(op->queue, d->queue))
		return err_set(err, DLQ_NOT_FOUND, "dead letter %s is of queue " STR_FMT ", not of " STR_FMT, d->dlq_id,
		               STR_ARG(d->queue), STR_ARG(op->queue));
	const struct equeue *q = equeue_by_id(e, d->queue_id);
	if (q && d->state == DEAD_DEAD && d->redrives >= q->config->policy.max_redrives && !op->u.redrive.override_limit)
		return err_set(err, DLQ_CONFLICT,
		               "dead letter %s was redriven %d times, queue " STR_FMT
		               " allows %d (max_redrives); override that, raise it or discard the dead letter",
		               d->dlq_id, d->redrives, STR_ARG(q->name), q->config->policy.max_redrives);
	return DLQ_OK;
}

static int cmp64(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return x < y ? -1 : x > y;
}

/* Ids to store numbers, each one checked as a whole. *queue: the one queue they are all of, or NULL. */
static enum dlq_code members_find(struct engine *e, struct engine_op *op, int64_t *seqs, struct equeue **queue)
{
	int n = op->u.redrive.n_ids;
	int64_t *sorted = arena_alloc(&e->scratch, (size_t)n * sizeof(*sorted));
	struct arena a = {0};
	enum dlq_code c = DLQ_OK;
	for (int i = 0; i < n && !c; i++) {
		struct store_dead d;
		c = dead_by_id(e->wreader, op->u.redrive.ids[i], &a, &d, &op->err);
		if (!c)
			c = member_check(e, op, &d, &op->err);
		if (c)
			break;
		seqs[i] = sorted[i] = d.seq;
		struct equeue *q = equeue_by_id(e, d.queue_id);
		*queue = !i || *queue == q ? q : NULL;
		arena_reset(&a);
	}
	arena_release(&a);
	if (c)
		return c;
	qsort(sorted, (size_t)n, sizeof(*sorted), cmp64);
	for (int i = 1; i < n; i++)
		if (sorted[i] == sorted[i - 1])
			return err_set(&op->err, DLQ_BAD_REQUEST,
			               "a dead letter is named twice in ids; name each one once");
	return DLQ_OK;
}

static enum dlq_code redrive_check(struct engine_op *op)
{
	int n = op->u.redrive.n_ids;
	if (n < 0 || n > REDRIVE_IDS_MAX)
		return err_set(&op->err, DLQ_BAD_REQUEST,
		               "%d ids are given, at most %d are taken; redrive the whole queue or in parts", n,
		               REDRIVE_IDS_MAX);
	if (op->u.redrive.body && n != 1)
		return err_set(&op->err, DLQ_BAD_REQUEST, "a replacement body needs exactly one id, %d are given", n);
	if (op->u.redrive.body && guard_set(&op->u.redrive.guard))
		return err_set(&op->err, DLQ_BAD_REQUEST,
		               "a replacement body goes back at once; leave first, rate and stop_at out");
	if (n && op->u.redrive.group.n)
		return err_set(&op->err, DLQ_BAD_REQUEST, "ids and a group are given; choose by one of them");
	enum dlq_code c = guard_check(&op->u.redrive.guard, &op->err);
	return c ? c : reason_check(op->u.redrive.reason, &op->err);
}

static enum dlq_code redrive_start(struct engine *e, struct batch *b, struct engine_op *op, struct store_redrive *r,
                                   const int64_t *seqs)
{
	int n = op->u.redrive.n_ids, taken = 0;
	struct buf detail = {0};
	enum dlq_code c = e->ops->redrive_create(e->store, r, seqs, n, &op->err);
	if (!c) {
		buf_addf(&detail, "%" PRId64 " dead letters%s%s", r->total, op->u.redrive.body ? ", body replaced" : "",
		         op->u.redrive.override_limit ? ", max_redrives overridden" : "");
		guard_describe(&r->guard, &detail);
		c = audit_row(e, b, op, "redrive.start", r->queue,
		              n == 1 ? op->u.redrive.ids[0] : str_of(r->redrive_id), op->u.redrive.reason,
		              buf_str(&detail), &op->err);
	}
	buf_release(&detail);
	/* One message goes back at once, with its replacement, which so needs no place to wait in. */
	if (!c && n == 1 && !guard_set(&r->guard)) {
		c = redrive_move(e, b, r, op->u.redrive.body, 2, &taken, &op->err);
		return c ? c : redrive_finish(e, b, r, &op->err);
	}
	e->redrives_reload = true;
	return c;
}

/* What is to be put back: r->queue_id, r->group_id or seqs; and r->total. */
static enum dlq_code members_choose(struct engine *e, struct engine_op *op, struct store_redrive *r, int64_t *seqs)
{
	struct store_group g;
	struct equeue *q = NULL;
	int n = op->u.redrive.n_ids;
	enum dlq_code c = DLQ_OK;
	if (n) {
		c = members_find(e, op, seqs, &q);
	} else if (op->u.redrive.group.n) {
		c = group_by_text(e->wreader, op->u.redrive.group, &e->scratch, &g, &op->err);
		if (!c && op->queue.n && !str_eq(op->queue, g.queue))
			c = err_set(&op->err, DLQ_NOT_FOUND, "group " STR_FMT " is of queue " STR_FMT ", not of " STR_FMT,
			            STR_ARG(op->u.redrive.group), STR_ARG(g.queue), STR_ARG(op->queue));
		q = c ? NULL : equeue_by_id(e, g.queue_id);
		if (!c && !q)
			c = err_set(&op->err, DLQ_CONFLICT, "the queue of group " STR_FMT " was deleted",
			            STR_ARG(op->u.redrive.group));
	} else {
		q = equeue_need(e, op);
		c = q ? DLQ_OK : DLQ_NOT_FOUND;
	}
	if (!c && !n && !q->config->policy.max_redrives && !op->u.redrive.override_limit)
		c = err_set(&op->err, DLQ_CONFLICT, "queue " STR_FMT " allows no redrives (max_redrives is 0)",
		            STR_ARG(q->name));
	if (c)
		return c;
	bool by_group = op->u.redrive.group.n > 0;
	r->queue_id = n ? 0 : q->queue_id;
	r->group_id = by_group ? g.group_id : 0;
	if (by_group)
		memcpy(r->group_fp, g.fp, sizeof(g.fp));
	r->queue = q ? arena_str(&op->arena, q->name) : (struct str){0};
	r->total = n ? n : by_group ? g.dead : 0;
	return DLQ_OK;
}

enum dlq_code op_redrive(struct engine *e, struct batch *b, struct engine_op *op)
{
	struct store_redrive *r = &op->u.redrive.out;
	*r = (struct store_redrive){0};
	enum dlq_code c = redrive_check(op);
	if (c)
		return c;
	int64_t *seqs = arena_alloc(&e->scratch, (size_t)(op->u.redrive.n_ids + 1) * sizeof(*seqs));
	c = members_choose(e, op, r, seqs);
	if (!c)
		c = batch_tx(e, b, &op->err);
	if (c)
		return c;
	if (r->queue_id && !r->group_id)
		r->total = e->ops->queue_counts(e->store, r->queue_id)->dead;
	r->operator= op->operator.n ? op->operator: STR("dlq");
	r->reason = op->u.redrive.reason;
	r->guard = op->u.redrive.guard;
	return op->u.redrive.dry_run ? DLQ_OK : redrive_start(e, b, op, r, seqs);
}

/* ---- discard ---- */

enum dlq_code op_discard(struct engine *e, struct batch *b, struct engine_op *op)
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
		c = e->ops->discard_one(e->store, d.seq, op->operator.n ? op->operator : STR("dlq"), op->u.discard.reason, &op->err);
	if (!c)
		c = audit_row(e, b, op, "dead.discard", d.queue, op->u.discard.id, op->u.discard.reason,
		              (struct str){0}, &op->err);
	if (!c)
		e->due_gen++; /* it may have held followers back */
	return c;
}

/* A discarded dead letter is dead again, until the end of the retention it had. */
enum dlq_code op_restore(struct engine *e, struct batch *b, struct engine_op *op)
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
		c = e->ops->restore_one(e->store, d.seq, op->operator.n ? op->operator : STR("dlq"), op->u.discard.reason,
		                        &op->err);
	if (!c)
		c = audit_row(e, b, op, "dead.restore", d.queue, op->u.discard.id, op->u.discard.reason, (struct str){0},
		              &op->err);
	if (!c)
		e->due_gen++; /* it holds followers back again */
	return c;
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
