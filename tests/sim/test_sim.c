/*
 * The engine against a small model in memory: one seed decides every send, receive, outcome, abandoned lease, redrive,
 * discard, pause, clock jump and restart. After every step the store's counts must be the model's, and the invariants
 * of the design (cited by number) must hold. DLQ_SEED=n repeats one run, DLQ_STEPS=n its length.
 */
#include <dirent.h>
#include <ftw.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "jq/jq_child.h"
#include "lib_model.h"

#define SEEDS 8 /* of one whole run; DLQ_SEEDS: fewer */

/* Over all runs: a simulation in which something never happens proves nothing about it. */
static struct {
	int64_t sent, done, failed, died, discarded, archived, duplicates, redriven, restarts, jobs, halts, jobs_done, plans, planned[ACTION_COUNT], given, moved;
} seen;

/* ---- the engine and the checks ---- */

static void sim_open(struct sim *s)
{
	struct dlq_err err = {0};
	struct engine_options o = {
	    .store = "sqlite", .dir = s->dir, .clock = s->clock, .seed = s->seed, .single_step = true, .no_sync = true,
	    .jq_program = "/proc/self/exe"};
	enum dlq_code c = engine_open(&o, &s->e, &err);
	CHECK(s, !c, "open: %s", err.detail);
	c = engine_start(s->e, &err);
	CHECK(s, !c, "start: %s", err.detail);
}

static void check_counts(struct sim *s)
{
	for (int q = 0; q < QUEUES; q++) {
		struct store_counts want = {0};
		int64_t maybe = 0;
		for (int i = 0; i < s->n; i++) {
			struct mmsg *m = &s->m[i];
			want.redriving += m->home == q && m->redriving && (m->where == WAITING || m->where == LEASED);
			/* One that succeeded after its redrive leaves within a minute of the end of retention. */
			maybe += m->home == q && m->where == DONE && m->dead_once && m->retention <= now(s);
			if (m->queue != q)
				continue;
			bool held = m->where == WAITING && is_held(s, m);
			want.ready += m->where == WAITING && !held;
			want.held += held;
			want.leased += m->where == LEASED;
			want.dead += m->where == DEAD;
			want.bytes += m->where <= LEASED ? (int64_t)strlen(m->body) : 0;
			want.retrying += m->where == WAITING && !held && m->attempts > 0;
		}
		struct engine_op op = {.type = OP_READ_QUEUE};
		call(s, &op, q);
		CHECK(s, !op.code, "%s", op.err.detail);
		const struct store_counts *got = &op.u.read_queue.out.counts;
#define SAME(field)                                                                                                    \
	CHECK(s, got->field == want.field, "queue %s: " #field " is %" PRId64 ", the model says %" PRId64,             \
	      queue_names[q], got->field, want.field)
		SAME(ready);
		SAME(held);
		SAME(leased);
		SAME(dead);
		SAME(redriving);
		SAME(retrying);
		SAME(bytes);
#define TOTAL(field, mine)                                                                                             \
	CHECK(s, got->field == s->mine[q], "queue %s: " #field " is %" PRId64 ", the model says %" PRId64,             \
	      queue_names[q], got->field, s->mine[q])
		TOTAL(sent, sent);
		TOTAL(done, done);
		TOTAL(failed_attempts, failed);
		TOTAL(died, died);
		TOTAL(discarded, discarded);
		TOTAL(duplicates, duplicates);
		CHECK(s, got->archived >= s->archived[q] && got->archived <= s->archived[q] + maybe,
		      "queue %s: archived is %" PRId64 ", the model says %" PRId64 " to %" PRId64, queue_names[q],
		      got->archived, s->archived[q], s->archived[q] + maybe);
		engine_op_release(&op);
	}
}

