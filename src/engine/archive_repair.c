/*
 * archive_repair.c - making a day's files whole: what its index knows, and what is cut and made again when that is not all that the
 * data holds. The data is the truth.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "engine/archive_int.h"

#define REPAIR_FLUSH ((size_t)1 << 20)
#define COVERS_LINES 1000

/* ---- what the index knows ---- */

/* The last one of the newest `max` lines for which `good` holds: where it ends, and its frame. Both 0 when there is
 * none. */
static bool index_last(int fd, int64_t size, int64_t max, bool (*good)(const struct archive_place *, void *), void *ctx,
                       int64_t *line_end, int64_t *frame_end)
{
	struct archive_back b;
	struct arena a = {0};
	bool more = true, ok = archive_back_init(&b, fd, size, ARCHIVE_INDEX_LINE_MAX);
	*line_end = *frame_end = 0;
	while (ok && more && max-- > 0) {
		int64_t at;
		size_t n;
		struct str text;
		struct archive_entry e = {0};
		struct archive_place p;
		ok = archive_back_prev(&b, &at, &n, &more) &&
		     (!more || archive_back_text(&b, at, n, ARCHIVE_INDEX_LINE_MAX, &text));
		if (!ok || !more)
			break;
		arena_reset(&a);
		if (!archive_line_parse(&a, text, false, &e, &p) || p.offset < 0 || p.bytes <= 0 ||
		    p.bytes > INT64_MAX - p.offset || !good(&p, ctx))
			continue;
		*line_end = at + (int64_t)n + 1;
		*frame_end = p.offset + p.bytes;
		break;
	}
	arena_release(&a);
	archive_back_release(&b);
	return ok;
}

static bool any_place(const struct archive_place *p, void *ctx)
{
	(void)p, (void)ctx;
	return true;
}

bool archive_index_covers(int index_fd, int64_t *end)
{
	struct stat st;
	int64_t line_end;
	return !fstat(index_fd, &st) && index_last(index_fd, st.st_size, COVERS_LINES, any_place, NULL, &line_end, end);
}

static bool is_last_line(const struct archive_place *p, void *ctx)
{
	const struct day_file *f = ctx;
	return p->line == p->lines && p->offset + p->bytes == f->data_n;
}

/* A frame that really is where the line says. A read that fails shows as no frame, and again when the data is read. */
static bool is_true(const struct archive_place *p, void *ctx)
{
	const struct day_file *f = ctx;
	int64_t end;
	return p->line == p->lines && p->offset + p->bytes <= f->data_n &&
	       !archive_frame_walk(f->data, p->offset, f->data_n, &end) && end == p->offset + p->bytes;
}

/* ---- repair ---- */

struct reindex {
	struct arena a;
	struct buf lines;   /* facts, to be completed when the frame was good */
	int64_t n;          /* lines of the frame */
	struct buf numbers; /* int64_t: the number of each line that has facts */
};

static void reindex_line(void *ctx, int64_t no, struct str text)
{
	struct reindex *r = ctx;
	struct archive_entry e = {0};
	r->n = no;
	arena_reset(&r->a);
	if (!archive_line_parse(&r->a, text, false, &e, NULL))
		return;
	archive_line_facts(&e, &r->lines);
	buf_addc(&r->lines, '\n');
	buf_add(&r->numbers, &no, sizeof no);
}

void archive_facts_complete(struct str facts, const char *numbers, struct archive_place p, struct buf *out)
{
	p.line = 0;
	while (facts.n) {
		size_t n = (size_t)((const char *)memchr(facts.p, '\n', facts.n) - facts.p);
		if (numbers) {
			memcpy(&p.line, numbers, sizeof p.line);
			numbers += sizeof p.line;
		} else {
			p.line++;
		}
		buf_add(out, facts.p, n);
		archive_line_end(&p, out);
		facts.p += n + 1;
		facts.n -= n + 1;
	}
}

enum dlq_code archive_index_add(struct day_file *f, struct buf *out, struct dlq_err *err)
{
	if (out->overflow)
		return err_set(err, DLQ_SYSTEM, "archive: too many index lines at once for %s", f->index_path);
	enum dlq_code c = archive_write_all(f->index, buf_str(out), f->index_path, err);
	if (!c)
		f->index_n += (int64_t)out->n;
	buf_clear(out);
	return c;
}

