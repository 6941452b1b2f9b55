/*
 * store.h - the contract of a store: where messages, dead letters, audit and everything that must survive live.
 *
 * A back end is a const table (struct store_ops) named only in registry.c. The same conformance suite (tests/conform) runs for every back end.
 *
 * TRANSACTIONS. Every change happens between store_begin and store_commit, on one thread: the writer. One
 * transaction holds operations of many callers (group commit). Each operation either happens wholly or not at all and
 * says so in its code; a refused operation (queue full, receipt gone, unknown id) leaves its neighbours alone. A code of
 * class STORE_* means that the transaction is lost: the caller must store_rollback and fail every caller in it. Success
 * may be told to a caller only after store_commit returned DLQ_OK: then it is on disk and synced (invariant 7).
 *
 * READS go through a struct store_reader: one per thread, sees the last commit, never blocks the writer.
 *
 * MEMORY. Inputs are borrowed for the call. Outputs are copied into the arena the caller gives.
 *
 * TIME. All *_due, *_until, now_ms are schedule time; all *_at_ms are wall time (base/clock.h). The store keeps the
 * highest schedule time it has seen and gives it back at open (store_high_water_ms).
 *
 * IDS. `seq` names a message inside the store, rising, never reused. Message ids made by the store and all dlq_ids are
 * ULIDs that carry seq (base/text.h). A receipt is (queue_id, seq, nonce); its text form is the engine's.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include "base/base.h"
#include "base/clock.h"
#include "base/text.h"
#include "core/lifecycle.h"

struct store;
struct store_reader;

#define STORE_CAP_SHARED 1u /* several engines may share one store */

struct store_options {
	const char *dir;           /* data folder; made if absent */
	struct clock *clock;       /* borrowed, outlives the store */
	int64_t cache_bytes;       /* page cache of the writer; 0: default 16 MiB */
	bool no_sync;              /* tests only: commits are not synced */
};

/* ---------- queues ---------- */

/* Counts are kept in the same transactions that change them. */
struct store_counts {
	int64_t ready;      /* waiting, due or not (held not included) */
	int64_t retrying;   /* of ready: with attempts > 0 */
	int64_t held;
	int64_t leased;
	int64_t dead;
	int64_t redriving;  /* dead letters put back whose outcome is not known yet */
	int64_t bytes;      /* payload bytes of ready + held + leased */
	/* totals since the queue was made */
	int64_t sent, done, failed_attempts, died, redriven, discarded, archived, duplicates, imported; /* redriven: done after a redrive; archived: given up, or at the end of retention */
};

struct store_queue {
	int64_t queue_id;
	struct str name;
	struct str config;   /* canonical JSON of core/policy.h */
	bool ordered, paused;
	int64_t created_at_ms;
	struct store_counts counts;
};

/* ---------- sending ---------- */

struct store_send {
	/* in */
	struct str id;           /* producer's; empty: the store makes one */
	struct str key;          /* ordering key; may be empty */
	struct str content_type; /* may be empty */
	struct str headers;      /* canonical JSON object of strings, or empty */
	struct str body;
	int64_t due;             /* deliverable from then on */
	int64_t expires;         /* TTL end; 0: never */
	int64_t dedup_until;     /* with a producer's id: remember it until then; 0: no dedup */
	/* out */
	enum dlq_code code;      /* OK or QUEUE_FULL */
	bool duplicate;          /* same id within the window: nothing stored, id as given */
	bool held;
	int64_t seq;
	char made_id[ULID_LEN + 1]; /* the id, when `id` was empty */
};

/* ---------- delivery ---------- */

struct store_delivery {
	int64_t seq, nonce;
	struct str id, key, content_type, headers, body; /* body: the edited one if a redrive replaced it */
	int attempts, lease_expirations, redrives;
	int64_t received_at_ms;
	int64_t lease_until;
};

/* What route() needs of a leased message. */
struct store_lease {
	int64_t seq, queue_id, nonce;
	int attempts, lease_expirations, redrives;
	int64_t previous_delay_ms;
	struct str worker; /* in the arena */
};

/*
 * Which group a failure belongs to: made by the engine with core/fingerprint.h, found or made by the store in the same
 * transaction. A group is made by the first failure, dead or not.
 */
