/* statements.h - every statement of the store, by name. X(name, sql); prepared at first use, one set per connection. */
#ifndef STORE_SQLITE_STATEMENTS_H
#define STORE_SQLITE_STATEMENTS_H

#include "store/sqlite/statements_dead.h"

#define COUNT_COLUMNS "c.ready,c.retrying,c.held,c.leased,c.dead,c.redriving,c.bytes,c.sent,c.done,c.failed_attempts," \
	"c.died,c.redriven,c.discarded,c.archived,c.duplicates,c.imported"
#define CLAIM_SELECT "SELECT r.seq,r.due,r.attempts,r.lease_expirations,r.redrives,r.previous_delay,p.received_at," \
	"p.expires,p.id,p.key,p.ctype,p.headers,p.body FROM ready r CROSS JOIN payload p ON p.seq=r.seq" \
	" WHERE r.queue_id=?1 AND r.due<=?2"
#define GROUP_COLUMNS "g.group_id,g.queue_id,q.name,g.fp,g.version,g.rules,g.error_type,g.normal,g.sample,g.status,g.muted_until," \
	"g.muted_deaths,g.status_at,g.note,g.owner,g.merged_into,g.merged,c.dead,c.redriving,c.redriven,c.failed_again," \
	"c.discarded,c.archived,c.deaths,c.failures,c.recovered,c.first_seen,c.last_seen,c.last_no"
#define BUCKET_ADD(table) "INSERT INTO " table " VALUES(?1,?2,?3,?4,?5,?6) ON CONFLICT(at,queue_id,group_id) DO UPDATE SET" \
	" failures=failures+excluded.failures,deaths=deaths+excluded.deaths,done=done+excluded.done"
#define BUCKET_SWEEP(table) "DELETE FROM " table " WHERE (at,queue_id,group_id) IN (SELECT at,queue_id,group_id FROM " table \
	" WHERE at<?1 ORDER BY at LIMIT ?2)"

#define STATEMENTS(X) STATEMENTS_LIVE(X) STATEMENTS_DEAD(X)

