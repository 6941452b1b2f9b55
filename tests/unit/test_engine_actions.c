/* Discard, archive and restore: of one, of chosen ones, of a queue or a group, taken back as a whole; and what is given up by itself. */
#include <stdio.h>
#include <string.h>

#include "engine/record.h"
#include "lib_engine.h"

#define PLAIN "{\"policy\": {\"max_attempts\": 1, \"max_redrives\": 1, \"retention\": \"10d\"}}"
#define N 30

static struct fix *orders(void)
{
	struct fix *f = fix_new(&(struct engine_options){.single_step = true});
	assert_int_equal(fix_queue(f, "orders", PLAIN), DLQ_OK);
	assert_int_equal(fix_queue(f, "mails", PLAIN), DLQ_OK);
	return f;
}

static struct engine_op job_op(enum redrive_action action, const char *queue)
{
	struct engine_op op = {.type = OP_REDRIVE, .queue = str_of(queue), .operator= STR("ann")};
	op.u.redrive.action = action;
	op.u.redrive.reason = STR("because");
	op.u.redrive.sel.filter.state = op.u.redrive.sel.filter.reason = -1;
	return op;
}

static enum dlq_code run(struct fix *f, struct engine_op *op, char id[ULID_LEN + 1])
{
	engine_call(f->e, op);
	if (id)
		memcpy(id, op->u.redrive.out.redrive_id, ULID_LEN + 1);
	engine_op_release(op);
	return op->code;
}

/* A job that is over, balanced; how many it did. */
static int64_t done(struct fix *f, const char *id)
{
	struct engine_op op = {.type = OP_READ_REDRIVE};
	op.u.read_redrive.id = str_of(id);
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	const struct store_redrive r = op.u.read_redrive.out;
	engine_op_release(&op);
	assert_int_equal(r.state, REDRIVE_DONE);
	assert_int_equal(r.total, r.sent + r.skipped);
	if (r.action != ACTION_REDRIVE)
		assert_int_equal(r.succeeded, r.sent);
	return r.sent;
}

static enum dlq_code one(struct fix *f, enum op_type type, const char *id, const char *reason)
{
	struct engine_op op = {.type = type, .operator= STR("ann")};
	op.u.discard.id = str_of(id);
	op.u.discard.reason = str_of(reason);
	engine_call(f->e, &op);
	engine_op_release(&op);
	return op.code;
}

static void dead_of(struct fix *f, const char *id, struct store_dead *d)
{
	struct engine_op op = {.type = OP_READ_DEAD};
	op.u.read_dead.id = str_of(id);
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	*d = op.u.read_dead.out;
	engine_op_release(&op); /* the numbers stay */
}

static int64_t count_state(struct fix *f, const char *queue, int state)
{
	struct engine_op op = {.type = OP_READ_DEAD_LIST, .queue = str_of(queue)};
	op.u.read_dead_list.filter = (struct store_dead_filter){.state = state, .reason = -1, .limit = 1000};
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	int64_t n = op.u.read_dead_list.page.n;
	engine_op_release(&op);
	return n;
}

static void fill(struct fix *f, const char *queue, int n)
{
	for (int i = 0; i < n; i++)
		fix_dead_with(f, queue, &(struct fix_dead){.body = "{}", .type = i % 3 ? "Boom" : "Bang"}, NULL);
}

/* A worker that fails for good at one order; false: there is none. */
static bool fail_one(struct fix *f)
{
	char receipt[RECEIPT_LEN + 1];
	struct engine_op op;
	receive_init(&op, f, "orders", 0);
	op.u.receive.max = 1;
	engine_call(f->e, &op);
	bool got = op.u.receive.n == 1;
	if (got)
		memcpy(receipt, op.u.receive.items[0].receipt, sizeof(receipt));
	engine_op_release(&op);
	if (got)
		fix_settle(f, "orders", receipt, OUTCOME_PERMANENT);
	return got;
}

