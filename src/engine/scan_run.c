/*
 * scan_run.c - looking at candidates: pages from the store (or the ids themselves), newest first; `where` and the edit by jq in
 * batches; every member to `take`. A step ends where the time is over, and says where the next one goes on.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/record.h"
#include "engine/scan_int.h"

#define PAGE_MAX 512

unsigned action_states(enum redrive_action action, bool override_limit)
{
	if (action == ACTION_RESTORE)
		return 1u << DEAD_DISCARDED | 1u << DEAD_ARCHIVED;
	return 1u << DEAD_DEAD | (action == ACTION_REDRIVE && override_limit ? 1u << DEAD_ARCHIVED : 0);
}

struct store_dead *dead_copy(struct arena *a, const struct store_dead *d, struct store_dead *to)
{
	*to = *d;
	struct str *texts[] = {&to->queue, &to->id, &to->key, &to->content_type, &to->headers, &to->error_type, &to->message, &to->worker,
	                       &to->edited_headers, &to->imported_id, &to->redrive_id, &to->operator, &to->why};
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		*texts[i] = arena_str(a, *texts[i]);
	to->body = (struct str){0};
	return to;
}

/* ---- names to numbers ---- */

static enum dlq_code queue_resolve(struct scan *k, struct dlq_err *err)
{
	struct engine *e = k->s->e;
	struct engine_op named = {.queue = k->queue};
	if (!k->queue.n)
		return DLQ_OK;
	pthread_rwlock_rdlock(&e->table_lock);
	struct equeue *q = equeue_need(e, &named);
	k->f.queue_id = q ? q->queue_id : 0;
	pthread_rwlock_unlock(&e->table_lock);
	if (!q && err)
		*err = named.err;
	return q ? DLQ_OK : DLQ_NOT_FOUND;
}

static enum dlq_code group_resolve(struct scan *k, struct dlq_err *err)
{
	struct store_group g;
	if (!k->sel->group.n)
		return DLQ_OK;
	enum dlq_code c = group_by_text(k->s->r, k->sel->group, &k->page, &g, err);
	if (!c && k->queue.n && !str_eq(k->queue, g.queue))
		c = err_set(err, DLQ_NOT_FOUND, "group " STR_FMT " is of queue " STR_FMT ", not of " STR_FMT, STR_ARG(k->sel->group),
		            STR_ARG(g.queue), STR_ARG(k->queue));
	if (c)
		return c;
	k->f.group_id = g.group_id;
	k->f.queue_id = g.queue_id;
	return DLQ_OK;
}

static enum dlq_code redrive_resolve(struct scan *k, struct dlq_err *err)
{
	struct store_redrive r;
	struct str id = k->sel->undo.n ? k->sel->undo : k->sel->redrive;
	if (!id.n)
		return DLQ_OK;
	enum dlq_code c = redrive_by_id(k->s->r, id, &k->page, &r, err);
	k->f.redrive_n = c ? 0 : r.n;
	return c;
}

/* One state the store can look for; several are sorted out here. */
static int one_state(unsigned states)
{
	for (int i = 0; i < DEAD_STATE_COUNT; i++)
		if (states == 1u << i)
			return i;
	return -1;
}

#define OPEN_TRIES 3

static enum dlq_code where_open(struct scan *k, struct dlq_err *err)
{
	enum dlq_code c = k->sel->where.n ? scan_jq(k->s, JQ_WHERE, k->sel->where, &k->where, err) : DLQ_OK;
	if (c)
		err_prefix(err, "where");
	return c;
}

/* A child that is killed while the other one starts leaves its slot, which may be the other one's now: then both again. */
static enum dlq_code programs_open(struct scan *k, struct dlq_err *err)
{
	bool edits = k->edit && k->edit->program.n;
	enum dlq_code c = DLQ_OK;
	for (int i = 0; i < OPEN_TRIES && !c; i++) {
		c = where_open(k, err);
		if (!c && edits) {
			c = scan_jq(k->s, JQ_EDIT, k->edit->program, &k->program, err);
			if (c)
				err_prefix(err, "edit");
		}
		if (!c && (!k->where || (k->where->jq && k->where != k->program)))
			return DLQ_OK;
	}
	if (!c)
		c = err_set(err, DLQ_SYSTEM, "the process that runs jq is killed again and again");
	k->by_jq = true;
	return c;
}

