/*
 * push_int.h - the inside of the pusher: push.c has the queues and the operations, push_calls.c the deliveries and the
 * calls made for them.
 *
 * A struct delivery belongs to the handler's thread between handler start and its done, which only copies the outcome,
 * queues it and wakes; everything else here belongs to the push thread. LOCKS: p->lock and the mailbox's lock are leaves.
 */
#ifndef ENGINE_PUSH_INT_H
#define ENGINE_PUSH_INT_H

#include "engine/engine_int.h"
#include "engine/mailbox.h"
#include "engine/push.h"

#define SETTLE_BATCH_MAX 256
#define RETRY_FIRST_MS 50     /* after a refused operation; doubled up to the next */
#define RETRY_MAX_MS 5000

struct delivery {
	struct delivery *next, *prev;   /* in pushed.called by lease age, or in pushed.judged */
	struct delivery *back_next;     /* in push.back */
	struct pushed *q;
	struct queue_config *config;    /* as it was when it came: url, timeouts */
	struct arena arena;             /* copies of the message and of the failure */
	struct store_delivery d;
	char receipt[RECEIPT_LEN + 1];
	struct handler_call call;
	int64_t extend_at;              /* schedule time */
	struct engine_op extend;
	bool extending;                 /* the engine has `extend` */
	bool over;                      /* settled; freed when `extend` has come back */
	enum outcome outcome;
	struct failure failure;
	int64_t retry_after_ms;
};

/* One queue that is pushed. Freed when it is removed and nothing of it is under way. */
struct pushed {
	struct pushed *next;
	char name[130];
	struct queue_config *config;
	bool removed;
	bool seen;                        /* while the snapshot is compared */
	int in_calls;                     /* deliveries at the handler */
	int held;                         /* deliveries not freed yet */
	struct delivery *called, *called_tail; /* oldest lease first */
	struct delivery *judged, *judged_tail;
	struct engine_op receive;
	bool receiving, cancelled;
	int64_t received_at;              /* when it was submitted */
	int64_t receive_at;               /* not before */
	int64_t receive_delay;
	struct engine_op settle;
	bool settling;
	int64_t settle_at, settle_delay;
	struct engine_settle_item items[SETTLE_BATCH_MAX];
	struct delivery *settled[SETTLE_BATCH_MAX];
};

struct push {
	struct mailbox box; /* first */
	struct engine *engine;
	struct clock *clock;
	struct handler *handler;
	pthread_t thread;

	pthread_mutex_t lock;
	struct delivery *back, *back_tail; /* the handler is done with them; linked by back_next */
	bool changed;
	bool stopping;                     /* no new receives and calls */
	bool ending;                       /* the handler has stopped: leave when all is settled */

	/* the push thread's */
	struct pushed *queues;
	bool quiet;                        /* its copy of stopping */
	int64_t give_up_at;                /* while ending */
};

/* ---- push.c ---- */
/* The next delay: doubles *delay within RETRY_FIRST_MS and RETRY_MAX_MS. */
int64_t push_backoff(int64_t *delay);

/* ---- push_calls.c ---- */
/* Copies what was received and starts its call; what cannot start is judged at once. */
void delivery_start(struct push *p, struct pushed *q, const struct engine_delivery *in);
/* Its outcome waits for a settle. */
void delivery_judged(struct pushed *q, struct delivery *d);
/* The oldest judged one, or NULL. */
struct delivery *delivery_next_judged(struct pushed *q);
/* Freed now, or when its `extend` has come back. */
void delivery_free(struct delivery *d);
/* Takes what the handler is done with. */
void deliveries_take_back(struct push *p);

#endif
