/* What the parts of a message are: numbers, times, addresses, ids. Pure functions of the bytes at p. */
#include "core/fingerprint_int.h"

#include <string.h>

#define ALPHA (CH_ALPHA | CH_WORD | CH_CHUNK)
#define HEXA (ALPHA | CH_HEX)
#define DIGIT (CH_DIGIT | CH_HEX | CH_WORD | CH_CHUNK)
/* Other bytes of a UTF-8 character are plain; those that may start a digit or a quotation mark end a chunk. */
const uint8_t fp_class[256] = {
	[0 ... 26] = CH_SPACE, [28 ... 32] = CH_SPACE, /* not ESC */ [127] = CH_SPACE,
	['0' ... '9'] = DIGIT,
	['a' ... 'f'] = HEXA, ['g' ... 'z'] = ALPHA, ['A' ... 'F'] = HEXA, ['G' ... 'Z'] = ALPHA,
	['_'] = CH_WORD | CH_CHUNK, ['-'] = CH_WORD | CH_CHUNK, ['$'] = CH_WORD | CH_CHUNK,
	['.'] = CH_CHUNK, [':'] = CH_CHUNK, ['+'] = CH_CHUNK, ['%'] = CH_CHUNK, ['~'] = CH_CHUNK, ['#'] = CH_CHUNK, ['&'] = CH_CHUNK,
	['='] = CH_CHUNK, ['?'] = CH_CHUNK, ['*'] = CH_CHUNK, ['!'] = CH_CHUNK, ['^'] = CH_CHUNK,
	['/'] = CH_CHUNK | CH_SLASH, ['\\'] = CH_CHUNK | CH_SLASH, ['@'] = CH_CHUNK | CH_AT,
	[0x80 ... 0xc1] = CH_CHUNK, [0xc3 ... 0xd8] = CH_CHUNK, [0xda] = CH_CHUNK, [0xdc ... 0xe1] = CH_CHUNK,
	[0xe4 ... 0xee] = CH_CHUNK, [0xf0 ... 0xff] = CH_CHUNK,
};

static size_t digit(const char *p, const char *end)
{
	if (p == end)
		return 0;
	uint8_t c = (uint8_t)*p;
	if (fp_class[c] & CH_DIGIT)
		return 1;
	if (c < 0x80)
		return 0;
	if ((c == 0xd9 && end - p >= 2 && (uint8_t)p[1] >= 0xa0 && (uint8_t)p[1] <= 0xa9) ||
	    (c == 0xdb && end - p >= 2 && (uint8_t)p[1] >= 0xb0 && (uint8_t)p[1] <= 0xb9))
		return 2; /* Arabic-Indic, extended Arabic-Indic */
	if (c == 0xef && end - p >= 3 && (uint8_t)p[1] == 0xbc && (uint8_t)p[2] >= 0x90 && (uint8_t)p[2] <= 0x99)
		return 3; /* full width */
	return 0;
}

size_t fp_other_digits(const char *p, const char *end)
{
	const char *from = p;
	size_t n;
	while ((n = digit(p, end)))
		p += n;
	return (size_t)(p - from);
}

/* The number of ASCII digits at p, at most max. */
static size_t count_digits(const char *p, const char *end, size_t max)
{
	size_t n = 0;
	while (n < max && p + n < end && fp_is(p[n], CH_DIGIT))
		n++;
	return n;
}

static bool at_end(const char *p, const char *end)
{
	return p == end || !fp_alnum(*p);
}

size_t fp_uuid(const char *p, const char *end)
{
	if (end - p < 36 || p[8] != '-')
		return 0;
	for (int i = 0; i < 36; i++)
		if (i == 8 || i == 13 || i == 18 || i == 23 ? p[i] != '-' : !fp_is(p[i], CH_HEX))
			return 0;
	return at_end(p + 36, end) ? 36 : 0;
}

/* ---- time ---- */

