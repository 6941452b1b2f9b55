/* Receiving, settling: the busy paths of workers. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "http/http.h"
#include "http/json_in.h"

#define SETTLE_MAX 1000
#define WAIT_MAX_MS 60000

/* ---- receive ---- */

struct give_back {
	struct engine_op op; /* first: server_detach_op */
	struct engine_settle_item items[];
};

void receive_give_back(struct http_req *r)
{
	int n = r->op.u.receive.n;
	size_t text = (size_t)n * RECEIPT_LEN, head = sizeof(struct give_back) + (size_t)n * sizeof(struct engine_settle_item);
	if (n <= 0)
		return;
	struct give_back *g = mem_alloc(head + text + r->param.n);
	char *p = (char *)g + head;
	for (int i = 0; i < n; i++) {
		memcpy(p, r->op.u.receive.items[i].receipt, RECEIPT_LEN);
		g->items[i].receipt = (struct str){p, strnlen(p, RECEIPT_LEN)};
		g->items[i].outcome = OUTCOME_RELEASE;
		g->items[i].failure.exit_code = -1;
		p += RECEIPT_LEN;
	}
	memcpy(p, r->param.p, r->param.n);
	g->op.type = OP_SETTLE;
	g->op.queue = (struct str){p, r->param.n};
	g->op.u.settle.items = g->items;
	g->op.u.settle.n = n;
	server_detach_op(r->s, &g->op);
}

void receive_forget_messages(struct http_req *r)
{
	int n = r->op.u.receive.n;
	struct engine_delivery *kept = arena_alloc(&r->arena, (size_t)(n > 0 ? n : 1) * sizeof *kept);
	for (int i = 0; i < n; i++)
		memcpy(kept[i].receipt, r->op.u.receive.items[i].receipt, sizeof kept[i].receipt);
	engine_op_release(&r->op);
	r->op.u.receive.items = kept;
}

