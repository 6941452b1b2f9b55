/* Which lease ends next. The truth is in the table `leased`; this is a cache without an index to keep in step with it.
 */
#include "store/sqlite/internal.h"

#define HEAP_SLACK 65536 /* dead entries above twice the leases in use, until it is built anew */

void *scratch_grow(void *p, size_t need, size_t *cap, size_t size)
{
	if (need <= *cap)
		return p;
	size_t n = *cap ? *cap : 64;
	while (n < need)
		n *= 2;
	*cap = n;
	return mem_grow(p, n, size);
}

static bool before(struct lease_end a, struct lease_end b)
{
	return a.until != b.until ? a.until < b.until : a.seq < b.seq;
}

void heap_push(struct lease_heap *h, int64_t until, int64_t seq)
{
	struct lease_end e = {until, seq};
	h->v = scratch_grow(h->v, h->n + 1, &h->cap, sizeof(*h->v));
	size_t i = h->n++;
	for (; i > 0 && before(e, h->v[(i - 1) / 2]); i = (i - 1) / 2)
		h->v[i] = h->v[(i - 1) / 2];
	h->v[i] = e;
}

struct lease_end heap_pop(struct lease_heap *h)
{
	struct lease_end top = h->v[0], last = h->v[--h->n];
	size_t i = 0;
	for (size_t child; (child = 2 * i + 1) < h->n; i = child) {
		if (child + 1 < h->n && before(h->v[child + 1], h->v[child]))
			child++;
		if (!before(h->v[child], last))
			break;
		h->v[i] = h->v[child];
	}
	if (h->n)
		h->v[i] = last;
	return top;
}

bool heap_load(struct sq_store *s)
{
	s->heap.n = 0;
	s->n_popped = 0;
	sqlite3_stmt *st = q_get(&s->w, Q_LEASE_SCAN);
	while (q_row(&s->w, st))
		heap_push(&s->heap, col(st, 0), col(st, 1));
	return !s->w.rc;
}

void heap_trim(struct sq_store *s)
{
	int64_t leased = 0;
	if (s->heap.n < HEAP_SLACK)
		return;
	for (size_t i = 0; i < s->n_queues; i++)
		leased += s->queues[i]->now.leased;
	if (s->heap.n > 2 * (size_t)leased + HEAP_SLACK)
		heap_load(s);
}

/* Whether the entry is a lease as it stands; if so it fills out. */
static bool lease_fill(struct sq_store *s, struct lease_end e, struct arena *a, struct store_lease *out)
{
	sqlite3_stmt *st = q_bind(&s->w, Q_LEASE_GET, "i", e.seq);
	if (!q_row(&s->w, st))
		return false;
	bool live = col(st, 8) == e.until;
	if (live && out)
		*out = (struct store_lease){
		    .seq = e.seq,
		    .queue_id = col(st, 0),
		    .nonce = col(st, 1),
		    .attempts = (int)col(st, 2),
		    .lease_expirations = (int)col(st, 3),
		    .redrives = (int)col(st, 4),
		    .previous_delay_ms = col(st, 5),
		    .worker = col_copy(st, 6, a),
		};
	q_end(st);
	return live;
}

/* Takes the top off; a failed transaction puts it back. */
static struct lease_end heap_take(struct sq_store *s)
{
	struct lease_end e = heap_pop(&s->heap);
	s->popped = scratch_grow(s->popped, s->n_popped + 1, &s->cap_popped, sizeof(*s->popped));
	return s->popped[s->n_popped++] = e;
}

enum dlq_code sq_expired_leases(struct store *store, int64_t now, int max, struct arena *a, struct store_lease *out,
                                int *n, int64_t *next, struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	struct lease_end *found = mem_array((size_t)max, sizeof(*found)), last = {0, 0};
	*n = 0;
	*next = INT64_MAX;
	while (s->heap.n && !s->w.rc) {
		struct lease_end top = s->heap.v[0];
		bool give = top.until <= now && *n < max;
		bool repeated = top.seq == last.seq && top.until == last.until;
		if (repeated || !lease_fill(s, top, a, give ? &out[*n] : NULL)) {
			if (!s->w.rc)
				heap_take(s);
			continue;
		}
		if (!give) {
			*next = top.until;
			break;
		}
		found[(*n)++] = last = heap_pop(&s->heap);
	}
	/* What the caller does with them decides whether they are stale: that shows when they come up again. */
	for (int i = 0; i < *n; i++)
		heap_push(&s->heap, found[i].until, found[i].seq);
	mem_free(found);
	return conn_code(&s->w, err);
}
