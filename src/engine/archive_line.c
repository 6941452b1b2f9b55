/* archive_line.c - the lines of the archive: facts of a record, lines of the index, lines of a file backwards. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "engine/archive_int.h"

#define WINDOW ((size_t)256 << 10)
#define WINDOW_FIRST ((size_t)16 << 10) /* often the last line is all that is wanted */
#define ERROR_TYPE_MAX 1000
#define KEY_MAX 1024

/* ---- reading JSON: only as much as it takes to find members; total over any bytes ---- */

struct scan {
	const char *p, *end;
};

static void skip_blanks(struct scan *s)
{
	while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\r' || *s->p == '\n'))
		s->p++;
}

static bool take(struct scan *s, char c)
{
	skip_blanks(s);
	if (s->p == s->end || *s->p != c)
		return false;
	s->p++;
	return true;
}

/* The text between the quotes, as it stands. */
static bool take_string(struct scan *s, struct str *raw)
{
	if (!take(s, '"'))
		return false;
	const char *start = s->p;
	for (const char *from = start;;) {
		const char *quote = from < s->end ? memchr(from, '"', (size_t)(s->end - from)) : NULL;
		if (!quote)
			return false;
		const char *p = quote;
		while (p > from && p[-1] == '\\')
			p--;
		from = quote + 1;
		if ((quote - p) % 2)
			continue;
		*raw = (struct str){start, (size_t)(quote - start)};
		s->p = from;
		return true;
	}
}

static bool is_scalar_char(char c)
{
	return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '-' || c == '+' || c == '.';
}

static bool skip_value(struct scan *s)
{
	struct str raw;
	int64_t depth = 0;
	do {
		skip_blanks(s);
		if (s->p == s->end)
			return false;
		char c = *s->p;
		if (c == '"') {
			if (!take_string(s, &raw))
				return false;
		} else if (c == '{' || c == '[') {
			s->p++;
			depth++;
		} else if (depth && (c == '}' || c == ']')) {
			s->p++;
			depth--;
		} else if (depth && (c == ',' || c == ':')) {
			s->p++;
		} else if (is_scalar_char(c)) {
			while (s->p < s->end && is_scalar_char(*s->p))
				s->p++;
		} else {
			return false;
		}
	} while (depth);
	return true;
}

static int hex4(const char *p)
{
	int v = 0;
	for (int i = 0; i < 4; i++) {
		char c = (char)(p[i] | 0x20);
		int digit = p[i] >= '0' && p[i] <= '9' ? p[i] - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
		if (digit < 0)
			return -1;
		v = v * 16 + digit;
	}
	return v;
}

static char *put_utf8(char *to, unsigned c)
{
	static const unsigned char first[] = {0, 0xc0, 0xe0, 0xf0};
	int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
	*to++ = (char)(first[more] | c >> (6 * more));
	while (more-- > 0)
		*to++ = (char)(0x80 | (c >> (6 * more) & 0x3f));
	return to;
}

/* After "\u" at p: the character, U+FFFD for half of a pair. Returns how much of p it took; 0: not four digits. */
static size_t take_unicode(const char *p, size_t n, unsigned *c)
{
	int high = n >= 4 ? hex4(p) : -1;
	if (high < 0)
		return 0;
	*c = (unsigned)high;
	if (high < 0xd800 || high > 0xdfff)
		return 4;
	int low = high < 0xdc00 && n >= 10 && p[4] == '\\' && p[5] == 'u' ? hex4(p + 6) : -1;
	if (low < 0xdc00 || low > 0xdfff) {
		*c = 0xfffd;
		return 4;
	}
	*c = 0x10000 + ((unsigned)(high - 0xd800) << 10) + (unsigned)(low - 0xdc00);
	return 10;
}

/* Text is never longer than its JSON form: an escape of 6 bytes makes at most 3, one of 12 makes 4. */
static struct str unescape(struct arena *a, struct str raw)
{
	static const char letters[] = "bfnrt", values[] = "\b\f\n\r\t";
	if (!raw.n || !memchr(raw.p, '\\', raw.n))
		return arena_str(a, raw);
	char *text = arena_alloc(a, raw.n + 1), *to = text;
	for (size_t i = 0; i < raw.n;) {
		if (raw.p[i] != '\\' || i + 1 == raw.n) {
			*to++ = raw.p[i++];
			continue;
		}
		char c = raw.p[i + 1];
		i += 2;
		if (c == 'u') {
			unsigned u = '?';
			i += take_unicode(raw.p + i, raw.n - i, &u);
			to = put_utf8(to, u);
		} else {
			const char *at = c ? strchr(letters, c) : NULL;
			*to++ = at ? values[at - letters] : c;
		}
	}
	return (struct str){text, (size_t)(to - text)};
}

