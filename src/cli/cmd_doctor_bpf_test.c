// SPDX-License-Identifier: Apache-2.0
/* The doctor's report on BPF programs. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "base/mem.h"
#include "cli/cmd_doctor.h"

#define GOOD "exec_check\trefused\trun another\tkilled by SIGKILL\n"
#define ABSENT "net_unix\tuntried\tconnect\tneeds Linux 6.7\n"
#define LIED "net_refuse\tdone\tconnect\tit worked\n"

static void expect(const char *lines, bool fails, const char *text, const char *json)
{
	struct doctor_report r = {0};
	cleanup_buf struct buf printed = {0}, object = {0};
	struct jw w = JW(&object);

	doctor_bpf_read(&r, lines);
	assert_int_equal(doctor_bpf_failed(&r), fails);
	doctor_bpf_print(&r, &printed);
	assert_non_null(strstr(printed.data, text));
	jw_obj(&w);
	doctor_bpf_json(&r, &w);
	jw_obj_end(&w);
	assert_non_null(strstr(object.data, json));
	doctor_report_done(&r);
}

static void sbx_5_only_a_program_that_does_not_work_is_a_failure(void **state)
{
	expect(GOOD, false, "exec_check   ok", "\"verdict\":\"ok\"");
	expect(GOOD ABSENT, false, "unavailable  connect      needs Linux 6.7",
	       "\"answer\":\"needs Linux 6.7\"");
	expect(GOOD LIED, true, "net_refuse   LIE", "\"verdict\":\"lie\"");
	expect("cut\trefused\tno answer\n\nx\n" GOOD, false, "exec_check", "\"reason\":null");
}

static void sbx_5_a_normal_user_is_told_the_reason(void **state)
{
	struct doctor_report r = {.no_bpf = mem_strdup("BPF needs root")};
	cleanup_buf struct buf text = {0};

	doctor_bpf_print(&r, &text);
	assert_string_equal(text.data, "\nBPF programs: BPF needs root\n");
	assert_false(doctor_bpf_failed(&r));
	doctor_report_done(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sbx_5_only_a_program_that_does_not_work_is_a_failure),
		cmocka_unit_test(sbx_5_a_normal_user_is_told_the_reason),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
