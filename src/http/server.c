/*
 * The loop. One thread owns all connections and all requests. Engine threads reach it only through
 * `back` (under back_lock, nothing else is taken while it is held) and wake_fd; other threads through the two atomics.
 */
#include <errno.h>
#include <linux/filter.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "http/http.h"

#define TICK_MS 500
#define EVENTS_MAX 256
#define ACCEPT_MAX 64   /* connections accepted in a row */
#define BACKLOG 1024

/* ---- connections ---- */

static void listen_on(struct http_server *s, bool on)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &s->listen_fd};
	if (s->listening == on || s->listen_fd < 0)
		return;
	s->listening = on;
	ASSERT(epoll_ctl(s->ep, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, s->listen_fd, &ev) == 0);
}

/* False: no more are waiting, or there is no room. */
static bool accept_some(struct http_server *s)
{
	for (int i = 0; i < ACCEPT_MAX; i++) {
		if (s->n_conns >= s->lim.max_connections) {
			/* The one idle for longest makes room; if all are busy, the kernel's backlog waits. */
			struct http_conn *oldest = s->lists[LIST_IDLE].next;
			if (oldest == &s->lists[LIST_IDLE]) {
				atomic_fetch_add_explicit(&s->stats.refused_connections, 1, memory_order_relaxed);
				listen_on(s, false);
				return false;
			}
			http_conn_close(oldest);
		}
		int fd = accept4(s->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0) {
			if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
				log_event(LOG_WARN, "http.accept_failed", "errno=%d connections=%d", errno, s->n_conns);
				listen_on(s, s->n_conns == 0);
			}
			return false;
		}
		http_conn_open(s, fd);
	}
	return true;
}

static bool someone_waits(const struct http_server *s)
{
	struct pollfd p = {.fd = s->listen_fd, .events = POLLIN};
	return poll(&p, 1, 0) == 1;
}

/*
 * Connections are at their limit, a client waits for one and none is idle: the oldest long polls are answered, empty and as the
 * last of their connection. A few at a time: their clients come back, and must not push out each other without end.
 */
static void end_old_polls(struct http_server *s)
{
	struct http_conn *parked = &s->lists[LIST_PARKED], *c;
	int64_t n = s->lim.max_connections / 100 + 1;
	bool leaving = s->lists[LIST_LINGER].next != &s->lists[LIST_LINGER]; /* there is room soon */
	if (s->listening || s->drain_begun || s->n_conns < s->lim.max_connections || leaving || !someone_waits(s))
		return;
	while (n-- > 0 && (c = parked->next) != parked) {
		c->keep = false;
		http_conn_move(s, c, LIST_NONE, 0);
		engine_cancel_receive(s->e, &c->r->op);
	}
}

/* Ends connections whose time is over. */
static void tick(struct http_server *s)
{
	static const enum conn_list lists[] = {LIST_IDLE, LIST_READING, LIST_LINGER, LIST_WRITING};
	s->next_tick_ms = s->now_ms + TICK_MS;
	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		struct http_conn *head = &s->lists[lists[i]];
		for (struct http_conn *c = head->next, *next; c != head; c = next) {
			next = c->next;
			if (c->deadline_ms > s->now_ms) {
				if (lists[i] == LIST_WRITING)
					continue; /* the only list that is not in order */
				break;
			}
			if (lists[i] != LIST_LINGER)
				atomic_fetch_add_explicit(&s->stats.timeouts, 1, memory_order_relaxed);
			http_conn_close(c);
		}
	}
	if (!s->drain_begun && s->n_conns < s->lim.max_connections)
		listen_on(s, true);
	end_old_polls(s);
}

/* ---- the engine ---- */

void server_queue_op(struct http_server *s, struct engine_op *op)
{
	op->next = NULL;
	*s->submit_tail = op;
	s->submit_tail = &op->next;
	s->n_ops++;
}

