/*
 * Groups as failures happen: which one a failure belongs to, what it does to the group's status, and the counts,
 * histories and workers, gathered over the transaction and written once.
 */
#include "store/sqlite/internal.h"

#define CACHE_MAX 4096 /* groups kept over a commit */
#define MINUTE_MS INT64_C(60000)
#define HOUR_MS (60 * MINUTE_MS)
#define MINUTES_KEPT_MS (48 * HOUR_MS)
#define HOURS_KEPT_MS (35 * 24 * HOUR_MS)
#define SWEEP_ROWS 1000 /* of each history at a commit */
#define OTHERS STR("(others)")

/* ---- the cache ---- */

static size_t key_chain(int64_t queue_id, const uint8_t fp[16])
{
	uint64_t h;
	memcpy(&h, fp, sizeof(h));
	return (size_t)((h ^ (uint64_t)queue_id * 0x9e3779b97f4a7c15u) % GROUP_CHAINS);
}

static size_t id_chain(int64_t group_id)
{
	return (size_t)group_id % GROUP_CHAINS;
}

static void cache_add(struct sq_groups *t, struct sq_group *g)
{
	size_t k = key_chain(g->queue_id, g->fp), i = id_chain(g->group_id);
	g->next_key = t->by_key[k];
	t->by_key[k] = g;
	g->next_id = t->by_id[i];
	t->by_id[i] = g;
	t->n++;
}

static void uses_clear(struct sq_group *g)
{
	for (size_t i = 0; i < g->n_uses; i++) {
		mem_free(g->uses[i].worker);
		mem_free(g->uses[i].version);
	}
	g->n_uses = 0;
}

void groups_drop(struct sq_store *s)
{
	struct sq_groups *t = &s->groups;
	for (size_t i = 0; i < GROUP_CHAINS; i++) {
		for (struct sq_group *g = t->by_id[i], *next; g; g = next) {
			next = g->next_id;
			uses_clear(g);
			mem_free(g->uses);
			mem_free(g);
		}
		t->by_id[i] = t->by_key[i] = NULL;
	}
	t->n = t->n_dirty = 0;
	t->kept_history = false;
	t->swept_at = 0;
}

void groups_keep(struct sq_store *s)
{
	ASSERT(s->groups.n_dirty == 0);
	s->groups.kept_history = false;
	if (s->groups.n > CACHE_MAX)
		groups_drop(s);
}

static struct sq_group *group_load(struct sq_store *s, int64_t group_id)
{
	sqlite3_stmt *st = q_bind(&s->w, Q_GROUP_LOAD, "i", group_id);
	if (!q_row(&s->w, st))
		return NULL;
	struct sq_group *g = mem_alloc(sizeof(*g));
	struct str fp = col_str(st, 1);
	g->group_id = group_id;
	g->queue_id = col(st, 0);
	memcpy(g->fp, fp.p, fp.n < sizeof(g->fp) ? fp.n : sizeof(g->fp));
	g->status = (enum group_status)col(st, 2);
	g->muted_until = col(st, 3);
	g->muted_deaths = col(st, 4);
	g->merged_into = col(st, 5);
	g->merged = col(st, 6);
	g->last_no = col(st, 7);
	g->dead = col(st, 8);
	g->redriving = col(st, 9);
	g->redriven = col(st, 10);
	g->failed_again = col(st, 11);
	g->discarded = col(st, 12);
	g->archived = col(st, 13);
	g->deaths = col(st, 14);
	g->failures = col(st, 15);
	g->recovered = col(st, 16);
	g->first_seen = col(st, 17);
	g->last_seen = col(st, 18);
	g->n_workers = col(st, 19);
	q_end(st);
	cache_add(&s->groups, g);
	return g;
}

struct sq_group *group_by_id(struct sq_store *s, int64_t group_id)
{
	if (group_id <= 0)
		return NULL;
	for (struct sq_group *g = s->groups.by_id[id_chain(group_id)]; g; g = g->next_id)
		if (g->group_id == group_id)
			return g;
	return group_load(s, group_id);
}

static struct sq_group *touch(struct sq_store *s, struct sq_group *g)
{
	struct sq_groups *t = &s->groups;
	if (g && !g->dirty) {
		g->dirty = true;
		t->dirty = scratch_grow(t->dirty, t->n_dirty + 1, &t->cap_dirty, sizeof(*t->dirty));
		t->dirty[t->n_dirty++] = g;
	}
	return g;
}

