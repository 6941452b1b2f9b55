#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/groups.h"
#include "cli/page.h"
#include "cli/term.h"

#define WHAT_SHOWN 40 /* bytes, on a terminal */

struct list {
	struct table table;
	bool json, tty;
};

static const char *action_of(const json_t *r)
{
	return *jstr(r, "action") ? jstr(r, "action") : "redrive";
}

/*
 * What it was started with, for people: "queue orders", "group 3f2a9c..., edited by jq .a", "ids". What the server says of a selection
 * names its group, or says "all" of a queue that an edit goes over.
 */
static void what_of(const json_t *r, char *out, size_t n)
{
	const char *queue = jstr(r, "queue"), *group = jstr(r, "group"), *selection = jstr(r, "selection");
	bool all = !strncmp(selection, "all", 3) && (!selection[3] || selection[3] == ',');
	size_t at;

	if (!strncmp(selection, "group ", 6))
		snprintf(out, n, "%s", selection);
	else if (*group)
		snprintf(out, n, "group %s%s%s", group, *selection && !all ? ", " : all ? selection + 3 : "", all ? "" : selection);
	else if (*queue)
		snprintf(out, n, "queue %s%s%s", queue, *selection && !all ? ", " : all ? selection + 3 : "", all ? "" : selection);
	else
		snprintf(out, n, "%s", *selection ? selection : "ids");
	for (at = strlen(out); at && out[at - 1] == ' '; at--)
		out[at - 1] = 0;
}

/* The same for a column of a terminal: groups by their first characters, cut. */
static void what_short(const json_t *r, char *out, size_t n)
{
	char all[300];

	what_of(r, all, sizeof(all));
	if (!strncmp(all, "group ", 6) && strlen(all) >= 6 + GROUP_ID_LEN)
		snprintf(out, n, "group %.*s%s", GROUP_ID_SHORT, all + 6, all + 6 + GROUP_ID_LEN);
	else
		snprintf(out, n, "%s", all);
	if (strlen(out) > WHAT_SHOWN) {
		struct str cut = str_cut(str_of(out), WHAT_SHOWN - 3);

		snprintf(out + cut.n, n - cut.n, "...");
	}
}

/* On a terminal: what counts first, and all that is text in the last column, which takes what room is left. */
static void row_tty(struct table *t, const json_t *r)
{
	char what[300], text[700], ago[40];

	what_short(r, what, sizeof(what));
	snprintf(text, sizeof(text), "%s %s: %s (%s)", action_of(r), what, jstr(r, "reason"), jstr(r, "operator"));
	table_cell(t, jstr(r, "redrive_id"));
	table_cell(t, jstr(r, "state"));
	table_int(t, jint(r, "total"));
	table_int(t, jint(r, "succeeded"));
	table_int(t, jint(r, "failed_again"));
	table_cell(t, time_ago(jstr(r, "started_at"), ago));
	table_cell(t, text);
}

static void row_pipe(struct table *t, const json_t *r)
{
	char what[300];

	what_of(r, what, sizeof(what));
	table_cell(t, jstr(r, "redrive_id"));
	table_cell(t, action_of(r));
	table_cell(t, what);
	table_cell(t, jstr(r, "state"));
	table_int(t, jint(r, "total"));
	table_int(t, jint(r, "sent"));
	table_int(t, jint(r, "succeeded"));
	table_int(t, jint(r, "failed_again"));
	table_cell(t, jstr(r, "started_at"));
	table_cell(t, jstr(r, "operator"));
	table_cell(t, jstr(r, "reason"));
}

static bool list_item(json_t *r, void *arg)
{
	struct list *l = arg;

	if (l->json)
		json_line(r);
	else if (l->tty)
		row_tty(&l->table, r);
	else
		row_pipe(&l->table, r);
	return true;
}

