/* guard.c - the rules of guarded redrives. */
#include "engine/guard.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

bool guard_set(const struct redrive_guard *g)
{
	return g->first || g->rate > 0 || g->stop_count || g->stop_percent > 0;
}

enum dlq_code guard_check(const struct redrive_guard *g, struct dlq_err *err)
{
	if (g->first < 0 || g->first > GUARD_COUNT_MAX)
		return err_set(err, DLQ_BAD_REQUEST, "first is %" PRId64 ", it must be 0 (no canary) to %" PRId64,
		               g->first, GUARD_COUNT_MAX);
	if (g->canary_wait_ms && (g->canary_wait_ms < 1000 || g->canary_wait_ms > CANARY_WAIT_MAX_MS))
		return err_set(err, DLQ_BAD_REQUEST, "canary_wait is %" PRId64 " ms, it must be 1s to 7d",
		               g->canary_wait_ms);
	if (g->canary_wait_ms && !g->first)
		return err_set(err, DLQ_BAD_REQUEST,
		               "canary_wait needs first: how many messages are put back before the wait");
	if (!isfinite(g->rate) || (g->rate != 0 && (g->rate < GUARD_RATE_MIN || g->rate > GUARD_RATE_MAX)))
		return err_set(err, DLQ_BAD_REQUEST,
		               "rate is %g messages a second, it must be %g to %g, or left out for no limit", g->rate,
		               GUARD_RATE_MIN, GUARD_RATE_MAX);
	if (g->stop_count < 0 || g->stop_count > GUARD_COUNT_MAX)
		return err_set(err, DLQ_BAD_REQUEST, "stop_at is %" PRId64 " failures, it must be 1 to %" PRId64,
		               g->stop_count, GUARD_COUNT_MAX);
	if (!(g->stop_percent >= 0 && g->stop_percent < 100))
		return err_set(err, DLQ_BAD_REQUEST,
		               "stop_at is %g%%, it must be below 100%% and not negative: more than 100%% cannot fail",
		               g->stop_percent);
	return DLQ_OK;
}

void guard_describe(const struct redrive_guard *g, struct buf *out)
{
	char wait[32];
	duration_human(g->canary_wait_ms ? g->canary_wait_ms : CANARY_WAIT_DEFAULT_MS, wait);
	if (g->first)
		buf_addf(out, ", first %" PRId64 " and up to %s for their outcomes", g->first, wait);
	if (g->rate > 0)
		buf_addf(out, ", %g/s", g->rate);
	if (g->stop_count)
		buf_addf(out, ", stop at %" PRId64 " failures", g->stop_count);
	if (g->stop_percent > 0)
		buf_addf(out, ", stop above %g%% failures", g->stop_percent);
}

enum guard_phase guard_phase(const struct store_redrive *r)
{
	if (r->plan.n && r->plan_next > 0)
		return GUARD_SELECTING;
	if (!r->guard.first || r->canary_until == CANARY_PASSED)
		return GUARD_RAMP;
	return r->canary_until > 0 ? GUARD_WAIT : GUARD_CANARY;
}

/* 33.3, 10, 0.5 */
static void percent_text(double p, char out[32])
{
	snprintf(out, 32, p == floor(p) ? "%.0f" : "%.1f", p);
}

/* of: how many outcomes there are; what: "canary messages", "messages with an outcome". */
static bool too_many(const struct redrive_guard *g, int64_t failed, int64_t of, int64_t least, const char *what,
                     char why[GUARD_WHY_MAX])
{
	double percent = of ? 100.0 * (double)failed / (double)of : 0;
	char is[32], limit[32];
	if (g->stop_count && failed >= g->stop_count) {
		snprintf(why, GUARD_WHY_MAX,
		         "%" PRId64 " of %" PRId64 " %s failed again (the limit is %" PRId64 ")", failed, of, what,
		         g->stop_count);
		return true;
	}
	if (g->stop_percent > 0 && of >= least && percent > g->stop_percent) {
		percent_text(percent, is);
		percent_text(g->stop_percent, limit);
		snprintf(why, GUARD_WHY_MAX, "%" PRId64 " of %" PRId64 " %s failed again (%s%% > %s%%)", failed, of, what,
		         is, limit);
		return true;
	}
	return false;
}

static enum guard_verdict judge_canary(const struct store_redrive *r, int64_t now, char why[GUARD_WHY_MAX])
{
	const struct redrive_guard *g = &r->guard;
	int64_t known = r->succeeded + r->failed_again, missing = r->sent - known;
	if (g->stop_count && r->failed_again >= g->stop_count && too_many(g, r->failed_again, known, 1, "canary messages", why))
		return GUARD_HALT; /* no outcome that is still missing can mend it */
	if (missing > 0 && now < r->canary_until)
		return GUARD_GO_ON;
	if (missing > 0) {
		char wait[32];
		duration_human(g->canary_wait_ms ? g->canary_wait_ms : CANARY_WAIT_DEFAULT_MS, wait);
		snprintf(why, GUARD_WHY_MAX,
		         "%" PRId64 " of %" PRId64 " canary outcomes are missing after %s (%" PRId64
		         " succeeded, %" PRId64 " failed again): these messages wait for a worker or for a retry",
		         missing, r->sent, wait, r->succeeded, r->failed_again);
		return GUARD_HALT;
	}
	if (too_many(g, r->failed_again, known, 1, "canary messages", why))
		return GUARD_HALT;
	if (r->failed_again && !g->stop_count && g->stop_percent <= 0) {
		snprintf(why, GUARD_WHY_MAX, "%" PRId64 " of %" PRId64 " canary messages failed again (no stop_at is set)",
		         r->failed_again, known);
		return GUARD_HALT;
	}
	return GUARD_PASSED;
}

enum guard_verdict guard_judge(const struct store_redrive *r, const struct guard_base *base, int64_t now,
                               char why[GUARD_WHY_MAX])
{
	int64_t failed = r->failed_again - base->failed, known = r->succeeded - base->succeeded + failed;
	if (guard_phase(r) == GUARD_WAIT)
		return judge_canary(r, now, why);
	return too_many(&r->guard, failed, known, GUARD_OUTCOMES_MIN, "messages with an outcome", why) ? GUARD_HALT
	                                                                                                : GUARD_GO_ON;
}

/* ---- the rate ---- */

static double filled(const struct guard_bucket *b, double rate, int64_t now)
{
	double most = rate > 1 ? rate : 1;
	double t = b->at && now > b->at ? b->tokens + rate * (double)(now - b->at) / 1000.0 : b->tokens;
	return t > most ? most : t;
}

int guard_take(struct guard_bucket *b, double rate, int64_t now, int max)
{
	double t = filled(b, rate, now);
	int n = t >= (double)max ? max : (int)(t + 1e-6); /* the sum of many small parts of one */
	b->tokens = t > n ? t - n : 0;
	b->at = now;
	return n;
}

int64_t guard_next(const struct guard_bucket *b, double rate, int64_t now)
{
	double want = rate > 10 ? rate / 10 : 1, have = filled(b, rate, now);
	if (!b->at || have >= want)
		return now + 1;
	double ms = ceil((want - have) * 1000.0 / rate);
	return now + (ms < 1 ? 1 : ms > 3600000 ? 3600000 : (int64_t)ms);
}
