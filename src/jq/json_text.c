#include "jq/json_text.h"

#include <string.h>

#include "jq/json_merge.h"

struct parser {
	struct str s;
	size_t i;
	int depth, depth_max;
	struct jtext_doc *d;                        /* NULL: only checked */
	bool object[JSON_DEPTH_CAP];               /* what is open */
	uint32_t open[JSON_DEPTH_CAP];             /* its node */
};

static char peek(const struct parser *p)
{
	return p->i < p->s.n ? p->s.p[p->i] : '\0';
}

static void skip_space(struct parser *p)
{
	while (p->i < p->s.n && (p->s.p[p->i] == ' ' || p->s.p[p->i] == '\n' || p->s.p[p->i] == '\r' || p->s.p[p->i] == '\t'))
		p->i++;
}

static uint32_t add_node(struct parser *p, size_t at)
{
	struct jtext_doc *d = p->d;
	if (!d)
		return 0;
	if (d->n == d->cap) {
		d->cap = d->cap ? d->cap * 2 : 64;
		d->nodes = mem_grow(d->nodes, d->cap, sizeof d->nodes[0]);
	}
	d->nodes[d->n] = (struct jtext_node){.at = (uint32_t)at, .next = d->n + 1};
	return d->n++;
}

/* One more element or member of what is open. */
static void count_one(struct parser *p)
{
	if (p->d && p->depth > 0)
		p->d->nodes[p->open[p->depth - 1]].n++;
}

/* ---- scalars ---- */

#define ONES 0x0101010101010101ull
#define HIGHS 0x8080808080808080ull

/* Whether one of the eight bytes ends a run of plain characters: a control, a quote, a backslash, not ASCII. */
static bool needs_care(uint64_t x)
{
	uint64_t quote = x ^ ONES * '"', slash = x ^ ONES * '\\';
	return ((x | ((x - ONES * 0x20) & ~x) | ((quote - ONES) & ~quote) | ((slash - ONES) & ~slash)) & HIGHS) != 0;
}

static void skip_plain(struct parser *p)
{
	uint64_t x;
	while (p->s.n - p->i >= sizeof x) {
		memcpy(&x, p->s.p + p->i, sizeof x);
		if (needs_care(x))
			break;
		p->i += sizeof x;
	}
	while (p->i < p->s.n) {
		unsigned char c = (unsigned char)p->s.p[p->i];
		if (c < 0x20 || c >= 0x80 || c == '"' || c == '\\')
			return;
		p->i++;
	}
}

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The value of four hex digits at p, -1 if they are not. */
static int hex4(const char *p, size_t n)
{
	int v = 0;
	if (n < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		int h = hex_digit(p[i]);
		if (h < 0)
			return -1;
		v = v << 4 | h;
	}
	return v;
}

static bool escape(struct parser *p)
{
	p->i++;
	char c = peek(p);
	if (c == 'u') {
		if (hex4(p->s.p + p->i + 1, p->s.n - p->i - 1) < 0)
			return false;
		p->i += 5;
		return true;
	}
	if (c == '\0' || !strchr("\"\\/bfnrt", c))
		return false;
	p->i++;
	return true;
}

static bool string(struct parser *p)
{
	uint32_t node = add_node(p, p->i);
	bool escapes = false;
	if (peek(p) != '"')
		return false;
	p->i++;
	for (;;) {
		skip_plain(p);
		char c = peek(p);
		if (c == '"')
			break;
		if (c == '\\') {
			escapes = true;
			if (!escape(p))
				return false;
			continue;
		}
		size_t step = p->i < p->s.n ? utf8_sequence(p->s.p + p->i, p->s.n - p->i) : 0;
		if (step == 0)
			return false;
		p->i += step;
	}
	p->i++;
	if (p->d) {
		p->d->nodes[node].end = (uint32_t)p->i;
		p->d->nodes[node].n = escapes;
	}
	return true;
}

static bool digits(struct parser *p)
{
	size_t from = p->i;
	while (peek(p) >= '0' && peek(p) <= '9')
		p->i++;
	return p->i > from;
}

static bool number(struct parser *p)
{
	if (peek(p) == '-')
		p->i++;
	if (peek(p) == '0')
		p->i++;
	else if (!digits(p))
		return false;
	if (peek(p) == '.') {
		p->i++;
		if (!digits(p))
			return false;
	}
	if (peek(p) == 'e' || peek(p) == 'E') {
		p->i++;
		if (peek(p) == '+' || peek(p) == '-')
			p->i++;
		return digits(p);
	}
	return true;
}

static bool word(struct parser *p, const char *z)
{
	size_t n = strlen(z);
	if (p->s.n - p->i < n || memcmp(p->s.p + p->i, z, n) != 0)
		return false;
	p->i += n;
	return true;
}

