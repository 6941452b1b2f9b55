#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cli/client.h"
#include "cli/ids.h"
#include "cli/interrupt.h"
#include "cli/lines.h"
#include "cli/term.h"

#define BATCH_LINES 1000
#define BATCH_BYTES ((size_t)8 << 20)
#define ERRORS_SHOWN 20

struct import {
	struct cli *c;
	struct client *cl;
	const char *file;
	struct lines *lines;
	struct buf path, body;         /* of the request */
	int64_t number[BATCH_LINES];   /* of the lines in body */
	int n;
	int64_t imported, exists, failed;
	bool confirmed;                /* more than one may be sent */
	bool refused;                  /* there is more than one, and it was not confirmed */
};

static void show_progress(const struct import *m)
{
	char a[32], b[32], c[32];

	progress("imported %s, here already %s, failed %s", count_format(m->imported, a), count_format(m->exists, b), count_format(m->failed, c));
}

/* The server counts lines within a request and says so in its text; here it is the line of the file that is named. */
static void forget_line(json_t *error)
{
	const char *detail = jstr(error, "detail");
	size_t n = 5;

	if (strncmp(detail, "line ", n))
		return;
	n += strspn(detail + n, "0123456789");
	if (!strncmp(detail + n, ", column ", 9) || !strncmp(detail + n, ": ", 2))
		json_object_set_new(error, "detail", json_string(detail + n + 2));
}

static void one_result(struct import *m, int64_t line, json_t *r)
{
	json_t *error = json_object_get(r, "error");
	char safe[600];

	if (error) {
		forget_line(error);
		m->failed++;
	} else if (json_is_true(json_object_get(r, "exists"))) {
		m->exists++;
	} else {
		m->imported++;
	}
	if (m->c->json) {
		json_object_set_new(r, "line", json_integer(line));
		json_line(r);
	} else if (error && m->failed <= ERRORS_SHOWN) {
		if (term_is_tty(2))
			fputs("\r\033[K", stderr);
		fprintf(stderr, "line %lld: %s: %s\n", (long long)line, jstr(error, "code"), text_safe(str_of(jstr(error, "detail")), safe, sizeof(safe)));
		if (m->failed == ERRORS_SHOWN)
			fprintf(stderr, "... more errors are only counted; --json shows all\n");
	}
}

/* Sends what was gathered. */
static enum dlq_code flush(struct import *m, struct dlq_err *err)
{
	struct client_call call = {.method = "POST", .path = m->path.p, .body = buf_str(&m->body), .content_type = "application/x-ndjson", .timeout_ms = 90000};
	enum dlq_code code = DLQ_OK;
	json_t *results, *r;
	size_t i;

	if (!m->n)
		return DLQ_OK;
	code = client_call(m->cl, &call, err);
	results = json_object_get(call.json, "results");
	if (json_is_array(results)) { /* also of an answer that says that not one was good */
		code = DLQ_OK;
		json_array_foreach(results, i, r)
			if (i < (size_t)m->n)
				one_result(m, m->number[i], r);
		if (json_array_size(results) != (size_t)m->n)
			code = err_set(err, DLQ_INTERNAL, "the server answered %zu results to %d lines", json_array_size(results), m->n);
	} else if (code) {
		err_prefix(err, "lines %lld to %lld", (long long)m->number[0], (long long)m->number[m->n - 1]);
	} else {
		code = err_set(err, DLQ_BAD_REQUEST, "%s answered without results; is it a dlq server?", client_url(m->cl));
	}
	client_call_clear(&call);
	buf_clear(&m->body);
	m->n = 0;
	return code;
}

static enum dlq_code add(struct import *m, struct str line, int64_t number, struct dlq_err *err)
{
	if ((m->n == BATCH_LINES || (m->n && m->body.n + line.n >= BATCH_BYTES)) && flush(m, err))
		return err->code;
	m->number[m->n++] = number;
	buf_adds(&m->body, line);
	buf_addc(&m->body, '\n');
	return DLQ_OK;
}

static enum dlq_code read_all(struct import *m, struct dlq_err *err)
{
	int64_t number, lines = 0, shown = 0;
	struct str line;

	while (!interrupt_came()) {
		if (lines_next(m->lines, &line, &number, err)) {
			struct dlq_err ignored = {0};
			enum dlq_code code = flush(m, &ignored); /* what was good before it */

			(void)code;
			return err->code;
		}
		if (!line.n)
			return flush(m, err);
		if (++lines == 2 && !m->confirmed) {
			m->refused = true;
			return DLQ_OK;
		}
		if (add(m, line, number, err))
			return err->code;
		if (!m->c->json && m->imported + m->exists + m->failed > shown) {
			shown = m->imported + m->exists + m->failed;
			show_progress(m);
		}
	}
	return flush(m, err);
}