void server_detach_op(struct http_server *s, struct engine_op *op)
{
	op->port = &s->port;
	op->user = NULL;
	if (s->ended) {
		engine_op_release(op);
		mem_free(op);
		return;
	}
	server_queue_op(s, op);
}

static void wake(struct http_server *s)
{
	uint64_t one = 1;
	ssize_t n = write(s->wake_fd, &one, sizeof one);
	(void)n; /* full means that it is awake */
}

/* Engine threads. */
static void port_post(struct op_port *port, struct engine_op *list)
{
	struct http_server *s = (struct http_server *)port;
	struct engine_op *last = list;
	while (last->next)
		last = last->next;
	pthread_mutex_lock(&s->back_lock);
	bool first = s->back_head == NULL;
	*s->back_tail = list;
	s->back_tail = &last->next;
	pthread_mutex_unlock(&s->back_lock);
	if (first)
		wake(s);
}

static void take_back(struct http_server *s)
{
	pthread_mutex_lock(&s->back_lock);
	struct engine_op *list = s->back_head;
	s->back_head = NULL;
	s->back_tail = &s->back_head;
	pthread_mutex_unlock(&s->back_lock);
	for (struct engine_op *op = list, *next; op; op = next) {
		next = op->next;
		s->n_ops--;
		if (op->user) {
			request_back(op->user);
			continue;
		}
		engine_op_release(op);
		mem_free(op);
	}
}

static void submit(struct http_server *s)
{
	if (!s->submit_head)
		return;
	struct engine_op *list = s->submit_head;
	s->submit_head = NULL;
	s->submit_tail = &s->submit_head;
	engine_submit(s->e, list);
}

/* ---- the loop ---- */

void server_leave(struct http_server *s)
{
	if (atomic_fetch_sub_explicit(&s->in_flight, 1, memory_order_acq_rel) != 1)
		return;
	pthread_mutex_lock(&s->idle_lock);
	pthread_cond_broadcast(&s->idle_cond);
	pthread_mutex_unlock(&s->idle_lock);
}

/*
 * Who stands in the kernel's backlog was told that it is connected, and would be reset with the socket: all are taken first.
 * From here on who asks to connect is not heard: it asks again, and is refused then, or served by the next server.
 */
static void take_backlog(struct http_server *s)
{
	struct sock_filter no_syn[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 13), /* the flags of the TCP header */
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, TH_SYN, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, 0),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
	};
	struct sock_fprog program = {ARRAY_LEN(no_syn), no_syn};
	int rc = setsockopt(s->listen_fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
	(void)rc; /* without it, one that comes between the last accept and close is reset */
	for (int i = 0; i <= BACKLOG / ACCEPT_MAX && accept_some(s); i++)
		;
}

static void begin_drain(struct http_server *s)
{
	struct http_conn *parked = &s->lists[LIST_PARKED];
	s->drain_begun = true;
	if (s->listen_fd >= 0) {
		take_backlog(s);
		listen_on(s, false);
		close(s->listen_fd);
		s->listen_fd = -1;
	}
	for (struct http_conn *c = parked->next; c != parked; c = c->next)
		engine_cancel_receive(s->e, &c->r->op);
}

static int64_t mono_ms(struct http_server *s)
{
	return clock_mono_us(s->clock) / 1000;
}

static void tell_time(struct http_server *s)
{
	s->now_ms = mono_ms(s);
	int64_t second = clock_wall_ms(s->clock) / 1000;
	if (second == s->date_second)
		return;
	struct tm tm;
	time_t t = (time_t)second;
	s->date_second = second;
	gmtime_r(&t, &tm);
	strftime(s->date, sizeof s->date, "%a, %d %b %Y %H:%M:%S GMT", &tm);
}

