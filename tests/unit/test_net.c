/* net: outgoing HTTP against real servers on the loopback. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib_web.h"
#include "net/net.h"

/* ---- one request and its end ---- */

struct wait {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	int done;
};

static void on_done(struct net_request *r)
{
	struct wait *w = r->user;

	pthread_mutex_lock(&w->lock);
	w->done++;
	pthread_cond_broadcast(&w->cond);
	pthread_mutex_unlock(&w->lock);
}

static void wait_init(struct wait *w)
{
	*w = (struct wait){0};
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->cond, NULL);
}

static void wait_for(struct wait *w, int n)
{
	pthread_mutex_lock(&w->lock);
	while (w->done < n)
		pthread_cond_wait(&w->cond, &w->lock);
	pthread_mutex_unlock(&w->lock);
}

static struct net_loop *loop_open(void)
{
	struct net_loop *l;
	struct dlq_err err = {0};

	assert_int_equal(net_loop_new(&l, &err), DLQ_OK);
	return l;
}

/* Sends r and waits for its end. */
static void call(struct net_loop *l, struct net_request *r)
{
	struct wait w;

	wait_init(&w);
	r->done = on_done;
	r->user = &w;
	if (!r->timeout_ms)
		r->timeout_ms = 20000;
	net_submit(l, r);
	wait_for(&w, 1);
}

/* ---- servers ---- */

static void echo(struct web *w, const struct web_request *q, struct web_reply *r)
{
	const char *type = web_header(q, "Content-Type"), *empty = web_header(q, "X-Empty");
	static _Thread_local char text[400];

	(void)w;
	snprintf(text, sizeof(text), "%s|%s|%s|%s|%zu|%.*s", type ? type : "none", empty ? empty : "none",
		 web_header(q, "Expect") ? "expect" : "", web_header(q, "User-Agent"), q->body.n, q->body.n < 100 ? (int)q->body.n : 100,
		 q->body.p);
	r->status = 201;
	r->headers[0] = "X-Answer: forty two ";
	r->body = text;
}

static void test_post(void **state)
{
	struct web web = {.answer = echo};
	struct net_loop *l = loop_open();
	struct str headers[] = {STR("Content-Type: text/plain"), STR("X-Empty:")};
	struct net_request r = {.body = STR("hello"), .headers = headers, .n_headers = 2};

	(void)state;
	web_start(&web);
	r.url = web.url;
	call(l, &r);
	assert_int_equal(r.status, 201);
	assert_int_equal(r.fail, NET_FAIL_NONE);
	assert_false(r.timed_out || r.aborted);
	assert_true(str_eqz(buf_str(&r.body_out), "text/plain|||dlq/" DLQ_VERSION "|5|hello"));
	assert_true(str_eqz(net_header(&r, "x-answer"), "forty two"));
	assert_true(net_header(&r, "X-Other").n == 0);
	net_request_release(&r);
	net_loop_free(l);
	web_stop(&web);
}

static void test_empty_and_big_body(void **state)
{
	struct web web = {.answer = echo};
	struct net_loop *l = loop_open();
	struct str headers[] = {STR("Content-Type: a/b")};
	struct net_request r = {.headers = headers, .n_headers = 1};
	size_t big = 3 << 20;
	char *bytes = malloc(big);

	(void)state;
	web_start(&web);
	r.url = web.url;
	call(l, &r);
	assert_true(str_starts(buf_str(&r.body_out), "a/b|none||dlq/" DLQ_VERSION "|0|"));
	net_request_release(&r);
	memset(bytes, 'x', big);
	r.body = (struct str){bytes, big};
	call(l, &r); /* no wait for 100 Continue */
	assert_true(str_starts(buf_str(&r.body_out), "a/b|none||dlq/" DLQ_VERSION "|3145728|xxx"));
	net_request_release(&r);
	free(bytes);
	net_loop_free(l);
	web_stop(&web);
}

static void long_answer(struct web *w, const struct web_request *q, struct web_reply *r)
{
	(void)q;
	r->body = w->user;
	r->body_len = strlen(w->user);
}

