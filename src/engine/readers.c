/* readers.c - the pool that answers reads: each thread has its own store_reader and never waits for the writer. */
#include <inttypes.h>
#include <string.h>

#include "core/audit_chain.h"
#include "engine/engine_int.h"

static enum dlq_code no_dead(struct str id, struct dlq_err *err)
{
	return err_set(err, DLQ_NOT_FOUND, "there is no dead letter %.*s (it may have been archived)",
	               (int)(id.n > 128 ? 128 : id.n), id.p);
}

enum dlq_code dead_by_id(struct store_reader *r, struct str id, struct arena *a, struct store_dead *out,
                         struct dlq_err *err)
{
	int64_t seq;
	enum dlq_code c = store_id_seq(id, &seq, err);
	if (!c)
		c = r->ops->read_dead(r, seq, a, out, err);
	if (c == DLQ_NOT_FOUND || (!c && !str_eqz(id, out->dlq_id)))
		return no_dead(id, err);
	return c;
}

/* By dlq_id, or else the newest dead letter of a message id. */
static enum dlq_code dead_by_any_id(struct store_reader *r, struct str id, struct arena *a, struct store_dead *out,
                                    struct dlq_err *err)
{
	enum dlq_code c = dead_by_id(r, id, a, out, err);
	if (c != DLQ_NOT_FOUND || message_id_check(id))
		return c;
	struct store_dead_filter f = {.state = -1, .reason = -1, .message_id = id, .limit = 1};
	struct store_dead_page page = {0};
	c = r->ops->read_dead_list(r, &f, a, &page, err);
	if (c)
		return c;
	if (!page.n)
		return no_dead(id, err);
	*out = page.items[0];
	*err = (struct dlq_err){0};
	return DLQ_OK;
}

/* ---- the reads ---- */

static enum dlq_code limit_check(int limit, struct dlq_err *err)
{
	if (limit < 1 || limit > 1000)
		return err_set(err, DLQ_BAD_REQUEST, "limit is %d, it must be 1 to 1000", limit);
	return DLQ_OK;
}

static enum dlq_code read_queues(struct store_reader *r, struct engine_op *op)
{
	int limit = op->u.read_queues.limit;
	enum dlq_code c = limit_check(limit, &op->err);
	if (!c)
		c = r->ops->read_queues(r, op->u.read_queues.after, limit, &op->arena, &op->u.read_queues.items,
		                        &op->u.read_queues.n, &op->err);
	op->u.read_queues.more = !c && op->u.read_queues.n == limit;
	return c;
}

static enum dlq_code read_queue(struct engine *e, struct store_reader *r, struct engine_op *op)
{
	enum dlq_code c = r->ops->read_queue(r, op->queue, &op->arena, &op->u.read_queue.out, &op->err);
	op->u.read_queue.config = NULL;
	pthread_rwlock_rdlock(&e->table_lock);
	struct equeue *q = equeue_find(e, op->queue);
	if (q && !c)
		op->u.read_queue.config = queue_config_ref(q->config);
	else
		equeue_need(e, op);
	pthread_rwlock_unlock(&e->table_lock);
	return c ? c : q ? DLQ_OK : DLQ_NOT_FOUND;
}

static enum dlq_code read_dead_list(struct engine *e, struct store_reader *r, struct engine_op *op)
{
	struct store_dead_filter *f = &op->u.read_dead_list.filter;
	enum dlq_code c = limit_check(f->limit, &op->err);
	if (c)
		return c;
	if (op->queue.n) {
		pthread_rwlock_rdlock(&e->table_lock);
		struct equeue *q = equeue_need(e, op);
		f->queue_id = q ? q->queue_id : 0;
		pthread_rwlock_unlock(&e->table_lock);
		if (!q)
			return DLQ_NOT_FOUND;
	}
	if (f->key.n && !f->queue_id)
		return err_set(&op->err, DLQ_BAD_REQUEST, "key is looked up within one queue; give queue as well");
	return r->ops->read_dead_list(r, f, &op->arena, &op->u.read_dead_list.page, &op->err);
}

#define EXPIRING_MAX 100000

static enum dlq_code read_expiring(struct engine *e, struct store_reader *r, struct engine_op *op)
{
	int64_t queue_id = 0, within = op->u.read_expiring.within_ms;
	if (within < 0 || within > TIME_SPAN_MAX_MS)
		return err_set(&op->err, DLQ_BAD_REQUEST, "the time to look ahead is %" PRId64 " ms, it must be 0 to 10 years", within);
	if (op->queue.n) {
		pthread_rwlock_rdlock(&e->table_lock);
		struct equeue *q = equeue_need(e, op);
		queue_id = q ? q->queue_id : 0;
		pthread_rwlock_unlock(&e->table_lock);
		if (!q)
			return DLQ_NOT_FOUND;
	}
	return r->ops->read_expiring(r, queue_id, clock_now_ms(e->clock) + within, EXPIRING_MAX, &op->u.read_expiring.n, &op->err);
}

