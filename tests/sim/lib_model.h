/* lib_model.h - what the engine should have done: the model that the simulation compares it with. */
#ifndef TESTS_LIB_MODEL_H
#define TESTS_LIB_MODEL_H

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/rnd.h"
#include "engine/engine.h"

#define QUEUES 3
#define MSGS_MAX 20000
#define KEYS 4
#define MAX_ATTEMPTS 3
#define CRASH_LIMIT 2
#define MAX_REDRIVES 2
#define VISIBILITY 30000
#define DEDUP_WINDOW 60000
#define RETENTION 3600000
#define MAX_IN_FLIGHT 20

#define ORDERED 1 /* the queue that is */
#define PLAIN 0   /* the others: messages can be moved between them */
#define LAST 2

enum where { WAITING, LEASED, DONE, DEAD, DISCARDED, GIVEN, ARCHIVED }; /* GIVEN: given up, in the store still */

struct mmsg {
	int queue, key; /* key -1: none */
	int home, first; /* the queue of its dead letter; the one it was sent to */
	int64_t seq;
	char id[24], body[40], now_body[40];
	char dlq_id[ULID_LEN + 1], receipt[RECEIPT_LEN + 1];
	enum where where;
	bool redriving, dead_once;
	bool member, counted; /* of the guarded redrive: to be put back; put back, its outcome counts */
	bool chosen;          /* was there when the planned job started */
	int group;            /* kind of its last failure, -1: none */
	int attempts, expirations, redrives, failures; /* failures: of all lives */
	int64_t due, expires, lease_until, retention, dedup_until;
};

/* One guarded redrive at a time. */
struct mjob {
	bool known;
	char id[ULID_LEN + 1];
	int queue;
	enum redrive_state state;
	struct redrive_guard guard;
	int64_t total, sent, succeeded, failed;
	int64_t base_failed;   /* when an operator went past a halt */
	int64_t waits_from;    /* the canary was out; 0: not yet */
	bool past;             /* the canary was good, or an operator went past it */
	int64_t past_at, past_sent;
};

#define KINDS 4       /* of failures that workers tell */
#define KIND_LEASE 4  /* and the one of ended leases */
#define GROUPS 5

struct sim {
	uint64_t seed;
	int step;
	const char *doing;
	struct engine *e;
	struct clock *clock;
	struct rnd rnd;
	char dir[64];
	bool paused[QUEUES];
	int64_t sent[QUEUES], done[QUEUES], failed[QUEUES], died[QUEUES], discarded[QUEUES], archived[QUEUES],
	    duplicates[QUEUES];
	int64_t redriven, restarts, jobs, halts, jobs_done, plans, planned[ACTION_COUNT], given, moved;
	int64_t failures[QUEUES][GROUPS], deaths[QUEUES][GROUPS];
	struct mjob job;
	struct mmsg *m;
	int n;
};

extern const char *const queue_names[QUEUES];

#define CHECK(s, cond, ...)                                                                                            \
	do {                                                                                                           \
		if (!(cond)) {                                                                                         \
			fprintf(stderr, "\nsim: seed %" PRIu64 ", step %d, %s: %s:%d: %s is false: ", (s)->seed,       \
			        (s)->step, (s)->doing, __FILE__, __LINE__, #cond);                                     \
			fprintf(stderr, __VA_ARGS__);                                                                  \
			fprintf(stderr, "\nrepeat with DLQ_SEED=%" PRIu64 "\n", (s)->seed);                            \
			fail();                                                                                        \
		}                                                                                                      \
	} while (0)

int below(struct sim *s, int n);
int64_t now(struct sim *s);
bool is_held(struct sim *s, const struct mmsg *m);
void m_die(struct sim *s, struct mmsg *m);
bool m_fail(struct sim *s, struct mmsg *m, enum outcome o, int64_t retry_after, int kind);
void m_tick(struct sim *s);
struct mmsg *m_by_seq(struct sim *s, int64_t seq);
struct mmsg *m_pick(struct sim *s, enum where where);
void m_redrive(struct sim *s, struct mmsg *m);
void call(struct sim *s, struct engine_op *op, int queue); /* queue -1: none */

void do_restart(struct sim *s);

/* lib_planned.c: jobs that a filter chooses */
void do_planned(struct sim *s);

/* lib_groups.c: kinds of failures, and the groups that they should make */
extern const char *const kind_types[KINDS];
void kind_text(struct sim *s, int kind, char out[80]);
void check_groups(struct sim *s);

/* lib_guarded.c: guarded redrives; job_learn before m_tick, job_check after it */
bool job_open(const struct sim *s);
void do_guarded(struct sim *s);
void job_learn(struct sim *s);
void job_check(struct sim *s);

#endif
