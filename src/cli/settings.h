/*
 * settings.h - the settings of the server: one table drives the YAML file, the DLQ_* environment, the flags of
 * `dlq serve`, validation, `dlq config show` and docs/config.md (a test compares the page with it).
 *
 * Precedence: flag, environment, file, default. The list `queues` is in the file only and has rules of its own
 * (core/policy.h). Text anywhere in the file may be "${NAME}" (environment, "$${" is a plain "${") or "file:/path"
 * (its first line); such values are secrets: never shown.
 */
#ifndef CLI_SETTINGS_H
#define CLI_SETTINGS_H

#include "cli/cli.h"
#include "core/policy.h"

enum setting_id {
	SET_LISTEN, SET_DATA, SET_LOG_LEVEL, SET_LOG_FORMAT, SET_TLS_CERT, SET_TLS_KEY, SET_ON_DEAD_LETTER,
	SET_MAX_MESSAGE_BYTES, SET_MAX_BATCH_BYTES, SET_MAX_HEADER_BYTES, SET_MAX_HEADERS, SET_MAX_CONNECTIONS,
	SET_IDLE_TIMEOUT, SET_REQUEST_TIMEOUT, SET_MAX_WAITING_OPERATIONS, SET_MAX_WAITING_BYTES, SET_DRAIN_TIMEOUT,
	SET_JQ_MEMORY, SET_JQ_TIMEOUT, SET_EXPIRES_SOON,
	SET_COUNT
};

enum setting_kind {
	SETTING_TEXT, SETTING_ADDRESS, SETTING_LEVEL, SETTING_FORMAT, SETTING_URL, SETTING_COUNT, SETTING_SIZE,
	SETTING_DURATION
};

struct setting {
	const char *key;   /* "limits.idle_timeout"; the variable is DLQ_LIMITS_IDLE_TIMEOUT */
	enum setting_kind kind;
	const char *fallback;
	int64_t min, max;  /* numbers; ms and bytes */
	const char *flag;  /* of `dlq serve`; NULL: none */
	bool reload;       /* SIGHUP takes it */
};
extern const struct setting settings_table[SET_COUNT];

struct setting_value {
	struct str text;
	int64_t num;       /* SETTING_COUNT, SIZE, DURATION, LEVEL */
	struct str origin; /* "default", "--listen", "DLQ_LISTEN", "dlq.yaml:3" */
	bool secret;
};

/* Zeroed, then filled by settings_load; released by settings_release whether or not that succeeded. */
struct settings {
	struct arena arena;
	struct setting_value v[SET_COUNT];
	struct queue_config **queues;
	int n_queues;
};

/* file NULL: no file. c gives the flags; NULL: none. An error names the file and line, the variable, or the flag. */
enum dlq_code settings_load(struct settings *s, const char *file, const struct cli *c, struct dlq_err *err) MUST_USE;
void settings_release(struct settings *s);
/* The name of the variable; out has room for 64 bytes. */
char *setting_env(const struct setting *row, char out[64]);
static inline const char *settings_text(const struct settings *s, enum setting_id id)
{
	return s->v[id].text.n ? s->v[id].text.p : NULL;
}

/* The options of `dlq serve` and `dlq config show` that stand for settings. */
#define SETTINGS_OPTIONS                                                                               \
	{"config", "FILE", "configuration file (YAML); default DLQ_CONFIG, else none"},                 \
	{"data", "DIR", "data folder, made if absent; default ./dlq-data"},                             \
	{"listen", "HOST:PORT", "address; port 0 takes a free one; default 127.0.0.1:7357"},            \
	{"log-level", "LEVEL", "debug, info, warn or error"},                                           \
	{"log-format", "FORMAT", "text or json"},                                                       \
	{"tls-cert", "FILE", "certificate chain (PEM); with --tls-key the server speaks https"},        \
	{"tls-key", "FILE", "private key (PEM)"},                                                       \
	{0}

#endif
