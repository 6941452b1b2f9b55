/*
 * notify.c - the thread that tells receivers about dead letters.
 *
 * A notice's way: claimed (it is due in the store) -> reading (its dead letter) -> waiting (at its receiver, for a free
 * call) -> calling (the sink has it) -> settling (told, or due again later) -> forgotten. The store alone knows what is
 * owed; a struct note may be dropped at any time. A claim does not mark anything in the store, so it shows notices again
 * that are here already: by_n finds them.
 *
 * A struct note belongs to the sink's thread between sink send and its done, which only queues it and wakes; everything
 * else belongs to the notify thread. LOCKS: n->lock, the mailbox's lock and the engine's table_lock are leaves.
 */
#include "engine/notify.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "engine/engine_int.h"
#include "engine/mailbox.h"

#define NOTES_MAX 512            /* notices in memory; a claim is made below half of it */
#define CLAIM_STEP 256
#define BUCKETS 1024
#define SLOW_MS 2000             /* a receiver whose call takes longer must not hold the others' place in memory */
#define SLOW_KEEP 16             /* what it keeps waiting here */
#define POSTPONE_MS 30000        /* when the rest of it is due again */
#define REFUSED_FIRST_MS 100     /* the engine refused an operation; doubled up to the next */
#define REFUSED_MAX_MS 5000
#define SINK_BUSY_MS 10
#define STOP_CALLS_MS 2000
#define WARN_EVERY_MS 60000

enum note_state { NOTE_READING, NOTE_WAITING, NOTE_CALLING, NOTE_SETTLING, NOTE_UNSETTLED };

struct note {
	struct note *next;          /* in receiver.waiting, or in notify.unsettled */
	struct note *back_next;     /* in notify.back */
	struct note *hash_next;
	enum note_state state;
	int64_t n, seq, died_no;
	int tries;                  /* failed before */
	struct receiver *receiver;  /* from waiting to the end of calling */
	struct buf json;
	char id[64], dlq_id[ULID_LEN + 1];
	struct str queue;           /* owned */
	int64_t died_at_ms;
	int64_t started_at;         /* schedule time */
	struct sink_note call;
	struct engine_op op;        /* read, then settle */
	/* what is settled */
	bool ok, give_up;
	int64_t delay_ms;
	char error[200];
};

struct receiver {
	struct receiver *next;
	struct str url;             /* owned */
	struct note *waiting, **waiting_tail;
	int n_waiting, active;
	struct note *calls[NOTIFY_PER_URL_MAX];
};

struct audit_op {
	struct engine_op op; /* first */
	struct arena arena;
};

struct notify {
	struct mailbox box; /* first */
	struct engine *engine;
	struct clock *clock;
	struct sink *sink;
	pthread_t thread;

	pthread_mutex_t lock;
	struct note *back;          /* the sink is done with them */
	bool look;                  /* a notice was committed */
	bool stopping;              /* no new claims and calls */
	bool ending;                /* the sink has stopped */

	/* the notify thread's */
	bool quiet;                 /* its copy of stopping */
	struct note *by_n[BUCKETS];
	int n_notes, n_active, n_ops;
	struct receiver *receivers;
	struct note *unsettled;     /* the engine refused the settle */
	struct engine_op claim;
	bool claiming, look_again;
	int64_t claim_at;           /* schedule time at which a notice is due that is not here; a lower bound */
	int64_t start_at;           /* the sink was busy: no calls before; 0: now */
	int64_t refused_delay, resettle_at;
	int64_t warned_at;
};

/* ---- notices in memory ---- */

static struct note **note_slot(struct notify *n, int64_t no)
{
	struct note **at = &n->by_n[(uint64_t)no % BUCKETS];

	while (*at && (*at)->n != no)
		at = &(*at)->hash_next;
	return at;
}

static void note_forget(struct notify *n, struct note *t)
{
	*note_slot(n, t->n) = t->hash_next;
	n->n_notes--;
	buf_release(&t->json);
	mem_free((char *)t->queue.p);
	mem_free(t);
}

static struct note *note_new(struct notify *n, const struct store_notice *in)
{
	struct note **at = note_slot(n, in->n), *t;

