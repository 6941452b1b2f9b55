/* Dead letters: list, show, body, redrive one, discard, restore. */
#include <string.h>

#include "engine/record.h"
#include "http/http.h"
#include "http/json_in.h"

void dead_write(struct json_out *j, const struct store_dead *d)
{
	jout_open(j, '{');
	record_members(j, d);
	jout_close(j, '}');
}

/* ---- list ---- */

static void list_done(struct http_req *r)
{
	struct json_out j;
	const struct store_dead_page *page = &r->op.u.read_dead_list.page;
	answer_begin(r, &j);
	jout_open(&j, '{');
	jout_key(&j, "items");
	jout_open(&j, '[');
	for (int i = 0; i < page->n; i++) {
		if (auth_may(r, page->items[i].queue))
			dead_write(&j, &page->items[i]);
	}
	jout_close(&j, ']');
	cursor_int(&j, 'd', page->next_no);
	jout_kint(&j, "scanned", page->scanned);
	jout_close(&j, '}');
	answer_json(r, 200);
}

static bool read_time(struct http_req *r, const char *name, int64_t *ms)
{
	bool given;
	struct str s = query_get(r, name, &given);
	if (given && (!time_parse(s, ms) || *ms <= 0)) {
		answer_problem(r, DLQ_BAD_REQUEST, "%s must be an RFC 3339 time, such as 2026-12-01T03:04:05Z", name);
		return false;
	}
	return true;
}

static bool read_filter(struct http_req *r, struct store_dead_filter *f)
{
	bool given;
	enum dead_state state = DEAD_DEAD;
	enum reason reason;
	struct str s = query_get(r, "state", &given);
	f->state = DEAD_DEAD;
	f->reason = -1;
	if (given && str_eqz(s, "any")) {
		f->state = -1;
	} else if (given && (!dead_state_parse(s, &state) || state == DEAD_ARCHIVED)) {
		answer_problem(r, DLQ_BAD_REQUEST, "state must be dead, redriving, redriven, discarded or any");
		return false;
	} else if (given) {
		f->state = state;
	}
	s = query_get(r, "reason", &given);
	if (given && (!reason_parse(s, &reason) || reason == REASON_NONE)) {
		answer_problem(r, DLQ_BAD_REQUEST, "reason must be permanent, max_attempts, lease_expired, malformed, expired, queue_full, "
		               "rejected, delivery_limit or unknown");
		return false;
	}
	if (given)
		f->reason = (int)reason;
	f->message_id = query_get(r, "id", NULL);
	f->key = query_get(r, "key", NULL);
	f->error_type = query_get(r, "error_type", NULL);
	r->op.queue = query_get(r, "queue", &given);
	if (given && queue_name_check(r->op.queue)) {
		answer_problem(r, DLQ_INVALID_NAME, "queue: the rule for names is: %s", QUEUE_NAME_RULE);
		return false;
	}
	if (f->key.n && !r->op.queue.n) {
		answer_problem(r, DLQ_BAD_REQUEST, "key works together with queue; give both");
		return false;
	}
	return read_time(r, "from", &f->died_from_ms) && read_time(r, "to", &f->died_to_ms) && query_limit(r, &f->limit) &&
	       query_cursor_int(r, 'd', &f->before_no);
}

/* The group is there: its number takes the place of its fingerprint. */
static void group_found(struct http_req *r)
{
	const struct store_group *g = &r->op.u.read_group.out;
	struct str queue = query_get(r, "queue", NULL);
	if (!auth_need(r, g->queue))
		return;
	if (queue.n && !str_eq(queue, g->queue)) {
		answer_problem(r, DLQ_BAD_REQUEST, "the group is of queue " STR_FMT ", not of " STR_FMT, STR_ARG(g->queue), STR_ARG(queue));
		return;
	}
	r->u.filter->group_id = g->group_id;
	queue = arena_str(&r->arena, g->queue);
	engine_op_release(&r->op);
	memset(&r->op.u, 0, sizeof r->op.u);
	r->op.queue = queue;
	r->op.u.read_dead_list.filter = *r->u.filter;
	request_submit(r, OP_READ_DEAD_LIST, list_done);
}