/* A dead letter tells its whole history; its original body is as sent (invariants 1, 3, 6). */
static void check_dead(struct sim *s, struct mmsg *m)
{
	struct engine_op op = {.type = OP_READ_DEAD};
	op.u.read_dead.id = str_of(m->dlq_id);
	call(s, &op, -1);
	CHECK(s, !op.code, "%s", op.err.detail);
	struct store_dead *d = &op.u.read_dead.out;
	CHECK(s, d->seq == m->seq && str_eqz(d->id, m->id), "another message: " STR_FMT, STR_ARG(d->id));
	CHECK(s, op.u.read_dead.n_attempts == m->failures, "%d attempts on record, %d failures",
	      op.u.read_dead.n_attempts, m->failures);
	CHECK(s, d->redrives == m->redrives, "%d redrives, the model says %d", d->redrives, m->redrives);
	CHECK(s, m->where != DEAD || d->attempts == m->attempts, "%d attempts, the model says %d", d->attempts,
	      m->attempts);
	engine_op_release(&op);
	struct engine_op body = {.type = OP_READ_BODY};
	body.u.read_body.id = str_of(m->dlq_id);
	body.u.read_body.original = true;
	call(s, &body, -1);
	CHECK(s, !body.code && str_eqz(body.u.read_body.body, m->body), "the original body changed: %s",
	      body.err.detail);
	engine_op_release(&body);
}

/* Its dlq_id is the same over all its deaths. */
static void learn_dlq_id(struct sim *s, struct mmsg *m, const char *id)
{
	CHECK(s, strlen(id) == ULID_LEN, "dlq_id \"%s\"", id);
	CHECK(s, !m->dlq_id[0] || !strcmp(m->dlq_id, id), "dlq_id was %s, is %s", m->dlq_id, id);
	memcpy(m->dlq_id, id, sizeof(m->dlq_id));
}

/* Those that died by time: their ids come from the list. */
static void learn_dead(struct sim *s)
{
	bool unknown = false;
	for (int i = 0; i < s->n; i++)
		unknown = unknown || ((s->m[i].where == DEAD || s->m[i].where == GIVEN) && !s->m[i].dlq_id[0]);
	if (!unknown)
		return;
	struct engine_op op = {.type = OP_READ_DEAD_LIST};
	op.u.read_dead_list.filter = (struct store_dead_filter){.state = -1, .reason = -1, .limit = 1000};
	call(s, &op, -1);
	CHECK(s, !op.code, "%s", op.err.detail);
	int64_t last = INT64_MAX;
	for (int i = 0; i < op.u.read_dead_list.page.n; i++) {
		struct store_dead *d = &op.u.read_dead_list.page.items[i];
		CHECK(s, d->died_no < last, "the list is not newest first");
		last = d->died_no;
		struct mmsg *m = m_by_seq(s, d->seq);
		CHECK(s, m, "a dead letter of a message that was never sent: %" PRId64, d->seq);
		learn_dlq_id(s, m, d->dlq_id);
	}
	engine_op_release(&op);
}

/* ---- the steps ---- */

static void do_send(struct sim *s)
{
	if (s->n == MSGS_MAX)
		return;
	struct mmsg *m = &s->m[s->n], *again = s->n && below(s, 10) == 0 ? &s->m[below(s, s->n)] : NULL;
	*m = (struct mmsg){
	    .queue = again ? again->first : below(s, QUEUES), .key = below(s, KEYS + 1) - 1, .where = WAITING, .group = -1};
	m->home = m->first = m->queue;
	snprintf(m->id, sizeof(m->id), "%s", again ? again->id : "");
	if (!again)
		snprintf(m->id, sizeof(m->id), "m-%d", s->n);
	snprintf(m->body, sizeof(m->body), "\"body %d %" PRIu64 "\"", s->n, rnd_u64(&s->rnd));
	memcpy(m->now_body, m->body, sizeof(m->body));
	char key[16] = "";
	if (m->key >= 0)
		snprintf(key, sizeof(key), "k%d", m->key);
	int64_t delay = below(s, 5) == 0 ? below(s, 20000) : 0, ttl = below(s, 8) == 0 ? 1 + below(s, 40000) : 0;
	struct store_send item = {
	    .id = str_of(m->id), .key = str_of(key), .body = str_of(m->body), .due = delay, .expires = ttl};
	struct engine_op op = {.type = OP_SEND};
	op.u.send.items = &item;
	op.u.send.n = 1;
	call(s, &op, m->queue);
	CHECK(s, !op.code && !item.code, "%s", op.err.detail);
	engine_op_release(&op);
	/* The window is a promise while it lasts; the sweep after it may come late. */
	int64_t until = 0;
	for (int i = 0; i < s->n; i++)
		if (s->m[i].first == m->queue && !strcmp(s->m[i].id, m->id) && s->m[i].dedup_until > until)
			until = s->m[i].dedup_until;
	CHECK(s, item.duplicate || until <= now(s), "%s was stored twice within its window", m->id);
	CHECK(s, !item.duplicate || again, "%s is new and was called a duplicate", m->id);
	if (item.duplicate) {
		s->duplicates[m->queue]++;
		return;
	}
	CHECK(s, !s->n || item.seq > s->m[s->n - 1].seq, "sequence numbers do not rise");
	m->seq = item.seq;
	m->due = now(s) + delay;
	m->expires = ttl ? now(s) + ttl : 0;
	m->dedup_until = now(s) + DEDUP_WINDOW;
	s->sent[m->queue]++;
	s->n++;
}

