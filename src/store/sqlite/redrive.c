/* Redrives: who is a member, and where each one stands. */
#include "store/sqlite/internal.h"

static enum dlq_code in_redrive(struct sq_store *s, sqlite3_stmt *st, const char *what, struct dlq_err *err)
{
	char id[ULID_LEN + 1];
	id_redrive(s, col(st, 1), col(st, 0), id);
	q_end(st);
	return err_set(err, DLQ_IN_REDRIVE, "%s in the active redrive %s: wait for it, resume it if it was paused or halted, or cancel it", what, id);
}

/* Whether another active redrive has yet to handle the dead letter (invariant 9). */
enum dlq_code redrive_conflict(struct sq_store *s, const struct dead_facts *d, int64_t redrive_n, struct dlq_err *err)
{
	char id[ULID_LEN + 1], what[64];
	id_dead(s, d->first_died_at, d->seq, id);
	snprintf(what, sizeof(what), "dead letter %s is", id);
	sqlite3_stmt *st = q_bind(&s->w, Q_REDRIVE_OF_QUEUE, "iiii", d->queue_id, d->died_no, redrive_n, I(d->state));
	if (q_row(&s->w, st))
		return in_redrive(s, st, what, err);
	if (d->group_id) {
		st = q_bind(&s->w, Q_REDRIVE_OF_GROUP, "iiii", d->group_id, d->died_no, redrive_n, I(d->state));
		if (q_row(&s->w, st))
			return in_redrive(s, st, what, err);
	}
	st = q_bind(&s->w, Q_REDRIVE_OF_ITEM, "iii", d->seq, d->died_no, redrive_n);
	if (q_row(&s->w, st))
		return in_redrive(s, st, what, err);
	return conn_code(&s->w, err);
}

unsigned redrive_takes(enum redrive_action action, bool override)
{
	if (action == ACTION_RESTORE)
		return 1u << DEAD_DISCARDED | 1u << DEAD_ARCHIVED;
	return 1u << DEAD_DEAD | (action == ACTION_REDRIVE && override ? 1u << DEAD_ARCHIVED : 0);
}

static unsigned takes(const struct store_redrive *r)
{
	return redrive_takes(r->action, r->override_limit);
}

static enum dlq_code create_row(struct sq_store *s, struct store_redrive *r, struct dlq_err *err)
{
	r->started_at_ms = s->wall;
	r->state = REDRIVE_RUNNING;
	q_run(&s->w, Q_REDRIVE_INSERT, "itiiittiiididiititi", r->queue_id, r->queue, r->until_no, r->total, r->started_at_ms,
	      r->operator, r->reason, r->group_id, r->guard.first, r->guard.canary_wait_ms, r->guard.rate,
	      r->guard.stop_count, r->guard.stop_percent, I(r->action), r->to_queue_id, r->to_queue, I(r->override_limit), r->plan,
	      r->plan_next);
	r->n = sqlite3_last_insert_rowid(s->w.db);
	id_redrive(s, r->started_at_ms, r->n, r->redrive_id);
	return conn_code(&s->w, err);
}

/* The members that a whole queue or group has now: the dead are counted already, the others are looked at. */
static int64_t members_now(struct sq_store *s, enum statement q, int64_t id, int64_t dead, const struct store_redrive *r)
{
	static const enum dead_state others[] = {DEAD_DISCARDED, DEAD_ARCHIVED};
	int64_t sum = takes(r) & 1u << DEAD_DEAD ? dead : 0, n;
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		if (takes(r) & 1u << others[i] && q_int(&s->w, q, &n, "iii", id, I(others[i]), INT64_MAX))
			sum += n;
	return sum;
}

