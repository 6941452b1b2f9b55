/* group_view.c - one group for the person on call: what it is, what speaks for it, how it went, and what to type next. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "cli/groups.h"
#include "cli/term.h"

#define SLOTS 60
#define WORKERS_SHOWN 10

static const char *level(int64_t confidence)
{
	return confidence >= 70 ? "high" : confidence >= 40 ? "medium" : "low";
}

void group_diagnosis(const json_t *group, char *out, size_t n)
{
	const json_t *d = json_object_get(group, "diagnosis");

	if (!strcmp(jstr(d, "kind"), "unknown"))
		snprintf(out, n, "unknown");
	else
		snprintf(out, n, "%s (%s)", jstr(d, "kind"), level(jint(d, "confidence")));
}

static void line(const char *indent, const char *text)
{
	char safe[4200];

	printf("%s%s\n", indent, text_safe(str_of(text), safe, sizeof(safe)));
}

void group_show_diagnosis(const json_t *group)
{
	const json_t *d = json_object_get(group, "diagnosis");
	const char *kind = jstr(d, "kind");
	json_t *e;
	size_t i;

	if (!strcmp(kind, "unknown") || !*kind)
		printf("%sdiagnosis%s  unknown\n", term_bold(), term_reset());
	else
		printf("%sdiagnosis%s  %s%s%s, %s confidence (%lld %%)\n", term_bold(), term_reset(), term_yellow(), kind, term_reset(),
		       level(jint(d, "confidence")), (long long)jint(d, "confidence"));
	json_array_foreach(json_object_get(d, "evidence"), i, e)
		line("  - ", json_string_value(e));
	line("  usually: ", jstr(d, "advice"));
}

/* ---- histograms ---- */

/* Counts of the buckets in SLOTS equal parts of the time that ends now. */
static int64_t fill(const json_t *buckets, int64_t slot_ms, int64_t now_ms, int64_t slots[SLOTS])
{
	int64_t end = now_ms / slot_ms * slot_ms + slot_ms, peak = 0;
	json_t *b;
	size_t i;

	memset(slots, 0, SLOTS * sizeof(*slots));
	json_array_foreach(buckets, i, b) {
		int64_t at;

		if (!time_parse(str_of(jstr(b, "at")), &at) || at >= end || at < end - slot_ms * SLOTS)
			continue;
		int64_t *s = &slots[SLOTS - 1 - (end - 1 - at) / slot_ms];
		*s += jint(b, "failures");
		peak = *s > peak ? *s : peak;
	}
	return peak;
}

static void histogram(const char *title, const json_t *buckets, int64_t slot_ms, const char *unit, int64_t now_ms)
{
	static const char *const block[] = {" ", "\u2581", "\u2582", "\u2583", "\u2584", "\u2585", "\u2586", "\u2587", "\u2588"};
	int64_t slots[SLOTS], peak = fill(buckets, slot_ms, now_ms, slots);
	char n[32];

	printf("  %-14s %s", title, term_red());
	for (int i = 0; i < SLOTS; i++)
		fputs(peak ? block[(slots[i] * 8 + peak - 1) / peak] : " ", stdout);
	printf("%s%s  at most %s %s%s\n", term_reset(), term_dim(), count_format(peak, n), unit, term_reset());
}

static void show_history(const json_t *g)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	int64_t now_ms = (int64_t)ts.tv_sec * 1000;
	printf("\n%sfailures%s\n", term_bold(), term_reset());
	histogram("last hour", json_object_get(g, "minutes"), 60000, "a minute", now_ms);
	histogram("last 7 days", json_object_get(g, "hours"), (int64_t)3 * 3600000, "in 3 hours", now_ms);
}

/* ---- facts ---- */

static void time_line(const char *name, const char *value)
{
	char ago[40];

	printf("  %-14s %s  %s(%s)%s\n", name, value, term_dim(), time_ago(value, ago), term_reset());
}

static void show_counts(const json_t *g)
{
	static const char *const names[][2] = {
		{"dead", "dead now"},          {"redriving", "being redriven"}, {"redriven", "redriven"}, {"failed_again", "failed again"},
		{"discarded", "discarded"},    {"archived", "archived"},
	};
	char n[32], m[32];

	printf("\n%smessages%s\n", term_bold(), term_reset());
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (!i || jint(g, names[i][0]))
			printf("  %-14s %s\n", names[i][1], count_format(jint(g, names[i][0]), n));
	printf("  %-14s %s failed deliveries; %s recovered by a retry\n", "in all", count_format(jint(g, "failures"), n),
	       count_format(jint(g, "recovered"), m));
	time_line("first failure", jstr(g, "first_seen"));
	time_line("last failure", jstr(g, "last_seen"));
}

