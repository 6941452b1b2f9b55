/*
 * The archive when something goes wrong while it is written: every system call that can fail, a full disk, kill -9 at
 * every call and at any moment, and files that a crash left in any state. Invariant 5: what was committed is there, and
 * is shown once.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/rnd.h"
#include "lib_archive.h"

#define T0 AR_DAY0

/* ---- the calls, in front of libc's ---- */

enum fault { FAULT_NONE, FAULT_FAIL, FAULT_ALL, FAULT_FULL, FAULT_KILL };
static enum fault fault;
static int fault_at; /* the n-th call from now; FAULT_ALL: and all after it */
static bool disk_full;

static bool is_hit(void)
{
	return fault && (--fault_at == 0 || (fault == FAULT_ALL && fault_at < 0));
}

static void maybe_kill(void)
{
	if (fault == FAULT_KILL)
		kill(getpid(), SIGKILL);
}

static long plain(long call, long a, long b)
{
	if (is_hit()) {
		maybe_kill();
		errno = EIO;
		return -1;
	}
	return syscall(call, a, b);
}

ssize_t write(int fd, const void *p, size_t n)
{
	if (disk_full) {
		errno = ENOSPC;
		return -1;
	}
	if (!is_hit())
		return syscall(SYS_write, fd, p, n);
	ssize_t half = n / 2 ? syscall(SYS_write, fd, p, n / 2) : 0;
	maybe_kill();
	disk_full = fault == FAULT_FULL;
	if (disk_full && half > 0)
		return half;
	errno = EIO;
	return -1;
}

int fdatasync(int fd)
{
	return (int)plain(SYS_fdatasync, fd, 0);
}

int fsync(int fd)
{
	return (int)plain(SYS_fsync, fd, 0);
}

int ftruncate(int fd, off_t n)
{
	return (int)plain(SYS_ftruncate, fd, n);
}

int truncate(const char *path, off_t n)
{
	return (int)plain(SYS_truncate, (long)path, n);
}

int mkdir(const char *path, mode_t mode)
{
	return (int)plain(SYS_mkdir, (long)path, mode);
}

static void arm(enum fault f, int at)
{
	fault = f;
	fault_at = at;
	disk_full = false;
}

/* ---- what must hold ---- */

/* Whole files, an index for all of them, and each of the records once. */
static void sound(const struct ar *r, const char *q, int64_t from, int64_t to)
{
	struct buf text = ar_unpack(ar_path(r, q, T0, "jsonl.zst")), index = ar_read(ar_path(r, q, T0, "index"));
	assert_int_equal(ar_lines(buf_str(&text)), ar_lines(buf_str(&index)));
	assert_true(!index.n || index.p[index.n - 1] == '\n');
	for (int64_t no = from; no < to; no++) {
		struct dlq_err err = {0};
		if (ar_find(r, no, &err))
			fail_msg("%" PRId64 ": %s", no, err.detail);
		assert_int_equal(ar_count(r, no), 1);
	}
	buf_release(&text);
	buf_release(&index);
}

/* Gathers 3 records of q and 2 of r from no on. */
static enum dlq_code two_queues(struct ar *r, int64_t no, struct dlq_err *err)
{
	enum dlq_code c = DLQ_OK;
	for (int i = 0; i < 5 && !c; i++)
		c = ar_add(r, i < 3 ? "q" : "r", no + i, T0, 40, err);
	return c ? c : archive_flush(r->w, err);
}

/* ---- files in any state ---- */

static struct buf build(struct ar *r, int64_t ends[4])
{
	for (int i = 0; i < 4; i++) {
		struct stat st;
		ar_put(r, "q", 10 * i, 2, T0);
		assert_int_equal(stat(ar_path(r, "q", T0, "jsonl.zst"), &st), 0);
		ends[i] = st.st_size;
	}
	return ar_read(ar_path(r, "q", T0, "jsonl.zst"));
}

/* The data cut at every byte: what is in whole frames stays, and the next write is good. With its index, and without.
 */
