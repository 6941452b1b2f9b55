/*
 * http.h - what the files of this folder share. All of it belongs to the loop thread of one server.
 *
 * A request's way: the request line makes a struct http_req (pooled); the headers choose the route and are checked
 * against token and limits; the body is gathered; route->start either answers (answer_*) or submits r->op; when the
 * operation is back, r->finish writes the answer. A request that is refused early still swallows a small body, so that its
 * connection can go on.
 */
#ifndef HTTP_HTTP_H
#define HTTP_HTTP_H

#include <http_parser.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "http/server.h"

struct http_req;
struct http_conn;

/* ---- routes ---- */

enum body_kind { BODY_NONE, BODY_MESSAGE, BODY_BATCH, BODY_JSON, BODY_SETTLE, BODY_EDIT };
enum access { ACCESS_OPEN, ACCESS_TOKEN };

struct route {
	const char *method;   /* GET also serves HEAD */
	const char *pattern;  /* segments; {queue}, {id}, {name} take one segment */
	enum access access;
	enum role role;
	enum body_kind body;
	int op;               /* enum op_type, -1: none */
	void (*start)(struct http_req *r);
	const char *query;    /* known query parameters, space-separated */
	const char *summary;
	const char *request, *answer; /* schema names of openapi.c; NULL: none */
	const char *statuses; /* success statuses, space-separated */
};
extern const struct route routes[];
extern const size_t routes_len;

/* Finds the route of method and raw path; *param is the raw segment that filled the placeholder. NULL: code says NOT_FOUND
 * or METHOD, the latter with the methods there are in allow. */
const struct route *route_find(struct str method, struct str path, struct str *param, enum dlq_code *code, char allow[64]);
/* Of a pattern: "queue", "id", "name", or NULL when it takes no parameter. */
const char *route_param_name(const struct route *route);

/* ---- connections and requests ---- */

/* LIST_IDLE, LIST_READING and LIST_LINGER are in the order of their deadlines. LIST_PARKED: long polls, taken back when the
 * client goes away. LIST_DEAD: closed, freed at the end of the round. */
enum conn_list { LIST_NONE, LIST_IDLE, LIST_READING, LIST_WRITING, LIST_PARKED, LIST_LINGER, LIST_DEAD, LIST_COUNT };

#define SECRET_MAX 200
struct tls_conn;
/*
 * A connection takes one request at a time: what a pipelining client sends ahead waits in `in` and in the kernel. Its
 * descriptor is watched edge-triggered for everything, once: `readable` remembers an edge that was not used up.
 */
struct http_conn {
	struct http_conn *prev, *next;
	enum conn_list list;
	struct http_server *s;
	int fd;
	struct tls_conn *tls;       /* NULL: plain */
	struct http_parser parser;
	struct http_req *r;         /* the request under way, or NULL */
	struct buf in;              /* received, not yet parsed */
	struct buf out;             /* the rest of an answer's head that the client did not take yet */
	size_t out_at;
	struct http_conn *again;    /* list of connections with work left in this round */
	bool in_again, readable, hup, gone, stop, complete, keep;
	const char *end;            /* of the bytes that are parsed */
	int chunk_end;              /* bytes of the CR LF behind a chunk that were not seen yet */
	int64_t deadline_ms;
	/* The last token check that succeeded: the same header on the same queue is not hashed again for a second. */
	char secret[SECRET_MAX];
	size_t secret_len;
	char queue[130];
	size_t queue_len;
	enum role need;
	int64_t good_until_ms;
	struct token_info who;
};

enum phase {
	PHASE_LINE,    /* the request line is there */
	PHASE_BODY,    /* body is gathered, or swallowed when `answered` */
	PHASE_WAIT,    /* r->op is the engine's */
	PHASE_SENT     /* the answer is on its way */
};

#define QUERY_MAX 24 /* the most that one address knows, with FILTER_HEADERS_MAX headers */
#define HEADERS_MAX 64
struct pair {
	struct str name, value;
};

#define MADE_LEN 36 /* {"id":"<ulid>"} and a line end */
#define HEAD_LINES_MAX 256 /* limits.max_headers is at most this */

