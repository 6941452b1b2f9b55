/*
 * jq/json_merge.h and jq/jq_scan.h on any bytes. The input is cut in two at its first NUL: an original and an edited document, each
 * also a jq program. What is merged is the edited document's value, and the original's own bytes where nothing changed.
 */
#include "jq/jq_scan.h"
#include "jq/json_merge.h"
#include "jq/json_text.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define DEPTH 64
#define OUT_MAX 200000

static void fuzz_program(struct str s, struct str message)
{
	struct dlq_err err = {0};
	struct buf b = {0};
	enum dlq_code code = jq_scan(s, &err);
	ASSERT(code == DLQ_OK || (code == DLQ_BAD_REQUEST && strstr(err.detail, "not available")));
	jq_shape_message(s, message, &b);
	ASSERT(b.n < 400);
	buf_release(&b);
}

static void check_texts(const struct json_merge_out *m)
{
	ASSERT(m->n_changes >= 0 && m->n_changes <= JQ_CHANGES_MAX && m->more_changes >= 0);
	ASSERT(m->more_changes == 0 || m->n_changes == JQ_CHANGES_MAX);
	ASSERT(m->changed == (m->n_changes > 0));
	for (int i = 0; i < m->n_changes; i++) {
		const struct jq_change *c = &m->changes[i];
		ASSERT(c->path.n >= 1 && c->path.n <= 400 && c->path.p[0] == '.' && str_is_utf8(c->path));
		ASSERT(c->old.n <= 200 && c->new.n <= 200 && c->old.n + c->new.n > 0);
		ASSERT(str_is_utf8(c->old) && str_is_utf8(c->new));
	}
	ASSERT(m->warning.n < 1200 && str_is_utf8(m->warning));
}

/* Whether an object in it has a key twice: jq writes no such thing, and json_equal is not exact about it. */
static bool twice(const struct jtext_doc *d)
{
	struct jtext_index ix = {0};
	bool found = false;
	for (uint32_t i = 0; i < d->n && !found; i++) {
		if (jtext_kind(d, i) != '{')
			continue;
		uint32_t n = 0;
		jtext_index_fill(&ix, d, i);
		for (uint32_t s = 0; s < ix.cap; s++)
			n += ix.slots[s] != UINT32_MAX;
		found = n != d->nodes[i].n;
	}
	jtext_index_release(&ix);
	return found;
}

static void fuzz_merge(struct str original, struct str edited)
{
	struct arena a = {0};
	struct json_merge_out m;
	struct dlq_err err = {0};
	struct jtext_doc merged = {0}, want = {0};
	size_t at = 0, end = 0;
	bool first = json_check(original, DEPTH, &at), second = json_check(edited, DEPTH, &end);
	ASSERT(at <= original.n && end <= edited.n);
	enum dlq_code code = json_merge(original, edited, DEPTH, OUT_MAX, &a, &m, &err);
	ASSERT((code == DLQ_INVALID_JSON) == !(first && second));
	if (code != DLQ_OK)
		goto out;
	ASSERT(m.text.n <= OUT_MAX || !m.changed);
	check_texts(&m);
	if (!m.changed)
		ASSERT(str_eq(m.text, original));
	ASSERT(jtext_parse(&merged, m.text, DEPTH, NULL) == JSON_FINE && jtext_parse(&want, edited, DEPTH, NULL) == JSON_FINE);
	jtext_hash(&merged);
	jtext_hash(&want);
	if (!twice(&want))
		ASSERT(jtext_equal(&merged, 0, &want, 0));
	/* Merging again finds nothing to do. */
	struct str again = m.text;
	if (!twice(&want)) {
		ASSERT(json_merge(again, edited, DEPTH, OUT_MAX, &a, &m, &err) == DLQ_OK);
		ASSERT(!m.changed);
	}
out:
	jtext_release(&merged);
	jtext_release(&want);
	arena_release(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str all = {(const char *)data, size};
	const char *cut = size ? memchr(data, 0, size) : NULL;
	struct str original = {all.p, cut ? (size_t)(cut - all.p) : size};
	struct str edited = cut ? (struct str){cut + 1, size - original.n - 1} : original;
	fuzz_program(original, edited);
	fuzz_program(edited, original);
	fuzz_merge(original, edited);
	return 0;
}
