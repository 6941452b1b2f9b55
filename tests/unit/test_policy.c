/* Reading and writing a queue's settings, and the properties of the decision that no single case shows. */
#include "base/rnd.h"
#include "lib_check.h"

#include <stdio.h>

static void test_defaults(void **state)
{
	(void)state;
	struct dlq_err err = {0};
	struct queue_config *q = NULL;
	assert_int_equal(queue_config_parse(NULL, STR("orders"), STR("http://h/d"), &q, &err), DLQ_OK);
	assert_str(q->name, "orders");
	assert_str(q->on_dead_letter, "http://h/d");
	assert_int_equal(q->push_url.n, 0);
	assert_false(q->ordered);
	assert_false(q->from_file);
	assert_int_equal(q->dedup_window_ms, 600000);
	assert_int_equal(q->max_messages, 0);
	assert_int_equal(q->max_bytes, 0);
	assert_int_equal(q->max_in_flight, 10000);
	assert_int_equal(q->concurrency, 16);
	assert_int_equal(q->push_timeout_ms, 30000);
	const struct policy *p = &q->policy;
	assert_int_equal(p->max_attempts, 5);
	assert_int_equal(p->backoff.kind, BACKOFF_LIST);
	assert_int_equal(p->backoff.n, 4);
	assert_int_equal(p->backoff.list_ms[0], 60000);
	assert_int_equal(p->backoff.list_ms[3], 3600000);
	assert_int_equal(p->jitter.kind, JITTER_NONE);
	assert_int_equal(p->crash_limit, 3);
	assert_int_equal(p->visibility_timeout_ms, 30000);
	assert_int_equal(p->ttl_ms, 0);
	assert_int_equal(p->retention_ms, 2592000000);
	assert_int_equal(p->max_redrives, 3);
	assert_int_equal(p->n_rules, 0);
	assert_ptr_equal(queue_config_ref(q), q);
	queue_config_unref(q);
	assert_int_equal(q->refs, 1);
	queue_config_unref(q);
	queue_config_unref(NULL);
}

#define EVERYTHING                                                                                                     \
	"ordered: true\ndedup_window: 1h\nmax_messages: 1000\nmax_bytes: 1GiB\nmax_in_flight: 7\n"                     \
	"push: https://h:8080/orders?x=%20\nconcurrency: 3\npush_timeout: 5s\non_dead_letter: http://[::1]:9000/dead\n" \
	"policy:\n  max_attempts: 9\n  backoff: {initial: 1500ms, multiplier: 1.7, max: 2h}\n  jitter: proportional:0.2\n" \
	"  visibility_timeout: 45s\n  crash_limit: 2\n  ttl: 1d\n  retention: 90d\n  max_redrives: 0\n"                \
	"  classify:\n    - {http_status: 409, outcome: permanent}\n    - {message: \"(?i)dead\\\\s+\\\"lock\", outcome: transient}\n" \
	"    - {http_status: 5xx, error_type: Gateway, outcome: transient}\n"                                             \
	"    - {http_status: \"500-503\", exit_code: 0, outcome: permanent}\n"                                            \
	"  transient_when: [{exit_code: 3}]\n  permanent_when: [{error_type: ValidationError}]\n"

