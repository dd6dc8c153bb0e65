// SPDX-License-Identifier: Apache-2.0
/* Acts against the filter of system calls, Landlock and the policy of programs. */
#include "probe/probe.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define X32_BIT 0x40000000
#define SHM_COPY "/dev/shm/agentsh-probe"

static int close_or_errno(long fd)
{
	if (fd < 0)
		return errno;
	close((int)fd);
	return 0;
}

static int key_ring(const void *arg)
{
	return syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 1) < 0 ? errno
											   : 0;
}

static int trace_me(const void *arg)
{
	return ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0 ? errno : 0;
}

static int new_namespace(const void *arg)
{
	return unshare(CLONE_NEWUSER) < 0 ? errno : 0;
}

static int make_ring(const void *arg)
{
	struct io_uring_params p = {0};

	return close_or_errno(syscall(SYS_io_uring_setup, 1, &p));
}

static int open_vsock(const void *arg)
{
	return close_or_errno(socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

#ifdef __x86_64__
static int call_x32(const void *arg)
{
	return syscall(X32_BIT | SYS_getpid) < 0 ? errno : 0;
}
#endif

#define IN_CHILD(name, fn)                                                                    \
	static enum probe_outcome name(const struct probe_args *a, char detail[PROBE_DETAIL]) \
	{                                                                                     \
		return probe_child(fn, NULL, detail);                                         \
	}
IN_CHILD(try_key_ring, key_ring)
IN_CHILD(try_trace, trace_me)
IN_CHILD(try_namespace, new_namespace)
IN_CHILD(try_ring, make_ring)
IN_CHILD(try_vsock, open_vsock)
#ifdef __x86_64__
IN_CHILD(try_x32, call_x32)
#endif

/* The mount lets a process write to its own files in /proc. */
static enum probe_outcome write_proc(const struct probe_args *a, char detail[PROBE_DETAIL])
{
	const int fd = open("/proc/self/comm", O_WRONLY | O_CLOEXEC);
	const enum probe_outcome outcome = probe_said(fd, detail);

	if (fd >= 0)
		close(fd);
	return outcome;
}

static int exec_copy(const void *path)
{
	execl(path, path, PROBE_EUID, NULL);
	return errno;
}

static enum probe_outcome exec_shm(const struct probe_args *a, char detail[PROBE_DETAIL])
{
	const int in = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	const int out = open(SHM_COPY, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	enum probe_outcome outcome = PROBE_UNTRIED;
	struct stat st;
	const bool copied = in >= 0 && out >= 0 && fstat(in, &st) == 0 &&
			    sendfile(out, in, NULL, (size_t)st.st_size) == st.st_size;

	if (!copied)
		probe_said(-1, detail);
	if (in >= 0)
		close(in);
	if (out >= 0)
		close(out);
	if (copied)
		outcome = probe_child(exec_copy, SHM_COPY, detail);
	unlink(SHM_COPY);
	return outcome;
}

/* Tries an exec. If it succeeds, the pipe closes without an errno, and the program is killed at
 * once. */
static int try_exec(const char *path, int *errnum)
{
	int ends[2], null;
	pid_t pid;
	ssize_t n;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
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
	*errnum = 0;
	n = read(ends[0], errnum, sizeof(*errnum));
	close(ends[0]);
	if (pid > 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	return pid == -1 || n < 0 ? -1 : 0;
}

static enum probe_outcome run_denied(const struct probe_args *a, char detail[PROBE_DETAIL])
{
	int errnum = 0;

	for (size_t i = 0; i < PROBE_DENIED && a->denied[i] != NULL; i++) {
		if (try_exec(a->denied[i], &errnum) < 0)
			return probe_said(-1, detail);
		if (errnum == 0) {
			snprintf(detail, PROBE_DETAIL, "%.100s ran", a->denied[i]);
			return PROBE_DONE;
		}
	}
	snprintf(detail, PROBE_DETAIL, "%s", strerrorname_np(errnum));
	return PROBE_REFUSED;
}

const struct probe_act probe_calls[] = {
	{"seccomp", "read a key ring (keyctl)", try_key_ring, PROBE_ALWAYS},
	{"seccomp", "be traced (ptrace)", try_trace, PROBE_ALWAYS},
	{"seccomp", "make a user namespace (unshare)", try_namespace, PROBE_ALWAYS},
	{"seccomp", "make an io_uring", try_ring, PROBE_ALWAYS},
	{"seccomp", "open a vsock socket", try_vsock, PROBE_ALWAYS},
#ifdef __x86_64__
	{"seccomp", "make an x32 call", try_x32, PROBE_ALWAYS},
#endif
	{"landlock", "write to a file in /proc", write_proc, PROBE_ALWAYS},
	{"landlock", "run a program from /dev/shm", exec_shm, PROBE_ALWAYS},
	{NULL},
};
const struct probe_act probe_programs[] = {
	{"exec_policy", "run a program that the policy denies", run_denied,
	 offsetof(struct probe_args, denied)},
	{NULL},
};
