// SPDX-License-Identifier: Apache-2.0
/* Any thread may log: it makes a line of its own and writes it by one write(2). Program and
 * descriptor change only in log_init, before there are threads; a new log file gets the same
 * descriptor number. */
#include "base/log.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/names.h"
#include <errno.h>
#include <stdarg.h>

static struct {
	char program[32];
	_Atomic enum log_level level;
	_Atomic enum log_format format;
	int fd;
} settings = {"agentsh", LOG_INFO, LOG_TEXT, STDERR_FILENO};

static const char *const levels[] = {
	[LOG_DEBUG] = "debug", [LOG_INFO] = "info", [LOG_WARN] = "warn", [LOG_ERROR] = "error"};

void log_init(const char *program, enum log_level level, enum log_format format, int fd)
{
	strncpy(settings.program, program, sizeof(settings.program) - 1);
	settings.fd = fd;
	log_set(level, format);
}

void log_set(enum log_level level, enum log_format format)
{
	settings.level = level;
	settings.format = format;
}

bool log_on(enum log_level level)
{
	return level >= settings.level;
}

static void add_time(struct buf *line)
{
	clock_format(line, clock_wall_us(&clock_system), true);
	/* From microseconds to milliseconds: "678901Z" becomes "678Z". */
	line->len -= strlen("901Z");
	buf_addc(line, 'Z');
}

static void json_line(struct buf *line, enum log_level level, const char *msg, va_list ap)
{
	struct jw w = JW(line);
	const char *key;

	jw_obj(&w);
	jw_key(&w, "time");
	buf_addc(line, '"');
	add_time(line);
	buf_addc(line, '"');
	w.comma = true;
	jw_kstr(&w, "level", levels[level]);
	jw_kstr(&w, "program", settings.program);
	jw_kstr(&w, "message", msg);
	while ((key = va_arg(ap, const char *)) != NULL)
		jw_kstr(&w, key, va_arg(ap, const char *));
	jw_obj_end(&w);
}

/* Adds a text as it is if that is unambiguous, else as a JSON string: the bytes of a peer must not
 * forge lines or keys. */
static void add_text(struct buf *line, const char *s, const char *also_quoted)
{
	struct jw w = JW(line);
	const char *p = s;

	while (p != NULL && (unsigned char)*p >= ' ' && *p != 0x7f &&
	       strchr(also_quoted, *p) == NULL)
		p++;
	if (p == NULL || *p != '\0' || p == s)
		jw_str(&w, s);
	else
		buf_adds(line, s);
}

static void text_line(struct buf *line, enum log_level level, const char *msg, va_list ap)
{
	const char *key;

	add_time(line);
	buf_addf(line, " %s %s: ", levels[level], settings.program);
	add_text(line, msg, "");
	while ((key = va_arg(ap, const char *)) != NULL) {
		buf_addf(line, " %s=", key);
		add_text(line, va_arg(ap, const char *), " =\"\\");
	}
}

void log_write(enum log_level level, const char *msg, ...)
{
	cleanup_buf struct buf line = {0};
	const int saved = errno;
	va_list ap;

	if (!log_on(level))
		return;
	va_start(ap, msg);
	(settings.format == LOG_JSON ? json_line : text_line)(&line, level, msg, ap);
	va_end(ap);
	buf_addc(&line, '\n');
	(void)!TEMP_FAILURE_RETRY(write(settings.fd, line.data, line.len));
	errno = saved;
}

int log_level_parse(const char *s, enum log_level *out)
{
	const int i = name_find(levels, ARRAY_LEN(levels), s, strlen(s));

	if (i >= 0)
		*out = (enum log_level)i;
	return i >= 0 ? 0 : -1;
}
