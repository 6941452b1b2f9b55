/* engine.c - open, start, drain, close; how operations come in and go back. */
#include <sodium.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "engine/clients.h"
#include "engine/engine_int.h"

/* ---- operations ---- */

bool op_is_read(enum op_type t)
{
	return t >= OP_READ_QUEUES && !op_is_scan(t);
}

bool op_is_scan(enum op_type t)
{
	return t >= OP_SCAN_DEAD;
}

void op_list_push(struct engine_op **head, struct engine_op **tail, struct engine_op *op)
{
	op->next = NULL;
	if (*tail)
		(*tail)->next = op;
	else
		*head = op;
	*tail = op;
}

void ops_post(struct engine_op *list)
{
	while (list) {
		struct op_port *port = list->port;
		struct engine_op *mine = NULL, *mine_tail = NULL, *rest = NULL, *rest_tail = NULL, *next;
		for (struct engine_op *op = list; op; op = next) {
			next = op->next;
			if (op->port == port)
				op_list_push(&mine, &mine_tail, op);
			else
				op_list_push(&rest, &rest_tail, op);
		}
		list = rest;
		port->post(port, mine);
	}
}

static int64_t op_cost(const struct engine_op *op)
{
	int64_t n = sizeof(*op);
	switch (op->type) {
	case OP_SEND:
		for (int i = 0; i < op->u.send.n; i++) {
			const struct store_send *s = &op->u.send.items[i];
			n += (int64_t)(s->body.n + s->headers.n + s->id.n + s->key.n + s->content_type.n + sizeof(*s));
		}
		return n;
	case OP_SETTLE:
		for (int i = 0; i < op->u.settle.n; i++) {
			const struct failure *f = &op->u.settle.items[i].failure;
			n += (int64_t)(f->type.n + f->message.n + f->detail.n + f->fingerprint.n + sizeof(op->u.settle.items[i]));
		}
		return n;
	case OP_REDRIVE:
		return n + (op->u.redrive.body ? (int64_t)op->u.redrive.body->n : 0) + (int64_t)op->u.redrive.edit.program.n +
		       (int64_t)op->u.redrive.sel.where.n + op->u.redrive.sel.n_ids * (ULID_LEN + (int64_t)sizeof(struct str));
	case OP_REDRIVE_PICK:
		return n + op->u.redrive_pick.bytes + op->u.redrive_pick.n * (int64_t)sizeof(struct store_redrive_pick);
	case OP_IMPORT:
		for (int i = 0; i < op->u.import.n; i++)
			n += (int64_t)op->u.import.records[i].n;
		return n;
	default:
		return n;
	}
}

void engine_op_release(struct engine_op *op)
{
	if (op->type == OP_READ_QUEUE) {
		queue_config_unref(op->u.read_queue.config);
		op->u.read_queue.config = NULL;
	}
	arena_release(&op->arena);
}

static void refuse(struct engine *e, struct engine_op *op, bool closing, struct engine_op **head,
                   struct engine_op **tail)
{
	if (closing)
		op->code = err_set(&op->err, DLQ_SHUTTING_DOWN, "the server is shutting down; try again in a moment");
	else
		op->code = err_set(&op->err, DLQ_BUSY,
		                   "%lld operations with %lld bytes wait already (max_waiting_operations %d, "
		                   "max_waiting_bytes %lld); try again",
		                   (long long)atomic_load(&e->waiting_ops), (long long)atomic_load(&e->waiting_bytes),
		                   e->o.max_waiting_ops, (long long)e->o.max_waiting_bytes);
	op_list_push(head, tail, op);
}

