#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/edit.h"
#include "cli/job.h"
#include "cli/term.h"

#define CANARY_WAIT_MAX_MS ((int64_t)7 * 86400000)

/* ---- the guard ---- */

static bool guarded(const struct cli *c)
{
	return cli_opt(c, "first") || cli_opt(c, "rate") || cli_opt(c, "stop-at") || cli_opt(c, "canary-wait");
}

/* A positive number in front of `rest`. */
static bool number_before(const char *text, double *n, const char **rest)
{
	size_t digits = strspn(text, "0123456789.");
	char *end;

	*n = digits && digits < 20 ? strtod(text, &end) : 0;
	*rest = text + digits;
	return *n > 0 && end == *rest;
}

/* Adds --rate. The server checks it, too: but it must not depend on whether anything is dead now. */
static bool add_rate(struct cli *c, json_t *more)
{
	const char *rate = cli_opt(c, "rate"), *rest;
	double n;

	if (!rate)
		return true;
	if (!number_before(rate, &n, &rest) || (strcmp(rest, "/s") && strcmp(rest, "/m") && strcmp(rest, "/h"))) {
		cli_usage(c, "--rate %s: so many a second, minute or hour is wanted, such as 100/s, 6000/m or 50/h", rate);
		return false;
	}
	json_object_set_new(more, "rate", json_string(rate));
	return true;
}

static bool add_stop(struct cli *c, json_t *more)
{
	const char *stop = cli_opt(c, "stop-at"), *rest;
	int64_t count = 0;
	double n;

	if (!stop)
		return true;
	if (stop[0] && strspn(stop, "0123456789") == strlen(stop)) {
		if (!cli_opt_int(c, "stop-at", 1, 1000000000, 0, &count))
			return false;
		json_object_set_new(more, "stop_at", json_integer(count));
		return true;
	}
	if (!number_before(stop, &n, &rest) || strcmp(rest, "%") || n > 100) {
		cli_usage(c, "--stop-at %s: a whole number is wanted, or a share such as 10%%", stop);
		return false;
	}
	json_object_set_new(more, "stop_at", json_string(stop));
	return true;
}

static bool add_guard(struct cli *c, json_t *more)
{
	int64_t first = 0, wait_ms = 0;

	if (!cli_opt_int(c, "first", 1, 1000000000, 0, &first) || !cli_opt_duration(c, "canary-wait", 0, &wait_ms))
		return false;
	if (first)
		json_object_set_new(more, "first", json_integer(first));
	if (cli_opt(c, "canary-wait")) {
		if (wait_ms < 1000 || wait_ms > CANARY_WAIT_MAX_MS) {
			cli_usage(c, "--canary-wait %s: from 1s to 7d", cli_opt(c, "canary-wait"));
			return false;
		}
		if (!first) {
			cli_usage(c, "--canary-wait goes with --first N: how many are put back before the wait");
			return false;
		}
		json_object_set_new(more, "canary_wait", json_string(cli_opt(c, "canary-wait")));
	}
	return add_rate(c, more) && add_stop(c, more);
}

/* ---- one ---- */

/* Adds the replacement body of --body. False: error printed, *rc set. */
static bool add_body(struct cli *c, json_t *o, int *rc)
{
	struct buf body = {0}, text = {0};
	struct dlq_err err = {0};
	bool ok = false;

	if (cli_read_file(cli_opt(c, "body"), &body, &err)) {
		*rc = cli_fail(&err);
	} else if (str_is_utf8(buf_str(&body))) {
		json_object_set_new(o, "body", json_stringn(body.n ? body.p : "", body.n));
		ok = true;
	} else {
		base64_encode(buf_str(&body), &text);
		json_object_set_new(o, "body_base64", json_stringn(text.p, text.n));
		ok = true;
	}
	buf_release(&body);
	buf_release(&text);
	return ok;
}

static int redrive_one(struct cli *c, struct client *cl, const char *id, const json_t *more)
{
	json_t *o = json_pack("{s:s}", "reason", cli_opt(c, "reason"));
	struct buf path = {0};
	int rc = 0;

	if (cli_opt(c, "body") && !add_body(c, o, &rc)) {
		json_decref(o);
		return rc;
	}
	json_object_update(o, (json_t *)(uintptr_t)more);
	buf_addz(&path, "/v1/dead-letters/");
	url_escape(&path, id);
	buf_addz(&path, "/redrive");
	buf_addc(&path, 0);
	rc = job_start(c, cl, path.p, o);
	buf_release(&path);
	return rc;
}

/* ---- the command ---- */

/* What goes into the request besides the selection. NULL: the usage error is printed. */
static json_t *request(struct cli *c)
{
	json_t *more = json_object(), *edit = NULL;
	const char *to = cli_opt(c, "to");
	int64_t ms;

	if (!add_guard(c, more) || !edit_options_read(c, &edit))
		goto fail;
	if (edit)
		json_object_set_new(more, "edit", edit);
	if (to && queue_name_check(str_of(to))) {
		cli_usage(c, time_parse(str_of(to), &ms) ? "--to %s: here it names the queue to put them into; --died-to TIME is the filter"
							  : "--to %s: a queue is wanted: " QUEUE_NAME_RULE, to);
		goto fail;
	}
	if (to)
		json_object_set_new(more, "to", json_string(to));
	if (cli_flag(c, "override"))
		json_object_set_new(more, "override", json_true());
	return more;
fail:
	json_decref(more);
	return NULL;
}

