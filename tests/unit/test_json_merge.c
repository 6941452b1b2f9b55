/* json_check and json_merge without jq: what is JSON, what stays of a document, and random edits against an independent reader. */
#include "lib_check.h"

#include <jansson.h>
#include <stdio.h>

#include "base/rnd.h"
#include "jq/json_merge.h"
#include "jq/json_text.h"

/* ---- what is JSON ---- */

static const char *const good[] = {
    "0", "-0", "1.5e-7", "1E+2", "true", "false", "null", "\"\"", "\"a\"", "[]", "{}", " [ ] ", "\t{\r\n}", "[1,[2,{}]]", "{\"a\":{\"a\":[]}}",
    "\"\\u00e9\\ud83d\\ude00\\ud83d\"", "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\xef\xbb\xbf{}", "\"\xc3\xa9\xf0\x9f\x98\x80\x7f\"", "{\"a\":1,\"a\":2}",
    "12345678901234567890123456789012345678901234567890.0e-99999999999999999999",
};
static const struct wrong {
	const char *text;
	size_t at;
} wrong[] = {
    {"", 0}, {" ", 1}, {"01", 1}, {"-", 1}, {"1.", 2}, {"1.e1", 2}, {".5", 0}, {"1e", 2}, {"+1", 0}, {"nan", 1}, {"tru", 0}, {"truee", 4},
    {"nul", 0}, {"[", 1}, {"[1", 2}, {"[1,", 3}, {"[1,]", 3}, {"[,1]", 1}, {"[1 2]", 3}, {"[1}", 2}, {"{", 1}, {"{\"a\"}", 4}, {"{\"a\":}", 5},
    {"{\"a\":1,}", 7}, {"{a:1}", 1}, {"{1:1}", 1}, {"{\"a\":1]", 6}, {"{\"a\" 1}", 5}, {"]", 0}, {"1 2", 2}, {"[] x", 3}, {"'a'", 0},
    {"\"a", 2}, {"\"\\", 2}, {"\"\\x\"", 2}, {"\"\\u12g4\"", 2}, {"\"\\u12", 2}, {"\"a\nb\"", 2}, {"\"\x1f\"", 1}, {"\"\xff\"", 1},
    {"\"\xed\xa0\x80\"", 1}, {"\"\xc3\"", 1}, {"\xef\xbb{}", 0}, {"/**/1", 0}, {"[1]//", 3},
};

