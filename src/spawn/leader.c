// SPDX-License-Identifier: Apache-2.0
/* Every running command has a leader. init forks a spare leader in advance; it does everything that
 * does not depend on the command, and waits for the next spawn. init forks another one a little
 * later, or when the next spawn comes. When no process of its command is left, a leader clones the
 * process of the next command, which waits for it on the leader's link, until the warden closes the
 * link.
 *
 * The warden notices a leader that dies (its link ends), init a spare one (a command may kill every
 * process of its uid). A spawn that the spare leader had not read is still there for the next one.
 * The children of a dead leader become init's: the warden asks init to end them all. */
#include "base/clock.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/process_tree.h"
#include "link/link.h"
#include "sandbox/command_walls.h"
#include "spawn/spawn.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define BLOCK_BYTES 512 /* getrusage(2) counts blocks of this size */
#define LEADER_LINK 3	/* among the descriptors of a spawn */
#define UMASK_USUAL 022 /* of most commands */
#define REST_MS 1	/* between the end of a command and the clone for the next one */
#define REST_LATE_US 1400
#define SPARE_MS 10 /* between the start of a command and the fork of the next spare leader */
#define CHILDREN_END_MS 10000
#define STACK_BYTES (64 * 1024)

/* For a process that ends; in a PID namespace the kernel ends its descendants. */
static void end_children(const struct command_walls *walls)
{
	if (walls->pid_namespace)
		return;
	tree_leave_dead();
	tree_end_own(CHILDREN_END_MS, walls->sweeper);
}

/* ---- the leader ---- */

/* A leader and the command that it leads now. */
struct led {
	const struct command_walls *walls;
	struct link l;
	int children; /* signalfd of SIGCHLD */
	mode_t umask;
	bool taking; /* the waiting process allocates; until then it can be killed and replaced */
	bool asked;  /* m and ask are what the warden asks for; else nothing has come yet */
	struct link_msg m;
	struct init_spawn ask;
	pid_t self;	   /* the leader */
	pid_t first;	   /* the command's first process */
	uint32_t starting; /* not 0 until the first process has executed its program, or is dead */
	bool ended;
	struct leader_exit end;
	struct leader_failed failed; /* errnum is 0: it has not */
};

static int fail(struct led *d, enum spawn_stage stage)
{
	d->failed = (struct leader_failed){stage, (uint32_t)errno};
	return 127;
}

static _Noreturn void leave(struct led *d)
{
	link_send(&d->l, MSG_leader_failed, 0, &d->failed, NULL, 0, NULL);
	_exit(1);
}

/* The warden has closed the link: it is dead, or has given up the command. */
static _Noreturn void give_up(const struct led *d, int status)
{
	end_children(d->walls);
	_exit(status);
}

static uint64_t microseconds(const struct timeval *t)
{
	return (uint64_t)t->tv_sec * 1000000 + (uint64_t)t->tv_usec;
}

/* Reaps all dead children and adds what they used; end.empty if no child is left. */
static void reap(struct led *d)
{
	struct rusage use;
	pid_t pid;
	int status;

	while ((pid = wait4(-1, &status, WNOHANG | __WALL, &use)) > 0) {
		d->end.cpu_us += microseconds(&use.ru_utime) + microseconds(&use.ru_stime);
		if (d->end.maxrss_kb < (uint64_t)use.ru_maxrss)
			d->end.maxrss_kb = (uint64_t)use.ru_maxrss;
		d->end.read_bytes += (uint64_t)use.ru_inblock * BLOCK_BYTES;
		d->end.write_bytes += (uint64_t)use.ru_oublock * BLOCK_BYTES;
		if (pid == d->first) {
			d->ended = true;
			d->end.status = (uint32_t)status;
		}
	}
	d->end.empty = pid == -1;
}

static void report(struct led *d, enum msg_type type, const void *obj, int fd)
{
	if (link_send(&d->l, type, 0, obj, &fd, fd >= 0 ? 1 : 0, NULL) != LINK_OK)
		give_up(d, 1);
}