#define STATEMENTS_LIVE(X)                                                                                                   \
	X(BEGIN, "BEGIN IMMEDIATE")                                                                                     \
	X(BEGIN_READ, "BEGIN")                                                                                          \
	X(COMMIT, "COMMIT")                                                                                             \
	X(ROLLBACK, "ROLLBACK")                                                                                         \
	X(META_SET, "INSERT INTO meta VALUES(?1,?2) ON CONFLICT(name) DO UPDATE SET value=excluded.value")              \
	X(META_DEL, "DELETE FROM meta WHERE name=?1")                                                                   \
	X(META_GET, "SELECT value FROM meta WHERE name=?1")                                                             \
	/* queues */                                                                                                    \
	X(QUEUE_INSERT, "INSERT INTO queue(name,config,ordered,paused,created_at) VALUES(?1,?2,?3,0,?4)")               \
	X(QUEUE_BY_NAME, "SELECT queue_id FROM queue WHERE name=?1 AND deleted_at IS NULL")                             \
	X(QUEUE_CONFIG, "UPDATE queue SET config=?2 WHERE queue_id=?1")                                                 \
	X(QUEUE_PAUSE, "UPDATE queue SET paused=?2 WHERE queue_id=?1")                                                  \
	X(QUEUE_HAS_DEAD, "SELECT 1 FROM dead WHERE queue_id=?1 LIMIT 1")                                               \
	X(QUEUE_HIDE, "UPDATE queue SET deleted_at=?2 WHERE queue_id=?1")                                               \
	X(QUEUE_DELETE, "DELETE FROM queue WHERE queue_id=?1")                                                          \
	X(COUNT_INSERT, "INSERT INTO queue_count VALUES(?1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0)")                           \
	X(COUNT_DELETE, "DELETE FROM queue_count WHERE queue_id=?1")                                                    \
	X(COUNT_UPDATE, "UPDATE queue_count SET ready=?2,retrying=?3,held=?4,leased=?5,dead=?6,redriving=?7,bytes=?8,"  \
	                "sent=?9,done=?10,failed_attempts=?11,died=?12,redriven=?13,discarded=?14,archived=?15,"        \
	                "duplicates=?16,imported=?17 WHERE queue_id=?1")                                                \
	X(QUEUE_LOAD, "SELECT q.queue_id,q.name,q.config,q.ordered,q.paused,q.created_at," COUNT_COLUMNS                \
	              " FROM queue q JOIN queue_count c USING(queue_id) WHERE q.deleted_at IS NULL ORDER BY q.queue_id") \
	X(QUEUE_PAGE, "SELECT q.queue_id,q.name,q.config,q.ordered,q.paused,q.created_at," COUNT_COLUMNS                \
	              " FROM queue q JOIN queue_count c USING(queue_id) WHERE q.deleted_at IS NULL AND q.name>?1"       \
	              " ORDER BY q.name LIMIT ?2")                                                                      \
	X(QUEUE_READ, "SELECT q.queue_id,q.name,q.config,q.ordered,q.paused,q.created_at," COUNT_COLUMNS                \
	              " FROM queue q JOIN queue_count c USING(queue_id) WHERE q.deleted_at IS NULL AND q.name=?1")      \
	/* sending */                                                                                                   \
	X(DEDUP_GET, "SELECT until FROM dedup WHERE queue_id=?1 AND id=?2")                                             \
	X(DEDUP_SET, "INSERT INTO dedup VALUES(?1,?2,?3) ON CONFLICT DO UPDATE SET until=excluded.until")               \
	X(DEDUP_SWEEP, "DELETE FROM dedup WHERE (queue_id,id) IN (SELECT queue_id,id FROM dedup WHERE until<=?1"        \
	               " ORDER BY until LIMIT ?2)")                                                                     \
	X(DEDUP_NEXT, "SELECT until FROM dedup ORDER BY until LIMIT 1")                                                 \
	X(PAYLOAD_INSERT, "INSERT INTO payload VALUES(?3,?1,?2,?4,?5,?6,0,?7,?8,?9)")                                   \
	X(PAYLOAD_DELETE, "DELETE FROM payload WHERE seq=?1")                                                           \
	X(PAYLOAD_FACTS, "SELECT received_at,expires,key,id,length(body),headers FROM payload WHERE seq=?1")                    \
	X(READY_INSERT, "INSERT INTO ready VALUES(?1,?2,?3,?4,?5,?6,?7)")                                               \
	X(READY_NEW, "INSERT INTO ready VALUES(?1,?2,?3,0,0,0,0)")                                                      \
	X(READY_DELETE, "DELETE FROM ready WHERE queue_id=?1 AND due=?2 AND seq=?3")                                    \
	X(READY_RANGE, "DELETE FROM ready WHERE queue_id=?1 AND (due,seq)<=(?2,?3)")                                    \
	X(READY_GET, "SELECT attempts,lease_expirations,redrives,previous_delay FROM ready"                             \
	             " WHERE queue_id=?1 AND due=?2 AND seq=?3")                                                        \
	X(NEXT_DUE, "SELECT due FROM ready WHERE queue_id=?1 ORDER BY due LIMIT 1")                                     \
	X(TTL_INSERT, "INSERT INTO ttl VALUES(?1,?2,?3,?4)")                                                            \
	X(TTL_DELETE, "DELETE FROM ttl WHERE expires=?1 AND seq=?2")                                                    \
	X(TTL_GET, "SELECT queue_id,due FROM ttl WHERE expires=?1 AND seq=?2")                                          \
	X(TTL_DUE, "SELECT expires,seq,queue_id,due FROM ttl ORDER BY expires,seq LIMIT ?1")                            \
	X(HELD_INSERT, "INSERT INTO held VALUES(?1,?2,?3,?4)")                                                          \
	X(HELD_GET, "SELECT due,redrives FROM held WHERE seq=?1")                                                       \
	X(HELD_DELETE, "DELETE FROM held WHERE seq=?1")                                                                 \
	X(LANE_INSERT, "INSERT INTO lane VALUES(?1,?2,?3)")                                                             \
	X(LANE_HEAD, "SELECT seq FROM lane WHERE queue_id=?1 AND key=?2 ORDER BY seq LIMIT 1")                          \
	X(LANE_LATER, "SELECT seq FROM lane WHERE queue_id=?1 AND key=?2 AND seq>?3 LIMIT 1")                           \
	X(LANE_DELETE, "DELETE FROM lane WHERE queue_id=?1 AND key=?2 AND seq=?3")                                      \
	/* leases */                                                                                                    \
	X(CLAIM, CLAIM_SELECT " ORDER BY r.due,r.seq LIMIT ?3")                                                         \
	X(CLAIM_TTL, CLAIM_SELECT " AND (p.expires IS NULL OR p.expires>?2 OR r.redrives>0) ORDER BY r.due,r.seq LIMIT ?3") \
	X(LEASE_INSERT, "INSERT INTO leased VALUES(?4,?1,?2,?5,?6,?7,?8,?9,?10,?3)")                                    \
	X(LEASE_PEEK, "SELECT queue_id,nonce,attempts,redrives,size FROM leased WHERE seq=?1")                          \
	X(LEASE_GET, "SELECT queue_id,nonce,attempts,lease_expirations,redrives,previous_delay,worker,size,until"       \
	             " FROM leased WHERE seq=?1")                                                                       \
	X(LEASE_EXTEND, "UPDATE leased SET until=?4 WHERE seq=?1 AND queue_id=?2 AND nonce=?3")                         \
	X(LEASE_DELETE, "DELETE FROM leased WHERE seq=?1")                                                              \
	X(LEASE_SCAN, "SELECT until,seq FROM leased")                                                                   \
	/* audit, tokens */                                                                                             \
	X(AUDIT_INSERT, "INSERT INTO audit(n,at,operator,action,queue,target,reason,outcome,detail,hash)"               \
	                " VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10)")                                                      \
	X(AUDIT_LAST, "SELECT n,hash FROM audit ORDER BY n DESC LIMIT 1")                                               \
	X(AUDIT_AFTER, "SELECT n,at,operator,action,queue,target,reason,outcome,detail,hash FROM audit WHERE n>?1"      \
	               " ORDER BY n LIMIT ?2")                                                                          \
	X(AUDIT_PAGE, "SELECT n,at,operator,action,queue,target,reason,outcome,detail,hash FROM audit WHERE n<?1"       \
	              " ORDER BY n DESC LIMIT ?2")                                                                      \
	X(TOKEN_LIVE, "SELECT token_id FROM token WHERE name=?1 AND revoked_at=0")                                      \
	X(TOKEN_INSERT, "INSERT INTO token(name,hash,role,queues,created_at,expires_at,revoked_at) VALUES(?1,?2,?3,?4,?5,?6,0)") \
	X(TOKEN_REVOKE, "UPDATE token SET revoked_at=?2 WHERE token_id=?1")                                             \
	X(TOKEN_LOAD, "SELECT token_id,name,hash,role,queues,created_at,expires_at,revoked_at FROM token ORDER BY token_id") \
	/* groups */                                                                                                    \
	X(GROUP_FIND, "SELECT group_id FROM fgroup WHERE fp=?1 AND queue_id=?2")                                        \
	X(GROUP_OF_FP, "SELECT g.group_id FROM fgroup g JOIN queue q ON q.queue_id=g.queue_id AND q.deleted_at IS NULL" \
	               " WHERE g.fp=?1 ORDER BY g.queue_id DESC LIMIT 1")                                               \
	X(GROUP_INSERT, "INSERT INTO fgroup(queue_id,fp,version,rules,status,muted_until,muted_deaths,status_at,merged_into," \
	                "merged,error_type,normal,sample) VALUES(?1,?2,?3,?4,0,0,0,?5,0,0,?6,?7,?8)")                   \
	X(GROUP_COUNT_INSERT, "INSERT INTO fgroup_count VALUES(?1,?2,0,0,0,0,0,0,0,0,0,0,0,0)")                         \
	X(GROUP_COUNT_UPDATE, "UPDATE fgroup_count SET last_no=?2,dead=?3,redriving=?4,redriven=?5,failed_again=?6,discarded=?7," \
	                      "archived=?8,deaths=?9,failures=?10,recovered=?11,first_seen=?12,last_seen=?13 WHERE group_id=?1") \
	X(GROUP_LOAD, "SELECT g.queue_id,g.fp,g.status,g.muted_until,g.muted_deaths,g.merged_into,g.merged,c.last_no,c.dead," \
	              "c.redriving,c.redriven,c.failed_again,c.discarded,c.archived,c.deaths,c.failures,c.recovered,"   \
	              "c.first_seen,c.last_seen,(SELECT count(*) FROM fgroup_worker w WHERE w.group_id=g.group_id)"     \
	              " FROM fgroup g JOIN fgroup_count c ON c.group_id=g.group_id WHERE g.group_id=?1")                \
	X(GROUP_STATUS, "UPDATE fgroup SET status=?2,muted_until=?3,muted_deaths=?4,status_at=?5 WHERE group_id=?1")    \
	X(GROUP_TEXT, "UPDATE fgroup SET note=?2,owner=?3 WHERE group_id=?1")                                           \
	X(GROUP_MERGE, "UPDATE fgroup SET merged_into=?2,merged=?3 WHERE group_id=?1")                                  \
	X(GROUP_MEMBERS, "SELECT group_id FROM fgroup WHERE merged_into=?1 AND merged_into>0 ORDER BY group_id")        \
	X(GROUP_WORKER_ADD, "UPDATE fgroup_worker SET failures=failures+?4,last_at=max(last_at,?5)"                     \
	                    " WHERE group_id=?1 AND worker=?2 AND version=?3")                                          \
	X(GROUP_WORKER_NEW, "INSERT INTO fgroup_worker VALUES(?1,?2,?3,?4,?5,?6) ON CONFLICT(group_id,worker,version)"  \
	                    " DO UPDATE SET failures=failures+excluded.failures,last_at=max(last_at,excluded.last_at)") \
	X(GROUP_WORKERS, "SELECT worker,version,failures,first_at,last_at FROM fgroup_worker WHERE group_id=?1"         \
	                 " ORDER BY failures DESC,worker,version")                                                      \
	X(GROUP_READ, "SELECT " GROUP_COLUMNS " FROM fgroup g JOIN fgroup_count c ON c.group_id=g.group_id"             \
	              " LEFT JOIN queue q ON q.queue_id=g.queue_id WHERE g.group_id=?1")                                \
	X(GROUP_PAGE, "SELECT " GROUP_COLUMNS " FROM fgroup_count c CROSS JOIN fgroup g ON g.group_id=c.group_id"       \
	              " JOIN queue q ON q.queue_id=g.queue_id AND q.deleted_at IS NULL WHERE c.last_no<?1 ORDER BY c.last_no DESC") \
	X(GROUP_PAGE_QUEUE, "SELECT " GROUP_COLUMNS " FROM fgroup_count c CROSS JOIN fgroup g ON g.group_id=c.group_id" \
	              " JOIN queue q ON q.queue_id=g.queue_id WHERE c.last_no<?1 AND c.queue_id=?2 ORDER BY c.last_no DESC") \
	X(GROUP_DROP_WORKERS, "DELETE FROM fgroup_worker WHERE group_id IN (SELECT group_id FROM fgroup_count WHERE queue_id=?1)") \
	X(GROUP_DROP_COUNTS, "DELETE FROM fgroup_count WHERE queue_id=?1")                                              \
	X(GROUP_DROP, "DELETE FROM fgroup WHERE group_id IN (SELECT g.group_id FROM fgroup g WHERE g.queue_id=?1)")     \
	X(MINUTE_ADD, BUCKET_ADD("minute"))                                                                             \
	X(HOUR_ADD, BUCKET_ADD("hour"))                                                                                 \
	X(MINUTE_SWEEP, BUCKET_SWEEP("minute"))                                                                         \
	X(HOUR_SWEEP, BUCKET_SWEEP("hour"))                                                                             \
	X(MINUTE_GET, "SELECT failures,deaths,done FROM minute WHERE at=?1 AND queue_id=?2 AND group_id=?3")            \
	X(HOUR_GET, "SELECT failures,deaths,done FROM hour WHERE at=?1 AND queue_id=?2 AND group_id=?3")

#endif
