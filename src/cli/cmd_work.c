/*
 * cmd_work.c - a pull worker that runs a command per message.
 *
 * One thread per slot, each with its own client: receive one message, run the command, settle. The main thread waits
 * for signals. `stopping` is set by it and read by the slots; after a second signal kill_fd is readable for every slot.
 *
 * A slot waits for messages in short long-polls that are never broken off: a message handed out to a connection that is
 * gone would cost an attempt.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/client.h"
#include "cli/runner.h"
#include "cli/term.h"

#define POLL_WAIT "1s"
#define SLOTS_MAX 256

extern char **environ;

struct worker {
	struct cli *c;
	struct client *client;           /* cloned by the slots */
	char *receive, *settle, *extend; /* paths */
	const char *name;
	char visibility[32];
	int64_t visibility_ms, timeout_ms;
	bool until_empty;
	atomic_bool stopping;
	atomic_int running; /* slots */
	atomic_long done, failed, released;
	int kill_fd, ended_fd;
	pthread_mutex_t lock; /* fatal, and output lines */
	struct dlq_err fatal; /* code != OK: the worker cannot go on */
};

struct slot {
	struct worker *w;
	struct client *cl;
	pthread_t thread;
	const char *receipt; /* of the message being worked */
	bool lost;           /* its lease is gone */
};

static void fatal(struct worker *w, const struct dlq_err *err)
{
	pthread_mutex_lock(&w->lock);
	if (!w->fatal.code)
		w->fatal = *err;
	pthread_mutex_unlock(&w->lock);
	atomic_store(&w->stopping, true);
}

/* Waits, but not past the second signal. */
static void pause_ms(struct worker *w, int ms)
{
	struct pollfd p = {.fd = w->kill_fd, .events = POLLIN};

	poll(&p, 1, ms);
}

/* ---- what the command gets ---- */

static void env_add(struct arena *a, char **env, int *n, const char *name, const char *value)
{
	env[(*n)++] = (char *)arena_fmt(a, "%s=%s", name, value).p;
}

/* Our own variables, without those of a worker around us, and the facts of the message. */
static char **environment(struct arena *a, const struct worker *w, const json_t *d)
{
	static const char *const mine[] = {"DLQ_ID=",       "DLQ_QUEUE=",        "DLQ_ATTEMPT=", "DLQ_KEY=",
					   "DLQ_REDRIVES=", "DLQ_CONTENT_TYPE=", "DLQ_HEADER_"};
	const json_t *headers = json_object_get(d, "headers");
	size_t room = json_object_size(headers) + 16;
	const char *key;
	json_t *value;
	char number[24];
	int n = 0;

	for (char **e = environ; *e; e++)
		room++;
	char **env = arena_alloc(a, room * sizeof(*env));
	for (char **e = environ; *e; e++) {
		bool drop = false;

		for (size_t i = 0; i < ARRAY_LEN(mine); i++)
			drop = drop || !strncmp(*e, mine[i], strlen(mine[i]));
		if (!drop)
			env[n++] = *e;
	}
	env_add(a, env, &n, "DLQ_ID", jstr(d, "id"));
	env_add(a, env, &n, "DLQ_QUEUE", w->c->args[0]);
	snprintf(number, sizeof(number), "%lld", (long long)jint(d, "attempts") + 1);
	env_add(a, env, &n, "DLQ_ATTEMPT", number);
	snprintf(number, sizeof(number), "%lld", (long long)jint(d, "redrives"));
	env_add(a, env, &n, "DLQ_REDRIVES", number);
	if (*jstr(d, "key"))
		env_add(a, env, &n, "DLQ_KEY", jstr(d, "key"));
	if (*jstr(d, "content_type"))
		env_add(a, env, &n, "DLQ_CONTENT_TYPE", jstr(d, "content_type"));
	json_object_foreach((json_t *)headers, key, value) {
		char name[300];
		size_t len = (size_t)snprintf(name, sizeof(name), "DLQ_HEADER_%s", key);

		for (size_t i = 0; i < len && i < sizeof(name) - 1; i++)
			name[i] = name[i] >= 'a' && name[i] <= 'z' ? (char)(name[i] - 32)
				  : (name[i] >= 'A' && name[i] <= 'Z') || (name[i] >= '0' && name[i] <= '9') ? name[i]
													     : '_';
		env_add(a, env, &n, name, json_string_value(value) ? json_string_value(value) : "");
	}
	env[n] = NULL;
	return env;
}