/* False: there may be more events. */
static bool wait_events(struct http_server *s, int timeout_ms)
{
	struct epoll_event events[EVENTS_MAX];
	int n = epoll_wait(s->ep, events, EVENTS_MAX, timeout_ms);
	tell_time(s);
	for (int i = 0; i < n; i++) {
		void *what = events[i].data.ptr;
		if (what == &s->listen_fd) {
			accept_some(s);
		} else if (what == &s->wake_fd) {
			uint64_t count;
			ssize_t got = read(s->wake_fd, &count, sizeof count);
			(void)got;
		} else {
			http_conn_event(what, events[i].events);
		}
	}
	return n < EVENTS_MAX;
}

/* Connections that had more to do than one turn allows, or whose request ended with the next one already there. */
static void go_on(struct http_server *s)
{
	struct http_conn *list = s->again;
	s->again = NULL;
	while (list) {
		struct http_conn *c = list;
		list = c->again;
		c->in_again = false;
		http_conn_go_on(c);
	}
}

static void *loop(void *arg)
{
	struct http_server *s = arg;
	for (;;) {
		int64_t left = s->next_tick_ms - s->now_ms;
		bool hearing = s->drain_begun && !s->heard_all, all = wait_events(s, s->again || hearing || left < 0 ? 0 : (int)left);
		take_back(s);
		go_on(s);
		submit(s);
		if (s->now_ms >= s->next_tick_ms)
			tick(s);
		http_conn_free_dead(s);
		if (hearing && all && !s->again) { /* what came with the connections of the backlog is in flight now */
			s->heard_all = true;
			server_leave(s);
		}
		if (!s->drain_begun && atomic_load(&s->draining))
			begin_drain(s);
		if (atomic_load(&s->stopping) && s->heard_all && s->n_ops == 0 && !s->again)
			break;
	}
	s->ended = true;
	for (int i = 0; i < LIST_DEAD; i++)
		while (s->lists[i].next != &s->lists[i])
			http_conn_close(s->lists[i].next);
	http_conn_free_dead(s);
	return NULL;
}

/* ---- start and stop ---- */

static void limits_default(struct http_limits *l)
{
	struct { int64_t *field, value; } defaults[] = {
		{&l->max_message_bytes, 1 << 20}, {&l->max_batch_bytes, 16 << 20}, {&l->max_header_bytes, 16 << 10},
		{&l->max_headers, 64}, {&l->max_connections, 12000}, {&l->idle_timeout_ms, 60000}, {&l->request_timeout_ms, 30000},
		{&l->max_waiting_operations, 20000}, {&l->max_waiting_bytes, 64 << 20}, {&l->drain_timeout_ms, 10000},
		{&l->expires_soon_ms, (int64_t)3 * 86400000},
	};
	for (size_t i = 0; i < ARRAY_LEN(defaults); i++)
		if (*defaults[i].field <= 0)
			*defaults[i].field = defaults[i].value;
}

/* As many descriptors as connections need, plus those of the store and of pushes. */
static void raise_files(struct http_server *s)
{
	struct rlimit r;
	int64_t spare = 256;
	if (getrlimit(RLIMIT_NOFILE, &r) != 0)
		return;
	if (r.rlim_cur < r.rlim_max) {
		r.rlim_cur = r.rlim_max;
		if (setrlimit(RLIMIT_NOFILE, &r) != 0)
			getrlimit(RLIMIT_NOFILE, &r);
	}
	if ((int64_t)r.rlim_cur < s->lim.max_connections + spare) {
		int64_t fits = (int64_t)r.rlim_cur > 2 * spare ? (int64_t)r.rlim_cur - spare : (int64_t)r.rlim_cur / 2;
		log_event(LOG_WARN, "http.few_descriptors", "max_connections=%lld allowed=%lld hint=\"raise the limit of open files\"",
		          (long long)s->lim.max_connections, (long long)fits);
		s->lim.max_connections = fits > 1 ? fits : 1;
	}
}

