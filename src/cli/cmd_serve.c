/*
 * cmd_serve.c - the server process: puts the layers together, waits for signals, takes them apart in reverse order.
 *
 * The main thread has all signals of interest blocked before any other thread starts, and takes them from a signalfd.
 */
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "alert/sink.h"
#include "base/clock.h"
#include "base/log.h"
#include "cli/settings.h"
#include "engine/engine.h"
#include "handler/handler.h"
#include "http/server.h"
#include "net/net.h"

#define PUSH_MAX 1024
#define NOTICES_MAX 32

struct serve {
	struct cli *c;
	const char *file;
	struct settings s;
	struct clock *clock;
	struct net_loop *net;
	struct handler *push;
	struct sink *webhook;
	struct engine *engine;
	struct http_server *http;
	struct buf cert, key;
	char url_path[4096]; /* DATA/server.url, once written */
	int signals;
};

/* Tells systemd (Type=notify); without NOTIFY_SOCKET nothing happens. */
static void notify_manager(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	size_t n = path ? strlen(path) : 0;

	if (!n || n >= sizeof(to.sun_path))
		return;
	memcpy(to.sun_path, path, n);
	if (to.sun_path[0] == '@')
		to.sun_path[0] = 0;
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	if (sendto(fd, state, strlen(state), 0, (struct sockaddr *)&to,
		   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)) < 0)
		log_event(LOG_WARN, "serve.notify_failed", "error=%d", errno);
	close(fd);
}

static void open_files_limit(void)
{
	struct rlimit r;

	if (!getrlimit(RLIMIT_NOFILE, &r) && r.rlim_cur < r.rlim_max) {
		r.rlim_cur = r.rlim_max;
		setrlimit(RLIMIT_NOFILE, &r);
	}
}

static enum dlq_code block_signals(struct serve *v, struct dlq_err *err)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	v->signals = signalfd(-1, &set, SFD_CLOEXEC);
	if (v->signals < 0)
		return err_set(err, DLQ_SYSTEM, "signalfd: %s", strerror(errno));
	return DLQ_OK;
}

static enum dlq_code read_pem(const struct settings *s, enum setting_id id, struct buf *out, struct dlq_err *err)
{
	const char *path = settings_text(s, id);
	enum dlq_code code;

	if (!path)
		return DLQ_OK;
	out->max = (size_t)1 << 20;
	code = cli_read_file(path, out, err);
	if (code)
		err_prefix(err, "%s", settings_table[id].key);
	else
		buf_addc(out, 0);
	return code;
}

static enum dlq_code open_engine(struct serve *v, struct dlq_err *err)
{
	struct engine_options o = { /* the default store */
		.dir = settings_text(&v->s, SET_DATA),
		.clock = v->clock,
		.max_waiting_ops = (int)v->s.v[SET_MAX_WAITING_OPERATIONS].num,
		.max_waiting_bytes = v->s.v[SET_MAX_WAITING_BYTES].num,
		.jq_program = "/proc/self/exe",
		.jq_memory_bytes = v->s.v[SET_JQ_MEMORY].num,
		.jq_item_ms = v->s.v[SET_JQ_TIMEOUT].num,
		.jq_output_bytes = v->s.v[SET_MAX_MESSAGE_BYTES].num,
		.expires_soon_ms = v->s.v[SET_EXPIRES_SOON].num,
		.push = v->push,
		.on_dead_letter = v->webhook,
	};
	bool created = false;
	enum dlq_code code = engine_open(&o, &v->engine, err);

	if (!code)
		code = engine_bootstrap_token(v->engine, &created, err);
	if (!code)
		code = engine_apply_queues(v->engine, v->s.queues, v->s.n_queues, v->s.v[SET_ON_DEAD_LETTER].text, err);
	if (!code)
		code = engine_start(v->engine, err);
	return code;
}

