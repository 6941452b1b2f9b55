/* Percent-decoding, query parameters, cursors: strict, an error names the thing and the rule. */
#include <stdio.h>
#include <string.h>

#include "http/http.h"

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if ((c | 32) >= 'a' && (c | 32) <= 'f')
		return (c | 32) - 'a' + 10;
	return -1;
}

bool url_decode(struct arena *a, struct str raw, struct str *out)
{
	if (!raw.n || !memchr(raw.p, '%', raw.n)) {
		*out = raw;
		return true;
	}
	char *p = arena_alloc(a, raw.n + 1);
	size_t n = 0;
	for (size_t i = 0; i < raw.n; i++) {
		if (raw.p[i] != '%') {
			p[n++] = raw.p[i];
			continue;
		}
		int hi = i + 2 < raw.n ? hex_digit(raw.p[i + 1]) : -1, lo = hi >= 0 ? hex_digit(raw.p[i + 2]) : -1;
		if (lo < 0)
			return false;
		p[n++] = (char)(hi * 16 + lo);
		i += 2;
	}
	*out = (struct str){p, n};
	return true;
}

/* '+' is a space in a query, as forms write it. */
static bool query_decode(struct arena *a, struct str raw, struct str *out)
{
	if (raw.n && memchr(raw.p, '+', raw.n)) {
		char *p = arena_alloc(a, raw.n + 1);
		for (size_t i = 0; i < raw.n; i++)
			p[i] = raw.p[i] == '+' ? ' ' : raw.p[i];
		raw.p = p;
	}
	return url_decode(a, raw, out);
}

/* Whether the route knows that parameter; else answers 400 naming the nearest. */
static bool query_known(struct http_req *r, struct str name)
{
	const char *known[QUERY_MAX];
	size_t n = 0;
	for (const char *p = r->route->query; p && *p;) {
		size_t len = strcspn(p, " ");
		struct str word = {p, len};
		if (str_eq(word, name))
			return true;
		if (n < QUERY_MAX)
			known[n++] = arena_str(&r->arena, word).p;
		p += len + strspn(p + len, " ");
	}
	const char *near = n ? str_nearest(name, known, n) : NULL;
	if (name.n > 64)
		name.n = 64;
	if (!str_is_utf8(name))
		name = STR("(not text)");
	if (near)
		answer_problem(r, DLQ_BAD_REQUEST, "unknown query parameter \"" STR_FMT "\"; did you mean \"%s\"?", STR_ARG(name), near);
	else
		answer_problem(r, DLQ_BAD_REQUEST, "unknown query parameter \"" STR_FMT "\"%s%s", STR_ARG(name),
		               n ? "; known are: " : "; this address takes none", n ? r->route->query : "");
	return false;
}

bool query_parse(struct http_req *r, struct str raw)
{
	size_t from = 0;
	while (from < raw.n) {
		const char *amp = memchr(raw.p + from, '&', raw.n - from);
		size_t to = amp ? (size_t)(amp - raw.p) : raw.n;
		struct str part = {raw.p + from, to - from};
		from = to + 1;
		if (!part.n)
			continue;
		const char *eq = memchr(part.p, '=', part.n);
		size_t name_n = eq ? (size_t)(eq - part.p) : part.n;
		struct pair q;
		if (!query_decode(&r->arena, (struct str){part.p, name_n}, &q.name) ||
		    !query_decode(&r->arena, eq ? (struct str){eq + 1, part.n - name_n - 1} : STR(""), &q.value) ||
		    (q.value.n && !str_is_utf8(q.value))) {
			answer_problem(r, DLQ_BAD_REQUEST, "the query is not valid percent-encoded UTF-8");
			return false;
		}
		if (!query_known(r, q.name))
			return false;
		bool twice;
		query_get(r, arena_str(&r->arena, q.name).p, &twice);
		if (r->n_query == QUERY_MAX) {
			answer_problem(r, DLQ_BAD_REQUEST, "more than %d query parameters", QUERY_MAX);
			return false;
		}
		if (twice && !str_eqz(q.name, "header")) {
			answer_problem(r, DLQ_BAD_REQUEST, "the query parameter \"" STR_FMT "\" is there twice", STR_ARG(q.name));
			return false;
		}
		r->query[r->n_query++] = q;
	}
	return true;
}

struct str query_get(const struct http_req *r, const char *name, bool *given)
{
	for (int i = 0; i < r->n_query; i++) {
		if (str_eqz(r->query[i].name, name)) {
			if (given)
				*given = true;
			return r->query[i].value;
		}
	}
	if (given)
		*given = false;
	return STR("");
}