/* ---- what the server gets ---- */

/* The last line with text in it, as the message; all of the tail as the detail. */
static json_t *error_of(const struct run *r)
{
	char type[40], fallback[80];
	struct buf text = {0};
	json_t *error = json_object();

	if (r->end == RUN_TIMEOUT)
		snprintf(type, sizeof(type), "timeout");
	else if (r->end == RUN_SIGNAL)
		snprintf(type, sizeof(type), "signal %s", sigabbrev_np(r->status) ? sigabbrev_np(r->status) : "?");
	else if (r->end == RUN_NOT_STARTED)
		snprintf(type, sizeof(type), "not started");
	else
		snprintf(type, sizeof(type), "exit %d", r->status);
	json_object_set_new(error, "type", json_string(type));
	if (r->end == RUN_EXIT)
		json_object_set_new(error, "exit_code", json_integer(r->status));
	/* JSON wants text: whatever else came is escaped. */
	text_safe_buf((struct str){r->tail, r->tail_n}, true, &text);
	struct str last = str_trim(buf_str(&text));
	const char *line = last.n ? memrchr(last.p, '\n', last.n) : NULL;
	if (line)
		last = str_trim((struct str){line + 1, last.n - (size_t)(line + 1 - last.p)});
	snprintf(fallback, sizeof(fallback),
		 r->end == RUN_NOT_STARTED ? "the command could not be started: %s"
					   : "the command said nothing on stderr",
		 strerror(r->status));
	json_object_set_new(error, "message", last.n ? json_stringn(last.p, last.n) : json_string(fallback));
	if (text.n)
		json_object_set_new(error, "detail", json_stringn(text.p, text.n));
	buf_release(&text);
	return error;
}

static const char *outcome_of(const struct run *r)
{
	if (r->end == RUN_STOPPED)
		return "release";
	if (r->end != RUN_EXIT)
		return "transient";
	switch (r->status) {
	case 0:
		return "ok";
	case 65: /* EX_DATAERR */
	case 100:
		return "permanent";
	default: /* 75 EX_TEMPFAIL, 111 and all that nobody thought of */
		return "transient";
	}
}

static void report(struct slot *s, const json_t *d, const char *outcome, const json_t *error, const json_t *result)
{
	struct worker *w = s->w;
	char safe[500];

	if (!strcmp(outcome, "ok"))
		atomic_fetch_add(&w->done, 1);
	else if (!strcmp(outcome, "release"))
		atomic_fetch_add(&w->released, 1);
	else
		atomic_fetch_add(&w->failed, 1);
	pthread_mutex_lock(&w->lock);
	if (w->c->json) {
		json_t *line = json_pack("{s:s, s:s, s:s, s:O*, s:s*}", "id", jstr(d, "id"), "outcome", outcome,
					 "result", jstr(result, "result"), "error", error, "dlq_id",
					 *jstr(result, "dlq_id") ? jstr(result, "dlq_id") : NULL);

		json_line(line);
		fflush(stdout);
		json_decref(line);
	} else if (strcmp(outcome, "ok")) {
		fprintf(stderr, "dlq work: %s: %s, %s: %s%s%s\n", jstr(d, "id"), outcome,
			error ? jstr(error, "type") : "stopped",
			text_safe(str_of(error ? jstr(error, "message") : ""), safe, sizeof(safe)),
			!strcmp(jstr(result, "result"), "dead") ? "; dead letter " : "", jstr(result, "dlq_id"));
	}
	pthread_mutex_unlock(&w->lock);
}

