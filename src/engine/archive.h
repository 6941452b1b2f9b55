/*
 * archive.h - the files that dead letters end in: archive/QUEUE/YYYY-MM-DD.jsonl.zst, one record a line, readable with zstdcat.
 *
 * A file is a row of zstd frames, each with a checksum and written in one go: what one step archives of a queue, cut where it is more
 * than 4 MiB. Beside it YYYY-MM-DD.index has one JSON line for each record: {"dlq_id", "id", "key"?, "state", "reason", "error_type"?,
 * "died_at", "archived_at", "offset", "bytes", "line", "lines"}: where its frame is, and which line of how many of it, from 1. The frame
 * is synced before the index, the index before the record leaves the store. A crash can leave a piece of a frame, which is cut at the
 * next write, or frames without index lines, which are made again from the frames: the data is the truth. It can also leave the
 * same record twice (same dlq_id and died_at); readers show the newer. Files of an earlier version (.jsonl) stay readable.
 */
#ifndef ENGINE_ARCHIVE_H
#define ENGINE_ARCHIVE_H

#include "engine/engine.h"

/* ---- writing: the writer's thread. All errors are SYSTEM, and say what was tried with which file ---- */
struct archive_writer;
struct archive_writer *archive_writer_new(const char *dir); /* the data folder */
void archive_writer_free(struct archive_writer *w);         /* takes NULL; what was gathered and not flushed is dropped */
/* Gathers a record (its line with the newline, at most 256 MiB) for the file of its queue and day. Writes out what is too much to keep. */
enum dlq_code archive_add(struct archive_writer *w, const struct store_dead *d, struct str line, int64_t wall_ms, struct dlq_err *err) MUST_USE;
/* Writes and syncs all gathered ones, index last. SYSTEM: nothing of it counts, it is gathered anew. */
enum dlq_code archive_flush(struct archive_writer *w, struct dlq_err *err) MUST_USE;
/* Forgets what was gathered since the last flush, and cuts off what of it was written already. */
void archive_drop(struct archive_writer *w);

/* ---- reading: any thread, no lock; dir: the data folder ---- */
/*
 * Entries of the index, newest day first, within a day by queue, within a queue the newest last written first. queue, from_day, to_day
 * and id (dlq_id or message id) may be empty. cursor and *next as in OP_READ_ARCHIVE; a call looks at no more than 100,000 lines or
 * about 8 MiB, so it may give fewer than limit (1 to 1000), even none, and a *next. BAD_REQUEST, INVALID_NAME, SYSTEM.
 */
enum dlq_code archive_list(const char *dir, struct str queue, struct str from_day, struct str to_day, struct str id, struct str cursor, int limit,
                           struct arena *a, struct archive_entry **out, int *n, struct str *next, struct dlq_err *err) MUST_USE;
/*
 * One record by dlq_id, or the newest of a message id: its line without the newline. NOT_FOUND; STORE_CORRUPT names the file and
 * offset of what cannot be read; TIMEOUT: not found in the newest GiB that it looked at; SYSTEM.
 */
enum dlq_code archive_find(const char *dir, struct str id, struct arena *a, struct str *record, struct str *queue, struct dlq_err *err) MUST_USE;

#endif
