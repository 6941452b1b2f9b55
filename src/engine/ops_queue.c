/* ops_queue.c - the table of queues, and making, changing, pausing and deleting them. */
#include <string.h>

#include "engine/engine_int.h"

static uint64_t name_hash(struct str s)
{
	uint64_t h = 0xcbf29ce484222325u;
	for (size_t i = 0; i < s.n; i++)
		h = (h ^ (unsigned char)s.p[i]) * 0x100000001b3u;
	return h ^ h >> 29;
}

static size_t id_slot(const struct engine *e, int64_t id)
{
	return (size_t)((uint64_t)id * 0x9e3779b97f4a7c15u >> 20) & (e->n_buckets - 1);
}

struct equeue *equeue_find(struct engine *e, struct str name)
{
	if (!e->n_buckets)
		return NULL;
	uint64_t h = name_hash(name);
	for (struct equeue *q = e->by_name[h & (e->n_buckets - 1)]; q; q = q->hash_next)
		if (q->hash == h && str_eq(q->name, name))
			return q;
	return NULL;
}

struct equeue *equeue_by_id(struct engine *e, int64_t queue_id)
{
	if (!e->n_buckets)
		return NULL;
	for (struct equeue *q = e->by_id[id_slot(e, queue_id)]; q; q = q->id_next)
		if (q->queue_id == queue_id)
			return q;
	return NULL;
}

struct equeue *equeue_need(struct engine *e, struct engine_op *op)
{
	struct equeue *q = equeue_find(e, op->queue);
	if (!q)
		err_set(&op->err, DLQ_NOT_FOUND,
		        "there is no queue %.*s; make it with PUT /v1/queues/%.*s, with `dlq queues create %.*s`, "
		        "or in the configuration file under queues",
		        (int)(op->queue.n > 64 ? 64 : op->queue.n), op->queue.p,
		        (int)(op->queue.n > 64 ? 64 : op->queue.n), op->queue.p,
		        (int)(op->queue.n > 64 ? 64 : op->queue.n), op->queue.p);
	return q;
}

bool engine_has_queue(struct engine *e, struct str name)
{
	pthread_rwlock_rdlock(&e->table_lock);
	bool yes = equeue_find(e, name) != NULL;
	pthread_rwlock_unlock(&e->table_lock);
	return yes;
}

int engine_queue_snapshot(struct engine *e, struct queue_config ***out)
{
	pthread_rwlock_rdlock(&e->table_lock);
	int n = 0;
	*out = mem_array((size_t)e->n_queues + 1, sizeof(**out));
	for (size_t i = 0; i < e->n_buckets; i++)
		for (struct equeue *q = e->by_name[i]; q; q = q->hash_next)
			(*out)[n++] = queue_config_ref(q->config);
	pthread_rwlock_unlock(&e->table_lock);
	return n;
}

/* ---- the table; table_lock held for writing, or no other thread yet ---- */

static void table_link(struct engine *e, struct equeue *q)
{
	struct equeue **a = &e->by_name[q->hash & (e->n_buckets - 1)], **b = &e->by_id[id_slot(e, q->queue_id)];
	q->hash_next = *a;
	*a = q;
	q->id_next = *b;
	*b = q;
}

static void table_grow(struct engine *e)
{
	struct equeue **old = e->by_name;
	size_t n_old = e->n_buckets;
	e->n_buckets = n_old ? n_old * 2 : 64;
	mem_free(e->by_id);
	e->by_name = mem_array(e->n_buckets, sizeof(*e->by_name));
	e->by_id = mem_array(e->n_buckets, sizeof(*e->by_id));
	for (size_t i = 0; i < n_old; i++)
		for (struct equeue *q = old[i], *next; q; q = next) {
			next = q->hash_next;
			table_link(e, q);
		}
	mem_free(old);
}

static struct equeue *table_add(struct engine *e, struct str name, int64_t queue_id, struct queue_config *config,
                                bool paused)
{
	if ((size_t)e->n_queues >= e->n_buckets)
		table_grow(e);
	struct equeue *q = mem_alloc(sizeof(*q));
	ASSERT(name.n < sizeof(q->name_buf));
	memcpy(q->name_buf, name.p, name.n);
	q->name = (struct str){q->name_buf, name.n};
	q->hash = name_hash(name);
	q->queue_id = queue_id;
	q->ordered = config->ordered;
	q->config = queue_config_ref(config);
	atomic_init(&q->paused, paused);
	q->due_gen = e->due_gen - 1;
	table_link(e, q);
	e->n_queues++;
	return q;
}

