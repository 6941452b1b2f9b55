/*
 * server.h - the HTTP API (docs/api.md) over an engine: one loop thread that owns all connections and requests.
 *
 * The loop polls its connections, the listening socket and an eventfd that the engine's port signals. Requests parsed in one round are submitted to the engine as one list; what comes back is answered in one round, too.
 */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include "engine/engine.h"

/* The `limits` of docs/config.md. 0 means the default named there. */
struct http_limits {
	int64_t max_message_bytes, max_batch_bytes, max_header_bytes;
	int64_t max_headers, max_connections;
	int64_t idle_timeout_ms, request_timeout_ms;
	int64_t max_waiting_operations, max_waiting_bytes; /* the engine's; here max_waiting_bytes bounds request bodies held */
	int64_t drain_timeout_ms;
	int64_t expires_soon_ms;                           /* the engine's; what stats and metrics count */
};

struct http_options {
	const char *listen;           /* "127.0.0.1:7357", "[::1]:7357", "0.0.0.0:0"; port 0 takes a free one */
	const char *tls_cert, *tls_key; /* PEM text, both or none */
	struct http_limits limits;
	struct engine *engine;        /* borrowed; started, and closed only after http_server_stop */
	const char *version;          /* NULL: DLQ_VERSION */
};

struct http_server;
/* Binds, then serves on its own thread. INVALID_SETTING, SYSTEM (address in use, ...): the text names the address. */
enum dlq_code http_server_start(const struct http_options *o, struct http_server **out, struct dlq_err *err) MUST_USE;
int http_server_port(const struct http_server *s);
/* "127.0.0.1:7357", with the port really taken. */
const char *http_server_address(const struct http_server *s);
/*
 * Any thread; returns when every request is answered or after ms. No new connections, readiness says 503, parked receives
 * are answered empty, a connection closes after its answer.
 */
void http_server_drain(struct http_server *s, int64_t ms);
/* Ends the thread and all connections; takes NULL. Operations under way are waited for, so the engine must still run. */
void http_server_stop(struct http_server *s);

#endif
