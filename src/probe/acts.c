// SPDX-License-Identifier: Apache-2.0
/* The acts: against namespaces, capabilities, the filter of system calls, Landlock, the policy of
 * programs and the limits. Each runs in a process of its own, so it need not clean up after itself
 * what ends with the process. */
#include "probe/probe.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/keyctl.h>
#include <mqueue.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NAME_LEN 256
#define TEXT_LEN 4096
#define MADE "agentsh-probe.made"
#define SHM_COPY "/dev/shm/agentsh-probe"
#define X32_BIT 0x40000000
#define MIB ((size_t)1024 * 1024)
#define MEMORY_FACTOR 3
#define MORE_PROCESSES 8
#define SPIN_NS 500000000L
#define SECOND_NS 1000000000L

/* --- namespaces: reach a target outside --- */

/* The owner of a system directory is root. In a user namespace that does not map root, it is the
 * overflow uid. */
static long see_ids(const char *value, char detail[PROBE_DETAIL])
{
	struct stat st;

	if (stat("/usr", &st) < 0)
		return PROBE_REFUSED;
	snprintf(detail, PROBE_DETAIL, "/usr belongs to %u", st.st_uid);
	return st.st_uid == 0 ? PROBE_DONE : PROBE_REFUSED;
}

static long open_canary(const char *path, char detail[PROBE_DETAIL])
{
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* Compares with the link of /proc/self/ns outside, which begins with the name of the namespace. */
static long share_namespace(const char *outside, char detail[PROBE_DETAIL])
{
	char path[NAME_LEN], link[NAME_LEN] = "";

	snprintf(path, sizeof(path), "/proc/self/ns/%.*s", (int)strcspn(outside, ":"), outside);
	if (readlink(path, link, sizeof(link) - 1) < 0)
		return PROBE_REFUSED;
	snprintf(detail, PROBE_DETAIL, "%.100s", link);
	return strcmp(link, outside) == 0 ? PROBE_DONE : PROBE_REFUSED;
}

static long signal_host(const char *pid, char detail[PROBE_DETAIL])
{
	return kill(atoi(pid), SIGURG);
}

/* The process is `agentsh doctor` or `agentsh detect`. */
static long see_host(const char *pid, char detail[PROBE_DETAIL])
{
	char path[64], text[TEXT_LEN];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", atoi(pid));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return PROBE_REFUSED;
	n = read(fd, text, sizeof(text));
	if (n > 0 && memmem(text, (size_t)n, "agentsh", 7) != NULL)
		return PROBE_DONE;
	snprintf(detail, PROBE_DETAIL, "the number belongs to another process");
	return PROBE_REFUSED;
}

static long connect_to(const struct sockaddr *at, socklen_t len)
{
	const int fd = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return fd < 0 ? fd : connect(fd, at, len);
}

static long connect_tcp(const char *port, char detail[PROBE_DETAIL])
{
	const struct sockaddr_in at = {.sin_family = AF_INET,
				       .sin_port = htons((uint16_t)atoi(port)),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	return connect_to((const struct sockaddr *)&at, sizeof(at));
}

static long connect_abstract(const char *name, char detail[PROBE_DETAIL])
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	const size_t n = strnlen(name, sizeof(at.sun_path) - 1);

	memcpy(at.sun_path + 1, name, n);
	return connect_to((const struct sockaddr *)&at,
			  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n));
}

static long find_sysv(const char *key, char detail[PROBE_DETAIL])
{
	return msgget((key_t)strtol(key, NULL, 10), 0);
}

static long find_posix(const char *name, char detail[PROBE_DETAIL])
{
	return mq_open(name, O_RDONLY | O_CLOEXEC);
}

static long see_hostname(const char *outside, char detail[PROBE_DETAIL])
{
	char name[NAME_LEN] = "";

	gethostname(name, sizeof(name) - 1);
	snprintf(detail, PROBE_DETAIL, "the name is '%.100s'", name);
	return strcmp(name, outside) == 0 ? PROBE_DONE : PROBE_REFUSED;
}

