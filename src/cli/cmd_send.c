#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/client.h"
#include "cli/term.h"

#define LINES_PER_CALL 500
#define BYTES_PER_CALL ((size_t)4 << 20)

/* ---- one message ---- */

/* Makes a header line; false: the value cannot be one. */
static bool header_add(const struct cli *c, struct arena *a, const char **lines, int *n, const char *name,
		       const char *value)
{
	if (!value)
		return true;
	for (const char *p = value; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f) {
			cli_usage(c, "the value of %s has a line break or another control character", name);
			return false;
		}
	lines[(*n)++] = arena_fmt(a, "%s: %s", name, value).p;
	return true;
}

/* --header K=V, with K in lower case. */
static bool message_headers(const struct cli *c, struct arena *a, const char **lines, int *n)
{
	const char *pair;
	int at = 0;

	while ((pair = cli_opt_next(c, "header", &at))) {
		const char *equals = strchr(pair, '=');
		char name[128];

		if (!equals || equals == pair || equals - pair > 100) {
			cli_usage(c, "--header %s: NAME=VALUE is wanted", pair);
			return false;
		}
		int len = snprintf(name, sizeof(name), "Dlq-Header-");
		for (const char *p = pair; p < equals; p++) {
			char ch = *p >= 'A' && *p <= 'Z' ? (char)(*p + 32) : *p;

			if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789-_.", ch)) {
				cli_usage(c, "--header %s: a name has letters, digits, hyphens, dots and underscores",
					  pair);
				return false;
			}
			name[len++] = ch;
		}
		name[len] = 0;
		if (!header_add(c, a, lines, n, name, equals + 1))
			return false;
	}
	return true;
}

static enum dlq_code read_body(const struct cli *c, struct buf *body, struct dlq_err *err)
{
	const char *file = cli_opt(c, "file");

	if (file)
		return cli_read_file(file, body, err);
	if (c->n_args > 1) {
		buf_addz(body, c->args[1]);
		return DLQ_OK;
	}
	if (term_is_tty(STDIN_FILENO))
		fprintf(stderr, "reading the body from the terminal; end it with Ctrl-D\n");
	return cli_read_file("-", body, err);
}

static int send_one(struct cli *c, struct client *cl, const char *path)
{
	static const char *const map[][2] = {
		{"id", "Dlq-Id"},
		{"key", "Dlq-Key"},
		{"delay", "Dlq-Delay"},
		{"ttl", "Dlq-Ttl"},
		{"content-type", "Content-Type"},
	};
	const char **lines = mem_array((size_t)c->n_given + ARRAY_LEN(map), sizeof(*lines));
	struct client_call call = {.method = "POST", .path = path, .headers = lines, .timeout_ms = 60000};
	struct arena a = {0};
	struct buf body = {0};
	struct dlq_err err = {0};
	int rc = EXIT_USAGE, n = 0;

	for (size_t i = 0; i < ARRAY_LEN(map); i++)
		if (!header_add(c, &a, lines, &n, map[i][1], cli_opt(c, map[i][0])))
			goto out;
	if (!message_headers(c, &a, lines, &n))
		goto out;
	if (read_body(c, &body, &err)) {
		rc = cli_fail(&err);
		goto out;
	}
	call.body = buf_str(&body);
	call.n_headers = n;
	if (client_call(cl, &call, &err)) {
		rc = cli_fail(&err);
		goto out;
	}
	rc = 0;
	if (c->json)
		json_line(call.json);
	else
		printf("%s%s\n", jstr(call.json, "id"),
		       json_is_true(json_object_get(call.json, "duplicate")) ? " duplicate" : "");
out:
	client_call_clear(&call);
	arena_release(&a);
	buf_release(&body);
	mem_free(lines);
	return rc;
}

/* ---- many ---- */

struct batch {
	struct cli *c;
	struct client *cl;
	const char *path;
	struct buf text;
	int lines;          /* in text */
	int64_t line;       /* of the input, the last one read */
	int64_t first_line; /* of the input, the first in text */
	int64_t sent, duplicates, refused;
	int rc;
};

static void batch_result(struct batch *b, size_t i, json_t *item)
{
	json_t *error = json_object_get(item, "error");

	if (error) {
		int64_t line = b->first_line + (jint(error, "line") ? jint(error, "line") - 1 : (int64_t)i);
		char safe[600];

		b->refused++;
		json_object_set_new(error, "line", json_integer(line));
		fprintf(stderr, "dlq: line %lld: %s: %s\n", (long long)line, jstr(error, "code"),
			text_safe(str_of(jstr(error, "detail")), safe, sizeof(safe)));
		if (!strcmp(jstr(error, "code"), "queue_full"))
			b->rc = code_exit(DLQ_QUEUE_FULL);
	} else if (json_is_true(json_object_get(item, "duplicate"))) {
		b->duplicates++;
	} else {
		b->sent++;
	}
	if (b->c->json)
		json_line(item);
}

static bool batch_flush(struct batch *b)
{
	struct client_call call = {
		.method = "POST",
		.path = b->path,
		.body = buf_str(&b->text),
		.content_type = "application/x-ndjson",
		.timeout_ms = 60000,
	};
	struct dlq_err err = {0};
	json_t *item;
	size_t i;
	bool ok = true;

	if (!b->lines)
		return true;
	enum dlq_code code = client_call(b->cl, &call, &err);
	json_t *results = json_object_get(call.json, "results");
	if (code && !json_is_array(results)) {
		b->rc = cli_fail(&err);
		ok = false;
	}
	json_array_foreach(results, i, item)
		batch_result(b, i, item);
	client_call_clear(&call);
	buf_clear(&b->text);
	b->lines = 0;
	if (ok)
		progress("sent %lld, refused %lld", (long long)b->sent, (long long)b->refused);
	return ok;
}

