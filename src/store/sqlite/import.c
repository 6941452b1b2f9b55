/* A dead letter from an export comes in: under its old number if it is of this store and gone from it, else under a new
 * one. */
#include "store/sqlite/internal.h"

/* Under which number it comes in. */
struct place {
	int64_t seq, first_died_at;
	bool own; /* its old one */
};

/* Whether the dead letter with this id is here. */
static bool here_by_id(struct sq_store *s, struct str id, char dlq_id[ULID_LEN + 1])
{
	uint64_t seq;
	int64_t first_died_at = 0;
	struct arena a = {0};
	struct dead_facts d;
	if (!ulid_parse(id, NULL, NULL, &seq) || !seq || seq > INT64_MAX)
		return false;
	if (dead_load(s, (int64_t)seq, &a, &d))
		first_died_at = d.first_died_at;
	arena_release(&a);
	id_dead(s, first_died_at, (int64_t)seq, dlq_id);
	return first_died_at && str_eqz(id, dlq_id);
}

static bool here_as_imported(struct sq_store *s, struct str id, char dlq_id[ULID_LEN + 1])
{
	sqlite3_stmt *st = q_bind(&s->w, Q_DEAD_IMPORTED, "t", id);
	if (!q_row(&s->w, st))
		return false;
	id_dead(s, col(st, 1), col(st, 0), dlq_id);
	q_end(st);
	return true;
}

/* By the id it has, or by the one it had before: one that went out, in elsewhere, out there and back is here, too. */
static bool here(struct sq_store *s, const struct store_dead *d, char dlq_id[ULID_LEN + 1])
{
	struct str ids[] = {str_of(d->dlq_id), d->imported_id};
	for (size_t i = 0; i < ARRAY_LEN(ids); i++)
		if (ids[i].n && (here_by_id(s, ids[i], dlq_id) || here_as_imported(s, ids[i], dlq_id)))
			return true;
	return false;
}

/* In an ordered queue what came later may be under way by now: then it cannot have its old place. */
static bool place_free(struct sq_store *s, const struct sq_queue *q, const struct store_dead *d, int64_t seq)
{
	int64_t any;
	if (q_int(&s->w, Q_PAYLOAD_THERE, &any, "i", seq))
		return false;
	return !q->ordered || !d->key.n || !q_int(&s->w, Q_LANE_LATER, &any, "iTi", q->queue_id, d->key, seq);
}

static struct place place_find(struct sq_store *s, const struct sq_queue *q, const struct store_dead *d)
{
	char id[ULID_LEN + 1];
	uint64_t seq;
	int64_t at;
	if (ulid_parse(str_of(d->dlq_id), &at, NULL, &seq) && seq && seq < (uint64_t)s->seq.next && at > 0) {
		id_dead(s, at, (int64_t)seq, id);
		if (!strcmp(id, d->dlq_id) && place_free(s, q, d, (int64_t)seq))
			return (struct place){(int64_t)seq, at, true};
	}
	return (struct place){number_take(s, &s->seq), s->wall, false};
}

/* A message id that follows from the number it has again need not be kept. */
static struct str id_kept(const struct sq_store *s, const struct store_dead *d, const struct place *p)
{
	char made[ULID_LEN + 1];
	id_message(s, d->received_at_ms, p->seq, made);
	return p->own && str_eqz(d->id, made) ? STR("") : d->id;
}

static void history_import(struct sq_store *s, const struct store_import *i, int64_t seq)
{
	for (int k = 0; k < i->n_attempts; k++) {
		const struct store_attempt *at = &i->attempts[k];
		q_run(&s->w, Q_ATTEMPT_IMPORT, "iiiiiiiittttt", seq, I(at->redrive), I(at->n), at->at_ms,
		      I(at->outcome), I(at->http_status), I(at->exit_code), at->retry_at_ms, at->error_type,
		      at->message, at->worker, at->detail, at->worker_version);
	}
}

/* Its group has one more to look after; nothing failed here, so nothing else is counted. */
static int64_t group_import(struct sq_store *s, const struct store_import *i)
{
	const struct store_group_key *key = i->n_attempts ? i->attempts[i->n_attempts - 1].group : NULL;
	struct sq_group *g = key ? group_of_key(s, i->queue_id, key) : NULL;
	if (!g)
		return 0;
	g->dead++;
	if (!g->last_no)
		g->last_no = number_take(s, &s->group_no);
	if (i->d.first_failed_at_ms && (!g->first_seen || i->d.first_failed_at_ms < g->first_seen))
		g->first_seen = i->d.first_failed_at_ms;
	if (i->d.last_failed_at_ms > g->last_seen)
		g->last_seen = i->d.last_failed_at_ms;
	return g->group_id;
}

static void rows_import(struct sq_store *s, const struct store_import *i, const struct place *p)
{
	const struct store_dead *d = &i->d;
	const struct store_attempt *last = i->n_attempts ? &i->attempts[i->n_attempts - 1] : NULL;
	struct str id = id_kept(s, d, p), type = last && !d->error_type.n ? last->error_type : d->error_type,
	           message = last && !d->message.n ? last->message : d->message,
	           worker = last && !d->worker.n ? last->worker : d->worker;
	bool edited = i->edited_body || d->edited_headers.n;
	int64_t no = number_take(s, &s->died_no);
	q_run(&s->w, Q_PAYLOAD_IMPORT, "iiittttb", p->seq, i->queue_id, d->received_at_ms, d->key, id, d->content_type,
	      d->headers, i->body);
	q_run(&s->w, Q_DEAD_IMPORT, "iiiiiiiiiiiiiiitttttttit", p->seq, i->queue_id, I(d->reason), I(d->attempts),
	      I(d->lease_expirations), I(d->redrives), no, p->first_died_at, d->first_failed_at_ms,
	      d->last_failed_at_ms, d->died_at_ms ? d->died_at_ms : s->wall, s->wall, (int64_t)i->body.n, I(edited),
	      i->retention_due, id, d->key, type, message, worker, d->operator, d->why, group_import(s, i),
	      p->own ? STR("") : str_of(d->dlq_id));
	if (edited)
		q_run(&s->w, Q_EDIT_INSERT, "iiittB", p->seq, I(d->redrives), s->wall, d->operator, d->edited_headers,
		      i->edited_body);
	history_import(s, i, p->seq);
	headers_index(s, d->edited_headers.n ? d->edited_headers : d->headers, no, p->seq);
}

enum dlq_code sq_import_one(struct store *store, struct store_import *i, struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	struct sq_queue *q = queue_find(s, i->queue_id);
	i->dlq_id[0] = '\0';
	if (!q)
		return err_set(err, DLQ_NOT_FOUND, "there is no queue %lld in the store", (long long)i->queue_id);
	i->exists = here(s, &i->d, i->dlq_id);
	if (i->exists || s->w.rc)
		return conn_code(&s->w, err);
	struct place p = place_find(s, q, &i->d);
	rows_import(s, i, &p);
	if (q->ordered && i->d.key.n)
		q_run(&s->w, Q_LANE_INSERT, "iTi", q->queue_id, i->d.key, p.seq);
	struct store_counts *c = queue_touch(s, q);
	c->dead++;
	c->imported++;
	id_dead(s, p.first_died_at, p.seq, i->dlq_id);
	return conn_code(&s->w, err);
}
