/*
 * engine_int.h - the inside of the engine, shared by its files.
 *
 * OWNERSHIP. The writer (its thread, or in single_step mode and before engine_start whoever calls) owns the
 * transaction, the parked receives, all timers and everything marked "writer". Others may only look through the locks
 * named below.
 *
 * LOCK ORDER: clients_lock first (a woken client may submit); in_lock, table_lock, token_lock, read_lock, the
 * scan thread's lock and status_lock are leaves: none is taken while another of them is held, and nothing blocks on disk under one.
 */
#ifndef ENGINE_ENGINE_INT_H
#define ENGINE_ENGINE_INT_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/rnd.h"
#include "engine/engine.h"
#include "engine/guard.h"

#define NEVER INT64_MAX
#define RECEIVE_MAX 1000
#define SETTLE_MAX 1000
#define SEND_MAX 1000
#define WAIT_MAX_MS 60000
#define VISIBILITY_MIN_MS 1000
#define VISIBILITY_MAX_MS 43200000
#define RECEIVE_BYTES_DEFAULT ((int64_t)16 << 20)
#define REASON_TEXT_MAX 1000
#define REDRIVE_IDS_MAX 1000
#define IMPORT_MAX 1000
#define TIME_SPAN_MAX_MS ((int64_t)10 * 366 * 24 * 3600 * 1000)

/* Bounds of one transaction's timer work. */
#define LEASE_STEP 256
#define TTL_STEP 256
#define DEDUP_STEP 1000
#define REDRIVE_STEP 1000
#define SWEEP_STEP 500
#define ARCHIVE_STEP 64
#define BATCH_BYTES_MAX ((int64_t)8 << 20)
#define GROUP_MEMO 8         /* fingerprints remembered */
#define WORKER_VERSIONS 256  /* workers whose version is remembered */
#define DELIVERY_COST 256 /* what one message counts in it besides its body */

struct equeue {
	char name_buf[130];
	struct str name;
	uint64_t hash;
	int64_t queue_id;
	bool ordered;
	atomic_bool paused;
	struct queue_config *config; /* one reference; the writer replaces it under table_lock */
	struct equeue *hash_next, *id_next;
	/* writer */
	int64_t next_due; /* nothing is deliverable before; valid while due_gen equals the engine's */
	uint64_t due_gen;
	bool room_wanted; /* a receive waits because max_in_flight is reached */
	struct engine_op *park_head, *park_tail;
	struct equeue *park_next, *park_prev;
};

/* One transaction in the making. */
struct batch {
	int64_t now, wall;
	bool tx;      /* store_begin was done */
	bool notices; /* a dead letter owes a notice */
	bool kept;    /* the operation just applied was parked or deferred */
	int ops;
	int64_t bytes;
	struct engine_op *head, *tail; /* finished with the commit */
	/* What changes in memory once the commit is done. An operation that sets it ends its batch. */
	void (*after)(struct engine *e, struct engine_op *op);
	struct engine_op *after_op;
};

/* What a running redrive needs besides its row; lost with a restart and then made again. */
struct redrive_run {
	int64_t n;
	struct guard_base base;
	struct guard_bucket bucket;
	int64_t next_at; /* a rated one has nothing to do before */
};

/* The last failures of redriven messages, for the text of a halt. */
#define REDRIVE_ERRORS 8
#define REDRIVE_ERROR_MAX 300
struct redrive_error {
	int64_t seq;
	char text[REDRIVE_ERROR_MAX];
};

struct group_keys; /* group_key.c */
struct token;      /* tokens.c */
struct scanner;    /* scan_int.h */

struct engine {
	struct engine_options o;
	char *dir;
	struct clock *clock;
	struct store *store;
	const struct store_ops *ops;
	struct store_reader *wreader; /* the writer's own reader: the last commit */
	struct rnd rnd;               /* writer */
	bool started;
	pthread_t writer;

	/* what waits; under in_lock */
	pthread_mutex_t in_lock;
	pthread_cond_t in_cond; /* CLOCK_MONOTONIC */
	struct engine_op *in_head, *in_tail;
	struct engine_op **cancels;
	int n_cancels, cap_cancels;
	bool sleeping, closing, stop;
	atomic_bool draining;
	atomic_llong waiting_ops, waiting_bytes;