void api_dead_list(struct http_req *r)
{
	bool by_group;
	struct str group = query_get(r, "group", &by_group);
	memset(&r->op.u, 0, sizeof r->op.u);
	if (!read_filter(r, &r->op.u.read_dead_list.filter))
		return;
	if (r->op.queue.n && !auth_need(r, r->op.queue))
		return;
	if (!by_group) {
		request_submit(r, OP_READ_DEAD_LIST, list_done);
		return;
	}
	struct store_dead_filter *f = arena_alloc(&r->arena, sizeof *f);
	*f = r->op.u.read_dead_list.filter;
	r->u.filter = f;
	group_read(r, group, group_found);
}

/* ---- one ---- */

static void get_done(struct http_req *r)
{
	struct json_out j;
	const struct store_dead *d = &r->op.u.read_dead.out;
	if (!auth_need(r, d->queue))
		return;
	answer_begin(r, &j);
	jout_open(&j, '{');
	record_members(&j, d);
	record_details(&j, d, r->op.u.read_dead.attempts, r->op.u.read_dead.n_attempts, r->s->clock);
	jout_close(&j, '}');
	answer_json(r, 200);
}

static void read_dead(struct http_req *r, void (*finish)(struct http_req *))
{
	memset(&r->op.u, 0, sizeof r->op.u);
	r->op.queue = STR("");
	r->op.u.read_dead.id = r->param;
	request_submit(r, OP_READ_DEAD, finish);
}

void api_dead_get(struct http_req *r)
{
	read_dead(r, get_done);
}

static void body_done(struct http_req *r)
{
	struct str type = r->op.u.read_body.content_type;
	/* Sent as it was stored; a type that cannot stand in a header is left out. */
	bool plain = type.n > 0 && type.n < 256;
	for (size_t i = 0; i < type.n; i++)
		plain = plain && (unsigned char)type.p[i] >= 0x20 && (unsigned char)type.p[i] < 0x7f;
	buf_clear(&r->out);
	buf_adds(&r->out, r->op.u.read_body.body);
	answer_bytes(r, 200, plain ? arena_str(&r->arena, type).p : "application/octet-stream");
}

/* The dead letter is there and the token may see its queue. */
static void body_allowed(struct http_req *r)
{
	bool original = r->u.flag;
	if (!auth_need(r, r->op.u.read_dead.out.queue))
		return;
	struct str id = arena_str(&r->arena, str_of(r->op.u.read_dead.out.dlq_id));
	int64_t bytes = r->op.u.read_dead.out.body_bytes;
	engine_op_release(&r->op);
	memset(&r->op.u, 0, sizeof r->op.u);
	r->op.u.read_body.id = id;
	r->op.u.read_body.original = original;
	request_submit_large(r, OP_READ_BODY, body_done, bytes);
}

void api_dead_body(struct http_req *r)
{
	bool given;
	struct str s = query_get(r, "original", &given);
	if (given && !str_eqz(s, "true") && !str_eqz(s, "false")) {
		answer_problem(r, DLQ_BAD_REQUEST, "original must be true or false");
		return;
	}
	r->u.flag = str_eqz(s, "true");
	read_dead(r, body_allowed);
}

/* ---- changes: the dead letter is read first, for its queue and its dlq_id ---- */

/* What the body said, kept while the dead letter is read. */
struct change {
	struct str id, reason, body;
	bool edited, override_limit, restore;
};

static void redrive_done(struct http_req *r)
{
	struct json_out j;
	answer_begin(r, &j);
	redrive_write(&j, &r->op.u.redrive.out);
	answer_json(r, 202);
}

