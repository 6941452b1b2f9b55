#include "http/select.h"

#include <string.h>

#include "core/fingerprint.h"
#include "http/json_in.h"

struct wish *wish_new(struct http_req *r)
{
	struct wish *w = arena_alloc(&r->arena, sizeof *w);
	w->sel.filter.state = w->sel.filter.reason = -1;
	w->preview_limit = PREVIEW_ITEMS;
	r->u.wish = w;
	return w;
}

/* ---- values ---- */

#define REASON_RULE "must be permanent, max_attempts, lease_expired, malformed, expired, queue_full, rejected, delivery_limit or unknown"

static bool reason_read(struct str s, int *out)
{
	enum reason reason;
	if (!reason_parse(s, &reason) || reason == REASON_NONE)
		return false;
	*out = (int)reason;
	return true;
}

/* A condition: text that is not empty, since an empty one would quietly mean everything. */
static bool read_text(struct json_pull *j, const char *name, size_t max, struct str *out)
{
	if (!jp_str(j, out))
		return false;
	if (!out->n)
		return jp_fail(j, DLQ_BAD_REQUEST, "%s: must not be empty; leave it out for any", name);
	return out->n <= max || jp_fail(j, DLQ_BAD_REQUEST, "%s: at most %zu bytes", name, max);
}

void select_queue_name(struct json_pull *j, const char *what, struct str *out)
{
	if (jp_str(j, out) && queue_name_check(*out))
		jp_fail(j, DLQ_INVALID_NAME, "%s: the rule for names is: %s", what, QUEUE_NAME_RULE);
}

static void read_group(struct json_pull *j, struct wish *w)
{
	if (jp_str(j, &w->group) && !fingerprint_text_valid(w->group))
		jp_fail(j, DLQ_BAD_REQUEST, "group: %d characters out of 0-9 a-f, as GET /v1/groups shows it", FINGERPRINT_TEXT_LEN);
	w->sel.group = w->group;
}

static void read_id(struct json_pull *j, const char *what, struct str *out)
{
	if (jp_str(j, out) && message_id_check(*out))
		jp_fail(j, DLQ_BAD_REQUEST, "%s: %s", what, MESSAGE_ID_RULE);
}

static void read_time(struct json_pull *j, const char *what, int64_t *ms)
{
	struct str s;
	if (jp_str(j, &s) && (!time_parse(s, ms) || *ms <= 0))
		jp_fail(j, DLQ_BAD_REQUEST, "%s must be an RFC 3339 time, such as 2026-12-01T03:04:05Z", what);
}

static void read_ids(struct http_req *r, struct json_pull *j, struct engine_selection *sel)
{
	if (!jp_array(j))
		return;
	sel->ids = arena_alloc(&r->arena, IDS_MAX * sizeof *sel->ids);
	while (jp_item(j)) {
		struct str id;
		if (sel->n_ids == IDS_MAX) {
			jp_fail(j, DLQ_TOO_LARGE, "at most %d ids; choose the whole queue, a group or a filter instead", IDS_MAX);
			return;
		}
		if (!jp_str(j, &id))
			return;
		if (message_id_check(id)) {
			jp_fail(j, DLQ_BAD_REQUEST, "not a dlq_id");
			return;
		}
		sel->ids[sel->n_ids++] = id;
	}
	if (!j->failed && !sel->n_ids)
		jp_fail(j, DLQ_BAD_REQUEST, "\"ids\" is empty");
}

#define HEADER_RULE "a message header's name is 1 to 128 characters out of a-z 0-9 . _ -"

/* {name: value}, at most max of them, names in lower case. */
static void read_headers(struct http_req *r, struct json_pull *j, const char *what, int max, const struct store_header **out, int *n)
{
	struct store_header *list = arena_alloc(&r->arena, (size_t)max * sizeof *list);
	struct str key;
	if (!jp_object(j))
		return;
	while (jp_key(j, &key)) {
		struct store_header h = {.name = key};
		if (*n == max)
			jp_fail(j, DLQ_BAD_REQUEST, "%s: at most %d headers", what, max);
		else if (!header_name(&r->arena, &h.name))
			jp_fail(j, DLQ_BAD_REQUEST, "%s: %s", what, HEADER_RULE);
		for (int i = 0; i < *n && !j->failed; i++)
			if (str_eq(list[i].name, h.name))
				jp_fail(j, DLQ_BAD_REQUEST, "%s: " STR_FMT " is there twice", what, STR_ARG(h.name));
		if (!jp_str(j, &h.value))
			return;
		list[(*n)++] = h;
	}
	*out = list;
	if (!j->failed && !*n)
		jp_fail(j, DLQ_BAD_REQUEST, "%s: must not be empty; leave it out", what);
}