static void do_receive(struct sim *s)
{
	int q = below(s, QUEUES), max = 1 + below(s, 5), available = 0, leased = 0;
	for (int i = 0; i < s->n; i++) {
		struct mmsg *m = &s->m[i];
		available += m->queue == q && m->where == WAITING && m->due <= now(s) && !is_held(s, m);
		leased += m->queue == q && m->where == LEASED;
	}
	struct engine_op op = {.type = OP_RECEIVE};
	op.u.receive.max = max;
	op.u.receive.worker = STR("w");
	call(s, &op, q);
	CHECK(s, !op.code, "%s", op.err.detail);
	int want = s->paused[q] ? 0 : available < max ? available : max;
	if (want > MAX_IN_FLIGHT - leased)
		want = MAX_IN_FLIGHT - leased;
	CHECK(s, op.u.receive.n == want, "queue %s: %d came, %d were due, max %d, %d leased", queue_names[q],
	      op.u.receive.n, available, max, leased);
	for (int i = 0; i < op.u.receive.n; i++) {
		struct engine_delivery *d = &op.u.receive.items[i];
		struct mmsg *m = m_by_seq(s, d->d.seq);
		CHECK(s, m && m->queue == q && m->where == WAITING, "message " STR_FMT " came but does not wait",
		      STR_ARG(d->d.id));
		CHECK(s, m->due <= now(s), "%s came %" PRId64 " ms early", m->id, m->due - now(s));
		CHECK(s, !is_held(s, m), "%s came before an earlier one of its key", m->id);
		CHECK(s, str_eqz(d->d.id, m->id) && str_eqz(d->d.body, m->now_body), "%s has another body", m->id);
		CHECK(s, d->d.attempts == m->attempts && d->d.redrives == m->redrives,
		      "%s: attempts %d/%d, redrives %d/%d", m->id, d->d.attempts, m->attempts, d->d.redrives,
		      m->redrives);
		memcpy(m->receipt, d->receipt, sizeof(m->receipt));
		m->lease_until = now(s) + VISIBILITY;
	}
	for (int i = 0; i < op.u.receive.n; i++) /* only now: is_held is of the moment of the claim */
		m_by_seq(s, op.u.receive.items[i].d.seq)->where = LEASED;
	engine_op_release(&op);
}

static void settle_item(struct sim *s, struct mmsg *m, const struct engine_settle_item *it, int kind)
{
	CHECK(s, it->code == DLQ_OK, "%s: settle says %s", m->id, code_name(it->code));
	if (it->outcome == OUTCOME_OK) {
		CHECK(s, it->effect == EFFECT_DONE, "effect %d", it->effect);
		m->where = DONE;
		s->done[m->queue]++;
		s->job.succeeded += m->counted;
		m->counted = false;
	} else if (it->outcome == OUTCOME_RELEASE) {
		CHECK(s, it->effect == EFFECT_RELEASE, "effect %d", it->effect); /* invariant 8: no attempt */
		m->where = WAITING;
		m->due = now(s) + it->retry_after_ms;
	} else if (m_fail(s, m, it->outcome, it->retry_after_ms, kind)) {
		CHECK(s, it->effect == EFFECT_DEAD && it->attempts == m->attempts, "effect %d, attempts %d", it->effect,
		      it->attempts);
		learn_dlq_id(s, m, it->dlq_id);
	} else {
		CHECK(s, it->effect == EFFECT_RETRY && it->attempts == m->attempts, "effect %d, attempts %d",
		      it->effect, it->attempts);
	}
}

