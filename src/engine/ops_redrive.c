/*
 * ops_redrive.c - making a job over dead letters: what is chosen, what may be done with it, and the row that starts it. Chosen ids,
 * whole queues and groups have their members at once; what a filter or an edit decides gets a plan, and the scan thread hands its
 * members over (op_redrive_pick).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine_int.h"
#include "engine/plan.h"

const char *redrive_audit_action(enum redrive_action action, const char *what, char out[48])
{
	snprintf(out, 48, "%s.%s", redrive_action_name(action), what);
	return out;
}

/* ---- what can be said of the request alone ---- */

static bool edits_headers(const struct engine_op *op)
{
	return op->u.redrive.edit.n_set || op->u.redrive.edit.n_remove;
}

static enum dlq_code body_check(const struct engine_op *op, struct dlq_err *err)
{
	int n = op->u.redrive.sel.n_ids;
	if (!op->u.redrive.body)
		return DLQ_OK;
	if (n != 1)
		return err_set(err, DLQ_BAD_REQUEST, "a replacement body needs exactly one id, %d are given", n);
	if (guard_set(&op->u.redrive.guard))
		return err_set(err, DLQ_BAD_REQUEST, "a replacement body goes back at once; leave first, rate and stop_at out");
	if (op->u.redrive.edit.program.n)
		return err_set(err, DLQ_BAD_REQUEST, "a replacement body and a jq program are given: the program would work on the old body; give one");
	return DLQ_OK;
}

/* What only putting back has. */
static enum dlq_code action_check(const struct engine_op *op, struct dlq_err *err)
{
	enum redrive_action action = op->u.redrive.action;
	const char *what = NULL;
	if ((unsigned)action >= ACTION_COUNT)
		return err_set(err, DLQ_BAD_REQUEST, "there is no such action; it must be redrive, discard, archive or restore");
	if (op->u.redrive.sel.undo.n && action != ACTION_RESTORE)
		return err_set(err, DLQ_BAD_REQUEST, "undo goes with the action restore: it takes back what a discard or an archive did");
	if (action == ACTION_REDRIVE)
		return DLQ_OK;
	if (guard_set(&op->u.redrive.guard))
		what = "first, rate and stop_at go";
	else if (op->u.redrive.body || op->u.redrive.edit.program.n || edits_headers(op))
		what = "an edit goes";
	else if (op->u.redrive.to.n)
		what = "a destination goes";
	else if (op->u.redrive.override_limit)
		what = "override goes";
	return what ? err_set(err, DLQ_BAD_REQUEST, "%s with the action redrive, not with %s", what, redrive_action_name(action)) : DLQ_OK;
}

enum dlq_code redrive_check(struct engine_op *op)
{
	enum dlq_code c = guard_check(&op->u.redrive.guard, &op->err);
	if (!c)
		c = plan_check(&op->u.redrive.sel, &op->u.redrive.edit, &op->err);
	if (!c)
		c = body_check(op, &op->err);
	if (!c)
		c = action_check(op, &op->err);
	if (!c && op->u.redrive.dry_run && (plan_needed(&op->u.redrive.sel, &op->u.redrive.edit) || edits_headers(op)))
		c = err_set(&op->err, DLQ_BAD_REQUEST, "a dry run only counts; the preview looks at what a filter, an edit or an undo would do");
	return c || op->u.redrive.dry_run ? c : reason_check(op->u.redrive.reason, &op->err);
}

/* ---- chosen ids ---- */

static bool takes(const struct engine_op *op, enum dead_state s)
{
	if (op->u.redrive.action == ACTION_RESTORE)
		return s == DEAD_DISCARDED || s == DEAD_ARCHIVED;
	return s == DEAD_DEAD || (s == DEAD_ARCHIVED && op->u.redrive.action == ACTION_REDRIVE && op->u.redrive.override_limit);
}

