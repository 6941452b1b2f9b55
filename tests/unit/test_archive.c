/* The archive's files: their format, lists and finds. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/doc.h"
#include "base/log.h"
#include "lib_archive.h"

#define T0 AR_DAY0
#define DAY AR_DAY

static int64_t number_in(const struct doc *d, const char *key)
{
	int64_t v = -1;
	struct dlq_err err = {0};
	if (!doc_get(d, key) || doc_int(doc_get(d, key), 0, INT64_MAX, &v, &err))
		fail_msg("%s: %s", key, err.detail);
	return v;
}

/* ---- the format ---- */

static void test_format(void **state)
{
	(void)state;
	struct ar *r = ar_new();
	struct dlq_err err = {0};
	struct buf want = {0};
	for (int i = 1; i <= 5; i++) {
		struct store_dead d = ar_dead("q", i);
		ar_record(&d, T0, 40, &want);
		assert_int_equal(ar_add(r, "q", i, T0, 40, &err), DLQ_OK);
		assert_int_equal(ar_add(r, "r", 100 + i, T0, 40, &err), DLQ_OK);
		if (i == 3)
			assert_int_equal(archive_flush(r->w, &err), DLQ_OK);
	}
	assert_int_equal(archive_flush(r->w, &err), DLQ_OK);
	assert_int_equal(archive_flush(r->w, &err), DLQ_OK); /* nothing to do */
	struct buf got = ar_unpack(ar_path(r, "q", T0, "jsonl.zst"));
	assert_true(str_eq(buf_str(&got), buf_str(&want)));
	struct stat st;
	assert_int_equal(stat(ar_path(r, "q", T0, "jsonl.zst"), &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	/* The index: a line each, readable as JSON, which lead through the file. */
	struct buf index = ar_read(ar_path(r, "q", T0, "index"));
	struct str s = buf_str(&index);
	int64_t frame_end = 0, offset = 0;
	for (int i = 1; i <= 5; i++) {
		struct arena a = {0};
		struct doc *d;
		const char *eol = memchr(s.p, '\n', s.n);
		assert_non_null(eol);
		assert_int_equal(doc_from_json(&a, (struct str){s.p, (size_t)(eol - s.p)}, "index", &d, &err), DLQ_OK);
		char id[ULID_LEN + 1], name[16];
		ar_id(i, id);
		snprintf(name, sizeof name, "m-%d", i);
		assert_str(doc_get(d, "dlq_id")->text, id);
		assert_str(doc_get(d, "id")->text, name);
		assert_str(doc_get(d, "state")->text, "dead");
		assert_str(doc_get(d, "reason")->text, "max_attempts");
		assert_str(doc_get(d, "error_type")->text, "Timeout");
		assert_int_equal(doc_get(d, "key") != NULL, i % 3 == 0);
		if (i == 1 || i == 4)
			offset = frame_end;
		assert_int_equal(number_in(d, "offset"), offset);
		frame_end = offset + number_in(d, "bytes");
		assert_int_equal(number_in(d, "line"), i <= 3 ? i : i - 3);
		assert_int_equal(number_in(d, "lines"), i <= 3 ? 3 : 2);
		s.n -= (size_t)(eol + 1 - s.p);
		s.p = eol + 1;
		arena_release(&a);
	}
	assert_int_equal(s.n, 0);
	assert_int_equal(frame_end, st.st_size);
	buf_release(&want);
	buf_release(&got);
	buf_release(&index);
	got = ar_unpack(ar_path(r, "r", T0, "jsonl.zst"));
	assert_int_equal(ar_lines(buf_str(&got)), 5);
	buf_release(&got);
	ar_free(r);
}

/* What was gathered over midnight goes where its day is. */
static void test_midnight(void **state)
{
	(void)state;
	struct ar *r = ar_new();
	struct dlq_err err = {0};
	int64_t midnight = T0 - T0 % DAY + DAY, nos[8];
	assert_int_equal(ar_add(r, "q", 1, midnight - 1, 40, &err), DLQ_OK);
	assert_int_equal(ar_add(r, "q", 2, midnight, 40, &err), DLQ_OK);
	assert_int_equal(archive_flush(r->w, &err), DLQ_OK);
	assert_int_equal(access(ar_path(r, "q", midnight - 1, "index"), F_OK), 0);
	assert_int_equal(access(ar_path(r, "q", midnight, "index"), F_OK), 0);
	assert_int_equal(ar_list(r, "", "2027-01-15", "2027-01-15", "", 10, nos, 8), 1);
	assert_int_equal(nos[0], 1);
	assert_int_equal(ar_list(r, "", "2027-01-16", "", "", 10, nos, 8), 1);
	assert_int_equal(nos[0], 2);
	ar_free(r);
}

/* Dropped, or never flushed: nothing is left of it, also of what was too much to keep. */
static void test_drop(void **state)
{
	(void)state;
	struct ar *r = ar_new();
	struct dlq_err err = {0};
	ar_put(r, "q", 1, 3, T0);
	struct buf before = ar_read(ar_path(r, "q", T0, "jsonl.zst")), index = ar_read(ar_path(r, "q", T0, "index"));
	for (int i = 0; i < 4; i++)
		assert_int_equal(ar_add(r, "q", 10 + i, T0, 3 << 20, &err), DLQ_OK);
	struct buf during = ar_read(ar_path(r, "q", T0, "jsonl.zst"));
	assert_true(during.n > before.n);
	archive_drop(r->w);
	struct buf after = ar_read(ar_path(r, "q", T0, "jsonl.zst")),
	           index_after = ar_read(ar_path(r, "q", T0, "index"));
	assert_true(str_eq(buf_str(&after), buf_str(&before)) && str_eq(buf_str(&index_after), buf_str(&index)));
	assert_int_equal(archive_flush(r->w, &err), DLQ_OK);
	assert_int_equal(ar_count(r, 10), 0);
	struct buf *all[] = {&before, &index, &during, &after, &index_after};
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		buf_release(all[i]);
	ar_free(r);
}

static void test_large(void **state)
{
	(void)state;
	struct ar *r = ar_new();
	struct dlq_err err = {0};
	size_t sizes[] = {10, 3 << 20, 3 << 20, 20 << 20, 10, 0};
	for (int i = 0; i < 6; i++)
		assert_int_equal(ar_add(r, "q", i + 1, T0, sizes[i], &err), DLQ_OK);
	assert_int_equal(archive_flush(r->w, &err), DLQ_OK);
	for (int i = 0; i < 6; i++) {
		struct arena a = {0};
		struct buf want = {0};
		struct str record, queue;
		struct store_dead d = ar_dead("q", i + 1);
		ar_record(&d, T0, sizes[i], &want);
		assert_int_equal(archive_find(r->dir, str_of(d.dlq_id), &a, &record, &queue, &err), DLQ_OK);
		assert_true(record.n + 1 == want.n && memcmp(record.p, want.p, record.n) == 0);
		assert_str(queue, "q");
		buf_release(&want);
		arena_release(&a);
	}
	struct buf all = ar_unpack(ar_path(r, "q", T0, "jsonl.zst"));
	assert_int_equal(ar_lines(buf_str(&all)), 6);
	buf_release(&all);
	ar_free(r);
}

/* Texts that must be escaped come back as they were. */
static void test_escapes(void **state)
{
	(void)state;
	struct ar *r = ar_new();
	struct dlq_err err = {0};
	struct store_dead d = ar_dead("q.1_-", 1);
	d.id = STR("a\"b\\c/d");
	d.key = STR("k\xc3\xa9y \xf0\x9f\x90\x87 \x01\n");
	d.error_type = (struct str){"E\0x", 3};
	struct buf line = {0};
	ar_record(&d, T0, 10, &line);
	for (int pass = 0; pass < 2; pass++) { /* through the index, and through the record */
		struct arena a = {0};
		struct archive_entry *e;
		struct str next, record, queue;
		int n;
		if (pass == 0) {
			assert_int_equal(archive_add(r->w, &d, buf_str(&line), T0, &err), DLQ_OK);
			assert_int_equal(archive_flush(r->w, &err), DLQ_OK);
		} else {
			assert_int_equal(unlink(ar_path(r, "q.1_-", T0, "index")), 0);
		}
		assert_int_equal(
		    archive_list(r->dir, d.queue, STR(""), STR(""), d.id, STR(""), 5, &a, &e, &n, &next, &err), DLQ_OK);
		assert_int_equal(n, 1);
		assert_true(str_eq(e->id, d.id) && str_eq(e->key, d.key) && str_eq(e->error_type, d.error_type));
		assert_true(e->died_at_ms == d.died_at_ms && e->archived_at_ms == T0);
		assert_str(e->queue, "q.1_-");
		assert_str(e->day, "2027-01-15");
		assert_int_equal(archive_find(r->dir, d.id, &a, &record, &queue, &err), DLQ_OK);
		assert_true(record.n + 1 == line.n && memcmp(record.p, line.p, record.n) == 0);
		arena_release(&a);
	}
	buf_release(&line);
	ar_free(r);
}

/* ---- lists ---- */

static void test_list(void **state)
{
	(void)state;
	struct ar *r = ar_new();
	int64_t nos[64], paged[64];
	ar_put(r, "b", 10, 3, T0);
	ar_put(r, "a", 20, 2, T0);
	ar_put(r, "b", 13, 2, T0);
	ar_put(r, "a", 30, 3, T0 + DAY);
	ar_put(r, "c", 40, 1, T0 - DAY);
	static const int64_t want[] = {32, 31, 30, 21, 20, 14, 13, 12, 11, 10, 40};
	assert_int_equal(ar_list(r, "", "", "", "", 100, nos, 64), ARRAY_LEN(want));
	assert_memory_equal(nos, want, sizeof want);
	for (int limit = 1; limit < 13; limit++) {
		assert_int_equal(ar_list(r, "", "", "", "", limit, paged, 64), ARRAY_LEN(want));
		assert_memory_equal(paged, want, sizeof want);
	}
	assert_int_equal(ar_list(r, "b", "", "", "", 2, nos, 64), 5);
	assert_memory_equal(nos, want + 5, 5 * sizeof *want);
	assert_int_equal(ar_list(r, "", "2027-01-15", "2027-01-15", "", 3, nos, 64), 7);
	assert_memory_equal(nos, want + 3, 7 * sizeof *want);
	assert_int_equal(ar_list(r, "", "", "2027-01-14", "", 3, nos, 64), 1);
	assert_int_equal(ar_list(r, "", "2027-01-17", "", "", 3, nos, 64), 0);
	assert_int_equal(ar_list(r, "nothing", "", "", "", 3, nos, 64), 0);
	assert_int_equal(ar_list(r, "", "", "", "m-13", 3, nos, 64), 1);
	assert_int_equal(nos[0], 13);
	assert_int_equal(ar_list(r, "a", "", "", "m-13", 3, nos, 64), 0);
	assert_int_equal(ar_list(r, "", "", "", "m-1", 3, nos, 64), 0); /* the whole id */
	/* What is no archive's is passed over. */
	ar_write(ar_path(r, "a", T0, "txt"), STR("x"));
	char path[200];
	snprintf(path, sizeof path, "%s/archive/notes.txt", r->dir);
	ar_write(path, STR("x"));
	snprintf(path, sizeof path, "%s/archive/.hidden", r->dir);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(ar_list(r, "", "", "", "", 100, nos, 64), ARRAY_LEN(want));
	ar_free(r);
}

static void refused(const struct ar *r, const char *q, const char *from, const char *to, const char *id,
                    const char *cursor, int limit, enum dlq_code code, const char *part)
{
	struct arena a = {0};
	struct archive_entry *e;
	struct str next;
	struct dlq_err err = {0};
	int n;
	assert_int_equal(archive_list(r->dir, str_of(q), str_of(from), str_of(to), str_of(id), str_of(cursor), limit,
	                              &a, &e, &n, &next, &err),
	                 code);
	assert_says(&err, part);
	arena_release(&a);
}

static void test_list_refusals(void **state)
{
	(void)state;
	struct ar *r = ar_new();
	int64_t nos[8];
	assert_int_equal(ar_list(r, "", "", "", "", 1000, nos, 8), 0); /* no archive yet */
	ar_put(r, "q", 1, 3, T0);
	refused(r, "../q", "", "", "", "", 10, DLQ_INVALID_NAME, "the name starts with a dot");
	refused(r, "", "2027-1-1", "", "", "", 10, DLQ_BAD_REQUEST, "from is not a day");
	refused(r, "", "", "2027-02-30", "", "", 10, DLQ_BAD_REQUEST, "to is not a day");
	refused(r, "", "", "", "a b", "", 10, DLQ_BAD_REQUEST, "id: ");
	refused(r, "", "", "", "", "", 0, DLQ_BAD_REQUEST, "limit is 0");
	refused(r, "", "", "", "", "", 1001, DLQ_BAD_REQUEST, "limit is 1001");
	static const char *const cursors[] = {"x",
	                                      "2027-01-15",
	                                      "2027-01-15/",
	                                      "2027-13-15/q",
	                                      "2027-01-15/../i1",
	                                      "2027-01-15/q/",
	                                      "2027-01-15/q/i",
	                                      "2027-01-15/q/i1x",
	                                      "2027-01-15/q/x1",
	                                      "2027-01-15/q/z1",
	                                      "2027-01-15/q/z1-",
	                                      "2027-01-15/q/i99999999999999999999",
	                                      "2027-01-15/q/i-1",
	                                      "2027-01-15/q/i1-1"};
	for (size_t i = 0; i < ARRAY_LEN(cursors); i++)
		refused(r, "", "", "", "", cursors[i], 10, DLQ_BAD_REQUEST, "cursor");
	/* Places that no list gave, but of the right form: something, or nothing, and no harm. */
	static const char *const odd[] = {"2027-01-15/q/i7", "2027-01-15/q/z5-1", "2027-01-15/q/j3", "2027-01-14/zz/i0",
	                                  "2028-01-15/a"};
	for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
		struct arena a = {0};
		struct archive_entry *e;
		struct str next;
		int n;
		assert_int_equal(archive_list(r->dir, STR(""), STR(""), STR(""), STR(""), str_of(odd[i]), 10, &a, &e,
		                              &n, &next, NULL),
		                 DLQ_OK);
		assert_int_equal(n, i == 1 || i == 4 ? 3 : 0);
		arena_release(&a);
	}
	ar_free(r);
}

/* A long index is looked at in steps: pages that hold nothing, with a cursor. */
static void test_bounds(void **state)
{
	(void)state;
	struct ar *r = ar_new();
	struct dlq_err err = {0};
	ar_put(r, "q", 1, 1, T0);
	struct buf index = {.max = (size_t)1 << 30}, line = ar_read(ar_path(r, "q", T0, "index"));
	for (int i = 0; i < 150000; i++)
		buf_adds(&index, buf_str(&line));
	ar_write(ar_path(r, "q", T0, "index"), buf_str(&index));
	char cursor[100] = "";
	int calls = 0;
	do {
		struct arena a = {0};
		struct archive_entry *e;
		struct str next;
		int n;
		assert_int_equal(archive_list(r->dir, STR("q"), STR(""), STR(""), STR("other"), str_of(cursor), 10, &a,
		                              &e, &n, &next, &err),
		                 DLQ_OK);
		assert_int_equal(n, 0);
		snprintf(cursor, sizeof cursor, STR_FMT, STR_ARG(next));
		arena_release(&a);
		calls++;
	} while (cursor[0] && calls < 100);
	assert_in_range(calls, (int)(index.n >> 23), (int)(index.n >> 22));
	buf_release(&index);
	buf_release(&line);
	ar_free(r);
}

/* ---- finds ---- */

static void test_find(void **state)
{
	(void)state;
	struct ar *r = ar_new();
	struct dlq_err err = {0};
	for (int i = 0; i < 5; i++)
		ar_put(r, i % 2 ? "a" : "b", 10 * i, 10, T0 + i * DAY);
	for (int no = 0; no < 50; no++)
		assert_int_equal(ar_find(r, no, &err), DLQ_OK);
	assert_int_equal(ar_find(r, 50, &err), DLQ_NOT_FOUND);
	assert_says(&err, "in the archive");
	/* By message id: the newest, which need not be the last one written of its queue. */
	struct store_dead d = ar_dead("a", 60), d2 = ar_dead("c", 61);
	struct buf line = {0};
	d.id = d2.id = STR("order-7");
	ar_record(&d, T0 + 2 * DAY + 5, 10, &line);
	assert_int_equal(archive_add(r->w, &d, buf_str(&line), T0 + 2 * DAY + 5, &err), DLQ_OK);
	buf_clear(&line);
	ar_record(&d2, T0 + 2 * DAY + 4, 10, &line);
	assert_int_equal(archive_add(r->w, &d2, buf_str(&line), T0 + 2 * DAY + 4, &err), DLQ_OK);
	assert_int_equal(archive_flush(r->w, &err), DLQ_OK);
	struct arena a = {0};
	struct str record, queue;
	assert_int_equal(archive_find(r->dir, STR("order-7"), &a, &record, &queue, &err), DLQ_OK);
	assert_str(queue, "a");
	assert_memory_equal(record.p + 11, d.dlq_id, ULID_LEN);
	/* A clock that was set back: archived long before it died, by its id. */
	ar_put(r, "a", 99, 1, T0 - 400 * DAY);
	assert_int_equal(ar_find(r, 99, &err), DLQ_OK);
	assert_int_equal(archive_find(r->dir, STR(""), &a, &record, &queue, &err), DLQ_NOT_FOUND);
	assert_int_equal(archive_find(r->dir, STR("a\nb"), &a, &record, &queue, &err), DLQ_NOT_FOUND);
	assert_int_equal(archive_find("/nonexistent", STR("x"), &a, &record, &queue, &err), DLQ_NOT_FOUND);
	/* The id of a dead letter goes before a message that was given the same. */
	struct store_dead d3 = ar_dead("a", 70);
	char id[ULID_LEN + 1];
	ar_id(1, id);
	d3.id = str_of(id);
	buf_clear(&line);
	ar_record(&d3, T0 + 9 * DAY, 10, &line);
	assert_int_equal(archive_add(r->w, &d3, buf_str(&line), T0 + 9 * DAY, &err), DLQ_OK);
	assert_int_equal(archive_flush(r->w, &err), DLQ_OK);
	assert_int_equal(ar_find(r, 1, &err), DLQ_OK);
	arena_release(&a);
	buf_release(&line);
	ar_free(r);
}

/* A crash between the archive and the store writes records again: in the same file, or in that of the next day. */
static void test_twice(void **state)
{
	(void)state;
	struct ar *r = ar_new();
	int64_t nos[64];
	ar_put(r, "a", 900, 20, T0 + DAY);
	ar_put(r, "q", 1, 6, T0);
	ar_put(r, "q", 4, 6, T0 + 1);   /* 4, 5, 6 again */
	ar_put(r, "q", 8, 4, T0 + DAY); /* 8, 9 again */
	static const int64_t want[] = {11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1};
	for (int limit = 1; limit <= 12; limit++) {
		assert_int_equal(ar_list(r, "q", "", "", "", limit, nos, 64), ARRAY_LEN(want));
		assert_memory_equal(nos, want, sizeof want);
		assert_int_equal(ar_list(r, "", "", "", "", limit, nos, 64), 20 + ARRAY_LEN(want));
		assert_memory_equal(nos + 20, want, sizeof want);
	}
	struct arena a = {0};
	struct dlq_err err = {0};
	char id[ULID_LEN + 1], at[TIME_LEN + 1];
	struct str record, queue;
	for (int no = 5; no <= 9; no += 4) {
		ar_id(no, id);
		assert_int_equal(archive_find(r->dir, str_of(id), &a, &record, &queue, &err), DLQ_OK);
		time_format(no == 5 ? T0 + 1 : T0 + DAY, at);
		assert_non_null(memmem(record.p, record.n, at, TIME_LEN));
	}
	arena_release(&a);
	/* The same dead letter that died a second time is another record. */
	struct store_dead d = ar_dead("q", 5);
	struct buf line = {0};
	d.died_at_ms += 5000;
	ar_record(&d, T0 + DAY, 10, &line);
	assert_int_equal(archive_add(r->w, &d, buf_str(&line), T0 + DAY, &err), DLQ_OK);
	assert_int_equal(archive_flush(r->w, &err), DLQ_OK);
	assert_int_equal(ar_count(r, 5), 2);
	buf_release(&line);
	ar_free(r);
}

/* ---- reading while it is written ---- */

struct busy {
	struct ar *r;
	_Atomic int64_t committed; /* records below it are flushed */
	enum dlq_code code;
};

static void *write_on(void *arg)
{
	struct busy *b = arg;
	struct dlq_err err = {0};
	int64_t no = 0;
	for (int i = 0; i < 600 && !b->code; i++) {
		for (int k = 0; k < 1 + i % 7 && !b->code; k++)
			b->code = ar_add(b->r, i % 2 ? "q" : "r", no++, T0 + (i > 300 ? DAY : 0), 100, &err);
		if (!b->code)
			b->code = archive_flush(b->r->w, &err);
		if (!b->code)
			b->committed = no;
	}
	return NULL;
}

/* No error and nothing twice, and all that was there before a list began is in it. */
static void test_while_written(void **state)
{
	(void)state;
	struct ar *r = ar_new();
	struct busy b = {.r = r};
	pthread_t writer;
	int64_t nos[4000];
	char seen[4000];
	int64_t before = 0;
	assert_int_equal(pthread_create(&writer, NULL, write_on, &b), 0);
	for (int round = 0; before < 2300 && round < 100000; round++) {
		before = b.committed;
		int n = ar_list(r, "", "", "", "", 100 + round % 900, nos, 4000);
		memset(seen, 0, sizeof seen);
		for (int i = 0; i < n; i++) {
			assert_int_equal(seen[nos[i]], 0);
			seen[nos[i]] = 1;
		}
		for (int64_t no = 0; no < before; no++)
			assert_int_equal(seen[no], 1);
		if (before)
			assert_int_equal(ar_find(r, round * 37 % before, NULL), DLQ_OK);
	}
	pthread_join(writer, NULL);
	assert_int_equal(b.code, DLQ_OK);
	assert_true(before >= 2300);
	ar_free(r);
}

/* ---- how fast, how small ---- */

static int64_t now_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void test_figures(void **state)
{
	(void)state;
	struct ar *r = ar_new();
	struct dlq_err err = {0};
	int64_t plain = 0, us = 0;
	for (int no = 0; no < 10000; no++) {
		struct store_dead d = ar_dead("q", no);
		struct buf line = {0};
		ar_record(&d, T0, 512, &line);
		plain += (int64_t)line.n;
		us -= now_us();
		assert_int_equal(archive_add(r->w, &d, buf_str(&line), T0, &err), DLQ_OK);
		if (no % 64 == 63 || no == 9999)
			assert_int_equal(archive_flush(r->w, &err), DLQ_OK);
		us += now_us();
		buf_release(&line);
	}
	struct stat data, index;
	assert_int_equal(stat(ar_path(r, "q", T0, "jsonl.zst"), &data), 0);
	assert_int_equal(stat(ar_path(r, "q", T0, "index"), &index), 0);
	int64_t find = -now_us();
	assert_int_equal(ar_find(r, 17, &err), DLQ_OK);
	find += now_us();
	print_message("10,000 records: %" PRId64 " bytes of JSON in %" PRId64 " bytes of zstd and %" PRId64
	              " of index, written in %" PRId64 " ms; the 18th found in %" PRId64 " us\n",
	              plain, (int64_t)data.st_size, (int64_t)index.st_size, us / 1000, find);
	assert_true(data.st_size < plain);
	ar_free(r);
}

int main(void)
{
	log_set_level(LOG_ERROR);
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_format),        cmocka_unit_test(test_midnight),      cmocka_unit_test(test_drop),
	    cmocka_unit_test(test_large),         cmocka_unit_test(test_escapes),       cmocka_unit_test(test_list),
	    cmocka_unit_test(test_list_refusals), cmocka_unit_test(test_bounds),        cmocka_unit_test(test_find),
	    cmocka_unit_test(test_twice),         cmocka_unit_test(test_while_written), cmocka_unit_test(test_figures),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
