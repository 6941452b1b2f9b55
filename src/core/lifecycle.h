/*
 * lifecycle.h - the states of a message and every allowed move, as one table.
 *
 *   send --> ready --lease--> leased --ok-----------> done
 *              ^                | | `-release--> ready      (attempts unchanged)
 *              |  transient     | `-expired----> as transient
 *              `-- n < max -----'
 *                    permanent, n >= max, or crash limit
 *                               |
 *                               v
 *            .--- redrive ---- dead ---- redrives used up,
 *            v                  |        given up, retention over --> archived
 *          ready                `------- discard -------------------> discarded
 *          (attempts 0, error cleared, redrives + 1)
 *
 * While its record is kept, an operator restores a discarded or archived one (dead again) or redrives an archived one with
 * override. An import makes a dead one out of a record.
 * In an ordered queue a message waits `held` behind an earlier one with the same key (invariant 11).
 */
#ifndef CORE_LIFECYCLE_H
#define CORE_LIFECYCLE_H

#include "base/base.h"

enum msg_state {
	MSG_NONE,   /* before send */
	MSG_READY,  /* waits; deliverable once its due time has come */
	MSG_HELD,   /* ordered queue: waits behind an earlier message of its key */
	MSG_LEASED, /* at a worker until its lease ends */
	MSG_DONE,
	MSG_DEAD,
	MSG_DISCARDED,
	MSG_ARCHIVED,
	MSG_STATE_COUNT
};

enum msg_move {
	MOVE_SEND, MOVE_SEND_HELD, MOVE_UNHOLD, MOVE_LEASE, MOVE_OK, MOVE_RELEASE, MOVE_RETRY, MOVE_BURY,
	MOVE_EXPIRE, /* TTL over while it waits: dead, reason `expired` */
	MOVE_REDRIVE, MOVE_DISCARD, MOVE_ARCHIVE,
	MOVE_REDRIVE_HELD, /* ordered queue: put back behind an earlier message of its key */
	MOVE_GIVE_UP,      /* an operator sends it to the archive before its retention is over */
	MOVE_RESTORE, MOVE_IMPORT,
	MOVE_COUNT
};

enum move_actor { ACTOR_PRODUCER, ACTOR_WORKER, ACTOR_ENGINE, ACTOR_OPERATOR };

struct move_rule {
	enum msg_state from, to;
	enum msg_move move;
	enum move_actor actor;
};
extern const struct move_rule lifecycle_table[];
extern const size_t lifecycle_table_len;

bool lifecycle_allows(enum msg_state from, enum msg_move move, enum msg_state *to);
const char *msg_state_name(enum msg_state s);
const char *msg_move_name(enum msg_move m);

enum reason {
	REASON_NONE, REASON_PERMANENT, REASON_MAX_ATTEMPTS, REASON_LEASE_EXPIRED, REASON_MALFORMED, REASON_EXPIRED,
	REASON_QUEUE_FULL, REASON_REJECTED, REASON_DELIVERY_LIMIT, REASON_UNKNOWN,
	REASON_COUNT
};
const char *reason_name(enum reason r);
bool reason_parse(struct str s, enum reason *out);

/* What the dead letter itself went through; shown as `state` in the API. */
enum dead_state { DEAD_DEAD, DEAD_REDRIVING, DEAD_REDRIVEN, DEAD_DISCARDED, DEAD_ARCHIVED, DEAD_STATE_COUNT };
const char *dead_state_name(enum dead_state s);
bool dead_state_parse(struct str s, enum dead_state *out);

#endif