	/* writer */
	struct engine_op *work_head, *work_tail;         /* taken, not yet applied */
	struct engine_op *deferred_head, *deferred_tail; /* receives that wait for the TTL backlog */
	struct engine_op **heap;                         /* parked receives by deadline */
	int n_heap, cap_heap;
	struct equeue *parked; /* queues with parked receives */
	uint64_t due_gen;
	int64_t next_lease, next_ttl, next_retention, next_dedup; /* schedule time; lower bounds */
	bool redrives_reload;
	bool sweep_due;        /* edits may be staged for redrives that have ended */
	bool redrives_outcome; /* a redriven message had its outcome since redrives_step */
	struct arena redrive_arena;
	struct store_redrive *redrives;
	int n_redrives;
	struct redrive_run *runs; /* one for each of redrives */
	int n_runs;
	int redrive_turn;
	int redrive_step;      /* members moved by one batch: as many as keep it short */
	int64_t redrive_yield; /* schedule time: callers come first until then */
	int64_t beside_us;     /* when members were last moved in a batch of callers */
	int64_t worked_us;     /* when a caller's operation was last applied */
	struct redrive_error redrive_errors[REDRIVE_ERRORS];
	int next_redrive_error;
	struct arena scratch;
	int64_t *nonces;
	struct store_delivery *claimed;
	int64_t *seqs;
	struct group_keys *group_keys;
	bool archive_failing;
	int64_t commits_since_maintain;
	int64_t probe_at;

	/* status */
	atomic_int refuse; /* enum dlq_code; OK: durable work is accepted */
	pthread_mutex_t status_lock;
	char refuse_detail[200];
	atomic_llong commits, committed_ops, last_commit_us, max_commit_us, parked_count;

	char *on_dead_letter; /* writer: of queues that set none; NULL: none */

	/* queues; written by the writer under the write lock */
	pthread_rwlock_t table_lock;
	struct equeue **by_name, **by_id;
	size_t n_buckets;
	int n_queues;

	/* tokens.c */
	pthread_rwlock_t token_lock;
	struct token *tokens;
	int n_tokens;

	/* readers.c */
	pthread_mutex_t read_lock;
	pthread_cond_t read_cond;
	struct engine_op *read_head, *read_tail;
	int read_waiting;
	bool read_stop;
	pthread_t *reader_threads;
	int n_readers;

	struct scanner *scan;

	/* The two below; held while the writer wakes one, so that neither ends meanwhile. */
	pthread_mutex_t clients_lock;
	struct push *push;
	struct notify *notify;
};

/* ---- engine.c ---- */
void op_list_push(struct engine_op **head, struct engine_op **tail, struct engine_op *op);
void ops_post(struct engine_op *list); /* gives finished operations back, one post per port */
bool op_is_read(enum op_type t);
bool op_is_scan(enum op_type t);
/* One operation for the writer, past the scan thread. Any thread. */
void writer_submit(struct engine *e, struct engine_op *op);

/* ---- writer.c ---- */
void *writer_main(void *arg);
/* Does one batch of what is due; false when nothing was due. Writer. */
bool writer_once(struct engine *e);
int64_t writer_next_wake(struct engine *e);
/* Opens the batch's transaction if it is not open yet. */
enum dlq_code batch_tx(struct engine *e, struct batch *b, struct dlq_err *err) MUST_USE;
void batch_finish(struct batch *b, struct engine_op *op);
void writer_fail(struct engine *e, struct batch *b, enum dlq_code code, const struct dlq_err *err);

/* ---- park.c: long polls ---- */
static inline bool port_full(const struct op_port *p)
{
	return p->given_max && atomic_load(&p->given) >= p->given_max;
}
void park(struct engine *e, struct equeue *q, struct engine_op *op);
void unpark(struct engine *e, struct equeue *q, struct engine_op *op);
struct engine_op *park_first(struct engine *e); /* the one with the earliest deadline, or NULL */
struct engine_op *park_find(struct engine *e,
                            const struct engine_op *op); /* op if it is parked, without looking into it */
/* All parked receives of q (NULL: of all queues) come back with code. */
void park_flush(struct engine *e, struct batch *b, struct equeue *q, enum dlq_code code, const char *detail);
/* Serves parked receives of queues that have something due. */
enum dlq_code park_serve(struct engine *e, struct batch *b, struct dlq_err *err) MUST_USE;

