/*
 * cli.h - the command line: one table of subcommands, from which parsing, help, completion and the man pages come.
 *
 * A subcommand lives in its own file cmd_NAME.c and exports one const struct command. Results go to stdout, talk to
 * stderr. The exit code is 0, 1 (it ran, but not all of it succeeded), or the code of the error's row in dlq/error.h.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "base/base.h"

#define EXIT_PARTIAL 1
#define EXIT_USAGE 2

struct cli_option {
	const char *name;  /* without the hyphens; "": no option, but a heading (help) over those that follow */
	const char *value; /* what the value is called, such as "FILE"; NULL: the option takes none */
	const char *help;
};

struct cli;
struct command {
	const char *name;
	const char *synopsis;             /* what follows the name; one form a line */
	const char *summary;              /* one line */
	const char *about;                /* paragraphs with a blank line between them */
	const char *examples;             /* one a line: "command # what it does" */
	const struct cli_option *options; /* ended by an empty one; NULL: none of its own */
	char letter;                      /* a short name, such as 'o' for -o, 0: none; */
	const char *letter_of;            /* of this option */
	const char *const *words;         /* the choices of its first argument, ended by NULL; NULL: free */
	bool client;                      /* talks to a server: takes the options of cli_client_options */
	bool tail;                        /* "--" starts a command line of its own */
	int (*run)(struct cli *c);        /* the exit code */
};

/* One invocation, parsed. Text is borrowed from argv. */
struct cli {
	const struct command *command;
	const char **args; /* without options */
	int n_args;
	char **tail;       /* after "--", ended by NULL; only for commands with `tail` */
	int n_tail;
	struct cli_given {
		const char *name, *value;
	} *given;          /* options in the order given */
	int n_given;
	bool json;         /* --json */
};

extern const struct command *const cli_commands[]; /* ended by NULL */
extern const struct cli_option cli_client_options[], cli_common_options[];

int cli_main(int argc, char **argv);
const struct command *cli_find(const char *name); /* NULL if there is none */

const char *cli_opt(const struct cli *c, const char *name); /* the last value given, or NULL */
bool cli_flag(const struct cli *c, const char *name);
/* Every value of a repeatable option: *at starts at 0. NULL after the last. */
const char *cli_opt_next(const struct cli *c, const char *name, int *at);
/* The value as a whole number in [min, max], or fallback when absent. False: not one; the usage error is printed. */
bool cli_opt_int(const struct cli *c, const char *name, int64_t min, int64_t max, int64_t fallback, int64_t *out);
bool cli_opt_duration(const struct cli *c, const char *name, int64_t fallback_ms, int64_t *out_ms);

/* Prints "dlq COMMAND: ..." and where help is; gives EXIT_USAGE. */
int cli_usage(const struct cli *c, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Prints "dlq: code: detail"; gives the exit code of err->code. */
int cli_fail(const struct dlq_err *err);
/* The whole of a file, "-" for stdin, into out (up to out->max). */
enum dlq_code cli_read_file(const char *path, struct buf *out, struct dlq_err *err) MUST_USE;

void cli_help(const struct command *command); /* to stdout */
void cli_man(const struct command *command, struct buf *out); /* mdoc; NULL: the page of dlq itself */

#endif
