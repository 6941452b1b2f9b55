/* HTTP/1.1 with keep-alive, for dlq. Only what the benchmark meets: replies with a
 * Content-Length; the body is looked at on `receive` and when pages are followed. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memmem */
#endif
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Room in front of a body built in conn.work, for the head written afterwards. */
enum { HEAD_ROOM = 512 };

static struct buf send_request;
static struct buf receive_request;
static struct buf get_request;
static char settle_head[HEAD_ROOM];
static const char *error_object[2] = {"", ""};

static void add_head(struct buf *b, const struct options *o, const char *path, const char *type,
		     size_t length)
{
	buf_addf(b, "POST /v1/queues/%s/%s HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer %s\r\n"
		    "Content-Type: %s\r\nContent-Length: %zu\r\n\r\n",
		 o->queue, path, o->token, type, length);
}

static void http_init(const struct options *o, const char *body)
{
	struct buf lines = {0};

	if (o->work == WORK_SEND) {
		add_head(&send_request, o, "messages", "application/octet-stream", o->body_bytes);
		buf_add(&send_request, body, o->body_bytes);
		return;
	}
	if (o->work == WORK_GET) {
		buf_addf(&get_request,
			 "GET %s HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer %s\r\n\r\n",
			 o->path, o->token);
		return;
	}
	for (unsigned i = 0; i < o->batch; i++)
		if (o->tenants)
			buf_addf(&lines, "{\"headers\":{\"tenant\":\"t%u\"},\"body\":\"{\\\"n\\\":%u,\\\"pad\\\":\\\"%.*s\\\"}\"}\n",
				 i % o->tenants, i, (int)(o->body_bytes > 32 ? o->body_bytes - 20 : o->body_bytes), body);
		else
			buf_addf(&lines, "{\"body\":\"%.*s\"}\n", (int)o->body_bytes, body);
	add_head(&send_request, o, "batch", "application/x-ndjson", lines.len);
	buf_add(&send_request, lines.p, lines.len);
	lines.len = 0;
	buf_addf(&lines, "{\"max\":%u,\"wait\":\"0s\"}", o->batch);
	add_head(&receive_request, o, "receive", "application/json", lines.len);
	buf_add(&receive_request, lines.p, lines.len);
	buf_release(&lines);
	int n = snprintf(settle_head, sizeof settle_head,
			 "POST /v1/queues/%s/settle HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer "
			 "%s\r\nContent-Type: application/json\r\nContent-Length: ",
			 o->queue, o->token);
	if (n < 0 || n > HEAD_ROOM - 16)
		die("queue name and token are too long");
	if (o->work == WORK_FILL) {
		error_object[0] = "\",\"outcome\":\"permanent\",\"error\":{\"type\":\"BenchError";
		error_object[1] = "\",\"message\":\"the field address.street is missing\"}}";
	}
}

static void point_at(struct conn *c, const struct buf *b)
{
	c->out = b->p;
	c->out_left = b->len;
}

/* Puts the head in front of the settle results that the receive reply left in c->work. */
static void finish_settle(struct conn *c)
{
	char head[HEAD_ROOM];

	buf_add(&c->work, "]}", 2);
	int n = snprintf(head, sizeof head, "%s%zu\r\n\r\n", settle_head, c->work.len - HEAD_ROOM);
	if (n < 0 || n >= HEAD_ROOM)
		die("settle head does not fit");
	memcpy(c->work.p + HEAD_ROOM - n, head, (size_t)n);
	c->out = c->work.p + HEAD_ROOM - n;
	c->out_left = c->work.len - HEAD_ROOM + (size_t)n;
}

static unsigned http_next(const struct options *o, struct conn *c)
{
	if (o->work == WORK_GET) {
		point_at(c, c->work.len ? &c->work : &get_request);
		return 1;
	}
	switch (c->step) {
	case STEP_SEND:
		point_at(c, &send_request);
		return 1;
	case STEP_RECEIVE:
		point_at(c, &receive_request);
		return 1;
	default:
		if (!c->held)
			return 0;
		finish_settle(c);
		return 1;
	}
}

/* Writes one settle result per receipt found in the reply's body. The bodies sent hold no
 * quote, so the key cannot occur inside one. */
