#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "cli/client.h"
#include "cli/ids.h"
#include "cli/redrive.h"
#include "cli/term.h"

#define IDS_PER_CALL 1000

json_t *redrive_wait(struct client *cl, json_t *redrive, bool show, struct dlq_err *err)
{
	struct timespec pause = {.tv_nsec = 100 * 1000000};
	char sent[32], total[32];

	for (;;) {
		const char *state = jstr(redrive, "state");
		int64_t n = jint(redrive, "sent") + jint(redrive, "skipped");

		if (show)
			progress("redrive %s: %s of %s put back", jstr(redrive, "redrive_id"), count_format(n, sent),
				 count_format(jint(redrive, "total"), total));
		if (strcmp(state, "running"))
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
	char sent[32], skipped[32];
	bool done = !strcmp(jstr(r, "state"), "done");

	if (c->json) {
		json_line(r);
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

static int redrive_one(struct cli *c, struct client *cl, const char *id)
{
	json_t *o = json_pack("{s:s}", "reason", cli_opt(c, "reason"));
	struct buf path = {0};
	int rc = 0;

	if (cli_opt(c, "body") && !add_body(c, o, &rc)) {
		json_decref(o);
		return rc;
	}
	buf_addz(&path, "/v1/dead-letters/");
	url_escape(&path, id);
	buf_addz(&path, "/redrive");
	buf_addc(&path, 0);
	rc = start_and_wait(c, cl, path.p, o);
	buf_release(&path);
	return rc;
}

/* What would be redriven, without doing it. -1: error printed, *rc set. */
static int64_t count_members(struct cli *c, struct client *cl, const char *queue, const struct ids *ids, int *rc)
{
	json_t *body = json_pack("{s:b, s:s}", "dry_run", 1, "reason",
				 cli_opt(c, "reason") ? cli_opt(c, "reason") : "dry run");
	struct dlq_err err = {0};
	json_t *list = json_array(), *r;

	if (queue)
		json_object_set_new(body, "queue", json_string(queue));
	for (int i = 0; i < ids->n && i < IDS_PER_CALL; i++)
		json_array_append_new(list, json_string(ids->list[i]));
	if (!queue)
		json_object_set(body, "ids", list);
	json_decref(list);
	r = client_json(cl, "POST", "/v1/redrives", body, &err);
	if (!r) {
		*rc = cli_fail(&err);
		return -1;
	}
	int64_t total = jint(r, "total") + (ids->n > IDS_PER_CALL ? ids->n - IDS_PER_CALL : 0);
	json_decref(r);
	return total;
}

static int redrive_many(struct cli *c, struct client *cl, const struct ids *ids)
{
	int worst = 0;

	for (int at = 0; at < ids->n; at += IDS_PER_CALL) {
		json_t *list = json_array();

		for (int i = at; i < ids->n && i < at + IDS_PER_CALL; i++)
			json_array_append_new(list, json_string(ids->list[i]));
		int rc = start_and_wait(c, cl, "/v1/redrives",
					json_pack("{s:o, s:s}", "ids", list, "reason", cli_opt(c, "reason")));
		worst = rc > worst ? rc : worst;
		if (rc > EXIT_PARTIAL)
			break;
	}
	return worst;
}

static int redrive(struct cli *c, struct client *cl, const char *queue, const struct ids *ids)
{
	int rc = 0;
	int64_t total = ids->n;

	if (queue || cli_flag(c, "dry-run"))
		total = count_members(c, cl, queue, ids, &rc);
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
	if (queue && !total) {
		fprintf(stderr, "queue %s has no dead letter\n", queue);
		return 0;
	}
	if (!confirm(c, total, "redrive", &rc))
		return rc;
	if (queue)
		return start_and_wait(c, cl, "/v1/redrives",
				      json_pack("{s:s, s:s}", "queue", queue, "reason", cli_opt(c, "reason")));
	return ids->n == 1 ? redrive_one(c, cl, ids->list[0]) : redrive_many(c, cl, ids);
}

static int run(struct cli *c)
{
	const char *queue = cli_opt(c, "queue"), *reason = cli_opt(c, "reason");
	struct ids ids = {0};
	int rc = 0;

	if (queue && c->n_args)
		return cli_usage(c, "ids and --queue: which one is it?");
	if (!cli_flag(c, "dry-run") && (!reason || !*reason))
		return cli_usage(
			c,
			"--reason is needed: say for the audit log why these may go back, such as 'fixed in 2.4.1'");
	if (!queue && !ids_read(c, &ids, &rc))
		goto out;
	if (cli_opt(c, "body") && (queue || ids.n != 1)) {
		rc = cli_usage(c, "--body goes with exactly one dead letter");
		goto out;
	}
	struct client *cl = client_open(c, &rc);
	if (cl)
		rc = redrive(c, cl, queue, &ids);
	client_free(cl);
out:
	ids_release(&ids);
	return rc;
}

static const struct cli_option options[] = {
	{"queue", "QUEUE", "all dead letters of this queue"},
	{"reason", "TEXT", "why; goes to the audit log; needed"},
	{"body", "FILE", "put one back with this body instead; the original is kept; - is stdin"},
	{"yes", NULL, "do not ask"},
	{"dry-run", NULL, "only say how many it would be"},
	{"no-wait", NULL, "start it and print its id"},
	{0},
};

const struct command cmd_redrive = {
	.name = "redrive",
	.synopsis = "DLQ_ID... --reason TEXT\nDLQ_ID --body FILE --reason TEXT\n--queue QUEUE --reason TEXT [--yes]",
	.summary = "put dead letters back into their queue",
	.about = "Each goes back with the same message id, attempts at 0 and its history kept. Which ones\n"
		 "is fixed at the start: what dies while it runs is not taken up. It is a durable job on\n"
		 "the server: if this command is interrupted, it goes on; `dlq redrives` lists, pauses and\n"
		 "cancels them.\n"
		 "\n"
		 "Above one message it shows the count and asks, or needs --yes. \"-\" reads ids from\n"
		 "stdin. Exit code 1: some were skipped, because they were changed meanwhile.",
	.examples =
		"dlq redrive 01JE2X5M8Q4Z6T9K3B7C1D0FGH --reason 'try one first' # one, to see whether the fix works\n"
		"dlq redrive --queue orders --reason 'worker fixed in 2.4.1' --yes # then the rest\n"
		"dlq redrive 01JE2X5M8Q4Z6T9K3B7C1D0FGH --body fixed.json --reason 'repaired' # by hand\n"
		"dlq list orders --error-type EncodeError | cut -f1 | dlq redrive - --reason 'fixed' --yes",
	.options = options,
	.client = true,
	.run = run,
};
