/* Dead letters, redrives and ordered queues: of every back end. */
#include "lib_store.h"

static enum dlq_code redrive(struct world *w, int64_t seq, const struct str *body)
{
	return put_back(w, seq, NULL, body);
}

static void test_death_keeps_evidence(void **state)
{
	struct world *w = *state;
	struct store_delivery d;
	struct store_attempt *at;
	struct store_notice notice[2];
	struct str body, type;
	char id[ULID_LEN + 1];
	int n;
	int64_t next;
	begin(w);
	int64_t seq = send_key(w, "k1", "the body");
	assert_true(claim_one(w, &d));
	OK(w, fail_retry(w, &d, T0));
	clock_advance(w->clock, 7);
	assert_true(claim_one(w, &d));
	kill_it(w, &d, id);
	assert_int_equal(counts(w)->dead, 1);
	assert_int_equal(counts(w)->died, 1);
	assert_int_equal(counts(w)->failed_attempts, 2);
	assert_int_equal(counts(w)->bytes, 0);
	OK(w, w->ops->notice_due(w->s, T0 + 100, 2, &w->a, notice, &n, &next, &w->err));
	assert_int_equal(n, 1);
	assert_int_equal(notice[0].seq, seq);
	OK(w, w->ops->notice_later(w->s, notice[0].n, T0 + 500, STR("refused"), &w->err));
	OK(w, w->ops->notice_due(w->s, T0 + 499, 2, &w->a, notice, &n, &next, &w->err));
	assert_int_equal(n, 0);
	assert_int_equal(next, T0 + 500);
	commit(w);
	world_reopen(w);
	struct store_dead dl = read_dead(w, seq);
	assert_string_equal(dl.dlq_id, id);
	assert_int_equal(dl.attempts, 2);
	assert_int_equal(dl.reason, REASON_PERMANENT);
	assert_int_equal(dl.first_failed_at_ms, T0);
	assert_true(str_eqz(dl.error_type, "BadInput") && str_eqz(dl.message, "no such order") &&
	            str_eqz(dl.worker, "worker-1"));
	assert_true(str_eqz(dl.queue, "q") && str_eqz(dl.key, "k1") && str_eq(dl.id, d.id));
	assert_int_equal(dl.body_bytes, 8);
	OK(w, w->ops->read_attempts(w->r, seq, 10, &w->a, &at, &n, &w->err));
	assert_int_equal(n, 2);
	assert_int_equal(at[0].n, 1);
	assert_int_equal(at[0].http_status, 503);
	assert_true(str_eqz(at[0].detail, "trace"));
	assert_int_equal(at[1].exit_code, 65);
	OK(w, w->ops->read_attempts(w->r, seq, 1, &w->a, &at, &n, &w->err));
	assert_int_equal(n, 1);
	assert_int_equal(at[0].n, 2); /* the newest is kept */
	OK(w, w->ops->read_body(w->r, seq, false, &w->a, &body, &type, &w->err));
	assert_true(str_eqz(body, "the body"));
	EXPECT(w, DLQ_NOT_FOUND, w->ops->read_dead(w->r, seq + 1, &w->a, &dl, &w->err));
	EXPECT(w, DLQ_NOT_FOUND, w->ops->read_body(w->r, seq + 1, false, &w->a, &body, &type, &w->err));
}

