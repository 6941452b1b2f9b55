/* What the engine and a protocol driver share.
 *
 * The engine owns sockets, time and figures. A driver owns bytes: it names the next
 * request batch of a connection and takes replies apart. A workload is a ring of steps
 * (send: one; cycle and fill: send, receive, settle; get: one); on each step the
 * connection writes one batch with one system call and waits for all its replies. */
#ifndef DLQ_BENCH_DRIVER_H
#define DLQ_BENCH_DRIVER_H

#include "buf.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum workload { WORK_SEND, WORK_CYCLE, WORK_FILL, WORK_GET };
enum step { STEP_SEND, STEP_RECEIVE, STEP_SETTLE };

struct options {
	const char *host;
	uint16_t port;
	enum workload work;
	unsigned connections;
	double seconds;      /* 0: until `count` */
	double warmup;       /* seconds left out of the figures */
	uint64_t count;      /* messages (send, cycle, fill) or requests (get); 0: until `seconds` */
	unsigned body_bytes;
	unsigned batch;
	const char *queue;
	const char *token;
	const char *path;    /* get */
	bool follow;         /* get: walk the pages by their cursor */
	bool read_each;      /* redis cycle: `batch` reads of one instead of one of `batch` */
	bool ack_one;        /* redis cycle: one XACK with all ids instead of one per id */
	unsigned causes;     /* fill: how many different errors */
	unsigned tenants;    /* fill: how many values of the header `tenant`; 0: no header */
};

struct conn {
	int fd;
	unsigned index;
	unsigned step;
	bool up;             /* connected */
	bool busy;           /* a batch is out and not fully answered */
	bool failed;         /* some reply of this batch was an error */
	bool want_write;     /* EPOLLOUT is armed */
	unsigned expected;   /* replies of this batch still to come */
	uint64_t sent_ns;
	const char *out;     /* borrowed: a shared request or a part of `work` */
	size_t out_left;
	struct buf in;
	size_t in_at;        /* bytes of `in` already taken apart */
	struct buf work;     /* the driver's: settle request under construction */
	unsigned held;       /* messages received and not yet settled */
	uint64_t serial;     /* the driver's */
};

struct reply {
	bool ok;
	unsigned messages;   /* messages that are through with this reply */
	char label[24];      /* names the error when not ok */
};

struct driver {
	const char *name;

	/* Formats the shared requests. `body` holds options->body_bytes printable bytes that
	 * need no escape in JSON, and stays valid. May talk to the server once, blocking. */
	void (*init)(const struct options *o, const char *body);

	/* Sets c->out and c->out_left for c->step; returns the number of replies the batch
	 * will get. 0: nothing to do on this step, the engine goes on to the first one. */
	unsigned (*next)(const struct options *o, struct conn *c);

	/* Takes one reply off [p, p+n). Returns its length, 0 when it is not complete, -1 when
	 * it makes no sense. *r comes zeroed. */
	ssize_t (*reply)(const struct options *o, struct conn *c, const char *p, size_t n,
			 struct reply *r);
};

extern const struct driver driver_http;
extern const struct driver driver_redis;
extern const struct driver driver_beanstalk;

#endif
