// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"
#include "base/mem.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

struct limits {
	int64_t pids, timeout_ms;
	bool pids_seen;
};
struct request {
	int64_t first; /* keeps 0 free as "no seen" */
	char *name;
	int64_t count;
	bool flag, count_seen, limits_seen, any_seen;
	int64_t idle_ms;
	struct strv args, env, ports;
	struct limits limits;
};
static const struct json_field limit_rows[] = {
	{.name = "pids_max",
	 .kind = JSON_FIELD_INT,
	 .offset = offsetof(struct limits, pids),
	 .min = 1,
	 .max = 100,
	 .seen = offsetof(struct limits, pids_seen)},
	{.name = "timeout",
	 .kind = JSON_FIELD_DURATION,
	 .offset = offsetof(struct limits, timeout_ms),
	 .min = 1000,
	 .max = 60000},
	{0},
};
#define ROW(name_, kind_, at_, ...)                                                                \
	{                                                                                          \
		.name = name_, .kind = kind_, .offset = offsetof(struct request, at_), __VA_ARGS__ \
	}
static const struct json_field rows[] = {
	ROW("name", JSON_FIELD_STR, name, .min = 2, .max = 4),
	ROW("count", JSON_FIELD_INT, count, .min = -3, .max = 3,
	    .seen = offsetof(struct request, count_seen)),
	ROW("flag", JSON_FIELD_BOOL, flag),
	ROW("idle", JSON_FIELD_DURATION, idle_ms, .min = 0, .max = INT64_MAX),
	ROW("args", JSON_FIELD_STRV, args, .max = 6),
	ROW("env", JSON_FIELD_ENV, env, .max = 8),
	ROW("ports", JSON_FIELD_PORTS, ports, .max = 65535),
	ROW("limits", JSON_FIELD_OBJ, limits, .sub = limit_rows,
	    .seen = offsetof(struct request, limits_seen)),
	ROW("any", JSON_FIELD_ANY, first, .seen = offsetof(struct request, any_seen)),
	{0},
};

static int parse(const char *text, json_t **out, struct err *err)
{
	cleanup_free char *copy = mem_dup(text, strlen(text));

	return json_parse(copy, strlen(text), out, err);
}

static void bad_json(const char *text, const char *message)
{
	struct err err = {0};
	json_t *v = NULL;

	if (parse(text, &v, &err) != -E_BAD_REQUEST)
		fail_msg("accepted: %s", text);
	assert_null(v);
	if (strstr(err.message, message) == NULL)
		fail_msg("%s: '%s' is not in '%s'", text, message, err.message);
}

static void api_1_bad_documents_are_refused_with_a_place(void **state)
{
	struct err err = {0};
	json_t *v = NULL;

	bad_json("", "JSON at 1:");
	bad_json("{\"a\":1,\n \"a\":2}", "JSON at 2:");
	bad_json("{} x", "JSON at 1:");
	bad_json("{}{}", "JSON at 1:");
	bad_json("{\"a\\u0000b\":1}", "NUL");
	bad_json("{\"a\":\"\\u0000\"}", "\\u0000 is not allowed");
	bad_json("[1,]", "JSON at");
	bad_json("[1e999]", "JSON at");
	bad_json("[9223372036854775808]", "JSON at");
	bad_json("{\"a\":\"\xff\"}", "0xff");
	bad_json("[\"a\\", "JSON at");
	assert_int_equal(json_parse("{}\0", 3, &v, NULL), -E_BAD_REQUEST);
	assert_int_equal(json_parse(NULL, 0, &v, &err), -E_BAD_REQUEST);
	assert_non_null(strstr(err.message, "JSON at 1:0: "));
	assert_int_equal(parse("{\"a\":1}", &v, NULL), 0);
	assert_int_equal(json_object_size(v), 1);
	json_decref(v);
	assert_int_equal(parse("7", &v, NULL), 0);
	json_decref(v);
}

