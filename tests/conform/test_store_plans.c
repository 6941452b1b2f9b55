/* Planned redrives and the jobs that discard, archive and restore: of every back end. */
#include "lib_store.h"

static struct store_redrive_pick pick(struct world *w, int64_t seq)
{
	return (struct store_redrive_pick){.seq = seq, .died_no = read_dead(w, seq).died_no};
}

static struct store_redrive redrive_now(struct world *w, const struct store_redrive *r)
{
	struct store_redrive out = {0};
	OK(w, w->ops->read_redrive(w->r, r->n, &w->a, &out, &w->err));
	return out;
}

static int items_of(struct world *w, const struct store_redrive *r, struct store_redrive_item **items)
{
	int64_t next;
	int n;
	OK(w, w->ops->read_redrive_items(w->r, r->n, 0, 100, &w->a, items, &n, &next, &w->err));
	assert_int_equal(next, 0);
	return n;
}

/* One after the other as an engine does it: the operation of the job's action, then what it came to. */
static void run(struct world *w, struct store_redrive *r, int max)
{
	int64_t seqs[100], sent = 0, skipped = 0;
	int n;
	OK(w, w->ops->redrive_next(w->s, r->n, max, seqs, &n, &w->err));
	for (int i = 0; i < n; i++) {
		enum dlq_code c = DLQ_OK;
		if (r->action == ACTION_DISCARD)
			c = w->ops->discard_one(w->s, seqs[i], r->n, STR("ann"), STR("job"), &w->err);
		else if (r->action == ACTION_ARCHIVE)
			c = w->ops->give_up_one(w->s, seqs[i], r->n, STR("ann"), STR("job"), &w->err);
		else if (r->action == ACTION_RESTORE)
			c = w->ops->restore_one(w->s, seqs[i], r->n, STR("ann"), STR("job"), &w->err);
		else
			c = put_back(w, seqs[i], r, NULL);
		assert_false(store_fatal(c));
		sent += c == DLQ_OK;
		skipped += c != DLQ_OK;
	}
	OK(w, w->ops->redrive_mark(w->s, r->n, sent, skipped, n < max ? REDRIVE_DONE : REDRIVE_RUNNING, &w->err));
}

static void test_plan_over_an_empty_store(void **state)
{
	struct world *w = *state;
	struct store_redrive r = {.plan = STR("{\"queue\":\"q\"}"), .queue = STR("q"), .queue_id = w->q};
	int64_t seqs[2];
	int n;
	begin(w);
	OK(w, w->ops->redrive_create(w->s, &r, NULL, 0, &w->err));
	assert_true(r.plan_next == 0 && r.total == 0 && r.queue_id == 0);
	OK(w, w->ops->redrive_next(w->s, r.n, 2, seqs, &n, &w->err));
	assert_int_equal(n, 0);
	OK(w, w->ops->redrive_mark(w->s, r.n, 0, 0, REDRIVE_DONE, &w->err));
	EXPECT(w, DLQ_CONFLICT, w->ops->redrive_pick(w->s, r.n, NULL, 0, 1, 0, &w->err));
	EXPECT(w, DLQ_NOT_FOUND, w->ops->redrive_pick(w->s, 99, NULL, 0, 1, 0, &w->err));
	commit(w);
}

