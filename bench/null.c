/* dlq-bench-null: a server that does nothing but answer, to find the generator's ceiling.
 * It speaks enough HTTP, RESP and beanstalk to satisfy the workloads send and cycle; every
 * answer is a constant. One thread, one epoll, one recv and one send per batch. Bound to
 * 127.0.0.1; prints "listening on 127.0.0.1:PORT"; ends on SIGTERM. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memmem */
#endif
#include "buf.h"
#include "resp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS = 256, BODY_BYTES = 512 };

/* Answers one request at [p, p+n) into *out; the request's length, 0 if not complete. */
typedef ssize_t answer_fn(const char *p, size_t n, struct buf *out);

static struct buf http_created;
static struct buf http_deliveries;
static struct buf http_settled;
static struct buf redis_entries;
static struct buf beanstalk_job;

static void http_head(struct buf *b, const char *status, size_t length)
{
	buf_addf(b, "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
		 status, length);
}

static void prepare(unsigned batch)
{
	static const char created[] = "{\"id\":\"01ARZ3NDEKTSV4RRFFQ69G5FAV\"}";
	struct buf list = {0};
	char body[BODY_BYTES + 1];

	memset(body, 'x', BODY_BYTES);
	body[BODY_BYTES] = '\0';
	http_head(&http_created, "201 Created", sizeof created - 1);
	buf_add(&http_created, created, sizeof created - 1);
	for (unsigned i = 0; i < batch; i++)
		buf_addf(&list,
			 "%s{\"id\":\"01ARZ3NDEKTSV4RRFFQ69G5FAV\",\"receipt\":"
			 "\"01ARZ3NDEKTSV4RRFFQ69G5FAV.1\",\"attempt\":1,\"body\":\"%s\"}",
			 i ? "," : "{\"deliveries\":[", body);
	buf_add(&list, "]}", 2);
	http_head(&http_deliveries, "200 OK", list.len);
	buf_add(&http_deliveries, list.p, list.len);
	list.len = 0;
	for (unsigned i = 0; i < batch; i++)
		buf_addf(&list, "%s{\"result\":\"done\"}", i ? "," : "{\"results\":[");
	buf_add(&list, "]}", 2);
	http_head(&http_settled, "200 OK", list.len);
	buf_add(&http_settled, list.p, list.len);
	buf_release(&list);
	buf_addf(&redis_entries, "*1\r\n*2\r\n$5\r\nbench\r\n*%u\r\n", batch);
	for (unsigned i = 0; i < batch; i++)
		buf_addf(&redis_entries,
			 "*2\r\n$15\r\n1700000000000-%u\r\n*2\r\n$1\r\nb\r\n$%d\r\n%s\r\n", i % 10,
			 BODY_BYTES, body);
	buf_addf(&beanstalk_job, "RESERVED 1234567 %d\r\n%s\r\n", BODY_BYTES, body);
}

static ssize_t answer_http(const char *p, size_t n, struct buf *out)
{
	const char *end = memmem(p, n, "\r\n\r\n", 4);
	size_t length = 0;

	if (!end)
		return 0;
	for (const char *at = p; at && at < end; at = memchr(at + 1, '\n', (size_t)(end - at)))
		if (!strncasecmp(at, "\ncontent-length:", 16))
			length = strtoul(at + 16, NULL, 10);
	end += 4;
	if (n - (size_t)(end - p) < length)
		return 0;
	const char *eol = memchr(p, '\r', n);
	const struct buf *b = &http_created;
	if (memmem(p, (size_t)(eol - p), "/receive ", 9))
		b = &http_deliveries;
	else if (memmem(p, (size_t)(eol - p), "/settle ", 8))
		b = &http_settled;
	buf_add(out, b->p, b->len);
	return end - p + (ssize_t)length;
}

/* The command is the first string; its second letter tells XADD, XREADGROUP, XGROUP and
 * XACK apart, the third the two A. */
static void see_command(void *arg, unsigned position, const char *p, size_t n)
{
	if (position == 0 && n > 2)
		memcpy(arg, p, 3);
}

