// SPDX-License-Identifier: Apache-2.0
/* Where the kernel checks execs: what happens when it does not, when its map is full, when a
 * process executes without being asked, and when several threads of a process execute. */
#include "base/clock.h"
#include "bpf/bpf_map.h"
#include "exec/testkit/exec_testkit.h"
#include <stdatomic.h>
#include <sys/uio.h>

extern char **environ;

static char argument[] = "first";

static int run(const char *name)
{
	char *argv[] = {(char *)"x", argument, NULL};
	const pid_t pid = fork();

	if (pid == 0) {
		execve(kit_path(name), argv, environ);
		_exit(errno == EACCES ? KIT_NOT_RUN : KIT_BROKEN);
	}
	return kit_status(pid);
}

static int guest_twice(void *arg)
{
	const int status = run("good");

	return status != 0 ? status : run("good");
}

/* POL-4: the loss is seen before the next exec is let go, and nothing goes on unverified. */
static void pol_4_without_its_link_execs_are_compared_at_their_stop(void **state)
{
	cleanup_fd int other = open("/dev/null", O_RDONLY | O_CLOEXEC);

	kit_start(guest_twice, NULL);
	assert_int_equal(exec_control_lost(kit.control), 0);
	assert_true(dup2(other, kit.link_fd) >= 0);
	kit_go();
	assert_int_equal(kit_wait(), 0);
	assert_int_equal(exec_control_lost(kit.control), EINVAL);
	kit_stop();
	assert_int_equal(kit.outcome[GATE_DONE], 2);
	for (size_t i = 0; i < 2; i++)
		assert_string_equal(kit.record[i].verified, "stop");
}

static void fill_map(uint32_t state)
{
	const union exec_entry e = {.want = {.state = state}};
	uint32_t pid = 5000000; /* above PID_MAX_LIMIT: there is no such process */

	while (bpf_map_put(kit.wants_fd, &pid, &e) == 0)
		pid++;
}

/* POL-4: entries that processes have left are removed; if the map stays full, the exec is refused
 * after a time, and its event says why. */
static void pol_4_a_full_map_refuses_with_a_reason(void **state)
{
	kit_start(guest_twice, NULL);
	fill_map(EXEC_PASS);
	kit_go();
	assert_int_equal(kit_end(), 0);
	assert_int_equal(kit.outcome[GATE_DONE], 2);

	kit_start(guest_twice, NULL);
	fill_map(EXEC_COMPARE);
	kit_go();
	assert_int_equal(kit_end(), KIT_NOT_RUN);
	assert_int_equal(kit.nrecords, 1);
	assert_int_equal(kit.record[0].outcome, GATE_REFUSED);
	assert_string_equal(kit.record[0].reason,
			    "too many programs are being loaded at the same time");
}

#define AT_ONCE 300
#define ROOM 4

/* In the guest: so many processes execute when all of them are there. */
static int guest_at_once(void *arg)
{
	char *argv[] = {(char *)"x", NULL}, byte;
	pid_t pid[AT_ONCE];
	int start[2], status = 0;

	if (pipe2(start, O_CLOEXEC) != 0)
		return KIT_BROKEN;
	for (size_t i = 0; i < AT_ONCE; i++) {
		pid[i] = fork();
		if (pid[i] != 0)
			continue;
		close(start[1]);
		if (read(start[0], &byte, 1) == 0)
			execve(kit_path("good"), argv, environ);
		_exit(errno == EACCES ? KIT_NOT_RUN : KIT_BROKEN);
	}
	close(start[1]);
	for (size_t i = 0; i < AT_ONCE; i++) {
		const int its = kit_status(pid[i]);

		status = its != 0 ? its : status;
	}
	return status;
}