static void test_everything(void **state)
{
	(void)state;
	struct dlq_err err = {0};
	struct queue_config *q = config_of(EVERYTHING, &err);
	if (!q)
		fail_msg("%s", err.detail);
	const struct policy *p = &q->policy;
	assert_true(q->ordered);
	assert_int_equal(q->dedup_window_ms, 3600000);
	assert_int_equal(q->max_messages, 1000);
	assert_int_equal(q->max_bytes, 1 << 30);
	assert_int_equal(q->max_in_flight, 7);
	assert_str(q->push_url, "https://h:8080/orders?x=%20");
	assert_int_equal(q->concurrency, 3);
	assert_int_equal(q->push_timeout_ms, 5000);
	assert_str(q->on_dead_letter, "http://[::1]:9000/dead");
	assert_int_equal(p->max_attempts, 9);
	assert_int_equal(p->backoff.kind, BACKOFF_EXPONENTIAL);
	assert_int_equal(p->backoff.initial_ms, 1500);
	assert_true(p->backoff.multiplier == 1.7);
	assert_int_equal(p->backoff.max_ms, 7200000);
	assert_int_equal(p->jitter.kind, JITTER_PROPORTIONAL);
	assert_true(p->jitter.p == 0.2);
	assert_int_equal(p->max_redrives, 0);
	assert_int_equal(p->ttl_ms, 86400000);
	/* classify first, then permanent_when, then transient_when, in whatever order they were written. */
	assert_int_equal(p->n_rules, 6);
	assert_int_equal(p->rules[0].http_status_min, 409);
	assert_int_equal(p->rules[0].http_status_max, 409);
	assert_str(p->rules[1].message_re, "(?i)dead\\s+\"lock");
	assert_int_equal(p->rules[2].http_status_min, 500);
	assert_int_equal(p->rules[2].http_status_max, 599);
	assert_int_equal(p->rules[3].http_status_max, 503);
	assert_int_equal(p->rules[3].exit_code, 0);
	assert_str(p->rules[4].error_type, "ValidationError");
	assert_int_equal(p->rules[4].outcome, OUTCOME_PERMANENT);
	assert_int_equal(p->rules[4].exit_code, -1);
	assert_int_equal(p->rules[5].exit_code, 3);
	assert_int_equal(p->rules[5].outcome, OUTCOME_TRANSIENT);
	queue_config_unref(q);
}

/* What is written reads back as the same, and is written the same again. */
static void check_round_trip(struct queue_config *q)
{
	struct arena a = {0};
	struct dlq_err err = {0};
	struct queue_config *back = NULL;
	char *text = config_text(q);
	struct doc *d = json_of(&a, text, &err);
	if (!d || queue_config_parse(d, STR(""), STR("http://other/default"), &back, &err) != DLQ_OK)
		fail_msg("%s: %s", text, err.detail);
	char *again = config_text(back);
	assert_string_equal(text, again);
	assert_true(str_eq(q->name, back->name));
	assert_int_equal(q->on_dead_letter_default, back->on_dead_letter_default);
	assert_true(str_eq(q->on_dead_letter_default ? STR("http://other/default") : q->on_dead_letter, back->on_dead_letter));
	assert_true(str_eq(q->push_url, back->push_url));
	assert_int_equal(q->ordered, back->ordered);
	const struct policy *p = &q->policy, *o = &back->policy;
	assert_int_equal(p->max_attempts, o->max_attempts);
	assert_int_equal(p->backoff.kind, o->backoff.kind);
	assert_int_equal(p->backoff.n, o->backoff.n);
	assert_memory_equal(p->backoff.list_ms, o->backoff.list_ms, sizeof p->backoff.list_ms);
	assert_int_equal(p->backoff.initial_ms, o->backoff.initial_ms);
	assert_int_equal(p->backoff.max_ms, o->backoff.max_ms);
	assert_true(p->backoff.multiplier == o->backoff.multiplier);
	assert_int_equal(p->jitter.kind, o->jitter.kind);
	assert_true(p->jitter.p == o->jitter.p);
	assert_int_equal(p->retention_ms, o->retention_ms);
	assert_int_equal(p->n_rules, o->n_rules);
	for (int i = 0; i < p->n_rules; i++) {
		assert_true(str_eq(p->rules[i].message_re, o->rules[i].message_re));
		assert_true(str_eq(p->rules[i].error_type, o->rules[i].error_type));
		assert_int_equal(p->rules[i].http_status_min, o->rules[i].http_status_min);
		assert_int_equal(p->rules[i].http_status_max, o->rules[i].http_status_max);
		assert_int_equal(p->rules[i].exit_code, o->rules[i].exit_code);
		assert_int_equal(p->rules[i].outcome, o->rules[i].outcome);
	}
	mem_free(text);
	mem_free(again);
	queue_config_unref(back);
	arena_release(&a);
}