static void do_settle(struct sim *s)
{
	struct mmsg *m = m_pick(s, LEASED);
	if (!m)
		return;
	static const enum outcome outcomes[] = {OUTCOME_OK, OUTCOME_OK, OUTCOME_TRANSIENT, OUTCOME_PERMANENT,
	                                        OUTCOME_RELEASE};
	struct engine_settle_item it[2] = {0};
	int kind = below(s, KINDS);
	char text[80];
	kind_text(s, kind, text);
	for (int i = 0; i < 2; i++) /* the same receipt twice: the second is gone */
		it[i] = (struct engine_settle_item){
		    .receipt = str_of(m->receipt),
		    .outcome = outcomes[below(s, 5)],
		    .retry_after_ms = below(s, 4) ? 0 : below(s, 30000),
		    .failure = {.type = str_of(kind_types[kind]), .message = str_of(text), .exit_code = -1},
		};
	struct engine_op op = {.type = OP_SETTLE};
	op.u.settle.items = it;
	op.u.settle.n = 2;
	call(s, &op, m->queue);
	CHECK(s, !op.code, "%s", op.err.detail);
	settle_item(s, m, &it[0], kind);
	CHECK(s, it[1].code == DLQ_GONE, "a used receipt: %s", code_name(it[1].code));
	engine_op_release(&op);
	if (m->where == DEAD && m->retention > now(s))
		check_dead(s, m);
}

/* A receipt of the past, a foreign queue's, garbage: gone, and nothing changes. */
static void do_bad_receipt(struct sim *s)
{
	struct mmsg *m = s->n ? &s->m[below(s, s->n)] : NULL;
	if (!m || !m->receipt[0])
		return;
	char bad[RECEIPT_LEN + 1];
	memcpy(bad, m->receipt, sizeof(bad));
	int at = below(s, RECEIPT_LEN);
	bad[at] = bad[at] == 'A' ? 'B' : 'A';
	struct engine_settle_item it = {.receipt = str_of(bad), .outcome = OUTCOME_OK};
	struct engine_op op = {.type = OP_SETTLE};
	op.u.settle.items = &it;
	op.u.settle.n = 1;
	call(s, &op, m->queue);
	CHECK(s, !op.code && it.code == DLQ_GONE, "%s", code_name(it.code));
	it.receipt = str_of(m->receipt);
	call(s, &op, (m->queue + 1) % QUEUES);
	CHECK(s, !op.code && it.code == DLQ_GONE, "%s", code_name(it.code));
	if (m->where != LEASED) {
		call(s, &op, m->queue);
		CHECK(s, !op.code && it.code == DLQ_GONE, "%s", code_name(it.code));
	}
	engine_op_release(&op);
}

static void do_extend(struct sim *s)
{
	struct mmsg *m = m_pick(s, LEASED);
	if (!m)
		return;
	struct engine_op op = {.type = OP_EXTEND};
	op.u.extend.receipt = str_of(m->receipt);
	op.u.extend.visibility_timeout_ms = 1000 + below(s, 90000);
	call(s, &op, m->queue);
	CHECK(s, !op.code, "%s", op.err.detail);
	m->lease_until = now(s) + op.u.extend.visibility_timeout_ms;
	engine_op_release(&op);
}

