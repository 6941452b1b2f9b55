/* Putting one dead letter back, with its edit, into its own queue or another; and what a redrive's ledger says of a
 * member. */
#include "store/sqlite/internal.h"

/* ---- the ledger ---- */

/* The member is done with; refused ones are skipped, and the ledger says why. A lost transaction has no ledger. */
enum dlq_code member_end(struct sq_store *s, int64_t redrive_n, int64_t seq, enum dlq_code c, struct dlq_err *why,
                         struct dlq_err *err)
{
	if (c && redrive_n && !store_fatal(c)) {
		q_run(&s->w, Q_ITEM_SKIPPED, "iit", redrive_n, seq, str_of(why->detail));
		if (s->w.rc)
			c = conn_code(&s->w, why);
	}
	if (c && err)
		*err = *why;
	return c;
}

void member_handled(struct sq_store *s, int64_t redrive_n, int64_t seq)
{
	char id[ULID_LEN + 1];
	int64_t started = 0;
	if (!redrive_n)
		return;
	q_int(&s->w, Q_REDRIVE_STARTED, &started, "i", redrive_n);
	id_redrive(s, started, redrive_n, id);
	q_run(&s->w, Q_DEAD_MEMBER, "iit", seq, redrive_n, str_of(id));
	q_run(&s->w, Q_ITEM_HANDLED, "iii", redrive_n, seq, s->wall);
	q_run(&s->w, Q_REDRIVE_SUCCEEDED, "i", redrive_n);
}

/* ---- the edit ---- */

/* What is to be delivered from now on; NULL: as it was. */
struct change {
	const struct str *body, *headers;
	struct str staged_body, staged_headers, none; /* none: what empty headers are kept as */
};

/* What the plan staged fills in what the caller does not give; it leaves the stage. */
static void change_make(struct sq_store *s, int64_t seq, const struct store_put_back *p, struct change *ch,
                        struct arena *a)
{
	*ch = (struct change){.body = p->body, .headers = p->headers, .none = STR("{}")};
	sqlite3_stmt *st = p->redrive_n ? q_bind(&s->w, Q_STAGE_GET, "ii", p->redrive_n, seq) : NULL;
	if (st && q_row(&s->w, st)) {
		if (!ch->headers && sqlite3_column_type(st, 0) != SQLITE_NULL) {
			ch->staged_headers = col_copy(st, 0, a);
			ch->headers = &ch->staged_headers;
		}
		if (!ch->body && sqlite3_column_type(st, 1) != SQLITE_NULL) {
			ch->staged_body = col_copy(st, 1, a);
			ch->body = &ch->staged_body;
		}
		q_end(st);
		q_run(&s->w, Q_STAGE_DELETE, "ii", p->redrive_n, seq);
	}
	if (ch->headers && !ch->headers->n)
		ch->headers = &ch->none;
}

static void edit_write(struct sq_store *s, const struct dead_facts *d, const struct change *ch, struct str operator,
                       struct arena *a)
{
	if (ch->headers) {
		headers_unindex(s, headers_now(s, d->seq, d->edited, a), d->died_no, d->seq);
		headers_index(s, *ch->headers, d->died_no, d->seq);
	}
	q_run(&s->w, Q_EDIT_INSERT, "iiitxB", d->seq, d->redrives + 1, s->wall, operator, ch->headers, ch->body);
}

/* ---- the way back ---- */

/* home: the queue the dead letter is of, NULL once deleted; to: where it goes. */
struct way {
	struct sq_queue *home, *to;
	bool in_lane; /* of home */
};

