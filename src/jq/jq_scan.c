/*
 * jq_scan.c - cuts a program into the tokens of jq's lexer (src/lexer.l of jq 1.6), as far as names need it. What jq would not take
 * (unclosed texts, stray braces) is passed over: jq says so when it compiles.
 */
#include "jq/jq_scan.h"

#include <string.h>

#include "jq/jq.h"

static const struct refused {
	const char *name, *instead;
} refused[] = {
#define ONE_MESSAGE "a program sees one message, as its input"
    {"input", ONE_MESSAGE},
    {"inputs", ONE_MESSAGE},
    {"input_filename", "there are no files here"},
    {"input_line_number", "there are no files here"},
    {"env", "there is no environment here; write the value into the program"},
    {"debug", "there is nowhere to write to; preview the edit to see what it does"},
    {"stderr", "there is nowhere to write to; preview the edit to see what it does"},
    {"halt", "use empty for no output"},
    {"halt_error", "use error(\"text\") to refuse a message"},
    {"import", "there are no modules here; write the function into the program"},
    {"include", "there are no modules here; write the function into the program"},
    {"modulemeta", "there are no modules here"},
    {"get_search_list", "there are no modules here"},
};

#define NESTED_MAX 4096 /* open braces; deeper ones only lose the freedom of keys */

struct scan {
	struct str s;
	size_t i;
	char open[NESTED_MAX]; /* ( [ { and " for the code inside a text */
	size_t depth;
	char before; /* the last token's first byte: what stands before a name */
};

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static char at(const struct scan *p, size_t i)
{
	return i < p->s.n ? p->s.p[i] : '\0';
}

static void push(struct scan *p, char c)
{
	if (p->depth < NESTED_MAX)
		p->open[p->depth] = c;
	p->depth++;
}

/* What is open around here. */
static char around(const struct scan *p)
{
	return p->depth == 0 || p->depth > NESTED_MAX ? '\0' : p->open[p->depth - 1];
}

/* Inside a text: to its end, or to the code that it holds. */
static void skip_text(struct scan *p)
{
	while (p->i < p->s.n) {
		char c = p->s.p[p->i++];
		if (c == '"')
			return;
		if (c != '\\')
			continue;
		if (at(p, p->i) == '(') {
			p->i++;
			push(p, '"');
			p->before = '(';
			return;
		}
		p->i++;
	}
}

static size_t name_end(const struct scan *p, size_t i)
{
	while (is_letter(at(p, i)) || is_digit(at(p, i)))
		i++;
	return i;
}

/* Names of modules belong to it: a::b. */
static struct str take_name(struct scan *p)
{
	size_t from = p->i;
	p->i = name_end(p, p->i);
	while (at(p, p->i) == ':' && at(p, p->i + 1) == ':' && is_letter(at(p, p->i + 2)))
		p->i = name_end(p, p->i + 2);
	return (struct str){p->s.p + from, p->i - from};
}

static void skip_number(struct scan *p)
{
	while (is_digit(at(p, p->i)) || at(p, p->i) == '.')
		p->i++;
	size_t e = p->i;
	if (at(p, e) != 'e' && at(p, e) != 'E')
		return;
	e += at(p, e + 1) == '+' || at(p, e + 1) == '-' ? 2 : 1;
	if (!is_digit(at(p, e)))
		return;
	while (is_digit(at(p, e)))
		e++;
	p->i = e;
}

static bool is_key(const struct scan *p)
{
	return around(p) == '{' && (p->before == '{' || p->before == ',');
}

static enum dlq_code refuse(const struct scan *p, size_t from, struct str name, const char *instead, struct dlq_err *err)
{
	int line = 1, column = 1;
	for (size_t i = 0; i < from; i++) {
		unsigned char c = (unsigned char)p->s.p[i];
		if (c == '\n') {
			line++;
			column = 1;
		} else if ((c & 0xc0) != 0x80) {
			column++;
		}
	}
	return err_set(err, DLQ_BAD_REQUEST, "the jq program, line %d, column %d: " STR_FMT " is not available: %s", line, column,
	               STR_ARG(name), instead);
}

static enum dlq_code check_name(struct scan *p, struct dlq_err *err)
{
	size_t from = p->i;
	bool key = is_key(p), variable = p->before == '$';
	struct str name = take_name(p);
	p->before = 'a';
	if (variable) {
		if (str_eqz(name, "ENV"))
			return refuse(p, from, STR("$ENV"), "there is no environment here; write the value into the program", err);
		return DLQ_OK;
	}
	for (size_t i = 0; !key && i < ARRAY_LEN(refused); i++)
		if (str_eqz(name, refused[i].name))
			return refuse(p, from, name, refused[i].instead, err);
	return DLQ_OK;
}

