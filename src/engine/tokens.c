/* tokens.c - who may do what. The store keeps hashes; a table in memory answers every request without I/O. */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "engine/engine_int.h"

#define SECRET_BYTES 32
#define SECRET_LEN 43
#define TOKEN_QUEUES_MAX 1000

struct token {
	struct arena arena;
	struct str name;
	uint8_t hash[32];
	enum role role;
	struct str *queues; /* names or "prefix*"; none: all */
	int n_queues;
	bool limited;
	struct str queues_json;
	int64_t created_at_ms, expires_at_ms, revoked_at_ms;
};

static void secret_hash(struct str secret, uint8_t out[32])
{
	crypto_generichash(out, 32, (const unsigned char *)secret.p, secret.n, NULL, 0);
}

/* JSON list of names or prefixes. */
static enum dlq_code queues_parse(struct arena *a, struct str json, struct str **out, int *n, struct dlq_err *err)
{
	struct doc *d = NULL;
	*n = 0;
	*out = NULL;
	if (!json.n)
		return DLQ_OK;
	enum dlq_code c = doc_from_json(a, json, "queues", &d, err);
	if (c)
		return c;
	if (d->kind != DOC_LIST)
		return doc_fail(d, err, "queues is a list of queue names or prefixes ending in *");
	int count = 0;
	for (struct doc *i = d->child; i; i = i->next)
		count++;
	if (count > TOKEN_QUEUES_MAX)
		return doc_fail(d, err, "%d queues are listed, at most %d are allowed; use prefixes", count,
		                TOKEN_QUEUES_MAX);
	*out = arena_alloc(a, (size_t)(count + 1) * sizeof(**out));
	for (struct doc *i = d->child; i; i = i->next) {
		struct str s;
		c = doc_str(i, &s, err);
		if (c)
			return c;
		struct str bare = s.n && s.p[s.n - 1] == '*' ? (struct str){s.p, s.n - 1} : s;
		if (!s.n || (bare.n && queue_name_check(bare)))
			return doc_fail(i, err, "not a queue name or a prefix ending in *");
		(*out)[(*n)++] = s;
	}
	return DLQ_OK;
}

static bool queue_matches(struct str pattern, struct str queue)
{
	if (pattern.n && pattern.p[pattern.n - 1] == '*')
		return queue.n >= pattern.n - 1 && memcmp(queue.p, pattern.p, pattern.n - 1) == 0;
	return str_eq(pattern, queue);
}

static void token_list_free(struct token *list, int n)
{
	for (int i = 0; i < n; i++)
		arena_release(&list[i].arena);
	mem_free(list);
}

/* Reads the table anew and puts it in place of the old one. */
enum dlq_code tokens_load(struct engine *e, struct dlq_err *err)
{
	struct arena a = {0};
	struct store_token *rows = NULL;
	int n = 0;
	enum dlq_code c = e->ops->token_load(e->store, &a, &rows, &n, err);
	struct token *list = mem_array((size_t)n + 1, sizeof(*list));
	for (int i = 0; i < n && !c; i++) {
		struct token *t = &list[i];
		t->name = arena_str(&t->arena, rows[i].name);
		t->role = rows[i].role;
		memcpy(t->hash, rows[i].hash, sizeof(t->hash));
		t->created_at_ms = rows[i].created_at_ms;
		t->expires_at_ms = rows[i].expires_at_ms;
		t->revoked_at_ms = rows[i].revoked_at_ms;
		t->limited = rows[i].queues.n > 0;
		t->queues_json = arena_str(&t->arena, rows[i].queues);
		c = queues_parse(&t->arena, t->queues_json, &t->queues, &t->n_queues, err);
	}
	arena_release(&a);
	if (c) {
		token_list_free(list, n);
		return c;
	}
	pthread_rwlock_wrlock(&e->token_lock);
	struct token *old = e->tokens;
	int n_old = e->n_tokens;
	e->tokens = list;
	e->n_tokens = n;
	pthread_rwlock_unlock(&e->token_lock);
	token_list_free(old, n_old);
	return DLQ_OK;
}

void tokens_free(struct engine *e)
{
	token_list_free(e->tokens, e->n_tokens);
	e->tokens = NULL;
	e->n_tokens = 0;
}

int engine_token_list(struct engine *e, struct arena *a, struct token_row **out)
{
	pthread_rwlock_rdlock(&e->token_lock);
	int n = e->n_tokens;
	*out = arena_alloc(a, (size_t)(n + 1) * sizeof(**out));
	for (int i = 0; i < n; i++) {
		const struct token *t = &e->tokens[i];
		(*out)[i] = (struct token_row){arena_str(a, t->name), t->role, arena_str(a, t->queues_json), t->created_at_ms,
		                               t->expires_at_ms, t->revoked_at_ms};
	}
	pthread_rwlock_unlock(&e->token_lock);
	return n;
}

static bool token_live(const struct token *t, int64_t wall)
{
	return !t->revoked_at_ms && (!t->expires_at_ms || t->expires_at_ms > wall);
}