static enum dlq_code create_whole(struct sq_store *s, struct store_redrive *r, struct dlq_err *err)
{
	struct sq_queue *q = queue_find(s, r->queue_id);
	if (!q)
		return err_set(err, DLQ_NOT_FOUND, "there is no queue \"" STR_FMT "\"", STR_ARG(r->queue));
	sqlite3_stmt *st = q_bind(&s->w, Q_REDRIVE_OVERLAP, "iiii", r->queue_id, I(0), I(r->action), I(r->override_limit));
	if (q_row(&s->w, st))
		return in_redrive(s, st, "dead letters of the queue are", err);
	r->until_no = s->died_no.next - 1;
	r->total = members_now(s, Q_N_QUEUE_STATE, r->queue_id, q->now.dead, r);
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
		sqlite3_stmt *st = q_bind(&s->w, Q_REDRIVE_OVERLAP_GROUP, "iiii", queue_id, ids[i], I(r->action), I(r->override_limit));
		if (q_row(&s->w, st))
			return in_redrive(s, st, "dead letters of the group are", err);
		g = group_by_id(s, ids[i]);
		r->total += members_now(s, Q_N_GROUP_STATE, ids[i], g ? g->dead : 0, r);
	}
	r->until_no = s->died_no.next - 1;
	enum dlq_code c = create_row(s, r, err);
	for (int i = 0; i < n && !c; i++)
		q_run(&s->w, Q_REDRIVE_GROUP, "ii", r->n, ids[i]);
	return c ? c : conn_code(&s->w, err);
}

/* Who they are, redrive_pick says. */
static enum dlq_code create_planned(struct sq_store *s, struct store_redrive *r, struct dlq_err *err)
{
	int64_t any;
	r->queue_id = r->group_id = r->total = 0;
	r->until_no = s->died_no.next - 1;
	r->plan_next = q_int(&s->w, Q_DEAD_ANY, &any, "") ? r->until_no + 1 : 0;
	return create_row(s, r, err);
}

static enum dlq_code create_chosen(struct sq_store *s, struct store_redrive *r, const int64_t *seqs, int n_seqs, struct dlq_err *err)
{
	struct arena a = {0};
	enum dlq_code c = DLQ_OK;
	for (int i = 0; i < n_seqs && !c; i++) {
		struct dead_facts d;
		c = dead_free(s, seqs[i], 0, takes(r), &a, &d, err);
		arena_reset(&a);
	}
	r->total = n_seqs;
	r->until_no = n_seqs;
	if (!c)
		c = create_row(s, r, err);
	for (int i = 0; i < n_seqs && !c; i++) {
		struct dead_facts d = {0};
		dead_load(s, seqs[i], &a, &d);
		item_add(s, r->n, I(i) + 1, &d, ITEM_SELECTED, STR(""));
		arena_reset(&a);
	}
	arena_release(&a);
	return c ? c : conn_code(&s->w, err);
}

enum dlq_code sq_redrive_create(struct store *store, struct store_redrive *r, const int64_t *seqs, int n_seqs,
                                struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	r->until_no = r->cursor_no = r->sent = r->skipped = r->succeeded = r->failed_again = r->ended_at_ms = r->cancelled = 0;
	r->plan_next = r->looked = r->changed = r->unchanged = r->edit_failed = 0;
	r->halted_why = STR("");
	if (r->to_queue_id && !queue_find(s, r->to_queue_id))
		return err_set(err, DLQ_NOT_FOUND, "there is no queue \"" STR_FMT "\" to put them into", STR_ARG(r->to_queue));
	if (r->plan.n)
		return create_planned(s, r, err);
	if (r->group_id)
		return create_group(s, r, err);
	if (r->queue_id)
		return create_whole(s, r, err);
	return create_chosen(s, r, seqs, n_seqs, err);
}

/* One line of the ledger; false: it is there already. */
bool item_add(struct sq_store *s, int64_t redrive_n, int64_t ord, const struct dead_facts *d, enum item_state state, struct str note)
{
	if (q_run(&s->w, Q_REDRIVE_ITEM, "iiiiit", redrive_n, ord, d->seq, d->first_died_at, I(state), note) != 1)
		return false;
	if (state == ITEM_SELECTED)
		q_run(&s->w, Q_REDRIVE_SCOPE, "iiii", redrive_n, d->queue_id, d->group_id, ord);
	return true;
}

