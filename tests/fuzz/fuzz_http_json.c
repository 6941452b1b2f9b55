/* The pull reader and Jansson agree on what is JSON, and on the text of a string. */
#include <jansson.h>
#include <string.h>

#include "http/json_pull.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena a = {0};
	struct json_pull j;
	struct str text = {(const char *)data, size}, s;
	json_error_t error;
	jp_init(&j, text, 1, &a);
	bool good = jp_skip(&j) && jp_end(&j);
	ASSERT(good == !j.failed);
	ASSERT(good || (j.err.code != DLQ_OK && j.err_line > 0 && j.err_col > 0 && j.err.detail[0]));
	bool deep = j.failed && strstr(j.err.detail, "levels");
	if (size && memchr(data, 0, size)) { /* never JSON; Jansson takes a NUL after a number */
		ASSERT(!good);
		arena_release(&a);
		return 0;
	}
	json_t *doc = json_loadb((const char *)data, size, JSON_DECODE_ANY, &error);
	ASSERT(deep || good == (doc != NULL));
	if (good && json_is_string(doc)) {
		jp_init(&j, text, 1, &a);
		ASSERT(jp_str(&j, &s) && jp_end(&j));
		ASSERT(s.n == json_string_length(doc) && (!s.n || memcmp(s.p, json_string_value(doc), s.n) == 0));
	}
	if (good && json_is_integer(doc)) {
		int64_t v;
		jp_init(&j, text, 1, &a);
		ASSERT(jp_int(&j, INT64_MIN, INT64_MAX, &v) && jp_end(&j) && v == json_integer_value(doc));
	}
	json_decref(doc);
	arena_release(&a);
	return 0;
}