static enum dlq_code token_allows(const struct token *t, enum role need, struct str queue, struct dlq_err *err)
{
	if (t->role < need)
		return err_set(err, DLQ_FORBIDDEN, "token " STR_FMT " has role %s, this needs %s", STR_ARG(t->name),
		               role_name(t->role), role_name(need));
	if (!t->limited || !queue.n)
		return DLQ_OK;
	for (int i = 0; i < t->n_queues; i++)
		if (queue_matches(t->queues[i], queue))
			return DLQ_OK;
	return err_set(err, DLQ_FORBIDDEN, "token " STR_FMT " is limited to other queues than " STR_FMT,
	               STR_ARG(t->name), (int)(queue.n > 128 ? 128 : queue.n), queue.p);
}

enum dlq_code engine_token_check(struct engine *e, struct str secret, enum role need, struct str queue,
                                 struct token_info *out, struct dlq_err *err)
{
	uint8_t hash[32];
	const struct token *found = NULL;
	if (secret.n != SECRET_LEN)
		return err_set(err, DLQ_UNAUTHENTICATED,
		               "this is not a token; give one as Authorization: Bearer TOKEN");
	secret_hash(secret, hash);
	int64_t wall = clock_wall_ms(e->clock);
	pthread_rwlock_rdlock(&e->token_lock);
	for (int i = 0; i < e->n_tokens; i++) /* always all: the time tells nothing */
		if (sodium_memcmp(e->tokens[i].hash, hash, sizeof(hash)) == 0)
			found = &e->tokens[i];
	enum dlq_code c;
	if (!found || !token_live(found, wall))
		c = err_set(err, DLQ_UNAUTHENTICATED, "the token is %s",
		            !found                 ? "not known here"
		            : found->revoked_at_ms ? "revoked"
		                                   : "expired");
	else
		c = token_allows(found, need, queue, err);
	if (found && c != DLQ_UNAUTHENTICATED) {
		size_t n = found->name.n < sizeof(out->name_buf) - 1 ? found->name.n : sizeof(out->name_buf) - 1;
		memcpy(out->name_buf, found->name.p, n);
		out->name_buf[n] = '\0';
		out->name = (struct str){out->name_buf, n};
		out->role = found->role;
		out->limited = found->limited;
	}
	pthread_rwlock_unlock(&e->token_lock);
	return c;
}

/* ---- changes ---- */

static void secret_make(char out[64])
{
	uint8_t raw[SECRET_BYTES];
	randombytes_buf(raw, sizeof(raw));
	sodium_bin2base64(out, 64, raw, sizeof(raw), sodium_base64_VARIANT_URLSAFE_NO_PADDING);
	sodium_memzero(raw, sizeof(raw));
}

static void tokens_after(struct engine *e, struct engine_op *op)
{
	struct dlq_err err = {0};
	enum dlq_code c = tokens_load(e, &err);
	(void)op;
	if (c)
		log_event(LOG_ERROR, "tokens.reload_failed", "code=%s detail=\"%s\"", code_name(c), err.detail);
}

enum dlq_code op_token_add(struct engine *e, struct batch *b, struct engine_op *op)
{
	struct str name = op->u.token_add.name;
	struct str *queues;
	int n_queues;
	int64_t id;
	const char *why = queue_name_check(name);
	if (why)
		return err_set(&op->err, DLQ_INVALID_NAME, "token name: %s", why);
	if ((unsigned)op->u.token_add.role >= ROLE_COUNT)
		return err_set(&op->err, DLQ_BAD_REQUEST, "the role is none of viewer, operator, admin");
	if (op->u.token_add.ttl_ms < 0 || op->u.token_add.ttl_ms > TIME_SPAN_MAX_MS)
		return err_set(&op->err, DLQ_BAD_REQUEST, "expires_in must be between 0s and 10 years");
	enum dlq_code c = queues_parse(&e->scratch, op->u.token_add.queues, &queues, &n_queues, &op->err);
	if (!c)
		c = batch_tx(e, b, &op->err);
	if (c)
		return c;
	if (!op->u.token_add.secret_given)
		secret_make(op->u.token_add.secret);
	struct store_token t = {
	    .name = name,
	    .role = op->u.token_add.role,
	    .queues = op->u.token_add.queues,
	    .created_at_ms = b->wall,
	    .expires_at_ms = op->u.token_add.ttl_ms ? b->wall + op->u.token_add.ttl_ms : 0,
	};
	secret_hash(str_of(op->u.token_add.secret), t.hash);
	c = e->ops->token_add(e->store, &t, &id, &op->err);
	if (!c)
		c = audit_row(e, b, op, "token.add", (struct str){0}, name, (struct str){0}, str_of(role_name(t.role)),
		              &op->err);
	if (c) {
		sodium_memzero(op->u.token_add.secret, sizeof(op->u.token_add.secret));
		return c;
	}
	b->after = tokens_after;
	b->after_op = op;
	return DLQ_OK;
}

static bool is_admin(const struct token *t, int64_t wall)
{
	return t->role == ROLE_ADMIN && !t->limited && token_live(t, wall);
}

