/*
 * writer.c - the group commit. One turn takes all that waits, applies it in one transaction together with the timers
 * that are due, commits, and gives the operations back. There is no delay to gather more: what comes during a commit is
 * the next batch.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "engine/clients.h"
#include "engine/engine_int.h"

#define PROBE_MS 1000
#define MAINTAIN_COMMITS 256

enum dlq_code batch_tx(struct engine *e, struct batch *b, struct dlq_err *err)
{
	if (b->tx)
		return DLQ_OK;
	enum dlq_code c = e->ops->begin(e->store, err);
	b->tx = !c;
	return c;
}

void batch_finish(struct batch *b, struct engine_op *op)
{
	op_list_push(&b->head, &b->tail, op);
}

static enum dlq_code apply(struct engine *e, struct batch *b, struct engine_op *op)
{
	switch (op->type) {
	case OP_SEND:
		return op_send(e, b, op);
	case OP_RECEIVE:
		return op_receive(e, b, op);
	case OP_SETTLE:
		return op_settle(e, b, op);
	case OP_EXTEND:
		return op_extend(e, b, op);
	case OP_QUEUE_PUT:
		return op_queue_put(e, b, op);
	case OP_QUEUE_DELETE:
		return op_queue_delete(e, b, op);
	case OP_QUEUE_PAUSE:
		return op_queue_pause(e, b, op);
	case OP_APPLY_QUEUES:
		return op_apply_queues(e, b, op);
	case OP_REDRIVE:
		return op_redrive(e, b, op);
	case OP_REDRIVE_PICK:
		return op_redrive_pick(e, b, op);
	case OP_REDRIVE_CONTROL:
		return op_redrive_control(e, b, op);
	case OP_DISCARD:
		return op_discard(e, b, op);
	case OP_GIVE_UP:
		return op_give_up(e, b, op);
	case OP_IMPORT:
		return op_import(e, b, op);
	case OP_RESTORE:
		return op_restore(e, b, op);
	case OP_GROUP_SET:
		return op_group_set(e, b, op);
	case OP_AUDIT:
		return op_audit(e, b, op);
	case OP_TOKEN_ADD:
		return op_token_add(e, b, op);
	case OP_TOKEN_REVOKE:
		return op_token_revoke(e, b, op);
	case OP_NOTICE_CLAIM:
		return op_notice_claim(e, b, op);
	case OP_NOTICE_SETTLE:
		return op_notice_settle(e, b, op);
	default:
		return err_set(&op->err, DLQ_BAD_REQUEST, "operation %d came to the writer", (int)op->type);
	}
}

/* ---- a store that fails ---- */

static void op_lost(struct engine_op *op, enum dlq_code code, const char *detail)
{
	if (op->type == OP_RECEIVE) {
		if (op->port->given_max)
			atomic_fetch_sub(&op->port->given, op->u.receive.given);
		op->u.receive.given = 0;
		op->u.receive.items = NULL;
		op->u.receive.n = 0;
	} else if (op->type == OP_SEND) {
		for (int i = 0; i < op->u.send.n; i++)
			op->u.send.items[i].code = code;
	} else if (op->type == OP_SETTLE) {
		for (int i = 0; i < op->u.settle.n; i++)
			op->u.settle.items[i].code = code;
	} else if (op->type == OP_TOKEN_ADD) {
		memset(op->u.token_add.secret, 0, sizeof(op->u.token_add.secret));
	}
	op->code = code;
	op->err = (struct dlq_err){0};
	err_set(&op->err, code, "%s", detail);
}

static void refuse_set(struct engine *e, enum dlq_code code, const char *detail)
{
	pthread_mutex_lock(&e->status_lock);
	snprintf(e->refuse_detail, sizeof(e->refuse_detail), "%.*s", (int)sizeof(e->refuse_detail) - 1, detail);
	pthread_mutex_unlock(&e->status_lock);
	atomic_store(&e->refuse, code);
}

