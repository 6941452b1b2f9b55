/* Dead letters of several places (groups, queues, states) in one order: each place has its next one, the nearest of all
 * comes first. */
#include "store/sqlite/internal.h"

int group_family(struct conn *c, int64_t group_id, int64_t *group_ids)
{
	int n = 0;
	group_ids[n++] = group_id;
	sqlite3_stmt *st = q_bind(c, Q_GROUP_MEMBERS, "i", group_id);
	while (q_row(c, st)) {
		group_ids[n++] = col(st, 0);
		if (n == GROUP_MERGED_MAX + 1) {
			q_end(st);
			break;
		}
	}
	return n;
}

static bool head_move(struct dead_walk *w, struct walk_head *h)
{
	sqlite3_stmt *st = w->text.n ? q_bind(w->c, w->q, "iiit", h->of, I(0), h->no, w->text)
	                             : q_bind(w->c, w->q, "iii", h->of, h->state, h->no);
	if (!q_row(w->c, st))
		return false;
	h->seq = col(st, 0);
	h->no = col(st, 1);
	q_end(st);
	return true;
}

void walk_begin(struct dead_walk *w, struct conn *c, enum statement q, struct str text)
{
	*w = (struct dead_walk){.c = c, .q = q, .text = text, .up = q == Q_WALK_GROUP_UP || q == Q_WALK_QUEUE_UP};
}

void walk_add(struct dead_walk *w, int64_t of, int64_t state, int64_t from_no, struct arena *a)
{
	struct walk_head h = {.of = of, .state = state, .no = from_no};
	if (!head_move(w, &h))
		return;
	w->heads = list_grow(a, w->heads, w->n, sizeof(*w->heads));
	w->heads[w->n++] = h;
}

bool walk_next(struct dead_walk *w, int64_t *seq, int64_t *no)
{
	int best = 0;
	if (!w->n)
		return false;
	for (int i = 1; i < w->n; i++)
		if (w->up ? w->heads[i].no < w->heads[best].no : w->heads[i].no > w->heads[best].no)
			best = i;
	*seq = w->heads[best].seq;
	*no = w->heads[best].no;
	if (!head_move(w, &w->heads[best]))
		w->heads[best] = w->heads[--w->n];
	return true;
}
