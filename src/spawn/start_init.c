// SPDX-License-Identifier: Apache-2.0
/* The stub clones init into its namespaces and executes it.
 *
 * The child shares the stub's memory and the stub sleeps until the exec (CLONE_VM|CLONE_VFORK), so
 * that a large launcher is not copied. So the child only makes system calls and writes its failure
 * into one struct. Its working directory is the workspace: in unprivileged mode there is no other
 * way to carry a directory into the new mount namespace (new_root.c). */
#include "base/fdio.h"
#include "base/mem.h"
#include "sandbox/inside.h"
#include "sandbox/mnt.h"
#include "spawn/assignment.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define STACK_BYTES (64 * 1024)
#define FIRST_FREE 64 /* above every number that is about to be taken */
#define INIT_PROGRAM_FD (INIT_ASSIGNMENT_FD + 1)

static const struct {
	uint32_t flag;
	enum wall wall;
	bool needed; /* whatever walls the configuration lets be missing */
} namespaces[] = {
	{CLONE_NEWUSER, WALL_user_namespace, true},	 {CLONE_NEWNS, WALL_mount_namespace, true},
	{CLONE_NEWPID, WALL_pid_namespace, true},	 {CLONE_NEWUTS, WALL_uts_namespace, false},
	{CLONE_NEWIPC, WALL_ipc_namespace, false},	 {CLONE_NEWNET, WALL_net_namespace, false},
	{CLONE_NEWCGROUP, WALL_cgroup_namespace, false},
};

struct birth {
	int fd[4]; /* link, plan, assignment, program: in the order of their numbers */
	uint32_t flags;
	bool keep_caps;
	const struct identity *owner; /* that makes the user namespace; NULL: we do */
	char *stack;		      /* of init, with an owner */
	pid_t pid;		      /* the same; -1 with errno in errnum */
	const char *call;	      /* that failed */
	int errnum;
};

static int fail(struct birth *b, const char *call, int errnum)
{
	b->call = call;
	b->errnum = errnum;
	return 1;
}

static int child(void *arg)
{
	static char name[] = "agentsh-init";
	static char *const argv[] = {name, NULL};
	static char *const no_environment[] = {NULL};
	struct birth *b = arg;
	int high[ARRAY_LEN(b->fd)], errnum;

	if (b->keep_caps && (errnum = identity_keep_caps()) != 0)
		return fail(b, "PR_CAP_AMBIENT_RAISE", errnum);
	for (size_t i = 0; i < ARRAY_LEN(high); i++) {
		high[i] = fcntl(b->fd[i], F_DUPFD_CLOEXEC, FIRST_FREE);
		if (high[i] == -1)
			return fail(b, "fcntl(F_DUPFD_CLOEXEC)", errno);
	}
	for (int i = 0; i < 3; i++)
		if (dup2(high[i], INIT_LINK_FD + i) == -1)
			return fail(b, "dup2", errno);
	if (dup3(high[3], INIT_PROGRAM_FD, O_CLOEXEC) == -1 ||
	    syscall(SYS_close_range, INIT_PROGRAM_FD + 1, UINT_MAX, 0) < 0)
		return fail(b, "dup3", errno);
	syscall(SYS_execveat, INIT_PROGRAM_FD, "", argv, no_environment, AT_EMPTY_PATH);
	return fail(b, "execveat(agentsh-init)", errno);
}

/* As vfork. Blocks all signals around the clone, so that no handler of ours runs in the child; init
 * resets the mask. */
static pid_t clone_child(int (*fn)(void *), void *arg, uint32_t flags)
{
	cleanup_free char *stack = mem_alloc(STACK_BYTES);
	sigset_t all, old;
	pid_t pid;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &old);
	pid = clone(fn, stack + STACK_BYTES, (int)flags | CLONE_VM | CLONE_VFORK | SIGCHLD, arg);
	sigprocmask(SIG_SETMASK, &old, NULL);
	return pid;
}

