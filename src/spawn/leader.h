// SPDX-License-Identifier: Apache-2.0
/* spawn/leader.h - init's side of leaders, and the exec itself; private to this folder. */
#pragma once
#include "sandbox/command_walls.h"
#include "spawn/spawn.h"
#include <sys/types.h>

/* For a process of a bare session that ends: in the others the kernel sees to it. */
void leader_end_children(const struct command_walls *walls);
/* init, once READY is sent: keeps a leader waiting for the next spawn, and ends everything when the
 * warden asks for it by end_fd; returns when the link closes. */
struct link;
void leader_serve(struct link *l, int end_fd, const struct command_walls *walls);

/* Where and why a start failed. */
struct launch_failure {
	enum spawn_stage stage;
	int errnum;
};
/* Leader: starts the command by clone(CLONE_VM|CLONE_VFORK) and execve. Returns its pid, or -1 with
 * *failure filled. The descriptors are above 2, close-on-exec, and stay open here. */
struct launch_ask {
	const struct init_spawn *spawn;
	const struct command_walls *walls;
	const int *fd; /* stdin, stdout, stderr */
	int program;   /* what is executed; -1: spawn->path */
};
pid_t launch_command(const struct launch_ask *ask, struct launch_failure *failure);
