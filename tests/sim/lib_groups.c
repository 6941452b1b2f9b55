/* Kinds of failures, and the groups that they should make. */
#include "lib_model.h"

/* The kinds of failures, each worded anew by every worker. */
const char *const kind_types[KINDS] = {"Boom", "Boom", "Timeout", "NotFound"};

void kind_text(struct sim *s, int kind, char out[80])
{
	static const char *const forms[KINDS] = {"it broke after %d ms", "it broke", "no answer from 10.0.0.%d",
	                                         "order %d was not found"};
	snprintf(out, 80, forms[kind], 100000 + below(s, 800000));
}

static int kind_of(struct str type, struct str sample)
{
	if (str_eqz(type, "LeaseExpired"))
		return KIND_LEASE;
	for (int i = KINDS - 1; i >= 0; i--)
		if (str_eqz(type, kind_types[i]) && (i || !str_eqz(sample, "it broke")) && (i != 1 || str_eqz(sample, "it broke")))
			return i;
	return -1;
}

/* Groups are found by what workers said, and their counts are those of the model. */
void check_groups(struct sim *s)
{
	for (int q = 0; q < QUEUES; q++) {
		struct engine_op op = {.type = OP_READ_GROUPS};
		int64_t dead[GROUPS] = {0}, any = 0, seen_groups = 0;
		for (int i = 0; i < s->n; i++)
			if (s->m[i].queue == q && s->m[i].where == DEAD && s->m[i].group >= 0)
				dead[s->m[i].group]++;
		op.u.read_groups.filter.limit = 100;
		call(s, &op, q);
		CHECK(s, !op.code, "%s", op.err.detail);
		for (int i = 0; i < op.u.read_groups.page.n; i++) {
			const struct store_group *g = &op.u.read_groups.page.items[i];
			int k = kind_of(g->error_type, g->sample);
			CHECK(s, k >= 0 && !(any >> k & 1), "queue %s: a group too many: " STR_FMT ": " STR_FMT, queue_names[q],
			      STR_ARG(g->error_type), STR_ARG(g->normal));
			any |= (int64_t)1 << k;
			seen_groups++;
			CHECK(s, g->failures == s->failures[q][k], "queue %s, group " STR_FMT ": %" PRId64
			      " failures, the model says %" PRId64, queue_names[q], STR_ARG(g->normal), g->failures, s->failures[q][k]);
			CHECK(s, g->deaths == s->deaths[q][k], "queue %s, group " STR_FMT ": %" PRId64
			      " deaths, the model says %" PRId64, queue_names[q], STR_ARG(g->normal), g->deaths, s->deaths[q][k]);
			CHECK(s, g->dead == dead[k], "queue %s, group " STR_FMT ": %" PRId64 " dead, the model says %" PRId64,
			      queue_names[q], STR_ARG(g->normal), g->dead, dead[k]);
		}
		for (int k = 0; k < GROUPS; k++)
			seen_groups -= s->failures[q][k] > 0;
		CHECK(s, !seen_groups, "queue %s has %" PRId64 " groups more or less than kinds of failures", queue_names[q],
		      seen_groups);
		engine_op_release(&op);
	}
}
