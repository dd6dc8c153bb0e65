// SPDX-License-Identifier: Apache-2.0
#include "launcher/testkit/rig_testkit.h"

static void range(struct rig *g, uint32_t first, uint32_t last)
{
	g->l.settings.config.session_uids = (struct uid_range){first, last};
}

static uint32_t allot(struct rig *g)
{
	struct err err = {0};
	uint32_t uid = 0;

	if (uids_allot(&g->l, &uid, &err) < 0)
		fail_msg("%s", err.message);
	return uid;
}

static void sbx_6_ids_come_in_turn_and_go_on_after_a_restart(void **state)
{
	struct rig *g = *state;
	uint32_t first, last;

	if (!rig_root())
		skip();
	range(g, 1900000100, 1900000199);
	uids_open(&g->l);
	first = allot(g);
	last = allot(g);
	assert_true(first > 1900000100 && first <= 1900000199);
	assert_int_equal(last, first == 1900000199 ? 1900000101 : first + 1);
	close(g->l.uids.fd);
	g->l.uids = (struct uids){.fd = -1};
	uids_open(&g->l);
	assert_int_equal(allot(g), last == 1900000199 ? 1900000101 : last + 1);
}

/* What the file says does not matter if it is not a uid of the range. */
static void sbx_6_a_damaged_record_is_no_uid(void **state)
{
	static const char *const bad[] = {"", "x", "0\n", "99999999999999", "-1"};
	struct rig *g = *state;
	cleanup_free char *path = mem_printf("%s/state/session_uid", g->dir);

	if (!rig_root())
		skip();
	range(g, 1900000200, 1900000209);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

		assert_int_equal(write(fd, bad[i], strlen(bad[i])), (ssize_t)strlen(bad[i]));
		uids_open(&g->l);
		assert_true(uid_range_has(&g->l.settings.config.session_uids, allot(g)));
		close(g->l.uids.fd);
		g->l.uids = (struct uids){.fd = -1};
	}
}

/* The first id owns kept homes. A process with the second of three others lives; the third belongs
 * to a session. */
static void sbx_6_an_id_in_use_is_skipped(void **state)
{
	struct rig *g = *state;
	struct session_entry *w;
	struct err err = {0};
	uint32_t uid = 7;
	int hold[2];
	char byte;
	pid_t pid;

	if (!rig_root())
		skip();
	range(g, 1900000299, 1900000302);
	assert_int_equal(pipe2(hold, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		close(hold[1]);
		_exit(setuid(1900000301) < 0 || write(hold[0], "", 0) != -1 ||
		      read(hold[0], &byte, 1) != 0);
	}
	close(hold[0]);
	while (getpriority(PRIO_USER, 1900000301) == -1 && waitpid(pid, NULL, WNOHANG) == 0)
		sched_yield();
	w = entry_new(&g->l, "s");
	w->meta.uid = 1900000302;
	w->state = ENTRY_ALIVE;
	assert_int_equal(allot(g), 1900000300);
	assert_int_equal(allot(g), 1900000300);
	g->l.settings.config.api_uid = 1900000300;
	assert_int_equal(uids_allot(&g->l, &uid, &err), -E_RESOURCE_LIMIT);
	assert_string_equal(err.subject, "sandbox.session_uids");
	assert_int_equal(uid, 7);
	close(hold[1]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(allot(g), 1900000301);
}

static void sbx_6_one_id_is_shared_by_all(void **state)
{
	struct rig *g = *state;
	struct session_entry *w;

	if (!rig_root())
		skip();
	range(g, 64999, 64999);
	w = entry_new(&g->l, "s");
	w->meta.uid = 64999;
	assert_int_equal(allot(g), 64999);
}

int main(int argc, char **argv)
{
#define T(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		T(sbx_6_ids_come_in_turn_and_go_on_after_a_restart),
		T(sbx_6_a_damaged_record_is_no_uid),
		T(sbx_6_an_id_in_use_is_skipped),
		T(sbx_6_one_id_is_shared_by_all),
	};

	(void)argc;
	rig_main(argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
