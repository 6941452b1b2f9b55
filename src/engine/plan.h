/*
 * plan.h - what a planned redrive chooses and edits, as JSON in its row, so that a restart goes on with it. Pure.
 *
 *     {"queue": "orders", "group": "a083...", "reason": "max_attempts", "error_type": "...", "key", "id", "from", "to", "redrive",
 *      "headers": {"tenant": "acme"}, "text": "...", "where": "...", "ids": [...], "undo": "01...", "edit": {"jq": "...", "set_headers": {...}, "remove_headers": [...]}}
 *
 * The members of the selection have the names they have in POST /v1/redrives.
 */
#ifndef ENGINE_PLAN_H
#define ENGINE_PLAN_H

#include "engine/engine.h"

/* Whether the selection or the edit needs a plan: members are looked at one by one before anything goes back. */
bool plan_needed(const struct engine_selection *s, const struct engine_edit *e);
/* BAD_REQUEST: conditions that exclude each other, limits (FILTER_HEADERS_MAX, 64 headers set or removed, sizes). */
enum dlq_code plan_check(const struct engine_selection *s, const struct engine_edit *e, struct dlq_err *err) MUST_USE;
void plan_write(const struct engine_selection *s, const struct engine_edit *e, struct str queue, struct buf *out);
enum dlq_code plan_read(struct arena *a, struct str text, struct engine_selection *s, struct engine_edit *e, struct str *queue, struct dlq_err *err) MUST_USE;
/* "state dead, header tenant=acme, edited by jq" for people: the audit log, lists of redrives. */
void plan_describe(const struct engine_selection *s, const struct engine_edit *e, struct buf *out);

/* The headers after the edit, as canonical JSON; false: nothing changes. TOO_MANY: more than 64 headers. */
enum dlq_code edit_headers(const struct engine_edit *e, struct str headers, struct arena *a, struct str *out, bool *changed, struct dlq_err *err) MUST_USE;

#endif