/* "host:port" or "[v6]:port" into its parts. */
static bool split_listen(const char *text, char host[64], char port[8])
{
	const char *colon = strrchr(text, ':');
	if (!colon || colon == text || !colon[1] || strlen(colon + 1) > 5 || strspn(colon + 1, "0123456789") != strlen(colon + 1))
		return false;
	struct str h = {text, (size_t)(colon - text)};
	if (h.p[0] == '[') {
		if (h.n < 3 || h.p[h.n - 1] != ']')
			return false;
		h = (struct str){h.p + 1, h.n - 2};
	} else if (memchr(h.p, ':', h.n)) {
		return false;
	}
	if (h.n >= 64 || strtol(colon + 1, NULL, 10) > 65535)
		return false;
	snprintf(host, 64, STR_FMT, STR_ARG(h));
	snprintf(port, 8, "%s", colon + 1);
	return true;
}

static void remember_address(struct http_server *s)
{
	struct sockaddr_storage a;
	socklen_t len = sizeof a;
	char host[64] = "";
	if (getsockname(s->listen_fd, (struct sockaddr *)&a, &len) != 0)
		return;
	getnameinfo((struct sockaddr *)&a, len, host, sizeof host, NULL, 0, NI_NUMERICHOST);
	s->port_no = ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port : ((struct sockaddr_in *)&a)->sin_port);
	snprintf(s->address, sizeof s->address, a.ss_family == AF_INET6 ? "[%s]:%d" : "%s:%d", host, s->port_no);
}

