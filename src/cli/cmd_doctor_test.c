// SPDX-License-Identifier: Apache-2.0
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "base/mem.h"
#include "cli/cmd_doctor.h"
#include <stdio.h>

static void claim(struct doctor_report *r, enum wall w, enum wall_state state, bool may_lack)
{
	free(r->wall[w].detail);
	r->wall[w] = (struct doctor_wall){true, state, mem_strdup("said"), may_lack, DOCTOR_OK};
}

static enum doctor_verdict judged(struct doctor_report *r, enum wall w)
{
	doctor_judge(r);
	return r->wall[w].verdict;
}

/* SBX-5: only an act that works outside and fails inside proves a wall. */
static void sbx_5_a_wall_holds_if_what_works_outside_fails_inside(void **state)
{
	struct doctor_report r = {0};

	claim(&r, WALL_seccomp, WALL_UP, false);
	assert_int_equal(judged(&r, WALL_seccomp), DOCTOR_UNPROVEN);

	doctor_read_acts(&r, "seccomp\trefused\tx32\tENOSYS\n", false);
	doctor_read_acts(&r, "seccomp\trefused\tx32\tENOSYS\n", true);
	assert_int_equal(r.nacts, 1);
	assert_int_equal(judged(&r, WALL_seccomp), DOCTOR_UNPROVEN);

	doctor_read_acts(&r, "seccomp\tdone\tkeyctl\tit worked\n", false);
	assert_int_equal(judged(&r, WALL_seccomp), DOCTOR_UNPROVEN);
	doctor_read_acts(&r, "seccomp\trefused\tkeyctl\tEPERM\n", true);
	assert_int_equal(r.nacts, 2);
	assert_string_equal(r.act[1].answer, "EPERM");
	assert_int_equal(judged(&r, WALL_seccomp), DOCTOR_OK);
	assert_false(doctor_failed(&r));
	doctor_report_done(&r);
}

/* SBX-5: one act that succeeds makes a claim a lie, whatever the others did. */
static void sbx_5_an_act_that_succeeds_is_a_lie(void **state)
{
	struct doctor_report r = {0};

	claim(&r, WALL_net_namespace, WALL_UP, true);
	doctor_read_acts(&r, "net_namespace\tdone\ta\t-\nnet_namespace\tdone\tb\t-\n", false);
	doctor_read_acts(&r, "net_namespace\tdone\ta\tit worked\nnet_namespace\trefused\tb\tno\n",
			 true);
	/* of another wall */
	doctor_read_acts(&r, "landlock\tdone\ta\tit worked\n", true);
	assert_int_equal(judged(&r, WALL_net_namespace), DOCTOR_LIE);
	assert_true(doctor_failed(&r));
	claim(&r, WALL_net_namespace, WALL_ABSENT, false);
	assert_int_equal(judged(&r, WALL_net_namespace), DOCTOR_NOT_ASKED);
	assert_false(doctor_failed(&r));
	claim(&r, WALL_net_namespace, WALL_PARTIAL, false);
	assert_int_equal(judged(&r, WALL_net_namespace), DOCTOR_PART);
	assert_false(doctor_failed(&r));
	doctor_report_done(&r);
}

/* SBX-5: a missing wall is a failure unless it may be missing. */
static void sbx_5_what_is_missing_fails_unless_it_may(void **state)
{
	struct doctor_report r = {0};

	claim(&r, WALL_memory_limit, WALL_UNAVAILABLE, true);
	assert_int_equal(judged(&r, WALL_memory_limit), DOCTOR_ALLOWED);
	assert_false(doctor_failed(&r));
	claim(&r, WALL_memory_limit, WALL_UNAVAILABLE, false);
	assert_int_equal(judged(&r, WALL_memory_limit), DOCTOR_MISSING);
	assert_true(doctor_failed(&r));
	doctor_report_done(&r);

	/* no session at all: something failed, even where no wall is named */
	r.refusal = mem_strdup("no");
	assert_int_equal(judged(&r, WALL_memory_limit), DOCTOR_UNPROVEN);
	assert_true(doctor_failed(&r));
	doctor_report_done(&r);
}

