/* The engine as its callers see it: long polls, limits, drain, a store that fails. */
#include <string.h>

#include "lib_engine.h"

/* ---- long polls ---- */

static void test_long_poll(void **state)
{
	(void)state;
	struct fix *f = fix_new(NULL);
	struct engine_op first, second;
	char id[ULID_LEN + 1];
	assert_int_equal(fix_queue(f, "q", FAST), DLQ_OK);
	receive_init(&first, f, "q", 30000);
	receive_init(&second, f, "q", 30000);
	engine_submit(f->e, &first);
	engine_submit(f->e, &second);
	assert_int_equal(fix_send(f, "q", "hello", id), DLQ_OK);
	assert_ptr_equal(inbox_wait(&f->in), &first); /* who came first is served first */
	assert_int_equal(first.u.receive.n, 1);
	assert_true(str_eqz(first.u.receive.items[0].d.body, "hello"));
	assert_true(str_eqz(first.u.receive.items[0].d.id, id));
	/* The retry wakes the other one when it is due, not before. */
	int64_t t0 = clock_now_ms(f->clock);
	assert_int_equal(fix_settle(f, "q", first.u.receive.items[0].receipt, OUTCOME_TRANSIENT).effect, EFFECT_RETRY);
	assert_ptr_equal(inbox_wait(&f->in), &second);
	assert_int_equal(second.u.receive.n, 1);
	assert_int_equal(second.u.receive.items[0].d.attempts, 1);
	assert_true(clock_now_ms(f->clock) - t0 >= 50);
	engine_op_release(&first);
	engine_op_release(&second);
	/* One that nothing comes for returns empty at its deadline. */
	receive_init(&first, f, "q", 40);
	t0 = clock_now_ms(f->clock);
	engine_submit(f->e, &first);
	assert_ptr_equal(inbox_wait(&f->in), &first);
	assert_int_equal(first.code, DLQ_OK);
	assert_int_equal(first.u.receive.n, 0);
	assert_true(clock_now_ms(f->clock) - t0 >= 40);
	/* One whose client went away comes back when it is cancelled. */
	receive_init(&first, f, "q", 60000);
	engine_submit(f->e, &first);
	engine_cancel_receive(f->e, &first);
	assert_ptr_equal(inbox_wait(&f->in), &first);
	assert_int_equal(first.u.receive.n, 0);
	engine_op_release(&first);
	fix_free(f);
}

static void test_poll_states(void **state)
{
	(void)state;
	struct fix *f = fix_new(&(struct engine_options){.single_step = true});
	struct engine_op op;
	char receipt[RECEIPT_LEN + 1];
	assert_int_equal(fix_queue(f, "q", "{\"max_in_flight\": 1}"), DLQ_OK);
	/* A paused queue takes messages and gives none. */
	struct engine_op pause = {.type = OP_QUEUE_PAUSE, .queue = STR("q")};
	pause.u.queue_pause.paused = true;
	engine_call(f->e, &pause);
	assert_int_equal(pause.code, DLQ_OK);
	assert_int_equal(fix_send(f, "q", "one", NULL), DLQ_OK);
	assert_int_equal(fix_send(f, "q", "two", NULL), DLQ_OK);
	assert_int_equal(fix_receive(f, "q", NULL), 0);
	receive_init(&op, f, "q", 60000);
	engine_submit(f->e, &op);
	engine_step(f->e);
	assert_null(inbox_try(&f->in));
	pause.u.queue_pause.paused = false;
	engine_call(f->e, &pause);
	assert_ptr_equal(inbox_try(&f->in), &op);
	assert_int_equal(op.u.receive.n, 1); /* max_in_flight */
	memcpy(receipt, op.u.receive.items[0].receipt, sizeof(receipt));
	engine_op_release(&op);
	/* The limit of leases: the next comes when one is settled. */
	receive_init(&op, f, "q", 60000);
	engine_submit(f->e, &op);
	engine_step(f->e);
	assert_null(inbox_try(&f->in));
	assert_int_equal(fix_settle(f, "q", receipt, OUTCOME_OK).code, DLQ_OK);
	assert_ptr_equal(inbox_try(&f->in), &op);
	assert_int_equal(op.u.receive.n, 1);
	engine_op_release(&op);
	/* Bad input is refused, each with its own word. */
	receive_init(&op, f, "none", 0);
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_NOT_FOUND);
	receive_init(&op, f, "q", 60001);
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_BAD_REQUEST);
	receive_init(&op, f, "q", 0);
	op.u.receive.max = 1001;
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_BAD_REQUEST);
	receive_init(&op, f, "q", 0);
	op.u.receive.visibility_timeout_ms = 999;
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_BAD_REQUEST);
	fix_free(f);
}

