#include "base/doc_build.h"

#include <stdio.h>

#define DOC_MAX_ENTRIES 1000 /* of one map; the search for duplicates compares each with each */

void build_printable(struct dlq_err *err)
{
	for (char *p = err ? err->detail : NULL; p && *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = '?';
}

enum dlq_code build_fail(struct doc_builder *b, int line, const char *fmt, ...)
{
	char text[400];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	err_set(b->err, DLQ_INVALID_SETTING, "%s:%d: %s", b->file, line, text);
	build_printable(b->err);
	return DLQ_INVALID_SETTING;
}

struct doc *build_add(struct doc_builder *b, enum doc_kind kind, int line, int col)
{
	struct doc *d = arena_alloc(b->arena, sizeof *d);
	*d = (struct doc){.kind = kind, .line = line, .col = col, .file = b->file};
	if (b->depth == 0) {
		b->root = d;
		return d;
	}
	struct doc_level *l = &b->level[b->depth - 1];
	d->parent = l->node;
	if (l->have_key) {
		d->key = l->key;
		d->key_line = l->key_line;
		l->have_key = false;
	}
	if (l->last)
		l->last->next = d;
	else
		l->node->child = d;
	l->last = d;
	return d;
}

struct doc *build_open(struct doc_builder *b, enum doc_kind kind, int line, int col)
{
	if (b->depth == DOC_MAX_DEPTH) {
		build_fail(b, line, "lists and maps are nested deeper than %d levels", DOC_MAX_DEPTH);
		return NULL;
	}
	struct doc *d = build_add(b, kind, line, col);
	b->level[b->depth++] = (struct doc_level){.node = d};
	return d;
}

void build_close(struct doc_builder *b)
{
	ASSERT(b->depth > 0);
	b->depth--;
}

bool build_wants_key(const struct doc_builder *b)
{
	const struct doc_level *l = b->depth ? &b->level[b->depth - 1] : NULL;
	return l && l->node->kind == DOC_MAP && !l->have_key;
}

enum dlq_code build_key(struct doc_builder *b, struct str text, int line)
{
	struct doc_level *l = &b->level[b->depth - 1];
	int n = 0;
	for (const struct doc *d = l->node->child; d; d = d->next, n++)
		if (str_eq(d->key, text))
			return build_fail(b, line, "the key \"" STR_FMT "\" stands here for the second time; line %d has the first",
			                  STR_ARG(str_cut(text, 60)), d->key_line);
	if (n == DOC_MAX_ENTRIES)
		return build_fail(b, line, "a map holds more than %d keys", DOC_MAX_ENTRIES);
	l->key = text;
	l->key_line = line;
	l->have_key = true;
	return DLQ_OK;
}
