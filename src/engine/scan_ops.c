/* scan_ops.c - lists with text and where, exports, previews, and what a redrive needs before the writer gets it. */
#include <string.h>

#include "engine/record.h"
#include "engine/scan_int.h"

#define COUNT_US 2000000 /* a dry run that has to look counts so long */

static enum dlq_code limit_check(int limit, struct dlq_err *err)
{
	if (limit < 1 || limit > 1000)
		return err_set(err, DLQ_BAD_REQUEST, "limit is %d, it must be 1 to 1000", limit);
	return DLQ_OK;
}

/* ---- lists ---- */

struct dead_out {
	struct engine_op *op;
	int limit;
};

static bool dead_take(struct scan *k, const struct scan_member *m)
{
	struct dead_out *o = k->ctx;
	struct store_dead_page *page = &o->op->u.scan_dead.page;
	dead_copy(&o->op->arena, m->d, &page->items[page->n++]);
	return page->n < o->limit;
}

/* Without `where` the store does all of it. */
static enum dlq_code dead_plain(struct scanner *s, struct scan *k, struct engine_op *op, int limit)
{
	k->f.before_no = k->before_no;
	k->f.limit = limit;
	k->f.with_body = false;
	k->f.scan_us = k->budget_us;
	k->f.scan_limit = SCAN_LOOK_MAX;
	k->f.scan_bytes = (int64_t)1 << 40; /* the time is the bound: bodies are looked into where they lie */
	enum dlq_code c = s->r->ops->read_dead_list(s->r, &k->f, &op->arena, &op->u.scan_dead.page, &op->err);
	op->u.scan_dead.scan = (struct engine_scan){.looked = op->u.scan_dead.page.scanned};
	return c;
}

enum dlq_code scan_dead(struct scanner *s, struct engine_op *op)
{
	const struct engine_selection *sel = &op->u.scan_dead.sel;
	struct store_dead_page *page = &op->u.scan_dead.page;
	int limit = sel->filter.limit;
	struct dead_out out = {op, limit};
	struct scan k = {.s = s, .queue = op->queue, .sel = sel, .before_no = sel->filter.before_no, .budget_us = SCAN_STEP_US,
	                 .take = dead_take, .ctx = &out, .out = &op->arena};
	*page = (struct store_dead_page){0};
	enum dlq_code c = limit_check(limit, &op->err);
	if (!c)
		c = plan_check(sel, NULL, &op->err);
	if (!c)
		c = scan_resolve(&k, &op->err);
	if (!c && !sel->where.n && !sel->n_ids) {
		c = dead_plain(s, &k, op, limit);
	} else if (!c) {
		page->items = arena_alloc(&op->arena, (size_t)limit * sizeof(*page->items));
		c = scan_run(&k, &op->err);
		page->next_no = k.next_no;
		page->scanned = k.told.looked;
		op->u.scan_dead.scan = k.told;
	}
	scan_end(&k);
	return c;
}

/* ---- export ---- */

struct export_out {
	struct engine_op *op;
	struct buf lines;
	int limit;
	enum dlq_code code;
};

static bool export_take(struct scan *k, const struct scan_member *m)
{
	struct export_out *o = k->ctx;
	size_t was = o->lines.n;
	struct dlq_err err = {0};
	o->code = record_line(k->s->r, m->d, 0, k->s->e->clock, &o->lines, &err);
	if (o->code == DLQ_NOT_FOUND) { /* it left between the two reads */
		o->code = DLQ_OK;
		o->lines.n = was;
		return true;
	}
	if (o->code) {
		o->op->err = err;
		return false;
	}
	return ++o->op->u.export.n < o->limit && o->lines.n < EXPORT_BYTES_MAX;
}

enum dlq_code scan_export(struct scanner *s, struct engine_op *op)
{
	const struct engine_selection *sel = &op->u.export.sel;
	struct export_out out = {.op = op, .limit = sel->filter.limit, .lines = {.max = (size_t)256 << 20}};
	struct scan k = {.s = s, .queue = op->queue, .sel = sel, .before_no = sel->filter.before_no, .budget_us = SCAN_STEP_US,
	                 .take = export_take, .ctx = &out, .out = &op->arena};
	op->u.export.n = 0;
	op->u.export.next_no = 0;
	enum dlq_code c = limit_check(out.limit, &op->err);
	if (!c)
		c = plan_check(sel, NULL, &op->err);
	if (!c)
		c = scan_resolve(&k, &op->err);
	if (!c)
		c = scan_run(&k, &op->err);
	if (!c)
		c = out.code;
	op->u.export.lines = arena_str(&op->arena, buf_str(&out.lines));
	op->u.export.next_no = k.next_no;
	op->u.export.scan = k.told;
	buf_release(&out.lines);
	scan_end(&k);
	return c;
}