static void test_every_cut(void **state)
{
	(void)state;
	struct ar *r = ar_new();
	int64_t ends[4], nos[64];
	struct buf data = build(r, ends), index = ar_read(ar_path(r, "q", T0, "index"));
	for (size_t cut = 0; cut <= data.n; cut++) {
		for (int with = 0; with < 2; with++) {
			ar_write(ar_path(r, "q", T0, "jsonl.zst"), (struct str){data.p, cut});
			ar_write(ar_path(r, "q", T0, "index"), with ? buf_str(&index) : STR(""));
			int frames = 0;
			while (frames < 4 && (int64_t)cut >= ends[frames])
				frames++;
			if (!with) /* readers alone see what is whole, too */
				assert_int_equal(ar_list(r, "q", "", "", "", 100, nos, 64), 2 * frames);
			ar_put(r, "q", 100, 1, T0);
			for (int i = 0; i < 4; i++)
				assert_int_equal(ar_find(r, 10 * i + 1, NULL), i < frames ? DLQ_OK : DLQ_NOT_FOUND);
			assert_int_equal(ar_list(r, "q", "", "", "", 100, nos, 64), 2 * frames + 1);
			sound(r, "q", 100, 101);
		}
	}
	buf_release(&data);
	buf_release(&index);
	ar_free(r);
}

/* The index cut at every byte, the data whole. */
static void test_every_index_cut(void **state)
{
	(void)state;
	struct ar *r = ar_new();
	int64_t ends[4], nos[64];
	struct buf data = build(r, ends), index = ar_read(ar_path(r, "q", T0, "index"));
	for (size_t cut = 0; cut <= index.n; cut++) {
		ar_write(ar_path(r, "q", T0, "jsonl.zst"), buf_str(&data));
		ar_write(ar_path(r, "q", T0, "index"), (struct str){index.p, cut});
		ar_put(r, "q", 100, 1, T0);
		struct buf after = ar_read(ar_path(r, "q", T0, "index"));
		assert_true(after.n > index.n && memcmp(after.p, index.p, index.n) == 0);
		assert_int_equal(ar_lines(buf_str(&after)), 9);
		buf_release(&after);
	}
	assert_int_equal(ar_list(r, "q", "", "", "", 100, nos, 64), 9);
	sound(r, "q", 100, 101);
	buf_release(&data);
	buf_release(&index);
	ar_free(r);
}

/* Bytes behind the last frame that are none: what a power cut may leave. */
static void test_garbage(void **state)
{
	(void)state;
	struct ar *r = ar_new();
	int64_t ends[4];
	struct buf data = build(r, ends), index = ar_read(ar_path(r, "q", T0, "index"));
	struct rnd rnd;
	rnd_seed(&rnd, 11);
	for (int round = 0; round < 200; round++) {
		struct buf bad = {0};
		size_t n = 1 + rnd_below(&rnd, 3000);
		buf_adds(&bad, buf_str(&data));
		switch (round % 4) {
		case 0: /* zeros: the size came to the disk, the bytes did not */
			for (size_t i = 0; i < n; i++)
				buf_addc(&bad, '\0');
			break;
		case 1: /* anything */
			for (size_t i = 0; i < n; i++)
				buf_addc(&bad, (char)rnd_u64(&rnd));
			break;
		case 2: /* what looks like a frame at first */
			buf_add(&bad, "\x28\xb5\x2f\xfd", 4);
			for (size_t i = 0; i < n; i++)
				buf_addc(&bad, (char)rnd_u64(&rnd));
			break;
		default: /* a real frame with a hole in it */
			buf_add(&bad, data.p + ends[2], (size_t)(ends[3] - ends[2]));
			bad.p[data.n + 20 + rnd_below(&rnd, (uint64_t)(ends[3] - ends[2]) - 20)] ^= 0x55;
			break;
		}
		ar_write(ar_path(r, "q", T0, "jsonl.zst"), buf_str(&bad));
		ar_write(ar_path(r, "q", T0, "index"), round % 3 ? buf_str(&index) : STR(""));
		ar_put(r, "q", 100, 1, T0);
		struct buf after = ar_read(ar_path(r, "q", T0, "jsonl.zst"));
		assert_true(memcmp(after.p, data.p, data.n) == 0);
		buf_release(&after);
		for (int i = 0; i < 4; i++)
			sound(r, "q", 10 * i, 10 * i + 2);
		sound(r, "q", 100, 101);
		buf_release(&bad);
	}
	buf_release(&data);
	buf_release(&index);
	ar_free(r);
}

