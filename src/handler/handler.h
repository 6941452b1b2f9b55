/*
 * handler.h - the contract of what calls a worker with one message and brings back its outcome.
 *
 * start: any one thread (the engine's push thread). Never blocks; the call runs on the handler's own thread. `done` is
 * called exactly once per start, on the handler's thread, after which the request's memory may go. Limits: at most
 * max_active calls under way; one more is refused with BUSY (and done is not called). BAD_REQUEST: this message can never
 * be sent as a request (a header that HTTP cannot carry); done is not called; the caller makes it a permanent failure.
 * SHUTTING_DOWN: after stop.
 * stop: no new starts; calls under way are given deadline_ms (from now), then aborted; an aborted call is done with
 * OUTCOME_RELEASE (invariant 8). Returns when every done has returned. Not on the handler's thread. free after stop.
 */
#ifndef HANDLER_HANDLER_H
#define HANDLER_HANDLER_H

#include "core/policy.h"
#include "store/store.h"

struct handler_call {
	/* in: borrowed until done returns */
	struct str url, queue;
	const struct store_delivery *d;
	int64_t timeout_ms;
	/* out, valid while done runs */
	enum outcome outcome;
	struct failure failure;
	int64_t retry_after_ms;
	void (*done)(struct handler_call *call);
	void *user;
};

struct handler;
struct handler_ops {
	const char *name;
	enum dlq_code (*start)(struct handler *h, struct handler_call *call, struct dlq_err *err);
	void (*stop)(struct handler *h, int64_t deadline_ms);
	void (*free)(struct handler *h);
};
struct handler { const struct handler_ops *ops; };

struct net_loop; /* net/net.h: the one curl-multi thread */
/* HTTP push (design: POST body as is, Dlq-* headers, status to outcome). loop is borrowed. */
struct handler *handler_http_new(struct net_loop *loop, int max_active);

#endif
