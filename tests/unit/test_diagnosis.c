/* The contract of diagnose(): every case of tests/vectors/diagnosis.json, and that any facts at all have an answer. */
#include "lib_check.h"

#include <jansson.h>
#include <stdio.h>

#include "base/rnd.h"
#include "core/diagnosis.h"

#define ROUNDS 200000

static json_t *load(void)
{
	char path[1024];
	json_error_t e;
	const char *source = getenv("DLQ_SOURCE");

	snprintf(path, sizeof path, "%s/tests/vectors/diagnosis.json", source ? source : ".");
	json_t *root = json_load_file(path, 0, &e);
	if (!root)
		fail_msg("%s: %s (DLQ_SOURCE names the source folder)", path, e.text);
	return root;
}

static int64_t fact(const json_t *facts, const json_t *defaults, const char *key)
{
	const json_t *v = json_object_get(facts, key);

	v = v ? v : json_object_get(defaults, key);
	assert_true(json_is_integer(v));
	return json_integer_value(v);
}

#define FACTS(X)                                                                                                       \
	X(failures) X(deaths) X(recovered) X(failed_again) X(workers) X(worker_versions) X(version_first_ms) X(other_version_ms) X(first_seen_ms) \
	X(last_seen_ms) X(queue_done) X(queue_failures) X(queue_workers) X(groups_started) X(groups_failures) X(before_done)  \
	X(before_failures) X(now_ms)

static void facts_read(const json_t *c, const json_t *defaults, struct diagnosis_facts *f)
{
	const json_t *facts = json_object_get(c, "facts");
	const char *key;
	json_t *v;

#define READ(name) f->name = (__typeof__(f->name))fact(facts, defaults, #name);
	FACTS(READ)
	json_object_foreach((json_t *)facts, key, v)
		assert_non_null(json_object_get(defaults, key)); /* no misspelt fact */
}

static const char *level(int confidence)
{
	return confidence == 0 ? "none" : confidence < 40 ? "low" : confidence < 70 ? "medium" : "high";
}

static bool says(const struct diagnosis *d, const char *text)
{
	for (int i = 0; i < d->n_evidence; i++)
		if (strstr(d->evidence[i], text))
			return true;
	return false;
}

static void test_vectors(void **state)
{
	(void)state;
	json_t *root = load(), *c;
	int seen[DIAGNOSIS_KIND_COUNT] = {0};
	size_t i, n = 0, wrong = 0;

	json_array_foreach(json_object_get(root, "cases"), i, c) {
		const char *name = json_string_value(json_object_get(c, "name"));
		const char *kind = json_string_value(json_object_get(c, "kind"));
		const char *confidence = json_string_value(json_object_get(c, "confidence"));
		struct diagnosis_facts f = {0};
		struct diagnosis d;
		json_t *text;
		size_t k;

		facts_read(c, json_object_get(root, "defaults"), &f);
		diagnose(&f, &d);
		if (strcmp(diagnosis_name(d.kind), kind) || strcmp(level(d.confidence), confidence)) {
			print_error("%s: %s %d, not %s %s; %s\n", name, diagnosis_name(d.kind), d.confidence, kind, confidence, d.evidence[0]);
			wrong++;
		}
		json_array_foreach(json_object_get(c, "says"), k, text)
			if (!says(&d, json_string_value(text))) {
				print_error("%s: no evidence says \"%s\": %s | %s | %s\n", name, json_string_value(text), d.evidence[0],
				            d.evidence[1], d.evidence[2]);
				wrong++;
			}
		seen[d.kind]++;
		n++;
	}
	assert_int_equal(wrong, 0);
	assert_true(n >= 30);
	for (int k = 0; k < DIAGNOSIS_KIND_COUNT; k++)
		assert_true(seen[k] >= 3);
	json_decref(root);
}

static int64_t any_number(struct rnd *r)
{
	static const int64_t odd[] = {0, 1, -1, 2, 3, 19, 20, INT64_MAX, INT64_MIN, INT64_MAX - 1, INT32_MAX, 1764547200000};

	switch (rnd_below(r, 4)) {
	case 0: return odd[rnd_below(r, ARRAY_LEN(odd))];
	case 1: return (int64_t)rnd_u64(r);
	case 2: return (int64_t)rnd_below(r, 50);
	default: return (int64_t)rnd_below(r, 100000);
	}
}

/* Any facts: a kind, a confidence from 0 to 100, at least one evidence and advice, all ended within their memory. */
static void test_total(void **state)
{
	(void)state;
	struct rnd r;

	rnd_seed(&r, 20261201);
	for (int i = 0; i < ROUNDS; i++) {
		struct diagnosis_facts f;
		struct diagnosis d, again;

#define ANY(name) f.name = (__typeof__(f.name))any_number(&r);
		FACTS(ANY)
		diagnose(&f, &d);
		assert_in_range(d.kind, 0, DIAGNOSIS_KIND_COUNT - 1);
		assert_in_range(d.confidence, 0, 100);
		assert_in_range(d.n_evidence, 1, DIAGNOSIS_EVIDENCE_MAX);
		assert_int_equal(d.kind == DIAGNOSIS_UNKNOWN, d.confidence == 0);
		for (int k = 0; k < d.n_evidence; k++) {
			size_t n = strnlen(d.evidence[k], sizeof d.evidence[k]);
			assert_in_range(n, 10, sizeof d.evidence[k] - 2); /* never cut */
		}
		assert_in_range(strnlen(d.advice, sizeof d.advice), 20, sizeof d.advice - 2);
		diagnose(&f, &again);
		assert_memory_equal(&d, &again, sizeof d);
	}
}

static void test_names(void **state)
{
	(void)state;
	assert_string_equal(diagnosis_name(DIAGNOSIS_BAD_DEPLOY), "bad_deploy");
	assert_string_equal(diagnosis_name((enum diagnosis_kind)99), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vectors),
		cmocka_unit_test(test_total),
		cmocka_unit_test(test_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
