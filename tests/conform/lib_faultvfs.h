/* lib_faultvfs.h - a file layer for SQLite that fails the n-th change of a file. */
#ifndef CONFORM_LIB_FAULTVFS_H
#define CONFORM_LIB_FAULTVFS_H

#include <stdbool.h>

/* Becomes the default layer of the process; call once, before any store is opened. */
void faultvfs_install(void);
/* The n-th write, sync or truncate from now on gives rc (an SQLite code) and errno; sticky: and all after it. 0: none.
 */
void faultvfs_arm(int n, int rc, int sys_errno, bool sticky);
bool faultvfs_fired(void);

#endif
