/*
 * archive_file.c - writing the archive: frames, then their index lines, both synced.
 *
 * What must hold when a flush has returned DLQ_OK: every byte of the data file is in good frames, and the index has a
 * line for each record in them, in order. The last index line shows whether that is so (its frame ends where the file
 * ends, and it is the frame's last line), so that is all that is looked at when a file is opened. Otherwise it is
 * repaired first, with the data as the truth.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "base/log.h"
#include "engine/archive_int.h"

#define FRAME_RAW ((size_t)4 << 20) /* a frame takes records up to here; a larger record is alone in one */
#define FRAME_LINES 4096
#define LEVEL 3

/* What is gathered for one file. */
struct part {
	struct str queue;
	int32_t day;
	struct buf raw;   /* records */
	struct buf facts; /* their index lines without places, each ended by a newline */
	int64_t lines;
};

/* A file as it was before this flush. */
struct before {
	char *data, *index;
	int64_t data_n, index_n;
};

struct archive_writer {
	char *dir;
	ZSTD_CCtx *c;
	struct part *parts;
	int n, cap;
	struct before *written;
	int n_written, cap_written;
};

enum dlq_code archive_sys_fail(struct dlq_err *err, const char *what, const char *path)
{
	return err_set(err, DLQ_SYSTEM, "archive: cannot %s %s: %s", what, path, strerror(errno));
}

struct archive_writer *archive_writer_new(const char *dir)
{
	struct archive_writer *w = mem_alloc(sizeof(*w));
	w->dir = mem_strdup(str_of(dir));
	w->c = ZSTD_createCCtx();
	if (w->c) {
		ZSTD_CCtx_setParameter(w->c, ZSTD_c_compressionLevel, LEVEL);
		ZSTD_CCtx_setParameter(w->c, ZSTD_c_checksumFlag, 1);
	}
	return w;
}

static void parts_clear(struct archive_writer *w)
{
	for (int i = 0; i < w->n; i++) {
		mem_free((char *)w->parts[i].queue.p);
		buf_release(&w->parts[i].raw);
		buf_release(&w->parts[i].facts);
	}
	w->n = 0;
}

static void written_clear(struct archive_writer *w)
{
	for (int i = 0; i < w->n_written; i++) {
		mem_free(w->written[i].data);
		mem_free(w->written[i].index);
	}
	w->n_written = 0;
}

void archive_writer_free(struct archive_writer *w)
{
	if (!w)
		return;
	archive_drop(w);
	ZSTD_freeCCtx(w->c);
	mem_free(w->parts);
	mem_free(w->written);
	mem_free(w->dir);
	mem_free(w);
}

/* ---- plain files ---- */

static enum dlq_code sync_dir(const char *path, struct dlq_err *err)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return archive_sys_fail(err, "open", path);
	int rc = fsync(fd);
	enum dlq_code c = rc ? archive_sys_fail(err, "sync", path) : DLQ_OK;
	close(fd);
	return c;
}

static enum dlq_code make_dir(const char *path, struct dlq_err *err)
{
	return mkdir(path, 0700) && errno != EEXIST ? archive_sys_fail(err, "make", path) : DLQ_OK;
}

enum dlq_code archive_write_all(int fd, struct str s, const char *path, struct dlq_err *err)
{
	while (s.n) {
		ssize_t n = write(fd, s.p, s.n);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return archive_sys_fail(err, "write", path);
		s.p += n;
		s.n -= (size_t)n;
	}
	return DLQ_OK;
}

static enum dlq_code size_of(int fd, const char *path, int64_t *n, struct dlq_err *err)
{
	struct stat st;
	if (fstat(fd, &st))
		return archive_sys_fail(err, "look at", path);
	*n = st.st_size;
	return DLQ_OK;
}

/* ---- opening ---- */

static void day_close(struct day_file *f)
{
	if (f->data >= 0)
		close(f->data);
	if (f->index >= 0)
		close(f->index);
	f->data = f->index = -1;
}

static enum dlq_code day_paths(struct archive_writer *w, struct day_file *f, struct str queue, int32_t day,
                               struct dlq_err *err)
{
	char text[ARCHIVE_DAY_LEN + 1];
	archive_day_text(day, text);
	*f = (struct day_file){.data = -1, .index = -1};
	if (queue_name_check(queue))
		return err_set(err, DLQ_SYSTEM, "archive: a queue's name cannot be that of a folder: %s",
		               queue_name_check(queue));
	int a = snprintf(f->top, sizeof f->top, "%s/archive", w->dir);
	int b = snprintf(f->folder, sizeof f->folder, "%s/archive/" STR_FMT, w->dir, STR_ARG(queue));
	int c = snprintf(f->data_path, sizeof f->data_path, "%s/archive/" STR_FMT "/%s.jsonl.zst", w->dir,
	                 STR_ARG(queue), text);
	int d = snprintf(f->index_path, sizeof f->index_path, "%s/archive/" STR_FMT "/%s.index", w->dir, STR_ARG(queue),
	                 text);
	if (a < 0 || b < 0 || c < 0 || d < 0 || c >= ARCHIVE_PATH_MAX || d >= ARCHIVE_PATH_MAX)
		return err_set(err, DLQ_SYSTEM, "archive: the path below %s is too long", w->dir);
	return DLQ_OK;
}

