/* Guarded redrives against the model: it says what must hold, the ledger says who was put back. */
#include "engine/guard.h"
#include "lib_model.h"

bool job_open(const struct sim *s)
{
	return s->job.known && (s->job.state == REDRIVE_RUNNING || s->job.state == REDRIVE_PAUSED || s->job.state == REDRIVE_HALTED);
}

static void job_start(struct sim *s)
{
	int q = below(s, QUEUES), dead = 0, can = 0;
	for (int i = 0; i < s->n; i++) {
		dead += s->m[i].queue == q && s->m[i].where == DEAD;
		can += s->m[i].queue == q && s->m[i].where == DEAD && s->m[i].redrives < MAX_REDRIVES;
	}
	if (!can)
		return;
	struct engine_op op = {.type = OP_REDRIVE};
	op.u.redrive.reason = STR("mended, carefully");
	op.u.redrive.guard = (struct redrive_guard){
	    .first = below(s, 4),
	    .rate = below(s, 2) ? 0.2 + below(s, 20) / 10.0 : 0,
	    .stop_count = below(s, 4),
	};
	if (op.u.redrive.guard.first && below(s, 2))
		op.u.redrive.guard.canary_wait_ms = 1000 + below(s, 100000);
	if (!guard_set(&op.u.redrive.guard))
		op.u.redrive.guard.first = 1;
	s->job = (struct mjob){.known = true, .queue = q, .guard = op.u.redrive.guard, .total = dead};
	for (int i = 0; i < s->n; i++) {
		s->m[i].counted = false;
		s->m[i].member = s->m[i].queue == q && s->m[i].where == DEAD;
	}
	call(s, &op, q);
	CHECK(s, !op.code, "%s", op.err.detail);
	CHECK(s, op.u.redrive.out.total == dead, "total %" PRId64 ", the model says %d", op.u.redrive.out.total, dead);
	memcpy(s->job.id, op.u.redrive.out.redrive_id, sizeof(s->job.id));
	engine_op_release(&op);
	s->jobs++;
	/* Its members are taken (invariant 9). */
	op = (struct engine_op){.type = OP_REDRIVE};
	op.u.redrive.reason = STR("me too");
	if (s->job.guard.first && s->job.guard.first < can) {
		call(s, &op, q);
		CHECK(s, op.code == DLQ_IN_REDRIVE, "a second redrive: %s", code_name(op.code));
	}
	engine_op_release(&op);
}

static void job_control(struct sim *s)
{
	struct engine_op op = {.type = OP_REDRIVE_CONTROL};
	enum redrive_state was = s->job.state;
	enum redrive_state want = was != REDRIVE_RUNNING && below(s, 4) ? REDRIVE_RUNNING : below(s, 3) ? REDRIVE_PAUSED : REDRIVE_CANCELLED;
	op.u.redrive_control.id = str_of(s->job.id);
	op.u.redrive_control.want = want;
	call(s, &op, -1);
	bool refused = want == was || (want == REDRIVE_PAUSED && was == REDRIVE_HALTED);
	CHECK(s, op.code == (refused ? DLQ_CONFLICT : DLQ_OK), "%s: %s", code_name(op.code), op.err.detail);
	engine_op_release(&op);
	if (refused)
		return;
	if (was == REDRIVE_HALTED && want == REDRIVE_RUNNING) {
		s->job.base_failed = s->job.failed;
		if (!s->job.past) {
			s->job.past = true;
			s->job.past_at = now(s);
			s->job.past_sent = s->job.sent;
		}
	}
	if (was == REDRIVE_PAUSED && s->job.waits_from)
		s->job.waits_from = now(s);
	for (int i = 0; i < s->n && want == REDRIVE_CANCELLED; i++)
		s->m[i].member = false;
}

void do_guarded(struct sim *s)
{
	if (job_open(s))
		job_control(s);
	else
		job_start(s);
}

