#include "lib_check.h"

#include <stdio.h>

static void test_same_tree_from_both(void **state)
{
	(void)state;
	struct arena a = {0};
	struct dlq_err err = {0};
	struct doc *docs[] = {
	    yaml_of(&a, "a: 5\nb: [x, \"6\", {c: null}]\nd:\n  e: true\n", &err),
	    json_of(&a, "{\"a\": 5,\n\"b\": [\"x\", \"6\", {\"c\": null}],\n\"d\":\n  {\"e\": true}}", &err),
	};
	for (size_t i = 0; i < ARRAY_LEN(docs); i++) {
		struct doc *d = docs[i];
		assert_non_null(d);
		assert_int_equal(d->kind, DOC_MAP);
		struct doc *n = doc_get(d, "a");
		assert_int_equal(n->kind, DOC_SCALAR);
		assert_str(n->text, "5");
		assert_false(n->quoted);
		assert_ptr_equal(n->parent, d);
		assert_int_equal(n->line, 1);
		n = doc_get(d, "b");
		assert_int_equal(n->kind, DOC_LIST);
		assert_int_equal(n->line, 2);
		assert_str(n->child->text, "x");
		assert_str(n->child->next->text, "6");
		assert_true(n->child->next->quoted);
		assert_int_equal(n->child->next->next->child->kind, DOC_NULL);
		assert_null(doc_get(n->child->next->next, "c"));
		assert_null(n->child->next->next->next);
		bool v = false;
		n = doc_get(doc_get(d, "d"), "e");
		assert_int_equal(doc_bool(n, &v, &err), DLQ_OK);
		assert_true(v);
		assert_int_equal(n->line, 4);
		assert_null(doc_get(d, "absent"));
		assert_null(doc_get(n, "not a map"));
		assert_null(doc_get(NULL, "x"));
	}
	assert_int_equal(doc_get(docs[1], "a")->col, 7);
	arena_release(&a);
}