static bool scalar(struct parser *p)
{
	char c = peek(p);
	if (c == '"')
		return string(p);
	uint32_t node = add_node(p, p->i);
	bool good = c == 't' ? word(p, "true") : c == 'f' ? word(p, "false") : c == 'n' ? word(p, "null") : number(p);
	if (good && p->d)
		p->d->nodes[node].end = (uint32_t)p->i;
	return good;
}

/* ---- structure ---- */

static void open_container(struct parser *p)
{
	p->open[p->depth] = add_node(p, p->i);
	p->object[p->depth++] = peek(p) == '{';
	p->i++;
}

static void close_container(struct parser *p)
{
	p->i++;
	p->depth--;
	if (!p->d)
		return;
	struct jtext_node *node = &p->d->nodes[p->open[p->depth]];
	node->end = (uint32_t)p->i;
	node->next = p->d->n;
}

static bool key(struct parser *p)
{
	skip_space(p);
	if (!string(p))
		return false;
	skip_space(p);
	if (peek(p) != ':')
		return false;
	p->i++;
	count_one(p);
	return true;
}

enum after { AFTER_WRONG, AFTER_VALUE, AFTER_END };

/* Behind a value: closes what closes there, to the next value or the end. */
static enum after after_value(struct parser *p)
{
	while (p->depth > 0) {
		bool object = p->object[p->depth - 1];
		skip_space(p);
		if (peek(p) == ',') {
			p->i++;
			return !object || key(p) ? AFTER_VALUE : AFTER_WRONG;
		}
		if (peek(p) != (object ? '}' : ']'))
			return AFTER_WRONG;
		close_container(p);
	}
	return AFTER_END;
}

static enum jtext_fault document(struct parser *p)
{
	for (;;) {
		skip_space(p);
		char c = peek(p);
		if (p->depth > 0 && !p->object[p->depth - 1])
			count_one(p);
		if (c == '{' || c == '[') {
			if (p->depth == p->depth_max)
				return JSON_DEEP;
			open_container(p);
			skip_space(p);
			if (peek(p) != c + 2) { /* the brace that closes it */
				if (c == '{' && !key(p))
					return JSON_WRONG;
				continue;
			}
		} else if (!scalar(p)) {
			return JSON_WRONG;
		}
		enum after next = after_value(p);
		if (next != AFTER_VALUE)
			return next == AFTER_END ? JSON_FINE : JSON_WRONG;
	}
}

static enum jtext_fault parse(struct jtext_doc *d, struct str s, int depth_max, size_t *at)
{
	struct parser p;
	p.s = s;
	p.i = 0;
	p.depth = 0;
	p.depth_max = depth_max < JSON_DEPTH_CAP ? depth_max : JSON_DEPTH_CAP;
	p.d = d;
	enum jtext_fault fault = JSON_WRONG;
	if (s.n < (size_t)INT32_MAX) {
		if (s.n >= 3 && memcmp(s.p, "\xef\xbb\xbf", 3) == 0)
			p.i = 3;
		fault = document(&p);
		if (fault == JSON_FINE) {
			skip_space(&p);
			fault = p.i == s.n ? JSON_FINE : JSON_WRONG;
		}
	}
	if (at)
		*at = p.i;
	return fault;
}

enum jtext_fault jtext_parse(struct jtext_doc *d, struct str s, int depth_max, size_t *at)
{
	d->text = s;
	d->n = 0;
	return parse(d, s, depth_max, at);
}

bool json_check(struct str s, int depth_max, size_t *at)
{
	return parse(NULL, s, depth_max, at) == JSON_FINE;
}

void jtext_release(struct jtext_doc *d)
{
	mem_free(d->nodes);
	*d = (struct jtext_doc){0};
}

struct str jtext_span(const struct jtext_doc *d, uint32_t i)
{
	const struct jtext_node *node = &d->nodes[i];
	return (struct str){d->text.p + node->at, node->end - node->at};
}

char jtext_kind(const struct jtext_doc *d, uint32_t i)
{
	char c = d->text.p[d->nodes[i].at];
	return c == '-' || (c >= '0' && c <= '9') ? 0 : c;
}

/* ---- strings ---- */

