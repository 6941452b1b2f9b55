/*
 * internal.h - what the files of the SQLite store share.
 *
 * ERRORS. A connection remembers its first error (conn.rc); from then on its statements do nothing, so an operation may
 * run all its steps and ask once, at its end, with conn_code. The writer's error is cleared by rollback (every error
 * loses the transaction), a reader's at the start of its next read.
 *
 * LOCKS. ck_lock guards the state of the checkpoint thread and of the gate for readers; nothing else is taken under it.
 */
#ifndef STORE_SQLITE_INTERNAL_H
#define STORE_SQLITE_INTERNAL_H

#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/sqlite/sqlite_store.h"
#include "store/sqlite/statements.h"

#define SQLITE_STORE_APP_ID 0x646c7131 /* "dlq1" */
#define I(x) ((int64_t)(x))            /* q_bind takes 64-bit integers only */
#define BULK 8                         /* rows of one multi-row INSERT */

enum statement {
#define X(name, sql) Q_##name,
	STATEMENTS(X)
#undef X
	Q_BULK_PAYLOAD,
	Q_BULK_READY,
	Q_BULK_LEASED, /* BULK rows each, text built at first use */
	Q_COUNT
};

struct conn {
	sqlite3 *db;
	sqlite3_stmt *st[Q_COUNT];
	int rc; /* the first error, or SQLITE_OK */
	int sys_errno;
	char msg[240];
};

/* ---- sql.c ---- */
enum dlq_code conn_open(struct conn *c, const char *path, int flags, const char *vfs); /* vfs: NULL for the default */
void conn_close(struct conn *c);
bool conn_exec(struct conn *c, const char *sql);
void conn_fault(struct conn *c, int rc);
enum dlq_code conn_code(struct conn *c, struct dlq_err *err); /* DLQ_OK or what conn.rc means */
void conn_clear(struct conn *c);
/* The statement, reset and ready to bind; NULL after an error. */
sqlite3_stmt *q_get(struct conn *c, enum statement q);
/* args: i int64_t, t struct str as text (empty: NULL), T text never NULL, b struct str as blob, d double, n int64_t where
 * 0 is NULL, x and B a pointer to struct str as text and blob (NULL pointer: NULL). Text and blobs are borrowed until the statement is reset. */
sqlite3_stmt *q_bind(struct conn *c, enum statement q, const char *args, ...);
bool q_row(struct conn *c, sqlite3_stmt *st); /* false: no more (and reset), or an error */
void q_end(sqlite3_stmt *st);                 /* after a q_row that was true; takes NULL */
/* Binds and runs one that gives no rows; how many rows it changed. */
int q_run(struct conn *c, enum statement q, const char *args, ...);
int q_step(struct conn *c, sqlite3_stmt *st);                                      /* the same for one already bound */
bool q_int(struct conn *c, enum statement q, int64_t *out, const char *args, ...); /* first column of the first row */
int64_t col(sqlite3_stmt *st, int i);
struct str col_str(sqlite3_stmt *st, int i); /* borrowed until the next step */
struct str col_copy(sqlite3_stmt *st, int i, struct arena *a);
void bind_text(sqlite3_stmt *st, int i, struct str s); /* empty: NULL */

/* ---- migrate.c ---- */
extern const int sqlite_schema_version;
bool migrate_run(struct conn *c, int from);

/* ---- the writer's side ---- */

struct sq_queue {
	int64_t queue_id;
	bool ordered;
	bool touched, created, deleted; /* in the open transaction */
	struct store_counts now, saved; /* saved: as of the last commit; set when touched */
};

struct lease_end {
	int64_t until, seq;
};
/* A min-heap of when leases end. Entries whose lease is gone or was extended are dropped when they come up. */
struct lease_heap {
	struct lease_end *v;
	size_t n, cap;
};

/* Numbers that rise for ever: `next` is given out; all below `reserved` are written down as used. */
struct number {
	const char *meta;
	int64_t next, reserved, reserved_saved;
};

struct claimed {
	int64_t seq, due, attempts, lease_expirations, redrives, previous_delay, size, expires;
};

/* What one worker adds to a group in the open transaction. */
struct worker_use {
	char *worker, *version;
	int64_t failures, first_at, last_at;
};

