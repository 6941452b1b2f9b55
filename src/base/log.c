/* One write(2) per line, so that lines of several threads never mix; no lock is held. */
#include "base/log.h"
#include "base/clock.h"
#include "base/text.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINE_MAX_BYTES 4096

static const char *const level_names[] = {"debug", "info", "warn", "error"};
static atomic_int min_level = LOG_INFO;
static atomic_bool as_json;

void log_set_level(enum log_level level)
{
	atomic_store(&min_level, level);
}

bool log_level_parse(struct str s, enum log_level *level)
{
	for (size_t i = 0; i < ARRAY_LEN(level_names); i++) {
		if (str_eqz(s, level_names[i])) {
			*level = (enum log_level)i;
			return true;
		}
	}
	return false;
}

void log_set_json(bool on)
{
	atomic_store(&as_json, on);
}

const char *log_quote(char out[LOG_Q_MAX], const char *z)
{
	size_t n = 0;
	struct str s = str_of(z);
	out[n++] = '"';
	for (size_t i = 0; i < s.n; i++) {
		char c = (unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7f ? ' ' : s.p[i];
		if (n + 6 > LOG_Q_MAX) { /* two for this one, three dots or a quote, NUL */
			n = str_cut((struct str){out, LOG_Q_MAX}, n).n;
			memcpy(out + n, "...", 3);
			n += 3;
			break;
		}
		if (c == '"' || c == '\\')
			out[n++] = '\\';
		out[n++] = c;
	}
	out[n++] = '"';
	out[n] = '\0';
	return out;
}

/* Takes one value off the front of s: a quoted text (unescaped into out) or all up to the next space. */
static struct str take_value(struct str *s, char *out, bool *quoted)
{
	size_t i = 0, n = 0;
	*quoted = s->n > 0 && s->p[0] == '"';
	if (*quoted)
		i++;
	while (i < s->n && s->p[i] != (*quoted ? '"' : ' ')) {
		if (*quoted && s->p[i] == '\\' && i + 1 < s->n)
			i++;
		out[n++] = s->p[i++];
	}
	if (*quoted && i < s->n)
		i++;
	s->p += i;
	s->n -= i;
	return (struct str){out, n};
}

static bool is_json_int(struct str s)
{
	if (s.n > 1 && s.p[0] == '-') {
		s.p++;
		s.n--;
	}
	if (s.n == 0 || s.n > 18 || (s.n > 1 && s.p[0] == '0'))
		return false;
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
	return true;
}

/* key=value pairs as members. Words without a `=` are gathered nowhere: they become members that are true. */
static void pairs_to_json(struct json_out *j, struct str pairs)
{
	char value[LINE_MAX_BYTES], key[64];
	while ((pairs = str_trim(pairs)).n > 0) {
		size_t n = 0;
		while (n < pairs.n && pairs.p[n] != '=' && pairs.p[n] != ' ')
			n++;
		snprintf(key, sizeof key, STR_FMT, (int)(n < sizeof key ? n : sizeof key - 1), pairs.p);
		bool has_value = n < pairs.n && pairs.p[n] == '=';
		n += has_value;
		pairs.p += n;
		pairs.n -= n;
		if (!has_value) {
			jout_kbool(j, key, true);
			continue;
		}
		bool quoted;
		struct str v = take_value(&pairs, value, &quoted);
		jout_key(j, key);
		if (!quoted && is_json_int(v))
			jout_raw(j, v);
		else
			jout_str(j, v);
	}
}

static void line_json(struct buf *b, const char *time, enum log_level level, const char *event, struct str pairs)
{
	struct json_out j;
	jout_init(&j, b);
	jout_open(&j, '{');
	jout_kz(&j, "time", time);
	jout_kz(&j, "level", level_names[level]);
	jout_kz(&j, "event", event);
	pairs_to_json(&j, pairs);
	jout_close(&j, '}');
}

void log_event(enum log_level level, const char *event, const char *fmt, ...)
{
	if ((int)level < atomic_load_explicit(&min_level, memory_order_relaxed))
		return;
	char pairs[LINE_MAX_BYTES], time[TIME_LEN + 1];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(pairs, sizeof pairs, fmt, ap);
	va_end(ap);
	for (char *p = pairs; *p; p++)
		if ((unsigned char)*p < 0x20)
			*p = ' '; /* one event, one line */
	time_format(clock_system_wall_ms(), time);
	struct buf b = {0};
	if (atomic_load_explicit(&as_json, memory_order_relaxed))
		line_json(&b, time, level, event, str_of(pairs));
	else
		buf_addf(&b, "%s %s %s%s%s", time, level_names[level], event, pairs[0] ? " " : "", pairs);
	buf_addc(&b, '\n');
	/* A log that cannot be written has nowhere to say so. */
	ssize_t written = write(STDERR_FILENO, b.p, b.n);
	(void)written;
	buf_release(&b);
}
