/*
 * archive.c - the end of retention: each dead letter becomes one line of DIR/archive/QUEUE/YYYY-MM-DD.jsonl with
 * everything that is known of it, and only after that file is synced does its record leave the store. A crash between
 * the two writes the line again at the next start: a repeat with the same dlq_id and died_at, never a loss (invariant
 * 5).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "engine/engine_int.h"
#include "engine/record.h"

#define ARCHIVE_RETRY_MS 60000
#define ATTEMPTS_MAX 10000
#define PATH_MAX_LEN 4096

/* One file open at a time; the step's records come in order of retention and mostly from few queues. */
struct archive_file {
	int fd;
	char path[PATH_MAX_LEN];
};

static enum dlq_code sys_fail(struct dlq_err *err, const char *what, const char *path)
{
	return err_set(err, DLQ_SYSTEM, "archive: cannot %s %s: %s", what, path, strerror(errno));
}

static enum dlq_code sync_dir(const char *path, struct dlq_err *err)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return sys_fail(err, "open", path);
	int rc = fsync(fd);
	close(fd);
	return rc ? sys_fail(err, "sync", path) : DLQ_OK;
}

static enum dlq_code make_dir(const char *path, const char *parent, struct dlq_err *err)
{
	if (mkdir(path, 0700) == 0)
		return sync_dir(parent, err);
	return errno == EEXIST ? DLQ_OK : sys_fail(err, "make", path);
}

static enum dlq_code file_close(struct archive_file *f, struct dlq_err *err)
{
	if (f->fd < 0)
		return DLQ_OK;
	int rc = fdatasync(f->fd);
	enum dlq_code c = rc ? sys_fail(err, "sync", f->path) : DLQ_OK;
	close(f->fd);
	f->fd = -1;
	return c;
}

/*
 * A full disk or a crash can leave the first piece of a line at the end. Its record is in the store still and is about to
 * be written again: without the piece, which would spoil that line.
 */
static enum dlq_code piece_cut(struct archive_file *f, struct dlq_err *err)
{
	char block[4096];
	off_t size = lseek(f->fd, 0, SEEK_END), end = size;
	while (end > 0) {
		size_t n = end < (off_t)sizeof(block) ? (size_t)end : sizeof(block);
		if (pread(f->fd, block, n, end - (off_t)n) != (ssize_t)n)
			return sys_fail(err, "read", f->path);
		const char *eol = memrchr(block, '\n', n);
		if (eol) {
			end -= (off_t)n - (eol + 1 - block);
			break;
		}
		end -= (off_t)n;
	}
	if (size < 0 || (end < size && ftruncate(f->fd, end)))
		return sys_fail(err, "cut", f->path);
	if (end < size)
		log_event(LOG_WARN, "archive.piece_cut", "file=%s bytes=%lld", f->path, (long long)(size - end));
	return DLQ_OK;
}

static enum dlq_code file_for(struct engine *e, struct archive_file *f, struct str queue, int64_t wall,
                              struct dlq_err *err)
{
	char top[PATH_MAX_LEN], dir[PATH_MAX_LEN], path[PATH_MAX_LEN], day[TIME_LEN + 1];
	time_format(wall, day);
	int n = snprintf(path, sizeof(path), "%s/archive/" STR_FMT "/%.10s.jsonl", e->dir, STR_ARG(queue), day);
	if (n < 0 || (size_t)n >= sizeof(path))
		return err_set(err, DLQ_SYSTEM, "archive: the path below %s is too long", e->dir);
	if (f->fd >= 0 && strcmp(f->path, path) == 0)
		return DLQ_OK;
	enum dlq_code c = file_close(f, err);
	snprintf(top, sizeof(top), "%s/archive", e->dir);
	snprintf(dir, sizeof(dir), "%s/archive/" STR_FMT, e->dir, STR_ARG(queue));
	if (!c)
		c = make_dir(top, e->dir, err);
	if (!c)
		c = make_dir(dir, top, err);
	if (c)
		return c;
	f->fd = open(path, O_RDWR | O_APPEND | O_CLOEXEC);
	bool made = f->fd < 0 && errno == ENOENT;
	if (made)
		f->fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	if (f->fd < 0)
		return sys_fail(err, "open", path);
	memcpy(f->path, path, sizeof(path));
	return made ? sync_dir(dir, err) : piece_cut(f, err);
}

static enum dlq_code write_all(struct archive_file *f, struct str s, struct dlq_err *err)
{
	while (s.n) {
		ssize_t n = write(f->fd, s.p, s.n);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return sys_fail(err, "write", f->path);
		s.p += n;
		s.n -= (size_t)n;
	}
	return DLQ_OK;
}

