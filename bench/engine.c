/* Per request: one send, one recv, a share of one epoll_wait. Clocks are read once per
 * batch sent and once per batch answered. */
#include "engine.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS = 256, RECV_ROOM = 4096, DRAIN_SECONDS = 10, CONNECT_SECONDS = 30 };

static const uint64_t SECOND = 1000000000u;

struct engine {
	const struct options *o;
	const struct driver *d;
	struct figures *f;
	struct conn *conns;
	int epoll;
	unsigned up;          /* connections that stand */
	unsigned busy;        /* connections that wait for replies */
	unsigned steps;       /* of the workload */
	bool measuring;
	bool stopping;
	uint64_t issued;      /* messages or requests started, against o->count */
	uint64_t start_ns;    /* of the measured time */
	uint64_t last_ns;     /* last good reply */
	double cpu_start;
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

static double cpu_seconds(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void count_error(struct engine *e, const char *label)
{
	struct figures *f = e->f;
	unsigned i = 0;

	if (!e->measuring)
		return;
	f->errors_total++;
	while (i < ERROR_KINDS - 1 && f->errors[i].count && strcmp(f->errors[i].label, label))
		i++;
	if (!f->errors[i].count)
		snprintf(f->errors[i].label, sizeof f->errors[i].label, "%s", label);
	f->errors[i].count++;
}

static void watch(struct engine *e, struct conn *c, int op, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.ptr = c};

	if (epoll_ctl(e->epoll, op, c->fd, &ev) < 0)
		die("epoll_ctl: %s", strerror(errno));
}

static void conn_open(struct engine *e, struct conn *c)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(e->o->port)};
	int one = 1;

	if (inet_pton(AF_INET, e->o->host, &a.sin_addr) != 1)
		die("not an IPv4 address: %s", e->o->host);
	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		die("socket: %s", strerror(errno));
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	if (connect(c->fd, (struct sockaddr *)&a, sizeof a) < 0 && errno != EINPROGRESS)
		die("connect: %s", strerror(errno));
	c->want_write = true;
	watch(e, c, EPOLL_CTL_ADD, EPOLLIN | EPOLLOUT);
}

/* The server hung up, or spoke nonsense: count it and start afresh on a new connection. */
static void conn_lost(struct engine *e, struct conn *c, const char *why)
{
	count_error(e, why);
	if (!c->up && !e->up && !e->measuring)
		die("cannot connect to %s:%u: %s", e->o->host, (unsigned)e->o->port, why);
	close(c->fd);
	c->fd = -1;
	e->up -= c->up;
	e->busy -= c->busy;
	c->up = c->busy = false;
	c->in.len = c->in_at = 0;
	c->step = STEP_SEND;
	if (e->f->errors_total > 100u * e->o->connections)
		die("gave up: the server keeps closing connections (%s)", why);
	if (!e->stopping)
		conn_open(e, c);
}

/* Writes what is left of the batch; arms EPOLLOUT when the socket is full. */
static void conn_flush(struct engine *e, struct conn *c)
{
	while (c->out_left) {
		ssize_t n = send(c->fd, c->out, c->out_left, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0) {
			conn_lost(e, c, "reset");
			return;
		}
		c->out += n;
		c->out_left -= (size_t)n;
	}
	bool want = c->out_left > 0;
	if (want != c->want_write) {
		c->want_write = want;
		watch(e, c, EPOLL_CTL_MOD, want ? EPOLLIN | EPOLLOUT : EPOLLIN);
	}
}

/* Claims a share of o->count for one round of the ring; false when all is given out. */
static bool claim_round(struct engine *e)
{
	const struct options *o = e->o;
	uint64_t share = o->work == WORK_CYCLE || o->work == WORK_FILL ? o->batch : 1;

	if (e->stopping || (o->count && e->issued >= o->count))
		return false;
	e->issued += share;
	return true;
}

/* Sends the next batch of the connection, or leaves it idle at the end of the work. */
static void conn_next(struct engine *e, struct conn *c)
{
	unsigned replies = 0;

	if (c->step == STEP_SEND) {
		if (!claim_round(e))
			return;
		replies = e->d->next(e->o, c);
	} else if (!(e->stopping && e->o->seconds > 0)) {
		replies = e->d->next(e->o, c);
	}
	if (!replies && c->step != STEP_SEND) {
		c->step = STEP_SEND;
		conn_next(e, c);
		return;
	}
	if (!replies)
		return;
	c->expected = replies;
	c->failed = false;
	c->busy = true;
	e->busy++;
	c->sent_ns = now_ns();
	conn_flush(e, c);
}

/* A reply counts while the time runs; in the drain only its latency is kept, so that a
 * request stuck at the end still shows. */
static void take_reply(struct engine *e, struct conn *c, const struct reply *r)
{
	c->expected--;
	if (!r->ok) {
		c->failed = true;
		count_error(e, r->label);
	}
	if (e->measuring && !e->stopping) {
		e->f->requests++;
		e->f->messages += r->messages;
	}
}

static void batch_done(struct engine *e, struct conn *c)
{
	uint64_t now = now_ns();

	c->busy = false;
	e->busy--;
	if (!c->failed && e->measuring) {
		hist_add(&e->f->latency, now - c->sent_ns);
		if (!e->stopping && now - e->last_ns > e->f->longest_gap_ns)
			e->f->longest_gap_ns = now - e->last_ns;
		if (!e->stopping)
			e->last_ns = now;
	}
	c->step = (c->step + 1) % e->steps;
	conn_next(e, c);
}

