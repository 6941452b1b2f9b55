#include "cli/job.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/interrupt.h"
#include "cli/page.h"
#include "cli/preview.h"
#include "cli/term.h"

#define NOTES_SHOWN 3
#define DROPPED_MAX 20 /* ids that are left out of a job before it is given up */

/* How each action is spoken of. */
static const struct words {
	const char *action, *would, *past;
} all_words[] = {
	{"redrive", "put back", "put back"},
	{"discard", "discarded", "discarded"},
	{"archive", "given up", "given up"},
	{"restore", "dead again", "dead again"},
};

static const struct words *words_of(const char *action)
{
	for (size_t i = 0; i < ARRAY_LEN(all_words); i++)
		if (!strcmp(all_words[i].action, action))
			return &all_words[i];
	return &all_words[0];
}

/* ---- following one ---- */

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
	const char *phase = jstr(r, "phase"), *action = *jstr(r, "action") ? jstr(r, "action") : "redrive";
	/* A terminal has no room for the id beside what counts. */
	const char *id = term_is_tty(STDERR_FILENO) ? "" : jstr(r, "redrive_id"), *blank = *id ? " " : "";
	const char *past = words_of(action)->past;
	int64_t total = jint(r, "total"), n = jint(r, "sent") + jint(r, "skipped"), first = jint(r, "first");
	char a[32], b[32], ok[32], bad[32], left[64];

	if (first > total)
		first = total;
	count_format(n, a);
	count_format(jint(r, "succeeded"), ok);
	count_format(jint(r, "failed_again"), bad);
	if (!strcmp(phase, "selecting"))
		progress("%s%s%s: selecting: looked at %s, %s chosen", action, blank, id, count_format(jint(r, "looked"), a), count_format(total, b));
	else if (!strcmp(phase, "canary"))
		progress("%s%s%s: canary, %s of %s put back, %s succeeded, %s failed again", action, blank, id, a, count_format(first, b), ok, bad);
	else if (!strcmp(phase, "waiting"))
		progress("%s%s%s: waiting for the outcome of %s, %s succeeded, %s failed again", action, blank, id, a, ok, bad);
	else if (!strcmp(action, "redrive"))
		progress("%s%s%s: %s of %s put back, %s succeeded, %s failed again%s", action, blank, id, a, count_format(total, b), ok, bad,
			 !strcmp(phase, "ramp") ? time_left(total - n, went, ms, left) : "");
	else
		progress("%s%s%s: %s of %s %s%s", action, blank, id, a, count_format(total, b), past, time_left(total - n, went, ms, left));
}

/*
 * Polls until every member was handled, or it was paused, halted or cancelled, or Ctrl-C came. Takes r, gives its last document, or
 * NULL with err set.
 */
static json_t *job_wait(struct client *cl, json_t *r, bool show, struct dlq_err *err)
{
	int64_t from_ms = 0, from_n = 0;

	for (;;) {
		int64_t n = jint(r, "sent") + jint(r, "skipped");

		if (!from_ms && !strcmp(jstr(r, "phase"), "ramp")) {
			from_ms = mono_ms();
			from_n = n;
		}
		if (show)
			show_progress(r, n - from_n, from_ms ? mono_ms() - from_ms : 0);
		if (strcmp(jstr(r, "state"), "running") || interrupt_came())
			break;
		interrupt_pause(100);
		json_t *next = client_get(cl, err, "/v1/redrives/%s", jstr(r, "redrive_id"));
		if (!next)
			err_prefix(err, "following %s, which goes on in the server", jstr(r, "redrive_id"));
		json_decref(r);
		r = next;
		if (!r)
			break;
	}
	progress_end();
	return r;
}

/* ---- how it ended ---- */

struct notes {
	int shown;
};

static bool note_item(json_t *it, void *arg)
{
	struct notes *notes = arg;
	char safe[500];

	if (strcmp(jstr(it, "state"), "skipped"))
		return true;
	fprintf(stderr, "  %s  %s\n", jstr(it, "dlq_id"), text_safe(str_of(*jstr(it, "note") ? jstr(it, "note") : "changed meanwhile"), safe, sizeof(safe)));
	return ++notes->shown < NOTES_SHOWN;
}

/* Why the first few were skipped. */
static void show_skipped(struct client *cl, const json_t *r)
{
	struct notes notes = {0};
	struct dlq_err err = {0};
	char path[120], n[32];

	if (!jint(r, "skipped"))
		return;
	fprintf(stderr, "%s skipped:\n", count_format(jint(r, "skipped"), n));
	snprintf(path, sizeof(path), "/v1/redrives/%.40s/items", jstr(r, "redrive_id"));
	if (page_each(cl, path, 10000, note_item, &notes, &err))
		fprintf(stderr, "  (the ledger cannot be read: %s)\n", err.detail);
	if (jint(r, "skipped") > notes.shown)
		fprintf(stderr, "  all of them: dlq redrives show %s --items\n", jstr(r, "redrive_id"));
}