static void test_json_escapes(void **state)
{
	(void)state;
	struct arena a = {0};
	struct dlq_err err = {0};
	struct doc *d = json_of(&a, "[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\", \"\\u0041\\u00e4\\u20ac\\ud83d\\ude00\", \"\xc3\xa4\", -1.5e+3, \"\"]", &err);
	assert_non_null(d);
	struct doc *n = d->child;
	assert_str(n->text, "\"\\/\b\f\n\r\t");
	assert_str((n = n->next)->text, "A\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
	assert_str((n = n->next)->text, "\xc3\xa4");
	assert_str((n = n->next)->text, "-1.5e+3");
	assert_false(n->quoted);
	assert_int_equal((n = n->next)->text.n, 0);
	assert_true(n->quoted);
	arena_release(&a);
}

static void test_yaml_nulls_and_text(void **state)
{
	(void)state;
	struct arena a = {0};
	struct dlq_err err = {0};
	struct doc *d = yaml_of(&a, "a: ~\nb:\nc: null\nd: 'null'\ne: \"\"\nf: |\n  two\n  lines\n", &err);
	assert_non_null(d);
	assert_null(doc_get(d, "a"));
	assert_null(doc_get(d, "b"));
	assert_null(doc_get(d, "c"));
	assert_str(doc_get(d, "d")->text, "null");
	assert_int_equal(doc_get(d, "e")->text.n, 0);
	assert_str(doc_get(d, "f")->text, "two\nlines\n");
	d = yaml_of(&a, "# nothing\n", &err);
	assert_int_equal(d->kind, DOC_NULL);
	d = yaml_of(&a, "", &err);
	assert_int_equal(d->kind, DOC_NULL);
	arena_release(&a);
}

struct refusal {
	const char *text, *says;
	enum dlq_code code;
};

static void test_yaml_refusals(void **state)
{
	(void)state;
	static const struct refusal cases[] = {
	    {"a: 1\nb: 2\na: 3\n", "test.yaml:3: the key \"a\" stands here for the second time; line 1 has the first", DLQ_INVALID_SETTING},
	    {"a: &x 1\nb: *x\n", "test.yaml:1: anchors", DLQ_INVALID_SETTING},
	    {"a: [1]\nb: *x\n", "test.yaml:2: ", DLQ_INVALID_SETTING},
	    {"a: !!int 5\n", "test.yaml:1: anchors (&) and tags", DLQ_INVALID_SETTING},
	    {"a: 1\n---\nb: 2\n", "test.yaml:2: a second document", DLQ_INVALID_SETTING},
	    {"a: [1, 2\nb: 3\n", "test.yaml:2: this is not valid YAML", DLQ_INVALID_SETTING},
	    {"a: 1\n b: 2\n", "test.yaml:2: this is not valid YAML", DLQ_INVALID_SETTING},
	    {"a: 1\nb: \"\xff\"\n", "this is not valid YAML", DLQ_INVALID_SETTING},
	    {"\ta: 1\n", "test.yaml:1: this is not valid YAML", DLQ_INVALID_SETTING},
	    {"? [a, b]\n: 1\n", "test.yaml:1: a key must be plain text", DLQ_INVALID_SETTING},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct arena a = {0};
		struct dlq_err err = {0};
		assert_null(yaml_of(&a, cases[i].text, &err));
		assert_says(&err, cases[i].says);
		assert_int_equal(err.code, cases[i].code);
		arena_release(&a);
	}
}

static void test_json_refusals(void **state)
{
	(void)state;
	static const struct refusal cases[] = {
	    {"", "request body:1: this is not valid JSON", DLQ_INVALID_JSON},
	    {"{", "this is not valid JSON", DLQ_INVALID_JSON},
	    {"{\"a\": 1,\n \"b\": }", "request body:2: this is not valid JSON", DLQ_INVALID_JSON},
	    {"{\"a\": 1} x", "request body:1: this is not valid JSON", DLQ_INVALID_JSON},
	    {"{'a': 1}", "this is not valid JSON", DLQ_INVALID_JSON},
	    {"{\"a\": 01}", "this is not valid JSON", DLQ_INVALID_JSON},
	    {"[1,]", "this is not valid JSON", DLQ_INVALID_JSON},
	    {"{\"a\": \"\\u0000\"}", "this is not valid JSON", DLQ_INVALID_JSON},
	    {"{\"a\": \"\\ud800\"}", "this is not valid JSON", DLQ_INVALID_JSON},
	    {"{\"a\": \"\xff\"}", "this is not valid JSON", DLQ_INVALID_JSON},
	    {"{\"a\": 1e999}", "this is not valid JSON", DLQ_INVALID_JSON},
	    {"// x\n{}", "this is not valid JSON", DLQ_INVALID_JSON},
	    {"{\"a\": 1,\n\"a\": 2}", "request body:2: the key \"a\" stands here for the second time; line 1", DLQ_INVALID_SETTING},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct arena a = {0};
		struct dlq_err err = {0};
		assert_null(json_of(&a, cases[i].text, &err));
		assert_says(&err, cases[i].says);
		assert_int_equal(err.code, cases[i].code);
		arena_release(&a);
	}
}

static void test_json_nul_bytes(void **state)
{
	(void)state;
	static const struct str cases[] = {{"[true\0]", 7}, {"[1\0]", 5}, {"{}\0", 3}, {"\0", 1}, {"[\"a\0\"]", 6}};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct arena a = {0};
		struct dlq_err err = {0};
		struct doc *d;
		assert_int_equal(doc_from_json(&a, cases[i], "body", &d, &err), DLQ_INVALID_JSON);
		assert_string_equal(err.detail, "body:1: this is not valid JSON: it holds a NUL byte");
		arena_release(&a);
	}
}

static void check_depth(struct doc *(*of)(struct arena *, const char *, struct dlq_err *), int depth, bool good)
{
	struct arena a = {0};
	struct dlq_err err = {0};
	char *text = mem_alloc((size_t)depth * 2 + 1);
	memset(text, '[', (size_t)depth);
	memset(text + depth, ']', (size_t)depth);
	struct doc *d = of(&a, text, &err);
	assert_int_equal(d != NULL, good);
	if (!good)
		assert_true(err.code == DLQ_INVALID_SETTING || err.code == DLQ_INVALID_JSON);
	mem_free(text);
	arena_release(&a);
}

