/* notify: every dead letter is told once it can be, whatever receivers and restarts do. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alert/sink.h"
#include "base/log.h"
#include "engine/notify.h"
#include "lib_engine.h"
#include "lib_web.h"
#include "net/net.h"

/* ---- a sink whose calls the test ends ---- */

struct fake {
	struct sink base; /* first */
	pthread_mutex_t lock;
	pthread_cond_t cond;
	struct sink_note *open[64];
	int n_open, most_open, sent;
	bool stopped;
};

static enum dlq_code fake_send(struct sink *s, struct sink_note *note, struct dlq_err *err)
{
	struct fake *f = (struct fake *)s;
	enum dlq_code code = DLQ_OK;

	pthread_mutex_lock(&f->lock);
	if (f->stopped) {
		code = err_set(err, DLQ_SHUTTING_DOWN, "stopped");
	} else {
		assert_true(f->n_open < (int)ARRAY_LEN(f->open));
		f->open[f->n_open++] = note;
		f->sent++;
		f->most_open = f->n_open > f->most_open ? f->n_open : f->most_open;
		pthread_cond_broadcast(&f->cond);
	}
	pthread_mutex_unlock(&f->lock);
	return code;
}

static struct sink_note *fake_remove(struct fake *f, int i)
{
	struct sink_note *note = f->open[i];

	f->open[i] = f->open[--f->n_open];
	return note;
}

static void fake_end(struct sink_note *note, bool ok)
{
	note->ok = ok;
	snprintf(note->error, sizeof(note->error), "%s", ok ? "" : "HTTP 503: not now");
	note->retry_after_ms = 0;
	note->done(note);
}

static void fake_stop(struct sink *s, int64_t deadline_ms)
{
	struct fake *f = (struct fake *)s;

	(void)deadline_ms;
	for (;;) {
		struct sink_note *note;

		pthread_mutex_lock(&f->lock);
		f->stopped = true;
		note = f->n_open ? fake_remove(f, 0) : NULL;
		pthread_mutex_unlock(&f->lock);
		if (!note)
			return;
		fake_end(note, false);
	}
}

static void fake_free(struct sink *s)
{
	(void)s;
}

static const struct sink_ops fake_ops = {.name = "fake", .send = fake_send, .stop = fake_stop, .free = fake_free};

static void fake_init(struct fake *f)
{
	*f = (struct fake){.base.ops = &fake_ops};
	pthread_mutex_init(&f->lock, NULL);
	pthread_cond_init(&f->cond, NULL);
}

/* Waits for an open call to this URL (NULL: to any) and takes it. */
static struct sink_note *fake_take(struct fake *f, const char *url)
{
	struct sink_note *note = NULL;

	pthread_mutex_lock(&f->lock);
	while (!note) {
		for (int i = 0; i < f->n_open && !note; i++)
			if (!url || str_eqz(f->open[i]->url, url))
				note = fake_remove(f, i);
		if (!note)
			pthread_cond_wait(&f->cond, &f->lock);
	}
	pthread_mutex_unlock(&f->lock);
	return note;
}

static void fake_wait_open(struct fake *f, int n)
{
	pthread_mutex_lock(&f->lock);
	while (f->n_open < n)
		pthread_cond_wait(&f->cond, &f->lock);
	pthread_mutex_unlock(&f->lock);
}

/* ---- an engine with it ---- */

#define URL_A "http://a.invalid/dead"
#define URL_B "http://b.invalid/dead"
#define QUEUE(url) "{\"on_dead_letter\": \"" url "\"}"

static struct fix *open_with(struct sink *s)
{
	struct engine_options o = {.on_dead_letter = s};

	return fix_new(&o);
}

static void reopen_with(struct fix *f, struct sink *s)
{
	engine_close(f->e);
	f->o.on_dead_letter = s;
	fix_open(f);
}

/* Notices that the store still owes, due or not. */
static int owed(struct fix *f)
{
	struct engine_op op = {.type = OP_NOTICE_CLAIM};
	int n;

	op.u.notice_claim.max = 1000;
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	n = op.u.notice_claim.n + (op.u.notice_claim.next != NEVER);
	engine_op_release(&op);
	return n;
}

