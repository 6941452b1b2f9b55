/* Quarantine: a message dies, is discarded, given up, restored, given to the archive. Its payload stays where it is. */
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
	enum dead_state state; /* dead, or archived at once */
	struct last_failure f;
};

/* A second death: the same dead letter, its id and history kept. It belongs to the queue in which it died last. */
static void die_again(struct sq_store *s, const struct death *d, const struct dead_facts *was)
{
	struct sq_queue *home = queue_find(s, was->queue_id);
	q_run(&s->w, Q_DEAD_AGAIN, "iiiiiiiiitttiii", d->lease->seq, I(d->reason), I(d->attempts), I(d->lease_expirations),
	      I(d->lease->redrives), d->died_no, s->wall, d->f.last_at, d->retention_due, d->f.error_type, d->f.message,
	      d->f.worker, d->group_id, I(d->state), d->lease->queue_id);
	if (was->redrive_n) {
		q_run(&s->w, Q_REDRIVE_FAILED, "i", was->redrive_n);
		q_run(&s->w, Q_ITEM_OUTCOME, "iiii", was->redrive_n, d->lease->seq, I(ITEM_FAILED_AGAIN), s->wall);
	}
	struct sq_group *g = group_touch(s, was->group_id);
	if (g) {
		g->redriving--;
		g->failed_again++;
	}
	if (home)
		queue_touch(s, home)->redriving--;
}

/* A message as it is when it dies; strings in the arena. */
struct dying {
	int64_t expires, size;
	struct str key, id, headers;
};

static bool dying_load(struct sq_store *s, int64_t seq, struct arena *a, struct dying *m)
{
	sqlite3_stmt *st = q_bind(&s->w, Q_PAYLOAD_FACTS, "i", seq);
	if (!q_row(&s->w, st))
		return false;
	*m = (struct dying){col(st, 1), col(st, 4), col_copy(st, 2, a), col_copy(st, 3, a), col_copy(st, 5, a)};
	q_end(st);
	return true;
}

static void die_first(struct sq_store *s, const struct death *d, const struct dying *m)
{
	q_run(&s->w, Q_DEAD_INSERT, "iiiiiiiiiiiitttttii", d->lease->seq, d->lease->queue_id, I(d->reason),
	      I(d->attempts), I(d->lease_expirations), I(d->lease->redrives), d->died_no, s->wall, d->f.first_at,
	      d->f.last_at, m->size, d->retention_due, m->id, m->key, d->f.error_type, d->f.message, d->f.worker,
	      d->group_id, I(d->state));
	headers_index(s, m->headers, d->died_no, d->lease->seq);
}

/* The index has the dead letter under its new number. */
static void headers_renumber(struct sq_store *s, const struct dead_facts *was, struct str original, int64_t died_no, struct arena *a)
{
	struct str now = was->edited ? headers_now(s, was->seq, true, a) : original;
	headers_unindex(s, now, was->died_no, was->seq);
	headers_index(s, now, died_no, was->seq);
}

/* What dying adds to the counts of the queue and of the group. */
static void death_count(struct sq_store *s, struct store_counts *c, const struct death *d)
{
	struct sq_group *g = group_touch(s, d->group_id);
	bool dead = d->state == DEAD_DEAD;
	c->dead += dead;
	c->archived += !dead;
	c->died++;
	if (g) {
		g->dead += dead;
		g->archived += !dead;
	}
}

