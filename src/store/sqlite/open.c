/* Opening and closing: one process per data folder, one known format, forward only. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "store/sqlite/internal.h"

#define LEFT_OVER_TRIES 50 /* how often, and how long apart, a lock is tried whose process has gone */
#define LEFT_OVER_MS 20

#define QUICK_CHECK_BYTES ((int64_t)32 << 20) /* a larger file is not read as a whole at every start */
#define CACHE_DEFAULT ((int64_t)16 << 20)

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Refused when the program around us has used SQLite before: then its settings stand. */
static void configure_once(void)
{
	sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
	sqlite3_config(SQLITE_CONFIG_MULTITHREAD);
	walbuf_register();
}

static enum dlq_code folder_make(const char *dir, struct dlq_err *err)
{
	char *path = mem_strdup(str_of(dir));
	enum dlq_code c = DLQ_OK;
	for (char *p = path + 1; !c && *path; p++) {
		char was = *p;
		if (was && was != '/')
			continue;
		*p = '\0';
		if (mkdir(path, 0700) && errno != EEXIST)
			c = err_set(err, DLQ_SYSTEM, "the data folder %s cannot be made: %s: %s", dir, path,
			            strerror(errno));
		*p = was;
		if (!was)
			break;
	}
	mem_free(path);
	return c;
}

static char *path_in(const char *dir, const char *name)
{
	struct buf b = {0};
	buf_addf(&b, "%s/%s", dir, name);
	return buf_take(&b, NULL);
}

/*
 * A server that was killed while it started a child leaves the lock to that child until it runs its own program: a moment.
 * So a lock whose process has gone is tried again; pid: who has it.
 */
static bool lock_try(int fd, char *pid, size_t size)
{
	for (int i = 0; flock(fd, LOCK_EX | LOCK_NB); i++) {
		ssize_t n = pread(fd, pid, size - 1, 0);
		pid[n > 0 ? n : 0] = '\0';
		long holder = strtol(pid, NULL, 10);
		bool gone = holder > 0 && kill((pid_t)holder, 0) && errno == ESRCH;
		if (!gone || i == LEFT_OVER_TRIES)
			return false;
		nanosleep(&(struct timespec){.tv_nsec = LEFT_OVER_MS * 1000000L}, NULL);
	}
	return true;
}

/* flock and not fcntl: it also keeps out a second store in this process, and closing another descriptor does not end
 * it. */
static enum dlq_code lock_take(struct sq_store *s, struct dlq_err *err)
{
	char *path = path_in(s->dir, "dlq.lock"), pid[32] = "";
	enum dlq_code c = DLQ_OK;
	s->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (s->lock_fd < 0) {
		c = errno == ENOSPC || errno == EDQUOT ? DLQ_STORE_FULL : DLQ_SYSTEM;
		err_set(err, c,
		        "%s cannot be opened: %s: make the data folder writable for this user, or free some space",
		        path, strerror(errno));
	} else if (!lock_try(s->lock_fd, pid, sizeof(pid))) {
		c = err_set(err, DLQ_STORE_LOCKED,
		            "%s: another server has this data folder open%s%.*s: stop it or use another folder", path,
		            pid[0] ? ", process " : "", (int)strcspn(pid, "\n"), pid);
	} else {
		int n = snprintf(pid, sizeof(pid), "%ld\n", (long)getpid());
		/* For people only: the lock is what counts. */
		if (ftruncate(s->lock_fd, 0) == 0 && write(s->lock_fd, pid, (size_t)n) != n)
			pid[0] = '\0';
	}
	mem_free(path);
	return c;
}

static int64_t pragma_int(struct conn *c, const char *sql)
{
	sqlite3_stmt *st = NULL;
	int64_t v = 0;
	if (c->rc)
		return 0;
	int rc = sqlite3_prepare_v2(c->db, sql, -1, &st, NULL);
	if (!rc && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		v = sqlite3_column_int64(st, 0);
		rc = SQLITE_OK;
	}
	if (rc && rc != SQLITE_DONE)
		conn_fault(c, rc);
	sqlite3_finalize(st);
	return v;
}

/* Empty text: the file is sound as far as it was looked at. */
static void quick_check(struct conn *c, char *text, size_t n)
{
	sqlite3_stmt *st = NULL;
	text[0] = '\0';
	if (sqlite3_prepare_v2(c->db, "PRAGMA quick_check(1)", -1, &st, NULL) == SQLITE_OK &&
	    sqlite3_step(st) == SQLITE_ROW) {
		const char *says = (const char *)sqlite3_column_text(st, 0);
		if (says && strcmp(says, "ok"))
			snprintf(text, n, "%s", says);
	} else {
		snprintf(text, n, "%s", sqlite3_errmsg(c->db));
	}
	sqlite3_finalize(st);
}

