/*
 * diagnosis.h - what kind of failure a group is, from recorded facts, with the evidence in words and numbers. A pure function with
 * its own vectors (tests/vectors/diagnosis.json). It never acts by itself; people do.
 */
#ifndef CORE_DIAGNOSIS_H
#define CORE_DIAGNOSIS_H

#include "base/base.h"

enum diagnosis_kind { DIAGNOSIS_UNKNOWN, DIAGNOSIS_POISON, DIAGNOSIS_OUTAGE, DIAGNOSIS_FLAKY, DIAGNOSIS_BAD_DEPLOY, DIAGNOSIS_KIND_COUNT };
const char *diagnosis_name(enum diagnosis_kind k); /* "poison", "outage", "flaky", "bad_deploy", "unknown" */

/*
 * The facts, as the store keeps them. "Window" is the time from the group's first to its last failure, at most the last
 * 24 h, in minutes of the queue's history.
 */
struct diagnosis_facts {
	/* the group */
	int64_t failures, deaths, recovered;  /* failed deliveries; messages that died of it; that failed so and then succeeded */
	int64_t failed_again;                 /* of redriven ones */
	int workers;                          /* distinct workers it failed on, "(others)" counted once */
	int worker_versions;                  /* distinct versions, 0: workers send none */
	int64_t version_first_ms;             /* with one version: when that version was first seen failing in the queue */
	int64_t other_version_ms;             /* with one version: when another was last seen failing in the queue; 0: never */
	int64_t first_seen_ms, last_seen_ms;
	/* the queue in the window */
	int64_t queue_done, queue_failures;   /* deliveries that succeeded / failed in the window */
	int queue_workers;                    /* workers seen failing in the queue, all groups */
	int groups_started;                   /* groups of the queue whose first failure falls within 5 min of this one's, itself included */
	int64_t groups_failures;              /* failures of those groups in the window */
	/* the hour before the window */
	int64_t before_done, before_failures;
	int64_t now_ms;
};

#define DIAGNOSIS_EVIDENCE_MAX 6
struct diagnosis {
	enum diagnosis_kind kind;
	int confidence;                       /* percent, 0 to 100, for ordering; shown as low, medium, high */
	int n_evidence;
	char evidence[DIAGNOSIS_EVIDENCE_MAX][160]; /* "826 of 826 messages failed on every attempt", with the numbers */
	char advice[160];                     /* what people usually do next: "repair the payload or the code, then redrive a few first" */
};
void diagnose(const struct diagnosis_facts *f, struct diagnosis *out);

#endif
