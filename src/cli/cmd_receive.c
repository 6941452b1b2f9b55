#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/client.h"
#include "cli/term.h"

static const char *const outcomes[] = {"transient", "permanent", "release"};

static void body_of(const json_t *d, struct buf *out)
{
	const json_t *text = json_object_get(d, "body");
	const char *base64 = jstr(d, "body_base64");

	if (text)
		buf_add(out, json_string_value(text), json_string_length(text));
	else
		base64_decode(str_of(base64), out);
}

static void print_delivery(const json_t *d, bool only)
{
	struct buf body = {0}, safe = {0};
	bool tty = term_is_tty(STDOUT_FILENO);

	body_of(d, &body);
	if (!only || tty) {
		char key[600];

		printf("%s%s%s  attempts %lld, redrives %lld%s%s\n", term_bold(), jstr(d, "id"), term_reset(),
		       (long long)jint(d, "attempts"), (long long)jint(d, "redrives"), *jstr(d, "key") ? ", key " : "",
		       text_safe(str_of(jstr(d, "key")), key, sizeof(key)));
		printf("%sreceipt %s, lease until %s%s\n", term_dim(), jstr(d, "receipt"), jstr(d, "lease_until"),
		       term_reset());
	}
	if (tty)
		text_safe_buf(buf_str(&body), true, &safe);
	else
		buf_adds(&safe, buf_str(&body));
	fwrite(safe.n ? safe.p : "", 1, safe.n, stdout);
	if (!only || (tty && safe.n && safe.p[safe.n - 1] != '\n'))
		putchar('\n');
	buf_release(&body);
	buf_release(&safe);
}

/* Which outcome the options ask for; NULL: none, the lease just runs. */
static const char *outcome_of(const struct cli *c)
{
	const char *nack = cli_opt(c, "nack");

	if (cli_flag(c, "ack"))
		return "ok";
	return nack;
}

static int settle(struct cli *c, struct client *cl, const char *queue, const json_t *deliveries, const char *outcome)
{
	json_t *results = json_array(), *d, *answer;
	struct dlq_err err = {0};
	struct buf path = {0};
	size_t i;
	int rc = 0;

	json_array_foreach((json_t *)deliveries, i, d) {
		json_t *r = json_pack("{s:s, s:s}", "receipt", jstr(d, "receipt"), "outcome", outcome);

		if (strcmp(outcome, "ok") && (cli_opt(c, "error-type") || cli_opt(c, "error")))
			json_object_set_new(r, "error",
					    json_pack("{s:s*, s:s*}", "type", cli_opt(c, "error-type"), "message",
						      cli_opt(c, "error")));
		if (cli_opt(c, "retry-after"))
			json_object_set_new(r, "retry_after", json_string(cli_opt(c, "retry-after")));
		json_array_append_new(results, r);
	}
	buf_addf(&path, "/v1/queues/%s/settle", queue);
	buf_addc(&path, 0);
	answer = client_json(cl, "POST", path.p, json_pack("{s:o}", "results", results), &err);
	buf_release(&path);
	if (!answer)
		return cli_fail(&err);
	json_array_foreach(json_object_get(answer, "results"), i, d) {
		if (c->json)
			json_line(d);
		else
			fprintf(stderr, "%s: %s%s%s\n", jstr(json_array_get(deliveries, i), "id"), jstr(d, "result"),
				*jstr(d, "dlq_id") ? ", dead letter " : "", jstr(d, "dlq_id"));
		if (!strcmp(jstr(d, "result"), "gone"))
			rc = code_exit(DLQ_GONE);
	}
	json_decref(answer);
	return rc;
}

