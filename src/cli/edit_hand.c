/* edit_hand.c - one dead letter's body in the operator's own editor. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/edit.h"
#include "cli/edit_diff.h"
#include "cli/job.h"
#include "cli/term.h"
#include "jq/json_text.h"

extern char **environ;

struct work {
	struct cli *c;
	struct client *cl;
	char dlq_id[64];
	bool json;        /* the body was a JSON document */
	struct buf old, new_body;
	char path[300];   /* of the file; "": none */
};

/* ---- the file ---- */

static enum dlq_code write_file(struct work *w, const char *suffix, struct dlq_err *err)
{
	const char *dir = getenv("TMPDIR");
	struct str left = buf_str(&w->old);

	snprintf(w->path, sizeof(w->path), "%.200s/dlq-edit-XXXXXX%s", dir && *dir ? dir : "/tmp", suffix);
	int fd = mkostemps(w->path, (int)strlen(suffix), O_CLOEXEC); /* 0600 */
	if (fd < 0) {
		enum dlq_code code = err_set(err, DLQ_SYSTEM, "cannot make a file in %s: %s", dir && *dir ? dir : "/tmp", strerror(errno));

		w->path[0] = 0;
		return code;
	}
	while (left.n) {
		ssize_t n = write(fd, left.p, left.n);

		if (n < 0 && errno != EINTR)
			break;
		left.p += n > 0 ? n : 0;
		left.n -= n > 0 ? (size_t)n : 0;
	}
	if (close(fd) || left.n) {
		enum dlq_code code = err_set(err, DLQ_SYSTEM, "cannot write %s: %s", w->path, strerror(errno));

		unlink(w->path);
		w->path[0] = 0;
		return code;
	}
	return DLQ_OK;
}

static const char *editor(void)
{
	const char *e = getenv("VISUAL");

	if (!e || !*e)
		e = getenv("EDITOR");
	return e && *e ? e : "vi";
}

/* Runs the editor on the file and waits. As a shell command: it may have options of its own. */
static enum dlq_code run_editor(const struct work *w, struct dlq_err *err)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN}, old_int, old_quit;
	posix_spawnattr_t attr;
	sigset_t defaults;
	struct buf line = {0};
	int status = 0, rc;
	pid_t pid;

	buf_addf(&line, "%s \"$1\"", editor());
	buf_addc(&line, 0);
	char *const argv[] = {(char *)(uintptr_t)"sh", (char *)(uintptr_t)"-c", line.p, (char *)(uintptr_t)"sh", (char *)(uintptr_t)w->path, NULL};
	sigemptyset(&defaults);
	sigaddset(&defaults, SIGINT);
	sigaddset(&defaults, SIGQUIT);
	sigaddset(&defaults, SIGPIPE);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigdefault(&attr, &defaults);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF);
	/* Ctrl-C in the editor is for the editor. */
	sigaction(SIGINT, &ignore, &old_int);
	sigaction(SIGQUIT, &ignore, &old_quit);
	rc = posix_spawn(&pid, "/bin/sh", NULL, &attr, argv, environ);
	if (!rc)
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	sigaction(SIGINT, &old_int, NULL);
	sigaction(SIGQUIT, &old_quit, NULL);
	posix_spawnattr_destroy(&attr);
	buf_release(&line);
	if (rc)
		return err_set(err, DLQ_SYSTEM, "cannot run the editor %s: %s", editor(), strerror(rc));
	if (WIFSIGNALED(status))
		return err_set(err, DLQ_SYSTEM, "the editor %s ended by signal %d; nothing was put back", editor(), WTERMSIG(status));
	if (WEXITSTATUS(status))
		return err_set(err, DLQ_SYSTEM, "the editor %s ended with exit code %d; nothing was put back%s", editor(), WEXITSTATUS(status),
			       WEXITSTATUS(status) == 127 ? "; set EDITOR to one that is installed" : "");
	return DLQ_OK;
}

/* What the editor left, without the line break that many add at the end of a text that had none. */
static enum dlq_code read_back(struct work *w, struct dlq_err *err)
{
	bool ended = w->old.n && w->old.p[w->old.n - 1] == '\n';

	if (cli_read_file(w->path, &w->new_body, err))
		return err->code;
	if (!ended && w->new_body.n && w->new_body.p[w->new_body.n - 1] == '\n')
		w->new_body.n--;
	if (!str_is_utf8(buf_str(&w->new_body)))
		return err_set(err, DLQ_BAD_REQUEST, "what the editor left is not UTF-8 text");
	return DLQ_OK;
}

/* ---- the dead letter ---- */

/* Also with numbers beyond 64 bits, which jansson refuses. *at (or NULL): the byte where it is none. */
static bool is_json(struct str s, size_t *at)
{
	struct jtext_doc d = {0};
	enum jtext_fault fault = jtext_parse(&d, s, JSON_DEPTH_CAP, at);

	jtext_release(&d);
	return fault != JSON_WRONG;
}

