#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/groups.h"
#include "cli/page.h"
#include "cli/term.h"

/* ---- finding one ---- */

#define RESOLVE_MAX 10000
#define PREFIX_MIN 4

struct search {
	const char *text;
	char found[GROUP_ID_LEN + 1];
	int n;
};

static bool search_item(json_t *g, void *arg)
{
	struct search *s = arg;

	if (!strncmp(jstr(g, "group"), s->text, strlen(s->text)) && s->n++ == 0)
		snprintf(s->found, sizeof(s->found), "%s", jstr(g, "group"));
	return s->n < 2;
}

enum dlq_code group_resolve(struct client *cl, const char *text, char out[GROUP_ID_LEN + 1], struct dlq_err *err)
{
	struct search s = {.text = text};
	size_t n = strlen(text);

	if (n < PREFIX_MIN || n > GROUP_ID_LEN || strspn(text, "0123456789abcdef") != n)
		return err_set(err, DLQ_BAD_REQUEST, "%s is no group: %d characters out of 0-9 a-f, or at least the first %d of them; "
			       "`dlq groups` lists them", text, GROUP_ID_LEN, PREFIX_MIN);
	if (n == GROUP_ID_LEN) {
		snprintf(out, GROUP_ID_LEN + 1, "%s", text);
		return DLQ_OK;
	}
	enum dlq_code code = page_each(cl, "/v1/groups", RESOLVE_MAX, search_item, &s, err);
	if (code)
		return code;
	if (s.n != 1)
		return err_set(err, s.n ? DLQ_CONFLICT : DLQ_NOT_FOUND, s.n ? "more than one group begins with %s; give more of it"
			       : "no group begins with %s; `dlq groups` lists them", text);
	snprintf(out, GROUP_ID_LEN + 1, "%s", s.found);
	return DLQ_OK;
}

/* ---- list ---- */

struct list {
	struct table table;
	bool json, tty;
	int64_t n;
};

static bool list_item(json_t *g, void *arg)
{
	struct list *l = arg;
	char id[GROUP_ID_LEN + 1], diagnosis[60], ago[40], text[600];

	l->n++;
	if (l->json) {
		json_line(g);
		return true;
	}
	snprintf(id, sizeof(id), "%.*s", l->tty ? GROUP_ID_SHORT : GROUP_ID_LEN, jstr(g, "group"));
	group_diagnosis(g, diagnosis, sizeof(diagnosis));
	snprintf(text, sizeof(text), "%s%s%s", jstr(g, "error_type"), *jstr(g, "error_type") && *jstr(g, "message") ? ": " : "",
		 jstr(g, "message"));
	table_cell(&l->table, id);
	table_cell(&l->table, jstr(g, "queue"));
	table_int(&l->table, jint(g, "dead"));
	table_cell(&l->table, diagnosis);
	table_cell(&l->table, jstr(g, "status"));
	table_cell(&l->table, l->tty ? time_ago(jstr(g, "last_seen"), ago) : jstr(g, "last_seen"));
	table_cell(&l->table, text);
	if (l->n % 1000 == 0)
		table_print(&l->table);
	return true;
}

static int list(struct cli *c, struct client *cl)
{
	static const char *const head[] = {"GROUP", "QUEUE", "DEAD", "DIAGNOSIS", "STATUS", "LAST SEEN", "MESSAGE"};
	struct list l = {.json = c->json, .tty = term_is_tty(STDOUT_FILENO)};
	struct dlq_err err = {0};
	struct buf path = {0};
	int64_t limit;
	int rc = 0;

	if (!cli_opt_int(c, "limit", 1, INT64_MAX, 100, &limit))
		return EXIT_USAGE;
	buf_addz(&path, "/v1/groups");
	url_query(&path, "queue", c->n_args > 1 ? c->args[1] : cli_opt(c, "queue"));
	url_query(&path, "status", cli_opt(c, "status"));
	url_query(&path, "dead", cli_flag(c, "dead") ? "true" : NULL);
	buf_addc(&path, 0);
	table_init(&l.table, 1u << 2, head, ARRAY_LEN(head));
	enum dlq_code code = page_each(cl, path.p, limit, list_item, &l, &err);
	table_print(&l.table);
	if (code)
		rc = cli_fail(&err);
	else if (!c->json && !l.n)
		fprintf(stderr, "no group%s\n", path.n > sizeof("/v1/groups") ? " that fits" : "; nothing failed yet");
	else if (!c->json && l.n == limit)
		fprintf(stderr, "the newest %lld; --limit shows more\n", (long long)limit);
	else if (!c->json && l.tty)
		fprintf(stderr, "dlq groups show GROUP   explains one; the first characters of it are enough\n");
	buf_release(&path);
	return rc;
}

/* ---- one ---- */

static const struct verb {
	const char *name, *address; /* address: NULL for show */
	const char *done;
} verbs[] = {
	{"show", NULL, NULL},
	{"ack", "acknowledge", "acknowledged"},
	{"resolve", "resolve", "resolved; a new failure makes it `regressed`"},
	{"reopen", "reopen", "new again"},
	{"mute", "mute", "muted"},
	{"note", "note", "noted"},
	{"merge", "merge", "merged"},
	{"split", "split", "a group of its own again"},
};

static void add_text(struct cli *c, json_t *body, const char *option, const char *key)
{
	if (cli_opt(c, option))
		json_object_set_new(body, key, json_string(cli_opt(c, option)));
}

