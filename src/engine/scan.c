/* scan.c - the scan thread: its queue, who is next, and the way of a redrive's next step to the writer. */
#include <string.h>
#include <time.h>

#include "engine/archive.h"
#include "engine/scan_int.h"

/* ---- what waits ---- */

static void answer(struct engine_op *op, enum dlq_code c)
{
	op->next = NULL;
	op->code = c;
	ops_post(op);
}

void scan_submit(struct engine *e, struct engine_op *op)
{
	struct scanner *s = e->scan;
	pthread_mutex_lock(&s->lock);
	bool stop = s->stop, busy = s->waiting >= SCAN_WAITING_MAX;
	if (!stop && !busy) {
		op_list_push(&s->head, &s->tail, op);
		s->waiting++;
		pthread_cond_signal(&s->cond);
	}
	pthread_mutex_unlock(&s->lock);
	if (stop)
		answer(op, err_set(&op->err, DLQ_SHUTTING_DOWN, "the server is shutting down; try again in a moment"));
	else if (busy)
		answer(op, err_set(&op->err, DLQ_BUSY, "%d searches, exports and previews wait already; try again", SCAN_WAITING_MAX));
}

static struct engine_op *pop(struct scanner *s)
{
	struct engine_op *op = s->head;
	if (op) {
		s->head = op->next;
		if (!s->head)
			s->tail = NULL;
		op->next = NULL;
		s->waiting--;
	}
	return op;
}

/* The writer has committed: these redrives still select. */
void scan_plans_publish(struct engine *e)
{
	struct scanner *s = e->scan;
	int n = 0;
	if (e->redrives_reload)
		return; /* what is known of them is old; the next batch reads them */
	pthread_mutex_lock(&s->lock);
	bool had = s->n_plans > 0;
	for (int i = 0; i < e->n_redrives; i++) {
		const struct store_redrive *r = &e->redrives[i];
		if (r->state != REDRIVE_RUNNING || guard_phase(r) != GUARD_SELECTING)
			continue;
		if (n == s->cap_plans) {
			s->cap_plans = s->cap_plans ? 2 * s->cap_plans : 16;
			s->plans = mem_grow(s->plans, (size_t)s->cap_plans, sizeof(*s->plans));
		}
		s->plans[n++] = r->n;
	}
	s->n_plans = n;
	if (n && !had)
		pthread_cond_signal(&s->cond);
	pthread_mutex_unlock(&s->lock);
}

/* ---- one operation ---- */

static enum dlq_code archive_read(struct engine *e, struct engine_op *op)
{
	if (op->type == OP_READ_ARCHIVED)
		return archive_find(e->dir, op->u.read_archived.id, &op->arena, &op->u.read_archived.record, &op->u.read_archived.queue, &op->err);
	op->u.read_archive.n = 0;
	if (op->u.read_archive.limit < 1 || op->u.read_archive.limit > 1000)
		return err_set(&op->err, DLQ_BAD_REQUEST, "limit is %d, it must be 1 to 1000", op->u.read_archive.limit);
	return archive_list(e->dir, op->queue, op->u.read_archive.from_day, op->u.read_archive.to_day, op->u.read_archive.id,
	                    op->u.read_archive.cursor, op->u.read_archive.limit, &op->arena, &op->u.read_archive.items, &op->u.read_archive.n,
	                    &op->u.read_archive.next, &op->err);
}

static void op_run(struct scanner *s, struct engine_op *op)
{
	enum dlq_code c;
	bool done = true;
	switch (op->type) {
	case OP_SCAN_DEAD:
		c = scan_dead(s, op);
		break;
	case OP_EXPORT:
		c = scan_export(s, op);
		break;
	case OP_PREVIEW:
		c = scan_preview(s, op);
		break;
	case OP_IMPORT_PARSE:
		c = scan_import(s, op);
		break;
	case OP_READ_ARCHIVE:
	case OP_READ_ARCHIVED:
		c = archive_read(s->e, op);
		break;
	case OP_REDRIVE:
		c = scan_redrive(s, op, &done);
		break;
	default:
		c = err_set(&op->err, DLQ_INTERNAL, "operation %d came to the scan thread", (int)op->type);
	}
	if (done)
		answer(op, c);
	else
		writer_submit(s->e, op);
}

/* ---- whose turn it is ---- */

/* Under lock. */
static bool plan_due(const struct scanner *s)
{
	return s->n_plans && !s->pick_busy && !s->stop && clock_now_ms(s->e->clock) >= s->plan_at;
}