/* Tries until the lease must be over: a settle that does not arrive costs the message another run. */
static void settle(struct slot *s, const json_t *d, const char *outcome, json_t *error)
{
	struct worker *w = s->w;
	struct timespec ts;
	int pause = 100;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	int64_t deadline = (int64_t)ts.tv_sec * 1000 + w->visibility_ms;
	for (;;) {
		struct dlq_err err = {0};
		json_t *r = json_pack("{s:s, s:s, s:O*}", "receipt", jstr(d, "receipt"), "outcome", outcome, "error",
				      error);
		json_t *answer = client_json(s->cl, "POST", w->settle,
					     json_pack("{s:s, s:s*, s:[o]}", "worker", w->name, "worker_version",
						       cli_opt(w->c, "worker-version"), "results", r), &err);

		if (answer) {
			json_t *result = json_array_get(json_object_get(answer, "results"), 0);

			if (!strcmp(jstr(result, "result"), "gone"))
				fprintf(stderr, "dlq work: %s: the lease was over before it was settled as %s\n",
					jstr(d, "id"), outcome);
			report(s, d, outcome, error, result);
			json_decref(answer);
			break;
		}
		clock_gettime(CLOCK_MONOTONIC, &ts);
		if (!code_retriable(err.code) || (int64_t)ts.tv_sec * 1000 > deadline) {
			fprintf(stderr, "dlq work: %s: cannot settle as %s: %s\n", jstr(d, "id"), outcome, err.detail);
			break;
		}
		pause_ms(w, pause);
		pause = pause < 2000 ? pause * 2 : 2000;
	}
	json_decref(error);
}

/* Tick of a running command: false when another worker has the message by now. */
static bool extend(void *arg)
{
	struct slot *s = arg;
	struct dlq_err err = {0};
	json_t *body = json_pack("{s:s, s:s}", "receipt", s->receipt, "visibility_timeout", s->w->visibility);
	json_t *answer = client_json(s->cl, "POST", s->w->extend, body, &err);

	json_decref(answer);
	s->lost = !answer && err.code == DLQ_GONE;
	return !s->lost;
}

/* ---- one message ---- */

static void work_one(struct slot *s, const json_t *d)
{
	struct worker *w = s->w;
	struct arena a = {0};
	struct buf decoded = {0};
	const json_t *text = json_object_get(d, "body");
	struct run *r = mem_alloc(sizeof(*r));

	if (!text)
		base64_decode(str_of(jstr(d, "body_base64")), &decoded);
	s->receipt = jstr(d, "receipt");
	s->lost = false;
	r->argv = w->c->tail;
	r->envp = environment(&a, w, d);
	r->body = text ? (struct str){json_string_value(text), json_string_length(text)} : buf_str(&decoded);
	r->timeout_ms = w->timeout_ms;
	r->stop_fd = w->kill_fd;
	r->tick_ms = w->visibility_ms / 2;
	r->tick = extend;
	r->arg = s;
	run_command(r);
	if (s->lost) {
		fprintf(stderr, "dlq work: %s: the lease is gone, the command was ended\n", jstr(d, "id"));
	} else if (r->end == RUN_NOT_STARTED && r->status != E2BIG) {
		struct dlq_err err = {0};

		err_set(&err, r->status == ENOENT ? DLQ_NOT_FOUND : DLQ_SYSTEM,
			"cannot start %s: %s; the message was given back", w->c->tail[0], strerror(r->status));
		fatal(w, &err);
		settle(s, d, "release", NULL);
	} else {
		const char *outcome = outcome_of(r);

		settle(s, d, outcome, !strcmp(outcome, "ok") || !strcmp(outcome, "release") ? NULL : error_of(r));
	}
	mem_free(r);
	buf_release(&decoded);
	arena_release(&a);
}

/* Whether the slot goes on. */
static bool slot_step(struct slot *s, int *pause)
{
	struct worker *w = s->w;
	struct dlq_err err = {0};
	json_t *ask = json_pack("{s:i, s:s, s:s, s:s, s:s*}", "max", 1, "wait", w->until_empty ? "0s" : POLL_WAIT,
				"visibility_timeout", w->visibility, "worker", w->name, "worker_version",
				cli_opt(w->c, "worker-version"));
	json_t *answer = client_json(s->cl, "POST", w->receive, ask, &err);

	if (!answer) {
		if (!code_retriable(err.code)) {
			fatal(w, &err);
			return false;
		}
		if (*pause == 0)
			fprintf(stderr, "dlq work: %s; trying again\n", err.detail);
		*pause = *pause ? (*pause < 5000 ? *pause * 2 : 5000) : 100;
		pause_ms(w, *pause);
		return true;
	}
	*pause = 0;
	json_t *d = json_array_get(json_object_get(answer, "deliveries"), 0);
	if (d)
		work_one(s, d);
	json_decref(answer);
	return d || !w->until_empty;
}

