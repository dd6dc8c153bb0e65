// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "config/table.h"
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void defaults(struct config *c)
{
	assert_int_equal(config_defaults(CONFIG_SYSTEM, c, NULL), 0);
}

/* Every member is in the table, so that nothing is left without a default or leaks. */
static void cfg_1_every_row_is_whole(void **state)
{
	for (size_t i = 0; i < config_row_count; i++) {
		const struct config_row *row = &config_rows[i];
		cleanup_free char *test = mem_printf("test_cfg_1_%s", row->key);

		for (char *s = test; *s != '\0'; s++)
			*s = *s == '.' ? '_' : *s;
		assert_string_equal(row->test, test);
		assert_true(strlen(row->help) > 10 && row->help[strlen(row->help) - 1] == '.');
		assert_true(isupper((unsigned char)row->help[0]));
		assert_true(row->min <= row->max);
		assert_ptr_equal(config_row_find(row->key), row);
		assert_false(config_row_later(row->key));
		assert_false(config_row_section(row->key));
		for (size_t k = 0; k < i; k++) {
			assert_string_not_equal(row->key, config_rows[k].key);
			assert_int_not_equal(row->offset, config_rows[k].offset);
		}
	}
	assert_null(config_row_find("server"));
	assert_null(config_row_find(""));
	assert_true(config_row_section("server"));
	assert_true(config_row_section("server.auth"));
	assert_true(config_row_section("monitoring"));
	assert_false(config_row_section("monitor"));
	assert_false(config_row_section("serve"));
	assert_false(config_row_section("server."));
	assert_true(config_row_later("server.tls"));
	assert_true(config_row_later("server.tls.x.y"));
	assert_false(config_row_later("server.tl"));
	assert_false(config_row_later("server.tls2"));
}

static void cfg_1_words_of_a_section(void **state)
{
	struct strv words = {0};

	config_row_words("", &words);
	assert_int_equal(words.n, 12);
	assert_string_equal(words.v[0], "server");
	assert_string_equal(words.v[4], "monitoring");
	assert_string_equal(words.v[11], "metrics");
	strv_done(&words);
	config_row_words("server.auth", &words);
	assert_int_equal(words.n, 3);
	assert_string_equal(words.v[0], "type");
	strv_done(&words);
	config_row_words("events", &words);
	assert_int_equal(words.n, 4);
	assert_string_equal(words.v[3], "jsonl");
	strv_done(&words);
	config_row_words("monitoring", &words); /* has other names, too */
	assert_int_equal(words.n, 5);
	assert_string_equal(words.v[1], "hybrid");
	assert_string_equal(words.v[2], "full_monitor");
	strv_done(&words);
}

static void cfg_1_what_is_shown_can_be_read(void **state)
{
	cleanup_buf struct buf first = {0}, second = {0};
	struct config c, again;
	struct err err = {0};

	defaults(&c);
	defaults(&again);
	assert_int_equal(config_override("sandbox.env=A=x\"y,B=", &c, NULL), 0);
	assert_int_equal(config_override("sandbox.workspaces=/a b,/c: d", &c, NULL), 0);
	assert_int_equal(config_override("metrics.enabled=false", &c, NULL), 0);
	assert_int_equal(config_override("server.auto_idle=1500ms", &c, NULL), 0);
	config_show(&c, false, &first);
	if (config_parse("shown", first.data, first.len, &again, NULL, &err) < 0)
		fail_msg("%s", err.message);
	config_show(&again, false, &second);
	assert_string_equal(first.data, second.data);
	assert_non_null(
		strstr(first.data, "server:\n  unix_socket: \"/run/agentsh/agentsh.sock\"\n"));
	assert_non_null(strstr(first.data,
			       "  auth:\n    type: \"api_key\"\n    none_as: 0\n    api_keys_file: "
			       "\"\"\n  max_request"));
	assert_non_null(strstr(first.data, "\nevents:\n"));
	assert_non_null(strstr(first.data, "  jsonl:\n    path: \"\"\n"));
	assert_non_null(strstr(first.data, "  auto_idle: \"1500ms\"\n"));
	config_done(&c);
	config_done(&again);
}

