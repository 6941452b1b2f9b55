/* Planned redrives: the members that were picked, step by step, and the edits staged for them. */
#include "store/sqlite/internal.h"

/* What a step adds to the redrive's row. */
struct step {
	int64_t total, skipped, changed, unchanged, edit_failed;
};

static void pick_count(struct step *sum, const struct store_redrive_pick *p, bool skipped)
{
	sum->total++;
	sum->skipped += skipped;
	if (!p->edit_tried)
		return;
	if (p->note.n)
		sum->edit_failed++;
	else if (p->body || p->headers)
		sum->changed++;
	else
		sum->unchanged++;
}

static void stage(struct sq_store *s, int64_t redrive_n, const struct store_redrive_pick *p)
{
	struct str none = STR("{}");
	const struct str *headers = p->headers && !p->headers->n ? &none : p->headers;
	if (p->body || headers)
		q_run(&s->w, Q_STAGE_INSERT, "iixB", redrive_n, p->seq, headers, p->body);
}

static enum dlq_code pick_one(struct sq_store *s, const struct store_redrive *r, const struct store_redrive_pick *p,
                              struct arena *a, struct step *sum, struct dlq_err *err)
{
	struct dead_facts d = {0};
	struct dlq_err why = {0};
	struct str note = p->note;
	if (!dead_load(s, p->seq, a, &d) || d.died_no != p->died_no ||
	    !(redrive_takes(r->action, r->override_limit) & 1u << d.state))
		return conn_code(&s->w, err); /* changed since: no member */
	if (!note.n) {
		enum dlq_code c = redrive_conflict(s, &d, r->n, &why);
		if (c == DLQ_IN_REDRIVE)
			note = str_of(why.detail);
		else if (c)
			return err_set(err, c, "%s", why.detail);
	}
	if (item_add(s, r->n, d.died_no, &d, note.n ? ITEM_SKIPPED : ITEM_SELECTED, note)) {
		pick_count(sum, p, note.n > 0);
		if (!note.n)
			stage(s, r->n, p);
	}
	return conn_code(&s->w, err);
}

enum dlq_code sq_redrive_pick(struct store *store, int64_t redrive_n, const struct store_redrive_pick *picks, int n,
                              int64_t looked, int64_t plan_next, struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	struct arena a = {0}, one = {0};
	struct store_redrive r = {0};
	struct step sum = {0};
	enum dlq_code c = redrive_load(s, redrive_n, &a, &r, err);
	if (!c && (!r.plan.n || r.state == REDRIVE_DONE || r.state == REDRIVE_CANCELLED))
		c = err_set(err, DLQ_CONFLICT, "redrive %s %s", r.redrive_id, r.plan.n ? "has ended" : "has no plan");
	for (int i = 0; i < n && !c; i++) {
		c = pick_one(s, &r, &picks[i], &one, &sum, err);
		arena_reset(&one);
	}
	if (!c) {
		q_run(&s->w, Q_REDRIVE_PICKED, "iiiiiiii", redrive_n, sum.total, sum.skipped, looked, sum.changed,
		      sum.unchanged, sum.edit_failed, plan_next);
		c = conn_code(&s->w, err);
	}
	arena_release(&one);
	arena_release(&a);
	return c;
}

enum dlq_code sq_redrive_sweep(struct store *store, int max, int *n, struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	int64_t redrive_n = 0;
	*n = 0;
	while (*n < max) {
		sqlite3_stmt *st = q_bind(&s->w, Q_STAGE_AFTER, "i", redrive_n);
		if (!q_row(&s->w, st))
			break;
		redrive_n = col(st, 0);
		int64_t state = col(st, 1);
		q_end(st);
		if (state != REDRIVE_RUNNING && state != REDRIVE_PAUSED && state != REDRIVE_HALTED)
			*n += q_run(&s->w, Q_STAGE_SWEEP, "ii", redrive_n, I(max - *n));
	}
	return conn_code(&s->w, err);
}
