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

/* The members of one list item, into an object that the caller has opened. */
void record_members(struct json_out *j, const struct store_dead *d);
/* "headers", "expires_at" and "history". */
void record_details(struct json_out *j, const struct store_dead *d, const struct store_attempt *at, int n,
                    struct clock *clock);

#endif
