// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "bpf/bpf_map.h"
#include "bpf/exec_sessions.h"
#include "bpf/testkit/bpf_testkit.h"
#include <signal.h>
#include <stdio.h>

static size_t count(int sessions)
{
	struct exec_session_key key;
	size_t n = 0;

	for (int r = bpf_map_next(sessions, NULL, &key); r == 0;
	     r = bpf_map_next(sessions, &key, &key))
		n++;
	return n;
}

/* Bytes of kernel memory that the map of a descriptor has. */
static size_t memory_of(int map)
{
	char path[64], line[128];
	size_t bytes = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", map);
	f = fopen(path, "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f) != NULL)
		if (sscanf(line, "memlock: %zu", &bytes) == 1)
			break;
	fclose(f);
	assert_true(bytes > 0);
	return bytes;
}

static void pol_4_only_sessions_that_have_ended_are_swept(void **state)
{
	struct bpf_kit_session s[3];
	struct exec_check check;

	bpf_kit_load(&check);
	for (size_t i = 0; i < ARRAY_LEN(s); i++) {
		bpf_kit_start(&s[i]);
		bpf_kit_add(&s[i], &check);
	}
	exec_sessions_sweep(&check);
	assert_int_equal(count(check.fd[CHECK_SESSIONS]), 3);
	bpf_kit_end(&s[0]);
	bpf_kit_end(&s[2]);
	exec_sessions_sweep(&check);
	assert_int_equal(count(check.fd[CHECK_SESSIONS]), 1);
	bpf_kit_fork(&s[1], false);
	assert_int_equal(bpf_kit_exec(&s[1], "/bin/true", (const char *const[]){"true", NULL}),
			 SIGKILL);
	bpf_kit_end(&s[1]);
	exec_check_close(&check);
}

static void pol_4_a_stub_that_nobody_waits_for_sweeps_now_and_then(void **state)
{
	struct bpf_kit_session s;
	struct exec_check check, none = EXEC_CHECK_NONE;
	size_t most = 0;

	bpf_kit_load(&check);
	for (size_t i = 0; i < 100; i++) {
		exec_sessions_plan(&check, true, 4);
		bpf_kit_start(&s);
		bpf_kit_add(&s, &check);
		bpf_kit_end(&s);
		check.ended++;
		most = count(check.fd[CHECK_SESSIONS]) > most ? count(check.fd[CHECK_SESSIONS])
							      : most;
	}
	assert_in_range(most, 2, 10);
	check.ended = 60;
	exec_sessions_plan(&check, false, 4);
	assert_false(check.sweep);
	exec_sessions_plan(&check, true, 4);
	assert_true(check.sweep);
	assert_int_equal(check.ended, 0);
	/* one sweep does not remove them all */
	check.ended = 300;
	exec_sessions_plan(&check, true, 4);
	assert_true(check.sweep);
	exec_sessions_plan(&check, true, 4);
	assert_true(check.sweep);
	assert_int_equal(check.ended, 0);
	exec_check_close(&check);
	none.ended = 100;
	exec_sessions_plan(&none, true, 0);
	assert_false(none.sweep);
}

/* With sandbox.root_inside, or where no prepared sandbox serves, a client waits for every stub. */
static void pol_4_without_idle_stubs_others_sweep_now_and_then(void **state)
{
	struct exec_check check = EXEC_CHECK_NONE;
	unsigned sweeps = 0;

	check.fd[CHECK_SESSIONS] = 0; /* not looked at */
	for (size_t i = 0; i < 1000; i++) {
		exec_sessions_plan(&check, false, 4);
		sweeps += check.sweep;
		check.ended++;
		assert_in_range(check.ended, 0, 70);
	}
	assert_in_range(sweeps, 10, 20);
}

/* Otherwise the kernel would kill what this machine executes. */
static void pol_4_the_servers_own_namespace_is_refused(void **state)
{
	struct exec_check check;
	struct err err = {0};
	int maps[SESSION_FDS] = {-1, -1, -1, -1};

	bpf_kit_load(&check);
	assert_int_equal(exec_sessions_add(&check, getpid(), false, maps, &err), -E_ENFORCEMENT);
	assert_non_null(strstr(err.message, "no PID namespace of its own"));
	assert_int_equal(exec_sessions_add(&check, 1 << 30, false, maps, &err), -E_ENFORCEMENT);
	assert_int_equal(maps[SESSION_FD_WANTS], -1);
	assert_int_equal(count(check.fd[CHECK_SESSIONS]), 0);
	exec_check_close(&check);
}

/* 500 sessions: at most 2 MB, with what all of them share. */
static void pol_4_a_session_takes_little_memory(void **state)
{
	struct bpf_kit_session s;
	struct exec_check check;
	size_t shared, one;

	bpf_kit_load(&check);
	bpf_kit_start(&s);
	bpf_kit_add(&s, &check);
	shared = memory_of(check.fd[CHECK_SESSIONS]);
	one = memory_of(s.wants);
	print_message("# shared %zu bytes, a session %zu\n", shared, one);
	assert_in_range(shared + 500 * one, 1, 2000000);
	bpf_kit_end(&s);
	exec_check_close(&check);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pol_4_only_sessions_that_have_ended_are_swept),
		cmocka_unit_test(pol_4_a_stub_that_nobody_waits_for_sweeps_now_and_then),
		cmocka_unit_test(pol_4_without_idle_stubs_others_sweep_now_and_then),
		cmocka_unit_test(pol_4_the_servers_own_namespace_is_refused),
		cmocka_unit_test(pol_4_a_session_takes_little_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
