/* Queues, audit, tokens, notices, small facts, lists of redrives: of every back end. */
#include "lib_store.h"

static int64_t create(struct world *w, const char *name)
{
	int64_t id = 0;
	OK(w, w->ops->queue_create(w->s, str_of(name), STR("{}"), false, &id, &w->err));
	assert_true(id > 0);
	return id;
}

static struct store_queue read_queue(struct world *w, const char *name)
{
	struct store_queue q = {0};
	OK(w, w->ops->read_queue(w->r, str_of(name), &w->a, &q, &w->err));
	return q;
}

/* ---- queues ---- */

static void test_queue_refusals_leave_the_neighbours(void **state)
{
	struct world *w = *state;
	int64_t id = 0;
	begin(w);
	int64_t other = create(w, "other");
	EXPECT(w, DLQ_CONFLICT, w->ops->queue_create(w->s, STR("q"), STR("{}"), true, &id, &w->err));
	assert_non_null(strstr(w->err.detail, "\"q\""));
	assert_int_equal(id, 0);
	EXPECT(w, DLQ_CONFLICT, w->ops->queue_create(w->s, STR("other"), STR("{}"), false, &id, &w->err));
	EXPECT(w, DLQ_NOT_FOUND, w->ops->queue_update(w->s, other + 99, STR("{}"), &w->err));
	EXPECT(w, DLQ_NOT_FOUND, w->ops->queue_pause(w->s, other + 99, true, &w->err));
	EXPECT(w, DLQ_NOT_FOUND, w->ops->queue_delete(w->s, other + 99, &w->err));
	struct store_send m = {.body = STR("x")};
	EXPECT(w, DLQ_NOT_FOUND, w->ops->send(w->s, other + 99, 0, 0, &m, 1, &w->err));
	send_body(w, "in q");
	commit(w);
	assert_int_equal(read_queue(w, "q").counts.ready, 1);
	assert_int_equal(read_queue(w, "other").queue_id, other);
	EXPECT(w, DLQ_NOT_FOUND, w->ops->read_queue(w->r, STR("Q"), &w->a, &(struct store_queue){0}, &w->err));
	EXPECT(w, DLQ_NOT_FOUND, w->ops->read_queue(w->r, STR(""), &w->a, &(struct store_queue){0}, &w->err));
}

static void test_queue_update_and_pause_are_kept(void **state)
{
	struct world *w = *state;
	struct store_queue *all;
	int n;
	begin(w);
	OK(w, w->ops->queue_update(w->s, w->q, STR("{\"max_attempts\":7}"), &w->err));
	OK(w, w->ops->queue_pause(w->s, w->q, true, &w->err));
	commit(w);
	world_reopen(w);
	struct store_queue q = read_queue(w, "q");
	assert_true(q.paused && !q.ordered && str_eqz(q.config, "{\"max_attempts\":7}"));
	assert_int_equal(q.created_at_ms, T0);
	begin(w);
	OK(w, w->ops->queue_pause(w->s, w->q, false, &w->err));
	send_body(w, "not committed yet");
	OK(w, w->ops->queue_load(w->s, &w->a, &all, &n, &w->err));
	assert_int_equal(n, 1);
	assert_false(all[0].paused);
	assert_int_equal(all[0].counts.ready, 1); /* as it stands in the transaction */
	assert_true(read_queue(w, "q").paused);   /* readers see the last commit */
	commit(w);
	assert_false(read_queue(w, "q").paused);
}

