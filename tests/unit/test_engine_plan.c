/*
 * Planned redrives: by filter, by `where`, with edits; restarts while it selects; what halts it; what an edit leaves alone. And the
 * plan itself: JSON and back.
 */
#include <stdio.h>
#include <string.h>

#include "engine/plan.h"
#include "engine/record.h"
#include "lib_engine.h"

#define PLAIN "{\"policy\": {\"max_attempts\": 1, \"max_redrives\": 2}}"
#define N 40

static struct fix *orders(void)
{
	struct fix *f = fix_new(&(struct engine_options){.single_step = true, .jq_item_ms = 300, .jq_memory_bytes = (int64_t)32 << 20});
	assert_int_equal(fix_queue(f, "orders", PLAIN), DLQ_OK);
	assert_int_equal(fix_queue(f, "mails", PLAIN), DLQ_OK);
	return f;
}

/* N orders {"n": i, "big": 12345678901234567890}; every fourth is not JSON; tenants t0, t1. */
static void fill(struct fix *f, const char *queue, int n)
{
	for (int i = 0; i < n; i++) {
		char body[80], headers[40];
		snprintf(body, sizeof(body), i % 4 == 3 ? "not json %d" : "{\"n\":  %d, \"big\": 12345678901234567890}", i);
		snprintf(headers, sizeof(headers), "{\"tenant\":\"t%d\",\"x\":\"1\"}", i % 2);
		fix_dead_with(f, queue, &(struct fix_dead){.body = body, .headers = headers}, NULL);
	}
}

static struct engine_op redrive_op(const char *queue)
{
	struct engine_op op = {.type = OP_REDRIVE, .queue = str_of(queue), .operator= STR("ann")};
	op.u.redrive.reason = STR("mended");
	op.u.redrive.sel.filter.state = op.u.redrive.sel.filter.reason = -1;
	return op;
}

static enum dlq_code run(struct fix *f, struct engine_op *op, char id[ULID_LEN + 1])
{
	engine_call(f->e, op);
	memcpy(id, op->u.redrive.out.redrive_id, ULID_LEN + 1);
	engine_op_release(op);
	return op->code;
}

static struct store_redrive job_read(struct fix *f, const char *id, char why[600])
{
	struct engine_op op = {.type = OP_READ_REDRIVE};
	op.u.read_redrive.id = str_of(id);
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	struct store_redrive r = op.u.read_redrive.out;
	if (why)
		snprintf(why, 600, STR_FMT, STR_ARG(r.halted_why));
	engine_op_release(&op);
	return r;
}

static enum dlq_code control(struct fix *f, const char *id, enum redrive_state want)
{
	struct engine_op op = {.type = OP_REDRIVE_CONTROL, .operator= STR("ann")};
	op.u.redrive_control.id = str_of(id);
	op.u.redrive_control.want = want;
	engine_call(f->e, &op);
	engine_op_release(&op);
	return op.code;
}

/* The ledger: how many items have the state; the note of the last one. */
static int items(struct fix *f, const char *id, enum item_state state, char note[600])
{
	struct engine_op op = {.type = OP_READ_REDRIVE_ITEMS};
	int n = 0;
	op.u.read_redrive_items.id = str_of(id);
	op.u.read_redrive_items.limit = 1000;
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	for (int i = 0; i < op.u.read_redrive_items.n; i++) {
		if (op.u.read_redrive_items.items[i].state != state)
			continue;
		n++;
		if (note)
			snprintf(note, 600, STR_FMT, STR_ARG(op.u.read_redrive_items.items[i].note));
	}
	engine_op_release(&op);
	return n;
}

/* Takes one message of the queue and settles it. False: there was none. */
static bool take(struct fix *f, const char *queue, char body[200], char headers[200], enum outcome outcome)
{
	struct engine_op op = {.type = OP_RECEIVE, .queue = str_of(queue)};
	char receipt[RECEIPT_LEN + 1];
	op.u.receive.max = 1;
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	bool got = op.u.receive.n == 1;
	if (got) {
		snprintf(body, 200, STR_FMT, STR_ARG(op.u.receive.items[0].d.body));
		snprintf(headers, 200, STR_FMT, STR_ARG(op.u.receive.items[0].d.headers));
		memcpy(receipt, op.u.receive.items[0].receipt, sizeof(receipt));
	}
	engine_op_release(&op);
	if (got)
		assert_int_equal(fix_settle(f, queue, receipt, outcome).code, DLQ_OK);
	return got;
}

