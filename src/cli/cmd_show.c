#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/client.h"
#include "cli/show.h"
#include "cli/term.h"

#define PREVIEW 2000

/* Why it is dead, in one sentence. */
static void why_dead(const json_t *d, char *out, size_t n)
{
	const char *reason = jstr(d, "reason");
	long long attempts = jint(d, "attempts");

	if (!strcmp(reason, "max_attempts"))
		snprintf(out, n, "It failed %lld time%s, as often as the queue allows.", attempts,
			 attempts == 1 ? "" : "s");
	else if (!strcmp(reason, "permanent"))
		snprintf(out, n, "The worker said that trying again would not help.");
	else if (!strcmp(reason, "lease_expired"))
		snprintf(
			out, n,
			"Workers took it and never answered (crash_limit): it may be killing them.");
	else if (!strcmp(reason, "expired"))
		snprintf(out, n, "Nobody took it before its time was over (ttl).");
	else
		snprintf(out, n, "Reason: %s.", reason);
}

static void fact(const char *name, const char *value)
{
	char safe[600];

	if (*value)
		printf("  %-13s %s\n", name, text_safe(str_of(value), safe, sizeof(safe)));
}

static void time_fact(const char *name, const char *value)
{
	char ago[40], text[100];

	if (!*value)
		return;
	snprintf(text, sizeof(text), "%s  (%s)", value, time_ago(value, ago));
	fact(name, text);
}

static void print_detail(const char *detail)
{
	struct buf safe = {0};

	text_safe_buf(str_of(detail), true, &safe);
	for (size_t i = 0; i < safe.n;) {
		const char *end = memchr(safe.p + i, '\n', safe.n - i);
		size_t n = end ? (size_t)(end - safe.p) - i : safe.n - i;

		printf("      %s| %.*s%s\n", term_dim(), (int)n, safe.p + i, term_reset());
		i += n + 1;
	}
	buf_release(&safe);
}

void show_history(const json_t *d)
{
	json_t *a;
	size_t i;
	int64_t life = -1;

	json_array_foreach(json_object_get(d, "history"), i, a) {
		const json_t *error = json_object_get(a, "error");
		char text[700], safe[700];

		if (jint(a, "redrive") != life) {
			life = jint(a, "redrive");
			if (life)
				printf("  %s-- redriven --%s\n", term_green(), term_reset());
		}
		snprintf(text, sizeof(text), "%s%s%s", jstr(error, "type"),
			 *jstr(error, "type") && *jstr(error, "message") ? ": " : "", jstr(error, "message"));
		printf("  %s  %sattempt %lld%s  %s%s%s  %s\n", jstr(a, "at"), term_bold(),
		       (long long)jint(a, "attempt"), term_reset(), term_red(), jstr(a, "outcome"), term_reset(),
		       text_safe(str_of(text), safe, sizeof(safe)));
		snprintf(text, sizeof(text), "%s %s", jstr(a, "worker"), jstr(a, "worker_version"));
		if (*jstr(a, "worker") || *jstr(a, "retry_at"))
			printf("      %s%s%s%s%s%s\n", term_dim(), *jstr(a, "worker") ? "by " : "",
			       text_safe(str_trim(str_of(text)), safe, sizeof(safe)),
			       *jstr(a, "retry_at") ? "  next try at " : "", jstr(a, "retry_at"), term_reset());
		if (*jstr(error, "detail"))
			print_detail(jstr(error, "detail"));
	}
}

static void show_headers(const json_t *d, const char *member)
{
	const char *key;
	json_t *v;
	bool first = true;

	json_object_foreach(json_object_get(d, member), key, v) {
		char line[600], safe[600];

		snprintf(line, sizeof(line), "%s: %s", key, json_string_value(v) ? json_string_value(v) : "");
		printf("  %-13s %s\n", !first ? "" : strcmp(member, "headers") ? "sent with" : "headers", text_safe(str_of(line), safe, sizeof(safe)));
		first = false;
	}
}

static void show_facts(const json_t *d)
{
	char why[200], number[40];

	why_dead(d, why, sizeof(why));
	printf("%s%s%s  %s%s%s\n%s\n", term_bold(), jstr(d, "dlq_id"), term_reset(), term_red(), jstr(d, "state"), term_reset(), why);
	if (!strcmp(jstr(d, "state"), "archived"))
		printf("It was given up: by somebody, or since it died again after as many redrives as its queue allows.\n");
	printf("\n");
	fact("queue", jstr(d, "queue"));
	fact("message", jstr(d, "id"));
	fact("key", jstr(d, "key"));
	fact("group", jstr(d, "group"));
	fact("reason", jstr(d, "reason"));
	time_fact("received", jstr(d, "received_at"));
	time_fact("first failed", jstr(d, "first_failed_at"));
	time_fact("last failed", jstr(d, "last_failed_at"));
	time_fact("died", jstr(d, "died_at"));
	time_fact("kept until", jstr(d, "expires_at"));
	if (json_is_true(json_object_get(d, "expires_soon")))
		printf("  %-13s %sits retention ends soon; then it is in the archive's files alone%s\n", "", term_yellow(), term_reset());
	snprintf(number, sizeof(number), "%lld", (long long)jint(d, "redrives"));
	fact("redrives", number);
	fact("operator", jstr(d, "operator"));
	fact("why", jstr(d, "why"));
	fact("redrive", jstr(d, "redrive_id"));
	fact("imported as", jstr(d, "imported_id"));
	show_headers(d, "headers");
	show_headers(d, "original_headers");
}

