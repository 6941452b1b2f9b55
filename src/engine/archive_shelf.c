/* archive_shelf.c - the folders of the archive. Names that are not dlq's are passed over. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/archive_shelf.h"

#define ITEMS_MAX 65536 /* the newest that are kept at once */
#define QUEUES_MAX 100000

/* ---- places as text: DAY/QUEUE, and behind another slash i or j with a number, or z with two ---- */

static bool take_number(struct str *s, int64_t *v)
{
	size_t i = 0;
	*v = 0;
	for (; i < s->n && s->p[i] >= '0' && s->p[i] <= '9'; i++) {
		int digit = s->p[i] - '0';
		if (*v > (INT64_MAX - digit) / 10)
			return false;
		*v = *v * 10 + digit;
	}
	s->p += i;
	s->n -= i;
	return i > 0;
}

static bool take_char(struct str *s, char c)
{
	if (!s->n || s->p[0] != c)
		return false;
	s->p++;
	s->n--;
	return true;
}

bool shelf_place_parse(struct str s, struct shelf_place *p)
{
	*p = (struct shelf_place){0};
	if (s.n <= ARCHIVE_DAY_LEN)
		return false;
	p->day = archive_day_parse((struct str){s.p, ARCHIVE_DAY_LEN});
	s.p += ARCHIVE_DAY_LEN;
	s.n -= ARCHIVE_DAY_LEN;
	if (!p->day || !take_char(&s, '/'))
		return false;
	const char *slash = s.n ? memchr(s.p, '/', s.n) : NULL;
	p->queue = (struct str){s.p, slash ? (size_t)(slash - s.p) : s.n};
	if (queue_name_check(p->queue))
		return false;
	s.p += p->queue.n;
	s.n -= p->queue.n;
	if (!take_char(&s, '/'))
		return true;
	p->from = s.n ? s.p[0] : 0;
	if (!take_char(&s, 'i') && !take_char(&s, 'j') && !take_char(&s, 'z'))
		return false;
	if (!take_number(&s, &p->a) || (p->from == 'z' && (!take_char(&s, '-') || !take_number(&s, &p->b))))
		return false;
	return s.n == 0;
}

struct str shelf_place_text(struct arena *a, const struct shelf_place *p)
{
	char day[ARCHIVE_DAY_LEN + 1];
	archive_day_text(p->day, day);
	if (!p->from)
		return arena_fmt(a, "%s/" STR_FMT, day, STR_ARG(p->queue));
	if (p->from == 'z')
		return arena_fmt(a, "%s/" STR_FMT "/z%" PRId64 "-%" PRId64, day, STR_ARG(p->queue), p->a, p->b);
	return arena_fmt(a, "%s/" STR_FMT "/%c%" PRId64, day, STR_ARG(p->queue), p->from, p->a);
}

/* ---- queues ---- */

static int by_text(const void *a, const void *b)
{
	const struct str *x = a, *y = b;
	size_t n = x->n < y->n ? x->n : y->n;
	int d = memcmp(x->p, y->p, n);
	return d ? d : x->n < y->n ? -1 : x->n > y->n;
}

static void queue_add(struct shelf *s, struct str name)
{
	if (s->n_queues == s->cap_queues) {
		s->cap_queues = s->cap_queues ? s->cap_queues * 2 : 16;
		s->queues = mem_grow(s->queues, (size_t)s->cap_queues, sizeof(*s->queues));
	}
	s->queues[s->n_queues++] = arena_str(&s->arena, name);
}

static enum dlq_code queues_find(struct shelf *s, const char *dir, struct dlq_err *err)
{
	char path[ARCHIVE_PATH_MAX];
	int len = snprintf(path, sizeof path, "%s/archive", dir);
	if (len < 0 || len >= ARCHIVE_PATH_MAX)
		return err_set(err, DLQ_SYSTEM, "archive: the path %s is too long", dir);
	enum dlq_code c = DLQ_OK;
	DIR *d = opendir(path);
	if (!d)
		return errno == ENOENT ? DLQ_OK
		                       : err_set(err, DLQ_SYSTEM, "archive: cannot list %s: %s", path, strerror(errno));
	for (struct dirent *e; !c && (e = readdir(d));) {
		if (queue_name_check(str_of(e->d_name)))
			continue;
		if (s->n_queues == QUEUES_MAX)
			c = err_set(err, DLQ_SYSTEM, "archive: %s has more than %d folders; name a queue", path,
			            QUEUES_MAX);
		else
			queue_add(s, str_of(e->d_name));
	}
	closedir(d);
	if (s->n_queues)
		qsort(s->queues, (size_t)s->n_queues, sizeof(*s->queues), by_text);
	return c;
}

/* ---- days ---- */

/* Newest day first, then by queue; queues are sorted by name. */
static int by_place(const void *a, const void *b)
{
	const struct shelf_item *x = a, *y = b;
	if (x->day != y->day)
		return x->day > y->day ? -1 : 1;
	return x->queue < y->queue ? -1 : x->queue > y->queue;
}

