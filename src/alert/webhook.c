/*
 * webhook.c - sink.h over HTTP: POST of the JSON document, 2xx is told, anything else is an error text.
 *
 * A struct hook_call belongs to the sender until net_submit, then to the net thread, which frees it.
 */
#include <stdio.h>
#include <string.h>

#include "alert/sink.h"
#include "base/clock.h"
#include "net/gate.h"
#include "net/net.h"

#define HOOK_TIMEOUT_MS 30000
#define HOOK_RETRY_MAX_MS ((int64_t)24 * 3600 * 1000)

struct webhook {
	struct sink base; /* first */
	struct net_loop *loop;
	struct net_gate gate;
	struct clock *clock; /* wall time for Retry-After dates */
};

struct hook_call {
	struct net_request r; /* first */
	struct webhook *w;
	struct sink_note *note;
	struct str headers[2];
	struct arena arena;
};

/* "503: first line of the body", cut at what the note holds, control characters as spaces. */
static void error_text(const struct net_request *r, struct sink_note *note)
{
	struct str body = str_trim(buf_str(&r->body_out));
	int n = snprintf(note->error, sizeof(note->error), "HTTP %d", r->status);
	size_t i;

	if (body.n == 0 || body.p[0] == '<')
		return;
	n += snprintf(note->error + n, sizeof(note->error) - (size_t)n, ": ");
	for (i = 0; i < body.n && body.p[i] != '\n' && (size_t)n + 1 < sizeof(note->error); i++)
		note->error[n++] = (unsigned char)body.p[i] < 0x20 || body.p[i] == 0x7f ? ' ' : body.p[i];
	/* Not half a character at the end. */
	while (i < body.n && n > 0 && ((unsigned char)body.p[i] & 0xc0) == 0x80) {
		i--;
		n--;
	}
	note->error[n] = 0;
}

static void on_done(struct net_request *r)
{
	struct hook_call *c = (struct hook_call *)r;
	struct webhook *w = c->w;
	struct sink_note *note = c->note;

	note->ok = r->status >= 200 && r->status <= 299;
	note->error[0] = 0;
	note->retry_after_ms = 0;
	if (r->status == 0)
		snprintf(note->error, sizeof(note->error), "%s: %.150s", net_fail_name(r->fail), r->error);
	else if (!note->ok)
		error_text(r, note);
	if (r->status && !note->ok)
		note->retry_after_ms = net_retry_after_ms(net_header(r, "Retry-After"), net_header(r, "Date"),
							  clock_wall_ms(w->clock), HOOK_RETRY_MAX_MS);
	note->done(note);
	net_request_release(r);
	arena_release(&c->arena);
	mem_free(c);
	gate_leave(&w->gate);
}

static enum dlq_code hook_send(struct sink *base, struct sink_note *note, struct dlq_err *err)
{
	struct webhook *w = (struct webhook *)base;
	struct hook_call *c;
	enum dlq_code code = gate_enter(&w->gate, "webhook", err);

	if (code)
		return code;
	c = mem_alloc(sizeof(*c));
	c->w = w;
	c->note = note;
	c->headers[0] = STR("Content-Type: application/json");
	c->headers[1] = arena_fmt(&c->arena, "Dlq-Notification-Id: " STR_FMT, STR_ARG(note->id));
	c->r.url = arena_str(&c->arena, note->url).p;
	c->r.body = note->json;
	c->r.headers = c->headers;
	c->r.n_headers = 2;
	c->r.timeout_ms = HOOK_TIMEOUT_MS;
	c->r.done = on_done;
	c->r.user = w;
	net_submit(w->loop, &c->r);
	return DLQ_OK;
}

static bool is_ours(const struct net_request *r, void *arg)
{
	return r->done == on_done && r->user == arg;
}

static void hook_stop(struct sink *base, int64_t deadline_ms)
{
	struct webhook *w = (struct webhook *)base;

	gate_close(&w->gate);
	if (gate_wait(&w->gate, deadline_ms > 0 ? deadline_ms : 0))
		return;
	net_abort(w->loop, is_ours, w);
	gate_wait(&w->gate, -1);
}

static void hook_free(struct sink *base)
{
	struct webhook *w = (struct webhook *)base;

	if (!w)
		return;
	gate_release(&w->gate);
	clock_free(w->clock);
	mem_free(w);
}

static const struct sink_ops hook_ops = {.name = "webhook", .send = hook_send, .stop = hook_stop, .free = hook_free};

struct sink *sink_webhook_new(struct net_loop *loop, int max_active)
{
	struct webhook *w = mem_alloc(sizeof(*w));

	w->base.ops = &hook_ops;
	w->loop = loop;
	w->clock = clock_real_new();
	gate_init(&w->gate, max_active);
	return &w->base;
}
