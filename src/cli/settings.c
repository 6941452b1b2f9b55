#include "cli/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"

#define KIB ((int64_t)1024)
#define MIB (1024 * KIB)
#define HOUR ((int64_t)3600 * 1000)

const struct setting settings_table[SET_COUNT] = {
	[SET_LISTEN] = {"listen", SETTING_ADDRESS, "127.0.0.1:7357", 0, 0, "listen", false},
	[SET_DATA] = {"data", SETTING_TEXT, "./dlq-data", 0, 0, "data", false},
	[SET_LOG_LEVEL] = {"log_level", SETTING_LEVEL, "info", 0, 0, "log-level", true},
	[SET_LOG_FORMAT] = {"log_format", SETTING_FORMAT, "text", 0, 0, "log-format", false},
	[SET_TLS_CERT] = {"tls.cert", SETTING_TEXT, "", 0, 0, "tls-cert", false},
	[SET_TLS_KEY] = {"tls.key", SETTING_TEXT, "", 0, 0, "tls-key", false},
	[SET_ON_DEAD_LETTER] = {"on_dead_letter", SETTING_URL, "", 0, 0, NULL, true},
	[SET_MAX_MESSAGE_BYTES] = {"limits.max_message_bytes", SETTING_SIZE, "1MiB", KIB, 64 * MIB, NULL, false},
	[SET_MAX_BATCH_BYTES] = {"limits.max_batch_bytes", SETTING_SIZE, "16MiB", KIB, 256 * MIB, NULL, false},
	[SET_MAX_HEADER_BYTES] = {"limits.max_header_bytes", SETTING_SIZE, "16KiB", KIB, MIB, NULL, false},
	[SET_MAX_HEADERS] = {"limits.max_headers", SETTING_COUNT, "64", 1, 64, NULL, false},
	[SET_MAX_CONNECTIONS] = {"limits.max_connections", SETTING_COUNT, "12000", 1, 100000, NULL, false},
	[SET_IDLE_TIMEOUT] = {"limits.idle_timeout", SETTING_DURATION, "60s", 1000, HOUR, NULL, false},
	[SET_REQUEST_TIMEOUT] = {"limits.request_timeout", SETTING_DURATION, "30s", 1000, HOUR, NULL, false},
	[SET_MAX_WAITING_OPERATIONS] = {"limits.max_waiting_operations", SETTING_COUNT, "20000", 1, 1000000, NULL,
					false},
	[SET_MAX_WAITING_BYTES] = {"limits.max_waiting_bytes", SETTING_SIZE, "64MiB", MIB, 4096 * MIB, NULL, false},
	[SET_DRAIN_TIMEOUT] = {"limits.drain_timeout", SETTING_DURATION, "10s", 0, HOUR, NULL, false},
	[SET_JQ_MEMORY] = {"limits.jq_memory", SETTING_SIZE, "64MiB", 8 * MIB, 4096 * MIB, NULL, false},
	[SET_JQ_TIMEOUT] = {"limits.jq_timeout", SETTING_DURATION, "1s", 10, 60000, NULL, false},
	[SET_EXPIRES_SOON] = {"limits.expires_soon", SETTING_DURATION, "3d", 1000, 3650 * 24 * HOUR, NULL, false},
};

char *setting_env(const struct setting *row, char out[64])
{
	size_t n = (size_t)snprintf(out, 64, "DLQ_%s", row->key);

	for (size_t i = 4; i < n; i++)
		out[i] = out[i] == '.' ? '_' : out[i] >= 'a' && out[i] <= 'z' ? (char)(out[i] - 32) : out[i];
	return out;
}

/* ---- secrets ---- */

static enum dlq_code expand_file(struct arena *a, struct doc *d, struct dlq_err *err)
{
	struct buf text = {.max = 65536};
	struct dlq_err why = {0};
	enum dlq_code code = DLQ_OK;
	char path[4096];

