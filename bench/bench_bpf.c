// SPDX-License-Identifier: Apache-2.0
/* What the BPF programs cost a process that is in no session: system calls with a program attached
 * against the same calls without, in turns. "empty" is a program at the same hook that returns at
 * once: the price of the hook itself. Run by root.
 *
 * usage: bench_bpf ROUNDS CALLS CGROUP2   prints a JSON line for each call and program, in ns a
 * call */
#include "base/mem.h"
#include "bpf/bpf_programs.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#define ROUNDS_MAX 400
#define CHUNKS 5
#define UID_FIRST 1900000000 /* sandbox.session_uids; the process in the container is root */
#define UID_LAST 1900065535
#define CGROUP_UNIX_CONNECT 49 /* newer than some headers */

static int zero, udp_in, udp, udp_free, local;
static struct sockaddr_in closed_at, udp_at;
static struct sockaddr_un local_at = {.sun_family = AF_UNIX, .sun_path = "\0agentsh-bench-bpf"};
static const socklen_t local_len = sizeof(sa_family_t) + 18;
static const char *cgroup_root;
static int contained[2]; /* to a process in a PID namespace of its own, and back */

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void call_getppid(void)
{
	syscall(SYS_getppid);
}

static void call_read(void)
{
	char byte;

	ensure(read(zero, &byte, 1) == 1);
}

static void call_tcp(void)
{
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ensure(connect(fd, (struct sockaddr *)&closed_at, sizeof(closed_at)) == -1);
	close(fd);
}

static void call_connect(void)
{
	ensure(connect(udp, (struct sockaddr *)&udp_at, sizeof(udp_at)) == 0);
}

static void call_unix(void)
{
	ensure(connect(local, (struct sockaddr *)&local_at, local_len) == 0);
}

static void call_sendto(void)
{
	char byte;

	ensure(sendto(udp_free, "x", 1, 0, (struct sockaddr *)&udp_at, sizeof(udp_at)) == 1);
	ensure(recv(udp_in, &byte, 1, 0) == 1);
}

static double one_chunk(void (*call)(void), int calls)
{
	const double begin = now_ns();

	for (int i = 0; i < calls; i++)
		call();
	return (now_ns() - begin) / calls;
}

/* The best of some chunks: others disturb only some of them. */
static double measure(void (*call)(void), int calls)
{
	double best = 1e18;

	for (int i = 0; i < CHUNKS; i++) {
		const double ns = one_chunk(call, calls);

		best = ns < best ? ns : best;
	}
	return best;
}

static double measure_contained(void (*call)(void), int calls)
{
	double ns;

	ensure(write(contained[0], &calls, sizeof(calls)) == sizeof(calls));
	ensure(read(contained[1], &ns, sizeof(ns)) == sizeof(ns));
	return ns;
}

static void start_contained(void)
{
	int to[2], back[2], calls;

	ensure(pipe(to) == 0 && pipe(back) == 0);
	if (syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0) == 0) {
		close(to[1]); /* so that the end of the bench ends the loop */
		while (read(to[0], &calls, sizeof(calls)) == sizeof(calls)) {
			const double ns = measure(call_read, calls);

			ensure(write(back[1], &ns, sizeof(ns)) == sizeof(ns));
		}
		_exit(0);
	}
	contained[0] = to[1];
	contained[1] = back[0];
}

/* ---- rows ---- */

/* A program that returns at once: at sys_exit (attach 0), or at the root of the cgroup2 tree. */
static int load_empty(uint32_t attach, struct bpf_programs *p)
{
	static const struct bpf_insn code[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 1},
		{.code = BPF_JMP | BPF_EXIT},
	};
	union bpf_attr attr = {.prog_type = attach == 0 ? BPF_PROG_TYPE_RAW_TRACEPOINT
					    : attach == BPF_CGROUP_SOCK_OPS
						    ? BPF_PROG_TYPE_SOCK_OPS
						    : BPF_PROG_TYPE_CGROUP_SOCK_ADDR,
			       .expected_attach_type = attach,
			       .insn_cnt = ARRAY_LEN(code),
			       .insns = (uintptr_t)code,
			       .license = (uintptr_t) "Dual MIT/GPL"};
	const int program = (int)syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));
	cleanup_fd int cgroup = attach != 0 ? open(cgroup_root, O_RDONLY | O_CLOEXEC) : -1;

	*p = BPF_PROGRAMS_NONE;
	if (attach == 0) {
		attr = (union bpf_attr){.raw_tracepoint = {.name = (uintptr_t) "sys_exit",
							   .prog_fd = (uint32_t)program}};
		p->link[0] = (int)syscall(SYS_bpf, BPF_RAW_TRACEPOINT_OPEN, &attr, sizeof(attr));
	} else {
		attr = (union bpf_attr){.link_create = {.prog_fd = (uint32_t)program,
							.target_fd = (uint32_t)cgroup,
							.attach_type = attach}};
		p->link[0] = (int)syscall(SYS_bpf, BPF_LINK_CREATE, &attr, sizeof(attr));
	}
	close(program);
	return p->link[0];
}

