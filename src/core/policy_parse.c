#include "core/policy_parse.h"

#include <stdlib.h>

const char *const policy_keys[] = {"max_attempts", "backoff",   "jitter",       "visibility_timeout",
                                   "crash_limit",  "ttl",       "retention",    "max_redrives",
                                   "classify",     "permanent_when", "transient_when"};
const size_t policy_keys_len = ARRAY_LEN(policy_keys);

void policy_defaults(struct policy *p)
{
	*p = (struct policy){
	    .max_attempts = 5,
	    .backoff = {.kind = BACKOFF_LIST, .list_ms = {60000, 300000, 900000, 3600000}, .n = 4},
	    .jitter = {.kind = JITTER_NONE},
	    .crash_limit = 3,
	    .visibility_timeout_ms = 30000,
	    .retention_ms = (int64_t)30 * 86400000,
	    .max_redrives = 3,
	};
}

static enum dlq_code parse_max_attempts(const struct doc *d, int *out, struct dlq_err *err)
{
	struct dlq_err ignored = {0};
	int64_t v;
	if (!d)
		return DLQ_OK;
	if (doc_int(d, 1, MAX_ATTEMPTS_LIMIT, &v, &ignored) == DLQ_OK) {
		*out = (int)v;
		return DLQ_OK;
	}
	struct str shown = d->kind == DOC_SCALAR ? str_cut(d->text, 40) : STR("a list or map");
	return doc_fail(d, err,
	                "must be a whole number from 1 to %d, not " STR_FMT ": there is no \"no limit\", because a message that "
	                "never dies blocks the others or loops for ever; use 1 for no retry",
	                MAX_ATTEMPTS_LIMIT, STR_ARG(shown));
}

static enum dlq_code parse_list(const struct doc *d, struct backoff *b, struct dlq_err *err)
{
	b->kind = BACKOFF_LIST;
	b->n = 0;
	if (!d->child)
		return doc_fail(d, err, "must hold at least one delay, such as [1m, 5m, 15m, 1h]; for no retry set max_attempts to 1");
	for (const struct doc *item = d->child; item; item = item->next) {
		if (b->n == BACKOFF_LIST_MAX)
			return doc_fail(d, err, "holds more than %d delays; the last one repeats, so leave the rest out", BACKOFF_LIST_MAX);
		enum dlq_code code = doc_duration(item, 0, BACKOFF_MAX_MS, &b->list_ms[b->n], err);
		if (code != DLQ_OK)
			return code;
		b->n++;
	}
	return DLQ_OK;
}

static enum dlq_code parse_exponential(const struct doc *d, struct backoff *b, struct dlq_err *err)
{
	static const char *const keys[] = {"initial", "multiplier", "max"};
	const struct doc *initial = doc_get(d, "initial"), *multiplier = doc_get(d, "multiplier"), *max = doc_get(d, "max");
	enum dlq_code code = doc_check_keys(d, keys, ARRAY_LEN(keys), err);
	*b = (struct backoff){.kind = BACKOFF_EXPONENTIAL, .multiplier = 2};
	if (code == DLQ_OK && !initial)
		return doc_fail(d, err, "\"initial\" is missing: the delay after the first failure, such as {initial: 2s, multiplier: 2, max: 30s}");
	if (code == DLQ_OK)
		code = doc_duration(initial, 1, BACKOFF_MAX_MS, &b->initial_ms, err);
	if (code == DLQ_OK && multiplier)
		code = doc_num(multiplier, 1, 100, &b->multiplier, err);
	b->max_ms = b->initial_ms > 3600000 ? b->initial_ms : 3600000;
	if (code == DLQ_OK && max)
		code = doc_duration(max, b->initial_ms, BACKOFF_MAX_MS, &b->max_ms, err);
	return code;
}

static enum dlq_code parse_backoff(const struct doc *d, struct backoff *b, struct dlq_err *err)
{
	if (!d)
		return DLQ_OK;
	if (d->kind == DOC_LIST)
		return parse_list(d, b, err);
	if (d->kind == DOC_MAP)
		return parse_exponential(d, b, err);
	return doc_fail(d, err, "must be a list of delays such as [1m, 5m, 15m, 1h], or {initial: 2s, multiplier: 2, max: 30s}");
}

static enum dlq_code parse_jitter(const struct doc *d, const struct backoff *b, struct jitter *j, struct dlq_err *err)
{
	*j = (struct jitter){.kind = b->kind == BACKOFF_LIST ? JITTER_NONE : JITTER_FULL};
	if (!d || (d->kind == DOC_SCALAR && jitter_parse(d->text, j)))
		return DLQ_OK;
	return doc_fail(d, err, "must be none, full, equal, decorrelated or proportional:P with P above 0 and at most 1, such as proportional:0.2");
}

static enum dlq_code parse_int(const struct doc *d, int min, int max, int *out, struct dlq_err *err)
{
	int64_t v = *out;
	enum dlq_code code = d ? doc_int(d, min, max, &v, err) : DLQ_OK;
	if (code == DLQ_OK)
		*out = (int)v;
	return code;
}

static enum dlq_code parse_duration(const struct doc *d, int64_t min, int64_t max, int64_t *out, struct dlq_err *err)
{
	return d ? doc_duration(d, min, max, out, err) : DLQ_OK;
}

enum dlq_code policy_parse(const struct doc *d, struct arena *arena, struct policy *p, struct dlq_err *err)
{
	policy_defaults(p);
	if (!d)
		return DLQ_OK;
	enum dlq_code code = doc_check_keys(d, policy_keys, policy_keys_len, err);
	if (code == DLQ_OK)
		code = parse_max_attempts(doc_get(d, "max_attempts"), &p->max_attempts, err);
	if (code == DLQ_OK)
		code = parse_backoff(doc_get(d, "backoff"), &p->backoff, err);
	if (code == DLQ_OK)
		code = parse_jitter(doc_get(d, "jitter"), &p->backoff, &p->jitter, err);
	if (code == DLQ_OK)
		code = parse_duration(doc_get(d, "visibility_timeout"), VISIBILITY_MIN_MS, VISIBILITY_MAX_MS,
		                      &p->visibility_timeout_ms, err);
	if (code == DLQ_OK)
		code = parse_int(doc_get(d, "crash_limit"), 1, CRASH_LIMIT_LIMIT, &p->crash_limit, err);
	if (code == DLQ_OK)
		code = parse_duration(doc_get(d, "ttl"), 0, DURATION_MAX_MS, &p->ttl_ms, err);
	if (code == DLQ_OK)
		code = parse_duration(doc_get(d, "retention"), RETENTION_MIN_MS, DURATION_MAX_MS, &p->retention_ms, err);
	if (code == DLQ_OK)
		code = parse_int(doc_get(d, "max_redrives"), 0, REDRIVES_LIMIT, &p->max_redrives, err);
	if (code == DLQ_OK)
		code = rules_parse(d, arena, p, err);
	return code;
}
