/* What lists of dead letters can be asked for, alone and together, and the bounds of a step: of every back end. */
#include "lib_store.h"

#define ANY (-1)
#define F(of_state, of_limit, ...) ((struct store_dead_filter){.state = of_state, .reason = -1, .limit = of_limit, __VA_ARGS__})
enum { N = 60 };

static const char *const tenants[] = {"acme", "b\\u00e9", "c \\\"d\\\"", "\\ud83d\\ude00"};
static const char *const tenant_texts[] = {"acme", "b\xc3\xa9", "c \"d\"", "\xf0\x9f\x98\x80"};
static const char *const types[] = {"Timeout", "BadInput", "NoSuchOrder"};

/* Every one with another mix of tenant, region, error type and body. */
static void fill(struct world *w, int64_t *seqs)
{
	char headers[120], body[40];
	for (int i = 0; i < N; i++) {
		snprintf(headers, sizeof(headers), "{\"region\":\"r%d\",\"tenant\":\"%s\"}", i % 5, tenants[i % 4]);
		snprintf(body, sizeof(body), "{\"n\":%d,\"odd\":%s}", i, i % 2 ? "true" : "false");
		seqs[i] = dead_with(w, headers, types[i % 3], body);
	}
}

/* Exactly those of the filled ones for which the rule holds, newest first. */
#define EXPECT_THESE(w, f, seqs, rule)                                                                                  \
	do {                                                                                                            \
		int64_t got_[2 * N];                                                                                    \
		int n_ = list_seqs(w, f, got_, 2 * N), k_ = 0;                                                          \
		for (int i = N - 1; i >= 0; i--)                                                                        \
			if (rule) {                                                                                     \
				assert_true(k_ < n_);                                                                   \
				assert_int_equal(got_[k_++], (seqs)[i]);                                                \
			}                                                                                               \
		assert_int_equal(k_, n_);                                                                               \
	} while (0)

static void test_headers(void **state)
{
	struct world *w = *state;
	int64_t s[N];
	begin(w);
	fill(w, s);
	dead_one(w, "", "no headers");
	dead_with(w, "{}", "X", "none");
	dead_with(w, "not JSON at all", "X", "none");
	commit(w);
	for (int t = 0; t < 4; t++) {
		struct store_header h[2] = {{STR("tenant"), str_of(tenant_texts[t])}, {STR("region"), STR("r2")}};
		EXPECT_THESE(w, F(ANY, 3, .headers = h, .n_headers = 1), s, i % 4 == t);
		EXPECT_THESE(w, F(ANY, 3, .headers = h, .n_headers = 2), s, i % 4 == t && i % 5 == 2);
		EXPECT_THESE(w, F(DEAD_DEAD, 3, .headers = h, .n_headers = 2, .queue_id = w->q, .scan_limit = 2), s, i % 4 == t && i % 5 == 2);
		EXPECT_THESE(w, F(ANY, 3, .headers = h, .n_headers = 1, .error_type = STR("BadInput")), s, i % 4 == t && i % 3 == 1);
		EXPECT_THESE(w, F(ANY, 3, .headers = h, .n_headers = 1, .queue_id = 999), s, false);
	}
	struct store_header wrong[] = {{STR("tenant"), STR("acm")}, {STR("tenan"), STR("tacme")}, {STR("Tenant"), STR("acme")}, {STR("tenant"), STR("")}};
	for (size_t k = 0; k < ARRAY_LEN(wrong); k++)
		EXPECT_THESE(w, F(ANY, 3, .headers = &wrong[k], .n_headers = 1), s, false);
	struct store_header both[] = {{STR("tenant"), STR("acme")}, {STR("tenant"), str_of(tenant_texts[1])}};
	EXPECT_THESE(w, F(ANY, 3, .headers = both, .n_headers = 2), s, false);
	struct store_header many[FILTER_HEADERS_MAX + 1];
	for (size_t k = 0; k < ARRAY_LEN(many); k++)
		many[k] = both[0];
	EXPECT_THESE(w, F(ANY, 3, .headers = many, .n_headers = FILTER_HEADERS_MAX), s, i % 4 == 0);
	struct store_dead_filter f = F(ANY, 3, .headers = many, .n_headers = FILTER_HEADERS_MAX + 1);
	struct store_dead_page p;
	EXPECT(w, DLQ_BAD_REQUEST, w->ops->read_dead_list(w->r, &f, &w->a, &p, &w->err));
}

