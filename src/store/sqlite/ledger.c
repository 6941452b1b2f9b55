/* Reads of redrives, their members, and the audit trail; and adding a row to its chain. */
#include "core/audit_chain.h"
#include "store/sqlite/internal.h"

enum dlq_code sq_read_redrives(struct store_reader *reader, int64_t before_n, int limit, struct arena *a,
                               struct store_redrive **out, int *n, struct dlq_err *err)
{
	struct sq_reader *r = rd(reader);
	*out = NULL;
	*n = 0;
	read_begin(r);
	sqlite3_stmt *st = q_bind(&r->c, Q_REDRIVE_PAGE, "ii", before_n ? before_n : INT64_MAX, I(page_limit(limit)));
	while (q_row(&r->c, st)) {
		*out = list_grow(a, *out, *n, sizeof(**out));
		redrive_row(r->store, st, a, &(*out)[(*n)++]);
	}
	return read_end(r, DLQ_OK, err);
}

enum dlq_code sq_read_redrive(struct store_reader *reader, int64_t n, struct arena *a, struct store_redrive *out,
                              struct dlq_err *err)
{
	struct sq_reader *r = rd(reader);
	enum dlq_code c = DLQ_OK;
	read_begin(r);
	sqlite3_stmt *st = q_bind(&r->c, Q_REDRIVE_GET, "i", n);
	if (q_row(&r->c, st)) {
		redrive_row(r->store, st, a, out);
		q_end(st);
	} else if (!r->c.rc) {
		c = err_set(err, DLQ_NOT_FOUND, "there is no such redrive");
	}
	return read_end(r, c, err);
}

/* What became of a member is written when it is handled; where nothing was, the redrive itself says it. */
static enum item_state item_state_of(const struct store_redrive *r, int64_t ord, enum item_state s)
{
	if (s != ITEM_SELECTED)
		return s;
	if (ord <= r->cursor_no || r->state == REDRIVE_DONE)
		return ITEM_SKIPPED;
	return r->state == REDRIVE_CANCELLED ? ITEM_CANCELLED : s;
}

static void item_row(const struct sq_store *s, sqlite3_stmt *st, const struct store_redrive *r,
                     struct arena *a, struct store_redrive_item *out)
{
	*out = (struct store_redrive_item){
	    .seq = col(st, 1),
	    .state = item_state_of(r, col(st, 0), (enum item_state)col(st, 2)),
	    .sent_at_ms = col(st, 3),
	    .outcome_at_ms = col(st, 4),
	};
	out->note = col_copy(st, 6, a);
	if (col(st, 5))
		id_dead(s, col(st, 5), out->seq, out->dlq_id);
}

enum dlq_code sq_read_redrive_items(struct store_reader *reader, int64_t redrive_n, int64_t after_ord, int limit,
                                    struct arena *a, struct store_redrive_item **out, int *n, int64_t *next,
                                    struct dlq_err *err)
{
	struct sq_reader *r = rd(reader);
	struct store_redrive of = {0};
	int64_t last = 0;
	*out = NULL;
	*n = 0;
	*next = 0;
	limit = page_limit(limit);
	read_begin(r);
	sqlite3_stmt *st = q_bind(&r->c, Q_REDRIVE_GET, "i", redrive_n);
	if (!q_row(&r->c, st)) {
		enum dlq_code c = r->c.rc ? DLQ_OK : err_set(err, DLQ_NOT_FOUND, "there is no such redrive");
		return read_end(r, c, err);
	}
	redrive_row(r->store, st, a, &of);
	q_end(st);
	st = q_bind(&r->c, Q_ITEM_PAGE, "iii", redrive_n, after_ord, I(limit) + 1);
	while (q_row(&r->c, st)) {
		if (*n == limit) {
			*next = last;
			q_end(st);
			break;
		}
		last = col(st, 0);
		*out = list_grow(a, *out, *n, sizeof(**out));
		item_row(r->store, st, &of, a, &(*out)[(*n)++]);
	}
	return read_end(r, DLQ_OK, err);
}