static bool digits(struct str s, int64_t max, int64_t *out)
{
	int64_t v = 0;
	if (!s.n || s.n > 19)
		return false;
	for (size_t i = 0; i < s.n; i++) {
		int d = s.p[i] - '0';
		if (d < 0 || d > 9 || v > (max - d) / 10)
			return false;
		v = v * 10 + d;
	}
	*out = v;
	return true;
}

bool query_limit(struct http_req *r, int *limit)
{
	bool given;
	int64_t v = 50;
	struct str s = query_get(r, "limit", &given);
	if (given && (!digits(s, 1000, &v) || v < 1)) {
		answer_problem(r, DLQ_BAD_REQUEST, "limit must be a whole number from 1 to 1000");
		return false;
	}
	*limit = (int)v;
	return true;
}

#define CURSOR_KEY_MAX 700 /* bytes of a key */

/* A cursor is base64url of '1' (version), a letter for the list it belongs to, and the key. False: not one. */
static bool cursor_decode(struct arena *a, struct str s, char kind, struct str *key)
{
	struct buf text = {.max = 1024}, bytes = {.max = 1024};
	bool ok = s.n > 0 && s.n < 1000;
	for (size_t i = 0; ok && i < s.n; i++) {
		ok = s.p[i] != '+' && s.p[i] != '/' && s.p[i] != '=';
		buf_addc(&text, s.p[i] == '-' ? '+' : s.p[i] == '_' ? '/' : s.p[i]);
	}
	while (ok && text.n % 4)
		buf_addc(&text, '=');
	ok = ok && base64_decode(buf_str(&text), &bytes) && bytes.n > 2 && bytes.p[0] == '1' && bytes.p[1] == kind;
	if (ok)
		*key = arena_str(a, (struct str){bytes.p + 2, bytes.n - 2});
	buf_release(&text);
	buf_release(&bytes);
	return ok;
}

static bool cursor_refuse(struct http_req *r)
{
	answer_problem(r, DLQ_BAD_REQUEST, "the cursor is not one of this list; give the \"next\" of its last page");
	return false;
}

bool query_cursor_any(struct http_req *r, char kind, struct str *text)
{
	bool given;
	struct str s = query_get(r, "cursor", &given);
	*text = STR("");
	return !given || cursor_decode(&r->arena, s, kind, text) || cursor_refuse(r);
}

bool cursor_parse(struct arena *a, struct str cursor, char kind, int64_t *n)
{
	struct str key;
	*n = 0;
	return !cursor.n || (cursor_decode(a, cursor, kind, &key) && digits(key, INT64_MAX, n) && *n >= 1);
}

bool query_cursor_int(struct http_req *r, char kind, int64_t *n)
{
	bool given;
	struct str s = query_get(r, "cursor", &given);
	*n = 0;
	return !given || (s.n && cursor_parse(&r->arena, s, kind, n)) || cursor_refuse(r);
}

bool query_cursor_text(struct http_req *r, char kind, struct str *text)
{
	return query_cursor_any(r, kind, text) && (!text->n || !queue_name_check(*text) || cursor_refuse(r));
}

static struct str cursor_encode(struct arena *a, char kind, struct str key)
{
	struct buf plain = {.max = 1024}, coded = {.max = 2048};
	if (!key.n || key.n > CURSOR_KEY_MAX)
		return STR("");
	buf_addc(&plain, '1');
	buf_addc(&plain, kind);
	buf_adds(&plain, key);
	base64_encode(buf_str(&plain), &coded);
	while (coded.n && coded.p[coded.n - 1] == '=')
		coded.n--;
	for (size_t i = 0; i < coded.n; i++)
		coded.p[i] = coded.p[i] == '+' ? '-' : coded.p[i] == '/' ? '_' : coded.p[i];
	struct str out = arena_str(a, buf_str(&coded));
	buf_release(&plain);
	buf_release(&coded);
	return out;
}

struct str cursor_make(struct arena *a, char kind, int64_t n)
{
	char text[24];
	snprintf(text, sizeof text, "%lld", (long long)n);
	return n > 0 ? cursor_encode(a, kind, str_of(text)) : STR("");
}

void cursor_text(struct json_out *j, char kind, struct str text)
{
	struct arena a = {0};
	struct str s = cursor_encode(&a, kind, text);
	if (s.n)
		jout_kstr(j, "next", s);
	else
		jout_kz(j, "next", NULL);
	arena_release(&a);
}

void cursor_int(struct json_out *j, char kind, int64_t n)
{
	char text[24];
	snprintf(text, sizeof text, "%lld", (long long)n);
	cursor_text(j, kind, n > 0 ? str_of(text) : STR(""));
}
