/* request.c - the pure half of net.h: headers, Retry-After, names. */
#include <curl/curl.h>
#include <string.h>
#include <strings.h>

#include "net/net.h"

static const char *const fail_names[] = {
    [NET_FAIL_NONE] = "",
    [NET_FAIL_URL] = "InvalidUrl",
    [NET_FAIL_HEADER] = "InvalidHeader",
    [NET_FAIL_DNS] = "HostNotFound",
    [NET_FAIL_REFUSED] = "ConnectionRefused",
    [NET_FAIL_RESET] = "ConnectionReset",
    [NET_FAIL_TIMEOUT] = "Timeout",
    [NET_FAIL_TLS] = "TlsError",
    [NET_FAIL_ABORTED] = "Aborted",
    [NET_FAIL_OTHER] = "NetworkError",
};
_Static_assert(ARRAY_LEN(fail_names) == NET_FAIL_COUNT, "a name per failure");

const char *net_fail_name(enum net_fail f)
{
	ASSERT(f < NET_FAIL_COUNT);
	return fail_names[f];
}

/* RFC 9110, section 5.6.2 */
static bool is_token_char(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

const char *net_header_check(struct str line)
{
	size_t i = 0;

	while (i < line.n && is_token_char((unsigned char)line.p[i]))
		i++;
	if (i == 0 || i == line.n || line.p[i] != ':')
		return "the name of a header is one or more letters, digits or !#$%&'*+-.^_`|~";
	for (i++; i < line.n; i++) {
		unsigned char c = (unsigned char)line.p[i];

		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return "the value of a header holds no control characters";
	}
	return NULL;
}

struct str net_header(const struct net_request *r, const char *name)
{
	struct str rest = buf_str(&r->headers_out);
	size_t len = strlen(name);

	while (rest.n > 0) {
		const char *end = memchr(rest.p, '\n', rest.n);
		struct str line = {rest.p, end ? (size_t)(end - rest.p) : rest.n};

		rest.p += line.n + (end != NULL);
		rest.n -= line.n + (end != NULL);
		if (line.n > len && line.p[len] == ':' && strncasecmp(line.p, name, len) == 0)
			return str_trim((struct str){line.p + len + 1, line.n - len - 1});
	}
	return (struct str){"", 0};
}

void net_request_release(struct net_request *r)
{
	buf_release(&r->body_out);
	buf_release(&r->headers_out);
}

/* -1: not a date. */
static int64_t http_date_ms(struct str s)
{
	char z[64];
	time_t t;

	if (s.n < 20 || s.n >= sizeof(z)) /* the shortest form, asctime's, has 24 */
		return -1;
	memcpy(z, s.p, s.n);
	z[s.n] = 0;
	t = curl_getdate(z, NULL);
	return t < 0 ? -1 : (int64_t)t * 1000;
}

int64_t net_retry_after_ms(struct str retry_after, struct str date, int64_t wall_now_ms, int64_t max_ms)
{
	struct str s = str_trim(retry_after);
	int64_t at, now, ms = 0;
	size_t i = 0;

	for (; i < s.n && s.p[i] >= '0' && s.p[i] <= '9'; i++)
		if (ms < max_ms)
			ms = ms * 10 + (s.p[i] - '0') * 1000;
	if (s.n > 0 && i == s.n)
		return ms < max_ms ? ms : max_ms;
	at = http_date_ms(s);
	if (at < 0)
		return 0;
	now = http_date_ms(str_trim(date));
	if (now < 0)
		now = wall_now_ms;
	ms = at - now;
	return ms <= 0 ? 0 : ms < max_ms ? ms : max_ms;
}
