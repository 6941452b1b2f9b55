/* The canonical JSON of a queue's settings: every setting, in the order of docs/config.md. */
#include "core/policy_parse.h"

#include <stdio.h>

static void write_duration(struct json_out *j, const char *key, int64_t ms)
{
	char text[32];
	duration_format(ms, text);
	if (key)
		jout_kz(j, key, text);
	else
		jout_str(j, str_of(text));
}

static void write_backoff(const struct backoff *b, struct json_out *j)
{
	jout_key(j, "backoff");
	if (b->kind == BACKOFF_LIST) {
		jout_open(j, '[');
		for (int i = 0; i < b->n; i++)
			write_duration(j, NULL, b->list_ms[i]);
		jout_close(j, ']');
		return;
	}
	jout_open(j, '{');
	write_duration(j, "initial", b->initial_ms);
	jout_key(j, "multiplier");
	jout_num(j, b->multiplier);
	write_duration(j, "max", b->max_ms);
	jout_close(j, '}');
}

static void write_jitter(const struct jitter *jitter, struct json_out *j)
{
	static const char *const names[] = {"none", "full", "equal", NULL, "decorrelated"};
	char text[48];
	if (jitter->kind == JITTER_PROPORTIONAL)
		snprintf(text, sizeof text, "proportional:%.17f", jitter->p);
	else
		snprintf(text, sizeof text, "%s", names[jitter->kind]);
	/* The shortest text that is the same number. */
	for (int digits = 1; jitter->kind == JITTER_PROPORTIONAL && digits < 17; digits++) {
		char shorter[48];
		struct jitter back;
		snprintf(shorter, sizeof shorter, "proportional:%.*f", digits, jitter->p);
		if (jitter_parse(str_of(shorter), &back) && back.p == jitter->p) {
			snprintf(text, sizeof text, "%s", shorter);
			break;
		}
	}
	jout_kz(j, "jitter", text);
}

static void write_rule(const struct classify_rule *r, struct json_out *j)
{
	jout_open(j, '{');
	if (r->error_type.n)
		jout_kstr(j, "error_type", r->error_type);
	if (r->message_re.n)
		jout_kstr(j, "message", r->message_re);
	if (r->http_status_min && r->http_status_min == r->http_status_max) {
		jout_kint(j, "http_status", r->http_status_min);
	} else if (r->http_status_min) {
		char text[24];
		snprintf(text, sizeof text, "%d-%d", r->http_status_min, r->http_status_max);
		jout_kz(j, "http_status", text);
	}
	if (r->exit_code >= 0)
		jout_kint(j, "exit_code", r->exit_code);
	if (r->fingerprint.n)
		jout_kstr(j, "fingerprint", r->fingerprint);
	if (r->outcome != OUTCOME_COUNT)
		jout_kz(j, "outcome", outcome_name(r->outcome));
	jout_close(j, '}');
}

void policy_write(const struct policy *p, struct json_out *j)
{
	jout_open(j, '{');
	jout_kint(j, "max_attempts", p->max_attempts);
	write_backoff(&p->backoff, j);
	write_jitter(&p->jitter, j);
	write_duration(j, "visibility_timeout", p->visibility_timeout_ms);
	jout_kint(j, "crash_limit", p->crash_limit);
	write_duration(j, "ttl", p->ttl_ms);
	write_duration(j, "retention", p->retention_ms);
	jout_kint(j, "max_redrives", p->max_redrives);
	jout_key(j, "classify");
	jout_open(j, '[');
	for (int i = 0; i < p->n_rules; i++)
		write_rule(&p->rules[i], j);
	jout_close(j, ']');
	jout_close(j, '}');
}

void queue_config_write(const struct queue_config *q, struct json_out *j)
{
	jout_open(j, '{');
	jout_kstr(j, "name", q->name);
	jout_kbool(j, "ordered", q->ordered);
	write_duration(j, "dedup_window", q->dedup_window_ms);
	jout_kint(j, "max_messages", q->max_messages);
	jout_kint(j, "max_bytes", q->max_bytes);
	jout_kint(j, "max_in_flight", q->max_in_flight);
	jout_kstr(j, "push", q->push_url);
	jout_kint(j, "concurrency", q->concurrency);
	write_duration(j, "push_timeout", q->push_timeout_ms);
	jout_key(j, "on_dead_letter");
	if (q->on_dead_letter_default)
		jout_null(j); /* not its text: that may be a secret, and changes without the queue */
	else
		jout_str(j, q->on_dead_letter);
	jout_key(j, "policy");
	policy_write(&q->policy, j);
	jout_close(j, '}');
}
