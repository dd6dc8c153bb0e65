// SPDX-License-Identifier: Apache-2.0
/* sandbox/command_walls.h - what init prepares for its leaders and their commands: the limit of
 * open files, and the order in which the kernel ends processes when the session is out of memory.
 * That is a command first, and not init or the warden, which are in the same group. */
#pragma once
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

struct oom {
	int fd;	     /* owned; the caller's own score */
	char own[8]; /* what it was; empty: nothing can be changed */
};
struct command_walls {
	/* Applied in the command itself. Descriptors in flight in sockets are counted per user, and
	 * a process with a higher limit may send more (unix(7)): that must be our processes. */
	struct rlimit files;
	struct oom oom;
	bool pid_namespace; /* else a process that leaves ends its descendants */
	pid_t sweeper; /* init's child that ends all when init ends: see leave_sweeper; 0: none */
};

/* While /proc can be written: before Landlock and a change of uid. Where it cannot, own is empty.
 */
void oom_open(struct oom *o);
/* As fork; the kernel ends the child and all that it starts first. Only the caller keeps the
 * descriptor. */
pid_t oom_fork(const struct oom *o);
/* In every process that sends descriptors: as many open files as it may have. 0 or an errno. */
int rlimit_raise_files(void);