static void test_one(void **state)
{
	(void)state;
	struct fix *f = orders();
	char id[ULID_LEN + 1];
	struct store_dead d;
	fix_make_dead(f, "orders", 1, id);
	assert_int_equal(one(f, OP_GIVE_UP, id, NULL), DLQ_BAD_REQUEST);
	assert_int_equal(one(f, OP_GIVE_UP, id, "hopeless"), DLQ_OK);
	dead_of(f, id, &d);
	assert_int_equal(d.state, DEAD_ARCHIVED);
	assert_int_equal(fix_counts(f, "orders").dead, 0);
	assert_int_equal(fix_counts(f, "orders").archived, 1);
	assert_int_equal(one(f, OP_GIVE_UP, id, "again"), DLQ_CONFLICT);
	assert_int_equal(one(f, OP_DISCARD, id, "again"), DLQ_CONFLICT);
	assert_int_equal(one(f, OP_RESTORE, id, "not hopeless"), DLQ_OK);
	dead_of(f, id, &d);
	assert_int_equal(d.state, DEAD_DEAD);
	assert_int_equal(fix_audited(f, "dead.archive", NULL), 1);
	assert_int_equal(fix_audited(f, "dead.restore", NULL), 1);
	assert_int_equal(one(f, OP_GIVE_UP, "01ARZ3NDEKTSV4RRFFQ69G5FAV", "x"), DLQ_NOT_FOUND);
	fix_free(f);
}

/* Each action over a whole queue, taken back by an undo. */
static void test_queue_and_undo(void **state)
{
	(void)state;
	static const enum redrive_action actions[] = {ACTION_DISCARD, ACTION_ARCHIVE};
	static const enum dead_state becomes[] = {DEAD_DISCARDED, DEAD_ARCHIVED};
	static const char *const audit[] = {"discard.start", "archive.start"};
	for (int i = 0; i < 2; i++) {
		struct fix *f = orders();
		char id[ULID_LEN + 1], undo[ULID_LEN + 1], other[ULID_LEN + 1], detail[600];
		fill(f, "orders", N);
		fix_make_dead(f, "orders", 1, other);
		assert_int_equal(one(f, actions[i] == ACTION_DISCARD ? OP_DISCARD : OP_GIVE_UP, other, "by hand"), DLQ_OK);
		struct engine_op op = job_op(actions[i], "orders");
		assert_int_equal(run(f, &op, id), DLQ_OK);
		assert_int_equal(done(f, id), N);
		assert_int_equal(count_state(f, "orders", (int)becomes[i]), N + 1);
		assert_int_equal(fix_counts(f, "orders").dead, 0);
		assert_int_equal(fix_audited(f, audit[i], detail), 1);
		fill(f, "orders", 2);
		op = job_op(ACTION_RESTORE, NULL);
		op.u.redrive.sel.undo = str_of(id);
		assert_int_equal(run(f, &op, undo), DLQ_OK);
		assert_int_equal(done(f, undo), N); /* not the one that was done by hand */
		assert_int_equal(fix_counts(f, "orders").dead, N + 2);
		assert_int_equal(count_state(f, "orders", (int)becomes[i]), 1);
		assert_int_equal(fix_audited(f, "restore.start", detail), 1);
		assert_non_null(strstr(detail, id));
		/* Once more: there is nothing left of it. */
		assert_int_equal(run(f, &op, undo), DLQ_OK);
		assert_int_equal(done(f, undo), 0);
		/* What was restored can be put back. */
		op = job_op(ACTION_REDRIVE, "orders");
		assert_int_equal(run(f, &op, id), DLQ_OK);
		assert_int_equal(done(f, id), N + 2);
		op = job_op(ACTION_RESTORE, NULL);
		op.u.redrive.sel.undo = str_of(id);
		assert_int_equal(run(f, &op, undo), DLQ_BAD_REQUEST); /* that one was a redrive */
		fix_free(f);
	}
}

