/*
 * jq_child.c - the process that runs jq: its limits, and the loop over items. See jq_child.h and jq_wire.h.
 *
 * The limits are kept from within, by signal handlers: they see which item is being worked on, send what was answered before it, say
 * LIMIT and end the process. They read `state.running` and the lengths of `state.out`, which only change while nothing is running.
 */
#include "jq/jq_child.h"

#include <errno.h>
#include <jq.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "jq/jq_child_int.h"
#include "jq/jq_scan.h"
#include "jq/jq_wire.h"
#include "jq/json_merge.h"
#include "jq/json_text.h"

#define READ_BYTES 131072
#define FLUSH_BYTES 32768     /* answers held back at most */
#define FLUSH_AFTER_US 20000  /* and so long, so that the parent hears of slow items */
#define TICK_US 50000         /* the clock is looked at this often; an item may take so much longer */
#define KEPT_BYTES (1 << 20)  /* buffers larger than this are given back after an item */
#define STACK_BYTES 65536     /* for the handlers: the usual stack may be what ran over */
#define SANITIZED_SLACK_KIB (512 << 10) /* what a sanitizer may hold beside */
#define EXIT_USAGE 64

static struct {
	struct jq_hello hello;
	struct str program;
	jq_state *jq;
	pid_t parent;
	struct buf in;
	size_t in_from;
	struct buf out;               /* answers */
	volatile size_t ready, sent;  /* of out: whole answers, and what went */
	volatile sig_atomic_t running; /* an item (or the compiler) */
	volatile sig_atomic_t in_jq;   /* inside libjq */
	volatile sig_atomic_t cpu_over;
	volatile int64_t deadline_us;
	int64_t flushed_us;
	long rss_kib;                 /* at the start; sanitized builds */
	struct jtext_doc doc;
	struct buf scratch;
	struct arena arena;
	struct buf message; /* the first of the compiler's */
} state;

