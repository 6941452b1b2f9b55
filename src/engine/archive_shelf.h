/* archive_shelf.h - which days of which queues the archive has, newest first, and a place in it as text. Not for
 * others. */
#ifndef ENGINE_ARCHIVE_SHELF_H
#define ENGINE_ARCHIVE_SHELF_H

#include "engine/archive_int.h"

/* A place in a list: what is before it was given. from 0: the day as a whole is still to come. */
struct shelf_place {
	int32_t day; /* YYYYMMDD; 0: none */
	struct str queue;
	char from; /* 'z': frames before a, or in a before line b; 'i', 'j': index or .jsonl, lines before byte a */
	int64_t a, b;
};
bool shelf_place_parse(struct str s, struct shelf_place *p); /* queue points into s */
struct str shelf_place_text(struct arena *a, const struct shelf_place *p);

struct shelf_item {
	int32_t day, queue;
};
struct shelf {
	/* in */
	int32_t from, to;         /* days, both included */
	struct shelf_place start; /* day 0: from the newest */
	/* out */
	struct shelf_item *items;
	int n, cap;
	struct shelf_place dropped; /* the first that was too much to keep; day 0: none */
	/* its own */
	struct arena arena;
	struct str *queues;
	int32_t *newer; /* per queue: its next day after what is to come */
	int n_queues, cap_queues;
	char start_name[130], dropped_name[130];
};
/* All queues when queue is empty. May be called again, with another start. SYSTEM. */
enum dlq_code shelf_open(struct shelf *s, const char *dir, struct str queue, struct dlq_err *err) MUST_USE;
void shelf_close(struct shelf *s);
struct shelf_place shelf_at(const struct shelf *s, int i);
/* The queue's next newer day, 0: none. Once for each i, in order. */
int32_t shelf_newer(struct shelf *s, int i);

#endif
