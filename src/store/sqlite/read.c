/* Reads: each on its own connection, in one read transaction, bounded in time. */
#include "store/sqlite/internal.h"

#define READ_STEP 10000     /* virtual machine steps between two looks at the clock: well below a millisecond */
#define READ_MAX_US 3000000 /* a read that takes longer holds back the checkpoint: it is ended */
#define PAGE_MAX 1000

struct sq_reader *rd(struct store_reader *r)
{
	return (struct sq_reader *)r;
}

static int progress(void *arg)
{
	const struct sq_reader *r = arg;
	return clock_mono_us(r->store->clock) > r->until_us;
}

int page_limit(int limit)
{
	return limit < 1 ? 1 : limit > PAGE_MAX ? PAGE_MAX : limit;
}

enum dlq_code sq_reader_open(struct store *store, struct store_reader **out, struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	struct sq_reader *r = mem_alloc(sizeof(*r));
	r->base.ops = store->ops;
	r->store = s;
	conn_open(&r->c, s->path, SQLITE_OPEN_READONLY, NULL);
	conn_exec(&r->c, "PRAGMA cache_size=-4096; PRAGMA temp_store=MEMORY; PRAGMA query_only=ON");
	enum dlq_code c = conn_code(&r->c, err);
	if (c) {
		conn_close(&r->c);
		mem_free(r);
		return c;
	}
	sqlite3_progress_handler(r->c.db, READ_STEP, progress, r);
	*out = &r->base;
	return DLQ_OK;
}

void sq_reader_close(struct store_reader *reader)
{
	if (!reader)
		return;
	conn_close(&rd(reader)->c);
	mem_free(reader);
}

void read_begin(struct sq_reader *r)
{
	wal_gate_wait(r->store);
	conn_clear(&r->c);
	r->until_us = clock_mono_us(r->store->clock) + READ_MAX_US;
	q_run(&r->c, Q_BEGIN_READ, "");
}

enum dlq_code read_end(struct sq_reader *r, enum dlq_code code, struct dlq_err *err)
{
	enum dlq_code c = conn_code(&r->c, err);
	if (c)
		for (int i = 0; i < Q_COUNT; i++)
			sqlite3_reset(r->c.st[i]);
	conn_clear(&r->c);
	if (!sqlite3_get_autocommit(r->c.db))
		q_run(&r->c, Q_COMMIT, "");
	return c ? c : code;
}

enum dlq_code sq_read_queues(struct store_reader *reader, struct str after, int limit, struct arena *a,
                             struct store_queue **out, int *n, struct dlq_err *err)
{
	struct sq_reader *r = rd(reader);
	*out = NULL;
	*n = 0;
	read_begin(r);
	sqlite3_stmt *st = q_bind(&r->c, Q_QUEUE_PAGE, "Ti", after, I(page_limit(limit)));
	while (q_row(&r->c, st)) {
		*out = list_grow(a, *out, *n, sizeof(**out));
		queue_row(st, a, &(*out)[(*n)++]);
	}
	return read_end(r, DLQ_OK, err);
}

enum dlq_code sq_read_queue(struct store_reader *reader, struct str name, struct arena *a, struct store_queue *out,
                            struct dlq_err *err)
{
	struct sq_reader *r = rd(reader);
	enum dlq_code c = DLQ_OK;
	read_begin(r);
	sqlite3_stmt *st = q_bind(&r->c, Q_QUEUE_READ, "T", name);
	if (q_row(&r->c, st)) {
		queue_row(st, a, out);
		q_end(st);
	} else if (!r->c.rc) {
		c = err_set(err, DLQ_NOT_FOUND, "there is no queue \"" STR_FMT "\"", STR_ARG(name));
	}
	return read_end(r, c, err);
}

static void dead_row(const struct sq_store *s, sqlite3_stmt *st, struct arena *a, struct store_dead *d)
{
	*d = (struct store_dead){
	    .seq = col(st, 0),
	    .queue_id = col(st, 1),
	    .state = (enum dead_state)col(st, 2),
	    .reason = (enum reason)col(st, 3),
	    .attempts = (int)col(st, 4),
	    .lease_expirations = (int)col(st, 5),
	    .redrives = (int)col(st, 6),
	    .died_no = col(st, 7),
	    .first_failed_at_ms = col(st, 9),
	    .last_failed_at_ms = col(st, 10),
	    .died_at_ms = col(st, 11),
	    .state_at_ms = col(st, 12),
	    .body_bytes = col(st, 13),
	    .edited = col(st, 14) != 0,
	    .expires_due = col(st, 15),
	    .redrive_id = col_copy(st, 16, a),
	    .key = col_copy(st, 18, a),
	    .error_type = col_copy(st, 19, a),
	    .message = col_copy(st, 20, a),
	    .worker = col_copy(st, 21, a),
	    .operator = col_copy(st, 22, a),
	    .why = col_copy(st, 23, a),
	    .received_at_ms = col(st, 24),
	    .content_type = col_copy(st, 25, a),
	    .headers = col_copy(st, 26, a),
	    .queue = col_copy(st, 27, a),
	    .group_id = col(st, 28),
	    .imported_id = col_copy(st, 30, a),
	};
	struct str fp = col_str(st, 29);
	if (fp.n == sizeof(d->group_fp))
		memcpy(d->group_fp, fp.p, fp.n);
	d->id = id_message_copy(s, a, col_str(st, 17), d->received_at_ms, d->seq);
	id_dead(s, col(st, 8), d->seq, d->dlq_id);
}

