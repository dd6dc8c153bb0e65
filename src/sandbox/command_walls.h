// SPDX-License-Identifier: Apache-2.0
/* sandbox/command_walls.h - the walls that a leader raises around itself for its commands. */
#pragma once
#include "sandbox/oom.h"
#include "sandbox/rlimit.h"
#include <stdbool.h>
#include <sys/types.h>

struct command_walls {
	struct rlimit_plan limits;
	struct oom oom;
	bool bare;     /* no PID namespace: a process that leaves ends its descendants */
	pid_t sweeper; /* init's child that ends all when init ends: see inside_bare.c; 0: none */
};