static void test_queue_delete(void **state)
{
	struct world *w = *state;
	struct store_delivery d;
	begin(w);
	int64_t empty = create(w, "empty");
	send_body(w, "live");
	EXPECT(w, DLQ_CONFLICT, w->ops->queue_delete(w->s, w->q, &w->err));
	assert_true(claim_one(w, &d));
	EXPECT(w, DLQ_CONFLICT, w->ops->queue_delete(w->s, w->q, &w->err)); /* leased */
	OK(w, done(w, &d));
	int64_t seq = dead_one(w, "", "dead");
	EXPECT(w, DLQ_CONFLICT, w->ops->queue_delete(w->s, w->q, &w->err));
	OK(w, w->ops->discard_one(w->s, seq, 0, STR("ann"), STR("junk"), &w->err));
	OK(w, w->ops->queue_delete(w->s, w->q, &w->err));
	EXPECT(w, DLQ_NOT_FOUND, w->ops->queue_delete(w->s, w->q, &w->err));
	OK(w, w->ops->queue_delete(w->s, empty, &w->err));
	commit(w);
	EXPECT(w, DLQ_NOT_FOUND, w->ops->read_queue(w->r, STR("q"), &w->a, &(struct store_queue){0}, &w->err));
	struct store_dead dead = read_dead(w, seq); /* the record of the discard stays, and still names its queue */
	assert_int_equal(dead.state, DEAD_DISCARDED);
	assert_true(str_eqz(dead.queue, "q"));
	begin(w);
	int64_t again = create(w, "q"); /* the name is free, the number is not used again */
	assert_true(again != w->q && again != empty);
	commit(w);
	assert_int_equal(read_queue(w, "q").counts.sent, 0);
	world_reopen(w);
	assert_int_equal(read_queue(w, "q").queue_id, again);
}

static void test_queue_changes_are_rolled_back(void **state)
{
	struct world *w = *state;
	struct store_queue *all;
	int n;
	begin(w);
	int64_t id = create(w, "never");
	OK(w, w->ops->queue_delete(w->s, w->q, &w->err));
	w->ops->rollback(w->s);
	begin(w);
	EXPECT(w, DLQ_NOT_FOUND, w->ops->queue_pause(w->s, id, true, &w->err));
	send_body(w, "q is still there");
	OK(w, w->ops->queue_load(w->s, &w->a, &all, &n, &w->err));
	assert_int_equal(n, 1);
	assert_true(str_eqz(all[0].name, "q"));
	int64_t gone = create(w, "made and deleted");
	OK(w, w->ops->queue_delete(w->s, gone, &w->err));
	EXPECT(w, DLQ_NOT_FOUND, w->ops->queue_update(w->s, gone, STR("{}"), &w->err));
	commit(w);
	assert_int_equal(read_queue(w, "q").counts.ready, 1);
}

static void test_queues_are_paged_by_name(void **state)
{
	struct world *w = *state;
	struct store_queue *page;
	char name[16];
	struct str after = STR("");
	int n, seen = 0;
	begin(w);
	for (int i = 1100; i-- > 0;) {
		snprintf(name, sizeof(name), "a%04d", i);
		create(w, name);
	}
	commit(w);
	do {
		OK(w, w->ops->read_queues(w->r, after, 500, &w->a, &page, &n, &w->err));
		for (int i = 0; i < n && seen < 1100; i++, seen++) {
			snprintf(name, sizeof(name), "a%04d", seen);
			assert_true(str_eqz(page[i].name, name));
		}
		if (n)
			after = page[n - 1].name;
	} while (n == 500);
	assert_int_equal(seen, 1100);
	assert_int_equal(n, 101);
	assert_true(str_eqz(after, "q"));
	OK(w, w->ops->read_queues(w->r, STR("a1099"), 10, &w->a, &page, &n, &w->err));
	assert_int_equal(n, 1);
	OK(w, w->ops->read_queues(w->r, STR("q"), 10, &w->a, &page, &n, &w->err));
	assert_int_equal(n, 0);
	/* No limit is none at all: below one is one, above the maximum is the maximum. */
	OK(w, w->ops->read_queues(w->r, STR(""), -1, &w->a, &page, &n, &w->err));
	assert_int_equal(n, 1);
	OK(w, w->ops->read_queues(w->r, STR(""), 1001, &w->a, &page, &n, &w->err));
	assert_int_equal(n, 1000);
}

/* ---- audit ---- */

