/* The archive: its index, and one record of it. */
#include <string.h>

#include "http/http.h"

static void list_done(struct http_req *r)
{
	struct json_out j;
	answer_begin(r, &j);
	jout_open(&j, '{');
	jout_key(&j, "items");
	jout_open(&j, '[');
	for (int i = 0; i < r->op.u.read_archive.n; i++) {
		const struct archive_entry *e = &r->op.u.read_archive.items[i];
		if (!auth_may(r, e->queue))
			continue;
		jout_open(&j, '{');
		jout_kstr(&j, "dlq_id", e->dlq_id);
		jout_kstr(&j, "queue", e->queue);
		jout_kstr(&j, "id", e->id);
		if (e->key.n)
			jout_kstr(&j, "key", e->key);
		jout_kstr(&j, "state", e->state);
		jout_kstr(&j, "reason", e->reason);
		if (e->error_type.n)
			jout_kstr(&j, "error_type", e->error_type);
		jout_ktime(&j, "died_at", e->died_at_ms);
		jout_ktime(&j, "archived_at", e->archived_at_ms);
		jout_kstr(&j, "file", arena_fmt(&r->arena, "archive/" STR_FMT "/" STR_FMT ".jsonl.zst", STR_ARG(e->queue), STR_ARG(e->day)));
		jout_close(&j, '}');
	}
	jout_close(&j, ']');
	cursor_text(&j, 'z', r->op.u.read_archive.next);
	jout_close(&j, '}');
	answer_json(r, 200);
}

/* "2026-12-01": the form, and a day that there is. */
static bool query_day(struct http_req *r, const char *name, struct str *out)
{
	bool given;
	int64_t ms;
	char text[40];
	*out = query_get(r, name, &given);
	if (!given)
		return true;
	if (out->n == 10) {
		memcpy(text, out->p, 10);
		memcpy(text + 10, "T00:00:00Z", 11);
		if (time_parse(str_of(text), &ms))
			return true;
	}
	answer_problem(r, DLQ_BAD_REQUEST, "%s must be a day, such as 2026-12-01", name);
	return false;
}

void api_archive_list(struct http_req *r)
{
	bool given;
	memset(&r->op.u, 0, sizeof r->op.u);
	r->op.queue = query_get(r, "queue", &given);
	if (given && queue_name_check(r->op.queue)) {
		answer_problem(r, DLQ_INVALID_NAME, "queue: the rule for names is: %s", QUEUE_NAME_RULE);
		return;
	}
	r->op.u.read_archive.id = query_get(r, "id", &given);
	if (given && message_id_check(r->op.u.read_archive.id)) {
		answer_problem(r, DLQ_BAD_REQUEST, "id: %s", MESSAGE_ID_RULE);
		return;
	}
	if (!query_day(r, "from", &r->op.u.read_archive.from_day) || !query_day(r, "to", &r->op.u.read_archive.to_day) ||
	    !query_limit(r, &r->op.u.read_archive.limit) || !query_cursor_any(r, 'z', &r->op.u.read_archive.cursor))
		return;
	if (r->op.queue.n && !auth_need(r, r->op.queue))
		return;
	request_submit(r, OP_READ_ARCHIVE, list_done);
}

static void get_done(struct http_req *r)
{
	if (!auth_need(r, r->op.u.read_archived.queue))
		return;
	buf_clear(&r->out);
	buf_adds(&r->out, str_trim(r->op.u.read_archived.record));
	buf_addc(&r->out, '\n');
	answer_bytes(r, 200, "application/json");
}

void api_archive_get(struct http_req *r)
{
	memset(&r->op.u, 0, sizeof r->op.u);
	r->op.queue = STR("");
	r->op.u.read_archived.id = r->param;
	request_submit(r, OP_READ_ARCHIVED, get_done);
}