static char *nested(const char *open, unsigned depth, const char *close)
{
	struct buf b = {0};

	for (unsigned i = 0; i < depth; i++)
		buf_adds(&b, open);
	for (unsigned i = 0; i < depth; i++)
		buf_adds(&b, close);
	return buf_take(&b);
}

static void api_1_depth_is_bounded(void **state)
{
	cleanup_free char *fits = nested("[", 64, "]"), *deep = nested("[", 65, "]");
	cleanup_free char *fits_too = nested("[\n", 64, "]"), *lines = nested("[\n", 65, "]");
	struct buf wide = {0};
	json_t *v = NULL;

	assert_int_equal(parse(fits, &v, NULL), 0);
	json_decref(v);
	assert_int_equal(parse(fits_too, &v, NULL), 0);
	json_decref(v);
	bad_json(deep, "JSON at 1:65: deeper than 64");
	bad_json(lines, "JSON at 65:1: deeper than 64");
	bad_json("]]]]", "JSON at 1:");

	/* brackets that were closed, and those in strings, do not count */
	buf_adds(&wide, "[\"[[[[\\\"[[[{{{\\\\\"");
	for (int i = 0; i < 100; i++)
		buf_adds(&wide, ",[],{},\"[\",\"\\\"[\"");
	buf_adds(&wide, "]");
	assert_int_equal(parse(wide.data, &v, NULL), 0);
	json_decref(v);
	buf_clear(&wide);
	for (int i = 0; i < 33; i++)
		buf_adds(&wide, "[{\"a\":");
	bad_json(wide.data, "deeper than 64");
	buf_done(&wide);
}

static int read_text(const char *text, struct request *w, struct err *err)
{
	json_t *v = NULL;
	int rc;

	assert_int_equal(parse(text, &v, NULL), 0);
	rc = json_read(v, rows, w, err);
	json_decref(v);
	return rc;
}

static void ses_3_a_whole_object_is_read(void **state)
{
	struct request w = {0};

	assert_int_equal(
		read_text(
			"{\"name\":\"abc\",\"count\":-3,\"flag\":true,\"idle\":\"5m\","
			"\"args\":[\"a\",\"\",\"b\"],\"env\":{\"A\":\"1\",\"B\":\"x=\"},"
			"\"ports\":[1,443,65535],\"limits\":{\"pids_max\":100,\"timeout\":\"1s\"},"
			"\"any\":[1,{\"x\":null}]}",
			&w, NULL),
		0);
	assert_string_equal(w.name, "abc");
	assert_int_equal(w.count, -3);
	assert_true(w.flag && w.count_seen && w.limits_seen && w.any_seen && w.limits.pids_seen);
	assert_int_equal(w.idle_ms, 300000);
	assert_int_equal(w.args.n, 3);
	assert_string_equal(w.args.v[1], "");
	assert_int_equal(w.env.n, 2);
	assert_string_equal(strv_env_get(&w.env, "A"), "1");
	assert_string_equal(strv_env_get(&w.env, "B"), "x=");
	assert_int_equal(w.ports.n, 3);
	assert_string_equal(w.ports.v[0], "1");
	assert_string_equal(w.ports.v[2], "65535");
	assert_int_equal(w.limits.pids, 100);
	assert_int_equal(w.limits.timeout_ms, 1000);
	assert_int_equal(w.first, 0);
	json_read_done(rows, &w);
	assert_null(w.name);
	assert_null(w.args.v);
}

static void ses_3_null_is_not_given(void **state)
{
	struct request w = {.count = 9, .name = mem_strdup("kept"), .limits = {.pids = 5}};

	assert_int_equal(read_text("{\"name\":null,\"count\":null,\"flag\":null,\"args\":null,"
				   "\"env\":null,\"ports\":null,\"limits\":null,\"idle\":null,"
				   "\"any\":null}",
				   &w, NULL),
			 0);
	assert_string_equal(w.name, "kept");
	assert_int_equal(w.count, 9);
	assert_int_equal(w.limits.pids, 5);
	assert_false(w.count_seen || w.limits_seen || w.any_seen);
	json_read_done(rows, &w);
}

