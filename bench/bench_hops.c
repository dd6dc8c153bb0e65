// SPDX-License-Identifier: Apache-2.0
/* What the way of a command through our processes costs if they do nothing but pass it on: `true`
 * by plain vfork; by a server and a warden that starts it; with a leader between the warden and the
 * program; and with a notification of the exec that a thread of the warden lets go at once. Alone
 * in interleaved rounds, and by many clients with a warden each, in turns.
 *
 * usage: bench_hops ROUNDS CLIENTS SECONDS   prints one JSON line for each way: the median of one
 * command alone, of its difference to native in the same round, and the time of CLIENTS for one */
#include "base/fdio.h"
#include "base/mem.h"
#include "listener/listener.h"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define PROGRAM "/usr/bin/true"
#define CLIENTS_MAX 64
#define ROUNDS_MAX 10000
#define TURNS 3 /* of each way with many clients */

enum way { NATIVE, NATIVE_AGAIN, DIRECT, LED, NOTIFIED, WAYS };
static const char *const way_name[] = {"native", "native_again", "direct", "led", "notified"};

extern char **environ;

static _Noreturn void fail(const char *what)
{
	perror(what);
	exit(1);
}

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* ---- the processes of a way ---- */

static void run_program(void)
{
	char path[] = PROGRAM, *argv[] = {path, NULL};
	const pid_t pid = vfork();
	int status;

	if (pid == 0) {
		execve(path, argv, environ);
		_exit(127);
	}
	if (pid == -1 || waitpid(pid, &status, 0) != pid || status != 0)
		fail("exec of true");
}

static void pass(int from, int to)
{
	char c;

	if (read(from, &c, 1) != 1 || write(to, &c, 1) != 1)
		_exit(0);
}

/* A process that ends with the one that made it; 0 in the child. */
static pid_t make_process(int sock[2])
{
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock) < 0)
		fail("socketpair");
	pid = fork();
	if (pid == -1)
		fail("fork");
	if (pid == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	return pid;
}

static int filter(void)
{
	static struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_execve, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
	};
	const struct sock_fprog prog = {ARRAY_LEN(code), code};

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return (int)syscall(
		SYS_seccomp, SECCOMP_SET_MODE_FILTER,
		SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &prog);
}

static void let_go(struct listener *l, const struct seccomp_notif *n, void *arg)
{
	listener_send(l, n->id, 0);
}

static _Noreturn void lead(int warden, enum way way)
{
	int fd = way == NOTIFIED ? filter() : -1;
	char c = 0;

	if (way == NOTIFIED && (fd < 0 || fdio_send(warden, &c, 1, &fd, 1) < 0))
		fail("filter");
	for (;;) {
		if (read(warden, &c, 1) != 1)
			_exit(0);
		run_program();
		if (write(warden, &c, 1) != 1)
			_exit(0);
	}
}

static _Noreturn void be_warden(int server, enum way way)
{
	static const int calls[] = {SYS_execve};
	const struct listener_handler handler = {.calls = calls, .ncalls = 1, .on = let_go};
	int leader[2], fd;
	struct listener *thread;
	struct err err = {0};
	size_t nfds = 1;
	char c;

	if (way != DIRECT && make_process(leader) == 0)
		lead(leader[1], way);
	if (way == NOTIFIED && (fdio_recv(leader[0], &c, 1, &fd, &nfds, NULL) != 1 ||
				listener_start(&handler, 1, fd, &thread, &err) < 0))
		fail("listener");
	for (;;) {
		if (way == DIRECT) {
			if (read(server, &c, 1) != 1)
				_exit(0);
			run_program();
			if (write(server, &c, 1) != 1)
				_exit(0);
		} else {
			pass(server, leader[0]);
			pass(leader[0], server);
		}
	}
}

