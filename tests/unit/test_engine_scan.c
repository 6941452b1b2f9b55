/* Searching, exporting and counting on the scan thread: by text, by `where`, in steps, within limits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/record.h"
#include "engine/scan_int.h"
#include "lib_engine.h"

#define PLAIN "{\"policy\": {\"max_attempts\": 1, \"max_redrives\": 3, \"retention\": \"10d\"}}"

static struct fix *orders(bool single_step)
{
	struct fix *f = fix_new(&(struct engine_options){.single_step = single_step, .jq_item_ms = 300, .jq_memory_bytes = (int64_t)32 << 20});
	assert_int_equal(fix_queue(f, "orders", PLAIN), DLQ_OK);
	assert_int_equal(fix_queue(f, "mails", PLAIN), DLQ_OK);
	return f;
}

/* n orders: {"n": 0, "sku": "A0"}, every third is not JSON. */
static void fill(struct fix *f, int n)
{
	for (int i = 0; i < n; i++) {
		char body[80], headers[80];
		snprintf(body, sizeof(body), i % 3 == 2 ? "not json %d" : "{\"n\": %d, \"sku\": \"A%d\"}", i, i % 10);
		snprintf(headers, sizeof(headers), "{\"tenant\":\"t%d\"}", i % 4);
		fix_dead_with(f, i % 2 ? "mails" : "orders", &(struct fix_dead){.body = body, .headers = headers, .type = i % 5 ? "Boom" : "Bang"}, NULL);
	}
}

static struct engine_op scan_op(const char *queue, const char *where, int limit)
{
	struct engine_op op = {.type = OP_SCAN_DEAD, .queue = str_of(queue)};
	op.u.scan_dead.sel.filter = (struct store_dead_filter){.state = DEAD_DEAD, .reason = -1, .limit = limit};
	op.u.scan_dead.sel.where = str_of(where);
	return op;
}

/* All pages of op; how many items, and looked in all. */
static int all_pages(struct fix *f, struct engine_op *op, int64_t *looked)
{
	int n = 0;
	int64_t before = INT64_MAX;
	*looked = 0;
	op->u.scan_dead.sel.filter.before_no = 0;
	for (;;) {
		engine_call(f->e, op);
		if (op->code)
			fail_msg("%s", op->err.detail);
		assert_true(op->u.scan_dead.page.n <= op->u.scan_dead.sel.filter.limit);
		for (int i = 0; i < op->u.scan_dead.page.n; i++) {
			assert_true(op->u.scan_dead.page.items[i].died_no < before); /* newest first, each once */
			before = op->u.scan_dead.page.items[i].died_no;
		}
		n += op->u.scan_dead.page.n;
		*looked += op->u.scan_dead.scan.looked;
		int64_t next = op->u.scan_dead.page.next_no;
		engine_op_release(op);
		if (!next)
			return n;
		assert_true(!op->u.scan_dead.sel.filter.before_no || next < op->u.scan_dead.sel.filter.before_no);
		op->u.scan_dead.sel.filter.before_no = next;
	}
}

static void test_where(void **state)
{
	(void)state;
	struct fix *f = orders(true);
	int64_t looked;
	fill(f, 60);
	struct engine_op op = scan_op(NULL, ".body.n? // 0 | . >= 30", 7);
	assert_int_equal(all_pages(f, &op, &looked), 20); /* 30, 31, 33, 34, ... 58 */
	assert_int_equal(looked, 60);
	op = scan_op("orders", "true", 1000);
	assert_int_equal(all_pages(f, &op, &looked), 30);
	assert_int_equal(looked, 30); /* the queue is indexed */
	op = scan_op(NULL, ".headers.tenant == \"t1\" and .error.type == \"Bang\" and .queue == \"mails\"", 10);
	assert_int_equal(all_pages(f, &op, &looked), 3); /* 5, 25, 45 */
	op = scan_op(NULL, ".body | type == \"string\"", 100);
	assert_int_equal(all_pages(f, &op, &looked), 20);
	op = scan_op(NULL, "empty", 100);
	assert_int_equal(all_pages(f, &op, &looked), 0);
	fix_free(f);
}

