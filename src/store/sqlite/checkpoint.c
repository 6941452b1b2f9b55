/*
 * Writing the WAL back into the file, out of every caller's way: a thread with its own connection copies the bulk while
 * the writer goes on; then the writer copies the short tail, after which its next commit starts the WAL from its
 * beginning. Readers that overlap without a pause could keep the WAL from ever starting over: above two bulks a gate
 * makes new ones wait, for a bounded time, until it has.
 */
#include <errno.h>
#include <time.h>

#include "store/sqlite/internal.h"

#define CHECKPOINT_PAGES 2000
#define GATE_WAIT_MS 250
#define GATE_QUIET_MS 20 /* no commit for so long: nothing grows, and readers are in nobody's way */

static int wal_hook(void *arg, sqlite3 *db, const char *name, int pages)
{
	struct sq_store *s = arg;
	(void)db, (void)name;
	s->wal_pages = pages;
	return SQLITE_OK;
}

/* A checkpoint that finds the disk full or somebody reading is made up for by a later one; damage is not. */
static int lasting(int rc)
{
	int kind = rc & 0xff;
	return kind == SQLITE_OK || kind == SQLITE_BUSY || kind == SQLITE_LOCKED || kind == SQLITE_FULL ||
	               kind == SQLITE_NOMEM
	           ? SQLITE_OK
	           : rc;
}

static void *thread_main(void *arg)
{
	struct sq_store *s = arg;
	pthread_mutex_lock(&s->ck_lock);
	while (!s->ck_stop) {
		if (!s->ck_request) {
			pthread_cond_wait(&s->ck_wake, &s->ck_lock);
			continue;
		}
		s->ck_request = false;
		pthread_mutex_unlock(&s->ck_lock);
		int rc = sqlite3_wal_checkpoint_v2(s->ck.db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
		bool full = (rc & 0xff) == SQLITE_IOERR && sqlite3_system_errno(s->ck.db) == ENOSPC;
		pthread_mutex_lock(&s->ck_lock);
		if (!full && lasting(rc))
			s->ck_rc = rc;
		s->ck_busy = false;
		s->ck_done = true;
	}
	pthread_mutex_unlock(&s->ck_lock);
	return NULL;
}

bool checkpoint_start(struct sq_store *s)
{
	sqlite3_wal_hook(s->w.db, wal_hook, s);
	conn_open(&s->ck, s->path, SQLITE_OPEN_READWRITE, NULL);
	conn_exec(&s->ck, s->no_sync ? "PRAGMA synchronous=OFF" : "PRAGMA synchronous=FULL");
	conn_exec(&s->ck, "PRAGMA cache_size=-64; PRAGMA wal_autocheckpoint=0");
	/* Makes it see the WAL: a connection that has never read takes nothing back. */
	conn_exec(&s->ck, "SELECT count(*) FROM sqlite_schema");
	if (s->ck.rc)
		return false;
	int rc = pthread_create(&s->ck_thread, NULL, thread_main, s);
	if (rc) {
		s->ck.rc = SQLITE_NOMEM;
		snprintf(s->ck.msg, sizeof(s->ck.msg), "no thread for the checkpoints: %s", strerror(rc));
	}
	s->ck_started = !rc;
	return s->ck_started;
}

void checkpoint_stop(struct sq_store *s)
{
	if (s->ck_started) {
		pthread_mutex_lock(&s->ck_lock);
		s->ck_stop = true;
		pthread_cond_signal(&s->ck_wake);
		pthread_mutex_unlock(&s->ck_lock);
		pthread_join(s->ck_thread, NULL);
		s->ck_started = false;
	}
	conn_close(&s->ck);
}

static int64_t mono_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void checkpoint_after_commit(struct sq_store *s)
{
	pthread_mutex_lock(&s->ck_lock);
	s->commit_ms = mono_ms();
	s->writer = pthread_self();
	bool closed = s->wal_pages > 2 * CHECKPOINT_PAGES || (s->gate_closed && s->wal_pages >= CHECKPOINT_PAGES);
	if (s->gate_closed && !closed)
		pthread_cond_broadcast(&s->gate_open);
	s->gate_closed = closed;
	if (s->wal_pages >= CHECKPOINT_PAGES && !s->ck_busy && !s->ck_done) {
		s->ck_busy = s->ck_request = true;
		pthread_cond_signal(&s->ck_wake);
	}
	pthread_mutex_unlock(&s->ck_lock);
}

void sq_maintain(struct store *store)
{
	struct sq_store *s = sq(store);
	ASSERT(!s->in_tx);
	pthread_mutex_lock(&s->ck_lock);
	bool tail = s->ck_done;
	s->ck_done = false;
	pthread_mutex_unlock(&s->ck_lock);
	if (!tail)
		return;
	int rc = sqlite3_wal_checkpoint_v2(s->w.db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
	if (lasting(rc) && sqlite3_system_errno(s->w.db) != ENOSPC) {
		pthread_mutex_lock(&s->ck_lock);
		s->ck_rc = rc;
		pthread_mutex_unlock(&s->ck_lock);
	}
}

void wal_gate_wait(struct sq_store *s)
{
	int64_t limit = mono_ms() + GATE_WAIT_MS;
	pthread_mutex_lock(&s->ck_lock);
	/* The writer must not wait for itself when it reads inside its transaction. */
	while (s->gate_closed && !pthread_equal(s->writer, pthread_self())) {
		int64_t now = mono_ms(), quiet = s->commit_ms + GATE_QUIET_MS, until = quiet < limit ? quiet : limit;
		if (now >= quiet) {
			s->gate_closed = false; /* the next commit closes it again if it must */
			pthread_cond_broadcast(&s->gate_open);
		}
		if (now >= until)
			break;
		struct timespec ts = {.tv_sec = until / 1000, .tv_nsec = until % 1000 * 1000000};
		pthread_cond_timedwait(&s->gate_open, &s->ck_lock, &ts);
	}
	pthread_mutex_unlock(&s->ck_lock);
}
