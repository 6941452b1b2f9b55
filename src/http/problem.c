/* Answers: JSON bodies and RFC 9457 problems. */
#include <stdio.h>
#include <string.h>

#include "http/http.h"

void answer_begin(struct http_req *r, struct json_out *j)
{
	buf_clear(&r->out);
	jout_init(j, &r->out);
}

static void answer(struct http_req *r, int status, const char *type)
{
	r->status = status;
	r->type = type;
	r->answered = true;
}

void answer_json(struct http_req *r, int status)
{
	buf_addc(&r->out, '\n');
	if (r->out.overflow) {
		answer_problem(r, DLQ_INTERNAL, "the answer is larger than %zu bytes; ask for fewer items", r->out.max ? r->out.max : BUF_MAX_DEFAULT);
		return;
	}
	answer(r, status, "application/json");
}

void answer_empty(struct http_req *r, int status)
{
	buf_clear(&r->out);
	answer(r, status, NULL);
}

void answer_bytes(struct http_req *r, int status, const char *type)
{
	answer(r, status, type);
}

static void problem_begin(struct http_req *r, struct json_out *j, enum dlq_code code, int status, const char *detail)
{
	answer_begin(r, j);
	jout_open(j, '{');
	jout_kz(j, "type", "about:blank");
	jout_kz(j, "title", code_title(code));
	jout_kint(j, "status", status);
	jout_kz(j, "code", code_name(code));
	jout_kz(j, "detail", detail);
}

static void problem_end(struct http_req *r, struct json_out *j, enum dlq_code code, int status)
{
	jout_close(j, '}');
	buf_addc(&r->out, '\n');
	r->made = false;
	r->challenge = code == DLQ_UNAUTHENTICATED;
	r->retry_after_s = code_retriable(code) || code == DLQ_STORE_FAILED ? 1 : 0;
	answer(r, status, "application/problem+json");
}

void answer_problem(struct http_req *r, enum dlq_code code, const char *fmt, ...)
{
	char detail[500];
	struct json_out j;
	va_list args;
	va_start(args, fmt);
	vsnprintf(detail, sizeof detail, fmt, args);
	va_end(args);
	problem_begin(r, &j, code, code_http(code), detail);
	problem_end(r, &j, code, code_http(code));
}

/* The redrive that err->detail names, for IN_REDRIVE: the first ULID in the text. */
static bool first_ulid(const char *text, struct str *out)
{
	for (const char *p = text; *p;) {
		size_t n = strspn(p, "0123456789ABCDEFGHJKMNPQRSTVWXYZ");
		int64_t ms;
		uint16_t salt;
		uint64_t seq;
		*out = (struct str){p, n};
		if (n == ULID_LEN && ulid_parse(*out, &ms, &salt, &seq))
			return true;
		p += n ? n : 1;
	}
	return false;
}

void answer_problem_at(struct http_req *r, const struct dlq_err *err, int line, int column)
{
	struct json_out j;
	struct str id;
	enum dlq_code code = err->code != DLQ_OK ? err->code : DLQ_INTERNAL;
	const char *redrive = code == DLQ_IN_REDRIVE ? strstr(err->detail, "redrive ") : NULL;
	problem_begin(r, &j, code, code_http(code), err->detail);
	if (line > 0) {
		jout_kint(&j, "line", line);
		jout_kint(&j, "column", column);
	}
	if (redrive && first_ulid(redrive, &id))
		jout_kstr(&j, "redrive_id", id);
	problem_end(r, &j, code, code_http(code));
}

void answer_problem_limit(struct http_req *r, enum dlq_code code, int64_t limit, const char *fmt, ...)
{
	char detail[500];
	struct json_out j;
	va_list args;
	va_start(args, fmt);
	vsnprintf(detail, sizeof detail, fmt, args);
	va_end(args);
	problem_begin(r, &j, code, code_http(code), detail);
	jout_kint(&j, "limit", limit);
	problem_end(r, &j, code, code_http(code));
}

void answer_unready(struct http_req *r, enum dlq_code code, const char *detail)
{
	struct json_out j;
	problem_begin(r, &j, code, 503, detail);
	problem_end(r, &j, code, 503);
}
