// SPDX-License-Identifier: Apache-2.0
/* A child dies with the launcher (PDEATHSIG, set after the change of uid, which would clear it). */
#include "launcher/child.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/proc.h"
#include "bpf/exec_check_link.h"
#include "launcher/launcher_state.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>

int child_open(struct child *c, pid_t pid, struct err *err)
{
	if (pid < 0)
		return err_errno(err, E_UNAVAILABLE, NULL, "fork");
	*c = (struct child){.pid = pid, .pidfd = proc_pidfd(pid)};
	if (c->pidfd >= 0)
		return 0;
	err_errno(err, E_UNAVAILABLE, NULL, "pidfd_open");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	*c = CHILD_NONE;
	return -E_UNAVAILABLE;
}

bool child_begin(const struct launcher *l)
{
	const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t none;

	signal(SIGPIPE, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	return null != -1 && dup2(null, STDIN_FILENO) == 0 && dup2(null, STDOUT_FILENO) > 0 &&
	       dup2(l->settings.log_fd, STDERR_FILENO) > 0;
}

static _Noreturn void become(const struct launcher *l, size_t program, uid_t uid, int link,
			     pid_t parent)
{
	const char *name = program_name(program);
	const struct sandbox_plan user = {.privileged = l->privileged, .uid = uid, .gid = uid};
	char number[16];
	char *argv[] = {(char *)(uintptr_t)name, (char[]){"--link-fd"}, number, NULL};
	struct err err = {0};

	snprintf(number, sizeof(number), "%d", link);
	close(l->place.lock_fd);
	/* A terminal sends ^C and hang-up to the whole process group: the launcher acts on them. */
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	/* Descriptors other than stdio and the link close at exec. */
	if (!child_begin(l) || fcntl(link, F_SETFD, 0) < 0)
		err_errno(&err, E_UNAVAILABLE, name, "cannot pass descriptors");
	else if ((program == PROGRAM_BPF ? sandbox_become_holder(uid, uid, BPF_CAPS, &err)
					 : sandbox_become_user(&user, &err)) == 0 &&
		 prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 && getppid() == parent)
		sandbox_execute(l->programs.fd[program], argv, &err);
	log_error("cannot start a child", "program", name, "error", err.message);
	_exit(125);
}

int child_start(struct child *c, const struct launcher *l, size_t program, uid_t uid, int *link,
		struct err *err)
{
	const pid_t parent = getpid();
	cleanup_fd int ours = -1, theirs = -1;
	int pair[2];
	int r = link_pair(pair, err);
	pid_t pid;

	if (r < 0)
		return r;
	ours = pair[0];
	theirs = pair[1];
	pid = fork();
	if (pid == 0)
		become(l, program, uid, theirs, parent);
	r = child_open(c, pid, err);
	if (r == 0)
		*link = take_fd(ours);
	return r;
}

int child_watch(struct child *c, struct loop *loop, watch_fn *fn, void *arg, struct err *err)
{
	c->death = watch_readable(loop, c->pidfd, fn, arg);
	return watch_start(c->death) == 0
		       ? 0
		       : err_set(err, E_UNAVAILABLE, NULL, "cannot watch a child: " LOOP_FULL);
}

void child_kill(const struct child *c)
{
	if (c->pidfd != -1)
		proc_pidfd_signal(c->pidfd, SIGKILL);
}

bool child_ended(struct child *c, siginfo_t *si)
{
	if (waitid(P_PIDFD, (id_t)c->pidfd, si, WEXITED | WNOHANG) < 0 || si->si_pid == 0)
		return false;
	child_forget(c);
	return true;
}

void child_end(struct child *c, siginfo_t *si)
{
	child_kill(c);
	if (c->pidfd != -1)
		waitid(P_PIDFD, (id_t)c->pidfd, si, WEXITED);
	child_forget(c);
}

void child_forget(struct child *c)
{
	watch_free(c->death);
	mem_cleanup_fd(&c->pidfd);
	*c = CHILD_NONE;
}

void death_reason(const char *who, const siginfo_t *si, char *out, size_t n)
{
	const char *name = sigabbrev_np(si->si_status);

	if (si->si_code == CLD_EXITED)
		snprintf(out, n, "%s ended with exit status %d", who, si->si_status);
	else
		snprintf(out, n, "%s was killed by signal %s (%d)", who, name != NULL ? name : "?",
			 si->si_status);
}
