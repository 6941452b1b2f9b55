/* Sending, delivery, leases, TTL, duplicates: of every back end. */
#include "lib_store.h"

static void test_send_claim_done(void **state)
{
	struct world *w = *state;
	struct store_send m = {.id = STR("order-1"),
	                       .key = STR("k"),
	                       .content_type = STR("text/plain"),
	                       .headers = STR("{\"a\":\"b\"}"),
	                       .body = (struct str){"x\0y", 3},
	                       .due = T0};
	struct store_delivery d;
	begin(w);
	OK(w, w->ops->send(w->s, w->q, 0, 0, &m, 1, &w->err));
	assert_true(claim_one(w, &d));
	assert_true(str_eqz(d.id, "order-1") && str_eqz(d.key, "k") && str_eqz(d.content_type, "text/plain"));
	assert_true(str_eqz(d.headers, "{\"a\":\"b\"}") && str_eq(d.body, m.body));
	assert_int_equal(d.attempts, 0);
	assert_int_equal(d.received_at_ms, T0);
	assert_int_equal(d.lease_until, T0 + 30000);
	assert_int_equal(counts(w)->leased, 1);
	assert_int_equal(counts(w)->bytes, 3);
	OK(w, done(w, &d));
	EXPECT(w, DLQ_GONE, done(w, &d));
	assert_int_equal(counts(w)->bytes + counts(w)->leased + counts(w)->ready, 0);
	assert_int_equal(counts(w)->done, 1);
	commit(w);
}

static void test_ids_made_here_come_back(void **state)
{
	struct world *w = *state;
	struct store_send m[21] = {0};
	struct store_delivery d[21];
	int64_t nonces[21];
	int n;
	for (int i = 0; i < 21; i++) {
		m[i] = (struct store_send){.body = STR("b"), .due = T0 + i / 3};
		nonces[i] = 100 + i;
	}
	begin(w);
	OK(w, w->ops->send(w->s, w->q, 0, 0, m, 21, &w->err));
	commit(w);
	world_reopen(w);
	clock_advance(w->clock, 100);
	begin(w);
	OK(w, w->ops->claim(w->s, w->q, T0 + 100, T0 + 200, STR(""), nonces, 21, &w->a, d, &n, &w->err));
	assert_int_equal(n, 21);
	for (int i = 0; i < n; i++) {
		int64_t seq;
		assert_true(str_eqz(d[i].id, m[i].made_id));
		OK(w, store_id_seq(d[i].id, &seq, &w->err));
		assert_int_equal(seq, d[i].seq);
		assert_int_equal(d[i].nonce, 100 + i);
	}
	EXPECT(w, DLQ_NOT_FOUND, store_id_seq(STR("01ARZ3NDEKTSV4RRFFQ69G5FA"), &(int64_t){0}, &w->err));
	commit(w);
}

static void test_due_order_and_next_due(void **state)
{
	struct world *w = *state;
	struct store_send m[3] = {{.body = STR("late"), .due = T0 + 50},
	                          {.body = STR("first"), .due = T0},
	                          {.body = STR("second"), .due = T0}};
	struct store_delivery d;
	int64_t due;
	begin(w);
	OK(w, w->ops->next_due(w->s, w->q, &due, &w->err));
	assert_int_equal(due, INT64_MAX);
	OK(w, w->ops->send(w->s, w->q, 0, 0, m, 3, &w->err));
	assert_true(claim_one(w, &d) && str_eqz(d.body, "first"));
	assert_true(claim_one(w, &d) && str_eqz(d.body, "second"));
	assert_false(claim_one(w, &d));
	OK(w, w->ops->next_due(w->s, w->q, &due, &w->err));
	assert_int_equal(due, T0 + 50);
	clock_advance(w->clock, 50);
	assert_true(claim_one(w, &d) && str_eqz(d.body, "late"));
	commit(w);
}

static void test_limits_at_and_past(void **state)
{
	struct world *w = *state;
	struct store_send m[3] = {{.body = STR("12345")}, {.body = STR("12345")}, {.body = STR("1")}};
	begin(w);
	OK(w, w->ops->send(w->s, w->q, 2, 0, m, 3, &w->err));
	assert_int_equal(m[0].code, DLQ_OK);
	assert_int_equal(m[1].code, DLQ_OK);
	assert_int_equal(m[2].code, DLQ_QUEUE_FULL);
	OK(w, w->ops->send(w->s, w->q, 0, 15, m, 2, &w->err));
	assert_int_equal(m[0].code, DLQ_OK); /* 15 bytes: at the limit */
	assert_int_equal(m[1].code, DLQ_QUEUE_FULL);
	assert_int_equal(counts(w)->ready, 3);
	assert_int_equal(counts(w)->bytes, 15);
	assert_int_equal(counts(w)->sent, 3);
	commit(w);
}

