/* Redrives: start, list, show, ledger, pause, resume, cancel. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/plan.h"
#include "http/json_in.h"
#include "http/select.h"

#define FIRST_MAX ((int64_t)1000000000)
#define CANARY_WAIT_MAX_MS ((int64_t)7 * 86400000)

/* Where a running one is: "selecting" its members, "canary", "waiting" for its outcomes, then "ramp". */
static const char *phase(const struct store_redrive *d)
{
	if (d->plan.n && d->plan_next > 0)
		return "selecting";
	if (d->guard.first <= 0 || d->canary_until < 0)
		return "ramp";
	return d->canary_until > 0 ? "waiting" : "canary";
}

static void guard_write(struct json_out *j, const struct redrive_guard *g)
{
	char text[64];
	if (g->first > 0) {
		jout_kint(j, "first", g->first);
		if (g->canary_wait_ms > 0) {
			duration_format(g->canary_wait_ms, text);
			jout_kz(j, "canary_wait", text);
		}
	}
	if (g->rate > 0) {
		/* a slow one reads better by the minute, and parses back to the same either way */
		bool slow = g->rate < 1;
		snprintf(text, sizeof text, "%.10g/%c", slow ? g->rate * 60 : g->rate, slow ? 'm' : 's');
		jout_kz(j, "rate", text);
	}
	if (g->stop_count > 0) {
		jout_kint(j, "stop_at", g->stop_count);
	} else if (g->stop_percent > 0) {
		snprintf(text, sizeof text, "%.10g%%", g->stop_percent);
		jout_kz(j, "stop_at", text);
	}
}

struct str redrive_queue(struct http_req *r, const struct store_redrive *d)
{
	struct engine_selection sel;
	struct engine_edit edit;
	struct str queue = d->queue;
	if (!queue.n && d->plan.n && plan_read(&r->arena, d->plan, &sel, &edit, &queue, NULL) != DLQ_OK)
		queue = STR("");
	return arena_str(&r->arena, queue);
}

/* What chooses and edits, out of the plan. */
static void plan_members(struct json_out *j, const struct store_redrive *d)
{
	struct arena a = {0};
	struct engine_selection sel;
	struct engine_edit edit;
	struct str queue = STR("");
	if (d->plan.n && plan_read(&a, d->plan, &sel, &edit, &queue, NULL) == DLQ_OK) {
		struct buf text = {.max = 2048};
		plan_describe(&sel, &edit, &text);
		if (!d->queue.n && queue.n)
			jout_kstr(j, "queue", queue);
		if (!d->group_id && sel.group.n)
			jout_kstr(j, "group", sel.group);
		jout_kstr(j, "selection", buf_str(&text));
		buf_release(&text);
		jout_kint(j, "looked", d->looked);
		if (edit_any(&edit)) {
			jout_key(j, "edited");
			jout_open(j, '{');
			jout_kint(j, "changed", d->changed);
			jout_kint(j, "unchanged", d->unchanged);
			jout_kint(j, "failed", d->edit_failed);
			jout_close(j, '}');
		}
	}
	arena_release(&a);
}

void redrive_write(struct json_out *j, const struct store_redrive *d)
{
	jout_open(j, '{');
	if (d->redrive_id[0])
		jout_kz(j, "redrive_id", d->redrive_id);
	jout_kz(j, "action", redrive_action_name(d->action));
	if (d->queue.n)
		jout_kstr(j, "queue", d->queue);
	if (d->group_id)
		group_key_write(j, "group", d->group_fp);
	plan_members(j, d);
	if (d->to_queue.n)
		jout_kstr(j, "to", d->to_queue);
	jout_kz(j, "state", redrive_state_name(d->state));
	if (d->state == REDRIVE_RUNNING)
		jout_kz(j, "phase", phase(d));
	if (d->state == REDRIVE_HALTED)
		jout_kstr(j, "halted_why", d->halted_why);
	guard_write(j, &d->guard);
	jout_kstr(j, "operator", d->operator);
	jout_kstr(j, "reason", d->reason);
	jout_kint(j, "total", d->total);
	jout_kint(j, "sent", d->sent);
	jout_kint(j, "skipped", d->skipped);
	jout_kint(j, "cancelled", d->cancelled);
	jout_kint(j, "succeeded", d->succeeded);
	jout_kint(j, "failed_again", d->failed_again);
	jout_ktime(j, "started_at", d->started_at_ms);
	jout_ktime(j, "ended_at", d->ended_at_ms);
	jout_close(j, '}');
}

static void show(struct http_req *r, const struct store_redrive *d, int status)
{
	struct json_out j;
	answer_begin(r, &j);
	redrive_write(&j, d);
	answer_json(r, status);
}

static void start_done(struct http_req *r)
{
	show(r, &r->op.u.redrive.out, r->op.u.redrive.dry_run ? 200 : 202);
}