static void test_depth_limit(void **state)
{
	(void)state;
	check_depth(json_of, DOC_MAX_DEPTH, true);
	check_depth(json_of, DOC_MAX_DEPTH + 1, false);
	check_depth(json_of, 100000, false);
	check_depth(yaml_of, DOC_MAX_DEPTH, true);
	check_depth(yaml_of, DOC_MAX_DEPTH + 1, false);
	check_depth(yaml_of, 10000, false);
}

static void test_entries_limit(void **state)
{
	(void)state;
	for (int n = 1000; n <= 1001; n++) {
		struct arena a = {0};
		struct dlq_err err = {0};
		struct buf b = {0};
		for (int i = 0; i < n; i++)
			buf_addf(&b, "k%d: 1\n", i);
		buf_addc(&b, '\0');
		assert_int_equal(yaml_of(&a, b.p, &err) != NULL, n == 1000);
		if (n > 1000)
			assert_says(&err, "test.yaml:1001: a map holds more than 1000 keys");
		buf_release(&b);
		arena_release(&a);
	}
}

static void test_typed_reads(void **state)
{
	(void)state;
	struct arena a = {0};
	struct dlq_err err = {0};
	struct doc *d = yaml_of(&a,
	                        "i: 7\nneg: -3\nbig: 9223372036854775808\nmin: -9223372036854775808\nq: \"7\"\nf: 1.5\nw: word\n"
	                        "yes: yes\nl: [1]\ndur: 5 parsecs\nok: 1h30m\nsize: 2MiB\nnul: \"a\\0b\"\n",
	                        &err);
	assert_non_null(d);
	int64_t v = 0;
	double f = 0;
	bool b;
	struct str s;
#define AT(key) doc_get(d, key)
	assert_int_equal(doc_int(AT("i"), 7, 7, &v, &err), DLQ_OK);
	assert_int_equal(v, 7);
	assert_int_equal(doc_int(AT("i"), 8, 9, &v, &err), DLQ_INVALID_SETTING);
	assert_string_equal(err.detail, "test.yaml:1: i: must be a whole number from 8 to 9, not \"7\"");
	assert_int_equal(doc_int(AT("i"), 1, 6, &v, &err), DLQ_INVALID_SETTING);
	assert_int_equal(doc_int(AT("neg"), -3, 0, &v, &err), DLQ_OK);
	assert_int_equal(v, -3);
	assert_int_equal(doc_int(AT("min"), INT64_MIN, 0, &v, &err), DLQ_OK);
	assert_true(v == INT64_MIN);
	assert_int_equal(doc_int(AT("big"), 0, INT64_MAX, &v, &err), DLQ_INVALID_SETTING);
	assert_int_equal(doc_int(AT("q"), 0, 9, &v, &err), DLQ_INVALID_SETTING);
	assert_says(&err, "not the text \"7\"");
	assert_int_equal(doc_int(AT("f"), 0, 9, &v, &err), DLQ_INVALID_SETTING);
	assert_int_equal(doc_int(AT("l"), 0, 9, &v, &err), DLQ_INVALID_SETTING);
	assert_says(&err, "not a list");

	assert_int_equal(doc_num(AT("f"), 1, 2, &f, &err), DLQ_OK);
	assert_true(f == 1.5);
	assert_int_equal(doc_num(AT("f"), 1.6, 2, &f, &err), DLQ_INVALID_SETTING);
	assert_int_equal(doc_num(AT("w"), 1, 2, &f, &err), DLQ_INVALID_SETTING);

	assert_int_equal(doc_bool(AT("yes"), &b, &err), DLQ_INVALID_SETTING);
	assert_string_equal(err.detail, "test.yaml:8: yes: must be true or false, not \"yes\"");

	assert_int_equal(doc_str(AT("w"), &s, &err), DLQ_OK);
	assert_str(s, "word");
	assert_int_equal(doc_str(AT("nul"), &s, &err), DLQ_INVALID_SETTING);
	assert_int_equal(doc_str(AT("l"), &s, &err), DLQ_INVALID_SETTING);

	assert_int_equal(doc_duration(AT("ok"), 5400000, 5400000, &v, &err), DLQ_OK);
	assert_int_equal(v, 5400000);
	assert_int_equal(doc_duration(AT("ok"), 0, 5399999, &v, &err), DLQ_INVALID_SETTING);
	assert_says(&err, "must be from 0s to 1h29m59s999ms, not 1h30m");
	assert_int_equal(doc_duration(AT("ok"), 5400001, 6400000, &v, &err), DLQ_INVALID_SETTING);
	assert_int_equal(doc_duration(AT("dur"), 0, 1, &v, &err), DLQ_INVALID_SETTING);
	assert_string_equal(err.detail, "test.yaml:10: dur: \"5 parsecs\" is not a duration: " DURATION_RULE);
	assert_int_equal(doc_duration(AT("l"), 0, 1, &v, &err), DLQ_INVALID_SETTING);

	assert_int_equal(doc_size(AT("size"), 0, 2097152, &v, &err), DLQ_OK);
	assert_int_equal(v, 2097152);
	assert_int_equal(doc_size(AT("size"), 0, 2097151, &v, &err), DLQ_INVALID_SETTING);
	assert_int_equal(doc_size(AT("w"), 0, 1, &v, &err), DLQ_INVALID_SETTING);
#undef AT
	arena_release(&a);
}

