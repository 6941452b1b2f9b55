/* Exports read back: into the same store, into another, without loss; and records that are no records. */
#include <stdio.h>
#include <string.h>

#include "engine/record.h"
#include "lib_engine.h"

#define PLAIN "{\"policy\": {\"max_attempts\": 2, \"backoff\": [\"1s\"], \"retention\": \"10d\", \"max_redrives\": 5}}"

static struct fix *orders(void)
{
	struct fix *f = fix_new(&(struct engine_options){.single_step = true});
	assert_int_equal(fix_queue(f, "orders", PLAIN), DLQ_OK);
	return f;
}

/* All lines of an export, copied. */
static int export_all(struct fix *f, int state, char **lines, struct str *out, int max)
{
	struct engine_op op = {.type = OP_EXPORT};
	int n = 0;
	op.u.export.sel.filter = (struct store_dead_filter){.state = state, .reason = -1, .limit = max};
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	*lines = mem_strdup(op.u.export.lines);
	const char *p = *lines;
	for (const char *eol; (eol = strchr(p, '\n')); p = eol + 1)
		out[n++] = (struct str){p, (size_t)(eol - p)};
	assert_int_equal(n, op.u.export.n);
	engine_op_release(&op);
	return n;
}

static struct engine_op import(struct fix *f, struct str *records, int n, const char *queue)
{
	struct engine_op op = {.type = OP_IMPORT_PARSE, .queue = str_of(queue), .operator= STR("ann")};
	op.u.import.records = records;
	op.u.import.n = n;
	op.u.import.reason = STR("from elsewhere");
	engine_call(f->e, &op);
	if (op.code)
		return op;
	op.type = OP_IMPORT;
	engine_call(f->e, &op);
	return op;
}

/* A dead letter with all that can be: two lives, headers and body edited, a body that is no text. */
static void rich(struct fix *f, char id[ULID_LEN + 1])
{
	char receipt[RECEIPT_LEN + 1];
	struct str edited = {"{\"new\": true}", 13};
	const struct store_header set = {STR("tenant"), STR("b")};
	fix_dead_with(f, "orders", &(struct fix_dead){.body = "bin \xff\xfe", .headers = "{\"tenant\":\"a\",\"q\":\"\xc3\xa4\\\"\"}", .key = "k1",
	                                              .type = "Bang", .message = "line 1\nline \"2\""}, id);
	struct str ids[] = {str_of(id)};
	struct engine_op op = {.type = OP_REDRIVE, .operator= STR("ann")};
	op.u.redrive.reason = STR("try");
	op.u.redrive.sel.ids = ids;
	op.u.redrive.sel.n_ids = 1;
	op.u.redrive.body = &edited;
	op.u.redrive.edit.set = &set;
	op.u.redrive.edit.n_set = 1;
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	engine_op_release(&op);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fix_receive(f, "orders", receipt), 1);
		fix_settle(f, "orders", receipt, OUTCOME_TRANSIENT);
		clock_advance(f->clock, 2000);
	}
}

/* The record without what the place gives it: ids, the time that is left, the last job. */
static void strip(struct str line, char *out, size_t size)
{
	static const char *const members[] = {"\"dlq_id\":\"", "\"imported_id\":\"", "\"expires_at\":\"", "\"redrive_id\":\""};
	snprintf(out, size, STR_FMT, STR_ARG(line));
	for (size_t i = 0; i < ARRAY_LEN(members); i++) {
		char *at = strstr(out, members[i]);
		char *end = at ? strchr(at + strlen(members[i]), '"') : NULL;
		if (end)
			memmove(at, end + 1 + (end[1] == ','), strlen(end + 1 + (end[1] == ',')) + 1);
	}
}

