// SPDX-License-Identifier: Apache-2.0
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "base/denial.h"
#include "base/mem.h"

static char *text(const char *s)
{
	return (char *)s;
}

static void pol_2_a_denial_survives_packing(void **state)
{
	char *alternatives[] = {text("other\nfiles"), text(""), text("git"), NULL}, packed[1024];
	const struct denial d = {.rule = text("r"),
				 .reason = text("a \"b\""),
				 .operation = text("exec"),
				 .target = text("/bin/x\x1fy"),
				 .final = true,
				 .approval_id = text("approval-1"),
				 .error = text("E_APPROVAL_DENIED"),
				 .alternatives = {alternatives, 3}};
	struct denial back;

	denial_pack(&d, packed, sizeof(packed));
	assert_true(denial_unpack(packed, &back));
	assert_string_equal(back.rule, "r");
	assert_string_equal(back.reason, "a \"b\"");
	assert_string_equal(back.operation, "exec");
	assert_string_equal(back.target, "/bin/x?y"); /* cannot make a part of its own */
	assert_true(back.final);
	assert_string_equal(back.approval_id, "approval-1");
	assert_string_equal(back.error, "E_APPROVAL_DENIED");
	assert_int_equal(back.alternatives.n, 3);
	assert_string_equal(back.alternatives.v[0], "other\nfiles");
	assert_string_equal(back.alternatives.v[1], "");
	assert_string_equal(back.alternatives.v[2], "git");
	denial_done(&back);
}

static void pol_2_a_denial_that_does_not_fit_is_shorter(void **state)
{
	char *alternatives[] = {text("other files"), NULL}, packed[64];
	const struct denial d = {.rule = text("rule"), .alternatives = {alternatives, 1}};
	struct denial back;
	size_t len;

	denial_pack(&d, packed, sizeof(packed));
	len = strlen(packed);
	denial_pack(&d, packed, len);
	assert_true(denial_unpack(packed, &back));
	assert_string_equal(back.rule, "rule");
	assert_false(back.final);
	assert_null(back.approval_id);
	assert_null(back.error);
	assert_int_equal(back.alternatives.n, 0);
	denial_done(&back);
	denial_pack(&d, packed, 4);
	assert_string_equal(packed, "");
}

/* What another process sends is cut off, empty, or JSON of the previous version. */
static void pol_2_another_text_is_not_a_denial(void **state)
{
	cleanup_buf struct buf out = {0};
	struct denial d;

	assert_false(denial_unpack("", &d));
	assert_false(denial_unpack("{\"rule\":\"r\"}", &d));
	denial_format_text("{\"rule\":\"r\"}", &JW(&out));
	assert_string_equal(out.data, "{\"rule\":\"r\"}");
	assert_true(denial_unpack("only\x1f", &d));
	assert_string_equal(d.rule, "only");
	assert_string_equal(d.target, "");
	denial_done(&d);
}

static void pol_2_an_error_takes_what_fits(void **state)
{
	struct err err = {0};
	char most[sizeof(err.denial) + 1];

	memset(most, 'x', sizeof(most));
	most[sizeof(err.denial)] = '\0';
	denial_take(&err, most);
	assert_string_equal(err.denial, "");
	most[sizeof(err.denial) - 1] = '\0';
	denial_take(&err, most);
	assert_string_equal(err.denial, most);
	denial_take(&err, NULL);
	assert_string_equal(err.denial, most);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pol_2_a_denial_survives_packing),
		cmocka_unit_test(pol_2_a_denial_that_does_not_fit_is_shorter),
		cmocka_unit_test(pol_2_another_text_is_not_a_denial),
		cmocka_unit_test(pol_2_an_error_takes_what_fits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
