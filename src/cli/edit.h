/* edit.h - the edit of messages on their way back, as the command line says it; for dlq edit and dlq redrive. */
#ifndef CLI_EDIT_H
#define CLI_EDIT_H

#include "cli/client.h"

#define EDIT_OPTIONS                                                                                               \
	{"jq", "PROGRAM", "edit each JSON body with this jq program, such as '.sku |= ascii_upcase'"},             \
	{"set-header", "NAME=VALUE", "set this message header; may be given several times"},                       \
	{"remove-header", "NAME", "remove this message header; may be given several times"}, \
	{"from-edited", NULL, "of one that was edited before --jq gets the edited body, not the original"}

/* The member "edit" of a request in *out, NULL when there is none. False: the usage error is printed. */
bool edit_options_read(struct cli *c, json_t **out);
/* " --jq '...'": as they were given. */
void edit_options_words(const struct cli *c, struct buf *out);

/*
 * Lets a person change the body of one dead letter in $VISUAL or $EDITOR, shows what changed, asks, and puts it back with that body.
 * The exit code. What was typed is never lost: when it cannot be put back, its file stays and is named.
 */
int edit_by_hand(struct cli *c, struct client *cl, const char *id);

#endif
