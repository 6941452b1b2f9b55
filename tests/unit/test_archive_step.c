/* The end of retention in the engine: out of the store only when it is in the archive. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/doc.h"
#include "lib_archive.h"
#include "lib_engine.h"

static struct archive_entry *entries(struct fix *f, struct arena *a, int *n)
{
	struct archive_entry *e = NULL;
	struct str next;
	struct dlq_err err = {0};
	assert_int_equal(
	    archive_list(f->dir, STR("q"), STR(""), STR(""), STR(""), STR(""), 1000, a, &e, n, &next, &err), DLQ_OK);
	assert_int_equal(next.n, 0);
	return e;
}

static struct doc *record(struct fix *f, struct arena *a, const char *id)
{
	struct str text, queue;
	struct doc *d = NULL;
	struct dlq_err err = {0};
	if (archive_find(f->dir, str_of(id), a, &text, &queue, &err) || doc_from_json(a, text, "archive", &d, &err))
		fail_msg("%s: %s", id, err.detail);
	assert_str(queue, "q");
	return d;
}

static void test_step(void **state)
{
	(void)state;
	struct fix *f = fix_new(&(struct engine_options){.single_step = true});
	char id[ULID_LEN + 1], path[200], day[TIME_LEN + 1];
	assert_int_equal(fix_queue(f, "q", "{\"policy\": {\"retention\": \"1h\"}}"), DLQ_OK);
	fix_make_dead(f, "q", 3, id);
	/* While the archive cannot be written, nothing is removed. */
	snprintf(path, sizeof(path), "%s/archive", f->dir);
	int fd = open(path, O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	close(fd);
	clock_advance(f->clock, 3600000);
	assert_true(engine_step(f->e) > clock_now_ms(f->clock));
	assert_int_equal(fix_dead_count(f, "q"), 3);
	assert_int_equal(unlink(path), 0);
	clock_advance(f->clock, 60000);
	engine_step(f->e);
	assert_int_equal(fix_dead_count(f, "q"), 0);
	struct arena a = {0};
	int n;
	struct archive_entry *e = entries(f, &a, &n);
	assert_int_equal(n, 3);
	assert_str(e[0].dlq_id, id); /* newest first */
	assert_str(e[0].state, "dead");
	assert_str(e[0].reason, "permanent");
	assert_str(e[0].error_type, "Boom");
	time_format(clock_wall_ms(f->clock), day);
	assert_memory_equal(e[0].day.p, day, 10);
	assert_int_equal(e[0].archived_at_ms, clock_wall_ms(f->clock));
	struct doc *d = record(f, &a, id);
	assert_str(doc_get(d, "body")->text, "dead");
	assert_str(doc_get(d, "archived_at")->text, day);
	assert_str(doc_get(doc_get(d, "error"), "type")->text, "Boom");
	assert_non_null(doc_get(d, "history")->child);
	arena_release(&a);
	fix_free(f);
}

/* More than one step's worth, of two queues, and what was discarded. */
static void test_many(void **state)
{
	(void)state;
	struct fix *f = fix_new(&(struct engine_options){.single_step = true});
	char id[ULID_LEN + 1], other[ULID_LEN + 1];
	assert_int_equal(fix_queue(f, "q", "{\"policy\": {\"retention\": \"1h\"}}"), DLQ_OK);
	assert_int_equal(fix_queue(f, "r", "{\"policy\": {\"retention\": \"1h\"}}"), DLQ_OK);
	fix_make_dead(f, "q", 1, id);
	struct engine_op op = {.type = OP_DISCARD, .operator= STR("ann")};
	op.u.discard.id = str_of(id);
	op.u.discard.reason = STR("not needed");
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	engine_op_release(&op);
	fix_make_dead(f, "q", 149, other);
	fix_make_dead(f, "r", 50, other);
	clock_advance(f->clock, 3600000);
	for (int i = 0; i < 20 && engine_step(f->e) <= clock_now_ms(f->clock); i++)
		;
	assert_int_equal(fix_dead_count(f, "q") + fix_dead_count(f, "r"), 0);
	struct arena a = {0};
	int n;
	(void)entries(f, &a, &n);
	assert_int_equal(n, 150);
	struct doc *d = record(f, &a, id);
	assert_str(doc_get(d, "state")->text, "discarded");
	assert_str(doc_get(d, "why")->text, "not needed");
	arena_release(&a);
	fix_free(f);
}

/* A disk that filled up in the middle of a frame. */
static void test_piece(void **state)
{
	(void)state;
	struct fix *f = fix_new(&(struct engine_options){.single_step = true});
	struct ar r = {0};
	char id[2][ULID_LEN + 1];
	snprintf(r.dir, sizeof r.dir, "%s", f->dir);
	assert_int_equal(fix_queue(f, "q", "{\"policy\": {\"retention\": \"1h\"}}"), DLQ_OK);
	const char *path = NULL;
	for (int round = 0; round < 2; round++) {
		fix_make_dead(f, "q", 1, id[round]);
		clock_advance(f->clock, 3600000);
		path = ar_path(&r, "q", clock_wall_ms(f->clock), "jsonl.zst");
		engine_step(f->e);
		assert_int_equal(fix_dead_count(f, "q"), 0);
		if (round == 0) {
			struct buf b = ar_read(path);
			buf_add(&b, b.p, b.n - 7);
			ar_write(path, buf_str(&b));
			buf_release(&b);
		}
	}
	struct buf text = ar_unpack(path);
	assert_int_equal(ar_lines(buf_str(&text)), 2);
	buf_release(&text);
	struct arena a = {0};
	for (int i = 0; i < 2; i++)
		assert_str(doc_get(record(f, &a, id[i]), "dlq_id")->text, id[i]);
	arena_release(&a);
	fix_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_step),
	    cmocka_unit_test(test_many),
	    cmocka_unit_test(test_piece),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
