/* What a redrive would do, without doing it: counts and the changes of the first few. */
#include <string.h>

#include "http/json_in.h"
#include "http/select.h"

/* The headers {name: value} as they are delivered now. */
struct now {
	struct str name[EDIT_HEADERS_MAX * 2], value[EDIT_HEADERS_MAX * 2];
	int n;
};

static void headers_now(struct http_req *r, const struct store_dead *d, struct now *h)
{
	struct json_pull p;
	h->n = 0;
	jp_init(&p, d->edited_headers.n ? d->edited_headers : d->headers, 1, &r->arena);
	if (p.p == p.end || !jp_object(&p))
		return;
	while (h->n < EDIT_HEADERS_MAX * 2 && jp_key(&p, &h->name[h->n]) && jp_str(&p, &h->value[h->n]))
		h->n++;
}

static int find(const struct now *h, struct str name)
{
	for (int i = 0; i < h->n; i++)
		if (str_eq(h->name[i], name))
			return i;
	return -1;
}

/* "headers_set" and "headers_removed": what of the edit makes a difference to this one. */
static void headers_write(struct http_req *r, struct json_out *j, const struct store_dead *d,
                          const struct engine_edit *e)
{
	struct now *h = arena_alloc(&r->arena, sizeof *h);
	bool open = false;
	headers_now(r, d, h);
	for (int i = 0; i < e->n_set; i++) {
		int at = find(h, e->set[i].name);
		if (at >= 0 && str_eq(h->value[at], e->set[i].value))
			continue;
		if (!open)
			jout_key(j, "headers_set");
		if (!open)
			jout_open(j, '{');
		open = true;
		jout_kstr(j, arena_str(&r->arena, e->set[i].name).p, e->set[i].value);
	}
	if (open)
		jout_close(j, '}');
	open = false;
	for (int i = 0; i < e->n_remove; i++) {
		if (find(h, e->remove[i]) < 0)
			continue;
		if (!open)
			jout_key(j, "headers_removed");
		if (!open)
			jout_open(j, '[');
		open = true;
		jout_str(j, e->remove[i]);
	}
	if (open)
		jout_close(j, ']');
}

static void changes_write(struct json_out *j, const struct engine_preview_item *it)
{
	if (!it->n_changes)
		return;
	jout_key(j, "changes");
	jout_open(j, '[');
	for (int i = 0; i < it->n_changes; i++) {
		jout_open(j, '{');
		jout_kstr(j, "path", it->changes[i].path);
		if (it->changes[i].old.n)
			jout_kstr(j, "old", it->changes[i].old);
		if (it->changes[i].new.n)
			jout_kstr(j, "new", it->changes[i].new);
		jout_close(j, '}');
	}
	jout_close(j, ']');
	if (it->more_changes)
		jout_kint(j, "more_changes", it->more_changes);
}

static void item_write(struct http_req *r, struct json_out *j, const struct engine_preview_item *it,
                       const struct engine_edit *e)
{
	jout_open(j, '{');
	jout_kz(j, "dlq_id", it->d.dlq_id);
	jout_kstr(j, "id", it->d.id);
	jout_kstr(j, "queue", it->d.queue);
	if (it->failed)
		jout_kstr(j, "error", it->error);
	if (it->over_limit)
		jout_kbool(j, "over_limit", true);
	if (!it->failed) {
		changes_write(j, it);
		headers_write(r, j, &it->d, e);
	}
	if (it->warning.n)
		jout_kstr(j, "warning", it->warning);
	jout_close(j, '}');
}

static void preview_done(struct http_req *r)
{
	struct json_out j;
	const struct wish *w = r->u.wish;
	const struct engine_scan *scan = &r->op.u.preview.scan;
	answer_begin(r, &j);
	jout_open(&j, '{');
	jout_kint(&j, "looked", scan->looked);
	jout_kint(&j, "selected", r->op.u.preview.selected);
	jout_kint(&j, "changed", r->op.u.preview.changed);
	jout_kint(&j, "unchanged", r->op.u.preview.unchanged);
	jout_kint(&j, "failed", r->op.u.preview.failed);
	jout_kint(&j, "over_limit", r->op.u.preview.over_limit);
	jout_key(&j, "items");
	jout_open(&j, '[');
	for (int i = 0; i < r->op.u.preview.n; i++)
		item_write(r, &j, &r->op.u.preview.items[i], &w->edit);
	jout_close(&j, ']');
	scan_write(&j, scan, w->sel.where);
	cursor_int(&j, 'p', r->op.u.preview.next_no);
	jout_close(&j, '}');
	answer_json(r, 200);
}

static void preview(struct http_req *r)
{
	const struct wish *w = r->u.wish;
	memset(&r->op.u, 0, sizeof r->op.u);
	r->op.queue = w->queue;
	r->op.u.preview.sel = w->sel;
	r->op.u.preview.action = w->action;
	r->op.u.preview.edit = w->edit;
	r->op.u.preview.override_limit = w->override_limit;
	r->op.u.preview.limit = w->preview_limit;
	r->op.u.preview.before_no = w->preview_before;
	request_submit(r, OP_PREVIEW, preview_done);
}

static void read_cursor(struct http_req *r, struct json_pull *j, int64_t *n)
{
	struct str s;
	if (jp_str(j, &s) && (!s.n || !cursor_parse(&r->arena, s, 'p', n)))
		jp_fail(j, DLQ_BAD_REQUEST, "the cursor is not one of a preview; give the \"next\" of its last step");
}

void api_redrive_preview(struct http_req *r)
{
	static const char *const known[] = {WISH_KEYS, "limit", "cursor", "override"};
	struct wish *w = wish_new(r);
	struct json_pull j;
	struct str key;
	unsigned seen = 0;
	int64_t limit = PREVIEW_ITEMS;
	w->must_name_queue = true;
	if (jin_begin(r, &j)) {
		while (jp_key(&j, &key)) {
			int f = jp_field(&j, key, known, ARRAY_LEN(known), &seen);
			if (f >= WISH_FIELDS && jp_null(&j))
				continue;
			if (f == WISH_FIELDS)
				jp_int(&j, 0, PREVIEW_ITEMS_MAX, &limit);
			else if (f == WISH_FIELDS + 1)
				read_cursor(r, &j, &w->preview_before);
			else if (f == WISH_FIELDS + 2)
				jp_bool(&j, &w->override_limit);
			else
				wish_field(r, &j, f, &seen, w);
		}
	}
	w->preview_limit = (int)limit;
	wish_check(&j, seen, w);
	if (!j.failed && w->override_limit && w->action != ACTION_REDRIVE)
		jp_fail(&j, DLQ_BAD_REQUEST, "\"override\" goes with the action redrive, not with %s", redrive_action_name(w->action));
	if (jin_end(r, &j))
		wish_allow(r, w, preview);
}
