/* handler and alert: what goes out to a worker or a receiver, and what their answers mean. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "alert/sink.h"
#include "handler/handler.h"
#include "handler/outcome.h"
#include "lib_web.h"
#include "net/net.h"

/* ---- the pure mapping ---- */

struct answer {
	int status;
	enum net_fail fail;
	const char *headers, *body;
	enum outcome outcome;
	const char *type, *message;
	int64_t retry_after_ms;
};

#define UNAVAILABLE "<html>\n<h1>Unavailable</h1>"

static const struct answer answers[] = {
    {200, 0, "", "fine", OUTCOME_OK, "", "", 0},
    {201, 0, "", "", OUTCOME_OK, "", "", 0},
    {204, 0, "Retry-After: 5\r\n", "", OUTCOME_OK, "", "", 0},
    {299, 0, "", "", OUTCOME_OK, "", "", 0},
    {408, 0, "", "", OUTCOME_TRANSIENT, "HTTP 408", "the worker answered 408", 0},
    {425, 0, "", "early\n", OUTCOME_TRANSIENT, "HTTP 425", "early", 0},
    {429, 0, "Retry-After: 17\r\n", "slow down", OUTCOME_TRANSIENT, "HTTP 429", "slow down", 17000},
    {500, 0, "", "\r\n  first \r\nsecond", OUTCOME_TRANSIENT, "HTTP 500", "first", 0},
    {503, 0, "Retry-After: Wed, 21 Oct 2015 07:28:30 GMT\r\nDate: Wed, 21 Oct 2015 07:28:00 GMT\r\n", UNAVAILABLE, OUTCOME_TRANSIENT,
     "HTTP 503", "the worker answered 503", 30000},
    {503, 0, "Retry-After: 999999\r\n", "", OUTCOME_TRANSIENT, "HTTP 503", "the worker answered 503", RETRY_AFTER_MAX_MS},
    {599, 0, "", "", OUTCOME_TRANSIENT, "HTTP 599", "the worker answered 599", 0},
    {600, 0, "", "", OUTCOME_TRANSIENT, "HTTP 600", "the worker answered 600", 0},
    {101, 0, "", "", OUTCOME_TRANSIENT, "HTTP 101", "the worker answered 101", 0},
    {400, 0, "Retry-After: 5\r\n", "no such reminder", OUTCOME_PERMANENT, "HTTP 400", "no such reminder", 0},
    {401, 0, "", "", OUTCOME_PERMANENT, "HTTP 401", "the worker answered 401", 0},
    {404, 0, "", "", OUTCOME_PERMANENT, "HTTP 404", "the worker answered 404", 0},
    {409, 0, "", "", OUTCOME_PERMANENT, "HTTP 409", "the worker answered 409", 0},
    {422, 0, "", "{\"error\": \"x\"}", OUTCOME_PERMANENT, "HTTP 422", "{\"error\": \"x\"}", 0},
    {499, 0, "", "", OUTCOME_PERMANENT, "HTTP 499", "the worker answered 499", 0},
    {301, 0, "Location: /x\r\n", "moved", OUTCOME_PERMANENT, "HTTP 301",
     "the worker answered 301: redirects are not followed, set push to the final URL", 0},
    {304, 0, "", "", OUTCOME_PERMANENT, "HTTP 304",
     "the worker answered 304: redirects are not followed, set push to the final URL", 0},
    /* the worker's own word */
    {500, 0, "Dlq-Outcome: ok\r\n", "", OUTCOME_OK, "", "", 0},
    {200, 0, "dlq-outcome:  transient \r\nRetry-After: 3\r\n", "", OUTCOME_TRANSIENT, "HTTP 200", "the worker answered 200", 3000},
    {200, 0, "Dlq-Outcome: permanent\r\nDlq-Error-Type: ValidationError\r\nDlq-Error-Message: no phone\r\n", "x",
     OUTCOME_PERMANENT, "ValidationError", "no phone", 0},
    {400, 0, "Dlq-Outcome: transient\r\nDlq-Error-Type: Deadlock\r\n", "", OUTCOME_TRANSIENT, "Deadlock", "the worker answered 400", 0},
    {503, 0, "Dlq-Outcome: release\r\nRetry-After: 2\r\n", "", OUTCOME_RELEASE, "", "", 2000},
    {302, 0, "Dlq-Outcome: permanent\r\nDlq-Error-Message: mine\r\n", "", OUTCOME_PERMANENT, "HTTP 302", "mine", 0},
    {200, 0, "Dlq-Outcome: permanant\r\n", "", OUTCOME_TRANSIENT, "InvalidOutcome",
     "the answer's Dlq-Outcome is none of ok, transient, permanent, release", 0},
    {200, 0, "Dlq-Outcome: lease_expired\r\n", "", OUTCOME_TRANSIENT, "InvalidOutcome",
     "the answer's Dlq-Outcome is none of ok, transient, permanent, release", 0},
    {404, 0, "Dlq-Outcome: whatever\r\n", "", OUTCOME_PERMANENT, "HTTP 404", "the worker answered 404", 0},
    {200, 0, "Dlq-Outcome: \r\n", "", OUTCOME_OK, "", "", 0},
    /* no answer */
    {0, NET_FAIL_REFUSED, "", "", OUTCOME_TRANSIENT, "ConnectionRefused", "text", 0},
    {0, NET_FAIL_RESET, "", "", OUTCOME_TRANSIENT, "ConnectionReset", "text", 0},
    {0, NET_FAIL_TIMEOUT, "", "", OUTCOME_TRANSIENT, "Timeout", "text", 0},
    {0, NET_FAIL_DNS, "", "", OUTCOME_TRANSIENT, "HostNotFound", "text", 0},
    {0, NET_FAIL_TLS, "", "", OUTCOME_TRANSIENT, "TlsError", "text", 0},
    {0, NET_FAIL_URL, "", "", OUTCOME_TRANSIENT, "InvalidUrl", "text", 0},
    {0, NET_FAIL_OTHER, "", "", OUTCOME_TRANSIENT, "NetworkError", "text", 0},
    {0, NET_FAIL_ABORTED, "", "", OUTCOME_RELEASE, "", "", 0},
    /* an answer that broke off says nothing, whatever it began with */
    {0, NET_FAIL_RESET, "HTTP/1.1 200 OK\r\nDlq-Outcome: ok\r\n", "half", OUTCOME_TRANSIENT, "ConnectionReset", "text", 0},
    /* bytes that are not text */
    {500, 0, "", "a\x01\x7f\x1b[31mb", OUTCOME_TRANSIENT, "HTTP 500", "a   [31mb", 0},
};

