/*
 * fingerprint.h - which failures are the same failure. Queue, error type and the normalised message (with the top of a stack
 * trace, where there is one) make the fingerprint; dead letters that share it are one group. The rules: docs/fingerprint.md.
 *
 * Pure: no clock, no allocation, no state; same input, same answer, on every machine and in every release of the same
 * version. A rule that changes an answer needs a new FINGERPRINT_VERSION (tests/vectors/fingerprint-corpus.json holds it to
 * that); a group keeps the version it was made with.
 */
#ifndef CORE_FINGERPRINT_H
#define CORE_FINGERPRINT_H

#include "base/base.h"

#define FINGERPRINT_VERSION 1
#define FINGERPRINT_NORMAL_MAX 4096  /* bytes of a normalised form */
#define FINGERPRINT_MESSAGE_MAX 3072 /* of these, at most for the message; the rest is for the stack */
#define FINGERPRINT_FRAMES 5         /* frames kept of one stack trace, those nearest to the failure */
#define FINGERPRINT_TEXT_LEN 32
#define FINGERPRINT_GIVEN_MAX 256    /* bytes of a fingerprint that a worker or a policy sets */

/* What was done to the text. Each is one bit (1 << rule) of `rules`. */
enum fingerprint_rule {
	FP_NUM,   /* <num>: a number that is no code */
	FP_ID,    /* <id>: a random or counted id, also as part of a name */
	FP_UUID,  /* <uuid> */
	FP_HEX,   /* <hex>: a hexadecimal address */
	FP_IP,    /* <ip>: IPv4 or IPv6; the port of a service stays */
	FP_EMAIL, /* <email> */
	FP_TIME,  /* <time>: a date, a time of day, both */
	FP_DUR,   /* <dur>: a number with a unit of time */
	FP_SIZE,  /* <size>: a number with a unit of bytes */
	FP_PATH,  /* <path>: a temporary or quoted file */
	FP_STR,   /* <str>: a quoted value, a value of a URL's query or of a database's detail */
	FP_CODE,  /* a number kept, because it is a code: HTTP status, SQLSTATE, errno, exit code */
	FP_NAME,  /* a quoted word kept, because it is a name: field, constraint, table, method */
	FP_STACK, /* a stack trace was cut to its top frames */
	FP_CUT,   /* longer than FINGERPRINT_NORMAL_MAX: only the start counts */
	FP_GIVEN, /* set by the worker or by a rule of the policy; nothing was normalised */
	FP_RULE_COUNT
};

struct fingerprint {
	uint64_t hi, lo;
	char text[FINGERPRINT_TEXT_LEN + 1]; /* hi, lo in lower-case hex: the id of the group */
	uint32_t rules;
	int version;
};

/* The first text that a rule replaced or kept; empty if the rule did nothing. Points into the message or the stack. */
struct fingerprint_examples {
	struct str of[FP_RULE_COUNT];
};

/*
 * Writes the normalised form and returns its length. stack may be empty, or any text with a stack trace in it: only its
 * first trace counts, and only if the message has none. rules and examples may be NULL. One pass over what it reads.
 */
size_t fingerprint_normalise(struct str message, struct str stack, char out[FINGERPRINT_NORMAL_MAX], uint32_t *rules,
                             struct fingerprint_examples *examples);
void fingerprint_make(struct str queue, struct str type, struct str message, struct str stack, struct fingerprint *fp);
/* The same from a form that fingerprint_normalise wrote, for callers that keep it. */
void fingerprint_of_normal(struct str queue, struct str type, struct str normal, uint32_t rules, struct fingerprint *fp);
/* Set by the worker (error.fingerprint) or by a rule of the policy. Of all versions the same. */
void fingerprint_of_given(struct str queue, struct str given, struct fingerprint *fp);

const char *fingerprint_rule_name(enum fingerprint_rule r); /* "num", "code" */
const char *fingerprint_rule_text(enum fingerprint_rule r); /* one sentence for people */
bool fingerprint_text_valid(struct str s);                  /* whether s can be the `text` of a fingerprint */

#endif