static void test_group_ids_filter(void **state)
{
	(void)state;
	struct fix *f = orders();
	char id[ULID_LEN + 1], ids_text[3][ULID_LEN + 1], group[GROUP_ID_LEN + 1];
	struct str ids[3];
	fill(f, "orders", N);
	struct engine_op groups = {.type = OP_READ_GROUPS, .queue = STR("orders")};
	groups.u.read_groups.filter.limit = 10;
	engine_call(f->e, &groups);
	int64_t dead = groups.u.read_groups.page.items[0].dead;
	group_id_text(groups.u.read_groups.page.items[0].fp, group);
	engine_op_release(&groups);
	struct engine_op op = job_op(ACTION_DISCARD, NULL);
	op.u.redrive.sel.group = str_of(group);
	op.u.redrive.dry_run = true;
	op.u.redrive.reason = STR("");
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	assert_int_equal(op.u.redrive.out.total, dead);
	engine_op_release(&op);
	op.u.redrive.dry_run = false;
	assert_int_equal(run(f, &op, id), DLQ_BAD_REQUEST); /* no reason */
	op.u.redrive.reason = STR("because");
	assert_int_equal(run(f, &op, id), DLQ_OK);
	assert_int_equal(done(f, id), dead);
	assert_int_equal(count_state(f, "orders", DEAD_DISCARDED), dead);
	for (int i = 0; i < 3; i++) {
		fix_dead_with(f, i == 2 ? "mails" : "orders", &(struct fix_dead){.body = "x", .type = "Other"}, ids_text[i]);
		ids[i] = str_of(ids_text[i]);
	}
	op = job_op(ACTION_ARCHIVE, NULL);
	op.u.redrive.sel.ids = ids;
	op.u.redrive.sel.n_ids = 3;
	assert_int_equal(run(f, &op, id), DLQ_OK);
	assert_int_equal(done(f, id), 3);
	assert_int_equal(run(f, &op, id), DLQ_CONFLICT); /* they are archived */
	op.u.redrive.action = ACTION_RESTORE;
	op.u.redrive.sel.n_ids = 1;
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	assert_int_equal(op.u.redrive.out.state, REDRIVE_DONE);
	assert_int_equal(op.u.redrive.out.succeeded, 1);
	engine_op_release(&op);
	op = job_op(ACTION_DISCARD, NULL); /* of all queues */
	op.u.redrive.sel.filtered = true;
	op.u.redrive.sel.filter.error_type = STR("Other");
	assert_int_equal(run(f, &op, id), DLQ_OK);
	assert_int_equal(done(f, id), 1);
	/* Counting what is discarded or archived takes a look at each. */
	op = job_op(ACTION_RESTORE, "orders");
	op.u.redrive.dry_run = true;
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	assert_int_equal(op.u.redrive.out.total, dead + 2);
	engine_op_release(&op);
	op.u.redrive.dry_run = false;
	assert_int_equal(run(f, &op, id), DLQ_OK);
	assert_int_equal(done(f, id), dead + 2);
	fix_free(f);
}

static void test_refused(void **state)
{
	(void)state;
	struct fix *f = orders();
	char id[ULID_LEN + 1];
	fix_make_dead(f, "orders", 2, id);
	struct str body = STR("x");
	struct str ids[] = {str_of(id)};
	struct engine_op op = job_op(ACTION_DISCARD, "orders");
	op.u.redrive.guard.first = 1;
	assert_int_equal(run(f, &op, NULL), DLQ_BAD_REQUEST);
	op = job_op(ACTION_ARCHIVE, "orders");
	op.u.redrive.guard.rate = 1;
	assert_int_equal(run(f, &op, NULL), DLQ_BAD_REQUEST);
	op = job_op(ACTION_DISCARD, NULL);
	op.u.redrive.sel.ids = ids;
	op.u.redrive.sel.n_ids = 1;
	op.u.redrive.body = &body;
	assert_int_equal(run(f, &op, NULL), DLQ_BAD_REQUEST);
	op = job_op(ACTION_DISCARD, "orders");
	op.u.redrive.to = STR("mails");
	assert_int_equal(run(f, &op, NULL), DLQ_BAD_REQUEST);
	op = job_op(ACTION_DISCARD, "orders");
	op.u.redrive.override_limit = true;
	assert_int_equal(run(f, &op, NULL), DLQ_BAD_REQUEST);
	op = job_op(ACTION_REDRIVE, NULL);
	op.u.redrive.sel.undo = str_of(id);
	assert_int_equal(run(f, &op, NULL), DLQ_BAD_REQUEST);
	op = job_op(ACTION_RESTORE, NULL);
	op.u.redrive.sel.undo = STR("01ARZ3NDEKTSV4RRFFQ69G5FAV");
	assert_int_equal(run(f, &op, NULL), DLQ_NOT_FOUND);
	op = job_op((enum redrive_action)9, "orders");
	assert_int_equal(run(f, &op, NULL), DLQ_BAD_REQUEST);
	assert_int_equal(fix_counts(f, "orders").dead, 2);
	fix_free(f);
}

