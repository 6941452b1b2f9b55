/*
 * group_key.c - which group a failure belongs to. Failures come in crowds that say the same, so the last few answers are
 * kept: a crowd costs one normalisation. Also remembers which version of a worker took messages, for leases that end
 * without a word from it.
 */
#include <string.h>

#include "core/fingerprint.h"
#include "engine/engine_int.h"

#define SAMPLE_MAX 1024

/* One answer, with the question it is of. Texts are in `arena`. Writer. */
struct group_memo {
	struct arena arena;
	int64_t queue_id;
	struct str type, message, detail, given;
	struct store_group_key key;
};

struct group_keys {
	struct group_memo memo[GROUP_MEMO];
	int next;
	int64_t made; /* for tests: how often a fingerprint was made */
	struct {
		char worker[FAILURE_TYPE_MAX + 1], version[FAILURE_TYPE_MAX + 1];
		size_t worker_n, version_n;
	} versions[WORKER_VERSIONS];
};

struct group_keys *group_keys_new(void)
{
	return mem_alloc(sizeof(struct group_keys));
}

void group_keys_free(struct group_keys *g)
{
	for (int i = 0; g && i < GROUP_MEMO; i++)
		arena_release(&g->memo[i].arena);
	mem_free(g);
}

int64_t group_keys_made(const struct group_keys *g)
{
	return g->made;
}

static void put64(uint8_t *p, uint64_t v)
{
	for (int i = 0; i < 8; i++)
		p[i] = (uint8_t)(v >> (56 - 8 * i));
}

void group_key_make(struct arena *a, struct str queue, struct str type, struct str message, struct str detail, struct str given,
                    struct store_group_key *k)
{
	char normal[FINGERPRINT_NORMAL_MAX];
	struct fingerprint fp;
	given = str_cut(given, FINGERPRINT_GIVEN_MAX);
	k->normal = given;
	if (given.n) {
		fingerprint_of_given(queue, given, &fp);
	} else {
		uint32_t rules = 0;
		size_t n = fingerprint_normalise(message, detail, normal, &rules, NULL);
		fingerprint_of_normal(queue, type, (struct str){normal, n}, rules, &fp);
		k->normal = arena_str(a, (struct str){normal, n});
	}
	put64(k->fp, fp.hi);
	put64(k->fp + 8, fp.lo);
	k->version = fp.version;
	k->rules = fp.rules;
	k->error_type = type;
	k->sample = str_cut(message, SAMPLE_MAX);
}

/* The lengths are compared first: most questions differ there. */
static bool memo_is(const struct group_memo *m, int64_t queue_id, const struct store_attempt *at, struct str given)
{
	return m->queue_id == queue_id && str_eq(m->given, given) && str_eq(m->message, at->message) &&
	       str_eq(m->type, at->error_type) && str_eq(m->detail, at->detail);
}

const struct store_group_key *group_key(struct engine *e, const struct equeue *q, const struct store_attempt *at,
                                        struct str given)
{
	struct group_keys *g = e->group_keys;
	given = str_cut(given, FINGERPRINT_GIVEN_MAX);
	for (int i = 0; i < GROUP_MEMO; i++)
		if (memo_is(&g->memo[i], q->queue_id, at, given))
			return &g->memo[i].key;
	struct group_memo *m = &g->memo[g->next];
	g->next = (g->next + 1) % GROUP_MEMO;
	g->made++;
	arena_reset(&m->arena);
	m->queue_id = q->queue_id;
	m->type = arena_str(&m->arena, at->error_type);
	m->message = arena_str(&m->arena, at->message);
	m->detail = arena_str(&m->arena, at->detail);
	m->given = arena_str(&m->arena, given);
	group_key_make(&m->arena, q->name, m->type, m->message, m->detail, m->given, &m->key);
	return &m->key;
}

/* ---- versions of workers ---- */

static size_t version_slot(struct str worker)
{
	uint32_t h = 2166136261u;
	for (size_t i = 0; i < worker.n; i++)
		h = (h ^ (unsigned char)worker.p[i]) * 16777619u;
	return h % WORKER_VERSIONS;
}

void worker_version_learn(struct engine *e, struct str worker, struct str version)
{
	if (!worker.n || worker.n > FAILURE_TYPE_MAX || version.n > FAILURE_TYPE_MAX)
		return;
	size_t i = version_slot(worker);
	struct group_keys *g = e->group_keys;
	bool known = str_eq(worker, (struct str){g->versions[i].worker, g->versions[i].worker_n});
	if (!version.n && !known)
		return;
	memcpy(g->versions[i].worker, worker.p, worker.n);
	g->versions[i].worker_n = worker.n;
	if (version.n)
		memcpy(g->versions[i].version, version.p, version.n);
	g->versions[i].version_n = version.n;
}

struct str worker_version_of(const struct engine *e, struct str worker)
{
	if (!worker.n)
		return (struct str){0};
	size_t i = version_slot(worker);
	const struct group_keys *g = e->group_keys;
	bool known = str_eq(worker, (struct str){g->versions[i].worker, g->versions[i].worker_n});
	return known ? (struct str){g->versions[i].version, g->versions[i].version_n} : (struct str){0};
}