static ssize_t answer_redis(const char *p, size_t n, struct buf *out)
{
	char word[3] = "";
	ssize_t used = resp_value(p, n, see_command, word);

	if (used <= 0)
		return used;
	if (!memcmp(word, "XAD", 3))
		buf_add(out, "$15\r\n1700000000000-0\r\n", 22);
	else if (!memcmp(word, "XRE", 3))
		buf_add(out, redis_entries.p, redis_entries.len);
	else if (!memcmp(word, "XAC", 3))
		buf_add(out, ":1\r\n", 4);
	else
		buf_add(out, "+OK\r\n", 5);
	return used;
}

static ssize_t answer_beanstalk(const char *p, size_t n, struct buf *out)
{
	const char *eol = memchr(p, '\n', n);

	if (!eol)
		return 0;
	ssize_t line = eol - p + 1;
	if (*p == 'r') {
		buf_add(out, beanstalk_job.p, beanstalk_job.len);
	} else if (*p == 'd') {
		buf_add(out, "DELETED\r\n", 9);
	} else {
		const char *last = memrchr(p, ' ', (size_t)line);
		ssize_t body = last ? (ssize_t)strtoul(last, NULL, 10) + 2 : 0;
		if ((ssize_t)n < line + body)
			return 0;
		buf_add(out, "INSERTED 1234567\r\n", 18);
		line += body;
	}
	return line;
}

struct peer {
	int fd;
	struct buf in;
};

/* 0 when the peer is gone. Sends block: the generator reads what it asked for. */
static int serve(struct peer *c, answer_fn *answer, struct buf *out)
{
	size_t at = 0;
	ssize_t used = 0;

	buf_reserve(&c->in, 4096);
	ssize_t n = recv(c->fd, c->in.p + c->in.len, c->in.cap - c->in.len, 0);
	if (n <= 0)
		return 0;
	c->in.len += (size_t)n;
	out->len = 0;
	while (at < c->in.len && (used = answer(c->in.p + at, c->in.len - at, out)) > 0)
		at += (size_t)used;
	if (used < 0)
		return 0;
	memmove(c->in.p, c->in.p + at, c->in.len - at);
	c->in.len -= at;
	for (size_t sent = 0; sent < out->len; sent += (size_t)n) {
		n = send(c->fd, out->p + sent, out->len - sent, MSG_NOSIGNAL);
		if (n <= 0)
			return 0;
	}
	return 1;
}

static int listen_on_free_port(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof a;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&a, len) < 0 || listen(fd, 4096) < 0 ||
	    getsockname(fd, (struct sockaddr *)&a, &len) < 0)
		die("cannot listen: %s", strerror(errno));
	printf("listening on 127.0.0.1:%u\n", (unsigned)ntohs(a.sin_port));
	fflush(stdout);
	return fd;
}

static void welcome(int epoll, int listener)
{
	struct peer *c = calloc(1, sizeof *c);
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = c};
	int one = 1;

	if (!c || (c->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) < 0) {
		free(c);
		return;
	}
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &ev);
}

static answer_fn *parse(int argc, char **argv)
{
	unsigned batch = argc == 3 ? (unsigned)strtoul(argv[2], NULL, 10) : 10;

	if (argc < 2 || argc > 3 || !batch || batch > 1000)
		die("usage: dlq-bench-null http|redis|beanstalk [BATCH]");
	prepare(batch);
	if (!strcmp(argv[1], "http"))
		return answer_http;
	if (!strcmp(argv[1], "redis"))
		return answer_redis;
	if (!strcmp(argv[1], "beanstalk"))
		return answer_beanstalk;
	die("unknown protocol %s", argv[1]);
}

int main(int argc, char **argv)
{
	answer_fn *answer = parse(argc, argv);
	int listener = listen_on_free_port();
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = NULL};
	struct epoll_event got[EVENTS];
	struct buf out = {0};

	epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &ev);
	for (;;) {
		int n = epoll_wait(epoll, got, EVENTS, -1);
		for (int i = 0; i < n; i++) {
			struct peer *c = got[i].data.ptr;
			if (!c) {
				welcome(epoll, listener);
			} else if (!serve(c, answer, &out)) {
				close(c->fd);
				buf_release(&c->in);
				free(c);
			}
		}
	}
}
