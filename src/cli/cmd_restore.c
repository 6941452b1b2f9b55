#include "cli/job.h"

static int run(struct cli *c)
{
	return job_command(c, "restore", "is dead again", "dlq redrive puts it back", "'was no test order'");
}

static const struct cli_option options[] = {
	{"undo", "REDRIVE_ID", "all that this discard or archive job did"},
	JOB_OPTIONS,
	SELECT_OPTIONS,
	{0},
};

const struct command cmd_restore = {
	.name = "restore",
	.synopsis = "DLQ_ID... --reason TEXT [--yes]\n--undo REDRIVE_ID --reason TEXT [--yes]\n"
		    "[--queue QUEUE] [--group GROUP] [FILTERS] --reason TEXT [--yes] [--dry-run]",
	.summary = "take a discard or an archive back: dead again, until retention is over",
	.about = "For what was discarded, or given up to the archive, by mistake. The message is a dead\n"
		 "letter again, with its body and history, and can be redriven. \"-\" reads ids from stdin.\n"
		 "What has reached the end of its retention is in the archive's files alone: `dlq import`.\n"
		 "\n" SELECT_ABOUT,
	.examples = "dlq restore 01JE2X5M8Q4Z6T9K3B7C1D0FGH --reason 'was no test order' # one\n"
		    "dlq restore --undo 01JE2X7Q2M5V8R1T4W6Y9B3DFH --reason 'wrong filter' # what one job discarded\n"
		    "dlq list orders --state discarded | cut -f1 | dlq restore - --reason 'wrong filter' --yes # these",
	.options = options,
	.client = true,
	.run = run,
};
