/* Connections and statements: binding, stepping, and what an error of SQLite means to dlq. */
#include "store/sqlite/internal.h"

#include <errno.h>

static const char *const texts[] = {
#define X(name, sql) sql,
    STATEMENTS(X)
#undef X
};

enum dlq_code conn_open(struct conn *c, const char *path, int flags, const char *vfs)
{
	int rc = sqlite3_open_v2(path, &c->db, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, vfs);
	if (rc)
		conn_fault(c, rc);
	else
		sqlite3_busy_timeout(c->db, 5000);
	return conn_code(c, NULL);
}

void conn_close(struct conn *c)
{
	for (int i = 0; i < Q_COUNT; i++) {
		sqlite3_finalize(c->st[i]);
		c->st[i] = NULL;
	}
	sqlite3_close(c->db);
	c->db = NULL;
}

void conn_clear(struct conn *c)
{
	c->rc = SQLITE_OK;
	c->sys_errno = 0;
	c->msg[0] = '\0';
}

void conn_fault(struct conn *c, int rc)
{
	if (c->rc)
		return;
	c->rc = rc;
	c->sys_errno = c->db ? sqlite3_system_errno(c->db) : errno;
	snprintf(c->msg, sizeof(c->msg), "%s", c->db ? sqlite3_errmsg(c->db) : sqlite3_errstr(rc));
}

bool conn_exec(struct conn *c, const char *sql)
{
	if (c->rc)
		return false;
	int rc = sqlite3_exec(c->db, sql, NULL, NULL, NULL);
	if (rc)
		conn_fault(c, rc);
	return !rc;
}

static enum dlq_code io_code(const struct conn *c, const char **todo)
{
	if (c->sys_errno == ENOSPC || c->sys_errno == EDQUOT) {
		*todo = "free some space; the server goes on by itself";
		return DLQ_STORE_FULL;
	}
	*todo = "check the disk and the system's log, then start the server again";
	return DLQ_STORE_FAILED;
}

static enum dlq_code code_of(const struct conn *c, const char **todo)
{
	switch (c->rc & 0xff) {
	case SQLITE_FULL:
		*todo = "free some space; the server goes on by itself";
		return DLQ_STORE_FULL;
	case SQLITE_IOERR:
		if (c->rc == SQLITE_IOERR_NOMEM)
			return *todo = "give the process more memory", DLQ_NO_MEMORY;
		return io_code(c, todo);
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		*todo = "stop the server, keep the files, and restore dlq.db from a backup";
		return DLQ_STORE_CORRUPT;
	case SQLITE_NOMEM:
		*todo = "give the process more memory";
		return DLQ_NO_MEMORY;
	case SQLITE_INTERRUPT:
		*todo = "ask for less: a queue, a state, a smaller page";
		return DLQ_TIMEOUT;
	case SQLITE_CANTOPEN:
	case SQLITE_READONLY:
	case SQLITE_PERM:
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
	case SQLITE_PROTOCOL:
		return io_code(c, todo);
	default:
		*todo = "report this";
		return DLQ_INTERNAL;
	}
}

enum dlq_code conn_code(struct conn *c, struct dlq_err *err)
{
	const char *todo;
	if (!c->rc)
		return DLQ_OK;
	enum dlq_code code = code_of(c, &todo);
	const char *file = c->db ? sqlite3_db_filename(c->db, "main") : NULL;
	return err_set(err, code, "%s: %s (SQLite error %d%s%s): %s", file && *file ? file : "store", c->msg, c->rc,
	               c->sys_errno ? ", " : "", c->sys_errno ? strerror(c->sys_errno) : "", todo);
}

/* A multi-row INSERT: rows of `columns` parameters each, after `shared` ones that all rows use. */
static char *bulk_text(enum statement q)
{
	struct buf b = {0};
	buf_addf(&b, "INSERT INTO %s VALUES", q == Q_BULK_PAYLOAD ? "payload" : q == Q_BULK_READY ? "ready" : "leased");
	for (int i = 0; i < BULK; i++) {
		const char *comma = i ? "," : "";
		int o = i * 7;
		if (q == Q_BULK_PAYLOAD) /* ?1 queue, ?2 received_at */
			buf_addf(&b, "%s(?%d,?1,?2,?%d,?%d,?%d,0,?%d,?%d,?%d)", comma, o + 3, o + 4, o + 5, o + 6,
			         o + 7, o + 8, o + 9);
		else if (q == Q_BULK_READY) /* ?1 queue */
			buf_addf(&b, "%s(?1,?%d,?%d,0,0,0,0)", comma, i * 2 + 2, i * 2 + 3);
		else /* ?1 queue, ?2 until, ?3 worker */
			buf_addf(&b, "%s(?%d,?1,?2,?%d,?%d,?%d,?%d,?%d,?%d,?3)", comma, o + 4, o + 5, o + 6, o + 7,
			         o + 8, o + 9, o + 10);
	}
	return buf_take(&b, NULL);
}

