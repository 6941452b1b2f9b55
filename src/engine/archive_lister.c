/*
 * archive_lister.c - the entries of one day of a queue, newest first: frames that the index does not know (it is gone,
 * or was not written any more), the index backwards, and the .jsonl of an earlier version backwards.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "engine/archive_lister.h"

#define OPEN_COST 4096                /* what a day of a queue counts, besides what is read of it */
#define RECORD_HEAD ((size_t)4 << 20) /* of a .jsonl line: what lists look at */
#define RECORD_IDS ((size_t)4096)     /* dlq_id and id are in here */
#define SEEN_AHEAD ((size_t)64 << 10)
#define FRAMES_MAX 65536 /* places of frames without index lines that are kept at once */
#define FRAME_ENTRIES_MAX 1000000

enum dlq_code lister_fail(struct lister *l, const char *what, const char *suffix, struct dlq_err *err)
{
	char day[ARCHIVE_DAY_LEN + 1];
	archive_day_text(l->at.day, day);
	return err_set(err, DLQ_SYSTEM, "archive: cannot %s %s/archive/" STR_FMT "/%s.%s: %s", what, l->dir,
	               STR_ARG(l->at.queue), day, suffix, strerror(errno));
}

void lister_damaged(struct lister *l, int64_t offset, const char *why)
{
	char day[ARCHIVE_DAY_LEN + 1];
	archive_day_text(l->at.day, day);
	if (l->damage.code)
		return;
	err_set(&l->damage, DLQ_STORE_CORRUPT,
	        "%s/archive/" STR_FMT "/%s.jsonl.zst: the frame at offset %" PRId64
	        " cannot be read: %s; restore the file from a backup (what is in other frames can still be read)",
	        l->dir, STR_ARG(l->at.queue), day, offset, why);
	log_event(LOG_WARN, "archive.unreadable",
	          "file=%s/archive/" STR_FMT "/%s.jsonl.zst offset=%" PRId64 " why=\"%s\"", l->dir,
	          STR_ARG(l->at.queue), day, offset, why);
}

/* ---- one entry ---- */

static bool is_seen(const struct lister *l, const struct archive_entry *e)
{
	for (int i = 0; i < l->n_seen; i++)
		if (l->seen[i].died_at == e->died_at_ms && str_eqz(e->dlq_id, l->seen[i].dlq_id))
			return true;
	return false;
}

static void see(struct lister *l, const struct archive_entry *e)
{
	if (e->dlq_id.n > ULID_LEN)
		return;
	struct seen *s = &l->seen[l->next_seen];
	*s = (struct seen){.died_at = e->died_at_ms};
	memcpy(s->dlq_id, e->dlq_id.p, e->dlq_id.n);
	l->next_seen = (l->next_seen + 1) % SEEN_MAX;
	l->n_seen = l->n_seen < SEEN_MAX ? l->n_seen + 1 : SEEN_MAX;
}

static bool is_wanted(const struct lister *l, const struct archive_entry *e)
{
	return !l->id.n || str_eq(e->dlq_id, l->id) || (!l->dlq_id_only && str_eq(e->id, l->id));
}

/* Whether a line may be about the wanted id; cheap. */
static bool may_match(const struct lister *l, struct str text)
{
	size_t n = text.n < RECORD_IDS ? text.n : RECORD_IDS;
	return !l->id.n || (n && memmem(text.p, n, l->needle.p, l->needle.n));
}

/* h's texts may be anywhere: what is taken is copied. */
static void take(struct lister *l, const struct hit *h)
{
	if (!is_wanted(l, &h->e) || is_seen(l, &h->e))
		return;
	see(l, &h->e);
	if (l->n == l->cap) {
		l->cap = l->cap ? l->cap * 2 : 16;
		l->hits = mem_grow(l->hits, (size_t)l->cap, sizeof(*l->hits));
	}
	struct hit *to = &l->hits[l->n++];
	char day[ARCHIVE_DAY_LEN + 1];
	archive_day_text(l->at.day, day);
	*to = *h;
	to->e.queue = arena_str(l->a, l->at.queue);
	to->e.day = arena_str(l->a, str_of(day));
	struct str *texts[] = {&to->e.dlq_id, &to->e.id, &to->e.key, &to->e.state, &to->e.reason, &to->e.error_type};
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		*texts[i] = arena_str(l->a, *texts[i]);
}