/* ---- audit ---- */

static void audit_row(sqlite3_stmt *st, struct arena *a, struct store_audit *out)
{
	*out = (struct store_audit){
	    .n = col(st, 0),
	    .at_ms = col(st, 1),
	    .operator = col_copy(st, 2, a),
	    .action = col_copy(st, 3, a),
	    .queue = col_copy(st, 4, a),
	    .target = col_copy(st, 5, a),
	    .reason = col_copy(st, 6, a),
	    .outcome = col_copy(st, 7, a),
	    .detail = col_copy(st, 8, a),
	};
	struct str hash = col_str(st, 9);
	if (hash.n == sizeof(out->hash))
		memcpy(out->hash, hash.p, hash.n);
}

static enum dlq_code audit_page(struct sq_reader *r, enum statement q, int64_t from, int limit, struct arena *a,
                                struct store_audit **out, int *n, struct dlq_err *err)
{
	*out = NULL;
	*n = 0;
	read_begin(r);
	sqlite3_stmt *st = q_bind(&r->c, q, "ii", from, I(page_limit(limit)));
	while (q_row(&r->c, st)) {
		*out = list_grow(a, *out, *n, sizeof(**out));
		audit_row(st, a, &(*out)[(*n)++]);
	}
	return read_end(r, DLQ_OK, err);
}

enum dlq_code sq_read_audit(struct store_reader *reader, int64_t before_n, int limit, struct arena *a,
                            struct store_audit **out, int *n, struct dlq_err *err)
{
	return audit_page(rd(reader), Q_AUDIT_PAGE, before_n ? before_n : INT64_MAX, limit, a, out, n, err);
}

enum dlq_code sq_read_audit_after(struct store_reader *reader, int64_t after_n, int limit, struct arena *a,
                                  struct store_audit **out, int *n, struct dlq_err *err)
{
	return audit_page(rd(reader), Q_AUDIT_AFTER, after_n, limit, a, out, n, err);
}

static void audit_link_add(struct sq_store *s, const uint8_t prev[AUDIT_HASH_LEN], const struct audit_link *l,
                           uint8_t hash[AUDIT_HASH_LEN])
{
	audit_chain_next(prev, l, hash);
	q_run(&s->w, Q_AUDIT_INSERT, "iitttttttb", l->n, l->at_ms, l->operator, l->action, l->queue, l->target, l->reason,
	      l->outcome, l->detail, (struct str){(const char *)hash, AUDIT_HASH_LEN});
}

enum dlq_code sq_audit_add(struct store *store, const struct store_audit *row, struct dlq_err *err)
{
	struct sq_store *s = sq(store);
	uint8_t hash[AUDIT_HASH_LEN] = {0};
	int64_t last = 0;
	bool unchained = false;
	sqlite3_stmt *st = q_get(&s->w, Q_AUDIT_LAST);
	if (q_row(&s->w, st)) {
		struct str prev = col_str(st, 1);
		last = col(st, 0);
		unchained = prev.n != sizeof(hash);
		if (!unchained)
			memcpy(hash, prev.p, prev.n);
		q_end(st);
	}
	if (unchained) { /* rows from before the chain: it begins with a row that says so */
		struct audit_link mark = {.n = ++last,
		                          .at_ms = row->at_ms,
		                          .operator = STR("dlq"),
		                          .action = STR("audit.chain"),
		                          .outcome = STR("ok"),
		                          .detail = STR("the chain starts here; the rows before have no link")};
		audit_link_add(s, hash, &mark, hash);
	}
	struct audit_link l = {last + 1,       row->at_ms,   row->operator, row->action, row->queue,
	                       row->target, row->reason, row->outcome,  row->detail};
	audit_link_add(s, hash, &l, hash);
	return conn_code(&s->w, err);
}