static void test_redrive_succeeds_and_fails_again(void **state)
{
	struct world *w = *state;
	struct store_delivery d;
	struct store_attempt *at;
	struct str body, type, edited = STR("edited body");
	char id1[ULID_LEN + 1], id2[ULID_LEN + 1];
	int n;
	begin(w);
	int64_t seq = send_body(w, "original");
	assert_true(claim_one(w, &d));
	kill_it(w, &d, id1);
	OK(w, redrive(w, seq, &edited));
	EXPECT(w, DLQ_CONFLICT, redrive(w, seq, NULL));
	EXPECT(w, DLQ_CONFLICT, w->ops->discard_one(w->s, seq, 0, STR("a"), STR("b"), &w->err));
	EXPECT(w, DLQ_CONFLICT, w->ops->archive_one(w->s, seq, &w->err));
	EXPECT(w, DLQ_NOT_FOUND, redrive(w, seq + 5, NULL));
	assert_int_equal(counts(w)->redriving, 1);
	assert_int_equal(counts(w)->dead, 0);
	assert_true(claim_one(w, &d));
	assert_int_equal(d.attempts, 0);
	assert_int_equal(d.redrives, 1);
	assert_true(str_eq(d.body, edited));
	kill_it(w, &d, id2);
	assert_string_equal(id1, id2);
	commit(w);
	assert_int_equal(read_dead(w, seq).state, DEAD_DEAD);
	assert_true(read_dead(w, seq).edited);
	OK(w, w->ops->read_body(w->r, seq, true, &w->a, &body, &type, &w->err));
	assert_true(str_eqz(body, "original"));
	OK(w, w->ops->read_body(w->r, seq, false, &w->a, &body, &type, &w->err));
	assert_true(str_eq(body, edited));
	OK(w, w->ops->read_attempts(w->r, seq, 10, &w->a, &at, &n, &w->err));
	assert_int_equal(n, 2);
	assert_int_equal(at[1].redrive, 1);
	begin(w);
	OK(w, redrive(w, seq, NULL));
	assert_true(claim_one(w, &d));
	assert_true(str_eq(d.body, edited)); /* the last edit stands */
	assert_int_equal(d.redrives, 2);
	OK(w, done(w, &d));
	assert_int_equal(counts(w)->redriven, 1);
	assert_int_equal(counts(w)->died, 2);
	commit(w);
	assert_int_equal(read_dead(w, seq).state, DEAD_REDRIVEN);
	OK(w, w->ops->read_body(w->r, seq, true, &w->a, &body, &type, &w->err));
	int64_t seqs[2], next;
	begin(w);
	OK(w, w->ops->retention_due(w->s, T0 + 99999, 2, seqs, &n, &next, &w->err));
	assert_int_equal(n, 0);
	OK(w, w->ops->retention_due(w->s, next, 2, seqs, &n, &next, &w->err));
	assert_int_equal(n, 1);
	OK(w, w->ops->archive_one(w->s, seq, &w->err));
	EXPECT(w, DLQ_NOT_FOUND, w->ops->archive_one(w->s, seq, &w->err));
	assert_int_equal(counts(w)->archived, 1);
	OK(w, w->ops->queue_delete(w->s, w->q, &w->err));
	commit(w);
}

static void test_ordered_lanes(void **state)
{
	struct world *w = *state;
	struct store_delivery d, b;
	char id[ULID_LEN + 1];
	begin(w);
	int64_t a1 = send_key(w, "a", "a1"), a2 = send_key(w, "a", "a2"), a3 = send_key(w, "a", "a3"),
	        b1 = send_key(w, "b", "b1");
	assert_int_equal(counts(w)->held, 2);
	assert_true(claim_one(w, &d) && d.seq == a1);
	assert_true(claim_one(w, &b) && b.seq == b1);
	assert_false(claim_one(w, &b));
	kill_it(w, &d, id);
	assert_false(claim_one(w, &b)); /* a dead one holds back its followers */
	OK(w, redrive(w, a1, NULL));
	assert_true(claim_one(w, &d) && d.seq == a1);
	assert_false(claim_one(w, &b));
	OK(w, done(w, &d));
	commit(w);
	world_reopen(w);
	begin(w);
	assert_true(claim_one(w, &d) && d.seq == a2);
	kill_it(w, &d, id);
	assert_false(claim_one(w, &b));
	OK(w, w->ops->discard_one(w->s, a2, 0, STR("ann"), STR("junk"), &w->err));
	assert_true(claim_one(w, &d) && d.seq == a3);
	assert_int_equal(counts(w)->discarded, 1);
	kill_it(w, &d, id);
	int64_t a4 = send_key(w, "a", "a4");
	assert_false(claim_one(w, &b));
	OK(w, w->ops->archive_one(w->s, a3, &w->err));
	assert_true(claim_one(w, &d) && d.seq == a4);
	OK(w, done(w, &d));
	assert_int_equal(counts(w)->held, 0);
	commit(w);
	struct store_dead dl = read_dead(w, a2);
	assert_int_equal(dl.state, DEAD_DISCARDED);
	assert_true(str_eqz(dl.operator, "ann") && str_eqz(dl.why, "junk"));
}

