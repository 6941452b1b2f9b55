/*
 * read_groups.c - groups for people: with their diagnosis, which is computed from recorded facts when it is asked for
 * and kept nowhere.
 */
#include <string.h>

#include "core/diagnosis.h"
#include "core/fingerprint.h"
#include "engine/engine_int.h"
#include "engine/record.h"

#define MINUTE ((int64_t)60000)
#define HOUR (60 * MINUTE)
#define WINDOW_MAX (24 * HOUR)
#define TOGETHER_MS (5 * MINUTE) /* groups that started so close may have one cause */
#define QUEUE_GROUPS 200         /* groups of the queue that are looked at: the newest */
#define QUEUE_WORKER_GROUPS 50   /* of these, whose workers are counted */
#define QUEUE_VERSIONS 64        /* versions of workers that are told apart; later ones are left out */
#define SAMPLES 5

enum dlq_code group_missing(struct str id, struct dlq_err *err)
{
	return err_set(err, DLQ_NOT_FOUND, "there is no group %.*s; a group's id is its fingerprint, %d hex digits",
	               (int)(id.n > 64 ? 64 : id.n), id.p, FINGERPRINT_TEXT_LEN);
}

enum dlq_code group_by_text(struct store_reader *r, struct str id, struct arena *a, struct store_group *out,
                          struct dlq_err *err)
{
	uint8_t fp[16];
	enum dlq_code c = DLQ_NOT_FOUND;
	if (group_id_parse(id, fp))
		c = r->ops->read_group(r, fp, a, out, err);
	return c == DLQ_NOT_FOUND ? group_missing(id, err) : c;
}

/* ---- facts ---- */

/* What is known of one queue, read once for all of its groups in a request. */
struct queue_view {
	struct queue_view *next;
	int64_t queue_id;
	struct store_bucket *minutes;
	int n_minutes;
	struct store_group *groups;
	int n_groups;
	int workers;
	struct version {
		struct str name;
		int64_t first_ms, last_ms; /* seen failing */
	} versions[QUEUE_VERSIONS];
	int n_versions;
};

struct view {
	struct store_reader *r;
	struct arena a;
	struct queue_view *queues;
	int64_t now;
};

/* Distinct names, in a table of fixed size: past it, all the others count as one. */
struct names {
	struct str of[1024];
	int n;
	bool others;
};

static void names_add(struct names *s, struct str name)
{
	uint32_t h = 2166136261u;
	for (size_t i = 0; i < name.n; i++)
		h = (h ^ (unsigned char)name.p[i]) * 16777619u;
	for (size_t i = 0; i < ARRAY_LEN(s->of); i++) {
		struct str *at = &s->of[(h + i) % ARRAY_LEN(s->of)];
		if (at->p && str_eq(*at, name))
			return;
		if (!at->p && s->n < 768) {
			*at = name;
			s->n++;
			return;
		}
		if (!at->p)
			break;
	}
	s->others = true;
}

static void version_add(struct queue_view *q, const struct store_group_worker *w)
{
	int i = 0;
	while (i < q->n_versions && !str_eq(q->versions[i].name, w->version))
		i++;
	if (!w->version.n || i == QUEUE_VERSIONS)
		return;
	struct version *at = &q->versions[i];
	if (i == q->n_versions) {
		*at = (struct version){w->version, w->first_ms, w->last_ms};
		q->n_versions++;
	}
	at->first_ms = w->first_ms < at->first_ms ? w->first_ms : at->first_ms;
	at->last_ms = w->last_ms > at->last_ms ? w->last_ms : at->last_ms;
}

static enum dlq_code queue_workers(struct view *v, struct queue_view *q, struct dlq_err *err)
{
	struct names *names = arena_alloc(&v->a, sizeof(*names));
	enum dlq_code c = DLQ_OK;
	for (int i = 0; i < q->n_groups && i < QUEUE_WORKER_GROUPS && !c; i++) {
		struct store_group_worker *w = NULL;
		int n = 0;
		c = v->r->ops->read_group_workers(v->r, q->groups[i].group_id, &v->a, &w, &n, err);
		for (int k = 0; k < n && !c; k++) {
			names_add(names, w[k].worker.p ? w[k].worker : STR(""));
			version_add(q, &w[k]);
		}
	}
	q->workers = names->n + names->others;
	return c;
}

