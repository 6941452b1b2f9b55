/*
 * redrive_run.c - running redrives. Each turn of the writer moves every running redrive by a bounded part: at once, as
 * its canary, or at its rate; judges guarded ones by the outcomes that came; and tells when the next part is due. All
 * that a restart needs is in the store; what is kept here (the rows as last read, the buckets of the rates) may be lost.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "engine/engine_int.h"

#define ERROR_TEXT_MAX 200
#define STEP_LONG_US 6000 /* whoever comes meanwhile waits so long */
#define STEP_SHORT_US 2000
#define STEP_MIN 20
#define STEP_BESIDE 2    /* in a batch of callers, whose commit pays for it, */
#define BESIDE_EVERY_US 4000 /* and not in every one: most do not notice */
#define YIELD_MS 3        /* after the last caller so long nothing is moved without one: the next is on its way */
#define BESIDE_US 50000   /* callers who were here so lately come again: each waits for a step */
#define LEDGER_LOOK 1000 /* lines of the ledger looked at for an example of the failure */

static bool guarded(const struct store_redrive *r)
{
	return guard_set(&r->guard);
}

/* ---- what goes back with an operator who goes past a halt: outcomes until then do not count again ---- */

static void base_name(int64_t n, char out[48])
{
	snprintf(out, 48, "redrive.base.%" PRId64, n);
}

static enum dlq_code base_load(struct engine *e, int64_t n, struct guard_base *out, struct dlq_err *err)
{
	char name[48], text[64];
	struct arena a = {0};
	struct str v = {0};
	base_name(n, name);
	*out = (struct guard_base){0};
	enum dlq_code c = e->ops->meta_get(e->store, name, &a, &v, err);
	if (!c && v.n && v.n < sizeof(text)) {
		memcpy(text, v.p, v.n);
		text[v.n] = '\0';
		if (sscanf(text, "%" SCNd64 " %" SCNd64, &out->succeeded, &out->failed) != 2)
			*out = (struct guard_base){0};
	}
	arena_release(&a);
	return c;
}

static enum dlq_code base_save(struct engine *e, const struct store_redrive *r, struct dlq_err *err)
{
	char name[48], text[64];
	base_name(r->n, name);
	int n = snprintf(text, sizeof(text), "%" PRId64 " %" PRId64, r->succeeded, r->failed_again);
	return e->ops->meta_set(e->store, name, (struct str){text, (size_t)n}, err);
}

/* ---- the rows as last read ---- */

static struct redrive_run *run_of(struct engine *e, int64_t n)
{
	for (int i = 0; i < e->n_runs; i++)
		if (e->runs[i].n == n)
			return &e->runs[i];
	return NULL;
}

/* One run per active redrive, in the order of e->redrives; buckets stay as they were. */
static enum dlq_code runs_load(struct engine *e, struct dlq_err *err)
{
	struct redrive_run *runs = e->n_redrives ? mem_array((size_t)e->n_redrives, sizeof(*runs)) : NULL;
	enum dlq_code c = DLQ_OK;
	for (int i = 0; i < e->n_redrives && !c; i++) {
		const struct store_redrive *r = &e->redrives[i];
		const struct redrive_run *was = run_of(e, r->n);
		if (was)
			runs[i] = *was;
		runs[i].n = r->n;
		if (!was && guarded(r))
			c = base_load(e, r->n, &runs[i].base, err);
	}
	mem_free(e->runs);
	e->runs = runs;
	e->n_runs = e->n_redrives;
	return c;
}

enum dlq_code redrives_load(struct engine *e, struct batch *b, struct dlq_err *err)
{
	if (!e->redrives_reload)
		return DLQ_OK;
	enum dlq_code c = batch_tx(e, b, err);
	if (c)
		return c;
	arena_reset(&e->redrive_arena);
	e->n_redrives = 0;
	c = e->ops->redrive_active(e->store, &e->redrive_arena, &e->redrives, &e->n_redrives, err);
	if (!c)
		c = runs_load(e, err);
	e->redrives_reload = c != DLQ_OK;
	return c;
}

