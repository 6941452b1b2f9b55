#include "base/rnd.h"
#include "lib_check.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>

static void test_duration_parse(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int64_t ms; /* -1: refused */
	} cases[] = {
	    {"0s", 0}, {"250ms", 250}, {"30s", 30000}, {"15m", 900000}, {"1h", 3600000}, {"30d", 2592000000},
	    {"1h30m", 5400000}, {"90m", 5400000}, {"1d2h3m4s5ms", 93784005}, {"007s", 7000},
	    {"3650d", DURATION_MAX_MS}, {"3650d1ms", -1}, {"3651d", -1}, {"87600h", DURATION_MAX_MS}, {"87601h", -1},
	    {"315360000000ms", DURATION_MAX_MS}, {"315360000001ms", -1}, {"99999999999999999999999d", -1},
	    {"", -1}, {"5", -1}, {"s", -1}, {"5 s", -1}, {" 5s", -1}, {"5s ", -1}, {"-5s", -1}, {"+5s", -1}, {"1.5h", -1},
	    {"5 parsecs", -1}, {"5parsecs", -1}, {"30m1h", -1}, {"1h1h", -1}, {"1h30", -1}, {"1H", -1}, {"1hm", -1}, {"1msx", -1},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int64_t ms = -1;
		bool good = duration_parse(str_of(cases[i].text), &ms);
		if (good != (cases[i].ms >= 0) || ms != cases[i].ms)
			fail_msg("\"%s\": %d, %" PRId64, cases[i].text, good, ms);
	}
	int64_t ms;
	assert_false(duration_parse((struct str){"5s\0", 3}, &ms));
}

static void test_duration_format(void **state)
{
	(void)state;
	static const int64_t cases[] = {0, 1, 999, 1000, 1001, 59999, 60000, 3599999, 86399999, 86400000, DURATION_MAX_MS};
	char text[32];
	struct rnd r;
	rnd_seed(&r, 1);
	for (int i = 0; i < 20000; i++) {
		int64_t ms = i < (int)ARRAY_LEN(cases) ? cases[i] : (int64_t)rnd_below(&r, (uint64_t)DURATION_MAX_MS + 1) >> rnd_below(&r, 40), back;
		duration_format(ms, text);
		if (!duration_parse(str_of(text), &back) || back != ms)
			fail_msg("%" PRId64 " became \"%s\"", ms, text);
	}
	duration_format(5400000, text);
	assert_string_equal(text, "1h30m");
	duration_format(INT64_MIN, text); /* past what can be parsed: fits, and is a text */
	assert_int_equal(text[0], '-');
	duration_format(INT64_MAX, text);
	assert_true(strlen(text) < 32);
}

static void test_human(void **state)
{
	(void)state;
	static const struct {
		int64_t v;
		const char *text;
	} durations[] = {
	    {0, "0ms"}, {999, "999ms"}, {1000, "1s"}, {1499, "1s"}, {1500, "2s"}, {59499, "59s"}, {59500, "1m"},
	    {200000, "3m 20s"}, {3600000, "1h"}, {3599999, "1h"}, {3660000, "1h 1m"}, {172800000, "2d"}, {180000000, "2d 2h"},
	    {-200000, "-3m 20s"},
	}, sizes[] = {{0, "0 B"}, {512, "512 B"}, {1023, "1023 B"}, {1024, "1.0 KiB"}, {1536, "1.5 KiB"}, {1048576, "1.0 MiB"},
	              {1048575, "1.0 MiB"}, {INT64_MAX, "8.0 EiB"}};
	char text[32];
	for (size_t i = 0; i < ARRAY_LEN(durations); i++) {
		duration_human(durations[i].v, text);
		assert_string_equal(text, durations[i].text);
	}
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		size_human(sizes[i].v, text);
		assert_string_equal(text, sizes[i].text);
	}
	duration_human(INT64_MAX, text);
	duration_human(INT64_MIN, text);
	assert_true(strlen(text) < 32);
}

static void test_size_parse(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int64_t v; /* -1: refused */
	} cases[] = {
	    {"0", 0}, {"512", 512}, {"64KiB", 65536}, {"1MiB", 1048576}, {"2GiB", 2147483648}, {"1TiB", 1099511627776},
	    {"9223372036854775807", INT64_MAX}, {"9223372036854775808", -1}, {"9007199254740991KiB", 9223372036854774784},
	    {"9007199254740992KiB", -1}, {"", -1}, {"KiB", -1}, {"1 MiB", -1}, {"1MB", -1}, {"1kib", -1}, {"-1", -1}, {"1.5MiB", -1},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int64_t v = -1;
		bool good = size_parse(str_of(cases[i].text), &v);
		if (good != (cases[i].v >= 0) || v != cases[i].v)
			fail_msg("\"%s\": %d, %" PRId64, cases[i].text, good, v);
	}
}

