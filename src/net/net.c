/*
 * net.c - the one curl-multi thread.
 *
 * All of struct net_loop below `thread` belongs to that thread; what other threads bring (requests, aborts, the word to
 * stop) waits under `lock`, the only lock here, and nothing is called while it is held.
 */
#include "net/net.h"

#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define POOL_MAX 256          /* idle easy handles kept */
#define CONNECTIONS_MAX 1024  /* idle connections kept */
#define HEADERS_READ_MAX (256 * 1024)

/* One request under way, with its easy handle; pooled. */
struct call {
	struct call *next, *prev;
	CURL *easy;
	struct curl_slist *headers;
	struct net_request *r;
	size_t body_read, headers_read;
	bool cut;      /* we stopped reading: the answer is whole enough */
	bool unwanted; /* aborted, ends at the next turn */
	char error[CURL_ERROR_SIZE];
};

struct abort_order {
	struct abort_order *next;
	bool (*match)(const struct net_request *r, void *arg);
	void *arg;
	bool done;
	bool detached; /* from the loop's own thread: on the heap, nobody waits */
};

struct net_loop {
	pthread_mutex_t lock;
	pthread_cond_t abort_done;
	struct net_request *queue, **queue_tail;
	struct abort_order *aborts;
	bool stop;

	pthread_t thread;
	CURLM *multi;
	struct call *active; /* doubly linked */
	struct call *pool;
	int n_pool;
};

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static CURLcode curl_ready;

static void curl_start(void)
{
	curl_ready = curl_global_init(CURL_GLOBAL_DEFAULT);
}

static size_t on_body(char *p, size_t size, size_t n, void *user)
{
	struct call *c = user;
	struct buf *out = &c->r->body_out;
	size_t len = size * n, keep = NET_BODY_KEEP - out->n;

	buf_add(out, p, len < keep ? len : keep);
	c->body_read += len;
	if (c->body_read > NET_BODY_READ_MAX) {
		c->cut = true;
		return 0; /* ends the transfer with CURLE_WRITE_ERROR */
	}
	return len;
}

static size_t on_header(char *p, size_t size, size_t n, void *user)
{
	struct call *c = user;
	struct buf *out = &c->r->headers_out;
	size_t len = size * n;

	if (len > 5 && memcmp(p, "HTTP/", 5) == 0)
		buf_clear(out); /* an interim answer (100, 103) came before */
	if (out->n + len <= NET_HEADERS_KEEP)
		buf_add(out, p, len);
	c->headers_read += len;
	return c->headers_read > HEADERS_READ_MAX ? 0 : len;
}

/* A URL that can be called: http or https with a host. *secret: its password, to be curl_freed, or NULL. */
static bool url_check(const char *url, char **secret)
{
	CURLU *u = curl_url();
	char *scheme = NULL, *host = NULL;
	bool ok;

	*secret = NULL;
	ok = u && !curl_url_set(u, CURLUPART_URL, url, 0) && !curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) &&
	     !curl_url_get(u, CURLUPART_HOST, &host, 0) && (!strcmp(scheme, "http") || !strcmp(scheme, "https"));
	if (ok)
		curl_url_get(u, CURLUPART_PASSWORD, secret, 0);
	curl_free(scheme);
	curl_free(host);
	curl_url_cleanup(u);
	return ok;
}

static bool header_append(struct call *c, struct str line)
{
	struct buf b = {0};
	struct curl_slist *list;
	const char *colon = memchr(line.p, ':', line.n);
	struct str name = {line.p, (size_t)(colon - line.p)};
	struct str value = str_trim((struct str){colon + 1, line.n - name.n - 1});

	buf_adds(&b, name);
	if (value.n > 0) {
		buf_addz(&b, ": ");
		buf_adds(&b, value);
	} else {
		buf_addc(&b, ';'); /* curl's way to write an empty header */
	}
	buf_addc(&b, 0);
	list = curl_slist_append(c->headers, b.p);
	buf_release(&b);
	if (list)
		c->headers = list;
	return list != NULL;
}

static struct call *call_get(struct net_loop *l)
{
	struct call *c = l->pool;

