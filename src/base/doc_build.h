/* doc_build.h - what doc_yaml.c and doc_json.c share: building the tree. Not for others. */
#ifndef BASE_DOC_BUILD_H
#define BASE_DOC_BUILD_H

#include "base/doc.h"

/* Where the next node goes. */
struct doc_level {
	struct doc *node, *last; /* the list or map being filled, and its last child */
	struct str key;          /* of the next entry, when have_key */
	int key_line;
	bool have_key;
};
struct doc_builder {
	struct arena *arena;
	const char *file;
	struct dlq_err *err;
	struct doc *root;
	struct doc_level level[DOC_MAX_DEPTH];
	int depth;
};

/* Adds a node at the current place. NULL with err set: too deep, too many entries. */
struct doc *build_add(struct doc_builder *b, enum doc_kind kind, int line, int col);
/* Adds a list or map and goes into it. */
struct doc *build_open(struct doc_builder *b, enum doc_kind kind, int line, int col);
void build_close(struct doc_builder *b);
/* Whether the current place is a map that waits for a key. */
bool build_wants_key(const struct doc_builder *b);
/* text must live in the arena. Refuses duplicates. */
enum dlq_code build_key(struct doc_builder *b, struct str text, int line) MUST_USE;
/* INVALID_SETTING with "file:line: " in front. */
enum dlq_code build_fail(struct doc_builder *b, int line, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Control characters of err->detail become '?': keys and values are the user's, and errors reach terminals. err may be NULL. */
void build_printable(struct dlq_err *err);

#endif