/* The rules that the store cannot know: the right queue, redrives left. */
static enum dlq_code member_check(struct engine *e, const struct engine_op *op, const struct store_dead *d, struct dlq_err *err)
{
	if (op->queue.n && !str_eq(op->queue, d->queue))
		return err_set(err, DLQ_NOT_FOUND, "dead letter %s is of queue " STR_FMT ", not of " STR_FMT, d->dlq_id, STR_ARG(d->queue),
		               STR_ARG(op->queue));
	if (d->state == DEAD_ARCHIVED && op->u.redrive.action == ACTION_REDRIVE && !op->u.redrive.override_limit)
		return err_set(err, DLQ_CONFLICT, "dead letter %s is archived: restore it, or override that", d->dlq_id);
	if (!takes(op, d->state))
		return err_set(err, DLQ_CONFLICT, "dead letter %s is %s: there is nothing to %s", d->dlq_id, dead_state_name(d->state),
		               redrive_action_name(op->u.redrive.action));
	const struct equeue *q = equeue_by_id(e, d->queue_id);
	bool limited = op->u.redrive.action == ACTION_REDRIVE && !op->u.redrive.override_limit;
	if (limited && q && d->redrives >= q->config->policy.max_redrives)
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

/* Ids to store numbers, each one checked as a whole. *queue: the one queue they are all of, or NULL; *headers: of the last one. */
static enum dlq_code members_find(struct engine *e, struct engine_op *op, int64_t *seqs, struct equeue **queue, struct str *headers)
{
	int n = op->u.redrive.sel.n_ids;
	int64_t *sorted = arena_alloc(&e->scratch, (size_t)n * sizeof(*sorted));
	struct arena a = {0};
	enum dlq_code c = DLQ_OK;
	for (int i = 0; i < n && !c; i++) {
		struct store_dead d;
		c = dead_by_id(e->wreader, op->u.redrive.sel.ids[i], &a, &d, &op->err);
		if (!c)
			c = member_check(e, op, &d, &op->err);
		if (c)
			break;
		seqs[i] = sorted[i] = d.seq;
		struct equeue *q = equeue_by_id(e, d.queue_id);
		*queue = !i || *queue == q ? q : NULL;
		*headers = arena_str(&e->scratch, d.edited_headers.n ? d.edited_headers : d.headers);
		arena_reset(&a);
	}
	arena_release(&a);
	if (c)
		return c;
	qsort(sorted, (size_t)n, sizeof(*sorted), cmp64);
	for (int i = 1; i < n; i++)
		if (sorted[i] == sorted[i - 1])
			return err_set(&op->err, DLQ_BAD_REQUEST, "a dead letter is named twice in ids; name each one once");
	return DLQ_OK;
}

/* ---- what is chosen ---- */

/* A job in the making. */
struct making {
	struct store_redrive *r;
	int64_t *seqs;      /* of chosen ids */
	struct equeue *q;   /* the one queue that it is about, or NULL */
	bool planned;
	struct str headers; /* of one chosen id; edited, when put.headers points here */
	struct redrive_put put;
};

static enum dlq_code choose_group(struct engine *e, struct engine_op *op, struct making *m)
{
	struct store_group g;
	struct str id = op->u.redrive.sel.group;
	enum dlq_code c = group_by_text(e->wreader, id, &e->scratch, &g, &op->err);
	if (!c && op->queue.n && !str_eq(op->queue, g.queue))
		c = err_set(&op->err, DLQ_NOT_FOUND, "group " STR_FMT " is of queue " STR_FMT ", not of " STR_FMT, STR_ARG(id), STR_ARG(g.queue),
		            STR_ARG(op->queue));
	m->q = c ? NULL : equeue_by_id(e, g.queue_id);
	if (!c && !m->q)
		c = err_set(&op->err, DLQ_CONFLICT, "the queue of group " STR_FMT " was deleted", STR_ARG(id));
	if (c || m->planned)
		return c;
	m->r->queue_id = m->q->queue_id;
	m->r->group_id = g.group_id;
	memcpy(m->r->group_fp, g.fp, sizeof(g.fp));
	m->r->total = g.dead;
	return DLQ_OK;
}

/* Only a job that is over can be taken back as a whole. */
static enum dlq_code choose_undo(struct engine *e, struct engine_op *op)
{
	struct store_redrive was;
	enum dlq_code c = redrive_by_id(e->wreader, op->u.redrive.sel.undo, &e->scratch, &was, &op->err);
	if (c)
		return c;
	if (was.action != ACTION_DISCARD && was.action != ACTION_ARCHIVE)
		return err_set(&op->err, DLQ_BAD_REQUEST, "job %s is a %s; what a discard or an archive did can be undone", was.redrive_id,
		               redrive_action_name(was.action));
	if (was.state != REDRIVE_DONE && was.state != REDRIVE_CANCELLED)
		return err_set(&op->err, DLQ_CONFLICT, "job %s is %s yet: wait for it or cancel it, then undo it", was.redrive_id,
		               redrive_state_name(was.state));
	return DLQ_OK;
}

static enum dlq_code choose_queue(struct engine *e, struct engine_op *op, struct making *m)
{
	if (!op->queue.n && m->planned)
		return DLQ_OK; /* all queues */
	m->q = equeue_need(e, op);
	if (!m->q)
		return DLQ_NOT_FOUND;
	if (!m->planned)
		m->r->queue_id = m->q->queue_id;
	return DLQ_OK;
}

static enum dlq_code choose(struct engine *e, struct engine_op *op, struct making *m)
{
	const struct engine_selection *sel = &op->u.redrive.sel;
	struct store_redrive filtered;
	enum dlq_code c;
	if (sel->n_ids) {
		c = members_find(e, op, m->seqs, &m->q, &m->headers);
		m->r->total = m->planned ? 0 : sel->n_ids;
	} else if (sel->group.n) {
		c = choose_group(e, op, m);
	} else {
		c = choose_queue(e, op, m);
	}
	if (!c && sel->undo.n)
		c = choose_undo(e, op);
	if (!c && sel->redrive.n)
		c = redrive_by_id(e->wreader, sel->redrive, &e->scratch, &filtered, &op->err);
	if (!c && sel->filtered && sel->filter.key.n && !m->q)
		c = err_set(&op->err, DLQ_BAD_REQUEST, "key is looked up within one queue; give queue as well");
	bool limited = op->u.redrive.action == ACTION_REDRIVE && !op->u.redrive.override_limit;
	if (!c && !sel->n_ids && m->q && limited && !m->q->config->policy.max_redrives)
		c = err_set(&op->err, DLQ_CONFLICT, "queue " STR_FMT " allows no redrives (max_redrives is 0)", STR_ARG(m->q->name));
	return c;
}

static enum dlq_code choose_destination(struct engine *e, struct engine_op *op, struct making *m)
{
	struct str to = op->u.redrive.to;
	if (!to.n)
		return DLQ_OK;
	const struct equeue *q = equeue_find(e, to);
	if (!q)
		return err_set(&op->err, DLQ_NOT_FOUND, "there is no queue " STR_FMT " to put them into", STR_ARG(str_cut(to, 128)));
	if (q == m->q && !op->u.redrive.sel.n_ids)
		return err_set(&op->err, DLQ_BAD_REQUEST, "queue " STR_FMT " is their own one; leave the destination out", STR_ARG(q->name));
	m->r->to_queue_id = q->queue_id;
	m->r->to_queue = arena_str(&op->arena, q->name);
	return DLQ_OK;
}

/* ---- the start ---- */

static enum dlq_code audit_start(struct engine *e, struct batch *b, struct engine_op *op, const struct making *m)
{
	const struct store_redrive *r = m->r;
	const struct engine_selection *sel = &op->u.redrive.sel;
	struct buf detail = {0};
	char action[48];
	if (m->planned)
		plan_describe(sel, &op->u.redrive.edit, &detail);
	else
		buf_addf(&detail, "%" PRId64 " dead letters%s%s", r->total, op->u.redrive.body ? ", body replaced" : "",
		         edits_headers(op) ? ", headers edited" : "");
	if (r->to_queue.n)
		buf_addf(&detail, ", to " STR_FMT, STR_ARG(r->to_queue));
	if (op->u.redrive.override_limit)
		buf_addz(&detail, ", max_redrives overridden");
	guard_describe(&r->guard, &detail);
	enum dlq_code c = audit_row(e, b, op, redrive_audit_action(r->action, "start", action), r->queue,
	                            sel->n_ids == 1 ? sel->ids[0] : str_of(r->redrive_id), op->u.redrive.reason, buf_str(&detail), &op->err);
	buf_release(&detail);
	return c;
}

/* What one message is replaced with. */
static enum dlq_code choose_put(struct engine *e, struct engine_op *op, struct making *m)
{
	bool changed = false;
	if (m->planned || op->u.redrive.sel.n_ids != 1)
		return DLQ_OK;
	m->put.body = op->u.redrive.body;
	enum dlq_code c = edit_headers(&op->u.redrive.edit, m->headers, &e->scratch, &m->headers, &changed, &op->err);
	if (!c && changed)
		m->put.headers = &m->headers;
	return c;
}

/* One message is done with at once, with its replacement, which so needs no place to wait in. */
static enum dlq_code one_at_once(struct engine *e, struct batch *b, struct engine_op *op, const struct making *m)
{
	int taken = 0;
	enum dlq_code c = redrive_move(e, b, m->r, m->put, 2, &taken, &op->err);
	if (!c && m->r->action != ACTION_REDRIVE)
		m->r->succeeded = m->r->sent;
	return c ? c : redrive_finish(e, b, m->r, &op->err);
}

static enum dlq_code start(struct engine *e, struct batch *b, struct engine_op *op, struct making *m)
{
	int n = m->planned ? 0 : op->u.redrive.sel.n_ids;
	enum dlq_code c = e->ops->redrive_create(e->store, m->r, m->seqs, n, &op->err);
	if (!c)
		c = audit_start(e, b, op, m);
	if (!c && n == 1 && !guard_set(&m->r->guard))
		return one_at_once(e, b, op, m);
	e->redrives_reload = true;
	return c;
}

static void plan_text(struct engine_op *op, struct making *m)
{
	struct buf text = {0};
	plan_write(&op->u.redrive.sel, &op->u.redrive.edit, m->q && !op->u.redrive.sel.n_ids ? m->q->name : op->queue, &text);
	m->r->plan = arena_str(&op->arena, buf_str(&text));
	buf_release(&text);
}

enum dlq_code op_redrive(struct engine *e, struct batch *b, struct engine_op *op)
{
	struct store_redrive *r = &op->u.redrive.out;
	struct making m = {.r = r, .planned = plan_needed(&op->u.redrive.sel, &op->u.redrive.edit)};
	*r = (struct store_redrive){.action = op->u.redrive.action};
	enum dlq_code c = redrive_check(op);
	if (c)
		return c;
	m.planned = m.planned || (edits_headers(op) && guard_set(&op->u.redrive.guard)); /* one id, not at once */
	m.seqs = arena_alloc(&e->scratch, (size_t)(op->u.redrive.sel.n_ids + 1) * sizeof(*m.seqs));
	c = choose(e, op, &m);
	if (!c)
		c = choose_destination(e, op, &m);
	if (!c)
		c = choose_put(e, op, &m);
	if (!c)
		c = batch_tx(e, b, &op->err);
	if (c)
		return c;
	if (r->queue_id && !r->group_id)
		r->total = e->ops->queue_counts(e->store, r->queue_id)->dead;
	r->queue = m.q ? arena_str(&op->arena, m.q->name) : (struct str){0};
	r->operator= op->operator.n ? op->operator: STR("dlq");
	r->reason = op->u.redrive.reason;
	r->guard = op->u.redrive.guard;
	r->override_limit = op->u.redrive.override_limit;
	if (m.planned)
		plan_text(op, &m);
	return op->u.redrive.dry_run ? DLQ_OK : start(e, b, op, &m);
}

/* ---- a step of a plan ---- */

enum dlq_code op_redrive_pick(struct engine *e, struct batch *b, struct engine_op *op)
{
	int64_t n = op->u.redrive_pick.redrive_n;
	enum dlq_code c = redrives_load(e, b, &op->err);
	if (!c)
		c = batch_tx(e, b, &op->err);
	if (c)
		return c;
	struct store_redrive *r = NULL;
	for (int i = 0; i < e->n_redrives && !r; i++)
		r = e->redrives[i].n == n ? &e->redrives[i] : NULL;
	if (!r || guard_phase(r) != GUARD_SELECTING)
		return err_set(&op->err, DLQ_CONFLICT, "redrive %" PRId64 " does not select any more", n);
	if (!op->u.redrive_pick.failed) {
		e->redrives_reload = true;
		return e->ops->redrive_pick(e->store, n, op->u.redrive_pick.picks, op->u.redrive_pick.n, op->u.redrive_pick.looked,
		                            op->u.redrive_pick.plan_next, &op->err);
	}
	return r->state == REDRIVE_RUNNING ? redrive_halt(e, b, r, op->u.redrive_pick.why, &op->err) : DLQ_OK;
}
