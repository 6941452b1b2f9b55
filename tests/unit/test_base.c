#include "base/log.h"
#include "base/rnd.h"
#include "lib_check.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void test_str(void **state)
{
	(void)state;
	assert_int_equal(str_of(NULL).n, 0);
	assert_true(str_eq(STR(""), str_of(NULL)));
	assert_true(str_eq((struct str){NULL, 0}, STR("")));
	assert_false(str_eq(STR("ab"), STR("abc")));
	assert_true(str_eq((struct str){"a\0b", 3}, (struct str){"a\0b", 3}));
	assert_false(str_eqz((struct str){"a\0b", 3}, "a"));
	assert_true(str_starts(STR("http://x"), "http://"));
	assert_false(str_starts(STR("http:/"), "http://"));
	assert_str(str_trim(STR(" \t\r\n a b \n")), "a b");
	assert_int_equal(str_trim(STR(" \n")).n, 0);
}

static void test_str_cut(void **state)
{
	(void)state;
	struct str s = STR("ab\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80z"); /* ab, a umlaut, euro, a face, z */
	static const size_t want[] = {0, 1, 2, 2, 4, 4, 4, 7, 7, 7, 7, 11, 12, 12};
	for (size_t max = 0; max < ARRAY_LEN(want); max++)
		assert_int_equal(str_cut(s, max).n, want[max]);
	assert_int_equal(str_cut(STR("\x80\x80\x80\x80\x80\x80"), 5).n, 5); /* not UTF-8: cut where told */
}

static void test_nearest(void **state)
{
	(void)state;
	static const char *const names[] = {"max_attempts", "backoff", "jitter", "ttl", "retention"};
	size_t n = ARRAY_LEN(names);
	assert_string_equal(str_nearest(STR("backof"), names, n), "backoff");
	assert_string_equal(str_nearest(STR("bakcoff"), names, n), "backoff");
	assert_string_equal(str_nearest(STR("maxAttempts"), names, n), "max_attempts");
	assert_string_equal(str_nearest(STR("TTL"), names, n), "ttl");
	assert_string_equal(str_nearest(STR("retension"), names, n), "retention");
	assert_null(str_nearest(STR("colour"), names, n));
	assert_null(str_nearest(STR(""), names, n));
	assert_null(str_nearest(STR("backoff"), names, 0));
	char word[100];
	memset(word, 'b', sizeof word);
	assert_null(str_nearest((struct str){word, sizeof word}, names, n));
}