static void *slot_main(void *arg)
{
	struct slot *s = arg;
	uint64_t one = 1;
	int pause = 0;

	while (!atomic_load(&s->w->stopping) && slot_step(s, &pause))
		;
	if (atomic_fetch_sub(&s->w->running, 1) == 1 && write(s->w->ended_fd, &one, sizeof(one)) < 0)
		ASSERT(!"eventfd");
	return NULL;
}

/* ---- the whole ---- */

/* Waits for signals until every slot has ended. */
static void supervise(struct worker *w, int signals)
{
	struct pollfd p[2] = {{.fd = signals, .events = POLLIN}, {.fd = w->ended_fd, .events = POLLIN}};
	struct signalfd_siginfo info;
	uint64_t one = 1;

	for (int got = 0;;) {
		if (poll(p, 2, -1) < 0 && errno != EINTR)
			return;
		if (p[1].revents)
			return;
		if (!p[0].revents || read(signals, &info, sizeof(info)) != (ssize_t)sizeof(info))
			continue;
		if (!got++) {
			atomic_store(&w->stopping, true);
			fprintf(stderr,
				"dlq work: no new messages; waiting for the running ones, a second signal ends them\n");
		} else if (write(w->kill_fd, &one, sizeof(one)) < 0) {
			return;
		}
	}
}

static enum dlq_code find_visibility(struct worker *w, const char *queue, struct dlq_err *err)
{
	json_t *q;

	if (!w->visibility_ms) {
		q = client_get(w->client, err, "/v1/queues/%s", queue);
		if (!q)
			return err->code;
		const char *text = jstr(json_object_get(json_object_get(q, "config"), "policy"), "visibility_timeout");
		if (!duration_parse(str_of(text), &w->visibility_ms) || w->visibility_ms < 1000)
			w->visibility_ms = 30000;
		json_decref(q);
	}
	duration_format(w->visibility_ms, w->visibility);
	return DLQ_OK;
}

static int work(struct worker *w, int64_t slots)
{
	struct slot *list = mem_array((size_t)slots, sizeof(*list));
	sigset_t set;
	int rc = 0;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	int signals = signalfd(-1, &set, SFD_CLOEXEC);
	w->kill_fd = eventfd(0, EFD_CLOEXEC);
	w->ended_fd = eventfd(0, EFD_CLOEXEC);
	ASSERT(signals >= 0 && w->kill_fd >= 0 && w->ended_fd >= 0);
	pthread_mutex_init(&w->lock, NULL);
	atomic_store(&w->running, (int)slots);
	for (int i = 0; i < slots; i++) {
		list[i] = (struct slot){.w = w, .cl = client_clone(w->client)};
		if (pthread_create(&list[i].thread, NULL, slot_main, &list[i])) {
			fprintf(stderr, "dlq work: cannot start a thread\n");
			exit(code_exit(DLQ_SYSTEM));
		}
	}
	if (!w->c->json)
		fprintf(stderr, "dlq work: %s works %s\n", w->name, w->c->args[0]);
	supervise(w, signals);
	for (int i = 0; i < slots; i++) {
		pthread_join(list[i].thread, NULL);
		client_free(list[i].cl);
	}
	if (!w->c->json)
		fprintf(stderr, "dlq work: %ld done, %ld failed, %ld given back\n", atomic_load(&w->done),
			atomic_load(&w->failed), atomic_load(&w->released));
	if (w->fatal.code)
		rc = cli_fail(&w->fatal);
	close(signals);
	close(w->kill_fd);
	close(w->ended_fd);
	mem_free(list);
	return rc;
}

static char *path_of(const char *queue, const char *verb)
{
	struct buf b = {0};

	buf_addf(&b, "/v1/queues/%s%s", queue, verb);
	return buf_take(&b, NULL);
}