static void test_audit_is_kept_and_paged(void **state)
{
	struct world *w = *state;
	struct store_audit *page, full = {.at_ms = T0 + 5,
	                                  .operator = STR("ann"),
	                                  .action = STR("redrive.start"),
	                                  .queue = STR("q"),
	                                  .target = STR("t"),
	                                  .reason = STR("because"),
	                                  .outcome = STR("ok"),
	                                  .detail = STR("{\"n\":1}")};
	int64_t before = 0, last = INT64_MAX;
	int n, seen = 0;
	begin(w);
	OK(w, w->ops->audit_add(w->s, &full, &w->err));
	for (int i = 0; i < 1010; i++) {
		struct store_audit a = {
		    .at_ms = T0 + i, .operator = STR("bob"), .action = STR("message.send"), .outcome = STR("forbidden")};
		OK(w, w->ops->audit_add(w->s, &a, &w->err));
	}
	commit(w);
	begin(w);
	OK(w, w->ops->audit_add(w->s, &full, &w->err));
	w->ops->rollback(w->s);
	world_reopen(w);
	do {
		OK(w, w->ops->read_audit(w->r, before, 100, &w->a, &page, &n, &w->err));
		for (int i = 0; i < n; i++, seen++) {
			assert_true(page[i].n < last);
			last = before = page[i].n;
		}
	} while (n == 100);
	assert_int_equal(seen, 1011);
	const struct store_audit *a = &page[n - 1]; /* the oldest */
	assert_true(str_eqz(a->operator, "ann") && str_eqz(a->action, "redrive.start") && str_eqz(a->queue, "q") &&
	            str_eqz(a->target, "t"));
	assert_true(str_eqz(a->reason, "because") && str_eqz(a->outcome, "ok") && str_eqz(a->detail, "{\"n\":1}"));
	assert_int_equal(a->at_ms, T0 + 5);
	assert_int_equal(page[0].queue.n + page[0].target.n + page[0].reason.n + page[0].detail.n, 0);
	OK(w, w->ops->read_audit(w->r, last, 100, &w->a, &page, &n, &w->err));
	assert_int_equal(n, 0);
	OK(w, w->ops->read_audit(w->r, 0, -1, &w->a, &page, &n, &w->err));
	assert_int_equal(n, 1);
	OK(w, w->ops->read_audit(w->r, 0, 5000, &w->a, &page, &n, &w->err));
	assert_int_equal(n, 1000);
}

/* ---- tokens ---- */

static void test_tokens(void **state)
{
	struct world *w = *state;
	struct store_token t = {.name = STR("ci"),
	                        .role = ROLE_OPERATOR,
	                        .queues = STR("[\"q\"]"),
	                        .created_at_ms = T0,
	                        .expires_at_ms = T0 + 9},
	                   *all;
	int64_t first = 0, second = 0, refused = 0;
	int n;
	for (int i = 0; i < 32; i++)
		t.hash[i] = (uint8_t)(i == 5 ? 0 : 255 - i);
	begin(w);
	EXPECT(w, DLQ_NOT_FOUND, w->ops->token_revoke(w->s, STR("ci"), &w->err));
	OK(w, w->ops->token_add(w->s, &t, &first, &w->err));
	EXPECT(w, DLQ_CONFLICT, w->ops->token_add(w->s, &t, &refused, &w->err));
	assert_non_null(strstr(w->err.detail, "\"ci\""));
	assert_int_equal(refused, 0);
	OK(w, w->ops->token_revoke(w->s, STR("ci"), &w->err));
	EXPECT(w, DLQ_NOT_FOUND, w->ops->token_revoke(w->s, STR("ci"), &w->err));
	t.queues = STR("");
	t.expires_at_ms = 0;
	t.role = ROLE_ADMIN;
	OK(w, w->ops->token_add(w->s, &t, &second, &w->err)); /* the name of a revoked one is free */
	assert_true(second > first);
	commit(w);
	begin(w);
	OK(w, w->ops->token_revoke(w->s, STR("ci"), &w->err));
	w->ops->rollback(w->s);
	world_reopen(w);
	OK(w, w->ops->token_load(w->s, &w->a, &all, &n, &w->err)); /* outside a transaction, as at open */
	assert_int_equal(n, 2);
	assert_int_equal(all[0].token_id, first);
	assert_int_equal(all[0].revoked_at_ms, T0);
	assert_int_equal(all[0].expires_at_ms, T0 + 9);
	assert_true(str_eqz(all[0].queues, "[\"q\"]") && all[0].role == ROLE_OPERATOR);
	assert_memory_equal(all[0].hash, t.hash, 32);
	assert_int_equal(all[1].token_id, second);
	assert_true(str_eqz(all[1].name, "ci") && all[1].role == ROLE_ADMIN && all[1].queues.n == 0);
	assert_int_equal(all[1].revoked_at_ms + all[1].expires_at_ms, 0);
	begin(w); /* the connection is of use after all that */
	OK(w, w->ops->token_revoke(w->s, STR("ci"), &w->err));
	commit(w);
}