/* "@sh": a format. */
static enum dlq_code check_format(struct scan *p, struct dlq_err *err)
{
	size_t from = p->i++;
	p->i = name_end(p, p->i);
	struct str name = {p->s.p + from, p->i - from};
	p->before = '@';
	if (str_eqz(name, "@sh"))
		return refuse(p, from, name, "nothing here runs a shell; use @json for a text in quotes", err);
	return DLQ_OK;
}

static void take_other(struct scan *p, char c)
{
	p->i++;
	if (c == ' ' || c == '\n' || c == '\t' || c == '\r')
		return;
	p->before = c;
	if (c == '(' || c == '[' || c == '{') {
		push(p, c);
	} else if ((c == ')' || c == ']' || c == '}') && p->depth > 0) {
		char opened = around(p);
		p->depth--;
		if (c == ')' && opened == '"') { /* back in the text */
			p->before = '"';
			skip_text(p);
		}
	}
}

enum dlq_code jq_scan(struct str program, struct dlq_err *err)
{
	struct scan p;
	p.s = program;
	p.i = 0;
	p.depth = 0;
	p.before = '\0';
	enum dlq_code code = DLQ_OK;
	while (p.i < p.s.n && code == DLQ_OK) {
		char c = p.s.p[p.i];
		if (c == '#') {
			while (p.i < p.s.n && p.s.p[p.i] != '\n' && p.s.p[p.i] != '\r')
				p.i++;
		} else if (c == '"') {
			p.i++;
			p.before = '"';
			skip_text(&p);
		} else if (c == '.' && is_letter(at(&p, p.i + 1))) {
			p.i = name_end(&p, p.i + 1);
			p.before = '.';
		} else if (is_digit(c) || (c == '.' && (is_digit(at(&p, p.i + 1)) || at(&p, p.i + 1) == '.'))) {
			skip_number(&p);
			p.before = '0';
		} else if (c == '@') {
			code = check_format(&p, err);
		} else if (is_letter(c)) {
			code = check_name(&p, err);
		} else {
			take_other(&p, c);
		}
	}
	return code;
}

/* ---- messages of the compiler ---- */

#define MESSAGE_MAX 300

/* Bytes of line `line` (from 1). */
static size_t line_length(struct str s, int64_t line)
{
	const char *end;
	for (; line > 1 && s.n; line--) {
		end = memchr(s.p, '\n', s.n);
		if (!end)
			return 0;
		s = (struct str){end + 1, s.n - (size_t)(end + 1 - s.p)};
	}
	end = s.n ? memchr(s.p, '\n', s.n) : NULL;
	return end ? (size_t)(end - s.p) : s.n;
}

/* Where the last `part` begins in s, or s.n. */
static size_t last_place(struct str s, struct str part)
{
	for (size_t i = s.n < part.n ? 0 : s.n - part.n + 1; i-- > 0;)
		if (memcmp(s.p + i, part.p, part.n) == 0)
			return i;
	return s.n;
}

static bool drop_end(struct str *s, struct str end)
{
	if (s->n < end.n || memcmp(s->p + s->n - end.n, end.p, end.n) != 0)
		return false;
	s->n -= end.n;
	return true;
}

void jq_shape_message(struct str program, struct str message, struct buf *out)
{
	struct str s = message, place = STR(" at <top-level>, line ");
	if (str_starts(s, "jq: error: "))
		s = (struct str){s.p + 11, s.n - 11};
	size_t at = last_place(s, place), i = at + place.n;
	struct str what = {s.p, at};
	int64_t line = 0;
	for (; at < s.n && i < s.n && is_digit(s.p[i]) && line < JQ_PROGRAM_MAX; i++)
		line = line * 10 + (s.p[i] - '0');
	if (line > 0 && s.n - i >= 2 && s.p[i] == ':' && s.p[i + 1] == '\n') {
		size_t after = s.n - i - 2, source = line_length(program, line);
		buf_addf(out, "line %d, column %zu: ", (int)line, after >= source ? after - source + 1 : 1);
	}
	drop_end(&what, STR(" (Unix shell quoting issues?)"));
	buf_adds(out, str_cut(what, MESSAGE_MAX));
}