static void test_byte_limit(void **state)
{
	(void)state;
	struct fix *f = fix_new(&(struct engine_options){.single_step = true});
	char body[1001];
	struct engine_op op;
	memset(body, 'x', 1000);
	body[1000] = '\0';
	assert_int_equal(fix_queue(f, "q", "{}"), DLQ_OK);
	for (int i = 0; i < 10; i++)
		assert_int_equal(fix_send(f, "q", body, NULL), DLQ_OK);
	receive_init(&op, f, "q", 0);
	op.u.receive.max_bytes = 3500;
	engine_call(f->e, &op);
	assert_int_equal(op.u.receive.n, 3);
	engine_op_release(&op);
	receive_init(&op, f, "q", 0);
	op.u.receive.max_bytes = 1; /* one is always given */
	engine_call(f->e, &op);
	assert_int_equal(op.u.receive.n, 1);
	engine_op_release(&op);
	receive_init(&op, f, "q", 0);
	engine_call(f->e, &op);
	assert_int_equal(op.u.receive.n, 6);
	for (int i = 0; i < 6; i++)
		assert_int_equal(op.u.receive.items[i].d.attempts, 0);
	engine_op_release(&op);
	fix_free(f);
}

/* ---- limits ---- */

static void test_busy(void **state)
{
	(void)state;
	struct fix *f =
	    fix_new(&(struct engine_options){.single_step = true, .max_waiting_ops = 2, .max_waiting_receives = 1});
	struct engine_op op[3];
	assert_int_equal(fix_queue(f, "q", "{}"), DLQ_OK);
	for (int i = 0; i < 3; i++) {
		receive_init(&op[i], f, "q", 1000);
		engine_submit(f->e, &op[i]);
	}
	assert_ptr_equal(inbox_try(&f->in), &op[2]); /* at once, before any work is done */
	assert_int_equal(op[2].code, DLQ_BUSY);
	assert_null(inbox_try(&f->in));
	engine_step(f->e);
	assert_ptr_equal(inbox_try(&f->in), &op[1]); /* one may park, the other not */
	assert_int_equal(op[1].code, DLQ_BUSY);
	struct engine_status st;
	engine_status(f->e, &st);
	assert_int_equal(st.waiting_ops, 0);
	assert_int_equal(st.waiting_bytes, 0);
	assert_int_equal(st.parked_receives, 1);
	clock_advance(f->clock, 1000);
	engine_step(f->e);
	assert_ptr_equal(inbox_try(&f->in), &op[0]);
	assert_int_equal(op[0].code, DLQ_OK);
	fix_free(f);
}

static void test_busy_bytes(void **state)
{
	(void)state;
	struct fix *f = fix_new(&(struct engine_options){.single_step = true, .max_waiting_bytes = 10000});
	struct engine_op op[2];
	static char body[6000];
	struct store_send item[2] = {{.body = {body, sizeof(body)}}, {.body = {body, sizeof(body)}}};
	assert_int_equal(fix_queue(f, "q", "{}"), DLQ_OK);
	for (int i = 0; i < 2; i++) {
		op[i] = (struct engine_op){.type = OP_SEND, .queue = STR("q"), .port = &f->in.port};
		op[i].u.send.items = &item[i];
		op[i].u.send.n = 1;
		engine_submit(f->e, &op[i]);
	}
	assert_ptr_equal(inbox_try(&f->in), &op[1]);
	assert_int_equal(op[1].code, DLQ_BUSY);
	engine_step(f->e);
	assert_ptr_equal(inbox_try(&f->in), &op[0]);
	assert_int_equal(op[0].code, DLQ_OK);
	fix_free(f);
}

