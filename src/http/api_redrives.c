/* Redrives: start, list, show, ledger, pause, resume, cancel. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fingerprint.h"
#include "http/http.h"
#include "http/json_in.h"

#define IDS_MAX 1000
#define FIRST_MAX ((int64_t)1000000000)
#define CANARY_WAIT_MAX_MS ((int64_t)7 * 86400000)

/* Where a running one is: "canary", "waiting" for its outcomes, then "ramp". */
static const char *phase(const struct store_redrive *d)
{
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

void redrive_write(struct json_out *j, const struct store_redrive *d)
{
	jout_open(j, '{');
	if (d->redrive_id[0])
		jout_kz(j, "redrive_id", d->redrive_id);
	if (d->queue.n)
		jout_kstr(j, "queue", d->queue);
	if (d->group_id)
		group_key_write(j, "group", d->group_fp);
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

static void read_ids(struct http_req *r, struct json_pull *j, struct str **ids, int *n)
{
	if (!jp_array(j))
		return;
	*ids = arena_alloc(&r->arena, IDS_MAX * sizeof **ids);
	while (jp_item(j)) {
		struct str id;
		if (*n == IDS_MAX) {
			jp_fail(j, DLQ_TOO_LARGE, "at most %d ids; redrive the whole queue instead", IDS_MAX);
			return;
		}
		if (!jp_str(j, &id))
			return;
		if (message_id_check(id)) {
			jp_fail(j, DLQ_BAD_REQUEST, "not a dlq_id");
			return;
		}
		(*ids)[(*n)++] = id;
	}
	if (!j->failed && !*n)
		jp_fail(j, DLQ_BAD_REQUEST, "\"ids\" is empty");
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

/* What the body asked for, kept while the group is read. */
struct redrive_wish {
	struct str queue, group, reason, *ids;
	int n_ids;
	bool dry_run, override_limit;
	struct redrive_guard guard;
};

static void start(struct http_req *r, const struct redrive_wish *w, struct str queue)
{
	memset(&r->op.u, 0, sizeof r->op.u);
	r->op.queue = queue;
	r->op.u.redrive.ids = w->ids;
	r->op.u.redrive.n_ids = w->n_ids;
	r->op.u.redrive.group = w->group;
	r->op.u.redrive.guard = w->guard;
	r->op.u.redrive.override_limit = w->override_limit;
	r->op.u.redrive.reason = w->reason;
	r->op.u.redrive.dry_run = w->dry_run;
	request_submit(r, OP_REDRIVE, start_done);
}

/* The group is there: its queue decides whether the token may. */
static void start_group(struct http_req *r)
{
	if (!auth_need(r, r->op.u.read_group.out.queue))
		return;
	struct str queue = arena_str(&r->arena, r->op.u.read_group.out.queue);
	engine_op_release(&r->op);
	start(r, r->u.redrive, queue);
}

static void read_group(struct json_pull *j, struct str *out)
{
	if (jp_str(j, out) && !fingerprint_text_valid(*out))
		jp_fail(j, DLQ_BAD_REQUEST, "group: %d characters out of 0-9 a-f, as GET /v1/groups shows it", FINGERPRINT_TEXT_LEN);
}

void api_redrive_start(struct http_req *r)
{
	static const char *const known[] = {"queue", "ids", "group", "reason", "dry_run", "first", "rate", "stop_at", "canary_wait",
	                                    "override"};
	struct redrive_wish *w = arena_alloc(&r->arena, sizeof *w);
	struct json_pull j;
	struct str key;
	unsigned seen = 0;
	if (jin_begin(r, &j)) {
		while (jp_key(&j, &key)) {
			int f = jp_field(&j, key, known, ARRAY_LEN(known), &seen);
			if (f >= 5 && jp_null(&j))
				continue;
			switch (f) {
			case 0:
				if (jp_str(&j, &w->queue) && queue_name_check(w->queue))
					jp_fail(&j, DLQ_INVALID_NAME, "queue: the rule for names is: %s", QUEUE_NAME_RULE);
				break;
			case 1: read_ids(r, &j, &w->ids, &w->n_ids); break;
			case 2: read_group(&j, &w->group); break;
			case 3: jin_reason(&j, &w->reason); break;
			case 4: jp_bool(&j, &w->dry_run); break;
			case 5: jp_int(&j, 1, FIRST_MAX, &w->guard.first); break;
			case 6: read_rate(&j, &w->guard.rate); break;
			case 7: read_stop(&j, &w->guard); break;
			case 8: jin_duration(&j, 1000, CANARY_WAIT_MAX_MS, &w->guard.canary_wait_ms); break;
			case 9: jp_bool(&j, &w->override_limit); break;
			default: break;
			}
		}
	}
	unsigned which = seen & 7;
	if (!j.failed && (which == 0 || (which & (which - 1)) != 0))
		jp_fail(&j, DLQ_BAD_REQUEST, "there must be one of \"queue\", \"group\" and \"ids\"");
	if (!j.failed && !w->dry_run && !w->reason.n)
		jp_fail(&j, DLQ_BAD_REQUEST, "\"reason\" is needed: say why they are put back");
	if (!j.failed && w->guard.canary_wait_ms && !w->guard.first)
		jp_fail(&j, DLQ_BAD_REQUEST, "\"canary_wait\" goes with \"first\": how many are put back before the wait");
	if (!jin_end(r, &j))
		return;
	if (w->group.n) {
		r->u.redrive = w;
		group_read(r, w->group, start_group);
		return;
	}
	/* ids may be of any queue: only for a token without limits; others name the queue or redrive one by one */
	if (auth_need(r, w->queue.n ? w->queue : STR("~")))
		start(r, w, w->queue);
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
		if (!limited || (d->queue.n && auth_may(r, d->queue)))
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
	return auth_need(r, d->queue.n ? d->queue : STR("~"));
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