static void table_remove(struct engine *e, struct equeue *q)
{
	struct equeue **p = &e->by_name[q->hash & (e->n_buckets - 1)];
	while (*p != q)
		p = &(*p)->hash_next;
	*p = q->hash_next;
	p = &e->by_id[id_slot(e, q->queue_id)];
	while (*p != q)
		p = &(*p)->id_next;
	*p = q->id_next;
	e->n_queues--;
	queue_config_unref(q->config);
	mem_free(q);
}

static enum dlq_code config_reparse(const struct engine *e, struct str json, struct str name, struct queue_config **out,
                                    struct dlq_err *err)
{
	struct arena a = {0};
	struct doc *d = NULL;
	enum dlq_code c = doc_from_json(&a, json, "stored settings", &d, err);
	if (!c)
		c = queue_config_parse(d, name, str_of(e->on_dead_letter), out, err);
	if (!c)
		(*out)->from_file = false;
	arena_release(&a);
	return c;
}

enum dlq_code queues_load(struct engine *e, struct dlq_err *err)
{
	struct arena a = {0};
	struct store_queue *list = NULL;
	int n = 0;
	enum dlq_code c = e->ops->queue_load(e->store, &a, &list, &n, err);
	for (int i = 0; i < n && !c; i++) {
		struct queue_config *config = NULL;
		c = config_reparse(e, list[i].config, list[i].name, &config, err);
		if (c) {
			err_prefix(err, "the stored settings of queue " STR_FMT, STR_ARG(list[i].name));
			c = err->code = DLQ_STORE_CORRUPT;
			break;
		}
		config->ordered = list[i].ordered;
		table_add(e, list[i].name, list[i].queue_id, config, list[i].paused);
		queue_config_unref(config);
	}
	arena_release(&a);
	return c;
}

void queues_free(struct engine *e)
{
	for (size_t i = 0; i < e->n_buckets; i++)
		for (struct equeue *q = e->by_name[i], *next; q; q = next) {
			next = q->hash_next;
			queue_config_unref(q->config);
			mem_free(q);
		}
	mem_free(e->by_name);
	mem_free(e->by_id);
}

/* ---- put ---- */

static struct str config_json(const struct queue_config *config, struct buf *buf)
{
	struct json_out j;
	jout_init(&j, buf);
	queue_config_write(config, &j);
	return buf_str(buf);
}

/* Writes the settings; *queue_id of a new queue, or of the one there is. */
static enum dlq_code put_store(struct engine *e, struct batch *b, const struct engine_op *op,
                               const struct queue_config *config, const struct equeue *q, int64_t *queue_id,
                               struct dlq_err *err)
{
	struct buf buf = {0};
	struct str json = config_json(config, &buf);
	enum dlq_code c = batch_tx(e, b, err);
	if (!c && q) {
		*queue_id = q->queue_id;
		c = e->ops->queue_update(e->store, q->queue_id, json, err);
	} else if (!c) {
		c = e->ops->queue_create(e->store, config->name, json, config->ordered, queue_id, err);
	}
	if (!c)
		c = audit_row(e, b, op, q ? "queue.update" : "queue.create", config->name, (struct str){0},
		              (struct str){0}, json, err);
	buf_release(&buf);
	return c;
}

static enum dlq_code put_check(const struct queue_config *config, const struct equeue *q, struct dlq_err *err)
{
	const char *why = queue_name_check(config->name);
	if (why)
		return err_set(err, DLQ_INVALID_NAME, "queue name: %s", why);
	if (q && q->ordered != config->ordered)
		return err_set(
		    err, DLQ_CONFLICT,
		    "queue " STR_FMT
		    " was made with ordered: %s, which cannot change; make another queue and redrive or resend into it",
		    STR_ARG(q->name), q->ordered ? "true" : "false");
	return DLQ_OK;
}

