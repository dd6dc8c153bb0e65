// SPDX-License-Identifier: Apache-2.0
/* Living processes are moved into a group. Real groups: without root and a cgroup that can be had
 * there is nothing to see. */
#include "base/fdio.h"
#include "base/id.h"
#include "base/proc.h"
#include "sandbox/cgroup_version.h"
#include "sandbox/kid_testkit.h"
#include <fcntl.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WAIT_MS 10000
#define THREADS 4 /* of a session that live: warden, init, and those of be_init */

static struct cgroup_host host;
static char id[ID_MAX + 1];

struct session {
	pid_t warden, init;
	int end; /* held: they wait */
};

static _Noreturn void wait_for_end(int fd)
{
	char byte;

	alarm(KID_SECONDS);
	(void)!read(fd, &byte, 1);
	_exit(0);
}

static void *second_thread(void *arg)
{
	wait_for_end(*(int *)arg);
}

/* Has a child that left its parent, and one with a thread whose first has ended. Each tells that
 * it is there. */
static _Noreturn void be_init(int end, int told)
{
	pthread_t thread;

	if (fork() == 0) {
		if (fork() == 0) {
			(void)!write(told, "o", 1);
			wait_for_end(end);
		}
		_exit(0);
	}
	if (fork() == 0) {
		if (pthread_create(&thread, NULL, second_thread, &end) != 0)
			_exit(1);
		(void)!write(told, "t", 1);
		syscall(SYS_exit, 0);
	}
	wait_for_end(end);
}

static _Noreturn void be_warden(int end, int told)
{
	struct clone_args args = {.flags = CLONE_NEWPID, .exit_signal = SIGCHLD};

	if (syscall(SYS_clone3, &args, sizeof(args)) == 0)
		be_init(end, told);
	wait_for_end(end);
}

static struct session session_start(void)
{
	cleanup_free pid_t *child = NULL;
	struct session s;
	int end[2], told[2];
	char bytes[2];

	assert_int_equal(pipe2(end, O_CLOEXEC), 0);
	assert_int_equal(pipe2(told, O_CLOEXEC), 0);
	s.warden = fork();
	if (s.warden == 0) {
		close(end[1]);
		be_warden(end[0], told[1]);
	}
	s.end = end[1];
	close(end[0]);
	close(told[1]);
	assert_int_equal(fdio_read_full(told[0], bytes, sizeof(bytes)), sizeof(bytes));
	close(told[0]);
	assert_int_equal(proc_children(s.warden, &child), 1);
	s.init = child[0];
	return s;
}

static void session_end(const struct session *s)
{
	kill(s->init, SIGKILL); /* and with it its namespace */
	kill(s->warden, SIGKILL);
	close(s->end);
	assert_int_equal(waitpid(s->warden, NULL, 0), s->warden);
}

static int gather(const struct session *s, struct err *err)
{
	const struct cgroup_session session = {s->warden, s->init};

	return cgroup_gather(&host, id, &session, err);
}

static void make_group(void)
{
	const struct cgroup_ask ask = {.id = id, .limits = CGROUP_UNLIMITED};
	struct wall_report walls;

	wall_report_init(&walls);
	assert_int_equal(cgroup_create(&host, &ask, &walls, NULL), 0);
}

static uint64_t threads_inside(void)
{
	struct cgroup_counters c = {0};

	assert_int_equal(cgroup_read(&host, id, &c, NULL), 0);
	return c.pids;
}

static void need_pids(void)
{
	for (size_t i = 0; i < host.n; i++)
		if ((host.tree[i].controllers & 1u << CGROUP_PIDS) != 0)
			return;
	print_message("# skipped: %s\n", host.why[CGROUP_PIDS]);
	skip();
}

static void ses_5_all_that_there_is_of_a_session_is_moved(void **state)
{
	struct err err = {0};
	struct session s, other;

	need_pids();
	s = session_start();
	other = session_start();
	make_group();
	assert_int_equal(threads_inside(), 0);
	if (gather(&s, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(threads_inside(), THREADS);
	/* once more, and nothing is left to do */
	assert_int_equal(gather(&s, &err), 0);
	assert_int_equal(threads_inside(), THREADS);
	session_end(&s);
	session_end(&other);
	assert_int_equal(cgroup_remove(&host, id, WAIT_MS, NULL), 0);
}

/* What is not below the warden is found by its namespace. */
static void ses_5_a_namespace_tells_who_belongs_to_it(void **state)
{
	struct session s, other;

	need_pids();
	s = session_start();
	other = session_start();
	make_group();
	assert_int_equal(gather(&(struct session){.warden = s.warden, .init = other.init}, NULL),
			 0);
	assert_int_equal(threads_inside(), 2 * THREADS - 1);
	session_end(&s);
	session_end(&other);
	assert_int_equal(cgroup_remove(&host, id, WAIT_MS, NULL), 0);
}

/* Nor is our own namespace one. */
static void ses_5_our_own_namespace_is_no_sessions(void **state)
{
	struct session s;

	need_pids();
	s = session_start();
	make_group();
	assert_int_equal(gather(&(struct session){.warden = s.warden, .init = getpid()}, NULL), 0);
	assert_int_equal(threads_inside(), THREADS);
	session_end(&s);
	assert_int_equal(cgroup_remove(&host, id, WAIT_MS, NULL), 0);
}

static void ses_5_without_a_group_nobody_is_moved(void **state)
{
	const struct session own = {.warden = getpid(), .init = getpid()};
	struct err err = {0};

	assert_int_equal(gather(&own, &err), -E_ENFORCEMENT);
}

static int setup(void **state)
{
	id_make(id, "test");
	cgroup_host_open(&host, NULL);
	return 0;
}

static int teardown(void **state)
{
	cgroup_host_close(&host);
	return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ses_5_all_that_there_is_of_a_session_is_moved),
		TEST(ses_5_a_namespace_tells_who_belongs_to_it),
		TEST(ses_5_our_own_namespace_is_no_sessions),
		TEST(ses_5_without_a_group_nobody_is_moved),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
