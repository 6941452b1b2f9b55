/* What happens to files: a process killed with a long log behind it, and pages that rot under a store that runs. Of the
 * SQLite store. */
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib_store.h"

#define MIB (1024 * 1024)
#define PER_BATCH 16
#define PAGE 4096

static char *in_dir(struct world *w, const char *name)
{
	return (char *)arena_fmt(&w->a, "%s/%s", w->dir, name).p;
}

static int64_t file_bytes(struct world *w, const char *name)
{
	struct stat st;
	return stat(in_dir(w, name), &st) ? 0 : (int64_t)st.st_size;
}

static int bare_new(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	snprintf(w->dir, sizeof(w->dir), "/tmp/dlq-damage-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	w->ops = store_backend(world_backends[0]);
	w->clock = clock_manual_new(T0);
	*state = w;
	return 0;
}

static int bare_free(void **state)
{
	struct world *w = *state;
	clock_free(w->clock);
	arena_release(&w->a);
	folder_remove(w->dir);
	free(w);
	return 0;
}

static void open_it(struct world *w, int64_t cache)
{
	struct store_options o = {.dir = w->dir, .clock = w->clock, .cache_bytes = cache};
	OK(w, w->ops->open(&o, &w->s, &w->err));
	OK(w, w->ops->reader_open(w->s, &w->r, &w->err));
}

static enum dlq_code batch(struct world *w)
{
	static const char body[60000];
	struct store_send m[PER_BATCH];
	for (int i = 0; i < PER_BATCH; i++)
		m[i] = (struct store_send){.body = (struct str){body, sizeof(body)}, .due = T0};
	enum dlq_code c = w->ops->begin(w->s, &w->err);
	if (c)
		return c;
	c = w->ops->send(w->s, w->q, 0, 0, m, PER_BATCH, &w->err);
	if (c)
		w->ops->rollback(w->s);
	return c ? c : w->ops->commit(w->s, &w->err);
}

static void queue_make(struct world *w)
{
	begin(w);
	OK(w, w->ops->queue_create(w->s, STR("q"), STR("{}"), false, &w->q, &w->err));
	commit(w);
}

/* In the child: writes until it is killed, and tells the parent about each commit. It never tends the log. */
static void write_until_killed(struct world *w, int told)
{
	char one = 1;
	open_it(w, 0);
	queue_make(w);
	while (!batch(w) && write(told, &one, 1) == 1)
		;
	_exit(1);
}

static void test_open_after_kill_with_a_long_log(void **state)
{
	struct world *w = *state;
	int fds[2], status;
	int64_t told = 0;
	char one;
	assert_int_equal(pipe(fds), 0);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		close(fds[0]);
		write_until_killed(w, fds[1]);
	}
	close(fds[1]);
	while (file_bytes(w, "dlq.db-wal") < 50 * MIB && read(fds[0], &one, 1) == 1)
		told++;
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status));
	while (read(fds[0], &one, 1) == 1)
		told++;
	close(fds[0]);
	int64_t wal = file_bytes(w, "dlq.db-wal"), t0 = 0;
	struct clock *real = clock_real_new();
	assert_true(wal >= 50 * MIB);
	t0 = clock_mono_us(real);
	open_it(w, 0);
	int64_t took = clock_mono_us(real) - t0;
	clock_free(real);
	print_message("opened in %.0f ms with a log of %.0f MiB\n", (double)took / 1000, (double)wal / MIB);
	const char *sanitized = getenv("DLQ_SANITIZE");
	assert_true(took < (sanitized && *sanitized ? 10000000 : 1000000));
	struct store_queue q;
	OK(w, w->ops->read_queue(w->r, STR("q"), &w->a, &q, &w->err));
	assert_true(q.counts.sent >= told * PER_BATCH); /* the last one may be committed, but not yet told */
	assert_true(q.counts.sent <= (told + 1) * PER_BATCH && q.counts.sent % PER_BATCH == 0);
	w->q = q.queue_id;
	OK(w, batch(w));
	world_close(w);
	store_check(w->ops->name, w->dir);
}

/* All pages of the file but the first, which is kept in memory, become rubbish. */
static void rot(struct world *w)
{
	char junk[PAGE];
	int64_t size = file_bytes(w, "dlq.db");
	int fd = open(in_dir(w, "dlq.db"), O_WRONLY);
	assert_true(fd >= 0 && size > 4 * MIB);
	memset(junk, 0x5a, sizeof(junk));
	for (int64_t at = PAGE; at < size; at += PAGE)
		assert_int_equal(pwrite(fd, junk, sizeof(junk), at), sizeof(junk));
	close(fd);
}

