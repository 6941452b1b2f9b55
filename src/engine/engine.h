/*
 * engine.h - the use-cases. What HTTP and libdlq call; the only user of the store.
 *
 * A caller fills a struct engine_op, submits it and forgets about it until it comes back through its port. Changes are
 * applied by the one writer thread: all that waits goes into one transaction, and only after its commit do the operations
 * come back (group commit without timers). Reads run on a small pool of reader threads with a store_reader each.
 *
 * OWNERSHIP. From engine_submit until the op comes back, the op and all it points to belong to the engine. Inputs are
 * borrowed from the caller's memory (keep the request body alive). Outputs live in op->arena, which the caller releases
 * with engine_op_release.
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <stdatomic.h>

#include "core/diagnosis.h"
#include "core/policy.h"
#include "store/store.h"

struct engine;
struct engine_op;

/*
 * Where finished operations come back. `post` runs on an engine thread, once per batch, with a list linked by op->next;
 * it must only queue the list and wake its owner: no work, no lock held for long.
 */
struct op_port {
	void (*post)(struct op_port *port, struct engine_op *list);
	/* Messages that came back and were not told to engine_port_taken: past the limit receives wait. 0: no limit, nothing to tell. */
	int64_t given_max;
	atomic_llong given; /* bytes */
};

enum op_type {
	/* writer */
	OP_SEND, OP_RECEIVE, OP_SETTLE, OP_EXTEND,
	OP_QUEUE_PUT, OP_QUEUE_DELETE, OP_QUEUE_PAUSE,
	OP_REDRIVE, OP_REDRIVE_CONTROL, OP_REDRIVE_PICK, OP_DISCARD, OP_GIVE_UP, OP_RESTORE, OP_IMPORT, OP_GROUP_SET,
	OP_AUDIT, OP_TOKEN_ADD, OP_TOKEN_REVOKE,
	OP_NOTICE_CLAIM, OP_NOTICE_SETTLE, /* the notifier's own */
	OP_APPLY_QUEUES,                   /* the engine's own, see engine_apply_queues */
	/* readers */
	OP_READ_QUEUES, OP_READ_QUEUE, OP_READ_DEAD_LIST, OP_READ_DEAD, OP_READ_BODY,
	OP_READ_REDRIVES, OP_READ_REDRIVE, OP_READ_REDRIVE_ITEMS, OP_READ_AUDIT, OP_AUDIT_VERIFY,
	OP_READ_GROUPS, OP_READ_GROUP, OP_READ_EXPIRING,
	/* the scan thread: what may look at much, in bounded steps */
	OP_SCAN_DEAD, OP_EXPORT, OP_PREVIEW, OP_IMPORT_PARSE, OP_READ_ARCHIVE, OP_READ_ARCHIVED,
	OP_TYPE_COUNT
};

#define RECEIPT_LEN 44 /* text form of (queue_id, seq, nonce), without the NUL */

struct engine_settle_item {
	/* in */
	struct str receipt;
	enum outcome outcome;     /* ok, transient, permanent, release */
	struct failure failure;   /* transient, permanent */
	int64_t retry_after_ms;   /* transient: not earlier; release: delay */
	/* out */
	enum dlq_code code;       /* OK, GONE */
	enum effect_kind effect;  /* what happened to the message */
	enum reason reason;       /* EFFECT_DEAD */
	int attempts;
	int64_t retry_at_ms;      /* wall; EFFECT_RETRY, EFFECT_RELEASE with delay */
	char dlq_id[ULID_LEN + 1];/* EFFECT_DEAD */
};

struct engine_delivery {
	struct store_delivery d;
	char receipt[RECEIPT_LEN + 1];
	int64_t lease_until_wall_ms;
};

/*
 * Which dead letters: exactly one of ids, group, undo, and queue-or-filter. A filter with nothing in it but the queue is the whole queue.
 * In `filter` the caller sets what the API gives by value; queue_id, group_id and redrive_n are the engine's, made of the names here.
 */
struct engine_selection {
	struct str *ids; int n_ids;   /* dlq_ids */
	struct str group;             /* fingerprint text; with a filter: it is one more condition */
	struct str redrive;           /* redrive id: its members; one more condition */
	struct str undo;              /* redrive id: what it discarded or archived; only for ACTION_RESTORE */
	bool filtered;                /* filter, where or redrive says more than queue and group */
	struct store_dead_filter filter;
	struct str where;             /* jq; empty: none */
};

/* What happens to the messages on their way back. */
struct engine_edit {
	struct str program;           /* jq over the JSON body; empty: none */
	bool from_edited;             /* of one that was edited before the program gets the edited body, not the original */
	const struct store_header *set; int n_set;
	const struct str *remove; int n_remove;
};

