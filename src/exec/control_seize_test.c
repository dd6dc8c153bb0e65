// SPDX-License-Identifier: Apache-2.0
/* Which processes exec control has seized, and until when. */
#include "base/clock.h"
#include "exec/exec_thread.h"
#include "exec/testkit/exec_testkit.h"
#include "exec/trace.h"
#include <sys/ptrace.h>

static struct exec_control *c;

static void open_control(void)
{
	struct exec_setup s = {.root = -1, .helper = ""};

	memset(kit.count, 0, sizeof(kit.count));
	kit_open_gate(kit_record, "  - {name: no, commands: [x], decision: deny}\n");
	s.gate = kit.gate;
	s.actors = kit.actors;
	assert_int_equal(exec_control_open(&s, &c, NULL), 0);
}

static void close_control(void)
{
	exec_control_close(c);
	kit_close_gate();
}

/* A process that does nothing but wait for its end. */
static pid_t start(void)
{
	const pid_t pid = fork();

	assert_int_not_equal(pid, -1);
	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	for (;;)
		pause();
}

/* Dead, and not reaped. */
static void end(pid_t pid)
{
	siginfo_t info;

	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
}

/* As stops.c has it of a process that it believes to have seized. */
static struct exec_case *add_case(struct exec_control *to, pid_t tid, enum case_state state)
{
	struct exec_case *k = mem_new(struct exec_case);

	*k = (struct exec_case){.control = to,
				.state = state,
				.seized = true,
				.tid = tid,
				.pid = tid,
				.pidfd = -1,
				.image = {.fd = -1, .op = {.class = OP_EXEC, .exec.path = ""}},
				.target.fd = -1};
	k->gate.op = &k->image.op;
	LIST_INSERT_HEAD(&to->cases, k, link);
	return k;
}

static int guest_good(void *arg)
{
	char *argv[] = {(char *)"x", NULL};

	execv(kit_path("good"), argv);
	return KIT_NOT_RUN;
}

/* A seized thread has died, and its id belongs to another one, which is not seized. */
static void pol_4_an_id_that_is_used_again_is_seized_again(void **state)
{
	kit_start(guest_good, NULL);
	add_case(kit.control, kit.guest, CASE_LEFTOVER);
	kit_go();
	assert_int_equal(kit_end(), 0);
	assert_int_equal(kit.nrecords, 1);
	assert_int_equal(kit.record[0].outcome, GATE_DONE); /* only a traced exec gets that far */
}

/* A case whose thread is gone waits for an approver, and the id belongs to a thread whose exec was
 * deferred until another thread of its process is not seized any more. */
static void pol_4_a_deferred_exec_ends_an_old_case_of_its_id(void **state)
{
	struct exec_case *k;

	kit_start(guest_good, NULL);
	add_case(kit.control, kit.guest, CASE_PARKED)->seized = false;
	k = add_case(kit.control, INT_MAX, CASE_LEFTOVER);
	k->pid = kit.guest;
	k->let_go_us = clock_mono_us(&clock_system) + 100000; /* seized until then */
	kit_go();
	assert_int_equal(kit_end(), 0);
	assert_int_equal(kit.nrecords, 1);
	assert_int_equal(kit.record[0].outcome, GATE_DONE);
}

/* A process is reaped by another id than its case has. */
static void pol_4_a_process_that_is_not_ours_is_forgotten(void **state)
{
	const pid_t theirs = start(), ours = start();
	struct exec_case *k;

	open_control();
	assert_int_equal(ptrace(PTRACE_SEIZE, ours, NULL, NULL), 0);
	k = add_case(c, ours, CASE_LOADING);
	add_case(c, theirs, CASE_LOADING);
	stops_settle(c);
	assert_ptr_equal(LIST_FIRST(&c->cases), k);
	assert_null(LIST_NEXT(k, link));
	assert_int_equal(kit.count[GATE_FAILED], 1);
	/* ours is asked to stop, and is let go then */
	assert_true(k->interrupted);
	while (!LIST_EMPTY(&c->cases))
		stops_reap(c);
	assert_false(trace_has(ours));
	assert_int_equal(kit.count[GATE_FAILED], 2);
	end(ours);
	end(theirs);
	while (waitpid(-1, NULL, 0) > 0)
		;
	close_control();
}

/* SIGKILL ends a stop. The process cannot be detached any more: its tracer must reap it, or its
 * parent waits for ever. */
static void pol_4_the_dead_are_not_detached(void **state)
{
	const pid_t pid = start();
	int status;

	open_control();
	assert_int_equal(ptrace(PTRACE_SEIZE, pid, NULL, NULL), 0);
	assert_int_equal(ptrace(PTRACE_INTERRUPT, pid, NULL, NULL), 0);
	assert_int_equal(waitpid(pid, &status, __WALL), pid);
	assert_true(WIFSTOPPED(status));
	end(pid);
	assert_true(trace_has(pid));
	assert_int_equal(ptrace(PTRACE_DETACH, pid, NULL, NULL), -1);
	add_case(c, pid, CASE_LEFTOVER);
	stops_settle(c);
	assert_false(LIST_EMPTY(&c->cases));
	stops_reap(c);
	assert_true(LIST_EMPTY(&c->cases));
	assert_false(trace_has(pid));
	close_control();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pol_4_an_id_that_is_used_again_is_seized_again),
		cmocka_unit_test(pol_4_a_deferred_exec_ends_an_old_case_of_its_id),
		cmocka_unit_test(pol_4_a_process_that_is_not_ours_is_forgotten),
		cmocka_unit_test(pol_4_the_dead_are_not_detached),
	};

	return cmocka_run_group_tests(tests, kit_prepare, kit_clean);
}
