/* notify_calls.c - the receivers of notices, and the calls to them. Threads and locks: notify_int.h. */
#include <stdio.h>

#include "engine/notify_int.h"

#define SLOW_MS 2000      /* a receiver whose call takes longer must not hold the others' place in memory */
#define SLOW_KEEP 16      /* what it keeps waiting here */
#define POSTPONE_MS 30000 /* when the rest of it is due again */
#define SINK_BUSY_MS 10

static struct receiver *receiver_get(struct notify *n, struct str url)
{
	struct receiver **at = &n->receivers, *r;

	for (; (r = *at); at = &r->next)
		if (str_eq(r->url, url))
			return r;
	r = mem_alloc(sizeof(*r));
	r->url = (struct str){mem_strdup(url), url.n};
	r->waiting_tail = &r->waiting;
	*at = r;
	return r;
}

void receivers_sweep(struct notify *n)
{
	for (struct receiver **at = &n->receivers, *r; (r = *at);) {
		if (r->active || r->n_waiting) {
			at = &r->next;
			continue;
		}
		*at = r->next;
		mem_free((char *)r->url.p);
		mem_free(r);
	}
}

static void waiting_add(struct receiver *r, struct note *t)
{
	t->state = NOTE_WAITING;
	t->receiver = r;
	t->next = NULL;
	*r->waiting_tail = t;
	r->waiting_tail = &t->next;
	r->n_waiting++;
}

void receiver_add(struct notify *n, struct str url, struct note *t)
{
	waiting_add(receiver_get(n, url), t);
}

static struct note *waiting_take(struct receiver *r)
{
	struct note *t = r->waiting;

	r->waiting = t->next;
	if (!r->waiting)
		r->waiting_tail = &r->waiting;
	t->next = NULL;
	r->n_waiting--;
	return t;
}

static void waiting_put_back(struct receiver *r, struct note *t)
{
	t->state = NOTE_WAITING;
	t->receiver = r;
	t->next = r->waiting;
	if (!t->next)
		r->waiting_tail = &t->next;
	r->waiting = t;
	r->n_waiting++;
}

/* The sink's thread. */
static void on_call_done(struct sink_note *call)
{
	struct notify *n = call->user;
	struct note *t = (struct note *)((char *)call - offsetof(struct note, call));

	pthread_mutex_lock(&n->lock);
	t->back_next = n->back;
	n->back = t;
	pthread_mutex_unlock(&n->lock);
	mailbox_wake(&n->box);
}

static void receiver_leave(struct notify *n, struct note *t)
{
	struct receiver *r = t->receiver;

	for (int i = 0; i < r->active; i++)
		if (r->calls[i] == t) {
			r->calls[i] = r->calls[--r->active];
			break;
		}
	n->n_active--;
	t->receiver = NULL;
}

static void call_start(struct notify *n, struct receiver *r, struct engine_op **list)
{
	struct note *t = waiting_take(r);
	struct dlq_err err = {0};
	enum dlq_code code;

	t->state = NOTE_CALLING;
	t->started_at = clock_now_ms(n->clock);
	t->call = (struct sink_note){
	    .url = r->url, .id = str_of(t->id), .json = buf_str(&t->json), .done = on_call_done, .user = n};
	r->calls[r->active++] = t;
	n->n_active++;
	code = n->sink->ops->send(n->sink, &t->call, &err);
	if (!code)
		return;
	receiver_leave(n, t);
	if (code == DLQ_BUSY || code == DLQ_SHUTTING_DOWN) {
		/* A call that was told to be done has not left the sink yet, or others use it. */
		waiting_put_back(r, t);
		n->start_at = clock_now_ms(n->clock) + SINK_BUSY_MS;
	} else {
		note_postpone(n, t, err.detail, notify_backoff_ms(t->tries + 1), list);
	}
}

/* One call per receiver and round, so that a long line at one does not go before a short one. */
void receivers_call(struct notify *n, struct engine_op **list)
{
	bool started = !n->quiet && n->start_at <= clock_now_ms(n->clock);

	if (started)
		n->start_at = 0;
	while (started && n->n_active < NOTIFY_ACTIVE_MAX) {
		started = false;
		for (struct receiver *r = n->receivers; r && n->n_active < NOTIFY_ACTIVE_MAX && !n->start_at; r = r->next)
			if (r->n_waiting && r->active < NOTIFY_PER_URL_MAX) {
				call_start(n, r, list);
				started = true;
			}
	}
	/* The next turn begins with another receiver. */
	if (n->receivers && n->receivers->next) {
		struct receiver *first = n->receivers, *last = first;

		while (last->next)
			last = last->next;
		n->receivers = first->next;
		last->next = first;
		first->next = NULL;
	}
}

/*
 * More is due than fits into memory, and a slow receiver's line takes the room: the end of its line goes back to the
 * store, due a little later, so that what is due behind it is seen. Returns when to look again.
 */
int64_t receivers_postpone(struct notify *n, struct engine_op **list)
{
	int64_t now = clock_now_ms(n->clock), next = NEVER;

	if (n->quiet || n->claiming || n->n_notes <= NOTES_MAX / 2)
		return NEVER;
	if (n->claim_at > now)
		return n->claim_at;
	for (struct receiver *r = n->receivers; r; r = r->next) {
		int64_t oldest = NEVER;

		for (int i = 0; i < r->active; i++)
			if (r->calls[i]->started_at < oldest)
				oldest = r->calls[i]->started_at;
		if (oldest == NEVER || r->n_waiting <= SLOW_KEEP)
			continue;
		if (oldest + SLOW_MS > now) {
			next = oldest + SLOW_MS < next ? oldest + SLOW_MS : next;
			continue;
		}
		while (r->n_waiting > SLOW_KEEP)
			note_postpone(n, waiting_take(r), "its receiver is slow: postponed behind other receivers", POSTPONE_MS, list);
	}
	return next;
}

void receivers_take_back(struct notify *n, struct engine_op **list)
{
	struct note *back;

	pthread_mutex_lock(&n->lock);
	back = n->back;
	n->back = NULL;
	pthread_mutex_unlock(&n->lock);
	for (struct note *t = back, *next; t; t = next) {
		next = t->back_next;
		receiver_leave(n, t);
		t->ok = t->call.ok;
		snprintf(t->error, sizeof(t->error), "%s", t->call.error);
		if (t->ok)
			note_settle(n, t, list);
		else if (n->quiet)
			note_forget(n, t); /* ended by our own stop: no try, it is owed still */
		else
			note_call_failed(n, t, list);
	}
}

void receivers_forget_waiting(struct notify *n)
{
	for (struct receiver *r = n->receivers; r; r = r->next)
		while (r->n_waiting)
			note_forget(n, waiting_take(r));
}