static void sbx_5_lines_that_are_none_are_passed_over(void **state)
{
	struct doctor_report r = {0};

	doctor_read_acts(&r, "noise\nseccomp\trefused\tthree parts\nmoat\tdone\tswim\twet\n\n",
			 true);
	assert_int_equal(r.nacts, 0);
	doctor_read_acts(&r, "seccomp\tperhaps\tx\ty", true);
	assert_int_equal(r.nacts, 1);
	assert_int_equal(r.act[0].inside, DOCTOR_UNTRIED);
	assert_int_equal(doctor_wall_by_name("seccomp"), WALL_seccomp);
	assert_int_equal(doctor_wall_by_name("seccom"), -1);
	assert_int_equal(doctor_wall_by_name("uid"), -1);
	doctor_report_done(&r);
}

/* SBX-5: the report names what an ABI lacks; ABI 6 and later lack nothing. */
static void sbx_5_landlock_lacks(void **state)
{
	assert_string_equal(doctor_landlock_lacks(0), "all of it");
	assert_non_null(strstr(doctor_landlock_lacks(1), "moves"));
	assert_null(strstr(doctor_landlock_lacks(2), "moves"));
	assert_non_null(strstr(doctor_landlock_lacks(2), "truncation"));
	assert_null(strstr(doctor_landlock_lacks(3), "truncation"));
	assert_non_null(strstr(doctor_landlock_lacks(4), "ioctl"));
	assert_null(strstr(doctor_landlock_lacks(5), "ioctl"));
	assert_non_null(strstr(doctor_landlock_lacks(5), "scopes"));
	assert_string_equal(doctor_landlock_lacks(6), "");
	assert_string_equal(doctor_landlock_lacks(7), "");
}

static bool advised(const struct doctor_host *h, enum wall w, const char *word)
{
	struct strv out = {0};
	bool found = false;

	doctor_remedies(h, w, &out);
	for (size_t i = 0; i < out.n; i++)
		found |= strstr(out.v[i], word) != NULL;
	strv_done(&out);
	return found;
}

/* SBX-5, USERS 2: a remedy stands where its cause is, and not elsewhere. */
static void sbx_5_remedies_follow_the_cause(void **state)
{
	struct doctor_host h = {.cgroup = "v2",
				.container = "none",
				.seccomp = true,
				.landlock_abi = 7,
				.max_user_namespaces = 1,
				.unprivileged_userns_clone = 1,
				.apparmor_restrict_userns = -1,
				.yama_ptrace_scope = 2};

	assert_false(advised(&h, WALL_user_namespace, "sysctl"));
	assert_false(advised(&h, WALL_user_namespace, "profile agentsh"));
	assert_true(advised(&h, WALL_user_namespace, "as root"));
	assert_false(advised(&h, WALL_landlock, "Linux"));
	assert_false(advised(&h, WALL_exec_policy, "yama"));
	assert_true(advised(&h, WALL_memory_limit, "Delegate=yes"));
	assert_false(advised(&h, WALL_memory_limit, "v1"));
	h.max_user_namespaces = 0;
	assert_true(advised(&h, WALL_user_namespace, "user.max_user_namespaces"));
	h.unprivileged_userns_clone = 0;
	assert_true(advised(&h, WALL_user_namespace, "unprivileged_userns_clone"));
	h.apparmor_restrict_userns = 1;
	assert_true(advised(&h, WALL_user_namespace, "/agentsh{,-*} flags=(unconfined) {\n"));
	h.landlock_abi = 0;
	assert_true(advised(&h, WALL_landlock, "lsm="));
	h.landlock_abi = 5;
	assert_true(advised(&h, WALL_landlock, "newer kernel"));
	h.landlock_abi = 6;
	assert_false(advised(&h, WALL_landlock, "newer kernel"));
	h.yama_ptrace_scope = 3;
	assert_true(advised(&h, WALL_exec_policy, "yama"));
	h.seccomp = false;
	assert_true(advised(&h, WALL_seccomp, "CONFIG_SECCOMP_FILTER"));
	h.cgroup = "hybrid";
	assert_true(advised(&h, WALL_pids_limit, "v1"));
	h.cgroup = "none";
	assert_true(advised(&h, WALL_cpu_limit, "mount"));
	snprintf(h.container, sizeof(h.container), "docker");
	assert_true(advised(&h, WALL_pid_namespace, "systempaths"));
	assert_false(advised(&h, WALL_mount_namespace, "normal user"));
	assert_true(advised(&h, WALL_process_separation, "as root"));
	assert_false(advised(&h, WALL_process_separation, "NET_ADMIN"));
	h.root = true;
	assert_true(advised(&h, WALL_mount_namespace, "SYS_ADMIN"));
	assert_true(advised(&h, WALL_mount_namespace, "normal user"));
	assert_false(advised(&h, WALL_process_separation, "as root"));
	assert_true(advised(&h, WALL_process_separation, "NET_ADMIN"));
	assert_true(advised(&h, WALL_process_separation, "normal user"));
	assert_false(advised(&h, WALL_user_namespace, "as root"));
	assert_false(advised(&h, WALL_user_namespace, "profile agentsh"));
}

