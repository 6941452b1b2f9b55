/*
 * json_merge.h - the bytes of an edited JSON document: what the edit did not touch stays byte for byte as it was.
 *
 * jq knows numbers as doubles and writes documents its own way, so 12345678901234567890, 1.10, 1e2, "\u00e9", spaces and the order
 * of keys would not survive it. json_merge walks the original text beside jq's answer and takes each value that is equal (as jq sees
 * it) from the original bytes; only what differs is written anew. Keys keep their order, new ones come at the end of their
 * object, removed ones go with their comma. In arrays, equal elements at the start and the end are kept, and of the rest each new
 * element that equals an old one not used yet takes its bytes.
 *
 * Pure and bounded: nesting at most `depth_max`, work linear in the sizes but for arrays (at most 64 old ones are compared with a new
 * element). Reads untrusted text; fuzzed.
 */
#ifndef JQ_JSON_MERGE_H
#define JQ_JSON_MERGE_H

#include "base/base.h"
#include "jq/jq.h"

/* Whether s is one JSON value within the depth; *at: the byte where it is not. */
bool json_check(struct str s, int depth_max, size_t *at);

struct json_merge_out {
	struct str text;     /* the new document; the original's own bytes when nothing changed */
	bool changed;
	struct jq_change *changes; int n_changes, more_changes; /* old and new cut to 200 bytes at a character */
	struct str warning;  /* first number that lost digits on its way to another place, or empty */
};
/* original: valid JSON (json_check); edited: what jq printed of its answer. All in the arena. INVALID_JSON, TOO_LARGE (past max bytes). */
enum dlq_code json_merge(struct str original, struct str edited, int depth_max, size_t max, struct arena *a, struct json_merge_out *out, struct dlq_err *err) MUST_USE;

#endif