static void read_names(struct http_req *r, struct json_pull *j, struct engine_edit *e)
{
	struct str *list = arena_alloc(&r->arena, EDIT_HEADERS_MAX * sizeof *list), name;
	if (!jp_array(j))
		return;
	while (jp_item(j)) {
		if (!jp_str(j, &name))
			return;
		if (e->n_remove == EDIT_HEADERS_MAX)
			jp_fail(j, DLQ_BAD_REQUEST, "remove_headers: at most %d headers", EDIT_HEADERS_MAX);
		else if (!header_name(&r->arena, &name))
			jp_fail(j, DLQ_BAD_REQUEST, "remove_headers: " HEADER_RULE);
		else
			list[e->n_remove++] = name;
	}
	e->remove = list;
	if (!j->failed && !e->n_remove)
		jp_fail(j, DLQ_BAD_REQUEST, "remove_headers: must not be empty; leave it out");
}

/* ---- JSON documents ---- */

/* Whether the filter says more than queue and group. */
static bool says_more(const struct engine_selection *sel)
{
	const struct store_dead_filter *f = &sel->filter;
	return f->reason >= 0 || f->message_id.n || f->key.n || f->error_type.n || f->n_headers || f->died_from_ms || f->died_to_ms ||
	       f->expires_before || f->text.n || sel->where.n || sel->redrive.n;
}

static void expires_within(struct http_req *r, int64_t ms, struct store_dead_filter *f)
{
	f->expires_before = clock_now_ms(r->s->clock) + ms;
}

static void filter_field(struct http_req *r, struct json_pull *j, int field, struct wish *w)
{
	struct store_dead_filter *f = &w->sel.filter;
	struct str s;
	int64_t ms;
	switch (field) {
	case 0: select_queue_name(j, "queue", &w->queue); break;
	case 1: read_group(j, w); break;
	case 2:
		if (jp_str(j, &s) && !reason_read(s, &f->reason))
			jp_fail(j, DLQ_BAD_REQUEST, "reason " REASON_RULE);
		break;
	case 3: read_text(j, "error_type", TEXT_MAX, &f->error_type); break;
	case 4: read_text(j, "key", TEXT_MAX, &f->key); break;
	case 5: read_id(j, "id", &f->message_id); break;
	case 6: read_headers(r, j, "headers", FILTER_HEADERS_MAX, &f->headers, &f->n_headers); break;
	case 7: read_id(j, "redrive", &w->sel.redrive); break;
	case 8: read_time(j, "from", &f->died_from_ms); break;
	case 9: read_time(j, "to", &f->died_to_ms); break;
	case 10:
		if (jin_duration(j, 1, DURATION_MAX_MS, &ms))
			expires_within(r, ms, f);
		break;
	case 11: read_text(j, "text", TEXT_MAX, &f->text); break;
	case 12: read_text(j, "where", PROGRAM_MAX, &w->sel.where); break;
	default: break;
	}
}

static void filter_read(struct http_req *r, struct json_pull *j, struct wish *w)
{
	static const char *const known[] = {"queue", "group", "reason", "error_type", "key", "id", "headers", "redrive", "from", "to",
	                                    "expires_within", "text", "where"};
	struct str key;
	unsigned seen = 0;
	w->by_filter = true;
	if (!jp_object(j))
		return;
	while (jp_key(j, &key))
		filter_field(r, j, jp_field(j, key, known, ARRAY_LEN(known), &seen), w);
	w->sel.filtered = says_more(&w->sel);
	if (!j->failed && !seen)
		jp_fail(j, DLQ_BAD_REQUEST, "the filter is empty: it would take every dead letter of every queue; say at least a queue or a time");
	if (!j->failed && w->sel.filter.key.n && !(seen & 3))
		jp_fail(j, DLQ_BAD_REQUEST, "key works together with queue or group");
}

void edit_read(struct http_req *r, struct json_pull *j, struct engine_edit *e)
{
	static const char *const known[] = {"jq", "set_headers", "remove_headers", "from"};
	struct str key, from = {0};
	unsigned seen = 0;
	if (!jp_object(j))
		return;
	while (jp_key(j, &key)) {
		switch (jp_field(j, key, known, ARRAY_LEN(known), &seen)) {
		case 0: read_text(j, "jq", PROGRAM_MAX, &e->program); break;
		case 1: read_headers(r, j, "set_headers", EDIT_HEADERS_MAX, &e->set, &e->n_set); break;
		case 2: read_names(r, j, e); break;
		case 3: read_text(j, "from", 16, &from); break;
		default: break;
		}
	}
	e->from_edited = str_eqz(from, "edited");
	if (!j->failed && from.n && !e->from_edited && !str_eqz(from, "original"))
		jp_fail(j, DLQ_BAD_REQUEST, "from must be \"original\" or \"edited\"");
	if (!j->failed && !(seen & 7))
		jp_fail(j, DLQ_BAD_REQUEST, "the edit is empty; there must be \"jq\", \"set_headers\" or \"remove_headers\"");
	for (int i = 0; i < e->n_set; i++)
		for (int k = 0; k < e->n_remove && !j->failed; k++)
			if (str_eq(e->set[i].name, e->remove[k]))
				jp_fail(j, DLQ_BAD_REQUEST, "header " STR_FMT " is both set and removed", STR_ARG(e->remove[k]));
}

