/* Opening: what is refused and what it says; the format kept from before. Of the SQLite store. */
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
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

/* ---- the kept file of format 1: tests/fixtures/v1.db, written by `conform_test_store_open --write FILE` ---- */

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
	OK(w, w->ops->discard_one(w->s, x, STR("ann"), STR("junk"), &w->err));
	x = dead_one(w, "", "redriven");
	OK(w, w->ops->redrive_one(w->s, x, 0, STR(""), &edited, STR("ann"), STR("fixed"), T0, &w->err));
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

static void test_format_1_opens(void **state)
{
	struct world *w = *state;
	const char *source = getenv("DLQ_SOURCE");
	struct store_options o = {.dir = w->dir, .clock = w->clock, .no_sync = true};
	struct store_delivery d;
	struct store_queue q;
	struct store_token *t;
	struct str text, type;
	int n;
	assert_non_null(source);
	copy_file((char *)arena_fmt(&w->a, "%s/tests/fixtures/v1.db", source).p, in_dir(w, "dlq.db"));
	OK(w, w->ops->open(&o, &w->s, &w->err));
	OK(w, w->ops->reader_open(w->s, &w->r, &w->err));
	OK(w, w->ops->read_queue(w->r, STR("q"), &w->a, &q, &w->err));
	w->q = q.queue_id;
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
	OK(w, w->ops->discard_one(w->s, p.items[1].seq, STR("a"), STR("b"), &w->err));
	assert_true(claim_one(w, &d) && str_eqz(d.body, "held behind the dead one"));
	commit(w);
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
	    BARE(test_newer_format),
	    BARE(test_foreign_database),
	    BARE(test_not_a_database),
	    BARE(test_damaged_database),
	    BARE(test_folder_that_cannot_be_made),
	    BARE(test_format_1_opens),
	    cmocka_unit_test(test_no_such_backend),
	};
	if (argc == 3 && !strcmp(argv[1], "--write"))
		return fixture_write(argv[2]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