/* Nothing is left open: what was counted is what there is. */
static void balanced(const struct store_redrive *r)
{
	assert_int_equal(r->total, r->sent + r->skipped + r->cancelled);
}

static void test_filter(void **state)
{
	(void)state;
	struct fix *f = orders();
	char id[ULID_LEN + 1], detail[600], body[200], headers[200];
	const struct store_header t1 = {STR("tenant"), STR("t1")};
	fill(f, "orders", N);
	fill(f, "mails", 4);
	struct engine_op op = redrive_op("orders");
	op.u.redrive.sel.filtered = true;
	op.u.redrive.sel.filter.headers = &t1;
	op.u.redrive.sel.filter.n_headers = 1;
	op.u.redrive.sel.where = STR("(.body | type) == \"object\"");
	assert_int_equal(run(f, &op, id), DLQ_OK);
	struct store_redrive r = job_read(f, id, NULL);
	assert_int_equal(r.state, REDRIVE_DONE);
	assert_int_equal(r.total, N / 4); /* odd and not 3 of 4 */
	assert_int_equal(r.sent, N / 4);
	assert_int_equal(r.looked, N / 2 + 2); /* the header leads, of whatever queue */
	balanced(&r);
	assert_int_equal(fix_counts(f, "orders").ready, N / 4);
	assert_int_equal(fix_counts(f, "mails").ready, 0);
	assert_int_equal(fix_audited(f, "redrive.start", detail), 1);
	assert_string_equal(detail, "header tenant=t1, where (.body | type) == \"object\"");
	int n = 0;
	for (; take(f, "orders", body, headers, OUTCOME_OK); n++)
		assert_string_equal(headers, "{\"tenant\":\"t1\",\"x\":\"1\"}");
	assert_int_equal(n, N / 4);
	fix_free(f);
}

static void test_edit(void **state)
{
	(void)state;
	struct fix *f = orders();
	char id[ULID_LEN + 1], note[600], body[200], headers[200];
	const struct store_header set[] = {{STR("tenant"), STR("acme")}, {STR("mended"), STR("yes")}};
	const struct str remove[] = {STR("x"), STR("not-there")};
	fill(f, "orders", N);
	struct engine_op op = redrive_op("orders");
	op.u.redrive.edit = (struct engine_edit){.program = STR("if .n < 20 then .n = .n + 1 else . end"), .set = set, .n_set = 2, .remove = remove, .n_remove = 2};
	op.u.redrive.guard.first = 2;
	assert_int_equal(run(f, &op, id), DLQ_OK);
	struct store_redrive r = job_read(f, id, NULL);
	assert_int_equal(r.total, N);
	assert_int_equal(r.skipped, N / 4);
	assert_int_equal(r.edit_failed, N / 4);
	assert_int_equal(r.changed, N - N / 4);
	assert_int_equal(r.unchanged, 0);
	assert_int_equal(r.sent, 2); /* the canary, after it has seen all */
	assert_int_equal(items(f, id, ITEM_SKIPPED, note), N / 4);
	assert_true(str_starts(str_of(note), "the edit failed: "));
	int n = 0, plus = 0;
	while (take(f, "orders", body, headers, OUTCOME_OK)) {
		int is = -1;
		char want[200];
		assert_int_equal(sscanf(body, "{\"n\":  %d", &is), 1);
		snprintf(want, sizeof(want), "{\"n\":  %d, \"big\": 12345678901234567890}", is); /* what it did not touch stays */
		assert_string_equal(body, want);
		assert_string_equal(headers, "{\"tenant\":\"acme\",\"mended\":\"yes\"}");
		plus += is <= 20;
		n++;
		engine_step(f->e);
	}
	assert_int_equal(n, N - N / 4);
	assert_int_equal(plus, 15 + 1); /* 0 to 19 without every fourth, and 20 itself */
	r = job_read(f, id, NULL);
	assert_int_equal(r.state, REDRIVE_DONE);
	balanced(&r);
	assert_int_equal(r.succeeded, N - N / 4);
	/* Those that were skipped are dead as they were. */
	assert_int_equal(fix_counts(f, "orders").dead, N / 4);
	fix_free(f);
}

