/*
 * JSON as a struct doc. Jansson alone decides what is valid; then this file's scanner, which may rely on that, builds the
 * tree with the places that Jansson does not keep.
 */
#include "base/doc_build.h"

#include <jansson.h>
#include <string.h>

struct scan {
	struct doc_builder b;
	const char *p, *end;
	const char *line_start;
	int line;
};

static int column(const struct scan *s)
{
	return (int)(s->p - s->line_start) + 1;
}

static void skip_blanks(struct scan *s)
{
	for (; s->p < s->end; s->p++) {
		if (*s->p == '\n') {
			s->line++;
			s->line_start = s->p + 1;
		} else if (*s->p != ' ' && *s->p != '\t' && *s->p != '\r') {
			return;
		}
	}
}

static unsigned hex4(const char *p)
{
	unsigned v = 0;
	for (int i = 0; i < 4; i++) {
		char c = p[i];
		v = v * 16 + (unsigned)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
	}
	return v;
}

static char *put_utf8(char *to, unsigned c)
{
	if (c < 0x80) {
		*to++ = (char)c;
		return to;
	}
	int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
	static const unsigned char first[] = {0, 0xc0, 0xe0, 0xf0};
	*to++ = (char)(first[more] | c >> (6 * more));
	while (more-- > 0)
		*to++ = (char)(0x80 | (c >> (6 * more) & 0x3f));
	return to;
}

/* After a backslash; s->p is at the letter. */
static char *put_escape(struct scan *s, char *to)
{
	static const char letters[] = "bfnrt", values[] = "\b\f\n\r\t";
	char c = *s->p++;
	if (c != 'u') {
		const char *at = strchr(letters, c);
		*to++ = at ? values[at - letters] : c;
		return to;
	}
	ASSERT(s->end - s->p >= 4);
	unsigned v = hex4(s->p);
	s->p += 4;
	if (v >= 0xd800 && v < 0xdc00) { /* Jansson has seen that the second half follows */
		ASSERT(s->end - s->p >= 6);
		v = 0x10000 + ((v - 0xd800) << 10) + (hex4(s->p + 2) - 0xdc00);
		s->p += 6;
	}
	return put_utf8(to, v);
}

static struct str scan_string(struct scan *s)
{
	const char *start = ++s->p; /* past the quote */
	const char *close = start;
	while (close < s->end && *close != '"')
		close += *close == '\\' ? 2 : 1;
	ASSERT(close < s->end);
	char *text = arena_alloc(s->b.arena, (size_t)(close - start) + 1); /* unescaped text is never longer */
	char *to = text;
	while (s->p < close) {
		char c = *s->p++;
		if (c == '\\')
			to = put_escape(s, to);
		else
			*to++ = c;
	}
	s->p++;
	return (struct str){text, (size_t)(to - text)};
}

static enum dlq_code scan_scalar(struct scan *s)
{
	int line = s->line, col = column(s);
	if (*s->p == '"') {
		struct doc *d = build_add(&s->b, DOC_SCALAR, line, col);
		d->text = scan_string(s);
		d->quoted = true;
		return DLQ_OK;
	}
	const char *start = s->p;
	while (s->p < s->end && (memchr("+-.", *s->p, 3) || (*s->p >= '0' && *s->p <= '9') ||
	                         ((*s->p | 0x20) >= 'a' && (*s->p | 0x20) <= 'z')))
		s->p++;
	struct str word = {start, (size_t)(s->p - start)};
	ASSERT(word.n > 0);
	struct doc *d = build_add(&s->b, str_eqz(word, "null") ? DOC_NULL : DOC_SCALAR, line, col);
	if (d->kind == DOC_SCALAR)
		d->text = arena_str(s->b.arena, word);
	return DLQ_OK;
}

static enum dlq_code scan_token(struct scan *s)
{
	char c = *s->p;
	if (c == '{' || c == '[') {
		if (!build_open(&s->b, c == '{' ? DOC_MAP : DOC_LIST, s->line, column(s)))
			return DLQ_INVALID_SETTING;
		s->p++;
	} else if (c == '}' || c == ']') {
		build_close(&s->b);
		s->p++;
	} else if (c == ',' || c == ':') {
		s->p++;
	} else if (c == '"' && build_wants_key(&s->b)) {
		int line = s->line;
		return build_key(&s->b, scan_string(s), line);
	} else {
		return scan_scalar(s);
	}
	return DLQ_OK;
}

/* Valid JSON or INVALID_JSON; text may hold anything. */
static enum dlq_code validate(struct str text, const char *file, struct dlq_err *err)
{
	/* Jansson 2.14 passes over a NUL after a word or a number: "[true<NUL>]" is valid to it. */
	const char *nul = text.n ? memchr(text.p, '\0', text.n) : NULL;
	if (nul) {
		int line = 1;
		for (const char *p = text.p; p < nul; p++)
			line += *p == '\n';
		return err_set(err, DLQ_INVALID_JSON, "%s:%d: this is not valid JSON: it holds a NUL byte", file, line);
	}
	json_error_t e;
	json_t *root = json_loadb(text.p, text.n, JSON_DECODE_ANY, &e);
	if (!root) {
		int line = e.line > 0 ? e.line : 1;
		err_set(err, DLQ_INVALID_JSON, "%s:%d: this is not valid JSON: %s (column %d)", file, line, e.text, e.column);
		build_printable(err);
		return DLQ_INVALID_JSON;
	}
	json_decref(root);
	return DLQ_OK;
}

enum dlq_code doc_from_json(struct arena *a, struct str text, const char *file, struct doc **out, struct dlq_err *err)
{
	enum dlq_code code = validate(text, file, err);
	if (code != DLQ_OK)
		return code;
	struct scan s = {.p = text.p, .end = text.p + text.n, .line_start = text.p, .line = 1};
	s.b = (struct doc_builder){.arena = a, .file = arena_str(a, str_of(file)).p, .err = err};
	for (skip_blanks(&s); code == DLQ_OK && s.p < s.end; skip_blanks(&s))
		code = scan_token(&s);
	if (code == DLQ_OK)
		*out = s.b.root;
	return code;
}