static void test_headers_follow_the_dead_letter(void **state)
{
	struct world *w = *state;
	struct store_header h = {STR("k"), STR("1")};
	struct store_delivery d;
	int64_t s[3], got[4];
	begin(w);
	for (int i = 0; i < 3; i++)
		s[i] = dead_with(w, "{\"k\":\"1\"}", "E", "x");
	OK(w, put_back(w, s[0], NULL, NULL));
	assert_true(claim_one(w, &d));
	kill_as(w, &d, 1, "w", ""); /* a second death: it is the newest now */
	OK(w, w->ops->discard_one(w->s, s[1], 0, STR("a"), STR("b"), &w->err));
	commit(w);
	assert_int_equal(list_seqs(w, F(ANY, 3, .headers = &h, .n_headers = 1), got, 4), 3);
	assert_true(got[0] == s[0] && got[1] == s[2] && got[2] == s[1]);
	assert_int_equal(list_seqs(w, F(DEAD_DEAD, 3, .headers = &h, .n_headers = 1), got, 4), 2);
	begin(w);
	OK(w, w->ops->restore_one(w->s, s[1], 0, STR("a"), STR("b"), &w->err));
	OK(w, w->ops->archive_one(w->s, s[2], &w->err));
	commit(w);
	assert_int_equal(list_seqs(w, F(DEAD_DEAD, 3, .headers = &h, .n_headers = 1), got, 4), 2);
	assert_true(got[0] == s[1] && got[1] == s[0]);
}

/* Numbers of dying leap at every start of the store: the index has them in many places. */
static void test_headers_far_apart(void **state)
{
	struct world *w = *state;
	struct store_header h = {STR("k"), STR("1")}, rare = {STR("rare"), STR("y")};
	int64_t s[N], got[N];
	for (int i = 0; i < N; i++) {
		begin(w);
		s[i] = dead_with(w, i == 3 ? "{\"k\":\"1\",\"rare\":\"y\"}" : i % 2 ? "{\"k\":\"1\"}" : "{\"k\":\"2\"}", "E", "x");
		commit(w);
		if (i % 10 == 9)
			world_reopen(w);
	}
	assert_true(read_dead(w, s[N - 1]).died_no > 500000);
	EXPECT_THESE(w, F(ANY, 3, .headers = &h, .n_headers = 1), s, i % 2 == 1);
	EXPECT_THESE(w, F(ANY, 7, .headers = &h, .n_headers = 1, .scan_limit = 2), s, i % 2 == 1);
	EXPECT_THESE(w, F(ANY, 3, .headers = &rare, .n_headers = 1), s, i == 3);
	EXPECT_THESE(w, F(ANY, 3, .headers = &rare, .n_headers = 1, .queue_id = w->q, .error_type = STR("E")), s, i == 3);
	assert_int_equal(list_seqs(w, F(ANY, 3, .headers = &rare, .n_headers = 1, .before_no = read_dead(w, s[3]).died_no), got, N), 0);
}

static void test_error_types_over_queues(void **state)
{
	struct world *w = *state;
	int64_t s[N], q = w->q, others[3], got[N];
	begin(w);
	for (int k = 0; k < 3; k++)
		others[k] = make_queue(w, k ? k > 1 ? "c" : "b" : "a", false);
	for (int i = 0; i < N; i++) {
		w->q = i % 4 == 3 ? q : others[i % 4];
		s[i] = dead_with(w, "", types[i % 3], "x");
	}
	w->q = q;
	commit(w);
	EXPECT_THESE(w, F(ANY, 3, .error_type = STR("Timeout")), s, i % 3 == 0);
	EXPECT_THESE(w, F(ANY, 3, .error_type = STR("Timeout"), .queue_id = others[1]), s, i % 3 == 0 && i % 4 == 1);
	EXPECT_THESE(w, F(ANY, 3, .error_type = STR("Time")), s, false);
	begin(w);
	for (int i = 0; i < N; i += 2)
		OK(w, w->ops->give_up_one(w->s, s[i], 0, STR("a"), STR("b"), &w->err));
	commit(w);
	EXPECT_THESE(w, F(DEAD_ARCHIVED, 3, .error_type = STR("Timeout")), s, i % 3 == 0 && i % 2 == 0);
	EXPECT_THESE(w, F(DEAD_ARCHIVED, 3, .queue_id = 0), s, i % 2 == 0);
	EXPECT_THESE(w, F(DEAD_ARCHIVED, 3, .queue_id = others[2]), s, i % 2 == 0 && i % 4 == 2);
	EXPECT_THESE(w, F(ANY, 3, .queue_id = others[2]), s, i % 4 == 2); /* any state, the archived ones, too */
	struct store_dead_filter f = F(ANY, 3, .queue_id = 0);
	f.reason = REASON_PERMANENT;
	EXPECT_THESE(w, f, s, true);
	f.reason = REASON_EXPIRED;
	EXPECT_THESE(w, f, s, false);
	begin(w);
	for (int i = 2; i < N; i += 4)
		OK(w, w->ops->archive_one(w->s, s[i], &w->err));
	OK(w, w->ops->queue_delete(w->s, others[2], &w->err));
	commit(w);
	assert_int_equal(list_seqs(w, F(ANY, 3, .error_type = STR("Timeout")), got, N), 15); /* the deleted queue has none left */
}