/* list: writes, their cost not known yet. */
static void submit_writes(struct engine *e, struct engine_op *list)
{
	struct engine_op *refused = NULL, *refused_tail = NULL, *next;
	for (struct engine_op *op = list; op; op = op->next)
		op->cost = op_cost(op);
	pthread_mutex_lock(&e->in_lock);
	for (struct engine_op *op = list; op; op = next) {
		next = op->next;
		if (e->closing || atomic_load(&e->waiting_ops) >= e->o.max_waiting_ops ||
		    (atomic_load(&e->waiting_bytes) + op->cost > e->o.max_waiting_bytes &&
		     atomic_load(&e->waiting_ops) > 0)) {
			refuse(e, op, e->closing, &refused, &refused_tail);
			continue;
		}
		atomic_fetch_add(&e->waiting_ops, 1);
		atomic_fetch_add(&e->waiting_bytes, op->cost);
		op_list_push(&e->in_head, &e->in_tail, op);
	}
	if (e->sleeping && e->in_head)
		pthread_cond_signal(&e->in_cond);
	pthread_mutex_unlock(&e->in_lock);
	if (refused)
		ops_post(refused);
}

void writer_submit(struct engine *e, struct engine_op *op)
{
	op->next = NULL;
	submit_writes(e, op);
}

void engine_submit(struct engine *e, struct engine_op *list)
{
	struct engine_op *writes = NULL, *writes_tail = NULL, *next;
	for (struct engine_op *op = list; op; op = next) {
		next = op->next;
		op->next = NULL;
		op->code = DLQ_OK;
		op->err = (struct dlq_err){0};
		if (op->type == OP_READ_QUEUE)
			op->u.read_queue.config = NULL;
		if (op_is_read(op->type)) {
			readers_submit(e, op);
			continue;
		}
		if (op_is_scan(op->type) || scan_first(op)) {
			scan_submit(e, op);
			continue;
		}
		if (op->type == OP_RECEIVE)
			op->u.receive.cancelled = false, op->u.receive.given = 0;
		op_list_push(&writes, &writes_tail, op);
	}
	if (writes)
		submit_writes(e, writes);
}

static void kick(struct engine *e)
{
	pthread_mutex_lock(&e->in_lock);
	pthread_cond_signal(&e->in_cond);
	pthread_mutex_unlock(&e->in_lock);
}

/* The caller still owns op's memory: it has not taken it back from its port. */
void engine_cancel_receive(struct engine *e, struct engine_op *op)
{
	pthread_mutex_lock(&e->in_lock);
	if (e->n_cancels == e->cap_cancels) {
		e->cap_cancels = e->cap_cancels ? e->cap_cancels * 2 : 16;
		e->cancels = mem_grow(e->cancels, (size_t)e->cap_cancels, sizeof(*e->cancels));
	}
	e->cancels[e->n_cancels++] = op;
	pthread_cond_signal(&e->in_cond);
	pthread_mutex_unlock(&e->in_lock);
}

void engine_port_taken(struct engine *e, struct op_port *port, int64_t given)
{
	int64_t before = atomic_fetch_sub(&port->given, given);
	if (before >= port->given_max && before - given < port->given_max)
		engine_cancel_receive(e, NULL); /* cancels none, but the writer looks again */
}

/* ---- waiting for one operation ---- */

struct call_port {
	struct op_port port;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool done;
};

static void call_post(struct op_port *port, struct engine_op *list)
{
	struct call_port *p = (struct call_port *)port;
	ASSERT(!list->next);
	pthread_mutex_lock(&p->lock);
	p->done = true;
	pthread_cond_signal(&p->cond);
	pthread_mutex_unlock(&p->lock);
}

static void call_inline(struct engine *e, struct engine_op *op, struct call_port *p)
{
	if (e->o.single_step) {
		engine_step(e);
	} else { /* before engine_start: just what is asked, not the work of the timers that may be due by the thousand
		  */
		readers_once(e);
		scan_once(e);
		for (int turns = 0; !p->done && turns < 2; turns++)
			writer_once(e);
	}
	if (!p->done) { /* a long poll: nobody else could wake it */
		engine_cancel_receive(e, op);
		engine_step(e);
	}
	ASSERT(p->done);
}

void engine_call(struct engine *e, struct engine_op *op)
{
	struct call_port p = {.port.post = call_post};
	pthread_mutex_init(&p.lock, NULL);
	pthread_cond_init(&p.cond, NULL);
	op->port = &p.port;
	op->next = NULL;
	engine_submit(e, op);
	if (e->o.single_step || !e->started)
		call_inline(e, op, &p);
	pthread_mutex_lock(&p.lock);
	while (!p.done)
		pthread_cond_wait(&p.cond, &p.lock);
	pthread_mutex_unlock(&p.lock);
	pthread_cond_destroy(&p.cond);
	pthread_mutex_destroy(&p.lock);
}

