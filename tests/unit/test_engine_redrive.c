/*
 * Guarded redrives on the engine: the canary, its outcomes, the ramp, halts, and a restart in every phase. The clock is
 * manual; nothing waits.
 */
#include <stdio.h>
#include <string.h>

#include "lib_engine.h"

#define N 20

struct job {
	struct fix *f;
	char id[ULID_LEN + 1];
	char dead_id[ULID_LEN + 1]; /* the newest dead letter */
};

static void job_setup(struct job *j, int n)
{
	*j = (struct job){.f = fix_new(&(struct engine_options){.single_step = true})};
	assert_int_equal(fix_queue(j->f, "q", "{\"policy\": {\"max_attempts\": 1, \"max_redrives\": 10}}"), DLQ_OK);
	fix_make_dead(j->f, "q", n, j->dead_id);
}

static enum dlq_code job_start(struct job *j, struct redrive_guard guard)
{
	struct engine_op op = {.type = OP_REDRIVE, .queue = STR("q"), .operator= STR("ann")};
	op.u.redrive.guard = guard;
	op.u.redrive.reason = STR("mended");
	engine_call(j->f->e, &op);
	memcpy(j->id, op.u.redrive.out.redrive_id, sizeof(j->id));
	engine_op_release(&op);
	return op.code;
}

