/* statements_dead.h - the statements about dead letters and redrives; see statements.h. */
#ifndef STORE_SQLITE_STATEMENTS_DEAD_H
#define STORE_SQLITE_STATEMENTS_DEAD_H

#define DEAD_COLUMNS "d.seq,d.queue_id,d.state,d.reason,d.attempts,d.lease_expirations,d.redrives,d.died_no,d.first_died_at," \
	"d.first_failed_at,d.last_failed_at,d.died_at,d.state_at,d.body_bytes,d.edited,d.expires_due,d.redrive_id," \
	"d.message_id,d.key,d.error_type,d.message,d.worker,d.operator,d.why,p.received_at,p.ctype,p.headers,q.name,d.group_id,g.fp," \
	"d.imported_id"
#define REDRIVE_COLUMNS "n,queue_id,queue,state,operator,reason,until_no,cursor_no,total,sent,skipped,succeeded,failed_again," \
	"started_at,ended_at,group_id,g_first,g_wait,g_rate,g_stop,g_percent,halted_why,canary_until,cancelled," \
	"(SELECT fp FROM fgroup WHERE fgroup.group_id=redrive.group_id),action,to_queue_id,to_queue,override_limit,plan,plan_next," \
	"looked,changed,unchanged,edit_failed"
/* Whether the redrive takes dead letters of state ?4 (see enum redrive_action). */
#define TAKES "CASE ?4 WHEN 0 THEN action<>3 WHEN 4 THEN action=3 OR action=0 AND override_limit ELSE action=3 END"
/* The dead letters d that the redrive r has yet to handle; whether one with the action ?3 and override ?4 could want them, too. */
#define YET_OF_R "d.state IN (iif(r.action=3,3,0),iif(r.action=3 OR r.override_limit,4,0)) AND d.died_no>r.cursor_no AND d.died_no<=r.until_no"
#define MEETS_R "((r.action=3)=(?3=3) OR r.override_limit OR ?4)"
/* The rows for the condition, newest first, of each state by its index. */
#define ANY_STATE(where) \
	"SELECT seq,died_no FROM dead WHERE " where "state=0 AND died_no<?3 UNION ALL " \
	"SELECT seq,died_no FROM dead WHERE " where "state=1 AND died_no<?3 UNION ALL " \
	"SELECT seq,died_no FROM dead WHERE " where "state=2 AND died_no<?3 UNION ALL " \
	"SELECT seq,died_no FROM dead WHERE " where "state=3 AND died_no<?3 UNION ALL " \
	"SELECT seq,died_no FROM dead WHERE " where "state=4 AND died_no<?3 ORDER BY 2 DESC"
#define COUNT_TO(from) "SELECT count(*) FROM (SELECT 1 FROM " from " LIMIT ?3)"