static void close_and_check_owed(struct fix *f, int want)
{
	for (int i = 0; want == 0 && owed(f) && i < 100000; i++)
		sched_yield(); /* what was told or dropped is on its way to the store */
	reopen_with(f, NULL);
	assert_int_equal(owed(f), want);
	fix_free(f);
}

static const char *text(json_t *doc, const char *key)
{
	return json_string_value(json_object_get(doc, key));
}

/* ---- pure ---- */

static void test_backoff(void **state)
{
	static const int64_t want[] = {1000, 2000, 4000, 8000, 16000, 32000, 64000, 128000, 256000, 300000, 300000};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(want); i++)
		assert_int_equal(notify_backoff_ms((int)i + 1), want[i]);
	assert_int_equal(notify_backoff_ms(1000000), 300000);
}

static void test_document(void **state)
{
	struct store_dead d = {
	    .dlq_id = "01ARZ3NDEKTSV4RRFFQ69G5FAV", .queue = STR("orders"), .id = STR("m \"1\""), .key = STR("k"),
	    .state = DEAD_REDRIVEN, .reason = REASON_MAX_ATTEMPTS, .attempts = 5, .redrives = 1, .received_at_ms = 1,
	    .died_at_ms = 1445412480000, .error_type = STR("Boom"), .message = STR("a\nb"), .headers = STR("{\"secret\": \"x\"}"),
	};
	struct store_dead bare = {.queue = STR("q"), .id = STR("i")};
	struct buf out = {0};
	json_t *doc, *error;

	(void)state;
	notify_document(&d, "n-7", &out);
	doc = json_loadb(out.p, out.n, 0, NULL);
	assert_non_null(doc);
	assert_string_equal(text(doc, "event"), "dead_letter");
	assert_string_equal(text(doc, "notification_id"), "n-7");
	assert_string_equal(text(doc, "dlq_id"), "01ARZ3NDEKTSV4RRFFQ69G5FAV");
	assert_string_equal(text(doc, "queue"), "orders");
	assert_string_equal(text(doc, "id"), "m \"1\"");
	assert_string_equal(text(doc, "key"), "k");
	assert_string_equal(text(doc, "reason"), "max_attempts");
	assert_string_equal(text(doc, "state"), "redriven");
	assert_string_equal(text(doc, "died_at"), "2015-10-21T07:28:00.000Z");
	assert_int_equal(json_integer_value(json_object_get(doc, "attempts")), 5);
	assert_int_equal(json_integer_value(json_object_get(doc, "redrives")), 1);
	error = json_object_get(doc, "error");
	assert_string_equal(text(error, "type"), "Boom");
	assert_string_equal(text(error, "message"), "a\nb");
	assert_null(memmem(out.p, out.n, "secret", 6));
	json_decref(doc);
	buf_clear(&out);
	notify_document(&bare, "n", &out);
	doc = json_loadb(out.p, out.n, 0, NULL);
	assert_non_null(doc);
	assert_true(json_is_null(json_object_get(doc, "key")));
	assert_true(json_is_null(json_object_get(doc, "worker")));
	assert_true(json_is_null(json_object_get(doc, "first_failed_at")));
	json_decref(doc);
	buf_release(&out);
}

/* ---- over the wire ---- */

struct box {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	int calls, refuse;
	char id[3][80], body[3][2000];
};

static void receiver(struct web *w, const struct web_request *q, struct web_reply *r)
{
	struct box *b = w->user;

	pthread_mutex_lock(&b->lock);
	if (b->calls < 3) {
		snprintf(b->id[b->calls], sizeof(b->id[0]), "%s", web_header(q, "Dlq-Notification-Id"));
		snprintf(b->body[b->calls], sizeof(b->body[0]), STR_FMT, STR_ARG(q->body));
	}
	r->status = b->calls++ < b->refuse ? 500 : 204;
	pthread_cond_broadcast(&b->cond);
	pthread_mutex_unlock(&b->lock);
}

