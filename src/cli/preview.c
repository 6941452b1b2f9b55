#include "cli/preview.h"

#include <stdio.h>
#include <string.h>

#include "cli/interrupt.h"
#include "cli/term.h"

#define BEFORE_DIFFERENCE 20 /* bytes of context */
#define SKIPPED_SHOWN 5 /* of those that would be skipped */
#define STEP_ITEMS 100  /* what the server gives at most */

/* ---- adding up ---- */

static bool would_skip(const json_t *item)
{
	return *jstr(item, "error") || json_is_true(json_object_get(item, "over_limit"));
}

static bool changes(const json_t *item)
{
	return json_array_size(json_object_get(item, "changes")) || json_object_size(json_object_get(item, "headers_set")) ||
	       json_array_size(json_object_get(item, "headers_removed"));
}

/* Still wanted: changes up to show, and some of those that would be skipped. */
static bool wanted(const struct preview *p, int show, const json_t *item)
{
	json_t *it;
	size_t i;
	int same = 0;

	if (!would_skip(item) && !changes(item))
		return false;
	json_array_foreach(p->items, i, it)
		same += would_skip(it) == would_skip(item);
	return same < (would_skip(item) ? SKIPPED_SHOWN : show);
}

static void add_step(struct preview *p, int show, const json_t *step)
{
	json_t *item;
	size_t i;

	p->selected += jint(step, "selected");
	p->changed += jint(step, "changed");
	p->unchanged += jint(step, "unchanged");
	p->failed += jint(step, "failed");
	p->over_limit += jint(step, "over_limit");
	p->scan.looked += jint(step, "looked");
	scan_errors(&p->scan, step);
	json_array_foreach(json_object_get(step, "items"), i, item)
		if (show && wanted(p, show, item))
			json_array_append(p->items, item);
}

static void show_progress(const struct preview *p)
{
	char a[32], b[32], c[32];

	if (p->changed + p->unchanged + p->failed)
		progress("looked at %s, %s chosen, %s would change", count_format(p->scan.looked, a), count_format(p->selected, b),
			 count_format(p->changed, c));
	else
		progress("looked at %s, %s chosen", count_format(p->scan.looked, a), count_format(p->selected, b));
}

enum dlq_code preview_run(struct client *cl, const struct selection *s, const char *action, const json_t *edit,
			  bool override_limit, int show, bool shown, struct preview *out, struct dlq_err *err)
{
	char *cursor = NULL;
	int at = 0;

	*out = (struct preview){.items = json_array()};
	do {
		json_t *body = json_pack("{s:s, s:i}", "action", action, "limit", show ? STEP_ITEMS : 0);

		selection_add(s, at, body);
		if (edit)
			json_object_set_new(body, "edit", json_deep_copy(edit));
		if (override_limit)
			json_object_set_new(body, "override", json_true());
		if (cursor)
			json_object_set_new(body, "cursor", json_string(cursor));
		json_t *step = client_json(cl, "POST", "/v1/redrives/preview", body, err);
		mem_free(cursor);
		cursor = NULL;
		if (!step) {
			progress_end();
			return err->code;
		}
		add_step(out, show, step);
		if (*jstr(step, "next"))
			cursor = mem_strdup(str_of(jstr(step, "next")));
		else
			at += SELECT_IDS_PER_CALL;
		json_decref(step);
		out->scan.interrupted = interrupt_came();
		if (shown && (cursor || at < s->ids.n))
			show_progress(out);
	} while ((cursor || at < s->ids.n) && !out->scan.interrupted);
	mem_free(cursor);
	progress_clear();
	return DLQ_OK;
}

void preview_release(struct preview *p)
{
	json_decref(p->items);
	p->items = NULL;
}

/* ---- showing ---- */

