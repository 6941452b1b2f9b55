/* lib_store.h - a store in a folder of its own with a clock that only the test moves, and short words for its
 * operations. */
#ifndef CONFORM_LIB_STORE_H
#define CONFORM_LIB_STORE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "store/store.h"

#define T0 1800000000000

struct world {
	const struct store_ops *ops;
	struct store *s;
	struct store_reader *r;
	struct clock *clock;
	struct arena a;
	struct dlq_err err;
	char dir[64];
	int64_t q, nonce;
};

extern const char *const world_backends[]; /* ends with NULL */

int world_new(void **state); /* cmocka set-up: a store of the first back end with the queue "q" */
int world_new_ordered(void **state);
int world_free(void **state); /* checks the store before */
void world_reopen(struct world *w);
void world_close(struct world *w);
void folder_remove(const char *dir);

/* Fails the test with the error's text unless the code is the one expected. */
#define EXPECT(w, want, call) expect_code(w, want, call, #call, __FILE__, __LINE__)
#define OK(w, call) EXPECT(w, DLQ_OK, call)
void expect_code(struct world *w, enum dlq_code want, enum dlq_code got, const char *call, const char *file, int line);

void begin(struct world *w);
void commit(struct world *w);
int64_t send_key(struct world *w, const char *key, const char *body); /* inside a transaction */
int64_t send_body(struct world *w, const char *body);
int64_t send_with(struct world *w, const char *key, const char *headers, const char *body);
int64_t make_queue(struct world *w, const char *name, bool ordered);
const struct store_counts *counts_of(struct world *w, int64_t q);
bool claim_one(struct world *w, struct store_delivery *d); /* due now; lease of 30 s */
enum dlq_code done(struct world *w, const struct store_delivery *d);
enum dlq_code fail_retry(struct world *w, const struct store_delivery *d, int64_t due);
void kill_it(struct world *w, const struct store_delivery *d, char dlq_id[ULID_LEN + 1]); /* bury as permanent */
/* redrive_one by ann, because "r"; r NULL: of no redrive. */
enum dlq_code put_back(struct world *w, int64_t seq, const struct store_redrive *r, const struct str *body);
int64_t dead_one(struct world *w, const char *key, const char *body); /* send, claim, bury: its seq */
int64_t dead_with(struct world *w, const char *headers, const char *error_type, const char *body);
/* Its seqs in the order given, of all pages; how many. */
int list_seqs(struct world *w, struct store_dead_filter f, int64_t *seqs, int max);
/* The same failing as fp, on a worker of a version; the transaction is the caller's. */
int64_t dead_of(struct world *w, uint8_t fp, const char *worker, const char *version);
void kill_as(struct world *w, const struct store_delivery *d, uint8_t fp, const char *worker, const char *version);
const struct store_counts *counts(struct world *w);
struct store_dead read_dead(struct world *w, int64_t seq);

/* Recounts everything from the back end's own tables; a failure names the rule. */
void store_check(const char *backend, const char *dir);

#endif
