#include "lib_store.h"

#include <dirent.h>
#include <unistd.h>

const char *const world_backends[] = {"sqlite", NULL};

void folder_remove(const char *dir)
{
	char path[400];
	DIR *d = opendir(dir);
	for (struct dirent *e; d && (e = readdir(d));) {
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		unlink(path);
	}
	if (d)
		closedir(d);
	rmdir(dir);
}

void expect_code(struct world *w, enum dlq_code want, enum dlq_code got, const char *call, const char *file, int line)
{
	if (got == want)
		return;
	print_error("%s:%d: %s: %s expected, got %s (%s)\n", file, line, call, code_name(want), code_name(got),
	            w->err.detail);
	_fail(file, line);
}

static void world_open(struct world *w)
{
	struct store_options o = {.dir = w->dir, .clock = w->clock, .no_sync = true};
	OK(w, w->ops->open(&o, &w->s, &w->err));
	clock_floor(w->clock, w->ops->high_water_ms(w->s));
	OK(w, w->ops->reader_open(w->s, &w->r, &w->err));
}

void world_close(struct world *w)
{
	w->ops->reader_close(w->r);
	w->ops->close(w->s);
	w->r = NULL;
	w->s = NULL;
}

void world_reopen(struct world *w)
{
	world_close(w);
	store_check(w->ops->name, w->dir);
	world_open(w);
}

