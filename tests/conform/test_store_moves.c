/* Edits, other destinations, the limit of redrives, and giving up: of every back end. */
#include "lib_store.h"

static struct store_put_back plain(struct world *w)
{
	return (struct store_put_back){.operator = STR("ann"), .why = STR("r"), .due = clock_now_ms(w->clock), .max_redrives = -1};
}

static enum dlq_code put(struct world *w, int64_t seq, const struct store_put_back *p)
{
	return w->ops->redrive_one(w->s, seq, p, &w->err);
}

static enum dlq_code put_to(struct world *w, int64_t seq, int64_t to)
{
	struct store_put_back p = plain(w);
	p.to_queue_id = to;
	return put(w, seq, &p);
}

static bool claim_of(struct world *w, int64_t q, struct store_delivery *d)
{
	int64_t own = w->q;
	w->q = q;
	bool got = claim_one(w, d);
	w->q = own;
	return got;
}

static enum dlq_code done_of(struct world *w, int64_t q, const struct store_delivery *d)
{
	bool unheld;
	return w->ops->done(w->s, q, d->seq, d->nonce, &unheld, &w->err);
}

static void kill_of(struct world *w, int64_t q, const struct store_delivery *d, uint8_t fp)
{
	int64_t own = w->q;
	w->q = q;
	kill_as(w, d, fp, "w", "");
	w->q = own;
}

static int find_header(struct world *w, const char *name, const char *value)
{
	struct store_header h = {str_of(name), str_of(value)};
	struct store_dead_filter f = {.state = -1, .reason = -1, .limit = 10, .headers = &h, .n_headers = 1};
	int64_t seqs[10];
	return list_seqs(w, f, seqs, 10);
}

static void test_edits_of_body_and_headers(void **state)
{
	struct world *w = *state;
	struct store_delivery d;
	struct str now = STR("{\"tenant\":\"b\",\"x\":\"1\"}"), text = STR("better"), none = STR("{}"), body, type;
	char id[ULID_LEN + 1];
	begin(w);
	int64_t seq = send_with(w, "", "{\"tenant\":\"a\"}", "plain");
	assert_true(claim_one(w, &d) && str_eqz(d.headers, "{\"tenant\":\"a\"}"));
	kill_it(w, &d, id);
	struct store_put_back p = plain(w);
	p.headers = &now;
	OK(w, put(w, seq, &p));
	commit(w);
	assert_int_equal(find_header(w, "tenant", "a"), 0); /* what counts is what is delivered */
	assert_int_equal(find_header(w, "tenant", "b"), 1);
	begin(w);
	assert_true(claim_one(w, &d) && str_eq(d.headers, now) && str_eqz(d.body, "plain"));
	kill_it(w, &d, id);
	commit(w);
	struct store_dead dl = read_dead(w, seq);
	assert_true(dl.edited && str_eq(dl.edited_headers, now) && str_eqz(dl.headers, "{\"tenant\":\"a\"}"));
	OK(w, w->ops->read_body(w->r, seq, false, &w->a, &body, &type, &w->err));
	assert_true(str_eqz(body, "plain"));
	assert_int_equal(find_header(w, "x", "1"), 1);
	begin(w);
	p = plain(w);
	p.body = &text; /* the headers stay as edited */
	OK(w, put(w, seq, &p));
	assert_true(claim_one(w, &d) && str_eq(d.headers, now) && str_eqz(d.body, "better"));
	kill_it(w, &d, id);
	OK(w, put_back(w, seq, NULL, NULL)); /* no edit: the last one stands */
	assert_true(claim_one(w, &d) && str_eq(d.headers, now) && str_eqz(d.body, "better"));
	kill_it(w, &d, id);
	p = plain(w);
	p.headers = &none;
	OK(w, put(w, seq, &p));
	assert_true(claim_one(w, &d) && str_eq(d.headers, none) && str_eqz(d.body, "better") && d.redrives == 4);
	kill_it(w, &d, id);
	commit(w);
	assert_int_equal(find_header(w, "x", "1"), 0);
	OK(w, w->ops->read_body(w->r, seq, true, &w->a, &body, &type, &w->err));
	assert_true(str_eqz(body, "plain")); /* invariant 6 */
	world_reopen(w);
	begin(w);
	OK(w, w->ops->archive_one(w->s, seq, &w->err));
	commit(w);
}

