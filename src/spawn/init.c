// SPDX-License-Identifier: Apache-2.0
/* agentsh-init: the steps in the order of docs/architecture/session.md, and the report of them.
 *
 * Invariants once READY is sent: PID 1 (without a PID namespace a subreaper), the session's uid, no
 * capability, non-dumpable, no descriptor of the host besides the link. It never waits for a child:
 * it ignores SIGCHLD, so that the kernel reaps for it. */
#include "base/fdio.h"
#include "base/mem.h"
#include "link/link.h"
#include "sandbox/inside.h"
#include "spawn/assignment.h"
#include "spawn/spawn.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#define NO_MOUNTS                                                                               \
	"run the server as root, or where user namespaces may mount (no AppArmor or container " \
	"rule "                                                                                 \
	"against it)"
#define LIMITS_REMEDY "rlimits must be allowed to be lowered"
#define LANDLOCK_REMEDY \
	"Linux 5.13 with landlock among lsm=, or list landlock in sandbox.allow_unenforced"
#define CAPS_REMEDY "the server needs CAP_SETUID, CAP_SETGID and CAP_SETPCAP"
#define PRCTL_REMEDY "a filter around the server must let prctl(PR_SET_DUMPABLE) through"

struct step {
	int (*run)(struct inside *in, struct err *err); /* NULL: the end of the list */
	enum wall wall;
	bool optional; /* may fail where the configuration lets the wall be missing */
	const char *remedy;
};
/* Before the session is known. */
static const struct step prepared[] = {
	{inside_map_ids, WALL_user_namespace, false,
	 "user namespaces must be allowed and /proc be mounted"},
	{inside_root, WALL_mount_namespace, false, NO_MOUNTS},
	{inside_dev, WALL_mount_namespace, false, NO_MOUNTS},
	{inside_proc, WALL_pid_namespace, false,
	 "a container must leave /proc unmasked (--security-opt systempaths=unconfined), or list "
	 "pid_namespace in sandbox.allow_unenforced"},
	{inside_pivot, WALL_mount_namespace, false, NO_MOUNTS},
	{inside_net, WALL_net_namespace, true, "or list net_namespace in sandbox.allow_unenforced"},
	{inside_rules, WALL_landlock, true, LANDLOCK_REMEDY},
	{inside_bounds, WALL_capabilities, false, CAPS_REMEDY},
	{0},
};
/* With it; the filter comes after every step that it would refuse. */
static const struct step bound[] = {
	{inside_session, WALL_mount_namespace, false, NO_MOUNTS},
	{inside_hostname, WALL_uts_namespace, true,
	 "or list uts_namespace in sandbox.allow_unenforced"},
	{inside_identity, WALL_capabilities, false, CAPS_REMEDY},
	{inside_no_new_privs, WALL_no_new_privs, true,
	 "or list no_new_privs in sandbox.allow_unenforced"},
	{inside_limits, WALL_capabilities, false, LIMITS_REMEDY},
	{inside_landlock, WALL_landlock, true, LANDLOCK_REMEDY},
	{inside_undumpable, WALL_process_separation, false, PRCTL_REMEDY},
	{inside_seccomp, WALL_seccomp, true,
	 "the kernel needs CONFIG_SECCOMP_FILTER, or list seccomp in sandbox.allow_unenforced"},
	{0},
};
/* Without namespaces: there are no mounts, and every wall is required. */
static const struct step bare_bound[] = {
	{bare_place, WALL_mount_namespace, false, "or run the server where namespaces can be had"},
	{inside_identity, WALL_capabilities, false,
	 "run the server as a user without capabilities"},
	{inside_no_new_privs, WALL_no_new_privs, false, "without namespaces it must be up"},
	{inside_limits, WALL_capabilities, false, LIMITS_REMEDY},
	{bare_separation, WALL_process_separation, false,
	 "Linux 6.12, or list process_separation in sandbox.allow_unenforced"},
	{bare_landlock, WALL_landlock, false,
	 "without namespaces it must be up (Linux 5.13 with landlock among lsm=)"},
	{inside_undumpable, WALL_process_separation, false, PRCTL_REMEDY},
	{inside_seccomp, WALL_seccomp, false,
	 "without namespaces it must be up (CONFIG_SECCOMP_FILTER)"},
	{0},
};

/* The two kinds of session: without namespaces, and with them. */
static const struct {
	const struct step *prepare, *bind;
} kinds[] = {{(const struct step[]){{0}}, bare_bound}, {prepared, bound}};

static int run_step(struct inside *in, const struct step *step, struct err *err)
{
	enum wall wall = step->wall;
	int r = step->run(in, err);

	if (r == 0)
		return 0;
	/* The filter is two walls. Whether it may do without its listener is decided in its step.
	 */
	if (strcmp(err->subject, wall_name(WALL_exec_policy)) == 0) {
		wall = WALL_exec_policy;
	} else if (step->optional && wall_listed(&in->plan.unenforced, wall)) {
		wall_set(&in->walls, wall, WALL_UNAVAILABLE, "%s", err->message);
		return 0;
	}
	return err_set(err, E_ENFORCEMENT, wall_name(wall), "%s; %s", err->message, step->remedy);
}

