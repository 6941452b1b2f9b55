/*
 * json_text.h - JSON as text with places: what jq/json_merge.c and the child work on. Numbers and strings stay the bytes they are;
 * their values are made when asked for, as jq makes them. Strict (RFC 8259) but for a byte order mark in front, which jq takes too.
 * Untrusted text; fuzzed. Used by one thread.
 */
#ifndef JQ_JSON_TEXT_H
#define JQ_JSON_TEXT_H

#include "base/base.h"

#define JSON_DEPTH_CAP 1024 /* depth_max above it counts as it */

/* Values in the order of the text, so what is inside a value follows it; the first is the document. A member is two: key, value. */
struct jtext_node {
	uint32_t at, end; /* its bytes in the text, strings with their quotes */
	uint32_t next;    /* the node after this value and all in it */
	uint32_t n;       /* array: elements; object: members; string: 1 if it has escapes */
	uint64_t hash;    /* after jtext_hash: equal values have equal ones */
};

/* Zeroed before the first use; reused by each jtext_parse. */
struct jtext_doc {
	struct str text; /* borrowed */
	struct jtext_node *nodes;
	uint32_t n, cap;
};

enum jtext_fault { JSON_FINE, JSON_WRONG, JSON_DEEP };
/* Texts of less than 2 GiB. *at (or NULL): the byte where it is not JSON, or too deep. */
enum jtext_fault jtext_parse(struct jtext_doc *d, struct str s, int depth_max, size_t *at);
void jtext_release(struct jtext_doc *d);

struct str jtext_span(const struct jtext_doc *d, uint32_t i);
char jtext_kind(const struct jtext_doc *d, uint32_t i); /* its first byte: { [ " t f n, or 0 for numbers */
/* As jq reads it: past the range of a double it is an infinity. */
double jtext_number(const struct jtext_doc *d, uint32_t i);
/* The text of a string: inside the document, or decoded into `scratch`. Half of a surrogate pair becomes U+FFFD. */
struct str jtext_string(const struct jtext_doc *d, uint32_t i, struct buf *scratch);

/* Fills in all hashes. */
void jtext_hash(struct jtext_doc *d);
/* Equal as jq sees it: numbers as doubles (past the range: the largest), strings by text, of equal keys the last. Both
 * hashed; b without equal keys in one object (as jq writes), else some that are equal are said not to be. */
bool jtext_equal(const struct jtext_doc *a, uint32_t i, const struct jtext_doc *b, uint32_t k);

/* The members of one object by key; of equal keys the last. Zeroed before the first use. */
struct jtext_index {
	uint32_t *slots; /* nodes of keys; UINT32_MAX: free */
	uint32_t cap;    /* a power of two */
	uint32_t room;
};
void jtext_index_fill(struct jtext_index *ix, const struct jtext_doc *d, uint32_t object);
/* The node of the key that equals key node k of document e, or UINT32_MAX. d: the document of the index. */
uint32_t jtext_index_find(const struct jtext_index *ix, const struct jtext_doc *d, const struct jtext_doc *e, uint32_t k);
void jtext_index_release(struct jtext_index *ix);

/* Whether two numbers are the same decimal value: 1.10 and 11e-1 are, 9007199254740993 and 9007199254740992 are not. */
bool jtext_same_decimal(struct str a, struct str b);
/* Whether a number written by jq is another decimal value than the text s: it has more digits than a double keeps. */
bool jtext_loses_digits(struct str s, double value);

#endif