	if (*at)
		return NULL;
	t = mem_alloc(sizeof(*t));
	t->n = in->n;
	t->seq = in->seq;
	t->died_no = in->died_no;
	t->tries = in->tries;
	*at = t;
	n->n_notes++;
	return t;
}

static void op_prepare(struct notify *n, struct engine_op *op, enum op_type type, void *user, struct engine_op **list)
{
	*op = (struct engine_op){.type = type, .port = &n->box.port, .user = user, .next = *list};
	*list = op;
	n->n_ops++;
}

static int64_t refused_backoff(struct notify *n)
{
	n->refused_delay = n->refused_delay ? n->refused_delay * 2 : REFUSED_FIRST_MS;
	if (n->refused_delay > REFUSED_MAX_MS)
		n->refused_delay = REFUSED_MAX_MS;
	return n->refused_delay;
}

/* ---- settling ---- */

static void note_settle(struct notify *n, struct note *t, struct engine_op **list)
{
	t->state = NOTE_SETTLING;
	op_prepare(n, &t->op, OP_NOTICE_SETTLE, t, list);
	t->op.u.notice_settle.n = t->n;
	t->op.u.notice_settle.ok = t->ok;
	t->op.u.notice_settle.give_up = t->give_up;
	t->op.u.notice_settle.delay_ms = t->delay_ms;
	t->op.u.notice_settle.error = str_of(t->error);
}

static void note_done(struct notify *n, struct note *t, struct engine_op **list)
{
	t->ok = true;
	note_settle(n, t, list);
}

static void note_postpone(struct notify *n, struct note *t, const char *why, int64_t ms, struct engine_op **list)
{
	t->ok = false;
	t->delay_ms = ms;
	snprintf(t->error, sizeof(t->error), "%.*s", (int)sizeof(t->error) - 1, why);
	note_settle(n, t, list);
}

static void give_up(struct notify *n, struct note *t, struct engine_op **list)
{
	struct audit_op *a = mem_alloc(sizeof(*a));

	t->give_up = true;
	log_event(LOG_WARN, "notice.given_up", "queue=" STR_FMT " dlq_id=%s tries=%d error=%s", STR_ARG(t->queue), t->dlq_id,
	          t->tries + 1, LOG_Q(t->error));
	op_prepare(n, &a->op, OP_AUDIT, a, list);
	a->op.u.audit.row = (struct store_audit){
	    .operator = STR("dlq"),
	    .action = STR("notice.give_up"),
	    .queue = arena_str(&a->arena, t->queue),
	    .target = arena_fmt(&a->arena, "%s", t->dlq_id),
	    .reason = arena_fmt(&a->arena, "on_dead_letter was not told after %d calls in 24h", t->tries + 1),
	    .outcome = str_of(code_name(DLQ_UNREACHABLE)),
	    .detail = arena_fmt(&a->arena, "%s", t->error),
	};
}

static void call_failed(struct notify *n, struct note *t, struct engine_op **list)
{
	int64_t now = clock_now_ms(n->clock);

	t->delay_ms = notify_backoff_ms(t->tries + 1);
	if (t->call.retry_after_ms > t->delay_ms)
		t->delay_ms = t->call.retry_after_ms;
	if (t->tries + 1 >= NOTIFY_TRIES_MIN && clock_wall_ms(n->clock) - t->died_at_ms >= NOTIFY_GIVE_UP_MS) {
		give_up(n, t, list);
	} else if (!n->warned_at || now - n->warned_at >= WARN_EVERY_MS) {
		n->warned_at = now;
		log_event(LOG_WARN, "notice.failed", "queue=" STR_FMT " dlq_id=%s try=%d error=%s", STR_ARG(t->queue), t->dlq_id,
		          t->tries + 1, LOG_Q(t->error));
	}
	note_settle(n, t, list);
}

/* ---- receivers ---- */

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

static void receivers_sweep(struct notify *n)
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
static void calls_start(struct notify *n, struct engine_op **list)
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
static int64_t slow_postpone(struct notify *n, struct engine_op **list)
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

/* ---- operations that came back ---- */

