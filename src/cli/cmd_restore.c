#include <stdio.h>

#include "cli/client.h"
#include "cli/ids.h"

static int restore(struct cli *c, struct client *cl, const struct ids *ids)
{
	int done, rc = ids_post(c, cl, ids, "restore", "restored", &done);

	if (!c->json && !rc)
		fprintf(stderr, "%d dead again; dlq redrive puts %s back\n", done, done == 1 ? "it" : "them");
	return rc;
}

static int run(struct cli *c)
{
	const char *reason = cli_opt(c, "reason");
	struct ids ids = {0};
	struct client *cl = NULL;
	int rc = 0;

	if (!reason || !*reason)
		return cli_usage(c, "--reason is needed: say for the audit log why these are wanted back");
	if (ids_read(c, &ids, &rc) && confirm(c, ids.n, "restore", &rc)) {
		cl = client_open(c, &rc);
		if (cl)
			rc = restore(c, cl, &ids);
	}
	client_free(cl);
	ids_release(&ids);
	return rc;
}

static const struct cli_option options[] = {
	{"reason", "TEXT", "why; goes to the audit log; needed"},
	{"yes", NULL, "do not ask"},
	{0},
};

const struct command cmd_restore = {
	.name = "restore",
	.synopsis = "DLQ_ID... --reason TEXT [--yes]",
	.summary = "take a discard back: dead again, until retention is over",
	.about = "For what was discarded by mistake. The message is a dead letter again, with its body and\n"
		 "history, and can be redriven. \"-\" reads ids from stdin.",
	.examples =
		"dlq restore 01JE2X5M8Q4Z6T9K3B7C1D0FGH --reason 'was no test order' # one\n"
		"dlq list orders --state discarded | cut -f1 | dlq restore - --reason 'wrong filter' --yes # many",
	.options = options,
	.client = true,
	.run = run,
};
