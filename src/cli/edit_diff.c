#include "cli/edit_diff.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/preview.h"
#include "cli/term.h"

#define CHANGES_SHOWN 50
#define LINES_SHOWN 12

/* ---- JSON ---- */

static void show(const struct buf *path, const json_t *old, const json_t *now, int *n)
{
	char *a = old ? json_dumps(old, JSON_ENCODE_ANY | JSON_COMPACT) : NULL, *b = now ? json_dumps(now, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;

	if ((*n)++ < CHANGES_SHOWN)
		preview_change(path->n ? path->p : ".", a ? a : "", b ? b : "");
	free(a);
	free(b);
}

/* ".key" or ".[\"odd key\"]", as jq writes it; NUL-ended beyond its length. */
static void step_key(struct buf *path, const char *key)
{
	bool plain = *key && strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == strlen(key) &&
		     !(*key >= '0' && *key <= '9');

	buf_addf(path, plain ? ".%s" : ".[\"%s\"]", key);
	buf_addc(path, 0);
	path->n--;
}

static void step_index(struct buf *path, size_t i)
{
	buf_addf(path, "%s[%zu]", path->n ? "" : ".", i);
	buf_addc(path, 0);
	path->n--;
}

static void walk(struct buf *path, json_t *old, json_t *now, int *n);

static void walk_object(struct buf *path, json_t *old, json_t *now, int *n)
{
	size_t at = path->n;
	const char *key;
	json_t *v;

	json_object_foreach(old, key, v) {
		step_key(path, key);
		walk(path, v, json_object_get(now, key), n);
		path->n = at;
	}
	json_object_foreach(now, key, v) {
		if (json_object_get(old, key))
			continue;
		step_key(path, key);
		show(path, NULL, v, n);
		path->n = at;
	}
}

static void walk(struct buf *path, json_t *old, json_t *now, int *n)
{
	size_t at = path->n;

	if (json_is_object(old) && json_is_object(now)) {
		walk_object(path, old, now, n);
	} else if (json_is_array(old) && json_is_array(now)) {
		size_t a = json_array_size(old), b = json_array_size(now);

		for (size_t i = 0; i < a || i < b; i++) {
			step_index(path, i);
			walk(path, i < a ? json_array_get(old, i) : NULL, i < b ? json_array_get(now, i) : NULL, n);
			path->n = at;
		}
	} else if (!old || !now || !json_equal(old, now)) {
		show(path, old, now, n);
	}
}

/* ---- lines ---- */

/* The line at the start of s, without its break, taken off s. */
static struct str take_line(struct str *s)
{
	const char *end = s->n ? memchr(s->p, '\n', s->n) : NULL;
	struct str line = {s->p, end ? (size_t)(end - s->p) : s->n};

	s->p += line.n + (end != NULL);
	s->n -= line.n + (end != NULL);
	return line;
}

static void show_lines(struct str s, const char *sign, const char *colour)
{
	char safe[300];
	int n = 0;

	while (s.n && n++ < LINES_SHOWN)
		printf("    %s%s %s%s\n", colour, sign, text_safe(take_line(&s), safe, sizeof(safe)), term_reset());
	if (s.n)
		printf("    %s%s ... %zu more bytes%s\n", colour, sign, s.n, term_reset());
}

/* Without the lines that are the same at the start and at the end. */
static void line_diff(struct str a, struct str b)
{
	for (;;) {
		struct str ra = a, rb = b;

		if (!ra.n || !rb.n || !str_eq(take_line(&ra), take_line(&rb)))
			break;
		a = ra;
		b = rb;
	}
	size_t same = 0, cut = 0;
	while (same < a.n && same < b.n && a.p[a.n - 1 - same] == b.p[b.n - 1 - same])
		if (a.p[a.n - 1 - same++] == '\n')
			cut = same;
	/* From a line break on: that one belongs to the line which differs. */
	a.n -= cut ? cut - 1 : 0;
	b.n -= cut ? cut - 1 : 0;
	show_lines(a, "-", term_red());
	show_lines(b, "+", term_green());
	if (str_eq(a, b))
		printf("    only line breaks at the end differ\n");
}

void edit_diff(struct str old, struct str new_body)
{
	size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL;
	json_t *a = json_loadb(old.n ? old.p : "", old.n, flags, NULL), *b = json_loadb(new_body.n ? new_body.p : "", new_body.n, flags, NULL);
	struct buf path = {0};
	int n = 0;

	if (a && b)
		walk(&path, a, b, &n);
	if (n > CHANGES_SHOWN)
		printf("    ... and %d more places\n", n - CHANGES_SHOWN);
	/* Digits that a number lost, spaces, the order of keys: only the text shows them. */
	if (!n)
		line_diff(old, new_body);
	buf_release(&path);
	json_decref(a);
	json_decref(b);
}