static void test_round_trip(void **state)
{
	(void)state;
	static const char *const texts[] = {
	    "{}",
	    EVERYTHING,
	    "policy: {backoff: [0s, 1ms, 30d]}",
	    "policy: {backoff: {initial: 1ms}}",
	    "policy: {backoff: {initial: 5s, multiplier: 1, max: 5s}, jitter: none}",
	    "policy: {backoff: {initial: 5s, multiplier: 33.333333333333336}}",
	    "policy: {jitter: equal}",
	    "policy: {jitter: decorrelated}",
	    "policy: {jitter: proportional:1}",
	    "policy: {jitter: proportional:.5}",
	    "policy: {jitter: proportional:0.3333333333333}",
	    "policy: {jitter: proportional:0.0000000000001}",
	    "policy: {classify: [{message: \"\xc3\xa4\\u0001\", outcome: permanent}]}",
	};
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		struct dlq_err err = {0};
		struct queue_config *q = config_of(texts[i], &err);
		if (!q)
			fail_msg("%s: %s", texts[i], err.detail);
		check_round_trip(q);
		queue_config_unref(q);
	}
	struct dlq_err err = {0};
	struct queue_config *q = config_of("{}", &err);
	char *text = config_text(q);
	assert_string_equal(text, "{\"name\":\"q\",\"ordered\":false,\"dedup_window\":\"10m\",\"max_messages\":0,\"max_bytes\":0,"
	                          "\"max_in_flight\":10000,\"push\":\"\",\"concurrency\":16,\"push_timeout\":\"30s\",\"on_dead_letter\":null,"
	                          "\"policy\":{\"max_attempts\":5,\"backoff\":[\"1m\",\"5m\",\"15m\",\"1h\"],\"jitter\":\"none\","
	                          "\"visibility_timeout\":\"30s\",\"crash_limit\":3,\"ttl\":\"0s\",\"retention\":\"30d\",\"max_redrives\":3,"
	                          "\"classify\":[]}}");
	mem_free(text);
	queue_config_unref(q);
}

