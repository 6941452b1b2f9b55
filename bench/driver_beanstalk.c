/* beanstalkd: put, reserve-with-timeout, delete. */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct buf put_request;
static struct buf reserve_request;

static void beanstalk_init(const struct options *o, const char *body)
{
	unsigned times = o->work == WORK_CYCLE ? o->batch : 1;

	if (o->work != WORK_SEND && o->work != WORK_CYCLE)
		die("beanstalk has the workloads send and cycle");
	for (unsigned i = 0; i < times; i++) {
		buf_addf(&put_request, "put 0 0 60 %u\r\n", o->body_bytes);
		buf_add(&put_request, body, o->body_bytes);
		buf_add(&put_request, "\r\n", 2);
		buf_addf(&reserve_request, "reserve-with-timeout 0\r\n");
	}
}

static unsigned beanstalk_next(const struct options *o, struct conn *c)
{
	unsigned times = o->work == WORK_CYCLE ? o->batch : 1;
	const struct buf *b = &put_request;

	if (c->step == STEP_RECEIVE) {
		c->held = 0;
		c->work.len = 0;
		b = &reserve_request;
	} else if (c->step == STEP_SETTLE) {
		b = &c->work;
		times = c->held;
	}
	c->out = b->p;
	c->out_left = b->len;
	return times;
}

/* RESERVED <id> <bytes>: adds the delete of the job. Returns the bytes after the line, -1
 * when the line makes no sense. */
static long take_job(struct conn *c, const char *line)
{
	char *end;
	unsigned long id = strtoul(line + 9, &end, 10);
	long bytes = strtol(end, &end, 10);

	if (bytes < 0 || *end != '\r')
		return -1;
	buf_addf(&c->work, "delete %lu\r\n", id);
	c->held++;
	return bytes + 2;
}

static ssize_t beanstalk_reply(const struct options *o, struct conn *c, const char *p, size_t n,
			       struct reply *r)
{
	static const char *good[] = {"INSERTED ", "RESERVED ", "DELETED\r"};
	const char *eol = memchr(p, '\n', n);

	if (!eol)
		return n > 4096 ? -1 : 0;
	size_t line = (size_t)(eol - p) + 1;
	r->ok = line > 9 ? strncmp(p, good[c->step], 9) == 0 : strncmp(p, good[c->step], 8) == 0;
	if (!r->ok) {
		snprintf(r->label, sizeof r->label, "%.*s", (int)strcspn(p, " \r\n"), p);
		return (ssize_t)line;
	}
	if (c->step == STEP_RECEIVE) {
		size_t len = c->work.len;
		long body = take_job(c, p);
		if (body < 0)
			return -1;
		if (n - line < (size_t)body) {
			c->work.len = len;
			c->held--;
			return 0;
		}
		return (ssize_t)line + body;
	}
	r->messages = o->work == WORK_SEND || c->step == STEP_SETTLE ? 1 : 0;
	return (ssize_t)line;
}

const struct driver driver_beanstalk = {.name = "beanstalk",
					.init = beanstalk_init,
					.next = beanstalk_next,
					.reply = beanstalk_reply};
