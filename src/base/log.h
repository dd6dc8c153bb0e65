// SPDX-License-Identifier: Apache-2.0
/* base/log.h - structured logs, one line each, to stderr or a file. One per process. */
#pragma once
#include "base/err.h"

/* Text: "2026-01-02T03:04:05.678Z info agentsh-server: message key=value"; JSON: time, level,
 * program, message and the keys. */
enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };
enum log_format { LOG_TEXT, LOG_JSON };

/* fd is borrowed; before the first call: info, text, stderr. Called before there are threads. */
void log_init(const char *program, enum log_level level, enum log_format format, int fd);
void log_set(enum log_level level, enum log_format format); /* at any time, from any thread */
bool log_on(enum log_level level);
/* Key-value pairs follow the message, ending with NULL: log_info("session ready", "session_id", id,
 * NULL). */
void log_write(enum log_level level, const char *msg, ...) __attribute__((sentinel));
#define log_debug(...) log_write(LOG_DEBUG, __VA_ARGS__, NULL)
#define log_info(...) log_write(LOG_INFO, __VA_ARGS__, NULL)
#define log_warn(...) log_write(LOG_WARN, __VA_ARGS__, NULL)
#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__, NULL)
int log_level_parse(const char *s, enum log_level *out); /* debug info warn error; 0 or -1 */
