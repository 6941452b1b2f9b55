#include "core/policy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t backoff_max_ms(const struct backoff *b)
{
	if (b->kind == BACKOFF_EXPONENTIAL)
		return b->max_ms;
	int64_t max = 0;
	for (int i = 0; i < b->n; i++)
		if (b->list_ms[i] > max)
			max = b->list_ms[i];
	return max;
}

static int64_t backoff_initial_ms(const struct backoff *b)
{
	return b->kind == BACKOFF_EXPONENTIAL ? b->initial_ms : b->list_ms[0];
}

int64_t backoff_delay_ms(const struct backoff *b, int n)
{
	ASSERT(n >= 1);
	if (b->kind == BACKOFF_LIST) {
		ASSERT(b->n >= 1);
		return b->list_ms[n <= b->n ? n - 1 : b->n - 1];
	}
	/* Stops at the maximum, long before a double could overflow. */
	double d = (double)b->initial_ms;
	if (b->multiplier > 1.0)
		for (int i = 1; i < n && d < (double)b->max_ms; i++)
			d *= b->multiplier;
	return d >= (double)b->max_ms ? b->max_ms : (int64_t)d;
}

int64_t jitter_apply(const struct jitter *j, const struct backoff *b, int64_t delay_ms, int64_t previous_ms, double random)
{
	ASSERT(random >= 0.0 && random < 1.0);
	double d = (double)delay_ms, initial, previous, max;
	switch (j->kind) {
	case JITTER_NONE:
		return delay_ms;
	case JITTER_FULL:
		return (int64_t)floor(d * random);
	case JITTER_EQUAL:
		return (int64_t)floor(d / 2 + d / 2 * random);
	case JITTER_PROPORTIONAL:
		return (int64_t)floor(d * (1 - j->p + 2 * j->p * random));
	case JITTER_DECORRELATED:
		initial = (double)backoff_initial_ms(b);
		max = (double)backoff_max_ms(b);
		previous = previous_ms > 0 ? (double)previous_ms : initial;
		/* Below the initial delay only when a shorter one was forced; never negative. */
		return (int64_t)floor(fmax(0, fmin(max, initial + random * (3 * previous - initial))));
	}
	ASSERT(!"a jitter that is none of the list");
	return delay_ms;
}

bool jitter_parse(struct str s, struct jitter *out)
{
	static const struct {
		const char *name;
		enum jitter_kind kind;
	} names[] = {{"none", JITTER_NONE}, {"full", JITTER_FULL}, {"equal", JITTER_EQUAL}, {"decorrelated", JITTER_DECORRELATED}};
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (str_eqz(s, names[i].name)) {
			*out = (struct jitter){.kind = names[i].kind};
			return true;
		}
	}
	static const char prefix[] = "proportional:";
	char number[16], *end; /* so short that writing and reading it again gives the same number */
	size_t at = sizeof prefix - 1;
	if (!str_starts(s, prefix) || s.n == at || s.n - at >= sizeof number)
		return false;
	memcpy(number, s.p + at, s.n - at);
	number[s.n - at] = '\0';
	if (strspn(number, "0123456789.") != s.n - at)
		return false;
	double p = strtod(number, &end);
	if (*end != '\0' || !(p > 0 && p <= 1))
		return false;
	*out = (struct jitter){.kind = JITTER_PROPORTIONAL, .p = p};
	return true;
}