/* ---- notices ---- */

static void test_notices(void **state)
{
	struct world *w = *state;
	struct store_notice got[4];
	int64_t seq[3], next, now = T0 + 10;
	int n;
	begin(w);
	for (int i = 0; i < 3; i++)
		seq[i] = dead_one(w, "", "x"); /* owes one notice each */
	commit(w);
	world_reopen(w);
	begin(w);
	OK(w, w->ops->notice_due(w->s, now, 2, &w->a, got, &n, &next, &w->err));
	assert_int_equal(n, 2);
	assert_true(next <= now); /* the third is due, too */
	assert_int_equal(got[0].seq, seq[0]);
	assert_int_equal(got[1].seq, seq[1]);
	assert_true(got[0].died_no == read_dead(w, seq[0]).died_no && got[0].tries == 0 && got[0].last_error.n == 0);
	OK(w, w->ops->notice_done(w->s, got[0].n, &w->err));
	OK(w, w->ops->notice_later(w->s, got[1].n, now + 1, STR("refused"), &w->err));
	OK(w, w->ops->notice_due(w->s, now, 4, &w->a, got, &n, &next, &w->err));
	assert_int_equal(n, 1);
	assert_int_equal(got[0].seq, seq[2]);
	assert_int_equal(next, now + 1);
	OK(w, w->ops->notice_done(w->s, got[0].n, &w->err));
	OK(w, w->ops->notice_due(w->s, now, 4, &w->a, got, &n, &next, &w->err));
	assert_int_equal(n, 0);
	assert_int_equal(next, now + 1);
	commit(w);
	world_reopen(w);
	begin(w);
	OK(w, w->ops->notice_due(w->s, now + 1, 4, &w->a, got, &n, &next, &w->err));
	assert_int_equal(n, 1);
	assert_int_equal(got[0].seq, seq[1]);
	assert_int_equal(got[0].tries, 1);
	assert_true(str_eqz(got[0].last_error, "refused"));
	assert_int_equal(next, INT64_MAX);
	OK(w, w->ops->notice_done(w->s, got[0].n, &w->err));
	OK(w, w->ops->notice_done(w->s, got[0].n, &w->err)); /* told twice is done all the same */
	OK(w, w->ops->notice_due(w->s, INT64_MAX, 4, &w->a, got, &n, &next, &w->err));
	assert_int_equal(n, 0);
	assert_int_equal(next, INT64_MAX);
	commit(w);
}

/* ---- small facts ---- */

static void expect_meta(struct world *w, const char *name, struct str want)
{
	struct str v;
	OK(w, w->ops->meta_get(w->s, name, &w->a, &v, &w->err));
	assert_true(str_eq(v, want));
}