/* One line of the input as one message: with --lines the line is the body, else it is the API's JSON. */
static bool batch_line(struct batch *b, struct str line, bool raw)
{
	b->line++;
	if (!raw && !str_trim(line).n)
		return true;
	if (b->lines && (b->lines == LINES_PER_CALL || b->text.n + line.n > BYTES_PER_CALL) && !batch_flush(b))
		return false;
	/* Blank lines were left out, so line numbers of the answer hold only within one run: flush at a gap. */
	if (b->lines && b->first_line + b->lines != b->line && !batch_flush(b))
		return false;
	if (!b->lines++)
		b->first_line = b->line;
	if (raw) {
		struct json_out j;

		jout_init(&j, &b->text);
		jout_open(&j, '{');
		jout_bytes(&j, "body", line);
		jout_close(&j, '}');
	} else {
		buf_adds(&b->text, line);
	}
	buf_addc(&b->text, '\n');
	return true;
}

static int send_batch(struct cli *c, struct client *cl, const char *path)
{
	struct batch b = {.c = c, .cl = cl, .path = path};
	const char *file = cli_opt(c, "file");
	bool raw = cli_flag(c, "lines"), ok = true;
	char *line = NULL;
	size_t cap = 0;
	ssize_t n;
	FILE *in = file && strcmp(file, "-") ? fopen(file, "re") : stdin;

	if (!in) {
		struct dlq_err err = {0};

		err_set(&err, DLQ_NOT_FOUND, "cannot open %s: %m", file);
		return cli_fail(&err);
	}
	while (ok && (n = getline(&line, &cap, in)) >= 0) {
		if (n && line[n - 1] == '\n')
			n--;
		ok = batch_line(&b, (struct str){line, (size_t)n}, raw);
	}
	int failed = ok && ferror(in) ? errno : 0;
	ok = ok && batch_flush(&b);
	progress_end();
	if (failed) {
		struct dlq_err err = {0};

		err_set(&err, DLQ_SYSTEM, "cannot read %s: %s", in == stdin ? "stdin" : file, strerror(failed));
		b.rc = cli_fail(&err);
	}
	if (in != stdin)
		fclose(in);
	free(line);
	buf_release(&b.text);
	if (!c->json)
		printf("sent %lld, duplicates %lld, refused %lld\n", (long long)b.sent, (long long)b.duplicates,
		       (long long)b.refused);
	return b.rc ? b.rc : b.refused ? EXIT_PARTIAL : 0;
}

static int run(struct cli *c)
{
	static const char *const of_one[] = {"id", "key", "delay", "ttl", "header", "content-type"};
	bool many = cli_flag(c, "batch") || cli_flag(c, "lines");
	struct buf path = {0};
	int rc;

	if (c->n_args < 1)
		return cli_usage(c, "which queue?");
	if (c->n_args > (many ? 1 : 2))
		return cli_usage(c, "too many arguments: %s; put a body with spaces in quotes", c->args[many ? 1 : 2]);
	for (size_t i = 0; many && i < ARRAY_LEN(of_one); i++)
		if (cli_opt(c, of_one[i]))
			return cli_usage(c, "--%s is for one message; with --batch it stands in each line", of_one[i]);
	if (c->n_args > 1 && cli_opt(c, "file"))
		return cli_usage(c, "a body and --file: which one is it?");
	struct client *cl = client_open(c, &rc);
	if (!cl)
		return rc;
	buf_addz(&path, "/v1/queues/");
	url_escape(&path, c->args[0]);
	buf_addz(&path, many ? "/batch" : "/messages");
	buf_addc(&path, 0);
	rc = many ? send_batch(c, cl, path.p) : send_one(c, cl, path.p);
	buf_release(&path);
	client_free(cl);
	return rc;
}

static const struct cli_option options[] = {
	{"id", "ID", "message id; sent twice within the dedup window it is stored once"},
	{"key", "KEY", "ordering key"},
	{"delay", "DURATION", "deliver not before this time has passed, such as 30s"},
	{"ttl", "DURATION", "dead letter it when nobody took it within this time"},
	{"header", "NAME=VALUE", "a header of the message; may be repeated"},
	{"content-type", "TYPE", "content type of the body"},
	{"file", "FILE", "read the body (or the batch) from a file; - is stdin"},
	{"batch", NULL, "read many messages as NDJSON: {\"body\": ..., \"id\": ..., \"key\": ..., \"headers\": ...}"},
	{"lines", NULL, "read many messages, each line is a body"},
	{0},
};

const struct command cmd_send = {
	.name = "send",
	.synopsis = "QUEUE [BODY] [--file FILE] [OPTIONS]\nQUEUE --batch < messages.ndjson\nQUEUE --lines < bodies.txt",
	.summary = "send one message, or many",
	.about = "Prints the id of the message once it is on disk. Without BODY and --file the body comes\n"
		 "from stdin.\n"
		 "\n"
		 "With --batch or --lines every good line is stored whatever the others are; refused ones\n"
		 "are named on stderr with their line, and the exit code is 1.",
	.examples =
		"dlq send orders '{\"order\": 17}' --id order-17 --content-type application/json # stored once\n"
		"dlq send thumbnails --file photo.jpg --content-type image/jpeg --header bucket=eu # any bytes\n"
		"dlq send reminders 'call Ada' --delay 15m # not before a quarter of an hour\n"
		"dlq send orders --lines < orders.txt # one message a line",
	.options = options,
	.client = true,
	.run = run,
};