static void test_error_types_over_many_queues(void **state)
{
	struct world *w = *state;
	struct store_header h = {STR("k"), STR("1")};
	int64_t s[N], q = w->q;
	char name[16];
	begin(w);
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "many-%d", i);
		w->q = make_queue(w, name, false);
		if (i < N)
			s[i] = dead_with(w, i % 2 ? "{\"k\":\"1\"}" : "", types[i % 3], "x");
	}
	w->q = q;
	commit(w);
	EXPECT_THESE(w, F(ANY, 3, .error_type = STR("BadInput")), s, i % 3 == 1);
	EXPECT_THESE(w, F(DEAD_DEAD, 3, .error_type = STR("BadInput"), .headers = &h, .n_headers = 1), s, i % 3 == 1 && i % 2);
	EXPECT_THESE(w, F(ANY, 3, .error_type = STR("None")), s, false);
}

static void test_body_text(void **state)
{
	struct world *w = *state;
	struct store_dead_page p;
	int64_t s[N];
	begin(w);
	fill(w, s);
	commit(w);
	EXPECT_THESE(w, F(ANY, 3, .text = STR("true")), s, i % 2 == 1);
	EXPECT_THESE(w, F(ANY, 3, .text = STR("\"n\":7,")), s, i == 7);
	EXPECT_THESE(w, F(ANY, 3, .text = STR("{\"n\"")), s, true);
	EXPECT_THESE(w, F(ANY, 3, .text = STR("nowhere")), s, false);
	EXPECT_THESE(w, F(ANY, 3, .text = STR("false"), .error_type = STR("BadInput"), .queue_id = w->q), s, i % 2 == 0 && i % 3 == 1);
	/* The one to be delivered counts. */
	struct str edited = STR("edited to something");
	begin(w);
	OK(w, put_back(w, s[7], NULL, &edited));
	commit(w);
	EXPECT_THESE(w, F(ANY, 3, .text = STR("\"n\":7,")), s, false);
	EXPECT_THESE(w, F(ANY, 3, .text = STR("something")), s, i == 7);
	struct store_dead_filter f = F(ANY, 100, .with_body = true);
	OK(w, w->ops->read_dead_list(w->r, &f, &w->a, &p, &w->err));
	assert_int_equal(p.n, N);
	for (int i = 0; i < N; i++) {
		char body[40];
		snprintf(body, sizeof(body), "{\"n\":%d,\"odd\":%s}", N - 1 - i, (N - 1 - i) % 2 ? "true" : "false");
		assert_true(N - 1 - i == 7 ? str_eq(p.items[i].body, edited) : str_eqz(p.items[i].body, body));
	}
	f.with_body = false;
	OK(w, w->ops->read_dead_list(w->r, &f, &w->a, &p, &w->err));
	assert_true(p.n == N && p.items[0].body.n == 0);
}

