/*
 * The rules, in this order; the first that holds names the kind:
 *
 *   outage      the queue's success rate collapsed while the group failed: deliveries of the window succeed in at most half,
 *               40 points less than in the hour before (or, without a before, in at most a tenth), and so do its messages
 *   bad_deploy  it fails on one worker version, which was not seen failing before the group began, while another version was at
 *               work within the hour before, in a queue that worked until then; its messages do not heal
 *   poison      its messages fail on every attempt (at most 5 % ever recover) while the queue's others succeed
 *   flaky       at least half of its messages with an outcome recovered by a retry
 *   unknown     too few to say, or none of these
 *
 * Confidence grows with the number of messages, and with what else fits.
 */
#include "core/diagnosis.h"

#include <stdio.h>
#include <string.h>

#define COUNT_MAX ((int64_t)1000000000000000) /* facts above it count as this: sums stay far from the end of int64 */
#define SOON_MS (5 * 60000)
#define HOUR_MS ((int64_t)60 * 60000)
#define OUTAGE_DELIVERIES 20 /* at least so many in the window, and before */
#define OUTAGE_FAILURES 10
#define POISON_DEATHS 3
#define FLAKY_OUTCOMES 5
#define DEPLOY_FAILURES 10

static const char *const names[DIAGNOSIS_KIND_COUNT] = {
	[DIAGNOSIS_UNKNOWN] = "unknown", [DIAGNOSIS_POISON] = "poison",         [DIAGNOSIS_OUTAGE] = "outage",
	[DIAGNOSIS_FLAKY] = "flaky",     [DIAGNOSIS_BAD_DEPLOY] = "bad_deploy",
};

static const char *const advice[DIAGNOSIS_KIND_COUNT] = {
	[DIAGNOSIS_UNKNOWN] = "look at the samples and their history before anything is put back",
	[DIAGNOSIS_POISON] = "repair the payloads or the worker, then redrive a few first: a retry alone will not heal them",
	[DIAGNOSIS_OUTAGE] = "wait until what they depend on works again, then redrive a few first and the rest at a limited rate",
	[DIAGNOSIS_FLAKY] = "redrive them at a limited rate; more attempts or a longer backoff would save most of them",
	[DIAGNOSIS_BAD_DEPLOY] = "roll the worker back or fix it, then redrive a few first",
};

const char *diagnosis_name(enum diagnosis_kind k)
{
	return k >= 0 && k < DIAGNOSIS_KIND_COUNT ? names[k] : "unknown";
}

/* The facts without nonsense, and what follows from them. */
struct view {
	struct diagnosis_facts f;
	int64_t died, decided;     /* messages that died, a second death not counted; with those that recovered */
	int64_t window, before;    /* deliveries */
	double rate, rate_before;  /* of them succeeded, 0 to 1; meaningless without deliveries */
	double recovered;          /* of decided, 0 to 1 */
	double neighbours;         /* queue_done of it and died, 0 to 1 */
};

static int64_t count(int64_t n)
{
	return n < 0 ? 0 : n > COUNT_MAX ? COUNT_MAX : n;
}

static double share(int64_t part, int64_t of)
{
	return of > 0 ? (double)part / (double)of : 0;
}

static void view_init(struct view *v, const struct diagnosis_facts *f)
{
	struct diagnosis_facts *c = &v->f;

	memset(v, 0, sizeof(*v));
	*c = *f;
	c->failures = count(f->failures);
	c->deaths = count(f->deaths);
	c->recovered = count(f->recovered);
	c->failed_again = count(f->failed_again);
	c->workers = (int)count(f->workers);
	c->worker_versions = (int)count(f->worker_versions);
	c->version_first_ms = count(f->version_first_ms);
	c->other_version_ms = count(f->other_version_ms);
	c->first_seen_ms = count(f->first_seen_ms);
	c->last_seen_ms = count(f->last_seen_ms);
	c->queue_done = count(f->queue_done);
	c->queue_failures = count(f->queue_failures);
	c->queue_workers = (int)count(f->queue_workers);
	c->groups_started = (int)count(f->groups_started);
	c->groups_failures = count(f->groups_failures);
	c->before_done = count(f->before_done);
	c->before_failures = count(f->before_failures);
	v->died = c->deaths > c->failed_again ? c->deaths - c->failed_again : c->deaths > 0 ? 1 : 0;
	v->decided = v->died + c->recovered;
	v->window = c->queue_done + c->queue_failures;
	v->before = c->before_done + c->before_failures;
	v->rate = share(c->queue_done, v->window);
	v->rate_before = share(c->before_done, v->before);
	v->recovered = share(c->recovered, v->decided);
	v->neighbours = share(c->queue_done, c->queue_done + v->died);
}

