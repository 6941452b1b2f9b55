/* The dead letters of several groups in one order: each group and state has its next one, the nearest of all comes first. */
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
	sqlite3_stmt *st = q_bind(w->c, w->up ? Q_WALK_UP : Q_WALK_DOWN, "iii", h->group_id, h->state, h->no);
	if (!q_row(w->c, st))
		return false;
	h->seq = col(st, 0);
	h->no = col(st, 1);
	q_end(st);
	return true;
}

void walk_begin(struct dead_walk *w, struct conn *c, bool up, const int64_t *group_ids, int n, int state,
                int64_t from_no, struct arena *a)
{
	int states = state < 0 ? DEAD_STATE_COUNT : 1;
	*w = (struct dead_walk){.c = c, .up = up};
	w->heads = arena_alloc(a, (size_t)(n > 0 ? n * states : 1) * sizeof(*w->heads));
	for (int i = 0; i < n; i++)
		for (int k = 0; k < states; k++) {
			struct walk_head h = {.group_id = group_ids[i], .state = state < 0 ? k : state, .no = from_no};
			if (head_move(w, &h))
				w->heads[w->n++] = h;
		}
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