static void show_body(const json_t *d, const struct buf *body)
{
	struct buf safe = {0};
	struct str cut = buf_str(body);
	char size[32], type[300];

	if (cut.n > PREVIEW)
		cut.n = PREVIEW;
	size_human((int64_t)body->n, size);
	printf("\n%sbody%s  %s%s%s%s\n", term_bold(), term_reset(), size, *jstr(d, "content_type") ? ", " : "",
	       text_safe(str_of(jstr(d, "content_type")), type, sizeof(type)),
	       json_is_true(json_object_get(d, "edited")) ? ", edited (--original shows what was sent)" : "");
	text_safe_buf(cut, true, &safe);
	printf("%.*s\n", (int)safe.n, safe.n ? safe.p : "");
	if (cut.n < body->n)
		printf("%s... %zu more bytes; --body writes all of it%s\n", term_dim(), body->n - cut.n, term_reset());
	buf_release(&safe);
}

static int raw_body(struct client *cl, const char *path)
{
	struct client_call call = {.method = "GET", .path = path, .timeout_ms = 90000};
	struct dlq_err err = {0};
	int rc = 0;

	if (client_call(cl, &call, &err))
		rc = cli_fail(&err);
	else
		fwrite(call.reply.n ? call.reply.p : "", 1, call.reply.n, stdout);
	client_call_clear(&call);
	return rc;
}

/* What to type next. */
static void show_next(const json_t *d)
{
	const char *id = jstr(d, "dlq_id"), *state = jstr(d, "state");

	if (!strcmp(state, "dead"))
		printf("\n%sdlq redrive %s --reason '...'   puts it back\n"
		       "dlq edit %s --reason '...'      in your editor first%s\n", term_dim(), id, id, term_reset());
	else if (!strcmp(state, "archived"))
		printf("\n%sdlq redrive %s --override --reason '...'   puts it back all the same\n"
		       "dlq restore %s --reason '...'              makes it dead again%s\n", term_dim(), id, id, term_reset());
	else if (!strcmp(state, "discarded"))
		printf("\n%sdlq restore %s --reason '...'   makes it dead again%s\n", term_dim(), id, term_reset());
}

static int show(struct cli *c, struct client *cl, const char *path)
{
	struct dlq_err err = {0};
	struct buf body_path = {0};
	json_t *d = client_json(cl, "GET", path, NULL, &err);

	if (!d)
		return cli_fail(&err);
	if (c->json) {
		json_line(d);
		json_decref(d);
		return 0;
	}
	show_facts(d);
	printf("\n%shistory%s\n", term_bold(), term_reset());
	show_history(d);
	buf_addf(&body_path, "/v1/dead-letters/%s/body", jstr(d, "dlq_id"));
	buf_addc(&body_path, 0);
	struct client_call call = {.method = "GET", .path = body_path.p};
	if (!client_call(cl, &call, &err))
		show_body(d, &call.reply);
	client_call_clear(&call);
	buf_release(&body_path);
	show_next(d);
	if (*jstr(d, "group"))
		printf("%sdlq groups show %.12s   all that failed like this%s\n", term_dim(), jstr(d, "group"), term_reset());
	json_decref(d);
	return 0;
}

static int run(struct cli *c)
{
	bool body = cli_flag(c, "body"), original = cli_flag(c, "original");
	struct buf path = {0};
	int rc;

	if (c->n_args != 1)
		return cli_usage(c,
				 c->n_args ? "one dead letter at a time" : "which dead letter? `dlq list` names them");
	struct client *cl = client_open(c, &rc);
	if (!cl)
		return rc;
	buf_addz(&path, "/v1/dead-letters/");
	url_escape(&path, c->args[0]);
	if (body || original)
		buf_addz(&path, original ? "/body?original=true" : "/body");
	buf_addc(&path, 0);
	rc = body || original ? raw_body(cl, path.p) : show(c, cl, path.p);
	buf_release(&path);
	client_free(cl);
	return rc;
}

static const struct cli_option options[] = {
	{"body", NULL, "write only the body to stdout, byte for byte"},
	{"original", NULL, "the same for the body as it was sent, before any edit"},
	{0},
};

const struct command cmd_show = {
	.name = "show",
	.synopsis = "DLQ_ID [--body | --original]\nMESSAGE_ID",
	.summary = "show one dead letter: why it is dead, every attempt, the body",
	.about = "A message id shows its newest dead letter. The preview of the body escapes what could\n"
		 "harm a terminal.",
	.examples = "dlq show 01JE2X5M8Q4Z6T9K3B7C1D0FGH # facts, history and body\n"
		    "dlq show order-17 --body > order.json # the bytes, to edit and redrive with --body",
	.options = options,
	.client = true,
	.run = run,
};
