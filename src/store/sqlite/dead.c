/* Quarantine: a message dies, is discarded, is given to the archive. Its payload stays where it is. */
#include "store/sqlite/internal.h"

void attempt_add(struct sq_store *s, int64_t seq, const struct store_attempt *at, int64_t group_id)
{
	q_run(&s->w, Q_ATTEMPT_INSERT, "iiiiiiiittttit", seq, I(at->redrive), I(at->n), at->at_ms, I(at->outcome),
	      I(at->http_status), I(at->exit_code), at->retry_at_ms, at->error_type, at->message, at->worker,
	      at->detail, group_id, at->worker_version);
}

/* The end of what a message was before: a lease, or waiting with an ended TTL. False: it is not there. */
static bool leave_for_death(struct sq_store *s, struct store_counts *c, const struct store_lease *l, int64_t expires)
{
	if (l->nonce) {
		if (q_run(&s->w, Q_LEASE_DELETE, "i", l->seq) != 1)
			return false;
		c->leased--;
		return true;
	}
	int64_t due = 0;
	sqlite3_stmt *st = q_bind(&s->w, Q_TTL_GET, "ii", expires, l->seq);
	if (!q_row(&s->w, st))
		return false;
	due = col(st, 1);
	q_end(st);
	q_run(&s->w, Q_TTL_DELETE, "ii", expires, l->seq);
	if (q_run(&s->w, Q_HELD_DELETE, "i", l->seq) == 1) {
		c->held--;
		return true;
	}
	if (q_run(&s->w, Q_READY_DELETE, "iii", l->queue_id, due, l->seq) != 1)
		return false;
	c->ready--;
	c->retrying -= l->attempts > 0;
	return true;
}

/* What the dead letter shows of the failures; strings in the arena. */
struct last_failure {
	int64_t first_at, last_at;
	struct str error_type, message, worker;
};

static void failure_load(struct sq_store *s, int64_t seq, struct arena *a, struct last_failure *f)
{
	*f = (struct last_failure){.error_type = STR(""), .message = STR(""), .worker = STR("")};
	q_int(&s->w, Q_ATTEMPT_FIRST, &f->first_at, "i", seq);
	if (!f->first_at)
		return;
	sqlite3_stmt *st = q_bind(&s->w, Q_ATTEMPT_LAST, "i", seq);
	if (!q_row(&s->w, st))
		return;
	f->last_at = col(st, 0);
	f->error_type = col_copy(st, 1, a);
	f->message = col_copy(st, 2, a);
	f->worker = col_copy(st, 3, a);
	q_end(st);
}

struct death {
	const struct store_lease *lease;
	int attempts, lease_expirations;
	enum reason reason;
	int64_t died_no, retention_due, group_id;
	struct last_failure f;
};

/* A second death: the same dead letter, its id and history kept. */
static void die_again(struct sq_store *s, struct store_counts *c, const struct death *d, const struct dead_facts *was)
{
	q_run(&s->w, Q_DEAD_AGAIN, "iiiiiiiiittti", d->lease->seq, I(d->reason), I(d->attempts), I(d->lease_expirations),
	      I(d->lease->redrives), d->died_no, s->wall, d->f.last_at, d->retention_due, d->f.error_type, d->f.message,
	      d->f.worker, d->group_id);
	if (was->redrive_n) {
		q_run(&s->w, Q_REDRIVE_FAILED, "i", was->redrive_n);
		q_run(&s->w, Q_ITEM_OUTCOME, "iiii", was->redrive_n, d->lease->seq, I(ITEM_FAILED_AGAIN), s->wall);
	}
	struct sq_group *g = group_touch(s, was->group_id);
	if (g) {
		g->redriving--;
		g->failed_again++;
	}
	c->redriving--;
}

static void die_first(struct sq_store *s, const struct death *d, struct str message_id, struct str key, int64_t size)
{
	q_run(&s->w, Q_DEAD_INSERT, "iiiiiiiiiiiittttti", d->lease->seq, d->lease->queue_id, I(d->reason),
	      I(d->attempts), I(d->lease_expirations), I(d->lease->redrives), d->died_no, s->wall, d->f.first_at,
	      d->f.last_at, size, d->retention_due, message_id, key, d->f.error_type, d->f.message, d->f.worker,
	      d->group_id);
}

