/* demo_work.c - the shop of the demo: one producer, and workers that cannot encode some SKUs until these are repaired. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/demo.h"

#define SEND_BATCH 200
#define RECEIVE_MAX 8

bool demo_is_bad(const struct demo *d, int order)
{
	return (int64_t)order * d->bad / d->orders != (int64_t)(order - 1) * d->bad / d->orders;
}

static void failed(struct demo *d, const struct dlq_err *err)
{
	pthread_mutex_lock(&d->lock);
	if (!d->err.code)
		d->err = *err;
	pthread_mutex_unlock(&d->lock);
	atomic_store(&d->failed, true);
}

static void pause_us(int64_t us)
{
	struct timespec t = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};

	if (us > 0)
		nanosleep(&t, NULL);
}

void *demo_sender(void *arg)
{
	struct demo *d = arg;
	struct client *cl = client_clone(d->client);
	struct buf path = {0}, text = {0};
	struct dlq_err err = {0};

	buf_addf(&path, "/v1/queues/%s/batch", d->queue);
	buf_addc(&path, 0);
	for (int order = 1; order <= d->orders && !atomic_load(&d->stop);) {
		int n = 0;

		buf_clear(&text);
		for (; n < SEND_BATCH && order <= d->orders; n++, order++)
			buf_addf(&text,
				 "{\"content_type\":\"application/json\","
				 "\"body\":\"{\\\"order\\\":%d,\\\"sku\\\":\\\"AB%s%04d-X\\\"}\"}\n",
				 order, demo_is_bad(d, order) ? "%2F" : "-", (order * 7919 + 1994) % 10000);
		struct client_call call = {
			.method = "POST",
			.path = path.p,
			.body = buf_str(&text),
			.content_type = "application/x-ndjson",
		};
		enum dlq_code code = client_call(cl, &call, &err);
		if (!code && call.status != 201)
			code = err_set(&err, DLQ_INTERNAL, "the server refused some of the orders");
		client_call_clear(&call);
		if (code) {
			failed(d, &err);
			break;
		}
		atomic_fetch_add(&d->sent, n);
		pause_us(d->pace_us * n / DEMO_WORKERS / 2); /* twice as fast as the workers */
	}
	buf_release(&path);
	buf_release(&text);
	client_free(cl);
	return NULL;
}

static void remember(struct demo *d, int order, int64_t attempt, const char *message)
{
	pthread_mutex_lock(&d->lock);
	snprintf(d->recent[d->n_recent++ % DEMO_RECENT], sizeof(d->recent[0]),
		 "order %-5d attempt %lld  EncodeError: %s", order, (long long)attempt, message);
	pthread_mutex_unlock(&d->lock);
}

/* One order, as a worker of the shop does it: its result for settle. */
static json_t *handle(struct demo *d, const json_t *delivery)
{
	json_t *body = json_loads(jstr(delivery, "body"), 0, NULL);
	const char *sku = jstr(body, "sku");
	int order = (int)jint(body, "order");
	char message[120];
	json_t *result;

	pause_us(d->pace_us);
	if (strchr(sku, '%')) {
		snprintf(message, sizeof(message), "cannot encode SKU \"%s\": bad escape", sku);
		remember(d, order, jint(delivery, "attempts") + 1, message);
		result = json_pack(
			"{s:s, s:s, s:{s:s, s:s, s:s}}", "receipt", jstr(delivery, "receipt"), "outcome", "transient",
			"error", "type", "EncodeError", "message", message, "detail",
			"at encode_sku (labels.c:118)\nat print_label (labels.c:40)\nat handle_order (worker.c:77)");
	} else {
		if (order >= 1 && order <= d->orders)
			atomic_fetch_add(&d->done[order], 1);
		result = json_pack("{s:s, s:s}", "receipt", jstr(delivery, "receipt"), "outcome", "ok");
	}
	json_decref(body);
	return result;
}

static bool work_once(struct demo *d, struct client *cl, const char *receive, const char *settle, const char *name,
		      struct dlq_err *err)
{
	json_t *results = json_array(), *delivery, *answer;
	size_t i;

	answer = client_json(cl, "POST", receive,
			     json_pack("{s:i, s:s, s:s, s:s}", "max", RECEIVE_MAX, "wait", "200ms", "worker", name,
				       "visibility_timeout", "60s"),
			     err);
	json_array_foreach(json_object_get(answer, "deliveries"), i, delivery)
		json_array_append_new(results, handle(d, delivery));
	bool ok = answer != NULL;
	json_decref(answer);
	if (json_array_size(results)) {
		answer = client_json(cl, "POST", settle, json_pack("{s:s, s:O}", "worker", name, "results", results),
				     err);
		ok = answer != NULL;
		json_decref(answer);
	}
	json_decref(results);
	return ok;
}

void *demo_worker(void *arg)
{
	static atomic_int number;
	struct demo *d = arg;
	struct client *cl = client_clone(d->client);
	char receive[200], settle[200], name[32];
	struct dlq_err err = {0};

	snprintf(receive, sizeof(receive), "/v1/queues/%s/receive", d->queue);
	snprintf(settle, sizeof(settle), "/v1/queues/%s/settle", d->queue);
	snprintf(name, sizeof(name), "labels-%d", atomic_fetch_add(&number, 1) % DEMO_WORKERS + 1);
	while (!atomic_load(&d->stop))
		if (!work_once(d, cl, receive, settle, name, &err)) {
			failed(d, &err);
			break;
		}
	client_free(cl);
	return NULL;
}