static void test_picking_and_putting_back(void **state)
{
	struct world *w = *state;
	struct store_redrive_item *items;
	struct store_delivery d;
	struct str body = STR("{\"a\":2}"), headers = STR("{\"t\":\"2\"}");
	int64_t s[8], got[8];
	char id[ULID_LEN + 1];
	int n;
	begin(w);
	for (int i = 0; i < 7; i++)
		s[i] = dead_with(w, "{\"t\":\"1\"}", "E", "{\"a\":1}");
	struct store_redrive r = {.plan = STR("{\"where\":\".a\"}"), .operator = STR("ann"), .reason = STR("why")};
	OK(w, w->ops->redrive_create(w->s, &r, NULL, 0, &w->err));
	assert_true(r.until_no >= 7 && r.plan_next == r.until_no + 1 && r.total == 0);
	EXPECT(w, DLQ_CONFLICT, w->ops->redrive_next(w->s, r.n, 8, got, &n, &w->err)); /* not before it is fixed who they are */
	assert_non_null(strstr(w->err.detail, r.redrive_id));
	s[7] = dead_with(w, "", "E", "late");
	commit(w);
	struct store_redrive_pick p[4] = {pick(w, s[6]), pick(w, s[5]), pick(w, s[4]), pick(w, s[3])};
	p[0].edit_tried = p[1].edit_tried = p[2].edit_tried = true;
	p[0].body = &body;
	p[1].headers = &headers;
	p[2].note = STR("edit: a is not a number");
	p[3].died_no--; /* it changed since it was looked at */
	begin(w);
	OK(w, w->ops->redrive_pick(w->s, r.n, p, 4, 5, pick(w, s[2]).died_no + 1, &w->err));
	EXPECT(w, DLQ_IN_REDRIVE, put_back(w, s[6], NULL, NULL)); /* a member already */
	OK(w, w->ops->discard_one(w->s, s[4], 0, STR("a"), STR("b"), &w->err)); /* one that is skipped is free */
	OK(w, put_back(w, s[1], NULL, NULL)); /* what was not looked at yet is no member */
	commit(w);
	world_reopen(w);
	struct store_redrive now = redrive_now(w, &r);
	assert_true(now.total == 3 && now.skipped == 1 && now.looked == 5 && now.changed == 2 && now.unchanged == 0 && now.edit_failed == 1);
	assert_true(str_eqz(now.plan, "{\"where\":\".a\"}") && now.plan_next > 0 && now.queue_id == 0);
	struct store_redrive_pick q[3] = {pick(w, s[2]), pick(w, s[1]), pick(w, s[0])};
	q[0].edit_tried = true; /* the program changed nothing */
	begin(w);
	struct store_redrive other = {.operator = STR("bob")};
	OK(w, w->ops->redrive_create(w->s, &other, &s[0], 1, &w->err));
	OK(w, w->ops->redrive_pick(w->s, r.n, q, 3, 3, 0, &w->err));
	commit(w);
	now = redrive_now(w, &r);
	assert_true(now.total == 5 && now.skipped == 2 && now.unchanged == 1 && now.plan_next == 0 && now.looked == 8);
	n = items_of(w, &r, &items);
	assert_int_equal(n, 5);
	assert_true(items[0].seq == s[0] && items[0].state == ITEM_SKIPPED);
	assert_non_null(strstr(items[0].note.p, other.redrive_id)); /* named */
	assert_true(items[1].seq == s[2] && items[1].state == ITEM_SELECTED && !items[1].note.n);
	assert_true(items[2].seq == s[4] && str_eqz(items[2].note, "edit: a is not a number"));
	begin(w);
	run(w, &r, 2);
	OK(w, w->ops->redrive_sweep(w->s, 10, &n, &w->err));
	assert_int_equal(n, 0); /* it is still on its way */
	run(w, &r, 2);
	commit(w);
	now = redrive_now(w, &r);
	assert_true(now.state == REDRIVE_DONE && now.sent == 3 && now.skipped == 2 && now.total == 5);
	begin(w);
	while (claim_one(w, &d)) {
		assert_true(str_eq(d.body, d.seq == s[6] ? body : STR("{\"a\":1}")));
		assert_true(str_eq(d.headers, d.seq == s[5] ? headers : STR("{\"t\":\"1\"}")));
		if (d.seq == s[5])
			kill_it(w, &d, id);
		else
			OK(w, done(w, &d));
	}
	commit(w);
	now = redrive_now(w, &r);
	assert_true(now.succeeded == 2 && now.failed_again == 1);
	assert_true(read_dead(w, s[6]).edited && !read_dead(w, s[2]).edited);
	struct store_dead_filter f = {.state = -1, .reason = -1, .limit = 2, .redrive_n = r.n};
	assert_int_equal(list_seqs(w, f, got, 8), 3);
	assert_true(got[0] == s[5] && got[1] == s[6] && got[2] == s[2]);
}