struct store_redrive *redrive_active_by_id(struct engine *e, struct str id)
{
	for (int i = 0; i < e->n_redrives; i++) {
		struct store_redrive *r = &e->redrives[i];
		if (str_eqz(id, r->redrive_id) &&
		    (r->state == REDRIVE_RUNNING || r->state == REDRIVE_PAUSED || r->state == REDRIVE_HALTED))
			return r;
	}
	return NULL;
}

/* ---- the failure itself, for people ---- */

void redrive_failed(struct engine *e, int64_t seq, struct str type, struct str message)
{
	struct redrive_error *x = &e->redrive_errors[e->next_redrive_error];
	e->next_redrive_error = (e->next_redrive_error + 1) % REDRIVE_ERRORS;
	x->seq = seq;
	snprintf(x->text, sizeof(x->text), STR_FMT "%s" STR_FMT, STR_ARG(str_cut(type, 64)),
	         type.n && message.n ? ": " : "", STR_ARG(str_cut(message, ERROR_TEXT_MAX)));
	e->redrives_outcome = true;
}

/* The reader sees the last commit, in which a member that failed in this batch is still being redriven. */
static bool is_member(struct engine *e, const struct store_redrive *r, int64_t seq, struct store_dead *d, struct arena *a)
{
	struct dlq_err ignored = {0};
	return !e->ops->read_dead(e->wreader, seq, a, d, &ignored) && str_eqz(d->redrive_id, r->redrive_id);
}

/* After a restart: from the ledger. */
static bool error_from_ledger(struct engine *e, const struct store_redrive *r, char out[REDRIVE_ERROR_MAX])
{
	struct arena a = {0};
	struct dlq_err ignored = {0};
	struct store_redrive_item *items = NULL;
	struct store_dead d;
	int64_t next = 0;
	int n = 0;
	bool found = false;
	if (e->ops->read_redrive_items(e->wreader, r->n, 0, LEDGER_LOOK, &a, &items, &n, &next, &ignored))
		n = 0;
	for (int i = n - 1; i >= 0 && !found; i--) {
		if (items[i].state != ITEM_FAILED_AGAIN || !is_member(e, r, items[i].seq, &d, &a))
			continue;
		snprintf(out, REDRIVE_ERROR_MAX, STR_FMT "%s" STR_FMT, STR_ARG(str_cut(d.error_type, 64)),
		         d.error_type.n && d.message.n ? ": " : "", STR_ARG(str_cut(d.message, ERROR_TEXT_MAX)));
		found = true;
	}
	arena_release(&a);
	return found;
}

static void error_of(struct engine *e, const struct store_redrive *r, char out[REDRIVE_ERROR_MAX])
{
	struct arena a = {0};
	struct store_dead d;
	bool found = false;
	out[0] = '\0';
	for (int i = 1; i <= REDRIVE_ERRORS && !found && r->failed_again; i++) {
		const struct redrive_error *x =
		    &e->redrive_errors[(e->next_redrive_error + REDRIVE_ERRORS - i) % REDRIVE_ERRORS];
		found = x->seq && is_member(e, r, x->seq, &d, &a);
		if (found)
			memcpy(out, x->text, REDRIVE_ERROR_MAX);
	}
	arena_release(&a);
	if (!found && r->failed_again)
		error_from_ledger(e, r, out);
}

/* ---- judging ---- */

enum dlq_code redrive_halt(struct engine *e, struct batch *b, struct store_redrive *r, struct str why, struct dlq_err *err)
{
	char error[REDRIVE_ERROR_MAX], action[48];
	struct buf detail = {0};
	error_of(e, r, error);
	r->state = REDRIVE_HALTED;
	r->halted_why = arena_fmt(&e->redrive_arena, STR_FMT "%s%s", STR_ARG(why), error[0] ? ": " : "", error);
	buf_addf(&detail, "%" PRId64 " of %" PRId64 " put back, %" PRId64 " succeeded, %" PRId64 " failed again", r->sent,
	         r->total, r->succeeded, r->failed_again);
	enum dlq_code c = e->ops->redrive_state(e->store, r, err);
	if (!c)
		c = audit_row(e, b, NULL, redrive_audit_action(r->action, "halt", action), r->queue, str_of(r->redrive_id), r->halted_why, buf_str(&detail),
		              err);
	buf_release(&detail);
	if (!c)
		log_event(LOG_WARN, "redrive.halted", "redrive=%s sent=%" PRId64 " of=%" PRId64 " failed_again=%" PRId64,
		          r->redrive_id, r->sent, r->total, r->failed_again);
	return c;
}

