/* RESP2 framing, shared by the Redis driver and the null server. */
#ifndef DLQ_BENCH_RESP_H
#define DLQ_BENCH_RESP_H

#include <stddef.h>
#include <sys/types.h>

/* Sees every bulk string of a value in order, with its position among them. */
typedef void resp_bulk_fn(void *arg, unsigned position, const char *p, size_t n);

/* The length of the first value in [p, p+n), nested ones included: 0 when it is not
 * complete, -1 when it is no RESP. on_bulk may be NULL; it may run, too, for a value that
 * turns out not to be complete. */
ssize_t resp_value(const char *p, size_t n, resp_bulk_fn *on_bulk, void *arg);

#endif