static void test_refusals(void **state)
{
	(void)state;
	static const struct {
		const char *yaml, *says;
	} cases[] = {
	    {"policy: {max_attempts: 0}", "test.yaml:1: policy.max_attempts: must be a whole number from 1 to 1000, not 0: there is no "
	                                  "\"no limit\", because a message that never dies blocks the others or loops for ever; use 1 for no retry"},
	    {"policy: {max_attempts: -1}", "not -1: there is no \"no limit\""},
	    {"policy: {max_attempts: unlimited}", "not unlimited: there is no \"no limit\""},
	    {"policy: {max_attempts: 1001}", "from 1 to 1000, not 1001"},
	    {"policy: {max_attempts: [5]}", "from 1 to 1000"},
	    {"policy: {max_attempts: 2.5}", "from 1 to 1000"},
	    {"policy: {backoff: []}", "policy.backoff: must hold at least one delay"},
	    {"policy: {backoff: 5s}", "must be a list of delays such as"},
	    {"policy: {backoff: [1m, 5 parsecs]}", "policy.backoff[1]: \"5 parsecs\" is not a duration: " DURATION_RULE},
	    {"policy: {backoff: [31d]}", "must be from 0s to 30d, not 31d"},
	    {"policy: {backoff: {multiplier: 2}}", "\"initial\" is missing"},
	    {"policy: {backoff: {initial: 0s}}", "must be from 1ms"},
	    {"policy: {backoff: {initial: 2s, max: 1s}}", "policy.backoff.max: must be from 2s"},
	    {"policy: {backoff: {initial: 2s, multiplier: 0.5}}", "must be a number from 1 to 100"},
	    {"policy: {backoff: {initial: 2s, multiplier: 101}}", "must be a number from 1 to 100"},
	    {"policy: {backoff: {initial: 2s, factor: 2}}", "policy.backoff.factor: there is no such setting"},
	    {"policy: {jitter: some}", "policy.jitter: must be none, full, equal, decorrelated or proportional:P"},
	    {"policy: {jitter: proportional:0}", "policy.jitter"},
	    {"policy: {jitter: proportional:1.1}", "policy.jitter"},
	    {"policy: {jitter: \"proportional:\"}", "policy.jitter"},
	    {"policy: {jitter: proportional:nan}", "policy.jitter"},
	    {"policy: {visibility_timeout: 999ms}", "must be from 1s to 12h, not 999ms"},
	    {"policy: {visibility_timeout: 13h}", "must be from 1s to 12h"},
	    {"policy: {crash_limit: 0}", "policy.crash_limit: must be a whole number from 1"},
	    {"policy: {max_redrives: -1}", "policy.max_redrives"},
	    {"policy: {retention: 0s}", "policy.retention: must be from 1s"},
	    {"policy: {retension: 1d}", "policy.retension: there is no such setting; did you mean \"retention\"?"},
	    {"policy: [1]", "policy: must be a map of settings, not a list"},
	    {"max_attempts: 3", "test.yaml:1: max_attempts: belongs inside \"policy\""},
	    {"orderd: true", "did you mean \"ordered\"?"},
	    {"ordered: 1", "ordered: must be true or false"},
	    {"dedup_window: 8d", "dedup_window: must be from 0s to 7d"},
	    {"max_in_flight: 0", "from 1 to 1000000"},
	    {"max_in_flight: 1000001", "from 1 to 1000000"},
	    {"concurrency: 0", "from 1 to 1024"},
	    {"concurrency: 1025", "from 1 to 1024"},
	    {"max_messages: -1", "max_messages"},
	    {"max_bytes: 1MB", "max_bytes: must be a size"},
	    {"push_timeout: 0s", "push_timeout: must be from 100ms to 1h"},
	    {"push: ftp://h/", "push: must be a URL that starts with http:// or https://"},
	    {"push: http://", "names a host"},
	    {"push: http:///path", "names a host"},
	    {"push: \"http://h/a b\"", "printable ASCII"},
	    {"push: \"http://h/\\r\\nX: y\"", "printable ASCII"},
	    {"on_dead_letter: file:///etc/passwd", "on_dead_letter: must be a URL"},
	    {"[1]", "must be a map of settings, not a list"},
	    {"policy: {classify: {a: 1}}", "must be a list of rules"},
	    {"policy: {classify: [{http_status: 409}]}", "policy.classify[0]: \"outcome\" is missing"},
	    {"policy: {classify: [{http_status: 409, outcome: ok}]}", "policy.classify[0].outcome: must be transient or permanent"},
	    {"policy: {classify: [{outcome: permanent}]}", "names no condition"},
	    {"policy: {permanent_when: [{error_type: X, outcome: permanent}]}", "policy.permanent_when[0].outcome: there is no such setting"},
	    {"policy: {permanent_when: [{http_status: 99}]}", "policy.permanent_when[0].http_status: must be a status"},
	    {"policy: {permanent_when: [{http_status: 600}]}", "http_status"},
	    {"policy: {permanent_when: [{http_status: 6xx}]}", "http_status"},
	    {"policy: {permanent_when: [{http_status: 5x3}]}", "http_status"},
	    {"policy: {permanent_when: [{http_status: 53x}]}", "http_status"},
	    {"policy: {permanent_when: [{http_status: xxx}]}", "http_status"},
	    {"policy: {permanent_when: [{http_status: 500-499}]}", "http_status"},
	    {"policy: {permanent_when: [{http_status: 500-}]}", "http_status"},
	    {"policy: {permanent_when: [{http_status: [500]}]}", "http_status"},
	    {"policy: {permanent_when: [{exit_code: 256}]}", "exit_code: must be a whole number from 0 to 255"},
	    {"policy: {permanent_when: [{message: \"a(b\"}]}", "message: is not a pattern (PCRE2): missing closing parenthesis at byte 4"},
	    {"policy: {permanent_when: [{message: \"\"}]}", "message: must be a pattern of 1 to 1024 bytes"},
	    {"policy: {permanent_when: [{error_type: \"\"}]}", "error_type: must be 1 to 256 bytes"},
	    {"policy: {permanent_when: [{error_type: A}, {http_status: nope}]}", "policy.permanent_when[1]"},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct dlq_err err = {0};
		struct queue_config *q = config_of(cases[i].yaml, &err);
		if (q)
			fail_msg("%s was taken", cases[i].yaml);
		assert_says(&err, cases[i].says);
		assert_int_equal(err.code, DLQ_INVALID_SETTING);
	}
}