/* Sorted, each once, at most ITEMS_MAX. */
static void items_settle(struct shelf *s)
{
	int n = 0;
	if (s->n)
		qsort(s->items, (size_t)s->n, sizeof(*s->items), by_place);
	for (int i = 0; i < s->n; i++)
		if (!n || by_place(&s->items[n - 1], &s->items[i]))
			s->items[n++] = s->items[i];
	s->n = n < ITEMS_MAX ? n : ITEMS_MAX;
	if (n <= ITEMS_MAX)
		return;
	const struct shelf_item *first = &s->items[ITEMS_MAX];
	struct str name = s->queues[first->queue];
	if (first->day < s->dropped.day || (first->day == s->dropped.day && by_text(&name, &s->dropped.queue) > 0))
		return;
	memcpy(s->dropped_name, name.p, name.n);
	s->dropped = (struct shelf_place){.day = first->day, .queue = {s->dropped_name, name.n}};
}

static void item_add(struct shelf *s, int32_t day, int q)
{
	const struct shelf_place *start = &s->start;
	bool passed =
	    start->day && (day > start->day || (day == start->day && by_text(&s->queues[q], &start->queue) < 0));
	if (passed || day > s->to) {
		if (!s->newer[q] || day < s->newer[q])
			s->newer[q] = day;
		return;
	}
	if (day < s->from)
		return;
	if (s->n == 2 * ITEMS_MAX)
		items_settle(s);
	if (s->n == s->cap) {
		s->cap = s->cap ? s->cap * 2 : 64;
		s->items = mem_grow(s->items, (size_t)s->cap, sizeof(*s->items));
	}
	s->items[s->n++] = (struct shelf_item){day, q};
}

/* The day of a file of the archive, 0: it is another. */
static int32_t day_of_file(const char *name)
{
	struct str s = str_of(name);
	if (s.n <= ARCHIVE_DAY_LEN)
		return 0;
	struct str suffix = {s.p + ARCHIVE_DAY_LEN, s.n - ARCHIVE_DAY_LEN};
	if (!str_eqz(suffix, ".jsonl.zst") && !str_eqz(suffix, ".index") && !str_eqz(suffix, ".jsonl"))
		return 0;
	return archive_day_parse((struct str){s.p, ARCHIVE_DAY_LEN});
}

static enum dlq_code days_find(struct shelf *s, const char *dir, int q, struct dlq_err *err)
{
	char path[ARCHIVE_PATH_MAX];
	int len = snprintf(path, sizeof path, "%s/archive/" STR_FMT, dir, STR_ARG(s->queues[q]));
	if (len < 0 || len >= ARCHIVE_PATH_MAX)
		return err_set(err, DLQ_SYSTEM, "archive: the path below %s is too long", dir);
	DIR *d = opendir(path);
	if (!d && (errno == ENOENT || errno == ENOTDIR))
		return DLQ_OK;
	if (!d)
		return err_set(err, DLQ_SYSTEM, "archive: cannot list %s: %s", path, strerror(errno));
	for (struct dirent *e; (e = readdir(d));) {
		int32_t day = day_of_file(e->d_name);
		if (day)
			item_add(s, day, q);
	}
	closedir(d);
	return DLQ_OK;
}

enum dlq_code shelf_open(struct shelf *s, const char *dir, struct str queue, struct dlq_err *err)
{
	enum dlq_code c = DLQ_OK;
	if (s->start.day) {
		memmove(s->start_name, s->start.queue.p, s->start.queue.n);
		s->start.queue.p = s->start_name;
	}
	arena_reset(&s->arena);
	s->n = s->n_queues = 0;
	s->dropped = (struct shelf_place){0};
	if (queue.n)
		queue_add(s, queue);
	else
		c = queues_find(s, dir, err);
	s->newer = arena_alloc(&s->arena, (size_t)s->n_queues * sizeof(*s->newer));
	for (int q = 0; q < s->n_queues && !c; q++)
		c = days_find(s, dir, q, err);
	if (!c)
		items_settle(s);
	return c;
}

void shelf_close(struct shelf *s)
{
	mem_free(s->items);
	mem_free(s->queues);
	arena_release(&s->arena);
	*s = (struct shelf){0};
}

struct shelf_place shelf_at(const struct shelf *s, int i)
{
	struct shelf_place p = {.day = s->items[i].day, .queue = s->queues[s->items[i].queue]};
	if (p.day == s->start.day && str_eq(p.queue, s->start.queue)) {
		p.from = s->start.from;
		p.a = s->start.a;
		p.b = s->start.b;
	}
	return p;
}

int32_t shelf_newer(struct shelf *s, int i)
{
	int32_t *newer = &s->newer[s->items[i].queue], day = *newer;
	*newer = s->items[i].day;
	return day;
}
