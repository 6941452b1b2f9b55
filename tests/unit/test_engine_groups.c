/* Failures that are one failure: how they are grouped, counted, told and looked after. */
#include <stdio.h>
#include <string.h>

#include "engine/record.h"
#include "lib_engine.h"

/* One message that fails once with the error; its effect. */
static struct engine_settle_item fail_as(struct fix *f, const char *queue, enum outcome outcome, struct failure failure,
                                         struct str worker, struct str version)
{
	char receipt[RECEIPT_LEN + 1];
	assert_int_equal(fix_send(f, queue, "x", NULL), DLQ_OK);
	assert_int_equal(fix_receive(f, queue, receipt), 1);
	struct engine_settle_item item = {.receipt = str_of(receipt), .outcome = outcome, .failure = failure};
	struct engine_op op = {.type = OP_SETTLE, .queue = str_of(queue)};
	op.u.settle.items = &item;
	op.u.settle.n = 1;
	op.u.settle.worker = worker;
	op.u.settle.worker_version = version;
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	assert_int_equal(item.code, DLQ_OK);
	engine_op_release(&op);
	return item;
}

static void die_of(struct fix *f, const char *queue, const char *type, const char *message)
{
	struct failure failure = {.type = str_of(type), .message = str_of(message), .exit_code = -1};
	assert_int_equal(fail_as(f, queue, OUTCOME_PERMANENT, failure, STR("w1"), STR("")).effect, EFFECT_DEAD);
}

/* The groups of the queue; the ids of the first 4, newest failure first. */
static int groups(struct fix *f, const char *queue, struct store_group out[4], char ids[4][GROUP_ID_LEN + 1])
{
	struct engine_op op = {.type = OP_READ_GROUPS, .queue = str_of(queue)};
	op.u.read_groups.filter.limit = 100;
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	int n = op.u.read_groups.page.n;
	for (int i = 0; i < n && i < 4; i++) {
		out[i] = op.u.read_groups.page.items[i];
		group_id_text(out[i].fp, ids[i]);
		const struct diagnosis *d = &op.u.read_groups.diagnoses[i];
		assert_true((unsigned)d->kind < DIAGNOSIS_KIND_COUNT);
	}
	engine_op_release(&op);
	return n;
}

static struct engine_op group_op(const char *id)
{
	struct engine_op op = {.type = OP_GROUP_SET, .operator= STR("ann")};
	op.u.group_set.id = str_of(id);
	return op;
}

static enum dlq_code set_status(struct fix *f, const char *id, enum group_status status, int64_t wait, int64_t deaths)
{
	struct engine_op op = group_op(id);
	op.u.group_set.set_status = true;
	op.u.group_set.status = status;
	op.u.group_set.mute_for_ms = wait;
	op.u.group_set.mute_deaths = deaths;
	engine_call(f->e, &op);
	if (!op.code)
		assert_int_equal(op.u.group_set.out.status, status);
	engine_op_release(&op);
	return op.code;
}

static enum group_status status_of(struct fix *f, const char *id)
{
	struct engine_op op = {.type = OP_READ_GROUP};
	op.u.read_group.id = str_of(id);
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	enum group_status s = op.u.read_group.out.status;
	engine_op_release(&op);
	return s;
}

static int audited(struct fix *f, const char *action)
{
	struct engine_op op = {.type = OP_READ_AUDIT};
	int n = 0;
	op.u.read_audit.limit = 1000;
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	for (int i = 0; i < op.u.read_audit.n; i++)
		n += str_eqz(op.u.read_audit.items[i].action, action);
	engine_op_release(&op);
	return n;
}

static struct fix *setup(void)
{
	struct fix *f = fix_new(&(struct engine_options){.single_step = true});
	assert_int_equal(fix_queue(f, "q", "{\"policy\": {\"max_attempts\": 2, \"backoff\": [\"50ms\"]}}"), DLQ_OK);
	return f;
}

/* ---- which is which ---- */

