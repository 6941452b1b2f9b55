#include "base/clock.h"
#include "lib_check.h"

static struct queue_config *policy_of(const char *yaml)
{
	struct dlq_err err = {0};
	struct queue_config *q = config_of(yaml, &err);
	if (!q)
		fail_msg("%s", err.detail);
	return q;
}

static void test_rules(void **state)
{
	(void)state;
	struct queue_config *q = policy_of("policy:\n"
	                                   "  classify:\n"
	                                   "    - {http_status: 409, outcome: permanent}\n"
	                                   "    - {message: \"(?i)deadlock\", outcome: transient}\n"
	                                   "    - {error_type: Gateway, http_status: 500-503, outcome: permanent}\n"
	                                   "  permanent_when: [{error_type: ValidationError}, {exit_code: 0}]\n"
	                                   "  transient_when: [{http_status: 4xx}]\n");
	static const struct {
		struct failure f;
		enum outcome said, want;
	} cases[] = {
#define T OUTCOME_TRANSIENT
#define P OUTCOME_PERMANENT
#define S(z) {(z), sizeof(z) - 1}
	    {{S(""), S(""), S(""), 0, -1, {0}}, T, T}, /* no rule: the worker's own word */
	    {{S(""), S(""), S(""), 0, -1, {0}}, P, P},
	    {{S(""), S(""), S(""), 409, -1, {0}}, T, P},
	    {{S(""), S("DeadLock found"), S(""), 409, -1, {0}}, T, P}, /* the first match wins */
	    {{S("ValidationError"), S("a deadlock"), S(""), 0, -1, {0}}, P, T},
	    {{S("ValidationError"), S("x"), S(""), 0, -1, {0}}, T, P},
	    {{S("validationerror"), S("x"), S(""), 0, -1, {0}}, T, T}, /* exact */
	    {{S("ValidationErrors"), S("x"), S(""), 0, -1, {0}}, T, T},
	    {{S("Gateway"), S(""), S(""), 500, -1, {0}}, T, P},
	    {{S("Gateway"), S(""), S(""), 503, -1, {0}}, T, P},
	    {{S("Gateway"), S(""), S(""), 504, -1, {0}}, T, T}, /* one past; all conditions must hold */
	    {{S("Other"), S(""), S(""), 500, -1, {0}}, T, T},
	    {{S(""), S(""), S(""), 0, 0, {0}}, T, P},
	    {{S(""), S(""), S(""), 400, -1, {0}}, P, T},
	    {{S(""), S(""), S(""), 499, -1, {0}}, P, T},
	    {{S(""), S(""), S(""), 399, -1, {0}}, P, P},
	    {{S(""), S(""), S(""), 500, -1, {0}}, P, P},
	    {{S(""), S("not in \xff here, but deadlock"), S(""), 0, -1, {0}}, P, T}, /* a message need not be UTF-8 */
	    /* Only failures are reclassified. */
	    {{S("ValidationError"), S(""), S(""), 409, -1, {0}}, OUTCOME_OK, OUTCOME_OK},
	    {{S("ValidationError"), S(""), S(""), 409, -1, {0}}, OUTCOME_RELEASE, OUTCOME_RELEASE},
	    {{S("ValidationError"), S(""), S(""), 409, -1, {0}}, OUTCOME_LEASE_EXPIRED, OUTCOME_LEASE_EXPIRED},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		if (classify(&q->policy, &cases[i].f, cases[i].said) != cases[i].want)
			fail_msg("case %zu", i);
	queue_config_unref(q);
}

/* A pattern of exponential cost must not cost: past the limits it does not match, and the next rule is asked. */
static void test_cost_is_bounded(void **state)
{
	(void)state;
	struct queue_config *q = policy_of("policy:\n"
	                                   "  classify:\n"
	                                   "    - {message: \"^(a+)+$\", outcome: permanent}\n"
	                                   "    - {message: \"^(?:(?:a|a)*)*b$\", outcome: permanent}\n"
	                                   "    - {message: \"(a*)*(a*)*(a*)*(a*)*x\", outcome: permanent}\n"
	                                   "    - {message: \"^(a(?1)?b?)+$\", outcome: permanent}\n");
	char text[FAILURE_MESSAGE_MAX];
	memset(text, 'a', sizeof text);
	text[sizeof text - 1] = '!';
	struct failure f = {.message = {text, sizeof text}, .exit_code = -1};
	struct clock *c = clock_real_new();
	int64_t start = clock_mono_us(c);
	for (int i = 0; i < 10; i++)
		assert_int_equal(classify(&q->policy, &f, OUTCOME_TRANSIENT), OUTCOME_TRANSIENT);
	/* Unbounded it would take longer than the universe has; each takes a few milliseconds. */
	assert_true(clock_mono_us(c) - start < 20000000);
	clock_free(c);
	f.message = STR("aaaa"); /* within the limits it does match */
	assert_int_equal(classify(&q->policy, &f, OUTCOME_TRANSIENT), OUTCOME_PERMANENT);
	queue_config_unref(q);
}

static void test_only_what_is_kept_is_searched(void **state)
{
	(void)state;
	struct queue_config *q = policy_of("policy: {permanent_when: [{message: needle}]}");
	char *text = mem_alloc(FAILURE_MESSAGE_MAX + 100);
	memset(text, ' ', FAILURE_MESSAGE_MAX + 100);
	memcpy(text + FAILURE_MESSAGE_MAX - 6, "needle", 6);
	struct failure f = {.message = {text, FAILURE_MESSAGE_MAX + 100}, .exit_code = -1};
	assert_int_equal(classify(&q->policy, &f, OUTCOME_TRANSIENT), OUTCOME_PERMANENT);
	memcpy(text + FAILURE_MESSAGE_MAX - 6, " needle", 7);
	assert_int_equal(classify(&q->policy, &f, OUTCOME_TRANSIENT), OUTCOME_TRANSIENT);
	mem_free(text);
	queue_config_unref(q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_rules),
	    cmocka_unit_test(test_cost_is_bounded),
	    cmocka_unit_test(test_only_what_is_kept_is_searched),
	};
	return cmocka_run_group_tests_name("classify", tests, NULL, NULL);
}
