/* Transactions, and the memory side that follows them: counts, numbers, the heap of leases. */
#include "store/sqlite/internal.h"

#define NUMBER_BLOCK 100000
#define HIGH_WATER_EVERY_MS 1000

struct sq_queue *queue_find(struct sq_store *s, int64_t queue_id)
{
	if (s->last && s->last->queue_id == queue_id && !s->last->deleted)
		return s->last;
	size_t lo = 0, hi = s->n_queues;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		if (s->queues[mid]->queue_id < queue_id)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == s->n_queues || s->queues[lo]->queue_id != queue_id || s->queues[lo]->deleted)
		return NULL;
	return s->last = s->queues[lo];
}

/* queue ids only rise, so the list stays sorted by appending. */
struct sq_queue *queue_add(struct sq_store *s, int64_t queue_id, bool ordered)
{
	struct sq_queue *q = mem_alloc(sizeof(*q));
	ASSERT(!s->n_queues || s->queues[s->n_queues - 1]->queue_id < queue_id);
	q->queue_id = queue_id;
	q->ordered = ordered;
	s->queues = scratch_grow(s->queues, s->n_queues + 1, &s->cap_queues, sizeof(*s->queues));
	s->queues[s->n_queues++] = q;
	return q;
}

struct store_counts *queue_touch(struct sq_store *s, struct sq_queue *q)
{
	if (!q->touched) {
		q->touched = true;
		q->saved = q->now;
		s->touched = scratch_grow(s->touched, s->n_touched + 1, &s->cap_touched, sizeof(*s->touched));
		s->touched[s->n_touched++] = q;
	}
	return &q->now;
}

static void queues_drop(struct sq_store *s, bool (*gone)(const struct sq_queue *q))
{
	size_t keep = 0;
	for (size_t i = 0; i < s->n_queues; i++) {
		if (gone(s->queues[i]))
			mem_free(s->queues[i]);
		else
			s->queues[keep++] = s->queues[i];
	}
	s->n_queues = keep;
	s->last = NULL;
}

static bool was_created(const struct sq_queue *q)
{
	return q->created;
}

static bool was_deleted(const struct sq_queue *q)
{
	return q->deleted;
}

static struct str int_text(int64_t v, char out[24])
{
	return (struct str){out, (size_t)snprintf(out, 24, "%lld", (long long)v)};
}

static void meta_int(struct sq_store *s, const char *name, int64_t v)
{
	char text[24];
	q_run(&s->w, Q_META_SET, "Tb", str_of(name), int_text(v, text));
}

int64_t number_take(struct sq_store *s, struct number *n)
{
	if (n->next >= n->reserved) {
		n->reserved = n->next + NUMBER_BLOCK;
		meta_int(s, n->meta, n->reserved);
	}
	return n->next++;
}

static int64_t meta_read_int(struct sq_store *s, const char *name, int64_t absent)
{
	sqlite3_stmt *st = q_bind(&s->w, Q_META_GET, "T", str_of(name));
	int64_t v = absent;
	if (q_row(&s->w, st)) {
		v = col(st, 0); /* a blob of digits reads as its number */
		char text[24] = "";
		struct str raw = col_str(st, 0);
		if (raw.n < sizeof(text)) {
			memcpy(text, raw.p, raw.n);
			v = strtoll(text, NULL, 10);
		}
		q_end(st);
	}
	return v;
}

static void number_load(struct sq_store *s, struct number *n, const char *meta)
{
	int64_t v = meta_read_int(s, meta, 1);
	*n = (struct number){.meta = meta, .next = v, .reserved = v, .reserved_saved = v};
}

static void counts_read(sqlite3_stmt *st, struct store_counts *c)
{
	struct arena a = {0};
	struct store_queue row;
	queue_row(st, &a, &row);
	*c = row.counts;
	arena_release(&a);
}

bool memory_load(struct sq_store *s)
{
	sqlite3_stmt *st = q_bind(&s->w, Q_META_GET, "T", STR("id_key"));
	if (q_row(&s->w, st)) {
		struct str key = col_str(st, 0);
		memcpy(&s->id_key, key.p, key.n < sizeof(s->id_key) ? key.n : sizeof(s->id_key));
		q_end(st);
	}
	number_load(s, &s->seq, "next_seq");
	number_load(s, &s->died_no, "next_died_no");
	number_load(s, &s->group_no, "next_group_no");
	s->high_open = s->high_written = meta_read_int(s, "high_water", 0);
	st = q_get(&s->w, Q_QUEUE_LOAD);
	while (q_row(&s->w, st))
		counts_read(st, &queue_add(s, col(st, 0), col(st, 3) != 0)->now);
	return heap_load(s);
}

void memory_free(struct sq_store *s)
{
	for (size_t i = 0; i < s->n_queues; i++)
		mem_free(s->queues[i]);
	mem_free(s->queues);
	mem_free(s->touched);
	mem_free(s->heap.v);
	mem_free(s->popped);
	mem_free(s->claimed);
	groups_drop(s);
	mem_free(s->groups.dirty);
}

