#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/interrupt.h"
#include "cli/page.h"
#include "cli/select.h"
#include "cli/term.h"

#define ROWS 1000 /* shown as they come when there are many: widths hold for a screenful */

struct list {
	json_t *rows; /* not shown yet */
	bool json, tty;
	bool queue, state; /* are shown: on a terminal not when they were asked for and so the same in each row */
	bool soon;         /* one of rows expires soon */
};

static void error_text(const json_t *d, char *out, size_t n)
{
	const json_t *error = json_object_get(d, "error");

	snprintf(out, n, "%s%s%s", jstr(error, "type"), *jstr(error, "type") && *jstr(error, "message") ? ": " : "", jstr(error, "message"));
}

static void row_tty(const struct list *l, struct table *t, const json_t *d)
{
	char ago[40], text[300];

	table_cell(t, jstr(d, "dlq_id"));
	if (l->queue)
		table_cell(t, jstr(d, "queue"));
	if (l->state)
		table_cell(t, jstr(d, "state"));
	table_cell(t, jstr(d, "reason"));
	if (!l->soon)
		table_int(t, jint(d, "attempts"));
	table_cell(t, time_ago(jstr(d, "died_at"), ago));
	if (l->soon)
		table_cell(t, json_is_true(json_object_get(d, "expires_soon")) ? time_ago(jstr(d, "expires_at"), ago) : "");
	error_text(d, text, sizeof(text));
	table_cell(t, text);
}

static void row_pipe(struct table *t, const json_t *d)
{
	static const char *const members[] = {"dlq_id", "queue", "state", "reason"};
	char text[300];

	for (size_t i = 0; i < ARRAY_LEN(members); i++)
		table_cell(t, jstr(d, members[i]));
	table_int(t, jint(d, "attempts"));
	table_cell(t, jstr(d, "died_at"));
	error_text(d, text, sizeof(text));
	table_cell(t, text);
	table_cell(t, jstr(d, "expires_at"));
}

/* Prints the rows. On a terminal the end of retention takes the place of the attempts when it is near; in a pipe it is the last column. */
static void flush_rows(struct list *l)
{
	const char *head[TABLE_COLUMNS] = {"DLQ_ID", "QUEUE", "STATE", "REASON", "ATTEMPTS", "DIED", "ERROR", "EXPIRES"};
	int n = 8, number = 4;
	struct table table;
	json_t *d;
	size_t i;

	if (l->tty) {
		const struct {
			const char *name;
			bool there;
		} columns[] = {{"DLQ_ID", true}, {"QUEUE", l->queue}, {"STATE", l->state}, {"REASON", true}, {"ATTEMPTS", !l->soon}, {"DIED", true},
			       {"EXPIRES", l->soon}, {"ERROR", true}};

		n = 0;
		number = l->soon ? -1 : 2 + l->queue + l->state;
		for (i = 0; i < ARRAY_LEN(columns); i++)
			if (columns[i].there)
				head[n++] = columns[i].name;
	}
	table_init(&table, number < 0 ? 0 : 1u << number, head, n);
	json_array_foreach(l->rows, i, d) {
		if (l->tty)
			row_tty(l, &table, d);
		else
			row_pipe(&table, d);
	}
	table_print(&table);
	json_array_clear(l->rows);
	l->soon = false;
}

static bool list_item(json_t *d, void *arg)
{
	struct list *l = arg;

	if (l->json) {
		json_line(d);
		return true;
	}
	json_array_append(l->rows, d);
	l->soon = l->soon || json_is_true(json_object_get(d, "expires_soon"));
	if (json_array_size(l->rows) == ROWS)
		flush_rows(l);
	return true;
}

/* What is said below the list; the exit code. */
static int finish(struct cli *c, const struct selection *s, const struct scan *scan, int64_t limit)
{
	char n[32];
	bool all_failed = scan_warn(scan);

	if (scan->interrupted && scan->more) {
		fprintf(stderr, "interrupted after %s; there may be more\n", count_format(scan->looked ? scan->looked : scan->found, n));
		return EXIT_PARTIAL;
	}
	if (!c->json && !scan->found)
		fprintf(stderr, "no dead letter%s\n", selection_any(s) ? " that fits" : "");
	else if (!c->json && scan->more && scan->found == limit)
		fprintf(stderr, "the newest %s; --limit shows more\n", count_format(limit, n));
	return all_failed ? EXIT_PARTIAL : 0;
}

static int run(struct cli *c)
{
	struct list l = {.json = c->json, .tty = term_is_tty(STDOUT_FILENO)};
	struct scan scan = {.show = !c->json};
	struct selection s = {0};
	struct client *cl = NULL;
	struct dlq_err err = {0};
	struct buf path = {0};
	int64_t limit;
	int rc = selection_read(c, SELECT_QUEUE | SELECT_LISTED, &s);

	if (!rc && !cli_opt_int(c, "limit", 1, INT64_MAX, 100, &limit))
		rc = EXIT_USAGE;
	if (rc || !(cl = client_open(c, &rc)))
		goto out;
	if (selection_resolve(c, cl, &s, &err)) {
		rc = cli_fail(&err);
		goto out;
	}
	buf_addz(&path, "/v1/dead-letters");
	selection_query(&s, &path);
	buf_addc(&path, 0);
	l.rows = json_array();
	l.queue = !s.queue;
	l.state = s.state != NULL;
	interrupt_catch();
	enum dlq_code code = page_scan(cl, path.p, limit, list_item, &l, &scan, &err);
	flush_rows(&l);
	fflush(stdout);
	rc = code ? cli_fail(&err) : finish(c, &s, &scan, limit);
out:
	json_decref(l.rows);
	buf_release(&path);
	client_free(cl);
	selection_release(&s);
	return rc;
}

static const struct cli_option options[] = {
	{"state", "STATE", "dead (default), redriving, redriven, discarded, archived (given up) or any"},
	{"reason", "REASON", "the same as --dead-reason"},
	{"from", "TIME", "the same as --died-from"},
	{"to", "TIME", "the same as --died-to"},
	{"limit", "N", "at most so many, default 100"},
	SELECT_OPTIONS,
	{0},
};

const struct command cmd_list = {
	.name = "list",
	.synopsis = "[QUEUE] [FILTERS] [--limit N]",
	.summary = "find dead letters, newest first",
	.about = "On a terminal a table; to a pipe one line each with tabs between the columns; with\n"
		 "--json one JSON document a line. The time at which retention ends shows on a terminal\n"
		 "when it is near, and is the last column of a pipe.\n"
		 "\n" SELECT_ABOUT
		 "\n"
		 "A search goes on until --limit are found; it says how much it looked at, and Ctrl-C ends\n"
		 "it with what was found. Dead letters on which --where fails do not fit, and are counted\n"
		 "in a warning; exit code 1 when it failed on all.",
	.examples = "dlq list orders # what died lately\n"
		    "dlq list orders --error-type EncodeError --limit 1000 --json # for jq\n"
		    "dlq list --group 3f2a9c # those with one cause, see `dlq groups`\n"
		    "dlq list orders --text 'AB%2F' --died-from 2h # whose body has these bytes, died in the last two hours\n"
		    "dlq list orders --where '.body.total > 100 and .headers.region == \"eu\"' # by what a message says\n"
		    "dlq list --expires-soon # what the archive takes within three days\n"
		    "dlq list --state archived # given up: their redrives were used up, or somebody decided so\n"
		    "dlq list --state any --id order-17 # what became of one message",
	.options = options,
	.client = true,
	.run = run,
};
