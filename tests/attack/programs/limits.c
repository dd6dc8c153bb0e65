// SPDX-License-Identifier: Apache-2.0
/* Bombs of a known size: larger than the session's limit, small enough to be let off without one.
 */
#include "attack.h"
#include <sys/mman.h>
#include <sys/wait.h>

#define PROCESSES 300
#define MEMORY (700UL << 20)

/* Processes that wait for the end of a pipe, all at a time. */
static int fork_bomb(void)
{
	int hold[2], failed = 0;

	if (pipe(hold) < 0)
		return BROKEN;
	for (int i = 0; i < PROCESSES && failed == 0; i++) {
		const pid_t pid = fork();
		char c;

		if (pid == 0) {
			close(hold[1]);
			_exit(read(hold[0], &c, 1) == 0 ? 0 : 1);
		}
		if (pid == -1)
			failed = errno;
	}
	close(hold[1]);
	while (wait(NULL) > 0)
		;
	return failed;
}

/* Touches every page; a kill takes the child only. */
static int memory_bomb(void)
{
	const pid_t pid = fork();

	if (pid == 0) {
		char *p = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			       -1, 0);

		if (p == MAP_FAILED)
			_exit(errno);
		memset(p, 1, MEMORY);
		_exit(0);
	}
	return status_of(pid) == 0 ? 0 : ENOMEM;
}

const struct attack limit_attacks[] = {
	{"fork_bomb", fork_bomb},
	{"memory_bomb", memory_bomb},
	{0},
};
