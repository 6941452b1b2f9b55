/* The archive read where its index is gone or wrong, where frames are damaged, and where files are of an earlier
 * version. */
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "lib_archive.h"

#define T0 AR_DAY0
#define DAY AR_DAY

/* ---- the index is gone or wrong ---- */

static void test_no_index(void **state)
{
	(void)state;
	struct ar *r = ar_new();
	int64_t nos[64], want[64];
	ar_put(r, "q", 1, 5, T0);
	ar_put(r, "q", 6, 5, T0);
	ar_put(r, "q", 9, 3, T0); /* 9 and 10 again */
	ar_put(r, "r", 20, 2, T0 - DAY);
	int n = ar_list(r, "", "", "", "", 100, want, 64);
	assert_int_equal(n, 13);
	struct buf index = ar_read(ar_path(r, "q", T0, "index"));
	assert_int_equal(unlink(ar_path(r, "q", T0, "index")), 0);
	for (int limit = 3; limit < 15; limit++) { /* pages that keep the copies of a record together */
		assert_int_equal(ar_list(r, "", "", "", "", limit < 5 ? 20 : limit, nos, 64) >= n, 1);
		assert_memory_equal(nos, want, 3 * sizeof *want);
	}
	assert_int_equal(ar_list(r, "", "", "", "", 100, nos, 64), n);
	assert_memory_equal(nos, want, (size_t)n * sizeof *want);
	for (int no = 1; no <= 11; no++)
		assert_int_equal(ar_find(r, no, NULL), DLQ_OK);
	assert_int_equal(ar_list(r, "", "", "", "m-7", 2, nos, 64), 1);
	/* The next write makes it again, as it was. */
	ar_put(r, "q", 30, 1, T0);
	struct buf again = ar_read(ar_path(r, "q", T0, "index"));
	assert_true(again.n > index.n && memcmp(again.p, index.p, index.n) == 0);
	assert_int_equal(ar_lines(buf_str(&again)), 14);
	/* A part of it is gone: so says its last line. */
	ar_write(ar_path(r, "q", T0, "index"),
	         (struct str){index.p, (size_t)((char *)memchr(index.p, '\n', index.n) + 1 - index.p)});
	ar_put(r, "q", 31, 1, T0);
	struct buf third = ar_read(ar_path(r, "q", T0, "index"));
	assert_true(third.n > again.n && memcmp(third.p, again.p, again.n) == 0);
	buf_release(&index);
	buf_release(&again);
	buf_release(&third);
	ar_free(r);
}

static void test_wrong_index(void **state)
{
	(void)state;
	struct ar *r = ar_new();
	struct dlq_err err = {0};
	int64_t nos[64];
	ar_put(r, "q", 1, 3, T0);
	ar_put(r, "q", 4, 3, T0);
	struct buf index = ar_read(ar_path(r, "q", T0, "index"));
	struct buf data = ar_read(ar_path(r, "q", T0, "jsonl.zst"));
	/* Garbage behind it, or lines that the data does not have: gone with the next write, and no reader minds. */
	static const char *const tails[] = {
	    "garbage",
	    "garbage\n",
	    "{\"dlq_id\":\"x\"}\n",
	    "\n\n\n",
	    "{}\n{\"dlq_id\":\"",
	    "{\"dlq_id\":\"x\",\"offset\":99999999,\"bytes\":10,\"line\":1,\"lines\":1}\n",
	    "{\"dlq_id\":\"x\",\"offset\":3,\"bytes\":10,\"line\":1,\"lines\":1}\n",
	    "{\"dlq_id\":\"x\",\"offset\":9223372036854775807,\"bytes\":9223372036854775807,\"line\":1,\"lines\":1}\n"};
	for (size_t i = 0; i < ARRAY_LEN(tails) + 2; i++) {
		struct buf b = {0};
		buf_adds(&b, buf_str(&index));
		if (i < ARRAY_LEN(tails))
			buf_addz(&b, tails[i]);
		else /* longer than any line; more lines than are looked at for a good one */
			for (int k = 0; k < 100000; k++)
				buf_addz(&b, i == ARRAY_LEN(tails) ? "xx" : "x\n");
		ar_write(ar_path(r, "q", T0, "index"), buf_str(&b));
		ar_write(ar_path(r, "q", T0, "jsonl.zst"), buf_str(&data));
		for (int no = 1; no <= 6; no++)
			assert_int_equal(ar_find(r, no, NULL), DLQ_OK);
		ar_put(r, "q", 7, 1, T0);
		struct buf after = ar_read(ar_path(r, "q", T0, "index"));
		assert_true(after.n > index.n && memcmp(after.p, index.p, index.n) == 0);
		assert_int_equal(ar_lines(buf_str(&after)), 7);
		assert_int_equal(ar_list(r, "", "", "", "", 2, nos, 64), 7);
		buf_release(&b);
		buf_release(&after);
	}
	/* A line in the middle that lies about the place: refused with what to do about it; then that works. */
	struct buf bad = {0};
	buf_adds(&bad, buf_str(&index));
	char *line = memmem(bad.p, bad.n, "\"line\":2", 8);
	assert_non_null(line);
	line[7] = '3';
	ar_write(ar_path(r, "q", T0, "index"), buf_str(&bad));
	ar_write(ar_path(r, "q", T0, "jsonl.zst"), buf_str(&data));
	assert_int_equal(ar_find(r, 2, &err), DLQ_STORE_CORRUPT);
	assert_says(&err, "remove the index");
	assert_says(&err, "/archive/q/2027-01-15.index");
	assert_int_equal(ar_find(r, 3, &err), DLQ_OK);
	char *offset = memmem(bad.p, bad.n, "\"offset\":0", 10);
	offset[9] = '1';
	ar_write(ar_path(r, "q", T0, "index"), buf_str(&bad));
	assert_int_equal(ar_find(r, 1, &err), DLQ_STORE_CORRUPT);
	assert_says(&err, "offset 1 ");
	assert_int_equal(unlink(ar_path(r, "q", T0, "index")), 0);
	assert_int_equal(ar_find(r, 1, &err), DLQ_OK);
	assert_int_equal(ar_find(r, 2, &err), DLQ_OK);
	/* The data was moved away: its index still says what was in it. */
	ar_write(ar_path(r, "q", T0, "index"), buf_str(&index));
	assert_int_equal(unlink(ar_path(r, "q", T0, "jsonl.zst")), 0);
	assert_int_equal(ar_list(r, "", "", "", "", 100, nos, 64), 6);
	assert_int_equal(ar_find(r, 1, &err), DLQ_SYSTEM);
	assert_says(&err, "No such file");
	buf_release(&bad);
	buf_release(&index);
	buf_release(&data);
	ar_free(r);
}

