/* Queues, tokens, notices, small facts. */
#include "store/sqlite/internal.h"

void *list_grow(struct arena *a, void *list, int n, size_t size)
{
	if (n & (n - 1))
		return list;
	/* 0 or a power of two: the room is used up. */
	void *grown = arena_alloc(a, (n ? 2 * (size_t)n : 1) * size);
	if (n)
		memcpy(grown, list, (size_t)n * size);
	return grown;
}

void queue_row(sqlite3_stmt *st, struct arena *a, struct store_queue *out)
{
	*out = (struct store_queue){
	    .queue_id = col(st, 0),
	    .name = col_copy(st, 1, a),
	    .config = col_copy(st, 2, a),
	    .ordered = col(st, 3) != 0,
	    .paused = col(st, 4) != 0,
	    .created_at_ms = col(st, 5),
	    .counts =
	        {
	            .ready = col(st, 6),
	            .retrying = col(st, 7),
	            .held = col(st, 8),
	            .leased = col(st, 9),
	            .dead = col(st, 10),
	            .redriving = col(st, 11),
	            .bytes = col(st, 12),
	            .sent = col(st, 13),
	            .done = col(st, 14),
	            .failed_attempts = col(st, 15),
	            .died = col(st, 16),
	            .redriven = col(st, 17),
	            .discarded = col(st, 18),
	            .archived = col(st, 19),
	            .duplicates = col(st, 20),
	            .imported = col(st, 21),
	        },
	};
}

static enum dlq_code no_queue(struct sq_store *s, int64_t queue_id, struct dlq_err *err)
{
	return s->w.rc ? conn_code(&s->w, err)
	               : err_set(err, DLQ_NOT_FOUND, "there is no queue %lld in the store", (long long)queue_id);
}

enum dlq_code sq_queue_create(struct store *store, struct str name, struct str config, bool ordered, int64_t *queue_id,
                              struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	int64_t taken;
	if (q_int(&s->w, Q_QUEUE_BY_NAME, &taken, "T", name))
		return err_set(err, DLQ_CONFLICT, "the queue \"" STR_FMT "\" exists already", STR_ARG(name));
	q_run(&s->w, Q_QUEUE_INSERT, "TTii", name, config, I(ordered), s->wall);
	int64_t id = sqlite3_last_insert_rowid(s->w.db);
	q_run(&s->w, Q_COUNT_INSERT, "i", id);
	if (!s->w.rc) {
		struct sq_queue *q = queue_add(s, id, ordered);
		q->created = true;
		queue_touch(s, q);
		*queue_id = id;
	}
	return conn_code(&s->w, err);
}

enum dlq_code sq_queue_update(struct store *store, int64_t queue_id, struct str config, struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	if (!queue_find(s, queue_id) || q_run(&s->w, Q_QUEUE_CONFIG, "iT", queue_id, config) != 1)
		return no_queue(s, queue_id, err);
	return DLQ_OK;
}

enum dlq_code sq_queue_pause(struct store *store, int64_t queue_id, bool paused, struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	if (!queue_find(s, queue_id) || q_run(&s->w, Q_QUEUE_PAUSE, "ii", queue_id, I(paused)) != 1)
		return no_queue(s, queue_id, err);
	return DLQ_OK;
}

/* A queue that still has records of redriven or discarded dead letters is hidden; its row goes on naming it in them. */
enum dlq_code sq_queue_delete(struct store *store, int64_t queue_id, struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	struct sq_queue *q = queue_find(s, queue_id);
	int64_t any;
	if (!q)
		return no_queue(s, queue_id, err);
	const struct store_counts *c = &q->now;
	int64_t live = c->ready + c->held + c->leased;
	if (live || c->dead || c->redriving)
		return err_set(err, DLQ_CONFLICT,
		               "the queue still has %lld live messages, %lld dead letters and %lld that are being redriven: settle, "
		               "redrive or discard them first",
		               (long long)live, (long long)c->dead, (long long)c->redriving);
	if (q_int(&s->w, Q_QUEUE_HAS_DEAD, &any, "i", queue_id))
		q_run(&s->w, Q_QUEUE_HIDE, "ii", queue_id, s->wall);
	else
		q_run(&s->w, Q_QUEUE_DELETE, "i", queue_id);
	if (!q_int(&s->w, Q_QUEUE_HAS_DEAD, &any, "i", queue_id))
		groups_delete(s, queue_id);
	q_run(&s->w, Q_COUNT_DELETE, "i", queue_id);
	queue_touch(s, q);
	q->deleted = true;
	s->last = NULL;
	return conn_code(&s->w, err);
}

enum dlq_code sq_queue_load(struct store *store, struct arena *a, struct store_queue **out, int *n, struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	sqlite3_stmt *st = q_get(&s->w, Q_QUEUE_LOAD);
	*out = NULL;
	*n = 0;
	while (q_row(&s->w, st)) {
		*out = list_grow(a, *out, *n, sizeof(**out));
		struct store_queue *row = &(*out)[(*n)++];
		queue_row(st, a, row);
		const struct sq_queue *q = queue_find(s, row->queue_id);
		if (q)
			row->counts = q->now;
	}
	enum dlq_code c = conn_code(&s->w, err);
	if (c && !s->in_tx)
		conn_clear(&s->w);
	return c;
}

