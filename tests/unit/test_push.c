/* push: the engine calls workers, keeps their leases, settles what they say. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "engine/push.h"
#include "handler/handler.h"
#include "lib_engine.h"
#include "lib_web.h"
#include "net/net.h"

/* ---- a handler whose calls the test ends ---- */

struct fake {
	struct handler base; /* first */
	pthread_mutex_t lock;
	pthread_cond_t cond;
	struct handler_call *open[256];
	int n_open, most_open, started;
	bool stopped;
	enum dlq_code refuse; /* what start answers */
};

static enum dlq_code fake_start(struct handler *h, struct handler_call *call, struct dlq_err *err)
{
	struct fake *f = (struct fake *)h;
	enum dlq_code code;

	pthread_mutex_lock(&f->lock);
	code = f->stopped ? DLQ_SHUTTING_DOWN : f->refuse;
	f->started++;
	if (!code) {
		assert_true(f->n_open < (int)ARRAY_LEN(f->open));
		f->open[f->n_open++] = call;
		f->most_open = f->n_open > f->most_open ? f->n_open : f->most_open;
	}
	pthread_cond_broadcast(&f->cond);
	pthread_mutex_unlock(&f->lock);
	return code ? err_set(err, code, "refused by the test") : DLQ_OK;
}

static struct handler_call *fake_remove(struct fake *f)
{
	struct handler_call *call = f->open[0];

	memmove(f->open, f->open + 1, (size_t)--f->n_open * sizeof(f->open[0]));
	return call;
}

static void fake_end(struct handler_call *call, enum outcome outcome)
{
	call->outcome = outcome;
	call->failure = (struct failure){.type = STR("Fake"), .message = STR("as told"), .exit_code = -1};
	call->retry_after_ms = 0;
	call->done(call);
}

static void fake_stop(struct handler *h, int64_t deadline_ms)
{
	struct fake *f = (struct fake *)h;

	(void)deadline_ms;
	for (;;) {
		struct handler_call *call;

		pthread_mutex_lock(&f->lock);
		f->stopped = true;
		call = f->n_open ? fake_remove(f) : NULL;
		pthread_mutex_unlock(&f->lock);
		if (!call)
			return;
		fake_end(call, OUTCOME_RELEASE);
	}
}

static void fake_free(struct handler *h)
{
	(void)h;
}

static const struct handler_ops fake_ops = {.name = "fake", .start = fake_start, .stop = fake_stop, .free = fake_free};

static void fake_init(struct fake *f)
{
	*f = (struct fake){.base.ops = &fake_ops};
	pthread_mutex_init(&f->lock, NULL);
	pthread_cond_init(&f->cond, NULL);
}

/* The oldest open call; waits for one. */
static struct handler_call *fake_take(struct fake *f)
{
	struct handler_call *call;

	pthread_mutex_lock(&f->lock);
	while (!f->n_open)
		pthread_cond_wait(&f->cond, &f->lock);
	call = fake_remove(f);
	pthread_mutex_unlock(&f->lock);
	return call;
}

static void fake_wait_open(struct fake *f, int n)
{
	pthread_mutex_lock(&f->lock);
	while (f->n_open < n)
		pthread_cond_wait(&f->cond, &f->lock);
	pthread_mutex_unlock(&f->lock);
}

/* ---- an engine with it ---- */

#define PUSHED "{\"push\": \"http://worker.invalid/\", \"concurrency\": 4}"

static struct fix *open_with(struct handler *h)
{
	struct engine_options o = {.push = h};

	return fix_new(&o);
}

static void reopen_with(struct fix *f, struct handler *h)
{
	engine_close(f->e);
	f->o.push = h;
	fix_open(f);
}

static struct store_counts counts(struct fix *f, const char *queue)
{
	struct engine_op op = {.type = OP_READ_QUEUE, .queue = str_of(queue)};
	struct store_counts c;

	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	c = op.u.read_queue.out.counts;
	engine_op_release(&op);
	return c;
}

/* A dead letter of the queue, waited for; op is released by the caller. */
static const struct store_dead *dead_one(struct fix *f, const char *queue, struct engine_op *op)
{
	for (;;) { /* each look is a whole operation of the engine */
		*op = (struct engine_op){.type = OP_READ_DEAD_LIST, .queue = str_of(queue)};
		op->u.read_dead_list.filter = (struct store_dead_filter){.state = -1, .reason = -1, .limit = 1};
		engine_call(f->e, op);
		assert_int_equal(op->code, DLQ_OK);
		if (op->u.read_dead_list.page.n)
			return op->u.read_dead_list.page.items;
		engine_op_release(op);
	}
}

