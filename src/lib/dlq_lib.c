/* dlq_lib.c - libdlq: the public functions over engine_call. The data folder's one engine runs on its own threads. */
#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "dlq/dlq.h"
#include "engine/engine.h"
#include "engine/record.h"

struct dlq {
	struct clock *clock;
	struct engine *engine;
};

/* A delivery and the operation whose arena holds its text. */
struct lib_delivery {
	struct dlq_delivery pub; /* first */
	struct engine_op op;
};

const char *dlq_version(void)
{
	return DLQ_VERSION;
}

const char *dlq_code_name(enum dlq_code code)
{
	return code_name(code);
}

enum dlq_code dlq_open(const struct dlq_options *options, struct dlq **out, struct dlq_err *err)
{
	struct dlq_err local = {0};
	err = err ? err : &local;
	*out = NULL;
	if (!options || !options->dir || !options->dir[0])
		return err_set(err, DLQ_BAD_REQUEST, "dlq_open: options.dir is missing; name the data folder");
	struct dlq *d = mem_alloc(sizeof(*d));
	d->clock = clock_real_new();
	struct engine_options eo = {.dir = options->dir, .clock = d->clock};
	enum dlq_code c = engine_open(&eo, &d->engine, err);
	if (!c)
		c = engine_start(d->engine, err);
	if (c) {
		dlq_close(d);
		return c;
	}
	*out = d;
	return DLQ_OK;
}

void dlq_close(struct dlq *d)
{
	if (!d)
		return;
	engine_close(d->engine);
	clock_free(d->clock);
	mem_free(d);
}

/* Runs op and tells err why it was refused. */
static enum dlq_code call(struct dlq *d, struct engine_op *op, struct dlq_err *err)
{
	engine_call(d->engine, op);
	if (op->code && err) {
		*err = op->err;
		err->code = op->code;
	}
	return op->code;
}

static enum dlq_code name_check(const char *queue, struct dlq_err *err)
{
	const char *why = queue_name_check(str_of(queue));
	return why ? err_set(err, DLQ_INVALID_NAME, "queue name: %s", why) : DLQ_OK;
}

enum dlq_code dlq_queue_put(struct dlq *d, const char *queue, const char *json, struct dlq_err *err)
{
	struct arena a = {0};
	struct doc *doc = NULL;
	struct queue_config *config = NULL;
	struct engine_op op = {.type = OP_QUEUE_PUT, .queue = str_of(queue), .operator= STR("libdlq")};
	struct dlq_err local = {0};
	err = err ? err : &local;
	enum dlq_code c = name_check(queue, err);
	if (!c && json)
		c = doc_from_json(&a, str_of(json), "queue settings", &doc, err);
	if (!c)
		c = queue_config_parse(doc, str_of(queue), (struct str){0}, &config, err);
	if (!c) {
		op.u.queue_put.config = config;
		c = call(d, &op, err);
	}
	engine_op_release(&op);
	queue_config_unref(config);
	arena_release(&a);
	return c;
}

static enum dlq_code message_check(const struct dlq_message *m, struct dlq_err *err)
{
	const char *why = m->id ? message_id_check(str_of(m->id)) : NULL;
	if (why)
		return err_set(err, DLQ_BAD_REQUEST, "message id: %s", why);
	if (m->body_len && !m->body)
		return err_set(err, DLQ_BAD_REQUEST, "body is NULL but body_len is %zu", m->body_len);
	if (m->body_len > INT_MAX / 2)
		return err_set(err, DLQ_TOO_LARGE, "the body has %zu bytes, at most %d are taken", m->body_len,
		               INT_MAX / 2);
	if (m->delay_ms < 0 || m->ttl_ms < 0)
		return err_set(err, DLQ_BAD_REQUEST, "delay_ms and ttl_ms must not be negative");
	if (m->key && strlen(m->key) > 1024)
		return err_set(err, DLQ_BAD_REQUEST, "key: 1 to 1024 bytes");
	if ((why = header_value_check(str_of(m->key))))
		return err_set(err, DLQ_BAD_REQUEST, "key: %s", why);
	if ((why = header_value_check(str_of(m->content_type))))
		return err_set(err, DLQ_BAD_REQUEST, "content_type: %s", why);
	return DLQ_OK;
}

