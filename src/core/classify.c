#define PCRE2_CODE_UNIT_WIDTH 8
#include "core/classify.h"

#include <pcre2.h>

/* A pattern with nested repeats can take exponential time: past these limits it counts as not found. */
#define MATCH_LIMIT 100000
#define DEPTH_LIMIT 1000
#define HEAP_LIMIT_KIB 1024
#define PARENS_LIMIT 100

static void *pattern_alloc(PCRE2_SIZE n, void *unused)
{
	(void)unused;
	return mem_grow(NULL, n, 1);
}

static void pattern_release(void *p, void *unused)
{
	(void)unused;
	mem_free(p);
}

bool pattern_compile(struct str source, void **code, char why[160], size_t *at)
{
	pcre2_general_context *g = pcre2_general_context_create(pattern_alloc, pattern_release, NULL);
	pcre2_compile_context *c = pcre2_compile_context_create(g);
	pcre2_set_parens_nest_limit(c, PARENS_LIMIT);
	int error = 0;
	PCRE2_SIZE offset = 0;
	/* MATCH_INVALID_UTF: a worker's message need not be UTF-8. NEVER_BACKSLASH_C: \C could split a character. */
	uint32_t options = PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_NEVER_BACKSLASH_C;
	*code = pcre2_compile((PCRE2_SPTR)source.p, source.n, options, &error, &offset, c);
	pcre2_compile_context_free(c);
	pcre2_general_context_free(g);
	if (*code)
		return true;
	if (pcre2_get_error_message(error, (PCRE2_UCHAR *)why, 160) < 0)
		why[159] = '\0';
	*at = offset + 1;
	return false;
}

void pattern_free(void *code)
{
	pcre2_code_free(code);
}

bool pattern_found(const void *code, struct str subject)
{
	pcre2_general_context *g = pcre2_general_context_create(pattern_alloc, pattern_release, NULL);
	pcre2_match_context *m = pcre2_match_context_create(g);
	pcre2_match_data *data = pcre2_match_data_create(1, g);
	pcre2_set_match_limit(m, MATCH_LIMIT);
	pcre2_set_depth_limit(m, DEPTH_LIMIT);
	pcre2_set_heap_limit(m, HEAP_LIMIT_KIB);
	int rc = pcre2_match(code, (PCRE2_SPTR)subject.p, subject.n, 0, 0, data, m);
	pcre2_match_data_free(data);
	pcre2_match_context_free(m);
	pcre2_general_context_free(g);
	return rc >= 0;
}

static bool rule_matches(const struct classify_rule *r, const struct failure *f)
{
	if (r->error_type.n && !str_eq(r->error_type, f->type))
		return false;
	if (r->http_status_min && (f->http_status < r->http_status_min || f->http_status > r->http_status_max))
		return false;
	if (r->exit_code >= 0 && f->exit_code != r->exit_code)
		return false;
	return !r->message_code || pattern_found(r->message_code, str_cut(f->message, FAILURE_MESSAGE_MAX));
}

const struct classify_rule *classify_find(const struct policy *policy, const struct failure *f)
{
	for (int i = 0; i < policy->n_rules; i++)
		if (rule_matches(&policy->rules[i], f))
			return &policy->rules[i];
	return NULL;
}

enum outcome classify(const struct policy *policy, const struct failure *f, enum outcome said)
{
	if (said != OUTCOME_TRANSIENT && said != OUTCOME_PERMANENT)
		return said;
	const struct classify_rule *r = classify_find(policy, f);
	return r && r->outcome != OUTCOME_COUNT ? r->outcome : said;
}