static void box_wait(struct box *b, int calls)
{
	pthread_mutex_lock(&b->lock);
	while (b->calls < calls)
		pthread_cond_wait(&b->cond, &b->lock);
	pthread_mutex_unlock(&b->lock);
}

/* A receiver that fails once is called again, with the same id and document; then nothing is owed. */
static void test_told_over_http(void **state)
{
	struct box b = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER, .refuse = 1};
	struct web web = {.answer = receiver, .user = &b};
	struct net_loop *l;
	struct dlq_err err = {0};
	struct sink *s;
	struct fix *f;
	char json[200], dlq_id[ULID_LEN + 1];
	json_t *doc;
	int64_t from;

	(void)state;
	web_start(&web);
	assert_int_equal(net_loop_new(&l, &err), DLQ_OK);
	s = sink_webhook_new(l, 64);
	f = open_with(s);
	snprintf(json, sizeof(json), "{\"on_dead_letter\": \"%s/dead\"}", web.url);
	assert_int_equal(fix_queue(f, "q", json), DLQ_OK);
	from = clock_mono_us(f->clock);
	fix_make_dead(f, "q", 1, dlq_id);
	box_wait(&b, 2);
	assert_true(clock_mono_us(f->clock) - from >= 1000000);
	assert_string_equal(b.id[0], b.id[1]);
	assert_string_equal(b.body[0], b.body[1]);
	doc = json_loads(b.body[0], 0, NULL);
	assert_non_null(doc);
	assert_string_equal(text(doc, "dlq_id"), dlq_id);
	assert_string_equal(text(doc, "queue"), "q");
	assert_string_equal(text(doc, "reason"), "permanent");
	assert_string_equal(text(doc, "worker"), "tester");
	assert_string_equal(text(doc, "notification_id"), b.id[0]);
	assert_string_equal(text(json_object_get(doc, "error"), "type"), "Boom");
	json_decref(doc);
	close_and_check_owed(f, 0);
	assert_int_equal(b.calls, 2);
	s->ops->free(s);
	net_loop_free(l);
	web_stop(&web);
}

/* ---- limits and fairness ---- */

static void test_limits_per_url_and_in_all(void **state)
{
	struct fake s;
	struct fix *f;
	char dlq_id[ULID_LEN + 1], name[16], json[100];
	int per_url;

	(void)state;
	fake_init(&s);
	f = open_with(&s.base);
	assert_int_equal(fix_queue(f, "a", QUEUE(URL_A)), DLQ_OK);
	assert_int_equal(fix_queue(f, "b", QUEUE(URL_B)), DLQ_OK);
	fix_make_dead(f, "a", 20, dlq_id);
	fix_make_dead(f, "b", 3, dlq_id);
	for (int i = 0; i < 3; i++) /* not held up by the 20 */
		fake_end(fake_take(&s, URL_B), true);
	fake_wait_open(&s, NOTIFY_PER_URL_MAX);
	per_url = s.n_open;
	assert_int_equal(per_url, NOTIFY_PER_URL_MAX);
	for (int i = 0; i < 6; i++) {
		snprintf(name, sizeof(name), "q%d", i);
		snprintf(json, sizeof(json), "{\"on_dead_letter\": \"http://h%d.invalid/\"}", i);
		assert_int_equal(fix_queue(f, name, json), DLQ_OK);
		fix_make_dead(f, name, 10, dlq_id);
	}
	fake_wait_open(&s, NOTIFY_ACTIVE_MAX);
	assert_int_equal(s.most_open, NOTIFY_ACTIVE_MAX);
	for (int i = 0; i < 20 + 60; i++)
		fake_end(fake_take(&s, NULL), true);
	close_and_check_owed(f, 0);
	assert_int_equal(s.sent, 83);
	assert_true(s.most_open <= NOTIFY_ACTIVE_MAX);
}

