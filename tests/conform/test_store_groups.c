/* Groups: counts, status, merging, lists, histories, workers; redrives of a group, the ledger and the audit chain. */
#include "core/audit_chain.h"
#include "lib_store.h"

#define MINUTE 60000
#define HOUR 3600000

static struct store_group group(struct world *w, uint8_t fp)
{
	struct store_group g = {0};
	const uint8_t key[16] = {fp, 1, 2};
	OK(w, w->ops->read_group(w->r, key, &w->a, &g, &w->err));
	return g;
}

static struct store_group group_tx(struct world *w, uint8_t fp)
{
	struct store_group g = {0};
	const uint8_t key[16] = {fp, 1, 2};
	OK(w, w->ops->group_get(w->s, key, &w->a, &g, &w->err));
	return g;
}

static enum dlq_code merge(struct world *w, uint8_t fp, uint8_t into)
{
	struct store_group g = group_tx(w, fp);
	g.merged_into = into ? group_tx(w, into).group_id : 0;
	return w->ops->group_set(w->s, &g, &w->err);
}

static void set_status(struct world *w, uint8_t fp, enum group_status s, int64_t until, int64_t deaths)
{
	struct store_group g = group_tx(w, fp);
	g.status = s;
	g.muted_until_ms = until;
	g.muted_deaths = deaths;
	OK(w, w->ops->group_set(w->s, &g, &w->err));
}

static enum dlq_code redrive(struct world *w, int64_t seq)
{
	return put_back(w, seq, NULL, NULL);
}

static enum dlq_code retry_as(struct world *w, const struct store_delivery *d, uint8_t fp)
{
	struct store_lease l;
	struct store_group_key key = {.fp = {fp, 1, 2}, .version = 3, .error_type = STR("T"), .normal = STR("slow")};
	struct store_attempt at = {.group = &key, .n = d->attempts + 1, .redrive = d->redrives, .at_ms = clock_wall_ms(w->clock),
	                           .outcome = 1, .worker = STR("w1"), .exit_code = -1};
	OK(w, w->ops->lease_get(w->s, w->q, d->seq, d->nonce, &w->a, &l, &w->err));
	return w->ops->retry(w->s, &l, &at, 0, clock_now_ms(w->clock), 0, &w->err);
}

static void test_a_group_is_counted(void **state)
{
	struct world *w = *state;
	struct store_delivery d;
	struct store_attempt *at;
	int n;
	begin(w);
	int64_t a = dead_of(w, 1, "w1", "1.0"), b = dead_of(w, 1, "w1", "1.0"), c = dead_of(w, 1, "w2", "1.1");
	dead_of(w, 2, "w1", "1.0");
	dead_one(w, "", "no group");
	send_body(w, "heals");
	assert_true(claim_one(w, &d));
	OK(w, retry_as(w, &d, 1));
	assert_true(claim_one(w, &d));
	OK(w, done(w, &d));
	commit(w);
	struct store_group g = group(w, 1);
	assert_int_equal(g.dead, 3);
	assert_int_equal(g.deaths, 3);
	assert_int_equal(g.failures, 4);
	assert_int_equal(g.recovered, 1);
	assert_int_equal(g.status, GROUP_NEW);
	assert_int_equal(g.version, 3);
	assert_int_equal(g.rules, 5);
	assert_int_equal(g.first_seen_ms, T0);
	assert_true(str_eqz(g.queue, "q") && str_eqz(g.normal, "no such order <n>") && str_eqz(g.sample, "no such order 7"));
	world_reopen(w);
	begin(w);
	OK(w, redrive(w, a));
	OK(w, redrive(w, b));
	assert_int_equal(group_tx(w, 1).redriving, 2);
	assert_true(claim_one(w, &d) && d.seq == a);
	OK(w, done(w, &d));
	assert_true(claim_one(w, &d) && d.seq == b);
	kill_as(w, &d, 2, "w3", ""); /* dies of something else now */
	OK(w, w->ops->discard_one(w->s, c, 0, STR("ann"), STR("junk"), &w->err));
	OK(w, w->ops->archive_one(w->s, a, &w->err));
	commit(w);
	g = group(w, 1);
	assert_int_equal(g.dead, 0);
	assert_int_equal(g.redriving, 0);
	assert_int_equal(g.redriven, 1);
	assert_int_equal(g.failed_again, 1);
	assert_int_equal(g.discarded, 1);
	assert_int_equal(g.archived, 1);
	assert_int_equal(group(w, 2).dead, 2);
	assert_int_equal(read_dead(w, b).group_id, group(w, 2).group_id);
	assert_int_equal(read_dead(w, b).group_fp[0], 2);
	OK(w, w->ops->read_attempts(w->r, c, 10, &w->a, &at, &n, &w->err));
	assert_true(n == 1 && str_eqz(at[0].worker_version, "1.1"));
	struct store_group none;
	const uint8_t unknown[16] = {99};
	EXPECT(w, DLQ_NOT_FOUND, w->ops->read_group(w->r, unknown, &w->a, &none, &w->err));
	begin(w);
	dead_of(w, 3, "w", "");
	w->ops->rollback(w->s);
	const uint8_t third[16] = {3, 1, 2};
	EXPECT(w, DLQ_NOT_FOUND, w->ops->read_group(w->r, third, &w->a, &none, &w->err));
	begin(w);
	dead_of(w, 3, "w", ""); /* the same again after the rollback */
	commit(w);
	assert_int_equal(group(w, 3).dead, 1);
}

