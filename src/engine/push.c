/*
 * push.c - the push thread: queues come and go, messages are received, outcomes settled.
 *
 * A delivery's life: in (receive came back) -> called (the handler has it) -> judged (its outcome waits) -> settling (in
 * an OP_SETTLE) -> freed. Threads and locks: push_int.h.
 */
#include <string.h>

#include "base/log.h"
#include "engine/push_int.h"

#define RECEIVE_WAIT_MS 30000
#define RECEIVE_BATCH_MAX 256
#define RECEIVE_BATCH_BYTES ((int64_t)4 << 20)
#define STOP_GRACE_MS 5000    /* for settles that the store refuses while we stop; then the leases run out */

int64_t push_backoff(int64_t *delay)
{
	*delay = *delay ? *delay * 2 : RETRY_FIRST_MS;
	if (*delay > RETRY_MAX_MS)
		*delay = RETRY_MAX_MS;
	return *delay;
}

/* ---- operations that came back ---- */

static void op_prepare(struct push *p, struct pushed *q, struct engine_op *op, enum op_type type, void *user)
{
	*op = (struct engine_op){.type = type, .port = &p->box.port, .user = user, .queue = str_of(q->name)};
}

static void receive_back(struct push *p, struct pushed *q)
{
	struct engine_op *op = &q->receive;
	int64_t now = clock_now_ms(p->clock);

	q->receiving = false;
	if (op->code == DLQ_OK && op->u.receive.n > 0)
		q->receive_delay = 0;
	else if (op->code != DLQ_OK || (!q->cancelled && now - q->received_at < RECEIVE_WAIT_MS / 2))
		q->receive_at = now + push_backoff(&q->receive_delay); /* refused, or empty without a wait (draining): no spinning */
	if (op->code == DLQ_OK)
		for (int i = 0; i < op->u.receive.n; i++)
			delivery_start(p, q, &op->u.receive.items[i]);
	q->cancelled = false;
	engine_op_release(op);
}

static void settle_back(struct push *p, struct pushed *q)
{
	struct engine_op *op = &q->settle;
	int n = op->u.settle.n;
	bool again = op->code != DLQ_OK && op->code != DLQ_NOT_FOUND && op->code != DLQ_SHUTTING_DOWN && op->code != DLQ_BAD_REQUEST;

	q->settling = false;
	if (op->code == DLQ_BAD_REQUEST)
		log_event(LOG_ERROR, "push.settle_refused", "queue=%s detail=\"%s\"", q->name, op->err.detail);
	if (again && p->quiet && p->give_up_at && clock_now_ms(p->clock) >= p->give_up_at)
		again = false;
	for (int i = 0; i < n; i++) {
		if (again)
			delivery_judged(q, q->settled[i]);
		else
			delivery_free(q->settled[i]); /* GONE among them: the lease was over, the message went its way */
	}
	if (again)
		q->settle_at = clock_now_ms(p->clock) + push_backoff(&q->settle_delay);
	else
		q->settle_delay = 0;
	engine_op_release(op);
}

static void extend_back(struct push *p, struct delivery *d)
{
	int64_t now = clock_now_ms(p->clock), vt = d->config->policy.visibility_timeout_ms;

	d->extending = false;
	if (d->over) {
		engine_op_release(&d->extend);
		delivery_free(d);
		return;
	}
	if (d->extend.code == DLQ_GONE || d->extend.code == DLQ_NOT_FOUND)
		d->extend_at = NEVER; /* the call goes on; its settle will be told so */
	else if (d->extend.code != DLQ_OK)
		d->extend_at = now + (vt / 16 > RETRY_FIRST_MS ? vt / 16 : RETRY_FIRST_MS);
	engine_op_release(&d->extend);
}

static void ops_take(struct push *p, struct engine_op *list)
{
	for (struct engine_op *op = list, *next; op; op = next) {
		next = op->next;
		if (op->type == OP_RECEIVE)
			receive_back(p, op->user);
		else if (op->type == OP_SETTLE)
			settle_back(p, op->user);
		else
			extend_back(p, op->user);
	}
}

/* ---- operations that go out ---- */

