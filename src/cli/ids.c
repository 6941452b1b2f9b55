#include "cli/ids.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/term.h"

#define IDS_MAX 1000000

static void add(struct ids *ids, struct str id)
{
	ids->list = mem_grow(ids->list, (size_t)ids->n + 1, sizeof(*ids->list));
	ids->list[ids->n++] = mem_strdup(id);
}

bool ids_read(struct cli *c, struct ids *ids, int *rc)
{
	char *line = NULL;
	size_t cap = 0;
	bool text = true;

	for (int i = 0; i < c->n_args; i++) {
		if (strcmp(c->args[i], "-")) {
			add(ids, str_of(c->args[i]));
			continue;
		}
		while (ids->n < IDS_MAX && getline(&line, &cap, stdin) >= 0) {
			struct str s = str_trim(str_of(line));

			s.n = strcspn(s.p, " \t\r\n");
			if (s.n)
				add(ids, s);
		}
	}
	free(line);
	/* JSON cannot carry others: they would be left out without a word. */
	for (int i = 0; i < ids->n; i++)
		text = text && str_is_utf8(str_of(ids->list[i]));
	if (!text) {
		*rc = cli_usage(c, "an id is not text; `dlq list` names the dead letters");
		return false;
	}
	if (ids->n && ids->n < IDS_MAX)
		return true;
	*rc = cli_usage(c, ids->n ? "that are too many ids" : "which dead letters? `dlq list` names them");
	return false;
}

void ids_release(struct ids *ids)
{
	for (int i = 0; i < ids->n; i++)
		mem_free(ids->list[i]);
	mem_free(ids->list);
}

bool confirm(struct cli *c, int64_t count, const char *what, int *rc)
{
	char question[200], n[32];

	if (count <= 1 || cli_flag(c, "yes"))
		return true;
	snprintf(question, sizeof(question), "%s %s dead letters?", what, count_format(count, n));
	if (ask_yes(question))
		return true;
	*rc = term_is_tty(0) && term_is_tty(2)
		      ? EXIT_PARTIAL
		      : cli_usage(c, "this would %s %s dead letters; say --yes to do it, --dry-run to look", what, n);
	return false;
}
