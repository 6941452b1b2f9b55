/* libdlq through its public header; only what a worker told of itself is read back from the engine. */
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "dlq/dlq.h"
#include "engine/engine.h"

static char dir[64];
static struct dlq *d;
static struct dlq_err err;

static int setup(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/dlq-lib-XXXXXX");
	struct dlq_options o = {.dir = mkdtemp(dir)};
	return dlq_open(&o, &d, &err);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static int teardown(void **state)
{
	(void)state;
	dlq_close(d);
	return nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static enum dlq_code send(const char *queue, const char *id, const char *body)
{
	struct dlq_message m = {.id = id, .body = body, .body_len = strlen(body)};
	return dlq_send(d, queue, &m, NULL, NULL, &err);
}

/* Receives one and settles it. */
static enum dlq_code work(const char *queue, enum dlq_outcome outcome, char dlq_id[27])
{
	struct dlq_delivery *m;
	struct dlq_settle s = {.outcome = outcome, .error_type = "Boom", .error_message = "it broke"};
	assert_int_equal(dlq_receive(d, queue, "w", 5000, 0, &m, &err), DLQ_OK);
	assert_non_null(m);
	enum dlq_code c = dlq_settle(d, queue, m->receipt, &s, dlq_id, &err);
	assert_int_equal(dlq_settle(d, queue, m->receipt, &s, NULL, &err), DLQ_GONE);
	dlq_delivery_free(m);
	return c;
}

static void test_open(void **state)
{
	(void)state;
	struct dlq *second = NULL;
	struct dlq_options same = {.dir = dir}, none = {0};
	assert_int_equal(dlq_open(&same, &second, &err), DLQ_STORE_LOCKED);
	assert_null(second);
	assert_int_equal(dlq_open(&none, &second, NULL), DLQ_BAD_REQUEST);
	assert_string_equal(dlq_code_name(DLQ_STORE_LOCKED), "store_locked");
	assert_true(strlen(dlq_version()) > 0);
	dlq_close(NULL);
	dlq_delivery_free(NULL);
}

static void test_messages(void **state)
{
	(void)state;
	struct dlq_delivery *m;
	char id[129] = "";
	bool duplicate = false;
	assert_int_equal(send("nowhere", NULL, "x"), DLQ_NOT_FOUND);
	assert_non_null(strstr(err.detail, "nowhere"));
	assert_int_equal(dlq_queue_put(d, "-bad", NULL, &err), DLQ_INVALID_NAME);
	assert_int_equal(dlq_queue_put(d, "q", "{\"max_mesages\": 1}", &err), DLQ_INVALID_SETTING);
	assert_non_null(strstr(err.detail, "max_messages")); /* the nearest right name */
	assert_int_equal(dlq_queue_put(d, "q", "{\"max_messages\": 1}", &err), DLQ_OK);
	assert_int_equal(send("q", "two words", "x"), DLQ_BAD_REQUEST);
	struct dlq_message lines = {.key = "a\nb", .body = "x", .body_len = 1}, types = {.content_type = "a\x7f" "b"};
	assert_int_equal(dlq_send(d, "q", &lines, NULL, NULL, &err), DLQ_BAD_REQUEST);
	assert_non_null(strstr(err.detail, "key: must be UTF-8 text without control characters"));
	assert_int_equal(dlq_send(d, "q", &types, NULL, NULL, &err), DLQ_BAD_REQUEST);
	assert_non_null(strstr(err.detail, "content_type: "));
	struct dlq_message msg = {
	    .id = "a-1", .key = "k", .content_type = "text/plain", .body = "b\0dy", .body_len = 4};
	assert_int_equal(dlq_send(d, "q", &msg, id, &duplicate, &err), DLQ_OK);
	assert_string_equal(id, "a-1");
	assert_false(duplicate);
	assert_int_equal(dlq_send(d, "q", &msg, id, &duplicate, &err), DLQ_OK);
	assert_true(duplicate);
	assert_int_equal(send("q", NULL, "more"), DLQ_QUEUE_FULL);
	assert_int_equal(dlq_receive(d, "q", NULL, 0, 0, &m, &err), DLQ_OK);
	assert_string_equal(m->id, "a-1");
	assert_string_equal(m->key, "k");
	assert_string_equal(m->content_type, "text/plain");
	assert_int_equal(m->body_len, 4);
	assert_memory_equal(m->body, "b\0dy", 4);
	assert_int_equal(m->attempts, 0);
	assert_int_equal(dlq_extend(d, "q", m->receipt, 60000, &err), DLQ_OK);
	assert_int_equal(dlq_extend(d, "q", m->receipt, 1, &err), DLQ_BAD_REQUEST);
	assert_int_equal(dlq_extend(d, "q", "not a receipt", 0, &err), DLQ_GONE);
	struct dlq_settle bad = {.outcome = (enum dlq_outcome)9};
	assert_int_equal(dlq_settle(d, "q", m->receipt, &bad, NULL, &err), DLQ_BAD_REQUEST);
	struct dlq_settle ok = {.outcome = DLQ_OUTCOME_OK};
	assert_int_equal(dlq_settle(d, "q", m->receipt, &ok, NULL, &err), DLQ_OK);
	dlq_delivery_free(m);
	assert_int_equal(dlq_receive(d, "q", "w", 20, 0, &m, &err), DLQ_OK);
	assert_null(m);
}

struct seen {
	int n, stop_at;
	char first[27];
	bool has_reason;
};

static bool visit(const char *dlq_id, const char *json, void *arg)
{
	struct seen *s = arg;
	if (!s->n++)
		snprintf(s->first, sizeof(s->first), "%s", dlq_id);
	s->has_reason = strstr(json, "\"reason\":\"permanent\"") != NULL;
	return s->n != s->stop_at;
}

static void test_dead_letters(void **state)
{
	(void)state;
	char a[27], b[27], c[27];
	int64_t count = 0;
	assert_int_equal(dlq_queue_put(d, "dead", NULL, &err), DLQ_OK);
	char *ids[] = {a, b, c};
	for (int i = 0; i < 3; i++) {
		assert_int_equal(send("dead", NULL, "x"), DLQ_OK);
		assert_int_equal(work("dead", DLQ_OUTCOME_PERMANENT, ids[i]), DLQ_OK);
		assert_int_equal(strlen(ids[i]), 26);
	}
	struct seen all = {0}, one = {.stop_at = 1};
	assert_int_equal(dlq_dead_letters(d, "dead", 10, visit, &all, &err), DLQ_OK);
	assert_int_equal(all.n, 3);
	assert_string_equal(all.first, c); /* newest first */
	assert_true(all.has_reason);
	assert_int_equal(dlq_dead_letters(d, "dead", 10, visit, &one, &err), DLQ_OK);
	assert_int_equal(one.n, 1);
	assert_int_equal(dlq_dead_letters(d, "dead", 0, visit, &all, &err), DLQ_BAD_REQUEST);
	assert_int_equal(dlq_discard(d, a, "ann", "", &err), DLQ_BAD_REQUEST);
	assert_int_equal(dlq_discard(d, a, "ann", "spam", &err), DLQ_OK);
	assert_int_equal(dlq_discard(d, a, "ann", "spam", &err), DLQ_CONFLICT);
	const char *chosen[] = {b}, *gone[] = {a};
	assert_int_equal(dlq_redrive(d, "dead", gone, 1, "ann", "mended", &count, &err), DLQ_CONFLICT);
	assert_int_equal(dlq_redrive(d, "dead", chosen, 1, "ann", "mended", &count, &err), DLQ_OK);
	assert_int_equal(count, 1);
	char again[27];
	assert_int_equal(work("dead", DLQ_OUTCOME_PERMANENT, again), DLQ_OK);
	assert_string_equal(again, b); /* a second death is the same dead letter */
	assert_int_equal(dlq_redrive(d, "dead", NULL, 0, "ann", "mended", &count, &err), DLQ_OK);
	assert_int_equal(count, 2);
	assert_int_equal(work("dead", DLQ_OUTCOME_OK, NULL), DLQ_OK);
	assert_int_equal(work("dead", DLQ_OUTCOME_OK, NULL), DLQ_OK);
}

static bool group_of(const char *dlq_id, const char *json, void *arg)
{
	(void)dlq_id;
	const char *group = strstr(json, "\"group\":\"");
	assert_non_null(group);
	char (*groups)[33] = arg;
	memmove(groups[1], groups[0], sizeof(groups[0]));
	snprintf(groups[0], sizeof(groups[0]), "%.32s", group + 9);
	return true;
}

/* The worker's own fingerprint makes the group, whatever the messages; its version stands in the history. */
static void test_fingerprint_and_version(void **state)
{
	(void)state;
	static const char *const messages[] = {"card of ann", "the moon is full"};
	struct dlq_receive_options who = {.worker = "w", .worker_version = "v7"};
	char groups[2][33] = {""}, dlq_id[27];
	struct dlq_delivery *m;
	assert_int_equal(dlq_queue_put(d, "fp", NULL, &err), DLQ_OK);
	assert_int_equal(dlq_receive_with(d, "fp", &who, &m, &err), DLQ_OK);
	assert_null(m);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(send("fp", NULL, "x"), DLQ_OK);
		assert_int_equal(dlq_receive_with(d, "fp", &who, &m, &err), DLQ_OK);
		struct dlq_settle s = {.outcome = DLQ_OUTCOME_PERMANENT, .error_message = messages[i], .fingerprint = "declined"};
		assert_int_equal(dlq_settle(d, "fp", m->receipt, &s, dlq_id, &err), DLQ_OK);
		dlq_delivery_free(m);
	}
	assert_int_equal(dlq_dead_letters(d, "fp", 10, group_of, groups, &err), DLQ_OK);
	assert_int_equal(strlen(groups[0]), 32);
	assert_string_equal(groups[0], groups[1]);
	dlq_close(d);
	struct engine_options eo = {.dir = dir, .clock = clock_real_new(), .single_step = true};
	struct engine *e;
	struct engine_op op = {.type = OP_READ_DEAD};
	op.u.read_dead.id = str_of(dlq_id);
	assert_int_equal(engine_open(&eo, &e, &err), DLQ_OK);
	engine_call(e, &op);
	assert_int_equal(op.u.read_dead.n_attempts, 1);
	assert_true(str_eqz(op.u.read_dead.attempts[0].worker, "w"));
	assert_true(str_eqz(op.u.read_dead.attempts[0].worker_version, "v7"));
	engine_op_release(&op);
	engine_close(e);
	clock_free(eo.clock);
	struct dlq_options o = {.dir = dir};
	assert_int_equal(dlq_open(&o, &d, &err), DLQ_OK);
}

/* What was told to be stored is there after the next open; a lease that was out ends by its time. */
static void test_reopen(void **state)
{
	(void)state;
	struct dlq_delivery *m;
	struct dlq_options o = {.dir = dir};
	assert_int_equal(dlq_queue_put(d, "keep", NULL, &err), DLQ_OK);
	assert_int_equal(send("keep", "k-1", "one"), DLQ_OK);
	assert_int_equal(send("keep", "k-2", "two"), DLQ_OK);
	assert_int_equal(dlq_receive(d, "keep", "w", 0, 1000, &m, &err), DLQ_OK);
	assert_string_equal(m->id, "k-1");
	dlq_delivery_free(m);
	dlq_close(d);
	assert_int_equal(dlq_open(&o, &d, &err), DLQ_OK);
	assert_int_equal(dlq_receive(d, "keep", "w", 0, 0, &m, &err), DLQ_OK);
	assert_string_equal(m->id, "k-2");
	assert_int_equal(m->body_len, 3);
	assert_memory_equal(m->body, "two", 3);
	dlq_delivery_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_open),
	    cmocka_unit_test(test_messages),
	    cmocka_unit_test(test_dead_letters),
	    cmocka_unit_test(test_fingerprint_and_version),
	    cmocka_unit_test(test_reopen),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
