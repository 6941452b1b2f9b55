#include "base/doc_build.h"
#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN_MAX 60 /* bytes of a value that an error repeats */

/* "queues[0].policy.max_attempts"; empty for the root. */
static void add_path(struct buf *b, const struct doc *d)
{
	if (!d->parent)
		return;
	add_path(b, d->parent);
	if (d->parent->kind == DOC_MAP) {
		if (b->n)
			buf_addc(b, '.');
		buf_adds(b, str_cut(d->key, SHOWN_MAX));
		return;
	}
	int i = 0;
	for (const struct doc *s = d->parent->child; s != d; s = s->next)
		i++;
	buf_addf(b, "[%d]", i);
}

enum dlq_code doc_fail(const struct doc *d, struct dlq_err *err, const char *fmt, ...)
{
	char text[sizeof err->detail];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	struct buf b = {0};
	buf_addz(&b, d->file ? d->file : "settings");
	int line = d->key_line ? d->key_line : d->line;
	if (line)
		buf_addf(&b, ":%d", line);
	buf_addz(&b, ": ");
	size_t before = b.n;
	struct buf path = {0};
	add_path(&path, d);
	buf_adds(&b, buf_str(&path));
	if (b.n != before)
		buf_addz(&b, ": ");
	buf_addz(&b, text);
	enum dlq_code code = err_set(err, DLQ_INVALID_SETTING, STR_FMT, STR_ARG(buf_str(&b)));
	build_printable(err);
	buf_release(&path);
	buf_release(&b);
	return code;
}

struct doc *doc_get(const struct doc *map, const char *key)
{
	if (!map || map->kind != DOC_MAP)
		return NULL;
	for (struct doc *d = map->child; d; d = d->next)
		if (str_eqz(d->key, key))
			return d->kind == DOC_NULL ? NULL : d;
	return NULL;
}

static const char *kind_name(const struct doc *d)
{
	static const char *const names[] = {"null", "a single value", "a list", "a map"};
	return names[d->kind];
}

static bool is_known(struct str key, const char *const *known, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (str_eqz(key, known[i]))
			return true;
	return false;
}

static enum dlq_code unknown_key(const struct doc *d, const char *const *known, size_t n, struct dlq_err *err)
{
	const char *near = str_nearest(d->key, known, n);
	if (near)
		return doc_fail(d, err, "there is no such setting; did you mean \"%s\"?", near);
	struct buf b = {.max = 300};
	for (size_t i = 0; i < n; i++)
		buf_addf(&b, "%s%s", i ? ", " : "", known[i]);
	enum dlq_code code = doc_fail(d, err, "there is no such setting; known here: " STR_FMT, STR_ARG(buf_str(&b)));
	buf_release(&b);
	return code;
}

enum dlq_code doc_check_keys(const struct doc *map, const char *const *known, size_t n, struct dlq_err *err)
{
	if (map->kind != DOC_MAP)
		return doc_fail(map, err, "must be a map of settings, not %s", kind_name(map));
	for (const struct doc *d = map->child; d; d = d->next)
		if (!is_known(d->key, known, n))
			return unknown_key(d, known, n, err);
	return DLQ_OK;
}

/* The text of an unquoted scalar. */
static bool plain_text(const struct doc *d, struct str *out)
{
	*out = d->text;
	return d->kind == DOC_SCALAR && !d->quoted;
}

static bool parse_int(struct str s, int64_t *out)
{
	char text[24];
	size_t digits_at = s.n > 0 && s.p[0] == '-';
	if (s.n <= digits_at || s.n >= sizeof text)
		return false;
	for (size_t i = digits_at; i < s.n; i++)
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
	memcpy(text, s.p, s.n);
	text[s.n] = '\0';
	errno = 0;
	*out = strtoll(text, NULL, 10);
	return errno == 0;
}

/* "must be RULE, not VALUE": what every typed read says. */
static enum dlq_code wrong(const struct doc *d, struct dlq_err *err, const char *rule)
{
	if (d->kind != DOC_SCALAR)
		return doc_fail(d, err, "must be %s, not %s", rule, kind_name(d));
	const char *q = d->quoted ? "the text \"" : "\"";
	return doc_fail(d, err, "must be %s, not %s" STR_FMT "\"", rule, q, STR_ARG(str_cut(d->text, SHOWN_MAX)));
}

enum dlq_code doc_int(const struct doc *d, int64_t min, int64_t max, int64_t *out, struct dlq_err *err)
{
	struct str s;
	int64_t v;
	if (plain_text(d, &s) && parse_int(s, &v) && v >= min && v <= max) {
		*out = v;
		return DLQ_OK;
	}
	char rule[100];
	snprintf(rule, sizeof rule, "a whole number from %" PRId64 " to %" PRId64, min, max);
	return wrong(d, err, rule);
}

enum dlq_code doc_num(const struct doc *d, double min, double max, double *out, struct dlq_err *err)
{
	struct str s;
	char text[64], *end = text;
	double v = NAN;
	if (plain_text(d, &s) && s.n > 0 && s.n < sizeof text && strspn(s.p, "0123456789+-.eE") >= s.n) {
		memcpy(text, s.p, s.n);
		text[s.n] = '\0';
		v = strtod(text, &end);
		if (*end == '\0' && v >= min && v <= max) {
			*out = v;
			return DLQ_OK;
		}
	}
	char rule[100];
	snprintf(rule, sizeof rule, "a number from %.10g to %.10g", min, max);
	return wrong(d, err, rule);
}

enum dlq_code doc_bool(const struct doc *d, bool *out, struct dlq_err *err)
{
	struct str s;
	if (plain_text(d, &s) && (str_eqz(s, "true") || str_eqz(s, "false"))) {
		*out = s.n == 4;
		return DLQ_OK;
	}
	return wrong(d, err, "true or false");
}

enum dlq_code doc_str(const struct doc *d, struct str *out, struct dlq_err *err)
{
	if (d->kind != DOC_SCALAR)
		return wrong(d, err, "text");
	if (memchr(d->text.p, '\0', d->text.n))
		return doc_fail(d, err, "must not hold a NUL character");
	*out = d->text;
	return DLQ_OK;
}

enum dlq_code doc_duration(const struct doc *d, int64_t min_ms, int64_t max_ms, int64_t *out, struct dlq_err *err)
{
	int64_t v;
	if (d->kind != DOC_SCALAR)
		return wrong(d, err, "a duration such as 30s");
	if (!duration_parse(d->text, &v))
		return doc_fail(d, err, "\"" STR_FMT "\" is not a duration: " DURATION_RULE, STR_ARG(str_cut(d->text, SHOWN_MAX)));
	if (v >= min_ms && v <= max_ms) {
		*out = v;
		return DLQ_OK;
	}
	char low[32], high[32];
	duration_format(min_ms, low);
	duration_format(max_ms, high);
	return doc_fail(d, err, "must be from %s to %s, not " STR_FMT, low, high, STR_ARG(str_cut(d->text, SHOWN_MAX)));
}

enum dlq_code doc_size(const struct doc *d, int64_t min, int64_t max, int64_t *out, struct dlq_err *err)
{
	int64_t v;
	if (d->kind == DOC_SCALAR && size_parse(d->text, &v) && v >= min && v <= max) {
		*out = v;
		return DLQ_OK;
	}
	char rule[120];
	snprintf(rule, sizeof rule, "a size from %" PRId64 " to %" PRId64 " bytes, such as 512, 64KiB or 1MiB", min, max);
	return wrong(d, err, rule);
}