static void test_staged_edits_are_swept(void **state)
{
	struct world *w = *state;
	struct str body = STR("b"), direct = STR("direct");
	struct store_delivery d;
	int64_t s[6];
	int n;
	begin(w);
	for (int i = 0; i < 6; i++)
		s[i] = dead_one(w, "", "x");
	struct store_redrive r = {.plan = STR("{}")}, live = {.plan = STR("{}")};
	OK(w, w->ops->redrive_create(w->s, &live, NULL, 0, &w->err));
	OK(w, w->ops->redrive_create(w->s, &r, NULL, 0, &w->err));
	commit(w);
	begin(w);
	for (int i = 0; i < 6; i++) {
		struct store_redrive_pick p = pick(w, s[i]);
		p.edit_tried = true;
		p.body = &body;
		OK(w, w->ops->redrive_pick(w->s, i < 2 ? live.n : r.n, &p, 1, 1, 0, &w->err));
	}
	EXPECT(w, DLQ_IN_REDRIVE, put_back(w, s[0], &r, NULL));
	OK(w, put_back(w, s[0], &live, &direct)); /* what the caller gives goes before what is staged */
	OK(w, w->ops->redrive_mark(w->s, live.n, 1, 0, REDRIVE_RUNNING, &w->err));
	assert_true(claim_one(w, &d) && str_eq(d.body, direct));
	OK(w, w->ops->redrive_sweep(w->s, 10, &n, &w->err));
	assert_int_equal(n, 0);
	OK(w, w->ops->redrive_mark(w->s, r.n, 0, 0, REDRIVE_CANCELLED, &w->err));
	OK(w, put_back(w, s[5], NULL, NULL)); /* cancelled: free, and as it was */
	assert_true(claim_one(w, &d) && str_eqz(d.body, "x"));
	OK(w, w->ops->redrive_sweep(w->s, 3, &n, &w->err));
	assert_int_equal(n, 3);
	OK(w, w->ops->redrive_sweep(w->s, 3, &n, &w->err));
	assert_int_equal(n, 1);
	OK(w, w->ops->redrive_sweep(w->s, 3, &n, &w->err));
	assert_int_equal(n, 0);
	commit(w);
	struct store_redrive now = redrive_now(w, &r);
	assert_true(now.cancelled == 4 && now.total == 4 && now.ended_at_ms > 0);
	world_reopen(w);
	begin(w);
	OK(w, put_back(w, s[1], &live, NULL));
	OK(w, w->ops->redrive_mark(w->s, live.n, 1, 0, REDRIVE_DONE, &w->err));
	assert_true(claim_one(w, &d) && str_eq(d.body, body)); /* the other's edit was not swept */
	commit(w);
}