static void show_edited(const json_t *r)
{
	const json_t *e = json_object_get(r, "edited");
	char a[32], b[32], c[32];

	if (e)
		printf("edited: %s changed, %s unchanged, %s failed and skipped\n", count_format(jint(e, "changed"), a),
		       count_format(jint(e, "unchanged"), b), count_format(jint(e, "failed"), c));
}

static void next_steps(const json_t *r, bool halted)
{
	const char *id = jstr(r, "redrive_id"), *action = jstr(r, "action");

	const json_t *e = json_object_get(r, "edited");

	if (halted && e && !jint(e, "changed"))
		fprintf(stderr, "the edit changed none of them; `dlq edit` shows what one would do, before it is used\n");
	if (halted)
		fprintf(stderr,
			"dlq redrives show %s --items   which ones, and what became of them\n"
			"dlq redrives resume %s         go on all the same\n"
			"dlq redrives cancel %s         end it; the others stay dead\n",
			id, id, id);
	else if (!strcmp(action, "discard") || !strcmp(action, "archive"))
		fprintf(stderr, "take it back: dlq restore --undo %s --reason '...'\n", id);
	else if (!strcmp(action, "restore"))
		fprintf(stderr, "which ones: dlq redrives show %s --items\n", id);
	else
		fprintf(stderr, "what became of them: dlq redrives show %s\n", id);
}

/* Prints how it ended; the exit code. */
static int report(struct cli *c, struct client *cl, const json_t *r)
{
	const char *state = jstr(r, "state"), *past = words_of(jstr(r, "action"))->past;
	char sent[32], other[32], safe[600];
	bool done = !strcmp(state, "done"), halted = !strcmp(state, "halted");

	if (c->json) {
		json_line(r);
	} else if (!strcmp(state, "running")) {
		fprintf(stderr, "interrupted; the job goes on: dlq redrives show %s   (pause and cancel end it)\n", jstr(r, "redrive_id"));
	} else if (done && !jint(r, "total")) {
		if (!strcmp(jstr(r, "action"), "restore"))
			fprintf(stderr, "nothing fits: none of them is discarded or archived any more\n");
		else
			fprintf(stderr, "nothing fits: no dead letter was %s\n", past);
	} else if (halted) {
		printf("halted: %s\n", text_safe(str_of(jstr(r, "halted_why")), safe, sizeof(safe)));
		show_edited(r);
		printf("%s of %s were %s, the others were not touched\n", count_format(jint(r, "sent"), sent),
		       count_format(jint(r, "total"), other), past);
		fflush(stdout);
		next_steps(r, true);
	} else {
		show_edited(r);
		printf("%s %s, %s skipped (%s)\n", count_format(jint(r, "sent"), sent), past, count_format(jint(r, "skipped"), other), state);
		fflush(stdout); /* what is said below stands below */
		show_skipped(cl, r);
		next_steps(r, false);
	}
	return done && !jint(r, "skipped") ? 0 : EXIT_PARTIAL;
}

/* Follows the job r (taken) as the options say; the exit code. */
static int follow(struct cli *c, struct client *cl, json_t *r)
{
	struct dlq_err err = {0};
	int rc;

	if (cli_flag(c, "no-wait")) {
		if (c->json)
			json_line(r);
		else
			printf("%s\n", jstr(r, "redrive_id"));
		json_decref(r);
		return 0;
	}
	r = job_wait(cl, r, !c->json, &err);
	if (!r)
		return cli_fail(&err);
	rc = report(c, cl, r);
	json_decref(r);
	return rc;
}

int job_start(struct cli *c, struct client *cl, const char *path, json_t *body)
{
	struct dlq_err err = {0};

	interrupt_catch(); /* see start */
	json_t *r = client_json(cl, "POST", path, body, &err);

	return r ? follow(c, cl, r) : cli_fail(&err);
}

/* ---- before it starts ---- */

static void add_more(const struct job *j, json_t *body)
{
	json_object_set_new(body, "action", json_string(j->action));
	if (j->more)
		json_object_update(body, (json_t *)(uintptr_t)j->more);
}