	snprintf(path, sizeof(path), "%.*s", (int)d->text.n - 5, d->text.p + 5);
	if (cli_read_file(path, &text, &why)) {
		code = doc_fail(d, err, "%s", why.detail);
	} else {
		struct str line = buf_str(&text);
		const char *end = line.n ? memchr(line.p, '\n', line.n) : NULL;

		if (end)
			line.n = (size_t)(end - line.p);
		d->text = arena_str(a, str_trim(line));
	}
	buf_release(&text);
	return code;
}

/* Replaces every ${NAME} of d->text. *used: there was one. */
static enum dlq_code expand_env(struct arena *a, struct doc *d, bool *used, struct dlq_err *err)
{
	struct buf out = {.max = 65536};
	enum dlq_code code = DLQ_OK;
	struct str t = d->text;

	for (size_t i = 0; i < t.n && !code;) {
		const char *close =
			i + 2 < t.n && t.p[i] == '$' && t.p[i + 1] == '{' ? memchr(t.p + i, '}', t.n - i) : NULL;

		if (i + 2 < t.n && !memcmp(t.p + i, "$${", 3)) {
			buf_addz(&out, "${");
			i += 3;
		} else if (close) {
			char name[128];

			snprintf(name, sizeof(name), "%.*s", (int)(close - t.p - (long)i - 2), t.p + i + 2);
			const char *value = getenv(name);
			if (value)
				buf_addz(&out, value);
			else
				code = doc_fail(
					d, err,
					"the environment has no variable %s; set it, or write $${ for a plain ${",
					name);
			*used = true;
			i = (size_t)(close - t.p) + 1;
		} else {
			buf_addc(&out, t.p[i++]);
		}
	}
	if (!code)
		d->text = arena_str(a, buf_str(&out));
	buf_release(&out);
	return code;
}

/* Sets secret when the text came from elsewhere. */
static enum dlq_code expand(struct arena *a, struct doc *d, bool *secret, struct dlq_err *err)
{
	*secret = false;
	if (d->kind != DOC_SCALAR)
		return DLQ_OK;
	if (str_starts(d->text, "file:") && !str_starts(d->text, "file://")) {
		*secret = true;
		return expand_file(a, d, err);
	}
	if (!memmem(d->text.p, d->text.n, "${", 2))
		return DLQ_OK;
	return expand_env(a, d, secret, err);
}

static enum dlq_code expand_tree(struct arena *a, struct doc *d, struct dlq_err *err)
{
	enum dlq_code code = DLQ_OK;
	bool secret;

	for (struct doc *child = d->child; child && !code; child = child->next) {
		code = expand(a, child, &secret, err);
		if (!code)
			code = expand_tree(a, child, err);
	}
	return code;
}

/* ---- values ---- */

static enum dlq_code check_address(const struct doc *d, struct str text, struct dlq_err *err)
{
	const char *colon = text.n ? memrchr(text.p, ':', text.n) : NULL;
	char *end;

	if (colon && colon > text.p && colon[1] >= '0' && colon[1] <= '9') {
		long port = strtol(colon + 1, &end, 10);

		if (port <= 65535 && end == text.p + text.n)
			return DLQ_OK;
	}
	return doc_fail(d, err, "\"" STR_FMT "\" is no address; HOST:PORT is wanted, such as 127.0.0.1:7357 or [::1]:0",
			STR_ARG(text));
}

static enum dlq_code read_value(const struct setting *row, const struct doc *d, struct setting_value *v,
				struct dlq_err *err)
{
	enum log_level level;
	enum dlq_code code = doc_str(d, &v->text, err);

