/*
 * The fingerprint of failures: the shared vectors, a corpus of messages of ten ecosystems, the properties that hold for any
 * text, and the speed. `unit_test_fingerprint bench` prints the speed; `unit_test_fingerprint show FILE` the normalised form of
 * each line of a file.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/doc.h"
#include "base/rnd.h"
#include "core/fingerprint.h"

#define MESSAGES_MAX 2000
#define QUEUE STR("corpus")

struct sample {
	struct str group, type, message;
	struct fingerprint fp;
};
static struct sample samples[MESSAGES_MAX];
static size_t samples_n;

static char *read_source(const char *name, size_t *n)
{
	char path[1024];
	const char *root = getenv("DLQ_SOURCE");
	snprintf(path, sizeof path, "%s/tests/vectors/%s", root ? root : ".", name);
	FILE *f = fopen(path, "rb");
	if (!f)
		fail_msg("%s cannot be read; set DLQ_SOURCE to the source folder", path);
	char *text = mem_alloc(1 << 20);
	*n = fread(text, 1, (1 << 20) - 1, f);
	assert_true(feof(f));
	fclose(f);
	return text;
}

static struct str normal_of(struct str message, struct str stack, char out[FINGERPRINT_NORMAL_MAX])
{
	uint32_t rules;
	return (struct str){out, fingerprint_normalise(message, stack, out, &rules, NULL)};
}

static void assert_normal(const char *message, const char *expected)
{
	char out[FINGERPRINT_NORMAL_MAX];
	struct str n = normal_of(str_of(message), STR(""), out);
	if (!str_eqz(n, expected))
		fail_msg("\n  message  %s\n  is       " STR_FMT "\n  expected %s", message, STR_ARG(n), expected);
}

/* Every message of a file gets its group's fingerprint and no other's. Returns the number of messages. */
static size_t check_groups(const char *name, bool golden, struct arena *a)
{
	size_t n, first = samples_n;
	char *text = read_source(name, &n);
	struct doc *d = NULL;
	struct dlq_err err = {0};
	if (doc_from_json(a, (struct str){text, n}, name, &d, &err) != DLQ_OK)
		fail_msg("%s", err.detail);
	for (struct doc *g = doc_get(d, "groups")->child; g; g = g->next) {
		struct doc *fixed = doc_get(g, "fingerprint_v1");
		for (struct doc *m = doc_get(g, "messages")->child; m; m = m->next) {
			assert_true(samples_n < MESSAGES_MAX);
			struct sample *s = &samples[samples_n++];
			*s = (struct sample){.group = doc_get(g, "name")->text, .type = doc_get(g, "error_type")->text, .message = m->text};
			fingerprint_make(QUEUE, s->type, s->message, STR(""), &s->fp);
			if (golden && !str_eqz(fixed->text, s->fp.text))
				fail_msg(STR_FMT ": version 1 answered " STR_FMT ", now %s: a changed rule needs a new version",
				         STR_ARG(s->group), STR_ARG(fixed->text), s->fp.text);
		}
	}
	for (size_t i = first; i < samples_n; i++) {
		for (size_t k = first; k < i; k++) {
			const struct sample *x = &samples[i], *y = &samples[k];
			bool same_group = str_eq(x->group, y->group) && str_eq(x->type, y->type);
			if (same_group != !strcmp(x->fp.text, y->fp.text))
				fail_msg("%s:\n  " STR_FMT ": " STR_FMT "\n  " STR_FMT ": " STR_FMT,
				         same_group ? "one group, two fingerprints" : "two groups, one fingerprint", STR_ARG(x->group),
				         STR_ARG(x->message), STR_ARG(y->group), STR_ARG(y->message));
		}
	}
	mem_free(text);
	return samples_n - first;
}

static struct arena corpus_arena;

static void test_vectors(void **state)
{
	(void)state;
	assert_true(check_groups("fingerprint.json", false, &corpus_arena) >= 51);
}

static void test_corpus(void **state)
{
	(void)state;
	assert_true(check_groups("fingerprint-corpus.json", true, &corpus_arena) >= 200);
}

