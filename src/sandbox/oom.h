// SPDX-License-Identifier: Apache-2.0
/* sandbox/oom.h - whom the kernel ends first when a session is out of memory: a command, and not
 * init or the warden, which are in the same group. To raise a score needs no privilege. Runs in
 * init. */
#pragma once
#include <sys/types.h>

struct oom {
	int fd;	     /* owned; the caller's own score */
	char own[8]; /* what it was; empty: nothing can be changed */
};

/* While /proc can be written: before Landlock and a change of uid. Where it cannot, own is empty.
 */
void oom_open(struct oom *o);
/* As fork; the child and all that it starts go first. Only the caller keeps the descriptor. */
pid_t oom_fork(const struct oom *o);