static enum dlq_code day_sizes(struct day_file *f, struct dlq_err *err)
{
	enum dlq_code c = size_of(f->data, f->data_path, &f->data_n, err);
	return c ? c : size_of(f->index, f->index_path, &f->index_n, err);
}

static enum dlq_code day_open_files(struct day_file *f, int flags, struct dlq_err *err)
{
	f->data = open(f->data_path, O_RDWR | O_APPEND | O_CLOEXEC);
	f->made = f->data < 0 && errno == ENOENT;
	if (f->made)
		f->data = open(f->data_path, O_RDWR | O_APPEND | O_CLOEXEC | flags, 0600);
	if (f->data < 0)
		return archive_sys_fail(err, "open", f->data_path);
	f->index = open(f->index_path, O_RDWR | O_APPEND | O_CLOEXEC | O_CREAT, 0600);
	return f->index < 0 ? archive_sys_fail(err, "open", f->index_path) : day_sizes(f, err);
}

/* The newest day before `day` that has data, 0: none. */
static int32_t day_before(const char *folder, int32_t day)
{
	int32_t best = 0;
	DIR *d = opendir(folder);
	for (struct dirent *e; d && (e = readdir(d));) {
		struct str name = str_of(e->d_name);
		int32_t that = name.n > ARCHIVE_DAY_LEN ? archive_day_parse((struct str){name.p, ARCHIVE_DAY_LEN}) : 0;
		if (that > best && that < day && strcmp(name.p + ARCHIVE_DAY_LEN, ".jsonl.zst") == 0)
			best = that;
	}
	if (d)
		closedir(d);
	return best;
}

/* A crash just before midnight: nothing will be written to that file any more, so this is when it is made whole. */
static void repair_before(struct archive_writer *w, const struct day_file *f, struct str queue, int32_t day)
{
	struct day_file old;
	struct dlq_err err = {0};
	int32_t before = day_before(f->folder, day);
	if (!before || day_paths(w, &old, queue, before, &err))
		return;
	if (day_open_files(&old, 0, &err) || archive_day_check(&old, &err))
		log_event(LOG_WARN, "archive.not_repaired", "file=%s detail=\"%s\"", old.data_path, err.detail);
	day_close(&old);
}

/* Open, whole, and with its name on the disk. On an error closed. */
static enum dlq_code day_open(struct archive_writer *w, struct day_file *f, struct str queue, int32_t day,
                              struct dlq_err *err)
{
	enum dlq_code c = day_paths(w, f, queue, day, err);
	if (c)
		return c;
	c = make_dir(f->top, err);
	if (!c)
		c = make_dir(f->folder, err);
	if (!c)
		c = day_open_files(f, O_CREAT, err);
	/* While one of them is empty its name may be new, or an earlier sync of it may have failed. */
	bool fresh = !c && (!f->data_n || !f->index_n);
	if (!c && f->made)
		repair_before(w, f, queue, day);
	if (!c)
		c = archive_day_check(f, err);
	if (!c && fresh)
		c = sync_dir(f->folder, err);
	if (!c && fresh)
		c = sync_dir(f->top, err);
	if (!c && fresh)
		c = sync_dir(w->dir, err);
	if (c)
		day_close(f);
	return c;
}

/* ---- writing ---- */

static void remember(struct archive_writer *w, const struct day_file *f)
{
	if (w->n_written == w->cap_written) {
		w->cap_written = w->cap_written ? w->cap_written * 2 : 16;
		w->written = mem_grow(w->written, (size_t)w->cap_written, sizeof(*w->written));
	}
	w->written[w->n_written++] = (struct before){.data = mem_strdup(str_of(f->data_path)),
	                                             .index = mem_strdup(str_of(f->index_path)),
	                                             f->data_n,
	                                             f->index_n};
}

/* As far as it can: what stays is found by the next check, and by then it is nobody's loss. */
static void cut_back(struct archive_writer *w)
{
	for (int i = w->n_written; i-- > 0;) {
		const struct before *b = &w->written[i];
		int rc = truncate(b->index, b->index_n);
		if (!rc)
			rc = truncate(b->data, b->data_n);
		if (rc)
			log_event(LOG_WARN, "archive.not_cut_back", "file=%s detail=\"%s\"", b->data, strerror(errno));
	}
	written_clear(w);
}

