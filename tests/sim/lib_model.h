/* lib_model.h - what the engine should have done: the model that the simulation compares it with. */
#ifndef TESTS_LIB_MODEL_H
#define TESTS_LIB_MODEL_H

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

enum where { WAITING, LEASED, DONE, DEAD, DISCARDED, ARCHIVED };

struct mmsg {
	int queue, key; /* key -1: none */
	int64_t seq;
	char id[24], body[40], now_body[40];
	char dlq_id[ULID_LEN + 1], receipt[RECEIPT_LEN + 1];
	enum where where;
	bool redriving, dead_once;
	int attempts, expirations, redrives, failures; /* failures: of all lives */
	int64_t due, expires, lease_until, retention, dedup_until;
};

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
	int64_t redriven, restarts;
	struct mmsg *m;
	int n;
};

int below(struct sim *s, int n);
int64_t now(struct sim *s);
bool is_held(struct sim *s, const struct mmsg *m);
void m_die(struct sim *s, struct mmsg *m);
bool m_fail(struct sim *s, struct mmsg *m, enum outcome o, int64_t retry_after);
void m_tick(struct sim *s);
struct mmsg *m_by_seq(struct sim *s, int64_t seq);
struct mmsg *m_pick(struct sim *s, enum where where);

#endif
