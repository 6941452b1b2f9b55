#include "cli/job.h"

static int run(struct cli *c)
{
	return job_command(c, "discard", "discarded", "the record of it stays: dlq list --state discarded", "'test orders'");
}

static const struct cli_option options[] = {
	JOB_OPTIONS,
	SELECT_OPTIONS,
	{0},
};

const struct command cmd_discard = {
	.name = "discard",
	.synopsis = "DLQ_ID... --reason TEXT [--yes]\n[--queue QUEUE] [--group GROUP] [FILTERS] --reason TEXT [--yes] [--dry-run]",
	.summary = "drop dead letters for good; the record stays",
	.about = "A discarded message is never delivered again. Its record, history and who discarded it\n"
		 "why stay until retention is over, and `dlq restore` takes it back until then. Above one\n"
		 "message it shows the count and asks, or needs --yes. \"-\" reads ids from stdin.\n"
		 "\n"
		 "More than one is a job on the server, as a redrive is: it goes on when this command is\n"
		 "interrupted, `dlq redrives` shows it, and `dlq restore --undo` takes all of it back.\n"
		 "\n" SELECT_ABOUT,
	.examples = "dlq discard 01JE2X5M8Q4Z6T9K3B7C1D0FGH --reason 'test order' # one\n"
		    "dlq discard --queue orders --header env=test --dry-run # how many would it be?\n"
		    "dlq discard --queue orders --header env=test --reason 'test orders' # count, question, then do it\n"
		    "dlq discard --queue orders --where '.body.total == 0' --reason 'nothing to ship' --yes # by what the bodies say\n"
		    "dlq restore --undo 01JE2X7Q2M5V8R1T4W6Y9B3DFH --reason 'wrong filter' # all of that job back",
	.options = options,
	.client = true,
	.run = run,
};
