/* ops_message.c - send, receive, settle, extend: the hot path. */
#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "engine/engine_int.h"

static int64_t later(int64_t now, int64_t ms)
{
	return now + (ms < 0 ? 0 : ms > TIME_SPAN_MAX_MS ? TIME_SPAN_MAX_MS : ms);
}

static int64_t min64(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

bool queue_due_known(const struct engine *e, const struct equeue *q)
{
	return q->due_gen == e->due_gen;
}

void queue_due_at(struct engine *e, struct equeue *q, int64_t due)
{
	if (queue_due_known(e, q) && due < q->next_due)
		q->next_due = due;
}

static void queue_due_forget(struct engine *e, struct equeue *q)
{
	q->due_gen = e->due_gen - 1;
}

/* ---- send ---- */

enum dlq_code op_send(struct engine *e, struct batch *b, struct engine_op *op)
{
	struct store_send *items = op->u.send.items;
	int n = op->u.send.n;
	if (n < 1 || n > SEND_MAX)
		return err_set(&op->err, DLQ_BAD_REQUEST, "a send holds 1 to %d messages, this one %d", SEND_MAX, n);
	struct equeue *q = equeue_need(e, op);
	if (!q)
		return DLQ_NOT_FOUND;
	const struct queue_config *cfg = q->config;
	int64_t ttl = NEVER, dedup = NEVER;
	for (int i = 0; i < n; i++) {
		struct store_send *s = &items[i];
		s->due = later(b->now, s->due);
		int64_t life = s->expires < 0 ? 0 : s->expires ? s->expires : cfg->policy.ttl_ms;
		s->expires = life ? later(b->now, life) : 0;
		s->dedup_until = s->id.n && cfg->dedup_window_ms ? b->now + cfg->dedup_window_ms : 0;
		if (s->expires)
			ttl = min64(ttl, s->expires);
		if (s->dedup_until)
			dedup = min64(dedup, s->dedup_until);
	}
	enum dlq_code c = batch_tx(e, b, &op->err);
	if (!c)
		c = e->ops->send(e->store, q->queue_id, cfg->max_messages, cfg->max_bytes, items, n, &op->err);
	if (c)
		return c;
	e->next_ttl = min64(e->next_ttl, ttl);
	e->next_dedup = min64(e->next_dedup, dedup);
	for (int i = 0; i < n; i++)
		if (!items[i].code && !items[i].duplicate && !items[i].held)
			queue_due_at(e, q, items[i].due);
	return DLQ_OK;
}

/* ---- receive ---- */

/* Leased beyond the caller's byte limit: back to the front, no attempt (invariant 8). */
static enum dlq_code give_back(struct engine *e, struct equeue *q, const struct store_delivery *d, struct dlq_err *err)
{
	struct store_lease l;
	enum dlq_code c = e->ops->lease_get(e->store, q->queue_id, d->seq, d->nonce, &e->scratch, &l, err);
	return c ? c : e->ops->release(e->store, &l, 1, err);
}

static void delivery_fill(struct engine *e, struct equeue *q, const struct store_delivery *d,
                          struct engine_delivery *out)
{
	out->d = *d;
	out->lease_until_wall_ms = clock_to_wall_ms(e->clock, d->lease_until);
	receipt_write(&(struct receipt){q->queue_id, d->seq, d->nonce}, out->receipt);
}

/* How many to lease next: what is asked for, but not many more bytes than the caller takes. */
static int claim_size(const struct store_counts *n, int64_t left_bytes, int left)
{
	int64_t live = n->ready + n->held + n->leased;
	int64_t each = live > 0 ? n->bytes / live : 0;
	if (each > 0 && left_bytes / each + 1 < left)
		return (int)(left_bytes / each + 1);
	return left;
}

enum dlq_code receive_fill(struct engine *e, struct batch *b, struct equeue *q, struct engine_op *op)
{
	int64_t max_bytes = op->u.receive.max_bytes ? op->u.receive.max_bytes : RECEIVE_BYTES_DEFAULT, bytes = 0;
	int64_t vt = op->u.receive.visibility_timeout_ms ? op->u.receive.visibility_timeout_ms
	                                                 : q->config->policy.visibility_timeout_ms;
	int want = op->u.receive.max, got = 0;
	bool full = false, drained = false;
	op->u.receive.n = 0;
	enum dlq_code c = batch_tx(e, b, &op->err);
	if (!c)
		c = ttl_run(e, b, &op->err);
	if (c || e->next_ttl <= b->now)
		return c;
	const struct store_counts *counts = e->ops->queue_counts(e->store, q->queue_id);
	q->room_wanted = false;
	while (got < want && !full && !drained) {
		int64_t room = q->config->max_in_flight - counts->leased;
		if (room <= 0) {
			q->room_wanted = true;
			break;
		}
		int ask = claim_size(counts, max_bytes - bytes, want - got), n = 0;
		if (ask > room)
			ask = (int)room;
		for (int i = 0; i < ask; i++)
			e->nonces[i] = (int64_t)(rnd_u64(&e->rnd) >> 1) | 1;
		c = e->ops->claim(e->store, q->queue_id, b->now, b->now + vt, op->u.receive.worker, e->nonces, ask,
		                  &op->arena, e->claimed, &n, &op->err);
		if (c)
			return c;
		drained = n < ask;
		if (!n)
			break;
		if (!op->u.receive.items)
			op->u.receive.items =
			    arena_alloc(&op->arena, (size_t)(drained ? n : want) * sizeof(struct engine_delivery));
		for (int i = 0; i < n; i++) {
			int64_t size = (int64_t)e->claimed[i].body.n;
			full = full || (got && bytes + size > max_bytes);
			if (full) {
				c = give_back(e, q, &e->claimed[i], &op->err);
				if (c)
					return c;
				continue;
			}
			ASSERT(lifecycle_allows(MSG_READY, MOVE_LEASE, &(enum msg_state){0}));
			bytes += size;
			delivery_fill(e, q, &e->claimed[i], &op->u.receive.items[got++]);
		}
	}
	op->u.receive.n = got;
	if (got) {
		e->next_lease = min64(e->next_lease, b->now + vt);
		bytes += (int64_t)got * DELIVERY_COST;
		b->bytes += bytes;
		op->u.receive.given = bytes;
		if (op->port->given_max)
			atomic_fetch_add(&op->port->given, bytes);
	}
	if (!got && drained) {
		c = e->ops->next_due(e->store, q->queue_id, &q->next_due, &op->err);
		q->due_gen = e->due_gen;
		if (q->next_due <= b->now)
			q->next_due = b->now + 1; /* never asked twice at the same time */
	} else {
		queue_due_forget(e, q);
	}
	return c;
}

static enum dlq_code receive_check(struct engine_op *op)
{
	int64_t vt = op->u.receive.visibility_timeout_ms;
	if (op->u.receive.max < 1 || op->u.receive.max > RECEIVE_MAX)
		return err_set(&op->err, DLQ_BAD_REQUEST, "max is %d, it must be 1 to %d", op->u.receive.max,
		               RECEIVE_MAX);
	if (op->u.receive.wait_ms < 0 || op->u.receive.wait_ms > WAIT_MAX_MS)
		return err_set(&op->err, DLQ_BAD_REQUEST, "wait is %" PRId64 " ms, it must be 0s to 60s",
		               op->u.receive.wait_ms);
	if (vt && (vt < VISIBILITY_MIN_MS || vt > VISIBILITY_MAX_MS))
		return err_set(&op->err, DLQ_BAD_REQUEST, "visibility_timeout is %" PRId64 " ms, it must be 1s to 12h",
		               vt);
	if (op->u.receive.worker.n > FAILURE_TYPE_MAX)
		return err_set(&op->err, DLQ_BAD_REQUEST, "the worker's name has %zu bytes, at most %d are allowed",
		               op->u.receive.worker.n, FAILURE_TYPE_MAX);
	if (op->u.receive.worker_version.n > FAILURE_TYPE_MAX)
		return err_set(&op->err, DLQ_BAD_REQUEST, "the worker's version has %zu bytes, at most %d are allowed",
		               op->u.receive.worker_version.n, FAILURE_TYPE_MAX);
	return DLQ_OK;
}

enum dlq_code op_receive(struct engine *e, struct batch *b, struct engine_op *op)
{
	op->u.receive.items = NULL;
	op->u.receive.n = 0;
	enum dlq_code c = receive_check(op);
	if (c)
		return c;
	struct equeue *q = equeue_need(e, op);
	if (!q)
		return DLQ_NOT_FOUND;
	if (e->draining || op->u.receive.cancelled)
		return DLQ_OK;
	worker_version_learn(e, op->u.receive.worker, op->u.receive.worker_version);
	/* Who waits already comes first. */
	bool wait = q->paused || q->park_head || (queue_due_known(e, q) && q->next_due > b->now);
	if (port_full(op->port) && !op->u.receive.wait_ms)
		return err_set(&op->err, DLQ_BUSY, "answers with messages wait to be sent (max_waiting_bytes); try again");
	wait = wait || port_full(op->port);
	if (!wait) {
		c = receive_fill(e, b, q, op);
		if (c || op->u.receive.n)
			return c;
		if (e->next_ttl <= b->now) {
			op_list_push(&e->deferred_head, &e->deferred_tail, op);
			atomic_fetch_add(&e->waiting_ops, 1); /* it waits again */
			atomic_fetch_add(&e->waiting_bytes, op->cost);
			b->kept = true;
			return DLQ_OK;
		}
	}
	if (!op->u.receive.wait_ms && !q->park_head)
		return DLQ_OK;
	if (e->n_heap >= e->o.max_waiting_receives)
		return op->u.receive.wait_ms
		           ? err_set(&op->err, DLQ_BUSY,
		                     "%d receives wait already (at most %d); try again with a shorter wait", e->n_heap,
		                     e->o.max_waiting_receives)
		           : DLQ_OK;
	op->u.receive.deadline = b->now + op->u.receive.wait_ms;
	park(e, q, op);
	b->kept = true;
	return DLQ_OK;
}

/* ---- settle ---- */

/* At most max bytes, not ending inside a UTF-8 character. */
static struct str cut(struct str s, size_t max)
{
	if (s.n <= max)
		return s;
	size_t n = max;
	while (n && max - n < 4 && ((unsigned char)s.p[n] & 0xc0) == 0x80)
		n--;
	return (struct str){s.p, n};
}

int64_t retention_due_ms(struct engine *e, struct batch *b, const struct equeue *q)
{
	const struct policy *p = &q->config->policy;
	int64_t due = b->now + p->retention_ms;
	e->next_retention = min64(e->next_retention, due);
	return due;
}

bool redrives_used_up(struct engine *e, const struct equeue *q, const struct store_lease *l)
{
	if (l->redrives <= 0 || l->redrives < q->config->policy.max_redrives)
		return false;
	e->due_gen++; /* in an ordered queue its followers go on */
	log_event(LOG_INFO, "dead.given_up", "queue=" STR_FMT " redrives=%d max_redrives=%d next=archived_redrive_it_with_override", STR_ARG(q->name),
	          l->redrives, q->config->policy.max_redrives);
	return true;
}

static void moved(enum msg_state from, enum msg_move move)
{
	enum msg_state to;
	bool allowed = lifecycle_allows(from, move, &to);
	ASSERT(allowed);
}

static enum dlq_code lease_release(struct engine *e, struct batch *b, struct equeue *q, const struct store_lease *l,
                                   const struct effect *eff, struct engine_settle_item *item, struct dlq_err *err)
{
	moved(MSG_LEASED, MOVE_RELEASE);
	enum dlq_code c = e->ops->release(e->store, l, eff->at_ms, err);
	if (c)
		return c;
	queue_due_at(e, q, eff->at_ms);
	e->next_ttl = 0; /* it may have outlived its TTL while it was leased */
	if (item && eff->at_ms > b->now)
		item->retry_at_ms = clock_to_wall_ms(e->clock, eff->at_ms);
	return DLQ_OK;
}

/* The message of an ended lease names the worker; which one it was says nothing about the failure. */
static const struct store_group_key *group_of(struct engine *e, const struct equeue *q, const struct store_attempt *at,
                                              struct str given)
{
	struct store_attempt alike = *at;
	if (at->outcome == OUTCOME_LEASE_EXPIRED)
		alike.message = GROUP_LEASE_EXPIRED;
	return group_key(e, q, &alike, given);
}

enum dlq_code lease_fail(struct engine *e, struct batch *b, struct equeue *q, const struct store_lease *l,
                         enum outcome said, const struct failure *f, struct worker_id worker, int64_t retry_after_ms,
                         struct engine_settle_item *item, struct dlq_err *err)
{
	/* A rule may reclassify what a worker said; what the engine saw itself it may only name. */
	const struct classify_rule *rule =
	    said == OUTCOME_RELEASE || !q->config->policy.n_rules ? NULL : classify_find(&q->config->policy, f);
	bool by_rule = rule && rule->outcome != OUTCOME_COUNT && said != OUTCOME_LEASE_EXPIRED;
	enum outcome outcome = by_rule ? rule->outcome : said;
	struct route_msg m = {l->attempts, l->lease_expirations, l->previous_delay_ms};
	struct route_outcome o = {outcome, outcome == OUTCOME_TRANSIENT ? retry_after_ms : 0,
	                          outcome == OUTCOME_RELEASE ? retry_after_ms : 0};
	struct effect eff = route(&m, &q->config->policy, &o, b->now, rnd_unit(&e->rnd));
	char dlq_id[ULID_LEN + 1] = "";
	enum dlq_code c;
	struct store_attempt at = {
	    .n = eff.attempts,
	    .redrive = l->redrives,
	    .at_ms = b->wall,
	    .outcome = outcome,
	    .error_type = cut(f->type, FAILURE_TYPE_MAX),
	    .message = cut(f->message, FAILURE_MESSAGE_MAX),
	    .detail = cut(f->detail, FAILURE_DETAIL_MAX),
	    .worker = cut(worker.name.n ? worker.name : l->worker, FAILURE_TYPE_MAX),
	    .http_status = f->http_status,
	    .exit_code = f->exit_code,
	};
	at.worker_version = cut(worker.version.n ? worker.version : worker_version_of(e, at.worker), FAILURE_TYPE_MAX);
	if (eff.kind != EFFECT_RELEASE)
		at.group = group_of(e, q, &at, rule && rule->fingerprint.n ? rule->fingerprint : f->fingerprint);
	if (eff.kind == EFFECT_RELEASE) {
		c = lease_release(e, b, q, l, &eff, item, err);
	} else if (eff.kind == EFFECT_RETRY) {
		moved(MSG_LEASED, MOVE_RETRY);
		at.retry_at_ms = clock_to_wall_ms(e->clock, eff.at_ms);
		c = e->ops->retry(e->store, l, &at, eff.lease_expirations, eff.at_ms, eff.delay_ms, err);
		queue_due_at(e, q, eff.at_ms);
		e->next_ttl = 0;
		if (item)
			item->retry_at_ms = at.retry_at_ms;
	} else {
		ASSERT(eff.kind == EFFECT_DEAD);
		moved(MSG_LEASED, MOVE_BURY);
		bool notify = q->config->on_dead_letter.n > 0, give_up = redrives_used_up(e, q, l);
		if (give_up)
			moved(MSG_DEAD, MOVE_GIVE_UP);
		c = e->ops->bury(e->store, l, &at, eff.lease_expirations, eff.reason, retention_due_ms(e, b, q),
		                 notify, give_up, dlq_id, err);
		b->notices = b->notices || notify;
		if (!c && l->redrives)
			redrive_failed(e, l->seq, at.error_type, at.message);
	}
	if (c)
		return c;
	q->room_wanted = false;
	if (item) {
		item->effect = eff.kind;
		item->reason = eff.reason;
		item->attempts = eff.attempts;
		memcpy(item->dlq_id, dlq_id, sizeof(dlq_id));
	}
	return DLQ_OK;
}

static enum dlq_code settle_ok(struct engine *e, struct equeue *q, const struct receipt *r, struct dlq_err *err)
{
	bool unheld = false;
	const struct store_counts *counts = e->ops->queue_counts(e->store, q->queue_id);
	int64_t redriving = counts->redriving;
	enum dlq_code c = e->ops->done(e->store, q->queue_id, r->seq, r->nonce, &unheld, err);
	if (c)
		return c;
	moved(MSG_LEASED, MOVE_OK);
	q->room_wanted = false;
	if (unheld)
		queue_due_forget(e, q);
	/* A redriven one whose retention passed meanwhile is due for the archive now. */
	if (e->ops->queue_counts(e->store, q->queue_id)->redriving != redriving) {
		e->next_retention = min64(e->next_retention, clock_now_ms(e->clock) + 60000);
		e->redrives_outcome = true;
	}
	return DLQ_OK;
}

static enum dlq_code settle_one(struct engine *e, struct batch *b, struct equeue *q, struct engine_op *op,
                                struct engine_settle_item *it)
{
	struct receipt r;
	it->dlq_id[0] = '\0';
	it->retry_at_ms = 0;
	it->reason = REASON_NONE;
	it->attempts = 0;
	if (!receipt_parse(it->receipt, &r) || r.queue_id != q->queue_id)
		return DLQ_GONE;
	if (it->outcome == OUTCOME_OK) {
		it->effect = EFFECT_DONE;
		return settle_ok(e, q, &r, &op->err);
	}
	struct store_lease l;
	enum dlq_code c = e->ops->lease_get(e->store, q->queue_id, r.seq, r.nonce, &e->scratch, &l, &op->err);
	if (c)
		return c;
	struct worker_id worker = {op->u.settle.worker, op->u.settle.worker_version};
	return lease_fail(e, b, q, &l, it->outcome, &it->failure, worker, it->retry_after_ms, it, &op->err);
}

enum dlq_code op_settle(struct engine *e, struct batch *b, struct engine_op *op)
{
	int n = op->u.settle.n;
	if (n < 1 || n > SETTLE_MAX)
		return err_set(&op->err, DLQ_BAD_REQUEST, "a settle holds 1 to %d results, this one %d", SETTLE_MAX, n);
	struct equeue *q = equeue_need(e, op);
	if (!q)
		return DLQ_NOT_FOUND;
	for (int i = 0; i < n; i++)
		if ((unsigned)op->u.settle.items[i].outcome > OUTCOME_RELEASE)
			return err_set(&op->err, DLQ_BAD_REQUEST,
			               "result %d: the outcome is none of ok, transient, permanent, release", i + 1);
	enum dlq_code c = batch_tx(e, b, &op->err);
	for (int i = 0; i < n && !c; i++) {
		struct engine_settle_item *it = &op->u.settle.items[i];
		it->code = settle_one(e, b, q, op, it);
		if (store_fatal(it->code))
			c = it->code;
	}
	if (!c)
		op->err = (struct dlq_err){0};
	return c;
}

enum dlq_code op_extend(struct engine *e, struct batch *b, struct engine_op *op)
{
	int64_t vt = op->u.extend.visibility_timeout_ms;
	struct receipt r;
	if (vt && (vt < VISIBILITY_MIN_MS || vt > VISIBILITY_MAX_MS))
		return err_set(&op->err, DLQ_BAD_REQUEST, "visibility_timeout is %" PRId64 " ms, it must be 1s to 12h",
		               vt);
	struct equeue *q = equeue_need(e, op);
	if (!q)
		return DLQ_NOT_FOUND;
	if (!vt)
		vt = q->config->policy.visibility_timeout_ms;
	enum dlq_code c = DLQ_GONE;
	if (receipt_parse(op->u.extend.receipt, &r) && r.queue_id == q->queue_id) {
		c = batch_tx(e, b, &op->err);
		if (!c)
			c = e->ops->extend(e->store, q->queue_id, r.seq, r.nonce, b->now + vt, &op->err);
	}
	if (c == DLQ_GONE)
		return err_set(
		    &op->err, DLQ_GONE,
		    "the lease is over: settled before, or its visibility timeout passed and the message went on");
	if (c)
		return c;
	e->next_lease = min64(e->next_lease, b->now + vt);
	op->u.extend.lease_until_wall_ms = clock_to_wall_ms(e->clock, b->now + vt);
	return DLQ_OK;
}