enum dlq_code scan_resolve(struct scan *k, struct dlq_err *err)
{
	k->f = k->whole ? (struct store_dead_filter){.state = -1, .reason = -1} : k->sel->filter;
	k->until_us = clock_mono_us(k->s->e->clock) + k->budget_us;
	if (k->f.state >= 0)
		k->states = k->states ? k->states & 1u << k->f.state : 1u << k->f.state;
	k->f.state = k->states ? one_state(k->states) : -1;
	enum dlq_code c = queue_resolve(k, err);
	if (!c)
		c = group_resolve(k, err);
	if (!c)
		c = redrive_resolve(k, err);
	if (!c && k->f.key.n && !k->f.queue_id)
		c = err_set(err, DLQ_BAD_REQUEST, "key is looked up within one queue; give queue as well");
	arena_reset(&k->page);
	return c ? c : programs_open(k, err);
}

void scan_end(struct scan *k)
{
	arena_release(&k->page);
	arena_release(&k->work);
}

/* ---- pages of candidates ---- */

static bool with_body(const struct scan *k)
{
	return k->where || k->program;
}

static int batch_of(const struct scan *k)
{
	int n = SCAN_BATCH_MAX;
	if (k->where && k->where->batch < n)
		n = k->where->batch;
	if (k->program && k->program->batch < n)
		n = k->program->batch;
	return n;
}

static int cmp_no(const void *a, const void *b)
{
	int64_t x = ((const struct store_dead *)a)->died_no, y = ((const struct store_dead *)b)->died_no;
	return x > y ? -1 : x < y;
}

/* Chosen ids are few: all are looked up for every page. What is gone is no member. */
static enum dlq_code page_of_ids(struct scan *k, int limit, struct store_dead_page *page, struct dlq_err *err)
{
	struct store_reader *r = k->s->r;
	struct str type;
	int n = 0;
	enum dlq_code c = DLQ_OK;
	page->items = arena_alloc(&k->page, (size_t)k->sel->n_ids * sizeof(*page->items));
	for (int i = 0; i < k->sel->n_ids && !c; i++) {
		struct store_dead *d = &page->items[n];
		struct dlq_err gone;
		c = dead_by_id(r, k->sel->ids[i], &k->page, d, &gone);
		if (!c && (!k->before_no || d->died_no < k->before_no) && (!k->f.queue_id || d->queue_id == k->f.queue_id))
			n++;
		if (c && c != DLQ_NOT_FOUND && err)
			*err = gone;
		c = c == DLQ_NOT_FOUND ? DLQ_OK : c;
	}
	qsort(page->items, (size_t)n, sizeof(*page->items), cmp_no);
	page->n = n < limit ? n : limit;
	page->next_no = page->n < n ? page->items[page->n - 1].died_no : 0;
	page->scanned = page->n;
	int64_t bytes = 0;
	for (int i = 0; i < page->n && !c && with_body(k); i++) {
		c = r->ops->read_body(r, page->items[i].seq, false, &k->page, &page->items[i].body, &type, err);
		c = c == DLQ_NOT_FOUND ? DLQ_OK : c; /* it left meanwhile, and is no member when the writer looks */
		bytes += (int64_t)page->items[i].body.n;
		if (!c && bytes > SCAN_PAGE_BYTES && i + 1 < page->n) {
			page->n = page->scanned = i + 1;
			page->next_no = page->items[i].died_no;
		}
	}
	return c;
}

static enum dlq_code page_get(struct scan *k, struct store_dead_page *page, struct dlq_err *err)
{
	int limit = with_body(k) ? batch_of(k) * 4 : PAGE_MAX;
	int64_t left = k->until_us - clock_mono_us(k->s->e->clock);
	*page = (struct store_dead_page){0};
	limit = limit > PAGE_MAX ? PAGE_MAX : limit;
	if (k->sel->n_ids)
		return page_of_ids(k, limit, page, err);
	k->f.before_no = k->before_no;
	k->f.limit = limit;
	k->f.with_body = with_body(k);
	k->f.scan_bytes = SCAN_PAGE_BYTES;
	k->f.scan_us = left > 1000 ? left : 1000;
	return k->s->r->ops->read_dead_list(k->s->r, &k->f, &k->page, page, err);
}