static void test_one_cause_one_group(void **state)
{
	(void)state;
	struct fix *f = setup();
	struct store_group g[4];
	char ids[4][GROUP_ID_LEN + 1], text[80];
	for (int i = 0; i < 50; i++) {
		snprintf(text, sizeof(text), "order %d was not found", 100000 + i * 7919);
		die_of(f, "q", "NotFound", text);
	}
	assert_int_equal(groups(f, "q", g, ids), 1);
	assert_int_equal(g[0].deaths, 50);
	assert_int_equal(g[0].dead, 50);
	assert_int_equal(g[0].failures, 50);
	assert_int_equal(g[0].status, GROUP_NEW);
	die_of(f, "q", "Timeout", "order 100000 was not found");
	assert_int_equal(groups(f, "q", g, ids), 2);
	assert_int_equal(g[0].dead, 1); /* the newest failure comes first */
	/* Another queue, another group. */
	assert_int_equal(fix_queue(f, "r", "{}"), DLQ_OK);
	die_of(f, "r", "NotFound", "order 100000 was not found");
	assert_int_equal(groups(f, "q", g, ids), 2);
	assert_int_equal(groups(f, "r", g, ids), 1);
	fix_free(f);
}

/* A crowd that says the same costs one normalisation. */
static void test_memo(void **state)
{
	(void)state;
	struct fix *f = setup();
	for (int i = 0; i < 826; i++)
		die_of(f, "q", "EncodeError", i % 2 ? "cannot encode the field \"starts_at\"" : "cannot encode");
	assert_int_equal(group_keys_made(f->e->group_keys), 2);
	/* The answer must not depend on what came before it. */
	struct store_group g[4];
	char ids[4][GROUP_ID_LEN + 1], again[GROUP_ID_LEN + 1];
	assert_int_equal(groups(f, "q", g, ids), 2);
	memcpy(again, ids[0], sizeof(again));
	for (int i = 0; i < 2 * GROUP_MEMO; i++) {
		char text[40];
		snprintf(text, sizeof(text), "another failure %c", 'a' + i);
		die_of(f, "q", "Other", text);
	}
	die_of(f, "q", "EncodeError", "cannot encode the field \"starts_at\"");
	groups(f, "q", g, ids);
	assert_string_equal(ids[0], again);
	assert_int_equal(g[0].dead, 414);
	fix_free(f);
}

/* The worker's word for the group, and a rule's, which comes first. */
static void test_given(void **state)
{
	(void)state;
	struct fix *f = setup();
	struct store_group g[4];
	char ids[4][GROUP_ID_LEN + 1];
	struct failure a = {.type = STR("A"), .message = STR("one"), .fingerprint = STR("card-declined"), .exit_code = -1};
	struct failure b = {.type = STR("B"), .message = STR("two"), .fingerprint = STR("card-declined"), .exit_code = -1};
	fail_as(f, "q", OUTCOME_PERMANENT, a, STR("w1"), STR(""));
	fail_as(f, "q", OUTCOME_PERMANENT, b, STR("w1"), STR(""));
	assert_int_equal(groups(f, "q", g, ids), 1);
	assert_int_equal(fix_queue(f, "q",
	                           "{\"policy\": {\"classify\": [{\"error_type\": \"B\", \"fingerprint\": \"rule-b\"},"
	                           "{\"error_type\": \"C\", \"fingerprint\": \"rule-b\", \"outcome\": \"permanent\"}]}}"),
	                 DLQ_OK);
	/* Without an outcome a rule only names: what the worker said stays. */
	assert_int_equal(fail_as(f, "q", OUTCOME_TRANSIENT, b, STR("w1"), STR("")).effect, EFFECT_RETRY);
	b.type = STR("C");
	assert_int_equal(fail_as(f, "q", OUTCOME_TRANSIENT, b, STR("w1"), STR("")).effect, EFFECT_DEAD);
	assert_int_equal(groups(f, "q", g, ids), 2);
	assert_int_equal(g[0].failures, 2);
	assert_int_equal(g[0].dead, 1);
	assert_int_equal(g[1].dead, 2);
	fix_free(f);
}

