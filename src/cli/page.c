#include "cli/page.h"

#include <string.h>

#define PAGE 1000

enum dlq_code page_each(struct client *cl, const char *path, int64_t limit, bool (*item)(json_t *v, void *arg),
			void *arg, struct dlq_err *err)
{
	char *cursor = NULL;
	enum dlq_code code = DLQ_OK;
	bool more = limit > 0;

	while (more && !code) {
		struct buf url = {0};
		json_t *page, *v;
		size_t i;

		buf_addf(&url, "%s%slimit=%lld", path, strchr(path, '?') ? "&" : "?",
			 (long long)(limit < PAGE ? limit : PAGE));
		url_query(&url, "cursor", cursor);
		buf_addc(&url, 0);
		page = client_json(cl, "GET", url.p, NULL, err);
		buf_release(&url);
		if (!page) {
			code = err->code;
			break;
		}
		mem_free(cursor);
		cursor = *jstr(page, "next") ? mem_strdup(str_of(jstr(page, "next"))) : NULL;
		more = cursor != NULL;
		json_array_foreach(json_object_get(page, "items"), i, v) {
			if (limit-- <= 0 || !item(v, arg)) {
				more = false;
				break;
			}
		}
		more = more && limit > 0;
		json_decref(page);
	}
	mem_free(cursor);
	return code;
}
