/* What operators do: redrive, queues of the configuration file, tokens. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib_engine.h"

/* ---- redrive ---- */

static struct engine_op redrive(struct fix *f, const char *queue, struct str *ids, int n, const char *reason, bool dry)
{
	struct engine_op op = {.type = OP_REDRIVE, .queue = str_of(queue), .operator= STR("ann")};
	op.u.redrive.sel.ids = ids;
	op.u.redrive.sel.n_ids = n;
	op.u.redrive.reason = str_of(reason);
	op.u.redrive.dry_run = dry;
	engine_call(f->e, &op);
	engine_op_release(&op);
	return op;
}

static void test_redrive_refusals(void **state)
{
	(void)state;
	struct fix *f = fix_new(&(struct engine_options){.single_step = true});
	char a[ULID_LEN + 1], long_reason[1002];
	assert_int_equal(fix_queue(f, "q", "{}"), DLQ_OK);
	assert_int_equal(fix_queue(f, "r", "{}"), DLQ_OK);
	fix_make_dead(f, "q", 1, a);
	struct str ids[2] = {str_of(a), str_of(a)}, unknown = STR("01ARZ3NDEKTSV4RRFFQ69G5FAV"), garbage = STR("x"),
	           body = STR("new");
	memset(long_reason, 'r', 1001);
	long_reason[1001] = '\0';
	assert_int_equal(redrive(f, "", ids, 1, "", false).code, DLQ_BAD_REQUEST);
	assert_int_equal(redrive(f, "", ids, 1, long_reason, false).code, DLQ_BAD_REQUEST);
	assert_int_equal(redrive(f, "", ids, 2, "twice", false).code, DLQ_BAD_REQUEST);
	assert_int_equal(redrive(f, "", &unknown, 1, "why", false).code, DLQ_NOT_FOUND);
	assert_int_equal(redrive(f, "", &garbage, 1, "why", false).code, DLQ_NOT_FOUND);
	assert_int_equal(redrive(f, "r", ids, 1, "why", false).code, DLQ_NOT_FOUND); /* of another queue */
	assert_int_equal(redrive(f, "nope", NULL, 0, "why", false).code, DLQ_NOT_FOUND);
	struct engine_op op = {.type = OP_REDRIVE, .queue = STR("q")};
	op.u.redrive.body = &body;
	op.u.redrive.reason = STR("a body for all");
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_BAD_REQUEST);
	assert_int_equal(redrive(f, "", ids, 1, "look", true).u.redrive.out.total, 1);
	assert_int_equal(redrive(f, "q", NULL, 0, "look", true).u.redrive.out.total, 1);
	assert_int_equal(fix_dead_count(f, "q"), 1); /* dry runs change nothing */
	long_reason[1000] = '\0';
	assert_int_equal(redrive(f, "q", ids, 1, long_reason, false).code, DLQ_OK);
	assert_int_equal(redrive(f, "", ids, 1, "again", false).code, DLQ_CONFLICT);
	assert_int_equal(fix_dead_count(f, "q"), 0);
	fix_free(f);
}

static struct engine_op control(struct fix *f, const char *id, enum redrive_state want)
{
	struct engine_op op = {.type = OP_REDRIVE_CONTROL, .port = &f->in.port};
	op.u.redrive_control.id = str_of(id);
	op.u.redrive_control.want = want;
	engine_submit(f->e, &op);
	writer_once(f->e); /* one turn: the redrive must not run to its end */
	assert_ptr_equal(inbox_try(&f->in), &op);
	engine_op_release(&op);
	return op;
}

