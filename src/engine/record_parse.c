/* record_parse.c - a line of an export or of the archive, read back. What it does not know it leaves alone. */
#include <string.h>

#include "base/doc.h"
#include "core/policy.h"
#include "engine/record.h"

#define COUNT_MAX 1000000 /* attempts, redrives */
#define STATUS_MAX 999

/* The reads below keep the first error and then do nothing. */
struct parse {
	struct arena *a;
	struct dlq_err *err;
	enum dlq_code code;
};

static void str_of_key(struct parse *p, const struct doc *d, const char *key, struct str *out)
{
	const struct doc *v = doc_get(d, key);
	*out = (struct str){0};
	if (v && !p->code)
		p->code = doc_str(v, out, p->err);
}

static void time_of_key(struct parse *p, const struct doc *d, const char *key, int64_t *ms)
{
	struct str s;
	str_of_key(p, d, key, &s);
	*ms = 0;
	if (!p->code && s.n && !time_parse(s, ms))
		p->code = doc_fail(doc_get(d, key), p->err, "must be an RFC 3339 time, not \"" STR_FMT "\"", STR_ARG(str_cut(s, 40)));
}

static void int_of_key(struct parse *p, const struct doc *d, const char *key, int64_t max, int def, int *out)
{
	const struct doc *v = doc_get(d, key);
	int64_t n = def;
	if (v && !p->code)
		p->code = doc_int(v, 0, max, &n, p->err);
	*out = (int)n;
}

static const struct doc *map_of_key(struct parse *p, const struct doc *d, const char *key)
{
	const struct doc *v = doc_get(d, key);
	if (v && !p->code && v->kind != DOC_MAP)
		p->code = doc_fail(v, p->err, "must be an object");
	return p->code ? NULL : v;
}

/* An object of texts, written anew as messages have it. */
static void headers_of_key(struct parse *p, const struct doc *d, const char *key, struct str *out)
{
	const struct doc *map = map_of_key(p, d, key);
	struct buf text = {0};
	struct json_out j;
	*out = (struct str){0};
	if (!map || !map->child)
		return;
	jout_init(&j, &text);
	jout_open(&j, '{');
	for (const struct doc *h = map->child; h && !p->code; h = h->next) {
		struct str value = {0};
		p->code = doc_str(h, &value, p->err);
		jout_kstr(&j, arena_str(p->a, h->key).p, value);
	}
	jout_close(&j, '}');
	*out = arena_str(p->a, buf_str(&text));
	buf_release(&text);
}

/* KEY as text or KEY_base64. False: neither is there. */
static bool bytes_of_key(struct parse *p, const struct doc *d, const char *key, const char *key64, struct str *out)
{
	struct str text;
	struct buf bytes = {.max = (size_t)512 << 20};
	bool encoded = doc_get(d, key64) != NULL;
	str_of_key(p, d, encoded ? key64 : key, &text);
	*out = text;
	if (p->code || !encoded)
		return doc_get(d, key) != NULL;
	if (!base64_decode(text, &bytes))
		p->code = doc_fail(doc_get(d, key64), p->err, "is not base64");
	*out = arena_str(p->a, buf_str(&bytes));
	buf_release(&bytes);
	return true;
}

static void error_of(struct parse *p, const struct doc *d, struct store_attempt *at, bool full)
{
	const struct doc *e = map_of_key(p, d, "error");
	at->exit_code = -1;
	if (!e)
		return;
	str_of_key(p, e, "type", &at->error_type);
	str_of_key(p, e, "message", &at->message);
	if (!full)
		return;
	str_of_key(p, e, "detail", &at->detail);
	int_of_key(p, e, "http_status", STATUS_MAX, 0, &at->http_status);
	int_of_key(p, e, "exit_code", COUNT_MAX, -1, &at->exit_code);
}

static void outcome_of(struct parse *p, const struct doc *d, int *out)
{
	struct str name;
	str_of_key(p, d, "outcome", &name);
	*out = OUTCOME_TRANSIENT; /* a word of a newer dlq */
	for (int o = 0; o < OUTCOME_COUNT; o++)
		if (str_eqz(name, outcome_name((enum outcome)o)))
			*out = o;
}

static void attempt_of(struct parse *p, const struct doc *d, struct store_attempt *at)
{
	*at = (struct store_attempt){0};
	if (d->kind != DOC_MAP && !p->code)
		p->code = doc_fail(d, p->err, "must be an object");
	int_of_key(p, d, "attempt", COUNT_MAX, 0, &at->n);
	int_of_key(p, d, "redrive", COUNT_MAX, 0, &at->redrive);
	time_of_key(p, d, "at", &at->at_ms);
	time_of_key(p, d, "retry_at", &at->retry_at_ms);
	outcome_of(p, d, &at->outcome);
	error_of(p, d, at, true);
	str_of_key(p, d, "worker", &at->worker);
	str_of_key(p, d, "worker_version", &at->worker_version);
}