/* A program starts from the original, so a wrong repair is made anew, unless it is to build upon it; the originals stay. */
static void test_edit_twice(void **state)
{
	(void)state;
	struct fix *f = orders();
	char id[ULID_LEN + 1], dead[ULID_LEN + 1], body[200], headers[200];
	fix_dead_with(f, "orders", &(struct fix_dead){.body = "{\"n\": 1}", .headers = "{\"a\":\"1\"}"}, dead);
	assert_int_equal(fix_queue(f, "orders", "{\"policy\": {\"max_attempts\": 1, \"max_redrives\": 9}}"), DLQ_OK);
	for (int i = 0; i < 4; i++) {
		static const char *const want[] = {"{\"n\": 2}", "{\"n\": 2}", "{\"n\": 3}", "{\"n\": 1}"};
		struct str ids[] = {str_of(dead)};
		struct engine_op op = redrive_op(NULL);
		op.u.redrive.sel.ids = ids;
		op.u.redrive.sel.n_ids = 1;
		op.u.redrive.edit.program = i < 3 ? STR(".n += 1") : STR(".");
		op.u.redrive.edit.from_edited = i == 2;
		assert_int_equal(run(f, &op, id), DLQ_OK);
		assert_true(take(f, "orders", body, headers, OUTCOME_PERMANENT));
		assert_string_equal(body, want[i]);
	}
	struct engine_op op = {.type = OP_READ_BODY};
	op.u.read_body.id = str_of(dead);
	op.u.read_body.original = true;
	engine_call(f->e, &op);
	assert_true(str_eqz(op.u.read_body.body, "{\"n\": 1}"));
	engine_op_release(&op);
	fix_free(f);
}

/* One message with headers alone goes back at once. */
static void test_headers_of_one(void **state)
{
	(void)state;
	struct fix *f = orders();
	char id[ULID_LEN + 1], dead[ULID_LEN + 1], body[200], headers[200];
	const struct store_header set = {STR("a"), STR("2")};
	fix_dead_with(f, "orders", &(struct fix_dead){.body = "\xff not text", .headers = "{\"a\":\"1\",\"b\":\"3\"}"}, dead);
	struct str ids[] = {str_of(dead)};
	struct engine_op op = redrive_op(NULL);
	op.u.redrive.sel.ids = ids;
	op.u.redrive.sel.n_ids = 1;
	op.u.redrive.edit.set = &set;
	op.u.redrive.edit.n_set = 1;
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	assert_int_equal(op.u.redrive.out.state, REDRIVE_DONE);
	assert_int_equal(op.u.redrive.out.plan.n, 0);
	engine_op_release(&op);
	assert_true(take(f, "orders", body, headers, OUTCOME_PERMANENT));
	assert_string_equal(headers, "{\"a\":\"2\",\"b\":\"3\"}");
	/* With a guard it waits for its turn, and keeps its edit. */
	op.u.redrive.edit.set = &(struct store_header){STR("b"), STR("4")};
	op.u.redrive.guard.rate = 1;
	assert_int_equal(run(f, &op, id), DLQ_OK);
	clock_advance(f->clock, 5000);
	engine_step(f->e);
	assert_true(take(f, "orders", body, headers, OUTCOME_OK));
	assert_string_equal(headers, "{\"a\":\"2\",\"b\":\"4\"}");
	fix_free(f);
}