static void test_to_another_queue(void **state)
{
	struct world *w = *state;
	struct store_delivery d, e;
	struct store_lease l;
	char id[ULID_LEN + 1];
	begin(w);
	int64_t to = make_queue(w, "to", false), a1 = send_key(w, "a", "a1"), a2 = send_key(w, "a", "a2");
	assert_true(claim_one(w, &d) && d.seq == a1);
	kill_it(w, &d, id);
	assert_false(claim_one(w, &d));
	OK(w, put_to(w, a1, to));
	assert_int_equal(counts(w)->dead, 0);
	assert_int_equal(counts(w)->redriving, 1);
	assert_int_equal(counts(w)->bytes, 2);
	assert_int_equal(counts_of(w, to)->bytes, 2);
	assert_int_equal(counts_of(w, to)->ready, 1);
	assert_true(claim_one(w, &d) && d.seq == a2); /* it has left their lane */
	assert_true(claim_of(w, to, &e) && e.seq == a1 && e.redrives == 1 && e.attempts == 0);
	EXPECT(w, DLQ_GONE, done(w, &e)); /* it is not of its old queue */
	EXPECT(w, DLQ_CONFLICT, w->ops->queue_delete(w->s, to, &w->err));
	commit(w);
	world_reopen(w);
	begin(w);
	OK(w, w->ops->lease_get(w->s, to, e.seq, e.nonce, &w->a, &l, &w->err));
	OK(w, w->ops->release(w->s, &l, clock_now_ms(w->clock), &w->err));
	assert_true(claim_of(w, to, &e));
	int64_t own = w->q;
	w->q = to;
	OK(w, fail_retry(w, &e, clock_now_ms(w->clock)));
	w->q = own;
	assert_true(claim_of(w, to, &e) && e.attempts == 1);
	OK(w, done(w, &d));
	EXPECT(w, DLQ_CONFLICT, w->ops->queue_delete(w->s, w->q, &w->err)); /* one of its dead letters is under way */
	assert_non_null(strstr(w->err.detail, "1 that are being redriven"));
	OK(w, done_of(w, to, &e));
	assert_int_equal(counts(w)->redriving, 0);
	assert_int_equal(counts(w)->redriven, 1);
	assert_int_equal(counts(w)->done, 1);
	assert_int_equal(counts_of(w, to)->done, 1);
	assert_int_equal(counts_of(w, to)->redriven, 0);
	assert_int_equal(counts_of(w, to)->bytes, 0);
	assert_int_equal(counts_of(w, to)->failed_attempts, 1);
	OK(w, w->ops->queue_delete(w->s, to, &w->err));
	EXPECT(w, DLQ_CONFLICT, put_to(w, a1, to));
	commit(w);
	assert_int_equal(read_dead(w, a1).state, DEAD_REDRIVEN);
}