static int run(struct cli *c)
{
	struct worker w = {.c = c, .until_empty = cli_flag(c, "until-empty")};
	struct buf queue = {0};
	struct dlq_err err = {0};
	char host[HOST_NAME_MAX + 1] = "?", name[128];
	int64_t slots;
	int rc;

	if (c->n_args != 1)
		return cli_usage(c, c->n_args ? "one queue, and the command after --" : "which queue?");
	if (!c->n_tail)
		return cli_usage(c, "which command? It comes after --, as in: dlq work %s -- ./handle", c->args[0]);
	if (!cli_opt_int(c, "concurrency", 1, SLOTS_MAX, 1, &slots) ||
	    !cli_opt_duration(c, "timeout", 0, &w.timeout_ms) ||
	    !cli_opt_duration(c, "visibility-timeout", 0, &w.visibility_ms))
		return EXIT_USAGE;
	if (cli_opt(c, "visibility-timeout") && (w.visibility_ms < 1000 || w.visibility_ms > 43200000))
		return cli_usage(c, "--visibility-timeout: 1s to 12h is wanted");
	gethostname(host, sizeof(host) - 1);
	snprintf(name, sizeof(name), "%.64s-%d", host, (int)getpid());
	w.name = cli_opt(c, "worker") ? cli_opt(c, "worker") : name;
	w.client = client_open(c, &rc);
	if (!w.client)
		return rc;
	url_escape(&queue, c->args[0]);
	buf_addc(&queue, 0);
	w.receive = path_of(queue.p, "/receive");
	w.settle = path_of(queue.p, "/settle");
	w.extend = path_of(queue.p, "/extend");
	rc = find_visibility(&w, queue.p, &err) ? cli_fail(&err) : work(&w, slots);
	mem_free(w.receive);
	mem_free(w.settle);
	mem_free(w.extend);
	buf_release(&queue);
	client_free(w.client);
	return rc;
}

static const struct cli_option options[] = {
	{"concurrency", "N", "commands at once, default 1, at most 256"},
	{"worker", "NAME", "name of this worker in the history, default HOST-PID"},
	{"worker-version", "TEXT", "version of what COMMAND is, so that a bad deploy can be told from bad messages"},
	{"timeout", "DURATION", "end a command that runs longer (SIGTERM, 2 s later SIGKILL, with all it started)"},
	{"visibility-timeout", "DURATION", "length of a lease, default the queue's; extended while the command runs"},
	{"until-empty", NULL, "end when no message is due, instead of waiting for more"},
	{0},
};

const struct command cmd_work = {
	.name = "work",
	.synopsis = "QUEUE [OPTIONS] -- COMMAND [ARGUMENT]...",
	.summary = "run a command for each message of a queue",
	.about = "The body is on stdin; the facts are in the environment: DLQ_ID, DLQ_QUEUE, DLQ_ATTEMPT\n"
		 "(1 at the first run), DLQ_KEY, DLQ_REDRIVES, DLQ_CONTENT_TYPE and DLQ_HEADER_NAME for\n"
		 "each header.\n"
		 "\n"
		 "The exit code of the command is the outcome: 0 done; 65 and 100 permanent, the message\n"
		 "is dead at once; 75, 111 and every other one transient, it is tried again later; so are\n"
		 "a signal and --timeout. The last line of stderr is the error, the last 4 KiB of it the\n"
		 "detail. The queue's classify rules may decide otherwise by exit_code or message.\n"
		 "\n"
		 "SIGTERM or SIGINT: takes no new message and waits for the running commands. A second one\n"
		 "ends them; their messages are given back and that costs no attempt. A command that\n"
		 "cannot be started at all ends the worker (exit code 3 when there is no such file), and\n"
		 "its message is given back.",
	.examples =
		"dlq work orders -- ./handle-order # one at a time\n"
		"dlq work thumbnails --concurrency 8 --timeout 1m -- sh -c 'convert - -resize 200x thumb-$DLQ_ID.jpg'\n"
		"dlq work orders --until-empty -- ./handle-order # from cron",
	.options = options,
	.client = true,
	.tail = true,
	.run = run,
};
