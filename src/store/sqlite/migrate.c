/* The schema as numbered steps forward. A step, once released, is never changed: a later one changes what it made. */
#include "store/sqlite/internal.h"

/*
 * A message has one payload row, written once, and one narrow row in the table of its state: ready, held, leased or
 * dead. `lane` orders the unfinished messages of a key in an ordered queue: only the first of a lane may be in ready
 * or leased. `ttl` lists the waiting messages whose TTL runs.
 */
static const char v1[] =
	"CREATE TABLE meta(name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;"
	"CREATE TABLE queue(queue_id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, config TEXT NOT NULL,"
	" ordered INTEGER NOT NULL, paused INTEGER NOT NULL, created_at INTEGER NOT NULL, deleted_at INTEGER) STRICT;"
	"CREATE UNIQUE INDEX queue_name ON queue(name) WHERE deleted_at IS NULL;"
	"CREATE TABLE queue_count(queue_id INTEGER PRIMARY KEY, ready INTEGER NOT NULL, retrying INTEGER NOT NULL,"
	" held INTEGER NOT NULL, leased INTEGER NOT NULL, dead INTEGER NOT NULL, redriving INTEGER NOT NULL,"
	" bytes INTEGER NOT NULL, sent INTEGER NOT NULL, done INTEGER NOT NULL, failed_attempts INTEGER NOT NULL,"
	" died INTEGER NOT NULL, redriven INTEGER NOT NULL, discarded INTEGER NOT NULL, archived INTEGER NOT NULL,"
	" duplicates INTEGER NOT NULL) STRICT;"

	"CREATE TABLE payload(seq INTEGER PRIMARY KEY, queue_id INTEGER NOT NULL, received_at INTEGER NOT NULL,"
	" expires INTEGER, key TEXT, id TEXT, enc INTEGER NOT NULL, ctype TEXT, headers TEXT, body BLOB NOT NULL) STRICT;"
	"CREATE TABLE ready(queue_id INTEGER NOT NULL, due INTEGER NOT NULL, seq INTEGER NOT NULL, attempts INTEGER NOT NULL,"
	" lease_expirations INTEGER NOT NULL, redrives INTEGER NOT NULL, previous_delay INTEGER NOT NULL,"
	" PRIMARY KEY(queue_id, due, seq)) STRICT, WITHOUT ROWID;"
	"CREATE TABLE leased(seq INTEGER PRIMARY KEY, queue_id INTEGER NOT NULL, until INTEGER NOT NULL,"
	" nonce INTEGER NOT NULL, attempts INTEGER NOT NULL, lease_expirations INTEGER NOT NULL, redrives INTEGER NOT NULL,"
	" previous_delay INTEGER NOT NULL, size INTEGER NOT NULL, worker TEXT) STRICT;"
	"CREATE TABLE held(seq INTEGER PRIMARY KEY, queue_id INTEGER NOT NULL, due INTEGER NOT NULL, redrives INTEGER NOT NULL) STRICT;"
	"CREATE TABLE lane(queue_id INTEGER NOT NULL, key TEXT NOT NULL, seq INTEGER NOT NULL,"
	" PRIMARY KEY(queue_id, key, seq)) STRICT, WITHOUT ROWID;"
	"CREATE TABLE ttl(expires INTEGER NOT NULL, seq INTEGER NOT NULL, queue_id INTEGER NOT NULL, due INTEGER NOT NULL,"
	" PRIMARY KEY(expires, seq)) STRICT, WITHOUT ROWID;"
	"CREATE TABLE dedup(queue_id INTEGER NOT NULL, id TEXT NOT NULL, until INTEGER NOT NULL,"
	" PRIMARY KEY(queue_id, id)) STRICT, WITHOUT ROWID;"
	"CREATE INDEX dedup_until ON dedup(until);"

	"CREATE TABLE dead(seq INTEGER PRIMARY KEY, queue_id INTEGER NOT NULL, state INTEGER NOT NULL, reason INTEGER NOT NULL,"
	" attempts INTEGER NOT NULL, lease_expirations INTEGER NOT NULL, redrives INTEGER NOT NULL, died_no INTEGER NOT NULL,"
	" first_died_at INTEGER NOT NULL, first_failed_at INTEGER NOT NULL, last_failed_at INTEGER NOT NULL,"
	" died_at INTEGER NOT NULL, state_at INTEGER NOT NULL, body_bytes INTEGER NOT NULL, edited INTEGER NOT NULL,"
	" expires_due INTEGER NOT NULL, redrive_n INTEGER NOT NULL, redrive_id TEXT, message_id TEXT, key TEXT,"
	" error_type TEXT, message TEXT, worker TEXT, operator TEXT, why TEXT) STRICT;"
	"CREATE INDEX dead_queue ON dead(queue_id, state, died_no);"
	"CREATE INDEX dead_state ON dead(state, died_no);"
	"CREATE INDEX dead_key ON dead(queue_id, key, died_no) WHERE key IS NOT NULL;"
	"CREATE INDEX dead_message ON dead(message_id) WHERE message_id IS NOT NULL;"
	"CREATE INDEX dead_expiry ON dead(expires_due) WHERE state <> 1;"
	"CREATE TABLE attempt(seq INTEGER NOT NULL, redrive INTEGER NOT NULL, n INTEGER NOT NULL, at INTEGER NOT NULL,"
	" outcome INTEGER NOT NULL, http_status INTEGER NOT NULL, exit_code INTEGER NOT NULL, retry_at INTEGER NOT NULL,"
	" error_type TEXT, message TEXT, worker TEXT, detail TEXT, PRIMARY KEY(seq, redrive, n)) STRICT, WITHOUT ROWID;"
	"CREATE TABLE edit(seq INTEGER NOT NULL, n INTEGER NOT NULL, at INTEGER NOT NULL, operator TEXT, body BLOB NOT NULL,"
	" PRIMARY KEY(seq, n)) STRICT;"

	"CREATE TABLE redrive(n INTEGER PRIMARY KEY, queue_id INTEGER NOT NULL, queue TEXT, state INTEGER NOT NULL,"
	" until_no INTEGER NOT NULL, cursor_no INTEGER NOT NULL, total INTEGER NOT NULL, sent INTEGER NOT NULL,"
	" skipped INTEGER NOT NULL, succeeded INTEGER NOT NULL, failed_again INTEGER NOT NULL, started_at INTEGER NOT NULL,"
	" ended_at INTEGER NOT NULL, operator TEXT, reason TEXT) STRICT;"
	"CREATE INDEX redrive_active ON redrive(state) WHERE state < 2;"
	"CREATE TABLE redrive_item(redrive_n INTEGER NOT NULL, ord INTEGER NOT NULL, seq INTEGER NOT NULL,"
	" PRIMARY KEY(redrive_n, ord)) STRICT, WITHOUT ROWID;"
	"CREATE INDEX redrive_item_seq ON redrive_item(seq);"

	"CREATE TABLE audit(n INTEGER PRIMARY KEY, at INTEGER NOT NULL, operator TEXT, action TEXT, queue TEXT, target TEXT,"
	" reason TEXT, outcome TEXT, detail TEXT) STRICT;"
	"CREATE TABLE token(token_id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, hash BLOB NOT NULL, role INTEGER NOT NULL,"
	" queues TEXT, created_at INTEGER NOT NULL, expires_at INTEGER NOT NULL, revoked_at INTEGER NOT NULL) STRICT;"
	"CREATE UNIQUE INDEX token_name ON token(name) WHERE revoked_at = 0;"
	"CREATE TABLE notice(n INTEGER PRIMARY KEY AUTOINCREMENT, seq INTEGER NOT NULL, died_no INTEGER NOT NULL,"
	" tries INTEGER NOT NULL, due INTEGER NOT NULL, last_error TEXT) STRICT;"
	"CREATE INDEX notice_due ON notice(due);"
	"INSERT INTO meta VALUES('id_key', randomblob(8));";

