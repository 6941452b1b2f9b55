/*
 * text.h - the text forms of durations, times, sizes, ids, bytes, and the writing of JSON.
 * All parsers are total: any bytes in, a value or an error out; fuzzed.
 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include "base/base.h"

/* "250ms", "30s", "15m", "1h", "30d", "1h30m"; whole numbers, at most 10 years. Returns false if not one. */
bool duration_parse(struct str s, int64_t *ms);
#define DURATION_MAX_MS ((int64_t)3650 * 86400000)
#define DURATION_RULE "a duration is a whole number with a unit ms, s, m, h or d, such as 30s, 15m or 1h30m"
void duration_format(int64_t ms, char out[32]);      /* the form that parses back to the same value */
void duration_human(int64_t ms, char out[32]);       /* rounded for people: "3m 20s", "2d" */
/* "512", "64KiB", "1MiB", "2GiB". */
bool size_parse(struct str s, int64_t *bytes);
void size_human(int64_t bytes, char out[32]);

#define TIME_LEN 24
/* RFC 3339 UTC with milliseconds, "2026-12-01T03:04:05.678Z"; accepts any offset and 0 to 9 fraction digits. */
void time_format(int64_t unix_ms, char out[TIME_LEN + 1]);
bool time_parse(struct str s, int64_t *unix_ms);

/*
 * ULID: 26 characters of Crockford base32, 48 bits of milliseconds, 80 bits of payload. Ids made by dlq
 * carry a 64-bit store sequence in their last 64 bits (and 16 random bits before), so an id finds its row
 * without an index; ids from elsewhere are just opaque text.
 */
#define ULID_LEN 26
void ulid_make(int64_t unix_ms, uint16_t salt, uint64_t seq, char out[ULID_LEN + 1]);
/* The outputs may be NULL. Only the canonical form: upper case, no look-alikes. */
bool ulid_parse(struct str s, int64_t *unix_ms, uint16_t *salt, uint64_t *seq);

void base64_encode(struct str bytes, struct buf *out);
bool base64_decode(struct str text, struct buf *out); /* strict, padding required */
void hex_encode(struct str bytes, struct buf *out);

/* Queue names, worker names, message ids: the rule, and NULL if s obeys it, else why not (static text). */
#define QUEUE_NAME_RULE "1 to 128 characters out of a-z A-Z 0-9 . _ -, not starting with a dot or a hyphen"
const char *queue_name_check(struct str s);
#define MESSAGE_ID_RULE "1 to 128 printable ASCII characters without spaces"
const char *message_id_check(struct str s);
/* Keys, content types and values of message headers also go out as values of HTTP headers. NULL, or why s cannot (static text). */
#define HEADER_VALUE_RULE "UTF-8 text without control characters (bytes below 0x20, and 0x7f)"
const char *header_value_check(struct str s);

/* ---- writing JSON into a buf; commas are placed by the writer ---- */
struct json_out {
	struct buf *buf;
	uint64_t has_item; /* bit per depth: a comma is due */
	int depth;
};
void jout_init(struct json_out *j, struct buf *buf);
void jout_open(struct json_out *j, char brace);              /* '{' or '[' */
void jout_close(struct json_out *j, char brace);             /* '}' or ']' */
void jout_key(struct json_out *j, const char *key);
void jout_str(struct json_out *j, struct str s);             /* invalid UTF-8 becomes U+FFFD; use for text only */
void jout_int(struct json_out *j, int64_t v);
void jout_num(struct json_out *j, double v);
void jout_bool(struct json_out *j, bool v);
void jout_null(struct json_out *j);
void jout_time(struct json_out *j, int64_t unix_ms);         /* 0 gives null */
void jout_raw(struct json_out *j, struct str json);          /* already JSON */
/* "body": "..." when s is UTF-8 without NUL, else "body_base64": "...". Names come from `key`. */
void jout_bytes(struct json_out *j, const char *key, struct str bytes);
/* key + value in one call */
void jout_kstr(struct json_out *j, const char *key, struct str s);
void jout_kz(struct json_out *j, const char *key, const char *z); /* NULL gives null */
void jout_kint(struct json_out *j, const char *key, int64_t v);
void jout_kbool(struct json_out *j, const char *key, bool v);
void jout_ktime(struct json_out *j, const char *key, int64_t unix_ms);

#endif
