/* plan.c - a selection and an edit as JSON and back, their checks, and the headers that an edit makes. */
#include "engine/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/doc.h"
#include "core/fingerprint.h"
#include "jq/jq.h"

#define IDS_MAX 1000
#define TEXT_MAX 4096          /* bytes that a body is searched for, of a key, of an error type */
#define HEADERS_MAX 64         /* of a message after an edit; set or removed by one */
#define HEADER_NAME_MAX 128
#define HEADER_VALUE_MAX 16384
#define SHOWN_MAX 200          /* bytes of a program in a description */

static bool edits(const struct engine_edit *e)
{
	return e && (e->program.n || e->n_set || e->n_remove);
}

bool plan_needed(const struct engine_selection *s, const struct engine_edit *e)
{
	if (s->n_ids == 1)
		return e && e->program.n > 0; /* headers alone are edited at once */
	return s->filtered || s->undo.n || s->where.n || s->redrive.n || edits(e);
}

/* ---- checks ---- */

static enum dlq_code text_check(const char *what, struct str s, size_t max, struct dlq_err *err)
{
	if (s.n > max)
		return err_set(err, DLQ_BAD_REQUEST, "%s has %zu bytes, at most %zu are taken", what, s.n, max);
	if (s.n && !str_is_utf8(s))
		return err_set(err, DLQ_BAD_REQUEST, "%s is not UTF-8 text", what);
	return DLQ_OK;
}

static enum dlq_code header_check(const char *what, struct str name, struct str value, struct dlq_err *err)
{
	bool ok = name.n > 0 && name.n <= HEADER_NAME_MAX;
	for (size_t i = 0; i < name.n && ok; i++) {
		char c = name.p[i];
		ok = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
	}
	if (!ok)
		return err_set(err, DLQ_BAD_REQUEST, "%s: the name of a header is 1 to %d characters out of a-z 0-9 . _ -", what, HEADER_NAME_MAX);
	return text_check(what, value, HEADER_VALUE_MAX, err);
}

static enum dlq_code which_check(const struct engine_selection *s, struct dlq_err *err)
{
	bool more = s->filtered || s->where.n || s->redrive.n;
	if (s->n_ids < 0 || s->n_ids > IDS_MAX)
		return err_set(err, DLQ_BAD_REQUEST, "%d ids are given, at most %d are taken; choose a queue, a group or a filter, or do it in parts",
		               s->n_ids, IDS_MAX);
	if (s->n_ids && s->group.n)
		return err_set(err, DLQ_BAD_REQUEST, "ids and a group are given; choose by one of them");
	if ((s->n_ids || s->undo.n) && more)
		return err_set(err, DLQ_BAD_REQUEST, "%s and a filter are given; choose by one of them", s->n_ids ? "ids" : "a job to undo");
	if (s->undo.n && (s->n_ids || s->group.n))
		return err_set(err, DLQ_BAD_REQUEST, "a job to undo and %s are given; choose by one of them", s->n_ids ? "ids" : "a group");
	return DLQ_OK;
}

static enum dlq_code filter_check(const struct engine_selection *s, struct dlq_err *err)
{
	const struct store_dead_filter *f = &s->filter;
	enum dlq_code c = text_check("the text to find", f->text, TEXT_MAX, err);
	if (!c)
		c = text_check("key", f->key, TEXT_MAX, err);
	if (!c)
		c = text_check("error_type", f->error_type, TEXT_MAX, err);
	if (!c)
		c = text_check("id", f->message_id, TEXT_MAX, err);
	if (!c)
		c = text_check("the expression of where", s->where, JQ_PROGRAM_MAX, err);
	if (!c && (f->n_headers < 0 || f->n_headers > FILTER_HEADERS_MAX))
		c = err_set(err, DLQ_BAD_REQUEST, "%d headers are asked for, at most %d can be", f->n_headers, FILTER_HEADERS_MAX);
	for (int i = 0; i < f->n_headers && !c; i++)
		c = header_check("headers", f->headers[i].name, f->headers[i].value, err);
	if (!c && f->died_from_ms && f->died_to_ms && f->died_from_ms >= f->died_to_ms)
		c = err_set(err, DLQ_BAD_REQUEST, "from is not before to: nothing is between them");
	return c;
}