/* ---- damage ---- */

/* A file of three frames; where they start. */
static struct buf three_frames(struct ar *r, int64_t at[4])
{
	for (int i = 0; i < 3; i++) {
		struct stat st = {0};
		stat(ar_path(r, "q", T0, "jsonl.zst"), &st);
		at[i] = st.st_size;
		ar_put(r, "q", 1 + 3 * i, 3, T0);
	}
	struct buf b = ar_read(ar_path(r, "q", T0, "jsonl.zst"));
	at[3] = (int64_t)b.n;
	return b;
}

static void test_damage(void **state)
{
	(void)state;
	struct ar *r = ar_new();
	struct dlq_err err = {0};
	int64_t at[4], nos[64];
	struct buf whole = three_frames(r, at), index = ar_read(ar_path(r, "q", T0, "index"));
	char part[64];
	snprintf(part, sizeof part, "offset %" PRId64, at[1]);
	for (int64_t i = at[1]; i < at[2]; i++) { /* each byte of the second frame, one after the other */
		struct buf b = {0};
		buf_adds(&b, buf_str(&whole));
		b.p[i] ^= 0x55;
		ar_write(ar_path(r, "q", T0, "jsonl.zst"), buf_str(&b));
		buf_release(&b);
		memset(&err, 0, sizeof err);
		assert_int_equal(ar_find(r, 1, &err), DLQ_OK);
		assert_int_equal(ar_find(r, 9, &err), DLQ_OK);
		enum dlq_code c = ar_find(r, 5, &err);
		if (c != DLQ_OK) { /* an unused bit of the header can be flipped without harm */
			assert_int_equal(c, DLQ_STORE_CORRUPT);
			assert_says(&err, "2027-01-15.jsonl.zst");
			assert_says(&err, part);
		} else {
			assert_in_range(i, at[1] + 4, at[1] + 4);
		}
		assert_int_equal(ar_list(r, "", "", "", "", 100, nos, 64), 9); /* the index is whole */
		if (c && i % 8 == 0) { /* Without the index: what is in good frames. */
			assert_int_equal(unlink(ar_path(r, "q", T0, "index")), 0);
			assert_int_equal(ar_list(r, "", "", "", "", 2, nos, 64), 6);
			assert_int_equal(ar_find(r, 2, &err), DLQ_OK);
			assert_int_equal(ar_find(r, 8, &err), DLQ_OK);
			assert_int_equal(ar_find(r, 5, &err), DLQ_STORE_CORRUPT);
			/* The next write leaves the damage where it is, and indexes what is good. */
			ar_put(r, "q", 10, 1, T0);
			struct buf after = ar_read(ar_path(r, "q", T0, "jsonl.zst"));
			assert_true((int64_t)after.n > at[3] &&
			            memcmp(after.p + at[2], whole.p + at[2], (size_t)(at[3] - at[2])) == 0);
			buf_release(&after);
			assert_int_equal(ar_list(r, "", "", "", "", 100, nos, 64), 7);
			ar_write(ar_path(r, "q", T0, "index"), buf_str(&index));
		}
	}
	buf_release(&whole);
	buf_release(&index);
	ar_free(r);
}