/* The next of a whole queue or of groups, in died order; they get their line in the ledger. */
static int next_of_all(struct sq_store *s, const struct store_redrive *r, int64_t *cursor, int max, int64_t *seqs)
{
	int64_t ids[GROUP_MERGED_MAX + 1] = {r->queue_id}, no;
	struct arena a = {0};
	struct dead_walk w;
	struct dead_facts d = {0};
	int n_ids = r->group_id ? 0 : 1, n = 0;
	sqlite3_stmt *st = r->group_id ? q_bind(&s->w, Q_REDRIVE_GROUPS, "i", r->n) : NULL;
	while (st && q_row(&s->w, st))
		if (n_ids <= GROUP_MERGED_MAX)
			ids[n_ids++] = col(st, 0);
	walk_begin(&w, &s->w, r->group_id ? Q_WALK_GROUP_UP : Q_WALK_QUEUE_UP, STR(""));
	for (int i = 0; i < n_ids; i++)
		for (int k = 0; k < DEAD_STATE_COUNT; k++)
			if (takes(r) & 1u << k)
				walk_add(&w, ids[i], k, *cursor, &a);
	while (n < max && walk_next(&w, &seqs[n], &no) && no <= r->until_no) {
		*cursor = no;
		if (dead_load(s, seqs[n], &a, &d))
			q_run(&s->w, Q_REDRIVE_ITEM, "iiiiit", r->n, no, seqs[n], d.first_died_at, I(ITEM_SELECTED), STR(""));
		n++;
	}
	arena_release(&a);
	return n;
}

enum dlq_code sq_redrive_next(struct store *store, int64_t redrive_n, int max, int64_t *seqs, int *n,
                              struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	struct arena a = {0};
	struct store_redrive r = {0};
	*n = 0;
	enum dlq_code c = redrive_load(s, redrive_n, &a, &r, err);
	arena_release(&a); /* only numbers of r are used */
	if (c)
		return c;
	if (r.plan_next)
		return err_set(err, DLQ_CONFLICT, "redrive %s is still selecting its members", r.redrive_id);
	int64_t cursor = r.cursor_no;
	if (r.group_id || r.queue_id) {
		*n = next_of_all(s, &r, &cursor, max, seqs);
	} else {
		sqlite3_stmt *st = q_bind(&s->w, Q_REDRIVE_NEXT_ITEM, "iii", redrive_n, cursor, I(max));
		while (q_row(&s->w, st)) {
			seqs[(*n)++] = col(st, 0);
			cursor = col(st, 1);
		}
	}
	if (*n == 0)
		cursor = r.until_no;
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
	    .action = (enum redrive_action)col(st, 25),
	    .to_queue_id = col(st, 26),
	    .to_queue = col_copy(st, 27, a),
	    .override_limit = col(st, 28) != 0,
	    .plan = col_copy(st, 29, a),
	    .plan_next = col(st, 30),
	    .looked = col(st, 31),
	    .changed = col(st, 32),
	    .unchanged = col(st, 33),
	    .edit_failed = col(st, 34),
	};
	struct str fp = col_str(st, 24);
	if (fp.n == sizeof(out->group_fp))
		memcpy(out->group_fp, fp.p, fp.n);
	id_redrive(s, out->started_at_ms, out->n, out->redrive_id);
}

enum dlq_code redrive_load(struct sq_store *s, int64_t n, struct arena *a, struct store_redrive *out, struct dlq_err *err)
{
	sqlite3_stmt *st = q_bind(&s->w, Q_REDRIVE_GET, "i", n);
	if (!q_row(&s->w, st))
		return s->w.rc ? conn_code(&s->w, err) : err_set(err, DLQ_NOT_FOUND, "there is no redrive %lld", (long long)n);
	redrive_row(s, st, a, out);
	q_end(st);
	return DLQ_OK;
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