static void test_ordered_ttl_of_a_held_one(void **state)
{
	struct world *w = *state;
	struct store_send m = {.key = STR("a"), .body = STR("a2"), .due = T0, .expires = T0 + 10};
	struct store_delivery d;
	struct store_lease l[2];
	char id[ULID_LEN + 1];
	int64_t next;
	int n;
	begin(w);
	int64_t a1 = send_key(w, "a", "a1");
	OK(w, w->ops->send(w->s, w->q, 0, 0, &m, 1, &w->err));
	assert_true(m.held);
	int64_t a3 = send_key(w, "a", "a3");
	assert_true(claim_one(w, &d) && d.seq == a1);
	OK(w, w->ops->expired_ttl(w->s, T0 + 10, 2, &w->a, l, &n, &next, &w->err));
	assert_int_equal(n, 1);
	OK(w, w->ops->bury(w->s, &l[0], NULL, 0, REASON_EXPIRED, T0 + 1000, false, false, id, &w->err));
	/* Put back while a1 is still at work: it has to wait for it. */
	OK(w, redrive(w, m.seq, NULL));
	assert_int_equal(counts(w)->held, 2);
	OK(w, done(w, &d));
	assert_true(claim_one(w, &d) && d.seq == m.seq);
	kill_it(w, &d, id);
	assert_false(claim_one(w, &d));
	OK(w, w->ops->discard_one(w->s, m.seq, 0, STR("x"), STR("y"), &w->err));
	assert_true(claim_one(w, &d) && d.seq == a3);
	commit(w);
}