#define STATEMENTS_DEAD(X)                                                                                              \
	/* failures and dead letters */                                                                                 \
	X(ATTEMPT_INSERT, "INSERT INTO attempt VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14)")                 \
	X(ATTEMPT_IMPORT, "INSERT OR IGNORE INTO attempt VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,0,?13)")         \
	X(ATTEMPT_GROUP, "SELECT group_id FROM attempt WHERE seq=?1 ORDER BY redrive DESC,n DESC LIMIT 1")              \
	X(ATTEMPT_DELETE, "DELETE FROM attempt WHERE seq=?1")                                                           \
	X(ATTEMPT_FIRST, "SELECT at FROM attempt WHERE seq=?1 ORDER BY redrive,n LIMIT 1")                              \
	X(ATTEMPT_LAST, "SELECT at,error_type,message,worker FROM attempt WHERE seq=?1 ORDER BY redrive DESC,n DESC LIMIT 1") \
	X(ATTEMPT_LIST, "SELECT redrive,n,at,outcome,http_status,exit_code,retry_at,error_type,message,worker,detail,"  \
	                "worker_version FROM attempt WHERE seq=?1 ORDER BY redrive DESC,n DESC LIMIT ?2")               \
	X(DEAD_INSERT, "INSERT INTO dead VALUES(?1,?2,?19,?3,?4,?5,?6,?7,?8,?9,?10,?8,?8,?11,0,?12,0,NULL,?13,?14,?15,?16,?17,NULL,NULL,?18,NULL)") \
	X(DEAD_IMPORT, "INSERT INTO dead VALUES(?1,?2,0,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,0,NULL,?16,?17,?18,?19,?20,?21,?22,?23,?24)") \
	X(DEAD_AGAIN, "UPDATE dead SET state=?14,reason=?2,attempts=?3,lease_expirations=?4,redrives=?5,died_no=?6,died_at=?7," \
	              "state_at=?7,last_failed_at=?8,expires_due=?9,error_type=?10,message=?11,worker=?12,"             \
	              "first_failed_at=iif(first_failed_at=0,?8,first_failed_at),group_id=?13,queue_id=?15 WHERE seq=?1") \
	X(DEAD_FACTS, "SELECT queue_id,state,redrives,died_no,first_died_at,redrive_n,key,message_id,body_bytes,edited,group_id" \
	              " FROM dead WHERE seq=?1")                                                                        \
	X(DEAD_STATE, "UPDATE dead SET state=?2,state_at=?3 WHERE seq=?1")                                              \
	X(DEAD_REDRIVE, "UPDATE dead SET state=1,state_at=?2,attempts=0,lease_expirations=0,redrives=?3,redrive_n=?4,"  \
	                "redrive_id=?5,operator=?6,why=?7,edited=?8 WHERE seq=?1")                                      \
	X(DEAD_END, "UPDATE dead SET state=?2,state_at=?3,operator=?4,why=?5 WHERE seq=?1")                             \
	X(DEAD_MEMBER, "UPDATE dead SET redrive_n=?2,redrive_id=?3 WHERE seq=?1")                                       \
	X(DEAD_RESTORE, "UPDATE dead SET state=0,state_at=?2,operator=?3,why=?4,died_no=?5 WHERE seq=?1")               \
	X(DEAD_NUMBER, "UPDATE dead SET died_no=?2 WHERE seq=?1")                                                       \
	/* Restored by hand: it is no longer what a job made it. */                                                     \
	X(DEAD_NO_MEMBER, "UPDATE dead SET redrive_n=0,redrive_id=NULL WHERE seq=?1 AND redrive_n>0 AND"                \
	                  " EXISTS(SELECT 1 FROM redrive r WHERE r.n=dead.redrive_n AND r.action<>0)")                  \
	X(DEAD_DELETE, "DELETE FROM dead WHERE seq=?1")                                                                 \
	X(DEAD_EXPIRY, "SELECT seq,expires_due FROM dead WHERE state=0 UNION ALL SELECT seq,expires_due FROM dead WHERE state=2" \
	               " UNION ALL SELECT seq,expires_due FROM dead WHERE state=3 UNION ALL"                            \
	               " SELECT seq,expires_due FROM dead WHERE state=4 ORDER BY 2 LIMIT ?1")                           \
	X(EXPIRING, COUNT_TO("dead WHERE state=0 AND expires_due<?2"))                                                  \
	X(EXPIRING_QUEUE, COUNT_TO("dead WHERE state=0 AND expires_due<?2 AND queue_id=?1"))                            \
	X(DEAD_ANY, "SELECT 1 FROM dead LIMIT 1")                                                                       \
	X(DEAD_IMPORTED, "SELECT seq,first_died_at FROM dead WHERE imported_id=?1 LIMIT 1")                             \
	X(PAYLOAD_THERE, "SELECT 1 FROM payload WHERE seq=?1")                                                          \
	X(PAYLOAD_IMPORT, "INSERT INTO payload VALUES(?1,?2,?3,NULL,?4,?5,0,?6,?7,?8)")                                 \
	X(PAYLOAD_HEADERS, "SELECT headers FROM payload WHERE seq=?1")                                                  \
	/* What the new row leaves as it is comes from the row before. */                                               \
	X(EDIT_INSERT, "INSERT INTO edit VALUES(?1,?2,?3,?4,coalesce(?5,(SELECT headers FROM edit WHERE seq=?1 ORDER BY n DESC LIMIT 1))," \
	               "coalesce(?6,(SELECT body FROM edit WHERE seq=?1 ORDER BY n DESC LIMIT 1)))")                    \
	X(EDIT_LAST, "SELECT headers,body FROM edit WHERE seq=?1 ORDER BY n DESC LIMIT 1")                              \
	X(EDIT_DELETE, "DELETE FROM edit WHERE seq=?1")                                                                 \
	X(HEADER_ADD, "INSERT OR IGNORE INTO dead_header VALUES(?2>>14,?1,?2,?3)")                                      \
	X(HEADER_DROP, "DELETE FROM dead_header WHERE part=?2>>14 AND h=?1 AND died_no=?2 AND seq=?3")                  \
	X(HEADER_HAS, "SELECT 1 FROM dead_header WHERE part=?2>>14 AND h=?1 AND died_no=?2 AND seq=?3")                 \
	X(NOTICE_INSERT, "INSERT INTO notice(seq,died_no,tries,due) VALUES(?1,?2,0,?3)")                                \
	X(NOTICE_DUE, "SELECT n,seq,died_no,tries,due,last_error FROM notice ORDER BY due,n LIMIT ?1")                  \
	X(NOTICE_DELETE, "DELETE FROM notice WHERE n=?1")                                                               \
	X(NOTICE_LATER, "UPDATE notice SET tries=tries+1,due=?2,last_error=?3 WHERE n=?1")                              \
	/* redrives */                                                                                                  \
	X(REDRIVE_INSERT, "INSERT INTO redrive(queue_id,queue,state,until_no,cursor_no,total,sent,skipped,succeeded,"   \
	                  "failed_again,started_at,ended_at,operator,reason,group_id,g_first,g_wait,g_rate,g_stop,g_percent," \
	                  "action,to_queue_id,to_queue,override_limit,plan,plan_next)"                                  \
	                  " VALUES(?1,?2,0,?3,0,?4,0,0,0,0,?5,0,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19)")  \
	X(REDRIVE_GROUP, "INSERT INTO redrive_group VALUES(?1,?2)")                                                     \
	X(REDRIVE_GROUPS, "SELECT group_id FROM redrive_group WHERE redrive_n=?1")                                      \
	X(REDRIVE_SCOPE, "INSERT INTO redrive_scope VALUES(?1,?2,?3,?4) ON CONFLICT DO UPDATE SET last_ord=excluded.last_ord" \
	                 " WHERE excluded.last_ord>last_ord")                                                           \
	X(REDRIVE_ITEM, "INSERT OR IGNORE INTO redrive_item(redrive_n,ord,seq,first_died_at,state,note) VALUES(?1,?2,?3,?4,?5,?6)") \
	X(REDRIVE_GET, "SELECT " REDRIVE_COLUMNS " FROM redrive WHERE n=?1")                                            \
	X(REDRIVE_ACTIVE, "SELECT " REDRIVE_COLUMNS " FROM redrive WHERE state IN (0,1,4) ORDER BY n")                  \
	X(REDRIVE_PAGE, "SELECT " REDRIVE_COLUMNS " FROM redrive WHERE n<?1 ORDER BY n DESC LIMIT ?2")                  \
	X(REDRIVE_STARTED, "SELECT started_at FROM redrive WHERE n=?1")                                                 \
	X(REDRIVE_OF_QUEUE, "SELECT n,started_at FROM redrive WHERE state IN (0,1,4) AND queue_id=?1 AND group_id=0 AND cursor_no<?2" \
	                    " AND until_no>=?2 AND n<>?3 AND " TAKES " LIMIT 1")                                        \
	X(REDRIVE_OF_GROUP, "SELECT n,started_at FROM redrive r WHERE state IN (0,1,4) AND group_id>0 AND cursor_no<?2" \
	                    " AND until_no>=?2 AND n<>?3 AND " TAKES " AND EXISTS(SELECT 1 FROM redrive_group x"        \
	                    " WHERE x.redrive_n=r.n AND x.group_id=?1) LIMIT 1")                                        \
	X(REDRIVE_OF_ITEM, "SELECT r.n,r.started_at FROM redrive_item i CROSS JOIN redrive r ON r.n=i.redrive_n"        \
	                   " WHERE i.seq=?1 AND i.state=0 AND r.state IN (0,1,4) AND r.queue_id=0 AND r.group_id=0"     \
	                   " AND i.ord>r.cursor_no AND (r.plan IS NULL OR i.ord=?2) AND r.n<>?3 LIMIT 1")               \
	X(RESTORE_AHEAD, "SELECT 1 FROM redrive WHERE state IN (0,1,4) AND action=3 AND until_no>=?1 AND (plan_next>?1 OR plan IS NULL" \
	                 " AND (queue_id>0 OR group_id>0) AND cursor_no<?1) LIMIT 1")                                   \
	X(REDRIVE_OVERLAP, "SELECT n,started_at FROM redrive r WHERE state IN (0,1,4) AND " MEETS_R " AND (queue_id=?1 AND group_id=0" \
	                   " AND EXISTS(SELECT 1 FROM dead d WHERE d.queue_id=?1 AND " YET_OF_R ") OR queue_id=0 AND group_id=0" \
	                   " AND EXISTS(SELECT 1 FROM redrive_scope x WHERE x.redrive_n=r.n AND x.queue_id=?1 AND x.last_ord>r.cursor_no)" \
	                   " OR group_id>0 AND EXISTS(SELECT 1 FROM fgroup f WHERE f.group_id=r.group_id AND f.queue_id=?1)" \
	                   " AND EXISTS(SELECT 1 FROM redrive_group x CROSS JOIN dead d ON d.group_id=x.group_id AND d.group_id>0" \
	                   " AND " YET_OF_R " WHERE x.redrive_n=r.n)) LIMIT 1")                                         \
	X(REDRIVE_OVERLAP_GROUP, "SELECT n,started_at FROM redrive r WHERE state IN (0,1,4) AND " MEETS_R " AND (((group_id=0 AND queue_id=?1)" \
	                   " OR (group_id>0 AND EXISTS(SELECT 1 FROM redrive_group x WHERE x.redrive_n=r.n AND x.group_id=?2)))" \
	                   " AND EXISTS(SELECT 1 FROM dead d WHERE d.group_id=?2 AND d.group_id>0 AND " YET_OF_R ")"    \
	                   " OR queue_id=0 AND group_id=0 AND EXISTS(SELECT 1 FROM redrive_scope x WHERE x.redrive_n=r.n" \
	                   " AND x.queue_id=?1 AND x.group_id=?2 AND x.last_ord>r.cursor_no)) LIMIT 1")                 \
	X(REDRIVE_NEXT_ITEM, "SELECT seq,ord FROM redrive_item WHERE redrive_n=?1 AND ord>?2 AND state=0 ORDER BY ord LIMIT ?3") \
	X(REDRIVE_CURSOR, "UPDATE redrive SET cursor_no=?2 WHERE n=?1")                                                 \
	X(REDRIVE_PICKED, "UPDATE redrive SET total=total+?2,skipped=skipped+?3,looked=looked+?4,changed=changed+?5,"   \
	                  "unchanged=unchanged+?6,edit_failed=edit_failed+?7,plan_next=?8 WHERE n=?1")                  \
	X(REDRIVE_MARK, "UPDATE redrive SET sent=sent+?2,skipped=skipped+?3,state=?4,"                                  \
	                "cancelled=iif(?4=3 AND state<>3,max(0,total-sent-?2-skipped-?3),cancelled),"                   \
	                "ended_at=iif(?4 IN (2,3) AND ended_at=0,?5,ended_at) WHERE n=?1")                              \
	X(REDRIVE_STATE, "UPDATE redrive SET state=?2,halted_why=?3,canary_until=?4,cursor_no=max(cursor_no,?5),"       \
	                 "cancelled=iif(?2=3 AND state<>3,max(0,total-sent-skipped),cancelled),"                        \
	                 "ended_at=iif(?2 IN (2,3) AND ended_at=0,?6,ended_at) WHERE n=?1")                             \
	X(ITEM_SENT, "UPDATE redrive_item SET state=1,sent_at=?3 WHERE seq=?2 AND redrive_n=?1")                        \
	X(ITEM_SKIPPED, "UPDATE redrive_item SET state=5,note=?3 WHERE seq=?2 AND redrive_n=?1")                        \
	X(ITEM_HANDLED, "UPDATE redrive_item SET state=2,sent_at=?3,outcome_at=?3 WHERE seq=?2 AND redrive_n=?1")       \
	X(ITEM_OUTCOME, "UPDATE redrive_item SET state=?3,outcome_at=?4 WHERE seq=?2 AND redrive_n=?1")                 \
	X(ITEM_PAGE, "SELECT i.ord,i.seq,i.state,i.sent_at,i.outcome_at,i.first_died_at,i.note FROM redrive_item i"     \
	             " WHERE i.redrive_n=?1 AND i.ord>?2 ORDER BY i.ord LIMIT ?3")                                      \
	X(STAGE_INSERT, "INSERT OR REPLACE INTO redrive_edit VALUES(?1,?2,?3,?4)")                                      \
	X(STAGE_GET, "SELECT headers,body FROM redrive_edit WHERE redrive_n=?1 AND seq=?2")                             \
	X(STAGE_DELETE, "DELETE FROM redrive_edit WHERE redrive_n=?1 AND seq=?2")                                       \
	X(STAGE_AFTER, "SELECT e.redrive_n,(SELECT r.state FROM redrive r WHERE r.n=e.redrive_n) FROM redrive_edit e"   \
	               " WHERE e.redrive_n>?1 ORDER BY e.redrive_n LIMIT 1")                                            \
	X(STAGE_SWEEP, "DELETE FROM redrive_edit WHERE rowid IN (SELECT rowid FROM redrive_edit WHERE redrive_n=?1 LIMIT ?2)") \
	X(REDRIVE_BALANCE, "UPDATE redrive SET skipped=total-sent WHERE n=?1 AND skipped<total-sent")                   \
	X(REDRIVE_SUCCEEDED, "UPDATE redrive SET succeeded=succeeded+1 WHERE n=?1")                                     \
	X(REDRIVE_FAILED, "UPDATE redrive SET failed_again=failed_again+1 WHERE n=?1")                                  \
	/* lists of dead letters: the keys, newest first, then each row; how many an index has, counted up to ?3 */     \
	X(LIST_QUEUE_STATE, "SELECT seq,died_no FROM dead WHERE queue_id=?1 AND state=?2 AND died_no<?3 ORDER BY died_no DESC") \
	X(LIST_STATE, "SELECT seq,died_no FROM dead WHERE state=?2 AND died_no<?3 ORDER BY died_no DESC")               \
	X(LIST_QUEUE, ANY_STATE("queue_id=?1 AND "))                                                                    \
	X(LIST_ALL, ANY_STATE(""))                                                                                      \
	X(LIST_KEY, "SELECT seq,died_no FROM dead WHERE queue_id=?1 AND key=?2 AND died_no<?3 ORDER BY died_no DESC")   \
	X(LIST_ERROR, "SELECT seq,died_no FROM dead WHERE queue_id=?1 AND error_type=?2 AND died_no<?3 ORDER BY died_no DESC") \
	X(LIST_HEADER, "SELECT seq,died_no FROM dead_header WHERE part=?2 AND h=?1 AND died_no<?3 ORDER BY died_no DESC") \
	X(HEADER_PART, "SELECT part FROM dead_header WHERE part<=?1 ORDER BY part DESC LIMIT 1")                        \
	X(LIST_REDRIVE, "SELECT seq,died_no FROM dead WHERE redrive_n=?1 AND redrive_n>0 AND died_no<?3 ORDER BY died_no DESC") \
	X(LIST_MESSAGE, "SELECT seq,died_no FROM dead WHERE message_id=?2 AND died_no<?3 UNION ALL "                    \
	                "SELECT seq,died_no FROM dead WHERE imported_id=?2 AND message_id IS NOT ?2 AND died_no<?3 UNION ALL " \
	                "SELECT seq,died_no FROM dead WHERE seq=?1 AND message_id IS NULL AND imported_id IS NOT ?2 AND died_no<?3 ORDER BY 2 DESC") \
	X(N_QUEUE_STATE, COUNT_TO("dead WHERE queue_id=?1 AND state=?2"))                                               \
	X(N_GROUP_STATE, COUNT_TO("dead WHERE group_id=?1 AND group_id>0 AND state=?2"))                                \
	X(N_KEY, COUNT_TO("dead WHERE queue_id=?1 AND key=?2"))                                                         \
	X(N_ERROR, COUNT_TO("dead WHERE queue_id=?1 AND error_type=?2"))                                                \
	X(N_HEADER, COUNT_TO("dead_header WHERE part=?2 AND h=?1"))                                                     \
	X(N_REDRIVE, COUNT_TO("dead WHERE redrive_n=?1 AND redrive_n>0"))                                               \
	X(QUEUE_IDS, "SELECT queue_id FROM queue ORDER BY queue_id")                                                    \
	X(WALK_GROUP_DOWN, "SELECT seq,died_no FROM dead WHERE group_id=?1 AND group_id>0 AND state=?2 AND died_no<?3"  \
	                   " ORDER BY died_no DESC LIMIT 1")                                                            \
	X(WALK_GROUP_UP, "SELECT seq,died_no FROM dead WHERE group_id=?1 AND group_id>0 AND state=?2 AND died_no>?3"    \
	                 " ORDER BY died_no LIMIT 1")                                                                   \
	X(WALK_QUEUE_UP, "SELECT seq,died_no FROM dead WHERE queue_id=?1 AND state=?2 AND died_no>?3 ORDER BY died_no LIMIT 1") \
	X(WALK_ERROR_DOWN, "SELECT seq,died_no FROM dead WHERE queue_id=?1 AND error_type=?4 AND died_no<?3"            \
	                   " ORDER BY died_no DESC LIMIT 1")                                                            \
	X(DEAD_CHECK, "SELECT queue_id,state,reason,died_at,error_type,key,group_id,redrive_n,expires_due,edited FROM dead WHERE seq=?1") \
	X(DEAD_READ, "SELECT " DEAD_COLUMNS " FROM dead d JOIN payload p ON p.seq=d.seq LEFT JOIN queue q ON q.queue_id=d.queue_id" \
	             " LEFT JOIN fgroup g ON g.group_id=d.group_id WHERE d.seq=?1")                                     \
	X(BODY_PLAIN, "SELECT body FROM payload WHERE seq=?1")                                                          \
	X(BODY_READ, "SELECT p.body,p.ctype,d.edited FROM dead d JOIN payload p ON p.seq=d.seq WHERE d.seq=?1")

#endif