/* After the commit: the table follows the store. */
static void table_put(struct engine *e, struct queue_config *config, int64_t queue_id)
{
	struct equeue *q = equeue_by_id(e, queue_id);
	pthread_rwlock_wrlock(&e->table_lock);
	if (q) {
		struct queue_config *old = q->config;
		q->config = queue_config_ref(config);
		q->room_wanted = false;
		q->due_gen = e->due_gen - 1;
		queue_config_unref(old);
	} else {
		table_add(e, config->name, queue_id, config, false);
	}
	pthread_rwlock_unlock(&e->table_lock);
}

static void put_after(struct engine *e, struct engine_op *op)
{
	int64_t *id = op->u.queue_put.engine_id;
	table_put(e, op->u.queue_put.config, *id);
}

enum dlq_code op_queue_put(struct engine *e, struct batch *b, struct engine_op *op)
{
	struct queue_config *config = op->u.queue_put.config;
	struct equeue *q = equeue_find(e, config->name);
	if (q && q->config->from_file && !op->u.queue_put.from_file)
		return err_set(&op->err, DLQ_CONFLICT,
		               "queue " STR_FMT " is defined in the configuration file; change it there and reload",
		               STR_ARG(q->name));
	enum dlq_code c = put_check(config, q, &op->err);
	if (c)
		return c;
	if (config->on_dead_letter_default)
		config->on_dead_letter = arena_str(&config->arena, str_of(e->on_dead_letter));
	op->u.queue_put.created = !q;
	op->u.queue_put.engine_id = arena_alloc(&op->arena, sizeof(int64_t));
	c = put_store(e, b, op, config, q, op->u.queue_put.engine_id, &op->err);
	if (c)
		return c;
	config->from_file = op->u.queue_put.from_file;
	b->after = put_after;
	b->after_op = op;
	return DLQ_OK;
}

/* ---- delete, pause ---- */

static void delete_after(struct engine *e, struct engine_op *op)
{
	struct equeue *q = equeue_find(e, op->queue);
	pthread_rwlock_wrlock(&e->table_lock);
	table_remove(e, q);
	pthread_rwlock_unlock(&e->table_lock);
}

enum dlq_code op_queue_delete(struct engine *e, struct batch *b, struct engine_op *op)
{
	struct equeue *q = equeue_need(e, op);
	if (!q)
		return DLQ_NOT_FOUND;
	if (q->config->from_file)
		return err_set(&op->err, DLQ_CONFLICT,
		               "queue " STR_FMT " is defined in the configuration file; take it out there and reload",
		               STR_ARG(q->name));
	enum dlq_code c = batch_tx(e, b, &op->err);
	if (!c)
		c = e->ops->queue_delete(e->store, q->queue_id, &op->err);
	if (!c)
		c = audit_row(e, b, op, "queue.delete", q->name, (struct str){0}, (struct str){0}, (struct str){0},
		              &op->err);
	if (c)
		return c;
	/* Now, not after the commit: this very batch would serve them from a queue that the store no longer has. */
	park_flush(e, b, q, DLQ_NOT_FOUND, "the queue was deleted while the receive waited");
	b->after = delete_after;
	b->after_op = op;
	return DLQ_OK;
}

static void pause_after(struct engine *e, struct engine_op *op)
{
	struct equeue *q = equeue_find(e, op->queue);
	ASSERT(q); /* it was there when the operation was applied, and only this thread removes */
	q->paused = op->u.queue_pause.paused;
	q->due_gen = e->due_gen - 1;
}

enum dlq_code op_queue_pause(struct engine *e, struct batch *b, struct engine_op *op)
{
	struct equeue *q = equeue_need(e, op);
	if (!q)
		return DLQ_NOT_FOUND;
	bool paused = op->u.queue_pause.paused;
	enum dlq_code c = batch_tx(e, b, &op->err);
	if (!c)
		c = e->ops->queue_pause(e->store, q->queue_id, paused, &op->err);
	if (!c)
		c = audit_row(e, b, op, paused ? "queue.pause" : "queue.resume", q->name, (struct str){0},
		              (struct str){0}, (struct str){0}, &op->err);
	if (c)
		return c;
	b->after = pause_after;
	b->after_op = op;
	return DLQ_OK;
}

/* ---- the queues of the configuration file ---- */