/* ---- ops_*.c: apply one operation; the code is the operation's, a store_fatal one loses the batch ---- */
enum dlq_code op_send(struct engine *e, struct batch *b, struct engine_op *op);
enum dlq_code op_receive(struct engine *e, struct batch *b, struct engine_op *op);
enum dlq_code op_settle(struct engine *e, struct batch *b, struct engine_op *op);
enum dlq_code op_extend(struct engine *e, struct batch *b, struct engine_op *op);
enum dlq_code op_queue_put(struct engine *e, struct batch *b, struct engine_op *op);
enum dlq_code op_queue_delete(struct engine *e, struct batch *b, struct engine_op *op);
enum dlq_code op_queue_pause(struct engine *e, struct batch *b, struct engine_op *op);
enum dlq_code op_apply_queues(struct engine *e, struct batch *b, struct engine_op *op);
enum dlq_code op_redrive(struct engine *e, struct batch *b, struct engine_op *op);
enum dlq_code op_redrive_pick(struct engine *e, struct batch *b, struct engine_op *op);
enum dlq_code op_redrive_control(struct engine *e, struct batch *b, struct engine_op *op);
enum dlq_code op_restore(struct engine *e, struct batch *b, struct engine_op *op);
enum dlq_code op_group_set(struct engine *e, struct batch *b, struct engine_op *op);
enum dlq_code op_give_up(struct engine *e, struct batch *b, struct engine_op *op);
enum dlq_code op_import(struct engine *e, struct batch *b, struct engine_op *op);
enum dlq_code op_discard(struct engine *e, struct batch *b, struct engine_op *op);
enum dlq_code op_audit(struct engine *e, struct batch *b, struct engine_op *op);
enum dlq_code op_token_add(struct engine *e, struct batch *b, struct engine_op *op);
enum dlq_code op_token_revoke(struct engine *e, struct batch *b, struct engine_op *op);
enum dlq_code op_notice_claim(struct engine *e, struct batch *b, struct engine_op *op);
enum dlq_code op_notice_settle(struct engine *e, struct batch *b, struct engine_op *op);

/* ops_message.c */
/* Leases what is deliverable for op; op->u.receive.n may stay 0. */
enum dlq_code receive_fill(struct engine *e, struct batch *b, struct equeue *q, struct engine_op *op) MUST_USE;
/* Who failed. Empty parts: as the lease says, as the worker said when it received. */
struct worker_id {
	struct str name, version;
};
/* Classifies the failure and applies route's answer to a leased message. item: NULL, or where the answer is told. */
enum dlq_code lease_fail(struct engine *e, struct batch *b, struct equeue *q, const struct store_lease *l,
                         enum outcome said, const struct failure *f, struct worker_id worker, int64_t retry_after_ms,
                         struct engine_settle_item *item, struct dlq_err *err) MUST_USE;
int64_t retention_due_ms(struct engine *e, struct batch *b, const struct equeue *q);
/* It was redriven as often as its queue allows, and now that it dies again it is given up: the log says so. */
bool redrives_used_up(struct engine *e, const struct equeue *q, const struct store_lease *l);
bool queue_due_known(const struct engine *e, const struct equeue *q);
void queue_due_at(struct engine *e, struct equeue *q, int64_t due); /* something becomes deliverable at due */

/* ---- group_key.c: writer, but for group_key_make ---- */
/* The message that stands for all leases that ended: which worker it was says nothing about the failure. */
#define GROUP_LEASE_EXPIRED STR("the worker did not settle before its lease ended")
/* The group of a failure of that queue; texts are borrowed, the normal form is in the arena. Any thread. */
void group_key_make(struct arena *a, struct str queue, struct str type, struct str message, struct str detail, struct str given,
                    struct store_group_key *k);
struct group_keys *group_keys_new(void);
void group_keys_free(struct group_keys *g); /* takes NULL */
int64_t group_keys_made(const struct group_keys *g);
/* The group of a failed delivery. given: a fingerprint that the worker or a rule set, or empty. Valid until the next call. */
const struct store_group_key *group_key(struct engine *e, const struct equeue *q, const struct store_attempt *at,
                                        struct str given);
void worker_version_learn(struct engine *e, struct str worker, struct str version);
struct str worker_version_of(const struct engine *e, struct str worker); /* empty: not known */

/* ---- ops_queue.c ---- */
struct equeue *equeue_find(struct engine *e, struct str name);   /* writer, or under table_lock */
struct equeue *equeue_by_id(struct engine *e, int64_t queue_id); /* likewise */
/* The queue an operation names, or NULL with NOT_FOUND set. */
struct equeue *equeue_need(struct engine *e, struct engine_op *op);
enum dlq_code queues_load(struct engine *e, struct dlq_err *err) MUST_USE;
void queues_free(struct engine *e);
/* Settings of every queue, one reference each; the caller unrefs them and frees the array with mem_free. Any thread. */
int engine_queue_snapshot(struct engine *e, struct queue_config ***out);

/* ---- redrive_run.c: writer ---- */
enum dlq_code redrives_step(struct engine *e, struct batch *b, struct dlq_err *err) MUST_USE;
/* When a redrive has something to do; 0: now, NEVER: none. */
int64_t redrives_next(const struct engine *e);
/* e->redrives again from the store, if they may have changed. */
enum dlq_code redrives_load(struct engine *e, struct batch *b, struct dlq_err *err) MUST_USE;
struct store_redrive *redrive_active_by_id(struct engine *e, struct str id);
/* What replaces body and headers of one message; NULL: nothing does. */
struct redrive_put {
	const struct str *body, *headers;
};
/* Does with at most max members what its action is. *taken: how many were met; fewer than max: there are no more. */
enum dlq_code redrive_move(struct engine *e, struct batch *b, struct store_redrive *r, struct redrive_put put, int max,
                           int *taken, struct dlq_err *err) MUST_USE;