static void test_elsewhere(void **state)
{
	(void)state;
	struct fix *from = orders(), *to = orders();
	char *lines, *again, id[ULID_LEN + 1];
	static char a[8192], b[8192];
	struct str records[10], back[10];
	rich(from, id);
	fix_dead_with(from, "orders", &(struct fix_dead){.body = "plain"}, NULL);
	int n = export_all(from, DEAD_DEAD, &lines, records, 10);
	assert_int_equal(n, 2);
	assert_non_null(memmem(records[0].p, records[0].n, "\"original_headers\"", 18) ?: memmem(records[1].p, records[1].n, "\"original_headers\"", 18));
	struct engine_op op = import(to, records, n, NULL);
	assert_int_equal(op.code, DLQ_OK);
	assert_int_equal(op.u.import.imported, 2);
	for (int i = 0; i < n; i++) {
		assert_int_equal(op.u.import.results[i].code, DLQ_OK);
		assert_false(op.u.import.results[i].exists);
		assert_int_equal(strlen(op.u.import.results[i].dlq_id), ULID_LEN);
	}
	engine_op_release(&op);
	assert_int_equal(fix_counts(to, "orders").dead, 2);
	assert_int_equal(fix_counts(to, "orders").imported, 2);
	assert_int_equal(export_all(to, DEAD_DEAD, &again, back, 10), 2);
	for (int i = 0; i < n; i++) { /* the order is that of importing */
		strip(records[i], a, sizeof(a));
		strip(back[n - 1 - i], b, sizeof(b));
		assert_string_equal(a, b);
	}
	/* Found by the id it had; its group is there; it can be put back. */
	struct engine_op read = {.type = OP_READ_DEAD};
	read.u.read_dead.id = str_of(id);
	engine_call(to->e, &read);
	assert_int_equal(read.code, DLQ_OK);
	assert_true(str_eqz(read.u.read_dead.out.imported_id, id) || !strcmp(read.u.read_dead.out.dlq_id, id));
	assert_int_equal(read.u.read_dead.n_attempts, 3);
	assert_true(read.u.read_dead.out.group_id != 0);
	engine_op_release(&read);
	struct engine_op groups = {.type = OP_READ_GROUPS};
	groups.u.read_groups.filter.limit = 10;
	engine_call(to->e, &groups);
	assert_int_equal(groups.u.read_groups.page.n, 1); /* both died of Boom */
	assert_int_equal(groups.u.read_groups.page.items[0].dead, 2);
	engine_op_release(&groups);
	/* Twice is once. */
	op = import(to, records, n, NULL);
	assert_int_equal(op.u.import.imported, 0);
	assert_true(op.u.import.results[0].exists && op.u.import.results[1].exists);
	engine_op_release(&op);
	assert_int_equal(fix_counts(to, "orders").dead, 2);
	struct engine_op redrive = {.type = OP_REDRIVE, .queue = STR("orders")};
	redrive.u.redrive.reason = STR("mended there");
	engine_call(to->e, &redrive);
	assert_int_equal(redrive.code, DLQ_OK);
	engine_op_release(&redrive);
	assert_int_equal(fix_counts(to, "orders").ready, 2);
	mem_free(lines);
	mem_free(again);
	fix_free(from);
	fix_free(to);
}

/* Its retention ended and it is in the archive: it comes back under its own id. */
static void test_back_home(void **state)
{
	(void)state;
	struct fix *f = orders();
	char id[ULID_LEN + 1], detail[600];
	fix_dead_with(f, "orders", &(struct fix_dead){.body = "{}"}, id);
	clock_advance(f->clock, 11 * (int64_t)86400000);
	engine_step(f->e);
	assert_int_equal(fix_counts(f, "orders").dead, 0);
	struct engine_op read = {.type = OP_READ_ARCHIVED};
	read.u.read_archived.id = str_of(id);
	engine_call(f->e, &read);
	assert_int_equal(read.code, DLQ_OK);
	struct engine_op op = import(f, &read.u.read_archived.record, 1, NULL);
	assert_int_equal(op.code, DLQ_OK);
	assert_int_equal(op.u.import.results[0].code, DLQ_OK);
	assert_string_equal(op.u.import.results[0].dlq_id, id);
	engine_op_release(&op);
	engine_op_release(&read);
	assert_int_equal(fix_counts(f, "orders").dead, 1);
	engine_step(f->e); /* it has its whole retention again */
	assert_int_equal(fix_counts(f, "orders").dead, 1);
	assert_int_equal(fix_audited(f, "dead.import", detail), 1);
	assert_string_equal(detail, "1 imported, 0 here already, 0 refused");
	fix_free(f);
}

