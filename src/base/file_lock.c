// SPDX-License-Identifier: Apache-2.0
#include "base/file_lock.h"
#include "base/mem.h"
#include "base/proc.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>

int file_lock_take(int fd, int wait_ms, pid_t *holder)
{
	const struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	while (fcntl(fd, F_SETLK, &whole) < 0) {
		struct flock held = whole;
		cleanup_fd int pidfd = -1;

		if ((errno != EAGAIN && errno != EACCES) || fcntl(fd, F_GETLK, &held) < 0)
			return -1;
		if (held.l_type == F_UNLCK)
			continue;
		/* Wait for the end of the process that holds it. */
		pidfd = held.l_pid > 0 ? proc_pidfd(held.l_pid) : -1;
		if (held.l_pid > 0 && pidfd == -1 && errno == ESRCH)
			continue;
		if (pidfd != -1 &&
		    TEMP_FAILURE_RETRY(poll(&(struct pollfd){pidfd, POLLIN, 0}, 1, wait_ms)) == 1)
			continue;
		/* A process outside our PID namespace has no number here. */
		*holder = held.l_pid > 0 ? held.l_pid : 0;
		errno = EAGAIN;
		return -1;
	}
	return 0;
}
