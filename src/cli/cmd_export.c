#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/interrupt.h"
#include "cli/page.h"
#include "cli/select.h"
#include "cli/sink.h"
#include "cli/term.h"

#define PAGE 1000

struct export {
	struct cli *c;
	struct client *cl;
	struct sink *sink;
	int64_t limit;
	struct scan scan;
};

static void show_progress(const struct export *e)
{
	char a[32], b[32];

	if (e->scan.looked > e->scan.found)
		progress("exported %s, looked at %s", count_format(e->scan.found, a), count_format(e->scan.looked, b));
	else
		progress("exported %s", count_format(e->scan.found, a));
}

static int64_t count_lines(struct str s)
{
	int64_t n = 0;

	while (s.n) {
		const char *end = memchr(s.p, '\n', s.n);
		size_t len = end ? (size_t)(end - s.p) + 1 : s.n;

		n++;
		s.p += len;
		s.n -= len;
	}
	return n;
}

static int64_t number(struct str s)
{
	int64_t n = 0;

	for (size_t i = 0; i < s.n && i < 18 && s.p[i] >= '0' && s.p[i] <= '9'; i++)
		n = n * 10 + (s.p[i] - '0');
	return n;
}

/* One page; *cursor (freed and made by mem) goes on, NULL at the end. */
static enum dlq_code page(struct export *e, const char *path, char **cursor, struct dlq_err *err)
{
	struct buf url = {0};
	int64_t left = e->limit - e->scan.found;

	buf_addf(&url, "%s%slimit=%lld", path, strchr(path, '?') ? "&" : "?", (long long)(left < PAGE ? left : PAGE));
	url_query(&url, "cursor", *cursor);
	buf_addc(&url, 0);
	struct client_call call = {.method = "GET", .path = url.p, .timeout_ms = 90000};
	mem_free(*cursor);
	*cursor = NULL;
	enum dlq_code code = client_call(e->cl, &call, err);
	if (!code)
		code = sink_write(e->sink, buf_str(&call.reply), err);
	if (!code) {
		struct str next = client_header(&call, "dlq-next");

		e->scan.found += count_lines(buf_str(&call.reply));
		e->scan.looked += number(client_header(&call, "dlq-scanned"));
		e->scan.errors += number(client_header(&call, "dlq-errors"));
		*cursor = next.n ? mem_strdup(next) : NULL;
	}
	client_call_clear(&call);
	buf_release(&url);
	return code;
}

static enum dlq_code walk(struct export *e, const char *path, struct dlq_err *err)
{
	char *cursor = NULL;
	enum dlq_code code;

	do {
		code = page(e, path, &cursor, err);
		e->scan.interrupted = interrupt_came();
		if (!code && cursor && e->scan.show)
			show_progress(e);
	} while (!code && cursor && e->scan.found < e->limit && !e->scan.interrupted);
	e->scan.more = cursor != NULL;
	mem_free(cursor);
	return code;
}

/* The record of one dlq_id: what the export of its message gives with that id. */
static enum dlq_code one(struct export *e, const char *id, struct dlq_err *err)
{
	struct buf path = {0};
	enum dlq_code code = DLQ_OK;

	buf_addz(&path, "/v1/dead-letters/");
	url_escape(&path, id);
	buf_addc(&path, 0);
	json_t *d = client_json(e->cl, "GET", path.p, NULL, err);
	if (!d) {
		buf_release(&path);
		return err->code;
	}
	buf_clear(&path);
	buf_addz(&path, "/v1/dead-letters/export");
	url_query(&path, "queue", jstr(d, "queue"));
	url_query(&path, "id", jstr(d, "id"));
	url_query(&path, "state", "any");
	buf_addf(&path, "&limit=%d", PAGE);
	buf_addc(&path, 0);
	struct client_call call = {.method = "GET", .path = path.p, .timeout_ms = 90000};
	code = client_call(e->cl, &call, err);
	struct str rest = buf_str(&call.reply);
	bool found = false;
	while (!code && rest.n && !found) {
		const char *end = memchr(rest.p, '\n', rest.n);
		struct str line = {rest.p, end ? (size_t)(end - rest.p) + 1 : rest.n};
		json_t *v = json_loadb(line.p, line.n, JSON_ALLOW_NUL, NULL);

		found = v && !strcmp(jstr(v, "dlq_id"), jstr(d, "dlq_id"));
		json_decref(v);
		if (found)
			code = sink_write(e->sink, line, err);
		rest.p += line.n;
		rest.n -= line.n;
	}
	if (!code && !found)
		code = err_set(err, DLQ_NOT_FOUND, "dead letter %s is gone", id);
	e->scan.found += !code;
	client_call_clear(&call);
	json_decref(d);
	buf_release(&path);
	return code;
}

static enum dlq_code export_ids(struct export *e, const struct ids *ids, struct dlq_err *err)
{
	enum dlq_code code = DLQ_OK;

	for (int i = 0; !code && i < ids->n && !e->scan.interrupted; i++) {
		code = one(e, ids->list[i], err);
		e->scan.interrupted = interrupt_came();
		e->scan.more = i + 1 < ids->n;
		if (!code && e->scan.show && ids->n > 1)
			show_progress(e);
	}
	return code;
}