static void pause_queue(struct fix *f, const char *queue, bool paused)
{
	struct engine_op op = {.type = OP_QUEUE_PAUSE, .queue = str_of(queue), .operator = STR("test")};

	op.u.queue_pause.paused = paused;
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	engine_op_release(&op);
}

/* ---- over the wire ---- */

struct worker {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	int calls;
	int status[8]; /* by call; 0: 200 */
	char attempt[8][8], body[8][32];
};

static void work(struct web *w, const struct web_request *q, struct web_reply *r)
{
	struct worker *k = w->user;

	pthread_mutex_lock(&k->lock);
	if (k->calls < 8) {
		r->status = k->status[k->calls];
		snprintf(k->attempt[k->calls], 8, "%s", web_header(q, "Dlq-Attempt"));
		snprintf(k->body[k->calls], 32, STR_FMT, STR_ARG(q->body));
	}
	k->calls++;
	r->body = "the worker's words";
	pthread_cond_broadcast(&k->cond);
	pthread_mutex_unlock(&k->lock);
}

static void work_wait(struct worker *k, int calls)
{
	pthread_mutex_lock(&k->lock);
	while (k->calls < calls)
		pthread_cond_wait(&k->cond, &k->lock);
	pthread_mutex_unlock(&k->lock);
}

static void test_over_http(void **state)
{
	struct worker k = {
	    .lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER, .status = {503, 200, 503, 429, 422}};
	struct web web = {.answer = work, .user = &k};
	struct net_loop *l;
	struct handler *h;
	struct dlq_err err = {0};
	struct engine_op op;
	const struct store_dead *d;
	struct fix *f;
	char json[300];

	(void)state;
	web_start(&web);
	assert_int_equal(net_loop_new(&l, &err), DLQ_OK);
	h = handler_http_new(l, 64);
	f = open_with(h);
	snprintf(json, sizeof(json),
	         "{\"push\": \"%s/w\", \"policy\": {\"max_attempts\": 2, \"backoff\": [\"20ms\"]}}", web.url);
	assert_int_equal(fix_queue(f, "q", json), DLQ_OK);
	/* a failure, then well */
	assert_int_equal(fix_send(f, "q", "one", NULL), DLQ_OK);
	work_wait(&k, 2);
	assert_string_equal(k.attempt[0], "1");
	assert_string_equal(k.attempt[1], "2");
	assert_string_equal(k.body[1], "one");
	/* at its limit */
	assert_int_equal(fix_send(f, "q", "two", NULL), DLQ_OK);
	d = dead_one(f, "q", &op);
	assert_int_equal(d->reason, REASON_MAX_ATTEMPTS);
	assert_int_equal(d->attempts, 2);
	assert_true(str_eqz(d->error_type, "HTTP 429") && str_eqz(d->message, "the worker's words"));
	assert_true(str_eqz(d->worker, "push"));
	engine_op_release(&op);
	/* for good */
	assert_int_equal(fix_queue(f, "p", json), DLQ_OK);
	assert_int_equal(fix_send(f, "p", "three", NULL), DLQ_OK);
	d = dead_one(f, "p", &op);
	assert_int_equal(d->reason, REASON_PERMANENT);
	assert_true(str_eqz(d->error_type, "HTTP 422"));
	engine_op_release(&op);
	assert_int_equal(k.calls, 5);
	assert_int_equal(counts(f, "q").done, 1);
	fix_free(f);
	h->ops->free(h);
	net_loop_free(l);
	web_stop(&web);
}

