/*
 * base.h - the few words everything else is written in: strings with a length, growable buffers with a
 * maximum, arenas, errors. No I/O, no clock.
 */
#ifndef BASE_BASE_H
#define BASE_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dlq/error.h"

#define MUST_USE __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* Our own bugs. Stays on in release; no side effects in the expression; bad input never ends here. */
#define ASSERT(cond) ((cond) ? (void)0 : assert_fail(#cond, __FILE__, __LINE__))
_Noreturn void assert_fail(const char *cond, const char *file, int line);

/* ---- strings: borrowed bytes, any value allowed, not necessarily ended by NUL ---- */

struct str {
	const char *p;
	size_t n;
};
#define STR(literal) ((struct str){(literal), sizeof(literal) - 1})
#define STR_FMT "%.*s"
#define STR_ARG(s) (int)(s).n, (s).p

struct str str_of(const char *z); /* NULL gives the empty string */
bool str_eq(struct str a, struct str b);
bool str_eqz(struct str a, const char *z);
bool str_starts(struct str s, const char *prefix);
struct str str_trim(struct str s); /* without spaces, tabs, CR, LF at both ends */
/* The candidate nearest to `word` by edit distance, or NULL if none is near enough to suggest. */
const char *str_nearest(struct str word, const char *const *candidates, size_t n);
/* Whether s is well-formed UTF-8 without NUL. */
bool str_is_utf8(struct str s);
/* The first at most max bytes of s, not ending inside a UTF-8 character. */
struct str str_cut(struct str s, size_t max);
/* The length (2 to 4) of the well-formed multi-byte UTF-8 sequence at p, or 0 if there is none. */
size_t utf8_sequence(const char *p, size_t n);

/* ---- errors ---- */

/* Sets err (if not NULL) and returns code, so that `return err_set(err, DLQ_X, "...")` reads well. */
enum dlq_code err_set(struct dlq_err *err, enum dlq_code code, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Puts text and ": " in front of err->detail. */
void err_prefix(struct dlq_err *err, const char *fmt, ...) PRINTF_LIKE(2, 3);
const char *code_name(enum dlq_code code);  /* the problem code, such as "queue_full" */
const char *code_title(enum dlq_code code);
int code_http(enum dlq_code code);
int code_exit(enum dlq_code code);
bool code_retriable(enum dlq_code code);

/* ---- memory: these never return NULL; a machine out of memory ends the process with a message ---- */

void *mem_alloc(size_t n);                   /* zeroed */
void *mem_array(size_t n, size_t size);      /* zeroed, overflow checked */
void *mem_grow(void *p, size_t n, size_t size);
char *mem_strdup(struct str s);              /* NUL-ended copy */
void mem_free(void *p);                      /* takes NULL */

/* ---- arena: many small things with one end ---- */

struct arena_block;
struct arena {
	struct arena_block *block; /* the one being filled; all are freed together */
	size_t used;               /* bytes handed out, for limits */
};
void *arena_alloc(struct arena *a, size_t n); /* zeroed, aligned to 16 */
struct str arena_str(struct arena *a, struct str s); /* a copy, NUL-ended beyond its length */
struct str arena_fmt(struct arena *a, const char *fmt, ...) PRINTF_LIKE(2, 3);
void arena_reset(struct arena *a);   /* empty, keeps the first block for reuse */
void arena_release(struct arena *a); /* empty, frees all; a zeroed arena is fine */

/* ---- buf: a growable byte buffer with a maximum ---- */

struct buf {
	char *p;
	size_t n, cap;
	size_t max;    /* 0: BUF_MAX_DEFAULT */
	bool overflow; /* an append went past max; nothing more is stored */
};
#define BUF_MAX_DEFAULT ((size_t)64 << 20)
void buf_add(struct buf *b, const void *p, size_t n);
void buf_addz(struct buf *b, const char *z);
void buf_addc(struct buf *b, char c);
void buf_adds(struct buf *b, struct str s);
void buf_addf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
char *buf_reserve(struct buf *b, size_t n); /* room for n more bytes, or NULL past max; then b->n += used */
struct str buf_str(const struct buf *b);
void buf_clear(struct buf *b);   /* empty, memory kept */
void buf_fit(struct buf *b);     /* gives back memory that is not filled */
void buf_release(struct buf *b); /* empty, memory freed */
char *buf_take(struct buf *b, size_t *n); /* the caller frees it with mem_free; NUL-ended; b is empty then */

#endif
