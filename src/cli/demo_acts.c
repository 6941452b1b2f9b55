/* demo_acts.c - what happens in the demo, act by act, each with the command that a person would type. */
#include <stdio.h>
#include <string.h>

#include "cli/demo.h"
#include "cli/interrupt.h"
#include "cli/preview.h"
#include "cli/show.h"
#include "cli/term.h"

#define DEADLINE_MS (300 * 1000)
/* The SKUs say %2F. */
#define WRONG_PROGRAM ".sku |= gsub(\"%2f\"; \"/\")"
#define RIGHT_PROGRAM ".sku |= gsub(\"%2F\"; \"/\")"

/* ---- watching ---- */

/* Draws until enough() holds. */
static enum dlq_code watch(struct demo *d, const char *phase, bool (*enough)(const struct demo *d, const struct demo_counts *n),
			   struct dlq_err *err)
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
		if (interrupt_came())
			return err_set(err, DLQ_TIMEOUT, "interrupted; the queue %s stays as it is", d->queue);
		if (demo_now_ms() > deadline)
			return err_set(err, DLQ_TIMEOUT, "the demo did not get there in time: %lld done, %lld dead", (long long)n.done,
				       (long long)n.dead);
		interrupt_pause(100);
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
		if (ok && (interrupt_came() || demo_now_ms() > deadline)) {
			err_set(err, DLQ_TIMEOUT, "the redrive %s did not end in time", jstr(r, "redrive_id"));
			ok = false;
		}
		json_t *next = NULL;
		if (ok) {
			interrupt_pause(100);
			next = client_get(d->client, err, "/v1/redrives/%s", jstr(r, "redrive_id"));
		}
		json_decref(r);
		r = next;
	}
	return r;
}

static void prompt(const char *fmt, ...) PRINTF_LIKE(1, 2);
static void prompt(const char *fmt, ...)
{
	va_list ap;

	printf("\n  %s$ ", term_dim());
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("%s\n\n", term_reset());
	fflush(stdout);
}

static void breathe(const struct demo *d)
{
	if (d->tty && !d->fast)
		interrupt_pause(2500);
}

/* ---- what is dead, and why ---- */

/* The one group of the queue that has dead letters, and its diagnosis on the screen. */
static enum dlq_code one_group(struct demo *d, struct dlq_err *err)
{
	json_t *page = client_get(d->client, err, "/v1/groups?queue=%s&dead=true&limit=10", d->queue);
	const json_t *items = json_object_get(page, "items"), *g = json_array_get(items, 0);
	char safe[200], n[32];

	if (!page)
		return err->code;
	if (json_array_size(items) != 1 || jint(g, "dead") != d->bad) {
		enum dlq_code code = err_set(err, DLQ_INTERNAL, "%zu groups have dead letters, not one with %d", json_array_size(items), d->bad);

		json_decref(page);
		return code;
	}
	snprintf(d->group, sizeof(d->group), "%s", jstr(g, "group"));
	demo_say("What the person on call sees: %s dead letters, one cause. The other orders went through.", count_format(d->bad, n));
	prompt("dlq groups show %.*s", GROUP_ID_SHORT, d->group);
	printf("%s: ", jstr(g, "error_type"));
	printf("%s\n", text_safe(str_of(jstr(g, "message")), safe, sizeof(safe)));
	group_show_diagnosis(g);
	fflush(stdout);
	json_decref(page);
	return DLQ_OK;
}

/* One of them, with its evidence. */
static enum dlq_code show_one(struct demo *d, struct dlq_err *err)
{
	json_t *page = client_get(d->client, err, "/v1/dead-letters?queue=%s&error_type=EncodeError&limit=1", d->queue), *one = NULL;

	if (page)
		one = client_get(d->client, err, "/v1/dead-letters/%s", jstr(json_array_get(json_object_get(page, "items"), 0), "dlq_id"));
	json_decref(page);
	if (!one)
		return err->code;
	snprintf(d->one, sizeof(d->one), "%s", jstr(one, "dlq_id"));
	prompt("dlq show %s", d->one);
	printf("  message %s of queue %s, reason %s after %lld attempts\n", jstr(one, "id"), jstr(one, "queue"), jstr(one, "reason"),
	       (long long)jint(one, "attempts"));
	show_history(one);
	fflush(stdout);
	json_decref(one);
	return DLQ_OK;
}

/* ---- repairs ---- */

static json_t *repair(struct demo *d, const char *program, const char *reason, const char *phase, struct dlq_err *err)
{
	prompt("dlq redrive --group %.*s --jq '%s' --first %d --stop-at 10%% --reason '%s'", GROUP_ID_SHORT, d->group, program, d->first, reason);
	json_t *r = client_json(d->client, "POST", "/v1/redrives",
				json_pack("{s:s, s:{s:s}, s:s, s:i, s:s}", "group", d->group, "edit", "jq", program, "reason", reason, "first",
					  d->first, "stop_at", "10%"),
				err);
	return watch_redrive(d, r, phase, err);
}

/* In a hurry: a program that does not touch what is broken. */
static enum dlq_code wrong_repair(struct demo *d, struct dlq_err *err)
{
	char path[120], why[400];
	json_t *r;

