/* Lists of dead letters: the index that leads, then each row looked at, within bounds of rows, bytes and time. */
#include "store/sqlite/internal.h"

#define SCAN_ROWS 10000
#define SCAN_BYTES (INT64_C(8) << 20)
#define SCAN_US 1000000
#define NARROW_ROWS 1000 /* how far the rows of an index are counted to choose one */

/* The keys to look at, newest first: of one statement, of one for each part of the headers, or of a walk over groups or queues. */
struct keys {
	sqlite3_stmt *st;
	struct dead_walk walk;
	struct arena heads;
	int64_t part, hash, before; /* of the header that leads: the part under way */
};

struct list {
	struct sq_reader *r;
	const struct store_dead_filter *f;
	int64_t hashes[FILTER_HEADERS_MAX];
	int lead_header; /* the one that leads; -1: none */
	int64_t bytes;   /* of bodies, so far */
	int64_t family[GROUP_MERGED_MAX + 1];
	int n_family;
};

/* ---- which index leads ---- */

enum lead { LEAD_STATE, LEAD_MESSAGE, LEAD_HEADER, LEAD_KEY, LEAD_REDRIVE, LEAD_ERROR, LEAD_GROUP };

struct narrow {
	enum lead lead;
	int header;
	int64_t rows;
};

static void consider(struct narrow *best, enum lead lead, int header, int64_t rows)
{
	if (rows > NARROW_ROWS) /* counted in parts, each up to the bound: so wide all are the same */
		rows = NARROW_ROWS;
	if (rows < best->rows)
		*best = (struct narrow){lead, header, rows};
}

static int64_t rows_of(struct list *l, enum statement q, int64_t of, int64_t state)
{
	int64_t n = 0;
	q_int(&l->r->c, q, &n, "iii", of, state, I(NARROW_ROWS));
	return n;
}

static int64_t rows_of_text(struct list *l, enum statement q, int64_t of, struct str text)
{
	int64_t n = 0;
	q_int(&l->r->c, q, &n, "iti", of, text, I(NARROW_ROWS));
	return n;
}

/* The newest part that is not above; -1: there is none. */
static int64_t part_below(struct list *l, int64_t part)
{
	int64_t found = -1;
	q_int(&l->r->c, Q_HEADER_PART, &found, "i", part);
	return found;
}

static int64_t rows_of_header(struct list *l, int64_t hash)
{
	int64_t n = 0;
	for (int64_t part = part_below(l, INT64_MAX); part >= 0 && n < NARROW_ROWS; part = part_below(l, part - 1))
		n += rows_of(l, Q_N_HEADER, hash, part);
	return n;
}

static int64_t rows_of_group(struct list *l)
{
	int64_t n = 0;
	for (int i = 0; i < l->n_family && n < NARROW_ROWS; i++)
		for (int k = 0; k < DEAD_STATE_COUNT; k++)
			if (l->f->state < 0 || l->f->state == k)
				n += rows_of(l, Q_N_GROUP_STATE, l->family[i], k);
	return n;
}

static int64_t rows_of_queue(struct list *l)
{
	int64_t n = 0;
	for (int k = 0; k < DEAD_STATE_COUNT; k++)
		if (l->f->state < 0 || l->f->state == k)
			n += rows_of(l, Q_N_QUEUE_STATE, l->f->queue_id, k);
	return n;
}

static int64_t rows_of_error(struct list *l)
{
	int64_t n = 0, ids[64];
	int queues = 0;
	if (l->f->queue_id)
		return rows_of_text(l, Q_N_ERROR, l->f->queue_id, l->f->error_type);
	sqlite3_stmt *st = q_get(&l->r->c, Q_QUEUE_IDS);
	while (q_row(&l->r->c, st)) {
		if (queues == (int)ARRAY_LEN(ids)) {
			q_end(st);
			return NARROW_ROWS; /* too many to count in each */
		}
		ids[queues++] = col(st, 0);
	}
	for (int i = 0; i < queues && n < NARROW_ROWS; i++)
		n += rows_of_text(l, Q_N_ERROR, ids[i], l->f->error_type);
	return n;
}