/* Leases that end are one group, whoever held them; the version is the one the worker received with. */
static void test_lease_expiry(void **state)
{
	(void)state;
	struct fix *f = setup();
	struct store_group g[4];
	char ids[4][GROUP_ID_LEN + 1];
	static const char *const workers[] = {"host-a/17", "host-b/18"}, *const versions[] = {"v1", "v2"};
	for (int i = 0; i < 2; i++) {
		struct engine_op op = {.type = OP_RECEIVE, .queue = STR("q")};
		assert_int_equal(fix_send(f, "q", "x", NULL), DLQ_OK);
		op.u.receive.max = 1;
		op.u.receive.worker = str_of(workers[i]);
		op.u.receive.worker_version = str_of(versions[i]);
		engine_call(f->e, &op);
		assert_int_equal(op.u.receive.n, 1);
		engine_op_release(&op);
	}
	clock_advance(f->clock, 30000);
	engine_step(f->e);
	assert_int_equal(groups(f, "q", g, ids), 1);
	assert_int_equal(g[0].failures, 2);
	assert_int_equal(g[0].dead, 0); /* a group is made by the first failure, dead or not */
	struct engine_op op = {.type = OP_READ_GROUP};
	op.u.read_group.id = str_of(ids[0]);
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	assert_int_equal(op.u.read_group.n_workers, 2);
	for (int i = 0; i < 2; i++) {
		const struct store_group_worker *w = &op.u.read_group.workers[i];
		int k = str_eqz(w->worker, workers[1]);
		assert_true(str_eqz(w->worker, workers[k]) && str_eqz(w->version, versions[k]));
		assert_int_equal(w->failures, 1);
	}
	engine_op_release(&op);
	fix_free(f);
}

/* ---- all about one ---- */

static void test_read_group(void **state)
{
	(void)state;
	struct fix *f = setup();
	struct store_group g[4];
	char ids[4][GROUP_ID_LEN + 1];
	for (int i = 0; i < 7; i++)
		die_of(f, "q", "NotFound", "order 123456 was not found");
	groups(f, "q", g, ids);
	struct engine_op op = {.type = OP_READ_GROUP, .queue = STR("q")};
	op.u.read_group.id = str_of(ids[0]);
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	assert_true(str_eqz(op.u.read_group.out.sample, "order 123456 was not found"));
	assert_true(op.u.read_group.out.normal.n > 0);
	assert_true(op.u.read_group.normal_rules[0]);
	assert_int_equal(op.u.read_group.n_samples, 5);
	assert_int_equal(op.u.read_group.samples[0].group_id, op.u.read_group.out.group_id);
	assert_int_equal(op.u.read_group.n_minutes, 1);
	assert_int_equal(op.u.read_group.minutes[0].failures, 7);
	assert_int_equal(op.u.read_group.n_hours, 1);
	assert_int_equal(op.u.read_group.hours[0].deaths, 7);
	assert_int_equal(op.u.read_group.n_workers, 1);
	assert_non_null(op.u.read_group.diagnosis);
	engine_op_release(&op);
	static const char *const wrong[] = {"", "x", "00000000000000000000000000000000", "0000000000000000000000000000000g"};
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		op = (struct engine_op){.type = OP_READ_GROUP};
		op.u.read_group.id = str_of(wrong[i]);
		engine_call(f->e, &op);
		assert_int_equal(op.code, DLQ_NOT_FOUND);
		engine_op_release(&op);
		assert_int_equal(set_status(f, wrong[i], GROUP_RESOLVED, 0, 0), DLQ_NOT_FOUND);
	}
	fix_free(f);
}

/* ---- its state ---- */

static void test_resolve_and_regress(void **state)
{
	(void)state;
	struct fix *f = setup();
	struct store_group g[4];
	char ids[4][GROUP_ID_LEN + 1];
	die_of(f, "q", "E", "broken");
	groups(f, "q", g, ids);
	assert_int_equal(set_status(f, ids[0], GROUP_ACKNOWLEDGED, 0, 0), DLQ_OK);
	die_of(f, "q", "E", "broken");
	assert_int_equal(status_of(f, ids[0]), GROUP_ACKNOWLEDGED);
	assert_int_equal(set_status(f, ids[0], GROUP_RESOLVED, 0, 0), DLQ_OK);
	assert_int_equal(status_of(f, ids[0]), GROUP_RESOLVED);
	die_of(f, "q", "E", "broken");
	assert_int_equal(status_of(f, ids[0]), GROUP_REGRESSED);
	assert_int_equal(set_status(f, ids[0], GROUP_NEW, 0, 0), DLQ_OK);
	assert_int_equal(set_status(f, ids[0], GROUP_REGRESSED, 0, 0), DLQ_BAD_REQUEST);
	assert_int_equal(audited(f, "group.acknowledge"), 1);
	assert_int_equal(audited(f, "group.resolve"), 1);
	assert_int_equal(audited(f, "group.reopen"), 1);
	fix_free(f);
}

