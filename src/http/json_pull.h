/*
 * json_pull.h - a strict JSON reader that takes values one after the other out of borrowed text, without a tree.
 *
 * RFC 8259, UTF-8 only, no duplicate keys (jp_field), at most JP_DEPTH levels, integers within 64 bits; it accepts what
 * Jansson accepts with JSON_REJECT_DUPLICATES (tests/fuzz/fuzz_http_json.c compares). Strings without escapes point
 * into the text, others into the arena. The first error sticks: everything after it returns false.
 */
#ifndef HTTP_JSON_PULL_H
#define HTTP_JSON_PULL_H

#include "base/base.h"

#define JP_DEPTH 32

struct json_pull {
	const char *start, *p, *end;
	struct arena *arena;
	int depth, line; /* line of `start` in the whole input, from 1 */
	bool comma;      /* a value was read at this level: the next needs a comma */
	bool failed;
	struct dlq_err err;
	int err_line, err_col; /* from 1, in characters */
};

void jp_init(struct json_pull *j, struct str text, int line, struct arena *arena);
/* '{', '[', '"', '0' (number), 't' (true or false), 'n' (null); 0: end or error. */
char jp_peek(struct json_pull *j);
/* Enters an object; then while (jp_key(j, &key)) reads each value. false at its end or on error. */
bool jp_object(struct json_pull *j);
bool jp_key(struct json_pull *j, struct str *key);
bool jp_array(struct json_pull *j);
bool jp_item(struct json_pull *j); /* whether another item follows */
bool jp_str(struct json_pull *j, struct str *out);
bool jp_int(struct json_pull *j, int64_t min, int64_t max, int64_t *out);
bool jp_bool(struct json_pull *j, bool *out);
bool jp_null(struct json_pull *j); /* takes a null if one is there */
/* Nothing but white space may be left. Returns whether all went well. */
bool jp_end(struct json_pull *j);
/* Reads any value and drops it. Duplicate keys inside are not looked for. */
bool jp_skip(struct json_pull *j);
/* Fails at the last token with INVALID_JSON (syntax) or BAD_REQUEST (meaning). Returns false. */
bool jp_fail(struct json_pull *j, enum dlq_code code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/*
 * The index of key among the n known names; a repeated or unknown one fails (naming the nearest) and gives -1.
 * seen: zero before the first key of an object.
 */
int jp_field(struct json_pull *j, struct str key, const char *const *known, int n, unsigned *seen);

#endif