static void test_names(void **state)
{
	(void)state;
	struct arena a = {0};
	struct dlq_err err = {0};
	struct queue_config *q = NULL;
	struct doc *d = json_of(&a, "{\"name\": \"from-doc\"}", &err);
	assert_int_equal(queue_config_parse(d, STR(""), STR(""), &q, &err), DLQ_OK);
	assert_str(q->name, "from-doc");
	queue_config_unref(q);
	assert_int_equal(queue_config_parse(d, STR("given"), STR(""), &q, &err), DLQ_OK);
	assert_str(q->name, "given");
	queue_config_unref(q);
	assert_int_equal(queue_config_parse(NULL, STR(".x"), STR(""), &q, &err), DLQ_INVALID_NAME);
	assert_int_equal(queue_config_parse(NULL, STR(""), STR(""), &q, &err), DLQ_INVALID_NAME);
	d = json_of(&a, "{}", &err);
	assert_int_equal(queue_config_parse(d, STR(""), STR(""), &q, &err), DLQ_INVALID_SETTING);
	assert_says(&err, "\"name\" is missing");
	d = json_of(&a, "{\"name\": \"a/b\"}", &err);
	assert_int_equal(queue_config_parse(d, STR(""), STR(""), &q, &err), DLQ_INVALID_SETTING);
	assert_says(&err, "request body:1: name: the name holds");
	d = json_of(&a, "{\"on_dead_letter\": \"\"}", &err); /* an empty one overrides the server's */
	assert_int_equal(queue_config_parse(d, STR("x"), STR("http://h/"), &q, &err), DLQ_OK);
	assert_int_equal(q->on_dead_letter.n, 0);
	assert_false(q->on_dead_letter_default);
	queue_config_unref(q);
	d = json_of(&a, "{\"on_dead_letter\": null}", &err);
	assert_int_equal(queue_config_parse(d, STR("x"), STR("http://h/"), &q, &err), DLQ_OK);
	assert_str(q->on_dead_letter, "http://h/");
	assert_true(q->on_dead_letter_default);
	queue_config_unref(q);
	arena_release(&a);
}

/* n delays or rules: the most that is taken, and one past. */
static struct queue_config *repeated(const char *front, const char *item, int n, const char *back, struct dlq_err *err)
{
	struct buf b = {0};
	buf_addz(&b, front);
	for (int i = 0; i < n; i++)
		buf_addf(&b, "%s%s", i ? ", " : "", item);
	buf_addz(&b, back);
	char *text = buf_take(&b, NULL);
	struct queue_config *q = config_of(text, err);
	mem_free(text);
	return q;
}

