/*
 * archive_read.c - the archive read while it may be written: pages of its index, and one record out of its frame.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "engine/archive_lister.h"

#define LIST_LINES 100000
#define LIST_BYTES ((int64_t)8 << 20)
#define FIND_BYTES ((int64_t)1 << 30)

/* ---- list ---- */

static enum dlq_code day_bound(struct str text, const char *name, int32_t absent, int32_t *day, struct dlq_err *err)
{
	*day = text.n ? archive_day_parse(text) : absent;
	return *day ? DLQ_OK : err_set(err, DLQ_BAD_REQUEST, "%s is not a day such as 2026-12-01", name);
}

static enum dlq_code list_check(struct str queue, struct str id, int limit, struct dlq_err *err)
{
	if (queue.n && queue_name_check(queue))
		return err_set(err, DLQ_INVALID_NAME, "%s", queue_name_check(queue));
	if (id.n && message_id_check(id))
		return err_set(err, DLQ_BAD_REQUEST, "id: %s", message_id_check(id));
	if (limit < 1 || limit > 1000)
		return err_set(err, DLQ_BAD_REQUEST, "limit is %d, it must be 1 to 1000", limit);
	return DLQ_OK;
}

enum dlq_code archive_list(const char *dir, struct str queue, struct str from_day, struct str to_day, struct str id,
                           struct str cursor, int limit, struct arena *a, struct archive_entry **out, int *n,
                           struct str *next, struct dlq_err *err)
{
	struct shelf s = {0};
	struct lister l;
	*out = NULL;
	*n = 0;
	*next = (struct str){"", 0};
	enum dlq_code c = list_check(queue, id, limit, err);
	if (!c)
		c = day_bound(from_day, "from", 1, &s.from, err);
	if (!c)
		c = day_bound(to_day, "to", INT32_MAX, &s.to, err);
	if (!c && cursor.n && !shelf_place_parse(cursor, &s.start))
		c = err_set(err, DLQ_BAD_REQUEST, "the cursor is not one that a list of the archive gave");
	if (c)
		return c;
	lister_init(&l, dir, id, a);
	l.limit = limit;
	l.lines = LIST_LINES;
	l.bytes = LIST_BYTES;
	c = shelf_open(&s, dir, queue, err);
	for (int i = 0; i < s.n && !c && !l.full; i++) {
		l.at = shelf_at(&s, i);
		if (!lister_stop(&l, l.at.from, l.at.a, l.at.b))
			c = lister_day(&l, shelf_newer(&s, i), err);
	}
	if (!c && !l.full && s.dropped.day) { /* more days than are kept at once */
		l.at = s.dropped;
		l.full = true;
	}
	if (!c) {
		*out = arena_alloc(a, (size_t)l.n * sizeof(**out));
		*n = l.n;
		for (int i = 0; i < l.n; i++)
			(*out)[i] = l.hits[i].e;
		if (l.full)
			*next = shelf_place_text(a, &l.at);
	}
	shelf_close(&s);
	lister_release(&l);
	return c;
}

/* ---- find ---- */

/* Keeps the later archived one of what is in l (at most one) and in *best. */
static void keep_best(struct lister *l, struct hit *best, bool *have)
{
	if (l->n && (!*have || l->hits[0].e.archived_at_ms > best->e.archived_at_ms)) {
		*best = l->hits[0];
		*have = true;
	}
	l->n = 0;
}

/* The newest day that has it between from and to; of that day the one archived last. */
static enum dlq_code find_hit(struct lister *l, int32_t from, int32_t to, struct hit *best, bool *have,
                              struct dlq_err *err)
{
	struct shelf s = {.from = from, .to = to};
	enum dlq_code c;
	do {
		int32_t day = 0;
		c = shelf_open(&s, l->dir, (struct str){0}, err);
		for (int i = 0; i < s.n && !c; i++) {
			l->at = shelf_at(&s, i);
			if (*have && l->at.day != day)
				break;
			day = l->at.day;
			c = lister_day(l, 0, err);
			if (!c && l->full && !l->n) {
				char text[ARCHIVE_DAY_LEN + 1];
				archive_day_text(day, text);
				c = err_set(
				    err, DLQ_TIMEOUT,
				    STR_FMT
				    " is not in the newest %" PRId64
				    " MiB of the archive, back to %s; list it with its queue and an earlier day",
				    STR_ARG(l->id), FIND_BYTES >> 20, text);
			}
			l->full = false;
			keep_best(l, best, have);
		}
		s.start = s.dropped;
	} while (!c && !*have && s.dropped.day);
	shelf_close(&s);
	return c;
}

static void keep_line(void *ctx, int64_t no, struct str text)
{
	(void)no;
	buf_clear(ctx);
	buf_adds(ctx, text);
}

