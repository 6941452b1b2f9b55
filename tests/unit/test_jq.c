/* jq programs: what they answer, which are refused, and what becomes of those that run away. */
#include "lib_jq.h"

#include <jansson.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>

#include "jq/jq_child.h"

static struct arena arena;

static struct jq_item one(enum jq_kind kind, const char *program, struct str head, struct str body)
{
	struct jq *j = open_jq(kind, program);
	struct jq_item item = {.head = head, .body = body};
	run_ok(j, &item, 1, &arena);
	jq_close(j);
	return item;
}

static enum dlq_code refused(enum jq_kind kind, const char *program, struct dlq_err *err)
{
	struct jq *j = NULL;
	*err = (struct dlq_err){0};
	enum dlq_code code = jq_open(&jq_usual, kind, str_of(program), &j, err);
	if (code == DLQ_OK)
		fail_msg("compiled: %s", program);
	assert_null(j);
	return code;
}

static int64_t now_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* ---- edits ---- */

static const char *member(const json_t *c, const char *key)
{
	return json_string_value(json_object_get(c, key));
}

static struct str member_bytes(const json_t *c, const char *key)
{
	const json_t *v = json_object_get(c, key);
	return v ? (struct str){json_string_value(v), json_string_length(v)} : STR("");
}

static void check_changes(const json_t *c, const struct jq_item *item)
{
	const json_t *want = json_object_get(c, "changes"), *one_of;
	size_t i;
	if (!want)
		return;
	if ((size_t)item->n_changes != json_array_size(want))
		fail_msg("%s: %d changes, not %zu", member(c, "name"), item->n_changes, json_array_size(want));
	json_array_foreach(want, i, one_of) {
		assert_str(item->changes[i].path, json_string_value(json_array_get(one_of, 0)));
		assert_str(item->changes[i].old, json_string_value(json_array_get(one_of, 1)));
		assert_str(item->changes[i].new, json_string_value(json_array_get(one_of, 2)));
	}
	assert_int_equal(item->more_changes, 0);
}

static void check_case(const json_t *c)
{
	const char *name = member(c, "name"), *failed = member(c, "failed");
	struct str want = member_bytes(c, "expect"), warning = member_bytes(c, "warning");
	struct jq_item item = one(JQ_EDIT, member(c, "program"), STR(""), member_bytes(c, "original"));
	enum jq_verdict verdict = failed ? JQ_FAILED : json_object_get(c, "same") ? JQ_SAME : JQ_CHANGED;
	if (item.verdict != verdict)
		fail_msg("%s: verdict %d, not %d; %.*s%.*s", name, item.verdict, verdict, STR_ARG(item.error), STR_ARG(item.new_body));
	if (failed && !strstr(arena_str(&arena, item.error).p, failed))
		fail_msg("%s: \"%s\" is not in \"%.*s\"", name, failed, STR_ARG(item.error));
	if (verdict == JQ_CHANGED && !str_eq(item.new_body, want))
		fail_msg("%s:\n%.*s\nnot\n%.*s", name, STR_ARG(item.new_body), STR_ARG(want));
	if (!str_eq(item.warning, warning))
		fail_msg("%s: warning\n%.*s\nnot\n%.*s", name, STR_ARG(item.warning), STR_ARG(warning));
	check_changes(c, &item);
	arena_reset(&arena);
}

static void test_vectors(void **state)
{
	(void)state;
	char path[1024];
	json_error_t e;
	json_t *root, *c;
	size_t i;
	const char *source = getenv("DLQ_SOURCE");
	snprintf(path, sizeof path, "%s/tests/vectors/edit.json", source ? source : ".");
	root = json_load_file(path, JSON_ALLOW_NUL, &e);
	if (!root)
		fail_msg("%s: %s (DLQ_SOURCE names the source folder)", path, e.text);
	json_array_foreach(json_object_get(root, "cases"), i, c)
		check_case(c);
	assert_true(i >= 60);
	json_decref(root);
}

/* ---- where ---- */

