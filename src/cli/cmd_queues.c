#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/doc.h"
#include "base/text.h"
#include "cli/page.h"
#include "cli/term.h"

/* ---- list and show ---- */

/* People see what waits for its first attempt and what waits for another one; the API counts the latter in `ready`, too. */
static int64_t never_tried(const json_t *counts)
{
	return jint(counts, "ready") - jint(counts, "retrying");
}

struct list {
	struct table table;
	bool json;
};

static bool list_item(json_t *q, void *arg)
{
	struct list *l = arg;
	const json_t *counts = json_object_get(q, "counts"), *totals = json_object_get(q, "totals");

	if (l->json) {
		json_line(q);
		return true;
	}
	table_cell(&l->table, jstr(q, "name"));
	table_int(&l->table, never_tried(counts));
	table_int(&l->table, jint(counts, "retrying"));
	table_int(&l->table, jint(counts, "held"));
	table_int(&l->table, jint(counts, "leased"));
	table_int(&l->table, jint(counts, "dead"));
	table_int(&l->table, jint(totals, "sent"));
	table_int(&l->table, jint(totals, "done"));
	table_cell(&l->table, json_is_true(json_object_get(q, "paused")) ? "paused" : "");
	return true;
}

static int list(struct cli *c, struct client *cl)
{
	static const char *const head[] = {"QUEUE", "READY", "RETRYING", "HELD", "LEASED",
					   "DEAD",  "SENT",  "DONE",     "STATE"};
	struct list l = {.json = c->json};
	struct dlq_err err = {0};

	table_init(&l.table, 0xfe, head, ARRAY_LEN(head));
	if (page_each(cl, "/v1/queues", INT64_MAX, list_item, &l, &err))
		return cli_fail(&err);
	if (!c->json && !l.table.rows)
		fprintf(stderr, "no queue yet; make one with `dlq queues create NAME`\n");
	table_print(&l.table);
	return 0;
}

static void show_numbers(const char *title, const json_t *o)
{
	const char *key;
	json_t *v;
	char n[32];

	printf("%s%s%s\n", term_bold(), title, term_reset());
	json_object_foreach((json_t *)o, key, v)
		printf("  %-16s %14s\n", key, count_format(json_integer_value(v), n));
}

static void show_queue(struct cli *c, json_t *q)
{
	char *config;

	if (c->json) {
		json_line(q);
		return;
	}
	json_t *counts = json_object_get(q, "counts");
	json_object_set_new(counts, "ready", json_integer(never_tried(counts)));
	config = json_dumps(json_object_get(q, "config"), JSON_INDENT(2));
	printf("%s%s%s%s, made %s\n", term_bold(), jstr(q, "name"), term_reset(),
	       json_is_true(json_object_get(q, "paused")) ? " (paused)" : "", jstr(q, "created_at"));
	show_numbers("now", counts);
	show_numbers("in total", json_object_get(q, "totals"));
	printf("%ssettings%s\n%s\n", term_bold(), term_reset(), config ? config : "");
	free(config);
}

/* ---- settings ---- */

/* JSON or YAML text as a JSON value. Scalars of YAML keep their text: the server reads "5" and 5 alike. */
static json_t *doc_json(const struct doc *d)
{
	json_t *v;

	switch (d->kind) {
	case DOC_NULL:
		return json_null();
	case DOC_SCALAR:
		if (!d->quoted) {
			json_t *plain = json_loadb(d->text.p, d->text.n, JSON_DECODE_ANY, NULL);

			if (plain)
				return plain;
		}
		return json_stringn(d->text.p, d->text.n);
	case DOC_LIST:
		v = json_array();
		for (const struct doc *x = d->child; x; x = x->next)
			json_array_append_new(v, doc_json(x));
		return v;
	case DOC_MAP:
		v = json_object();
		for (const struct doc *x = d->child; x; x = x->next)
			json_object_setn_new(v, x->key.p, x->key.n, doc_json(x));
		return v;
	}
	return NULL;
}

static enum dlq_code settings_file(const char *file, json_t **out, struct dlq_err *err)
{
	struct arena a = {0};
	struct buf text = {.max = (size_t)1 << 20};
	struct doc *d = NULL;
	enum dlq_code code = cli_read_file(file, &text, err);

	if (!code)
		code = doc_from_yaml(&a, buf_str(&text), file, &d, err);
	if (!code)
		*out = d ? doc_json(d) : NULL;
	buf_release(&text);
	arena_release(&a);
	return code;
}

