/* Words that may hold a variable: numbers and their codes, ids inside of names, addresses, URLs, paths. */
#include "core/fingerprint_int.h"

#include <string.h>

/* ---- codes ---- */

static bool http_before(const struct fp_scan *s, const char *p)
{
	/* "HTTP/1.1 503" */
	return p - s->start >= 9 && p[-1] == ' ' && p[-3] == '.' && !memcmp(p - 9, "HTTP/", 5);
}

/* Whether the number or word [p, end) is a code for what stands before, b, and after it. */
static bool is_code(const struct fp_scan *s, struct fp_before b, const char *p, const char *end, const char *line_end)
{
	unsigned kinds = b.kinds;
	size_t n = (size_t)(end - p);
	bool status = n == 3 && *p >= '1' && *p <= '5';
	if (kinds & W_CODE)
		return n <= 10 && !(fp_word_before(s, b.word).kinds & W_NOT_CODE);
	if ((kinds & W_ERROR) && n <= 5 && !b.colon)
		return true;
	if ((kinds & W_ERROR) && n == 8 && p[-1] == ':' && end < line_end && *end == ':')
		return true; /* OpenSSL: "error:0A000086:SSL routines" */
	if ((kinds & W_HTTP) && status && *p >= '4')
		return true;
	if ((kinds & W_WITH) && n <= 3)
		return fp_word_before(s, b.word).kinds & W_REPLY;
	if (status && (http_before(s, p) || fp_reason_phrase(end, line_end)))
		return true;
	/* SQLSTATE in front: "23505: duplicate key" */
	if (n == 5 && p == s->start && line_end - end > 1 && end[0] == ':' && end[1] == ' ')
		return true;
	/* MySQL: "1062 (23000)" */
	if (n <= 5 && line_end - end > 7 && end[0] == ' ' && end[1] == '(' && end[7] == ')' && fp_digits(end + 2, end + 4) == 2)
		return true;
	/* "ERROR 1045 (28000)", "SQLSTATE[HY000] [2002]" */
	if (s->kept && s->kept < p && p - s->kept <= 3 && n <= 5) {
		for (const char *q = s->kept; q < p; q++)
			if (*q != ' ' && *q != '(' && *q != '[' && *q != ']' && *q != ')')
				return false;
		return true;
	}
	return false;
}

static const char *keep_code(struct fp_scan *s, const char *p, const char *end)
{
	fp_note(s, FP_CODE, p, (size_t)(end - p));
	fp_put(s, p, (size_t)(end - p));
	s->kept = end;
	return end;
}

static unsigned small_number(const char *p, const char *end)
{
	unsigned v = 0;
	for (; p < end && v < 1000000; p++)
		v = v * 10 + (unsigned)(*p - '0');
	return v;
}

/* Whether the digits at p are the port of an address or host name that was just written. */
static bool is_port(const struct fp_scan *s, const char *p, const char *end)
{
	static const char *const sources[] = {"java", "py", "js", "ts", "go", "rb", "rs", "c", "cc", "cpp", "h", "cs", "kt", "php", "scala",
	                                      "mjs", "jsx", "tsx", "sql", "yaml", "yml", "json", "xml", "html", "ex", "erl", "toml"};
	if (s->frame || p - s->start < 2 || p[-1] != ':' || end - p > 5 || !fp_is(*p, CH_DIGIT))
		return false;
	unsigned port = small_number(p, end);
	if (s->n > 5 && !memcmp(s->out + s->n - 5, "<ip>:", 5))
		return port < 32768 || fp_port_known(port);
	const char *label = p - 1;
	while (label > s->start && fp_alnum(label[-1]))
		label--;
	if (label == p - 1 || !fp_port_known(port))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(sources); i++)
		if (strlen(sources[i]) == (size_t)(p - 1 - label) && !memcmp(label, sources[i], strlen(sources[i])))
			return false;
	return true;
}

/* ---- numbers ---- */

