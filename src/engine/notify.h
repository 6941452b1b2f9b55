/*
 * notify.h - tells receivers about dead letters: the worker of the on_dead_letter outbox.
 *
 * A notice is written in the transaction in which a message dies and removed when a receiver has answered 2xx, so
 * it survives a restart; a receiver may see a notice again and knows it by its notification_id. It is told to the URL
 * that the queue has when the notice goes out; with none any more it is dropped. A dead letter that was redriven
 * meanwhile is still told, with its state; one that died again is told by its later notice alone.
 *
 * At most NOTIFY_ACTIVE_MAX calls are under way, NOTIFY_PER_URL_MAX of them to one URL. A failed call is repeated after
 * 1 s, 2 s, 4 s ... 5 min (or the receiver's Retry-After, if that is later). It is given up, with a log event and a row in
 * the audit, when the death is 24 h ago and NOTIFY_TRIES_MIN calls were tried.
 */
#ifndef ENGINE_NOTIFY_H
#define ENGINE_NOTIFY_H

#include "alert/sink.h"
#include "engine/engine.h"

#define NOTIFY_ACTIVE_MAX 32
#define NOTIFY_PER_URL_MAX 8
#define NOTIFY_TRIES_MIN 20
#define NOTIFY_GIVE_UP_MS ((int64_t)24 * 3600 * 1000)

struct notify;

/* sink is borrowed and outlives notify_stop. NULL: no thread could be made. */
struct notify *notify_start(struct engine *e, struct sink *sink);
/* A notice was committed. Any thread; cheap. */
void notify_wake(struct notify *n);
/* Stops the sink too. What is under way gets 2 s; what is not told stays owed. Blocks; frees n; takes NULL. */
void notify_stop(struct notify *n);

/* Delay before the next call after `tries` failed ones (from 1). Pure. */
int64_t notify_backoff_ms(int tries);
/* The document that is posted; wall times; no payload. Pure. */
void notify_document(const struct store_dead *d, const char *notification_id, struct buf *out);

#endif
