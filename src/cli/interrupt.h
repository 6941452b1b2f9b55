/* interrupt.h - Ctrl-C on long work: the first ends it cleanly at its next step, a second one at once. */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include <stdbool.h>

void interrupt_catch(void);     /* from here on SIGINT and SIGTERM are only noted, once */
bool interrupt_came(void);
void interrupt_pause(int ms);   /* an interrupt ends it early */

#endif