static enum dlq_code queue_view(struct view *v, int64_t queue_id, struct queue_view **out, struct dlq_err *err)
{
	for (*out = v->queues; *out; *out = (*out)->next)
		if ((*out)->queue_id == queue_id)
			return DLQ_OK;
	struct queue_view *q = arena_alloc(&v->a, sizeof(*q));
	struct store_group_filter f = {.queue_id = queue_id, .limit = QUEUE_GROUPS};
	struct store_group_page page = {0};
	int64_t end = v->now / MINUTE * MINUTE + MINUTE;
	q->queue_id = queue_id;
	enum dlq_code c = v->r->ops->read_buckets(v->r, queue_id, 0, MINUTE, end - WINDOW_MAX - HOUR, end, &v->a,
	                                          &q->minutes, &q->n_minutes, err);
	if (!c)
		c = v->r->ops->read_groups(v->r, &f, &v->a, &page, err);
	q->groups = page.items;
	q->n_groups = page.n;
	if (!c)
		c = queue_workers(v, q, err);
	q->next = v->queues;
	v->queues = q;
	*out = q;
	return c;
}

static void window_facts(const struct queue_view *q, const struct store_group *g, struct diagnosis_facts *f)
{
	int64_t from = g->first_seen_ms > g->last_seen_ms - WINDOW_MAX ? g->first_seen_ms : g->last_seen_ms - WINDOW_MAX;
	from = from / MINUTE * MINUTE;
	for (int i = 0; i < q->n_minutes; i++) {
		const struct store_bucket *b = &q->minutes[i];
		if (b->at_ms >= from && b->at_ms <= g->last_seen_ms) {
			f->queue_done += b->done;
			f->queue_failures += b->failures;
		} else if (b->at_ms >= from - HOUR && b->at_ms < from) {
			f->before_done += b->done;
			f->before_failures += b->failures;
		}
	}
	for (int i = 0; i < q->n_groups; i++) {
		int64_t apart = q->groups[i].first_seen_ms - g->first_seen_ms;
		if (apart > TOGETHER_MS || apart < -TOGETHER_MS)
			continue;
		f->groups_started++;
		f->groups_failures += q->groups[i].failures;
	}
	if (!f->groups_started) { /* too old for the list, or merged: it started itself */
		f->groups_started = 1;
		f->groups_failures = g->failures;
	}
}

static void worker_facts(const struct store_group_worker *w, int n, struct names *workers, struct names *versions,
                         struct diagnosis_facts *f)
{
	for (int i = 0; i < n; i++) {
		names_add(workers, w[i].worker.p ? w[i].worker : STR(""));
		if (!w[i].version.n)
			continue;
		names_add(versions, w[i].version);
	}
	f->workers = workers->n + workers->others;
	f->worker_versions = versions->n + versions->others;
}

/* With one version: since when it fails in the queue, and until when another one did. */
static void version_facts(const struct queue_view *q, const struct store_group_worker *w, int n, struct diagnosis_facts *f)
{
	int own = 0;
	if (f->worker_versions != 1)
		return;
	while (own < n && !w[own].version.n)
		own++;
	for (int i = 0; i < q->n_versions; i++) {
		const struct version *v = &q->versions[i];
		if (str_eq(v->name, w[own].version))
			f->version_first_ms = v->first_ms;
		else if (v->last_ms > f->other_version_ms)
			f->other_version_ms = v->last_ms;
	}
}

/* workers: the group's, already read, or NULL. */
static enum dlq_code diagnose_group(struct view *v, const struct store_group *g, const struct store_group_worker *workers,
                                    int n_workers, struct diagnosis *out, struct dlq_err *err)
{
	struct queue_view *q;
	struct store_group_worker *read = NULL;
	struct names *names = arena_alloc(&v->a, 2 * sizeof(*names));
	struct diagnosis_facts f = {
	    .failures = g->failures,
	    .deaths = g->deaths,
	    .recovered = g->recovered,
	    .failed_again = g->failed_again,
	    .first_seen_ms = g->first_seen_ms,
	    .last_seen_ms = g->last_seen_ms,
	    .now_ms = v->now,
	};
	enum dlq_code c = queue_view(v, g->queue_id, &q, err);
	if (!c && !workers) {
		c = v->r->ops->read_group_workers(v->r, g->group_id, &v->a, &read, &n_workers, err);
		workers = read;
	}
	if (c)
		return c;
	worker_facts(workers, n_workers, &names[0], &names[1], &f);
	version_facts(q, workers, n_workers, &f);
	f.queue_workers = q->workers > f.workers ? q->workers : f.workers;
	window_facts(q, g, &f);
	diagnose(&f, out);
	return DLQ_OK;
}

