// SPDX-License-Identifier: Apache-2.0
#include "base/file_lock.h"
#include "base/mem.h"
#include "base/proc.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>

/* Whether it has ended within the time. */
static bool ends(pid_t pid, int wait_ms)
{
	cleanup_fd int pidfd = proc_pidfd(pid);
	struct pollfd p = {pidfd, POLLIN, 0};

	if (pidfd == -1)
		return errno == ESRCH;
	return TEMP_FAILURE_RETRY(poll(&p, 1, wait_ms)) == 1;
}

int file_lock_take(int fd, int wait_ms, pid_t *holder)
{
	const struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	while (fcntl(fd, F_SETLK, &whole) < 0) {
		struct flock held = whole;

		if ((errno != EAGAIN && errno != EACCES) || fcntl(fd, F_GETLK, &held) < 0)
			return -1;
		if (held.l_type == F_UNLCK)
			continue;
		if (held.l_pid > 0 && ends(held.l_pid, wait_ms))
			continue;
		/* One outside our PID namespace has no number here. */
		*holder = held.l_pid > 0 ? held.l_pid : 0;
		errno = EAGAIN;
		return -1;
	}
	return 0;
}
