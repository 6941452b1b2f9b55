/*
 * The frames of a commit in one write. SQLite writes each frame of the WAL as 24 bytes and a page, two system calls of
 * a few microseconds; here they gather in memory and go out together right before the sync, or when something else
 * looks at the file through the same descriptor. Only for a connection with synchronous=FULL: other connections may
 * read a frame once the index of the WAL names it, and there SQLite syncs before it writes the index.
 *
 * A write that fails is reported by the call that caused it, at the latest by the sync of the commit, so the transaction
 * is lost and nothing of it promised. All of it on the thread that uses the connection.
 */
#include "store/sqlite/internal.h"

#define GATHER_MAX ((size_t)0x1ffff) /* the most that SQLite's unix VFS passes to one system call */

static sqlite3_vfs *real, shim;

struct wal_file {
	sqlite3_file base;
	char *buf; /* GATHER_MAX bytes */
	size_t n;
	sqlite3_int64 at; /* where buf belongs in the file */
	sqlite3_file *file; /* right behind this struct */
};

static struct wal_file *wal(sqlite3_file *f)
{
	return (struct wal_file *)f;
}

/* What could not be written is dropped: its transaction is rolled back and writes the same place again. */
static int flush(struct wal_file *w)
{
	int rc = w->n ? w->file->pMethods->xWrite(w->file, w->buf, (int)w->n, w->at) : SQLITE_OK;
	w->n = 0;
	return rc;
}

static int w_close(sqlite3_file *f)
{
	struct wal_file *w = wal(f);
	int rc = flush(w), closed = w->file->pMethods->xClose(w->file);
	mem_free(w->buf);
	w->buf = NULL;
	return rc ? rc : closed;
}

static int w_read(sqlite3_file *f, void *p, int n, sqlite3_int64 at)
{
	struct wal_file *w = wal(f);
	bool apart = at + n <= w->at || at >= w->at + (sqlite3_int64)w->n;
	int rc = apart ? SQLITE_OK : flush(w);
	return rc ? rc : w->file->pMethods->xRead(w->file, p, n, at);
}

static int w_write(sqlite3_file *f, const void *p, int n, sqlite3_int64 at)
{
	struct wal_file *w = wal(f);
	size_t len = (size_t)n;
	bool joins = w->n && at == w->at + (sqlite3_int64)w->n && w->n + len <= GATHER_MAX;
	int rc = joins ? SQLITE_OK : flush(w);
	if (rc)
		return rc;
	if (len > GATHER_MAX)
		return w->file->pMethods->xWrite(w->file, p, n, at);
	if (!w->n)
		w->at = at;
	memcpy(w->buf + w->n, p, len);
	w->n += len;
	return SQLITE_OK;
}

static int w_truncate(sqlite3_file *f, sqlite3_int64 n)
{
	int rc = flush(wal(f));
	return rc ? rc : wal(f)->file->pMethods->xTruncate(wal(f)->file, n);
}

static int w_sync(sqlite3_file *f, int flags)
{
	int rc = flush(wal(f));
	return rc ? rc : wal(f)->file->pMethods->xSync(wal(f)->file, flags);
}

static int w_size(sqlite3_file *f, sqlite3_int64 *n)
{
	int rc = flush(wal(f));
	return rc ? rc : wal(f)->file->pMethods->xFileSize(wal(f)->file, n);
}

static int w_lock(sqlite3_file *f, int how)
{
	return wal(f)->file->pMethods->xLock(wal(f)->file, how);
}

static int w_unlock(sqlite3_file *f, int how)
{
	return wal(f)->file->pMethods->xUnlock(wal(f)->file, how);
}

static int w_reserved(sqlite3_file *f, int *out)
{
	return wal(f)->file->pMethods->xCheckReservedLock(wal(f)->file, out);
}

static int w_control(sqlite3_file *f, int op, void *arg)
{
	return wal(f)->file->pMethods->xFileControl(wal(f)->file, op, arg);
}

static int w_sector(sqlite3_file *f)
{
	return wal(f)->file->pMethods->xSectorSize(wal(f)->file);
}

static int w_traits(sqlite3_file *f)
{
	return wal(f)->file->pMethods->xDeviceCharacteristics(wal(f)->file);
}

/* Version 1: the shared memory and the mapping belong to the database file, which is the real one. */
static const sqlite3_io_methods methods = {
    1,      w_close, w_read,     w_write,   w_truncate, w_sync,   w_size, w_lock, w_unlock, w_reserved,
    w_control, w_sector, w_traits, NULL, NULL, NULL, NULL, NULL, NULL,
};

static int v_open(sqlite3_vfs *v, const char *name, sqlite3_file *f, int flags, int *out)
{
	struct wal_file *w = wal(f);
	(void)v;
	if (!(flags & SQLITE_OPEN_WAL))
		return real->xOpen(real, name, f, flags, out);
	*w = (struct wal_file){.file = (sqlite3_file *)(w + 1)};
	memset(w->file, 0, (size_t)real->szOsFile);
	int rc = real->xOpen(real, name, w->file, flags, out);
	if (w->file->pMethods) {
		w->buf = mem_alloc(GATHER_MAX);
		w->base.pMethods = &methods;
	}
	return rc;
}

void walbuf_register(void)
{
	real = sqlite3_vfs_find(NULL);
	if (!real)
		return; /* no file can be opened then */
	shim = *real; /* the functions that take no file are the real one's; they find their own data in it */
	shim.pNext = NULL;
	shim.zName = WALBUF_VFS;
	shim.szOsFile = (int)sizeof(struct wal_file) + real->szOsFile;
	shim.xOpen = v_open;
	sqlite3_vfs_register(&shim, 0);
}

bool walbuf_fits(struct conn *c)
{
	int safe = -1;
	/* Without it SQLite pads a commit with frames that it writes after the sync. */
	return sqlite3_file_control(c->db, "main", SQLITE_FCNTL_POWERSAFE_OVERWRITE, &safe) == SQLITE_OK && safe == 1;
}