static void test_redrive_members_and_conflicts(void **state)
{
	struct world *w = *state;
	int64_t seqs[6], got[10];
	int n;
	begin(w);
	for (int i = 0; i < 6; i++)
		seqs[i] = dead_one(w, "", "x");
	struct store_redrive chosen = {.operator = STR("ann"), .reason = STR("r")},
	                     whole = {.queue_id = w->q, .queue = STR("q"), .operator = STR("bob")};
	OK(w, w->ops->redrive_create(w->s, &chosen, seqs, 2, &w->err));
	EXPECT(w, DLQ_IN_REDRIVE, redrive(w, seqs[0], NULL));
	assert_non_null(strstr(w->err.detail, chosen.redrive_id));
	EXPECT(w, DLQ_IN_REDRIVE, w->ops->discard_one(w->s, seqs[1], 0, STR("a"), STR("b"), &w->err));
	EXPECT(w, DLQ_IN_REDRIVE, w->ops->redrive_create(w->s, &whole, NULL, 0, &w->err));
	struct store_redrive twice = {.operator = STR("c")};
	EXPECT(w, DLQ_IN_REDRIVE, w->ops->redrive_create(w->s, &twice, &seqs[1], 2, &w->err));
	OK(w, w->ops->redrive_next(w->s, chosen.n, 10, got, &n, &w->err));
	assert_int_equal(n, 2);
	for (int i = 0; i < 2; i++)
		OK(w, put_back(w, got[i], &chosen, NULL));
	OK(w, w->ops->redrive_mark(w->s, chosen.n, 2, 0, REDRIVE_DONE, &w->err));
	OK(w, w->ops->redrive_create(w->s, &whole, NULL, 0, &w->err));
	assert_int_equal(whole.total, 4);
	EXPECT(w, DLQ_IN_REDRIVE, redrive(w, seqs[5], NULL));
	/* One that dies after the start is no member. */
	struct store_delivery d;
	char id[ULID_LEN + 1];
	assert_true(claim_one(w, &d) && d.seq == seqs[0]);
	kill_it(w, &d, id);
	OK(w, redrive(w, seqs[0], NULL));
	OK(w, w->ops->redrive_next(w->s, whole.n, 3, got, &n, &w->err));
	assert_int_equal(n, 3);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(got[i], seqs[2 + i]);
		OK(w, put_back(w, got[i], &whole, NULL));
	}
	OK(w, w->ops->redrive_mark(w->s, whole.n, 3, 0, REDRIVE_PAUSED, &w->err));
	commit(w);
	world_reopen(w);
	struct store_redrive *list, one;
	begin(w);
	EXPECT(w, DLQ_IN_REDRIVE, redrive(w, seqs[5], NULL)); /* a paused one still has its members */
	OK(w, w->ops->redrive_active(w->s, &w->a, &list, &n, &w->err));
	assert_int_equal(n, 1);
	assert_int_equal(list[0].sent, 3);
	assert_string_equal(list[0].redrive_id, whole.redrive_id);
	OK(w, w->ops->redrive_mark(w->s, whole.n, 0, 0, REDRIVE_CANCELLED, &w->err));
	OK(w, w->ops->redrive_active(w->s, &w->a, &list, &n, &w->err));
	assert_int_equal(n, 0);
	OK(w, w->ops->discard_one(w->s, seqs[5], 0, STR("a"), STR("b"), &w->err));
	while (claim_one(w, &d)) {
		if (d.seq == seqs[2])
			kill_it(w, &d, id);
		else
			OK(w, done(w, &d));
	}
	commit(w);
	OK(w, w->ops->read_redrive(w->r, whole.n, &w->a, &one, &w->err));
	assert_int_equal(one.succeeded, 2);
	assert_int_equal(one.failed_again, 1);
	assert_int_equal(one.state, REDRIVE_CANCELLED);
	OK(w, w->ops->read_redrives(w->r, 0, 10, &w->a, &list, &n, &w->err));
	assert_int_equal(n, 2);
	assert_int_equal(list[0].n, whole.n);
	EXPECT(w, DLQ_NOT_FOUND, w->ops->read_redrive(w->r, 99, &w->a, &one, &w->err));
	assert_int_equal(read_dead(w, seqs[3]).state, DEAD_REDRIVEN);
	assert_true(str_eqz(read_dead(w, seqs[3]).redrive_id, whole.redrive_id));
}

static void test_done_redrive_counts_archived_members_as_skipped(void **state)
{
	struct world *w = *state;
	struct store_redrive r = {.queue_id = 0}, out;
	int64_t got[4];
	int n;
	begin(w);
	int64_t first = dead_one(w, "", "x"), second = dead_one(w, "", "y");
	r = (struct store_redrive){.queue_id = w->q, .queue = STR("q")};
	OK(w, w->ops->redrive_create(w->s, &r, NULL, 0, &w->err));
	OK(w, w->ops->archive_one(w->s, first, &w->err));
	OK(w, w->ops->redrive_next(w->s, r.n, 4, got, &n, &w->err));
	assert_int_equal(n, 1);
	OK(w, put_back(w, second, &r, NULL));
	OK(w, w->ops->redrive_mark(w->s, r.n, 1, 0, REDRIVE_DONE, &w->err));
	commit(w);
	OK(w, w->ops->read_redrive(w->r, r.n, &w->a, &out, &w->err));
	assert_int_equal(out.total, 2);
	assert_int_equal(out.sent, 1);
	assert_int_equal(out.skipped, 1);
}

static int list_all(struct world *w, struct store_dead_filter f, int64_t *nos, int max)
{
	struct store_dead_page p;
	int total = 0;
	for (int guard = 0; guard < 100; guard++) {
		OK(w, w->ops->read_dead_list(w->r, &f, &w->a, &p, &w->err));
		assert_true(p.n <= f.limit);
		for (int i = 0; i < p.n && total < max; i++) {
			assert_true(!total || p.items[i].died_no < nos[total - 1]);
			nos[total++] = p.items[i].died_no;
		}
		if (!p.next_no)
			return total;
		f.before_no = p.next_no;
	}
	fail_msg("the pages do not end");
	return -1;
}

