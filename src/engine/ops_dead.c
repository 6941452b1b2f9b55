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
	if (q && d->state == DEAD_DEAD && d->redrives >= q->config->policy.max_redrives)
		return err_set(err, DLQ_CONFLICT,
		               "dead letter %s was redriven %d times, queue " STR_FMT
		               " allows %d (max_redrives); raise it or discard the dead letter",
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
	return reason_check(op->u.redrive.reason, &op->err);
}

/* One step of one redrive. *left: members may be left. */
static enum dlq_code redrive_step(struct engine *e, struct batch *b, const struct store_redrive *r,
                                  const struct str *body, int max, bool *left, struct store_redrive *told,
                                  struct dlq_err *err)
{
	int n = 0;
	int64_t sent = 0, skipped = 0;
	struct dlq_err member_err;
	enum dlq_code c = e->ops->redrive_next(e->store, r->n, max, e->seqs, &n, err);
	if (c)
		return c;
	for (int i = 0; i < n; i++) {
		member_err = (struct dlq_err){0};
		c = e->ops->redrive_one(e->store, e->seqs[i], r->n, str_of(r->redrive_id), body, r->operator, r->reason,
		                        b->now, &member_err);
		if (store_fatal(c)) {
			*err = member_err;
			return c;
		}
		if (c)
			skipped++; /* changed since the redrive started */
		else
			sent++;
	}
	*left = n == max;
	enum redrive_state state = *left ? REDRIVE_RUNNING : REDRIVE_DONE;
	if (sent)
		e->due_gen++; /* of whatever queues they are */
	if (told) {
		told->sent += sent;
		told->skipped += skipped;
		told->state = state;
		told->ended_at_ms = *left ? 0 : b->wall;
	}
	return e->ops->redrive_mark(e->store, r->n, sent, skipped, state, err);
}

static enum dlq_code redrive_start(struct engine *e, struct batch *b, struct engine_op *op, struct store_redrive *r,
                                   const int64_t *seqs)
{
	int n = op->u.redrive.n_ids;
	struct buf detail = {0};
	enum dlq_code c = e->ops->redrive_create(e->store, r, seqs, n, &op->err);
	if (!c) {
		buf_addf(&detail, "%" PRId64 " dead letters%s", r->total, op->u.redrive.body ? ", body replaced" : "");
		c = audit_row(e, b, op, "redrive.start", r->queue,
		              n == 1 ? op->u.redrive.ids[0] : str_of(r->redrive_id), op->u.redrive.reason,
		              buf_str(&detail), &op->err);
	}
	buf_release(&detail);
	if (c)
		return c;
	/* One message goes back at once, with its replacement, which so needs no place to wait in. */
	bool left = true;
	if (n == 1)
		c = redrive_step(e, b, r, op->u.redrive.body, 2, &left, r, &op->err);
	else
		e->redrives_reload = true;
	return c;
}

enum dlq_code op_redrive(struct engine *e, struct batch *b, struct engine_op *op)
{
	struct store_redrive *r = &op->u.redrive.out;
	int n = op->u.redrive.n_ids;
	struct equeue *q = NULL;
	*r = (struct store_redrive){0};
	enum dlq_code c = redrive_check(op);
	if (c)
		return c;
	int64_t *seqs = arena_alloc(&e->scratch, (size_t)(n + 1) * sizeof(*seqs));
	if (n) {
		c = members_find(e, op, seqs, &q);
	} else {
		q = equeue_need(e, op);
		c = q ? DLQ_OK : DLQ_NOT_FOUND;
		if (q && !q->config->policy.max_redrives)
			c = err_set(&op->err, DLQ_CONFLICT, "queue " STR_FMT " allows no redrives (max_redrives is 0)",
			            STR_ARG(q->name));
	}
	if (!c)
		c = batch_tx(e, b, &op->err);
	if (c)
		return c;
	r->queue_id = n ? 0 : q->queue_id;
	r->queue = q ? arena_str(&op->arena, q->name) : (struct str){0};
	r->operator= op->operator.n ? op->operator: STR("dlq");
	r->reason = op->u.redrive.reason;
	r->total = n ? n : e->ops->queue_counts(e->store, q->queue_id)->dead;
	return op->u.redrive.dry_run ? DLQ_OK : redrive_start(e, b, op, r, seqs);
}

/* ---- redrive: running ---- */

