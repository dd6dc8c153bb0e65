// SPDX-License-Identifier: Apache-2.0
/* What deciding an exec costs: vfork and exec of `true` plain, told and let go, read and resolved,
 * and verified at the exec stop; in interleaved rounds, so that noise hits all alike. Run by root
 * it measures as uid 1000, since nothing is fixed for root.
 *
 * usage: bench_notify ROUNDS EXECS   prints one JSON line: medians in us, and each less plain */
#include "base/fdio.h"
#include "base/mem.h"
#include "exec/exec.h"
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define PROGRAM "/usr/bin/true"
#define NOBODY 1000
#define ROUNDS_MAX 1000

enum way { PLAIN, NOTIFIED, READ, VERIFIED, WAYS };
static const char *const way_name[] = {"plain", "notified", "read_and_resolved", "verified"};

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

/* ---- the measured process ---- */

#define IS(nr, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (nr), (yes), (no))

static int filter(void)
{
	static struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		IS(SYS_execve, 7, 0),
		IS(SYS_execveat, 6, 0),
		IS(SYS_vfork, 5, 0),
		IS(SYS_clone, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, CLONE_VM | CLONE_THREAD),
		IS(CLONE_VM, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
	};
	const struct sock_fprog prog = {ARRAY_LEN(code), code};

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return (int)syscall(
		SYS_seccomp, SECCOMP_SET_MODE_FILTER,
		SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &prog);
}

static void run_once(void)
{
	char path[] = PROGRAM, name[] = "true";
	char *argv[] = {name, NULL};
	const pid_t pid = vfork();
	int status;

	if (pid == 0) {
		execve(path, argv, environ);
		_exit(127);
	}
	if (pid == -1 || waitpid(pid, &status, 0) != pid || status != 0)
		fail("exec of true");
}

/* Each message is a number of execs; each answer the microseconds of one. */
static int serve(int sock)
{
	unsigned n;

	while (read(sock, &n, sizeof(n)) == sizeof(n)) {
		const double begin = now_us();
		double each;

		for (unsigned i = 0; i < n; i++)
			run_once();
		each = (now_us() - begin) / n;
		if (write(sock, &each, sizeof(each)) != sizeof(each))
			return 1;
	}
	return 0;
}

static _Noreturn void become_guest(enum way way, int sock)
{
	char number[16];
	int listener;
	char c;

	if (way != PLAIN) {
		listener = filter();
		if (listener < 0 || fdio_send(sock, "l", 1, &listener, 1) < 0)
			fail("filter");
		close(listener);
		if (read(sock, &c, 1) != 1)
			_exit(1);
	}
	fcntl(sock, F_SETFD, 0);
	snprintf(number, sizeof(number), "%d", sock);
	execl("/proc/self/exe", "bench_notify", "guest", number, (char *)NULL);
	fail("exec of itself");
}

/* ---- the measuring process ---- */

static uint64_t allow(void *arg, const struct exec_request *req, struct verdict *out)
{
	*out = (struct verdict){DECISION_allow, DECISION_allow, .rule = "bench"};
	return 0;
}

static void no_record(void *arg, const struct exec_record *rec)
{
}

static bool is_notified(void *arg, pid_t pid)
{
	return *(enum way *)arg == NOTIFIED;
}

static int start(enum way *way, struct exec_control **control)
{
	const struct exec_control_ops ops = {.decide = allow,
					     .record = no_record,
					     .is_first_exec = is_notified,
					     .arg = way,
					     .may_skip = *way == READ};
	int sock[2], listener;
	struct err err = {0};
	size_t nfds = 1;
	char c;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock) < 0)
		fail("socketpair");
	if (fork() == 0)
		become_guest(*way, sock[1]);
	close(sock[1]);
	if (*way == PLAIN)
		return sock[0];
	if (fdio_recv(sock[0], &c, 1, &listener, &nfds, NULL) != 1)
		fail("listener");
	if (exec_control_start(&ops, listener, control, &err) < 0 || write(sock[0], "g", 1) != 1)
		fail(err.message);
	return sock[0];
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

static void measure(const int sock[WAYS], int rounds, unsigned execs)
{
	static double us[WAYS][ROUNDS_MAX], more[WAYS][ROUNDS_MAX];

	for (int r = 0; r < rounds; r++) {
		for (int i = 0; i < WAYS; i++) {
			const int w = (i + r) % WAYS; /* none is always the first */

			if (write(sock[w], &execs, sizeof(execs)) != sizeof(execs) ||
			    read(sock[w], &us[w][r], sizeof(double)) != sizeof(double))
				fail(way_name[w]);
		}
		for (int w = 0; w < WAYS; w++)
			more[w][r] = us[w][r] - us[PLAIN][r];
	}
	printf("{");
	for (int w = 0; w < WAYS; w++)
		printf("%s\"%s_us\":%.1f,\"%s_more_us\":%.1f", w > 0 ? "," : "", way_name[w],
		       median(us[w], rounds), way_name[w], median(more[w], rounds));
}

int main(int argc, char **argv)
{
	enum way way[WAYS] = {PLAIN, NOTIFIED, READ, VERIFIED};
	const int rounds = argc == 3 ? atoi(argv[1]) : 0, execs = argc == 3 ? atoi(argv[2]) : 0;
	struct exec_control *control[WAYS] = {0};
	int sock[WAYS];

	if (argc == 3 && strcmp(argv[1], "guest") == 0)
		return serve(atoi(argv[2]));
	if (rounds < 1 || rounds > ROUNDS_MAX || execs < 1)
		return 2;
	if (geteuid() == 0 &&
	    (setresgid(NOBODY, NOBODY, NOBODY) < 0 || setresuid(NOBODY, NOBODY, NOBODY) < 0 ||
	     prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0))
		fail("uid");
	for (int w = 0; w < WAYS; w++)
		sock[w] = start(&way[w], &control[w]);
	measure(sock, rounds, (unsigned)execs);
	printf(",\"skipped\":%llu,\"verified\":%llu}\n",
	       (unsigned long long)exec_control_count(control[READ], EXEC_SKIPPED),
	       (unsigned long long)exec_control_count(control[VERIFIED], EXEC_VERIFIED));
	for (int w = 0; w < WAYS; w++) {
		close(sock[w]);
		exec_control_stop(control[w]);
	}
	return 0;
}
