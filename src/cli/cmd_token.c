#include <stdio.h>
#include <string.h>

#include "cli/page.h"
#include "cli/term.h"

struct list {
	struct table table;
	bool json;
};

static bool list_item(json_t *t, void *arg)
{
	struct list *l = arg;
	char queues[400] = "";
	size_t i;
	json_t *q;

	if (l->json) {
		json_line(t);
		return true;
	}
	json_array_foreach(json_object_get(t, "queues"), i, q) {
		size_t n = strlen(queues);

		snprintf(queues + n, sizeof(queues) - n, "%s%s", i ? "," : "",
			 json_string_value(q) ? json_string_value(q) : "");
	}
	table_cell(&l->table, jstr(t, "name"));
	table_cell(&l->table, jstr(t, "role"));
	table_cell(&l->table, *queues ? queues : "all");
	table_cell(&l->table, jstr(t, "created_at"));
	table_cell(&l->table, *jstr(t, "revoked_at") ? "revoked" : jstr(t, "expires_at"));
	return true;
}

static int list(struct cli *c, struct client *cl)
{
	static const char *const head[] = {"NAME", "ROLE", "QUEUES", "CREATED", "EXPIRES"};
	struct list l = {.json = c->json};
	struct dlq_err err = {0};

	table_init(&l.table, 0, head, ARRAY_LEN(head));
	enum dlq_code code = page_each(cl, "/v1/tokens", INT64_MAX, list_item, &l, &err);
	table_print(&l.table);
	return code ? cli_fail(&err) : 0;
}

static int create(struct cli *c, struct client *cl)
{
	const char *role = cli_opt(c, "role"), *queue;
	struct dlq_err err = {0};
	json_t *queues = json_array(), *body, *t;
	int at = 0;

	while ((queue = cli_opt_next(c, "queue", &at)))
		json_array_append_new(queues, json_string(queue));
	body = json_pack("{s:s, s:s, s:s*}", "name", c->args[1], "role", role ? role : "operator", "expires_in",
			 cli_opt(c, "expires-in"));
	if (json_array_size(queues))
		json_object_set(body, "queues", queues);
	json_decref(queues);
	t = client_json(cl, "POST", "/v1/tokens", body, &err);
	if (!t)
		return cli_fail(&err);
	if (c->json)
		json_line(t);
	else {
		fprintf(stderr, "token of %s (%s); it is shown only this once:\n", jstr(t, "name"), jstr(t, "role"));
		printf("%s\n", jstr(t, "token"));
	}
	json_decref(t);
	return 0;
}

static int revoke(struct cli *c, struct client *cl)
{
	struct dlq_err err = {0};
	struct buf path = {0};

	buf_addz(&path, "/v1/tokens/");
	url_escape(&path, c->args[1]);
	buf_addc(&path, 0);
	json_t *t = client_json(cl, "DELETE", path.p, NULL, &err);
	buf_release(&path);
	if (!t)
		return cli_fail(&err);
	json_decref(t);
	if (c->json)
		printf("{\"revoked\":true}\n");
	else
		fprintf(stderr, "token of %s revoked\n", c->args[1]);
	return 0;
}

static int run(struct cli *c)
{
	const char *verb = c->n_args ? c->args[0] : "list";
	bool is_list = !strcmp(verb, "list");
	int rc;

	if (!is_list && strcmp(verb, "create") && strcmp(verb, "revoke"))
		return cli_usage(c, "%s: create, list or revoke is wanted", verb);
	if (is_list ? c->n_args > 1 : c->n_args != 2)
		return cli_usage(c, is_list ? "%s takes no name" : "%s: one name is wanted", verb);
	struct client *cl = client_open(c, &rc);
	if (!cl)
		return rc;
	rc = is_list ? list(c, cl) : !strcmp(verb, "create") ? create(c, cl) : revoke(c, cl);
	client_free(cl);
	return rc;
}

static const struct cli_option options[] = {
	{"role", "ROLE", "viewer, operator (default) or admin"},
	{"queue", "QUEUE", "only this queue, or PREFIX*; may be repeated"},
	{"expires-in", "DURATION", "valid so long, such as 30d; default for ever"},
	{0},
};
static const char *const words[] = {"list", "create", "revoke", NULL};

const struct command cmd_token = {
	.name = "token",
	.synopsis = "[list]\ncreate NAME [--role ROLE] [--queue QUEUE]... [--expires-in DURATION]\nrevoke NAME",
	.summary = "make, list and revoke access tokens",
	.about = "The name of a token is the operator in the audit log: give each person and each program\n"
		 "its own. Needs role admin.",
	.examples = "dlq token create ada --role operator # for a colleague\n"
		    "dlq token create shop --queue 'orders*' --expires-in 90d # for a program\n"
		    "dlq token revoke ada",
	.options = options,
	.words = words,
	.client = true,
	.run = run,
};