/* The transaction is lost: every operation in it answers the code, nothing of it is remembered, durable work is
 * refused. */
void writer_fail(struct engine *e, struct batch *b, enum dlq_code code, const struct dlq_err *err)
{
	char detail[sizeof(err->detail)];
	snprintf(detail, sizeof(detail), "%s", err->detail[0] ? err->detail : code_title(code));
	if (b->tx)
		e->ops->rollback(e->store);
	b->tx = false;
	b->after = NULL;
	b->notices = false;
	for (struct engine_op *op = b->head; op; op = op->next)
		op_lost(op, code, detail);
	park_flush(e, b, NULL, code, detail);
	timers_reset(e);
	refuse_set(e, code, detail);
	bool heals = code == DLQ_STORE_FULL || code == DLQ_NO_MEMORY;
	e->probe_at = heals ? clock_now_ms(e->clock) + PROBE_MS : NEVER;
	log_event(LOG_ERROR, "store.commit_failed", "code=%s next=%s detail=\"%s\"", code_name(code),
	          heals ? "refusing_until_a_probe_succeeds" : "refusing_until_restart", detail);
}

static void probe(struct engine *e, int64_t now)
{
	struct dlq_err err = {0};
	if (now < e->probe_at)
		return;
	enum dlq_code c = e->ops->probe(e->store, &err);
	if (c == DLQ_OK) {
		log_event(LOG_INFO, "store.works_again", "was=%s", code_name((enum dlq_code)atomic_load(&e->refuse)));
		refuse_set(e, DLQ_OK, "");
		return;
	}
	bool heals = c == DLQ_STORE_FULL || c == DLQ_NO_MEMORY;
	if (!heals)
		log_event(LOG_ERROR, "store.failed", "code=%s next=refusing_until_restart detail=\"%s\"", code_name(c),
		          err.detail);
	if ((int)c != atomic_load(&e->refuse))
		refuse_set(e, c, err.detail);
	e->probe_at = heals ? clock_now_ms(e->clock) + PROBE_MS : NEVER;
}

/* The next operation that waits; it no longer counts against the limits. */
static struct engine_op *work_pop(struct engine *e)
{
	struct engine_op *op = e->work_head;
	e->work_head = op->next;
	if (!e->work_head)
		e->work_tail = NULL;
	op->next = NULL;
	atomic_fetch_sub_explicit(&e->waiting_ops, 1, memory_order_relaxed);
	atomic_fetch_sub_explicit(&e->waiting_bytes, op->cost, memory_order_relaxed);
	return op;
}

static void refuse_all(struct engine *e, struct batch *b)
{
	enum dlq_code code = (enum dlq_code)atomic_load(&e->refuse);
	char detail[sizeof(e->refuse_detail)];
	pthread_mutex_lock(&e->status_lock);
	memcpy(detail, e->refuse_detail, sizeof(detail));
	pthread_mutex_unlock(&e->status_lock);
	while (e->work_head) {
		struct engine_op *op = work_pop(e);
		op_lost(op, code, detail);
		batch_finish(b, op);
	}
}

/* ---- one turn ---- */

/* op may have come back already: it is looked into only when it is found here. */
static void cancel(struct engine *e, struct batch *b, const struct engine_op *op)
{
	struct engine_op *found = park_find(e, op);
	if (found) {
		unpark(e, equeue_find(e, found->queue), found);
		batch_finish(b, found);
		return;
	}
	for (found = e->work_head; found; found = found->next)
		if (found == op && found->type == OP_RECEIVE)
			found->u.receive.cancelled = true;
}

/*
 * Settles of what came together go first: the pages they free are used again by the sends of the same transaction, so less is
 * written (about a tenth of the time of a full cycle). Nobody can see the order: each came from a caller of its own that
 * waits for no other.
 */