/* What a step of a scan did. errors: messages for which `where` failed; they do not match. */
struct engine_scan { int64_t looked, errors; struct str first_error; };

struct engine_preview_item {
	struct store_dead d;
	bool failed; struct str error;    /* the program failed on it: it would be skipped */
	bool over_limit;                  /* its max_redrives is used up: it would be skipped without override */
	struct str set, removed;          /* header names, for people */
	const struct preview_change { struct str path, old, new; } *changes; int n_changes, more_changes; /* of the body */
	struct str warning;               /* what jq could not keep */
};

struct engine_op {
	struct engine_op *next;   /* the engine's while submitted; the port's list afterwards */
	enum op_type type;
	struct op_port *port;
	void *user;               /* the caller's */
	struct arena arena;       /* outputs */
	enum dlq_code code;       /* of the whole operation */
	struct dlq_err err;       /* with code != OK: the text */
	int64_t cost;             /* the engine's: input bytes */
	struct str queue;         /* name; where the operation has one */
	struct str operator;      /* token name, for audit; may be empty inside the engine */
	union {
		/* items: `due` and `expires` hold relative ms from now (0: at once / queue's ttl); -1 in expires: never.
		 * Code of the op is OK also when single items were refused (see items[i].code). */
		struct { struct store_send *items; int n; } send;
		struct {
			int max;                        /* 1 to 1000 */
			int64_t wait_ms;                /* long poll, 0 to 60000 */
			int64_t visibility_timeout_ms;  /* 0: the policy's; 1000 to 12 h (43200000) */
			struct str worker, worker_version; /* may be empty */
			int64_t max_bytes;              /* stop before the bodies together exceed this; 0: 16 MiB; at least one is given */
			struct engine_delivery *items; int n; /* out */
			int64_t given;                  /* out: what counts in op_port.given */
			int64_t deadline;               /* the engine's, as all below */
			struct engine_op *wait_next, *wait_prev;
			int heap_index;
			bool cancelled;
		} receive;
		struct { struct engine_settle_item *items; int n; struct str worker, worker_version; } settle;
		struct { struct str receipt; int64_t visibility_timeout_ms; int64_t lease_until_wall_ms; } extend;
		struct { struct queue_config *config; bool created; bool from_file; int64_t *engine_id; /* the engine's */ } queue_put; /* the engine takes one reference on success */
		struct { bool paused; } queue_pause;
		/*
		 * The selection's queue is op->queue. What needs a plan (engine/plan.h) answers at once, with total 0: its members are looked at
		 * after that. Programs are compiled before anything is written: BAD_REQUEST says where one is wrong.
		 */
		struct {
			struct engine_selection sel;
			enum redrive_action action;
			const struct str *body;    /* a replacement for exactly one id */
			struct engine_edit edit;   /* ACTION_REDRIVE */
			struct str to;             /* the destination queue; empty: each its own */
			struct redrive_guard guard;
			bool override_limit;       /* also those whose max_redrives is used up, and archived ones */
			struct str reason;
			bool dry_run;              /* only counts, needs no reason; not with a filter or an edit: OP_PREVIEW does that */
			struct store_redrive out;
		} redrive;
		/* The scan thread's own: a step of a planned redrive. failed: it cannot go on, and halts with `why`. */
		struct { int64_t redrive_n; const struct store_redrive_pick *picks; int n; int64_t bytes, looked, plan_next; bool failed; struct str why; } redrive_pick;
		struct { struct str id; enum redrive_state want; struct store_redrive out; } redrive_control; /* PAUSED, RUNNING, CANCELLED */
		struct { struct str id; struct str reason; } discard; /* and give_up (dead -> archived), restore */
		/* What changes; the others are left. Every change has an audit row. */
		struct {
			struct str id;             /* fingerprint text */
			bool set_status; enum group_status status;
			int64_t mute_for_ms, mute_deaths; /* GROUP_MUTED: at least one of them, or neither for ever */
			bool set_note, set_owner; struct str note, owner;
			bool merge; struct str into; /* empty: split off again */
			struct str reason;
			struct store_group out;
		} group_set;
		struct { struct store_audit row; } audit;
		/* secret: 43 characters of base64url, shown once */
		struct { struct str name; enum role role; struct str queues; int64_t ttl_ms; char secret[64]; bool secret_given; /* the engine's */ } token_add;
		struct { struct queue_config **list; int n; int64_t *ids; struct str on_dead_letter; } apply_queues;
		struct { struct str name; } token_revoke;
		struct { int max; struct store_notice *items; int n; int64_t next; } notice_claim;
		struct { int64_t n; bool ok; bool give_up; struct str error; int64_t delay_ms; } notice_settle;
		struct { struct str after; int limit; struct store_queue *items; int n; bool more; } read_queues;
		struct { struct store_queue out; struct queue_config *config; } read_queue; /* config: one reference, unref by engine_op_release */
		struct { struct store_dead_filter filter; struct store_dead_page page; } read_dead_list; /* op->queue empty: all */
		/* As read_dead_list, with text, where, group and redrive; a step of at most about 250 ms. */
		struct { struct engine_selection sel; struct store_dead_page page; struct engine_scan scan; } scan_dead;
		/* The same, as full records: one JSON line each (engine/record.h), at most about 8 MiB together. */
		struct { struct engine_selection sel; struct str lines; int n; int64_t next_no; struct engine_scan scan; } export;
		/*
		 * A step of what OP_REDRIVE would do with this selection and edit; before_no goes on where the last step ended (next_no).
		 * items: at most `limit` of those that change, fail or are over the limit, and of those that are just selected.
		 */
		struct {
			struct engine_selection sel; enum redrive_action action; struct engine_edit edit;
			bool override_limit;       /* as of redrive: archived ones are chosen, too, and none is over the limit */
			int limit;                 /* 0 to 100 */
			int64_t before_no;
			int64_t selected, changed, unchanged, failed, over_limit;
			struct engine_preview_item *items; int n; int64_t next_no;
			struct engine_scan scan;
		} preview;
		/*
		 * Records of an export, one JSON text each, at most 1000. Two operations: PARSE on the scan thread reads them and finds their
		 * groups, then IMPORT writes. The same op goes through both; op->queue, if given, takes the place of each record's queue.
		 */
		struct {
			struct str *records; int n;
			struct str reason;
			struct engine_import_result { enum dlq_code code; struct dlq_err err; bool exists; char dlq_id[ULID_LEN + 1]; struct str queue; } *results;
			struct store_import *parsed; /* the engine's */
			int64_t imported;
		} import;
		/* The archive's index, newest day first. from_day, to_day: "YYYY-MM-DD" or empty. cursor: as given back, or empty. */
		struct { struct str from_day, to_day, id, cursor; int limit; struct archive_entry *items; int n; struct str next; } read_archive;
		struct { struct str id; struct str record; struct str queue; } read_archived; /* dlq_id or message id (the newest); the whole line */
		struct { int64_t within_ms, n; } read_expiring; /* counted up to 100000 */
		/* id: dlq_id, or else a message id: its newest dead letter. Empty id: by store number (store_notice.seq). */
		struct { struct str id; int64_t seq; struct store_dead out; struct store_attempt *attempts; int n_attempts; } read_dead;
		struct { struct str id; bool original; struct str body, content_type; } read_body;
		struct { int64_t before_n; int limit; struct store_redrive *items; int n; } read_redrives;
		struct { struct str id; struct store_redrive out; } read_redrive;
		struct { int64_t before_n; int limit; struct store_audit *items; int n; } read_audit;
		/* Follows the hash chain in bounded steps over the reader. out: rows looked at, the first broken row or 0. */
		struct { int64_t rows, broken_n; bool more; int64_t after_n; uint8_t hash[32]; } audit_verify;
		struct { struct str id; int64_t after_ord; int limit; struct store_redrive_item *items; int n; int64_t next_ord; } read_redrive_items;
		struct { struct store_group_filter filter; struct store_group_page page; struct diagnosis *diagnoses; } read_groups;
		/* id: fingerprint text. With everything a person needs to understand it; brief: out alone, which is quick. */
		struct {
			struct str id;
			bool brief;
			struct store_group out;
			struct diagnosis *diagnosis;
			struct store_bucket *minutes; int n_minutes; /* last 60 min */
			struct store_bucket *hours; int n_hours;     /* last 7 days */
			struct store_group_worker *workers; int n_workers;
			struct store_group *merged; int n_merged;
			struct store_dead *samples; int n_samples;   /* newest 5 dead */
			char normal_rules[1200];                     /* the rules that made the normal form, in sentences */
		} read_group;
	} u;
};