static void test_whole_queue_beside_a_plan(void **state)
{
	struct world *w = *state;
	begin(w);
	int64_t two = make_queue(w, "two", false), a = dead_of(w, 1, "w", ""), b = dead_of(w, 2, "w", ""), q = w->q;
	w->q = two;
	int64_t c = dead_of(w, 3, "w", "");
	w->q = q;
	struct store_redrive r = {.plan = STR("{}")}, whole = {.queue_id = q, .queue = STR("q")}, other = {.queue_id = two, .queue = STR("two")};
	OK(w, w->ops->redrive_create(w->s, &r, NULL, 0, &w->err));
	commit(w);
	begin(w);
	struct store_redrive_pick p = pick(w, a);
	OK(w, w->ops->redrive_pick(w->s, r.n, &p, 1, 3, 0, &w->err));
	EXPECT(w, DLQ_IN_REDRIVE, w->ops->redrive_create(w->s, &whole, NULL, 0, &w->err));
	assert_non_null(strstr(w->err.detail, r.redrive_id));
	struct store_redrive g1 = {.group_id = read_dead(w, a).group_id}, g2 = {.group_id = read_dead(w, b).group_id};
	EXPECT(w, DLQ_IN_REDRIVE, w->ops->redrive_create(w->s, &g1, NULL, 0, &w->err));
	OK(w, w->ops->redrive_create(w->s, &g2, NULL, 0, &w->err)); /* none of it was picked */
	OK(w, w->ops->redrive_create(w->s, &other, NULL, 0, &w->err));
	EXPECT(w, DLQ_IN_REDRIVE, put_back(w, c, NULL, NULL));
	struct store_redrive undo = {.action = ACTION_RESTORE, .queue_id = q, .queue = STR("q")};
	OK(w, w->ops->redrive_create(w->s, &undo, NULL, 0, &w->err)); /* it takes what no redrive takes */
	assert_int_equal(undo.total, 0);
	run(w, &r, 10);
	run(w, &undo, 10);
	OK(w, w->ops->redrive_mark(w->s, g2.n, 0, 0, REDRIVE_CANCELLED, &w->err));
	OK(w, w->ops->redrive_create(w->s, &whole, NULL, 0, &w->err));
	assert_int_equal(whole.total, 1);
	/* A plan finds them taken. */
	struct store_redrive late = {.plan = STR("{}")};
	OK(w, w->ops->redrive_create(w->s, &late, NULL, 0, &w->err));
	commit(w);
	begin(w);
	struct store_redrive_pick both[2] = {pick(w, b), pick(w, c)};
	OK(w, w->ops->redrive_pick(w->s, late.n, both, 2, 2, 0, &w->err));
	commit(w);
	struct store_redrive_item *items;
	assert_int_equal(items_of(w, &late, &items), 2);
	assert_true(items[0].state == ITEM_SKIPPED && items[1].state == ITEM_SKIPPED);
	assert_non_null(strstr(items[0].note.p, whole.redrive_id));
	assert_non_null(strstr(items[1].note.p, other.redrive_id));
}

static void test_handled_members_let_a_whole_queue_start(void **state)
{
	struct world *w = *state;
	struct store_redrive r = {.operator = STR("ann")}, whole = {.queue_id = w->q, .queue = STR("q")};
	int64_t s[2];
	begin(w);
	int64_t two = make_queue(w, "two", false), q = w->q;
	s[0] = dead_one(w, "", "x");
	w->q = two;
	s[1] = dead_one(w, "", "y");
	w->q = q;
	OK(w, w->ops->redrive_create(w->s, &r, s, 2, &w->err));
	EXPECT(w, DLQ_IN_REDRIVE, w->ops->redrive_create(w->s, &whole, NULL, 0, &w->err));
	run(w, &r, 1); /* the one of this queue */
	OK(w, w->ops->redrive_create(w->s, &whole, NULL, 0, &w->err));
	commit(w);
}