static void test_throughput(void **state)
{
	enum { N = 3000 };
	struct worker k = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
	struct web web = {.answer = work, .user = &k};
	struct net_loop *l;
	struct handler *h;
	struct dlq_err err = {0};
	struct fix *f;
	char json[300];
	int64_t us;

	(void)state;
	web_start(&web);
	assert_int_equal(net_loop_new(&l, &err), DLQ_OK);
	h = handler_http_new(l, 64);
	f = open_with(h);
	assert_int_equal(fix_queue(f, "q", "{}"), DLQ_OK);
	for (int i = 0; i < N; i++)
		assert_int_equal(fix_send(f, "q", "x", NULL), DLQ_OK);
	snprintf(json, sizeof(json), "{\"push\": \"%s/w\", \"concurrency\": 32}", web.url);
	us = clock_mono_us(f->clock);
	assert_int_equal(fix_queue(f, "q", json), DLQ_OK);
	work_wait(&k, N);
	us = clock_mono_us(f->clock) - us;
	print_message("%d pushes with concurrency 32: %lld a second\n", N, (long long)((int64_t)N * 1000000 / us));
	engine_drain(f->e, 10000); /* the last are settled */
	assert_int_equal(counts(f, "q").done, N);
	assert_int_equal(k.calls, N);
	fix_free(f);
	h->ops->free(h);
	net_loop_free(l);
	web_stop(&web);
}

/* ---- what only an obedient handler shows ---- */

static void test_concurrency(void **state)
{
	struct fake h;
	struct fix *f;

	(void)state;
	fake_init(&h);
	f = open_with(&h.base);
	assert_int_equal(fix_queue(f, "q", PUSHED), DLQ_OK);
	for (int i = 0; i < 40; i++)
		assert_int_equal(fix_send(f, "q", "x", NULL), DLQ_OK);
	fake_wait_open(&h, 4);
	for (int i = 0; i < 20; i++)
		fake_end(fake_take(&h), OUTCOME_OK);
	assert_int_equal(fix_queue(f, "q", "{\"push\": \"http://worker.invalid/\", \"concurrency\": 9}"), DLQ_OK);
	fake_wait_open(&h, 9);
	assert_int_equal(h.most_open, 9);
	for (int i = 0; i < 20; i++)
		fake_end(fake_take(&h), OUTCOME_OK);
	engine_drain(f->e, 1000);
	assert_int_equal(counts(f, "q").done, 40);
	assert_int_equal(h.started, 40);
	assert_int_equal(h.most_open, 9);
	fix_free(f);
}

/* The lease lasts as long as the call, whatever the visibility timeout. */
static void test_lease_is_extended(void **state)
{
	struct fake h;
	struct fix *f;
	struct handler_call *call;
	struct engine_op wait;

	(void)state;
	fake_init(&h);
	f = open_with(&h.base);
	assert_int_equal(fix_queue(f, "q", "{\"push\": \"http://w.invalid/\", \"policy\": {\"visibility_timeout\": \"1s\", "
	                                   "\"crash_limit\": 1}}"), DLQ_OK);
	assert_int_equal(fix_queue(f, "other", "{}"), DLQ_OK);
	assert_int_equal(fix_send(f, "q", "x", NULL), DLQ_OK);
	call = fake_take(&h);
	/* 3.2 s pass: a long poll of a queue that stays empty */
	receive_init(&wait, f, "other", 3200);
	engine_call(f->e, &wait);
	engine_op_release(&wait);
	assert_int_equal(counts(f, "q").leased, 1);
	fake_end(call, OUTCOME_OK);
	engine_drain(f->e, 1000);
	assert_int_equal(counts(f, "q").done, 1);
	assert_int_equal(counts(f, "q").dead, 0);
	assert_int_equal(counts(f, "q").failed_attempts, 0);
	assert_int_equal(h.started, 1);
	fix_free(f);
}

/* A stop with calls under way costs no attempt; all comes again afterwards. */
static void test_stop_releases(void **state)
{
	struct fake h, g;
	struct fix *f;

	(void)state;
	fake_init(&h);
	fake_init(&g);
	f = open_with(&h.base);
	assert_int_equal(fix_queue(f, "q", PUSHED), DLQ_OK);
	for (int i = 0; i < 6; i++)
		assert_int_equal(fix_send(f, "q", "x", NULL), DLQ_OK);
	fake_wait_open(&h, 4);
	engine_drain(f->e, 0);
	assert_int_equal(counts(f, "q").ready, 6);
	assert_int_equal(counts(f, "q").retrying, 0);
	assert_int_equal(counts(f, "q").leased, 0);
	reopen_with(f, &g.base);
	for (int i = 0; i < 6; i++) {
		struct handler_call *call = fake_take(&g);

		assert_int_equal(call->d->attempts, 0);
		fake_end(call, OUTCOME_OK);
	}
	engine_drain(f->e, 1000);
	assert_int_equal(counts(f, "q").done, 6);
	fix_free(f);
}