/* More notices than fit into memory, all for a receiver that never answers: others are told all the same. */
static void test_a_slow_receiver_starves_nobody(void **state)
{
	struct fake s;
	struct fix *f;
	char dlq_id[ULID_LEN + 1];

	(void)state;
	fake_init(&s);
	f = open_with(&s.base);
	assert_int_equal(fix_queue(f, "a", QUEUE(URL_A)), DLQ_OK);
	assert_int_equal(fix_queue(f, "b", QUEUE(URL_B)), DLQ_OK);
	fix_make_dead(f, "a", 700, dlq_id);
	fix_make_dead(f, "b", 1, dlq_id);
	fake_end(fake_take(&s, URL_B), true);
	assert_int_equal(s.sent, 1 + NOTIFY_PER_URL_MAX);
	reopen_with(f, NULL);
	clock_floor(f->clock, clock_now_ms(f->clock) + 3600000); /* what was postponed is due, too */
	assert_int_equal(owed(f), 700);                          /* nothing was lost */
	fix_free(f);
}

/* ---- restarts, changes, giving up ---- */

static void test_survives_a_restart(void **state)
{
	struct fake s, t;
	struct fix *f;
	char dlq_id[ULID_LEN + 1], first[100];
	struct sink_note *note;

	(void)state;
	fake_init(&s);
	fake_init(&t);
	f = open_with(&s.base);
	assert_int_equal(fix_queue(f, "a", QUEUE(URL_A)), DLQ_OK);
	fix_make_dead(f, "a", 1, dlq_id);
	fake_wait_open(&s, 1);
	snprintf(first, sizeof(first), STR_FMT, STR_ARG(s.open[0]->id));
	reopen_with(f, &t.base); /* the call under way is ended by stop */
	note = fake_take(&t, URL_A);
	assert_true(str_eqz(note->id, first));
	fake_end(note, true);
	close_and_check_owed(f, 0);
}

static void test_url_is_the_queues_of_now(void **state)
{
	struct fake s;
	struct fix *f = open_with(NULL);
	char dlq_id[ULID_LEN + 1];

	(void)state;
	assert_int_equal(fix_queue(f, "moves", QUEUE(URL_A)), DLQ_OK);
	assert_int_equal(fix_queue(f, "none", QUEUE(URL_A)), DLQ_OK);
	fix_make_dead(f, "none", 2, dlq_id);
	fix_make_dead(f, "moves", 1, dlq_id);
	assert_int_equal(owed(f), 3);
	assert_int_equal(fix_queue(f, "moves", QUEUE(URL_B)), DLQ_OK);
	assert_int_equal(fix_queue(f, "none", "{}"), DLQ_OK);
	fake_init(&s);
	reopen_with(f, &s.base);
	fake_end(fake_take(&s, URL_B), true);
	while (owed(f)) /* the others are dropped without a call; each look is a whole operation of the engine */
		;
	close_and_check_owed(f, 0);
	assert_int_equal(s.sent, 1);
}

static void redrive(struct fix *f, const char *dlq_id)
{
	struct str id = str_of(dlq_id);
	struct engine_op op = {.type = OP_REDRIVE, .operator = STR("test")};

	op.u.redrive.sel.ids = &id;
	op.u.redrive.sel.n_ids = 1;
	op.u.redrive.reason = STR("test");
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	engine_op_release(&op);
}

