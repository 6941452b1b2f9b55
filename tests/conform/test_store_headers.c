/* The headers of dead letters as the SQLite store reads them: any text in, never past its end. */
#include "lib_store.h"
#include "store/sqlite/internal.h"

static int count(struct str json)
{
	struct headers h;
	int n = 0;
	headers_begin(&h, json);
	while (headers_next(&h)) {
		assert_true(h.name_len < h.text.n);
		n++;
	}
	headers_end(&h);
	return n;
}

static bool have(const char *json, const char *name, const char *value)
{
	return headers_have(str_of(json), str_of(name), str_of(value));
}

static void test_reads_what_is_there(void **state)
{
	(void)state;
	assert_int_equal(count(STR("{}")), 0);
	assert_int_equal(count(STR("{\"a\":\"\"}")), 1);
	assert_int_equal(count(STR(" { \"a\" : \"1\" ,\n\"b\":\"2\" } ")), 2);
	assert_true(have("{\"a\":\"1\",\"b\":\"2\"}", "b", "2") && have("{\"a\":\"1\",\"b\":\"2\"}", "a", "1"));
	assert_false(have("{\"a\":\"1\",\"b\":\"2\"}", "a", "2"));
	assert_true(have("{\"a\":\"\"}", "a", ""));
	assert_false(have("{\"a\":\"\"}", "b", ""));
	assert_true(have("{\"q\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"}", "q", "\"\\/\b\f\n\r\t"));
	assert_true(have("{\"u\":\"\\u0041\\u00e9\\u20AC\\ud83d\\ude00\"}", "u", "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"));
}

static void test_odd_text_ends_it(void **state)
{
	static const char *const odd[] = {"", "x", "{", "[\"a\"]", "{a:1}", "{\"a\"}", "{\"a\":1}", "{\"a\":null}", "{\"a\":{}}", "{\"a\":\"1", "{\"a\":\"\\",
	                                  "{\"a\":\"\\u12\"}", "{\"a\":\"\\ud800\"}", "{\"a\":\"\\ud800\\u0041\"}", "{\"a\":\"\\x\"}", "{\"a\":\"1\" \"b\":\"2\"}"};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(odd); i++)
		assert_true(count(str_of(odd[i])) <= 1);
	/* Every piece of a long one, in memory that ends where it ends. */
	static const char whole[] = "{\"name\":\"v\\u00e9\\ud83d\\ude00\",\"other\":\"x\\\\y\",\"third\":\"\"}";
	for (size_t n = 0; n < sizeof(whole); n++) {
		char *p = malloc(n ? n : 1);
		memcpy(p, whole, n);
		assert_in_range(count((struct str){p, n}), 0, 3);
		free(p);
	}
	assert_int_equal(count((struct str){"{\"a\":\"1\0\"}", 10}), 1);
}

static void test_hashes_are_kept_on_disk(void **state)
{
	(void)state;
	assert_int_equal(header_hash(STR("tenant"), STR("acme")), header_hash(STR("tenant"), STR("acme")));
	assert_int_not_equal(header_hash(STR("tenant"), STR("acme")), header_hash(STR("tenantacme"), STR("")));
	assert_int_not_equal(header_hash(STR("a"), STR("b")), header_hash(STR("b"), STR("a")));
	assert_true(header_hash(STR(""), STR("")) >= 0);
	/* Never another: what older versions wrote is found by it. */
	assert_int_equal(header_hash(STR("tenant"), STR("acme")), INT64_C(0x3e9a40d43a4f8ba7));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_reads_what_is_there),
	    cmocka_unit_test(test_odd_text_ends_it),
	    cmocka_unit_test(test_hashes_are_kept_on_disk),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