static void test_where(void **state)
{
	(void)state;
	static const struct {
		const char *program, *head, *body;
		enum jq_verdict verdict;
	} cases[] = {
	    {".body.a == 1", "{\"id\":\"x\"}", "{\"a\":1}", JQ_MATCH},
	    {".body.a == 1", "{\"id\":\"x\"}", "{\"a\":2}", JQ_NO_MATCH},
	    {".body.a", "", "{\"a\":null}", JQ_NO_MATCH},
	    {".body.a", "", "{\"a\":0}", JQ_MATCH},
	    {".body.a", "", "{\"a\":\"\"}", JQ_MATCH},
	    {".body.a", "", "{}", JQ_NO_MATCH},
	    {"empty", "", "1", JQ_NO_MATCH},
	    {"false, true", "", "1", JQ_FAILED},
	    {"true, false", "", "1", JQ_FAILED},
	    {".id == \"x\" and .headers.tenant == \"acme\"", "{\"id\":\"x\",\"headers\":{\"tenant\":\"acme\"}}", "1", JQ_MATCH},
	    {".body == \"not {json\"", "{}", "not {json", JQ_MATCH},
	    {".body == \"\"", "{}", "", JQ_MATCH},
	    {".body == null and .body_base64 == \"/wA=\"", "{}", "\xff", JQ_NO_MATCH},
	    {".body == null and .body_base64 == \"/w==\"", "{}", "\xff", JQ_MATCH},
	    {".body_base64 == null", "{}", "text", JQ_MATCH},
	    {".body.a", "", "text", JQ_FAILED},
	    {".body|test(\"^order-[0-9]+$\")", "", "order-17", JQ_MATCH},
	    {".body.when|fromdate > 1700000000", "", "{\"when\":\"2026-12-01T00:00:00Z\"}", JQ_MATCH},
	    {"now > 1700000000", "", "1", JQ_MATCH},
	    {".body|test(\"(a+)+$\")", "", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!", JQ_FAILED}, /* a limit of its own */
	    {".body.s == \"\xef\xbf\xbd\"", "", "{\"s\":\"\\ud83d\"}", JQ_MATCH},
	    {".body == \"no object in front\"", "[1]", "1", JQ_FAILED},
	    {"# a comment\n.body", "", "true", JQ_MATCH},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct jq_item item = one(JQ_WHERE, cases[i].program, str_of(cases[i].head), str_of(cases[i].body));
		if (item.verdict != cases[i].verdict)
			fail_msg("%s on %s: %d", cases[i].program, cases[i].body, item.verdict);
		assert_int_equal(item.error.n > 0, item.verdict == JQ_FAILED);
		arena_reset(&arena);
	}
}

static void test_where_depth(void **state)
{
	(void)state;
	struct buf b = {0};
	for (int depth = 256; depth <= 1000; depth += 744) {
		buf_clear(&b);
		for (int i = 0; i < depth; i++)
			buf_addc(&b, '[');
		for (int i = 0; i < depth; i++)
			buf_addc(&b, ']');
		struct jq_item item = one(JQ_WHERE, ".body|flatten == []", STR(""), buf_str(&b));
		assert_int_equal(item.verdict, depth == 256 ? JQ_MATCH : JQ_FAILED);
		if (depth > 256)
			assert_str(item.error, "the body nests deeper than 256 levels (byte 256)");
	}
	buf_release(&b);
	arena_release(&arena);
}

/* A second program over the same items, and one item after a failed one. */
static void test_many(void **state)
{
	(void)state;
	enum { N = 1000 };
	static struct jq_item items[N];
	static char bodies[N][32];
	struct jq *j = open_jq(JQ_WHERE, ".body.n % 3 == 0");
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < N; i++) {
			snprintf(bodies[i], sizeof bodies[i], i % 10 == 7 ? "{\"n\":\"%d\"}" : "{\"n\":%d}", i + round);
			items[i] = (struct jq_item){.head = STR("{\"q\":1}"), .body = str_of(bodies[i])};
		}
		run_ok(j, items, N, &arena);
		for (int i = 0; i < N; i++)
			assert_int_equal(items[i].verdict, i % 10 == 7 ? JQ_FAILED : (i + round) % 3 ? JQ_NO_MATCH : JQ_MATCH);
		arena_reset(&arena);
	}
	assert_true(jq_is(j, JQ_WHERE, STR(".body.n % 3 == 0")));
	assert_false(jq_is(j, JQ_EDIT, STR(".body.n % 3 == 0")));
	assert_false(jq_is(j, JQ_WHERE, STR(".body.n % 3 == 1")));
	assert_true(jq_pid(j) > 0);
	jq_close(j);
	jq_close(NULL);
	arena_release(&arena);
}

