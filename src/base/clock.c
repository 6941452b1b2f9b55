/*
 * The one file that reads the time. One lock per clock, held for a few loads and stores only; the time is read under
 * it so that two threads cannot see their readings in the wrong order.
 */
#include "base/clock.h"

#include <pthread.h>
#include <time.h>

struct clock {
	pthread_mutex_t lock;
	bool manual;
	int64_t now_ms;  /* schedule time at the last reading */
	int64_t mono_us; /* monotonic time at the last reading; real: what now_ms is anchored to */
	int64_t wall_ms; /* manual only */
	int64_t rest_us; /* of the monotonic clock, not yet a whole millisecond of now_ms; 0 to 999 */
};

static int64_t read_us(clockid_t id)
{
	struct timespec t;
	ASSERT(clock_gettime(id, &t) == 0);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int64_t clock_system_wall_ms(void)
{
	return read_us(CLOCK_REALTIME) / 1000;
}

static struct clock *clock_new(bool manual, int64_t start_ms, int64_t mono_us)
{
	struct clock *c = mem_alloc(sizeof *c);
	ASSERT(pthread_mutex_init(&c->lock, NULL) == 0);
	c->manual = manual;
	c->now_ms = c->wall_ms = start_ms;
	c->mono_us = mono_us;
	return c;
}

struct clock *clock_real_new(void)
{
	return clock_new(false, clock_system_wall_ms(), read_us(CLOCK_MONOTONIC));
}

struct clock *clock_manual_new(int64_t start_ms)
{
	return clock_new(true, start_ms, 0);
}

void clock_free(struct clock *c)
{
	if (!c)
		return;
	pthread_mutex_destroy(&c->lock);
	mem_free(c);
}

/*
 * Follows the monotonic clock to mono_us. It can go back only when something fakes it (a tester, a broken hypervisor):
 * then it is anchored anew and schedule time stands still for that one reading. Under the lock.
 */
static void follow(struct clock *c, int64_t mono_us)
{
	int64_t passed = mono_us - c->mono_us;
	c->mono_us = mono_us;
	if (passed <= 0)
		return;
	passed += c->rest_us;
	c->now_ms += passed / 1000;
	c->rest_us = passed % 1000;
}

/* For the test of re-anchoring: what a reading of the monotonic clock does to schedule time. */
int64_t clock_follow(struct clock *c, int64_t mono_us)
{
	pthread_mutex_lock(&c->lock);
	follow(c, mono_us);
	int64_t now = c->now_ms;
	pthread_mutex_unlock(&c->lock);
	return now;
}

int64_t clock_now_ms(struct clock *c)
{
	pthread_mutex_lock(&c->lock);
	if (!c->manual)
		follow(c, read_us(CLOCK_MONOTONIC));
	int64_t now = c->now_ms;
	pthread_mutex_unlock(&c->lock);
	return now;
}

int64_t clock_wall_ms(struct clock *c)
{
	if (!c->manual)
		return clock_system_wall_ms();
	pthread_mutex_lock(&c->lock);
	int64_t wall = c->wall_ms;
	pthread_mutex_unlock(&c->lock);
	return wall;
}

int64_t clock_mono_us(struct clock *c)
{
	if (!c->manual)
		return read_us(CLOCK_MONOTONIC);
	pthread_mutex_lock(&c->lock);
	int64_t mono = c->mono_us;
	pthread_mutex_unlock(&c->lock);
	return mono;
}

void clock_floor(struct clock *c, int64_t floor_ms)
{
	clock_now_ms(c); /* brings now_ms up to date */
	pthread_mutex_lock(&c->lock);
	if (c->now_ms < floor_ms)
		c->now_ms = floor_ms;
	pthread_mutex_unlock(&c->lock);
}

int64_t clock_to_wall_ms(struct clock *c, int64_t schedule_ms)
{
	return schedule_ms + (clock_wall_ms(c) - clock_now_ms(c));
}

void clock_advance(struct clock *c, int64_t ms)
{
	ASSERT(c->manual && ms >= 0);
	pthread_mutex_lock(&c->lock);
	c->now_ms += ms;
	c->wall_ms += ms;
	c->mono_us += ms * 1000;
	pthread_mutex_unlock(&c->lock);
}

void clock_set_wall(struct clock *c, int64_t wall_ms)
{
	ASSERT(c->manual);
	pthread_mutex_lock(&c->lock);
	c->wall_ms = wall_ms;
	pthread_mutex_unlock(&c->lock);
}
