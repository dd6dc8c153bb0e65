// SPDX-License-Identifier: Apache-2.0
/* From a leader to a command. The child shares the leader's memory until its exec, so everything
 * that needs memory is made before, and the child makes system calls only. clone(2) and not clone3:
 * a filter lets the latter fail (seccomp cannot read its flags).
 *
 * The search is execvp's: ENOENT, ENOTDIR and EACCES go on with the next directory, EACCES is
 * remembered; a file that is no program the kernel knows is run by /bin/sh. */
#include "base/mem.h"
#include "sandbox/leader.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>

#define STACK_BYTES (64 * 1024)

struct launch {
	const struct init_spawn *ask;
	const struct command_walls *walls;
	const int *fd;
	const char *dirs; /* PATH, or NULL: no search */
	char *const *envp;
	const char **script_argv;	/* SPAWN_SHELL, the file, the arguments after argv[0] */
	struct launch_failure *failure; /* errnum stays 0 once the exec has worked */
};

static int fail(struct launch *l, enum spawn_stage stage)
{
	*l->failure = (struct launch_failure){stage, errno};
	return 127;
}

static void try_exec(struct launch *l, const char *file)
{
	execve(file, l->ask->argv.v, l->envp);
	if (errno != ENOEXEC)
		return;
	l->script_argv[1] = file;
	execve(SPAWN_SHELL, (char *const *)l->script_argv, l->envp);
}

static bool goes_on(int errnum)
{
	return errnum == ENOENT || errnum == EACCES || errnum == ENOTDIR;
}

/* dir/name, or name alone for an empty dir, as the search understands it. false: too long. */
static bool join(char out[PATH_MAX], const char *dir, size_t len, const char *name)
{
	const size_t n = strlen(name);

	if (len + 1 + n >= PATH_MAX)
		return false;
	memcpy(out, dir, len);
	if (len > 0)
		out[len++] = '/';
	memcpy(out + len, name, n + 1);
	return true;
}

static void search(struct launch *l)
{
	char file[PATH_MAX];
	bool refused = false;

	for (const char *dir = l->dirs;; dir++) {
		const size_t len = strcspn(dir, ":");

		/* Where there is nothing, the exec would be asked of the warden in vain. */
		if (join(file, dir, len, l->ask->path) && faccessat(AT_FDCWD, file, F_OK, 0) == 0) {
			try_exec(l, file);
			if (!goes_on(errno))
				return;
			refused |= errno == EACCES;
		}
		dir += len;
		if (*dir == '\0')
			break;
	}
	errno = refused ? EACCES : ENOENT;
}

static int child(void *arg)
{
	struct launch *l = arg;
	const char *cwd = l->ask->cwd;
	sigset_t none;

	if ((l->ask->new_session ? setsid() : setpgid(0, 0)) == -1)
		return fail(l, SPAWN_STAGE_FORK);
	if (cwd != NULL && chdir(cwd) < 0)
		return fail(l, SPAWN_STAGE_CWD);
	for (int i = 0; i < 3; i++)
		if (dup2(l->fd[i], i) == -1)
			return fail(l, SPAWN_STAGE_STDIO);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	errno = rlimit_apply(&l->walls->limits);
	if (errno != 0)
		return fail(l, SPAWN_STAGE_LIMITS);
	if (l->dirs != NULL)
		search(l);
	else
		try_exec(l, l->ask->path);
	return fail(l, SPAWN_STAGE_EXEC);
}

static const char **make_script_argv(const struct strv *argv)
{
	const char **v = mem_resize(NULL, argv->n + 2, sizeof(*v));

	v[0] = SPAWN_SHELL;
	for (size_t i = 1; i <= argv->n; i++) /* with the NULL at the end */
		v[i + 1] = argv->v[i];
	return v;
}

static const char *search_dirs(const struct init_spawn *ask)
{
	const char *path = strv_env_get(&ask->env, "PATH");

	if (!ask->search || strchr(ask->path, '/') != NULL)
		return NULL;
	return path != NULL ? path : SPAWN_PATH;
}

pid_t launch_command(const struct launch_ask *what, int *pidfd, struct launch_failure *failure)
{
	const struct init_spawn *ask = what->spawn;
	static char stack[STACK_BYTES] __attribute__((aligned(16)));
	static char *const empty[] = {NULL};
	struct launch l = {.ask = ask, .walls = what->walls, .fd = what->fd, .failure = failure};
	int made = -1;
	pid_t pid;

	*failure = (struct launch_failure){SPAWN_STAGE_EXEC, EINVAL};
	if (ask->argv.n == 0 || ask->path == NULL || ask->path[0] == '\0')
		return -1;
	l.script_argv = make_script_argv(&ask->argv);
	l.dirs = search_dirs(ask);
	l.envp = ask->env.n > 0 ? ask->env.v : empty;
	failure->errnum = 0;
	pid = clone(child, stack + STACK_BYTES, CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, &l,
		    &made);
	free(l.script_argv);
	if (pid == -1) {
		*failure = (struct launch_failure){SPAWN_STAGE_FORK, errno};
		return -1;
	}
	if (failure->errnum != 0) {
		close(made);
		return -1;
	}
	*pidfd = made;
	return pid;
}
