/* cmd_archive.c - the archive's files, and giving dead letters up to it. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/interrupt.h"
#include "cli/job.h"
#include "cli/page.h"
#include "cli/term.h"

/* ---- list ---- */

struct list {
	struct table table;
	bool json, tty;
	int64_t n;
};

static bool list_item(json_t *d, void *arg)
{
	struct list *l = arg;
	char ago[40];

	l->n++;
	if (l->json) {
		json_line(d);
		return true;
	}
	table_cell(&l->table, jstr(d, "dlq_id"));
	table_cell(&l->table, jstr(d, "queue"));
	table_cell(&l->table, jstr(d, "id"));
	table_cell(&l->table, jstr(d, "state"));
	table_cell(&l->table, jstr(d, "reason"));
	table_cell(&l->table, l->tty ? time_ago(jstr(d, "archived_at"), ago) : jstr(d, "archived_at"));
	table_cell(&l->table, jstr(d, "file"));
	table_cell(&l->table, jstr(d, "error_type"));
	if (l->n % 1000 == 0)
		table_print(&l->table);
	return true;
}

/* A day as the API takes it; today and yesterday are not needed: an empty one is open. */
static bool day_fits(struct cli *c, const char *option)
{
	const char *day = cli_opt(c, option);
	char text[32];
	int64_t ms;

	if (!day)
		return true;
	snprintf(text, sizeof(text), "%.10sT00:00:00Z", day);
	if (strlen(day) == 10 && time_parse(str_of(text), &ms))
		return true;
	cli_usage(c, "--%s %s: a day such as 2026-12-01 is wanted", option, day);
	return false;
}

static int list(struct cli *c, struct client *cl, int64_t limit)
{
	static const char *const head[] = {"DLQ_ID", "QUEUE", "MESSAGE", "STATE", "REASON", "ARCHIVED", "FILE", "ERROR"};
	struct list l = {.json = c->json, .tty = term_is_tty(STDOUT_FILENO)};
	struct scan scan = {.show = !c->json};
	struct dlq_err err = {0};
	struct buf path = {0};
	int rc = 0;

	buf_addz(&path, "/v1/archive");
	url_query(&path, "queue", cli_opt(c, "queue"));
	url_query(&path, "id", cli_opt(c, "id"));
	url_query(&path, "from", cli_opt(c, "from"));
	url_query(&path, "to", cli_opt(c, "to"));
	bool all = path.n == strlen("/v1/archive");
	buf_addc(&path, 0);
	table_init(&l.table, 0, head, ARRAY_LEN(head));
	interrupt_catch();
	enum dlq_code code = page_scan(cl, path.p, limit, list_item, &l, &scan, &err);
	table_print(&l.table);
	if (code)
		rc = cli_fail(&err);
	else if (scan.interrupted && scan.more)
		rc = EXIT_PARTIAL;
	else if (!c->json && !l.n)
		fprintf(stderr, all ? "the archive's files are empty: nothing reached the end of its retention yet\n" : "nothing in the archive's files fits\n");
	else if (!c->json && scan.more)
		fprintf(stderr, "the newest %lld; --limit shows more\n", (long long)limit);
	buf_release(&path);
	return rc;
}

/* ---- show ---- */

static int show(struct cli *c, struct client *cl)
{
	struct buf path = {0};
	struct dlq_err err = {0};
	int rc = 0;

	buf_addz(&path, "/v1/archive/");
	url_escape(&path, c->args[1]);
	buf_addc(&path, 0);
	struct client_call call = {.method = "GET", .path = path.p, .timeout_ms = 90000};
	if (client_call(cl, &call, &err)) {
		rc = cli_fail(&err);
	} else {
		struct str line = str_trim(buf_str(&call.reply)); /* as it stands there, byte for byte */

		fwrite(line.p, 1, line.n, stdout);
		putchar('\n');
	}
	client_call_clear(&call);
	buf_release(&path);
	return rc;
}

/* ---- the command ---- */

/* The first option that does not go with the verb, or NULL: `names` are those that do not, or (only) the only ones that do. */
static const char *misplaced(const struct cli *c, const char *const *names, size_t n, bool only)
{
	for (int i = 0; i < c->n_given; i++) {
		size_t k = 0;

		while (k < n && strcmp(names[k], c->given[i].name))
			k++;
		if ((k < n) != only)
			return c->given[i].name;
	}
	return NULL;
}