/* What the server counts at once. -1: error printed, *rc set. */
static int64_t count_plain(const struct job *j, int *rc)
{
	const struct selection *s = j->sel;
	struct dlq_err err = {0};
	int64_t total = 0;
	int at = 0;

	do {
		json_t *body = json_pack("{s:b}", "dry_run", 1), *r;

		add_more(j, body);
		selection_add(s, at, body);
		r = client_json(j->cl, "POST", "/v1/redrives", body, &err);
		if (!r) {
			*rc = cli_fail(&err);
			return -1;
		}
		total += jint(r, "total");
		json_decref(r);
		at += SELECT_IDS_PER_CALL;
	} while (at < s->ids.n);
	return total;
}

/* How many it would be; *p says more, when the server had to look at them. -1: error printed, *rc set. */
static int64_t count(const struct job *j, struct preview *p, int *rc)
{
	const json_t *edit = json_object_get(j->more, "edit");
	struct dlq_err err = {0};

	if (selection_plain(j->sel) && !edit)
		return count_plain(j, rc);
	interrupt_catch();
	if (preview_run(j->cl, j->sel, j->action, edit, json_is_true(json_object_get(j->more, "override")), 0, !j->c->json, p, &err)) {
		*rc = cli_fail(&err);
		return -1;
	}
	if (p->scan.interrupted) {
		fprintf(stderr, "interrupted; nothing was changed\n");
		*rc = EXIT_PARTIAL;
		return -1;
	}
	if (scan_warn(&p->scan))
		*rc = EXIT_PARTIAL;
	return p->selected;
}

/* Before the question: what an edit would do. */
static void say_edit(const struct preview *p)
{
	char a[32], b[32], c[32];

	if (p->changed + p->unchanged + p->failed)
		fprintf(stderr, "the edit changes %s, leaves %s as they are and fails on %s, which would be skipped\n", count_format(p->changed, a),
			count_format(p->unchanged, b), count_format(p->failed, c));
}

static void dry_run(const struct job *j, const struct preview *p, int64_t total)
{
	const char *would = words_of(j->action)->would;
	bool edited = p->changed + p->unchanged + p->failed > 0;
	char n[32], a[32], b[32], d[32];

	if (j->c->json) {
		json_t *o = json_pack("{s:b, s:I}", "dry_run", 1, "total", (json_int_t)total);

		if (edited)
			json_object_set_new(o, "edited", json_pack("{s:I, s:I, s:I}", "changed", (json_int_t)p->changed, "unchanged",
								    (json_int_t)p->unchanged, "failed", (json_int_t)p->failed));
		if (p->over_limit)
			json_object_set_new(o, "over_limit", json_integer(p->over_limit));
		json_line(o);
		json_decref(o);
		return;
	}
	printf("%s dead letter%s would be %s\n", count_format(total, n), total == 1 ? "" : "s", would);
	if (edited)
		printf("edited: %s changed, %s unchanged, %s failed and skipped; `dlq edit` shows some\n", count_format(p->changed, a),
		       count_format(p->unchanged, b), count_format(p->failed, d));
	if (p->over_limit)
		printf("%s of them were redriven as often as allowed, and are skipped without --override\n", count_format(p->over_limit, n));
}

static void say_none(const struct job *j)
{
	bool restore = !strcmp(j->action, "restore");
	char what[200];

	selection_what(j->sel, what, sizeof(what));
	if (j->sel->ids.n || !selection_plain(j->sel) || restore)
		fprintf(stderr, "nothing fits: no %s was %s\n", restore ? "discarded or archived one" : "dead letter", words_of(j->action)->past);
	else
		fprintf(stderr, "%s has no dead letter\n", what);
}

/* Takes the id that err speaks of out of those from `at`. False: it speaks of none. */
static bool drop_id(struct ids *ids, int at, const struct dlq_err *err)
{
	if (err->code != DLQ_CONFLICT && err->code != DLQ_IN_REDRIVE && err->code != DLQ_NOT_FOUND)
		return false;
	for (int i = at; i < ids->n && i < at + SELECT_IDS_PER_CALL; i++)
		if (strstr(err->detail, ids->list[i])) {
			mem_free(ids->list[i]);
			memmove(&ids->list[i], &ids->list[i + 1], (size_t)(ids->n - i - 1) * sizeof(*ids->list));
			ids->n--;
			return true;
		}
	return false;
}

/*
 * Starts one job, of the ids from `at`. The server takes all of them or none: one that is not in the right state any more is named and
 * left out, up to DROPPED_MAX of them. NULL: *rc set, the error is printed; *rc is EXIT_PARTIAL when some were left out.
 */
