/* The rules of guarded redrives by themselves: when one waits, goes on, halts and why; and its rate. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/guard.h"

static const struct guard_base none;

static struct store_redrive waiting(int64_t first, int64_t succeeded, int64_t failed)
{
	return (struct store_redrive){.state = REDRIVE_RUNNING,
	                              .sent = first,
	                              .succeeded = succeeded,
	                              .failed_again = failed,
	                              .total = 1000,
	                              .canary_until = 60000,
	                              .guard = {.first = first, .canary_wait_ms = 60000}};
}

static void test_phases(void **state)
{
	(void)state;
	struct store_redrive r = {.guard = {.first = 5}};
	assert_int_equal(guard_phase(&r), GUARD_CANARY);
	r.canary_until = 1;
	assert_int_equal(guard_phase(&r), GUARD_WAIT);
	r.canary_until = CANARY_PASSED;
	assert_int_equal(guard_phase(&r), GUARD_RAMP);
	r = (struct store_redrive){.guard = {.rate = 5}};
	assert_int_equal(guard_phase(&r), GUARD_RAMP);
	assert_true(guard_set(&r.guard));
	assert_false(guard_set(&(struct redrive_guard){0}));
}

static void test_canary(void **state)
{
	(void)state;
	char why[GUARD_WHY_MAX] = "";
	struct store_redrive r = waiting(5, 4, 0);
	assert_int_equal(guard_judge(&r, &none, 59999, why), GUARD_GO_ON);
	assert_int_equal(guard_judge(&r, &none, 60000, why), GUARD_HALT);
	assert_string_equal(why, "1 of 5 canary outcomes are missing after 1m (4 succeeded, 0 failed again): "
	                         "these messages wait for a worker or for a retry");
	r = waiting(5, 5, 0);
	assert_int_equal(guard_judge(&r, &none, 0, why), GUARD_PASSED);
	/* No stop_at: a single failure is too many. */
	r = waiting(5, 4, 1);
	assert_int_equal(guard_judge(&r, &none, 0, why), GUARD_HALT);
	assert_string_equal(why, "1 of 5 canary messages failed again (no stop_at is set)");
	/* A percentage counts from the first one, but only once all are known. */
	r.guard.stop_percent = 20;
	assert_int_equal(guard_judge(&r, &none, 0, why), GUARD_PASSED); /* not above */
	r.guard.stop_percent = 19.9;
	assert_int_equal(guard_judge(&r, &none, 0, why), GUARD_HALT);
	assert_string_equal(why, "1 of 5 canary messages failed again (20% > 19.9%)");
	r = waiting(5, 0, 5);
	r.guard.stop_percent = 10;
	assert_int_equal(guard_judge(&r, &none, 0, why), GUARD_HALT);
	assert_string_equal(why, "5 of 5 canary messages failed again (100% > 10%)");
	r = waiting(3, 0, 2);
	r.guard.stop_percent = 10;
	assert_int_equal(guard_judge(&r, &none, 0, why), GUARD_GO_ON);
	/* A count that is reached is reached, whatever the rest does. */
	r.guard = (struct redrive_guard){.first = 3, .stop_count = 2};
	assert_int_equal(guard_judge(&r, &none, 0, why), GUARD_HALT);
	assert_string_equal(why, "2 of 2 canary messages failed again (the limit is 2)");
}

