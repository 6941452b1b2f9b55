/*
 * dlq.h - libdlq: the engine of dlq inside your own program.
 *
 * One struct dlq per data folder and process; every function may be called from any thread and blocks until its work is
 * on disk. Strings are NUL-ended and borrowed for the call; bytes are pointer + length. Functions return DLQ_OK or a code of
 * error.h and, when err is not NULL, the reason as text. Times are Unix milliseconds, durations milliseconds.
 */
#ifndef DLQ_H
#define DLQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dlq/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DLQ_API __attribute__((visibility("default")))

struct dlq;

struct dlq_options {
	const char *dir;   /* data folder, made if absent */
};

DLQ_API const char *dlq_version(void);
DLQ_API const char *dlq_code_name(enum dlq_code code);

/* Opens or makes the store. STORE_LOCKED: another process has it. */
DLQ_API enum dlq_code dlq_open(const struct dlq_options *options, struct dlq **out, struct dlq_err *err);
DLQ_API void dlq_close(struct dlq *d); /* takes NULL; leases that are still out end by their timeout */

/* json: the queue settings of the HTTP API's PUT (docs/api.md), or NULL for the defaults. Creates or updates. */
DLQ_API enum dlq_code dlq_queue_put(struct dlq *d, const char *queue, const char *json, struct dlq_err *err);

struct dlq_message {
	const char *id;            /* NULL: one is made */
	const char *key;           /* ordering key, or NULL */
	const char *content_type;  /* or NULL */
	const void *body;
	size_t body_len;
	int64_t delay_ms;          /* 0: at once */
	int64_t ttl_ms;            /* 0: the queue's */
};
/* id_out: at least 129 bytes, or NULL. duplicate: or NULL; the id was sent before within the window, nothing was stored. */
DLQ_API enum dlq_code dlq_send(struct dlq *d, const char *queue, const struct dlq_message *m, char *id_out, bool *duplicate, struct dlq_err *err);

/* One delivery; released by dlq_delivery_free, which does not settle it. */
struct dlq_delivery {
	const char *id, *key, *content_type, *receipt;
	const void *body;
	size_t body_len;
	int attempts, redrives;
	int64_t received_at_ms, lease_until_ms;
};
/* Waits up to wait_ms for a message. *out is NULL when none came. visibility_timeout_ms 0: the policy's. */
DLQ_API enum dlq_code dlq_receive(struct dlq *d, const char *queue, const char *worker, int64_t wait_ms, int64_t visibility_timeout_ms,
                                  struct dlq_delivery **out, struct dlq_err *err);
/* As dlq_receive, with everything that can be said about the worker. Zero what you do not set. */
struct dlq_receive_options {
	const char *worker;         /* who takes it, shown in the history; or NULL */
	const char *worker_version; /* tells a bad deploy from bad messages; or NULL */
	int64_t wait_ms;
	int64_t visibility_timeout_ms; /* 0: the policy's */
};
DLQ_API enum dlq_code dlq_receive_with(struct dlq *d, const char *queue, const struct dlq_receive_options *o, struct dlq_delivery **out,
                                       struct dlq_err *err);
DLQ_API void dlq_delivery_free(struct dlq_delivery *m);

enum dlq_outcome { DLQ_OUTCOME_OK, DLQ_OUTCOME_TRANSIENT, DLQ_OUTCOME_PERMANENT, DLQ_OUTCOME_RELEASE };
/* Zero what you do not set: members are added at the end. */
struct dlq_settle {
	enum dlq_outcome outcome;
	const char *error_type, *error_message, *error_detail; /* or NULL */
	int64_t retry_after_ms;    /* transient: not earlier; release: delay */
	const char *fingerprint;   /* your own word for which failures are one group, or NULL: the message decides */
};
/* dlq_id_out: at least 27 bytes or NULL; empty unless the message became a dead letter. GONE: the lease is over. */
DLQ_API enum dlq_code dlq_settle(struct dlq *d, const char *queue, const char *receipt, const struct dlq_settle *s, char *dlq_id_out, struct dlq_err *err);
DLQ_API enum dlq_code dlq_extend(struct dlq *d, const char *queue, const char *receipt, int64_t visibility_timeout_ms, struct dlq_err *err);

/* Puts dead letters back: the chosen ones, or with n_ids 0 the whole queue. *count: how many were chosen. */
DLQ_API enum dlq_code dlq_redrive(struct dlq *d, const char *queue, const char *const *dlq_ids, size_t n_ids,
                                  const char *operator_name, const char *reason, int64_t *count, struct dlq_err *err);
DLQ_API enum dlq_code dlq_discard(struct dlq *d, const char *dlq_id, const char *operator_name, const char *reason, struct dlq_err *err);

/* Calls visit for the newest dead letters of the queue, at most limit (1 to 1000); json is the API's document for one.
 * visit returns false to stop. */
DLQ_API enum dlq_code dlq_dead_letters(struct dlq *d, const char *queue, int limit,
                                       bool (*visit)(const char *dlq_id, const char *json, void *arg), void *arg, struct dlq_err *err);

#ifdef __cplusplus
}
#endif
#endif