static void test_utf8(void **state)
{
	(void)state;
	static const struct {
		const char *p;
		size_t n;
		bool good;
	} cases[] = {
	    {"", 0, true},
	    {"plain text that is longer than eight bytes", 42, true},
	    {"a\0b", 3, false},
	    {"12345678\0", 9, false},
	    {"1234567\0" "12345678", 16, false},
	    {"\x7f", 1, true},
	    {"\xc2\x80", 2, true},          /* the first of two bytes */
	    {"\xc1\xbf", 2, false},         /* too long a form */
	    {"\xc0\x80", 2, false},         /* NUL in two bytes */
	    {"\xdf\xbf", 2, true},
	    {"\xc3", 1, false},
	    {"\xe0\xa0\x80", 3, true},
	    {"\xe0\x9f\xbf", 3, false},
	    {"\xed\x9f\xbf", 3, true},
	    {"\xed\xa0\x80", 3, false},     /* half a surrogate pair */
	    {"\xef\xbf\xbf", 3, true},
	    {"\xe2\x82", 2, false},
	    {"\xe2\x82\x20", 3, false},
	    {"\xf0\x90\x80\x80", 4, true},
	    {"\xf0\x8f\xbf\xbf", 4, false},
	    {"\xf4\x8f\xbf\xbf", 4, true},  /* U+10FFFF */
	    {"\xf4\x90\x80\x80", 4, false}, /* one past */
	    {"\xf5\x80\x80\x80", 4, false},
	    {"\xf0\x9f\x98", 3, false},
	    {"\x80", 1, false},
	    {"\xff", 1, false},
	    {"12345678\xc3\xa4" "12345678\xe2\x82\xac", 21, true},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		if (str_is_utf8((struct str){cases[i].p, cases[i].n}) != cases[i].good)
			fail_msg("case %zu", i);
}

static void test_errors(void **state)
{
	(void)state;
	struct dlq_err e = {0};
	assert_int_equal(err_set(&e, DLQ_QUEUE_FULL, "queue %s holds %d", "orders", 7), DLQ_QUEUE_FULL);
	assert_int_equal(e.code, DLQ_QUEUE_FULL);
	assert_string_equal(e.detail, "queue orders holds 7");
	err_prefix(&e, "line %d", 3);
	assert_string_equal(e.detail, "line 3: queue orders holds 7");
	assert_int_equal(err_set(&e, DLQ_BUSY, "again: %s", e.detail), DLQ_BUSY); /* itself as an argument */
	assert_string_equal(e.detail, "again: line 3: queue orders holds 7");
	assert_int_equal(err_set(NULL, DLQ_GONE, "x"), DLQ_GONE);
	err_prefix(NULL, "x");
}

static void test_errors_are_cut_at_a_character(void **state)
{
	(void)state;
	struct dlq_err e = {0};
	char text[sizeof e.detail + 10];
	memset(text, 'x', sizeof text);
	text[sizeof e.detail - 1] = '\0';
	err_set(&e, DLQ_SYSTEM, "%s", text); /* fits to the byte */
	assert_int_equal(strlen(e.detail), sizeof e.detail - 1);
	for (size_t at = sizeof e.detail - 6; at < sizeof e.detail; at++) {
		memset(text, 'x', sizeof text - 1);
		text[sizeof text - 1] = '\0';
		memcpy(text + at, "\xf0\x9f\x98\x80", 4);
		err_set(&e, DLQ_SYSTEM, "%s", text);
		assert_true(str_is_utf8(str_of(e.detail)));
		assert_in_range(strlen(e.detail), sizeof e.detail - 4, sizeof e.detail - 1);
		err_prefix(&e, "yy");
		assert_true(str_is_utf8(str_of(e.detail)));
	}
}

static void test_error_table(void **state)
{
	(void)state;
	for (int i = 0; i < DLQ_CODE_COUNT; i++) {
		enum dlq_code c = (enum dlq_code)i;
		assert_true(strlen(code_name(c)) > 1 && strlen(code_title(c)) > 3);
		assert_in_range(code_http(c), i == DLQ_OK ? 200 : 400, i == DLQ_OK ? 200 : 599);
		assert_int_equal(code_exit(c) == 0, i == DLQ_OK);
		for (int k = 0; k < i; k++)
			assert_string_not_equal(code_name(c), code_name((enum dlq_code)k));
	}
	assert_string_equal(code_name(DLQ_QUEUE_FULL), "queue_full");
	assert_int_equal(code_http(DLQ_QUEUE_FULL), 429);
	assert_true(code_retriable(DLQ_BUSY));
	assert_false(code_retriable(DLQ_GONE));
}

static void test_buf_limits(void **state)
{
	(void)state;
	struct buf b = {.max = 100};
	for (int i = 0; i < 100; i++)
		buf_addc(&b, 'x');
	assert_int_equal(b.n, 100);
	assert_false(b.overflow);
	buf_addc(&b, 'y'); /* one past */
	assert_true(b.overflow);
	assert_int_equal(b.n, 100);
	buf_clear(&b);
	assert_false(b.overflow);
	buf_add(&b, "0123456789", 10);
	assert_null(buf_reserve(&b, 91));
	assert_true(b.overflow);
	buf_addc(&b, 'z'); /* nothing after an overflow, even what would fit */
	assert_int_equal(b.n, 10);
	buf_clear(&b);
	assert_non_null(buf_reserve(&b, 100));
	assert_null(buf_reserve(&b, SIZE_MAX));
	buf_release(&b);
	assert_int_equal(b.max, 100);
	buf_release(&b);
}

static void test_buf_text(void **state)
{
	(void)state;
	struct buf b = {0};
	assert_int_equal(buf_str(&b).n, 0);
	char long_text[1000];
	memset(long_text, 'q', sizeof long_text - 1);
	long_text[sizeof long_text - 1] = '\0';
	buf_addf(&b, "%d:%s:", 7, long_text);
	buf_addz(&b, "end");
	buf_adds(&b, STR(""));
	assert_int_equal(b.n, 2 + 999 + 1 + 3);
	size_t n;
	char *p = buf_take(&b, &n);
	assert_int_equal(strlen(p), n);
	assert_string_equal(p + n - 4, ":end");
	assert_int_equal(b.n, 0);
	mem_free(p);
	p = buf_take(&b, &n); /* of an empty one */
	assert_int_equal(n, 0);
	assert_string_equal(p, "");
	mem_free(p);
}

static void test_arena(void **state)
{
	(void)state;
	struct arena a = {0};
	struct rnd r;
	rnd_seed(&r, 5);
	for (int round = 0; round < 3; round++) {
		unsigned char *last = NULL;
		for (int i = 0; i < 300; i++) {
			size_t n = (size_t)rnd_below(&r, i % 50 == 0 ? 100000 : 200);
			unsigned char *p = arena_alloc(&a, n);
			assert_int_equal((uintptr_t)p % 16, 0);
			for (size_t k = 0; k < n; k++)
				assert_int_equal(p[k], 0); /* also after a reset */
			memset(p, 0xff, n);
			assert_ptr_not_equal(p, last);
			last = p;
		}
		assert_true(a.used > 300 * 16);
		arena_reset(&a);
		assert_int_equal(a.used, 0);
	}
	struct str s = arena_str(&a, (struct str){"a\0b", 3});
	assert_int_equal(s.n, 3);
	assert_int_equal(s.p[3], '\0');
	assert_int_equal(arena_str(&a, (struct str){NULL, 0}).p[0], '\0');
	assert_str(arena_fmt(&a, "%s-%05d", "n", 42), "n-00042");
	arena_release(&a);
	assert_null(a.block);
	arena_release(&a);
	arena_reset(&a);
}

static void test_rnd(void **state)
{
	(void)state;
	struct rnd a, b;
	rnd_seed(&a, 42);
	rnd_seed(&b, 42);
	/* The first outputs of xoshiro256** seeded by splitmix64(42): the sequence may never change (simulations replay). */
	uint64_t first = rnd_u64(&a);
	assert_true(first == 1546998764402558742ull);
	assert_true(rnd_u64(&b) == first);
	int seen[10] = {0};
	for (int i = 0; i < 10000; i++) {
		double u = rnd_unit(&a);
		assert_true(u >= 0 && u < 1);
		seen[rnd_below(&a, 10)]++;
	}
	for (int i = 0; i < 10; i++)
		assert_in_range(seen[i], 850, 1150);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(rnd_below(&a, 1), 0);
		assert_true(rnd_below(&a, (1ull << 63) + 1) <= 1ull << 63);
	}
	rnd_system(&a);
	rnd_system(&b);
	assert_true(rnd_u64(&a) != rnd_u64(&b));
}

