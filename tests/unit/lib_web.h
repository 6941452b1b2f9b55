/*
 * lib_web.h - small HTTP servers for tests, on a free port of 127.0.0.1.
 */
#ifndef TESTS_UNIT_LIB_WEB_H
#define TESTS_UNIT_LIB_WEB_H

#include "base/base.h"

/* What came in; valid during the answer. */
struct web_request {
	const char *path;
	struct str body;
	void *connection;
};
/* Value of a request header or NULL. */
const char *web_header(const struct web_request *q, const char *name);

struct web_reply {
	int status;              /* default 200 */
	const char *headers[8];  /* "Name: value" */
	const char *body;        /* default "" */
	size_t body_len;         /* 0: strlen */
};

/* A server whose answers are made by a function, on one thread per connection: it may block. */
struct web {
	void (*answer)(struct web *w, const struct web_request *q, struct web_reply *r);
	void *user;
	void *daemon;
	int port;
	char url[64];            /* http://127.0.0.1:PORT */
};
void web_start(struct web *w);
void web_stop(struct web *w);

/* A server that reads one request's head per connection, writes these bytes and closes: with reset, by RST. */
struct raw {
	const char *bytes;
	size_t n;                /* 0: strlen(bytes) */
	bool reset;
	bool hold;               /* do not close until raw_stop */
	/* the server's */
	int fd, held[16], n_held, port, connections;
	unsigned long thread;
	char url[64];
};
void raw_start(struct raw *r);
void raw_stop(struct raw *r);

/* A port on which nobody listens. */
int closed_port(void);

#endif