struct http_req {
	struct http_req *next; /* pool */
	struct http_server *s;
	struct http_conn *c;
	enum phase phase;
	const struct route *route;
	bool answered, close_after, body_too_large, is_change, is_head;
	struct buf uri, head, body, out;
	size_t out_at;              /* bytes of the body already sent */
	int64_t out_counted;        /* bytes counted in s->out_bytes */
	struct { uint32_t name, name_n, value, value_n; } lines[HEAD_LINES_MAX]; /* into head */
	bool in_value;
	int64_t body_declared;      /* bytes counted in s->body_bytes */
	int64_t read_counted;       /* bytes counted in s->read_bytes */
	size_t body_seen, body_limit;
	struct arena arena;
	struct str param;           /* decoded placeholder */
	struct pair query[QUERY_MAX];
	int n_query;
	/* request headers, in `head` */
	struct str authorization, content_type, expect, dlq_id, dlq_key, dlq_delay, dlq_ttl;
	int64_t content_length;     /* -1: none */
	struct pair headers[HEADERS_MAX]; /* Dlq-Header-* */
	int n_headers;
	size_t head_bytes;
	int head_lines;
	const char *head_error;
	struct str secret;
	struct token_info who;
	/* memo of http_may */
	struct str may_queue;
	bool may_answer;
	/* answer */
	int status;
	const char *type;
	char allow[64];
	char more_head[160];        /* further header lines, each with its end */
	int retry_after_s;
	bool challenge, made;
	char made_body[MADE_LEN + 1];
	/* engine */
	struct engine_op op;
	void (*finish)(struct http_req *r);
	struct store_send one;
	bool op_used;               /* op holds outputs to release */
	int64_t wait_ms;
	union {
		struct ndjson_line *lines;
		struct change *change;
		struct group_change *group;
		struct wish *wish;
		struct import *import;
		struct expiring *expiring;
		struct { int64_t rows; } verify;
		struct { int64_t after; int limit; } page;
		bool flag;
	} u;
	int n_lines;
};

struct http_server {
	struct op_port port;        /* first: the port is the server */
	struct engine *e;
	struct clock *clock;
	struct http_limits lim;
	struct tls_server *tls;     /* NULL: plain */
	char version[32];
	char address[80];
	int port_no, listen_fd, ep, wake_fd;
	pthread_t thread;
	int64_t now_ms, started_ms;
	bool listening, drain_begun, heard_all, ended;
	/* engine threads to the loop */
	pthread_mutex_t back_lock;
	struct engine_op *back_head, **back_tail;
	/* others to the loop */
	atomic_bool draining, stopping;
	atomic_int in_flight;       /* requests between request line and end, and a drain that did not hear all yet */
	pthread_mutex_t idle_lock;
	pthread_cond_t idle_cond;
	/* the loop's own */
	struct engine_op *submit_head, **submit_tail;
	struct http_req *pool;
	int pool_len, n_conns, n_ops;
	struct http_conn lists[LIST_COUNT]; /* rings */
	struct http_conn *again;
	char date[40];              /* of this second, for the Date header */
	int64_t date_second;
	char scratch[64 << 10];     /* what recv fills */
	int64_t body_bytes;
	int64_t read_bytes;         /* large reads that are under way, or whose answer was not tried to be sent yet */
	struct http_req *large, **large_tail; /* that wait for room in read_bytes, by next */
	int64_t out_bytes;          /* answers that their clients did not take yet */
	int64_t next_tick_ms;
	int64_t audit_window_ms;
	int audit_in_window;
	int64_t audit_suppressed;
	struct { atomic_long requests, by_class[6], connections, refused_connections, timeouts; } stats;
	struct buf openapi;
};

/* ---- conn.c: bytes to requests and answers to bytes ---- */
void http_conn_open(struct http_server *s, int fd);
/* Its descriptor has something to tell: epoll events. */
void http_conn_event(struct http_conn *c, uint32_t events);
/* Goes on with what is left: parsed bytes of the next request, an edge that was not used up. */
void http_conn_go_on(struct http_conn *c);
/* Sends r's answer (all of it, or what the client takes now). */
void http_conn_answer(struct http_req *r);
/* Ends it now; a request that is with the engine ends when it is back. */
void http_conn_close(struct http_conn *c);
void http_conn_move(struct http_server *s, struct http_conn *c, enum conn_list list, int64_t deadline_ms);
void http_conn_free_dead(struct http_server *s);

/* ---- tls.c ---- */
/* PEM texts. INVALID_SETTING with the reason. */
enum dlq_code tls_server_new(const char *cert, const char *key, struct tls_server **out, struct dlq_err *err) MUST_USE;
void tls_server_free(struct tls_server *t); /* takes NULL */
struct tls_conn *tls_conn_new(struct tls_server *t, int fd);
void tls_conn_free(struct tls_conn *t); /* takes NULL */
/* As recv and send: -1 with errno EAGAIN when it must wait, -1 with another errno when it is over. */
ssize_t tls_recv(struct tls_conn *t, void *p, size_t n);
ssize_t tls_send(struct tls_conn *t, const void *p, size_t n);

