#include <stdio.h>
#include <string.h>

#include "cli/page.h"
#include "cli/term.h"

struct list {
	struct table table;
	bool json; /* also for --export */
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

/* Exit code 1 when the chain is broken. */
static int verify(struct cli *c, struct client *cl)
{
	struct client_call call = {.method = "GET", .path = "/v1/audit/verify", .timeout_ms = 3600 * 1000};
	struct dlq_err err = {0};
	char n[32];
	int rc = 0;

	if (client_call(cl, &call, &err)) {
		rc = cli_fail(&err);
		goto out;
	}
	bool ok = json_is_true(json_object_get(call.json, "ok"));
	rc = ok ? 0 : EXIT_PARTIAL;
	if (c->json)
		json_line(call.json);
	else if (ok)
		printf("the chain holds: %s rows, the newest is %lld\n%s\n", count_format(jint(call.json, "rows"), n),
		       (long long)jint(call.json, "newest"), jstr(call.json, "hash"));
	else
		printf("the chain is BROKEN at row %lld: it, or one before it, was changed, removed or inserted beside dlq\n",
		       (long long)jint(call.json, "broken"));
	if (!ok && !c->json)
		fprintf(stderr, "compare with an export or a backup: the rows before %lld are as they were written\n",
			(long long)jint(call.json, "broken"));
out:
	client_call_clear(&call);
	return rc;
}

static int list(struct cli *c, struct client *cl, int64_t limit)
{
	static const char *const head[] = {"N", "AT", "OPERATOR", "ACTION", "QUEUE", "TARGET", "OUTCOME", "REASON"};
	struct list l = {.json = c->json || cli_flag(c, "export")};
	struct dlq_err err = {0};

	table_init(&l.table, 1, head, ARRAY_LEN(head));
	enum dlq_code code = page_each(cl, "/v1/audit", limit, list_item, &l, &err);
	table_print(&l.table);
	return code ? cli_fail(&err) : 0;
}

static int run(struct cli *c)
{
	bool checks = c->n_args == 1 && !strcmp(c->args[0], "verify");
	int64_t limit;
	int rc;

	if (c->n_args && !checks)
		return cli_usage(c, "%s: `verify` is wanted, or no argument", c->args[0]);
	if (!cli_opt_int(c, "limit", 1, INT64_MAX, cli_flag(c, "export") ? INT64_MAX : 50, &limit))
		return EXIT_USAGE;
	struct client *cl = client_open(c, &rc);
	if (!cl)
		return rc;
	rc = checks ? verify(c, cl) : list(c, cl, limit);
	client_free(cl);
	return rc;
}

static const struct cli_option options[] = {
	{"limit", "N", "at most so many, default 50"},
	{"export", NULL, "all rows as JSON, one a line, with their links of the hash chain"},
	{0},
};
static const char *const words[] = {"verify", NULL};

const struct command cmd_audit = {
	.name = "audit",
	.synopsis = "[--limit N | --export]\nverify",
	.summary = "list who changed what, when and why, newest first",
	.about = "Every row carries a hash over itself and the row before it. `verify` follows that chain\n"
		 "and names the first row that does not fit: then the store was changed beside dlq. Exit\n"
		 "code 1 when it is broken. Rows cut off at the end leave a chain that holds, so keep the\n"
		 "newest hash that `verify` prints, or an export, in another place.",
	.examples = "dlq audit --limit 20 # the last changes\n"
		    "dlq audit verify # nobody changed them\n"
		    "dlq audit --export > audit.jsonl # all of them, for the auditor",
	.options = options,
	.words = words,
	.client = true,
	.run = run,
};
