/* lib_engine.h - an engine in a temporary folder, and what the tests of it do again and again. */
#ifndef TESTS_LIB_ENGINE_H
#define TESTS_LIB_ENGINE_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/engine_int.h"

/* A port to wait at. */
struct inbox {
	struct op_port port;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	struct engine_op *head, *tail;
	int posts;
};

struct fix {
	char dir[64];
	struct clock *clock;
	struct engine *e;
	struct engine_options o;
	struct inbox in;
};

#define FAST "{\"policy\": {\"max_attempts\": 2, \"backoff\": [\"50ms\"]}}"

void inbox_init(struct inbox *in);
struct engine_op *inbox_try(struct inbox *in);
struct engine_op *inbox_wait(struct inbox *in);
void fix_open(struct fix *f);
struct fix *fix_new(const struct engine_options *o);
void fix_free(struct fix *f);
struct queue_config *fix_config(const char *name, const char *json);
enum dlq_code fix_queue(struct fix *f, const char *name, const char *json);
enum dlq_code fix_send(struct fix *f, const char *queue, const char *body, char id[ULID_LEN + 1]);
void receive_init(struct engine_op *op, struct fix *f, const char *queue, int64_t wait);
int fix_receive(struct fix *f, const char *queue, char receipt[RECEIPT_LEN + 1]);
struct engine_settle_item fix_settle(struct fix *f, const char *queue, const char *receipt, enum outcome outcome);
int64_t fix_dead_count(struct fix *f, const char *queue);
/* A dead letter with more to look for; empty parts are left out. */
struct fix_dead {
	const char *body, *headers, *key, *type, *message;
};
void fix_dead_with(struct fix *f, const char *queue, const struct fix_dead *d, char dlq_id[ULID_LEN + 1]);
struct store_counts fix_counts(struct fix *f, const char *queue);
/* How many audit rows have the action; of the newest one its detail. */
int fix_audited(struct fix *f, const char *action, char detail[600]);
void fix_restart(struct fix *f);
/* argv[1] is "jq-child": this program runs as jq's child (jq/jq_child.h) and the result is its exit code; else -1. */
int fix_jq_child(int argc, char **argv);
void fix_make_dead(struct fix *f, const char *queue, int n, char dlq_id[ULID_LEN + 1]);

#endif
