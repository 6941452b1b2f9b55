/* Redrives: who is a member, where each one stands, and putting one dead letter back. */
#include "store/sqlite/internal.h"

static enum dlq_code in_redrive(struct sq_store *s, sqlite3_stmt *st, const char *what, struct dlq_err *err)
{
	char id[ULID_LEN + 1];
	id_redrive(s, col(st, 1), col(st, 0), id);
	q_end(st);
	return err_set(err, DLQ_IN_REDRIVE, "%s in the active redrive %s: wait for it or cancel it", what, id);
}

/* Whether another active redrive has yet to handle the dead letter (invariant 9). */
enum dlq_code redrive_conflict(struct sq_store *s, const struct dead_facts *d, int64_t redrive_n, struct dlq_err *err)
{
	char id[ULID_LEN + 1], what[64];
	id_dead(s, d->first_died_at, d->seq, id);
	snprintf(what, sizeof(what), "dead letter %s is", id);
	sqlite3_stmt *st = q_bind(&s->w, Q_REDRIVE_OF_QUEUE, "iii", d->queue_id, d->died_no, redrive_n);
	if (q_row(&s->w, st))
		return in_redrive(s, st, what, err);
	if (d->group_id) {
		st = q_bind(&s->w, Q_REDRIVE_OF_GROUP, "iii", d->group_id, d->died_no, redrive_n);
		if (q_row(&s->w, st))
			return in_redrive(s, st, what, err);
	}
	st = q_bind(&s->w, Q_REDRIVE_OF_ITEM, "ii", d->seq, redrive_n);
	if (q_row(&s->w, st))
		return in_redrive(s, st, what, err);
	return conn_code(&s->w, err);
}

/* Ready, or held when an earlier message of its key is unfinished. */
static void put_back(struct sq_store *s, struct sq_queue *q, const struct dead_facts *d, int64_t due)
{
	struct store_counts *c = queue_touch(s, q);
	int64_t redrives = d->redrives + 1;
	if (q->ordered && d->key.n && !lane_is_head(s, d->queue_id, d->key, d->seq)) {
		q_run(&s->w, Q_HELD_INSERT, "iiii", d->seq, d->queue_id, due, redrives);
		c->held++;
	} else {
		struct waiting w = {d->queue_id, due, d->seq, 0, 0, redrives, 0, 0};
		waiting_add(s, q, &w);
	}
	c->bytes += d->body_bytes;
	c->dead--;
	c->redriving++;
	struct sq_group *g = group_touch(s, d->group_id);
	if (g) {
		g->dead--;
		g->redriving++;
	}
}

enum dlq_code sq_redrive_one(struct store *store, int64_t seq, int64_t redrive_n, struct str redrive_id,
                             const struct str *body, struct str operator, struct str why, int64_t due,
                             struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	struct arena a = {0};
	struct dead_facts d;
	enum dlq_code c = dead_free(s, seq, redrive_n, &a, &d, err);
	struct sq_queue *q = c ? NULL : queue_find(s, d.queue_id);
	if (!c && !q)
		c = err_set(err, DLQ_CONFLICT, "the queue of the dead letter was deleted");
	if (!c) {
		q_run(&s->w, Q_DEAD_REDRIVE, "iiiittti", seq, s->wall, d.redrives + 1, redrive_n, redrive_id, operator,
		      why, I(d.edited || body));
		if (body)
			q_run(&s->w, Q_EDIT_INSERT, "iiitb", seq, d.redrives + 1, s->wall, operator, * body);
		put_back(s, q, &d, due);
		if (redrive_n)
			q_run(&s->w, Q_ITEM_SENT, "iii", redrive_n, seq, s->wall);
		c = conn_code(&s->w, err);
	}
	arena_release(&a);
	return c;
}

static enum dlq_code create_row(struct sq_store *s, struct store_redrive *r, struct dlq_err *err)
{
	r->started_at_ms = s->wall;
	r->state = REDRIVE_RUNNING;
	q_run(&s->w, Q_REDRIVE_INSERT, "itiiittiiidid", r->queue_id, r->queue, r->until_no, r->total, r->started_at_ms,
	      r->operator, r->reason, r->group_id, r->guard.first, r->guard.canary_wait_ms, r->guard.rate,
	      r->guard.stop_count, r->guard.stop_percent);
	r->n = sqlite3_last_insert_rowid(s->w.db);
	id_redrive(s, r->started_at_ms, r->n, r->redrive_id);
	return conn_code(&s->w, err);
}