static void sbx_5_text_and_json_say_the_same(void **state)
{
	const struct doctor_host h = {
		.cgroup = "v2", .container = "none", .landlock_abi = 7, .seccomp = true};
	struct doctor_report r = {0};
	cleanup_buf struct buf text = {0};
	cleanup_buf struct buf out = {0};
	struct jw w = JW(&out);
	json_t *doc = NULL, *one;

	claim(&r, WALL_user_namespace, WALL_UNAVAILABLE, false);
	claim(&r, WALL_uts_namespace, WALL_UP, false);
	doctor_read_acts(&r, "uts_namespace\trefused\tread the name\tit is x\n", true);
	doctor_judge(&r);
	doctor_print(&r, &h, &text);
	assert_non_null(strstr(text.data, "unavailable  MISSING"));
	assert_non_null(strstr(text.data, "read the name  it is x (fails outside too)"));
	assert_non_null(strstr(text.data, "\nuser_namespace: said\n"));
	assert_non_null(strstr(text.data, "sandbox.allow_unenforced"));
	assert_non_null(strstr(text.data, "is missing or does not hold"));
	doctor_json(&r, &h, &w);
	assert_int_equal(json_parse(out.data, out.len, &doc, NULL), 0);
	assert_true(json_is_false(json_object_get(doc, "ok")));
	assert_int_equal(json_array_size(json_object_get(doc, "walls")), WALLS);
	one = json_array_get(json_object_get(doc, "walls"), WALL_user_namespace);
	assert_string_equal(json_string_value(json_object_get(one, "verdict")), "missing");
	assert_true(json_array_size(json_object_get(one, "remedies")) > 0);
	one = json_array_get(json_object_get(doc, "walls"), WALL_uts_namespace);
	assert_string_equal(json_string_value(json_object_get(one, "verdict")), "untried");
	assert_int_equal(json_array_size(json_object_get(one, "remedies")), 0);
	one = json_array_get(json_object_get(one, "acts"), 0);
	assert_string_equal(json_string_value(json_object_get(one, "inside")), "refused");
	assert_string_equal(json_string_value(json_object_get(one, "outside")), "untried");
	one = json_array_get(json_object_get(doc, "walls"), WALL_landlock);
	assert_true(json_is_null(json_object_get(one, "state")));
	json_decref(doc);
	doctor_report_done(&r);
}

