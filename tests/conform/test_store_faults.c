/* Every write, sync and truncate fails once: no success is told for what is not there, and the store heals or says why
 * not. */
#include <errno.h>
#include <sqlite3.h>

#include "lib_faultvfs.h"
#include "lib_store.h"

/* A commit is few calls, as its frames go out together: enough of them to fail in many places. */
enum { STEPS = 10, PER_STEP = 40 };

struct run {
	struct world w;
	int told;           /* transactions for which commit said OK */
	enum dlq_code code; /* of the first that failed */
};

static void open_it(struct run *r)
{
	struct store_options o = {.dir = r->w.dir, .clock = r->w.clock};
	OK(&r->w, r->w.ops->open(&o, &r->w.s, &r->w.err));
}

/* One transaction: sends, a delivery settled, one that dies. */
static enum dlq_code step(struct run *r)
{
	struct world *w = &r->w;
	char body[3000];
	struct store_delivery d[2];
	int64_t nonces[2] = {++w->nonce, ++w->nonce};
	struct store_lease l;
	struct store_group_key key = {.fp = {7}, .version = 1, .error_type = STR("E"), .normal = STR("n"), .sample = STR("s")};
	struct store_attempt at = {.group = &key,
	                           .worker = STR("w"),
	                           .worker_version = STR("1.0"),
	                           .n = 1,
	                           .at_ms = T0,
	                           .outcome = 2,
	                           .error_type = STR("E"),
	                           .exit_code = -1};
	char id[ULID_LEN + 1];
	bool unheld;
	int n = 0;
	memset(body, 'x', sizeof(body));
	enum dlq_code c = w->ops->begin(w->s, &w->err);
	if (c)
		return c;
	for (int i = 0; i < PER_STEP && !c; i++) {
		struct store_send m = {.headers = STR("{\"tenant\":\"a\"}"), .body = (struct str){body, sizeof(body)}, .due = T0};
		c = w->ops->send(w->s, w->q, 0, 0, &m, 1, &w->err);
	}
	if (!c)
		c = w->ops->claim(w->s, w->q, T0, T0 + 1000, STR("w"), nonces, 2, &w->a, d, &n, &w->err);
	if (!c)
		c = w->ops->done(w->s, w->q, d[0].seq, d[0].nonce, &unheld, &w->err);
	if (!c)
		c = w->ops->lease_get(w->s, w->q, d[1].seq, d[1].nonce, &w->a, &l, &w->err);
	if (!c)
		c = w->ops->bury(w->s, &l, &at, 0, REASON_PERMANENT, T0 + 9999, false, false, id, &w->err);
	if (c) {
		w->ops->rollback(w->s);
		return c;
	}
	return w->ops->commit(w->s, &w->err);
}

static void expect_counts(struct run *r, int steps)
{
	const struct store_counts *c = counts(&r->w);
	if (c->sent != (int64_t)steps * PER_STEP || c->done != steps || c->dead != steps ||
	    c->ready != (int64_t)steps * (PER_STEP - 2) || c->leased)
		fail_msg("after %d transactions: sent %lld done %lld dead %lld ready %lld leased %lld", steps,
		         (long long)c->sent, (long long)c->done, (long long)c->dead, (long long)c->ready,
		         (long long)c->leased);
}

static void expect_group(struct run *r, int steps)
{
	struct store_reader *reader;
	struct store_group g = {0};
	uint8_t fp[16] = {7};
	OK(&r->w, r->w.ops->reader_open(r->w.s, &reader, &r->w.err));
	EXPECT(&r->w, steps ? DLQ_OK : DLQ_NOT_FOUND, r->w.ops->read_group(reader, fp, &r->w.a, &g, &r->w.err));
	r->w.ops->reader_close(reader);
	assert_int_equal(g.dead, steps);
	assert_int_equal(g.failures, steps);
}

