// SPDX-License-Identifier: Apache-2.0
/* When a session has to do without namespaces; as root, in a user namespace in which no further one
 * may be made. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "base/fdio.h"
#include "base/mem.h"
#include "sandbox/inside.h"
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define NAMES 7
#define SKIPPED 77
#define NOBODY 61234

static void plan_with(struct sandbox_plan *p, unsigned names)
{
	*p = (struct sandbox_plan){0};
	for (unsigned w = 0; w < names; w++)
		strv_add(&p->unenforced, wall_name((enum wall)w));
}

static bool write_text(const char *path, const char *text)
{
	cleanup_fd int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd != -1 && fdio_write_all(fd, text, strlen(text)) == 0;
}

/* In a child: makes namespaces unavailable and returns the decision. */
static int judge(unsigned names, bool word, bool privileged)
{
	struct sandbox_plan p;
	bool bare;

	if (unshare(CLONE_NEWUSER) < 0 || !write_text("/proc/self/setgroups", "deny") ||
	    !write_text("/proc/self/uid_map", "0 0 1") ||
	    !write_text("/proc/self/gid_map", "0 0 1") ||
	    !write_text("/proc/sys/user/max_user_namespaces", "0"))
		return SKIPPED;
	plan_with(&p, names);
	if (word)
		strv_add(&p.unenforced, WALL_NAMESPACES);
	p.privileged = privileged;
	bare = sandbox_without_namespaces(&p);
	sandbox_plan_done(&p);
	return bare;
}

static int judged(unsigned names, bool word, bool privileged)
{
	int status;
	const pid_t pid = fork();

	if (pid == 0)
		_exit(judge(names, word, privileged));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == SKIPPED) {
		print_message("# skipped: no user namespace can be made here\n");
		skip();
	}
	return WEXITSTATUS(status);
}

static void sbx_5_every_namespace_must_be_named(void **state)
{
	if (geteuid() != 0)
		skip();
	assert_int_equal(judged(NAMES, false, false), 1);
	assert_int_equal(judged(NAMES - 1, false, false), 0);
	assert_int_equal(judged(0, false, false), 0);
	assert_int_equal(judged(0, true, false), 1);
}

static void sbx_5_never_for_root(void **state)
{
	if (geteuid() != 0)
		skip();
	assert_int_equal(judged(NAMES, true, true), 0);
}

/* In a child, as a user that may not start another process. */
static int judge_crowded(void)
{
	const struct rlimit none = {1, 1};
	struct sandbox_prepared out = {.assignment = -1};
	struct sandbox_plan p;
	struct sandbox_start start = {.plan = &p, .init_fd = -1, .init_link = -1};
	struct err err = {0};

	plan_with(&p, NAMES);
	p.session_id = mem_strdup("s");
	start.tree_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if ((geteuid() == 0 && setresuid(NOBODY, NOBODY, NOBODY) < 0) ||
	    setrlimit(RLIMIT_NPROC, &none) < 0)
		return 1;
	if (sandbox_without_namespaces(&p))
		return 2;
	if (sandbox_prepare_init(&start, &out, &err) != -E_UNAVAILABLE)
		return 3;
	return strstr(err.message, "RLIMIT_NPROC") != NULL ? 0 : 4;
}

/* SBX-5: otherwise a user who fills the process table could take away the next session's walls. */
static void sbx_5_a_want_of_processes_takes_no_wall(void **state)
{
	int status;
	const pid_t pid = fork();

	if (pid == 0)
		_exit(judge_crowded());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* This machine has them, or the other tests of this folder would not run. */
static void sbx_5_never_where_namespaces_work(void **state)
{
	struct sandbox_plan p;

	plan_with(&p, NAMES);
	assert_false(sandbox_without_namespaces(&p));
	sandbox_plan_done(&p);
}

/* SBX-5: a /proc that hides processes cannot be used to end them. */
static void sbx_5_processes_must_be_seen(void **state)
{
	static const struct {
		const char *text;
		int r;
	} rows[] = {
		{"", 0},
		{"22 28 0:20 / /proc rw,nosuid - proc proc rw\n", 0},
		{"22 28 0:20 / /proc rw,nosuid - proc proc rw,hidepid=0\n", 0},
		{"22 28 0:20 / /proc rw,nosuid - proc proc rw,hidepid=off\n", 0},
		{"22 28 0:20 / /proc rw,nosuid - proc proc rw,hidepid=2", -E_ENFORCEMENT},
		{"1 0 8:1 / / rw - ext4 x rw\n22 28 0:20 / /proc rw - proc p "
		 "rw,hidepid=invisible\n",
		 -E_ENFORCEMENT},
		{"22 28 0:20 / /proc rw - proc proc rw,hidepid=noaccess,gid=5\n", -E_ENFORCEMENT},
		{"22 28 0:20 / /proc rw - proc proc rw,hidepid=ptraceable\n", -E_ENFORCEMENT},
		{"22 28 0:20 / /srv/proc rw - proc proc rw,hidepid=2\n", 0},
		{"22 28 0:20 / /proc rw - tmpfs hidepid=2 rw\n", 0},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cleanup_free char *text = mem_strdup(rows[i].text);

		if (bare_check_proc(text, NULL) != rows[i].r)
			fail_msg("%s", rows[i].text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sbx_5_every_namespace_must_be_named),
		cmocka_unit_test(sbx_5_never_for_root),
		cmocka_unit_test(sbx_5_a_want_of_processes_takes_no_wall),
		cmocka_unit_test(sbx_5_never_where_namespaces_work),
		cmocka_unit_test(sbx_5_processes_must_be_seen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