/* A body is kept up to the limit, read up to the other limit, then cut. */
static void test_response_limits(void **state)
{
	struct net_loop *l = loop_open();
	struct web web = {.answer = long_answer};
	static const size_t sizes[] = {NET_BODY_KEEP - 1, NET_BODY_KEEP, NET_BODY_KEEP + 1, NET_BODY_READ_MAX, NET_BODY_READ_MAX + 1,
				       NET_BODY_READ_MAX * 3};

	(void)state;
	web_start(&web);
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		struct net_request r = {.url = web.url};
		char *bytes = malloc(sizes[i] + 1);

		memset(bytes, 'a', sizes[i]);
		bytes[sizes[i]] = 0;
		web.user = bytes;
		call(l, &r);
		assert_int_equal(r.status, 200);
		assert_int_equal(r.body_out.n, sizes[i] < NET_BODY_KEEP ? sizes[i] : NET_BODY_KEEP);
		net_request_release(&r);
		free(bytes);
	}
	net_loop_free(l);
	web_stop(&web);
}

static void test_response_headers_limit(void **state)
{
	struct net_loop *l = loop_open();
	struct buf b = {0};
	struct raw raw = {0};
	struct net_request r = {0};

	(void)state;
	buf_addz(&b, "HTTP/1.1 103 Early Hints\r\nX-Early: 1\r\n\r\nHTTP/1.1 503 Busy\r\nX-First: yes\r\n");
	for (int i = 0; i < 3000; i++)
		buf_addf(&b, "X-Filler-%d: 0123456789\r\n", i);
	buf_addz(&b, "Content-Length: 2\r\n\r\nno");
	raw.bytes = b.p;
	raw.n = b.n;
	raw_start(&raw);
	r.url = raw.url;
	call(l, &r);
	assert_int_equal(r.status, 503);
	assert_true(r.headers_out.n <= NET_HEADERS_KEEP);
	assert_true(str_eqz(net_header(&r, "X-First"), "yes"));
	assert_true(net_header(&r, "X-Early").n == 0);
	assert_true(str_eqz(buf_str(&r.body_out), "no"));
	net_request_release(&r);
	raw_stop(&raw);
	buf_release(&b);
	net_loop_free(l);
}

/* ---- what goes wrong ---- */

static void assert_fails(struct net_loop *l, const char *url, int64_t timeout_ms, enum net_fail want)
{
	struct net_request r = {.url = url, .timeout_ms = timeout_ms};

	call(l, &r);
	assert_int_equal(r.status, 0);
	if (r.fail != want)
		print_message("%s: %s, %s\n", url, net_fail_name(r.fail), r.error);
	assert_int_equal(r.fail, want);
	assert_int_equal(r.timed_out, want == NET_FAIL_TIMEOUT);
	assert_true(r.error[0] != 0);
	assert_null(strstr(r.error, "s3cret"));
	net_request_release(&r);
}

static void test_bad_urls(void **state)
{
	static const char *const urls[] = {"", "nonsense://x", "ftp://127.0.0.1/", "file:///etc/passwd", "http://", "http://u:s3cret@/",
					   "http://u:s3cret@h:99999999/", "gopher://u:s3cret@127.0.0.1/", "/only/a/path"};
	struct net_loop *l = loop_open();

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(urls); i++)
		assert_fails(l, urls[i], 1000, NET_FAIL_URL);
	net_loop_free(l);
}

static void test_refused(void **state)
{
	struct net_loop *l = loop_open();
	char url[100];

	(void)state;
	snprintf(url, sizeof(url), "http://u:s3cret@127.0.0.1:%d/x", closed_port());
	assert_fails(l, url, 5000, NET_FAIL_REFUSED);
	net_loop_free(l);
}

static void test_reset_and_partial(void **state)
{
	static const struct {
		const char *bytes;
		bool reset;
	} cases[] = {
	    {"", true},
	    {"", false},
	    {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this", false},
	    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", false},
	};
	struct net_loop *l = loop_open();

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct raw raw = {.bytes = cases[i].bytes, .reset = cases[i].reset};

		raw_start(&raw);
		assert_fails(l, raw.url, 5000, NET_FAIL_RESET);
		raw_stop(&raw);
	}
	net_loop_free(l);
}