static void conn_readable(struct engine *e, struct conn *c)
{
	buf_reserve(&c->in, RECV_ROOM);
	ssize_t n = recv(c->fd, c->in.p + c->in.len, c->in.cap - c->in.len, 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		conn_lost(e, c, n == 0 ? "closed" : "reset");
		return;
	}
	c->in.len += (size_t)n;
	/* Grow once the window is full, so that a long reply takes few system calls. */
	if (c->in.len == c->in.cap)
		buf_reserve(&c->in, c->in.cap);
	while (c->busy && c->expected) {
		struct reply r = {0};
		ssize_t used = e->d->reply(e->o, c, c->in.p + c->in_at, c->in.len - c->in_at, &r);
		if (used == 0)
			return;
		if (used < 0) {
			conn_lost(e, c, "nonsense");
			return;
		}
		c->in_at += (size_t)used;
		take_reply(e, c, &r);
	}
	if (!c->busy)
		return;
	if (c->in_at != c->in.len) {
		conn_lost(e, c, "nonsense");
		return;
	}
	c->in.len = c->in_at = 0;
	batch_done(e, c);
}

static void conn_established(struct engine *e, struct conn *c)
{
	int err = 0;
	socklen_t len = sizeof err;

	getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &len);
	if (err) {
		conn_lost(e, c, err == ECONNREFUSED ? "refused" : "reset");
		return;
	}
	c->up = true;
	e->up++;
	c->want_write = false;
	watch(e, c, EPOLL_CTL_MOD, EPOLLIN);
}

/* Handles what is ready, waiting at most until `until_ns`. `go`: connections that come up
 * start to work at once. */
static void turn(struct engine *e, uint64_t until_ns, bool go)
{
	struct epoll_event ev[EVENTS];
	uint64_t now = now_ns();
	int wait = now >= until_ns ? 0 : (int)((until_ns - now + 999999) / 1000000);
	int n = epoll_wait(e->epoll, ev, EVENTS, wait);

	if (n < 0 && errno != EINTR)
		die("epoll_wait: %s", strerror(errno));
	for (int i = 0; i < n; i++) {
		struct conn *c = ev[i].data.ptr;
		if (!c->up) {
			conn_established(e, c);
			if (c->up && go)
				conn_next(e, c);
			continue;
		}
		if (ev[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
			conn_readable(e, c);
		if (c->up && c->want_write)
			conn_flush(e, c);
	}
}

static void connect_all(struct engine *e)
{
	uint64_t t0 = now_ns();

	for (unsigned i = 0; i < e->o->connections; i++) {
		e->conns[i] = (struct conn){.fd = -1, .index = i};
		conn_open(e, &e->conns[i]);
	}
	while (e->up < e->o->connections) {
		if (now_ns() - t0 > CONNECT_SECONDS * SECOND)
			die("only %u of %u connections stood after %d s", e->up, e->o->connections,
			    CONNECT_SECONDS);
		turn(e, t0 + CONNECT_SECONDS * SECOND, false);
	}
	e->f->connect_seconds = (double)(now_ns() - t0) / 1e9;
}

static void start_measuring(struct engine *e)
{
	e->measuring = true;
	e->start_ns = e->last_ns = now_ns();
	e->cpu_start = cpu_seconds();
}

static void stop_measuring(struct engine *e)
{
	uint64_t now = now_ns();
	bool by_count = e->o->seconds <= 0;

	if (by_count && e->f->latency.count)
		now = e->last_ns;
	else if (now - e->last_ns > e->f->longest_gap_ns)
		e->f->longest_gap_ns = now - e->last_ns;
	e->f->elapsed = (double)(now - e->start_ns) / 1e9;
	e->f->cpu_seconds = cpu_seconds() - e->cpu_start;
	e->stopping = true;
}

static void work(struct engine *e)
{
	const struct options *o = e->o;
	uint64_t t0 = now_ns();
	uint64_t warm = t0 + (uint64_t)(o->warmup * 1e9);
	uint64_t end = o->seconds > 0 ? warm + (uint64_t)(o->seconds * 1e9) : UINT64_MAX;

	if (o->warmup <= 0)
		start_measuring(e);
	for (unsigned i = 0; i < o->connections; i++)
		if (e->conns[i].up && !e->conns[i].busy)
			conn_next(e, &e->conns[i]);
	for (;;) {
		uint64_t now = now_ns();
		if (!e->measuring && now >= warm)
			start_measuring(e);
		if (now >= end || (!e->busy && e->up == o->connections))
			break;
		uint64_t until = e->measuring ? end : warm;
		turn(e, until < now + SECOND ? until : now + SECOND, true);
	}
	stop_measuring(e);
	uint64_t drained = now_ns() + DRAIN_SECONDS * SECOND;
	while (e->busy && now_ns() < drained)
		turn(e, drained, false);
	e->f->unanswered = e->busy;
}

void engine_run(const struct options *o, const struct driver *d, struct figures *f)
{
	struct engine e = {.o = o, .d = d, .f = f};

	e.steps = o->work == WORK_CYCLE || o->work == WORK_FILL ? 3 : 1;
	e.epoll = epoll_create1(EPOLL_CLOEXEC);
	e.conns = calloc(o->connections, sizeof *e.conns);
	if (e.epoll < 0 || !e.conns)
		die("cannot start: %s", strerror(errno));
	connect_all(&e);
	work(&e);
	for (unsigned i = 0; i < o->connections; i++) {
		if (e.conns[i].fd >= 0)
			close(e.conns[i].fd);
		buf_release(&e.conns[i].in);
		buf_release(&e.conns[i].work);
	}
	free(e.conns);
	close(e.epoll);
}
