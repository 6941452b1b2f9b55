/*
 * http_push.c - handler.h over HTTP: the worker is a URL, one message is one POST.
 *
 * A struct push_call belongs to the starter until net_submit, then to the net thread, which frees it.
 */
#include <jansson.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "handler/handler.h"
#include "handler/outcome.h"
#include "net/gate.h"

#define OWN_HEADERS 6

struct http_handler {
	struct handler base; /* first */
	struct net_loop *loop;
	struct net_gate gate;
	struct clock *clock; /* wall time for Retry-After dates */
};

struct push_call {
	struct net_request r; /* first */
	struct http_handler *h;
	struct handler_call *call;
	struct arena arena;
};

/* Headers of a message that are about a connection, or ours, and so never go out as the message has them. */
static bool header_is_ours(const char *name)
{
	static const char *const ours[] = {
	    "Host", "Content-Length", "Content-Type", "Transfer-Encoding", "Connection", "Keep-Alive", "Proxy-Connection",
	    "Proxy-Authenticate", "Proxy-Authorization", "TE", "Trailer", "Upgrade", "Expect",
	};

	for (size_t i = 0; i < ARRAY_LEN(ours); i++)
		if (strcasecmp(name, ours[i]) == 0)
			return true;
	return strncasecmp(name, "Dlq-", 4) == 0;
}

/* line must be one that can be sent; name is what the error calls it. */
static enum dlq_code header_add(struct push_call *pc, const char *name, struct str line, struct dlq_err *err)
{
	const char *why = net_header_check(line);

	if (why)
		return err_set(err, DLQ_BAD_REQUEST, "header %.100s cannot be sent to the worker: %s", name, why);
	pc->r.headers[pc->r.n_headers++] = line;
	return DLQ_OK;
}

static enum dlq_code message_headers(struct push_call *pc, json_t *map, struct dlq_err *err)
{
	const char *name;
	json_t *value;
	enum dlq_code code = DLQ_OK;

	json_object_foreach(map, name, value) {
		struct str v = {json_string_value(value), json_string_length(value)};
		struct buf b = {0};

		if (header_is_ours(name))
			continue;
		if (!json_is_string(value))
			return err_set(err, DLQ_BAD_REQUEST, "header %.100s cannot be sent to the worker: it is not text", name);
		buf_addz(&b, name);
		buf_addz(&b, ": ");
		buf_adds(&b, v);
		code = header_add(pc, name, arena_str(&pc->arena, buf_str(&b)), err);
		buf_release(&b);
		if (code)
			break;
	}
	return code;
}

static struct str line_of(struct push_call *pc, const char *name, struct str value)
{
	struct buf b = {0};
	struct str line;

	buf_addz(&b, name);
	buf_addz(&b, ": ");
	buf_adds(&b, value);
	line = arena_str(&pc->arena, buf_str(&b)); /* not by a format: a value may hold NUL, which the check must see */
	buf_release(&b);
	return line;
}

static enum dlq_code build_headers(struct push_call *pc, struct dlq_err *err)
{
	const struct store_delivery *d = pc->call->d;
	struct arena *a = &pc->arena;
	json_t *map = NULL;
	json_error_t je;
	enum dlq_code code = DLQ_OK;
	struct { const char *name; struct str value; } own[OWN_HEADERS] = {
	    {"Content-Type", d->content_type.n ? d->content_type : STR("application/octet-stream")},
	    {"Dlq-Id", d->id},
	    {"Dlq-Queue", pc->call->queue},
	    {"Dlq-Attempt", arena_fmt(a, "%d", d->attempts + 1)},
	    {"Dlq-Redrive", arena_fmt(a, "%d", d->redrives)},
	    {"Dlq-Key", d->key},
	};

	if (d->headers.n > 0) {
		map = json_loadb(d->headers.p, d->headers.n, JSON_ALLOW_NUL, &je);
		if (!json_is_object(map)) {
			code = err_set(err, DLQ_BAD_REQUEST, "the message's headers are not a JSON object of strings");
			goto out;
		}
	}
	pc->r.headers = arena_alloc(a, (OWN_HEADERS + json_object_size(map)) * sizeof(struct str));
	for (int i = 0; i < OWN_HEADERS && !code; i++)
		if (own[i].value.n > 0)
			code = header_add(pc, own[i].name, line_of(pc, own[i].name, own[i].value), err);
	if (!code && map)
		code = message_headers(pc, map, err);
out:
	json_decref(map);
	return code;
}

static void call_free(struct push_call *pc)
{
	net_request_release(&pc->r);
	arena_release(&pc->arena);
	mem_free(pc);
}

static void on_done(struct net_request *r)
{
	struct push_call *pc = (struct push_call *)r;
	struct http_handler *h = pc->h;
	struct handler_call *call = pc->call;
	struct push_verdict v;

	push_verdict(r, clock_wall_ms(h->clock), &pc->arena, &v);
	call->outcome = v.outcome;
	call->failure = v.failure;
	call->retry_after_ms = v.retry_after_ms;
	call->done(call);
	call_free(pc);
	gate_leave(&h->gate);
}

static enum dlq_code http_start(struct handler *base, struct handler_call *call, struct dlq_err *err)
{
	struct http_handler *h = (struct http_handler *)base;
	struct push_call *pc;
	enum dlq_code code = gate_enter(&h->gate, "push", err);

	if (code)
		return code;
	pc = mem_alloc(sizeof(*pc));
	pc->h = h;
	pc->call = call;
	code = build_headers(pc, err);
	if (code) {
		call_free(pc);
		gate_leave(&h->gate);
		return code;
	}
	pc->r.url = arena_str(&pc->arena, call->url).p;
	pc->r.body = call->d->body;
	pc->r.timeout_ms = call->timeout_ms;
	pc->r.done = on_done;
	pc->r.user = h;
	net_submit(h->loop, &pc->r);
	return DLQ_OK;
}

static bool is_ours(const struct net_request *r, void *arg)
{
	return r->done == on_done && r->user == arg;
}

static void http_stop(struct handler *base, int64_t deadline_ms)
{
	struct http_handler *h = (struct http_handler *)base;

	gate_close(&h->gate);
	if (gate_wait(&h->gate, deadline_ms > 0 ? deadline_ms : 0))
		return;
	net_abort(h->loop, is_ours, h);
	gate_wait(&h->gate, -1);
}

static void http_free(struct handler *base)
{
	struct http_handler *h = (struct http_handler *)base;

	if (!h)
		return;
	gate_release(&h->gate);
	clock_free(h->clock);
	mem_free(h);
}

static const struct handler_ops http_ops = {.name = "http", .start = http_start, .stop = http_stop, .free = http_free};

struct handler *handler_http_new(struct net_loop *loop, int max_active)
{
	struct http_handler *h = mem_alloc(sizeof(*h));

	h->base.ops = &http_ops;
	h->loop = loop;
	h->clock = clock_real_new();
	gate_init(&h->gate, max_active);
	return &h->base;
}
