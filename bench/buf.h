/* A growable byte buffer. Running out of memory ends the program: this is a tool. */
#ifndef DLQ_BENCH_BUF_H
#define DLQ_BENCH_BUF_H

#include <stddef.h>

struct buf {
	char *p;
	size_t len;
	size_t cap;
};

/* Makes room for `more` bytes past len. */
void buf_reserve(struct buf *b, size_t more);
void buf_add(struct buf *b, const void *p, size_t n);
void buf_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_release(struct buf *b);

/* Prints "dlq-bench: ..." to stderr and exits with 1. */
_Noreturn void die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
