/*
 * jq.c - starts the child, feeds it items and takes its answers. Nothing of a message is read here.
 *
 * Both directions of the socket are served at once and without blocking, so two full buffers cannot make each side wait for the
 * other. What the child says is checked as if it came from a stranger.
 */
#include "jq/jq.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "jq/jq_scan.h"
#include "jq/jq_wire.h"

#define MEMORY_DEFAULT ((int64_t)64 << 20)
#define MEMORY_MAX ((int64_t)1 << 30) /* libjq counts in int */
#define ITEM_MS_DEFAULT 1000
#define CPU_S_DEFAULT 600
#define OUTPUT_DEFAULT ((int64_t)16 << 20)
#define COMPILE_MS_MIN 10000 /* a machine under load compiles jq's own library in a second */
#define GRACE_MS 3000        /* the child keeps the time of an item itself; a silence this much longer means that it cannot */
#define BODY_SHARE 4         /* a body takes at most this part of the memory */
#define IOV_MAX_USED 96
#define IN_BYTES 65536
#define ITEMS_MAX 1000
#define FRESH_ITEMS 1000 /* a child that served more and is out of memory may have lost it bit by bit: libjq leaks here and there */

struct jq {
	enum jq_kind kind;
	struct str program;
	struct jq_options o; /* with the defaults; o.program is our copy */
	pid_t pid;           /* 0: ended and reaped */
	int64_t served;      /* items that this child answered */
	int fd;
	size_t in_from, in_n; /* of `in`: read, not looked at yet */
	char in[IN_BYTES];
};

static int64_t now_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* ---- the child's life ---- */

/* Ends and reaps it; its wait status, or -1 if it was gone before. */
static int finish(struct jq *j)
{
	int status = -1;
	if (j->fd >= 0)
		close(j->fd);
	j->fd = -1;
	if (j->pid > 0) {
		kill(j->pid, SIGKILL);
		pid_t got;
		while ((got = waitpid(j->pid, &status, 0)) < 0 && errno == EINTR)
			;
		if (got < 0)
			status = -1; /* the program reaps all by itself (SIGCHLD ignored) */
	}
	j->pid = 0;
	return status;
}

/* 0 or errno. fd: the child's end. */
static int spawn(const char *program, int fd, pid_t *pid)
{
	char *argv[] = {(char *)(uintptr_t)"dlq", (char *)(uintptr_t)"jq-child", NULL}, *envp[] = {NULL};
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t none, all;
	sigemptyset(&none);
	sigfillset(&all);
	int rc = posix_spawn_file_actions_init(&files);
	if (rc)
		return rc;
	rc = posix_spawnattr_init(&attr);
	if (rc) {
		posix_spawn_file_actions_destroy(&files);
		return rc;
	}
	rc = posix_spawn_file_actions_adddup2(&files, fd, STDIN_FILENO);
	if (!rc)
		rc = posix_spawn_file_actions_adddup2(&files, STDIN_FILENO, STDOUT_FILENO);
	if (!rc)
		rc = posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	if (!rc)
		rc = posix_spawnattr_setsigmask(&attr, &none);
	if (!rc)
		rc = posix_spawnattr_setsigdefault(&attr, &all);
	if (!rc)
		rc = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	if (!rc)
		rc = posix_spawn(pid, program, &files, &attr, argv, envp);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&files);
	return rc;
}

static enum dlq_code start(struct jq *j, struct dlq_err *err)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return err_set(err, DLQ_SYSTEM, "no socket for the process that runs jq: %s", strerror(errno));
	j->fd = pair[0];
	j->in_n = 0;
	j->served = 0;
	int rc = fcntl(j->fd, F_SETFL, O_NONBLOCK) ? errno : spawn(j->o.program, pair[1], &j->pid);
	close(pair[1]);
	if (rc) {
		j->pid = 0;
		return err_set(err, DLQ_SYSTEM, "the process that runs jq could not be started (%s): %s", j->o.program, strerror(rc));
	}
	return DLQ_OK;
}