static void test_duplicates_within_the_window(void **state)
{
	struct world *w = *state;
	struct store_send m[2] = {{.id = STR("a"), .body = STR("1"), .due = T0, .dedup_until = T0 + 1000},
	                          {.id = STR("a"), .body = STR("2"), .due = T0, .dedup_until = T0 + 1000}};
	int n;
	int64_t next;
	begin(w);
	OK(w, w->ops->send(w->s, w->q, 0, 0, m, 2, &w->err));
	assert_false(m[0].duplicate);
	assert_true(m[1].duplicate);
	commit(w);
	world_reopen(w);
	clock_advance(w->clock, 999);
	begin(w);
	OK(w, w->ops->send(w->s, w->q, 1, 0, m, 1, &w->err)); /* known and full: known */
	assert_true(m[0].duplicate);
	assert_int_equal(m[0].code, DLQ_OK);
	assert_int_equal(counts(w)->duplicates, 2);
	OK(w, w->ops->dedup_sweep(w->s, T0 + 999, 10, &n, &next, &w->err));
	assert_int_equal(n, 0);
	assert_int_equal(next, T0 + 1000);
	commit(w);
	clock_advance(w->clock, 1);
	begin(w);
	m[0].dedup_until = T0 + 5000;
	OK(w, w->ops->send(w->s, w->q, 0, 0, m, 1, &w->err)); /* past its window though not swept */
	assert_false(m[0].duplicate);
	OK(w, w->ops->dedup_sweep(w->s, T0 + 5000, 10, &n, &next, &w->err));
	assert_int_equal(n, 1);
	assert_int_equal(next, INT64_MAX);
	commit(w);
}

static void test_retry_keeps_count_and_evidence(void **state)
{
	struct world *w = *state;
	struct store_delivery d;
	struct store_lease l;
	begin(w);
	send_body(w, "x");
	assert_true(claim_one(w, &d));
	OK(w, fail_retry(w, &d, T0 + 500));
	EXPECT(w, DLQ_GONE, fail_retry(w, &d, T0 + 500));
	assert_int_equal(counts(w)->retrying, 1);
	assert_int_equal(counts(w)->failed_attempts, 1);
	assert_false(claim_one(w, &d));
	commit(w);
	clock_advance(w->clock, 500);
	begin(w);
	assert_true(claim_one(w, &d));
	assert_int_equal(d.attempts, 1);
	OK(w, w->ops->lease_get(w->s, w->q, d.seq, d.nonce, &w->a, &l, &w->err));
	assert_int_equal(l.previous_delay_ms, 1000);
	assert_true(str_eqz(l.worker, "worker-1"));
	OK(w, w->ops->release(w->s, &l, T0 + 500, &w->err));
	assert_true(claim_one(w, &d));
	assert_int_equal(d.attempts, 1); /* a release costs none */
	OK(w, done(w, &d));
	commit(w);
}

static void test_foreign_receipts_are_gone(void **state)
{
	struct world *w = *state;
	struct store_delivery d;
	struct store_lease l;
	bool unheld;
	int64_t other;
	begin(w);
	OK(w, w->ops->queue_create(w->s, STR("other"), STR("{}"), false, &other, &w->err));
	send_body(w, "x");
	assert_true(claim_one(w, &d));
	EXPECT(w, DLQ_GONE, w->ops->done(w->s, other, d.seq, d.nonce, &unheld, &w->err));
	EXPECT(w, DLQ_GONE, w->ops->done(w->s, w->q, d.seq, d.nonce + 1, &unheld, &w->err));
	EXPECT(w, DLQ_GONE, w->ops->lease_get(w->s, other, d.seq, d.nonce, &w->a, &l, &w->err));
	EXPECT(w, DLQ_GONE, w->ops->extend(w->s, w->q, d.seq, d.nonce + 1, T0, &w->err));
	EXPECT(w, DLQ_NOT_FOUND, w->ops->send(w->s, 999, 0, 0, &(struct store_send){.body = STR("")}, 1, &w->err));
	commit(w);
}

static void test_lease_ends(void **state)
{
	struct world *w = *state;
	struct store_delivery d[3];
	struct store_lease l[4];
	int64_t next;
	int n;
	begin(w);
	for (int i = 0; i < 3; i++) {
		send_body(w, "x");
		assert_true(claim_one(w, &d[i]));
	}
	OK(w, w->ops->extend(w->s, w->q, d[0].seq, d[0].nonce, T0 + 90000, &w->err));
	OK(w, done(w, &d[1]));
	commit(w);
	for (int round = 0; round < 2; round++) {
		begin(w);
		OK(w, w->ops->expired_leases(w->s, T0 + 29999, 4, &w->a, l, &n, &next, &w->err));
		assert_int_equal(n, 0);
		assert_int_equal(next, T0 + 30000);
		OK(w, w->ops->expired_leases(w->s, T0 + 30000, 4, &w->a, l, &n, &next, &w->err));
		assert_int_equal(n, 1);
		assert_int_equal(l[0].seq, d[2].seq);
		assert_int_equal(next, T0 + 90000);
		OK(w, w->ops->expired_leases(w->s, T0 + 90000, 1, &w->a, l, &n, &next, &w->err));
		assert_int_equal(n, 1);
		assert_int_equal(next, T0 + 90000);
		if (!round) { /* what a lost transaction did to the leases is undone */
			OK(w, done(w, &d[0]));
			OK(w, done(w, &d[2]));
			OK(w, w->ops->expired_leases(w->s, T0 + 90000, 4, &w->a, l, &n, &next, &w->err));
			assert_int_equal(n, 0);
			w->ops->rollback(w->s);
			world_reopen(w);
		}
	}
	commit(w);
}

