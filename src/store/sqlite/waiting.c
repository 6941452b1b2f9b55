/* Messages that wait: ready, held behind an earlier one of their key, with a TTL that runs. */
#include "store/sqlite/internal.h"

void waiting_add(struct sq_store *s, struct sq_queue *q, const struct waiting *w)
{
	struct store_counts *c = queue_touch(s, q);
	q_run(&s->w, Q_READY_INSERT, "iiiiiii", w->queue_id, w->due, w->seq, w->attempts, w->lease_expirations,
	      w->redrives, w->previous_delay);
	c->ready++;
	c->retrying += w->attempts > 0;
	if (w->expires && !w->redrives) {
		q_run(&s->w, Q_TTL_INSERT, "iiii", w->expires, w->seq, w->queue_id, w->due);
		if (w->expires < s->ttl_bound)
			s->ttl_bound = w->expires;
	}
}

bool lane_is_head(struct sq_store *s, int64_t queue_id, struct str key, int64_t seq)
{
	int64_t head = 0;
	return q_int(&s->w, Q_LANE_HEAD, &head, "iT", queue_id, key) && head == seq;
}

bool lane_leave(struct sq_store *s, struct sq_queue *q, struct str key, int64_t seq)
{
	int64_t head;
	q_run(&s->w, Q_LANE_DELETE, "iTi", q->queue_id, key, seq);
	if (!q_int(&s->w, Q_LANE_HEAD, &head, "iT", q->queue_id, key))
		return false;
	/* Not held: the head is at work or dead already, and keeps the rest waiting. */
	sqlite3_stmt *st = q_bind(&s->w, Q_HELD_GET, "i", head);
	if (!q_row(&s->w, st))
		return false;
	int64_t due = col(st, 0), redrives = col(st, 1);
	q_end(st);
	q_run(&s->w, Q_HELD_DELETE, "i", head);
	/* Its TTL row, if there is one, already names this due time. */
	q_run(&s->w, Q_READY_INSERT, "iiiiiii", q->queue_id, due, head, I(0), I(0), redrives, I(0));
	struct store_counts *c = queue_touch(s, q);
	c->held--;
	c->ready++;
	return true;
}

enum dlq_code sq_next_due(struct store *store, int64_t queue_id, int64_t *due, struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	*due = INT64_MAX;
	q_int(&s->w, Q_NEXT_DUE, due, "i", queue_id);
	return conn_code(&s->w, err);
}

static void waiting_lease(struct sq_store *s, int64_t seq, int64_t queue_id, int64_t due, struct store_lease *out)
{
	*out = (struct store_lease){.seq = seq, .queue_id = queue_id, .worker = STR("")};
	sqlite3_stmt *st = q_bind(&s->w, Q_READY_GET, "iii", queue_id, due, seq);
	if (!q_row(&s->w, st))
		return; /* held: no attempts yet */
	out->attempts = (int)col(st, 0);
	out->lease_expirations = (int)col(st, 1);
	out->redrives = (int)col(st, 2);
	out->previous_delay_ms = col(st, 3);
	q_end(st);
}

enum dlq_code sq_expired_ttl(struct store *store, int64_t now, int max, struct arena *a, struct store_lease *out,
                             int *n, int64_t *next, struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	sqlite3_stmt *st = q_bind(&s->w, Q_TTL_DUE, "i", I(max) + 1);
	(void)a;
	*n = 0;
	*next = INT64_MAX;
	while (q_row(&s->w, st)) {
		int64_t expires = col(st, 0);
		if (expires > now || *n == max) {
			*next = expires;
			q_end(st);
			break;
		}
		waiting_lease(s, col(st, 1), col(st, 2), col(st, 3), &out[(*n)++]);
	}
	if (!s->w.rc && *n == 0)
		s->ttl_bound = *next;
	return conn_code(&s->w, err);
}

enum dlq_code sq_dedup_sweep(struct store *store, int64_t now, int max, int *n, int64_t *next, struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	*next = INT64_MAX;
	*n = q_run(&s->w, Q_DEDUP_SWEEP, "ii", now, I(max));
	q_int(&s->w, Q_DEDUP_NEXT, next, "");
	return conn_code(&s->w, err);
}
