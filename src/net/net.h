/*
 * net.h - outgoing HTTP on one curl-multi thread, shared by the push handler and the sinks.
 */
#ifndef NET_NET_H
#define NET_NET_H

#include "base/base.h"

struct net_loop;
enum dlq_code net_loop_new(struct net_loop **out, struct dlq_err *err) MUST_USE;
void net_loop_free(struct net_loop *l); /* aborts what is under way: their done runs with aborted set; takes NULL */

#define NET_BODY_KEEP 4096              /* bytes of a response body that are kept */
#define NET_BODY_READ_MAX (1024 * 1024) /* bytes of a response body that are read; then the connection is cut */
#define NET_HEADERS_KEEP (16 * 1024)    /* bytes of response header lines that are kept */
#define NET_CONNECT_MS 10000

/* Why no answer came; decides the type of the failure that people see. */
enum net_fail {
	NET_FAIL_NONE,    /* an answer came */
	NET_FAIL_URL,     /* not an http or https URL */
	NET_FAIL_HEADER,  /* a request header breaks the rules (CR, LF, NUL, no name) */
	NET_FAIL_DNS,
	NET_FAIL_REFUSED,
	NET_FAIL_RESET,   /* closed before the answer was whole */
	NET_FAIL_TIMEOUT,
	NET_FAIL_TLS,
	NET_FAIL_ABORTED,
	NET_FAIL_OTHER,
	NET_FAIL_COUNT
};
/* "ConnectionRefused", "Timeout", ...: stable names, for failure types; "" for NET_FAIL_NONE. */
const char *net_fail_name(enum net_fail f);

/* A request, always POST: filled and owned by the caller until done returns. Borrowed inputs. */
struct net_request {
	/* in */
	const char *url;
	struct str body;
	struct str *headers;  /* whole lines "Name: value", without CR LF inside */
	int n_headers;
	int64_t timeout_ms;   /* whole call, at least 1; connect at most 10 s of it */
	void (*done)(struct net_request *r); /* on the loop's thread, once; releases body_out and headers_out by net_request_release */
	void *user;
	/* out */
	int status;           /* HTTP status, 0: no whole answer came */
	enum net_fail fail;   /* with status 0 */
	bool aborted;         /* by net_loop_free or net_abort */
	bool timed_out;
	char error[256];      /* with status 0: what the network said; never the URL's password */
	struct buf body_out;  /* first NET_BODY_KEEP bytes, also of an answer that broke off */
	struct buf headers_out; /* header lines as received, at most 16 KiB */
	struct net_request *next; /* the loop's */
	void *easy;               /* the loop's */
};
/* Any thread; never blocks. Only http and https, no redirects followed, no proxies from the environment. */
void net_submit(struct net_loop *l, struct net_request *r);
/*
 * Ends all requests for which match says so; match runs on the loop's thread. Any thread. Returns when their done have
 * returned; called on the loop's thread (inside a done) it returns at once and their done follow.
 */
void net_abort(struct net_loop *l, bool (*match)(const struct net_request *r, void *arg), void *arg);
/* Value of a response header, or empty. */
struct str net_header(const struct net_request *r, const char *name);
/* Frees body_out and headers_out. */
void net_request_release(struct net_request *r);

/* NULL if line is a header that can be sent ("Name: value", name a token, no control characters), else the rule it breaks. */
const char *net_header_check(struct str line);
/*
 * Retry-After in ms from now, rounded up: seconds, or an HTTP date, which is taken relative to the answer's own Date
 * (if it has one) so that a wrong clock on one side does no harm. 0: none, not valid or already over. At most max_ms.
 */
int64_t net_retry_after_ms(struct str retry_after, struct str date, int64_t wall_now_ms, int64_t max_ms);

#endif