static void test_table(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
		const struct answer *w = &answers[i];
		struct net_request r = {.status = w->status, .fail = w->fail, .aborted = w->fail == NET_FAIL_ABORTED, .error = "text"};
		struct push_verdict v;
		struct arena a = {0};

		buf_addz(&r.headers_out, w->headers);
		buf_addz(&r.body_out, w->body);
		push_verdict(&r, 1445412480000, &a, &v);
		if (v.outcome != w->outcome || !str_eqz(v.failure.type, w->type) || !str_eqz(v.failure.message, w->message))
			print_message("case %zu, status %d: %s / " STR_FMT " / " STR_FMT "\n", i, w->status, outcome_name(v.outcome),
				      STR_ARG(v.failure.type), STR_ARG(v.failure.message));
		assert_int_equal(v.outcome, w->outcome);
		assert_true(str_eqz(v.failure.type, w->type));
		assert_true(str_eqz(v.failure.message, w->message));
		assert_int_equal(v.retry_after_ms, w->retry_after_ms);
		assert_int_equal(v.failure.exit_code, -1);
		if (w->outcome == OUTCOME_TRANSIENT || w->outcome == OUTCOME_PERMANENT)
			assert_int_equal(v.failure.http_status, w->status);
		net_request_release(&r);
		arena_release(&a);
	}
}

/* The kept start of a body may end inside a character. */
static void test_detail_is_cut_at_a_character(void **state)
{
	struct net_request r = {.status = 500};
	struct push_verdict v;
	struct arena a = {0};

	(void)state;
	for (int cut = 1; cut <= 3; cut++) {
		buf_clear(&r.body_out);
		buf_addz(&r.body_out, "ok \xe2\x82\xac");
		buf_add(&r.body_out, "\xf0\x9f\x98\x80", (size_t)cut);
		push_verdict(&r, 0, &a, &v);
		assert_true(str_eqz(v.failure.detail, "ok \xe2\x82\xac"));
		assert_true(str_is_utf8(v.failure.detail));
	}
	net_request_release(&r);
	arena_release(&a);
}

/* ---- over the wire ---- */

struct seen {
	struct handler_call call;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	int done;
	enum outcome outcome;
	int64_t retry_after_ms;
	char type[200], message[300], detail[300];
};

static void copy(char *out, size_t cap, struct str s)
{
	snprintf(out, cap, STR_FMT, STR_ARG(s));
}