/* ---- preview ---- */

static void preview_changes(struct arena *a, const struct jq_item *edit, struct engine_preview_item *it)
{
	struct preview_change *c = arena_alloc(a, ((size_t)edit->n_changes + 1) * sizeof(*c));
	for (int i = 0; i < edit->n_changes; i++) {
		c[i].path = arena_str(a, edit->changes[i].path);
		c[i].old = arena_str(a, edit->changes[i].old);
		c[i].new = arena_str(a, edit->changes[i].new);
	}
	it->changes = c;
	it->n_changes = edit->n_changes;
	it->more_changes = edit->more_changes;
	it->warning = arena_str(a, edit->warning);
}

static struct str names_of(struct arena *a, const struct store_header *set, const struct str *remove, int n)
{
	struct buf b = {0};
	for (int i = 0; i < n; i++)
		buf_addf(&b, "%s" STR_FMT, i ? ", " : "", STR_ARG(set ? set[i].name : remove[i]));
	struct str names = arena_str(a, buf_str(&b));
	buf_release(&b);
	return names;
}

static void preview_item(struct engine_op *op, const struct engine_edit *e, const struct scan_member *m)
{
	struct engine_preview_item *it = &op->u.preview.items[op->u.preview.n++];
	*it = (struct engine_preview_item){.failed = m->edit_failed, .over_limit = m->max_redrives >= 0};
	dead_copy(&op->arena, m->d, &it->d);
	if (m->edit_failed)
		it->error = arena_str(&op->arena, m->error);
	if (m->edit && m->body)
		preview_changes(&op->arena, m->edit, it);
	if (!m->headers)
		return;
	it->set = names_of(&op->arena, e->set, NULL, e->n_set);
	it->removed = names_of(&op->arena, NULL, e->remove, e->n_remove);
}

static bool preview_take(struct scan *k, const struct scan_member *m)
{
	struct engine_op *op = k->ctx;
	op->u.preview.selected++;
	if (m->max_redrives >= 0)
		op->u.preview.over_limit++;
	else if (m->edit_failed)
		op->u.preview.failed++;
	else if (m->body || m->headers)
		op->u.preview.changed++;
	else if (m->edit_tried)
		op->u.preview.unchanged++;
	if (op->u.preview.n < op->u.preview.limit)
		preview_item(op, k->edit, m);
	return true;
}

static enum dlq_code preview_check(const struct engine_op *op, struct dlq_err *err)
{
	const struct engine_edit *e = &op->u.preview.edit;
	if (op->u.preview.limit < 0 || op->u.preview.limit > 100)
		return err_set(err, DLQ_BAD_REQUEST, "limit is %d, it must be 0 to 100", op->u.preview.limit);
	if ((unsigned)op->u.preview.action >= ACTION_COUNT)
		return err_set(err, DLQ_BAD_REQUEST, "there is no such action");
	if (op->u.preview.action != ACTION_REDRIVE && (e->program.n || e->n_set || e->n_remove))
		return err_set(err, DLQ_BAD_REQUEST, "an edit goes with the action redrive, not with %s", redrive_action_name(op->u.preview.action));
	return plan_check(&op->u.preview.sel, e, err);
}

/* As a redrive refuses an id that is not there; once: one that leaves between two steps is no member. */
static enum dlq_code ids_check(struct scanner *s, struct engine_op *op)
{
	enum dlq_code c = DLQ_OK;
	struct store_dead d;
	for (int i = 0; i < op->u.preview.sel.n_ids && !op->u.preview.before_no && !c; i++)
		c = dead_by_id(s->r, op->u.preview.sel.ids[i], &op->arena, &d, &op->err);
	return c;
}