/* One step of what waits; operations and plans take turns. False: there was nothing. */
static bool step(struct scanner *s)
{
	pthread_mutex_lock(&s->lock);
	bool plan = plan_due(s) && (s->plan_turn || !s->head);
	struct engine_op *op = plan ? NULL : pop(s);
	pthread_mutex_unlock(&s->lock);
	s->plan_turn = op != NULL;
	if (op)
		op_run(s, op);
	return op || (plan && plan_step(s));
}

/* Under lock. */
static void wait_for(struct scanner *s, int64_t ms)
{
	struct timespec ts;
	if (ms < 0) {
		pthread_cond_wait(&s->cond, &s->lock);
		return;
	}
	clock_gettime(CLOCK_MONOTONIC, &ts);
	ts.tv_sec += ms / 1000;
	ts.tv_nsec += ms % 1000 * 1000000;
	if (ts.tv_nsec >= 1000000000) {
		ts.tv_sec++;
		ts.tv_nsec -= 1000000000;
	}
	pthread_cond_timedwait(&s->cond, &s->lock, &ts);
}

static void *scan_main(void *p)
{
	struct scanner *s = p;
	for (;;) {
		bool kept = scan_jq_sweep(s, false);
		pthread_mutex_lock(&s->lock);
		while (s->stop && s->pick_busy)
			pthread_cond_wait(&s->cond, &s->lock);
		if (s->stop) {
			pthread_mutex_unlock(&s->lock);
			return NULL;
		}
		if (!s->head && !plan_due(s))
			wait_for(s, s->n_plans && !s->pick_busy ? 50 : kept ? SCAN_IDLE_US / 1000 : -1);
		pthread_mutex_unlock(&s->lock);
		step(s);
	}
}

int64_t scan_next_wake(struct engine *e)
{
	struct scanner *s = e->scan;
	pthread_mutex_lock(&s->lock);
	int64_t at = s->n_plans && !s->stop ? s->plan_at : NEVER;
	pthread_mutex_unlock(&s->lock);
	return at;
}

bool scan_once(struct engine *e)
{
	bool did = false;
	if (e->scan->started)
		return false;
	e->scan->r = e->wreader;
	while (step(e->scan))
		did = true;
	return did;
}

/* ---- open and close ---- */

static void pick_post(struct op_port *port, struct engine_op *list)
{
	struct scanner *s = ((struct pick_port *)port)->s;
	(void)list; /* there is one */
	pthread_mutex_lock(&s->lock);
	s->pick_busy = false;
	s->pick_back = true;
	pthread_cond_signal(&s->cond);
	pthread_mutex_unlock(&s->lock);
}

void scan_new(struct engine *e)
{
	struct scanner *s = mem_alloc(sizeof(*s));
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&s->cond, &attr);
	pthread_condattr_destroy(&attr);
	pthread_mutex_init(&s->lock, NULL);
	s->e = e;
	s->port = (struct pick_port){.port.post = pick_post, .s = s};
	e->scan = s;
}

enum dlq_code scan_start(struct engine *e, struct dlq_err *err)
{
	struct scanner *s = e->scan;
	struct store_reader *r = NULL;
	enum dlq_code c = e->ops->reader_open(e->store, &r, err);
	if (c)
		return c;
	s->r = r;
	s->own_reader = s->started = true;
	if (!pthread_create(&s->thread, NULL, scan_main, s))
		return DLQ_OK;
	s->own_reader = s->started = false;
	s->r = e->wreader;
	e->ops->reader_close(r);
	return err_set(err, DLQ_SYSTEM, "cannot start the scan thread; raise the limit of threads or processes");
}

/* What waits comes back with SHUTTING_DOWN; a step that runs is finished. The writer still runs. */
void scan_stop(struct engine *e)
{
	struct scanner *s = e->scan;
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	struct engine_op *list = s->head;
	s->head = s->tail = NULL;
	s->waiting = 0;
	pthread_cond_signal(&s->cond);
	pthread_mutex_unlock(&s->lock);
	for (struct engine_op *op = list, *next; op; op = next) {
		next = op->next;
		answer(op, err_set(&op->err, DLQ_SHUTTING_DOWN, "the server is shutting down; try again in a moment"));
	}
	if (s->started)
		pthread_join(s->thread, NULL);
	s->started = false;
	scan_jq_sweep(s, true);
	if (s->own_reader)
		e->ops->reader_close(s->r);
	s->own_reader = false;
	s->r = NULL;
}

void scan_free(struct engine *e)
{
	struct scanner *s = e->scan;
	if (!s)
		return;
	arena_release(&s->pick_arena);
	arena_release(&s->pick.arena);
	mem_free(s->plans);
	pthread_cond_destroy(&s->cond);
	pthread_mutex_destroy(&s->lock);
	mem_free(s);
	e->scan = NULL;
}
