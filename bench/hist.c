#include "hist.h"

/* The largest value that falls into slot i. */
static uint64_t slot_top(unsigned i)
{
	if (i < 2 * HIST_SUB)
		return i;
	unsigned shift = i / HIST_SUB - 1;
	uint64_t step = i - shift * HIST_SUB;
	return ((step + 1) << shift) - 1;
}

uint64_t hist_quantile(const struct hist *h, double share)
{
	double exact = share * (double)h->count;
	uint64_t rank = (uint64_t)exact;
	uint64_t seen = 0;

	if ((double)rank < exact || rank == 0)
		rank++;
	for (unsigned i = 0; i < HIST_SLOTS; i++) {
		seen += h->slot[i];
		if (seen >= rank) {
			uint64_t top = slot_top(i);
			return top < h->max ? top : h->max;
		}
	}
	return h->max;
}
