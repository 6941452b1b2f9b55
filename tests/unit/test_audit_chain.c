/* The link of the audit trail: fixed vectors (made with Python's hashlib), and that every field counts. */
#include "lib_check.h"

#include <stdio.h>

#include "core/audit_chain.h"

static void hex(const uint8_t h[AUDIT_HASH_LEN], char out[2 * AUDIT_HASH_LEN + 1])
{
	for (int i = 0; i < AUDIT_HASH_LEN; i++)
		snprintf(out + 2 * i, 3, "%02x", h[i]);
}

static const struct audit_link first = {
	.n = 1,
	.at_ms = 1764547200000,
	.operator = STR("admin"),
	.action = STR("redrive"),
	.queue = STR("orders"),
	.target = STR("01J"),
	.reason = STR("smtp is back"),
	.outcome = STR("ok"),
	.detail = STR("826 messages"),
};

static void test_vectors(void **state)
{
	(void)state;
	const struct audit_link second = {
		.n = 2, .at_ms = 1764547201234, .action = STR("queue_put"), .queue = STR("caf\xc3\xa9"), .outcome = STR("conflict")};
	const struct audit_link empty = {.at_ms = -1};
	uint8_t h[AUDIT_HASH_LEN] = {0}, zero[AUDIT_HASH_LEN] = {0};
	char text[2 * AUDIT_HASH_LEN + 1];

	audit_chain_next(h, &first, h);
	hex(h, text);
	assert_string_equal(text, "ee0ca606fb467da49299ce460471318d938730d8bbe79ceedbf4da56a06e75a5");
	audit_chain_next(h, &second, h);
	hex(h, text);
	assert_string_equal(text, "834b2fb7deb5b976b838d264e2e93db772d5c0066464d41852f824e24849b08c");
	audit_chain_next(zero, &empty, h);
	hex(h, text);
	assert_string_equal(text, "26636d5c19609f199f577ba0affed0b724f015ea528fb978dd5bfddfb42f33ea");
}

static void test_every_field_counts(void **state)
{
	(void)state;
	uint8_t zero[AUDIT_HASH_LEN] = {0}, prev[AUDIT_HASH_LEN] = {0}, h[11][AUDIT_HASH_LEN];
	struct audit_link v[10];
	struct str *const texts[] = {&v[1].operator, &v[2].action, &v[3].queue, &v[4].target,
	                             &v[5].reason,   &v[6].outcome, &v[7].detail};

	for (size_t i = 0; i < ARRAY_LEN(v); i++)
		v[i] = first;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		*texts[i] = STR("another");
	v[8].n++;
	v[9].at_ms++;
	for (size_t i = 0; i < ARRAY_LEN(v); i++)
		audit_chain_next(zero, &v[i], h[i]);
	prev[31] = 1;
	audit_chain_next(prev, &first, h[10]);
	for (size_t i = 0; i < ARRAY_LEN(h); i++)
		for (size_t k = i + 1; k < ARRAY_LEN(h); k++)
			assert_memory_not_equal(h[i], h[k], AUDIT_HASH_LEN);
}

/* Bytes that move over the border between two fields make another link. */
static void test_borders(void **state)
{
	(void)state;
	uint8_t zero[AUDIT_HASH_LEN] = {0}, a[AUDIT_HASH_LEN], b[AUDIT_HASH_LEN];
	struct audit_link x = first, y = first;

	x.reason = STR("ab");
	x.outcome = STR("c");
	y.reason = STR("a");
	y.outcome = STR("bc");
	audit_chain_next(zero, &x, a);
	audit_chain_next(zero, &y, b);
	assert_memory_not_equal(a, b, AUDIT_HASH_LEN);
	x = y = (struct audit_link){0};
	x.operator = STR("admin");
	y.action = STR("admin");
	audit_chain_next(zero, &x, a);
	audit_chain_next(zero, &y, b);
	assert_memory_not_equal(a, b, AUDIT_HASH_LEN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vectors),
		cmocka_unit_test(test_every_field_counts),
		cmocka_unit_test(test_borders),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