static void test_normal_forms(void **state)
{
	(void)state;
	assert_normal("User 550e8400-e29b-41d4-a716-446655440000 not found", "User <uuid> not found");
	assert_normal("HTTP 503 from https://api.example.com/v1/charges/ch_3N9xQ2LkdIwHu7ix", "HTTP 503 from https://api.example.com/v1/charges/ch_<id>");
	assert_normal("at 2026-11-30 22:54:01,123 +0000 it failed", "at <time> it failed");
	assert_normal("dial tcp [::1]:5432: refused", "dial tcp <ip>:5432: refused");
	assert_normal("from 10.0.0.1:51234", "from <ip>:<num>");
	assert_normal("Field 'items[12].price' and \"items.3.price\"", "Field 'items[<num>].price' and \"<str>\"");
	assert_normal("jdbc:postgresql://db:5432/shop?user=amy&ssl=true#x", "jdbc:postgresql://db:5432/shop?user=<str>&ssl=<str>#<str>");
	assert_normal("Lambda shop.Order$$Lambda$14/0x0000000800066840", "Lambda shop.Order$$Lambda$14/<hex>");
	assert_normal("caf\xc3\xa9 \xef\xbc\x91\xef\xbc\x92 offen", "caf\xc3\xa9 <num> offen");
	assert_normal("  a \t b\r\n\r\n  c ", "a b\n c");
	assert_normal("", "");
	assert_normal("'", "'");
	assert_normal("''", "''");
	/* What may look alike and is not. */
	assert_normal("UserAccountByName Log4j2Logger OAuth2Sha256Provider utf8mb4 x86_64 Base64", "UserAccountByName Log4j2Logger OAuth2Sha256Provider utf8mb4 x86_64 Base64");
	assert_normal("error 1205 and 1205 rows", "error 1205 and <num> rows");
	assert_normal("it's 5 o'clock", "it's <num> o'clock");
	assert_normal("status 404, 12345 items", "status 404, <num> items");
}

static void test_parts_matter(void **state)
{
	(void)state;
	struct fingerprint a, b;
	fingerprint_make(STR("orders"), STR("E"), STR("x 1"), STR(""), &a);
	fingerprint_make(STR("orders"), STR("E"), STR("x 2"), STR(""), &b);
	assert_string_equal(a.text, b.text);
	assert_int_equal(a.version, FINGERPRINT_VERSION);
	assert_int_equal(a.rules, 1u << FP_NUM);
	fingerprint_make(STR("order"), STR("sE"), STR("x 2"), STR(""), &b);
	assert_string_not_equal(a.text, b.text);
	fingerprint_make(STR("orders"), STR("F"), STR("x 1"), STR(""), &b);
	assert_string_not_equal(a.text, b.text);
	assert_true(fingerprint_text_valid(str_of(a.text)));
	assert_false(fingerprint_text_valid(STR("0123456789abcdef0123456789abcdeF")));
	assert_false(fingerprint_text_valid(STR("0123456789abcdef0123456789abcde")));
	char text[FINGERPRINT_TEXT_LEN + 1];
	snprintf(text, sizeof text, "%016llx%016llx", (unsigned long long)a.hi, (unsigned long long)a.lo);
	assert_string_equal(a.text, text);
}

static void test_given(void **state)
{
	(void)state;
	struct fingerprint a, b;
	fingerprint_of_given(STR("q"), STR("stock-empty"), &a);
	fingerprint_of_given(STR("q"), STR("stock-empty"), &b);
	assert_string_equal(a.text, b.text);
	assert_int_equal(a.rules, 1u << FP_GIVEN);
	fingerprint_of_given(STR("p"), STR("stock-empty"), &b);
	assert_string_not_equal(a.text, b.text);
	fingerprint_make(STR("q"), STR(""), STR("stock-empty"), STR(""), &b);
	assert_string_not_equal(a.text, b.text);
}

static void test_explanation(void **state)
{
	(void)state;
	char out[FINGERPRINT_NORMAL_MAX];
	struct fingerprint_examples ex;
	uint32_t rules;
	fingerprint_normalise(STR("HTTP 503 for user 'bob@example.com' in field 'sku' after 30s, 7 and 8"), STR(""), out, &rules, &ex);
	assert_int_equal(rules, 1u << FP_CODE | 1u << FP_STR | 1u << FP_NAME | 1u << FP_DUR | 1u << FP_NUM);
	assert_true(str_eqz(ex.of[FP_CODE], "503"));
	assert_true(str_eqz(ex.of[FP_STR], "bob@example.com"));
	assert_true(str_eqz(ex.of[FP_NAME], "sku"));
	assert_true(str_eqz(ex.of[FP_DUR], "30s"));
	assert_true(str_eqz(ex.of[FP_NUM], "7"));
	assert_int_equal(ex.of[FP_UUID].n, 0);
	for (int r = 0; r < FP_RULE_COUNT; r++) {
		assert_true(strlen(fingerprint_rule_name((enum fingerprint_rule)r)) > 0);
		assert_true(strlen(fingerprint_rule_text((enum fingerprint_rule)r)) > 0);
	}
}

