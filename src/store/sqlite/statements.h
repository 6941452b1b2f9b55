/* statements.h - every statement of the store, by name. X(name, sql); prepared at first use, one set per connection. */
#ifndef STORE_SQLITE_STATEMENTS_H
#define STORE_SQLITE_STATEMENTS_H

#define COUNT_COLUMNS "c.ready,c.retrying,c.held,c.leased,c.dead,c.redriving,c.bytes,c.sent,c.done,c.failed_attempts," \
	"c.died,c.redriven,c.discarded,c.archived,c.duplicates"
#define CLAIM_SELECT "SELECT r.seq,r.due,r.attempts,r.lease_expirations,r.redrives,r.previous_delay,p.received_at," \
	"p.expires,p.id,p.key,p.ctype,p.headers,p.body FROM ready r CROSS JOIN payload p ON p.seq=r.seq" \
	" WHERE r.queue_id=?1 AND r.due<=?2"
#define DEAD_COLUMNS "d.seq,d.queue_id,d.state,d.reason,d.attempts,d.lease_expirations,d.redrives,d.died_no,d.first_died_at," \
	"d.first_failed_at,d.last_failed_at,d.died_at,d.state_at,d.body_bytes,d.edited,d.expires_due,d.redrive_id," \
	"d.message_id,d.key,d.error_type,d.message,d.worker,d.operator,d.why,p.received_at,p.ctype,p.headers,q.name,d.group_id,g.fp"
#define REDRIVE_COLUMNS "n,queue_id,queue,state,operator,reason,until_no,cursor_no,total,sent,skipped,succeeded,failed_again," \
	"started_at,ended_at,group_id,g_first,g_wait,g_rate,g_stop,g_percent,halted_why,canary_until,cancelled," \
	"(SELECT fp FROM fgroup WHERE fgroup.group_id=redrive.group_id)"
#define GROUP_COLUMNS "g.group_id,g.queue_id,q.name,g.fp,g.version,g.rules,g.error_type,g.normal,g.sample,g.status,g.muted_until," \
	"g.muted_deaths,g.status_at,g.note,g.owner,g.merged_into,g.merged,c.dead,c.redriving,c.redriven,c.failed_again," \
	"c.discarded,c.archived,c.deaths,c.failures,c.recovered,c.first_seen,c.last_seen,c.last_no"
#define BUCKET_ADD(table) "INSERT INTO " table " VALUES(?1,?2,?3,?4,?5,?6) ON CONFLICT(at,queue_id,group_id) DO UPDATE SET" \
	" failures=failures+excluded.failures,deaths=deaths+excluded.deaths,done=done+excluded.done"
#define BUCKET_SWEEP(table) "DELETE FROM " table " WHERE (at,queue_id,group_id) IN (SELECT at,queue_id,group_id FROM " table \
	" WHERE at<?1 ORDER BY at LIMIT ?2)"
#define OF_GROUP "d.group_id>0 AND d.state=0 AND d.died_no>r.cursor_no AND d.died_no<=r.until_no"