/* More in flight in both directions than any socket holds. */
static void test_both_ways(void **state)
{
	(void)state;
	enum { N = 60 };
	struct jq_item items[N];
	struct buf b = {0};
	buf_addz(&b, "{\"pad\":\"");
	for (int i = 0; i < 30000; i++)
		buf_addz(&b, "0123456789");
	buf_addz(&b, "\",\"a\":1}");
	for (int i = 0; i < N; i++)
		items[i] = (struct jq_item){.body = buf_str(&b)};
	struct jq *j = open_jq(JQ_EDIT, ".a=22");
	run_ok(j, items, N, &arena);
	for (int i = 0; i < N; i++) {
		assert_int_equal(items[i].verdict, JQ_CHANGED);
		assert_int_equal(items[i].new_body.n, b.n + 1);
		assert_memory_equal(items[i].new_body.p, b.p, b.n - 2);
	}
	jq_close(j);
	buf_release(&b);
	arena_release(&arena);
}

/* ---- programs that are refused ---- */

static void test_names(void **state)
{
	(void)state;
	static const struct {
		const char *program, *says;
	} bad[] = {
	    {"input", "line 1, column 1: input is not available"},
	    {".a |\n  [inputs]", "line 2, column 4: inputs"},
	    {"env.PATH", "column 1: env is"},
	    {"$ENV.PATH", "$ENV is"},
	    {"$ ENV", "$ENV is"},
	    {"\"\xc3\xa9\" + input_filename", "column 7: input_filename"},
	    {"input_line_number", "files"},
	    {".|debug", "column 3: debug"},
	    {"stderr", "stderr"},
	    {"halt", "use empty"},
	    {"halt_error", "error(\"text\")"},
	    {"halt_error(1)", "error(\"text\")"},
	    {"import \"a\" as a; .", "modules"},
	    {"include \"a\"; .", "modules"},
	    {"get_search_list", "modules"},
	    {"modulemeta", "modules"},
	    {"@sh", "runs a shell"},
	    {"@sh \"\\(.)\"", "runs a shell"},
	    {"\"a\\(env)\"", "column 5: env"},
	    {"\"a\\(\"b\\(1,input)\")\"", "column 11: input"},
	    {"{a: input}", "column 5: input"},
	    {"{(input): 1}", "input"},
	    {"{a: [1, input]}", "input"},
	    {"{\"a\": \"\\(1, input)\"}", "input"},
	    {"def input: 1; .", "input"},
	    {"# x\ninput", "line 2, column 1: input"},
	    {"1.input", "input"},
	    {"[1,input]", "input"},
	    {". as [$a, {b: $c}] | input", "input"},
	    {"{input: 1} | input", "column 14: input"},
	};
	static const char *const good[] = {
	    ".input", ".env.debug", "{input: 1}", "{input}", "{a:1,env:2,debug}", "\"input env $ENV @sh\"", "# input\n.", ".a # env", ". as $input | $input",
	    ".[\"input\"]", ".\"input\"", "inputs_of(1)|.", "\"\\\"\" + \"env\"", "\"a\\\\(input)\"", "{\"input\":1}", ". as {input: $x} | $x", "@json", "@base64",
	    ".a.halt?", "..|.debug?", "{import: 1}", "try error(\"input\") catch .", "\"\\(\"\\(1)\")input\"", ".a|$__loc__", "{a:{env:1},halt:2}",
	};
	struct dlq_err err;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_equal(refused(JQ_WHERE, bad[i].program, &err), DLQ_BAD_REQUEST);
		assert_says(&err, bad[i].says);
		assert_says(&err, "not available");
	}
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		struct jq *j = NULL;
		enum dlq_code code = jq_open(&jq_usual, JQ_EDIT, str_of(good[i]), &j, &err);
		if (code != DLQ_OK && strstr(err.detail, "not available"))
			fail_msg("%s: %s", good[i], err.detail);
		if (code != DLQ_OK && !strstr(good[i], "inputs_of") && !strstr(good[i], "{import"))
			fail_msg("%s: %s", good[i], err.detail);
		jq_close(j);
	}
}