struct store_group_key {
	uint8_t fp[16];          /* hi, lo of the fingerprint, big-endian; its hex text is the group's id in the API */
	int version;             /* of the rules, FINGERPRINT_VERSION; kept by the group */
	uint32_t rules;          /* what the normalising did */
	struct str error_type, normal, sample; /* sample: the message as it came, cut */
};

/* One failed delivery, as evidence. */
struct store_attempt {
	const struct store_group_key *group; /* NULL: none (a TTL that ended has no failure) */
	struct str worker_version;           /* may be empty */
	int n;                   /* the attempt's number within this life: attempts after it */
	int redrive;             /* redrives at that time: which life */
	int64_t at_ms;
	int outcome;             /* enum outcome of core/policy.h */
	struct str error_type, message, detail, worker;
	int http_status, exit_code; /* 0 / -1: none */
	int64_t retry_at_ms;     /* wall; 0: none followed */
};

/* ---------- dead letters ---------- */

struct store_dead {
	int64_t seq, queue_id;
	char dlq_id[ULID_LEN + 1];
	struct str queue, id, key, content_type, headers;
	enum dead_state state;
	enum reason reason;
	int attempts, lease_expirations, redrives;
	int64_t died_no;              /* order of dying, rising over the whole store; a later death gets a new one */
	int64_t received_at_ms, first_failed_at_ms, last_failed_at_ms, died_at_ms, state_at_ms;
	struct str error_type, message, worker; /* of the last attempt */
	int64_t body_bytes;
	bool edited;                  /* a redrive replaced body or headers; the originals are kept */
	struct str edited_headers;    /* what is delivered instead of `headers`; empty: those are */
	struct str imported_id;       /* the dlq_id it had where it was exported; empty: it died here */
	struct str body;              /* only with store_dead_filter.with_body: the one to be delivered */
	struct str redrive_id;        /* last redrive it was in, or empty */
	struct str operator, why;     /* of the last discard or redrive */
	int64_t expires_due;          /* schedule time at which retention ends */
	int64_t group_id;             /* 0: none */
	uint8_t group_fp[16];
};

/* name in lower case; both equal byte for byte. */
struct store_header { struct str name, value; };
#define FILTER_HEADERS_MAX 8

/* All that is given holds. The narrowest index leads; the rest is looked at row by row, within the limits. */
struct store_dead_filter {
	int64_t queue_id;     /* 0: all queues */
	int64_t group_id;     /* 0: any; with the groups merged into it */
	int state;            /* enum dead_state, -1: any */
	struct str message_id;/* of the message, or the dlq_id it had before an import; empty: any */
	struct str key;       /* empty: any; with queue_id */
	struct str error_type;/* empty: any; indexed */
	const struct store_header *headers; int n_headers; /* of the headers to be delivered; indexed */
	int64_t redrive_n;    /* members of this redrive, the last they were in; 0: any; indexed */
	int reason;           /* -1: any; scanned */
	int64_t died_from_ms, died_to_ms; /* wall; 0: open */
	int64_t expires_before; /* schedule time: retention ends before it; 0: any; scanned */
	struct str text;      /* the body to be delivered holds these bytes; empty: any; scanned */
	bool with_body;       /* items carry their bodies */
	int64_t before_no;    /* page key: died_no below this; 0: from the newest */
	int limit;            /* 1 to 1000 */
	int scan_limit;       /* rows looked at, at most; 0: 10000 */
	int64_t scan_bytes;   /* body bytes looked at or given, at most (one row always is); 0: 8 MiB */
	int64_t scan_us;      /* time, at most; 0: 1 s */
};
struct store_dead_page {
	struct store_dead *items;
	int n;
	int64_t next_no;      /* 0: no more */
	int64_t scanned;
};

/* ---------- groups ---------- */

enum group_status { GROUP_NEW, GROUP_ACKNOWLEDGED, GROUP_MUTED, GROUP_RESOLVED, GROUP_REGRESSED, GROUP_STATUS_COUNT };
const char *group_status_name(enum group_status s);
bool group_status_parse(struct str s, enum group_status *out);

/*
 * Counts are kept in the transactions that change them, as those of queues are. A group that was merged into another keeps
 * its own row, dead letters and counts; reads of the target add its merged groups up (at most GROUP_MERGED_MAX), and a split
 * just ends the merge: nothing is rewritten.
 */
