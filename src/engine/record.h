/*
 * record.h - a dead letter as JSON: the same words in the API, in libdlq and in the archive (docs/api.md).
 */
#ifndef ENGINE_RECORD_H
#define ENGINE_RECORD_H

#include "store/store.h"

struct clock;

/* The id of a group: its fingerprint in lower-case hex. */
#define GROUP_ID_LEN 32
void group_id_text(const uint8_t fp[16], char out[GROUP_ID_LEN + 1]);
bool group_id_parse(struct str text, uint8_t fp[16]);

/*
 * The members of one list item, into an object that the caller has opened. soon_ms: a dead one whose retention ends within that time has
 * "expires_soon" (0: never said).
 */
void record_members(struct json_out *j, const struct store_dead *d, struct clock *clock, int64_t soon_ms);
/* "headers" (those to be delivered), "original_headers" where they were edited, and "history". */
void record_details(struct json_out *j, const struct store_dead *d, const struct store_attempt *at, int n);

/*
 * The full record, one line of the archive and of an export: members, details, "lease_expirations"?, "archived_at" (wall, 0:
 * none), "body" or "body_base64" (always the original) and "edited_body" or "edited_body_base64" where it was edited. With the newline.
 * NOT_FOUND: it has left the store; SYSTEM: it does not fit into line->max.
 */
enum dlq_code record_line(struct store_reader *r, const struct store_dead *d, int64_t archived_at, struct clock *clock, struct buf *line, struct dlq_err *err) MUST_USE;

/*
 * Reads such a line back, into the arena. INVALID_JSON, BAD_REQUEST with the member that is wrong. Unknown members are left alone, so that a
 * newer dlq's export can be read. out->d.queue is the record's queue; queue_id and groups are not set.
 */
enum dlq_code record_parse(struct arena *a, struct str line, struct store_import *out, struct dlq_err *err) MUST_USE;

#endif
