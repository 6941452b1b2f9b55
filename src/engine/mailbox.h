/*
 * mailbox.h - where a client thread of the engine (push, notify) is woken: operations that came back, and "look again".
 * Nothing is called under its lock.
 */
#ifndef ENGINE_MAILBOX_H
#define ENGINE_MAILBOX_H

#include <pthread.h>

#include "engine/engine.h"

struct mailbox {
	struct op_port port; /* first: the port of the owner's operations */
	pthread_mutex_t lock;
	int event;           /* eventfd */
	struct engine_op *head, *tail;
	bool woken;
};
enum dlq_code mailbox_init(struct mailbox *m, struct dlq_err *err) MUST_USE;
void mailbox_release(struct mailbox *m);
/* Wakes the owner, now or at its next wait. Any thread. */
void mailbox_wake(struct mailbox *m);
/* The owner: waits at most ms (negative: without limit), then takes what came back, in order. */
struct engine_op *mailbox_wait(struct mailbox *m, int64_t ms);

#endif