	if (c) {
		l->pool = c->next;
		l->n_pool--;
		curl_easy_reset(c->easy);
		return c;
	}
	c = mem_alloc(sizeof(*c));
	c->easy = curl_easy_init();
	if (!c->easy) {
		mem_free(c);
		return NULL;
	}
	return c;
}

static void call_put(struct net_loop *l, struct call *c)
{
	curl_slist_free_all(c->headers);
	if (l->n_pool >= POOL_MAX) {
		curl_easy_cleanup(c->easy);
		mem_free(c);
		return;
	}
	*c = (struct call){.easy = c->easy, .next = l->pool};
	l->pool = c;
	l->n_pool++;
}

static void request_refuse(struct net_request *r, enum net_fail fail, const char *why)
{
	r->status = 0;
	r->fail = fail;
	r->aborted = fail == NET_FAIL_ABORTED;
	snprintf(r->error, sizeof(r->error), "%s", why);
	r->done(r);
}

static void call_setup(struct call *c)
{
	struct net_request *r = c->r;
	CURL *e = c->easy;
	long timeout = (long)(r->timeout_ms > 0 ? r->timeout_ms : 1);

	curl_easy_setopt(e, CURLOPT_URL, r->url);
#if LIBCURL_VERSION_NUM >= 0x075500
	curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
#else
	curl_easy_setopt(e, CURLOPT_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS);
#endif
#if LIBCURL_VERSION_NUM >= 0x075700
	curl_easy_setopt(e, CURLOPT_QUICK_EXIT, 1L); /* an abort must not wait for a name server */
#endif
	curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(e, CURLOPT_PROXY, "");
	curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, timeout);
	curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, timeout < NET_CONNECT_MS ? timeout : (long)NET_CONNECT_MS);
	curl_easy_setopt(e, CURLOPT_USERAGENT, "dlq/" DLQ_VERSION);
	curl_easy_setopt(e, CURLOPT_POST, 1L);
	curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->body.n);
	curl_easy_setopt(e, CURLOPT_POSTFIELDS, r->body.n ? r->body.p : ""); /* borrowed, not copied */
	curl_easy_setopt(e, CURLOPT_HTTPHEADER, c->headers);
	curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(e, CURLOPT_WRITEDATA, c);
	curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(e, CURLOPT_HEADERDATA, c);
	curl_easy_setopt(e, CURLOPT_ERRORBUFFER, c->error);
	curl_easy_setopt(e, CURLOPT_PRIVATE, c);
}

static void request_start(struct net_loop *l, struct net_request *r)
{
	struct call *c;
	char *secret = NULL;
	const char *why = NULL;
	bool ok = true;

	for (int i = 0; i < r->n_headers && !why; i++)
		why = net_header_check(r->headers[i]);
	if (why) {
		request_refuse(r, NET_FAIL_HEADER, why);
		return;
	}
	ok = url_check(r->url, &secret);
	curl_free(secret);
	if (!ok) {
		request_refuse(r, NET_FAIL_URL, "the URL is not one of http:// or https:// with a host");
		return;
	}
	c = call_get(l);
	ok = c != NULL;
	if (ok) {
		c->r = r;
		/* Without these curl would wait for a 100 Continue, or invent a form's content type. */
		ok = (c->headers = curl_slist_append(NULL, "Expect:")) != NULL;
		for (int i = 0; i < r->n_headers && ok; i++)
			ok = header_append(c, r->headers[i]);
		call_setup(c);
		ok = ok && curl_multi_add_handle(l->multi, c->easy) == CURLM_OK;
		if (!ok)
			call_put(l, c);
	}
	if (!ok) {
		request_refuse(r, NET_FAIL_OTHER, "out of memory");
		return;
	}
	r->easy = c;
	c->prev = NULL;
	c->next = l->active;
	if (l->active)
		l->active->prev = c;
	l->active = c;
}

