#include "base/clock.h"
#include "lib_check.h"

#include <pthread.h>

#define START 1700000000000

static void test_manual(void **state)
{
	(void)state;
	struct clock *c = clock_manual_new(START);
	assert_int_equal(clock_now_ms(c), START);
	assert_int_equal(clock_wall_ms(c), START);
	clock_advance(c, 1500);
	assert_int_equal(clock_now_ms(c), START + 1500);
	assert_int_equal(clock_wall_ms(c), START + 1500);
	assert_int_equal(clock_mono_us(c), 1500000);
	clock_free(c);
}

/* Invariant 13: the wall clock is set, schedule time does not care, and stored times are shown right. */
static void test_wall_is_set(void **state)
{
	(void)state;
	struct clock *c = clock_manual_new(START);
	int64_t due = clock_now_ms(c) + 60000;
	clock_set_wall(c, START - 86400000);
	assert_int_equal(clock_now_ms(c), START);
	assert_int_equal(clock_wall_ms(c), START - 86400000);
	assert_int_equal(clock_to_wall_ms(c, due), START - 86400000 + 60000);
	clock_set_wall(c, START + 86400000);
	assert_int_equal(clock_now_ms(c), START);
	clock_advance(c, 60000);
	assert_int_equal(clock_now_ms(c), due);
	assert_int_equal(clock_wall_ms(c), START + 86400000 + 60000);
	clock_free(c);
}

static void test_floor(void **state)
{
	(void)state;
	struct clock *c = clock_manual_new(START);
	clock_floor(c, START - 1);
	assert_int_equal(clock_now_ms(c), START);
	clock_floor(c, START + 5000);
	assert_int_equal(clock_now_ms(c), START + 5000);
	assert_int_equal(clock_wall_ms(c), START);
	assert_int_equal(clock_to_wall_ms(c, START + 5000), START);
	clock_advance(c, 10);
	assert_int_equal(clock_now_ms(c), START + 5010);
	clock_free(c);

	c = clock_real_new();
	int64_t ahead = clock_wall_ms(c) + 3600000;
	clock_floor(c, ahead);
	assert_in_range(clock_now_ms(c), ahead, ahead + 60000);
	clock_free(c);
}

/* The monotonic clock goes back (something fakes it): schedule time stands for that reading, then goes on. */
static void test_reanchoring(void **state)
{
	(void)state;
	struct clock *c = clock_manual_new(START); /* as a real one, with readings from here */
	assert_int_equal(clock_follow(c, 1000000), START + 1000);
	assert_int_equal(clock_follow(c, 400000), START + 1000);
	assert_int_equal(clock_follow(c, 400000), START + 1000);
	assert_int_equal(clock_follow(c, 402500), START + 1002);
	assert_int_equal(clock_follow(c, 403000), START + 1003); /* half milliseconds add up */
	assert_int_equal(clock_follow(c, 403999), START + 1003);
	assert_int_equal(clock_follow(c, 404000), START + 1004);
	assert_int_equal(clock_follow(c, -5000000), START + 1004);
	assert_int_equal(clock_follow(c, -4000000), START + 2004);
	clock_free(c);
}

static void *reader(void *arg)
{
	struct clock *c = arg;
	int64_t last = 0;
	for (int i = 0; i < 20000; i++) {
		int64_t now = clock_now_ms(c);
		if (now < last)
			return (void *)"went back";
		last = now;
	}
	return NULL;
}

static void test_real_never_goes_back(void **state)
{
	(void)state;
	struct clock *c = clock_real_new();
	pthread_t threads[4];
	int64_t before = clock_mono_us(c);
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, reader, c), 0);
	for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
		void *why;
		assert_int_equal(pthread_join(threads[i], &why), 0);
		assert_null(why);
	}
	assert_true(clock_mono_us(c) > before);
	int64_t apart = clock_now_ms(c) - clock_wall_ms(c);
	assert_in_range(apart + 1000, 0, 2000); /* starts at the wall clock */
	clock_free(c);
	clock_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_manual),
	    cmocka_unit_test(test_wall_is_set),
	    cmocka_unit_test(test_floor),
	    cmocka_unit_test(test_reanchoring),
	    cmocka_unit_test(test_real_never_goes_back),
	};
	return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