static void do_redrive(struct sim *s)
{
	struct mmsg *chosen[8];
	struct str ids[8];
	int n = 0, whole = below(s, 6) == 0, q = below(s, QUEUES), want = 1 + below(s, 8);
	for (int i = 0; i < s->n && n < want && !whole; i++)
		if (s->m[i].where == DEAD && !s->m[i].member && s->m[i].redrives < MAX_REDRIVES && below(s, 2)) {
			chosen[n] = &s->m[i];
			ids[n++] = str_of(s->m[i].dlq_id);
		}
	if (!whole && !n)
		return;
	if (whole && job_open(s) && s->job.queue == q)
		return;
	struct engine_op op = {.type = OP_REDRIVE};
	op.u.redrive.sel.ids = ids;
	op.u.redrive.sel.n_ids = n;
	op.u.redrive.reason = STR("mended");
	char body[40];
	struct str body_str;
	if (n == 1 && below(s, 2)) { /* of the same length, so that the bytes stay the same */
		snprintf(body, sizeof(body), "%s", chosen[0]->body);
		body[1] = 'B';
		body_str = str_of(body);
		op.u.redrive.body = &body_str;
	}
	call(s, &op, whole ? q : -1);
	CHECK(s, !op.code, "%s", op.err.detail);
	int total = 0, over = 0; /* over: restored ones, whose redrives are used up */
	for (int i = 0; i < s->n && whole; i++)
		if (s->m[i].queue == q && s->m[i].where == DEAD) {
			total++;
			over += s->m[i].redrives >= MAX_REDRIVES;
			if (s->m[i].redrives < MAX_REDRIVES)
				m_redrive(s, &s->m[i]);
		}
	for (int i = 0; i < n; i++)
		m_redrive(s, chosen[i]);
	if (op.u.redrive.body)
		memcpy(chosen[0]->now_body, body, sizeof(body));
	CHECK(s, op.u.redrive.out.total == total + n, "total %" PRId64 ", the model says %d", op.u.redrive.out.total,
	      total + n);
	struct engine_op read = {.type = OP_READ_REDRIVE};
	read.u.read_redrive.id = str_of(op.u.redrive.out.redrive_id);
	call(s, &read, -1);
	CHECK(s, !read.code && read.u.read_redrive.out.state == REDRIVE_DONE, "%s, state %d", read.err.detail,
	      read.u.read_redrive.out.state);
	CHECK(s, read.u.read_redrive.out.sent == total + n - over && read.u.read_redrive.out.skipped == over, "sent %" PRId64,
	      read.u.read_redrive.out.sent);
	engine_op_release(&read);
	/* Twice is refused: it is no longer dead. */
	if (n) {
		struct engine_op again = {.type = OP_REDRIVE};
		again.u.redrive.sel.ids = ids;
		again.u.redrive.sel.n_ids = n;
		again.u.redrive.reason = STR("again");
		call(s, &again, -1);
		CHECK(s, again.code == DLQ_CONFLICT, "a second redrive: %s", code_name(again.code));
		engine_op_release(&again);
	}
	engine_op_release(&op);
}

static void do_discard(struct sim *s)
{
	struct mmsg *m = m_pick(s, below(s, 4) ? DEAD : below(s, 2) ? GIVEN : ARCHIVED);
	if (!m || !m->dlq_id[0])
		return;
	struct engine_op op = {.type = OP_DISCARD};
	op.u.discard.id = str_of(m->dlq_id);
	call(s, &op, -1);
	CHECK(s, op.code == DLQ_BAD_REQUEST, "without a reason: %s", code_name(op.code));
	op.u.discard.reason = STR("not wanted");
	call(s, &op, -1);
	enum dlq_code want = m->where == GIVEN ? DLQ_CONFLICT : m->where != DEAD ? DLQ_NOT_FOUND : m->member ? DLQ_IN_REDRIVE : DLQ_OK;
	CHECK(s, op.code == want, "%s: %s", code_name(op.code), op.err.detail);
	engine_op_release(&op);
	if (want == DLQ_OK) {
		m->where = DISCARDED;
		s->discarded[m->queue]++;
		check_dead(s, m);
	}
}

static void do_pause(struct sim *s)
{
	int q = below(s, QUEUES);
	struct engine_op op = {.type = OP_QUEUE_PAUSE};
	s->paused[q] = op.u.queue_pause.paused = !s->paused[q];
	call(s, &op, q);
	CHECK(s, !op.code, "%s", op.err.detail);
	engine_op_release(&op);
}

static void do_clock(struct sim *s)
{
	int kind = below(s, 40);
	if (kind == 0)
		clock_advance(s->clock, below(s, 2 * RETENTION));
	else if (kind < 4)
		clock_set_wall(s->clock, clock_wall_ms(s->clock) + below(s, 172800000) - 86400000); /* invariant 13 */
	else
		clock_advance(s->clock, below(s, kind < 30 ? 3000 : 40000));
}

