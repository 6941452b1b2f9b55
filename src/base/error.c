#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct code_row {
	const char *name;
	int http, exit;
	bool retriable;
	const char *title;
} rows[DLQ_CODE_COUNT] = {
#define X(name, code, http, exit, retriable, title) [DLQ_##name] = {code, http, exit, retriable, title},
    DLQ_ERROR_TABLE(X)
#undef X
};

static const struct code_row *row_of(enum dlq_code code)
{
	ASSERT((unsigned)code < DLQ_CODE_COUNT);
	return &rows[code];
}

const char *code_name(enum dlq_code code)
{
	return row_of(code)->name;
}

const char *code_title(enum dlq_code code)
{
	return row_of(code)->title;
}

int code_http(enum dlq_code code)
{
	return row_of(code)->http;
}

int code_exit(enum dlq_code code)
{
	return row_of(code)->exit;
}

bool code_retriable(enum dlq_code code)
{
	return row_of(code)->retriable;
}

void assert_fail(const char *cond, const char *file, int line)
{
	fprintf(stderr, "dlq: a fault in dlq itself at %s:%d: \"%s\" does not hold; please report this line\n", file, line,
	        cond);
	abort();
}

/* Takes a character that was cut at the end off, so that a detail is valid UTF-8 if its parts were. */
static void drop_cut_character(char *text)
{
	size_t n = strlen(text), back = 0;
	while (back < 3 && back < n && ((unsigned char)text[n - 1 - back] & 0xc0) == 0x80)
		back++;
	if (back == n)
		return;
	unsigned char first = (unsigned char)text[n - 1 - back];
	size_t need = first < 0xc0 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
	if (need > back + 1)
		text[n - 1 - back] = '\0';
}

enum dlq_code err_set(struct dlq_err *err, enum dlq_code code, const char *fmt, ...)
{
	if (!err)
		return code;
	/* The arguments may point into err->detail itself. */
	char text[sizeof err->detail];
	va_list ap;
	va_start(ap, fmt);
	int wanted = vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	if (wanted < 0 || (size_t)wanted >= sizeof text)
		drop_cut_character(text);
	err->code = code;
	memcpy(err->detail, text, sizeof text);
	return code;
}

void err_prefix(struct dlq_err *err, const char *fmt, ...)
{
	if (!err)
		return;
	char front[sizeof err->detail];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(front, sizeof front, fmt, ap);
	va_end(ap);
	struct buf b = {.max = 2 * sizeof front};
	buf_addz(&b, front);
	buf_addz(&b, ": ");
	buf_addz(&b, err->detail);
	struct str s = str_cut(buf_str(&b), sizeof front - 1);
	memcpy(err->detail, s.p, s.n);
	err->detail[s.n] = '\0';
	buf_release(&b);
}