static void test_a_step_is_bounded(void **state)
{
	struct world *w = *state;
	struct store_dead_page p;
	char body[1001];
	int64_t s[20];
	begin(w);
	memset(body, 'x', 1000);
	body[1000] = '\0';
	for (int i = 0; i < 20; i++)
		s[i] = dead_one(w, "", i == 3 ? "needle" : body);
	commit(w);
	struct store_dead_filter f = F(ANY, 10, .text = STR("needle"), .scan_limit = 4);
	OK(w, w->ops->read_dead_list(w->r, &f, &w->a, &p, &w->err));
	assert_true(p.n == 0 && p.scanned == 4 && p.next_no == read_dead(w, s[16]).died_no);
	f.before_no = p.next_no;
	OK(w, w->ops->read_dead_list(w->r, &f, &w->a, &p, &w->err));
	assert_true(p.n == 0 && p.scanned == 4 && p.next_no == read_dead(w, s[12]).died_no);
	f = F(ANY, 10, .text = STR("needle"), .scan_bytes = 2999);
	OK(w, w->ops->read_dead_list(w->r, &f, &w->a, &p, &w->err));
	assert_true(p.n == 0 && p.scanned == 2 && p.next_no == read_dead(w, s[18]).died_no);
	f.scan_bytes = 3000;
	OK(w, w->ops->read_dead_list(w->r, &f, &w->a, &p, &w->err));
	assert_int_equal(p.scanned, 3);
	f.scan_bytes = 1; /* one is always looked at */
	OK(w, w->ops->read_dead_list(w->r, &f, &w->a, &p, &w->err));
	assert_true(p.scanned == 1 && p.next_no == read_dead(w, s[19]).died_no);
	f = F(ANY, 10, .with_body = true, .scan_bytes = 2500);
	OK(w, w->ops->read_dead_list(w->r, &f, &w->a, &p, &w->err));
	assert_true(p.n == 2 && p.next_no == read_dead(w, s[18]).died_no);
	f = F(ANY, 10, .scan_bytes = 1); /* no bodies, no bytes */
	OK(w, w->ops->read_dead_list(w->r, &f, &w->a, &p, &w->err));
	assert_true(p.n == 10 && p.scanned == 10 && p.next_no);
	f = F(ANY, 1000, .queue_id = 0);
	OK(w, w->ops->read_dead_list(w->r, &f, &w->a, &p, &w->err));
	assert_true(p.n == 20 && p.scanned == 20 && p.next_no == 0);
	int64_t got[20];
	assert_int_equal(list_seqs(w, F(ANY, 3, .text = STR("needle"), .scan_bytes = 1), got, 20), 1);
	assert_int_equal(got[0], s[3]);
}

static void test_a_step_ends_in_time(void **state)
{
	struct world *w = *state;
	struct store_dead_page p;
	begin(w);
	for (int i = 0; i < 200; i++)
		dead_one(w, "", "x");
	commit(w);
	world_close(w);
	clock_free(w->clock);
	w->clock = clock_real_new();
	struct store_options o = {.dir = w->dir, .clock = w->clock, .no_sync = true};
	OK(w, w->ops->open(&o, &w->s, &w->err));
	OK(w, w->ops->reader_open(w->s, &w->r, &w->err));
	struct store_dead_filter f = F(ANY, 10, .text = STR("y"), .scan_us = 1);
	OK(w, w->ops->read_dead_list(w->r, &f, &w->a, &p, &w->err));
	assert_true(p.n == 0 && p.scanned >= 1 && p.scanned < 200 && p.next_no);
}

/* Wide or not, what is asked for leads, and not the queue: a page looks at what it gives. */
static void test_a_wide_group_leads(void **state)
{
	struct world *w = *state;
	struct store_group g;
	struct store_dead_page p;
	int64_t last[3];
	begin(w);
	for (int i = 0; i < 3000; i++) {
		int of = i % 5 == 0 ? 1 : i % 2 ? 0 : 2;
		last[of] = dead_of(w, 1 + of, "w", "");
	}
	commit(w);
	begin(w);
	OK(w, w->ops->group_get(w->s, read_dead(w, last[0]).group_fp, &w->a, &g, &w->err));
	g.merged_into = read_dead(w, last[1]).group_id;
	OK(w, w->ops->group_set(w->s, &g, &w->err));
	commit(w);
	struct store_dead_filter f = F(DEAD_DEAD, 50, .group_id = g.merged_into, .queue_id = w->q);
	OK(w, w->ops->read_dead_list(w->r, &f, &w->a, &p, &w->err));
	assert_int_equal(p.n, 50);
	assert_int_equal(p.scanned, 50);
}