/* Paused and cancelled in the middle, gone on after a restart. */
static void test_redrive_control(void **state)
{
	(void)state;
	struct fix *f = fix_new(&(struct engine_options){.single_step = true});
	char id[ULID_LEN + 1], rid[ULID_LEN + 1];
	const int n = 3 * REDRIVE_STEP;
	assert_int_equal(fix_queue(f, "q", "{}"), DLQ_OK);
	fix_make_dead(f, "q", n, id);
	struct engine_op op = {.type = OP_REDRIVE, .queue = STR("q"), .port = &f->in.port};
	op.u.redrive.reason = STR("mended");
	engine_submit(f->e, &op);
	writer_once(f->e);
	assert_ptr_equal(inbox_try(&f->in), &op);
	assert_int_equal(op.code, DLQ_OK);
	assert_int_equal(op.u.redrive.out.total, n);
	memcpy(rid, op.u.redrive.out.redrive_id, sizeof(rid));
	engine_op_release(&op);
	assert_int_equal(control(f, rid, REDRIVE_PAUSED).code, DLQ_OK);
	int64_t left = fix_dead_count(f, "q");
	assert_true(left > 0 && left < n);
	/* Its members are taken: no second redrive of the same (invariant 9), and no discard. */
	struct str ids[1];
	struct engine_op list = {.type = OP_READ_DEAD_LIST, .queue = STR("q")};
	list.u.read_dead_list.filter = (struct store_dead_filter){.state = DEAD_DEAD, .reason = -1, .limit = 1};
	engine_call(f->e, &list);
	assert_int_equal(list.u.read_dead_list.page.n, 1);
	ids[0] = str_of(list.u.read_dead_list.page.items[0].dlq_id);
	assert_int_equal(redrive(f, "", ids, 1, "me too", false).code, DLQ_IN_REDRIVE);
	engine_op_release(&list);
	assert_int_equal(fix_dead_count(f, "q"), left); /* paused: nothing moves */
	assert_int_equal(control(f, rid, REDRIVE_PAUSED).code, DLQ_CONFLICT);
	engine_close(f->e);
	fix_open(f);
	engine_step(f->e);
	assert_int_equal(fix_dead_count(f, "q"), left); /* still paused after a restart */
	assert_int_equal(control(f, rid, REDRIVE_RUNNING).code, DLQ_OK);
	engine_close(f->e);
	fix_open(f);
	engine_step(f->e); /* goes on by itself */
	assert_int_equal(fix_dead_count(f, "q"), 0);
	assert_int_equal(control(f, rid, REDRIVE_CANCELLED).code, DLQ_CONFLICT);
	assert_int_equal(control(f, "01ARZ3NDEKTSV4RRFFQ69G5FAV", REDRIVE_PAUSED).code, DLQ_NOT_FOUND);
	fix_free(f);
}

/* ---- queues of the configuration file ---- */

static void test_file_queues(void **state)
{
	(void)state;
	struct fix *f = fix_new(&(struct engine_options){.single_step = true});
	struct dlq_err err = {0};
	struct queue_config *list[2] = {fix_config("a", "{}"), fix_config("b", "{\"ordered\": true}")};
	assert_int_equal(engine_apply_queues(f->e, list, 2, STR(""), &err), DLQ_OK);
	assert_true(engine_has_queue(f->e, STR("a")) && engine_has_queue(f->e, STR("b")));
	assert_int_equal(fix_queue(f, "a", "{\"max_messages\": 1}"), DLQ_CONFLICT);
	struct engine_op del = {.type = OP_QUEUE_DELETE, .queue = STR("a")};
	engine_call(f->e, &del);
	assert_int_equal(del.code, DLQ_CONFLICT);
	/* All or nothing: c is fine, but b may not change its order. */
	struct queue_config *bad[2] = {fix_config("c", "{}"), fix_config("b", "{}")};
	assert_int_equal(engine_apply_queues(f->e, bad, 2, STR(""), &err), DLQ_CONFLICT);
	assert_non_null(strstr(err.detail, "ordered"));
	assert_false(engine_has_queue(f->e, STR("c")));
	/* a leaves the file: it stays, and may be changed and deleted. */
	assert_int_equal(engine_apply_queues(f->e, &list[1], 1, STR(""), &err), DLQ_OK);
	assert_int_equal(fix_send(f, "a", "x", NULL), DLQ_OK);
	assert_int_equal(fix_queue(f, "a", "{\"max_messages\": 1}"), DLQ_OK);
	assert_int_equal(fix_send(f, "a", "y", NULL), DLQ_QUEUE_FULL);
	engine_call(f->e, &del);
	assert_int_equal(del.code, DLQ_CONFLICT); /* not empty */
	char receipt[RECEIPT_LEN + 1];
	assert_int_equal(fix_receive(f, "a", receipt), 1);
	assert_int_equal(fix_settle(f, "a", receipt, OUTCOME_OK).code, DLQ_OK);
	struct engine_op parked;
	receive_init(&parked, f, "a", 60000);
	engine_submit(f->e, &parked);
	engine_call(f->e, &del);
	assert_int_equal(del.code, DLQ_OK);
	assert_ptr_equal(inbox_try(&f->in), &parked);
	assert_int_equal(parked.code, DLQ_NOT_FOUND);
	assert_int_equal(fix_send(f, "a", "z", NULL), DLQ_NOT_FOUND);
	for (int i = 0; i < 2; i++) {
		queue_config_unref(list[i]);
		queue_config_unref(bad[i]);
	}
	fix_free(f);
}