static void on_done(struct handler_call *call)
{
	struct seen *s = call->user;

	pthread_mutex_lock(&s->lock);
	s->outcome = call->outcome;
	s->retry_after_ms = call->retry_after_ms;
	copy(s->type, sizeof(s->type), call->failure.type);
	copy(s->message, sizeof(s->message), call->failure.message);
	copy(s->detail, sizeof(s->detail), call->failure.detail);
	s->done++;
	pthread_cond_broadcast(&s->cond);
	pthread_mutex_unlock(&s->lock);
}

static void seen_init(struct seen *s, const char *url, const struct store_delivery *d)
{
	*s = (struct seen){.call = {.url = str_of(url), .queue = STR("orders"), .d = d, .timeout_ms = 20000, .done = on_done, .user = s}};
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->cond, NULL);
}

static void seen_wait(struct seen *s)
{
	pthread_mutex_lock(&s->lock);
	while (!s->done)
		pthread_cond_wait(&s->cond, &s->lock);
	pthread_mutex_unlock(&s->lock);
	assert_int_equal(s->done, 1);
}

static struct net_loop *loop_open(void)
{
	struct net_loop *l;
	struct dlq_err err = {0};

	assert_int_equal(net_loop_new(&l, &err), DLQ_OK);
	return l;
}

static void close_all(struct net_loop *l, struct handler *h)
{
	h->ops->stop(h, 1000);
	h->ops->free(h);
	net_loop_free(l);
}

static void tell(struct web *w, const struct web_request *q, struct web_reply *r)
{
	static const char *const names[] = {"Content-Type", "Dlq-Id", "Dlq-Queue", "Dlq-Attempt", "Dlq-Key", "Dlq-Redrive",
					    "X-Own", "X-Empty", "Authorization", "Dlq-Fake", "Connection", "Transfer-Encoding", "TE"};
	struct buf *b = w->user;

	buf_clear(b);
	buf_adds(b, q->body);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const char *v = web_header(q, names[i]);

		buf_addf(b, "|%s", v ? v : "-");
	}
	r->status = 400;
	r->headers[0] = "Dlq-Error-Type: Told";
	r->body = "line one\nline two";
}

static void test_request_as_the_worker_sees_it(void **state)
{
	struct buf got = {0};
	struct web web = {.answer = tell, .user = &got};
	struct net_loop *l = loop_open();
	struct handler *h = handler_http_new(l, 4);
	struct store_delivery d = {
	    .id = STR("m-1"), .key = STR("customer 7"), .content_type = STR("text/x-test"), .body = STR("bytes\0here"),
	    .attempts = 2, .redrives = 1,
	    .headers = STR("{\"X-Own\": \"caf\xc3\xa9\", \"x-empty\": \"\", \"authorization\": \"Bearer t\", \"dlq-fake\": \"1\", \"DLQ-ID\": \"forged\", "
			   "\"Host\": \"evil\", \"content-length\": \"1\", \"Transfer-Encoding\": \"chunked\", \"connection\": \"close\", "
			   "\"te\": \"x\", \"Content-Type\": \"evil/type\"}"),
	};
	struct store_delivery plain = {.id = STR("m-2")};
	struct seen s;
	struct dlq_err err = {0};
	static const char want[] = "bytes\0here|text/x-test|m-1|orders|3|customer 7|1|caf\xc3\xa9||Bearer t|-|-|-|-";

	(void)state;
	web_start(&web);
	seen_init(&s, web.url, &d);
	assert_int_equal(h->ops->start(h, &s.call, &err), DLQ_OK);
	seen_wait(&s);
	assert_true(str_eq(buf_str(&got), (struct str){want, sizeof(want) - 1}));
	assert_int_equal(s.outcome, OUTCOME_PERMANENT);
	assert_string_equal(s.type, "Told");
	assert_string_equal(s.message, "line one");
	assert_string_equal(s.detail, "line one\nline two");

	seen_init(&s, web.url, &plain);
	assert_int_equal(h->ops->start(h, &s.call, &err), DLQ_OK);
	seen_wait(&s);
	assert_true(str_eqz(buf_str(&got), "|application/octet-stream|m-2|orders|1|-|0|-|-|-|-|-|-|-"));
	close_all(l, h);
	web_stop(&web);
	buf_release(&got);
}

static int hits;

static void count(struct web *w, const struct web_request *q, struct web_reply *r)
{
	(void)w;
	(void)q;
	(void)r;
	__atomic_add_fetch(&hits, 1, __ATOMIC_SEQ_CST);
}