/* After a wait: whether the client hung up meanwhile, so that an answer would reach nobody. */
static bool client_gone(struct http_req *r)
{
	char c;
	return r->wait_ms > 0 && !r->c->tls && recv(r->c->fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

static void delivery_write(struct json_out *j, const struct engine_delivery *e)
{
	const struct store_delivery *d = &e->d;
	jout_open(j, '{');
	jout_kz(j, "receipt", e->receipt);
	jout_kstr(j, "id", d->id);
	if (d->key.n)
		jout_kstr(j, "key", d->key);
	jout_bytes(j, "body", d->body);
	if (d->content_type.n)
		jout_kstr(j, "content_type", d->content_type);
	if (d->headers.n) {
		jout_key(j, "headers");
		jout_raw(j, d->headers);
	}
	jout_kint(j, "attempts", d->attempts);
	jout_kint(j, "redrives", d->redrives);
	jout_ktime(j, "received_at", d->received_at_ms);
	jout_ktime(j, "lease_until", e->lease_until_wall_ms);
	jout_close(j, '}');
}

static void receive_done(struct http_req *r)
{
	struct json_out j;
	if (r->op.u.receive.n && client_gone(r)) {
		receive_give_back(r);
		r->op.u.receive.n = 0;
	}
	answer_begin(r, &j);
	jout_open(&j, '{');
	jout_key(&j, "deliveries");
	jout_open(&j, '[');
	for (int i = 0; i < r->op.u.receive.n; i++)
		delivery_write(&j, &r->op.u.receive.items[i]);
	jout_close(&j, ']');
	jout_close(&j, '}');
	answer_json(r, 200);
	if (r->status != 200)
		receive_give_back(r);
}

void api_receive(struct http_req *r)
{
	static const char *const known[] = {"max", "wait", "visibility_timeout", "worker", "worker_version"};
	struct json_pull j;
	struct str key;
	unsigned seen = 0;
	int64_t max = 1, wait = 0, visibility = 0;
	struct str worker = STR(""), version = STR("");
	if (jin_begin(r, &j)) {
		while (jp_key(&j, &key)) {
			switch (jp_field(&j, key, known, ARRAY_LEN(known), &seen)) {
			case 0: jp_int(&j, 1, 1000, &max); break;
			case 1: jin_duration(&j, 0, WAIT_MAX_MS, &wait); break;
			case 2: jin_duration(&j, 1000, 43200000, &visibility); break;
			case 3: jin_worker(&j, &worker); break;
			case 4: jin_worker(&j, &version); break;
			default: break;
			}
		}
	}
	if (!jin_end(r, &j))
		return;
	memset(&r->op.u.receive, 0, sizeof r->op.u.receive);
	r->op.queue = r->param;
	r->op.u.receive.max = (int)max;
	r->op.u.receive.wait_ms = atomic_load_explicit(&r->s->draining, memory_order_relaxed) ? 0 : wait;
	r->op.u.receive.visibility_timeout_ms = visibility;
	r->op.u.receive.worker = worker;
	r->op.u.receive.worker_version = version;
	r->wait_ms = r->op.u.receive.wait_ms;
	request_submit(r, OP_RECEIVE, receive_done);
}

/* ---- settle, extend ---- */

static void settle_write(struct json_out *j, const struct engine_settle_item *it)
{
	jout_open(j, '{');
	if (it->code != DLQ_OK) {
		jout_kz(j, "result", "gone");
	} else if (it->effect == EFFECT_DONE) {
		jout_kz(j, "result", "done");
	} else if (it->effect == EFFECT_RETRY) {
		jout_kz(j, "result", "retry");
		jout_kint(j, "attempts", it->attempts);
		jout_ktime(j, "retry_at", it->retry_at_ms);
	} else if (it->effect == EFFECT_RELEASE) {
		jout_kz(j, "result", "released");
	} else {
		jout_kz(j, "result", "dead");
		jout_kz(j, "reason", reason_name(it->reason));
		jout_kint(j, "attempts", it->attempts);
		jout_kz(j, "dlq_id", it->dlq_id);
	}
	jout_close(j, '}');
}

static void settle_done(struct http_req *r)
{
	struct json_out j;
	answer_begin(r, &j);
	jout_open(&j, '{');
	jout_key(&j, "results");
	jout_open(&j, '[');
	for (int i = 0; i < r->op.u.settle.n; i++)
		settle_write(&j, &r->op.u.settle.items[i]);
	jout_close(&j, ']');
	jout_close(&j, '}');
	answer_json(r, 200);
}

static void read_failure(struct json_pull *j, struct failure *f)
{
	static const char *const known[] = {"type", "message", "detail", "http_status", "exit_code", "fingerprint"};
	struct str key;
	unsigned seen = 0;
	int64_t v;
	if (!jp_object(j))
		return;
	while (jp_key(j, &key)) {
		int n = jp_field(j, key, known, ARRAY_LEN(known), &seen);
		if (n < 0 || jp_null(j))
			continue;
		switch (n) {
		case 0: jp_str(j, &f->type); break;
		case 1: jp_str(j, &f->message); break;
		case 2: jp_str(j, &f->detail); break;
		case 3:
			if (jp_int(j, 100, 599, &v))
				f->http_status = (int)v;
			break;
		case 5: jp_str(j, &f->fingerprint); break;
		default:
			if (jp_int(j, 0, 255, &v))
				f->exit_code = (int)v;
			break;
		}
	}
}

static void read_result(struct json_pull *j, struct engine_settle_item *it)
{
	static const char *const known[] = {"receipt", "outcome", "error", "retry_after"};
	struct str key, word;
	unsigned seen = 0;
	it->failure.exit_code = -1;
	if (!jp_object(j))
		return;
	while (jp_key(j, &key)) {
		int f = jp_field(j, key, known, ARRAY_LEN(known), &seen);
		if (f >= 2 && jp_null(j))
			continue;
		switch (f) {
		case 0: jp_str(j, &it->receipt); break;
		case 1:
			if (jp_str(j, &word) && !outcome_parse(word, &it->outcome))
				jp_fail(j, DLQ_BAD_REQUEST, "outcome must be ok, transient, permanent or release");
			break;
		case 2: read_failure(j, &it->failure); break;
		case 3: jin_duration(j, 0, RETRY_AFTER_MAX_MS, &it->retry_after_ms); break;
		default: break;
		}
	}
	if (!j->failed && (seen & 3) != 3)
		jp_fail(j, DLQ_BAD_REQUEST, "a result needs \"receipt\" and \"outcome\"");
}

void api_settle(struct http_req *r)
{
	static const char *const known[] = {"results", "worker", "worker_version"};
	struct json_pull j;
	struct str key, worker = STR(""), version = STR("");
	unsigned seen = 0;
	struct engine_settle_item *items = NULL;
	int n = 0, cap = 0;
	if (jin_begin(r, &j)) {
		while (jp_key(&j, &key)) {
			int f = jp_field(&j, key, known, ARRAY_LEN(known), &seen);
			if (f == 1 || f == 2)
				jin_worker(&j, f == 1 ? &worker : &version);
			if (f != 0 || !jp_array(&j))
				continue;
			while (jp_item(&j)) {
				if (n == SETTLE_MAX) {
					jp_fail(&j, DLQ_TOO_LARGE, "at most %d results", SETTLE_MAX);
					break;
				}
				if (n == cap) {
					int more = cap ? cap * 4 : 16;
					struct engine_settle_item *grown = arena_alloc(&r->arena, (size_t)more * sizeof *grown);
					if (n)
						memcpy(grown, items, (size_t)n * sizeof *grown);
					items = grown;
					cap = more;
				}
				read_result(&j, &items[n++]);
			}
		}
	}
	if (!j.failed && !n)
		jp_fail(&j, DLQ_BAD_REQUEST, "\"results\" must be a list with at least one result");
	if (!jin_end(r, &j))
		return;
	r->op.queue = r->param;
	r->op.u.settle.items = items;
	r->op.u.settle.n = n;
	r->op.u.settle.worker = worker;
	r->op.u.settle.worker_version = version;
	request_submit(r, OP_SETTLE, settle_done);
}

static void extend_done(struct http_req *r)
{
	struct json_out j;
	answer_begin(r, &j);
	jout_open(&j, '{');
	jout_ktime(&j, "lease_until", r->op.u.extend.lease_until_wall_ms);
	jout_close(&j, '}');
	answer_json(r, 200);
}

void api_extend(struct http_req *r)
{
	static const char *const known[] = {"receipt", "visibility_timeout"};
	struct json_pull j;
	struct str key, receipt = STR("");
	unsigned seen = 0;
	int64_t visibility = 0;
	if (jin_begin(r, &j)) {
		while (jp_key(&j, &key)) {
			switch (jp_field(&j, key, known, ARRAY_LEN(known), &seen)) {
			case 0: jp_str(&j, &receipt); break;
			case 1: jin_duration(&j, 1000, 43200000, &visibility); break;
			default: break;
			}
		}
	}
	if (!j.failed && !receipt.n)
		jp_fail(&j, DLQ_BAD_REQUEST, "\"receipt\" is needed");
	if (!jin_end(r, &j))
		return;
	memset(&r->op.u.extend, 0, sizeof r->op.u.extend);
	r->op.queue = r->param;
	r->op.u.extend.receipt = receipt;
	r->op.u.extend.visibility_timeout_ms = visibility;
	request_submit(r, OP_EXTEND, extend_done);
}