/* Option to key; those from `policy` on belong under "policy". */
static const char *const top_keys[] = {"dedup-window", "max-messages", "max-bytes",    "max-in-flight",
				       "push",         "concurrency",  "push-timeout", "on-dead-letter"};
static const char *const policy_keys[] = {"max-attempts", "backoff", "jitter",    "visibility-timeout",
					  "crash-limit",  "ttl",     "retention", "max-redrives"};

static void set_key(json_t *o, const char *option, const char *value)
{
	char key[64];
	char *end;
	long long n = strtoll(value, &end, 10);

	snprintf(key, sizeof(key), "%s", option);
	for (char *p = key; *p; p++)
		if (*p == '-')
			*p = '_';
	if (!strcmp(key, "backoff") && value[0] != '{') {
		json_t *list = json_array();

		for (const char *p = value; *p;) {
			size_t len = strcspn(p, ",");

			json_array_append_new(list, json_stringn(p, len));
			p += len + (p[len] == ',');
		}
		json_object_set_new(o, key, list);
	} else if (!strcmp(key, "backoff")) {
		json_t *map = json_loads(value, 0, NULL);

		json_object_set_new(o, key, map ? map : json_string(value));
	} else {
		json_object_set_new(o, key, *value && !*end ? json_integer(n) : json_string(value));
	}
}

static bool settings_of(struct cli *c, json_t **out, int *rc)
{
	const char *file = cli_opt(c, "file"), *json = cli_opt(c, "settings");
	json_t *o = NULL, *policy;
	struct dlq_err err = {0};

	if (file && json) {
		*rc = cli_usage(c, "--file and --settings: which one is it?");
		return false;
	}
	if (file && settings_file(file, &o, &err)) {
		*rc = cli_fail(&err);
		return false;
	}
	if (json && !o)
		o = json_loads(json, 0, NULL);
	if ((json || file) && !json_is_object(o)) {
		json_decref(o);
		*rc = cli_usage(c, "settings are a map: a JSON object, or a YAML file with one");
		return false;
	}
	if (!o)
		o = json_object();
	for (size_t i = 0; i < ARRAY_LEN(top_keys); i++)
		if (cli_opt(c, top_keys[i]))
			set_key(o, top_keys[i], cli_opt(c, top_keys[i]));
	if (cli_flag(c, "ordered"))
		json_object_set_new(o, "ordered", json_true());
	policy = json_object_get(o, "policy");
	if (policy && !json_is_object(policy) && !json_is_null(policy)) {
		json_decref(o);
		*rc = cli_usage(c, "\"policy\" in the settings is a map, such as {\"max_attempts\": 3}");
		return false;
	}
	policy = json_is_object(policy) ? json_incref(policy) : json_object();
	for (size_t i = 0; i < ARRAY_LEN(policy_keys); i++)
		if (cli_opt(c, policy_keys[i]))
			set_key(policy, policy_keys[i], cli_opt(c, policy_keys[i]));
	if (json_object_size(policy))
		json_object_set(o, "policy", policy);
	json_decref(policy);
	*out = o;
	return true;
}

/* ---- one queue ---- */

static void say(struct cli *c, const char *name, const char *what)
{
	if (!c->json)
		fprintf(stderr, "queue %s %s\n", name, what);
}

static int put(struct cli *c, struct client *cl, const char *path, bool create)
{
	struct dlq_err err = {0};
	json_t *body, *queue;
	int rc;

	if (create) {
		queue = client_json(cl, "GET", path, NULL, &err);
		if (queue) {
			json_decref(queue);
			err_set(&err, DLQ_CONFLICT, "queue %s exists; `dlq queues put` changes it", c->args[1]);
			return cli_fail(&err);
		}
		if (err.code != DLQ_NOT_FOUND)
			return cli_fail(&err);
	}
	if (!settings_of(c, &body, &rc))
		return rc;
	queue = client_json(cl, "PUT", path, body, &err);
	if (!queue)
		return cli_fail(&err);
	if (c->json)
		json_line(queue);
	say(c, c->args[1], create ? "made" : "set");
	json_decref(queue);
	return 0;
}

