/* The table of the SQLite store. */
#include "store/sqlite/internal.h"

const struct store_ops sqlite_store_ops = {
	.name = "sqlite",
	.caps = 0,
#define OP(name) .name = sq_##name,
	OP(open) OP(close) OP(high_water_ms)
	OP(begin) OP(commit) OP(rollback) OP(maintain) OP(probe)
	OP(queue_create) OP(queue_update) OP(queue_pause) OP(queue_delete) OP(queue_load) OP(queue_counts)
	OP(send) OP(claim) OP(next_due)
	OP(done) OP(lease_get) OP(extend) OP(release) OP(retry) OP(bury)
	OP(expired_leases) OP(expired_ttl)
	OP(redrive_one) OP(discard_one) OP(give_up_one) OP(import_one) OP(retention_due) OP(archive_one) OP(dedup_sweep)
	OP(redrive_create) OP(redrive_next) OP(redrive_mark) OP(redrive_active)
	OP(redrive_state) OP(restore_one) OP(redrive_pick) OP(redrive_sweep) OP(group_get) OP(group_set)
	OP(audit_add) OP(token_add) OP(token_revoke) OP(token_load)
	OP(notice_due) OP(notice_done) OP(notice_later) OP(meta_set) OP(meta_get)
	OP(reader_open) OP(reader_close)
	OP(read_queues) OP(read_queue) OP(read_dead_list) OP(read_dead) OP(read_attempts) OP(read_expiring) OP(read_body)
	OP(read_redrives) OP(read_redrive) OP(read_audit) OP(read_audit_after)
	OP(read_redrive_items) OP(read_groups) OP(read_group) OP(read_group_merged) OP(read_group_workers)
	OP(read_buckets)
#undef OP
};
