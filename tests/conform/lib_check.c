/* Looks at the tables of a closed store from outside: everything that is kept must be what a recount gives. */
#include "lib_store.h"

#include <sqlite3.h>

/* Each must give no row. The first column says which. */
static const char *const sqlite_rules[][2] = {
	{"ready", "SELECT c.queue_id FROM queue_count c WHERE c.ready<>(SELECT count(*) FROM ready r WHERE r.queue_id=c.queue_id)"},
	{"retrying", "SELECT c.queue_id FROM queue_count c WHERE c.retrying<>(SELECT count(*) FROM ready r WHERE r.queue_id=c.queue_id AND r.attempts>0)"},
	{"held", "SELECT c.queue_id FROM queue_count c WHERE c.held<>(SELECT count(*) FROM held h WHERE h.queue_id=c.queue_id)"},
	{"leased", "SELECT c.queue_id FROM queue_count c WHERE c.leased<>(SELECT count(*) FROM leased l WHERE l.queue_id=c.queue_id)"},
	{"dead", "SELECT c.queue_id FROM queue_count c WHERE c.dead<>(SELECT count(*) FROM dead d WHERE d.queue_id=c.queue_id AND state=0)"},
	{"redriving", "SELECT c.queue_id FROM queue_count c WHERE c.redriving<>(SELECT count(*) FROM dead d WHERE d.queue_id=c.queue_id AND state=1)"},
	{"bytes", "SELECT c.queue_id FROM queue_count c WHERE c.bytes<>(SELECT coalesce(sum(length(body)),0) FROM payload p JOIN (SELECT seq,queue_id FROM ready"
	          " UNION ALL SELECT seq,queue_id FROM held UNION ALL SELECT seq,queue_id FROM leased) l ON l.seq=p.seq WHERE l.queue_id=c.queue_id)"},
	{"one place for each message", "SELECT p.seq FROM payload p WHERE (SELECT count(*) FROM ready WHERE seq=p.seq)+(SELECT count(*) FROM held"
	          " WHERE seq=p.seq)+(SELECT count(*) FROM leased WHERE seq=p.seq)+(SELECT count(*) FROM dead WHERE seq=p.seq AND state<>1)<>1"},
	{"a payload for each message", "SELECT seq FROM (SELECT seq FROM ready UNION SELECT seq FROM held UNION SELECT seq FROM leased UNION"
	          " SELECT seq FROM dead) WHERE seq NOT IN (SELECT seq FROM payload)"},
	{"attempts kept with their message", "SELECT seq FROM attempt WHERE seq NOT IN (SELECT seq FROM payload)"},
	{"edits kept with their message", "SELECT seq FROM edit WHERE seq NOT IN (SELECT seq FROM dead)"},
	{"ttl rows are of waiting messages", "SELECT seq FROM ttl t WHERE seq NOT IN (SELECT seq FROM held) AND NOT EXISTS"
	          " (SELECT 1 FROM ready r WHERE r.queue_id=t.queue_id AND r.due=t.due AND r.seq=t.seq)"},
	{"ttl of waiting messages runs", "SELECT p.seq FROM payload p LEFT JOIN ready r ON r.seq=p.seq LEFT JOIN held h ON h.seq=p.seq WHERE"
	          " p.expires IS NOT NULL AND coalesce(r.redrives,h.redrives)=0 AND p.seq NOT IN (SELECT seq FROM ttl)"},
	{"lanes hold what is unfinished", "SELECT p.seq FROM payload p JOIN (SELECT seq,queue_id FROM ready UNION ALL SELECT seq,queue_id FROM held"
	          " UNION ALL SELECT seq,queue_id FROM leased UNION ALL SELECT seq,queue_id FROM dead WHERE state=0) l ON l.seq=p.seq JOIN queue q ON"
	          " q.queue_id=l.queue_id WHERE q.ordered AND p.key IS NOT NULL AND NOT EXISTS (SELECT 1 FROM lane x WHERE x.queue_id=l.queue_id"
	          " AND x.key=p.key AND x.seq=p.seq)"},
	{"lanes hold nothing finished", "SELECT l.seq FROM lane l LEFT JOIN dead d ON d.seq=l.seq WHERE l.seq NOT IN (SELECT seq FROM payload)"
	          " OR d.state>=2"},
	{"lanes are of the queue where the message is", "SELECT l.seq FROM lane l WHERE l.queue_id NOT IN (SELECT queue_id FROM ready WHERE seq=l.seq UNION ALL"
	          " SELECT queue_id FROM held WHERE seq=l.seq UNION ALL SELECT queue_id FROM leased WHERE seq=l.seq UNION ALL"
	          " SELECT queue_id FROM dead WHERE seq=l.seq AND state=0)"},
	{"only the first of a lane is at work", "SELECT l.seq FROM lane l WHERE (l.seq IN (SELECT seq FROM ready) OR l.seq IN (SELECT seq FROM leased))"
	          " AND EXISTS (SELECT 1 FROM lane x WHERE x.queue_id=l.queue_id AND x.key=l.key AND x.seq<l.seq)"},
	{"the first of a lane is not held", "SELECT l.seq FROM lane l JOIN held h ON h.seq=l.seq WHERE NOT EXISTS (SELECT 1 FROM lane x WHERE"
	          " x.queue_id=l.queue_id AND x.key=l.key AND x.seq<l.seq)"},
	{"redriving dead letters are under way", "SELECT seq FROM dead WHERE state=1 AND seq NOT IN (SELECT seq FROM ready UNION SELECT seq FROM held"
	          " UNION SELECT seq FROM leased)"},
	{"redrives add up", "SELECT n FROM redrive WHERE state=2 AND sent+skipped<>total OR succeeded+failed_again>sent"
	          " OR state=3 AND sent+skipped+cancelled<>total"},
	{"group dead", "SELECT c.group_id FROM fgroup_count c WHERE c.dead<>(SELECT count(*) FROM dead d WHERE d.group_id=c.group_id AND state=0)"},
	{"group redriving", "SELECT c.group_id FROM fgroup_count c WHERE c.redriving<>(SELECT count(*) FROM dead d WHERE d.group_id=c.group_id AND state=1)"},
	{"group redriven", "SELECT c.group_id FROM fgroup_count c WHERE c.redriven<(SELECT count(*) FROM dead d WHERE d.group_id=c.group_id AND state=2)"},
	{"group discarded", "SELECT c.group_id FROM fgroup_count c WHERE c.discarded<(SELECT count(*) FROM dead d WHERE d.group_id=c.group_id AND state=3)"},
	{"group archived", "SELECT c.group_id FROM fgroup_count c WHERE c.archived<(SELECT count(*) FROM dead d WHERE d.group_id=c.group_id AND state=4)"},
	{"queue discarded", "SELECT c.queue_id FROM queue_count c WHERE c.discarded<(SELECT count(*) FROM dead d WHERE d.queue_id=c.queue_id AND state=3)"},
	{"queue archived", "SELECT c.queue_id FROM queue_count c WHERE c.archived<(SELECT count(*) FROM dead d WHERE d.queue_id=c.queue_id AND state=4)"},
	{"queue imported", "SELECT c.queue_id FROM queue_count c WHERE c.died+c.imported<c.dead+c.redriving+c.redriven+c.discarded"},
	{"groups are of their dead letters' queue", "SELECT d.seq FROM dead d JOIN fgroup g ON g.group_id=d.group_id WHERE g.queue_id<>d.queue_id"},
	{"headers of dead letters alone", "SELECT h.seq FROM dead_header h WHERE NOT EXISTS (SELECT 1 FROM dead d WHERE d.seq=h.seq AND d.died_no=h.died_no)"},
	{"each header of each dead letter", "SELECT d.seq FROM dead d JOIN payload p ON p.seq=d.seq LEFT JOIN edit e ON e.seq=d.seq AND e.n=(SELECT max(n) FROM edit"
	          " WHERE seq=d.seq) WHERE (SELECT count(*) FROM dead_header h WHERE h.seq=d.seq)<>(SELECT count(*) FROM json_each(iif(json_valid(coalesce(e.headers,p.headers)),coalesce(e.headers,p.headers),'{}')))"},
	{"edits are told of", "SELECT seq FROM dead d WHERE edited<>(seq IN (SELECT seq FROM edit))"},
	{"an edit changes something", "SELECT seq FROM edit WHERE body IS NULL AND headers IS NULL"},
	{"staged edits are of members to come", "SELECT e.seq FROM redrive_edit e JOIN redrive r ON r.n=e.redrive_n WHERE r.state IN (0,1,4) AND NOT EXISTS"
	          " (SELECT 1 FROM redrive_item i WHERE i.redrive_n=e.redrive_n AND i.seq=e.seq)"},
	{"members to come have their queue noted", "SELECT i.seq FROM redrive_item i JOIN redrive r ON r.n=i.redrive_n JOIN dead d ON d.seq=i.seq WHERE r.state IN"
	          " (0,1,4) AND r.queue_id=0 AND r.group_id=0 AND i.state=0 AND i.ord>r.cursor_no AND NOT EXISTS (SELECT 1 FROM redrive_scope x"
	          " WHERE x.redrive_n=r.n AND x.queue_id=d.queue_id AND x.group_id=d.group_id AND x.last_ord>=i.ord)"},
	{"plans add up", "SELECT n FROM redrive WHERE plan IS NOT NULL AND (queue_id<>0 OR group_id<>0 OR changed+unchanged+edit_failed>total OR total>looked"
	          " OR edit_failed>skipped OR total<>(SELECT count(*) FROM redrive_item i WHERE i.redrive_n=n))"},
	{"group moves add up", "SELECT group_id FROM fgroup_count WHERE dead+redriving+redriven+failed_again+discarded+archived<deaths OR deaths>failures"},
	{"group failures are kept", "SELECT c.group_id FROM fgroup_count c WHERE c.failures<(SELECT count(*) FROM attempt a WHERE a.group_id=c.group_id)"},
	{"group histories by the hour", "SELECT c.group_id FROM fgroup_count c JOIN (SELECT group_id,sum(failures) f,sum(deaths) d FROM hour GROUP BY group_id) h"
	          " ON h.group_id=c.group_id WHERE h.f>c.failures OR h.d>c.deaths"},
	{"group workers", "SELECT c.group_id FROM fgroup_count c JOIN (SELECT group_id,sum(failures) f,count(*) n FROM fgroup_worker GROUP BY group_id) w"
	          " ON w.group_id=c.group_id WHERE w.f>c.failures OR w.n>101"},
	{"queue histories", "SELECT c.queue_id FROM queue_count c JOIN (SELECT queue_id,sum(failures) f,sum(deaths) d,sum(done) o FROM hour WHERE group_id=0"
	          " GROUP BY queue_id) h ON h.queue_id=c.queue_id WHERE h.f>c.failed_attempts OR h.d>c.died OR h.o>c.done"},
	{"a count for each group", "SELECT group_id FROM fgroup WHERE group_id NOT IN (SELECT group_id FROM fgroup_count)"},
	{"a group for each dead letter", "SELECT seq FROM dead WHERE group_id>0 AND group_id NOT IN (SELECT group_id FROM fgroup)"},
	{"merged groups", "SELECT g.group_id FROM fgroup g WHERE g.merged<>(SELECT count(*) FROM fgroup m WHERE m.merged_into=g.group_id)"
	          " OR g.merged>0 AND g.merged_into>0"},
	{"ledger of redrives", "SELECT r.n FROM redrive r WHERE r.sent<(SELECT count(*) FROM redrive_item i WHERE i.redrive_n=r.n AND i.state IN (1,2,3))"
	          " OR r.succeeded<(SELECT count(*) FROM redrive_item i WHERE i.redrive_n=r.n AND i.state=2)"
	          " OR r.failed_again<(SELECT count(*) FROM redrive_item i WHERE i.redrive_n=r.n AND i.state=3)"},
	{"links of the audit trail", "SELECT n FROM audit a WHERE hash IS NULL AND EXISTS (SELECT 1 FROM audit b WHERE b.n<a.n AND b.hash IS NOT NULL)"},
	{"integrity", "SELECT integrity_check FROM pragma_integrity_check WHERE integrity_check<>'ok'"},
};

static void sqlite_check(const char *dir)
{
	char path[200];
	sqlite3 *db = NULL;
	snprintf(path, sizeof(path), "%s/dlq.db", dir);
	assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
	for (size_t i = 0; i < ARRAY_LEN(sqlite_rules); i++) {
		sqlite3_stmt *st = NULL;
		int rc = sqlite3_prepare_v2(db, sqlite_rules[i][1], -1, &st, NULL);
		if (rc)
			fail_msg("%s: %s", sqlite_rules[i][0], sqlite3_errmsg(db));
		rc = sqlite3_step(st);
		if (rc != SQLITE_DONE)
			fail_msg("rule \"%s\" is broken for %s", sqlite_rules[i][0], rc == SQLITE_ROW ? (const char *)sqlite3_column_text(st, 0) : sqlite3_errmsg(db));
		sqlite3_finalize(st);
	}
	sqlite3_close(db);
}

void store_check(const char *backend, const char *dir)
{
	if (!strcmp(backend, "sqlite"))
		sqlite_check(dir);
	else
		fail_msg("no checker for back end %s", backend);
}