/* What where cannot be asked of does not match, and is counted. */
static void test_where_errors(void **state)
{
	(void)state;
	struct fix *f = orders(true);
	fill(f, 30);
	struct engine_op op = scan_op(NULL, ".body.n > 5", 1000);
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	assert_int_equal(op.u.scan_dead.scan.errors, 10); /* text has no .n */
	assert_true(str_starts(op.u.scan_dead.scan.first_error, "dead letter 01"));
	assert_int_equal(op.u.scan_dead.page.n, 16);
	engine_op_release(&op);
	op = scan_op(NULL, ".body.n >", 10);
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_BAD_REQUEST);
	assert_true(strstr(op.err.detail, "where: ") == op.err.detail);
	engine_op_release(&op);
	op = scan_op(NULL, "env", 10);
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_BAD_REQUEST);
	engine_op_release(&op);
	/* A program that runs away ends the search, names the message, and hurts nothing. */
	op = scan_op(NULL, "if .body.n? == 10 then [range(1e12)] | length > 0 else true end", 100);
	engine_call(f->e, &op);
	assert_true(op.code == DLQ_TIMEOUT || op.code == DLQ_BAD_REQUEST);
	assert_non_null(strstr(op.err.detail, "where: dead letter 01"));
	engine_op_release(&op);
	op = scan_op(NULL, "true", 100);
	engine_call(f->e, &op);
	assert_int_equal(op.u.scan_dead.page.n, 30);
	engine_op_release(&op);
	op = scan_op("nowhere", "true", 100);
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_NOT_FOUND);
	engine_op_release(&op);
	op = scan_op("orders", "true", 1001);
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_BAD_REQUEST);
	engine_op_release(&op);
	fix_free(f);
}

static void test_no_jq(void **state)
{
	(void)state;
	struct fix *f = orders(true);
	fill(f, 3);
	f->e->o.jq_program = NULL;
	struct engine_op op = scan_op(NULL, "true", 10);
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_BAD_REQUEST);
	engine_op_release(&op);
	op = scan_op(NULL, NULL, 10); /* the rest works without */
	op.u.scan_dead.sel.filter.text = STR("not json 2");
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	assert_int_equal(op.u.scan_dead.page.n, 1);
	assert_int_equal(op.u.scan_dead.scan.looked, 3);
	engine_op_release(&op);
	fix_free(f);
}

static void test_names(void **state)
{
	(void)state;
	struct fix *f = orders(true);
	char group[GROUP_ID_LEN + 1];
	int64_t looked;
	fill(f, 40);
	struct engine_op groups = {.type = OP_READ_GROUPS, .queue = STR("orders")};
	groups.u.read_groups.filter.limit = 10;
	engine_call(f->e, &groups);
	assert_int_equal(groups.u.read_groups.page.n, 2);
	int64_t dead = groups.u.read_groups.page.items[0].dead;
	group_id_text(groups.u.read_groups.page.items[0].fp, group);
	engine_op_release(&groups);
	struct engine_op op = scan_op(NULL, "true", 3);
	op.u.scan_dead.sel.group = str_of(group);
	assert_int_equal(all_pages(f, &op, &looked), dead);
	assert_int_equal(looked, dead);
	op.queue = STR("mails");
	op.u.scan_dead.sel.filter.before_no = 0;
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_NOT_FOUND); /* it is of orders */
	engine_op_release(&op);
	const struct store_header acme = {STR("tenant"), STR("t3")};
	op = scan_op(NULL, ".body.n? % 2 == 1", 100);
	op.u.scan_dead.sel.filter.headers = &acme;
	op.u.scan_dead.sel.filter.n_headers = 1;
	assert_int_equal(all_pages(f, &op, &looked), 7); /* 3, 7, 15, 19, 27, 31, 39 */
	assert_int_equal(looked, 10);
	op = scan_op(NULL, "true", 10);
	op.u.scan_dead.sel.redrive = STR("01ARZ3NDEKTSV4RRFFQ69G5FAV");
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_NOT_FOUND);
	engine_op_release(&op);
	op = scan_op(NULL, "true", 10);
	op.u.scan_dead.sel.filter.key = STR("k");
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_BAD_REQUEST);
	engine_op_release(&op);
	fix_free(f);
}

/* On the thread: more than may wait is told so, and all come back. */
static void test_bounded(void **state)
{
	(void)state;
	struct fix *f = orders(false);
	enum { N = SCAN_WAITING_MAX + 40 };
	struct engine_op *ops = calloc(N, sizeof(*ops));
	int busy = 0, ok = 0;
	fill(f, 12);
	for (int i = 0; i < N; i++) {
		ops[i] = scan_op(NULL, "true", 100);
		ops[i].port = &f->in.port;
		ops[i].next = i + 1 < N ? &ops[i + 1] : NULL;
	}
	engine_submit(f->e, ops);
	for (int i = 0; i < N; i++) {
		struct engine_op *op = inbox_wait(&f->in);
		busy += op->code == DLQ_BUSY;
		ok += !op->code && op->u.scan_dead.page.n == 12;
		engine_op_release(op);
	}
	assert_int_equal(busy + ok, N);
	assert_true(ok >= SCAN_WAITING_MAX);
	/* Those that wait when it closes come back, too. */
	for (int i = 0; i < 50; i++) {
		ops[i] = scan_op(NULL, ".body | tostring | test(\"zzz\")", 100);
		ops[i].port = &f->in.port;
		ops[i].next = i + 1 < 50 ? &ops[i + 1] : NULL;
	}
	engine_submit(f->e, ops);
	engine_close(f->e);
	for (int i = 0; i < 50; i++) {
		struct engine_op *op = inbox_try(&f->in);
		assert_non_null(op);
		assert_true(op->code == DLQ_OK || op->code == DLQ_SHUTTING_DOWN);
		engine_op_release(op);
	}
	free(ops);
	fix_open(f);
	fix_free(f);
}