static void test_status(void **state)
{
	struct world *w = *state;
	begin(w);
	dead_of(w, 1, "w", "");
	set_status(w, 1, GROUP_ACKNOWLEDGED, 0, 0);
	dead_of(w, 1, "w", "");
	assert_int_equal(group_tx(w, 1).status, GROUP_ACKNOWLEDGED);
	set_status(w, 1, GROUP_RESOLVED, 0, 0);
	dead_of(w, 1, "w", "");
	assert_int_equal(group_tx(w, 1).status, GROUP_REGRESSED);
	set_status(w, 1, GROUP_MUTED, 0, 5);
	dead_of(w, 1, "w", "");
	assert_int_equal(group_tx(w, 1).status, GROUP_MUTED);
	dead_of(w, 1, "w", "");
	assert_int_equal(group_tx(w, 1).status, GROUP_NEW);
	set_status(w, 1, GROUP_MUTED, T0 + 1000, 0);
	struct store_group g = group_tx(w, 1);
	g.note = STR("ask the shop");
	g.owner = STR("ann");
	OK(w, w->ops->group_set(w->s, &g, &w->err));
	commit(w);
	assert_int_equal(group(w, 1).status, GROUP_MUTED);
	world_reopen(w);
	g = group(w, 1);
	assert_true(g.muted_until_ms == T0 + 1000 && str_eqz(g.note, "ask the shop") && str_eqz(g.owner, "ann"));
	clock_advance(w->clock, 1000);
	assert_int_equal(group(w, 1).status, GROUP_NEW); /* over, though nothing failed */
	begin(w);
	dead_of(w, 1, "w", "");
	commit(w);
	assert_int_equal(group(w, 1).status, GROUP_NEW);
	g.group_id = 9999;
	begin(w);
	EXPECT(w, DLQ_NOT_FOUND, w->ops->group_set(w->s, &g, &w->err));
	commit(w);
}

static int list_group(struct world *w, int64_t group_id, int state, int limit, int64_t *seqs)
{
	struct store_dead_filter f = {.group_id = group_id, .state = state, .reason = -1, .limit = limit};
	struct store_dead_page p;
	int64_t last = INT64_MAX;
	int total = 0;
	do {
		OK(w, w->ops->read_dead_list(w->r, &f, &w->a, &p, &w->err));
		for (int i = 0; i < p.n; i++) {
			assert_true(p.items[i].died_no < last);
			last = p.items[i].died_no;
			seqs[total++] = p.items[i].seq;
		}
		f.before_no = p.next_no;
	} while (p.next_no);
	return total;
}

