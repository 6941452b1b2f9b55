/* page.h - walking the API's paged lists. */
#ifndef CLI_PAGE_H
#define CLI_PAGE_H

#include "cli/client.h"

/*
 * Calls item for each item of the list at path (with its query, without limit and cursor), newest first, over all pages
 * until `limit` items were given or item returns false. err is set unless DLQ_OK.
 */
enum dlq_code page_each(struct client *cl, const char *path, int64_t limit, bool (*item)(json_t *v, void *arg),
			void *arg, struct dlq_err *err) MUST_USE;

/* What a walk that scans went through. */
struct scan {
	bool show;              /* in: progress on stderr */
	int64_t found, looked;  /* items given; rows that the server looked at for them */
	int64_t errors;         /* of them: `where` failed on it */
	char first_error[400];
	bool more;              /* it ended before the list did: at its limit, or interrupted */
	bool interrupted;
};
/* The same with Ctrl-C (interrupt.h) and pages that hold few items because much had to be looked at. */
enum dlq_code page_scan(struct client *cl, const char *path, int64_t limit, bool (*item)(json_t *v, void *arg), void *arg,
			struct scan *scan, struct dlq_err *err) MUST_USE;
/* Takes over "errors" and "first_error" of an answer. */
void scan_errors(struct scan *scan, const json_t *answer);
/* The warning about them, to stderr. True: it failed on all that it looked at. */
bool scan_warn(const struct scan *scan);

#endif
