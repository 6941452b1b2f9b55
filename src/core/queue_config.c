#include "core/policy_parse.h"

#include <string.h>

#define QUEUE_MESSAGES_MAX ((int64_t)1000000000000)
#define QUEUE_BYTES_MAX ((int64_t)1 << 60)
#define DEDUP_MAX_MS ((int64_t)7 * 86400000)
#define IN_FLIGHT_MAX 1000000
#define CONCURRENCY_MAX 1024
#define PUSH_TIMEOUT_MIN_MS 100
#define PUSH_TIMEOUT_MAX_MS ((int64_t)3600 * 1000)
#define URL_MAX 2048

static const char *const queue_keys[] = {"name",          "ordered", "dedup_window", "max_messages",
                                         "max_bytes",     "max_in_flight", "push",   "concurrency",
                                         "push_timeout",  "on_dead_letter", "policy"};

/* Unknown keys; one that belongs inside the policy is told so. */
static enum dlq_code check_keys(const struct doc *d, struct dlq_err *err)
{
	for (const struct doc *entry = d->kind == DOC_MAP ? d->child : NULL; entry; entry = entry->next)
		for (size_t i = 0; i < policy_keys_len; i++)
			if (str_eqz(entry->key, policy_keys[i]))
				return doc_fail(entry, err, "belongs inside \"policy\": write policy: {%s: ...}", policy_keys[i]);
	return doc_check_keys(d, queue_keys, ARRAY_LEN(queue_keys), err);
}

/* given wins over the key "name", so that the settings of one queue can be put to another as they are. */
static enum dlq_code parse_name(const struct doc *d, struct str given, struct queue_config *q, struct dlq_err *err)
{
	const struct doc *n = given.n ? NULL : doc_get(d, "name");
	struct str name = given;
	enum dlq_code code = n ? doc_str(n, &name, err) : DLQ_OK;
	if (code != DLQ_OK)
		return code;
	const char *why = queue_name_check(name);
	if (why && n)
		return doc_fail(n, err, "%s", why);
	if (why && d && !given.n)
		return doc_fail(d, err, "\"name\" is missing: every queue has one");
	if (why)
		return err_set(err, DLQ_INVALID_NAME, "queue name: %s", why);
	q->name = arena_str(&q->arena, name);
	return DLQ_OK;
}

/* An http or https URL with a host and without blanks, or empty. */
static enum dlq_code parse_url(const struct doc *d, struct arena *arena, struct str *out, struct dlq_err *err)
{
	struct str s;
	if (!d)
		return DLQ_OK;
	enum dlq_code code = doc_str(d, &s, err);
	if (code != DLQ_OK)
		return code;
	if (s.n > URL_MAX)
		return doc_fail(d, err, "must be at most %d bytes long", URL_MAX);
	size_t scheme = str_starts(s, "http://") ? 7 : str_starts(s, "https://") ? 8 : 0;
	if (s.n && (!scheme || s.n == scheme || strchr("/?#:", s.p[scheme])))
		return doc_fail(d, err, "must be a URL that starts with http:// or https:// and names a host");
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] <= ' ' || s.p[i] > '~')
			return doc_fail(d, err, "must be a URL of printable ASCII without spaces; encode other characters as %%XX");
	*out = arena_str(arena, s);
	return DLQ_OK;
}

static enum dlq_code parse_limits(const struct doc *d, struct queue_config *q, struct dlq_err *err)
{
	const struct doc *n;
	enum dlq_code code = DLQ_OK;
	int64_t v;
	if ((n = doc_get(d, "dedup_window")))
		code = doc_duration(n, 0, DEDUP_MAX_MS, &q->dedup_window_ms, err);
	if (code == DLQ_OK && (n = doc_get(d, "max_messages")))
		code = doc_int(n, 0, QUEUE_MESSAGES_MAX, &q->max_messages, err);
	if (code == DLQ_OK && (n = doc_get(d, "max_bytes")))
		code = doc_size(n, 0, QUEUE_BYTES_MAX, &q->max_bytes, err);
	if (code == DLQ_OK && (n = doc_get(d, "max_in_flight"))) {
		code = doc_int(n, 1, IN_FLIGHT_MAX, &v, err);
		q->max_in_flight = code == DLQ_OK ? (int)v : 0;
	}
	if (code == DLQ_OK && (n = doc_get(d, "concurrency"))) {
		code = doc_int(n, 1, CONCURRENCY_MAX, &v, err);
		q->concurrency = code == DLQ_OK ? (int)v : 0;
	}
	if (code == DLQ_OK && (n = doc_get(d, "push_timeout")))
		code = doc_duration(n, PUSH_TIMEOUT_MIN_MS, PUSH_TIMEOUT_MAX_MS, &q->push_timeout_ms, err);
	return code;
}

static enum dlq_code parse_all(const struct doc *d, struct str name, struct queue_config *q, struct dlq_err *err)
{
	enum dlq_code code = d ? check_keys(d, err) : DLQ_OK;
	const struct doc *ordered = doc_get(d, "ordered"), *told = doc_get(d, "on_dead_letter");
	if (code == DLQ_OK)
		code = parse_name(d, name, q, err);
	if (code == DLQ_OK && ordered)
		code = doc_bool(ordered, &q->ordered, err);
	if (code == DLQ_OK)
		code = parse_limits(d, q, err);
	if (code == DLQ_OK)
		code = parse_url(doc_get(d, "push"), &q->arena, &q->push_url, err);
	if (code == DLQ_OK && told && told->kind != DOC_NULL) {
		q->on_dead_letter_default = false;
		code = parse_url(told, &q->arena, &q->on_dead_letter, err);
	}
	if (code == DLQ_OK)
		code = policy_parse(doc_get(d, "policy"), &q->arena, &q->policy, err);
	return code;
}

enum dlq_code queue_config_parse(const struct doc *d, struct str name, struct str default_on_dead_letter,
                                 struct queue_config **out, struct dlq_err *err)
{
	struct queue_config *q = mem_alloc(sizeof *q);
	q->refs = 1;
	q->dedup_window_ms = 600000;
	q->max_in_flight = 10000;
	q->concurrency = 16;
	q->push_timeout_ms = 30000;
	q->on_dead_letter = arena_str(&q->arena, default_on_dead_letter);
	q->on_dead_letter_default = true;
	q->push_url = STR("");
	if (d && d->kind == DOC_NULL)
		d = NULL;
	enum dlq_code code = parse_all(d, name, q, err);
	if (code != DLQ_OK) {
		queue_config_unref(q);
		return code;
	}
	*out = q;
	return DLQ_OK;
}

struct queue_config *queue_config_ref(struct queue_config *q)
{
	ASSERT(__atomic_fetch_add(&q->refs, 1, __ATOMIC_RELAXED) > 0);
	return q;
}

void queue_config_unref(struct queue_config *q)
{
	if (!q || __atomic_sub_fetch(&q->refs, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	policy_clear(&q->policy);
	struct arena a = q->arena;
	arena_release(&a);
	mem_free(q);
}