static enum dlq_code apply_check(struct engine *e, struct engine_op *op)
{
	for (int i = 0; i < op->u.apply_queues.n; i++) {
		struct queue_config *config = op->u.apply_queues.list[i];
		enum dlq_code c = put_check(config, equeue_find(e, config->name), &op->err);
		if (c)
			return c;
		for (int k = 0; k < i; k++)
			if (str_eq(op->u.apply_queues.list[k]->name, config->name))
				return err_set(&op->err, DLQ_INVALID_SETTING,
				               "queue " STR_FMT " is defined twice; keep one", STR_ARG(config->name));
	}
	return DLQ_OK;
}

static bool apply_names(const struct engine_op *op, struct str name)
{
	for (int i = 0; i < op->u.apply_queues.n; i++)
		if (str_eq(op->u.apply_queues.list[i]->name, name))
			return true;
	return false;
}

/* The settings of the queue as if they came by PUT now: not from the file any more, with the default of today. */
static void config_renew(struct engine *e, struct equeue *q)
{
	struct buf buf = {0};
	struct queue_config *config = NULL;
	struct dlq_err err = {0};
	if (!config_reparse(e, config_json(q->config, &buf), q->name, &config, &err)) {
		table_put(e, config, q->queue_id);
		queue_config_unref(config);
	}
	buf_release(&buf);
}

static void apply_after(struct engine *e, struct engine_op *op)
{
	const int64_t *ids = op->u.apply_queues.ids;
	struct str url = op->u.apply_queues.on_dead_letter;
	mem_free(e->on_dead_letter);
	e->on_dead_letter = url.n ? mem_strdup(url) : NULL;
	for (int i = 0; i < op->u.apply_queues.n; i++)
		table_put(e, op->u.apply_queues.list[i], ids[i]);
	struct equeue **all = mem_array((size_t)e->n_queues + 1, sizeof(*all));
	int n = 0;
	for (size_t i = 0; i < e->n_buckets; i++)
		for (struct equeue *q = e->by_name[i]; q; q = q->hash_next)
			all[n++] = q;
	for (int i = 0; i < n; i++) {
		const struct queue_config *config = all[i]->config;
		bool other_url = config->on_dead_letter_default && !str_eq(config->on_dead_letter, url);
		if ((config->from_file || other_url) && !apply_names(op, all[i]->name))
			config_renew(e, all[i]);
	}
	mem_free(all);
}

/* Unchanged settings cost no write and no audit row: every start of the server comes through here. */
static bool put_changes(struct engine *e, const struct equeue *q, const struct queue_config *config)
{
	(void)e;
	struct buf a = {0}, b = {0};
	bool same = q && str_eq(config_json(q->config, &a), config_json(config, &b));
	buf_release(&a);
	buf_release(&b);
	return !same;
}

enum dlq_code op_apply_queues(struct engine *e, struct batch *b, struct engine_op *op)
{
	enum dlq_code c = apply_check(e, op);
	op->u.apply_queues.ids = arena_alloc(&op->arena, (size_t)(op->u.apply_queues.n + 1) * sizeof(int64_t));
	for (int i = 0; i < op->u.apply_queues.n && !c; i++) {
		struct queue_config *config = op->u.apply_queues.list[i];
		struct equeue *q = equeue_find(e, config->name);
		config->from_file = true;
		if (put_changes(e, q, config))
			c = put_store(e, b, op, config, q, &op->u.apply_queues.ids[i], &op->err);
		else
			op->u.apply_queues.ids[i] = q->queue_id;
	}
	if (c)
		return c;
	b->after = apply_after;
	b->after_op = op;
	return DLQ_OK;
}

enum dlq_code engine_apply_queues(struct engine *e, struct queue_config **list, int n, struct str on_dead_letter,
                                  struct dlq_err *err)
{
	struct engine_op op = {.type = OP_APPLY_QUEUES, .operator= STR("configuration file")};
	op.u.apply_queues.list = list;
	op.u.apply_queues.n = n;
	op.u.apply_queues.on_dead_letter = on_dead_letter;
	engine_call(e, &op);
	if (op.code)
		err_set(err, op.code, "%s", op.err.detail);
	engine_op_release(&op);
	return op.code;
}