/* Into another queue: a queue of its own has groups of its own. */
static void test_other_queue(void **state)
{
	(void)state;
	struct fix *f = orders();
	char *lines, id[ULID_LEN + 1];
	struct str records[4];
	assert_int_equal(fix_queue(f, "copies", PLAIN), DLQ_OK);
	fix_dead_with(f, "orders", &(struct fix_dead){.body = "{}"}, id);
	int n = export_all(f, -1, &lines, records, 4);
	assert_int_equal(n, 1);
	struct engine_op op = import(f, records, n, "copies");
	assert_true(op.u.import.results[0].exists); /* the same dead letter is here */
	engine_op_release(&op);
	op = import(f, records, n, "nowhere");
	assert_int_equal(op.code, DLQ_OK);
	assert_int_equal(op.u.import.results[0].code, DLQ_NOT_FOUND);
	engine_op_release(&op);
	struct fix *g = orders();
	assert_int_equal(fix_queue(g, "copies", PLAIN), DLQ_OK);
	op = import(g, records, n, "copies");
	assert_int_equal(op.u.import.results[0].code, DLQ_OK);
	assert_true(str_eqz(op.u.import.results[0].queue, "copies"));
	engine_op_release(&op);
	assert_int_equal(fix_counts(g, "copies").dead, 1);
	mem_free(lines);
	fix_free(g);
	fix_free(f);
}

static void test_bad_records(void **state)
{
	(void)state;
	struct fix *f = orders();
	char *lines, detail[600];
	struct str good[1];
	fix_dead_with(f, "orders", &(struct fix_dead){.body = "{}"}, NULL);
	assert_int_equal(export_all(f, DEAD_DEAD, &lines, good, 1), 1);
	struct str records[] = {
	    good[0],
	    STR("not json"),
	    STR("[]"),
	    STR("{}"),
	    STR("{\"dlq_id\": 5}"),
	    STR("{\"dlq_id\": \"01ARZ3NDEKTSV4RRFFQ69G5FAV\", \"id\": \"a b\", \"queue\": \"orders\", \"body\": \"\"}"),
	    STR("{\"dlq_id\": \"01ARZ3NDEKTSV4RRFFQ69G5FAV\", \"id\": \"a\", \"queue\": \"-\", \"body\": \"\"}"),
	    STR("{\"dlq_id\": \"01ARZ3NDEKTSV4RRFFQ69G5FAV\", \"id\": \"a\", \"queue\": \"orders\"}"),
	    STR("{\"dlq_id\": \"01ARZ3NDEKTSV4RRFFQ69G5FAV\", \"id\": \"a\", \"queue\": \"orders\", \"body_base64\": \"?\"}"),
	    STR("{\"dlq_id\": \"01ARZ3NDEKTSV4RRFFQ69G5FAV\", \"id\": \"a\", \"queue\": \"orders\", \"body\": \"\", \"died_at\": \"today\"}"),
	    STR("{\"dlq_id\": \"01ARZ3NDEKTSV4RRFFQ69G5FAV\", \"id\": \"a\", \"queue\": \"orders\", \"body\": \"\", \"history\": [5]}"),
	    STR("{\"dlq_id\": \"01ARZ3NDEKTSV4RRFFQ69G5FAV\", \"id\": \"a\", \"queue\": \"orders\", \"body\": \"\", \"headers\": []}"),
	    STR("{\"dlq_id\": \"01ARZ3NDEKTSV4RRFFQ69G5FAV\", \"id\": \"a\", \"queue\": \"orders\", \"body\": \"\", \"attempts\": -1}"),
	    /* A newer one knows more, and needs less than there could be. */
	    STR("{\"dlq_id\": \"01ARZ3NDEKTSV4RRFFQ69G5FAV\", \"id\": \"a\", \"queue\": \"orders\", \"body\": \"\", \"reason\": \"of later\", \"shiny\": {\"a\": [1]}}"),
	};
	struct engine_op op = import(f, records, ARRAY_LEN(records), NULL);
	assert_int_equal(op.code, DLQ_OK);
	assert_true(op.u.import.results[0].exists);
	for (size_t i = 1; i + 1 < ARRAY_LEN(records); i++) {
		enum dlq_code c = op.u.import.results[i].code;
		assert_true(c == DLQ_INVALID_JSON || c == DLQ_BAD_REQUEST || c == DLQ_INVALID_NAME);
		assert_true(op.u.import.results[i].err.detail[0] != '\0');
	}
	assert_int_equal(op.u.import.results[1].code, DLQ_INVALID_JSON);
	assert_int_equal(op.u.import.results[ARRAY_LEN(records) - 1].code, DLQ_OK);
	assert_int_equal(op.u.import.imported, 1);
	engine_op_release(&op);
	fix_audited(f, "dead.import", detail);
	assert_string_equal(detail, "1 imported, 1 here already, 12 refused");
	/* Not read yet, none, too many. */
	op = (struct engine_op){.type = OP_IMPORT};
	op.u.import.records = records;
	op.u.import.n = 1;
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_BAD_REQUEST);
	op = import(f, records, 0, NULL);
	assert_int_equal(op.code, DLQ_BAD_REQUEST);
	op = import(f, records, IMPORT_MAX + 1, NULL);
	assert_int_equal(op.code, DLQ_BAD_REQUEST);
	mem_free(lines);
	fix_free(f);
}