static void assert_stack(bool same, const char *m1, const char *s1, const char *m2, const char *s2)
{
	struct fingerprint a, b;
	fingerprint_make(QUEUE, STR("E"), str_of(m1), str_of(s1), &a);
	fingerprint_make(QUEUE, STR("E"), str_of(m2), str_of(s2), &b);
	if (same != !strcmp(a.text, b.text))
		fail_msg("%s: %s / %s\n%s / %s", same ? "differ" : "same", m1, s1, m2, s2);
}

static void test_stack(void **state)
{
	(void)state;
	static const char place[] = "java.io.IOException: no 7\n\tat a.Order.place(Order.java:118)\n\tat a.Main.main(Main.java:12)\n";
	static const char moved[] = "java.io.IOException: no 8\n\tat a.Order.place(Order.java:121)\n\tat a.Main.main(Main.java:14)\nmore text\n";
	static const char other[] = "java.io.IOException: no 7\n\tat a.Order.ship(Order.java:118)\n\tat a.Main.main(Main.java:12)\n";
	assert_stack(true, "m 1", place, "m 2", moved);
	assert_stack(false, "m", place, "m", other);
	assert_stack(false, "m", place, "m", "");
	assert_stack(true, "m", "any output of 12 lines", "m", ""); /* no trace in it */
	/* A trace in the message is the one that counts. */
	assert_stack(true, "m\n\tat a.B.c(B.java:1)", place, "m\n\tat a.B.c(B.java:2)", other);
	/* Below the fifth frame callers may differ. */
	assert_stack(true, "m\n at a.A()\n at a.B()\n at a.C()\n at a.D()\n at a.E()\n at a.F()", "",
	             "m\n at a.A()\n at a.B()\n at a.C()\n at a.D()\n at a.E()\n at a.G()\n at a.H()", "");
	assert_stack(false, "m\n at a.A()\n at a.B()\n at a.C()\n at a.D()\n at a.E()", "", "m\n at a.A()\n at a.B()\n at a.C()\n at a.D()\n at a.F()", "");
	/* Python puts the most recent call last. */
	static const char tail[] = "  File \"/a/%s.py\", line 3, in f\n    f()\n";
	char deep[2][2048];
	for (int i = 0; i < 2; i++) {
		size_t n = (size_t)snprintf(deep[i], sizeof deep[i], "Traceback (most recent call last):\n");
		for (int k = 0; k < 8; k++) {
			char name[8];
			snprintf(name, sizeof name, "%c", k == 0 ? 'x' + i : 'a' + k);
			n += (size_t)snprintf(deep[i] + n, sizeof deep[i] - n, tail, name);
		}
		snprintf(deep[i] + n, sizeof deep[i] - n, "ValueError: no %d\n", i);
	}
	assert_stack(true, "m", deep[0], "m", deep[1]);
	assert_stack(true, deep[0], "", deep[1], "");
	deep[1][strlen(deep[1]) - 40] = 'z';
	assert_stack(false, "m", deep[0], "m", deep[1]);
}

/* What is normal already stays as it is. */
static void test_idempotent(void **state)
{
	(void)state;
	char once[FINGERPRINT_NORMAL_MAX], twice[FINGERPRINT_NORMAL_MAX];
	assert_true(samples_n > 200);
	for (size_t i = 0; i < samples_n; i++) {
		struct str a = normal_of(samples[i].message, STR(""), once), b = normal_of(a, STR(""), twice);
		if (!str_eq(a, b))
			fail_msg("\n  " STR_FMT "\nbecomes\n  " STR_FMT, STR_ARG(a), STR_ARG(b));
	}
}