static void test_merge_and_split(void **state)
{
	struct world *w = *state;
	int64_t seqs[200];
	begin(w);
	for (int i = 0; i < 12; i++)
		dead_of(w, (uint8_t)(1 + i % 3), "w", "");
	EXPECT(w, DLQ_CONFLICT, merge(w, 1, 1));
	OK(w, merge(w, 2, 1));
	OK(w, merge(w, 2, 1)); /* it is so already */
	EXPECT(w, DLQ_CONFLICT, merge(w, 3, 2));
	EXPECT(w, DLQ_CONFLICT, merge(w, 1, 3));
	set_status(w, 1, GROUP_RESOLVED, 0, 0);
	dead_of(w, 2, "w", ""); /* one merged into it fails */
	commit(w);
	struct store_group g = group(w, 1), *merged;
	int n;
	assert_int_equal(g.dead, 9);
	assert_int_equal(g.merged, 1);
	assert_int_equal(g.status, GROUP_REGRESSED);
	assert_int_equal(group(w, 2).merged_into, g.group_id);
	OK(w, w->ops->read_group_merged(w->r, g.group_id, &w->a, &merged, &n, &w->err));
	assert_true(n == 1 && merged[0].dead == 5);
	assert_int_equal(list_group(w, g.group_id, DEAD_DEAD, 2, seqs), 9);
	assert_int_equal(list_group(w, g.group_id, -1, 4, seqs), 9);
	assert_int_equal(list_group(w, g.group_id, DEAD_REDRIVEN, 4, seqs), 0);
	assert_int_equal(list_group(w, group(w, 2).group_id, -1, 100, seqs), 5);
	struct store_group_filter f = {.limit = 10};
	struct store_group_page p;
	OK(w, w->ops->read_groups(w->r, &f, &w->a, &p, &w->err));
	assert_true(p.n == 2 && p.items[0].fp[0] == 1 && p.items[0].dead == 9); /* its member failed last */
	world_reopen(w);
	begin(w);
	OK(w, merge(w, 2, 0));
	commit(w);
	assert_int_equal(group(w, 1).dead, 4);
	assert_int_equal(group(w, 1).merged, 0);
	assert_int_equal(list_group(w, g.group_id, -1, 3, seqs), 4);
	begin(w);
	for (int i = 0; i < GROUP_MERGED_MAX + 1; i++) {
		dead_of(w, (uint8_t)(10 + i), "w", "");
		EXPECT(w, i < GROUP_MERGED_MAX ? DLQ_OK : DLQ_CONFLICT, merge(w, (uint8_t)(10 + i), 1));
	}
	int64_t other;
	OK(w, w->ops->queue_create(w->s, STR("other"), STR("{}"), false, &other, &w->err));
	int64_t q = w->q;
	w->q = other;
	dead_of(w, 200, "w", "");
	w->q = q;
	EXPECT(w, DLQ_CONFLICT, merge(w, 200, 3));
	commit(w);
	assert_int_equal(group(w, 1).dead, 104);
	assert_int_equal(list_group(w, g.group_id, DEAD_DEAD, 30, seqs), 104);
}

static void test_lists(void **state)
{
	struct world *w = *state;
	struct store_group_page p;
	bool seen[30] = {false};
	begin(w);
	for (int i = 0; i < 60; i++)
		dead_of(w, (uint8_t)(1 + i % 30), "w", "");
	set_status(w, 7, GROUP_RESOLVED, 0, 0);
	set_status(w, 8, GROUP_ACKNOWLEDGED, 0, 0);
	commit(w);
	struct store_group_filter f = {.limit = 7};
	int64_t last = INT64_MAX;
	int total = 0;
	do {
		OK(w, w->ops->read_groups(w->r, &f, &w->a, &p, &w->err));
		for (int i = 0; i < p.n; i++, total++) {
			assert_true(p.items[i].last_no < last && !seen[p.items[i].fp[0] - 1]);
			seen[p.items[i].fp[0] - 1] = true;
			last = p.items[i].last_no;
		}
		f.before_no = p.next_no;
	} while (p.next_no);
	assert_int_equal(total, 30);
	f = (struct store_group_filter){.limit = 100, .queue_id = w->q, .statuses = 1u << GROUP_RESOLVED | 1u << GROUP_ACKNOWLEDGED};
	OK(w, w->ops->read_groups(w->r, &f, &w->a, &p, &w->err));
	assert_int_equal(p.n, 2);
	f.queue_id = 999;
	OK(w, w->ops->read_groups(w->r, &f, &w->a, &p, &w->err));
	assert_int_equal(p.n, 0);
	f = (struct store_group_filter){.limit = 100, .with_dead = true};
	OK(w, w->ops->read_groups(w->r, &f, &w->a, &p, &w->err));
	int with = p.n;
	struct store_dead_filter df = {.group_id = group(w, 9).group_id, .state = DEAD_DEAD, .reason = -1, .limit = 10};
	struct store_dead_page dp;
	OK(w, w->ops->read_dead_list(w->r, &df, &w->a, &dp, &w->err));
	assert_int_equal(dp.n, 2);
	begin(w);
	for (int i = 0; i < dp.n; i++)
		OK(w, w->ops->discard_one(w->s, dp.items[i].seq, 0, STR("a"), STR("b"), &w->err));
	commit(w);
	OK(w, w->ops->read_groups(w->r, &f, &w->a, &p, &w->err));
	assert_int_equal(p.n, with - 1);
}

