#include "core/audit_chain.h"

#include <sodium.h>

static void add_int(crypto_generichash_state *h, int64_t v)
{
	unsigned char b[8];
	uint64_t u = (uint64_t)v;

	for (int i = 0; i < 8; i++)
		b[i] = (unsigned char)(u >> (56 - 8 * i));
	crypto_generichash_update(h, b, sizeof(b));
}

static void add_str(crypto_generichash_state *h, struct str s)
{
	add_int(h, (int64_t)s.n);
	if (s.n > 0)
		crypto_generichash_update(h, (const unsigned char *)s.p, s.n);
}

void audit_chain_next(const uint8_t prev[AUDIT_HASH_LEN], const struct audit_link *link, uint8_t out[AUDIT_HASH_LEN])
{
	static const char version[] = "dlq-audit-1";
	crypto_generichash_state h;

	crypto_generichash_init(&h, NULL, 0, AUDIT_HASH_LEN);
	crypto_generichash_update(&h, (const unsigned char *)version, sizeof(version) - 1);
	crypto_generichash_update(&h, prev, AUDIT_HASH_LEN);
	add_int(&h, link->n);
	add_int(&h, link->at_ms);
	add_str(&h, link->operator);
	add_str(&h, link->action);
	add_str(&h, link->queue);
	add_str(&h, link->target);
	add_str(&h, link->reason);
	add_str(&h, link->outcome);
	add_str(&h, link->detail);
	crypto_generichash_final(&h, out, AUDIT_HASH_LEN);
}
