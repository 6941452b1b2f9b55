#include "core/policy.h"

static const char *const outcome_names[OUTCOME_COUNT] = {
    [OUTCOME_OK] = "ok",           [OUTCOME_TRANSIENT] = "transient",         [OUTCOME_PERMANENT] = "permanent",
    [OUTCOME_RELEASE] = "release", [OUTCOME_LEASE_EXPIRED] = "lease_expired",
};

const char *outcome_name(enum outcome o)
{
	ASSERT((unsigned)o < OUTCOME_COUNT);
	return outcome_names[o];
}

bool outcome_parse(struct str s, enum outcome *out)
{
	for (int i = 0; i < OUTCOME_LEASE_EXPIRED; i++) {
		if (str_eqz(s, outcome_names[i])) {
			*out = (enum outcome)i;
			return true;
		}
	}
	return false;
}

const char *effect_name(enum effect_kind k)
{
	static const char *const names[] = {"done", "retry", "release", "dead"};
	ASSERT((unsigned)k < ARRAY_LEN(names));
	return names[k];
}

static int64_t clamp(int64_t v, int64_t max)
{
	return v < 0 ? 0 : v > max ? max : v;
}

/* A time that cannot be passed by addition: the end of time is a time. */
static int64_t after(int64_t now_ms, int64_t delay_ms)
{
	int64_t at;
	return __builtin_add_overflow(now_ms, delay_ms, &at) ? INT64_MAX : at;
}

static struct effect dead(struct effect e, enum reason reason)
{
	e.kind = EFFECT_DEAD;
	e.reason = reason;
	return e;
}

/* e.attempts failures so far, this one included. */
static struct effect retry(struct effect e, const struct route_msg *msg, const struct policy *policy,
                           const struct route_outcome *outcome, int64_t now_ms, double random)
{
	int64_t delay = backoff_delay_ms(&policy->backoff, e.attempts);
	delay = jitter_apply(&policy->jitter, &policy->backoff, delay, msg->previous_delay_ms, random);
	/* A promise: jitter and backoff may make it later, never earlier. */
	int64_t promised = clamp(outcome->retry_after_ms, RETRY_AFTER_MAX_MS);
	e.kind = EFFECT_RETRY;
	e.delay_ms = delay > promised ? delay : promised;
	e.at_ms = after(now_ms, e.delay_ms);
	return e;
}

struct effect route(const struct route_msg *msg, const struct policy *policy, const struct route_outcome *outcome,
                    int64_t now_ms, double random)
{
	struct effect e = {.reason = REASON_NONE, .attempts = msg->attempts, .lease_expirations = msg->lease_expirations};
	switch (outcome->kind) {
	case OUTCOME_OK:
		e.kind = EFFECT_DONE;
		return e;
	case OUTCOME_RELEASE:
		e.kind = EFFECT_RELEASE;
		e.at_ms = after(now_ms, clamp(outcome->delay_ms, DURATION_MAX_MS));
		return e;
	case OUTCOME_PERMANENT:
		e.attempts++;
		return dead(e, REASON_PERMANENT);
	case OUTCOME_LEASE_EXPIRED:
		e.lease_expirations++;
		if (e.lease_expirations >= policy->crash_limit) {
			e.attempts++;
			return dead(e, REASON_LEASE_EXPIRED);
		}
		break;
	case OUTCOME_TRANSIENT:
		break;
	case OUTCOME_COUNT:
		ASSERT(!"an outcome that is none");
	}
	e.attempts++;
	if (e.attempts >= policy->max_attempts)
		return dead(e, REASON_MAX_ATTEMPTS);
	return retry(e, msg, policy, outcome, now_ms, random);
}
