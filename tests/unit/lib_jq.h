/* lib_jq.h - a jq program in one call. The test's own program runs the child: its main calls jq_child_main when it is told so. */
#ifndef UNIT_LIB_JQ_H
#define UNIT_LIB_JQ_H

#include "lib_check.h"

#include "jq/jq.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

#define SELF "/proc/self/exe"

extern const struct jq_options jq_usual; /* defaults and SELF */

/* These fail the test when it does not work. */
struct jq *open_with(const struct jq_options *o, enum jq_kind kind, const char *program);
struct jq *open_jq(enum jq_kind kind, const char *program);
void run_ok(struct jq *j, struct jq_item *items, int n, struct arena *a);

#endif
