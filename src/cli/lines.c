#include "cli/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#define CHUNK 131072

struct lines {
	char *path;
	int fd;
	bool first, end;       /* the first bytes are still to be looked at; nothing more comes from the file */
	ZSTD_DStream *zstd;    /* NULL: plain */
	size_t frame_left;     /* 0: at the end of a frame */
	struct buf in;         /* compressed, or the first bytes of a plain file */
	struct buf text;       /* from `at`: what was not given yet */
	size_t at, searched;   /* searched: bytes after `at` without a line break */
	int64_t number;
};

enum dlq_code lines_open(const char *path, struct lines **out, struct dlq_err *err)
{
	int fd = strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;

	if (fd < 0)
		return err_set(err, errno == ENOENT ? DLQ_NOT_FOUND : DLQ_SYSTEM, "cannot open %s: %s", path, strerror(errno));
	*out = mem_alloc(sizeof(**out));
	**out = (struct lines){.path = mem_strdup(str_of(path)), .fd = fd, .first = true};
	(*out)->text.max = LINE_MAX_BYTES + CHUNK * 2;
	return DLQ_OK;
}

void lines_close(struct lines *l)
{
	if (!l)
		return;
	if (l->fd != STDIN_FILENO)
		close(l->fd);
	ZSTD_freeDStream(l->zstd);
	buf_release(&l->in);
	buf_release(&l->text);
	mem_free(l->path);
	mem_free(l);
}

/* A frame, or a skippable frame (RFC 8878, sections 3.1.1 and 3.1.2). */
static bool is_zstd(struct str s)
{
	return s.n >= 4 && (!memcmp(s.p, "\x28\xb5\x2f\xfd", 4) || (((unsigned char)s.p[0] & 0xf0) == 0x50 && !memcmp(s.p + 1, "\x2a\x4d\x18", 3)));
}

/* Reads up to CHUNK bytes into b. */
static enum dlq_code fill(struct lines *l, struct buf *b, struct dlq_err *err)
{
	char *room = buf_reserve(b, CHUNK);
	ssize_t n;

	if (!room)
		return err_set(err, DLQ_TOO_LARGE, "%s: line %lld is longer than %zu MiB", l->path, (long long)l->number + 1, LINE_MAX_BYTES >> 20);
	do
		n = read(l->fd, room, CHUNK);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_set(err, DLQ_SYSTEM, "cannot read %s: %s", l->path, strerror(errno));
	b->n += (size_t)n;
	l->end = n == 0;
	return DLQ_OK;
}

static enum dlq_code look_at_start(struct lines *l, struct dlq_err *err)
{
	enum dlq_code code = DLQ_OK;

	while (!code && !l->end && l->in.n < 4)
		code = fill(l, &l->in, err);
	l->first = false;
	if (!code && is_zstd(buf_str(&l->in))) {
		l->zstd = ZSTD_createDStream();
		ASSERT(l->zstd);
	} else {
		buf_adds(&l->text, buf_str(&l->in));
		buf_clear(&l->in);
	}
	return code;
}

static enum dlq_code decompress(struct lines *l, struct dlq_err *err)
{
	ZSTD_inBuffer in = {l->in.p, l->in.n, 0};
	char *room = buf_reserve(&l->text, CHUNK);

	if (!room)
		return err_set(err, DLQ_TOO_LARGE, "%s: line %lld is longer than %zu MiB", l->path, (long long)l->number + 1, LINE_MAX_BYTES >> 20);
	ZSTD_outBuffer out = {room, CHUNK, 0};
	size_t rc = ZSTD_decompressStream(l->zstd, &out, &in);

	if (ZSTD_isError(rc))
		return err_set(err, DLQ_BAD_REQUEST, "%s is damaged after line %lld: %s", l->path, (long long)l->number, ZSTD_getErrorName(rc));
	if (out.pos || in.pos)
		l->frame_left = rc;
	l->text.n += out.pos;
	if (in.pos)
		memmove(l->in.p, l->in.p + in.pos, l->in.n - in.pos);
	l->in.n -= in.pos;
	return DLQ_OK;
}

/* More bytes into text, if there are any; *more: some came, or may still come. */
static enum dlq_code more_text(struct lines *l, bool *more, struct dlq_err *err)
{
	size_t before = l->text.n;
	enum dlq_code code = DLQ_OK;

	if (l->first)
		code = look_at_start(l, err);
	else if (!l->zstd)
		code = l->end ? DLQ_OK : fill(l, &l->text, err);
	else if (!l->in.n && !l->end && !(code = fill(l, &l->in, err)))
		code = decompress(l, err);
	else if (!code)
		code = decompress(l, err);
	*more = l->text.n > before || !l->end || l->in.n;
	if (!code && !*more && l->frame_left)
		return err_set(err, DLQ_BAD_REQUEST, "%s is cut off after line %lld: its last compressed frame is not complete", l->path,
			       (long long)l->number);
	return code;
}

/* Takes the next line, blank or not, off text; the last one needs no line break. False: more text is needed. */
static bool take(struct lines *l, bool last, struct str *line)
{
	const char *from = l->text.p ? l->text.p + l->at : "", *end;
	size_t left = l->text.n - l->at;

	end = left > l->searched ? memchr(from + l->searched, '\n', left - l->searched) : NULL;
	if (!end && !(last && left)) {
		l->searched = left;
		return false;
	}
	*line = (struct str){from, end ? (size_t)(end - from) : left};
	l->at += line->n + (end != NULL);
	l->searched = 0;
	l->number++;
	return true;
}

enum dlq_code lines_next(struct lines *l, struct str *line, int64_t *number, struct dlq_err *err)
{
	enum dlq_code code = DLQ_OK;
	bool more = true;

	*line = (struct str){"", 0};
	while (!code) {
		while (take(l, !more, line)) {
			*number = l->number;
			*line = str_trim(*line);
			if (line->n)
				return DLQ_OK;
		}
		if (!more)
			break;
		/* What was given is not needed any more. */
		if (l->at)
			memmove(l->text.p, l->text.p + l->at, l->text.n - l->at);
		l->text.n -= l->at;
		l->at = 0;
		code = more_text(l, &more, err);
	}
	return code;
}