static void receive_out(struct push *p, struct pushed *q, int64_t now, struct engine_op **list)
{
	int room = q->config->concurrency - q->in_calls;
	struct engine_op *op = &q->receive;

	/* A store slower than the workers: first what they did is written down. */
	if (q->held - q->in_calls >= q->config->concurrency)
		room = 0;
	if (p->quiet || q->removed || q->receiving || room <= 0 || now < q->receive_at)
		return;
	op_prepare(p, q, op, OP_RECEIVE, q);
	op->u.receive.max = room < RECEIVE_BATCH_MAX ? room : RECEIVE_BATCH_MAX;
	op->u.receive.max_bytes = RECEIVE_BATCH_BYTES;
	op->u.receive.wait_ms = RECEIVE_WAIT_MS;
	op->u.receive.worker = STR("push");
	q->receiving = true;
	q->received_at = now;
	op->next = *list;
	*list = op;
}

static void settle_out(struct push *p, struct pushed *q, int64_t now, struct engine_op **list)
{
	struct engine_op *op = &q->settle;
	int n = 0;

	if (!q->judged || q->settling || now < q->settle_at)
		return;
	op_prepare(p, q, op, OP_SETTLE, q);
	while (q->judged && n < SETTLE_BATCH_MAX) {
		struct delivery *d = delivery_next_judged(q);

		q->settled[n] = d;
		q->items[n++] = (struct engine_settle_item){
		    .receipt = str_of(d->receipt),
		    .outcome = d->outcome,
		    .failure = d->failure,
		    .retry_after_ms = d->retry_after_ms,
		};
	}
	op->u.settle.items = q->items;
	op->u.settle.n = n;
	op->u.settle.worker = STR("push");
	q->settling = true;
	op->next = *list;
	*list = op;
}

static void extend_out(struct push *p, struct delivery *d, int64_t now, struct engine_op **list)
{
	struct pushed *q = d->q;
	int64_t vt = d->config->policy.visibility_timeout_ms;

	op_prepare(p, q, &d->extend, OP_EXTEND, d);
	d->extend.u.extend.receipt = str_of(d->receipt);
	d->extend.u.extend.visibility_timeout_ms = vt;
	d->extending = true;
	d->extend_at = now + vt / 2;
	d->extend.next = *list;
	*list = &d->extend;
}

/* Extends what is due; returns when the next one is. */
static int64_t extends_out(struct push *p, struct pushed *q, int64_t now, struct engine_op **list)
{
	int64_t next = NEVER;

	for (struct delivery *d = q->called; d; d = d->next) {
		if (d->extending)
			continue; /* its coming back wakes us */
		if (d->extend_at <= now)
			extend_out(p, d, now, list);
		else if (d->extend_at < next)
			next = d->extend_at;
	}
	return next;
}

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Everything that is due; returns the schedule time at which more is. */
static int64_t turn(struct push *p)
{
	struct engine_op *list = NULL;
	int64_t now = clock_now_ms(p->clock), next = NEVER;

	for (struct pushed *q = p->queues; q; q = q->next) {
		settle_out(p, q, now, &list);
		receive_out(p, q, now, &list);
		next = earlier(next, extends_out(p, q, now, &list));
		if (q->judged && !q->settling)
			next = earlier(next, q->settle_at);
		if (!p->quiet && !q->removed && !q->receiving && q->receive_at > now)
			next = earlier(next, q->receive_at);
	}
	if (list)
		engine_submit(p->engine, list);
	return next;
}

/* ---- queues come and go ---- */

static void receive_cancel(struct push *p, struct pushed *q)
{
	if (!q->receiving || q->cancelled)
		return;
	q->cancelled = true;
	engine_cancel_receive(p->engine, &q->receive);
}

static void queue_changed(struct push *p, struct pushed *q, struct queue_config *config)
{
	if (q->config != config) {
		queue_config_unref(q->config);
		q->config = queue_config_ref(config);
		if (q->receiving && q->receive.u.receive.max != config->concurrency - q->in_calls)
			receive_cancel(p, q); /* it was made for another concurrency */
	}
	q->removed = false;
	q->seen = true;
	q->receive_at = q->receive_delay = 0;
}

static void queue_add(struct push *p, struct queue_config *config)
{
	struct pushed *q;

	for (q = p->queues; q; q = q->next)
		if (str_eqz(config->name, q->name)) {
			queue_changed(p, q, config);
			return;
		}
	q = mem_alloc(sizeof(*q));
	ASSERT(config->name.n < sizeof(q->name));
	memcpy(q->name, config->name.p, config->name.n);
	q->config = queue_config_ref(config);
	q->seen = true;
	q->next = p->queues;
	p->queues = q;
}

