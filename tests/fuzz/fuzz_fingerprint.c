/* The normalised form and the fingerprint of any text: total, the same twice, within its limits, with examples from the text. */
#include "core/fingerprint.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool within(struct str part, struct str whole)
{
	return !part.n || (part.p >= whole.p && part.p + part.n <= whole.p + whole.n);
}

/* The first byte says where the message ends and the stack begins. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char a[FINGERPRINT_NORMAL_MAX], b[FINGERPRINT_NORMAL_MAX];
	struct fingerprint_examples ex;
	struct fingerprint x, y;
	uint32_t ra, rb;
	if (!size)
		return 0;
	struct str text = {(const char *)data + 1, size - 1};
	size_t cut = text.n * data[0] / 255;
	struct str message = {text.p, data[0] < ' ' ? cut : text.n}, stack = {text.p + message.n, text.n - message.n};
	size_t na = fingerprint_normalise(message, stack, a, &ra, &ex);
	size_t nb = fingerprint_normalise(message, stack, b, &rb, NULL);
	ASSERT(na <= FINGERPRINT_NORMAL_MAX && na == nb && ra == rb && !memcmp(a, b, na));
	ASSERT(!(ra >> FP_RULE_COUNT) && !(ra & 1u << FP_GIVEN));
	for (int r = 0; r < FP_RULE_COUNT; r++) {
		ASSERT(within(ex.of[r], text));
		ASSERT(!ex.of[r].n || (ra & 1u << r));
	}
	if (str_is_utf8(message) && str_is_utf8(stack)) /* no character is cut */
		ASSERT(str_is_utf8((struct str){a, na}));
	fingerprint_make(message, message, message, stack, &x);
	fingerprint_of_normal(message, message, (struct str){a, na}, ra, &y);
	ASSERT(!strcmp(x.text, y.text) && fingerprint_text_valid(str_of(x.text)) && x.rules == y.rules);
	fingerprint_of_given(message, stack, &y);
	ASSERT(strcmp(x.text, y.text) != 0);
	/* A normal form is a message like any other. */
	(void)fingerprint_normalise((struct str){a, na}, (struct str){a, na}, b, NULL, NULL);
	return 0;
}
