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
#include "cli/groups.h"
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

/* One of them, with its evidence. */
static enum dlq_code show_one(struct demo *d, struct dlq_err *err)
{
	json_t *page = client_get(d->client, err, "/v1/dead-letters?queue=%s&error_type=EncodeError&limit=1", d->queue),
	       *one = NULL;

	if (page)
		one = client_get(d->client, err, "/v1/dead-letters/%s",
				 jstr(json_array_get(json_object_get(page, "items"), 0), "dlq_id"));
	json_decref(page);
	if (!one)
		return err->code;
	printf("\n  %s$ dlq show %s%s\n\n", term_dim(), jstr(one, "dlq_id"), term_reset());
	printf("  message %s of queue %s, reason %s after %lld attempts\n", jstr(one, "id"), jstr(one, "queue"),
	       jstr(one, "reason"), (long long)jint(one, "attempts"));
	show_history(one);
	fflush(stdout);
	json_decref(one);
	return DLQ_OK;
}

/* The one group of the queue that has dead letters: its id in out, its diagnosis on the screen. */
static enum dlq_code one_group(struct demo *d, char out[GROUP_ID_LEN + 1], struct dlq_err *err)
{
	json_t *page = client_get(d->client, err, "/v1/groups?queue=%s&dead=true&limit=10", d->queue);
	const json_t *items = json_object_get(page, "items"), *g = json_array_get(items, 0);
	char safe[200], n[32];

	if (!page)
		return err->code;
	if (json_array_size(items) != 1 || jint(g, "dead") != d->bad) {
		enum dlq_code code = err_set(err, DLQ_INTERNAL, "%zu groups have dead letters, not one with %d", json_array_size(items),
					     d->bad);
		json_decref(page);
		return code;
	}
	snprintf(out, GROUP_ID_LEN + 1, "%s", jstr(g, "group"));
	demo_say("What the person on call sees: %s dead letters, one cause. The other orders went through.", count_format(d->bad, n));
	printf("\n  %s$ dlq groups show %.*s%s\n\n", term_dim(), GROUP_ID_SHORT, out, term_reset());
	printf("%s: ", jstr(g, "error_type"));
	printf("%s\n", text_safe(str_of(jstr(g, "message")), safe, sizeof(safe)));
	group_show_diagnosis(g);
	fflush(stdout);
	json_decref(page);
	return DLQ_OK;
}

/* Draws until the redrive is not running any more. Takes r; NULL with err set. */
static json_t *watch_redrive(struct demo *d, json_t *r, const char *phase, struct dlq_err *err)
{
	int64_t deadline = demo_now_ms() + DEADLINE_MS;
	struct demo_counts n;

	while (r) {
		bool running = !strcmp(jstr(r, "state"), "running");
		bool ok = demo_counts(d, &n, err);

		if (ok)
			demo_draw(d, &n, phase, !running);
		if (ok && !running)
			break;
		if (ok && (atomic_load(&interrupted) || demo_now_ms() > deadline)) {
			err_set(err, DLQ_TIMEOUT, "the redrive %s did not end in time", jstr(r, "redrive_id"));
			ok = false;
		}
		json_t *next = NULL;
		if (ok) {
			pause_ms(100);
			next = client_get(d->client, err, "/v1/redrives/%s", jstr(r, "redrive_id"));
		}
		json_decref(r);
		r = next;
	}
	return r;
}

static json_t *guarded_redrive(struct demo *d, const char *group, const char *reason, const char *phase, struct dlq_err *err)
{
	printf("\n  %s$ dlq redrive --group %.*s --first %d --stop-at 10%% --reason '%s'%s\n\n", term_dim(), GROUP_ID_SHORT, group,
	       d->first, reason, term_reset());
	fflush(stdout);
	json_t *r = client_json(d->client, "POST", "/v1/redrives",
				json_pack("{s:s, s:s, s:i, s:s}", "group", group, "reason", reason, "first", d->first, "stop_at", "10%"),
				err);
	return watch_redrive(d, r, phase, err);
}