static void prepare(struct conn *c, enum statement q)
{
	char *built = q >= Q_BULK_PAYLOAD ? bulk_text(q) : NULL;
	int rc = sqlite3_prepare_v3(c->db, built ? built : texts[q], -1, SQLITE_PREPARE_PERSISTENT, &c->st[q], NULL);
	mem_free(built);
	if (rc)
		conn_fault(c, rc);
}

sqlite3_stmt *q_get(struct conn *c, enum statement q)
{
	if (c->rc)
		return NULL;
	if (!c->st[q])
		prepare(c, q);
	return c->st[q];
}

void bind_text(sqlite3_stmt *st, int i, struct str s)
{
	if (s.n)
		sqlite3_bind_text64(st, i, s.p, s.n, SQLITE_STATIC, SQLITE_UTF8);
	else
		sqlite3_bind_null(st, i);
}

static sqlite3_stmt *bind_args(struct conn *c, enum statement q, const char *args, va_list ap)
{
	sqlite3_stmt *st = q_get(c, q);
	for (int i = 1; st && *args; args++, i++) {
		int64_t v;
		struct str s;
		const struct str *p;
		switch (*args) {
		case 'i':
			sqlite3_bind_int64(st, i, va_arg(ap, int64_t));
			break;
		case 'n':
			v = va_arg(ap, int64_t);
			if (v)
				sqlite3_bind_int64(st, i, v);
			else
				sqlite3_bind_null(st, i);
			break;
		case 't':
			bind_text(st, i, va_arg(ap, struct str));
			break;
		case 'T':
			s = va_arg(ap, struct str);
			sqlite3_bind_text64(st, i, s.n ? s.p : "", s.n, SQLITE_STATIC, SQLITE_UTF8);
			break;
		case 'd':
			sqlite3_bind_double(st, i, va_arg(ap, double));
			break;
		case 'B':
			p = va_arg(ap, const struct str *);
			if (p)
				sqlite3_bind_blob64(st, i, p->n ? p->p : "", p->n, SQLITE_STATIC);
			else
				sqlite3_bind_null(st, i);
			break;
		case 'x':
			p = va_arg(ap, const struct str *);
			if (p)
				sqlite3_bind_text64(st, i, p->n ? p->p : "", p->n, SQLITE_STATIC, SQLITE_UTF8);
			else
				sqlite3_bind_null(st, i);
			break;
		default:
			ASSERT(*args == 'b');
			s = va_arg(ap, struct str);
			sqlite3_bind_blob64(st, i, s.n ? s.p : "", s.n, SQLITE_STATIC);
		}
	}
	return st;
}

sqlite3_stmt *q_bind(struct conn *c, enum statement q, const char *args, ...)
{
	va_list ap;
	va_start(ap, args);
	sqlite3_stmt *st = bind_args(c, q, args, ap);
	va_end(ap);
	return st;
}

bool q_row(struct conn *c, sqlite3_stmt *st)
{
	if (c->rc || !st)
		return false;
	int rc = sqlite3_step(st);
	if (rc == SQLITE_ROW)
		return true;
	if (rc != SQLITE_DONE)
		conn_fault(c, rc);
	sqlite3_reset(st);
	return false;
}

void q_end(sqlite3_stmt *st)
{
	sqlite3_reset(st);
}

int q_step(struct conn *c, sqlite3_stmt *st)
{
	if (c->rc || !st)
		return 0;
	int rc = sqlite3_step(st);
	if (rc != SQLITE_DONE && rc != SQLITE_ROW)
		conn_fault(c, rc);
	sqlite3_reset(st);
	return c->rc ? 0 : sqlite3_changes(c->db);
}

int q_run(struct conn *c, enum statement q, const char *args, ...)
{
	va_list ap;
	va_start(ap, args);
	sqlite3_stmt *st = bind_args(c, q, args, ap);
	va_end(ap);
	return q_step(c, st);
}

bool q_int(struct conn *c, enum statement q, int64_t *out, const char *args, ...)
{
	va_list ap;
	va_start(ap, args);
	sqlite3_stmt *st = bind_args(c, q, args, ap);
	va_end(ap);
	if (!q_row(c, st))
		return false;
	*out = col(st, 0);
	q_end(st);
	return true;
}

int64_t col(sqlite3_stmt *st, int i)
{
	return sqlite3_column_int64(st, i);
}

struct str col_str(sqlite3_stmt *st, int i)
{
	const char *p = sqlite3_column_blob(st, i); /* as stored: text is UTF-8 */
	return (struct str){p ? p : "", (size_t)sqlite3_column_bytes(st, i)};
}

struct str col_copy(sqlite3_stmt *st, int i, struct arena *a)
{
	return arena_str(a, col_str(st, i));
}