static void test_messages_that_cannot_be_sent(void **state)
{
	const struct store_delivery bad[] = {
	    {.id = STR("a"), .headers = STR("{\"X-A\": \"one\\r\\nDlq-Outcome: ok\"}")},
	    {.id = STR("a"), .headers = STR("{\"X-A\": \"nul\\u0000\"}")},
	    {.id = STR("a"), .headers = STR("{\"X A\": \"v\"}")},
	    {.id = STR("a"), .headers = STR("{\"X-A\\r\\nX-B\": \"v\"}")},
	    {.id = STR("a"), .headers = STR("{\"\": \"v\"}")},
	    {.id = STR("a"), .headers = STR("{\"X-A\": 7}")},
	    {.id = STR("a"), .headers = STR("[\"X-A\"]")},
	    {.id = STR("a"), .headers = STR("{\"X-A\": ")},
	    {.id = STR("a"), .key = STR("k\nDlq-Id: forged")},
	    {.id = STR("a"), .key = STR("k\0")},
	    {.id = STR("a"), .content_type = STR("text/plain\r\nX: y")},
	};
	struct web web = {.answer = count};
	struct net_loop *l = loop_open();
	struct handler *h = handler_http_new(l, 1);
	struct seen s;

	(void)state;
	hits = 0;
	web_start(&web);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct dlq_err err = {0};

		seen_init(&s, web.url, &bad[i]);
		assert_int_equal(h->ops->start(h, &s.call, &err), DLQ_BAD_REQUEST);
		assert_true(err.detail[0] != 0);
		assert_int_equal(s.done, 0);
	}
	close_all(l, h);
	assert_int_equal(hits, 0);
	web_stop(&web);
}

static void test_no_answer_and_no_secret(void **state)
{
	struct raw reset = {.bytes = "", .reset = true}, silent = {.bytes = "", .hold = true};
	struct net_loop *l = loop_open();
	struct handler *h = handler_http_new(l, 4);
	struct store_delivery d = {.id = STR("m")};
	struct dlq_err err = {0};
	char urls[3][100];
	static const char *const types[] = {"ConnectionRefused", "ConnectionReset", "Timeout"};

	(void)state;
	raw_start(&reset);
	raw_start(&silent);
	snprintf(urls[0], sizeof(urls[0]), "http://u:s3cret@127.0.0.1:%d/", closed_port());
	snprintf(urls[1], sizeof(urls[1]), "http://u:s3cret@127.0.0.1:%d/", reset.port);
	snprintf(urls[2], sizeof(urls[2]), "http://u:s3cret@127.0.0.1:%d/", silent.port);
	for (int i = 0; i < 3; i++) {
		struct seen s;

		seen_init(&s, urls[i], &d);
		s.call.timeout_ms = i == 2 ? 100 : 10000;
		assert_int_equal(h->ops->start(h, &s.call, &err), DLQ_OK);
		seen_wait(&s);
		assert_int_equal(s.outcome, OUTCOME_TRANSIENT);
		assert_string_equal(s.type, types[i]);
		assert_true(s.message[0] != 0);
		assert_null(strstr(s.message, "s3cret"));
	}
	close_all(l, h);
	raw_stop(&reset);
	raw_stop(&silent);
}

static void test_limit_and_stop(void **state)
{
	struct raw silent = {.bytes = "", .hold = true};
	struct net_loop *l = loop_open();
	struct handler *h = handler_http_new(l, 2);
	struct store_delivery d = {.id = STR("m")};
	struct seen s[3];
	struct dlq_err err = {0};

	(void)state;
	raw_start(&silent);
	for (int i = 0; i < 3; i++) {
		seen_init(&s[i], silent.url, &d);
		s[i].call.timeout_ms = 60000;
		assert_int_equal(h->ops->start(h, &s[i].call, &err), i < 2 ? DLQ_OK : DLQ_BUSY);
	}
	h->ops->stop(h, 20);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(s[i].done, 1); /* returned before stop did */
		assert_int_equal(s[i].outcome, OUTCOME_RELEASE);
	}
	assert_int_equal(s[2].done, 0);
	assert_int_equal(h->ops->start(h, &s[2].call, &err), DLQ_SHUTTING_DOWN);
	h->ops->free(h);
	net_loop_free(l);
	raw_stop(&silent);
}

/* ---- the webhook sink ---- */

struct told {
	struct sink_note note;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	int done;
};

static void on_told(struct sink_note *note)
{
	struct told *t = note->user;

	pthread_mutex_lock(&t->lock);
	t->done++;
	pthread_cond_broadcast(&t->cond);
	pthread_mutex_unlock(&t->lock);
}

