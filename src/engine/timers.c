/*
 * timers.c - what happens by time alone: ended leases, TTL, dedup windows, steps of redrives. Each kind has one lower
 * bound of when its next work is due, kept as things change and corrected by the store when it is looked up; so an idle
 * engine sleeps until something is really due.
 */
#include <string.h>

#include "engine/engine_int.h"

#define DEDUP_PAUSE_MS 1000 /* windows end all the time under load: gather them */

static enum dlq_code lease_expired(struct engine *e, struct batch *b, const struct store_lease *l, struct dlq_err *err)
{
	struct equeue *q = equeue_by_id(e, l->queue_id);
	ASSERT(q); /* a queue with leases cannot be deleted */
	char timeout[32];
	duration_human(q->config->policy.visibility_timeout_ms, timeout);
	struct failure f = {
	    .type = STR("LeaseExpired"),
	    .message =
	        arena_fmt(&e->scratch, "worker %s%.*s%s did not settle before its lease ended (visibility timeout %s)",
	                  l->worker.n ? "\"" : "", l->worker.n ? (int)l->worker.n : 9,
	                  l->worker.n ? l->worker.p : "(unnamed)", l->worker.n ? "\"" : "", timeout),
	    .exit_code = -1,
	};
	return lease_fail(e, b, q, l, OUTCOME_LEASE_EXPIRED, &f, (struct worker_id){.name = l->worker}, 0, NULL, err);
}

static enum dlq_code leases_run(struct engine *e, struct batch *b, struct dlq_err *err)
{
	for (int step = 0; step < 8 && e->next_lease <= b->now; step++) {
		struct store_lease *list = arena_alloc(&e->scratch, LEASE_STEP * sizeof(*list));
		int n = 0;
		int64_t next = NEVER;
		enum dlq_code c = batch_tx(e, b, err);
		if (!c)
			c = e->ops->expired_leases(e->store, b->now, LEASE_STEP, &e->scratch, list, &n, &next, err);
		for (int i = 0; i < n && !c; i++)
			c = lease_expired(e, b, &list[i], err);
		if (c)
			return c;
		e->next_lease = n == LEASE_STEP ? 0 : next > b->now ? next : b->now + 1;
		arena_reset(&e->scratch);
	}
	return DLQ_OK;
}

static enum dlq_code ttl_one(struct engine *e, struct batch *b, const struct store_lease *l, struct dlq_err *err)
{
	struct equeue *q = equeue_by_id(e, l->queue_id);
	char dlq_id[ULID_LEN + 1];
	ASSERT(q);
	bool allowed = lifecycle_allows(MSG_READY, MOVE_EXPIRE, &(enum msg_state){0});
	ASSERT(allowed);
	bool notify = q->config->on_dead_letter.n > 0;
	b->notices = b->notices || notify;
	return e->ops->bury(e->store, l, NULL, l->lease_expirations, REASON_EXPIRED, retention_due_ms(e, b, q),
	                    notify, redrives_used_up(e, q, l), dlq_id, err);
}

enum dlq_code ttl_run(struct engine *e, struct batch *b, struct dlq_err *err)
{
	struct arena a = {0};
	enum dlq_code c = DLQ_OK;
	for (int step = 0; step < 16 && e->next_ttl <= b->now && !c; step++) {
		struct store_lease *list = arena_alloc(&a, TTL_STEP * sizeof(*list));
		int n = 0;
		int64_t next = NEVER;
		c = batch_tx(e, b, err);
		if (!c)
			c = e->ops->expired_ttl(e->store, b->now, TTL_STEP, &a, list, &n, &next, err);
		for (int i = 0; i < n && !c; i++)
			c = ttl_one(e, b, &list[i], err);
		if (!c)
			e->next_ttl = n == TTL_STEP ? 0 : next > b->now ? next : b->now + 1;
		arena_reset(&a);
	}
	arena_release(&a);
	return c;
}

static enum dlq_code dedup_run(struct engine *e, struct batch *b, struct dlq_err *err)
{
	int n = 0;
	int64_t next = NEVER;
	if (e->next_dedup > b->now)
		return DLQ_OK;
	enum dlq_code c = batch_tx(e, b, err);
	if (!c)
		c = e->ops->dedup_sweep(e->store, b->now, DEDUP_STEP, &n, &next, err);
	if (!c && n < DEDUP_STEP)
		e->next_dedup = next == NEVER || next > b->now + DEDUP_PAUSE_MS ? next : b->now + DEDUP_PAUSE_MS;
	return c;
}

enum dlq_code timers_run(struct engine *e, struct batch *b, struct dlq_err *err)
{
	enum dlq_code c = leases_run(e, b, err);
	if (!c)
		c = ttl_run(e, b, err);
	if (!c)
		c = dedup_run(e, b, err);
	if (!c)
		c = redrives_step(e, b, err);
	return c;
}

int64_t timers_next(const struct engine *e)
{
	int64_t at = e->next_lease;
	at = e->next_ttl < at ? e->next_ttl : at;
	at = e->next_dedup < at ? e->next_dedup : at;
	at = e->next_retention < at ? e->next_retention : at;
	int64_t redrive = redrives_next(e);
	return redrive < at ? redrive : at;
}

void timers_reset(struct engine *e)
{
	e->next_lease = e->next_ttl = e->next_dedup = e->next_retention = 0;
	e->due_gen++;
	e->redrives_reload = true;
	e->sweep_due = true;
	e->redrives_outcome = false;
	e->n_runs = 0; /* what was set in the lost transaction is in them */
}
