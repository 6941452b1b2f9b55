/* The scanner: words, spaces, signs and quoted texts of one line. Words with digits, slashes or @ are fingerprint_chunk.c. */
#include "core/fingerprint_int.h"

#include <string.h>

#define PROSE_DEPTH 3
#define QUOTED_MAX 1024 /* bytes: a quotation mark that closes later than this is none */

void fp_put(struct fp_scan *s, const char *p, size_t n)
{
	if (s->full || n > s->max - s->n) {
		s->full = true; /* at a token: the form is the same however the rest goes on */
		return;
	}
	memcpy(s->out + s->n, p, n);
	s->n += n;
}

const char *fp_put_character(struct fp_scan *s, const char *p, const char *end)
{
	size_t n = (uint8_t)*p < 0x80 ? 1 : utf8_sequence(p, (size_t)(end - p));
	n += !n;
	fp_put(s, p, n);
	return p + n;
}

void fp_note(struct fp_scan *s, enum fingerprint_rule r, const char *p, size_t n)
{
	if (s->examples && !(s->rules & 1u << r))
		s->examples->of[r] = (struct str){p, n};
	s->rules |= 1u << r;
}

static bool ends_with(const struct fp_scan *s, const char *p, size_t n)
{
	return s->n >= n && !memcmp(s->out + s->n - n, p, n);
}

/* Lists of any length are one: "1, 2, 3" is <num>, "9f31-77aa" is <id>, "2026-11-30 at once 22:54:01" is <time>. */
static size_t separator(const struct fp_scan *s, enum fingerprint_rule r)
{
	if (ends_with(s, ", ", 2))
		return 2;
	if (ends_with(s, ",", 1) || (r == FP_ID && (ends_with(s, "-", 1) || ends_with(s, "_", 1))) || (r == FP_TIME && ends_with(s, " ", 1)))
		return 1;
	return 0;
}

void fp_replace(struct fp_scan *s, enum fingerprint_rule r, const char *p, size_t n)
{
	size_t len, sep = separator(s, r);
	const char *w = fp_rule_placeholder(r, &len);
	fp_note(s, r, p, n);
	if (sep && s->n >= sep + len && !memcmp(s->out + s->n - sep - len, w, len)) {
		s->n -= sep;
		return;
	}
	fp_put(s, w, len);
}

/* The last word of p (a run of letters, from the capital of camelCase on) no earlier than start. */
static const char *word_start(const char *start, const char *p)
{
	const char *q = p;
	while (q > start && p - q < 16 && fp_is(q[-1], CH_ALPHA)) {
		q--;
		if (*q >= 'A' && *q <= 'Z' && q > start && q[-1] >= 'a' && q[-1] <= 'z')
			break;
	}
	return q;
}

struct fp_before fp_word_before(const struct fp_scan *s, const char *p)
{
	struct fp_before b = {0};
	const char *q = p;
	for (int i = 0; i < 4 && q > s->start; i++) {
		char c = q[-1];
		if (fp_is(c, CH_ALPHA))
			break;
		if (c == ':')
			b.colon = true;
		else if (c == '=')
			b.equal = true;
		else if (c != ' ' && c != '(' && c != '[' && c != '"' && c != '\'' && c != '#' && c != '{' && c != '_' && c != '-' && c != '<')
			break;
		q--;
	}
	const char *w = word_start(s->start, q);
	if (w < q) {
		b.word = w;
		b.kinds = (uint16_t)fp_word(w, (size_t)(q - w));
	}
	return b;
}

/* ---- quoted texts ---- */

struct quote {
	const char *open, *close;
	size_t open_n, close_n;
};
/* fp_scan.no_close is indexed by the first three here and one for all others. */
static const struct quote quotes[] = {
	{"'", "'", 1, 1}, {"\"", "\"", 1, 1}, {"`", "`", 1, 1},
	{"\xe2\x80\x9c", "\xe2\x80\x9d", 3, 3}, {"\xe2\x80\x98", "\xe2\x80\x99", 3, 3}, {"\xc2\xab", "\xc2\xbb", 2, 2},
	{"\xe3\x80\x8c", "\xe3\x80\x8d", 3, 3}, {"\xe3\x80\x8e", "\xe3\x80\x8f", 3, 3},
};

static const struct quote *quote_at(const char *p, const char *end)
{
	if ((uint8_t)*p < 0x80)
		return &quotes[*p == '\'' ? 0 : *p == '"' ? 1 : 2];
	for (size_t i = 3; i < ARRAY_LEN(quotes); i++)
		if (*p == quotes[i].open[0] && (size_t)(end - p) >= quotes[i].open_n && !memcmp(p, quotes[i].open, quotes[i].open_n))
			return &quotes[i];
	return NULL;
}

