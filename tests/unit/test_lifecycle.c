#include "lib_check.h"

static void test_table_is_consistent(void **state)
{
	(void)state;
	bool moves[MOVE_COUNT] = {0}, reached[MSG_STATE_COUNT] = {[MSG_NONE] = true};
	for (size_t i = 0; i < lifecycle_table_len; i++) {
		const struct move_rule *r = &lifecycle_table[i];
		assert_in_range(r->from, 0, MSG_STATE_COUNT - 1);
		assert_in_range(r->to, MSG_READY, MSG_STATE_COUNT - 1); /* nothing goes back to before its sending */
		assert_in_range(r->move, 0, MOVE_COUNT - 1);
		assert_in_range(r->actor, ACTOR_PRODUCER, ACTOR_OPERATOR);
		assert_int_not_equal(r->from, r->to);
		moves[r->move] = true;
		for (size_t k = 0; k < i; k++) /* one answer to "what does this move do here" */
			assert_false(lifecycle_table[k].from == r->from && lifecycle_table[k].move == r->move);
	}
	for (int m = 0; m < MOVE_COUNT; m++)
		assert_true(moves[m]);
	for (int round = 0; round < MSG_STATE_COUNT; round++)
		for (size_t i = 0; i < lifecycle_table_len; i++)
			if (reached[lifecycle_table[i].from])
				reached[lifecycle_table[i].to] = true;
	for (int s = 0; s < MSG_STATE_COUNT; s++)
		assert_true(reached[s]);
}

/* Whether the table has the pair, searched without lifecycle_allows. */
static const struct move_rule *rule_of(enum msg_state from, enum msg_move move)
{
	for (size_t i = 0; i < lifecycle_table_len; i++)
		if (lifecycle_table[i].from == from && lifecycle_table[i].move == move)
			return &lifecycle_table[i];
	return NULL;
}

static void test_allows_exactly_the_table(void **state)
{
	(void)state;
	int allowed = 0;
	for (int from = 0; from < MSG_STATE_COUNT; from++) {
		for (int move = 0; move < MOVE_COUNT; move++) {
			enum msg_state to = MSG_STATE_COUNT;
			const struct move_rule *r = rule_of((enum msg_state)from, (enum msg_move)move);
			assert_int_equal(lifecycle_allows((enum msg_state)from, (enum msg_move)move, &to), r != NULL);
			assert_int_equal(to, r ? r->to : MSG_STATE_COUNT);
			allowed += r != NULL;
		}
	}
	assert_int_equal(allowed, lifecycle_table_len);
	assert_true(lifecycle_allows(MSG_READY, MOVE_LEASE, NULL));
}

static void test_ends_are_ends(void **state)
{
	(void)state;
	for (int move = 0; move < MOVE_COUNT; move++)
		assert_false(lifecycle_allows(MSG_DONE, (enum msg_move)move, NULL));
	/* Invariant 10: nothing leads out of the archive, or back from a discard, by itself. */
	for (size_t i = 0; i < lifecycle_table_len; i++) {
		const struct move_rule *r = &lifecycle_table[i];
		if (r->from == MSG_DISCARDED || r->from == MSG_ARCHIVED)
			assert_int_equal(r->actor, ACTOR_OPERATOR);
		assert_false(r->from == MSG_ARCHIVED && r->to == MSG_DISCARDED);
	}
	enum msg_state to;
	assert_true(lifecycle_allows(MSG_DISCARDED, MOVE_RESTORE, &to) && to == MSG_DEAD);
	assert_true(lifecycle_allows(MSG_ARCHIVED, MOVE_RESTORE, &to) && to == MSG_DEAD);
	assert_true(lifecycle_allows(MSG_ARCHIVED, MOVE_REDRIVE, &to) && to == MSG_READY);
	assert_false(lifecycle_allows(MSG_DISCARDED, MOVE_REDRIVE, NULL)); /* it is restored first */
	assert_true(lifecycle_allows(MSG_DEAD, MOVE_GIVE_UP, &to) && to == MSG_ARCHIVED);
	assert_true(lifecycle_allows(MSG_DEAD, MOVE_ARCHIVE, &to) && to == MSG_ARCHIVED);
	assert_true(lifecycle_allows(MSG_NONE, MOVE_IMPORT, &to) && to == MSG_DEAD);
}

static void test_the_dead_return_by_an_operator_only(void **state)
{
	(void)state;
	/* Invariant 2: a message at its limit never returns by itself. */
	for (size_t i = 0; i < lifecycle_table_len; i++) {
		const struct move_rule *r = &lifecycle_table[i];
		if ((r->from == MSG_DEAD || r->from == MSG_ARCHIVED) && (r->to == MSG_READY || r->to == MSG_HELD))
			assert_int_equal(r->actor, ACTOR_OPERATOR);
	}
	enum msg_state to;
	assert_false(lifecycle_allows(MSG_HELD, MOVE_LEASE, &to)); /* invariant 11 */
	assert_false(lifecycle_allows(MSG_LEASED, MOVE_EXPIRE, &to));
	assert_false(lifecycle_allows(MSG_READY, MOVE_BURY, &to));
}

static void test_names_round_trip(void **state)
{
	(void)state;
	for (int i = 0; i < REASON_COUNT; i++) {
		enum reason r = REASON_COUNT;
		assert_int_equal(reason_parse(str_of(reason_name((enum reason)i)), &r), i != REASON_NONE);
		if (i != REASON_NONE)
			assert_int_equal(r, i);
	}
	for (int i = 0; i < DEAD_STATE_COUNT; i++) {
		enum dead_state s = DEAD_STATE_COUNT;
		assert_true(dead_state_parse(str_of(dead_state_name((enum dead_state)i)), &s));
		assert_int_equal(s, i);
	}
	for (int i = 0; i < OUTCOME_COUNT; i++) {
		enum outcome o = OUTCOME_COUNT;
		/* lease_expired is the engine's own word: no worker may say it. */
		assert_int_equal(outcome_parse(str_of(outcome_name((enum outcome)i)), &o), i != OUTCOME_LEASE_EXPIRED);
		if (i != OUTCOME_LEASE_EXPIRED)
			assert_int_equal(o, i);
	}
	for (int i = 0; i < MSG_STATE_COUNT; i++)
		for (int k = 0; k < i; k++)
			assert_string_not_equal(msg_state_name((enum msg_state)i), msg_state_name((enum msg_state)k));
	for (int i = 0; i < MOVE_COUNT; i++)
		assert_true(strlen(msg_move_name((enum msg_move)i)) > 1);
	enum reason r;
	enum dead_state d;
	assert_false(reason_parse(STR(""), &r));
	assert_false(reason_parse(STR("permanentx"), &r));
	assert_false(dead_state_parse(STR("Dead"), &d));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_table_is_consistent),
	    cmocka_unit_test(test_allows_exactly_the_table),
	    cmocka_unit_test(test_ends_are_ends),
	    cmocka_unit_test(test_the_dead_return_by_an_operator_only),
	    cmocka_unit_test(test_names_round_trip),
	};
	return cmocka_run_group_tests_name("lifecycle", tests, NULL, NULL);
}
