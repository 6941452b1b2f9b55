/* classify, permanent_when, transient_when: one list of rules in this order. */
#include "core/classify.h"
#include "core/policy_parse.h"

/* "409", "5xx" or "500-599" at 100 to 599. */
static bool parse_status(struct str s, int *min, int *max)
{
	for (size_t i = 0; i < s.n; i++) {
		bool digit = s.p[i] >= '0' && s.p[i] <= '9';
		bool wildcard = s.n == 3 && i > 0 && (s.p[i] | 0x20) == 'x';
		if (!digit && !wildcard && !(s.n == 7 && i == 3 && s.p[i] == '-'))
			return false;
	}
	if (s.n == 3 && (s.p[2] | 0x20) == 'x' && (s.p[1] | 0x20) == 'x') {
		*min = (s.p[0] - '0') * 100;
		*max = *min + 99;
	} else if (s.n == 3 || s.n == 7) {
		const char *last = s.p + s.n - 3;
		if (s.p[1] > '9' || s.p[2] > '9')
			return false; /* "5x3" */
		*min = (s.p[0] - '0') * 100 + (s.p[1] - '0') * 10 + (s.p[2] - '0');
		*max = (last[0] - '0') * 100 + (last[1] - '0') * 10 + (last[2] - '0');
	} else {
		return false;
	}
	return *min >= 100 && *max <= 599 && *min <= *max;
}

static enum dlq_code parse_type(const struct doc *d, struct arena *arena, struct classify_rule *r, struct dlq_err *err)
{
	struct str s;
	enum dlq_code code = doc_str(d, &s, err);
	if (code != DLQ_OK)
		return code;
	if (s.n == 0 || s.n > ERROR_TYPE_MAX)
		return doc_fail(d, err, "must be 1 to %d bytes long", ERROR_TYPE_MAX);
	r->error_type = arena_str(arena, s);
	return DLQ_OK;
}

static enum dlq_code parse_message(const struct doc *d, struct arena *arena, struct classify_rule *r, struct dlq_err *err)
{
	struct str s;
	enum dlq_code code = doc_str(d, &s, err);
	if (code != DLQ_OK)
		return code;
	if (s.n == 0 || s.n > PATTERN_MAX)
		return doc_fail(d, err, "must be a pattern of 1 to %d bytes", PATTERN_MAX);
	char why[160];
	size_t at;
	if (!pattern_compile(s, &r->message_code, why, &at))
		return doc_fail(d, err, "is not a pattern (PCRE2): %s at byte %zu", why, at);
	r->message_re = arena_str(arena, s);
	return DLQ_OK;
}

static enum dlq_code parse_fingerprint(const struct doc *d, struct arena *arena, struct classify_rule *r, struct dlq_err *err)
{
	struct str s;
	enum dlq_code code = doc_str(d, &s, err);
	if (code != DLQ_OK)
		return code;
	if (s.n == 0 || s.n > RULE_FINGERPRINT_MAX)
		return doc_fail(d, err, "must be a name of 1 to %d bytes for the group of these failures", RULE_FINGERPRINT_MAX);
	r->fingerprint = arena_str(arena, s);
	return DLQ_OK;
}

static enum dlq_code parse_outcome(const struct doc *rule, enum outcome fixed, struct classify_rule *r, struct dlq_err *err)
{
	const struct doc *d = doc_get(rule, "outcome");
	r->outcome = fixed;
	if (fixed != OUTCOME_COUNT)
		return DLQ_OK;
	if (!d && doc_get(rule, "fingerprint"))
		return DLQ_OK; /* it only names the group */
	if (!d)
		return doc_fail(rule, err, "\"outcome\" is missing: transient or permanent");
	if (d->kind == DOC_SCALAR && outcome_parse(d->text, &r->outcome) &&
	    (r->outcome == OUTCOME_TRANSIENT || r->outcome == OUTCOME_PERMANENT))
		return DLQ_OK;
	return doc_fail(d, err, "must be transient or permanent");
}