/*
 * The narrowest of what the filter has; of those that are equally wide, the first asked for. Where there is no choice,
 * nothing is counted.
 */
static struct narrow narrowest(struct list *l)
{
	const struct store_dead_filter *f = l->f;
	struct narrow best = {LEAD_STATE, -1, INT64_MAX};
	bool by_key = f->key.n && f->queue_id;
	bool choice = f->n_headers + by_key + (f->redrive_n > 0) + (f->group_id > 0) + (f->error_type.n > 0) + (f->queue_id > 0) > 1;
	if (f->message_id.n)
		return (struct narrow){LEAD_MESSAGE, -1, 1};
	for (int i = 0; i < f->n_headers; i++)
		consider(&best, LEAD_HEADER, i, choice ? rows_of_header(l, l->hashes[i]) : 0);
	if (by_key)
		consider(&best, LEAD_KEY, -1, rows_of_text(l, Q_N_KEY, f->queue_id, f->key));
	if (f->redrive_n)
		consider(&best, LEAD_REDRIVE, -1, choice ? rows_of(l, Q_N_REDRIVE, f->redrive_n, 0) : 0);
	if (f->group_id)
		consider(&best, LEAD_GROUP, -1, choice ? rows_of_group(l) : 0);
	if (f->error_type.n)
		consider(&best, LEAD_ERROR, -1, choice ? rows_of_error(l) : 0);
	if (best.lead != LEAD_STATE && f->queue_id)
		consider(&best, LEAD_STATE, -1, rows_of_queue(l));
	return best;
}

static void lead_text(struct list *l, struct keys *k, enum statement q, int64_t of, struct str text, int64_t before)
{
	k->st = q_bind(&l->r->c, q, "iti", of, text, before);
}

static void lead_error(struct list *l, struct keys *k, int64_t before)
{
	const struct store_dead_filter *f = l->f;
	if (f->queue_id) {
		lead_text(l, k, Q_LIST_ERROR, f->queue_id, f->error_type, before);
		return;
	}
	walk_begin(&k->walk, &l->r->c, Q_WALK_ERROR_DOWN, f->error_type);
	sqlite3_stmt *st = q_get(&l->r->c, Q_QUEUE_IDS);
	while (q_row(&l->r->c, st))
		walk_add(&k->walk, col(st, 0), 0, before, &k->heads);
}

static void lead_group(struct list *l, struct keys *k, int64_t before)
{
	walk_begin(&k->walk, &l->r->c, Q_WALK_GROUP_DOWN, STR(""));
	for (int i = 0; i < l->n_family; i++)
		for (int state = 0; state < DEAD_STATE_COUNT; state++)
			if (l->f->state < 0 || l->f->state == state)
				walk_add(&k->walk, l->family[i], state, before, &k->heads);
}

static void lead_message(struct list *l, struct keys *k, int64_t before)
{
	uint64_t seq = 0;
	if (!ulid_parse(l->f->message_id, NULL, NULL, &seq) || seq > INT64_MAX)
		seq = 0;
	lead_text(l, k, Q_LIST_MESSAGE, (int64_t)seq, l->f->message_id, before);
}

static void lead_state(struct list *l, struct keys *k, int64_t before)
{
	const struct store_dead_filter *f = l->f;
	enum statement q = f->state >= 0 ? (f->queue_id ? Q_LIST_QUEUE_STATE : Q_LIST_STATE)
	                   : f->queue_id ? Q_LIST_QUEUE
	                                 : Q_LIST_ALL;
	k->st = q_bind(&l->r->c, q, "iii", f->queue_id, I(f->state), before);
}