/* Runs fn in a child with stderr on a pipe; returns its wait status and what it wrote. */
static int in_child(void (*fn)(void), char *out, size_t size)
{
	int fds[2], status;
	assert_int_equal(pipe(fds), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		signal(SIGABRT, SIG_DFL);
		dup2(fds[1], STDERR_FILENO);
		fn();
		_exit(0);
	}
	close(fds[1]);
	size_t n = 0;
	ssize_t got;
	while (n < size - 1 && ((got = read(fds[0], out + n, size - 1 - n)) > 0 || (got < 0 && errno == EINTR)))
		n += got > 0 ? (size_t)got : 0;
	out[n] = '\0';
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void overflow_array(void)
{
	mem_free(mem_array(SIZE_MAX / 2, 3));
}

static void broken_assert(void)
{
	ASSERT(1 + 1 == 3);
}

static void test_ends_with_a_message(void **state)
{
	(void)state;
	char text[4096];
	int status = in_child(overflow_array, text, sizeof text);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	assert_non_null(strstr(text, "dlq: out of memory"));
	status = in_child(broken_assert, text, sizeof text);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	assert_non_null(strstr(text, "test_base.c"));
	assert_non_null(strstr(text, "1 + 1 == 3"));
}

static void log_text(void)
{
	log_set_level(LOG_INFO);
	log_event(LOG_DEBUG, "test.hidden", "a=1");
	log_event(LOG_WARN, "test.seen", "queue=%s n=%d why=%s", "orders", 7, LOG_Q("a \"b\"\nc"));
	log_event(LOG_ERROR, "test.bare", "%s", "");
}

static void log_json(void)
{
	log_set_json(true);
	log_event(LOG_INFO, "test.seen", "queue=%s n=%d id=007 why=%s word", "orders", -7, LOG_Q("a \"b\"\nc"));
}

static void test_log(void **state)
{
	(void)state;
	char text[4096];
	assert_int_equal(in_child(log_text, text, sizeof text), 0);
	assert_null(strstr(text, "test.hidden"));
	assert_non_null(strstr(text, "Z warn test.seen queue=orders n=7 why=\"a \\\"b\\\" c\"\n"));
	assert_non_null(strstr(text, "Z error test.bare\n"));
	assert_int_equal(in_child(log_json, text, sizeof text), 0);
	assert_non_null(strstr(text, "\"level\":\"info\",\"event\":\"test.seen\",\"queue\":\"orders\",\"n\":-7,\"id\":\"007\","
	                             "\"why\":\"a \\\"b\\\" c\",\"word\":true}\n"));
	enum log_level l;
	assert_true(log_level_parse(STR("warn"), &l) && l == LOG_WARN);
	assert_false(log_level_parse(STR("WARN"), &l));
}

static void test_log_quote_is_bounded(void **state)
{
	(void)state;
	char in[2 * LOG_Q_MAX], out[LOG_Q_MAX];
	for (size_t n = LOG_Q_MAX - 12; n < LOG_Q_MAX + 4; n++) {
		memset(in, '"', n);
		in[n] = '\0';
		log_quote(out, in);
		assert_in_range(strlen(out), 2, LOG_Q_MAX - 1);
		memset(in, 'x', n);
		log_quote(out, in);
		assert_in_range(strlen(out), 2, LOG_Q_MAX - 1);
		assert_int_equal(out[strlen(out) - 1], '"');
	}
	assert_string_equal(log_quote(out, NULL), "\"\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_str),
	    cmocka_unit_test(test_str_cut),
	    cmocka_unit_test(test_nearest),
	    cmocka_unit_test(test_utf8),
	    cmocka_unit_test(test_errors),
	    cmocka_unit_test(test_errors_are_cut_at_a_character),
	    cmocka_unit_test(test_error_table),
	    cmocka_unit_test(test_buf_limits),
	    cmocka_unit_test(test_buf_text),
	    cmocka_unit_test(test_arena),
	    cmocka_unit_test(test_rnd),
	    cmocka_unit_test(test_ends_with_a_message),
	    cmocka_unit_test(test_log),
	    cmocka_unit_test(test_log_quote_is_bounded),
	};
	return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