static void test_timeouts(void **state)
{
	struct raw silent = {.bytes = "", .hold = true};
	struct raw half = {.bytes = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", .hold = true};
	struct net_loop *l = loop_open();

	(void)state;
	raw_start(&silent);
	raw_start(&half);
	assert_fails(l, silent.url, 150, NET_FAIL_TIMEOUT);
	assert_fails(l, half.url, 150, NET_FAIL_TIMEOUT);
	net_loop_free(l);
	raw_stop(&silent);
	raw_stop(&half);
}

static void test_not_http(void **state)
{
	struct raw raw = {.bytes = "220 smtp.example ESMTP\r\n"};
	struct net_loop *l = loop_open();
	struct net_request r = {0};

	(void)state;
	raw_start(&raw);
	r.url = raw.url;
	call(l, &r);
	assert_int_equal(r.status, 0);
	assert_int_equal(r.fail, NET_FAIL_OTHER); /* the URL is not to blame */
	net_request_release(&r);
	raw_stop(&raw);
	net_loop_free(l);
}

static atomic_int redirect_hits;

static void redirect(struct web *w, const struct web_request *q, struct web_reply *r)
{
	static char location[100];

	redirect_hits++;
	snprintf(location, sizeof(location), "Location: %s/other", w->url);
	r->status = strcmp(q->path, "/other") ? 307 : 200;
	r->headers[0] = location;
}

static void test_redirects_and_proxies(void **state)
{
	struct web web = {.answer = redirect};
	struct net_loop *l;
	struct net_request r = {0};

	(void)state;
	redirect_hits = 0;
	setenv("http_proxy", "http://127.0.0.1:1/", 1);
	setenv("ALL_PROXY", "http://127.0.0.1:1/", 1);
	l = loop_open();
	web_start(&web);
	r.url = web.url;
	call(l, &r);
	assert_int_equal(r.status, 307);
	assert_int_equal(redirect_hits, 1);
	net_request_release(&r);
	net_loop_free(l);
	web_stop(&web);
	unsetenv("http_proxy");
	unsetenv("ALL_PROXY");
}

static atomic_int hits;

static void count(struct web *w, const struct web_request *q, struct web_reply *r)
{
	(void)w;
	(void)q;
	(void)r;
	hits++;
}

static void test_header_injection(void **state)
{
	struct str bad[] = {STR("X-A: one\r\nX-B: two"), STR("X-A: one\nX-B: two"), STR("X-A: on\0e"), STR("X-A: one\r"),
			    STR("no colon"), STR(": no name"), STR("X A: space in the name"), STR(""), STR("X-A\r\n: b"), STR("X-A: \x7f")};
	struct str good[] = {STR("X-A: \t caf\xc3\xa9 \"quoted\"; a=b"), STR("X-A:"), STR("!#$%&'*+-.^_`|~09aZ: v")};
	struct web web = {.answer = count};
	struct net_loop *l = loop_open();

	(void)state;
	hits = 0;
	web_start(&web);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct net_request r = {.url = web.url, .headers = &bad[i], .n_headers = 1};

		assert_non_null(net_header_check(bad[i]));
		call(l, &r);
		assert_int_equal(r.status, 0);
		assert_int_equal(r.fail, NET_FAIL_HEADER);
		net_request_release(&r);
	}
	assert_int_equal(hits, 0);
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		struct net_request r = {.url = web.url, .headers = &good[i], .n_headers = 1};

		assert_null(net_header_check(good[i]));
		call(l, &r);
		assert_int_equal(r.status, 200);
		net_request_release(&r);
	}
	net_loop_free(l);
	web_stop(&web);
}

/* ---- many, and their end ---- */

static void test_many_and_reuse(void **state)
{
	enum { N = 500 };
	struct web web = {.answer = count};
	struct net_loop *l = loop_open();
	struct net_request *all = calloc(N, sizeof(*all));
	struct wait w;

	(void)state;
	hits = 0;
	wait_init(&w);
	web_start(&web);
	for (int i = 0; i < N; i++) {
		all[i] = (struct net_request){.url = web.url, .timeout_ms = 30000, .done = on_done, .user = &w};
		net_submit(l, &all[i]);
		if (i % 50 == 49)
			wait_for(&w, i + 1);
	}
	wait_for(&w, N);
	assert_int_equal(hits, N);
	for (int i = 0; i < N; i++) {
		assert_int_equal(all[i].status, 200);
		net_request_release(&all[i]);
	}
	free(all);
	net_loop_free(l);
	web_stop(&web);
}

static bool match_body(const struct net_request *r, void *arg)
{
	return str_eqz(r->body, arg);
}