/* ---- notices: what is owed to on_dead_letter ---- */

static int notices_due(struct fix *f, struct store_notice *out, int64_t *next)
{
	struct engine_op op = {.type = OP_NOTICE_CLAIM};
	op.u.notice_claim.max = 10;
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	int n = op.u.notice_claim.n;
	if (n)
		*out = op.u.notice_claim.items[0];
	*next = op.u.notice_claim.next;
	engine_op_release(&op);
	return n;
}

/* New settings forget when a message is due, so the batch that deletes the queue looks for one for who waits there. */
static void test_delete_under_a_wait(void **state)
{
	(void)state;
	struct fix *f = fix_new(&(struct engine_options){.single_step = true});
	struct queue_config *config = fix_config("q", "{\"max_in_flight\": 5}");
	struct engine_op waits, del = {.type = OP_QUEUE_DELETE, .queue = STR("q"), .port = &f->in.port};
	struct engine_op put = {.type = OP_QUEUE_PUT, .queue = STR("q"), .port = &f->in.port, .next = &del};
	put.u.queue_put.config = config;
	assert_int_equal(fix_queue(f, "q", "{}"), DLQ_OK);
	receive_init(&waits, f, "q", 60000);
	engine_submit(f->e, &waits);
	engine_submit(f->e, &put);
	engine_step(f->e);
	assert_ptr_equal(inbox_try(&f->in), &put);
	assert_int_equal(put.code, DLQ_OK);
	assert_ptr_equal(inbox_try(&f->in), &waits);
	assert_int_equal(waits.code, DLQ_NOT_FOUND);
	assert_ptr_equal(inbox_try(&f->in), &del);
	assert_int_equal(del.code, DLQ_OK);
	assert_int_equal(fix_queue(f, "q", "{}"), DLQ_OK); /* the store works on */
	assert_int_equal(fix_send(f, "q", "m", NULL), DLQ_OK);
	engine_op_release(&waits);
	engine_op_release(&put);
	engine_op_release(&del);
	queue_config_unref(config);
	fix_free(f);
}

static void notice_settle(struct fix *f, int64_t n, bool ok, int64_t delay)
{
	struct engine_op op = {.type = OP_NOTICE_SETTLE};
	op.u.notice_settle.n = n;
	op.u.notice_settle.ok = ok;
	op.u.notice_settle.error = STR("refused");
	op.u.notice_settle.delay_ms = delay;
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	engine_op_release(&op);
}

static void test_notices(void **state)
{
	(void)state;
	struct fix *f = fix_new(&(struct engine_options){.single_step = true});
	struct store_notice notice = {0};
	char id[ULID_LEN + 1];
	int64_t next;
	assert_int_equal(fix_queue(f, "quiet", "{}"), DLQ_OK);
	assert_int_equal(fix_queue(f, "loud", "{\"on_dead_letter\": \"http://127.0.0.1:9/dead\"}"), DLQ_OK);
	fix_make_dead(f, "quiet", 1, id);
	assert_int_equal(notices_due(f, &notice, &next), 0);
	fix_make_dead(f, "loud", 1, id);
	assert_int_equal(notices_due(f, &notice, &next), 1);
	struct engine_op read = {.type = OP_READ_DEAD}; /* by its store number */
	read.u.read_dead.seq = notice.seq;
	engine_call(f->e, &read);
	assert_int_equal(read.code, DLQ_OK);
	assert_string_equal(read.u.read_dead.out.dlq_id, id);
	engine_op_release(&read);
	notice_settle(f, notice.n, false, 5000);
	assert_int_equal(notices_due(f, &notice, &next), 0);
	assert_int_equal(next, clock_now_ms(f->clock) + 5000);
	engine_close(f->e); /* owed still after a restart */
	fix_open(f);
	clock_advance(f->clock, 5000);
	assert_int_equal(notices_due(f, &notice, &next), 1);
	assert_int_equal(notice.tries, 1);
	notice_settle(f, notice.n, true, 0);
	clock_advance(f->clock, 3600000);
	assert_int_equal(notices_due(f, &notice, &next), 0);
	fix_free(f);
}