static bool escaped(const char *from, const char *p)
{
	const char *q = p;
	while (q > from && q[-1] == '\\')
		q--;
	return (p - q) & 1;
}

/* The closing mark of q, which opened before from, or NULL. Never reads a byte twice for one kind of mark. */
static const char *closing(struct fp_scan *s, const struct quote *q, const char *from, const char *end)
{
	size_t kind = (size_t)(q - quotes) < 3 ? (size_t)(q - quotes) : 3;
	const char *limit = end - from > QUOTED_MAX ? from + QUOTED_MAX : end;
	const char *p = from;
	if (s->no_close[kind] && s->no_close[kind] > p && s->no_close[kind] <= end)
		p = s->no_close[kind];
	for (; p < limit; p++) {
		if (q->open[0] == '`' ? *p != '`' && *p != '\'' : *p != q->close[0])
			continue;
		if ((size_t)(limit - p) < q->close_n || (q->close_n > 1 && memcmp(p, q->close, q->close_n)))
			continue;
		if (*p == '\'' && p + 1 < end && fp_is(p[1], CH_ALPHA | CH_DIGIT))
			continue; /* an apostrophe: "can't" */
		if (q->open_n == 1 && escaped(from, p))
			continue;
		return p;
	}
	if (p > from)
		s->no_close[kind] = limit;
	return NULL;
}

/* A name as programs have them: customer.email, Order#save(), items[0].price, --max-size, std::vec::Vec<T>. */
static bool is_identifier(const char *p, const char *end)
{
	size_t depth = 0;
	if (p == end || end - p > 128 || !(fp_is(*p, CH_ALPHA) || *p == '_' || *p == '$' || *p == ':' || *p == '@' || *p == '-' || *p == '.' || *p == '#'))
		return false;
	if (end - p == 1 && !fp_is(*p, CH_ALPHA))
		return false;
	for (const char *q = p; q < end; q++) {
		if (*q == '(' || *q == '[' || *q == '<')
			depth++;
		else if ((*q == ')' || *q == ']' || *q == '>') && depth > 0)
			depth--;
		else if (*q == ' ' ? !(depth && q > p && q[-1] == ',') : *q == ',' || *q == '*' ? !depth :
		         *q == '@' ? q != p : *q == '/' ? *p != '@' && *p != '.' && !fp_is(q[-1], CH_ALPHA) :
		         !(fp_is(*q, CH_WORD) || *q == '.' || *q == ':' || *q == '#' || *q == '?' || *q == '!'))
			return false;
	}
	return depth == 0;
}

/* Whether an identifier holds what varies: a long number, a random id, a file of data. */
static bool has_variable(const char *p, const char *end, unsigned has)
{
	if (fp_data_file(p, end) || fp_ip6(p, end))
		return true;
	if (!(has & CH_DIGIT) && !memchr(p, '_', (size_t)(end - p)))
		return false;
	const char *from = p;
	while (p < end) {
		const char *q = p;
		size_t digits = 0, run = 0;
		for (; q < end && fp_alnum(*q); q++) {
			run = fp_is(*q, CH_DIGIT) ? run + 1 : 0;
			digits = run > digits ? run : digits;
		}
		if (q > p && fp_random(p, q, p > from && p[-1] == '_'))
			return true;
		if (digits >= 3) {
			const char *d = p;
			while (d < q && !fp_is(*d, CH_DIGIT))
				d++;
			if (!fp_code_prefix(p, d) && !(d == p && p > from && p[-1] == '-' && fp_code_prefix(from, p - 1)))
				return true;
		}
		/* A count after a hyphen, or all of a part: order-7, shard.12 */
		if (digits && q > p && p > from && p[-1] != '_' && p[-1] != '[' && fp_digits(p, q) == (size_t)(q - p) && !fp_code_prefix(from, p - 1))
			return true;
		p = q + 1;
	}
	return false;
}

/* Whether one of the few words before p says that a text is read: "invalid input syntax for type integer:". */
static bool reads_text(const struct fp_scan *s, const char *p)
{
	for (int words = 0; words < 7; words++) {
		int skip = 0;
		while (p > s->start && skip++ < 8 && !fp_is(p[-1], CH_ALPHA))
			p--;
		const char *w = p;
		while (w > s->start && p - w < 16 && fp_is(w[-1], CH_ALPHA))
			w--;
		if (w == p)
			return false;
		if (fp_word(w, (size_t)(p - w)) & W_PARSE)
			return true;
		p = w;
	}
	return false;
}