static void test_meta(void **state)
{
	struct world *w = *state;
	struct str binary = {"a\0b", 3};
	int64_t before = w->ops->high_water_ms(w->s);
	expect_meta(w, "cursor", STR(""));
	begin(w);
	OK(w, w->ops->meta_set(w->s, "cursor", binary, &w->err));
	OK(w, w->ops->meta_set(w->s, "other", STR("o"), &w->err));
	OK(w, w->ops->meta_set(w->s, "high_water", STR("9"), &w->err)); /* the store's own facts are apart */
	OK(w, w->ops->meta_set(w->s, "next_seq", STR("1"), &w->err));
	commit(w);
	begin(w);
	OK(w, w->ops->meta_set(w->s, "cursor", STR("never"), &w->err));
	expect_meta(w, "cursor", STR("never"));
	w->ops->rollback(w->s);
	world_reopen(w);
	expect_meta(w, "cursor", binary);
	expect_meta(w, "high_water", STR("9"));
	assert_true(w->ops->high_water_ms(w->s) >= T0 && w->ops->high_water_ms(w->s) >= before);
	begin(w);
	OK(w, w->ops->meta_set(w->s, "cursor", STR(""), &w->err));
	send_body(w, "numbers go on");
	commit(w);
	expect_meta(w, "cursor", STR(""));
	expect_meta(w, "other", STR("o"));
}

/* ---- redrives ---- */

static void test_redrives_are_paged(void **state)
{
	struct world *w = *state;
	struct store_redrive *page, one;
	int64_t before = 0, last = INT64_MAX, newest = 0;
	int n, seen = 0;
	OK(w, w->ops->read_redrives(w->r, 0, 10, &w->a, &page, &n, &w->err));
	assert_int_equal(n, 0);
	EXPECT(w, DLQ_NOT_FOUND, w->ops->read_redrive(w->r, 1, &w->a, &one, &w->err));
	begin(w);
	for (int i = 0; i < 1005; i++) {
		struct store_redrive r = {
		    .queue_id = w->q, .queue = STR("q"), .operator = STR("ann"), .reason = STR("fixed")};
		OK(w, w->ops->redrive_create(w->s, &r, NULL, 0, &w->err));
		OK(w, w->ops->redrive_mark(w->s, r.n, 0, 0, i % 2 ? REDRIVE_DONE : REDRIVE_CANCELLED, &w->err));
		newest = r.n;
	}
	EXPECT(w, DLQ_NOT_FOUND, w->ops->redrive_mark(w->s, newest + 1, 0, 0, REDRIVE_DONE, &w->err));
	commit(w);
	do {
		OK(w, w->ops->read_redrives(w->r, before, 200, &w->a, &page, &n, &w->err));
		for (int i = 0; i < n; i++, seen++) {
			assert_true(page[i].n < last);
			last = before = page[i].n;
		}
	} while (n == 200);
	assert_int_equal(seen, 1005);
	assert_int_equal(page[n - 1].state, REDRIVE_CANCELLED);
	OK(w, w->ops->read_redrive(w->r, newest, &w->a, &one, &w->err));
	int64_t number;
	OK(w, store_id_seq(str_of(one.redrive_id), &number, &w->err));
	assert_int_equal(number, newest);
	assert_true(str_eqz(one.queue, "q") && str_eqz(one.operator, "ann") && str_eqz(one.reason, "fixed"));
	assert_int_equal(one.state, REDRIVE_CANCELLED);
	assert_int_equal(one.ended_at_ms, T0);
	EXPECT(w, DLQ_NOT_FOUND, w->ops->read_redrive(w->r, newest + 1, &w->a, &one, &w->err));
	OK(w, w->ops->read_redrives(w->r, 0, 0, &w->a, &page, &n, &w->err));
	assert_int_equal(n, 1);
	OK(w, w->ops->read_redrives(w->r, 0, 5000, &w->a, &page, &n, &w->err));
	assert_int_equal(n, 1000);
}

int main(void)
{
#define WITH_STORE(f) cmocka_unit_test_setup_teardown(f, world_new, world_free)
	const struct CMUnitTest tests[] = {
	    WITH_STORE(test_queue_refusals_leave_the_neighbours),
	    WITH_STORE(test_queue_update_and_pause_are_kept),
	    WITH_STORE(test_queue_delete),
	    WITH_STORE(test_queue_changes_are_rolled_back),
	    WITH_STORE(test_queues_are_paged_by_name),
	    WITH_STORE(test_audit_is_kept_and_paged),
	    WITH_STORE(test_tokens),
	    WITH_STORE(test_notices),
	    WITH_STORE(test_meta),
	    WITH_STORE(test_redrives_are_paged),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