static enum net_fail fail_of(CURLcode code, long os_errno)
{
	switch (code) {
	case CURLE_URL_MALFORMAT:
		return NET_FAIL_URL; /* not CURLE_UNSUPPORTED_PROTOCOL: the URL was checked, so that is an answer curl cannot read */
	case CURLE_COULDNT_RESOLVE_HOST:
		return NET_FAIL_DNS;
	case CURLE_COULDNT_CONNECT:
		return os_errno == ECONNREFUSED ? NET_FAIL_REFUSED : os_errno == ETIMEDOUT ? NET_FAIL_TIMEOUT : NET_FAIL_OTHER;
	case CURLE_OPERATION_TIMEDOUT:
		return NET_FAIL_TIMEOUT;
	case CURLE_RECV_ERROR:
	case CURLE_SEND_ERROR:
	case CURLE_GOT_NOTHING:
	case CURLE_PARTIAL_FILE:
		return NET_FAIL_RESET;
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_SSL_CIPHER:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_ISSUER_ERROR:
		return NET_FAIL_TLS;
	default:
		return NET_FAIL_OTHER;
	}
}

/* curl's own text unless it quotes the URL's password. */
static void error_text(struct net_request *r, const struct call *c, CURLcode code)
{
	const char *text = c->error[0] ? c->error : curl_easy_strerror(code);
	char *secret = NULL;

	if (!url_check(r->url, &secret) || (secret && *secret && strstr(text, secret)))
		text = curl_easy_strerror(code);
	snprintf(r->error, sizeof(r->error), "%s", text);
	curl_free(secret);
}

/* Ends a call: out of the lists, the request's outputs filled, done called. */
static void call_finish(struct net_loop *l, struct call *c, CURLcode code)
{
	struct net_request *r = c->r;
	long status = 0, os_errno = 0;

	if (c->prev)
		c->prev->next = c->next;
	else
		l->active = c->next;
	if (c->next)
		c->next->prev = c->prev;
	if (code == CURLE_WRITE_ERROR && c->cut)
		code = CURLE_OK;
	if (c->unwanted) {
		r->aborted = true;
		r->fail = NET_FAIL_ABORTED;
		snprintf(r->error, sizeof(r->error), "the call was ended from this side");
	} else if (code == CURLE_OK) {
		curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
		r->status = (int)status;
	} else {
		curl_easy_getinfo(c->easy, CURLINFO_OS_ERRNO, &os_errno);
		r->fail = fail_of(code, os_errno);
		r->timed_out = r->fail == NET_FAIL_TIMEOUT;
		error_text(r, c, code);
	}
	curl_multi_remove_handle(l->multi, c->easy);
	r->easy = NULL;
	call_put(l, c);
	r->done(r);
}

static void loop_reap(struct net_loop *l)
{
	CURLMsg *m;
	int left;

	while ((m = curl_multi_info_read(l->multi, &left))) {
		struct call *c = NULL;
		CURLcode code = m->data.result; /* m does not outlive the handle's removal */

		if (m->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&c);
		call_finish(l, c, code);
	}
}

static void loop_end_unwanted(struct net_loop *l)
{
	for (struct call *c = l->active, *next; c; c = next) {
		/* A done may only mark others, never end them, so next stays good. */
		next = c->next;
		if (c->unwanted)
			call_finish(l, c, CURLE_OK);
	}
}

static void loop_mark(struct net_loop *l, bool (*match)(const struct net_request *r, void *arg), void *arg)
{
	for (struct call *c = l->active; c; c = c->next)
		if (!match || match(c->r, arg))
			c->unwanted = true;
}

static void loop_answer_aborts(struct net_loop *l, struct abort_order *list)
{
	pthread_mutex_lock(&l->lock);
	for (struct abort_order *o = list, *next; o; o = next) {
		next = o->next;
		if (o->detached)
			mem_free(o);
		else
			o->done = true; /* its stack may go once the lock is open */
	}
	pthread_cond_broadcast(&l->abort_done);
	pthread_mutex_unlock(&l->lock);
}

/* Takes what other threads brought. Returns false once all has ended after the word to stop. */
static bool loop_take(struct net_loop *l, int *wait_ms)
{
	struct net_request *list;
	struct abort_order *aborts;
	bool stop;

	pthread_mutex_lock(&l->lock);
	list = l->queue;
	l->queue = NULL;
	l->queue_tail = &l->queue;
	aborts = l->aborts;
	l->aborts = NULL;
	stop = l->stop;
	pthread_mutex_unlock(&l->lock);

	for (struct net_request *r = list, *next; r; r = next) {
		next = r->next;
		r->next = NULL;
		if (stop)
			request_refuse(r, NET_FAIL_ABORTED, "the server stops");
		else
			request_start(l, r);
	}
	for (struct abort_order *o = aborts; o; o = o->next)
		loop_mark(l, o->match, o->arg);
	if (stop)
		loop_mark(l, NULL, NULL);
	loop_end_unwanted(l);
	if (aborts)
		loop_answer_aborts(l, aborts);
	*wait_ms = stop ? 0 : 60000;
	return !stop || list || aborts || l->active;
}