static void test_mute(void **state)
{
	(void)state;
	struct fix *f = setup();
	struct store_group g[4];
	char ids[4][GROUP_ID_LEN + 1];
	die_of(f, "q", "E", "broken");
	groups(f, "q", g, ids);
	assert_int_equal(set_status(f, ids[0], GROUP_MUTED, 0, 2), DLQ_OK);
	die_of(f, "q", "E", "broken");
	assert_int_equal(status_of(f, ids[0]), GROUP_MUTED);
	die_of(f, "q", "E", "broken");
	assert_int_equal(status_of(f, ids[0]), GROUP_NEW);
	/* For a time. */
	assert_int_equal(set_status(f, ids[0], GROUP_MUTED, 60000, 0), DLQ_OK);
	die_of(f, "q", "E", "broken");
	assert_int_equal(status_of(f, ids[0]), GROUP_MUTED);
	clock_advance(f->clock, 60000);
	die_of(f, "q", "E", "broken");
	assert_int_equal(status_of(f, ids[0]), GROUP_NEW);
	/* For ever. */
	assert_int_equal(set_status(f, ids[0], GROUP_MUTED, 0, 0), DLQ_OK);
	clock_advance(f->clock, 86400000);
	die_of(f, "q", "E", "broken");
	assert_int_equal(status_of(f, ids[0]), GROUP_MUTED);
	assert_int_equal(audited(f, "group.mute"), 3);
	assert_int_equal(set_status(f, ids[0], GROUP_MUTED, -1, 0), DLQ_BAD_REQUEST);
	assert_int_equal(set_status(f, ids[0], GROUP_MUTED, 0, -1), DLQ_BAD_REQUEST);
	assert_int_equal(set_status(f, ids[0], GROUP_RESOLVED, 1000, 0), DLQ_BAD_REQUEST);
	fix_free(f);
}

static void test_note_and_owner(void **state)
{
	(void)state;
	struct fix *f = setup();
	struct store_group g[4];
	char ids[4][GROUP_ID_LEN + 1], big[4002];
	die_of(f, "q", "E", "broken");
	groups(f, "q", g, ids);
	struct engine_op op = group_op(ids[0]);
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_BAD_REQUEST); /* nothing to change */
	op.u.group_set.set_note = op.u.group_set.set_owner = true;
	op.u.group_set.note = STR("the codec of 2.3 is wrong");
	op.u.group_set.owner = STR("team-search");
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	engine_op_release(&op);
	/* One alone leaves the other. */
	op = group_op(ids[0]);
	op.u.group_set.set_note = true;
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	assert_int_equal(op.u.group_set.out.note.n, 0);
	assert_true(str_eqz(op.u.group_set.out.owner, "team-search"));
	engine_op_release(&op);
	op = group_op(ids[0]);
	op.u.group_set.set_note = true;
	memset(big, 'n', sizeof(big));
	op.u.group_set.note = (struct str){big, 4001};
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_BAD_REQUEST);
	op.u.group_set.note.n = 4000;
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	engine_op_release(&op);
	assert_int_equal(audited(f, "group.note"), 3);
	assert_int_equal(audited(f, "group.owner"), 1);
	fix_free(f);
}

static enum dlq_code merge(struct fix *f, const char *id, const char *into)
{
	struct engine_op op = group_op(id);
	op.u.group_set.merge = true;
	op.u.group_set.into = str_of(into);
	op.u.group_set.reason = STR("one cause");
	engine_call(f->e, &op);
	engine_op_release(&op);
	return op.code;
}

