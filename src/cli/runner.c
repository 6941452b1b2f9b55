#include "cli/runner.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DRAIN_CHUNKS 16 /* of 8 KiB; a pipe holds 64 KiB */

struct child {
	pid_t pid;
	int pidfd, in, err; /* -1: closed */
	size_t written;
};

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* Own process group, signals as a fresh program has them. 0 or errno. */
static int spawn(const struct run *r, int in, int err, pid_t *pid)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t none, defaults;
	int rc;

	sigemptyset(&none);
	sigemptyset(&defaults);
	sigaddset(&defaults, SIGPIPE);
	sigaddset(&defaults, SIGTERM);
	sigaddset(&defaults, SIGINT);
	sigaddset(&defaults, SIGHUP);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&files, err, STDERR_FILENO);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setpgroup(&attr, 0);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &defaults);
	rc = posix_spawnp(pid, r->argv[0], &files, &attr, r->argv, r->envp);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&files);
	return rc;
}

/* 0 or errno; then c->in and c->err are our ends, non-blocking. */
static int start(const struct run *r, struct child *c)
{
	int in[2] = {-1, -1}, err[2] = {-1, -1}, rc;

	*c = (struct child){.pid = -1, .pidfd = -1, .in = -1, .err = -1};
	if (pipe2(in, O_CLOEXEC) || pipe2(err, O_CLOEXEC)) {
		rc = errno;
	} else {
		rc = spawn(r, in[0], err[1], &c->pid);
		if (!rc) {
			c->pidfd = pidfd_open(c->pid, 0);
			if (c->pidfd < 0) {
				rc = errno;
				kill(-c->pid, SIGKILL);
				waitpid(c->pid, NULL, 0);
			}
		}
	}
	close_fd(&in[0]);
	close_fd(&err[1]);
	c->in = in[1];
	c->err = err[0];
	if (rc) {
		close_fd(&c->in);
		close_fd(&c->err);
		return rc;
	}
	fcntl(c->in, F_SETFL, O_NONBLOCK);
	fcntl(c->err, F_SETFL, O_NONBLOCK);
	if (!r->body.n)
		close_fd(&c->in);
	return 0;
}

/* A command that does not read its stdin to the end is fine: EPIPE just ends the writing. */
static void feed(const struct run *r, struct child *c)
{
	ssize_t n = write(c->in, r->body.p + c->written, r->body.n - c->written);

	if (n > 0)
		c->written += (size_t)n;
	if ((n < 0 && errno != EAGAIN && errno != EINTR) || c->written == r->body.n)
		close_fd(&c->in);
}

/* Keeps the end, passes all of it on to our stderr. Bounded: a command that writes faster than our stderr takes it must not
 * keep the timers from firing. The bound is above what a pipe holds, so the last call gets all that is left. */
static void drain_stderr(struct run *r, struct child *c)
{
	char chunk[8192];
	ssize_t n = -1;

	errno = EAGAIN;
	for (int i = 0; i < DRAIN_CHUNKS && (n = read(c->err, chunk, sizeof(chunk))) > 0; i++) {
		size_t len = (size_t)n, skip = len > RUN_TAIL ? len - RUN_TAIL : 0, keep = len - skip;

		for (size_t at = 0; at < len;) {
			ssize_t w = write(STDERR_FILENO, chunk + at, len - at);

			if (w <= 0 && errno != EINTR)
				break;
			at += w > 0 ? (size_t)w : 0;
		}
		if (r->tail_n + keep > RUN_TAIL) {
			size_t drop = r->tail_n + keep - RUN_TAIL;

			memmove(r->tail, r->tail + drop, r->tail_n - drop);
			r->tail_n -= drop;
		}
		memcpy(r->tail + r->tail_n, chunk + skip, keep);
		r->tail_n += keep;
	}
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		close_fd(&c->err);
}

struct timers {
	int64_t timeout, tick, kill; /* monotonic ms; INT64_MAX: off */
};

static void end_now(struct run *r, struct child *c, struct timers *t, enum run_end why)
{
	r->end = why;
	t->timeout = t->tick = INT64_MAX;
	t->kill = now_ms() + RUN_GRACE_MS;
	kill(-c->pid, SIGTERM);
}

static void fire_timers(struct run *r, struct child *c, struct timers *t)
{
	int64_t now = now_ms();

	if (now >= t->kill) {
		kill(-c->pid, SIGKILL);
		t->kill = INT64_MAX;
	} else if (now >= t->timeout) {
		end_now(r, c, t, RUN_TIMEOUT);
	} else if (now >= t->tick) {
		t->tick = now + r->tick_ms;
		if (!r->tick(r->arg))
			end_now(r, c, t, RUN_STOPPED);
	}
}

static int wait_ms(const struct timers *t)
{
	int64_t next = t->timeout < t->tick ? t->timeout : t->tick, left;

	next = t->kill < next ? t->kill : next;
	if (next == INT64_MAX)
		return -1;
	left = next - now_ms();
	return left < 0 ? 0 : left > 3600000 ? 3600000 : (int)left;
}

/* Until the command has ended. What it left running keeps running, without us. */
static void watch(struct run *r, struct child *c)
{
	int64_t now = now_ms();
	struct timers t = {
		.timeout = r->timeout_ms ? now + r->timeout_ms : INT64_MAX,
		.tick = r->tick_ms ? now + r->tick_ms : INT64_MAX,
		.kill = INT64_MAX,
	};
	bool ended = false;

	while (!ended) {
		struct pollfd p[4] = {
			{.fd = c->pidfd, .events = POLLIN},
			{.fd = c->err, .events = POLLIN},
			{.fd = c->in, .events = POLLOUT},
			{.fd = r->end == RUN_STOPPED || r->end == RUN_TIMEOUT ? -1 : r->stop_fd, .events = POLLIN},
		};

		if (poll(p, 4, wait_ms(&t)) < 0 && errno != EINTR)
			break;
		if (c->in >= 0 && p[2].revents)
			feed(r, c);
		if (c->err >= 0 && p[1].revents)
			drain_stderr(r, c);
		ended = p[0].revents != 0;
		if (!ended && p[3].fd >= 0 && p[3].revents)
			end_now(r, c, &t, RUN_STOPPED);
		if (!ended)
			fire_timers(r, c, &t);
	}
	if (c->err >= 0)
		drain_stderr(r, c);
	if (r->end != RUN_EXIT) /* what the command started must not outlive it either */
		kill(-c->pid, SIGKILL);
}

void run_command(struct run *r)
{
	struct child c;
	int status = 0, rc;

	r->end = RUN_EXIT;
	r->status = 0;
	r->tail_n = 0;
	rc = start(r, &c);
	if (rc) {
		r->end = RUN_NOT_STARTED;
		r->status = rc;
		return;
	}
	watch(r, &c);
	while (waitpid(c.pid, &status, 0) < 0 && errno == EINTR)
		;
	if (r->end == RUN_EXIT && WIFSIGNALED(status)) {
		r->end = RUN_SIGNAL;
		r->status = WTERMSIG(status);
	} else if (r->end == RUN_EXIT) {
		r->status = WEXITSTATUS(status);
	}
	close_fd(&c.pidfd);
	close_fd(&c.in);
	close_fd(&c.err);
}
