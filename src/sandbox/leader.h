// SPDX-License-Identifier: Apache-2.0
/* sandbox/leader.h - init's side of leaders, and the exec itself; private to this folder. */
#pragma once
#include "sandbox/spawn.h"
#include <sys/types.h>

/* init, once READY is sent: keeps a leader waiting for the next spawn; returns when the link
 * closes. */
void leader_serve(int link_fd);

/* Where and why a start failed. */
struct launch_failure {
	enum spawn_stage stage;
	int errnum;
};
/* Leader: starts the command by clone(CLONE_VM|CLONE_VFORK) and execve; *pidfd is close-on-exec.
 * Returns its pid, or -1 with *failure filled. The descriptors fd are above 2 and stay open here.
 */
pid_t launch_command(const struct init_spawn *ask, const int fd[3], int *pidfd,
		     struct launch_failure *failure);