static int list(struct cli *c, struct client *cl)
{
	static const char *const tty[] = {"REDRIVE_ID", "STATE", "TOTAL", "DONE", "DIED", "STARTED", "WHAT"};
	static const char *const pipe[] = {"REDRIVE_ID", "ACTION", "WHAT", "STATE", "TOTAL", "SENT", "DONE", "DIED", "STARTED", "OPERATOR", "REASON"};
	struct list l = {.json = c->json, .tty = term_is_tty(STDOUT_FILENO)};
	struct dlq_err err = {0};

	table_init(&l.table, l.tty ? 0x1c : 0xf0, l.tty ? tty : pipe, l.tty ? ARRAY_LEN(tty) : ARRAY_LEN(pipe));
	enum dlq_code code = page_each(cl, "/v1/redrives", 100, list_item, &l, &err);
	table_print(&l.table);
	return code ? cli_fail(&err) : 0;
}

/* The ledger, in the order in which the members are handled. */
static bool ledger_item(json_t *it, void *arg)
{
	struct list *l = arg;

	if (l->json) {
		json_line(it);
		return true;
	}
	table_cell(&l->table, jstr(it, "dlq_id"));
	table_cell(&l->table, jstr(it, "state"));
	table_cell(&l->table, jstr(it, "sent_at"));
	table_cell(&l->table, jstr(it, "outcome_at"));
	table_cell(&l->table, jstr(it, "note"));
	if (l->table.rows >= 1000)
		table_print(&l->table);
	return true;
}

static int ledger(struct cli *c, struct client *cl, const char *path)
{
	static const char *const head[] = {"DLQ_ID", "STATE", "DONE AT", "OUTCOME", "NOTE"};
	struct list l = {.json = c->json};
	struct dlq_err err = {0};

	table_init(&l.table, 0, head, ARRAY_LEN(head));
	enum dlq_code code = page_each(cl, path, INT64_MAX, ledger_item, &l, &err);
	table_print(&l.table);
	return code ? cli_fail(&err) : 0;
}

static void show_guard(const json_t *r)
{
	const json_t *stop = json_object_get(r, "stop_at");
	char safe[600];

	if (jint(r, "first"))
		printf("  first %lld, then it waits for their outcome, at most %s\n", (long long)jint(r, "first"),
		       *jstr(r, "canary_wait") ? jstr(r, "canary_wait") : "10m");
	if (*jstr(r, "rate"))
		printf("  at most %s\n", jstr(r, "rate"));
	if (json_is_integer(stop))
		printf("  halts when %lld failed again\n", (long long)json_integer_value(stop));
	else if (stop)
		printf("  halts when more than %s failed again\n", json_string_value(stop));
	if (*jstr(r, "phase") && jint(r, "first"))
		printf("  now: %s\n", jstr(r, "phase"));
	if (*jstr(r, "halted_why"))
		printf("  %shalted: %s%s\n", term_red(), text_safe(str_of(jstr(r, "halted_why")), safe, sizeof(safe)), term_reset());
}

static void show_edited(const json_t *r)
{
	const json_t *e = json_object_get(r, "edited");
	char a[32], b[32], c[32];

	if (e)
		printf("  edited: %s changed, %s unchanged, %s failed and skipped\n", count_format(jint(e, "changed"), a),
		       count_format(jint(e, "unchanged"), b), count_format(jint(e, "failed"), c));
}

static void show_counts(const json_t *r)
{
	bool back = !strcmp(action_of(r), "redrive");
	const char *const numbers[][2] = {
		{"total", "chosen"},  {"sent", back ? "put back" : "done"}, {"skipped", "skipped"}, {"succeeded", "done since"},
		{"failed_again", "died again"}, {"cancelled", back ? "not put back" : "left out"},
	};
	char n[32];

	for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
		if (i < 3 || (back && i < 5) || (i == 5 && jint(r, numbers[i][0])))
			printf("  %-12s %10s\n", numbers[i][1], count_format(jint(r, numbers[i][0]), n));
}

