// SPDX-License-Identifier: Apache-2.0
/* What starting and deciding an exec costs: `true` by vfork, fork and posix_spawn from a small
 * process without a filter; by vfork with a notification that is let go at once, and read, resolved
 * and verified at the exec stop; in interleaved rounds, so that noise hits all alike. Run by root
 * it measures as uid 1000, since nothing is fixed for root.
 *
 * usage: bench_notify ROUNDS EXECS   prints one JSON line: medians of wall and CPU time in us, and
 * each one's CPU time less plain's */
#include "base/fdio.h"
#include "base/mem.h"
#include "exec/exec.h"
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define PROGRAM "/usr/bin/true"
#define NOBODY 1000
#define ROUNDS_MAX 1000

enum way { PLAIN, PLAIN_AGAIN, FORK, SPAWN, NOTIFIED, VERIFIED, WAYS };
static const char *const way_name[] = {"plain",	      "plain_again", "fork",
				       "posix_spawn", "notified",    "verified"};

extern char **environ;

static _Noreturn void fail(const char *what)
{
	perror(what);
	exit(1);
}

/* Time that has passed, and CPU time of the measured process with its children, or of ours. */
struct cost {
	double wall_us, cpu_us;
};

static double now_us(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* ---- the measured process ---- */

#define IS(nr, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (nr), (yes), (no))

static bool has_filter(enum way way)
{
	return way >= NOTIFIED;
}

static int filter(void)
{
	static struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		IS(SYS_execve, 2, 0),
		IS(SYS_execveat, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
	};
	const struct sock_fprog prog = {ARRAY_LEN(code), code};

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return (int)syscall(
		SYS_seccomp, SECCOMP_SET_MODE_FILTER,
		SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &prog);
}

static void run_once(enum way way)
{
	char path[] = PROGRAM, name[] = "true";
	char *argv[] = {name, NULL};
	pid_t pid;
	int status;

	if (way == SPAWN) {
		if (posix_spawn(&pid, path, NULL, NULL, argv, environ) != 0)
			fail("posix_spawn");
	} else {
		pid = way == FORK ? fork() : vfork();
	}
	if (pid == 0) {
		execve(path, argv, environ);
		_exit(127);
	}
	if (pid == -1 || waitpid(pid, &status, 0) != pid || status != 0)
		fail("exec of true");
}

static double children_us(void)
{
	struct rusage r;

	getrusage(RUSAGE_CHILDREN, &r);
	return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1e6 +
	       (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec);
}

static struct cost spent(void)
{
	return (struct cost){now_us(CLOCK_MONOTONIC),
			     now_us(CLOCK_PROCESS_CPUTIME_ID) + children_us()};
}

/* Each message is a number of execs; each answer what they cost together. */
static int serve(int sock, enum way way)
{
	unsigned n;

	while (read(sock, &n, sizeof(n)) == sizeof(n)) {
		const struct cost begin = spent();
		struct cost c;

		for (unsigned i = 0; i < n; i++)
			run_once(way);
		c = spent();
		c.wall_us -= begin.wall_us;
		c.cpu_us -= begin.cpu_us;
		if (write(sock, &c, sizeof(c)) != sizeof(c))
			return 1;
	}
	return 0;
}

static _Noreturn void become_guest(enum way way, int sock)
{
	char number[2][16];
	int listener;
	char c;

	if (has_filter(way)) {
		listener = filter();
		if (listener < 0 || fdio_send(sock, "l", 1, &listener, 1) < 0)
			fail("filter");
		close(listener);
		if (read(sock, &c, 1) != 1)
			_exit(1);
	}
	fcntl(sock, F_SETFD, 0);
	snprintf(number[0], sizeof(number[0]), "%d", sock);
	snprintf(number[1], sizeof(number[1]), "%d", way);
	execl("/proc/self/exe", "bench_notify", "guest", number[0], number[1], (char *)NULL);
	fail("exec of itself");
}

/* ---- the measuring process ---- */

static void no_event(void *arg, const struct gate_case *k, const struct gate_report *r,
		     const struct event *e)
{
}

static void let_go(struct listener *l, const struct seccomp_notif *n, void *arg)
{
	listener_send(l, n->id, 0);
}

static struct gate *make_gate(struct actor_table **actors)
{
	static const char text[] = "version: 1\nname: bench\n"
				   "default: {files: allow, network: allow, commands: allow}\n";
	const struct policy_options o = {0};
	struct gate_setup s = {.sink = no_event};
	cleanup_buf struct buf bytes = {0};
	struct gate *g = NULL;
	struct err err = {0};

	if (policy_compile("bench.yaml", text, strlen(text), &o, NULL, &bytes, &err) < 0)
		fail(err.message);
	s.policy_fd = fdio_sealed("policy", bytes.data, bytes.len);
	if (gate_open(&s, &g, &err) < 0 || actor_table_open(actors, &err) < 0)
		fail(err.message);
	actor_table_expect(*actors, 1, &(struct actor_leader){0}, "cmd-1"); /* alone */
	return g;
}

/* NOTIFIED: every exec is let go without a look. */
static int start(enum way way, struct exec_control **control, struct listener **thread)
{
	static const int calls[] = {SYS_execve, SYS_execveat};
	struct listener_handler handler = {.calls = calls, .ncalls = 2, .on = let_go};
	struct exec_setup setup = {.helper = ""};
	int sock[2], listener;
	struct err err = {0};
	size_t nfds = 1;
	char c;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock) < 0)
		fail("socketpair");
	if (fork() == 0)
		become_guest(way, sock[1]);
	close(sock[1]);
	if (!has_filter(way))
		return sock[0];
	if (fdio_recv(sock[0], &c, 1, &listener, &nfds, NULL) != 1)
		fail("listener");
	if (way == VERIFIED) {
		setup.gate = make_gate(&setup.actors);
		setup.root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (exec_control_open(&setup, control, &err) < 0)
			fail(err.message);
		handler = exec_control_handler(*control);
	}
	if (listener_start(&handler, 1, listener, thread, &err) < 0 || write(sock[0], "g", 1) != 1)
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