static void test_destination(void **state)
{
	(void)state;
	struct fix *f = orders();
	char id[ULID_LEN + 1], body[200], headers[200], detail[600];
	fill(f, "orders", 8);
	struct engine_op op = redrive_op("orders");
	op.u.redrive.to = STR("orders");
	assert_int_equal(run(f, &op, id), DLQ_BAD_REQUEST);
	op.u.redrive.to = STR("nowhere");
	assert_int_equal(run(f, &op, id), DLQ_NOT_FOUND);
	op.u.redrive.to = STR("mails");
	op.u.redrive.edit.program = STR(".moved = true");
	assert_int_equal(run(f, &op, id), DLQ_OK);
	struct store_redrive r = job_read(f, id, NULL);
	assert_int_equal(r.sent, 6);
	assert_int_equal(r.skipped, 2);
	assert_int_equal(fix_counts(f, "mails").ready, 6);
	fix_audited(f, "redrive.start", detail);
	assert_string_equal(detail, "all, edited by jq .moved = true, to mails");
	while (take(f, "mails", body, headers, OUTCOME_OK))
		assert_non_null(strstr(body, "12345678901234567890, \"moved\": true}"));
	r = job_read(f, id, NULL);
	assert_int_equal(r.succeeded, 6);
	balanced(&r);
	fix_free(f);
}

/* A program that runs away halts the job before anything went back; a resume tries again, a cancel ends it. */
static void test_halts(void **state)
{
	(void)state;
	struct fix *f = orders();
	char id[ULID_LEN + 1], why[600], detail[600];
	fill(f, "orders", 12);
	struct engine_op op = redrive_op("orders");
	op.u.redrive.edit.program = STR("if .n == 5 then [range(1e12)] else . end");
	op.u.redrive.guard.first = 3;
	assert_int_equal(run(f, &op, id), DLQ_OK);
	struct store_redrive r = job_read(f, id, why);
	assert_int_equal(r.state, REDRIVE_HALTED);
	assert_true(str_starts(str_of(why), "edit: dead letter 01"));
	assert_int_equal(r.sent, 0);
	assert_true(r.plan_next > 0);
	assert_int_equal(fix_counts(f, "orders").ready, 0);
	assert_int_equal(fix_audited(f, "redrive.halt", detail), 1);
	fix_restart(f);
	engine_step(f->e);
	assert_int_equal(job_read(f, id, NULL).state, REDRIVE_HALTED);
	assert_int_equal(control(f, id, REDRIVE_RUNNING), DLQ_OK);
	r = job_read(f, id, why);
	assert_int_equal(r.state, REDRIVE_HALTED); /* it is no better now */
	assert_int_equal(r.canary_until, 0);       /* and no canary was gone past */
	assert_int_equal(fix_audited(f, "redrive.halt", detail), 2);
	assert_int_equal(control(f, id, REDRIVE_CANCELLED), DLQ_OK);
	r = job_read(f, id, NULL);
	balanced(&r);
	/* All are free again. */
	op = redrive_op("orders");
	assert_int_equal(run(f, &op, id), DLQ_OK);
	assert_int_equal(job_read(f, id, NULL).sent, 12);
	fix_free(f);
}

/* What is wrong with a program is said at once, and nothing is written. */
static void test_refused(void **state)
{
	(void)state;
	struct fix *f = orders();
	char id[ULID_LEN + 1], dead[ULID_LEN + 1];
	fill(f, "orders", 3);
	fix_dead_with(f, "orders", &(struct fix_dead){.body = "{}"}, dead);
	struct str ids[] = {str_of(dead), str_of(dead)};
	struct engine_op op = redrive_op("orders");
	op.u.redrive.edit.program = STR(".n = ");
	assert_int_equal(run(f, &op, id), DLQ_BAD_REQUEST);
	op.u.redrive.edit.program = STR("input");
	assert_int_equal(run(f, &op, id), DLQ_BAD_REQUEST);
	op.u.redrive.edit.program = STR("");
	op.u.redrive.sel.where = STR(".a |");
	assert_int_equal(run(f, &op, id), DLQ_BAD_REQUEST);
	assert_non_null(strstr(op.err.detail, "where: "));
	op = redrive_op("orders");
	op.u.redrive.sel.filtered = true;
	op.u.redrive.sel.ids = ids;
	op.u.redrive.sel.n_ids = 1;
	assert_int_equal(run(f, &op, id), DLQ_BAD_REQUEST);
	op.u.redrive.sel.filtered = false;
	op.u.redrive.sel.n_ids = 2;
	op.u.redrive.edit.program = STR(".");
	assert_int_equal(run(f, &op, id), DLQ_BAD_REQUEST); /* named twice */
	op = redrive_op("orders");
	op.u.redrive.edit.program = STR(".");
	op.u.redrive.dry_run = true;
	assert_int_equal(run(f, &op, id), DLQ_BAD_REQUEST);
	op = redrive_op("orders");
	op.u.redrive.edit.set = &(struct store_header){STR("Bad Name"), STR("1")};
	op.u.redrive.edit.n_set = 1;
	assert_int_equal(run(f, &op, id), DLQ_BAD_REQUEST);
	op = redrive_op("orders");
	op.u.redrive.sel.group = STR("0123456789abcdef0123456789abcdef");
	op.u.redrive.edit.program = STR(".");
	assert_int_equal(run(f, &op, id), DLQ_NOT_FOUND);
	assert_int_equal(fix_audited(f, "redrive.start", NULL), 0);
	/* A guard that makes no sense is refused when there is nothing to put back, too. */
	op = redrive_op("mails");
	op.u.redrive.guard.first = -1;
	assert_int_equal(run(f, &op, id), DLQ_BAD_REQUEST);
	op.u.redrive.dry_run = true;
	assert_int_equal(run(f, &op, id), DLQ_BAD_REQUEST);
	fix_free(f);
}

