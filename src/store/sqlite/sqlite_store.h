/* sqlite_store.h - the SQLite store as the registry sees it. */
#ifndef STORE_SQLITE_STORE_H
#define STORE_SQLITE_STORE_H

#include "store/store.h"

extern const struct store_ops sqlite_store_ops;

#endif