bool edit_any(const struct engine_edit *e)
{
	return e->program.n || e->n_set || e->n_remove;
}

void wish_field(struct http_req *r, struct json_pull *j, int field, unsigned *seen, struct wish *w)
{
	struct str s;
	if (field >= 5 && jp_null(j)) {
		*seen &= ~(1u << field);
		return;
	}
	switch (field) {
	case 0: select_queue_name(j, "queue", &w->queue); break;
	case 1: read_group(j, w); break;
	case 2: read_ids(r, j, &w->sel); break;
	case 3: filter_read(r, j, w); break;
	case 4: read_id(j, "undo", &w->sel.undo); break;
	case 5:
		if (jp_str(j, &s) && !redrive_action_parse(s, &w->action))
			jp_fail(j, DLQ_BAD_REQUEST, "action must be redrive, discard, archive or restore");
		break;
	default: edit_read(r, j, &w->edit); break;
	}
}

void wish_check(struct json_pull *j, unsigned seen, const struct wish *w)
{
	unsigned which = seen & WISH_SELECTS;
	if (!j->failed && (which == 0 || (which & (which - 1)) != 0))
		jp_fail(j, DLQ_BAD_REQUEST, "there must be one of \"queue\", \"group\", \"ids\", \"filter\" and \"undo\"");
	if (!j->failed && w->sel.undo.n && w->action != ACTION_RESTORE)
		jp_fail(j, DLQ_BAD_REQUEST, "\"undo\" goes with \"action\": \"restore\"; it takes back what a discard or an archive did");
	if (!j->failed && edit_any(&w->edit) && w->action != ACTION_REDRIVE)
		jp_fail(j, DLQ_BAD_REQUEST, "\"edit\" goes with the action redrive, not with %s", redrive_action_name(w->action));
}

/* ---- queries ---- */

static bool query_time(struct http_req *r, const char *name, int64_t *ms)
{
	bool given;
	struct str s = query_get(r, name, &given);
	if (given && (!time_parse(s, ms) || *ms <= 0)) {
		answer_problem(r, DLQ_BAD_REQUEST, "%s must be an RFC 3339 time, such as 2026-12-01T03:04:05Z", name);
		return false;
	}
	return true;
}

static bool query_text(struct http_req *r, const char *name, size_t max, struct str *out)
{
	bool given;
	*out = query_get(r, name, &given);
	if (given && (!out->n || out->n > max)) {
		answer_problem(r, DLQ_BAD_REQUEST, "%s: 1 to %zu bytes; leave it out for any", name, max);
		return false;
	}
	return true;
}

static bool query_state(struct http_req *r, struct store_dead_filter *f)
{
	bool given;
	enum dead_state state = DEAD_DEAD;
	struct str s = query_get(r, "state", &given);
	if (given && !str_eqz(s, "any") && !dead_state_parse(s, &state)) {
		answer_problem(r, DLQ_BAD_REQUEST, "state must be dead, redriving, redriven, discarded, archived or any");
		return false;
	}
	f->state = given && str_eqz(s, "any") ? -1 : (int)state;
	s = query_get(r, "reason", &given);
	if (given && !reason_read(s, &f->reason)) {
		answer_problem(r, DLQ_BAD_REQUEST, "reason " REASON_RULE);
		return false;
	}
	return true;
}

/* Every header=name=value. */
static bool query_headers(struct http_req *r, struct store_dead_filter *f)
{
	struct store_header *list = arena_alloc(&r->arena, FILTER_HEADERS_MAX * sizeof *list);
	for (int i = 0; i < r->n_query; i++) {
		struct str v = r->query[i].value;
		if (!str_eqz(r->query[i].name, "header"))
			continue;
		if (f->n_headers == FILTER_HEADERS_MAX) {
			answer_problem(r, DLQ_BAD_REQUEST, "header: at most %d may be there", FILTER_HEADERS_MAX);
			return false;
		}
		const char *eq = v.n ? memchr(v.p, '=', v.n) : NULL;
		struct store_header *h = &list[f->n_headers++];
		h->name = (struct str){v.p, eq ? (size_t)(eq - v.p) : 0};
		if (!eq || !header_name(&r->arena, &h->name)) {
			answer_problem(r, DLQ_BAD_REQUEST, "header must be name=value, such as header=tenant=acme; " HEADER_RULE);
			return false;
		}
		h->value = (struct str){eq + 1, v.n - (size_t)(eq + 1 - v.p)};
	}
	f->headers = list;
	return true;
}

