/* redrive.h - waiting for a redrive; also the demo does. */
#ifndef CLI_REDRIVE_H
#define CLI_REDRIVE_H

#include "cli/client.h"

/* Polls until every member was put back or skipped (or it was paused or cancelled). Takes redrive, gives its last
 * document, or NULL with err set. show: progress on stderr. */
json_t *redrive_wait(struct client *cl, json_t *redrive, bool show, struct dlq_err *err);

#endif