static void collect_receipts(const struct options *o, struct conn *c, const char *p, size_t n)
{
	static const char key[] = "\"receipt\":";
	const char *end = p + n;

	c->held = 0;
	c->work.len = 0;
	buf_reserve(&c->work, HEAD_ROOM);
	c->work.len = HEAD_ROOM;
	buf_add(&c->work, "{\"results\":[", 12);
	while ((p = memmem(p, (size_t)(end - p), key, sizeof key - 1))) {
		const char *from = memchr(p + sizeof key - 1, '"', (size_t)(end - p) - sizeof key + 1);
		const char *to = from ? memchr(from + 1, '"', (size_t)(end - from) - 1) : NULL;
		if (!to)
			break;
		if (c->held++)
			buf_add(&c->work, ",", 1);
		buf_add(&c->work, "{\"receipt\":\"", 12);
		buf_add(&c->work, from + 1, (size_t)(to - from) - 1);
		if (o->work == WORK_FILL)
			buf_addf(&c->work, "%s%u%s", error_object[0],
				 (unsigned)(c->serial++ % o->causes), error_object[1]);
		else
			buf_add(&c->work, "\",\"outcome\":\"ok\"}", 17);
		p = to;
	}
}

/* Makes the request for the page after this one; none left: starts over at the first. */
static void follow_cursor(const struct options *o, struct conn *c, const char *p, size_t n)
{
	static const char key[] = "\"next\":";
	const char *end = p + n;
	const char *from = memmem(p, n, key, sizeof key - 1);

	c->work.len = 0;
	from = from ? from + sizeof key - 1 : NULL;
	if (!from || from == end || *from != '"')
		return; /* null: this was the last one */
	from++;
	const char *to = memchr(from, '"', (size_t)(end - from));
	if (to)
		buf_addf(&c->work,
			 "GET %s%ccursor=%.*s HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer %s\r\n\r\n",
			 o->path, strchr(o->path, '?') ? '&' : '?', (int)(to - from), from, o->token);
}

/* The length the head announces, -1 when it announces none. */
static ssize_t content_length(const char *p, const char *end)
{
	static const char name[] = "content-length:";

	for (; p; p = memchr(p, '\n', (size_t)(end - p)), p = p ? p + 1 : NULL) {
		if ((size_t)(end - p) < sizeof name - 1)
			break;
		if ((*p | 0x20) != 'c' || strncasecmp(p, name, sizeof name - 1))
			continue;
		ssize_t v = 0;
		for (p += sizeof name - 1; *p == ' '; p++)
			;
		for (; *p >= '0' && *p <= '9' && v < 1 << 28; p++)
			v = v * 10 + (*p - '0');
		return v;
	}
	return -1;
}

/* How often the quoted word stands in [p, p+n). */
static unsigned count_word(const char *p, size_t n, const char *word)
{
	const char *end = p + n;
	size_t len = strlen(word);
	unsigned times = 0;

	for (; (p = memmem(p, (size_t)(end - p), word, len)); p += len)
		times++;
	return times;
}

/* Only what docs/api.md calls full success is good: 201 for messages stored, and on settle
 * one "done" or "dead" for every receipt. */
static void judge(const struct options *o, struct conn *c, unsigned status, const char *p,
		  size_t n, struct reply *r)
{
	bool stores = o->work != WORK_GET && c->step == STEP_SEND;

	r->ok = stores ? status == 201 : status == 200;
	if (!r->ok)
		snprintf(r->label, sizeof r->label, "%u", status);
	if (c->step == STEP_RECEIVE) {
		c->held = 0;
		if (r->ok)
			collect_receipts(o, c, p, n);
	} else if (c->step == STEP_SETTLE) {
		if (r->ok)
			r->messages = count_word(p, n, o->work == WORK_FILL ? "\"dead\"" : "\"done\"");
		if (r->ok && r->messages < c->held) {
			r->ok = false;
			snprintf(r->label, sizeof r->label, "not settled");
		}
		c->held = 0;
	} else if (r->ok && (o->work == WORK_SEND || o->work == WORK_GET)) {
		r->messages = 1;
		if (o->follow)
			follow_cursor(o, c, p, n);
	}
}

static ssize_t http_reply(const struct options *o, struct conn *c, const char *p, size_t n,
			  struct reply *r)
{
	const char *head_end = memmem(p, n, "\r\n\r\n", 4);

	if (!head_end)
		return n > 1 << 16 ? -1 : 0;
	if (memcmp(p, "HTTP/1.1 ", 9) != 0)
		return -1;
	head_end += 4;
	ssize_t length = content_length(p, head_end);
	if (length < 0)
		return -1;
	if (n - (size_t)(head_end - p) < (size_t)length)
		return 0;
	judge(o, c, (unsigned)strtoul(p + 9, NULL, 10), head_end, (size_t)length, r);
	return head_end - p + length;
}

const struct driver driver_http = {
	.name = "http", .init = http_init, .next = http_next, .reply = http_reply};