/* A positive number at the start of s, at most 20 digits and a point; the rest is left in s. */
static bool number(struct str *s, double *out)
{
	char text[24];
	size_t n = 0;
	while (n < s->n && n < sizeof text - 1 && ((s->p[n] >= '0' && s->p[n] <= '9') || s->p[n] == '.')) {
		text[n] = s->p[n];
		n++;
	}
	text[n] = '\0';
	char *end;
	*out = strtod(text, &end);
	s->p += n;
	s->n -= n;
	return n > 0 && *end == '\0' && isfinite(*out) && *out > 0;
}

/* "100/s", "6000/m", "50/h": messages a second. */
static bool read_rate(struct json_pull *j, double *rate)
{
	struct str s;
	if (!jp_str(j, &s))
		return false;
	if (number(&s, rate) && s.n == 2 && s.p[0] == '/' && (s.p[1] == 's' || s.p[1] == 'm' || s.p[1] == 'h')) {
		*rate /= s.p[1] == 's' ? 1 : s.p[1] == 'm' ? 60 : 3600;
		return true;
	}
	return jp_fail(j, DLQ_BAD_REQUEST, "rate: so many messages a second, minute or hour, such as \"100/s\" or \"6000/m\"");
}

/* 10, or "10%". */
static bool read_stop(struct json_pull *j, struct redrive_guard *g)
{
	struct str s;
	if (jp_peek(j) == '0')
		return jp_int(j, 1, FIRST_MAX, &g->stop_count);
	if (!jp_str(j, &s))
		return false;
	if (number(&s, &g->stop_percent) && g->stop_percent <= 100 && s.n == 1 && s.p[0] == '%')
		return true;
	return jp_fail(j, DLQ_BAD_REQUEST, "stop_at: a number of failures, such as 10, or a share of them above 0, such as \"10%%\"");
}

/* The token may: what was asked for becomes the operation. */
static void start(struct http_req *r)
{
	const struct wish *w = r->u.wish;
	memset(&r->op.u, 0, sizeof r->op.u);
	r->op.queue = w->queue;
	r->op.u.redrive.sel = w->sel;
	r->op.u.redrive.action = w->action;
	r->op.u.redrive.edit = w->edit;
	r->op.u.redrive.to = w->to;
	r->op.u.redrive.guard = w->guard;
	r->op.u.redrive.override_limit = w->override_limit;
	r->op.u.redrive.reason = w->reason;
	r->op.u.redrive.dry_run = w->dry_run;
	request_submit(r, OP_REDRIVE, start_done);
}

enum { REASON = WISH_FIELDS, DRY_RUN, FIRST, RATE, STOP_AT, CANARY_WAIT, OVERRIDE, TO };

static void start_field(struct http_req *r, struct json_pull *j, int field, unsigned *seen, struct wish *w)
{
	if (field >= FIRST && jp_null(j)) {
		*seen &= ~(1u << field);
		return;
	}
	switch (field) {
	case REASON: jin_reason(j, &w->reason); break;
	case DRY_RUN: jp_bool(j, &w->dry_run); break;
	case FIRST: jp_int(j, 1, FIRST_MAX, &w->guard.first); break;
	case RATE: read_rate(j, &w->guard.rate); break;
	case STOP_AT: read_stop(j, &w->guard); break;
	case CANARY_WAIT: jin_duration(j, 1000, CANARY_WAIT_MAX_MS, &w->guard.canary_wait_ms); break;
	case OVERRIDE: jp_bool(j, &w->override_limit); break;
	case TO: select_queue_name(j, "to", &w->to); break;
	default: wish_field(r, j, field, seen, w); break;
	}
}

/* What goes together. */
static void start_check(struct json_pull *j, unsigned seen, const char *const *known, const struct wish *w)
{
	wish_check(j, seen, w);
	if (!j->failed && w->dry_run && (w->by_filter || w->sel.undo.n || edit_any(&w->edit)))
		jp_fail(j, DLQ_BAD_REQUEST, "\"dry_run\" only counts; POST /v1/redrives/preview looks at what a filter, an edit or an undo would do");
	if (!j->failed && !w->dry_run && !w->reason.n)
		jp_fail(j, DLQ_BAD_REQUEST, "\"reason\" is needed: say why");
	if (!j->failed && w->guard.canary_wait_ms && !w->guard.first)
		jp_fail(j, DLQ_BAD_REQUEST, "\"canary_wait\" goes with \"first\": how many are put back before the wait");
	for (int f = FIRST; f <= TO && w->action != ACTION_REDRIVE; f++)
		if (!j->failed && (seen & 1u << f))
			jp_fail(j, DLQ_BAD_REQUEST, "\"%s\" goes with the action redrive, not with %s", known[f], redrive_action_name(w->action));
}

void api_redrive_start(struct http_req *r)
{
	static const char *const known[] = {WISH_KEYS, "reason", "dry_run", "first", "rate", "stop_at", "canary_wait", "override", "to"};
	struct wish *w = wish_new(r);
	struct json_pull j;
	struct str key;
	unsigned seen = 0;
	w->must_name_queue = true;
	if (jin_begin(r, &j))
		while (jp_key(&j, &key))
			start_field(r, &j, jp_field(&j, key, known, ARRAY_LEN(known), &seen), &seen, w);
	start_check(&j, seen, known, w);
	if (jin_end(r, &j))
		wish_allow(r, w, start);
}