static enum dlq_code format_check(struct sq_store *s, int *version, struct dlq_err *err)
{
	int64_t app = pragma_int(&s->w, "PRAGMA application_id"),
	        objects = pragma_int(&s->w, "SELECT count(*) FROM sqlite_schema");
	*version = (int)pragma_int(&s->w, "PRAGMA user_version");
	enum dlq_code c = conn_code(&s->w, err);
	if (c)
		return c;
	if (!objects && !app && !*version)
		return DLQ_OK; /* new */
	if (app != SQLITE_STORE_APP_ID || *version < 1)
		return err_set(err, DLQ_STORE_CORRUPT,
		               "%s is an SQLite database, but not one of dlq: move it away or use another data folder",
		               s->path);
	if (*version > sqlite_schema_version)
		return err_set(err, DLQ_STORE_NEWER,
		               "%s has format %d, this dlq knows up to %d: use the dlq that wrote it, or a newer one",
		               s->path, *version, sqlite_schema_version);
	struct stat st;
	char says[200];
	if (stat(s->path, &st) == 0 && st.st_size <= QUICK_CHECK_BYTES) {
		quick_check(&s->w, says, sizeof(says));
		if (says[0])
			return err_set(err, DLQ_STORE_CORRUPT,
			               "%s is damaged: %s: keep the file and restore it from a backup", s->path, says);
	}
	return DLQ_OK;
}

/* The file comes into being for this user alone; SQLite gives its WAL the same mode. */
static enum dlq_code file_make(const char *path, struct dlq_err *err)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0) {
		enum dlq_code c = errno == ENOSPC || errno == EDQUOT ? DLQ_STORE_FULL : DLQ_SYSTEM;
		return err_set(err, c, "%s cannot be opened: %s: make it writable for this user, or free some space",
		               path, strerror(errno));
	}
	close(fd);
	return DLQ_OK;
}

/* Without a sync there is no moment at which gathered frames must be out: then each goes by itself. */
static void writer_open(struct sq_store *s)
{
	conn_open(&s->w, s->path, SQLITE_OPEN_READWRITE, s->no_sync ? NULL : WALBUF_VFS);
	if (s->no_sync || s->w.rc || walbuf_fits(&s->w))
		return;
	conn_close(&s->w);
	conn_open(&s->w, s->path, SQLITE_OPEN_READWRITE, NULL);
}

static enum dlq_code database_open(struct sq_store *s, const struct store_options *o, struct dlq_err *err)
{
	char pragmas[400];
	int version = 0;
	enum dlq_code c = file_make(s->path, err);
	if (c)
		return c;
	snprintf(
	    pragmas, sizeof(pragmas),
	    "PRAGMA synchronous=%s; PRAGMA temp_store=MEMORY; PRAGMA wal_autocheckpoint=0; PRAGMA secure_delete=OFF;"
	    "PRAGMA foreign_keys=OFF; PRAGMA journal_size_limit=67108864; PRAGMA cache_size=-%lld",
	    o->no_sync ? "OFF" : "FULL", (long long)((o->cache_bytes > 0 ? o->cache_bytes : CACHE_DEFAULT) / 1024));
	writer_open(s);
	conn_exec(&s->w, "PRAGMA page_size=4096");
	c = format_check(s, &version, err);
	if (c)
		return c;
	conn_exec(&s->w, "PRAGMA journal_mode=WAL");
	conn_exec(&s->w, pragmas);
	if (version < sqlite_schema_version)
		migrate_run(&s->w, version);
	if (memory_load(s))
		checkpoint_start(s);
	c = conn_code(&s->w, err);
	return c ? c : conn_code(&s->ck, err);
}

static void store_free(struct sq_store *s)
{
	checkpoint_stop(s);
	if (s->w.db)
		conn_close(&s->w);
	if (s->lock_fd >= 0)
		close(s->lock_fd);
	memory_free(s);
	pthread_cond_destroy(&s->gate_open);
	pthread_cond_destroy(&s->ck_wake);
	pthread_mutex_destroy(&s->ck_lock);
	mem_free(s->dir);
	mem_free(s->path);
	mem_free(s);
}

enum dlq_code sq_open(const struct store_options *o, struct store **out, struct dlq_err *err)
{
	pthread_condattr_t monotonic;
	struct sq_store *s = mem_alloc(sizeof(*s));
	*out = NULL;
	pthread_once(&once, configure_once);
	s->base.ops = &sqlite_store_ops;
	s->clock = o->clock;
	s->no_sync = o->no_sync;
	s->lock_fd = -1;
	s->dir = mem_strdup(str_of(o->dir));
	s->path = path_in(o->dir, "dlq.db");
	pthread_mutex_init(&s->ck_lock, NULL);
	pthread_cond_init(&s->ck_wake, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&s->gate_open, &monotonic);
	pthread_condattr_destroy(&monotonic);
	enum dlq_code c = folder_make(s->dir, err);
	if (!c)
		c = lock_take(s, err);
	if (!c)
		c = database_open(s, o, err);
	if (c) {
		store_free(s);
		return c;
	}
	s->open_ok = true;
	*out = &s->base;
	return DLQ_OK;
}

void sq_close(struct store *store)
{
	struct sq_store *s = sq(store);
	struct dlq_err ignored = {0};
	if (!store)
		return;
	sq_rollback(store);
	/* Writes the high-water mark; a store that cannot be written any more loses at most the last second of it. */
	if (sq_probe(store, &ignored))
		conn_clear(&s->w);
	store_free(s);
}

int64_t sq_high_water_ms(struct store *store)
{
	return sq(store)->high_open;
}