static void test_ramp(void **state)
{
	(void)state;
	char why[GUARD_WHY_MAX] = "";
	struct store_redrive r = {.guard = {.stop_percent = 10}, .sent = 100, .succeeded = 0, .failed_again = 4};
	assert_int_equal(guard_judge(&r, &none, 0, why), GUARD_GO_ON); /* too few to say */
	r.failed_again = 5;
	assert_int_equal(guard_judge(&r, &none, 0, why), GUARD_HALT);
	r.succeeded = 45;
	assert_int_equal(guard_judge(&r, &none, 0, why), GUARD_GO_ON); /* 10%: not above */
	r.failed_again = 6;
	assert_int_equal(guard_judge(&r, &none, 0, why), GUARD_HALT);
	assert_string_equal(why, "6 of 51 messages with an outcome failed again (11.8% > 10%)");
	/* Past a halt, what was known then does not count again. */
	struct guard_base base = {45, 6};
	assert_int_equal(guard_judge(&r, &base, 0, why), GUARD_GO_ON);
	r.failed_again = 11;
	assert_int_equal(guard_judge(&r, &base, 0, why), GUARD_HALT);
	r = (struct store_redrive){.guard = {.stop_count = 3}, .sent = 9, .succeeded = 7, .failed_again = 2};
	assert_int_equal(guard_judge(&r, &none, 0, why), GUARD_GO_ON);
	r.failed_again = 3;
	assert_int_equal(guard_judge(&r, &none, 0, why), GUARD_HALT);
	/* Without stop_at nothing halts the ramp. */
	r.guard = (struct redrive_guard){.rate = 5};
	assert_int_equal(guard_judge(&r, &none, 0, why), GUARD_GO_ON);
}

static void test_limits(void **state)
{
	(void)state;
	struct dlq_err err = {0};
	const struct redrive_guard good[] = {
	    {0},
	    {.first = 1},
	    {.first = GUARD_COUNT_MAX, .canary_wait_ms = CANARY_WAIT_MAX_MS, .rate = GUARD_RATE_MAX, .stop_count = 1},
	    {.rate = GUARD_RATE_MIN, .stop_percent = 99.9},
	    {.first = 1, .canary_wait_ms = 1000},
	};
	const struct redrive_guard bad[] = {
	    {.first = -1},
	    {.first = GUARD_COUNT_MAX + 1},
	    {.first = 1, .canary_wait_ms = 999},
	    {.first = 1, .canary_wait_ms = CANARY_WAIT_MAX_MS + 1},
	    {.canary_wait_ms = 1000},
	    {.rate = -1},
	    {.rate = GUARD_RATE_MIN / 2},
	    {.rate = GUARD_RATE_MAX * 2},
	    {.rate = 0.0 / 0.0},
	    {.rate = 1.0 / 0.0},
	    {.stop_count = -1},
	    {.stop_percent = -1},
	    {.stop_percent = 100},
	    {.stop_percent = 0.0 / 0.0},
	};
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		assert_int_equal(guard_check(&good[i], &err), DLQ_OK);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		err.detail[0] = '\0';
		assert_int_equal(guard_check(&bad[i], &err), DLQ_BAD_REQUEST);
		assert_true(err.detail[0]);
	}
}

/* Over any time t at most rate * (t + 1 s) are given, and nearly rate * t. */
static void test_rate(void **state)
{
	(void)state;
	static const double rates[] = {0.1, 1, 3.7, 100, 1234.5};
	for (size_t i = 0; i < ARRAY_LEN(rates); i++) {
		struct guard_bucket b = {0};
		int64_t now = 1800000000000, end = now + 100000, given = 0, wakes = 0;
		assert_int_equal(guard_take(&b, rates[i], now, 1000), 0); /* it starts empty */
		for (int64_t at; (at = guard_next(&b, rates[i], now)) <= end; now = at) {
			assert_true(at > now);
			given += guard_take(&b, rates[i], at, 1000);
			wakes++;
		}
		double want = rates[i] * 100;
		assert_true((double)given <= want + 0.01);
		assert_true((double)given >= want - rates[i] * 0.2 - 1.01);
		assert_true(wakes <= 1001); /* about 100 ms apart */
	}
	/* An hour asleep gives one second's worth. */
	struct guard_bucket b = {0};
	guard_take(&b, 50, 1000, 1000);
	assert_int_equal(guard_take(&b, 50, 3601000, 1000), 50);
	assert_int_equal(guard_take(&b, 50, 3601000, 1000), 0);
	/* A clock that goes back gives nothing. */
	assert_int_equal(guard_take(&b, 50, 1000, 1000), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_phases), cmocka_unit_test(test_canary), cmocka_unit_test(test_ramp),
	    cmocka_unit_test(test_limits), cmocka_unit_test(test_rate),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
