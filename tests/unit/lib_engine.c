/* An engine in a temporary folder. */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jq/jq_child.h"
#include "lib_engine.h"

/* ---- a port to wait at ---- */

static void inbox_post(struct op_port *port, struct engine_op *list)
{
	struct inbox *in = (struct inbox *)port;
	pthread_mutex_lock(&in->lock);
	in->posts++;
	for (struct engine_op *op = list, *next; op; op = next) {
		next = op->next;
		op_list_push(&in->head, &in->tail, op);
	}
	pthread_cond_signal(&in->cond);
	pthread_mutex_unlock(&in->lock);
}

void inbox_init(struct inbox *in)
{
	*in = (struct inbox){.port.post = inbox_post};
	pthread_mutex_init(&in->lock, NULL);
	pthread_cond_init(&in->cond, NULL);
}

struct engine_op *inbox_try(struct inbox *in)
{
	pthread_mutex_lock(&in->lock);
	struct engine_op *op = in->head;
	if (op) {
		in->head = op->next;
		if (!in->head)
			in->tail = NULL;
	}
	pthread_mutex_unlock(&in->lock);
	return op;
}

/* The next one that comes back; the test's time limit ends a wait that never does. */
struct engine_op *inbox_wait(struct inbox *in)
{
	pthread_mutex_lock(&in->lock);
	while (!in->head)
		pthread_cond_wait(&in->cond, &in->lock);
	pthread_mutex_unlock(&in->lock);
	return inbox_try(in);
}

/* ---- an engine in a temporary folder ---- */

void fix_open(struct fix *f)
{
	struct dlq_err err = {0};
	f->o.store = "sqlite";
	f->o.dir = f->dir;
	f->o.clock = f->clock;
	f->o.no_sync = true;
	f->o.jq_program = "/proc/self/exe";
	if (engine_open(&f->o, &f->e, &err) || engine_start(f->e, &err))
		fail_msg("%s", err.detail);
}

