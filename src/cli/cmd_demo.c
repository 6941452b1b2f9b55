/* cmd_demo.c - the incident, played: orders that fail, die with their evidence, are put back once the worker is fixed.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/demo.h"
#include "cli/redrive.h"
#include "cli/show.h"
#include "cli/term.h"

#define PLAY_SECONDS 13 /* of pretended work, without --fast */
#define DEADLINE_MS (300 * 1000)

extern char **environ;

static atomic_bool interrupted;

static void on_signal(int sig)
{
	(void)sig;
	atomic_store(&interrupted, true);
}

static void pause_ms(int ms)
{
	struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

	nanosleep(&t, NULL); /* an interrupt ends it early */
}

/* ---- a server of its own ---- */

struct standalone {
	char dir[64]; /* "" : none */
	pid_t pid;
};

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

static void standalone_stop(struct standalone *s)
{
	if (s->pid > 0) {
		kill(s->pid, SIGTERM);
		while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	if (s->dir[0])
		nftw(s->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Runs `dlq serve` on a free port and a temporary folder; url has room for 200 bytes. */
static enum dlq_code standalone_start(struct standalone *s, char *url, struct dlq_err *err)
{
	char self[PATH_MAX], line[300] = "";
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	int out[2];

	snprintf(s->dir, sizeof(s->dir), "/tmp/dlq-demo-XXXXXX");
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (n < 0 || !mkdtemp(s->dir) || pipe2(out, O_CLOEXEC)) {
		enum dlq_code code = err_set(err, DLQ_SYSTEM, "cannot make a folder for the demo: %s", strerror(errno));

		s->dir[0] = 0;
		return code;
	}
	self[n] = 0;
	const char *argv[] = {self, "serve", "--data", s->dir, "--listen", "127.0.0.1:0", "--log-level", "error", NULL};
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, out[1], STDOUT_FILENO);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP); /* Ctrl-C is for us; we end it */
	posix_spawnattr_setpgroup(&attr, 0);
	int rc = posix_spawn(&s->pid, self, &files, &attr, (char **)argv, environ);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attr);
	close(out[1]);
	FILE *in = fdopen(out[0], "r");
	if (rc || !in || !fgets(line, sizeof(line), in) || sscanf(line, "listening on %199s", url) != 1)
		rc = rc ? rc : ECHILD;
	if (in)
		fclose(in);
	if (rc)
		return err_set(err, DLQ_SYSTEM, "the server for the demo did not start");
	return DLQ_OK;
}

static struct client *standalone_client(struct standalone *s, int *rc)
{
	struct dlq_err err = {0};
	struct buf token = {0};
	char url[200], path[100];
	struct client *cl = NULL;

	if (standalone_start(s, url, &err)) {
		*rc = cli_fail(&err);
		return NULL;
	}
	snprintf(path, sizeof(path), "%s/admin.token", s->dir);
	if (cli_read_file(path, &token, &err)) {
		*rc = cli_fail(&err);
	} else {
		char *text = mem_strdup(str_trim(buf_str(&token)));

		cl = client_new(url, text);
		mem_free(text);
	}
	buf_release(&token);
	return cl;
}

/* ---- the stage ---- */

bool demo_counts(struct demo *d, struct demo_counts *out, struct dlq_err *err)
{
	json_t *q = client_get(d->client, err, "/v1/queues/%s", d->queue);
	const json_t *now = json_object_get(q, "counts"), *all = json_object_get(q, "totals");

	*out = (struct demo_counts){
		.ready = jint(now, "ready"),
		.retrying = jint(now, "retrying"),
		.leased = jint(now, "leased"),
		.dead = jint(now, "dead"),
		.redriving = jint(now, "redriving"),
		.sent = jint(all, "sent") - d->base_sent,
		.done = jint(all, "done") - d->base_done,
		.died = jint(all, "died") - d->base_dead,
		.redriven = jint(all, "redriven") - d->base_redriven,
		.failed_attempts = jint(all, "failed_attempts"),
	};
	json_decref(q);
	return q != NULL;
}

/* The queue, empty and with the demo's settings; somebody's own queue is left alone. */
static enum dlq_code prepare(struct demo *d, struct dlq_err *err)
{
	struct demo_counts n;
	char path[200];

	if (demo_counts(d, &n, err)) {
		if (n.ready || n.leased || n.dead || n.redriving)
			return err_set(err, DLQ_CONFLICT,
				       "queue %s has messages of its own; take another with --queue NAME, or play on a "
				       "server of its own with --standalone",
				       d->queue);
		d->base_sent = n.sent;
		d->base_done = n.done;
		d->base_dead = n.died;
		d->base_redriven = n.redriven;
	} else if (err->code != DLQ_NOT_FOUND) {
		return err->code;
	}
	*err = (struct dlq_err){0};
	snprintf(path, sizeof(path), "/v1/queues/%s", d->queue);
	json_t *q = client_json(d->client, "PUT", path,
				json_pack("{s:{s:i, s:[s, s]}}", "policy", "max_attempts", 3, "backoff", "500ms", "1s"),
				err);
	json_decref(q);
	return q ? DLQ_OK : err->code;
}

