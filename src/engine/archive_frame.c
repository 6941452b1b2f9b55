/*
 * archive_frame.c - the zstd frames of an archive file: where one ends, and what is in it (RFC 8878). Nothing in a file
 * is believed: sizes are limited before memory is taken for them, and a frame is good only when its checksum was right.
 */
#include <errno.h>
#include <string.h>
#include <zstd.h>

#include "engine/archive_int.h"

#define MAGIC "\x28\xb5\x2f\xfd"
#define MAGIC_LEN 4
#define HEADER_MAX 18
#define BLOCK_MAX ((uint32_t)128 << 10)
#define WINDOW_LOG_MAX 24 /* dlq writes 21 */
#define CHUNK ((size_t)128 << 10)

struct archive_frames {
	ZSTD_DCtx *d;
	char *in, *out;  /* CHUNK each */
	struct buf line; /* the one that is being gathered */
};

struct archive_frames *archive_frames_new(void)
{
	struct archive_frames *f = mem_alloc(sizeof(*f));
	f->d = ZSTD_createDCtx();
	f->in = mem_grow(NULL, CHUNK, 1);
	f->out = mem_grow(NULL, CHUNK, 1);
	f->line.max = ARCHIVE_RECORD_MAX;
	if (f->d)
		ZSTD_DCtx_setParameter(f->d, ZSTD_d_windowLogMax, WINDOW_LOG_MAX);
	return f;
}

void archive_frames_free(struct archive_frames *f)
{
	if (!f)
		return;
	ZSTD_freeDCtx(f->d);
	mem_free(f->in);
	mem_free(f->out);
	buf_release(&f->line);
	mem_free(f);
}

/* How long a frame's header is, from its fifth byte. */
static size_t header_len(unsigned char descriptor)
{
	static const size_t dictionary[] = {0, 1, 2, 4}, content[] = {0, 2, 4, 8};
	bool single = descriptor >> 5 & 1;
	size_t n = MAGIC_LEN + 1 + !single + dictionary[descriptor & 3] + content[descriptor >> 6];
	return n + (single && !(descriptor >> 6));
}

