/* lines.h - the lines of a file that may be compressed with zstd, one by one, whatever its size. */
#ifndef CLI_LINES_H
#define CLI_LINES_H

#include "base/base.h"

#define LINE_MAX_BYTES ((size_t)64 << 20)

struct lines;

/* path "-": stdin. NOT_FOUND, SYSTEM. Whether it is compressed, its first bytes say. */
enum dlq_code lines_open(const char *path, struct lines **out, struct dlq_err *err) MUST_USE;
/*
 * The next line that is not blank, without its line break, borrowed until the next call; *number counts from 1, blank ones too.
 * *line empty with DLQ_OK: the end. TOO_LARGE, SYSTEM, BAD_REQUEST (damaged or cut compression).
 */
enum dlq_code lines_next(struct lines *l, struct str *line, int64_t *number, struct dlq_err *err) MUST_USE;
void lines_close(struct lines *l); /* takes NULL */

#endif