#define HISTORY_MAX 1000

static enum dlq_code read_dead(struct store_reader *r, struct engine_op *op)
{
	struct store_dead *d = &op->u.read_dead.out;
	enum dlq_code c;
	if (op->u.read_dead.id.n)
		c = dead_by_any_id(r, op->u.read_dead.id, &op->arena, d, &op->err);
	else
		c = r->ops->read_dead(r, op->u.read_dead.seq, &op->arena, d, &op->err);
	if (!c)
		c = r->ops->read_attempts(r, d->seq, HISTORY_MAX, &op->arena, &op->u.read_dead.attempts,
		                          &op->u.read_dead.n_attempts, &op->err);
	return c;
}

static enum dlq_code read_body(struct store_reader *r, struct engine_op *op)
{
	struct store_dead d;
	enum dlq_code c = dead_by_any_id(r, op->u.read_body.id, &op->arena, &d, &op->err);
	if (!c)
		c = r->ops->read_body(r, d.seq, op->u.read_body.original, &op->arena, &op->u.read_body.body,
		                      &op->u.read_body.content_type, &op->err);
	return c;
}

enum dlq_code redrive_by_id(struct store_reader *r, struct str id, struct arena *a, struct store_redrive *out,
                            struct dlq_err *err)
{
	int64_t n;
	enum dlq_code c = store_id_seq(id, &n, err);
	if (!c)
		c = r->ops->read_redrive(r, n, a, out, err);
	if (c == DLQ_NOT_FOUND || (!c && !str_eqz(id, out->redrive_id)))
		return err_set(err, DLQ_NOT_FOUND, "there is no redrive %.*s", (int)(id.n > 64 ? 64 : id.n), id.p);
	return c;
}

static enum dlq_code read_redrive(struct store_reader *r, struct engine_op *op)
{
	return redrive_by_id(r, op->u.read_redrive.id, &op->arena, &op->u.read_redrive.out, &op->err);
}

/* The ledger, page by page. */
static enum dlq_code read_redrive_items(struct store_reader *r, struct engine_op *op)
{
	struct store_redrive job;
	enum dlq_code c = limit_check(op->u.read_redrive_items.limit, &op->err);
	if (!c)
		c = redrive_by_id(r, op->u.read_redrive_items.id, &op->arena, &job, &op->err);
	if (!c)
		c = r->ops->read_redrive_items(r, job.n, op->u.read_redrive_items.after_ord, op->u.read_redrive_items.limit,
		                               &op->arena, &op->u.read_redrive_items.items, &op->u.read_redrive_items.n,
		                               &op->u.read_redrive_items.next_ord, &op->err);
	return c;
}

/* ---- the audit chain ---- */

#define VERIFY_PAGE 500
#define VERIFY_PAGES 20 /* rows of one operation: the caller comes again with what it got back */

/* One page. False: nothing is left, or a row does not fit. */
static bool verify_page(struct engine_op *op, const struct store_audit *rows, int n)
{
	for (int i = 0; i < n; i++) {
		const struct store_audit *a = &rows[i];
		const struct audit_link link = {a->n,      a->at_ms,  a->operator, a->action, a->queue,
		                                a->target, a->reason, a->outcome,  a->detail};
		audit_chain_next(op->u.audit_verify.hash, &link, op->u.audit_verify.hash);
		op->u.audit_verify.rows++;
		op->u.audit_verify.after_n = a->n;
		if (memcmp(op->u.audit_verify.hash, a->hash, sizeof(a->hash))) {
			op->u.audit_verify.broken_n = a->n;
			return false;
		}
	}
	return n == VERIFY_PAGE;
}

/* after_n 0 starts at the first row with the link before it, all zero; else it goes on from after_n and hash. */
static enum dlq_code audit_verify(struct store_reader *r, struct engine_op *op)
{
	enum dlq_code c = DLQ_OK;
	bool more = true;
	if (op->u.audit_verify.after_n < 0)
		return err_set(&op->err, DLQ_BAD_REQUEST, "the row to go on from is negative");
	if (!op->u.audit_verify.after_n)
		memset(op->u.audit_verify.hash, 0, sizeof(op->u.audit_verify.hash));
	op->u.audit_verify.rows = op->u.audit_verify.broken_n = 0;
	for (int page = 0; page < VERIFY_PAGES && more && !c; page++) {
		struct arena a = {0};
		struct store_audit *rows = NULL;
		int n = 0;
		c = r->ops->read_audit_after(r, op->u.audit_verify.after_n, VERIFY_PAGE, &a, &rows, &n, &op->err);
		more = !c && verify_page(op, rows, n);
		arena_release(&a);
	}
	op->u.audit_verify.more = more;
	return c;
}