	if (code)
		return code;
	switch (row->kind) {
	case SETTING_TEXT:
		return DLQ_OK;
	case SETTING_ADDRESS:
		return check_address(d, v->text, err);
	case SETTING_LEVEL:
		if (!log_level_parse(v->text, &level))
			return doc_fail(d, err, "\"" STR_FMT "\" is none of debug, info, warn, error",
					STR_ARG(v->text));
		v->num = level;
		return DLQ_OK;
	case SETTING_FORMAT:
		if (!str_eqz(v->text, "text") && !str_eqz(v->text, "json"))
			return doc_fail(d, err, "\"" STR_FMT "\" is none of text, json", STR_ARG(v->text));
		return DLQ_OK;
	case SETTING_URL:
		if (v->text.n && !str_starts(v->text, "http://") && !str_starts(v->text, "https://"))
			return doc_fail(d, err, "a URL that starts with http:// or https:// is wanted");
		return DLQ_OK;
	case SETTING_COUNT:
		return doc_int(d, row->min, row->max, &v->num, err);
	case SETTING_SIZE:
		return doc_size(d, row->min, row->max, &v->num, err);
	case SETTING_DURATION:
		return doc_duration(d, row->min, row->max, &v->num, err);
	}
	return err_set(err, DLQ_INTERNAL, "setting %s has no kind", row->key);
}

/* A value that is written nowhere in the file. `place` is shown in errors. */
static enum dlq_code take_text(struct settings *s, enum setting_id id, const char *text, const char *place,
			       struct dlq_err *err)
{
	struct doc d = {.kind = DOC_SCALAR, .key = str_of(settings_table[id].key), .file = place};
	struct setting_value v = {0};

	d.text = arena_str(&s->arena, str_of(text));
	enum dlq_code code = expand(&s->arena, &d, &v.secret, err);
	if (!code)
		code = read_value(&settings_table[id], &d, &v, err);
	v.origin = arena_str(&s->arena, str_of(place));
	s->v[id] = v;
	return code;
}

/* ---- the file ---- */

/* The node of a dotted key, NULL if absent. */
static struct doc *find(const struct doc *root, const char *key)
{
	const char *dot = strchr(key, '.');
	char head[32];

	if (!dot)
		return doc_get(root, key);
	snprintf(head, sizeof(head), "%.*s", (int)(dot - key), key);
	struct doc *map = doc_get(root, head);
	return map && map->kind == DOC_MAP ? doc_get(map, dot + 1) : NULL;
}

/* The names allowed in the map `section` ("" for the top), from the table. */
static enum dlq_code check_section(const struct doc *map, const char *section, struct dlq_err *err)
{
	const char *known[SET_COUNT + 1];
	static char heads[SET_COUNT][32];
	size_t n = 0, len = strlen(section);

	if (!map)
		return DLQ_OK;
	if (map->kind != DOC_MAP)
		return doc_fail(map, err, "a map of settings is wanted");
	for (int i = 0; i < SET_COUNT; i++) {
		const char *key = settings_table[i].key, *dot = strchr(key, '.');

		if (!len) {
			snprintf(heads[i], sizeof(heads[i]), "%.*s", dot ? (int)(dot - key) : (int)strlen(key), key);
			known[n++] = heads[i];
		} else if (dot && (size_t)(dot - key) == len && !strncmp(key, section, len)) {
			known[n++] = dot + 1;
		}
	}
	if (!len)
		known[n++] = "queues";
	return doc_check_keys(map, known, n, err);
}

static enum dlq_code read_queues(struct settings *s, const struct doc *list, struct dlq_err *err)
{
	int n = 0;

	if (!list)
		return DLQ_OK;
	if (list->kind != DOC_LIST)
		return doc_fail(list, err,
				"a list of queues is wanted, each an entry that starts with \"- name: ...\"");
	for (const struct doc *d = list->child; d; d = d->next)
		n++;
	s->queues = mem_array((size_t)n + 1, sizeof(*s->queues));
	for (const struct doc *d = list->child; d; d = d->next) {
		struct queue_config *q = NULL;
		enum dlq_code code = queue_config_parse(d, (struct str){0}, s->v[SET_ON_DEAD_LETTER].text, &q, err);

		if (code)
			return code;
		q->from_file = true;
		s->queues[s->n_queues++] = q;
		for (int i = 0; i + 1 < s->n_queues; i++)
			if (str_eq(s->queues[i]->name, q->name))
				return doc_fail(d, err, "queue " STR_FMT " is defined twice", STR_ARG(q->name));
	}
	return DLQ_OK;
}

