/* demo.h - what the files of `dlq demo` share. */
#ifndef CLI_DEMO_H
#define CLI_DEMO_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "cli/client.h"
#include "cli/groups.h"

#define DEMO_WORKERS 8
#define DEMO_RECENT 4
#define DEMO_FIRST 5 /* canary of the redrives */

/* One play. Plain fields are written before the threads start; the atomics by any of them; `recent` under the lock. */
struct demo {
	struct cli *c;
	struct client *client;
	const char *queue;
	int orders, bad, first;
	bool fast, tty;
	int64_t pace_us;         /* pretended work per message */
	int64_t started_ms;
	int64_t base_sent, base_done, base_dead, base_redriven; /* totals before the play */
	atomic_int sent;         /* orders acknowledged by the server */
	atomic_uchar *done;      /* per order: how often a worker finished it */
	atomic_bool stop;
	pthread_mutex_t lock;
	char recent[DEMO_RECENT][192];
	int n_recent;
	struct dlq_err err;      /* the first error of a thread */
	atomic_bool failed;
	/* what the acts found */
	char group[GROUP_ID_LEN + 1], one[64]; /* the group; a dead letter of it */
	int64_t ledger;          /* members of the repair that succeeded */
};

/* A server that lives as long as the demo. */
struct demo_server {
	char dir[64]; /* "": none */
	pid_t pid;
};

/* The queue as the server counts it, less what was there before. */
struct demo_counts {
	int64_t ready, retrying, leased, dead, redriving, sent, done, died, redriven, failed_attempts;
};
bool demo_counts(struct demo *d, struct demo_counts *out, struct dlq_err *err);

int64_t demo_now_ms(void); /* monotonic */
/* demo_work.c: threads. Both return NULL; arg is the struct demo. */
void *demo_sender(void *arg);
void *demo_worker(void *arg);
bool demo_is_bad(const struct demo *d, int order); /* orders count from 1 */

/* demo_server.c */
struct client *demo_server_start(struct demo_server *s, int *rc); /* NULL: the error is printed */
void demo_server_stop(struct demo_server *s);

/* demo_acts.c */
enum dlq_code demo_acts(struct demo *d, struct dlq_err *err);
/* Server's account and the workers' own; true when both balance. */
bool demo_account(struct demo *d, const struct demo_counts *n);

/* demo_view.c */
void demo_title(const struct demo *d);
void demo_draw(struct demo *d, const struct demo_counts *n, const char *phase, bool last);
void demo_say(const char *fmt, ...) PRINTF_LIKE(1, 2); /* a heading between two phases */

#endif