static enum dlq_code judge(struct engine *e, struct batch *b, int i, struct dlq_err *err)
{
	struct store_redrive *r = &e->redrives[i];
	char why[GUARD_WHY_MAX];
	switch (guard_judge(r, &e->runs[i].base, b->now, why)) {
	case GUARD_PASSED:
		r->canary_until = CANARY_PASSED;
		return e->ops->redrive_state(e->store, r, err);
	case GUARD_HALT:
		return redrive_halt(e, b, r, str_of(why), err);
	case GUARD_GO_ON:
		break;
	}
	return DLQ_OK;
}

/* ---- moving ---- */

/* How often a member may have been redriven: of the members of other jobs that was looked at before. */
static int max_redrives(struct engine *e, const struct store_redrive *r)
{
	const struct equeue *q = r->queue_id && !r->override_limit ? equeue_by_id(e, r->queue_id) : NULL;
	return q ? q->config->policy.max_redrives : -1;
}

static enum dlq_code move_one(struct engine *e, struct batch *b, const struct store_redrive *r, struct redrive_put put, int64_t seq,
                              struct dlq_err *err)
{
	struct store_put_back p = {.redrive_n = r->n, .redrive_id = str_of(r->redrive_id), .operator= r->operator, .why = r->reason,
	                           .body = put.body, .headers = put.headers, .due = b->now, .to_queue_id = r->to_queue_id,
	                           .max_redrives = max_redrives(e, r), .archived_too = r->override_limit};
	switch (r->action) {
	case ACTION_DISCARD:
		return e->ops->discard_one(e->store, seq, r->n, r->operator, r->reason, err);
	case ACTION_ARCHIVE:
		return e->ops->give_up_one(e->store, seq, r->n, r->operator, r->reason, err);
	case ACTION_RESTORE:
		return e->ops->restore_one(e->store, seq, r->n, r->operator, r->reason, err);
	default:
		return e->ops->redrive_one(e->store, seq, &p, err);
	}
}

enum dlq_code redrive_move(struct engine *e, struct batch *b, struct store_redrive *r, struct redrive_put put, int max,
                           int *taken, struct dlq_err *err)
{
	int64_t sent = 0, skipped = 0;
	enum dlq_code c = e->ops->redrive_next(e->store, r->n, max, e->seqs, taken, err);
	for (int i = 0; i < *taken && !c; i++) {
		struct dlq_err member_err = {0};
		enum dlq_code m = move_one(e, b, r, put, e->seqs[i], &member_err);
		if (store_fatal(m)) {
			*err = member_err;
			return m;
		}
		if (m)
			skipped++; /* changed since the redrive started */
		else
			sent++;
	}
	if (c)
		return c;
	if (sent)
		e->due_gen++; /* of whatever queues they are */
	r->sent += sent;
	r->skipped += skipped;
	return e->ops->redrive_mark(e->store, r->n, sent, skipped, r->state, err);
}

enum dlq_code redrive_finish(struct engine *e, struct batch *b, struct store_redrive *r, struct dlq_err *err)
{
	char name[48];
	const struct redrive_run *run = run_of(e, r->n);
	enum dlq_code c = DLQ_OK;
	if (run && (run->base.succeeded || run->base.failed)) {
		base_name(r->n, name);
		c = e->ops->meta_set(e->store, name, (struct str){0}, err);
	}
	r->state = REDRIVE_DONE;
	r->ended_at_ms = b->wall;
	e->sweep_due = e->sweep_due || r->plan.n;
	return c ? c : e->ops->redrive_mark(e->store, r->n, 0, 0, r->state, err);
}