bool lister_stop(struct lister *l, char from, int64_t a, int64_t b)
{
	if (l->n < l->limit && l->lines > 0 && l->bytes > 0)
		return false;
	l->at.from = from;
	l->at.a = a;
	l->at.b = b;
	l->full = true;
	return true;
}

static void skipped_line(struct lister *l, char from, int64_t at)
{
	char day[ARCHIVE_DAY_LEN + 1];
	archive_day_text(l->at.day, day);
	if (!l->told)
		log_event(LOG_WARN, "archive.line_skipped", "file=%s/archive/" STR_FMT "/%s.%s offset=%" PRId64, l->dir,
		          STR_ARG(l->at.queue), day, from == 'i' ? "index" : "jsonl", at);
	l->told = true;
}

/* ---- lines: of the index, or of a .jsonl ---- */

/* One line. bound: only what is before that frame and line. */
static bool line_look(struct lister *l, struct archive_back *b, char from, int64_t at, size_t n,
                      const struct archive_place *bound)
{
	size_t max = from == 'i' ? ARCHIVE_INDEX_LINE_MAX : RECORD_HEAD;
	struct str text;
	struct hit h = {.from = from, .at = at, .n = (int64_t)n};
	if (!archive_back_text(b, at, n, RECORD_IDS, &text))
		return false;
	if (!may_match(l, text))
		return true;
	if (!archive_back_text(b, at, n, max, &text))
		return false;
	arena_reset(&l->scratch);
	bool good = archive_line_parse(&l->scratch, text, n > max, &h.e, &h.place);
	if (good && from == 'i')
		good = h.place.offset >= 0 && h.place.bytes > 0 && h.place.line > 0;
	if (!good)
		skipped_line(l, from, at);
	else if (from == 'j' || h.place.offset < bound->offset ||
	         (h.place.offset == bound->offset && h.place.line < bound->line))
		take(l, &h);
	return true;
}

/* False: a read failed. end: of the lines that are still to come. */
static bool lines_list(struct lister *l, int fd, char from, int64_t end, const struct archive_place *bound)
{
	struct archive_back b;
	bool more = true,
	     ok = archive_back_init(&b, fd, end, from == 'i' ? ARCHIVE_INDEX_LINE_MAX : ARCHIVE_RECORD_MAX);
	l->bytes -= b.read;
	while (ok) {
		int64_t at, read = b.read;
		size_t n;
		if (b.end > 0 && lister_stop(l, from, b.end, 0))
			break;
		ok = archive_back_prev(&b, &at, &n, &more);
		if (!ok || !more)
			break;
		ok = line_look(l, &b, from, at, n, bound);
		l->lines--;
		l->bytes -= b.read - read;
	}
	int e = errno;
	archive_back_release(&b);
	errno = e;
	return ok;
}

/* The entries just behind a place are newer: copies of them are older ones. What cannot be read is not seen. */
static void look_ahead(struct lister *l, int fd, int64_t at)
{
	char *text = mem_grow(NULL, SEEN_AHEAD, 1);
	ssize_t got = pread(fd, text, SEEN_AHEAD, at);
	struct str s = {text, got > 0 ? (size_t)got : 0};
	for (int i = 0; i < SEEN_MAX / 2 && s.n; i++) {
		const char *eol = memchr(s.p, '\n', s.n);
		if (!eol)
			break;
		struct archive_entry e = {0};
		struct str line = {s.p, (size_t)(eol - s.p)};
		arena_reset(&l->scratch);
		if (may_match(l, line) && archive_line_parse(&l->scratch, line, false, &e, NULL))
			see(l, &e);
		s.p += line.n + 1;
		s.n -= line.n + 1;
	}
	l->bytes -= got > 0 ? got : 0;
	mem_free(text);
}

/* ---- frames that the index does not know ---- */

struct frame_lines {
	struct lister *l;
	struct arena a;
	struct hit *hits;
	int n, cap;
	int64_t last;   /* the number of the last line */
	int64_t before; /* only lines before this one */
	bool too_many;
};

