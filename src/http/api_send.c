/* Sending: one message, or many as lines. */
#include <string.h>

#include "http/http.h"
#include "http/json_in.h"

#define BATCH_MAX 1000
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

void line_error_write(struct json_out *j, const struct ndjson_line *l, enum dlq_code code, struct str detail)
{
	jout_key(j, "error");
	jout_open(j, '{');
	jout_kz(j, "code", code_name(code));
	jout_kstr(j, "detail", detail);
	jout_kint(j, "line", l->line);
	if (l->column)
		jout_kint(j, "column", l->column);
	jout_close(j, '}');
}

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
		const struct ndjson_line *l = &r->u.lines[i];
		const struct store_send *m = l->item >= 0 ? &items[l->item] : NULL;
		enum dlq_code code = m ? m->code : l->code;
		jout_open(&j, '{');
		if (code == DLQ_OK) {
			good++;
			jout_kstr(&j, "id", m->id.n ? m->id : (struct str){m->made_id, ULID_LEN});
			if (m->duplicate)
				jout_kbool(&j, "duplicate", true);
		} else {
			line_error_write(&j, l, code, !m ? l->detail : op_err && op_err->code == code ? str_of(op_err->detail) : str_of(code_title(code)));
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
		struct ndjson_line *l = &r->u.lines[r->n_lines++];
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
