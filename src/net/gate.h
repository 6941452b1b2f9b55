/*
 * gate.h - the door of a handler or sink: at most max calls inside, and an orderly stop. Thread-safe.
 */
#ifndef NET_GATE_H
#define NET_GATE_H

#include <pthread.h>

#include "base/base.h"

struct net_gate {
	pthread_mutex_t lock; /* innermost: nothing is called while it is held */
	pthread_cond_t emptied;
	int active, max;
	bool closed;
};
void gate_init(struct net_gate *g, int max);
void gate_release(struct net_gate *g);
/* BUSY: max are inside. SHUTTING_DOWN: closed. On DLQ_OK the caller owes one gate_leave. */
enum dlq_code gate_enter(struct net_gate *g, const char *what, struct dlq_err *err) MUST_USE;
void gate_leave(struct net_gate *g);
/* From here on nobody enters. Any number of times. */
void gate_close(struct net_gate *g);
/* Waits until nobody is inside, at most ms (negative: without limit). Returns whether it is empty. */
bool gate_wait(struct net_gate *g, int64_t ms);

#endif