static bool one_of(const char *p, const char *end, const char *three_letter_words)
{
	if (end - p < 3)
		return false;
	for (const char *w = three_letter_words; *w; w += 3)
		if (p[0] == w[0] && p[1] == w[1] && p[2] == w[2])
			return true;
	return false;
}
static size_t month(const char *p, const char *end)
{
	return one_of(p, end, "JanFebMarAprMayJunJulAugSepOctNovDec") && at_end(p + 3, end) ? 3 : 0;
}

/* "Z", "+09:00", " +0000", " UTC" */
static size_t zone(const char *p, const char *end)
{
	const char *from = p;
	if (p < end && *p == 'Z')
		return at_end(p + 1, end) ? 1 : 0;
	if (p < end && *p == ' ')
		p++;
	if (one_of(p, end, "UTCGMT") && at_end(p + 3, end))
		return (size_t)(p + 3 - from);
	if (p == end || (*p != '+' && *p != '-') || count_digits(p + 1, end, 3) < 2)
		return 0;
	p += 3;
	if (p < end && *p == ':' && count_digits(p + 1, end, 3) == 2)
		p += 3;
	else
		p += count_digits(p, end, 2);
	return at_end(p, end) ? (size_t)(p - from) : 0;
}

/* "22:54:01", with fraction, AM or PM, zone. "22:54" only after a date. */
static size_t time_of_day(const char *p, const char *end, bool after_date)
{
	const char *from = p;
	size_t h = count_digits(p, end, 3);
	if (h < 1 || h > 2 || end - p < (ptrdiff_t)h + 3 || p[h] != ':' || count_digits(p + h + 1, end, 3) != 2)
		return 0;
	p += h + 3;
	if (p < end && *p == ':' && count_digits(p + 1, end, 3) == 2)
		p += 3;
	else if (!after_date)
		return 0;
	if (p < end && (*p == '.' || *p == ',') && count_digits(p + 1, end, 1)) {
		p++;
		p += count_digits(p, end, (size_t)(end - p));
	}
	if (end - p >= 3 && *p == ' ' && (p[1] == 'A' || p[1] == 'P') && p[2] == 'M' && at_end(p + 3, end))
		p += 3;
	p += zone(p, end);
	return at_end(p, end) ? (size_t)(p - from) : 0;
}

/* "2026-11-30", "2026/11/30", "11/30/2026", "30.11.2026", "30/Nov/2026" */
static size_t date(const char *p, const char *end)
{
	size_t n = count_digits(p, end, 5);
	if (n != 1 && n != 2 && n != 4)
		return 0;
	const char *q = p + n;
	if (q == end || (*q != '-' && *q != '/' && *q != '.'))
		return 0;
	char sep = *q++;
	size_t m = count_digits(q, end, 3), named = m ? 0 : month(q, end);
	if (m > 2 || m + named == 0 || (n == 4 && m == 1 && sep == '.'))
		return 0;
	q += m + named;
	if (q == end || *q != sep)
		return 0;
	size_t last = count_digits(q + 1, end, 5);
	if (n == 4 ? last < 1 || last > 2 : last != 4)
		return 0;
	return (size_t)(q + 1 + last - p);
}

/* "Mon, 30 Nov 2026", "Nov 30", "30 Nov 2026" */
static size_t worded_date(const char *p, const char *end)
{
	const char *from = p;
	if (one_of(p, end, "MonTueWedThuFriSatSun") && at_end(p + 3, end)) {
		p += 3;
		if (p < end && *p == ',')
			p++;
		if (p == end || *p != ' ')
			return 0;
		p++;
	}
	size_t d = count_digits(p, end, 3);
	if (d == 1 || d == 2) {
		if (end - p < (ptrdiff_t)d + 4 || (p[d] != ' ' && p[d] != '-') || !month(p + d + 1, end))
			return 0;
		p += d + 4;
	} else if (!d && month(p, end) && end - p > 4 && p[3] == ' ') {
		p += 4;
		while (p < end && *p == ' ')
			p++;
		d = count_digits(p, end, 3);
		if (d != 1 && d != 2)
			return 0;
		p += d;
	} else {
		return 0;
	}
	if (end - p >= 5 && (*p == ' ' || *p == '-') && count_digits(p + 1, end, 5) == 4)
		p += 5;
	return at_end(p, end) ? (size_t)(p - from) : 0;
}