/* Too early: the worker still cannot encode them. */
static enum dlq_code too_early(struct demo *d, const char *group, struct dlq_err *err)
{
	char path[120], why[400];
	json_t *r;

	demo_say("Somebody puts them back before the worker is fixed. The redrive tries %d first:", d->first);
	r = guarded_redrive(d, group, "should be fine now", "the first ones fail again", err);
	if (!r)
		return err->code;
	enum dlq_code code = DLQ_OK;
	if (strcmp(jstr(r, "state"), "halted") || jint(r, "sent") != d->first)
		code = err_set(err, DLQ_INTERNAL, "the redrive is %s after %lld messages, not halted after %d", jstr(r, "state"),
			       (long long)jint(r, "sent"), d->first);
	printf("\n  %shalted by itself:%s %s\n", term_yellow(), term_reset(),
	       text_safe(str_of(jstr(r, "halted_why")), why, sizeof(why)));
	printf("  %d touched, %d still dead as they were.\n", d->first, d->bad - d->first);
	snprintf(path, sizeof(path), "/v1/redrives/%s/cancel", jstr(r, "redrive_id"));
	json_decref(r);
	if (code)
		return code;
	printf("\n  %s$ dlq redrives cancel %.26s%s\n", term_dim(), path + strlen("/v1/redrives/"), term_reset());
	fflush(stdout);
	r = client_json(d->client, "POST", path, NULL, err);
	json_decref(r);
	return r ? DLQ_OK : err->code;
}

static enum dlq_code put_back(struct demo *d, const char *group, struct dlq_err *err)
{
	json_t *r;

	demo_say("Now the worker is fixed. The same command: %d first, and when these succeed all others:", d->first);
	atomic_store(&d->fixed, true);
	r = guarded_redrive(d, group, "label worker 2.4.1 decodes SKUs before it encodes them", "the fixed worker at work", err);
	if (!r)
		return err->code;
	bool done = !strcmp(jstr(r, "state"), "done");
	if (!done)
		err_set(err, DLQ_INTERNAL, "the redrive is %s: %s", jstr(r, "state"), jstr(r, "halted_why"));
	json_decref(r);
	return done ? watch(d, "the fixed worker at work", all_done, err) : err->code;
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
	ok &= check(n->died == d->bad + d->first && n->redriven == d->bad,
		    "%s dead letters = %s redriven, %d of which died twice; every attempt is kept", count_format(d->bad, a),
		    count_format(n->redriven, b), d->first);
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
		printf("  dlq groups                          the group, now without dead letters\n"
		       "  dlq list %s --state any         every one of them, and what became of it\n"
		       "  dlq redrives                        the redrives, by whom and why\n"
		       "  dlq audit verify                    nobody changed the record of it\n"
		       "  dlq work %s -- ./your-worker    run your own program for each message\n",
		       d->queue, d->queue);
	printf("  dlq help                            all commands\n\n");
}

static int play(struct demo *d, bool standalone)
{
	pthread_t threads[DEMO_WORKERS + 1];
	struct demo_counts n = {0};
	struct dlq_err err = {0};
	char group[GROUP_ID_LEN + 1];
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
		code = one_group(d, group, &err);
	if (!code)
		code = show_one(d, &err);
	if (!code && d->tty && !d->fast)
		pause_ms(2500);
	if (!code)
		code = too_early(d, group, &err);
	if (!code && d->tty && !d->fast)
		pause_ms(2500);
	if (!code)
		code = put_back(d, group, &err);
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
	d.first = d.bad < DEMO_FIRST ? d.bad : DEMO_FIRST;
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
		 "dying with their evidence while the others go through: one group of failures with its\n"
		 "diagnosis. A redrive that comes too early halts after 5. Then it fixes the worker, puts\n"
		 "all of them back and checks the account: sent = done, each exactly once. Exit code 1 if\n"
		 "it does not balance.",
	.examples = "dlq demo --standalone # needs nothing running\n"
		    "dlq demo --fast # against the running server, as fast as it goes",
	.options = options,
	.client = true,
	.run = run,
};