/* What lists show of it has the size that it has of a failure here: a page of them must stay small. */
static void test_long_texts_are_cut(void **state)
{
	(void)state;
	struct fix *f = orders();
	char *long_text = mem_alloc(100001);
	struct buf line = {0};
	memset(long_text, 'x', 100000);
	buf_addf(&line, "{\"dlq_id\": \"01ARZ3NDEKTSV4RRFFQ69G5FAV\", \"id\": \"a\", \"queue\": \"orders\", \"body\": \"\","
	         " \"error\": {\"type\": \"%s\", \"message\": \"%s\"}, \"worker\": \"%s\", \"operator\": \"%s\", \"why\": \"%s\"}",
	         long_text, long_text, long_text, long_text, long_text);
	struct str record = buf_str(&line);
	struct engine_op op = import(f, &record, 1, NULL);
	assert_int_equal(op.code, DLQ_OK);
	assert_int_equal(op.u.import.imported, 1);
	struct engine_op get = {.type = OP_READ_DEAD};
	get.u.read_dead.id = str_of(op.u.import.results[0].dlq_id);
	engine_call(f->e, &get);
	assert_int_equal(get.code, DLQ_OK);
	const struct store_dead *d = &get.u.read_dead.out;
	assert_true(d->error_type.n == 256 && d->message.n == 4096 && d->worker.n == 256 && d->operator.n == 128 && d->why.n == 1000);
	engine_op_release(&get);
	engine_op_release(&op);
	buf_release(&line);
	mem_free(long_text);
	fix_free(f);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_elsewhere),
	    cmocka_unit_test(test_back_home),
	    cmocka_unit_test(test_other_queue),
	    cmocka_unit_test(test_bad_records),
	    cmocka_unit_test(test_long_texts_are_cut),
	};
	int child = fix_jq_child(argc, argv);
	return child >= 0 ? child : cmocka_run_group_tests(tests, NULL, NULL);
}
