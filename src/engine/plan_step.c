/*
 * plan_step.c - finding the members of a planned redrive: a bounded step looks at candidates below plan_next, and the writer takes what
 * was picked together with the new plan_next, so a restart goes on exactly there. One step is under way at a time.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/log.h"
#include "engine/scan_int.h"

#define RETRY_MS 1000 /* after a step that the store did not take */
#define STALE_MS 20   /* the writer is about to say that this one does not select any more */

struct picks {
	struct arena *a;
	struct store_redrive_pick *list;
	int n;
	int64_t bytes;
};

static const struct str *keep(struct picks *p, const struct str *s)
{
	if (!s)
		return NULL;
	struct str *copy = arena_alloc(p->a, sizeof(*copy));
	*copy = arena_str(p->a, *s);
	p->bytes += (int64_t)s->n;
	return copy;
}

static bool pick_take(struct scan *k, const struct scan_member *m)
{
	struct picks *p = k->ctx;
	struct store_redrive_pick *at = &p->list[p->n++];
	*at = (struct store_redrive_pick){.seq = m->d->seq, .died_no = m->d->died_no, .edit_tried = m->edit_tried};
	if (m->max_redrives >= 0) {
		at->note = arena_fmt(p->a, "was redriven %d times, the queue allows %d (max_redrives)", m->d->redrives, m->max_redrives);
	} else if (m->edit_failed) {
		at->note = arena_fmt(p->a, "the edit failed: " STR_FMT, STR_ARG(str_cut(m->error, 500)));
	} else {
		at->body = keep(p, m->body);
		at->headers = keep(p, m->headers);
	}
	return p->n < PICKS_MAX && p->bytes < PICK_BYTES_MAX;
}

/* The next redrive that still selects, in turn; 0: none. */
static int64_t next_plan(struct scanner *s)
{
	int64_t first = 0, next = 0;
	pthread_mutex_lock(&s->lock);
	for (int i = 0; i < s->n_plans; i++) {
		int64_t n = s->plans[i];
		first = !first || n < first ? n : first;
		if (n > s->last_plan && (!next || n < next))
			next = n;
	}
	pthread_mutex_unlock(&s->lock);
	return next ? next : first;
}

/* The last step came back: one that the store did not take is tried again after a while. */
static void look_at_last(struct scanner *s)
{
	pthread_mutex_lock(&s->lock);
	bool back = s->pick_back;
	s->pick_back = false;
	pthread_mutex_unlock(&s->lock);
	if (!back)
		return;
	if (s->pick.code && s->pick.code != DLQ_CONFLICT && s->pick.code != DLQ_NOT_FOUND) {
		s->plan_at = clock_now_ms(s->e->clock) + RETRY_MS;
		log_event(LOG_WARN, "redrive.step_refused", "code=%s detail=%s next=trying_again", code_name(s->pick.code), LOG_Q(s->pick.err.detail));
	}
	engine_op_release(&s->pick);
}

/* Reads that failed or took too long say nothing about the plan: the same step is tried again. */
static void try_again(struct scanner *s, const char *redrive_id, enum dlq_code c, const struct dlq_err *err)
{
	s->plan_at = clock_now_ms(s->e->clock) + RETRY_MS;
	log_event(LOG_WARN, "redrive.step_failed", "redrive=%s code=%s detail=%s next=trying_again", redrive_id, code_name(c), LOG_Q(err->detail));
}

/* What the step found, or why the plan cannot go on. False: it is to be tried again. */
static bool look(struct scanner *s, const struct store_redrive *r, struct engine_op *op)
{
	struct engine_selection sel;
	struct engine_edit edit;
	struct arena a = {0};
	struct picks picks = {.a = &s->pick_arena};
	struct dlq_err err = {0};
	struct scan k = {.s = s, .sel = &sel, .edit = &edit, .before_no = r->plan_next, .budget_us = SCAN_STEP_US, .take = pick_take,
	                 .ctx = &picks, .out = &a};
	picks.list = arena_alloc(picks.a, PICKS_MAX * sizeof(*picks.list));
	k.states = action_states(r->action, r->override_limit);
	k.check_limit = r->action == ACTION_REDRIVE && !r->override_limit;
	enum dlq_code c = plan_read(&a, r->plan, &sel, &edit, &k.queue, &err);
	if (!c)
		c = scan_resolve(&k, &err);
	if (!c)
		c = scan_run(&k, &err);
	op->u.redrive_pick.redrive_n = r->n;
	op->u.redrive_pick.picks = picks.list;
	op->u.redrive_pick.n = c ? 0 : picks.n;
	op->u.redrive_pick.bytes = picks.bytes;
	op->u.redrive_pick.looked = k.told.looked;
	op->u.redrive_pick.plan_next = k.next_no;
	op->u.redrive_pick.failed = c != DLQ_OK;
	op->u.redrive_pick.why = c ? arena_str(picks.a, str_of(err.detail)) : (struct str){0};
	bool again = c && !k.by_jq && (c == DLQ_TIMEOUT || store_fatal(c));
	if (again)
		try_again(s, r->redrive_id, c, &err);
	scan_end(&k);
	arena_release(&a);
	return !again;
}

/* Whether the redrive still selects; r is in the arena. */
static bool plan_load(struct scanner *s, int64_t n, struct arena *a, struct store_redrive *r)
{
	struct dlq_err err = {0};
	enum dlq_code c = s->r->ops->read_redrive(s->r, n, a, r, &err);
	if (c) {
		try_again(s, "?", c, &err);
		return false;
	}
	if (r->state == REDRIVE_RUNNING && r->plan.n && r->plan_next)
		return true;
	s->plan_at = clock_now_ms(s->e->clock) + STALE_MS;
	return false;
}

bool plan_step(struct scanner *s)
{
	struct arena a = {0};
	struct store_redrive r = {0};
	look_at_last(s);
	int64_t n = next_plan(s);
	if (!n || clock_now_ms(s->e->clock) < s->plan_at)
		return false;
	s->last_plan = n;
	bool found = plan_load(s, n, &a, &r);
	if (found) {
		arena_reset(&s->pick_arena);
		s->pick = (struct engine_op){.type = OP_REDRIVE_PICK, .port = &s->port.port};
		found = look(s, &r, &s->pick);
	}
	arena_release(&a);
	if (!found)
		return false;
	pthread_mutex_lock(&s->lock);
	s->pick_busy = true;
	pthread_mutex_unlock(&s->lock);
	writer_submit(s->e, &s->pick);
	return true;
}