static void test_queues_change(void **state)
{
	struct fake h;
	struct fix *f;
	struct handler_call *call;

	(void)state;
	fake_init(&h);
	f = open_with(&h.base);
	assert_int_equal(fix_queue(f, "q", "{}"), DLQ_OK);
	assert_int_equal(fix_send(f, "q", "1", NULL), DLQ_OK);
	assert_int_equal(fix_queue(f, "q", PUSHED), DLQ_OK); /* pull to push */
	call = fake_take(&h);
	assert_true(str_eqz(call->url, "http://worker.invalid/"));
	assert_true(str_eqz(call->queue, "q"));
	/* the call under way keeps its URL, the next has the new one */
	assert_int_equal(fix_queue(f, "q", "{\"push\": \"http://new.invalid/\"}"), DLQ_OK);
	assert_true(str_eqz(call->url, "http://worker.invalid/"));
	fake_end(call, OUTCOME_OK);
	assert_int_equal(fix_send(f, "q", "2", NULL), DLQ_OK);
	call = fake_take(&h);
	assert_true(str_eqz(call->url, "http://new.invalid/"));
	fake_end(call, OUTCOME_OK);
	/* paused, resumed */
	pause_queue(f, "q", true);
	assert_int_equal(fix_send(f, "q", "3", NULL), DLQ_OK);
	assert_int_equal(counts(f, "q").ready, 1);
	assert_int_equal(h.started, 2);
	pause_queue(f, "q", false);
	fake_end(fake_take(&h), OUTCOME_OK);
	/* push to pull: the parked receive goes, so a puller gets the message */
	assert_int_equal(fix_queue(f, "q", "{}"), DLQ_OK);
	for (struct engine_status st = {.parked_receives = 1}; st.parked_receives > 0;) {
		counts(f, "q"); /* a whole operation of the engine */
		engine_status(f->e, &st);
	}
	assert_int_equal(fix_send(f, "q", "4", NULL), DLQ_OK);
	{
		struct engine_op op;

		receive_init(&op, f, "q", 10000);
		engine_call(f->e, &op);
		assert_int_equal(op.u.receive.n, 1);
		engine_op_release(&op);
	}
	assert_int_equal(h.started, 3);
	fix_free(f);
}

static void test_start_refused(void **state)
{
	struct fake h;
	struct fix *f;
	struct engine_op op;
	const struct store_dead *d;

	(void)state;
	fake_init(&h);
	f = open_with(&h.base);
	assert_int_equal(fix_queue(f, "q", PUSHED), DLQ_OK);
	/* a message that can never be sent is dead, with the reason */
	h.refuse = DLQ_BAD_REQUEST;
	assert_int_equal(fix_send(f, "q", "1", NULL), DLQ_OK);
	d = dead_one(f, "q", &op);
	assert_int_equal(d->reason, REASON_PERMANENT);
	assert_true(str_eqz(d->error_type, "InvalidHeader") && str_eqz(d->message, "refused by the test"));
	engine_op_release(&op);
	/* a handler that is full costs no attempt */
	pthread_mutex_lock(&h.lock);
	h.refuse = DLQ_BUSY;
	pthread_mutex_unlock(&h.lock);
	assert_int_equal(fix_send(f, "q", "2", NULL), DLQ_OK);
	pthread_mutex_lock(&h.lock);
	while (h.started < 3)
		pthread_cond_wait(&h.cond, &h.lock);
	h.refuse = DLQ_OK;
	pthread_mutex_unlock(&h.lock);
	{
		struct handler_call *call = fake_take(&h);

		assert_int_equal(call->d->attempts, 0);
		fake_end(call, OUTCOME_OK);
	}
	engine_drain(f->e, 1000);
	assert_int_equal(counts(f, "q").done, 1);
	fix_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_over_http),
	    cmocka_unit_test(test_throughput),
	    cmocka_unit_test(test_concurrency),
	    cmocka_unit_test(test_lease_is_extended),
	    cmocka_unit_test(test_stop_releases),
	    cmocka_unit_test(test_queues_change),
	    cmocka_unit_test(test_start_refused),
	};
	log_set_level(LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
