// SPDX-License-Identifier: Apache-2.0
/* The exec check of the running kernel against processes in PID namespaces of their own. The
 * programs lie on a tmpfs, where the device numbers of stat and of the kernel agree. */
#include "base/mem.h"
#include "bpf/bpf_map.h"
#include "bpf/exec_wants.h"
#include "bpf/testkit/bpf_testkit.h"
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define DECIDED "/mnt/decided" /* both are the shell */
#define OTHER "/mnt/other"
#define RAN (7 << 8) /* wait status of a program that ran */

static const char *const argv_decided[] = {"sh", "-c", "exit 7", NULL};
static const char *const argv_longer[] = {"sh", "-c", "exit 7 ", NULL};
static const char *const argv_changed[] = {"sh", "-c", "exit 6", NULL};

struct rig {
	struct exec_check check;
	struct bpf_kit_session session;
};

static int make_programs(void **state)
{
	if (geteuid() != 0)
		return 0;
	return unshare(CLONE_NEWNS) == 0 &&
			       mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
			       mount("tmpfs", "/mnt", "tmpfs", 0, NULL) == 0 &&
			       system("cp /bin/sh " DECIDED " && cp /bin/sh " OTHER) == 0
		       ? 0
		       : -1;
}

static void rig_start(struct rig *rig)
{
	bpf_kit_load(&rig->check);
	bpf_kit_start(&rig->session);
	bpf_kit_add(&rig->session, &rig->check);
}

static void rig_end(struct rig *rig)
{
	bpf_kit_end(&rig->session);
	exec_check_close(&rig->check);
}

/* Forks a process, writes the want (NULL: none) under its id and lets it execute. */
static int run(struct rig *rig, const struct exec_want *want, const char *path,
	       const char *const argv[], bool nested, uint32_t *process)
{
	const uint32_t id = (uint32_t)bpf_kit_fork(&rig->session, nested);
	union exec_entry e = {.want = {0}};

	if (want != NULL) {
		e.want = *want;
		assert_int_equal(bpf_map_put(rig->session.wants, &id, &e), 0);
	}
	if (process != NULL)
		*process = id;
	return bpf_kit_exec(&rig->session, path, argv);
}

static void expect_record(struct rig *rig, unsigned done, unsigned mismatched)
{
	const uint32_t key = 0;
	union exec_entry e;

	assert_int_equal(bpf_map_get(rig->session.wants, &key, &e), 0);
	assert_int_equal(e.record.done, done);
	assert_int_equal(e.record.mismatched, mismatched);
}

static void pol_4_a_program_that_was_decided_runs(void **state)
{
	struct rig rig;
	struct exec_want want;
	union exec_entry e;
	uint32_t id;

	rig_start(&rig);
	bpf_kit_want(&want, DECIDED, argv_decided);
	for (unsigned i = 1; i <= 20; i++) {
		assert_int_equal(run(&rig, &want, DECIDED, argv_decided, false, &id), RAN);
		assert_int_equal(bpf_map_get(rig.session.wants, &id, &e), -ENOENT);
		expect_record(&rig, i, 0);
	}
	rig_end(&rig);
}

static void pol_4_another_program_is_killed_and_recorded(void **state)
{
	static const struct {
		const char *path;
		const char *const *argv;
	} other[] = {{OTHER, argv_decided}, {DECIDED, argv_longer}, {DECIDED, argv_changed}};
	struct rig rig;
	struct exec_want want, seen;
	union exec_entry e;
	uint32_t id;

	rig_start(&rig);
	bpf_kit_want(&want, DECIDED, argv_decided);
	for (unsigned i = 0; i < ARRAY_LEN(other); i++) {
		bpf_kit_want(&seen, other[i].path, other[i].argv);
		assert_int_equal(run(&rig, &want, other[i].path, other[i].argv, false, &id),
				 SIGKILL);
		assert_int_equal(bpf_map_get(rig.session.wants, &id, &e), 0);
		assert_int_equal(e.want.state, EXEC_MISMATCHED);
		assert_memory_equal(&e.want.loaded, &seen.decided, sizeof(seen.decided));
		assert_memory_equal(&e.want.decided, &want.decided, sizeof(want.decided));
		assert_string_equal(e.want.decided_path, DECIDED);
		assert_string_equal(e.want.loaded_path, other[i].path);
		expect_record(&rig, 0, i + 1);
	}
	rig_end(&rig);
}

