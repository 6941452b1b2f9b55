/* The engine as its callers see it: long polls, limits, drain, a store that fails, queues of the file, tokens. */
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/engine_int.h"

/* ---- a port to wait at ---- */

struct inbox {
	struct op_port port;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	struct engine_op *head, *tail;
	int posts;
};

static void inbox_post(struct op_port *port, struct engine_op *list)
{
	struct inbox *in = (struct inbox *)port;
	pthread_mutex_lock(&in->lock);
	in->posts++;
	for (struct engine_op *op = list, *next; op; op = next) {
		next = op->next;
		op_list_push(&in->head, &in->tail, op);
	}
	pthread_cond_signal(&in->cond);
	pthread_mutex_unlock(&in->lock);
}

static void inbox_init(struct inbox *in)
{
	*in = (struct inbox){.port.post = inbox_post};
	pthread_mutex_init(&in->lock, NULL);
	pthread_cond_init(&in->cond, NULL);
}

static struct engine_op *inbox_try(struct inbox *in)
{
	pthread_mutex_lock(&in->lock);
	struct engine_op *op = in->head;
	if (op) {
		in->head = op->next;
		if (!in->head)
			in->tail = NULL;
	}
	pthread_mutex_unlock(&in->lock);
	return op;
}

/* The next one that comes back; the test's time limit ends a wait that never does. */
static struct engine_op *inbox_wait(struct inbox *in)
{
	pthread_mutex_lock(&in->lock);
	while (!in->head)
		pthread_cond_wait(&in->cond, &in->lock);
	pthread_mutex_unlock(&in->lock);
	return inbox_try(in);
}

/* ---- an engine in a temporary folder ---- */

struct fix {
	char dir[64];
	struct clock *clock;
	struct engine *e;
	struct engine_options o;
	struct inbox in;
};

static void fix_open(struct fix *f)
{
	struct dlq_err err = {0};
	f->o.store = "sqlite";
	f->o.dir = f->dir;
	f->o.clock = f->clock;
	f->o.no_sync = true;
	if (engine_open(&f->o, &f->e, &err) || engine_start(f->e, &err))
		fail_msg("%s", err.detail);
}