enum dlq_code dlq_send(struct dlq *d, const char *queue, const struct dlq_message *m, char *id_out, bool *duplicate,
                       struct dlq_err *err)
{
	enum dlq_code c = message_check(m, err);
	if (c)
		return c;
	struct store_send item = {
	    .id = str_of(m->id),
	    .key = str_of(m->key),
	    .content_type = str_of(m->content_type),
	    .body = {m->body ? m->body : "", m->body_len},
	    .due = m->delay_ms,
	    .expires = m->ttl_ms,
	};
	struct engine_op op = {.type = OP_SEND, .queue = str_of(queue)};
	op.u.send.items = &item;
	op.u.send.n = 1;
	c = call(d, &op, err);
	if (!c && item.code)
		c = err_set(err, item.code, "queue %s is at its limit (max_messages or max_bytes)", queue);
	if (!c && id_out) {
		struct str id = item.id.n ? item.id : str_of(item.made_id);
		memcpy(id_out, id.p, id.n);
		id_out[id.n] = '\0';
	}
	if (!c && duplicate)
		*duplicate = item.duplicate;
	engine_op_release(&op);
	return c;
}

/* ---- delivery ---- */

static const char *text(struct arena *a, struct str s)
{
	return arena_str(a, s).p;
}

static void delivery_fill(struct lib_delivery *m)
{
	const struct engine_delivery *d = &m->op.u.receive.items[0];
	struct arena *a = &m->op.arena;
	m->pub = (struct dlq_delivery){
	    .id = text(a, d->d.id),
	    .key = d->d.key.n ? text(a, d->d.key) : NULL,
	    .content_type = d->d.content_type.n ? text(a, d->d.content_type) : NULL,
	    .receipt = d->receipt,
	    .body = d->d.body.p,
	    .body_len = d->d.body.n,
	    .attempts = d->d.attempts,
	    .redrives = d->d.redrives,
	    .received_at_ms = d->d.received_at_ms,
	    .lease_until_ms = d->lease_until_wall_ms,
	};
}

enum dlq_code dlq_receive_with(struct dlq *d, const char *queue, const struct dlq_receive_options *o,
                               struct dlq_delivery **out, struct dlq_err *err)
{
	*out = NULL;
	struct lib_delivery *m = mem_alloc(sizeof(*m));
	m->op.type = OP_RECEIVE;
	m->op.queue = str_of(queue);
	m->op.u.receive.max = 1;
	m->op.u.receive.wait_ms = o->wait_ms;
	m->op.u.receive.visibility_timeout_ms = o->visibility_timeout_ms;
	m->op.u.receive.worker = str_of(o->worker);
	m->op.u.receive.worker_version = str_of(o->worker_version);
	enum dlq_code c = call(d, &m->op, err);
	if (!c && m->op.u.receive.n) {
		delivery_fill(m);
		*out = &m->pub;
		return DLQ_OK;
	}
	dlq_delivery_free(&m->pub);
	return c;
}

enum dlq_code dlq_receive(struct dlq *d, const char *queue, const char *worker, int64_t wait_ms,
                          int64_t visibility_timeout_ms, struct dlq_delivery **out, struct dlq_err *err)
{
	struct dlq_receive_options o = {
	    .worker = worker, .wait_ms = wait_ms, .visibility_timeout_ms = visibility_timeout_ms};
	return dlq_receive_with(d, queue, &o, out, err);
}

void dlq_delivery_free(struct dlq_delivery *m)
{
	if (!m)
		return;
	struct lib_delivery *l = (struct lib_delivery *)m;
	engine_op_release(&l->op);
	mem_free(l);
}

