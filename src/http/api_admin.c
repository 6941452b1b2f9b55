/* Audit, tokens, the server's own figures. */
#include <stdio.h>
#include <string.h>

#include "http/http.h"
#include "http/json_in.h"

/* ---- audit ---- */

static void hash_write(struct json_out *j, const uint8_t hash[32])
{
	char text[65];
	for (int i = 0; i < 32; i++)
		snprintf(text + 2 * i, 3, "%02x", hash[i]);
	jout_kz(j, "hash", text);
}

static void audit_write(struct json_out *j, const struct store_audit *a)
{
	jout_open(j, '{');
	jout_kint(j, "n", a->n);
	jout_ktime(j, "at", a->at_ms);
	jout_kstr(j, "operator", a->operator);
	jout_kstr(j, "action", a->action);
	if (a->queue.n)
		jout_kstr(j, "queue", a->queue);
	if (a->target.n)
		jout_kstr(j, "target", a->target);
	if (a->reason.n)
		jout_kstr(j, "reason", a->reason);
	jout_kstr(j, "outcome", a->outcome);
	if (a->detail.n)
		jout_kstr(j, "detail", a->detail);
	hash_write(j, a->hash);
	jout_close(j, '}');
}

static void audit_done(struct http_req *r)
{
	struct json_out j;
	const int n = r->op.u.read_audit.n;
	bool limited = auth_limited(r);
	answer_begin(r, &j);
	jout_open(&j, '{');
	jout_key(&j, "items");
	jout_open(&j, '[');
	for (int i = 0; i < n; i++) {
		const struct store_audit *a = &r->op.u.read_audit.items[i];
		if (!limited || (a->queue.n && auth_may(r, a->queue)))
			audit_write(&j, a);
	}
	jout_close(&j, ']');
	cursor_int(&j, 'a', n == r->op.u.read_audit.limit ? r->op.u.read_audit.items[n - 1].n : 0);
	jout_close(&j, '}');
	answer_json(r, 200);
}

void api_audit_list(struct http_req *r)
{
	memset(&r->op.u, 0, sizeof r->op.u);
	r->op.queue = STR("");
	if (query_limit(r, &r->op.u.read_audit.limit) && query_cursor_int(r, 'a', &r->op.u.read_audit.before_n))
		request_submit(r, OP_READ_AUDIT, audit_done);
}

/* The chain is long and a step of the engine's short: this goes on until the end or the first broken row. */
static void verify_step(struct http_req *r)
{
	struct json_out j;
	r->u.verify.rows += r->op.u.audit_verify.rows;
	if (r->op.u.audit_verify.more && !r->op.u.audit_verify.broken_n) {
		engine_op_release(&r->op);
		r->op.u.audit_verify.rows = 0;
		request_submit(r, OP_AUDIT_VERIFY, verify_step);
		return;
	}
	answer_begin(r, &j);
	jout_open(&j, '{');
	jout_kbool(&j, "ok", !r->op.u.audit_verify.broken_n);
	jout_kint(&j, "rows", r->u.verify.rows);
	if (r->op.u.audit_verify.broken_n) {
		jout_kint(&j, "broken", r->op.u.audit_verify.broken_n);
	} else {
		jout_kint(&j, "newest", r->op.u.audit_verify.after_n);
		hash_write(&j, r->op.u.audit_verify.hash);
	}
	jout_close(&j, '}');
	answer_json(r, 200);
}

void api_audit_verify(struct http_req *r)
{
	if (!auth_need(r, STR("~"))) /* the chain is one for all queues */
		return;
	memset(&r->op.u, 0, sizeof r->op.u);
	r->op.queue = STR("");
	r->u.verify.rows = 0;
	request_submit(r, OP_AUDIT_VERIFY, verify_step);
}

/* ---- tokens ---- */