/* why is copied. */
enum dlq_code redrive_halt(struct engine *e, struct batch *b, struct store_redrive *r, struct str why, struct dlq_err *err) MUST_USE;
/* "redrive.start", "discard.start", ...: the action of an audit row. */
const char *redrive_audit_action(enum redrive_action action, const char *what, char out[48]);
enum dlq_code redrive_finish(struct engine *e, struct batch *b, struct store_redrive *r, struct dlq_err *err) MUST_USE;
/* A redriven message died again. */
void redrive_failed(struct engine *e, int64_t seq, struct str type, struct str message);

/* ---- ops_redrive.c ---- */
/* What can be said of an OP_REDRIVE before anything is looked up. Any thread. */
enum dlq_code redrive_check(struct engine_op *op) MUST_USE;

/* ---- scan.c: the scan thread, see scan_int.h ---- */
void scan_new(struct engine *e);
enum dlq_code scan_start(struct engine *e, struct dlq_err *err) MUST_USE;
void scan_submit(struct engine *e, struct engine_op *op); /* any thread */
/* Whether an operation of the writer's has to be looked at by the scan thread first. */
bool scan_first(const struct engine_op *op);
void scan_plans_publish(struct engine *e);                /* writer, after a commit */
int64_t scan_next_wake(struct engine *e);                 /* single_step: when a plan goes on; NEVER: none does */
bool scan_once(struct engine *e);                         /* without the thread: does all that waits */
void scan_stop(struct engine *e);
void scan_free(struct engine *e);                         /* takes one that was never made */

/* ---- read_groups.c: any thread with its own reader ---- */
/* By fingerprint text; NOT_FOUND. */
enum dlq_code group_by_text(struct store_reader *r, struct str id, struct arena *a, struct store_group *out,
                          struct dlq_err *err) MUST_USE;
enum dlq_code group_missing(struct str id, struct dlq_err *err); /* NOT_FOUND with its text */
enum dlq_code read_groups(struct engine *e, struct store_reader *r, struct engine_op *op) MUST_USE;
enum dlq_code read_group(struct engine *e, struct store_reader *r, struct engine_op *op) MUST_USE;

/* ---- timers.c ---- */
enum dlq_code timers_run(struct engine *e, struct batch *b, struct dlq_err *err) MUST_USE;
/* Buries what outlived its TTL. After it, e->next_ttl <= now means that a backlog is left: nothing may be delivered. */
enum dlq_code ttl_run(struct engine *e, struct batch *b, struct dlq_err *err) MUST_USE;
bool timers_due(const struct engine *e, int64_t now);
int64_t timers_next(const struct engine *e);
void timers_reset(struct engine *e); /* nothing known: look everything up again */

/* ---- archive.c: a transaction of its own ---- */
void archive_step(struct engine *e, int64_t now);

/* ---- audit.c ---- */
/* op NULL: the engine itself did it. */
enum dlq_code audit_row(struct engine *e, struct batch *b, const struct engine_op *op, const char *action,
                        struct str queue, struct str target, struct str reason, struct str detail,
                        struct dlq_err *err) MUST_USE;
/* A reason an operator must give: 1 to 1000 bytes of UTF-8. */
enum dlq_code reason_check(struct str reason, struct dlq_err *err) MUST_USE;

/* ---- tokens.c ---- */
enum dlq_code tokens_load(struct engine *e, struct dlq_err *err) MUST_USE;
void tokens_free(struct engine *e);

/* ---- readers.c ---- */
enum dlq_code readers_start(struct engine *e, struct dlq_err *err) MUST_USE;
void readers_submit(struct engine *e, struct engine_op *op); /* any thread */
void readers_stop(struct engine *e);                         /* what waits is done first */
bool readers_once(struct engine *e); /* single_step: does all that waits on the writer's reader */
enum dlq_code redrive_by_id(struct store_reader *r, struct str id, struct arena *a, struct store_redrive *out,
                            struct dlq_err *err) MUST_USE;
/* By text id; NOT_FOUND. The whole id is compared. */
enum dlq_code dead_by_id(struct store_reader *r, struct str id, struct arena *a, struct store_dead *out,
                         struct dlq_err *err) MUST_USE;

/* ---- receipt.c ---- */
struct receipt {
	int64_t queue_id, seq, nonce;
};
void receipt_write(const struct receipt *r, char out[RECEIPT_LEN + 1]);
bool receipt_parse(struct str text, struct receipt *out);

#endif
