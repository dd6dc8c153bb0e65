// SPDX-License-Identifier: Apache-2.0
/* Finds out by trial whether a session must do without namespaces: a child makes them and mounts,
 * because some machines refuse only the mount (AppArmor). The child shares our memory while we
 * sleep, so it only makes system calls. */
#include "base/mem.h"
#include "sandbox/plan.h"
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>

#define STACK_BYTES (64 * 1024)
/* A session with namespaces needs at least these. */
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

bool sandbox_must_be_bare(const struct sandbox_plan *plan)
{
	cleanup_free char *stack = mem_alloc(STACK_BYTES);
	sigset_t all, old;
	int status = -1;
	pid_t pid;

	if (plan->privileged)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(namespaces); i++)
		if (!plan_may_lack(plan, namespaces[i]))
			return false;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &old);
	pid = clone(mount_something, stack + STACK_BYTES, NEEDED | CLONE_VM | CLONE_VFORK | SIGCHLD,
		    NULL);
	if (pid != -1)
		waitpid(pid, &status, 0);
	else if (sandbox_crowded(errno)) /* out of processes: this refuses no namespace */
		status = 0;
	sigprocmask(SIG_SETMASK, &old, NULL);
	return status != 0;
}
