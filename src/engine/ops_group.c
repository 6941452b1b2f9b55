/* ops_group.c - what people say about a group: seen, muted, resolved, whose it is, that two are one. */
#include <inttypes.h>
#include <string.h>

#include "engine/engine_int.h"
#include "engine/record.h"

#define NOTE_MAX 4000
#define OWNER_MAX 128
#define MUTE_DEATHS_MAX ((int64_t)1000000000)

static enum dlq_code text_check(const char *what, struct str s, size_t max, struct dlq_err *err)
{
	if (s.n > max)
		return err_set(err, DLQ_BAD_REQUEST, "the %s has %zu bytes, at most %zu are kept; shorten it", what, s.n, max);
	if (s.n && !str_is_utf8(s))
		return err_set(err, DLQ_BAD_REQUEST, "the %s is not valid UTF-8 text", what);
	return DLQ_OK;
}

static enum dlq_code set_check(struct engine_op *op)
{
	int64_t wait = op->u.group_set.mute_for_ms, deaths = op->u.group_set.mute_deaths;
	bool mute = op->u.group_set.set_status && op->u.group_set.status == GROUP_MUTED;
	if (op->u.group_set.set_status &&
	    ((unsigned)op->u.group_set.status >= GROUP_STATUS_COUNT || op->u.group_set.status == GROUP_REGRESSED))
		return err_set(&op->err, DLQ_BAD_REQUEST,
		               "a group can be set to new, acknowledged, muted and resolved; regressed comes by itself");
	if (!mute && (wait || deaths))
		return err_set(&op->err, DLQ_BAD_REQUEST, "a time or a count of deaths belongs to muting");
	if (wait < 0 || wait > TIME_SPAN_MAX_MS)
		return err_set(&op->err, DLQ_BAD_REQUEST, "for is %" PRId64 " ms, it must be 0 to 10 years", wait);
	if (deaths < 0 || deaths > MUTE_DEATHS_MAX)
		return err_set(&op->err, DLQ_BAD_REQUEST, "deaths is %" PRId64 ", it must be 1 to %" PRId64, deaths,
		               MUTE_DEATHS_MAX);
	if (!op->u.group_set.set_status && !op->u.group_set.set_note && !op->u.group_set.set_owner && !op->u.group_set.merge)
		return err_set(&op->err, DLQ_BAD_REQUEST,
		               "nothing is to be changed: give a status, a note, an owner, or a group to merge into");
	enum dlq_code c = text_check("note", op->u.group_set.note, NOTE_MAX, &op->err);
	if (!c)
		c = text_check("owner", op->u.group_set.owner, OWNER_MAX, &op->err);
	/* A reason is welcome here, not demanded: nothing is lost by it. */
	return c || !op->u.group_set.reason.n ? c : reason_check(op->u.group_set.reason, &op->err);
}

static enum dlq_code get(struct engine *e, struct str id, struct arena *a, struct store_group *out, struct dlq_err *err)
{
	uint8_t fp[16];
	enum dlq_code c = DLQ_NOT_FOUND;
	if (group_id_parse(id, fp))
		c = e->ops->group_get(e->store, fp, a, out, err);
	return c == DLQ_NOT_FOUND ? group_missing(id, err) : c;
}

static const char *status_apply(struct batch *b, struct engine_op *op, struct store_group *g, struct buf *detail)
{
	static const char *const actions[GROUP_STATUS_COUNT] = {[GROUP_NEW] = "group.reopen",
	                                                        [GROUP_ACKNOWLEDGED] = "group.acknowledge",
	                                                        [GROUP_MUTED] = "group.mute",
	                                                        [GROUP_RESOLVED] = "group.resolve"};
	int64_t wait = op->u.group_set.mute_for_ms, deaths = op->u.group_set.mute_deaths;
	char text[32];
	buf_addf(detail, "was %s", group_status_name(g->status));
	g->status = op->u.group_set.status;
	g->status_at_ms = b->wall;
	g->muted_until_ms = wait ? b->wall + wait : 0;
	g->muted_deaths = deaths ? g->deaths + deaths : 0;
	if (wait) {
		duration_human(wait, text);
		buf_addf(detail, ", for %s", text);
	}
	if (deaths)
		buf_addf(detail, ", for %" PRId64 " deaths", deaths);
	return actions[g->status];
}

static enum dlq_code merge_apply(struct engine *e, struct engine_op *op, struct store_group *g, struct buf *detail)
{
	struct store_group into;
	if (!op->u.group_set.into.n) {
		if (!g->merged_into)
			return err_set(&op->err, DLQ_CONFLICT, "group " STR_FMT " is not merged into another",
			               STR_ARG(op->u.group_set.id));
		g->merged_into = 0;
		return DLQ_OK;
	}
	enum dlq_code c = get(e, op->u.group_set.into, &e->scratch, &into, &op->err);
	if (c)
		return c;
	if (into.group_id == g->group_id)
		return err_set(&op->err, DLQ_CONFLICT, "a group cannot be merged into itself");
	g->merged_into = into.group_id;
	buf_addf(detail, "into " STR_FMT, STR_ARG(op->u.group_set.into));
	return DLQ_OK;
}

static enum dlq_code audit(struct engine *e, struct batch *b, struct engine_op *op, const struct store_group *g,
                           const char *action, struct str detail)
{
	return audit_row(e, b, op, action, g->queue, op->u.group_set.id, op->u.group_set.reason, detail, &op->err);
}

/* Everything asked for, or nothing; each part has its row in the audit log. */
enum dlq_code op_group_set(struct engine *e, struct batch *b, struct engine_op *op)
{
	struct store_group *g = &op->u.group_set.out;
	struct buf status = {0}, merge = {0};
	const char *action = NULL;
	*g = (struct store_group){0};
	enum dlq_code c = set_check(op);
	if (!c)
		c = batch_tx(e, b, &op->err);
	if (!c)
		c = get(e, op->u.group_set.id, &op->arena, g, &op->err);
	if (!c && op->queue.n && !str_eq(op->queue, g->queue))
		c = err_set(&op->err, DLQ_NOT_FOUND, "group " STR_FMT " is of queue " STR_FMT, STR_ARG(op->u.group_set.id),
		            STR_ARG(g->queue));
	if (c)
		return c;
	if (op->u.group_set.set_status)
		action = status_apply(b, op, g, &status);
	if (op->u.group_set.set_note)
		g->note = arena_str(&op->arena, op->u.group_set.note);
	if (op->u.group_set.set_owner)
		g->owner = arena_str(&op->arena, op->u.group_set.owner);
	if (op->u.group_set.merge)
		c = merge_apply(e, op, g, &merge);
	if (!c)
		c = e->ops->group_set(e->store, g, &op->err);
	if (!c && action)
		c = audit(e, b, op, g, action, buf_str(&status));
	if (!c && op->u.group_set.set_note)
		c = audit(e, b, op, g, "group.note", str_cut(op->u.group_set.note, REASON_TEXT_MAX));
	if (!c && op->u.group_set.set_owner)
		c = audit(e, b, op, g, "group.owner", op->u.group_set.owner);
	if (!c && op->u.group_set.merge)
		c = audit(e, b, op, g, op->u.group_set.into.n ? "group.merge" : "group.split", buf_str(&merge));
	buf_release(&status);
	buf_release(&merge);
	return c;
}
