/* Queues: list, show, make, change, delete, pause. */
#include <string.h>

#include "http/http.h"
#include "http/json_in.h"

void queue_write(struct json_out *j, const struct store_queue *q)
{
	const struct store_counts *c = &q->counts;
	jout_open(j, '{');
	jout_kstr(j, "name", q->name);
	jout_kbool(j, "paused", q->paused);
	jout_ktime(j, "created_at", q->created_at_ms);
	jout_key(j, "config");
	jout_raw(j, q->config.n ? q->config : STR("{}"));
	jout_key(j, "counts");
	jout_open(j, '{');
	jout_kint(j, "ready", c->ready);
	jout_kint(j, "retrying", c->retrying);
	jout_kint(j, "held", c->held);
	jout_kint(j, "leased", c->leased);
	jout_kint(j, "dead", c->dead);
	jout_kint(j, "redriving", c->redriving);
	jout_kint(j, "bytes", c->bytes);
	jout_close(j, '}');
	jout_key(j, "totals");
	jout_open(j, '{');
	jout_kint(j, "sent", c->sent);
	jout_kint(j, "done", c->done);
	jout_kint(j, "failed_attempts", c->failed_attempts);
	jout_kint(j, "died", c->died);
	jout_kint(j, "redriven", c->redriven);
	jout_kint(j, "discarded", c->discarded);
	jout_kint(j, "archived", c->archived);
	jout_kint(j, "duplicates", c->duplicates);
	jout_kint(j, "imported", c->imported);
	jout_close(j, '}');
	jout_close(j, '}');
}

static void list_done(struct http_req *r)
{
	struct json_out j;
	const int n = r->op.u.read_queues.n;
	answer_begin(r, &j);
	jout_open(&j, '{');
	jout_key(&j, "items");
	jout_open(&j, '[');
	for (int i = 0; i < n; i++)
		if (auth_may(r, r->op.u.read_queues.items[i].name))
			queue_write(&j, &r->op.u.read_queues.items[i]);
	jout_close(&j, ']');
	cursor_text(&j, 'q', r->op.u.read_queues.more && n ? r->op.u.read_queues.items[n - 1].name : STR(""));
	jout_close(&j, '}');
	answer_json(r, 200);
}

void api_queue_list(struct http_req *r)
{
	memset(&r->op.u, 0, sizeof r->op.u);
	r->op.queue = STR("");
	if (!query_limit(r, &r->op.u.read_queues.limit) || !query_cursor_text(r, 'q', &r->op.u.read_queues.after))
		return;
	request_submit(r, OP_READ_QUEUES, list_done);
}

static void show(struct http_req *r, int status)
{
	struct json_out j;
	answer_begin(r, &j);
	queue_write(&j, &r->op.u.read_queue.out);
	answer_json(r, status);
}

static void show_200(struct http_req *r)
{
	show(r, 200);
}

static void show_201(struct http_req *r)
{
	show(r, 201);
}

/* After a change: its outputs go, the queue is read. */
static void then_show(struct http_req *r, void (*finish)(struct http_req *))
{
	engine_op_release(&r->op);
	memset(&r->op.u, 0, sizeof r->op.u);
	r->op.queue = r->param;
	request_submit(r, OP_READ_QUEUE, finish);
}

static void then_show_200(struct http_req *r)
{
	then_show(r, show_200);
}

void api_queue_get(struct http_req *r)
{
	memset(&r->op.u, 0, sizeof r->op.u);
	r->op.queue = r->param;
	request_submit(r, OP_READ_QUEUE, show_200);
}

static void put_done(struct http_req *r)
{
	then_show(r, r->op.u.queue_put.created ? show_201 : show_200);
}

void api_queue_put(struct http_req *r)
{
	struct dlq_err err = {0};
	struct doc *d = NULL;
	struct json_pull j;
	struct str text = str_trim(buf_str(&r->body));
	memset(&r->op.u, 0, sizeof r->op.u);
	if (text.n) {
		/* The strict reader first: it says line and column of what is not JSON. */
		jp_init(&j, buf_str(&r->body), 1, &r->arena);
		jp_skip(&j);
		if (!jin_end(r, &j))
			return;
	}
	enum dlq_code code = text.n ? doc_from_json(&r->arena, text, "request body", &d, &err) : DLQ_OK;
	if (code == DLQ_OK)
		code = queue_config_parse(d, r->param, STR(""), &r->op.u.queue_put.config, &err); /* the engine knows the default */
	if (code != DLQ_OK) {
		err.code = code;
		answer_problem_at(r, &err, 0, 0);
		return;
	}
	r->op.queue = r->param;
	request_submit(r, OP_QUEUE_PUT, put_done);
}

static void done_204(struct http_req *r)
{
	answer_empty(r, 204);
}

void api_queue_delete(struct http_req *r)
{
	memset(&r->op.u, 0, sizeof r->op.u);
	r->op.queue = r->param;
	request_submit(r, OP_QUEUE_DELETE, done_204);
}

static void set_paused(struct http_req *r, bool paused)
{
	if (!jin_nothing(r))
		return;
	memset(&r->op.u, 0, sizeof r->op.u);
	r->op.queue = r->param;
	r->op.u.queue_pause.paused = paused;
	request_submit(r, OP_QUEUE_PAUSE, then_show_200);
}

void api_queue_pause(struct http_req *r)
{
	set_paused(r, true);
}

void api_queue_resume(struct http_req *r)
{
	set_paused(r, false);
}