/* ---- the facts ---- */

/* A whole number from 0 up; -1 for anything else. */
static int64_t number_of(struct str s)
{
	int64_t v = 0;
	for (size_t i = 0; i < s.n; i++) {
		int digit = s.p[i] - '0';
		if (digit < 0 || digit > 9 || v > (INT64_MAX - digit) / 10)
			return -1;
		v = v * 10 + digit;
	}
	return s.n ? v : -1;
}

struct target {
	struct str *text;
	int64_t *time, *number;
};

static struct target target_of(struct str key, struct archive_entry *e, struct archive_place *place)
{
	const struct {
		const char *key;
		struct target t;
	} targets[] = {
	    {"dlq_id", {.text = &e->dlq_id}},
	    {"id", {.text = &e->id}},
	    {"key", {.text = &e->key}},
	    {"state", {.text = &e->state}},
	    {"reason", {.text = &e->reason}},
	    {"error_type", {.text = &e->error_type}},
	    {"died_at", {.time = &e->died_at_ms}},
	    {"archived_at", {.time = &e->archived_at_ms}},
	    {"offset", {.number = &place->offset}},
	    {"bytes", {.number = &place->bytes}},
	    {"line", {.number = &place->line}},
	    {"lines", {.number = &place->lines}},
	};
	for (size_t i = 0; i < ARRAY_LEN(targets); i++)
		if (str_eqz(key, targets[i].key))
			return targets[i].t;
	return (struct target){0};
}

/* "error": {"type": ...} of a record. */
static bool scan_error(struct arena *a, struct scan *s, struct archive_entry *e)
{
	struct str key, raw;
	if (!take(s, '{'))
		return false;
	if (take(s, '}'))
		return true;
	do {
		if (!take_string(s, &key) || !take(s, ':'))
			return false;
		skip_blanks(s);
		bool text = s->p < s->end && *s->p == '"';
		if (text ? !take_string(s, &raw) : !skip_value(s))
			return false;
		if (text && str_eqz(key, "type"))
			e->error_type = unescape(a, raw);
	} while (take(s, ','));
	return take(s, '}');
}

static bool scan_member(struct arena *a, struct scan *s, struct archive_entry *e, struct archive_place *place)
{
	struct str key, raw;
	if (!take_string(s, &key) || !take(s, ':'))
		return false;
	skip_blanks(s);
	const char *start = s->p;
	if (start == s->end)
		return false;
	if (*start == '{' && str_eqz(key, "error"))
		return scan_error(a, s, e);
	struct target t = target_of(key, e, place);
	if (*start != '"') {
		if (!skip_value(s))
			return false;
		if (t.number)
			*t.number = number_of((struct str){start, (size_t)(s->p - start)});
		return true;
	}
	if (!take_string(s, &raw))
		return false;
	if (t.text)
		*t.text = unescape(a, raw);
	else if (t.time && !time_parse(raw, t.time))
		*t.time = 0;
	return true;
}

static bool scan_object(struct arena *a, struct scan *s, struct archive_entry *e, struct archive_place *place)
{
	if (!take(s, '{'))
		return false;
	if (take(s, '}'))
		return true;
	do {
		if (!scan_member(a, s, e, place))
			return false;
	} while (take(s, ','));
	return take(s, '}');
}

bool archive_line_parse(struct arena *a, struct str line, bool partial, struct archive_entry *e,
                        struct archive_place *place)
{
	struct archive_place none;
	struct scan s = {line.p, line.p + line.n};
	struct str queue = e->queue, day = e->day;
	*e = (struct archive_entry){.queue = queue, .day = day};
	place = place ? place : &none;
	*place = (struct archive_place){.offset = -1, .bytes = -1, .line = -1, .lines = -1};
	bool whole = scan_object(a, &s, e, place);
	skip_blanks(&s);
	return (partial || (whole && s.p == s.end)) && e->dlq_id.n > 0;
}

/* ---- writing the index ---- */

void archive_line_facts(const struct archive_entry *e, struct buf *out)
{
	struct json_out j;
	jout_init(&j, out);
	jout_open(&j, '{');
	jout_kstr(&j, "dlq_id", e->dlq_id);
	jout_kstr(&j, "id", e->id);
	if (e->key.n)
		jout_kstr(&j, "key", str_cut(e->key, KEY_MAX));
	jout_kstr(&j, "state", e->state);
	jout_kstr(&j, "reason", e->reason);
	if (e->error_type.n)
		jout_kstr(&j, "error_type", str_cut(e->error_type, ERROR_TYPE_MAX));
	jout_ktime(&j, "died_at", e->died_at_ms);
	jout_ktime(&j, "archived_at", e->archived_at_ms);
}