static void test_export(void **state)
{
	(void)state;
	struct fix *f = orders(true);
	int lines = 0, pages = 0;
	fill(f, 25);
	struct engine_op op = {.type = OP_EXPORT};
	op.u.export.sel.filter = (struct store_dead_filter){.state = DEAD_DEAD, .reason = -1, .limit = 10};
	do {
		engine_call(f->e, &op);
		assert_int_equal(op.code, DLQ_OK);
		struct str l = op.u.export.lines;
		int n = 0;
		for (size_t i = 0; i < l.n; i++)
			n += l.p[i] == '\n';
		assert_int_equal(n, op.u.export.n);
		assert_true(str_starts(l, "{\"dlq_id\":\"01") && l.p[l.n - 1] == '\n');
		assert_non_null(memmem(l.p, l.n, "\"history\":[{", 12));
		lines += n;
		pages++;
		op.u.export.sel.filter.before_no = op.u.export.next_no;
		engine_op_release(&op);
	} while (op.u.export.next_no);
	assert_int_equal(lines, 25);
	assert_int_equal(pages, 3);
	fix_free(f);
}

static void test_expiring(void **state)
{
	(void)state;
	struct fix *f = orders(true);
	struct engine_op op = {.type = OP_READ_EXPIRING};
	fill(f, 10);
	op.u.read_expiring.within_ms = 3 * (int64_t)86400000;
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	assert_int_equal(op.u.read_expiring.n, 0);
	clock_advance(f->clock, 8 * (int64_t)86400000);
	engine_step(f->e);
	engine_call(f->e, &op);
	assert_int_equal(op.u.read_expiring.n, 10);
	op.queue = STR("mails");
	engine_call(f->e, &op);
	assert_int_equal(op.u.read_expiring.n, 5);
	op.queue = STR("nowhere");
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_NOT_FOUND);
	/* The document says it, too. */
	struct engine_op scan = scan_op(NULL, ".expires_soon and (.expires_at | startswith(\"20\"))", 100);
	engine_call(f->e, &scan);
	assert_int_equal(scan.u.scan_dead.page.n, 10);
	engine_op_release(&scan);
	fix_free(f);
}

/* At the end of retention they are in the archive, and found there. */
static void test_archive(void **state)
{
	(void)state;
	struct fix *f = orders(true);
	char id[ULID_LEN + 1];
	fill(f, 6);
	fix_dead_with(f, "orders", &(struct fix_dead){.body = "{\"a\": 1}"}, id);
	clock_advance(f->clock, 11 * (int64_t)86400000);
	engine_step(f->e);
	assert_int_equal(fix_counts(f, "orders").archived, 4);
	struct engine_op op = {.type = OP_READ_ARCHIVE, .queue = STR("orders")};
	op.u.read_archive.limit = 100;
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	assert_int_equal(op.u.read_archive.n, 4);
	engine_op_release(&op);
	op = (struct engine_op){.type = OP_READ_ARCHIVED};
	op.u.read_archived.id = str_of(id);
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	assert_non_null(memmem(op.u.read_archived.record.p, op.u.read_archived.record.n, "\"body\":\"{\\\"a\\\": 1}\"", 19));
	engine_op_release(&op);
	op = (struct engine_op){.type = OP_READ_ARCHIVE};
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_BAD_REQUEST);
	fix_free(f);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_where),  cmocka_unit_test(test_where_errors), cmocka_unit_test(test_no_jq),    cmocka_unit_test(test_names),
	    cmocka_unit_test(test_bounded), cmocka_unit_test(test_export),       cmocka_unit_test(test_expiring), cmocka_unit_test(test_archive),
	};
	int child = fix_jq_child(argc, argv);
	return child >= 0 ? child : cmocka_run_group_tests(tests, NULL, NULL);
}