static int world_make(void **state, bool ordered)
{
	struct world *w = calloc(1, sizeof(*w));
	snprintf(w->dir, sizeof(w->dir), "/tmp/dlq-conform-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	w->ops = store_backend(world_backends[0]);
	assert_non_null(w->ops);
	w->clock = clock_manual_new(T0);
	world_open(w);
	begin(w);
	OK(w, w->ops->queue_create(w->s, STR("q"), STR("{}"), ordered, &w->q, &w->err));
	commit(w);
	*state = w;
	return 0;
}

int world_new(void **state)
{
	return world_make(state, false);
}

int world_new_ordered(void **state)
{
	return world_make(state, true);
}

int world_free(void **state)
{
	struct world *w = *state;
	world_close(w);
	store_check(w->ops->name, w->dir);
	clock_free(w->clock);
	arena_release(&w->a);
	folder_remove(w->dir);
	free(w);
	return 0;
}

void begin(struct world *w)
{
	OK(w, w->ops->begin(w->s, &w->err));
}

void commit(struct world *w)
{
	OK(w, w->ops->commit(w->s, &w->err));
}

int64_t make_queue(struct world *w, const char *name, bool ordered)
{
	int64_t q;
	OK(w, w->ops->queue_create(w->s, str_of(name), STR("{}"), ordered, &q, &w->err));
	return q;
}

const struct store_counts *counts_of(struct world *w, int64_t q)
{
	return w->ops->queue_counts(w->s, q);
}

int64_t send_with(struct world *w, const char *key, const char *headers, const char *body)
{
	struct store_send m = {.key = str_of(key), .headers = str_of(headers), .body = str_of(body), .due = clock_now_ms(w->clock)};
	OK(w, w->ops->send(w->s, w->q, 0, 0, &m, 1, &w->err));
	assert_int_equal(m.code, DLQ_OK);
	assert_true(m.seq > 0);
	return m.seq;
}

int64_t send_key(struct world *w, const char *key, const char *body)
{
	return send_with(w, key, "", body);
}

int64_t send_body(struct world *w, const char *body)
{
	return send_key(w, "", body);
}

bool claim_one(struct world *w, struct store_delivery *d)
{
	int64_t now = clock_now_ms(w->clock), nonce = ++w->nonce;
	int n = 0;
	OK(w, w->ops->claim(w->s, w->q, now, now + 30000, STR("worker-1"), &nonce, 1, &w->a, d, &n, &w->err));
	return n == 1;
}

enum dlq_code done(struct world *w, const struct store_delivery *d)
{
	bool unheld;
	return w->ops->done(w->s, w->q, d->seq, d->nonce, &unheld, &w->err);
}

enum dlq_code fail_retry(struct world *w, const struct store_delivery *d, int64_t due)
{
	struct store_lease l;
	enum dlq_code c = w->ops->lease_get(w->s, w->q, d->seq, d->nonce, &w->a, &l, &w->err);
	struct store_attempt at = {.n = d->attempts + 1,
	                           .redrive = d->redrives,
	                           .at_ms = clock_wall_ms(w->clock),
	                           .outcome = 1,
	                           .error_type = STR("Timeout"),
	                           .message = STR("slow"),
	                           .detail = STR("trace"),
	                           .worker = STR("worker-1"),
	                           .http_status = 503,
	                           .exit_code = -1,
	                           .retry_at_ms = due};
	return c ? c : w->ops->retry(w->s, &l, &at, l.lease_expirations, due, 1000, &w->err);
}

void kill_it(struct world *w, const struct store_delivery *d, char dlq_id[ULID_LEN + 1])
{
	struct store_lease l;
	OK(w, w->ops->lease_get(w->s, w->q, d->seq, d->nonce, &w->a, &l, &w->err));
	struct store_attempt at = {.n = d->attempts + 1,
	                           .redrive = d->redrives,
	                           .at_ms = clock_wall_ms(w->clock),
	                           .outcome = 2,
	                           .error_type = STR("BadInput"),
	                           .message = STR("no such order"),
	                           .worker = STR("worker-1"),
	                           .exit_code = 65};
	OK(w, w->ops->bury(w->s, &l, &at, 0, REASON_PERMANENT, clock_now_ms(w->clock) + 100000, true, false, dlq_id, &w->err));
}

enum dlq_code put_back(struct world *w, int64_t seq, const struct store_redrive *r, const struct str *body)
{
	struct store_put_back p = {.redrive_n = r ? r->n : 0,
	                           .redrive_id = r ? str_of(r->redrive_id) : STR(""),
	                           .operator = STR("ann"),
	                           .why = STR("r"),
	                           .body = body,
	                           .due = clock_now_ms(w->clock),
	                           .max_redrives = -1};
	return w->ops->redrive_one(w->s, seq, &p, &w->err);
}

int64_t dead_one(struct world *w, const char *key, const char *body)
{
	struct store_delivery d;
	char id[ULID_LEN + 1];
	int64_t seq = send_key(w, key, body);
	assert_true(claim_one(w, &d));
	assert_int_equal(d.seq, seq);
	kill_it(w, &d, id);
	return seq;
}

int64_t dead_with(struct world *w, const char *headers, const char *error_type, const char *body)
{
	struct store_delivery d;
	struct store_lease l;
	char id[ULID_LEN + 1];
	int64_t seq = send_with(w, "", headers, body);
	assert_true(claim_one(w, &d));
	assert_int_equal(d.seq, seq);
	OK(w, w->ops->lease_get(w->s, w->q, d.seq, d.nonce, &w->a, &l, &w->err));
	struct store_attempt at = {.n = 1, .at_ms = clock_wall_ms(w->clock), .outcome = 2, .error_type = str_of(error_type), .exit_code = -1};
	OK(w, w->ops->bury(w->s, &l, &at, 0, REASON_PERMANENT, clock_now_ms(w->clock) + 100000, false, false, id, &w->err));
	return seq;
}

int list_seqs(struct world *w, struct store_dead_filter f, int64_t *seqs, int max)
{
	struct store_dead_page p;
	int64_t last = INT64_MAX;
	int total = 0;
	for (int guard = 0; guard < 1000; guard++) {
		OK(w, w->ops->read_dead_list(w->r, &f, &w->a, &p, &w->err));
		assert_true(p.n <= f.limit);
		for (int i = 0; i < p.n; i++) {
			assert_true(p.items[i].died_no < last && total < max);
			last = p.items[i].died_no;
			seqs[total++] = p.items[i].seq;
		}
		if (!p.next_no)
			return total;
		assert_true(!f.before_no || p.next_no < f.before_no);
		f.before_no = p.next_no;
	}
	fail_msg("the pages do not end");
	return -1;
}

void kill_as(struct world *w, const struct store_delivery *d, uint8_t fp, const char *worker, const char *version)
{
	struct store_lease l;
	char id[ULID_LEN + 1];
	struct store_group_key key = {.fp = {fp, 1, 2},
	                              .version = 3,
	                              .rules = 5,
	                              .error_type = STR("BadInput"),
	                              .normal = STR("no such order <n>"),
	                              .sample = STR("no such order 7")};
	OK(w, w->ops->lease_get(w->s, w->q, d->seq, d->nonce, &w->a, &l, &w->err));
	struct store_attempt at = {.group = &key,
	                           .worker_version = str_of(version),
	                           .n = d->attempts + 1,
	                           .redrive = d->redrives,
	                           .at_ms = clock_wall_ms(w->clock),
	                           .outcome = 2,
	                           .error_type = STR("BadInput"),
	                           .message = STR("no such order 7"),
	                           .worker = str_of(worker),
	                           .exit_code = -1};
	OK(w, w->ops->bury(w->s, &l, &at, 0, REASON_PERMANENT, clock_now_ms(w->clock) + 100000, false, false, id, &w->err));
}

int64_t dead_of(struct world *w, uint8_t fp, const char *worker, const char *version)
{
	struct store_delivery d;
	int64_t seq = send_body(w, "x");
	assert_true(claim_one(w, &d));
	assert_int_equal(d.seq, seq);
	kill_as(w, &d, fp, worker, version);
	return seq;
}

const struct store_counts *counts(struct world *w)
{
	return w->ops->queue_counts(w->s, w->q);
}

struct store_dead read_dead(struct world *w, int64_t seq)
{
	struct store_dead d = {0};
	OK(w, w->ops->read_dead(w->r, seq, &w->a, &d, &w->err));
	return d;
}
