/* The life of one request, from its request line to the end of its answer. See http.h. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "http/http.h"

#define POOL_MAX 1024
#define BODY_KEEP ((size_t)64 << 10)       /* a pooled request keeps at most this much memory per buffer */
#define SWALLOW_MAX ((int64_t)256 << 10)   /* body of a refused request that is read so that the connection can go on */
#define URI_MAX 8192
#define OUT_MAX ((size_t)96 << 20)

struct http_req *request_new(struct http_server *s)
{
	struct http_req *r = s->pool;
	if (r) {
		s->pool = r->next;
		s->pool_len--;
	} else {
		r = mem_alloc(sizeof *r);
		r->uri.max = URI_MAX + 1;
		r->out.max = OUT_MAX;
	}
	r->next = NULL;
	r->s = s;
	r->phase = PHASE_LINE;
	atomic_fetch_add_explicit(&s->stats.requests, 1, memory_order_relaxed);
	r->content_length = -1;
	atomic_fetch_add_explicit(&s->in_flight, 1, memory_order_relaxed);
	return r;
}

void request_destroy(struct http_req *r)
{
	buf_release(&r->uri);
	buf_release(&r->head);
	buf_release(&r->body);
	buf_release(&r->out);
	arena_release(&r->arena);
	mem_free(r);
}

static void trim(struct buf *b)
{
	if (b->cap > BODY_KEEP)
		buf_release(b);
	else
		buf_clear(b);
	b->overflow = false;
}

/* Those that are under way make the next ones start: as long as some wait there is one. */
static void large_start(struct http_server *s)
{
	struct http_req *r;
	while ((r = s->large) && (!s->read_bytes || s->read_bytes + r->read_counted <= s->lim.max_waiting_bytes)) {
		s->large = r->next;
		if (!s->large)
			s->large_tail = &s->large;
		r->next = NULL;
		s->read_bytes += r->read_counted;
		server_queue_op(s, &r->op);
	}
}

static void large_end(struct http_req *r)
{
	r->s->read_bytes -= r->read_counted;
	r->read_counted = 0;
	large_start(r->s);
}

void request_shrink(struct http_req *r)
{
	if (r->read_counted)
		large_end(r);
	if (r->op_used && r->op.type == OP_RECEIVE && r->op.code == DLQ_OK)
		receive_forget_messages(r);
	else if (r->op_used)
		engine_op_release(&r->op);
	r->s->body_bytes -= r->body_declared;
	r->body_declared = 0;
	buf_release(&r->body);
	buf_fit(&r->out);
}

/* Back into the pool, as if new: only memory is kept. */
void request_free(struct http_req *r)
{
	struct http_server *s = r->s;
	if (r->op_used) {
		engine_op_release(&r->op);
		r->op_used = false;
	}
	s->body_bytes -= r->body_declared;
	s->out_bytes -= r->out_counted;
	if (r->read_counted)
		large_end(r);
	server_leave(s);
	if (s->pool_len >= POOL_MAX) {
		request_destroy(r);
		return;
	}
	trim(&r->uri);
	trim(&r->head);
	trim(&r->body);
	trim(&r->out);
	arena_reset(&r->arena);
	r->c = NULL;
	r->route = NULL;
	r->answered = r->close_after = r->body_too_large = r->is_change = r->is_head = false;
	r->challenge = r->made = r->in_value = false;
	r->out_at = 0;
	r->allow[0] = r->more_head[0] = '\0';
	r->body_declared = r->out_counted = 0;
	r->body_seen = r->body_limit = r->head_bytes = 0;
	r->n_query = r->n_headers = r->head_lines = r->n_lines = 0;
	r->head_error = NULL;
	r->param = r->secret = r->may_queue = (struct str){0};
	r->authorization = r->content_type = r->expect = r->dlq_id = r->dlq_key = r->dlq_delay = r->dlq_ttl = (struct str){0};
	r->status = r->retry_after_s = 0;
	r->type = NULL;
	r->finish = NULL;
	r->wait_ms = 0;
	memset(&r->u, 0, sizeof r->u);
	memset(&r->who, 0, sizeof r->who);
	r->next = s->pool;
	s->pool = r;
	s->pool_len++;
}