static int one(struct cli *c, struct client *cl, const char *verb, const char *path)
{
	struct dlq_err err = {0};
	struct buf full = {0};
	json_t *queue;

	if (!strcmp(verb, "create") || !strcmp(verb, "put"))
		return put(c, cl, path, verb[0] == 'c');
	buf_addz(&full, path);
	if (!strcmp(verb, "pause") || !strcmp(verb, "resume"))
		buf_addf(&full, "/%s", verb);
	buf_addc(&full, 0);
	queue = client_json(cl,
			    !strcmp(verb, "delete") ? "DELETE"
			    : !strcmp(verb, "show") ? "GET"
						    : "POST",
			    full.p, NULL, &err);
	buf_release(&full);
	if (!queue)
		return cli_fail(&err);
	if (!strcmp(verb, "show"))
		show_queue(c, queue);
	else if (!strcmp(verb, "delete"))
		say(c, c->args[1], "deleted");
	else if (c->json)
		json_line(queue);
	else
		say(c, c->args[1], !strcmp(verb, "pause") ? "paused: it takes messages and gives none" : "goes on");
	json_decref(queue);
	return 0;
}

static const char *const words[] = {"list", "show", "create", "put", "delete", "pause", "resume", NULL};

static int run(struct cli *c)
{
	const char *verb = c->n_args ? c->args[0] : "list";
	struct buf path = {0};
	int rc, known = 0;

	while (words[known] && strcmp(words[known], verb))
		known++;
	if (!words[known]) {
		const char *near = str_nearest(str_of(verb), words, ARRAY_LEN(words) - 1);

		return cli_usage(c, "%s: %s%s%s", verb,
				 near ? "did you mean " : "list, show, create, put, delete, pause or resume is wanted",
				 near ? near : "", near ? "?" : "");
	}
	if (known ? c->n_args != 2 : c->n_args > 1)
		return cli_usage(c, known ? "%s: one queue is wanted" : "%s takes no queue", verb);
	struct client *cl = client_open(c, &rc);
	if (!cl)
		return rc;
	if (!known) {
		rc = list(c, cl);
	} else {
		buf_addz(&path, "/v1/queues/");
		url_escape(&path, c->args[1]);
		buf_addc(&path, 0);
		rc = one(c, cl, verb, path.p);
	}
	buf_release(&path);
	client_free(cl);
	return rc;
}

static const struct cli_option options[] = {
	{"file", "FILE", "settings as YAML or JSON, as in the configuration file; - is stdin"},
	{"settings", "JSON", "settings as a JSON object"},
	{"max-attempts", "N", "failures until a message is dead, 1 to 1000"},
	{"backoff", "LIST",
	 "delays between attempts, such as 1m,5m,15m,1h, or {\"initial\": \"2s\", \"max\": \"30s\"}"},
	{"jitter", "KIND", "none, full, equal, decorrelated or proportional:P"},
	{"visibility-timeout", "DURATION", "length of a lease"},
	{"crash-limit", "N", "leases that may run out before a message is dead"},
	{"ttl", "DURATION", "how long a message may wait; 0s: for ever"},
	{"retention", "DURATION", "how long dead letters are kept"},
	{"max-redrives", "N", "how often one may be put back"},
	{"ordered", NULL, "messages of one key in order (cannot change later)"},
	{"dedup-window", "DURATION", "how long ids are remembered"},
	{"max-messages", "N", "limit of waiting messages; 0: none"},
	{"max-bytes", "SIZE", "limit of their bytes; 0: none"},
	{"max-in-flight", "N", "leases at once"},
	{"push", "URL", "call this address with each message"},
	{"concurrency", "N", "pushes at once"},
	{"push-timeout", "DURATION", "how long a push may take"},
	{"on-dead-letter", "URL", "call this address when a message dies"},
	{0},
};

const struct command cmd_queues = {
	.name = "queues",
	.synopsis =
		"[list]\nshow QUEUE\ncreate QUEUE [SETTINGS]\nput QUEUE [SETTINGS]\n"
		    "delete QUEUE\npause QUEUE\nresume QUEUE",
	.summary = "list, make, change, pause and delete queues",
	.about = "Settings come from --file or --settings, and single options on top. `put` sets a queue\n"
		 "to exactly what is given (what is left out gets its default) and makes it if there is\n"
		 "none; `create` refuses one that exists.\n"
		 "\n"
		 "Only an empty queue without dead letters can be deleted. Making and deleting needs a\n"
		 "token with role admin.",
	.examples = "dlq queues # all of them with their counts\n"
		    "dlq queues create orders --max-attempts 3 --backoff 10s,1m # three runs in total\n"
		    "dlq queues put orders --file orders.yaml # settings kept in a file\n"
		    "dlq queues pause orders # stop deliveries while the worker is repaired",
	.options = options,
	.words = words,
	.client = true,
	.run = run,
};