static void frame_line(void *ctx, int64_t no, struct str text)
{
	struct frame_lines *f = ctx;
	struct hit h = {.from = 'z', .place = {.line = no}};
	f->last = no;
	f->l->bytes -= (int64_t)text.n;
	f->l->lines--;
	if (no >= f->before || !may_match(f->l, text))
		return;
	f->too_many = f->too_many || f->n == FRAME_ENTRIES_MAX;
	if (f->too_many || !archive_line_parse(&f->a, text, false, &h.e, NULL))
		return;
	if (f->n == f->cap) {
		f->cap = f->cap ? f->cap * 2 : 64;
		f->hits = mem_grow(f->hits, (size_t)f->cap, sizeof(*f->hits));
	}
	f->hits[f->n++] = h;
}

/* The lines of one frame before number `before`, last first. False: a read failed. */
static bool frame_list(struct lister *l, int64_t at, int64_t before)
{
	struct frame_lines f = {.l = l, .before = before};
	const char *why = "";
	int64_t end;
	enum archive_frame_state state = archive_frame_walk(l->data, at, l->data_n, &end);
	if (!state)
		state = archive_frame_lines(l->frames, l->data, at, end, 0, frame_line, &f, &why);
	if (!state && f.too_many) {
		state = FRAME_BAD;
		why = "it holds more records than any that dlq writes";
	}
	if (state && state != FRAME_FAILED)
		lister_damaged(l, at, why);
	/* That it was looked at shows in the budget; within the frame only the page can be full. */
	for (int i = f.n; i-- > 0 && !state;) {
		if (l->n == l->limit && lister_stop(l, 'z', at, f.hits[i].place.line + 1))
			break;
		f.hits[i].place = (struct archive_place){at, end - at, f.hits[i].place.line, f.last};
		take(l, &f.hits[i]);
	}
	mem_free(f.hits);
	arena_release(&f.a);
	return state != FRAME_FAILED;
}

/* The last FRAMES_MAX places of good frames in [from, below]; sorted. *dropped: there are more before them. */
static bool frames_find(struct lister *l, int64_t from, int64_t below, int64_t **out, int *n, bool *dropped)
{
	int64_t *at = NULL, end;
	int cap = 0;
	*n = 0;
	*dropped = false;
	for (int64_t p = from; p < l->data_n && p <= below;) {
		enum archive_frame_state state = archive_frame_walk(l->data, p, l->data_n, &end);
		if (state == FRAME_FAILED) {
			mem_free(at);
			return false;
		}
		if (state) {
			bool failed;
			int64_t next = archive_frame_search(l->frames, l->data, p + 1, l->data_n, &failed);
			if (next >= 0)
				lister_damaged(l, p, "it is not a frame");
			if (next < 0) /* a piece: being written just now, or left by a crash */
				break;
			p = next;
			continue;
		}
		if (*n == 2 * FRAMES_MAX) {
			memmove(at, at + FRAMES_MAX, FRAMES_MAX * sizeof(*at));
			*n = FRAMES_MAX;
			*dropped = true;
		}
		if (*n == cap) {
			cap = cap ? cap * 2 : 64;
			at = mem_grow(at, (size_t)cap, sizeof(*at));
		}
		at[(*n)++] = p;
		p = end;
	}
	*out = at;
	return true;
}

static bool frames_list(struct lister *l, int64_t covered, const struct archive_place *bound)
{
	int64_t *at = NULL;
	int n = 0;
	bool dropped, ok = frames_find(l, covered, bound->offset, &at, &n, &dropped);
	for (int i = n; i-- > 0 && ok && !l->full;) {
		int64_t before = at[i] == bound->offset ? bound->line : INT64_MAX;
		if (before > 1 && !lister_stop(l, 'z', at[i], before))
			ok = frame_list(l, at[i], before);
		if (dropped && i == 0 && !l->full)
			l->full = true, l->at.from = 'z', l->at.a = at[0], l->at.b = 1;
	}
	mem_free(at);
	return ok;
}

/* ---- a day ---- */