static void test_compile_errors(void **state)
{
	(void)state;
	static const struct {
		const char *program, *says;
	} bad[] = {
	    {".a +", "the jq program, line 1, column 4: syntax error, unexpected $end"},
	    {".a |\n  .b ]", "line 2, column 6: syntax error, unexpected INVALID_CHARACTER"},
	    {".a | nope", "nope/0 is not defined"},
	    {".a |\n    nope(1)", "line 2"},
	    {"$x", "$x is not defined"},
	    {"\"abc", "line 1"},
	    {"if . then 1", "syntax error"},
	    {"\"\\x\"", "Invalid escape"},
	    {"break $out", "$*label-out is not defined"},
	    {" \n\t ", "the jq program is empty"},
	    {"", "the jq program is empty"},
	    {"\xff", "not UTF-8"},
	};
	struct dlq_err err;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_equal(refused(JQ_EDIT, bad[i].program, &err), DLQ_BAD_REQUEST);
		assert_says(&err, bad[i].says);
		assert_null(strstr(err.detail, "shell"));
	}
	struct jq *j = NULL;
	assert_int_equal(jq_open(&jq_usual, JQ_EDIT, (struct str){".\0input", 7}, &j, &err), DLQ_BAD_REQUEST);
	assert_says(&err, "not UTF-8 text");
	char *big = mem_alloc(JQ_PROGRAM_MAX + 2);
	memset(big, ' ', JQ_PROGRAM_MAX + 1);
	big[0] = '.';
	assert_int_equal(jq_open(&jq_usual, JQ_EDIT, (struct str){big, JQ_PROGRAM_MAX + 1}, &j, &err), DLQ_BAD_REQUEST);
	assert_says(&err, "at most 65536");
	assert_int_equal(jq_open(&jq_usual, JQ_EDIT, (struct str){big, JQ_PROGRAM_MAX}, &j, &err), DLQ_OK);
	jq_close(j);
	/* One that nests so deeply that the compiler itself gives up. */
	memset(big, '(', JQ_PROGRAM_MAX);
	assert_int_equal(jq_open(&jq_usual, JQ_EDIT, (struct str){big, JQ_PROGRAM_MAX}, &j, &err), DLQ_BAD_REQUEST);
	assert_null(j);
	mem_free(big);
}

/* ---- programs that run away ---- */

struct runaway {
	const char *program;
	enum dlq_code code;
	const char *says;
};

/* The second of three items runs away: the first is done, the child gone, the error names item and limit. */
static void check_runaway(enum jq_kind kind, const struct runaway *r)
{
	char program[1000];
	/* Time enough for what is to end by another limit, on a machine under load. */
	struct jq_options o = {.program = SELF, .item_ms = r->code == DLQ_TIMEOUT ? 1000 : SANITIZED ? 3000 : 60000, .output_bytes = 1 << 20};
	struct jq_item items[3];
	struct dlq_err err = {0};
	int at = -1;
	const char *def = strncmp(r->program, "def ", 4) == 0 ? strchr(r->program, ';') + 1 : r->program;
	snprintf(program, sizeof program, "%.*s if %s == \"go\" then %s else true end", (int)(def - r->program), r->program,
	         kind == JQ_WHERE ? ".body" : ".", def);
	struct jq *j = open_with(&o, kind, program);
	for (int i = 0; i < 3; i++)
		items[i] = (struct jq_item){.body = i == 1 ? STR("\"go\"") : STR("\"stay\"")};
	int64_t start = now_ms();
	enum dlq_code code = jq_run(j, items, 3, &arena, &at, &err);
	int64_t took = now_ms() - start;
	if (SANITIZED && code != DLQ_OK)
		code = r->code; /* sanitizers end a process their own way when it is out of memory or stack */
	else if (!strstr(err.detail, r->says))
		fail_msg("%s: %s", program, err.detail);
	if (code != r->code)
		fail_msg("%s: %s", program, code_name(code));
	if (!SANITIZED)
		assert_says(&err, "item 2 of 3");
	assert_int_equal(at, SANITIZED ? at : 1);
	if (!SANITIZED)
		assert_int_equal(items[0].verdict, kind == JQ_WHERE ? JQ_MATCH : JQ_CHANGED);
	assert_true(jq_dead(j));
	assert_int_equal(jq_pid(j), 0);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	if (!SANITIZED && r->code == DLQ_TIMEOUT && (took < 1000 || took > 30000))
		fail_msg("%s took %lld ms", program, (long long)took);
	assert_true(arena.used < 100000);
	assert_int_equal(jq_run(j, items, 1, &arena, &at, &err), DLQ_SYSTEM);
	assert_says(&err, "open the program again");
	jq_close(j);
	arena_reset(&arena);
}