/* Redriven before the notice went out: told, with its state. Dead again: told once, by the later notice. */
static void test_redriven_is_still_told(void **state)
{
	struct fake s;
	struct fix *f = open_with(NULL);
	char dlq_id[ULID_LEN + 1], again[ULID_LEN + 1], receipt[RECEIPT_LEN + 1];
	struct sink_note *note;
	json_t *doc;

	(void)state;
	assert_int_equal(fix_queue(f, "a", QUEUE(URL_A)), DLQ_OK);
	assert_int_equal(fix_queue(f, "b", QUEUE(URL_B)), DLQ_OK);
	fix_make_dead(f, "a", 1, dlq_id);
	redrive(f, dlq_id);
	fix_make_dead(f, "b", 1, again);
	redrive(f, again);
	{
		struct engine_op op;
		struct engine_settle_item it;

		receive_init(&op, f, "b", 10000);
		engine_call(f->e, &op);
		assert_int_equal(op.u.receive.n, 1);
		memcpy(receipt, op.u.receive.items[0].receipt, sizeof(receipt));
		engine_op_release(&op);
		it = fix_settle(f, "b", receipt, OUTCOME_PERMANENT);
		assert_int_equal(it.effect, EFFECT_DEAD);
		assert_string_equal(it.dlq_id, again);
	}
	assert_int_equal(owed(f), 3);
	fake_init(&s);
	reopen_with(f, &s.base);
	note = fake_take(&s, URL_A);
	doc = json_loadb(note->json.p, note->json.n, 0, NULL);
	assert_string_equal(text(doc, "state"), "redriving");
	json_decref(doc);
	fake_end(note, true);
	note = fake_take(&s, URL_B);
	doc = json_loadb(note->json.p, note->json.n, 0, NULL);
	assert_int_equal(json_integer_value(json_object_get(doc, "redrives")), 1);
	json_decref(doc);
	fake_end(note, true);
	close_and_check_owed(f, 0);
	assert_int_equal(s.sent, 2);
}

/* A clock that only the test moves; fix_free then frees it. */
static void test_given_up(void **state)
{
	struct fake s;
	struct fix *f = mem_alloc(sizeof(*f));
	struct engine_op op = {.type = OP_READ_AUDIT};
	char dlq_id[ULID_LEN + 1];
	const struct store_audit *row = NULL;

	(void)state;
	fake_init(&s);
	snprintf(f->dir, sizeof(f->dir), "/tmp/dlq-notify-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	f->clock = clock_manual_new(1800000000000);
	f->o.on_dead_letter = &s.base;
	inbox_init(&f->in);
	fix_open(f);
	assert_int_equal(fix_queue(f, "a", QUEUE(URL_A)), DLQ_OK);
	fix_make_dead(f, "a", 1, dlq_id);
	/* Many tries within a day are not enough, a day with few tries is not either. */
	for (int i = 1; i <= 30; i++) {
		fake_end(fake_take(&s, URL_A), false);
		for (;;) { /* until the failure is in the store */
			struct engine_op claim = {.type = OP_NOTICE_CLAIM};
			bool later;

			claim.u.notice_claim.max = 1;
			engine_call(f->e, &claim);
			later = claim.u.notice_claim.n == 0 && claim.u.notice_claim.next != NEVER;
			engine_op_release(&claim);
			if (later)
				break;
		}
		assert_int_equal(owed(f), 1);
		clock_advance(f->clock, i == 30 ? NOTIFY_GIVE_UP_MS : 300000);
		notify_wake(f->e->notify);
	}
	fake_end(fake_take(&s, URL_A), false);
	while (owed(f)) /* each call waits for a commit, the give-up is in one of them */
		;
	reopen_with(f, NULL);
	op.u.read_audit.limit = 100;
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	for (int i = 0; i < op.u.read_audit.n; i++)
		if (str_eqz(op.u.read_audit.items[i].action, "notice.give_up"))
			row = &op.u.read_audit.items[i];
	assert_non_null(row);
	assert_true(str_eqz(row->target, dlq_id) && str_eqz(row->queue, "a") && str_eqz(row->outcome, "unreachable"));
	assert_true(str_eqz(row->detail, "HTTP 503: not now"));
	engine_op_release(&op);
	fix_free(f);
	assert_int_equal(s.sent, 31);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_backoff),
	    cmocka_unit_test(test_document),
	    cmocka_unit_test(test_told_over_http),
	    cmocka_unit_test(test_limits_per_url_and_in_all),
	    cmocka_unit_test(test_a_slow_receiver_starves_nobody),
	    cmocka_unit_test(test_survives_a_restart),
	    cmocka_unit_test(test_url_is_the_queues_of_now),
	    cmocka_unit_test(test_redriven_is_still_told),
	    cmocka_unit_test(test_given_up),
	};
	log_set_level(LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
