// SPDX-License-Identifier: Apache-2.0
/* Every limit can be given in a request, a policy and the configuration, and the record shows it.
 */
#include "base/mem.h"
#include "config/config.h"
#include "model/request.h"
#include "policy/policy.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define HEAD "version: 1\nname: p\ndescription: d\n"

static char *text_of(const struct limit_row *row, int64_t v)
{
	return row->type == LIMIT_DURATION ? mem_printf("\"%lldms\"", (long long)v)
					   : mem_printf("%lld", (long long)v);
}

/* {"resource_limits": {"pids_max": 7}} */
static char *request_of(const struct limit_row *row, const char *value)
{
	const size_t section = strcspn(row->field, ".");

	if (row->field[section] == '\0')
		return mem_printf("{\"%s\": %s}", row->field, value);
	return mem_printf("{\"%.*s\": {\"%s\": %s}}", (int)section, row->field,
			  row->field + section + 1, value);
}

static void read_request(const char *text, struct session_request *out)
{
	struct err err = {0};
	json_t *doc = NULL;

	if (json_parse(text, strlen(text), &doc, &err) < 0 ||
	    session_request_read(doc, out, &err) < 0)
		fail_msg("%s: %s", text, err.message);
	json_decref(doc);
}

static void sbx_4_every_limit_is_in_request_and_record(void **state)
{
	for (unsigned i = 0; i < LIMITS; i++) {
		const struct limit_row *row = &limit_rows[i];
		const int64_t v = row->low + 5;
		cleanup_free char *value = text_of(row, v), *text = request_of(row, value);
		cleanup_buf struct buf record = {0};
		struct session_request w = {0}, again = {0};

		read_request(text, &w);
		assert_int_equal(w.limits.value[i], v);
		session_request_format(&w, &JW(&record));
		read_request(record.data, &again);
		assert_int_equal(again.limits.value[i], v);
		session_request_done(&w);
		session_request_done(&again);
	}
}

static void sbx_4_every_limit_is_in_a_policy(void **state)
{
	for (unsigned i = 0; i < LIMITS; i++) {
		const struct limit_row *row = &limit_rows[i];
		const int64_t v = row->low + 5;
		cleanup_free char *value = text_of(row, v);
		cleanup_free char *text =
			mem_printf(HEAD "resource_limits: {%s: %s}\n", row->name, value);
		const struct policy_options o = {0};
		cleanup_buf struct buf bytes = {0};
		struct policy *p = NULL;
		struct err err = {0};
		const int r = policy_compile("p", text, strlen(text), &o, NULL, &bytes, &err);

		if (row->by == LIMIT_BY_NOTHING) {
			assert_int_equal(r, -E_BAD_REQUEST);
			assert_non_null(strstr(err.message, "nothing enforces this limit yet"));
			continue;
		}
		assert_int_equal(r, 0);
		assert_int_equal(policy_open(bytes.data, bytes.len, &p, &err), 0);
		for (unsigned k = 0; k < LIMITS; k++)
			assert_int_equal(policy_limits(p)->value[k], k == i ? v : 0);
		policy_close(p);
	}
}

static void sbx_4_every_limit_is_in_the_configuration(void **state)
{
	for (unsigned i = 0; i < LIMITS; i++) {
		const struct limit_row *row = &limit_rows[i];
		const bool time = strchr(row->field, '.') == NULL;
		const int64_t v = row->low + 5;
		const char *unit = row->type == LIMIT_DURATION ? "ms" : "";
		cleanup_free char *assignment =
			time ? mem_printf("sessions.default_%s=%lld%s", row->field, (long long)v,
					  unit)
			     : mem_printf("sandbox.resource_limits.%s=%lld%s", row->name,
					  (long long)v, unit);
		struct config c;
		struct err err = {0};

		assert_int_equal(config_defaults(CONFIG_SYSTEM, &c, &err), 0);
		assert_int_equal(config_override(assignment, &c, &err), 0);
		assert_int_equal(config_override("monitoring.mode=native", &c, &err), 0);
		assert_int_equal(c.limits.value[i], v);
		if (row->by >= LIMIT_BY_FUSE) {
			assert_int_equal(config_check(&c, &err), -E_BAD_REQUEST);
			assert_non_null(strstr(err.message, row->name));
			assert_non_null(strstr(err.message, limit_unenforceable(i, false)));
		}
		assert_int_equal(config_override("monitoring.mode=fuse", &c, &err), 0);
		assert_int_equal(config_check(&c, &err),
				 row->by >= LIMIT_BY_RULES ? -E_BAD_REQUEST : 0);
		config_done(&c);
	}
}

static void sbx_4_a_share_is_read_everywhere(void **state)
{
	static const char policy[] = HEAD "resource_limits: {max_memory_mb: 75%}\n";
	const struct policy_options o = {0};
	cleanup_buf struct buf bytes = {0}, record = {0}, shown = {0};
	struct session_request w = {0};
	struct policy *p = NULL;
	struct config c;

	read_request("{\"resource_limits\": {\"memory_max_mb\": \"75%\"}}", &w);
	assert_int_equal(w.limits.value[LIMIT_max_memory_mb], JSON_SHARE | 75);
	session_request_format(&w, &JW(&record));
	assert_non_null(strstr(record.data, "\"max_memory_mb\":\"75%\""));
	session_request_done(&w);
	assert_int_equal(policy_compile("p", policy, strlen(policy), &o, NULL, &bytes, NULL), 0);
	assert_int_equal(policy_open(bytes.data, bytes.len, &p, NULL), 0);
	assert_int_equal(policy_limits(p)->value[LIMIT_max_memory_mb], JSON_SHARE | 75);
	policy_format(p, NULL, &JW(&shown));
	assert_non_null(strstr(shown.data, "\"resource_limits\":{\"max_memory_mb\":\"75%\"}"));
	policy_close(p);
	assert_int_equal(config_defaults(CONFIG_SYSTEM, &c, NULL), 0);
	assert_int_equal(config_override("sandbox.resource_limits.max_memory_mb=75%", &c, NULL), 0);
	assert_int_equal(c.limits.value[LIMIT_max_memory_mb], JSON_SHARE | 75);
	buf_clear(&shown);
	config_show(&c, false, &shown);
	assert_non_null(strstr(shown.data, "max_memory_mb: \"75%\""));
	config_done(&c);
}

static void sbx_4_what_is_not_a_share_is_refused(void **state)
{
	static const char *const wrong[] = {"0%", "101%", "75 %", "75%%", "-1%",
					    "%",  "075%", "7.5%", "75",	  "99999999999999999999%"};

	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		cleanup_free char *text =
			mem_printf("{\"resource_limits\": {\"max_memory_mb\": \"%s\"}}", wrong[i]);
		struct session_request w = {0};
		struct err err = {0};
		json_t *doc = NULL;

		assert_int_equal(json_parse(text, strlen(text), &doc, NULL), 0);
		assert_int_equal(session_request_read(doc, &w, &err), -E_BAD_REQUEST);
		assert_string_equal(err.details[0].field, "resource_limits.max_memory_mb");
		json_decref(doc);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sbx_4_every_limit_is_in_request_and_record),
		cmocka_unit_test(sbx_4_every_limit_is_in_a_policy),
		cmocka_unit_test(sbx_4_every_limit_is_in_the_configuration),
		cmocka_unit_test(sbx_4_a_share_is_read_everywhere),
		cmocka_unit_test(sbx_4_what_is_not_a_share_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
