/* scan_import.c - reading records of an export, and finding the queue and the group of each, before the writer takes them. */
#include <string.h>

#include "engine/record.h"
#include "engine/scan_int.h"

#define OPERATOR_TEXT_MAX 128

static bool fp_given(const uint8_t fp[16])
{
	static const uint8_t none[16];
	return memcmp(fp, none, sizeof(none)) != 0;
}

/* The group it had, if that is here: what a worker called it is in no record. */
static bool group_here(struct scanner *s, const struct store_import *i, struct str queue, struct arena *a, struct store_group_key *key)
{
	struct store_group g;
	struct dlq_err none;
	if (!fp_given(i->d.group_fp) || s->r->ops->read_group(s->r, i->d.group_fp, a, &g, &none) || !str_eq(g.queue, queue))
		return false;
	*key = (struct store_group_key){.version = g.version, .rules = g.rules, .error_type = g.error_type, .normal = g.normal, .sample = g.sample};
	memcpy(key->fp, i->d.group_fp, sizeof(key->fp));
	return true;
}

/* As for a failure that happens now: by a rule of the queue, else by its text. */
static void group_make(struct arena *a, const struct queue_config *config, const struct store_attempt *at, struct store_group_key *key)
{
	struct failure f = {.type = at->error_type, .message = at->message, .detail = at->detail, .http_status = at->http_status,
	                    .exit_code = at->exit_code};
	const struct classify_rule *rule = config->policy.n_rules ? classify_find(&config->policy, &f) : NULL;
	struct str message = at->outcome == OUTCOME_LEASE_EXPIRED ? GROUP_LEASE_EXPIRED : at->message;
	group_key_make(a, config->name, at->error_type, message, at->detail, rule ? rule->fingerprint : (struct str){0}, key);
}

/* No more of it is kept than of a dead letter made here: all of it is in every list. */
static void dead_cut(struct store_dead *d)
{
	d->error_type = str_cut(d->error_type, FAILURE_TYPE_MAX);
	d->message = str_cut(d->message, FAILURE_MESSAGE_MAX);
	d->worker = str_cut(d->worker, FAILURE_TYPE_MAX);
	d->operator = str_cut(d->operator, OPERATOR_TEXT_MAX);
	d->why = str_cut(d->why, REASON_TEXT_MAX);
}

static void attempts_cut(struct store_attempt *at, int n)
{
	for (int i = 0; i < n; i++) {
		at[i].error_type = str_cut(at[i].error_type, FAILURE_TYPE_MAX);
		at[i].message = str_cut(at[i].message, FAILURE_MESSAGE_MAX);
		at[i].detail = str_cut(at[i].detail, FAILURE_DETAIL_MAX);
		at[i].worker = str_cut(at[i].worker, FAILURE_TYPE_MAX);
		at[i].worker_version = str_cut(at[i].worker_version, FAILURE_TYPE_MAX);
	}
}

static void group_find(struct scanner *s, struct store_import *i, const struct queue_config *config, struct arena *a)
{
	if (!i->n_attempts)
		return;
	struct store_attempt *at = (struct store_attempt *)i->attempts, *last = &at[i->n_attempts - 1];
	struct store_group_key *key = arena_alloc(a, sizeof(*key));
	attempts_cut(at, i->n_attempts);
	if (!group_here(s, i, config->name, a, key))
		group_make(a, config, last, key);
	last->group = key;
}

/* Its settings, one reference; NULL: there is no such queue. */
static struct queue_config *queue_take(struct engine *e, struct str name, int64_t *queue_id)
{
	struct queue_config *config = NULL;
	pthread_rwlock_rdlock(&e->table_lock);
	const struct equeue *q = equeue_find(e, name);
	if (q) {
		config = queue_config_ref(q->config);
		*queue_id = q->queue_id;
	}
	pthread_rwlock_unlock(&e->table_lock);
	return config;
}

static void import_one(struct scanner *s, struct engine_op *op, int at)
{
	struct engine_import_result *res = &op->u.import.results[at];
	struct store_import *i = &op->u.import.parsed[at];
	res->code = record_parse(&op->arena, op->u.import.records[at], i, &res->err);
	if (res->code)
		return;
	dead_cut(&i->d);
	res->queue = op->queue.n ? op->queue : i->d.queue;
	struct queue_config *config = queue_take(s->e, res->queue, &i->queue_id);
	if (!config) {
		res->code = err_set(&res->err, DLQ_NOT_FOUND, "there is no queue " STR_FMT "; make it first, or say into which one these go", STR_ARG(res->queue));
		return;
	}
	group_find(s, i, config, &op->arena);
	queue_config_unref(config);
}

enum dlq_code scan_import(struct scanner *s, struct engine_op *op)
{
	int n = op->u.import.n;
	if (n < 1 || n > IMPORT_MAX)
		return err_set(&op->err, DLQ_BAD_REQUEST, "an import holds 1 to %d records, this one %d", IMPORT_MAX, n);
	op->u.import.results = arena_alloc(&op->arena, (size_t)n * sizeof(*op->u.import.results));
	op->u.import.parsed = arena_alloc(&op->arena, (size_t)n * sizeof(*op->u.import.parsed));
	op->u.import.imported = 0;
	for (int i = 0; i < n; i++)
		import_one(s, op, i);
	return DLQ_OK;
}