/* ---- the engine and back ---- */

static void submit_prepare(struct http_req *r, enum op_type type, void (*finish)(struct http_req *r))
{
	r->op.type = type;
	r->op.port = &r->s->port;
	r->op.user = r;
	r->op.next = NULL;
	r->op.code = DLQ_OK;
	r->op.err.code = DLQ_OK;
	r->op.err.detail[0] = '\0';
	r->op.operator = r->who.name;
	r->finish = finish;
	r->op_used = true;
	r->phase = PHASE_WAIT;
	http_conn_move(r->s, r->c, type == OP_RECEIVE && r->op.u.receive.wait_ms > 0 ? LIST_PARKED : LIST_NONE, 0);
}

void request_submit(struct http_req *r, enum op_type type, void (*finish)(struct http_req *r))
{
	submit_prepare(r, type, finish);
	server_queue_op(r->s, &r->op);
}

void request_submit_large(struct http_req *r, enum op_type type, void (*finish)(struct http_req *r), int64_t bytes)
{
	submit_prepare(r, type, finish);
	r->read_counted = bytes > 0 ? bytes : 1;
	*r->s->large_tail = r;
	r->s->large_tail = &r->next;
	large_start(r->s);
}

/* The engine has taken its own reference of a queue's settings. */
static void drop_config(struct http_req *r)
{
	if (r->op.type == OP_QUEUE_PUT) {
		queue_config_unref(r->op.u.queue_put.config);
		r->op.u.queue_put.config = NULL;
	}
}

void request_back(struct http_req *r)
{
	struct http_conn *c = r->c;
	struct http_server *s = r->s;
	int64_t given = r->op.type == OP_RECEIVE ? r->op.u.receive.given : 0;
	http_conn_move(r->s, c, LIST_NONE, 0);
	drop_config(r);
	if (r->op.code == DLQ_OK) {
		void (*finish)(struct http_req *) = r->finish;
		r->finish = NULL;
		finish(r);
		if (r->finish)
			return; /* it submitted the next operation */
	} else {
		if (r->op.err.code == DLQ_OK)
			err_set(&r->op.err, r->op.code, "%s", code_title(r->op.code));
		answer_problem_at(r, &r->op.err, 0, 0);
	}
	ASSERT(r->answered);
	http_conn_answer(r);
	if (given) /* sent, or only its text is kept */
		engine_port_taken(s->e, &s->port, given);
}

/* ---- the request ---- */

bool request_uri_piece(struct http_req *r, const char *p, size_t n)
{
	buf_add(&r->uri, p, n);
	return !r->uri.overflow;
}

void request_refuse_head(struct http_req *r)
{
	int64_t lines = r->s->lim.max_headers, bytes = r->s->lim.max_header_bytes;
	r->close_after = true;
	if (r->uri.overflow)
		answer_problem_limit(r, DLQ_HEADERS_TOO_LARGE, URI_MAX, "the address is longer than %d bytes", URI_MAX);
	else if (r->head_lines > lines)
		answer_problem_limit(r, DLQ_HEADERS_TOO_LARGE, lines, "more than %lld headers (limits.max_headers)", (long long)lines);
	else
		answer_problem_limit(r, DLQ_HEADERS_TOO_LARGE, bytes, "the headers have more than %lld bytes (limits.max_header_bytes)",
		                     (long long)bytes);
}

