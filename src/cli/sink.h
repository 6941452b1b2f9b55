/* sink.h - where an export goes: stdout or a file, plain or compressed with zstd. A file appears under its name only when it is whole. */
#ifndef CLI_SINK_H
#define CLI_SINK_H

#include "base/base.h"

struct sink;

/*
 * path NULL: stdout. A regular file is written as PATH.part and gets its name in sink_finish; one that exists is refused with CONFLICT
 * unless force. Devices and pipes are written as they are.
 */
enum dlq_code sink_open(const char *path, bool zstd, bool force, struct sink **out, struct dlq_err *err) MUST_USE;
enum dlq_code sink_write(struct sink *s, struct str bytes, struct dlq_err *err) MUST_USE;
/* Writes what is left and syncs; a whole file gets its name, another one stays PATH.part. */
enum dlq_code sink_finish(struct sink *s, bool whole, struct dlq_err *err) MUST_USE;
int64_t sink_bytes(const struct sink *s);        /* written so far */
const char *sink_part(const struct sink *s);     /* the file as it is named until sink_finish, or NULL */
bool sink_closed(const struct sink *s);          /* the reader of the pipe had enough */
void sink_free(struct sink *s);                  /* takes NULL; a .part without a byte is removed */

#endif