/* POL-4: execs for which the map has no room wait until others are over. */
static void pol_4_many_execs_at_once_all_run(void **state)
{
	uint32_t pid = 5000000;

	for (int i = 0; i < 2; i++) {
		kit_start(guest_at_once, NULL);
		if (i == 1) {
			fill_map(EXEC_COMPARE);
			for (; pid < 5000000 + ROOM; pid++)
				assert_int_equal(bpf_map_drop(kit.wants_fd, &pid), 0);
		}
		kit_go();
		assert_int_equal(kit_end(), 0);
		assert_int_equal(kit.outcome[GATE_DONE], AT_ONCE);
		assert_int_equal(kit.outcome[GATE_REFUSED], 0);
	}
}

/* POL-4: if there is never room, all wait for the same 5 s. One after the other they would wait for
 * AT_ONCE times as long. On a busy machine the 5 s become more. */
static void pol_4_execs_without_room_are_refused_together(void **state)
{
	int64_t began_us;

	kit_start(guest_at_once, NULL);
	fill_map(EXEC_COMPARE);
	began_us = clock_mono_us(&clock_system);
	kit_go();
	assert_int_equal(kit_end(), KIT_NOT_RUN);
	assert_int_equal(kit.outcome[GATE_REFUSED], AT_ONCE);
	assert_in_range(clock_mono_us(&clock_system) - began_us, 5000000, 30000000);
}

static int begin[2]; /* a pipe */
static pid_t stranger;

/* Before the guest has its filter: a child without one. */
static int fork_stranger(void)
{
	stranger = fork();
	if (stranger == 0) {
		char *argv[] = {(char *)"true", NULL};
		char c;

		if (read(begin[0], &c, 1) == 1)
			execv("/usr/bin/true", argv);
		_exit(KIT_BROKEN);
	}
	return 0;
}

static int guest_stranger(void *arg)
{
	return write(begin[1], "x", 1) == 1 ? kit_status(stranger) : KIT_BROKEN;
}

static void start_stranger(void)
{
	assert_int_equal(pipe2(begin, O_CLOEXEC), 0);
	kit.enter = fork_stranger;
	kit_start(guest_stranger, NULL);
	kit.enter = NULL;
	for (size_t i = 0; i < 2; i++)
		close(begin[i]);
}

/* POL-4: an exec of the session that was not decided does not run, and is recorded. */
static void pol_4_an_exec_without_a_decision_is_killed(void **state)
{
	start_stranger();
	kit_go();
	assert_int_equal(kit_end(), 128 + SIGKILL);
	assert_int_equal(kit.nrecords, 1);
	assert_int_equal(kit.record[0].outcome, GATE_MISMATCHED);
	assert_int_equal(kit.record[0].type, EVENT_policy_violation);
	assert_string_equal(kit.record[0].loaded, "/usr/bin/true");
	assert_string_equal(kit.record[0].verified, "bpf");
}

/* POL-4: also if the map has no room for what the kernel saw. */
static void pol_4_a_kill_without_an_entry_is_recorded(void **state)
{
	start_stranger();
	fill_map(EXEC_COMPARE);
	kit_go();
	assert_int_equal(kit_wait(), 128 + SIGKILL);
	for (int i = 0; i < 2; i++)
		exec_control_look(kit.control);
	kit_stop();
	assert_int_equal(kit.nrecords, 1);
	assert_int_equal(kit.record[0].outcome, GATE_MISMATCHED);
	assert_int_equal(kit.record[0].type, EVENT_policy_violation);
	assert_int_equal(kit.record[0].pid, 0);
}

/* ---- several threads ---- */

static atomic_bool failed;
static bool spins;

static void *fail_and_stay(void *arg)
{
	char *argv[] = {(char *)"x", NULL};

	execve(kit_path("broken"), argv, environ);
	failed = true;
	while (spins || pause() == -1)
		;
	return NULL;
}

/* In the guest: a thread's exec has failed in the kernel, and another thread executes. */
static int guest_after_a_failure(void *arg)
{
	char *argv[] = {(char *)"x", NULL};
	pthread_t t;

	if (pthread_create(&t, NULL, fail_and_stay, NULL) != 0)
		return KIT_BROKEN;
	while (!failed)
		sched_yield();
	execve(kit_path("good"), argv, environ);
	return KIT_BROKEN;
}