bool request_header_piece(struct http_req *r, bool value, const char *p, size_t n)
{
	size_t max = (size_t)r->s->lim.max_header_bytes;
	if (!value && (r->head_lines == 0 || r->in_value)) {
		r->head_lines++;
		if (r->head_lines <= r->s->lim.max_headers)
			r->lines[r->head_lines - 1].name = (uint32_t)r->head.n;
	}
	r->in_value = value;
	r->head_bytes += n + (value ? 0 : 4);
	if (r->head_lines > r->s->lim.max_headers || r->head_bytes + r->uri.n > max)
		return false;
	int i = r->head_lines - 1;
	if (!value) {
		r->lines[i].name_n = (uint32_t)(r->head.n + n) - r->lines[i].name;
		r->lines[i].value = (uint32_t)(r->head.n + n);
		r->lines[i].value_n = 0;
	} else {
		r->lines[i].value_n += (uint32_t)n;
	}
	buf_add(&r->head, p, n);
	return true;
}

static bool is_name(const char *key, size_t n, const char *name, size_t name_n)
{
	return n == name_n && strncasecmp(key, name, n) == 0;
}
#define IS(name) is_name(key, key_n, name, sizeof(name) - 1)

static void take_once(struct http_req *r, struct str *field, struct str value, const char *twice)
{
	if (field->p)
		r->head_error = twice;
	*field = value;
}

static void take_dlq(struct http_req *r, const char *key, size_t key_n, struct str value)
{
	if (IS("dlq-id"))
		take_once(r, &r->dlq_id, value, "the header Dlq-Id is there twice");
	else if (IS("dlq-key"))
		take_once(r, &r->dlq_key, value, "the header Dlq-Key is there twice");
	else if (IS("dlq-delay"))
		take_once(r, &r->dlq_delay, value, "the header Dlq-Delay is there twice");
	else if (IS("dlq-ttl"))
		take_once(r, &r->dlq_ttl, value, "the header Dlq-Ttl is there twice");
	else if (key_n > 11 && strncasecmp(key, "dlq-header-", 11) == 0 && r->n_headers < HEADERS_MAX)
		r->headers[r->n_headers++] = (struct pair){{key + 11, key_n - 11}, value};
	else
		r->head_error = "unknown header; known are Dlq-Id, Dlq-Key, Dlq-Delay, Dlq-Ttl and Dlq-Header-NAME (at most 64)";
}

static void take_header(struct http_req *r, const char *key, size_t key_n, struct str value)
{
	const char *p = value.p;
	size_t n = value.n;
	if (!key_n)
		return;
	switch (key[0] | 32) {
	case 'a':
		if (IS("authorization"))
			take_once(r, &r->authorization, value, "the header Authorization is there twice");
		break;
	case 'c':
		if (IS("content-type"))
			take_once(r, &r->content_type, value, "the header Content-Type is there twice");
		else if (IS("content-length")) {
			int64_t v = 0;
			for (size_t i = 0; i < n && v < INT64_MAX / 16; i++)
				v = p[i] >= '0' && p[i] <= '9' ? v * 10 + (p[i] - '0') : INT64_MAX / 16;
			if (r->content_length >= 0 && r->content_length != v)
				r->head_error = "two different Content-Length headers";
			r->content_length = v;
		}
		break;
	case 'd':
		if (key_n > 4 && strncasecmp(key, "dlq-", 4) == 0)
			take_dlq(r, key, key_n, value);
		break;
	case 'e':
		if (IS("expect"))
			r->expect = value;
		break;
	case 't':
		if (IS("transfer-encoding")) {
			if (r->content_length >= 0)
				r->head_error = "both Content-Length and Transfer-Encoding";
			r->content_length = -2; /* length unknown */
		}
		break;
	default:
		break;
	}
}

static void take_headers(struct http_req *r)
{
	for (int i = 0; i < r->head_lines; i++) {
		const char *value = r->head.p + r->lines[i].value;
		take_header(r, r->head.p + r->lines[i].name, r->lines[i].name_n, str_trim((struct str){value, r->lines[i].value_n}));
	}
}

static bool is_host(struct str value)
{
	for (size_t i = 0; i < value.n; i++)
		if (value.p[i] <= ' ' || value.p[i] > '~' || strchr("\"/<>?@\\^`{|}#", value.p[i]))
			return false;
	return true;
}

