#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn static void out_of_memory(size_t n)
{
	fprintf(stderr, "dlq: out of memory: %zu bytes were refused; nothing that was confirmed is lost\n", n);
	abort();
}

void *mem_alloc(size_t n)
{
	void *p = calloc(1, n ? n : 1);
	if (!p)
		out_of_memory(n);
	return p;
}

static size_t product(size_t n, size_t size)
{
	size_t bytes;
	if (__builtin_mul_overflow(n, size, &bytes))
		out_of_memory(SIZE_MAX);
	return bytes;
}

void *mem_array(size_t n, size_t size)
{
	return mem_alloc(product(n, size));
}

void *mem_grow(void *p, size_t n, size_t size)
{
	size_t bytes = product(n, size);
	void *q = realloc(p, bytes ? bytes : 1);
	if (!q)
		out_of_memory(bytes);
	return q;
}

char *mem_strdup(struct str s)
{
	char *p = mem_grow(NULL, s.n + 1, 1);
	if (s.n)
		memcpy(p, s.p, s.n);
	p[s.n] = '\0';
	return p;
}

void mem_free(void *p)
{
	free(p);
}

/* ---- arena ---- */

#define ARENA_ALIGN 16
#define ARENA_BLOCK_MIN 1024
#define ARENA_BLOCK_MAX ((size_t)1 << 20)

/* A list, newest first. The data follows the header. */
struct arena_block {
	struct arena_block *older;
	size_t size, used;
	size_t pad;
};
_Static_assert(sizeof(struct arena_block) % ARENA_ALIGN == 0, "the data after the header must be aligned");

static char *block_data(struct arena_block *b)
{
	return (char *)(b + 1);
}

static struct arena_block *block_new(struct arena *a, size_t need)
{
	size_t size = a->block ? a->block->size * 2 : ARENA_BLOCK_MIN;
	if (size > ARENA_BLOCK_MAX)
		size = ARENA_BLOCK_MAX;
	if (size < need)
		size = need;
	struct arena_block *b = mem_grow(NULL, sizeof *b + size, 1);
	*b = (struct arena_block){.older = a->block, .size = size};
	a->block = b;
	return b;
}

/* Not zeroed. */
static void *arena_take(struct arena *a, size_t n)
{
	if (n > SIZE_MAX / 2)
		out_of_memory(n);
	size_t room = (n + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
	struct arena_block *b = a->block;
	if (!b || b->size - b->used < room)
		b = block_new(a, room);
	void *p = block_data(b) + b->used;
	b->used += room;
	a->used += room;
	return p;
}

void *arena_alloc(struct arena *a, size_t n)
{
	return memset(arena_take(a, n ? n : 1), 0, n);
}

struct str arena_str(struct arena *a, struct str s)
{
	char *p = arena_take(a, s.n + 1);
	if (s.n)
		memcpy(p, s.p, s.n);
	p[s.n] = '\0';
	return (struct str){p, s.n};
}

struct str arena_fmt(struct arena *a, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	ASSERT(n >= 0);
	char *p = arena_take(a, (size_t)n + 1);
	va_start(ap, fmt);
	vsnprintf(p, (size_t)n + 1, fmt, ap);
	va_end(ap);
	return (struct str){p, (size_t)n};
}

/* Frees all blocks but the oldest, which is returned (or NULL). */
static struct arena_block *free_newer(struct arena_block *b)
{
	while (b && b->older) {
		struct arena_block *older = b->older;
		mem_free(b);
		b = older;
	}
	return b;
}

void arena_reset(struct arena *a)
{
	a->block = free_newer(a->block);
	if (a->block)
		a->block->used = 0;
	a->used = 0;
}

void arena_release(struct arena *a)
{
	mem_free(free_newer(a->block));
	*a = (struct arena){0};
}