/* ---- one exchange: some bytes go out, some answers come in ---- */

struct exchange {
	struct jq *j;
	struct jq_item *items[ITEMS_MAX];
	struct jq_ask asks[ITEMS_MAX];
	int n, done;            /* items, and answers that came */
	struct str hello[2];    /* n == 0: what is sent instead */
	struct str said;        /* n == 0: the text of the answer */
	size_t piece, piece_at; /* the next to send of 3 an item: ask, head, body; and how much of it went */
	size_t pieces;
	struct arena *a;
	struct jq_answer answer; /* being read */
	char *payload;           /* its bytes; NULL: its header did not come yet */
	size_t payload_n;
	uint32_t limit; /* enum jq_limit that it said */
	int64_t quiet_ms; /* how long it may say and take nothing */
};

static struct str piece(const struct exchange *x, size_t i)
{
	if (x->n == 0)
		return x->hello[i];
	const struct jq_item *item = x->items[i / 3];
	if (i % 3 == 0)
		return (struct str){(const char *)&x->asks[i / 3], sizeof x->asks[0]};
	return i % 3 == 1 ? item->head : item->body;
}

/* Sends what goes without waiting. False: the other side is gone. */
static bool send_some(struct exchange *x, bool *progress)
{
	while (x->piece < x->pieces) {
		struct iovec iov[IOV_MAX_USED];
		size_t n = 0;
		for (size_t i = x->piece; i < x->pieces && n < IOV_MAX_USED; i++, n++) {
			struct str s = piece(x, i);
			size_t skip = i == x->piece ? x->piece_at : 0;
			iov[n] = (struct iovec){(void *)(uintptr_t)(s.p + skip), s.n - skip};
		}
		struct msghdr msg = {.msg_iov = iov, .msg_iovlen = n};
		ssize_t sent = sendmsg(x->j->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			return errno == EAGAIN || errno == EWOULDBLOCK;
		*progress = true;
		x->piece_at += (size_t)sent;
		while (x->piece < x->pieces && x->piece_at >= piece(x, x->piece).n) {
			x->piece_at -= piece(x, x->piece).n;
			x->piece++;
		}
	}
	return true;
}

static bool is_text(uint32_t kind)
{
	return kind == JQ_A_COMPILE || kind == JQ_A_REFUSED || kind == JQ_A_FAILED;
}

/* Whether a header is one that this child may send now. */
static bool answer_fits(const struct exchange *x)
{
	const struct jq_answer *a = &x->answer;
	bool opening = x->n == 0;
	if (a->kind == JQ_A_LIMIT)
		return a->n == sizeof(uint32_t);
	if (opening != (a->kind >= JQ_A_READY && a->kind <= JQ_A_REFUSED))
		return false;
	if (is_text(a->kind))
		return a->n <= JQ_TEXT_MAX;
	if (a->kind == JQ_A_CHANGED)
		return x->j->kind == JQ_EDIT && a->n >= sizeof(struct jq_changed) && a->n <= (uint64_t)x->j->o.output_bytes + JQ_PLACES_MAX;
	if (a->kind == JQ_A_SAME)
		return x->j->kind == JQ_EDIT && a->n == 0;
	return (opening || x->j->kind == JQ_WHERE) && a->kind <= JQ_A_MATCH && a->n == 0;
}

static struct str cut_off(const char **p, uint32_t n)
{
	struct str s = {*p, n};
	*p += n;
	return s;
}

/* The item's outputs from a CHANGED answer; false when its lengths do not fit. */
static bool take_changed(struct exchange *x, struct jq_item *item)
{
	struct jq_changed c;
	const char *p = x->payload;
	memcpy(&c, p, sizeof c);
	p += sizeof c;
	if (c.n_changes > JQ_CHANGES_MAX || c.more_changes > INT32_MAX)
		return false;
	struct jq_changed_place places[JQ_CHANGES_MAX];
	uint64_t total = sizeof c + c.n_changes * sizeof places[0];
	if (total > x->answer.n)
		return false;
	memcpy(places, p, c.n_changes * sizeof places[0]);
	p += c.n_changes * sizeof places[0];
	total += (uint64_t)c.body_n + c.warning_n;
	for (uint32_t i = 0; i < c.n_changes; i++)
		total += (uint64_t)places[i].path_n + places[i].old_n + places[i].new_n;
	if (total != x->answer.n || c.body_n > x->j->o.output_bytes)
		return false;
	item->new_body = cut_off(&p, c.body_n);
	item->warning = cut_off(&p, c.warning_n);
	item->changes = arena_alloc(x->a, c.n_changes * sizeof item->changes[0]);
	item->n_changes = (int)c.n_changes;
	item->more_changes = (int)c.more_changes;
	for (uint32_t i = 0; i < c.n_changes; i++) {
		item->changes[i].path = cut_off(&p, places[i].path_n);
		item->changes[i].old = cut_off(&p, places[i].old_n);
		item->changes[i].new = cut_off(&p, places[i].new_n);
	}
	return true;
}

/* A whole answer is there. False: it makes no sense. */
static bool take_answer(struct exchange *x)
{
	if (x->answer.kind == JQ_A_LIMIT) {
		uint32_t limit;
		memcpy(&limit, x->payload, sizeof limit);
		if (limit < JQ_LIMIT_TIME || limit > JQ_LIMIT_CRASH)
			return false;
		x->limit = limit;
		return true;
	}
	if (x->n == 0) {
		x->done = 1;
		x->said = (struct str){x->payload, x->payload_n};
		return true;
	}
	struct jq_item *item = x->items[x->done++];
	item->verdict = x->answer.kind == JQ_A_MATCH   ? JQ_MATCH
	                : x->answer.kind == JQ_A_SAME    ? JQ_SAME
	                : x->answer.kind == JQ_A_CHANGED ? JQ_CHANGED
	                : x->answer.kind == JQ_A_FAILED  ? JQ_FAILED
	                                                 : JQ_NO_MATCH;
	if (item->verdict == JQ_FAILED)
		item->error = (struct str){x->payload, x->payload_n};
	return item->verdict != JQ_CHANGED || take_changed(x, item);
}

static bool wanted(const struct exchange *x)
{
	return x->limit == 0 && x->done < (x->n ? x->n : 1);
}

/* Looks at what was read. False: it makes no sense. */
static bool take_input(struct exchange *x)
{
	struct jq *j = x->j;
	while (wanted(x)) {
		if (!x->payload) {
			if (j->in_n < sizeof x->answer)
				return true;
			memcpy(&x->answer, j->in + j->in_from, sizeof x->answer);
			j->in_from += sizeof x->answer;
			j->in_n -= sizeof x->answer;
			if (!answer_fits(x))
				return false;
			x->payload_n = 0;
			x->payload = x->answer.n ? arena_alloc(x->a, x->answer.n + 1) : (char *)(uintptr_t)"";
		}
		size_t need = x->answer.n - x->payload_n, n = need < j->in_n ? need : j->in_n;
		if (n) {
			memcpy(x->payload + x->payload_n, j->in + j->in_from, n);
			x->payload_n += n;
			j->in_from += n;
			j->in_n -= n;
		}
		if (n < need)
			return true;
		if (!take_answer(x))
			return false;
		x->payload = NULL;
	}
	return true;
}

enum heard { HEARD, NOTHING_YET, HEARD_END, HEARD_NONSENSE };

static enum heard receive_some(struct exchange *x)
{
	struct jq *j = x->j;
	if (j->in_n && j->in_from)
		memmove(j->in, j->in + j->in_from, j->in_n);
	j->in_from = 0;
	ssize_t got;
	do
		got = recv(j->fd, j->in + j->in_n, sizeof j->in - j->in_n, MSG_DONTWAIT);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return errno == EAGAIN || errno == EWOULDBLOCK ? NOTHING_YET : HEARD_END;
	if (got == 0)
		return HEARD_END;
	j->in_n += (size_t)got;
	return take_input(x) ? HEARD : HEARD_NONSENSE;
}

enum ended { ENDED_WELL, ENDED_GONE, ENDED_NONSENSE, ENDED_SILENT };

/* Until every answer is there or the child is lost. */
static enum ended exchange_run(struct exchange *x)
{
	int64_t last = now_ms();
	while (wanted(x)) {
		bool progress = false;
		bool alive = send_some(x, &progress);
		/* What it said before it went counts. */
		enum heard h = receive_some(x);
		if (h == HEARD_NONSENSE)
			return ENDED_NONSENSE;
		if (h == HEARD || progress) {
			last = now_ms();
			continue;
		}
		if (h == HEARD_END || !alive)
			return ENDED_GONE;
		int64_t left = last + x->quiet_ms - now_ms();
		if (left <= 0)
			return ENDED_SILENT;
		struct pollfd p = {.fd = x->j->fd, .events = x->piece < x->pieces ? POLLIN | POLLOUT : POLLIN};
		(void)poll(&p, 1, left < 60000 ? (int)left : 60000); /* EINTR: the loop looks again */
	}
	return x->j->in_n == 0 ? ENDED_WELL : ENDED_NONSENSE; /* nobody asked for more */
}

/* ---- what became of it, in words ---- */

static enum dlq_code limit_error(const struct jq *j, uint32_t limit, const char *what, struct dlq_err *err)
{
	char size[32];
	switch (limit) {
	case JQ_LIMIT_TIME:
		return err_set(err, DLQ_TIMEOUT, "%s: jq ran longer than the %lld ms that one message may take (jq_timeout)", what,
		               (long long)j->o.item_ms);
	case JQ_LIMIT_CPU:
		return err_set(err, DLQ_TIMEOUT, "%s: the process that runs jq used up its %lld seconds of CPU time", what,
		               (long long)j->o.cpu_s);
	case JQ_LIMIT_MEMORY:
		size_human(j->o.memory_bytes, size);
		return err_set(err, DLQ_BAD_REQUEST, "%s: jq needed more than its %s of memory (jq_memory)", what, size);
	case JQ_LIMIT_OUTPUT:
		size_human(j->o.output_bytes, size);
		return err_set(err, DLQ_TOO_LARGE, "%s: what the jq program makes of it is larger than %s", what, size);
	default:
		return err_set(err, DLQ_BAD_REQUEST, "%s: jq itself broke; mostly that is a value or a program that nests too deeply", what);
	}
}

/* The child is gone or useless: ends it and says why. */
static enum dlq_code lost_error(struct jq *j, enum ended how, const char *what, struct dlq_err *err)
{
	int status = finish(j);
	if (how == ENDED_SILENT)
		return limit_error(j, JQ_LIMIT_TIME, what, err);
	if (how == ENDED_NONSENSE)
		return err_set(err, DLQ_SYSTEM, "%s: the process that runs jq gave an answer that makes no sense, and was ended", what);
	if (status >= 0 && WIFSIGNALED(status))
		return err_set(err, DLQ_SYSTEM, "%s: the process that runs jq was ended by signal %d%s", what, WTERMSIG(status),
		               WTERMSIG(status) == SIGKILL ? "; is the machine out of memory?" : "");
	return err_set(err, DLQ_SYSTEM, "%s: the process that runs jq ended by itself with status %d", what,
	               status >= 0 ? WEXITSTATUS(status) : -1);
}

/* ---- open, close ---- */

static enum dlq_code check_program(const struct jq_options *o, struct str program, struct dlq_err *err)
{
	if (!o->program)
		return err_set(err, DLQ_BAD_REQUEST, "jq is not available here: no program that runs it was named");
	if (str_trim(program).n == 0)
		return err_set(err, DLQ_BAD_REQUEST, "the jq program is empty");
	if (program.n > JQ_PROGRAM_MAX)
		return err_set(err, DLQ_BAD_REQUEST, "the jq program has %zu bytes; at most %d are taken", program.n, JQ_PROGRAM_MAX);
	if (!str_is_utf8(program))
		return err_set(err, DLQ_BAD_REQUEST, "the jq program is not UTF-8 text");
	return jq_scan(program, err);
}

static int64_t or_default(int64_t v, int64_t def, int64_t max)
{
	return v <= 0 ? def : v < max ? v : max;
}

static void set_options(struct jq *j, const struct jq_options *o)
{
	j->o.program = mem_strdup(str_of(o->program));
	j->o.memory_bytes = or_default(o->memory_bytes, MEMORY_DEFAULT, MEMORY_MAX);
	j->o.item_ms = or_default(o->item_ms, ITEM_MS_DEFAULT, 86400000);
	j->o.cpu_s = or_default(o->cpu_s, CPU_S_DEFAULT, 31536000);
	j->o.output_bytes = or_default(o->output_bytes, OUTPUT_DEFAULT, MEMORY_MAX);
}

/* Sends the program, waits for word that it compiled. */
static enum dlq_code compile(struct jq *j, struct dlq_err *err)
{
	static const char what[] = "the jq program";
	struct jq_hello hello;
	memset(&hello, 0, sizeof hello);
	hello.magic = JQ_MAGIC;
	hello.kind = j->kind;
	hello.memory_bytes = j->o.memory_bytes;
	hello.item_ms = j->o.item_ms;
	hello.compile_ms = j->o.item_ms > COMPILE_MS_MIN ? j->o.item_ms : COMPILE_MS_MIN;
	hello.cpu_s = j->o.cpu_s;
	hello.output_bytes = j->o.output_bytes;
	hello.program_n = (uint32_t)j->program.n;
	struct arena a = {0};
	struct exchange *x = mem_alloc(sizeof *x);
	*x = (struct exchange){.j = j, .a = &a, .pieces = 2, .quiet_ms = hello.compile_ms + GRACE_MS};
	x->hello[0] = (struct str){(const char *)&hello, sizeof hello};
	x->hello[1] = j->program;
	enum ended how = exchange_run(x);
	enum dlq_code code = DLQ_OK;
	if (how == ENDED_SILENT || x->limit == JQ_LIMIT_TIME)
		code = err_set(err, DLQ_TIMEOUT, "%s: it was not compiled within %lld ms", what, (long long)hello.compile_ms);
	else if (how != ENDED_WELL)
		code = lost_error(j, how, what, err);
	else if (x->limit)
		code = limit_error(j, x->limit, what, err);
	else if (x->answer.kind == JQ_A_COMPILE)
		code = err_set(err, DLQ_BAD_REQUEST, "%s, " STR_FMT, what, STR_ARG(x->said));
	else if (x->answer.kind == JQ_A_REFUSED)
		code = err_set(err, DLQ_SYSTEM, "the process that runs jq refuses to work: " STR_FMT, STR_ARG(x->said));
	arena_release(&a);
	mem_free(x);
	return code;
}

enum dlq_code jq_open(const struct jq_options *o, enum jq_kind kind, struct str program, struct jq **out, struct dlq_err *err)
{
	enum dlq_code code = check_program(o, program, err);
	*out = NULL;
	if (code != DLQ_OK)
		return code;
	struct jq *j = mem_alloc(sizeof *j);
	j->kind = kind;
	j->program = (struct str){mem_strdup(program), program.n};
	j->fd = -1;
	set_options(j, o);
	code = start(j, err);
	if (code == DLQ_OK)
		code = compile(j, err);
	if (code != DLQ_OK) {
		jq_close(j);
		return code;
	}
	*out = j;
	return DLQ_OK;
}

void jq_close(struct jq *j)
{
	if (!j)
		return;
	finish(j);
	mem_free((char *)(uintptr_t)j->program.p);
	mem_free((char *)(uintptr_t)j->o.program);
	mem_free(j);
}

bool jq_dead(const struct jq *j)
{
	char c;
	if (j->pid == 0)
		return true;
	ssize_t got = recv(j->fd, &c, 1, MSG_PEEK | MSG_DONTWAIT);
	return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

bool jq_is(const struct jq *j, enum jq_kind kind, struct str program)
{
	return j->kind == kind && str_eq(j->program, program);
}

int jq_pid(const struct jq *j)
{
	return j->pid;
}

/* ---- run ---- */

/* Puts the items to be asked in order; those whose size rules them out fail at once. */
static void plan(struct exchange *x, struct jq_item *items, int n)
{
	size_t most = (size_t)(x->j->o.memory_bytes / BODY_SHARE);
	for (int i = 0; i < n; i++) {
		struct jq_item *item = &items[i];
		*item = (struct jq_item){.head = item->head, .body = item->body, .new_body = STR(""), .error = STR(""), .warning = STR("")};
		if (item->body.n > most || item->head.n > most) {
			char size[32];
			size_human((int64_t)most, size);
			item->verdict = JQ_FAILED;
			item->error = arena_fmt(x->a, "the body is larger than the %s that jq may be given (a quarter of jq_memory)", size);
			continue;
		}
		x->asks[x->n] = (struct jq_ask){(uint32_t)item->head.n, (uint32_t)item->body.n};
		x->items[x->n++] = item;
	}
	x->pieces = (size_t)x->n * 3;
}

/* Goes on with the items that have no answer yet, in a child that is new. */
static enum dlq_code run_rest(struct exchange *x, struct dlq_err *err)
{
	size_t done = (size_t)x->done, left = (size_t)(x->n - x->done);
	finish(x->j);
	enum dlq_code code = start(x->j, err);
	if (code == DLQ_OK)
		code = compile(x->j, err);
	memmove(x->items, x->items + done, left * sizeof x->items[0]);
	memmove(x->asks, x->asks + done, left * sizeof x->asks[0]);
	x->n = (int)left;
	x->pieces = left * 3;
	x->piece = x->piece_at = 0;
	x->done = 0;
	x->limit = 0;
	x->payload = NULL;
	return code;
}

/* All items of x; when that fails, x->done is at the one that did it. */
static enum dlq_code run_all(struct exchange *x, const struct jq_item *items, int n, int *at, struct dlq_err *err)
{
	struct jq *j = x->j;
	char what[64];
	enum ended how;
	for (;;) {
		how = exchange_run(x);
		j->served += x->done;
		if (how == ENDED_WELL && !x->limit)
			return DLQ_OK;
		*at = (int)(x->items[x->done < x->n ? x->done : x->n - 1] - items);
		if (x->limit != JQ_LIMIT_MEMORY || j->served <= FRESH_ITEMS)
			break;
		enum dlq_code code = run_rest(x, err);
		if (code != DLQ_OK)
			return code;
	}
	snprintf(what, sizeof what, "item %d of %d", *at + 1, n);
	return x->limit ? limit_error(j, x->limit, what, err) : lost_error(j, how, what, err);
}

enum dlq_code jq_run(struct jq *j, struct jq_item *items, int n, struct arena *a, int *at, struct dlq_err *err)
{
	ASSERT(n >= 1 && n <= ITEMS_MAX);
	*at = 0;
	if (j->pid == 0)
		return err_set(err, DLQ_SYSTEM, "the process that runs jq has ended; open the program again");
	struct exchange *x = mem_alloc(sizeof *x);
	x->j = j;
	x->a = a;
	x->quiet_ms = j->o.item_ms + GRACE_MS;
	plan(x, items, n);
	enum dlq_code code = x->n > 0 ? run_all(x, items, n, at, err) : DLQ_OK;
	if (code != DLQ_OK)
		finish(j);
	mem_free(x);
	return code;
}