static void test_it_dies_in_the_other_queue(void **state)
{
	struct world *w = *state;
	struct store_delivery d;
	struct store_group g;
	const uint8_t fp[16] = {4, 1, 2};
	int64_t got[4];
	int n;
	begin(w);
	int64_t to = make_queue(w, "to", true), first = dead_of(w, 3, "w", ""), other = dead_of(w, 3, "w", "");
	struct store_redrive r = {.to_queue_id = to, .to_queue = STR("to"), .operator = STR("ann")};
	struct store_redrive gone = {.to_queue_id = 99, .to_queue = STR("gone")};
	EXPECT(w, DLQ_NOT_FOUND, w->ops->redrive_create(w->s, &gone, &first, 1, &w->err));
	OK(w, w->ops->redrive_create(w->s, &r, &first, 1, &w->err));
	OK(w, w->ops->redrive_next(w->s, r.n, 4, got, &n, &w->err));
	struct store_put_back p = plain(w);
	p.redrive_n = r.n;
	p.redrive_id = str_of(r.redrive_id);
	p.to_queue_id = to;
	OK(w, put(w, first, &p));
	OK(w, w->ops->redrive_mark(w->s, r.n, 1, 0, REDRIVE_DONE, &w->err));
	assert_true(claim_of(w, to, &d) && d.seq == first);
	kill_of(w, to, &d, 4);
	assert_int_equal(counts(w)->dead, 1);
	assert_int_equal(counts(w)->redriving, 0);
	assert_int_equal(counts_of(w, to)->dead, 1);
	assert_int_equal(counts_of(w, to)->died, 1);
	commit(w);
	struct store_dead dl = read_dead(w, first);
	assert_true(dl.queue_id == to && str_eqz(dl.queue, "to") && dl.state == DEAD_DEAD);
	OK(w, w->ops->read_group(w->r, fp, &w->a, &g, &w->err));
	assert_true(g.queue_id == to && g.dead == 1 && dl.group_id == g.group_id);
	struct store_redrive out;
	OK(w, w->ops->read_redrive(w->r, r.n, &w->a, &out, &w->err));
	assert_true(out.failed_again == 1 && out.to_queue_id == to && str_eqz(out.to_queue, "to"));
	world_reopen(w);
	begin(w);
	struct store_redrive whole = {.queue_id = w->q, .queue = STR("q")};
	OK(w, w->ops->redrive_create(w->s, &whole, NULL, 0, &w->err));
	assert_int_equal(whole.total, 1);
	OK(w, put_back(w, first, NULL, NULL)); /* now it goes back to where it died */
	assert_true(claim_of(w, to, &d) && d.seq == first && d.redrives == 2);
	OK(w, done_of(w, to, &d));
	assert_int_equal(counts_of(w, to)->redriven, 1);
	OK(w, w->ops->redrive_mark(w->s, whole.n, 0, 0, REDRIVE_CANCELLED, &w->err));
	OK(w, w->ops->discard_one(w->s, other, 0, STR("a"), STR("b"), &w->err));
	OK(w, w->ops->queue_delete(w->s, w->q, &w->err));
	commit(w);
}

static void test_into_an_ordered_queue(void **state)
{
	struct world *w = *state;
	struct store_delivery d, e;
	begin(w);
	int64_t to = make_queue(w, "to", true), own = w->q;
	int64_t early = dead_one(w, "k", "early"), other = dead_one(w, "z", "z");
	w->q = to;
	int64_t there = send_key(w, "k", "there");
	w->q = own;
	int64_t late = dead_one(w, "k", "late");
	EXPECT(w, DLQ_CONFLICT, put_to(w, early, to)); /* it would have to go before the one that is there */
	assert_non_null(strstr(w->err.detail, "later messages"));
	OK(w, put_to(w, other, to));
	OK(w, put_to(w, late, to));
	assert_int_equal(counts_of(w, to)->held, 1);
	assert_true(claim_of(w, to, &d) && d.seq == other);
	assert_true(claim_of(w, to, &e) && e.seq == there);
	assert_false(claim_of(w, to, &d));
	OK(w, done_of(w, to, &e));
	assert_true(claim_of(w, to, &e) && e.seq == late);
	kill_of(w, to, &e, 1);
	w->q = to;
	send_key(w, "k", "behind");
	w->q = own;
	assert_false(claim_of(w, to, &d)); /* dead in its new lane, it holds back what follows */
	OK(w, w->ops->give_up_one(w->s, late, 0, STR("a"), STR("b"), &w->err));
	assert_true(claim_of(w, to, &d));
	OK(w, done_of(w, to, &d));
	OK(w, put_to(w, early, to));
	assert_true(claim_of(w, to, &d) && d.seq == early);
	commit(w);
}