/* What a crash left in the file of yesterday is repaired when today's begins. */
static void test_day_before(void **state)
{
	(void)state;
	struct ar *r = ar_new();
	struct dlq_err err = {0};
	ar_put(r, "q", 1, 2, T0);
	struct buf data = ar_read(ar_path(r, "q", T0, "jsonl.zst"));
	buf_add(&data, data.p, data.n / 2);
	ar_write(ar_path(r, "q", T0, "jsonl.zst"), buf_str(&data));
	assert_int_equal(unlink(ar_path(r, "q", T0, "index")), 0);
	ar_put(r, "q", 3, 2, T0 + 3 * AR_DAY);
	sound(r, "q", 1, 3);
	assert_int_equal(ar_find(r, 4, &err), DLQ_OK);
	buf_release(&data);
	ar_free(r);
}

/* ---- calls that fail ---- */

static void every_call(enum fault f)
{
	int n = 1;
	for (bool hit = true; hit; n++) {
		struct ar *r = ar_new();
		struct dlq_err err = {0};
		bool fresh = n % 2; /* with and without an archive before */
		if (!fresh)
			ar_put(r, "q", 1, 2, T0);
		struct buf before = ar_read(ar_path(r, "q", T0, "jsonl.zst"));
		arm(f, (n + 1) / 2);
		enum dlq_code c = two_queues(r, 100, &err);
		hit = fault_at <= 0;
		arm(FAULT_NONE, 0);
		if (hit && c) {
			assert_int_equal(c, DLQ_SYSTEM);
			assert_says(&err, r->dir);
			/* Cut back; of a file that is the first of its day an empty one may be left. */
			struct buf after = ar_read(ar_path(r, "q", T0, "jsonl.zst"));
			assert_true(str_eq(buf_str(&before), buf_str(&after)));
			buf_release(&after);
			for (int64_t no = 100; no < 105; no++)
				assert_int_equal(ar_count(r, no), 0);
			assert_int_equal(archive_flush(r->w, &err), DLQ_OK); /* nothing is left of it */
			assert_int_equal(two_queues(r, 100, &err), DLQ_OK);
		} else {
			assert_int_equal(c, DLQ_OK);
		}
		sound(r, "q", 100, 103);
		sound(r, "r", 103, 105);
		if (!fresh)
			sound(r, "q", 1, 3);
		buf_release(&before);
		ar_free(r);
		hit = hit || n % 2; /* both kinds */
	}
	assert_true(n > 14);
}

static void test_failing_calls(void **state)
{
	(void)state;
	every_call(FAULT_FAIL);
}

static void test_short_writes(void **state)
{
	(void)state;
	every_call(FAULT_FULL);
}

/* Not even cutting back works: the next flush finds the rest and is right all the same. */
static void test_no_cutting_back(void **state)
{
	(void)state;
	int n = 1;
	for (bool hit = true; hit; n++) {
		struct ar *r = ar_new();
		struct dlq_err err = {0};
		ar_put(r, "q", 1, 2, T0);
		arm(FAULT_ALL, n);
		enum dlq_code c = two_queues(r, 100, &err);
		hit = fault_at <= 0;
		arm(FAULT_NONE, 0);
		assert_int_equal(c, hit ? DLQ_SYSTEM : DLQ_OK);
		for (int64_t no = 1; no < 3; no++)
			assert_int_equal(ar_find(r, no, &err), DLQ_OK);
		if (hit)
			assert_int_equal(two_queues(r, 100, &err), DLQ_OK);
		sound(r, "q", 1, 3);
		sound(r, "q", 100, 103);
		sound(r, "r", 103, 105);
		ar_free(r);
	}
	assert_true(n > 10);
}

