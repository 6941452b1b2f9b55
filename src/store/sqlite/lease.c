/* Leases: claim, and how one ends. */
#include "store/sqlite/internal.h"

/* Headers and body: those of the last edit, where it has them. */
static void content_of(struct sq_store *s, sqlite3_stmt *claim, int64_t redrives, struct arena *a, struct store_delivery *d)
{
	sqlite3_stmt *st = redrives ? q_bind(&s->w, Q_EDIT_LAST, "i", d->seq) : NULL;
	bool edited = st && q_row(&s->w, st), headers = edited && sqlite3_column_type(st, 0) != SQLITE_NULL,
	     body = edited && sqlite3_column_type(st, 1) != SQLITE_NULL;
	d->headers = headers ? col_copy(st, 0, a) : col_copy(claim, 11, a);
	d->body = body ? col_copy(st, 1, a) : col_copy(claim, 12, a);
	if (edited)
		q_end(st);
}

static void claim_row(struct sq_store *s, sqlite3_stmt *st, int64_t nonce, int64_t until, struct arena *a,
                      struct store_delivery *d, struct claimed *m)
{
	*m = (struct claimed){
	    col(st, 0), col(st, 1), col(st, 2), col(st, 3), col(st, 4), col(st, 5), sqlite3_column_bytes(st, 12),
	    col(st, 7)};
	*d = (struct store_delivery){
	    .seq = m->seq,
	    .nonce = nonce,
	    .attempts = (int)m->attempts,
	    .lease_expirations = (int)m->lease_expirations,
	    .redrives = (int)m->redrives,
	    .received_at_ms = col(st, 6),
	    .lease_until = until,
	    .id = id_message_copy(s, a, col_str(st, 8), col(st, 6), m->seq),
	    .key = col_copy(st, 9, a),
	    .content_type = col_copy(st, 10, a),
	};
	content_of(s, st, m->redrives, a, d);
}

static void leases_write(struct sq_store *s, int64_t queue_id, int64_t until, struct str worker, const int64_t *nonces,
                         int n)
{
	for (int i = 0; i < n && !s->w.rc;) {
		int step = n - i >= BULK ? BULK : 1;
		sqlite3_stmt *st =
		    q_bind(&s->w, step == BULK ? Q_BULK_LEASED : Q_LEASE_INSERT, "iit", queue_id, until, worker);
		for (int k = 0; st && k < step; k++, i++) {
			const struct claimed *m = &s->claimed[i];
			int o = k * 7;
			sqlite3_bind_int64(st, o + 4, m->seq);
			sqlite3_bind_int64(st, o + 5, nonces[i]);
			sqlite3_bind_int64(st, o + 6, m->attempts);
			sqlite3_bind_int64(st, o + 7, m->lease_expirations);
			sqlite3_bind_int64(st, o + 8, m->redrives);
			sqlite3_bind_int64(st, o + 9, m->previous_delay);
			sqlite3_bind_int64(st, o + 10, m->size);
			heap_push(&s->heap, until, m->seq);
		}
		q_step(&s->w, st);
	}
}

static void ready_remove(struct sq_store *s, int64_t queue_id, int n, bool skipped)
{
	const struct claimed *last = &s->claimed[n - 1];
	if (!skipped && n > 1)
		q_run(&s->w, Q_READY_RANGE, "iii", queue_id, last->due, last->seq);
	for (int i = 0; i < n; i++) {
		const struct claimed *m = &s->claimed[i];
		if (skipped || n == 1)
			q_run(&s->w, Q_READY_DELETE, "iii", queue_id, m->due, m->seq);
		if (m->expires && !m->redrives)
			q_run(&s->w, Q_TTL_DELETE, "ii", m->expires, m->seq);
	}
}

