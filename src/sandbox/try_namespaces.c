// SPDX-License-Identifier: Apache-2.0
/* Whether a session can only be had without namespaces. It is tried, not looked up: a child makes
 * them and mounts, which some machines let fail only then (AppArmor). It shares our memory while we
 * sleep, so it makes system calls only. */
#include "base/mem.h"
#include "sandbox/plan.h"
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>

#define STACK_BYTES (64 * 1024)
/* Without these there is nothing to build upon. */
#define NEEDED (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID)

static const enum wall namespaces[] = {
	WALL_user_namespace, WALL_mount_namespace, WALL_pid_namespace,	  WALL_net_namespace,
	WALL_ipc_namespace,  WALL_uts_namespace,   WALL_cgroup_namespace,
};

static int mount_something(void *arg)
{
	return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0;
}

bool sandbox_crowded(int errnum)
{
	return errnum == EAGAIN || errnum == ENOMEM;
}

/* A machine that has no process left for the moment has not refused them. */
static bool namespaces_work(void)
{
	cleanup_free char *stack = mem_alloc(STACK_BYTES);
	sigset_t all, old;
	int status = -1;
	pid_t pid;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &old);
	pid = clone(mount_something, stack + STACK_BYTES, NEEDED | CLONE_VM | CLONE_VFORK | SIGCHLD,
		    NULL);
	if (pid != -1)
		waitpid(pid, &status, 0);
	else if (sandbox_crowded(errno))
		status = 0;
	sigprocmask(SIG_SETMASK, &old, NULL);
	return status == 0;
}

bool sandbox_must_be_bare(const struct sandbox_plan *plan)
{
	if (plan->privileged)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(namespaces); i++)
		if (!plan_may_lack(plan, namespaces[i]))
			return false;
	return !namespaces_work();
}
