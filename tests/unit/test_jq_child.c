/* The child that runs jq: what it may not, what the parent makes of one that lies or is lost, and what is left behind: nothing. */
#include "lib_jq.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jq.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jq/jq_child.h"
#include "jq/jq_wire.h"

static struct arena arena;
static char folder[] = "/tmp/dlq-test-jq-XXXXXX";

/* ---- confinement ---- */

static void read_proc(int pid, const char *name, char *to, size_t room)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	size_t n = fread(to, 1, room - 1, f);
	to[n] = '\0';
	fclose(f);
}

static void expect_line(const char *text, const char *start, const char *rest)
{
	const char *p = strstr(text, start);
	if (!p)
		fail_msg("no \"%s\" in %s", start, text);
	p += strlen(start) + strspn(p + strlen(start), " \t");
	if (strncmp(p, rest, strlen(rest)) != 0)
		fail_msg("%s %.30s, not %s", start, p, rest);
}

static void test_confined(void **state)
{
	(void)state;
	char text[8192];
	struct jq *j = open_jq(JQ_WHERE, "true");
	read_proc(jq_pid(j), "status", text, sizeof text);
	expect_line(text, "NoNewPrivs:", "1\n");
	expect_line(text, "CapEff:", "0000000000000000\n");
	expect_line(text, "CapPrm:", "0000000000000000\n");
	if (!SANITIZED)
		expect_line(text, "Seccomp:", "2\n");
	read_proc(jq_pid(j), "limits", text, sizeof text);
	expect_line(text, "Max cpu time", "600 ");
	expect_line(text, "Max file size", "0 ");
	expect_line(text, "Max core file size", "0 ");
	if (!SANITIZED) {
		expect_line(text, "Max open files", "0 ");
		expect_line(text, "Max processes", "0 ");
		const char *space = strstr(text, "Max address space");
		assert_non_null(space);
		assert_in_range(strtoll(space + strlen("Max address space"), NULL, 10), 64 << 20, (64 << 20) + (256 << 20));
	}
	if (geteuid() == 0) { /* it is not dumpable: others may not look */
		char path[64];
		int n = 0;
		read_proc(jq_pid(j), "environ", text, sizeof text);
		assert_string_equal(text, "");
		snprintf(path, sizeof path, "/proc/%d/fd", jq_pid(j));
		DIR *d = opendir(path);
		assert_non_null(d);
		for (struct dirent *e; (e = readdir(d));)
			n += e->d_name[0] != '.';
		closedir(d);
		if (!SANITIZED)
			assert_int_equal(n, 3);
	}
	jq_close(j);
}

/* ---- what a program could reach if it were not confined ---- */

/* Past the parent, which would refuse such programs: the first answer of a child to this program. Its text in the arena. */
static struct jq_answer ask_child(const char *program, struct str *text)
{
	int pair[2];
	pid_t pid;
	char *argv[] = {(char *)(uintptr_t)"dlq", (char *)(uintptr_t)"jq-child", NULL}, *envp[] = {(char *)(uintptr_t)"SECRET=x", NULL};
	posix_spawn_file_actions_t files;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, pair[1], 0);
	posix_spawn_file_actions_adddup2(&files, pair[1], 1);
	assert_int_equal(posix_spawn(&pid, SELF, &files, NULL, argv, envp), 0);
	posix_spawn_file_actions_destroy(&files);
	close(pair[1]);
	struct jq_hello hello = {.magic = JQ_MAGIC, .kind = JQ_WHERE, .memory_bytes = 64 << 20, .item_ms = 10000, .compile_ms = 60000,
	                         .cpu_s = 60, .output_bytes = 1 << 20, .program_n = (uint32_t)strlen(program)};
	assert_int_equal(write(pair[0], &hello, sizeof hello), sizeof hello);
	assert_int_equal(write(pair[0], program, hello.program_n), hello.program_n);
	struct jq_answer answer = {0, 0};
	assert_int_equal(recv(pair[0], &answer, sizeof answer, MSG_WAITALL), sizeof answer);
	if (answer.kind == JQ_A_READY) {
		struct jq_ask ask = {0, 1};
		assert_int_equal(write(pair[0], &ask, sizeof ask), sizeof ask);
		assert_int_equal(write(pair[0], "1", 1), 1);
		assert_int_equal(recv(pair[0], &answer, sizeof answer, MSG_WAITALL), sizeof answer);
	}
	assert_in_range(answer.n, 0, 4000);
	char *p = arena_alloc(&arena, answer.n + 1);
	if (answer.n)
		assert_int_equal(recv(pair[0], p, answer.n, MSG_WAITALL), answer.n);
	*text = (struct str){p, answer.n};
	close(pair[0]);
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid); /* it ends when its parent hangs up; with a sanitizer that looks for leaks */
	assert_int_equal(status, 0);
	return answer;
}