/* The limit of the process for files, in the middle of each of the two. */
static void test_file_limit(void **state)
{
	(void)state;
	struct ar *r = ar_new();
	struct rlimit old, small;
	struct dlq_err err = {0};
	signal(SIGXFSZ, SIG_IGN);
	ar_put(r, "q", 1, 2, T0);
	struct buf data = ar_read(ar_path(r, "q", T0, "jsonl.zst"));
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	for (size_t limit = data.n; limit < data.n + 400; limit += 40) {
		small = old;
		small.rlim_cur = limit;
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
		enum dlq_code c = two_queues(r, 100, &err);
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
		assert_int_equal(c, DLQ_SYSTEM);
		assert_says(&err, "File too large");
		struct buf after = ar_read(ar_path(r, "q", T0, "jsonl.zst"));
		assert_true(str_eq(buf_str(&data), buf_str(&after)));
		buf_release(&after);
		sound(r, "q", 1, 3);
	}
	assert_int_equal(two_queues(r, 100, &err), DLQ_OK);
	sound(r, "q", 100, 103);
	buf_release(&data);
	ar_free(r);
}

static void test_full_disk(void **state)
{
	(void)state;
	struct ar *r = ar_new();
	struct dlq_err err = {0};
	if (mount("tmpfs", r->dir, "tmpfs", 0, "size=256k")) {
		ar_free(r);
		print_message("mounting a small disk needs root\n");
		skip();
	}
	int64_t done = 0;
	enum dlq_code c = DLQ_OK;
	while (!c && done < 1000) {
		for (int i = 0; i < 5 && !c; i++)
			c = ar_add(r, "q", done + i, T0, 2000, &err);
		if (!c)
			c = archive_flush(r->w, &err);
		if (!c)
			done += 5;
	}
	assert_int_equal(c, DLQ_SYSTEM);
	assert_says(&err, "No space left");
	assert_in_range(done, 50, 500);
	sound(r, "q", 0, done);
	/* Again and again while it is full: nothing is spoiled. */
	for (int i = 0; i < 5; i++)
		assert_int_equal(ar_add(r, "q", done + i, T0, 2000, &err), DLQ_OK);
	assert_int_equal(archive_flush(r->w, &err), DLQ_SYSTEM);
	assert_int_equal(mount("tmpfs", r->dir, "tmpfs", MS_REMOUNT, "size=1m"), 0);
	for (int i = 0; i < 5; i++)
		assert_int_equal(ar_add(r, "q", done + i, T0, 2000, &err), DLQ_OK);
	assert_int_equal(archive_flush(r->w, &err), DLQ_OK);
	sound(r, "q", 0, done + 5);
	assert_int_equal(umount(r->dir), 0);
	ar_free(r);
}

/* ---- kill -9 ---- */