/* Says how it ended; the exit code. */
static int finish(struct export *e, const char *file, enum dlq_code code, struct dlq_err *err)
{
	char n[32], size[32];
	bool whole = !(e->scan.interrupted && e->scan.more);
	int rc = 0;

	progress_clear();
	if (code && sink_closed(e->sink))
		return 0; /* the reader had enough */
	if (!code && sink_finish(e->sink, whole, err))
		code = err->code;
	if (code) {
		const char *part = e->scan.found ? sink_part(e->sink) : NULL;
		struct dlq_err ignored;

		rc = cli_fail(err);
		/* What came is whole there, compressed, too; the file of an export that got nothing goes with the sink. */
		if (part && sink_finish(e->sink, false, &ignored))
			fprintf(stderr, "%s ends in the middle of a record\n", part);
		fprintf(stderr, "the export is not complete: %s dead letters%s%s\n", count_format(e->scan.found, n),
			part ? " are in " : " were written", part ? part : "");
		return rc;
	}
	if (!whole) {
		fprintf(stderr, "interrupted; there is more%s%s\n", sink_part(e->sink) ? ", and what was exported is in " : "", sink_part(e->sink) ? sink_part(e->sink) : "");
		rc = EXIT_PARTIAL;
	}
	if (scan_warn(&e->scan))
		rc = EXIT_PARTIAL;
	if (e->c->json && file)
		printf("{\"exported\":%lld,\"bytes\":%lld}\n", (long long)e->scan.found, (long long)sink_bytes(e->sink));
	size_human(sink_bytes(e->sink), size);
	fprintf(stderr, "exported %s dead letter%s%s%s, %s%s\n", count_format(e->scan.found, n), e->scan.found == 1 ? "" : "s",
		file && whole ? " to " : "", file && whole ? file : "", size, e->scan.more && !rc ? "; --limit gives more" : "");
	return rc;
}

static int export(struct export *e, struct selection *s, const char *file, bool zstd)
{
	struct dlq_err err = {0};
	struct buf path = {0};
	int rc;

	if (selection_resolve(e->c, e->cl, s, &err) || sink_open(file, zstd, cli_flag(e->c, "force"), &e->sink, &err))
		return cli_fail(&err);
	buf_addz(&path, "/v1/dead-letters/export");
	selection_query(s, &path);
	buf_addc(&path, 0);
	interrupt_catch();
	rc = finish(e, file, s->ids.n ? export_ids(e, &s->ids, &err) : walk(e, path.p, &err), &err);
	buf_release(&path);
	sink_free(e->sink);
	return rc;
}

static int run(struct cli *c)
{
	struct export e = {.c = c, .scan = {.show = true}};
	struct selection s = {0};
	const char *file = cli_opt(c, "output");
	size_t n = file ? strlen(file) : 0;
	bool zstd = cli_flag(c, "zstd") || (n > 4 && !strcmp(file + n - 4, ".zst"));
	int rc = selection_read(c, SELECT_IDS | SELECT_LISTED, &s);

	if (!rc && !cli_opt_int(c, "limit", 1, INT64_MAX, INT64_MAX, &e.limit))
		rc = EXIT_USAGE;
	if (!rc && file && !*file)
		rc = cli_usage(c, "--output is empty");
	if (!rc && zstd && !file && term_is_tty(STDOUT_FILENO))
		rc = cli_usage(c, "--zstd: that is no text for a terminal; name a file with --output");
	if (rc)
		goto out;
	e.cl = client_open(c, &rc);
	if (e.cl)
		rc = export(&e, &s, file && strcmp(file, "-") ? file : NULL, zstd);
out:
	client_free(e.cl);
	selection_release(&s);
	return rc;
}

static const struct cli_option options[] = {
	{"output", "FILE", "write to FILE instead of stdout; one that ends in .zst is compressed"},
	{"zstd", NULL, "compress with zstd"},
	{"force", NULL, "write over FILE when it exists"},
	{"state", "STATE", "dead (default), redriving, redriven, discarded, archived (given up) or any"},
	{"reason", "REASON", "the same as --dead-reason"},
	{"from", "TIME", "the same as --died-from"},
	{"to", "TIME", "the same as --died-to"},
	{"limit", "N", "at most so many"},
	SELECT_OPTIONS,
	{0},
};

const struct command cmd_export = {
	.name = "export",
	.synopsis = "[--queue QUEUE] [--group GROUP] [FILTERS] [-o FILE] [--zstd]\nDLQ_ID... [-o FILE] [--zstd]",
	.summary = "write dead letters with all their evidence to a file, as JSON lines",
	.about = "One line per dead letter: all its facts, headers, history and body, so that `dlq import`\n"
		 "makes a dead letter of it again, here or on another server. Nothing is changed by it.\n"
		 "Without filters it is all that is dead; --state any takes everything.\n"
		 "\n"
		 "FILE has its name only when it is whole; until then it is FILE.part. Exit code 7: it\n"
		 "could not be written; 1: it was interrupted, and what there is is in FILE.part.\n"
		 "\n" SELECT_ABOUT,
	.examples = "dlq export --queue orders -o orders.jsonl.zst # all that is dead in one queue, compressed\n"
		    "dlq export --group 3f2a9c | head -1 # how a record looks\n"
		    "dlq export --state any -o everything.jsonl.zst # with what was redriven, discarded or given up\n"
		    "dlq import orders.jsonl.zst --reason 'moved from the old server' # the way back in, anywhere",
	.options = options,
	.letter = 'o',
	.letter_of = "output",
	.client = true,
	.run = run,
};