#define GROUP_MERGED_MAX 100
#define GROUP_WORKERS_MAX 100 /* workers remembered per group; later ones are counted under "(others)" */
struct store_group {
	int64_t group_id, queue_id;
	struct str queue;
	uint8_t fp[16];
	int version;
	uint32_t rules;
	struct str error_type, normal, sample;
	enum group_status status;
	int64_t muted_until_ms;   /* wall; 0: no time limit */
	int64_t muted_deaths;     /* muted until `deaths` reaches this; 0: no limit */
	int64_t status_at_ms;
	struct str note, owner;
	int64_t merged_into;      /* group_id; 0: not merged */
	int merged;               /* groups merged into this one */
	/* counts; deaths = every time a message died with it */
	int64_t dead, redriving, redriven, failed_again, discarded, archived, deaths;
	int64_t failures;         /* failed deliveries with it, deadly or not */
	int64_t recovered;        /* messages whose last failure was this and that then succeeded without dying */
	int64_t first_seen_ms, last_seen_ms; /* wall, of failures */
	int64_t last_no;          /* order of the newest failure, rising over the store: the page key */
};

struct store_group_filter {
	int64_t queue_id;         /* 0: all */
	unsigned statuses;        /* bit per enum group_status; 0: any */
	bool with_dead;           /* only those with dead > 0 */
	int64_t before_no;        /* page key: last_no below this; 0: from the newest */
	int limit, scan_limit;    /* as in store_dead_filter */
};
struct store_group_page { struct store_group *items; int n; int64_t next_no; };

struct store_bucket { int64_t at_ms; int64_t failures, deaths, done; }; /* done: of the queue, 0 for a group */
struct store_group_worker { struct str worker, version; int64_t failures; int64_t first_ms, last_ms; };

/* ---------- redrive ---------- */

enum redrive_state { REDRIVE_RUNNING, REDRIVE_PAUSED, REDRIVE_DONE, REDRIVE_CANCELLED, REDRIVE_HALTED, REDRIVE_STATE_COUNT };
/*
 * What the job does with its members. Only REDRIVE puts back and waits for outcomes; the others are done with a member at once, which
 * then counts as sent and succeeded. Which states they take: REDRIVE dead (and archived ones with override), DISCARD and ARCHIVE dead,
 * RESTORE discarded and archived.
 */
enum redrive_action { ACTION_REDRIVE, ACTION_DISCARD, ACTION_ARCHIVE, ACTION_RESTORE, ACTION_COUNT };
const char *redrive_action_name(enum redrive_action a);
bool redrive_action_parse(struct str s, enum redrive_action *out);
enum item_state { ITEM_SELECTED, ITEM_SENT, ITEM_SUCCEEDED, ITEM_FAILED_AGAIN, ITEM_UNKNOWN, ITEM_SKIPPED, ITEM_CANCELLED, ITEM_STATE_COUNT };
const char *item_state_name(enum item_state s);

/* How a redrive is guarded. All zero: put everything back as fast as it goes. */
struct redrive_guard {
	int64_t first;        /* canary: so many, then wait for their outcome; 0: none */
	int64_t canary_wait_ms; /* at most so long for the canary's outcomes, then halt; 0: default 10 min */
	double rate;          /* messages a second after the canary; 0: no limit */
	int64_t stop_count;   /* halt when so many failed again; 0: no limit */
	double stop_percent;  /* halt when of those with an outcome (at least 5, or all of the canary) more than this failed again; 0: no limit */
};
/* One line of the ledger. */
struct store_redrive_item {
	int64_t seq;
	char dlq_id[ULID_LEN + 1];
	enum item_state state;
	int64_t sent_at_ms, outcome_at_ms;
	struct str note;          /* ITEM_SKIPPED: why; may be empty */
};
const char *redrive_state_name(enum redrive_state s);

/*
 * The members are fixed when it starts (invariant 9): chosen ids, written as items at once, or a whole queue: every dead
 * letter of it with died_no <= until_no, found step by step without being listed beforehand. One that dies again gets a
 * higher died_no and so is no member.
 *
 * A planned one (`plan` not empty) takes those that a filter chooses among the dead letters with died_no <= until_no, or edits its
 * members. What a filter looks at does not change while died_no stays, so which ones they are is fixed at the start, too. The engine
 * looks at them from until_no downwards and hands over what it picked, step by step, with redrive_pick; nothing is put back
 * before plan_next is 0. Its items have their died_no as `ord`. queue_id and group_id of its row are 0: what chooses is the plan.
 */