int64_t engine_step(struct engine *e)
{
	bool did;
	do {
		did = writer_once(e);
		did = readers_once(e) || did;
		did = scan_once(e) || did;
	} while (did);
	int64_t at = writer_next_wake(e), plan = scan_next_wake(e);
	return plan < at ? plan : at;
}

/* ---- open and close ---- */

static void defaults(struct engine_options *o)
{
	o->max_waiting_ops = o->max_waiting_ops > 0 ? o->max_waiting_ops : 20000;
	o->max_waiting_bytes = o->max_waiting_bytes > 0 ? o->max_waiting_bytes : (int64_t)64 << 20;
	o->batch_max = o->batch_max > 0 ? o->batch_max : 1024;
	o->readers = o->readers > 0 ? o->readers : 2;
	o->expires_soon_ms = o->expires_soon_ms > 0 ? o->expires_soon_ms : (int64_t)3 * 86400000;
	o->max_waiting_receives = o->max_waiting_receives > 0 ? o->max_waiting_receives : 10000;
}

static void locks_init(struct engine *e)
{
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&e->in_cond, &attr);
	pthread_condattr_destroy(&attr);
	pthread_cond_init(&e->read_cond, NULL);
	pthread_mutex_init(&e->in_lock, NULL);
	pthread_mutex_init(&e->status_lock, NULL);
	pthread_mutex_init(&e->read_lock, NULL);
	pthread_mutex_init(&e->clients_lock, NULL);
	pthread_rwlock_init(&e->table_lock, NULL);
	pthread_rwlock_init(&e->token_lock, NULL);
}

static void engine_free(struct engine *e)
{
	scan_free(e);
	if (e->wreader)
		e->ops->reader_close(e->wreader);
	if (e->store)
		e->ops->close(e->store);
	queues_free(e);
	tokens_free(e);
	arena_release(&e->redrive_arena);
	mem_free(e->runs);
	arena_release(&e->scratch);
	pthread_cond_destroy(&e->in_cond);
	pthread_cond_destroy(&e->read_cond);
	pthread_mutex_destroy(&e->in_lock);
	pthread_mutex_destroy(&e->status_lock);
	pthread_mutex_destroy(&e->read_lock);
	pthread_mutex_destroy(&e->clients_lock);
	pthread_rwlock_destroy(&e->table_lock);
	pthread_rwlock_destroy(&e->token_lock);
	mem_free(e->heap);
	mem_free(e->cancels);
	mem_free(e->nonces);
	mem_free(e->claimed);
	mem_free(e->seqs);
	group_keys_free(e->group_keys);
	mem_free(e->on_dead_letter);
	mem_free(e->dir);
	mem_free(e);
}

static enum dlq_code open_store(struct engine *e, struct dlq_err *err)
{
	struct store_options so = {
	    .dir = e->dir, .clock = e->clock, .cache_bytes = e->o.cache_bytes, .no_sync = e->o.no_sync};
	e->ops = store_backend(e->o.store);
	if (!e->ops)
		return err_set(err, DLQ_INVALID_SETTING, "there is no store named %s; leave the setting out", e->o.store);
	enum dlq_code c = e->ops->open(&so, &e->store, err);
	if (c)
		return c;
	clock_floor(e->clock, e->ops->high_water_ms(e->store));
	c = queues_load(e, err);
	if (!c)
		c = tokens_load(e, err);
	if (!c)
		c = e->ops->reader_open(e->store, &e->wreader, err);
	return c;
}