/* The server's URL is for every queue that sets none, however it was made and whenever the URL changes. */
static void test_default_on_dead_letter(void **state)
{
	(void)state;
	static const struct { const char *name, *json; bool follows; } queues[] = {
	    {"put", "{}", true}, {"null", "{\"on_dead_letter\": null}", true}, {"own", "{\"on_dead_letter\": \"http://own/\"}", false},
	    {"none", "{\"on_dead_letter\": \"\"}", false}, {"left", "{}", true}};
	struct fix *f = fix_new(&(struct engine_options){.single_step = true});
	struct store_notice notice;
	struct dlq_err err = {0};
	char id[ULID_LEN + 1];
	int64_t next;
	for (int i = 0; i < 4; i++)
		assert_int_equal(fix_queue(f, queues[i].name, queues[i].json), DLQ_OK);
	struct queue_config *left = fix_config("left", "{}"); /* of the file, and then no longer */
	assert_int_equal(engine_apply_queues(f->e, &left, 1, STR(""), &err), DLQ_OK);
	queue_config_unref(left);
	for (int round = 0; round < 4; round++) {
		static const char *const urls[] = {"http://a/", "http://b/", "", "http://c/"};
		if (round == 3) {
			engine_close(f->e);
			fix_open(f);
		}
		assert_int_equal(engine_apply_queues(f->e, NULL, 0, str_of(urls[round]), &err), DLQ_OK);
		assert_int_equal(fix_queue(f, "put", "{}"), DLQ_OK); /* a change meanwhile keeps it */
		for (int i = 0; i < 5; i++) {
			const struct equeue *q = equeue_find(f->e, str_of(queues[i].name));
			assert_true(str_eqz(q->config->on_dead_letter, queues[i].follows ? urls[round] : i == 2 ? "http://own/" : ""));
		}
	}
	fix_make_dead(f, "none", 1, id);
	assert_int_equal(notices_due(f, &notice, &next), 0);
	fix_make_dead(f, "put", 1, id);
	assert_int_equal(notices_due(f, &notice, &next), 1);
	fix_free(f);
}

/* ---- tokens ---- */

static void test_tokens(void **state)
{
	(void)state;
	struct fix *f = fix_new(&(struct engine_options){.single_step = true});
	struct dlq_err err = {0};
	struct token_info info;
	bool created;
	char path[200], secret[80] = "";
	struct stat st;
	assert_int_equal(engine_bootstrap_token(f->e, &created, &err), DLQ_OK);
	assert_true(created);
	snprintf(path, sizeof(path), "%s/admin.token", f->dir);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	FILE *in = fopen(path, "r");
	assert_non_null(fgets(secret, sizeof(secret), in));
	fclose(in);
	secret[strcspn(secret, "\n")] = '\0';
	assert_int_equal(engine_token_check(f->e, str_of(secret), ROLE_ADMIN, STR("any"), &info, &err), DLQ_OK);
	assert_true(str_eqz(info.name, "admin") && info.role == ROLE_ADMIN && !info.limited);
	assert_int_equal(engine_bootstrap_token(f->e, &created, &err), DLQ_OK);
	assert_false(created);
	secret[5] = secret[5] == 'A' ? 'B' : 'A';
	assert_int_equal(engine_token_check(f->e, str_of(secret), ROLE_VIEWER, (struct str){0}, &info, &err),
	                 DLQ_UNAUTHENTICATED);
	assert_int_equal(engine_token_check(f->e, (struct str){0}, ROLE_VIEWER, (struct str){0}, &info, &err),
	                 DLQ_UNAUTHENTICATED);
	struct engine_op add = {.type = OP_TOKEN_ADD, .operator= STR("admin")};
	add.u.token_add.name = STR("bob");
	add.u.token_add.role = ROLE_OPERATOR;
	add.u.token_add.queues = STR("[\"orders\", \"mail-*\"]");
	add.u.token_add.ttl_ms = 1000;
	engine_call(f->e, &add);
	assert_int_equal(add.code, DLQ_OK);
	struct str bob = str_of(add.u.token_add.secret);
	assert_int_equal(bob.n, 43);
	assert_int_equal(engine_token_check(f->e, bob, ROLE_OPERATOR, STR("orders"), &info, &err), DLQ_OK);
	assert_true(info.limited);
	assert_int_equal(engine_token_check(f->e, bob, ROLE_OPERATOR, STR("mail-in"), &info, &err), DLQ_OK);
	assert_int_equal(engine_token_check(f->e, bob, ROLE_OPERATOR, STR("mai"), &info, &err), DLQ_FORBIDDEN);
	assert_int_equal(engine_token_check(f->e, bob, ROLE_OPERATOR, STR("orders2"), &info, &err), DLQ_FORBIDDEN);
	assert_int_equal(engine_token_check(f->e, bob, ROLE_ADMIN, STR("orders"), &info, &err), DLQ_FORBIDDEN);
	struct engine_op again = add;
	again.arena = (struct arena){0};
	engine_call(f->e, &again);
	assert_int_equal(again.code, DLQ_CONFLICT);
	clock_advance(f->clock, 1000);
	assert_int_equal(engine_token_check(f->e, bob, ROLE_VIEWER, STR("orders"), &info, &err), DLQ_UNAUTHENTICATED);
	engine_op_release(&add);
	engine_op_release(&again);
	fix_free(f);
}