static void list_done(struct http_req *r)
{
	struct json_out j;
	const int n = r->op.u.read_redrives.n;
	bool limited = auth_limited(r);
	answer_begin(r, &j);
	jout_open(&j, '{');
	jout_key(&j, "items");
	jout_open(&j, '[');
	for (int i = 0; i < n; i++) {
		const struct store_redrive *d = &r->op.u.read_redrives.items[i];
		struct str queue = limited ? redrive_queue(r, d) : STR("");
		if (!limited || (queue.n && auth_may(r, queue)))
			redrive_write(&j, d);
	}
	jout_close(&j, ']');
	cursor_int(&j, 'r', n == r->op.u.read_redrives.limit ? r->op.u.read_redrives.items[n - 1].n : 0);
	jout_close(&j, '}');
	answer_json(r, 200);
}

void api_redrive_list(struct http_req *r)
{
	memset(&r->op.u, 0, sizeof r->op.u);
	r->op.queue = STR("");
	if (query_limit(r, &r->op.u.read_redrives.limit) && query_cursor_int(r, 'r', &r->op.u.read_redrives.before_n))
		request_submit(r, OP_READ_REDRIVES, list_done);
}

/* Redrives of chosen ids carry no queue: only for a token without limits. */
static bool may_see(struct http_req *r, const struct store_redrive *d)
{
	struct str queue = redrive_queue(r, d);
	return auth_need(r, queue.n ? queue : STR("~"));
}

static void get_done(struct http_req *r)
{
	if (may_see(r, &r->op.u.read_redrive.out))
		show(r, &r->op.u.read_redrive.out, 200);
}

static void read_redrive(struct http_req *r, void (*finish)(struct http_req *))
{
	memset(&r->op.u, 0, sizeof r->op.u);
	r->op.queue = STR("");
	r->op.u.read_redrive.id = r->param;
	request_submit(r, OP_READ_REDRIVE, finish);
}

void api_redrive_get(struct http_req *r)
{
	read_redrive(r, get_done);
}

/* ---- the ledger ---- */

static void items_done(struct http_req *r)
{
	struct json_out j;
	answer_begin(r, &j);
	jout_open(&j, '{');
	jout_key(&j, "items");
	jout_open(&j, '[');
	for (int i = 0; i < r->op.u.read_redrive_items.n; i++) {
		const struct store_redrive_item *it = &r->op.u.read_redrive_items.items[i];
		jout_open(&j, '{');
		jout_kz(&j, "dlq_id", it->dlq_id);
		jout_kz(&j, "state", item_state_name(it->state));
		if (it->sent_at_ms)
			jout_ktime(&j, "sent_at", it->sent_at_ms);
		if (it->outcome_at_ms)
			jout_ktime(&j, "outcome_at", it->outcome_at_ms);
		if (it->note.n)
			jout_kstr(&j, "note", it->note);
		jout_close(&j, '}');
	}
	jout_close(&j, ']');
	cursor_int(&j, 'i', r->op.u.read_redrive_items.next_ord);
	jout_close(&j, '}');
	answer_json(r, 200);
}

static void items_allowed(struct http_req *r)
{
	if (!may_see(r, &r->op.u.read_redrive.out))
		return;
	engine_op_release(&r->op);
	memset(&r->op.u, 0, sizeof r->op.u);
	r->op.u.read_redrive_items.id = r->param;
	r->op.u.read_redrive_items.limit = r->u.page.limit;
	r->op.u.read_redrive_items.after_ord = r->u.page.after;
	request_submit(r, OP_READ_REDRIVE_ITEMS, items_done);
}

void api_redrive_items(struct http_req *r)
{
	int limit;
	int64_t after;
	if (!query_limit(r, &limit) || !query_cursor_int(r, 'i', &after))
		return;
	r->u.page.limit = limit;
	r->u.page.after = after;
	read_redrive(r, items_allowed);
}

/* ---- control ---- */

static void control_done(struct http_req *r)
{
	show(r, &r->op.u.redrive_control.out, 200);
}

static void control(struct http_req *r, enum redrive_state want)
{
	if (!may_see(r, &r->op.u.read_redrive.out))
		return;
	engine_op_release(&r->op);
	memset(&r->op.u, 0, sizeof r->op.u);
	r->op.u.redrive_control.id = r->param;
	r->op.u.redrive_control.want = want;
	request_submit(r, OP_REDRIVE_CONTROL, control_done);
}

static void pause_allowed(struct http_req *r)
{
	control(r, REDRIVE_PAUSED);
}

static void resume_allowed(struct http_req *r)
{
	control(r, REDRIVE_RUNNING);
}

static void cancel_allowed(struct http_req *r)
{
	control(r, REDRIVE_CANCELLED);
}

void api_redrive_pause(struct http_req *r)
{
	if (jin_nothing(r))
		read_redrive(r, pause_allowed);
}

void api_redrive_resume(struct http_req *r)
{
	if (jin_nothing(r))
		read_redrive(r, resume_allowed);
}

void api_redrive_cancel(struct http_req *r)
{
	if (jin_nothing(r))
		read_redrive(r, cancel_allowed);
}
