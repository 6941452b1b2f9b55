/* GET /metrics: Prometheus text. Queue names need no escaping (their rule). */
#include <string.h>

#include "http/http.h"

#define QUEUES_MAX 1000

struct gauge {
	const char *name, *type, *help, *label; /* label: ready="..." inside the braces, or NULL */
	size_t offset;                          /* into struct store_counts */
};
#define AT(field) offsetof(struct store_counts, field)

/* Grouped by name: the text format wants all samples of one together. */
static const struct gauge gauges[] = {
	{"dlq_queue_messages", "gauge", "Messages by state", "ready", AT(ready)},
	{"dlq_queue_messages", NULL, NULL, "held", AT(held)},
	{"dlq_queue_messages", NULL, NULL, "leased", AT(leased)},
	{"dlq_queue_messages", NULL, NULL, "dead", AT(dead)},
	{"dlq_queue_messages", NULL, NULL, "redriving", AT(redriving)},
	{"dlq_queue_retrying", "gauge", "Ready messages that have failed before", NULL, AT(retrying)},
	{"dlq_queue_bytes", "gauge", "Payload bytes of live messages", NULL, AT(bytes)},
	{"dlq_queue_sent_total", "counter", "Messages taken in", NULL, AT(sent)},
	{"dlq_queue_done_total", "counter", "Messages done", NULL, AT(done)},
	{"dlq_queue_failed_attempts_total", "counter", "Failed deliveries", NULL, AT(failed_attempts)},
	{"dlq_queue_died_total", "counter", "Messages that became dead letters", NULL, AT(died)},
	{"dlq_queue_redriven_total", "counter", "Dead letters put back", NULL, AT(redriven)},
	{"dlq_queue_discarded_total", "counter", "Dead letters discarded", NULL, AT(discarded)},
	{"dlq_queue_archived_total", "counter", "Dead letters archived", NULL, AT(archived)},
	{"dlq_queue_duplicates_total", "counter", "Repeated sends that were not stored again", NULL, AT(duplicates)},
	{"dlq_queue_imported_total", "counter", "Dead letters imported", NULL, AT(imported)},
};

static void one(struct buf *b, const char *name, const char *type, const char *help, int64_t v)
{
	buf_addf(b, "# HELP %s %s\n# TYPE %s %s\n%s %lld\n", name, help, name, type, name, (long long)v);
}

static void count_next(struct http_req *r);

static void counted(struct http_req *r)
{
	r->u.expiring->n += r->op.u.read_expiring.n;
	engine_op_release(&r->op);
	count_next(r);
}

static void count_next(struct http_req *r)
{
	struct expiring *x = r->u.expiring;
	if (!x->n_queues) {
		x->then(r);
		return;
	}
	memset(&r->op.u, 0, sizeof r->op.u);
	r->op.queue = x->queues[--x->n_queues];
	r->op.u.read_expiring.within_ms = r->s->lim.expires_soon_ms;
	request_submit(r, OP_READ_EXPIRING, counted);
}

void expiring_count(struct http_req *r, void *user, void (*then)(struct http_req *r))
{
	struct expiring *x = arena_alloc(&r->arena, sizeof *x);
	int n = r->op.u.read_queues.n;
	x->then = then;
	x->user = user;
	x->queues = arena_alloc(&r->arena, (size_t)(n + 1) * sizeof *x->queues);
	bool limited = auth_limited(r);
	if (!limited)
		x->queues[x->n_queues++] = STR(""); /* all at once */
	for (int i = 0; i < n && limited; i++) {
		const struct store_queue *q = &r->op.u.read_queues.items[i];
		if (q->counts.dead && auth_may(r, q->name))
			x->queues[x->n_queues++] = arena_str(&r->arena, q->name);
	}
	r->u.expiring = x;
	engine_op_release(&r->op);
	count_next(r);
}

static void queue_figures(struct http_req *r, struct buf *b)
{
	for (size_t g = 0; g < ARRAY_LEN(gauges); g++) {
		const struct gauge *m = &gauges[g];
		if (m->type)
			buf_addf(b, "# HELP %s %s\n# TYPE %s %s\n", m->name, m->help, m->name, m->type);
		for (int i = 0; i < r->op.u.read_queues.n; i++) {
			const struct store_queue *q = &r->op.u.read_queues.items[i];
			int64_t v;
			if (!auth_may(r, q->name))
				continue;
			memcpy(&v, (const char *)&q->counts + m->offset, sizeof v);
			buf_addf(b, "%s{queue=\"" STR_FMT "\"", m->name, STR_ARG(q->name));
			if (m->label)
				buf_addf(b, ",state=\"%s\"", m->label);
			buf_addf(b, "} %lld\n", (long long)v);
		}
	}
}

static void expiring_known(struct http_req *r)
{
	one(&r->out, "dlq_expires_soon", "gauge", "Dead letters whose retention ends within limits.expires_soon", r->u.expiring->n);
	answer_bytes(r, 200, "text/plain; version=0.0.4; charset=utf-8");
}

static void metrics_done(struct http_req *r)
{
	struct http_server *s = r->s;
	struct engine_status st;
	struct buf *b = &r->out;
	engine_status(s->e, &st);
	buf_clear(b);
	buf_addf(b, "# HELP dlq_info The version\n# TYPE dlq_info gauge\ndlq_info{version=\"%s\"} 1\n", s->version);
	one(b, "dlq_ready", "gauge", "Whether durable work is taken", st.ready);
	one(b, "dlq_waiting_operations", "gauge", "Operations that wait for a commit", st.waiting_ops);
	one(b, "dlq_waiting_bytes", "gauge", "Input bytes that wait for a commit", st.waiting_bytes);
	one(b, "dlq_parked_receives", "gauge", "Long polls that wait for a message", st.parked_receives);
	one(b, "dlq_commits_total", "counter", "Synced commits", st.commits);
	one(b, "dlq_operations_total", "counter", "Operations in commits", st.committed_ops);
	one(b, "dlq_last_commit_microseconds", "gauge", "How long the last commit took", st.last_commit_us);
	one(b, "dlq_max_commit_microseconds", "gauge", "How long the slowest commit took", st.max_commit_us);
	one(b, "dlq_http_connections", "gauge", "Open connections", atomic_load(&s->stats.connections));
	one(b, "dlq_http_connection_timeouts_total", "counter", "Connections closed for being idle or slow", atomic_load(&s->stats.timeouts));
	buf_addz(b, "# HELP dlq_http_responses_total Answers by class\n# TYPE dlq_http_responses_total counter\n");
	for (int i = 2; i < 6; i++)
		buf_addf(b, "dlq_http_responses_total{class=\"%dxx\"} %ld\n", i, atomic_load(&s->stats.by_class[i]));
	queue_figures(r, b);
	expiring_count(r, NULL, expiring_known);
}

void api_metrics(struct http_req *r)
{
	memset(&r->op.u, 0, sizeof r->op.u);
	r->op.queue = STR("");
	r->op.u.read_queues.limit = QUEUES_MAX;
	request_submit(r, OP_READ_QUEUES, metrics_done);
}