/* A message longer than the normalised form may be: what follows does not matter, and the cut leaves no half token. */
static void test_long_messages(void **state)
{
	(void)state;
	static const char *const units[] = {"word ", "12345 ", "'a b' ", "1,", "x", "(", "\"", "/a", "h\xc3\xa9 ", "\xc3\xa9" "1/", "a\n", "\n at a.b(c)", "<num>", "-", "1.", "1:", "a@", "'x ", "ab-12_", "://"};
	char *big = mem_alloc(70000), out[FINGERPRINT_NORMAL_MAX], again[FINGERPRINT_NORMAL_MAX];
	for (size_t u = 0; u < ARRAY_LEN(units); u++) {
		size_t len = strlen(units[u]), n = 0;
		while (n + len <= 60000) {
			memcpy(big + n, units[u], len);
			n += len;
		}
		uint32_t rules, rules2;
		size_t a = fingerprint_normalise((struct str){big, n}, STR(""), out, &rules, NULL);
		assert_true(a <= FINGERPRINT_MESSAGE_MAX);
		assert_true(str_is_utf8((struct str){out, a}));
		memcpy(big + n, "tail 7 'x'", 10);
		size_t b = fingerprint_normalise((struct str){big, n + 10}, STR(""), again, &rules2, NULL);
		if (rules & 1u << FP_CUT) {
			assert_int_equal(a, b);
			assert_memory_equal(out, again, a);
		}
	}
	/* Exactly at the limit, and one past it. */
	memset(big, 'w', 70000);
	uint32_t rules;
	big[FINGERPRINT_MESSAGE_MAX / 2] = ' ';
	assert_int_equal(fingerprint_normalise((struct str){big, FINGERPRINT_MESSAGE_MAX}, STR(""), out, &rules, NULL), FINGERPRINT_MESSAGE_MAX);
	assert_int_equal(rules, 0);
	assert_int_equal(fingerprint_normalise((struct str){big, FINGERPRINT_MESSAGE_MAX + 1}, STR(""), out, &rules, NULL), FINGERPRINT_MESSAGE_MAX / 2);
	assert_int_equal(rules, 1u << FP_CUT);
	mem_free(big);
}

/* Any bytes: an answer, the same one twice, within the limits. The block is exact, so a sanitizer sees a read past its end. */
static void test_any_bytes(void **state)
{
	(void)state;
	static const char special[] = "'\"`<>()[]:/\\@.-_=%$#, \n\t0123456789abcdefxZT\xef\xbc\x91\xe2\x80\x9c\xe3\x80\x8c\xd9\xa1\x1b\x00";
	struct rnd r;
	rnd_seed(&r, 42);
	for (int i = 0; i < 20000; i++) {
		size_t n = (size_t)rnd_below(&r, 200);
		char *p = mem_alloc(n ? n : 1), a[FINGERPRINT_NORMAL_MAX], b[FINGERPRINT_NORMAL_MAX];
		for (size_t k = 0; k < n; k++)
			p[k] = rnd_below(&r, 8) ? special[rnd_below(&r, sizeof special)] : (char)rnd_u64(&r);
		uint32_t ra, rb;
		size_t na = fingerprint_normalise((struct str){p, n}, (struct str){p, n}, a, &ra, NULL);
		size_t nb = fingerprint_normalise((struct str){p, n}, (struct str){p, n}, b, &rb, NULL);
		assert_true(na <= FINGERPRINT_NORMAL_MAX);
		assert_int_equal(na, nb);
		assert_int_equal(ra, rb);
		assert_memory_equal(a, b, na);
		mem_free(p);
	}
}

/* Whole characters stay whole, whatever signs stand before them. */
static void test_whole_characters(void **state)
{
	(void)state;
	static const char *const pieces[] = {"\x1b", "[", "]", "3", "8", "m", ";", "\xe7\xa7\x92", "\xc2\xab", "\xc2\xbb", "\xe2\x80\x9c", "\xe2\x80\x9d",
	                                     "\xef\xbc\x91", "\xd9\xa1", "\xf0\x9f\x98\x80", "'", "\"", "`", "<", ">", "(", ")=(", " ", "\n", " at ", "/", "\\",
	                                     "@", ".", ":", "-", "_", "x", "Z", "0x", "30 Nov", "%"};
	struct rnd r;
	rnd_seed(&r, 43);
	for (int i = 0; i < 20000; i++) {
		char text[400], out[FINGERPRINT_NORMAL_MAX];
		size_t n = 0;
		for (uint64_t k = rnd_below(&r, 60); k && n < sizeof text - 8; k--) {
			const char *piece = pieces[rnd_below(&r, ARRAY_LEN(pieces))];
			memcpy(text + n, piece, strlen(piece));
			n += strlen(piece);
		}
		struct str t = {text, n}, none = {text, 0};
		assert_true(str_is_utf8(t));
		assert_true(str_is_utf8((struct str){out, fingerprint_normalise(t, none, out, NULL, NULL)}));
		assert_true(str_is_utf8((struct str){out, fingerprint_normalise(none, t, out, NULL, NULL)}));
	}
}

