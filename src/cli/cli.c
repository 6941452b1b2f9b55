/* cli.c - the table of subcommands and the reading of a command line. */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/term.h"

extern const struct command cmd_serve, cmd_send, cmd_receive, cmd_work, cmd_queues, cmd_list, cmd_show, cmd_redrive,
	cmd_edit, cmd_redrives, cmd_groups, cmd_discard, cmd_restore, cmd_archive, cmd_export, cmd_import, cmd_audit, cmd_token,
	cmd_config, cmd_demo, cmd_version, cmd_help, cmd_completion;

const struct command *const cli_commands[] = {
	&cmd_serve,   &cmd_demo,    &cmd_send,   &cmd_receive, &cmd_work,    &cmd_queues, &cmd_groups,  &cmd_list,       &cmd_show,
	&cmd_edit,    &cmd_redrive, &cmd_redrives, &cmd_discard, &cmd_archive, &cmd_restore, &cmd_export, &cmd_import,     &cmd_audit,
	&cmd_token,   &cmd_config,  &cmd_version, &cmd_help,   &cmd_completion, NULL,
};

const struct cli_option cli_client_options[] = {
	{"url", "URL", "the server (default: DLQ_URL, else the local server's DIR/server.url)"},
	{"data", "DIR",
	 "data folder of a local server, for its address and admin.token (default: DLQ_DATA or ./dlq-data)"},
	{0},
};
const struct cli_option cli_common_options[] = {
	{"json", NULL, "write JSON, one document a line"},
	{"help", NULL, "show this help"},
	{0},
};

const struct command *cli_find(const char *name)
{
	for (int i = 0; cli_commands[i]; i++)
		if (!strcmp(cli_commands[i]->name, name))
			return cli_commands[i];
	return NULL;
}

/* ---- options ---- */

const char *cli_opt(const struct cli *c, const char *name)
{
	const char *value = NULL;

	for (int i = 0; i < c->n_given; i++)
		if (!strcmp(c->given[i].name, name))
			value = c->given[i].value;
	return value;
}

bool cli_flag(const struct cli *c, const char *name)
{
	for (int i = 0; i < c->n_given; i++)
		if (!strcmp(c->given[i].name, name))
			return true;
	return false;
}

const char *cli_opt_next(const struct cli *c, const char *name, int *at)
{
	while (*at < c->n_given) {
		const struct cli_given *g = &c->given[(*at)++];

		if (!strcmp(g->name, name))
			return g->value;
	}
	return NULL;
}

bool cli_opt_int(const struct cli *c, const char *name, int64_t min, int64_t max, int64_t fallback, int64_t *out)
{
	const char *value = cli_opt(c, name);
	char *end;

	*out = fallback;
	if (!value)
		return true;
	errno = 0;
	long long v = strtoll(value, &end, 10);
	if (errno || end == value || *end || v < min || v > max) {
		cli_usage(c, "--%s %s: a whole number from %lld to %lld is wanted", name, value, (long long)min,
			  (long long)max);
		return false;
	}
	*out = v;
	return true;
}

bool cli_opt_duration(const struct cli *c, const char *name, int64_t fallback_ms, int64_t *out_ms)
{
	const char *value = cli_opt(c, name);

	*out_ms = fallback_ms;
	if (!value || duration_parse(str_of(value), out_ms))
		return true;
	cli_usage(c, "--%s %s: %s", name, value, DURATION_RULE);
	return false;
}

int cli_usage(const struct cli *c, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "dlq %s: ", c->command->name);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\nSee `dlq help %s`.\n", c->command->name);
	return EXIT_USAGE;
}

int cli_fail(const struct dlq_err *err)
{
	char safe[1200];

	text_safe(str_of(err->detail), safe, sizeof(safe));
	fprintf(stderr, "dlq: %s: %s\n", code_name(err->code), safe);
	return code_exit(err->code);
}

static const struct cli_option *option_find(const struct cli_option *list, struct str name)
{
	for (; list && list->name; list++)
		if (name.n && str_eqz(name, list->name))
			return list;
	return NULL;
}

static const struct cli_option *option_of(const struct command *command, struct str name)
{
	const struct cli_option *o = option_find(command->options, name);

	if (!o && command->client)
		o = option_find(cli_client_options, name);
	return o ? o : option_find(cli_common_options, name);
}

static int option_unknown(const struct cli *c, struct str name)
{
	const char *names[64];
	size_t n = 0;

	for (const struct cli_option *o = c->command->options; o && o->name && n < ARRAY_LEN(names); o++)
		if (o->name[0])
			names[n++] = o->name;
	for (const struct cli_option *o = cli_client_options; c->command->client && o->name && n < ARRAY_LEN(names);
	     o++)
		names[n++] = o->name;
	for (const struct cli_option *o = cli_common_options; o->name && n < ARRAY_LEN(names); o++)
		names[n++] = o->name;
	const char *near = str_nearest(name, names, n);
	if (near)
		return cli_usage(c, "unknown option --" STR_FMT "; did you mean --%s?", STR_ARG(name), near);
	return cli_usage(c, "unknown option --" STR_FMT, STR_ARG(name));
}

/* The option of "-o", or NULL. */
static const struct cli_option *option_letter(const struct command *command, const char *text)
{
	return command->letter && command->letter == text[0] && !text[1] ? option_find(command->options, str_of(command->letter_of)) : NULL;
}

