/*
 * policy.h - what a queue does with failures, and the pure functions that decide it. No clock, no I/O,
 * no lock, no log: same input, same answer. tests/vectors/route.json and backoff.json are the contract.
 */
#ifndef CORE_POLICY_H
#define CORE_POLICY_H

#include "base/doc.h"
#include "base/text.h"
#include "core/lifecycle.h"

#define MAX_ATTEMPTS_LIMIT 1000
#define RETRY_AFTER_MAX_MS ((int64_t)24 * 3600 * 1000)
#define BACKOFF_LIST_MAX 100
#define CLASSIFY_RULES_MAX 64

enum backoff_kind { BACKOFF_LIST, BACKOFF_EXPONENTIAL };
struct backoff {
	enum backoff_kind kind;
	int64_t list_ms[BACKOFF_LIST_MAX];
	int n; /* entries of list_ms, at least 1 */
	int64_t initial_ms, max_ms;
	double multiplier; /* 1.0 to 100.0 */
};

enum jitter_kind { JITTER_NONE, JITTER_FULL, JITTER_EQUAL, JITTER_PROPORTIONAL, JITTER_DECORRELATED };
struct jitter {
	enum jitter_kind kind;
	double p; /* JITTER_PROPORTIONAL: 0 < p <= 1 */
};

enum outcome { OUTCOME_OK, OUTCOME_TRANSIENT, OUTCOME_PERMANENT, OUTCOME_RELEASE, OUTCOME_LEASE_EXPIRED, OUTCOME_COUNT };
const char *outcome_name(enum outcome o);
/* The four words a worker may say; lease_expired is the engine's own. */
bool outcome_parse(struct str s, enum outcome *out);

/* One classify rule: all conditions given must hold. Compiled patterns belong to the policy. */
struct classify_rule {
	struct str error_type;   /* exact; empty: any */
	struct str message_re;   /* PCRE2 source; empty: any */
	void *message_code;      /* pcre2_code */
	int http_status_min, http_status_max; /* 0, 0: any; 500 to 599 for "5xx" */
	int exit_code;           /* -1: any */
	enum outcome outcome;    /* transient or permanent; OUTCOME_COUNT: as the worker says (only with a fingerprint) */
	struct str fingerprint;  /* the group that such failures belong to; empty: by their text */
};

struct policy {
	int max_attempts;
	struct backoff backoff;
	struct jitter jitter;
	int crash_limit;
	int64_t visibility_timeout_ms;
	int64_t ttl_ms;          /* 0: none */
	int64_t retention_ms;
	int max_redrives;
	struct classify_rule *rules;
	int n_rules;
};

/* All that can be set for one queue. Text lives in `arena`. Immutable once parsed; shared by reference count. */
struct queue_config {
	struct arena arena;
	int refs; /* atomic */
	struct str name;
	struct policy policy;
	bool ordered;                /* cannot change once the queue exists */
	int64_t dedup_window_ms;     /* default 10m, 0 none, at most 7d */
	int64_t max_messages;        /* live messages; 0: no limit */
	int64_t max_bytes;           /* live payload bytes; 0: no limit */
	int max_in_flight;           /* leases at once; default 10000, 1 to 1000000 */
	struct str push_url;         /* empty: pull */
	int concurrency;             /* push: requests at once, 1 to 1024, default 16 */
	int64_t push_timeout_ms;     /* default 30s; the lease is extended while a push runs */
	struct str on_dead_letter;   /* URL, empty: none */
	bool on_dead_letter_default; /* it is the server's, written as null: it changes with that */
	bool from_file;              /* defined in the configuration file: PUT and DELETE are refused */
};

/*
 * Reads a queue's settings. d may be NULL (all defaults). name wins over a "name" key; one of the two must be there.
 * default_on_dead_letter: the server-wide URL or empty; for a queue that sets none, or null. On success *out has one reference.
 */
enum dlq_code queue_config_parse(const struct doc *d, struct str name, struct str default_on_dead_letter,
                                 struct queue_config **out, struct dlq_err *err) MUST_USE;
struct queue_config *queue_config_ref(struct queue_config *q);
void queue_config_unref(struct queue_config *q); /* takes NULL */
/* The canonical JSON: parses back to the same settings; stored and shown by the API ({"name":..,"policy":{..},...}). */
void queue_config_write(const struct queue_config *q, struct json_out *j);

/* ---- the decision ---- */

struct route_msg {
	int attempts;              /* failures so far */
	int lease_expirations;
	int64_t previous_delay_ms; /* for decorrelated jitter; 0 if none */
};
struct route_outcome {
	enum outcome kind;
	int64_t retry_after_ms; /* transient: promise, never earlier; 0 none */
	int64_t delay_ms;       /* release: come back after */
};
enum effect_kind { EFFECT_DONE, EFFECT_RETRY, EFFECT_RELEASE, EFFECT_DEAD };
const char *effect_name(enum effect_kind k);
struct effect {
	enum effect_kind kind;
	enum reason reason;     /* EFFECT_DEAD */
	int attempts;           /* after the call */
	int lease_expirations;  /* after the call */
	int64_t at_ms;          /* RETRY: retry at; RELEASE: ready at */
	int64_t delay_ms;       /* RETRY: the delay used, the next previous_delay_ms */
};
/* random in [0, 1). */
struct effect route(const struct route_msg *msg, const struct policy *policy, const struct route_outcome *outcome,
                    int64_t now_ms, double random);

/* Delay after failure n (from 1), without jitter, rounded down to a millisecond. */
int64_t backoff_delay_ms(const struct backoff *b, int n);
int64_t jitter_apply(const struct jitter *j, const struct backoff *b, int64_t delay_ms, int64_t previous_ms, double random);
/* "none", "full", "equal", "decorrelated", "proportional:0.2" */
bool jitter_parse(struct str s, struct jitter *out);

/* What is known of one failure. */
struct failure {
	struct str type, message, detail; /* at most FAILURE_*_MAX bytes are kept, cut at a character */
	int http_status;  /* 0: none */
	int exit_code;    /* -1: none */
	struct str fingerprint; /* the worker's own name for the group, or empty; at most FINGERPRINT_GIVEN_MAX bytes count */
};
#define FAILURE_TYPE_MAX 256
#define FAILURE_MESSAGE_MAX 4096
#define FAILURE_DETAIL_MAX 16384
/* The first rule that holds, or NULL. */
const struct classify_rule *classify_find(const struct policy *policy, const struct failure *f);
/* Rules first, then the worker's own word (`said`). Only transient and permanent are reclassified. */
enum outcome classify(const struct policy *policy, const struct failure *f, enum outcome said);

#endif
