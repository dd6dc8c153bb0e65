// SPDX-License-Identifier: Apache-2.0
/* The walls besides the mounts: Landlock, limits, network, host name, filter. */
#include "base/mem.h"
#include "base/path.h"
#include "sandbox/inside.h"
#include "sandbox/landlock.h"
#include "sandbox/seccomp.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <net/if.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define OPEN_FILES 4096
#define OPEN_FILES_MAX 65536

/* The rules of every session, besides those of inside_devices. It may read all of its view, and
 * write its own directories. It may write nothing in /proc: a process's memory is a file there. */
static const struct landlock_rule own[] = {
	{AT_FDCWD, "/", LANDLOCK_TREE, LANDLOCK_READ, false},
	{AT_FDCWD, "/" INSIDE_HOME, LANDLOCK_TREE, LANDLOCK_ALL, false},
	{AT_FDCWD, "/tmp", LANDLOCK_TREE, LANDLOCK_ALL, false},
	{AT_FDCWD, "/var/tmp", LANDLOCK_TREE, LANDLOCK_ALL, false},
	{AT_FDCWD, "/dev/shm", LANDLOCK_TREE, LANDLOCK_WRITE, false},
	{AT_FDCWD, "/dev/pts", LANDLOCK_TREE, LANDLOCK_WRITE, true},
	{AT_FDCWD, "/run/agentsh/bin", LANDLOCK_TREE, LANDLOCK_EXEC, true},
};

const char *const inside_readable[] = {"/etc", "/dev", "/proc", "/run", NULL};

unsigned inside_withheld(const struct sandbox_plan *plan, const char *path)
{
	const struct strv *list = &plan->withheld;

	for (size_t i = 0; i < list->n; i++) {
		char *at;
		const unsigned long access = strtoul(list->v[i], &at, 10);

		if (*at == ' ' && strcmp(at + 1, path) == 0)
			return (unsigned)access;
	}
	return 0;
}

/* init enters it, so that all its commands are in one domain: a command in a domain of its own
 * could not see in /proc what another command has left running. */
int inside_enter_landlock(struct inside *in, const struct landlock_ask *ask, struct err *err)
{
	struct wall_report raised;
	int r = landlock_prepare(ask, &in->ruleset_fd, &in->walls, err);

	if (r < 0)
		return r;
	raised = in->walls;
	if (in->plan.withheld.n > 0)
		wall_set(&in->walls, WALL_landlock, raised.wall[WALL_landlock].state,
			 "%.70s; %zu places less, by the policy's rules",
			 raised.wall[WALL_landlock].detail, in->plan.withheld.n);
	errno = landlock_enter(in->ruleset_fd);
	return errno == 0 ? 0 : err_errno(err, E_ENFORCEMENT, NULL, "landlock_restrict_self");
}

/* An entry of a list may be a file, or not exist. */
static size_t add_list(struct landlock_rule *out, const struct strv *list, unsigned access)
{
	for (size_t i = 0; i < list->n; i++) {
		struct stat st;
		const bool tree = stat(list->v[i], &st) == 0 && S_ISDIR(st.st_mode);

		out[i] = (struct landlock_rule){AT_FDCWD, list->v[i],
						tree ? LANDLOCK_TREE : LANDLOCK_FILE, access, true};
	}
	return list->n;
}

/* All but the workspace's; *rules is the caller's. */
static struct landlock_ask list_rules(const struct inside *in, struct landlock_rule **out)
{
	const struct sandbox_plan *p = &in->plan;
	const size_t most = ARRAY_LEN(own) + INSIDE_DEVICES + ARRAY_LEN(inside_readable) +
			    p->read_only_paths.n + p->passthrough_paths.n + p->monitored_paths.n +
			    p->toolchains.n + 1;
	struct landlock_rule *rules = mem_resize(NULL, most, sizeof(*rules));
	struct landlock_ask ask = {.rules = rules, .nrules = ARRAY_LEN(own)};