static void admin_add(struct fix *f, const char *name, enum role role, struct str queues, int64_t ttl_ms)
{
	struct engine_op add = {.type = OP_TOKEN_ADD, .operator= STR("admin")};
	add.u.token_add.name = str_of(name);
	add.u.token_add.role = role;
	add.u.token_add.queues = queues;
	add.u.token_add.ttl_ms = ttl_ms;
	engine_call(f->e, &add);
	assert_int_equal(add.code, DLQ_OK);
	engine_op_release(&add);
}

static enum dlq_code token_revoke(struct fix *f, const char *name)
{
	struct engine_op op = {.type = OP_TOKEN_REVOKE};
	op.u.token_revoke.name = str_of(name);
	engine_call(f->e, &op);
	if (op.code == DLQ_CONFLICT)
		assert_non_null(strstr(op.err.detail, "dlq token create"));
	engine_op_release(&op);
	return op.code;
}

/* One admin stays, whoever revokes; one that is limited, expired or no admin does not count. */
static void test_last_admin(void **state)
{
	(void)state;
	struct fix *f = fix_new(&(struct engine_options){.single_step = true});
	struct dlq_err err = {0};
	bool created;
	assert_int_equal(engine_bootstrap_token(f->e, &created, &err), DLQ_OK);
	assert_int_equal(token_revoke(f, "admin"), DLQ_CONFLICT);
	admin_add(f, "op", ROLE_OPERATOR, STR(""), 0);
	admin_add(f, "team", ROLE_ADMIN, STR("[\"team-*\"]"), 0);
	admin_add(f, "short", ROLE_ADMIN, STR(""), 1000);
	clock_advance(f->clock, 1000);
	assert_int_equal(token_revoke(f, "admin"), DLQ_CONFLICT);
	assert_int_equal(token_revoke(f, "short"), DLQ_OK);
	assert_int_equal(token_revoke(f, "team"), DLQ_OK);
	assert_int_equal(token_revoke(f, "nobody"), DLQ_NOT_FOUND);
	/* Two at the same moment, in one batch: one wins. */
	admin_add(f, "second", ROLE_ADMIN, STR(""), 60000);
	struct engine_op a = {.type = OP_TOKEN_REVOKE, .port = &f->in.port}, b = a;
	a.u.token_revoke.name = STR("admin");
	b.u.token_revoke.name = STR("second");
	a.next = &b;
	engine_submit(f->e, &a);
	engine_step(f->e);
	assert_ptr_equal(inbox_try(&f->in), &a);
	assert_ptr_equal(inbox_try(&f->in), &b);
	assert_int_equal(a.code, DLQ_OK);
	assert_int_equal(b.code, DLQ_CONFLICT);
	engine_op_release(&a);
	engine_op_release(&b);
	/* The table survives a restart; when the last one has expired, a start makes a new one. */
	engine_close(f->e);
	fix_open(f);
	assert_int_equal(token_revoke(f, "second"), DLQ_CONFLICT);
	clock_advance(f->clock, 60000);
	assert_int_equal(engine_bootstrap_token(f->e, &created, &err), DLQ_OK);
	assert_true(created);
	assert_int_equal(token_revoke(f, "admin"), DLQ_CONFLICT); /* the name of a revoked one is free */
	fix_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_redrive_refusals), cmocka_unit_test(test_redrive_control),
	    cmocka_unit_test(test_file_queues),
	    cmocka_unit_test(test_notices),          cmocka_unit_test(test_default_on_dead_letter),
	    cmocka_unit_test(test_tokens),           cmocka_unit_test(test_last_admin),
	    cmocka_unit_test(test_delete_under_a_wait),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
