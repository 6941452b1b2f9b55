#include "base/rnd.h"

#include <errno.h>
#include <sys/random.h>

void rnd_seed(struct rnd *r, uint64_t seed)
{
	/* splitmix64, as the authors of xoshiro advise: never gives the all-zero state. */
	for (size_t i = 0; i < ARRAY_LEN(r->s); i++) {
		uint64_t z = seed += 0x9e3779b97f4a7c15ull;
		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
		z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
		r->s[i] = z ^ (z >> 31);
	}
}

void rnd_system(struct rnd *r)
{
	uint64_t seed;
	ssize_t n;
	do
		n = getrandom(&seed, sizeof seed, 0);
	while (n < 0 && errno == EINTR);
	ASSERT(n == (ssize_t)sizeof seed);
	rnd_seed(r, seed);
}

static uint64_t rotl(uint64_t x, int k)
{
	return (x << k) | (x >> (64 - k));
}

uint64_t rnd_u64(struct rnd *r)
{
	uint64_t *s = r->s;
	uint64_t result = rotl(s[1] * 5, 7) * 9, t = s[1] << 17;
	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotl(s[3], 45);
	return result;
}

double rnd_unit(struct rnd *r)
{
	return (double)(rnd_u64(r) >> 11) * 0x1.0p-53;
}

uint64_t rnd_below(struct rnd *r, uint64_t n)
{
	ASSERT(n > 0);
	uint64_t skip = -n % n; /* the first 2^64 mod n values would be drawn too often */
	uint64_t x;
	do
		x = rnd_u64(r);
	while (x < skip);
	return x % n;
}
