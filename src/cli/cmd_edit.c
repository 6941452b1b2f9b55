/* cmd_edit.c - what an edit would do to many, and the editor for one. */
#include <stdio.h>
#include <string.h>

#include "cli/edit.h"
#include "cli/interrupt.h"
#include "cli/job.h"
#include "cli/preview.h"
#include "cli/term.h"

/* ---- many ---- */

/* The command that does what was looked at. */
static void next_command(struct cli *c, const struct selection *s, const struct preview *p)
{
	const char *reason = cli_opt(c, "reason");
	struct buf words = {0};

	selection_words(s, &words);
	edit_options_words(c, &words);
	if (p->selected > 1)
		buf_addz(&words, " --first 5 --stop-at 10%");
	if (cli_flag(c, "override"))
		buf_addz(&words, " --override");
	buf_addz(&words, " --reason ");
	if (reason && *reason)
		shell_word(&words, reason);
	else
		buf_addz(&words, "'...'");
	buf_addc(&words, 0);
	printf("\nNothing was changed yet. This puts them back edited%s:\n  %sdlq redrive%s%s\n", p->selected > 1 ? ", a few first" : "",
	       term_bold(), words.p, term_reset());
	buf_release(&words);
}

static void show(struct cli *c, const struct selection *s, const struct preview *p)
{
	char what[200], n[32];

	if (!p->selected) {
		if (s->ids.n) {
			fprintf(stderr, "nothing fits: %s dead now; `dlq show DLQ_ID` says what became of %s, and archived ones need --override\n",
				s->ids.n == 1 ? "it is not" : "none of them is", s->ids.n == 1 ? "it" : "them");
			return;
		}
		selection_what(s, what, sizeof(what));
		fprintf(stderr, "nothing fits: no dead letter in %s (looked at %s)\n", what, count_format(p->scan.looked, n));
		return;
	}
	preview_print(p);
	if (p->scan.interrupted)
		printf("\ninterrupted: the counts are those of the first %s looked at\n", count_format(p->scan.looked, n));
	if (p->changed)
		next_command(c, s, p);
	else if (p->failed < p->selected)
		printf("\nThe edit changes nothing. `dlq show DLQ_ID --body` shows what a body really looks like.\n");
}

static int preview(struct cli *c, struct selection *s, const json_t *edit, int shown)
{
	struct preview p = {0};
	struct dlq_err err = {0};
	int rc;
	struct client *cl = client_open(c, &rc);

	if (!cl)
		return rc;
	interrupt_catch();
	if (selection_resolve(c, cl, s, &err) || preview_run(cl, s, "redrive", edit, cli_flag(c, "override"), shown, !c->json, &p, &err)) {
		rc = cli_fail(&err);
	} else {
		if (c->json)
			preview_json(&p);
		else
			show(c, s, &p);
		fflush(stdout);
		rc = scan_warn(&p.scan) || p.failed || p.scan.interrupted ? EXIT_PARTIAL : 0;
	}
	preview_release(&p);
	client_free(cl);
	return rc;
}

/* ---- one ---- */

static int by_hand(struct cli *c, const struct selection *s)
{
	int rc;

	if (s->ids.n != 1)
		return cli_usage(c, "how? --jq PROGRAM, --set-header or --remove-header edits many; one dead letter alone opens your editor");
	if (cli_flag(c, "preview") || cli_opt(c, "show"))
		return cli_usage(c, "--preview and --show go with --jq, --set-header and --remove-header");
	if (!job_reason(c, "'SKU corrected by hand'"))
		return EXIT_USAGE;
	if (!cli_flag(c, "yes") && !(term_is_tty(0) && term_is_tty(2)))
		return cli_usage(c, "there is no terminal to ask at; say --yes to put it back without a question");
	struct client *cl = client_open(c, &rc);
	if (!cl)
		return rc;
	rc = edit_by_hand(c, cl, s->ids.list[0]);
	client_free(cl);
	return rc;
}

static int run(struct cli *c)
{
	struct selection s = {0};
	json_t *edit = NULL;
	int64_t shown;
	int rc = selection_read(c, SELECT_IDS, &s);

	if (!rc && (!cli_opt_int(c, "show", 0, 100, 5, &shown) || !edit_options_read(c, &edit)))
		rc = EXIT_USAGE;
	if (!rc)
		rc = edit ? preview(c, &s, edit, (int)shown) : by_hand(c, &s);
	json_decref(edit);
	selection_release(&s);
	return rc;
}

static const struct cli_option options[] = {
	EDIT_OPTIONS,
	{"preview", NULL, "only look: what --jq does here anyway; nothing is changed before `dlq redrive`"},
	{"show", "N", "so many of the changes, 0 to 100, default 5"},
	{"reason", "TEXT", "why; goes to the audit log; needed for the editor"},
	{"yes", NULL, "put back what the editor left without a question"},
	{"override", NULL, "also one that was redriven as often as the queue allows, or is archived"},
	{"no-wait", NULL, "with the editor: do not follow the redrive, print its id"},
	SELECT_OPTIONS,
	{0},
};

const struct command cmd_edit = {
	.name = "edit",
	.synopsis = "[--queue QUEUE] [--group GROUP] [FILTERS] --jq PROGRAM [--show N]\nDLQ_ID... --jq PROGRAM [--set-header NAME=VALUE] "
		    "[--remove-header NAME]\nDLQ_ID --reason TEXT",
	.summary = "see what a repair of the payloads would do; or repair one in your editor",
	.about = "With a jq program, or headers to set and remove: shows what the edit would do to the\n"
		 "chosen dead letters, and changes nothing. How many would change, stay the same or fail,\n"
		 "the first changes place by place, and the `dlq redrive` to type when it looks right. The\n"
		 "program sees the JSON body alone; what it does not touch keeps its bytes, and the\n"
		 "original stays beside the edit. Exit code 1: it failed on some, which would be skipped.\n"
		 "\n"
		 "With one id and no program: opens its body in $VISUAL or $EDITOR, shows what changed,\n"
		 "asks, and puts it back with that body. Nothing happens when it is unchanged or the\n"
		 "editor fails; what was typed stays in a file when it cannot be put back.\n"
		 "\n" SELECT_ABOUT,
	.examples = "dlq edit --group 3f2a9c --jq '.sku |= gsub(\"%2F\"; \"/\")' # what would this repair do?\n"
		    "dlq edit --queue orders --where '.body.qty < 0' --jq '.qty |= -.' --show 20 # more of them\n"
		    "dlq edit --queue orders --set-header region=eu --remove-header x-old # headers\n"
		    "dlq redrive --group 3f2a9c --jq '.sku |= gsub(\"%2F\"; \"/\")' --first 5 --reason 'SKU decoded' # then do it\n"
		    "dlq edit 01JE2X5M8Q4Z6T9K3B7C1D0FGH --reason 'typo in the address' # one, in your editor",
	.options = options,
	.client = true,
	.run = run,
};
