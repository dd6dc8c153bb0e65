// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>

#include <cmocka.h>

/* One end is the log, the other gives one line per datagram: so the test sees each write(2). */
static int ends[2] = {-1, -1};

static int open_ends(void **state)
{
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends);
}

static int close_ends(void **state)
{
	log_init("test", LOG_INFO, LOG_TEXT, STDERR_FILENO);
	close(ends[0]);
	close(ends[1]);
	return 0;
}

/* The next line, or "" if nothing was written. */
static const char *line(void)
{
	static char text[8192];
	ssize_t n = recv(ends[1], text, sizeof(text) - 1, MSG_DONTWAIT);

	text[n > 0 ? n : 0] = '\0';
	return text;
}

static void obs_2_text_lines_have_time_level_program_message_keys(void **state)
{
	const char *s;

	log_init("agentsh-x", LOG_INFO, LOG_TEXT, ends[0]);
	log_info("session ready", "session_id", "s-1", "count", "3");
	s = line();
	assert_int_equal(s[10], 'T');
	assert_int_equal(s[19], '.');
	assert_string_equal(s + 23, "Z info agentsh-x: session ready session_id=s-1 count=3\n");
	log_error("bare");
	assert_string_equal(line() + 23, "Z error agentsh-x: bare\n");
	assert_string_equal(line(), "");
}

static void obs_2_values_cannot_forge_lines_or_keys(void **state)
{
	log_init("p", LOG_DEBUG, LOG_TEXT, ends[0]);
	log_debug("m", "a", "x y", "b", "x=y", "c", "q\"q", "d", "n\nn", "e", "", "f", "b\\b");
	assert_string_equal(line() + 23,
			    "Z debug p: m a=\"x y\" b=\"x=y\" c=\"q\\\"q\" d=\"n\\nn\" "
			    "e=\"\" f=\"b\\\\b\"\n");
	log_warn("two\nlines", "n", (const char *)NULL, "u", "ä");
	assert_string_equal(line() + 23, "Z warn p: \"two\\nlines\" n=null u=ä\n");
	log_info("esc\x7f", "e", "\x1b[0m", "s", "\x1f");
	assert_string_equal(line() + 23,
			    "Z info p: \"esc\\u007f\" e=\"\\u001b[0m\" s=\"\\u001f\"\n");
	log_info("say \"hi\" = \\ there");
	assert_string_equal(line() + 23, "Z info p: say \"hi\" = \\ there\n");
}

static void obs_2_json_lines_are_one_object(void **state)
{
	const char *s;
	json_t *v;

	log_init("p", LOG_INFO, LOG_JSON, ends[0]);
	log_warn("m\n\xff", "session_id", "s-1", "none", (const char *)NULL);
	s = line();
	assert_ptr_equal(strchr(s, '\n'), s + strlen(s) - 1);
	v = json_loads(s, JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(v);
	assert_int_equal(json_object_size(v), 6);
	assert_int_equal(json_string_length(json_object_get(v, "time")),
			 strlen("2026-01-02T03:04:05.678Z"));
	assert_int_equal(json_string_value(json_object_get(v, "time"))[23], 'Z');
	assert_string_equal(json_string_value(json_object_get(v, "level")), "warn");
	assert_string_equal(json_string_value(json_object_get(v, "program")), "p");
	assert_string_equal(json_string_value(json_object_get(v, "message")), "m\n\xef\xbf\xbd");
	assert_string_equal(json_string_value(json_object_get(v, "session_id")), "s-1");
	assert_true(json_is_null(json_object_get(v, "none")));
	json_decref(v);
}

static void obs_2_lines_below_the_level_are_dropped(void **state)
{
	for (enum log_level set = LOG_DEBUG; set <= LOG_ERROR; set++)
		for (enum log_level l = LOG_DEBUG; l <= LOG_ERROR; l++) {
			log_init("p", set, LOG_TEXT, ends[0]);
			assert_int_equal(log_on(l), l >= set);
			log_write(l, "m", NULL);
			assert_int_equal(line()[0] != '\0', l >= set);
		}
}

static void obs_2_logging_keeps_errno(void **state)
{
	log_init("p", LOG_INFO, LOG_TEXT, -1);
	errno = ENOENT;
	log_info("nowhere to go");
	assert_int_equal(errno, ENOENT);
}

static void obs_2_long_lines_and_names(void **state)
{
	char text[5000];
	const char *s;

	memset(text, 'v', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	log_init(text, LOG_INFO, LOG_TEXT, ends[0]);
	log_info("m", "k", text);
	s = line();
	assert_int_equal(strlen(s), 30 + 31 + strlen(": m k=\n") + sizeof(text) - 1);
}

static void obs_2_level_and_format_change_at_run_time(void **state)
{
	log_init("p", LOG_WARN, LOG_TEXT, ends[0]);
	log_info("lost");
	assert_string_equal(line(), "");
	log_set(LOG_INFO, LOG_JSON);
	log_info("found");
	assert_non_null(strstr(line(), "\"program\":\"p\",\"message\":\"found\"}"));
	log_set(LOG_ERROR, LOG_TEXT);
	log_warn("lost");
	assert_string_equal(line(), "");
	log_error("found");
	assert_string_equal(line() + 23, "Z error p: found\n");
}

static void obs_2_levels_have_names(void **state)
{
	enum log_level l = LOG_ERROR;

	assert_int_equal(log_level_parse("debug", &l), 0);
	assert_int_equal(l, LOG_DEBUG);
	assert_int_equal(log_level_parse("info", &l), 0);
	assert_int_equal(l, LOG_INFO);
	assert_int_equal(log_level_parse("warn", &l), 0);
	assert_int_equal(l, LOG_WARN);
	assert_int_equal(log_level_parse("error", &l), 0);
	assert_int_equal(l, LOG_ERROR);
	l = LOG_WARN;
	assert_int_equal(log_level_parse("warning", &l), -1);
	assert_int_equal(log_level_parse("", &l), -1);
	assert_int_equal(log_level_parse("DEBUG", &l), -1);
	assert_int_equal(l, LOG_WARN);
}

#define WITH_ENDS(f) cmocka_unit_test_setup_teardown(f, open_ends, close_ends)
int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_ENDS(obs_2_text_lines_have_time_level_program_message_keys),
		WITH_ENDS(obs_2_values_cannot_forge_lines_or_keys),
		WITH_ENDS(obs_2_json_lines_are_one_object),
		WITH_ENDS(obs_2_lines_below_the_level_are_dropped),
		WITH_ENDS(obs_2_logging_keeps_errno),
		WITH_ENDS(obs_2_long_lines_and_names),
		WITH_ENDS(obs_2_level_and_format_change_at_run_time),
		cmocka_unit_test(obs_2_levels_have_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