static void test_discard_and_undo(void **state)
{
	struct world *w = *state;
	struct store_redrive_item *items;
	int64_t s[6], seqs[10];
	begin(w);
	for (int i = 0; i < 6; i++)
		s[i] = dead_of(w, (uint8_t)(1 + i % 2), "w", "");
	struct store_redrive r = {.action = ACTION_DISCARD, .queue_id = w->q, .queue = STR("q"), .operator = STR("ann")};
	OK(w, w->ops->redrive_create(w->s, &r, NULL, 0, &w->err));
	assert_int_equal(r.total, 6);
	EXPECT(w, DLQ_IN_REDRIVE, put_back(w, s[0], NULL, NULL));
	EXPECT(w, DLQ_IN_REDRIVE, w->ops->give_up_one(w->s, s[0], 0, STR("a"), STR("b"), &w->err));
	run(w, &r, 4);
	OK(w, w->ops->archive_one(w->s, s[5], &w->err)); /* its retention ended meanwhile */
	run(w, &r, 4);
	commit(w);
	struct store_redrive now = redrive_now(w, &r);
	assert_true(now.action == ACTION_DISCARD && now.state == REDRIVE_DONE);
	assert_true(now.sent == 5 && now.succeeded == 5 && now.skipped == 1 && now.total == 6);
	assert_int_equal(items_of(w, &r, &items), 5);
	assert_true(items[0].state == ITEM_SUCCEEDED && items[0].sent_at_ms == T0 && items[0].outcome_at_ms == T0);
	struct store_dead dl = read_dead(w, s[1]);
	assert_true(dl.state == DEAD_DISCARDED && str_eqz(dl.redrive_id, r.redrive_id) && str_eqz(dl.why, "job"));
	assert_true(counts(w)->discarded == 5 && counts(w)->dead == 0 && counts(w)->archived == 1);
	struct store_dead_filter f = {.state = DEAD_DISCARDED, .reason = -1, .limit = 2, .redrive_n = r.n};
	assert_int_equal(list_seqs(w, f, seqs, 10), 5);
	world_reopen(w);
	begin(w);
	/* Restored by hand and discarded again: no longer what the job did. */
	OK(w, w->ops->restore_one(w->s, s[4], 0, STR("a"), STR("b"), &w->err));
	OK(w, w->ops->discard_one(w->s, s[4], 0, STR("a"), STR("b"), &w->err));
	commit(w);
	assert_int_equal(read_dead(w, s[4]).redrive_id.n, 0);
	assert_int_equal(list_seqs(w, f, seqs, 10), 4);
	begin(w);
	struct store_redrive undo = {.action = ACTION_RESTORE, .plan = STR("{\"undo\":\"x\"}"), .operator = STR("ann")};
	OK(w, w->ops->redrive_create(w->s, &undo, NULL, 0, &w->err));
	struct store_redrive_pick p[4];
	for (int i = 0; i < 4; i++)
		p[i] = pick(w, seqs[i]);
	OK(w, w->ops->redrive_pick(w->s, undo.n, p, 4, 4, 0, &w->err));
	EXPECT(w, DLQ_IN_REDRIVE, w->ops->restore_one(w->s, s[0], 0, STR("a"), STR("b"), &w->err));
	run(w, &undo, 10);
	assert_true(counts(w)->discarded == 1 && counts(w)->dead == 4);
	commit(w);
	now = redrive_now(w, &undo);
	assert_true(now.sent == 4 && now.succeeded == 4 && now.skipped == 0);
	assert_true(str_eqz(read_dead(w, s[0]).redrive_id, undo.redrive_id) && read_dead(w, s[0]).state == DEAD_DEAD);
	assert_int_equal(list_seqs(w, f, seqs, 10), 0);
}