static enum dlq_code edit_check(const struct engine_edit *e, struct dlq_err *err)
{
	enum dlq_code c = text_check("the jq program", e->program, JQ_PROGRAM_MAX, err);
	if (!c && (e->n_set < 0 || e->n_set > HEADERS_MAX || e->n_remove < 0 || e->n_remove > HEADERS_MAX))
		c = err_set(err, DLQ_BAD_REQUEST, "at most %d headers can be set, and as many removed", HEADERS_MAX);
	for (int i = 0; i < e->n_set && !c; i++)
		c = header_check("set_headers", e->set[i].name, e->set[i].value, err);
	for (int i = 0; i < e->n_remove && !c; i++)
		c = header_check("remove_headers", e->remove[i], (struct str){0}, err);
	for (int i = 0; i < e->n_set && !c; i++)
		for (int k = 0; k < e->n_remove && !c; k++)
			if (str_eq(e->set[i].name, e->remove[k]))
				c = err_set(err, DLQ_BAD_REQUEST, "header " STR_FMT " is both set and removed", STR_ARG(e->remove[k]));
	return c;
}

enum dlq_code plan_check(const struct engine_selection *s, const struct engine_edit *e, struct dlq_err *err)
{
	enum dlq_code c = which_check(s, err);
	if (!c)
		c = filter_check(s, err);
	return c || !e ? c : edit_check(e, err);
}

/* ---- writing ---- */

static void write_str(struct json_out *j, const char *key, struct str s)
{
	if (s.n)
		jout_kstr(j, key, s);
}

static void write_time(struct json_out *j, const char *key, int64_t ms)
{
	if (ms)
		jout_ktime(j, key, ms);
}

static void write_headers(struct json_out *j, const char *key, const struct store_header *h, int n)
{
	char name[HEADER_NAME_MAX + 1];
	if (!n)
		return;
	jout_key(j, key);
	jout_open(j, '{');
	for (int i = 0; i < n; i++) {
		struct str cut = str_cut(h[i].name, HEADER_NAME_MAX); /* plan_check allows no longer one */
		memcpy(name, cut.p, cut.n);
		name[cut.n] = '\0';
		jout_kstr(j, name, h[i].value);
	}
	jout_close(j, '}');
}

static void write_list(struct json_out *j, const char *key, const struct str *s, int n)
{
	if (!n)
		return;
	jout_key(j, key);
	jout_open(j, '[');
	for (int i = 0; i < n; i++)
		jout_str(j, s[i]);
	jout_close(j, ']');
}

static void write_filter(struct json_out *j, const struct store_dead_filter *f)
{
	if (f->state >= 0)
		jout_kz(j, "state", dead_state_name((enum dead_state)f->state));
	if (f->reason >= 0)
		jout_kz(j, "reason", reason_name((enum reason)f->reason));
	write_str(j, "error_type", f->error_type);
	write_str(j, "key", f->key);
	write_str(j, "id", f->message_id);
	write_time(j, "from", f->died_from_ms);
	write_time(j, "to", f->died_to_ms);
	if (f->expires_before)
		jout_kint(j, "expires_before", f->expires_before);
	write_headers(j, "headers", f->headers, f->n_headers);
	write_str(j, "text", f->text);
}

void plan_write(const struct engine_selection *s, const struct engine_edit *e, struct str queue, struct buf *out)
{
	struct json_out j;
	jout_init(&j, out);
	jout_open(&j, '{');
	write_str(&j, "queue", queue);
	write_str(&j, "group", s->group);
	if (s->filtered)
		write_filter(&j, &s->filter);
	write_str(&j, "redrive", s->redrive);
	write_str(&j, "where", s->where);
	write_list(&j, "ids", s->ids, s->n_ids);
	write_str(&j, "undo", s->undo);
	if (edits(e)) {
		jout_key(&j, "edit");
		jout_open(&j, '{');
		write_str(&j, "jq", e->program);
		if (e->from_edited)
			write_str(&j, "from", STR("edited"));
		write_headers(&j, "set_headers", e->set, e->n_set);
		write_list(&j, "remove_headers", e->remove, e->n_remove);
		jout_close(&j, '}');
	}
	jout_close(&j, '}');
}

/* ---- reading ---- */

static enum dlq_code read_str(const struct doc *d, const char *key, struct str *out, struct dlq_err *err)
{
	const struct doc *v = doc_get(d, key);
	return v ? doc_str(v, out, err) : DLQ_OK;
}

static enum dlq_code read_time(const struct doc *d, const char *key, int64_t *out, struct dlq_err *err)
{
	struct str s = {0};
	enum dlq_code c = read_str(d, key, &s, err);
	if (!c && s.n && !time_parse(s, out))
		c = doc_fail(doc_get(d, key), err, "must be a time");
	return c;
}

static int count(const struct doc *d)
{
	int n = 0;
	for (const struct doc *k = d ? d->child : NULL; k; k = k->next)
		n++;
	return n;
}

static enum dlq_code read_list(struct arena *a, const struct doc *d, const char *key, struct str **out, int *n, struct dlq_err *err)
{
	const struct doc *list = doc_get(d, key);
	enum dlq_code c = DLQ_OK;
	*n = 0;
	*out = arena_alloc(a, ((size_t)count(list) + 1) * sizeof(**out));
	for (const struct doc *k = list ? list->child : NULL; k && !c; k = k->next)
		c = doc_str(k, &(*out)[(*n)++], err);
	return c;
}