/* The next part that may have some of the header. */
static bool header_part(struct list *l, struct keys *k)
{
	k->part = k->part >= 0 ? part_below(l, k->part) : -1;
	k->st = k->part >= 0 ? q_bind(&l->r->c, Q_LIST_HEADER, "iii", k->hash, k->part, k->before) : NULL;
	return k->st != NULL;
}

static void lead_header(struct list *l, struct keys *k, int header, int64_t before)
{
	l->lead_header = header;
	k->hash = l->hashes[header];
	k->before = before;
	k->part = (before - 1) >> 14;
	header_part(l, k);
}

static void keys_begin(struct list *l, struct keys *k)
{
	const struct store_dead_filter *f = l->f;
	int64_t before = f->before_no ? f->before_no : INT64_MAX;
	struct narrow by = narrowest(l);
	switch (by.lead) {
	case LEAD_MESSAGE:
		lead_message(l, k, before);
		break;
	case LEAD_HEADER:
		lead_header(l, k, by.header, before);
		break;
	case LEAD_KEY:
		lead_text(l, k, Q_LIST_KEY, f->queue_id, f->key, before);
		break;
	case LEAD_REDRIVE:
		k->st = q_bind(&l->r->c, Q_LIST_REDRIVE, "iii", f->redrive_n, I(0), before);
		break;
	case LEAD_ERROR:
		lead_error(l, k, before);
		break;
	case LEAD_GROUP:
		lead_group(l, k, before);
		break;
	case LEAD_STATE:
		lead_state(l, k, before);
		break;
	}
}

static bool key_next(struct list *l, struct keys *k, int64_t *seq, int64_t *no)
{
	if (!k->st)
		return k->walk.c && walk_next(&k->walk, seq, no);
	while (!q_row(&l->r->c, k->st)) {
		k->part--;
		if (l->lead_header < 0 || l->r->c.rc || !header_part(l, k))
			return false;
	}
	*seq = col(k->st, 0);
	*no = col(k->st, 1);
	return true;
}

/* ---- looking at a row ---- */

static bool of_family(const struct list *l, int64_t group_id)
{
	for (int i = 0; i < l->n_family; i++)
		if (l->family[i] == group_id)
			return true;
	return !l->n_family;
}

/* By the narrow row alone; *edited: whether what is delivered is not the original. */
static bool row_matches(struct list *l, int64_t seq, bool *edited)
{
	const struct store_dead_filter *f = l->f;
	sqlite3_stmt *st = q_bind(&l->r->c, Q_DEAD_CHECK, "i", seq);
	if (!q_row(&l->r->c, st))
		return false;
	bool ok = (!f->queue_id || col(st, 0) == f->queue_id) && (f->state < 0 || col(st, 1) == f->state) &&
	          (f->reason < 0 || col(st, 2) == f->reason) && (!f->died_from_ms || col(st, 3) >= f->died_from_ms) &&
	          (!f->died_to_ms || col(st, 3) < f->died_to_ms) &&
	          (!f->error_type.n || str_eq(col_str(st, 4), f->error_type)) &&
	          (!f->key.n || str_eq(col_str(st, 5), f->key)) && of_family(l, col(st, 6)) &&
	          (!f->redrive_n || col(st, 7) == f->redrive_n) &&
	          (!f->expires_before || col(st, 8) < f->expires_before);
	*edited = col(st, 9) != 0;
	q_end(st);
	return ok;
}

/* By the index; the texts themselves are compared at the end. */
static bool headers_match(struct list *l, int64_t seq, int64_t no)
{
	int64_t one;
	for (int i = 0; i < l->f->n_headers; i++)
		if (i != l->lead_header && !q_int(&l->r->c, Q_HEADER_HAS, &one, "iii", l->hashes[i], no, seq))
			return false;
	return true;
}

enum look { LOOK_NO, LOOK_YES, LOOK_FULL };

