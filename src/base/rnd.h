/* rnd.h - randomness as a value: seeded for the simulation, from the system for the server. Not thread-safe: one per owner. */
#ifndef BASE_RND_H
#define BASE_RND_H

#include "base/base.h"

struct rnd {
	uint64_t s[4]; /* xoshiro256** */
};
void rnd_seed(struct rnd *r, uint64_t seed);
void rnd_system(struct rnd *r);          /* seeded by getrandom(2) */
uint64_t rnd_u64(struct rnd *r);
double rnd_unit(struct rnd *r);          /* [0, 1) */
uint64_t rnd_below(struct rnd *r, uint64_t n); /* [0, n) */

#endif