/* SBX-5: it is usual that rules are held in part, and the report does not advise to drop them. */
static void sbx_5_a_partial_file_rules_wall_has_no_remedy(void **state)
{
	const struct doctor_host h = {.cgroup = "v2", .container = "none", .fuse = true};
	struct doctor_report r = {0};
	cleanup_buf struct buf text = {0};

	claim(&r, WALL_file_rules, WALL_PARTIAL, false);
	doctor_judge(&r);
	doctor_print(&r, &h, &text);
	assert_non_null(strstr(text.data, "\nfile_rules: "));
	assert_null(strstr(text.data, "observe"));
	doctor_report_done(&r);
}

/* How the report advises about a wall that no session was made for. */
static void remedies_of(enum wall wall, bool root, bool may_lack, struct buf *text)
{
	const struct doctor_host h = {.cgroup = "v2",
				      .container = "none",
				      .landlock_abi = 7,
				      .seccomp = true,
				      .max_user_namespaces = 1,
				      .root = root};
	struct doctor_report r = {0};

	claim(&r, wall, WALL_UNAVAILABLE, may_lack);
	free(r.wall[wall].detail);
	r.wall[wall].detail = mem_printf("%s: broken", wall_name(wall));
	doctor_judge(&r);
	doctor_print(&r, &h, text);
	doctor_report_done(&r);
}

/* USERS 2: to list a wall is advised only where a session is then made. */
static void sbx_5_only_what_helps_is_to_be_listed(void **state)
{
	static const struct {
		enum wall wall;
		bool root, may_lack;
		const char *word; /* NULL: it is not advised */
	} rows[] = {
		{WALL_user_namespace, false, false, "or list `namespaces` in"},
		{WALL_user_namespace, false, true, NULL},
		{WALL_user_namespace, true, false, NULL},
		{WALL_mount_namespace, true, false, NULL},
		{WALL_mount_namespace, false, false, NULL},
		{WALL_capabilities, true, false, NULL},
		{WALL_process_separation, true, false, NULL},
		{WALL_process_separation, false, false, "or let it be missing"},
		{WALL_pid_namespace, true, false, "or let it be missing"},
		{WALL_pid_namespace, true, true, NULL},
		{WALL_landlock, true, false, "or let it be missing"},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cleanup_buf struct buf text = {0};
		cleanup_free char *named = mem_printf("\n%s: broken\n", wall_name(rows[i].wall));

		remedies_of(rows[i].wall, rows[i].root, rows[i].may_lack, &text);
		assert_non_null(strstr(text.data, named));
		if (rows[i].word != NULL && strstr(text.data, rows[i].word) == NULL)
			fail_msg("%zu: %s", i, text.data);
		if (rows[i].word == NULL && strstr(text.data, "allow_unenforced") != NULL)
			fail_msg("%zu: %s", i, text.data);
	}
}

static void expect_head(const struct doctor_host *h, const char *refusal, const char *head)
{
	struct doctor_report r = {.refusal = refusal != NULL ? mem_strdup(refusal) : NULL};
	cleanup_buf struct buf text = {0};

	doctor_judge(&r);
	doctor_print(&r, h, &text);
	if (strncmp(text.data, head, strlen(head)) != 0)
		fail_msg("%s", text.data);
	doctor_report_done(&r);
}