static int64_t failures_of(struct world *w, int64_t group_id, int64_t step, int64_t from, int64_t to, int *n, int64_t *done_sum)
{
	struct store_bucket *b;
	int64_t sum = 0;
	*done_sum = 0;
	OK(w, w->ops->read_buckets(w->r, w->q, group_id, step, from, to, &w->a, &b, n, &w->err));
	for (int i = 0; i < *n; i++) {
		assert_true(b[i].at_ms % step == 0 && b[i].at_ms >= from && b[i].at_ms < to);
		sum += b[i].failures;
		*done_sum += b[i].done;
	}
	return sum;
}

static void test_histories(void **state)
{
	struct world *w = *state;
	struct store_delivery d;
	int64_t ok, start = T0 - T0 % HOUR;
	int n;
	for (int i = 0; i < 3; i++) {
		begin(w);
		dead_of(w, 1, "w", "");
		dead_of(w, 2, "w", "");
		send_body(w, "fine");
		assert_true(claim_one(w, &d));
		OK(w, done(w, &d));
		commit(w);
		clock_advance(w->clock, MINUTE);
	}
	int64_t g = group(w, 1).group_id;
	assert_int_equal(failures_of(w, g, MINUTE, start, start + 2 * HOUR, &n, &ok), 3);
	assert_int_equal(n, 3);
	assert_int_equal(failures_of(w, 0, MINUTE, start, start + 2 * HOUR, &n, &ok), 6);
	assert_int_equal(ok, 3);
	assert_int_equal(failures_of(w, 0, HOUR, start, start + 2 * HOUR, &n, &ok), 6);
	begin(w);
	OK(w, merge(w, 2, 1));
	commit(w);
	assert_int_equal(failures_of(w, g, HOUR, start, start + 2 * HOUR, &n, &ok), 6);
	clock_advance(w->clock, 49 * (int64_t)HOUR);
	begin(w);
	dead_of(w, 1, "w", "");
	commit(w);
	assert_int_equal(failures_of(w, g, MINUTE, start, start + 2 * HOUR, &n, &ok), 0); /* past 48 h */
	assert_int_equal(failures_of(w, g, HOUR, start, start + 2 * HOUR, &n, &ok), 6);
	clock_advance(w->clock, 35 * 24 * (int64_t)HOUR);
	begin(w);
	dead_of(w, 1, "w", "");
	commit(w);
	assert_int_equal(failures_of(w, g, HOUR, start, start + 2 * HOUR, &n, &ok), 0); /* past 35 d */
	struct store_bucket *b;
	EXPECT(w, DLQ_BAD_REQUEST, w->ops->read_buckets(w->r, w->q, g, 7, 0, 1, &w->a, &b, &n, &w->err));
}