struct store_redrive {
	char redrive_id[ULID_LEN + 1];
	int64_t n;                /* row number inside the store */
	int64_t queue_id;         /* whole queue, or 0 for chosen ids */
	struct str queue;
	enum redrive_state state;
	struct str operator, reason;
	int64_t until_no, cursor_no;
	int64_t total;            /* members at the start */
	int64_t sent, skipped;    /* put back; changed since it started */
	int64_t succeeded, failed_again;
	int64_t started_at_ms, ended_at_ms;
	int64_t group_id;         /* the dead letters of one group (and those merged into it), or 0 */
	uint8_t group_fp[16];     /* of group_id; out */
	struct redrive_guard guard;
	struct str halted_why;    /* REDRIVE_HALTED: what stopped it, with numbers */
	int64_t canary_until;     /* schedule time; the canary's wait ends then; 0: not waiting */
	int64_t cancelled;        /* members not put back because it was cancelled */
	enum redrive_action action;
	int64_t to_queue_id;      /* ACTION_REDRIVE: the destination, 0: each its own queue */
	struct str to_queue;      /* its name */
	bool override_limit;      /* also those whose max_redrives is used up */
	struct str plan;          /* the selection and the edit as canonical JSON (engine/plan.h); empty: not planned */
	int64_t plan_next;        /* candidates below this died_no are still to be looked at; 0: all were */
	int64_t looked;           /* candidates looked at */
	int64_t changed, unchanged, edit_failed; /* members with an edit: what it did; the failed ones are skipped */
};

/* One member that the plan picked. */
struct store_redrive_pick {
	int64_t seq, died_no;     /* as looked at: one that changed since is no member */
	bool edit_tried;
	const struct str *body;   /* the edited body, staged until it is put back; NULL: as it is */
	const struct str *headers;/* the edited headers as canonical JSON; NULL: as they are */
	struct str note;          /* not empty: it is not put back, its item is `skipped` with this */
};

/* How redrive_one puts a dead letter back. */
struct store_put_back {
	int64_t redrive_n;        /* 0: none */
	struct str redrive_id, operator, why;
	const struct str *body, *headers; /* as in a pick; NULL: what the pick staged, else as it is */
	int64_t due;
	int64_t to_queue_id;      /* 0: its own queue */
	int max_redrives;         /* CONFLICT for one redriven so often already; -1: no limit */
	bool archived_too;        /* ACTION_REDRIVE with override */
};

/*
 * A dead letter from an export. One that comes from this very store and is gone from it gets its old dlq_id again; any other gets a
 * new one and keeps the old as imported_id.
 */
struct store_import {
	/* in */
	int64_t queue_id;
	struct store_dead d;      /* dlq_id, id, key, content_type, headers, edited_headers, reason, attempts, lease_expirations, redrives, the times */
	struct str body;          /* the original */
	const struct str *edited_body; /* NULL: none */
	const struct store_attempt *attempts; int n_attempts; /* oldest first; .group of the last one says the group */
	int64_t retention_due;
	/* out */
	bool exists;              /* it is here already: nothing was done, dlq_id is that one's */
	char dlq_id[ULID_LEN + 1];
};

/* ---------- audit, tokens, notifications ---------- */

struct store_audit {
	int64_t n, at_ms;
	struct str operator, action, queue, target, reason, outcome, detail; /* outcome: "ok" or a problem code */
	uint8_t hash[32];         /* out: the chain's link, see core/audit_chain.h */
};

enum role { ROLE_VIEWER, ROLE_OPERATOR, ROLE_ADMIN, ROLE_COUNT };
const char *role_name(enum role r);
bool role_parse(struct str s, enum role *out);

struct store_token {
	int64_t token_id;
	struct str name;
	uint8_t hash[32];
	enum role role;
	struct str queues;       /* JSON list of names or "prefix*"; empty: all */
	int64_t created_at_ms, expires_at_ms, revoked_at_ms; /* wall; 0: none */
};

/* One call of on_dead_letter that is owed. Made in the transaction in which the message dies. */
struct store_notice {
	int64_t n;
	int64_t seq, died_no;
	int tries;
	int64_t due;
	struct str last_error;
};

/* ---------- the table a back end fills ---------- */

/*
 * Unless said otherwise: writer thread, inside a transaction, may block on disk, returns DLQ_OK, the refusals named, or
 * a STORE_* code with err set.
 */