/* fixed: the outcome that the list's name says, or OUTCOME_COUNT for classify, whose rules say it themselves. */
static enum dlq_code parse_rule(const struct doc *d, enum outcome fixed, struct arena *arena, struct classify_rule *r,
                                struct dlq_err *err)
{
	static const char *const keys[] = {"error_type", "message", "http_status", "exit_code", "fingerprint", "outcome"};
	enum dlq_code code = doc_check_keys(d, keys, ARRAY_LEN(keys) - (fixed != OUTCOME_COUNT), err);
	const struct doc *type = doc_get(d, "error_type"), *message = doc_get(d, "message");
	const struct doc *status = doc_get(d, "http_status"), *exit_code = doc_get(d, "exit_code");
	if (code == DLQ_OK)
		code = parse_outcome(d, fixed, r, err);
	if (code == DLQ_OK && !type && !message && !status && !exit_code)
		return doc_fail(d, err, "names no condition: give at least one of error_type, message, http_status, exit_code");
	if (code == DLQ_OK && type)
		code = parse_type(type, arena, r, err);
	if (code == DLQ_OK && message)
		code = parse_message(message, arena, r, err);
	if (code == DLQ_OK && status &&
	    (status->kind != DOC_SCALAR || !parse_status(status->text, &r->http_status_min, &r->http_status_max)))
		return doc_fail(status, err, "must be a status from 100 to 599 such as 409, a class such as \"5xx\" or a range such as \"500-599\"");
	if (code == DLQ_OK && doc_get(d, "fingerprint"))
		code = parse_fingerprint(doc_get(d, "fingerprint"), arena, r, err);
	int64_t v = -1;
	if (code == DLQ_OK && exit_code)
		code = doc_int(exit_code, 0, 255, &v, err);
	r->exit_code = (int)v;
	return code;
}

static enum dlq_code parse_rules(const struct doc *policy, const char *key, enum outcome fixed, struct arena *arena,
                                 struct policy *p, struct dlq_err *err)
{
	const struct doc *list = doc_get(policy, key);
	if (!list)
		return DLQ_OK;
	if (list->kind != DOC_LIST)
		return doc_fail(list, err, "must be a list of rules such as [{error_type: ValidationError}]");
	for (const struct doc *d = list->child; d; d = d->next) {
		if (p->n_rules == CLASSIFY_RULES_MAX)
			return doc_fail(d, err, "is one rule too many: classify, permanent_when and transient_when together hold at most %d",
			                CLASSIFY_RULES_MAX);
		struct classify_rule *r = &p->rules[p->n_rules++]; /* counted first: policy_clear frees what it holds */
		r->exit_code = -1;
		enum dlq_code code = parse_rule(d, fixed, arena, r, err);
		if (code != DLQ_OK)
			return code;
	}
	return DLQ_OK;
}

enum dlq_code rules_parse(const struct doc *d, struct arena *arena, struct policy *p, struct dlq_err *err)
{
	if (!doc_get(d, "classify") && !doc_get(d, "permanent_when") && !doc_get(d, "transient_when"))
		return DLQ_OK;
	p->rules = arena_alloc(arena, CLASSIFY_RULES_MAX * sizeof *p->rules);
	enum dlq_code code = parse_rules(d, "classify", OUTCOME_COUNT, arena, p, err);
	if (code == DLQ_OK)
		code = parse_rules(d, "permanent_when", OUTCOME_PERMANENT, arena, p, err);
	if (code == DLQ_OK)
		code = parse_rules(d, "transient_when", OUTCOME_TRANSIENT, arena, p, err);
	return code;
}

void policy_clear(struct policy *p)
{
	for (int i = 0; i < p->n_rules; i++)
		pattern_free(p->rules[i].message_code);
	p->rules = NULL; /* lives in the arena */
	p->n_rules = 0;
}