/* ---- request.c ---- */
struct http_req *request_new(struct http_server *s);
void request_destroy(struct http_req *r);
/* A piece of the address, of a header's name or value. False: past a limit, request_refuse_head answers. */
bool request_uri_piece(struct http_req *r, const char *p, size_t n);
void request_refuse_head(struct http_req *r);
bool request_header_piece(struct http_req *r, bool value, const char *p, size_t n);
/* Whether the headers say beyond doubt where the request ends and whom it is for, and ask for nothing that is not done here.
 * BAD_REQUEST or EXPECTATION with the reason. */
enum dlq_code request_framing(const struct http_req *r, int http_minor, const char **why);
/* The headers are there. False: answered, and the body is not worth reading. */
bool request_first(struct http_req *r, const char *method);
/* A piece of the body. False: far past the limit. */
bool request_data(struct http_req *r, const char *p, size_t n);
/* The whole request is there: answers, or hands its operation to the engine. */
void request_complete(struct http_req *r);
/* Hands r->op to the engine; finish runs when it is back with code OK (an error is answered as a problem). */
void request_submit(struct http_req *r, enum op_type type, void (*finish)(struct http_req *r));
/* The same for a read that gives about so many bytes: it waits until those under way leave room. */
void request_submit_large(struct http_req *r, enum op_type type, void (*finish)(struct http_req *r), int64_t bytes);
/* The operation is back: answers and lets the connection go on. */
void request_back(struct http_req *r);
void request_free(struct http_req *r);
/* The answer is made and waits for its client: gives back the memory of what it was made from. */
void request_shrink(struct http_req *r);

/* ---- server.c ---- */
/* One less in flight. */
void server_leave(struct http_server *s);
void server_queue_op(struct http_server *s, struct engine_op *op);
/* An operation nobody waits for. `op` is the first member of memory from mem_alloc; released and freed when it is back. */
void server_detach_op(struct http_server *s, struct engine_op *op);

/* ---- answers ---- */
/* The writer of the body of a 2xx answer: fill *j, then answer_json. */
void answer_begin(struct http_req *r, struct json_out *j);
void answer_json(struct http_req *r, int status);
void answer_empty(struct http_req *r, int status);
void answer_bytes(struct http_req *r, int status, const char *type); /* r->out as it is */
/* Readiness is refused with 503 whatever the code's own status: that is what balancers look for. */
void answer_unready(struct http_req *r, enum dlq_code code, const char *detail);
/* problem.c: RFC 9457. The place (line, column) or limit: 0 for none. */
void answer_problem(struct http_req *r, enum dlq_code code, const char *fmt, ...) PRINTF_LIKE(3, 4);
void answer_problem_at(struct http_req *r, const struct dlq_err *err, int line, int column);
void answer_problem_limit(struct http_req *r, enum dlq_code code, int64_t limit, const char *fmt, ...) PRINTF_LIKE(4, 5);

/* ---- auth.c ---- */
/* Answers 401 or 403 (with an audit row when it was a change) and returns false, or fills r->who. */
bool auth_check(struct http_req *r, struct str queue);
/* Whether the request's token may see things of that queue. */
bool auth_may(struct http_req *r, struct str queue);
bool auth_limited(struct http_req *r); /* the token is limited to some queues */
bool auth_need(struct http_req *r, struct str queue); /* as auth_may, and answers 403 */
void auth_refused(struct http_req *r, struct str queue); /* leaves an audit row: a part of the change was refused */

/* ---- query.c ---- */
/* Strict percent-decoding into the arena. */
bool url_decode(struct arena *a, struct str raw, struct str *out);
bool query_parse(struct http_req *r, struct str raw);
struct str query_get(const struct http_req *r, const char *name, bool *given);
/* Each answers 400 itself and returns false. */
bool query_limit(struct http_req *r, int *limit);
bool query_cursor_int(struct http_req *r, char kind, int64_t *n);
bool query_cursor_text(struct http_req *r, char kind, struct str *text);
/* A cursor whose key is a back end's own text. */
bool query_cursor_any(struct http_req *r, char kind, struct str *text);
/* The same of a cursor that stands in a JSON document; *n is 0 for an empty one. Answers nothing. */
bool cursor_parse(struct arena *a, struct str cursor, char kind, int64_t *n);
struct str cursor_make(struct arena *a, char kind, int64_t n); /* empty for 0 */
void cursor_int(struct json_out *j, char kind, int64_t n); /* writes "next"; n 0: null */
void cursor_text(struct json_out *j, char kind, struct str text); /* empty: null */

