#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/client.h"
#include "cli/settings.h"
#include "cli/term.h"

static void show_row(struct table *t, bool json, const char *key, const char *value, const char *origin)
{
	if (json) {
		json_t *v = json_pack("{s:s, s:s, s:s}", "key", key, "value", value, "from", origin);

		json_line(v);
		json_decref(v);
		return;
	}
	table_cell(t, key);
	table_cell(t, value);
	table_cell(t, origin);
}

static int show(struct cli *c, const char *file)
{
	static const char *const head[] = {"KEY", "VALUE", "FROM"};
	struct settings s = {0};
	struct dlq_err err = {0};
	struct table t;
	char key[160];

	if (settings_load(&s, file, c, &err)) {
		settings_release(&s);
		return cli_fail(&err);
	}
	table_init(&t, 0, head, 3);
	for (int i = 0; i < SET_COUNT; i++)
		show_row(&t, c->json, settings_table[i].key,
			 s.v[i].secret   ? "(secret)"
			 : s.v[i].text.n ? s.v[i].text.p
					 : "",
			 s.v[i].origin.p);
	for (int i = 0; i < s.n_queues; i++) {
		char name[140];

		snprintf(key, sizeof(key), "queues.%s", text_safe(s.queues[i]->name, name, sizeof(name)));
		show_row(&t, c->json, key, s.queues[i]->push_url.n ? "push" : "pull", file);
	}
	if (!c->json)
		table_print(&t);
	settings_release(&s);
	return 0;
}

static int check(struct cli *c, const char *file)
{
	struct settings s = {0};
	struct dlq_err err = {0};
	int rc = 0;

	if (!file)
		return cli_usage(c, "which file? `dlq config check FILE`");
	if (settings_load(&s, file, NULL, &err))
		rc = cli_fail(&err);
	else if (c->json)
		printf("{\"ok\":true,\"queues\":%d}\n", s.n_queues);
	else
		printf("%s is valid: %d queue%s\n", file, s.n_queues, s.n_queues == 1 ? "" : "s");
	settings_release(&s);
	return rc;
}

static int run(struct cli *c)
{
	const char *file = cli_opt(c, "config");

	if (c->n_args == 2 && !file)
		file = c->args[1];
	else if (c->n_args != 1)
		return cli_usage(c, "show or check is wanted");
	if (!file)
		file = getenv("DLQ_CONFIG");
	if (!strcmp(c->args[0], "show"))
		return show(c, file && *file ? file : NULL);
	if (!strcmp(c->args[0], "check"))
		return check(c, file && *file ? file : NULL);
	return cli_usage(c, "%s: show or check is wanted", c->args[0]);
}

static const struct cli_option options[] = {SETTINGS_OPTIONS};
static const char *const words[] = {"show", "check", NULL};

const struct command cmd_config = {
	.name = "config",
	.synopsis = "show [FILE] [OPTIONS]\ncheck FILE",
	.summary = "show every setting and where it comes from, or check a file",
	.about = "A flag wins over the environment (DLQ_LISTEN, DLQ_LIMITS_IDLE_TIMEOUT, ...), that over\n"
		 "the file, that over the default. Values given as ${NAME} or file:/path are secrets and\n"
		 "not shown.",
	.examples = "dlq config show --config dlq.yaml # what `dlq serve --config dlq.yaml` would use\n"
		    "dlq config check dlq.yaml # exit code 2 and the line of the mistake",
	.options = options,
	.words = words,
	.run = run,
};
