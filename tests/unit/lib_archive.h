/* lib_archive.h - an archive in a temporary folder, for the tests of it. */
#ifndef UNIT_LIB_ARCHIVE_H
#define UNIT_LIB_ARCHIVE_H

#include <stdio.h>

#include "engine/archive.h"
#include "lib_check.h"

#define AR_DAY0 1800000000000 /* 2027-01-15T08:00:00Z */
#define AR_DAY ((int64_t)86400000)

struct ar {
	char dir[64];
	struct archive_writer *w;
};

/* In memory where the machine has such a folder: syncs cost nothing there. */
struct ar *ar_new(void);
void ar_free(struct ar *r);
/* The path of a file of queue q, in static memory: one of 4. suffix: "index", "jsonl.zst", "jsonl". */
const char *ar_path(const struct ar *r, const char *q, int64_t wall, const char *suffix);
struct buf ar_read(const char *path); /* absent: empty */
void ar_write(const char *path, struct str bytes);

/* Record number no of queue q: it died at AR_DAY0 + no seconds; its message id is m-NO. */
struct store_dead ar_dead(const char *q, int64_t no);
void ar_id(int64_t no, char out[ULID_LEN + 1]);
void ar_record(const struct store_dead *d, int64_t wall, size_t body, struct buf *line);
enum dlq_code ar_add(struct ar *r, const char *q, int64_t no, int64_t wall, size_t body, struct dlq_err *err);
/* Records [no, no + n) and a flush, which must succeed. */
void ar_put(struct ar *r, const char *q, int64_t no, int n, int64_t wall);

/* All that a list gives, page by page; the numbers of the records in order. Returns how many. */
int ar_list(const struct ar *r, const char *q, const char *from, const char *to, const char *id, int limit,
            int64_t *nos, int max);
/* How often the archive lists record no. */
int ar_count(const struct ar *r, int64_t no);
enum dlq_code ar_find(const struct ar *r, int64_t no, struct dlq_err *err);
/* All of a .zst, unpacked as zstdcat does it; fails the test when that is not possible. */
struct buf ar_unpack(const char *path);
int64_t ar_lines(struct str s);

#endif
