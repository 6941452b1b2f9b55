/* Reads of groups: one, lists, workers, histories. */
#include "store/sqlite/internal.h"

#define BUCKETS_MAX 1500
#define GROUP_SCAN 10000

int64_t group_id_of(struct conn *c, const uint8_t fp[16])
{
	int64_t id = 0;
	q_int(c, Q_GROUP_OF_FP, &id, "b", (struct str){(const char *)fp, 16});
	return id;
}

/* A mute whose time is over is none, even if nothing has failed since. */
static void mute_end(struct sq_store *s, struct store_group *g)
{
	if (g->status != GROUP_MUTED || !g->muted_until_ms || clock_wall_ms(s->clock) < g->muted_until_ms)
		return;
	g->status = GROUP_NEW;
	g->status_at_ms = g->muted_until_ms;
	g->muted_until_ms = g->muted_deaths = 0;
}

static void group_row(struct sq_store *s, sqlite3_stmt *st, struct arena *a, struct store_group *g)
{
	*g = (struct store_group){
	    .group_id = col(st, 0),
	    .queue_id = col(st, 1),
	    .queue = col_copy(st, 2, a),
	    .version = (int)col(st, 4),
	    .rules = (uint32_t)col(st, 5),
	    .error_type = col_copy(st, 6, a),
	    .normal = col_copy(st, 7, a),
	    .sample = col_copy(st, 8, a),
	    .status = (enum group_status)col(st, 9),
	    .muted_until_ms = col(st, 10),
	    .muted_deaths = col(st, 11),
	    .status_at_ms = col(st, 12),
	    .note = col_copy(st, 13, a),
	    .owner = col_copy(st, 14, a),
	    .merged_into = col(st, 15),
	    .merged = (int)col(st, 16),
	    .dead = col(st, 17),
	    .redriving = col(st, 18),
	    .redriven = col(st, 19),
	    .failed_again = col(st, 20),
	    .discarded = col(st, 21),
	    .archived = col(st, 22),
	    .deaths = col(st, 23),
	    .failures = col(st, 24),
	    .recovered = col(st, 25),
	    .first_seen_ms = col(st, 26),
	    .last_seen_ms = col(st, 27),
	    .last_no = col(st, 28),
	};
	struct str fp = col_str(st, 3);
	memcpy(g->fp, fp.p, fp.n < sizeof(g->fp) ? fp.n : sizeof(g->fp));
	mute_end(s, g);
}

static bool row_fetch(struct sq_store *s, struct conn *c, int64_t group_id, struct arena *a, struct store_group *out)
{
	sqlite3_stmt *st = q_bind(c, Q_GROUP_READ, "i", group_id);
	if (!q_row(c, st))
		return false;
	group_row(s, st, a, out);
	q_end(st);
	return true;
}

static void add_up(struct store_group *g, const struct store_group *m)
{
	g->dead += m->dead;
	g->redriving += m->redriving;
	g->redriven += m->redriven;
	g->failed_again += m->failed_again;
	g->discarded += m->discarded;
	g->archived += m->archived;
	g->deaths += m->deaths;
	g->failures += m->failures;
	g->recovered += m->recovered;
	if (m->first_seen_ms && (!g->first_seen_ms || m->first_seen_ms < g->first_seen_ms))
		g->first_seen_ms = m->first_seen_ms;
	if (m->last_seen_ms > g->last_seen_ms)
		g->last_seen_ms = m->last_seen_ms;
}

static void merged_add(struct sq_store *s, struct conn *c, struct store_group *g)
{
	int64_t ids[GROUP_MERGED_MAX + 1];
	struct arena a = {0};
	struct store_group m;
	int n = g->merged ? group_family(c, g->group_id, ids) : 0;
	for (int i = 1; i < n; i++)
		if (row_fetch(s, c, ids[i], &a, &m))
			add_up(g, &m);
	arena_release(&a);
}

bool group_fetch(struct sq_store *s, struct conn *c, int64_t group_id, struct arena *a, struct store_group *out)
{
	if (!row_fetch(s, c, group_id, a, out))
		return false;
	merged_add(s, c, out);
	return true;
}

enum dlq_code sq_read_group(struct store_reader *reader, const uint8_t fp[16], struct arena *a, struct store_group *out,
                            struct dlq_err *err)
{
	struct sq_reader *r = rd(reader);
	enum dlq_code c = DLQ_OK;
	read_begin(r);
	if (!group_fetch(r->store, &r->c, group_id_of(&r->c, fp), a, out) && !r->c.rc)
		c = err_set(err, DLQ_NOT_FOUND, "there is no such group");
	return read_end(r, c, err);
}

enum dlq_code sq_read_groups(struct store_reader *reader, const struct store_group_filter *f, struct arena *a,
                             struct store_group_page *out, struct dlq_err *err)
{
	struct sq_reader *r = rd(reader);
	int limit = page_limit(f->limit), scan = f->scan_limit > 0 ? f->scan_limit : GROUP_SCAN, scanned = 0;
	int64_t before = f->before_no ? f->before_no : INT64_MAX, last = 0;
	*out = (struct store_group_page){0};
	read_begin(r);
	sqlite3_stmt *st = f->queue_id ? q_bind(&r->c, Q_GROUP_PAGE_QUEUE, "ii", before, f->queue_id)
	                               : q_bind(&r->c, Q_GROUP_PAGE, "i", before);
	while (q_row(&r->c, st)) {
		if (out->n == limit || scanned == scan) {
			out->next_no = last;
			q_end(st);
			break;
		}
		out->items = list_grow(a, out->items, out->n, sizeof(*out->items));
		struct store_group *g = &out->items[out->n];
		group_row(r->store, st, a, g);
		last = g->last_no;
		scanned++;
		if (g->merged_into || (f->statuses && !(f->statuses & 1u << g->status)))
			continue;
		merged_add(r->store, &r->c, g);
		if (!f->with_dead || g->dead > 0)
			out->n++;
	}
	return read_end(r, DLQ_OK, err);
}

