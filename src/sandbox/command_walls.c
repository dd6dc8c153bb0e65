// SPDX-License-Identifier: Apache-2.0
/* A child inherits the score of the out-of-memory killer, and a leader cannot open its own, because
 * Landlock refuses it. So init raises its own score for the moment of the fork. */
#include "sandbox/command_walls.h"
#include "base/fdio.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define SCORE "/proc/self/oom_score_adj"
#define FIRST "1000" /* the highest score */

void oom_open(struct oom *o)
{
	cleanup_fd int fd = open(SCORE, O_RDWR | O_CLOEXEC);
	ssize_t n;

	*o = (struct oom){.fd = -1};
	n = fd == -1 ? -1 : read(fd, o->own, sizeof(o->own) - 1);
	if (n > 0)
		o->fd = take_fd(fd);
}

static void set(const struct oom *o, const char *score)
{
	if (o->own[0] != '\0')
		fdio_write_all(o->fd, score, strlen(score));
}

pid_t oom_fork(const struct oom *o)
{
	pid_t pid;
	int errnum;

	set(o, FIRST);
	pid = fork();
	errnum = errno;
	if (pid != 0)
		set(o, o->own);
	else if (o->own[0] != '\0')
		close(o->fd);
	errno = errnum;
	return pid;
}

int rlimit_raise_files(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return errno;
	files.rlim_cur = files.rlim_max;
	return setrlimit(RLIMIT_NOFILE, &files) < 0 ? errno : 0;
}