/* The whole table is in memory and small, so a page is cut out of it: the cursor is the number of tokens passed. */
void api_token_list(struct http_req *r)
{
	struct token_row *rows;
	struct json_out j;
	int limit;
	int64_t from = 0;
	if (!query_limit(r, &limit) || !query_cursor_int(r, 't', &from) || !auth_need(r, STR("~")))
		return;
	int64_t n = engine_token_list(r->s->e, &r->arena, &rows), to = from < n ? from + limit < n ? from + limit : n : from;
	answer_begin(r, &j);
	jout_open(&j, '{');
	jout_key(&j, "items");
	jout_open(&j, '[');
	for (int64_t i = from; i < to; i++) {
		jout_open(&j, '{');
		jout_kstr(&j, "name", rows[i].name);
		jout_kz(&j, "role", role_name(rows[i].role));
		if (rows[i].queues.n) {
			jout_key(&j, "queues");
			jout_raw(&j, rows[i].queues);
		}
		jout_ktime(&j, "created_at", rows[i].created_at_ms);
		jout_ktime(&j, "expires_at", rows[i].expires_at_ms);
		jout_ktime(&j, "revoked_at", rows[i].revoked_at_ms);
		jout_close(&j, '}');
	}
	jout_close(&j, ']');
	cursor_int(&j, 't', to < n ? to : 0);
	jout_close(&j, '}');
	answer_json(r, 200);
}

static void token_done(struct http_req *r)
{
	struct json_out j;
	answer_begin(r, &j);
	jout_open(&j, '{');
	jout_kstr(&j, "name", r->op.u.token_add.name);
	jout_kz(&j, "role", role_name(r->op.u.token_add.role));
	jout_kz(&j, "token", r->op.u.token_add.secret);
	jout_close(&j, '}');
	answer_json(r, 201);
	memset(r->op.u.token_add.secret, 0, sizeof r->op.u.token_add.secret);
}

/* A list of queue names or prefixes ending in '*', as canonical JSON. */
static void read_queues(struct http_req *r, struct json_pull *j, struct str *out)
{
	struct buf b = {.max = 65536};
	struct json_out o;
	int n = 0;
	jout_init(&o, &b);
	jout_open(&o, '[');
	if (jp_array(j)) {
		while (jp_item(j)) {
			struct str s, name;
			if (!jp_str(j, &s))
				break;
			name = s;
			if (name.n && name.p[name.n - 1] == '*')
				name.n--;
			if ((name.n || !s.n) && queue_name_check(name))
				jp_fail(j, DLQ_INVALID_NAME, "a queue name, or the beginning of one and '*'; the rule for names is: %s", QUEUE_NAME_RULE);
			else if (++n > 100)
				jp_fail(j, DLQ_BAD_REQUEST, "at most 100 queues");
			else
				jout_str(&o, s);
		}
	}
	jout_close(&o, ']');
	if (!j->failed && n)
		*out = arena_str(&r->arena, buf_str(&b));
	else if (!j->failed)
		jp_fail(j, DLQ_BAD_REQUEST, "\"queues\" is empty; leave it out for all queues");
	buf_release(&b);
}

void api_token_add(struct http_req *r)
{
	static const char *const known[] = {"name", "role", "queues", "expires_in"};
	struct json_pull j;
	struct str key, name = STR(""), queues = STR(""), word;
	enum role role = ROLE_VIEWER;
	int64_t ttl = 0;
	unsigned seen = 0;
	if (jin_begin(r, &j)) {
		while (jp_key(&j, &key)) {
			int f = jp_field(&j, key, known, ARRAY_LEN(known), &seen);
			if (f >= 2 && jp_null(&j))
				continue;
			switch (f) {
			case 0:
				if (jp_str(&j, &name) && message_id_check(name))
					jp_fail(&j, DLQ_INVALID_NAME, "name: %s", MESSAGE_ID_RULE);
				break;
			case 1:
				if (jp_str(&j, &word) && !role_parse(word, &role))
					jp_fail(&j, DLQ_BAD_REQUEST, "role must be viewer, operator or admin");
				break;
			case 2: read_queues(r, &j, &queues); break;
			case 3: jin_duration(&j, 1000, (int64_t)3650 * 86400000, &ttl); break;
			default: break;
			}
		}
	}
	if (!j.failed && (seen & 3) != 3)
		jp_fail(&j, DLQ_BAD_REQUEST, "\"name\" and \"role\" are needed");
	if (!jin_end(r, &j))
		return;
	if (!auth_need(r, STR("~"))) /* a limited token cannot make one that may do more */
		return;
	memset(&r->op.u, 0, sizeof r->op.u);
	r->op.queue = STR("");
	r->op.u.token_add.name = name;
	r->op.u.token_add.role = role;
	r->op.u.token_add.queues = queues;
	r->op.u.token_add.ttl_ms = ttl;
	request_submit(r, OP_TOKEN_ADD, token_done);
}

