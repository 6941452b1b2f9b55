/* scan_jq.c - the jq children that the scan thread keeps: starting one takes longer than most of what it is asked. */
#include <stdio.h>
#include <string.h>

#include "engine/scan_int.h"

#define BATCH_FIRST 8
#define BATCH_LONG_US 100000 /* one that takes longer is halved, */
#define BATCH_SHORT_US 25000 /* a shorter one doubled */

static void slot_close(struct jq_slot *slot)
{
	jq_close(slot->jq);
	*slot = (struct jq_slot){0};
}

enum dlq_code scan_jq(struct scanner *s, enum jq_kind kind, struct str program, struct jq_slot **out, struct dlq_err *err)
{
	const struct engine_options *o = &s->e->o;
	struct jq_options jo = {.program = o->jq_program, .memory_bytes = o->jq_memory_bytes, .item_ms = o->jq_item_ms, .output_bytes = o->jq_output_bytes};
	struct jq_slot *slot = &s->slots[0];
	for (size_t i = 0; i < ARRAY_LEN(s->slots); i++) {
		struct jq_slot *at = &s->slots[i];
		if (at->jq && (jq_dead(at->jq) || at->busy_us > SCAN_BUSY_US))
			slot_close(at);
		if (at->jq && jq_is(at->jq, kind, program)) {
			at->used_us = clock_mono_us(s->e->clock);
			at->turn = ++s->jq_turn;
			*out = at;
			return DLQ_OK;
		}
		if (!at->jq || (slot->jq && at->turn < slot->turn))
			slot = at;
	}
	slot_close(slot);
	enum dlq_code c = jq_open(&jo, kind, program, &slot->jq, err);
	if (c)
		return c;
	slot->used_us = clock_mono_us(s->e->clock);
	slot->batch = BATCH_FIRST;
	slot->turn = ++s->jq_turn;
	*out = slot;
	return DLQ_OK;
}

/* "item 3 of 8: ..." becomes "dead letter 01...: ...". */
static void name_item(const char *id, struct dlq_err *err)
{
	const char *colon = strncmp(err->detail, "item ", 5) ? NULL : strstr(err->detail, ": ");
	if (colon)
		memmove(err->detail, colon + 2, strlen(colon + 2) + 1);
	err_prefix(err, "dead letter %s", id);
}

enum dlq_code scan_jq_run(struct scanner *s, struct jq_slot *slot, struct jq_item *items, const char *const *ids, int n, struct arena *a,
                          struct dlq_err *err)
{
	int at = 0;
	int64_t from = clock_mono_us(s->e->clock);
	enum dlq_code c = jq_run(slot->jq, items, n, a, &at, err);
	slot->used_us = clock_mono_us(s->e->clock);
	int64_t us = slot->used_us - from;
	slot->busy_us += us;
	if (us > BATCH_LONG_US && slot->batch > 1)
		slot->batch /= 2;
	else if (us < BATCH_SHORT_US && n >= slot->batch && slot->batch < SCAN_BATCH_MAX)
		slot->batch *= 2;
	if (c) {
		name_item(ids[at], err);
		slot_close(slot);
	}
	return c;
}

bool scan_jq_sweep(struct scanner *s, bool all)
{
	bool left = false;
	int64_t now = clock_mono_us(s->e->clock);
	for (size_t i = 0; i < ARRAY_LEN(s->slots); i++) {
		struct jq_slot *slot = &s->slots[i];
		if (slot->jq && (all || jq_dead(slot->jq) || now - slot->used_us >= SCAN_IDLE_US))
			slot_close(slot);
		left = left || slot->jq;
	}
	return left;
}
