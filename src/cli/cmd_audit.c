#include <stdio.h>

#include "cli/page.h"
#include "cli/term.h"

struct list {
	struct table table;
	bool json;
	int64_t n;
};

static bool list_item(json_t *a, void *arg)
{
	struct list *l = arg;

	l->n++;
	if (l->json) {
		json_line(a);
		return true;
	}
	table_int(&l->table, jint(a, "n"));
	table_cell(&l->table, jstr(a, "at"));
	table_cell(&l->table, jstr(a, "operator"));
	table_cell(&l->table, jstr(a, "action"));
	table_cell(&l->table, jstr(a, "queue"));
	table_cell(&l->table, jstr(a, "target"));
	table_cell(&l->table, jstr(a, "outcome"));
	table_cell(&l->table, *jstr(a, "reason") ? jstr(a, "reason") : jstr(a, "detail"));
	return true;
}

static int run(struct cli *c)
{
	static const char *const head[] = {"N", "AT", "OPERATOR", "ACTION", "QUEUE", "TARGET", "OUTCOME", "REASON"};
	struct list l = {.json = c->json};
	struct dlq_err err = {0};
	int64_t limit;
	int rc;

	if (c->n_args)
		return cli_usage(c, "%s: no argument is wanted", c->args[0]);
	if (!cli_opt_int(c, "limit", 1, INT64_MAX, 50, &limit))
		return EXIT_USAGE;
	struct client *cl = client_open(c, &rc);
	if (!cl)
		return rc;
	table_init(&l.table, 1, head, ARRAY_LEN(head));
	enum dlq_code code = page_each(cl, "/v1/audit", limit, list_item, &l, &err);
	table_print(&l.table);
	if (code)
		rc = cli_fail(&err);
	client_free(cl);
	return rc;
}

static const struct cli_option options[] = {
	{"limit", "N", "at most so many, default 50"},
	{0},
};

const struct command cmd_audit = {
	.name = "audit",
	.synopsis = "[--limit N]",
	.summary = "list who changed what, when and why, newest first",
	.examples = "dlq audit --limit 20 # the last changes\n"
		    "dlq audit --limit 100000 --json > audit.jsonl # all of them, for the auditor",
	.options = options,
	.client = true,
	.run = run,
};