static void test_ttl(void **state)
{
	struct world *w = *state;
	struct store_send m = {.body = STR("x"), .due = T0, .expires = T0 + 100};
	struct store_delivery d;
	struct store_lease l[2];
	char id[ULID_LEN + 1];
	int64_t next;
	int n;
	begin(w);
	OK(w, w->ops->send(w->s, w->q, 0, 0, &m, 1, &w->err));
	assert_true(claim_one(w, &d));
	OK(w, w->ops->expired_ttl(w->s, T0 + 500, 2, &w->a, l, &n, &next, &w->err));
	assert_int_equal(n, 0); /* at a worker */
	OK(w, fail_retry(w, &d, T0 + 50));
	OK(w, w->ops->expired_ttl(w->s, T0 + 99, 2, &w->a, l, &n, &next, &w->err));
	assert_int_equal(n, 0);
	assert_int_equal(next, T0 + 100);
	commit(w);
	clock_advance(w->clock, 100);
	begin(w);
	assert_false(claim_one(w, &d)); /* ended: not delivered */
	OK(w, w->ops->expired_ttl(w->s, T0 + 100, 2, &w->a, l, &n, &next, &w->err));
	assert_int_equal(n, 1);
	assert_int_equal(l[0].nonce, 0);
	assert_int_equal(l[0].attempts, 1);
	OK(w, w->ops->bury(w->s, &l[0], NULL, 0, REASON_EXPIRED, T0 + 1000, false, false, id, &w->err));
	EXPECT(w, DLQ_GONE, w->ops->bury(w->s, &l[0], NULL, 0, REASON_EXPIRED, T0 + 1000, false, false, id, &w->err));
	assert_int_equal(counts(w)->ready + counts(w)->retrying, 0);
	assert_int_equal(counts(w)->dead, 1);
	commit(w);
	struct store_dead dead = read_dead(w, m.seq);
	assert_int_equal(dead.reason, REASON_EXPIRED);
	assert_true(str_eqz(dead.error_type, "Timeout")); /* of the last attempt */
	/* Redriven, it has no TTL any more. */
	begin(w);
	OK(w, put_back(w, m.seq, NULL, NULL));
	OK(w, w->ops->expired_ttl(w->s, T0 + 9999, 2, &w->a, l, &n, &next, &w->err));
	assert_int_equal(n, 0);
	assert_true(claim_one(w, &d));
	commit(w);
}

static void test_rollback_leaves_nothing(void **state)
{
	struct world *w = *state;
	struct store_delivery d;
	int64_t before, q2;
	begin(w);
	before = send_body(w, "stays");
	commit(w);
	begin(w);
	int64_t lost = send_body(w, "goes");
	assert_true(claim_one(w, &d));
	char id[ULID_LEN + 1];
	kill_it(w, &d, id);
	OK(w, w->ops->queue_create(w->s, STR("new"), STR("{}"), false, &q2, &w->err));
	w->ops->rollback(w->s);
	assert_int_equal(counts(w)->ready, 1);
	assert_int_equal(counts(w)->dead + counts(w)->leased + counts(w)->died, 0);
	assert_int_equal(w->ops->queue_counts(w->s, q2)->sent, 0);
	begin(w);
	assert_true(claim_one(w, &d));
	assert_int_equal(d.seq, before);
	OK(w, done(w, &d));
	commit(w);
	/* Numbers are never given twice, not even when the top row is gone. */
	world_reopen(w);
	begin(w);
	assert_true(send_body(w, "next") > lost);
	commit(w);
}

static void test_high_water_survives(void **state)
{
	struct world *w = *state;
	clock_advance(w->clock, 500000);
	begin(w);
	send_body(w, "x");
	commit(w);
	clock_set_wall(w->clock, T0 - 1000000);
	world_reopen(w);
	assert_true(w->ops->high_water_ms(w->s) >= T0 + 500000);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, world_new, world_free)
	const struct CMUnitTest tests[] = {
	    T(test_send_claim_done),
	    T(test_ids_made_here_come_back),
	    T(test_due_order_and_next_due),
	    T(test_limits_at_and_past),
	    T(test_duplicates_within_the_window),
	    T(test_retry_keeps_count_and_evidence),
	    T(test_foreign_receipts_are_gone),
	    T(test_lease_ends),
	    T(test_ttl),
	    T(test_rollback_leaves_nothing),
	    T(test_high_water_survives),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