/* Follows the command until no process of it is left. For the first brief_ms it waits by one system
 * call and does not look at the link; a command that ends by then is reported by its exit alone. */
static void follow(struct led *d, uint32_t brief_ms)
{
	const struct timespec brief = {brief_ms / 1000, (long)(brief_ms % 1000) * 1000000};
	struct pollfd p[] = {{d->children, POLLIN, 0}, {d->l.fd, 0, 0}};
	struct signalfd_siginfo info;
	bool started = false, reported = false;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	while (!d->end.empty) {
		if (reported || started) {
			/* Sleeps until a child has changed. The warden does not write to a leader
			 * at work; it can only close the link. */
			if (poll(p, ARRAY_LEN(p), -1) > 0) {
				if (p[1].revents != 0)
					give_up(d, 0);
				if (read(d->children, &info, sizeof(info)) != sizeof(info))
					give_up(d, 1);
			}
		} else if (brief_ms == 0 ||
			   (sigtimedwait(&set, NULL, &brief) == -1 && errno == EAGAIN)) {
			/* The kernel does not reuse the pid before we reap it. */
			cleanup_fd int pidfd = proc_pidfd(d->first);

			report(d, MSG_leader_started, &(struct leader_started){0}, pidfd);
			started = true;
			continue;
		}
		reap(d);
		if (d->ended && !reported)
			report(d, MSG_leader_exit, &d->end, -1);
		else if (d->end.empty)
			report(d, MSG_leader_empty, &d->end, -1);
		reported = d->ended;
	}
}

/* Makes a subreaper with a session of its own before the command is known. SIGCHLD stays blocked
 * and is read by a signalfd; every other signal has its default here and in the command. */