static enum dlq_code read_file(struct settings *s, const char *file, struct doc **root, struct dlq_err *err)
{
	struct buf text = {.max = (size_t)16 << 20};
	enum dlq_code code = cli_read_file(file, &text, err);

	*root = NULL;
	if (!code)
		code = doc_from_yaml(&s->arena, arena_str(&s->arena, buf_str(&text)),
				     arena_str(&s->arena, str_of(file)).p, root, err);
	buf_release(&text);
	if (code || !*root || (*root)->kind == DOC_NULL) {
		*root = code ? *root : NULL;
		return code;
	}
	code = check_section(*root, "", err);
	if (!code)
		code = check_section(doc_get(*root, "tls"), "tls", err);
	if (!code)
		code = check_section(doc_get(*root, "limits"), "limits", err);
	return code;
}

/* One setting of the file; it counts only if neither flag nor environment has it, but it is always checked. */
static enum dlq_code take_node(struct settings *s, enum setting_id id, struct doc *d, struct dlq_err *err)
{
	struct setting_value v = {0};
	enum dlq_code code = expand(&s->arena, d, &v.secret, err);

	if (!code)
		code = read_value(&settings_table[id], d, &v, err);
	if (code)
		return code;
	v.text = arena_str(&s->arena, v.text);
	v.origin = arena_fmt(&s->arena, "%s:%d", d->file, d->key_line ? d->key_line : d->line);
	s->v[id] = v;
	return DLQ_OK;
}

static enum dlq_code load_one(struct settings *s, enum setting_id id, const struct doc *root, const struct cli *c,
			      struct dlq_err *err)
{
	const struct setting *row = &settings_table[id];
	const char *flag = c && row->flag ? cli_opt(c, row->flag) : NULL;
	struct doc *node = root ? find(root, row->key) : NULL;
	char name[64];
	const char *env = getenv(setting_env(row, name));
	enum dlq_code code = take_text(s, id, row->fallback, "default", err);

	if (!code && node)
		code = take_node(s, id, node, err);
	if (!code && env && *env)
		code = take_text(s, id, env, name, err);
	if (!code && flag) {
		snprintf(name, sizeof(name), "--%s", row->flag);
		code = take_text(s, id, flag, arena_str(&s->arena, str_of(name)).p, err);
	}
	return code;
}

enum dlq_code settings_load(struct settings *s, const char *file, const struct cli *c, struct dlq_err *err)
{
	struct doc *root = NULL;
	enum dlq_code code = file ? read_file(s, file, &root, err) : DLQ_OK;

	for (int i = 0; i < SET_COUNT && !code; i++)
		code = load_one(s, (enum setting_id)i, root, c, err);
	if (!code && !s->v[SET_DATA].text.n)
		code = err_set(err, DLQ_INVALID_SETTING, STR_FMT ": the data folder is empty text; name one, such as ./dlq-data",
			       STR_ARG(s->v[SET_DATA].origin));
	if (!code && !s->v[SET_TLS_CERT].text.n != !s->v[SET_TLS_KEY].text.n)
		code = err_set(err, DLQ_INVALID_SETTING, "tls.cert and tls.key go together; only %s is set",
			       s->v[SET_TLS_CERT].text.n ? "tls.cert" : "tls.key");
	if (!code && root) {
		struct doc *queues = doc_get(root, "queues");

		if (queues)
			code = expand_tree(&s->arena, queues, err);
		if (!code)
			code = read_queues(s, queues, err);
	}
	return code;
}

void settings_release(struct settings *s)
{
	for (int i = 0; i < s->n_queues; i++)
		queue_config_unref(s->queues[i]);
	mem_free(s->queues);
	arena_release(&s->arena);
	memset(s, 0, sizeof(*s));
}