static void told_init(struct told *t, const char *url)
{
	*t = (struct told){.note = {.url = str_of(url), .id = STR("n-1"), .json = STR("{\"event\": 1}"), .done = on_told, .user = t}};
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->cond, NULL);
}

static void told_wait(struct told *t)
{
	pthread_mutex_lock(&t->lock);
	while (!t->done)
		pthread_cond_wait(&t->cond, &t->lock);
	pthread_mutex_unlock(&t->lock);
}

static void receiver(struct web *w, const struct web_request *q, struct web_reply *r)
{
	struct web_reply *script = w->user;
	const char *id = web_header(q, "Dlq-Notification-Id"), *type = web_header(q, "Content-Type");
	bool good = id && !strcmp(id, "n-1") && type && !strcmp(type, "application/json") && str_eqz(q->body, "{\"event\": 1}");

	*r = *script;
	if (!good)
		r->status = 418;
}

static void test_webhook(void **state)
{
	char long_line[600];
	const struct {
		struct web_reply reply;
		bool ok;
		const char *error;
		int64_t retry;
	} cases[] = {
	    {{.status = 200}, true, "", 0},
	    {{.status = 204}, true, "", 0},
	    {{.status = 302}, false, "HTTP 302", 0},
	    {{.status = 503, .body = "later\nplease", .headers = {"Retry-After: 9"}}, false, "HTTP 503: later", 9000},
	    {{.status = 404, .body = "<html>"}, false, "HTTP 404", 0},
	    {{.status = 500, .body = long_line}, false, NULL, 0},
	};
	struct web web = {.answer = receiver};
	struct net_loop *l = loop_open();
	struct sink *s = sink_webhook_new(l, 2);
	struct dlq_err err = {0};
	struct told t;
	char url[100];

	(void)state;
	for (size_t i = 0; i + 3 < sizeof(long_line); i += 3)
		memcpy(long_line + i, "\xe2\x82\xac", 4);
	web_start(&web);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		web.user = (void *)&cases[i].reply;
		told_init(&t, web.url);
		assert_int_equal(s->ops->send(s, &t.note, &err), DLQ_OK);
		told_wait(&t);
		assert_int_equal(t.note.ok, cases[i].ok);
		assert_int_equal(t.note.retry_after_ms, cases[i].retry);
		assert_true(str_is_utf8(str_of(t.note.error)));
		if (cases[i].error)
			assert_string_equal(t.note.error, cases[i].error);
		else
			assert_in_range(strlen(t.note.error), sizeof(t.note.error) - 4, sizeof(t.note.error) - 1);
	}
	snprintf(url, sizeof(url), "http://u:s3cret@127.0.0.1:%d/", closed_port());
	told_init(&t, url);
	assert_int_equal(s->ops->send(s, &t.note, &err), DLQ_OK);
	told_wait(&t);
	assert_false(t.note.ok);
	assert_true(str_starts(str_of(t.note.error), "ConnectionRefused: "));
	assert_null(strstr(t.note.error, "s3cret"));
	s->ops->stop(s, 1000);
	assert_int_equal(s->ops->send(s, &t.note, &err), DLQ_SHUTTING_DOWN);
	s->ops->free(s);
	net_loop_free(l);
	web_stop(&web);
}

static void test_webhook_limit_and_stop(void **state)
{
	struct raw silent = {.bytes = "", .hold = true};
	struct net_loop *l = loop_open();
	struct sink *s = sink_webhook_new(l, 1);
	struct told a, b;
	struct dlq_err err = {0};

	(void)state;
	raw_start(&silent);
	told_init(&a, silent.url);
	told_init(&b, silent.url);
	assert_int_equal(s->ops->send(s, &a.note, &err), DLQ_OK);
	assert_int_equal(s->ops->send(s, &b.note, &err), DLQ_BUSY);
	s->ops->stop(s, 20);
	assert_int_equal(a.done, 1);
	assert_false(a.note.ok);
	assert_true(str_starts(str_of(a.note.error), "Aborted"));
	s->ops->free(s);
	net_loop_free(l);
	raw_stop(&silent);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_table),
	    cmocka_unit_test(test_detail_is_cut_at_a_character),
	    cmocka_unit_test(test_request_as_the_worker_sees_it),
	    cmocka_unit_test(test_messages_that_cannot_be_sent),
	    cmocka_unit_test(test_no_answer_and_no_secret),
	    cmocka_unit_test(test_limit_and_stop),
	    cmocka_unit_test(test_webhook),
	    cmocka_unit_test(test_webhook_limit_and_stop),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