static void prepare(struct led *d)
{
	const struct sigaction plain = {.sa_handler = SIG_DFL, .sa_flags = SA_NOCLDSTOP};
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	if (sigaction(SIGCHLD, &plain, NULL) < 0 || sigprocmask(SIG_BLOCK, &set, NULL) < 0 ||
	    (d->children = signalfd(-1, &set, SFD_CLOEXEC)) == -1 || setsid() == -1 ||
	    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		fail(d, SPAWN_STAGE_FORK);
	prctl(PR_SET_NAME, "agentsh-leader", 0, 0, 0);
	umask(d->umask = UMASK_USUAL);
}

/* The next command, and its descriptors: stdin, stdout, stderr[, the program]; above 2,
 * close-on-exec. */
static bool receive(struct led *d)
{
	d->asked =
		link_recv(&d->l, &d->m, NULL) == LINK_OK && link_unpack(&d->m, &d->ask, NULL) == 0;
	return d->asked;
}

/* The stdio of the command; SPAWN_NULL: all three are /dev/null, whatever was passed. */
static int take_stdio(const struct led *d)
{
	const bool none = d->ask.stdio == SPAWN_NULL;
	const int null = none ? open("/dev/null", O_RDWR | O_CLOEXEC) : -1;

	for (int i = 0; i < 3; i++)
		if (dup2(none ? null : d->m.fd[i], i) == -1)
			return -1;
	return 0;
}

/* The first process of a command shares the leader's memory until its exec, and the leader sleeps
 * meanwhile. The process may have been cloned before the command is known: then it receives the
 * command itself, and dies with its leader until it has.
 *
 * The warden has found the program already: there is one exec, of a path that no command can change
 * or of a descriptor. The command's key, by which the warden recognises it, is one argument more
 * than the exec takes. A key works once, so another process that reads it in /proc gains nothing.
 */
static int child(void *arg)
{
	static char *const empty[] = {NULL};
	struct led *d = arg;
	const struct init_spawn *ask = &d->ask;
	struct pollfd next = {d->l.fd, POLLIN, 0};
	char *const *envp;
	sigset_t none;

	if (setsid() == -1)
		return fail(d, SPAWN_STAGE_FORK);
	if (!d->asked) {
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		if (getppid() != d->self || poll(&next, 1, -1) != 1)
			return 0;
		d->taking = true;
		if (!receive(d))
			return 0;
		prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
	}
	if (ask->argv.n == 0 || ask->path == NULL || ask->path[0] == '\0') {
		errno = EINVAL;
		return fail(d, SPAWN_STAGE_EXEC);
	}
	if (ask->cwd != NULL && chdir(ask->cwd) < 0)
		return fail(d, SPAWN_STAGE_CWD);
	errno = ENOTSUP;
	if ((ask->stdio != SPAWN_NULL && ask->stdio != SPAWN_PIPE) || take_stdio(d) < 0)
		return fail(d, SPAWN_STAGE_STDIO);
	if (d->umask != (ask->umask & 0777))
		umask(ask->umask & 0777);
	if (setrlimit(RLIMIT_NOFILE, &d->walls->files) < 0)
		return fail(d, SPAWN_STAGE_LIMITS);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	envp = ask->env.n > 0 ? ask->env.v : empty;
	if (d->m.nfds > 3)
		syscall(SYS_execveat, d->m.fd[3], "", ask->argv.v, envp, AT_EMPTY_PATH, ask->key);
	else
		syscall(SYS_execve, ask->path, ask->argv.v, envp, 0L, 0L, ask->key);
	return fail(d, SPAWN_STAGE_EXEC);
}

/* Clones the first process and sleeps until it has executed its program, or is dead. False: there
 * is no process. clone(2) and not clone3: the filter refuses clone3, because seccomp cannot read
 * its flags. */
static bool start(struct led *d)
{
	static char stack[STACK_BYTES] __attribute__((aligned(16)));
	uint32_t now = 1;

	__atomic_store_n(&d->starting, now, __ATOMIC_SEQ_CST);
	d->first = clone(child, stack + STACK_BYTES, CLONE_VM | CLONE_CHILD_CLEARTID | SIGCHLD, d,
			 NULL, NULL, &d->starting);
	if (d->first == -1)
		return false;
	while ((now = __atomic_load_n(&d->starting, __ATOMIC_SEQ_CST)) != 0)
		syscall(SYS_futex, &d->starting, FUTEX_WAIT, now, NULL, NULL, 0);
	return true;
}

/* Whether the process of the next command is cloned in advance. A clone at once would delay the
 * processes that carry the last answer. A leader that is woken late shows that the processors are
 * busy: then a process more costs more than it gains. */
static bool rest(const struct led *d)
{
	struct pollfd next = {d->l.fd, POLLIN, 0};
	const int64_t began_us = clock_mono_us(&clock_system);

	return poll(&next, 1, REST_MS) == 0 &&
	       clock_mono_us(&clock_system) - began_us < REST_LATE_US;
}

/* One command from its start to its last process. */
static void lead_one(struct led *d)
{
	bool received = d->asked; /* by the leader */

	d->ended = d->taking = false;
	d->end = (struct leader_exit){0};
	if ((!received && !rest(d)) || !start(d)) {
		if (!received && !receive(d))
			_exit(0);
		received = true;
		if (!start(d))
			fail(d, SPAWN_STAGE_FORK);
	}
	if (d->failed.errnum != 0)
		leave(d);
	if (!d->asked) {
		/* The link is closed, or the process was killed in an allocation. */
		if (d->taking)
			_exit(0);
		waitpid(d->first, NULL, __WALL);
		return;
	}
	/* A copy of the command's pipes here would keep them open after the command closed them. */
	if (received)
		link_msg_done(&d->m);
	follow(d, d->ask.brief_ms);
	msg_done(MSG_leader_spawn, &d->ask);
	d->asked = false;
}

/* ---- init's side ---- */

/* A spare leader receives from init's own link, so that a spawn wakes the process that will start
 * it and no other. It closes `spare` when init is to fork another spare leader. A broken
 * frame ends only this leader. */
static _Noreturn void wait_for_spawn(int link_fd, int spare, const struct command_walls *walls)
{
	struct led d = {.walls = walls, .self = getpid()};
	struct link l;

	prepare(&d);
	link_init(&l, link_fd, SIDE_INIT, SIDE_WARDEN);
	l.state = LINK_OPEN;
	if (link_recv(&l, &d.m, NULL) != LINK_OK || d.m.type != MSG_init_spawn ||
	    link_unpack(&d.m, &d.ask, NULL) < 0)
		_exit(1);
	close(spare);
	close(link_fd);
	link_init(&d.l, d.m.fd[LEADER_LINK], SIDE_LEADER, SIDE_WARDEN);
	if (d.failed.errnum == 0 && fcntl(d.l.fd, F_SETFL, 0) < 0)
		fail(&d, SPAWN_STAGE_FORK);
	if (d.failed.errnum != 0)
		leave(&d);
	d.m.nfds--;
	memmove(d.m.fd + LEADER_LINK, d.m.fd + LEADER_LINK + 1,
		(d.m.nfds - LEADER_LINK) * sizeof(*d.m.fd));
	for (d.asked = true;;)
		lead_one(&d);
}

/* Forks a spare leader; the returned pipe ends when it has got work or is dead. -1/errno. */
static int fork_spare(int link_fd, const struct command_walls *walls)
{
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	pid = oom_fork(&walls->oom);
	if (pid == 0) {
		close(ends[0]);
		wait_for_spawn(link_fd, ends[1], walls);
	}
	close(ends[1]);
	if (pid == -1)
		close(ends[0]);
	return pid == -1 ? -1 : ends[0];
}

/* init cannot fork a leader for the spawn that has arrived, and reports this in its place. */
static void refuse(int link_fd, int errnum)
{
	const struct leader_failed failed = {SPAWN_STAGE_FORK, (uint32_t)errnum};
	struct link from, to;
	struct link_msg m;

	link_init(&from, link_fd, SIDE_INIT, SIDE_WARDEN);
	from.state = LINK_OPEN;
	if (link_recv(&from, &m, NULL) == LINK_OK) {
		link_init(&to, take_fd(m.fd[LEADER_LINK]), SIDE_LEADER, SIDE_WARDEN);
		link_send(&to, MSG_leader_failed, 0, &failed, NULL, 0, NULL);
		link_done(&to);
		link_msg_done(&m);
	}
	buf_done(&from.in);
}

void leader_serve(struct link *l, int end_fd, const struct command_walls *walls)
{
	const int link_fd = l->fd;
	bool rests = false; /* a fork now would delay the command that has just come */
	int spare = -1;

	for (;;) {
		struct pollfd p[] = {{link_fd, 0, 0}, {-1, POLLIN, 0}, {end_fd, POLLIN, 0}};
		eventfd_t asked;
		int n;

		if (spare == -1 && !rests)
			spare = fork_spare(link_fd, walls);
		/* A spare leader receives from the link; without one, init does. */
		p[0].events = spare == -1 ? POLLIN : 0;
		p[1].fd = spare;
		while ((n = poll(p, ARRAY_LEN(p), rests ? SPARE_MS : -1)) == -1)
			;
		rests = false;
		if (n == 0)
			continue;
		if (p[2].revents == POLLIN && eventfd_read(end_fd, &asked) == 0) {
			/* kill(-1) of a PID namespace's init meets no fork that is under way. */
			if (getpid() == 1)
				kill(-1, SIGKILL);
			else
				tree_end_own(CHILDREN_END_MS, walls->sweeper);
			while (getpid() == 1 && (waitpid(-1, NULL, __WALL) > 0 || errno == EINTR))
				;
			link_send(l, MSG_init_ended, 0, &(struct msg_empty){0}, NULL, 0, NULL);
			mem_cleanup_fd(&spare);
			continue;
		}
		if ((p[0].revents & ~POLLIN) != 0) {
			if (walls->sweeper == 0)
				end_children(walls);
			return;
		}
		if (spare != -1) {
			close(take_fd(spare));
			rests = true;
			continue;
		}
		spare = fork_spare(link_fd, walls);
		if (spare == -1)
			refuse(link_fd, errno);
	}
}
