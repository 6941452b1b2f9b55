/* json_merge_int.h - the parts of the merge among each other. Not for other files. */
#ifndef JQ_JSON_MERGE_INT_H
#define JQ_JSON_MERGE_INT_H

#include "jq/json_merge.h"
#include "jq/json_text.h"

#define NONE UINT32_MAX

/* A step of a path: a member by its key, or an element. */
struct step {
	const struct jtext_doc *doc;
	uint32_t key; /* NONE: an element */
	uint32_t index;
};

/* A number of the original that jq cannot write again. */
struct lossy {
	double value;
	uint32_t node;
};

struct merge {
	struct jtext_doc o, e; /* the original and what jq made of it */
	struct buf out;
	struct arena *a;
	struct json_merge_out *res;
	struct step path[JSON_DEPTH_CAP + 1];
	int depth;
	struct lossy *lossy; /* by value; made when first asked for */
	size_t n_lossy;
	bool lossy_known;
	struct buf scratch;
};

/* ---- json_merge_notes.c: what people are told ---- */

/* The place where the merge is has changed. Empty values of `was` and `is` mean none. */
void merge_note_change(struct merge *m, struct str was, struct str is);
/* Warns of the first number below the edited node `at` that was one of the original and did not survive. */
void merge_check_numbers(struct merge *m, uint32_t at);

#endif