/* ---- drain ---- */

static void test_drain(void **state)
{
	(void)state;
	struct fix *f = fix_new(NULL);
	struct engine_op op;
	char receipt[RECEIPT_LEN + 1];
	assert_int_equal(fix_queue(f, "q", "{}"), DLQ_OK);
	assert_int_equal(fix_queue(f, "empty", "{}"), DLQ_OK);
	assert_int_equal(fix_send(f, "q", "one", NULL), DLQ_OK);
	assert_int_equal(fix_receive(f, "q", receipt), 1);
	receive_init(&op, f, "empty", 60000);
	engine_submit(f->e, &op);
	engine_drain(f->e, 1000);
	assert_ptr_equal(inbox_wait(&f->in), &op);
	assert_int_equal(op.code, DLQ_OK);
	assert_int_equal(op.u.receive.n, 0);
	assert_int_equal(fix_send(f, "q", "two", NULL), DLQ_OK);
	assert_int_equal(fix_receive(f, "q", NULL), 0);
	assert_int_equal(fix_settle(f, "q", receipt, OUTCOME_OK).code, DLQ_OK);
	struct engine_status st;
	engine_status(f->e, &st);
	assert_false(st.ready);
	fix_free(f);
}

/* What was submitted before the close still happens, and everything comes back. */
static void test_close_answers_all(void **state)
{
	(void)state;
	struct fix *f = fix_new(NULL);
	struct engine_op op[50];
	struct store_send item[50] = {0};
	assert_int_equal(fix_queue(f, "q", "{}"), DLQ_OK);
	for (int i = 0; i < 50; i++) {
		item[i].body = STR("x");
		op[i] = (struct engine_op){.type = OP_SEND, .queue = STR("q"), .port = &f->in.port};
		op[i].u.send.items = &item[i];
		op[i].u.send.n = 1;
		if (i)
			op[i - 1].next = &op[i];
	}
	engine_submit(f->e, op);
	engine_close(f->e);
	for (int i = 0; i < 50; i++) {
		struct engine_op *back = inbox_try(&f->in);
		assert_ptr_equal(back, &op[i]);
		assert_int_equal(back->code, DLQ_OK);
	}
	assert_true(f->in.posts < 50); /* a post per batch, not per operation */
	fix_open(f);
	assert_int_equal(fix_receive(f, "q", NULL), 10);
	fix_free(f);
}

/* ---- a store that fails ---- */

static struct store_ops faulty;
static const struct store_ops *real_ops;
static enum dlq_code commit_says, probe_says;
static int probes;

static enum dlq_code faulty_commit(struct store *s, struct dlq_err *err)
{
	if (!commit_says)
		return real_ops->commit(s, err);
	real_ops->rollback(s);
	return err_set(err, commit_says, "injected");
}

static enum dlq_code faulty_probe(struct store *s, struct dlq_err *err)
{
	probes++;
	return probe_says ? err_set(err, probe_says, "injected") : real_ops->probe(s, err);
}

static void faults_into(struct engine *e)
{
	real_ops = e->ops;
	faulty = *e->ops;
	faulty.commit = faulty_commit;
	faulty.probe = faulty_probe;
	e->ops = &faulty;
	commit_says = probe_says = DLQ_OK;
	probes = 0;
}