static enum dlq_code create_whole(struct sq_store *s, struct store_redrive *r, struct dlq_err *err)
{
	struct sq_queue *q = queue_find(s, r->queue_id);
	if (!q)
		return err_set(err, DLQ_NOT_FOUND, "there is no queue \"" STR_FMT "\"", STR_ARG(r->queue));
	sqlite3_stmt *st = q_bind(&s->w, Q_REDRIVE_OVERLAP, "i", r->queue_id);
	if (q_row(&s->w, st))
		return in_redrive(s, st, "dead letters of the queue are", err);
	r->until_no = s->died_no.next - 1;
	r->total = q->now.dead;
	return create_row(s, r, err);
}

/* The dead letters of a group and of those merged into it now; a later merge changes nothing. */
static enum dlq_code create_group(struct sq_store *s, struct store_redrive *r, struct dlq_err *err)
{
	int64_t ids[GROUP_MERGED_MAX + 1];
	int n = group_family(&s->w, r->group_id, ids);
	const struct sq_group *g = group_by_id(s, r->group_id);
	if (s->w.rc)
		return conn_code(&s->w, err);
	if (!g)
		return err_set(err, DLQ_NOT_FOUND, "there is no such group");
	if (!queue_find(s, g->queue_id))
		return err_set(err, DLQ_CONFLICT, "the queue of the group was deleted");
	int64_t queue_id = g->queue_id;
	memcpy(r->group_fp, g->fp, sizeof(r->group_fp));
	r->total = 0;
	for (int i = 0; i < n; i++) {
		sqlite3_stmt *st = q_bind(&s->w, Q_REDRIVE_OVERLAP_GROUP, "ii", ids[i], queue_id);
		if (q_row(&s->w, st))
			return in_redrive(s, st, "dead letters of the group are", err);
		g = group_by_id(s, ids[i]);
		r->total += g ? g->dead : 0;
	}
	r->until_no = s->died_no.next - 1;
	enum dlq_code c = create_row(s, r, err);
	for (int i = 0; i < n && !c; i++)
		q_run(&s->w, Q_REDRIVE_GROUP, "ii", r->n, ids[i]);
	return c ? c : conn_code(&s->w, err);
}

enum dlq_code sq_redrive_create(struct store *store, struct store_redrive *r, const int64_t *seqs, int n_seqs,
                                struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	struct arena a = {0};
	enum dlq_code c = DLQ_OK;
	r->until_no = r->cursor_no = r->sent = r->skipped = r->succeeded = r->failed_again = r->ended_at_ms = r->cancelled = 0;
	r->halted_why = STR("");
	if (r->group_id)
		return create_group(s, r, err);
	if (r->queue_id)
		return create_whole(s, r, err);
	for (int i = 0; i < n_seqs && !c; i++) {
		struct dead_facts d;
		c = dead_free(s, seqs[i], 0, &a, &d, err);
		arena_reset(&a);
	}
	r->total = n_seqs;
	r->until_no = n_seqs;
	if (!c)
		c = create_row(s, r, err);
	for (int i = 0; i < n_seqs && !c; i++) {
		struct dead_facts d = {0};
		dead_load(s, seqs[i], &a, &d);
		q_run(&s->w, Q_REDRIVE_ITEM, "iiii", r->n, I(i) + 1, seqs[i], d.first_died_at);
		arena_reset(&a);
	}
	arena_release(&a);
	return c ? c : conn_code(&s->w, err);
}

static int next_of_group(struct sq_store *s, int64_t redrive_n, int64_t *cursor, int64_t until, int max, int64_t *seqs,
                         int64_t *nos)
{
	int64_t ids[GROUP_MERGED_MAX + 1], seq, no;
	struct arena a = {0};
	struct dead_walk w;
	int n_ids = 0, n = 0;
	sqlite3_stmt *st = q_bind(&s->w, Q_REDRIVE_GROUPS, "i", redrive_n);
	while (q_row(&s->w, st))
		if (n_ids <= GROUP_MERGED_MAX)
			ids[n_ids++] = col(st, 0);
	walk_begin(&w, &s->w, true, ids, n_ids, DEAD_DEAD, *cursor, &a);
	while (n < max && walk_next(&w, &seq, &no) && no <= until) {
		seqs[n] = seq;
		nos[n++] = *cursor = no;
	}
	arena_release(&a);
	return n;
}

/* Members that were not listed beforehand get their line in the ledger. */
static void items_add(struct sq_store *s, int64_t redrive_n, const int64_t *seqs, const int64_t *nos, int n)
{
	struct arena a = {0};
	for (int i = 0; i < n; i++) {
		struct dead_facts d = {0};
		dead_load(s, seqs[i], &a, &d);
		q_run(&s->w, Q_REDRIVE_ITEM, "iiii", redrive_n, nos[i], seqs[i], d.first_died_at);
		arena_reset(&a);
	}
	arena_release(&a);
}