/* body: always the original bytes; a replacement stands beside it (invariant 6). */
static enum dlq_code record_line(struct engine *e, int64_t seq, struct arena *a, struct buf *line, struct str *queue,
                                 int64_t wall, struct dlq_err *err)
{
	struct store_dead d;
	struct store_attempt *at = NULL;
	struct str body = {0}, edited = {0}, type = {0};
	int n = 0;
	enum dlq_code c = e->ops->read_dead(e->wreader, seq, a, &d, err);
	if (!c)
		c = e->ops->read_attempts(e->wreader, seq, ATTEMPTS_MAX, a, &at, &n, err);
	if (!c)
		c = e->ops->read_body(e->wreader, seq, true, a, &body, &type, err);
	if (!c && d.edited)
		c = e->ops->read_body(e->wreader, seq, false, a, &edited, &type, err);
	if (c)
		return c;
	struct json_out j;
	jout_init(&j, line);
	jout_open(&j, '{');
	record_members(&j, &d);
	record_details(&j, &d, at, n, e->clock);
	jout_ktime(&j, "archived_at", wall);
	jout_bytes(&j, "body", body);
	if (d.edited)
		jout_bytes(&j, "edited_body", edited);
	jout_close(&j, '}');
	buf_addc(line, '\n');
	*queue = d.queue;
	return line->overflow
	           ? err_set(err, DLQ_SYSTEM, "archive: the record of %s is too large for one line", d.dlq_id)
	           : DLQ_OK;
}

static enum dlq_code write_records(struct engine *e, const int64_t *seqs, int n, int64_t wall, struct dlq_err *err)
{
	struct archive_file f = {.fd = -1};
	struct arena a = {0};
	struct buf line = {.max = (size_t)256 << 20};
	enum dlq_code c = DLQ_OK;
	for (int i = 0; i < n && !c; i++) {
		struct str queue;
		buf_clear(&line);
		arena_reset(&a);
		c = record_line(e, seqs[i], &a, &line, &queue, wall, err);
		if (!c)
			c = file_for(e, &f, queue, wall, err);
		if (!c)
			c = write_all(&f, buf_str(&line), err);
	}
	struct dlq_err close_err = {0};
	enum dlq_code c2 = file_close(&f, &close_err);
	if (!c && c2) {
		*err = close_err;
		c = c2;
	}
	arena_release(&a);
	buf_release(&line);
	return c;
}

static enum dlq_code archive_tx(struct engine *e, struct batch *b, struct dlq_err *err)
{
	int n = 0;
	int64_t next = NEVER;
	enum dlq_code c = batch_tx(e, b, err);
	if (!c)
		c = e->ops->retention_due(e->store, b->now, ARCHIVE_STEP, e->seqs, &n, &next, err);
	if (!c && n)
		c = write_records(e, e->seqs, n, b->wall, err);
	for (int i = 0; i < n && !c; i++)
		c = e->ops->archive_one(e->store, e->seqs[i], err);
	if (c)
		return c;
	b->tx = false; /* committed or gone */
	c = e->ops->commit(e->store, err);
	if (c)
		return c;
	e->commits_since_maintain++;
	if (n)
		e->due_gen++; /* in an ordered queue the followers may go on */
	e->next_retention = n == ARCHIVE_STEP ? 0 : next > b->now ? next : b->now + 1;
	return DLQ_OK;
}

/* Alone in its transaction: what the reader sees is what the transaction sees, and no caller waits for its file. */
void archive_step(struct engine *e, int64_t now)
{
	struct batch b = {.now = now, .wall = clock_wall_ms(e->clock)};
	struct dlq_err err = {0};
	enum dlq_code c = archive_tx(e, &b, &err);
	if (!c) {
		if (e->archive_failing)
			log_event(LOG_INFO, "archive.works_again", "dir=%s/archive", e->dir);
		e->archive_failing = false;
		return;
	}
	if (store_fatal(c)) {
		writer_fail(e, &b, c, &err);
		if (b.head)
			ops_post(b.head);
		return;
	}
	if (b.tx)
		e->ops->rollback(e->store);
	e->next_retention = now + ARCHIVE_RETRY_MS;
	e->due_gen++;
	if (!e->archive_failing)
		log_event(LOG_ERROR, "archive.failed",
		          "detail=\"%s\" next=trying_again_every_minute_nothing_is_removed", err.detail);
	e->archive_failing = true;
}
