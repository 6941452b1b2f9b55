/*
 * orders.c - libdlq in one page: a program that sends orders, works them, lets dlq retry what may heal and quarantine
 * what will not, shows the dead letter with its evidence, and puts it back once the fault is mended.
 *
 *     ./orders [DATA-FOLDER]     (default: a new folder below /tmp, removed at the end)
 */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dlq/dlq.h"

static struct dlq_err err;

static void must(enum dlq_code code, const char *what)
{
	if (code == DLQ_OK)
		return;
	fprintf(stderr, "orders: %s: %s: %s\n", what, dlq_code_name(code), err.detail);
	exit(1);
}

static void send(struct dlq *d, const char *id, const char *body)
{
	struct dlq_message m = {.id = id, .content_type = "application/json", .body = body, .body_len = strlen(body)};
	bool duplicate = false;
	must(dlq_send(d, "orders", &m, NULL, &duplicate, &err), "send");
	printf("sent       %s%s\n", id, duplicate ? " (again: stored once)" : "");
}

/* The work itself: what an order handler of yours would do. fixed: the bug in it was mended. */
static struct dlq_settle work(const struct dlq_delivery *m, bool fixed)
{
	if (!strcmp(m->id, "order-2") && m->attempts == 0)
		return (struct dlq_settle){.outcome = DLQ_OUTCOME_TRANSIENT,
		                           .error_type = "Timeout",
		                           .error_message = "the payment service is slow"};
	if (!strcmp(m->id, "order-3") && !fixed)
		return (struct dlq_settle){.outcome = DLQ_OUTCOME_PERMANENT,
		                           .error_type = "ValidationError",
		                           .error_message = "quantity is negative"};
	return (struct dlq_settle){.outcome = DLQ_OUTCOME_OK};
}

/* Works until nothing has come for half a second. Returns how many succeeded. */
static int work_all(struct dlq *d, bool fixed)
{
	static const char *const words[] = {"ok", "transient", "permanent", "release"};
	int done = 0;
	for (;;) {
		struct dlq_delivery *m;
		char dlq_id[27];
		must(dlq_receive(d, "orders", "example", 500, 0, &m, &err), "receive");
		if (!m)
			return done;
		struct dlq_settle s = work(m, fixed);
		must(dlq_settle(d, "orders", m->receipt, &s, dlq_id, &err), "settle");
		printf("worked     %s: %s%s%s\n", m->id, words[s.outcome], dlq_id[0] ? ", quarantined as " : "",
		       dlq_id);
		done += s.outcome == DLQ_OUTCOME_OK;
		dlq_delivery_free(m);
	}
}

static bool show(const char *dlq_id, const char *json, void *arg)
{
	int *count = arg;
	(void)dlq_id;
	printf("dead       %s\n", json);
	++*count;
	return true;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

int main(int argc, char **argv)
{
	char temp[] = "/tmp/dlq-orders-XXXXXX";
	struct dlq_options options = {.dir = argc > 1 ? argv[1] : mkdtemp(temp)};
	struct dlq *d;
	int dead = 0;
	int64_t count = 0;

	must(dlq_open(&options, &d, &err), "open");
	must(dlq_queue_put(d, "orders", "{\"policy\": {\"max_attempts\": 3, \"backoff\": [\"100ms\"]}}", &err),
	     "queue");
	send(d, "order-1", "{\"item\": \"tea\", \"quantity\": 2}");
	send(d, "order-2", "{\"item\": \"cups\", \"quantity\": 6}");
	send(d, "order-3", "{\"item\": \"pot\", \"quantity\": -1}");
	send(d, "order-1", "{\"item\": \"tea\", \"quantity\": 2}");

	int done = work_all(d, false);
	must(dlq_dead_letters(d, "orders", 10, show, &dead, &err), "list");
	must(dlq_redrive(d, "orders", NULL, 0, "example", "the handler was mended", &count, &err), "redrive");
	printf("redriven   %lld\n", (long long)count);
	done += work_all(d, true);
	dlq_close(d);

	if (argc < 2)
		nftw(temp, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	bool good = done == 3 && dead == 1 && count == 1;
	printf("%d orders done, %d was quarantined and put back: %s\n", done, dead,
	       good ? "as it should be" : "NOT as it should be");
	return good ? 0 : 1;
}
