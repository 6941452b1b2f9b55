/*
 * Any body at the addresses that read JSON: it is either answered with a problem or becomes an operation whose inputs obey
 * the engine's rules. The first byte chooses the address. No engine runs.
 */
#include <string.h>

#include "http/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_send(const struct engine_op *op)
{
	ASSERT(op->u.send.n >= 1 && op->u.send.n <= 1000);
	for (int i = 0; i < op->u.send.n; i++) {
		const struct store_send *m = &op->u.send.items[i];
		ASSERT(m->body.n <= 65536 && m->due >= 0 && m->expires >= 0 && m->key.n <= 512 && m->content_type.n <= 256);
		ASSERT(!m->id.n || !message_id_check(m->id));
	}
}

static void check_op(const struct engine_op *op)
{
	switch (op->type) {
	case OP_SEND: check_send(op); break;
	case OP_RECEIVE:
		ASSERT(op->u.receive.max >= 1 && op->u.receive.max <= 1000);
		ASSERT(op->u.receive.wait_ms >= 0 && op->u.receive.wait_ms <= 60000);
		ASSERT(op->u.receive.visibility_timeout_ms == 0 || (op->u.receive.visibility_timeout_ms >= 1000 && op->u.receive.visibility_timeout_ms <= 43200000));
		break;
	case OP_SETTLE:
		ASSERT(op->u.settle.n >= 1 && op->u.settle.n <= 1000);
		for (int i = 0; i < op->u.settle.n; i++)
			ASSERT(op->u.settle.items[i].outcome <= OUTCOME_RELEASE && op->u.settle.items[i].retry_after_ms >= 0);
		break;
	case OP_EXTEND: ASSERT(op->u.extend.receipt.n > 0); break;
	case OP_READ_DEAD: break; /* discard and redrive of one look first */
	default: ASSERT(!"an operation that none of these addresses makes");
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const starts[])(struct http_req *) = {api_batch, api_receive, api_settle, api_extend, api_dead_redrive, api_dead_discard};
	static struct http_server *s;
	static struct http_conn *c;
	if (!size)
		return 0;
	if (!s) {
		s = mem_alloc(sizeof *s);
		c = mem_alloc(sizeof *c);
		c->s = s;
		s->submit_tail = &s->submit_head;
		s->lim.max_message_bytes = 65536;
		for (int i = 0; i < LIST_COUNT; i++)
			s->lists[i].prev = s->lists[i].next = &s->lists[i];
		pthread_mutex_init(&s->idle_lock, NULL);
		pthread_cond_init(&s->idle_cond, NULL);
	}
	struct http_req *r = request_new(s);
	r->c = c;
	r->phase = PHASE_BODY;
	r->param = STR("orders");
	buf_add(&r->body, data + 1, size - 1);
	starts[data[0] % ARRAY_LEN(starts)](r);
	ASSERT(r->answered != (s->submit_head != NULL));
	if (s->submit_head) {
		ASSERT(s->submit_head == &r->op && !r->op.next);
		check_op(&r->op);
		s->submit_head = NULL;
		s->submit_tail = &s->submit_head;
		r->op_used = false; /* nothing came back that could be released */
	} else {
		ASSERT(r->status >= 400 && r->out.n > 0);
	}
	http_conn_move(s, c, LIST_NONE, 0);
	request_free(r);
	return 0;
}