static void test_limit_of_redrives(void **state)
{
	struct world *w = *state;
	struct store_delivery d;
	struct store_put_back p = plain(w);
	char id[ULID_LEN + 1];
	begin(w);
	int64_t seq = dead_one(w, "", "x");
	p.max_redrives = 0;
	EXPECT(w, DLQ_CONFLICT, put(w, seq, &p));
	p.max_redrives = 1;
	OK(w, put(w, seq, &p));
	assert_true(claim_one(w, &d));
	kill_it(w, &d, id);
	EXPECT(w, DLQ_CONFLICT, put(w, seq, &p));
	assert_non_null(strstr(w->err.detail, "override"));
	p.max_redrives = 2;
	OK(w, put(w, seq, &p));
	commit(w);
}

static void test_dies_given_up(void **state)
{
	struct world *w = *state;
	struct store_delivery d;
	struct store_lease l;
	struct store_notice notice[2];
	struct store_group g;
	const uint8_t fp[16] = {1, 1, 2};
	char id[ULID_LEN + 1], id2[ULID_LEN + 1];
	int64_t next, seqs[2];
	int n;
	struct store_group_key key = {.fp = {1, 1, 2}, .version = 1, .error_type = STR("E"), .normal = STR("n")};
	begin(w);
	int64_t a1 = send_with(w, "a", "{\"h\":\"1\"}", "a1"), a2 = send_key(w, "a", "a2");
	assert_true(claim_one(w, &d) && d.seq == a1);
	kill_as(w, &d, 1, "w", "");
	OK(w, put_back(w, a1, NULL, NULL));
	assert_true(claim_one(w, &d) && d.seq == a1);
	OK(w, w->ops->lease_get(w->s, w->q, d.seq, d.nonce, &w->a, &l, &w->err));
	struct store_attempt at = {.group = &key, .n = 1, .redrive = 1, .at_ms = T0, .outcome = 2, .error_type = STR("E"), .exit_code = -1};
	OK(w, w->ops->bury(w->s, &l, &at, 0, REASON_PERMANENT, T0 + 5000, true, true, id, &w->err));
	assert_int_equal(counts(w)->dead, 0);
	assert_int_equal(counts(w)->archived, 1);
	assert_int_equal(counts(w)->died, 2);
	assert_int_equal(counts(w)->redriving, 0);
	OK(w, w->ops->notice_due(w->s, T0 + 100, 2, &w->a, notice, &n, &next, &w->err));
	assert_true(n == 1 && notice[0].seq == a1);
	assert_true(claim_one(w, &d) && d.seq == a2); /* its follower is free */
	OK(w, done(w, &d));
	EXPECT(w, DLQ_CONFLICT, put_back(w, a1, NULL, NULL));
	assert_non_null(strstr(w->err.detail, "archived"));
	EXPECT(w, DLQ_CONFLICT, w->ops->discard_one(w->s, a1, 0, STR("a"), STR("b"), &w->err));
	EXPECT(w, DLQ_CONFLICT, w->ops->give_up_one(w->s, a1, 0, STR("a"), STR("b"), &w->err));
	commit(w);
	OK(w, w->ops->read_group(w->r, fp, &w->a, &g, &w->err));
	assert_true(g.dead == 0 && g.archived == 1 && g.failed_again == 1 && g.redriving == 0 && g.deaths == 2);
	assert_int_equal(read_dead(w, a1).state, DEAD_ARCHIVED);
	assert_string_equal(read_dead(w, a1).dlq_id, id);
	world_reopen(w);
	begin(w);
	struct store_put_back p = plain(w);
	p.archived_too = true;
	int64_t a3 = send_key(w, "a", "a3");
	EXPECT(w, DLQ_CONFLICT, put(w, a1, &p)); /* a3 is under way */
	EXPECT(w, DLQ_CONFLICT, w->ops->restore_one(w->s, a1, 0, STR("ann"), STR("x"), &w->err));
	assert_true(claim_one(w, &d) && d.seq == a3);
	OK(w, done(w, &d));
	OK(w, w->ops->restore_one(w->s, a1, 0, STR("ann"), STR("x"), &w->err));
	assert_int_equal(counts(w)->dead, 1);
	assert_int_equal(counts(w)->archived, 0);
	EXPECT(w, DLQ_CONFLICT, w->ops->restore_one(w->s, a1, 0, STR("ann"), STR("x"), &w->err));
	send_key(w, "a", "a4");
	assert_false(claim_one(w, &d));
	OK(w, w->ops->give_up_one(w->s, a1, 0, STR("bob"), STR("hopeless"), &w->err));
	assert_true(claim_one(w, &d));
	OK(w, done(w, &d));
	OK(w, put(w, a1, &p)); /* into the lane again */
	assert_int_equal(counts(w)->archived, 0);
	send_key(w, "a", "a5");
	assert_true(claim_one(w, &d) && d.seq == a1 && d.redrives == 2);
	kill_it(w, &d, id2);
	assert_string_equal(id, id2);
	OK(w, w->ops->give_up_one(w->s, a1, 0, STR("bob"), STR("hopeless"), &w->err));
	OK(w, w->ops->retention_due(w->s, T0 + 100000000, 2, seqs, &n, &next, &w->err));
	assert_true(n == 1 && seqs[0] == a1);
	OK(w, w->ops->archive_one(w->s, a1, &w->err));
	assert_int_equal(counts(w)->archived, 1); /* counted once */
	commit(w);
	OK(w, w->ops->read_group(w->r, fp, &w->a, &g, &w->err));
	assert_int_equal(g.dead, 0);
}

