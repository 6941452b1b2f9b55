#include "base/base.h"

#include <stdio.h>
#include <string.h>

#define BUF_CAP_MIN 64

char *buf_reserve(struct buf *b, size_t n)
{
	size_t max = b->max ? b->max : BUF_MAX_DEFAULT;
	if (b->overflow)
		return NULL;
	if (b->n > max || n > max - b->n) {
		b->overflow = true;
		return NULL;
	}
	size_t need = b->n + n;
	if (need > b->cap || !b->p) {
		size_t cap = b->cap ? b->cap : BUF_CAP_MIN;
		while (cap < need)
			cap *= 2;
		b->p = mem_grow(b->p, cap, 1);
		b->cap = cap;
	}
	return b->p + b->n;
}

void buf_add(struct buf *b, const void *p, size_t n)
{
	if (n == 0)
		return;
	char *to = buf_reserve(b, n);
	if (!to)
		return;
	memcpy(to, p, n);
	b->n += n;
}

void buf_addz(struct buf *b, const char *z)
{
	buf_add(b, z, strlen(z));
}

void buf_addc(struct buf *b, char c)
{
	if (b->n < b->cap && !b->overflow && b->n < (b->max ? b->max : BUF_MAX_DEFAULT))
		b->p[b->n++] = c;
	else
		buf_add(b, &c, 1);
}

void buf_adds(struct buf *b, struct str s)
{
	buf_add(b, s.p, s.n);
}

void buf_addf(struct buf *b, const char *fmt, ...)
{
	char small[256];
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(small, sizeof small, fmt, ap);
	va_end(ap);
	ASSERT(n >= 0);
	if ((size_t)n < sizeof small) {
		buf_add(b, small, (size_t)n);
		return;
	}
	char *p = mem_alloc((size_t)n + 1);
	va_start(ap, fmt);
	vsnprintf(p, (size_t)n + 1, fmt, ap);
	va_end(ap);
	buf_add(b, p, (size_t)n);
	mem_free(p);
}

struct str buf_str(const struct buf *b)
{
	return b->n ? (struct str){b->p, b->n} : (struct str){"", 0};
}

void buf_clear(struct buf *b)
{
	b->n = 0;
	b->overflow = false;
}

void buf_fit(struct buf *b)
{
	if (!b->n) {
		buf_release(b);
	} else if (b->n < b->cap) {
		b->p = mem_grow(b->p, b->n, 1);
		b->cap = b->n;
	}
}

void buf_release(struct buf *b)
{
	mem_free(b->p);
	*b = (struct buf){.max = b->max};
}

char *buf_take(struct buf *b, size_t *n)
{
	char *p = mem_grow(b->p, b->n + 1, 1);
	p[b->n] = '\0';
	if (n)
		*n = b->n;
	*b = (struct buf){.max = b->max};
	return p;
}
