#include "cli/edit.h"

#include <stdio.h>
#include <string.h>

#include "cli/select.h"

/* Lower-case copy of the name in front of "=", or of all of it. */
static json_t *header_name(const char *text, size_t n)
{
	char *name = mem_strdup((struct str){text, n});

	for (char *p = name; *p; p++)
		*p = *p >= 'A' && *p <= 'Z' ? (char)(*p + 32) : *p;
	json_t *v = json_string(name);
	mem_free(name);
	return v;
}

/* -1: not one, the usage error is printed; 0: none; 1: added. */
static int read_set(struct cli *c, json_t *edit)
{
	json_t *set = json_object();
	const char *value;
	int at = 0, n = 0;

	while ((value = cli_opt_next(c, "set-header", &at))) {
		const char *equals = strchr(value, '=');

		if (!equals || equals == value) {
			json_decref(set);
			cli_usage(c, "--set-header %s: NAME=VALUE is wanted", value);
			return -1;
		}
		json_t *name = header_name(value, (size_t)(equals - value));
		json_object_set_new(set, json_string_value(name), json_string(equals + 1));
		json_decref(name);
		n = 1;
	}
	if (n)
		json_object_set(edit, "set_headers", set);
	json_decref(set);
	return n;
}

static int read_remove(struct cli *c, json_t *edit)
{
	json_t *list = json_array();
	const char *value;
	int at = 0, n = 0;

	while ((value = cli_opt_next(c, "remove-header", &at))) {
		if (!*value || strchr(value, '=')) {
			json_decref(list);
			cli_usage(c, "--remove-header %s: the name of a header is wanted", value);
			return -1;
		}
		json_t *name = header_name(value, strlen(value));
		if (json_object_get(json_object_get(edit, "set_headers"), json_string_value(name))) {
			cli_usage(c, "header %s: set or removed, which one is it?", json_string_value(name));
			json_decref(name);
			json_decref(list);
			return -1;
		}
		json_array_append_new(list, name);
		n = 1;
	}
	if (n)
		json_object_set(edit, "remove_headers", list);
	json_decref(list);
	return n;
}

bool edit_options_read(struct cli *c, json_t **out)
{
	json_t *edit = json_object();
	const char *program = cli_opt(c, "jq");
	int set = read_set(c, edit), removed = set < 0 ? -1 : read_remove(c, edit);

	*out = NULL;
	if (set < 0 || removed < 0)
		goto fail;
	if (program && !*program) {
		cli_usage(c, "--jq: a program is wanted, such as '.sku |= ascii_upcase'");
		goto fail;
	}
	if (cli_flag(c, "from-edited") && !program) {
		cli_usage(c, "--from-edited says which body the program of --jq gets; there is no --jq");
		goto fail;
	}
	if (program)
		json_object_set_new(edit, "jq", json_string(program));
	if (cli_flag(c, "from-edited"))
		json_object_set_new(edit, "from", json_string("edited"));
	if (program || set || removed)
		*out = edit;
	else
		json_decref(edit);
	return true;
fail:
	json_decref(edit);
	return false;
}

void edit_options_words(const struct cli *c, struct buf *out)
{
	static const char *const names[] = {"jq", "set-header", "remove-header"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const char *value;
		int at = 0;

		while ((value = cli_opt_next(c, names[i], &at))) {
			buf_addf(out, " --%s ", names[i]);
			shell_word(out, value);
		}
	}
	if (cli_flag(c, "from-edited"))
		buf_addz(out, " --from-edited");
}
