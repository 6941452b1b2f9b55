#include "cli/select.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "cli/term.h"

#define SOON "3d"
#define IDS_SHOWN 5

/* ---- reading ---- */

/* RFC 3339, a day, or an age, as RFC 3339. */
static bool time_read(struct cli *c, const char *option, const char *value, char out[40])
{
	struct timespec ts;
	int64_t ms;
	char text[64];

	out[0] = 0;
	if (!value)
		return true;
	if (duration_parse(str_of(value), &ms)) {
		clock_gettime(CLOCK_REALTIME, &ts);
		time_format((int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000 - ms, out);
		return true;
	}
	snprintf(text, sizeof(text), "%.40s%s", value, strlen(value) == 10 ? "T00:00:00Z" : "");
	if (strlen(value) < 40 && time_parse(str_of(text), &ms)) {
		time_format(ms, out);
		return true;
	}
	cli_usage(c, "--%s %s: a time such as 2026-12-01T03:00:00Z is wanted, a day (2026-12-01), or an age (2h)", option, value);
	return false;
}

static bool times_read(struct cli *c, unsigned takes, struct selection *s)
{
	bool listed = takes & SELECT_LISTED;
	const char *from = listed && cli_opt(c, "from") ? "from" : "died-from", *to = listed && cli_opt(c, "to") ? "to" : "died-to";

	if (!time_read(c, from, cli_opt(c, from), s->from) || !time_read(c, to, cli_opt(c, to), s->to))
		return false;
	if (s->from[0] && s->to[0] && strcmp(s->from, s->to) >= 0) {
		cli_usage(c, "--%s is not before --%s: nothing can have died then", from, to);
		return false;
	}
	return true;
}

static bool headers_read(struct cli *c, struct selection *s)
{
	const char *value;
	int at = 0;

	while ((value = cli_opt_next(c, "header", &at))) {
		const char *equals = strchr(value, '=');
		char name[260];

		if (!equals || equals == value || equals - value >= (int)sizeof(name)) {
			cli_usage(c, "--header %s: NAME=VALUE is wanted", value);
			return false;
		}
		snprintf(name, sizeof(name), "%.*s", (int)(equals - value), value);
		for (char *p = name; *p; p++)
			*p = *p >= 'A' && *p <= 'Z' ? (char)(*p + 32) : *p;
		if (!s->headers)
			s->headers = json_object();
		if (json_object_get(s->headers, name)) {
			cli_usage(c, "--header %s is there twice; a message has a header once", name);
			return false;
		}
		json_object_set_new(s->headers, name, json_string(equals + 1));
	}
	if (s->headers && json_object_size(s->headers) > SELECT_HEADERS_MAX) {
		cli_usage(c, "--header: at most %d of them", SELECT_HEADERS_MAX);
		return false;
	}
	return true;
}

/* Options that would find nothing, or everything, when empty. */
static bool none_empty(struct cli *c)
{
	static const char *const names[] = {"queue", "group", "dead-reason", "error-type", "key", "id", "redrive", "text", "where", "state", "undo"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (cli_opt(c, names[i]) && !*cli_opt(c, names[i])) {
			cli_usage(c, "--%s is empty", names[i]);
			return false;
		}
	return true;
}

static bool filters_read(struct cli *c, unsigned takes, struct selection *s)
{
	bool listed = takes & SELECT_LISTED;
	int64_t ms;

	s->queue = cli_opt(c, "queue");
	s->reason = cli_opt(c, "dead-reason");
	if (listed && cli_opt(c, "reason"))
		s->reason = cli_opt(c, "reason");
	s->error_type = cli_opt(c, "error-type");
	s->key = cli_opt(c, "key");
	s->id = cli_opt(c, "id");
	s->redrive = cli_opt(c, "redrive");
	s->text = cli_opt(c, "text");
	s->where = cli_opt(c, "where");
	s->state = listed ? cli_opt(c, "state") : NULL;
	s->undo = cli_opt(c, "undo");
	if (!cli_opt_duration(c, "expires-within", 0, &ms) || !none_empty(c))
		return false;
	s->within = cli_opt(c, "expires-within");
	if (cli_flag(c, "expires-soon") && s->within) {
		cli_usage(c, "--expires-soon is --expires-within " SOON "; which one is it?");
		return false;
	}
	if (cli_flag(c, "expires-soon"))
		s->within = SOON;
	return times_read(c, takes, s) && headers_read(c, s);
}

static bool filtered(const struct selection *s)
{
	return s->state || s->reason || s->error_type || s->key || s->id || s->redrive || s->within || s->text || s->where || s->from[0] ||
	       s->to[0] || s->headers;
}

int selection_read(struct cli *c, unsigned takes, struct selection *s)
{
	int rc = 0;

	if (!filters_read(c, takes, s))
		return EXIT_USAGE;
	bool group = cli_opt(c, "group") != NULL, any = s->queue || group || filtered(s);
	if (takes & SELECT_QUEUE) {
		if (c->n_args > 1 || (c->n_args && s->queue))
			return cli_usage(c, "one queue, please");
		if (c->n_args)
			s->queue = c->args[0];
	} else if (s->undo && (any || c->n_args)) {
		return cli_usage(c, "--undo takes back what one job did; it goes without ids and filters");
	} else if (c->n_args && any) {
		return cli_usage(c, "ids, or --queue, --group and other filters: which one is it?");
	} else if (c->n_args) {
		if (!ids_read(c, &s->ids, &rc))
			return rc;
	} else if (!any && !s->undo && !(takes & SELECT_LISTED)) {
		return cli_usage(c, "which dead letters? Name ids, or --queue, --group or other filters; `dlq list` shows what they find");
	}
	if (s->key && !s->queue && !group)
		return cli_usage(c, "--key %s: of which queue? A key means something in its queue alone", s->key);
	return 0;
}

enum dlq_code selection_resolve(struct cli *c, struct client *cl, struct selection *s, struct dlq_err *err)
{
	return cli_opt(c, "group") ? group_resolve(cl, cli_opt(c, "group"), s->group, err) : DLQ_OK;
}

void selection_release(struct selection *s)
{
	ids_release(&s->ids);
	json_decref(s->headers);
}

/* ---- writing ---- */

bool selection_plain(const struct selection *s)
{
	return !filtered(s) && !s->undo && !(s->queue && s->group[0]);
}

bool selection_any(const struct selection *s)
{
	return s->ids.n || s->queue || s->group[0] || s->undo || filtered(s);
}

struct pair {
	const char *key, *value;
};
#define PAIRS 11

/* What is given, under the API's names; from and to included. */
static void pairs(const struct selection *s, struct pair out[PAIRS])
{
	const struct pair all[PAIRS] = {
		{"queue", s->queue},
		{"group", s->group[0] ? s->group : NULL},
		{"reason", s->reason},
		{"error_type", s->error_type},
		{"key", s->key},
		{"id", s->id},
		{"redrive", s->redrive},
		{"from", s->from[0] ? s->from : NULL},
		{"to", s->to[0] ? s->to : NULL},
		{"expires_within", s->within},
		{"text", s->text},
	};

	memcpy(out, all, sizeof(all));
}

void selection_query(const struct selection *s, struct buf *path)
{
	struct pair p[PAIRS];
	const char *name;
	json_t *value;

	pairs(s, p);
	for (int i = 0; i < PAIRS; i++)
		url_query(path, p[i].key, p[i].value);
	url_query(path, "state", s->state);
	url_query(path, "where", s->where);
	json_object_foreach(s->headers, name, value) {
		struct buf text = {0};

		buf_addf(&text, "%s=%s", name, json_string_value(value));
		buf_addc(&text, 0);
		url_query(path, "header", text.p);
		buf_release(&text);
	}
}

void selection_add(const struct selection *s, int at, json_t *body)
{
	struct pair p[PAIRS];
	json_t *to = body;

	if (s->ids.n) {
		json_t *list = json_array();

		for (int i = at; i < s->ids.n && i < at + SELECT_IDS_PER_CALL; i++)
			json_array_append_new(list, json_string(s->ids.list[i]));
		json_object_set_new(body, "ids", list);
		return;
	}
	if (s->undo) {
		json_object_set_new(body, "undo", json_string(s->undo));
		return;
	}
	if (!selection_plain(s)) {
		to = json_object();
		json_object_set_new(body, "filter", to);
	}
	pairs(s, p);
	for (int i = 0; i < PAIRS; i++)
		if (p[i].value)
			json_object_set_new(to, p[i].key, json_string(p[i].value));
	if (s->where)
		json_object_set_new(to, "where", json_string(s->where));
	if (s->headers)
		json_object_set(to, "headers", s->headers);
}

void selection_what(const struct selection *s, char *out, size_t n)
{
	if (s->undo)
		snprintf(out, n, "job %s", s->undo);
	else if (!s->ids.n && selection_plain(s) && s->queue)
		snprintf(out, n, "queue %s", s->queue);
	else if (!s->ids.n && selection_plain(s))
		snprintf(out, n, "group %s", s->group);
	else
		snprintf(out, n, "%s", s->ids.n ? "what is named" : "what the filter finds");
}

void shell_word(struct buf *out, const char *text)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=,+@%";

	if (*text && strspn(text, plain) == strlen(text)) {
		buf_addz(out, text);
		return;
	}
	buf_addc(out, '\'');
	for (; *text; text++) {
		if (*text == '\'')
			buf_addz(out, "'\\''");
		else
			buf_addc(out, *text);
	}
	buf_addc(out, '\'');
}

static void word(struct buf *out, const char *option, const char *value)
{
	if (!value)
		return;
	buf_addf(out, " --%s ", option);
	shell_word(out, value);
}

void selection_words(const struct selection *s, struct buf *out)
{
	const char *name;
	json_t *value;
	char group[GROUP_ID_SHORT + 1];

	for (int i = 0; i < s->ids.n && s->ids.n <= IDS_SHOWN; i++) {
		buf_addc(out, ' ');
		shell_word(out, s->ids.list[i]);
	}
	if (s->ids.n > IDS_SHOWN)
		buf_addz(out, " -");
	snprintf(group, sizeof(group), "%.*s", GROUP_ID_SHORT, s->group);
	word(out, "queue", s->queue);
	word(out, "group", group[0] ? group : NULL);
	word(out, "dead-reason", s->reason);
	word(out, "error-type", s->error_type);
	word(out, "key", s->key);
	word(out, "id", s->id);
	word(out, "redrive", s->redrive);
	word(out, "died-from", s->from[0] ? s->from : NULL);
	word(out, "died-to", s->to[0] ? s->to : NULL);
	word(out, "expires-within", s->within);
	word(out, "text", s->text);
	word(out, "where", s->where);
	json_object_foreach(s->headers, name, value) {
		struct buf text = {0};

		buf_addf(&text, "%s=%s", name, json_string_value(value));
		buf_addc(&text, 0);
		word(out, "header", text.p);
		buf_release(&text);
	}
}