static void test_kill_at_every_call(void **state)
{
	(void)state;
	int killed = 0;
	for (int n = 1;; n++) {
		struct ar *r = ar_new();
		struct dlq_err err = {0};
		int status;
		ar_put(r, "q", 1, 2, T0);
		pid_t child = fork();
		assert_true(child >= 0);
		if (!child) {
			arm(FAULT_KILL, n);
			_exit(two_queues(r, 100, &err) == DLQ_OK ? 0 : 1);
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		if (WIFEXITED(status)) {
			assert_int_equal(WEXITSTATUS(status), 0);
			sound(r, "q", 100, 103);
			ar_free(r);
			break;
		}
		assert_int_equal(WTERMSIG(status), SIGKILL);
		killed++;
		for (int64_t no = 1; no < 3; no++) /* before the repair, too */
			assert_int_equal(ar_find(r, no, &err), DLQ_OK);
		assert_int_equal(two_queues(r, 100, &err), DLQ_OK);
		sound(r, "q", 1, 3);
		sound(r, "q", 100, 103);
		sound(r, "r", 103, 105);
		ar_free(r);
	}
	assert_true(killed >= 10);
}

/* A writer and its store: what is committed is not gathered any more, what is not is gathered again. */
struct shared {
	int64_t committed, flushes;
};

static void write_for_ever(struct ar *r, struct shared *s, uint64_t seed)
{
	struct rnd rnd;
	struct dlq_err err = {0};
	rnd_seed(&rnd, seed);
	for (;;) {
		int n = 1 + (int)rnd_below(&rnd, 9);
		for (int i = 0; i < n; i++) {
			int64_t no = s->committed + i;
			if (ar_add(r, no % 3 ? "q" : "r", no, T0, rnd_below(&rnd, 2000), &err))
				_exit(1);
		}
		if (archive_flush(r->w, &err))
			_exit(1);
		__atomic_add_fetch(&s->committed, n, __ATOMIC_SEQ_CST);
		__atomic_add_fetch(&s->flushes, 1, __ATOMIC_SEQ_CST);
	}
}

static void test_kill_at_any_moment(void **state)
{
	(void)state;
	struct ar *r = ar_new();
	struct shared *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct rnd rnd;
	struct dlq_err err = {0};
	assert_true(s != MAP_FAILED);
	rnd_system(&rnd);
	uint64_t seed = rnd_u64(&rnd);
	rnd_seed(&rnd, seed);
	print_message("seed %" PRIu64 "\n", seed);
	for (int round = 0; round < 60; round++) {
		int status;
		uint64_t child_seed = rnd_u64(&rnd);
		pid_t child = fork();
		assert_true(child >= 0);
		if (!child)
			write_for_ever(r, s, child_seed);
		int64_t until = __atomic_load_n(&s->flushes, __ATOMIC_SEQ_CST) + (int64_t)rnd_below(&rnd, 3);
		while (__atomic_load_n(&s->flushes, __ATOMIC_SEQ_CST) < until && waitpid(child, &status, WNOHANG) == 0)
			poll(NULL, 0, 0);
		for (uint64_t i = rnd_below(&rnd, 20000); i; i--) /* somewhere within the next */
			__atomic_thread_fence(__ATOMIC_SEQ_CST);
		assert_int_equal(kill(child, SIGKILL), 0);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_true(WIFSIGNALED(status));
		/* What was committed can be read at once, as the file was left. */
		for (int64_t no = s->committed - 9 > 0 ? s->committed - 9 : 0; no < s->committed; no++)
			assert_int_equal(ar_count(r, no), 1);
	}
	/* The last life ends in peace. */
	for (int i = 0; i < 20; i++)
		assert_int_equal(ar_add(r, (s->committed + i) % 3 ? "q" : "r", s->committed + i, T0, 30, &err), DLQ_OK);
	assert_int_equal(archive_flush(r->w, &err), DLQ_OK);
	int64_t total = s->committed + 20, n = 0;
	int64_t *nos = mem_array((size_t)total + 100, sizeof(*nos));
	char *seen = mem_alloc((size_t)total);
	for (int limit = 7; limit < 1000; limit += 900) {
		memset(seen, 0, (size_t)total);
		n = ar_list(r, "", "", "", "", limit, nos, (int)total + 100);
		for (int64_t i = 0; i < n; i++) {
			assert_in_range(nos[i], 0, total - 1);
			assert_int_equal(seen[nos[i]], 0);
			seen[nos[i]] = 1;
		}
		assert_int_equal(n, total);
	}
	for (int64_t no = 0; no < total; no++)
		assert_int_equal(ar_find(r, no, &err), DLQ_OK);
	sound(r, "q", 1, 2);
	sound(r, "r", 0, 1);
	print_message("%" PRId64 " records, %" PRId64 " flushes, 60 kills\n", total, s->flushes);
	mem_free(nos);
	mem_free(seen);
	munmap(s, sizeof(*s));
	ar_free(r);
}

int main(void)
{
	log_set_level(LOG_ERROR);
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_every_cut),
	    cmocka_unit_test(test_every_index_cut),
	    cmocka_unit_test(test_garbage),
	    cmocka_unit_test(test_day_before),
	    cmocka_unit_test(test_failing_calls),
	    cmocka_unit_test(test_short_writes),
	    cmocka_unit_test(test_no_cutting_back),
	    cmocka_unit_test(test_file_limit),
	    cmocka_unit_test(test_full_disk),
	    cmocka_unit_test(test_kill_at_every_call),
	    cmocka_unit_test(test_kill_at_any_moment),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
