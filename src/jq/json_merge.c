#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "jq/json_merge_int.h"

#define TRIED_MAX 64     /* old elements compared with a new one */

/* ---- writing ---- */

static void write_new(struct merge *m, uint32_t e)
{
	merge_check_numbers(m, e);
	buf_adds(&m->out, jtext_span(&m->e, e));
}

static void write_old(struct merge *m, size_t from, size_t to)
{
	buf_add(&m->out, m->o.text.p + from, to - from);
}

/* One item (element or member) of an array or object of the original, and the space around it: what is between the commas. */
struct item {
	uint32_t node;        /* the element, or the key */
	uint32_t value;       /* the element, or the member's value */
	uint32_t space, tail; /* its first byte behind the comma or brace in front; its end before the one behind */
};

struct items {
	struct item *v;
	uint32_t n;
	/* What goes before and after an item that is new in a place, so that it looks like its neighbours. */
	struct str first_space, next_space, last_tail, colon;
};

static struct str old_text(const struct merge *m, size_t from, size_t to)
{
	return (struct str){m->o.text.p + from, to - from};
}

static void style_of(const struct merge *m, struct items *it, bool object)
{
	const struct item *first = &it->v[0], *last = &it->v[it->n - 1];
	const struct jtext_node *nodes = m->o.nodes;
	it->first_space = old_text(m, first->space, nodes[first->node].at);
	it->last_tail = old_text(m, nodes[last->value].end, last->tail);
	it->colon = object ? old_text(m, nodes[last->node].end, nodes[last->value].at) : STR(":");
	if (it->n > 1)
		it->next_space = old_text(m, it->v[1].space, nodes[it->v[1].node].at);
	else if (memchr(it->first_space.p, '\n', it->first_space.n))
		it->next_space = it->first_space;
	else
		it->next_space = object && it->colon.p[it->colon.n - 1] == ' ' ? STR(" ") : STR("");
}

/* The items of container o; released by the caller with mem_free(it->v). */
static void items_of(const struct merge *m, uint32_t o, struct items *it)
{
	const struct jtext_node *nodes = m->o.nodes;
	bool object = jtext_kind(&m->o, o) == '{';
	*it = (struct items){.n = nodes[o].n, .colon = STR(":"), .first_space = STR(""), .next_space = STR(""), .last_tail = STR("")};
	it->v = mem_array(it->n, sizeof it->v[0]);
	uint32_t node = o + 1, space = nodes[o].at + 1;
	for (uint32_t i = 0; i < it->n; i++) {
		uint32_t value = object ? node + 1 : node;
		uint32_t tail = nodes[value].end;
		while (m->o.text.p[tail] != ',' && tail < nodes[o].end - 1)
			tail++;
		it->v[i] = (struct item){node, value, space, tail};
		space = tail + 1;
		node = nodes[value].next;
	}
	if (it->n)
		style_of(m, it, object);
}

/* The comma and space in front of the k-th item written, which is old item i or (NONE) a new one. */
static void write_front(struct merge *m, const struct items *it, uint32_t k, uint32_t i)
{
	if (k > 0)
		buf_addc(&m->out, ',');
	if (k == 0)
		buf_adds(&m->out, it->first_space);
	else if (i == NONE || i == 0)
		buf_adds(&m->out, it->next_space);
	else
		write_old(m, it->v[i].space, m->o.nodes[it->v[i].node].at);
}

/* The space behind it; what stood before the closing brace stays there. */
static void write_back(struct merge *m, const struct items *it, uint32_t i, bool last)
{
	if (last)
		buf_adds(&m->out, it->last_tail);
	else if (i != NONE && i != it->n - 1)
		write_old(m, m->o.nodes[it->v[i].value].end, it->v[i].tail);
}

static void merge_value(struct merge *m, uint32_t o, uint32_t e);

static void push(struct merge *m, struct step s)
{
	m->path[m->depth++] = s;
}

/* ---- objects ---- */

static void write_added_member(struct merge *m, const struct items *it, uint32_t key)
{
	push(m, (struct step){&m->e, key, 0});
	merge_note_change(m, STR(""), jtext_span(&m->e, key + 1));
	buf_adds(&m->out, jtext_span(&m->e, key));
	buf_adds(&m->out, it->colon);
	write_new(m, key + 1);
	m->depth--;
}

/* An old member that stays; `key` is its member in the answer, if it is the last with its key: the one that jq saw. */
static void write_kept_member(struct merge *m, const struct item *item, uint32_t key)
{
	const struct jtext_node *nodes = m->o.nodes;
	write_old(m, nodes[item->node].at, nodes[item->value].at);
	if (key == NONE) {
		write_old(m, nodes[item->value].at, nodes[item->value].end);
		return;
	}
	push(m, (struct step){&m->o, item->node, 0});
	merge_value(m, item->value, key + 1);
	m->depth--;
}

static void note_removed_member(struct merge *m, const struct item *item)
{
	push(m, (struct step){&m->o, item->node, 0});
	merge_note_change(m, jtext_span(&m->o, item->value), STR(""));
	m->depth--;
}