static void ses_1_a_given_value_replaces(void **state)
{
	struct request w = {.name = mem_strdup("old")};

	strv_add(&w.args, "old");
	assert_int_equal(read_text("{\"name\":\"new\",\"args\":[\"n\"]}", &w, NULL), 0);
	assert_string_equal(w.name, "new");
	assert_int_equal(w.args.n, 1);
	assert_string_equal(w.args.v[0], "n");
	assert_int_equal(read_text("{\"args\":[]}", &w, NULL), 0);
	assert_int_equal(w.args.n, 0);
	json_read_done(rows, &w);
}

/* One wrong field; nothing else of the object may be stored. */
static void wrong(const char *text, const char *field, const char *problem)
{
	struct request w = {.count = 9}, before = w;
	struct err err = {0};

	if (read_text(text, &w, &err) != -E_BAD_REQUEST)
		fail_msg("accepted: %s", text);
	assert_string_equal(err.details[0].field, field);
	assert_string_equal(err.details[0].problem, problem);
	assert_int_equal(err.ndetails, 1);
	assert_memory_equal(&w, &before, sizeof(w));
	assert_int_equal(read_text(text, &w, NULL), -E_BAD_REQUEST);
}

static void right(const char *text)
{
	struct request w = {0};

	if (read_text(text, &w, NULL) != 0)
		fail_msg("refused: %s", text);
	json_read_done(rows, &w);
}

static void api_1_types_are_checked(void **state)
{
	wrong("{\"name\":5,\"flag\":true}", "name", "must be a string");
	wrong("{\"count\":\"5\"}", "count", "must be a whole number");
	wrong("{\"count\":1.0}", "count", "must be a whole number");
	wrong("{\"flag\":1}", "flag", "must be true or false");
	wrong("{\"idle\":5}", "idle", "must be a duration such as \"90s\" or \"5m\"");
	wrong("{\"idle\":\"abc\"}", "idle", "not a duration: 'abc'");
	wrong("{\"args\":\"a\"}", "args", "must be a list of strings");
	wrong("{\"args\":[\"a\",1]}", "args", "item 2 must be a string");
	wrong("{\"env\":[]}", "env", "must be an object of strings");
	wrong("{\"env\":{\"A\":1}}", "env.A", "must be a string");
	wrong("{\"env\":{\"\":\"\"}}", "env.", "not the name of a variable: ''");
	wrong("{\"env\":{\"A=B\":\"\"}}", "env.A=B", "not the name of a variable: 'A=B'");
	wrong("{\"ports\":{}}", "ports", "must be a list of ports");
	wrong("{\"ports\":[80,\"x\"]}", "ports", "item 2 must be a port, 1 to 65535");
	wrong("{\"limits\":[]}", "limits", "must be an object");
	wrong("{\"nmae\":\"abc\"}", "nmae", "unknown key");
	wrong("{\"limits\":{\"pids\":1}}", "limits.pids", "unknown key");
	wrong("{\"limits\":{\"pids_max\":0}}", "limits.pids_max", "must be 1 to 100, is 0");
}

static void api_1_ranges_have_both_ends(void **state)
{
	right("{\"name\":\"ab\"}");
	right("{\"name\":\"abcd\"}");
	wrong("{\"name\":\"a\"}", "name", "must have 2 to 4 bytes, has 1");
	wrong("{\"name\":\"abcde\"}", "name", "must have 2 to 4 bytes, has 5");
	right("{\"count\":3}");
	wrong("{\"count\":4}", "count", "must be -3 to 3, is 4");
	wrong("{\"count\":-4}", "count", "must be -3 to 3, is -4");
	right("{\"limits\":{\"timeout\":\"60s\"}}");
	wrong("{\"limits\":{\"timeout\":\"60001ms\"}}", "limits.timeout", "must be 1s to 1m");
	wrong("{\"limits\":{\"timeout\":\"999ms\"}}", "limits.timeout", "must be 1s to 1m");
	right("{\"ports\":[]}");
	wrong("{\"ports\":[0]}", "ports", "item 1 must be a port, 1 to 65535");
	wrong("{\"ports\":[65536]}", "ports", "item 1 must be a port, 1 to 65535");
	right("{\"args\":[\"abc\",\"def\"]}");
	wrong("{\"args\":[\"abc\",\"defg\"]}", "args", "has more than 6 bytes or items in all");
	right("{\"args\":[\"\",\"\",\"\",\"\",\"\",\"\"]}");
	wrong("{\"args\":[\"\",\"\",\"\",\"\",\"\",\"\",\"\"]}", "args",
	      "has more than 6 bytes or items in all");
	right("{\"env\":{\"A\":\"12\",\"B\":\"12\"}}");
	wrong("{\"env\":{\"A\":\"12\",\"B\":\"123\"}}", "env",
	      "has more than 8 bytes or items in all");
}