#define STATEMENTS(X)                                                                                                   \
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
	X(COUNT_INSERT, "INSERT INTO queue_count VALUES(?1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0)")                             \
	X(COUNT_DELETE, "DELETE FROM queue_count WHERE queue_id=?1")                                                    \
	X(COUNT_UPDATE, "UPDATE queue_count SET ready=?2,retrying=?3,held=?4,leased=?5,dead=?6,redriving=?7,bytes=?8,"  \
	                "sent=?9,done=?10,failed_attempts=?11,died=?12,redriven=?13,discarded=?14,archived=?15,"        \
	                "duplicates=?16 WHERE queue_id=?1")                                                             \
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
	X(PAYLOAD_FACTS, "SELECT received_at,expires,key,id,length(body) FROM payload WHERE seq=?1")                    \
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
	X(LANE_DELETE, "DELETE FROM lane WHERE queue_id=?1 AND key=?2 AND seq=?3")                                      \
	/* leases */                                                                                                    \
	X(CLAIM, CLAIM_SELECT " ORDER BY r.due,r.seq LIMIT ?3")                                                         \
	X(CLAIM_TTL, CLAIM_SELECT " AND (p.expires IS NULL OR p.expires>?2 OR r.redrives>0) ORDER BY r.due,r.seq LIMIT ?3") \
	X(EDIT_LAST, "SELECT body FROM edit WHERE seq=?1 ORDER BY n DESC LIMIT 1")                                      \
	X(LEASE_INSERT, "INSERT INTO leased VALUES(?4,?1,?2,?5,?6,?7,?8,?9,?10,?3)")                                    \
	X(LEASE_PEEK, "SELECT queue_id,nonce,attempts,redrives,size FROM leased WHERE seq=?1")                          \
	X(LEASE_GET, "SELECT queue_id,nonce,attempts,lease_expirations,redrives,previous_delay,worker,size,until"       \
	             " FROM leased WHERE seq=?1")                                                                       \
	X(LEASE_EXTEND, "UPDATE leased SET until=?4 WHERE seq=?1 AND queue_id=?2 AND nonce=?3")                         \
	X(LEASE_DELETE, "DELETE FROM leased WHERE seq=?1")                                                              \
	X(LEASE_SCAN, "SELECT until,seq FROM leased")                                                                   \
	/* failures and dead letters */                                                                                 \
	X(ATTEMPT_INSERT, "INSERT INTO attempt VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14)")                 \
	X(ATTEMPT_GROUP, "SELECT group_id FROM attempt WHERE seq=?1 ORDER BY redrive DESC,n DESC LIMIT 1")              \
	X(ATTEMPT_DELETE, "DELETE FROM attempt WHERE seq=?1")                                                           \
	X(ATTEMPT_FIRST, "SELECT at FROM attempt WHERE seq=?1 ORDER BY redrive,n LIMIT 1")                              \
	X(ATTEMPT_LAST, "SELECT at,error_type,message,worker FROM attempt WHERE seq=?1 ORDER BY redrive DESC,n DESC LIMIT 1") \
	X(ATTEMPT_LIST, "SELECT redrive,n,at,outcome,http_status,exit_code,retry_at,error_type,message,worker,detail,"  \
	                "worker_version FROM attempt WHERE seq=?1 ORDER BY redrive DESC,n DESC LIMIT ?2")               \
	X(DEAD_INSERT, "INSERT INTO dead VALUES(?1,?2,0,?3,?4,?5,?6,?7,?8,?9,?10,?8,?8,?11,0,?12,0,NULL,?13,?14,?15,?16,?17,NULL,NULL,?18)") \
	X(DEAD_AGAIN, "UPDATE dead SET state=0,reason=?2,attempts=?3,lease_expirations=?4,redrives=?5,died_no=?6,died_at=?7," \
	              "state_at=?7,last_failed_at=?8,expires_due=?9,error_type=?10,message=?11,worker=?12,"             \
	              "first_failed_at=iif(first_failed_at=0,?8,first_failed_at),group_id=?13 WHERE seq=?1")            \
	X(DEAD_FACTS, "SELECT queue_id,state,redrives,died_no,first_died_at,redrive_n,key,message_id,body_bytes,edited,group_id" \
	              " FROM dead WHERE seq=?1")                                                                        \
	X(DEAD_STATE, "UPDATE dead SET state=?2,state_at=?3 WHERE seq=?1")                                              \
	X(DEAD_REDRIVE, "UPDATE dead SET state=1,state_at=?2,attempts=0,lease_expirations=0,redrives=?3,redrive_n=?4,"  \
	                "redrive_id=?5,operator=?6,why=?7,edited=?8 WHERE seq=?1")                                      \
	X(DEAD_DISCARD, "UPDATE dead SET state=3,state_at=?2,operator=?3,why=?4 WHERE seq=?1")                          \
	X(DEAD_RESTORE, "UPDATE dead SET state=0,state_at=?2,operator=?3,why=?4,died_no=?5 WHERE seq=?1")               \
	X(DEAD_DELETE, "DELETE FROM dead WHERE seq=?1")                                                                 \
	X(DEAD_EXPIRY, "SELECT seq,expires_due FROM dead WHERE state<>1 ORDER BY expires_due LIMIT ?1")                 \
	X(EDIT_INSERT, "INSERT INTO edit VALUES(?1,?2,?3,?4,?5)")                                                       \
	X(EDIT_DELETE, "DELETE FROM edit WHERE seq=?1")                                                                 \
	X(NOTICE_INSERT, "INSERT INTO notice(seq,died_no,tries,due) VALUES(?1,?2,0,?3)")                                \
	X(NOTICE_DUE, "SELECT n,seq,died_no,tries,due,last_error FROM notice ORDER BY due,n LIMIT ?1")                  \
	X(NOTICE_DELETE, "DELETE FROM notice WHERE n=?1")                                                               \
	X(NOTICE_LATER, "UPDATE notice SET tries=tries+1,due=?2,last_error=?3 WHERE n=?1")                              \
	/* redrives */                                                                                                  \
	X(REDRIVE_INSERT, "INSERT INTO redrive(queue_id,queue,state,until_no,cursor_no,total,sent,skipped,succeeded,"   \
	                  "failed_again,started_at,ended_at,operator,reason,group_id,g_first,g_wait,g_rate,g_stop,g_percent)" \
	                  " VALUES(?1,?2,0,?3,0,?4,0,0,0,0,?5,0,?6,?7,?8,?9,?10,?11,?12,?13)")                          \
	X(REDRIVE_GROUP, "INSERT INTO redrive_group VALUES(?1,?2)")                                                     \
	X(REDRIVE_GROUPS, "SELECT group_id FROM redrive_group WHERE redrive_n=?1")                                      \
	X(REDRIVE_ITEM, "INSERT OR IGNORE INTO redrive_item(redrive_n,ord,seq,first_died_at) VALUES(?1,?2,?3,?4)")      \
	X(REDRIVE_GET, "SELECT " REDRIVE_COLUMNS " FROM redrive WHERE n=?1")                                            \
	X(REDRIVE_ACTIVE, "SELECT " REDRIVE_COLUMNS " FROM redrive WHERE state IN (0,1,4) ORDER BY n")                  \
	X(REDRIVE_PAGE, "SELECT " REDRIVE_COLUMNS " FROM redrive WHERE n<?1 ORDER BY n DESC LIMIT ?2")                  \
	X(REDRIVE_OF_QUEUE, "SELECT n,started_at FROM redrive WHERE state IN (0,1,4) AND queue_id=?1 AND group_id=0 AND cursor_no<?2" \
	                    " AND until_no>=?2 AND n<>?3 LIMIT 1")                                                      \
	X(REDRIVE_OF_GROUP, "SELECT n,started_at FROM redrive r WHERE state IN (0,1,4) AND group_id>0 AND cursor_no<?2" \
	                    " AND until_no>=?2 AND n<>?3 AND EXISTS(SELECT 1 FROM redrive_group x WHERE x.redrive_n=r.n" \
	                    " AND x.group_id=?1) LIMIT 1")                                                              \
	X(REDRIVE_OF_ITEM, "SELECT r.n,r.started_at FROM redrive_item i CROSS JOIN redrive r ON r.n=i.redrive_n"        \
	                   " WHERE i.seq=?1 AND r.state IN (0,1,4) AND r.queue_id=0 AND r.group_id=0 AND i.ord>r.cursor_no AND r.n<>?2 LIMIT 1") \
	X(REDRIVE_OVERLAP, "SELECT n,started_at FROM redrive r WHERE state IN (0,1,4) AND (queue_id=?1 AND group_id=0 AND EXISTS(SELECT 1 FROM dead d" \
	                   " WHERE d.queue_id=?1 AND d.state=0 AND d.died_no>r.cursor_no AND d.died_no<=r.until_no)"    \
	                   " OR queue_id=0 AND group_id=0 AND EXISTS(SELECT 1 FROM redrive_item i JOIN dead d ON d.seq=i.seq" \
	                   " WHERE i.redrive_n=r.n AND i.ord>r.cursor_no AND d.queue_id=?1 AND d.state=0)"              \
	                   " OR group_id>0 AND EXISTS(SELECT 1 FROM redrive_group x JOIN dead d ON d.group_id=x.group_id" \
	                   " AND " OF_GROUP " WHERE x.redrive_n=r.n AND d.queue_id=?1)) LIMIT 1")                       \
	X(REDRIVE_OVERLAP_GROUP, "SELECT n,started_at FROM redrive r WHERE state IN (0,1,4) AND (((group_id=0 AND queue_id=?2)" \
	                   " OR (group_id>0 AND EXISTS(SELECT 1 FROM redrive_group x WHERE x.redrive_n=r.n AND x.group_id=?1)))" \
	                   " AND EXISTS(SELECT 1 FROM dead d WHERE d.group_id=?1 AND " OF_GROUP ")"                     \
	                   " OR queue_id=0 AND group_id=0 AND EXISTS(SELECT 1 FROM redrive_item i JOIN dead d ON d.seq=i.seq" \
	                   " WHERE i.redrive_n=r.n AND i.ord>r.cursor_no AND d.group_id=?1 AND d.state=0)) LIMIT 1")    \
	X(REDRIVE_NEXT_QUEUE, "SELECT seq,died_no FROM dead WHERE queue_id=?1 AND state=0 AND died_no>?2 AND died_no<=?3" \
	                      " ORDER BY died_no LIMIT ?4")                                                             \
	X(REDRIVE_NEXT_ITEM, "SELECT seq,ord FROM redrive_item WHERE redrive_n=?1 AND ord>?2 ORDER BY ord LIMIT ?3")    \
	X(REDRIVE_CURSOR, "UPDATE redrive SET cursor_no=?2 WHERE n=?1")                                                 \
	X(REDRIVE_MARK, "UPDATE redrive SET sent=sent+?2,skipped=skipped+?3,state=?4,"                                  \
	                "cancelled=iif(?4=3 AND state<>3,max(0,total-sent-?2-skipped-?3),cancelled),"                   \
	                "ended_at=iif(?4 IN (2,3) AND ended_at=0,?5,ended_at) WHERE n=?1")                              \
	X(REDRIVE_STATE, "UPDATE redrive SET state=?2,halted_why=?3,canary_until=?4,cursor_no=max(cursor_no,?5),"       \
	                 "cancelled=iif(?2=3 AND state<>3,max(0,total-sent-skipped),cancelled),"                        \
	                 "ended_at=iif(?2 IN (2,3) AND ended_at=0,?6,ended_at) WHERE n=?1")                             \
	X(ITEM_SENT, "UPDATE redrive_item SET state=1,sent_at=?3 WHERE seq=?2 AND redrive_n=?1")                        \
	X(ITEM_OUTCOME, "UPDATE redrive_item SET state=?3,outcome_at=?4 WHERE seq=?2 AND redrive_n=?1")                 \
	X(ITEM_PAGE, "SELECT i.ord,i.seq,i.state,i.sent_at,i.outcome_at,i.first_died_at FROM redrive_item i"            \
	             " WHERE i.redrive_n=?1 AND i.ord>?2 ORDER BY i.ord LIMIT ?3")                                      \
	X(REDRIVE_BALANCE, "UPDATE redrive SET skipped=total-sent WHERE n=?1 AND skipped<total-sent")                   \
	X(REDRIVE_SUCCEEDED, "UPDATE redrive SET succeeded=succeeded+1 WHERE n=?1")                                     \
	X(REDRIVE_FAILED, "UPDATE redrive SET failed_again=failed_again+1 WHERE n=?1")                                  \
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
	/* lists of dead letters: the keys, newest first, then each row */                                              \
	X(LIST_QUEUE_STATE, "SELECT seq,died_no FROM dead WHERE queue_id=?1 AND state=?2 AND died_no<?3 ORDER BY died_no DESC") \
	X(LIST_STATE, "SELECT seq,died_no FROM dead WHERE state=?2 AND died_no<?3 ORDER BY died_no DESC")               \
	X(LIST_QUEUE, "SELECT seq,died_no FROM dead WHERE queue_id=?1 AND state=0 AND died_no<?3 UNION ALL "            \
	              "SELECT seq,died_no FROM dead WHERE queue_id=?1 AND state=1 AND died_no<?3 UNION ALL "            \
	              "SELECT seq,died_no FROM dead WHERE queue_id=?1 AND state=2 AND died_no<?3 UNION ALL "            \
	              "SELECT seq,died_no FROM dead WHERE queue_id=?1 AND state=3 AND died_no<?3 ORDER BY 2 DESC")      \
	X(LIST_ALL, "SELECT seq,died_no FROM dead WHERE state=0 AND died_no<?3 UNION ALL "                              \
	            "SELECT seq,died_no FROM dead WHERE state=1 AND died_no<?3 UNION ALL "                              \
	            "SELECT seq,died_no FROM dead WHERE state=2 AND died_no<?3 UNION ALL "                              \
	            "SELECT seq,died_no FROM dead WHERE state=3 AND died_no<?3 ORDER BY 2 DESC")                        \
	X(LIST_KEY, "SELECT seq,died_no FROM dead WHERE queue_id=?1 AND key=?4 AND died_no<?3 ORDER BY died_no DESC")   \
	X(LIST_MESSAGE, "SELECT seq,died_no FROM dead WHERE message_id=?5 AND died_no<?3 UNION ALL "                    \
	                "SELECT seq,died_no FROM dead WHERE seq=?6 AND message_id IS NULL AND died_no<?3 ORDER BY 2 DESC") \
	X(WALK_DOWN, "SELECT seq,died_no FROM dead WHERE group_id=?1 AND group_id>0 AND state=?2 AND died_no<?3"        \
	             " ORDER BY died_no DESC LIMIT 1")                                                                  \
	X(WALK_UP, "SELECT seq,died_no FROM dead WHERE group_id=?1 AND group_id>0 AND state=?2 AND died_no>?3"          \
	           " ORDER BY died_no LIMIT 1")                                                                         \
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
	X(HOUR_GET, "SELECT failures,deaths,done FROM hour WHERE at=?1 AND queue_id=?2 AND group_id=?3")                \
	X(DEAD_CHECK, "SELECT queue_id,state,reason,died_at,error_type,key,group_id FROM dead WHERE seq=?1")            \
	X(DEAD_READ, "SELECT " DEAD_COLUMNS " FROM dead d JOIN payload p ON p.seq=d.seq LEFT JOIN queue q ON q.queue_id=d.queue_id" \
	             " LEFT JOIN fgroup g ON g.group_id=d.group_id WHERE d.seq=?1")                                     \
	X(BODY_READ, "SELECT p.body,p.ctype,d.edited FROM dead d JOIN payload p ON p.seq=d.seq WHERE d.seq=?1")

#endif