/* Who was put back by now. */
void job_learn(struct sim *s)
{
	if (!s->job.known)
		return;
	struct engine_op op = {.type = OP_READ_REDRIVE_ITEMS};
	op.u.read_redrive_items.id = str_of(s->job.id);
	op.u.read_redrive_items.limit = 1000;
	call(s, &op, -1);
	CHECK(s, !op.code, "%s", op.err.detail);
	for (int i = 0; i < op.u.read_redrive_items.n; i++) {
		const struct store_redrive_item *it = &op.u.read_redrive_items.items[i];
		struct mmsg *m = m_by_seq(s, it->seq);
		if (it->state == ITEM_SKIPPED && m)
			m->member = false;
		if (it->state == ITEM_SELECTED || it->state == ITEM_SKIPPED || it->state == ITEM_CANCELLED || !m || !m->member)
			continue;
		CHECK(s, m->where == DEAD, "%s was put back and was not dead", m->id);
		m->member = false;
		m->counted = true;
		s->job.sent++;
		m_redrive(s, m);
	}
	engine_op_release(&op);
}

void job_check(struct sim *s)
{
	struct mjob *j = &s->job;
	if (!j->known)
		return;
	struct engine_op op = {.type = OP_READ_REDRIVE};
	op.u.read_redrive.id = str_of(j->id);
	call(s, &op, -1);
	CHECK(s, !op.code, "%s", op.err.detail);
	const struct store_redrive *r = &op.u.read_redrive.out;
	CHECK(s, r->sent == j->sent && r->succeeded == j->succeeded && r->failed_again == j->failed,
	      "sent %" PRId64 "/%" PRId64 ", succeeded %" PRId64 "/%" PRId64 ", failed again %" PRId64 "/%" PRId64, r->sent, j->sent,
	      r->succeeded, j->succeeded, r->failed_again, j->failed);
	int64_t known = j->succeeded + j->failed, failed = j->failed - j->base_failed, wait = j->guard.canary_wait_ms;
	wait = wait ? wait : CANARY_WAIT_DEFAULT_MS;
	bool stop = j->guard.stop_count && failed >= j->guard.stop_count, halts = r->state == REDRIVE_HALTED;
	if (!j->waits_from && r->canary_until > 0)
		j->waits_from = r->canary_until - wait;
	if (!j->past && (!j->guard.first || r->canary_until == CANARY_PASSED)) {
		CHECK(s, !j->guard.first || ((known == j->sent || known == j->guard.first) && !stop && (!j->failed || j->guard.stop_count)), "the canary passed: %" PRId64 " of %" PRId64
		      " failed again, %" PRId64 " sent, first %" PRId64 ", state was %d, is %d", j->failed, known, j->sent,
		      j->guard.first, j->state, r->state);
		j->past = true;
		j->past_at = now(s);
		j->past_sent = j->guard.first < j->sent ? j->guard.first : j->sent;
	}
	CHECK(s, j->past || j->sent <= j->guard.first, "%" PRId64 " put back before the canary's outcomes", j->sent);
	if (halts && j->state != REDRIVE_HALTED) {
		s->halts++;
		CHECK(s, r->halted_why.n > 0, "no reason");
		CHECK(s, stop || (!j->past && j->failed && known == j->sent) ||
		             (!j->past && known < j->sent && now(s) >= j->waits_from + wait),
		      "halted without a cause: " STR_FMT, STR_ARG(r->halted_why));
	}
	if (r->state == REDRIVE_RUNNING) {
		CHECK(s, !stop, "%" PRId64 " failed again and it still runs", failed);
		CHECK(s, j->past || !j->waits_from || now(s) < j->waits_from + wait, "it waits for ever");
	}
	if (j->guard.rate > 0 && j->past) {
		double most = j->guard.rate * (double)(now(s) - j->past_at) / 1000 + (j->guard.rate > 1 ? j->guard.rate : 1);
		CHECK(s, (double)(j->sent - j->past_sent) <= most + 1, "%" PRId64 " put back in the ramp, at most %g",
		      j->sent - j->past_sent, most);
	}
	s->jobs_done += r->state == REDRIVE_DONE && j->state != REDRIVE_DONE;
	CHECK(s, r->state != REDRIVE_DONE || r->sent + r->skipped == r->total, "done with %" PRId64 " + %" PRId64 " of %" PRId64,
	      r->sent, r->skipped, r->total);
	j->state = r->state;
	engine_op_release(&op);
}
