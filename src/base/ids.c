/* ULIDs, base64, hex, and the rules for names. */
#include "base/text.h"

#include <string.h>

static const char crockford[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

void ulid_make(int64_t unix_ms, uint16_t salt, uint64_t seq, char out[ULID_LEN + 1])
{
	/* 128 bits as 26 digits of 5 bits: the first digit has only 3. */
	uint64_t high = ((uint64_t)unix_ms << 16) | salt, low = seq;
	for (int i = ULID_LEN - 1; i >= 0; i--) {
		out[i] = crockford[low & 31];
		low = (low >> 5) | (high << 59);
		high >>= 5;
	}
	out[ULID_LEN] = '\0';
}

static int crockford_digit(char c)
{
	const char *at = c ? strchr(crockford, c) : NULL;
	return at ? (int)(at - crockford) : -1;
}

bool ulid_parse(struct str s, int64_t *unix_ms, uint16_t *salt, uint64_t *seq)
{
	if (s.n != ULID_LEN || s.p[0] < '0' || s.p[0] > '7')
		return false;
	uint64_t high = 0, low = 0;
	for (size_t i = 0; i < ULID_LEN; i++) {
		int digit = crockford_digit(s.p[i]);
		if (digit < 0)
			return false;
		high = (high << 5) | (low >> 59);
		low = (low << 5) | (uint64_t)digit;
	}
	if (unix_ms)
		*unix_ms = (int64_t)(high >> 16);
	if (salt)
		*salt = (uint16_t)high;
	if (seq)
		*seq = low;
	return true;
}

static const char base64_chars[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(struct str bytes, struct buf *out)
{
	if (bytes.n > SIZE_MAX / 2) {
		out->overflow = true;
		return;
	}
	size_t len = (bytes.n + 2) / 3 * 4;
	char *to = buf_reserve(out, len);
	if (!to)
		return;
	const unsigned char *p = (const unsigned char *)bytes.p;
	size_t n = bytes.n;
	for (; n >= 3; n -= 3, p += 3, to += 4) {
		uint32_t v = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
		to[0] = base64_chars[v >> 18];
		to[1] = base64_chars[v >> 12 & 63];
		to[2] = base64_chars[v >> 6 & 63];
		to[3] = base64_chars[v & 63];
	}
	if (n > 0) {
		uint32_t v = (uint32_t)p[0] << 16 | (n > 1 ? (uint32_t)p[1] << 8 : 0);
		to[0] = base64_chars[v >> 18];
		to[1] = base64_chars[v >> 12 & 63];
		to[2] = n > 1 ? base64_chars[v >> 6 & 63] : '=';
		to[3] = '=';
	}
	out->n += len;
}

/* Value + 1 of each digit of base64; 0 for what is none. */
#define D(c, v) [c] = (v) + 1
static const unsigned char base64_values[256] = {
    D('A', 0),  D('B', 1),  D('C', 2),  D('D', 3),  D('E', 4),  D('F', 5),  D('G', 6),  D('H', 7),  D('I', 8),
    D('J', 9),  D('K', 10), D('L', 11), D('M', 12), D('N', 13), D('O', 14), D('P', 15), D('Q', 16), D('R', 17),
    D('S', 18), D('T', 19), D('U', 20), D('V', 21), D('W', 22), D('X', 23), D('Y', 24), D('Z', 25), D('a', 26),
    D('b', 27), D('c', 28), D('d', 29), D('e', 30), D('f', 31), D('g', 32), D('h', 33), D('i', 34), D('j', 35),
    D('k', 36), D('l', 37), D('m', 38), D('n', 39), D('o', 40), D('p', 41), D('q', 42), D('r', 43), D('s', 44),
    D('t', 45), D('u', 46), D('v', 47), D('w', 48), D('x', 49), D('y', 50), D('z', 51), D('0', 52), D('1', 53),
    D('2', 54), D('3', 55), D('4', 56), D('5', 57), D('6', 58), D('7', 59), D('8', 60), D('9', 61), D('+', 62),
    D('/', 63),
};
#undef D

/* The value of n digits (2 to 4) at p, in 24 bits, or -1. */
static int32_t base64_group(const char *p, size_t n)
{
	uint32_t v = 0;
	for (size_t i = 0; i < 4; i++) {
		unsigned d = i < n ? base64_values[(unsigned char)p[i]] : 1;
		if (d == 0)
			return -1;
		v = v << 6 | (d - 1);
	}
	return (int32_t)v;
}

bool base64_decode(struct str text, struct buf *out)
{
	if (text.n % 4 != 0)
		return false;
	if (text.n == 0)
		return true;
	size_t pad = text.p[text.n - 1] != '=' ? 0 : text.p[text.n - 2] != '=' ? 1 : 2;
	size_t len = text.n / 4 * 3 - pad;
	char *to = buf_reserve(out, text.n / 4 * 3);
	if (!to)
		return false;
	for (size_t i = 0; i < text.n; i += 4, to += 3) {
		size_t digits = i + 4 == text.n ? 4 - pad : 4;
		int32_t v = base64_group(text.p + i, digits);
		if (v < 0)
			return false;
		/* Bits that the padding leaves over must be zero: one text for one value. */
		if ((digits == 3 && (v & 0xff)) || (digits == 2 && (v & 0xffff)))
			return false;
		to[0] = (char)(v >> 16);
		to[1] = (char)(v >> 8);
		to[2] = (char)v;
	}
	out->n += len;
	return true;
}

void hex_encode(struct str bytes, struct buf *out)
{
	static const char hex[] = "0123456789abcdef";
	char *to = bytes.n > SIZE_MAX / 2 ? NULL : buf_reserve(out, bytes.n * 2);
	if (!to) {
		out->overflow = true;
		return;
	}
	for (size_t i = 0; i < bytes.n; i++) {
		*to++ = hex[(unsigned char)bytes.p[i] >> 4];
		*to++ = hex[(unsigned char)bytes.p[i] & 15];
	}
	out->n += bytes.n * 2;
}

static bool is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

const char *queue_name_check(struct str s)
{
	if (s.n == 0)
		return "a name must not be empty: it is " QUEUE_NAME_RULE;
	if (s.n > 128)
		return "the name is too long: it is " QUEUE_NAME_RULE;
	if (s.p[0] == '.' || s.p[0] == '-')
		return "the name starts with a dot or a hyphen: it is " QUEUE_NAME_RULE;
	for (size_t i = 0; i < s.n; i++)
		if (!is_name_char(s.p[i]))
			return "the name holds a character that is not allowed: it is " QUEUE_NAME_RULE;
	return NULL;
}

const char *header_value_check(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if ((unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7f)
			return "must be " HEADER_VALUE_RULE;
	return str_is_utf8(s) ? NULL : "must be " HEADER_VALUE_RULE;
}

const char *message_id_check(struct str s)
{
	if (s.n == 0)
		return "a message id must not be empty: it is " MESSAGE_ID_RULE;
	if (s.n > 128)
		return "the message id is too long: it is " MESSAGE_ID_RULE;
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] <= ' ' || s.p[i] > '~')
			return "the message id holds a character that is not allowed: it is " MESSAGE_ID_RULE;
	return NULL;
}