struct store_ops {
	const char *name;
	unsigned caps;

	/* Any thread. Creates, migrates forward, refuses newer / corrupt / locked stores and says what to do. */
	enum dlq_code (*open)(const struct store_options *o, struct store **out, struct dlq_err *err);
	void (*close)(struct store *s);      /* readers are closed before */
	int64_t (*high_water_ms)(struct store *s);

	enum dlq_code (*begin)(struct store *s, struct dlq_err *err);
	enum dlq_code (*commit)(struct store *s, struct dlq_err *err);  /* on error the transaction is gone */
	void (*rollback)(struct store *s);
	/* Outside a transaction: work that must not sit in a caller's way (checkpoint). Called by the writer when idle or due. */
	void (*maintain)(struct store *s);
	/* Outside a transaction, after a STORE_FULL or STORE_FAILED: a small synced write. DLQ_OK: it works again. */
	enum dlq_code (*probe)(struct store *s, struct dlq_err *err);

	/* queues. CONFLICT: exists (create), not empty and not forced (delete), `ordered` differs (update). NOT_FOUND. */
	enum dlq_code (*queue_create)(struct store *s, struct str name, struct str config, bool ordered, int64_t *queue_id, struct dlq_err *err);
	enum dlq_code (*queue_update)(struct store *s, int64_t queue_id, struct str config, struct dlq_err *err);
	enum dlq_code (*queue_pause)(struct store *s, int64_t queue_id, bool paused, struct dlq_err *err);
	enum dlq_code (*queue_delete)(struct store *s, int64_t queue_id, struct dlq_err *err); /* only with no live and no dead messages */
	/* All queues at open, for the engine's table. */
	enum dlq_code (*queue_load)(struct store *s, struct arena *a, struct store_queue **out, int *n, struct dlq_err *err);
	/* Counts as they stand in the open transaction; writer thread; never fails. */
	const struct store_counts *(*queue_counts)(struct store *s, int64_t queue_id);

	/* send: max_messages / max_bytes (0: none) are checked per item; a refused item has code QUEUE_FULL. */
	enum dlq_code (*send)(struct store *s, int64_t queue_id, int64_t max_messages, int64_t max_bytes,
	                      struct store_send *items, int n, struct dlq_err *err);
	/* Leases up to max messages that are due, oldest due first. nonces[i] are given by the caller. */
	enum dlq_code (*claim)(struct store *s, int64_t queue_id, int64_t now, int64_t lease_until, struct str worker,
	                       const int64_t *nonces, int max, struct arena *a, struct store_delivery *out, int *n, struct dlq_err *err);
	/* The earliest due time of a ready message of the queue, INT64_MAX if none. */
	enum dlq_code (*next_due)(struct store *s, int64_t queue_id, int64_t *due, struct dlq_err *err);

	/* GONE: there is no such lease (settled, expired, foreign queue). `done` is the hot path: lookup and removal in one.
	 * A done message that was redriven turns its dead letter to `redriven` and counts redrive.succeeded; its payload
	 * stays until retention has passed. *unheld: a follower in an ordered queue became ready. */
	enum dlq_code (*done)(struct store *s, int64_t queue_id, int64_t seq, int64_t nonce, bool *unheld, struct dlq_err *err);
	enum dlq_code (*lease_get)(struct store *s, int64_t queue_id, int64_t seq, int64_t nonce, struct arena *a, struct store_lease *out, struct dlq_err *err);
	enum dlq_code (*extend)(struct store *s, int64_t queue_id, int64_t seq, int64_t nonce, int64_t until, struct dlq_err *err);
	/* These three follow a lease_get of the same transaction. */
	enum dlq_code (*release)(struct store *s, const struct store_lease *l, int64_t due, struct dlq_err *err);
	enum dlq_code (*retry)(struct store *s, const struct store_lease *l, const struct store_attempt *at,
	                       int lease_expirations, int64_t due, int64_t delay_ms, struct dlq_err *err);
	/* Quarantine. at may be NULL (expired TTL). notify: owe one notice. A second death keeps dlq_id and history and counts
	 * redrive.failed_again. give_up: its redrives are used up, it goes to state archived at once, its followers in an ordered queue
	 * are free; the notice is owed all the same. */
	enum dlq_code (*bury)(struct store *s, const struct store_lease *l, const struct store_attempt *at, int lease_expirations,
	                      enum reason reason, int64_t retention_due, bool notify, bool give_up, char dlq_id[ULID_LEN + 1], struct dlq_err *err);