/* The same program in a jq that nothing confines: whether it compiles. */
static bool compiles_here(const char *program)
{
	jq_state *jq = jq_init();
	jq_set_error_cb(jq, NULL, NULL);
	bool good = jq_compile(jq, program);
	jq_teardown(&jq);
	return good;
}

static void test_unreachable(void **state)
{
	(void)state;
	char path[200], program[500];
	struct str text;
	snprintf(path, sizeof path, "%s/secret.json", folder);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs("[1]", f);
	fclose(f);
	/* A module of data is how jq reads a file. */
	snprintf(program, sizeof program, "import \"secret\" as $s {search: \"%s\"}; $s", folder);
	assert_true(compiles_here(program));
	struct jq_answer a = ask_child(program, &text);
	if (SANITIZED) {
		assert_int_equal(a.kind, JQ_A_MATCH);
	} else {
		assert_int_equal(a.kind, JQ_A_COMPILE);
		assert_non_null(strstr(text.p, "secret"));
	}
	unlink(path);
	/* Nothing else comes in through jq: no environment (though this one was given some), no input but the item. */
	assert_int_equal(ask_child("env|length == 0", &text).kind, JQ_A_MATCH);
	assert_int_equal(ask_child("[inputs]|length == 0", &text).kind, JQ_A_MATCH);
	assert_int_equal(ask_child("get_search_list", &text).kind, JQ_A_NO_MATCH);
	assert_int_equal(ask_child("input_filename", &text).kind, JQ_A_NO_MATCH);
	arena_release(&arena);
}

/* ---- a child that is not what it should be ---- */

static void script(char *path, size_t room, const char *name, const char *lines)
{
	snprintf(path, room, "%s/%s", folder, name);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fprintf(f, "#!/bin/sh\n%s\n", lines);
	assert_int_equal(fchmod(fileno(f), 0700), 0);
	assert_int_equal(fclose(f), 0);
}

#define READY "printf '\\000\\000\\000\\000\\001\\000\\000\\000'\n"
#define LISTEN "head -c 64 >/dev/null\n" /* the hello (56 bytes) and a program of 4; of the item, something */

static void test_liar(void **state)
{
	(void)state;
	static const struct {
		const char *lines, *says;
		bool opens;
	} cases[] = {
	    {"printf 'garbage garbage garbage'; cat >/dev/null", "makes no sense", false},
	    {"printf '\\377\\377\\377\\177\\002\\000\\000\\000'; cat >/dev/null", "makes no sense", false}, /* a message of 2 GiB */
	    {READY LISTEN "printf 'unasked unasked unasked'; cat >/dev/null", "makes no sense", true},
	    {READY LISTEN "printf '\\000\\000\\000\\000\\003\\000\\000\\000'; cat >/dev/null", "makes no sense", true}, /* REFUSED, late */
	    {READY LISTEN "printf '\\001\\000\\000\\000\\005\\000\\000\\000a'; cat >/dev/null", "makes no sense", true}, /* MATCH with more */
	    {READY LISTEN "printf '\\377\\377\\377\\377\\007\\000\\000\\000'; cat >/dev/null", "makes no sense", true}, /* CHANGED, 4 GiB */
	    {READY LISTEN "printf '\\020\\000\\000\\000\\007\\000\\000\\000\\377\\377\\377\\377\\001\\000\\000\\000\\000\\000\\000\\000\\000\\000\\000\\000'; cat >/dev/null",
	     "makes no sense", true}, /* CHANGED, whose body is not there */
	    {READY LISTEN "printf '\\020\\000\\000\\000\\007\\000\\000\\000\\000\\000\\000\\000\\000\\000\\000\\000\\377\\377\\000\\000\\000\\000\\000\\000'; cat >/dev/null",
	     "makes no sense", true}, /* 65535 changes */
	    {READY LISTEN "printf '\\004\\000\\000\\000\\011\\000\\000\\000\\143\\000\\000\\000'; cat >/dev/null", "makes no sense", true}, /* a limit of another world */
	    {READY LISTEN "exit 3", "ended by itself with status 3", true},
	    {READY LISTEN "kill -11 $$", "ended by signal 11", true},
	    {READY LISTEN "printf '\\004\\000\\000'; exit 0", "status 0", true},
	};
	char path[200];
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct jq *j = NULL;
		struct dlq_err err = {0};
		int at;
		char name[16];
		snprintf(name, sizeof name, "%zu", i);
		script(path, sizeof path, name, cases[i].lines);
		struct jq_options o = {.program = path};
		enum dlq_code code = jq_open(&o, JQ_EDIT, STR(".a=1"), &j, &err);
		if (j) {
			assert_true(cases[i].opens);
			struct jq_item item = {.body = STR("{\"a\":2}")};
			code = jq_run(j, &item, 1, &arena, &at, &err);
			assert_true(jq_dead(j));
			assert_int_equal(at, 0);
		}
		if (code != DLQ_SYSTEM)
			fail_msg("%s: %s", cases[i].lines, err.detail);
		assert_says(&err, cases[i].says);
		jq_close(j);
		unlink(path);
		assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	}
	arena_release(&arena);
}