/* The lines of the file, before anything is sent. -1: error printed, *rc set. */
static int64_t count_lines(const char *file, int *rc)
{
	struct lines *lines = NULL;
	struct dlq_err err = {0};
	struct str line;
	int64_t number, n = 0;
	enum dlq_code code = lines_open(file, &lines, &err);

	while (!code && !(code = lines_next(lines, &line, &number, &err)) && line.n)
		n++;
	lines_close(lines);
	if (code)
		*rc = cli_fail(&err);
	return code ? -1 : n;
}

/* Counts and asks, where the file can be read twice. False: *rc is the exit code. */
static bool may_start(struct import *m, int *rc)
{
	bool dry = cli_flag(m->c, "dry-run");
	int64_t n;
	char text[32];

	m->confirmed = cli_flag(m->c, "yes");
	if (!dry && (m->confirmed || !strcmp(m->file, "-")))
		return true;
	n = count_lines(m->file, rc);
	if (n < 0)
		return false;
	if (dry) {
		if (m->c->json)
			printf("{\"dry_run\":true,\"total\":%lld}\n", (long long)n);
		else
			printf("%s record%s would be imported\n", count_format(n, text), n == 1 ? "" : "s");
		return false;
	}
	m->confirmed = confirm(m->c, n, "import", rc);
	return m->confirmed;
}

static int finish(struct import *m, enum dlq_code code, struct dlq_err *err)
{
	char a[32], b[32], c[32];
	int rc = 0;

	progress_clear();
	if (m->refused)
		return cli_usage(m->c, "there is more than one record on stdin, and no way to ask; say --yes to import them, --dry-run to count");
	if (code)
		rc = cli_fail(err);
	else if (m->failed || interrupt_came())
		rc = EXIT_PARTIAL;
	if (!m->c->json)
		printf("imported %s, here already %s, failed %s\n", count_format(m->imported, a), count_format(m->exists, b),
		       count_format(m->failed, c));
	if (code || interrupt_came())
		fprintf(stderr, "not all of it was read; run it again: what is here already is not doubled\n");
	return rc;
}

static int run(struct cli *c)
{
	struct import m = {.c = c, .body = {.max = LINE_MAX_BYTES + BATCH_BYTES * 2}};
	struct dlq_err err = {0};
	int rc = 0;

	if (c->n_args != 1)
		return cli_usage(c, "which file? One of `dlq export` or of the archive, or - for stdin");
	m.file = c->args[0];
	if (cli_opt(c, "queue") && queue_name_check(str_of(cli_opt(c, "queue"))))
		return cli_usage(c, "--queue %s: a queue is wanted: " QUEUE_NAME_RULE, cli_opt(c, "queue"));
	if (cli_opt(c, "reason") && !str_trim(str_of(cli_opt(c, "reason"))).n)
		return cli_usage(c, "--reason is empty; leave it out, or say why");
	if (!may_start(&m, &rc))
		return rc;
	m.cl = client_open(c, &rc);
	if (!m.cl)
		return rc;
	buf_addz(&m.path, "/v1/dead-letters/import");
	url_query(&m.path, "queue", cli_opt(c, "queue"));
	url_query(&m.path, "reason", cli_opt(c, "reason"));
	buf_addc(&m.path, 0);
	interrupt_catch();
	enum dlq_code code = lines_open(m.file, &m.lines, &err);
	if (!code)
		code = read_all(&m, &err);
	rc = finish(&m, code, &err);
	lines_close(m.lines);
	buf_release(&m.path);
	buf_release(&m.body);
	client_free(m.cl);
	return rc;
}

static const struct cli_option options[] = {
	{"queue", "QUEUE", "into this queue, instead of the one that each record names; it must be there"},
	{"reason", "TEXT", "why; goes to the audit log"},
	{"yes", NULL, "do not ask"},
	{"dry-run", NULL, "only count the records"},
	{0},
};

const struct command cmd_import = {
	.name = "import",
	.synopsis = "FILE [--queue QUEUE] [--reason TEXT] [--yes]\n-",
	.summary = "make dead letters of the records of an export, or of the archive",
	.about = "FILE has one record a line, plain or compressed with zstd: what `dlq export` wrote, or a\n"
		 "file of the archive (archive/QUEUE/DAY.jsonl.zst in the data folder). \"-\" is stdin. Each\n"
		 "becomes a dead letter again, with its history, body and headers; `dlq redrive` puts it\n"
		 "back. One that this server had keeps its dlq_id; one from elsewhere gets a new one, and\n"
		 "its old one still finds it.\n"
		 "\n"
		 "Above one record it shows the count and asks, or needs --yes. It can be run again: what is\n"
		 "here already is not doubled. Bad lines are named, the others are imported; exit code 1\n"
		 "when there were any.",
	.examples = "dlq import orders.jsonl.zst --reason 'moved from the old server' # count, question, import\n"
		    "dlq import orders.jsonl --queue orders-test --yes # into another queue of another server, to try a worker on them\n"
		    "dlq archive show 01JE2X5M8Q4Z6T9K3B7C1D0FGH | dlq import - --reason 'still needed' # one from the archive\n"
		    "dlq export --queue orders | dlq import - --url http://other:7357 --yes # from one server to another",
	.options = options,
	.client = true,
	.run = run,
};
