#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void jout_init(struct json_out *j, struct buf *buf)
{
	*j = (struct json_out){.buf = buf};
}

static void begin_value(struct json_out *j)
{
	uint64_t bit = (uint64_t)1 << j->depth;
	if (j->has_item & bit)
		buf_addc(j->buf, ',');
	j->has_item |= bit;
}

void jout_open(struct json_out *j, char brace)
{
	ASSERT(j->depth < 63);
	begin_value(j);
	buf_addc(j->buf, brace);
	j->depth++;
	j->has_item &= ~((uint64_t)1 << j->depth);
}

void jout_close(struct json_out *j, char brace)
{
	ASSERT(j->depth > 0);
	j->depth--;
	buf_addc(j->buf, brace);
}

/* ---- strings ---- */

/* 16 bytes at once; gcc and clang make one vector instruction of each operation where the machine has them. */
typedef unsigned char bytes16 __attribute__((vector_size(16)));
typedef uint64_t words2 __attribute__((vector_size(16)));

/* Whether one of the 16 bytes at p must be looked at: a control, a quote, a backslash, or not ASCII. */
static bool needs_care(const char *p)
{
	bytes16 x;
	memcpy(&x, p, sizeof x);
	words2 any = (words2)((x < 0x20) | (x == '"') | (x == '\\') | (x > 0x7f));
	return (any[0] | any[1]) != 0;
}

static bool is_plain(unsigned char c)
{
	return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

/* How many bytes of s from i on can be copied as they are. */
static size_t plain_run(struct str s, size_t i)
{
	size_t start = i;
	for (;;) {
		while (s.n - i >= sizeof(bytes16) && !needs_care(s.p + i))
			i += sizeof(bytes16);
		while (i < s.n && is_plain((unsigned char)s.p[i]))
			i++;
		size_t step = i < s.n ? utf8_sequence(s.p + i, s.n - i) : 0;
		if (step == 0)
			return i - start;
		i += step;
	}
}

/* One byte that cannot stand as it is. */
static void add_escaped(struct buf *b, unsigned char c)
{
	static const char shorts[] = "\"\"\\\\\bb\ff\nn\rr\tt"; /* pairs: the byte, its letter */
	for (size_t i = 0; i + 1 < sizeof shorts; i += 2) {
		if ((unsigned char)shorts[i] == c) {
			char text[2] = {'\\', shorts[i + 1]};
			buf_add(b, text, 2);
			return;
		}
	}
	if (c < 0x20)
		buf_addf(b, "\\u%04x", c);
	else
		buf_addz(b, "\xef\xbf\xbd"); /* U+FFFD for what is not UTF-8 */
}

static void add_string(struct buf *b, struct str s)
{
	buf_addc(b, '"');
	for (size_t i = 0; i < s.n;) {
		size_t run = plain_run(s, i);
		buf_add(b, s.p + i, run);
		i += run;
		if (i < s.n)
			add_escaped(b, (unsigned char)s.p[i++]);
	}
	buf_addc(b, '"');
}

void jout_key(struct json_out *j, const char *key)
{
	begin_value(j);
	add_string(j->buf, str_of(key));
	buf_addc(j->buf, ':');
	j->has_item &= ~((uint64_t)1 << j->depth); /* the value takes no comma; it sets the bit again */
}

void jout_str(struct json_out *j, struct str s)
{
	begin_value(j);
	add_string(j->buf, s);
}

void jout_raw(struct json_out *j, struct str json)
{
	begin_value(j);
	buf_adds(j->buf, json);
}

void jout_int(struct json_out *j, int64_t v)
{
	char text[24], *p = text + sizeof text;
	uint64_t u = v < 0 ? -(uint64_t)v : (uint64_t)v;
	do
		*--p = (char)('0' + u % 10);
	while (u /= 10);
	if (v < 0)
		*--p = '-';
	begin_value(j);
	buf_add(j->buf, p, (size_t)(text + sizeof text - p));
}

void jout_num(struct json_out *j, double v)
{
	if (!isfinite(v)) { /* JSON has no word for it */
		jout_null(j);
		return;
	}
	char text[40];
	snprintf(text, sizeof text, "%.15g", v);
	if (strtod(text, NULL) != v)
		snprintf(text, sizeof text, "%.17g", v);
	jout_raw(j, str_of(text));
}

void jout_bool(struct json_out *j, bool v)
{
	jout_raw(j, v ? STR("true") : STR("false"));
}

void jout_null(struct json_out *j)
{
	jout_raw(j, STR("null"));
}

void jout_time(struct json_out *j, int64_t unix_ms)
{
	if (unix_ms == 0) {
		jout_null(j);
		return;
	}
	char text[TIME_LEN + 3];
	text[0] = '"';
	time_format(unix_ms, text + 1);
	text[TIME_LEN + 1] = '"';
	jout_raw(j, (struct str){text, TIME_LEN + 2});
}

void jout_bytes(struct json_out *j, const char *key, struct str bytes)
{
	if (str_is_utf8(bytes)) {
		jout_kstr(j, key, bytes);
		return;
	}
	char name[128];
	int n = snprintf(name, sizeof name, "%s_base64", key);
	ASSERT(n > 0 && (size_t)n < sizeof name);
	jout_key(j, name);
	begin_value(j);
	buf_addc(j->buf, '"');
	base64_encode(bytes, j->buf);
	buf_addc(j->buf, '"');
}

void jout_kstr(struct json_out *j, const char *key, struct str s)
{
	jout_key(j, key);
	jout_str(j, s);
}

void jout_kz(struct json_out *j, const char *key, const char *z)
{
	jout_key(j, key);
	if (z)
		jout_str(j, str_of(z));
	else
		jout_null(j);
}

void jout_kint(struct json_out *j, const char *key, int64_t v)
{
	jout_key(j, key);
	jout_int(j, v);
}

void jout_kbool(struct json_out *j, const char *key, bool v)
{
	jout_key(j, key);
	jout_bool(j, v);
}

void jout_ktime(struct json_out *j, const char *key, int64_t unix_ms)
{
	jout_key(j, key);
	jout_time(j, unix_ms);
}