/* A user namespace belongs to the user that makes it. The warden must be its owner, to look into it
 * without capabilities. So a process that has become the session's user makes it, and with it init
 * as our child. */
static int clone_as_owner(void *arg)
{
	struct birth *b = arg;

	b->errnum = identity_become(b->owner);
	if (b->errnum != 0)
		return 1;
	b->pid = clone(child, b->stack + STACK_BYTES,
		       (int)b->flags | CLONE_PARENT | CLONE_VM | CLONE_VFORK | SIGCHLD, b);
	if (b->pid == -1)
		b->errnum = errno;
	return 0;
}

static pid_t clone_init(struct birth *b)
{
	cleanup_free char *stack = mem_alloc(STACK_BYTES);
	pid_t helper;

	if (b->owner == NULL)
		return clone_child(child, b, b->flags);
	b->stack = stack;
	b->pid = -1;
	helper = clone_child(clone_as_owner, b, 0);
	if (helper == -1)
		return -1;
	waitpid(helper, NULL, 0);
	errno = b->errnum;
	return b->pid;
}

static uint32_t wanted(const struct sandbox_plan *plan, bool all)
{
	uint32_t flags = 0;

	for (size_t i = 0; plan->own_dir == NULL && i < ARRAY_LEN(namespaces); i++)
		if (all || namespaces[i].needed ||
		    !wall_listed(&plan->unenforced, namespaces[i].wall))
			flags |= namespaces[i].flag;
	return sandbox_user_namespace(plan) ? flags : flags & ~(uint32_t)CLONE_NEWUSER;
}

/* A clone that failed for want of processes or memory refuses no namespace. */
static bool is_crowded(int errnum)
{
	return errnum == EAGAIN || errnum == ENOMEM;
}

/* The wait status of a child that runs fn in new namespaces, or -1/errno. */
static int try_namespaces(int (*fn)(void *), uint32_t flags)
{
	const pid_t pid = clone_child(fn, NULL, flags);
	int status = -1;

	if (pid != -1)
		waitpid(pid, &status, 0);
	return status;
}

static int do_nothing(void *arg)
{
	return 0;
}

/* Some machines refuse only the mount (AppArmor). */
static int mount_something(void *arg)
{
	return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0;
}

/* Whether the operator allows a session without namespaces, and this machine gives none. */
static bool user_has_none(const struct sandbox_plan *plan)
{
	uint32_t needed = 0;
	int status;

	ensure(!plan->privileged);
	for (size_t i = 0; i < ARRAY_LEN(namespaces); i++) {
		if (!wall_listed(&plan->unenforced, namespaces[i].wall))
			return false;
		needed |= namespaces[i].needed ? namespaces[i].flag : 0;
	}
	status = try_namespaces(mount_something, needed);
	return status > 0 || (status == -1 && !is_crowded(errno));
}

bool sandbox_without_namespaces(const struct sandbox_plan *plan)
{
	return !plan->privileged && user_has_none(plan);
}

/* One clone asks for all namespaces and its error does not name the one that is refused: each is
 * tried alone. */
static int no_namespaces(const struct sandbox_plan *plan, uint32_t flags, struct err *err)
{
	const uint32_t user = flags & CLONE_NEWUSER;
	enum wall wall = user != 0 ? WALL_user_namespace : WALL_mount_namespace;
	const int errnum = errno;

	for (size_t i = 0; i < ARRAY_LEN(namespaces); i++)
		if ((flags & namespaces[i].flag) != 0 &&
		    try_namespaces(do_nothing, namespaces[i].flag | user) == -1) {
			wall = namespaces[i].wall;
			break;
		}
	errno = errnum;
	if (user != 0 && mnt_chrooted(wall_name(wall), err))
		return -E_ENFORCEMENT;
	if (wall != WALL_user_namespace)
		return err_errno(err, E_ENFORCEMENT, wall_name(wall),
				 "no %s for the session (it needs CAP_SYS_ADMIN and room below "
				 "/proc/sys/user/max_*_namespaces): clone",
				 wall_name(wall));
	return err_errno(
		err, E_ENFORCEMENT, wall_name(wall),
		"no user namespace for the session (allow them: user.max_user_namespaces, "
		"kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns; "
		"%s): clone",
		plan->privileged ? "or set sandbox.root_inside to false"
				 : "or run the server as root; or list " WALL_NAMESPACES
				   " in sandbox.allow_unenforced, for Landlock and seccomp alone");
}