struct sq_group *group_touch(struct sq_store *s, int64_t group_id)
{
	return touch(s, group_by_id(s, group_id));
}

static struct sq_group *group_make(struct sq_store *s, int64_t queue_id, const struct store_group_key *k)
{
	q_run(&s->w, Q_GROUP_INSERT, "ibiiittt", queue_id, (struct str){(const char *)k->fp, sizeof(k->fp)}, I(k->version),
	      I(k->rules), s->wall, k->error_type, k->normal, k->sample);
	int64_t id = sqlite3_last_insert_rowid(s->w.db);
	q_run(&s->w, Q_GROUP_COUNT_INSERT, "ii", id, queue_id);
	return s->w.rc ? NULL : group_load(s, id);
}

/* Found, or made by this failure. */
static struct sq_group *group_of(struct sq_store *s, int64_t queue_id, const struct store_group_key *k)
{
	int64_t id = 0;
	for (struct sq_group *g = s->groups.by_key[key_chain(queue_id, k->fp)]; g; g = g->next_key)
		if (g->queue_id == queue_id && !memcmp(g->fp, k->fp, sizeof(g->fp)))
			return g;
	if (q_int(&s->w, Q_GROUP_FIND, &id, "bi", (struct str){(const char *)k->fp, sizeof(k->fp)}, queue_id))
		return group_load(s, id);
	return s->w.rc ? NULL : group_make(s, queue_id, k);
}

struct sq_group *group_of_key(struct sq_store *s, int64_t queue_id, const struct store_group_key *k)
{
	return touch(s, group_of(s, queue_id, k));
}

/* ---- what a failure does ---- */

static int64_t deaths_in_all(struct sq_store *s, const struct sq_group *g)
{
	int64_t ids[GROUP_MERGED_MAX + 1], sum = 0;
	int n = g->merged ? group_family(&s->w, g->group_id, ids) : 0;
	if (!n)
		return g->deaths;
	for (int i = 0; i < n; i++) {
		const struct sq_group *m = group_by_id(s, ids[i]);
		sum += m ? m->deaths : 0;
	}
	return sum;
}

/* It failed, and was counted: resolved becomes regressed, a mute may be over. */
static void status_after_failure(struct sq_store *s, struct sq_group *g)
{
	if (g->status == GROUP_RESOLVED) {
		g->status = GROUP_REGRESSED;
	} else if (g->status == GROUP_MUTED && ((g->muted_until && s->wall >= g->muted_until) ||
	                                        (g->muted_deaths && deaths_in_all(s, g) >= g->muted_deaths))) {
		g->status = GROUP_NEW;
		g->muted_until = g->muted_deaths = 0;
	} else {
		return;
	}
	q_run(&s->w, Q_GROUP_STATUS, "iiiii", g->group_id, I(g->status), g->muted_until, g->muted_deaths, s->wall);
}

static void worker_add(struct sq_group *g, struct str worker, struct str version, int64_t at)
{
	if (!worker.n && !version.n)
		return;
	for (size_t i = g->n_uses; i-- > 0;) {
		struct worker_use *u = &g->uses[i];
		if (str_eqz(worker, u->worker) && str_eqz(version, u->version)) {
			u->failures++;
			u->last_at = at > u->last_at ? at : u->last_at;
			return;
		}
	}
	g->uses = scratch_grow(g->uses, g->n_uses + 1, &g->cap_uses, sizeof(*g->uses));
	g->uses[g->n_uses++] = (struct worker_use){mem_strdup(worker), mem_strdup(version), 1, at, at};
}

int64_t group_failure(struct sq_store *s, int64_t queue_id, const struct store_attempt *at, bool deadly)
{
	struct sq_group *g = at->group ? touch(s, group_of(s, queue_id, at->group)) : NULL;
	if (!g)
		return 0;
	g->failures++;
	g->tx_failures++;
	g->deaths += deadly;
	g->tx_deaths += deadly;
	if (!g->first_seen || at->at_ms < g->first_seen)
		g->first_seen = at->at_ms;
	if (at->at_ms > g->last_seen)
		g->last_seen = at->at_ms;
	g->last_no = number_take(s, &s->group_no);
	worker_add(g, at->worker, at->worker_version, at->at_ms);
	status_after_failure(s, g);
	struct sq_group *into = group_touch(s, g->merged_into);
	if (into) { /* the one that people look at */
		into->last_no = number_take(s, &s->group_no);
		status_after_failure(s, into);
	}
	return g->group_id;
}

