#include "cli/page.h"

#include <stdio.h>
#include <string.h>

#include "cli/interrupt.h"
#include "cli/term.h"

#define PAGE 1000

void scan_errors(struct scan *scan, const json_t *answer)
{
	scan->errors += jint(answer, "errors");
	if (!scan->first_error[0])
		text_safe(str_of(jstr(answer, "first_error")), scan->first_error, sizeof(scan->first_error));
}

bool scan_warn(const struct scan *scan)
{
	char bad[32], all[32];

	if (!scan->errors)
		return false;
	fprintf(stderr, "warning: the expression failed on %s of %s looked at, so they do not fit%s%s\n",
		count_format(scan->errors, bad), count_format(scan->looked, all), scan->first_error[0] ? "; the first: " : "", scan->first_error);
	return scan->errors >= scan->looked;
}

static void show(const struct scan *scan)
{
	char a[32], b[32];

	progress("looked at %s, %s fit", count_format(scan->looked, a), count_format(scan->found, b));
}

enum dlq_code page_scan(struct client *cl, const char *path, int64_t limit, bool (*item)(json_t *v, void *arg), void *arg,
			struct scan *scan, struct dlq_err *err)
{
	char *cursor = NULL;
	enum dlq_code code = DLQ_OK;
	bool go = limit > 0;

	while (go && !code) {
		struct buf url = {0};
		json_t *page, *v;
		size_t i;

		buf_addf(&url, "%s%slimit=%lld", path, strchr(path, '?') ? "&" : "?",
			 (long long)(limit - scan->found < PAGE ? limit - scan->found : PAGE));
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
		json_array_foreach(json_object_get(page, "items"), i, v) {
			if (scan->found >= limit)
				break;
			scan->found++;
			if (!item(v, arg)) {
				go = false;
				break;
			}
		}
		fflush(stdout); /* a reader sees each page as it comes */
		scan->looked += jint(page, "scanned");
		scan_errors(scan, page);
		json_decref(page);
		scan->interrupted = interrupt_came();
		scan->more = cursor != NULL;
		go = go && cursor && scan->found < limit && !scan->interrupted;
		if (scan->show && scan->looked > scan->found)
			show(scan);
	}
	progress_end();
	mem_free(cursor);
	return code;
}

enum dlq_code page_each(struct client *cl, const char *path, int64_t limit, bool (*item)(json_t *v, void *arg),
			void *arg, struct dlq_err *err)
{
	struct scan scan = {.show = false};

	return page_scan(cl, path, limit, item, arg, &scan, err);
}