enum archive_frame_state archive_frame_walk(int fd, int64_t at, int64_t size, int64_t *end)
{
	unsigned char h[HEADER_MAX];
	size_t n = size - at < HEADER_MAX ? (size_t)(size - at) : HEADER_MAX;
	if (!archive_pread(fd, h, n, at))
		return FRAME_FAILED;
	if (memcmp(h, MAGIC, n < MAGIC_LEN ? n : MAGIC_LEN) != 0)
		return FRAME_BAD;
	if (n <= MAGIC_LEN || n < header_len(h[MAGIC_LEN]))
		return FRAME_PIECE;
	int64_t p = at + (int64_t)header_len(h[MAGIC_LEN]);
	bool last = false;
	while (!last) {
		unsigned char b[3];
		if (size - p < 3)
			return FRAME_PIECE;
		if (!archive_pread(fd, b, 3, p))
			return FRAME_FAILED;
		uint32_t head = (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16, len = head >> 3;
		unsigned type = head >> 1 & 3;
		if (type == 3 || len > BLOCK_MAX)
			return FRAME_BAD;
		p += 3 + (type == 1 ? 1 : len);
		last = head & 1;
	}
	p += h[MAGIC_LEN] >> 2 & 1 ? 4 : 0;
	if (p > size)
		return FRAME_PIECE;
	*end = p;
	return FRAME_GOOD;
}

/* ---- lines ---- */

struct unpack {
	struct archive_frames *f;
	int64_t no, only; /* of the line being gathered */
	void (*line)(void *ctx, int64_t no, struct str text);
	void *ctx;
};

/* Gives the lines that end in s; a line that is whole in s is not copied. */
static bool give(struct unpack *u, struct str s)
{
	struct buf *gathered = &u->f->line;
	while (s.n) {
		const char *eol = memchr(s.p, '\n', s.n);
		size_t n = eol ? (size_t)(eol - s.p) : s.n;
		bool wanted = !u->only || u->no == u->only;
		if (wanted && (!eol || gathered->n))
			buf_add(gathered, s.p, n);
		if (gathered->overflow)
			return false;
		if (!eol)
			return true;
		if (wanted)
			u->line(u->ctx, u->no, gathered->n ? buf_str(gathered) : (struct str){s.p, n});
		buf_clear(gathered);
		u->no++;
		s.p += n + 1;
		s.n -= n + 1;
	}
	return true;
}

static const char *header_wrong(const char *p, size_t n)
{
	unsigned long long content = ZSTD_getFrameContentSize(p, n);
	if (content == ZSTD_CONTENTSIZE_UNKNOWN || content == ZSTD_CONTENTSIZE_ERROR)
		return "it does not say how large its content is";
	return content > ARCHIVE_FRAME_MAX ? "its content is larger than any that dlq writes" : NULL;
}

/* One block of the file. *left: what zstd still expects, 0 when the frame is done. */
static enum archive_frame_state unpack_chunk(struct unpack *u, ZSTD_inBuffer *in, size_t *left, const char **why)
{
	for (;;) {
		ZSTD_outBuffer out = {u->f->out, CHUNK, 0};
		size_t before = in->pos;
		*left = ZSTD_decompressStream(u->f->d, &out, in);
		if (ZSTD_isError(*left)) {
			*why = ZSTD_getErrorName(*left);
			return FRAME_BAD;
		}
		if (!give(u, (struct str){u->f->out, out.pos})) {
			*why = "a line in it is larger than any that dlq writes";
			return FRAME_BAD;
		}
		bool stuck = in->pos == before && !out.pos;
		if (!*left || stuck || (in->pos == in->size && out.pos < CHUNK))
			return FRAME_GOOD;
	}
}

static enum archive_frame_state unpack_frame(struct unpack *u, int fd, int64_t at, int64_t end, const char **why)
{
	size_t left = 1;
	for (int64_t p = at; p < end && left;) {
		size_t n = end - p < (int64_t)CHUNK ? (size_t)(end - p) : CHUNK;
		*why = "it cannot be read from the disk";
		if (!archive_pread(fd, u->f->in, n, p))
			return FRAME_FAILED;
		*why = p == at ? header_wrong(u->f->in, n) : NULL;
		if (*why)
			return FRAME_BAD;
		ZSTD_inBuffer in = {u->f->in, n, 0};
		if (unpack_chunk(u, &in, &left, why))
			return FRAME_BAD;
		p += (int64_t)in.pos;
		*why = "it does not end where it should";
		if (left ? in.pos < in.size : p != end)
			return FRAME_BAD;
	}
	*why = "it ends too early";
	return left ? FRAME_BAD : FRAME_GOOD;
}

enum archive_frame_state archive_frame_lines(struct archive_frames *f, int fd, int64_t at, int64_t end, int64_t only,
                                             void (*line)(void *ctx, int64_t no, struct str text), void *ctx,
                                             const char **why)
{
	struct unpack u = {.f = f, .no = 1, .only = only, .line = line, .ctx = ctx};
	*why = "out of memory";
	if (!f->d)
		return FRAME_BAD;
	ZSTD_DCtx_reset(f->d, ZSTD_reset_session_only);
	buf_clear(&f->line);
	enum archive_frame_state state = unpack_frame(&u, fd, at, end, why);
	if (!state && f->line.n) /* without a newline, so not written by dlq */
		line(ctx, u.no, buf_str(&f->line));
	if (f->line.cap > CHUNK)
		buf_release(&f->line);
	return state;
}

/* ---- looking for a frame behind damage ---- */

static void no_line(void *ctx, int64_t no, struct str text)
{
	(void)ctx, (void)no, (void)text;
}

/* -1: its content is not good; -2: a read failed. */
static int good_at(struct archive_frames *f, int fd, int64_t at, int64_t size)
{
	int64_t end;
	const char *why;
	enum archive_frame_state state = archive_frame_walk(fd, at, size, &end);
	if (!state)
		state = archive_frame_lines(f, fd, at, end, INT64_MAX, no_line, NULL, &why);
	return state == FRAME_FAILED ? -2 : state == FRAME_GOOD ? 0 : -1;
}

int64_t archive_frame_search(struct archive_frames *f, int fd, int64_t at, int64_t size, bool *failed)
{
	char *block = mem_grow(NULL, CHUNK, 1);
	int64_t found = -1;
	*failed = false;
	while (found < 0 && !*failed && size - at > MAGIC_LEN) {
		size_t n = size - at < (int64_t)CHUNK ? (size_t)(size - at) : CHUNK;
		if (!archive_pread(fd, block, n, at)) {
			*failed = true;
			break;
		}
		const char *p = block, *end = block + n;
		while (found < 0 && !*failed && (p = memmem(p, (size_t)(end - p), MAGIC, MAGIC_LEN))) {
			int good = good_at(f, fd, at + (p - block), size);
			*failed = good == -2;
			if (!good)
				found = at + (p - block);
			p++;
		}
		at += (int64_t)n - (MAGIC_LEN - 1);
	}
	mem_free(block);
	return found;
}