static void merge_object(struct merge *m, uint32_t o, uint32_t e)
{
	struct items it;
	struct jtext_index old = {0}, new = {0};
	items_of(m, o, &it);
	jtext_index_fill(&old, &m->o, o);
	jtext_index_fill(&new, &m->e, e);
	uint32_t left = 0, k = 0; /* items to be written, and written */
	for (uint32_t i = 0; i < it.n; i++)
		left += jtext_index_find(&new, &m->e, &m->o, it.v[i].node) != NONE;
	for (uint32_t x = e + 1; x < m->e.nodes[e].next; x = m->e.nodes[x + 1].next)
		left += jtext_index_find(&old, &m->o, &m->e, x) == NONE;
	buf_addc(&m->out, '{');
	for (uint32_t i = 0; i < it.n; i++) {
		uint32_t key = jtext_index_find(&new, &m->e, &m->o, it.v[i].node);
		bool seen = jtext_index_find(&old, &m->o, &m->o, it.v[i].node) == it.v[i].node;
		if (key == NONE) {
			note_removed_member(m, &it.v[i]);
			continue;
		}
		write_front(m, &it, k++, i);
		write_kept_member(m, &it.v[i], seen ? key : NONE);
		write_back(m, &it, i, k == left);
	}
	for (uint32_t x = e + 1; x < m->e.nodes[e].next; x = m->e.nodes[x + 1].next) {
		if (jtext_index_find(&old, &m->o, &m->e, x) != NONE)
			continue;
		write_front(m, &it, k++, NONE);
		write_added_member(m, &it, x);
		write_back(m, &it, NONE, k == left);
	}
	buf_addc(&m->out, '}');
	jtext_index_release(&old);
	jtext_index_release(&new);
	mem_free(it.v);
}

/* ---- arrays ---- */

/* How the elements of the answer come from old ones. */
struct pairing {
	struct items it;
	uint32_t *new;   /* nodes of the answer's elements */
	uint32_t n_new;
	uint32_t *from;  /* per new element: the old item, or NONE */
	bool *same;      /* per new element: equal to that item */
	bool *used;      /* per old item */
	uint32_t head, old_tail; /* in the middle, where ends differ: items head to old_tail */
};

static void take(struct pairing *p, uint32_t x, uint32_t i, bool same)
{
	p->from[x] = i;
	p->same[x] = same;
	p->used[i] = true;
}

static bool equals(const struct merge *m, const struct pairing *p, uint32_t i, uint32_t x)
{
	return jtext_equal(&m->o, p->it.v[i].value, &m->e, p->new[x]);
}

/* Equal elements at both ends. Returns where the middle of the new ones ends. */
static uint32_t pair_ends(const struct merge *m, struct pairing *p)
{
	uint32_t n = p->it.n < p->n_new ? p->it.n : p->n_new, back = 0;
	while (p->head < n && equals(m, p, p->head, p->head)) {
		take(p, p->head, p->head, true);
		p->head++;
	}
	while (back < n - p->head && equals(m, p, p->it.n - 1 - back, p->n_new - 1 - back)) {
		take(p, p->n_new - 1 - back, p->it.n - 1 - back, true);
		back++;
	}
	p->old_tail = p->it.n - back;
	return p->n_new - back;
}

/* An unused old element that equals new element x, of the first TRIED_MAX. */
static void pair_equal(const struct merge *m, struct pairing *p, uint32_t x, uint32_t first)
{
	int tried = 0;
	for (uint32_t i = first; i < p->old_tail && tried < TRIED_MAX; i++) {
		if (p->used[i])
			continue;
		if (equals(m, p, i, x)) {
			take(p, x, i, true);
			return;
		}
		tried++;
	}
}

/*
 * The middle: first what is equal in its place, then what is equal elsewhere, then, when as many old as new ones are left, those by
 * their order: they were changed in place.
 */
static void pair_middle(const struct merge *m, struct pairing *p, uint32_t new_tail)
{
	uint32_t first = p->head, left_new = 0, left_old = 0;
	for (uint32_t x = p->head; x < new_tail && x < p->old_tail; x++)
		if (equals(m, p, x, x))
			take(p, x, x, true);
	for (uint32_t x = p->head; x < new_tail; x++) {
		while (first < p->old_tail && p->used[first])
			first++;
		if (p->from[x] == NONE)
			pair_equal(m, p, x, first);
		left_new += p->from[x] == NONE;
	}
	for (uint32_t i = p->head; i < p->old_tail; i++)
		left_old += !p->used[i];
	for (uint32_t x = p->head, i = p->head; left_new == left_old && x < new_tail; x++) {
		if (p->from[x] != NONE)
			continue;
		while (p->used[i])
			i++;
		take(p, x, i, false);
	}
}

static void note_array_changes(struct merge *m, const struct pairing *p, uint32_t o, uint32_t e)
{
	uint32_t before = 0;
	bool moved = false;
	for (uint32_t x = 0; x < p->n_new; x++) {
		if (p->from[x] == NONE)
			continue;
		moved = moved || p->from[x] < before;
		before = p->from[x];
	}
	if (moved)
		merge_note_change(m, jtext_span(&m->o, o), jtext_span(&m->e, e));
	for (uint32_t i = 0; i < p->it.n; i++) {
		if (p->used[i])
			continue;
		push(m, (struct step){&m->o, NONE, i});
		merge_note_change(m, jtext_span(&m->o, p->it.v[i].value), STR(""));
		m->depth--;
	}
}