/* Past the thousands, fraction and exponent behind digits that end at p: "1,234.5e-6". */
static const char *number_end(const char *p, const char *end)
{
	while (end - p >= 4 && *p == ',' && fp_is(p[1], CH_DIGIT) && fp_is(p[2], CH_DIGIT) && fp_is(p[3], CH_DIGIT) &&
	       !(end - p > 4 && fp_is(p[4], CH_DIGIT)))
		p += 4;
	while (end - p >= 2 && *p == '.' && fp_is(p[1], CH_DIGIT))
		p += 1 + fp_digits(p + 1, end);
	if (end - p >= 2 && (*p == 'e' || *p == 'E')) {
		const char *q = p + 1 + (p[1] == '-' || p[1] == '+');
		size_t n = q < end ? fp_digits(q, end) : 0;
		if (n && (q + n == end || !fp_is(q[n], CH_WORD)))
			p = q + n;
	}
	return p;
}

/* "30s", "1m30.5s", "15000 ms", "512KiB", "3 days". q is past the number; NULL: no unit follows. */
static const char *with_unit(const char *q, const char *end, bool *is_size)
{
	const char *at = q < end && *q == ' ' ? q + 1 : q;
	size_t n = fp_unit(at, end, is_size);
	if (n)
		return at + n;
	/* Glued ones: 1h30m */
	static const char *const units[] = {"h", "ms", "m", "s"};
	if (q == end || (*q != 'h' && *q != 'm' && *q != 's'))
		return NULL;
	for (size_t i = 0; i < ARRAY_LEN(units); i++) {
		n = strlen(units[i]);
		if ((size_t)(end - q) > n && !memcmp(q, units[i], n) && fp_is(q[n], CH_DIGIT)) {
			const char *next = q + n + fp_digits(q + n, end);
			next = number_end(next, end);
			size_t m = fp_unit(next, end, is_size);
			if (m)
				return next + m;
			if (next < end && (*next == 'm' || *next == 's')) {
				next = with_unit(next, end, is_size);
				return next;
			}
		}
	}
	return NULL;
}

/* The number at p, or NULL if it goes on as a word. `in_path`: it stands between slashes, where ids stand. */
static const char *number(struct fp_scan *s, const char *p, const char *end, bool in_path)
{
	in_path = in_path && p > s->start && (p[-1] == '/' || p[-1] == '\\');
	const char *digits = p + fp_digits(p, end), *q = number_end(digits, end), *to;
	bool is_size = false;
	if (digits < end && !in_path && (to = with_unit(q, end, &is_size))) {
		fp_replace(s, is_size ? FP_SIZE : FP_DUR, p, (size_t)(to - p));
		return to;
	}
	if (q < end && (fp_is(*q, CH_ALPHA) || *q == '_' || ((*q == '-' || *q == '$') && end - q > 1 && fp_alnum(q[1]))))
		return NULL;
	if (!s->frame && is_code(s, fp_word_before(s, p), p, digits, end))
		return keep_code(s, p, digits);
	if (is_port(s, p, digits)) {
		fp_put(s, p, (size_t)(digits - p));
		return digits;
	}
	fp_replace(s, in_path ? FP_ID : FP_NUM, p, (size_t)(q - p));
	return q;
}

/* ---- words ---- */

/* One part of a name, between its hyphens and underscores. */
static bool part_varies(const struct fp_scan *s, const char *word, const char *p, const char *end, bool earlier, const char **keep)
{
	const char *d = p;
	size_t n = (size_t)(end - p);
	*keep = p;
	while (d < end && !fp_is(*d, CH_DIGIT))
		d++;
	if (d == end)
		return n >= 14 && fp_random(p, end, p > word && p[-1] == '_'); /* of letters alone it asks for as many */
	if (fp_random(p, end, p > word && p[-1] == '_' && fp_is(*word, CH_ALPHA)))
		return true;
	size_t digits = 0, tail = 0;
	for (const char *q = d; q < end; q++) {
		digits += fp_is(*q, CH_DIGIT);
		tail = fp_is(*q, CH_DIGIT) ? tail + 1 : 0;
	}
	if (digits == n) /* a name may end in _1, an id is counted behind a hyphen */
		return s->frame || earlier || digits > 2 || p == word || p[-1] == '-';
	if (tail && d + tail == end) {
		*keep = d; /* letters, then digits */
		return s->frame ? p > word && p[-1] == '$' : digits > 2 && !fp_code_prefix(p, d);
	}
	if (d == p && digits > 2)
		return true;
	return digits > 4;
}

