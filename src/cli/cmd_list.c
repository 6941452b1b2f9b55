#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/groups.h"
#include "cli/page.h"
#include "cli/term.h"

struct list {
	struct table table;
	bool json;
	int64_t n;
};

static bool list_item(json_t *d, void *arg)
{
	struct list *l = arg;
	const json_t *error = json_object_get(d, "error");
	char ago[40], text[300];

	l->n++;
	if (l->json) {
		json_line(d);
		return true;
	}
	table_cell(&l->table, jstr(d, "dlq_id"));
	table_cell(&l->table, jstr(d, "queue"));
	table_cell(&l->table, jstr(d, "state"));
	table_cell(&l->table, jstr(d, "reason"));
	table_int(&l->table, jint(d, "attempts"));
	table_cell(&l->table, term_is_tty(STDOUT_FILENO) ? time_ago(jstr(d, "died_at"), ago) : jstr(d, "died_at"));
	snprintf(text, sizeof(text), "%s%s%s", jstr(error, "type"),
		 *jstr(error, "type") && *jstr(error, "message") ? ": " : "", jstr(error, "message"));
	table_cell(&l->table, text);
	/* Rows are shown as they come when there are many: widths hold for a screenful. */
	if (l->n % 1000 == 0)
		table_print(&l->table);
	return true;
}

static int run(struct cli *c)
{
	static const char *const head[] = {"DLQ_ID", "QUEUE", "STATE", "REASON", "ATTEMPTS", "DIED", "ERROR"};
	static const char *const filters[][2] = {
		{"state", "state"},           {"id", "id"},     {"key", "key"}, {"reason", "reason"},
		{"error-type", "error_type"}, {"from", "from"}, {"to", "to"},
	};
	struct list l = {.json = c->json};
	struct dlq_err err = {0};
	struct buf path = {0};
	char group[GROUP_ID_LEN + 1];
	int64_t limit;
	int rc;

	if (c->n_args > 1)
		return cli_usage(c, "one queue, please");
	if (!cli_opt_int(c, "limit", 1, INT64_MAX, 100, &limit))
		return EXIT_USAGE;
	struct client *cl = client_open(c, &rc);
	if (!cl)
		return rc;
	if (cli_opt(c, "group") && group_resolve(cl, cli_opt(c, "group"), group, &err)) {
		client_free(cl);
		return cli_fail(&err);
	}
	buf_addz(&path, "/v1/dead-letters");
	url_query(&path, "group", cli_opt(c, "group") ? group : NULL);
	url_query(&path, "queue", c->n_args ? c->args[0] : cli_opt(c, "queue"));
	for (size_t i = 0; i < ARRAY_LEN(filters); i++)
		url_query(&path, filters[i][1], cli_opt(c, filters[i][0]));
	buf_addc(&path, 0);
	table_init(&l.table, 1u << 4, head, ARRAY_LEN(head));
	enum dlq_code code = page_each(cl, path.p, limit, list_item, &l, &err);
	table_print(&l.table);
	if (code)
		rc = cli_fail(&err);
	else if (!c->json && !l.n)
		fprintf(stderr, "no dead letter%s\n", path.n > sizeof("/v1/dead-letters") ? " that fits" : "");
	else if (!c->json && l.n == limit)
		fprintf(stderr, "the newest %lld; --limit shows more\n", (long long)limit);
	buf_release(&path);
	client_free(cl);
	return rc;
}

static const struct cli_option options[] = {
	{"queue", "QUEUE", "of this queue (or as the first argument)"},
	{"group", "GROUP", "of this group of failures; the first characters of it are enough"},
	{"state", "STATE", "dead (default), redriving, redriven, discarded or any"},
	{"id", "ID", "of this message"},
	{"key", "KEY", "of this ordering key (with a queue)"},
	{"reason", "REASON", "permanent, max_attempts, lease_expired, expired, ..."},
	{"error-type", "TYPE", "whose last error has this type"},
	{"from", "TIME", "died at or after, RFC 3339"},
	{"to", "TIME", "died before, RFC 3339"},
	{"limit", "N", "at most so many, default 100"},
	{0},
};

const struct command cmd_list = {
	.name = "list",
	.synopsis = "[QUEUE] [OPTIONS]",
	.summary = "list dead letters, newest first",
	.about = "On a terminal a table; to a pipe one line each with tabs between the columns; with\n"
		 "--json one JSON document a line.",
	.examples = "dlq list orders # what died lately\n"
		    "dlq list orders --error-type EncodeError --limit 1000 --json # for jq\n"
		    "dlq list --group 3f2a9c # those with one cause, see `dlq groups`\n"
		    "dlq list --state any --id order-17 # what became of one message",
	.options = options,
	.client = true,
	.run = run,
};