static int start(const struct sandbox_start *s, uint32_t flags, int assignment, pid_t *pid,
		 struct err *err)
{
	cleanup_fd int plan_fd = -1;
	const struct identity owner = {s->plan->uid, s->plan->gid, true};
	const bool user = sandbox_user_namespace(s->plan);
	struct birth b = {.flags = flags,
			  .keep_caps = user,
			  .owner = user && s->plan->privileged ? &owner : NULL};
	struct sandbox_plan plan = *s->plan;
	pid_t made;
	int r;

	plan.namespaces = flags;
	r = plan_seal(&plan, &plan_fd, err);
	if (r < 0)
		return r;
	memcpy(b.fd, (const int[]){s->init_link, plan_fd, assignment, s->init_fd}, sizeof(b.fd));
	made = clone_init(&b);
	if (made == -1 && is_crowded(errno))
		return err_errno(err, E_UNAVAILABLE, "fork",
				 "cannot make a process for the session (limits: RLIMIT_NPROC, "
				 "pids.max, memory): clone");
	if (made == -1)
		return no_namespaces(s->plan, flags, err);
	if (b.call != NULL) {
		waitpid(made, NULL, 0);
		errno = b.errnum;
		return err_errno(err, E_UNAVAILABLE, b.call, "cannot start init: %s", b.call);
	}
	*pid = made;
	return 0;
}

int sandbox_prepare_init(const struct sandbox_start *s, struct sandbox_prepared *out,
			 struct err *err)
{
	const uint32_t all = wanted(s->plan, true), least = wanted(s->plan, false);
	cleanup_fd int ours = -1, theirs = -1;
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_errno(err, E_UNAVAILABLE, NULL, "socketpair");
	ours = pair[0];
	theirs = pair[1];
	if (!s->plan->privileged && (all & CLONE_NEWNS) != 0 && fchdir(s->tree_fd) < 0)
		return err_errno(err, E_UNAVAILABLE, NULL, "cannot enter the workspace");
	/* Processes that init leaves behind become children of the warden, which we will be. */
	if ((all & CLONE_NEWPID) == 0 && prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		return err_errno(err, E_ENFORCEMENT, wall_name(WALL_pid_namespace),
				 "PR_SET_CHILD_SUBREAPER");
	r = start(s, all, theirs, &out->pid, err);
	if (r == -E_ENFORCEMENT && least != all)
		r = start(s, least, theirs, &out->pid, err);
	if (chdir("/") < 0 && r == 0) /* init ends with its assignment */
		r = err_errno(err, E_UNAVAILABLE, NULL, "chdir(/)");
	if (r == 0)
		out->assignment = take_fd(ours);
	return r;
}

int sandbox_bind_init(const struct sandbox_prepared *p, int plan_fd, int tree_fd,
		      const struct sandbox_trees *view, struct err *err)
{
	const char byte = 0;
	int r = fdio_send(p->assignment, &byte, 1, (const int[]){plan_fd, tree_fd}, 2);

	if (r == 0)
		r = trees_send(p->assignment, view);
	/* If init has ended, its link has the reason. */
	if (r < 0 && errno != EPIPE && errno != ECONNRESET)
		return err_errno(err, E_UNAVAILABLE, NULL, "init does not accept its assignment");
	return 0;
}