/* ---- api_*.c ---- */
void api_send(struct http_req *r);
void api_batch(struct http_req *r);
void api_receive(struct http_req *r);
void api_settle(struct http_req *r);
void api_extend(struct http_req *r);
void api_queue_list(struct http_req *r);
void api_queue_get(struct http_req *r);
void api_queue_put(struct http_req *r);
void api_queue_delete(struct http_req *r);
void api_queue_pause(struct http_req *r);
void api_queue_resume(struct http_req *r);
void api_dead_list(struct http_req *r);
void api_dead_get(struct http_req *r);
void api_dead_body(struct http_req *r);
void api_dead_redrive(struct http_req *r);
void api_dead_discard(struct http_req *r);
void api_dead_restore(struct http_req *r);
void api_dead_archive(struct http_req *r);
void api_dead_export(struct http_req *r);
void api_dead_import(struct http_req *r);
void api_archive_list(struct http_req *r);
void api_archive_get(struct http_req *r);
void api_group_list(struct http_req *r);
void api_group_get(struct http_req *r);
void api_group_acknowledge(struct http_req *r);
void api_group_resolve(struct http_req *r);
void api_group_reopen(struct http_req *r);
void api_group_mute(struct http_req *r);
void api_group_note(struct http_req *r);
void api_group_merge(struct http_req *r);
void api_group_split(struct http_req *r);
void api_redrive_start(struct http_req *r);
void api_redrive_preview(struct http_req *r);
void api_redrive_list(struct http_req *r);
void api_redrive_get(struct http_req *r);
void api_redrive_items(struct http_req *r);
void api_redrive_pause(struct http_req *r);
void api_redrive_resume(struct http_req *r);
void api_redrive_cancel(struct http_req *r);
void api_audit_list(struct http_req *r);
void api_audit_verify(struct http_req *r);
void api_token_list(struct http_req *r);
void api_token_add(struct http_req *r);
void api_token_revoke(struct http_req *r);
void api_stats(struct http_req *r);
void api_metrics(struct http_req *r);
void api_healthz(struct http_req *r);
void api_readyz(struct http_req *r);
void api_openapi(struct http_req *r);
void redrive_write(struct json_out *j, const struct store_redrive *d);
/* The queue that all its members are of, also where its plan says so; empty: of any. In r's arena. */
struct str redrive_queue(struct http_req *r, const struct store_redrive *d);
/* One line, not empty, of a body that has many: a good one is the item-th of the operation, a bad one has its error. */
struct ndjson_line {
	int item; /* -1: bad */
	enum dlq_code code;
	struct str detail;
	int line, column;
};
/* "error", into the line's object. */
void line_error_write(struct json_out *j, const struct ndjson_line *l, enum dlq_code code, struct str detail);
/* A message header's name: 1 to 128 of a-z 0-9 . _ -; upper case is turned into lower case. */
bool header_name(struct arena *a, struct str *name);
void dead_write(struct http_req *r, struct json_out *j, const struct store_dead *d); /* without headers and history */
/* "errors" and "first_error" of a scan, when there was a `where` to fail. */
void scan_write(struct json_out *j, const struct engine_scan *scan, struct str where);
void group_key_write(struct json_out *j, const char *key, const uint8_t fp[16]);
/* Reads the group of that fingerprint text (brief: without what explains it), then finish; false: answered 404, it is the
 * form of none. */
bool group_read(struct http_req *r, struct str group, bool brief, void (*finish)(struct http_req *));
/* The receive's messages go back without costing an attempt: nobody is there to take them. */
void receive_give_back(struct http_req *r);
/* The answer is made: of the messages only what receive_give_back needs is kept. */
void receive_forget_messages(struct http_req *r);
void queue_write(struct json_out *j, const struct store_queue *q);

/*
 * What stats and metrics add to the counts of the queues: the dead letters that the token may see and whose retention
 * ends soon. Called with a finished OP_READ_QUEUES, of which nothing is left afterwards; goes on with then(r), and
 * r->u.expiring->n is their number.
 */
struct expiring {
	int64_t n;
	struct str *queues; /* still to be counted; an empty name: all queues */
	int n_queues;
	void (*then)(struct http_req *r);
	void *user;         /* the caller's, in the request's arena */
};
void expiring_count(struct http_req *r, void *user, void (*then)(struct http_req *r));

/* openapi.c */
void openapi_write(const char *version, struct buf *out);

#endif
