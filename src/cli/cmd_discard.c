#include <stdio.h>

#include "cli/client.h"
#include "cli/ids.h"

static int discard(struct cli *c, struct client *cl, const struct ids *ids)
{
	int done, rc = ids_post(c, cl, ids, "discard", "discarded", &done);

	if (!c->json && !rc)
		fprintf(stderr, "discarded %d; the record of it stays: dlq list --state discarded\n", done);
	return rc;
}

static int run(struct cli *c)
{
	const char *reason = cli_opt(c, "reason");
	struct ids ids = {0};
	struct client *cl = NULL;
	int rc = 0;

	if (!reason || !*reason)
		return cli_usage(c, "--reason is needed: say for the audit log why these may be dropped");
	if (!ids_read(c, &ids, &rc))
		goto out;
	if (cli_flag(c, "dry-run")) {
		if (c->json)
			printf("{\"dry_run\":true,\"total\":%d}\n", ids.n);
		else
			printf("%d dead letter%s would be discarded\n", ids.n, ids.n == 1 ? "" : "s");
		goto out;
	}
	if (!confirm(c, ids.n, "discard", &rc))
		goto out;
	cl = client_open(c, &rc);
	if (cl)
		rc = discard(c, cl, &ids);
out:
	client_free(cl);
	ids_release(&ids);
	return rc;
}

static const struct cli_option options[] = {
	{"reason", "TEXT", "why; goes to the audit log; needed"},
	{"yes", NULL, "do not ask"},
	{"dry-run", NULL, "only say how many it would be"},
	{0},
};

const struct command cmd_discard = {
	.name = "discard",
	.synopsis = "DLQ_ID... --reason TEXT [--yes]",
	.summary = "drop dead letters for good; the record stays",
	.about = "A discarded message is never delivered again. Its record, history and who discarded it\n"
		 "why stay until retention is over. Above one message it shows the count and asks, or\n"
		 "needs --yes. \"-\" reads ids from stdin.",
	.examples =
		"dlq discard 01JE2X5M8Q4Z6T9K3B7C1D0FGH --reason 'test order' # one\n"
		"dlq list orders --key test --limit 1000 | cut -f1 | dlq discard - --reason 'test orders' --yes # many",
	.options = options,
	.client = true,
	.run = run,
};