/* ---- jq ---- */

/* The message document without its body, as docs/api.md has it. */
static struct str head_of(struct scan *k, const struct store_dead *d, struct buf *text)
{
	struct json_out j;
	struct str headers = d->edited_headers.n ? d->edited_headers : d->headers;
	buf_clear(text);
	jout_init(&j, text);
	jout_open(&j, '{');
	record_members(&j, d, k->s->e->clock, k->s->e->o.expires_soon_ms);
	jout_key(&j, "headers");
	jout_raw(&j, headers.n ? headers : STR("{}"));
	jout_close(&j, '}');
	return arena_str(&k->work, buf_str(text));
}

/* `where` over list[n]: those that match stay, in order. */
static enum dlq_code run_where(struct scan *k, const struct store_dead **list, int *n, struct dlq_err *err)
{
	struct jq_item *items = arena_alloc(&k->work, (size_t)*n * sizeof(*items));
	const char **ids = arena_alloc(&k->work, (size_t)*n * sizeof(*ids));
	struct buf text = {0};
	int kept = 0;
	for (int i = 0; i < *n; i++) {
		items[i] = (struct jq_item){.head = head_of(k, list[i], &text), .body = list[i]->body};
		ids[i] = list[i]->dlq_id;
	}
	buf_release(&text);
	enum dlq_code c = scan_jq_run(k->s, k->where, items, ids, *n, &k->work, err);
	if (c) {
		k->by_jq = true;
		err_prefix(err, "where");
		return c;
	}
	for (int i = 0; i < *n; i++) {
		if (items[i].verdict == JQ_MATCH)
			list[kept++] = list[i];
		if (items[i].verdict != JQ_FAILED)
			continue;
		if (!k->told.errors++)
			k->told.first_error = arena_fmt(k->out, "dead letter %s: " STR_FMT, ids[i], STR_ARG(str_cut(items[i].error, 400)));
	}
	*n = kept;
	return DLQ_OK;
}

static void edit_headers_of(struct scan *k, struct scan_member *m)
{
	struct dlq_err why = {0};
	struct str *headers = arena_alloc(&k->work, sizeof(*headers));
	bool changed = false;
	struct str was = m->d->edited_headers.n ? m->d->edited_headers : m->d->headers;
	if (edit_headers(k->edit, was, &k->work, headers, &changed, &why)) {
		m->edit_failed = true;
		m->error = arena_str(&k->work, str_of(why.detail));
	} else if (changed) {
		m->headers = headers;
	}
}

static void edit_told(struct scan_member *m, const struct jq_item *item)
{
	m->edit = item;
	if (item->verdict == JQ_CHANGED)
		m->body = &item->new_body;
	if (item->verdict == JQ_SAME && !str_eq(item->body, m->d->body))
		m->body = &item->body; /* the original again */
	if (item->verdict == JQ_FAILED) {
		m->edit_failed = true;
		m->error = item->error;
	}
}

/* What the program gets: a repair that was wrong is made anew from the original, unless it is to be built upon. */
static enum dlq_code edit_base(struct scan *k, const struct store_dead *d, struct str *body, struct dlq_err *err)
{
	struct str type = {0};
	*body = d->body;
	if (!d->edited || !k->program || k->edit->from_edited)
		return DLQ_OK;
	return k->s->r->ops->read_body(k->s->r, d->seq, true, &k->work, body, &type, err);
}

/* The edit of those that may go back. */
static enum dlq_code run_edit(struct scan *k, struct scan_member *m, int n, struct dlq_err *err)
{
	struct jq_item *items = arena_alloc(&k->work, (size_t)n * sizeof(*items));
	const char **ids = arena_alloc(&k->work, (size_t)n * sizeof(*ids));
	int *of = arena_alloc(&k->work, (size_t)n * sizeof(*of)), asked = 0;
	enum dlq_code c = DLQ_OK;
	for (int i = 0; i < n && !c; i++) {
		if (m[i].max_redrives >= 0)
			continue;
		m[i].edit_tried = true;
		c = edit_base(k, m[i].d, &items[asked].body, err);
		if (c == DLQ_NOT_FOUND) { /* it left the store meanwhile, and is no member when the writer looks */
			c = DLQ_OK;
			m[i].edit_failed = true;
			m[i].error = STR("it has left the store");
			continue;
		}
		ids[asked] = m[i].d->dlq_id;
		of[asked++] = i;
	}
	if (c)
		return c;
	if (k->program && asked)
		c = scan_jq_run(k->s, k->program, items, ids, asked, &k->work, err);
	if (c) {
		k->by_jq = true;
		err_prefix(err, "edit");
		return c;
	}
	for (int i = 0; i < asked; i++) {
		if (k->program)
			edit_told(&m[of[i]], &items[i]);
		if (!m[of[i]].edit_failed)
			edit_headers_of(k, &m[of[i]]);
	}
	return DLQ_OK;
}

