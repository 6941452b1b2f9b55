/* Readers beside the writer: what they see, how long they may take, and that they cannot make the log grow without end.
 * Of the SQLite store. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <time.h>

#include "lib_store.h"

#define READERS 3
#define MIB (1024 * 1024)
#define GATE_MS 250 /* how long the store may make a reader wait at most */

struct reading {
	struct world *w;
	atomic_bool stop;
	atomic_int reads, failures;
	_Atomic int64_t longest_us;
	enum dlq_code want; /* ends the thread that meets it */
	atomic_bool met;
	int64_t seq;
};

static int64_t mono_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}

static int64_t wal_bytes(const struct world *w)
{
	char path[100];
	struct stat st;
	snprintf(path, sizeof(path), "%s/dlq.db-wal", w->dir);
	return stat(path, &st) ? 0 : (int64_t)st.st_size;
}

#define BODY 60000

/* One transaction of `n` messages, and what the writer does after each. */
static void write_batch(struct world *w, int n, bool maintain)
{
	static const char body[BODY];
	struct store_send m[8];
	ASSERT(n <= 8);
	for (int i = 0; i < n; i++)
		m[i] = (struct store_send){.body = (struct str){body, sizeof(body)}, .due = T0};
	begin(w);
	OK(w, w->ops->send(w->s, w->q, 0, 0, m, n, &w->err));
	commit(w);
	if (maintain)
		w->ops->maintain(w->s);
}

static void dead_many(struct world *w, int n)
{
	begin(w);
	for (int i = 0; i < n; i++)
		dead_one(w, "", "x");
	commit(w);
	w->ops->maintain(w->s);
}

/* Reads without a pause: a list of all dead letters, of which no error type fits. */
static void *read_on(void *arg)
{
	struct reading *x = arg;
	struct world *w = x->w;
	struct store_reader *r = NULL;
	struct dlq_err err = {0};
	struct arena a = {0};
	struct store_dead_filter f = {.state = -1, .reason = -1, .limit = 10, .error_type = STR("none")};
	if (w->ops->reader_open(w->s, &r, &err)) {
		atomic_fetch_add(&x->failures, 1);
		return NULL;
	}
	while (!atomic_load(&x->stop) && !x->met) {
		struct store_dead_page p;
		int64_t t = mono_us();
		enum dlq_code c = w->ops->read_dead_list(r, &f, &a, &p, &err);
		t = mono_us() - t;
		if (t > atomic_load(&x->longest_us))
			atomic_store(&x->longest_us, t);
		x->met = x->want && c == x->want;
		if (c && !x->met)
			atomic_fetch_add(&x->failures, 1);
		atomic_fetch_add(&x->reads, 1);
		arena_reset(&a);
	}
	w->ops->reader_close(r);
	arena_release(&a);
	return NULL;
}

static pthread_t start(void *(*fn)(void *), void *arg)
{
	pthread_t t;
	assert_int_equal(pthread_create(&t, NULL, fn, arg), 0);
	return t;
}

static void test_overlapping_readers_cannot_grow_the_log(void **state)
{
	struct world *w = *state;
	struct reading x = {.w = w};
	pthread_t t[READERS];
	int64_t most = 0, written = 0;
	dead_many(w, 300);
	for (int i = 0; i < READERS; i++)
		t[i] = start(read_on, &x);
	while (atomic_load(&x.reads) < READERS && !atomic_load(&x.failures))
		write_batch(w, 1, true);
	while (written < 192 * MIB) {
		write_batch(w, 8, true);
		written += 8 * BODY;
		if (wal_bytes(w) > most)
			most = wal_bytes(w);
	}
	atomic_store(&x.stop, true);
	for (int i = 0; i < READERS; i++)
		pthread_join(t[i], NULL);
	print_message("log %.1f MiB at most with %.0f MiB written and %d reads\n", (double)most / MIB,
	              (double)written / MIB, atomic_load(&x.reads));
	assert_int_equal(atomic_load(&x.failures), 0);
	assert_true(most < written / 2); /* without the gate it grows with what is written; how far beyond a bulk, the machine's load decides */
}

/* Each commit moves one message from ready to dead and adds one: every read must see a whole commit. */
static void *read_whole(void *arg)
{
	struct reading *x = arg;
	struct world *w = x->w;
	struct store_reader *r = NULL;
	struct dlq_err err = {0};
	struct arena a = {0};
	int64_t last = 0;
	if (w->ops->reader_open(w->s, &r, &err)) {
		atomic_fetch_add(&x->failures, 1);
		return NULL;
	}
	while (!atomic_load(&x->stop)) {
		struct store_queue q;
		struct store_dead d;
		struct str body, type;
		bool ok = !w->ops->read_queue(r, STR("q"), &a, &q, &err) && q.counts.ready == 1 &&
		          q.counts.leased == 0 && q.counts.dead == q.counts.died &&
		          q.counts.sent == q.counts.died + 1 && q.counts.died >= last;
		last = q.counts.died;
		ok = ok && !w->ops->read_dead(r, x->seq, &a, &d, &err) && d.seq == x->seq && d.state == DEAD_DEAD;
		ok = ok && !w->ops->read_body(r, x->seq, true, &a, &body, &type, &err) && str_eqz(body, "the first");
		if (!ok)
			atomic_fetch_add(&x->failures, 1);
		atomic_fetch_add(&x->reads, 1);
		arena_reset(&a);
	}
	w->ops->reader_close(r);
	arena_release(&a);
	return NULL;
}

