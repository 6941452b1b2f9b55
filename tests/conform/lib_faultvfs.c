#include "lib_faultvfs.h"

#include <errno.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stddef.h>
#include <string.h>

static sqlite3_vfs *real, shim;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int left, fault_rc, fault_errno;
static bool sticky_on, fired;

struct fault_file {
	sqlite3_file base;
	sqlite3_file *real; /* right behind this struct */
};

static sqlite3_file *inner(sqlite3_file *f)
{
	return ((struct fault_file *)f)->real;
}

static int fault(void)
{
	int rc = SQLITE_OK;
	pthread_mutex_lock(&lock);
	if (left > 0 && --left == 0) {
		fired = true;
		rc = fault_rc;
	} else if (fired && sticky_on) {
		rc = fault_rc;
	}
	if (rc)
		errno = fault_errno;
	pthread_mutex_unlock(&lock);
	return rc;
}

void faultvfs_arm(int n, int rc, int sys_errno, bool sticky)
{
	pthread_mutex_lock(&lock);
	left = n;
	fault_rc = rc;
	fault_errno = sys_errno;
	sticky_on = sticky;
	fired = false;
	pthread_mutex_unlock(&lock);
}

bool faultvfs_fired(void)
{
	pthread_mutex_lock(&lock);
	bool yes = fired;
	pthread_mutex_unlock(&lock);
	return yes;
}

static int f_close(sqlite3_file *f)
{
	return inner(f)->pMethods ? inner(f)->pMethods->xClose(inner(f)) : SQLITE_OK;
}
static int f_read(sqlite3_file *f, void *p, int n, sqlite3_int64 at)
{
	return inner(f)->pMethods->xRead(inner(f), p, n, at);
}

static int f_write(sqlite3_file *f, const void *p, int n, sqlite3_int64 at)
{
	int rc = fault();
	return rc ? rc : inner(f)->pMethods->xWrite(inner(f), p, n, at);
}

static int f_truncate(sqlite3_file *f, sqlite3_int64 n)
{
	int rc = fault();
	return rc ? rc : inner(f)->pMethods->xTruncate(inner(f), n);
}

static int f_sync(sqlite3_file *f, int flags)
{
	int rc = fault();
	return rc ? rc : inner(f)->pMethods->xSync(inner(f), flags);
}

static int f_size(sqlite3_file *f, sqlite3_int64 *n)
{
	return inner(f)->pMethods->xFileSize(inner(f), n);
}
static int f_lock(sqlite3_file *f, int how)
{
	return inner(f)->pMethods->xLock(inner(f), how);
}
static int f_unlock(sqlite3_file *f, int how)
{
	return inner(f)->pMethods->xUnlock(inner(f), how);
}
static int f_reserved(sqlite3_file *f, int *out)
{
	return inner(f)->pMethods->xCheckReservedLock(inner(f), out);
}
static int f_control(sqlite3_file *f, int op, void *arg)
{
	return inner(f)->pMethods->xFileControl(inner(f), op, arg);
}
static int f_sector(sqlite3_file *f)
{
	return inner(f)->pMethods->xSectorSize(inner(f));
}
static int f_traits(sqlite3_file *f)
{
	return inner(f)->pMethods->xDeviceCharacteristics(inner(f));
}
static int f_shm_map(sqlite3_file *f, int r, int n, int x, void volatile **p)
{
	return inner(f)->pMethods->xShmMap(inner(f), r, n, x, p);
}
static int f_shm_lock(sqlite3_file *f, int at, int n, int flags)
{
	return inner(f)->pMethods->xShmLock(inner(f), at, n, flags);
}
static void f_shm_barrier(sqlite3_file *f)
{
	inner(f)->pMethods->xShmBarrier(inner(f));
}
static int f_shm_unmap(sqlite3_file *f, int del)
{
	return inner(f)->pMethods->xShmUnmap(inner(f), del);
}

static const sqlite3_io_methods methods = {
    2,         f_close,  f_read,   f_write,   f_truncate, f_sync,        f_size,      f_lock, f_unlock, f_reserved,
    f_control, f_sector, f_traits, f_shm_map, f_shm_lock, f_shm_barrier, f_shm_unmap, NULL,   NULL,
};

static int v_open(sqlite3_vfs *v, const char *name, sqlite3_file *f, int flags, int *out)
{
	struct fault_file *ff = (struct fault_file *)f;
	(void)v;
	ff->real = (sqlite3_file *)(ff + 1);
	memset(ff->real, 0, (size_t)real->szOsFile);
	int rc = real->xOpen(real, name, ff->real, flags, out);
	f->pMethods = ff->real->pMethods ? &methods : NULL;
	return rc;
}

void faultvfs_install(void)
{
	real = sqlite3_vfs_find(NULL);
	shim = *real; /* the functions that take no file are the real one's; they find their own data in it */
	shim.zName = "fault";
	shim.szOsFile = (int)sizeof(struct fault_file) + real->szOsFile;
	shim.xOpen = v_open;
	sqlite3_vfs_register(&shim, 1);
}
