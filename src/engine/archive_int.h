/* archive_int.h - what the archive's files share: lines, frames, places. Not for others. */
#ifndef ENGINE_ARCHIVE_INT_H
#define ENGINE_ARCHIVE_INT_H

#include "engine/archive.h"

#define ARCHIVE_PATH_MAX 4096
#define ARCHIVE_DAY_LEN 10
#define ARCHIVE_INDEX_LINE_MAX ((size_t)64 << 10)
#define ARCHIVE_RECORD_MAX (((size_t)256 << 20) + 1) /* a record's line with its newline */
#define ARCHIVE_FRAME_MAX ((uint64_t)320 << 20)      /* what is in a frame, unpacked */

/* Where a record is: its frame, and which line of how many of it, from 1. */
struct archive_place {
	int64_t offset, bytes, line, lines;
};

/* ---- archive_line.c ---- */
/*
 * Reads the facts out of a line of the index or of a record, into the arena (queue and day are left alone). place may
 * be NULL. partial: the line may be cut off; what is there counts. False: not an object, or one without dlq_id. Any
 * bytes in.
 */
bool archive_line_parse(struct arena *a, struct str line, bool partial, struct archive_entry *e,
                        struct archive_place *place);
/* The members of the index line of a record, up to where its place belongs: no closing brace. */
void archive_line_facts(const struct archive_entry *e, struct buf *out);
void archive_line_end(const struct archive_place *place, struct buf *out);

/* "YYYY-MM-DD" as the number YYYYMMDD; 0 if it is not a day. And back. */
int32_t archive_day_parse(struct str s);
void archive_day_text(int32_t day, char out[ARCHIVE_DAY_LEN + 1]);
int32_t archive_day_of(int64_t wall_ms);

/* The lines of a file from a place backwards, in blocks. A last line without newline is left out. */
struct archive_back {
	int fd;
	int64_t end;  /* the lines before it are still to come; always the start of a line */
	int64_t read; /* bytes read so far, for limits */
	int64_t line_max;
	char *window;
	int64_t window_at;
	size_t window_n;
	struct buf head;
};
/*
 * False, here and below: a read failed, errno says why. end: where the lines to come end; what is not a line's start is
 * rounded down. line_max: what is longer cannot be a line; it, and all before it, is given as one.
 */
bool archive_back_init(struct archive_back *b, int fd, int64_t end, size_t line_max) MUST_USE;
void archive_back_release(struct archive_back *b);
/* The next line, without its newline; *more false: there is none. */
bool archive_back_prev(struct archive_back *b, int64_t *at, size_t *n, bool *more) MUST_USE;
/* The first at most max bytes of it, valid until the next call. */
bool archive_back_text(struct archive_back *b, int64_t at, size_t n, size_t max, struct str *text) MUST_USE;
/* All n bytes at `at`; false: a read failed, or the file ends before (errno is EIO then). */
bool archive_pread(int fd, void *to, size_t n, int64_t at) MUST_USE;

/* ---- archive_frame.c ---- */
enum archive_frame_state {
	FRAME_GOOD,
	FRAME_PIECE,  /* the file ends inside it */
	FRAME_BAD,    /* not a frame, damaged, or not one that dlq writes */
	FRAME_FAILED, /* a read failed: errno */
};
/* The place of a frame by its structure, without reading what is in it: *end is behind it when it is good. */
enum archive_frame_state archive_frame_walk(int fd, int64_t at, int64_t size, int64_t *end);

struct archive_frames; /* a decompressor with its buffers */
struct archive_frames *archive_frames_new(void);
void archive_frames_free(struct archive_frames *f); /* takes NULL */
/*
 * Unpacks the frame that walk found, to its checksum, and gives its lines without their newlines to `line`, or only the
 * one numbered `only` (0: all). What was given counts only if this is good; why it is bad: *why, static. Memory: a line
 * and a window.
 */
enum archive_frame_state archive_frame_lines(struct archive_frames *f, int fd, int64_t at, int64_t end, int64_t only,
                                             void (*line)(void *ctx, int64_t no, struct str text), void *ctx,
                                             const char **why);
/* The first frame at or after `at` that is good in all its parts; -1: there is none. *failed: a read failed. */
int64_t archive_frame_search(struct archive_frames *f, int fd, int64_t at, int64_t size, bool *failed);

/* A day's two files, open. */
struct day_file {
	char top[ARCHIVE_PATH_MAX], folder[ARCHIVE_PATH_MAX], data_path[ARCHIVE_PATH_MAX], index_path[ARCHIVE_PATH_MAX];
	int data, index;
	int64_t data_n, index_n;
	bool made; /* the data file was */
};

/* ---- archive_file.c ---- */
enum dlq_code archive_sys_fail(struct dlq_err *err, const char *what, const char *path); /* SYSTEM with errno's text */
enum dlq_code archive_write_all(int fd, struct str s, const char *path, struct dlq_err *err) MUST_USE;

/* ---- archive_repair.c ---- */
/* The end of the data that the index knows, by the last good one of its newest lines; 0: there is none. False: a read
 * failed. */
bool archive_index_covers(int index_fd, int64_t *end) MUST_USE;
/* Cheap when the last index line ends where the data ends; otherwise both are repaired. */
enum dlq_code archive_day_check(struct day_file *f, struct dlq_err *err) MUST_USE;
/* Completes gathered facts, one a line, with their places. numbers NULL: they are lines 1, 2, 3, ... */
void archive_facts_complete(struct str facts, const char *numbers, struct archive_place p, struct buf *out);
/* Appends out's lines (completed facts) to the index and clears it. */
enum dlq_code archive_index_add(struct day_file *f, struct buf *out, struct dlq_err *err) MUST_USE;

#endif