/* discard and restore */
static void state_done(struct http_req *r)
{
	struct json_out j;
	answer_begin(r, &j);
	jout_open(&j, '{');
	jout_kstr(&j, "dlq_id", r->op.u.discard.id);
	jout_kz(&j, "state", dead_state_name(r->u.change->restore ? DEAD_DEAD : DEAD_DISCARDED));
	jout_close(&j, '}');
	answer_json(r, 200);
}

static bool change_begin(struct http_req *r, struct change *c)
{
	if (!auth_need(r, r->op.u.read_dead.out.queue))
		return false;
	c->id = arena_str(&r->arena, str_of(r->op.u.read_dead.out.dlq_id));
	struct str queue = arena_str(&r->arena, r->op.u.read_dead.out.queue);
	engine_op_release(&r->op);
	memset(&r->op.u, 0, sizeof r->op.u);
	r->op.queue = queue;
	return true;
}

static void redrive_allowed(struct http_req *r)
{
	struct change *c = r->u.change;
	if (!change_begin(r, c))
		return;
	r->op.u.redrive.ids = &c->id;
	r->op.u.redrive.n_ids = 1;
	r->op.u.redrive.body = c->edited ? &c->body : NULL;
	r->op.u.redrive.reason = c->reason;
	r->op.u.redrive.override_limit = c->override_limit;
	request_submit(r, OP_REDRIVE, redrive_done);
}

void api_dead_redrive(struct http_req *r)
{
	static const char *const known[] = {"reason", "body", "body_base64", "override"};
	struct json_pull j;
	struct str key;
	unsigned seen = 0;
	struct change *c = arena_alloc(&r->arena, sizeof *c);
	if (jin_begin(r, &j)) {
		while (jp_key(&j, &key)) {
			switch (jp_field(&j, key, known, ARRAY_LEN(known), &seen)) {
			case 0: jin_reason(&j, &c->reason); break;
			case 1: jp_str(&j, &c->body); break;
			case 2: jin_base64(&j, &r->arena, &c->body); break;
			case 3: jp_bool(&j, &c->override_limit); break;
			default: break;
			}
		}
	}
	c->edited = (seen & 6) != 0;
	if (!j.failed && (seen & 6) == 6)
		jp_fail(&j, DLQ_BAD_REQUEST, "only one of \"body\" and \"body_base64\"");
	if (!j.failed && !(seen & 1))
		jp_fail(&j, DLQ_BAD_REQUEST, "\"reason\" is needed: say why it is put back");
	if (!j.failed && (int64_t)c->body.n > r->s->lim.max_message_bytes)
		jp_fail(&j, DLQ_TOO_LARGE, "the body has %zu bytes, at most %lld are taken", c->body.n, (long long)r->s->lim.max_message_bytes);
	if (!jin_end(r, &j))
		return;
	r->u.change = c;
	read_dead(r, redrive_allowed);
}

static void state_allowed(struct http_req *r)
{
	struct change *c = r->u.change;
	if (!change_begin(r, c))
		return;
	r->op.u.discard.id = c->id;
	r->op.u.discard.reason = c->reason;
	request_submit(r, c->restore ? OP_RESTORE : OP_DISCARD, state_done);
}

static void change_state(struct http_req *r, bool restore)
{
	static const char *const known[] = {"reason"};
	struct json_pull j;
	struct str key;
	unsigned seen = 0;
	struct change *c = arena_alloc(&r->arena, sizeof *c);
	c->restore = restore;
	if (jin_begin(r, &j))
		while (jp_key(&j, &key))
			if (jp_field(&j, key, known, ARRAY_LEN(known), &seen) == 0)
				jin_reason(&j, &c->reason);
	if (!j.failed && !seen)
		jp_fail(&j, DLQ_BAD_REQUEST, "\"reason\" is needed: say why it is %s", restore ? "wanted back" : "dropped");
	if (!jin_end(r, &j))
		return;
	r->u.change = c;
	read_dead(r, state_allowed);
}

void api_dead_discard(struct http_req *r)
{
	change_state(r, false);
}

void api_dead_restore(struct http_req *r)
{
	change_state(r, true);
}
