/* preview.h - what a job would do, before it does it: the steps of /v1/redrives/preview added up, and shown to a person. */
#ifndef CLI_PREVIEW_H
#define CLI_PREVIEW_H

#include "cli/page.h"
#include "cli/select.h"

struct preview {
	int64_t selected, changed, unchanged, failed, over_limit;
	struct scan scan;  /* looked, errors, first_error, interrupted */
	json_t *items;     /* array: at most `show` that change, and a few that would be skipped */
};

/*
 * Adds up all steps for the selection with `action`, and edit as in the request (NULL: none). override_limit: as redrive --override.
 * show: 0 to 100 changes. Progress on stderr with show_progress.
 */
enum dlq_code preview_run(struct client *cl, const struct selection *s, const char *action, const json_t *edit,
			  bool override_limit, int show, bool show_progress, struct preview *out, struct dlq_err *err) MUST_USE;
void preview_release(struct preview *p);
/* Diffs, failures and counts, to stdout. */
void preview_print(const struct preview *p);
/* One change, "path: old -> new"; empty old: added, empty new: removed. */
void preview_change(const char *path, const char *old, const char *new_text);
/* The whole as one document. */
void preview_json(const struct preview *p);

#endif