static enum dlq_code compress(struct archive_writer *w, const struct part *p, struct buf *out, struct dlq_err *err)
{
	size_t bound = ZSTD_compressBound(p->raw.n);
	out->max = bound;
	char *to = buf_reserve(out, bound);
	ASSERT(to);
	size_t n = w->c ? ZSTD_compress2(w->c, to, bound, p->raw.p, p->raw.n) : 0;
	if (!w->c || ZSTD_isError(n))
		return err_set(err, DLQ_SYSTEM, "archive: zstd cannot compress %zu bytes of queue " STR_FMT ": %s",
		               p->raw.n, STR_ARG(p->queue), w->c ? ZSTD_getErrorName(n) : "out of memory");
	out->n = n;
	return DLQ_OK;
}

/* One frame of what is gathered for p, and its index lines. */
static enum dlq_code part_write(struct archive_writer *w, struct part *p, struct dlq_err *err)
{
	struct day_file f;
	struct buf frame = {0}, lines = {0};
	enum dlq_code c = compress(w, p, &frame, err);
	if (!c)
		c = day_open(w, &f, p->queue, p->day, err);
	if (c)
		goto out;
	remember(w, &f);
	struct archive_place place = {.offset = f.data_n, .bytes = (int64_t)frame.n, .lines = p->lines};
	archive_facts_complete(buf_str(&p->facts), NULL, place, &lines);
	c = archive_write_all(f.data, buf_str(&frame), f.data_path, err);
	if (!c && fdatasync(f.data))
		c = archive_sys_fail(err, "sync", f.data_path);
	if (!c)
		c = archive_index_add(&f, &lines, err);
	if (!c && fdatasync(f.index))
		c = archive_sys_fail(err, "sync", f.index_path);
	day_close(&f);
	buf_clear(&p->raw);
	buf_clear(&p->facts);
	p->lines = 0;
out:
	buf_release(&frame);
	buf_release(&lines);
	return c;
}

static struct part *part_for(struct archive_writer *w, struct str queue, int32_t day)
{
	for (int i = 0; i < w->n; i++)
		if (w->parts[i].day == day && str_eq(w->parts[i].queue, queue))
			return &w->parts[i];
	if (w->n == w->cap) {
		w->cap = w->cap ? w->cap * 2 : 16;
		w->parts = mem_grow(w->parts, (size_t)w->cap, sizeof(*w->parts));
	}
	struct part *p = &w->parts[w->n++];
	*p = (struct part){.queue = {mem_strdup(queue), queue.n}, .day = day};
	p->raw.max = FRAME_RAW + ARCHIVE_RECORD_MAX;
	return p;
}

enum dlq_code archive_add(struct archive_writer *w, const struct store_dead *d, struct str line, int64_t wall_ms,
                          struct dlq_err *err)
{
	enum dlq_code c = DLQ_OK;
	ASSERT(line.n && line.p[line.n - 1] == '\n');
	if (line.n > ARCHIVE_RECORD_MAX)
		return err_set(err, DLQ_SYSTEM, "archive: the record of %s has %zu bytes, at most %zu can be archived",
		               d->dlq_id, line.n, ARCHIVE_RECORD_MAX);
	struct part *p = part_for(w, d->queue, archive_day_of(wall_ms));
	if (p->lines && (p->raw.n + line.n > FRAME_RAW || p->lines == FRAME_LINES))
		c = part_write(w, p, err);
	if (c) {
		archive_drop(w);
		return c;
	}
	struct archive_entry e = {
	    .dlq_id = str_of(d->dlq_id),
	    .id = d->id,
	    .key = d->key,
	    .state = str_of(dead_state_name(d->state)),
	    .reason = str_of(reason_name(d->reason)),
	    .error_type = d->error_type,
	    .died_at_ms = d->died_at_ms,
	    .archived_at_ms = wall_ms,
	};
	archive_line_facts(&e, &p->facts);
	buf_addc(&p->facts, '\n');
	buf_adds(&p->raw, line);
	p->lines++;
	return DLQ_OK;
}

enum dlq_code archive_flush(struct archive_writer *w, struct dlq_err *err)
{
	enum dlq_code c = DLQ_OK;
	for (int i = 0; i < w->n && !c; i++)
		if (w->parts[i].lines)
			c = part_write(w, &w->parts[i], err);
	if (c) {
		archive_drop(w);
		return c;
	}
	parts_clear(w);
	written_clear(w);
	return DLQ_OK;
}

void archive_drop(struct archive_writer *w)
{
	cut_back(w);
	parts_clear(w);
}