enum dlq_code sq_begin(struct store *store, struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	ASSERT(!s->in_tx);
	pthread_mutex_lock(&s->ck_lock);
	if (s->ck_rc)
		conn_fault(&s->w, s->ck_rc);
	pthread_mutex_unlock(&s->ck_lock);
	q_run(&s->w, Q_BEGIN, "");
	s->now = clock_now_ms(s->clock);
	s->wall = clock_wall_ms(s->clock);
	s->changes0 = sqlite3_total_changes64(s->w.db);
	s->in_tx = true;
	enum dlq_code c = conn_code(&s->w, err);
	if (c)
		sq_rollback(store);
	return c;
}

static void counts_write(struct sq_store *s)
{
	for (size_t i = 0; i < s->n_touched; i++) {
		const struct store_counts *c = &s->touched[i]->now;
		if (s->touched[i]->deleted)
			continue;
		q_run(&s->w, Q_COUNT_UPDATE, "iiiiiiiiiiiiiiiii", s->touched[i]->queue_id, c->ready, c->retrying,
		      c->held, c->leased, c->dead, c->redriving, c->bytes, c->sent, c->done, c->failed_attempts,
		      c->died, c->redriven, c->discarded, c->archived, c->duplicates, c->imported);
		queue_history(s, s->touched[i]);
	}
}

static void memory_undo(struct sq_store *s)
{
	for (size_t i = 0; i < s->n_touched; i++) {
		s->touched[i]->now = s->touched[i]->saved;
		s->touched[i]->touched = false;
	}
	s->n_touched = 0;
	for (size_t i = 0; i < s->n_queues; i++)
		s->queues[i]->deleted = false;
	queues_drop(s, was_created);
	for (size_t i = 0; i < s->n_popped; i++)
		heap_push(&s->heap, s->popped[i].until, s->popped[i].seq);
	s->n_popped = 0;
	s->seq.reserved = s->seq.reserved_saved;
	s->died_no.reserved = s->died_no.reserved_saved;
	s->group_no.reserved = s->group_no.reserved_saved;
	groups_drop(s);
	s->ttl_bound = 0;
}

static void memory_keep(struct sq_store *s)
{
	bool dropped = false;
	for (size_t i = 0; i < s->n_touched; i++) {
		struct sq_queue *q = s->touched[i];
		q->touched = q->created = false;
		dropped = dropped || q->deleted;
	}
	s->n_touched = s->n_popped = 0;
	if (dropped)
		queues_drop(s, was_deleted);
	s->seq.reserved_saved = s->seq.reserved;
	s->died_no.reserved_saved = s->died_no.reserved;
	s->group_no.reserved_saved = s->group_no.reserved;
	groups_keep(s);
}

void sq_rollback(struct store *store)
{
	struct sq_store *s = sq(store);
	if (!s->in_tx)
		return;
	conn_clear(&s->w);
	for (int i = 0; i < Q_COUNT; i++)
		sqlite3_reset(s->w.st[i]);
	if (!sqlite3_get_autocommit(s->w.db))
		sqlite3_exec(s->w.db, "ROLLBACK", NULL, NULL, NULL);
	memory_undo(s);
	s->in_tx = false;
}

enum dlq_code sq_commit(struct store *store, struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	ASSERT(s->in_tx);
	groups_flush(s);
	counts_write(s);
	groups_sweep(s);
	bool high = s->now >= s->high_written + HIGH_WATER_EVERY_MS && sqlite3_total_changes64(s->w.db) > s->changes0;
	if (high)
		meta_int(s, "high_water", s->now);
	q_run(&s->w, Q_COMMIT, "");
	enum dlq_code c = conn_code(&s->w, err);
	if (c) {
		sq_rollback(store);
		return c;
	}
	if (high)
		s->high_written = s->now;
	memory_keep(s);
	s->in_tx = false;
	heap_trim(s);
	conn_clear(&s->w); /* the heap is a cache: that it could not be trimmed loses nothing */
	checkpoint_after_commit(s);
	return DLQ_OK;
}

enum dlq_code sq_probe(struct store *store, struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	pthread_mutex_lock(&s->ck_lock);
	if ((s->ck_rc & 0xff) != SQLITE_CORRUPT)
		s->ck_rc = SQLITE_OK;
	pthread_mutex_unlock(&s->ck_lock);
	enum dlq_code c = sq_begin(store, err);
	if (c)
		return c;
	meta_int(s, "high_water", s->now);
	/* SQLite writes nothing for a row that does not change: this one does, every time. */
	meta_int(s, "probes", meta_read_int(s, "probes", 0) + 1);
	c = sq_commit(store, err);
	if (!c)
		s->high_written = s->now;
	return c;
}