static void test_limits(void **state)
{
	(void)state;
	struct dlq_err err = {0};
	struct queue_config *q = repeated("policy: {backoff: [", "1s", BACKOFF_LIST_MAX, "]}", &err);
	assert_non_null(q);
	assert_int_equal(q->policy.backoff.n, BACKOFF_LIST_MAX);
	check_round_trip(q);
	queue_config_unref(q);
	assert_null(repeated("policy: {backoff: [", "1s", BACKOFF_LIST_MAX + 1, "]}", &err));
	assert_says(&err, "more than 100 delays");
	const char *rule = "{message: x+, outcome: transient}";
	q = repeated("policy: {permanent_when: [{exit_code: 1}], classify: [", rule, CLASSIFY_RULES_MAX - 1, "]}", &err);
	assert_non_null(q);
	assert_int_equal(q->policy.n_rules, CLASSIFY_RULES_MAX);
	check_round_trip(q);
	queue_config_unref(q);
	assert_null(repeated("policy: {permanent_when: [{exit_code: 1}], classify: [", rule, CLASSIFY_RULES_MAX, "]}", &err));
	assert_says(&err, "one rule too many");
	static const char *const good[] = {"policy: {max_attempts: 1}", "policy: {max_attempts: 1000}", "policy: {visibility_timeout: 12h}",
	                                   "dedup_window: 7d", "dedup_window: 0s", "max_in_flight: 1000000", "concurrency: 1024"};
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		q = config_of(good[i], &err);
		if (!q)
			fail_msg("%s: %s", good[i], err.detail);
		queue_config_unref(q);
	}
	q = repeated("policy: {permanent_when: [{message: \"", "x", 342, "xx\"}]}", &err); /* 342 * 3 bytes */
	assert_null(q);
	q = repeated("policy: {permanent_when: [{message: \"", "x", 341, "xx\"}]}", &err); /* 341 * 3 - 2 + 2 = 1023 */
	assert_non_null(q);
	queue_config_unref(q);
}

/* ---- properties of route() ---- */

static void random_policy(struct rnd *r, struct policy *p)
{
	*p = (struct policy){.max_attempts = 1 + (int)rnd_below(r, 12), .crash_limit = 1 + (int)rnd_below(r, 6)};
	p->jitter.kind = (enum jitter_kind)rnd_below(r, 5);
	p->jitter.p = 0.001 + 0.999 * rnd_unit(r);
	p->backoff.kind = (enum backoff_kind)rnd_below(r, 2);
	p->backoff.n = 1 + (int)rnd_below(r, 8);
	for (int i = 0; i < p->backoff.n; i++)
		p->backoff.list_ms[i] = (int64_t)rnd_below(r, 4000000);
	p->backoff.initial_ms = 1 + (int64_t)rnd_below(r, 100000);
	p->backoff.max_ms = p->backoff.initial_ms + (int64_t)rnd_below(r, 100000000);
	p->backoff.multiplier = 1 + 4 * rnd_unit(r);
}

/* One message through random outcomes until it ends. */
static void live_once(struct rnd *r, const struct policy *p)
{
	struct route_msg m = {0};
	int64_t now = 1700000000000;
	for (int step = 0; step < 200; step++) {
		struct route_outcome o = {.kind = (enum outcome)(1 + rnd_below(r, OUTCOME_COUNT - 1)),
		                          .retry_after_ms = rnd_below(r, 3) ? 0 : (int64_t)rnd_below(r, 2 * (uint64_t)RETRY_AFTER_MAX_MS),
		                          .delay_ms = (int64_t)rnd_below(r, 100000)};
		double u = rnd_unit(r);
		struct effect e = route(&m, p, &o, now, u), again = route(&m, p, &o, now, u);
		assert_memory_equal(&e, &again, sizeof e); /* same input, same answer */
		bool failed = o.kind != OUTCOME_OK && o.kind != OUTCOME_RELEASE;
		assert_int_equal(e.attempts, m.attempts + failed);         /* invariants 1 and 8 */
		assert_int_equal(e.lease_expirations, m.lease_expirations + (o.kind == OUTCOME_LEASE_EXPIRED));
		assert_int_equal(e.kind == EFFECT_DEAD, e.reason != REASON_NONE);
		if (o.kind == OUTCOME_RELEASE) {
			assert_int_equal(e.kind, EFFECT_RELEASE);
			assert_int_equal(e.at_ms, now + o.delay_ms);
		} else if (e.kind == EFFECT_RETRY) {
			/* Invariant 2: only what is transient, and below the limits. */
			assert_true(o.kind == OUTCOME_TRANSIENT || o.kind == OUTCOME_LEASE_EXPIRED);
			assert_true(e.attempts < p->max_attempts && e.lease_expirations < p->crash_limit);
			int64_t promised = o.retry_after_ms < RETRY_AFTER_MAX_MS ? o.retry_after_ms : RETRY_AFTER_MAX_MS;
			assert_true(e.at_ms >= now + promised && e.delay_ms == e.at_ms - now);
		} else {
			assert_int_equal(e.kind, EFFECT_DEAD);
			assert_true(o.kind == OUTCOME_PERMANENT || e.attempts >= p->max_attempts || e.lease_expirations >= p->crash_limit);
			return;
		}
		m = (struct route_msg){e.attempts, e.lease_expirations, e.kind == EFFECT_RETRY ? e.delay_ms : m.previous_delay_ms};
		now = e.at_ms;
	}
	fail_msg("a message did not end in 200 steps");
}