/* One line of the archive's index. */
struct archive_entry {
	struct str queue, day;    /* the file is archive/QUEUE/DAY.jsonl.zst */
	struct str dlq_id, id, key, state, reason, error_type; /* state: what it was when its retention ended */
	int64_t died_at_ms, archived_at_ms;
};

void engine_op_release(struct engine_op *op); /* outputs; not the op itself */

struct engine_options {
	const char *store;            /* back end name; NULL: the default one */
	const char *dir;              /* data folder */
	struct clock *clock;          /* borrowed */
	uint64_t seed;                /* randomness; 0: from the system */
	int max_waiting_ops;          /* default 20000; past it BUSY */
	int64_t max_waiting_bytes;    /* input bytes waiting; default 64 MiB; past it BUSY */
	int batch_max;                /* operations per transaction; default 1024 */
	int readers;                  /* default 2 */
	const char *jq_program;       /* jq/jq.h: the program that runs as jq's child; NULL: where and edits by jq are refused */
	int64_t jq_memory_bytes, jq_item_ms, jq_output_bytes; /* 0: defaults of jq/jq.h */
	int64_t expires_soon_ms;      /* what "soon" is in lists and stats; default 3 d */
	int64_t cache_bytes;          /* store cache; 0: default */
	int max_waiting_receives;     /* long polls parked; default 10000 */
	bool no_sync;                 /* tests only: commits are not synced */
	bool single_step;             /* simulation and libdlq tests: no threads; engine_step does the work */
	/* Set by the server; NULL: none. */
	struct handler *push;         /* handler/handler.h: makes pushes; borrowed */
	struct sink *on_dead_letter;  /* alert/sink.h: makes the calls; borrowed */
};

