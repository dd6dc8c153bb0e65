// SPDX-License-Identifier: Apache-2.0
/* exec/exec_case.h - one exec from its notification to its record; private to this folder. */
#pragma once
#include "exec/exec.h"
#include "exec/program_cache.h"
#include <linux/seccomp.h>
#include <sys/queue.h>

enum case_state {
	CASE_READ,     /* being decided */
	CASE_PARKED,   /* its caller waits in the notification for the gate's answer */
	CASE_LOADING,  /* seized and let go: the exec stop, or a sign of its failure, comes next */
	CASE_INJECTED, /* redirect: our own execve comes next */
	CASE_LEFTOVER, /* recorded; only to be detached or reaped */
};

struct exec_case {
	LIST_ENTRY(exec_case) link;
	struct exec_control *control;
	enum case_state state;
	pid_t tid;	 /* the caller's thread, and the process once it has executed */
	pid_t pid, ppid; /* the caller's process */
	uint64_t id;	 /* of the notification */
	int pidfd;	 /* PARKED: tells of its death; else -1 */
	bool helper;	 /* our own program: no event */
	bool seized, interrupted;
	bool injected; /* our execve was put into it */
	int64_t began_us, let_go_us;
	uint64_t latency_us;
	struct args args;
	struct image image;
	struct image target; /* of a redirect, once it is looked up */
	char **argv;	     /* as the kernel will give it: image.head and args */
	char *path, *cwd;
	/* Both point into the above. Of an exec that could not be read, op has what is known: an
	 * empty path, no argv. */
	struct op op;
	struct gate_case gate;
};

struct exec_case *exec_case_new(const struct seccomp_notif *n, int64_t now_us);
void exec_case_free(struct exec_case *k);
/* Reads the call out of its caller. 0: decide it; EPERM: it cannot be read; else the errno that the
 * kernel would give. Where programs->root is -1, the caller's own root is looked up. */
int exec_case_read(struct exec_case *k, const struct seccomp_notif *n,
		   struct program_cache *programs);
/* Looks up the target of a redirect in the caller's root. 0 or an errno. */
int exec_case_find_target(struct exec_case *k, struct program_cache *programs);