/*
 * A failure belongs to a group: `fgroup` says what it is, `fgroup_count` (narrow, written often) how much of it there
 * was. `minute` and `hour` are histories, of a queue under group 0; their keys begin with the time, so that what
 * happens now is written side by side and what is old goes from one end. A member of a redrive that is not listed
 * beforehand gets its redrive_item when it is handled: `ord` is its died_no then.
 */
static const char v2[] =
	"CREATE TABLE fgroup(group_id INTEGER PRIMARY KEY AUTOINCREMENT, queue_id INTEGER NOT NULL, fp BLOB NOT NULL,"
	" version INTEGER NOT NULL, rules INTEGER NOT NULL, status INTEGER NOT NULL, muted_until INTEGER NOT NULL,"
	" muted_deaths INTEGER NOT NULL, status_at INTEGER NOT NULL, merged_into INTEGER NOT NULL, merged INTEGER NOT NULL,"
	" error_type TEXT, normal TEXT, sample TEXT, note TEXT, owner TEXT) STRICT;"
	"CREATE UNIQUE INDEX fgroup_fp ON fgroup(fp, queue_id);"
	"CREATE INDEX fgroup_merged ON fgroup(merged_into) WHERE merged_into > 0;"
	"CREATE TABLE fgroup_count(group_id INTEGER PRIMARY KEY, queue_id INTEGER NOT NULL, last_no INTEGER NOT NULL,"
	" dead INTEGER NOT NULL, redriving INTEGER NOT NULL, redriven INTEGER NOT NULL, failed_again INTEGER NOT NULL,"
	" discarded INTEGER NOT NULL, archived INTEGER NOT NULL, deaths INTEGER NOT NULL, failures INTEGER NOT NULL,"
	" recovered INTEGER NOT NULL, first_seen INTEGER NOT NULL, last_seen INTEGER NOT NULL) STRICT;"
	"CREATE INDEX fgroup_last ON fgroup_count(last_no);"
	"CREATE INDEX fgroup_queue ON fgroup_count(queue_id, last_no);"
	"CREATE TABLE fgroup_worker(group_id INTEGER NOT NULL, worker TEXT NOT NULL, version TEXT NOT NULL,"
	" failures INTEGER NOT NULL, first_at INTEGER NOT NULL, last_at INTEGER NOT NULL,"
	" PRIMARY KEY(group_id, worker, version)) STRICT, WITHOUT ROWID;"
	"CREATE TABLE minute(at INTEGER NOT NULL, queue_id INTEGER NOT NULL, group_id INTEGER NOT NULL,"
	" failures INTEGER NOT NULL, deaths INTEGER NOT NULL, done INTEGER NOT NULL,"
	" PRIMARY KEY(at, queue_id, group_id)) STRICT, WITHOUT ROWID;"
	"CREATE TABLE hour(at INTEGER NOT NULL, queue_id INTEGER NOT NULL, group_id INTEGER NOT NULL,"
	" failures INTEGER NOT NULL, deaths INTEGER NOT NULL, done INTEGER NOT NULL,"
	" PRIMARY KEY(at, queue_id, group_id)) STRICT, WITHOUT ROWID;"

	"ALTER TABLE dead ADD COLUMN group_id INTEGER NOT NULL DEFAULT 0;"
	"CREATE INDEX dead_group ON dead(group_id, state, died_no) WHERE group_id > 0;"
	"ALTER TABLE attempt ADD COLUMN group_id INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE attempt ADD COLUMN worker_version TEXT;"

	"ALTER TABLE redrive ADD COLUMN group_id INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE redrive ADD COLUMN g_first INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE redrive ADD COLUMN g_wait INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE redrive ADD COLUMN g_rate REAL NOT NULL DEFAULT 0;"
	"ALTER TABLE redrive ADD COLUMN g_stop INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE redrive ADD COLUMN g_percent REAL NOT NULL DEFAULT 0;"
	"ALTER TABLE redrive ADD COLUMN halted_why TEXT;"
	"ALTER TABLE redrive ADD COLUMN canary_until INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE redrive ADD COLUMN cancelled INTEGER NOT NULL DEFAULT 0;"
	"UPDATE redrive SET cancelled = max(0, total - sent - skipped) WHERE state = 3;"
	"DROP INDEX redrive_active;"
	"CREATE INDEX redrive_open ON redrive(n) WHERE state IN (0, 1, 4);"
	"CREATE TABLE redrive_group(redrive_n INTEGER NOT NULL, group_id INTEGER NOT NULL,"
	" PRIMARY KEY(redrive_n, group_id)) STRICT, WITHOUT ROWID;"
	"ALTER TABLE redrive_item ADD COLUMN state INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE redrive_item ADD COLUMN sent_at INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE redrive_item ADD COLUMN outcome_at INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE redrive_item ADD COLUMN first_died_at INTEGER NOT NULL DEFAULT 0;"
	/* Of those handled before there was a ledger nothing is known. */
	"UPDATE redrive_item SET state = 4 WHERE ord <= (SELECT cursor_no FROM redrive r WHERE r.n = redrive_item.redrive_n);"
	"UPDATE redrive_item SET first_died_at = coalesce((SELECT first_died_at FROM dead d WHERE d.seq = redrive_item.seq), 0);"

	"ALTER TABLE audit ADD COLUMN hash BLOB;";