/* Index lines for the frames from `at` on. *end: behind the last good frame. */
static enum dlq_code reindex(struct day_file *f, int64_t at, int64_t *end, struct dlq_err *err)
{
	struct archive_frames *frames = archive_frames_new();
	struct reindex r = {0};
	struct buf out = {0};
	int64_t made = 0;
	enum dlq_code c = DLQ_OK;
	*end = at;
	while (!c && at < f->data_n) {
		int64_t next;
		const char *why = "it is not a frame";
		buf_clear(&r.lines);
		buf_clear(&r.numbers);
		r.n = 0;
		enum archive_frame_state state = archive_frame_walk(f->data, at, f->data_n, &next);
		if (!state)
			state = archive_frame_lines(frames, f->data, at, next, 0, reindex_line, &r, &why);
		if (state == FRAME_FAILED) {
			c = archive_sys_fail(err, "read", f->data_path);
		} else if (r.lines.overflow || r.numbers.overflow) {
			c = err_set(
			    err, DLQ_SYSTEM,
			    "archive: the frame at offset %lld of %s holds too many records; move the file away",
			    (long long)at, f->data_path);
		} else if (state == FRAME_GOOD) {
			struct archive_place p = {.offset = at, .bytes = next - at, .lines = r.n};
			archive_facts_complete(buf_str(&r.lines), r.numbers.p, p, &out);
			made += (int64_t)(r.numbers.n / sizeof(int64_t));
			*end = at = next;
		} else {
			/* Damage with good frames behind it stays: people may want to look at it. Without, it never
			 * counted. */
			bool failed;
			next = archive_frame_search(frames, f->data, at + 1, f->data_n, &failed);
			if (failed)
				c = archive_sys_fail(err, "read", f->data_path);
			if (next < 0)
				break;
			log_event(LOG_ERROR, "archive.damaged",
			          "file=%s offset=%lld bytes=%lld why=\"%s\" its_records=left_out_of_the_index",
			          f->data_path, (long long)at, (long long)(next - at), why);
			at = next;
		}
		if (!c && out.n >= REPAIR_FLUSH)
			c = archive_index_add(f, &out, err);
	}
	if (!c)
		c = archive_index_add(f, &out, err);
	if (!c && made)
		log_event(LOG_WARN, "archive.indexed", "file=%s records=%lld", f->data_path, (long long)made);
	archive_frames_free(frames);
	arena_release(&r.a);
	buf_release(&r.lines);
	buf_release(&r.numbers);
	buf_release(&out);
	return c;
}

static enum dlq_code cut(int fd, int64_t *size, int64_t to, const char *path, struct dlq_err *err)
{
	if (*size == to)
		return DLQ_OK;
	if (ftruncate(fd, to))
		return archive_sys_fail(err, "cut", path);
	log_event(LOG_WARN, "archive.cut", "file=%s at=%lld bytes=%lld", path, (long long)to, (long long)(*size - to));
	*size = to;
	return DLQ_OK;
}

static enum dlq_code repair(struct day_file *f, struct dlq_err *err)
{
	int64_t line_end, frame_end, end;
	/* What a killed process has written may not be on the disk yet, and no index may know more than the disk. */
	if (fdatasync(f->data))
		return archive_sys_fail(err, "sync", f->data_path);
	if (!index_last(f->index, f->index_n, INT64_MAX, is_true, f, &line_end, &frame_end))
		return archive_sys_fail(err, "read", f->index_path);
	enum dlq_code c = cut(f->index, &f->index_n, line_end, f->index_path, err);
	if (!c)
		c = reindex(f, frame_end, &end, err);
	if (!c)
		c = cut(f->data, &f->data_n, end, f->data_path, err);
	if (!c && fdatasync(f->index))
		c = archive_sys_fail(err, "sync", f->index_path);
	return c;
}

enum dlq_code archive_day_check(struct day_file *f, struct dlq_err *err)
{
	int64_t line_end, frame_end;
	char eol = '\n';
	if (!f->data_n && !f->index_n)
		return DLQ_OK;
	if (f->index_n && !archive_pread(f->index, &eol, 1, f->index_n - 1))
		return archive_sys_fail(err, "read", f->index_path);
	if (!index_last(f->index, f->index_n, 1, is_last_line, f, &line_end, &frame_end))
		return archive_sys_fail(err, "read", f->index_path);
	return eol == '\n' && line_end && line_end == f->index_n ? DLQ_OK : repair(f, err);
}
