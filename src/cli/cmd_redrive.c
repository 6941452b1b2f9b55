#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "cli/groups.h"
#include "cli/ids.h"
#include "cli/redrive.h"
#include "cli/term.h"

#define IDS_PER_CALL 1000

static int64_t mono_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* ", about 7s left" from how fast it went since start; "" when that says nothing yet. */
static const char *time_left(int64_t left, int64_t went, int64_t ms, char out[64])
{
	char text[32];

	out[0] = 0;
	if (left > 0 && went > 0 && ms >= 1000) {
		duration_human((left * ms / went / 1000 + 1) * 1000, text);
		snprintf(out, 64, ", about %s left", text);
	}
	return out;
}

static void show_progress(const json_t *r, int64_t went, int64_t ms)
{
	const char *phase = jstr(r, "phase");
	int64_t total = jint(r, "total"), n = jint(r, "sent") + jint(r, "skipped"), first = jint(r, "first");
	char a[32], b[32], ok[32], bad[32], left[64];

	if (first > total)
		first = total;
	count_format(jint(r, "succeeded"), ok);
	count_format(jint(r, "failed_again"), bad);
	if (!strcmp(phase, "canary"))
		progress("redrive %s: canary, %s of %s put back, %s succeeded, %s failed again", jstr(r, "redrive_id"),
			 count_format(n, a), count_format(first, b), ok, bad);
	else if (!strcmp(phase, "waiting"))
		progress("redrive %s: waiting for the outcome of %s, %s succeeded, %s failed again", jstr(r, "redrive_id"),
			 count_format(n, a), ok, bad);
	else
		progress("redrive %s: %s of %s put back, %s succeeded, %s failed again%s", jstr(r, "redrive_id"),
			 count_format(n, a), count_format(total, b), ok, bad,
			 !strcmp(phase, "ramp") ? time_left(total - n, went, ms, left) : "");
}

json_t *redrive_wait(struct client *cl, json_t *redrive, bool show, struct dlq_err *err)
{
	struct timespec pause = {.tv_nsec = 100 * 1000000};
	int64_t from_ms = 0, from_n = 0;

	for (;;) {
		int64_t n = jint(redrive, "sent") + jint(redrive, "skipped");

		if (!from_ms && !strcmp(jstr(redrive, "phase"), "ramp")) {
			from_ms = mono_ms();
			from_n = n;
		}
		if (show)
			show_progress(redrive, n - from_n, from_ms ? mono_ms() - from_ms : 0);
		if (strcmp(jstr(redrive, "state"), "running"))
			break;
		nanosleep(&pause, NULL);
		json_t *next = client_get(cl, err, "/v1/redrives/%s", jstr(redrive, "redrive_id"));
		json_decref(redrive);
		redrive = next;
		if (!redrive)
			break;
	}
	if (show)
		progress_end();
	return redrive;
}

/* Prints how it ended; the exit code. */
static int report(struct cli *c, const json_t *r)
{
	char sent[32], skipped[32], safe[600];
	bool done = !strcmp(jstr(r, "state"), "done");

	if (c->json) {
		json_line(r);
	} else if (!strcmp(jstr(r, "state"), "halted")) {
		printf("halted: %s\n", text_safe(str_of(jstr(r, "halted_why")), safe, sizeof(safe)));
		printf("%s of %s were put back, the others were not touched\n", count_format(jint(r, "sent"), sent),
		       count_format(jint(r, "total"), skipped));
		fprintf(stderr,
			"dlq redrives show %s --items   which ones, and what became of them\n"
			"dlq redrives resume %s         go on all the same\n"
			"dlq redrives cancel %s         end it; the others stay dead\n",
			jstr(r, "redrive_id"), jstr(r, "redrive_id"), jstr(r, "redrive_id"));
	} else {
		printf("%s put back, %s skipped (%s)\n", count_format(jint(r, "sent"), sent),
		       count_format(jint(r, "skipped"), skipped), jstr(r, "state"));
		fprintf(stderr, "what became of them: dlq redrives show %s\n", jstr(r, "redrive_id"));
	}
	return done && !jint(r, "skipped") ? 0 : EXIT_PARTIAL;
}

static int start_and_wait(struct cli *c, struct client *cl, const char *path, json_t *body)
{
	struct dlq_err err = {0};
	json_t *r = client_json(cl, "POST", path, body, &err);
	int rc;

	if (!r)
		return cli_fail(&err);
	if (cli_flag(c, "no-wait")) {
		if (c->json)
			json_line(r);
		else
			printf("%s\n", jstr(r, "redrive_id"));
		json_decref(r);
		return 0;
	}
	r = redrive_wait(cl, r, !c->json, &err);
	if (!r)
		return cli_fail(&err);
	rc = report(c, r);
	json_decref(r);
	return rc;
}