static void test_store_full(void **state)
{
	(void)state;
	struct fix *f = fix_new(&(struct engine_options){.single_step = true});
	struct engine_status st;
	struct engine_op parked;
	char receipt[RECEIPT_LEN + 1];
	assert_int_equal(fix_queue(f, "q", "{}"), DLQ_OK);
	assert_int_equal(fix_queue(f, "empty", "{}"), DLQ_OK);
	assert_int_equal(fix_send(f, "q", "kept", NULL), DLQ_OK);
	assert_int_equal(fix_receive(f, "q", receipt), 1);
	receive_init(&parked, f, "empty", 60000);
	engine_submit(f->e, &parked);
	engine_step(f->e);
	faults_into(f->e);
	commit_says = probe_says = DLQ_STORE_FULL;
	/* No success without a commit (invariant 7). */
	assert_int_equal(fix_send(f, "q", "lost", NULL), DLQ_STORE_FULL);
	assert_ptr_equal(inbox_try(&f->in), &parked);
	assert_int_equal(parked.code, DLQ_STORE_FULL);
	assert_int_equal(parked.u.receive.n, 0);
	engine_status(f->e, &st);
	assert_false(st.ready);
	assert_int_equal(st.store_code, DLQ_STORE_FULL);
	assert_non_null(strstr(st.store_detail, "injected"));
	commit_says = DLQ_OK; /* not noticed before the probe: new changes are refused at once */
	assert_int_equal(fix_send(f, "q", "refused", NULL), DLQ_STORE_FULL);
	assert_int_equal(probes, 0);
	assert_int_equal(fix_dead_count(f, "q"), 0); /* reads work */
	clock_advance(f->clock, 1000);
	engine_step(f->e);
	assert_int_equal(probes, 1);
	probe_says = DLQ_OK;
	assert_true(engine_step(f->e) <= clock_now_ms(f->clock) + 1000);
	clock_advance(f->clock, 1000);
	assert_int_equal(fix_send(f, "q", "new", NULL), DLQ_OK);
	engine_status(f->e, &st);
	assert_true(st.ready);
	/* The lease of before holds, and of the three sends only the good one is there. */
	assert_int_equal(fix_settle(f, "q", receipt, OUTCOME_OK).code, DLQ_OK);
	struct engine_op op;
	receive_init(&op, f, "q", 0);
	engine_call(f->e, &op);
	assert_int_equal(op.u.receive.n, 1);
	assert_true(str_eqz(op.u.receive.items[0].d.body, "new"));
	engine_op_release(&op);
	fix_free(f);
}

/* A batch that is rolled back leaves nothing in memory: no queue, no token, no lease, no secret. */
static void test_store_failed(void **state)
{
	(void)state;
	struct fix *f = fix_new(&(struct engine_options){.single_step = true});
	assert_int_equal(fix_queue(f, "q", "{}"), DLQ_OK);
	assert_int_equal(fix_send(f, "q", "one", NULL), DLQ_OK);
	faults_into(f->e);
	commit_says = DLQ_STORE_FAILED;
	struct queue_config *config = fix_config("new", "{}");
	struct engine_op op[3];
	receive_init(&op[0], f, "q", 0);
	op[1] = (struct engine_op){.type = OP_TOKEN_ADD, .port = &f->in.port};
	op[1].u.token_add.name = STR("bob");
	op[2] = (struct engine_op){.type = OP_QUEUE_PUT, .queue = STR("new"), .port = &f->in.port};
	op[2].u.queue_put.config = config;
	op[0].next = &op[1];
	op[1].next = &op[2];
	engine_submit(f->e, op);
	engine_step(f->e);
	for (int i = 0; i < 3; i++) {
		assert_ptr_equal(inbox_try(&f->in), &op[i]);
		assert_int_equal(op[i].code, DLQ_STORE_FAILED);
		engine_op_release(&op[i]);
	}
	queue_config_unref(config);
	assert_int_equal(op[0].u.receive.n, 0);
	assert_int_equal(op[1].u.token_add.secret[0], 0);
	assert_false(engine_has_queue(f->e, STR("new")));
	/* It stays refused, whatever time passes, until a restart. */
	commit_says = DLQ_OK;
	clock_advance(f->clock, 3600000);
	assert_true(engine_step(f->e) > clock_now_ms(f->clock));
	assert_int_equal(fix_send(f, "q", "two", NULL), DLQ_STORE_FAILED);
	assert_int_equal(probes, 0);
	engine_close(f->e);
	fix_open(f);
	assert_int_equal(fix_receive(f, "q", NULL), 1);
	fix_free(f);
}