	/* Leases that ended by now, earliest first, at most max. *next: when the next one ends (INT64_MAX: none). */
	enum dlq_code (*expired_leases)(struct store *s, int64_t now, int max, struct arena *a, struct store_lease *out, int *n, int64_t *next, struct dlq_err *err);
	/* Waiting messages (ready or held) whose TTL has ended, as leases with nonce 0 that bury accepts. */
	enum dlq_code (*expired_ttl)(struct store *s, int64_t now, int max, struct arena *a, struct store_lease *out, int *n, int64_t *next, struct dlq_err *err);

	/* dead letters */
	/* One dead letter back to ready: attempts 0, error cleared, redrives + 1, history kept; an edit is stored beside the
	 * original. NOT_FOUND; CONFLICT: not in state dead, redrives used up, its key is under way in an ordered destination;
	 * IN_REDRIVE: member of another active redrive (redrive_n is this one's, 0 for none), err names it. With redrive_n the item is
	 * marked: sent, or skipped with err's text. To another queue it leaves the lane of its own one; its dead letter stays with the
	 * queue in which it died, until it dies in the other: then it belongs there. */
	enum dlq_code (*redrive_one)(struct store *s, int64_t seq, const struct store_put_back *p, struct dlq_err *err);
	/* dead -> discarded. NOT_FOUND, CONFLICT, IN_REDRIVE. This, give_up_one and restore_one mark the item of redrive_n (0: none) as
	 * redrive_one does, but as succeeded at once, and add 1 to redrive.succeeded; redrive.sent and skipped are the caller's to add with
	 * redrive_mark. The dead letter's redrive_id and redrive_n name the job; one that is restored by hand forgets a job that was no redrive. */
	enum dlq_code (*discard_one)(struct store *s, int64_t seq, int64_t redrive_n, struct str operator, struct str why, struct dlq_err *err);
	/* dead -> archived: given up. It stays in the store, listed as such, until its retention ends. NOT_FOUND, CONFLICT, IN_REDRIVE. */
	enum dlq_code (*give_up_one)(struct store *s, int64_t seq, int64_t redrive_n, struct str operator, struct str why, struct dlq_err *err);
	/* Into state dead of its queue, last in the order of dying: imported + 1, dead + 1; group: dead + 1 alone. NOT_FOUND: no such queue.
	 * One whose old place in an ordered queue is gone by gets a new dlq_id. */
	enum dlq_code (*import_one)(struct store *s, struct store_import *i, struct dlq_err *err);
	/* Dead letters of any state whose retention ended (not those being redriven), oldest first, for the archive. */
	enum dlq_code (*retention_due)(struct store *s, int64_t now, int max, int64_t *seqs, int *n, int64_t *next, struct dlq_err *err);
	/* Removes record, history and payload; counts it, if that was not done when it was given up. The caller has written and synced the archive before. */
	enum dlq_code (*archive_one)(struct store *s, int64_t seq, struct dlq_err *err);
	/* Dedup entries past their window, at most max. */
	enum dlq_code (*dedup_sweep)(struct store *s, int64_t now, int max, int *n, int64_t *next, struct dlq_err *err);

	/* redrives */
	/* r->queue_id != 0: whole queue, r->group_id != 0: group, else seqs[n] (each must be free and in a state the action takes:
	 * NOT_FOUND, CONFLICT, IN_REDRIVE name the first that is not). IN_REDRIVE also for a whole queue or group of which some are
	 * in an active redrive that takes the same states. With `plan`: no members yet, plan_next = until_no + 1 (0: there is nothing to look at).
	 * NOT_FOUND also: no destination.
	 * Fills redrive_id, n, until_no, total, started_at_ms. */
	enum dlq_code (*redrive_create)(struct store *s, struct store_redrive *r, const int64_t *seqs, int n_seqs, struct dlq_err *err);
	/* The next at most max members not yet handled, in died order; moves the cursor past them. n == 0: all handled. CONFLICT:
	 * plan_next is not 0 yet. */
	enum dlq_code (*redrive_next)(struct store *s, int64_t redrive_n, int max, int64_t *seqs, int *n, struct dlq_err *err);
	/* Adds sent and skipped to what it has, and sets the state. DONE: members that left the state dead by themselves
	 * (archived) are counted as skipped, so that total = sent + skipped. */
	enum dlq_code (*redrive_mark)(struct store *s, int64_t redrive_n, int64_t sent, int64_t skipped, enum redrive_state state, struct dlq_err *err);
	enum dlq_code (*redrive_active)(struct store *s, struct arena *a, struct store_redrive **out, int *n, struct dlq_err *err);

