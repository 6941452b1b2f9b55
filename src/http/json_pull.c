#include "http/json_pull.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void jp_init(struct json_pull *j, struct str text, int line, struct arena *arena)
{
	j->start = j->p = text.p;
	j->end = text.p + text.n;
	j->arena = arena;
	j->depth = 0;
	j->line = line;
	j->comma = false;
	j->failed = false;
	j->err.code = DLQ_OK;
	j->err.detail[0] = '\0';
	j->err_line = j->err_col = 0;
}

bool jp_fail(struct json_pull *j, enum dlq_code code, const char *fmt, ...)
{
	if (j->failed)
		return false;
	j->failed = true;
	j->err_line = j->line;
	j->err_col = 1;
	for (const char *p = j->start; p < j->p && p < j->end; p++) {
		if (*p == '\n') {
			j->err_line++;
			j->err_col = 1;
		} else if (((unsigned char)*p & 0xc0) != 0x80) {
			j->err_col++;
		}
	}
	va_list args;
	char text[400];
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	err_set(&j->err, code, "line %d, column %d: %s", j->err_line, j->err_col, text);
	return false;
}

static void skip_space(struct json_pull *j)
{
	while (j->p < j->end && (*j->p == ' ' || *j->p == '\n' || *j->p == '\r' || *j->p == '\t'))
		j->p++;
}

char jp_peek(struct json_pull *j)
{
	if (j->failed)
		return 0;
	skip_space(j);
	if (j->p == j->end)
		return 0;
	char c = *j->p;
	if (c == '-' || (c >= '0' && c <= '9'))
		return '0';
	if (c == 't' || c == 'f')
		return 't';
	return c == '{' || c == '[' || c == '"' || c == 'n' ? c : 0;
}

static const char *kind_name(char kind)
{
	switch (kind) {
	case '{': return "an object";
	case '[': return "a list";
	case '"': return "text";
	case '0': return "a number";
	case 't': return "true or false";
	case 'n': return "null";
	default: return "a value";
	}
}

/* Whether a value of that kind is next; says what is wrong otherwise. */
static bool expect(struct json_pull *j, char kind)
{
	char c = jp_peek(j);
	if (c == kind)
		return true;
	if (j->failed)
		return false;
	if (c)
		return jp_fail(j, DLQ_BAD_REQUEST, "there must be %s here, not %s", kind_name(kind), kind_name(c));
	if (j->p == j->end)
		return jp_fail(j, DLQ_INVALID_JSON, "the text ends where %s must be", kind_name(kind));
	return jp_fail(j, DLQ_INVALID_JSON, "there must be %s here", kind_name(kind));
}

static bool enter(struct json_pull *j, char brace)
{
	if (!expect(j, brace))
		return false;
	if (j->depth >= JP_DEPTH)
		return jp_fail(j, DLQ_INVALID_JSON, "more than %d levels", JP_DEPTH);
	j->depth++;
	j->p++;
	j->comma = false;
	return true;
}

bool jp_object(struct json_pull *j)
{
	return enter(j, '{');
}

bool jp_array(struct json_pull *j)
{
	return enter(j, '[');
}

/* At the start of the next entry; false at the closing brace (taken) or on error. */
static bool next_entry(struct json_pull *j, char brace)
{
	if (j->failed)
		return false;
	skip_space(j);
	if (j->p < j->end && *j->p == brace) {
		j->p++;
		j->depth--;
		j->comma = true;
		return false;
	}
	if (j->comma) {
		if (j->p == j->end || *j->p != ',')
			return jp_fail(j, DLQ_INVALID_JSON, j->p == j->end ? "the text ends inside a list or an object"
			                                                   : "a comma or '%c' must be here", brace);
		j->p++;
		skip_space(j);
		if (j->p < j->end && *j->p == brace)
			return jp_fail(j, DLQ_INVALID_JSON, "a comma before '%c'", brace);
	}
	if (j->p == j->end)
		return jp_fail(j, DLQ_INVALID_JSON, "the text ends inside a list or an object");
	return true;
}

bool jp_item(struct json_pull *j)
{
	return next_entry(j, ']');
}

