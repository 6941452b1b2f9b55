/* send: the payload once, a narrow row in ready or held, the id in the window of duplicates. */
#include "store/sqlite/internal.h"

/* Whether the id was sent within its window; if not, remembers it. */
static bool is_duplicate(struct sq_store *s, int64_t queue_id, const struct store_send *m)
{
	int64_t until = 0;
	if (!m->id.n || !m->dedup_until)
		return false;
	if (q_int(&s->w, Q_DEDUP_GET, &until, "iT", queue_id, m->id) && until > s->now)
		return true;
	return false;
}

/* Whether the message has to wait behind another of its key; joins its lane. */
static bool join_lane(struct sq_store *s, const struct sq_queue *q, const struct store_send *m)
{
	int64_t head;
	if (!q->ordered || !m->key.n)
		return false;
	bool taken = q_int(&s->w, Q_LANE_HEAD, &head, "iT", q->queue_id, m->key);
	q_run(&s->w, Q_LANE_INSERT, "iTi", q->queue_id, m->key, m->seq);
	return taken;
}

static void bind_payload(sqlite3_stmt *st, int o, const struct store_send *m)
{
	sqlite3_bind_int64(st, o + 3, m->seq);
	if (m->expires)
		sqlite3_bind_int64(st, o + 4, m->expires);
	else
		sqlite3_bind_null(st, o + 4);
	bind_text(st, o + 5, m->key);
	bind_text(st, o + 6, m->id);
	bind_text(st, o + 7, m->content_type);
	bind_text(st, o + 8, m->headers);
	sqlite3_bind_blob64(st, o + 9, m->body.n ? m->body.p : "", m->body.n, SQLITE_STATIC);
}

static void write_payload(struct sq_store *s, int64_t queue_id, struct store_send *const *list, int n)
{
	int step = n == BULK ? BULK : 1;
	sqlite3_stmt *st = q_get(&s->w, step == BULK ? Q_BULK_PAYLOAD : Q_PAYLOAD_INSERT);
	for (int i = 0; st && i < n; i += step) {
		sqlite3_bind_int64(st, 1, queue_id);
		sqlite3_bind_int64(st, 2, s->wall);
		for (int k = 0; k < step; k++)
			bind_payload(st, k * 7, list[i + k]);
		q_step(&s->w, st);
	}
}

static void write_ready(struct sq_store *s, int64_t queue_id, struct store_send *const *list, int n)
{
	int step = n == BULK ? BULK : 1;
	sqlite3_stmt *st = q_get(&s->w, step == BULK ? Q_BULK_READY : Q_READY_NEW);
	for (int i = 0; st && i < n; i += step) {
		sqlite3_bind_int64(st, 1, queue_id);
		for (int k = 0; k < step; k++) {
			sqlite3_bind_int64(st, k * 2 + 2, list[i + k]->due);
			sqlite3_bind_int64(st, k * 2 + 3, list[i + k]->seq);
		}
		q_step(&s->w, st);
	}
}

static bool is_full(const struct store_counts *c, int64_t max_messages, int64_t max_bytes, int64_t size)
{
	return (max_messages && c->ready + c->held + c->leased >= max_messages) ||
	       (max_bytes && c->bytes + size > max_bytes);
}

/* Everything of one message but its payload and its row in ready, which are written many at a time. */
static void accept(struct sq_store *s, struct sq_queue *q, struct store_counts *c, struct store_send *m)
{
	m->seq = number_take(s, &s->seq);
	if (!m->id.n)
		id_message(s, s->wall, m->seq, m->made_id);
	else if (m->dedup_until)
		q_run(&s->w, Q_DEDUP_SET, "iTi", q->queue_id, m->id, m->dedup_until);
	m->held = join_lane(s, q, m);
	if (m->held)
		q_run(&s->w, Q_HELD_INSERT, "iiii", m->seq, q->queue_id, m->due, I(0));
	if (m->expires) {
		q_run(&s->w, Q_TTL_INSERT, "iiii", m->expires, m->seq, q->queue_id, m->due);
		if (m->expires < s->ttl_bound)
			s->ttl_bound = m->expires;
	}
	c->held += m->held;
	c->ready += !m->held;
	c->bytes += (int64_t)m->body.n;
	c->sent++;
}

enum dlq_code sq_send(struct store *store, int64_t queue_id, int64_t max_messages, int64_t max_bytes,
                      struct store_send *items, int n, struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	struct sq_queue *q = queue_find(s, queue_id);
	struct store_send *payload[BULK], *ready[BULK];
	int n_payload = 0, n_ready = 0;
	if (!q)
		return err_set(err, DLQ_NOT_FOUND, "there is no queue %lld in the store", (long long)queue_id);
	struct store_counts *c = queue_touch(s, q);
	for (int i = 0; i < n && !s->w.rc; i++) {
		struct store_send *m = &items[i];
		m->code = DLQ_OK;
		m->seq = 0;
		m->held = false;
		m->made_id[0] = '\0';
		m->duplicate = is_duplicate(s, queue_id, m);
		if (m->duplicate) {
			c->duplicates++;
			continue;
		}
		if (is_full(c, max_messages, max_bytes, (int64_t)m->body.n)) {
			m->code = DLQ_QUEUE_FULL;
			continue;
		}
		accept(s, q, c, m);
		payload[n_payload++] = m;
		if (!m->held)
			ready[n_ready++] = m;
		if (n_payload == BULK) {
			write_payload(s, queue_id, payload, n_payload);
			n_payload = 0;
		}
		if (n_ready == BULK) {
			write_ready(s, queue_id, ready, n_ready);
			n_ready = 0;
		}
	}
	write_payload(s, queue_id, payload, n_payload);
	write_ready(s, queue_id, ready, n_ready);
	return conn_code(&s->w, err);
}