/* Draws until enough() holds. */
static enum dlq_code watch(struct demo *d, const char *phase,
			   bool (*enough)(const struct demo *d, const struct demo_counts *n), struct dlq_err *err)
{
	int64_t deadline = demo_now_ms() + DEADLINE_MS;
	struct demo_counts n;

	for (;;) {
		if (atomic_load(&d->failed)) {
			*err = d->err;
			return err->code;
		}
		if (!demo_counts(d, &n, err))
			return err->code;
		bool done = enough(d, &n);
		demo_draw(d, &n, phase, done);
		if (done)
			return DLQ_OK;
		if (atomic_load(&interrupted))
			return err_set(err, DLQ_TIMEOUT, "interrupted; the queue %s stays as it is", d->queue);
		if (demo_now_ms() > deadline)
			return err_set(err, DLQ_TIMEOUT, "the demo did not get there in time: %lld done, %lld dead",
				       (long long)n.done, (long long)n.dead);
		pause_ms(100);
	}
}

static bool all_settled(const struct demo *d, const struct demo_counts *n)
{
	return n->sent == d->orders && n->done == d->orders - d->bad && n->dead == d->bad;
}

static bool all_done(const struct demo *d, const struct demo_counts *n)
{
	return n->done == d->orders && !n->dead && !n->leased && !n->ready;
}

/* ---- the acts ---- */

static enum dlq_code on_call(struct demo *d, struct dlq_err *err)
{
	char n[32];
	json_t *page = client_get(d->client, err, "/v1/dead-letters?queue=%s&error_type=EncodeError&limit=1", d->queue),
	       *one = NULL;

	if (page)
		one = client_get(d->client, err, "/v1/dead-letters/%s",
				 jstr(json_array_get(json_object_get(page, "items"), 0), "dlq_id"));
	json_decref(page);
	if (!one)
		return err->code;
	demo_say("What the person on call sees: %s dead letters, one cause. The other orders went through.",
		 count_format(d->bad, n));
	printf("\n  %s$ dlq show %s%s\n\n", term_dim(), jstr(one, "dlq_id"), term_reset());
	printf("  message %s of queue %s, reason %s after %lld attempts\n", jstr(one, "id"), jstr(one, "queue"),
	       jstr(one, "reason"), (long long)jint(one, "attempts"));
	show_history(one);
	fflush(stdout);
	json_decref(one);
	return DLQ_OK;
}

static enum dlq_code put_back(struct demo *d, struct dlq_err *err)
{
	static const char reason[] = "label worker 2.4.1 decodes SKUs before it encodes them";
	json_t *r;

	demo_say("The worker is fixed. One redrive puts all of them back:");
	printf("\n  %s$ dlq redrive --queue %s --reason '%s'%s\n\n", term_dim(), d->queue, reason, term_reset());
	fflush(stdout);
	atomic_store(&d->fixed, true);
	r = client_json(d->client, "POST", "/v1/redrives", json_pack("{s:s, s:s}", "queue", d->queue, "reason", reason),
			err);
	if (r)
		r = redrive_wait(d->client, r, false, err);
	json_decref(r);
	return r ? watch(d, "the fixed worker at work", all_done, err) : err->code;
}

static bool check(bool ok, const char *fmt, ...) PRINTF_LIKE(2, 3);
static bool check(bool ok, const char *fmt, ...)
{
	va_list ap;

	printf("  %s%s%s ", ok ? term_green() : term_red(), ok ? "\u2714" : "\u2718", term_reset());
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	return ok;
}

/* Server's account and the workers' own; true when both balance. */
static bool account(struct demo *d, const struct demo_counts *n)
{
	char a[32], b[32];
	int once = 0;
	bool ok = true;

	for (int i = 1; i <= d->orders; i++)
		once += atomic_load(&d->done[i]) == 1;
	demo_say("The account");
	printf("\n");
	ok &= check(n->sent == d->orders && n->done == d->orders, "%s sent = %s done", count_format(n->sent, a),
		    count_format(n->done, b));
	ok &= check(n->died == d->bad && n->redriven == d->bad, "%s died = %s redriven, each with its 3 attempts kept",
		    count_format(n->died, a), count_format(n->redriven, b));
	ok &= check(!n->dead && !n->ready && !n->leased && !n->redriving,
		    "nothing waits, nothing is dead, nothing got lost");
	ok &= check(once == d->orders, "%s of %s orders were worked successfully exactly once", count_format(once, a),
		    count_format(d->orders, b));
	return ok;
}