static void work_add(struct engine *e, struct engine_op *taken)
{
	struct engine_op *rest = NULL, *rest_tail = NULL, *next;
	for (struct engine_op *op = taken; op; op = next) {
		next = op->next;
		if (op->type == OP_SETTLE)
			op_list_push(&e->work_head, &e->work_tail, op);
		else
			op_list_push(&rest, &rest_tail, op);
	}
	if (!rest)
		return;
	*(e->work_tail ? &e->work_tail->next : &e->work_head) = rest;
	e->work_tail = rest_tail;
}

static void intake(struct engine *e, struct batch *b)
{
	pthread_mutex_lock(&e->in_lock);
	struct engine_op *taken = e->in_head;
	e->in_head = e->in_tail = NULL;
	struct engine_op **cancels = e->cancels;
	int n = e->n_cancels;
	e->cancels = NULL;
	e->n_cancels = e->cap_cancels = 0;
	pthread_mutex_unlock(&e->in_lock);
	work_add(e, taken);
	if (e->deferred_head) { /* they came before what waits now */
		e->deferred_tail->next = e->work_head;
		if (!e->work_head)
			e->work_tail = e->deferred_tail;
		e->work_head = e->deferred_head;
		e->deferred_head = e->deferred_tail = NULL;
	}
	for (int i = 0; i < n; i++)
		cancel(e, b, cancels[i]);
	mem_free(cancels);
}

static void expire_parked(struct engine *e, struct batch *b)
{
	struct engine_op *op;
	while ((op = park_first(e)) && (op->u.receive.deadline <= b->now || e->draining)) {
		unpark(e, equeue_find(e, op->queue), op);
		op->code = DLQ_OK;
		batch_finish(b, op);
	}
}

static enum dlq_code apply_work(struct engine *e, struct batch *b, struct dlq_err *err)
{
	int64_t now_us = e->work_head ? clock_mono_us(e->clock) : 0;
	while (e->work_head && b->ops < e->o.batch_max && b->bytes < BATCH_BYTES_MAX && !b->after) {
		struct engine_op *op = work_pop(e);
		b->ops++;
		e->worked_us = now_us;
		b->bytes += op->cost;
		b->kept = false;
		enum dlq_code c = apply(e, b, op);
		if (b->kept)
			continue;
		op->code = c;
		batch_finish(b, op);
		arena_reset(&e->scratch);
		if (store_fatal(c)) {
			*err = op->err;
			return c;
		}
	}
	return DLQ_OK;
}

static enum dlq_code batch_commit(struct engine *e, struct batch *b, struct dlq_err *err)
{
	if (!b->tx)
		return DLQ_OK;
	int64_t t0 = clock_mono_us(e->clock);
	enum dlq_code c = e->ops->commit(e->store, err);
	b->tx = false;
	if (c)
		return c;
	int64_t us = clock_mono_us(e->clock) - t0;
	atomic_store(&e->last_commit_us, us);
	if (us > atomic_load(&e->max_commit_us))
		atomic_store(&e->max_commit_us, us);
	atomic_fetch_add(&e->commits, 1);
	atomic_fetch_add(&e->committed_ops, b->ops);
	e->commits_since_maintain++;
	return DLQ_OK;
}

static void maintain(struct engine *e)
{
	bool idle = !e->work_head && atomic_load(&e->waiting_ops) == 0;
	if (e->commits_since_maintain && (idle || e->commits_since_maintain >= MAINTAIN_COMMITS)) {
		e->commits_since_maintain = 0;
		e->ops->maintain(e->store);
	}
}

static bool changes_queues(const struct engine_op *op)
{
	return op->type == OP_QUEUE_PUT || op->type == OP_QUEUE_DELETE || op->type == OP_QUEUE_PAUSE ||
	       op->type == OP_APPLY_QUEUES;
}

