/*
 * archive.c - the end of retention: each dead letter becomes one line of archive/QUEUE/YYYY-MM-DD.jsonl.zst with everything that is
 * known of it, and only after that file and its index are synced does its record leave the store. A crash between the two
 * writes the line again at the next start: a repeat with the same dlq_id and died_at, never a loss (invariant 5).
 */
#include "base/log.h"
#include "engine/archive.h"
#include "engine/engine_int.h"
#include "engine/record.h"

#define ARCHIVE_RETRY_MS 60000

static enum dlq_code write_records(struct engine *e, const int64_t *seqs, int n, int64_t wall, struct dlq_err *err)
{
	struct archive_writer *w = archive_writer_new(e->dir);
	struct arena a = {0};
	struct buf line = {.max = (size_t)256 << 20};
	enum dlq_code c = DLQ_OK;
	for (int i = 0; i < n && !c; i++) {
		struct store_dead d;
		buf_clear(&line);
		arena_reset(&a);
		c = e->ops->read_dead(e->wreader, seqs[i], &a, &d, err);
		if (!c)
			c = record_line(e->wreader, &d, wall, e->clock, &line, err);
		if (!c)
			c = archive_add(w, &d, buf_str(&line), wall, err);
	}
	if (!c)
		c = archive_flush(w, err);
	archive_writer_free(w);
	arena_release(&a);
	buf_release(&line);
	return c;
}

static enum dlq_code archive_tx(struct engine *e, struct batch *b, struct dlq_err *err)
{
	int n = 0;
	int64_t next = NEVER;
	enum dlq_code c = batch_tx(e, b, err);
	if (!c)
		c = e->ops->retention_due(e->store, b->now, ARCHIVE_STEP, e->seqs, &n, &next, err);
	if (!c && n)
		c = write_records(e, e->seqs, n, b->wall, err);
	for (int i = 0; i < n && !c; i++)
		c = e->ops->archive_one(e->store, e->seqs[i], err);
	if (c)
		return c;
	b->tx = false; /* committed or gone */
	c = e->ops->commit(e->store, err);
	if (c)
		return c;
	e->commits_since_maintain++;
	if (n)
		e->due_gen++; /* in an ordered queue the followers may go on */
	e->next_retention = n == ARCHIVE_STEP ? 0 : next > b->now ? next : b->now + 1;
	return DLQ_OK;
}

/* Alone in its transaction: what the reader sees is what the transaction sees, and no caller waits for its file. */
void archive_step(struct engine *e, int64_t now)
{
	struct batch b = {.now = now, .wall = clock_wall_ms(e->clock)};
	struct dlq_err err = {0};
	enum dlq_code c = archive_tx(e, &b, &err);
	if (!c) {
		if (e->archive_failing)
			log_event(LOG_INFO, "archive.works_again", "dir=%s/archive", e->dir);
		e->archive_failing = false;
		return;
	}
	if (store_fatal(c)) {
		writer_fail(e, &b, c, &err);
		if (b.head)
			ops_post(b.head);
		return;
	}
	if (b.tx)
		e->ops->rollback(e->store);
	e->next_retention = now + ARCHIVE_RETRY_MS;
	e->due_gen++;
	if (!e->archive_failing)
		log_event(LOG_ERROR, "archive.failed",
		          "detail=\"%s\" next=trying_again_every_minute_nothing_is_removed", err.detail);
	e->archive_failing = true;
}