enum dlq_code sq_bury(struct store *store, const struct store_lease *l, const struct store_attempt *at,
                      int lease_expirations, enum reason reason, int64_t retention_due, bool notify,
                      char dlq_id[ULID_LEN + 1], struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	struct sq_queue *q = queue_find(s, l->queue_id);
	struct arena a = {0};
	struct dead_facts was;
	struct str key = STR(""), id = STR("");
	int64_t expires = 0, size = 0;
	dlq_id[0] = '\0';
	enum dlq_code code = DLQ_GONE;
	sqlite3_stmt *st = q ? q_bind(&s->w, Q_PAYLOAD_FACTS, "i", l->seq) : NULL;
	if (!q_row(&s->w, st))
		goto out;
	expires = col(st, 1);
	key = col_copy(st, 2, &a);
	id = col_copy(st, 3, &a);
	size = col(st, 4);
	q_end(st);
	struct store_counts *c = queue_touch(s, q);
	if (!leave_for_death(s, c, l, expires))
		goto out;
	code = DLQ_OK;
	struct death d = {
	    l, at ? at->n : l->attempts, lease_expirations, reason, number_take(s, &s->died_no), retention_due, 0, {0}};
	if (at) {
		d.group_id = group_failure(s, l->queue_id, at, true);
		attempt_add(s, l->seq, at, d.group_id);
		c->failed_attempts++;
	}
	failure_load(s, l->seq, &a, &d.f);
	bool again = l->redrives && dead_load(s, l->seq, &a, &was);
	if (again && !d.group_id)
		d.group_id = was.group_id; /* no failure that says otherwise */
	if (again)
		die_again(s, c, &d, &was);
	else
		die_first(s, &d, id, key, size);
	struct sq_group *g = group_touch(s, d.group_id);
	if (g)
		g->dead++;
	c->dead++;
	c->died++;
	c->bytes -= size;
	if (notify)
		q_run(&s->w, Q_NOTICE_INSERT, "iii", l->seq, d.died_no, s->now);
	id_dead(s, again ? was.first_died_at : s->wall, l->seq, dlq_id);
out:
	arena_release(&a);
	if (s->w.rc)
		return conn_code(&s->w, err);
	return code ? err_set(err, code, "the message is no longer leased or waiting") : DLQ_OK;
}

bool dead_load(struct sq_store *s, int64_t seq, struct arena *a, struct dead_facts *out)
{
	sqlite3_stmt *st = q_bind(&s->w, Q_DEAD_FACTS, "i", seq);
	if (!q_row(&s->w, st))
		return false;
	*out = (struct dead_facts){
	    .seq = seq,
	    .queue_id = col(st, 0),
	    .state = (int)col(st, 1),
	    .redrives = col(st, 2),
	    .died_no = col(st, 3),
	    .first_died_at = col(st, 4),
	    .redrive_n = col(st, 5),
	    .key = col_copy(st, 6, a),
	    .body_bytes = col(st, 8),
	    .edited = col(st, 9) != 0,
	    .group_id = col(st, 10),
	};
	q_end(st);
	return true;
}

enum dlq_code dead_free(struct sq_store *s, int64_t seq, int64_t redrive_n, struct arena *a, struct dead_facts *out,
                        struct dlq_err *err)
{
	char id[ULID_LEN + 1];
	if (!dead_load(s, seq, a, out))
		return s->w.rc ? conn_code(&s->w, err) : err_set(err, DLQ_NOT_FOUND, "there is no such dead letter");
	id_dead(s, out->first_died_at, seq, id);
	if (out->state != DEAD_DEAD)
		return err_set(err, DLQ_CONFLICT,
		               "dead letter %s is %s, and only a dead one can be redriven or discarded", id,
		               dead_state_name((enum dead_state)out->state));
	return redrive_conflict(s, out, redrive_n, err);
}

/* A dead letter holds back its followers until it is settled for good. */
static void followers_free(struct sq_store *s, struct sq_queue *q, const struct dead_facts *d)
{
	if (q && q->ordered && d->key.n)
		lane_leave(s, q, d->key, d->seq);
}

enum dlq_code sq_discard_one(struct store *store, int64_t seq, struct str operator, struct str why, struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	struct arena a = {0};
	struct dead_facts d;
	enum dlq_code c = dead_free(s, seq, 0, &a, &d, err);
	if (!c) {
		struct sq_queue *q = queue_find(s, d.queue_id);
		q_run(&s->w, Q_DEAD_DISCARD, "iitt", seq, s->wall, operator, why);
		followers_free(s, q, &d);
		if (q) {
			queue_touch(s, q)->dead--;
			q->now.discarded++;
		}
		struct sq_group *g = group_touch(s, d.group_id);
		if (g) {
			g->dead--;
			g->discarded++;
		}
		c = conn_code(&s->w, err);
	}
	arena_release(&a);
	return c;
}

