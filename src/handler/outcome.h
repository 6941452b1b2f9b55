/*
 * outcome.h - what a worker's HTTP answer means for the message: a pure function.
 *
 *   2xx                          ok
 *   408, 425, 429, 5xx           transient, Retry-After kept
 *   no answer                    transient
 *   3xx                          permanent: redirects are not followed
 *   other 4xx                    permanent
 *   anything else                transient
 *   Dlq-Outcome: WORD            WORD, whatever the status; a WORD that is none turns a success into a transient failure,
 *                                so that a typing error in a worker loses nothing
 *   ended by our own stop        release
 */
#ifndef HANDLER_OUTCOME_H
#define HANDLER_OUTCOME_H

#include "core/policy.h"
#include "net/net.h"

struct push_verdict {
	enum outcome outcome;
	struct failure failure;  /* transient, permanent */
	int64_t retry_after_ms;  /* transient, release; 0: none */
};
/* r: a finished request. Text goes to the arena. wall_now_ms: for a Retry-After date of an answer without Date. */
void push_verdict(const struct net_request *r, int64_t wall_now_ms, struct arena *a, struct push_verdict *out);

#endif
