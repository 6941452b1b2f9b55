/*
 * Tokens. The engine's check hashes and compares in constant time; a check that succeeded is remembered per connection for
 * one second (so a revoked token works at most one second longer on an open connection). Refused changes leave an audit
 * row, at most AUDIT_PER_SECOND of them, with a count of those left out.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "http/http.h"

#define REMEMBER_MS 1000
#define AUDIT_PER_SECOND 10

struct refusal {
	struct engine_op op; /* first: server_detach_op */
	char text[700];
};

/* A bounded copy into the refusal's own memory. */
static struct str keep(struct refusal *f, size_t *used, struct str s)
{
	size_t n = s.n;
	if (n > sizeof f->text - *used)
		n = sizeof f->text - *used;
	if (!n)
		return STR("");
	char *p = f->text + *used;
	memcpy(p, s.p, n);
	*used += n;
	return (struct str){p, n};
}

static void audit_refusal(struct http_req *r, struct str queue, enum dlq_code code)
{
	struct http_server *s = r->s;
	if (s->now_ms - s->audit_window_ms >= 1000) {
		s->audit_window_ms = s->now_ms;
		s->audit_in_window = 0;
	}
	if (s->audit_in_window >= AUDIT_PER_SECOND) {
		s->audit_suppressed++;
		return;
	}
	s->audit_in_window++;
	struct refusal *f = mem_alloc(sizeof *f);
	struct store_audit *row = &f->op.u.audit.row;
	size_t used = 0;
	char what[200];
	f->op.type = OP_AUDIT;
	row->at_ms = clock_wall_ms(s->clock);
	row->operator = keep(f, &used, r->who.name.n ? r->who.name : STR("(unknown)"));
	row->action = STR("refused");
	row->outcome = str_of(code_name(code));
	snprintf(what, sizeof what, "%s %s", r->route->method, r->route->pattern);
	row->target = keep(f, &used, str_of(what));
	if (queue.n && !queue_name_check(queue))
		row->queue = keep(f, &used, queue);
	if (s->audit_suppressed) {
		snprintf(what, sizeof what, "and %lld more that were not recorded", (long long)s->audit_suppressed);
		row->detail = keep(f, &used, str_of(what));
		s->audit_suppressed = 0;
	}
	f->op.operator = row->operator;
	server_detach_op(s, &f->op);
}

static void refuse(struct http_req *r, struct str queue, enum dlq_code code, const char *why)
{
	if (r->is_change)
		audit_refusal(r, queue, code);
	answer_problem(r, code, "%s", why);
}

/* "Bearer TOKEN" -> TOKEN; empty when it is something else. */
static struct str bearer(struct str header)
{
	if (header.n < 8 || strncasecmp(header.p, "Bearer ", 7) != 0)
		return STR("");
	return str_trim((struct str){header.p + 7, header.n - 7});
}

static bool same_secret(const struct http_conn *c, struct str secret)
{
	unsigned char diff = 0;
	if (c->secret_len != secret.n)
		return false;
	for (size_t i = 0; i < secret.n; i++)
		diff |= (unsigned char)(c->secret[i] ^ secret.p[i]);
	return diff == 0;
}

static void remember(struct http_req *r, struct str queue)
{
	struct http_conn *c = r->c;
	if (r->secret.n > sizeof c->secret || queue.n > sizeof c->queue)
		return;
	memcpy(c->secret, r->secret.p, r->secret.n);
	c->secret_len = r->secret.n;
	if (queue.n)
		memcpy(c->queue, queue.p, queue.n);
	c->queue_len = queue.n;
	c->need = r->route->role;
	c->good_until_ms = r->s->now_ms + REMEMBER_MS;
	c->who = r->who;
	c->who.name.p = r->who.name.p == r->who.name_buf ? c->who.name_buf : r->who.name.p;
}

bool auth_check(struct http_req *r, struct str queue)
{
	struct http_conn *c = r->c;
	struct dlq_err err = {0};
	r->secret = bearer(r->authorization);
	if (r->secret.n > SECRET_MAX)
		r->secret = STR("");
	if (c->secret_len && r->s->now_ms < c->good_until_ms && r->route->role <= c->need && same_secret(c, r->secret) &&
	    str_eq(queue, (struct str){c->queue, c->queue_len})) {
		r->who = c->who;
		r->who.name = (struct str){r->who.name_buf, c->who.name.n};
		return true;
	}
	/* An absent token goes the same way as a wrong one, so that both take as long. */
	enum dlq_code code = engine_token_check(r->s->e, r->secret, r->route->role, queue, &r->who, &err);
	if (code == DLQ_OK) {
		if (r->who.name.p != r->who.name_buf && r->who.name.n <= sizeof r->who.name_buf) {
			memcpy(r->who.name_buf, r->who.name.p, r->who.name.n);
			r->who.name.p = r->who.name_buf;
		}
		remember(r, queue);
		return true;
	}
	c->secret_len = 0;
	if (code == DLQ_UNAUTHENTICATED && !r->authorization.n)
		refuse(r, queue, code, "there is no token; send the header Authorization: Bearer TOKEN");
	else
		refuse(r, queue, code, err.detail[0] ? err.detail : code_title(code));
	return false;
}

bool auth_may(struct http_req *r, struct str queue)
{
	struct token_info who;
	struct dlq_err err = {0};
	if (r->may_queue.p && str_eq(r->may_queue, queue))
		return r->may_answer;
	r->may_queue = arena_str(&r->arena, queue);
	r->may_answer = engine_token_check(r->s->e, r->secret, r->route->role, queue, &who, &err) == DLQ_OK;
	return r->may_answer;
}

bool auth_limited(struct http_req *r)
{
	struct token_info who;
	struct dlq_err err = {0};
	/* No queue can have this name, so only a token without limits may use it. */
	return engine_token_check(r->s->e, r->secret, r->route->role, STR("~"), &who, &err) != DLQ_OK;
}

void auth_refused(struct http_req *r, struct str queue)
{
	audit_refusal(r, queue, DLQ_FORBIDDEN);
}

bool auth_need(struct http_req *r, struct str queue)
{
	if (auth_may(r, queue))
		return true;
	refuse(r, queue, DLQ_FORBIDDEN, queue.n ? "the token is limited to other queues" : "the token is limited to queues: name one of them, or a group of theirs");
	return false;
}