static void test_abort(void **state)
{
	struct raw silent = {.bytes = "", .hold = true};
	struct net_loop *l = loop_open();
	struct net_request a[3], b = {.body = STR("b")}, late = {.body = STR("late")};
	struct wait wa, wb;

	(void)state;
	raw_start(&silent);
	wait_init(&wa);
	wait_init(&wb);
	b.url = silent.url;
	b.timeout_ms = 60000;
	b.done = on_done;
	b.user = &wb;
	net_submit(l, &b);
	for (int i = 0; i < 3; i++) {
		a[i] = (struct net_request){.url = silent.url, .body = STR("a"), .timeout_ms = 60000, .done = on_done, .user = &wa};
		net_submit(l, &a[i]);
	}
	net_abort(l, match_body, (void *)"a");
	assert_int_equal(wa.done, 3); /* all done have returned */
	assert_int_equal(wb.done, 0);
	for (int i = 0; i < 3; i++) {
		assert_true(a[i].aborted);
		assert_int_equal(a[i].status, 0);
		assert_int_equal(a[i].fail, NET_FAIL_ABORTED);
		net_request_release(&a[i]);
	}
	late = b;
	late.user = &wb;
	net_submit(l, &late); /* maybe not even started when the loop ends */
	net_loop_free(l);
	assert_int_equal(wb.done, 2);
	assert_true(b.aborted && late.aborted);
	net_request_release(&b);
	net_request_release(&late);
	raw_stop(&silent);
}

struct chain {
	struct net_request r;
	struct net_loop *l;
	struct net_request victim;
	struct wait w;
};

static bool match_victim(const struct net_request *r, void *arg)
{
	return r == arg;
}

/* A done may submit and abort. */
static void chain_done(struct net_request *r)
{
	struct chain *c = r->user;

	net_submit(c->l, &c->victim);
	net_abort(c->l, match_victim, &c->victim);
}

static void test_abort_inside_done(void **state)
{
	struct raw silent = {.bytes = "", .hold = true};
	struct web web = {.answer = count};
	struct chain c = {.l = loop_open()};

	(void)state;
	raw_start(&silent);
	web_start(&web);
	wait_init(&c.w);
	c.victim = (struct net_request){.url = silent.url, .timeout_ms = 60000, .done = on_done, .user = &c.w};
	c.r = (struct net_request){.url = web.url, .timeout_ms = 60000, .done = chain_done, .user = &c};
	net_submit(c.l, &c.r);
	wait_for(&c.w, 1);
	assert_true(c.victim.aborted);
	net_loop_free(c.l);
	net_request_release(&c.r);
	net_request_release(&c.victim);
	web_stop(&web);
	raw_stop(&silent);
}

static void test_retry_after(void **state)
{
	const int64_t now = 1445412480000; /* Wed, 21 Oct 2015 07:28:00 GMT */
	static const struct {
		const char *value, *date;
		int64_t want;
	} cases[] = {
	    {"120", "", 120000},
	    {" 7 ", "", 7000},
	    {"0", "", 0},
	    {"", "", 0},
	    {"-5", "", 0},
	    {"1.5", "", 0},
	    {"12 seconds", "", 0},
	    {"soon", "", 0},
	    {"99999999999999999999999999999999", "", 86400000},
	    {"86401", "", 86400000},
	    {"Wed, 21 Oct 2015 07:28:30 GMT", "", 30000},
	    {"Wednesday, 21-Oct-15 07:29:00 GMT", "", 60000},
	    {"Wed Oct 21 07:28:10 2015", "", 10000},
	    {"Wed, 21 Oct 2015 07:27:00 GMT", "", 0},
	    {"Wed, 21 Oct 2015 07:28:30 GMT", "Wed, 21 Oct 2015 07:28:10 GMT", 20000},
	    {"Wed, 21 Oct 2015 07:28:30 GMT", "not a date", 30000},
	    {"Fri, 21 Oct 2050 07:28:30 GMT", "", 86400000},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int64_t got = net_retry_after_ms(str_of(cases[i].value), str_of(cases[i].date), now, 86400000);

		if (got != cases[i].want)
			print_message("case %zu: %s\n", i, cases[i].value);
		assert_int_equal(got, cases[i].want);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_post),
	    cmocka_unit_test(test_empty_and_big_body),
	    cmocka_unit_test(test_response_limits),
	    cmocka_unit_test(test_response_headers_limit),
	    cmocka_unit_test(test_bad_urls),
	    cmocka_unit_test(test_refused),
	    cmocka_unit_test(test_reset_and_partial),
	    cmocka_unit_test(test_timeouts),
	    cmocka_unit_test(test_not_http),
	    cmocka_unit_test(test_redirects_and_proxies),
	    cmocka_unit_test(test_header_injection),
	    cmocka_unit_test(test_many_and_reuse),
	    cmocka_unit_test(test_abort),
	    cmocka_unit_test(test_abort_inside_done),
	    cmocka_unit_test(test_retry_after),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