static void cfg_1_it_is_shown_as_json(void **state)
{
	cleanup_buf struct buf out = {0};
	const json_t *section;
	struct config c;
	struct err err = {0};
	json_t *obj;

	defaults(&c);
	config_show(&c, true, &out);
	assert_int_equal(out.data[out.len - 1], '\n');
	if (json_parse(out.data, out.len, &obj, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(json_object_size(obj), 12);
	section = json_object_get(json_object_get(obj, "server"), "auth");
	assert_int_equal(json_object_size(section), 3);
	assert_string_equal(json_string_value(json_object_get(section, "type")), "api_key");
	section = json_object_get(json_object_get(obj, "sandbox"), "resource_limits");
	assert_string_equal(json_string_value(json_object_get(section, "command_timeout")), "5m");
	assert_int_equal(
		json_integer_value(json_object_get(json_object_get(obj, "server"), "api_uid")),
		64998);
	assert_true(json_is_true(json_object_get(json_object_get(obj, "metrics"), "enabled")));
	assert_int_equal(
		json_array_size(json_object_get(json_object_get(obj, "sandbox"), "env_allow")), 6);
	assert_int_equal(json_object_size(json_object_get(json_object_get(obj, "sandbox"), "env")),
			 0);
	json_decref(obj);
	config_done(&c);
}

static void cfg_1_the_reference_names_every_key(void **state)
{
	cleanup_buf struct buf out = {0};
	size_t sections = 0;

	config_reference(&out);
	for (size_t i = 0; i < config_row_count; i++) {
		cleanup_free char *cell = mem_printf("| `%s` | ", config_rows[i].key);

		assert_non_null(strstr(out.data, cell));
		assert_non_null(strstr(out.data, config_rows[i].help));
		if (config_rows[i].restart) {
			cleanup_free char *end =
				mem_printf("%s Needs a restart. | `%s` |", config_rows[i].help,
					   config_rows[i].test);

			assert_non_null(strstr(out.data, end));
		}
	}
	/* what the words of a row mean hangs on its type */
	assert_non_null(strstr(out.data, "| word: `api_key`, `none` |"));
	assert_non_null(strstr(out.data, "| `filesystem.blocked_paths` | list of paths, apart from "
					 "`/run/agentsh` |"));
	assert_non_null(strstr(out.data, "| `events.jsonl.path` | path, or `none` |"));
	for (const char *s = out.data; (s = strstr(s, "\n## ")) != NULL; s++)
		sections++;
	assert_int_equal(sections, 12);
	assert_non_null(
		strstr(out.data,
		       "| `logging.level` | word: `debug`, `info`, `warn`, `error` | `info` | "));
	assert_non_null(
		strstr(out.data, "| `server.max_connections` | number, 1 to 65536 | `1024` | "));
	assert_non_null(
		strstr(out.data, "| `server.auto_idle` | duration, 1ms to 87600h | `60s` | "));
	assert_non_null(strstr(out.data, "| `server.http_addr` | address | empty | "));
	assert_non_null(strstr(
		out.data, "| `server.unix_socket` | path | `/run/agentsh/agentsh.sock`; a user's: "
			  "`$XDG_RUNTIME_DIR/agentsh/agentsh.sock` | "));
	assert_non_null(strstr(out.data,
			       "| `sessions.base_dir` | path | `/var/lib/agentsh`; a user's: "
			       "`~/.local/state/agentsh` | "));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cfg_1_every_row_is_whole),
		cmocka_unit_test(cfg_1_words_of_a_section),
		cmocka_unit_test(cfg_1_what_is_shown_can_be_read),
		cmocka_unit_test(cfg_1_it_is_shown_as_json),
		cmocka_unit_test(cfg_1_the_reference_names_every_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
