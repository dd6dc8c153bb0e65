// SPDX-License-Identifier: Apache-2.0
#include "launcher/state.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void pol_5_observe_has_a_version_that_stays(void **state)
{
	struct policy a = {0}, b = {0};
	struct err err = {0};

	assert_int_equal(policy_find("observe", &a, &err), 0);
	assert_int_equal(policy_find("observe", &b, &err), 0);
	assert_string_equal(a.name, "observe");
	assert_int_equal(strlen(a.version), strlen("sha256:") + 64);
	assert_memory_equal(a.version, "sha256:", 7);
	assert_string_equal(a.version, b.version);
}

static void pol_5_an_unknown_policy_is_refused_with_those_that_exist(void **state)
{
	static const char *const names[] = {"default", "", "observ", "observed", "Observe"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct policy p = {0};
		struct err err = {0};

		assert_int_equal(policy_find(names[i], &p, &err), -E_BAD_REQUEST);
		assert_string_equal(err.subject, names[i]);
		assert_non_null(strstr(err.message, "'observe'"));
		assert_null(p.name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pol_5_observe_has_a_version_that_stays),
		cmocka_unit_test(pol_5_an_unknown_policy_is_refused_with_those_that_exist),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
