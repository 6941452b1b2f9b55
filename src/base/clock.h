/*
 * clock.h - one clock per store, with two faces.
 *
 * `now` is schedule time: milliseconds that never go back. All that is due (leases, retries, delays,
 * TTL, retention, dedup windows) is stored and compared in it. It starts at the wall clock, or at the
 * store's last known schedule time if the wall clock was set back meanwhile, and then follows the
 * monotonic clock. So a wall clock that jumps while the server runs changes nothing (invariant 13).
 *
 * `wall` is what people read: evidence (received, failed, died at) is stamped with it.
 *
 * Thread-safe. A clock is passed in; nothing but the clock's own implementation reads the time.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include "base/base.h"

struct clock;

struct clock *clock_real_new(void);
/* For tests and the simulation: time moves only by clock_advance and clock_set_wall. */
struct clock *clock_manual_new(int64_t start_ms);
void clock_free(struct clock *c);

int64_t clock_now_ms(struct clock *c);  /* schedule time, never goes back */
int64_t clock_wall_ms(struct clock *c); /* Unix time in ms */
int64_t clock_mono_us(struct clock *c); /* for measuring how long something took */

/* At open: schedule time is at least floor_ms from here on (the store's persisted high-water mark). */
void clock_floor(struct clock *c, int64_t floor_ms);
/* What a stored schedule time is in wall time, for display. */
int64_t clock_to_wall_ms(struct clock *c, int64_t schedule_ms);

/* The system's wall clock without a clock: for the log alone, which must work everywhere. */
int64_t clock_system_wall_ms(void);
/* For tests: takes mono_us as the next reading of the monotonic clock; returns schedule time then. */
int64_t clock_follow(struct clock *c, int64_t mono_us);

void clock_advance(struct clock *c, int64_t ms);     /* manual only */
void clock_set_wall(struct clock *c, int64_t wall_ms); /* manual only: the operator sets the wall clock */

#endif
