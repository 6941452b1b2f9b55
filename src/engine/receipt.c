/* receipt.c - the text form of a receipt: base64url of version, queue, seq, nonce and a checksum, 33 bytes in 44
 * characters. */
#include <string.h>

#include "engine/engine_int.h"

#define RECEIPT_BYTES 33
#define RECEIPT_VERSION 1

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static void put64(uint8_t *p, uint64_t v)
{
	for (int i = 0; i < 8; i++)
		p[i] = (uint8_t)(v >> (56 - 8 * i));
}

static uint64_t get64(const uint8_t *p)
{
	uint64_t v = 0;
	for (int i = 0; i < 8; i++)
		v = v << 8 | p[i];
	return v;
}

/* Against typing errors and garbage, so that they cost no look-up. What cannot be guessed is the nonce. */
static uint64_t checksum(uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t h = 0x9e3779b97f4a7c15u;
	const uint64_t v[3] = {a, b, c};
	for (int i = 0; i < 3; i++) {
		h ^= v[i];
		h *= 0xff51afd7ed558ccdu;
		h ^= h >> 32;
	}
	return h;
}

void receipt_write(const struct receipt *r, char out[RECEIPT_LEN + 1])
{
	uint8_t raw[RECEIPT_BYTES];
	raw[0] = RECEIPT_VERSION;
	put64(raw + 1, (uint64_t)r->queue_id);
	put64(raw + 9, (uint64_t)r->seq);
	put64(raw + 17, (uint64_t)r->nonce);
	put64(raw + 25, checksum((uint64_t)r->queue_id, (uint64_t)r->seq, (uint64_t)r->nonce));
	for (int i = 0, o = 0; i < RECEIPT_BYTES; i += 3, o += 4) {
		uint32_t v = (uint32_t)raw[i] << 16 | (uint32_t)raw[i + 1] << 8 | raw[i + 2];
		out[o] = alphabet[v >> 18];
		out[o + 1] = alphabet[v >> 12 & 63];
		out[o + 2] = alphabet[v >> 6 & 63];
		out[o + 3] = alphabet[v & 63];
	}
	out[RECEIPT_LEN] = '\0';
}

static int digit(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '-' ? 62 : c == '_' ? 63 : -1;
}

bool receipt_parse(struct str text, struct receipt *out)
{
	uint8_t raw[RECEIPT_BYTES];
	if (text.n != RECEIPT_LEN)
		return false;
	for (int i = 0, o = 0; o < RECEIPT_LEN; i += 3, o += 4) {
		int a = digit(text.p[o]), b = digit(text.p[o + 1]), c = digit(text.p[o + 2]), d = digit(text.p[o + 3]);
		if ((a | b | c | d) < 0)
			return false;
		uint32_t v = (uint32_t)a << 18 | (uint32_t)b << 12 | (uint32_t)c << 6 | (uint32_t)d;
		raw[i] = (uint8_t)(v >> 16);
		raw[i + 1] = (uint8_t)(v >> 8);
		raw[i + 2] = (uint8_t)v;
	}
	uint64_t q = get64(raw + 1), s = get64(raw + 9), n = get64(raw + 17);
	if (raw[0] != RECEIPT_VERSION || checksum(q, s, n) != get64(raw + 25))
		return false;
	*out = (struct receipt){.queue_id = (int64_t)q, .seq = (int64_t)s, .nonce = (int64_t)n};
	return true;
}