/*
 * Without an admin nobody can make a token until the next start makes one. Only this thread changes the table, and a batch ends
 * with the operation that changes tokens: of two who revoke each other's, the second finds the first one's gone.
 */
static enum dlq_code keep_an_admin(struct engine *e, const struct batch *b, struct str name, struct dlq_err *err)
{
	bool is_one = false, others = false;
	for (int i = 0; i < e->n_tokens; i++) {
		bool admin = is_admin(&e->tokens[i], b->wall), named = str_eq(e->tokens[i].name, name);
		is_one = is_one || (admin && named);
		others = others || (admin && !named);
	}
	if (!is_one || others)
		return DLQ_OK;
	return err_set(err, DLQ_CONFLICT,
	               "token \"" STR_FMT "\" is the last one with role admin for all queues; make another first "
	               "(`dlq token create NAME --role admin`), then revoke this one with it",
	               STR_ARG(name));
}

enum dlq_code op_token_revoke(struct engine *e, struct batch *b, struct engine_op *op)
{
	enum dlq_code c = keep_an_admin(e, b, op->u.token_revoke.name, &op->err);
	if (!c)
		c = batch_tx(e, b, &op->err);
	if (!c)
		c = e->ops->token_revoke(e->store, op->u.token_revoke.name, &op->err);
	if (!c)
		c = audit_row(e, b, op, "token.revoke", (struct str){0}, op->u.token_revoke.name, (struct str){0},
		              (struct str){0}, &op->err);
	if (c)
		return c;
	b->after = tokens_after;
	b->after_op = op;
	return DLQ_OK;
}

/* ---- the first token ---- */

static enum dlq_code file_fail(struct dlq_err *err, const char *what, const char *path)
{
	return err_set(err, DLQ_SYSTEM, "cannot %s %s: %s", what, path, strerror(errno));
}

static enum dlq_code secret_file_write(const char *path, const char *secret, struct dlq_err *err)
{
	char line[80];
	unlink(path);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return file_fail(err, "create", path);
	int n = snprintf(line, sizeof(line), "%s\n", secret);
	enum dlq_code c = DLQ_OK;
	if (write(fd, line, (size_t)n) != n || fsync(fd))
		c = file_fail(err, "write", path);
	sodium_memzero(line, sizeof(line));
	close(fd);
	return c;
}

static enum dlq_code file_rename(const char *from, const char *to, const char *dir, struct dlq_err *err)
{
	if (rename(from, to))
		return file_fail(err, "rename", from);
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fsync(fd)) {
		enum dlq_code c = file_fail(err, "sync", dir);
		if (fd >= 0)
			close(fd);
		return c;
	}
	close(fd);
	return DLQ_OK;
}

static bool admin_lives(struct engine *e)
{
	bool yes = false;
	int64_t wall = clock_wall_ms(e->clock);
	pthread_rwlock_rdlock(&e->token_lock);
	for (int i = 0; i < e->n_tokens; i++)
		yes = yes || is_admin(&e->tokens[i], wall);
	pthread_rwlock_unlock(&e->token_lock);
	return yes;
}

static enum dlq_code admin_add(struct engine *e, const char *secret, struct dlq_err *err)
{
	enum dlq_code c = DLQ_CONFLICT;
	for (int i = 1; i <= 1000 && c == DLQ_CONFLICT; i++) { /* names of revoked tokens stay taken */
		char name[32];
		snprintf(name, sizeof(name), i == 1 ? "admin" : "admin-%d", i);
		struct engine_op op = {.type = OP_TOKEN_ADD};
		op.u.token_add.name = str_of(name);
		op.u.token_add.role = ROLE_ADMIN;
		op.u.token_add.secret_given = true;
		snprintf(op.u.token_add.secret, sizeof(op.u.token_add.secret), "%s", secret);
		engine_call(e, &op);
		c = op.code;
		if (c)
			err_set(err, c, "the admin token: %s", op.err.detail);
		sodium_memzero(op.u.token_add.secret, sizeof(op.u.token_add.secret));
		engine_op_release(&op);
	}
	return c;
}

/* The secret is on disk before the store knows its hash, so that no crash leaves a store nobody can enter. */
enum dlq_code engine_bootstrap_token(struct engine *e, bool *created, struct dlq_err *err)
{
	char secret[64] = "";
	*created = false;
	struct arena a = {0};
	const char *path = arena_fmt(&a, "%s/admin.token", e->dir).p,
	           *tmp = arena_fmt(&a, "%s/admin.token.tmp", e->dir).p;
	enum dlq_code c = DLQ_OK;
	if (admin_lives(e)) {
		if (access(path, F_OK) != 0 && access(tmp, F_OK) == 0)
			c = file_rename(tmp, path, e->dir, err); /* the last start ended between commit and rename */
		goto out;
	}
	secret_make(secret);
	c = secret_file_write(tmp, secret, err);
	if (!c)
		c = admin_add(e, secret, err);
	if (!c)
		c = file_rename(tmp, path, e->dir, err);
	*created = !c;
out:
	sodium_memzero(secret, sizeof(secret));
	arena_release(&a);
	return c;
}
