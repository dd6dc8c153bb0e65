// SPDX-License-Identifier: Apache-2.0
#include "exec/caller.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/uio.h>

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

pid_t caller_tracer(pid_t tid)
{
	static const char field[] = "\nTracerPid:";
	cleanup_fd int fd = caller_open(tid, "status", O_RDONLY);
	char text[4096], *at;
	const ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (len <= 0)
		return -1;
	text[len] = '\0';
	at = strstr(text, field);
	return at == NULL ? -1 : (pid_t)strtol(at + strlen(field), NULL, 10);
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