/* Adds the replacement body of --body. False: error printed. */
static bool add_body(struct cli *c, json_t *o, int *rc)
{
	struct buf body = {0}, text = {0};
	struct dlq_err err = {0};
	bool ok = false;

	if (cli_read_file(cli_opt(c, "body"), &body, &err)) {
		*rc = cli_fail(&err);
	} else if (str_is_utf8(buf_str(&body))) {
		json_object_set_new(o, "body", json_stringn(body.n ? body.p : "", body.n));
		ok = true;
	} else {
		base64_encode(buf_str(&body), &text);
		json_object_set_new(o, "body_base64", json_stringn(text.p, text.n));
		ok = true;
	}
	buf_release(&body);
	buf_release(&text);
	return ok;
}

static bool guarded(const struct cli *c)
{
	return cli_opt(c, "first") || cli_opt(c, "rate") || cli_opt(c, "stop-at") || cli_opt(c, "canary-wait");
}

/* Adds what the options say of the guard. False: the usage error is printed. */
static bool add_guard(struct cli *c, json_t *body)
{
	const char *stop = cli_opt(c, "stop-at");
	int64_t first = 0, n = 0;

	if (!cli_opt_int(c, "first", 1, 1000000000, 0, &first))
		return false;
	if (first)
		json_object_set_new(body, "first", json_integer(first));
	if (cli_opt(c, "rate"))
		json_object_set_new(body, "rate", json_string(cli_opt(c, "rate")));
	if (stop && strspn(stop, "0123456789") == strlen(stop)) {
		if (!cli_opt_int(c, "stop-at", 1, 1000000000, 0, &n))
			return false;
		json_object_set_new(body, "stop_at", json_integer(n));
	} else if (stop) {
		json_object_set_new(body, "stop_at", json_string(stop));
	}
	if (cli_opt(c, "canary-wait"))
		json_object_set_new(body, "canary_wait", json_string(cli_opt(c, "canary-wait")));
	if (cli_flag(c, "override"))
		json_object_set_new(body, "override", json_true());
	return true;
}

/* What is put back: a whole queue, a group, or ids. */
struct target {
	const char *queue;
	char group[GROUP_ID_LEN + 1]; /* "": none */
	struct ids ids;
};

static int redrive_one(struct cli *c, struct client *cl, const char *id)
{
	json_t *o = json_pack("{s:s}", "reason", cli_opt(c, "reason"));
	struct buf path = {0};
	int rc = 0;

	if (cli_opt(c, "body") && !add_body(c, o, &rc)) {
		json_decref(o);
		return rc;
	}
	if (cli_flag(c, "override"))
		json_object_set_new(o, "override", json_true());
	buf_addz(&path, "/v1/dead-letters/");
	url_escape(&path, id);
	buf_addz(&path, "/redrive");
	buf_addc(&path, 0);
	rc = start_and_wait(c, cl, path.p, o);
	buf_release(&path);
	return rc;
}

/* What would be redriven, without doing it. -1: error printed, *rc set. */
static int64_t count_members(struct cli *c, struct client *cl, const struct target *t, int *rc)
{
	json_t *body = json_pack("{s:b, s:s}", "dry_run", 1, "reason",
				 cli_opt(c, "reason") ? cli_opt(c, "reason") : "dry run");
	struct dlq_err err = {0};
	json_t *list = json_array(), *r;

	for (int i = 0; i < t->ids.n && i < IDS_PER_CALL; i++)
		json_array_append_new(list, json_string(t->ids.list[i]));
	if (t->queue)
		json_object_set_new(body, "queue", json_string(t->queue));
	else if (t->group[0])
		json_object_set_new(body, "group", json_string(t->group));
	else
		json_object_set(body, "ids", list);
	json_decref(list);
	if (cli_flag(c, "override"))
		json_object_set_new(body, "override", json_true());
	r = client_json(cl, "POST", "/v1/redrives", body, &err);
	if (!r) {
		*rc = cli_fail(&err);
		return -1;
	}
	int64_t total = jint(r, "total") + (t->ids.n > IDS_PER_CALL ? t->ids.n - IDS_PER_CALL : 0);
	json_decref(r);
	return total;
}

/* Starts one redrive of what `key` names; takes value. */
static int redrive_by(struct cli *c, struct client *cl, const char *key, json_t *value)
{
	json_t *body = json_pack("{s:o, s:s}", key, value, "reason", cli_opt(c, "reason"));

	if (!add_guard(c, body)) {
		json_decref(body);
		return EXIT_USAGE;
	}
	return start_and_wait(c, cl, "/v1/redrives", body);
}

static int redrive_many(struct cli *c, struct client *cl, const struct ids *ids)
{
	int worst = 0;

	for (int at = 0; at < ids->n; at += IDS_PER_CALL) {
		json_t *list = json_array();

		for (int i = at; i < ids->n && i < at + IDS_PER_CALL; i++)
			json_array_append_new(list, json_string(ids->list[i]));
		int rc = redrive_by(c, cl, "ids", list);
		worst = rc > worst ? rc : worst;
		if (rc > (guarded(c) ? 0 : EXIT_PARTIAL))
			break; /* a halt stops the rest, too */
	}
	return worst;
}

