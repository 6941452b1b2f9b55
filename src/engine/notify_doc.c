/* notify_doc.c - the pure half of notify.h. */
#include "engine/notify.h"

#define BACKOFF_FIRST_MS 1000
#define BACKOFF_MAX_MS ((int64_t)5 * 60 * 1000)

int64_t notify_backoff_ms(int tries)
{
	int64_t ms = BACKOFF_FIRST_MS;

	for (int i = 1; i < tries && ms < BACKOFF_MAX_MS; i++)
		ms *= 2;
	return ms < BACKOFF_MAX_MS ? ms : BACKOFF_MAX_MS;
}

static void text_or_null(struct json_out *j, const char *key, struct str s)
{
	jout_key(j, key);
	if (s.n)
		jout_str(j, s);
	else
		jout_null(j);
}

void notify_document(const struct store_dead *d, const char *notification_id, struct buf *out)
{
	struct json_out j;

	jout_init(&j, out);
	jout_open(&j, '{');
	jout_kz(&j, "event", "dead_letter");
	jout_kz(&j, "notification_id", notification_id);
	jout_kz(&j, "dlq_id", d->dlq_id);
	jout_kstr(&j, "queue", d->queue);
	jout_kstr(&j, "id", d->id);
	text_or_null(&j, "key", d->key);
	jout_kz(&j, "reason", reason_name(d->reason));
	jout_kint(&j, "attempts", d->attempts);
	jout_kint(&j, "redrives", d->redrives);
	jout_key(&j, "error");
	jout_open(&j, '{');
	jout_kstr(&j, "type", d->error_type);
	jout_kstr(&j, "message", d->message);
	jout_close(&j, '}');
	text_or_null(&j, "worker", d->worker);
	jout_ktime(&j, "received_at", d->received_at_ms);
	jout_ktime(&j, "first_failed_at", d->first_failed_at_ms);
	jout_ktime(&j, "last_failed_at", d->last_failed_at_ms);
	jout_ktime(&j, "died_at", d->died_at_ms);
	jout_kz(&j, "state", dead_state_name(d->state));
	jout_close(&j, '}');
}
