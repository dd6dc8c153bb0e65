// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "model/verdict.h"
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void pol_2_decisions_have_names(void **state)
{
	static const char *const names[] = {"allow", "deny",	 "approve",
					    "log",   "redirect", "soft_delete"};
	enum decision d;

	assert_int_equal(ARRAY_LEN(names), DECISIONS);
	for (unsigned i = 0; i < DECISIONS; i++) {
		assert_true(decision_parse(names[i], &d));
		assert_int_equal(d, i);
		assert_string_equal(decision_name(d), names[i]);
	}
	assert_false(decision_parse("alow", &d));
}

static void pol_2_only_a_deny_stops(void **state)
{
	struct verdict v = {.decision = DECISION_log, .effective = DECISION_allow};

	assert_true(verdict_allows(&v));
	assert_false(verdict_redirects(&v));
	v.decision = DECISION_redirect;
	assert_true(verdict_allows(&v));
	assert_true(verdict_redirects(&v));
	v.effective = DECISION_deny;
	assert_false(verdict_allows(&v));
	assert_false(verdict_redirects(&v));
}

static void check(const struct verdict *v, const struct op *op, const char *want)
{
	cleanup_buf struct buf out = {0};

	buf_reserve(&out, 1);
	out.data[0] = '\0';
	verdict_format_reason(v, op, &out);
	assert_string_equal(out.data, want);
}

static void pol_1_messages_take_path_and_args(void **state)
{
	const char *argv[] = {"npm", "install", "x"};
	const struct op exec = {.class = OP_EXEC,
				.exec = {.path = "/usr/bin/npm", .argv = argv, .argc = 3}};
	const struct op file = {.class = OP_FILE, .file = {OP_FILE_delete, "/w/a"}};
	struct verdict v = {.decision = DECISION_deny,
			    .effective = DECISION_deny,
			    .message = "{path} wants {args}, {other} {",
			    .why = "a rule denies it"};

	check(&v, &exec, "/usr/bin/npm wants install x, {other} {");
	check(&v, &file, "/w/a wants , {other} {");
	v.decision = DECISION_approve;
	v.message = "delete {path}?";
	v.why = "no approver";
	check(&v, &file, "delete /w/a? (no approver)");
	v.effective = DECISION_allow;
	check(&v, &file, "delete /w/a?");
	v.message = NULL;
	check(&v, &file, "no approver");
	v.why = NULL;
	check(&v, &file, "");
}

static void exe_2_a_denial_has_one_body(void **state)
{
	const struct op op = {.class = OP_FILE, .file = {OP_FILE_read, "/workspace/.env"}};
	const struct verdict v = {.rule = "deny-secrets",
				  .message = "secrets stay outside",
				  .decision = DECISION_deny,
				  .effective = DECISION_deny,
				  .final = true};
	cleanup_buf struct buf out = {0};
	struct denial d;
	struct jw w = JW(&out);

	denial_init(&d, &v, &op);
	strv_add(&d.alternatives, "other files");
	denial_format(&d, &w);
	assert_string_equal(out.data,
			    "{\"rule\":\"deny-secrets\",\"reason\":\"secrets stay outside\","
			    "\"operation\":\"file_read\",\"target\":\"/workspace/.env\","
			    "\"final\":true,\"alternatives\":[\"other files\"]}");
	denial_done(&d);
	buf_clear(&out);
	w = JW(&out);
	denial_init(&d, &v, &op);
	denial_format(&d, &w);
	assert_null(strstr(out.data, "alternatives"));
	denial_done(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pol_2_decisions_have_names),
		cmocka_unit_test(pol_2_only_a_deny_stops),
		cmocka_unit_test(pol_1_messages_take_path_and_args),
		cmocka_unit_test(exe_2_a_denial_has_one_body),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
