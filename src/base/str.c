#include "base/base.h"

#include <string.h>

struct str str_of(const char *z)
{
	return z ? (struct str){z, strlen(z)} : (struct str){"", 0};
}

bool str_eq(struct str a, struct str b)
{
	return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

bool str_eqz(struct str a, const char *z)
{
	return str_eq(a, str_of(z));
}

bool str_starts(struct str s, const char *prefix)
{
	size_t n = strlen(prefix);
	return s.n >= n && memcmp(s.p, prefix, n) == 0;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

struct str str_trim(struct str s)
{
	while (s.n > 0 && is_blank(s.p[0])) {
		s.p++;
		s.n--;
	}
	while (s.n > 0 && is_blank(s.p[s.n - 1]))
		s.n--;
	return s;
}

struct str str_cut(struct str s, size_t max)
{
	if (s.n <= max)
		return s;
	size_t n = max;
	/* s.p[n] is the first byte left out: step back while it continues a character, at most one character's length. */
	for (int i = 0; i < 3 && n > 0 && ((unsigned char)s.p[n] & 0xc0) == 0x80; i++)
		n--;
	if (((unsigned char)s.p[n] & 0xc0) == 0x80)
		n = max; /* not UTF-8 */
	s.n = n;
	return s;
}

#define NEAREST_MAX 64

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static int min3(int a, int b, int c)
{
	int m = a < b ? a : b;
	return m < c ? m : c;
}

/* Edit distance with swaps of neighbours (optimal string alignment), without regard to case. Both at most NEAREST_MAX. */
static int edit_distance(struct str a, struct str b)
{
	int row[3][NEAREST_MAX + 1];
	for (size_t j = 0; j <= b.n; j++)
		row[0][j] = (int)j;
	for (size_t i = 1; i <= a.n; i++) {
		int *cur = row[i % 3], *prev = row[(i + 2) % 3], *prev2 = row[(i + 1) % 3];
		cur[0] = (int)i;
		for (size_t j = 1; j <= b.n; j++) {
			char ca = lower(a.p[i - 1]), cb = lower(b.p[j - 1]);
			cur[j] = min3(prev[j] + 1, cur[j - 1] + 1, prev[j - 1] + (ca != cb));
			if (i > 1 && j > 1 && ca == lower(b.p[j - 2]) && lower(a.p[i - 2]) == cb && prev2[j - 2] + 1 < cur[j])
				cur[j] = prev2[j - 2] + 1;
		}
	}
	return row[a.n % 3][b.n];
}

const char *str_nearest(struct str word, const char *const *candidates, size_t n)
{
	if (word.n == 0 || word.n > NEAREST_MAX)
		return NULL;
	const char *best = NULL;
	int best_distance = NEAREST_MAX;
	for (size_t i = 0; i < n; i++) {
		struct str c = str_of(candidates[i]);
		if (c.n > NEAREST_MAX)
			continue;
		size_t longer = word.n > c.n ? word.n : c.n;
		int d = edit_distance(word, c);
		/* A third of the word may be wrong, at least one character of a word of three or more. */
		if (d < best_distance && (size_t)d * 3 <= longer) {
			best = candidates[i];
			best_distance = d;
		}
	}
	return best;
}

/* Length of the well-formed multi-byte sequence at p (Unicode 15, table 3-7), 0 if there is none. */
size_t utf8_sequence(const char *text, size_t n)
{
	const unsigned char *p = (const unsigned char *)text;
	if (n < 2 || p[0] < 0xc2 || p[0] > 0xf4)
		return 0;
	unsigned char low = 0x80, high = 0xbf;
	size_t len = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	if (n < len)
		return 0;
	if (p[0] == 0xe0)
		low = 0xa0;
	else if (p[0] == 0xed)
		high = 0x9f;
	else if (p[0] == 0xf0)
		low = 0x90;
	else if (p[0] == 0xf4)
		high = 0x8f;
	if (p[1] < low || p[1] > high)
		return 0;
	for (size_t i = 2; i < len; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	return len;
}

#define ONES 0x0101010101010101ull
#define HIGHS 0x8080808080808080ull

bool str_is_utf8(struct str s)
{
	size_t i = 0;
	while (i < s.n) {
		uint64_t x;
		if (s.n - i >= sizeof x) {
			memcpy(&x, s.p + i, sizeof x);
			/* No byte has its high bit set and none is zero. */
			if (!((x | ((x - ONES) & ~x)) & HIGHS)) {
				i += sizeof x;
				continue;
			}
		}
		unsigned char c = (unsigned char)s.p[i];
		size_t step = c == 0 ? 0 : c < 0x80 ? 1 : utf8_sequence(s.p + i, s.n - i);
		if (step == 0)
			return false;
		i += step;
	}
	return true;
}
