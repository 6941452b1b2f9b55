/* demo_server.c - a server of its own for the demo: a free port, a temporary folder, both gone at the end. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/demo.h"

extern char **environ;

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

void demo_server_stop(struct demo_server *s)
{
	if (s->pid > 0) {
		kill(s->pid, SIGTERM);
		while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	if (s->dir[0])
		nftw(s->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Runs `dlq serve` on a free port and a temporary folder; url has room for 200 bytes. */
static enum dlq_code start(struct demo_server *s, char *url, struct dlq_err *err)
{
	char self[PATH_MAX], line[300] = "";
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	int out[2];

	snprintf(s->dir, sizeof(s->dir), "/tmp/dlq-demo-XXXXXX");
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (n < 0 || !mkdtemp(s->dir) || pipe2(out, O_CLOEXEC)) {
		enum dlq_code code = err_set(err, DLQ_SYSTEM, "cannot make a folder for the demo: %s", strerror(errno));

		s->dir[0] = 0;
		return code;
	}
	self[n] = 0;
	const char *argv[] = {self, "serve", "--data", s->dir, "--listen", "127.0.0.1:0", "--log-level", "error", NULL};
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, out[1], STDOUT_FILENO);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP); /* Ctrl-C is for us; we end it */
	posix_spawnattr_setpgroup(&attr, 0);
	int rc = posix_spawn(&s->pid, self, &files, &attr, (char **)argv, environ);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attr);
	close(out[1]);
	FILE *in = fdopen(out[0], "r");
	if (rc || !in || !fgets(line, sizeof(line), in) || sscanf(line, "listening on %199s", url) != 1)
		rc = rc ? rc : ECHILD;
	if (in)
		fclose(in);
	if (rc)
		return err_set(err, DLQ_SYSTEM, "the server for the demo did not start");
	return DLQ_OK;
}

struct client *demo_server_start(struct demo_server *s, int *rc)
{
	struct dlq_err err = {0};
	struct buf token = {0};
	char url[200], path[100];
	struct client *cl = NULL;

	if (start(s, url, &err)) {
		*rc = cli_fail(&err);
		return NULL;
	}
	snprintf(path, sizeof(path), "%s/admin.token", s->dir);
	if (cli_read_file(path, &token, &err)) {
		*rc = cli_fail(&err);
	} else {
		char *text = mem_strdup(str_trim(buf_str(&token)));

		cl = client_new(url, text);
		mem_free(text);
	}
	buf_release(&token);
	return cl;
}