/*
 * A group as the writer sees it: a cache of its row, dropped as a whole by rollback and when it has grown. What a
 * transaction adds is gathered here and written once, by groups_flush.
 */
struct sq_group {
	struct sq_group *next_key, *next_id; /* chains of the two tables */
	int64_t group_id, queue_id;
	uint8_t fp[16];
	enum group_status status;
	int64_t muted_until, muted_deaths, merged_into, merged;
	int64_t last_no, dead, redriving, redriven, failed_again, discarded, archived, deaths, failures, recovered,
	    first_seen, last_seen;
	int64_t n_workers;
	bool dirty;                          /* in sq_groups.dirty */
	int64_t tx_failures, tx_deaths;      /* not yet in the histories */
	struct worker_use *uses;             /* not yet in fgroup_worker */
	size_t n_uses, cap_uses;
};

#define GROUP_CHAINS 1024u
struct sq_groups {
	struct sq_group *by_key[GROUP_CHAINS], *by_id[GROUP_CHAINS];
	size_t n;
	struct sq_group **dirty;
	size_t n_dirty, cap_dirty;
	bool changed;     /* in the open transaction */
	int64_t swept_at; /* minute up to which the histories were swept; 0: not known */
	bool kept_history; /* in the open transaction */
};

struct sq_store {
	struct store base;
	struct conn w;
	struct clock *clock;
	char *dir, *path;
	int lock_fd;
	bool no_sync, open_ok;
	uint64_t id_key;
	struct sq_queue **queues; /* by queue_id */
	size_t n_queues, cap_queues;
	struct sq_queue **touched;
	size_t n_touched, cap_touched;
	struct sq_queue *last; /* of the last lookup */
	struct number seq, died_no, group_no;
	struct sq_groups groups;
	struct lease_heap heap;
	struct lease_end *popped; /* taken from the heap in this transaction: back into it if it fails */
	size_t n_popped, cap_popped;
	int64_t ttl_bound; /* no waiting message has a TTL that ends before it */
	struct claimed *claimed;
	size_t cap_claimed;
	bool in_tx;
	int64_t now, wall; /* at begin */
	int64_t changes0;
	int64_t high_open, high_written;

	/* checkpoint.c */
	struct conn ck;
	pthread_t ck_thread, writer; /* writer: of the last commit */
	bool ck_started;
	pthread_mutex_t ck_lock;
	pthread_cond_t ck_wake, gate_open;
	bool ck_request, ck_busy, ck_done, ck_stop, gate_closed;
	int64_t commit_ms; /* monotonic, of the last commit */
	int ck_rc;
	int wal_pages; /* the writer's own */
};

struct sq_reader {
	struct store_reader base;
	struct sq_store *store;
	struct conn c;
	int64_t until_us; /* monotonic: when the read under way has taken too long */
};

static inline struct sq_store *sq(struct store *s)
{
	return (struct sq_store *)s;
}

/* tx.c */
struct sq_queue *queue_find(struct sq_store *s, int64_t queue_id); /* NULL: none */
struct sq_queue *queue_add(struct sq_store *s, int64_t queue_id, bool ordered);
struct store_counts *queue_touch(struct sq_store *s, struct sq_queue *q); /* its counts, to be changed */
int64_t number_take(struct sq_store *s, struct number *n);
void *scratch_grow(void *p, size_t need, size_t *cap, size_t size);
enum dlq_code sq_begin(struct store *s, struct dlq_err *err);
enum dlq_code sq_commit(struct store *s, struct dlq_err *err);
void sq_rollback(struct store *s);
enum dlq_code sq_probe(struct store *s, struct dlq_err *err);
/* Fills the memory side from the tables. */
bool memory_load(struct sq_store *s);
void memory_free(struct sq_store *s);

/* checkpoint.c */
bool checkpoint_start(struct sq_store *s);
void checkpoint_stop(struct sq_store *s);
void checkpoint_after_commit(struct sq_store *s);
void sq_maintain(struct store *s);
void wal_gate_wait(struct sq_store *s); /* readers, before a read transaction */

/* walbuf.c */
#define WALBUF_VFS "dlq-walbuf"
void walbuf_register(void); /* once per process */
bool walbuf_fits(struct conn *c);