static void test_workers_have_a_maximum(void **state)
{
	struct world *w = *state;
	struct store_group_worker *list;
	char name[16];
	int n;
	int64_t sum = 0;
	for (int round = 0; round < 2; round++) {
		begin(w);
		for (int i = 0; i < GROUP_WORKERS_MAX + 20; i++) {
			snprintf(name, sizeof(name), "w%d", i);
			dead_of(w, 1, name, "2.0");
		}
		commit(w);
	}
	OK(w, w->ops->read_group_workers(w->r, group(w, 1).group_id, &w->a, &list, &n, &w->err));
	assert_int_equal(n, GROUP_WORKERS_MAX + 1);
	assert_true(str_eqz(list[0].worker, "(others)") && list[0].failures == 40);
	for (int i = 0; i < n; i++)
		sum += list[i].failures;
	assert_int_equal(sum, 2 * (GROUP_WORKERS_MAX + 20));
	assert_true(list[1].failures == 2 && str_eqz(list[1].version, "2.0"));
}

static void send_back(struct world *w, const struct store_redrive *r, const int64_t *seqs, int n)
{
	for (int i = 0; i < n; i++)
		OK(w, put_back(w, seqs[i], r, NULL));
	OK(w, w->ops->redrive_mark(w->s, r->n, n, 0, r->state, &w->err));
}

static void test_redrive_of_a_group(void **state)
{
	struct world *w = *state;
	struct store_delivery d;
	struct store_redrive_item *items;
	int64_t in[8], out[2], got[10], next;
	int n;
	begin(w);
	for (int i = 0; i < 8; i++) {
		in[i] = dead_of(w, (uint8_t)(1 + i % 2), "w", "");
		if (i < 2)
			out[i] = dead_of(w, 5, "w", "");
	}
	OK(w, merge(w, 2, 1));
	struct store_redrive r = {.group_id = group_tx(w, 1).group_id, .queue = STR("q"), .operator = STR("ann"),
	                          .guard = {.first = 2, .canary_wait_ms = 5000, .rate = 1.5, .stop_count = 3, .stop_percent = 12.5}};
	OK(w, w->ops->redrive_create(w->s, &r, NULL, 0, &w->err));
	assert_int_equal(r.total, 8);
	assert_int_equal(r.group_fp[0], 1);
	EXPECT(w, DLQ_IN_REDRIVE, redrive(w, in[3]));
	struct store_redrive twice = {.group_id = r.group_id}, whole = {.queue_id = w->q, .queue = STR("q")}, of2 = {.group_id = group_tx(w, 2).group_id};
	EXPECT(w, DLQ_IN_REDRIVE, w->ops->redrive_create(w->s, &twice, NULL, 0, &w->err));
	EXPECT(w, DLQ_IN_REDRIVE, w->ops->redrive_create(w->s, &of2, NULL, 0, &w->err));
	EXPECT(w, DLQ_IN_REDRIVE, w->ops->redrive_create(w->s, &whole, NULL, 0, &w->err));
	int64_t late = dead_of(w, 1, "w", ""); /* no member */
	OK(w, redrive(w, late));
	OK(w, redrive(w, out[0]));
	OK(w, merge(w, 5, 1)); /* nor are those of a group that joins later */
	OK(w, w->ops->redrive_next(w->s, r.n, 3, got, &n, &w->err));
	assert_true(n == 3 && got[0] == in[0] && got[1] == in[1] && got[2] == in[2]);
	send_back(w, &r, got, 2); /* the third is refused by whoever asked: skipped */
	OK(w, w->ops->redrive_mark(w->s, r.n, 0, 1, REDRIVE_RUNNING, &w->err));
	while (claim_one(w, &d)) {
		if (d.seq == in[1])
			kill_as(w, &d, 1, "w", "");
		else
			OK(w, done(w, &d));
	}
	struct store_redrive halted = r;
	halted.state = REDRIVE_HALTED;
	halted.halted_why = STR("2 of 2 failed again");
	halted.canary_until = 77;
	halted.cursor_no = 0; /* an older cursor changes nothing */
	OK(w, w->ops->redrive_state(w->s, &halted, &w->err));
	commit(w);
	world_reopen(w);
	struct store_redrive now, *list;
	OK(w, w->ops->read_redrive(w->r, r.n, &w->a, &now, &w->err));
	assert_int_equal(now.state, REDRIVE_HALTED);
	assert_int_equal(now.ended_at_ms, 0);
	assert_true(str_eqz(now.halted_why, "2 of 2 failed again") && now.canary_until == 77 && now.guard.first == 2 &&
	            now.guard.canary_wait_ms == 5000 && now.guard.rate > 1.4 && now.guard.rate < 1.6 &&
	            now.guard.stop_count == 3 && now.guard.stop_percent > 12 && now.group_fp[0] == 1);
	assert_int_equal(now.succeeded, 1);
	assert_int_equal(now.failed_again, 1);
	OK(w, w->ops->read_redrive_items(w->r, r.n, 0, 2, &w->a, &items, &n, &next, &w->err));
	assert_true(n == 2 && next && items[0].state == ITEM_SUCCEEDED && items[1].state == ITEM_FAILED_AGAIN);
	assert_true(items[0].sent_at_ms == T0 && items[0].outcome_at_ms == T0);
	assert_string_equal(items[1].dlq_id, read_dead(w, in[1]).dlq_id);
	OK(w, w->ops->read_redrive_items(w->r, r.n, next, 2, &w->a, &items, &n, &next, &w->err));
	assert_true(n == 1 && next == 0 && items[0].state == ITEM_SKIPPED);
	begin(w);
	EXPECT(w, DLQ_IN_REDRIVE, redrive(w, in[4])); /* halted: its members are still its own */
	OK(w, w->ops->redrive_active(w->s, &w->a, &list, &n, &w->err));
	assert_true(n == 1 && list[0].state == REDRIVE_HALTED);
	OK(w, w->ops->redrive_mark(w->s, r.n, 0, 0, REDRIVE_CANCELLED, &w->err));
	OK(w, redrive(w, in[4]));
	commit(w);
	OK(w, w->ops->read_redrive(w->r, r.n, &w->a, &now, &w->err));
	assert_int_equal(now.cancelled, 5);
	assert_true(now.ended_at_ms > 0);
	EXPECT(w, DLQ_NOT_FOUND, w->ops->read_redrive_items(w->r, 99, 0, 2, &w->a, &items, &n, &next, &w->err));
	now.n = 99;
	begin(w);
	EXPECT(w, DLQ_NOT_FOUND, w->ops->redrive_state(w->s, &now, &w->err));
	commit(w);
}

