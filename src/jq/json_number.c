/* jtext_number.c - numbers of jq/json_text.h: their doubles, and whether the double still is the number. */
#include "jq/json_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLAIN_DIGITS 15 /* this many a double holds exactly */

/* strtod of a text that no NUL ends. The process is in the C locale: nothing sets another. */
static double to_double(struct str s)
{
	char small[64], *text = s.n < sizeof small ? small : mem_alloc(s.n + 1);
	memcpy(text, s.p, s.n);
	text[s.n] = '\0';
	double v = strtod(text, NULL);
	if (text != small)
		mem_free(text);
	return v;
}

double jtext_number(const struct jtext_doc *d, uint32_t i)
{
	struct str s = jtext_span(d, i);
	size_t from = s.p[0] == '-';
	uint64_t v = 0;
	if (s.n - from > PLAIN_DIGITS)
		return to_double(s);
	for (size_t k = from; k < s.n; k++) {
		if (s.p[k] < '0' || s.p[k] > '9')
			return to_double(s);
		v = v * 10 + (uint64_t)(s.p[k] - '0');
	}
	return from ? -(double)v : (double)v;
}

/* A number as sign, significant digits (first and last not 0), and the power of ten of the first of them. */
struct decimal {
	bool negative;
	size_t from, to; /* where they are in the text, maybe with a point among them; equal: the number is 0 */
	int64_t power;
};

#define POWER_MAX ((int64_t)1 << 40)

static int64_t exponent(struct str s, size_t i)
{
	bool negative = i < s.n && s.p[i] == '-';
	int64_t v = 0;
	if (i < s.n && (s.p[i] == '-' || s.p[i] == '+'))
		i++;
	for (; i < s.n && v < POWER_MAX; i++)
		v = v * 10 + (s.p[i] - '0');
	return negative ? -v : v;
}

static struct decimal decimal_of(struct str s)
{
	struct decimal d = {.negative = s.n > 0 && s.p[0] == '-'};
	size_t begin = d.negative, end = begin, point;
	while (end < s.n && s.p[end] != 'e' && s.p[end] != 'E')
		end++;
	for (point = begin; point < end && s.p[point] != '.';)
		point++;
	for (d.from = begin; d.from < end && (s.p[d.from] == '0' || s.p[d.from] == '.');)
		d.from++;
	for (d.to = end; d.to > d.from && (s.p[d.to - 1] == '0' || s.p[d.to - 1] == '.');)
		d.to--;
	/* The digit right before the point counts ones. */
	d.power = (int64_t)point - (int64_t)d.from - (d.from < point ? 1 : 0);
	if (end < s.n)
		d.power += exponent(s, end + 1);
	return d;
}

bool jtext_same_decimal(struct str a, struct str b)
{
	struct decimal x = decimal_of(a), y = decimal_of(b);
	if (x.from == x.to || y.from == y.to)
		return x.from == x.to && y.from == y.to;
	if (x.negative != y.negative || x.power != y.power)
		return false;
	size_t i = x.from, k = y.from;
	for (;;) {
		i += i < x.to && a.p[i] == '.';
		k += k < y.to && b.p[k] == '.';
		if (i == x.to || k == y.to)
			return i == x.to && k == y.to;
		if (a.p[i++] != b.p[k++])
			return false;
	}
}

bool jtext_loses_digits(struct str s, double value)
{
	/* Without an exponent and this short there is nothing to lose. */
	if (s.n <= PLAIN_DIGITS && !memchr(s.p, 'e', s.n) && !memchr(s.p, 'E', s.n))
		return false;
	if (value > __DBL_MAX__ || value < -__DBL_MAX__)
		return true;
	char text[40];
	/* The shortest text that is the value, as jq writes it. The smallest doubles have fewer digits than others. */
	bool small = value > -__DBL_MIN__ && value < __DBL_MIN__;
	for (int precision = small ? 1 : PLAIN_DIGITS; precision <= 17; precision++) {
		snprintf(text, sizeof text, "%.*g", precision, value);
		if (strtod(text, NULL) == value)
			break;
	}
	return !jtext_same_decimal(s, str_of(text));
}
