#include "core/lifecycle.h"

const struct move_rule lifecycle_table[] = {
    {MSG_NONE, MSG_READY, MOVE_SEND, ACTOR_PRODUCER},
    {MSG_NONE, MSG_HELD, MOVE_SEND_HELD, ACTOR_PRODUCER},
    {MSG_HELD, MSG_READY, MOVE_UNHOLD, ACTOR_ENGINE},
    {MSG_READY, MSG_LEASED, MOVE_LEASE, ACTOR_WORKER},
    {MSG_LEASED, MSG_DONE, MOVE_OK, ACTOR_WORKER},
    {MSG_LEASED, MSG_READY, MOVE_RELEASE, ACTOR_WORKER},
    {MSG_LEASED, MSG_READY, MOVE_RETRY, ACTOR_ENGINE},
    {MSG_LEASED, MSG_DEAD, MOVE_BURY, ACTOR_ENGINE},
    {MSG_READY, MSG_DEAD, MOVE_EXPIRE, ACTOR_ENGINE},
    {MSG_HELD, MSG_DEAD, MOVE_EXPIRE, ACTOR_ENGINE},
    {MSG_DEAD, MSG_READY, MOVE_REDRIVE, ACTOR_OPERATOR},
    {MSG_DEAD, MSG_HELD, MOVE_REDRIVE_HELD, ACTOR_OPERATOR},
    {MSG_DEAD, MSG_DISCARDED, MOVE_DISCARD, ACTOR_OPERATOR},
    {MSG_DEAD, MSG_ARCHIVED, MOVE_ARCHIVE, ACTOR_ENGINE},
    {MSG_DEAD, MSG_ARCHIVED, MOVE_GIVE_UP, ACTOR_OPERATOR},
    {MSG_DISCARDED, MSG_DEAD, MOVE_RESTORE, ACTOR_OPERATOR},
    {MSG_ARCHIVED, MSG_DEAD, MOVE_RESTORE, ACTOR_OPERATOR},
    {MSG_ARCHIVED, MSG_READY, MOVE_REDRIVE, ACTOR_OPERATOR},
    {MSG_ARCHIVED, MSG_HELD, MOVE_REDRIVE_HELD, ACTOR_OPERATOR},
    {MSG_NONE, MSG_DEAD, MOVE_IMPORT, ACTOR_OPERATOR},
};
const size_t lifecycle_table_len = ARRAY_LEN(lifecycle_table);

bool lifecycle_allows(enum msg_state from, enum msg_move move, enum msg_state *to)
{
	for (size_t i = 0; i < lifecycle_table_len; i++) {
		if (lifecycle_table[i].from != from || lifecycle_table[i].move != move)
			continue;
		if (to)
			*to = lifecycle_table[i].to;
		return true;
	}
	return false;
}

static const char *const state_names[MSG_STATE_COUNT] = {
    [MSG_NONE] = "none", [MSG_READY] = "ready", [MSG_HELD] = "held",           [MSG_LEASED] = "leased",
    [MSG_DONE] = "done", [MSG_DEAD] = "dead",   [MSG_DISCARDED] = "discarded", [MSG_ARCHIVED] = "archived",
};
static const char *const move_names[MOVE_COUNT] = {
    [MOVE_SEND] = "send",       [MOVE_SEND_HELD] = "send_held", [MOVE_UNHOLD] = "unhold",
    [MOVE_LEASE] = "lease",     [MOVE_OK] = "ok",               [MOVE_RELEASE] = "release",
    [MOVE_RETRY] = "retry",     [MOVE_BURY] = "bury",           [MOVE_EXPIRE] = "expire",
    [MOVE_REDRIVE] = "redrive", [MOVE_DISCARD] = "discard",     [MOVE_ARCHIVE] = "archive",
    [MOVE_REDRIVE_HELD] = "redrive_held", [MOVE_GIVE_UP] = "give_up", [MOVE_RESTORE] = "restore",
    [MOVE_IMPORT] = "import",
};
static const char *const reason_names[REASON_COUNT] = {
    [REASON_NONE] = "none",
    [REASON_PERMANENT] = "permanent",
    [REASON_MAX_ATTEMPTS] = "max_attempts",
    [REASON_LEASE_EXPIRED] = "lease_expired",
    [REASON_MALFORMED] = "malformed",
    [REASON_EXPIRED] = "expired",
    [REASON_QUEUE_FULL] = "queue_full",
    [REASON_REJECTED] = "rejected",
    [REASON_DELIVERY_LIMIT] = "delivery_limit",
    [REASON_UNKNOWN] = "unknown",
};
static const char *const dead_state_names[DEAD_STATE_COUNT] = {
    [DEAD_DEAD] = "dead",           [DEAD_REDRIVING] = "redriving", [DEAD_REDRIVEN] = "redriven",
    [DEAD_DISCARDED] = "discarded", [DEAD_ARCHIVED] = "archived",
};

static const char *name_of(const char *const *names, int n, int i)
{
	ASSERT(i >= 0 && i < n);
	return names[i];
}

static int index_of(const char *const *names, int n, struct str s)
{
	for (int i = 0; i < n; i++)
		if (str_eqz(s, names[i]))
			return i;
	return -1;
}

const char *msg_state_name(enum msg_state s)
{
	return name_of(state_names, MSG_STATE_COUNT, (int)s);
}

const char *msg_move_name(enum msg_move m)
{
	return name_of(move_names, MOVE_COUNT, (int)m);
}

const char *reason_name(enum reason r)
{
	return name_of(reason_names, REASON_COUNT, (int)r);
}

bool reason_parse(struct str s, enum reason *out)
{
	int i = index_of(reason_names, REASON_COUNT, s);
	if (i <= REASON_NONE) /* "none" is no reason a message can have */
		return false;
	*out = (enum reason)i;
	return true;
}

const char *dead_state_name(enum dead_state s)
{
	return name_of(dead_state_names, DEAD_STATE_COUNT, (int)s);
}

bool dead_state_parse(struct str s, enum dead_state *out)
{
	int i = index_of(dead_state_names, DEAD_STATE_COUNT, s);
	if (i < 0)
		return false;
	*out = (enum dead_state)i;
	return true;
}