static void claim_back(struct notify *n, struct engine_op **list)
{
	struct engine_op *op = &n->claim;
	int64_t now = clock_now_ms(n->clock);

	n->claiming = false;
	if (op->code) {
		n->claim_at = now + refused_backoff(n);
		goto out;
	}
	n->refused_delay = 0;
	n->claim_at = op->u.notice_claim.next; /* of a full claim: it is due now */
	if (n->look_again)
		n->claim_at = now;
	for (int i = 0; i < op->u.notice_claim.n && !n->quiet; i++) {
		struct note *t = note_new(n, &op->u.notice_claim.items[i]);

		if (!t)
			continue;
		t->state = NOTE_READING;
		op_prepare(n, &t->op, OP_READ_DEAD, t, list);
		t->op.u.read_dead.seq = t->seq;
	}
out:
	n->look_again = false;
	engine_op_release(op);
}

/* The URL that the queue has now; false: it has none, or is gone. The caller mem_frees *url. */
static bool url_now(struct notify *n, struct str queue, struct str *url)
{
	struct equeue *q;

	*url = (struct str){0};
	pthread_rwlock_rdlock(&n->engine->table_lock);
	q = equeue_find(n->engine, queue);
	if (q && q->config->on_dead_letter.n)
		*url = (struct str){mem_strdup(q->config->on_dead_letter), q->config->on_dead_letter.n};
	pthread_rwlock_unlock(&n->engine->table_lock);
	return url->n > 0;
}

static void read_back(struct notify *n, struct note *t, struct engine_op **list)
{
	const struct store_dead *d = &t->op.u.read_dead.out;
	enum dlq_code code = t->op.code;
	struct str url;

	if (n->quiet || (code && code != DLQ_NOT_FOUND)) {
		/* It is owed still; a later claim shows it again. */
		if (!n->quiet)
			n->claim_at = clock_now_ms(n->clock) + refused_backoff(n);
		engine_op_release(&t->op);
		note_forget(n, t);
		return;
	}
	if (code == DLQ_NOT_FOUND || d->died_no != t->died_no || !url_now(n, d->queue, &url)) {
		engine_op_release(&t->op);
		note_done(n, t, list);
		return;
	}
	memcpy(t->dlq_id, d->dlq_id, sizeof(t->dlq_id));
	snprintf(t->id, sizeof(t->id), "%s-%" PRId64, d->dlq_id, d->died_no);
	t->queue = (struct str){mem_strdup(d->queue), d->queue.n};
	t->died_at_ms = d->died_at_ms;
	notify_document(d, t->id, &t->json);
	waiting_add(receiver_get(n, url), t);
	mem_free((char *)url.p);
	engine_op_release(&t->op);
}

static void settle_back(struct notify *n, struct note *t)
{
	enum dlq_code code = t->op.code;

	engine_op_release(&t->op);
	if (code && !n->quiet) {
		t->state = NOTE_UNSETTLED;
		t->next = n->unsettled;
		n->unsettled = t;
		n->resettle_at = clock_now_ms(n->clock) + refused_backoff(n);
		return;
	}
	if (!t->ok && !t->give_up) {
		int64_t due = clock_now_ms(n->clock) + t->delay_ms;

		if (n->claiming)
			n->look_again = true; /* the claim under way may not have seen when it is due */
		else if (due < n->claim_at)
			n->claim_at = due;
	}
	note_forget(n, t);
}

static void ops_take(struct notify *n, struct engine_op *back, struct engine_op **list)
{
	for (struct engine_op *op = back, *next; op; op = next) {
		next = op->next;
		n->n_ops--;
		if (op->type == OP_NOTICE_CLAIM) {
			claim_back(n, list);
		} else if (op->type == OP_READ_DEAD) {
			read_back(n, op->user, list);
		} else if (op->type == OP_NOTICE_SETTLE) {
			settle_back(n, op->user);
		} else {
			struct audit_op *a = op->user;

			engine_op_release(op);
			arena_release(&a->arena);
			mem_free(a);
		}
	}
}

static void calls_take(struct notify *n, struct engine_op **list)
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
			call_failed(n, t, list);
	}
}

/* ---- the thread ---- */

static void resettle(struct notify *n, struct engine_op **list)
{
	struct note *t;

	if (!n->unsettled || (clock_now_ms(n->clock) < n->resettle_at && !n->quiet))
		return;
	while ((t = n->unsettled)) {
		n->unsettled = t->next;
		t->next = NULL;
		note_settle(n, t, list);
	}
}

