/* Entries of the table that are not built yet. */
#include "store/sqlite/internal.h"

#define PENDING(name, ...)                                                                                             \
	enum dlq_code sq_##name(__VA_ARGS__, struct dlq_err *err)                                                       \
	{                                                                                                              \
		return err_set(err, DLQ_INTERNAL, #name " is not built yet");                                          \
	}
#pragma GCC diagnostic ignored "-Wunused-parameter"
PENDING(redrive_state, struct store *s, const struct store_redrive *r)
PENDING(restore_one, struct store *s, int64_t seq, struct str operator, struct str why)
PENDING(group_get, struct store *s, const uint8_t fp[16], struct arena *a, struct store_group *out)
PENDING(group_set, struct store *s, const struct store_group *g)
PENDING(read_audit_after, struct store_reader *r, int64_t after_n, int limit, struct arena *a, struct store_audit **out, int *n)
PENDING(read_redrive_items, struct store_reader *r, int64_t redrive_n, int64_t after_ord, int limit, struct arena *a, struct store_redrive_item **out, int *n, int64_t *next)
PENDING(read_groups, struct store_reader *r, const struct store_group_filter *f, struct arena *a, struct store_group_page *out)
PENDING(read_group, struct store_reader *r, const uint8_t fp[16], struct arena *a, struct store_group *out)
PENDING(read_group_merged, struct store_reader *r, int64_t group_id, struct arena *a, struct store_group **out, int *n)
PENDING(read_group_workers, struct store_reader *r, int64_t group_id, struct arena *a, struct store_group_worker **out, int *n)
PENDING(read_buckets, struct store_reader *r, int64_t queue_id, int64_t group_id, int64_t step_ms, int64_t from_ms, int64_t to_ms, struct arena *a, struct store_bucket **out, int *n)
