// SPDX-License-Identifier: Apache-2.0
/* A leader starts a command. The child shares the leader's memory until its exec, so the leader
 * allocates everything before, and the child only makes system calls. clone(2) and not clone3: the
 * filter refuses clone3, because seccomp cannot read its flags.
 *
 * The warden has found the program already: there is one exec, of a path that no command can change
 * or of a descriptor. The command's key, by which the warden recognises it, is one argument more
 * than the exec takes. A key works once, so another process that reads it in /proc gains nothing.
 */
#include "base/mem.h"
#include "spawn/leader.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>

#define STACK_BYTES (64 * 1024)

struct launch {
	const struct launch_ask *what;
	char *const *envp;
	struct launch_failure *failure; /* errnum stays 0 once the exec has worked */
};

static int fail(struct launch *l, enum spawn_stage stage)
{
	*l->failure = (struct launch_failure){stage, errno};
	return 127;
}

static int child(void *arg)
{
	struct launch *l = arg;
	const struct init_spawn *ask = l->what->spawn;
	sigset_t none;

	if ((ask->new_session ? setsid() : setpgid(0, 0)) == -1)
		return fail(l, SPAWN_STAGE_FORK);
	if (ask->cwd != NULL && chdir(ask->cwd) < 0)
		return fail(l, SPAWN_STAGE_CWD);
	for (int i = 0; i < 3; i++)
		if (dup2(l->what->fd[i], i) == -1)
			return fail(l, SPAWN_STAGE_STDIO);
	if ((errno = rlimit_apply_files(&l->what->walls->limits)) != 0)
		return fail(l, SPAWN_STAGE_LIMITS);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (l->what->program >= 0)
		syscall(SYS_execveat, l->what->program, "", ask->argv.v, l->envp, AT_EMPTY_PATH,
			ask->key);
	else
		syscall(SYS_execve, ask->path, ask->argv.v, l->envp, 0L, 0L, ask->key);
	return fail(l, SPAWN_STAGE_EXEC);
}

pid_t launch_command(const struct launch_ask *what, struct launch_failure *failure)
{
	static char stack[STACK_BYTES] __attribute__((aligned(16)));
	static char *const empty[] = {NULL};
	const struct init_spawn *ask = what->spawn;
	struct launch l = {what, ask->env.n > 0 ? ask->env.v : empty, failure};
	pid_t pid;

	*failure = (struct launch_failure){SPAWN_STAGE_EXEC, EINVAL};
	if (ask->argv.n == 0 || ask->path == NULL || ask->path[0] == '\0')
		return -1;
	failure->errnum = 0;
	pid = clone(child, stack + STACK_BYTES, CLONE_VM | CLONE_VFORK | SIGCHLD, &l);
	if (pid < 0)
		*failure = (struct launch_failure){SPAWN_STAGE_FORK, errno};
	return failure->errnum != 0 ? -1 : pid;
}