bool jp_key(struct json_pull *j, struct str *key)
{
	if (!next_entry(j, '}'))
		return false;
	if (*j->p != '"')
		return jp_fail(j, DLQ_INVALID_JSON, "a key in double quotes must be here");
	if (!jp_str(j, key))
		return false;
	skip_space(j);
	if (j->p == j->end || *j->p != ':')
		return jp_fail(j, DLQ_INVALID_JSON, "a colon must follow the key");
	j->p++;
	j->comma = false;
	return true;
}

/* The end of the run of plain characters at p: before a quote, a backslash, a control or a non-ASCII byte. */
static const char *plain_run(const char *p, const char *end)
{
	const uint64_t ones = 0x0101010101010101ull, high = 0x8080808080808080ull;
	while (end - p >= 8) {
		uint64_t w;
		memcpy(&w, p, 8);
		uint64_t quote = w ^ (ones * '"'), slash = w ^ (ones * '\\');
		uint64_t stop = ((quote - ones) & ~quote) | ((slash - ones) & ~slash) | (w - ones * 0x20) | w;
		if (stop & high)
			break;
		p += 8;
	}
	while (p < end && (unsigned char)*p >= 0x20 && (unsigned char)*p < 0x80 && *p != '"' && *p != '\\')
		p++;
	return p;
}

/* Length of the well-formed UTF-8 sequence (Unicode table 3-7) at p, 0 if there is none. */
static int utf8_len(const char *s, const char *end)
{
	const unsigned char *p = (const unsigned char *)s;
	size_t left = (size_t)(end - s);
	if (p[0] < 0xc2 || p[0] > 0xf4)
		return 0;
	int n = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	if (left < (size_t)n)
		return 0;
	unsigned char low = p[0] == 0xe0 ? 0xa0 : p[0] == 0xf0 ? 0x90 : 0x80;
	unsigned char top = p[0] == 0xed ? 0x9f : p[0] == 0xf4 ? 0x8f : 0xbf;
	if (p[1] < low || p[1] > top)
		return 0;
	for (int i = 2; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	return n;
}

static bool hex4(const char *p, const char *end, unsigned *out)
{
	unsigned v = 0;
	if (end - p < 4)
		return false;
	for (int i = 0; i < 4; i++) {
		char c = p[i];
		unsigned d = c >= '0' && c <= '9' ? (unsigned)(c - '0') : (c | 32) >= 'a' && (c | 32) <= 'f' ? (unsigned)((c | 32) - 'a') + 10 : 16;
		if (d > 15)
			return false;
		v = v * 16 + d;
	}
	*out = v;
	return true;
}

/* Reads the escape at j->p (a backslash) into *w. */
static bool take_escape(struct json_pull *j, char **w)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	unsigned u, low;
	char c = j->p + 1 < j->end ? j->p[1] : 0;
	const char *at = c ? strchr(from, c) : NULL;
	if (at) {
		*(*w)++ = to[at - from];
		j->p += 2;
		return true;
	}
	if (c != 'u' || !hex4(j->p + 2, j->end, &u))
		return jp_fail(j, DLQ_INVALID_JSON, "an escape that JSON does not have");
	size_t n = 6;
	if (u >= 0xd800 && u < 0xdc00) {
		if (j->end - j->p < 12 || j->p[6] != '\\' || j->p[7] != 'u' || !hex4(j->p + 8, j->end, &low) || low < 0xdc00 || low > 0xdfff)
			return jp_fail(j, DLQ_INVALID_JSON, "half a surrogate pair");
		u = 0x10000 + ((u - 0xd800) << 10) + (low - 0xdc00);
		n = 12;
	} else if (u >= 0xdc00 && u < 0xe000) {
		return jp_fail(j, DLQ_INVALID_JSON, "half a surrogate pair");
	}
	if (u == 0)
		return jp_fail(j, DLQ_INVALID_JSON, "\\u0000 cannot be in text; use body_base64 for such bytes");
	j->p += n;
	if (u < 0x80) {
		*(*w)++ = (char)u;
	} else if (u < 0x800) {
		*(*w)++ = (char)(0xc0 | u >> 6);
		*(*w)++ = (char)(0x80 | (u & 63));
	} else if (u < 0x10000) {
		*(*w)++ = (char)(0xe0 | u >> 12);
		*(*w)++ = (char)(0x80 | (u >> 6 & 63));
		*(*w)++ = (char)(0x80 | (u & 63));
	} else {
		*(*w)++ = (char)(0xf0 | u >> 18);
		*(*w)++ = (char)(0x80 | (u >> 12 & 63));
		*(*w)++ = (char)(0x80 | (u >> 6 & 63));
		*(*w)++ = (char)(0x80 | (u & 63));
	}
	return true;
}