static enum dlq_code open_http(struct serve *v, struct dlq_err *err)
{
	const struct setting_value *s = v->s.v;
	struct http_options o = {
		.listen = settings_text(&v->s, SET_LISTEN),
		.tls_cert = v->cert.n ? v->cert.p : NULL,
		.tls_key = v->key.n ? v->key.p : NULL,
		.limits =
			{
				.max_message_bytes = s[SET_MAX_MESSAGE_BYTES].num,
				.max_batch_bytes = s[SET_MAX_BATCH_BYTES].num,
				.max_header_bytes = s[SET_MAX_HEADER_BYTES].num,
				.max_headers = s[SET_MAX_HEADERS].num,
				.max_connections = s[SET_MAX_CONNECTIONS].num,
				.idle_timeout_ms = s[SET_IDLE_TIMEOUT].num,
				.request_timeout_ms = s[SET_REQUEST_TIMEOUT].num,
				.max_waiting_operations = s[SET_MAX_WAITING_OPERATIONS].num,
				.max_waiting_bytes = s[SET_MAX_WAITING_BYTES].num,
				.drain_timeout_ms = s[SET_DRAIN_TIMEOUT].num,
				.expires_soon_ms = s[SET_EXPIRES_SOON].num,
			},
		.engine = v->engine,
	};

	return http_server_start(&o, &v->http, err);
}

/* DATA/server.url is how commands on this machine find the server. */
static enum dlq_code announce(struct serve *v, struct dlq_err *err)
{
	const char *dir = settings_text(&v->s, SET_DATA), *scheme = v->cert.n ? "https" : "http";
	char temp[4096 + 8];

	snprintf(v->url_path, sizeof(v->url_path), "%s/server.url", dir);
	snprintf(temp, sizeof(temp), "%s.tmp", v->url_path);
	FILE *f = fopen(temp, "we");
	if (!f || fprintf(f, "%s://%s\n", scheme, http_server_address(v->http)) < 0 || fclose(f) ||
	    rename(temp, v->url_path)) {
		enum dlq_code code = err_set(err, DLQ_SYSTEM, "cannot write %s: %s", v->url_path, strerror(errno));

		v->url_path[0] = 0;
		return code;
	}
	printf("listening on %s://%s\nadmin token in %s/admin.token\n", scheme, http_server_address(v->http), dir);
	fflush(stdout);
	notify_manager("READY=1");
	return DLQ_OK;
}

static enum dlq_code start(struct serve *v, struct dlq_err *err)
{
	enum dlq_code code = settings_load(&v->s, v->file, v->c, err);

	if (code)
		return code;
	log_set_level((enum log_level)v->s.v[SET_LOG_LEVEL].num);
	log_set_json(str_eqz(v->s.v[SET_LOG_FORMAT].text, "json"));
	open_files_limit();
	code = block_signals(v, err);
	if (!code)
		code = read_pem(&v->s, SET_TLS_CERT, &v->cert, err);
	if (!code)
		code = read_pem(&v->s, SET_TLS_KEY, &v->key, err);
	if (code)
		return code;
	v->clock = clock_real_new();
	code = net_loop_new(&v->net, err);
	if (code)
		return code;
	v->push = handler_http_new(v->net, PUSH_MAX);
	v->webhook = sink_webhook_new(v->net, NOTICES_MAX);
	code = open_engine(v, err);
	if (!code)
		code = open_http(v, err);
	if (!code)
		code = announce(v, err);
	return code;
}

static void stop(struct serve *v)
{
	int64_t ms = v->s.v[SET_DRAIN_TIMEOUT].num;

	if (v->http) {
		notify_manager("STOPPING=1");
		http_server_drain(v->http, 0); /* from here on not ready; settles of workers still get in */
		engine_drain(v->engine, ms);
		http_server_drain(v->http, ms);
	}
	http_server_stop(v->http);
	if (v->engine)
		engine_close(v->engine);
	if (v->push) {
		v->push->ops->stop(v->push, 0);
		v->push->ops->free(v->push);
	}
	if (v->webhook) {
		v->webhook->ops->stop(v->webhook, 0);
		v->webhook->ops->free(v->webhook);
	}
	if (v->net)
		net_loop_free(v->net);
	if (v->clock)
		clock_free(v->clock);
	if (v->url_path[0])
		unlink(v->url_path);
	if (v->signals > 0)
		close(v->signals);
	buf_release(&v->cert);
	buf_release(&v->key);
	settings_release(&v->s);
}

/* ---- SIGHUP ---- */

static void warn_fixed(const struct settings *old, const struct settings *new)
{
	for (int i = 0; i < SET_COUNT; i++)
		if (!settings_table[i].reload && !str_eq(old->v[i].text, new->v[i].text))
			log_event(LOG_WARN, "serve.reload_needs_restart", "key=%s", settings_table[i].key);
}

