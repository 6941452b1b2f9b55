/*
 * doc.h - a configuration document: the same tree from YAML (the file) and from JSON (a PUT), read by the same
 * code with the same rules, so an error reads the same in both: place, thing, rule, nearest right name.
 */
#ifndef BASE_DOC_H
#define BASE_DOC_H

#include "base/base.h"

enum doc_kind { DOC_NULL, DOC_SCALAR, DOC_LIST, DOC_MAP };

/* Nodes live in the document's arena. A scalar keeps its text as written; `quoted` tells "5" from 5. */
struct doc {
	enum doc_kind kind;
	struct str text;        /* DOC_SCALAR */
	bool quoted;
	int line, col;          /* from 1; 0 when unknown */
	struct str key;         /* in a map: this entry's key */
	int key_line;
	struct doc *child;      /* first item of a list or entry of a map */
	struct doc *next;       /* sibling */
	struct doc *parent;
	const char *file;       /* shown in errors: a file name or "request body" */
};

#define DOC_MAX_DEPTH 32
/* Both keep text only inside the arena. Duplicate keys in one map are errors. */
enum dlq_code doc_from_yaml(struct arena *a, struct str text, const char *file, struct doc **out, struct dlq_err *err) MUST_USE;
enum dlq_code doc_from_json(struct arena *a, struct str text, const char *file, struct doc **out, struct dlq_err *err) MUST_USE;

struct doc *doc_get(const struct doc *map, const char *key); /* NULL if absent or null */
/* Refuses entries whose key is not in `known`, naming file, line, the key's path and the nearest right name. */
enum dlq_code doc_check_keys(const struct doc *map, const char *const *known, size_t n, struct dlq_err *err) MUST_USE;
/* Typed reads of node d itself (not of a child); the error says file:line: path: rule. */
enum dlq_code doc_int(const struct doc *d, int64_t min, int64_t max, int64_t *out, struct dlq_err *err) MUST_USE;
enum dlq_code doc_num(const struct doc *d, double min, double max, double *out, struct dlq_err *err) MUST_USE;
enum dlq_code doc_bool(const struct doc *d, bool *out, struct dlq_err *err) MUST_USE;
enum dlq_code doc_str(const struct doc *d, struct str *out, struct dlq_err *err) MUST_USE;
enum dlq_code doc_duration(const struct doc *d, int64_t min_ms, int64_t max_ms, int64_t *out, struct dlq_err *err) MUST_USE;
enum dlq_code doc_size(const struct doc *d, int64_t min, int64_t max, int64_t *out, struct dlq_err *err) MUST_USE;
/* DLQ_INVALID_SETTING with "file:line: path: " in front of the text. */
enum dlq_code doc_fail(const struct doc *d, struct dlq_err *err, const char *fmt, ...) PRINTF_LIKE(3, 4);

#endif