static void test_killed(void **state)
{
	(void)state;
	struct jq *j = open_jq(JQ_WHERE, ".body");
	struct jq_item item = {.body = STR("1")};
	struct dlq_err err = {0};
	int at;
	run_ok(j, &item, 1, &arena);
	assert_int_equal(kill(jq_pid(j), SIGTERM), 0); /* that it ignores: it lives as long as its parent wants */
	assert_int_equal(kill(jq_pid(j), SIGINT), 0);
	run_ok(j, &item, 1, &arena);
	int fd = pidfd_open(jq_pid(j), 0);
	assert_int_equal(kill(jq_pid(j), SIGKILL), 0);
	struct pollfd p = {.fd = fd, .events = POLLIN};
	assert_int_equal(poll(&p, 1, 10000), 1);
	close(fd);
	assert_int_equal(jq_run(j, &item, 1, &arena, &at, &err), DLQ_SYSTEM); /* and no SIGPIPE */
	assert_says(&err, "signal 9");
	jq_close(j);
	arena_release(&arena);
}

/* ---- what is left behind ---- */

static int open_files(void)
{
	int n = 0;
	DIR *d = opendir("/proc/self/fd");
	for (struct dirent *e; (e = readdir(d));)
		n++;
	closedir(d);
	return n;
}

static void test_nothing_left(void **state)
{
	(void)state;
	int before = open_files(), rounds = SANITIZED ? 20 : 200;
	struct dlq_err err = {0};
	for (int i = 0; i < rounds; i++) {
		struct jq *j = open_jq(i % 2 ? JQ_EDIT : JQ_WHERE, ".");
		struct jq_item item = {.body = STR("1")};
		if (i % 3 == 0)
			run_ok(j, &item, 1, &arena);
		jq_close(j);
		if (i % 10 == 0)
			assert_int_equal(jq_open(&jq_usual, JQ_EDIT, STR(".a +"), &j, &err), DLQ_BAD_REQUEST);
	}
	assert_int_equal(open_files(), before);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
	arena_release(&arena);
}

/* The child ends with its parent, also when that is killed and the child is in the middle of something long. */
static void test_orphan(void **state)
{
	(void)state;
	int channel[2], pid;
	assert_int_equal(pipe(channel), 0);
	pid_t parent = fork();
	assert_true(parent >= 0);
	if (parent == 0) {
		struct jq_options o = {.program = SELF, .item_ms = 600000};
		struct jq *j = NULL;
		int at;
		if (jq_open(&o, JQ_WHERE, STR("last(range(1e12))"), &j, NULL) != DLQ_OK)
			_exit(1);
		pid = jq_pid(j);
		if (write(channel[1], &pid, sizeof pid) != sizeof pid)
			_exit(1);
		struct jq_item item = {.body = STR("1")};
		enum dlq_code code = jq_run(j, &item, 1, &arena, &at, NULL);
		_exit(code == DLQ_OK ? 2 : 3);
	}
	assert_int_equal(read(channel[0], &pid, sizeof pid), sizeof pid);
	int fd = pidfd_open(pid, 0);
	assert_true(fd >= 0);
	struct pollfd p = {.fd = fd, .events = POLLIN};
	assert_int_equal(poll(&p, 1, 0), 0); /* it lives */
	kill(parent, SIGKILL);
	waitpid(parent, NULL, 0);
#ifdef __SANITIZE_THREAD__ /* it keeps signals back while libjq runs, which it does not know */
	kill(pid, SIGKILL);
#endif
	assert_int_equal(poll(&p, 1, 10000), 1);
	close(fd);
	close(channel[0]);
	close(channel[1]);
}

