/* Dead letters that come in from an export: of every back end. */
#include "lib_store.h"

/* A dead letter as an export has it, in the world's arena. */
static struct store_import taken(struct world *w, int64_t seq)
{
	struct store_import i = {.queue_id = w->q, .retention_due = T0 + 777000};
	struct store_attempt *at;
	struct str type, *edited;
	int n;
	i.d = read_dead(w, seq);
	OK(w, w->ops->read_attempts(w->r, seq, 100, &w->a, &at, &n, &w->err));
	OK(w, w->ops->read_body(w->r, seq, true, &w->a, &i.body, &type, &w->err));
	if (i.d.edited) {
		edited = arena_alloc(&w->a, sizeof(*edited));
		OK(w, w->ops->read_body(w->r, seq, false, &w->a, edited, &type, &w->err));
		i.edited_body = edited;
	}
	if (n) {
		struct store_group_key *key = arena_alloc(&w->a, sizeof(*key));
		*key = (struct store_group_key){.fp = {9, 1, 2}, .version = 1, .error_type = STR("BadInput"), .normal = STR("n")};
		at[n - 1].group = key;
	}
	i.attempts = at;
	i.n_attempts = n;
	return i;
}

static int64_t import(struct world *w, struct store_import *i)
{
	int64_t seq;
	OK(w, w->ops->import_one(w->s, i, &w->err));
	assert_int_equal(store_id_seq(str_of(i->dlq_id), &seq, &w->err), DLQ_OK);
	return seq;
}

/* Second life with edited body and headers, named by its producer. */
static int64_t rich(struct world *w, const char *id)
{
	struct store_send m = {.id = str_of(id), .key = STR("k"), .content_type = STR("text/x"), .headers = STR("{\"h\":\"1\"}"), .body = STR("body"), .due = T0};
	struct str body = STR("edited"), headers = STR("{\"h\":\"2\"}");
	struct store_put_back p = {.body = &body, .headers = &headers, .due = T0, .max_redrives = -1, .operator = STR("ann"), .why = STR("fixed")};
	struct store_delivery d;
	OK(w, w->ops->send(w->s, w->q, 0, 0, &m, 1, &w->err));
	assert_true(claim_one(w, &d) && d.seq == m.seq);
	OK(w, fail_retry(w, &d, T0));
	assert_true(claim_one(w, &d));
	kill_as(w, &d, 1, "w1", "2.0");
	OK(w, w->ops->redrive_one(w->s, m.seq, &p, &w->err));
	assert_true(claim_one(w, &d) && d.seq == m.seq);
	kill_as(w, &d, 1, "w2", "2.1");
	return m.seq;
}

/* All that a record has is the same; what is of this store may differ. */
static void expect_same(struct world *w, const struct store_import *i, int64_t seq)
{
	struct store_dead d = read_dead(w, seq);
	const struct store_dead *was = &i->d;
	struct store_attempt *at;
	struct str body, type;
	int n;
	assert_int_equal(d.state, DEAD_DEAD);
	assert_true(str_eq(d.id, was->id) && str_eq(d.key, was->key) && str_eq(d.content_type, was->content_type));
	assert_true(str_eq(d.headers, was->headers) && str_eq(d.edited_headers, was->edited_headers) && d.edited == was->edited);
	assert_true(d.reason == was->reason && d.attempts == was->attempts && d.redrives == was->redrives);
	assert_true(d.received_at_ms == was->received_at_ms && d.first_failed_at_ms == was->first_failed_at_ms &&
	            d.last_failed_at_ms == was->last_failed_at_ms && d.died_at_ms == was->died_at_ms);
	assert_true(str_eq(d.error_type, was->error_type) && str_eq(d.message, was->message) && str_eq(d.worker, was->worker));
	assert_int_equal(d.body_bytes, was->body_bytes);
	assert_int_equal(d.expires_due, i->retention_due);
	OK(w, w->ops->read_attempts(w->r, seq, 100, &w->a, &at, &n, &w->err));
	assert_int_equal(n, i->n_attempts);
	for (int k = 0; k < n; k++) {
		assert_true(at[k].n == i->attempts[k].n && at[k].redrive == i->attempts[k].redrive && at[k].at_ms == i->attempts[k].at_ms);
		assert_true(str_eq(at[k].message, i->attempts[k].message) && str_eq(at[k].worker_version, i->attempts[k].worker_version));
	}
	OK(w, w->ops->read_body(w->r, seq, true, &w->a, &body, &type, &w->err));
	assert_true(str_eq(body, i->body));
	OK(w, w->ops->read_body(w->r, seq, false, &w->a, &body, &type, &w->err));
	assert_true(str_eq(body, i->edited_body ? *i->edited_body : i->body));
}