static int redrive(struct cli *c, struct client *cl, const struct target *t)
{
	int rc = 0;
	int64_t total = t->ids.n;

	if (!t->ids.n || cli_flag(c, "dry-run"))
		total = count_members(c, cl, t, &rc);
	if (total < 0)
		return rc;
	if (cli_flag(c, "dry-run")) {
		char n[32];

		if (c->json)
			printf("{\"dry_run\":true,\"total\":%lld}\n", (long long)total);
		else
			printf("%s dead letter%s would be put back\n", count_format(total, n), total == 1 ? "" : "s");
		return 0;
	}
	if (!total) {
		fprintf(stderr, "%s %s has no dead letter\n", t->queue ? "queue" : "group", t->queue ? t->queue : t->group);
		return 0;
	}
	if (!confirm(c, total, "redrive", &rc))
		return rc;
	if (t->queue)
		return redrive_by(c, cl, "queue", json_string(t->queue));
	if (t->group[0])
		return redrive_by(c, cl, "group", json_string(t->group));
	return t->ids.n == 1 && !guarded(c) ? redrive_one(c, cl, t->ids.list[0]) : redrive_many(c, cl, &t->ids);
}

static int run(struct cli *c)
{
	const char *reason = cli_opt(c, "reason"), *group = cli_opt(c, "group");
	struct target t = {.queue = cli_opt(c, "queue")};
	struct client *cl = NULL;
	struct dlq_err err = {0};
	int rc = 0;

	if ((t.queue != NULL) + (group != NULL) + (c->n_args > 0) > 1)
		return cli_usage(c, "ids, --queue and --group: which one is it?");
	if (!cli_flag(c, "dry-run") && (!reason || !*reason))
		return cli_usage(
			c,
			"--reason is needed: say for the audit log why these may go back, such as 'fixed in 2.4.1'");
	if (!t.queue && !group && !ids_read(c, &t.ids, &rc))
		goto out;
	if (cli_opt(c, "body") && (t.ids.n != 1 || guarded(c))) {
		rc = cli_usage(c, "--body goes with exactly one dead letter, and without --first, --rate and --stop-at");
		goto out;
	}
	cl = client_open(c, &rc);
	if (cl && group && group_resolve(cl, group, t.group, &err))
		rc = cli_fail(&err);
	else if (cl)
		rc = redrive(c, cl, &t);
out:
	client_free(cl);
	ids_release(&t.ids);
	return rc;
}

static const struct cli_option options[] = {
	{"queue", "QUEUE", "all dead letters of this queue"},
	{"group", "GROUP", "all of this group of failures; the first characters of it are enough"},
	{"first", "N", "put so many back, wait for their outcome, and go on only if it is good"},
	{"stop-at", "N|P%", "halt when N of them, or more than P percent, failed again"},
	{"rate", "N/s", "at most so many a second (N/s), minute (N/m) or hour (N/h) after the first"},
	{"canary-wait", "DURATION", "wait so long for the outcome of the first, then halt; default 10m"},
	{"override", NULL, "also those that were redriven as often as the queue allows (max_redrives)"},
	{"reason", "TEXT", "why; goes to the audit log; needed"},
	{"body", "FILE", "put one back with this body instead; the original is kept; - is stdin"},
	{"yes", NULL, "do not ask"},
	{"dry-run", NULL, "only say how many it would be"},
	{"no-wait", NULL, "start it and print its id"},
	{0},
};

const struct command cmd_redrive = {
	.name = "redrive",
	.synopsis = "DLQ_ID... --reason TEXT\nDLQ_ID --body FILE --reason TEXT\n--queue QUEUE --reason TEXT [--yes]\n"
		    "--group GROUP --first N --stop-at P% --rate N/s --reason TEXT [--yes]",
	.summary = "put dead letters back into their queue",
	.about = "Each goes back with the same message id, attempts at 0 and its history kept. Which ones\n"
		 "is fixed at the start: what dies while it runs is not taken up. It is a durable job on\n"
		 "the server: if this command is interrupted, it goes on; `dlq redrives` lists, pauses and\n"
		 "cancels them.\n"
		 "\n"
		 "With --first, --stop-at and --rate it guards itself: a few go first, and what becomes of\n"
		 "them in the worker decides about the rest. When too many fail again it halts and says\n"
		 "why; the others were not touched. --first alone halts if any of them fails again.\n"
		 "\n"
		 "Above one message it shows the count and asks, or needs --yes. \"-\" reads ids from\n"
		 "stdin. Exit code 1: it halted, or some were skipped, because they were changed meanwhile.",
	.examples =
		"dlq redrive 01JE2X5M8Q4Z6T9K3B7C1D0FGH --reason 'try one first' # one, to see whether the fix works\n"
		"dlq redrive --queue orders --reason 'worker fixed in 2.4.1' --yes # then the rest\n"
		"dlq redrive --group 3f2a9c --first 5 --rate 100/s --stop-at 10% --reason 'fixed in 2.4.1' # one cause, carefully\n"
		"dlq redrive 01JE2X5M8Q4Z6T9K3B7C1D0FGH --body fixed.json --reason 'repaired' # by hand\n"
		"dlq list orders --error-type EncodeError | cut -f1 | dlq redrive - --reason 'fixed' --yes",
	.options = options,
	.client = true,
	.run = run,
};