static void test_check(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		size_t at;
		if (!json_check(str_of(good[i]), 256, &at))
			fail_msg("refused at %zu: %s", at, good[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		size_t at = 999;
		if (json_check(str_of(wrong[i].text), 256, &at))
			fail_msg("taken: %s", wrong[i].text);
		if (at != wrong[i].at && strcmp(wrong[i].text, "nan") != 0)
			fail_msg("%s: at %zu, not %zu", wrong[i].text, at, wrong[i].at);
		assert_false(json_check(str_of(wrong[i].text), 256, NULL));
	}
	struct str nul = {"[1]\0", 4}, inside = {"\"a\0b\"", 5};
	assert_false(json_check(nul, 256, NULL));
	assert_false(json_check(inside, 256, NULL));
}

static struct str nested(struct buf *b, int depth)
{
	buf_clear(b);
	for (int i = 0; i < depth; i++)
		buf_addz(b, i % 2 ? "{\"a\":" : "[");
	buf_addz(b, "1");
	for (int i = depth; i-- > 0;)
		buf_addc(b, i % 2 ? '}' : ']');
	return buf_str(b);
}

static void test_depth(void **state)
{
	(void)state;
	struct buf b = {0};
	struct jtext_doc d = {0};
	size_t at;
	assert_true(json_check(nested(&b, 256), 256, NULL));
	assert_int_equal(jtext_parse(&d, nested(&b, 257), 256, &at), JSON_DEEP);
	assert_false(json_check(nested(&b, 257), 256, NULL));
	assert_true(json_check(nested(&b, JSON_DEPTH_CAP), 100000, NULL));
	assert_false(json_check(nested(&b, JSON_DEPTH_CAP + 1), 100000, NULL));
	assert_false(json_check(STR("[]"), 0, NULL));
	assert_true(json_check(STR("1"), 0, NULL));
	jtext_release(&d);
	buf_release(&b);
}

static void test_decimal(void **state)
{
	(void)state;
	static const char *const same[][2] = {{"1.10", "1.1"}, {"1e2", "100"}, {"-0", "0"}, {"0.0e5", "0"}, {"11e-1", "1.1"}, {"0.05", "5e-2"}, {"100", "1E+2"},
	                                      {"120.50", "1.205e2"}, {"0.00012", "12e-5"}, {"1e99999999999999999999", "1e99999999999999999999"}};
	static const char *const other[][2] = {{"1", "10"}, {"1", "-1"}, {"9007199254740993", "9007199254740992"}, {"1", "0"}, {"1.2", "12"}, {"1.23", "1.2"}};
	for (size_t i = 0; i < ARRAY_LEN(same); i++)
		assert_true(jtext_same_decimal(str_of(same[i][0]), str_of(same[i][1])));
	for (size_t i = 0; i < ARRAY_LEN(other); i++)
		assert_false(jtext_same_decimal(str_of(other[i][0]), str_of(other[i][1])));
	static const char *const keeps[] = {"1", "1.10", "0.1", "123456789012345", "9007199254740992", "1e22", "1e300", "5e-324", "-1.5e-7", "100000000000000000000"};
	static const char *const loses[] = {"9007199254740993", "12345678901234567890", "1e400", "-1e400", "1e-400", "0.1000000000000000055511151231257827"};
	for (size_t i = 0; i < ARRAY_LEN(keeps); i++)
		if (jtext_loses_digits(str_of(keeps[i]), strtod(keeps[i], NULL)))
			fail_msg("%s keeps its digits", keeps[i]);
	for (size_t i = 0; i < ARRAY_LEN(loses); i++)
		if (!jtext_loses_digits(str_of(loses[i]), strtod(loses[i], NULL)))
			fail_msg("%s loses digits", loses[i]);
}

/* ---- merging ---- */

static struct arena arena;

static struct json_merge_out merged(struct str original, struct str edited)
{
	struct json_merge_out m;
	struct dlq_err err = {0};
	enum dlq_code code = json_merge(original, edited, 256, 1 << 20, &arena, &m, &err);
	if (code != DLQ_OK)
		fail_msg("%s", err.detail);
	return m;
}

static void expect(const char *original, const char *edited, const char *want)
{
	struct json_merge_out m = merged(str_of(original), str_of(edited));
	assert_str(m.text, want);
	assert_int_equal(m.changed, strcmp(original, want) != 0);
	assert_int_equal(m.changed, m.n_changes > 0);
}

static void test_merge(void **state)
{
	(void)state;
	expect("{\"a\":1.0}", "{\"a\":1}", "{\"a\":1.0}");
	expect("{\"a\":1.0,\"b\":[1.50,2]}", "{\"b\":[1.5,3],\"a\":1}", "{\"a\":1.0,\"b\":[1.50,3]}");
	/* An object with a key twice inside an array is still the same element. */
	expect("[{\"a\":1,\"a\":2.0},3,4]", "[{\"a\":2},4]", "[{\"a\":1,\"a\":2.0},4]");
	/* The same members in another order are the same object. */
	expect("[{\"a\":1.0,\"b\":2.0},3,4]", "[{\"b\":2,\"a\":1},4]", "[{\"a\":1.0,\"b\":2.0},4]");
	/* Infinity is what jq writes as the largest double. */
	expect("[1e400,-1e999,1]", "[1.7976931348623157e+308,-1.7976931348623157e+308,2]", "[1e400,-1e999,2]");
	/* Two of the same were there: each gives its bytes once. */
	expect("[1.0,5,1.00]", "[1,1,1]", "[1.0,1,1.00]");
	expect("[1.0,2.0,3.0,4.0]", "[9,4,3,2]", "[9,4.0,3.0,2.0]");
	expect("[[1.0],[2.0],[3.0]]", "[[1],[2,9],[3]]", "[[1.0],[2.0,9],[3.0]]");
	/* As many new as old are left: they are taken for changed in place, even beside a removed equal one. */
	expect("[{\"id\":1.0,\"x\":1},{\"id\":2.0,\"x\":1}]", "[{\"id\":2,\"x\":1},{\"id\":1,\"x\":7}]",
	       "[{\"id\":2.0,\"x\":1},{\"id\":1.0,\"x\":7}]");
	expect("\"a\"", "null", "null");
	expect("{}", "[]", "[]");
	arena_release(&arena);
}

static void test_limits(void **state)
{
	(void)state;
	struct json_merge_out m;
	struct dlq_err err = {0};
	assert_int_equal(json_merge(STR("[1"), STR("[]"), 256, 1000, &arena, &m, &err), DLQ_INVALID_JSON);
	assert_says(&err, "byte 2");
	assert_int_equal(json_merge(STR("[1]"), STR("[<skipped: too deep>]"), 256, 1000, &arena, &m, &err), DLQ_INVALID_JSON);
	assert_says(&err, "edited document nests deeper than 256");
	assert_int_equal(json_merge(STR("[[1]]"), STR("[]"), 1, 1000, &arena, &m, &err), DLQ_INVALID_JSON);
	assert_says(&err, "deeper than 1 levels");
	assert_int_equal(json_merge(STR("[1]"), STR("[1,2]"), 256, 5, &arena, &m, &err), DLQ_OK);
	assert_str(m.text, "[1,2]");
	assert_int_equal(json_merge(STR("[1]"), STR("[1,2]"), 256, 4, &arena, &m, &err), DLQ_TOO_LARGE);
	assert_says(&err, "larger than 4 bytes");
	arena_release(&arena);
}

/* More changes than are told, and values cut at a character. */
static void test_changes(void **state)
{
	(void)state;
	struct buf o = {0}, e = {0};
	buf_addz(&o, "[");
	buf_addz(&e, "[");
	for (int i = 0; i < JQ_CHANGES_MAX + 7; i++) {
		buf_addf(&o, "%s%d", i ? "," : "", i);
		buf_addf(&e, "%s%d", i ? "," : "", i + 1000000);
	}
	buf_addz(&o, "]");
	buf_addz(&e, "]");
	struct json_merge_out m = merged(buf_str(&o), buf_str(&e));
	assert_int_equal(m.n_changes, JQ_CHANGES_MAX);
	assert_int_equal(m.more_changes, 7);
	assert_str(m.changes[99].path, ".[99]");
	assert_true(str_eq(m.text, buf_str(&e)));

	buf_clear(&o);
	buf_addz(&o, "{\"a\":\"");
	for (int i = 0; i < 300; i++)
		buf_addz(&o, "\xc3\xa9");
	buf_addz(&o, "\"}");
	m = merged(buf_str(&o), STR("{\"a\":\"x\"}"));
	assert_int_equal(m.n_changes, 1);
	assert_in_range(m.changes[0].old.n, 198, 200);
	assert_true(str_is_utf8(m.changes[0].old));
	assert_str(m.changes[0].new, "\"x\"");
	/* A key of any length leaves a path of some. */
	buf_clear(&o);
	buf_addz(&o, "{\"");
	for (int i = 0; i < 5000; i++)
		buf_addz(&o, "\xc3\xa9");
	buf_addz(&o, "\":1}");
	m = merged(buf_str(&o), STR("{}"));
	assert_in_range(m.changes[0].path.n, 300, 400);
	assert_true(str_is_utf8(m.changes[0].path));
	buf_release(&o);
	buf_release(&e);
	arena_release(&arena);
}

/* Large and awkward documents take time in proportion: each of these would take minutes if it were their square. */
static void test_large(void **state)
{
	(void)state;
	struct buf o = {0}, e = {0};
	struct json_merge_out m;
	struct dlq_err err = {0};
	for (int shape = 0; shape < 4; shape++) {
		buf_clear(&o);
		buf_clear(&e);
		int n = 100000;
		const char *open = shape < 2 ? "[" : "{", *close = shape < 2 ? "]" : "}";
		buf_addz(&o, open);
		buf_addz(&e, open);
		for (int i = 0; i < n; i++) {
			const char *comma = i ? "," : "";
			int k = n - 1 - i;
			if (shape == 0) { /* reversed */
				buf_addf(&o, "%s%d.0", comma, i);
				buf_addf(&e, "%s%d", comma, k);
			} else if (shape == 1) { /* nothing equal */
				buf_addf(&o, "%s[%d]", comma, i);
				buf_addf(&e, "%s[%d]", comma, i + n);
			} else if (shape == 2) { /* members reversed: the same object, but for one */
				buf_addf(&o, "%s\"k%d\":%d.0", comma, i, i);
				buf_addf(&e, "%s\"k%d\":%d", comma, k, k == 5 ? -1 : k);
			} else { /* the same key again and again */
				buf_addf(&o, "%s\"a\":%d", comma, i);
			}
		}
		if (shape == 3)
			buf_addz(&e, "\"a\":1");
		buf_addz(&o, close);
		buf_addz(&e, close);
		assert_int_equal(json_merge(buf_str(&o), buf_str(&e), 256, 64 << 20, &arena, &m, &err), DLQ_OK);
		assert_true(m.changed);
		assert_int_equal(m.more_changes > 0, shape < 2);
		arena_reset(&arena);
	}
	buf_release(&o);
	buf_release(&e);
	arena_release(&arena);
}

/* ---- random documents, random edits ---- */

/* A value in two spellings: as it came, and as jq writes it. Trees are small; they live in the arena. */
struct tree {
	char kind; /* { [ or 0 */
	const char *raw, *jq;
	struct tree *child[8];
	const char *key_raw[8], *key_jq[8];
	int n;
	bool edited; /* its own list of children */
	bool dirty;  /* it or something inside */
	bool fresh;  /* put there by an edit */
};

static const char *const leaves[][2] = {
    {"1", "1"}, {"1.0", "1"}, {"1.10", "1.1"}, {"1e2", "100"}, {"100", "100"}, {"12345678901234567890", "12345678901234567000"}, {"-0.5e1", "-5"},
    {"\"caf\\u00e9\"", "\"caf\xc3\xa9\""}, {"\"\\u0061\"", "\"a\""}, {"\"a\"", "\"a\""}, {"\"\\/\"", "\"/\""}, {"\"\\ud83d\\ude00\"", "\"\xf0\x9f\x98\x80\""},
    {"true", "true"}, {"false", "false"}, {"null", "null"}, {"\"\\u0000\"", "\"\\u0000\""}, {"\"x,]}\"", "\"x,]}\""}, {"9007199254740993", "9007199254740992"},
};
static const char *const keys[][2] = {{"a", "a"}, {"\\u0062", "b"}, {"c d", "c d"}, {"\\u00e9", "\xc3\xa9"}, {"\\\"", "\\\""}, {"f", "f"}, {"", ""}, {"h", "h"}};

static struct tree *random_tree(struct rnd *r, int depth)
{
	struct tree *t = arena_alloc(&arena, sizeof *t);
	uint64_t kind = rnd_below(r, depth > 4 ? 2 : 6);
	if (kind < 2) {
		size_t i = (size_t)rnd_below(r, ARRAY_LEN(leaves));
		t->raw = leaves[i][0];
		t->jq = leaves[i][1];
		return t;
	}
	t->kind = kind < 4 ? '[' : '{';
	size_t key = (size_t)rnd_below(r, 8);
	for (int n = (int)rnd_below(r, 6); t->n < n; t->n++) {
		t->child[t->n] = random_tree(r, depth + 1);
		t->key_raw[t->n] = keys[(key + (size_t)t->n * 3) % 8][0];
		t->key_jq[t->n] = keys[(key + (size_t)t->n * 3) % 8][1];
	}
	return t;
}

static void space(struct rnd *r, struct buf *b)
{
	static const char *const spaces[] = {"", "", "", " ", "\n", "\t ", "\r\n  "};
	if (r)
		buf_addz(b, spaces[rnd_below(r, ARRAY_LEN(spaces))]);
}

/* With r as it came, with random space; else as jq writes it. */
static void write_tree(const struct tree *t, struct rnd *r, struct buf *b)
{
	if (!t->kind) {
		buf_addz(b, r ? t->raw : t->jq);
		return;
	}
	buf_addc(b, t->kind);
	for (int i = 0; i < t->n; i++) {
		if (i)
			buf_addc(b, ',');
		space(r, b);
		if (t->kind == '{') {
			buf_addf(b, "\"%s\"", r ? t->key_raw[i] : t->key_jq[i]);
			space(r, b);
			buf_addc(b, ':');
			space(r, b);
		}
		write_tree(t->child[i], r, b);
		space(r, b);
	}
	buf_addc(b, t->kind == '{' ? '}' : ']');
}

static void remove_at(struct tree *t, int i)
{
	for (; i + 1 < t->n; i++) {
		t->child[i] = t->child[i + 1];
		t->key_raw[i] = t->key_raw[i + 1];
		t->key_jq[i] = t->key_jq[i + 1];
	}
	t->n--;
}

static const char *free_key(const struct tree *t, struct rnd *r)
{
	for (;;) {
		const char *key = keys[rnd_below(r, 8)][1];
		bool taken = false;
		for (int i = 0; i < t->n; i++)
			taken = taken || strcmp(t->key_jq[i], key) == 0;
		if (!taken)
			return key;
	}
}

static struct tree *fresh_tree(struct rnd *r)
{
	struct tree *t = random_tree(r, 3);
	t->fresh = true;
	return t;
}

/* One edit somewhere in t: delete, set, append, rename, reverse. */
static void edit(struct tree *t, struct rnd *r)
{
	int i = t->n ? (int)rnd_below(r, (uint64_t)t->n) : 0;
	t->dirty = true;
	if (t->n && rnd_below(r, 2)) {
		if (t->child[i]->kind) {
			edit(t->child[i], r);
			return;
		}
	}
	t->edited = true;
	switch (rnd_below(r, 5)) {
	case 0:
		if (t->n)
			remove_at(t, i);
		return;
	case 1:
		if (t->n)
			t->child[i] = fresh_tree(r);
		return;
	case 2:
		if (t->n >= 7)
			return;
		t->key_jq[t->n] = t->kind == '{' ? free_key(t, r) : "";
		t->key_raw[t->n] = NULL;
		t->child[t->n++] = fresh_tree(r);
		return;
	case 3:
		if (t->n && t->n < 7 && t->kind == '{') {
			t->key_jq[t->n] = free_key(t, r);
			t->key_raw[t->n] = NULL;
			t->child[t->n] = t->child[i];
			t->n++;
			remove_at(t, i);
		}
		return;
	default:
		for (int k = 0; k < t->n / 2 && t->kind == '['; k++) {
			struct tree *swap = t->child[k];
			t->child[k] = t->child[t->n - 1 - k];
			t->child[t->n - 1 - k] = swap;
		}
	}
}

static uint64_t seed_now;

static uint32_t member_of(const struct jtext_doc *d, uint32_t at, const char *key_raw)
{
	for (uint32_t node = at + 1; node < d->nodes[at].next; node = d->nodes[node + 1].next) {
		struct str k = jtext_span(d, node);
		if (k.n == strlen(key_raw) + 2 && memcmp(k.p + 1, key_raw, k.n - 2) == 0)
			return node + 1;
	}
	fail_msg("DLQ_SEED=%llu: the key %s is gone", (unsigned long long)seed_now, key_raw);
	return 0;
}

/*
 * What the edits left alone has its own bytes: members of objects by key, elements of arrays that kept their places. With two elements
 * edited, one may have become what the other was: then their bytes may have changed places.
 */
static void check_kept(const struct tree *t, const struct jtext_doc *d, uint32_t at)
{
	int dirty = 0;
	if (t->fresh || (t->kind == '[' && t->edited))
		return;
	if (!t->kind) {
		struct str s = jtext_span(d, at);
		if (!str_eqz(s, t->raw))
			fail_msg("DLQ_SEED=%llu: %.*s was %s", (unsigned long long)seed_now, (int)s.n, s.p, t->raw);
		return;
	}
	for (int i = 0; i < t->n; i++)
		dirty += t->child[i]->dirty;
	if (t->kind == '[' && dirty > 1)
		return;
	uint32_t node = at + 1;
	for (int i = 0; i < t->n; i++) {
		if (t->kind == '[') {
			check_kept(t->child[i], d, node);
			node = d->nodes[node].next;
		} else if (t->key_raw[i]) {
			check_kept(t->child[i], d, member_of(d, at, t->key_raw[i]));
		}
	}
}

static void check_same_value(struct str a, struct str b)
{
	const size_t flags = JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL;
	json_error_t e;
	json_t *x = json_loadb(a.p, a.n, flags, &e), *y = json_loadb(b.p, b.n, flags, &e);
	if (!x || !y || !json_equal(x, y))
		fail_msg("DLQ_SEED=%llu: not the same value:\n%.*s\n%.*s", (unsigned long long)seed_now, (int)a.n, a.p, (int)b.n, b.p);
	json_decref(x);
	json_decref(y);
}

static void random_case(uint64_t seed)
{
	struct rnd r;
	struct buf o = {0}, e = {0};
	struct jtext_doc d = {0};
	seed_now = seed;
	rnd_seed(&r, seed);
	struct tree *t = random_tree(&r, 0);
	space(&r, &o);
	write_tree(t, &r, &o);
	space(&r, &o);
	for (uint64_t n = rnd_below(&r, 4); t->kind && n > 0; n--)
		edit(t, &r);
	write_tree(t, NULL, &e);
	struct json_merge_out m = merged(buf_str(&o), buf_str(&e));
	check_same_value(m.text, buf_str(&e));
	assert_int_equal(jtext_parse(&d, m.text, 256, NULL), JSON_FINE);
	if (!m.changed)
		assert_true(str_eq(m.text, buf_str(&o)));
	check_kept(t, &d, 0);
	jtext_release(&d);
	buf_release(&o);
	buf_release(&e);
	arena_reset(&arena);
}

static void test_random(void **state)
{
	(void)state;
	const char *z = getenv("DLQ_SEED");
	uint64_t seed = z ? strtoull(z, NULL, 10) : 0;
	for (uint64_t i = 1; i <= 20000; i++) {
		random_case(seed ? seed : i);
		if (seed)
			break;
	}
	arena_release(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_check), cmocka_unit_test(test_depth),   cmocka_unit_test(test_decimal), cmocka_unit_test(test_merge),
	    cmocka_unit_test(test_limits), cmocka_unit_test(test_changes), cmocka_unit_test(test_large),   cmocka_unit_test(test_random),
	};
	return cmocka_run_group_tests_name("json_merge", tests, NULL, NULL);
}