/* Frames that dlq does not write: no size, or one that is not to be believed. */
static void test_foreign_frames(void **state)
{
	(void)state;
	struct ar *r = ar_new();
	struct dlq_err err = {0};
	ar_put(r, "q", 1, 1, T0);
	struct buf index = ar_read(ar_path(r, "q", T0, "index"));
	static const struct {
		const char *bytes, *says;
		size_t n;
	} frames[] = {
	    {"\x28\xb5\x2f\xfd\x00\x58\x01\x00\x00", "how large", 9}, /* no content size, an empty block */
	    {"\x28\xb5\x2f\xfd\xe0\xff\xff\xff\xff\xff\xff\xff\x00\x01\x00\x00", "larger than any",
	     16},                                                                       /* 2^56 bytes of content */
	    {"\x28\xb5\x2f\xfd\xa0\x00\x00\x00\x11\x01\x00\x00", "cannot be read", 12}, /* 272 MiB in an empty block */
	};
	for (size_t i = 0; i < ARRAY_LEN(frames); i++) {
		struct buf b = {0};
		char *bytes = memmem(index.p, index.n, "\"bytes\":", 8);
		buf_add(&b, index.p, (size_t)(bytes - index.p));
		buf_addf(&b, "\"bytes\":%zu,\"line\":1,\"lines\":1}\n", frames[i].n);
		ar_write(ar_path(r, "q", T0, "index"), buf_str(&b));
		ar_write(ar_path(r, "q", T0, "jsonl.zst"), (struct str){frames[i].bytes, frames[i].n});
		assert_int_equal(ar_find(r, 1, &err), DLQ_STORE_CORRUPT);
		assert_says(&err, frames[i].says);
		buf_release(&b);
	}
	buf_release(&index);
	ar_free(r);
}

/* ---- an earlier version ---- */

static void test_old_files(void **state)
{
	(void)state;
	struct ar *r = ar_new();
	struct dlq_err err = {0};
	int64_t nos[64];
	ar_put(r, "q", 50, 2, T0); /* the day of the upgrade */
	struct buf old = {.max = (size_t)256 << 20}, older = {0}, want = {0};
	for (int no = 1; no <= 4; no++) {
		struct store_dead d = ar_dead("q", no);
		ar_record(&d, T0, no == 2 ? 6 << 20 : 30, &old);
		d = ar_dead("q", no + 10);
		ar_record(&d, T0 - DAY, 30, &older);
	}
	buf_addz(&old, "{\"dlq_id\":\"piece");
	ar_write(ar_path(r, "q", T0, "jsonl"), buf_str(&old));
	ar_write(ar_path(r, "q", T0 - DAY, "jsonl"), buf_str(&older));
	static const int64_t all[] = {51, 50, 4, 3, 2, 1, 14, 13, 12, 11};
	for (int limit = 1; limit < 12; limit++) {
		assert_int_equal(ar_list(r, "", "", "", "", limit, nos, 64), ARRAY_LEN(all));
		assert_memory_equal(nos, all, sizeof all);
	}
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		assert_int_equal(ar_find(r, all[i], &err), DLQ_OK);
	assert_int_equal(ar_list(r, "", "", "", "m-12", 5, nos, 64), 1);
	struct store_dead d = ar_dead("q", 2);
	ar_record(&d, T0, 6 << 20, &want);
	struct arena a = {0};
	struct str record, queue;
	assert_int_equal(archive_find(r->dir, STR("m-2"), &a, &record, &queue, &err), DLQ_OK);
	assert_true(record.n + 1 == want.n && memcmp(record.p, want.p, record.n) == 0);
	/* The facts of a line of the old form. */
	struct archive_entry *e;
	struct str next;
	int n;
	assert_int_equal(
	    archive_list(r->dir, STR("q"), STR(""), STR(""), STR("m-3"), STR(""), 5, &a, &e, &n, &next, &err), DLQ_OK);
	assert_int_equal(n, 1);
	assert_str(e->error_type, "Timeout");
	assert_str(e->key, "customer 42");
	assert_true(e->archived_at_ms == T0 && e->died_at_ms == AR_DAY0 + 3000);
	arena_release(&a);
	buf_release(&old);
	buf_release(&older);
	buf_release(&want);
	ar_free(r);
}

int main(void)
{
	log_set_level(LOG_ERROR);
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_no_index),       cmocka_unit_test(test_wrong_index), cmocka_unit_test(test_damage),
	    cmocka_unit_test(test_foreign_frames), cmocka_unit_test(test_old_files),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