/* Passes on between client[i] and warden[i]. */
static _Noreturn void serve(const int *client, const int *warden, int n)
{
	const int ep = epoll_create1(EPOLL_CLOEXEC);

	for (int i = 0; i < 2 * n; i++) {
		struct epoll_event e = {.events = EPOLLIN, .data.u32 = (uint32_t)i};

		if (epoll_ctl(ep, EPOLL_CTL_ADD, i < n ? client[i] : warden[i - n], &e) < 0)
			fail("epoll_ctl");
	}
	for (;;) {
		struct epoll_event e[2 * CLIENTS_MAX];
		const int ready = epoll_wait(ep, e, 2 * n, -1);

		for (int i = 0; i < ready; i++) {
			const int at = (int)e[i].data.u32 % n;

			if ((int)e[i].data.u32 < n)
				pass(client[at], warden[at]);
			else
				pass(warden[at], client[at]);
		}
	}
}

/* sock: the clients' ends. */
static void start(enum way way, int *sock, int n)
{
	int client[CLIENTS_MAX], warden[CLIENTS_MAX], pair[2];

	for (int i = 0; i < n; i++) {
		if (make_process(pair) == 0)
			be_warden(pair[1], way);
		close(pair[1]);
		warden[i] = pair[0];
	}
	for (int i = 0; i < n; i++) {
		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
			fail("socketpair");
		sock[i] = pair[0];
		client[i] = pair[1];
	}
	if (make_process(pair) == 0)
		serve(client, warden, n);
	for (int i = 0; i < n; i++) {
		close(client[i]);
		close(warden[i]);
	}
}

/* ---- measuring ---- */

static void command(int sock)
{
	char c = 0;

	if (sock < 0)
		run_program();
	else if (write(sock, &c, 1) != 1 || read(sock, &c, 1) != 1)
		fail("a command");
}

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *v, int n)
{
	qsort(v, (size_t)n, sizeof(*v), by_value);
	return v[n / 2];
}

struct client {
	pthread_t thread;
	int sock;
	double until;
	long done;
};

static void *be_client(void *arg)
{
	struct client *c = arg;

	for (c->done = 0; now_us() < c->until; c->done++)
		command(c->sock);
	return NULL;
}

/* Microseconds for one command, of all clients together. */
static double time_of_many(const int *sock, int n, double seconds)
{
	struct client c[CLIENTS_MAX];
	const double begin = now_us();
	long done = 0;

	for (int i = 0; i < n; i++) {
		c[i] = (struct client){.sock = sock[i], .until = begin + seconds * 1e6};
		if (pthread_create(&c[i].thread, NULL, be_client, &c[i]) != 0)
			fail("thread");
	}
	for (int i = 0; i < n; i++) {
		pthread_join(c[i].thread, NULL);
		done += c[i].done;
	}
	return (now_us() - begin) / (double)done;
}

int main(int argc, char **argv)
{
	static double alone[WAYS][ROUNDS_MAX], over[WAYS][ROUNDS_MAX];
	const int rounds = argc == 4 ? atoi(argv[1]) : 0, n = argc == 4 ? atoi(argv[2]) : 0;
	int sock[WAYS][CLIENTS_MAX];
	double many[WAYS][TURNS];

	if (rounds < 1 || rounds > ROUNDS_MAX || n < 1 || n > CLIENTS_MAX)
		return 2;
	memset(sock, -1, sizeof(sock));
	for (int w = DIRECT; w < WAYS; w++)
		start((enum way)w, sock[w], n);
	for (int r = 0; r < rounds; r++) {
		for (int i = 0; i < WAYS; i++) {
			const int w = (i + r) % WAYS; /* none is always the first */
			const double begin = now_us();

			command(sock[w][0]);
			alone[w][r] = now_us() - begin;
		}
		for (int w = 0; w < WAYS; w++)
			over[w][r] = alone[w][r] - alone[NATIVE][r];
	}
	for (int t = 0; t < TURNS; t++)
		for (int w = 0; w < WAYS; w++)
			many[w][t] = time_of_many(sock[w], n, atof(argv[3]) / TURNS);
	for (int w = 0; w < WAYS; w++)
		printf("{\"way\":\"%s\",\"us\":%.1f,\"more_us\":%.1f,\"many_us\":%.1f}\n",
		       way_name[w], median(alone[w], rounds), median(over[w], rounds),
		       median(many[w], TURNS));
	return 0;
}