static void test_time(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int64_t ms;
		bool same; /* the canonical form of ms is text */
	} cases[] = {
	    {"1970-01-01T00:00:00.000Z", 0, true},
	    {"2026-12-01T03:04:05.678Z", 1796094245678, true},
	    {"2026-12-01T12:04:05.678+09:00", 1796094245678, false},
	    {"2026-11-30T21:34:05.678-05:30", 1796094245678, false},
	    {"2026-12-01t03:04:05.678999999z", 1796094245678, false},
	    {"2026-12-01 03:04:05Z", 1796094245000, false},
	    {"2026-12-01T03:04:05.6Z", 1796094245600, false},
	    {"2024-02-29T23:59:59.999Z", 1709251199999, true},
	    {"2000-02-29T00:00:00.000Z", 951782400000, true},
	    {"1969-12-31T23:59:59.999Z", -1, true},
	    {"0000-01-01T00:00:00.000Z", -62167219200000, true},
	    {"9999-12-31T23:59:59.999Z", 253402300799999, true},
	    {"2016-12-31T23:59:60Z", 1483228800000, false},
	};
	static const char *const bad[] = {
	    "", "2026-12-01", "2026-12-01T03:04:05", "2026-12-01T03:04:05.Z", "2026-12-01T03:04:05.0123456789Z",
	    "2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z", "2026-02-29T00:00:00Z", "1900-02-29T00:00:00Z",
	    "2026-04-31T00:00:00Z", "2026-04-00T00:00:00Z", "2026-12-01T24:00:00Z", "2026-12-01T23:60:00Z",
	    "2026-12-01T23:00:61Z", "2026-12-01T03:04:05+24:00", "2026-12-01T03:04:05+01:60", "2026-12-01T03:04:05+0100",
	    "2026-12-01T03:04:05Zx", " 2026-12-01T03:04:05Z", "26-12-01T03:04:05Z", "2026-12-01T03:04:05,5Z", "+2026-12-01T03:04:05Z",
	};
	char text[TIME_LEN + 1];
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int64_t ms;
		if (!time_parse(str_of(cases[i].text), &ms) || ms != cases[i].ms)
			fail_msg("%s", cases[i].text);
		time_format(ms, text);
		assert_int_equal(strcmp(text, cases[i].text) == 0, cases[i].same);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		int64_t ms;
		if (time_parse(str_of(bad[i]), &ms))
			fail_msg("\"%s\" was taken", bad[i]);
	}
	time_format(INT64_MAX, text);
	assert_string_equal(text, "9999-12-31T23:59:59.999Z");
	time_format(INT64_MIN, text);
	assert_string_equal(text, "0000-01-01T00:00:00.000Z");
	struct rnd r;
	rnd_seed(&r, 2);
	for (int i = 0; i < 20000; i++) {
		int64_t ms = -62167219200000 + (int64_t)rnd_below(&r, 62167219200000ull + 253402300800000ull), back;
		time_format(ms, text);
		assert_true(time_parse(str_of(text), &back) && back == ms);
	}
}

static void test_ulid(void **state)
{
	(void)state;
	char text[ULID_LEN + 1], next[ULID_LEN + 1];
	int64_t ms;
	uint16_t salt;
	uint64_t seq;
	ulid_make(0, 0, 0, text);
	assert_string_equal(text, "00000000000000000000000000");
	ulid_make((1ll << 48) - 1, 0xffff, UINT64_MAX, text);
	assert_string_equal(text, "7ZZZZZZZZZZZZZZZZZZZZZZZZZ");
	ulid_make(1469922850259, 0, 0, text); /* the time of the ULID specification's example */
	assert_memory_equal(text, "01ARZ3NDEK", 10);
	struct rnd r;
	rnd_seed(&r, 3);
	for (int i = 0; i < 10000; i++) {
		int64_t want_ms = (int64_t)(rnd_u64(&r) >> 16);
		uint16_t want_salt = (uint16_t)rnd_u64(&r);
		uint64_t want_seq = rnd_u64(&r) >> rnd_below(&r, 64);
		ulid_make(want_ms, want_salt, want_seq, text);
		assert_true(ulid_parse(str_of(text), &ms, &salt, &seq));
		assert_true(ms == want_ms && salt == want_salt && seq == want_seq);
		ulid_make(want_ms + 1, 0, 0, next);
		if (want_ms + 1 < 1ll << 48)
			assert_true(strcmp(text, next) < 0); /* text order is time order */
	}
	assert_true(ulid_parse(STR("01ARZ3NDEKTSV4RRFFQ69G5FAV"), NULL, NULL, NULL));
	assert_false(ulid_parse(STR("01ARZ3NDEKTSV4RRFFQ69G5FA"), NULL, NULL, NULL));
	assert_false(ulid_parse(STR("01ARZ3NDEKTSV4RRFFQ69G5FAVV"), NULL, NULL, NULL));
	assert_false(ulid_parse(STR("81ARZ3NDEKTSV4RRFFQ69G5FAV"), NULL, NULL, NULL)); /* more than 128 bits */
	assert_false(ulid_parse(STR("01arz3ndektsv4rrffq69g5fav"), NULL, NULL, NULL));
	assert_false(ulid_parse(STR("01ARZ3NDEKTSV4RRFFQ69G5FAU"), NULL, NULL, NULL));
	assert_false(ulid_parse((struct str){"01ARZ3NDEKTSV4RRFFQ69G5FA\0", 26}, NULL, NULL, NULL));
}