/* The rest of a string from its first escape on. The decoded text is never longer than the written one. */
static bool str_escaped(struct json_pull *j, const char *from, struct str *out)
{
	const char *close = j->p;
	while (close < j->end && *close != '"')
		close += *close == '\\' && close + 1 < j->end ? 2 : 1;
	char *text = arena_alloc(j->arena, (size_t)(close - from) + 1), *w = text;
	memcpy(w, from, (size_t)(j->p - from));
	w += j->p - from;
	while (j->p < j->end && *j->p != '"') {
		if (*j->p == '\\') {
			if (!take_escape(j, &w))
				return false;
			continue;
		}
		const char *run = plain_run(j->p, j->end);
		if (run == j->p) {
			int n = utf8_len(j->p, j->end);
			if (!n)
				return jp_fail(j, DLQ_INVALID_JSON, (unsigned char)*j->p < 0x20 ? "a control character inside text"
				                                                                : "not UTF-8");
			run = j->p + n;
		}
		memcpy(w, j->p, (size_t)(run - j->p));
		w += run - j->p;
		j->p = run;
	}
	*out = (struct str){text, (size_t)(w - text)};
	return true;
}

bool jp_str(struct json_pull *j, struct str *out)
{
	if (!expect(j, '"'))
		return false;
	const char *from = ++j->p;
	for (;;) {
		j->p = plain_run(j->p, j->end);
		if (j->p == j->end)
			return jp_fail(j, DLQ_INVALID_JSON, "the text ends inside a string");
		if (*j->p == '"') {
			*out = (struct str){from, (size_t)(j->p - from)};
			break;
		}
		if (*j->p == '\\') {
			if (!str_escaped(j, from, out))
				return false;
			if (j->p == j->end)
				return jp_fail(j, DLQ_INVALID_JSON, "the text ends inside a string");
			break;
		}
		int n = utf8_len(j->p, j->end);
		if (!n)
			return jp_fail(j, DLQ_INVALID_JSON, (unsigned char)*j->p < 0x20 ? "a control character inside text" : "not UTF-8");
		j->p += n;
	}
	j->p++;
	j->comma = true;
	return true;
}

/* The end of the number at p by the grammar, NULL if there is none. *whole: no fraction and no exponent. */
static const char *number_end(const char *p, const char *end, bool *whole)
{
	*whole = true;
	if (p < end && *p == '-')
		p++;
	if (p == end || *p < '0' || *p > '9')
		return NULL;
	if (*p == '0')
		p++;
	else
		while (p < end && *p >= '0' && *p <= '9')
			p++;
	if (p < end && *p == '.') {
		*whole = false;
		if (++p == end || *p < '0' || *p > '9')
			return NULL;
		while (p < end && *p >= '0' && *p <= '9')
			p++;
	}
	if (p < end && (*p | 32) == 'e') {
		*whole = false;
		if (++p < end && (*p == '+' || *p == '-'))
			p++;
		if (p == end || *p < '0' || *p > '9')
			return NULL;
		while (p < end && *p >= '0' && *p <= '9')
			p++;
	}
	return p;
}