/* ---- threads and signals ---- */

static void *run_in_thread(void *arg)
{
	struct arena a = {0};
	intptr_t good = 1;
	for (int round = 0; round < 5; round++) {
		struct jq *j = NULL;
		struct jq_item items[50];
		int at;
		if (jq_open(&jq_usual, JQ_EDIT, STR(".a += 1"), &j, NULL) != DLQ_OK)
			return NULL;
		for (int i = 0; i < 50; i++)
			items[i] = (struct jq_item){.body = STR("{\"a\":1.0,\"b\":1.0}")};
		if (jq_run(j, items, 50, &a, &at, NULL) != DLQ_OK)
			good = 0;
		for (int i = 0; i < 50; i++)
			good = good && str_eqz(items[i].new_body, "{\"a\":2,\"b\":1.0}");
		jq_close(j);
	}
	arena_release(&a);
	(void)arg;
	return (void *)good;
}

static void *open_in_thread(void *arg)
{
	(void)arg;
	struct jq *j = NULL;
	return jq_open(&jq_usual, JQ_WHERE, STR(".body"), &j, NULL) == DLQ_OK ? j : NULL;
}

static void test_threads(void **state)
{
	(void)state;
	pthread_t t[4];
	void *result;
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&t[i], NULL, run_in_thread, NULL), 0);
	for (int i = 0; i < 4; i++) {
		pthread_join(t[i], &result);
		assert_non_null(result);
	}
	/* The thread that opened it is gone; the child is not. */
	assert_int_equal(pthread_create(&t[0], NULL, open_in_thread, NULL), 0);
	pthread_join(t[0], &result);
	assert_non_null(result);
	struct jq_item item = {.body = STR("1")};
	run_ok(result, &item, 1, &arena);
	assert_int_equal(item.verdict, JQ_MATCH);
	jq_close(result);
	arena_release(&arena);
}

static volatile sig_atomic_t alarms;

static void on_alarm(int sig)
{
	(void)sig;
	alarms++;
}

static void test_interrupted(void **state)
{
	(void)state;
	struct sigaction sa = {.sa_handler = on_alarm}, old; /* no SA_RESTART */
	struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
	enum { N = 500 };
	static struct jq_item items[N];
	sigaction(SIGALRM, &sa, &old);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int round = 0; round < 10; round++) {
		struct jq *j = open_jq(JQ_WHERE, ".body.a == 1 and ([range(200)]|length) == 200");
		for (int i = 0; i < N; i++)
			items[i] = (struct jq_item){.body = i % 2 ? STR("{\"a\":1}") : STR("{\"a\":2}")};
		run_ok(j, items, N, &arena);
		for (int i = 0; i < N; i++)
			assert_int_equal(items[i].verdict, i % 2 ? JQ_MATCH : JQ_NO_MATCH);
		jq_close(j);
	}
	setitimer(ITIMER_REAL, &never, NULL);
	sigaction(SIGALRM, &old, NULL);
	assert_true(alarms > 0);
	arena_release(&arena);
}

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	(void)state;
	return rmdir(folder);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_confined),     cmocka_unit_test(test_unreachable), cmocka_unit_test(test_liar),    cmocka_unit_test(test_killed),
	    cmocka_unit_test(test_nothing_left), cmocka_unit_test(test_orphan),      cmocka_unit_test(test_threads), cmocka_unit_test(test_interrupted),
	};
	if (argc == 2 && strcmp(argv[1], "jq-child") == 0)
		return jq_child_main();
	return cmocka_run_group_tests_name("jq_child", tests, make_folder, remove_folder);
}