/* heap.c */
void heap_push(struct lease_heap *h, int64_t until, int64_t seq);
struct lease_end heap_pop(struct lease_heap *h);
enum dlq_code sq_expired_leases(struct store *s, int64_t now, int max, struct arena *a, struct store_lease *out, int *n,
                                int64_t *next, struct dlq_err *err);
bool heap_load(struct sq_store *s);
void heap_trim(struct sq_store *s);

/* open.c */
enum dlq_code sq_open(const struct store_options *o, struct store **out, struct dlq_err *err);
void sq_close(struct store *s);
int64_t sq_high_water_ms(struct store *s);

/* ids.c */
void id_message(const struct sq_store *s, int64_t received_at, int64_t seq, char out[ULID_LEN + 1]);
void id_dead(const struct sq_store *s, int64_t first_died_at, int64_t seq, char out[ULID_LEN + 1]);
void id_redrive(const struct sq_store *s, int64_t started_at, int64_t n, char out[ULID_LEN + 1]);
struct str id_message_copy(const struct sq_store *s, struct arena *a, struct str given, int64_t received_at,
                           int64_t seq);

/* waiting.c: a message that waits. Both are given `expires` 0 for one without TTL or with redrives. */
struct waiting {
	int64_t queue_id, due, seq, attempts, lease_expirations, redrives, previous_delay, expires;
};
void waiting_add(struct sq_store *s, struct sq_queue *q, const struct waiting *w);
/* The message leaves its lane for ever; the next of the key becomes ready. Whether one did. */
bool lane_leave(struct sq_store *s, struct sq_queue *q, struct str key, int64_t seq);
bool lane_is_head(struct sq_store *s, int64_t queue_id, struct str key, int64_t seq);
enum dlq_code sq_next_due(struct store *s, int64_t queue_id, int64_t *due, struct dlq_err *err);
enum dlq_code sq_expired_ttl(struct store *s, int64_t now, int max, struct arena *a, struct store_lease *out, int *n,
                             int64_t *next, struct dlq_err *err);
enum dlq_code sq_dedup_sweep(struct store *s, int64_t now, int max, int *n, int64_t *next, struct dlq_err *err);

/* send.c, lease.c */
enum dlq_code sq_send(struct store *s, int64_t queue_id, int64_t max_messages, int64_t max_bytes,
                      struct store_send *items, int n, struct dlq_err *err);
enum dlq_code sq_claim(struct store *s, int64_t queue_id, int64_t now, int64_t lease_until, struct str worker,
                       const int64_t *nonces, int max, struct arena *a, struct store_delivery *out, int *n,
                       struct dlq_err *err);
enum dlq_code sq_done(struct store *s, int64_t queue_id, int64_t seq, int64_t nonce, bool *unheld, struct dlq_err *err);
enum dlq_code sq_lease_get(struct store *s, int64_t queue_id, int64_t seq, int64_t nonce, struct arena *a,
                           struct store_lease *out, struct dlq_err *err);
enum dlq_code sq_extend(struct store *s, int64_t queue_id, int64_t seq, int64_t nonce, int64_t until,
                        struct dlq_err *err);
enum dlq_code sq_release(struct store *s, const struct store_lease *l, int64_t due, struct dlq_err *err);
enum dlq_code sq_retry(struct store *s, const struct store_lease *l, const struct store_attempt *at,
                       int lease_expirations, int64_t due, int64_t delay_ms, struct dlq_err *err);

/* headers.c: canonical JSON of strings, one after the other; text is name, NUL, value of the one at hand. */
struct headers {
	struct str json;
	size_t at, name_len;
	struct buf text;
};
void headers_begin(struct headers *h, struct str json);
bool headers_next(struct headers *h); /* false: no more, or not such JSON */
void headers_end(struct headers *h);
bool headers_have(struct str json, struct str name, struct str value);
int64_t header_hash(struct str name, struct str value); /* 63 bits, the same for ever */
/* Into and out of the index; nothing for empty JSON. */
void headers_index(struct sq_store *s, struct str json, int64_t died_no, int64_t seq);
void headers_unindex(struct sq_store *s, struct str json, int64_t died_no, int64_t seq);
/* Those to be delivered. */
struct str headers_now(struct sq_store *s, int64_t seq, bool edited, struct arena *a);
void headers_function(struct conn *c); /* SQL's header_hash, for the migration */