static void test_merge_and_split(void **state)
{
	(void)state;
	struct fix *f = setup();
	struct store_group g[4];
	char ids[4][GROUP_ID_LEN + 1], other[4][GROUP_ID_LEN + 1];
	assert_int_equal(fix_queue(f, "r", "{}"), DLQ_OK);
	die_of(f, "r", "E", "elsewhere");
	groups(f, "r", g, other);
	die_of(f, "q", "E", "one");
	die_of(f, "q", "E", "one");
	die_of(f, "q", "E", "two");
	assert_int_equal(groups(f, "q", g, ids), 2);
	assert_int_equal(merge(f, ids[0], ids[0]), DLQ_CONFLICT);
	assert_int_equal(merge(f, ids[0], other[0]), DLQ_CONFLICT);
	assert_int_equal(merge(f, ids[0], ""), DLQ_CONFLICT); /* not merged: nothing to split */
	assert_int_equal(merge(f, ids[0], "00000000000000000000000000000000"), DLQ_NOT_FOUND);
	assert_int_equal(merge(f, ids[0], ids[1]), DLQ_OK);
	struct engine_op op = {.type = OP_READ_GROUP};
	op.u.read_group.id = str_of(ids[1]);
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	assert_int_equal(op.u.read_group.out.dead, 3);
	assert_int_equal(op.u.read_group.n_merged, 1);
	engine_op_release(&op);
	/* A redrive of the target takes those merged into it along. */
	struct engine_op r = {.type = OP_REDRIVE};
	r.u.redrive.sel.group = str_of(ids[1]);
	r.u.redrive.reason = STR("mended");
	r.u.redrive.dry_run = true;
	engine_call(f->e, &r);
	assert_int_equal(r.code, DLQ_OK);
	assert_int_equal(r.u.redrive.out.total, 3);
	assert_int_equal(fix_dead_count(f, "q"), 3);
	engine_op_release(&r);
	assert_int_equal(merge(f, ids[0], ""), DLQ_OK);
	assert_int_equal(groups(f, "q", g, other), 2);
	r.u.redrive.dry_run = false;
	r.queue = STR("r");
	engine_call(f->e, &r);
	assert_int_equal(r.code, DLQ_NOT_FOUND); /* of another queue */
	r.queue = STR("q");
	engine_call(f->e, &r);
	assert_int_equal(r.code, DLQ_OK);
	assert_int_equal(r.u.redrive.out.total, 2);
	assert_int_equal(fix_dead_count(f, "q"), 1);
	engine_op_release(&r);
	assert_int_equal(audited(f, "group.merge"), 1);
	assert_int_equal(audited(f, "group.split"), 1);
	fix_free(f);
}

/* ---- the audit chain ---- */

static void test_verify(void **state)
{
	(void)state;
	struct fix *f = setup();
	struct store_group g[4];
	char ids[4][GROUP_ID_LEN + 1];
	die_of(f, "q", "E", "broken");
	groups(f, "q", g, ids);
	for (int i = 0; i < 30; i++)
		assert_int_equal(set_status(f, ids[0], i % 2 ? GROUP_RESOLVED : GROUP_NEW, 0, 0), DLQ_OK);
	struct engine_op op = {.type = OP_AUDIT_VERIFY};
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	assert_int_equal(op.u.audit_verify.broken_n, 0);
	assert_false(op.u.audit_verify.more);
	assert_int_equal(op.u.audit_verify.rows, 31);
	/* From a link that is not the chain's: the next row does not fit. */
	set_status(f, ids[0], GROUP_NEW, 0, 0);
	int64_t last = op.u.audit_verify.after_n;
	op.u.audit_verify.hash[0] ^= 1;
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	assert_int_equal(op.u.audit_verify.broken_n, last + 1);
	fix_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_one_cause_one_group), cmocka_unit_test(test_memo),
	    cmocka_unit_test(test_given),               cmocka_unit_test(test_lease_expiry),
	    cmocka_unit_test(test_read_group),          cmocka_unit_test(test_resolve_and_regress),
	    cmocka_unit_test(test_mute),                cmocka_unit_test(test_note_and_owner),
	    cmocka_unit_test(test_merge_and_split),     cmocka_unit_test(test_verify),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
