/* ids.h - dead letters named one by one, and whether the operator means it. */
#ifndef CLI_IDS_H
#define CLI_IDS_H

#include "cli/cli.h"

struct ids {
	char **list;
	int n;
};
/* The arguments; "-" reads ids from stdin, one a line (anything after white space is ignored). False: error printed,
 * *rc set. */
bool ids_read(struct cli *c, struct ids *ids, int *rc);
void ids_release(struct ids *ids);
/* Above one: says the count and asks, or wants --yes. False: not confirmed, *rc set. */
bool confirm(struct cli *c, int64_t count, const char *what, int *rc);

#endif