/* A redrive whose step is rolled back goes on after the disk has room again: everybody once, nobody lost. */
static void test_redrive_over_full(void **state)
{
	(void)state;
	struct fix *f = fix_new(&(struct engine_options){.single_step = true});
	char id[ULID_LEN + 1];
	const int n = REDRIVE_STEP + 200;
	assert_int_equal(fix_queue(f, "q", "{}"), DLQ_OK);
	fix_make_dead(f, "q", n, id);
	faults_into(f->e);
	f->e->redrive_step = REDRIVE_STEP;
	struct engine_op op = {.type = OP_REDRIVE, .queue = STR("q"), .port = &f->in.port};
	op.u.redrive.reason = STR("mended");
	engine_submit(f->e, &op);
	writer_once(f->e); /* the start and the first step */
	assert_ptr_equal(inbox_try(&f->in), &op);
	assert_int_equal(op.code, DLQ_OK);
	engine_op_release(&op);
	assert_true(redrives_next(f->e) != NEVER); /* 200 are left for the step that fails */
	commit_says = probe_says = DLQ_STORE_FULL;
	engine_step(f->e);
	assert_int_equal(fix_dead_count(f, "q"), 200);
	commit_says = probe_says = DLQ_OK;
	clock_advance(f->clock, 1000);
	engine_step(f->e);
	assert_int_equal(fix_dead_count(f, "q"), 0);
	int got = 0, more;
	while ((more = fix_receive(f, "q", NULL)) > 0)
		got += more;
	assert_int_equal(got, n);
	fix_free(f);
}

static void set_paused(struct fix *f, const char *queue, bool paused)
{
	struct engine_op op = {.type = OP_QUEUE_PAUSE, .queue = str_of(queue), .port = &f->in.port}, *back;
	op.u.queue_pause.paused = paused;
	engine_submit(f->e, &op);
	writer_once(f->e); /* one turn */
	back = inbox_try(&f->in);
	assert_ptr_equal(back, &op);
	assert_int_equal(op.code, DLQ_OK);
	engine_op_release(&op);
}

/* Many who wait for much at once are served in several turns, and another queue's have theirs in between. */
static void test_polls_take_turns(void **state)
{
	(void)state;
	enum { N = 40 };
	struct fix *f = fix_new(&(struct engine_options){.single_step = true});
	struct engine_op polls[N], other, *back;
	char *body = mem_alloc(BATCH_BYTES_MAX / 8 + 1);
	int got = 0;
	memset(body, 'x', BATCH_BYTES_MAX / 8);
	assert_int_equal(fix_queue(f, "big", "{}"), DLQ_OK);
	assert_int_equal(fix_queue(f, "small", "{}"), DLQ_OK);
	set_paused(f, "big", true);
	set_paused(f, "small", true);
	for (int i = 0; i < N; i++)
		assert_int_equal(fix_send(f, "big", body, NULL), DLQ_OK);
	assert_int_equal(fix_send(f, "small", "s", NULL), DLQ_OK);
	receive_init(&other, f, "small", 60000);
	engine_submit(f->e, &other);
	for (int i = 0; i < N; i++) {
		receive_init(&polls[i], f, "big", 60000);
		polls[i].u.receive.max = 1;
		engine_submit(f->e, &polls[i]);
	}
	engine_step(f->e);
	assert_null(inbox_try(&f->in));
	set_paused(f, "big", false);
	writer_once(f->e);
	while (inbox_try(&f->in))
		got++;
	assert_in_range(got, 1, 9); /* 8 MiB, and one more */
	set_paused(f, "small", false);
	while (inbox_try(&f->in))
		got++;
	assert_in_range(got, 1, 18);
	writer_once(f->e);
	back = inbox_try(&f->in);
	assert_ptr_equal(back, &other); /* it comes first now */
	engine_step(f->e);
	while (inbox_try(&f->in))
		got++;
	assert_int_equal(got, N);
	for (int i = 0; i < N; i++) {
		assert_int_equal(polls[i].u.receive.n, 1);
		engine_op_release(&polls[i]);
	}
	engine_op_release(&other);
	mem_free(body);
	fix_free(f);
}

