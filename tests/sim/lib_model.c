/* The model: plain loops over an array, so that it is right by looking at it. */
#include "lib_model.h"

const char *const queue_names[QUEUES] = {"plain", "ordered", "third"};

static const int64_t backoff[] = {10000, 60000};

int below(struct sim *s, int n)
{
	return (int)rnd_below(&s->rnd, (uint64_t)n);
}

int64_t now(struct sim *s)
{
	return clock_now_ms(s->clock);
}

/* ---- the model ---- */

/* Invariant 11: an earlier message of the key that lives or is dead comes first. */
bool is_held(struct sim *s, const struct mmsg *m)
{
	if (m->queue != ORDERED || m->key < 0)
		return false;
	for (struct mmsg *o = s->m; o < m; o++)
		if (o->queue == m->queue && o->key == m->key &&
		    (o->where == WAITING || o->where == LEASED || o->where == DEAD))
			return true;
	return false;
}

void m_die(struct sim *s, struct mmsg *m)
{
	m->where = DEAD;
	m->home = m->queue;
	m->redriving = false;
	m->dead_once = true;
	s->job.failed += m->counted;
	m->counted = false;
	m->retention = now(s) + RETENTION;
	if (m->redrives >= MAX_REDRIVES) { /* its redrives are used up */
		m->where = GIVEN;
		s->archived[m->queue]++;
		s->given++;
	}
	s->died[m->queue]++;
}

/* One failed delivery (invariants 1, 2). Returns whether it died. */
bool m_fail(struct sim *s, struct mmsg *m, enum outcome o, int64_t retry_after, int kind)
{
	s->failures[m->queue][kind]++;
	m->group = kind;
	m->attempts++;
	m->failures++;
	s->failed[m->queue]++;
	m->expirations += o == OUTCOME_LEASE_EXPIRED;
	if (o == OUTCOME_PERMANENT || m->attempts >= MAX_ATTEMPTS || m->expirations >= CRASH_LIMIT) {
		m_die(s, m);
		s->deaths[m->queue][kind]++;
		return true;
	}
	int64_t delay = backoff[m->attempts > 2 ? 1 : m->attempts - 1];
	m->where = WAITING;
	m->due = now(s) + (delay > retry_after ? delay : retry_after);
	return false;
}

/* What happens by time alone. */
void m_tick(struct sim *s)
{
	for (int i = 0; i < s->n; i++) {
		struct mmsg *m = &s->m[i];
		if (m->where == LEASED && m->lease_until <= now(s))
			m_fail(s, m, OUTCOME_LEASE_EXPIRED, 0, KIND_LEASE);
		if (m->where == WAITING && m->expires && m->expires <= now(s)) {
			m->group = -1; /* it died of no failure */
			m_die(s, m);
		}
		if ((m->where == DEAD || m->where == DISCARDED || m->where == GIVEN) && m->retention <= now(s)) {
			s->archived[m->queue] += m->where != GIVEN;
			m->where = ARCHIVED;
			m->member = false;
		}
	}
}

/* Sequence numbers rise, so the model is sorted by them. */
struct mmsg *m_by_seq(struct sim *s, int64_t seq)
{
	int lo = 0, hi = s->n;
	while (lo < hi) {
		int mid = (lo + hi) / 2;
		if (s->m[mid].seq < seq)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < s->n && s->m[lo].seq == seq ? &s->m[lo] : NULL;
}

struct mmsg *m_pick(struct sim *s, enum where where)
{
	int n = 0;
	struct mmsg *found = NULL;
	for (int i = 0; i < s->n; i++)
		if (s->m[i].where == where && rnd_below(&s->rnd, (uint64_t)++n) == 0)
			found = &s->m[i];
	return found;
}

/* Invariant 3: same id, attempts 0, history kept, the redrive counted. */
void m_redrive(struct sim *s, struct mmsg *m)
{
	m->where = WAITING;
	m->redriving = true;
	m->attempts = m->expirations = 0;
	m->redrives++;
	s->redriven++;
	m->due = now(s);
	m->expires = 0;
}

void call(struct sim *s, struct engine_op *op, int queue)
{
	if (queue >= 0)
		op->queue = str_of(queue_names[queue]);
	op->operator= STR("sim");
	engine_call(s->e, op);
}
