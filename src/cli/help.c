/* help.c - the texts made from the table of subcommands: help on the terminal and man pages (mdoc). */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/term.h"

static const char exit_text[] =
	"0\tall went well\n"
	"1\tit ran, but not all of it succeeded (refused lines, failed edits, skipped dead letters, a halt, an answer of no, Ctrl-C, "
	"no message came, an account that does not balance)\n"
	"2\tthe command, an option, a name or a setting is not valid; too large\n"
	"3\tthere is no such queue, message, dead letter or file\n"
	"4\tno valid token, or the token does not allow this\n"
	"5\tthe state does not allow this (conflict, in another redrive, receipt gone)\n"
	"6\ttry again later: queue full, server busy or stopping, unreachable, too slow\n"
	"7\tthe store or the operating system failed; on start: store locked, damaged or newer, address in use\n"
	"70\ta fault in dlq itself\n";

static const char env_text[] = "DLQ_URL\tthe server that commands talk to\n"
			       "DLQ_TOKEN\tthe token they use; else the local server's admin.token\n"
			       "DLQ_DATA\tdata folder of the local server, default ./dlq-data\n"
			       "DLQ_CACERT\tfile with the certificates to trust, for https\n"
			       "NO_COLOR\twhen set, no colours\n";

/* The short name of an option of the command, 0 if it has none. */
static char letter_of(const struct command *command, const struct cli_option *o)
{
	return command && command->letter && !strcmp(command->letter_of, o->name) ? command->letter : 0;
}

static void print_options(const struct command *command, const struct cli_option *list)
{
	for (; list && list->name; list++) {
		char left[64], letter = letter_of(command, list);

		if (!list->name[0]) {
			printf("\n%s%s:%s\n", term_bold(), list->help, term_reset());
			continue;
		}
		snprintf(left, sizeof(left), "--%s%s%.1s%s%s", list->name, letter ? ", -" : "", &letter, list->value ? " " : "",
			 list->value ? list->value : "");
		printf("  %-31s %s\n", left, list->help);
	}
}

static bool has_headings(const struct command *command)
{
	for (const struct cli_option *o = command->options; o && o->name; o++)
		if (!o->name[0])
			return true;
	return false;
}

static void help_all(void)
{
	printf("dlq keeps one bad message from stopping the others, and keeps the bad one from getting lost.\n\n");
	printf("%sUsage:%s dlq COMMAND [OPTIONS]\n\n", term_bold(), term_reset());
	for (int i = 0; cli_commands[i]; i++)
		printf("  %s%-11s%s %s\n", term_bold(), cli_commands[i]->name, term_reset(), cli_commands[i]->summary);
	printf("\n`dlq help COMMAND` explains one. New here? `dlq demo --standalone` shows it all in half a minute.\n");
}

/* Calls line for every line of text. */
static void each_line(const char *text, void (*line)(struct str s, void *arg), void *arg)
{
	while (text && *text) {
		size_t n = strcspn(text, "\n");

		line((struct str){text, n}, arg);
		text += n + (text[n] == '\n');
	}
}

static void print_synopsis(struct str s, void *arg)
{
	printf("  dlq %s " STR_FMT "\n", (const char *)arg, STR_ARG(s));
}

static void print_indented(struct str s, void *arg)
{
	(void)arg;
	printf("%s" STR_FMT "\n", s.n ? "  " : "", STR_ARG(s));
}

static void print_example(struct str s, void *arg)
{
	const char *hash = memmem(s.p, s.n, " # ", 3);
	size_t n = hash ? (size_t)(hash - s.p) : s.n;

	(void)arg;
	if (hash)
		printf("  %s# %.*s%s\n", term_dim(), (int)(s.n - n - 3), hash + 3, term_reset());
	printf("  %.*s\n", (int)n, s.p);
}

void cli_help(const struct command *command)
{
	if (!command) {
		help_all();
		return;
	}
	printf("%sdlq %s%s - %s\n\n", term_bold(), command->name, term_reset(), command->summary);
	printf("%sUsage:%s\n", term_bold(), term_reset());
	each_line(command->synopsis && command->synopsis[0] ? command->synopsis : "\n", print_synopsis,
		  (void *)command->name);
	if (command->about) {
		printf("\n");
		each_line(command->about, print_indented, NULL);
	}
	printf("\n%sOptions:%s\n", term_bold(), term_reset());
	print_options(command, command->options);
	if (has_headings(command))
		printf("\n%sAs everywhere:%s\n", term_bold(), term_reset());
	if (command->client)
		print_options(NULL, cli_client_options);
	print_options(NULL, cli_common_options);
	if (command->examples) {
		printf("\n%sExamples:%s\n", term_bold(), term_reset());
		each_line(command->examples, print_example, NULL);
	}
}

