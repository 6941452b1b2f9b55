/* Sending, receiving, settling: the busy paths. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "http/http.h"
#include "http/json_in.h"

#define BATCH_MAX 1000
#define SETTLE_MAX 1000
#define WAIT_MAX_MS 60000
#define KEY_MAX 512
#define TYPE_MAX 256
#define DELAY_MAX_MS ((int64_t)3650 * 86400000)

/* ---- send ---- */

bool header_name(struct arena *a, struct str *name)
{
	char *p = arena_alloc(a, name->n + 1);
	if (!name->n || name->n > 128)
		return false;
	for (size_t i = 0; i < name->n; i++) {
		char c = name->p[i];
		p[i] = c >= 'A' && c <= 'Z' ? (char)(c | 32) : c;
		if (!((p[i] >= 'a' && p[i] <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.'))
			return false;
	}
	name->p = p;
	return true;
}

static int order(struct str a, struct str b)
{
	int c = memcmp(a.p, b.p, a.n < b.n ? a.n : b.n);
	return c ? c : a.n < b.n ? -1 : a.n > b.n;
}

/* {"name":"value"} by name, in the arena. NULL, or why not. */
static const char *headers_json(struct arena *a, struct pair *h, int n, struct str *out)
{
	struct buf b = {.max = 1 << 20};
	struct json_out j;
	if (!n) {
		*out = STR("");
		return NULL;
	}
	for (int i = 0; i < n; i++) {
		if (!header_name(a, &h[i].name))
			return "a message header's name is 1 to 128 characters out of a-z 0-9 . _ -";
		if (header_value_check(h[i].value))
			return "a message header's value must be " HEADER_VALUE_RULE;
		struct pair p = h[i];
		int k = i;
		for (; k > 0 && order(h[k - 1].name, p.name) > 0; k--)
			h[k] = h[k - 1];
		h[k] = p;
	}
	jout_init(&j, &b);
	jout_open(&j, '{');
	for (int i = 0; i < n; i++) {
		if (i && str_eq(h[i].name, h[i - 1].name)) {
			buf_release(&b);
			return "a message header is there twice";
		}
		jout_key(&j, arena_str(a, h[i].name).p);
		jout_str(&j, h[i].value);
	}
	jout_close(&j, '}');
	*out = arena_str(a, buf_str(&b));
	buf_release(&b);
	return NULL;
}

static const char *key_check(struct str key)
{
	return key.n > KEY_MAX ? "at most 512 bytes" : header_value_check(key);
}

static const char *type_check(struct str type)
{
	return type.n > TYPE_MAX ? "at most 256 bytes" : header_value_check(type);
}

static void send_done(struct http_req *r)
{
	struct store_send *m = &r->one;
	if (m->code != DLQ_OK) {
		struct dlq_err err = r->op.err;
		if (err.code != m->code)
			err_set(&err, m->code, "queue " STR_FMT " takes no more messages (max_messages or max_bytes)", STR_ARG(r->op.queue));
		answer_problem_at(r, &err, 0, 0);
		return;
	}
	if (!m->id.n && !m->duplicate) {
		memcpy(r->made_body, "{\"id\":\"", 7);
		memcpy(r->made_body + 7, m->made_id, ULID_LEN);
		memcpy(r->made_body + 7 + ULID_LEN, "\"}\n", 3);
		r->made = true;
		answer_bytes(r, 201, "application/json");
		return;
	}
	struct json_out j;
	answer_begin(r, &j);
	jout_open(&j, '{');
	jout_kstr(&j, "id", m->id.n ? m->id : str_of(m->made_id));
	if (m->duplicate)
		jout_kbool(&j, "duplicate", true);
	jout_close(&j, '}');
	answer_json(r, m->duplicate ? 200 : 201);
}

void api_send(struct http_req *r)
{
	struct store_send *m = &r->one;
	const char *why = NULL, *bad;
	int64_t ttl = 0;
	memset(m, 0, sizeof *m);
	m->body = buf_str(&r->body);
	m->id = r->dlq_id;
	m->key = r->dlq_key;
	m->content_type = r->content_type;
	if (r->dlq_id.p && message_id_check(r->dlq_id))
		why = "Dlq-Id: " MESSAGE_ID_RULE;
	else if ((bad = key_check(r->dlq_key)))
		why = arena_fmt(&r->arena, "Dlq-Key: %s", bad).p;
	else if ((bad = type_check(r->content_type)))
		why = arena_fmt(&r->arena, "Content-Type: %s", bad).p;
	else if (r->dlq_delay.p && (!duration_parse(r->dlq_delay, &m->due) || m->due > DELAY_MAX_MS))
		why = "Dlq-Delay: " DURATION_RULE;
	else if (r->dlq_ttl.p && (!duration_parse(r->dlq_ttl, &ttl) || ttl < 1 || ttl > DELAY_MAX_MS))
		why = "Dlq-Ttl: longer than 0; " DURATION_RULE;
	else if (r->n_headers)
		why = headers_json(&r->arena, r->headers, r->n_headers, &m->headers);
	if (why) {
		answer_problem(r, DLQ_BAD_REQUEST, "%s", why);
		return;
	}
	m->expires = ttl;
	r->op.queue = r->param;
	r->op.u.send.items = m;
	r->op.u.send.n = 1;
	request_submit(r, OP_SEND, send_done);
}

/* ---- batch ---- */

/* One non-empty line: a good one is the item-th of the operation, a bad one has its error. */
struct batch_line {
	int item; /* -1: bad */
	enum dlq_code code;
	struct str detail;
	int line, column;
};

static bool batch_headers(struct json_pull *j, struct arena *a, struct str *out)
{
	struct pair h[HEADERS_MAX];
	int n = 0;
	if (!jp_object(j))
		return false;
	while (jp_key(j, &h[n].name)) {
		if (!jp_str(j, &h[n].value))
			return false;
		if (++n == HEADERS_MAX)
			return jp_fail(j, DLQ_BAD_REQUEST, "at most %d headers", HEADERS_MAX - 1);
	}
	const char *why = j->failed ? NULL : headers_json(a, h, n, out);
	return !j->failed && (!why || jp_fail(j, DLQ_BAD_REQUEST, "headers: %s", why));
}

static bool batch_read(struct json_pull *j, struct arena *a, int64_t max_body, struct store_send *m)
{
	static const char *const known[] = {"body", "body_base64", "id", "key", "content_type", "headers", "delay", "ttl"};
	unsigned seen = 0;
	struct str key;
	const char *why;
	if (!jp_object(j))
		return false;
	while (jp_key(j, &key)) {
		int f = jp_field(j, key, known, ARRAY_LEN(known), &seen);
		if (f >= 0 && jp_null(j)) {
			seen &= ~(1u << f);
			continue;
		}
		switch (f) {
		case 0: jp_str(j, &m->body); break;
		case 1: jin_base64(j, a, &m->body); break;
		case 2:
			if (jp_str(j, &m->id) && (why = message_id_check(m->id)))
				jp_fail(j, DLQ_BAD_REQUEST, "id: %s", why);
			break;
		case 3:
			if (jp_str(j, &m->key) && (why = key_check(m->key)))
				jp_fail(j, DLQ_BAD_REQUEST, "key: %s", why);
			break;
		case 4:
			if (jp_str(j, &m->content_type) && (why = type_check(m->content_type)))
				jp_fail(j, DLQ_BAD_REQUEST, "content_type: %s", why);
			break;
		case 5: batch_headers(j, a, &m->headers); break;
		case 6: jin_duration(j, 0, DELAY_MAX_MS, &m->due); break;
		case 7: jin_duration(j, 1, DELAY_MAX_MS, &m->expires); break;
		default: return false;
		}
	}
	if (!jp_end(j))
		return false;
	if ((seen & 3) == 0 || (seen & 3) == 3)
		return jp_fail(j, DLQ_BAD_REQUEST, "there must be one of \"body\" and \"body_base64\"");
	if ((int64_t)m->body.n > max_body)
		return jp_fail(j, DLQ_TOO_LARGE, "the body has %zu bytes, at most %lld are taken", m->body.n, (long long)max_body);
	return true;
}

static void batch_answer(struct http_req *r, const struct store_send *items, const struct dlq_err *op_err)
{
	struct json_out j;
	int good = 0;
	answer_begin(r, &j);
	jout_open(&j, '{');
	jout_key(&j, "results");
	jout_open(&j, '[');
	for (int i = 0; i < r->n_lines; i++) {
		const struct batch_line *l = &r->u.lines[i];
		const struct store_send *m = l->item >= 0 ? &items[l->item] : NULL;
		enum dlq_code code = m ? m->code : l->code;
		jout_open(&j, '{');
		if (code == DLQ_OK) {
			good++;
			jout_kstr(&j, "id", m->id.n ? m->id : (struct str){m->made_id, ULID_LEN});
			if (m->duplicate)
				jout_kbool(&j, "duplicate", true);
		} else {
			jout_key(&j, "error");
			jout_open(&j, '{');
			jout_kz(&j, "code", code_name(code));
			jout_kstr(&j, "detail", !m ? l->detail : op_err && op_err->code == code ? str_of(op_err->detail) : str_of(code_title(code)));
			jout_kint(&j, "line", l->line);
			if (l->column)
				jout_kint(&j, "column", l->column);
			jout_close(&j, '}');
		}
		jout_close(&j, '}');
	}
	jout_close(&j, ']');
	jout_close(&j, '}');
	answer_json(r, good == r->n_lines ? 201 : good ? 200 : 400);
}

static void batch_done(struct http_req *r)
{
	batch_answer(r, r->op.u.send.items, &r->op.err);
}

/* Lines that hold something. */
static int count_lines(struct str text)
{
	int n = 0;
	for (const char *p = text.p, *end = text.p + text.n; p < end;) {
		const char *eol = memchr(p, '\n', (size_t)(end - p));
		const char *stop = eol ? eol : end;
		if (str_trim((struct str){p, (size_t)(stop - p)}).n)
			n++;
		p = stop + 1;
	}
	return n;
}

void api_batch(struct http_req *r)
{
	struct str text = buf_str(&r->body);
	int n = text.n ? count_lines(text) : 0, items_n = 0, number = 0;
	if (n == 0 || n > BATCH_MAX) {
		if (n)
			answer_problem_limit(r, DLQ_TOO_LARGE, BATCH_MAX, "the body has %d lines, at most %d are taken", n, BATCH_MAX);
		else
			answer_problem(r, DLQ_BAD_REQUEST, "the body is empty; it must be JSON objects, one a line");
		return;
	}
	r->u.lines = arena_alloc(&r->arena, (size_t)n * sizeof *r->u.lines);
	struct store_send *items = arena_alloc(&r->arena, (size_t)n * sizeof *items);
	for (const char *p = text.p, *end = text.p + text.n; p < end;) {
		struct json_pull j;
		const char *eol = memchr(p, '\n', (size_t)(end - p));
		struct str line = {p, (size_t)((eol ? eol : end) - p)};
		p = line.p + line.n + 1;
		number++;
		if (!str_trim(line).n)
			continue;
		struct batch_line *l = &r->u.lines[r->n_lines++];
		jp_init(&j, line, number, &r->arena);
		l->line = number;
		if (batch_read(&j, &r->arena, r->s->lim.max_message_bytes, &items[items_n])) {
			l->item = items_n++;
			continue;
		}
		memset(&items[items_n], 0, sizeof *items);
		l->item = -1;
		l->code = j.err.code;
		l->detail = arena_str(&r->arena, str_of(j.err.detail));
		l->line = j.err_line;
		l->column = j.err_col;
	}
	if (!items_n) {
		batch_answer(r, items, NULL);
		return;
	}
	r->op.queue = r->param;
	r->op.u.send.items = items;
	r->op.u.send.n = items_n;
	request_submit(r, OP_SEND, batch_done);
}

/* ---- receive ---- */

struct give_back {
	struct engine_op op; /* first: server_detach_op */
	struct engine_settle_item items[];
};

void receive_give_back(struct http_req *r)
{
	int n = r->op.u.receive.n;
	size_t text = (size_t)n * RECEIPT_LEN, head = sizeof(struct give_back) + (size_t)n * sizeof(struct engine_settle_item);
	if (n <= 0)
		return;
	struct give_back *g = mem_alloc(head + text + r->param.n);
	char *p = (char *)g + head;
	for (int i = 0; i < n; i++) {
		memcpy(p, r->op.u.receive.items[i].receipt, RECEIPT_LEN);
		g->items[i].receipt = (struct str){p, strnlen(p, RECEIPT_LEN)};
		g->items[i].outcome = OUTCOME_RELEASE;
		g->items[i].failure.exit_code = -1;
		p += RECEIPT_LEN;
	}
	memcpy(p, r->param.p, r->param.n);
	g->op.type = OP_SETTLE;
	g->op.queue = (struct str){p, r->param.n};
	g->op.u.settle.items = g->items;
	g->op.u.settle.n = n;
	server_detach_op(r->s, &g->op);
}

void receive_forget_messages(struct http_req *r)
{
	int n = r->op.u.receive.n;
	struct engine_delivery *kept = arena_alloc(&r->arena, (size_t)(n > 0 ? n : 1) * sizeof *kept);
	for (int i = 0; i < n; i++)
		memcpy(kept[i].receipt, r->op.u.receive.items[i].receipt, sizeof kept[i].receipt);
	engine_op_release(&r->op);
	r->op.u.receive.items = kept;
}

/* After a wait: whether the client hung up meanwhile, so that an answer would reach nobody. */
static bool client_gone(struct http_req *r)
{
	char c;
	return r->wait_ms > 0 && !r->c->tls && recv(r->c->fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

static void delivery_write(struct json_out *j, const struct engine_delivery *e)
{
	const struct store_delivery *d = &e->d;
	jout_open(j, '{');
	jout_kz(j, "receipt", e->receipt);
	jout_kstr(j, "id", d->id);
	if (d->key.n)
		jout_kstr(j, "key", d->key);
	jout_bytes(j, "body", d->body);
	if (d->content_type.n)
		jout_kstr(j, "content_type", d->content_type);
	if (d->headers.n) {
		jout_key(j, "headers");
		jout_raw(j, d->headers);
	}
	jout_kint(j, "attempts", d->attempts);
	jout_kint(j, "redrives", d->redrives);
	jout_ktime(j, "received_at", d->received_at_ms);
	jout_ktime(j, "lease_until", e->lease_until_wall_ms);
	jout_close(j, '}');
}

static void receive_done(struct http_req *r)
{
	struct json_out j;
	if (r->op.u.receive.n && client_gone(r)) {
		receive_give_back(r);
		r->op.u.receive.n = 0;
	}
	answer_begin(r, &j);
	jout_open(&j, '{');
	jout_key(&j, "deliveries");
	jout_open(&j, '[');
	for (int i = 0; i < r->op.u.receive.n; i++)
		delivery_write(&j, &r->op.u.receive.items[i]);
	jout_close(&j, ']');
	jout_close(&j, '}');
	answer_json(r, 200);
	if (r->status != 200)
		receive_give_back(r);
}

void api_receive(struct http_req *r)
{
	static const char *const known[] = {"max", "wait", "visibility_timeout", "worker", "worker_version"};
	struct json_pull j;
	struct str key;
	unsigned seen = 0;
	int64_t max = 1, wait = 0, visibility = 0;
	struct str worker = STR(""), version = STR("");
	if (jin_begin(r, &j)) {
		while (jp_key(&j, &key)) {
			switch (jp_field(&j, key, known, ARRAY_LEN(known), &seen)) {
			case 0: jp_int(&j, 1, 1000, &max); break;
			case 1: jin_duration(&j, 0, WAIT_MAX_MS, &wait); break;
			case 2: jin_duration(&j, 1000, 43200000, &visibility); break;
			case 3: jin_worker(&j, &worker); break;
			case 4: jin_worker(&j, &version); break;
			default: break;
			}
		}
	}
	if (!jin_end(r, &j))
		return;
	memset(&r->op.u.receive, 0, sizeof r->op.u.receive);
	r->op.queue = r->param;
	r->op.u.receive.max = (int)max;
	r->op.u.receive.wait_ms = atomic_load_explicit(&r->s->draining, memory_order_relaxed) ? 0 : wait;
	r->op.u.receive.visibility_timeout_ms = visibility;
	r->op.u.receive.worker = worker;
	r->op.u.receive.worker_version = version;
	r->wait_ms = r->op.u.receive.wait_ms;
	request_submit(r, OP_RECEIVE, receive_done);
}

/* ---- settle, extend ---- */

static void settle_write(struct json_out *j, const struct engine_settle_item *it)
{
	jout_open(j, '{');
	if (it->code != DLQ_OK) {
		jout_kz(j, "result", "gone");
	} else if (it->effect == EFFECT_DONE) {
		jout_kz(j, "result", "done");
	} else if (it->effect == EFFECT_RETRY) {
		jout_kz(j, "result", "retry");
		jout_kint(j, "attempts", it->attempts);
		jout_ktime(j, "retry_at", it->retry_at_ms);
	} else if (it->effect == EFFECT_RELEASE) {
		jout_kz(j, "result", "released");
	} else {
		jout_kz(j, "result", "dead");
		jout_kz(j, "reason", reason_name(it->reason));
		jout_kint(j, "attempts", it->attempts);
		jout_kz(j, "dlq_id", it->dlq_id);
	}
	jout_close(j, '}');
}

static void settle_done(struct http_req *r)
{
	struct json_out j;
	answer_begin(r, &j);
	jout_open(&j, '{');
	jout_key(&j, "results");
	jout_open(&j, '[');
	for (int i = 0; i < r->op.u.settle.n; i++)
		settle_write(&j, &r->op.u.settle.items[i]);
	jout_close(&j, ']');
	jout_close(&j, '}');
	answer_json(r, 200);
}

static void read_failure(struct json_pull *j, struct failure *f)
{
	static const char *const known[] = {"type", "message", "detail", "http_status", "exit_code", "fingerprint"};
	struct str key;
	unsigned seen = 0;
	int64_t v;
	if (!jp_object(j))
		return;
	while (jp_key(j, &key)) {
		int n = jp_field(j, key, known, ARRAY_LEN(known), &seen);
		if (n < 0 || jp_null(j))
			continue;
		switch (n) {
		case 0: jp_str(j, &f->type); break;
		case 1: jp_str(j, &f->message); break;
		case 2: jp_str(j, &f->detail); break;
		case 3:
			if (jp_int(j, 100, 599, &v))
				f->http_status = (int)v;
			break;
		case 5: jp_str(j, &f->fingerprint); break;
		default:
			if (jp_int(j, 0, 255, &v))
				f->exit_code = (int)v;
			break;
		}
	}
}

static void read_result(struct json_pull *j, struct engine_settle_item *it)
{
	static const char *const known[] = {"receipt", "outcome", "error", "retry_after"};
	struct str key, word;
	unsigned seen = 0;
	it->failure.exit_code = -1;
	if (!jp_object(j))
		return;
	while (jp_key(j, &key)) {
		int f = jp_field(j, key, known, ARRAY_LEN(known), &seen);
		if (f >= 2 && jp_null(j))
			continue;
		switch (f) {
		case 0: jp_str(j, &it->receipt); break;
		case 1:
			if (jp_str(j, &word) && !outcome_parse(word, &it->outcome))
				jp_fail(j, DLQ_BAD_REQUEST, "outcome must be ok, transient, permanent or release");
			break;
		case 2: read_failure(j, &it->failure); break;
		case 3: jin_duration(j, 0, RETRY_AFTER_MAX_MS, &it->retry_after_ms); break;
		default: break;
		}
	}
	if (!j->failed && (seen & 3) != 3)
		jp_fail(j, DLQ_BAD_REQUEST, "a result needs \"receipt\" and \"outcome\"");
}

void api_settle(struct http_req *r)
{
	static const char *const known[] = {"results", "worker", "worker_version"};
	struct json_pull j;
	struct str key, worker = STR(""), version = STR("");
	unsigned seen = 0;
	struct engine_settle_item *items = NULL;
	int n = 0, cap = 0;
	if (jin_begin(r, &j)) {
		while (jp_key(&j, &key)) {
			int f = jp_field(&j, key, known, ARRAY_LEN(known), &seen);
			if (f == 1 || f == 2)
				jin_worker(&j, f == 1 ? &worker : &version);
			if (f != 0 || !jp_array(&j))
				continue;
			while (jp_item(&j)) {
				if (n == SETTLE_MAX) {
					jp_fail(&j, DLQ_TOO_LARGE, "at most %d results", SETTLE_MAX);
					break;
				}
				if (n == cap) {
					int more = cap ? cap * 4 : 16;
					struct engine_settle_item *grown = arena_alloc(&r->arena, (size_t)more * sizeof *grown);
					if (n)
						memcpy(grown, items, (size_t)n * sizeof *grown);
					items = grown;
					cap = more;
				}
				read_result(&j, &items[n++]);
			}
		}
	}
	if (!j.failed && !n)
		jp_fail(&j, DLQ_BAD_REQUEST, "\"results\" must be a list with at least one result");
	if (!jin_end(r, &j))
		return;
	r->op.queue = r->param;
	r->op.u.settle.items = items;
	r->op.u.settle.n = n;
	r->op.u.settle.worker = worker;
	r->op.u.settle.worker_version = version;
	request_submit(r, OP_SETTLE, settle_done);
}

static void extend_done(struct http_req *r)
{
	struct json_out j;
	answer_begin(r, &j);
	jout_open(&j, '{');
	jout_ktime(&j, "lease_until", r->op.u.extend.lease_until_wall_ms);
	jout_close(&j, '}');
	answer_json(r, 200);
}

void api_extend(struct http_req *r)
{
	static const char *const known[] = {"receipt", "visibility_timeout"};
	struct json_pull j;
	struct str key, receipt = STR("");
	unsigned seen = 0;
	int64_t visibility = 0;
	if (jin_begin(r, &j)) {
		while (jp_key(&j, &key)) {
			switch (jp_field(&j, key, known, ARRAY_LEN(known), &seen)) {
			case 0: jp_str(&j, &receipt); break;
			case 1: jin_duration(&j, 1000, 43200000, &visibility); break;
			default: break;
			}
		}
	}
	if (!j.failed && !receipt.n)
		jp_fail(&j, DLQ_BAD_REQUEST, "\"receipt\" is needed");
	if (!jin_end(r, &j))
		return;
	memset(&r->op.u.extend, 0, sizeof r->op.u.extend);
	r->op.queue = r->param;
	r->op.u.extend.receipt = receipt;
	r->op.u.extend.visibility_timeout_ms = visibility;
	request_submit(r, OP_EXTEND, extend_done);
}