static int64_t now_us(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

/* ---- the end of it (handlers: only what is safe in a signal) ---- */

static bool write_all(const char *p, size_t n)
{
	while (n > 0) {
		ssize_t done = write(STDOUT_FILENO, p, n);
		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return false;
		p += done;
		n -= (size_t)done;
	}
	return true;
}

_Noreturn static void limit_exit(enum jq_limit limit)
{
	struct {
		struct jq_answer a;
		uint32_t limit;
	} last = {{sizeof(uint32_t), JQ_A_LIMIT}, limit};
	if (write_all(state.out.p + state.sent, state.ready - state.sent))
		write_all((const char *)&last, sizeof last);
	_exit(10 + (int)limit);
}

static void on_tick(int sig)
{
	(void)sig;
	int saved = errno;
	if (getppid() != state.parent)
		_exit(1);
	if (state.running && now_us() > state.deadline_us)
		limit_exit(JQ_LIMIT_TIME);
	if (SANITIZED && state.running) {
		struct rusage ru;
		if (getrusage(RUSAGE_SELF, &ru) == 0 &&
		    ru.ru_maxrss - state.rss_kib > state.hello.memory_bytes / 1024 + SANITIZED_SLACK_KIB)
			limit_exit(JQ_LIMIT_MEMORY);
	}
	errno = saved;
}

static void on_cpu(int sig)
{
	(void)sig;
	if (state.running)
		limit_exit(JQ_LIMIT_CPU);
	state.cpu_over = 1;
}

/* abort() is what base/mem.c does without memory, and libjq when it finds a fault in itself. */
static void on_crash(int sig)
{
	limit_exit(sig == SIGABRT && !state.in_jq ? JQ_LIMIT_MEMORY : JQ_LIMIT_CRASH);
}

static void no_memory(void *unused)
{
	(void)unused;
	limit_exit(JQ_LIMIT_MEMORY);
}

static bool set_handlers(void)
{
	static const int ignored[] = {SIGPIPE, SIGINT, SIGQUIT, SIGHUP, SIGTERM};
	static const int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
	static char memory[STACK_BYTES];
	stack_t stack = {.ss_sp = memory, .ss_size = sizeof memory};
	struct sigaction sa = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
	sigfillset(&sa.sa_mask);
	bool good = sigaltstack(&stack, NULL) == 0 && sigaction(SIGALRM, &sa, NULL) == 0;
	sa.sa_handler = on_cpu;
	good = good && sigaction(SIGXCPU, &sa, NULL) == 0;
	sa.sa_handler = on_crash;
	sa.sa_flags = SA_ONSTACK | SA_RESETHAND;
	for (size_t i = 0; i < ARRAY_LEN(crashes); i++)
		good = good && sigaction(crashes[i], &sa, NULL) == 0;
	sa.sa_handler = SIG_IGN; /* Ctrl-C is for the parent; it ends this */
	sa.sa_flags = 0;
	for (size_t i = 0; i < ARRAY_LEN(ignored); i++)
		good = good && sigaction(ignored[i], &sa, NULL) == 0;
	return good;
}

/* ---- answers ---- */

static void add_answer(enum jq_answer_kind kind, size_t n)
{
	struct jq_answer a = {(uint32_t)n, kind};
	buf_add(&state.out, &a, sizeof a);
}

static void finish_answer(void)
{
	state.ready = state.out.n;
}

static void answer(enum jq_answer_kind kind, struct str text)
{
	state.running = 0;
	text = str_cut(text, JQ_TEXT_MAX);
	add_answer(kind, text.n);
	buf_adds(&state.out, text);
	finish_answer();
}

static void answer_changed(const struct json_merge_out *m)
{
	struct jq_changed c = {(uint32_t)m->text.n, (uint32_t)m->warning.n, (uint32_t)m->n_changes, (uint32_t)m->more_changes};
	size_t n = sizeof c + m->text.n + m->warning.n;
	state.running = 0;
	for (int i = 0; i < m->n_changes; i++)
		n += sizeof(struct jq_changed_place) + m->changes[i].path.n + m->changes[i].old.n + m->changes[i].new.n;
	add_answer(JQ_A_CHANGED, n);
	buf_add(&state.out, &c, sizeof c);
	for (int i = 0; i < m->n_changes; i++) {
		const struct jq_change *ch = &m->changes[i];
		struct jq_changed_place p = {(uint32_t)ch->path.n, (uint32_t)ch->old.n, (uint32_t)ch->new.n};
		buf_add(&state.out, &p, sizeof p);
	}
	buf_adds(&state.out, m->text);
	buf_adds(&state.out, m->warning);
	for (int i = 0; i < m->n_changes; i++) {
		buf_adds(&state.out, m->changes[i].path);
		buf_adds(&state.out, m->changes[i].old);
		buf_adds(&state.out, m->changes[i].new);
	}
	finish_answer();
}

/* False: the parent is gone. */
static bool flush(void)
{
	while (state.sent < state.ready) {
		ssize_t n = write(STDOUT_FILENO, state.out.p + state.sent, state.ready - state.sent);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		state.sent += (size_t)n;
	}
	state.ready = state.sent = 0;
	buf_clear(&state.out);
	if (state.out.cap > KEPT_BYTES)
		buf_release(&state.out);
	return true;
}

/* ---- jq ---- */

/* The value as jq has it. Recursion: JQ_DEPTH_MAX. */
static jv value_of(const struct jtext_doc *d, uint32_t i)
{
	struct str s;
	jv v;
	switch (jtext_kind(d, i)) {
	case '"':
		s = jtext_string(d, i, &state.scratch);
		return jv_string_sized(s.p, (int)s.n);
	case '[':
		v = jv_array_sized((int)(d->nodes[i].n ? d->nodes[i].n : 1));
		for (uint32_t k = i + 1; k < d->nodes[i].next; k = d->nodes[k].next)
			v = jv_array_append(v, value_of(d, k));
		return v;
	case '{':
		v = jv_object();
		for (uint32_t k = i + 1; k < d->nodes[i].next; k = d->nodes[k + 1].next) {
			s = jtext_string(d, k, &state.scratch);
			jv key = jv_string_sized(s.p, (int)s.n);
			v = jv_object_set(v, key, value_of(d, k + 1));
		}
		return v;
	case 't':
		return jv_true();
	case 'f':
		return jv_false();
	case 'n':
		return jv_null();
	default:
		return jv_number(jtext_number(d, i));
	}
}

static struct str text_of(jv string)
{
	return (struct str){jv_string_value(string), (size_t)jv_string_length_bytes(jv_copy(string))};
}

static void fail(const char *fmt, ...) PRINTF_LIKE(1, 2);
static void fail(const char *fmt, ...)
{
	char text[512];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	answer(JQ_A_FAILED, str_of(text));
}

static void fail_by(jv invalid)
{
	jv msg = jv_invalid_get_msg(invalid);
	if (jv_get_kind(msg) != JV_KIND_STRING)
		msg = jv_dump_string(msg, 0);
	answer(JQ_A_FAILED, text_of(msg));
	jv_free(msg);
}

/*
 * The only output; invalid: there is none, and *failed says whether something failed, which is the answer then. A second output is a
 * failure: taking the first would replace a body by one of its parts, and miss what a condition says of the others. Takes input.
 */
static jv only_output(jv input, bool *failed)
{
	state.in_jq = 1;
	jq_start(state.jq, input, 0);
	jv v = jq_next(state.jq);
	jv second = jv_is_valid(v) ? jq_next(state.jq) : jv_copy(v);
	state.in_jq = 0;
	*failed = true;
	if (jv_is_valid(second)) {
		fail("the program gives more than one output; %s", state.hello.kind == JQ_WHERE ? "join them by any(...) or all(...)" : "there must be one, the whole new body: .items |= map(...) instead of .items[] | ...");
		jv_free(second);
	} else if (jv_invalid_has_msg(jv_copy(second))) {
		fail_by(second);
	} else {
		jv_free(second);
		*failed = false;
		return v;
	}
	jv_free(v);
	return jv_invalid();
}

static jv set_body_bytes(jv message, struct str body)
{
	if (str_is_utf8(body))
		return jv_object_set(message, jv_string("body"), jv_string_sized(body.p, (int)body.n));
	struct buf b = {.max = (size_t)INT32_MAX};
	base64_encode(body, &b);
	message = jv_object_set(message, jv_string("body"), jv_null());
	message = jv_object_set(message, jv_string("body_base64"), jv_string_sized(b.p, (int)b.n));
	buf_release(&b);
	return message;
}

static void run_where(struct str head, struct str body)
{
	jv message = jv_object();
	if (head.n) {
		jv_free(message);
		if (jtext_parse(&state.doc, head, JQ_DEPTH_MAX, NULL) != JSON_FINE || jtext_kind(&state.doc, 0) != '{') {
			fail("the message's own fields are not a JSON object; this is a fault in dlq");
			return;
		}
		message = value_of(&state.doc, 0);
	}
	size_t at;
	enum jtext_fault fault = jtext_parse(&state.doc, body, JQ_DEPTH_MAX, &at);
	if (fault == JSON_DEEP) {
		jv_free(message);
		fail("the body nests deeper than %d levels (byte %zu)", JQ_DEPTH_MAX, at);
		return;
	}
	if (fault == JSON_FINE)
		message = jv_object_set(message, jv_string("body"), value_of(&state.doc, 0));
	else
		message = set_body_bytes(message, body);
	bool failed;
	jv v = only_output(message, &failed);
	jv_kind kind = jv_get_kind(v);
	jv_free(v);
	if (!failed)
		answer(kind == JV_KIND_INVALID || kind == JV_KIND_FALSE || kind == JV_KIND_NULL ? JQ_A_NO_MATCH : JQ_A_MATCH, STR(""));
}

/* The answer of the program beside the body that it had. Takes v. */
static void answer_edit(struct str body, jv v)
{
	size_t most = (size_t)state.hello.output_bytes;
	struct json_merge_out m;
	struct dlq_err err = {0};
	state.in_jq = 1;
	v = jv_dump_string(v, 0);
	state.in_jq = 0;
	struct str edited = text_of(v);
	if (edited.n > most)
		limit_exit(JQ_LIMIT_OUTPUT);
	enum dlq_code code = json_merge(body, edited, JQ_DEPTH_MAX, most, &state.arena, &m, &err);
	if (code == DLQ_TOO_LARGE)
		limit_exit(JQ_LIMIT_OUTPUT);
	else if (code != DLQ_OK)
		answer(JQ_A_FAILED, str_of(err.detail));
	else if (m.changed)
		answer_changed(&m);
	else
		answer(JQ_A_SAME, STR(""));
	jv_free(v);
	arena_reset(&state.arena);
}

static void run_edit(struct str body)
{
	size_t at;
	enum jtext_fault fault = jtext_parse(&state.doc, body, JQ_DEPTH_MAX, &at);
	if (fault == JSON_DEEP) {
		fail("the body nests deeper than %d levels (byte %zu)", JQ_DEPTH_MAX, at);
		return;
	}
	if (fault == JSON_WRONG) {
		fail("the body is not JSON (byte %zu), so jq cannot edit it; a replacement body can", at);
		return;
	}
	bool failed;
	jv v = only_output(value_of(&state.doc, 0), &failed);
	if (failed)
		return;
	if (jv_is_valid(v))
		answer_edit(body, v);
	else
		fail("the program gave no output for this body; an edit must give the new body");
}

/* ---- compiling ---- */

static void on_message(void *unused, jv msg)
{
	(void)unused;
	msg = jq_format_error(msg);
	if (!state.message.n)
		jq_shape_message(state.program, text_of(msg), &state.message);
	jv_free(msg);
}

/* READY or COMPILE is answered. */
static bool compile(void)
{
	state.deadline_us = now_us() + state.hello.compile_ms * 1000;
	state.running = state.in_jq = 1;
	state.jq = jq_init();
	if (!state.jq)
		limit_exit(JQ_LIMIT_MEMORY);
	jq_set_nomem_handler(state.jq, no_memory, NULL);
	jq_set_error_cb(state.jq, on_message, NULL);
	jq_set_input_cb(state.jq, NULL, NULL); /* jq_init leaves them as malloc found them */
	jq_set_debug_cb(state.jq, NULL, NULL);
	bool good = jq_compile(state.jq, state.program.p) != 0;
	state.in_jq = 0;
	if (good)
		answer(JQ_A_READY, STR(""));
	else
		answer(JQ_A_COMPILE, state.message.n ? buf_str(&state.message) : STR("jq does not take it and does not say why"));
	return flush() && good;
}

/* ---- the loop ---- */

static void set_ticks(bool on)
{
	long us = state.hello.item_ms < TICK_US / 1000 * 4 ? TICK_US / 5 : TICK_US;
	struct itimerval t = {{0, on ? us : 0}, {0, on ? us : 0}};
	setitimer(ITIMER_REAL, &t, NULL);
}

static bool read_all(void *to, size_t n)
{
	for (size_t have = 0; have < n;) {
		ssize_t got = read(STDIN_FILENO, (char *)to + have, n - have);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		have += (size_t)got;
	}
	return true;
}

/* Whether a whole item is in the buffer; else *need: bytes that it has in all, as far as is known. */
static bool have_item(struct jq_ask *ask, size_t *need)
{
	size_t n = state.in.n - state.in_from;
	*need = sizeof *ask;
	if (n < sizeof *ask)
		return false;
	memcpy(ask, state.in.p + state.in_from, sizeof *ask);
	*need += (size_t)ask->head_n + ask->body_n;
	return n >= *need;
}

static void run_item(const struct jq_ask *ask, int64_t now)
{
	const char *p = state.in.p + state.in_from + sizeof *ask;
	if (state.cpu_over)
		limit_exit(JQ_LIMIT_CPU);
	state.deadline_us = now + state.hello.item_ms * 1000;
	state.running = 1;
	if (state.hello.kind == JQ_WHERE)
		run_where((struct str){p, ask->head_n}, (struct str){p + ask->head_n, ask->body_n});
	else
		run_edit((struct str){p + ask->head_n, ask->body_n});
	state.in_from += sizeof *ask + ask->head_n + ask->body_n;
	if (state.doc.cap * sizeof state.doc.nodes[0] > KEPT_BYTES)
		jtext_release(&state.doc);
	if (state.scratch.cap > KEPT_BYTES)
		buf_release(&state.scratch);
}

/* Waits for more input, until there are `need` bytes or what came. False: the end. */
static bool read_more(size_t need)
{
	size_t left = state.in.n - state.in_from;
	if (left)
		memmove(state.in.p, state.in.p + state.in_from, left);
	state.in.n = left;
	state.in_from = 0;
	if (!left && state.in.cap > KEPT_BYTES)
		buf_release(&state.in);
	size_t room = need > left + READ_BYTES ? need - left : READ_BYTES;
	char *to = buf_reserve(&state.in, room);
	ssize_t got;
	if (!to)
		limit_exit(JQ_LIMIT_MEMORY);
	do
		got = read(STDIN_FILENO, to, room);
	while (got < 0 && errno == EINTR);
	if (got <= 0)
		return false;
	state.in.n += (size_t)got;
	return true;
}

static int serve(void)
{
	for (;;) {
		struct jq_ask ask;
		size_t need;
		set_ticks(true);
		while (have_item(&ask, &need)) {
			run_item(&ask, now_us());
			int64_t now = now_us();
			if (state.ready > FLUSH_BYTES || now - state.flushed_us > FLUSH_AFTER_US) {
				if (!flush())
					return 1;
				state.flushed_us = now;
			}
		}
		set_ticks(false);
		if (!flush())
			return 1;
		state.flushed_us = now_us();
		if (!read_more(need))
			return 0;
	}
}

/* Reads what to do: the parent's own words, before the confinement that they are part of. */
static bool take_hello(void)
{
	char *program;
	if (!read_all(&state.hello, sizeof state.hello) || state.hello.magic != JQ_MAGIC || state.hello.program_n > JQ_PROGRAM_MAX)
		return false;
	program = mem_alloc(state.hello.program_n + 1);
	state.program = (struct str){program, state.hello.program_n};
	return read_all(program, state.hello.program_n);
}

int jq_child_main(void)
{
	static char *nothing[] = {NULL};
	rlim_t base = child_address_space();
	state.parent = getppid();
	environ = nothing; /* it is empty already when jq/jq.c is the parent */
	state.in.max = state.out.max = state.scratch.max = (size_t)INT32_MAX;
	const char *refused = child_drop_privileges();
	if (!take_hello())
		return EXIT_USAGE;
	struct rusage ru;
	if (getrusage(RUSAGE_SELF, &ru) == 0)
		state.rss_kib = ru.ru_maxrss;
	if (!refused && !set_handlers())
		refused = "signal handlers";
	if (!refused)
		refused = child_set_limits(base, &state.hello);
	if (!refused)
		refused = child_set_filter();
	if (refused) {
		struct buf b = {0};
		buf_addf(&b, "it could not confine itself: the system refused %s (%s)", refused, strerror(errno));
		answer(JQ_A_REFUSED, buf_str(&b));
		flush();
		return 1;
	}
	set_ticks(true);
	int rc = compile() ? serve() : 0;
	jq_teardown(&state.jq);
	return rc;
}
