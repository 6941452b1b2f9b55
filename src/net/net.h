/*
 * net.h - outgoing HTTP on one curl-multi thread, shared by the push handler and the sinks.
 */
#ifndef NET_NET_H
#define NET_NET_H

#include "base/base.h"

struct net_loop;
enum dlq_code net_loop_new(struct net_loop **out, struct dlq_err *err) MUST_USE;
void net_loop_free(struct net_loop *l); /* aborts what is under way: their done runs with aborted set */

#define NET_BODY_KEEP 4096 /* bytes of a response body that are kept */

/* A request: filled and owned by the caller until done returns. Borrowed inputs. */
struct net_request {
	/* in */
	const char *url;
	struct str body;
	struct str *headers;  /* whole lines "Name: value", without CR LF inside */
	int n_headers;
	int64_t timeout_ms;   /* whole call; connect at most 10 s of it */
	void (*done)(struct net_request *r); /* on the loop's thread, once */
	void *user;
	/* out */
	int status;           /* HTTP status, 0: none came */
	bool aborted;         /* by net_loop_free or net_abort_all */
	bool timed_out;
	char error[256];      /* with status 0: what the network said */
	struct buf body_out;  /* first NET_BODY_KEEP bytes */
	struct buf headers_out; /* header lines as received, at most 16 KiB */
	struct net_request *next; /* the loop's */
	void *easy;               /* the loop's */
};
/* Any thread; never blocks. Only http and https, no redirects followed, no proxies from the environment. */
void net_submit(struct net_loop *l, struct net_request *r);
/* Ends all requests that carry this tag (r->user's owner decides): used by stop. Any thread. */
void net_abort(struct net_loop *l, bool (*match)(const struct net_request *r, void *arg), void *arg);
/* Value of a response header, or empty. */
struct str net_header(const struct net_request *r, const char *name);

#endif