static void show(const json_t *r)
{
	char safe[600], what[600], n[32];
	const char *action = action_of(r), *id = jstr(r, "redrive_id");

	what_of(r, what, sizeof(what));
	printf("%s%s%s  %s, %s\n  %s\n", term_bold(), id, term_reset(), action, jstr(r, "state"),
	       text_safe(str_of(what), safe, sizeof(safe)));
	if (*jstr(r, "to"))
		printf("  into queue %s\n", jstr(r, "to"));
	printf("  by %s, %s: %s\n", jstr(r, "operator"), jstr(r, "started_at"),
	       text_safe(str_of(jstr(r, "reason")), safe, sizeof(safe)));
	if (!strcmp(jstr(r, "phase"), "selecting"))
		printf("  selecting: looked at %s\n", count_format(jint(r, "looked"), n));
	show_edited(r);
	show_counts(r);
	show_guard(r);
	if (!strcmp(jstr(r, "state"), "halted"))
		printf("  %sdlq redrives resume %s   goes on all the same; cancel ends it%s\n", term_dim(), id, term_reset());
	else if (jint(r, "skipped"))
		printf("  %sdlq redrives show %s --items   which were skipped, and why%s\n", term_dim(), id, term_reset());
	if ((!strcmp(action, "discard") || !strcmp(action, "archive")) && jint(r, "sent"))
		printf("  %sdlq restore --undo %s --reason '...'   takes it back%s\n", term_dim(), id, term_reset());
}

static int run(struct cli *c)
{
	static const char *const verbs[] = {"list", "show", "pause", "resume", "cancel"};
	const char *verb = c->n_args ? c->args[0] : "list";
	struct buf path = {0};
	struct dlq_err err = {0};
	bool items = cli_flag(c, "items");
	size_t known = 0;
	int rc;

	while (known < ARRAY_LEN(verbs) && strcmp(verbs[known], verb))
		known++;
	if (known == ARRAY_LEN(verbs))
		return cli_usage(c, "%s: list, show, pause, resume or cancel is wanted", verb);
	if (known ? c->n_args != 2 : c->n_args > 1)
		return cli_usage(c, known ? "%s: one redrive id is wanted" : "%s takes no id", verb);
	if (items && known != 1)
		return cli_usage(c, "--items goes with show");
	struct client *cl = client_open(c, &rc);
	if (!cl)
		return rc;
	if (!known) {
		rc = list(c, cl);
		goto out;
	}
	buf_addz(&path, "/v1/redrives/");
	url_escape(&path, c->args[1]);
	if (known > 1)
		buf_addf(&path, "/%s", verb);
	if (items)
		buf_addz(&path, "/items");
	buf_addc(&path, 0);
	if (items) {
		rc = ledger(c, cl, path.p);
		goto out;
	}
	json_t *r = client_json(cl, known > 1 ? "POST" : "GET", path.p, NULL, &err);
	if (!r)
		rc = cli_fail(&err);
	else if (c->json)
		json_line(r);
	else
		show(r);
	json_decref(r);
out:
	buf_release(&path);
	client_free(cl);
	return rc;
}

static const struct cli_option options[] = {
	{"items", NULL, "show: the ledger, every member with what became of it"},
	{0},
};
static const char *const words[] = {"list", "show", "pause", "resume", "cancel", NULL};

const struct command cmd_redrives = {
	.name = "redrives",
	.synopsis = "[list]\nshow REDRIVE_ID [--items]\npause REDRIVE_ID\nresume REDRIVE_ID\ncancel REDRIVE_ID",
	.summary = "follow redrives and the other jobs, pause and cancel them",
	.about = "Discards, archivings and restores of more than one dead letter are listed, too.\n"
		 "`put back` counts what went back into the queue; `done since` and `died again` go on\n"
		 "counting as the outcomes come. A guarded redrive halts by itself when too many failed\n"
		 "again; `resume` goes on past that, `cancel` ends it. The ledger of --items names every\n"
		 "member: selected, sent, succeeded, failed_again, skipped (with a note that says\n"
		 "why), cancelled, or unknown.",
	.examples = "dlq redrives # the last hundred\n"
		    "dlq redrives show 01JE2X7Q2M5V8R1T4W6Y9B3DFH # how one went\n"
		    "dlq redrives show 01JE2X7Q2M5V8R1T4W6Y9B3DFH --items # what became of each",
	.options = options,
	.words = words,
	.client = true,
	.run = run,
};