static void pol_4_a_program_without_a_want_is_killed(void **state)
{
	struct rig rig;
	union exec_entry e;
	uint32_t id;

	rig_start(&rig);
	assert_int_equal(run(&rig, NULL, OTHER, argv_decided, false, &id), SIGKILL);
	assert_int_equal(bpf_map_get(rig.session.wants, &id, &e), 0);
	assert_int_equal(e.want.state, EXEC_MISMATCHED);
	assert_string_equal(e.want.decided_path, "");
	assert_string_equal(e.want.loaded_path, OTHER);
	expect_record(&rig, 0, 1);
	rig_end(&rig);
}

/* The map has no room for what was seen: the process is killed all the same, and counted. */
static void pol_4_a_full_map_lets_nothing_run(void **state)
{
	struct rig rig;
	union exec_entry e = {.want = {.state = EXEC_PASS}};
	uint32_t id = 1u << 30;

	rig_start(&rig);
	while (bpf_map_put(rig.session.wants, &id, &e) == 0)
		id++;
	assert_int_equal(id, (1u << 30) + EXEC_WANTS_MAX - 1);
	assert_int_equal(bpf_map_put(rig.session.wants, &id, &e), -E2BIG);
	assert_int_equal(run(&rig, NULL, DECIDED, argv_decided, false, NULL), SIGKILL);
	expect_record(&rig, 0, 1);
	rig_end(&rig);
}

static void pol_4_a_session_without_an_exec_policy_runs_anything(void **state)
{
	struct rig rig;

	rig_start(&rig);
	assert_int_equal(exec_wants_let_all(rig.session.wants), 0);
	assert_int_equal(run(&rig, NULL, OTHER, argv_decided, false, NULL), RAN);
	expect_record(&rig, 0, 0);
	rig_end(&rig);
}

static void pol_4_a_pass_is_good_for_one_program(void **state)
{
	const struct exec_want pass = {.state = EXEC_PASS};
	struct rig rig;
	union exec_entry e;
	uint32_t id;

	rig_start(&rig);
	assert_int_equal(run(&rig, &pass, OTHER, argv_changed, false, &id), 6 << 8);
	assert_int_equal(bpf_map_get(rig.session.wants, &id, &e), -ENOENT);
	expect_record(&rig, 0, 0);
	/* what the program starts itself has no want */
	assert_int_equal(
		run(&rig, &pass, OTHER,
		    (const char *const[]){"sh", "-c", "exec " DECIDED " -c 'exit 7'", NULL}, false,
		    NULL),
		SIGKILL);
	expect_record(&rig, 0, 1);
	rig_end(&rig);
}

/* Returns when a child traces the process; the child reaps it and ends. */
static pid_t trace(pid_t pid)
{
	int ready[2];
	pid_t tracer;
	char c;

	assert_int_equal(pipe(ready), 0);
	tracer = fork();
	if (tracer == 0) {
		if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) < 0 || write(ready[1], "x", 1) != 1)
			_exit(1);
		_exit(waitpid(pid, NULL, __WALL) == pid ? 0 : 1);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	return tracer;
}

/* A thread that is not traced must not use what was written for one that is traced. */
static void pol_4_what_is_compared_at_its_stop_must_be_traced(void **state)
{
	const struct exec_want stops = {.state = EXEC_STOPS};
	struct rig rig;
	union exec_entry e = {.want = stops};
	uint32_t id;
	pid_t tracer;
	int status;

	rig_start(&rig);
	assert_int_equal(run(&rig, &stops, OTHER, argv_decided, false, &id), SIGKILL);
	assert_int_equal(bpf_map_get(rig.session.wants, &id, &e), 0);
	assert_int_equal(e.want.state, EXEC_MISMATCHED);
	expect_record(&rig, 0, 1);

	e = (union exec_entry){.want = stops};
	id = (uint32_t)bpf_kit_fork(&rig.session, false);
	assert_int_equal(bpf_map_put(rig.session.wants, &id, &e), 0);
	tracer = trace((pid_t)id);
	assert_int_equal(bpf_kit_exec(&rig.session, OTHER, argv_decided), RAN);
	assert_int_equal(waitpid(tracer, &status, 0), tracer);
	assert_int_equal(status, 0);
	assert_int_equal(bpf_map_get(rig.session.wants, &id, &e), -ENOENT);
	expect_record(&rig, 0, 1);
	rig_end(&rig);
}

/* Many lengths, around the sizes of a word and of a chunk: the kernel and siphash.h agree, and the
 * last byte counts. */
