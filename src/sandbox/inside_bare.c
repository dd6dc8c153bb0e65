// SPDX-License-Identifier: Apache-2.0
/* A session without namespaces sees the machine's own files. Landlock decides which of them it may
 * open, and the filter refuses the rest (seccomp_shared_rows).
 *
 * Landlock only grants. If a path that must stay hidden lies in a granted tree, the session is
 * refused. Every path is opened once, checked by its real name, and granted as it was opened. */
#include "base/fdio.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/proc.h"
#include "sandbox/inside.h"
#include "sandbox/landlock.h"
#include "sandbox/mnt.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#define RUN (LANDLOCK_READ | LANDLOCK_EXEC)
#define WORKSPACE "/" INSIDE_WORKSPACE

/* ---- the report of the walls that are missing ---- */

static const struct {
	enum wall wall;
	const char *detail;
} lacking[] = {
	{WALL_user_namespace, "not available here: the session has the user's own ids and groups"},
	{WALL_mount_namespace, "the machine's own view: no /workspace, no /run/agentsh; Landlock "
			       "opens system, workspace, own home and tmp"},
	{WALL_pid_namespace, "the machine's own: names and arguments of its processes can be seen"},
	{WALL_net_namespace, "the machine's own: no socket can be made in it"},
	{WALL_ipc_namespace, "the machine's own: System V IPC and queues are refused"},
	{WALL_uts_namespace, "the machine's own name"},
	{WALL_cgroup_namespace, "/proc shows the machine's cgroup paths"},
};

/* Without a PID namespace the server ends a session by finding its processes in /proc. A mount
 * option hidepid would hide them. */
int bare_check_proc(char *mountinfo, struct err *err)
{
	struct mnt_line line;

	while (mnt_next(&mountinfo, &line)) {
		const char *hidepid = line.rest != NULL ? strstr(line.rest, "hidepid=") : NULL;

		if (strcmp(line.point, "/proc") == 0 && strcmp(line.type, "proc") == 0 &&
		    hidepid != NULL && strncmp(hidepid, "hidepid=0", 9) != 0 &&
		    strncmp(hidepid, "hidepid=off", 11) != 0)
			return err_set(err, E_ENFORCEMENT, "/proc",
				       "/proc is mounted with hidepid: a session could hide "
				       "processes from their end; mount it without");
	}
	return 0;
}

int bare_place(struct inside *in, struct err *err)
{
	cleanup_buf struct buf mounts = {0};
	int r;

	/* Captures come through the warden: nothing listens here. */
	in->state_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	r = inside_take_stdio(in->state_fd, err);
	if (r == 0)
		r = fdio_load_path("/proc/self/mountinfo", MNT_LIST_MAX, &mounts, err);
	if (r == 0)
		r = bare_check_proc(mounts.data, err);
	if (r < 0)
		return r;
	if (in->plan.workspace == NULL || in->plan.own_dir == NULL)
		return err_set(err, E_BAD_REQUEST, NULL, "the plan lacks a directory");
	if (chdir("/") < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		return err_errno(err, E_ENFORCEMENT, "/", "PR_SET_CHILD_SUBREAPER");
	for (size_t i = 0; i < ARRAY_LEN(lacking); i++)
		wall_set(&in->walls, lacking[i].wall, WALL_UNAVAILABLE, "%s", lacking[i].detail);
	wall_set(&in->walls, WALL_network_rules, WALL_ABSENT,
		 "there are no sockets at all: the filter refuses them");
	if (in->plan.scratch_mb == 0)
		return 0;
	if (!wall_listed(&in->plan.unenforced, WALL_disk_limit))
		return err_set(err, E_ENFORCEMENT, NULL,
			       "max_disk_mb needs a mount namespace, or disk_limit in "
			       "sandbox.allow_unenforced");
	wall_set(&in->walls, WALL_disk_limit, WALL_UNAVAILABLE,
		 "own home and tmp are directories of the machine");
	return 0;
}

int bare_separation(struct inside *in, struct err *err)
{
	const int abi = landlock_abi();

	if (abi >= LANDLOCK_SCOPES_ABI)
		return 0;
	if (!wall_listed(&in->plan.unenforced, WALL_process_separation))
		return err_set(err, E_ENFORCEMENT, NULL,
			       "without a PID namespace, Landlock ABI %d lets a command signal "
			       "every process of its user",
			       abi);
	wall_set(&in->walls, WALL_process_separation, WALL_UNAVAILABLE,
		 "all share uid %u, and with Landlock ABI %d a command can signal the server",
		 in->plan.uid, abi);
	return 0;
}

/* ---- grants ---- */

struct grant {
	int fd; /* owned */
	char *name, *real;
	unsigned access;
	bool tree;
};
struct grants {
	const struct inside *in;
	struct grant *v;
	size_t n;
};

/* Takes fd. */
static void put(struct grants *g, int fd, const char *name, const char *real, unsigned access)
{
	struct stat st;
	const bool tree = fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);

	g->v = mem_resize(g->v, g->n + 1, sizeof(*g->v));
	g->v[g->n++] = (struct grant){fd, mem_strdup(name), mem_strdup(real), access, tree};
}