enum dlq_code sq_read_group_merged(struct store_reader *reader, int64_t group_id, struct arena *a,
                                   struct store_group **out, int *n, struct dlq_err *err)
{
	struct sq_reader *r = rd(reader);
	int64_t ids[GROUP_MERGED_MAX + 1];
	*out = NULL;
	*n = 0;
	read_begin(r);
	int family = group_family(&r->c, group_id, ids);
	for (int i = 1; i < family; i++) {
		*out = list_grow(a, *out, *n, sizeof(**out));
		if (row_fetch(r->store, &r->c, ids[i], a, &(*out)[*n]))
			(*n)++;
	}
	return read_end(r, DLQ_OK, err);
}

static void worker_merge(struct arena *a, sqlite3_stmt *st, struct store_group_worker **out, int *n)
{
	struct str worker = col_str(st, 0), version = col_str(st, 1);
	int64_t failures = col(st, 2), first = col(st, 3), last = col(st, 4);
	struct store_group_worker *w = NULL;
	for (int i = 0; i < *n && !w; i++)
		if (str_eq((*out)[i].worker, worker) && str_eq((*out)[i].version, version))
			w = &(*out)[i];
	if (!w) {
		*out = list_grow(a, *out, *n, sizeof(**out));
		w = &(*out)[(*n)++];
		*w = (struct store_group_worker){arena_str(a, worker), arena_str(a, version), 0, first, last};
	}
	w->failures += failures;
	w->first_ms = first < w->first_ms ? first : w->first_ms;
	w->last_ms = last > w->last_ms ? last : w->last_ms;
}

static int worker_order(const void *x, const void *y)
{
	const struct store_group_worker *a = x, *b = y;
	return a->failures < b->failures ? 1 : a->failures > b->failures ? -1 : a->first_ms < b->first_ms ? -1 : a->first_ms > b->first_ms;
}

enum dlq_code sq_read_group_workers(struct store_reader *reader, int64_t group_id, struct arena *a,
                                    struct store_group_worker **out, int *n, struct dlq_err *err)
{
	struct sq_reader *r = rd(reader);
	int64_t ids[GROUP_MERGED_MAX + 1];
	*out = NULL;
	*n = 0;
	read_begin(r);
	int family = group_family(&r->c, group_id, ids);
	for (int i = 0; i < family; i++) {
		sqlite3_stmt *st = q_bind(&r->c, Q_GROUP_WORKERS, "i", ids[i]);
		while (q_row(&r->c, st))
			worker_merge(a, st, out, n);
	}
	if (*n)
		qsort(*out, (size_t)*n, sizeof(**out), worker_order);
	return read_end(r, DLQ_OK, err);
}

/* What a moment of the history holds, over all groups given; false: nothing. */
static bool bucket_get(struct sq_reader *r, enum statement q, int64_t at, int64_t queue_id, const int64_t *ids, int n,
                       struct store_bucket *b)
{
	bool any = false;
	*b = (struct store_bucket){.at_ms = at};
	for (int i = 0; i < n; i++) {
		sqlite3_stmt *st = q_bind(&r->c, q, "iii", at, queue_id, ids[i]);
		if (!q_row(&r->c, st))
			continue;
		b->failures += col(st, 0);
		b->deaths += col(st, 1);
		b->done += col(st, 2);
		q_end(st);
		any = true;
	}
	return any;
}

enum dlq_code sq_read_buckets(struct store_reader *reader, int64_t queue_id, int64_t group_id, int64_t step_ms,
                              int64_t from_ms, int64_t to_ms, struct arena *a, struct store_bucket **out, int *n,
                              struct dlq_err *err)
{
	struct sq_reader *r = rd(reader);
	int64_t ids[GROUP_MERGED_MAX + 1] = {0};
	struct store_group g;
	int n_ids = 1;
	*out = NULL;
	*n = 0;
	if (step_ms != 60000 && step_ms != 3600000)
		return err_set(err, DLQ_BAD_REQUEST, "histories are by the minute or by the hour");
	from_ms = from_ms < 0 ? 0 : from_ms;
	int64_t at = from_ms % step_ms ? from_ms - from_ms % step_ms + step_ms : from_ms;
	read_begin(r);
	if (group_id) {
		n_ids = group_family(&r->c, group_id, ids);
		if (row_fetch(r->store, &r->c, group_id, a, &g))
			queue_id = g.queue_id;
	}
	for (int steps = 0; at < to_ms && steps < BUCKETS_MAX && !r->c.rc; at += step_ms, steps++) {
		struct store_bucket b;
		if (!bucket_get(r, step_ms == 60000 ? Q_MINUTE_GET : Q_HOUR_GET, at, queue_id, ids, n_ids, &b))
			continue;
		*out = list_grow(a, *out, *n, sizeof(**out));
		(*out)[(*n)++] = b;
	}
	return read_end(r, DLQ_OK, err);
}