static void write_element(struct merge *m, const struct pairing *p, uint32_t x)
{
	uint32_t i = p->from[x];
	push(m, (struct step){&m->e, NONE, x});
	if (i == NONE) {
		merge_note_change(m, STR(""), jtext_span(&m->e, p->new[x]));
		write_new(m, p->new[x]);
	} else if (p->same[x]) {
		write_old(m, m->o.nodes[p->it.v[i].value].at, m->o.nodes[p->it.v[i].value].end);
	} else {
		merge_value(m, p->it.v[i].value, p->new[x]);
	}
	m->depth--;
}

static void pairing_init(const struct merge *m, struct pairing *p, uint32_t o, uint32_t e)
{
	*p = (struct pairing){.n_new = m->e.nodes[e].n};
	items_of(m, o, &p->it);
	p->new = mem_array(p->n_new, sizeof p->new[0]);
	p->from = mem_array(p->n_new, sizeof p->from[0]);
	p->same = mem_array(p->n_new, sizeof p->same[0]);
	p->used = mem_array(p->it.n, sizeof p->used[0]);
	uint32_t node = e + 1;
	for (uint32_t x = 0; x < p->n_new; x++, node = m->e.nodes[node].next) {
		p->new[x] = node;
		p->from[x] = NONE;
	}
}

static void merge_array(struct merge *m, uint32_t o, uint32_t e)
{
	struct pairing p;
	pairing_init(m, &p, o, e);
	pair_middle(m, &p, pair_ends(m, &p));
	note_array_changes(m, &p, o, e);
	buf_addc(&m->out, '[');
	for (uint32_t x = 0; x < p.n_new; x++) {
		write_front(m, &p.it, x, p.from[x]);
		write_element(m, &p, x);
		write_back(m, &p.it, p.from[x], x + 1 == p.n_new);
	}
	buf_addc(&m->out, ']');
	mem_free(p.it.v);
	mem_free(p.new);
	mem_free(p.from);
	mem_free(p.same);
	mem_free(p.used);
}

/* ---- all of it ---- */

/* Writes the answer's value e, with the bytes of the original's value o where they are equal. Recursion: the depth of documents. */
static void merge_value(struct merge *m, uint32_t o, uint32_t e)
{
	char kind = jtext_kind(&m->o, o);
	if (jtext_equal(&m->o, o, &m->e, e)) {
		write_old(m, m->o.nodes[o].at, m->o.nodes[o].end);
	} else if (kind == '{' && jtext_kind(&m->e, e) == '{') {
		merge_object(m, o, e);
	} else if (kind == '[' && jtext_kind(&m->e, e) == '[') {
		merge_array(m, o, e);
	} else {
		merge_note_change(m, jtext_span(&m->o, o), jtext_span(&m->e, e));
		write_new(m, e);
	}
}

static enum dlq_code parse_both(struct merge *m, struct str original, struct str edited, int depth_max, struct dlq_err *err)
{
	size_t at;
	enum jtext_fault fault = jtext_parse(&m->o, original, depth_max, &at);
	if (fault == JSON_FINE) {
		fault = jtext_parse(&m->e, edited, depth_max, &at);
		if (fault != JSON_FINE)
			return err_set(err, DLQ_INVALID_JSON, "the edited document nests deeper than %d levels, or is not JSON, at byte %zu",
			               depth_max, at);
		return DLQ_OK;
	}
	if (fault == JSON_DEEP)
		return err_set(err, DLQ_INVALID_JSON, "the document nests deeper than %d levels at byte %zu", depth_max, at);
	return err_set(err, DLQ_INVALID_JSON, "the document is not JSON at byte %zu", at);
}

enum dlq_code json_merge(struct str original, struct str edited, int depth_max, size_t max, struct arena *a, struct json_merge_out *out,
                         struct dlq_err *err)
{
	struct merge *m = mem_alloc(sizeof *m);
	*out = (struct json_merge_out){.text = original, .warning = STR("")};
	m->out.max = max;
	m->a = a;
	m->res = out;
	enum dlq_code code = parse_both(m, original, edited, depth_max, err);
	if (code != DLQ_OK)
		goto out;
	jtext_hash(&m->o);
	jtext_hash(&m->e);
	write_old(m, 0, m->o.nodes[0].at);
	merge_value(m, 0, 0);
	write_old(m, m->o.nodes[0].end, original.n);
	if (m->out.overflow)
		code = err_set(err, DLQ_TOO_LARGE, "the edited document would be larger than %zu bytes", max);
	else if (out->changed)
		out->text = arena_str(a, buf_str(&m->out));
out:
	jtext_release(&m->o);
	jtext_release(&m->e);
	buf_release(&m->out);
	buf_release(&m->scratch);
	mem_free(m->lossy);
	mem_free(m);
	return code;
}