/* "3rd", "21st" */
static bool ordinal(const char *p, const char *end)
{
	const char *q = p + fp_digits(p, end);
	return q > p && end - q == 2 && (!memcmp(q, "st", 2) || !memcmp(q, "nd", 2) || !memcmp(q, "rd", 2) || !memcmp(q, "th", 2));
}

/* The prefix of an id that is drawn from letters and digits, such as "ch_" or "req-", or p if it is none. */
static const char *past_prefixes(const char *p, const char *end)
{
	for (;;) {
		const char *q = p;
		while (q < end && *q >= 'a' && *q <= 'z')
			q++;
		if (q == p || q - p > 12 || end - q < 7 || (*q != '_' && *q != '-'))
			return p;
		p = q + 1;
	}
}

/* Base64 with - and _: upper, lower and digits in one long run. */
static bool random_run(const char *p, const char *end)
{
	bool upper = false, lower = false;
	size_t digits = 0;
	if (end - p < 16)
		return false;
	for (const char *q = p; q < end; q++) {
		upper |= *q >= 'A' && *q <= 'Z';
		lower |= *q >= 'a' && *q <= 'z';
		digits += fp_is(*q, CH_DIGIT);
		if (*q == '$')
			return false;
	}
	return upper && lower && digits >= 2 && digits * 16 >= (size_t)(end - p);
}

static bool has_separator(const char *p, const char *end)
{
	return memchr(p, '-', (size_t)(end - p)) || memchr(p, '_', (size_t)(end - p));
}

/* What Kubernetes puts after the hash of a set of pods: "orders-7d9f8b6c5d-x2x9q". */
static bool pod_suffix(const char *p, const char *q, const char *end)
{
	if (q != end || q - p != 5)
		return false;
	for (; p < q; p++)
		if (!memchr("bcdfghjklmnpqrstvwxz2456789", *p, 27))
			return false;
	return true;
}

/* "dGhpcyBpcyBhIHNlY3JldA+/x9Zq0==": base64 of the kind with + and =. */
static bool base64(const char *p, const char *end)
{
	const char *q = p;
	bool plus = false;
	if (end - p < 20)
		return false;
	while (q < end && (fp_alnum(*q) || *q == '+' || *q == '/')) {
		plus |= *q == '+';
		q++;
	}
	if (q + 2 >= end && q < end && *q == '=' && end[-1] == '=')
		return true;
	return q == end && plus && *p != '/' && *p != '+' && fp_random(p, end, true);
}

/* A run of CH_WORD bytes. */
static void word(struct fp_scan *s, const char *p, const char *end, const char *line_end)
{
	const char *d = p, *from = p;
	while (d < end && !fp_is(*d, CH_DIGIT))
		d++;
	if (d < end) {
		struct fp_before before = fp_word_before(s, p);
		if (d > p && (before.kinds & W_SCHEMA)) {
			fp_put(s, p, (size_t)(end - p));
			return;
		}
		if (fp_code_prefix(p, d > p && d[-1] == '-' ? d - 1 : d) ||
		    (end - p <= 10 && !s->frame && is_code(s, before, p, end, line_end))) {
			keep_code(s, p, end);
			return;
		}
	}
	if (ordinal(p, end)) {
		fp_replace(s, FP_NUM, p, (size_t)(end - p));
		return;
	}
	const char *random = past_prefixes(p, end);
	if (end - random >= 16 && has_separator(random, end) && random_run(random, end) &&
	    fp_random(random, end, true)) {
		fp_put(s, p, (size_t)(random - p));
		fp_replace(s, FP_ID, random, (size_t)(end - random));
		return;
	}
	bool earlier = false;
	while (p < end) {
		const char *q = p, *keep;
		size_t uuid = fp_uuid(p, end);
		while (q < end && fp_alnum(*q))
			q++;
		if (uuid) {
			fp_replace(s, FP_UUID, p, uuid);
			q = p + uuid;
		} else if (q > p && (part_varies(s, from, p, q, earlier, &keep) || (earlier && pod_suffix(p, q, end)))) {
			earlier = true;
			fp_put(s, p, (size_t)(keep - p));
			fp_replace(s, FP_ID, keep, (size_t)(q - keep));
		} else {
			fp_put(s, p, (size_t)(q - p));
		}
		p = q;
		if (p < end)
			fp_put_byte(s, *p++);
	}
}