static void queues_reload(struct push *p)
{
	struct queue_config **list;
	int n = engine_queue_snapshot(p->engine, &list);

	for (struct pushed *q = p->queues; q; q = q->next)
		q->seen = false;
	for (int i = 0; i < n; i++) {
		if (list[i]->push_url.n > 0)
			queue_add(p, list[i]);
		queue_config_unref(list[i]);
	}
	mem_free(list);
	for (struct pushed *q = p->queues; q; q = q->next)
		if (!q->seen) {
			q->removed = true;
			receive_cancel(p, q);
		}
}

/* Frees what was removed and is idle; with all set, what is idle at all. Returns whether queues are left. */
static bool queues_sweep(struct push *p, bool all)
{
	for (struct pushed **at = &p->queues, *q; (q = *at);) {
		if ((!q->removed && !all) || q->held || q->receiving || q->settling) {
			at = &q->next;
			continue;
		}
		*at = q->next;
		queue_config_unref(q->config);
		mem_free(q);
	}
	return p->queues != NULL;
}

/* ---- the thread ---- */

/* After STOP_GRACE_MS of refusals what is still judged is left to its lease. */
static void judged_drop(struct push *p)
{
	for (struct pushed *q = p->queues; q; q = q->next)
		while (q->judged)
			delivery_free(delivery_next_judged(q));
}

static void changes_take(struct push *p)
{
	bool changed;

	pthread_mutex_lock(&p->lock);
	changed = p->changed;
	p->changed = false;
	pthread_mutex_unlock(&p->lock);
	if (changed && !p->quiet)
		queues_reload(p);
}

/* Takes the orders of other threads. Returns false once it is time to leave. */
static bool orders_take(struct push *p)
{
	bool stopping, ending;
	int64_t now = clock_now_ms(p->clock);

	pthread_mutex_lock(&p->lock);
	stopping = p->stopping;
	ending = p->ending;
	pthread_mutex_unlock(&p->lock);
	if (stopping && !p->quiet) {
		p->quiet = true;
		for (struct pushed *q = p->queues; q; q = q->next)
			receive_cancel(p, q);
	}
	changes_take(p);
	if (ending && !p->give_up_at)
		p->give_up_at = now + STOP_GRACE_MS;
	if (ending && now >= p->give_up_at)
		judged_drop(p);
	return queues_sweep(p, ending) || !ending;
}

static void *push_main(void *arg)
{
	struct push *p = arg;
	int64_t next = 0;

	while (orders_take(p)) {
		next = turn(p);
		if (p->give_up_at)
			next = earlier(next, p->give_up_at);
		if (next != NEVER) {
			next -= clock_now_ms(p->clock);
			next = next < 0 ? 0 : next;
		}
		struct engine_op *ops = mailbox_wait(&p->box, next == NEVER ? -1 : next);
		changes_take(p); /* first: what was sent after a change goes where the change says */
		ops_take(p, ops);
		deliveries_take_back(p);
	}
	return NULL;
}

struct push *push_start(struct engine *e, struct handler *handler)
{
	struct push *p = mem_alloc(sizeof(*p));
	struct dlq_err err = {0};
	int rc = 0;

	p->engine = e;
	p->clock = engine_clock(e);
	p->handler = handler;
	p->changed = true;
	if (mailbox_init(&p->box, &err)) {
		log_event(LOG_ERROR, "push.not_started", "detail=\"%s\"", err.detail);
		mem_free(p);
		return NULL;
	}
	pthread_mutex_init(&p->lock, NULL);
	rc = pthread_create(&p->thread, NULL, push_main, p);
	if (rc) {
		log_event(LOG_ERROR, "push.not_started", "detail=\"no thread: %s\"", strerror(rc));
		pthread_mutex_destroy(&p->lock);
		mailbox_release(&p->box);
		mem_free(p);
		return NULL;
	}
	return p;
}

void push_queues_changed(struct push *p)
{
	pthread_mutex_lock(&p->lock);
	p->changed = true;
	pthread_mutex_unlock(&p->lock);
	mailbox_wake(&p->box);
}

void push_stop(struct push *p, int64_t deadline_ms)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->stopping = true;
	pthread_mutex_unlock(&p->lock);
	mailbox_wake(&p->box);
	p->handler->ops->stop(p->handler, deadline_ms); /* every done has returned then */
	pthread_mutex_lock(&p->lock);
	p->ending = true;
	pthread_mutex_unlock(&p->lock);
	mailbox_wake(&p->box);
	pthread_join(p->thread, NULL);
	pthread_mutex_destroy(&p->lock);
	mailbox_release(&p->box);
	mem_free(p);
}