/*
 * dead_header has a row for each header that is delivered with a dead letter: h is header_hash of its name and value,
 * died_no that of the dead letter, and part = died_no >> 14: so what dies now is written close together, wherever its hashes are. An edit is whole by itself: what is NULL in it is the original. redrive_scope says for
 * a redrive with listed members up to which ord it has some of a queue and group.
 */
static const char v3[] =
	"ALTER TABLE queue_count ADD COLUMN imported INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE dead ADD COLUMN imported_id TEXT;"
	"CREATE INDEX dead_imported ON dead(imported_id) WHERE imported_id IS NOT NULL;"
	"CREATE INDEX dead_error ON dead(queue_id, error_type, died_no) WHERE error_type IS NOT NULL;"
	"CREATE INDEX dead_redrive ON dead(redrive_n, died_no) WHERE redrive_n > 0;"
	"DROP INDEX dead_expiry;"
	"CREATE INDEX dead_expiry ON dead(state, expires_due, queue_id);"
	"CREATE TABLE dead_header(part INTEGER NOT NULL, h INTEGER NOT NULL, died_no INTEGER NOT NULL, seq INTEGER NOT NULL,"
	" PRIMARY KEY(part, h, died_no, seq)) STRICT, WITHOUT ROWID;"
	"INSERT OR IGNORE INTO dead_header SELECT d.died_no >> 14, header_hash(j.key, j.value), d.died_no, d.seq FROM dead d"
	" CROSS JOIN payload p ON p.seq = d.seq CROSS JOIN json_each(iif(json_valid(p.headers), p.headers, '{}')) j"
	" WHERE p.headers IS NOT NULL;"

	"CREATE TABLE edit_new(seq INTEGER NOT NULL, n INTEGER NOT NULL, at INTEGER NOT NULL, operator TEXT, headers TEXT,"
	" body BLOB, PRIMARY KEY(seq, n)) STRICT;"
	"INSERT INTO edit_new SELECT seq, n, at, operator, NULL, body FROM edit;"
	"DROP TABLE edit;"
	"ALTER TABLE edit_new RENAME TO edit;"

	"ALTER TABLE redrive ADD COLUMN action INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE redrive ADD COLUMN to_queue_id INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE redrive ADD COLUMN to_queue TEXT;"
	"ALTER TABLE redrive ADD COLUMN override_limit INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE redrive ADD COLUMN plan TEXT;"
	"ALTER TABLE redrive ADD COLUMN plan_next INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE redrive ADD COLUMN looked INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE redrive ADD COLUMN changed INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE redrive ADD COLUMN unchanged INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE redrive ADD COLUMN edit_failed INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE redrive_item ADD COLUMN note TEXT;"
	"CREATE TABLE redrive_scope(redrive_n INTEGER NOT NULL, queue_id INTEGER NOT NULL, group_id INTEGER NOT NULL,"
	" last_ord INTEGER NOT NULL, PRIMARY KEY(redrive_n, queue_id, group_id)) STRICT, WITHOUT ROWID;"
	"INSERT INTO redrive_scope SELECT r.n, d.queue_id, d.group_id, max(i.ord) FROM redrive r CROSS JOIN redrive_item i"
	" ON i.redrive_n = r.n CROSS JOIN dead d ON d.seq = i.seq WHERE r.state IN (0, 1, 4) AND r.queue_id = 0"
	" AND r.group_id = 0 GROUP BY r.n, d.queue_id, d.group_id;"
	"CREATE TABLE redrive_edit(redrive_n INTEGER NOT NULL, seq INTEGER NOT NULL, headers TEXT, body BLOB,"
	" PRIMARY KEY(redrive_n, seq)) STRICT;";

static const char *const steps[] = {v1, v2, v3};
const int sqlite_schema_version = (int)ARRAY_LEN(steps);

bool migrate_run(struct conn *c, int from)
{
	char pragma[64];
	headers_function(c);
	if (!conn_exec(c, "BEGIN IMMEDIATE"))
		return false;
	for (int v = from; v < sqlite_schema_version; v++)
		conn_exec(c, steps[v]);
	snprintf(pragma, sizeof(pragma), "PRAGMA application_id=%d", SQLITE_STORE_APP_ID);
	conn_exec(c, pragma);
	snprintf(pragma, sizeof(pragma), "PRAGMA user_version=%d", sqlite_schema_version);
	conn_exec(c, pragma);
	return conn_exec(c, "COMMIT");
}