static bool query_expires(struct http_req *r, struct store_dead_filter *f)
{
	bool given;
	int64_t ms = 0;
	struct str s = query_get(r, "expires_within", &given);
	if (given && (!duration_parse(s, &ms) || ms < 1)) {
		answer_problem(r, DLQ_BAD_REQUEST, "expires_within: longer than 0; %s", DURATION_RULE);
		return false;
	}
	if (given)
		expires_within(r, ms, f);
	return true;
}

static bool query_names(struct http_req *r, struct wish *w)
{
	bool given;
	w->queue = query_get(r, "queue", &given);
	if (given && queue_name_check(w->queue)) {
		answer_problem(r, DLQ_INVALID_NAME, "queue: the rule for names is: %s", QUEUE_NAME_RULE);
		return false;
	}
	w->group = query_get(r, "group", &given);
	w->sel.group = w->group;
	if (given && !fingerprint_text_valid(w->group)) {
		answer_problem(r, DLQ_NOT_FOUND, "there is no such group; `group` is %d characters out of 0-9 a-f, GET /v1/groups lists them",
		               FINGERPRINT_TEXT_LEN);
		return false;
	}
	w->sel.redrive = query_get(r, "redrive", &given);
	if (given && message_id_check(w->sel.redrive)) {
		answer_problem(r, DLQ_BAD_REQUEST, "redrive: %s", MESSAGE_ID_RULE);
		return false;
	}
	return true;
}

bool wish_query(struct http_req *r, struct wish *w)
{
	struct store_dead_filter *f = &w->sel.filter;
	if (!query_state(r, f) || !query_names(r, w) || !query_headers(r, f) || !query_expires(r, f) ||
	    !query_text(r, "text", TEXT_MAX, &f->text) || !query_text(r, "where", PROGRAM_MAX, &w->sel.where))
		return false;
	f->message_id = query_get(r, "id", NULL);
	f->key = query_get(r, "key", NULL);
	f->error_type = query_get(r, "error_type", NULL);
	if (f->key.n && !w->queue.n && !w->group.n) {
		answer_problem(r, DLQ_BAD_REQUEST, "key works together with queue or group; give both");
		return false;
	}
	if (!query_time(r, "from", &f->died_from_ms) || !query_time(r, "to", &f->died_to_ms) || !query_limit(r, &f->limit) ||
	    !query_cursor_int(r, 'd', &f->before_no))
		return false;
	w->sel.filtered = says_more(&w->sel);
	return true;
}

/* ---- rights ---- */

static void decide(struct http_req *r)
{
	struct wish *w = r->u.wish;
	/* ids may be of any queue, as a filter that names none: only for a token without limits */
	if (w->queue.n ? !auth_need(r, w->queue) : w->must_name_queue && !auth_need(r, STR("~")))
		return;
	if (w->to.n && !auth_need(r, w->to))
		return;
	w->then(r);
}

static void redrive_found(struct http_req *r)
{
	struct wish *w = r->u.wish;
	const struct store_redrive *d = &r->op.u.read_redrive.out;
	w->redrive_n = d->n;
	if (w->sel.undo.n)
		w->queue = redrive_queue(r, d);
	engine_op_release(&r->op);
	decide(r);
}

/* A list is read with the number of its redrive; for a job to undo, its queue decides. */
static void look_at_redrive(struct http_req *r)
{
	struct wish *w = r->u.wish;
	struct str id = w->sel.undo.n ? w->sel.undo : w->sel.redrive;
	if (!id.n) {
		decide(r);
		return;
	}
	memset(&r->op.u, 0, sizeof r->op.u);
	r->op.queue = STR("");
	r->op.u.read_redrive.id = id;
	request_submit(r, OP_READ_REDRIVE, redrive_found);
}

static void group_found(struct http_req *r)
{
	struct wish *w = r->u.wish;
	const struct store_group *g = &r->op.u.read_group.out;
	if (!auth_need(r, g->queue))
		return;
	if (w->queue.n && !str_eq(w->queue, g->queue)) {
		answer_problem(r, DLQ_BAD_REQUEST, "the group is of queue " STR_FMT ", not of " STR_FMT, STR_ARG(g->queue), STR_ARG(w->queue));
		return;
	}
	w->queue = arena_str(&r->arena, g->queue);
	w->group_id = g->group_id;
	engine_op_release(&r->op);
	look_at_redrive(r);
}

void wish_allow(struct http_req *r, struct wish *w, void (*then)(struct http_req *r))
{
	w->then = then;
	if (w->group.n)
		group_read(r, w->group, group_found);
	else
		look_at_redrive(r);
}