static void test_lists_page_without_gap_or_repeat(void **state)
{
	struct world *w = *state;
	int64_t nos[100], seqs[25];
	struct store_send named = {.id = STR("order-7"), .body = STR("n"), .due = T0};
	struct store_delivery d;
	char id[ULID_LEN + 1];
	begin(w);
	for (int i = 0; i < 25; i++) {
		seqs[i] = dead_one(w, i % 5 ? "" : "k", "x");
		commit(w);
		clock_advance(w->clock, 10);
		begin(w); /* evidence is stamped with the time of the transaction */
	}
	OK(w, w->ops->discard_one(w->s, seqs[3], 0, STR("a"), STR("b"), &w->err));
	OK(w, redrive(w, seqs[4], NULL));
	assert_true(claim_one(w, &d));
	OK(w, done(w, &d));
	OK(w, w->ops->send(w->s, w->q, 0, 0, &named, 1, &w->err));
	assert_true(claim_one(w, &d));
	kill_it(w, &d, id);
	commit(w);
	struct store_dead_filter f = {.state = -1, .reason = -1, .limit = 7};
	assert_int_equal(list_all(w, f, nos, 100), 26);
	f.queue_id = w->q;
	assert_int_equal(list_all(w, f, nos, 100), 26);
	f.scan_limit = 3;
	assert_int_equal(list_all(w, f, nos, 100), 26);
	f.state = DEAD_DEAD;
	assert_int_equal(list_all(w, f, nos, 100), 24);
	f.queue_id = 0;
	assert_int_equal(list_all(w, f, nos, 100), 24);
	f.state = DEAD_REDRIVEN;
	assert_int_equal(list_all(w, f, nos, 100), 1);
	f = (struct store_dead_filter){.state = -1, .reason = -1, .limit = 2, .queue_id = w->q, .key = STR("k")};
	assert_int_equal(list_all(w, f, nos, 100), 5);
	f.key = STR("none");
	assert_int_equal(list_all(w, f, nos, 100), 0);
	f = (struct store_dead_filter){.state = -1, .reason = -1, .limit = 5, .message_id = STR("order-7")};
	assert_int_equal(list_all(w, f, nos, 100), 1);
	f.message_id = read_dead(w, seqs[8]).id;
	assert_int_equal(list_all(w, f, nos, 100), 1);
	assert_int_equal(nos[0], read_dead(w, seqs[8]).died_no);
	char forged[ULID_LEN + 1];
	ulid_make(T0 + 1, 1, (uint64_t)seqs[8], forged);
	f.message_id = str_of(forged);
	assert_int_equal(list_all(w, f, nos, 100), 0);
	f = (struct store_dead_filter){.state = -1,
	                               .reason = REASON_PERMANENT,
	                               .limit = 5,
	                               .error_type = STR("BadInput"),
	                               .died_from_ms = T0 + 50,
	                               .died_to_ms = T0 + 100};
	assert_int_equal(list_all(w, f, nos, 100), 5);
	f.error_type = STR("Other");
	assert_int_equal(list_all(w, f, nos, 100), 0);
	f.error_type = STR("");
	f.reason = REASON_EXPIRED;
	assert_int_equal(list_all(w, f, nos, 100), 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, world_new, world_free)
#define ORDERED(f) cmocka_unit_test_setup_teardown(f, world_new_ordered, world_free)
	const struct CMUnitTest tests[] = {
	    T(test_death_keeps_evidence),
	    T(test_redrive_succeeds_and_fails_again),
	    ORDERED(test_ordered_lanes),
	    ORDERED(test_ordered_ttl_of_a_held_one),
	    T(test_redrive_members_and_conflicts),
	    T(test_done_redrive_counts_archived_members_as_skipped),
	    T(test_lists_page_without_gap_or_repeat),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