void group_recovered(struct sq_store *s, int64_t seq)
{
	int64_t group_id = 0;
	q_int(&s->w, Q_ATTEMPT_GROUP, &group_id, "i", seq);
	struct sq_group *g = group_touch(s, group_id);
	if (g)
		g->recovered++;
}

/* ---- writing it down ---- */

static void history_add(struct sq_store *s, int64_t queue_id, int64_t group_id, int64_t failures, int64_t deaths,
                        int64_t done)
{
	int64_t minute = s->wall - s->wall % MINUTE_MS, hour = s->wall - s->wall % HOUR_MS;
	if (!failures && !deaths && !done)
		return;
	q_run(&s->w, Q_MINUTE_ADD, "iiiiii", minute, queue_id, group_id, failures, deaths, done);
	q_run(&s->w, Q_HOUR_ADD, "iiiiii", hour, queue_id, group_id, failures, deaths, done);
	s->groups.kept_history = true;
}

void queue_history(struct sq_store *s, const struct sq_queue *q)
{
	history_add(s, q->queue_id, 0, q->now.failed_attempts - q->saved.failed_attempts, q->now.died - q->saved.died,
	            q->now.done - q->saved.done);
}

static void workers_write(struct sq_store *s, struct sq_group *g)
{
	for (size_t i = 0; i < g->n_uses; i++) {
		const struct worker_use *u = &g->uses[i];
		struct str worker = str_of(u->worker), version = str_of(u->version);
		if (q_run(&s->w, Q_GROUP_WORKER_ADD, "iTTii", g->group_id, worker, version, u->failures, u->last_at))
			continue;
		if (g->n_workers < GROUP_WORKERS_MAX)
			g->n_workers++;
		else
			worker = OTHERS, version = STR("");
		q_run(&s->w, Q_GROUP_WORKER_NEW, "iTTiii", g->group_id, worker, version, u->failures, u->first_at,
		      u->last_at);
	}
	uses_clear(g);
}

void groups_flush(struct sq_store *s)
{
	struct sq_groups *t = &s->groups;
	for (size_t i = 0; i < t->n_dirty && !s->w.rc; i++) {
		struct sq_group *g = t->dirty[i];
		q_run(&s->w, Q_GROUP_COUNT_UPDATE, "iiiiiiiiiiiii", g->group_id, g->last_no, g->dead, g->redriving,
		      g->redriven, g->failed_again, g->discarded, g->archived, g->deaths, g->failures, g->recovered,
		      g->first_seen, g->last_seen);
		history_add(s, g->queue_id, g->group_id, g->tx_failures, g->tx_deaths, 0);
		workers_write(s, g);
		g->tx_failures = g->tx_deaths = 0;
		g->dirty = false;
	}
	if (!s->w.rc)
		t->n_dirty = 0;
}

/* Once a minute, in steps: what a commit adds to the histories, it can also take away. */
void groups_sweep(struct sq_store *s)
{
	struct sq_groups *t = &s->groups;
	int64_t minute = s->wall - s->wall % MINUTE_MS;
	if (!t->kept_history || t->swept_at == minute)
		return;
	int minutes = q_run(&s->w, Q_MINUTE_SWEEP, "ii", minute - MINUTES_KEPT_MS, I(SWEEP_ROWS));
	int hours = q_run(&s->w, Q_HOUR_SWEEP, "ii", minute - HOURS_KEPT_MS, I(SWEEP_ROWS));
	if (minutes < SWEEP_ROWS && hours < SWEEP_ROWS)
		t->swept_at = minute;
}

void groups_delete(struct sq_store *s, int64_t queue_id)
{
	groups_flush(s);
	q_run(&s->w, Q_GROUP_DROP_WORKERS, "i", queue_id);
	q_run(&s->w, Q_GROUP_DROP_COUNTS, "i", queue_id);
	q_run(&s->w, Q_GROUP_DROP, "i", queue_id);
	groups_drop(s);
}