const struct store_counts *sq_queue_counts(struct store *store, int64_t queue_id)
{
	static const struct store_counts none;
	const struct sq_queue *q = queue_find(sq(store), queue_id);
	return q ? &q->now : &none;
}

enum dlq_code sq_token_add(struct store *store, const struct store_token *t, int64_t *token_id, struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	int64_t taken;
	if (q_int(&s->w, Q_TOKEN_LIVE, &taken, "T", t->name))
		return err_set(err, DLQ_CONFLICT,
		               "there is already a token \"" STR_FMT "\": revoke it first or choose another name",
		               STR_ARG(t->name));
	q_run(&s->w, Q_TOKEN_INSERT, "Tbitii", t->name, (struct str){(const char *)t->hash, sizeof(t->hash)},
	      I(t->role), t->queues, t->created_at_ms, t->expires_at_ms);
	*token_id = sqlite3_last_insert_rowid(s->w.db);
	return conn_code(&s->w, err);
}

enum dlq_code sq_token_revoke(struct store *store, struct str name, struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	int64_t id;
	if (!q_int(&s->w, Q_TOKEN_LIVE, &id, "T", name))
		return s->w.rc ? conn_code(&s->w, err)
		               : err_set(err, DLQ_NOT_FOUND, "there is no token \"" STR_FMT "\"", STR_ARG(name));
	q_run(&s->w, Q_TOKEN_REVOKE, "ii", id, s->wall > 0 ? s->wall : I(1));
	return conn_code(&s->w, err);
}

enum dlq_code sq_token_load(struct store *store, struct arena *a, struct store_token **out, int *n, struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	sqlite3_stmt *st = q_get(&s->w, Q_TOKEN_LOAD);
	*out = NULL;
	*n = 0;
	while (q_row(&s->w, st)) {
		*out = list_grow(a, *out, *n, sizeof(**out));
		struct store_token *t = &(*out)[(*n)++];
		*t = (struct store_token){
		    .token_id = col(st, 0),
		    .name = col_copy(st, 1, a),
		    .role = (enum role)col(st, 3),
		    .queues = col_copy(st, 4, a),
		    .created_at_ms = col(st, 5),
		    .expires_at_ms = col(st, 6),
		    .revoked_at_ms = col(st, 7),
		};
		struct str hash = col_str(st, 2);
		memcpy(t->hash, hash.p, hash.n < sizeof(t->hash) ? hash.n : sizeof(t->hash));
	}
	enum dlq_code c = conn_code(&s->w, err);
	if (c && !s->in_tx)
		conn_clear(&s->w);
	return c;
}

enum dlq_code sq_notice_due(struct store *store, int64_t now, int max, struct arena *a, struct store_notice *out,
                            int *n, int64_t *next, struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	sqlite3_stmt *st = q_bind(&s->w, Q_NOTICE_DUE, "i", I(max) + 1);
	*n = 0;
	*next = INT64_MAX;
	while (q_row(&s->w, st)) {
		if (col(st, 4) > now || *n == max) {
			*next = col(st, 4);
			q_end(st);
			break;
		}
		out[(*n)++] = (struct store_notice){
		    .n = col(st, 0),
		    .seq = col(st, 1),
		    .died_no = col(st, 2),
		    .tries = (int)col(st, 3),
		    .due = col(st, 4),
		    .last_error = col_copy(st, 5, a),
		};
	}
	return conn_code(&s->w, err);
}

enum dlq_code sq_notice_done(struct store *store, int64_t n, struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	q_run(&s->w, Q_NOTICE_DELETE, "i", n);
	return conn_code(&s->w, err);
}

enum dlq_code sq_notice_later(struct store *store, int64_t n, int64_t due, struct str error, struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	q_run(&s->w, Q_NOTICE_LATER, "iit", n, due, error);
	return conn_code(&s->w, err);
}

enum dlq_code sq_meta_set(struct store *store, const char *name, struct str value, struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	struct buf key = {0};
	buf_addf(&key, "u.%s", name); /* apart from the store's own */
	if (value.n)
		q_run(&s->w, Q_META_SET, "Tb", buf_str(&key), value);
	else
		q_run(&s->w, Q_META_DEL, "T", buf_str(&key));
	buf_release(&key);
	return conn_code(&s->w, err);
}

enum dlq_code sq_meta_get(struct store *store, const char *name, struct arena *a, struct str *value,
                          struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	struct buf key = {0};
	buf_addf(&key, "u.%s", name);
	*value = STR("");
	sqlite3_stmt *st = q_bind(&s->w, Q_META_GET, "T", buf_str(&key));
	if (q_row(&s->w, st)) {
		*value = col_copy(st, 0, a);
		q_end(st);
	}
	buf_release(&key);
	enum dlq_code c = conn_code(&s->w, err);
	if (c && !s->in_tx)
		conn_clear(&s->w);
	return c;
}