/* POL-4: the same if the thread of the failed exec never sleeps again; if it sleeps, no other
 * thread waits. */
static void pol_4_a_failed_exec_does_not_hold_other_threads(void **state)
{
	kit_copy("/usr/bin/true", "broken", 0755);
	assert_int_equal(truncate(kit_path("broken"), 100), 0);
	for (int i = 0; i < 2; i++) {
		failed = false;
		spins = i == 1;
		assert_int_equal(kit_run(guest_after_a_failure, NULL), 0);
		assert_int_equal(kit.outcome[GATE_FAILED], 1);
		assert_int_equal(kit.outcome[GATE_DONE], 1);
		assert_true(spins || kit.record[kit.nrecords - 1].latency_us < 900000);
	}
}

/* ---- arguments ---- */

static int guest_held(void *arg)
{
	char *argv[] = {(char *)"x", argument, NULL};

	execve(kit_path("held"), argv, environ);
	return KIT_NOT_RUN;
}

/* The guest's memory is a copy of ours. */
static void change_argument(void)
{
	char other[] = "other";
	const struct iovec from = {other, sizeof(other)}, to = {argument, sizeof(argument)};

	if (process_vm_writev(kit.guest, &from, 1, &to, 1, 0) != sizeof(other))
		print_message("# process_vm_writev: %s\n", strerror(errno));
}

static void *answer_one(void *arg)
{
	kit_wait_u64(&kit.parked, 1);
	gate_answer(kit.gate, 1, true);
	return NULL;
}

/* POL-4: the program is the right one, and an argument is not. */
static void pol_4_a_changed_argument_is_killed(void **state)
{
	const struct kit_record *last;
	pthread_t answering;

	kit.on_ask = change_argument;
	kit_start(guest_held, NULL);
	assert_int_equal(pthread_create(&answering, NULL, answer_one, NULL), 0);
	kit_go();
	assert_int_equal(kit_wait(), 128 + SIGKILL);
	pthread_join(answering, NULL);
	assert_int_equal(exec_control_look(kit.control), 0);
	if (kit.by_kernel) /* recorded by the look, at the latest */
		assert_int_equal(kit.count[GATE_MISMATCHED], 1);
	kit_stop();
	kit.on_ask = NULL;
	last = &kit.record[kit.nrecords - 1];
	assert_int_equal(last->type, EVENT_policy_violation);
	assert_string_equal(last->reason, "other arguments than were decided on; killed");
	assert_string_equal(last->loaded, kit_path("held"));
	assert_string_equal(last->verified, kit.by_kernel ? "bpf" : "stop");
}

static int guest_long(void *arg)
{
	static char word[100001];
	char *argv[] = {(char *)"x", word, NULL};

	memset(word, 'a', sizeof(word) - 1);
	execve(kit_path("good"), argv, environ);
	return KIT_BROKEN;
}

static void pol_4_100_kb_of_arguments_are_compared(void **state)
{
	assert_int_equal(kit_run(guest_long, NULL), 0);
	assert_int_equal(kit.record[0].outcome, GATE_DONE);
	assert_string_equal(kit.record[0].verified, kit.by_kernel ? "bpf" : "stop");
}

#define KERNEL(test)                                   \
	{                                              \
#test, test, kit_by_kernel, NULL, NULL \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		KERNEL(pol_4_without_its_link_execs_are_compared_at_their_stop),
		KERNEL(pol_4_a_full_map_refuses_with_a_reason),
		KERNEL(pol_4_many_execs_at_once_all_run),
		KERNEL(pol_4_execs_without_room_are_refused_together),
		KERNEL(pol_4_an_exec_without_a_decision_is_killed),
		KERNEL(pol_4_a_kill_without_an_entry_is_recorded),
		KIT_BOTH(pol_4_a_failed_exec_does_not_hold_other_threads),
		KIT_BOTH(pol_4_a_changed_argument_is_killed),
		KIT_BOTH(pol_4_100_kb_of_arguments_are_compared),
	};

	return cmocka_run_group_tests(tests, kit_prepare, kit_clean);
}
