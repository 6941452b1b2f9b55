/* json_merge_notes.c - what people are told of an edit: the places that change, and numbers that lost digits on their way. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "jq/json_merge_int.h"

#define SHOWN_MAX 200    /* bytes of an old or new value that people are shown */
#define PATH_SHOWN_MAX 400
#define NUMBER_SHOWN_MAX 60
#define DIGITS_RUN 16    /* digits in a text that may be a number which lost some: fewer never do */

/* ---- paths ---- */

static bool is_name(struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];
		bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
		if (!letter && (i == 0 || c < '0' || c > '9'))
			return false;
	}
	return s.n > 0;
}

static void add_step(struct merge *m, struct buf *b, struct step s)
{
	if (b->n > PATH_SHOWN_MAX)
		return;
	if (s.key == NONE) {
		buf_addf(b, b->n ? "[%u]" : ".[%u]", s.index);
		return;
	}
	struct str name = jtext_string(s.doc, s.key, &m->scratch);
	if (is_name(name)) {
		buf_addc(b, '.');
		buf_adds(b, str_cut(name, PATH_SHOWN_MAX));
		return;
	}
	struct json_out j;
	buf_addz(b, b->n ? "[" : ".[");
	jout_init(&j, b);
	jout_str(&j, str_cut(name, PATH_SHOWN_MAX));
	buf_addc(b, ']');
}

/* The steps from node `from` down to `target` inside it. */
static void add_steps_to(struct merge *m, struct buf *b, const struct jtext_doc *d, uint32_t from, uint32_t target)
{
	while (from < target && (jtext_kind(d, from) == '{' || jtext_kind(d, from) == '[')) {
		bool object = jtext_kind(d, from) == '{';
		uint32_t child = from + 1, index = 0;
		while (target >= d->nodes[object ? child + 1 : child].next) {
			child = d->nodes[object ? child + 1 : child].next;
			index++;
		}
		add_step(m, b, (struct step){d, object ? child : NONE, index});
		from = object ? child + 1 : child;
	}
}

static void add_path(struct merge *m, struct buf *b)
{
	for (int i = 0; i < m->depth; i++)
		add_step(m, b, m->path[i]);
}

static struct str finish_path(struct merge *m, struct buf *b)
{
	if (b->n == 0)
		buf_addc(b, '.');
	struct str s = arena_str(m->a, str_cut(buf_str(b), PATH_SHOWN_MAX));
	buf_release(b);
	return s;
}

/* ---- what is told about it ---- */

void merge_note_change(struct merge *m, struct str was, struct str is)
{
	struct json_merge_out *res = m->res;
	res->changed = true;
	if (res->n_changes == JQ_CHANGES_MAX) {
		res->more_changes++;
		return;
	}
	if (!res->changes)
		res->changes = arena_alloc(m->a, JQ_CHANGES_MAX * sizeof res->changes[0]);
	struct buf path = {0};
	add_path(m, &path);
	res->changes[res->n_changes++] = (struct jq_change){
	    .path = finish_path(m, &path),
	    .old = arena_str(m->a, str_cut(was, SHOWN_MAX)),
	    .new = arena_str(m->a, str_cut(is, SHOWN_MAX)),
	};
}

static int by_value(const void *a, const void *b)
{
	const struct lossy *x = a, *y = b;
	if (x->value != y->value)
		return x->value < y->value ? -1 : 1;
	return x->node < y->node ? -1 : x->node > y->node;
}

static double bounded(double v)
{
	return fmax(fmin(v, __DBL_MAX__), -__DBL_MAX__);
}

static void find_lossy(struct merge *m)
{
	size_t cap = 0;
	m->lossy_known = true;
	for (uint32_t i = 0; i < m->o.n; i++) {
		if (jtext_kind(&m->o, i) != 0)
			continue;
		double v = jtext_number(&m->o, i);
		if (!jtext_loses_digits(jtext_span(&m->o, i), v))
			continue;
		if (m->n_lossy == cap) {
			cap = cap ? cap * 2 : 16;
			m->lossy = mem_grow(m->lossy, cap, sizeof m->lossy[0]);
		}
		m->lossy[m->n_lossy++] = (struct lossy){bounded(v), i};
	}
	if (m->n_lossy)
		qsort(m->lossy, m->n_lossy, sizeof m->lossy[0], by_value);
}

/* The first number of the original that became v and is not that number, or NULL. */
static const struct lossy *lossy_of(struct merge *m, double v)
{
	size_t low = 0, high = m->n_lossy;
	v = bounded(v);
	while (low < high) {
		size_t mid = (low + high) / 2;
		if (m->lossy[mid].value < v)
			low = mid + 1;
		else
			high = mid;
	}
	return low < m->n_lossy && m->lossy[low].value == v ? &m->lossy[low] : NULL;
}

static void warn(struct merge *m, const struct lossy *l, struct str now, uint32_t from, uint32_t at)
{
	struct buf was = {0}, is = {0};
	add_steps_to(m, &was, &m->o, 0, l->node);
	struct str old_path = finish_path(m, &was);
	add_path(m, &is);
	add_steps_to(m, &is, &m->e, from, at);
	struct str new_path = finish_path(m, &is), old = jtext_span(&m->o, l->node);
	bool cut = old.n > NUMBER_SHOWN_MAX;
	old = str_cut(old, NUMBER_SHOWN_MAX);
	m->res->warning = arena_fmt(m->a, STR_FMT "%s (" STR_FMT ") became " STR_FMT " %s " STR_FMT, STR_ARG(old), cut ? "..." : "",
	                            STR_ARG(old_path), STR_ARG(now), jtext_kind(&m->e, at) == '"' ? "in the text at" : "at",
	                            STR_ARG(new_path));
}

/* A text may hold what was a number: "id-12345678901234567000". */
static void check_text(struct merge *m, uint32_t from, uint32_t at)
{
	struct str s = jtext_span(&m->e, at);
	for (size_t i = 0; i < s.n && !m->res->warning.n;) {
		size_t k = i;
		while (k < s.n && s.p[k] >= '0' && s.p[k] <= '9')
			k++;
		if (k - i >= DIGITS_RUN && k - i < 64) {
			char text[64];
			memcpy(text, s.p + i, k - i);
			text[k - i] = '\0';
			double v = strtod(text, NULL);
			const struct lossy *l = lossy_of(m, v);
			if (!l)
				l = lossy_of(m, -v);
			/* The digits themselves may be there: then nothing was lost. */
			struct str digits = {s.p + i, k - i};
			struct str old = l ? jtext_span(&m->o, l->node) : digits;
			if (old.p[0] == '-')
				old = (struct str){old.p + 1, old.n - 1};
			if (!jtext_same_decimal(digits, old))
				warn(m, l, digits, from, at);
		}
		i = k > i ? k : i + 1;
	}
}

void merge_check_numbers(struct merge *m, uint32_t at)
{
	if (!m->lossy_known)
		find_lossy(m);
	for (uint32_t i = at; i < m->e.nodes[at].next && m->n_lossy && !m->res->warning.n; i++) {
		const struct lossy *l;
		if (jtext_kind(&m->e, i) == '"') {
			check_text(m, at, i);
		} else if (jtext_kind(&m->e, i) == 0 && (l = lossy_of(m, jtext_number(&m->e, i)))) {
			warn(m, l, jtext_span(&m->e, i), at, i);
		}
	}
}