enum meaning { IS_VALUE, IS_NAME, IS_PATH, IS_PROSE, IS_LITERAL };

static enum meaning quoted_meaning(const struct fp_scan *s, const char *open, const char *p, const char *end, bool double_quoted)
{
	struct fp_before before = fp_word_before(s, open);
	unsigned has = 0, kinds = before.kinds;
	for (const char *q = p; q < end; q++)
		has |= fp_class[(uint8_t)*q];
	if (p == end || (end - p == 1 && !fp_alnum(*p) && (uint8_t)*p < 0x80) || fp_placeholder(p, end) == (size_t)(end - p))
		return IS_LITERAL;
	/* A message in quotation marks: all of it, or one that another one quotes. */
	if (s->depth < PROSE_DEPTH && (((has & CH_SLASH) && memmem(p, (size_t)(end - p), "://", 3)) || ((has & CH_SPACE) &&
	    ((open == s->start && end + 1 >= s->end) || (kinds & W_PROSE)))))
		return IS_PROSE;
	if (((kinds & W_NAME) || (open - s->start >= 2 && open[-1] == '[' && fp_alnum(open[-2]))) && is_identifier(p, end))
		return IS_NAME;
	if ((has & CH_SLASH) && ((*p == '/' && end - p > 1) || ((*p == '.' || *p == '~') && memchr(p, '/', (size_t)(end - p))) || fp_temp_path(p, end) ||
	    (end - p > 3 && fp_is(*p, CH_ALPHA) && p[1] == ':' && p[2] == '\\')))
		return IS_PATH;
	if (!is_identifier(p, end) || ((has & CH_AT) && fp_email(p, end) == (size_t)(end - p)) ||
	    has_variable(p, end, has))
		return IS_VALUE;
	bool json_value = double_quoted && before.colon && open > s->start && (open[-1] == ':' ? open - 1 > s->start && open[-2] == '"' :
	                  open - 2 > s->start && open[-1] == ' ' && open[-2] == ':' && open[-3] == '"');
	if ((kinds & W_VALUE) || before.equal || json_value)
		return IS_VALUE;
	if (*open != '`' && (s->frame ? false : reads_text(s, open)))
		return IS_VALUE;
	return IS_NAME;
}

/* A name with its list positions as variables: items[<num>].price, items.<num>.price */
static void put_name(struct fp_scan *s, const char *p, const char *end)
{
	const char *from = p;
	while (p < end) {
		const char *q = p;
		while (q < end && *q != '[' && *q != '.')
			q++;
		if (q < end)
			q++;
		fp_put(s, p, (size_t)(q - p));
		size_t n = q > from && q < end ? fp_digits(q, end) : 0;
		if (n && q > p && (q[-1] == '[' || (q + n < end && q[n] == '.'))) {
			fp_replace(s, FP_NUM, q, n);
			q += n;
		}
		p = q;
	}
}

static void put_path(struct fp_scan *s, const char *p, const char *end)
{
	if (!fp_program_path(p, end) && !(s->frame && !fp_temp_path(p, end))) {
		fp_replace(s, FP_PATH, p, (size_t)(end - p));
		return;
	}
	while (p < end && !s->full) {
		unsigned flags = 0;
		const char *q = fp_chunk_end(p, end, &flags);
		if (q > p)
			p = fp_chunk(s, p, q, end, flags);
		else
			fp_put_byte(s, *p++);
	}
}

const char *fp_quoted(struct fp_scan *s, const char *p, const char *end)
{
	const struct quote *q = quote_at(p, end);
	if (!q) /* another character that begins with the same byte */
		return fp_put_character(s, p, end);
	const char *from = p + q->open_n;
	bool opens = from < end && *from != ' ' && !(*p == '\'' && p > s->start && (fp_alnum(p[-1]) || p[-1] == '>'));
	const char *to = opens ? closing(s, q, from, end) : NULL;
	if (!to) {
		fp_put(s, p, q->open_n);
		return from;
	}
	enum meaning m = quoted_meaning(s, p, from, to, *p == '"');
	size_t before = s->n;
	fp_put(s, p, q->open_n);
	size_t n = (size_t)(to - from);
	if (m == IS_PROSE) {
		s->depth++;
		fp_line(s, from, to);
		s->depth--;
	} else if (m == IS_LITERAL)
		fp_put(s, from, n);
	else if (m == IS_PATH)
		put_path(s, from, to);
	else if (m == IS_VALUE)
		fp_replace(s, FP_STR, from, n);
	else {
		fp_note(s, FP_NAME, from, n);
		put_name(s, from, to);
	}
	fp_put(s, to, q->close_n);
	/* A list of values is one, too: "'a-1', 'b-2'" */
	size_t len = s->n - before, seps[] = {2, 1};
	for (size_t i = 0; i < 2 && m == IS_VALUE && !s->full; i++)
		if (before >= len + seps[i] && !memcmp(s->out + before - seps[i], ", ", seps[i]) &&
		    !memcmp(s->out + before - seps[i] - len, s->out + before, len)) {
			s->n = before - seps[i];
			break;
		}
	return to + q->close_n;
}

