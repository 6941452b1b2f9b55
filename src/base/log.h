/*
 * log.h - events, not prose: one line each on stderr, `time level event key=value ...`.
 * No payloads and no secrets ever. One line per failure, written by the layer that decides.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/base.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

void log_set_level(enum log_level level);
bool log_level_parse(struct str s, enum log_level *level);
void log_set_json(bool on); /* one JSON object a line instead */

/* event: a stable id such as "store.commit_failed". fmt gives `key=value` pairs; values with spaces go through %s
 * quoted by the caller with LOG_Q(). */
#define LOG_Q_MAX 512
#define LOG_Q(z) log_quote((char[LOG_Q_MAX]){0}, (z))
/* z in quotes, escaped, cut to fit out; NULL gives "". Returns out. */
const char *log_quote(char out[LOG_Q_MAX], const char *z);
void log_event(enum log_level level, const char *event, const char *fmt, ...) PRINTF_LIKE(3, 4);

#endif