enum dlq_code dlq_settle(struct dlq *d, const char *queue, const char *receipt, const struct dlq_settle *s,
                         char *dlq_id_out, struct dlq_err *err)
{
	static const enum outcome outcomes[] = {
	    [DLQ_OUTCOME_OK] = OUTCOME_OK,
	    [DLQ_OUTCOME_TRANSIENT] = OUTCOME_TRANSIENT,
	    [DLQ_OUTCOME_PERMANENT] = OUTCOME_PERMANENT,
	    [DLQ_OUTCOME_RELEASE] = OUTCOME_RELEASE,
	};
	if (dlq_id_out)
		dlq_id_out[0] = '\0';
	if ((unsigned)s->outcome >= ARRAY_LEN(outcomes))
		return err_set(err, DLQ_BAD_REQUEST, "the outcome %d is none of enum dlq_outcome", (int)s->outcome);
	if (s->retry_after_ms < 0)
		return err_set(err, DLQ_BAD_REQUEST, "retry_after_ms must not be negative");
	struct engine_settle_item item = {
	    .receipt = str_of(receipt),
	    .outcome = outcomes[s->outcome],
	    .retry_after_ms = s->retry_after_ms,
	    .failure = {.type = str_of(s->error_type),
	                .message = str_of(s->error_message),
	                .detail = str_of(s->error_detail),
	                .exit_code = -1,
	                .fingerprint = str_of(s->fingerprint)},
	};
	struct engine_op op = {.type = OP_SETTLE, .queue = str_of(queue)};
	op.u.settle.items = &item;
	op.u.settle.n = 1;
	enum dlq_code c = call(d, &op, err);
	if (!c && item.code)
		c = err_set(
		    err, item.code,
		    "the lease is over: settled before, or its visibility timeout passed and the message went on");
	if (!c && dlq_id_out)
		memcpy(dlq_id_out, item.dlq_id, sizeof(item.dlq_id));
	engine_op_release(&op);
	return c;
}

enum dlq_code dlq_extend(struct dlq *d, const char *queue, const char *receipt, int64_t visibility_timeout_ms,
                         struct dlq_err *err)
{
	struct engine_op op = {.type = OP_EXTEND, .queue = str_of(queue)};
	op.u.extend.receipt = str_of(receipt);
	op.u.extend.visibility_timeout_ms = visibility_timeout_ms;
	enum dlq_code c = call(d, &op, err);
	engine_op_release(&op);
	return c;
}

/* ---- dead letters ---- */

enum dlq_code dlq_redrive(struct dlq *d, const char *queue, const char *const *dlq_ids, size_t n_ids,
                          const char *operator_name, const char *reason, int64_t *count, struct dlq_err *err)
{
	if (n_ids > 1000)
		return err_set(err, DLQ_BAD_REQUEST, "%zu ids are given, at most 1000 are taken", n_ids);
	struct engine_op op = {.type = OP_REDRIVE, .queue = str_of(queue), .operator= str_of(operator_name)};
	struct str *ids = mem_array(n_ids + 1, sizeof(*ids));
	for (size_t i = 0; i < n_ids; i++)
		ids[i] = str_of(dlq_ids[i]);
	op.u.redrive.sel.ids = ids;
	op.u.redrive.sel.n_ids = (int)n_ids;
	op.u.redrive.reason = str_of(reason);
	enum dlq_code c = call(d, &op, err);
	if (!c && count)
		*count = op.u.redrive.out.total;
	engine_op_release(&op);
	mem_free(ids);
	return c;
}

enum dlq_code dlq_discard(struct dlq *d, const char *dlq_id, const char *operator_name, const char *reason,
                          struct dlq_err *err)
{
	struct engine_op op = {.type = OP_DISCARD, .operator= str_of(operator_name)};
	op.u.discard.id = str_of(dlq_id);
	op.u.discard.reason = str_of(reason);
	enum dlq_code c = call(d, &op, err);
	engine_op_release(&op);
	return c;
}

/* Only dead ones: those put back or discarded have had their answer. */
enum dlq_code dlq_dead_letters(struct dlq *d, const char *queue, int limit,
                               bool (*visit)(const char *dlq_id, const char *json, void *arg), void *arg,
                               struct dlq_err *err)
{
	struct engine_op op = {.type = OP_READ_DEAD_LIST, .queue = str_of(queue)};
	op.u.read_dead_list.filter = (struct store_dead_filter){.state = DEAD_DEAD, .reason = -1, .limit = limit};
	enum dlq_code c = call(d, &op, err);
	struct buf buf = {0};
	for (int i = 0; !c && i < op.u.read_dead_list.page.n; i++) {
		const struct store_dead *item = &op.u.read_dead_list.page.items[i];
		struct json_out j;
		buf_clear(&buf);
		jout_init(&j, &buf);
		jout_open(&j, '{');
		record_members(&j, item, d->clock, 0);
		jout_close(&j, '}');
		buf_addc(&buf, '\0');
		if (!visit(item->dlq_id, buf.p, arg))
			break;
	}
	buf_release(&buf);
	engine_op_release(&op);
	return c;
}