enum dlq_code sq_claim(struct store *store, int64_t queue_id, int64_t now, int64_t lease_until, struct str worker,
                       const int64_t *nonces, int max, struct arena *a, struct store_delivery *out, int *n,
                       struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	struct sq_queue *q = queue_find(s, queue_id);
	*n = 0;
	if (!q)
		return err_set(err, DLQ_NOT_FOUND, "there is no queue %lld in the store", (long long)queue_id);
	if (q->now.ready == 0)
		return DLQ_OK;
	/* Ended TTLs are passed over; only then may a row before the last one stay behind. */
	bool may_skip = now >= s->ttl_bound;
	s->claimed = scratch_grow(s->claimed, (size_t)max, &s->cap_claimed, sizeof(*s->claimed));
	sqlite3_stmt *st = q_bind(&s->w, may_skip ? Q_CLAIM_TTL : Q_CLAIM, "iii", queue_id, now, I(max));
	int64_t retrying = 0;
	while (q_row(&s->w, st)) {
		claim_row(s, st, nonces[*n], lease_until, a, &out[*n], &s->claimed[*n]);
		retrying += s->claimed[*n].attempts > 0;
		(*n)++;
	}
	if (*n && !s->w.rc) {
		struct store_counts *c = queue_touch(s, q);
		leases_write(s, queue_id, lease_until, worker, nonces, *n);
		ready_remove(s, queue_id, *n, may_skip);
		c->ready -= *n;
		c->retrying -= retrying;
		c->leased += *n;
	}
	return conn_code(&s->w, err);
}

static enum dlq_code gone(struct sq_store *s, struct dlq_err *err)
{
	if (s->w.rc)
		return conn_code(&s->w, err);
	return err_set(err, DLQ_GONE,
	               "there is no such lease: it was settled, it ended, or the receipt is of another queue");
}

/*
 * A redriven message is done: its dead letter says so, and keeps the payload until its retention has passed. It is counted
 * where it died, which may be another queue.
 */
static void done_redriven(struct sq_store *s, int64_t seq)
{
	int64_t redrive_n = 0;
	sqlite3_stmt *st = q_bind(&s->w, Q_DEAD_FACTS, "i", seq);
	if (!q_row(&s->w, st))
		return;
	redrive_n = col(st, 5);
	int64_t group_id = col(st, 10);
	struct sq_queue *home = queue_find(s, col(st, 0));
	q_end(st);
	q_run(&s->w, Q_DEAD_STATE, "iii", seq, I(DEAD_REDRIVEN), s->wall);
	if (redrive_n) {
		q_run(&s->w, Q_REDRIVE_SUCCEEDED, "i", redrive_n);
		q_run(&s->w, Q_ITEM_OUTCOME, "iiii", redrive_n, seq, I(ITEM_SUCCEEDED), s->wall);
	}
	struct sq_group *g = group_touch(s, group_id);
	if (g) {
		g->redriving--;
		g->redriven++;
	}
	if (home) {
		queue_touch(s, home)->redriving--;
		home->now.redriven++;
	}
}

/* The key of a message, in the arena. */
static struct str key_of(struct sq_store *s, int64_t seq, struct arena *a)
{
	struct str key = STR("");
	sqlite3_stmt *st = q_bind(&s->w, Q_PAYLOAD_FACTS, "i", seq);
	if (q_row(&s->w, st)) {
		key = col_copy(st, 2, a);
		q_end(st);
	}
	return key;
}