static void test_ledger_of_chosen_ones(void **state)
{
	struct world *w = *state;
	struct store_redrive_item *items;
	int64_t seqs[4], got[4], next;
	int n;
	begin(w);
	for (int i = 0; i < 4; i++)
		seqs[i] = dead_of(w, 1, "w", "");
	struct store_redrive r = {.operator = STR("ann")}, group_too = {.group_id = group_tx(w, 1).group_id};
	OK(w, w->ops->redrive_create(w->s, &r, seqs, 3, &w->err));
	EXPECT(w, DLQ_IN_REDRIVE, w->ops->redrive_create(w->s, &group_too, NULL, 0, &w->err));
	OK(w, w->ops->redrive_next(w->s, r.n, 1, got, &n, &w->err));
	send_back(w, &r, got, 1);
	commit(w);
	OK(w, w->ops->read_redrive_items(w->r, r.n, 0, 10, &w->a, &items, &n, &next, &w->err));
	assert_true(n == 3 && items[0].state == ITEM_SENT && items[1].state == ITEM_SELECTED);
	begin(w);
	OK(w, w->ops->redrive_mark(w->s, r.n, 0, 0, REDRIVE_CANCELLED, &w->err));
	commit(w);
	OK(w, w->ops->read_redrive_items(w->r, r.n, 0, 10, &w->a, &items, &n, &next, &w->err));
	assert_true(items[0].state == ITEM_SENT && items[2].state == ITEM_CANCELLED);
	assert_string_equal(items[2].dlq_id, read_dead(w, seqs[2]).dlq_id);
}