/* The body of a change. NULL: the usage error is printed, or *err is set. */
static json_t *change_body(struct cli *c, struct client *cl, const struct verb *v, struct dlq_err *err)
{
	json_t *body = json_object();
	char into[GROUP_ID_LEN + 1];
	int64_t deaths = 0;

	add_text(c, body, "reason", "reason");
	if (!strcmp(v->name, "mute")) {
		add_text(c, body, "for", "for");
		if (!cli_opt_int(c, "deaths", 1, 1000000000, 0, &deaths))
			goto fail;
		if (deaths)
			json_object_set_new(body, "deaths", json_integer(deaths));
	} else if (!strcmp(v->name, "note")) {
		if (c->n_args > 2)
			json_object_set_new(body, "note", json_string(c->args[2]));
		add_text(c, body, "owner", "owner");
	} else if (!strcmp(v->name, "merge")) {
		if (group_resolve(cl, c->args[2], into, err))
			goto fail;
		json_object_set_new(body, "into", json_string(into));
	}
	return body;
fail:
	json_decref(body);
	return NULL;
}

static int one(struct cli *c, struct client *cl, const struct verb *v)
{
	char id[GROUP_ID_LEN + 1], path[120];
	struct dlq_err err = {0};
	json_t *body = NULL;
	int rc = 0;

	if (group_resolve(cl, c->args[1], id, &err))
		return cli_fail(&err);
	if (v->address) {
		body = change_body(c, cl, v, &err);
		if (!body)
			return err.code ? cli_fail(&err) : EXIT_USAGE;
	}
	snprintf(path, sizeof(path), "/v1/groups/%s%s%s", id, v->address ? "/" : "", v->address ? v->address : "");
	json_t *g = client_json(cl, v->address ? "POST" : "GET", path, body, &err);
	if (!g)
		rc = cli_fail(&err);
	else if (c->json)
		json_line(g);
	else if (v->address)
		printf("%.*s %s\n", GROUP_ID_SHORT, id, v->done);
	else
		group_show(g);
	json_decref(g);
	return rc;
}

/* The number of words that verb v wants is right; else the usage error is printed. */
static bool words_fit(struct cli *c, const struct verb *v)
{
	bool merge = !strcmp(v->name, "merge"), note = !strcmp(v->name, "note");

	if (c->n_args < 2)
		cli_usage(c, "%s: which group? `dlq groups` names them", v->name);
	else if (merge && c->n_args != 3)
		cli_usage(c, "merge: two groups are wanted, the second is the one that stays");
	else if (note && c->n_args == 2 && !cli_opt(c, "owner"))
		cli_usage(c, "note: a text is wanted, or --owner NAME");
	else if (c->n_args > (merge || note ? 3 : 2))
		cli_usage(c, "%s: one group at a time", v->name);
	else
		return true;
	return false;
}

static int run(struct cli *c)
{
	const char *word = c->n_args ? c->args[0] : "list";
	const struct verb *v = NULL;
	int rc;

	for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
		if (!strcmp(verbs[i].name, word))
			v = &verbs[i];
	if (!v && strcmp(word, "list"))
		return cli_usage(c, "%s: list, show, ack, resolve, reopen, mute, note, merge or split is wanted", word);
	if (v && !words_fit(c, v))
		return EXIT_USAGE;
	if (!v && c->n_args > 2)
		return cli_usage(c, "one queue, please");
	struct client *cl = client_open(c, &rc);
	if (!cl)
		return rc;
	rc = v ? one(c, cl, v) : list(c, cl);
	client_free(cl);
	return rc;
}

static const struct cli_option options[] = {
	{"queue", "QUEUE", "list: of this queue (or as an argument)"},
	{"status", "STATUS", "list: new, acknowledged, muted, resolved, regressed, or several with commas"},
	{"dead", NULL, "list: only those that have dead letters"},
	{"limit", "N", "list: at most so many, default 100"},
	{"reason", "TEXT", "why, for the audit log"},
	{"for", "DURATION", "mute: for so long, such as 2h"},
	{"deaths", "N", "mute: until so many more messages died of it"},
	{"owner", "NAME", "note: who looks after it; '' for nobody"},
	{0},
};
static const char *const words[] = {"list", "show", "ack", "resolve", "reopen", "mute", "note", "merge", "split", NULL};

const struct command cmd_groups = {
	.name = "groups",
	.synopsis = "[list] [QUEUE] [--status STATUS] [--dead]\nshow GROUP\nack GROUP [--reason TEXT]\nresolve GROUP [--reason TEXT]\n"
		    "reopen GROUP [--reason TEXT]\nmute GROUP [--for DURATION] [--deaths N]\nnote GROUP [TEXT] [--owner NAME]\n"
		    "merge GROUP INTO\nsplit GROUP",
	.summary = "group failures by cause, with a diagnosis",
	.about = "Failures of one queue that are the same failure are one group: 826 dead letters with one\n"
		 "cause are one line. `show` explains one: what kind of failure it looks like and which\n"
		 "numbers say so, what was left out of the message to compare it, when and on which\n"
		 "workers it happened, and what to type next. The diagnosis never acts by itself.\n"
		 "\n"
		 "A group is named by its id or the first characters of it. A resolved group that fails\n"
		 "again is `regressed`; a muted one is `new` again when its time or count is over; without\n"
		 "--for and --deaths it is muted until `reopen`. `merge` counts a group with another of its\n"
		 "queue, and `split` ends that; no dead letter is changed by it.",
	.examples = "dlq groups --dead # what is dead, and why\n"
		    "dlq groups show 3f2a9c # one cause, explained\n"
		    "dlq groups ack 3f2a9c --reason 'looking at it' # for the others on call\n"
		    "dlq groups mute 3f2a9c --for 2h --reason 'supplier informed' # quiet until then\n"
		    "dlq redrive --group 3f2a9c --first 5 --stop-at 10% --reason 'fixed in 2.4.1' # put them back",
	.options = options,
	.words = words,
	.client = true,
	.run = run,
};
