/*
 * push.h - delivers the messages of queues that have `push` to their workers, through a handler (handler/handler.h).
 *
 * A client of engine_submit like any other: it receives under a lease (worker "push"), starts a call per message, extends
 * the lease at half the visibility timeout while the call runs, settles with the call's outcome. At most `concurrency`
 * calls of a queue are under way. All its state belongs to its own thread.
 */
#ifndef ENGINE_PUSH_H
#define ENGINE_PUSH_H

#include "engine/engine.h"
#include "handler/handler.h"

struct push;

/* handler is borrowed and outlives push_stop. NULL: no thread could be made. */
struct push *push_start(struct engine *e, struct handler *handler);
/* A queue was made, changed, paused, resumed or deleted: looks at engine_queue_snapshot again. Any thread; cheap. */
void push_queues_changed(struct push *p);
/*
 * Stops the handler too. No new receives; calls under way get deadline_ms (from now), then they are released (no attempt,
 * invariant 8). The engine must still take operations. Blocks; frees p; takes NULL. Not on an engine thread.
 */
void push_stop(struct push *p, int64_t deadline_ms);

#endif