static void test_base64(void **state)
{
	(void)state;
	static const char *const pairs[][2] = {{"", ""},           {"f", "Zg=="},         {"fo", "Zm8="},        {"foo", "Zm9v"},
	                                       {"foob", "Zm9vYg=="}, {"fooba", "Zm9vYmE="}, {"foobar", "Zm9vYmFy"}}; /* RFC 4648 */
	static const char *const bad[] = {"Z", "Zg", "Zg=", "Zg===", "Zh==", "Zm9=", "Zm8=Zm8=", "====", "=m8=", "Z=8=", "Zm 9",
	                                  "Zm9v\n", "Zm9-", "Zm9_", "Z\xc3\xa4v"};
	struct buf b = {0}, back = {0};
	for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
		buf_clear(&b);
		base64_encode(str_of(pairs[i][0]), &b);
		assert_str(buf_str(&b), pairs[i][1]);
		buf_clear(&b);
		assert_true(base64_decode(str_of(pairs[i][1]), &b));
		assert_str(buf_str(&b), pairs[i][0]);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		buf_clear(&b);
		if (base64_decode(str_of(bad[i]), &b) || b.n)
			fail_msg("\"%s\" was taken", bad[i]);
	}
	struct rnd r;
	rnd_seed(&r, 4);
	for (size_t n = 0; n < 300; n++) {
		char bytes[300];
		for (size_t i = 0; i < n; i++)
			bytes[i] = (char)rnd_u64(&r);
		buf_clear(&b);
		buf_clear(&back);
		base64_encode((struct str){bytes, n}, &b);
		assert_true(base64_decode(buf_str(&b), &back));
		assert_true(str_eq(buf_str(&back), (struct str){bytes, n}));
	}
	buf_release(&b);
	buf_release(&back);
	struct buf small = {.max = 7};
	base64_encode(STR("fooba"), &small);
	assert_true(small.overflow && small.n == 0);
	struct buf hex = {.max = 6};
	hex_encode((struct str){"\x00\x7f\xff", 3}, &hex);
	assert_str(buf_str(&hex), "007fff");
	hex_encode(STR("x"), &hex);
	assert_true(hex.overflow);
	buf_release(&hex);
	buf_release(&small);
}

static void test_names(void **state)
{
	(void)state;
	char name[130];
	memset(name, 'a', sizeof name);
	assert_null(queue_name_check((struct str){name, 128}));
	assert_non_null(queue_name_check((struct str){name, 129}));
	assert_null(message_id_check((struct str){name, 128}));
	assert_non_null(message_id_check((struct str){name, 129}));
	static const char *const good[] = {"orders", "a", "A.b_c-9", "_x", "9"};
	static const char *const bad[] = {"", ".x", "-x", "a b", "a/b", "a\n", "\xc3\xa4", "a:b", "..", "a\x7f"};
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		assert_null(queue_name_check(str_of(good[i])));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_non_null(queue_name_check(str_of(bad[i])));
	assert_non_null(queue_name_check((struct str){"a\0b", 3}));
	assert_null(message_id_check(STR("order/1:~!")));
	assert_non_null(message_id_check(STR("a b")));
	assert_non_null(message_id_check(STR("a\x7f")));
	assert_non_null(message_id_check(STR("\xc3\xa4")));
	assert_non_null(message_id_check(STR("")));
	assert_string_equal(queue_name_check(STR("a b")), "the name holds a character that is not allowed: it is " QUEUE_NAME_RULE);
}

