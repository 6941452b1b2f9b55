/* RESP2, for Redis Streams: XADD, XREADGROUP, XACK. */
#include "driver.h"
#include "resp.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct buf add_request;

static void add_bulk(struct buf *b, const void *p, size_t n)
{
	buf_addf(b, "$%zu\r\n", n);
	buf_add(b, p, n);
	buf_add(b, "\r\n", 2);
}

static void add_word(struct buf *b, const char *word)
{
	add_bulk(b, word, strlen(word));
}

/* Creates the consumer group and the stream, once, over a connection of its own. */
static void create_group(const struct options *o)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(o->port)};
	struct buf b = {0};
	char answer[256] = "";
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	inet_pton(AF_INET, o->host, &a.sin_addr);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a) < 0)
		die("redis: cannot connect");
	buf_addf(&b, "*6\r\n");
	add_word(&b, "XGROUP");
	add_word(&b, "CREATE");
	add_word(&b, o->queue);
	add_word(&b, "g");
	add_word(&b, "$");
	add_word(&b, "MKSTREAM");
	if (send(fd, b.p, b.len, MSG_NOSIGNAL) != (ssize_t)b.len ||
	    recv(fd, answer, sizeof answer - 1, 0) <= 0)
		die("redis: no answer");
	if (strncmp(answer, "+OK", 3) != 0 && strncmp(answer, "-BUSYGROUP", 10) != 0)
		die("redis: %s", answer);
	buf_release(&b);
	close(fd);
}

static void redis_init(const struct options *o, const char *body)
{
	unsigned times = o->work == WORK_CYCLE ? o->batch : 1;

	if (o->work != WORK_SEND && o->work != WORK_CYCLE)
		die("redis has the workloads send and cycle");
	for (unsigned i = 0; i < times; i++) {
		buf_addf(&add_request, "*5\r\n");
		add_word(&add_request, "XADD");
		add_word(&add_request, o->queue);
		add_word(&add_request, "*");
		add_word(&add_request, "b");
		add_bulk(&add_request, body, o->body_bytes);
	}
	if (o->work == WORK_CYCLE)
		create_group(o);
}

static unsigned build_read(const struct options *o, struct conn *c)
{
	unsigned times = o->read_each ? o->batch : 1;
	char consumer[16];
	char count[16];

	snprintf(consumer, sizeof consumer, "c%u", c->index);
	snprintf(count, sizeof count, "%u", o->read_each ? 1 : o->batch);
	c->work.len = 0;
	for (unsigned i = 0; i < times; i++) {
		buf_addf(&c->work, "*9\r\n$10\r\nXREADGROUP\r\n$5\r\nGROUP\r\n$1\r\ng\r\n");
		add_word(&c->work, consumer);
		buf_addf(&c->work, "$5\r\nCOUNT\r\n");
		add_word(&c->work, count);
		buf_addf(&c->work, "$7\r\nSTREAMS\r\n");
		add_word(&c->work, o->queue);
		buf_addf(&c->work, "$1\r\n>\r\n");
	}
	c->out = c->work.p;
	c->out_left = c->work.len;
	return times;
}

/* The receive replies left the XACK parts in c->in order in c->work behind the read
 * request; `serial` says where they begin. */
static unsigned finish_acks(const struct options *o, struct conn *c)
{
	unsigned held = c->held;

	if (!held)
		return 0;
	if (o->ack_one) {
		struct buf head = {0};
		buf_addf(&head, "*%u\r\n$4\r\nXACK\r\n", held + 3);
		add_word(&head, o->queue);
		buf_addf(&head, "$1\r\ng\r\n");
		buf_add(&head, c->work.p + c->serial, c->work.len - c->serial);
		buf_release(&c->work);
		c->work = head;
		c->serial = 0;
	}
	c->out = c->work.p + c->serial;
	c->out_left = c->work.len - c->serial;
	c->held = 0;
	return o->ack_one ? 1 : held;
}

static unsigned redis_next(const struct options *o, struct conn *c)
{
	switch (c->step) {
	case STEP_SEND:
		c->out = add_request.p;
		c->out_left = add_request.len;
		return o->work == WORK_CYCLE ? o->batch : 1;
	case STEP_RECEIVE:
		build_read(o, c);
		c->serial = c->work.len;
		return o->read_each ? o->batch : 1;
	default:
		return finish_acks(o, c);
	}
}

struct taking {
	const struct options *o;
	struct conn *c;
};

/* XREADGROUP answers [[stream, [[id, [field, value]], ...]]]: in the flat order of strings
 * the ids are those at 1, 4, 7, ... */
static void take_id(void *arg, unsigned position, const char *p, size_t n)
{
	const struct taking *t = arg;
	struct buf *b = &t->c->work;

	if (position % 3 != 1)
		return;
	t->c->held++;
	if (!t->o->ack_one) {
		buf_addf(b, "*4\r\n$4\r\nXACK\r\n");
		add_word(b, t->o->queue);
		buf_addf(b, "$1\r\ng\r\n");
	}
	add_bulk(b, p, n);
}

static ssize_t redis_reply(const struct options *o, struct conn *c, const char *p, size_t n,
			   struct reply *r)
{
	struct taking t = {o, c};
	unsigned held = c->held;
	size_t len = c->work.len;
	ssize_t used = resp_value(p, n, c->step == STEP_RECEIVE ? take_id : NULL, &t);

	if (used <= 0) {
		c->held = held;
		c->work.len = len;
		return used;
	}
	r->ok = *p != '-';
	if (!r->ok) {
		size_t word = strcspn(p + 1, " \r\n");
		snprintf(r->label, sizeof r->label, "%.*s", (int)word, p + 1);
	} else if (o->work == WORK_SEND) {
		r->messages = 1;
	} else if (c->step == STEP_SETTLE) {
		for (const char *digit = p + 1; *digit >= '0' && *digit <= '9'; digit++)
			r->messages = r->messages * 10 + (unsigned)(*digit - '0');
	}
	return used;
}

const struct driver driver_redis = {
	.name = "redis", .init = redis_init, .next = redis_next, .reply = redis_reply};