/* ---- evidence ---- */

#define N_MAX 32
#define N(v) commas(v, (char[N_MAX]){0})
static const char *commas(int64_t v, char out[N_MAX])
{
	char digits[24];
	int n = snprintf(digits, sizeof(digits), "%lld", (long long)v), at = 0;

	for (int i = 0; i < n; i++) {
		if (i && (n - i) % 3 == 0)
			out[at++] = ',';
		out[at++] = digits[i];
	}
	out[at] = '\0';
	return out;
}

static int percent(double rate)
{
	return (int)(rate * 100 + 0.5);
}

static void say(struct diagnosis *d, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void say(struct diagnosis *d, const char *fmt, ...)
{
	va_list ap;

	if (d->n_evidence == DIAGNOSIS_EVIDENCE_MAX)
		return;
	va_start(ap, fmt);
	vsnprintf(d->evidence[d->n_evidence++], sizeof(d->evidence[0]), fmt, ap);
	va_end(ap);
}

static const char *plural(int64_t n)
{
	return n == 1 ? "" : "s";
}

static void say_outcomes(struct diagnosis *d, const struct view *v)
{
	if (!v->decided)
		say(d, "%s failed deliver%s; no message has an outcome yet", N(v->f.failures), v->f.failures == 1 ? "y" : "ies");
	else if (!v->f.recovered)
		say(d, "%s of %s message%s failed on every attempt", N(v->died), N(v->decided), plural(v->decided));
	else
		say(d, "%s of %s message%s failed on every attempt, %s succeeded on a later one", N(v->died), N(v->decided),
		    plural(v->decided), N(v->f.recovered));
	if (v->f.failed_again)
		say(d, "%s failed again after a redrive", N(v->f.failed_again));
}

static void say_workers(struct diagnosis *d, const struct view *v)
{
	if (v->f.workers == 1 && v->f.queue_workers > 1)
		say(d, "on one worker only, of %d that fail in this queue", v->f.queue_workers);
	else if (v->f.workers > 1)
		say(d, "on %d workers, so not one of them alone", v->f.workers);
}

static void say_versions(struct diagnosis *d, const struct view *v)
{
	if (v->f.worker_versions > 1)
		say(d, "on %d worker versions", v->f.worker_versions);
}

static void say_neighbours(struct diagnosis *d, const struct view *v)
{
	if (v->window)
		say(d, "meanwhile %s other deliver%s of the queue succeeded", N(v->f.queue_done), v->f.queue_done == 1 ? "y" : "ies");
}

static void say_rate(struct diagnosis *d, const struct view *v)
{
	if (!v->window)
		return;
	if (v->before)
		say(d, "%d %% of the queue's deliveries succeeded while it failed, %d %% in the hour before", percent(v->rate),
		    percent(v->rate_before));
	else
		say(d, "%d %% of the queue's %s deliveries succeeded while it failed", percent(v->rate), N(v->window));
}

static void say_groups(struct diagnosis *d, const struct view *v)
{
	if (v->f.groups_started > 1)
		say(d, "%d kinds of failure began within 5 minutes of each other, %s failures together", v->f.groups_started,
		    N(v->f.groups_failures));
}

/* ---- confidence ---- */

static int amount(int64_t n)
{
	static const struct {
		int64_t below;
		int confidence;
	} steps[] = {{3, 15}, {5, 25}, {10, 45}, {30, 60}, {100, 70}};

	for (size_t i = 0; i < ARRAY_LEN(steps); i++)
		if (n < steps[i].below)
			return steps[i].confidence;
	return 80;
}

static void conclude(struct diagnosis *d, enum diagnosis_kind kind, int confidence)
{
	d->kind = kind;
	d->confidence = confidence < 5 ? 5 : confidence > 95 ? 95 : confidence;
}

/* ---- the rules ---- */

static bool outage(const struct view *v, struct diagnosis *d)
{
	bool known = v->before >= OUTAGE_DELIVERIES;

	if (v->window < OUTAGE_DELIVERIES || v->f.failures < OUTAGE_FAILURES || v->rate > 0.5)
		return false;
	if (v->died > 0 && v->neighbours >= 0.5)
		return false; /* many attempts of few messages, not many messages */
	if (known ? v->rate_before - v->rate < 0.4 : v->rate > 0.1)
		return false;
	say_rate(d, v);
	say_groups(d, v);
	say_workers(d, v);
	say_outcomes(d, v);
	conclude(d, DIAGNOSIS_OUTAGE,
	         amount(v->f.failures) - 10 - (known ? 0 : 25) + (v->f.groups_started > 1 ? 10 : 0) + (v->f.workers > 1 ? 5 : -10));
	return true;
}

static bool bad_deploy(const struct view *v, struct diagnosis *d)
{
	const struct diagnosis_facts *f = &v->f;

	if (f->worker_versions != 1 || !f->version_first_ms || f->failures < DEPLOY_FAILURES || !v->died)
		return false;
	if (v->recovered > 0.2 || v->before < OUTAGE_DELIVERIES || v->rate_before < 0.9)
		return false;
	if (f->version_first_ms < f->first_seen_ms - SOON_MS || f->version_first_ms > f->first_seen_ms + SOON_MS)
		return false; /* the version failed before, or came later */
	/* A fleet that runs one version all the time fails on one version whatever the cause. */
	if (!f->other_version_ms || f->other_version_ms < f->first_seen_ms - HOUR_MS)
		return false;
	say(d, "all %s failures come from one worker version", N(f->failures));
	say(d, "it began when that version was first seen failing; another was at work within the hour before");
	say(d, "%d %% of the queue's deliveries succeeded in the hour before", percent(v->rate_before));
	say_groups(d, v);
	say_outcomes(d, v);
	say_workers(d, v);
	conclude(d, DIAGNOSIS_BAD_DEPLOY, amount(v->died) - 10 + (f->groups_started > 1 ? 10 : 0) + (f->workers > 1 ? 5 : 0));
	return true;
}

static bool poison(const struct view *v, struct diagnosis *d)
{
	if (v->died < POISON_DEATHS || v->recovered > 0.05 || v->neighbours < 0.5)
		return false;
	say_outcomes(d, v);
	say_workers(d, v);
	say_neighbours(d, v);
	say_versions(d, v);
	conclude(d, DIAGNOSIS_POISON,
	         amount(v->died) + (v->f.workers > 1 ? 10 : v->f.queue_workers > 1 ? -20 : 0) + (v->f.failed_again ? 5 : 0) +
	         (v->f.recovered ? -10 : 0));
	return true;
}

static bool flaky(const struct view *v, struct diagnosis *d)
{
	if (v->decided < FLAKY_OUTCOMES || v->recovered < 0.5)
		return false;
	say(d, "%s of %s messages that failed this way succeeded on a later attempt", N(v->f.recovered), N(v->decided));
	if (v->died)
		say(d, "%s used up all attempts", N(v->died));
	say_workers(d, v);
	say_rate(d, v);
	conclude(d, DIAGNOSIS_FLAKY, amount(v->decided) + (v->recovered >= 0.9 ? 10 : v->recovered < 0.7 ? -20 : 0));
	return true;
}

static void unknown(const struct view *v, struct diagnosis *d)
{
	if (v->decided && v->decided < POISON_DEATHS)
		say(d, "too few to say: %s message%s with an outcome", N(v->decided), plural(v->decided));
	say_outcomes(d, v);
	say_rate(d, v);
	say_workers(d, v);
	say_versions(d, v);
	d->kind = DIAGNOSIS_UNKNOWN;
	d->confidence = 0;
}

void diagnose(const struct diagnosis_facts *f, struct diagnosis *out)
{
	struct view v;

	memset(out, 0, sizeof(*out));
	view_init(&v, f);
	if (!outage(&v, out) && !bad_deploy(&v, out) && !poison(&v, out) && !flaky(&v, out))
		unknown(&v, out);
	snprintf(out->advice, sizeof(out->advice), "%s", advice[out->kind]);
}