static void test_route_properties(void **state)
{
	(void)state;
	uint64_t seed = 20261201;
	struct rnd r;
	print_message("seed %llu\n", (unsigned long long)seed);
	rnd_seed(&r, seed);
	for (int i = 0; i < 20000; i++) {
		struct policy p;
		random_policy(&r, &p);
		live_once(&r, &p);
	}
}

static void test_backoff_properties(void **state)
{
	(void)state;
	struct rnd r;
	rnd_seed(&r, 8);
	for (int i = 0; i < 5000; i++) {
		struct policy p;
		random_policy(&r, &p);
		int n = 1 + (int)rnd_below(&r, MAX_ATTEMPTS_LIMIT);
		int64_t d = backoff_delay_ms(&p.backoff, n);
		if (p.backoff.kind == BACKOFF_EXPONENTIAL) {
			assert_true(d >= p.backoff.initial_ms && d <= p.backoff.max_ms);
			assert_true(backoff_delay_ms(&p.backoff, n + 1) >= d);
		}
		int64_t j = jitter_apply(&p.jitter, &p.backoff, d, (int64_t)rnd_below(&r, 1000000), rnd_unit(&r));
		assert_true(j >= 0);
		if (p.jitter.kind == JITTER_FULL || p.jitter.kind == JITTER_EQUAL)
			assert_true(j <= d && (p.jitter.kind == JITTER_FULL || j >= d / 2));
		if (p.jitter.kind == JITTER_PROPORTIONAL)
			assert_true(j <= 2 * d);
	}
}

static void test_route_at_the_ends(void **state)
{
	(void)state;
	struct policy p = {.max_attempts = 5, .crash_limit = 3, .backoff = {.list_ms = {60000}, .n = 1}};
	struct route_msg m = {0};
	struct route_outcome late = {OUTCOME_TRANSIENT, INT64_MAX, 0}, early = {OUTCOME_TRANSIENT, INT64_MIN, 0};
	assert_true(route(&m, &p, &late, INT64_MAX - 5, 0).at_ms == INT64_MAX); /* no overflow */
	assert_int_equal(route(&m, &p, &late, 0, 0).at_ms, RETRY_AFTER_MAX_MS);
	assert_int_equal(route(&m, &p, &early, 0, 0).at_ms, 60000);
	struct route_outcome back = {OUTCOME_RELEASE, 0, -5};
	assert_int_equal(route(&m, &p, &back, 7, 0).at_ms, 7);
	/* Limits that were lowered below what a message already had: dead, not retried for ever. */
	m = (struct route_msg){.attempts = 50, .lease_expirations = 50};
	late.retry_after_ms = 0;
	assert_int_equal(route(&m, &p, &late, 0, 0).reason, REASON_MAX_ATTEMPTS);
	struct route_outcome expired = {.kind = OUTCOME_LEASE_EXPIRED};
	assert_int_equal(route(&m, &p, &expired, 0, 0).reason, REASON_LEASE_EXPIRED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_defaults),         cmocka_unit_test(test_everything),
	    cmocka_unit_test(test_round_trip),       cmocka_unit_test(test_refusals),
	    cmocka_unit_test(test_names),            cmocka_unit_test(test_limits),
	    cmocka_unit_test(test_route_properties), cmocka_unit_test(test_backoff_properties),
	    cmocka_unit_test(test_route_at_the_ends),
	};
	return cmocka_run_group_tests_name("policy", tests, NULL, NULL);
}