	demo_say("Somebody in a hurry decodes %%2f, but these SKUs say %%2F, and nobody looked first. The redrive tries %d:", d->first);
	r = repair(d, WRONG_PROGRAM, "decode the SKUs", "the first ones fail again", err);
	if (!r)
		return err->code;
	enum dlq_code code = DLQ_OK;
	if (strcmp(jstr(r, "state"), "halted") || jint(r, "sent") != d->first)
		code = err_set(err, DLQ_INTERNAL, "the redrive is %s after %lld messages, not halted after %d", jstr(r, "state"),
			       (long long)jint(r, "sent"), d->first);
	printf("\n  %shalted by itself:%s %s\n", term_yellow(), term_reset(), text_safe(str_of(jstr(r, "halted_why")), why, sizeof(why)));
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

/* Looking first: nothing is changed by it. */
static enum dlq_code look_first(struct demo *d, struct dlq_err *err)
{
	struct selection s = {0};
	struct preview p = {0};
	json_t *edit = json_pack("{s:s}", "jq", RIGHT_PROGRAM);

	demo_say("The right program, looked at before it is used. Nothing is changed by looking:");
	prompt("dlq edit --group %.*s --jq '%s' --show 2", GROUP_ID_SHORT, d->group, RIGHT_PROGRAM);
	snprintf(s.group, sizeof(s.group), "%s", d->group);
	enum dlq_code code = preview_run(d->client, &s, "redrive", edit, false, 2, false, &p, err);
	if (!code)
		preview_print(&p);
	if (!code && p.changed != d->bad)
		code = err_set(err, DLQ_INTERNAL, "the repair would change %lld dead letters, not %d", (long long)p.changed, d->bad);
	fflush(stdout);
	preview_release(&p);
	json_decref(edit);
	return code;
}

static enum dlq_code right_repair(struct demo *d, struct dlq_err *err)
{
	char id[40];
	json_t *r;

	demo_say("The same program puts them back repaired: %d first, and when these succeed all others:", d->first);
	r = repair(d, RIGHT_PROGRAM, "SKUs decoded", "the repaired orders at work", err);
	if (!r)
		return err->code;
	bool done = !strcmp(jstr(r, "state"), "done");
	if (!done)
		err_set(err, DLQ_INTERNAL, "the redrive is %s: %s", jstr(r, "state"), jstr(r, "halted_why"));
	snprintf(id, sizeof(id), "%s", jstr(r, "redrive_id"));
	json_decref(r);
	if (!done || watch(d, "the repaired orders at work", all_done, err))
		return err->code;
	r = client_get(d->client, err, "/v1/redrives/%s", id);
	d->ledger = jint(r, "succeeded");
	json_decref(r);
	return r ? DLQ_OK : err->code;
}

enum dlq_code demo_acts(struct demo *d, struct dlq_err *err)
{
	enum dlq_code code = watch(d, "orders come in", all_settled, err);

	if (!code)
		code = one_group(d, err);
	if (!code)
		code = show_one(d, err);
	breathe(d);
	if (!code)
		code = wrong_repair(d, err);
	breathe(d);
	if (!code)
		code = look_first(d, err);
	breathe(d);
	return code ? code : right_repair(d, err);
}

/* ---- the account ---- */

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

/* Whether the SKU of the one that was shown, as it was sent (original) or delivered, has `part`. */
static bool body_has(struct demo *d, bool original, const char *part)
{
	struct dlq_err err = {0};
	char path[120];

	snprintf(path, sizeof(path), "/v1/dead-letters/%s/body%s", d->one, original ? "?original=true" : "");
	struct client_call call = {.method = "GET", .path = path};
	bool has = !client_call(d->client, &call, &err) && call.reply.n && memmem(call.reply.p, call.reply.n, part, strlen(part));
	client_call_clear(&call);
	return has;
}

bool demo_account(struct demo *d, const struct demo_counts *n)
{
	char a[32], b[32];
	int once = 0;
	bool ok = true;

	for (int i = 1; i <= d->orders; i++)
		once += atomic_load(&d->done[i]) == 1;
	demo_say("The account");
	printf("\n");
	ok &= check(n->sent == d->orders && n->done == d->orders, "%s sent = %s done", count_format(n->sent, a), count_format(n->done, b));
	ok &= check(n->died == d->bad + d->first && n->redriven == d->bad,
		    "%s dead letters = %s redriven, %d of which died twice; every attempt is kept", count_format(d->bad, a),
		    count_format(n->redriven, b), d->first);
	ok &= check(d->ledger == d->bad, "%s of %s in the ledger of the repair succeeded", count_format(d->ledger, a), count_format(d->bad, b));
	ok &= check(body_has(d, true, "%2F") && body_has(d, false, "/"), "the bodies as they were sent are kept beside the repaired ones");
	ok &= check(!n->dead && !n->ready && !n->leased && !n->redriving, "nothing waits, nothing is dead, nothing got lost");
	ok &= check(once == d->orders, "%s of %s orders were worked successfully exactly once", count_format(once, a), count_format(d->orders, b));
	return ok;
}