static size_t put_utf8(unsigned int c, char out[4])
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		out[0] = (char)(0xe0 | c >> 12);
		out[1] = (char)(0x80 | (c >> 6 & 0x3f));
		out[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | c >> 18);
	out[1] = (char)(0x80 | (c >> 12 & 0x3f));
	out[2] = (char)(0x80 | (c >> 6 & 0x3f));
	out[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

/* Behind "\u": the character, of a pair both halves. *p moves on. */
static unsigned int unicode_escape(const char **p, const char *end)
{
	int c = hex4(*p, (size_t)(end - *p));
	*p += 4;
	if (c < 0xd800 || c > 0xdfff)
		return (unsigned int)c;
	if (c > 0xdbff || end - *p < 6 || (*p)[0] != '\\' || (*p)[1] != 'u')
		return 0xfffd;
	int low = hex4(*p + 2, 4);
	if (low < 0xdc00 || low > 0xdfff)
		return 0xfffd;
	*p += 6;
	return 0x10000u + (((unsigned int)c - 0xd800) << 10 | ((unsigned int)low - 0xdc00));
}

/* Walks the text of a string that the parser took, byte by byte. */
struct walk {
	const char *p, *end;
	char chars[4];
	size_t n, k; /* of chars: there, given */
};

static struct walk walk_of(const struct jtext_doc *d, uint32_t i)
{
	struct str s = jtext_span(d, i);
	return (struct walk){.p = s.p + 1, .end = s.p + s.n - 1};
}

/* The next byte, -1 at the end. */
static int walk_next(struct walk *w)
{
	if (w->k < w->n)
		return (unsigned char)w->chars[w->k++];
	if (w->p == w->end)
		return -1;
	char c = *w->p++;
	if (c != '\\')
		return (unsigned char)c;
	c = *w->p++;
	if (c == 'u') {
		w->n = put_utf8(unicode_escape(&w->p, w->end), w->chars);
		w->k = 1;
		return (unsigned char)w->chars[0];
	}
	return c == 'b' ? '\b' : c == 'f' ? '\f' : c == 'n' ? '\n' : c == 'r' ? '\r' : c == 't' ? '\t' : (unsigned char)c;
}

struct str jtext_string(const struct jtext_doc *d, uint32_t i, struct buf *scratch)
{
	struct str s = jtext_span(d, i);
	if (!d->nodes[i].n)
		return (struct str){s.p + 1, s.n - 2};
	struct walk w = walk_of(d, i);
	buf_clear(scratch);
	for (int c; (c = walk_next(&w)) >= 0;)
		buf_addc(scratch, (char)c);
	return buf_str(scratch);
}

/* ---- equal as jq sees it ---- */

static bool same_string(const struct jtext_doc *a, uint32_t i, const struct jtext_doc *b, uint32_t k)
{
	if (!a->nodes[i].n && !b->nodes[k].n)
		return str_eq(jtext_span(a, i), jtext_span(b, k));
	struct walk x = walk_of(a, i), y = walk_of(b, k);
	for (;;) {
		int c = walk_next(&x);
		if (c != walk_next(&y))
			return false;
		if (c < 0)
			return true;
	}
}

static uint64_t mix(uint64_t a, uint64_t b)
{
	__uint128_t product = (__uint128_t)(a ^ 0xa0761d6478bd642full) * (b ^ 0xe7037ed1a0b428dbull);
	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t hash_string(const struct jtext_doc *d, uint32_t i)
{
	struct walk w = walk_of(d, i);
	uint64_t h = 0xcbf29ce484222325ull;
	if (d->nodes[i].n) {
		for (int c; (c = walk_next(&w)) >= 0;)
			h = (h ^ (uint64_t)c) * 0x100000001b3ull;
	} else {
		for (; w.p < w.end; w.p++)
			h = (h ^ (unsigned char)*w.p) * 0x100000001b3ull;
	}
	return mix(h, '"');
}

static double jq_number(const struct jtext_doc *d, uint32_t i)
{
	double v = jtext_number(d, i);
	return v > __DBL_MAX__ ? __DBL_MAX__ : v < -__DBL_MAX__ ? -__DBL_MAX__ : v == 0 ? 0 : v;
}

static uint64_t hash_of(struct jtext_index *ix, const struct jtext_doc *d, uint32_t i)
{
	const struct jtext_node *node = &d->nodes[i];
	char kind = jtext_kind(d, i);
	uint64_t h = mix((uint64_t)kind, 1);
	double v;
	switch (kind) {
	case '"':
		return hash_string(d, i);
	case '[':
		for (uint32_t k = i + 1; k < node->next; k = d->nodes[k].next)
			h = mix(h, d->nodes[k].hash);
		return h;
	case '{':
		/* A sum, since the order of members means nothing. */
		jtext_index_fill(ix, d, i);
		for (uint32_t s = 0; s < ix->cap; s++)
			if (ix->slots[s] != UINT32_MAX)
				h += mix(d->nodes[ix->slots[s]].hash, d->nodes[ix->slots[s] + 1].hash);
		return h;
	case 0:
		v = jq_number(d, i);
		memcpy(&h, &v, sizeof h);
		return mix(h, 2);
	default:
		return h;
	}
}

void jtext_hash(struct jtext_doc *d)
{
	struct jtext_index ix = {0};
	/* From the end: what is inside a value comes before it. */
	for (uint32_t i = d->n; i-- > 0;)
		d->nodes[i].hash = hash_of(&ix, d, i);
	jtext_index_release(&ix);
}

static bool same_array(const struct jtext_doc *a, uint32_t i, const struct jtext_doc *b, uint32_t k)
{
	if (a->nodes[i].n != b->nodes[k].n)
		return false;
	uint32_t x = i + 1, y = k + 1;
	for (; x < a->nodes[i].next; x = a->nodes[x].next, y = b->nodes[y].next)
		if (!jtext_equal(a, x, b, y))
			return false;
	return true;
}

/* The same keys in the same order, as mostly. */
static bool keys_in_order(const struct jtext_doc *a, uint32_t i, const struct jtext_doc *b, uint32_t k)
{
	uint32_t x = i + 1, y = k + 1;
	if (a->nodes[i].n != b->nodes[k].n)
		return false;
	for (; x < a->nodes[i].next; x = a->nodes[x + 1].next, y = b->nodes[y + 1].next)
		if (!same_string(a, x, b, y))
			return false;
	return true;
}

static bool values_in_order(const struct jtext_doc *a, uint32_t i, const struct jtext_doc *b, uint32_t k)
{
	uint32_t x = i + 1, y = k + 1;
	for (; x < a->nodes[i].next; x = a->nodes[x + 1].next, y = b->nodes[y + 1].next)
		if (!jtext_equal(a, x + 1, b, y + 1))
			return false;
	return true;
}

static bool same_object(const struct jtext_doc *a, uint32_t i, const struct jtext_doc *b, uint32_t k)
{
	struct jtext_index ia = {0}, ib = {0};
	jtext_index_fill(&ia, a, i);
	jtext_index_fill(&ib, b, k);
	uint32_t na = 0, nb = 0;
	bool same = true;
	for (uint32_t s = 0; s < ib.cap; s++)
		nb += ib.slots[s] != UINT32_MAX;
	for (uint32_t s = 0; s < ia.cap && same; s++) {
		if (ia.slots[s] == UINT32_MAX)
			continue;
		uint32_t y = jtext_index_find(&ib, b, a, ia.slots[s]);
		same = y != UINT32_MAX && jtext_equal(a, ia.slots[s] + 1, b, y + 1);
		na++;
	}
	jtext_index_release(&ia);
	jtext_index_release(&ib);
	return same && na == nb;
}

bool jtext_equal(const struct jtext_doc *a, uint32_t i, const struct jtext_doc *b, uint32_t k)
{
	if (a->nodes[i].hash != b->nodes[k].hash || jtext_kind(a, i) != jtext_kind(b, k))
		return false;
	if (str_eq(jtext_span(a, i), jtext_span(b, k)))
		return true;
	switch (jtext_kind(a, i)) {
	case '"':
		return same_string(a, i, b, k);
	case '[':
		return same_array(a, i, b, k);
	case '{':
		return keys_in_order(a, i, b, k) ? values_in_order(a, i, b, k) : same_object(a, i, b, k);
	case 0:
		return jq_number(a, i) == jq_number(b, k);
	default:
		return true;
	}
}

void jtext_index_fill(struct jtext_index *ix, const struct jtext_doc *d, uint32_t object)
{
	uint32_t cap = 2;
	while (cap < 2 * d->nodes[object].n)
		cap *= 2;
	if (cap > ix->room) {
		ix->slots = mem_grow(ix->slots, cap, sizeof ix->slots[0]);
		ix->room = cap;
	}
	ix->cap = cap;
	memset(ix->slots, 0xff, cap * sizeof ix->slots[0]);
	for (uint32_t k = object + 1; k < d->nodes[object].next; k = d->nodes[k + 1].next) {
		uint32_t s = (uint32_t)d->nodes[k].hash & (cap - 1);
		while (ix->slots[s] != UINT32_MAX &&
		       (d->nodes[ix->slots[s]].hash != d->nodes[k].hash || !same_string(d, ix->slots[s], d, k)))
			s = (s + 1) & (cap - 1);
		ix->slots[s] = k;
	}
}

uint32_t jtext_index_find(const struct jtext_index *ix, const struct jtext_doc *d, const struct jtext_doc *e, uint32_t k)
{
	for (uint32_t s = (uint32_t)e->nodes[k].hash & (ix->cap - 1); ix->slots[s] != UINT32_MAX; s = (s + 1) & (ix->cap - 1))
		if (d->nodes[ix->slots[s]].hash == e->nodes[k].hash && same_string(d, ix->slots[s], e, k))
			return ix->slots[s];
	return UINT32_MAX;
}

void jtext_index_release(struct jtext_index *ix)
{
	mem_free(ix->slots);
	*ix = (struct jtext_index){0};
}