enum dlq_code sq_done(struct store *store, int64_t queue_id, int64_t seq, int64_t nonce, bool *unheld,
                      struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	struct sq_queue *q = queue_find(s, queue_id);
	*unheld = false;
	/* Looked at, then deleted by its number: DELETE ... RETURNING goes through a temporary table and costs twice
	 * the time. */
	sqlite3_stmt *st = q ? q_bind(&s->w, Q_LEASE_PEEK, "i", seq) : NULL;
	if (!q_row(&s->w, st))
		return gone(s, err);
	bool ours = col(st, 0) == queue_id && col(st, 1) == nonce;
	int64_t attempts = col(st, 2), redrives = col(st, 3), size = col(st, 4);
	q_end(st);
	if (!ours)
		return gone(s, err);
	struct store_counts *c = queue_touch(s, q);
	q_run(&s->w, Q_LEASE_DELETE, "i", seq);
	if (q->ordered) {
		struct arena a = {0};
		struct str key = key_of(s, seq, &a);
		*unheld = key.n && lane_leave(s, q, key, seq);
		arena_release(&a);
	}
	if (attempts)
		group_recovered(s, seq);
	if (redrives) {
		done_redriven(s, seq);
	} else {
		q_run(&s->w, Q_PAYLOAD_DELETE, "i", seq);
		if (attempts)
			q_run(&s->w, Q_ATTEMPT_DELETE, "i", seq);
	}
	c->leased--;
	c->bytes -= size;
	c->done++;
	return conn_code(&s->w, err);
}

enum dlq_code sq_lease_get(struct store *store, int64_t queue_id, int64_t seq, int64_t nonce, struct arena *a,
                           struct store_lease *out, struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	sqlite3_stmt *st = q_bind(&s->w, Q_LEASE_GET, "i", seq);
	if (!q_row(&s->w, st))
		return gone(s, err);
	bool ours = col(st, 0) == queue_id && col(st, 1) == nonce;
	if (ours)
		*out = (struct store_lease){
		    .seq = seq,
		    .queue_id = queue_id,
		    .nonce = nonce,
		    .attempts = (int)col(st, 2),
		    .lease_expirations = (int)col(st, 3),
		    .redrives = (int)col(st, 4),
		    .previous_delay_ms = col(st, 5),
		    .worker = col_copy(st, 6, a),
		};
	q_end(st);
	return ours ? DLQ_OK : gone(s, err);
}

enum dlq_code sq_extend(struct store *store, int64_t queue_id, int64_t seq, int64_t nonce, int64_t until,
                        struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	if (q_run(&s->w, Q_LEASE_EXTEND, "iiii", seq, queue_id, nonce, until) != 1)
		return gone(s, err);
	heap_push(&s->heap, until, seq);
	return conn_code(&s->w, err);
}

/* Ends the lease, the message waits again; false: there was no such lease. */
static bool lease_to_ready(struct sq_store *s, const struct store_lease *l, int attempts, int lease_expirations,
                           int64_t due, int64_t delay_ms)
{
	struct sq_queue *q = queue_find(s, l->queue_id);
	int64_t expires = 0;
	if (!q || q_run(&s->w, Q_LEASE_DELETE, "i", l->seq) != 1)
		return false;
	sqlite3_stmt *st = q_bind(&s->w, Q_PAYLOAD_FACTS, "i", l->seq);
	if (q_row(&s->w, st)) {
		expires = col(st, 1);
		q_end(st);
	}
	struct waiting w = {l->queue_id, due, l->seq, attempts, lease_expirations, l->redrives, delay_ms, expires};
	waiting_add(s, q, &w);
	q->now.leased--;
	return true;
}

enum dlq_code sq_release(struct store *store, const struct store_lease *l, int64_t due, struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	if (!lease_to_ready(s, l, l->attempts, l->lease_expirations, due, l->previous_delay_ms))
		return gone(s, err);
	return conn_code(&s->w, err);
}

enum dlq_code sq_retry(struct store *store, const struct store_lease *l, const struct store_attempt *at,
                       int lease_expirations, int64_t due, int64_t delay_ms, struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	if (!lease_to_ready(s, l, at->n, lease_expirations, due, delay_ms))
		return gone(s, err);
	attempt_add(s, l->seq, at, group_failure(s, l->queue_id, at, false));
	queue_touch(s, queue_find(s, l->queue_id))->failed_attempts++;
	return conn_code(&s->w, err);
}
