// SPDX-License-Identifier: Apache-2.0
/* The stub: forked from the launcher, still privileged. It joins the group, starts init, waits for
 * its assignment (spawn/assignment.h), gives its power up and executes the warden: nothing of the
 * warden's runs with power. What fails before is said when the assignment comes.
 *
 * It dies with the launcher (PDEATHSIG, and its socket ends), and holds none of its descriptors and
 * not its lock. The assignment brings the lock, so that the next launcher cannot look for sessions
 * while this one is between being told and being found. */
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "launcher/launcher_state.h"
#include "sandbox/rlimit.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>

static int leave_launcher(const struct launcher *l, struct err *err)
{
	const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t none;

	signal(SIGPIPE, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	umask(0022);
	if (null == -1 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
	    dup2(l->log_fd, STDERR_FILENO) < 0 || setsid() < 0 || chdir("/") < 0 ||
	    setrlimit(RLIMIT_NOFILE, &l->nofile) < 0)
		return err_errno(err, E_UNAVAILABLE, NULL, "cannot prepare the warden");
	return 0;
}

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static void close_others(const struct stub *s)
{
	const struct launcher *l = s->l;
	int keep[4 + CGROUP_TREES] = {s->sock, l->programs.warden_fd, l->programs.init_fd};
	size_t n = 3;

	if (s->tree_fd != -1)
		keep[n++] = s->tree_fd;
	for (size_t i = 0; i < l->groups.host.n; i++)
		keep[n++] = l->groups.host.tree[i].dir;
	qsort(keep, n, sizeof(keep[0]), compare);
	fdio_close_except(keep, n);
}

/* Whatever is started from now on is held by the session's limits. */
static int enter_group(const struct stub *s, struct cgroup_files *files, struct err *err)
{
	const struct cgroup_host *host = &s->l->groups.host;
	char id[GROUP_ID_MAX];
	int r;

	if (s->group == 0)
		return 0;
	group_id(s->l, s->group, id);
	if (s->makes_group)
		group_make(s->l, s->group);
	r = s->born_in_it ? 0 : cgroup_join(host, id, 0, err);
	if (r == 0)
		cgroup_files_open(host, id, files);
	return r;
}

static int pass_on(int fd)
{
	return fd < 0 ? 0 : fcntl(fd, F_SETFD, 0);
}

static int pass_files(const struct cgroup_files *f)
{
	for (size_t i = 0; i < f->n; i++)
		if (pass_on(f->file[i].fd) < 0)
			return -1;
	return pass_on(f->event) < 0 || pass_on(f->notify) < 0 ? -1 : 0;
}

static int become_warden(const struct stub *s, const struct launcher_warden *w,
			 const struct cgroup_files *files, struct err *err)
{
	const int keep[] = {w->listen_fd, w->api_fd, w->init_fd,
			    w->ring_fd,	  w->ack_fd, w->policy_fd};
	struct strv argv = {0};

	s->l->warden_argv(w, &argv);
	for (size_t i = 0; i < ARRAY_LEN(keep); i++)
		if (pass_on(keep[i]) < 0)
			return err_errno(err, E_INTERNAL, w->session_id,
					 "cannot pass a descriptor");
	if (pass_files(files) < 0)
		return err_errno(err, E_INTERNAL, w->session_id, "cannot pass a counter");
	return sandbox_execute_warden(s->l->programs.warden_fd, argv.v, err);
}

/* Waits, and is no longer the launcher's when the assignment has come. */
static _Noreturn void serve(const struct stub *s, const struct waiting_stub *w, int init_fd,
			    const struct cgroup_files *files)
{
	struct strv counters = {0};
	int fd[ASSIGNMENT_FDS];
	struct err err = {0};
	struct assignment o;

	cgroup_files_format(files, &counters);
	/* init was born with what its commands may have; who sends it descriptors needs more. */
	rlimit_raise_files();
	assignment_apply(w, &o, fd);
	const struct launcher_warden warden = {
		.session_id = o.session_id,
		.listen_fd = fd[ASSIGNMENT_LISTEN],
		.api_fd = fd[ASSIGNMENT_API],
		.init_fd = init_fd,
		.ring_fd = fd[ASSIGNMENT_RING],
		.ack_fd = fd[ASSIGNMENT_ACK],
		.policy_fd = fd[ASSIGNMENT_POLICY],
		.init_pid = w->init.pid,
		.api_uid = o.api_uid,
		.log_level = (int)o.log_level,
		.log_format = (int)o.log_format,
		.walls = &o.walls,
		.counters = &counters,
	};

	become_warden(s, &warden, files, &err);
	assignment_give_up(fd[ASSIGNMENT_REPORT], &err);
}

static int prepare(const struct stub *s, struct err *err)
{
	struct sandbox_start start = {s->plan, s->l->programs.init_fd, -1, s->tree_fd, NULL};
	struct waiting_stub w = {.sock = s->sock, .userns = -1};
	struct cgroup_files files = CGROUP_FILES_NONE;
	int link[2];
	int r = enter_group(s, &files, err);

	if (r == 0)
		r = link_pair(link, err);
	if (r < 0)
		return r;
	start.init_link = link[1];
	r = sandbox_prepare_init(&start, &w.init, err);
	close(link[1]);
	/* Where there is none, the launcher says so to the session that needs it. */
	if (r == 0 && s->map.shown_uid != 0)
		sandbox_idmap(&s->map, &w.userns, NULL);
	if (r == 0)
		serve(s, &w, link[0], &files);
	return r;
}

void stub_main(const struct stub *s, pid_t parent)
{
	struct err err = {0};

	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent)
		_exit(125);
	if (leave_launcher(s->l, &err) == 0) {
		close_others(s);
		prepare(s, &err);
	}
	assignment_refuse(s->sock, &err);
}