static int give_up(struct cli *c)
{
	static const char *const of_list[] = {"from", "to", "limit"};
	const char *other = misplaced(c, of_list, ARRAY_LEN(of_list), false);

	if (other)
		return cli_usage(c, "--%s goes with list; give-up takes --died-from and --died-to", other);
	c->args++;
	c->n_args--;
	int rc = job_command(c, "archive", "given up", "it stays listed: dlq list --state archived", "'the shop is closed'");
	c->args--;
	c->n_args++;
	return rc;
}

/* `dlq archive ID` and `dlq archive --group G`, as `dlq discard` takes them: which verb was meant. */
static int no_verb(struct cli *c, const char *verb)
{
	return cli_usage(c, "%s%slist, show or give-up is wanted; to give dead letters up: dlq archive give-up %s --reason '...'", verb,
			 *verb ? ": " : "", *verb ? verb : "...");
}

static int run(struct cli *c)
{
	static const char *const looking[] = {"queue", "id", "from", "to", "limit", "json", "url", "data"};
	const char *verb = c->n_args ? c->args[0] : "list", *other;
	bool listing = !strcmp(verb, "list"), showing = !strcmp(verb, "show");
	int64_t limit;
	int rc;

	if (!strcmp(verb, "give-up"))
		return give_up(c);
	if (!listing && !showing)
		return no_verb(c, verb);
	other = misplaced(c, looking, ARRAY_LEN(looking), true);
	if (other && !c->n_args)
		return no_verb(c, "");
	if (other)
		return cli_usage(c, "--%s goes with give-up", other);
	if (listing ? c->n_args > 1 : c->n_args != 2)
		return cli_usage(c, listing ? "list takes no id; show does" : "show: one dead letter, please; `dlq archive list` names them");
	if (!cli_opt_int(c, "limit", 1, INT64_MAX, 100, &limit) || !day_fits(c, "from") || !day_fits(c, "to"))
		return EXIT_USAGE;
	struct client *cl = client_open(c, &rc);
	if (!cl)
		return rc;
	rc = listing ? list(c, cl, limit) : show(c, cl);
	client_free(cl);
	return rc;
}

static const struct cli_option options[] = {
	{"from", "DAY", "list: archived on this day or later, such as 2026-12-01"},
	{"to", "DAY", "list: archived on this day or before"},
	{"limit", "N", "list: at most so many, default 100"},
	JOB_OPTIONS,
	SELECT_OPTIONS,
	{0},
};
static const char *const words[] = {"list", "show", "give-up", NULL};

const struct command cmd_archive = {
	.name = "archive",
	.synopsis = "[list] [--queue QUEUE] [--id ID] [--from DAY] [--to DAY]\nshow DLQ_ID\n"
		    "give-up DLQ_ID... --reason TEXT [--yes]\n"
		    "give-up [--queue QUEUE] [--group GROUP] [FILTERS] --reason TEXT [--yes] [--dry-run]",
	.summary = "look into the archive, and give dead letters up to it",
	.about = "`give-up` is for dead letters that nobody will put back, and nobody wants to lose: they are\n"
		 "`archived` at once, leave the lists of what is dead, and `dlq restore` takes them back. So\n"
		 "are those that died again after as many redrives as their queue allows (max_redrives).\n"
		 "`dlq list --state archived` shows them.\n"
		 "\n"
		 "When its retention ends, every dead letter goes into the archive's files with its whole\n"
		 "record: archive/QUEUE/DAY.jsonl.zst in the data folder. `list` looks these up, `show`\n"
		 "writes one record as it stands there, and `dlq import` makes it a dead letter again.\n"
		 "\n"
		 "Above one message `give-up` shows the count and asks, or needs --yes. --queue and --id\n"
		 "go with `list`, too; the other filters with `give-up` alone.\n"
		 "\n" SELECT_ABOUT,
	.examples = "dlq archive list --queue orders --from 2026-12-01 # what reached the end of its retention since\n"
		    "dlq archive show 01JE2X5M8Q4Z6T9K3B7C1D0FGH | dlq import - --reason 'still needed' # one back from the files\n"
		    "dlq archive give-up --group 3f2a9c --reason 'the shop is closed' # one cause, count and question first\n"
		    "dlq list --state archived # given up, and still in the store\n"
		    "dlq restore --undo 01JE2X7Q2M5V8R1T4W6Y9B3DFH --reason 'it reopened' # take that back",
	.options = options,
	.words = words,
	.client = true,
	.run = run,
};
