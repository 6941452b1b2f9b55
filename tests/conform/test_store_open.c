/* Opening: what is refused and what it says; the format kept from before. Of the SQLite store. */
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib_store.h"

static char *in_dir(struct world *w, const char *name)
{
	return (char *)arena_fmt(&w->a, "%s/%s", w->dir, name).p;
}

static void sql(struct world *w, const char *text)
{
	sqlite3 *db;
	assert_int_equal(sqlite3_open(in_dir(w, "dlq.db"), &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
}

static enum dlq_code open_code(struct world *w)
{
	struct store *s = NULL;
	struct store_options o = {.dir = w->dir, .clock = w->clock, .no_sync = true};
	w->err.detail[0] = '\0';
	enum dlq_code c = w->ops->open(&o, &s, &w->err);
	if (!c)
		w->ops->close(s);
	else
		assert_null(s);
	return c;
}

static int bare_new(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	snprintf(w->dir, sizeof(w->dir), "/tmp/dlq-open-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	w->ops = store_backend("sqlite");
	w->clock = clock_manual_new(T0);
	*state = w;
	return 0;
}

static int bare_free(void **state)
{
	struct world *w = *state;
	clock_free(w->clock);
	arena_release(&w->a);
	folder_remove(w->dir);
	free(w);
	return 0;
}

static void test_second_opener_is_kept_out(void **state)
{
	struct world *w = *state;
	EXPECT(w, DLQ_STORE_LOCKED, open_code(w));
	assert_non_null(strstr(w->err.detail, w->dir));
	world_reopen(w);
}

/* Ends at once; its number is free then. */
static pid_t gone_pid(void)
{
	pid_t pid = fork();
	if (!pid)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	return pid;
}

/* A server that was killed while it started a child: for a moment the child still has the lock. */
static void test_lock_of_a_killed_server(void **state)
{
	struct world *w = *state;
	EXPECT(w, DLQ_OK, open_code(w));
	int fd = open(in_dir(w, "dlq.lock"), O_RDWR | O_TRUNC);
	assert_true(fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB));
	assert_true(dprintf(fd, "%ld\n", (long)gone_pid()) > 0);
	pid_t child = fork();
	if (!child) {
		usleep(200000);
		_exit(0);
	}
	close(fd);
	EXPECT(w, DLQ_OK, open_code(w));
	assert_int_equal(waitpid(child, NULL, 0), child);
}

static void test_newer_format(void **state)
{
	struct world *w = *state;
	EXPECT(w, DLQ_OK, open_code(w));
	sql(w, "PRAGMA user_version=999");
	EXPECT(w, DLQ_STORE_NEWER, open_code(w));
	assert_non_null(strstr(w->err.detail, "999"));
}

static void test_foreign_database(void **state)
{
	struct world *w = *state;
	sql(w, "CREATE TABLE t(x)");
	EXPECT(w, DLQ_STORE_CORRUPT, open_code(w));
	assert_non_null(strstr(w->err.detail, "not one of dlq"));
}

static void test_not_a_database(void **state)
{
	struct world *w = *state;
	FILE *f = fopen(in_dir(w, "dlq.db"), "w");
	for (int i = 0; i < 1000; i++)
		fputs("this is not a database ", f);
	fclose(f);
	EXPECT(w, DLQ_STORE_CORRUPT, open_code(w));
}

static void test_damaged_database(void **state)
{
	struct world *w = *state;
	char junk[4096];
	EXPECT(w, DLQ_OK, open_code(w));
	memset(junk, 0x5a, sizeof(junk));
	int fd = open(in_dir(w, "dlq.db"), O_WRONLY);
	for (int page = 3; page < 12; page++)
		assert_int_equal(pwrite(fd, junk, sizeof(junk), page * 4096L), sizeof(junk));
	close(fd);
	EXPECT(w, DLQ_STORE_CORRUPT, open_code(w));
	assert_non_null(strstr(w->err.detail, "backup"));
}

static void test_folder_that_cannot_be_made(void **state)
{
	struct world *w = *state;
	struct store *s;
	struct store_options o = {.dir = "/proc/nothing/here", .clock = w->clock};
	EXPECT(w, DLQ_SYSTEM, w->ops->open(&o, &s, &w->err));
	assert_non_null(strstr(w->err.detail, "/proc/nothing/here"));
}

static void test_files_are_private(void **state)
{
	struct world *w = *state;
	struct stat st;
	assert_int_equal(stat(in_dir(w, "dlq.db"), &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
}

static void test_no_such_backend(void **state)
{
	(void)state;
	assert_null(store_backend("punched cards"));
}

/* ---- kept files: tests/fixtures/v1.db, v2.db, v3.db, each written by `conform_test_store_open --write FILE` of its time ---- */

static int64_t dead_of_key(struct world *w, const char *key, uint8_t fp)
{
	struct store_delivery d;
	int64_t seq = send_key(w, key, "grouped");
	assert_true(claim_one(w, &d));
	assert_int_equal(d.seq, seq);
	kill_as(w, &d, fp, "worker-2", "2.0");
	return seq;
}

/* What format 3 brought: an edit of headers, another destination, a plan half picked, given up, imported. */
static void fixture_fill_3(struct world *w)
{
	struct store_delivery d;
	struct str headers = STR("{\"tenant\":\"new\"}"), body = STR("staged");
	int64_t q = w->q, seqs[3];
	begin(w);
	int64_t to = make_queue(w, "to", false), from = make_queue(w, "from", false);
	w->q = from;
	for (int i = 0; i < 3; i++)
		seqs[i] = dead_with(w, "{\"tenant\":\"old\"}", "E3", "three");
	struct store_put_back p = {.operator = STR("ann"), .why = STR("go"), .headers = &headers, .due = T0 + 90000, .to_queue_id = to, .max_redrives = 3};
	OK(w, w->ops->redrive_one(w->s, seqs[0], &p, &w->err));
	OK(w, w->ops->give_up_one(w->s, seqs[1], 0, STR("bob"), STR("hopeless"), &w->err));
	struct store_redrive r = {.action = ACTION_REDRIVE, .plan = STR("{\"queue\":\"from\"}"), .queue = STR("from"), .operator = STR("ann"),
	                          .to_queue_id = to, .to_queue = STR("to"), .override_limit = true};
	OK(w, w->ops->redrive_create(w->s, &r, NULL, 0, &w->err));
	commit(w);
	struct store_redrive_pick pick = {.seq = seqs[2], .died_no = read_dead(w, seqs[2]).died_no, .edit_tried = true, .body = &body};
	struct store_import in = {.queue_id = from, .retention_due = T0 + 500000, .body = STR("came in"),
	                          .d = {.dlq_id = "01ARZ3NDEKTSV4RRFFQ69G5FAV", .id = STR("in-1"), .headers = STR("{\"tenant\":\"in\"}"), .reason = REASON_REJECTED}};
	begin(w);
	OK(w, w->ops->redrive_pick(w->s, r.n, &pick, 1, 1, pick.died_no, &w->err));
	OK(w, w->ops->import_one(w->s, &in, &w->err));
	assert_false(claim_one(w, &d));
	commit(w);
	w->q = q;
}

static void fixture_fill(struct world *w)
{
	struct store_delivery d;
	char id[ULID_LEN + 1];
	struct store_send named = {.id = STR("order-1"),
	                           .key = STR("a"),
	                           .content_type = STR("text/plain"),
	                           .headers = STR("{\"h\":\"1\"}"),
	                           .body = STR("named"),
	                           .due = T0,
	                           .expires = T0 + 999999,
	                           .dedup_until = T0 + 500000};
	struct store_token t = {
	    .name = STR("ci"), .role = ROLE_OPERATOR, .queues = STR("[\"q\"]"), .created_at_ms = T0};
	struct store_audit a = {
	    .at_ms = T0, .operator = STR("ann"), .action = STR("redrive.start"), .outcome = STR("ok")};
	struct str edited = STR("better");
	int64_t token_id;
	begin(w);
	int64_t x = dead_one(w, "", "discarded");
	OK(w, w->ops->discard_one(w->s, x, 0, STR("ann"), STR("junk"), &w->err));
	x = dead_one(w, "", "redriven");
	OK(w, put_back(w, x, NULL, &edited));
	assert_true(claim_one(w, &d));
	OK(w, done(w, &d));
	dead_one(w, "z", "dead");
	send_key(w, "z", "held behind the dead one");
	send_body(w, "leased");
	assert_true(claim_one(w, &d));
	send_body(w, "retrying");
	assert_true(claim_one(w, &d));
	OK(w, fail_retry(w, &d, T0 + 60000));
	OK(w, w->ops->send(w->s, w->q, 0, 0, &named, 1, &w->err));
	send_body(w, "done");
	clock_advance(w->clock, 1);
	for (int i = 0; i < 2; i++) {
		assert_true(claim_one(w, &d));
		if (str_eqz(d.body, "done"))
			OK(w, done(w, &d));
		else
			kill_it(w, &d, id);
	}
	OK(w, w->ops->token_add(w->s, &t, &token_id, &w->err));
	OK(w, w->ops->audit_add(w->s, &a, &w->err));
	OK(w, w->ops->meta_set(w->s, "cursor", STR("here"), &w->err));
	commit(w);
	clock_advance(w->clock, 10);
	begin(w);
	int64_t g = dead_of_key(w, "g1", 1);
	dead_of_key(w, "g2", 2);
	struct store_group one = {0}, two = {0};
	const uint8_t fp1[16] = {1, 1, 2}, fp2[16] = {2, 1, 2};
	OK(w, w->ops->group_get(w->s, fp1, &w->a, &one, &w->err));
	OK(w, w->ops->group_get(w->s, fp2, &w->a, &two, &w->err));
	one.status = GROUP_RESOLVED;
	one.note = STR("fixed in 2.1");
	OK(w, w->ops->group_set(w->s, &one, &w->err));
	two.merged_into = one.group_id;
	OK(w, w->ops->group_set(w->s, &two, &w->err));
	struct store_redrive r = {.group_id = one.group_id, .queue = STR("q"), .operator = STR("ann"), .guard = {.first = 1, .rate = 2.5}};
	int64_t seqs[2];
	int n;
	OK(w, w->ops->redrive_create(w->s, &r, NULL, 0, &w->err));
	OK(w, w->ops->redrive_next(w->s, r.n, 1, seqs, &n, &w->err));
	assert_true(n == 1 && seqs[0] == g);
	struct store_put_back later = {.redrive_n = r.n, .redrive_id = str_of(r.redrive_id), .operator = STR("ann"), .why = STR("go"),
	                               .due = T0 + 90000, .max_redrives = -1};
	OK(w, w->ops->redrive_one(w->s, g, &later, &w->err));
	r.state = REDRIVE_HALTED;
	r.halted_why = STR("by hand");
	OK(w, w->ops->redrive_mark(w->s, r.n, 1, 0, REDRIVE_HALTED, &w->err));
	OK(w, w->ops->redrive_state(w->s, &r, &w->err));
	commit(w);
	fixture_fill_3(w);
}

static void copy_file(const char *from, const char *to)
{
	char buf[65536];
	FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
	size_t n;
	if (!in || !out)
		fail_msg("%s cannot be copied to %s", from, to);
	while ((n = fread(buf, 1, sizeof(buf), in)))
		assert_int_equal(fwrite(buf, 1, n, out), n);
	fclose(in);
	fclose(out);
}

static void fixture_copy(struct world *w, const char *name)
{
	const char *source = getenv("DLQ_SOURCE");
	assert_non_null(source);
	copy_file((char *)arena_fmt(&w->a, "%s/tests/fixtures/%s", source, name).p, in_dir(w, "dlq.db"));
}

static void fixture_open(struct world *w, const char *name)
{
	struct store_options o = {.dir = w->dir, .clock = w->clock, .no_sync = true};
	struct store_queue q;
	if (name)
		fixture_copy(w, name);
	OK(w, w->ops->open(&o, &w->s, &w->err));
	OK(w, w->ops->reader_open(w->s, &w->r, &w->err));
	OK(w, w->ops->read_queue(w->r, STR("q"), &w->a, &q, &w->err));
	w->q = q.queue_id;
}

static int with_header(struct world *w, const char *name, const char *value, int64_t *seqs)
{
	struct store_header h = {str_of(name), str_of(value)};
	struct store_dead_filter f = {.state = -1, .reason = -1, .limit = 10, .headers = &h, .n_headers = 1};
	return list_seqs(w, f, seqs, 10);
}

static void test_format_3_opens(void **state)
{
	struct world *w = *state;
	struct store_queue from, to;
	struct store_redrive r;
	struct store_redrive_item *items;
	struct store_delivery d;
	int64_t next, seqs[10], got[10];
	int n;
	fixture_open(w, "v3.db");
	OK(w, w->ops->read_queue(w->r, STR("from"), &w->a, &from, &w->err));
	OK(w, w->ops->read_queue(w->r, STR("to"), &w->a, &to, &w->err));
	assert_true(from.counts.dead == 2 && from.counts.redriving == 1 && from.counts.archived == 1 && from.counts.imported == 1);
	assert_true(to.counts.ready == 1 && to.counts.bytes == 5);
	assert_int_equal(with_header(w, "tenant", "old", seqs), 2);
	assert_true(read_dead(w, seqs[1]).state == DEAD_ARCHIVED && str_eqz(read_dead(w, seqs[1]).why, "hopeless"));
	assert_int_equal(with_header(w, "tenant", "new", got), 1);
	assert_true(str_eqz(read_dead(w, got[0]).edited_headers, "{\"tenant\":\"new\"}"));
	assert_int_equal(with_header(w, "tenant", "in", got), 1);
	assert_true(str_eqz(read_dead(w, got[0]).imported_id, "01ARZ3NDEKTSV4RRFFQ69G5FAV"));
	OK(w, w->ops->read_redrive(w->r, 2, &w->a, &r, &w->err));
	assert_true(str_eqz(r.plan, "{\"queue\":\"from\"}") && r.plan_next > 0 && r.total == 1 && r.changed == 1 && r.override_limit);
	OK(w, w->ops->read_redrive_items(w->r, 2, 0, 10, &w->a, &items, &n, &next, &w->err));
	assert_true(n == 1 && items[0].seq == seqs[0] && items[0].state == ITEM_SELECTED);
	begin(w);
	EXPECT(w, DLQ_IN_REDRIVE, put_back(w, seqs[0], NULL, NULL));
	OK(w, w->ops->redrive_pick(w->s, r.n, NULL, 0, 3, 0, &w->err));
	OK(w, w->ops->redrive_next(w->s, r.n, 10, got, &n, &w->err));
	assert_true(n == 1 && got[0] == seqs[0]);
	struct store_put_back p = {.redrive_n = r.n, .redrive_id = str_of(r.redrive_id), .to_queue_id = r.to_queue_id, .due = T0, .max_redrives = -1};
	OK(w, w->ops->redrive_one(w->s, seqs[0], &p, &w->err));
	OK(w, w->ops->redrive_mark(w->s, r.n, 1, 0, REDRIVE_DONE, &w->err));
	w->q = to.queue_id;
	assert_true(claim_one(w, &d) && str_eqz(d.body, "staged") && str_eqz(d.headers, "{\"tenant\":\"old\"}"));
	OK(w, done(w, &d));
	commit(w);
	world_close(w);
	store_check("sqlite", w->dir);
}

static void test_format_2_opens(void **state)
{
	struct world *w = *state;
	const uint8_t fp[16] = {1, 1, 2};
	struct store_group g, *merged;
	struct store_redrive r;
	struct store_redrive_item *items;
	struct store_group_worker *workers;
	struct store_bucket *b;
	struct store_audit *audit;
	struct store_dead_filter f = {.state = -1, .reason = -1, .limit = 10};
	struct store_dead_page p;
	struct store_attempt *at;
	int64_t next;
	int n;
	fixture_open(w, "v2.db");
	OK(w, w->ops->read_group(w->r, fp, &w->a, &g, &w->err));
	assert_true(g.status == GROUP_RESOLVED && str_eqz(g.note, "fixed in 2.1") && g.merged == 1);
	assert_true(g.dead == 1 && g.redriving == 1 && g.deaths == 2 && g.failures == 2);
	OK(w, w->ops->read_group_merged(w->r, g.group_id, &w->a, &merged, &n, &w->err));
	assert_true(n == 1 && merged[0].fp[0] == 2);
	OK(w, w->ops->read_group_workers(w->r, g.group_id, &w->a, &workers, &n, &w->err));
	assert_true(n == 1 && str_eqz(workers[0].worker, "worker-2") && str_eqz(workers[0].version, "2.0") && workers[0].failures == 2);
	OK(w, w->ops->read_buckets(w->r, w->q, g.group_id, 60000, T0 - 60000, T0 + 60000, &w->a, &b, &n, &w->err));
	assert_true(n == 1 && b[0].failures == 2 && b[0].deaths == 2);
	f.group_id = g.group_id;
	OK(w, w->ops->read_dead_list(w->r, &f, &w->a, &p, &w->err));
	assert_true(p.n == 2 && p.items[0].group_fp[0] == 2 && p.items[1].state == DEAD_REDRIVING);
	OK(w, w->ops->read_attempts(w->r, p.items[0].seq, 5, &w->a, &at, &n, &w->err));
	assert_true(n == 1 && str_eqz(at[0].worker_version, "2.0"));
	OK(w, w->ops->read_redrive(w->r, 1, &w->a, &r, &w->err));
	assert_true(r.state == REDRIVE_HALTED && r.total == 2 && r.sent == 1 && str_eqz(r.halted_why, "by hand") && r.guard.first == 1);
	OK(w, w->ops->read_redrive_items(w->r, 1, 0, 10, &w->a, &items, &n, &next, &w->err));
	assert_true(n == 1 && items[0].state == ITEM_SENT);
	OK(w, w->ops->read_audit_after(w->r, 0, 10, &w->a, &audit, &n, &w->err));
	assert_true(n == 1 && audit[0].hash[0] + audit[0].hash[1] + audit[0].hash[2] > 0);
	int64_t seqs[10];
	assert_int_equal(with_header(w, "h", "1", seqs), 1);
	assert_true(str_eqz(read_dead(w, seqs[0]).id, "order-1"));
	f = (struct store_dead_filter){.state = -1, .reason = -1, .limit = 10, .redrive_n = 1};
	assert_int_equal(list_seqs(w, f, seqs, 10), 1);
	struct str text, type;
	f = (struct store_dead_filter){.state = DEAD_REDRIVEN, .reason = -1, .limit = 10, .text = STR("better")};
	assert_int_equal(list_seqs(w, f, seqs, 10), 1);
	OK(w, w->ops->read_body(w->r, seqs[0], true, &w->a, &text, &type, &w->err));
	assert_true(str_eqz(text, "redriven") && read_dead(w, seqs[0]).edited && !read_dead(w, seqs[0]).edited_headers.n);
	world_close(w);
	store_check("sqlite", w->dir);
}

/* A redrive of chosen ones that was paused: the queues it has some of are known after the step to format 3. */
static void test_format_2_with_chosen_ones(void **state)
{
	struct world *w = *state;
	fixture_copy(w, "v2.db");
	sql(w, "INSERT INTO redrive(n,queue_id,state,until_no,cursor_no,total,sent,skipped,succeeded,failed_again,started_at,ended_at)"
	       " VALUES(9,0,1,2,1,2,0,1,0,0,1800000000000,0);"
	       "INSERT INTO redrive_item(redrive_n,ord,seq,first_died_at) SELECT 9,row_number() OVER (ORDER BY died_no),seq,first_died_at FROM dead"
	       " WHERE state=0 ORDER BY died_no LIMIT 2; UPDATE redrive SET state=3,cancelled=1 WHERE n=1");
	fixture_open(w, NULL);
	struct store_redrive whole = {.queue_id = w->q, .queue = STR("q")};
	int64_t seqs[4];
	int n;
	begin(w);
	EXPECT(w, DLQ_IN_REDRIVE, w->ops->redrive_create(w->s, &whole, NULL, 0, &w->err));
	OK(w, w->ops->redrive_next(w->s, 9, 4, seqs, &n, &w->err));
	assert_int_equal(n, 1);
	OK(w, w->ops->redrive_create(w->s, &whole, NULL, 0, &w->err));
	commit(w);
	world_close(w);
	store_check("sqlite", w->dir);
}

static void test_format_1_opens(void **state)
{
	struct world *w = *state;
	struct store_delivery d;
	struct store_queue q;
	struct store_token *t;
	struct str text, type;
	int n;
	fixture_open(w, "v1.db");
	OK(w, w->ops->read_queue(w->r, STR("q"), &w->a, &q, &w->err));
	assert_true(q.ordered);
	assert_int_equal(q.counts.sent, 8);
	assert_int_equal(q.counts.ready, 1);
	assert_int_equal(q.counts.held, 1);
	assert_int_equal(q.counts.leased, 1);
	assert_int_equal(q.counts.dead, 2);
	assert_int_equal(q.counts.redriven, 1);
	assert_int_equal(q.counts.discarded, 1);
	struct store_dead_filter f = {.state = -1, .reason = -1, .limit = 10};
	struct store_dead_page p;
	OK(w, w->ops->read_dead_list(w->r, &f, &w->a, &p, &w->err));
	assert_int_equal(p.n, 4);
	assert_true(str_eqz(p.items[0].id, "order-1") && str_eqz(p.items[0].headers, "{\"h\":\"1\"}"));
	assert_int_equal(p.items[2].state, DEAD_REDRIVEN);
	assert_int_equal(p.items[0].group_id, 0); /* from before there were groups */
	int64_t seqs[10];
	assert_true(with_header(w, "h", "1", seqs) == 1 && seqs[0] == p.items[0].seq); /* nor an index of headers */
	f.error_type = STR("BadInput");
	assert_int_equal(list_seqs(w, f, seqs, 10), 4);
	struct store_group_filter gf = {.limit = 10};
	struct store_group_page groups;
	OK(w, w->ops->read_groups(w->r, &gf, &w->a, &groups, &w->err));
	assert_int_equal(groups.n, 0);
	struct store_audit *audit, row = {.at_ms = T0, .operator = STR("bob"), .action = STR("x"), .outcome = STR("ok")};
	static const uint8_t no_link[32];
	OK(w, w->ops->read_body(w->r, p.items[2].seq, false, &w->a, &text, &type, &w->err));
	assert_true(str_eqz(text, "better"));
	OK(w, w->ops->read_body(w->r, p.items[2].seq, true, &w->a, &text, &type, &w->err));
	assert_true(str_eqz(text, "redriven"));
	begin(w);
	OK(w, w->ops->token_load(w->s, &w->a, &t, &n, &w->err));
	assert_int_equal(n, 1);
	assert_true(str_eqz(t[0].name, "ci") && str_eqz(t[0].queues, "[\"q\"]"));
	OK(w, w->ops->meta_get(w->s, "cursor", &w->a, &text, &w->err));
	assert_true(str_eqz(text, "here"));
	struct store_send again = {.id = STR("order-1"), .body = STR("x"), .dedup_until = T0 + 1};
	OK(w, w->ops->send(w->s, w->q, 0, 0, &again, 1, &w->err));
	assert_true(again.duplicate);
	clock_advance(w->clock, 60000);
	assert_true(claim_one(w, &d) && str_eqz(d.body, "retrying"));
	assert_int_equal(d.attempts, 1);
	OK(w, done(w, &d));
	OK(w, w->ops->discard_one(w->s, p.items[1].seq, 0, STR("a"), STR("b"), &w->err));
	assert_true(claim_one(w, &d) && str_eqz(d.body, "held behind the dead one"));
	OK(w, w->ops->audit_add(w->s, &row, &w->err));
	commit(w);
	/* The chain begins with a row that says so; the row from before has no link. */
	OK(w, w->ops->read_audit_after(w->r, 0, 10, &w->a, &audit, &n, &w->err));
	assert_int_equal(n, 3);
	assert_memory_equal(audit[0].hash, no_link, sizeof(no_link));
	assert_true(str_eqz(audit[0].operator, "ann") && str_eqz(audit[1].action, "audit.chain") && str_eqz(audit[2].operator, "bob"));
	assert_memory_not_equal(audit[1].hash, no_link, sizeof(no_link));
	assert_memory_not_equal(audit[2].hash, no_link, sizeof(no_link));
	world_close(w);
	store_check("sqlite", w->dir);
}

static int fixture_write(const char *file)
{
	void *state;
	world_new_ordered(&state);
	struct world *w = state;
	fixture_fill(w);
	world_close(w);
	copy_file(in_dir(w, "dlq.db"), file);
	store_check("sqlite", w->dir);
	folder_remove(w->dir);
	return 0;
}

int main(int argc, char **argv)
{
#define BARE(f) cmocka_unit_test_setup_teardown(f, bare_new, bare_free)
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_second_opener_is_kept_out, world_new, world_free),
	    cmocka_unit_test_setup_teardown(test_files_are_private, world_new, world_free),
	    BARE(test_lock_of_a_killed_server),
	    BARE(test_newer_format),
	    BARE(test_foreign_database),
	    BARE(test_not_a_database),
	    BARE(test_damaged_database),
	    BARE(test_folder_that_cannot_be_made),
	    BARE(test_format_1_opens),
	    BARE(test_format_2_opens),
	    BARE(test_format_2_with_chosen_ones),
	    BARE(test_format_3_opens),
	    cmocka_unit_test(test_no_such_backend),
	};
	if (argc == 3 && !strcmp(argv[1], "--write"))
		return fixture_write(argv[2]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