static enum dlq_code read_one(struct engine *e, struct store_reader *r, struct engine_op *op)
{
	enum dlq_code c;
	switch (op->type) {
	case OP_READ_QUEUES:
		return read_queues(r, op);
	case OP_READ_QUEUE:
		return read_queue(e, r, op);
	case OP_READ_DEAD_LIST:
		return read_dead_list(e, r, op);
	case OP_READ_DEAD:
		return read_dead(r, op);
	case OP_READ_BODY:
		return read_body(r, op);
	case OP_READ_REDRIVE:
		return read_redrive(r, op);
	case OP_READ_REDRIVE_ITEMS:
		return read_redrive_items(r, op);
	case OP_AUDIT_VERIFY:
		return audit_verify(r, op);
	case OP_READ_GROUPS:
		return read_groups(e, r, op);
	case OP_READ_EXPIRING:
		return read_expiring(e, r, op);
	case OP_READ_GROUP:
		return read_group(e, r, op);
	case OP_READ_REDRIVES:
		c = limit_check(op->u.read_redrives.limit, &op->err);
		return c ? c
		         : r->ops->read_redrives(r, op->u.read_redrives.before_n, op->u.read_redrives.limit, &op->arena,
		                                 &op->u.read_redrives.items, &op->u.read_redrives.n, &op->err);
	case OP_READ_AUDIT:
		c = limit_check(op->u.read_audit.limit, &op->err);
		return c ? c
		         : r->ops->read_audit(r, op->u.read_audit.before_n, op->u.read_audit.limit, &op->arena,
		                              &op->u.read_audit.items, &op->u.read_audit.n, &op->err);
	default:
		return err_set(&op->err, DLQ_INTERNAL, "operation %d came to a reader", (int)op->type);
	}
}

/* ---- the pool ---- */

static struct engine_op *read_pop(struct engine *e)
{
	struct engine_op *op = e->read_head;
	if (op) {
		e->read_head = op->next;
		if (!e->read_head)
			e->read_tail = NULL;
		op->next = NULL;
		e->read_waiting--;
	}
	return op;
}

struct reader_arg {
	struct engine *e;
	struct store_reader *r;
};

static void *reader_main(void *p)
{
	struct reader_arg arg = *(struct reader_arg *)p;
	struct engine *e = arg.e;
	mem_free(p);
	for (;;) {
		pthread_mutex_lock(&e->read_lock);
		while (!e->read_head && !e->read_stop)
			pthread_cond_wait(&e->read_cond, &e->read_lock);
		struct engine_op *op = read_pop(e);
		pthread_mutex_unlock(&e->read_lock);
		if (!op)
			break;
		op->code = read_one(e, arg.r, op);
		ops_post(op);
	}
	e->ops->reader_close(arg.r);
	return NULL;
}

enum dlq_code readers_start(struct engine *e, struct dlq_err *err)
{
	e->reader_threads = mem_array((size_t)e->o.readers, sizeof(*e->reader_threads));
	for (int i = 0; i < e->o.readers; i++) {
		struct reader_arg *arg = mem_alloc(sizeof(*arg));
		arg->e = e;
		enum dlq_code c = e->ops->reader_open(e->store, &arg->r, err);
		if (c) {
			mem_free(arg);
			return c;
		}
		if (pthread_create(&e->reader_threads[i], NULL, reader_main, arg)) {
			e->ops->reader_close(arg->r);
			mem_free(arg);
			return err_set(err, DLQ_SYSTEM,
			               "cannot start a reader thread; raise the limit of threads or processes");
		}
		e->n_readers++;
	}
	return DLQ_OK;
}

void readers_submit(struct engine *e, struct engine_op *op)
{
	pthread_mutex_lock(&e->read_lock);
	bool busy = e->read_waiting >= e->o.max_waiting_ops, stop = e->read_stop;
	if (!busy && !stop) {
		op_list_push(&e->read_head, &e->read_tail, op);
		e->read_waiting++;
		pthread_cond_signal(&e->read_cond);
	}
	pthread_mutex_unlock(&e->read_lock);
	if (!busy && !stop)
		return;
	op->code = stop ? err_set(&op->err, DLQ_SHUTTING_DOWN, "the server is shutting down")
	                : err_set(&op->err, DLQ_BUSY, "%d reads wait already; try again", e->o.max_waiting_ops);
	ops_post(op);
}

bool readers_once(struct engine *e)
{
	bool did = false;
	for (;;) {
		pthread_mutex_lock(&e->read_lock);
		struct engine_op *op = read_pop(e);
		pthread_mutex_unlock(&e->read_lock);
		if (!op)
			return did;
		op->code = read_one(e, e->wreader, op);
		ops_post(op);
		did = true;
	}
}

void readers_stop(struct engine *e)
{
	pthread_mutex_lock(&e->read_lock);
	e->read_stop = true;
	pthread_cond_broadcast(&e->read_cond);
	pthread_mutex_unlock(&e->read_lock);
	for (int i = 0; i < e->n_readers; i++)
		pthread_join(e->reader_threads[i], NULL);
	mem_free(e->reader_threads);
	e->n_readers = 0;
	if (e->wreader)
		readers_once(e);
}
