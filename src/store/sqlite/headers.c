/*
 * The headers of dead letters: reading the JSON they are kept as, and the index over those that are delivered. The text
 * comes from senders: whatever it is, at worst some headers are not found.
 */
#include <xxhash.h>

#include "store/sqlite/internal.h"

/* ---- {"name":"value",...} ---- */

struct scan {
	struct str s;
	size_t at;
};

static bool take(struct scan *p, char c)
{
	while (p->at < p->s.n && strchr(" \t\r\n", p->s.p[p->at]) && p->s.p[p->at])
		p->at++;
	if (p->at >= p->s.n || p->s.p[p->at] != c)
		return false;
	p->at++;
	return true;
}

/* Four hex digits; -1: they are not. */
static int hex4(struct scan *p)
{
	int v = 0;
	if (p->s.n - p->at < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		char c = p->s.p[p->at++];
		int d = c >= '0' && c <= '9'   ? c - '0'
		        : c >= 'a' && c <= 'f' ? c - 'a' + 10
		        : c >= 'A' && c <= 'F' ? c - 'A' + 10
		                               : -1;
		if (d < 0)
			return -1;
		v = v * 16 + d;
	}
	return v;
}

static void add_utf8(struct buf *b, unsigned v)
{
	if (v < 0x80) {
		buf_addc(b, (char)v);
	} else if (v < 0x800) {
		buf_addc(b, (char)(0xc0 | v >> 6));
		buf_addc(b, (char)(0x80 | (v & 0x3f)));
	} else if (v < 0x10000) {
		buf_addc(b, (char)(0xe0 | v >> 12));
		buf_addc(b, (char)(0x80 | (v >> 6 & 0x3f)));
		buf_addc(b, (char)(0x80 | (v & 0x3f)));
	} else {
		buf_addc(b, (char)(0xf0 | v >> 18));
		buf_addc(b, (char)(0x80 | (v >> 12 & 0x3f)));
		buf_addc(b, (char)(0x80 | (v >> 6 & 0x3f)));
		buf_addc(b, (char)(0x80 | (v & 0x3f)));
	}
}

static bool take_escape(struct scan *p, struct buf *out)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	if (p->at >= p->s.n)
		return false;
	char c = p->s.p[p->at++];
	const char *known = c ? strchr(from, c) : NULL;
	if (known) {
		buf_addc(out, to[known - from]);
		return true;
	}
	int v = c == 'u' ? hex4(p) : -1;
	if (v < 0)
		return false;
	unsigned u = (unsigned)v;
	if (u >= 0xd800 && u < 0xdc00) {
		if (p->s.n - p->at < 2 || p->s.p[p->at] != '\\' || p->s.p[p->at + 1] != 'u')
			return false;
		p->at += 2;
		int low = hex4(p);
		if (low < 0xdc00 || low > 0xdfff)
			return false;
		u = 0x10000 + ((u - 0xd800) << 10) + ((unsigned)low - 0xdc00);
	}
	add_utf8(out, u);
	return true;
}

static bool take_string(struct scan *p, struct buf *out)
{
	if (!take(p, '"'))
		return false;
	while (p->at < p->s.n) {
		size_t from = p->at;
		while (p->at < p->s.n && p->s.p[p->at] != '"' && p->s.p[p->at] != '\\')
			p->at++;
		buf_add(out, p->s.p + from, p->at - from);
		if (p->at >= p->s.n)
			return false;
		if (p->s.p[p->at++] == '"')
			return true;
		if (!take_escape(p, out))
			return false;
	}
	return false;
}

void headers_begin(struct headers *h, struct str json)
{
	*h = (struct headers){.json = json};
}

bool headers_next(struct headers *h)
{
	struct scan p = {h->json, h->at};
	if (!take(&p, h->at ? ',' : '{'))
		return false;
	buf_clear(&h->text);
	if (!take_string(&p, &h->text) || !take(&p, ':'))
		return false;
	h->name_len = h->text.n;
	buf_addc(&h->text, '\0');
	if (!take_string(&p, &h->text))
		return false;
	h->at = p.at;
	return true;
}

void headers_end(struct headers *h)
{
	buf_release(&h->text);
}

bool headers_have(struct str json, struct str name, struct str value)
{
	struct headers h;
	bool found = false;
	headers_begin(&h, json);
	while (!found && headers_next(&h)) {
		struct str text = buf_str(&h.text), n = {text.p, h.name_len},
		           v = {text.p + h.name_len + 1, text.n - h.name_len - 1};
		found = str_eq(n, name) && str_eq(v, value);
	}
	headers_end(&h);
	return found;
}

/* ---- the index ---- */

static int64_t hash_of(struct str name_nul_value)
{
	return (int64_t)(XXH64(name_nul_value.p, name_nul_value.n, 0) & INT64_MAX);
}

int64_t header_hash(struct str name, struct str value)
{
	struct buf b = {0};
	buf_adds(&b, name);
	buf_addc(&b, '\0');
	buf_adds(&b, value);
	int64_t h = hash_of(buf_str(&b));
	buf_release(&b);
	return h;
}

static void each(struct sq_store *s, enum statement q, struct str json, int64_t died_no, int64_t seq)
{
	struct headers h;
	if (!json.n)
		return;
	headers_begin(&h, json);
	while (headers_next(&h))
		q_run(&s->w, q, "iii", hash_of(buf_str(&h.text)), died_no, seq);
	headers_end(&h);
}

void headers_index(struct sq_store *s, struct str json, int64_t died_no, int64_t seq)
{
	each(s, Q_HEADER_ADD, json, died_no, seq);
}

void headers_unindex(struct sq_store *s, struct str json, int64_t died_no, int64_t seq)
{
	each(s, Q_HEADER_DROP, json, died_no, seq);
}

struct str headers_now(struct sq_store *s, int64_t seq, bool edited, struct arena *a)
{
	struct str json = STR("");
	sqlite3_stmt *st = edited ? q_bind(&s->w, Q_EDIT_LAST, "i", seq) : NULL;
	if (st && q_row(&s->w, st)) {
		json = col_copy(st, 0, a);
		q_end(st);
	}
	if (json.n)
		return json;
	st = q_bind(&s->w, Q_PAYLOAD_HEADERS, "i", seq);
	if (q_row(&s->w, st)) {
		json = col_copy(st, 0, a);
		q_end(st);
	}
	return json;
}

/* ---- header_hash(name, value), for the migration ---- */

static struct str arg_str(sqlite3_value *v)
{
	const char *p = sqlite3_value_blob(v);
	return (struct str){p ? p : "", (size_t)sqlite3_value_bytes(v)};
}

static void hash_function(sqlite3_context *ctx, int n, sqlite3_value **args)
{
	(void)n;
	sqlite3_result_int64(ctx, header_hash(arg_str(args[0]), arg_str(args[1])));
}

void headers_function(struct conn *c)
{
	if (c->rc)
		return;
	int rc = sqlite3_create_function_v2(c->db, "header_hash", 2, SQLITE_UTF8 | SQLITE_DETERMINISTIC, NULL,
	                                    hash_function, NULL, NULL, NULL);
	if (rc)
		conn_fault(c, rc);
}