void archive_line_end(const struct archive_place *place, struct buf *out)
{
	buf_addf(out, ",\"offset\":%lld,\"bytes\":%lld,\"line\":%lld,\"lines\":%lld}\n", (long long)place->offset,
	         (long long)place->bytes, (long long)place->line, (long long)place->lines);
}

/* ---- days ---- */

int32_t archive_day_parse(struct str s)
{
	char text[ARCHIVE_DAY_LEN + sizeof "T00:00:00Z"];
	int64_t ms;
	if (s.n != ARCHIVE_DAY_LEN)
		return 0;
	memcpy(text, s.p, s.n);
	memcpy(text + s.n, "T00:00:00Z", sizeof "T00:00:00Z");
	if (!time_parse((struct str){text, sizeof text - 1}, &ms))
		return 0;
	return archive_day_of(ms);
}

void archive_day_text(int32_t day, char out[ARCHIVE_DAY_LEN + 1])
{
	char text[32];
	ASSERT(day >= 0 && day <= 99991231);
	snprintf(text, sizeof text, "%04d-%02d-%02d", day / 10000, day / 100 % 100, day % 100);
	memcpy(out, text, ARCHIVE_DAY_LEN + 1);
}

int32_t archive_day_of(int64_t wall_ms)
{
	char t[TIME_LEN + 1];
	time_format(wall_ms, t);
	int32_t day = 0;
	for (int i = 0; i < ARCHIVE_DAY_LEN; i++)
		if (t[i] != '-')
			day = day * 10 + (t[i] - '0');
	return day;
}

/* ---- a file's lines backwards ---- */

bool archive_pread(int fd, void *to, size_t n, int64_t at)
{
	char *p = to;
	while (n) {
		ssize_t got = pread(fd, p, n, at);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0) {
			errno = got ? errno : EIO;
			return false;
		}
		p += got;
		at += got;
		n -= (size_t)got;
	}
	return true;
}

/* *at: the last newline before `before`, or -1. */
static bool newline_before(struct archive_back *b, int64_t before, int64_t *at)
{
	int64_t from = before;
	for (*at = -1; before > 0 && from - before <= b->line_max; before = b->window_at) {
		if (before <= b->window_at || before > b->window_at + (int64_t)b->window_n) {
			size_t max = b->read ? WINDOW : WINDOW_FIRST;
			size_t n = before < (int64_t)max ? (size_t)before : max;
			b->window_n = 0;
			if (!archive_pread(b->fd, b->window, n, before - (int64_t)n))
				return false;
			b->window_at = before - (int64_t)n;
			b->window_n = n;
			b->read += (int64_t)n;
		}
		const char *eol = memrchr(b->window, '\n', (size_t)(before - b->window_at));
		if (eol) {
			*at = b->window_at + (eol - b->window);
			return true;
		}
	}
	return true;
}

bool archive_back_init(struct archive_back *b, int fd, int64_t end, size_t line_max)
{
	int64_t eol;
	*b = (struct archive_back){.fd = fd,
	                           .line_max = (int64_t)line_max,
	                           .window = mem_grow(NULL, WINDOW, 1),
	                           .head.max = ARCHIVE_RECORD_MAX};
	if (!newline_before(b, end, &eol))
		return false;
	b->end = eol + 1;
	return true;
}

void archive_back_release(struct archive_back *b)
{
	mem_free(b->window);
	buf_release(&b->head);
	*b = (struct archive_back){.fd = -1};
}

bool archive_back_prev(struct archive_back *b, int64_t *at, size_t *n, bool *more)
{
	int64_t eol;
	*more = b->end > 0;
	if (!*more)
		return true;
	if (!newline_before(b, b->end - 1, &eol))
		return false;
	*at = eol + 1;
	*n = (size_t)(b->end - 1 - *at);
	b->end = *at;
	return true;
}

bool archive_back_text(struct archive_back *b, int64_t at, size_t n, size_t max, struct str *text)
{
	n = n < max ? n : max;
	if (at >= b->window_at && at + (int64_t)n <= b->window_at + (int64_t)b->window_n) {
		*text = (struct str){b->window + (at - b->window_at), n};
		return true;
	}
	buf_clear(&b->head);
	char *to = buf_reserve(&b->head, n);
	if (!to) {
		errno = EFBIG;
		return false;
	}
	if (!archive_pread(b->fd, to, n, at))
		return false;
	b->head.n = n;
	b->read += (int64_t)n;
	*text = buf_str(&b->head);
	return true;
}