/* SBX-5: features that the host has and does not have. */
static void sbx_5_facts_of_the_host_as_text(void **state)
{
	expect_head(&(const struct doctor_host){.kernel = "Linux 6.1",
						.machine = "m",
						.root = true,
						.container = "none",
						.vm = "kvm",
						.cgroup = "v2",
						.controllers = "cpu memory",
						.landlock_abi = 6,
						.lsms = "landlock",
						.toolchains = "rust",
						.fuse = true,
						.fuse_uring = "N"},
		    NULL,
		    "Kernel:        Linux 6.1 m\n"
		    "Server:        run by root\n"
		    "Container:     none\n"
		    "VM:            kvm\n"
		    "cgroup:        v2 (cpu memory)\n"
		    "Landlock ABI:  6\n"
		    "LSMs:          landlock\n"
		    "/dev/fuse:     yes\n"
		    "FUSE io_uring: off; file servers are faster with it: echo Y > "
		    "/sys/module/fuse/parameters/enable_uring\n"
		    "Toolchains:    rust\n"
		    "\n"
		    "WALL ");
	expect_head(&(const struct doctor_host){.kernel = "Linux 5.15",
						.machine = "m",
						.container = "docker",
						.vm = "none",
						.cgroup = "none",
						.lsms = "-"},
		    "no such luck",
		    "Kernel:        Linux 5.15 m\n"
		    "Server:        run by a normal user\n"
		    "Container:     docker\n"
		    "VM:            none\n"
		    "cgroup:        none (no controllers)\n"
		    "Landlock ABI:  0, lacks all of it\n"
		    "LSMs:          -\n"
		    "/dev/fuse:     no\n"
		    "FUSE io_uring: not in this kernel (Linux 6.14 and later)\n"
		    "Toolchains:    none\n"
		    "\n"
		    "No session can be made: no such luck\n"
		    "\n"
		    "WALL ");
}

/* The line of a wall, its blanks as one. */
static char *row_of(const char *text, enum wall w)
{
	cleanup_free char *start = mem_printf("\n%s ", wall_name(w));
	const char *line = strstr(text, start);
	struct buf out = {0};

	assert_non_null(line);
	for (line++; *line != '\n' && *line != '\0'; line++)
		if (*line != ' ' || line[1] != ' ')
			buf_addc(&out, *line);
	return buf_take(&out);
}

/* SBX-5: of a wall without an act the detail is shown, or that there is more below. */
static void sbx_5_rows_of_walls(void **state)
{
	static const struct {
		enum wall wall;
		const char *row;
	} rows[] = {
		{WALL_user_namespace, "user_namespace absent absent - said"},
		{WALL_pid_namespace, "pid_namespace partial partial - see below"},
		{WALL_uts_namespace, "uts_namespace up ok read the name it is x"},
		{WALL_net_namespace, "net_namespace up LIE connect it worked"},
		{WALL_memory_limit, "memory_limit unavailable allowed - see below"},
	};
	const struct doctor_host h = {.cgroup = "v2"};
	struct doctor_report r = {0};
	cleanup_buf struct buf text = {0};

	claim(&r, WALL_user_namespace, WALL_ABSENT, false);
	claim(&r, WALL_pid_namespace, WALL_PARTIAL, false);
	claim(&r, WALL_uts_namespace, WALL_UP, false);
	claim(&r, WALL_net_namespace, WALL_UP, false);
	claim(&r, WALL_memory_limit, WALL_UNAVAILABLE, true);
	doctor_read_acts(&r, "uts_namespace\tdone\tread the name\tit worked\n", false);
	doctor_read_acts(&r, "uts_namespace\trefused\tread the name\tit is x\n", true);
	doctor_read_acts(&r, "net_namespace\tdone\tconnect\tit worked\n", true);
	doctor_judge(&r);
	doctor_print(&r, &h, &text);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cleanup_free char *row = row_of(text.data, rows[i].wall);

		assert_string_equal(row, rows[i].row);
	}
	doctor_report_done(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sbx_5_a_wall_holds_if_what_works_outside_fails_inside),
		cmocka_unit_test(sbx_5_an_act_that_succeeds_is_a_lie),
		cmocka_unit_test(sbx_5_what_is_missing_fails_unless_it_may),
		cmocka_unit_test(sbx_5_lines_that_are_none_are_passed_over),
		cmocka_unit_test(sbx_5_landlock_lacks),
		cmocka_unit_test(sbx_5_remedies_follow_the_cause),
		cmocka_unit_test(sbx_5_a_partial_file_rules_wall_has_no_remedy),
		cmocka_unit_test(sbx_5_only_what_helps_is_to_be_listed),
		cmocka_unit_test(sbx_5_text_and_json_say_the_same),
		cmocka_unit_test(sbx_5_facts_of_the_host_as_text),
		cmocka_unit_test(sbx_5_rows_of_walls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