static void pol_4_argv_of_any_length_compares(void **state)
{
	static const size_t lengths[] = {1, 7, 8, 9, 500, 501, 511, 512, 513, 1024, 1500, 100000};
	struct rig rig;
	struct exec_want want;

	rig_start(&rig);
	for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
		cleanup_free char *word = mem_alloc(lengths[i] + 1);
		const char *const argv[] = {"sh", "-c", "exit 7", word, NULL};

		memset(word, 'a', lengths[i]);
		bpf_kit_want(&want, DECIDED, argv);
		assert_int_equal(run(&rig, &want, DECIDED, argv, false, NULL), RAN);
		word[lengths[i] - 1] = 'b';
		assert_int_equal(run(&rig, &want, DECIDED, argv, false, NULL), SIGKILL);
	}
	rig_end(&rig);
}

static void pol_4_processes_outside_of_sessions_are_not_touched(void **state)
{
	struct rig rig;
	struct bpf_kit_session free_one;

	rig_start(&rig);
	assert_int_equal(WEXITSTATUS(system("exit 7")), 7);
	bpf_kit_start(&free_one);
	bpf_kit_fork(&free_one, false);
	assert_int_equal(bpf_kit_exec(&free_one, OTHER, argv_decided), RAN);
	bpf_kit_end(&free_one);
	rig_end(&rig);
}

/* A namespace inside of the session's: the want stands under the id that the test sees. */
static void pol_4_a_nested_namespace_is_no_way_out(void **state)
{
	struct rig rig;
	struct exec_want want;

	rig_start(&rig);
	bpf_kit_want(&want, DECIDED, argv_decided);
	assert_int_equal(run(&rig, &want, DECIDED, argv_decided, true, NULL), RAN);
	assert_int_equal(run(&rig, NULL, DECIDED, argv_decided, true, NULL), SIGKILL);
	rig_end(&rig);
}

/* The server's own side in a PID namespace with its own /proc, as in a container. */
static void pol_4_a_container_uses_its_own_process_ids(void **state)
{
	struct rig rig;
	struct exec_want want;
	int status;
	pid_t pid;

	bpf_kit_load(&rig.check);
	pid = (pid_t)syscall(SYS_clone, CLONE_NEWPID | CLONE_NEWNS | SIGCHLD, 0, 0, 0, 0);
	if (pid == 0) {
		bool right;

		if (mount("proc", "/proc", "proc", 0, NULL) < 0)
			_exit(2);
		bpf_kit_start(&rig.session);
		bpf_kit_add(&rig.session, &rig.check);
		bpf_kit_want(&want, DECIDED, argv_decided);
		right = rig.session.init == 2 &&
			run(&rig, &want, DECIDED, argv_decided, false, NULL) == RAN &&
			run(&rig, &want, DECIDED, argv_decided, true, NULL) == RAN &&
			run(&rig, &want, OTHER, argv_decided, false, NULL) == SIGKILL &&
			run(&rig, NULL, DECIDED, argv_decided, false, NULL) == SIGKILL &&
			WEXITSTATUS(system("exit 7")) == 7;
		_exit(right ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	exec_check_close(&rig.check);
}

/* The link is all that a warden holds of the program: the check goes on without the rest. */
static void pol_4_the_link_keeps_the_check(void **state)
{
	struct rig rig;

	rig_start(&rig);
	close(take_fd(rig.check.fd[CHECK_SESSIONS]));
	assert_int_equal(bpf_link_check(rig.check.fd[CHECK_LINK]), 0);
	assert_int_equal(run(&rig, NULL, OTHER, argv_decided, false, NULL), SIGKILL);
	close(take_fd(rig.check.fd[CHECK_LINK]));
	assert_true(bpf_link_check(rig.check.fd[CHECK_LINK]) < 0);
	assert_int_equal(run(&rig, NULL, OTHER, argv_decided, false, NULL), RAN);
	rig_end(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pol_4_a_program_that_was_decided_runs),
		cmocka_unit_test(pol_4_another_program_is_killed_and_recorded),
		cmocka_unit_test(pol_4_a_program_without_a_want_is_killed),
		cmocka_unit_test(pol_4_a_full_map_lets_nothing_run),
		cmocka_unit_test(pol_4_a_session_without_an_exec_policy_runs_anything),
		cmocka_unit_test(pol_4_a_pass_is_good_for_one_program),
		cmocka_unit_test(pol_4_what_is_compared_at_its_stop_must_be_traced),
		cmocka_unit_test(pol_4_argv_of_any_length_compares),
		cmocka_unit_test(pol_4_processes_outside_of_sessions_are_not_touched),
		cmocka_unit_test(pol_4_a_nested_namespace_is_no_way_out),
		cmocka_unit_test(pol_4_the_link_keeps_the_check),
		cmocka_unit_test(pol_4_a_container_uses_its_own_process_ids),
	};

	return cmocka_run_group_tests(tests, make_programs, NULL);
}