static int redrive(struct cli *c, struct client *cl, struct selection *s, const json_t *more)
{
	const struct job j = {.c = c, .cl = cl, .sel = s, .action = "redrive", .more = more};
	struct dlq_err err = {0};

	if (selection_resolve(c, cl, s, &err))
		return cli_fail(&err);
	if (s->ids.n == 1 && !guarded(c) && !cli_flag(c, "dry-run"))
		return redrive_one(c, cl, s->ids.list[0], more);
	return job_run(&j);
}

static int run(struct cli *c)
{
	struct selection s = {0};
	struct client *cl = NULL;
	json_t *more = NULL;
	int rc = EXIT_USAGE;

	if (!job_reason(c, "'fixed in 2.4.1'"))
		goto out;
	rc = selection_read(c, SELECT_IDS, &s);
	if (rc)
		goto out;
	rc = EXIT_USAGE;
	more = request(c);
	if (!more)
		goto out;
	if (cli_opt(c, "body") && (s.ids.n != 1 || guarded(c) || json_object_get(more, "edit"))) {
		cli_usage(c, "--body goes with exactly one dead letter, and without --jq, --set-header, --remove-header, --first, --rate and --stop-at");
		goto out;
	}
	if (s.ids.n > 1 && !cli_flag(c, "dry-run") && !confirm(c, s.ids.n, "redrive", &rc))
		goto out;
	cl = client_open(c, &rc);
	if (cl)
		rc = redrive(c, cl, &s, more);
out:
	client_free(cl);
	json_decref(more);
	selection_release(&s);
	return rc;
}

static const struct cli_option options[] = {
	{"first", "N", "put so many back, wait for their outcome, and go on only if it is good"},
	{"stop-at", "N|P%", "halt when N of them, or more than P percent, failed again"},
	{"rate", "N/s", "at most so many a second (N/s), minute (N/m) or hour (N/h) after the first"},
	{"canary-wait", "DURATION", "wait so long for the outcome of the first, then halt; default 10m"},
	EDIT_OPTIONS,
	{"body", "FILE", "put one back with this body instead; the original is kept; - is stdin"},
	{"to", "QUEUE", "put them into this queue instead of their own"},
	{"override", NULL, "also those that were redriven as often as the queue allows (max_redrives), and archived ones"},
	JOB_OPTIONS,
	SELECT_OPTIONS,
	{0},
};

const struct command cmd_redrive = {
	.name = "redrive",
	.synopsis = "DLQ_ID... --reason TEXT\nDLQ_ID --body FILE --reason TEXT\n"
		    "[--queue QUEUE] [--group GROUP] [FILTERS] --reason TEXT [--yes] [--dry-run]\n"
		    "--group GROUP --first N --stop-at P% --rate N/s --reason TEXT [--yes]\n"
		    "--group GROUP --jq PROGRAM --first N --reason TEXT [--yes]",
	.summary = "put dead letters back into their queue, edited if need be",
	.about = "Each goes back with the same message id, attempts at 0 and its history kept. Which ones\n"
		 "is fixed at the start: what dies while it runs is not taken up. It is a durable job on\n"
		 "the server: if this command is interrupted, it goes on; `dlq redrives` lists, pauses and\n"
		 "cancels them.\n"
		 "\n"
		 "With --first, --stop-at and --rate it guards itself: a few go first, and what becomes of\n"
		 "them in the worker decides about the rest. When too many fail again it halts and says\n"
		 "why; the others were not touched. --first alone halts if any of them fails again.\n"
		 "\n"
		 "With --jq, --set-header and --remove-header each message is edited on its way back; the\n"
		 "original is kept beside it. A message whose edit fails is skipped, never sent unedited.\n"
		 "Look first: `dlq edit` shows what such an edit would do, and changes nothing.\n"
		 "\n" SELECT_ABOUT
		 "\n"
		 "Above one message it shows the count and asks, or needs --yes. \"-\" reads ids from\n"
		 "stdin. Exit code 1: it halted, or some were skipped, because they were changed meanwhile\n"
		 "or their edit failed.",
	.examples =
		"dlq redrive 01JE2X5M8Q4Z6T9K3B7C1D0FGH --reason 'try one first' # one, to see whether the fix works\n"
		"dlq redrive --queue orders --reason 'worker fixed in 2.4.1' --yes # then the rest\n"
		"dlq redrive --group 3f2a9c --first 5 --rate 100/s --stop-at 10% --reason 'fixed in 2.4.1' # one cause, carefully\n"
		"dlq edit --group 3f2a9c --jq '.sku |= gsub(\"%2F\"; \"/\")' # what would this repair do? Changes nothing\n"
		"dlq redrive --group 3f2a9c --jq '.sku |= gsub(\"%2F\"; \"/\")' --first 5 --reason 'SKU decoded' # do it, a few first\n"
		"dlq redrive --queue orders --where '.body.country == \"NO\"' --to orders-no --reason 'other warehouse' # into another queue\n"
		"dlq redrive 01JE2X5M8Q4Z6T9K3B7C1D0FGH --body fixed.json --reason 'repaired' # by hand; or dlq edit\n"
		"dlq list orders --error-type EncodeError | cut -f1 | dlq redrive - --reason 'fixed' --yes # what a pipe names",
	.options = options,
	.client = true,
	.run = run,
};
