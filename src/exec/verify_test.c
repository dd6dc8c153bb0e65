// SPDX-License-Identifier: Apache-2.0
/* Which processes exec control has seized, and until when: driven by hand, without a filter. */
#include "exec/caller.h"
#include "exec/exec_testkit.h"
#include "exec/exec_thread.h"
#include "exec/trace.h"

static struct exec_control c;
static unsigned recorded[GATE_OUTCOMES];

static void record(void *arg, const struct gate_case *k, const struct gate_report *r,
		   const struct event *e)
{
	recorded[r->outcome]++;
}

static int make(void **state)
{
	memset(recorded, 0, sizeof(recorded));
	kit_open_gate(record, "  - {name: no, commands: [x], decision: deny}\n");
	c = (struct exec_control){.setup = {.gate = kit.gate, .helper = ""}};
	/* not a listener: its thread ends at once, and answers go nowhere */
	assert_int_equal(
		listener_start(NULL, 0, open("/dev/null", O_RDWR | O_CLOEXEC), &c.listener, NULL),
		0);
	LIST_INIT(&c.cases);
	STAILQ_INIT(&c.deferred);
	return 0;
}

static int unmake(void **state)
{
	listener_stop(c.listener);
	kit_close_gate();
	return 0;
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

static struct exec_case *add_case(pid_t tid, enum case_state state)
{
	struct exec_case *k = exec_case_new(&(struct seccomp_notif){.pid = (uint32_t)tid}, 0);

	k->state = state;
	k->seized = true;
	LIST_INSERT_HEAD(&c.cases, k, link);
	return k;
}

/* The id of one that was seized and died can be another's by the next exec. */
static void pol_4_who_was_seized_before_is_seized_again(void **state)
{
	const pid_t pid = start();
	struct exec_case *k = add_case(pid, CASE_READ);

	assert_false(trace_has(pid));
	k->gate.verdict = (struct verdict){.effective = DECISION_allow, .rule = "test"};
	verify_apply(&c, k);
	assert_int_equal(k->state, CASE_LOADING);
	assert_true(k->seized);
	assert_int_equal(caller_tracer(pid), gettid());
	/* and once is enough */
	k->state = CASE_READ;
	verify_apply(&c, k);
	assert_int_equal(k->state, CASE_LOADING);
	assert_int_equal(recorded[GATE_REFUSED], 0);
	end(pid);
	verify_reap(&c);
	assert_true(LIST_EMPTY(&c.cases));
	assert_int_equal(recorded[GATE_FAILED], 1);
}

/* Reaped by another id than the case has. */
static void pol_4_who_is_not_ours_is_forgotten(void **state)
{
	const pid_t theirs = start(), ours = start();
	struct exec_case *k;

	assert_int_equal(trace_seize(ours), 0);
	k = add_case(ours, CASE_LOADING);
	add_case(theirs, CASE_LOADING);
	verify_settle(&c);
	assert_ptr_equal(LIST_FIRST(&c.cases), k);
	assert_null(LIST_NEXT(k, link));
	assert_int_equal(recorded[GATE_FAILED], 1);
	/* ours is asked to stop, and is let go then */
	assert_true(k->interrupted);
	while (!LIST_EMPTY(&c.cases))
		verify_reap(&c);
	assert_int_equal(caller_tracer(ours), 0);
	assert_int_equal(recorded[GATE_FAILED], 2);
	end(ours);
	end(theirs);
	while (waitpid(-1, NULL, 0) > 0)
		;
}

/* SIGKILL ends a stop: what cannot be detached any more stays with us, else nobody reaps it, and
 * whoever waits for it, waits for ever. */
static void pol_4_the_dead_are_not_detached(void **state)
{
	const pid_t pid = start();
	int status;

	assert_int_equal(trace_seize(pid), 0);
	trace_interrupt(pid);
	assert_int_equal(waitpid(pid, &status, __WALL), pid);
	assert_true(WIFSTOPPED(status));
	end(pid);
	assert_true(trace_has(pid));
	assert_false(trace_detach(pid, 0));
	add_case(pid, CASE_LEFTOVER);
	verify_settle(&c);
	assert_false(LIST_EMPTY(&c.cases));
	verify_reap(&c);
	assert_true(LIST_EMPTY(&c.cases));
	assert_false(trace_has(pid));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, make, unmake)
	const struct CMUnitTest tests[] = {
		TEST(pol_4_who_was_seized_before_is_seized_again),
		TEST(pol_4_who_is_not_ours_is_forgotten),
		TEST(pol_4_the_dead_are_not_detached),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
