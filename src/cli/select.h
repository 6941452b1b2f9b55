/*
 * select.h - which dead letters: what list, edit, redrive, discard, archive, restore and export share. One reading of the command
 * line, written as the query of a list, as members of a request to /v1/redrives, and as words to type for the next command.
 */
#ifndef CLI_SELECT_H
#define CLI_SELECT_H

#include "cli/client.h"
#include "cli/groups.h"
#include "cli/ids.h"

/* The filters under the names that mean the same everywhere. All that are given must hold. */
#define SELECT_OPTIONS                                                                                              \
	{"", NULL, "Filters"},                                                                                       \
	{"queue", "QUEUE", "of this queue"},                                                                         \
	{"group", "GROUP", "of this group of failures; the first characters of it are enough"},                     \
	{"dead-reason", "REASON", "dead because of: permanent, max_attempts, lease_expired, expired, ..."},         \
	{"error-type", "TYPE", "whose last error has this type"},                                                   \
	{"key", "KEY", "of this ordering key (with a queue or group)"},                                                      \
	{"id", "ID", "of this message"},                                                                            \
	{"header", "NAME=VALUE", "with this message header; up to 8 of them"},                                      \
	{"redrive", "REDRIVE_ID", "last put back by this redrive"},                                                 \
	{"died-from", "TIME", "died at or after: RFC 3339, a day (2026-12-01), or an age (2h: in the last 2 hours)"}, \
	{"died-to", "TIME", "died before that"},                                                                    \
	{"expires-within", "DURATION", "whose retention ends within that time"},                                    \
	{"expires-soon", NULL, "the same as --expires-within 3d"},                                                  \
	{"text", "TEXT", "whose body has this text"},                                                               \
	{"where", "JQ", "for which this jq expression holds, such as '.body.total > 100'"}

#define SELECT_ABOUT                                                                                                \
	"Filters are combined: all that are given must hold. --queue, --group, --key, --id,\n"                      \
	"--error-type, --header and --redrive are indexed; --text and --where look at each of the\n"                \
	"others. --where sees a document as `dlq list --json` prints it, with headers and body.\n"

enum select_takes {
	SELECT_IDS = 1,    /* arguments are dlq_ids, "-" reads them from stdin */
	SELECT_QUEUE = 2,  /* the argument is a queue */
	SELECT_LISTED = 4, /* --reason, --from, --to, --state are filters here, and nothing chosen is all */
};

#define SELECT_HEADERS_MAX 8
#define SELECT_IDS_PER_CALL 1000

struct selection {
	struct ids ids;
	char group[GROUP_ID_LEN + 1]; /* "": none */
	const char *queue, *state, *reason, *error_type, *key, *id, *redrive, *within, *text, *where; /* NULL: not given */
	char from[40], to[40];        /* RFC 3339; "": open */
	json_t *headers;              /* object, or NULL */
	const char *undo;             /* restore: what that job did */
};

/* Reads and checks the command line. 0, or the exit code; the error is printed. selection_release in any case. */
int selection_read(struct cli *c, unsigned takes, struct selection *s) MUST_USE;
/* The whole id of --group. */
enum dlq_code selection_resolve(struct cli *c, struct client *cl, struct selection *s, struct dlq_err *err) MUST_USE;
void selection_release(struct selection *s);

/* ids, one queue or one group: the server counts these at once. */
bool selection_plain(const struct selection *s);
/* Whether anything is given. */
bool selection_any(const struct selection *s);
void selection_query(const struct selection *s, struct buf *path);
/* Adds "ids" (n from `at`), "queue", "group", "filter" or "undo". */
void selection_add(const struct selection *s, int at, json_t *body);
/* "queue orders", "group 3f2a9c", "the filter": for people. */
void selection_what(const struct selection *s, char *out, size_t n);
/* " --queue orders --where '...'": as the job commands take it; ids above 5 as "-". */
void selection_words(const struct selection *s, struct buf *out);
/* text as one word of a shell */
void shell_word(struct buf *out, const char *text);

#endif