static long see_cgroup(const char *value, char detail[PROBE_DETAIL])
{
	char line[TEXT_LEN];
	FILE *f = fopen("/proc/self/cgroup", "re");

	if (f == NULL)
		return PROBE_REFUSED;
	while (fgets(line, sizeof(line), f) != NULL) {
		const char *path = strrchr(line, ':');

		if (path == NULL || strcmp(path, ":/\n") == 0)
			continue;
		snprintf(detail, PROBE_DETAIL, "%.*s", (int)strcspn(path + 1, "\n"), path + 1);
		return PROBE_DONE;
	}
	snprintf(detail, PROBE_DETAIL, "every path is /");
	return PROBE_REFUSED;
}

/* --- capabilities, a set-uid program, variables that change what programs do --- */

/* Looks for a set that is not empty. */
static long hold_caps(const char *value, char detail[PROBE_DETAIL])
{
	char line[NAME_LEN];
	FILE *f = fopen("/proc/self/status", "re");

	if (f == NULL)
		return PROBE_REFUSED;
	while (fgets(line, sizeof(line), f) != NULL)
		if (strncmp(line, "Cap", 3) == 0 && strtoull(line + 7, NULL, 16) != 0) {
			snprintf(detail, PROBE_DETAIL, "%.6s %llx", line,
				 strtoull(line + 7, NULL, 16));
			return PROBE_DONE;
		}
	snprintf(detail, PROBE_DETAIL, "every set is empty");
	return PROBE_REFUSED;
}

static long make_node(const char *value, char detail[PROBE_DETAIL])
{
	const int r = mknod(MADE, S_IFCHR | 0600, makedev(1, 3));

	if (r == 0)
		unlink(MADE);
	return r;
}

static long give_away(const char *uid, char detail[PROBE_DETAIL])
{
	const int fd = open(MADE, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		return PROBE_UNTRIED;
	unlink(MADE);
	return fchown(fd, (uid_t)strtoul(uid, NULL, 10), (gid_t)-1);
}

/* The file is a copy of this program with another owner and the set-uid bit. Its status is 1 if the
 * kernel gave it another uid. */
static long run_set_uid(const char *path, char detail[PROBE_DETAIL])
{
	const pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(execl(path, path, PROBE_EUID, NULL));
	if (pid == -1 || waitpid(pid, &status, 0) != pid)
		return PROBE_REFUSED;
	if (!WIFEXITED(status) || WEXITSTATUS(status) > 1) {
		snprintf(detail, PROBE_DETAIL, "it did not run (status %d)", status);
		return PROBE_UNTRIED;
	}
	snprintf(detail, PROBE_DETAIL, "%s",
		 WEXITSTATUS(status) == 1 ? "it got its owner's uid" : "it kept our uid");
	return WEXITSTATUS(status) == 1 ? PROBE_DONE : PROBE_REFUSED;
}

static long be_raisable(const char *value, char detail[PROBE_DETAIL])
{
	const int set = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);

	snprintf(detail, PROBE_DETAIL, "no_new_privs is %d", set);
	return set == 1 ? PROBE_REFUSED : PROBE_DONE;
}

static long get_variable(const char *name, char detail[PROBE_DETAIL])
{
	const char *value = getenv(name);

	snprintf(detail, PROBE_DETAIL, "%s", value != NULL ? "it arrived" : "it is not set");
	return value != NULL ? PROBE_DONE : PROBE_REFUSED;
}

/* --- the filter of system calls --- */

static long read_key_ring(const char *value, char detail[PROBE_DETAIL])
{
	return syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 1);
}

static long be_traced(const char *value, char detail[PROBE_DETAIL])
{
	return ptrace(PTRACE_TRACEME, 0, NULL, NULL);
}

static long make_namespace(const char *value, char detail[PROBE_DETAIL])
{
	return unshare(CLONE_NEWUSER);
}