static void next_steps(const struct demo *d, bool standalone)
{
	demo_say("What to type next");
	printf("\n");
	if (standalone)
		printf("  dlq serve                           start a server that stays, then in another terminal:\n"
		       "  dlq send orders '{\"order\": 1}'      after: dlq queues create orders\n"
		       "  dlq work orders -- ./your-worker    run your own program for each message\n");
	else
		printf("  dlq list %s --state any         every one of them, and what became of it\n"
		       "  dlq redrives                        the redrive, by whom and why\n"
		       "  dlq audit                           who changed what\n"
		       "  dlq work %s -- ./your-worker    run your own program for each message\n",
		       d->queue, d->queue);
	printf("  dlq help                            all commands\n\n");
}

static int play(struct demo *d, bool standalone)
{
	pthread_t threads[DEMO_WORKERS + 1];
	struct demo_counts n = {0};
	struct dlq_err err = {0};
	int running = 0, rc = 0;

	if (prepare(d, &err))
		return cli_fail(&err);
	if (!d->c->json)
		demo_title(d);
	d->started_ms = demo_now_ms();
	for (; running <= DEMO_WORKERS; running++)
		if (pthread_create(&threads[running], NULL, running ? demo_worker : demo_sender, d)) {
			err_set(&err, DLQ_SYSTEM, "cannot start a thread");
			break;
		}
	enum dlq_code code = err.code;
	if (!code)
		code = watch(d, "orders come in", all_settled, &err);
	if (!code)
		code = on_call(d, &err);
	if (!code && d->tty && !d->fast)
		pause_ms(2500);
	if (!code)
		code = put_back(d, &err);
	atomic_store(&d->stop, true);
	while (running)
		pthread_join(threads[--running], NULL);
	if (!code && !demo_counts(d, &n, &err))
		code = err.code;
	if (code)
		return cli_fail(&err);
	rc = account(d, &n) ? 0 : EXIT_PARTIAL;
	if (!rc)
		next_steps(d, standalone);
	return rc;
}

static int run(struct cli *c)
{
	struct demo d = {.c = c,
			 .fast = cli_flag(c, "fast"),
			 .tty = term_is_tty(STDOUT_FILENO),
			 .lock = PTHREAD_MUTEX_INITIALIZER};
	struct standalone s = {.dir = ""};
	struct sigaction action = {.sa_handler = on_signal};
	int64_t orders, bad;
	int rc = 0;

	if (c->n_args)
		return cli_usage(c, "%s: no argument is wanted", c->args[0]);
	if (!cli_opt_int(c, "orders", 1, 1000000, 5826, &orders) ||
	    !cli_opt_int(c, "bad", 1, orders, orders < 826 ? (orders + 6) / 7 : 826, &bad))
		return EXIT_USAGE;
	d.orders = (int)orders;
	d.bad = (int)bad;
	d.queue = cli_opt(c, "queue") ? cli_opt(c, "queue") : "orders";
	if (strspn(d.queue, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != strlen(d.queue) ||
	    strlen(d.queue) > 128)
		return cli_usage(c, "--queue %s is no name of a queue", d.queue);
	d.pace_us = d.fast ? 0 : (int64_t)PLAY_SECONDS * 1000000 * DEMO_WORKERS / (orders + 2 * bad);
	d.pace_us = d.pace_us > 50000 ? 50000 : d.pace_us;
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	d.client = cli_flag(c, "standalone") ? standalone_client(&s, &rc) : client_open(c, &rc);
	if (d.client) {
		d.done = mem_array((size_t)orders + 1, sizeof(*d.done));
		rc = play(&d, s.dir[0] != 0);
		mem_free(d.done);
	}
	client_free(d.client);
	standalone_stop(&s);
	return rc;
}

static const struct cli_option options[] = {
	{"standalone", NULL, "start a server on a temporary folder, and remove both at the end"},
	{"orders", "N", "how many orders, default 5826"},
	{"bad", "N", "how many of them fail, default 826"},
	{"fast", NULL, "as fast as it goes, instead of at a pace to watch"},
	{"queue", "QUEUE", "name of the queue, default orders; it must be empty"},
	{0},
};

const struct command cmd_demo = {
	.name = "demo",
	.synopsis = "[--standalone] [--fast] [OPTIONS]",
	.summary = "play an incident from the first failure to the balanced account",
	.about = "Sends 5,826 orders, works them with a worker that fails on 826, shows them retrying and\n"
		 "dying with their evidence while the others go through, then fixes the worker, puts all\n"
		 "of them back with one redrive and checks the account: sent = done, died = redriven, each\n"
		 "exactly once. Exit code 1 if it does not balance.",
	.examples = "dlq demo --standalone # needs nothing running\n"
		    "dlq demo --fast # against the running server, as fast as it goes",
	.options = options,
	.client = true,
	.run = run,
};
