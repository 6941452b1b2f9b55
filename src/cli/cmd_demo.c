/* cmd_demo.c - the incident, played: orders that fail, die with their evidence, are repaired and put back. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/demo.h"
#include "cli/interrupt.h"
#include "cli/term.h"

#define PLAY_SECONDS 13 /* of pretended work, without --fast */

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
	enum dlq_code code = err.code ? err.code : demo_acts(d, &err);
	atomic_store(&d->stop, true);
	while (running)
		pthread_join(threads[--running], NULL);
	if (!code && !demo_counts(d, &n, &err))
		code = err.code;
	if (code)
		return cli_fail(&err);
	rc = demo_account(d, &n) ? 0 : EXIT_PARTIAL;
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
	struct demo_server s = {.dir = ""};
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
	interrupt_catch();
	d.client = cli_flag(c, "standalone") ? demo_server_start(&s, &rc) : client_open(c, &rc);
	if (d.client) {
		d.done = mem_array((size_t)orders + 1, sizeof(*d.done));
		rc = play(&d, s.dir[0] != 0);
		mem_free(d.done);
	}
	client_free(d.client);
	demo_server_stop(&s);
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
		 "diagnosis. A repair in a hurry halts after 5. Then a preview of the right one, which puts\n"
		 "all of them back repaired, and the account: sent = done, each exactly once. Exit code 1\n"
		 "if it does not balance.",
	.examples = "dlq demo --standalone # needs nothing running\n"
		    "dlq demo --fast # against the running server, as fast as it goes",
	.options = options,
	.client = true,
	.run = run,
};