enum dlq_code engine_open(const struct engine_options *o, struct engine **out, struct dlq_err *err) MUST_USE;
/* Threads start. Push and notices run from here on. */
enum dlq_code engine_start(struct engine *e, struct dlq_err *err) MUST_USE;
/* Drain: no new receives are answered with messages, parked ones come back empty, pushes under way are waited for until
 * deadline_ms (relative), then released (no attempt, invariant 8). Sends and settles still work. */
void engine_drain(struct engine *e, int64_t deadline_ms);
/* All submitted operations come back first. */
void engine_close(struct engine *e);

/*
 * Any thread. list: linked by next, at least one. Operations that cannot be queued (limits, shutting down) come back
 * through their port at once with BUSY or SHUTTING_DOWN, so every submitted op comes back exactly once.
 */
void engine_submit(struct engine *e, struct engine_op *list);
/* Takes a parked receive back early (its client went away): it comes back with no messages. Any thread. */
void engine_cancel_receive(struct engine *e, struct engine_op *op);
/* The port's owner needs the memory of messages with so many bytes (u.receive.given) no longer. Any thread. */
void engine_port_taken(struct engine *e, struct op_port *port, int64_t given);
/* Submit one and wait for it; for libdlq, the CLI of `serve`, tests. Not on an engine thread. */
void engine_call(struct engine *e, struct engine_op *op);
/* single_step: does all work that is due at the clock's now; returns when the next work is due (INT64_MAX: none). */
int64_t engine_step(struct engine *e);

/* What readiness and metrics show. Any thread, cheap. */
struct engine_status {
	bool ready;                 /* accepts durable work */
	enum dlq_code store_code;   /* why not */
	char store_detail[200];
	int64_t waiting_ops, waiting_bytes, parked_receives;
	int64_t commits, committed_ops;
	int64_t last_commit_us, max_commit_us;
};
void engine_status(struct engine *e, struct engine_status *out);
struct clock *engine_clock(struct engine *e);

/* Whether a queue of that name exists; any thread, no I/O (a table under a lock). */
bool engine_has_queue(struct engine *e, struct str name);

/* ---- tokens: checked on the HTTP thread from a table in memory, which the store backs ---- */
struct token_info {
	struct str name; /* points into name_buf */
	enum role role;
	bool limited;    /* only some queues: what spans all queues must be filtered or refused */
	char name_buf[130];
};
/* Constant time over the secret. UNAUTHENTICATED or FORBIDDEN (role too low, or queue not in its list); queue may be empty. */
enum dlq_code engine_token_check(struct engine *e, struct str secret, enum role need, struct str queue,
                                 struct token_info *out, struct dlq_err *err);
/* All tokens, revoked ones too, in the order they were made; never a secret. Copied into the arena. Any thread, no I/O. */
struct token_row { struct str name; enum role role; struct str queues; int64_t created_at_ms, expires_at_ms, revoked_at_ms; };
int engine_token_list(struct engine *e, struct arena *a, struct token_row **out);
/* First start: makes the admin token and DIR/admin.token (0600) if there is no live admin token. created: it was made. */
enum dlq_code engine_bootstrap_token(struct engine *e, bool *created, struct dlq_err *err) MUST_USE;

/* The queues of the configuration file: created or updated, all or nothing (checked before anything is changed). Call
 * before engine_start or from SIGHUP. Takes its own references. Queues no longer in the file stay, as not from_file.
 * on_dead_letter: the server-wide URL or empty, from now on for every queue that sets none, those made by PUT, too. */
enum dlq_code engine_apply_queues(struct engine *e, struct queue_config **list, int n, struct str on_dead_letter,
                                  struct dlq_err *err) MUST_USE;

#endif