/* Invariant 8: a restart costs no attempt; a lease goes on and ends by its time. */
void do_restart(struct sim *s)
{
	int64_t wall = clock_wall_ms(s->clock);
	s->restarts++;
	engine_close(s->e);
	clock_free(s->clock);
	s->clock = clock_manual_new(wall);
	sim_open(s);
}

static void step(struct sim *s)
{
	static const struct {
		const char *name;
		int weight;
		void (*run)(struct sim *s);
	} steps[] = {
	    {"send", 30, do_send},      {"receive", 25, do_receive},        {"settle", 35, do_settle},
	    {"clock", 15, do_clock},    {"redrive", 3, do_redrive},         {"discard", 2, do_discard},
	    {"extend", 3, do_extend},   {"bad receipt", 3, do_bad_receipt}, {"pause", 1, do_pause},
	    {"restart", 1, do_restart}, {"guarded", 4, do_guarded},         {"planned", 5, do_planned},
	};
	int total = 0, at;
	for (size_t i = 0; i < ARRAY_LEN(steps); i++)
		total += steps[i].weight;
	at = below(s, total);
	size_t k = 0;
	while (at >= steps[k].weight)
		at -= steps[k++].weight;
	s->doing = steps[k].name;
	steps[k].run(s);
	int64_t next = engine_step(s->e);
	job_learn(s);
	m_tick(s);
	learn_dead(s);
	job_check(s);
	CHECK(s, next > now(s), "work is due at once after all work was done: it would spin");
	check_counts(s);
	check_groups(s);
}

/* ---- runs ---- */

static void queue_put(struct sim *s, int q)
{
	char json[400];
	struct arena a = {0};
	struct doc *d = NULL;
	struct queue_config *config = NULL;
	struct dlq_err err = {0};
	snprintf(
	    json, sizeof(json),
	    "{\"ordered\": %s, \"dedup_window\": \"60s\", \"max_in_flight\": %d, \"policy\": {\"max_attempts\": %d, "
	    "\"backoff\": [\"10s\", \"1m\"], \"jitter\": \"none\", \"crash_limit\": %d, \"visibility_timeout\": "
	    "\"30s\", \"retention\": \"1h\", "
	    "\"max_redrives\": %d}}",
	    q == ORDERED ? "true" : "false", MAX_IN_FLIGHT, MAX_ATTEMPTS, CRASH_LIMIT, MAX_REDRIVES);
	enum dlq_code c = doc_from_json(&a, str_of(json), "sim", &d, &err);
	if (!c)
		c = queue_config_parse(d, str_of(queue_names[q]), (struct str){0}, &config, &err);
	CHECK(s, !c, "%s", err.detail);
	struct engine_op op = {.type = OP_QUEUE_PUT};
	op.u.queue_put.config = config;
	call(s, &op, q);
	CHECK(s, !op.code && op.u.queue_put.created, "%s", op.err.detail);
	engine_op_release(&op);
	queue_config_unref(config);
	arena_release(&a);
}

/* Of the indexes of the archive. */
static int64_t lines_in(const char *dir)
{
	int64_t n = 0;
	DIR *d = opendir(dir);
	for (struct dirent *f; d && (f = readdir(d));) {
		char path[600];
		snprintf(path, sizeof(path), "%s/%s", dir, f->d_name);
		FILE *in = strstr(f->d_name, ".index") ? fopen(path, "r") : NULL;
		for (int c; in && (c = getc(in)) != EOF;)
			n += c == '\n';
		if (in)
			fclose(in);
	}
	if (d)
		closedir(d);
	return n;
}

/* Given up, and still in the store until their retention ends. */
static int64_t given_up(struct sim *s, int q)
{
	int64_t n = 0, before = 0;
	do {
		struct engine_op op = {.type = OP_READ_DEAD_LIST};
		op.u.read_dead_list.filter =
		    (struct store_dead_filter){.state = DEAD_ARCHIVED, .reason = -1, .limit = 1000, .before_no = before};
		call(s, &op, q);
		CHECK(s, !op.code, "%s", op.err.detail);
		n += op.u.read_dead_list.page.n;
		before = op.u.read_dead_list.page.next_no;
		engine_op_release(&op);
	} while (before);
	return n;
}

