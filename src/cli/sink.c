#include "cli/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#define LEVEL 9
#define CHUNK 131072

struct sink {
	char *path, *part; /* part NULL: written in place */
	int fd;
	bool force, closed;
	ZSTD_CCtx *zstd;
	char *out;         /* CHUNK bytes, with zstd */
	int64_t bytes;
};

static const char *name_of(const struct sink *s)
{
	return s->part ? s->part : s->path ? s->path : "stdout";
}

static enum dlq_code open_file(struct sink *s, struct dlq_err *err)
{
	struct stat st;
	struct buf part = {0};

	if (!stat(s->path, &st)) {
		if (!S_ISREG(st.st_mode)) {
			s->fd = open(s->path, O_WRONLY | O_CLOEXEC);
			return s->fd < 0 ? err_set(err, DLQ_SYSTEM, "cannot open %s: %s", s->path, strerror(errno)) : DLQ_OK;
		}
		if (!s->force)
			return err_set(err, DLQ_CONFLICT, "%s exists; take another name, or --force to write over it", s->path);
	}
	buf_addf(&part, "%s.part", s->path);
	s->part = buf_take(&part, NULL);
	s->fd = open(s->part, O_WRONLY | O_CREAT | O_CLOEXEC | (s->force ? O_TRUNC : O_EXCL), 0600);
	if (s->fd >= 0)
		return DLQ_OK;
	int failed = errno;
	enum dlq_code code = failed == EEXIST ? DLQ_CONFLICT : DLQ_SYSTEM;

	err_set(err, code, failed == EEXIST ? "%s is left of an export that did not end, or of one that runs; remove it, or --force to write over it (%s)"
					    : "cannot make %s: %s", s->part, strerror(failed));
	mem_free(s->part);
	s->part = NULL;
	return code;
}

enum dlq_code sink_open(const char *path, bool zstd, bool force, struct sink **out, struct dlq_err *err)
{
	struct sink *s = mem_alloc(sizeof(*s));

	*s = (struct sink){.path = path ? mem_strdup(str_of(path)) : NULL, .fd = path ? -1 : STDOUT_FILENO, .force = force};
	if (path && open_file(s, err)) {
		sink_free(s);
		return err->code;
	}
	if (zstd) {
		s->zstd = ZSTD_createCCtx();
		ASSERT(s->zstd);
		ZSTD_CCtx_setParameter(s->zstd, ZSTD_c_compressionLevel, LEVEL);
		ZSTD_CCtx_setParameter(s->zstd, ZSTD_c_checksumFlag, 1);
		s->out = mem_alloc(CHUNK);
	}
	*out = s;
	return DLQ_OK;
}

static enum dlq_code write_all(struct sink *s, struct str bytes, struct dlq_err *err)
{
	while (bytes.n) {
		ssize_t n = write(s->fd, bytes.p, bytes.n);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			s->closed = errno == EPIPE;
			return err_set(err, DLQ_SYSTEM, "cannot write %s: %s", name_of(s), strerror(errno));
		}
		bytes.p += n;
		bytes.n -= (size_t)n;
		s->bytes += n;
	}
	return DLQ_OK;
}

static enum dlq_code compress(struct sink *s, struct str bytes, ZSTD_EndDirective end, struct dlq_err *err)
{
	ZSTD_inBuffer in = {bytes.p, bytes.n, 0};
	enum dlq_code code = DLQ_OK;
	size_t left;

	do {
		ZSTD_outBuffer out = {s->out, CHUNK, 0};

		left = ZSTD_compressStream2(s->zstd, &out, &in, end);
		if (ZSTD_isError(left))
			return err_set(err, DLQ_INTERNAL, "cannot compress: %s", ZSTD_getErrorName(left));
		code = write_all(s, (struct str){s->out, out.pos}, err);
	} while (!code && (end == ZSTD_e_end ? left : in.pos < in.size));
	return code;
}

enum dlq_code sink_write(struct sink *s, struct str bytes, struct dlq_err *err)
{
	return s->zstd ? compress(s, bytes, ZSTD_e_continue, err) : write_all(s, bytes, err);
}

enum dlq_code sink_finish(struct sink *s, bool whole, struct dlq_err *err)
{
	if (s->zstd && compress(s, (struct str){"", 0}, ZSTD_e_end, err))
		return err->code;
	if (!s->part)
		return DLQ_OK;
	if (fsync(s->fd))
		return err_set(err, DLQ_SYSTEM, "cannot write %s: %s", s->part, strerror(errno));
	if (!whole)
		return DLQ_OK;
	int rc = renameat2(AT_FDCWD, s->part, AT_FDCWD, s->path, s->force ? 0 : RENAME_NOREPLACE);
	if (rc && errno == EINVAL) /* a file system without that */
		rc = rename(s->part, s->path);
	if (rc)
		return err_set(err, errno == EEXIST ? DLQ_CONFLICT : DLQ_SYSTEM, "cannot give %s its name %s: %s", s->part, s->path, strerror(errno));
	mem_free(s->part);
	s->part = NULL;
	return DLQ_OK;
}

int64_t sink_bytes(const struct sink *s)
{
	return s->bytes;
}

const char *sink_part(const struct sink *s)
{
	return s->part;
}

bool sink_closed(const struct sink *s)
{
	return s->closed;
}

void sink_free(struct sink *s)
{
	if (!s)
		return;
	if (s->fd > STDERR_FILENO)
		close(s->fd);
	if (s->part && !s->bytes)
		unlink(s->part);
	ZSTD_freeCCtx(s->zstd);
	mem_free(s->out);
	mem_free(s->path);
	mem_free(s->part);
	mem_free(s);
}
