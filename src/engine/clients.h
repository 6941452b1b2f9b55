/* clients.h - the engine's own clients. A build without the notifier has no on_dead_letter. */
#ifndef ENGINE_CLIENTS_H
#define ENGINE_CLIENTS_H

#include "engine/push.h"

#if __has_include("engine/notify.h")
#include "engine/notify.h"
#else
struct notify;
static inline struct notify *notify_start(struct engine *e, struct sink *s)
{
	(void)e;
	(void)s;
	return NULL;
}
static inline void notify_wake(struct notify *n)
{
	(void)n;
}
static inline void notify_stop(struct notify *n)
{
	(void)n;
}
#endif

#endif
