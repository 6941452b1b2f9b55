/*
 * park.c - long polls: receives that found nothing and wait. Each is in the list of its queue (served in the order of
 * coming) and in one heap ordered by deadline. All of it belongs to the writer.
 */
#include <string.h>

#include "engine/engine_int.h"

static int64_t deadline(const struct engine_op *op)
{
	return op->u.receive.deadline;
}

static void heap_put(struct engine *e, int i, struct engine_op *op)
{
	e->heap[i] = op;
	op->u.receive.heap_index = i;
}

static void heap_up(struct engine *e, int i, struct engine_op *op)
{
	while (i > 0 && deadline(e->heap[(i - 1) / 2]) > deadline(op)) {
		heap_put(e, i, e->heap[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	heap_put(e, i, op);
}

static void heap_down(struct engine *e, int i, struct engine_op *op)
{
	for (;;) {
		int c = 2 * i + 1;
		if (c >= e->n_heap)
			break;
		if (c + 1 < e->n_heap && deadline(e->heap[c + 1]) < deadline(e->heap[c]))
			c++;
		if (deadline(e->heap[c]) >= deadline(op))
			break;
		heap_put(e, i, e->heap[c]);
		i = c;
	}
	heap_put(e, i, op);
}

static void heap_remove(struct engine *e, struct engine_op *op)
{
	int i = op->u.receive.heap_index;
	ASSERT(i >= 0 && i < e->n_heap && e->heap[i] == op);
	struct engine_op *last = e->heap[--e->n_heap];
	if (last == op)
		return;
	if (i > 0 && deadline(e->heap[(i - 1) / 2]) > deadline(last))
		heap_up(e, i, last);
	else
		heap_down(e, i, last);
}

void park(struct engine *e, struct equeue *q, struct engine_op *op)
{
	if (e->n_heap == e->cap_heap) {
		e->cap_heap = e->cap_heap ? e->cap_heap * 2 : 64;
		e->heap = mem_grow(e->heap, (size_t)e->cap_heap, sizeof(*e->heap));
	}
	heap_up(e, e->n_heap++, op);
	op->u.receive.wait_next = NULL;
	op->u.receive.wait_prev = q->park_tail;
	if (q->park_tail) {
		q->park_tail->u.receive.wait_next = op;
	} else {
		q->park_head = op;
		q->park_prev = NULL;
		q->park_next = e->parked;
		if (e->parked)
			e->parked->park_prev = q;
		e->parked = q;
	}
	q->park_tail = op;
	atomic_store(&e->parked_count, e->n_heap);
}

void unpark(struct engine *e, struct equeue *q, struct engine_op *op)
{
	struct engine_op *next = op->u.receive.wait_next, *prev = op->u.receive.wait_prev;
	heap_remove(e, op);
	*(prev ? &prev->u.receive.wait_next : &q->park_head) = next;
	*(next ? &next->u.receive.wait_prev : &q->park_tail) = prev;
	if (!q->park_head) {
		q->room_wanted = false;
		*(q->park_prev ? &q->park_prev->park_next : &e->parked) = q->park_next;
		if (q->park_next)
			q->park_next->park_prev = q->park_prev;
		q->park_next = q->park_prev = NULL;
	}
	op->next = NULL;
	atomic_store(&e->parked_count, e->n_heap);
}

struct engine_op *park_first(struct engine *e)
{
	return e->n_heap ? e->heap[0] : NULL;
}

struct engine_op *park_find(struct engine *e, const struct engine_op *op)
{
	for (int i = 0; i < e->n_heap; i++)
		if (e->heap[i] == op)
			return e->heap[i];
	return NULL;
}

static void flush_queue(struct engine *e, struct batch *b, struct equeue *q, enum dlq_code code, const char *detail)
{
	while (q->park_head) {
		struct engine_op *op = q->park_head;
		unpark(e, q, op);
		op->code = code;
		if (code)
			err_set(&op->err, code, "%s", detail);
		batch_finish(b, op);
	}
}

void park_flush(struct engine *e, struct batch *b, struct equeue *q, enum dlq_code code, const char *detail)
{
	if (q) {
		flush_queue(e, b, q, code, detail);
		return;
	}
	while (e->parked)
		flush_queue(e, b, e->parked, code, detail);
}

static bool queue_may_give(const struct engine *e, const struct equeue *q, int64_t now)
{
	if (q->paused || q->room_wanted)
		return false;
	return !queue_due_known(e, q) || q->next_due <= now;
}

/* The next turn begins with `next`, behind whom the others line up; NULL: as it is. */
static void parked_begin_at(struct engine *e, struct equeue *next)
{
	struct equeue *tail = next;
	if (!next || next == e->parked)
		return;
	while (tail->park_next)
		tail = tail->park_next;
	tail->park_next = e->parked;
	e->parked->park_prev = tail;
	next->park_prev->park_next = NULL;
	next->park_prev = NULL;
	e->parked = next;
}

/* At most BATCH_BYTES_MAX are given in one turn, and one receive more: what all wait for at once has no bound. */
enum dlq_code park_serve(struct engine *e, struct batch *b, struct dlq_err *err)
{
	struct equeue *next;
	int64_t before = b->bytes;
	for (struct equeue *q = e->parked; q; q = next) {
		next = q->park_next;
		while (q->park_head && queue_may_give(e, q, b->now) && !port_full(q->park_head->port)) {
			if (b->bytes - before >= BATCH_BYTES_MAX) {
				parked_begin_at(e, next);
				return DLQ_OK;
			}
			struct engine_op *op = q->park_head;
			enum dlq_code c = receive_fill(e, b, q, op);
			if (c) {
				*err = op->err;
				return c;
			}
			if (e->next_ttl <= b->now)
				return DLQ_OK; /* a TTL backlog goes first */
			if (!op->u.receive.n)
				break;
			unpark(e, q, op);
			op->code = DLQ_OK;
			batch_finish(b, op);
		}
	}
	return DLQ_OK;
}