struct fix *fix_new(const struct engine_options *o)
{
	struct fix *f = mem_alloc(sizeof(*f));
	if (o)
		f->o = *o;
	snprintf(f->dir, sizeof(f->dir), "/tmp/dlq-engine-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	f->clock = f->o.single_step ? clock_manual_new(1800000000000) : clock_real_new();
	inbox_init(&f->in);
	fix_open(f);
	return f;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

void fix_free(struct fix *f)
{
	engine_close(f->e);
	clock_free(f->clock);
	nftw(f->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	mem_free(f);
}

struct queue_config *fix_config(const char *name, const char *json)
{
	struct arena a = {0};
	struct doc *d = NULL;
	struct queue_config *config = NULL;
	struct dlq_err err = {0};
	if (doc_from_json(&a, str_of(json), "test", &d, &err) ||
	    queue_config_parse(d, str_of(name), (struct str){0}, &config, &err))
		fail_msg("%s", err.detail);
	arena_release(&a);
	return config;
}

enum dlq_code fix_queue(struct fix *f, const char *name, const char *json)
{
	struct queue_config *config = fix_config(name, json);
	struct engine_op op = {.type = OP_QUEUE_PUT, .queue = str_of(name), .operator= STR("test")};
	op.u.queue_put.config = config;
	engine_call(f->e, &op);
	engine_op_release(&op);
	queue_config_unref(config);
	return op.code;
}

enum dlq_code fix_send(struct fix *f, const char *queue, const char *body, char id[ULID_LEN + 1])
{
	struct store_send item = {.body = str_of(body)};
	struct engine_op op = {.type = OP_SEND, .queue = str_of(queue)};
	op.u.send.items = &item;
	op.u.send.n = 1;
	engine_call(f->e, &op);
	engine_op_release(&op);
	if (id)
		memcpy(id, item.made_id, sizeof(item.made_id));
	return op.code ? op.code : item.code;
}

void receive_init(struct engine_op *op, struct fix *f, const char *queue, int64_t wait)
{
	*op = (struct engine_op){.type = OP_RECEIVE, .queue = str_of(queue), .port = &f->in.port};
	op->u.receive.max = 10;
	op->u.receive.wait_ms = wait;
	op->u.receive.worker = STR("tester");
}

/* Receives at once; -1 when refused, else how many. */
int fix_receive(struct fix *f, const char *queue, char receipt[RECEIPT_LEN + 1])
{
	struct engine_op op;
	receive_init(&op, f, queue, 0);
	engine_call(f->e, &op);
	int n = op.code ? -1 : op.u.receive.n;
	if (n > 0 && receipt)
		memcpy(receipt, op.u.receive.items[0].receipt, RECEIPT_LEN + 1);
	engine_op_release(&op);
	return n;
}

struct engine_settle_item fix_settle(struct fix *f, const char *queue, const char *receipt, enum outcome outcome)
{
	struct engine_settle_item item = {
	    .receipt = str_of(receipt), .outcome = outcome, .failure = {.type = STR("Boom"), .exit_code = -1}};
	struct engine_op op = {.type = OP_SETTLE, .queue = str_of(queue)};
	op.u.settle.items = &item;
	op.u.settle.n = 1;
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	engine_op_release(&op);
	item.receipt = (struct str){0};
	return item;
}

int64_t fix_dead_count(struct fix *f, const char *queue)
{
	struct engine_op op = {.type = OP_READ_QUEUE, .queue = str_of(queue)};
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	int64_t n = op.u.read_queue.out.counts.dead;
	engine_op_release(&op);
	return n;
}

/* Makes n dead letters; the id of the last. */
void fix_make_dead(struct fix *f, const char *queue, int n, char dlq_id[ULID_LEN + 1])
{
	for (int i = 0; i < n; i++) {
		char receipt[RECEIPT_LEN + 1];
		assert_int_equal(fix_send(f, queue, "dead", NULL), DLQ_OK);
		assert_int_equal(fix_receive(f, queue, receipt), 1);
		struct engine_settle_item it = fix_settle(f, queue, receipt, OUTCOME_PERMANENT);
		assert_int_equal(it.effect, EFFECT_DEAD);
		memcpy(dlq_id, it.dlq_id, sizeof(it.dlq_id));
	}
}

void fix_dead_with(struct fix *f, const char *queue, const struct fix_dead *d, char dlq_id[ULID_LEN + 1])
{
	char receipt[RECEIPT_LEN + 1];
	struct store_send item = {.body = str_of(d->body), .headers = str_of(d->headers), .key = str_of(d->key)};
	struct engine_op op = {.type = OP_SEND, .queue = str_of(queue)};
	op.u.send.items = &item;
	op.u.send.n = 1;
	engine_call(f->e, &op);
	assert_int_equal(op.code ? op.code : item.code, DLQ_OK);
	engine_op_release(&op);
	assert_int_equal(fix_receive(f, queue, receipt), 1);
	struct engine_settle_item it = {.receipt = str_of(receipt), .outcome = OUTCOME_PERMANENT,
	                                .failure = {.type = str_of(d->type ? d->type : "Boom"), .message = str_of(d->message), .exit_code = -1}};
	op = (struct engine_op){.type = OP_SETTLE, .queue = str_of(queue)};
	op.u.settle.items = &it;
	op.u.settle.n = 1;
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	assert_int_equal(it.effect, EFFECT_DEAD);
	engine_op_release(&op);
	if (dlq_id)
		memcpy(dlq_id, it.dlq_id, sizeof(it.dlq_id));
}

struct store_counts fix_counts(struct fix *f, const char *queue)
{
	struct engine_op op = {.type = OP_READ_QUEUE, .queue = str_of(queue)};
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	struct store_counts c = op.u.read_queue.out.counts;
	engine_op_release(&op);
	return c;
}

int fix_audited(struct fix *f, const char *action, char detail[600])
{
	struct engine_op op = {.type = OP_READ_AUDIT};
	int n = 0;
	op.u.read_audit.limit = 1000;
	engine_call(f->e, &op);
	assert_int_equal(op.code, DLQ_OK);
	for (int i = 0; i < op.u.read_audit.n; i++)
		if (str_eqz(op.u.read_audit.items[i].action, action) && !n++ && detail)
			snprintf(detail, 600, STR_FMT, STR_ARG(op.u.read_audit.items[i].detail));
	engine_op_release(&op);
	return n;
}

void fix_restart(struct fix *f)
{
	engine_close(f->e);
	fix_open(f);
}

int fix_jq_child(int argc, char **argv)
{
	return argc > 1 && !strcmp(argv[1], "jq-child") ? jq_child_main() : -1;
}