/* What ends while a restore runs is no member of it, and stays as it is. */
static void test_what_ends_during_a_restore(void **state)
{
	struct world *w = *state;
	struct store_redrive back = {.action = ACTION_RESTORE, .queue_id = w->q, .queue = STR("q"), .operator = STR("ann")};
	struct store_redrive group = {.action = ACTION_RESTORE, .operator = STR("ann")};
	struct store_redrive plan = {.action = ACTION_RESTORE, .plan = STR("{\"queue\":\"q\"}"), .operator = STR("ann")};
	int64_t s[4];
	begin(w);
	for (int i = 0; i < 4; i++)
		s[i] = dead_of(w, 1, "w", "");
	OK(w, w->ops->discard_one(w->s, s[0], 0, STR("ann"), STR("before"), &w->err));
	OK(w, w->ops->redrive_create(w->s, &back, NULL, 0, &w->err));
	assert_int_equal(back.total, 1);
	OK(w, w->ops->discard_one(w->s, s[1], 0, STR("bob"), STR("meanwhile"), &w->err));
	OK(w, w->ops->give_up_one(w->s, s[2], 0, STR("bob"), STR("meanwhile"), &w->err));
	run(w, &back, 10);
	commit(w);
	struct store_redrive now = redrive_now(w, &back);
	assert_true(now.total == 1 && now.sent == 1 && now.skipped == 0);
	assert_int_equal(read_dead(w, s[0]).state, DEAD_DEAD);
	assert_int_equal(read_dead(w, s[1]).state, DEAD_DISCARDED);
	assert_int_equal(read_dead(w, s[2]).state, DEAD_ARCHIVED);
	begin(w);
	group.group_id = read_dead(w, s[0]).group_id;
	OK(w, w->ops->redrive_create(w->s, &group, NULL, 0, &w->err));
	assert_int_equal(group.total, 2);
	OK(w, w->ops->discard_one(w->s, s[3], 0, STR("bob"), STR("meanwhile"), &w->err));
	run(w, &group, 10);
	OK(w, w->ops->redrive_create(w->s, &plan, NULL, 0, &w->err));
	OK(w, w->ops->discard_one(w->s, s[0], 0, STR("bob"), STR("meanwhile"), &w->err));
	commit(w);
	now = redrive_now(w, &group);
	assert_true(now.total == 2 && now.sent == 2 && now.skipped == 0);
	assert_int_equal(read_dead(w, s[3]).state, DEAD_DISCARDED);
	assert_true(read_dead(w, s[0]).died_no >= plan.plan_next); /* the plan looks below that alone */
}

static void test_jobs_of_groups_and_override(void **state)
{
	struct world *w = *state;
	struct store_redrive_item *items;
	int64_t s[4];
	begin(w);
	for (int i = 0; i < 4; i++)
		s[i] = dead_of(w, 1, "w", "");
	commit(w);
	int64_t g = read_dead(w, s[0]).group_id;
	begin(w);
	struct store_redrive r = {.action = ACTION_ARCHIVE, .group_id = g, .queue = STR("q")};
	OK(w, w->ops->redrive_create(w->s, &r, NULL, 0, &w->err));
	assert_int_equal(r.total, 4);
	run(w, &r, 10);
	assert_true(counts(w)->archived == 4 && counts(w)->dead == 0);
	struct store_redrive none = {.group_id = g}, all = {.group_id = g, .override_limit = true}, back = {.action = ACTION_RESTORE, .group_id = g};
	OK(w, w->ops->redrive_create(w->s, &none, NULL, 0, &w->err));
	assert_int_equal(none.total, 0);
	run(w, &none, 10);
	struct store_redrive chosen = {.operator = STR("x")}, chosen_too = {.override_limit = true};
	EXPECT(w, DLQ_CONFLICT, w->ops->redrive_create(w->s, &chosen, s, 1, &w->err));
	OK(w, w->ops->redrive_create(w->s, &chosen_too, s, 1, &w->err));
	EXPECT(w, DLQ_IN_REDRIVE, w->ops->redrive_create(w->s, &back, NULL, 0, &w->err));
	EXPECT(w, DLQ_IN_REDRIVE, w->ops->redrive_create(w->s, &all, NULL, 0, &w->err));
	run(w, &chosen_too, 10); /* without archived_too it is refused, and the ledger says why */
	commit(w);
	assert_int_equal(items_of(w, &chosen_too, &items), 1);
	assert_true(items[0].state == ITEM_SKIPPED);
	assert_non_null(strstr(items[0].note.p, "archived"));
	begin(w);
	OK(w, w->ops->redrive_create(w->s, &back, NULL, 0, &w->err));
	assert_int_equal(back.total, 4);
	EXPECT(w, DLQ_IN_REDRIVE, w->ops->redrive_create(w->s, &all, NULL, 0, &w->err));
	run(w, &back, 3);
	assert_true(counts(w)->archived == 1 && counts(w)->dead == 3);
	run(w, &back, 3);
	OK(w, w->ops->give_up_one(w->s, s[3], 0, STR("a"), STR("b"), &w->err));
	OK(w, w->ops->redrive_create(w->s, &all, NULL, 0, &w->err));
	assert_int_equal(all.total, 4); /* the archived one, too */
	struct store_put_back p = {.redrive_n = all.n, .redrive_id = str_of(all.redrive_id), .due = T0, .max_redrives = -1, .archived_too = true};
	int64_t got[5];
	int n;
	OK(w, w->ops->redrive_next(w->s, all.n, 5, got, &n, &w->err));
	assert_int_equal(n, 4);
	for (int i = 0; i < n; i++)
		OK(w, w->ops->redrive_one(w->s, got[i], &p, &w->err));
	OK(w, w->ops->redrive_mark(w->s, all.n, 4, 0, REDRIVE_DONE, &w->err));
	assert_true(counts(w)->archived == 0 && counts(w)->redriving == 4);
	commit(w);
}

