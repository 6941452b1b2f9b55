/* The contract of route() and backoff_delay_ms(): every case of tests/vectors, exactly. */
#include "lib_check.h"

#include <jansson.h>
#include <stdio.h>

static json_t *load(const char *name)
{
	char path[1024];
	json_error_t e;
	const char *source = getenv("DLQ_SOURCE");
	snprintf(path, sizeof path, "%s/tests/vectors/%s", source ? source : ".", name);
	json_t *root = json_load_file(path, 0, &e);
	if (!root)
		fail_msg("%s: %s (DLQ_SOURCE names the source folder)", path, e.text);
	return root;
}

static int64_t num(const json_t *o, const char *key, int64_t absent)
{
	const json_t *v = json_object_get(o, key);
	return v ? json_integer_value(v) : absent;
}

static const char *text(const json_t *o, const char *key)
{
	const char *z = json_string_value(json_object_get(o, key));
	assert_non_null(z);
	return z;
}

static void read_backoff(const json_t *o, struct backoff *b)
{
	const json_t *list = json_object_get(o, "list_ms");
	*b = (struct backoff){.kind = BACKOFF_EXPONENTIAL,
	                      .initial_ms = num(o, "initial_ms", 0),
	                      .max_ms = num(o, "max_ms", 0),
	                      .multiplier = json_number_value(json_object_get(o, "multiplier"))};
	if (!list)
		return;
	b->kind = BACKOFF_LIST;
	b->n = (int)json_array_size(list);
	assert_in_range(b->n, 1, BACKOFF_LIST_MAX);
	for (int i = 0; i < b->n; i++)
		b->list_ms[i] = json_integer_value(json_array_get(list, (size_t)i));
}

static void test_backoff(void **state)
{
	(void)state;
	json_t *root = load("backoff.json"), *c;
	size_t i, n = 0;
	json_array_foreach(json_object_get(root, "cases"), i, c) {
		struct backoff b;
		read_backoff(json_object_get(c, "backoff"), &b);
		size_t k;
		json_t *want;
		json_array_foreach(json_object_get(c, "delays_ms"), k, want) {
			int64_t got = backoff_delay_ms(&b, (int)k + 1);
			if (got != json_integer_value(want))
				fail_msg("%s: after failure %zu: %lld, not %lld", text(c, "name"), k + 1,
				         (long long)json_integer_value(want), (long long)got);
			n++;
		}
	}
	assert_true(n >= 30);
	json_decref(root);
}

static enum outcome outcome_of(const char *name)
{
	enum outcome o = OUTCOME_LEASE_EXPIRED;
	if (strcmp(name, "lease_expired") != 0)
		assert_true(outcome_parse(str_of(name), &o));
	return o;
}

static void expect_int(const char *name, const json_t *expect, const char *key, int64_t got)
{
	const json_t *want = json_object_get(expect, key);
	if (want && json_integer_value(want) != got)
		fail_msg("%s: %s is %lld, not %lld", name, key, (long long)got, (long long)json_integer_value(want));
}

static void check_case(const json_t *c)
{
	const json_t *p = json_object_get(c, "policy"), *m = json_object_get(c, "message");
	const json_t *o = json_object_get(c, "outcome"), *expect = json_object_get(c, "expect");
	struct policy policy = {.max_attempts = (int)num(p, "max_attempts", 0), .crash_limit = (int)num(p, "crash_limit", 0)};
	read_backoff(json_object_get(p, "backoff"), &policy.backoff);
	assert_true(jitter_parse(str_of(text(p, "jitter")), &policy.jitter));
	struct route_msg msg = {(int)num(m, "attempts", 0), (int)num(m, "lease_expirations", 0), num(m, "previous_delay_ms", 0)};
	struct route_outcome outcome = {outcome_of(text(o, "kind")), num(o, "retry_after_ms", 0), num(o, "delay_ms", 0)};
	int64_t now = num(c, "now_ms", 0);
	struct effect e = route(&msg, &policy, &outcome, now, json_number_value(json_object_get(c, "random")));

	const char *name = text(c, "name");
	if (strcmp(effect_name(e.kind), text(expect, "effect")) != 0)
		fail_msg("%s: effect is %s, not %s", name, effect_name(e.kind), text(expect, "effect"));
	const json_t *reason = json_object_get(expect, "reason");
	assert_string_equal(reason_name(e.reason), reason ? json_string_value(reason) : "none");
	expect_int(name, expect, "attempts", e.attempts);
	expect_int(name, expect, "lease_expirations", e.lease_expirations);
	expect_int(name, expect, "retry_at_ms", e.at_ms);
	expect_int(name, expect, "ready_at_ms", e.at_ms);
	if (e.kind == EFFECT_RETRY)
		assert_int_equal(e.at_ms - now, e.delay_ms);
}

static void test_route(void **state)
{
	(void)state;
	json_t *root = load("route.json"), *c;
	size_t i;
	json_array_foreach(json_object_get(root, "cases"), i, c)
		check_case(c);
	assert_true(i >= 40);
	json_decref(root);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_backoff), cmocka_unit_test(test_route)};
	return cmocka_run_group_tests_name("vectors", tests, NULL, NULL);
}