static struct fix *fix_new(const struct engine_options *o)
{
	struct fix *f = mem_alloc(sizeof(*f));
	if (o)
		f->o = *o;
	snprintf(f->dir, sizeof(f->dir), "/tmp/dlq-engine-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	f->clock = f->o.single_step ? clock_manual_new(1800000000000) : clock_real_new();
	inbox_init(&f->in);
	fix_open(f);
	return f;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static void fix_free(struct fix *f)
{
	engine_close(f->e);
	clock_free(f->clock);
	nftw(f->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	mem_free(f);
}

static struct queue_config *config_of(const char *name, const char *json)
{
	struct arena a = {0};
	struct doc *d = NULL;
	struct queue_config *config = NULL;
	struct dlq_err err = {0};
	if (doc_from_json(&a, str_of(json), "test", &d, &err) || queue_config_parse(d, str_of(name), (struct str){0}, &config, &err))
		fail_msg("%s", err.detail);
	arena_release(&a);
	return config;
}

static enum dlq_code queue_put(struct fix *f, const char *name, const char *json)
{
	struct queue_config *config = config_of(name, json);
	struct engine_op op = {.type = OP_QUEUE_PUT, .queue = str_of(name), .operator = STR("test")};
	op.u.queue_put.config = config;
	engine_call(f->e, &op);
	engine_op_release(&op);
	queue_config_unref(config);
	return op.code;
}

#define FAST "{\"policy\": {\"max_attempts\": 2, \"backoff\": [\"50ms\"]}}"

static enum dlq_code send(struct fix *f, const char *queue, const char *body, char id[ULID_LEN + 1])
{
	struct store_send item = {.body = str_of(body)};
	struct engine_op op = {.type = OP_SEND, .queue = str_of(queue)};
	op.u.send.items = &item;
	op.u.send.n = 1;
	engine_call(f->e, &op);
	engine_op_release(&op);
	if (id)
		memcpy(id, item.made_id, sizeof(item.made_id));
	return op.code ? op.code : item.code;
}

static void receive_init(struct engine_op *op, struct fix *f, const char *queue, int64_t wait)
{
	*op = (struct engine_op){.type = OP_RECEIVE, .queue = str_of(queue), .port = &f->in.port};
	op->u.receive.max = 10;
	op->u.receive.wait_ms = wait;
	op->u.receive.worker = STR("tester");
}

/* Receives at once; -1 when refused, else how many. */
static int receive(struct fix *f, const char *queue, char receipt[RECEIPT_LEN + 1])
{
	struct engine_op op;
	receive_init(&op, f, queue, 0);
	engine_call(f->e, &op);
	int n = op.code ? -1 : op.u.receive.n;
	if (n > 0 && receipt)
		memcpy(receipt, op.u.receive.items[0].receipt, RECEIPT_LEN + 1);
	engine_op_release(&op);
	return n;
}

static struct engine_settle_item settle(struct fix *f, const char *queue, const char *receipt, enum outcome outcome)
{
	struct engine_settle_item item = {.receipt = str_of(receipt), .outcome = outcome, .failure = {.type = STR("Boom"), .exit_code = -1}};
	struct engine_op op = {.type = OP_SETTLE, .queue = str_of(queue)};
	op.u.settle.items = &item;
	op.u.settle.n = 1;
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	engine_op_release(&op);
	item.receipt = (struct str){0};
	return item;
}

static int64_t dead_count(struct fix *f, const char *queue)
{
	struct engine_op op = {.type = OP_READ_QUEUE, .queue = str_of(queue)};
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	int64_t n = op.u.read_queue.out.counts.dead;
	engine_op_release(&op);
	return n;
}

/* Makes n dead letters; the id of the last. */
static void make_dead(struct fix *f, const char *queue, int n, char dlq_id[ULID_LEN + 1])
{
	for (int i = 0; i < n; i++) {
		char receipt[RECEIPT_LEN + 1];
		assert_int_equal(send(f, queue, "dead", NULL), DLQ_OK);
		assert_int_equal(receive(f, queue, receipt), 1);
		struct engine_settle_item it = settle(f, queue, receipt, OUTCOME_PERMANENT);
		assert_int_equal(it.effect, EFFECT_DEAD);
		memcpy(dlq_id, it.dlq_id, sizeof(it.dlq_id));
	}
}

/* ---- long polls ---- */

static void test_long_poll(void **state)
{
	(void)state;
	struct fix *f = fix_new(NULL);
	struct engine_op first, second;
	char id[ULID_LEN + 1];
	assert_int_equal(queue_put(f, "q", FAST), DLQ_OK);
	receive_init(&first, f, "q", 30000);
	receive_init(&second, f, "q", 30000);
	engine_submit(f->e, &first);
	engine_submit(f->e, &second);
	assert_int_equal(send(f, "q", "hello", id), DLQ_OK);
	assert_ptr_equal(inbox_wait(&f->in), &first); /* who came first is served first */
	assert_int_equal(first.u.receive.n, 1);
	assert_true(str_eqz(first.u.receive.items[0].d.body, "hello"));
	assert_true(str_eqz(first.u.receive.items[0].d.id, id));
	/* The retry wakes the other one when it is due, not before. */
	int64_t t0 = clock_now_ms(f->clock);
	assert_int_equal(settle(f, "q", first.u.receive.items[0].receipt, OUTCOME_TRANSIENT).effect, EFFECT_RETRY);
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
	assert_int_equal(queue_put(f, "q", "{\"max_in_flight\": 1}"), DLQ_OK);
	/* A paused queue takes messages and gives none. */
	struct engine_op pause = {.type = OP_QUEUE_PAUSE, .queue = STR("q")};
	pause.u.queue_pause.paused = true;
	engine_call(f->e, &pause);
	assert_int_equal(pause.code, DLQ_OK);
	assert_int_equal(send(f, "q", "one", NULL), DLQ_OK);
	assert_int_equal(send(f, "q", "two", NULL), DLQ_OK);
	assert_int_equal(receive(f, "q", NULL), 0);
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
	assert_int_equal(settle(f, "q", receipt, OUTCOME_OK).code, DLQ_OK);
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
	assert_int_equal(queue_put(f, "q", "{}"), DLQ_OK);
	for (int i = 0; i < 10; i++)
		assert_int_equal(send(f, "q", body, NULL), DLQ_OK);
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
	struct fix *f = fix_new(&(struct engine_options){.single_step = true, .max_waiting_ops = 2, .max_waiting_receives = 1});
	struct engine_op op[3];
	assert_int_equal(queue_put(f, "q", "{}"), DLQ_OK);
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
	assert_int_equal(queue_put(f, "q", "{}"), DLQ_OK);
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
	assert_int_equal(queue_put(f, "q", "{}"), DLQ_OK);
	assert_int_equal(queue_put(f, "empty", "{}"), DLQ_OK);
	assert_int_equal(send(f, "q", "one", NULL), DLQ_OK);
	assert_int_equal(receive(f, "q", receipt), 1);
	receive_init(&op, f, "empty", 60000);
	engine_submit(f->e, &op);
	engine_drain(f->e, 1000);
	assert_ptr_equal(inbox_wait(&f->in), &op);
	assert_int_equal(op.code, DLQ_OK);
	assert_int_equal(op.u.receive.n, 0);
	assert_int_equal(send(f, "q", "two", NULL), DLQ_OK);
	assert_int_equal(receive(f, "q", NULL), 0);
	assert_int_equal(settle(f, "q", receipt, OUTCOME_OK).code, DLQ_OK);
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
	assert_int_equal(queue_put(f, "q", "{}"), DLQ_OK);
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
	assert_int_equal(receive(f, "q", NULL), 10);
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
	assert_int_equal(queue_put(f, "q", "{}"), DLQ_OK);
	assert_int_equal(queue_put(f, "empty", "{}"), DLQ_OK);
	assert_int_equal(send(f, "q", "kept", NULL), DLQ_OK);
	assert_int_equal(receive(f, "q", receipt), 1);
	receive_init(&parked, f, "empty", 60000);
	engine_submit(f->e, &parked);
	engine_step(f->e);
	faults_into(f->e);
	commit_says = probe_says = DLQ_STORE_FULL;
	/* No success without a commit (invariant 7). */
	assert_int_equal(send(f, "q", "lost", NULL), DLQ_STORE_FULL);
	assert_ptr_equal(inbox_try(&f->in), &parked);
	assert_int_equal(parked.code, DLQ_STORE_FULL);
	assert_int_equal(parked.u.receive.n, 0);
	engine_status(f->e, &st);
	assert_false(st.ready);
	assert_int_equal(st.store_code, DLQ_STORE_FULL);
	assert_non_null(strstr(st.store_detail, "injected"));
	commit_says = DLQ_OK; /* not noticed before the probe: new changes are refused at once */
	assert_int_equal(send(f, "q", "refused", NULL), DLQ_STORE_FULL);
	assert_int_equal(probes, 0);
	assert_int_equal(dead_count(f, "q"), 0); /* reads work */
	clock_advance(f->clock, 1000);
	engine_step(f->e);
	assert_int_equal(probes, 1);
	probe_says = DLQ_OK;
	assert_true(engine_step(f->e) <= clock_now_ms(f->clock) + 1000);
	clock_advance(f->clock, 1000);
	assert_int_equal(send(f, "q", "new", NULL), DLQ_OK);
	engine_status(f->e, &st);
	assert_true(st.ready);
	/* The lease of before holds, and of the three sends only the good one is there. */
	assert_int_equal(settle(f, "q", receipt, OUTCOME_OK).code, DLQ_OK);
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
	assert_int_equal(queue_put(f, "q", "{}"), DLQ_OK);
	assert_int_equal(send(f, "q", "one", NULL), DLQ_OK);
	faults_into(f->e);
	commit_says = DLQ_STORE_FAILED;
	struct queue_config *config = config_of("new", "{}");
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
	assert_int_equal(send(f, "q", "two", NULL), DLQ_STORE_FAILED);
	assert_int_equal(probes, 0);
	engine_close(f->e);
	fix_open(f);
	assert_int_equal(receive(f, "q", NULL), 1);
	fix_free(f);
}

/* ---- redrive ---- */

static struct engine_op redrive(struct fix *f, const char *queue, struct str *ids, int n, const char *reason, bool dry)
{
	struct engine_op op = {.type = OP_REDRIVE, .queue = str_of(queue), .operator = STR("ann")};
	op.u.redrive.ids = ids;
	op.u.redrive.n_ids = n;
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
	assert_int_equal(queue_put(f, "q", "{}"), DLQ_OK);
	assert_int_equal(queue_put(f, "r", "{}"), DLQ_OK);
	make_dead(f, "q", 1, a);
	struct str ids[2] = {str_of(a), str_of(a)}, unknown = STR("01ARZ3NDEKTSV4RRFFQ69G5FAV"), garbage = STR("x"), body = STR("new");
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
	assert_int_equal(dead_count(f, "q"), 1); /* dry runs change nothing */
	long_reason[1000] = '\0';
	assert_int_equal(redrive(f, "q", ids, 1, long_reason, false).code, DLQ_OK);
	assert_int_equal(redrive(f, "", ids, 1, "again", false).code, DLQ_CONFLICT);
	assert_int_equal(dead_count(f, "q"), 0);
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
	assert_int_equal(queue_put(f, "q", "{}"), DLQ_OK);
	make_dead(f, "q", n, id);
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
	int64_t left = dead_count(f, "q");
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
	assert_int_equal(dead_count(f, "q"), left); /* paused: nothing moves */
	assert_int_equal(control(f, rid, REDRIVE_PAUSED).code, DLQ_CONFLICT);
	engine_close(f->e);
	fix_open(f);
	engine_step(f->e);
	assert_int_equal(dead_count(f, "q"), left); /* still paused after a restart */
	assert_int_equal(control(f, rid, REDRIVE_RUNNING).code, DLQ_OK);
	engine_close(f->e);
	fix_open(f);
	engine_step(f->e); /* goes on by itself */
	assert_int_equal(dead_count(f, "q"), 0);
	assert_int_equal(control(f, rid, REDRIVE_CANCELLED).code, DLQ_CONFLICT);
	assert_int_equal(control(f, "01ARZ3NDEKTSV4RRFFQ69G5FAV", REDRIVE_PAUSED).code, DLQ_NOT_FOUND);
	fix_free(f);
}

/* ---- the archive ---- */

static void test_archive(void **state)
{
	(void)state;
	struct fix *f = fix_new(&(struct engine_options){.single_step = true});
	char id[ULID_LEN + 1], path[200];
	assert_int_equal(queue_put(f, "q", "{\"policy\": {\"retention\": \"1h\"}}"), DLQ_OK);
	make_dead(f, "q", 3, id);
	/* While the archive cannot be written, nothing is removed. */
	snprintf(path, sizeof(path), "%s/archive", f->dir);
	int fd = open(path, O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	close(fd);
	clock_advance(f->clock, 3600000);
	assert_true(engine_step(f->e) > clock_now_ms(f->clock));
	assert_int_equal(dead_count(f, "q"), 3);
	assert_int_equal(unlink(path), 0);
	clock_advance(f->clock, 60000);
	engine_step(f->e);
	assert_int_equal(dead_count(f, "q"), 0);
	char day[TIME_LEN + 1], line[4096];
	time_format(clock_wall_ms(f->clock), day);
	snprintf(path, sizeof(path), "%s/archive/q/%.10s.jsonl", f->dir, day);
	FILE *in = fopen(path, "r");
	assert_non_null(in);
	int n = 0;
	while (fgets(line, sizeof(line), in)) {
		n++;
		assert_non_null(strstr(line, "\"body\":"));
		assert_non_null(strstr(line, "\"Boom\""));
		assert_non_null(strstr(line, "\"history\":"));
		struct arena a = {0};
		struct doc *d;
		struct dlq_err err = {0};
		assert_int_equal(doc_from_json(&a, str_trim(str_of(line)), "archive", &d, &err), DLQ_OK);
		arena_release(&a);
	}
	fclose(in);
	assert_int_equal(n, 3);
	fix_free(f);
}

/* ---- queues of the configuration file ---- */

static void test_file_queues(void **state)
{
	(void)state;
	struct fix *f = fix_new(&(struct engine_options){.single_step = true});
	struct dlq_err err = {0};
	struct queue_config *list[2] = {config_of("a", "{}"), config_of("b", "{\"ordered\": true}")};
	assert_int_equal(engine_apply_queues(f->e, list, 2, &err), DLQ_OK);
	assert_true(engine_has_queue(f->e, STR("a")) && engine_has_queue(f->e, STR("b")));
	assert_int_equal(queue_put(f, "a", "{\"max_messages\": 1}"), DLQ_CONFLICT);
	struct engine_op del = {.type = OP_QUEUE_DELETE, .queue = STR("a")};
	engine_call(f->e, &del);
	assert_int_equal(del.code, DLQ_CONFLICT);
	/* All or nothing: c is fine, but b may not change its order. */
	struct queue_config *bad[2] = {config_of("c", "{}"), config_of("b", "{}")};
	assert_int_equal(engine_apply_queues(f->e, bad, 2, &err), DLQ_CONFLICT);
	assert_non_null(strstr(err.detail, "ordered"));
	assert_false(engine_has_queue(f->e, STR("c")));
	/* a leaves the file: it stays, and may be changed and deleted. */
	assert_int_equal(engine_apply_queues(f->e, &list[1], 1, &err), DLQ_OK);
	assert_int_equal(send(f, "a", "x", NULL), DLQ_OK);
	assert_int_equal(queue_put(f, "a", "{\"max_messages\": 1}"), DLQ_OK);
	assert_int_equal(send(f, "a", "y", NULL), DLQ_QUEUE_FULL);
	engine_call(f->e, &del);
	assert_int_equal(del.code, DLQ_CONFLICT); /* not empty */
	char receipt[RECEIPT_LEN + 1];
	assert_int_equal(receive(f, "a", receipt), 1);
	assert_int_equal(settle(f, "a", receipt, OUTCOME_OK).code, DLQ_OK);
	struct engine_op parked;
	receive_init(&parked, f, "a", 60000);
	engine_submit(f->e, &parked);
	engine_call(f->e, &del);
	assert_int_equal(del.code, DLQ_OK);
	assert_ptr_equal(inbox_try(&f->in), &parked);
	assert_int_equal(parked.code, DLQ_NOT_FOUND);
	assert_int_equal(send(f, "a", "z", NULL), DLQ_NOT_FOUND);
	for (int i = 0; i < 2; i++) {
		queue_config_unref(list[i]);
		queue_config_unref(bad[i]);
	}
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
	assert_int_equal(engine_token_check(f->e, str_of(secret), ROLE_VIEWER, (struct str){0}, &info, &err), DLQ_UNAUTHENTICATED);
	assert_int_equal(engine_token_check(f->e, (struct str){0}, ROLE_VIEWER, (struct str){0}, &info, &err), DLQ_UNAUTHENTICATED);
	struct engine_op add = {.type = OP_TOKEN_ADD, .operator = STR("admin")};
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
	/* The table survives a restart; a revoked admin makes room for a new one. */
	engine_close(f->e);
	fix_open(f);
	struct engine_op revoke = {.type = OP_TOKEN_REVOKE};
	revoke.u.token_revoke.name = STR("admin");
	engine_call(f->e, &revoke);
	assert_int_equal(revoke.code, DLQ_OK);
	assert_int_equal(engine_bootstrap_token(f->e, &created, &err), DLQ_OK);
	assert_true(created);
	engine_op_release(&add);
	engine_op_release(&again);
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
		cmocka_unit_test(test_receipts),
		cmocka_unit_test(test_long_poll),
		cmocka_unit_test(test_poll_states),
		cmocka_unit_test(test_byte_limit),
		cmocka_unit_test(test_busy),
		cmocka_unit_test(test_busy_bytes),
		cmocka_unit_test(test_drain),
		cmocka_unit_test(test_close_answers_all),
		cmocka_unit_test(test_store_full),
		cmocka_unit_test(test_store_failed),
		cmocka_unit_test(test_redrive_refusals),
		cmocka_unit_test(test_redrive_control),
		cmocka_unit_test(test_archive),
		cmocka_unit_test(test_file_queues),
		cmocka_unit_test(test_tokens),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