/* The text of one JSON value written by jout_str. */
static char *quoted(struct str s)
{
	struct buf b = {0};
	struct json_out j;
	jout_init(&j, &b);
	jout_str(&j, s);
	return buf_take(&b, NULL);
}

static void test_jout_strings(void **state)
{
	(void)state;
	static const struct {
		struct str in;
		const char *out;
	} cases[] = {
	    {{"", 0}, "\"\""},
	    {{"a\"b\\c/", 6}, "\"a\\\"b\\\\c/\""},
	    {{"\b\f\n\r\t", 5}, "\"\\b\\f\\n\\r\\t\""},
	    {{"\0\x01\x1f\x7f", 4}, "\"\\u0000\\u0001\\u001f\x7f\""},
	    {{"12345678\xc3\xa4" "12345678", 18}, "\"12345678\xc3\xa4" "12345678\""},
	    {{"a\xff" "b\xc3", 4}, "\"a\xef\xbf\xbd" "b\xef\xbf\xbd\""},
	    {{"\xed\xa0\x80", 3}, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char *z = quoted(cases[i].in);
		assert_string_equal(z, cases[i].out);
		mem_free(z);
	}
}

/* Whatever goes in, what comes out is JSON, and the same text if that was UTF-8. Each place of each special byte. */
static void test_jout_strings_are_json(void **state)
{
	(void)state;
	struct rnd r;
	rnd_seed(&r, 6);
	for (int round = 0; round < 20000; round++) {
		char bytes[80];
		size_t n = (size_t)rnd_below(&r, sizeof bytes);
		for (size_t i = 0; i < n; i++)
			bytes[i] = (char)(rnd_below(&r, 12) ? 'a' + (int)rnd_below(&r, 26) : (int)rnd_u64(&r));
		struct str s = {bytes, n};
		char *z = quoted(s);
		json_error_t e;
		json_t *v = json_loads(z, JSON_DECODE_ANY | JSON_ALLOW_NUL, &e);
		if (!v)
			fail_msg("round %d: %s: %s", round, z, e.text);
		if (str_is_utf8(s))
			assert_true(str_eq(s, (struct str){json_string_value(v), json_string_length(v)}));
		json_decref(v);
		mem_free(z);
	}
}

static void test_jout_structure(void **state)
{
	(void)state;
	struct buf b = {0};
	struct json_out j;
	jout_init(&j, &b);
	jout_open(&j, '{');
	jout_kz(&j, "a\"", "x");
	jout_kz(&j, "none", NULL);
	jout_key(&j, "list");
	jout_open(&j, '[');
	jout_int(&j, INT64_MIN);
	jout_int(&j, INT64_MAX);
	jout_int(&j, 0);
	jout_open(&j, '[');
	jout_close(&j, ']');
	jout_open(&j, '{');
	jout_close(&j, '}');
	jout_num(&j, 1.5);
	jout_num(&j, 0.1);
	jout_num(&j, NAN);
	jout_bool(&j, false);
	jout_close(&j, ']');
	jout_kbool(&j, "t", true);
	jout_ktime(&j, "zero", 0);
	jout_ktime(&j, "at", 1796094245678);
	jout_bytes(&j, "body", STR("text"));
	jout_bytes(&j, "body", (struct str){"\0\xff", 2});
	jout_bytes(&j, "body", STR(""));
	jout_key(&j, "raw");
	jout_raw(&j, STR("{\"x\":1}"));
	jout_kint(&j, "n", -5);
	jout_close(&j, '}');
	assert_int_equal(j.depth, 0);
	assert_str(buf_str(&b), "{\"a\\\"\":\"x\",\"none\":null,\"list\":[-9223372036854775808,9223372036854775807,0,[],{},1.5,0.1,"
	                        "null,false],\"t\":true,\"zero\":null,\"at\":\"2026-12-01T03:04:05.678Z\",\"body\":\"text\","
	                        "\"body_base64\":\"AP8=\",\"body\":\"\",\"raw\":{\"x\":1},\"n\":-5}");
	buf_release(&b);
	struct buf small = {.max = 10};
	jout_init(&j, &small);
	jout_str(&j, STR("0123456789"));
	assert_true(small.overflow);
	assert_true(small.n <= 10);
	buf_release(&small);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_duration_parse), cmocka_unit_test(test_duration_format),
	    cmocka_unit_test(test_human),          cmocka_unit_test(test_size_parse),
	    cmocka_unit_test(test_time),           cmocka_unit_test(test_ulid),
	    cmocka_unit_test(test_base64),         cmocka_unit_test(test_names),
	    cmocka_unit_test(test_jout_strings),   cmocka_unit_test(test_jout_strings_are_json),
	    cmocka_unit_test(test_jout_structure),
	};
	return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