	/* If a namespace separates already, a scope would only hide from a command the processes
	 * that another command has left running. */
	if ((in->namespaces & CLONE_NEWPID) == 0)
		ask.scopes |= LANDLOCK_SIGNALS;
	if ((in->namespaces & CLONE_NEWNET) == 0)
		ask.scopes |= LANDLOCK_ABSTRACT_SOCKETS;
	memcpy(rules, own, sizeof(own));
	for (size_t i = 0; i < INSIDE_DEVICES; i++)
		rules[ask.nrules++] = (struct landlock_rule){AT_FDCWD, inside_devices[i].path,
							     LANDLOCK_DEVICE, LANDLOCK_WRITE, true};
	ask.nrules +=
		add_list(rules + ask.nrules, &p->read_only_paths, LANDLOCK_READ | LANDLOCK_EXEC);
	ask.nrules += add_list(rules + ask.nrules, &p->passthrough_paths, LANDLOCK_ALL);
	ask.nrules += add_list(rules + ask.nrules, &p->monitored_paths, LANDLOCK_ALL);
	ask.nrules += add_list(rules + ask.nrules, &p->toolchains, LANDLOCK_READ | LANDLOCK_EXEC);
	*out = rules;
	return ask;
}

/* Whether trees of a list come with the session; the workspace has a rule of its own. */
static bool comes_late(const struct strv *list)
{
	for (size_t i = 0; i < list->n; i++)
		if (!path_within(list->v[i], "/" INSIDE_WORKSPACE))
			return true;
	return false;
}

int inside_rules(struct inside *in, struct err *err)
{
	cleanup_free struct landlock_rule *rules = NULL;
	const struct landlock_ask ask = list_rules(in, &rules);

	if (comes_late(&in->plan.passthrough_paths) || comes_late(&in->plan.monitored_paths))
		return 0;
	return landlock_prepare(&ask, &in->ruleset_fd, &in->walls, err);
}

/* A rule belongs to the directory, by whatever path it is reached. */
static struct landlock_rule workspace_rule(const struct inside *in)
{
	return (struct landlock_rule){
		AT_FDCWD, inside_workspace_path(in), LANDLOCK_TREE,
		LANDLOCK_ALL & ~inside_withheld(&in->plan, "/" INSIDE_WORKSPACE), false};
}

struct landlock_ask inside_landlock_rules(const struct inside *in, struct landlock_rule **out)
{
	struct landlock_ask ask = list_rules(in, out);
	struct landlock_rule *rules = *out;
	unsigned withheld = inside_withheld(&in->plan, "/" INSIDE_WORKSPACE);

	for (size_t i = 1; i < ask.nrules; i++) {
		const unsigned gone = inside_withheld(&in->plan, rules[i].path);

		rules[i].access &= ~gone;
		withheld |= gone;
	}
	rules[ask.nrules++] = workspace_rule(in);
	/* Landlock only adds: where a part of the view must not be read, rules name the root part
	 * by part. */
	if ((withheld & LANDLOCK_READ) != 0) {
		rules[0].access = LANDLOCK_LIST;
		for (const char *const *path = inside_readable; *path != NULL; path++)
			rules[ask.nrules++] = (struct landlock_rule){AT_FDCWD, *path, LANDLOCK_TREE,
								     LANDLOCK_READ, true};
	}
	return ask;
}

int inside_landlock(struct inside *in, struct err *err)
{
	const struct sandbox_plan *p = &in->plan;
	const struct landlock_rule home = {AT_FDCWD, "/" INSIDE_HOME, LANDLOCK_TREE, LANDLOCK_ALL,
					   false};
	cleanup_free struct landlock_rule *rules = NULL;
	struct landlock_ask ask;

	if (in->ruleset_fd != -1 && p->withheld.n == 0) {
		rules = mem_resize(NULL, 2 + p->toolchains.n, sizeof(*rules));
		rules[0] = workspace_rule(in);
		rules[1] = home;
		ask = (struct landlock_ask){.rules = rules, .nrules = 2};
		ask.nrules += add_list(rules + 2, &p->toolchains, LANDLOCK_READ | LANDLOCK_EXEC);
		return inside_enter_landlock(in, &ask, err);
	}
	mem_cleanup_fd(&in->ruleset_fd); /* Landlock takes no rule back */
	in->ruleset_fd = -1;
	ask = inside_landlock_rules(in, &rules);
	return inside_enter_landlock(in, &ask, err);
}

