/* cmd_completion.c - what other programs read: bash completion and man pages, made from the table of commands. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

static void add_options(struct buf *out, const struct cli_option *list)
{
	for (; list && list->name; list++)
		if (list->name[0])
			buf_addf(out, " --%s", list->name);
}

static void add_files(struct buf *out, const struct command *command, const struct cli_option *list)
{
	for (; list && list->name; list++)
		if (list->value && (!strcmp(list->value, "FILE") || !strcmp(list->value, "DIR"))) {
			buf_addf(out, "|--%s", list->name);
			if (command->letter && !strcmp(command->letter_of, list->name))
				buf_addf(out, "|-%c", command->letter);
		}
}

static void bash_command(struct buf *out, const struct command *command)
{
	buf_addf(out, "\t%s)\n\t\topts=\"", command->name);
	size_t at = out->n;
	add_options(out, command->options);
	if (command->client)
		add_options(out, cli_client_options);
	add_options(out, cli_common_options);
	memmove(out->p + at, out->p + at + 1, out->n - at - 1); /* the first blank */
	out->n--;
	buf_addz(out, "\"\n");
	buf_addz(out, "\t\twords=\"");
	for (int i = 0; command->words && command->words[i]; i++)
		buf_addf(out, "%s%s", i ? " " : "", command->words[i]);
	buf_addz(out, "\"\n\t\tfiles=\"-");
	add_files(out, command, command->options);
	if (command->client)
		add_files(out, command, cli_client_options);
	buf_addz(out, "\"\n\t\t;;\n");
}

static void bash(struct buf *out)
{
	buf_addz(out,
		 "# bash completion for dlq. Made by `dlq completion bash`.\n"
		 "_dlq()\n{\n"
		 "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} opts words files commands\n"
		 "\tcommands=\"");
	for (int i = 0; cli_commands[i]; i++)
		buf_addf(out, "%s%s", i ? " " : "", cli_commands[i]->name);
	buf_addz(out, "\"\n\tCOMPREPLY=()\n"
		      "\tif [ \"$COMP_CWORD\" -eq 1 ]; then\n"
		      "\t\tCOMPREPLY=($(compgen -W \"$commands --help --version\" -- \"$cur\"))\n\t\treturn\n\tfi\n"
		      "\tcase ${COMP_WORDS[1]} in\n");
	for (int i = 0; cli_commands[i]; i++)
		bash_command(out, cli_commands[i]);
	buf_addz(out, "\t*) return ;;\n\tesac\n"
		      "\t[ \"${COMP_WORDS[1]}\" = help ] && words=$commands\n"
		      "\tcase \"|$files|\" in\n"
		      "\t*\"|$prev|\"*) COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n\tesac\n"
		      "\tcase $cur in\n"
		      "\t-*) COMPREPLY=($(compgen -W \"$opts\" -- \"$cur\")) ;;\n"
		      "\t*) if [ \"$COMP_CWORD\" -eq 2 ] && [ -n \"$words\" ]; then\n"
		      "\t\t\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
		      "\t\telse\n"
		      "\t\t\tCOMPREPLY=($(compgen -f -- \"$cur\"))\n"
		      "\t\tfi ;;\n\tesac\n}\n"
		      "complete -o filenames -F _dlq dlq\n");
}

static int run(struct cli *c)
{
	struct buf out = {0};
	int rc = 0;

	if (c->n_args == 1 && !strcmp(c->args[0], "bash")) {
		bash(&out);
	} else if (c->n_args >= 1 && c->n_args <= 2 && !strcmp(c->args[0], "man")) {
		const struct command *command = c->n_args == 2 ? cli_find(c->args[1]) : NULL;

		if (c->n_args == 2 && !command)
			rc = cli_usage(c, "there is no command `%s`", c->args[1]);
		else
			cli_man(command, &out);
	} else if (c->n_args == 1 && !strcmp(c->args[0], "commands")) {
		for (int i = 0; cli_commands[i]; i++)
			buf_addf(&out, "%s\n", cli_commands[i]->name);
	} else {
		rc = cli_usage(c, "bash, man or commands is wanted");
	}
	fwrite(out.n ? out.p : "", 1, out.n, stdout);
	buf_release(&out);
	return rc;
}

static const char *const words[] = {"bash", "man", "commands", NULL};

const struct command cmd_completion = {
	.name = "completion",
	.synopsis = "bash\nman [COMMAND]\ncommands",
	.summary = "print the completion for bash, a man page, or the names of all commands",
	.examples = ". <(dlq completion bash) # in this shell\n"
		    "dlq completion man serve | man -l - # the page of `dlq serve`",
	.words = words,
	.run = run,
};