/* dead.c */
void attempt_add(struct sq_store *s, int64_t seq, const struct store_attempt *at, int64_t group_id);
enum dlq_code sq_bury(struct store *s, const struct store_lease *l, const struct store_attempt *at,
                      int lease_expirations, enum reason reason, int64_t retention_due, bool notify, bool give_up,
                      char dlq_id[ULID_LEN + 1], struct dlq_err *err);
enum dlq_code sq_discard_one(struct store *s, int64_t seq, int64_t redrive_n, struct str operator, struct str why, struct dlq_err *err);
enum dlq_code sq_give_up_one(struct store *s, int64_t seq, int64_t redrive_n, struct str operator, struct str why, struct dlq_err *err);
enum dlq_code sq_restore_one(struct store *s, int64_t seq, int64_t redrive_n, struct str operator, struct str why, struct dlq_err *err);
enum dlq_code sq_retention_due(struct store *s, int64_t now, int max, int64_t *seqs, int *n, int64_t *next,
                               struct dlq_err *err);
enum dlq_code sq_archive_one(struct store *s, int64_t seq, struct dlq_err *err);
struct dead_facts {
	int64_t seq, queue_id, redrives, died_no, first_died_at, redrive_n, body_bytes, group_id;
	int state;
	bool edited;
	struct str key; /* in the arena */
};
bool dead_load(struct sq_store *s, int64_t seq, struct arena *a, struct dead_facts *out);
/* The facts of a dead letter; NOT_FOUND, CONFLICT unless its state is one of these (a bit each), IN_REDRIVE. */
enum dlq_code dead_free(struct sq_store *s, int64_t seq, int64_t redrive_n, unsigned states, struct arena *a, struct dead_facts *out,
                        struct dlq_err *err);
/* It leaves its state: queue and group have one less of it. */
void dead_leave(struct sq_store *s, const struct dead_facts *d);

/* import.c */
enum dlq_code sq_import_one(struct store *s, struct store_import *i, struct dlq_err *err);

/* put_back.c */
enum dlq_code sq_redrive_one(struct store *s, int64_t seq, const struct store_put_back *p, struct dlq_err *err);
/* After an operation on one member (redrive_n 0: of none): a refusal goes into the ledger and, with its text, into err. */
enum dlq_code member_end(struct sq_store *s, int64_t redrive_n, int64_t seq, enum dlq_code c, struct dlq_err *why, struct dlq_err *err);
/* What is done with a member at once succeeded: ledger, count, and the dead letter says which redrive it was. */
void member_handled(struct sq_store *s, int64_t redrive_n, int64_t seq);

/* redrive.c, plan.c */
enum dlq_code redrive_conflict(struct sq_store *s, const struct dead_facts *d, int64_t redrive_n, struct dlq_err *err);
unsigned redrive_takes(enum redrive_action action, bool override); /* dead letters of which states, a bit each */
void redrive_row(const struct sq_store *s, sqlite3_stmt *st, struct arena *a, struct store_redrive *out);
enum dlq_code redrive_load(struct sq_store *s, int64_t n, struct arena *a, struct store_redrive *out, struct dlq_err *err);
bool item_add(struct sq_store *s, int64_t redrive_n, int64_t ord, const struct dead_facts *d, enum item_state state, struct str note);
enum dlq_code sq_redrive_create(struct store *s, struct store_redrive *r, const int64_t *seqs, int n_seqs,
                                struct dlq_err *err);
enum dlq_code sq_redrive_next(struct store *s, int64_t redrive_n, int max, int64_t *seqs, int *n, struct dlq_err *err);
enum dlq_code sq_redrive_mark(struct store *s, int64_t redrive_n, int64_t sent, int64_t skipped,
                              enum redrive_state state, struct dlq_err *err);
enum dlq_code sq_redrive_active(struct store *s, struct arena *a, struct store_redrive **out, int *n,
                                struct dlq_err *err);
enum dlq_code sq_redrive_state(struct store *s, const struct store_redrive *r, struct dlq_err *err);
enum dlq_code sq_redrive_pick(struct store *s, int64_t redrive_n, const struct store_redrive_pick *picks, int n, int64_t looked,
                              int64_t plan_next, struct dlq_err *err);