enum need { MAY_LACK, MUST_EXIST, LISTED /* may lack, and a list of the configuration has it */ };
static int give(struct grants *g, const char *path, unsigned access, enum need need,
		struct err *err)
{
	const struct strv *kept = &g->in->plan.kept_out;
	cleanup_fd int fd = -1;
	char real[PATH_MAX];
	int r = inside_resolve(path, real, &fd, err);

	if (r == 0 && fd == -1 && need == MUST_EXIST)
		r = err_errno(err, E_ENFORCEMENT, path, "cannot open %s", path);
	if (r == 0 && fd != -1 && need == LISTED)
		r = inside_may_show(&g->in->plan, path, real, err);
	if (r < 0 || fd == -1)
		return r;
	/* A process that can read these directories controls the server. */
	for (size_t i = 0; need == LISTED && i < kept->n; i++) {
		cleanup_free char *dir = realpath(kept->v[i], NULL);

		if (dir != NULL && path_overlap(real, dir))
			return err_set(err, E_ENFORCEMENT, path,
				       "without a mount namespace %s would show %s, which is the "
				       "server's own",
				       path, dir);
	}
	put(g, take_fd(fd), path, real, access);
	return 0;
}

/* A path below /workspace belongs to the workspace; Landlock cannot make a part of it read-only. */
static int give_list(struct grants *g, const struct strv *list, unsigned access, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < list->n; i++) {
		const char *path = list->v[i];

		if (!path_within(path, WORKSPACE))
			r = give(g, path, inside_is_system(path) ? RUN : access, LISTED, err);
		else if (access == RUN)
			r = err_set(err, E_ENFORCEMENT, path,
				    "%s of filesystem.read_only_passthrough_paths cannot be shut "
				    "without a mount namespace",
				    path);
	}
	return r;
}

static int give_workspace(struct grants *g, struct err *err)
{
	const char *path = g->in->plan.workspace;
	const int fd = fcntl(g->in->tree_fd, F_DUPFD_CLOEXEC, 3);
	char real[PATH_MAX];

	if (mnt_name(fd, real) <= 0)
		return err_errno(err, E_ENFORCEMENT, path, "cannot read the name of %s", path);
	put(g, fd, path, real, LANDLOCK_ALL);
	/* The session uses the workspace by this name, so the name must lead to it. */
	if (strcmp(real, path) != 0)
		return err_set(err, E_ENFORCEMENT, path, "workspace %s has been moved", path);
	return 0;
}

static int check_blocked(const struct grants *g, struct err *err)
{
	const struct strv *blocked = &g->in->plan.blocked_paths;

	for (size_t i = 0; i < blocked->n; i++) {
		const char *path = blocked->v[i];
		const bool inside = path_within(path, WORKSPACE);
		cleanup_free char *here = mem_printf("%s%s", inside ? g->in->plan.workspace : "",
						     inside ? path + strlen(WORKSPACE) : path);
		cleanup_free char *real = realpath(here, NULL);

		for (size_t k = 0; real != NULL && k < g->n; k++)
			if (path_overlap(real, g->v[k].real))
				return err_set(
					err, E_ENFORCEMENT, path,
					"%s of filesystem.blocked_paths cannot be taken out of %s "
					"without a mount namespace",
					path, g->v[k].name);
	}
	return 0;
}

/* The filter trusts the program that sends a shell's state by its path: no command may change it.
 */
static int check_program(const struct grants *g, const char *program, struct err *err)
{
	cleanup_free char *real = realpath(program, NULL);

	for (size_t i = 0; real != NULL && i < g->n; i++)
		if ((g->v[i].access & LANDLOCK_CHANGE) != 0 && path_within(real, g->v[i].real))
			return err_set(err, E_ENFORCEMENT, real,
				       "the server's program %s lies in %s, where the session may "
				       "write; install it elsewhere",
				       real, g->v[i].name);
	return 0;
}

