/* Redrives: start, list, show, pause, resume, cancel. */
#include <string.h>

#include "http/http.h"
#include "http/json_in.h"

#define IDS_MAX 1000

void redrive_write(struct json_out *j, const struct store_redrive *d)
{
	jout_open(j, '{');
	if (d->redrive_id[0])
		jout_kz(j, "redrive_id", d->redrive_id);
	if (d->queue.n)
		jout_kstr(j, "queue", d->queue);
	jout_kz(j, "state", redrive_state_name(d->state));
	jout_kstr(j, "operator", d->operator);
	jout_kstr(j, "reason", d->reason);
	jout_kint(j, "total", d->total);
	jout_kint(j, "sent", d->sent);
	jout_kint(j, "skipped", d->skipped);
	jout_kint(j, "succeeded", d->succeeded);
	jout_kint(j, "failed_again", d->failed_again);
	jout_ktime(j, "started_at", d->started_at_ms);
	jout_ktime(j, "ended_at", d->ended_at_ms);
	jout_close(j, '}');
}

static void show(struct http_req *r, const struct store_redrive *d, int status)
{
	struct json_out j;
	answer_begin(r, &j);
	redrive_write(&j, d);
	answer_json(r, status);
}

static void start_done(struct http_req *r)
{
	show(r, &r->op.u.redrive.out, r->op.u.redrive.dry_run ? 200 : 202);
}

static void read_ids(struct http_req *r, struct json_pull *j, struct str **ids, int *n)
{
	if (!jp_array(j))
		return;
	*ids = arena_alloc(&r->arena, IDS_MAX * sizeof **ids);
	while (jp_item(j)) {
		struct str id;
		if (*n == IDS_MAX) {
			jp_fail(j, DLQ_TOO_LARGE, "at most %d ids; redrive the whole queue instead", IDS_MAX);
			return;
		}
		if (!jp_str(j, &id))
			return;
		if (message_id_check(id)) {
			jp_fail(j, DLQ_BAD_REQUEST, "not a dlq_id");
			return;
		}
		(*ids)[(*n)++] = id;
	}
	if (!j->failed && !*n)
		jp_fail(j, DLQ_BAD_REQUEST, "\"ids\" is empty");
}

void api_redrive_start(struct http_req *r)
{
	static const char *const known[] = {"queue", "ids", "reason", "dry_run"};
	struct json_pull j;
	struct str key, queue = STR(""), reason = STR(""), *ids = NULL;
	unsigned seen = 0;
	int n = 0;
	bool dry = false;
	if (jin_begin(r, &j)) {
		while (jp_key(&j, &key)) {
			switch (jp_field(&j, key, known, ARRAY_LEN(known), &seen)) {
			case 0:
				if (jp_str(&j, &queue) && queue_name_check(queue))
					jp_fail(&j, DLQ_INVALID_NAME, "queue: the rule for names is: %s", QUEUE_NAME_RULE);
				break;
			case 1: read_ids(r, &j, &ids, &n); break;
			case 2: jin_reason(&j, &reason); break;
			case 3: jp_bool(&j, &dry); break;
			default: break;
			}
		}
	}
	if (!j.failed && ((seen & 3) == 0 || (seen & 3) == 3))
		jp_fail(&j, DLQ_BAD_REQUEST, "there must be one of \"queue\" and \"ids\"");
	if (!j.failed && !dry && !reason.n)
		jp_fail(&j, DLQ_BAD_REQUEST, "\"reason\" is needed: say why they are put back");
	if (!jin_end(r, &j))
		return;
	if (queue.n ? !auth_need(r, queue) : !auth_need(r, STR("~")))
		return; /* ids may be of any queue: only for a token without limits; others name the queue or redrive one by one */
	memset(&r->op.u, 0, sizeof r->op.u);
	r->op.queue = queue;
	r->op.u.redrive.ids = ids;
	r->op.u.redrive.n_ids = n;
	r->op.u.redrive.reason = reason;
	r->op.u.redrive.dry_run = dry;
	request_submit(r, OP_REDRIVE, start_done);
}

static void list_done(struct http_req *r)
{
	struct json_out j;
	const int n = r->op.u.read_redrives.n;
	bool limited = auth_limited(r);
	answer_begin(r, &j);
	jout_open(&j, '{');
	jout_key(&j, "items");
	jout_open(&j, '[');
	for (int i = 0; i < n; i++) {
		const struct store_redrive *d = &r->op.u.read_redrives.items[i];
		if (!limited || (d->queue.n && auth_may(r, d->queue)))
			redrive_write(&j, d);
	}
	jout_close(&j, ']');
	cursor_int(&j, 'r', n == r->op.u.read_redrives.limit ? r->op.u.read_redrives.items[n - 1].n : 0);
	jout_close(&j, '}');
	answer_json(r, 200);
}

void api_redrive_list(struct http_req *r)
{
	memset(&r->op.u, 0, sizeof r->op.u);
	r->op.queue = STR("");
	if (query_limit(r, &r->op.u.read_redrives.limit) && query_cursor_int(r, 'r', &r->op.u.read_redrives.before_n))
		request_submit(r, OP_READ_REDRIVES, list_done);
}

/* Redrives of chosen ids carry no queue: only for a token without limits. */
static bool may_see(struct http_req *r, const struct store_redrive *d)
{
	return auth_need(r, d->queue.n ? d->queue : STR("~"));
}

static void get_done(struct http_req *r)
{
	if (may_see(r, &r->op.u.read_redrive.out))
		show(r, &r->op.u.read_redrive.out, 200);
}

static void read_redrive(struct http_req *r, void (*finish)(struct http_req *))
{
	memset(&r->op.u, 0, sizeof r->op.u);
	r->op.queue = STR("");
	r->op.u.read_redrive.id = r->param;
	request_submit(r, OP_READ_REDRIVE, finish);
}

void api_redrive_get(struct http_req *r)
{
	read_redrive(r, get_done);
}

static void control_done(struct http_req *r)
{
	show(r, &r->op.u.redrive_control.out, 200);
}

static void control(struct http_req *r, enum redrive_state want)
{
	if (!may_see(r, &r->op.u.read_redrive.out))
		return;
	engine_op_release(&r->op);
	memset(&r->op.u, 0, sizeof r->op.u);
	r->op.u.redrive_control.id = r->param;
	r->op.u.redrive_control.want = want;
	request_submit(r, OP_REDRIVE_CONTROL, control_done);
}

static void pause_allowed(struct http_req *r)
{
	control(r, REDRIVE_PAUSED);
}

static void resume_allowed(struct http_req *r)
{
	control(r, REDRIVE_RUNNING);
}

static void cancel_allowed(struct http_req *r)
{
	control(r, REDRIVE_CANCELLED);
}

void api_redrive_pause(struct http_req *r)
{
	if (jin_nothing(r))
		read_redrive(r, pause_allowed);
}

void api_redrive_resume(struct http_req *r)
{
	if (jin_nothing(r))
		read_redrive(r, resume_allowed);
}

void api_redrive_cancel(struct http_req *r)
{
	if (jin_nothing(r))
		read_redrive(r, cancel_allowed);
}