static void test_readers_see_whole_commits(void **state)
{
	struct world *w = *state;
	struct reading x = {.w = w};
	pthread_t t[READERS];
	begin(w);
	x.seq = dead_one(w, "", "the first");
	send_body(w, "waits");
	commit(w);
	for (int i = 0; i < READERS; i++)
		t[i] = start(read_whole, &x);
	for (int i = 0; i < 300 || (atomic_load(&x.reads) < 100 && !atomic_load(&x.failures)); i++) {
		struct store_delivery d;
		char id[ULID_LEN + 1];
		begin(w);
		send_body(w, "next");
		assert_true(claim_one(w, &d));
		kill_it(w, &d, id);
		commit(w);
		w->ops->maintain(w->s);
		arena_reset(&w->a);
	}
	atomic_store(&x.stop, true);
	for (int i = 0; i < READERS; i++)
		pthread_join(t[i], NULL);
	assert_int_equal(atomic_load(&x.failures), 0);
}

/* Without maintain the log cannot start over: the gate is closed and stays so. */
static void test_gate(void **state)
{
	struct world *w = *state;
	struct reading x = {.w = w};
	dead_many(w, 1);
	while (wal_bytes(w) < 24 * MIB)
		write_batch(w, 8, false);
	int64_t t0 = mono_us();
	begin(w);
	for (int i = 0; i < 20; i++) /* the writer's own reads, inside and outside its transaction, never wait for it */
		OK(w, w->ops->read_queue(w->r, STR("q"), &w->a, &(struct store_queue){0}, &w->err));
	commit(w);
	for (int i = 0; i < 20; i++)
		OK(w, w->ops->read_queue(w->r, STR("q"), &w->a, &(struct store_queue){0}, &w->err));
	assert_true(mono_us() - t0 < 10 * GATE_MS * 1000);
	pthread_t t = start(read_on, &x); /* nothing is written any more: the gate, left closed, keeps others out no longer */
	t0 = mono_us();
	while (atomic_load(&x.reads) < 1 && !atomic_load(&x.failures) && mono_us() - t0 < 60000000)
		sched_yield();
	int64_t waited = atomic_load(&x.longest_us);
	/* The writer tends the store again: the log starts over, the gate opens, and reads do not wait any more. */
	int quick = 0;
	for (t0 = mono_us(); quick < 10 && mono_us() - t0 < 60000000 && !atomic_load(&x.failures);) {
		int before = atomic_load(&x.reads);
		write_batch(w, 1, true);
		atomic_store(&x.longest_us, 0);
		while (atomic_load(&x.reads) < before + 2 && mono_us() - t0 < 60000000)
			sched_yield();
		quick = atomic_load(&x.longest_us) < (GATE_MS - 50) * 1000 ? quick + 1 : 0;
	}
	atomic_store(&x.stop, true);
	pthread_join(t, NULL);
	assert_int_equal(atomic_load(&x.failures), 0);
	assert_true(waited < (GATE_MS - 50) * 1000);
	assert_int_equal(quick, 10);
}

static void test_a_read_that_takes_too_long_is_ended(void **state)
{
	struct world *w = *state;
	struct reading x = {.w = w, .want = DLQ_TIMEOUT};
	struct store_queue q;
	dead_many(w, 4000);
	pthread_t t = start(read_on, &x);
	/* Hours pass while it reads; a read during which the clock stands still is within its time. */
	int64_t t0 = mono_us();
	while (mono_us() - t0 < 60000000 && pthread_tryjoin_np(t, NULL)) {
		clock_advance(w->clock, 3600000);
		sched_yield();
	}
	assert_true(x.met);
	assert_int_equal(atomic_load(&x.failures), 0);
	OK(w, w->ops->read_queue(w->r, STR("q"), &w->a, &q, &w->err));
	assert_int_equal(q.counts.dead, 4000);
}

int main(void)
{
#define WITH_STORE(f) cmocka_unit_test_setup_teardown(f, world_new, world_free)
	const struct CMUnitTest tests[] = {
	    WITH_STORE(test_overlapping_readers_cannot_grow_the_log),
	    WITH_STORE(test_readers_see_whole_commits),
	    WITH_STORE(test_gate),
	    WITH_STORE(test_a_read_that_takes_too_long_is_ended),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