static enum dlq_code open_listener(struct http_server *s, const char *text, struct dlq_err *err)
{
	char host[64], port[8];
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *list = NULL;
	enum dlq_code code = DLQ_OK;
	int one = 1;
	if (!text || !split_listen(text, host, port))
		return err_set(err, DLQ_INVALID_SETTING, "listen: \"%s\" is not HOST:PORT, such as 127.0.0.1:7357 or [::1]:7357", text ? text : "");
	int rc = getaddrinfo(host, port, &hints, &list);
	if (rc != 0)
		return err_set(err, DLQ_INVALID_SETTING, "listen: %s: %s", text, gai_strerror(rc));
	s->listen_fd = socket(list->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (s->listen_fd < 0) {
		code = err_set(err, DLQ_SYSTEM, "listen: %s: %s", text, strerror(errno));
		goto out;
	}
	setsockopt(s->listen_fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	setsockopt(s->listen_fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one); /* accepted sockets inherit it */
	if (bind(s->listen_fd, list->ai_addr, list->ai_addrlen) != 0 || listen(s->listen_fd, BACKLOG) != 0)
		code = err_set(err, DLQ_SYSTEM, "cannot listen on %s: %s%s", text, strerror(errno),
		               errno == EADDRINUSE ? "; another program has it, choose another port (--listen)" : "");
	else
		remember_address(s);
out:
	freeaddrinfo(list);
	return code;
}

static enum dlq_code open_tls(struct http_server *s, const struct http_options *o, struct dlq_err *err)
{
	if ((o->tls_cert != NULL) != (o->tls_key != NULL))
		return err_set(err, DLQ_INVALID_SETTING, "tls: both cert and key are needed");
	return o->tls_cert ? tls_server_new(o->tls_cert, o->tls_key, &s->tls, err) : DLQ_OK;
}

static enum dlq_code open_loop(struct http_server *s, struct dlq_err *err)
{
	s->ep = epoll_create1(EPOLL_CLOEXEC);
	s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct epoll_event wake_ev = {.events = EPOLLIN, .data.ptr = &s->wake_fd};
	if (s->ep < 0 || s->wake_fd < 0 || epoll_ctl(s->ep, EPOLL_CTL_ADD, s->wake_fd, &wake_ev) != 0)
		return err_set(err, DLQ_SYSTEM, "the HTTP server cannot be started: %s", strerror(errno));
	listen_on(s, true);
	return DLQ_OK;
}

static enum dlq_code start_thread(struct http_server *s, struct dlq_err *err)
{
	sigset_t all, old;
	sigfillset(&all); /* signals are the main thread's; SIGPIPE nobody's */
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int rc = pthread_create(&s->thread, NULL, loop, s);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return rc == 0 ? DLQ_OK : err_set(err, DLQ_SYSTEM, "the HTTP server cannot be started: %s", strerror(rc));
}

static void server_free(struct http_server *s)
{
	int fds[] = {s->listen_fd, s->ep, s->wake_fd};
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	for (struct http_req *r = s->pool, *next; r; r = next) {
		next = r->next;
		request_destroy(r);
	}
	tls_server_free(s->tls);
	buf_release(&s->openapi);
	pthread_mutex_destroy(&s->back_lock);
	pthread_mutex_destroy(&s->idle_lock);
	pthread_cond_destroy(&s->idle_cond);
	mem_free(s);
}

enum dlq_code http_server_start(const struct http_options *o, struct http_server **out, struct dlq_err *err)
{
	struct http_server *s = mem_alloc(sizeof *s);
	pthread_condattr_t mono;
	s->port.post = port_post;
	s->e = o->engine;
	s->clock = engine_clock(o->engine);
	s->lim = o->limits;
	limits_default(&s->lim);
	s->port.given_max = s->lim.max_waiting_bytes;
	snprintf(s->version, sizeof s->version, "%s", o->version ? o->version : DLQ_VERSION);
	s->listen_fd = s->ep = s->wake_fd = -1;
	s->back_tail = &s->back_head;
	s->submit_tail = &s->submit_head;
	s->large_tail = &s->large;
	for (int i = 0; i < LIST_COUNT; i++)
		s->lists[i].prev = s->lists[i].next = &s->lists[i];
	pthread_mutex_init(&s->back_lock, NULL);
	pthread_mutex_init(&s->idle_lock, NULL);
	pthread_condattr_init(&mono);
	pthread_condattr_setclock(&mono, CLOCK_MONOTONIC);
	pthread_cond_init(&s->idle_cond, &mono);
	pthread_condattr_destroy(&mono);
	s->lim.max_headers = s->lim.max_headers < HEAD_LINES_MAX ? s->lim.max_headers : HEAD_LINES_MAX;
	http_parser_set_max_header_size((uint32_t)s->lim.max_header_bytes * 2 + 65536); /* ours come first, as answers */
	tell_time(s);
	s->started_ms = s->now_ms;
	openapi_write(s->version, &s->openapi);
	raise_files(s);
	enum dlq_code code = open_listener(s, o->listen, err);
	if (code == DLQ_OK)
		code = open_tls(s, o, err);
	if (code == DLQ_OK)
		code = open_loop(s, err);
	if (code == DLQ_OK)
		code = start_thread(s, err);
	if (code != DLQ_OK)
		server_free(s);
	else
		*out = s;
	return code;
}

int http_server_port(const struct http_server *s)
{
	return s->port_no;
}

const char *http_server_address(const struct http_server *s)
{
	return s->address;
}

static void ask_to_drain(struct http_server *s)
{
	atomic_fetch_add(&s->in_flight, 1); /* until all are heard */
	if (atomic_exchange(&s->draining, true))
		server_leave(s);
	wake(s);
}

void http_server_drain(struct http_server *s, int64_t ms)
{
	struct timespec until;
	ask_to_drain(s);
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += ms / 1000;
	until.tv_nsec += ms % 1000 * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	pthread_mutex_lock(&s->idle_lock);
	while (atomic_load(&s->in_flight) > 0)
		if (pthread_cond_timedwait(&s->idle_cond, &s->idle_lock, &until) != 0)
			break;
	pthread_mutex_unlock(&s->idle_lock);
}

void http_server_stop(struct http_server *s)
{
	if (!s)
		return;
	ask_to_drain(s);
	atomic_store(&s->stopping, true);
	wake(s);
	pthread_join(s->thread, NULL);
	server_free(s);
}