static const struct row {
	const char *name;
	void (*call)(void);
	const struct bpf_image *image; /* NULL: the empty program */
	uint32_t attach;	       /* of the empty program */
	bool contained;
	int share; /* of the calls: slow ones are made less often */
} rows[] = {
	{"getppid", call_getppid, NULL, 0, false, 1},
	{"getppid", call_getppid, &file_calls_image, 0, false, 1},
	{"read", call_read, NULL, 0, false, 1},
	{"read", call_read, &file_calls_image, 0, false, 1},
	{"read, in a container", call_read, &file_calls_image, 0, true, 1},
	{"connect, TCP, refused", call_tcp, NULL, BPF_CGROUP_SOCK_OPS, false, 10},
	{"connect, TCP, refused", call_tcp, &net_owner_image, 0, false, 10},
	{"connect, UDP", call_connect, NULL, BPF_CGROUP_INET4_CONNECT, false, 2},
	{"connect, UDP", call_connect, &net_refuse_image, 0, false, 2},
	{"sendto and recv", call_sendto, NULL, BPF_CGROUP_UDP4_SENDMSG, false, 4},
	{"sendto and recv", call_sendto, &net_refuse_image, 0, false, 4},
	{"connect, unix", call_unix, NULL, CGROUP_UNIX_CONNECT, false, 2},
	{"connect, unix", call_unix, &net_unix_image, 0, false, 2},
};

static int compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(double *v, int n)
{
	qsort(v, (size_t)n, sizeof(*v), compare);
	return v[n / 2];
}

static void run(const struct row *row, int rounds, int calls)
{
	static double without[ROUNDS_MAX], same[ROUNDS_MAX], with[ROUNDS_MAX];
	double (*m)(void (*)(void), int) = row->contained ? measure_contained : measure;

	for (int i = 0; i < rounds; i++) {
		static const struct bpf_programs_uids uids = {UID_FIRST, UID_LAST};
		struct bpf_programs p;
		struct err err = {0};

		without[i] = m(row->call, calls / row->share);
		if (row->image != NULL ? bpf_programs_load(row->image, &uids, &p, &err) < 0
				       : load_empty(row->attach, &p) < 0) {
			fprintf(stderr, "bench_bpf: %s\n", err.message);
			exit(1);
		}
		with[i] = m(row->call, calls / row->share) - without[i];
		bpf_programs_close(&p);
		same[i] = m(row->call, calls / row->share) - without[i];
	}
	printf("{\"call\": \"%s\", \"program\": \"%s\", \"without_ns\": %.1f, \"more_ns\": %.1f, "
	       "\"same_ns\": %.1f}\n",
	       row->name, row->image != NULL ? row->image->name : "empty", median(without, rounds),
	       median(with, rounds), median(same, rounds));
	fflush(stdout);
}

static int inet_socket(int type, struct sockaddr_in *at)
{
	const int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(*at);

	*at = (struct sockaddr_in){.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	ensure(bind(fd, (struct sockaddr *)at, len) == 0);
	ensure(getsockname(fd, (struct sockaddr *)at, &len) == 0);
	return fd;
}

int main(int argc, char **argv)
{
	const int rounds = argc == 4 ? atoi(argv[1]) : 0, calls = argc == 4 ? atoi(argv[2]) : 0;

	cgroup_root = argv[argc - 1];
	if (rounds < 1 || rounds > ROUNDS_MAX || calls < 100) {
		fprintf(stderr, "usage: bench_bpf ROUNDS CALLS CGROUP2\n");
		return 2;
	}
	zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	udp_in = inet_socket(SOCK_DGRAM, &udp_at);
	udp = inet_socket(SOCK_DGRAM, &closed_at);
	udp_free = inet_socket(SOCK_DGRAM, &closed_at);
	close(inet_socket(SOCK_STREAM, &closed_at)); /* no process listens there */
	local = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ensure(bind(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), (struct sockaddr *)&local_at,
		    local_len) == 0);
	start_contained();
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		run(&rows[i], rounds, calls);
	return 0;
}
