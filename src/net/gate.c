#include "net/gate.h"

#include <errno.h>
#include <time.h>

void gate_init(struct net_gate *g, int max)
{
	pthread_condattr_t attr;

	ASSERT(max > 0);
	*g = (struct net_gate){.max = max};
	pthread_mutex_init(&g->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&g->emptied, &attr);
	pthread_condattr_destroy(&attr);
}

void gate_release(struct net_gate *g)
{
	ASSERT(g->active == 0);
	pthread_cond_destroy(&g->emptied);
	pthread_mutex_destroy(&g->lock);
}

enum dlq_code gate_enter(struct net_gate *g, const char *what, struct dlq_err *err)
{
	enum dlq_code code = DLQ_OK;

	pthread_mutex_lock(&g->lock);
	if (g->closed)
		code = DLQ_SHUTTING_DOWN;
	else if (g->active >= g->max)
		code = DLQ_BUSY;
	else
		g->active++;
	pthread_mutex_unlock(&g->lock);
	if (code == DLQ_BUSY)
		return err_set(err, code, "%s: %d calls are under way, no more are started at once", what, g->max);
	if (code == DLQ_SHUTTING_DOWN)
		return err_set(err, code, "%s: no new calls are started", what);
	return code;
}

void gate_leave(struct net_gate *g)
{
	pthread_mutex_lock(&g->lock);
	ASSERT(g->active > 0);
	if (--g->active == 0)
		pthread_cond_broadcast(&g->emptied);
	pthread_mutex_unlock(&g->lock);
}

void gate_close(struct net_gate *g)
{
	pthread_mutex_lock(&g->lock);
	g->closed = true;
	pthread_mutex_unlock(&g->lock);
}

bool gate_wait(struct net_gate *g, int64_t ms)
{
	struct timespec until;
	bool empty;

	clock_gettime(CLOCK_MONOTONIC, &until); /* how long to wait for a condition, not schedule time */
	if (ms > 0) {
		until.tv_sec += ms / 1000;
		until.tv_nsec += ms % 1000 * 1000000;
		if (until.tv_nsec >= 1000000000) {
			until.tv_sec++;
			until.tv_nsec -= 1000000000;
		}
	}
	pthread_mutex_lock(&g->lock);
	while (g->active > 0) {
		if (ms < 0)
			pthread_cond_wait(&g->emptied, &g->lock);
		else if (pthread_cond_timedwait(&g->emptied, &g->lock, &until) == ETIMEDOUT)
			break;
	}
	empty = g->active == 0;
	pthread_mutex_unlock(&g->lock);
	return empty;
}
