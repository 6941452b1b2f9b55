/* archive_lister.h - going through one day of a queue after the other, within a budget. Not for others. */
#ifndef ENGINE_ARCHIVE_LISTER_H
#define ENGINE_ARCHIVE_LISTER_H

#include "engine/archive_shelf.h"

#define SEEN_MAX 512

/* Where an entry was found. */
struct hit {
	struct archive_entry e;
	char from;                  /* 'i' index, 'z' frame, 'j' line of a .jsonl */
	struct archive_place place; /* i, z */
	int64_t at, n;              /* j */
};

/* A copy that a crash left has the same two, and is older: it is left out. */
struct seen {
	int64_t died_at;
	char dlq_id[ULID_LEN + 1];
};

struct lister {
	const char *dir;
	struct str id, needle; /* empty: all; its JSON form */
	bool dlq_id_only;
	int limit;
	int64_t lines, bytes; /* left to look at */
	struct arena *a;
	struct hit *hits;
	int n, cap;
	struct shelf_place at; /* the day under way, and where in it */
	bool full;             /* stopped within `at` */
	struct seen seen[SEEN_MAX];
	int n_seen, next_seen;
	struct arena scratch;
	struct archive_frames *frames;
	struct dlq_err damage; /* the first frame that could not be read */
	bool told;
	/* the files of the day, -1: not there */
	int data, index, old;
	int64_t data_n;
};

/* id may be empty; the entries go into a. The caller sets limit, lines and bytes. */
void lister_init(struct lister *l, const char *dir, struct str id, struct arena *a);
void lister_release(struct lister *l);
/* The files of the day l->at; an absent one is no error. */
enum dlq_code lister_open(struct lister *l, struct dlq_err *err) MUST_USE;
void lister_close(struct lister *l);
int64_t lister_size(int fd); /* 0 for -1 */
/* The entries of the day l->at from there on; l->full: not all of them, the next is at l->at. newer: the queue's next
 * day, 0: none. */
enum dlq_code lister_day(struct lister *l, int32_t newer, struct dlq_err *err) MUST_USE;
/* Whether the page or the budget is at its end: then the list goes on at that place of the day. */
bool lister_stop(struct lister *l, char from, int64_t a, int64_t b);
/* SYSTEM with errno: what could not be done with the day's file that ends in suffix. */
enum dlq_code lister_fail(struct lister *l, const char *what, const char *suffix, struct dlq_err *err);
/* A frame of the day that cannot be read; the first is kept in l->damage. */
void lister_damaged(struct lister *l, int64_t offset, const char *why);

#endif