/* Takes a number; *fits: it was a whole one and is in *out. */
static bool take_number(struct json_pull *j, bool *fits, int64_t *out)
{
	bool whole;
	if (!expect(j, '0'))
		return false;
	const char *stop = number_end(j->p, j->end, &whole);
	if (!stop)
		return jp_fail(j, DLQ_INVALID_JSON, "not a number as JSON writes them");
	size_t n = (size_t)(stop - j->p);
	char small[64], *text = n < sizeof small ? small : arena_alloc(j->arena, n + 1);
	memcpy(text, j->p, n);
	text[n] = '\0';
	errno = 0;
	if (whole)
		*out = strtoll(text, NULL, 10);
	else if (isinf(strtod(text, NULL)))
		errno = ERANGE;
	else
		errno = 0; /* a denormal is fine */
	if (errno)
		return jp_fail(j, DLQ_INVALID_JSON, "the number is too large");
	*fits = whole;
	j->p = stop;
	j->comma = true;
	return true;
}

bool jp_int(struct json_pull *j, int64_t min, int64_t max, int64_t *out)
{
	const char *from;
	bool fits = false;
	int64_t v = 0;
	jp_peek(j);
	from = j->p;
	if (!take_number(j, &fits, &v))
		return false;
	if (!fits || v < min || v > max) {
		j->p = from;
		return jp_fail(j, DLQ_BAD_REQUEST, "there must be a whole number from %lld to %lld here", (long long)min, (long long)max);
	}
	*out = v;
	return true;
}

static bool word(struct json_pull *j, const char *w)
{
	size_t n = strlen(w);
	if ((size_t)(j->end - j->p) < n || memcmp(j->p, w, n) != 0)
		return false;
	j->p += n;
	j->comma = true;
	return true;
}

bool jp_bool(struct json_pull *j, bool *out)
{
	if (!expect(j, 't'))
		return false;
	*out = *j->p == 't';
	return word(j, *out ? "true" : "false") || jp_fail(j, DLQ_INVALID_JSON, "there must be true or false here");
}

bool jp_null(struct json_pull *j)
{
	if (jp_peek(j) != 'n')
		return false;
	return word(j, "null") || jp_fail(j, DLQ_INVALID_JSON, "there must be a value here");
}

bool jp_end(struct json_pull *j)
{
	if (j->failed)
		return false;
	skip_space(j);
	return j->p == j->end || jp_fail(j, DLQ_INVALID_JSON, "something follows the end of the document");
}

bool jp_skip(struct json_pull *j)
{
	struct str s;
	bool b, fits;
	int64_t v;
	switch (jp_peek(j)) {
	case '{':
		if (!jp_object(j))
			return false;
		while (jp_key(j, &s))
			if (!jp_skip(j))
				return false;
		return !j->failed;
	case '[':
		if (!jp_array(j))
			return false;
		while (jp_item(j))
			if (!jp_skip(j))
				return false;
		return !j->failed;
	case '"': return jp_str(j, &s);
	case '0': return take_number(j, &fits, &v);
	case 't': return jp_bool(j, &b);
	case 'n': return jp_null(j);
	default:
		return jp_fail(j, DLQ_INVALID_JSON, j->p == j->end ? "the text ends where a value must be" : "there must be a value here");
	}
}

/* Errors about a key point at it; one with escapes is not in the text itself. */
static void back_to_key(struct json_pull *j, struct str key)
{
	if (!j->failed && key.p > j->start && key.p <= j->end)
		j->p = key.p - 1;
}

int jp_field(struct json_pull *j, struct str key, const char *const *known, int n, unsigned *seen)
{
	for (int i = 0; i < n; i++) {
		if (!str_eqz(key, known[i]))
			continue;
		if (*seen & 1u << i) {
			back_to_key(j, key);
			jp_fail(j, DLQ_INVALID_JSON, "the key \"%s\" is there twice", known[i]);
			return -1;
		}
		*seen |= 1u << i;
		return i;
	}
	const char *near = str_nearest(key, known, (size_t)n);
	back_to_key(j, key);
	if (key.n > 64)
		key.n = 64;
	jp_fail(j, DLQ_BAD_REQUEST, near ? "unknown key \"" STR_FMT "\"; did you mean \"%s\"?" : "unknown key \"" STR_FMT "\"",
	        STR_ARG(key), near);
	return -1;
}
