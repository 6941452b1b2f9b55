/* Every parser of base/text.h on any bytes: total, and what it takes formats back to the same value. */
#include "base/text.h"
#include "core/policy.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_numbers(struct str s)
{
	int64_t v, back;
	char text[32], time[TIME_LEN + 1];
	struct jitter j;
	if (duration_parse(s, &v)) {
		ASSERT(v >= 0 && v <= DURATION_MAX_MS);
		duration_format(v, text);
		ASSERT(duration_parse(str_of(text), &back) && back == v);
		duration_human(v, text);
	}
	if (size_parse(s, &v)) {
		ASSERT(v >= 0);
		size_human(v, text);
	}
	if (time_parse(s, &v)) {
		time_format(v, time);
		ASSERT(time_parse(str_of(time), &back));
		/* An offset can push a time out of the four-digit years: then it is shown as their end. */
		ASSERT(back == v || v < -62167219200000 || v > 253402300799999);
	}
	if (jitter_parse(s, &j))
		ASSERT(j.kind != JITTER_PROPORTIONAL || (j.p > 0 && j.p <= 1));
}

static void fuzz_ids(struct str s)
{
	int64_t ms;
	uint16_t salt;
	uint64_t seq;
	char text[ULID_LEN + 1];
	if (ulid_parse(s, &ms, &salt, &seq)) {
		ulid_make(ms, salt, seq, text);
		ASSERT(str_eqz(s, text));
	}
	if (!queue_name_check(s))
		ASSERT(s.n >= 1 && s.n <= 128 && !memchr(s.p, '/', s.n));
	if (!message_id_check(s))
		ASSERT(s.n >= 1 && s.n <= 128 && str_is_utf8(s));
}

static void fuzz_bytes(struct str s)
{
	struct buf b = {0}, back = {0};
	if (base64_decode(s, &b)) {
		base64_encode(buf_str(&b), &back);
		ASSERT(str_eq(buf_str(&back), s)); /* strict: one text for one value */
	}
	buf_clear(&b);
	buf_clear(&back);
	base64_encode(s, &b);
	ASSERT(base64_decode(buf_str(&b), &back) && str_eq(buf_str(&back), s));
	struct json_out j;
	buf_clear(&b);
	jout_init(&j, &b);
	jout_open(&j, '[');
	jout_str(&j, s);
	jout_close(&j, ']');
	ASSERT(str_is_utf8(buf_str(&b)));
	/* What was written is JSON, and the same text when that was text. */
	struct arena a = {0};
	struct doc *d = NULL;
	enum dlq_code code = doc_from_json(&a, buf_str(&b), "x", &d, NULL);
	ASSERT(code == DLQ_OK || memchr(s.p, '\0', s.n)); /* settings refuse NUL */
	if (code == DLQ_OK && str_is_utf8(s))
		ASSERT(str_eq(d->child->text, s));
	arena_release(&a);
	buf_release(&b);
	buf_release(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str s = {(const char *)data, size};
	enum reason r;
	enum outcome o;
	enum dead_state d;
	static const char *const names[] = {"max_attempts", "backoff", "ttl"};
	fuzz_numbers(s);
	fuzz_ids(s);
	fuzz_bytes(s);
	(void)reason_parse(s, &r);
	(void)outcome_parse(s, &o);
	(void)dead_state_parse(s, &d);
	(void)str_nearest(s, names, ARRAY_LEN(names));
	for (size_t max = 0; max <= size && max < 40; max++)
		ASSERT(str_cut(s, max).n <= max && (!str_is_utf8(s) || str_is_utf8(str_cut(s, max))));
	ASSERT(str_trim(s).n <= s.n);
	return 0;
}