static void after_commit(struct engine *e, struct batch *b)
{
	if (b->after)
		b->after(e, b->after_op);
	bool queues = b->after && changes_queues(b->after_op);
	if (!queues && !b->notices)
		return;
	pthread_mutex_lock(&e->clients_lock);
	if (queues && e->push)
		push_queues_changed(e->push);
	if (b->notices && e->notify)
		notify_wake(e->notify);
	pthread_mutex_unlock(&e->clients_lock);
}

bool writer_once(struct engine *e)
{
	struct batch b = {.now = clock_now_ms(e->clock), .wall = clock_wall_ms(e->clock)};
	struct dlq_err err = {0};
	intake(e, &b);
	expire_parked(e, &b);
	if (atomic_load(&e->refuse)) {
		probe(e, b.now);
		if (atomic_load(&e->refuse))
			refuse_all(e, &b);
	}
	if (!atomic_load(&e->refuse)) {
		enum dlq_code c = apply_work(e, &b, &err);
		if (!c)
			c = timers_run(e, &b, &err);
		if (!c)
			c = park_serve(e, &b, &err);
		if (!c)
			c = batch_commit(e, &b, &err);
		if (c)
			writer_fail(e, &b, c, &err);
		else
			after_commit(e, &b);
		if (!c)
			scan_plans_publish(e);
		arena_reset(&e->scratch);
	}
	expire_parked(e, &b);
	bool did = b.head || b.ops;
	if (b.head)
		ops_post(b.head);
	if (!atomic_load(&e->refuse)) {
		if (e->next_retention <= b.now) {
			archive_step(e, b.now);
			did = true;
		}
		maintain(e);
	}
	return did || (!atomic_load(&e->refuse) && writer_next_wake(e) <= b.now);
}

int64_t writer_next_wake(struct engine *e)
{
	int64_t at = NEVER;
	if (e->work_head || e->deferred_head)
		return 0;
	if (park_first(e))
		at = e->draining ? 0 : park_first(e)->u.receive.deadline;
	if (atomic_load(&e->refuse))
		return e->probe_at < at ? e->probe_at : at;
	int64_t t = timers_next(e);
	at = t < at ? t : at;
	for (const struct equeue *q = e->parked; q; q = q->park_next) {
		if (q->paused || q->room_wanted || port_full(q->park_head->port))
			continue; /* what ends this wakes the writer */
		t = queue_due_known(e, q) ? q->next_due : 0;
		at = t < at ? t : at;
	}
	return at;
}

/* ---- the thread ---- */

/* Under in_lock. */
static void sleep_until(struct engine *e, int64_t wake)
{
	int64_t ms = wake - clock_now_ms(e->clock);
	if (ms <= 0)
		return;
	e->sleeping = true;
	if (wake == NEVER) {
		pthread_cond_wait(&e->in_cond, &e->in_lock);
	} else {
		struct timespec ts;
		if (ms > 3600000)
			ms = 3600000;
		clock_gettime(CLOCK_MONOTONIC, &ts);
		ts.tv_sec += ms / 1000;
		ts.tv_nsec += ms % 1000 * 1000000;
		if (ts.tv_nsec >= 1000000000) {
			ts.tv_sec++;
			ts.tv_nsec -= 1000000000;
		}
		pthread_cond_timedwait(&e->in_cond, &e->in_lock, &ts);
	}
	e->sleeping = false;
}

void *writer_main(void *arg)
{
	struct engine *e = arg;
	for (;;) {
		int64_t wake = writer_next_wake(e);
		pthread_mutex_lock(&e->in_lock);
		bool nothing = !e->in_head && !e->n_cancels;
		if (nothing && e->stop && !e->work_head && !e->deferred_head && !e->n_heap) {
			pthread_mutex_unlock(&e->in_lock);
			return NULL;
		}
		if (nothing && !e->stop && !(e->draining && e->n_heap))
			sleep_until(e, wake);
		pthread_mutex_unlock(&e->in_lock);
		writer_once(e);
	}
}