static void history_of(struct parse *p, const struct doc *d, struct store_import *out)
{
	const struct doc *list = doc_get(d, "history");
	int n = 0;
	if (list && !p->code && list->kind != DOC_LIST)
		p->code = doc_fail(list, p->err, "must be a list");
	if (!list || p->code)
		return;
	for (const struct doc *k = list->child; k; k = k->next)
		n++;
	struct store_attempt *at = arena_alloc(p->a, ((size_t)n + 1) * sizeof(*at));
	for (const struct doc *k = list->child; k && !p->code; k = k->next)
		attempt_of(p, k, &at[out->n_attempts++]);
	out->attempts = at;
}

static void ids_of(struct parse *p, const struct doc *d, struct store_dead *to)
{
	struct str id;
	str_of_key(p, d, "dlq_id", &id);
	if (!p->code && !ulid_parse(id, NULL, NULL, NULL))
		p->code = err_set(p->err, DLQ_BAD_REQUEST, "dlq_id: a dead letter has one of %d characters; this is no record of a dead letter", ULID_LEN);
	if (p->code)
		return;
	memcpy(to->dlq_id, id.p, ULID_LEN);
	str_of_key(p, d, "id", &to->id);
	if (!p->code && message_id_check(to->id))
		p->code = err_set(p->err, DLQ_BAD_REQUEST, "id: a message has one of " MESSAGE_ID_RULE);
	str_of_key(p, d, "imported_id", &to->imported_id);
	if (!p->code && to->imported_id.n && message_id_check(to->imported_id))
		p->code = err_set(p->err, DLQ_BAD_REQUEST, "imported_id: it must be " MESSAGE_ID_RULE);
	str_of_key(p, d, "queue", &to->queue);
	if (!p->code && queue_name_check(to->queue))
		p->code = err_set(p->err, DLQ_INVALID_NAME, "queue: the rule for names is: " QUEUE_NAME_RULE);
}

static void facts_of(struct parse *p, const struct doc *d, struct store_dead *to)
{
	struct str reason, group;
	struct store_attempt last = {0};
	str_of_key(p, d, "reason", &reason);
	if (!reason_parse(reason, &to->reason))
		to->reason = REASON_UNKNOWN;
	str_of_key(p, d, "group", &group);
	if (!p->code)
		group_id_parse(group, to->group_fp);
	str_of_key(p, d, "key", &to->key);
	str_of_key(p, d, "content_type", &to->content_type);
	int_of_key(p, d, "attempts", COUNT_MAX, 0, &to->attempts);
	int_of_key(p, d, "redrives", COUNT_MAX, 0, &to->redrives);
	int_of_key(p, d, "lease_expirations", COUNT_MAX, 0, &to->lease_expirations);
	time_of_key(p, d, "received_at", &to->received_at_ms);
	time_of_key(p, d, "first_failed_at", &to->first_failed_at_ms);
	time_of_key(p, d, "last_failed_at", &to->last_failed_at_ms);
	time_of_key(p, d, "died_at", &to->died_at_ms);
	error_of(p, d, &last, false);
	to->error_type = last.error_type;
	to->message = last.message;
	str_of_key(p, d, "worker", &to->worker);
	str_of_key(p, d, "operator", &to->operator);
	str_of_key(p, d, "why", &to->why);
}

/* "headers" are those to be delivered; the original ones stand beside them only where they were edited. */
static void contents_of(struct parse *p, const struct doc *d, struct store_import *out)
{
	struct str *edited = arena_alloc(p->a, sizeof(*edited));
	bool other = doc_get(d, "original_headers") != NULL;
	headers_of_key(p, d, other ? "original_headers" : "headers", &out->d.headers);
	if (other) {
		headers_of_key(p, d, "headers", &out->d.edited_headers);
		if (!out->d.edited_headers.n)
			out->d.edited_headers = STR("{}");
	}
	if (!bytes_of_key(p, d, "body", "body_base64", &out->body) && !p->code)
		p->code = err_set(p->err, DLQ_BAD_REQUEST, "body: neither \"body\" nor \"body_base64\" is there; this is no full record, as an export gives it");
	if (bytes_of_key(p, d, "edited_body", "edited_body_base64", edited) && !p->code)
		out->edited_body = edited;
	out->d.edited = out->edited_body || out->d.edited_headers.n;
	out->d.body_bytes = (int64_t)out->body.n;
}

enum dlq_code record_parse(struct arena *a, struct str line, struct store_import *out, struct dlq_err *err)
{
	struct doc *d = NULL;
	struct parse p = {.a = a, .err = err};
	*out = (struct store_import){0};
	p.code = doc_from_json(a, line, "record", &d, err);
	if (!p.code && d->kind != DOC_MAP)
		p.code = err_set(err, DLQ_BAD_REQUEST, "a record is a JSON object");
	if (!p.code) {
		ids_of(&p, d, &out->d);
		facts_of(&p, d, &out->d);
		history_of(&p, d, out);
		contents_of(&p, d, out);
	}
	if (p.code == DLQ_INVALID_SETTING) { /* what the reading of settings calls it */
		p.code = DLQ_BAD_REQUEST;
		if (err)
			err->code = p.code;
	}
	return p.code;
}