/* Used up redrives: skipped with a note, or on with override. */
static void test_limit(void **state)
{
	(void)state;
	struct fix *f = orders();
	char id[ULID_LEN + 1], note[600], body[200], headers[200];
	assert_int_equal(fix_queue(f, "orders", "{\"policy\": {\"max_attempts\": 1, \"max_redrives\": 1}}"), DLQ_OK);
	fill(f, "orders", 2);
	struct engine_op op = redrive_op("orders");
	assert_int_equal(run(f, &op, id), DLQ_OK);
	assert_int_equal(fix_queue(f, "orders", PLAIN), DLQ_OK); /* two are allowed while they die */
	while (take(f, "orders", body, headers, OUTCOME_PERMANENT))
		;
	assert_int_equal(fix_queue(f, "orders", "{\"policy\": {\"max_attempts\": 1, \"max_redrives\": 1}}"), DLQ_OK);
	fill(f, "orders", 1);
	assert_int_equal(fix_counts(f, "orders").dead, 3);
	op.u.redrive.sel.where = STR("true");
	assert_int_equal(run(f, &op, id), DLQ_OK);
	struct store_redrive r = job_read(f, id, NULL);
	assert_int_equal(r.total, 3);
	assert_int_equal(r.sent, 1);
	assert_int_equal(r.skipped, 2);
	balanced(&r);
	assert_int_equal(items(f, id, ITEM_SKIPPED, note), 2);
	assert_string_equal(note, "was redriven 1 times, the queue allows 1 (max_redrives)");
	/* The same without a plan. */
	op.u.redrive.sel.where = STR("");
	assert_int_equal(run(f, &op, id), DLQ_OK);
	r = job_read(f, id, NULL);
	assert_int_equal(r.skipped, 2);
	balanced(&r);
	op.u.redrive.override_limit = true;
	op.u.redrive.sel.where = STR("true");
	assert_int_equal(run(f, &op, id), DLQ_OK);
	assert_int_equal(job_read(f, id, NULL).sent, 2);
	fix_free(f);
}

/* A kill in the middle of selecting: what was picked is not picked twice, what dies meanwhile is no member. */
static void test_restart(void **state)
{
	(void)state;
	struct fix *f = orders();
	char id[ULID_LEN + 1];
	struct dlq_err err = {0};
	enum { MANY = 700 };
	fill(f, "orders", MANY);
	struct engine_op op = redrive_op("orders");
	op.u.redrive.sel.where = STR("true");
	op.u.redrive.edit.set = &(struct store_header){STR("mended"), STR("1")};
	op.u.redrive.edit.n_set = 1;
	op.port = &f->in.port;
	engine_submit(f->e, &op);
	/* One turn of each, by hand: the plan is written, then the first 256 picks. */
	scan_once(f->e);
	assert_true(writer_once(f->e));
	assert_ptr_equal(inbox_try(&f->in), &op);
	memcpy(id, op.u.redrive.out.redrive_id, sizeof(id));
	engine_op_release(&op);
	for (int turn = 0; turn < 2; turn++) {
		writer_once(f->e); /* after a restart: it reads what is under way */
		scan_once(f->e);
		writer_once(f->e);
		struct store_redrive r = {0};
		struct arena a = {0};
		int64_t n;
		assert_int_equal(store_id_seq(str_of(id), &n, &err), DLQ_OK);
		assert_int_equal(f->e->ops->read_redrive(f->e->wreader, n, &a, &r, &err), DLQ_OK);
		arena_release(&a);
		assert_int_equal(r.total, 256 * (turn + 1));
		assert_true(r.plan_next > 0);
		assert_int_equal(r.sent, 0);
		fix_restart(f);
	}
	engine_step(f->e);
	struct store_redrive r = job_read(f, id, NULL);
	assert_int_equal(r.state, REDRIVE_DONE);
	assert_int_equal(r.total, MANY);
	assert_int_equal(r.sent, MANY);
	assert_int_equal(r.looked, MANY);
	assert_int_equal(r.changed, MANY);
	balanced(&r);
	assert_int_equal(fix_counts(f, "orders").ready, MANY);
	fix_free(f);
}