/* The canary is out: its outcomes are waited for. The row is read again, for the store's own cursor. */
static enum dlq_code canary_wait(struct engine *e, struct batch *b, int64_t n, struct dlq_err *err)
{
	e->redrives_reload = true;
	enum dlq_code c = redrives_load(e, b, err);
	for (int i = 0; i < e->n_redrives && !c; i++) {
		struct store_redrive *r = &e->redrives[i];
		if (r->n != n)
			continue;
		int64_t wait = r->guard.canary_wait_ms ? r->guard.canary_wait_ms : CANARY_WAIT_DEFAULT_MS;
		r->canary_until = b->now + wait;
		return e->ops->redrive_state(e->store, r, err);
	}
	return c;
}

static enum dlq_code move_canary(struct engine *e, struct batch *b, struct store_redrive *r, int share, struct dlq_err *err)
{
	int64_t want = r->guard.first - r->sent;
	int max = want < share ? (int)want : share, taken = 0;
	enum dlq_code c = max > 0 ? redrive_move(e, b, r, (struct redrive_put){0}, max, &taken, err) : DLQ_OK;
	if (c || (taken == max && r->sent < r->guard.first))
		return c;
	return r->sent ? canary_wait(e, b, r->n, err) : redrive_finish(e, b, r, err);
}

static enum dlq_code move_ramp(struct engine *e, struct batch *b, struct store_redrive *r, struct redrive_run *run, int share,
                               struct dlq_err *err)
{
	int max = r->guard.rate > 0 ? guard_take(&run->bucket, r->guard.rate, b->now, share) : share, taken = 0;
	if (r->guard.rate > 0)
		run->next_at = guard_next(&run->bucket, r->guard.rate, b->now);
	if (!max && r->sent + r->skipped < r->total)
		return DLQ_OK;
	if (!max) { /* that nothing is left is found out at once; should one be left, it goes on credit */
		max = 1;
		run->bucket.tokens -= 1;
	}
	enum dlq_code c = redrive_move(e, b, r, (struct redrive_put){0}, max, &taken, err);
	return c || taken == max ? c : redrive_finish(e, b, r, err);
}

static enum dlq_code move(struct engine *e, struct batch *b, int i, int share, struct dlq_err *err)
{
	struct store_redrive *r = &e->redrives[i];
	switch (guard_phase(r)) {
	case GUARD_CANARY:
		return move_canary(e, b, r, share, err);
	case GUARD_RAMP:
		return move_ramp(e, b, r, &e->runs[i], share, err);
	case GUARD_SELECTING: /* the scan thread is at it */
	case GUARD_WAIT:
		break;
	}
	return DLQ_OK;
}

/* When redrive i has something to do. */
static int64_t next_of(const struct engine *e, int i, int64_t now)
{
	const struct store_redrive *r = &e->redrives[i];
	if (r->state != REDRIVE_RUNNING)
		return NEVER;
	switch (guard_phase(r)) {
	case GUARD_SELECTING:
		return NEVER;
	case GUARD_WAIT:
		return r->canary_until;
	case GUARD_RAMP:
		return r->guard.rate > 0 ? e->runs[i].next_at : now;
	case GUARD_CANARY:
		break;
	}
	return now;
}

int64_t redrives_next(const struct engine *e)
{
	int64_t at = NEVER;
	if (e->redrives_reload || e->sweep_due)
		return 0;
	for (int i = 0; i < e->n_redrives; i++) {
		int64_t t = next_of(e, i, 0);
		at = t < at ? t : at;
	}
	return at < e->redrive_yield ? e->redrive_yield : at;
}

/* Guarded redrives are judged by the outcomes of this very batch: their rows are read again. */
static enum dlq_code outcomes_load(struct engine *e, struct batch *b, struct dlq_err *err)
{
	if (!e->redrives_outcome)
		return DLQ_OK;
	e->redrives_outcome = false;
	for (int i = 0; i < e->n_redrives; i++)
		if (e->redrives[i].state == REDRIVE_RUNNING && guarded(&e->redrives[i]))
			e->redrives_reload = true;
	return redrives_load(e, b, err);
}