static enum dlq_code read_headers(struct arena *a, const struct doc *d, const char *key, const struct store_header **out, int *n,
                                  struct dlq_err *err)
{
	const struct doc *map = doc_get(d, key);
	struct store_header *h = arena_alloc(a, ((size_t)count(map) + 1) * sizeof(*h));
	enum dlq_code c = DLQ_OK;
	*n = 0;
	*out = h;
	for (const struct doc *k = map ? map->child : NULL; k && !c; k = k->next) {
		h[*n].name = k->key;
		c = doc_str(k, &h[(*n)++].value, err);
	}
	return c;
}

static enum dlq_code read_filter(struct arena *a, const struct doc *d, struct store_dead_filter *f, struct dlq_err *err)
{
	struct str state = {0}, reason = {0};
	const struct doc *expires = doc_get(d, "expires_before");
	enum dead_state ds;
	enum reason rs;
	enum dlq_code c = read_str(d, "state", &state, err);
	if (!c && state.n && !dead_state_parse(state, &ds))
		c = doc_fail(doc_get(d, "state"), err, "is no state of a dead letter");
	if (!c)
		c = read_str(d, "reason", &reason, err);
	if (!c && reason.n && !reason_parse(reason, &rs))
		c = doc_fail(doc_get(d, "reason"), err, "is no reason");
	if (!c)
		c = read_str(d, "error_type", &f->error_type, err);
	if (!c)
		c = read_str(d, "key", &f->key, err);
	if (!c)
		c = read_str(d, "id", &f->message_id, err);
	if (!c)
		c = read_time(d, "from", &f->died_from_ms, err);
	if (!c)
		c = read_time(d, "to", &f->died_to_ms, err);
	if (!c && expires)
		c = doc_int(expires, 0, INT64_MAX, &f->expires_before, err);
	if (!c)
		c = read_headers(a, d, "headers", &f->headers, &f->n_headers, err);
	if (!c)
		c = read_str(d, "text", &f->text, err);
	if (c)
		return c;
	f->state = state.n ? (int)ds : -1;
	f->reason = reason.n ? (int)rs : -1;
	return DLQ_OK;
}

static enum dlq_code read_edit(struct arena *a, const struct doc *d, struct engine_edit *e, struct dlq_err *err)
{
	struct str *remove = NULL, from = {0};
	enum dlq_code c = read_str(d, "jq", &e->program, err);
	if (!c)
		c = read_str(d, "from", &from, err);
	e->from_edited = str_eqz(from, "edited");
	if (!c)
		c = read_headers(a, d, "set_headers", &e->set, &e->n_set, err);
	if (!c)
		c = read_list(a, d, "remove_headers", &remove, &e->n_remove, err);
	e->remove = remove;
	return c;
}

static bool filter_says(const struct engine_selection *s)
{
	const struct store_dead_filter *f = &s->filter;
	return f->state >= 0 || f->reason >= 0 || f->error_type.n || f->key.n || f->message_id.n || f->died_from_ms || f->died_to_ms ||
	       f->expires_before || f->n_headers || f->text.n || s->where.n || s->redrive.n;
}

enum dlq_code plan_read(struct arena *a, struct str text, struct engine_selection *s, struct engine_edit *e, struct str *queue,
                        struct dlq_err *err)
{
	struct doc *d = NULL;
	*s = (struct engine_selection){.filter = {.state = -1, .reason = -1}};
	*e = (struct engine_edit){0};
	*queue = (struct str){0};
	enum dlq_code c = doc_from_json(a, text, "plan", &d, err);
	if (!c && d->kind != DOC_MAP)
		c = doc_fail(d, err, "must be an object");
	if (!c)
		c = read_str(d, "queue", queue, err);
	if (!c)
		c = read_str(d, "group", &s->group, err);
	if (!c)
		c = read_filter(a, d, &s->filter, err);
	if (!c)
		c = read_str(d, "redrive", &s->redrive, err);
	if (!c)
		c = read_str(d, "where", &s->where, err);
	if (!c)
		c = read_list(a, d, "ids", &s->ids, &s->n_ids, err);
	if (!c)
		c = read_str(d, "undo", &s->undo, err);
	if (!c && doc_get(d, "edit"))
		c = read_edit(a, doc_get(d, "edit"), e, err);
	s->filtered = !c && filter_says(s);
	return c ? c : plan_check(s, e, err);
}

/* ---- for people ---- */

static void say(struct buf *out, size_t start, const char *what, struct str value)
{
	if (!value.n)
		return;
	struct str cut = str_cut(value, SHOWN_MAX);
	buf_addf(out, "%s%s" STR_FMT "%s", out->n > start ? ", " : "", what, STR_ARG(cut), cut.n < value.n ? "..." : "");
}