static void test_of_a_redrive_and_of_a_group(void **state)
{
	struct world *w = *state;
	struct store_header h = {STR("tenant"), STR("acme")};
	struct store_redrive r = {.operator = STR("ann")};
	int64_t s[N], members[10], next[10], got[4];
	int n;
	begin(w);
	int64_t x = dead_of(w, 1, "w", ""), y = dead_of(w, 2, "w", "");
	fill(w, s);
	for (int i = 0; i < 10; i++)
		members[i] = s[i * 3];
	OK(w, w->ops->redrive_create(w->s, &r, members, 10, &w->err));
	OK(w, w->ops->redrive_next(w->s, r.n, 10, next, &n, &w->err));
	for (int i = 0; i < 10; i++)
		OK(w, put_back(w, members[i], &r, NULL));
	OK(w, w->ops->redrive_mark(w->s, r.n, 10, 0, REDRIVE_DONE, &w->err));
	commit(w);
	EXPECT_THESE(w, F(ANY, 3, .redrive_n = r.n), s, i < 30 && i % 3 == 0);
	EXPECT_THESE(w, F(ANY, 3, .redrive_n = r.n, .headers = &h, .n_headers = 1), s, i < 30 && i % 12 == 0);
	EXPECT_THESE(w, F(DEAD_DEAD, 3, .redrive_n = r.n), s, false);
	EXPECT_THESE(w, F(ANY, 3, .redrive_n = r.n + 1), s, false);
	EXPECT_THESE(w, F(DEAD_DEAD, 3, .headers = &h, .n_headers = 1), s, i % 4 == 0 && !(i < 30 && i % 3 == 0));
	int64_t g = read_dead(w, x).group_id;
	assert_int_equal(list_seqs(w, F(ANY, 3, .group_id = g, .error_type = STR("BadInput")), got, 4), 1);
	assert_int_equal(got[0], x);
	assert_int_equal(list_seqs(w, F(ANY, 3, .group_id = g, .error_type = STR("Timeout")), got, 4), 0);
	assert_int_equal(list_seqs(w, F(ANY, 3, .group_id = g, .headers = &h, .n_headers = 1), got, 4), 0);
	assert_int_equal(list_seqs(w, F(DEAD_DEAD, 3, .group_id = read_dead(w, y).group_id, .queue_id = w->q), got, 4), 1);
	assert_int_equal(got[0], y);
}

static void test_what_expires(void **state)
{
	struct world *w = *state;
	int64_t s[N], n;
	begin(w);
	for (int i = 0; i < N; i++) {
		s[i] = dead_one(w, "", "x"); /* kept for 100 s */
		commit(w);
		clock_advance(w->clock, 10);
		begin(w);
	}
	int64_t other = make_queue(w, "other", false);
	OK(w, w->ops->discard_one(w->s, s[0], 0, STR("a"), STR("b"), &w->err));
	commit(w);
	EXPECT_THESE(w, F(ANY, 3, .expires_before = T0 + 100000 + 100), s, i < 10);
	EXPECT_THESE(w, F(DEAD_DEAD, 3, .expires_before = T0 + 100000 + 101), s, i > 0 && i < 11);
	OK(w, w->ops->read_expiring(w->r, 0, T0 + 100000 + 100, 1000, &n, &w->err));
	assert_int_equal(n, 9); /* a discarded one is nobody's worry */
	OK(w, w->ops->read_expiring(w->r, w->q, T0 + 100000 + 100, 5, &n, &w->err));
	assert_int_equal(n, 5);
	OK(w, w->ops->read_expiring(w->r, other, T0 + 100000 + 100, 1000, &n, &w->err));
	assert_int_equal(n, 0);
	OK(w, w->ops->read_expiring(w->r, 0, T0, 1000, &n, &w->err));
	assert_int_equal(n, 0);
	/* Whatever its state is, the oldest comes first when retention is over. */
	int64_t due[N], next;
	int k;
	begin(w);
	OK(w, w->ops->give_up_one(w->s, s[2], 0, STR("a"), STR("b"), &w->err));
	OK(w, put_back(w, s[1], NULL, NULL));
	OK(w, w->ops->retention_due(w->s, T0 + 100000 + 40, 3, due, &k, &next, &w->err));
	assert_true(k == 3 && due[0] == s[0] && due[1] == s[2] && due[2] == s[3] && next == T0 + 100000 + 40);
	commit(w);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, world_new, world_free)
	const struct CMUnitTest tests[] = {
	    T(test_headers),
	    T(test_headers_follow_the_dead_letter),
	    T(test_headers_far_apart),
	    T(test_error_types_over_queues),
	    T(test_error_types_over_many_queues),
	    T(test_body_text),
	    T(test_a_step_is_bounded),
	    T(test_a_step_ends_in_time),
	    T(test_a_wide_group_leads),
	    T(test_of_a_redrive_and_of_a_group),
	    T(test_what_expires),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