static const char *hex_number(struct fp_scan *s, const char *p, const char *end)
{
	const char *q = p + 2;
	while (q < end && fp_is(*q, CH_HEX))
		q++;
	if (q == p + 2 || (q < end && fp_alnum(*q)))
		return NULL;
	/* HRESULT and NTSTATUS have eight digits and begin so. */
	bool code = !s->frame && ((q - p == 10 && (!memcmp(p + 2, "80", 2) || !memcmp(p + 2, "c00", 3) || !memcmp(p + 2, "C00", 3))) ||
	                          is_code(s, fp_word_before(s, p), p, q, end));
	if (code)
		return keep_code(s, p, q);
	fp_replace(s, FP_HEX, p, (size_t)(q - p));
	return q;
}

/* "aa:bb:cc:dd:ee:ff" */
static size_t mac(const char *p, const char *end)
{
	if (end - p < 17 || p[2] != ':' || (end - p > 17 && (fp_alnum(p[17]) || p[17] == ':')))
		return 0;
	for (int i = 0; i < 17; i++)
		if (i % 3 == 2 ? p[i] != ':' : !fp_is(p[i], CH_HEX))
			return 0;
	return 17;
}

/* "30 Nov 2026", "22:54:01", "2026-11-30": a sign or a space and a month after one, two or four digits. */
static bool may_be_time(const char *p, const char *end, const char *line_end)
{
	const char *q = p;
	while (q < end && fp_is(*q, CH_DIGIT))
		q++;
	if (q == line_end || q - p > 4)
		return false;
	return *q == ':' || *q == '-' || *q == '/' || *q == '.' || (*q == ' ' && line_end - q > 4 && q[1] >= 'A' && q[1] <= 'Z');
}

/* The end of the letters at p if they are a whole name, which never varies; NULL: they may be part of something. */
static const char *letters_only(const char *p, const char *end)
{
	const char *q = fp_past_letters(p, end);
	if (q == p || (q < end && fp_is(*q, CH_WORD)))
		return NULL;
	if (q < end && *q == ':' && q - p <= 4)
		return NULL; /* a MAC or IPv6 address */
	return q - p == 3 && *p <= 'Z' ? NULL : q; /* a month or a day of the week */
}

/* One token at p, which is a letter or digit and begins a name. Returns past it. */
static const char *token(struct fp_scan *s, const char *p, const char *end, const char *line_end, unsigned flags, bool in_path)
{
	size_t n;
	const char *q;
	bool digit = fp_is(*p, CH_DIGIT);
	if (!digit && (q = letters_only(p, end))) {
		fp_put(s, p, (size_t)(q - p));
		return q;
	}
	if (fp_is(*p, CH_HEX) && end - p >= 17 && (n = mac(p, end))) {
		fp_replace(s, FP_ID, p, n);
		return p + n;
	}
	if (digit ? may_be_time(p, end, line_end) : *p >= 'A' && *p <= 'Z' && end - p <= 4) {
		if ((n = fp_time(p, line_end))) {
			fp_replace(s, FP_TIME, p, n);
			return p + n;
		}
	}
	if (digit && end - p >= 7 && (n = fp_ip4(p, line_end))) {
		fp_replace(s, FP_IP, p, n);
		return p + n;
	}
	if ((flags & CH_DIGIT) && fp_is(*p, CH_HEX) && end - p > 2) {
		if ((n = fp_uuid(p, end))) {
			fp_replace(s, FP_UUID, p, n);
			return p + n;
		}
		if (memchr(p, ':', end - p < 5 ? (size_t)(end - p) : 5) && (n = fp_ip6(p, end))) {
			fp_replace(s, FP_IP, p, n);
			return p + n;
		}
	}
	if (digit && *p == '0' && end - p > 2 && (p[1] | 0x20) == 'x' && (q = hex_number(s, p, end)))
		return q;
	if ((digit || (uint8_t)*p >= 0x80) && (q = number(s, p, line_end, in_path)))
		return q;
	for (q = p; q < end && fp_is(*q, CH_WORD); q++)
		;
	if (q == p)
		return fp_put_character(s, p, line_end);
	word(s, p, q, line_end);
	return q;
}