static enum dlq_code way_find(struct sq_store *s, const struct dead_facts *d, const struct store_put_back *p,
                              struct way *way, struct dlq_err *err)
{
	char id[ULID_LEN + 1];
	int64_t later;
	id_dead(s, d->first_died_at, d->seq, id);
	if (p->max_redrives >= 0 && d->redrives >= p->max_redrives)
		return err_set(err, DLQ_CONFLICT,
		               "dead letter %s was redriven %lld times already and its queue allows %d: go past that "
		               "with override",
		               id, (long long)d->redrives, p->max_redrives);
	way->home = queue_find(s, d->queue_id);
	way->to = p->to_queue_id ? queue_find(s, p->to_queue_id) : way->home;
	if (!way->to)
		return err_set(err, DLQ_CONFLICT,
		               p->to_queue_id ? "the destination queue of dead letter %s was deleted"
		                              : "the queue of dead letter %s was deleted: give it another one to go to",
		               id);
	way->in_lane = way->home && way->home->ordered && d->key.n && d->state == DEAD_DEAD;
	if (way->to == way->home && way->in_lane)
		return DLQ_OK; /* it has kept its place */
	if (way->to->ordered && d->key.n &&
	    q_int(&s->w, Q_LANE_LATER, &later, "iTi", way->to->queue_id, d->key, d->seq))
		return err_set(err, DLQ_CONFLICT,
		               "later messages with the key of dead letter %s are under way in the queue it would go "
		               "to, which is ordered: "
		               "put it back when they are settled",
		               id);
	return conn_code(&s->w, err);
}

/* Into its lane; true: an earlier message of its key is unfinished there, and it has to wait. */
static bool lanes_change(struct sq_store *s, const struct way *way, const struct dead_facts *d)
{
	bool moves = way->to != way->home;
	if (way->in_lane && moves)
		lane_leave(s, way->home, d->key, d->seq);
	if (!way->to->ordered || !d->key.n)
		return false;
	if (!way->in_lane || moves)
		q_run(&s->w, Q_LANE_INSERT, "iTi", way->to->queue_id, d->key, d->seq);
	return !lane_is_head(s, way->to->queue_id, d->key, d->seq);
}

/* Ready or held in the queue it goes to; its dead letter, redriving now, is still counted where it died. */
static void put_back(struct sq_store *s, const struct way *way, const struct dead_facts *d, int64_t due)
{
	struct store_counts *to = queue_touch(s, way->to);
	int64_t redrives = d->redrives + 1;
	if (lanes_change(s, way, d)) {
		q_run(&s->w, Q_HELD_INSERT, "iiii", d->seq, way->to->queue_id, due, redrives);
		to->held++;
	} else {
		struct waiting w = {way->to->queue_id, due, d->seq, 0, 0, redrives, 0, 0};
		waiting_add(s, way->to, &w);
	}
	to->bytes += d->body_bytes;
	dead_leave(s, d);
	if (way->home)
		queue_touch(s, way->home)->redriving++;
	struct sq_group *g = group_touch(s, d->group_id);
	if (g)
		g->redriving++;
}

enum dlq_code sq_redrive_one(struct store *store, int64_t seq, const struct store_put_back *p, struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	struct arena a = {0};
	struct dlq_err why = {0};
	struct dead_facts d;
	struct way way = {0};
	unsigned from = 1u << DEAD_DEAD | (p->archived_too ? 1u << DEAD_ARCHIVED : 0);
	enum dlq_code c = dead_free(s, seq, p->redrive_n, from, &a, &d, &why);
	if (!c)
		c = way_find(s, &d, p, &way, &why);
	if (!c) {
		struct change ch;
		change_make(s, seq, p, &ch, &a);
		bool edit = ch.body || ch.headers;
		if (edit)
			edit_write(s, &d, &ch, p->operator, & a);
		q_run(&s->w, Q_DEAD_REDRIVE, "iiiittti", seq, s->wall, d.redrives + 1, p->redrive_n, p->redrive_id,
		      p->operator, p->why, I(d.edited || edit));
		put_back(s, &way, &d, p->due);
		if (p->redrive_n)
			q_run(&s->w, Q_ITEM_SENT, "iii", p->redrive_n, seq, s->wall);
		c = conn_code(&s->w, &why);
	}
	c = member_end(s, p->redrive_n, seq, c, &why, err);
	arena_release(&a);
	return c;
}