/* ---- speed ---- */

static double seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Megabytes a second of fingerprint_make over all of `in`, on one core: the best of `rounds`, as others use the core, too. */
static double speed(const struct str *in, size_t n, int rounds)
{
	struct fingerprint fp;
	double best = 0;
	volatile uint64_t sink = 0;
	for (int k = 0; k < rounds; k++) {
		double bytes = 0, from = seconds();
		for (size_t i = 0; i < 4000; i++) {
			fingerprint_make(QUEUE, STR("E"), in[i % n], STR(""), &fp);
			sink ^= fp.lo;
			bytes += (double)in[i % n].n;
		}
		double v = bytes / (seconds() - from) / 1e6;
		best = v > best ? v : best;
	}
	return best;
}

/* Messages of about `size` bytes, each put together from those of the corpus, within a line. */
static size_t make_messages(struct str *out, size_t max, size_t size, struct arena *a)
{
	struct rnd r;
	rnd_seed(&r, 7);
	for (size_t i = 0; i < max; i++) {
		struct buf b = {0};
		while (b.n < size) {
			buf_adds(&b, samples[rnd_below(&r, samples_n)].message);
			buf_addz(&b, "; ");
		}
		out[i] = arena_str(a, str_cut((struct str){b.p, b.n}, size));
		buf_release(&b);
	}
	return max;
}

static double bench(size_t size, int rounds)
{
	struct arena a = {0};
	struct str messages[200];
	double v = speed(messages, make_messages(messages, ARRAY_LEN(messages), size, &a), rounds);
	arena_release(&a);
	return v;
}

static void test_speed(void **state)
{
	(void)state;
	const char *sanitize = getenv("DLQ_SANITIZE");
	double v = bench(200, 5);
	print_message("fingerprint of 200-byte messages: %.0f MB/s\n", v);
#ifdef __OPTIMIZE__
	if (!sanitize || !*sanitize)
		assert_true(v > 50);
#else
	(void)sanitize;
#endif
}

static int run_bench(void)
{
	check_groups("fingerprint-corpus.json", false, &corpus_arena);
	static const size_t sizes[] = {200, 1000, 3000, 4096};
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
		printf("%4zu bytes of error messages: %.0f MB/s\n", sizes[i], bench(sizes[i], 20));
	struct str prose = STR("the worker could not finish this order because the payment provider did not answer in the time that was agreed, "
	                       "so the message was put aside until someone has looked at it and said what to do with it next");
	struct str numbers = STR("12 34 56 78 90 12:34:56 10.0.0.1:80 0x12ab 1.5 'a b' 9f8a7b6c5d4e 550e8400-e29b-41d4-a716-446655440000 7 8 9 10");
	printf("prose: %.0f MB/s\nnothing but variables: %.0f MB/s\n", speed(&prose, 1, 20), speed(&numbers, 1, 20));
	arena_release(&corpus_arena);
	return 0;
}

static int run_show(const char *path)
{
	char line[8192], out[FINGERPRINT_NORMAL_MAX];
	FILE *f = fopen(path, "r");
	if (!f) {
		perror(path);
		return 1;
	}
	while (fgets(line, sizeof line, f)) {
		struct str n = normal_of(str_of(line), STR(""), out);
		printf(STR_FMT "\n", STR_ARG(n));
	}
	fclose(f);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	arena_release(&corpus_arena);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vectors), cmocka_unit_test(test_corpus), cmocka_unit_test(test_normal_forms),
		cmocka_unit_test(test_parts_matter), cmocka_unit_test(test_given), cmocka_unit_test(test_explanation),
		cmocka_unit_test(test_stack), cmocka_unit_test(test_idempotent), cmocka_unit_test(test_long_messages),
		cmocka_unit_test(test_any_bytes),
		cmocka_unit_test(test_whole_characters), cmocka_unit_test(test_speed),
	};
	if (argc == 2 && !strcmp(argv[1], "bench"))
		return run_bench();
	if (argc == 3 && !strcmp(argv[1], "show"))
		return run_show(argv[2]);
	return cmocka_run_group_tests(tests, NULL, teardown);
}
