// SPDX-License-Identifier: Apache-2.0
/* When the loop is woken for execs, and which command they belong to; with the real listener thread
 * and a guest. */
#include "base/mem.h"
#include "base/proc.h"
#include "exec/testkit/exec_testkit.h"
#include "policy/policy.h"
#include "warden/execs.h"
#include <semaphore.h>
#include <stdatomic.h>

#define SPAWN 7
#define MANY 64

static struct fixture {
	struct execs execs;
	struct exec_looker *looker;
	struct exec_initial *initial[4];
	size_t ninitial;
	int sock;
	pid_t guest;
	atomic_uint wakes;
	sem_t woken; /* once for each */
	atomic_uint told;
	char id[64]; /* of the command of the last record, or "" */
} f;

/* A guest that executes true or false for each letter that it reads, in a child; for a T in a
 * grandchild. */
static int execute(void *arg)
{
	const int sock = *(const int *)arg;
	char what;

	while (read(sock, &what, 1) == 1) {
		pid_t pid = fork();

		if (pid == 0 && what == 'T') {
			what = 't';
			pid = fork();
			if (pid != 0)
				_exit(kit_status(pid));
		}
		if (pid == 0) {
			execl(what == 't' ? "/usr/bin/true" : "/usr/bin/false", "x", NULL);
			_exit(KIT_NOT_RUN);
		}
		kit_status(pid);
		if (write(sock, &what, 1) != 1)
			return KIT_BROKEN;
	}
	return 0;
}

static void wake(void *arg)
{
	atomic_fetch_add(&f.wakes, 1);
	sem_post(&f.woken);
}

/* On the listener's thread. */
static void on_settled(void *arg, const struct gate_case *k, const struct gate_report *r,
		       const struct event *e)
{
	snprintf(f.id, sizeof(f.id), "%s", e->command_id != NULL ? e->command_id : "");
	f.told++;
	execs_tell(&f.execs, r->outcome);
}

static int begin(void **state)
{
	struct execs_setup s = {.exec = {.helper = ""}, .wake = wake};
	struct wall_report walls;
	struct err err = {0};
	int to[2], letters[2];
	size_t nfds = 1;

	alarm(KIT_TIMEOUT_S);
	f = (struct fixture){0};
	sem_init(&f.woken, 0, 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, to), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, letters), 0);
	kit.keeper = fork();
	if (kit.keeper == 0) {
		close(letters[0]);
		kit_be_keeper(to[1], execute, &letters[1]);
	}
	close(to[1]);
	close(letters[1]);
	assert_int_equal(fdio_recv(to[0], &f.guest, sizeof(pid_t), &s.listener, &nfds, NULL),
			 sizeof(pid_t));
	kit.go = to[0];
	f.sock = letters[0];
	s.exec.root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	f.looker = exec_looker_new(s.exec.root, NULL);
	kit_open_gate(on_settled, "  - {name: no, commands: [\"false\"], decision: deny}\n");
	s.exec.gate = kit.gate;
	s.exec.actors = kit.actors;
	wall_report_init(&walls);
	if (execs_open(&f.execs, &s, &walls, &err) < 0)
		fail_msg("%s", err.message);
	kit_go();
	return 0;
}

static int end(void **state)
{
	close(f.sock);
	assert_int_equal(kit_wait(), 0);
	execs_close(&f.execs);
	while (f.ninitial > 0)
		exec_initial_free(f.initial[--f.ninitial]);
	exec_looker_free(f.looker);
	kit_close_gate();
	return 0;
}

static void try(char what, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(write(f.sock, &what, 1), 1);
		assert_int_equal(read(f.sock, &what, 1), 1);
	}
}

static void wait_for_wakes(unsigned n)
{
	while (atomic_load(&f.wakes) < n)
		sem_wait(&f.woken);
	assert_int_equal(f.wakes, n);
}

/* So many were recorded since the last call. */
static void check_told(unsigned n)
{
	struct exec_news news;

	exec_take_news(f.execs.control, 0, &news); /* waits until they are recorded */
	assert_int_equal(f.told, n);
	f.told = 0;
}

static void expect(uint32_t spawn, pid_t leader, const char *command_id)
{
	struct proc_origin origin = {0};

	if (leader != 0)
		assert_int_equal(proc_origin(leader, &origin), 0);
	actor_table_expect(kit.actors, spawn, &(struct actor_leader){leader, origin.start},
			   command_id);
	f.initial[f.ninitial] = kit_initial(f.looker, command_id);
	exec_expect(f.execs.control, spawn, f.initial[f.ninitial++]);
}

