/*
 * archive.h - the files that dead letters end in: archive/QUEUE/YYYY-MM-DD.jsonl.zst, one record a line, readable with zstdcat.
 *
 * A file is a row of zstd frames, each with a checksum and written in one go: one frame for what one step archives of a queue. Beside it
 * YYYY-MM-DD.index has one JSON line for each record: {"dlq_id", "id", "key"?, "state", "reason", "error_type", "died_at", "archived_at",
 * "offset", "bytes", "line"}: its frame and which line of it. The frame is synced before the index, the index before the record leaves the
 * store. A crash can leave a piece of a frame, which is cut at the next write, or frames without index lines, which are made
 * again from the frames: the data is the truth. Files of an earlier version (.jsonl) stay readable.
 */
#ifndef ENGINE_ARCHIVE_H
#define ENGINE_ARCHIVE_H

#include "engine/engine.h"

/* ---- writing: the writer's thread ---- */
struct archive_writer;
struct archive_writer *archive_writer_new(const char *dir); /* the data folder */
void archive_writer_free(struct archive_writer *w);
/* Gathers a record (its line with the newline) for the file of its queue and day. */
enum dlq_code archive_add(struct archive_writer *w, const struct store_dead *d, struct str line, int64_t wall_ms, struct dlq_err *err) MUST_USE;
/* Writes and syncs all gathered ones, index last. SYSTEM: nothing of it counts, it is gathered anew. */
enum dlq_code archive_flush(struct archive_writer *w, struct dlq_err *err) MUST_USE;

/* ---- reading: any thread, no lock ---- */
/* Entries of the index, newest day first, within a day the newest last written first. cursor and *next as in OP_READ_ARCHIVE. */
enum dlq_code archive_list(const char *dir, struct str queue, struct str from_day, struct str to_day, struct str id, struct str cursor, int limit,
                           struct arena *a, struct archive_entry **out, int *n, struct str *next, struct dlq_err *err) MUST_USE;
/* One record by dlq_id, or the newest of a message id. NOT_FOUND; STORE_CORRUPT names the file and offset of a frame that cannot be read. */
enum dlq_code archive_find(const char *dir, struct str id, struct arena *a, struct str *record, struct str *queue, struct dlq_err *err) MUST_USE;

#endif
