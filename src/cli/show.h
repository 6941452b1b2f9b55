/* show.h - the history of a dead letter as a timeline; also the demo shows one. */
#ifndef CLI_SHOW_H
#define CLI_SHOW_H

#include <jansson.h>

void show_history(const json_t *dead_letter); /* the API's document with `history`, to stdout */

#endif