static void test_gone_and_back(void **state)
{
	struct world *w = *state;
	struct store_delivery d;
	begin(w);
	int64_t a = rich(w, "order-1"), b = dead_one(w, "", "made id");
	commit(w);
	struct store_import ia = taken(w, a), ib = taken(w, b);
	begin(w);
	OK(w, w->ops->archive_one(w->s, a, &w->err));
	OK(w, w->ops->archive_one(w->s, b, &w->err));
	commit(w);
	world_reopen(w);
	clock_advance(w->clock, 5000);
	begin(w);
	assert_int_equal(import(w, &ia), a); /* the same number, so the same dlq_id and message id */
	assert_int_equal(import(w, &ib), b);
	assert_true(!ia.exists && !ib.exists);
	assert_string_equal(ia.dlq_id, ia.d.dlq_id);
	assert_string_equal(ib.dlq_id, ib.d.dlq_id);
	assert_int_equal(counts(w)->dead, 2);
	assert_int_equal(counts(w)->imported, 2);
	assert_int_equal(counts(w)->died, 3);
	commit(w);
	expect_same(w, &ia, a);
	expect_same(w, &ib, b);
	assert_int_equal(read_dead(w, a).imported_id.n, 0);
	begin(w);
	int64_t next = send_body(w, "later"); /* numbers go on */
	assert_true(next > b);
	import(w, &ia);
	assert_true(ia.exists);
	assert_string_equal(ia.dlq_id, ia.d.dlq_id);
	assert_int_equal(counts(w)->imported, 2);
	OK(w, put_back(w, a, NULL, NULL));
	assert_true(claim_one(w, &d) && d.seq == a && str_eqz(d.body, "edited") && str_eqz(d.headers, "{\"h\":\"2\"}") && d.redrives == 2);
	OK(w, done(w, &d));
	import(w, &ia); /* its record is here still */
	assert_true(ia.exists);
	assert_int_equal(counts(w)->redriven, 1);
	commit(w);
	assert_int_equal(read_dead(w, a).state, DEAD_REDRIVEN);
	world_reopen(w);
}

static void test_into_another_store(void **state)
{
	struct world *w = *state;
	void *second;
	begin(w);
	int64_t a = rich(w, "order-1"), b = dead_one(w, "", "made id");
	commit(w);
	struct store_import ia = taken(w, a), ib = taken(w, b);
	world_new(&second);
	struct world *x = second;
	ia.queue_id = ib.queue_id = x->q;
	begin(x);
	for (int i = 0; i < 5; i++)
		dead_one(x, "", "its own");
	int64_t xa = import(x, &ia), xb = import(x, &ib);
	assert_string_not_equal(ia.dlq_id, ia.d.dlq_id);
	commit(x);
	expect_same(x, &ia, xa);
	expect_same(x, &ib, xb);
	assert_true(str_eqz(read_dead(x, xa).imported_id, ia.d.dlq_id) && str_eqz(read_dead(x, xb).imported_id, ib.d.dlq_id));
	/* Found by its message id and by the dlq_id it had. */
	struct store_dead_filter f = {.state = -1, .reason = -1, .limit = 5, .message_id = str_of(ia.d.dlq_id)};
	int64_t got[5];
	assert_true(list_seqs(x, f, got, 5) == 1 && got[0] == xa);
	f.message_id = ib.d.id;
	assert_true(list_seqs(x, f, got, 5) == 1 && got[0] == xb);
	f.message_id = STR("order-1");
	assert_true(list_seqs(x, f, got, 5) == 1 && got[0] == xa);
	struct store_header h[2] = {{STR("h"), STR("2")}, {STR("h"), STR("1")}};
	f = (struct store_dead_filter){.state = -1, .reason = -1, .limit = 5, .headers = &h[0], .n_headers = 1};
	assert_int_equal(list_seqs(x, f, got, 5), 1);
	f.headers = &h[1];
	assert_int_equal(list_seqs(x, f, got, 5), 0);
	f = (struct store_dead_filter){.state = -1, .reason = -1, .limit = 5, .queue_id = x->q, .key = STR("k"), .error_type = STR("BadInput")};
	assert_int_equal(list_seqs(x, f, got, 5), 1);
	/* Its group has one more to look after, and no more failures. */
	const uint8_t fp[16] = {9, 1, 2};
	struct store_group g;
	OK(x, x->ops->read_group(x->r, fp, &x->a, &g, &x->err));
	assert_true(g.dead == 2 && g.failures == 0 && g.deaths == 0 && g.last_seen_ms == T0 && g.last_no > 0);
	begin(x);
	import(x, &ib);
	assert_true(ib.exists);
	assert_int_equal(counts(x)->dead, 7);
	commit(x);
	/* Exported from there it comes home: it is here. */
	struct store_import back = taken(x, xa);
	back.queue_id = w->q;
	begin(w);
	import(w, &back);
	assert_true(back.exists);
	assert_string_equal(back.dlq_id, ia.d.dlq_id);
	OK(w, w->ops->archive_one(w->s, a, &w->err));
	int64_t again = import(w, &back); /* now it is not: a new one, of the other store's */
	assert_false(back.exists);
	assert_true(again > b);
	commit(w);
	assert_true(str_eqz(read_dead(w, again).imported_id, back.d.dlq_id));
	expect_same(w, &back, again);
	world_free(&second);
}