/* Invariant 5: what left the store is in the archive's files, once each. */
static void check_archive(struct sim *s)
{
	s->doing = "the archive";
	for (int q = 0; q < QUEUES; q++) {
		char dir[200];
		struct engine_op op = {.type = OP_READ_QUEUE};
		call(s, &op, q);
		snprintf(dir, sizeof(dir), "%s/archive/%s", s->dir, queue_names[q]);
		int64_t n = lines_in(dir), kept = given_up(s, q);
		CHECK(s, !op.code && n + kept == op.u.read_queue.out.counts.archived,
		      "%" PRId64 " lines, %" PRId64 " given up, %" PRId64 " archived", n, kept,
		      op.u.read_queue.out.counts.archived);
		engine_op_release(&op);
	}
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static void run(uint64_t seed, int steps)
{
	struct sim s = {.seed = seed, .doing = "start", .dir = "/tmp/dlq-sim-XXXXXX"};
	s.m = calloc(MSGS_MAX, sizeof(*s.m));
	assert_non_null(s.m);
	assert_non_null(mkdtemp(s.dir));
	rnd_seed(&s.rnd, seed);
	s.clock = clock_manual_new(1800000000000);
	sim_open(&s);
	for (int q = 0; q < QUEUES; q++)
		queue_put(&s, q);
	for (s.step = 0; s.step < steps; s.step++)
		step(&s);
	check_archive(&s);
	for (int q = 0; q < QUEUES; q++) {
		seen.sent += s.sent[q];
		seen.done += s.done[q];
		seen.failed += s.failed[q];
		seen.died += s.died[q];
		seen.discarded += s.discarded[q];
		seen.archived += s.archived[q];
		seen.duplicates += s.duplicates[q];
	}
	seen.redriven += s.redriven;
	seen.restarts += s.restarts;
	seen.jobs += s.jobs;
	seen.halts += s.halts;
	seen.jobs_done += s.jobs_done;
	seen.plans += s.plans;
	seen.given += s.given;
	seen.moved += s.moved;
	for (int i = 0; i < ACTION_COUNT; i++)
		seen.planned[i] += s.planned[i];
	engine_close(s.e);
	clock_free(s.clock);
	nftw(s.dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	free(s.m);
}

static void test_model(void **state)
{
	(void)state;
	const char *seed = getenv("DLQ_SEED"), *steps = getenv("DLQ_STEPS"), *seeds = getenv("DLQ_SEEDS");
	int n = steps ? atoi(steps) : 2500, runs = seeds ? atoi(seeds) : SEEDS;
	if (seed) {
		run(strtoull(seed, NULL, 10), n);
		return;
	}
	for (int i = 1; i <= runs; i++)
		run((uint64_t)i, n);
	printf("sent %" PRId64 ", done %" PRId64 ", failed %" PRId64 ", died %" PRId64 ", redriven %" PRId64
	       ", discarded %" PRId64 ", archived %" PRId64 ", duplicates %" PRId64 ", restarts %" PRId64
	       ", guarded redrives %" PRId64 ", halted %" PRId64 ", done %" PRId64 ", given up %" PRId64 ", moved %" PRId64 ", plans %" PRId64
	       " (put back %" PRId64 ", discarded %" PRId64 ", archived %" PRId64 ", restored %" PRId64 ")\n",
	       seen.sent, seen.done, seen.failed, seen.died, seen.redriven, seen.discarded, seen.archived,
	       seen.duplicates, seen.restarts, seen.jobs, seen.halts, seen.jobs_done, seen.given, seen.moved, seen.plans, seen.planned[ACTION_REDRIVE],
	       seen.planned[ACTION_DISCARD], seen.planned[ACTION_ARCHIVE], seen.planned[ACTION_RESTORE]);
	if (runs < SEEDS)
		return; /* too few to meet everything */
	for (int i = 0; i < ACTION_COUNT; i++)
		assert_true(seen.planned[i] > 0);
	assert_true(seen.sent && seen.done && seen.failed && seen.died && seen.redriven && seen.discarded &&
	            seen.archived && seen.duplicates && seen.restarts && seen.jobs && seen.halts &&
	            seen.jobs_done && seen.given && seen.plans && seen.moved);
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "jq-child"))
		return jq_child_main();
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_model)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
