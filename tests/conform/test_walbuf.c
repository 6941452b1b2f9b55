/* The VFS that gathers the frames of a commit: what it holds back is seen by everybody who may see it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/sqlite/internal.h"

#define ROWS 3000 /* some 3 MiB of pages: many times what is gathered */

static char dir[] = "/tmp/dlq-walbuf-XXXXXX", path[64], wal_path[64];

static void run(struct conn *c, const char *sql)
{
	bool ok = conn_exec(c, sql);
	if (!ok)
		fail_msg("%s: %s", sql, c->msg);
}

static int64_t number(struct conn *c, const char *sql)
{
	sqlite3_stmt *st = NULL;
	assert_int_equal(sqlite3_prepare_v2(c->db, sql, -1, &st, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(st), SQLITE_ROW);
	int64_t v = sqlite3_column_int64(st, 0);
	sqlite3_finalize(st);
	return v;
}

static int64_t wal_size(void)
{
	struct stat st;
	return stat(wal_path, &st) ? -1 : (int64_t)st.st_size;
}

static void insert(struct conn *c, int n)
{
	char sql[200];
	snprintf(sql, sizeof(sql),
	         "WITH RECURSIVE i(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM i WHERE x<%d)"
	         " INSERT INTO t(body) SELECT zeroblob(1000) FROM i", n);
	run(c, sql);
}

static void writer_open(struct conn *c)
{
	conn_open(c, path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, WALBUF_VFS);
	assert_true(walbuf_fits(c));
	run(c, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0; PRAGMA cache_size=20");
}

static int setup(void **state)
{
	(void)state;
	static bool once;
	if (!once) {
		walbuf_register();
		assert_non_null(mkdtemp(dir));
		snprintf(path, sizeof(path), "%s/t.db", dir);
		snprintf(wal_path, sizeof(wal_path), "%s/t.db-wal", dir);
		once = true;
	}
	unlink(path);
	unlink(wal_path);
	return 0;
}

/* A small commit, the largest single write and much more than it: another connection reads all of it at once. */
static void committed_is_seen(void **state)
{
	static const int sizes[] = {1, 90, 93, 96, 124, ROWS};
	struct conn w = {0}, r = {0};
	int64_t rows = 0;
	(void)state;
	writer_open(&w);
	run(&w, "CREATE TABLE t(n INTEGER PRIMARY KEY, body BLOB)");
	conn_open(&r, path, SQLITE_OPEN_READONLY, NULL);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		insert(&w, sizes[i]);
		rows += sizes[i];
		assert_int_equal(number(&r, "SELECT count(*) FROM t WHERE length(body)=1000"), rows);
	}
	assert_int_equal(number(&r, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check='ok'"), 1);
	conn_close(&r);
	conn_close(&w);
}

/* Pages that leave a small cache before the commit are read and written again by the same transaction. */
static void own_frames_are_read_back(void **state)
{
	struct conn w = {0}, r = {0};
	(void)state;
	writer_open(&w);
	run(&w, "CREATE TABLE t(n INTEGER PRIMARY KEY, body BLOB)");
	conn_open(&r, path, SQLITE_OPEN_READONLY, NULL);
	run(&w, "BEGIN");
	insert(&w, ROWS);
	assert_int_equal(number(&w, "SELECT count(*) FROM t WHERE length(body)=1000"), ROWS);
	run(&w, "UPDATE t SET body=zeroblob(999) WHERE n%2");
	assert_int_equal(number(&w, "SELECT count(*) FROM t WHERE length(body)=999"), ROWS / 2);
	assert_int_equal(number(&r, "SELECT count(*) FROM t"), 0);
	run(&w, "COMMIT");
	assert_int_equal(number(&r, "SELECT count(*) FROM t WHERE length(body)=999"), ROWS / 2);
	assert_int_equal(number(&r, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check='ok'"), 1);
	conn_close(&r);
	conn_close(&w);
}

/* What a rollback leaves in the buffer does no harm to the next commit, nor to the WAL's next beginning. */
static void rollback_and_restart(void **state)
{
	struct conn w = {0}, r = {0};
	(void)state;
	writer_open(&w);
	run(&w, "CREATE TABLE t(n INTEGER PRIMARY KEY, body BLOB)");
	for (int i = 0; i < 3; i++) {
		run(&w, "BEGIN");
		insert(&w, 400);
		run(&w, "ROLLBACK");
		insert(&w, 10);
		run(&w, "PRAGMA wal_checkpoint(RESTART)");
	}
	assert_true(wal_size() > 0);
	conn_open(&r, path, SQLITE_OPEN_READONLY, NULL);
	assert_int_equal(number(&r, "SELECT count(*) FROM t WHERE length(body)=1000"), 30);
	assert_int_equal(number(&r, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check='ok'"), 1);
	conn_close(&r);
	conn_close(&w);
	assert_int_equal(wal_size(), -1); /* the last one to close wrote all back */
	writer_open(&w);
	assert_int_equal(number(&w, "SELECT count(*) FROM t"), 30);
	conn_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(committed_is_seen, setup),
		cmocka_unit_test_setup(own_frames_are_read_back, setup),
		cmocka_unit_test_setup(rollback_and_restart, setup),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	rmdir(dir);
	return failed;
}