int inside_limits(struct inside *in, struct err *err)
{
	const struct sandbox_plan *p = &in->plan;
	struct rlimit now, *files = &in->walls_of_commands.files;

	*files = (struct rlimit){p->open_files > 0 ? p->open_files : OPEN_FILES,
				 p->open_files_max > 0 ? p->open_files_max : OPEN_FILES_MAX};
	/* A command gets at most half of the open files that init may have. */
	if (getrlimit(RLIMIT_NOFILE, &now) == 0 && now.rlim_max / 2 < files->rlim_max)
		files->rlim_max = now.rlim_max / 2;
	if (files->rlim_cur > files->rlim_max)
		files->rlim_cur = files->rlim_max;
	errno = rlimit_raise_files();
	return errno == 0 ? 0 : err_errno(err, E_ENFORCEMENT, "rlimit", "setrlimit(RLIMIT_NOFILE)");
}

/* The network of a session: a namespace with nothing but loopback. */
int inside_net(struct inside *in, struct err *err)
{
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	cleanup_fd int fd = -1;

	wall_set(&in->walls, WALL_network_rules, WALL_ABSENT,
		 "there is nothing but loopback to connect to");
	/* Without a namespace of our own it would be the machine's. */
	if ((in->namespaces & CLONE_NEWNET) == 0)
		return err_set(err, E_ENFORCEMENT, NULL, "no network namespace");
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd == -1 || ioctl(fd, SIOCSIFFLAGS, &lo) < 0)
		return err_errno(err, E_ENFORCEMENT, "lo", "cannot bring up the loopback device");
	wall_set(&in->walls, WALL_net_namespace, WALL_UP,
		 "only loopback: nothing leaves the session");
	return 0;
}

/* The hostname, and the walls that the clone alone raises. */
int inside_hostname(struct inside *in, struct err *err)
{
	static const struct {
		uint32_t flag;
		enum wall wall;
		const char *up, *unavailable;
	} cloned[] = {
		{CLONE_NEWIPC, WALL_ipc_namespace, "own System V IPC and queues",
		 "the kernel gave no IPC namespace"},
		{CLONE_NEWCGROUP, WALL_cgroup_namespace, "/proc shows no cgroup path of the host",
		 "the kernel gave no cgroup namespace"},
	};

	for (size_t i = 0; i < ARRAY_LEN(cloned); i++) {
		const bool up = (in->namespaces & cloned[i].flag) != 0;

		wall_set(&in->walls, cloned[i].wall, up ? WALL_UP : WALL_UNAVAILABLE, "%s",
			 up ? cloned[i].up : cloned[i].unavailable);
	}
	/* Without a UTS namespace this would change the machine's name. */
	if ((in->namespaces & CLONE_NEWUTS) == 0)
		return err_set(err, E_ENFORCEMENT, NULL, "no UTS namespace");
	if (sethostname(in->plan.hostname, strlen(in->plan.hostname)) < 0)
		return err_errno(err, E_ENFORCEMENT, NULL, "sethostname(%s)", in->plan.hostname);
	wall_set(&in->walls, WALL_uts_namespace, WALL_UP, "hostname %s", in->plan.hostname);
	return 0;
}

int inside_undumpable(struct inside *in, struct err *err)
{
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_errno(err, E_ENFORCEMENT, NULL,
				 "init's memory could be read from inside");
	return 0;
}

int inside_seccomp(struct inside *in, struct err *err)
{
	struct seccomp_program program;
	const bool may_lack = wall_listed(&in->plan.unenforced, WALL_exec_policy);
	const unsigned rows = in->namespaces == 0 ? SECCOMP_SHARED : 0;
	const unsigned calls = SECCOMP_EXECS | (in->plan.holds != 0 ? SECCOMP_HOLDS : 0);
	bool asks = in->plan.exec_control != 0;
	int r;

	/* If a filter around the server refuses every ptrace, the warden cannot enforce its
	 * decisions. */
	if (asks && may_lack && ptrace(PTRACE_SEIZE, INT_MAX, NULL, NULL) == -1 && errno != ESRCH) {
		wall_set(&in->walls, WALL_exec_policy, WALL_UNAVAILABLE, "ptrace is refused here");
		asks = false;
	}
	seccomp_build((asks ? calls : 0) | rows, &program);
	r = seccomp_load(program.code, program.n, asks ? &in->listener_fd : NULL, err);
	if (r < 0 && asks && may_lack && strcmp(err->subject, "exec_policy") == 0) {
		wall_set(&in->walls, WALL_exec_policy, WALL_UNAVAILABLE, "%s", err->message);
		seccomp_build(rows, &program);
		r = seccomp_load(program.code, program.n, NULL, err);
	}
	if (r == 0)
		wall_set(&in->walls, WALL_seccomp, WALL_UP, "%zu instructions", program.n);
	return r;
}