/* ---- URLs and paths ---- */

static bool url_byte(char c)
{
	return fp_is(c, CH_CHUNK) && c != '\\';
}

/* p is past "://"; [p, end) holds no space. Writes host, port, path and the names of the query. */
static const char *url(struct fp_scan *s, const char *p, const char *end, const char *line_end)
{
	const char *q = p;
	size_t n;
	while (end > p && (end[-1] == '.' || end[-1] == ':' || end[-1] == '!'))
		end--;
	while (q < end && *q != '/' && *q != '?' && *q != '#' && *q != '@')
		q++;
	if (q < end && *q == '@') { /* who, and maybe the password */
		fp_replace(s, FP_STR, p, (size_t)(q - p));
		fp_put_byte(s, '@');
		p = q + 1;
	}
	while (p < end && *p != '?' && *p != '/' && *p != '#' && !s->full) {
		if (fp_alnum(*p) && *p != ':' && p[-1] != ':')
			p = token(s, p, end, end, CH_DIGIT, false);
		else if (*p == ':' && (n = fp_digits(p + 1, end)) > 0 && n <= 5 && small_number(p + 1, p + 1 + n) < 32768)
			fp_put(s, p, n + 1), p += n + 1;
		else if (fp_is(*p, CH_DIGIT))
			p = token(s, p, end, end, CH_DIGIT, false);
		else
			fp_put_byte(s, *p++);
	}
	while (p < end && *p != '?' && *p != '#' && !s->full) {
		if (fp_alnum(*p))
			p = token(s, p, end, end, CH_DIGIT, true);
		else
			fp_put_byte(s, *p++);
	}
	while (p < end && !s->full) { /* the query and the fragment: names stay */
		fp_put_byte(s, *p++);
		for (q = p; q < end && *q != '=' && *q != '&' && *q != '#'; q++)
			;
		if (q < end && *q == '=') {
			q++;
			fp_put(s, p, (size_t)(q - p));
			p = q;
			while (q < end && *q != '&' && *q != '#')
				q++;
		}
		if (q > p)
			fp_replace(s, FP_STR, p, (size_t)(q - p));
		p = q;
	}
	(void)line_end;
	return p;
}

static bool path_starts(const char *p, const char *end, const char *chunk)
{
	bool first = p == chunk || p[-1] == '=' || p[-1] == ':';
	if (!first)
		return false;
	return *p == '/' || (end - p > 3 && fp_is(*p, CH_ALPHA) && p[1] == ':' && (p[2] == '\\' || p[2] == '/'));
}

static const char *temp_path(struct fp_scan *s, const char *p, const char *end)
{
	const char *q = p + 2;
	if (!fp_temp_path(p, end))
		return NULL;
	while (q < end && *q != ':')
		q++;
	while (q > p + 4 && (q[-1] == '.' || q[-1] == '!' || q[-1] == '?'))
		q--;
	fp_replace(s, FP_PATH, p, (size_t)(q - p));
	return q;
}

/* "/home/amy/": whose home it is varies */
static const char *home(struct fp_scan *s, const char *p, const char *end)
{
	size_t n = end - p > 6 && !memcmp(p, "/home/", 6) ? 6 : end - p > 7 && !memcmp(p, "/Users/", 7) ? 7 : 0;
	if (!n)
		return NULL;
	const char *q = p + n;
	while (q < end && *q != '/' && *q != ':')
		q++;
	fp_put(s, p, n);
	if (q > p + n)
		fp_replace(s, FP_ID, p + n, (size_t)(q - p - n));
	return q;
}

