/* record.c - a dead letter as JSON. */
#include "engine/record.h"

#include "base/clock.h"
#include "core/fingerprint.h"
#include "core/policy.h"

#define HISTORY_MAX 10000 /* failed deliveries of one record, the newest */

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

static void expiry_write(struct json_out *j, const struct store_dead *d, struct clock *clock, int64_t soon_ms)
{
	bool ends = d->expires_due > 0 && d->expires_due < INT64_MAX;
	jout_ktime(j, "expires_at", ends ? clock_to_wall_ms(clock, d->expires_due) : 0);
	if (ends && soon_ms > 0 && d->state == DEAD_DEAD && d->expires_due - clock_now_ms(clock) <= soon_ms)
		jout_kbool(j, "expires_soon", true);
}

void record_members(struct json_out *j, const struct store_dead *d, struct clock *clock, int64_t soon_ms)
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
	expiry_write(j, d, clock, soon_ms);
	jout_kint(j, "body_bytes", d->body_bytes);
	opt_str(j, "content_type", d->content_type);
	jout_kbool(j, "edited", d->edited);
	opt_str(j, "redrive_id", d->redrive_id);
	opt_str(j, "imported_id", d->imported_id);
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

static void headers_write(struct json_out *j, const char *key, struct str headers)
{
	jout_key(j, key);
	jout_raw(j, headers.n ? headers : STR("{}"));
}

void record_details(struct json_out *j, const struct store_dead *d, const struct store_attempt *at, int n)
{
	bool edited = d->edited_headers.n > 0;
	headers_write(j, "headers", edited ? d->edited_headers : d->headers);
	if (edited)
		headers_write(j, "original_headers", d->headers);
	jout_key(j, "history");
	jout_open(j, '[');
	for (int i = 0; i < n; i++)
		attempt_write(j, &at[i]);
	jout_close(j, ']');
}

enum dlq_code record_line(struct store_reader *r, const struct store_dead *d, int64_t archived_at, struct clock *clock, struct buf *line,
                          struct dlq_err *err)
{
	struct arena a = {0};
	struct store_attempt *at = NULL;
	struct str body = {0}, edited = {0}, type = {0};
	int n = 0;
	enum dlq_code c = r->ops->read_attempts(r, d->seq, HISTORY_MAX, &a, &at, &n, err);
	if (!c)
		c = r->ops->read_body(r, d->seq, true, &a, &body, &type, err);
	if (!c && d->edited)
		c = r->ops->read_body(r, d->seq, false, &a, &edited, &type, err);
	if (!c) {
		struct json_out j;
		jout_init(&j, line);
		jout_open(&j, '{');
		record_members(&j, d, clock, 0);
		if (d->lease_expirations)
			jout_kint(&j, "lease_expirations", d->lease_expirations);
		record_details(&j, d, at, n);
		if (archived_at)
			jout_ktime(&j, "archived_at", archived_at);
		jout_bytes(&j, "body", body);
		if (d->edited && !str_eq(body, edited))
			jout_bytes(&j, "edited_body", edited);
		jout_close(&j, '}');
		buf_addc(line, '\n');
		if (line->overflow)
			c = err_set(err, DLQ_SYSTEM, "the record of dead letter %s is too large for one line", d->dlq_id);
	}
	arena_release(&a);
	return c;
}
