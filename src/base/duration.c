/* Durations and sizes as text. */
#include "base/text.h"

#include <stdio.h>
#include <string.h>

static const struct unit {
	const char *name;
	int64_t ms;
} units[] = {{"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};

/* Takes the digits at the front of s. False if there are none or they exceed max. */
static bool take_number(struct str *s, int64_t max, int64_t *out)
{
	size_t i = 0;
	int64_t v = 0;
	for (; i < s->n && s->p[i] >= '0' && s->p[i] <= '9'; i++) {
		int digit = s->p[i] - '0';
		if (v > (max - digit) / 10)
			return false;
		v = v * 10 + digit;
	}
	*out = v;
	s->p += i;
	s->n -= i;
	return i > 0;
}

/* Takes the letters at the front of s as a unit not larger than units[from]. */
static const struct unit *take_unit(struct str *s, size_t from)
{
	size_t n = 0;
	while (n < s->n && s->p[n] >= 'a' && s->p[n] <= 'z')
		n++;
	for (size_t i = from; i < ARRAY_LEN(units); i++) {
		if (str_eqz((struct str){s->p, n}, units[i].name)) {
			s->p += n;
			s->n -= n;
			return &units[i];
		}
	}
	return NULL;
}

bool duration_parse(struct str s, int64_t *ms)
{
	int64_t total = 0;
	size_t from = 0; /* units go from large to small, each once */
	if (s.n == 0)
		return false;
	while (s.n > 0) {
		int64_t n;
		if (!take_number(&s, DURATION_MAX_MS, &n))
			return false;
		const struct unit *u = take_unit(&s, from);
		if (!u || n > (DURATION_MAX_MS - total) / u->ms)
			return false;
		total += n * u->ms;
		from = (size_t)(u - units) + 1;
	}
	*ms = total;
	return true;
}

void duration_format(int64_t ms, char out[32])
{
	size_t n = 0;
	uint64_t rest = ms < 0 ? -(uint64_t)ms : (uint64_t)ms;
	if (ms < 0)
		out[n++] = '-';
	if (rest == 0) {
		memcpy(out, "0s", 3);
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(units); i++) {
		uint64_t count = rest / (uint64_t)units[i].ms;
		rest %= (uint64_t)units[i].ms;
		if (count)
			n += (size_t)snprintf(out + n, 32 - n, "%llu%s", (unsigned long long)count, units[i].name);
	}
}

void duration_human(int64_t ms, char out[32])
{
	const char *sign = ms < 0 ? "-" : "";
	uint64_t v = ms < 0 ? -(uint64_t)ms : (uint64_t)ms;
	if (v < 1000) {
		snprintf(out, 32, "%s%llums", sign, (unsigned long long)v);
		return;
	}
	/* Two units at most: rounded to a whole count of the second one. */
	size_t i = 0;
	while (v < (uint64_t)units[i].ms)
		i++;
	uint64_t small = i + 2 < ARRAY_LEN(units) ? (uint64_t)units[i + 1].ms : (uint64_t)units[i].ms;
	v = v / small * small + (v % small >= (small + 1) / 2 && small > 1 ? small : 0);
	if (i > 0 && v >= (uint64_t)units[i - 1].ms)
		i--;
	unsigned long long big = v / (uint64_t)units[i].ms;
	unsigned long long rest = i + 1 < ARRAY_LEN(units) ? v % (uint64_t)units[i].ms / (uint64_t)units[i + 1].ms : 0;
	if (rest)
		snprintf(out, 32, "%s%llu%s %llu%s", sign, big, units[i].name, rest, units[i + 1].name);
	else
		snprintf(out, 32, "%s%llu%s", sign, big, units[i].name);
}

bool size_parse(struct str s, int64_t *bytes)
{
	static const char *const names[] = {"", "KiB", "MiB", "GiB", "TiB"};
	int64_t n;
	if (!take_number(&s, INT64_MAX, &n))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (!str_eqz(s, names[i]))
			continue;
		int64_t scale = (int64_t)1 << (10 * i);
		if (n > INT64_MAX / scale)
			return false;
		*bytes = n * scale;
		return true;
	}
	return false;
}

void size_human(int64_t bytes, char out[32])
{
	static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double v = (double)bytes;
	size_t i = 0;
	while (i + 1 < ARRAY_LEN(names) && (v >= 1023.95 || v <= -1023.95)) {
		v /= 1024;
		i++;
	}
	snprintf(out, 32, i == 0 ? "%.0f %s" : "%.1f %s", v, names[i]);
}