static enum dlq_code redrives_load(struct engine *e, struct batch *b, struct dlq_err *err)
{
	if (!e->redrives_reload)
		return DLQ_OK;
	enum dlq_code c = batch_tx(e, b, err);
	if (c)
		return c;
	arena_reset(&e->redrive_arena);
	e->n_redrives = 0;
	c = e->ops->redrive_active(e->store, &e->redrive_arena, &e->redrives, &e->n_redrives, err);
	e->redrives_reload = c != DLQ_OK;
	return c;
}

bool redrives_running(const struct engine *e)
{
	if (e->redrives_reload)
		return true;
	for (int i = 0; i < e->n_redrives; i++)
		if (e->redrives[i].state == REDRIVE_RUNNING)
			return true;
	return false;
}

/* A bounded part of the running redrives, shared fairly; the next batch goes on. */
enum dlq_code redrives_step(struct engine *e, struct batch *b, struct dlq_err *err)
{
	enum dlq_code c = redrives_load(e, b, err);
	int running = 0;
	for (int i = 0; i < e->n_redrives && !c; i++)
		running += e->redrives[i].state == REDRIVE_RUNNING;
	if (c || !running)
		return c;
	c = batch_tx(e, b, err);
	int share = REDRIVE_STEP / running > 10 ? REDRIVE_STEP / running : 10;
	for (int i = 0; i < e->n_redrives && !c; i++) {
		bool left = true;
		if (e->redrives[i].state != REDRIVE_RUNNING)
			continue;
		c = redrive_step(e, b, &e->redrives[i], NULL, share, &left, NULL, err);
		if (!c && !left)
			e->redrives[i].state = REDRIVE_DONE;
	}
	return c;
}

static struct store_redrive *active_by_id(struct engine *e, struct str id)
{
	for (int i = 0; i < e->n_redrives; i++)
		if (str_eqz(id, e->redrives[i].redrive_id) &&
		    (e->redrives[i].state == REDRIVE_RUNNING || e->redrives[i].state == REDRIVE_PAUSED))
			return &e->redrives[i];
	return NULL;
}

static void redrive_copy(struct arena *a, const struct store_redrive *r, struct store_redrive *out)
{
	*out = *r;
	out->queue = arena_str(a, r->queue);
	out->operator= arena_str(a, r->operator);
	out->reason = arena_str(a, r->reason);
}

static enum dlq_code not_active(struct engine *e, struct engine_op *op)
{
	struct arena a = {0};
	struct store_redrive r;
	int64_t n;
	enum dlq_code c = store_id_seq(op->u.redrive_control.id, &n, &op->err);
	if (!c)
		c = e->ops->read_redrive(e->wreader, n, &a, &r, &op->err);
	if (!c && !str_eqz(op->u.redrive_control.id, r.redrive_id))
		c = DLQ_NOT_FOUND;
	if (c == DLQ_NOT_FOUND)
		err_set(&op->err, c, "there is no redrive " STR_FMT,
		        (int)(op->u.redrive_control.id.n > 64 ? 64 : op->u.redrive_control.id.n),
		        op->u.redrive_control.id.p);
	else if (!c)
		c = err_set(&op->err, DLQ_CONFLICT, "redrive %s has ended (%s)", r.redrive_id,
		            redrive_state_name(r.state));
	arena_release(&a);
	return c;
}

enum dlq_code op_redrive_control(struct engine *e, struct batch *b, struct engine_op *op)
{
	enum redrive_state want = op->u.redrive_control.want;
	e->redrives_reload = true; /* the counts shown are then the store's own */
	enum dlq_code c = redrives_load(e, b, &op->err);
	if (c)
		return c;
	struct store_redrive *r = active_by_id(e, op->u.redrive_control.id);
	if (!r)
		return not_active(e, op);
	if (r->state == want)
		return err_set(&op->err, DLQ_CONFLICT, "redrive %s is %s already", r->redrive_id,
		               redrive_state_name(want));
	c = e->ops->redrive_mark(e->store, r->n, 0, 0, want, &op->err);
	const char *action = want == REDRIVE_PAUSED    ? "redrive.pause"
	                     : want == REDRIVE_RUNNING ? "redrive.resume"
	                                               : "redrive.cancel";
	if (!c)
		c = audit_row(e, b, op, action, r->queue, str_of(r->redrive_id), (struct str){0}, (struct str){0},
		              &op->err);
	if (c)
		return c;
	r->state = want;
	redrive_copy(&op->arena, r, &op->u.redrive_control.out);
	if (want == REDRIVE_CANCELLED)
		op->u.redrive_control.out.ended_at_ms = b->wall;
	return DLQ_OK;
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