static void test_unknown_keys(void **state)
{
	(void)state;
	static const char *const known[] = {"listen", "data", "queues"};
	struct arena a = {0};
	struct dlq_err err = {0};
	struct doc *d = yaml_of(&a, "top:\n  - x: 1\n  - listne: 2\n  - colour: 3\n  - [1]\n  - {data: 1}\n", &err);
	struct doc *item = doc_get(d, "top")->child;
	item = item->next;
	assert_int_equal(doc_check_keys(item, known, 3, &err), DLQ_INVALID_SETTING);
	assert_string_equal(err.detail, "test.yaml:3: top[1].listne: there is no such setting; did you mean \"listen\"?");
	item = item->next;
	assert_int_equal(doc_check_keys(item, known, 3, &err), DLQ_INVALID_SETTING);
	assert_string_equal(err.detail, "test.yaml:4: top[2].colour: there is no such setting; known here: listen, data, queues");
	item = item->next;
	assert_int_equal(doc_check_keys(item, known, 3, &err), DLQ_INVALID_SETTING);
	assert_string_equal(err.detail, "test.yaml:5: top[3]: must be a map of settings, not a list");
	assert_int_equal(doc_check_keys(item->next, known, 3, &err), DLQ_OK);
	arena_release(&a);
}

static void test_errors_hold_no_control_characters(void **state)
{
	(void)state;
	struct arena a = {0};
	struct dlq_err err = {0};
	struct doc *d = json_of(&a, "{\"a\\nb\": \"x\\u001b[31m\\r\"}", &err);
	bool b;
	assert_int_equal(doc_bool(d->child, &b, &err), DLQ_INVALID_SETTING);
	assert_string_equal(err.detail, "request body:1: a?b: must be true or false, not the text \"x?[31m?\"");
	arena_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_same_tree_from_both), cmocka_unit_test(test_json_escapes),
	    cmocka_unit_test(test_yaml_nulls_and_text), cmocka_unit_test(test_yaml_refusals),
	    cmocka_unit_test(test_json_refusals),       cmocka_unit_test(test_depth_limit),
	    cmocka_unit_test(test_entries_limit),       cmocka_unit_test(test_typed_reads),
	    cmocka_unit_test(test_json_nul_bytes),      cmocka_unit_test(test_unknown_keys),
	    cmocka_unit_test(test_errors_hold_no_control_characters),
	};
	return cmocka_run_group_tests_name("doc", tests, NULL, NULL);
}
