#include "cli/interrupt.h"

#include <signal.h>
#include <stdatomic.h>
#include <time.h>

static atomic_bool came;

static void on_signal(int sig)
{
	(void)sig;
	atomic_store(&came, true);
}

void interrupt_catch(void)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

bool interrupt_came(void)
{
	return atomic_load(&came);
}

void interrupt_pause(int ms)
{
	struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

	nanosleep(&t, NULL);
}