static void api_1_the_number_of_ports_is_bounded(void **state)
{
	struct buf b = {0};

	buf_adds(&b, "{\"ports\":[1");
	for (int i = 1; i < 65535; i++)
		buf_adds(&b, ",1");
	buf_adds(&b, "]}");
	right(b.data);
	b.len -= 2;
	buf_adds(&b, ",1]}");
	wrong(b.data, "ports", "has more than 65535 bytes or items in all");
	buf_done(&b);
}

static void api_1_every_wrong_field_is_named(void **state)
{
	struct request w = {0};
	struct err err = {0};

	assert_int_equal(
		read_text("{\"x\":1,\"count\":77,\"limits\":{\"pids_max\":0,\"y\":1}}", &w, &err),
		-E_BAD_REQUEST);
	assert_int_equal(err.ndetails, 4);
	assert_string_equal(err.details[3].field, "limits.y");
	assert_string_equal(err.message, "4 fields are wrong: x, count, limits.pids_max, limits.y");
	assert_int_equal(err.code, E_BAD_REQUEST);
}

static void api_1_earlier_details_do_not_fail_a_good_object(void **state)
{
	struct request w = {0};
	struct err err = {0};

	err_detail(&err, "earlier", "x");
	assert_int_equal(read_text("{\"count\":1}", &w, &err), 0);
	assert_int_equal(w.count, 1);
	assert_int_equal(read_text("{\"count\":9}", &w, &err), -E_BAD_REQUEST);
}

static void api_1_only_objects_are_read(void **state)
{
	struct request w = {0};
	struct err err = {0};

	assert_int_equal(read_text("[]", &w, &err), -E_BAD_REQUEST);
	assert_string_equal(err.message, "must be a JSON object");
	assert_int_equal(json_read(NULL, rows, &w, NULL), -E_BAD_REQUEST);
}

static void api_1_long_unknown_keys_are_cut(void **state)
{
	cleanup_buf struct buf b = {0};
	struct request w = {0};
	struct err err = {0};

	buf_adds(&b, "{\"limits\":{\"");
	for (int i = 0; i < 500; i++)
		buf_addc(&b, 'k');
	buf_adds(&b, "\":1,\"z\":1}}");
	assert_int_equal(read_text(b.data, &w, &err), -E_BAD_REQUEST);
	assert_memory_equal(err.details[0].field, "limits.kkk", 10);
	assert_string_equal(err.details[1].field, "limits.z");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(api_1_bad_documents_are_refused_with_a_place),
		cmocka_unit_test(api_1_depth_is_bounded),
		cmocka_unit_test(ses_3_a_whole_object_is_read),
		cmocka_unit_test(ses_3_null_is_not_given),
		cmocka_unit_test(ses_1_a_given_value_replaces),
		cmocka_unit_test(api_1_types_are_checked),
		cmocka_unit_test(api_1_ranges_have_both_ends),
		cmocka_unit_test(api_1_the_number_of_ports_is_bounded),
		cmocka_unit_test(api_1_every_wrong_field_is_named),
		cmocka_unit_test(api_1_earlier_details_do_not_fail_a_good_object),
		cmocka_unit_test(api_1_only_objects_are_read),
		cmocka_unit_test(api_1_long_unknown_keys_are_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