static void say_time(struct buf *out, size_t start, const char *what, int64_t ms)
{
	char text[TIME_LEN + 1];
	if (!ms)
		return;
	time_format(ms, text);
	say(out, start, what, str_of(text));
}

static void say_number(struct buf *out, size_t start, int n, const char *what)
{
	if (n)
		buf_addf(out, "%s%d %s%s", out->n > start ? ", " : "", n, what, n == 1 ? "" : "s");
}

void plan_describe(const struct engine_selection *s, const struct engine_edit *e, struct buf *out)
{
	const struct store_dead_filter *f = &s->filter;
	size_t start = out->n;
	say_number(out, start, s->n_ids, "id");
	say(out, start, "what redrive did: ", s->undo);
	say(out, start, "group ", s->group);
	if (s->filtered) {
		say(out, start, "state ", f->state >= 0 ? str_of(dead_state_name((enum dead_state)f->state)) : STR(""));
		say(out, start, "reason ", f->reason >= 0 ? str_of(reason_name((enum reason)f->reason)) : STR(""));
		say(out, start, "error type ", f->error_type);
		say(out, start, "key ", f->key);
		say(out, start, "id ", f->message_id);
		say_time(out, start, "died from ", f->died_from_ms);
		say_time(out, start, "died before ", f->died_to_ms);
		if (f->expires_before)
			say(out, start, "expiring ", STR("soon"));
		for (int i = 0; i < f->n_headers; i++) {
			say(out, start, "header ", f->headers[i].name);
			buf_addf(out, "=" STR_FMT, STR_ARG(str_cut(f->headers[i].value, SHOWN_MAX)));
		}
		say(out, start, "text ", f->text);
	}
	say(out, start, "of redrive ", s->redrive);
	say(out, start, "where ", s->where);
	if (out->n == start)
		buf_addz(out, "all");
	if (!edits(e))
		return;
	if (e->program.n)
		say(out, start, "edited by jq ", e->program);
	say_number(out, start, e->n_set, "header set");
	say_number(out, start, e->n_remove, "header removed");
}

/* ---- headers ---- */

static int find_set(const struct engine_edit *e, struct str name)
{
	for (int i = 0; i < e->n_set; i++)
		if (str_eq(e->set[i].name, name))
			return i;
	return -1;
}

static bool is_removed(const struct engine_edit *e, struct str name)
{
	for (int i = 0; i < e->n_remove; i++)
		if (str_eq(e->remove[i], name))
			return true;
	return false;
}

static void put_header(struct json_out *j, struct arena *a, struct str name, struct str value)
{
	jout_kstr(j, arena_str(a, name).p, value);
}

/* Those that were there keep their order; new ones follow. */
static int write_edited(const struct engine_edit *e, const struct doc *was, struct json_out *j, struct arena *a, bool *changed)
{
	bool there[HEADERS_MAX] = {false};
	int n = 0;
	for (const struct doc *h = was ? was->child : NULL; h; h = h->next) {
		int set = find_set(e, h->key);
		if (set < 0 && is_removed(e, h->key)) {
			*changed = true;
			continue;
		}
		if (set >= 0)
			there[set] = true;
		*changed = *changed || (set >= 0 && !str_eq(h->text, e->set[set].value));
		put_header(j, a, h->key, set >= 0 ? e->set[set].value : h->text);
		n++;
	}
	for (int i = 0; i < e->n_set; i++) {
		if (there[i] || find_set(e, e->set[i].name) != i)
			continue;
		put_header(j, a, e->set[i].name, e->set[i].value);
		*changed = true;
		n++;
	}
	return n;
}

enum dlq_code edit_headers(const struct engine_edit *e, struct str headers, struct arena *a, struct str *out, bool *changed,
                           struct dlq_err *err)
{
	struct doc *was = NULL;
	struct buf text = {0};
	struct json_out j;
	*changed = false;
	*out = headers;
	if (!e->n_set && !e->n_remove)
		return DLQ_OK;
	ASSERT(e->n_set <= HEADERS_MAX); /* plan_check */
	if (headers.n && (doc_from_json(a, headers, "headers", &was, NULL) || was->kind != DOC_MAP))
		return err_set(err, DLQ_BAD_REQUEST, "its headers are no JSON object: they cannot be edited");
	jout_init(&j, &text);
	jout_open(&j, '{');
	int n = write_edited(e, was, &j, a, changed);
	jout_close(&j, '}');
	if (*changed)
		*out = arena_str(a, buf_str(&text));
	buf_release(&text);
	return n > HEADERS_MAX && n > count(was)
	           ? err_set(err, DLQ_BAD_REQUEST, "it would have %d headers, at most %d are taken", n, HEADERS_MAX)
	           : DLQ_OK;
}
