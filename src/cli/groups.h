/* groups.h - what the commands share about groups: finding one by the start of its id, showing one. Also the demo does. */
#ifndef CLI_GROUPS_H
#define CLI_GROUPS_H

#include "cli/client.h"

#define GROUP_ID_LEN 32
#define GROUP_ID_SHORT 12 /* shown in tables */

/*
 * The whole id of the group that text is, or begins, at least 4 characters of it. NOT_FOUND: none of the 10,000 that failed
 * last; CONFLICT: several.
 */
enum dlq_code group_resolve(struct client *cl, const char *text, char out[GROUP_ID_LEN + 1], struct dlq_err *err) MUST_USE;

/* "poison (high)", "unknown" */
void group_diagnosis(const json_t *group, char *out, size_t n);
/* Kind, evidence and advice, to stdout. */
void group_show_diagnosis(const json_t *group);
/* All that the API's document of one group says, and what to type next, to stdout. */
void group_show(const json_t *group);

#endif
