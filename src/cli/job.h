/* job.h - redrive, discard, archive and restore of a selection: one kind of durable job on the server, counted, confirmed, followed. */
#ifndef CLI_JOB_H
#define CLI_JOB_H

#include "cli/select.h"

struct job {
	struct cli *c;
	struct client *cl;
	struct selection *sel; /* ids that do not fit are taken out of it */
	const char *action; /* redrive, discard, archive, restore */
	const json_t *more; /* members of the request besides selection, action and reason; NULL: none */
};

#define JOB_OPTIONS                                                \
	{"reason", "TEXT", "why; goes to the audit log; needed"},  \
	{"yes", NULL, "do not ask"},                               \
	{"dry-run", NULL, "only say how many it would be"},        \
	{"no-wait", NULL, "start it and print its id"}

/*
 * --dry-run, the question (of ids, the caller has asked), the start, progress, and how it ended. The exit code: EXIT_PARTIAL when it
 * halted, was cancelled or skipped some.
 */
int job_run(const struct job *j);
/* The reason is given, or the usage error is printed; a dry run needs none. `example` ends the sentence. */
bool job_reason(struct cli *c, const char *example);
/* Starts what POST path with body (taken) starts, and follows it. */
int job_start(struct cli *c, struct client *cl, const char *path, json_t *body);
/*
 * discard, archive and restore: of one id by its own address, of everything else as a job. `past` says what it did, hint (may be NULL)
 * what to type next.
 */
int job_command(struct cli *c, const char *action, const char *past, const char *hint, const char *example);

#endif