/* ---- the list ---- */

enum dlq_code read_groups(struct engine *e, struct store_reader *r, struct engine_op *op)
{
	struct store_group_filter *f = &op->u.read_groups.filter;
	struct store_group_page *page = &op->u.read_groups.page;
	struct view v = {.r = r, .now = clock_wall_ms(e->clock)};
	if (f->limit < 1 || f->limit > 1000)
		return err_set(&op->err, DLQ_BAD_REQUEST, "limit is %d, it must be 1 to 1000", f->limit);
	if (op->queue.n) {
		pthread_rwlock_rdlock(&e->table_lock);
		struct equeue *q = equeue_need(e, op);
		f->queue_id = q ? q->queue_id : 0;
		pthread_rwlock_unlock(&e->table_lock);
		if (!q)
			return DLQ_NOT_FOUND;
	}
	enum dlq_code c = r->ops->read_groups(r, f, &op->arena, page, &op->err);
	op->u.read_groups.diagnoses = arena_alloc(&op->arena, ((size_t)page->n + 1) * sizeof(struct diagnosis));
	for (int i = 0; i < page->n && !c; i++)
		c = diagnose_group(&v, &page->items[i], NULL, 0, &op->u.read_groups.diagnoses[i], &op->err);
	arena_release(&v.a);
	return c;
}

/* ---- one group ---- */

static void rules_text(const struct store_group *g, char *out, size_t size)
{
	size_t n = 0;
	out[0] = '\0';
	for (int rule = 0; rule < FP_RULE_COUNT; rule++) {
		if (!(g->rules >> rule & 1))
			continue;
		const char *text = fingerprint_rule_text((enum fingerprint_rule)rule);
		size_t len = strlen(text);
		if (n + len + 2 > size)
			return;
		if (n)
			out[n++] = '\n';
		memcpy(out + n, text, len + 1);
		n += len;
	}
}

enum dlq_code read_group(struct engine *e, struct store_reader *r, struct engine_op *op)
{
	struct store_group *g = &op->u.read_group.out;
	struct arena *a = &op->arena;
	struct view v = {.r = r, .now = clock_wall_ms(e->clock)};
	int64_t minute = v.now / MINUTE * MINUTE + MINUTE, hour = v.now / HOUR * HOUR + HOUR;
	struct store_dead_filter f = {.state = DEAD_DEAD, .reason = -1, .limit = SAMPLES};
	struct store_dead_page page = {0};
	enum dlq_code c = group_by_text(r, op->u.read_group.id, a, g, &op->err);
	if (!c && op->queue.n && !str_eq(op->queue, g->queue))
		c = group_missing(op->u.read_group.id, &op->err);
	if (c || op->u.read_group.brief)
		return c;
	if (!c)
		c = r->ops->read_buckets(r, g->queue_id, g->group_id, MINUTE, minute - HOUR, minute, a, &op->u.read_group.minutes,
		                         &op->u.read_group.n_minutes, &op->err);
	if (!c)
		c = r->ops->read_buckets(r, g->queue_id, g->group_id, HOUR, hour - 7 * 24 * HOUR, hour, a,
		                         &op->u.read_group.hours, &op->u.read_group.n_hours, &op->err);
	if (!c)
		c = r->ops->read_group_workers(r, g->group_id, a, &op->u.read_group.workers, &op->u.read_group.n_workers, &op->err);
	if (!c)
		c = r->ops->read_group_merged(r, g->group_id, a, &op->u.read_group.merged, &op->u.read_group.n_merged, &op->err);
	f.queue_id = g->queue_id;
	f.group_id = g->group_id;
	if (!c)
		c = r->ops->read_dead_list(r, &f, a, &page, &op->err);
	op->u.read_group.samples = page.items;
	op->u.read_group.n_samples = page.n;
	op->u.read_group.diagnosis = arena_alloc(a, sizeof(struct diagnosis));
	if (!c)
		c = diagnose_group(&v, g, op->u.read_group.workers, op->u.read_group.n_workers, op->u.read_group.diagnosis,
		                   &op->err);
	if (!c)
		rules_text(g, op->u.read_group.normal_rules, sizeof(op->u.read_group.normal_rules));
	arena_release(&v.a);
	return c;
}
