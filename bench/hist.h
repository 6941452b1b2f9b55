/* A histogram of latencies: log-linear, 64 steps per power of two, so a figure
 * read from it is at most 1.6 % above the true one. Fixed size, no allocation. */
#ifndef DLQ_BENCH_HIST_H
#define DLQ_BENCH_HIST_H

#include <stdint.h>

enum { HIST_SUB_BITS = 6, HIST_SUB = 1 << HIST_SUB_BITS, HIST_SLOTS = 59 * HIST_SUB };

struct hist {
	uint64_t count;
	uint64_t max;
	uint64_t slot[HIST_SLOTS];
};

static inline unsigned hist_slot(uint64_t v)
{
	if (v < 2 * HIST_SUB)
		return (unsigned)v;
	unsigned shift = 63u - (unsigned)__builtin_clzll(v) - HIST_SUB_BITS;
	return shift * HIST_SUB + (unsigned)(v >> shift);
}

static inline void hist_add(struct hist *h, uint64_t v)
{
	h->count++;
	if (v > h->max)
		h->max = v;
	h->slot[hist_slot(v)]++;
}

/* The value that `share` (0..1] of the samples do not exceed; 0 when empty. */
uint64_t hist_quantile(const struct hist *h, double share);

#endif
