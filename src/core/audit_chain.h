/*
 * audit_chain.h - the link of the audit trail: a hash over the row and the link before it. Whoever changes, removes or
 * inserts a row breaks every link from there on. It shows a change made beside dlq; it does not stop one who can write the
 * store and computes every later link anew, so keep an export, or the newest link, elsewhere.
 *
 * Version 1: BLAKE2b-256 over
 *     "dlq-audit-1" | the link before (32 bytes) | n | at_ms | operator | action | queue | target | reason | outcome | detail
 * where a number is 8 bytes big-endian (two's complement) and a text is its length in bytes as such a number and then its
 * bytes. So no two rows have the same encoding. The link before the first row is 32 zero bytes.
 */
#ifndef CORE_AUDIT_CHAIN_H
#define CORE_AUDIT_CHAIN_H

#include "base/base.h"

#define AUDIT_HASH_LEN 32

/* What is hashed, as it stands in the store. */
struct audit_link {
	int64_t n;     /* row number, rising */
	int64_t at_ms; /* wall */
	struct str operator, action, queue, target, reason, outcome, detail;
};

/* prev and out may be the same memory. */
void audit_chain_next(const uint8_t prev[AUDIT_HASH_LEN], const struct audit_link *link, uint8_t out[AUDIT_HASH_LEN]);

#endif