/* One that dies again with its redrives used up is given up at once: listed as archived, back only with override. */
static void test_given_up(void **state)
{
	(void)state;
	struct fix *f = orders();
	char id[ULID_LEN + 1], receipt[RECEIPT_LEN + 1], job[ULID_LEN + 1];
	struct store_dead d;
	fix_make_dead(f, "orders", 1, id);
	struct str ids[] = {str_of(id)};
	struct engine_op op = job_op(ACTION_REDRIVE, NULL);
	op.u.redrive.sel.ids = ids;
	op.u.redrive.sel.n_ids = 1;
	assert_int_equal(run(f, &op, job), DLQ_OK);
	assert_int_equal(fix_receive(f, "orders", receipt), 1);
	struct engine_settle_item it = fix_settle(f, "orders", receipt, OUTCOME_PERMANENT);
	assert_int_equal(it.effect, EFFECT_DEAD);
	assert_string_equal(it.dlq_id, id);
	dead_of(f, id, &d);
	assert_int_equal(d.state, DEAD_ARCHIVED);
	assert_int_equal(d.redrives, 1);
	assert_int_equal(fix_counts(f, "orders").dead, 0);
	assert_int_equal(fix_counts(f, "orders").died, 2);
	assert_int_equal(fix_counts(f, "orders").archived, 1);
	engine_step(f->e);
	dead_of(f, id, &d); /* it stays until its retention ends */
	assert_int_equal(run(f, &op, job), DLQ_CONFLICT);
	op.u.redrive.override_limit = true;
	assert_int_equal(run(f, &op, job), DLQ_OK);
	assert_int_equal(fix_receive(f, "orders", receipt), 1);
	fix_settle(f, "orders", receipt, OUTCOME_OK);
	dead_of(f, id, &d);
	assert_int_equal(d.state, DEAD_REDRIVEN);
	/* A queue with some that were given up: only with override are they members. */
	fill(f, "orders", 3);
	op = job_op(ACTION_REDRIVE, "orders");
	assert_int_equal(run(f, &op, job), DLQ_OK);
	while (fail_one(f))
		;
	assert_int_equal(count_state(f, "orders", DEAD_ARCHIVED), 3);
	op = job_op(ACTION_REDRIVE, "orders");
	assert_int_equal(run(f, &op, job), DLQ_OK);
	assert_int_equal(done(f, job), 0);
	op.u.redrive.override_limit = true;
	op.u.redrive.dry_run = true;
	engine_call(f->e, &op);
	assert_int_equal(op.u.redrive.out.total, 3);
	engine_op_release(&op);
	op.u.redrive.dry_run = false;
	assert_int_equal(run(f, &op, job), DLQ_OK);
	assert_int_equal(done(f, job), 3);
	fix_free(f);
}

/* Discarded or archived, it holds back no follower of its key; restored, it does again. */
static void test_ordered(void **state)
{
	(void)state;
	struct fix *f = orders();
	char id[ULID_LEN + 1], receipt[RECEIPT_LEN + 1], job[ULID_LEN + 1];
	assert_int_equal(fix_queue(f, "lane", "{\"ordered\": true, \"policy\": {\"max_attempts\": 1}}"), DLQ_OK);
	fix_dead_with(f, "lane", &(struct fix_dead){.body = "1", .key = "k"}, id);
	struct store_send item = {.body = STR("2"), .key = STR("k")};
	struct engine_op send = {.type = OP_SEND, .queue = STR("lane")};
	send.u.send.items = &item;
	send.u.send.n = 1;
	engine_call(f->e, &send);
	engine_op_release(&send);
	assert_true(item.held);
	assert_int_equal(fix_receive(f, "lane", receipt), 0);
	struct engine_op op = job_op(ACTION_ARCHIVE, "lane");
	assert_int_equal(run(f, &op, job), DLQ_OK);
	assert_int_equal(done(f, job), 1);
	assert_int_equal(fix_receive(f, "lane", receipt), 1);
	fix_free(f);
}

/* A restart in the middle of a job over many. */
static void test_restart(void **state)
{
	(void)state;
	struct fix *f = orders();
	char id[ULID_LEN + 1];
	enum { MANY = 2500 };
	fix_make_dead(f, "orders", MANY, id);
	struct engine_op op = job_op(ACTION_DISCARD, "orders");
	op.port = &f->in.port;
	engine_submit(f->e, &op);
	assert_true(writer_once(f->e));
	assert_ptr_equal(inbox_try(&f->in), &op);
	memcpy(id, op.u.redrive.out.redrive_id, sizeof(id));
	engine_op_release(&op);
	fix_restart(f);
	engine_step(f->e);
	assert_int_equal(done(f, id), MANY);
	assert_int_equal(fix_counts(f, "orders").discarded, MANY);
	fix_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_one),     cmocka_unit_test(test_queue_and_undo), cmocka_unit_test(test_group_ids_filter), cmocka_unit_test(test_refused),
	    cmocka_unit_test(test_given_up), cmocka_unit_test(test_ordered),        cmocka_unit_test(test_restart),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
