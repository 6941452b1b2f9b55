#include "handler/outcome.h"

static enum outcome outcome_of_status(int status)
{
	if (status >= 200 && status <= 299)
		return OUTCOME_OK;
	if (status == 408 || status == 425 || status == 429)
		return OUTCOME_TRANSIENT;
	if (status >= 300 && status <= 499)
		return OUTCOME_PERMANENT;
	return OUTCOME_TRANSIENT;
}

/* Length of s without a character that was cut off at its end. */
static size_t whole_chars(struct str s)
{
	size_t i = s.n, back = 0;

	while (i > 0 && back < 4) {
		unsigned char c = (unsigned char)s.p[--i];

		back++;
		if (c < 0x80)
			return s.n;
		if (c >= 0xc0)
			return (c >= 0xf0 ? 4u : c >= 0xe0 ? 3u : 2u) > back ? i : s.n;
	}
	return s.n;
}

/* A copy without NUL and other control characters (but for tab, CR and LF), at most max bytes. */
static struct str clean_text(struct arena *a, struct str s, size_t max)
{
	struct str copy;
	char *p;

	if (s.n > max)
		s.n = max;
	s.n = whole_chars(s);
	copy = arena_str(a, s);
	p = (char *)copy.p;
	for (size_t i = 0; i < copy.n; i++) {
		unsigned char c = (unsigned char)p[i];

		if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f)
			p[i] = ' ';
	}
	return str_trim(copy);
}

static struct str first_line(struct str s)
{
	s = str_trim(s);
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] == '\n' || s.p[i] == '\r')
			s.n = i;
	return str_trim(s);
}

static void answer_failure(const struct net_request *r, bool bad_word, struct arena *a, struct failure *f)
{
	struct str type = net_header(r, "Dlq-Error-Type");
	struct str message = net_header(r, "Dlq-Error-Message");

	f->http_status = r->status;
	f->detail = clean_text(a, buf_str(&r->body_out), FAILURE_DETAIL_MAX);
	if (message.n == 0)
		message = first_line(f->detail);
	f->type = clean_text(a, type, FAILURE_TYPE_MAX);
	f->message = clean_text(a, message, FAILURE_MESSAGE_MAX);
	if (bad_word) {
		f->type = STR("InvalidOutcome");
		f->message = STR("the answer's Dlq-Outcome is none of ok, transient, permanent, release");
	}
	if (f->type.n == 0)
		f->type = arena_fmt(a, "HTTP %d", r->status);
	if (r->status >= 300 && r->status <= 399 && net_header(r, "Dlq-Error-Message").n == 0)
		f->message = arena_fmt(a, "the worker answered %d: redirects are not followed, set push to the final URL", r->status);
	/* A page of markup says nothing in its first line; the detail has it. */
	if (f->message.n == 0 || f->message.p[0] == '<')
		f->message = arena_fmt(a, "the worker answered %d", r->status);
}

void push_verdict(const struct net_request *r, int64_t wall_now_ms, struct arena *a, struct push_verdict *out)
{
	struct str word = net_header(r, "Dlq-Outcome");
	bool bad_word = false;

	*out = (struct push_verdict){.failure.exit_code = -1};
	if (r->aborted) {
		out->outcome = OUTCOME_RELEASE;
		return;
	}
	if (r->status == 0) {
		out->outcome = OUTCOME_TRANSIENT;
		out->failure.type = str_of(net_fail_name(r->fail));
		out->failure.message = clean_text(a, str_of(r->error), FAILURE_MESSAGE_MAX);
		out->failure.detail = clean_text(a, buf_str(&r->body_out), FAILURE_DETAIL_MAX);
		return;
	}
	out->outcome = outcome_of_status(r->status);
	if (word.n > 0 && !outcome_parse(word, &out->outcome) && out->outcome == OUTCOME_OK) {
		bad_word = true;
		out->outcome = OUTCOME_TRANSIENT;
	}
	if (out->outcome == OUTCOME_TRANSIENT || out->outcome == OUTCOME_PERMANENT)
		answer_failure(r, bad_word, a, &out->failure);
	if (out->outcome == OUTCOME_TRANSIENT || out->outcome == OUTCOME_RELEASE)
		out->retry_after_ms =
		    net_retry_after_ms(net_header(r, "Retry-After"), net_header(r, "Date"), wall_now_ms, RETRY_AFTER_MAX_MS);
}