/* The body to be delivered: looked into where it lies, copied only for a list that gives it. */
static enum look body_look(struct list *l, int64_t seq, bool edited, struct arena *a, struct str *copy)
{
	const struct store_dead_filter *f = l->f;
	struct str body = {0};
	int64_t max = f->scan_bytes > 0 ? f->scan_bytes : SCAN_BYTES;
	sqlite3_stmt *st = edited ? body_edited(l->r, seq, &body) : NULL;
	if (!st) {
		st = q_bind(&l->r->c, Q_BODY_PLAIN, "i", seq);
		if (!q_row(&l->r->c, st))
			return LOOK_NO;
		body = col_str(st, 0);
	}
	enum look is = l->bytes && l->bytes + (int64_t)body.n > max ? LOOK_FULL : LOOK_YES;
	if (is == LOOK_YES) {
		l->bytes += (int64_t)body.n;
		if (f->text.n && !memmem(body.p, body.n, f->text.p, f->text.n))
			is = LOOK_NO;
		else if (f->with_body)
			*copy = arena_str(a, body);
	}
	q_end(st);
	return is;
}

/* A message id made here is not stored: the row's number alone does not make it the same id. Nor does a hash make a
 * header. */
static bool item_matches(const struct list *l, const struct store_dead *d)
{
	const struct store_dead_filter *f = l->f;
	struct str headers = d->edited_headers.n ? d->edited_headers : d->headers;
	if (f->message_id.n && !str_eq(d->id, f->message_id) && !str_eq(d->imported_id, f->message_id))
		return false;
	for (int i = 0; i < f->n_headers; i++)
		if (!headers_have(headers, f->headers[i].name, f->headers[i].value))
			return false;
	return true;
}

static enum look look(struct list *l, int64_t seq, int64_t no, struct arena *a, struct store_dead_page *out)
{
	struct str body = {0};
	bool edited;
	if (!row_matches(l, seq, &edited) || !headers_match(l, seq, no))
		return LOOK_NO;
	if (l->f->text.n || l->f->with_body) {
		enum look is = body_look(l, seq, edited, a, &body);
		if (is != LOOK_YES)
			return is;
	}
	out->items = list_grow(a, out->items, out->n, sizeof(*out->items));
	struct store_dead *d = &out->items[out->n];
	if (!dead_fetch(l->r, seq, a, d) || !item_matches(l, d))
		return LOOK_NO;
	d->body = body;
	out->n++;
	return LOOK_YES;
}

enum dlq_code sq_read_dead_list(struct store_reader *reader, const struct store_dead_filter *f, struct arena *a,
                                struct store_dead_page *out, struct dlq_err *err)
{
	struct sq_reader *r = rd(reader);
	struct list l = {.r = r, .f = f, .lead_header = -1};
	int64_t last = 0, seq, no, until = clock_mono_us(r->store->clock) + (f->scan_us > 0 ? f->scan_us : SCAN_US);
	struct keys k = {0};
	int limit = page_limit(f->limit), scan = f->scan_limit > 0 ? f->scan_limit : SCAN_ROWS;
	*out = (struct store_dead_page){0};
	if (f->n_headers < 0 || f->n_headers > FILTER_HEADERS_MAX)
		return err_set(err, DLQ_BAD_REQUEST, "at most %d headers can be asked for", FILTER_HEADERS_MAX);
	for (int i = 0; i < f->n_headers; i++)
		l.hashes[i] = header_hash(f->headers[i].name, f->headers[i].value);
	read_begin(r);
	l.n_family = f->group_id ? group_family(&r->c, f->group_id, l.family) : 0;
	keys_begin(&l, &k);
	while (key_next(&l, &k, &seq, &no)) {
		bool full = out->n == limit || out->scanned == scan ||
		            (out->scanned && clock_mono_us(r->store->clock) >= until);
		if (full || look(&l, seq, no, a, out) == LOOK_FULL) {
			out->next_no = last;
			if (k.st)
				q_end(k.st);
			break;
		}
		last = no;
		out->scanned++;
	}
	arena_release(&k.heads);
	return read_end(r, DLQ_OK, err);
}