/* An owner that does not come after: no more messages for it until it has taken those that came back. */
static void test_port_limit(void **state)
{
	(void)state;
	struct fix *f = fix_new(&(struct engine_options){.single_step = true});
	struct engine_op first, at_once, waits;
	f->in.port.given_max = 100;
	assert_int_equal(fix_queue(f, "q", "{}"), DLQ_OK);
	for (int i = 0; i < 3; i++)
		assert_int_equal(fix_send(f, "q", "m", NULL), DLQ_OK);
	receive_init(&first, f, "q", 0);
	first.u.receive.max = 1;
	engine_submit(f->e, &first);
	engine_step(f->e);
	assert_ptr_equal(inbox_try(&f->in), &first);
	assert_int_equal(first.u.receive.n, 1);
	assert_true(first.u.receive.given >= 100);
	receive_init(&at_once, f, "q", 0);
	receive_init(&waits, f, "q", 60000);
	engine_submit(f->e, &at_once);
	engine_submit(f->e, &waits);
	assert_true(engine_step(f->e) > clock_now_ms(f->clock)); /* nothing to do until then */
	assert_ptr_equal(inbox_try(&f->in), &at_once);
	assert_int_equal(at_once.code, DLQ_BUSY);
	assert_null(inbox_try(&f->in));
	engine_port_taken(f->e, &f->in.port, first.u.receive.given);
	engine_step(f->e);
	assert_ptr_equal(inbox_try(&f->in), &waits);
	assert_int_equal(waits.u.receive.n, 2);
	engine_port_taken(f->e, &f->in.port, waits.u.receive.given);
	assert_int_equal(atomic_load(&f->in.port.given), 0);
	engine_op_release(&first);
	engine_op_release(&at_once);
	engine_op_release(&waits);
	fix_free(f);
}

/* New keys and types hold no control characters; what older data and imports hold is given out as it is. */
static void test_old_text(void **state)
{
	(void)state;
	struct fix *f = fix_new(&(struct engine_options){.single_step = true});
	assert_int_equal(fix_queue(f, "q", "{}"), DLQ_OK);
	struct store_send item = {.key = STR("a\nb"), .content_type = STR("\x7f/x"), .headers = STR("{\"h\":\"\\t\"}"), .body = STR("m")};
	struct engine_op send = {.type = OP_SEND, .queue = STR("q")}, op;
	send.u.send.items = &item;
	send.u.send.n = 1;
	engine_call(f->e, &send);
	assert_int_equal(send.code, DLQ_OK);
	receive_init(&op, f, "q", 0);
	engine_call(f->e, &op);
	assert_int_equal(op.u.receive.n, 1);
	const struct store_delivery *d = &op.u.receive.items[0].d;
	assert_true(str_eqz(d->key, "a\nb") && str_eqz(d->content_type, "\x7f/x") && str_eq(d->headers, item.headers));
	engine_op_release(&send);
	engine_op_release(&op);
	fix_free(f);
}

static void test_receipts(void **state)
{
	(void)state;
	char text[RECEIPT_LEN + 1];
	struct receipt r = {.queue_id = 7, .seq = INT64_MAX, .nonce = 0x0123456789abcdef}, back;
	receipt_write(&r, text);
	assert_int_equal(strlen(text), RECEIPT_LEN);
	assert_true(receipt_parse(str_of(text), &back));
	assert_true(back.queue_id == r.queue_id && back.seq == r.seq && back.nonce == r.nonce);
	for (int i = 0; i < RECEIPT_LEN; i++) { /* no single changed character passes */
		char was = text[i];
		for (const char *c = "AZaz09-_ \n+/="; *c; c++) {
			text[i] = *c;
			assert_true(*c == was || !receipt_parse(str_of(text), &back));
		}
		text[i] = was;
	}
	assert_false(receipt_parse((struct str){text, RECEIPT_LEN - 1}, &back));
	assert_false(receipt_parse((struct str){0}, &back));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_receipts), cmocka_unit_test(test_polls_take_turns), cmocka_unit_test(test_port_limit),
	    cmocka_unit_test(test_old_text),
	    cmocka_unit_test(test_long_poll),
	    cmocka_unit_test(test_poll_states),
	    cmocka_unit_test(test_byte_limit),
	    cmocka_unit_test(test_busy),
	    cmocka_unit_test(test_busy_bytes),
	    cmocka_unit_test(test_drain),
	    cmocka_unit_test(test_close_answers_all),
	    cmocka_unit_test(test_store_full),
	    cmocka_unit_test(test_store_failed),
	    cmocka_unit_test(test_redrive_over_full),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
