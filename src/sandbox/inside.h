// SPDX-License-Identifier: Apache-2.0
/* sandbox/inside.h - what agentsh-init does between its start and READY, one function a step;
 * private to this folder.
 *
 * Process agentsh-init, one thread, PID 1 of its namespace. The order is init.c's table; each step
 * writes the entries of the walls that it raised. Errors are E_ENFORCEMENT and name the call and
 * the path. */
#pragma once
#include "base/err.h"
#include "sandbox/sandbox.h"

#define INSIDE_WORKSPACE "workspace"
#define INSIDE_HOME "home/agent"

struct inside {
	struct sandbox_plan plan;
	struct wall_report walls;
	uint32_t namespaces; /* CLONE_NEW… that the stub was given */
	int tree_fd;	     /* owned; the workspace, detached once it is known */
	int root_fd;	     /* owned; the new root's mount */
	int state_fd;	     /* owned; listener of captures */
};
void inside_done(struct inside *in);

/* Unprivileged mode: maps our one uid and gid to themselves. */
int inside_map_ids(struct inside *in, struct err *err);
/* A new root of our own, on top of the old one: system directories, scratch space, /run/agentsh. */
int inside_root(struct inside *in, struct err *err);
int inside_dev(struct inside *in, struct err *err);
int inside_proc(struct inside *in, struct err *err);
/* Leaves the old root for good, puts the workspace in its place and shuts the new root. */
int inside_pivot(struct inside *in, struct err *err);
int inside_hostname(struct inside *in, struct err *err);
int inside_identity(struct inside *in, struct err *err);
int inside_no_new_privs(struct inside *in, struct err *err);