static enum dlq_code not_the_one(struct lister *l, const struct hit *h, struct dlq_err *err)
{
	char day[ARCHIVE_DAY_LEN + 1];
	archive_day_text(l->at.day, day);
	if (h->from == 'j')
		return err_set(err, DLQ_STORE_CORRUPT,
		               "%s/archive/" STR_FMT "/%s.jsonl: the line at offset %" PRId64
		               " is not a whole record; restore the file from a backup",
		               l->dir, STR_ARG(l->at.queue), day, h->at);
	return err_set(err, DLQ_STORE_CORRUPT,
	               "%s/archive/" STR_FMT "/%s.index is wrong: line %" PRId64 " of the frame at offset %" PRId64
	               " is another record; remove the index: without it the data file itself is searched",
	               l->dir, STR_ARG(l->at.queue), day, h->place.line, h->place.offset);
}

static enum dlq_code fetch_frame(struct lister *l, const struct hit *h, struct buf *record, struct dlq_err *err)
{
	const char *why = "it is not where the index has it; if the data file is whole, remove the index";
	int64_t end = -1;
	if (l->data < 0) {
		errno = ENOENT;
		return lister_fail(l, "open", "jsonl.zst", err);
	}
	enum archive_frame_state state = FRAME_PIECE;
	if (h->place.offset < l->data_n)
		state = archive_frame_walk(l->data, h->place.offset, l->data_n, &end);
	if (!state && end != h->place.offset + h->place.bytes)
		state = FRAME_BAD;
	if (!state)
		state = archive_frame_lines(l->frames, l->data, h->place.offset, end, h->place.line, keep_line, record,
		                            &why);
	if (state == FRAME_FAILED)
		return lister_fail(l, "read", "jsonl.zst", err);
	if (state == FRAME_GOOD)
		return DLQ_OK;
	l->damage = (struct dlq_err){0};
	lister_damaged(l, h->place.offset, why);
	if (err)
		*err = l->damage;
	return DLQ_STORE_CORRUPT;
}

static enum dlq_code fetch_line(struct lister *l, const struct hit *h, struct buf *record, struct dlq_err *err)
{
	char *to = h->n <= (int64_t)ARCHIVE_RECORD_MAX ? buf_reserve(record, (size_t)h->n) : NULL;
	if (!to)
		errno = EFBIG;
	if (!to || !archive_pread(l->old, to, (size_t)h->n, h->at))
		return lister_fail(l, "read", "jsonl", err);
	record->n = (size_t)h->n;
	return DLQ_OK;
}

static enum dlq_code fetch(struct lister *l, const struct hit *h, struct arena *a, struct str *record,
                           struct dlq_err *err)
{
	struct buf b = {.max = ARCHIVE_RECORD_MAX};
	struct archive_entry e = {0};
	l->at = (struct shelf_place){.day = archive_day_parse(h->e.day), .queue = h->e.queue};
	enum dlq_code c = lister_open(l, err);
	l->data_n = lister_size(l->data);
	if (!c)
		c = h->from == 'j' ? fetch_line(l, h, &b, err) : fetch_frame(l, h, &b, err);
	arena_reset(&l->scratch);
	if (!c && (!archive_line_parse(&l->scratch, buf_str(&b), false, &e, NULL) || !str_eq(e.dlq_id, h->e.dlq_id)))
		c = not_the_one(l, h, err);
	if (!c)
		*record = arena_str(a, buf_str(&b));
	lister_close(l);
	buf_release(&b);
	return c;
}

enum dlq_code archive_find(const char *dir, struct str id, struct arena *a, struct str *record, struct str *queue,
                           struct dlq_err *err)
{
	struct lister l;
	struct hit best = {0};
	int64_t died;
	bool have = false;
	enum dlq_code c = DLQ_OK;
	if (message_id_check(id))
		return err_set(err, DLQ_NOT_FOUND, "%s", message_id_check(id));
	lister_init(&l, dir, id, a);
	l.limit = 1;
	l.lines = INT64_MAX;
	l.bytes = FIND_BYTES;
	/*
	 * A dlq_id has the time of the first death in it. Two days of grace for a clock that was set back; by more than
	 * that, or when it is the id of a message, all days are looked at.
	 */
	if (ulid_parse(id, &died, NULL, NULL)) {
		l.dlq_id_only = true;
		c = find_hit(&l, archive_day_of(died - (int64_t)2 * 86400000), INT32_MAX, &best, &have, err);
		l.dlq_id_only = false;
	}
	if (!c && !have)
		c = find_hit(&l, 1, INT32_MAX, &best, &have, err);
	if (!c && !have && l.damage.code) {
		c = DLQ_STORE_CORRUPT;
		if (err)
			*err = l.damage;
	} else if (!c && !have) {
		c = err_set(err, DLQ_NOT_FOUND, "there is no " STR_FMT " in the archive", STR_ARG(id));
	}
	if (!c)
		c = fetch(&l, &best, a, record, err);
	if (!c)
		*queue = arena_str(a, best.e.queue);
	lister_release(&l);
	return c;
}