static enum dlq_code judge_all(struct engine *e, struct batch *b, struct dlq_err *err)
{
	enum dlq_code c = DLQ_OK;
	for (int i = 0; i < e->n_redrives && !c; i++)
		if (e->redrives[i].state == REDRIVE_RUNNING && guarded(&e->redrives[i])) {
			c = batch_tx(e, b, err);
			if (!c)
				c = judge(e, b, i, err);
		}
	return c;
}

/* Edits that no redrive will use any more. */
static enum dlq_code sweep(struct engine *e, struct batch *b, struct dlq_err *err)
{
	int n = 0;
	if (!e->sweep_due)
		return DLQ_OK;
	enum dlq_code c = batch_tx(e, b, err);
	if (!c)
		c = e->ops->redrive_sweep(e->store, SWEEP_STEP, &n, err);
	e->sweep_due = c || n > 0;
	return c;
}

/* How many members this batch moves; 0: none, a caller is expected. */
static int step_size(const struct engine *e, const struct batch *b, int64_t now_us)
{
	if (e->o.single_step)
		return e->redrive_step;
	if (b->ops)
		return now_us - e->beside_us < BESIDE_EVERY_US ? 0 : STEP_BESIDE;
	int64_t quiet = now_us - e->worked_us;
	return quiet < YIELD_MS * 1000 ? 0 : quiet < BESIDE_US ? STEP_MIN : e->redrive_step;
}

static void step_adapt(struct engine *e, int64_t us)
{
	if (us > STEP_LONG_US && e->redrive_step > STEP_MIN)
		e->redrive_step /= 2;
	else if (us < STEP_SHORT_US && e->redrive_step <= REDRIVE_STEP / 2)
		e->redrive_step *= 2;
}

/* A bounded part of the running redrives, shared fairly; the next batch goes on. */
enum dlq_code redrives_step(struct engine *e, struct batch *b, struct dlq_err *err)
{
	bool fresh = e->redrives_reload || e->redrives_outcome;
	enum dlq_code c = redrives_load(e, b, err);
	if (!c)
		c = outcomes_load(e, b, err);
	if (!c)
		c = sweep(e, b, err);
	int due = 0, n = e->n_redrives;
	for (int i = 0; i < n && !c; i++)
		due += next_of(e, i, b->now) <= b->now;
	if (c || (!due && !fresh))
		return c;
	c = judge_all(e, b, err);
	if (c || !due)
		return c;
	int64_t from = clock_mono_us(e->clock);
	int step = step_size(e, b, from);
	if (!step) {
		e->redrive_yield = b->now + YIELD_MS;
		return c;
	}
	c = batch_tx(e, b, err);
	e->beside_us = b->ops ? from : e->beside_us;
	int most = step / 10 > 1 ? step / 10 : 1, share = step / due > 2 ? step / due : 2;
	n = e->n_redrives;
	for (int k = 0, moved = 0; k < n && moved < most && !c; k++) {
		int i = (e->redrive_turn + k) % n; /* who is left out now comes first in the next turn */
		if (i >= e->n_redrives || next_of(e, i, b->now) > b->now)
			continue;
		c = move(e, b, i, share, err);
		moved++;
	}
	e->redrive_turn = n ? (e->redrive_turn + most) % n : 0;
	if (step == e->redrive_step)
		step_adapt(e, clock_mono_us(e->clock) - from);
	return c;
}

/* ---- control ---- */

static void redrive_copy(struct arena *a, const struct store_redrive *r, struct store_redrive *out)
{
	*out = *r;
	out->queue = arena_str(a, r->queue);
	out->operator= arena_str(a, r->operator);
	out->reason = arena_str(a, r->reason);
	out->halted_why = arena_str(a, r->halted_why);
	out->to_queue = arena_str(a, r->to_queue);
	out->plan = arena_str(a, r->plan);
}

static enum dlq_code not_active(struct engine *e, struct engine_op *op)
{
	struct arena a = {0};
	struct store_redrive r;
	enum dlq_code c = redrive_by_id(e->wreader, op->u.redrive_control.id, &a, &r, &op->err);
	if (!c)
		c = err_set(&op->err, DLQ_CONFLICT, "redrive %s has ended (%s)", r.redrive_id, redrive_state_name(r.state));
	arena_release(&a);
	return c;
}