enum dlq_code sq_redrive_next(struct store *store, int64_t redrive_n, int max, int64_t *seqs, int *n,
                              struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	sqlite3_stmt *st = q_bind(&s->w, Q_REDRIVE_GET, "i", redrive_n);
	*n = 0;
	if (!q_row(&s->w, st))
		return s->w.rc ? conn_code(&s->w, err)
		               : err_set(err, DLQ_NOT_FOUND, "there is no redrive %lld", (long long)redrive_n);
	int64_t queue_id = col(st, 1), until = col(st, 6), cursor = col(st, 7), group_id = col(st, 15);
	int64_t *nos = mem_alloc((size_t)(max > 0 ? max : 1) * sizeof(*nos));
	q_end(st);
	st = NULL;
	if (group_id)
		*n = next_of_group(s, redrive_n, &cursor, until, max, seqs, nos);
	else if (queue_id)
		st = q_bind(&s->w, Q_REDRIVE_NEXT_QUEUE, "iiii", queue_id, cursor, until, I(max));
	else
		st = q_bind(&s->w, Q_REDRIVE_NEXT_ITEM, "iii", redrive_n, cursor, I(max));
	while (q_row(&s->w, st)) {
		seqs[*n] = col(st, 0);
		nos[(*n)++] = cursor = col(st, 1);
	}
	if (group_id || queue_id)
		items_add(s, redrive_n, seqs, nos, *n);
	mem_free(nos);
	if (*n == 0)
		cursor = until;
	q_run(&s->w, Q_REDRIVE_CURSOR, "ii", redrive_n, cursor);
	return conn_code(&s->w, err);
}

enum dlq_code sq_redrive_mark(struct store *store, int64_t redrive_n, int64_t sent, int64_t skipped,
                              enum redrive_state state, struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	int changed = q_run(&s->w, Q_REDRIVE_MARK, "iiiii", redrive_n, sent, skipped, I(state), s->wall);
	/* Members that left the state dead by retention are never met by redrive_next: they count as skipped. */
	if (state == REDRIVE_DONE)
		q_run(&s->w, Q_REDRIVE_BALANCE, "i", redrive_n);
	if (changed == 0 && !s->w.rc)
		return err_set(err, DLQ_NOT_FOUND, "there is no redrive %lld", (long long)redrive_n);
	return conn_code(&s->w, err);
}

enum dlq_code sq_redrive_state(struct store *store, const struct store_redrive *r, struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	int changed = q_run(&s->w, Q_REDRIVE_STATE, "iitiii", r->n, I(r->state), r->halted_why, r->canary_until,
	                    r->cursor_no, s->wall);
	if (r->state == REDRIVE_DONE)
		q_run(&s->w, Q_REDRIVE_BALANCE, "i", r->n);
	if (changed == 0 && !s->w.rc)
		return err_set(err, DLQ_NOT_FOUND, "there is no redrive %lld", (long long)r->n);
	return conn_code(&s->w, err);
}

void redrive_row(const struct sq_store *s, sqlite3_stmt *st, struct arena *a, struct store_redrive *out)
{
	*out = (struct store_redrive){
	    .n = col(st, 0),
	    .queue_id = col(st, 1),
	    .queue = col_copy(st, 2, a),
	    .state = (enum redrive_state)col(st, 3),
	    .operator = col_copy(st, 4, a),
	    .reason = col_copy(st, 5, a),
	    .until_no = col(st, 6),
	    .cursor_no = col(st, 7),
	    .total = col(st, 8),
	    .sent = col(st, 9),
	    .skipped = col(st, 10),
	    .succeeded = col(st, 11),
	    .failed_again = col(st, 12),
	    .started_at_ms = col(st, 13),
	    .ended_at_ms = col(st, 14),
	    .group_id = col(st, 15),
	    .guard =
	        {
	            .first = col(st, 16),
	            .canary_wait_ms = col(st, 17),
	            .rate = sqlite3_column_double(st, 18),
	            .stop_count = col(st, 19),
	            .stop_percent = sqlite3_column_double(st, 20),
	        },
	    .halted_why = col_copy(st, 21, a),
	    .canary_until = col(st, 22),
	    .cancelled = col(st, 23),
	};
	struct str fp = col_str(st, 24);
	if (fp.n == sizeof(out->group_fp))
		memcpy(out->group_fp, fp.p, fp.n);
	id_redrive(s, out->started_at_ms, out->n, out->redrive_id);
}

enum dlq_code sq_redrive_active(struct store *store, struct arena *a, struct store_redrive **out, int *n,
                                struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	sqlite3_stmt *st = q_get(&s->w, Q_REDRIVE_ACTIVE);
	*out = NULL;
	*n = 0;
	while (q_row(&s->w, st)) {
		*out = list_grow(a, *out, *n, sizeof(**out));
		redrive_row(s, st, a, &(*out)[(*n)++]);
	}
	return conn_code(&s->w, err);
}