/* All or nothing: whatever fails, the old settings stay. */
static void reload(struct serve *v)
{
	struct settings s = {0};
	struct dlq_err err = {0};
	char quoted[1100];
	size_t n = 0;

	notify_manager("RELOADING=1");
	if (settings_load(&s, v->file, v->c, &err) ||
	    engine_apply_queues(v->engine, s.queues, s.n_queues, s.v[SET_ON_DEAD_LETTER].text, &err)) {
		for (const char *p = err.detail; *p && n + 3 < sizeof(quoted); p++) {
			if (*p == '"' || *p == '\\')
				quoted[n++] = '\\';
			quoted[n++] = *p;
		}
		quoted[n] = 0;
		log_event(LOG_ERROR, "serve.reload_refused", "code=%s detail=\"%s\"", code_name(err.code), quoted);
		settings_release(&s);
	} else {
		warn_fixed(&v->s, &s);
		log_set_level((enum log_level)s.v[SET_LOG_LEVEL].num);
		log_event(LOG_INFO, "serve.reloaded", "queues=%d", s.n_queues);
		/* What cannot change keeps its value. */
		for (int i = 0; i < SET_COUNT; i++)
			if (!settings_table[i].reload) {
				s.v[i] = v->s.v[i];
				s.v[i].text = arena_str(&s.arena, v->s.v[i].text);
				s.v[i].origin = arena_str(&s.arena, v->s.v[i].origin);
			}
		settings_release(&v->s);
		v->s = s;
	}
	notify_manager("READY=1");
}

static void wait_for_end(struct serve *v)
{
	struct signalfd_siginfo info;

	for (;;) {
		if (read(v->signals, &info, sizeof(info)) != (ssize_t)sizeof(info)) {
			if (errno == EINTR)
				continue;
			return;
		}
		if (info.ssi_signo != SIGHUP)
			break;
		reload(v);
	}
	log_event(LOG_INFO, "serve.stopping", "signal=%s", info.ssi_signo == SIGTERM ? "TERM" : "INT");
	/* A second one ends the process at once. */
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	signal(SIGTERM, SIG_DFL);
	signal(SIGINT, SIG_DFL);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static int run(struct cli *c)
{
	struct serve v = {.c = c, .file = cli_opt(c, "config")};
	struct dlq_err err = {0};
	int rc = 0;

	if (c->n_args)
		return cli_usage(c, "%s: no argument is wanted; a configuration file goes with --config", c->args[0]);
	if (!v.file)
		v.file = getenv("DLQ_CONFIG");
	if (v.file && !*v.file)
		v.file = NULL;
	umask(077);
	/* Large buffers go back to the system when they are freed: what is in use has limits, what lies between would have none. */
	mallopt(M_MMAP_THRESHOLD, 512 << 10);
	mallopt(M_TRIM_THRESHOLD, 4 << 20);
	if (start(&v, &err))
		rc = cli_fail(&err);
	else
		wait_for_end(&v);
	stop(&v);
	return rc;
}

static const struct cli_option options[] = {SETTINGS_OPTIONS};

const struct command cmd_serve = {
	.name = "serve",
	.synopsis = "[--config FILE] [--data DIR] [--listen HOST:PORT] [OPTIONS]",
	.summary = "run the server",
	.about = "Everything is kept in the data folder; the first start makes it, with an admin token in\n"
		 "DIR/admin.token that only its owner can read. When the server takes requests it prints\n"
		 "`listening on URL`.\n"
		 "\n"
		 "SIGTERM or SIGINT: stops taking work, lets what is under way end (limits.drain_timeout),\n"
		 "exit code 0. A second signal ends it at once; what was acknowledged is on disk either\n"
		 "way.\n"
		 "\n"
		 "SIGHUP reads the configuration file again: queues, on_dead_letter and log_level change,\n"
		 "all or nothing; a mistake is logged and the old settings stay.",
	.examples = "dlq serve # data in ./dlq-data, http://127.0.0.1:7357\n"
		    "dlq serve --config /etc/dlq/dlq.yaml --data /var/lib/dlq # with queues from a file\n"
		    "dlq serve --listen 127.0.0.1:0 # on a free port",
	.options = options,
	.run = run,
};