static void revoke_done(struct http_req *r)
{
	r->c->good_until_ms = 0;
	answer_empty(r, 204);
}

void api_token_revoke(struct http_req *r)
{
	if (!auth_need(r, STR("~")))
		return;
	memset(&r->op.u, 0, sizeof r->op.u);
	r->op.queue = STR("");
	r->op.u.token_revoke.name = r->param;
	request_submit(r, OP_TOKEN_REVOKE, revoke_done);
}

/* ---- the server ---- */

/* Sums over the queues that the token may see. */
struct figures {
	int64_t queues, waiting, leased, dead, bytes;
};

static void stats_write(struct http_req *r)
{
	struct http_server *s = r->s;
	const struct figures *f = r->u.expiring->user;
	struct engine_status st;
	struct json_out j;
	char uptime[32];
	engine_status(s->e, &st);
	duration_format((s->now_ms - s->started_ms) / 1000 * 1000, uptime);
	answer_begin(r, &j);
	jout_open(&j, '{');
	jout_kz(&j, "version", s->version);
	jout_kz(&j, "uptime", uptime);
	jout_kbool(&j, "ready", st.ready && !atomic_load(&s->draining));
	jout_kint(&j, "queues", f->queues);
	jout_kint(&j, "waiting", f->waiting);
	jout_kint(&j, "leased", f->leased);
	jout_kint(&j, "dead", f->dead);
	jout_kint(&j, "expires_soon", r->u.expiring->n);
	jout_kint(&j, "bytes", f->bytes);
	jout_kint(&j, "waiting_operations", st.waiting_ops);
	jout_kint(&j, "waiting_bytes", st.waiting_bytes);
	jout_kint(&j, "parked_receives", st.parked_receives);
	jout_kint(&j, "commits", st.commits);
	jout_kint(&j, "operations", st.committed_ops);
	jout_kint(&j, "last_commit_us", st.last_commit_us);
	jout_kint(&j, "max_commit_us", st.max_commit_us);
	jout_kint(&j, "requests", atomic_load(&s->stats.requests));
	jout_kint(&j, "connections", atomic_load(&s->stats.connections));
	jout_kint(&j, "connection_timeouts", atomic_load(&s->stats.timeouts));
	jout_close(&j, '}');
	answer_json(r, 200);
}

static void stats_done(struct http_req *r)
{
	struct figures *f = arena_alloc(&r->arena, sizeof *f);
	for (int i = 0; i < r->op.u.read_queues.n; i++) {
		const struct store_queue *q = &r->op.u.read_queues.items[i];
		if (!auth_may(r, q->name))
			continue;
		f->queues++;
		f->waiting += q->counts.ready + q->counts.held;
		f->leased += q->counts.leased;
		f->dead += q->counts.dead;
		f->bytes += q->counts.bytes;
	}
	expiring_count(r, f, stats_write);
}

void api_stats(struct http_req *r)
{
	memset(&r->op.u, 0, sizeof r->op.u);
	r->op.queue = STR("");
	r->op.u.read_queues.limit = 1000;
	request_submit(r, OP_READ_QUEUES, stats_done);
}

void api_healthz(struct http_req *r)
{
	struct json_out j;
	answer_begin(r, &j);
	jout_open(&j, '{');
	jout_kz(&j, "status", "ok");
	jout_close(&j, '}');
	answer_json(r, 200);
}

void api_readyz(struct http_req *r)
{
	struct engine_status st;
	engine_status(r->s->e, &st);
	if (atomic_load(&r->s->draining))
		answer_unready(r, DLQ_SHUTTING_DOWN, "the server is shutting down");
	else if (!st.ready)
		answer_unready(r, st.store_code != DLQ_OK ? st.store_code : DLQ_BUSY,
		               st.store_detail[0] ? st.store_detail : "the engine does not take work yet");
	else
		api_healthz(r);
}

void api_openapi(struct http_req *r)
{
	buf_clear(&r->out);
	buf_adds(&r->out, buf_str(&r->s->openapi));
	answer_bytes(r, 200, "application/json");
}