enum dlq_code sq_redrive_sweep(struct store *s, int max, int *n, struct dlq_err *err);

/* admin.c */
enum dlq_code sq_queue_create(struct store *s, struct str name, struct str config, bool ordered, int64_t *queue_id,
                              struct dlq_err *err);
enum dlq_code sq_queue_update(struct store *s, int64_t queue_id, struct str config, struct dlq_err *err);
enum dlq_code sq_queue_pause(struct store *s, int64_t queue_id, bool paused, struct dlq_err *err);
enum dlq_code sq_queue_delete(struct store *s, int64_t queue_id, struct dlq_err *err);
enum dlq_code sq_queue_load(struct store *s, struct arena *a, struct store_queue **out, int *n, struct dlq_err *err);
const struct store_counts *sq_queue_counts(struct store *s, int64_t queue_id);
void queue_row(sqlite3_stmt *st, struct arena *a, struct store_queue *out);
enum dlq_code sq_audit_add(struct store *s, const struct store_audit *a, struct dlq_err *err);
enum dlq_code sq_token_add(struct store *s, const struct store_token *t, int64_t *token_id, struct dlq_err *err);
enum dlq_code sq_token_revoke(struct store *s, struct str name, struct dlq_err *err);
enum dlq_code sq_token_load(struct store *s, struct arena *a, struct store_token **out, int *n, struct dlq_err *err);
enum dlq_code sq_notice_due(struct store *s, int64_t now, int max, struct arena *a, struct store_notice *out, int *n,
                            int64_t *next, struct dlq_err *err);
enum dlq_code sq_notice_done(struct store *s, int64_t n, struct dlq_err *err);
enum dlq_code sq_notice_later(struct store *s, int64_t n, int64_t due, struct str error, struct dlq_err *err);
enum dlq_code sq_meta_set(struct store *s, const char *name, struct str value, struct dlq_err *err);
enum dlq_code sq_meta_get(struct store *s, const char *name, struct arena *a, struct str *value, struct dlq_err *err);
/* A list that grows in an arena: the item to fill next. */
void *list_grow(struct arena *a, void *list, int n, size_t size);

/* read.c */
enum dlq_code sq_reader_open(struct store *s, struct store_reader **out, struct dlq_err *err);
void sq_reader_close(struct store_reader *r);
enum dlq_code sq_read_queues(struct store_reader *r, struct str after, int limit, struct arena *a,
                             struct store_queue **out, int *n, struct dlq_err *err);
enum dlq_code sq_read_queue(struct store_reader *r, struct str name, struct arena *a, struct store_queue *out,
                            struct dlq_err *err);
enum dlq_code sq_read_dead_list(struct store_reader *r, const struct store_dead_filter *f, struct arena *a,
                                struct store_dead_page *out, struct dlq_err *err);
enum dlq_code sq_read_dead(struct store_reader *r, int64_t seq, struct arena *a, struct store_dead *out,
                           struct dlq_err *err);
enum dlq_code sq_read_expiring(struct store_reader *r, int64_t queue_id, int64_t before, int64_t max, int64_t *n, struct dlq_err *err);
enum dlq_code sq_read_attempts(struct store_reader *r, int64_t seq, int max, struct arena *a,
                               struct store_attempt **out, int *n, struct dlq_err *err);
enum dlq_code sq_read_body(struct store_reader *r, int64_t seq, bool original, struct arena *a, struct str *body,
                           struct str *content_type, struct dlq_err *err);
enum dlq_code sq_read_redrives(struct store_reader *r, int64_t before_n, int limit, struct arena *a,
                               struct store_redrive **out, int *n, struct dlq_err *err);
enum dlq_code sq_read_redrive(struct store_reader *r, int64_t n, struct arena *a, struct store_redrive *out,
                              struct dlq_err *err);
enum dlq_code sq_read_audit(struct store_reader *r, int64_t before_n, int limit, struct arena *a,
                            struct store_audit **out, int *n, struct dlq_err *err);


/* read.c */
struct sq_reader *rd(struct store_reader *r);
int page_limit(int limit); /* 1 to 1000 */
void read_begin(struct sq_reader *r);
enum dlq_code read_end(struct sq_reader *r, enum dlq_code code, struct dlq_err *err);
bool dead_fetch(struct sq_reader *r, int64_t seq, struct arena *a, struct store_dead *out); /* false: there is none, or an error */
/* The edited body, borrowed until q_end of what it gives; NULL: it is the original one. */
sqlite3_stmt *body_edited(struct sq_reader *r, int64_t seq, struct str *body);