static enum dlq_code fetch(struct work *w, const char *id, struct dlq_err *err)
{
	struct buf path = {0};

	buf_addz(&path, "/v1/dead-letters/");
	url_escape(&path, id);
	buf_addc(&path, 0);
	json_t *d = client_json(w->cl, "GET", path.p, NULL, err);
	if (!d)
		goto out;
	snprintf(w->dlq_id, sizeof(w->dlq_id), "%s", jstr(d, "dlq_id"));
	if (strcmp(jstr(d, "state"), "dead") && !(cli_flag(w->c, "override") && !strcmp(jstr(d, "state"), "archived"))) {
		err_set(err, DLQ_CONFLICT, "dead letter %s is %s, not dead, so it cannot be put back%s", w->dlq_id, jstr(d, "state"),
			!strcmp(jstr(d, "state"), "archived") ? " without --override" : "");
		goto out;
	}
	buf_clear(&path);
	buf_addf(&path, "/v1/dead-letters/%s/body", w->dlq_id);
	buf_addc(&path, 0);
	struct client_call call = {.method = "GET", .path = path.p, .timeout_ms = 90000};
	if (!client_call(w->cl, &call, err)) {
		w->json = is_json(buf_str(&call.reply), NULL);
		buf_adds(&w->old, buf_str(&call.reply));
		if (!str_is_utf8(buf_str(&call.reply)))
			err_set(err, DLQ_BAD_REQUEST, "the body of %s is no text: `dlq show %s --body` writes it to a file, and "
				"`dlq redrive %s --body FILE` puts it back from one", w->dlq_id, w->dlq_id, w->dlq_id);
	}
	client_call_clear(&call);
out:
	json_decref(d);
	buf_release(&path);
	return err->code;
}

/* Whether the operator wants it to go back as it is now. */
static bool agreed(struct work *w)
{
	struct str text = buf_str(&w->new_body);
	size_t at = 0;

	if (!w->c->json) {
		printf("%s\n", w->dlq_id);
		edit_diff(buf_str(&w->old), text);
		fflush(stdout);
	}
	if (w->json && !is_json(text, &at)) {
		size_t line = 1, column = 1;

		for (size_t i = 0; i < at && i < text.n; i++) {
			column = text.p[i] == '\n' ? 1 : column + ((text.p[i] & 0xc0) != 0x80);
			line += text.p[i] == '\n';
		}
		fprintf(stderr, "careful: it was a JSON document and is none any more: line %zu, column %zu\n", line, column);
	}
	if (!text.n)
		fprintf(stderr, "careful: the body is empty now\n");
	return cli_flag(w->c, "yes") || ask_yes("put it back with this body?");
}

static int put_back(struct work *w)
{
	json_t *o = json_pack("{s:s, s:o}", "reason", cli_opt(w->c, "reason"), "body",
			      json_stringn(w->new_body.n ? w->new_body.p : "", w->new_body.n));
	char path[120];

	if (cli_flag(w->c, "override"))
		json_object_set_new(o, "override", json_true());
	snprintf(path, sizeof(path), "/v1/dead-letters/%s/redrive", w->dlq_id);
	return job_start(w->c, w->cl, path, o);
}

/* The text is somebody's work: it stays where it is, and is named. */
static void keep(struct work *w)
{
	fprintf(stderr, "what you typed is in %s\nagain: dlq redrive %s --body %s --reason '...'\n", w->path, w->dlq_id, w->path);
	w->path[0] = 0;
}

static bool is_changed(const struct work *w)
{
	return !str_eq(buf_str(&w->old), buf_str(&w->new_body));
}

int edit_by_hand(struct cli *c, struct client *cl, const char *id)
{
	struct work w = {.c = c, .cl = cl};
	struct dlq_err err = {0}, editing = {0};
	int rc;

	if (fetch(&w, id, &err) || write_file(&w, w.json ? ".json" : ".txt", &err)) {
		rc = cli_fail(&err);
		goto out;
	}
	bool edited = !run_editor(&w, &editing);
	if (read_back(&w, &err)) {
		rc = cli_fail(edited ? &err : &editing);
		if (!access(w.path, F_OK))
			keep(&w);
		else if (edited)
			fprintf(stderr, "the editor %s left no file; nothing was put back\n", editor());
	} else if (!edited) {
		rc = cli_fail(&editing);
		if (is_changed(&w))
			keep(&w);
	} else if (!is_changed(&w)) {
		fprintf(stderr, "unchanged; nothing was put back\n");
		rc = EXIT_PARTIAL;
	} else if (!agreed(&w)) {
		fprintf(stderr, "nothing was put back\n");
		rc = EXIT_PARTIAL;
		keep(&w);
	} else {
		rc = put_back(&w);
		if (rc)
			keep(&w);
	}
out:
	if (w.path[0])
		unlink(w.path);
	buf_release(&w.old);
	buf_release(&w.new_body);
	return rc;
}