	/* The outcome of one member, written by done and bury themselves; these two are for the engine. */
	enum dlq_code (*redrive_state)(struct store *s, const struct store_redrive *r, struct dlq_err *err); /* state, halted_why, canary_until, cursor (forward only) */
	/* discarded or archived -> dead again, until its retention ends, under a new died_no. NOT_FOUND, CONFLICT, IN_REDRIVE. */
	enum dlq_code (*restore_one)(struct store *s, int64_t seq, int64_t redrive_n, struct str operator, struct str why, struct dlq_err *err);
	/* A planned redrive: adds n members (at most 1000, any order), looked to what was looked at, and sets plan_next. A pick whose dead
	 * letter changed since (state, died_no) is left out; one in another active redrive becomes a skipped item that names it. Counts
	 * total, skipped, changed, unchanged (edit_tried, neither body nor headers), edit_failed (edit_tried with a note). NOT_FOUND;
	 * CONFLICT: it has ended, or has no plan. */
	enum dlq_code (*redrive_pick)(struct store *s, int64_t redrive_n, const struct store_redrive_pick *picks, int n, int64_t looked, int64_t plan_next, struct dlq_err *err);
	/* Staged edits of redrives that have ended, at most max; *n 0: there are none. */
	enum dlq_code (*redrive_sweep)(struct store *s, int max, int *n, struct dlq_err *err);

	/* groups: status, mute, note, owner, merge. Written as given in *g, so it starts from group_get. NOT_FOUND;
	 * CONFLICT: merge into itself, across queues, into a merged group, of one that has merged groups, or past GROUP_MERGED_MAX. */
	enum dlq_code (*group_set)(struct store *s, const struct store_group *g, struct dlq_err *err);
	/* As it stands in the open transaction: what group_set changes. NOT_FOUND. */
	enum dlq_code (*group_get)(struct store *s, const uint8_t fp[16], struct arena *a, struct store_group *out, struct dlq_err *err);

	/* audit, tokens, notices */
	enum dlq_code (*audit_add)(struct store *s, const struct store_audit *a, struct dlq_err *err);
	enum dlq_code (*token_add)(struct store *s, const struct store_token *t, int64_t *token_id, struct dlq_err *err); /* CONFLICT: name taken */
	enum dlq_code (*token_revoke)(struct store *s, struct str name, struct dlq_err *err); /* NOT_FOUND */
	enum dlq_code (*token_load)(struct store *s, struct arena *a, struct store_token **out, int *n, struct dlq_err *err);
	enum dlq_code (*notice_due)(struct store *s, int64_t now, int max, struct arena *a, struct store_notice *out, int *n, int64_t *next, struct dlq_err *err);
	enum dlq_code (*notice_done)(struct store *s, int64_t n, struct dlq_err *err);
	enum dlq_code (*notice_later)(struct store *s, int64_t n, int64_t due, struct str error, struct dlq_err *err);
	/* Small durable facts by name ("cursor.retention", ...). An absent one reads as empty. */
	enum dlq_code (*meta_set)(struct store *s, const char *name, struct str value, struct dlq_err *err);
	enum dlq_code (*meta_get)(struct store *s, const char *name, struct arena *a, struct str *value, struct dlq_err *err);