static void test_first_death_given_up(void **state)
{
	struct world *w = *state;
	struct store_delivery d;
	struct store_lease l;
	char id[ULID_LEN + 1];
	begin(w);
	int64_t seq = send_body(w, "x");
	assert_true(claim_one(w, &d));
	OK(w, w->ops->lease_get(w->s, w->q, seq, d.nonce, &w->a, &l, &w->err));
	OK(w, w->ops->bury(w->s, &l, NULL, 0, REASON_EXPIRED, T0 + 5000, false, true, id, &w->err));
	assert_true(counts(w)->dead == 0 && counts(w)->archived == 1);
	EXPECT(w, DLQ_CONFLICT, put_back(w, seq, NULL, NULL));
	OK(w, w->ops->queue_delete(w->s, w->q, &w->err)); /* its record stays */
	commit(w);
	assert_int_equal(read_dead(w, seq).state, DEAD_ARCHIVED);
	begin(w);
	struct store_put_back p = plain(w);
	p.archived_too = true;
	EXPECT(w, DLQ_CONFLICT, put(w, seq, &p));
	EXPECT(w, DLQ_CONFLICT, w->ops->restore_one(w->s, seq, 0, STR("a"), STR("b"), &w->err));
	int64_t to = make_queue(w, "to", false);
	p.to_queue_id = to;
	OK(w, put(w, seq, &p)); /* into another queue it can */
	assert_true(claim_of(w, to, &d) && d.seq == seq);
	OK(w, done_of(w, to, &d));
	commit(w);
	assert_int_equal(read_dead(w, seq).state, DEAD_REDRIVEN);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, world_new, world_free)
#define ORDERED(f) cmocka_unit_test_setup_teardown(f, world_new_ordered, world_free)
	const struct CMUnitTest tests[] = {
	    T(test_edits_of_body_and_headers),
	    ORDERED(test_to_another_queue),
	    T(test_it_dies_in_the_other_queue),
	    T(test_into_an_ordered_queue),
	    T(test_limit_of_redrives),
	    ORDERED(test_dies_given_up),
	    T(test_first_death_given_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