/* Paused while it selects, it looks at nothing; cancelled, its members are free. */
static void test_pause(void **state)
{
	(void)state;
	struct fix *f = orders();
	char id[ULID_LEN + 1];
	fill(f, "orders", 300);
	struct engine_op op = redrive_op("orders");
	op.u.redrive.sel.where = STR("true");
	op.port = &f->in.port;
	engine_submit(f->e, &op);
	scan_once(f->e);
	writer_once(f->e);
	assert_ptr_equal(inbox_try(&f->in), &op);
	memcpy(id, op.u.redrive.out.redrive_id, sizeof(id));
	engine_op_release(&op);
	struct engine_op pause = {.type = OP_REDRIVE_CONTROL, .port = &f->in.port};
	pause.u.redrive_control.id = str_of(id);
	pause.u.redrive_control.want = REDRIVE_PAUSED;
	engine_submit(f->e, &pause);
	writer_once(f->e);
	assert_ptr_equal(inbox_try(&f->in), &pause);
	assert_int_equal(pause.code, DLQ_OK);
	engine_op_release(&pause);
	int64_t next = engine_step(f->e);
	assert_true(next > clock_now_ms(f->clock));
	struct store_redrive r = job_read(f, id, NULL);
	assert_int_equal(r.state, REDRIVE_PAUSED);
	assert_true(r.plan_next > 0);
	assert_int_equal(r.sent, 0);
	assert_int_equal(control(f, id, REDRIVE_RUNNING), DLQ_OK);
	r = job_read(f, id, NULL);
	assert_int_equal(r.state, REDRIVE_DONE);
	assert_int_equal(r.sent, 300);
	fix_free(f);
}

static struct engine_op preview_op(const char *queue, const char *program, int limit)
{
	struct engine_op op = {.type = OP_PREVIEW, .queue = str_of(queue)};
	op.u.preview.sel.filter.state = op.u.preview.sel.filter.reason = -1;
	op.u.preview.edit.program = str_of(program);
	op.u.preview.limit = limit;
	return op;
}