/* One turn of a way, per exec; the CPU time of the thread that decides is ours. */
static struct cost take_turn(int sock, unsigned execs)
{
	const double begin = now_us(CLOCK_PROCESS_CPUTIME_ID);
	struct cost c;

	if (write(sock, &execs, sizeof(execs)) != sizeof(execs) ||
	    read(sock, &c, sizeof(c)) != sizeof(c))
		fail("the measured process");
	c.cpu_us += now_us(CLOCK_PROCESS_CPUTIME_ID) - begin;
	return (struct cost){c.wall_us / execs, c.cpu_us / execs};
}

static void measure(const int sock[WAYS], int rounds, unsigned execs)
{
	static double wall[WAYS][ROUNDS_MAX], cpu[WAYS][ROUNDS_MAX], more[WAYS][ROUNDS_MAX];

	for (int r = 0; r < rounds; r++) {
		for (int i = 0; i < WAYS; i++) {
			const int w = (i + r) % WAYS; /* none is always the first */
			const struct cost c = take_turn(sock[w], execs);

			wall[w][r] = c.wall_us;
			cpu[w][r] = c.cpu_us;
		}
		for (int w = 0; w < WAYS; w++)
			more[w][r] = cpu[w][r] - cpu[PLAIN][r];
	}
	printf("{");
	for (int w = 0; w < WAYS; w++)
		printf("%s\"%s_us\":%.1f,\"%s_cpu_us\":%.1f,\"%s_more_cpu_us\":%.1f",
		       w > 0 ? "," : "", way_name[w], median(wall[w], rounds), way_name[w],
		       median(cpu[w], rounds), way_name[w], median(more[w], rounds));
}

int main(int argc, char **argv)
{
	const int rounds = argc == 3 ? atoi(argv[1]) : 0, execs = argc == 3 ? atoi(argv[2]) : 0;
	struct exec_control *control[WAYS] = {0};
	struct listener *thread[WAYS] = {0};
	int sock[WAYS];

	if (argc == 4 && strcmp(argv[1], "guest") == 0)
		return serve(atoi(argv[2]), (enum way)atoi(argv[3]));
	if (rounds < 1 || rounds > ROUNDS_MAX || execs < 1)
		return 2;
	if (geteuid() == 0 &&
	    (setresgid(NOBODY, NOBODY, NOBODY) < 0 || setresuid(NOBODY, NOBODY, NOBODY) < 0 ||
	     prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0))
		fail("uid");
	for (int w = 0; w < WAYS; w++) {
		sock[w] = start((enum way)w, &control[w], &thread[w]);
	}
	measure(sock, rounds, (unsigned)execs);
	printf(",\"verified\":%llu}\n",
	       (unsigned long long)exec_control_count(control[VERIFIED], GATE_DONE));
	for (int w = 0; w < WAYS; w++) {
		close(sock[w]);
		listener_stop(thread[w]);
		exec_control_close(control[w]);
	}
	return 0;
}
