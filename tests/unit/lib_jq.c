#include "lib_jq.h"

const struct jq_options jq_usual = {.program = SELF};

struct jq *open_with(const struct jq_options *o, enum jq_kind kind, const char *program)
{
	struct jq *j = NULL;
	struct dlq_err err = {0};
	if (jq_open(o, kind, str_of(program), &j, &err) != DLQ_OK)
		fail_msg("%s: %s", program, err.detail);
	assert_non_null(j);
	assert_false(jq_dead(j));
	return j;
}

struct jq *open_jq(enum jq_kind kind, const char *program)
{
	return open_with(&jq_usual, kind, program);
}

void run_ok(struct jq *j, struct jq_item *items, int n, struct arena *a)
{
	struct dlq_err err = {0};
	int at = -1;
	if (jq_run(j, items, n, a, &at, &err) != DLQ_OK)
		fail_msg("at %d: %s", at, err.detail);
}
