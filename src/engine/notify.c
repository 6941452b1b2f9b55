/*
 * notify.c - the thread that tells receivers about dead letters.
 *
 * A notice's way: claimed (it is due in the store) -> reading (its dead letter) -> waiting (at its receiver, for a free
 * call) -> calling (the sink has it) -> settling (told, or due again later) -> forgotten. The store alone knows what is
 * owed; a struct note may be dropped at any time. A claim does not mark anything in the store, so it shows notices again
 * that are here already: by_n finds them. Threads and locks: notify_int.h.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "engine/notify_int.h"

#define CLAIM_STEP 256
#define REFUSED_FIRST_MS 100     /* the engine refused an operation; doubled up to the next */
#define REFUSED_MAX_MS 5000
#define STOP_CALLS_MS 2000
#define WARN_EVERY_MS 60000

struct audit_op {
	struct engine_op op; /* first */
	struct arena arena;
};

/* ---- notices in memory ---- */

static struct note **note_slot(struct notify *n, int64_t no)
{
	struct note **at = &n->by_n[(uint64_t)no % BUCKETS];

	while (*at && (*at)->n != no)
		at = &(*at)->hash_next;
	return at;
}

void note_forget(struct notify *n, struct note *t)
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

void note_settle(struct notify *n, struct note *t, struct engine_op **list)
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

void note_postpone(struct notify *n, struct note *t, const char *why, int64_t ms, struct engine_op **list)
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

void note_call_failed(struct notify *n, struct note *t, struct engine_op **list)
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
	receiver_add(n, url, t);
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
		receivers_forget_waiting(n);
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
		receivers_call(n, &list);
		next = receivers_postpone(n, &list);
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
		receivers_take_back(n, &list);
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