/* ---- mdoc ---- */

/* Text that roff must not read as a request or an escape. */
static void man_text(struct buf *out, struct str s)
{
	bool start = true;

	for (size_t i = 0; i < s.n; i++) {
		char ch = s.p[i];

		if (start && (ch == '.' || ch == '\''))
			buf_addz(out, "\\&");
		start = ch == '\n';
		if (ch == '\\')
			buf_addz(out, "\\e");
		else if (ch == '-')
			buf_addz(out, "\\-");
		else if (ch == '`')
			buf_addz(out, "\\(ga");
		else
			buf_addc(out, ch);
	}
}

#define MAN_WIDTH 76

/* Running text: mdoc wants every sentence on a line of its own, and short lines. */
static void man_line(struct buf *out, struct str s)
{
	size_t from = 0, blank = 0;

	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] != ' ')
			continue;
		bool sentence = i && i + 1 < s.n && (s.p[i - 1] == '.' || s.p[i - 1] == '?') &&
				(s.p[i + 1] == '"' || (s.p[i + 1] >= 'A' && s.p[i + 1] <= 'Z'));
		if (blank > from && i - from > MAN_WIDTH - 12) {
			man_text(out, (struct str){s.p + from, blank - from});
			buf_addc(out, '\n');
			from = blank + 1;
		}
		blank = i;
		if (sentence) {
			man_text(out, (struct str){s.p + from, i - from});
			buf_addc(out, '\n');
			from = i + 1;
		}
	}
	man_text(out, (struct str){s.p + from, s.n - from});
	buf_addc(out, '\n');
}

/* An argument of a macro stays on its line. */
static void man_argument(struct buf *out, struct str s)
{
	man_text(out, s);
	buf_addc(out, '\n');
}

static void man_paragraph_line(struct str s, void *arg)
{
	struct buf *out = arg;

	if (!s.n)
		buf_addz(out, ".Pp\n");
	else
		man_line(out, s);
}

static void man_synopsis_line(struct str s, void *arg)
{
	struct buf *out = arg;

	buf_addz(out, ".Nm\n");
	if (s.n)
		man_line(out, s);
}

static void man_options(struct buf *out, const struct command *command, const struct cli_option *list)
{
	for (; list && list->name; list++) {
		if (!list->name[0]) {
			buf_addf(out, ".El\n.Pp\n%s:\n.Bl -tag -width Ds\n", list->help);
			continue;
		}
		buf_addf(out, ".It Fl \\-%s", list->name);
		if (letter_of(command, list))
			buf_addf(out, " , Fl %c", letter_of(command, list));
		if (list->value) {
			buf_addz(out, " Ar ");
			man_text(out, str_of(list->value));
		}
		buf_addc(out, '\n');
		man_line(out, str_of(list->help));
	}
}

static void man_pair(struct str s, void *arg)
{
	struct buf *out = arg;
	const char *tab = memchr(s.p, '\t', s.n);
	size_t n = tab ? (size_t)(tab - s.p) : s.n;

	buf_addf(out, ".It %.*s\n", (int)n, s.p);
	man_line(out, (struct str){s.p + n + 1, s.n - n - 1});
}

static void man_example(struct str s, void *arg)
{
	struct buf *out = arg;
	const char *hash = memmem(s.p, s.n, " # ", 3);
	size_t n = hash ? (size_t)(hash - s.p) : s.n;

	if (hash)
		man_line(out, (struct str){hash + 3, s.n - n - 3});
	buf_addz(out, ".Dl ");
	man_argument(out, (struct str){s.p, n});
}

static void man_list(struct buf *out, const char *title, const char *text)
{
	buf_addf(out, ".Sh %s\n.Bl -tag -width Ds\n", title);
	each_line(text, man_pair, out);
	buf_addz(out, ".El\n");
}