/* ---- brackets ---- */

/* "(email)=(amy@example.com)", "Failing row contains (1, amy)": what a database says of the row. */
static const char *round_bracket(struct fp_scan *s, const char *p, const char *end)
{
	bool value = p - s->start >= 2 && p[-1] == '=' && p[-2] == ')';
	if (!value && p - s->start >= 9)
		value = !memcmp(p - 9, "contains ", 9);
	const char *close = value ? memchr(p, ')', (size_t)(end - p)) : NULL;
	fp_put_byte(s, *p);
	if (!close || close == p + 1)
		return p + 1;
	if (fp_placeholder(p + 1, close) == (size_t)(close - p - 1))
		fp_put(s, p + 1, (size_t)(close - p - 1));
	else
		fp_replace(s, FP_STR, p + 1, (size_t)(close - p - 1));
	return close;
}

static const char *sign(struct fp_scan *s, const char *p, const char *end)
{
	size_t n;
	if (*p == '<' && (n = fp_placeholder(p, end))) {
		fp_put(s, p, n);
		return p + n;
	}
	if (*p == '(')
		return round_bracket(s, p, end);
	if (*p == '\x1b') { /* the colours of a terminal: ESC [ 3 1 m */
		if (++p < end && *p == '[')
			p++;
		while (p < end && (fp_is(*p, CH_DIGIT) || *p == ';'))
			p++;
		return p < end && p[-1] != '\x1b' && (uint8_t)*p < 0x80 ? p + 1 : p;
	}
	if (*p == '[' && (n = fp_ip6(p + 1, end)) && p + 1 + n < end && p[1 + n] == ']') {
		fp_replace(s, FP_IP, p, n + 2);
		return p + n + 2;
	}
	fp_put_byte(s, *p);
	return p + 1;
}

/* As much of it as fits, in whole words. */
static void put_plain(struct fp_scan *s, const char *p, const char *end)
{
	while ((size_t)(end - p) > s->max - s->n) {
		const char *q = p;
		while (q < end && *q != ' ')
			q++;
		q += q == p;
		fp_put(s, p, (size_t)(q - p));
		if (s->full)
			return;
		p = q;
	}
	fp_put(s, p, (size_t)(end - p));
}

/* Whether the word [p, end) is copied as it is. Most of most messages is. */
static bool is_plain(const char *p, const char *end, const char *line_end, unsigned flags)
{
	return !(flags & CH_SLOW) && !(end - p == 3 && *p >= 'A' && *p <= 'Z' && fp_time(p, line_end));
}

/* What is no word, and words that begin with a sign of another script: spaces, quotation marks, brackets. */
static const char *between_words(struct fp_scan *s, const char *p, const char *end)
{
	if (fp_is(*p, CH_SPACE)) {
		while (p < end && fp_is(*p, CH_SPACE))
			p++;
		if (p < end && s->n && s->out[s->n - 1] != ' ')
			fp_put_byte(s, ' ');
		return p;
	}
	if ((uint8_t)*p >= 0x80 && fp_digits(p, end))
		return fp_chunk(s, p, p + 1, end, CH_DIGIT);
	if (*p == '\'' || *p == '"' || *p == '`' || (uint8_t)*p >= 0x80)
		return fp_quoted(s, p, end);
	return sign(s, p, end);
}

void fp_line(struct fp_scan *s, const char *p, const char *end)
{
	const char *plain = p; /* from here to p: words that are copied, with single spaces between */
	while (p < end) {
		unsigned flags = 0;
		const char *q = fp_chunk_end(p, end, &flags);
		if (q > p && is_plain(p, q, end, flags)) {
			p = q < end && *q == ' ' ? q + 1 : q;
			continue;
		}
		if (p > plain)
			put_plain(s, plain, p);
		if (s->full)
			return;
		plain = p = q > p ? fp_chunk(s, p, q, end, flags) : between_words(s, p, end);
	}
	if (p > plain)
		put_plain(s, plain, p);
}
