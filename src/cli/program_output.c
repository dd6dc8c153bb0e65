// SPDX-License-Identifier: Apache-2.0
/* Runs another program and reads its output. */
#include "base/clock.h"
#include "base/mem.h"
#include "cli/cli.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#define OUTPUT_MAX ((size_t)1024 * 1024)
#define ANSWER_US INT64_C(30000000)

/* Reads until the end, the deadline or OUTPUT_MAX. */
static void read_answer(int fd, struct buf *out)
{
	const int64_t end = clock_mono_us(&clock_system) + ANSWER_US;
	char piece[4096];

	for (;;) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		const int64_t left = end - clock_mono_us(&clock_system);
		ssize_t n;

		if (left <= 0 || poll(&p, 1, (int)(left / 1000)) <= 0)
			return;
		n = read(fd, piece, sizeof(piece));
		if (n <= 0 || out->len + (size_t)n > OUTPUT_MAX)
			return;
		buf_add(out, piece, (size_t)n);
	}
}

void cli_program_output(char *const *argv, const char *dir, char *const *env, struct buf *out)
{
	posix_spawn_file_actions_t actions;
	int fds[2], failed;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addchdir_np(&actions, dir);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, fds[1], 1);
	posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
	failed = posix_spawnp(&pid, argv[0], &actions, NULL, argv, env);
	posix_spawn_file_actions_destroy(&actions);
	close(fds[1]);
	if (failed == 0) {
		read_answer(fds[0], out);
		kill(pid, SIGKILL); /* it has answered, or is too late */
		TEMP_FAILURE_RETRY(waitpid(pid, NULL, 0));
	}
	close(fds[0]);
}