static void test_preview(void **state)
{
	(void)state;
	struct fix *f = orders();
	char id[ULID_LEN + 1];
	fill(f, "orders", N);
	struct engine_op op = preview_op("orders", "if .n == 0 then . else .n = 7 | .copy = .big end", 3);
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	assert_int_equal(op.u.preview.selected, N);
	assert_int_equal(op.u.preview.failed, N / 4);
	assert_int_equal(op.u.preview.unchanged, 1);
	assert_int_equal(op.u.preview.changed, N - N / 4 - 1);
	assert_int_equal(op.u.preview.n, 3);
	assert_int_equal(op.u.preview.next_no, 0);
	assert_true(op.u.preview.items[0].failed); /* 39 is not JSON */
	const struct engine_preview_item *it = &op.u.preview.items[1];
	assert_int_equal(it->n_changes, 2);
	assert_true(str_eqz(it->changes[0].path, ".n") && str_eqz(it->changes[0].old, "38") && str_eqz(it->changes[0].new, "7"));
	assert_true(it->warning.n > 0);
	engine_op_release(&op);
	assert_int_equal(fix_counts(f, "orders").dead, N); /* nothing was done */
	struct engine_op bad = preview_op("orders", ".", 101);
	engine_call(f->e, &bad);
	assert_int_equal(bad.code, DLQ_BAD_REQUEST);
	bad = preview_op("orders", ".", 1);
	bad.u.preview.action = ACTION_DISCARD;
	engine_call(f->e, &bad);
	assert_int_equal(bad.code, DLQ_BAD_REQUEST);
	/* Ids, with one that was put back meanwhile. */
	char dead[2][ULID_LEN + 1];
	for (int i = 0; i < 2; i++)
		fix_dead_with(f, "mails", &(struct fix_dead){.body = "[1]"}, dead[i]);
	struct str ids[] = {str_of(dead[0]), str_of(dead[1])};
	struct engine_op one = redrive_op(NULL);
	one.u.redrive.sel.ids = ids;
	one.u.redrive.sel.n_ids = 1;
	assert_int_equal(run(f, &one, id), DLQ_OK);
	op = preview_op(NULL, ".[0] = 2", 10);
	op.u.preview.sel.ids = ids;
	op.u.preview.sel.n_ids = 2;
	engine_call(f->e, &op);
	assert_int_equal(op.u.preview.selected, 1);
	assert_int_equal(op.u.preview.changed, 1);
	assert_string_equal(op.u.preview.items[0].d.dlq_id, dead[1]);
	engine_op_release(&op);
	fix_free(f);
}

/* On the threads: several plans at once, with previews between their steps. */
static void test_threads(void **state)
{
	(void)state;
	enum { JOBS = 3, EACH = 600 };
	struct fix *f = fix_new(&(struct engine_options){.jq_item_ms = 5000});
	char id[JOBS][ULID_LEN + 1], queue[JOBS][8];
	for (int i = 0; i < JOBS; i++) {
		snprintf(queue[i], sizeof(queue[i]), "q%d", i);
		assert_int_equal(fix_queue(f, queue[i], PLAIN), DLQ_OK);
		fill(f, queue[i], EACH);
	}
	for (int i = 0; i < JOBS; i++) {
		struct engine_op op = redrive_op(queue[i]);
		op.u.redrive.edit.program = STR(".n += 1");
		assert_int_equal(run(f, &op, id[i]), DLQ_OK);
	}
	struct engine_op scan = preview_op("q0", ".n = 1", 5);
	for (int i = 0; i < JOBS;) {
		struct store_redrive r = job_read(f, id[i], NULL);
		assert_true(r.state == REDRIVE_RUNNING || r.state == REDRIVE_DONE);
		assert_true(!r.plan_next || !r.sent); /* nothing goes back before all were looked at */
		scan.u.preview.before_no = 0;
		engine_call(f->e, &scan);
		assert_int_equal(scan.code, DLQ_OK);
		engine_op_release(&scan);
		i += r.state == REDRIVE_DONE;
	}
	for (int i = 0; i < JOBS; i++) {
		struct store_redrive r = job_read(f, id[i], NULL);
		assert_int_equal(r.total, EACH);
		assert_int_equal(r.changed, EACH - EACH / 4);
		balanced(&r);
		assert_int_equal(fix_counts(f, queue[i]).ready, EACH - EACH / 4);
	}
	fix_free(f);
}

/* ---- the plan as JSON ---- */

