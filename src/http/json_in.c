#include "http/json_in.h"

#include <string.h>

bool jin_begin(struct http_req *r, struct json_pull *j)
{
	jp_init(j, buf_str(&r->body), 1, &r->arena);
	if (!str_trim(buf_str(&r->body)).n) {
		j->p = j->end;
		return false;
	}
	return jp_object(j);
}

bool jin_end(struct http_req *r, struct json_pull *j)
{
	if (jp_end(j))
		return true;
	answer_problem_at(r, &j->err, j->err_line, j->err_col);
	return false;
}

bool jin_duration(struct json_pull *j, int64_t min_ms, int64_t max_ms, int64_t *out)
{
	struct str s;
	char low[32], top[32];
	const char *from = (jp_peek(j), j->p);
	if (!jp_str(j, &s))
		return false;
	if (duration_parse(s, out) && *out >= min_ms && *out <= max_ms)
		return true;
	j->p = from;
	duration_format(min_ms, low);
	duration_format(max_ms, top);
	return jp_fail(j, DLQ_BAD_REQUEST, "a duration from %s to %s must be here; %s", low, top, DURATION_RULE);
}

bool jin_base64(struct json_pull *j, struct arena *a, struct str *out)
{
	struct str text;
	struct buf bytes = {0};
	if (!jp_str(j, &text))
		return false;
	bool ok = base64_decode(text, &bytes);
	if (ok)
		*out = arena_str(a, buf_str(&bytes));
	buf_release(&bytes);
	return ok || jp_fail(j, DLQ_BAD_REQUEST, "not base64 (RFC 4648, with padding)");
}

bool jin_worker(struct json_pull *j, struct str *out)
{
	if (jp_null(j))
		return true;
	if (!jp_str(j, out))
		return false;
	return out->n <= 128 || jp_fail(j, DLQ_BAD_REQUEST, "worker and worker_version: at most 128 bytes");
}

bool jin_reason(struct json_pull *j, struct str *out)
{
	if (!jp_str(j, out))
		return false;
	return (out->n <= 1000 && str_trim(*out).n) || jp_fail(j, DLQ_BAD_REQUEST, "reason: 1 to 1000 bytes that say why");
}

bool jin_nothing(struct http_req *r)
{
	struct json_pull j;
	struct str key;
	if (jin_begin(r, &j) && jp_key(&j, &key))
		jp_fail(&j, DLQ_BAD_REQUEST, "no key is known here");
	return jin_end(r, &j);
}