static void test_ids_that_are_not_ours(void **state)
{
	struct world *w = *state;
	char forged[ULID_LEN + 1];
	begin(w);
	int64_t a = dead_one(w, "", "x");
	commit(w);
	struct store_import i = taken(w, a);
	begin(w);
	OK(w, w->ops->archive_one(w->s, a, &w->err));
	ulid_make(T0, 1, (uint64_t)a, forged); /* the number is free, but the id is not one of this store */
	if (!strcmp(forged, i.d.dlq_id))
		ulid_make(T0, 2, (uint64_t)a, forged);
	char own[ULID_LEN + 1];
	memcpy(own, i.d.dlq_id, sizeof(own));
	memcpy(i.d.dlq_id, forged, sizeof(forged));
	assert_true(import(w, &i) > a);
	const char *odd[] = {"", "x", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "zzzzzzzzzzzzzzzzzzzzzzzzzz"};
	for (size_t k = 0; k < ARRAY_LEN(odd); k++) {
		snprintf(i.d.dlq_id, sizeof(i.d.dlq_id), "%s", odd[k]);
		assert_true(import(w, &i) > a && !i.exists);
	}
	memcpy(i.d.dlq_id, own, sizeof(own));
	assert_int_equal(import(w, &i), a);
	/* A number that a living message has is not free. */
	OK(w, w->ops->archive_one(w->s, a, &w->err));
	i.queue_id = 99;
	EXPECT(w, DLQ_NOT_FOUND, w->ops->import_one(w->s, &i, &w->err));
	commit(w);
}

static void test_bare_and_odd_records(void **state)
{
	struct world *w = *state;
	struct store_delivery d;
	struct store_attempt twice[2] = {{.n = 1, .at_ms = 5, .error_type = STR("E"), .message = STR("first")},
	                                 {.n = 1, .at_ms = 6, .error_type = STR("F"), .message = STR("second")}};
	struct store_import bare = {.queue_id = w->q, .d = {.reason = REASON_UNKNOWN, .id = STR("m")}, .retention_due = T0 + 10},
	                    odd = {.queue_id = w->q, .d = {.reason = REASON_PERMANENT, .headers = STR("[]")}, .attempts = twice, .n_attempts = 2, .retention_due = T0};
	begin(w);
	int64_t a = import(w, &bare), b = import(w, &odd);
	OK(w, put_back(w, a, NULL, NULL));
	assert_true(claim_one(w, &d) && d.seq == a && str_eqz(d.id, "m") && d.body.n == 0 && d.redrives == 1);
	OK(w, done(w, &d));
	OK(w, put_back(w, b, NULL, NULL));
	assert_true(claim_one(w, &d) && d.seq == b && d.id.n == ULID_LEN);
	kill_it(w, &d, bare.dlq_id);
	commit(w);
	assert_int_equal(read_dead(w, b).group_id, 0);
	struct store_attempt *at;
	int n;
	OK(w, w->ops->read_attempts(w->r, b, 10, &w->a, &at, &n, &w->err));
	assert_true(n == 2 && str_eqz(at[0].message, "first"));
}

static void test_ordered(void **state)
{
	struct world *w = *state;
	struct store_delivery d;
	begin(w);
	int64_t a = dead_one(w, "k", "a");
	commit(w);
	struct store_import i = taken(w, a);
	begin(w);
	OK(w, w->ops->archive_one(w->s, a, &w->err));
	assert_int_equal(import(w, &i), a); /* nothing came later: its old place */
	int64_t b = send_key(w, "k", "b");
	assert_false(claim_one(w, &d)); /* dead, it holds back what follows */
	OK(w, w->ops->archive_one(w->s, a, &w->err));
	assert_true(claim_one(w, &d) && d.seq == b);
	int64_t late = import(w, &i); /* b is at work: its place is gone by */
	assert_true(late > b);
	assert_string_not_equal(i.dlq_id, i.d.dlq_id);
	int64_t c = send_key(w, "k", "c");
	OK(w, done(w, &d));
	assert_false(claim_one(w, &d));
	OK(w, put_back(w, late, NULL, NULL));
	assert_true(claim_one(w, &d) && d.seq == late);
	OK(w, done(w, &d));
	assert_true(claim_one(w, &d) && d.seq == c);
	commit(w);
}

static void test_rolled_back(void **state)
{
	struct world *w = *state;
	begin(w);
	int64_t a = dead_one(w, "", "a");
	commit(w);
	struct store_import i = taken(w, a);
	begin(w);
	OK(w, w->ops->archive_one(w->s, a, &w->err));
	import(w, &i);
	w->ops->rollback(w->s);
	begin(w);
	import(w, &i);
	assert_true(i.exists && counts(w)->imported == 0 && counts(w)->dead == 1);
	commit(w);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, world_new, world_free)
	const struct CMUnitTest tests[] = {
	    T(test_gone_and_back),
	    T(test_into_another_store),
	    T(test_ids_that_are_not_ours),
	    T(test_bare_and_odd_records),
	    cmocka_unit_test_setup_teardown(test_ordered, world_new_ordered, world_free),
	    T(test_rolled_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