static void test_runaways(void **state)
{
	(void)state;
	static const struct runaway both[] = {
	    {"def f: f; f", DLQ_TIMEOUT, "1000 ms"},
	    {"(last(range(infinite)))", DLQ_TIMEOUT, "1000 ms"},
	    {"(reduce range(1e12) as $i (0; .+1))", DLQ_TIMEOUT, "1000 ms"},
	    {"((\"a\" * 30000) + \"cx\"|test(\"(?:a|b)*c\\\\b\"))", DLQ_TIMEOUT, "1000 ms"},
	    {"(last(repeat(1)))", DLQ_TIMEOUT, "1000 ms"},
	    {"(\"0123456789abcdefghijklmnopqrstuvwxyz\" * 1e7)", DLQ_BAD_REQUEST, "64"},
	    {"([limit(1e9; repeat(1))])", DLQ_BAD_REQUEST, "memory"},
	    {"def f: [f]; f", DLQ_BAD_REQUEST, "memory"},
	    {"(reduce range(100) as $i (\"ab\"; .+.))", DLQ_BAD_REQUEST, "memory"},
	    {"(last(recurse([.,.])))", DLQ_BAD_REQUEST, "memory"},
	    {"(reduce range(60) as $i ([1]; [.,.])|tojson)", DLQ_BAD_REQUEST, "memory"},
	    {"(reduce range(60) as $i (\"x\"; \"\\(.)\\(.)\"))", DLQ_BAD_REQUEST, "memory"},
	    {"([range(1e9)]|@json)", DLQ_BAD_REQUEST, "memory"},
	    {"(null|setpath([1e8];1)|length)", DLQ_BAD_REQUEST, "memory"},
	    {"(reduce range(1000000) as $i (0; [.])|1)", DLQ_BAD_REQUEST, ""},
	};
	static const struct runaway edits[] = {
	    {"(reduce range(40) as $i ([1]; [.,.]))", DLQ_BAD_REQUEST, "memory"},
	    {"(\"x\" * 2e6)", DLQ_TOO_LARGE, "1.0 MiB"},
	};
	/* Sanitized, each takes seconds: some of each kind will do. */
	for (size_t i = 0; i < ARRAY_LEN(both); i += SANITIZED ? 5 : 1)
		check_runaway(i % 2 ? JQ_EDIT : JQ_WHERE, &both[i]);
	for (size_t i = 0; i < ARRAY_LEN(edits); i++)
		check_runaway(JQ_EDIT, &edits[i]);
	arena_release(&arena);
}

static void test_body_size(void **state)
{
	(void)state;
	struct jq_options o = {.program = SELF, .memory_bytes = 4 << 20};
	struct buf b = {0};
	struct jq_item items[3];
	buf_addc(&b, '"');
	while (b.n < (1 << 20) - 1)
		buf_addc(&b, 'x');
	buf_addc(&b, '"');
	struct jq *j = open_with(&o, JQ_WHERE, ".body|length > 1000000");
	items[0] = items[2] = (struct jq_item){.body = STR("\"x\"")};
	items[1] = (struct jq_item){.body = buf_str(&b)};
	run_ok(j, items, 3, &arena);
	assert_int_equal(items[1].verdict, JQ_MATCH);
	buf_addc(&b, ' '); /* one past a quarter */
	items[1] = (struct jq_item){.body = buf_str(&b)};
	run_ok(j, items, 3, &arena);
	assert_int_equal(items[1].verdict, JQ_FAILED);
	assert_str(items[1].error, "the body is larger than the 1.0 MiB that jq may be given (a quarter of jq_memory)");
	assert_int_equal(items[2].verdict, JQ_NO_MATCH);
	run_ok(j, items + 1, 1, &arena); /* nothing to ask for */
	jq_close(j);
	buf_release(&b);
	arena_release(&arena);
}

/* In the middle of much: all before it are done, what was already sent behind it does no harm. */
static void test_runaway_in_the_middle(void **state)
{
	(void)state;
	enum { N = 300, AT = 170 };
	static struct jq_item items[N];
	struct jq_options o = {.program = SELF, .item_ms = 1000};
	struct dlq_err err = {0};
	struct buf b = {0};
	int at = -1;
	buf_addz(&b, "{\"a\":1,\"pad\":\"");
	for (int i = 0; i < 2000; i++)
		buf_addz(&b, "0123456789");
	buf_addz(&b, "\"}");
	for (int i = 0; i < N; i++)
		items[i] = (struct jq_item){.body = i == AT ? STR("{\"a\":2}") : buf_str(&b)};
	struct jq *j = open_with(&o, JQ_EDIT, "def f: f; if .a == 2 then f else .a = 3 end");
	assert_int_equal(jq_run(j, items, N, &arena, &at, &err), DLQ_TIMEOUT);
	if (!SANITIZED) {
		assert_int_equal(at, AT);
		assert_says(&err, "item 171 of 300");
		for (int i = 0; i < AT; i++)
			assert_int_equal(items[i].verdict, JQ_CHANGED);
	}
	jq_close(j);
	buf_release(&b);
	arena_release(&arena);
}