static int run_steps(struct inside *in, const struct step *step, struct err *err)
{
	int r = 0;

	for (; r == 0 && step->run != NULL; step++)
		r = run_step(in, step, err);
	return r;
}

static int prepare(struct inside *in, int plan_fd, struct err *err)
{
	sigset_t none;
	int r;

	/* Resets what fork and exec of the stub left: signals, mask, umask. */
	for (int sig = 1; sig < _NSIG; sig++)
		signal(sig, SIG_DFL);
	signal(SIGCHLD, SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	umask(0);
	prctl(PR_SET_NAME, "agentsh-init", 0, 0, 0);
	r = plan_load(plan_fd, &in->plan, err);
	close(plan_fd);
	in->namespaces = in->plan.namespaces;
	if (r == 0 && in->plan.state_program == NULL)
		r = err_set(err, E_BAD_REQUEST, NULL, "the plan lacks a program");
	in->walls_of_commands.pid_namespace = (in->namespaces & CLONE_NEWPID) != 0;
	if (r == 0)
		r = run_steps(in, kinds[in->namespaces != 0].prepare, err);
	oom_open(&in->walls_of_commands.oom);
	return r;
}

/* Waits for the session: the whole plan and its workspace. 1: the launcher needs no session. */
static int take_assignment(struct inside *in, int assignment, struct err *err)
{
	const char word = SANDBOX_PREPARED;
	int fd[2];
	size_t nfds = ARRAY_LEN(fd);
	char byte;
	int r;

	fdio_send(assignment, &word, 1, NULL, 0);
	if (assignment_recv(assignment, &byte, fd, &nfds) != 1)
		return 1;
	if (nfds != ARRAY_LEN(fd))
		return err_set(err, E_BAD_REQUEST, NULL, "the assignment lacks a descriptor");
	sandbox_plan_done(&in->plan);
	r = plan_load(fd[0], &in->plan, err);
	close(fd[0]);
	if (r == 0)
		r = trees_receive(assignment, in->plan.trees + in->plan.fuse, &in->view, err);
	close(assignment);
	if (in->tree_fd == -1)
		in->tree_fd = fd[1];
	else
		close(fd[1]);
	if (r == 0 && in->plan.fuse) {
		cleanup_fd int mount = in->view.fd[--in->view.n];

		r = inside_open_served(in, mount, err);
	}
	if (r == 0 && (in->plan.session_id == NULL || in->plan.hostname == NULL))
		r = err_set(err, E_BAD_REQUEST, NULL, "the plan lacks a name");
	return r;
}

static int send_ready(struct link *l, struct inside *in, int end_fd, struct err *err)
{
	/* The last five are of a session without namespaces. */
	struct init_ready ready = {.pid = (uint32_t)getpid(),
				   .workspace = in->plan.workspace,
				   .own_dir = in->plan.own_dir,
				   .writable = in->writable,
				   .shown = in->shown,
				   .real_path = in->plan.real_path,
				   .home = in->plan.home,
				   .may_lack = wall_listed(&in->plan.unenforced, WALL_file_rules),
				   .state_program = in->plan.state_program};
	cleanup_fd int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	const int fd[] = {root, in->state_fd, end_fd, in->listener_fd};
	const size_t nfds = in->listener_fd >= 0 ? 4 : 3;
	int r = 0;

	if (in->namespaces != 0)
		inside_describe(in, &in->files);
	if (root == -1)
		return err_errno(err, E_INTERNAL, "/", "open(/)");
	if (end_fd == -1)
		return err_errno(err, E_INTERNAL, NULL, "eventfd");
	wall_pack(&in->walls, &ready.walls);
	file_view_pack(&in->files, &ready.files);
	if (link_send(l, MSG_init_ready, 0, &ready, fd, nfds, err) != LINK_OK)
		r = -err->code;
	strv_done(&ready.walls);
	strv_done(&ready.files);
	return r;
}

int sandbox_init_main(int link_fd, int plan_fd, int assignment_fd)
{
	struct inside in = {.tree_fd = -1,
			    .root_fd = -1,
			    .etc_fd = -1,
			    .state_fd = -1,
			    .listener_fd = -1,
			    .ruleset_fd = -1};
	cleanup_fd int end_fd = -1;
	struct err err = {0};
	struct link l;
	int r;

	link_init(&l, link_fd, SIDE_INIT, SIDE_WARDEN);
	wall_report_init(&in.walls);
	for (int i = 0; i < 3; i++)
		fcntl((const int[]){link_fd, plan_fd, assignment_fd}[i], F_SETFD, FD_CLOEXEC);
	r = prepare(&in, plan_fd, &err);
	if (r == 0)
		r = take_assignment(&in, assignment_fd, &err);
	if (r == 0)
		r = run_steps(&in, kinds[in.namespaces != 0].bind, &err);
	end_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (r == 0)
		r = send_ready(&l, &in, end_fd, &err);
	else if (r < 0)
		link_send(&l, MSG_init_failed, 0, &(struct init_failed){err.subject, err.message},
			  NULL, 0, NULL);
	inside_done(&in);
	if (r == 0)
		leader_serve(&l, end_fd, &in.walls_of_commands);
	link_done(&l);
	return r < 0;
}