bool dead_fetch(struct sq_reader *r, int64_t seq, struct arena *a, struct store_dead *out)
{
	sqlite3_stmt *st = q_bind(&r->c, Q_DEAD_READ, "i", seq);
	if (!q_row(&r->c, st))
		return false;
	dead_row(r->store, st, a, out);
	q_end(st);
	st = out->edited ? q_bind(&r->c, Q_EDIT_LAST, "i", seq) : NULL;
	if (st && q_row(&r->c, st)) {
		out->edited_headers = col_copy(st, 0, a);
		q_end(st);
	}
	return true;
}

enum dlq_code sq_read_dead(struct store_reader *reader, int64_t seq, struct arena *a, struct store_dead *out,
                           struct dlq_err *err)
{
	struct sq_reader *r = rd(reader);
	enum dlq_code c = DLQ_OK;
	read_begin(r);
	if (!dead_fetch(r, seq, a, out) && !r->c.rc)
		c = err_set(err, DLQ_NOT_FOUND, "there is no such dead letter");
	return read_end(r, c, err);
}

enum dlq_code sq_read_expiring(struct store_reader *reader, int64_t queue_id, int64_t before, int64_t max, int64_t *n, struct dlq_err *err)
{
	struct sq_reader *r = rd(reader);
	*n = 0;
	read_begin(r);
	q_int(&r->c, queue_id ? Q_EXPIRING_QUEUE : Q_EXPIRING, n, "iii", queue_id, before, max);
	return read_end(r, DLQ_OK, err);
}

enum dlq_code sq_read_attempts(struct store_reader *reader, int64_t seq, int max, struct arena *a,
                               struct store_attempt **out, int *n, struct dlq_err *err)
{
	struct sq_reader *r = rd(reader);
	*out = NULL;
	*n = 0;
	read_begin(r);
	sqlite3_stmt *st = q_bind(&r->c, Q_ATTEMPT_LIST, "ii", seq, I(max < 1 ? 1 : max));
	while (q_row(&r->c, st)) {
		*out = list_grow(a, *out, *n, sizeof(**out));
		(*out)[(*n)++] = (struct store_attempt){
		    .redrive = (int)col(st, 0),
		    .n = (int)col(st, 1),
		    .at_ms = col(st, 2),
		    .outcome = (int)col(st, 3),
		    .http_status = (int)col(st, 4),
		    .exit_code = (int)col(st, 5),
		    .retry_at_ms = col(st, 6),
		    .error_type = col_copy(st, 7, a),
		    .message = col_copy(st, 8, a),
		    .worker = col_copy(st, 9, a),
		    .detail = col_copy(st, 10, a),
		    .worker_version = col_copy(st, 11, a),
		};
	}
	for (int i = 0, j = *n - 1; i < j; i++, j--) { /* read newest first, given oldest first */
		struct store_attempt t = (*out)[i];
		(*out)[i] = (*out)[j];
		(*out)[j] = t;
	}
	return read_end(r, DLQ_OK, err);
}

sqlite3_stmt *body_edited(struct sq_reader *r, int64_t seq, struct str *body)
{
	sqlite3_stmt *st = q_bind(&r->c, Q_EDIT_LAST, "i", seq);
	if (!q_row(&r->c, st))
		return NULL;
	if (sqlite3_column_type(st, 1) == SQLITE_NULL) {
		q_end(st);
		return NULL;
	}
	*body = col_str(st, 1);
	return st;
}

enum dlq_code sq_read_body(struct store_reader *reader, int64_t seq, bool original, struct arena *a, struct str *body,
                           struct str *content_type, struct dlq_err *err)
{
	struct sq_reader *r = rd(reader);
	enum dlq_code c = DLQ_OK;
	read_begin(r);
	sqlite3_stmt *st = q_bind(&r->c, Q_BODY_READ, "i", seq);
	if (q_row(&r->c, st)) {
		struct str now;
		sqlite3_stmt *edit = !original && col(st, 2) ? body_edited(r, seq, &now) : NULL;
		*content_type = col_copy(st, 1, a);
		*body = edit ? arena_str(a, now) : col_copy(st, 0, a);
		if (edit)
			q_end(edit);
		q_end(st);
	} else if (!r->c.rc) {
		c = err_set(err, DLQ_NOT_FOUND, "there is no such dead letter");
	}
	return read_end(r, c, err);
}