static int collect(struct grants *g, struct err *err)
{
	const struct sandbox_plan *p = &g->in->plan;
	cleanup_free char *own_home = mem_printf("%s/%s", p->own_dir, SANDBOX_OWN_HOME);
	const char *home = p->home != NULL ? p->home : own_home;
	cleanup_free char *tmp = mem_printf("%s/%s", p->own_dir, SANDBOX_OWN_TMP);
	const struct {
		const char *path;
		unsigned access;
	} own[] = {{home, LANDLOCK_ALL},
		   {tmp, LANDLOCK_ALL},
		   {"/proc", LANDLOCK_READ},
		   {p->state_program, RUN}};
	struct strv etc = {0};
	int r = give_workspace(g, err);

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(own); i++)
		r = give(g, own[i].path, own[i].access, MUST_EXIST, err);
	if (r == 0 && p->acmd_program != NULL)
		r = give(g, p->acmd_program, RUN, MUST_EXIST, err);
	if (r == 0)
		r = give_list(g, &p->read_only_paths, RUN, err);
	if (r == 0)
		r = give_list(g, &p->passthrough_paths, LANDLOCK_ALL, err);
	if (r == 0)
		r = give_list(g, &p->monitored_paths, LANDLOCK_ALL, err);
	for (size_t i = 0; r == 0 && i < INSIDE_DEVICES; i++)
		r = give(g, inside_devices[i].path, LANDLOCK_READ | LANDLOCK_CHANGE, MAY_LACK, err);
	inside_etc_paths(&etc);
	for (size_t i = 0; r == 0 && i < etc.n; i++)
		r = give(g, etc.v[i], LANDLOCK_READ, MAY_LACK, err);
	strv_done(&etc);
	if (r == 0)
		r = check_blocked(g, err);
	if (r == 0)
		r = check_program(g, p->state_program, err);
	return r < 0 || p->acmd_program == NULL ? r : check_program(g, p->acmd_program, err);
}

/* ---- the wall ---- */

/* Leaves a process behind that kills the session's processes when init has ended, for whatever
 * reason. The session cannot signal it: from here on it has a scope of its own within the domain.
 * kill(-1) reaches all that the domain contains, and no fork is under way meanwhile: a fork bomb
 * cannot outrun it. Only where scopes work, which is tried on the warden, our parent. */
static int leave_sweeper(struct inside *in, struct err *err)
{
	cleanup_fd int self = proc_pidfd(getpid());
	struct pollfd init = {self, POLLIN, 0};
	pid_t pid;

	if (kill(getppid(), 0) == 0 || errno != EPERM)
		return err_set(err, E_ENFORCEMENT, NULL, "a signal to the warden is not refused");
	pid = self == -1 ? -1 : fork();
	if (pid == -1)
		return err_errno(err, E_ENFORCEMENT, NULL,
				 "cannot start the process that ends the session");
	if (pid == 0) {
		prctl(PR_SET_NAME, "agentsh-sweep", 0, 0, 0);
		fdio_close_except(&self, 1);
		while (poll(&init, 1, -1) != 1)
			;
		kill(-1, SIGKILL);
		_exit(0);
	}
	errno = landlock_enter_scopes(LANDLOCK_SIGNALS);
	if (errno != 0)
		return err_errno(err, E_ENFORCEMENT, NULL, "landlock_restrict_self");
	if (kill(pid, 0) == 0 || errno != EPERM)
		return err_set(err, E_ENFORCEMENT, NULL, "a signal to the sweeper is not refused");
	in->walls_of_commands.sweeper = pid;
	return 0;
}

/* Everything else of the machine can be looked at, too, but not opened. */
static void describe(const struct grants *g, const struct landlock_rule *rules,
		     struct file_view *out)
{
	places_add(out, "/", PLACE_WRITABLE, 0);
	for (size_t i = 0; i < g->n; i++) {
		unsigned access = 0;

		for (size_t k = 0; k < g->n; k++)
			if (path_within(g->v[i].real, g->v[k].real))
				access |= rules[k].access;
		places_add(out, g->v[i].real, PLACE_WRITABLE, access);
	}
}

static int raise_rules(struct inside *in, const struct grants *g, struct err *err)
{
	cleanup_free struct landlock_rule *rules = mem_resize(NULL, g->n, sizeof(*rules));
	const struct landlock_ask ask = {.rules = rules,
					 .nrules = g->n,
					 .scopes = LANDLOCK_ABSTRACT_SOCKETS | LANDLOCK_SIGNALS};
	int r;

	for (size_t i = 0; i < g->n; i++) {
		const struct grant *one = &g->v[i];
		const unsigned gone = inside_withheld(&in->plan, one->name);

		rules[i] = (struct landlock_rule){one->fd, NULL,
						  one->tree ? LANDLOCK_TREE : LANDLOCK_FILE,
						  one->access & ~gone, false};
		if (path_within(one->real, "/dev"))
			rules[i].kind = LANDLOCK_DEVICE;
		else if ((rules[i].access & LANDLOCK_CHANGE) != 0)
			strv_add(&in->writable, one->real);
	}
	describe(g, rules, &in->files);
	r = inside_enter_landlock(in, &ask, err);
	return r < 0 || landlock_abi() < LANDLOCK_SCOPES_ABI ? r : leave_sweeper(in, err);
}

int bare_landlock(struct inside *in, struct err *err)
{
	struct grants g = {.in = in};
	int r = collect(&g, err);

	if (r == 0)
		r = raise_rules(in, &g, err);
	for (size_t i = 0; i < g.n; i++) {
		close(g.v[i].fd);
		free(g.v[i].name);
		free(g.v[i].real);
	}
	free(g.v);
	close(take_fd(in->tree_fd));
	return r;
}