static bool run_once(int n, int rc, int sys_errno, bool sticky, enum dlq_code want)
{
	struct run r = {.w = {.ops = store_backend("sqlite")}};
	struct world *w = &r.w;
	snprintf(w->dir, sizeof(w->dir), "/tmp/dlq-fault-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	w->clock = clock_manual_new(T0);
	open_it(&r);
	begin(w);
	OK(w, w->ops->queue_create(w->s, STR("q"), STR("{}"), false, &w->q, &w->err));
	commit(w);
	faultvfs_arm(n, rc, sys_errno, sticky);
	for (int i = 0; i < STEPS; i++) {
		enum dlq_code c = step(&r);
		if (c) {
			r.code = c;
			break;
		}
		r.told++;
		w->ops->maintain(w->s);
	}
	bool fired = faultvfs_fired();
	assert_true(fired || r.told == STEPS);
	if (r.code) {
		if (r.code != want)
			fail_msg("fault %d: %s expected, got %s (%s)", n, code_name(want), code_name(r.code),
			         w->err.detail);
		expect_counts(&r, r.told); /* memory: as if it had not been tried */
		if (!sticky)
			expect_group(&r, r.told);
		if (sticky)
			assert_int_not_equal(w->ops->probe(w->s, &w->err), DLQ_OK);
	}
	faultvfs_arm(0, 0, 0, false);
	if (r.code == DLQ_STORE_FULL) { /* there is space again: it goes on in the same process */
		OK(w, w->ops->probe(w->s, &w->err));
		OK(w, step(&r));
		r.told++;
	}
	w->ops->close(w->s);
	store_check("sqlite", w->dir);
	open_it(&r);
	expect_counts(&r, r.told);
	expect_group(&r, r.told);
	w->ops->close(w->s);
	arena_release(&w->a);
	clock_free(w->clock);
	folder_remove(w->dir);
	return fired;
}

static void every_fault(int rc, int sys_errno, bool sticky, enum dlq_code want)
{
	int n = 1;
	while (run_once(n, rc, sys_errno, sticky, want))
		n += n < 40 ? 1 : 7; /* writes of the same commit are alike */
	assert_true(n > 20);
}

/* ---- one transaction of all that a job does to dead letters ---- */

enum { JOB_DEAD = 30 };

static void job_prepare(struct world *w, int64_t *seqs, int64_t *to, struct store_import *in)
{
	char body[3000];
	memset(body, 'y', sizeof(body) - 1);
	body[sizeof(body) - 1] = '\0';
	begin(w);
	OK(w, w->ops->queue_create(w->s, STR("q"), STR("{}"), true, &w->q, &w->err));
	*to = make_queue(w, "to", true);
	for (int i = 0; i < JOB_DEAD; i++)
		seqs[i] = dead_with(w, "{\"tenant\":\"a\",\"n\":\"1\"}", "E", body);
	commit(w);
	*in = (struct store_import){.queue_id = w->q, .d = {.dlq_id = "01ARZ3NDEKTSV4RRFFQ69G5FAV", .id = STR("i"), .key = STR("k"), .headers = STR("{\"h\":\"1\"}"),
	                            .edited_headers = STR("{\"h\":\"2\"}"), .reason = REASON_REJECTED}, .body = str_of(arena_str(&w->a, str_of(body)).p)};
}

static enum dlq_code job_steps(struct world *w, const int64_t *seqs, int64_t to, struct store_import *in)
{
	char big[4000];
	memset(big, 'e', sizeof(big));
	struct str body = {big, sizeof(big)}, headers = STR("{\"tenant\":\"b\"}");
	struct store_redrive r = {.plan = STR("{}"), .to_queue_id = to, .to_queue = STR("to")};
	struct store_redrive_pick picks[JOB_DEAD];
	int64_t got[JOB_DEAD];
	int n = 0;
	for (int i = 0; i < JOB_DEAD; i++)
		picks[i] = (struct store_redrive_pick){.seq = seqs[i], .died_no = i + 1, .edit_tried = true, .body = &body, .headers = &headers};
	enum dlq_code c = w->ops->redrive_create(w->s, &r, NULL, 0, &w->err);
	if (!c)
		c = w->ops->redrive_pick(w->s, r.n, picks, 20, 20, 0, &w->err);
	if (!c)
		c = w->ops->redrive_next(w->s, r.n, 10, got, &n, &w->err);
	struct store_put_back p = {.redrive_n = r.n, .redrive_id = str_of(r.redrive_id), .to_queue_id = to, .due = T0, .max_redrives = 3};
	for (int i = 0; i < n && !c; i++)
		c = w->ops->redrive_one(w->s, got[i], &p, &w->err);
	if (!c)
		c = w->ops->redrive_mark(w->s, r.n, n, 0, REDRIVE_CANCELLED, &w->err);
	if (!c)
		c = w->ops->redrive_sweep(w->s, 5, &n, &w->err);
	for (int i = 20; i < 25 && !c; i++)
		c = w->ops->give_up_one(w->s, seqs[i], 0, STR("a"), STR("b"), &w->err);
	if (!c)
		c = w->ops->restore_one(w->s, seqs[20], 0, STR("a"), STR("b"), &w->err);
	if (!c)
		c = w->ops->archive_one(w->s, seqs[21], &w->err);
	if (!c)
		c = w->ops->import_one(w->s, in, &w->err);
	return c;
}

static enum dlq_code job(struct world *w, const int64_t *seqs, int64_t to, struct store_import *in)
{
	enum dlq_code c = w->ops->begin(w->s, &w->err);
	if (c)
		return c;
	c = job_steps(w, seqs, to, in);
	if (!c)
		return w->ops->commit(w->s, &w->err);
	w->ops->rollback(w->s);
	return c;
}

static void expect_job(struct world *w, int64_t to, bool is_done)
{
	const struct store_counts *c = counts(w);
	assert_int_equal(c->dead, is_done ? JOB_DEAD - 10 - 5 + 1 + 1 : JOB_DEAD);
	assert_int_equal(c->redriving, is_done ? 10 : 0);
	assert_int_equal(c->archived, is_done ? 4 : 0);
	assert_int_equal(c->imported, is_done);
	assert_int_equal(counts_of(w, to)->ready, is_done ? 10 : 0);
}

static bool job_once(int n, int rc, int sys_errno, enum dlq_code want)
{
	struct run r = {.w = {.ops = store_backend("sqlite")}};
	struct world *w = &r.w;
	struct store_import in;
	int64_t seqs[JOB_DEAD], to;
	snprintf(w->dir, sizeof(w->dir), "/tmp/dlq-fault-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	w->clock = clock_manual_new(T0);
	open_it(&r);
	job_prepare(w, seqs, &to, &in);
	faultvfs_arm(n, rc, sys_errno, false);
	enum dlq_code c = job(w, seqs, to, &in);
	bool fired = faultvfs_fired();
	faultvfs_arm(0, 0, 0, false);
	if (c && c != want)
		fail_msg("fault %d: %s expected, got %s (%s)", n, code_name(want), code_name(c), w->err.detail);
	expect_job(w, to, !c);
	if (c == DLQ_STORE_FULL) {
		OK(w, w->ops->probe(w->s, &w->err));
		OK(w, job(w, seqs, to, &in));
		c = DLQ_OK;
	}
	w->ops->close(w->s);
	store_check("sqlite", w->dir);
	open_it(&r);
	expect_job(w, to, !c);
	w->ops->close(w->s);
	arena_release(&w->a);
	clock_free(w->clock);
	folder_remove(w->dir);
	return fired;
}

static void test_a_job_happens_wholly_or_not_at_all(void **state)
{
	(void)state;
	int n = 1;
	while (job_once(n, SQLITE_FULL, ENOSPC, DLQ_STORE_FULL))
		n += n < 20 ? 1 : 5;
	assert_true(n > 1); /* the frames of a commit are one write */
	for (n = 1; job_once(n, SQLITE_IOERR_WRITE, EIO, DLQ_STORE_FAILED);)
		n += n < 20 ? 1 : 5;
}

static void test_disk_full_once(void **state)
{
	(void)state;
	every_fault(SQLITE_FULL, ENOSPC, false, DLQ_STORE_FULL);
}

static void test_disk_full_until_freed(void **state)
{
	(void)state;
	every_fault(SQLITE_FULL, ENOSPC, true, DLQ_STORE_FULL);
}

static void test_io_error(void **state)
{
	(void)state;
	every_fault(SQLITE_IOERR_WRITE, EIO, false, DLQ_STORE_FAILED);
}

int main(void)
{
	faultvfs_install();
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_disk_full_once),
	    cmocka_unit_test(test_disk_full_until_freed),
	    cmocka_unit_test(test_io_error),
	    cmocka_unit_test(test_a_job_happens_wholly_or_not_at_all),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