static long make_ring(const char *value, char detail[PROBE_DETAIL])
{
	struct io_uring_params p = {0};

	return syscall(SYS_io_uring_setup, 1, &p);
}

static long open_vsock(const char *value, char detail[PROBE_DETAIL])
{
	return socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

#ifdef __x86_64__
static long call_x32(const char *value, char detail[PROBE_DETAIL])
{
	return syscall(X32_BIT | SYS_getpid);
}
#endif

/* --- Landlock and the policy of programs --- */

/* The mount lets a process write to its own files in /proc. */
static long write_proc(const char *value, char detail[PROBE_DETAIL])
{
	return open("/proc/self/comm", O_WRONLY | O_CLOEXEC);
}

/* Tries an exec. If it succeeds, the pipe closes without an errno, and the program is killed at
 * once. */
static long try_exec(const char *path)
{
	int ends[2], null, errnum = 0;
	pid_t pid;
	ssize_t n;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return PROBE_REFUSED;
	pid = fork();
	if (pid == 0) {
		null = open("/dev/null", O_RDWR | O_CLOEXEC);
		for (int i = 0; i <= STDERR_FILENO; i++)
			dup2(null, i);
		execl(path, path, "--version", NULL);
		n = write(ends[1], &errno, sizeof(errno));
		_exit(n == (ssize_t)sizeof(errno) ? 0 : 1);
	}
	close(ends[1]);
	n = read(ends[0], &errnum, sizeof(errnum));
	close(ends[0]);
	if (pid > 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	if (n > 0)
		errno = errnum;
	return pid == -1 || n != 0 ? PROBE_REFUSED : PROBE_DONE;
}

static long exec_shm(const char *value, char detail[PROBE_DETAIL])
{
	const int in = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	const int out = open(SHM_COPY, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	long r = PROBE_UNTRIED;
	struct stat st;

	if (in >= 0 && out >= 0 && fstat(in, &st) == 0 &&
	    sendfile(out, in, NULL, (size_t)st.st_size) == st.st_size) {
		close(out); /* a file that is open for writing cannot be executed */
		r = try_exec(SHM_COPY);
	}
	snprintf(detail, PROBE_DETAIL, "%s", r >= 0 ? "it worked" : strerrorname_np(errno));
	unlink(SHM_COPY);
	return r;
}

/* The value has the paths, with colons between them. */
static long run_denied(const char *paths, char detail[PROBE_DETAIL])
{
	char path[NAME_LEN];
	size_t n;

	for (; *paths != '\0'; paths += n + (paths[n] == ':')) {
		n = strcspn(paths, ":");
		snprintf(path, sizeof(path), "%.*s", (int)n, paths);
		if (try_exec(path) == PROBE_DONE) {
			snprintf(detail, PROBE_DETAIL, "%.100s ran", path);
			return PROBE_DONE;
		}
	}
	return PROBE_REFUSED;
}

/* --- limits: use more --- */

/* Pages that were swapped out do not count: they are not over the limit. */
static long use_memory(const char *mib, char detail[PROBE_DETAIL])
{
	const size_t limit = strtoull(mib, NULL, 10) * MIB, size = limit * MEMORY_FACTOR;
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t resident = 0;
	FILE *f;

	if (p == MAP_FAILED)
		return PROBE_REFUSED;
	memset(p, 1, size);
	f = fopen("/proc/self/statm", "re");
	if (f == NULL || fscanf(f, "%*s %zu", &resident) != 1)
		return PROBE_REFUSED;
	errno = ENOMEM;
	return resident * (size_t)sysconf(_SC_PAGESIZE) > 2 * limit ? PROBE_DONE : PROBE_REFUSED;
}

/* The processes are a group, so that one signal ends them; this process ignores it. */
static long use_processes(const char *limit, char detail[PROBE_DETAIL])
{
	const long want = strtol(limit, NULL, 10) + MORE_PROCESSES;
	pid_t pid = 0;
	int error;

	if (setpgid(0, 0) < 0)
		return PROBE_UNTRIED;
	for (long n = 0; n < want && pid != -1; n++) {
		pid = fork();
		if (pid == 0)
			for (;;)
				pause();
	}
	error = errno;
	signal(SIGTERM, SIG_IGN);
	kill(0, SIGTERM);
	while (wait(NULL) != -1)
		;
	errno = error;
	return pid;
}

static long nanoseconds(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * SECOND_NS + t.tv_nsec;
}

/* The first and the last period are not whole: they can give a little more than the share. */
static long use_cpu(const char *percent, char detail[PROBE_DETAIL])
{
	const long begin = nanoseconds(CLOCK_MONOTONIC);
	const long cpu = nanoseconds(CLOCK_PROCESS_CPUTIME_ID);
	long wall, used;

	do
		wall = nanoseconds(CLOCK_MONOTONIC) - begin;
	while (wall < SPIN_NS);
	used = (nanoseconds(CLOCK_PROCESS_CPUTIME_ID) - cpu) * 100 / wall;
	snprintf(detail, PROBE_DETAIL, "got %ld %% of one CPU", used);
	return used > 2 * strtol(percent, NULL, 10) ? PROBE_DONE : PROBE_REFUSED;
}

const struct probe_act probe_acts[] = {
	{"walls", "user_namespace", "see the machine's user ids", see_ids, NULL},
	{"walls", "mount_namespace", PROBE_CANARY, open_canary, "canary"},
	{"walls", "mount_namespace", "share the machine's mounts", share_namespace, "mounts"},
	{"walls", "pid_namespace", PROBE_SIGNAL, signal_host, "pid"},
	{"walls", "pid_namespace", "read its command line in /proc", see_host, "pid"},
	{"walls", "net_namespace", PROBE_TCP, connect_tcp, "port"},
	{"walls", "net_namespace", PROBE_ABSTRACT, connect_abstract, "abstract"},
	{"walls", "ipc_namespace", PROBE_SYSV, find_sysv, "key"},
	{"walls", "ipc_namespace", PROBE_POSIX, find_posix, "queue"},
	{"walls", "uts_namespace", "read the machine's name", see_hostname, "hostname"},
	{"walls", "cgroup_namespace", "see a cgroup of the machine", see_cgroup, NULL},
	{"walls", "cgroup_namespace", "share the machine's cgroups", share_namespace, "cgroup"},
	{"walls", "capabilities", "hold a capability", hold_caps, NULL},
	{"walls", "capabilities", "make a device node", make_node, NULL},
	{"walls", "capabilities", "give a file to another user", give_away, "other"},
	{"walls", "no_new_privs", "run a set-uid program", run_set_uid, "set_uid"},
	{"walls", "no_new_privs", "run without the flag", be_raisable, NULL},
	{"walls", "seccomp", "read a key ring (keyctl)", read_key_ring, NULL},
	{"walls", "seccomp", "be traced (ptrace)", be_traced, NULL},
	{"walls", "seccomp", "make a user namespace (unshare)", make_namespace, NULL},
	{"walls", "seccomp", "make an io_uring", make_ring, NULL},
	{"walls", "seccomp", "open a vsock socket", open_vsock, NULL},
#ifdef __x86_64__
	{"walls", "seccomp", "make an x32 call", call_x32, NULL},
#endif
	{"walls", "landlock", "write to a file in /proc", write_proc, NULL},
	{"walls", "landlock", "run a program from /dev/shm", exec_shm, NULL},
	{"environment", "env_filter", "hand LD_PRELOAD to a command", get_variable, "preload"},
	{"environment", "env_filter", "hand BASH_ENV to a command", get_variable, "bash_env"},
	{"programs", "exec_policy", "run a program that the policy denies", run_denied, "denied"},
	{"limits", "memory_limit", "use three times the memory", use_memory, "memory"},
	{"limits", "pids_limit", "start more processes", use_processes, "pids"},
	{"limits", "cpu_limit", "use twice the CPU time", use_cpu, "cpu"},
	{NULL},
};
