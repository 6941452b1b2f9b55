/* Dead letters to another dlq and back: export and import, one JSON record a line (engine/record.h). */
#include <stdio.h>
#include <string.h>

#include "http/json_in.h"
#include "http/select.h"

#define LINES_MAX 1000

/* ---- export ---- */

static void export_done(struct http_req *r)
{
	const struct engine_scan *scan = &r->op.u.export.scan;
	struct str next = cursor_make(&r->arena, 'd', r->op.u.export.next_no);
	size_t n =
	    (size_t)snprintf(r->more_head, sizeof r->more_head, "Dlq-Scanned: %lld\r\n", (long long)scan->looked);
	if (scan->errors)
		n += (size_t)snprintf(r->more_head + n, sizeof r->more_head - n, "Dlq-Errors: %lld\r\n",
		                      (long long)scan->errors);
	if (next.n)
		n += (size_t)snprintf(r->more_head + n, sizeof r->more_head - n, "Dlq-Next: " STR_FMT "\r\n",
		                      STR_ARG(next));
	ASSERT(n < sizeof r->more_head);
	buf_clear(&r->out);
	buf_adds(&r->out, r->op.u.export.lines);
	answer_bytes(r, 200, "application/x-ndjson");
}

static void export(struct http_req *r)
{
	memset(&r->op.u, 0, sizeof r->op.u);
	r->op.queue = r->u.wish->queue;
	r->op.u.export.sel = r->u.wish->sel;
	request_submit(r, OP_EXPORT, export_done);
}

void api_dead_export(struct http_req *r)
{
	struct wish *w = wish_new(r);
	w->must_name_queue = true;
	if (wish_query(r, w))
		wish_allow(r, w, export);
}

/* ---- import ---- */

struct import {
	struct ndjson_line lines[LINES_MAX];
	struct str records[LINES_MAX];
	int n_lines, n_records;
	struct str queue; /* empty: each record's own */
	bool refused;     /* a line was refused for its queue, and has its audit row */
};

static void import_answer(struct http_req *r)
{
	struct json_out j;
	const struct import *im = r->u.import;
	answer_begin(r, &j);
	jout_open(&j, '{');
	jout_kint(&j, "imported", im->n_records ? r->op.u.import.imported : 0);
	jout_key(&j, "results");
	jout_open(&j, '[');
	for (int i = 0; i < im->n_lines; i++) {
		const struct ndjson_line *l = &im->lines[i];
		const struct engine_import_result *res = l->item >= 0 ? &r->op.u.import.results[l->item] : NULL;
		enum dlq_code code = res ? res->code : l->code;
		jout_open(&j, '{');
		if (code == DLQ_OK) {
			jout_kz(&j, "dlq_id", res->dlq_id);
			if (res->exists)
				jout_kbool(&j, "exists", true);
			else
				jout_kstr(&j, "queue", res->queue);
		} else {
			line_error_write(&j, l, code, !res ? l->detail : str_of(res->err.detail[0] ? res->err.detail : code_title(code)));
		}
		jout_close(&j, '}');
	}
	jout_close(&j, ']');
	jout_close(&j, '}');
	answer_json(r, 200);
}

static void parse_done(struct http_req *r)
{
	request_submit(r, OP_IMPORT, import_answer); /* the same operation, with what was read */
}

/* Whether the line is an object; its queue, which stands there once at most. */
static bool scan_line(struct json_pull *j, struct str *queue)
{
	static const char *const queue_key[] = {"queue"};
	struct str key;
	unsigned seen = 0;
	*queue = STR("");
	if (!jp_object(j))
		return false;
	while (jp_key(j, &key)) {
		if (!str_eqz(key, "queue"))
			jp_skip(j);
		else if (jp_field(j, key, queue_key, 1, &seen) == 0)
			jp_str(j, queue);
	}
	return jp_end(j);
}

/* A record may go into the queue it names when the token may. */
static bool may_import(struct http_req *r, struct import *im, struct str queue, struct ndjson_line *l)
{
	if (im->queue.n || auth_may(r, queue.n ? queue : STR("~")))
		return true;
	if (!im->refused)
		auth_refused(r, queue);
	im->refused = true;
	l->code = DLQ_FORBIDDEN;
	l->detail = arena_fmt(&r->arena,
	                      "line %d: the token is limited to other queues than that of the record; say ?queue=NAME "
	                      "to put it elsewhere",
	                      l->line);
	return false;
}

static void take_line(struct http_req *r, struct import *im, struct str line, int number, struct arena *scratch)
{
	struct json_pull j;
	struct str queue;
	struct ndjson_line *l = &im->lines[im->n_lines++];
	l->item = -1;
	l->line = number;
	arena_reset(scratch);
	jp_init(&j, line, number, scratch);
	if (!scan_line(&j, &queue)) {
		l->code = j.err.code;
		l->detail = arena_str(&r->arena, str_of(j.err.detail));
		l->line = j.err_line;
		l->column = j.err_col;
	} else if (may_import(r, im, queue, l)) {
		l->item = im->n_records;
		im->records[im->n_records++] = line;
	}
}

/* Every line that is not empty. False: too many. */
static bool take_lines(struct http_req *r, struct import *im)
{
	struct arena scratch = {0};
	struct str text = buf_str(&r->body);
	int number = 0;
	bool fit = true;
	for (const char *p = text.p, *end = text.p + text.n; text.n && p < end && fit;) {
		const char *eol = memchr(p, '\n', (size_t)(end - p));
		struct str line = {p, (size_t)((eol ? eol : end) - p)};
		p = line.p + line.n + 1;
		number++;
		if (!str_trim(line).n)
			continue;
		fit = im->n_lines < LINES_MAX;
		if (fit)
			take_line(r, im, line, number, &scratch);
	}
	arena_release(&scratch);
	return fit;
}

void api_dead_import(struct http_req *r)
{
	bool given, with_reason;
	struct import *im = arena_alloc(&r->arena, sizeof *im);
	struct str reason = query_get(r, "reason", &with_reason);
	im->queue = query_get(r, "queue", &given);
	if (given && queue_name_check(im->queue)) {
		answer_problem(r, DLQ_INVALID_NAME, "queue: the rule for names is: %s", QUEUE_NAME_RULE);
		return;
	}
	if (with_reason && (reason.n > 1000 || !str_trim(reason).n)) {
		answer_problem(r, DLQ_BAD_REQUEST, "reason: 1 to 1000 bytes that say why");
		return;
	}
	if (im->queue.n && !auth_need(r, im->queue))
		return;
	if (!take_lines(r, im)) {
		answer_problem_limit(r, DLQ_TOO_LARGE, LINES_MAX, "the body has more than %d lines", LINES_MAX);
		return;
	}
	if (!im->n_lines) {
		answer_problem(r, DLQ_BAD_REQUEST,
		               "the body is empty; it must be records of an export or of the archive, one a line");
		return;
	}
	r->u.import = im;
	if (!im->n_records) {
		import_answer(r);
		return;
	}
	memset(&r->op.u, 0, sizeof r->op.u);
	r->op.queue = im->queue;
	r->op.u.import.records = im->records;
	r->op.u.import.n = im->n_records;
	r->op.u.import.reason = reason;
	request_submit(r, OP_IMPORT_PARSE, parse_done);
}
