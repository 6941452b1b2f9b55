/* record.c - a dead letter as JSON. */
#include "engine/record.h"

#include "core/fingerprint.h"
#include "core/policy.h"

static void opt_str(struct json_out *j, const char *key, struct str s)
{
	if (s.n)
		jout_kstr(j, key, s);
}

void group_id_text(const uint8_t fp[16], char out[GROUP_ID_LEN + 1])
{
	static const char hex[] = "0123456789abcdef";
	for (int i = 0; i < 16; i++) {
		out[2 * i] = hex[fp[i] >> 4];
		out[2 * i + 1] = hex[fp[i] & 15];
	}
	out[GROUP_ID_LEN] = '\0';
}

bool group_id_parse(struct str text, uint8_t fp[16])
{
	if (!fingerprint_text_valid(text))
		return false;
	for (int i = 0; i < 16; i++) {
		int hi = text.p[2 * i] <= '9' ? text.p[2 * i] - '0' : text.p[2 * i] - 'a' + 10;
		int lo = text.p[2 * i + 1] <= '9' ? text.p[2 * i + 1] - '0' : text.p[2 * i + 1] - 'a' + 10;
		fp[i] = (uint8_t)(hi << 4 | lo);
	}
	return true;
}

void record_members(struct json_out *j, const struct store_dead *d)
{
	jout_kz(j, "dlq_id", d->dlq_id);
	jout_kstr(j, "queue", d->queue);
	jout_kstr(j, "id", d->id);
	opt_str(j, "key", d->key);
	jout_kz(j, "state", dead_state_name(d->state));
	jout_kz(j, "reason", reason_name(d->reason));
	jout_kint(j, "attempts", d->attempts);
	jout_kint(j, "redrives", d->redrives);
	jout_key(j, "error");
	jout_open(j, '{');
	jout_kstr(j, "type", d->error_type);
	jout_kstr(j, "message", d->message);
	jout_close(j, '}');
	opt_str(j, "worker", d->worker);
	if (d->group_id) {
		char group[GROUP_ID_LEN + 1];
		group_id_text(d->group_fp, group);
		jout_kz(j, "group", group);
	}
	jout_ktime(j, "received_at", d->received_at_ms);
	jout_ktime(j, "first_failed_at", d->first_failed_at_ms);
	jout_ktime(j, "last_failed_at", d->last_failed_at_ms);
	jout_ktime(j, "died_at", d->died_at_ms);
	jout_kint(j, "body_bytes", d->body_bytes);
	opt_str(j, "content_type", d->content_type);
	jout_kbool(j, "edited", d->edited);
	opt_str(j, "redrive_id", d->redrive_id);
	opt_str(j, "operator", d->operator);
	opt_str(j, "why", d->why);
}

static void attempt_write(struct json_out *j, const struct store_attempt *at)
{
	jout_open(j, '{');
	jout_kint(j, "attempt", at->n);
	jout_kint(j, "redrive", at->redrive);
	jout_ktime(j, "at", at->at_ms);
	jout_kz(j, "outcome", outcome_name((enum outcome)at->outcome));
	jout_key(j, "error");
	jout_open(j, '{');
	jout_kstr(j, "type", at->error_type);
	jout_kstr(j, "message", at->message);
	jout_kstr(j, "detail", at->detail);
	if (at->http_status)
		jout_kint(j, "http_status", at->http_status);
	if (at->exit_code >= 0)
		jout_kint(j, "exit_code", at->exit_code);
	jout_close(j, '}');
	opt_str(j, "worker", at->worker);
	opt_str(j, "worker_version", at->worker_version);
	if (at->retry_at_ms)
		jout_ktime(j, "retry_at", at->retry_at_ms);
	jout_close(j, '}');
}

void record_details(struct json_out *j, const struct store_dead *d, const struct store_attempt *at, int n,
                    struct clock *clock)
{
	jout_key(j, "headers");
	jout_raw(j, d->headers.n ? d->headers : STR("{}"));
	jout_ktime(j, "expires_at", d->expires_due > 0 && d->expires_due < INT64_MAX ? clock_to_wall_ms(clock, d->expires_due) : 0);
	jout_key(j, "history");
	jout_open(j, '[');
	for (int i = 0; i < n; i++)
		attempt_write(j, &at[i]);
	jout_close(j, ']');
}