/* The job as it stands; why: its halt. */
static struct store_redrive job_read(struct job *j, char why[600])
{
	struct engine_op op = {.type = OP_READ_REDRIVE};
	op.u.read_redrive.id = str_of(j->id);
	engine_call(j->f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	struct store_redrive r = op.u.read_redrive.out;
	if (why)
		snprintf(why, 600, STR_FMT, STR_ARG(r.halted_why));
	engine_op_release(&op);
	return r;
}

static enum dlq_code job_control(struct job *j, enum redrive_state want)
{
	struct engine_op op = {.type = OP_REDRIVE_CONTROL, .operator= STR("ann")};
	op.u.redrive_control.id = str_of(j->id);
	op.u.redrive_control.want = want;
	engine_call(j->f->e, &op);
	engine_op_release(&op);
	return op.code;
}

static struct store_counts counts(struct fix *f)
{
	struct engine_op op = {.type = OP_READ_QUEUE, .queue = STR("q")};
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	struct store_counts c = op.u.read_queue.out.counts;
	engine_op_release(&op);
	return c;
}

/* A worker takes up to max messages and settles each. Returns how many. */
static int work(struct fix *f, int max, enum outcome outcome)
{
	int n = 0;
	char receipt[RECEIPT_LEN + 1];
	for (; n < max; n++) {
		struct engine_op op = {.type = OP_RECEIVE, .queue = STR("q")};
		op.u.receive.max = 1;
		engine_call(f->e, &op);
		assert_int_equal(op.code, DLQ_OK);
		if (!op.u.receive.n) {
			engine_op_release(&op);
			break;
		}
		memcpy(receipt, op.u.receive.items[0].receipt, sizeof(receipt));
		engine_op_release(&op);
		assert_int_equal(fix_settle(f, "q", receipt, outcome).code, DLQ_OK);
	}
	return n;
}

static void restart(struct job *j)
{
	engine_close(j->f->e);
	fix_open(j->f);
	engine_step(j->f->e);
}

/* How many audit rows have the action; the newest one's reason and detail. */
static int audited(struct fix *f, const char *action, char reason[600], char detail[600])
{
	struct engine_op op = {.type = OP_READ_AUDIT};
	int n = 0;
	op.u.read_audit.limit = 1000;
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	for (int i = 0; i < op.u.read_audit.n; i++) {
		const struct store_audit *a = &op.u.read_audit.items[i];
		if (!str_eqz(a->action, action))
			continue;
		if (!n++ && reason) {
			snprintf(reason, 600, STR_FMT, STR_ARG(a->reason));
			snprintf(detail, 600, STR_FMT, STR_ARG(a->detail));
		}
	}
	engine_op_release(&op);
	return n;
}

/* ---- the canary ---- */

static void test_canary_halts(void **state)
{
	(void)state;
	struct job j;
	char why[600], reason[600], detail[600];
	job_setup(&j, N);
	assert_int_equal(job_start(&j, (struct redrive_guard){.first = 5, .stop_percent = 10}), DLQ_OK);
	assert_int_equal(counts(j.f).ready, 5);
	assert_int_equal(counts(j.f).dead, N - 5);
	clock_advance(j.f->clock, 60000);
	assert_true(engine_step(j.f->e) > clock_now_ms(j.f->clock)); /* it waits and does not spin */
	assert_int_equal(counts(j.f).ready, 5);
	assert_int_equal(work(j.f, N, OUTCOME_PERMANENT), 5);
	struct store_redrive r = job_read(&j, why);
	assert_int_equal(r.state, REDRIVE_HALTED);
	assert_int_equal(r.sent, 5);
	assert_int_equal(r.failed_again, 5);
	assert_string_equal(why, "5 of 5 canary messages failed again (100% > 10%): Boom");
	assert_int_equal(audited(j.f, "redrive.halt", reason, detail), 1);
	assert_string_equal(reason, why);
	assert_string_equal(detail, "5 of 20 put back, 0 succeeded, 5 failed again");
	/* Only the first five were touched, and nothing goes on by itself. */
	clock_advance(j.f->clock, 7200000);
	assert_int_equal(engine_step(j.f->e) > clock_now_ms(j.f->clock), 1);
	assert_int_equal(work(j.f, N, OUTCOME_OK), 0);
	restart(&j);
	assert_int_equal(counts(j.f).dead, N);
	assert_int_equal(job_read(&j, why).state, REDRIVE_HALTED);
	assert_int_equal(job_control(&j, REDRIVE_PAUSED), DLQ_CONFLICT);
	/* The rest still belongs to it; cancelled, they are free. */
	struct job other = j;
	assert_int_equal(job_start(&other, (struct redrive_guard){0}), DLQ_IN_REDRIVE);
	assert_int_equal(job_control(&j, REDRIVE_CANCELLED), DLQ_OK);
	r = job_read(&j, NULL);
	assert_int_equal(r.state, REDRIVE_CANCELLED);
	assert_int_equal(r.cancelled, N - 5);
	assert_int_equal(job_start(&other, (struct redrive_guard){0}), DLQ_OK);
	assert_int_equal(counts(j.f).ready, N);
	fix_free(j.f);
}

static void test_canary_passes(void **state)
{
	(void)state;
	struct job j;
	job_setup(&j, N);
	assert_int_equal(job_start(&j, (struct redrive_guard){.first = 5, .stop_percent = 10}), DLQ_OK);
	assert_int_equal(work(j.f, 4, OUTCOME_OK), 4);
	assert_int_equal(counts(j.f).dead, N - 5); /* one outcome is missing */
	assert_int_equal(work(j.f, 1, OUTCOME_OK), 1);
	assert_int_equal(counts(j.f).dead, 0);
	assert_int_equal(job_read(&j, NULL).state, REDRIVE_DONE);
	assert_int_equal(work(j.f, N, OUTCOME_OK), N - 5);
	struct store_redrive r = job_read(&j, NULL);
	assert_int_equal(r.succeeded, N);
	assert_int_equal(r.sent + r.skipped, N);
	fix_free(j.f);
}

/* The outcome is the real one: a canary message that is tried again is not known yet. */
static void test_canary_wait_ends(void **state)
{
	(void)state;
	struct job j;
	char why[600];
	job_setup(&j, N);
	assert_int_equal(fix_queue(j.f, "q", "{\"policy\": {\"max_attempts\": 2, \"backoff\": [\"1h\"]}}"), DLQ_OK);
	assert_int_equal(job_start(&j, (struct redrive_guard){.first = 3, .stop_count = 100}), DLQ_OK);
	assert_int_equal(work(j.f, 1, OUTCOME_OK), 1);
	assert_int_equal(work(j.f, 1, OUTCOME_PERMANENT), 1);
	assert_int_equal(work(j.f, 1, OUTCOME_TRANSIENT), 1);
	clock_advance(j.f->clock, CANARY_WAIT_DEFAULT_MS - 1);
	assert_int_equal(engine_step(j.f->e), clock_now_ms(j.f->clock) + 1);
	assert_int_equal(job_read(&j, NULL).state, REDRIVE_RUNNING);
	clock_advance(j.f->clock, 1);
	engine_step(j.f->e);
	assert_int_equal(job_read(&j, why).state, REDRIVE_HALTED);
	assert_string_equal(why, "1 of 3 canary outcomes are missing after 10m (1 succeeded, 1 failed again): "
	                         "these messages wait for a worker or for a retry: Boom");
	fix_free(j.f);
}

/* A queue that is all canary: its outcomes are waited for as well, and then it is done or halted. */
static void test_all_canary(void **state)
{
	(void)state;
	for (int good = 0; good < 2; good++) {
		struct job j;
		job_setup(&j, 3);
		assert_int_equal(job_start(&j, (struct redrive_guard){.first = 5}), DLQ_OK);
		assert_int_equal(counts(j.f).ready, 3);
		assert_int_equal(job_read(&j, NULL).state, REDRIVE_RUNNING);
		assert_int_equal(work(j.f, 3, good ? OUTCOME_OK : OUTCOME_PERMANENT), 3);
		assert_int_equal(job_read(&j, NULL).state, good ? REDRIVE_DONE : REDRIVE_HALTED);
		if (!good) {
			assert_int_equal(job_control(&j, REDRIVE_RUNNING), DLQ_OK);
			assert_int_equal(job_read(&j, NULL).state, REDRIVE_DONE);
		}
		fix_free(j.f);
	}
}

/* ---- the ramp ---- */

static void test_rate(void **state)
{
	(void)state;
	struct job j;
	job_setup(&j, 60);
	assert_int_equal(job_start(&j, (struct redrive_guard){.first = 2, .rate = 20}), DLQ_OK);
	assert_int_equal(work(j.f, 2, OUTCOME_OK), 2);
	assert_int_equal(counts(j.f).ready, 0); /* the bucket starts empty */
	int64_t start = clock_now_ms(j.f->clock), wakes = 0;
	while (job_read(&j, NULL).state == REDRIVE_RUNNING) {
		int64_t next = engine_step(j.f->e), now = clock_now_ms(j.f->clock);
		assert_true(next > now);
		clock_advance(j.f->clock, next - now);
		engine_step(j.f->e);
		double seconds = (double)(clock_now_ms(j.f->clock) - start) / 1000;
		assert_true((double)counts(j.f).ready <= 20 * seconds + 0.01);
		assert_true((double)counts(j.f).ready >= 20 * seconds - 3);
		assert_true(++wakes < 100);
	}
	assert_int_equal(counts(j.f).ready, 58);
	assert_in_range(clock_now_ms(j.f->clock) - start, 2900, 3100);
	/* A long sleep gives one second's worth, no more. */
	assert_int_equal(work(j.f, 58, OUTCOME_PERMANENT), 58);
	assert_int_equal(job_start(&j, (struct redrive_guard){.rate = 20}), DLQ_OK);
	clock_advance(j.f->clock, 3600000);
	engine_step(j.f->e);
	assert_int_equal(counts(j.f).ready, 20);
	fix_free(j.f);
}

static void ramp_step(struct job *j, enum outcome outcome)
{
	clock_advance(j->f->clock, 100);
	engine_step(j->f->e);
	work(j->f, 1000, outcome);
}

static void test_ramp_halts(void **state)
{
	(void)state;
	struct job j;
	char why[600];
	job_setup(&j, 60);
	assert_int_equal(job_start(&j, (struct redrive_guard){.first = 2, .rate = 10, .stop_count = 3}), DLQ_OK);
	assert_int_equal(work(j.f, 2, OUTCOME_OK), 2);
	for (int i = 0; i < 5; i++)
		ramp_step(&j, OUTCOME_OK);
	for (int i = 0; i < 20; i++)
		ramp_step(&j, OUTCOME_PERMANENT);
	struct store_redrive r = job_read(&j, why);
	assert_int_equal(r.state, REDRIVE_HALTED);
	assert_int_equal(r.sent, 2 + 5 + 3);
	assert_string_equal(why, "3 of 10 messages with an outcome failed again (the limit is 3): Boom");
	/* Past the halt the count starts anew, also after a restart; who did it is on record. */
	char reason[600], detail[600];
	assert_int_equal(job_control(&j, REDRIVE_RUNNING), DLQ_OK);
	assert_int_equal(audited(j.f, "redrive.resume", reason, detail), 1);
	assert_non_null(strstr(detail, "3 of 10 messages"));
	r = job_read(&j, why);
	assert_int_equal(r.state, REDRIVE_RUNNING);
	assert_string_equal(why, "");
	restart(&j);
	for (int i = 0; i < 2; i++)
		ramp_step(&j, OUTCOME_PERMANENT);
	assert_int_equal(job_read(&j, NULL).state, REDRIVE_RUNNING);
	for (int i = 0; i < 3; i++)
		ramp_step(&j, OUTCOME_PERMANENT);
	r = job_read(&j, why);
	assert_int_equal(r.state, REDRIVE_HALTED);
	assert_int_equal(r.failed_again, 6);
	fix_free(j.f);
	/* By percentage, without a canary. */
	job_setup(&j, 60);
	assert_int_equal(job_start(&j, (struct redrive_guard){.rate = 10, .stop_percent = 25}), DLQ_OK);
	for (int i = 0; i < 16; i++)
		ramp_step(&j, OUTCOME_OK);
	for (int i = 0; i < 20; i++)
		ramp_step(&j, OUTCOME_PERMANENT);
	r = job_read(&j, why);
	assert_int_equal(r.state, REDRIVE_HALTED);
	assert_true(4 * r.failed_again > r.failed_again + r.succeeded);
	assert_true(4 * (r.failed_again - 1) <= r.failed_again - 1 + r.succeeded);
	assert_non_null(strstr(why, "% > 25%): Boom"));
	fix_free(j.f);
}

/* ---- pause, resume, cancel ---- */

static void test_control_in_phases(void **state)
{
	(void)state;
	struct job j;
	job_setup(&j, 30);
	assert_int_equal(job_start(&j, (struct redrive_guard){.first = 4, .rate = 10, .canary_wait_ms = 60000}), DLQ_OK);
	/* Paused while it waits: the wait does not run out meanwhile, and begins again. */
	assert_int_equal(job_control(&j, REDRIVE_PAUSED), DLQ_OK);
	clock_advance(j.f->clock, 3600000);
	engine_step(j.f->e);
	assert_int_equal(job_read(&j, NULL).state, REDRIVE_PAUSED);
	assert_int_equal(work(j.f, 2, OUTCOME_OK), 2);
	assert_int_equal(job_control(&j, REDRIVE_RUNNING), DLQ_OK);
	clock_advance(j.f->clock, 59999);
	engine_step(j.f->e);
	assert_int_equal(job_read(&j, NULL).state, REDRIVE_RUNNING);
	/* Outcomes that come during a pause are judged after it. */
	assert_int_equal(job_control(&j, REDRIVE_PAUSED), DLQ_OK);
	assert_int_equal(work(j.f, 2, OUTCOME_OK), 2);
	clock_advance(j.f->clock, 3600000);
	engine_step(j.f->e);
	assert_int_equal(counts(j.f).ready, 0);
	assert_int_equal(job_control(&j, REDRIVE_RUNNING), DLQ_OK);
	clock_advance(j.f->clock, 500);
	engine_step(j.f->e);
	assert_int_equal(counts(j.f).ready, 5);
	/* Paused in the ramp: the time of the pause gives no burst. */
	assert_int_equal(job_control(&j, REDRIVE_PAUSED), DLQ_OK);
	clock_advance(j.f->clock, 3600000);
	engine_step(j.f->e);
	assert_int_equal(counts(j.f).ready, 5);
	assert_int_equal(job_control(&j, REDRIVE_RUNNING), DLQ_OK);
	engine_step(j.f->e);
	assert_int_equal(counts(j.f).ready, 5);
	assert_int_equal(job_control(&j, REDRIVE_RUNNING), DLQ_CONFLICT);
	clock_advance(j.f->clock, 300);
	engine_step(j.f->e);
	assert_int_equal(counts(j.f).ready, 8);
	/* Cancelled: what was put back stays put back, the rest is free. */
	assert_int_equal(job_control(&j, REDRIVE_CANCELLED), DLQ_OK);
	clock_advance(j.f->clock, 3600000);
	engine_step(j.f->e);
	assert_int_equal(counts(j.f).ready, 8);
	struct store_redrive r = job_read(&j, NULL);
	assert_int_equal(r.sent, 12);
	assert_int_equal(r.cancelled, 18);
	assert_true(r.ended_at_ms > 0);
	assert_int_equal(job_control(&j, REDRIVE_RUNNING), DLQ_CONFLICT);
	fix_free(j.f);
}

/* ---- restarts ---- */

/* Every member is put back once, however often the engine starts anew: after every turn of the writer. */
static void test_restart_everywhere(void **state)
{
	(void)state;
	struct job j;
	const int n = REDRIVE_STEP + 40;
	job_setup(&j, n);
	struct engine_op op = {.type = OP_REDRIVE, .queue = STR("q"), .port = &j.f->in.port};
	op.u.redrive.guard = (struct redrive_guard){.first = REDRIVE_STEP + 10, .rate = 10, .stop_percent = 50};
	op.u.redrive.reason = STR("mended");
	engine_submit(j.f->e, &op);
	writer_once(j.f->e); /* one turn: the canary is not all out yet */
	assert_ptr_equal(inbox_try(&j.f->in), &op);
	assert_int_equal(op.code, DLQ_OK);
	memcpy(j.id, op.u.redrive.out.redrive_id, sizeof(j.id));
	engine_op_release(&op);
	engine_close(j.f->e);
	fix_open(j.f);
	assert_true(counts(j.f).ready <= REDRIVE_STEP + 10);
	restart(&j);
	assert_int_equal(counts(j.f).ready, REDRIVE_STEP + 10);
	/* In the wait. */
	assert_int_equal(work(j.f, REDRIVE_STEP, OUTCOME_OK), REDRIVE_STEP);
	restart(&j);
	assert_int_equal(counts(j.f).ready, 10);
	assert_int_equal(work(j.f, 10, OUTCOME_OK), 10);
	/* In the ramp: its bucket starts empty, and all that is left goes back. */
	int turns = 0;
	while (job_read(&j, NULL).state == REDRIVE_RUNNING && turns++ < 200) {
		clock_advance(j.f->clock, 150);
		engine_step(j.f->e);
		restart(&j);
	}
	struct store_redrive r = job_read(&j, NULL);
	assert_int_equal(r.state, REDRIVE_DONE);
	assert_int_equal(r.sent, n);
	assert_int_equal(r.skipped, 0);
	assert_int_equal(work(j.f, n, OUTCOME_OK), 30);
	assert_int_equal(job_read(&j, NULL).succeeded, n);
	assert_int_equal(counts(j.f).redriven, n);
	fix_free(j.f);
}

/* The error of a halt is also known when its failures came before the restart. */
static void test_halt_after_restart(void **state)
{
	(void)state;
	struct job j;
	char why[600];
	job_setup(&j, N);
	assert_int_equal(job_start(&j, (struct redrive_guard){.first = 3, .stop_percent = 10}), DLQ_OK);
	assert_int_equal(work(j.f, 2, OUTCOME_PERMANENT), 2);
	restart(&j);
	assert_int_equal(job_read(&j, NULL).state, REDRIVE_RUNNING);
	assert_int_equal(work(j.f, 1, OUTCOME_OK), 1);
	assert_int_equal(job_read(&j, why).state, REDRIVE_HALTED);
	assert_string_equal(why, "2 of 3 canary messages failed again (66.7% > 10%): Boom");
	fix_free(j.f);
}

/* ---- the ledger ---- */

static void ledger(struct job *j, int64_t n[ITEM_STATE_COUNT])
{
	int64_t after = 0;
	memset(n, 0, ITEM_STATE_COUNT * sizeof(*n));
	do {
		struct engine_op op = {.type = OP_READ_REDRIVE_ITEMS};
		op.u.read_redrive_items.id = str_of(j->id);
		op.u.read_redrive_items.after_ord = after;
		op.u.read_redrive_items.limit = 7;
		engine_call(j->f->e, &op);
		assert_int_equal(op.code, DLQ_OK);
		for (int i = 0; i < op.u.read_redrive_items.n; i++) {
			const struct store_redrive_item *it = &op.u.read_redrive_items.items[i];
			assert_int_equal(strlen(it->dlq_id), ULID_LEN);
			n[it->state]++;
			if (it->state == ITEM_SUCCEEDED || it->state == ITEM_FAILED_AGAIN)
				assert_true(it->sent_at_ms > 0 && it->outcome_at_ms >= it->sent_at_ms);
		}
		after = op.u.read_redrive_items.next_ord;
		engine_op_release(&op);
	} while (after);
}

static void test_ledger(void **state)
{
	(void)state;
	struct job j;
	int64_t n[ITEM_STATE_COUNT];
	job_setup(&j, N);
	assert_int_equal(job_start(&j, (struct redrive_guard){.first = 5}), DLQ_OK);
	assert_int_equal(work(j.f, 2, OUTCOME_OK), 2);
	assert_int_equal(work(j.f, 1, OUTCOME_PERMANENT), 1);
	ledger(&j, n);
	assert_int_equal(n[ITEM_SUCCEEDED], 2);
	assert_int_equal(n[ITEM_FAILED_AGAIN], 1);
	assert_int_equal(n[ITEM_SENT], 2);
	assert_int_equal(work(j.f, 2, OUTCOME_OK), 2);
	assert_int_equal(job_read(&j, NULL).state, REDRIVE_HALTED);
	assert_int_equal(job_control(&j, REDRIVE_CANCELLED), DLQ_OK);
	ledger(&j, n);
	assert_int_equal(n[ITEM_SUCCEEDED], 4);
	assert_int_equal(n[ITEM_FAILED_AGAIN], 1);
	struct engine_op op = {.type = OP_READ_REDRIVE_ITEMS};
	op.u.read_redrive_items.id = STR("01ARZ3NDEKTSV4RRFFQ69G5FAV");
	op.u.read_redrive_items.limit = 7;
	engine_call(j.f->e, &op);
	assert_int_equal(op.code, DLQ_NOT_FOUND);
	engine_op_release(&op);
	fix_free(j.f);
}

/* ---- what is refused ---- */

static void test_refusals(void **state)
{
	(void)state;
	struct job j;
	job_setup(&j, 2);
	assert_int_equal(job_start(&j, (struct redrive_guard){.first = -1}), DLQ_BAD_REQUEST);
	assert_int_equal(job_start(&j, (struct redrive_guard){.rate = -1}), DLQ_BAD_REQUEST);
	struct str id = str_of(j.dead_id), body = STR("new");
	struct engine_op op = {.type = OP_REDRIVE};
	op.u.redrive.sel.ids = &id;
	op.u.redrive.sel.n_ids = 1;
	op.u.redrive.body = &body;
	op.u.redrive.guard.first = 1;
	op.u.redrive.reason = STR("why");
	engine_call(j.f->e, &op);
	assert_int_equal(op.code, DLQ_BAD_REQUEST);
	op.u.redrive.body = NULL;
	op.u.redrive.sel.group = STR("00000000000000000000000000000000");
	engine_call(j.f->e, &op);
	assert_int_equal(op.code, DLQ_BAD_REQUEST);
	op.u.redrive.sel.n_ids = 0;
	engine_call(j.f->e, &op);
	assert_int_equal(op.code, DLQ_NOT_FOUND);
	/* One id with a guard is a job as any other. */
	op.u.redrive.sel.n_ids = 1;
	op.u.redrive.sel.group = (struct str){0};
	engine_call(j.f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	memcpy(j.id, op.u.redrive.out.redrive_id, sizeof(j.id));
	assert_int_equal(job_read(&j, NULL).state, REDRIVE_RUNNING);
	assert_int_equal(work(j.f, 2, OUTCOME_OK), 1);
	assert_int_equal(job_read(&j, NULL).state, REDRIVE_DONE);
	engine_op_release(&op);
	fix_free(j.f);
}

/* A dead letter whose redrives are used up goes back only if that is said. */
static void test_override(void **state)
{
	(void)state;
	struct job j;
	job_setup(&j, 1);
	struct str id = str_of(j.dead_id);
	struct engine_op op = {.type = OP_REDRIVE};
	op.u.redrive.sel.ids = &id;
	op.u.redrive.sel.n_ids = 1;
	op.u.redrive.reason = STR("why");
	engine_call(j.f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	assert_int_equal(work(j.f, 1, OUTCOME_PERMANENT), 1);
	assert_int_equal(fix_queue(j.f, "q", "{\"policy\": {\"max_attempts\": 1, \"max_redrives\": 1}}"), DLQ_OK);
	engine_call(j.f->e, &op);
	assert_int_equal(op.code, DLQ_CONFLICT);
	op.u.redrive.override_limit = true;
	op.u.redrive.dry_run = true;
	engine_call(j.f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	assert_int_equal(op.u.redrive.out.total, 1);
	op.u.redrive.dry_run = false;
	engine_call(j.f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	assert_int_equal(work(j.f, 1, OUTCOME_OK), 1);
	engine_op_release(&op);
	fix_free(j.f);
}

static void test_restore(void **state)
{
	(void)state;
	struct job j;
	job_setup(&j, 2);
	struct engine_op op = {.type = OP_DISCARD, .operator= STR("ann")};
	op.u.discard.id = str_of(j.dead_id);
	op.u.discard.reason = STR("not wanted");
	struct engine_op back = op;
	back.type = OP_RESTORE;
	engine_call(j.f->e, &back);
	assert_int_equal(back.code, DLQ_CONFLICT); /* it is dead, not discarded */
	engine_call(j.f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	assert_int_equal(counts(j.f).dead, 1);
	back.u.discard.reason = (struct str){0};
	engine_call(j.f->e, &back);
	assert_int_equal(back.code, DLQ_BAD_REQUEST);
	back.u.discard.reason = STR("wanted after all");
	engine_call(j.f->e, &back);
	assert_int_equal(back.code, DLQ_OK);
	assert_int_equal(counts(j.f).dead, 2);
	assert_int_equal(audited(j.f, "dead.restore", NULL, NULL), 1);
	engine_call(j.f->e, &back);
	assert_int_equal(back.code, DLQ_CONFLICT);
	back.u.discard.id = STR("01ARZ3NDEKTSV4RRFFQ69G5FAV");
	engine_call(j.f->e, &back);
	assert_int_equal(back.code, DLQ_NOT_FOUND);
	assert_int_equal(job_start(&j, (struct redrive_guard){0}), DLQ_OK);
	assert_int_equal(work(j.f, 3, OUTCOME_OK), 2);
	fix_free(j.f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_canary_halts),      cmocka_unit_test(test_canary_passes),
	    cmocka_unit_test(test_canary_wait_ends),  cmocka_unit_test(test_all_canary),
	    cmocka_unit_test(test_rate),              cmocka_unit_test(test_ramp_halts),
	    cmocka_unit_test(test_control_in_phases), cmocka_unit_test(test_restart_everywhere),
	    cmocka_unit_test(test_halt_after_restart), cmocka_unit_test(test_ledger),
	    cmocka_unit_test(test_refusals),          cmocka_unit_test(test_override),
	    cmocka_unit_test(test_restore),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
