/*
 * sink.h - the contract of what tells people: a webhook now, mail and chat later. Same threading as handler.h: send
 * never blocks, done is called exactly once on the sink's own thread; BUSY past max_active, SHUTTING_DOWN after stop (no
 * done then). A note whose call is aborted by stop is done with ok false.
 */
#ifndef ALERT_SINK_H
#define ALERT_SINK_H

#include "base/base.h"

struct sink_note {
	/* in: borrowed until done returns */
	struct str url;
	struct str id;      /* stable over retries: the receiver can drop repeats */
	struct str json;    /* the document */
	/* out */
	bool ok;
	char error[200];
	int64_t retry_after_ms;
	void (*done)(struct sink_note *note);
	void *user;
};

struct sink;
struct sink_ops {
	const char *name;
	enum dlq_code (*send)(struct sink *s, struct sink_note *note, struct dlq_err *err);
	void (*stop)(struct sink *s, int64_t deadline_ms);
	void (*free)(struct sink *s);
};
struct sink { const struct sink_ops *ops; };

struct net_loop;
struct sink *sink_webhook_new(struct net_loop *loop, int max_active);

#endif
