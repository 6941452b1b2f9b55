/* What people do to a group: status, mute, note, owner, merge and split. */
#include "store/sqlite/internal.h"

enum dlq_code sq_group_get(struct store *store, const uint8_t fp[16], struct arena *a, struct store_group *out,
                           struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	groups_flush(s);
	if (!group_fetch(s, &s->w, group_id_of(&s->w, fp), a, out) && !s->w.rc)
		return err_set(err, DLQ_NOT_FOUND, "there is no such group");
	return conn_code(&s->w, err);
}

static enum dlq_code merge_check(const struct sq_group *g, const struct sq_group *into, struct dlq_err *err)
{
	if (!into)
		return err_set(err, DLQ_NOT_FOUND, "the group to merge into does not exist");
	if (g->group_id == into->group_id)
		return err_set(err, DLQ_CONFLICT, "a group cannot be merged into itself");
	if (g->queue_id != into->queue_id)
		return err_set(err, DLQ_CONFLICT, "the groups are of different queues: only groups of one queue can be merged");
	if (into->merged_into)
		return err_set(err, DLQ_CONFLICT, "the group to merge into is itself merged into another: merge into that one");
	if (g->merged)
		return err_set(err, DLQ_CONFLICT, "%lld groups are merged into this one: split them off first",
		               (long long)g->merged);
	if (into->merged >= GROUP_MERGED_MAX)
		return err_set(err, DLQ_CONFLICT, "%d groups are merged into that one already, and that is the most",
		               GROUP_MERGED_MAX);
	return DLQ_OK;
}

static void merge_write(struct sq_store *s, struct sq_group *g, int64_t merged_into, int64_t merged)
{
	g->merged_into = merged_into;
	g->merged = merged;
	q_run(&s->w, Q_GROUP_MERGE, "iii", g->group_id, merged_into, merged);
}

static enum dlq_code merge_set(struct sq_store *s, struct sq_group *g, int64_t into_id, struct dlq_err *err)
{
	struct sq_group *into = into_id ? group_by_id(s, into_id) : NULL;
	enum dlq_code c = into_id ? merge_check(g, into, err) : DLQ_OK;
	if (c || g->merged_into == into_id)
		return c;
	struct sq_group *was = group_by_id(s, g->merged_into);
	if (was)
		merge_write(s, was, was->merged_into, was->merged - 1);
	merge_write(s, g, into_id, g->merged);
	if (into) {
		merge_write(s, into, 0, into->merged + 1);
		if (g->last_no > into->last_no) { /* in lists it stands where the newest failure of all puts it */
			group_touch(s, into_id);
			into->last_no = number_take(s, &s->group_no);
		}
	}
	return DLQ_OK;
}

enum dlq_code sq_group_set(struct store *store, const struct store_group *set, struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	struct sq_group *g = group_by_id(s, set->group_id);
	bool muted = set->status == GROUP_MUTED;
	if (!g)
		return s->w.rc ? conn_code(&s->w, err) : err_set(err, DLQ_NOT_FOUND, "there is no such group");
	ASSERT(set->status >= 0 && set->status < GROUP_STATUS_COUNT);
	enum dlq_code c = merge_set(s, g, set->merged_into, err);
	if (c)
		return c;
	int64_t until = muted ? set->muted_until_ms : 0, deaths = muted ? set->muted_deaths : 0;
	if (set->status != g->status || until != g->muted_until || deaths != g->muted_deaths) {
		g->status = set->status;
		g->muted_until = until;
		g->muted_deaths = deaths;
		q_run(&s->w, Q_GROUP_STATUS, "iiiii", g->group_id, I(g->status), until, deaths, s->wall);
	}
	q_run(&s->w, Q_GROUP_TEXT, "itt", g->group_id, set->note, set->owner);
	/* The cache has changed with the row: a rollback drops it all. */
	return conn_code(&s->w, err);
}
