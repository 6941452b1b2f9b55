/* Ids made here: a time, 16 bits that only this store can tell, and the row's number. Nothing of them is stored. */
#include "store/sqlite/internal.h"

static uint16_t salt(const struct sq_store *s, uint64_t kind, int64_t n)
{
	uint64_t h = (uint64_t)n + s->id_key + kind * 0x9e3779b97f4a7c15u;
	h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;
	h = (h ^ (h >> 27)) * 0x94d049bb133111ebu;
	return (uint16_t)(h >> 48);
}

void id_message(const struct sq_store *s, int64_t received_at, int64_t seq, char out[ULID_LEN + 1])
{
	ulid_make(received_at, salt(s, 1, seq), (uint64_t)seq, out);
}

void id_dead(const struct sq_store *s, int64_t first_died_at, int64_t seq, char out[ULID_LEN + 1])
{
	ulid_make(first_died_at, salt(s, 2, seq), (uint64_t)seq, out);
}

void id_redrive(const struct sq_store *s, int64_t started_at, int64_t n, char out[ULID_LEN + 1])
{
	ulid_make(started_at, salt(s, 3, n), (uint64_t)n, out);
}

struct str id_message_copy(const struct sq_store *s, struct arena *a, struct str given, int64_t received_at,
                           int64_t seq)
{
	char id[ULID_LEN + 1];
	if (given.n)
		return arena_str(a, given);
	id_message(s, received_at, seq, id);
	return arena_str(a, (struct str){id, ULID_LEN});
}
