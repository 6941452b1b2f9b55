/* ids.h - what redrive, discard and restore share: which dead letters, and whether the operator means it. */
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
struct client;
/* POSTs the reason to /v1/dead-letters/ID/VERB for each; prints errors and, with --json, answers. Ends early when no further
 * one could do better. *done: how many were taken. Returns the exit code. */
int ids_post(struct cli *c, struct client *cl, const struct ids *ids, const char *verb, const char *past, int *done);

#endif