enum dlq_code scan_preview(struct scanner *s, struct engine_op *op)
{
	enum redrive_action action = op->u.preview.action;
	struct scan k = {.s = s, .queue = op->queue, .sel = &op->u.preview.sel, .edit = &op->u.preview.edit, .before_no = op->u.preview.before_no,
	                 .budget_us = SCAN_STEP_US, .take = preview_take, .ctx = op, .out = &op->arena};
	op->u.preview.selected = op->u.preview.changed = op->u.preview.unchanged = op->u.preview.failed = op->u.preview.over_limit = 0;
	op->u.preview.n = 0;
	enum dlq_code c = preview_check(op, &op->err);
	if (!c) {
		k.states = action_states(action, op->u.preview.override_limit);
		k.check_limit = action == ACTION_REDRIVE && !op->u.preview.override_limit;
		k.whole = !op->u.preview.sel.filtered;
		op->u.preview.items = arena_alloc(&op->arena, ((size_t)op->u.preview.limit + 1) * sizeof(struct engine_preview_item));
		c = scan_resolve(&k, &op->err);
	}
	if (!c)
		c = ids_check(s, op);
	if (!c)
		c = scan_run(&k, &op->err);
	op->u.preview.next_no = k.next_no;
	op->u.preview.scan = k.told;
	scan_end(&k);
	return c;
}

/* ---- before a redrive ---- */

/* What is not kept as a count has to be looked at. */
static bool must_count(const struct engine_op *op)
{
	bool more_than_dead = op->u.redrive.action == ACTION_RESTORE || (op->u.redrive.action == ACTION_REDRIVE && op->u.redrive.override_limit);
	return op->u.redrive.dry_run && !op->u.redrive.sel.n_ids && more_than_dead;
}

bool scan_first(const struct engine_op *op)
{
	return op->type == OP_REDRIVE && (op->u.redrive.sel.where.n || op->u.redrive.edit.program.n || must_count(op));
}

static bool count_take(struct scan *k, const struct scan_member *m)
{
	(void)m;
	++*(int64_t *)k->ctx;
	return true;
}

static enum dlq_code count_run(struct scan *k, struct dlq_err *err)
{
	enum dlq_code c = DLQ_OK;
	do {
		k->full = false;
		k->told.looked = 0;
		c = scan_run(k, err);
	} while (!c && k->next_no && clock_mono_us(k->s->e->clock) < k->until_us);
	if (!c && k->next_no)
		c = err_set(err, DLQ_TIMEOUT, "these are too many to count at once; the preview counts them in steps");
	return c;
}

static enum dlq_code count(struct scanner *s, struct engine_op *op)
{
	struct store_redrive *r = &op->u.redrive.out;
	struct scan k = {.s = s, .queue = op->queue, .sel = &op->u.redrive.sel, .budget_us = COUNT_US, .take = count_take, .out = &op->arena};
	*r = (struct store_redrive){.action = op->u.redrive.action};
	k.whole = !op->u.redrive.sel.filtered;
	k.states = action_states(op->u.redrive.action, op->u.redrive.override_limit);
	k.ctx = &r->total;
	enum dlq_code c = redrive_check(op);
	if (!c && !op->queue.n && !op->u.redrive.sel.group.n)
		c = err_set(&op->err, DLQ_BAD_REQUEST, "nothing is chosen: name a queue, a group or ids");
	if (!c)
		c = scan_resolve(&k, &op->err);
	if (!c)
		c = count_run(&k, &op->err);
	r->queue = arena_str(&op->arena, op->queue);
	scan_end(&k);
	return c;
}

/* The children stay: the plan is about to need them. */
enum dlq_code scan_redrive(struct scanner *s, struct engine_op *op, bool *done)
{
	struct jq_slot *slot;
	struct str where = op->u.redrive.sel.where, program = op->u.redrive.edit.program;
	enum dlq_code c = redrive_check(op);
	*done = true;
	if (!c && must_count(op))
		return count(s, op);
	if (!c && where.n) {
		c = scan_jq(s, JQ_WHERE, where, &slot, &op->err);
		if (c)
			err_prefix(&op->err, "where");
	}
	if (!c && program.n) {
		c = scan_jq(s, JQ_EDIT, program, &slot, &op->err);
		if (c)
			err_prefix(&op->err, "edit");
	}
	*done = c != DLQ_OK;
	return c;
}