	/* ---- readers: any one thread each. A read that takes more than 3 s gives TIMEOUT; limit: 1 to 1000 ---- */
	enum dlq_code (*reader_open)(struct store *s, struct store_reader **out, struct dlq_err *err);
	void (*reader_close)(struct store_reader *r);
	enum dlq_code (*read_queues)(struct store_reader *r, struct str after, int limit, struct arena *a, struct store_queue **out, int *n, struct dlq_err *err);
	enum dlq_code (*read_queue)(struct store_reader *r, struct str name, struct arena *a, struct store_queue *out, struct dlq_err *err); /* NOT_FOUND */
	enum dlq_code (*read_dead_list)(struct store_reader *r, const struct store_dead_filter *f, struct arena *a, struct store_dead_page *out, struct dlq_err *err);
	enum dlq_code (*read_dead)(struct store_reader *r, int64_t seq, struct arena *a, struct store_dead *out, struct dlq_err *err); /* NOT_FOUND */
	/* Every attempt of every life, oldest first, at most max (newest kept). */
	enum dlq_code (*read_attempts)(struct store_reader *r, int64_t seq, int max, struct arena *a, struct store_attempt **out, int *n, struct dlq_err *err);
	/* How many dead ones have their retention end before `before` (schedule time); counted up to max. queue_id 0: all. */
	enum dlq_code (*read_expiring)(struct store_reader *r, int64_t queue_id, int64_t before, int64_t max, int64_t *n, struct dlq_err *err);
	enum dlq_code (*read_body)(struct store_reader *r, int64_t seq, bool original, struct arena *a, struct str *body, struct str *content_type, struct dlq_err *err);
	enum dlq_code (*read_redrives)(struct store_reader *r, int64_t before_n, int limit, struct arena *a, struct store_redrive **out, int *n, struct dlq_err *err);
	enum dlq_code (*read_redrive)(struct store_reader *r, int64_t n, struct arena *a, struct store_redrive *out, struct dlq_err *err); /* NOT_FOUND */
	enum dlq_code (*read_audit)(struct store_reader *r, int64_t before_n, int limit, struct arena *a, struct store_audit **out, int *n, struct dlq_err *err);
	/* The rows after after_n, oldest first: what OP_AUDIT_VERIFY follows. */
	enum dlq_code (*read_audit_after)(struct store_reader *r, int64_t after_n, int limit, struct arena *a, struct store_audit **out, int *n, struct dlq_err *err);
	/* The ledger of one redrive in the order in which its members are handled; *next_ord: the next after_ord, 0: no more. */
	enum dlq_code (*read_redrive_items)(struct store_reader *r, int64_t redrive_n, int64_t after_ord, int limit, struct arena *a, struct store_redrive_item **out, int *n, int64_t *next_ord, struct dlq_err *err);
	/* Groups that are merged into another are left out of the list; counts of a target have those of its merged groups in them. */
	enum dlq_code (*read_groups)(struct store_reader *r, const struct store_group_filter *f, struct arena *a, struct store_group_page *out, struct dlq_err *err);
	enum dlq_code (*read_group)(struct store_reader *r, const uint8_t fp[16], struct arena *a, struct store_group *out, struct dlq_err *err); /* NOT_FOUND */
	enum dlq_code (*read_group_merged)(struct store_reader *r, int64_t group_id, struct arena *a, struct store_group **out, int *n, struct dlq_err *err);
	enum dlq_code (*read_group_workers)(struct store_reader *r, int64_t group_id, struct arena *a, struct store_group_worker **out, int *n, struct dlq_err *err);
	/* Non-empty buckets of a queue (group_id 0) or a group, oldest first, with from_ms <= at_ms < to_ms, at most 1500. step_ms: 60000
	 * (kept for 48 h) or 3600000 (kept for 35 d). */
	enum dlq_code (*read_buckets)(struct store_reader *r, int64_t queue_id, int64_t group_id, int64_t step_ms, int64_t from_ms, int64_t to_ms, struct arena *a, struct store_bucket **out, int *n, struct dlq_err *err);
};

/* ---------- what callers use: s->ops->send(s, ...), r->ops->read_dead(r, ...) ---------- */

/* Names a back end ("sqlite"; NULL: the default one); NULL if there is none of that name. Asserts once that every table is complete. */
const struct store_ops *store_backend(const char *name);

/* Every struct store and struct store_reader of every back end starts with this. */
struct store { const struct store_ops *ops; };
struct store_reader { const struct store_ops *ops; };

/* Whether the code means that the open transaction is lost. */
static inline bool store_fatal(enum dlq_code c)
{
	return c == DLQ_STORE_FULL || c == DLQ_STORE_FAILED || c == DLQ_STORE_CORRUPT || c == DLQ_NO_MEMORY || c == DLQ_INTERNAL;
}

/* dlq_id or redrive_id text to its store number; NOT_FOUND if it is not the form of an id made here. The store still
 * compares the whole id with the row. */
enum dlq_code store_id_seq(struct str id, int64_t *seq, struct dlq_err *err);

#endif