/* Past a halt, or on after a pause. A canary that was waited for gets its whole wait again. */
static enum dlq_code resume(struct engine *e, struct batch *b, struct store_redrive *r, struct dlq_err *err)
{
	struct redrive_run *run = run_of(e, r->n);
	enum dlq_code c = DLQ_OK;
	if (r->state == REDRIVE_HALTED) {
		c = base_save(e, r, err);
		run->base = (struct guard_base){r->succeeded, r->failed_again};
		if (r->guard.first && guard_phase(r) != GUARD_SELECTING)
			r->canary_until = CANARY_PASSED;
	} else if (guard_phase(r) == GUARD_WAIT) {
		r->canary_until = b->now + (r->guard.canary_wait_ms ? r->guard.canary_wait_ms : CANARY_WAIT_DEFAULT_MS);
	}
	run->bucket = (struct guard_bucket){0};
	run->next_at = 0;
	e->redrives_outcome = true; /* what came meanwhile is judged now */
	r->state = REDRIVE_RUNNING;
	r->halted_why = (struct str){0};
	return c ? c : e->ops->redrive_state(e->store, r, err);
}

static enum dlq_code set_state(struct engine *e, struct batch *b, struct engine_op *op, struct store_redrive *r)
{
	enum redrive_state want = op->u.redrive_control.want, was = r->state;
	struct str detail = {0};
	const char *what = want == REDRIVE_PAUSED ? "pause" : want == REDRIVE_RUNNING ? "resume" : "cancel";
	char action[48];
	enum dlq_code c;
	if (was == REDRIVE_HALTED)
		detail = arena_fmt(&e->scratch, "past a halt: " STR_FMT, STR_ARG(r->halted_why));
	if (want == REDRIVE_RUNNING) {
		c = resume(e, b, r, &op->err);
	} else {
		r->state = want;
		c = e->ops->redrive_mark(e->store, r->n, 0, 0, want, &op->err);
	}
	e->sweep_due = e->sweep_due || (want == REDRIVE_CANCELLED && r->plan.n);
	return c ? c : audit_row(e, b, op, redrive_audit_action(r->action, what, action), r->queue, str_of(r->redrive_id), (struct str){0},
	                         want == REDRIVE_RUNNING ? detail : (struct str){0}, &op->err);
}

enum dlq_code op_redrive_control(struct engine *e, struct batch *b, struct engine_op *op)
{
	enum redrive_state want = op->u.redrive_control.want;
	if (want != REDRIVE_PAUSED && want != REDRIVE_RUNNING && want != REDRIVE_CANCELLED)
		return err_set(&op->err, DLQ_BAD_REQUEST, "a redrive can be paused, resumed and cancelled, nothing else");
	e->redrives_reload = true; /* the counts shown are then the store's own */
	enum dlq_code c = redrives_load(e, b, &op->err);
	if (c)
		return c;
	struct store_redrive *r = redrive_active_by_id(e, op->u.redrive_control.id);
	if (!r)
		return not_active(e, op);
	if (r->state == want)
		return err_set(&op->err, DLQ_CONFLICT, "redrive %s is %s already", r->redrive_id, redrive_state_name(want));
	if (want == REDRIVE_PAUSED && r->state == REDRIVE_HALTED)
		return err_set(&op->err, DLQ_CONFLICT, "redrive %s is halted already (" STR_FMT "); resume or cancel it",
		               r->redrive_id, STR_ARG(str_cut(r->halted_why, 200)));
	c = set_state(e, b, op, r);
	if (c)
		return c;
	redrive_copy(&op->arena, r, &op->u.redrive_control.out);
	if (want == REDRIVE_CANCELLED) {
		op->u.redrive_control.out.ended_at_ms = b->wall;
		op->u.redrive_control.out.cancelled = r->total - r->sent - r->skipped;
		e->redrives_reload = true;
	}
	return DLQ_OK;
}