/*
 * http_parser passes these; a proxy in front may read them otherwise, and then one client's body is another one's request.
 * RFC 9112 3.2 (one Host), 5.1 (no space before the colon), 6.1 (codings, and none in HTTP/1.0); RFC 9110 10.1.1 (Expect).
 */
enum dlq_code request_framing(const struct http_req *r, int http_minor, const char **why)
{
	bool coded = false, host = false, expects_other = false;
	for (int i = 0; i < r->head_lines; i++) {
		const char *key = r->head.p + r->lines[i].name;
		size_t key_n = r->lines[i].name_n;
		struct str value = str_trim((struct str){r->head.p + r->lines[i].value, r->lines[i].value_n});
		*why = NULL;
		if (memchr(key, ' ', key_n)) {
			*why = "there is a space in the name of a header";
		} else if (IS("transfer-encoding")) {
			if (coded || http_minor == 0 || !is_name(value.p, value.n, "chunked", 7))
				*why = "the Transfer-Encoding is not chunked once, as HTTP/1.1 has it";
			coded = true;
		} else if (IS("host")) {
			if (host || !is_host(value))
				*why = host ? "the header Host is there twice" : "the header Host is not HOST or HOST:PORT";
			host = true;
		} else if (IS("expect")) {
			expects_other = expects_other || !is_name(value.p, value.n, "100-continue", 12);
		}
		if (*why)
			return DLQ_BAD_REQUEST;
	}
	if (!host && http_minor > 0) {
		*why = "the header Host is missing; HTTP/1.1 wants it";
		return DLQ_BAD_REQUEST;
	}
	if (expects_other && http_minor > 0) {
		*why = "of Expect only 100-continue is known";
		return DLQ_EXPECTATION;
	}
	return DLQ_OK;
}

static size_t body_limit(const struct http_server *s, enum body_kind kind)
{
	switch (kind) {
	case BODY_NONE: return 0;
	case BODY_MESSAGE: return (size_t)s->lim.max_message_bytes;
	case BODY_BATCH: case BODY_SETTLE: return (size_t)s->lim.max_batch_bytes;
	case BODY_EDIT: return (size_t)s->lim.max_message_bytes * 2 + 65536;
	case BODY_JSON: default: return (size_t)256 << 10;
	}
}

/* Queue placeholder, or another: decoded and checked; the token, too. Answers when something is wrong. */
static void check_rights(struct http_req *r, struct str raw_param)
{
	const char *name = route_param_name(r->route), *rule = NULL;
	bool decoded = url_decode(&r->arena, raw_param, &r->param), is_queue = name && strcmp(name, "queue") == 0;
	if (decoded && name)
		rule = is_queue ? queue_name_check(r->param) : message_id_check(r->param);
	if (r->route->access == ACCESS_TOKEN && !auth_check(r, is_queue && decoded && !rule ? r->param : STR("")))
		return;
	if (!decoded)
		answer_problem(r, DLQ_BAD_REQUEST, "the address is not valid percent-encoding");
	else if (rule)
		answer_problem(r, is_queue ? DLQ_INVALID_NAME : DLQ_BAD_REQUEST, "%s: %s", is_queue ? "queue name" : name, rule);
}

static void check_length(struct http_req *r)
{
	struct http_server *s = r->s;
	int64_t n = r->content_length;
	r->body_limit = body_limit(s, r->route->body);
	if (n > (int64_t)r->body_limit) {
		if (!r->body_limit)
			answer_problem(r, DLQ_BAD_REQUEST, "%s takes no body", r->route->method);
		else
			answer_problem_limit(r, DLQ_TOO_LARGE, (int64_t)r->body_limit, "the body has %lld bytes, at most %zu are taken here",
			                     (long long)n, r->body_limit);
		return;
	}
	r->body_declared = n >= 0 ? n : n == -2 ? (int64_t)r->body_limit : 0;
	if (r->body_declared > 65536 && s->body_bytes + r->body_declared > s->lim.max_waiting_bytes * 2) {
		r->body_declared = 0;
		answer_problem(r, DLQ_BUSY, "the bodies of the requests under way are at their limit (max_waiting_bytes); try again");
		return;
	}
	s->body_bytes += r->body_declared;
	if (n > 0)
		buf_reserve(&r->body, n < 65536 ? (size_t)n : 65536);
}