static void claim_out(struct notify *n, struct engine_op **list)
{
	if (n->quiet || n->claiming || n->n_notes > NOTES_MAX / 2 || clock_now_ms(n->clock) < n->claim_at)
		return;
	op_prepare(n, &n->claim, OP_NOTICE_CLAIM, NULL, list);
	n->claim.u.notice_claim.max = n->n_notes + CLAIM_STEP;
	n->claiming = true;
	n->claim_at = NEVER;
}

static void waiting_forget(struct notify *n)
{
	for (struct receiver *r = n->receivers; r; r = r->next)
		while (r->n_waiting)
			note_forget(n, waiting_take(r));
}

/* Takes the orders of other threads. Returns false once it is time to leave. */
static bool orders_take(struct notify *n)
{
	bool look, ending;

	pthread_mutex_lock(&n->lock);
	look = n->look;
	n->look = false;
	ending = n->ending;
	n->quiet = n->stopping;
	pthread_mutex_unlock(&n->lock);
	if (look) {
		n->claim_at = 0;
		n->look_again = n->claiming;
	}
	if (n->quiet)
		waiting_forget(n);
	return !ending || n->n_ops || n->n_active || n->unsettled;
}

static int64_t until(struct notify *n, int64_t at)
{
	int64_t now = clock_now_ms(n->clock);

	return at == NEVER ? -1 : at <= now ? 0 : at - now;
}

static void *notify_main(void *arg)
{
	struct notify *n = arg;
	struct engine_op *list = NULL;

	while (orders_take(n)) {
		int64_t next;

		resettle(n, &list);
		calls_start(n, &list);
		next = slow_postpone(n, &list);
		claim_out(n, &list);
		receivers_sweep(n);
		if (list)
			engine_submit(n->engine, list);
		list = NULL;
		if (n->unsettled && n->resettle_at < next)
			next = n->resettle_at;
		if (!n->quiet && n->start_at && n->start_at < next)
			next = n->start_at;
		if (!n->quiet && !n->claiming && n->n_notes <= NOTES_MAX / 2 && n->claim_at < next)
			next = n->claim_at;
		ops_take(n, mailbox_wait(&n->box, until(n, next)), &list);
		calls_take(n, &list);
	}
	receivers_sweep(n);
	ASSERT(n->n_notes == 0 && !n->receivers && !list);
	return NULL;
}

struct notify *notify_start(struct engine *e, struct sink *sink)
{
	struct notify *n = mem_alloc(sizeof(*n));
	struct dlq_err err = {0};
	int rc;

	n->engine = e;
	n->clock = engine_clock(e);
	n->sink = sink;
	if (mailbox_init(&n->box, &err)) {
		log_event(LOG_ERROR, "notice.not_started", "error=%s", LOG_Q(err.detail));
		mem_free(n);
		return NULL;
	}
	pthread_mutex_init(&n->lock, NULL);
	rc = pthread_create(&n->thread, NULL, notify_main, n);
	if (rc) {
		log_event(LOG_ERROR, "notice.not_started", "error=%s", LOG_Q(strerror(rc)));
		pthread_mutex_destroy(&n->lock);
		mailbox_release(&n->box);
		mem_free(n);
		return NULL;
	}
	return n;
}

void notify_wake(struct notify *n)
{
	pthread_mutex_lock(&n->lock);
	n->look = true;
	pthread_mutex_unlock(&n->lock);
	mailbox_wake(&n->box);
}

void notify_stop(struct notify *n)
{
	if (!n)
		return;
	pthread_mutex_lock(&n->lock);
	n->stopping = true;
	pthread_mutex_unlock(&n->lock);
	mailbox_wake(&n->box);
	n->sink->ops->stop(n->sink, STOP_CALLS_MS); /* every done has returned then */
	pthread_mutex_lock(&n->lock);
	n->ending = true;
	pthread_mutex_unlock(&n->lock);
	mailbox_wake(&n->box);
	pthread_join(n->thread, NULL);
	pthread_mutex_destroy(&n->lock);
	mailbox_release(&n->box);
	mem_free(n);
}