static json_t *start(const struct job *j, int at, int *rc)
{
	struct ids *ids = &j->sel->ids;
	bool named = ids->n > 0;

	interrupt_catch(); /* once the request is out, Ctrl-C must say that the job goes on */
	for (int dropped = 0;; dropped++) {
		struct dlq_err err = {0};
		json_t *body = json_pack("{s:s}", "reason", cli_opt(j->c, "reason"));

		add_more(j, body);
		selection_add(j->sel, at, body);
		json_t *r = client_json(j->cl, "POST", "/v1/redrives", body, &err);
		if (r)
			return r;
		int failed = cli_fail(&err);
		if (dropped == DROPPED_MAX || !named || !drop_id(ids, at, &err) || at >= ids->n) {
			fprintf(stderr, "nothing was %s%s\n", words_of(j->action)->past, dropped == DROPPED_MAX ? "; too many do not fit" : "");
			*rc = failed;
			return NULL;
		}
		*rc = EXIT_PARTIAL;
	}
}

/* All of the selection, in as many jobs as its ids need. The exit code. */
static int start_all(const struct job *j)
{
	int worst = 0, at = 0;

	do {
		int rc = 0, ended = 0;
		json_t *r = start(j, at, &rc);

		if (r)
			ended = follow(j->c, j->cl, r);
		rc = ended > rc ? ended : rc;
		worst = rc > worst ? rc : worst;
		at += SELECT_IDS_PER_CALL;
		/* A halt stops the rest, too. */
		if (!r || ended > EXIT_PARTIAL || (ended && json_object_get(j->more, "first")) || interrupt_came())
			break;
	} while (at < j->sel->ids.n);
	return worst;
}

int job_run(const struct job *j)
{
	struct preview p = {0};
	bool dry = cli_flag(j->c, "dry-run"), plain = selection_plain(j->sel) && !json_object_get(j->more, "edit");
	int64_t total = j->sel->ids.n;
	int rc = 0;

	/* With --yes nobody waits for a count that has to look at everything. */
	if (dry || (!j->sel->ids.n && (plain || !cli_flag(j->c, "yes"))))
		total = count(j, &p, &rc);
	else if (!j->sel->ids.n)
		total = 1;
	if (total < 0)
		goto out;
	if (dry) {
		dry_run(j, &p, total);
		rc = p.failed ? EXIT_PARTIAL : rc;
	} else if (!total) {
		say_none(j);
	} else {
		say_edit(&p);
		if (j->sel->ids.n || confirm(j->c, total, j->action, &rc))
			rc = start_all(j);
	}
out:
	preview_release(&p);
	return rc;
}

bool job_reason(struct cli *c, const char *example)
{
	const char *reason = cli_opt(c, "reason");

	if (cli_flag(c, "dry-run") || (reason && *reason))
		return true;
	cli_usage(c, "--reason is needed: say for the audit log why, such as %s", example);
	return false;
}

/* ---- discard, archive, restore ---- */

/* One id: at its own address. */
static int one(struct cli *c, struct client *cl, const struct selection *s, const char *action, const char *past, const char *hint)
{
	struct dlq_err err = {0};
	struct buf path = {0};
	int rc = 0;

	buf_addz(&path, "/v1/dead-letters/");
	url_escape(&path, s->ids.list[0]);
	buf_addf(&path, "/%s", action);
	buf_addc(&path, 0);
	json_t *r = client_json(cl, "POST", path.p, json_pack("{s:s}", "reason", cli_opt(c, "reason")), &err);
	buf_release(&path);
	if (!r)
		rc = cli_fail(&err);
	else if (c->json)
		json_line(r);
	else
		fprintf(stderr, "%s %s; %s\n", jstr(r, "dlq_id"), past, hint);
	json_decref(r);
	return rc;
}

int job_command(struct cli *c, const char *action, const char *past, const char *hint, const char *example)
{
	struct selection s = {0};
	struct client *cl = NULL;
	struct dlq_err err = {0};
	int rc = EXIT_USAGE;

	if (!job_reason(c, example))
		goto out;
	rc = selection_read(c, SELECT_IDS, &s);
	if (rc)
		goto out;
	if (s.ids.n > 1 && !cli_flag(c, "dry-run") && !confirm(c, s.ids.n, action, &rc))
		goto out;
	cl = client_open(c, &rc);
	if (!cl)
		goto out;
	const struct job j = {.c = c, .cl = cl, .sel = &s, .action = action};
	if (selection_resolve(c, cl, &s, &err))
		rc = cli_fail(&err);
	else if (s.ids.n == 1 && !cli_flag(c, "dry-run"))
		rc = one(c, cl, &s, action, past, hint);
	else
		rc = job_run(&j);
out:
	client_free(cl);
	selection_release(&s);
	return rc;
}