size_t fp_time(const char *p, const char *end)
{
	const char *from = p;
	size_t n = fp_is(*p, CH_DIGIT) ? date(p, end) : 0;
	if (!n)
		n = worded_date(p, end);
	if (!n)
		return fp_is(*p, CH_DIGIT) ? time_of_day(p, end, false) : 0;
	p += n;
	if (end - p > 4 && (*p == 'T' || *p == 't' || *p == ' ' || *p == ':' || (*p == ',' && p[1] == ' '))) {
		size_t skip = *p == ',' ? 2 : 1;
		size_t t = time_of_day(p + skip, end, true);
		if (t) {
			p += skip + t;
			if (end - p >= 5 && *p == ' ' && count_digits(p + 1, end, 5) == 4 && at_end(p + 5, end))
				p += 5; /* asctime: the year comes last */
		}
	}
	return at_end(p, end) ? (size_t)(p - from) : 0;
}

/* ---- addresses ---- */

size_t fp_ip4(const char *p, const char *end)
{
	const char *from = p;
	for (int i = 0; i < 4; i++) {
		unsigned v = 0;
		size_t n = count_digits(p, end, 4);
		if (n < 1 || n > 3)
			return 0;
		for (size_t k = 0; k < n; k++)
			v = v * 10 + (unsigned)(p[k] - '0');
		if (v > 255)
			return 0;
		p += n;
		if (i < 3 && (p == end || *p++ != '.'))
			return 0;
	}
	if (end - p >= 2 && *p == '.' && fp_is(p[1], CH_DIGIT))
		return 0; /* five parts are no address */
	size_t mask = p < end && *p == '/' ? count_digits(p + 1, end, 3) : 0;
	if (mask == 1 || mask == 2)
		p += 1 + mask;
	return at_end(p, end) ? (size_t)(p - from) : 0;
}

size_t fp_ip6(const char *p, const char *end)
{
	const char *from = p;
	int colons = 0, groups = 0;
	bool gap = false;
	while (p < end && p - from < 40) {
		size_t n = 0;
		while (n < 5 && p + n < end && fp_is(p[n], CH_HEX))
			n++;
		if (n > 4)
			return 0;
		if (n && p + n < end && p[n] == '.') { /* ::ffff:10.0.0.1 */
			size_t v4 = fp_ip4(p, end);
			if (!v4 || !gap)
				return 0;
			return (size_t)(p + v4 - from);
		}
		groups += n > 0;
		p += n;
		if (p == end || *p != ':' || (end - p >= 2 && p[1] != ':' && !fp_is(p[1], CH_HEX)))
			break;
		if (end - p >= 2 && p[1] == ':') {
			if (gap)
				return 0;
			gap = true;
			p++;
		} else if (!n && p == from) {
			return 0;
		} else if (end - p == 1) {
			break;
		}
		p++;
		colons++;
	}
	if (p < end && *p == '%') { /* the zone: fe80::1%eth0 */
		const char *q = p + 1;
		while (q < end && fp_alnum(*q))
			q++;
		p = q;
	}
	if (!at_end(p, end) || !(gap ? groups >= 1 && groups <= 7 : groups == 8) || !colons)
		return 0;
	return (size_t)(p - from);
}

static bool local_char(char c)
{
	return fp_alnum(c) || c == '.' || c == '_' || c == '-' || c == '+' || c == '%' || c == '=' || c == '&' || c == '#' ||
	       (uint8_t)c >= 0x80;
}

size_t fp_email(const char *p, const char *end)
{
	const char *q = p, *dot = NULL;
	while (q < end && local_char(*q))
		q++;
	if (q == p || q == end || *q != '@')
		return 0;
	const char *host = ++q;
	for (; q < end && (fp_alnum(*q) || *q == '-' || *q == '.' || (uint8_t)*q >= 0x80); q++)
		if (*q == '.' && q + 1 < end && (fp_is(q[1], CH_ALPHA) || (uint8_t)q[1] >= 0x80))
			dot = q;
	if (!dot || dot == host)
		return 0;
	while (q[-1] == '.' || q[-1] == '-')
		q--;
	return (size_t)(q - p);
}