static bool open_one(struct lister *l, const char *suffix, int *fd)
{
	char path[ARCHIVE_PATH_MAX], day[ARCHIVE_DAY_LEN + 1];
	archive_day_text(l->at.day, day);
	int n = snprintf(path, sizeof path, "%s/archive/" STR_FMT "/%s.%s", l->dir, STR_ARG(l->at.queue), day, suffix);
	*fd = n > 0 && n < ARCHIVE_PATH_MAX ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
	if (*fd < 0)
		return errno == ENOENT;
	struct stat st;
	if (!fstat(*fd, &st) && S_ISREG(st.st_mode))
		return true;
	errno = EINVAL;
	return false;
}

int64_t lister_size(int fd)
{
	struct stat st;
	return fd >= 0 && !fstat(fd, &st) ? st.st_size : 0;
}

void lister_close(struct lister *l)
{
	int *fds[] = {&l->data, &l->index, &l->old};
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
}

enum dlq_code lister_open(struct lister *l, struct dlq_err *err)
{
	l->data = l->index = l->old = -1;
	l->bytes -= OPEN_COST;
	/* The index first: what it knows is in the data then. */
	if (!open_one(l, "index", &l->index))
		return lister_fail(l, "open", "index", err);
	if (!open_one(l, "jsonl.zst", &l->data))
		return lister_fail(l, "open", "jsonl.zst", err);
	if (!open_one(l, "jsonl", &l->old))
		return lister_fail(l, "open", "jsonl", err);
	return DLQ_OK;
}

/* What is newer than the place that this day is read from, as far as a crash may have written it twice. newer: the
 * queue's next day, 0: none. */
static void day_see_newer(struct lister *l, int32_t newer)
{
	l->n_seen = l->next_seen = 0;
	if (l->at.from == 'i' || l->at.from == 'j') {
		look_ahead(l, l->at.from == 'i' ? l->index : l->old, l->at.a);
	} else if (l->at.from == 0 && newer) {
		struct shelf_place at = l->at;
		int fd;
		l->at.day = newer;
		if (open_one(l, "index", &fd) && fd >= 0)
			look_ahead(l, fd, 0);
		if (fd >= 0)
			close(fd);
		l->at = at;
	}
}

/* The entries of a day of a queue from l->at on. l->full: not all of them. */
enum dlq_code lister_day(struct lister *l, int32_t newer, struct dlq_err *err)
{
	enum dlq_code c = lister_open(l, err);
	struct archive_place bound = {.offset = INT64_MAX, .line = INT64_MAX};
	char from = l->at.from;
	int64_t covered = 0;
	if (c)
		goto out;
	day_see_newer(l, newer);
	l->data_n = lister_size(l->data);
	if (from == 'z')
		bound = (struct archive_place){.offset = l->at.a, .line = l->at.b};
	if (from != 'i' && from != 'j' && l->data >= 0) {
		l->bytes -= OPEN_COST;
		if (l->index >= 0 && !archive_index_covers(l->index, &covered))
			c = lister_fail(l, "read", "index", err);
		else if (covered < l->data_n && !frames_list(l, covered, &bound))
			c = lister_fail(l, "read", "jsonl.zst", err);
	}
	if (!c && !l->full && from != 'j' && l->index >= 0 &&
	    !lines_list(l, l->index, 'i', from == 'i' ? l->at.a : lister_size(l->index), &bound))
		c = lister_fail(l, "read", "index", err);
	if (!c && !l->full && l->old >= 0 &&
	    !lines_list(l, l->old, 'j', from == 'j' ? l->at.a : lister_size(l->old), &bound))
		c = lister_fail(l, "read", "jsonl", err);
out:
	lister_close(l);
	return c;
}

void lister_init(struct lister *l, const char *dir, struct str id, struct arena *a)
{
	struct json_out j;
	struct buf needle = {0};
	*l = (struct lister){
	    .dir = dir, .id = id, .a = a, .frames = archive_frames_new(), .data = -1, .index = -1, .old = -1};
	jout_init(&j, &needle);
	jout_str(&j, id);
	l->needle = arena_str(a, buf_str(&needle));
	buf_release(&needle);
}

void lister_release(struct lister *l)
{
	archive_frames_free(l->frames);
	arena_release(&l->scratch);
	mem_free(l->hits);
}