/* Back among the dead, under a new number: so it is no member of a redrive that began while it was discarded. */
static void restore(struct sq_store *s, struct sq_queue *q, const struct dead_facts *d, struct str operator,
                    struct str why)
{
	q_run(&s->w, Q_DEAD_RESTORE, "iitti", d->seq, s->wall, operator, why, number_take(s, &s->died_no));
	if (q->ordered && d->key.n)
		q_run(&s->w, Q_LANE_INSERT, "iTi", q->queue_id, d->key, d->seq);
	queue_touch(s, q)->dead++;
	q->now.discarded--;
	struct sq_group *g = group_touch(s, d->group_id);
	if (g) {
		g->dead++;
		g->discarded--;
	}
}

enum dlq_code sq_restore_one(struct store *store, int64_t seq, struct str operator, struct str why, struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	struct arena a = {0};
	struct dead_facts d;
	int64_t head;
	char id[ULID_LEN + 1];
	enum dlq_code c = DLQ_OK;
	if (!dead_load(s, seq, &a, &d)) {
		c = s->w.rc ? conn_code(&s->w, err) : err_set(err, DLQ_NOT_FOUND, "there is no such dead letter");
		goto out;
	}
	struct sq_queue *q = queue_find(s, d.queue_id);
	id_dead(s, d.first_died_at, seq, id);
	if (d.state != DEAD_DISCARDED)
		c = err_set(err, DLQ_CONFLICT, "dead letter %s is %s, and only a discarded one can be restored", id,
		            dead_state_name((enum dead_state)d.state));
	else if (!q)
		c = err_set(err, DLQ_CONFLICT, "the queue of dead letter %s was deleted", id);
	else if (q->ordered && d.key.n && q_int(&s->w, Q_LANE_HEAD, &head, "iT", d.queue_id, d.key))
		c = err_set(err, DLQ_CONFLICT,
		            "other messages with the key of dead letter %s are under way, and it would have to go before "
		            "them: restore it when they are settled",
		            id);
	else
		restore(s, q, &d, operator, why);
	if (!c)
		c = conn_code(&s->w, err);
out:
	arena_release(&a);
	return c;
}

enum dlq_code sq_retention_due(struct store *store, int64_t now, int max, int64_t *seqs, int *n, int64_t *next,
                               struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	sqlite3_stmt *st = q_bind(&s->w, Q_DEAD_EXPIRY, "i", I(max) + 1);
	*n = 0;
	*next = INT64_MAX;
	while (q_row(&s->w, st)) {
		if (col(st, 1) > now || *n == max) {
			*next = col(st, 1);
			q_end(st);
			break;
		}
		seqs[(*n)++] = col(st, 0);
	}
	return conn_code(&s->w, err);
}

enum dlq_code sq_archive_one(struct store *store, int64_t seq, struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	struct arena a = {0};
	struct dead_facts d;
	enum dlq_code c = DLQ_OK;
	if (!dead_load(s, seq, &a, &d)) {
		c = s->w.rc ? conn_code(&s->w, err) : err_set(err, DLQ_NOT_FOUND, "there is no such dead letter");
	} else if (d.state == DEAD_REDRIVING) {
		c = err_set(err, DLQ_CONFLICT, "the dead letter is being redriven: its outcome comes first");
	} else {
		struct sq_queue *q = queue_find(s, d.queue_id);
		q_run(&s->w, Q_DEAD_DELETE, "i", seq);
		q_run(&s->w, Q_ATTEMPT_DELETE, "i", seq);
		if (d.edited)
			q_run(&s->w, Q_EDIT_DELETE, "i", seq);
		q_run(&s->w, Q_PAYLOAD_DELETE, "i", seq);
		if (d.state == DEAD_DEAD)
			followers_free(s, q, &d);
		if (q) {
			queue_touch(s, q)->archived++;
			q->now.dead -= d.state == DEAD_DEAD;
		}
		struct sq_group *g = group_touch(s, d.group_id);
		if (g) {
			g->archived++;
			g->dead -= d.state == DEAD_DEAD;
		}
		c = conn_code(&s->w, err);
	}
	arena_release(&a);
	return c;
}
