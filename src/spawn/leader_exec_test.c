// SPDX-License-Identifier: Apache-2.0
/* The execs of our own leader that the listener gets. The test is the warden. */
#include "base/mem.h"
#include "spawn/testkit/init_testkit.h"
#include <fcntl.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#define UID 64999
#define KEY UINT64_C(0x1122334455667788)
#define SEEN 64

static bool ready;
static struct box_session session;

/* ---- the listener ---- */

static struct {
	pthread_t thread;
	pthread_mutex_t lock;
	int fd;
	struct seccomp_data data[SEEN];
	size_t n;
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *listen_on(void *arg)
{
	struct seccomp_notif n = {0};

	while (ioctl(seen.fd, SECCOMP_IOCTL_NOTIF_RECV, &n) == 0) {
		struct seccomp_notif_resp go = {.id = n.id,
						.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};

		pthread_mutex_lock(&seen.lock);
		if (seen.n < SEEN)
			seen.data[seen.n++] = n.data;
		pthread_mutex_unlock(&seen.lock);
		ioctl(seen.fd, SECCOMP_IOCTL_NOTIF_SEND, &go);
		n = (struct seccomp_notif){0};
	}
	return NULL;
}

/* ---- the session ---- */

static int open_session(void **state)
{
	struct link_msg m;

	if (!ready)
		return 0;
	box_plan(&session.plan, UID, true);
	session.plan.idmap = 1;
	session.plan.exec_control = 1;
	box_start(&session, 0, &m);
	assert_int_equal(m.type, MSG_init_ready);
	assert_int_equal(m.nfds, 4);
	session.root_fd = take_fd(m.fd[0]);
	session.state_fd = take_fd(m.fd[1]);
	seen.fd = take_fd(m.fd[3]);
	assert_int_equal(pthread_create(&seen.thread, NULL, listen_on, NULL), 0);
	return 0;
}

static int close_session(void **state)
{
	if (!ready)
		return 0;
	box_close(&session);
	pthread_join(seen.thread, NULL);
	close(seen.fd);
	return 0;
}

static void begin(void)
{
	if (!ready)
		skip();
	seen.n = 0;
}

static void ask_for(struct init_spawn *ask, const char *script)
{
	box_ask(ask, script);
	ask->key = KEY;
}

/* ---- tests ---- */

static void expect_only_exec(struct box_run *run, int number)
{
	box_read_all(run);
	box_recv_exit(run, MSG_leader_exit);
	assert_int_equal(run->exit.status, 0);
	assert_int_equal(seen.n, 1);
	assert_int_equal(seen.data[0].nr, number);
	assert_int_equal(seen.data[0].args[5], KEY);
	seen.n = 0;
}

/* EXE-2: when a command starts, the listener gets only its exec, with the command's key. */
static void exe_2_the_listener_gets_only_the_exec_of_a_leader(void **state)
{
	struct init_spawn ask;
	struct box_run run;

	begin();
	ask_for(&ask, ":");
	assert_int_equal(box_spawn(&session, &ask, &run), MSG_leader_started);
	expect_only_exec(&run, SYS_execve);
	box_program = openat(session.root_fd, "usr/bin/dash", O_RDONLY | O_CLOEXEC);
	assert_true(box_program >= 0);
	assert_int_equal(box_spawn_again(&ask, &run), MSG_leader_started);
	expect_only_exec(&run, SYS_execveat);
	close(box_program);
	box_program = -1;
	box_run_done(&run);
	msg_done(MSG_init_spawn, &ask);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exe_2_the_listener_gets_only_the_exec_of_a_leader),
	};
	int failed;

	ready = geteuid() == 0 && box_prepare(0) == 0;
	failed = cmocka_run_group_tests(tests, open_session, close_session);
	box_clean();
	return failed;
}