enum dlq_code sq_bury(struct store *store, const struct store_lease *l, const struct store_attempt *at,
                      int lease_expirations, enum reason reason, int64_t retention_due, bool notify, bool give_up,
                      char dlq_id[ULID_LEN + 1], struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	struct sq_queue *q = queue_find(s, l->queue_id);
	struct arena a = {0};
	struct dead_facts was;
	struct dying m;
	dlq_id[0] = '\0';
	enum dlq_code code = DLQ_GONE;
	if (!q || !dying_load(s, l->seq, &a, &m))
		goto out;
	struct store_counts *c = queue_touch(s, q);
	if (!leave_for_death(s, c, l, m.expires))
		goto out;
	code = DLQ_OK;
	struct death d = {l, at ? at->n : l->attempts, lease_expirations, reason, number_take(s, &s->died_no), retention_due, 0,
	                  give_up ? DEAD_ARCHIVED : DEAD_DEAD, {0}};
	if (at) {
		d.group_id = group_failure(s, l->queue_id, at, true);
		attempt_add(s, l->seq, at, d.group_id);
		c->failed_attempts++;
	}
	failure_load(s, l->seq, &a, &d.f);
	bool again = l->redrives && dead_load(s, l->seq, &a, &was);
	if (again && !d.group_id && was.queue_id == l->queue_id)
		d.group_id = was.group_id; /* no failure that says otherwise */
	if (again) {
		die_again(s, &d, &was);
		headers_renumber(s, &was, m.headers, d.died_no, &a);
	} else {
		die_first(s, &d, &m);
	}
	death_count(s, c, &d);
	c->bytes -= m.size;
	if (give_up && q->ordered && m.key.n)
		lane_leave(s, q, m.key, l->seq);
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

static enum dlq_code no_dead(struct sq_store *s, struct dlq_err *err)
{
	return s->w.rc ? conn_code(&s->w, err) : err_set(err, DLQ_NOT_FOUND, "there is no such dead letter");
}

enum dlq_code dead_free(struct sq_store *s, int64_t seq, int64_t redrive_n, unsigned states, struct arena *a, struct dead_facts *out,
                        struct dlq_err *err)
{
	char id[ULID_LEN + 1];
	if (!dead_load(s, seq, a, out))
		return no_dead(s, err);
	id_dead(s, out->first_died_at, seq, id);
	if (!(states & 1u << out->state))
		return err_set(err, DLQ_CONFLICT, "dead letter %s is %s, and only %s", id, dead_state_name((enum dead_state)out->state),
		               !(states & 1u << DEAD_DEAD)       ? "a discarded or archived one can be restored"
		               : states & 1u << DEAD_ARCHIVED ? "a dead or archived one can be redriven"
		                                              : "a dead one can be redriven, archived or discarded");
	return redrive_conflict(s, out, redrive_n, err);
}

/* A dead letter holds back its followers until it is settled for good. */
static void followers_free(struct sq_store *s, struct sq_queue *q, const struct dead_facts *d)
{
	if (q && q->ordered && d->key.n)
		lane_leave(s, q, d->key, d->seq);
}

void dead_leave(struct sq_store *s, const struct dead_facts *d)
{
	struct sq_queue *q = queue_find(s, d->queue_id);
	struct sq_group *g = group_touch(s, d->group_id);
	if (q) {
		struct store_counts *c = queue_touch(s, q);
		c->dead -= d->state == DEAD_DEAD;
		c->discarded -= d->state == DEAD_DISCARDED;
		c->archived -= d->state == DEAD_ARCHIVED;
	}
	if (g) {
		g->dead -= d->state == DEAD_DEAD;
		g->discarded -= d->state == DEAD_DISCARDED;
		g->archived -= d->state == DEAD_ARCHIVED;
	}
}

/*
 * What ends while a restore is on its way to its number would become a member of it, and come back at once: members are those
 * that had ended when it started (invariant 9). So it gets a new number.
 */
static void number_past_restores(struct sq_store *s, struct dead_facts *d, struct arena *a)
{
	int64_t any;
	if (!q_int(&s->w, Q_RESTORE_AHEAD, &any, "i", d->died_no))
		return;
	int64_t no = number_take(s, &s->died_no);
	headers_renumber(s, d, headers_now(s, d->seq, false, a), no, a);
	q_run(&s->w, Q_DEAD_NUMBER, "ii", d->seq, no);
	d->died_no = no;
}

/* dead -> discarded or archived. */
static enum dlq_code dead_end(struct sq_store *s, int64_t seq, int64_t redrive_n, enum dead_state to, struct str operator, struct str why_text,
                              struct dlq_err *err)
{
	struct arena a = {0};
	struct dlq_err why = {0};
	struct dead_facts d;
	enum dlq_code c = dead_free(s, seq, redrive_n, 1u << DEAD_DEAD, &a, &d, &why);
	if (!c) {
		struct sq_queue *q = queue_find(s, d.queue_id);
		struct sq_group *g = group_touch(s, d.group_id);
		number_past_restores(s, &d, &a);
		q_run(&s->w, Q_DEAD_END, "iiitt", seq, I(to), s->wall, operator, why_text);
		followers_free(s, q, &d);
		dead_leave(s, &d);
		if (q) {
			queue_touch(s, q)->discarded += to == DEAD_DISCARDED;
			q->now.archived += to == DEAD_ARCHIVED;
		}
		if (g) {
			g->discarded += to == DEAD_DISCARDED;
			g->archived += to == DEAD_ARCHIVED;
		}
		member_handled(s, redrive_n, seq);
		c = conn_code(&s->w, &why);
	}
	c = member_end(s, redrive_n, seq, c, &why, err);
	arena_release(&a);
	return c;
}

enum dlq_code sq_discard_one(struct store *store, int64_t seq, int64_t redrive_n, struct str operator, struct str why, struct dlq_err *err)
{
	return dead_end(sq(store), seq, redrive_n, DEAD_DISCARDED, operator, why, err);
}

enum dlq_code sq_give_up_one(struct store *store, int64_t seq, int64_t redrive_n, struct str operator, struct str why, struct dlq_err *err)
{
	return dead_end(sq(store), seq, redrive_n, DEAD_ARCHIVED, operator, why, err);
}

/* Back among the dead, under a new number: so it is no member of a redrive that began before. */
static void restore(struct sq_store *s, struct sq_queue *q, const struct dead_facts *d, struct str operator,
                    struct str why, struct arena *a)
{
	int64_t no = number_take(s, &s->died_no);
	struct sq_group *g = group_touch(s, d->group_id);
	headers_renumber(s, d, headers_now(s, d->seq, false, a), no, a);
	q_run(&s->w, Q_DEAD_RESTORE, "iitti", d->seq, s->wall, operator, why, no);
	if (q->ordered && d->key.n)
		q_run(&s->w, Q_LANE_INSERT, "iTi", q->queue_id, d->key, d->seq);
	dead_leave(s, d);
	queue_touch(s, q)->dead++;
	if (g)
		g->dead++;
}

enum dlq_code sq_restore_one(struct store *store, int64_t seq, int64_t redrive_n, struct str operator, struct str why_text, struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	struct arena a = {0};
	struct dlq_err why = {0};
	struct dead_facts d;
	int64_t later;
	char id[ULID_LEN + 1];
	enum dlq_code c = dead_free(s, seq, redrive_n, 1u << DEAD_DISCARDED | 1u << DEAD_ARCHIVED, &a, &d, &why);
	struct sq_queue *q = c ? NULL : queue_find(s, d.queue_id);
	if (!c)
		id_dead(s, d.first_died_at, seq, id);
	if (!c && !q)
		c = err_set(&why, DLQ_CONFLICT, "the queue of dead letter %s was deleted", id);
	if (!c && q->ordered && d.key.n && q_int(&s->w, Q_LANE_LATER, &later, "iTi", d.queue_id, d.key, seq))
		c = err_set(&why, DLQ_CONFLICT,
		            "later messages with the key of dead letter %s are under way, and it would have to go before "
		            "them: restore it when they are settled", id);
	if (!c) {
		restore(s, q, &d, operator, why_text, &a);
		if (redrive_n)
			member_handled(s, redrive_n, seq);
		else
			q_run(&s->w, Q_DEAD_NO_MEMBER, "i", seq);
		c = conn_code(&s->w, &why);
	}
	c = member_end(s, redrive_n, seq, c, &why, err);
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
		c = no_dead(s, err);
	} else if (d.state == DEAD_REDRIVING) {
		c = err_set(err, DLQ_CONFLICT, "the dead letter is being redriven: its outcome comes first");
	} else {
		struct sq_queue *q = queue_find(s, d.queue_id);
		headers_unindex(s, headers_now(s, seq, d.edited, &a), d.died_no, seq);
		q_run(&s->w, Q_DEAD_DELETE, "i", seq);
		q_run(&s->w, Q_ATTEMPT_DELETE, "i", seq);
		if (d.edited)
			q_run(&s->w, Q_EDIT_DELETE, "i", seq);
		q_run(&s->w, Q_PAYLOAD_DELETE, "i", seq);
		if (d.state == DEAD_DEAD) {
			followers_free(s, q, &d);
			dead_leave(s, &d);
		}
		struct sq_group *g = group_touch(s, d.group_id);
		bool counted = d.state == DEAD_ARCHIVED; /* when it was given up */
		if (q)
			queue_touch(s, q)->archived += !counted;
		if (g)
			g->archived += !counted;
		c = conn_code(&s->w, err);
	}
	arena_release(&a);
	return c;
}
