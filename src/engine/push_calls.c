/* push_calls.c - deliveries of the pusher, and the calls made for them. Threads and locks: push_int.h. */
#include <string.h>

#include "engine/push_int.h"

#define BUSY_RELEASE_MS 1000  /* the handler is full: when the message may come back */

/* ---- lists ---- */

static void called_add(struct pushed *q, struct delivery *d)
{
	d->next = NULL;
	d->prev = q->called_tail;
	if (d->prev)
		d->prev->next = d;
	else
		q->called = d;
	q->called_tail = d;
}

static void called_remove(struct pushed *q, struct delivery *d)
{
	if (d->prev)
		d->prev->next = d->next;
	else
		q->called = d->next;
	if (d->next)
		d->next->prev = d->prev;
	else
		q->called_tail = d->prev;
	d->next = d->prev = NULL;
}

void delivery_judged(struct pushed *q, struct delivery *d)
{
	d->next = d->prev = NULL;
	if (q->judged_tail)
		q->judged_tail->next = d;
	else
		q->judged = d;
	q->judged_tail = d;
}

struct delivery *delivery_next_judged(struct pushed *q)
{
	struct delivery *d = q->judged;

	if (!d)
		return NULL;
	q->judged = d->next;
	if (!q->judged)
		q->judged_tail = NULL;
	d->next = NULL;
	return d;
}

void delivery_free(struct delivery *d)
{
	if (d->extending) {
		d->over = true;
		return;
	}
	d->q->held--;
	queue_config_unref(d->config);
	arena_release(&d->arena);
	mem_free(d);
}

/* ---- calls ---- */

static struct str keep(struct delivery *d, struct str s, size_t max)
{
	return arena_str(&d->arena, (struct str){s.p, s.n < max ? s.n : max});
}

/* The handler's thread. */
static void on_call_done(struct handler_call *call)
{
	struct push *p = call->user;
	struct delivery *d = (struct delivery *)((char *)call - offsetof(struct delivery, call));

	d->outcome = call->outcome;
	d->retry_after_ms = call->retry_after_ms;
	d->failure = call->failure;
	d->failure.type = keep(d, call->failure.type, FAILURE_TYPE_MAX);
	d->failure.message = keep(d, call->failure.message, FAILURE_MESSAGE_MAX);
	d->failure.detail = keep(d, call->failure.detail, FAILURE_DETAIL_MAX);
	d->failure.fingerprint = keep(d, call->failure.fingerprint, FAILURE_TYPE_MAX);
	pthread_mutex_lock(&p->lock);
	d->back_next = NULL;
	if (p->back_tail)
		p->back_tail->back_next = d;
	else
		p->back = d;
	p->back_tail = d;
	pthread_mutex_unlock(&p->lock);
	mailbox_wake(&p->box);
}

static void message_copy(struct delivery *d, const struct engine_delivery *in)
{
	struct arena *a = &d->arena;

	d->d = in->d;
	d->d.id = arena_str(a, in->d.id);
	d->d.key = arena_str(a, in->d.key);
	d->d.content_type = arena_str(a, in->d.content_type);
	d->d.headers = arena_str(a, in->d.headers);
	d->d.body = arena_str(a, in->d.body);
	memcpy(d->receipt, in->receipt, sizeof(d->receipt));
}

/* A call that was never made: what the message gets for it. */
static void start_refused(struct push *p, struct delivery *d, enum dlq_code code, const struct dlq_err *err)
{
	struct pushed *q = d->q;

	d->failure = (struct failure){.exit_code = -1};
	if (code == DLQ_BAD_REQUEST) {
		d->outcome = OUTCOME_PERMANENT;
		d->failure.type = STR("InvalidHeader");
		d->failure.message = arena_str(&d->arena, str_of(err->detail));
	} else {
		d->outcome = OUTCOME_RELEASE;
		d->retry_after_ms = code == DLQ_SHUTTING_DOWN ? 0 : BUSY_RELEASE_MS;
		q->receive_at = clock_now_ms(p->clock) + push_backoff(&q->receive_delay);
	}
	delivery_judged(q, d);
}

void delivery_start(struct push *p, struct pushed *q, const struct engine_delivery *in)
{
	struct delivery *d = mem_alloc(sizeof(*d));
	struct dlq_err err = {0};
	enum dlq_code code = DLQ_SHUTTING_DOWN;

	d->q = q;
	q->held++;
	d->config = queue_config_ref(q->config);
	message_copy(d, in);
	d->extend_at = clock_now_ms(p->clock) + d->config->policy.visibility_timeout_ms / 2;
	d->call = (struct handler_call){
	    .url = d->config->push_url,
	    .queue = d->config->name,
	    .d = &d->d,
	    .timeout_ms = d->config->push_timeout_ms,
	    .done = on_call_done,
	    .user = p,
	};
	if (!p->quiet && !q->removed) {
		/* In the list first: its done may be queued before start returns. */
		called_add(q, d);
		q->in_calls++;
		code = p->handler->ops->start(p->handler, &d->call, &err);
		if (!code)
			return;
		called_remove(q, d);
		q->in_calls--;
	}
	start_refused(p, d, code, &err);
}

void deliveries_take_back(struct push *p)
{
	struct delivery *list;

	pthread_mutex_lock(&p->lock);
	list = p->back;
	p->back = p->back_tail = NULL;
	pthread_mutex_unlock(&p->lock);
	for (struct delivery *d = list, *next; d; d = next) {
		next = d->back_next;
		called_remove(d->q, d);
		d->q->in_calls--;
		delivery_judged(d->q, d);
	}
}