/* libjq 1.6 loses some memory with each index(object): a scan goes on in a new child. */
static void test_leak(void **state)
{
	(void)state;
	enum { N = 1000 };
	static struct jq_item items[N];
	struct jq_options o = {.program = SELF, .memory_bytes = 8 << 20};
	struct jq *j = open_with(&o, JQ_WHERE, ".body|index({x:1}) == 0");
	int first = jq_pid(j);
	for (int round = 0; round < (SANITIZED ? 2 : 20); round++) {
		for (int i = 0; i < N; i++)
			items[i] = (struct jq_item){.body = i % 2 ? STR("[{\"x\":1},{\"x\":2},{\"x\":3}]") : STR("[{\"x\":2}]")};
		run_ok(j, items, N, &arena);
		for (int i = 0; i < N; i++)
			assert_int_equal(items[i].verdict, i % 2 ? JQ_MATCH : JQ_NO_MATCH);
		arena_reset(&arena);
	}
	if (!SANITIZED)
		assert_int_not_equal(jq_pid(j), first);
	assert_int_equal(waitpid(first, NULL, WNOHANG), SANITIZED ? 0 : -1);
	jq_close(j);
	arena_release(&arena);
}

/* CPU time of all items together, with none past its own time. */
static void test_cpu(void **state)
{
	(void)state;
	struct jq_options o = {.program = SELF, .cpu_s = 1, .item_ms = 60000};
	struct jq *j = open_with(&o, JQ_WHERE, "if .body == 1 then true else last(range(1e10)) end");
	struct jq_item items[2] = {{.body = STR("1")}, {.body = STR("2")}};
	struct dlq_err err = {0};
	int at = -1;
	enum dlq_code code = jq_run(j, items, 2, &arena, &at, &err);
	if (SANITIZED) { /* a signal may wait until the next call of the runtime, which is too late */
		assert_int_not_equal(code, DLQ_OK);
	} else {
		assert_int_equal(code, DLQ_TIMEOUT);
		assert_says(&err, "item 2 of 2");
		assert_says(&err, "1 seconds of CPU");
		assert_int_equal(items[0].verdict, JQ_MATCH);
	}
	assert_true(jq_dead(j));
	jq_close(j);
	arena_release(&arena);
}

static void test_no_program(void **state)
{
	(void)state;
	struct dlq_err err = {0};
	struct jq *j = NULL;
	struct jq_options o = {0};
	assert_int_equal(jq_open(&o, JQ_WHERE, STR("."), &j, &err), DLQ_BAD_REQUEST);
	assert_says(&err, "jq is not available here");
	o.program = "/nonexistent/dlq";
	assert_int_equal(jq_open(&o, JQ_WHERE, STR("."), &j, &err), DLQ_SYSTEM);
	assert_says(&err, "/nonexistent/dlq");
	assert_says(&err, "No such file");
	o.program = "/bin/true";
	assert_int_equal(jq_open(&o, JQ_WHERE, STR("."), &j, &err), DLQ_SYSTEM);
	assert_says(&err, "ended by itself with status 0");
	assert_null(j);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_vectors),        cmocka_unit_test(test_where),    cmocka_unit_test(test_where_depth),
	    cmocka_unit_test(test_many),           cmocka_unit_test(test_both_ways), cmocka_unit_test(test_names),
	    cmocka_unit_test(test_compile_errors), cmocka_unit_test(test_runaways), cmocka_unit_test(test_body_size),
	    cmocka_unit_test(test_runaway_in_the_middle), cmocka_unit_test(test_leak),
	    cmocka_unit_test(test_cpu),            cmocka_unit_test(test_no_program),
	};
	if (argc == 2 && strcmp(argv[1], "jq-child") == 0)
		return jq_child_main();
	return cmocka_run_group_tests_name("jq", tests, NULL, NULL);
}