static void test_restore(void **state)
{
	struct world *w = *state;
	struct store_delivery d;
	begin(w);
	int64_t a = send_key(w, "k", "a"), b = send_key(w, "k", "b");
	assert_true(claim_one(w, &d) && d.seq == a);
	kill_as(w, &d, 1, "w", "");
	EXPECT(w, DLQ_CONFLICT, w->ops->restore_one(w->s, a, 0, STR("ann"), STR("x"), &w->err));
	EXPECT(w, DLQ_NOT_FOUND, w->ops->restore_one(w->s, 999, 0, STR("ann"), STR("x"), &w->err));
	OK(w, w->ops->discard_one(w->s, a, 0, STR("ann"), STR("junk"), &w->err));
	EXPECT(w, DLQ_CONFLICT, w->ops->restore_one(w->s, a, 0, STR("ann"), STR("x"), &w->err)); /* b is before it now */
	assert_true(claim_one(w, &d) && d.seq == b);
	OK(w, done(w, &d));
	OK(w, w->ops->restore_one(w->s, a, 0, STR("bob"), STR("was needed"), &w->err));
	assert_int_equal(counts(w)->dead, 1);
	assert_int_equal(counts(w)->discarded, 0);
	assert_int_equal(group_tx(w, 1).dead, 1);
	send_key(w, "k", "c"); /* held behind it again */
	assert_false(claim_one(w, &d));
	commit(w);
	struct store_dead dl = read_dead(w, a);
	assert_true(dl.state == DEAD_DEAD && str_eqz(dl.operator, "bob") && str_eqz(dl.why, "was needed"));
}

static void test_audit_chain(void **state)
{
	struct world *w = *state;
	struct store_audit *rows;
	uint8_t hash[AUDIT_HASH_LEN] = {0};
	int n;
	begin(w);
	for (int i = 0; i < 5; i++) {
		struct store_audit a = {.at_ms = T0 + i, .operator = STR("ann"), .action = STR("x"), .reason = i % 2 ? STR("r") : STR("")};
		OK(w, w->ops->audit_add(w->s, &a, &w->err));
	}
	commit(w);
	world_reopen(w);
	OK(w, w->ops->read_audit_after(w->r, 0, 10, &w->a, &rows, &n, &w->err));
	assert_int_equal(n, 5);
	for (int i = 0; i < n; i++) {
		const struct store_audit *a = &rows[i];
		struct audit_link l = {a->n, a->at_ms, a->operator, a->action, a->queue, a->target, a->reason, a->outcome, a->detail};
		assert_int_equal(a->n, i + 1);
		audit_chain_next(hash, &l, hash);
		assert_memory_equal(hash, a->hash, sizeof(hash));
	}
	OK(w, w->ops->read_audit_after(w->r, 3, 1, &w->a, &rows, &n, &w->err));
	assert_true(n == 1 && rows[0].n == 4);
	OK(w, w->ops->read_audit(w->r, 0, 1, &w->a, &rows, &n, &w->err));
	assert_memory_equal(hash, rows[0].hash, sizeof(hash));
}

static void test_a_deleted_queue_takes_its_groups(void **state)
{
	struct world *w = *state;
	const uint8_t fp[16] = {1, 1, 2};
	struct store_group g;
	begin(w);
	int64_t seq = dead_of(w, 1, "w", "");
	OK(w, w->ops->discard_one(w->s, seq, 0, STR("a"), STR("b"), &w->err));
	OK(w, w->ops->archive_one(w->s, seq, &w->err));
	OK(w, w->ops->queue_delete(w->s, w->q, &w->err));
	commit(w);
	EXPECT(w, DLQ_NOT_FOUND, w->ops->read_group(w->r, fp, &w->a, &g, &w->err));
	begin(w);
	OK(w, w->ops->queue_create(w->s, STR("q"), STR("{}"), false, &w->q, &w->err));
	dead_of(w, 1, "w", "");
	commit(w);
	assert_int_equal(group(w, 1).failures, 1);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, world_new, world_free)
	const struct CMUnitTest tests[] = {
	    T(test_a_group_is_counted),
	    T(test_status),
	    T(test_merge_and_split),
	    T(test_lists),
	    T(test_histories),
	    T(test_workers_have_a_maximum),
	    T(test_redrive_of_a_group),
	    T(test_ledger_of_chosen_ones),
	    cmocka_unit_test_setup_teardown(test_restore, world_new_ordered, world_free),
	    T(test_audit_chain),
	    T(test_a_deleted_queue_takes_its_groups),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