static void started(uint32_t spawn, pid_t pid)
{
	struct actor_leader leader = {.pid = pid};
	struct proc_origin origin;

	assert_int_equal(proc_origin(pid, &origin), 0);
	leader.start = origin.start;
	actor_table_started(kit.actors, spawn, &leader);
}

static void over(uint32_t spawn, bool orphans)
{
	actor_table_over(kit.actors, spawn, orphans);
	exec_over(f.execs.control, spawn);
}

/* EVT-2: the first wakes, the next only after a pause; a refusal wakes at once. */
static void evt_2_programs_that_are_let_go_wake_once(void **state)
{
	try('t', 3);
	check_told(3);
	assert_int_equal(f.wakes, 1);
	assert_false(execs_pause(&f.execs));
	try('f', 1);
	wait_for_wakes(2);
	try('f', 1);
	wait_for_wakes(3);
	check_told(2);
	assert_false(execs_pause(&f.execs));
	try('t', 1);
	check_told(1);
	assert_int_equal(f.wakes, 3);
	assert_false(execs_pause(&f.execs));
	assert_true(execs_pause(&f.execs));
	assert_true(execs_pause(&f.execs));
	try('t', 1);
	wait_for_wakes(4);
	assert_false(execs_pause(&f.execs));
	try('t', 1);
	check_told(2);
	assert_int_equal(f.wakes, 4);
}

/* EVT-2: many are not left to the clock. */
static void evt_2_many_wake(void **state)
{
	try('t', MANY - 1);
	check_told(MANY - 1);
	assert_int_equal(f.wakes, 1);
	assert_false(execs_pause(&f.execs));
	try('t', MANY - 1);
	check_told(MANY - 1);
	assert_int_equal(f.wakes, 1);
	try('t', 1);
	wait_for_wakes(2);
	try('t', 1);
	check_told(2);
	assert_int_equal(f.wakes, 2);
}

/* Of a child and of a grandchild, whose parent is seen once, and of a child again. */
static void check_owner(const char *id)
{
	static const char who[] = "tTtT";

	for (size_t i = 0; who[i] != '\0'; i++) {
		f.id[0] = '?';
		try(who[i], 1);
		check_told(1);
		assert_string_equal(f.id, id);
	}
}

/* EVT-1: one command alone has all of them; where there are more, ancestors say whose they are. */
static void evt_1_whose_an_exec_is(void **state)
{
	check_owner("");
	expect(SPAWN, 0, "cmd-1");
	check_owner("cmd-1");
	expect(SPAWN + 1, 0, "cmd-2");
	check_owner("");
	started(SPAWN, f.guest);
	check_owner("cmd-1");
	over(SPAWN, false);
	check_owner("cmd-2");
	expect(SPAWN + 2, 0, "cmd-3");
	check_owner("");
	over(SPAWN + 2, false);
	over(SPAWN + 1, false);
	check_owner("");
}

/* EVT-1: a parent that was seen is remembered, until its command is over. */
static void evt_1_a_parent_is_remembered_with_its_command(void **state)
{
	expect(SPAWN, kit.keeper, "cmd-1");
	expect(SPAWN + 1, 0, "cmd-2");
	check_owner("cmd-1");
	check_owner("cmd-1");
	over(SPAWN, false);
	expect(SPAWN + 2, 0, "cmd-3");
	check_owner("");
	started(SPAWN + 2, kit.keeper);
	check_owner("cmd-3");
}

/* EVT-1: while processes of a command that is over may live, being alone proves nothing. */
static void evt_1_what_could_not_be_ended_is_no_other_commands(void **state)
{
	expect(SPAWN, 0, "cmd-1");
	over(SPAWN, true);
	expect(SPAWN + 1, 0, "cmd-2");
	check_owner("");
	started(SPAWN + 1, f.guest);
	check_owner("cmd-2");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(evt_2_programs_that_are_let_go_wake_once),
		TEST(evt_2_many_wake),
		TEST(evt_1_whose_an_exec_is),
		TEST(evt_1_a_parent_is_remembered_with_its_command),
		TEST(evt_1_what_could_not_be_ended_is_no_other_commands),
	};

	return cmocka_run_group_tests_name("execs_take", tests, NULL, NULL);
}