/* walk.c: the dead letters of several groups or queues, in the order of dying. */
struct walk_head {
	int64_t of, state, seq, no; /* of: a group or a queue */
};
struct dead_walk {
	struct conn *c;
	enum statement q; /* one of Q_WALK_* */
	struct str text;  /* the error type of Q_WALK_ERROR_DOWN */
	bool up;          /* oldest first */
	struct walk_head *heads;
	int n;
};
void walk_begin(struct dead_walk *w, struct conn *c, enum statement q, struct str text);
/* One more place, from after from_no. Heads are in the arena. All of them come before the first walk_next. */
void walk_add(struct dead_walk *w, int64_t of, int64_t state, int64_t from_no, struct arena *a);
bool walk_next(struct dead_walk *w, int64_t *seq, int64_t *no);
/* The group and those merged into it; group_ids has room for GROUP_MERGED_MAX + 1. How many. */
int group_family(struct conn *c, int64_t group_id, int64_t *group_ids);

/* groups.c */
struct sq_group *group_by_id(struct sq_store *s, int64_t group_id); /* NULL: none, or an error */
/* The same, to be changed: what it holds is written at commit. */
struct sq_group *group_touch(struct sq_store *s, int64_t group_id);
/* Found or made, to be changed. */
struct sq_group *group_of_key(struct sq_store *s, int64_t queue_id, const struct store_group_key *k);
/* A failed delivery; its group's id, 0: none. */
int64_t group_failure(struct sq_store *s, int64_t queue_id, const struct store_attempt *at, bool deadly);
void group_recovered(struct sq_store *s, int64_t seq); /* done after failures */
void groups_flush(struct sq_store *s);
void groups_sweep(struct sq_store *s); /* a bounded part of what is too old in the histories */
void groups_drop(struct sq_store *s);  /* forgets all that is cached, flushed or not */
void groups_keep(struct sq_store *s);  /* after a commit */
void groups_delete(struct sq_store *s, int64_t queue_id);
void queue_history(struct sq_store *s, const struct sq_queue *q);

/* group_read.c: one group as it stands in the tables, with those merged into it; false: there is none. */
bool group_fetch(struct sq_store *s, struct conn *c, int64_t group_id, struct arena *a, struct store_group *out);
int64_t group_id_of(struct conn *c, const uint8_t fp[16]); /* 0: none */

/* group_set.c, group_read.c, ledger.c */
enum dlq_code sq_group_get(struct store *s, const uint8_t fp[16], struct arena *a, struct store_group *out,
                           struct dlq_err *err);
enum dlq_code sq_group_set(struct store *s, const struct store_group *g, struct dlq_err *err);
enum dlq_code sq_read_audit_after(struct store_reader *r, int64_t after_n, int limit, struct arena *a,
                                  struct store_audit **out, int *n, struct dlq_err *err);
enum dlq_code sq_read_redrive_items(struct store_reader *r, int64_t redrive_n, int64_t after_ord, int limit,
                                    struct arena *a, struct store_redrive_item **out, int *n, int64_t *next,
                                    struct dlq_err *err);
enum dlq_code sq_read_groups(struct store_reader *r, const struct store_group_filter *f, struct arena *a,
                             struct store_group_page *out, struct dlq_err *err);
enum dlq_code sq_read_group(struct store_reader *r, const uint8_t fp[16], struct arena *a, struct store_group *out,
                            struct dlq_err *err);
enum dlq_code sq_read_group_merged(struct store_reader *r, int64_t group_id, struct arena *a, struct store_group **out,
                                   int *n, struct dlq_err *err);
enum dlq_code sq_read_group_workers(struct store_reader *r, int64_t group_id, struct arena *a,
                                    struct store_group_worker **out, int *n, struct dlq_err *err);
enum dlq_code sq_read_buckets(struct store_reader *r, int64_t queue_id, int64_t group_id, int64_t step_ms,
                              int64_t from_ms, int64_t to_ms, struct arena *a, struct store_bucket **out, int *n,
                              struct dlq_err *err);

#endif