static void *loop_main(void *arg)
{
	struct net_loop *l = arg;
	int running, wait_ms;

	while (loop_take(l, &wait_ms)) {
		curl_multi_perform(l->multi, &running);
		loop_reap(l);
		curl_multi_poll(l->multi, NULL, 0, wait_ms, NULL); /* ends early by curl_multi_wakeup */
	}
	return NULL;
}

enum dlq_code net_loop_new(struct net_loop **out, struct dlq_err *err)
{
	struct net_loop *l;
	int rc;

	*out = NULL;
	pthread_once(&curl_once, curl_start);
	if (curl_ready != CURLE_OK)
		return err_set(err, DLQ_SYSTEM, "libcurl does not start: %s", curl_easy_strerror(curl_ready));
	l = mem_alloc(sizeof(*l));
	l->queue_tail = &l->queue;
	l->multi = curl_multi_init();
	if (!l->multi) {
		mem_free(l);
		return err_set(err, DLQ_NO_MEMORY, "libcurl gives no multi handle");
	}
	curl_multi_setopt(l->multi, CURLMOPT_MAXCONNECTS, (long)CONNECTIONS_MAX);
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->abort_done, NULL);
	rc = pthread_create(&l->thread, NULL, loop_main, l);
	if (rc != 0) {
		curl_multi_cleanup(l->multi);
		pthread_cond_destroy(&l->abort_done);
		pthread_mutex_destroy(&l->lock);
		mem_free(l);
		return err_set(err, DLQ_SYSTEM, "no thread for outgoing HTTP: %s", strerror(rc));
	}
	*out = l;
	return DLQ_OK;
}

void net_loop_free(struct net_loop *l)
{
	if (!l)
		return;
	ASSERT(!pthread_equal(pthread_self(), l->thread));
	pthread_mutex_lock(&l->lock);
	l->stop = true;
	pthread_mutex_unlock(&l->lock);
	curl_multi_wakeup(l->multi);
	pthread_join(l->thread, NULL);
	while (l->pool) {
		struct call *c = l->pool;

		l->pool = c->next;
		curl_easy_cleanup(c->easy);
		mem_free(c);
	}
	curl_multi_cleanup(l->multi);
	pthread_cond_destroy(&l->abort_done);
	pthread_mutex_destroy(&l->lock);
	mem_free(l);
}

void net_submit(struct net_loop *l, struct net_request *r)
{
	bool first;

	ASSERT(r->done && r->url);
	r->next = NULL;
	r->easy = NULL;
	r->status = 0;
	r->fail = NET_FAIL_NONE;
	r->aborted = r->timed_out = false;
	r->error[0] = 0;
	pthread_mutex_lock(&l->lock);
	first = l->queue == NULL;
	*l->queue_tail = r;
	l->queue_tail = &r->next;
	pthread_mutex_unlock(&l->lock);
	if (first)
		curl_multi_wakeup(l->multi);
}

void net_abort(struct net_loop *l, bool (*match)(const struct net_request *r, void *arg), void *arg)
{
	struct abort_order on_stack = {.match = match, .arg = arg}, *o = &on_stack;

	ASSERT(match);
	if (pthread_equal(pthread_self(), l->thread)) {
		o = mem_alloc(sizeof(*o));
		*o = (struct abort_order){.match = match, .arg = arg, .detached = true};
	}
	pthread_mutex_lock(&l->lock);
	o->next = l->aborts;
	l->aborts = o;
	pthread_mutex_unlock(&l->lock);
	curl_multi_wakeup(l->multi);
	if (o != &on_stack)
		return;
	pthread_mutex_lock(&l->lock);
	while (!o->done)
		pthread_cond_wait(&l->abort_done, &l->lock);
	pthread_mutex_unlock(&l->lock);
}