/* ---- units ---- */

/* By first letter, as fp_listed wants them. */
static const char *const durations[128] = {
	['m'] = "\2" "ms" "\1" "m" "\3" "min" "\4" "mins" "\6" "minute" "\7" "minutes" "\4" "msec" "\5" "msecs" "\6" "millis" "\13" "millisecond" "\14" "milliseconds" "\14" "microseconds",
	['s'] = "\1" "s" "\3" "sec" "\4" "secs" "\6" "second" "\7" "seconds",
	['u'] = "\2" "us",
	['n'] = "\2" "ns" "\13" "nanoseconds",
	['h'] = "\1" "h" "\2" "hr" "\3" "hrs" "\4" "hour" "\5" "hours",
	['d'] = "\1" "d" "\3" "day" "\4" "days",
};
static const char *const sizes[128] = {
	['b'] = "\1" "b" "\4" "byte" "\5" "bytes",
	['B'] = "\1" "B",
	['k'] = "\2" "kB" "\2" "kb",
	['K'] = "\2" "KB" "\3" "KiB" "\2" "Ki",
	['M'] = "\2" "MB" "\3" "MiB" "\2" "Mi",
	['m'] = "\2" "mb",
	['G'] = "\2" "GB" "\3" "GiB" "\2" "Gi",
	['g'] = "\2" "gb",
	['T'] = "\2" "TB" "\3" "TiB",
};

size_t fp_unit(const char *p, const char *end, bool *is_size)
{
	size_t n = 0;
	if (p == end)
		return 0;
	if ((uint8_t)*p >= 0x80) { /* two kinds of micro, the Japanese second */
		static const char *const signs[] = {"\xc2\xb5s", "\xce\xbcs", "\xe7\xa7\x92"};
		for (size_t i = 0; i < ARRAY_LEN(signs) && end - p >= 3; i++)
			if (!memcmp(p, signs[i], 3) && (i == 2 || at_end(p + 3, end))) {
				*is_size = false;
				return 3;
			}
		return 0;
	}
	if (!sizes[(uint8_t)*p] && !durations[(uint8_t)*p])
		return 0;
	while (n < 13 && p + n < end && fp_is(p[n], CH_ALPHA))
		n++;
	if (!n || n == 13 || (p + n < end && (fp_is(p[n], CH_DIGIT) || p[n] == '_')))
		return 0;
	*is_size = sizes[(uint8_t)*p] && fp_listed(sizes[(uint8_t)*p], p, n);
	return *is_size || (durations[(uint8_t)*p] && fp_listed(durations[(uint8_t)*p], p, n)) ? n : 0;
}

/* ---- paths ---- */

static bool starts(const char *p, const char *end, const char *z)
{
	size_t n = strlen(z);
	return (size_t)(end - p) >= n && !memcmp(p, z, n);
}

static bool contains(const char *p, const char *end, const char *z)
{
	return memmem(p, (size_t)(end - p), z, strlen(z)) != NULL;
}

size_t fp_temp_path(const char *p, const char *end)
{
	static const char *const folders[] = {"/tmp/", "/var/tmp/", "/var/folders/", "/private/tmp/", "/private/var/", "/dev/shm/",
	                                      "/run/user/", "/usr/tmp/"};
	if (*p == '/') {
		if (end - p < 6 || !memchr("tvpdru", p[1], 6))
			return 0;
		for (size_t i = 0; i < ARRAY_LEN(folders); i++)
			if (starts(p, end, folders[i]))
				return strlen(folders[i]);
		return 0;
	}
	if (end - p < 4 || !fp_is(*p, CH_ALPHA) || p[1] != ':' || (p[2] != '\\' && p[2] != '/'))
		return 0;
	if (end - p > 260)
		end = p + 260;
	return contains(p, end, "\\Temp\\") || contains(p, end, "\\TEMP\\") || contains(p, end, "\\tmp\\") ||
	       contains(p, end, "/Temp/") ? 3 : 0;
}

