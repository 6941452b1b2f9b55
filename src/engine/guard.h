/*
 * guard.h - when a guarded redrive goes on, waits or halts. Pure: no clock, no I/O; the times are arguments.
 *
 *     selecting ──> canary ──> wait ──> ramp ──> done
 *         │            └────────┴────────┴──> halted ── resume ──> ramp
 *         └──> halted ── resume ──> selecting
 *
 * The phase is in the store with the redrive itself: a plan with plan_next above 0 selects, `sent` below `first` is the canary, canary_until above 0 the wait,
 * CANARY_PASSED the ramp. So a restart goes on where it was.
 */
#ifndef ENGINE_GUARD_H
#define ENGINE_GUARD_H

#include "store/store.h"

#define CANARY_PASSED (-1) /* canary_until: its outcomes were good, or an operator went past them */
#define CANARY_WAIT_DEFAULT_MS ((int64_t)600000)
#define CANARY_WAIT_MAX_MS ((int64_t)7 * 24 * 3600 * 1000)
#define GUARD_COUNT_MAX ((int64_t)1000000000)
#define GUARD_RATE_MIN 0.001
#define GUARD_RATE_MAX 1e6
#define GUARD_OUTCOMES_MIN 5 /* so many outcomes before a percentage means something */
#define GUARD_WHY_MAX 400

/* Whether anything of it is set. */
bool guard_set(const struct redrive_guard *g);
/* BAD_REQUEST with the name of the part that is out of its range. */
enum dlq_code guard_check(const struct redrive_guard *g, struct dlq_err *err) MUST_USE;

/* ", first 5, 100/s, stop at 10%" for the audit log. */
void guard_describe(const struct redrive_guard *g, struct buf *out);

enum guard_phase { GUARD_SELECTING, GUARD_CANARY, GUARD_WAIT, GUARD_RAMP };
enum guard_phase guard_phase(const struct store_redrive *r);

/* What had come when an operator went past a halt: it does not count again. */
struct guard_base {
	int64_t succeeded, failed;
};
enum guard_verdict { GUARD_GO_ON, GUARD_PASSED, GUARD_HALT };
/* why: for GUARD_HALT the reason in words and numbers, without the error itself. GUARD_PASSED: the canary was good. */
enum guard_verdict guard_judge(const struct store_redrive *r, const struct guard_base *base, int64_t now,
                               char why[GUARD_WHY_MAX]);

/* A token bucket that holds one second's worth at most and starts empty. */
struct guard_bucket {
	double tokens;
	int64_t at; /* 0: not started */
};
int guard_take(struct guard_bucket *b, double rate, int64_t now, int max);
/* When guard_take has something again, gathered for about 100 ms; later than now. */
int64_t guard_next(const struct guard_bucket *b, double rate, int64_t now);

#endif
