/*
 * client.h - the HTTP API as the command line sees it: one blocking client per thread (libcurl), JSON as Jansson
 * values, problem documents turned into struct dlq_err with their exit code.
 */
#ifndef CLI_CLIENT_H
#define CLI_CLIENT_H

#include <jansson.h>

#include "cli/cli.h"

struct client;

/* Finds server and token: --url, DLQ_URL, else server.url of the data folder (--data, DLQ_DATA, ./dlq-data), else
 * http://127.0.0.1:7357; DLQ_TOKEN, else admin.token of the data folder. NULL: the error is printed, *rc is the exit
 * code. */
struct client *client_open(const struct cli *c, int *rc);
struct client *client_new(const char *url, const char *token);
struct client *client_clone(const struct client *cl); /* for another thread */
void client_free(struct client *cl);                  /* takes NULL */
const char *client_url(const struct client *cl);

struct client_call {
	const char *method, *path;  /* path with its query, encoded */
	struct str body;
	const char *content_type;   /* NULL: none */
	const char *const *headers; /* lines "Name: value"; a line that names Content-Type wins */
	int n_headers;
	int64_t timeout_ms;         /* 0: 30 s */
	/* out; released by client_reply_clear */
	int status;
	struct buf reply, reply_headers; /* header lines as they came */
	json_t *json;               /* when the reply is JSON */
};
/* DLQ_OK for a 2xx status. Otherwise err has what the server (or the network) said. */
enum dlq_code client_call(struct client *cl, struct client_call *call, struct dlq_err *err);
void client_call_clear(struct client_call *call);
/* The value of a header of the answer (name in any case), empty when it has none. Borrowed from the call. */
struct str client_header(const struct client_call *call, const char *name);

/* body (taken; NULL for none) goes as JSON; the answer is a new reference, NULL on error with err set. */
json_t *client_json(struct client *cl, const char *method, const char *path, json_t *body, struct dlq_err *err);
/* The same for a path made by printf; %-escaping is the caller's. */
json_t *client_get(struct client *cl, struct dlq_err *err, const char *fmt, ...) PRINTF_LIKE(3, 4);

void url_escape(struct buf *out, const char *text);
/* "key=value" with "?" or "&" in front, when value is not NULL. */
void url_query(struct buf *out, const char *key, const char *value);

/* ---- small words for JSON values ---- */
const char *jstr(const json_t *o, const char *key); /* "" when absent */
int64_t jint(const json_t *o, const char *key);     /* 0 when absent */
/* One document on one line of stdout. */
void json_line(const json_t *v);

#endif