/* "shop.Order@1b2c3d4" */
static const char *object_hash(struct fp_scan *s, const char *p, const char *end)
{
	const char *q = p + 1;
	while (q < end && fp_is(*q, CH_HEX) && q - p <= 16)
		q++;
	if (q - p < 5 || (q < end && fp_alnum(*q)))
		return NULL;
	fp_put_byte(s, '@');
	fp_replace(s, FP_HEX, p + 1, (size_t)(q - p - 1));
	return q;
}

/* The first "://" in [p, end), or NULL. */
static const char *find_scheme(const char *p, const char *end, unsigned flags)
{
	for (; (flags & CH_SLASH) && end - p >= 3 && (p = memchr(p, ':', (size_t)(end - p - 2))); p++)
		if (p[1] == '/' && p[2] == '/')
			return p;
	return NULL;
}

static bool sign_before_number(const struct fp_scan *s, const char *p, const char *end)
{
	return (*p == '-' || *p == '+') && end - p > 1 && fp_is(p[1], CH_DIGIT) && (p == s->start || !(fp_alnum(p[-1]) || p[-1] == '>'));
}

const char *fp_chunk(struct fp_scan *s, const char *p, const char *end, const char *line_end, unsigned flags)
{
	const char *chunk = p, *q;
	size_t n;
	bool in_path = (flags & CH_SLASH) && ((flags & CH_ALPHA) || *p == '/');
	const char *scheme = find_scheme(p, end, flags);
	if (end - p >= 5 && !memcmp(p, "HTTP/", 5) && (flags & CH_DIGIT) && end - p <= 8) {
		fp_put(s, p, (size_t)(end - p));
		return end;
	}
	if ((flags & CH_DIGIT) && ((end - p > 30 && !memcmp(p, "eyJ", 3)) || base64(p, end))) { /* a JSON Web Token */
		fp_replace(s, FP_ID, p, (size_t)(end - p));
		return end;
	}
	while (p < end && !s->full) {
		bool boundary = p == chunk || !fp_alnum(p[-1]);
		if (scheme && p == scheme) {
			const char *stop = p;
			while (stop < end && url_byte(*stop))
				stop++;
			fp_put(s, p, 3);
			p = url(s, p + 3, stop, line_end);
			scheme = p < end ? find_scheme(p, end, flags) : NULL;
		} else if ((flags & CH_SLASH) && path_starts(p, end, chunk) && ((q = temp_path(s, p, end)) || (q = home(s, p, end)))) {
			p = q;
		} else if ((flags & CH_AT) && p == chunk && !scheme && (n = fp_email(p, line_end))) {
			fp_replace(s, FP_EMAIL, p, n);
			p += n;
			if (p > end)
				return p;
		} else if ((flags & CH_AT) && (*p == ':' || *p == '=') && !scheme && (n = fp_email(p + 1, line_end))) {
			fp_put_byte(s, *p);
			fp_replace(s, FP_EMAIL, p + 1, n);
			p += 1 + n;
		} else if (*p == '@' && (q = object_hash(s, p, end))) {
			p = q;
		} else if ((flags & CH_DIGIT) && sign_before_number(s, p, end)) {
			if (!s->frame && is_code(s, fp_word_before(s, p), p, p + 1 + fp_digits(p + 1, end), line_end))
				fp_put_byte(s, *p);
			p++;
		} else if (fp_alnum(*p) && boundary) {
			p = token(s, p, end, line_end, flags, in_path);
		} else if (*p == ':' && boundary && (n = fp_ip6(p, end))) {
			fp_replace(s, FP_IP, p, n);
			p += n;
		} else if ((uint8_t)*p >= 0x80 && fp_digits(p, line_end)) {
			p = token(s, p, end, line_end, flags, in_path);
		} else {
			fp_put_byte(s, *p++);
		}
	}
	return p;
}
