#include "cli/edit_diff.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/preview.h"
#include "cli/term.h"
#include "jq/json_text.h"

#define CHANGES_SHOWN 50
#define LINES_SHOWN 12

/* ---- JSON ---- */

/* Two documents side by side. Numbers and texts are compared and shown as they are written: 1.10 is not 1.1 here. */
struct diff {
	struct jtext_doc doc[2];     /* old, new */
	struct buf path, text[2];
	int n;                       /* places that differ */
};

#define NOTHING UINT32_MAX /* instead of a node: it is only in the other one */

static const char *words_of(struct diff *d, int which, uint32_t node)
{
	buf_clear(&d->text[which]);
	if (node != NOTHING)
		buf_adds(&d->text[which], jtext_span(&d->doc[which], node));
	buf_addc(&d->text[which], 0);
	return d->text[which].p;
}

static void show(struct diff *d, uint32_t old, uint32_t now)
{
	if (d->n++ < CHANGES_SHOWN)
		preview_change(d->path.n ? d->path.p : ".", words_of(d, 0, old), words_of(d, 1, now));
}

static void end_path(struct diff *d)
{
	buf_addc(&d->path, 0);
	d->path.n--;
}

/* ".key" or ".[\"odd key\"]", as jq writes it; NUL-ended beyond its length. */
static void step_key(struct diff *d, struct str quoted)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
	bool is_plain = quoted.n > 2 && !(quoted.p[1] >= '0' && quoted.p[1] <= '9');

	for (size_t i = 1; i + 1 < quoted.n && is_plain; i++)
		is_plain = memchr(plain, quoted.p[i], sizeof(plain) - 1) != NULL;
	buf_addz(&d->path, is_plain ? "." : ".[");
	buf_adds(&d->path, is_plain ? (struct str){quoted.p + 1, quoted.n - 2} : quoted);
	buf_addz(&d->path, is_plain ? "" : "]");
	end_path(d);
}

static void walk(struct diff *d, uint32_t old, uint32_t now);

/* The members of one object; where `both`: those that the other one has, too, else those that it lacks. */
static void walk_members(struct diff *d, int which, uint32_t object, const struct jtext_index *other, bool both)
{
	const struct jtext_doc *doc = &d->doc[which];
	size_t at = d->path.n;

	for (uint32_t i = 0, key = object + 1; i < doc->nodes[object].n; i++, key = doc->nodes[key + 1].next) {
		uint32_t there = jtext_index_find(other, &d->doc[!which], doc, key);

		step_key(d, jtext_span(doc, key));
		if (there != NOTHING && both)
			walk(d, key + 1, there + 1);
		else if (there == NOTHING && which)
			show(d, NOTHING, key + 1);
		else if (there == NOTHING)
			show(d, key + 1, NOTHING);
		d->path.n = at;
	}
}

static void walk_objects(struct diff *d, uint32_t old, uint32_t now)
{
	struct jtext_index ix[2] = {{0}, {0}};

	jtext_index_fill(&ix[0], &d->doc[0], old);
	jtext_index_fill(&ix[1], &d->doc[1], now);
	walk_members(d, 0, old, &ix[1], true);
	walk_members(d, 1, now, &ix[0], false);
	jtext_index_release(&ix[0]);
	jtext_index_release(&ix[1]);
}

static void walk_arrays(struct diff *d, uint32_t old, uint32_t now)
{
	uint32_t a = d->doc[0].nodes[old].n, b = d->doc[1].nodes[now].n, i = old + 1, k = now + 1;
	size_t at = d->path.n;

	for (uint32_t e = 0; e < a || e < b; e++) {
		buf_addf(&d->path, "%s[%u]", at ? "" : ".", e);
		end_path(d);
		if (e < a && e < b)
			walk(d, i, k);
		else
			show(d, e < a ? i : NOTHING, e < b ? k : NOTHING);
		i = e < a ? d->doc[0].nodes[i].next : i;
		k = e < b ? d->doc[1].nodes[k].next : k;
		d->path.n = at;
	}
}

static void walk(struct diff *d, uint32_t old, uint32_t now)
{
	char a = jtext_kind(&d->doc[0], old), b = jtext_kind(&d->doc[1], now);

	if (a == '{' && b == '{')
		walk_objects(d, old, now);
	else if (a == '[' && b == '[')
		walk_arrays(d, old, now);
	else if (!str_eq(jtext_span(&d->doc[0], old), jtext_span(&d->doc[1], now)))
		show(d, old, now);
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
	struct diff d = {0};

	if (!jtext_parse(&d.doc[0], old, JSON_DEPTH_CAP, NULL) && !jtext_parse(&d.doc[1], new_body, JSON_DEPTH_CAP, NULL)) {
		jtext_hash(&d.doc[0]);
		jtext_hash(&d.doc[1]);
		walk(&d, 0, 0);
	}
	if (d.n > CHANGES_SHOWN)
		printf("    ... and %d more places\n", d.n - CHANGES_SHOWN);
	/* Spaces and the order of keys: only the text shows them. */
	if (!d.n)
		line_diff(old, new_body);
	for (int i = 0; i < 2; i++) {
		jtext_release(&d.doc[i]);
		buf_release(&d.text[i]);
	}
	buf_release(&d.path);
}