static void test_json(void **state)
{
	(void)state;
	struct arena a = {0};
	struct buf text = {0}, again = {0};
	struct dlq_err err = {0};
	struct str ids[] = {STR("x"), STR("y")}, remove[] = {STR("b")}, queue;
	const struct store_header set[] = {{STR("a"), STR("\"1\"")}}, has[] = {{STR("tenant"), STR("\xc3\xa4")}};
	struct engine_selection s = {.filtered = true, .group = STR("g"), .redrive = STR("r"), .where = STR(".a == \"b\\n\"")}, got;
	struct engine_edit e = {.program = STR(".b = 1"), .set = set, .n_set = 1, .remove = remove, .n_remove = 1}, got_edit;
	s.filter = (struct store_dead_filter){.state = DEAD_ARCHIVED, .reason = REASON_EXPIRED, .error_type = STR("Boom"), .key = STR("k"), .message_id = STR("m"),
	                                      .died_from_ms = 1800000000001, .died_to_ms = 1800000000002, .expires_before = 77, .text = STR("t"),
	                                      .headers = has, .n_headers = 1};
	plan_write(&s, &e, STR("orders"), &text);
	assert_int_equal(plan_read(&a, buf_str(&text), &got, &got_edit, &queue, &err), DLQ_OK);
	plan_write(&got, &got_edit, queue, &again);
	assert_true(str_eq(buf_str(&text), buf_str(&again)));
	assert_true(got.filtered && got.filter.expires_before == 77 && str_eqz(queue, "orders"));
	buf_clear(&text);
	buf_clear(&again);
	s = (struct engine_selection){.ids = ids, .n_ids = 2, .filter = {.state = -1, .reason = -1}};
	plan_write(&s, NULL, STR(""), &text);
	assert_true(str_eqz(buf_str(&text), "{\"ids\":[\"x\",\"y\"]}"));
	assert_int_equal(plan_read(&a, buf_str(&text), &got, &got_edit, &queue, &err), DLQ_OK);
	assert_int_equal(got.n_ids, 2);
	assert_false(got.filtered);
	static const char *const bad[] = {"", "[]", "{\"ids\": 5", "{\"state\": \"gone\"}", "{\"from\": \"now\"}", "{\"edit\": {\"set_headers\": {\"A B\": \"1\"}}}",
	                                  "{\"ids\": [\"x\"], \"where\": \".\"}", "{\"undo\": \"x\", \"group\": \"y\"}"};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_not_equal(plan_read(&a, str_of(bad[i]), &got, &got_edit, &queue, &err), DLQ_OK);
	buf_release(&text);
	buf_release(&again);
	arena_release(&a);
}

static void test_headers(void **state)
{
	(void)state;
	struct arena a = {0};
	struct dlq_err err = {0};
	struct str out;
	bool changed;
	const struct store_header same = {STR("a"), STR("1")};
	struct engine_edit e = {.set = &same, .n_set = 1};
	assert_int_equal(edit_headers(&e, STR("{\"a\":\"1\"}"), &a, &out, &changed, &err), DLQ_OK);
	assert_false(changed);
	assert_int_equal(edit_headers(&e, STR(""), &a, &out, &changed, &err), DLQ_OK);
	assert_true(changed && str_eqz(out, "{\"a\":\"1\"}"));
	struct str gone = STR("a");
	e = (struct engine_edit){.remove = &gone, .n_remove = 1};
	assert_int_equal(edit_headers(&e, STR("{\"a\":\"1\"}"), &a, &out, &changed, &err), DLQ_OK);
	assert_true(changed && str_eqz(out, "{}"));
	assert_int_equal(edit_headers(&e, STR("not json"), &a, &out, &changed, &err), DLQ_BAD_REQUEST);
	/* 64 are there, one more is too many. */
	struct buf many = {0};
	for (int i = 0; i < 64; i++)
		buf_addf(&many, "%s\"h%d\":\"1\"", i ? "," : "{", i);
	buf_addc(&many, '}');
	e = (struct engine_edit){.set = &same, .n_set = 1};
	assert_int_equal(edit_headers(&e, buf_str(&many), &a, &out, &changed, &err), DLQ_BAD_REQUEST);
	const struct store_header there = {STR("h5"), STR("2")};
	e.set = &there;
	assert_int_equal(edit_headers(&e, buf_str(&many), &a, &out, &changed, &err), DLQ_OK);
	assert_true(changed);
	buf_release(&many);
	arena_release(&a);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_filter),  cmocka_unit_test(test_edit),    cmocka_unit_test(test_edit_twice), cmocka_unit_test(test_headers_of_one),
	    cmocka_unit_test(test_destination), cmocka_unit_test(test_halts), cmocka_unit_test(test_refused), cmocka_unit_test(test_limit),
	    cmocka_unit_test(test_restart), cmocka_unit_test(test_pause),   cmocka_unit_test(test_preview),    cmocka_unit_test(test_json),
	    cmocka_unit_test(test_headers), cmocka_unit_test(test_threads),
	};
	int child = fix_jq_child(argc, argv);
	return child >= 0 ? child : cmocka_run_group_tests(tests, NULL, NULL);
}