/* Reads one "--name", "--name=value", "--name value" or "-o value" at argv[*i]. 0 or the exit code. */
static int option_read(struct cli *c, int argc, char **argv, int *i)
{
	bool word = argv[*i][1] == '-';
	const char *text = argv[*i] + 1 + word;
	const char *equals = word ? strchr(text, '=') : NULL;
	struct str name = {text, equals ? (size_t)(equals - text) : strlen(text)};
	const struct cli_option *o = word ? option_of(c->command, name) : option_letter(c->command, text);

	if (!o && !word)
		return cli_usage(c, "unknown option %s; options are words such as --help", argv[*i]);
	if (!o)
		return option_unknown(c, name);
	struct cli_given *g = &c->given[c->n_given++];
	g->name = o->name;
	if (!o->value) {
		if (equals)
			return cli_usage(c, "--%s takes no value", o->name);
		g->value = "";
	} else if (equals) {
		g->value = equals + 1;
	} else if (*i + 1 < argc) {
		g->value = argv[++*i];
	} else {
		return cli_usage(c, "--%s needs a value: --%s %s", o->name, o->name, o->value);
	}
	/* JSON cannot carry it: the option would be left out, and a token without its --queue is for all queues. */
	if (o->value && strcmp(o->value, "FILE") && strcmp(o->value, "DIR") && !str_is_utf8(str_of(g->value)))
		return cli_usage(c, "--%s: UTF-8 text is wanted", o->name);
	return 0;
}

/* argv[0] is the first word after the subcommand. 0 or the exit code. */
static int parse(struct cli *c, int argc, char **argv)
{
	bool options = true;

	c->args = mem_array((size_t)argc + 1, sizeof(*c->args));
	c->given = mem_array((size_t)argc + 1, sizeof(*c->given));
	for (int i = 0; i < argc; i++) {
		const char *a = argv[i];

		if (options && !strcmp(a, "--")) {
			if (c->command->tail) {
				c->tail = argv + i + 1;
				c->n_tail = argc - i - 1;
				break;
			}
			options = false;
		} else if (options && !strcmp(a, "-h")) {
			c->given[c->n_given++] = (struct cli_given){"help", ""};
		} else if (options && a[0] == '-' && a[1]) {
			int rc = option_read(c, argc, argv, &i);

			if (rc)
				return rc;
		} else {
			c->args[c->n_args++] = a;
		}
	}
	c->json = cli_flag(c, "json");
	return 0;
}

static int command_unknown(const char *word)
{
	const char *names[64];
	size_t n = 0;

	for (; cli_commands[n] && n < ARRAY_LEN(names); n++)
		names[n] = cli_commands[n]->name;
	const char *near = str_nearest(str_of(word), names, n);
	fprintf(stderr, "dlq: there is no command `%s`", word);
	if (near)
		fprintf(stderr, "; did you mean `dlq %s`?\n", near);
	else
		fprintf(stderr, ".\nSee `dlq help` for all of them.\n");
	return EXIT_USAGE;
}

enum dlq_code cli_read_file(const char *path, struct buf *out, struct dlq_err *err)
{
	int fd = STDIN_FILENO;
	ssize_t n;

	if (strcmp(path, "-")) {
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return err_set(err, errno == ENOENT ? DLQ_NOT_FOUND : DLQ_SYSTEM, "cannot open %s: %s", path,
				       strerror(errno));
	}
	char chunk[16384];
	while ((n = read(fd, chunk, sizeof(chunk))) > 0 || (n < 0 && errno == EINTR)) {
		buf_add(out, chunk, n > 0 ? (size_t)n : 0);
		if (out->overflow) {
			n = -1;
			errno = EFBIG;
			break;
		}
	}
	int failed = n < 0 ? errno : 0;
	if (fd != STDIN_FILENO)
		close(fd);
	if (failed)
		return err_set(err, failed == EFBIG ? DLQ_TOO_LARGE : DLQ_SYSTEM, "cannot read %s: %s", path,
			       strerror(failed));
	return DLQ_OK;
}

/* A result that did not reach its reader is no result; a reader who closed the pipe had enough. */
static bool output_lost(void)
{
	struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};
	bool earlier = ferror(stdout);

	if (fflush(stdout))
		return errno != EPIPE;
	if (!earlier || (poll(&p, 1, 0) > 0 && p.revents & POLLERR))
		return false;
	errno = EIO; /* that of the write which failed is gone */
	return true;
}

/*
 * A stdin, stdout or stderr that is closed must not be the number of the next file or socket: what is written there would go
 * into it. The lowest free number is taken. A command's result that reaches nobody is still an error; a server may be started without all three.
 */
static void hold_standard_files(bool output_wanted)
{
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", output_wanted ? O_RDONLY : O_RDWR) != fd)
			_exit(code_exit(DLQ_SYSTEM)); /* no /dev/null: nothing can be told then */
}

int cli_main(int argc, char **argv)
{
	struct cli c = {0};
	int rc;

	hold_standard_files(argc < 2 || strcmp(argv[1], cmd_serve.name));
	signal(SIGPIPE, SIG_IGN);
	if (argc < 2) {
		cli_help(NULL);
		return EXIT_USAGE;
	}
	const char *word = argv[1];
	if (!strcmp(word, "--help") || !strcmp(word, "-h"))
		word = "help";
	else if (!strcmp(word, "--version") || !strcmp(word, "-V"))
		word = "version";
	c.command = cli_find(word);
	if (!c.command)
		return command_unknown(word);
	rc = parse(&c, argc - 2, argv + 2);
	if (!rc && cli_flag(&c, "help"))
		cli_help(c.command);
	else if (!rc)
		rc = c.command->run(&c);
	if (output_lost() && !rc) {
		fprintf(stderr, "dlq: cannot write to stdout: %s\n", strerror(errno));
		rc = code_exit(DLQ_SYSTEM);
	}
	mem_free(c.args);
	mem_free(c.given);
	return rc;
}
