// SPDX-License-Identifier: Apache-2.0
/* The thread and its table of handlers, with a child behind a small filter. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "base/fdio.h"
#include "base/mem.h"
#include "listener/listener.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define TIMEOUT_S 60
#define BROKEN 99

static struct {
	struct listener *l;
	pid_t child;
	int go;
	int later; /* eventfd: the call that waits is answered */
	uint64_t waits;
	bool ended;
} t;

/* ---- the child ---- */

#define IS(nr, yes) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (nr), (yes), 0)

static int filter(void)
{
	static struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		IS(SYS_socket, 4),
		IS(SYS_sync, 3),
		IS(SYS_syncfs, 2),
		IS(SYS_acct, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
	};
	const struct sock_fprog prog = {ARRAY_LEN(code), code};

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return (int)syscall(
		SYS_seccomp, SECCOMP_SET_MODE_FILTER,
		SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &prog);
}

static _Noreturn void be_child(int sock, int (*fn)(void))
{
	const int fd = filter();
	char c;

	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (fd < 0 || fdio_send(sock, "l", 1, &fd, 1) < 0)
		_exit(BROKEN);
	close(fd);
	_exit(read(sock, &c, 1) == 1 ? fn() : BROKEN);
}

static void start(int (*fn)(void), const struct listener_handler *h, size_t n)
{
	int sock[2], fd = -1;
	size_t nfds = 1;
	char c;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock), 0);
	t.child = fork();
	if (t.child == 0)
		be_child(sock[1], fn);
	close(sock[1]);
	assert_int_equal(fdio_recv(sock[0], &c, 1, &fd, &nfds, NULL), 1);
	t.go = sock[0];
	assert_int_equal(listener_start(h, n, fd, &t.l, NULL), 0);
	assert_int_equal(write(t.go, "g", 1), 1);
}

static int end(void)
{
	int status;

	assert_int_equal(waitpid(t.child, &status, 0), t.child);
	listener_stop(take(t.l));
	close(t.go);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ---- handlers ---- */

static void on_sync(struct listener *l, const struct seccomp_notif *n, void *arg)
{
	listener_done(l, n->id);
}

static void on_socket(struct listener *l, const struct seccomp_notif *n, void *arg)
{
	const int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	assert_int_equal(listener_give(l, n->id, fd), 0);
	close(fd);
}

static void on_later(struct listener *l, const struct seccomp_notif *n, void *arg)
{
	t.waits = n->id;
}

static size_t later_under_way(void *arg, struct pollfd *out, size_t room, int *timeout_ms)
{
	if (t.waits == 0)
		return 0;
	out[0] = (struct pollfd){t.later, POLLIN, 0};
	return 1;
}

static void later_turn(struct listener *l, void *arg)
{
	eventfd_t n;

	if (t.waits == 0 || eventfd_read(t.later, &n) < 0)
		return;
	listener_send(l, t.waits, EXDEV);
	t.waits = 0;
}

static void later_end(void *arg)
{
	t.ended = true;
}

static const int sync_calls[] = {SYS_sync}, socket_calls[] = {SYS_socket, SYS_sync},
		 later_calls[] = {SYS_syncfs};
static const struct listener_handler handlers[] = {
	{.calls = sync_calls, .ncalls = 1, .on = on_sync},
	{.calls = socket_calls, .ncalls = 2, .on = on_socket},
	{.calls = later_calls,
	 .ncalls = 1,
	 .on = on_later,
	 .under_way = later_under_way,
	 .turn = later_turn,
	 .end = later_end},
};

/* ---- what they see ---- */

static int calls_all(void)
{
	const int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0 || fcntl(fd, F_GETFD) != FD_CLOEXEC)
		return 1;
	if (syscall(SYS_sync) != 0)
		return 2;
	return syscall(SYS_acct, NULL) == -1 && errno == ENOSYS ? 0 : 3;
}

/* POL-4: the first handler that has a call serves it; a call without one is refused. */
static void pol_4_a_table_says_who_serves_a_call(void **state)
{
	start(calls_all, handlers, ARRAY_LEN(handlers));
	assert_int_equal(end(), 0);
}

static int calls_while_one_waits(void)
{
	const pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(syscall(SYS_syncfs, 0) == -1 && errno == EXDEV ? 0 : 1);
	for (int i = 0; i < 3; i++)
		if (syscall(SYS_sync) != 0)
			return 2;
	if (eventfd_write(t.later, 1) < 0)
		return BROKEN;
	return waitpid(pid, &status, 0) == pid ? WEXITSTATUS(status) : BROKEN;
}

/* POL-4: a call that waits for something holds up no other. */
static void pol_4_a_call_that_waits_stops_no_other(void **state)
{
	t.later = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	start(calls_while_one_waits, handlers, ARRAY_LEN(handlers));
	assert_int_equal(end(), 0);
	close(t.later);
}

static int calls_for_ever(void)
{
	return syscall(SYS_syncfs, 0) == -1 && errno == ENOSYS ? 0 : 1;
}

/* POL-4: when the thread ends, a call that waits fails, and its handler learns of it. */
static void pol_4_the_end_of_the_thread_ends_what_waits(void **state)
{
	int status;

	t.ended = false;
	t.later = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	start(calls_for_ever, handlers, ARRAY_LEN(handlers));
	listener_wake(t.l);
	listener_stop(take(t.l));
	assert_true(t.ended);
	assert_int_equal(waitpid(t.child, &status, 0), t.child);
	assert_int_equal(status, 0);
	t.waits = 0;
	close(t.later);
	close(t.go);
	listener_stop(NULL);
}

static int prepare(void **state)
{
	alarm(TIMEOUT_S);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pol_4_a_table_says_who_serves_a_call),
		cmocka_unit_test(pol_4_a_call_that_waits_stops_no_other),
		cmocka_unit_test(pol_4_the_end_of_the_thread_ends_what_waits),
	};

	return cmocka_run_group_tests(tests, prepare, NULL);
}