/* ---- members ---- */

/* How many redrives its queue allows, if it had as many; else -1. */
static int limit_reached(struct scan *k, const struct store_dead *d)
{
	int limit = -1;
	if (!k->check_limit)
		return -1;
	pthread_rwlock_rdlock(&k->s->e->table_lock);
	const struct equeue *q = equeue_by_id(k->s->e, d->queue_id);
	if (q && d->redrives >= q->config->policy.max_redrives)
		limit = q->config->policy.max_redrives;
	pthread_rwlock_unlock(&k->s->e->table_lock);
	return limit;
}

static bool edits_any(const struct scan *k)
{
	return k->edit && (k->edit->program.n || k->edit->n_set || k->edit->n_remove);
}

/* items[n] of a page. *taken: the died_no of the last one that take got when it has enough. */
static enum dlq_code batch_run(struct scan *k, const struct store_dead *items, int n, int64_t *taken, struct dlq_err *err)
{
	const struct store_dead **list = arena_alloc(&k->work, (size_t)n * sizeof(*list));
	struct scan_member *m = arena_alloc(&k->work, (size_t)n * sizeof(*m));
	enum dlq_code c = DLQ_OK;
	int kept = 0;
	for (int i = 0; i < n; i++)
		if (!k->states || k->states & 1u << items[i].state)
			list[kept++] = &items[i];
	if (kept && k->where)
		c = run_where(k, list, &kept, err);
	for (int i = 0; i < kept && !c; i++)
		m[i] = (struct scan_member){.d = list[i], .max_redrives = limit_reached(k, list[i])};
	if (!c && kept && edits_any(k))
		c = run_edit(k, m, kept, err);
	for (int i = 0; i < kept && !c && !k->full; i++) {
		*taken = list[i]->died_no;
		k->full = !k->take(k, &m[i]);
	}
	return c;
}

static bool time_over(const struct scan *k)
{
	return clock_mono_us(k->s->e->clock) >= k->until_us || k->told.looked >= SCAN_LOOK_MAX;
}

/* All of a page, or as much of it as there is time for; then k->next_no and k->full say where to go on. */
static enum dlq_code page_run(struct scan *k, const struct store_dead_page *page, struct dlq_err *err)
{
	int64_t looked = k->told.looked;
	for (int i = 0; i < page->n;) {
		int n = batch_of(k);
		int64_t taken = 0;
		n = n < page->n - i ? n : page->n - i;
		enum dlq_code c = batch_run(k, &page->items[i], n, &taken, err);
		arena_reset(&k->work);
		if (c)
			return c;
		i += n;
		if (k->full && taken != page->items[i - 1].died_no) {
			while (page->items[i - 1].died_no < taken)
				i--;
		}
		k->told.looked = looked + i;
		if (i < page->n && (k->full || time_over(k))) {
			k->next_no = page->items[i - 1].died_no;
			k->full = true;
			return DLQ_OK;
		}
	}
	k->told.looked = looked + page->scanned;
	k->next_no = page->next_no;
	k->full = k->full || !page->next_no || time_over(k);
	return DLQ_OK;
}

enum dlq_code scan_run(struct scan *k, struct dlq_err *err)
{
	enum dlq_code c = DLQ_OK;
	k->next_no = 0;
	while (!k->full && !c) {
		struct store_dead_page page;
		c = page_get(k, &page, err);
		if (!c)
			c = page_run(k, &page, err);
		k->before_no = k->next_no;
		arena_reset(&k->page);
	}
	return c;
}