/* No address fits, and the reason is that the name of the queue is empty. */
static bool names_no_queue(struct str path)
{
	static const char queues[] = "/v1/queues/";
	size_t n = sizeof queues - 1;
	return str_starts(path, queues) && (path.n == n || path.p[n] == '/');
}

/* Everything that can be refused before the body is read. */
static void request_head(struct http_req *r, const char *method)
{
	struct str raw = buf_str(&r->uri), param, query = STR("");
	enum dlq_code code;
	r->is_head = strcmp(method, "HEAD") == 0;
	r->is_change = !r->is_head && strcmp(method, "GET") != 0;
	const char *mark = memchr(raw.p, '?', raw.n);
	if (mark) {
		query = (struct str){mark + 1, raw.n - (size_t)(mark + 1 - raw.p)};
		raw.n = (size_t)(mark - raw.p);
	}
	take_headers(r);
	r->route = route_find(str_of(r->is_head ? "GET" : method), raw, &param, &code, r->allow);
	if (!r->route) {
		if (code == DLQ_METHOD)
			answer_problem(r, code, "%.20s is not taken here, but %s", method, r->allow);
		else if (names_no_queue(raw))
			answer_problem(r, DLQ_INVALID_NAME, "queue name: %s", queue_name_check(STR("")));
		else
			answer_problem(r, code, "there is no such address; GET /v1/openapi.json lists them");
		return;
	}
	if (r->route->op == OP_PREVIEW)
		r->is_change = false; /* a POST for its document alone */
	check_rights(r, param);
	if (!r->answered && r->head_error)
		answer_problem(r, DLQ_BAD_REQUEST, "%s", r->head_error);
	if (!r->answered && (!query.n || query_parse(r, query)))
		check_length(r);
}

/* An early answer goes out at once when the body is not worth swallowing. */
bool request_first(struct http_req *r, const char *method)
{
	request_head(r, method);
	r->phase = PHASE_BODY;
	if (r->answered && (r->content_length == -2 || r->content_length > SWALLOW_MAX || (r->content_length > 0 && r->expect.n))) {
		r->close_after = true;
		return false;
	}
	return true;
}

bool request_data(struct http_req *r, const char *p, size_t n)
{
	r->body_seen += n;
	if (!r->answered && r->body_seen > r->body_limit)
		r->body_too_large = true; /* only with chunked encoding; the answer waits for the end of the body */
	if (r->body_too_large && r->body_seen > r->body_limit + SWALLOW_MAX) {
		answer_problem_limit(r, DLQ_TOO_LARGE, (int64_t)r->body_limit, "the body is larger than %zu bytes", r->body_limit);
		r->close_after = true;
		return false;
	}
	if (!r->answered && !r->body_too_large)
		buf_add(&r->body, p, n);
	return true;
}

void request_complete(struct http_req *r)
{
	if (!r->answered && r->body_too_large)
		answer_problem_limit(r, DLQ_TOO_LARGE, (int64_t)r->body_limit, "the body is larger than %zu bytes", r->body_limit);
	if (!r->answered && atomic_load_explicit(&r->s->stopping, memory_order_relaxed))
		answer_problem(r, DLQ_SHUTTING_DOWN, "the server is shutting down");
	if (!r->answered)
		r->route->start(r);
	if (r->phase == PHASE_WAIT)
		return;
	ASSERT(r->answered);
	http_conn_answer(r);
}