static void test_skipped_members_say_why(void **state)
{
	struct world *w = *state;
	struct store_redrive_item *items;
	struct store_redrive r = {.operator = STR("ann")};
	int64_t s[3], got[3];
	int n;
	begin(w);
	for (int i = 0; i < 3; i++)
		s[i] = dead_one(w, "", "x");
	OK(w, w->ops->redrive_create(w->s, &r, s, 3, &w->err));
	OK(w, w->ops->redrive_next(w->s, r.n, 3, got, &n, &w->err));
	struct store_put_back p = {.redrive_n = r.n, .redrive_id = str_of(r.redrive_id), .due = T0, .max_redrives = 0};
	EXPECT(w, DLQ_CONFLICT, w->ops->redrive_one(w->s, s[0], &p, &w->err));
	p.max_redrives = 3;
	p.to_queue_id = 77;
	EXPECT(w, DLQ_CONFLICT, w->ops->redrive_one(w->s, s[1], &p, &w->err));
	OK(w, w->ops->archive_one(w->s, s[2], &w->err));
	p.to_queue_id = 0;
	EXPECT(w, DLQ_NOT_FOUND, w->ops->redrive_one(w->s, s[2], &p, &w->err));
	OK(w, w->ops->redrive_mark(w->s, r.n, 0, 3, REDRIVE_DONE, &w->err));
	commit(w);
	assert_int_equal(items_of(w, &r, &items), 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(items[i].state, ITEM_SKIPPED);
	assert_non_null(strstr(items[0].note.p, "redriven 0 times"));
	assert_non_null(strstr(items[1].note.p, "deleted"));
	assert_non_null(strstr(items[2].note.p, "no such dead letter"));
	assert_int_equal(read_dead(w, s[0]).state, DEAD_DEAD);
}

static void test_names(void **state)
{
	enum redrive_action a;
	(void)state;
	for (int i = 0; i < ACTION_COUNT; i++)
		assert_true(redrive_action_parse(str_of(redrive_action_name((enum redrive_action)i)), &a) && (int)a == i);
	assert_false(redrive_action_parse(STR("drop"), &a));
	assert_false(redrive_action_parse(STR(""), &a));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, world_new, world_free)
	const struct CMUnitTest tests[] = {
	    T(test_plan_over_an_empty_store),
	    T(test_picking_and_putting_back),
	    T(test_staged_edits_are_swept),
	    T(test_whole_queue_beside_a_plan),
	    T(test_handled_members_let_a_whole_queue_start),
	    T(test_discard_and_undo),
	    T(test_what_ends_during_a_restore),
	    T(test_jobs_of_groups_and_override),
	    T(test_skipped_members_say_why),
	    cmocka_unit_test(test_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
