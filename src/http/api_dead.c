/* Dead letters: list, show, body, redrive one, discard, archive, restore. */
#include <string.h>

#include "engine/record.h"
#include "http/http.h"
#include "http/json_in.h"
#include "http/select.h"

void dead_write(struct http_req *r, struct json_out *j, const struct store_dead *d)
{
	jout_open(j, '{');
	record_members(j, d, r->s->clock, r->s->lim.expires_soon_ms);
	jout_close(j, '}');
}

/* ---- list ---- */

void scan_write(struct json_out *j, const struct engine_scan *scan, struct str where)
{
	if (!where.n)
		return;
	jout_kint(j, "errors", scan->errors);
	if (scan->errors)
		jout_kstr(j, "first_error", scan->first_error);
}

static void page_write(struct http_req *r, const struct store_dead_page *page, const struct engine_scan *scan)
{
	struct json_out j;
	answer_begin(r, &j);
	jout_open(&j, '{');
	jout_key(&j, "items");
	jout_open(&j, '[');
	for (int i = 0; i < page->n; i++) {
		if (auth_may(r, page->items[i].queue))
			dead_write(r, &j, &page->items[i]);
	}
	jout_close(&j, ']');
	cursor_int(&j, 'd', page->next_no);
	jout_kint(&j, "scanned", scan ? scan->looked : page->scanned);
	if (scan)
		scan_write(&j, scan, r->u.wish->sel.where);
	jout_close(&j, '}');
	answer_json(r, 200);
}

static void list_done(struct http_req *r)
{
	page_write(r, &r->op.u.read_dead_list.page, NULL);
}

static void scan_done(struct http_req *r)
{
	page_write(r, &r->op.u.scan_dead.page, &r->op.u.scan_dead.scan);
}

/* Whether bodies are looked at: the engine has a thread of its own for that; the rest is read like everything else. */
static bool looks_into_bodies(const struct wish *w)
{
	return w->sel.where.n || w->sel.filter.text.n;
}

static void list(struct http_req *r)
{
	struct wish *w = r->u.wish;
	memset(&r->op.u, 0, sizeof r->op.u);
	r->op.queue = w->queue;
	if (looks_into_bodies(w)) {
		r->op.u.scan_dead.sel = w->sel;
		request_submit(r, OP_SCAN_DEAD, scan_done);
		return;
	}
	w->sel.filter.group_id = w->group_id;
	w->sel.filter.redrive_n = w->redrive_n;
	r->op.u.read_dead_list.filter = w->sel.filter;
	request_submit(r, OP_READ_DEAD_LIST, list_done);
}

void api_dead_list(struct http_req *r)
{
	struct wish *w = wish_new(r);
	if (!wish_query(r, w))
		return;
	w->must_name_queue = looks_into_bodies(w); /* its errors speak of what it looked at */
	wish_allow(r, w, list);
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
	record_members(&j, d, r->s->clock, r->s->lim.expires_soon_ms);
	record_details(&j, d, r->op.u.read_dead.attempts, r->op.u.read_dead.n_attempts);
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
	struct str id, reason, body, to;
	bool replaced, override_limit;
	struct engine_edit edit;
	enum op_type op;
	enum dead_state state; /* afterwards */
};

static void redrive_done(struct http_req *r)
{
	struct json_out j;
	answer_begin(r, &j);
	redrive_write(&j, &r->op.u.redrive.out);
	answer_json(r, 202);
}

/* discard, archive and restore */
static void state_done(struct http_req *r)
{
	struct json_out j;
	answer_begin(r, &j);
	jout_open(&j, '{');
	jout_kstr(&j, "dlq_id", r->op.u.discard.id);
	jout_kz(&j, "state", dead_state_name(r->u.change->state));
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
	if (!change_begin(r, c) || (c->to.n && !auth_need(r, c->to)))
		return;
	r->op.u.redrive.sel.ids = &c->id;
	r->op.u.redrive.sel.n_ids = 1;
	r->op.u.redrive.sel.filter.state = r->op.u.redrive.sel.filter.reason = -1;
	r->op.u.redrive.body = c->replaced ? &c->body : NULL;
	r->op.u.redrive.edit = c->edit;
	r->op.u.redrive.to = c->to;
	r->op.u.redrive.reason = c->reason;
	r->op.u.redrive.override_limit = c->override_limit;
	request_submit(r, OP_REDRIVE, redrive_done);
}

void api_dead_redrive(struct http_req *r)
{
	static const char *const known[] = {"reason", "body", "body_base64", "override", "edit", "to"};
	struct json_pull j;
	struct str key;
	unsigned seen = 0;
	struct change *c = arena_alloc(&r->arena, sizeof *c);
	if (jin_begin(r, &j)) {
		while (jp_key(&j, &key)) {
			int f = jp_field(&j, key, known, ARRAY_LEN(known), &seen);
			if (f >= 4 && jp_null(&j))
				continue;
			switch (f) {
			case 0: jin_reason(&j, &c->reason); break;
			case 1: jp_str(&j, &c->body); break;
			case 2: jin_base64(&j, &r->arena, &c->body); break;
			case 3: jp_bool(&j, &c->override_limit); break;
			case 4: edit_read(r, &j, &c->edit); break;
			case 5: select_queue_name(&j, "to", &c->to); break;
			default: break;
			}
		}
	}
	c->replaced = (seen & 6) != 0;
	if (!j.failed && (seen & 6) == 6)
		jp_fail(&j, DLQ_BAD_REQUEST, "only one of \"body\" and \"body_base64\"");
	if (!j.failed && c->replaced && c->edit.program.n)
		jp_fail(&j, DLQ_BAD_REQUEST, "a new body and \"edit\" with \"jq\" exclude each other: the program would work on "
		        "the old one");
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
	request_submit(r, c->op, state_done);
}

static void change_state(struct http_req *r, enum op_type op, enum dead_state state, const char *what)
{
	static const char *const known[] = {"reason"};
	struct json_pull j;
	struct str key;
	unsigned seen = 0;
	struct change *c = arena_alloc(&r->arena, sizeof *c);
	c->op = op;
	c->state = state;
	if (jin_begin(r, &j))
		while (jp_key(&j, &key))
			if (jp_field(&j, key, known, ARRAY_LEN(known), &seen) == 0)
				jin_reason(&j, &c->reason);
	if (!j.failed && !seen)
		jp_fail(&j, DLQ_BAD_REQUEST, "\"reason\" is needed: say why it is %s", what);
	if (!jin_end(r, &j))
		return;
	r->u.change = c;
	read_dead(r, state_allowed);
}

void api_dead_discard(struct http_req *r)
{
	change_state(r, OP_DISCARD, DEAD_DISCARDED, "dropped");
}

void api_dead_archive(struct http_req *r)
{
	change_state(r, OP_GIVE_UP, DEAD_ARCHIVED, "given up");
}

void api_dead_restore(struct http_req *r)
{
	change_state(r, OP_RESTORE, DEAD_DEAD, "wanted back");
}
