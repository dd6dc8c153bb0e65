// SPDX-License-Identifier: Apache-2.0
#include "exec/caller.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define PF_FORKNOEXEC 0x40 /* include/linux/sched.h; field 9 of /proc/PID/stat */

int caller_open(pid_t tid, const char *name, int flags)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", tid, name);
	fd = open(path, flags | O_CLOEXEC);
	return fd == -1 ? -errno : fd;
}

int caller_link(pid_t tid, const char *name, char *out, size_t n)
{
	char path[64];
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/%d/%s", tid, name);
	len = readlink(path, out, n);
	if (len == -1)
		return errno;
	if ((size_t)len == n)
		return ENAMETOOLONG;
	out[len] = '\0';
	return 0;
}

static int read_text(pid_t tid, const char *name, char *out, size_t n)
{
	cleanup_fd int fd = caller_open(tid, name, O_RDONLY);
	ssize_t len;

	if (fd < 0)
		return -fd;
	len = read(fd, out, n - 1);
	if (len <= 0)
		return len == 0 ? ESRCH : errno;
	out[len] = '\0';
	return 0;
}

int caller_stat(pid_t tid, struct caller_stat *out)
{
	char text[1024], *rest;
	unsigned flags;
	long threads;
	int r = read_text(tid, "stat", text, sizeof(text));
	int ppid;

	if (r != 0)
		return r;
	rest = strrchr(text, ')'); /* the name may hold anything */
	if (rest == NULL || sscanf(rest,
				   ") %*c %d %*d %*d %*d %*d %u %*u %*u %*u %*u %*u %*u %*d %*d "
				   "%*d %*d %ld",
				   &ppid, &flags, &threads) != 3)
		return EPROTO;
	*out = (struct caller_stat){ppid, (flags & PF_FORKNOEXEC) == 0, threads};
	return 0;
}

/* A number of /proc/PID/status; field: with a newline before it. -1: none. */
static pid_t status_number(pid_t tid, const char *field)
{
	char text[4096], *at;

	if (read_text(tid, "status", text, sizeof(text)) != 0)
		return -1;
	at = strstr(text, field);
	return at == NULL ? -1 : (pid_t)strtol(at + strlen(field), NULL, 10);
}

pid_t caller_tgid(pid_t tid)
{
	return status_number(tid, "\nTgid:");
}

pid_t caller_tracer(pid_t tid)
{
	return status_number(tid, "\nTracerPid:");
}

int caller_page(void *arg, uint64_t page, uint8_t out[EXEC_PAGE])
{
	const pid_t tid = *(const pid_t *)arg;
	const struct iovec to = {out, EXEC_PAGE};
	const struct iovec from = {(void *)(uintptr_t)page, EXEC_PAGE};
	const ssize_t n = process_vm_readv(tid, &to, 1, &from, 1, 0);

	if (n == EXEC_PAGE)
		return 0;
	return n == -1 ? errno : EFAULT;
}

/* Linux 6.13; not in every header yet. The first version of the struct, 64 bytes. */
struct pidfd_ids {
	uint64_t mask, cgroup;
	uint32_t pid, tgid, ppid, id[9];
};
#define PIDFD_IDS _IOWR(0xff, 11, struct pidfd_ids)
#define PIDFD_OF_THREAD O_EXCL

static int ids_of_pidfd(pid_t tid, struct caller_ids *out)
{
	cleanup_fd int fd = (int)syscall(SYS_pidfd_open, tid, PIDFD_OF_THREAD);
	struct pidfd_ids ids = {.mask = 1};

	if (fd < 0 || ioctl(fd, PIDFD_IDS, &ids) == -1)
		return errno;
	if (ids.pid != (uint32_t)tid)
		return ESRCH;
	out->pid = (pid_t)ids.tgid;
	out->ppid = (pid_t)ids.ppid;
	return 0;
}

static int ids_of_stat(pid_t tid, struct caller_ids *out)
{
	struct caller_stat st;
	int r = caller_stat(tid, &st);

	if (r != 0)
		return r;
	out->ppid = st.ppid;
	out->pid = st.threads == 1 ? tid : caller_tgid(tid);
	return out->pid > 0 ? 0 : ESRCH;
}

int caller_ids(pid_t tid, struct caller_ids *out)
{
	struct caller_ids ids;
	int r = ids_of_pidfd(tid, &ids);

	if (r != 0) /* an older kernel */
		r = ids_of_stat(tid, &ids);
	if (r == 0)
		*out = ids;
	return r;
}