/* A filled store whose log is empty, opened with a cache that holds next to nothing. */
static void open_filled(struct world *w, struct store_delivery *leased, int64_t *dead)
{
	open_it(w, 0);
	queue_make(w);
	begin(w);
	*dead = dead_one(w, "", "dead");
	send_body(w, "leased");
	assert_true(claim_one(w, leased));
	commit(w);
	for (int i = 0; i < 6; i++)
		OK(w, batch(w));
	world_close(w);
	open_it(w, 16384);
}

static void corrupt_in_tx(struct world *w, enum dlq_code c)
{
	EXPECT(w, DLQ_STORE_CORRUPT, c);
	assert_non_null(strstr(w->err.detail, "backup"));
	assert_true(store_fatal(c));
	w->ops->rollback(w->s);
}

static void test_rotten_pages_reach_the_caller(void **state)
{
	struct world *w = *state;
	struct store_delivery d, out[4];
	struct store_dead dead;
	struct store_dead_page page;
	struct store_dead_filter f = {.state = -1, .reason = -1, .limit = 10};
	struct str body, type;
	int64_t seq, nonces[4] = {1, 2, 3, 4};
	int n;
	open_filled(w, &d, &seq);
	struct store_counts before = *counts(w);
	rot(w);
	begin(w);
	corrupt_in_tx(w, w->ops->claim(w->s, w->q, T0, T0 + 1, STR("w"), nonces, 4, &w->a, out, &n, &w->err));
	begin(w);
	corrupt_in_tx(w, done(w, &d));
	begin(w);
	struct store_send m = {.id = STR("order-1"), .body = STR("x"), .dedup_until = T0 + 1};
	corrupt_in_tx(w, w->ops->send(w->s, w->q, 0, 0, &m, 1, &w->err));
	begin(w);
	corrupt_in_tx(w, w->ops->discard_one(w->s, seq, 0, STR("ann"), STR("junk"), &w->err));
	EXPECT(w, DLQ_STORE_CORRUPT, w->ops->probe(w->s, &w->err)); /* it is not told that it works again */
	assert_memory_equal(&before, counts(w), sizeof(before));
	EXPECT(w, DLQ_STORE_CORRUPT, w->ops->read_dead(w->r, seq, &w->a, &dead, &w->err));
	EXPECT(w, DLQ_STORE_CORRUPT, w->ops->read_dead_list(w->r, &f, &w->a, &page, &w->err));
	EXPECT(w, DLQ_STORE_CORRUPT, w->ops->read_body(w->r, seq, true, &w->a, &body, &type, &w->err));
	world_close(w);
	struct store_options o = {.dir = w->dir, .clock = w->clock};
	EXPECT(w, DLQ_STORE_CORRUPT, w->ops->open(&o, &w->s, &w->err));
}

/* One page of one body: only who needs it is told, and the rest of the store goes on. */
static void test_one_rotten_body(void **state)
{
	struct world *w = *state;
	struct store_delivery d, out[4];
	static const char zeros[PAGE];
	char junk[PAGE], page[PAGE];
	int64_t seq;
	int n = 0;
	open_filled(w, &d, &seq);
	int fd = open(in_dir(w, "dlq.db"), O_RDWR);
	assert_true(fd >= 0);
	memset(junk, 0xa5, sizeof(junk));
	/* Bodies are all zeros: a page of zeros after the number of the next page is in the middle of one. Damage to
	 * the bytes of a body alone is not seen: SQLite has no checksums. */
	int64_t at = file_bytes(w, "dlq.db") / 2 / PAGE * PAGE;
	for (;; at += PAGE) {
		assert_int_equal(pread(fd, page, sizeof(page), at), sizeof(page));
		if (memcmp(page, zeros, 4) && !memcmp(page + 4, zeros, sizeof(page) - 4))
			break;
	}
	assert_int_equal(pwrite(fd, junk, sizeof(junk), at), sizeof(junk));
	close(fd);
	enum dlq_code c = DLQ_OK;
	int64_t nonce = 1;
	int claimed = 0;
	for (; !c; claimed += n, nonce++) {
		begin(w);
		c = w->ops->claim(w->s, w->q, T0, T0 + 1000, STR("w"), &nonce, 1, &w->a, out, &n, &w->err);
		assert_true(c || n == 1);
		if (c)
			break;
		commit(w);
	}
	corrupt_in_tx(w, c);
	assert_int_equal(counts(w)->leased, 1 + claimed); /* no delivery of the damaged one is counted */
	assert_true(claimed > 0 && claimed < 6 * PER_BATCH);
	begin(w);
	OK(w, done(w, &d));
	commit(w);
	world_close(w);
}

int main(void)
{
#define BARE(f) cmocka_unit_test_setup_teardown(f, bare_new, bare_free)
	const struct CMUnitTest tests[] = {
	    BARE(test_open_after_kill_with_a_long_log),
	    BARE(test_rotten_pages_reach_the_caller),
	    BARE(test_one_rotten_body),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
