#include "buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("dlq-bench: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	exit(1);
}

void buf_reserve(struct buf *b, size_t more)
{
	if (b->cap - b->len >= more)
		return;
	size_t cap = b->cap ? b->cap : 2048;
	while (cap - b->len < more)
		cap *= 2;
	b->p = realloc(b->p, cap);
	if (!b->p)
		die("out of memory");
	b->cap = cap;
}

void buf_add(struct buf *b, const void *p, size_t n)
{
	buf_reserve(b, n);
	memcpy(b->p + b->len, p, n);
	b->len += n;
}

void buf_addf(struct buf *b, const char *fmt, ...)
{
	va_list ap;

	buf_reserve(b, 128);
	va_start(ap, fmt);
	int n = vsnprintf(b->p + b->len, b->cap - b->len, fmt, ap);
	va_end(ap);
	if (n < 0)
		die("bad format");
	if ((size_t)n >= b->cap - b->len) {
		buf_reserve(b, (size_t)n + 1);
		va_start(ap, fmt);
		vsnprintf(b->p + b->len, (size_t)n + 1, fmt, ap);
		va_end(ap);
	}
	b->len += (size_t)n;
}

void buf_release(struct buf *b)
{
	free(b->p);
	*b = (struct buf){0};
}