bool fp_program_path(const char *p, const char *end)
{
	static const char *const folders[] = {"/etc/", "/usr/", "/opt/", "/bin/", "/sbin/", "/lib/", "/lib64/", "/app/", "/sys/",
	                                      "C:\\Program Files", "C:\\Windows\\"};
	if (fp_temp_path(p, end))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(folders); i++)
		if (starts(p, end, folders[i]))
			return true;
	return false;
}

bool fp_data_file(const char *p, const char *end)
{
	static const char kinds[] = "\3" "csv" "\3" "tsv" "\3" "pdf" "\3" "png" "\3" "jpg" "\4" "jpeg" "\3" "gif" "\3" "zip" "\2" "gz" "\3" "xls" "\4" "xlsx" "\3" "txt" "\3" "tmp" "\3" "dat" "\7" "parquet" "\3" "log" "\4" "docx" "\3" "xml" "\3" "mp4";
	const char *q = end;
	while (q > p && fp_alnum(q[-1]))
		q--;
	if (q <= p + 1 || q[-1] != '.')
		return false;
	return fp_listed(kinds, q, (size_t)(end - q));
}

/* ---- ids ---- */

/*
 * Counts decide, not dictionaries: digits strewn among letters are not how people name things. The thresholds keep
 * UserAccountByName, Log4j2Logger, OAuth2Sha256Provider, utf8mb4 and x86, and catch short hex hashes, ULIDs, base62 ids.
 */
bool fp_random(const char *p, const char *end, bool after_prefix)
{
	size_t n = (size_t)(end - p), digits = 0, runs = 0, upper = 0, lower = 0, hex = 0;
	if (n < 6)
		return false;
	for (const char *q = p; q < end; q++) {
		bool d = fp_is(*q, CH_DIGIT);
		digits += d;
		runs += d && (q == p || !fp_is(q[-1], CH_DIGIT));
		upper += *q >= 'A' && *q <= 'Z';
		lower += *q >= 'a' && *q <= 'z';
		hex += fp_is(*q, CH_HEX);
	}
	if (digits == n)
		return false;
	if (!digits)
		return after_prefix && n >= 14 && upper * 3 >= n && lower * 3 >= n;
	if (hex == n && !(upper && lower))
		return runs >= 2 || (n >= 8 && (fp_is(*p, CH_DIGIT) || digits >= 3));
	if (after_prefix && n >= 10 && ((upper && lower) || fp_is(*p, CH_DIGIT)))
		return true;
	if (n >= 20 && upper * 4 >= n && lower * 4 >= n)
		return true; /* base64 */
	return n >= 8 && (runs >= 3 || (runs >= 2 && digits * 4 >= n));
}

bool fp_port_known(unsigned port)
{
	static const uint16_t ports[] = {21, 22, 25, 53, 80, 110, 143, 389, 443, 465, 587, 636, 993, 995, 1433, 1521, 2181, 2379, 3000,
		3306, 3389, 4222, 5000, 5432, 5671, 5672, 6379, 6432, 7357, 8000, 8080, 8081, 8443, 8500, 8761, 8888, 9000, 9042, 9090,
		9092, 9093, 9094, 9200, 9300, 11211, 15672, 26379, 27017, 50051, 61616};
	for (size_t i = 0; i < ARRAY_LEN(ports); i++)
		if (ports[i] == port)
			return true;
	return false;
}

size_t fp_placeholder(const char *p, const char *end)
{
	if (p == end || *p != '<')
		return 0;
	for (int r = 0; r <= FP_STR; r++) {
		size_t n;
		const char *w = fp_rule_placeholder((enum fingerprint_rule)r, &n);
		if ((size_t)(end - p) >= n && !memcmp(p, w, n))
			return n;
	}
	return 0;
}