static void show_normal(const json_t *g)
{
	json_t *rule;
	size_t i;

	printf("\n%swhat makes it one group%s\n", term_bold(), term_reset());
	line("  message as one came:  ", jstr(g, "sample"));
	line("  compared as:          ", jstr(g, "message"));
	json_array_foreach(json_object_get(g, "rules"), i, rule)
		line("  - ", json_string_value(rule));
	json_array_foreach(json_object_get(g, "merged_groups"), i, rule)
		printf("  - merged into it: %.*s %s\n", GROUP_ID_SHORT, jstr(rule, "group"), jstr(rule, "error_type"));
}

static void show_workers(const json_t *g)
{
	const json_t *list = json_object_get(g, "workers");
	size_t i, total = json_array_size(list);
	json_t *w;
	char n[32], safe[200], version[200];

	if (!total)
		return;
	printf("\n%sworkers it failed on%s\n", term_bold(), term_reset());
	json_array_foreach(list, i, w) {
		if (i == WORKERS_SHOWN) {
			printf("  %s... %zu more; --json shows all%s\n", term_dim(), total - i, term_reset());
			break;
		}
		printf("  %-30s %s%s%8s failures\n", text_safe(str_of(jstr(w, "worker")), safe, sizeof(safe)),
		       text_safe(str_of(jstr(w, "version")), version, sizeof(version)), *version ? "  " : "",
		       count_format(jint(w, "failures"), n));
	}
}

static void show_samples(const json_t *g)
{
	json_t *d;
	size_t i;
	char ago[40], safe[200];

	if (!json_array_size(json_object_get(g, "samples")))
		return;
	printf("\n%snewest dead letters%s\n", term_bold(), term_reset());
	json_array_foreach(json_object_get(g, "samples"), i, d)
		printf("  %s  %s  %s\n", jstr(d, "dlq_id"), text_safe(str_of(jstr(d, "id")), safe, sizeof(safe)),
		       time_ago(jstr(d, "died_at"), ago));
}

static void show_next(const json_t *g)
{
	const char *id = jstr(g, "group"), *status = jstr(g, "status");
	const char *sample = jstr(json_array_get(json_object_get(g, "samples"), 0), "dlq_id");

	printf("\n%swhat to type next%s\n", term_bold(), term_reset());
	if (*sample)
		printf("  dlq show %s\n      one of them: every attempt, the body\n", sample);
	if (jint(g, "dead"))
		printf("  dlq redrive --group %.*s --first 5 --stop-at 10%% --reason '...'\n      5 first; the rest only if these succeed\n",
		       GROUP_ID_SHORT, id);
	if (jint(g, "dead") && !strcmp(jstr(json_object_get(g, "diagnosis"), "kind"), "poison"))
		printf("  dlq edit --group %.*s --jq 'PROGRAM'\n      what a repair of the payloads would do; it only looks\n", GROUP_ID_SHORT, id);
	if (!strcmp(status, "new") || !strcmp(status, "regressed"))
		printf("  dlq groups ack %.*s --reason '...'\n      say that somebody is on it\n", GROUP_ID_SHORT, id);
	else if (!strcmp(status, "resolved") || !strcmp(status, "muted"))
		printf("  dlq groups reopen %.*s\n      it counts as new again\n", GROUP_ID_SHORT, id);
	if (!jint(g, "dead") && strcmp(status, "resolved"))
		printf("  dlq groups resolve %.*s --reason '...'\n      its cause is gone; a new failure makes it `regressed`\n", GROUP_ID_SHORT,
		       id);
}

void group_show(const json_t *g)
{
	const char *status = jstr(g, "status");
	char safe[300];

	printf("%s%s%s  queue %s, %s%s%s", term_bold(), jstr(g, "group"), term_reset(), jstr(g, "queue"),
	       !strcmp(status, "regressed") ? term_red() : "", status, term_reset());
	if (*jstr(g, "muted_until"))
		printf(" until %s", jstr(g, "muted_until"));
	if (jint(g, "muted_deaths"))
		printf(" until %lld deaths", (long long)jint(g, "muted_deaths"));
	printf("%s\n", json_is_true(json_object_get(g, "is_merged")) ? ", merged into another group" : "");
	line("", jstr(g, "error_type"));
	line("", jstr(g, "message"));
	if (*jstr(g, "owner"))
		printf("owner %s\n", text_safe(str_of(jstr(g, "owner")), safe, sizeof(safe)));
	if (*jstr(g, "note"))
		line("note  ", jstr(g, "note"));
	printf("\n");
	group_show_diagnosis(g);
	show_counts(g);
	show_history(g);
	show_normal(g);
	show_workers(g);
	show_samples(g);
	show_next(g);
}