static int receive(struct cli *c, struct client *cl, int64_t max, int64_t wait_ms, const char *outcome)
{
	char wait[32];
	struct buf queue = {0}, path = {0};
	struct dlq_err err = {0};
	json_t *ask, *answer, *d;
	size_t i;
	int rc = 0;

	duration_format(wait_ms, wait);
	ask = json_pack("{s:I, s:s, s:s*, s:s}", "max", (json_int_t)max, "wait", wait, "visibility_timeout",
			cli_opt(c, "visibility-timeout"), "worker",
			cli_opt(c, "worker") ? cli_opt(c, "worker") : "dlq-receive");
	url_escape(&queue, c->args[0]);
	buf_addc(&queue, 0);
	buf_addf(&path, "/v1/queues/%s/receive", queue.p);
	buf_addc(&path, 0);
	answer = client_json(cl, "POST", path.p, ask, &err);
	if (!answer) {
		rc = cli_fail(&err);
		goto out;
	}
	json_t *deliveries = json_object_get(answer, "deliveries");
	json_array_foreach(deliveries, i, d) {
		if (c->json)
			json_line(d);
		else
			print_delivery(d, max == 1);
	}
	/* What did not reach its reader must not be settled: it would be lost. The lease ends by itself. */
	if (fflush(stdout) || ferror(stdout)) {
		err_set(&err, DLQ_SYSTEM, "cannot write to stdout: %s%s", strerror(errno),
			outcome ? "; nothing was settled" : "");
		rc = cli_fail(&err);
	} else if (!json_array_size(deliveries)) {
		if (!c->json)
			fprintf(stderr, "no message\n");
		rc = EXIT_PARTIAL;
	} else if (outcome) {
		rc = settle(c, cl, queue.p, deliveries, outcome);
	} else if (!c->json && max == 1 && !term_is_tty(STDOUT_FILENO)) {
		fprintf(stderr, "receipt %s, lease until %s\n", jstr(json_array_get(deliveries, 0), "receipt"),
			jstr(json_array_get(deliveries, 0), "lease_until"));
	}
	json_decref(answer);
out:
	buf_release(&queue);
	buf_release(&path);
	return rc;
}

static int run(struct cli *c)
{
	static const char *const of_nack[] = {"error-type", "error", "retry-after"};
	const char *outcome = outcome_of(c);
	int64_t max, wait_ms, retry_ms;
	int rc;

	if (c->n_args != 1)
		return cli_usage(c, c->n_args ? "one queue, please" : "which queue?");
	if (!cli_opt_int(c, "max", 1, 1000, 1, &max) || !cli_opt_duration(c, "wait", 0, &wait_ms) ||
	    !cli_opt_duration(c, "retry-after", 0, &retry_ms))
		return EXIT_USAGE;
	if (cli_flag(c, "ack") && cli_opt(c, "nack"))
		return cli_usage(c, "--ack and --nack: which one is it?");
	for (size_t i = 0; i < ARRAY_LEN(of_nack); i++)
		if (cli_opt(c, of_nack[i]) && !cli_opt(c, "nack"))
			return cli_usage(c, "--%s goes with --nack OUTCOME", of_nack[i]);
	if (outcome && strcmp(outcome, "ok")) {
		bool known = false;

		for (size_t i = 0; i < ARRAY_LEN(outcomes); i++)
			known = known || !strcmp(outcome, outcomes[i]);
		if (!known)
			return cli_usage(c, "--nack %s: transient, permanent or release is wanted", outcome);
	}
	struct client *cl = client_open(c, &rc);
	if (!cl)
		return rc;
	rc = receive(c, cl, max, wait_ms, outcome);
	client_free(cl);
	return rc;
}

static const struct cli_option options[] = {
	{"max", "N", "up to this many messages, default 1"},
	{"wait", "DURATION", "wait for messages, at most 60s"},
	{"visibility-timeout", "DURATION", "length of the lease, default the queue's"},
	{"worker", "NAME", "who takes it, shown in the history"},
	{"ack", NULL, "settle as ok at once"},
	{"nack", "OUTCOME", "settle at once as transient, permanent or release"},
	{"error-type", "TYPE", "with --nack: type of the error"},
	{"error", "TEXT", "with --nack: what went wrong"},
	{"retry-after", "DURATION", "with --nack: not earlier than this"},
	{0},
};

const struct command cmd_receive = {
	.name = "receive",
	.synopsis = "QUEUE [OPTIONS]",
	.summary = "take messages from a queue by hand",
	.about = "Each message is leased: unless it is settled in time (--ack, --nack, or the API with the\n"
		 "receipt), the lease ends and counts as a failed attempt. For real work use `dlq work`.\n"
		 "Exit code 1: no message came.\n"
		 "\n"
		 "A single message that goes to a file or a pipe is written as it is, byte for byte; the\n"
		 "receipt goes to stderr.",
	.examples =
		"dlq receive orders --wait 10s --ack > order.json # take one and be done with it\n"
		"dlq receive orders --nack permanent --error-type Broken --error 'no such shop' # make it dead\n"
		"dlq receive orders --max 10 --json # with receipts, for scripts",
	.options = options,
	.client = true,
	.run = run,
};
