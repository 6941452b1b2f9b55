/* An archive in a temporary folder. */
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "base/clock.h"
#include "engine/record.h"
#include "lib_archive.h"

struct ar *ar_new(void)
{
	struct ar *r = mem_alloc(sizeof(*r));
	snprintf(r->dir, sizeof r->dir, "%s/dlq-archive-XXXXXX", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
	assert_non_null(mkdtemp(r->dir));
	r->w = archive_writer_new(r->dir);
	return r;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

void ar_free(struct ar *r)
{
	archive_writer_free(r->w);
	nftw(r->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	mem_free(r);
}

const char *ar_path(const struct ar *r, const char *q, int64_t wall, const char *suffix)
{
	static char paths[4][200];
	static int next;
	char day[TIME_LEN + 1], *path = paths[next++ % 4];
	time_format(wall, day);
	snprintf(path, sizeof paths[0], "%s/archive/%s/%.10s.%s", r->dir, q, day, suffix);
	return path;
}

struct buf ar_read(const char *path)
{
	struct buf b = {.max = (size_t)1 << 30};
	FILE *f = fopen(path, "rb");
	for (size_t n = 1; f && n;) {
		char *to = buf_reserve(&b, 65536);
		assert_non_null(to);
		n = fread(to, 1, 65536, f);
		b.n += n;
	}
	if (f)
		fclose(f);
	return b;
}

void ar_write(const char *path, struct str bytes)
{
	FILE *f = fopen(path, "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(bytes.p, 1, bytes.n, f), bytes.n);
	assert_int_equal(fclose(f), 0);
}

/* ---- records ---- */

void ar_id(int64_t no, char out[ULID_LEN + 1])
{
	ulid_make(AR_DAY0 + no * 1000, 7, (uint64_t)no, out);
}

struct store_dead ar_dead(const char *q, int64_t no)
{
	static char ids[16][32];
	static int next;
	char *id = ids[next++ % 16];
	snprintf(id, sizeof ids[0], "m-%" PRId64, no);
	struct store_dead d = {
	    .seq = no,
	    .queue = str_of(q),
	    .id = str_of(id),
	    .headers = STR("{\"tenant\":\"acme\"}"),
	    .state = DEAD_DEAD,
	    .reason = REASON_MAX_ATTEMPTS,
	    .attempts = 5,
	    .received_at_ms = AR_DAY0 + no * 1000,
	    .first_failed_at_ms = AR_DAY0 + no * 1000,
	    .last_failed_at_ms = AR_DAY0 + no * 1000,
	    .died_at_ms = AR_DAY0 + no * 1000,
	    .error_type = STR("Timeout"),
	    .message = STR("the \"upstream\" did not answer\nin time"),
	    .worker = STR("w1"),
	};
	if (no % 3 == 0)
		d.key = STR("customer 42");
	ar_id(no, d.dlq_id);
	return d;
}

void ar_record(const struct store_dead *d, int64_t wall, size_t body, struct buf *line)
{
	struct clock *clock = clock_manual_new(AR_DAY0);
	struct store_attempt at = {
	    .n = 1, .at_ms = d->died_at_ms, .error_type = d->error_type, .message = d->message, .exit_code = -1};
	struct buf text = {.max = (size_t)256 << 20};
	uint64_t x = (uint64_t)d->seq * 0x9e3779b97f4a7c15u + 1;
	while (text.n < body) { /* not to be compressed much */
		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		buf_addc(&text, (char)('0' + x % 64));
	}
	struct json_out j;
	jout_init(&j, line);
	jout_open(&j, '{');
	record_members(&j, d, clock, 0);
	record_details(&j, d, &at, 1);
	jout_ktime(&j, "archived_at", wall);
	jout_bytes(&j, "body", buf_str(&text));
	jout_close(&j, '}');
	buf_addc(line, '\n');
	buf_release(&text);
	clock_free(clock);
}

enum dlq_code ar_add(struct ar *r, const char *q, int64_t no, int64_t wall, size_t body, struct dlq_err *err)
{
	struct store_dead d = ar_dead(q, no);
	struct buf line = {.max = (size_t)256 << 20};
	ar_record(&d, wall, body, &line);
	enum dlq_code c = archive_add(r->w, &d, buf_str(&line), wall, err);
	buf_release(&line);
	return c;
}

void ar_put(struct ar *r, const char *q, int64_t no, int n, int64_t wall)
{
	struct dlq_err err = {0};
	for (int i = 0; i < n; i++)
		if (ar_add(r, q, no + i, wall, 40, &err))
			fail_msg("%s", err.detail);
	if (archive_flush(r->w, &err))
		fail_msg("%s", err.detail);
}

/* ---- reading ---- */

int ar_list(const struct ar *r, const char *q, const char *from, const char *to, const char *id, int limit,
            int64_t *nos, int max)
{
	char cursor[300] = "";
	int got = 0;
	for (int pages = 0;; pages++) {
		struct arena a = {0};
		struct archive_entry *e;
		struct str next;
		struct dlq_err err = {0};
		int n;
		if (archive_list(r->dir, str_of(q), str_of(from), str_of(to), str_of(id), str_of(cursor), limit, &a, &e,
		                 &n, &next, &err))
			fail_msg("%s", err.detail);
		assert_true(n <= limit && pages < 100000 && next.n < sizeof cursor);
		for (int i = 0; i < n; i++) {
			uint64_t seq;
			assert_true(ulid_parse(e[i].dlq_id, NULL, NULL, &seq));
			assert_true(got < max);
			nos[got++] = (int64_t)seq;
		}
		memcpy(cursor, next.p, next.n);
		cursor[next.n] = '\0';
		arena_release(&a);
		if (!cursor[0])
			return got;
	}
}

int ar_count(const struct ar *r, int64_t no)
{
	int64_t nos[16];
	char id[ULID_LEN + 1];
	ar_id(no, id);
	return ar_list(r, "", "", "", id, 10, nos, 16);
}

enum dlq_code ar_find(const struct ar *r, int64_t no, struct dlq_err *err)
{
	struct arena a = {0};
	struct str record = {0}, queue = {0};
	char id[ULID_LEN + 1], start[64];
	struct dlq_err mine = {0};
	ar_id(no, id);
	enum dlq_code c = archive_find(r->dir, str_of(id), &a, &record, &queue, err ? err : &mine);
	snprintf(start, sizeof start, "{\"dlq_id\":\"%s\",", id);
	if (!c)
		assert_true(str_starts(record, start) && record.p[record.n - 1] == '}');
	arena_release(&a);
	return c;
}

struct buf ar_unpack(const char *path)
{
	struct buf in = ar_read(path), out = {.max = (size_t)1 << 30};
	ZSTD_DCtx *d = ZSTD_createDCtx();
	ZSTD_inBuffer src = {in.p, in.n, 0};
	size_t left = 0;
	while (src.pos < src.size) {
		char *to = buf_reserve(&out, 1 << 20);
		ZSTD_outBuffer dst = {to, 1 << 20, 0};
		left = ZSTD_decompressStream(d, &dst, &src);
		if (ZSTD_isError(left))
			fail_msg("%s: %s before byte %zu", path, ZSTD_getErrorName(left), src.pos);
		out.n += dst.pos;
	}
	while (left) { /* what it still holds */
		char *to = buf_reserve(&out, 1 << 20);
		ZSTD_outBuffer dst = {to, 1 << 20, 0};
		size_t before = left;
		left = ZSTD_decompressStream(d, &dst, &src);
		assert_true(!ZSTD_isError(left) && (dst.pos || left != before));
		out.n += dst.pos;
	}
	ZSTD_freeDCtx(d);
	buf_release(&in);
	return out;
}

int64_t ar_lines(struct str s)
{
	int64_t n = 0;
	for (size_t i = 0; i < s.n; i++)
		n += s.p[i] == '\n';
	return n;
}
