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

#endif
