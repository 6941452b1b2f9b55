/* The only file that names a concrete store. */
#include "store/store.h"
#include "store/sqlite/sqlite_store.h"

#include <string.h>

static const struct store_ops *const backends[] = {&sqlite_store_ops};

/* The table holds a name and a set of flags, then only functions: none of them may be missing. */
static void table_check(const struct store_ops *o)
{
	const unsigned char *p = (const unsigned char *)o;
	ASSERT(o->name && o->name[0]);
	for (size_t at = offsetof(struct store_ops, open); at < sizeof(*o); at += sizeof(void (*)(void))) {
		void (*fn)(void);
		memcpy(&fn, p + at, sizeof(fn));
		ASSERT(fn != NULL);
	}
}

const struct store_ops *store_backend(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(backends); i++) {
		table_check(backends[i]);
		if (!name || !strcmp(backends[i]->name, name))
			return backends[i];
	}
	return NULL;
}

const char *redrive_state_name(enum redrive_state s)
{
	static const char *const names[] = {"running", "paused", "done", "cancelled", "halted"};
	ASSERT(s >= 0 && s < REDRIVE_STATE_COUNT);
	return names[s];
}

static const char *const role_names[] = {"viewer", "operator", "admin"};

const char *role_name(enum role r)
{
	ASSERT(r >= 0 && r < ROLE_COUNT);
	return role_names[r];
}

bool role_parse(struct str s, enum role *out)
{
	for (int i = 0; i < ROLE_COUNT; i++) {
		if (str_eqz(s, role_names[i])) {
			*out = (enum role)i;
			return true;
		}
	}
	return false;
}

enum dlq_code store_id_seq(struct str id, int64_t *seq, struct dlq_err *err)
{
	uint64_t v;
	struct str shown = str_cut(id, 64);
	if (!ulid_parse(id, NULL, NULL, &v) || v == 0 || v > INT64_MAX)
		return err_set(err, DLQ_NOT_FOUND, "there is nothing with the id \"" STR_FMT "\"", STR_ARG(shown));
	*seq = (int64_t)v;
	return DLQ_OK;
}

static const char *const action_names[] = {"redrive", "discard", "archive", "restore"};

const char *redrive_action_name(enum redrive_action a)
{
	ASSERT(a >= 0 && a < ACTION_COUNT);
	return action_names[a];
}

bool redrive_action_parse(struct str s, enum redrive_action *out)
{
	for (int i = 0; i < ACTION_COUNT; i++) {
		if (str_eqz(s, action_names[i])) {
			*out = (enum redrive_action)i;
			return true;
		}
	}
	return false;
}

const char *item_state_name(enum item_state s)
{
	static const char *const names[] = {"selected", "sent", "succeeded", "failed_again", "unknown", "skipped", "cancelled"};
	ASSERT(s >= 0 && s < ITEM_STATE_COUNT);
	return names[s];
}

static const char *const group_names[] = {"new", "acknowledged", "muted", "resolved", "regressed"};

const char *group_status_name(enum group_status s)
{
	ASSERT(s >= 0 && s < GROUP_STATUS_COUNT);
	return group_names[s];
}

bool group_status_parse(struct str s, enum group_status *out)
{
	for (int i = 0; i < GROUP_STATUS_COUNT; i++) {
		if (str_eqz(s, group_names[i])) {
			*out = (enum group_status)i;
			return true;
		}
	}
	return false;
}