enum dlq_code engine_open(const struct engine_options *o, struct engine **out, struct dlq_err *err)
{
	*out = NULL;
	if (sodium_init() < 0)
		return err_set(err, DLQ_SYSTEM, "libsodium finds no source of randomness");
	struct engine *e = mem_alloc(sizeof(*e));
	e->o = *o;
	defaults(&e->o);
	e->dir = mem_strdup(str_of(o->dir));
	e->clock = o->clock;
	e->due_gen = 1;
	e->probe_at = NEVER;
	e->redrives_reload = true;
	e->sweep_due = true;
	e->redrive_step = REDRIVE_STEP / 4;
	e->nonces = mem_array(RECEIVE_MAX, sizeof(*e->nonces));
	e->claimed = mem_array(RECEIVE_MAX, sizeof(*e->claimed));
	e->seqs = mem_array(REDRIVE_STEP, sizeof(*e->seqs));
	e->group_keys = group_keys_new();
	if (o->seed)
		rnd_seed(&e->rnd, o->seed);
	else
		rnd_system(&e->rnd);
	locks_init(e);
	scan_new(e);
	enum dlq_code c = open_store(e, err);
	if (c) {
		engine_free(e);
		return c;
	}
	*out = e;
	return DLQ_OK;
}

enum dlq_code engine_start(struct engine *e, struct dlq_err *err)
{
	ASSERT(!e->started);
	if (e->o.single_step)
		return DLQ_OK;
	enum dlq_code c = readers_start(e, err);
	if (!c)
		c = scan_start(e, err);
	if (c)
		return c;
	if (pthread_create(&e->writer, NULL, writer_main, e))
		return err_set(err, DLQ_SYSTEM,
		               "cannot start the writer thread; raise the limit of threads or processes");
	e->started = true;
	struct push *push = e->o.push ? push_start(e, e->o.push) : NULL;
	struct notify *notify = e->o.on_dead_letter ? notify_start(e, e->o.on_dead_letter) : NULL;
	pthread_mutex_lock(&e->clients_lock);
	e->push = push;
	e->notify = notify;
	pthread_mutex_unlock(&e->clients_lock);
	return DLQ_OK;
}

void engine_drain(struct engine *e, int64_t deadline_ms)
{
	atomic_store(&e->draining, true);
	kick(e);
	pthread_mutex_lock(&e->clients_lock);
	struct push *push = e->push;
	e->push = NULL;
	pthread_mutex_unlock(&e->clients_lock);
	if (push)
		push_stop(push, deadline_ms);
}

void engine_close(struct engine *e)
{
	if (!e)
		return;
	engine_drain(e, 0);
	pthread_mutex_lock(&e->clients_lock);
	struct notify *notify = e->notify;
	e->notify = NULL;
	pthread_mutex_unlock(&e->clients_lock);
	if (notify)
		notify_stop(notify);
	scan_stop(e);
	pthread_mutex_lock(&e->in_lock);
	e->closing = true; /* what is queued by now still happens */
	e->stop = true;
	pthread_cond_signal(&e->in_cond);
	pthread_mutex_unlock(&e->in_lock);
	if (e->started) {
		pthread_join(e->writer, NULL);
	} else {
		while (writer_once(e) && (e->work_head || e->in_head || e->deferred_head || e->n_heap))
			;
	}
	readers_stop(e);
	engine_free(e);
}

/* ---- status ---- */

void engine_status(struct engine *e, struct engine_status *out)
{
	*out = (struct engine_status){0};
	out->store_code = (enum dlq_code)atomic_load(&e->refuse);
	out->ready = !out->store_code && !atomic_load(&e->draining);
	pthread_mutex_lock(&e->status_lock);
	memcpy(out->store_detail, e->refuse_detail, sizeof(out->store_detail));
	pthread_mutex_unlock(&e->status_lock);
	out->waiting_ops = atomic_load(&e->waiting_ops);
	out->waiting_bytes = atomic_load(&e->waiting_bytes);
	out->parked_receives = atomic_load(&e->parked_count);
	out->commits = atomic_load(&e->commits);
	out->committed_ops = atomic_load(&e->committed_ops);
	out->last_commit_us = atomic_load(&e->last_commit_us);
	out->max_commit_us = atomic_load(&e->max_commit_us);
}

struct clock *engine_clock(struct engine *e)
{
	return e->clock;
}