static void man_head(struct buf *out, const char *name, const char *summary)
{
	char upper[64];
	size_t i;

	for (i = 0; name[i] && i + 1 < sizeof(upper); i++)
		upper[i] = name[i] >= 'a' && name[i] <= 'z' ? (char)(name[i] - 32) : name[i];
	upper[i] = 0;
	buf_addf(out, ".\\\" Made by `dlq completion man`; change the table of the command instead.\n");
	buf_addf(out, ".Dd December 1, 2026\n.Dt %s 1\n.Os\n.Sh NAME\n.Nm %s\n.Nd ", upper, name);
	man_argument(out, str_of(summary));
}

static void man_dlq(struct buf *out)
{
	man_head(out, "dlq", "dead letter queue: retries, quarantine with evidence, redrive with an account");
	buf_addz(out, ".Sh SYNOPSIS\n.Nm\n.Ar command\n.Op Ar options\n.Sh DESCRIPTION\n"
		      ".Nm\nkeeps one bad message from stopping the others,\nand keeps the bad one from getting lost.\n"
		      "It retries what may heal, quarantines what will not together with the evidence,\n"
		      "and puts messages back on purpose, with an account of every single one.\n.Pp\n"
		      "Each command has a page of its own, such as\n.Xr dlq\\-serve 1 .\n.Sh COMMANDS\n"
		      ".Bl -tag -width completion\n");
	for (int i = 0; cli_commands[i]; i++) {
		buf_addf(out, ".It Cm %s\n", cli_commands[i]->name);
		man_line(out, str_of(cli_commands[i]->summary));
	}
	buf_addz(
		out,
		".El\n.Sh OPTIONS\nEvery command takes these, and those that talk to a server take\n"
		".Fl \\-url\nand\n.Fl \\-data .\n"
		".Bl -tag -width Ds\n");
	man_options(out, NULL, cli_common_options);
	man_options(out, NULL, cli_client_options);
	buf_addz(out, ".El\n");
	man_list(out, "ENVIRONMENT", env_text);
	man_list(out, "EXIT STATUS", exit_text);
}

void cli_man(const struct command *command, struct buf *out)
{
	char name[64];

	if (!command) {
		man_dlq(out);
		return;
	}
	snprintf(name, sizeof(name), "dlq-%s", command->name);
	man_head(out, name, command->summary);
	buf_addz(out, ".Sh SYNOPSIS\n");
	each_line(command->synopsis && command->synopsis[0] ? command->synopsis : "\n", man_synopsis_line, out);
	buf_addz(out, ".Sh DESCRIPTION\n");
	each_line(command->about ? command->about : command->summary, man_paragraph_line, out);
	buf_addz(out, ".Pp\nThe options are:\n.Bl -tag -width Ds\n");
	man_options(out, command, command->options);
	if (has_headings(command))
		buf_addz(out, ".El\n.Pp\nAs everywhere:\n.Bl -tag -width Ds\n");
	if (command->client)
		man_options(out, NULL, cli_client_options);
	man_options(out, NULL, cli_common_options);
	buf_addz(out, ".El\n");
	man_list(out, "EXIT STATUS", exit_text);
	if (command->examples) {
		buf_addz(out, ".Sh EXAMPLES\n");
		each_line(command->examples, man_example, out);
	}
	buf_addz(out, ".Sh SEE ALSO\n.Xr dlq 1\n");
}

/* ---- dlq help ---- */

static int run(struct cli *c)
{
	if (!c->n_args) {
		cli_help(NULL);
		return 0;
	}
	const struct command *command = cli_find(c->args[0]);
	if (!command) {
		const char *names[64];
		size_t n = 0;

		for (; cli_commands[n] && n < ARRAY_LEN(names); n++)
			names[n] = cli_commands[n]->name;
		const char *near = str_nearest(str_of(c->args[0]), names, n);
		return cli_usage(c, "there is no command `%s`%s%s%s", c->args[0],
				 near ? "; did you mean `dlq help " : "", near ? near : "", near ? "`?" : "");
	}
	cli_help(command);
	return 0;
}

const struct command cmd_help = {
	.name = "help",
	.synopsis = "[COMMAND]",
	.summary = "explain a command, with examples",
	.examples = "dlq help redrive # how to put dead letters back",
	.run = run,
};
