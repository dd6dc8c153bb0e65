// SPDX-License-Identifier: Apache-2.0
/* spawn/spawn.h - how init starts a command: a leader per command, which starts the command by
 * clone+exec. The warden has found and decided the program by then.
 *
 * init keeps one spare leader forked in advance, so that a command does not wait for fork. The
 * leader is a subreaper with its own session; it gets the spawn message and its descriptors over a
 * socket from init, prepares stdio, starts the command, sends leader_started with a pidfd, waits,
 * sends leader_exit, reaps what is left (leader_empty), clones the process that waits for the next
 * command (leader_spawn), and leaves when its link closes (the warden has enough of them, or died).
 * It is non-dumpable. */
#pragma once
#include "base/err.h"
#include "link/msg.h"

enum spawn_stdio { SPAWN_PIPE, SPAWN_PTY, SPAWN_NULL };
/* Where a start failed, for leader_failed. */
enum spawn_stage {
	SPAWN_STAGE_CWD,
	SPAWN_STAGE_STDIO,
	SPAWN_STAGE_EXEC,
	SPAWN_STAGE_FORK,
	SPAWN_STAGE_LIMITS, /* rlimits */
};

/* init, once READY is sent: keeps a leader waiting for the next spawn, and ends everything when the
 * warden asks for it by end_fd; returns when the link closes. */
struct link;
struct command_walls;
void leader_serve(struct link *l, int end_fd, const struct command_walls *walls);
