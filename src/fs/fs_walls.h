// SPDX-License-Identifier: Apache-2.0
/* fs/fs_walls.h - what agentsh-fs can do after it has made its mount: open files of the backing
 * tree, and answer the kernel. It reaches no other file (Landlock), and makes no socket, no process
 * and no mount (seccomp). */
#pragma once
#include "sandbox/sandbox.h"

/* For the calling thread and those that it starts. trees: which it serves or knows. trash: -1: the
 * session has no trash. keep_admin: CAP_SYS_ADMIN stays permitted, but is not effective;
 * passthrough needs it. A wall that the plan lets be missing may be. */
int fs_walls_raise(const struct sandbox_plan *plan, const struct sandbox_trees *trees, int trash,
		   bool keep_admin, struct err *err);
