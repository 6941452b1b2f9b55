/*
 * notify_int.h - the inside of the notifier: notify.c has the notices and the store's side of them, notify_calls.c the
 * receivers and the calls to them.
 *
 * A struct note belongs to the sink's thread between sink send and its done, which only queues it and wakes; everything
 * else belongs to the notify thread. LOCKS: n->lock, the mailbox's lock and the engine's table_lock are leaves.
 */
#ifndef ENGINE_NOTIFY_INT_H
#define ENGINE_NOTIFY_INT_H

#include "engine/engine_int.h"
#include "engine/mailbox.h"
#include "engine/notify.h"

#define NOTES_MAX 512 /* notices in memory; a claim is made below half of it */
#define BUCKETS 1024

enum note_state { NOTE_READING, NOTE_WAITING, NOTE_CALLING, NOTE_SETTLING, NOTE_UNSETTLED };

struct note {
	struct note *next;          /* in receiver.waiting, or in notify.unsettled */
	struct note *back_next;     /* in notify.back */
	struct note *hash_next;
	enum note_state state;
	int64_t n, seq, died_no;
	int tries;                  /* failed before */
	struct receiver *receiver;  /* from waiting to the end of calling */
	struct buf json;
	char id[64], dlq_id[ULID_LEN + 1];
	struct str queue;           /* owned */
	int64_t died_at_ms;
	int64_t started_at;         /* schedule time */
	struct sink_note call;
	struct engine_op op;        /* read, then settle */
	/* what is settled */
	bool ok, give_up;
	int64_t delay_ms;
	char error[200];
};

struct receiver {
	struct receiver *next;
	struct str url;             /* owned */
	struct note *waiting, **waiting_tail;
	int n_waiting, active;
	struct note *calls[NOTIFY_PER_URL_MAX];
};

struct notify {
	struct mailbox box; /* first */
	struct engine *engine;
	struct clock *clock;
	struct sink *sink;
	pthread_t thread;

	pthread_mutex_t lock;
	struct note *back;          /* the sink is done with them */
	bool look;                  /* a notice was committed */
	bool stopping;              /* no new claims and calls */
	bool ending;                /* the sink has stopped */

	/* the notify thread's */
	bool quiet;                 /* its copy of stopping */
	struct note *by_n[BUCKETS];
	int n_notes, n_active, n_ops;
	struct receiver *receivers;
	struct note *unsettled;     /* the engine refused the settle */
	struct engine_op claim;
	bool claiming, look_again;
	int64_t claim_at;           /* schedule time at which a notice is due that is not here; a lower bound */
	int64_t start_at;           /* the sink was busy: no calls before; 0: now */
	int64_t refused_delay, resettle_at;
	int64_t warned_at;
};

/* ---- notify.c. `list`: operations to submit at the end of the turn ---- */
void note_forget(struct notify *n, struct note *t);
/* Told (t->ok), given up, or due again in t->delay_ms. */
void note_settle(struct notify *n, struct note *t, struct engine_op **list);
void note_postpone(struct notify *n, struct note *t, const char *why, int64_t ms, struct engine_op **list);
/* t->error says why: due again later, or given up. */
void note_call_failed(struct notify *n, struct note *t, struct engine_op **list);

/* ---- notify_calls.c ---- */
/* t waits for a call to url. */
void receiver_add(struct notify *n, struct str url, struct note *t);
/* Starts the calls there is room for. */
void receivers_call(struct notify *n, struct engine_op **list);
/* Gives what waits behind slow receivers back to the store when memory is short; when to look again. */
int64_t receivers_postpone(struct notify *n, struct engine_op **list);
/* Takes what the sink is done with. */
void receivers_take_back(struct notify *n, struct engine_op **list);
void receivers_forget_waiting(struct notify *n);
/* Frees those that have nothing to do. */
void receivers_sweep(struct notify *n);

#endif