static int columns(const char *s)
{
	int n = 0;

	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

/* The end of the character at p that starts within the first n bytes, at most. */
static size_t back_to_start(const char *p, size_t n)
{
	while (n && ((unsigned char)p[n] & 0xc0) == 0x80)
		n--;
	return n;
}

/* Prints text from byte `from`, cut to the columns of one line, with dots where something is left out. */
static void print_cut(const char *text, size_t from)
{
	int room = term_width() - 14;
	const char *p = text + from;

	fputs(from ? "..." : "", stdout);
	while (*p && room-- > 0) {
		do
			putchar(*p++);
		while (((unsigned char)*p & 0xc0) == 0x80);
	}
	fputs(*p ? "..." : "", stdout);
}

/* Two values that do not fit on one line: below each other, around the first place in which they differ. */
static void print_long(const char *path, const char *old, const char *new_text)
{
	size_t same = 0, from = 0;

	while (old[same] && old[same] == new_text[same])
		same++;
	if (same > BEFORE_DIFFERENCE && columns(old) > term_width() - 14)
		from = back_to_start(old, same - BEFORE_DIFFERENCE);
	printf("    %s%s%s:\n      %s   ", term_bold(), path, term_reset(), term_red());
	print_cut(old, from);
	printf("%s\n      %s-> ", term_reset(), term_green());
	print_cut(new_text, from);
	printf("%s\n", term_reset());
}

void preview_change(const char *path, const char *old, const char *new_text)
{
	char p[300], a[500], b[500];

	text_safe(str_of(path), p, sizeof(p));
	text_safe(str_of(old), a, sizeof(a));
	text_safe(str_of(new_text), b, sizeof(b));
	if (!*old)
		printf("    %s%s%s: %sadded %s%s\n", term_bold(), p, term_reset(), term_green(), b, term_reset());
	else if (!*new_text)
		printf("    %s%s%s: %sremoved %s%s\n", term_bold(), p, term_reset(), term_red(), a, term_reset());
	else if (columns(p) + columns(a) + columns(b) + 10 <= term_width())
		printf("    %s%s%s: %s%s%s -> %s%s%s\n", term_bold(), p, term_reset(), term_red(), a, term_reset(), term_green(), b, term_reset());
	else
		print_long(p, a, b);
}

static void print_headers(const json_t *item)
{
	const char *name;
	json_t *v;
	size_t i;
	char line[700], safe[700];

	json_object_foreach(json_object_get(item, "headers_set"), name, v) {
		snprintf(line, sizeof(line), "%s: %s", name, json_string_value(v) ? json_string_value(v) : "");
		printf("    %sheader%s %sset %s%s\n", term_bold(), term_reset(), term_green(), text_safe(str_of(line), safe, sizeof(safe)), term_reset());
	}
	json_array_foreach(json_object_get(item, "headers_removed"), i, v)
		printf("    %sheader%s %sremoved %s%s\n", term_bold(), term_reset(), term_red(),
		       text_safe(str_of(json_string_value(v)), safe, sizeof(safe)), term_reset());
}

static void print_item(const json_t *item)
{
	json_t *change;
	size_t i;
	char safe[700], id[200];

	printf("  %s%s%s  %s\n", term_dim(), jstr(item, "dlq_id"), term_reset(), text_safe(str_of(jstr(item, "id")), id, sizeof(id)));
	if (*jstr(item, "error"))
		printf("    %sfails:%s %s\n", term_red(), term_reset(), text_safe(str_of(jstr(item, "error")), safe, sizeof(safe)));
	if (json_is_true(json_object_get(item, "over_limit")))
		printf("    %swas redriven as often as its queue allows%s (--override takes it along)\n", term_yellow(), term_reset());
	json_array_foreach(json_object_get(item, "changes"), i, change)
		preview_change(jstr(change, "path"), jstr(change, "old"), jstr(change, "new"));
	if (jint(item, "more_changes"))
		printf("    ... and %lld more places\n", (long long)jint(item, "more_changes"));
	print_headers(item);
	if (*jstr(item, "warning"))
		printf("    %scareful:%s %s\n", term_yellow(), term_reset(), text_safe(str_of(jstr(item, "warning")), safe, sizeof(safe)));
}

/* Those that would be skipped, or the others, under a heading. */
static void print_items(const struct preview *p, bool skipped, const char *title)
{
	json_t *item;
	size_t i;
	bool first = true;

	json_array_foreach(p->items, i, item) {
		if (would_skip(item) != skipped)
			continue;
		if (first)
			printf("%s%s%s\n", term_bold(), title, term_reset());
		first = false;
		print_item(item);
	}
	if (!first)
		printf("\n");
}

static void print_count(const char *name, int64_t n, const char *colour, const char *note)
{
	char text[32];

	printf("  %-11s %s%9s%s%s%s\n", name, n ? colour : "", count_format(n, text), n && *colour ? term_reset() : "", *note ? "  " : "", note);
}

void preview_print(const struct preview *p)
{
	print_items(p, false, "what would change, for example");
	print_items(p, true, "what would be skipped, for example");
	if (p->scan.looked > p->selected)
		print_count("looked at", p->scan.looked, "", "");
	print_count("chosen", p->selected, "", "");
	if (p->changed + p->unchanged + p->failed) {
		print_count("changed", p->changed, term_green(), "");
		print_count("unchanged", p->unchanged, p->changed ? "" : term_yellow(),
			    p->unchanged ? "they would go back as they are" : "");
		print_count("failed", p->failed, term_red(), p->failed ? "they would be skipped and stay dead" : "");
	}
	if (p->over_limit)
		print_count("over limit", p->over_limit, term_yellow(), "redriven as often as allowed; skipped without --override");
}

void preview_json(const struct preview *p)
{
	json_t *o = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:O}", "looked", (json_int_t)p->scan.looked, "selected", (json_int_t)p->selected,
			      "changed", (json_int_t)p->changed, "unchanged", (json_int_t)p->unchanged, "failed", (json_int_t)p->failed,
			      "over_limit", (json_int_t)p->over_limit, "items", p->items);

	if (p->scan.errors) {
		json_object_set_new(o, "errors", json_integer(p->scan.errors));
		json_object_set_new(o, "first_error", json_string(p->scan.first_error));
	}
	if (p->scan.interrupted)
		json_object_set_new(o, "interrupted", json_true());
	json_line(o);
	json_decref(o);
}
