// SPDX-License-Identifier: Apache-2.0
/* The walls behind the mounts: what a command may open, use and call, whatever it finds. */
#include "base/mem.h"
#include "sandbox/inside.h"
#include "sandbox/landlock.h"
#include "sandbox/plan.h"
#include "sandbox/seccomp.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/stat.h>

#define ALL (LANDLOCK_READ | LANDLOCK_WRITE | LANDLOCK_EXEC)
#define OPEN_FILES 4096
#define OPEN_FILES_MAX 65536

/* What every session has. All that is in its view may be read; to be written is what is its own. In
 * /proc nothing is: a process's memory is a file there. */
static const struct landlock_rule own[] = {
	{AT_FDCWD, "/", LANDLOCK_TREE, LANDLOCK_READ, false},
	{AT_FDCWD, "/" INSIDE_WORKSPACE, LANDLOCK_TREE, ALL, false},
	{AT_FDCWD, "/" INSIDE_HOME, LANDLOCK_TREE, ALL, false},
	{AT_FDCWD, "/tmp", LANDLOCK_TREE, ALL, false},
	{AT_FDCWD, "/var/tmp", LANDLOCK_TREE, ALL, false},
	{AT_FDCWD, "/dev/shm", LANDLOCK_TREE, LANDLOCK_WRITE, false},
	{AT_FDCWD, "/dev/pts", LANDLOCK_TREE, LANDLOCK_WRITE, true},
	{AT_FDCWD, "/dev/null", LANDLOCK_DEVICE, LANDLOCK_WRITE, false},
	{AT_FDCWD, "/dev/zero", LANDLOCK_DEVICE, LANDLOCK_WRITE, true},
	{AT_FDCWD, "/dev/full", LANDLOCK_DEVICE, LANDLOCK_WRITE, true},
	{AT_FDCWD, "/dev/random", LANDLOCK_DEVICE, LANDLOCK_WRITE, true},
	{AT_FDCWD, "/dev/urandom", LANDLOCK_DEVICE, LANDLOCK_WRITE, true},
	{AT_FDCWD, "/dev/tty", LANDLOCK_DEVICE, LANDLOCK_WRITE, true},
	{AT_FDCWD, "/run/agentsh/bin", LANDLOCK_TREE, LANDLOCK_EXEC, true},
};

/* The parts of the root that are in no list, where not all of it may be read. */
static const char *const readable[] = {"/etc", "/dev", "/proc", "/run"};

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

/* Takes away what the policy gives to nobody; returns how many rules there are then. Landlock only
 * adds: where a part of the view is not to be read, the root is named part by part. */
static size_t take_away(const struct sandbox_plan *p, struct landlock_rule *rules, size_t n)
{
	unsigned all = 0;

	for (size_t i = 1; i < n; i++) {
		const unsigned gone = inside_withheld(p, rules[i].path);

		rules[i].access &= ~gone;
		all |= gone;
	}
	if ((all & LANDLOCK_READ) == 0)
		return n;
	rules[0].access = LANDLOCK_LIST;
	for (size_t i = 0; i < ARRAY_LEN(readable); i++)
		rules[n++] = (struct landlock_rule){AT_FDCWD, readable[i], LANDLOCK_TREE,
						    LANDLOCK_READ, true};
	return n;
}

void inside_report_withheld(struct inside *in)
{
	const enum wall_state state = in->walls.wall[WALL_landlock].state;
	char detail[sizeof(in->walls.wall[0].detail)];

	if (in->plan.withheld.n == 0)
		return;
	memcpy(detail, in->walls.wall[WALL_landlock].detail, sizeof(detail));
	wall_set(&in->walls, WALL_landlock, state, "%.70s; %zu places less, by the policy's rules",
		 detail, in->plan.withheld.n);
}

/* A list's entry may be a file, and may not be there. */
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

/* Where a namespace holds them already, a scope would only keep a command from what another has
 * left running. */
static unsigned scopes(const struct inside *in)
{
	return ((in->namespaces & CLONE_NEWPID) != 0 ? 0 : LANDLOCK_SIGNALS) |
	       ((in->namespaces & CLONE_NEWNET) != 0 ? 0 : LANDLOCK_ABSTRACT_SOCKETS);
}

/* Entered by init, so that all its commands are in one domain: in one of its own each, a command
 * could not see in /proc what another has left running. */
int inside_landlock(struct inside *in, struct err *err)
{
	const struct sandbox_plan *p = &in->plan;
	const size_t most = ARRAY_LEN(own) + ARRAY_LEN(readable) + p->read_only_paths.n +
			    p->passthrough_paths.n + p->monitored_paths.n;
	cleanup_free struct landlock_rule *rules = mem_resize(NULL, most, sizeof(*rules));
	struct landlock_ask ask = {.rules = rules, .scopes = scopes(in)};
	size_t n = ARRAY_LEN(own);
	cleanup_fd int ruleset = -1;
	int r;

	memcpy(rules, own, sizeof(own));
	n += add_list(rules + n, &p->read_only_paths, LANDLOCK_READ | LANDLOCK_EXEC);
	n += add_list(rules + n, &p->passthrough_paths, ALL);
	n += add_list(rules + n, &p->monitored_paths, ALL);
	ask.nrules = take_away(p, rules, n);
	r = landlock_prepare(&ask, &ruleset, &in->walls, err);
	if (r < 0)
		return r;
	inside_report_withheld(in);
	errno = landlock_enter(ruleset);
	if (errno != 0)
		return err_errno(err, E_ENFORCEMENT, "landlock", "landlock_restrict_self");
	return 0;
}

int inside_limits(struct inside *in, struct err *err)
{
	const struct sandbox_plan *p = &in->plan;
	struct rlimit_ask ask = {.open_files =
					 p->open_files_max > 0 ? p->open_files_max : OPEN_FILES_MAX,
				 .open_files_soft = p->open_files > 0 ? p->open_files : OPEN_FILES,
				 .file_bytes = RLIMIT_NOT_ASKED,
				 .locked_bytes = RLIMIT_NOT_ASKED,
				 .processes = RLIMIT_NOT_ASKED};
	struct rlimit files;
	int r;

	/* At most half of what its session's init may have. */
	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_max / 2 < ask.open_files)
		ask.open_files = files.rlim_max / 2;
	r = rlimit_prepare(&ask, &in->walls_of_commands.limits, err);
	if (r < 0)
		return r;
	errno = rlimit_raise_files();
	return errno == 0 ? 0 : err_errno(err, E_ENFORCEMENT, "rlimit", "setrlimit(RLIMIT_NOFILE)");
}

/* Whether a filter around us refuses ptrace whatever it is about: then the warden could not hold
 * what it decides. */
static bool tracing_is_refused(void)
{
	return ptrace(PTRACE_SEIZE, INT_MAX, NULL, NULL) == -1 && errno != ESRCH;
}

/* Execs are asked of the warden, unless it cannot hold them and the configuration lets that be. */
static bool asks_for_execs(struct inside *in)
{
	if (in->plan.exec_control == 0)
		return false;
	if (!plan_may_lack(&in->plan, WALL_exec_policy) || !tracing_is_refused())
		return true;
	wall_set(&in->walls, WALL_exec_policy, WALL_UNAVAILABLE, "ptrace is refused here");
	return false;
}

int inside_seccomp(struct inside *in, struct err *err)
{
	struct seccomp_program program;
	const bool asks = asks_for_execs(in);
	const unsigned bare = in->plan.bare ? SECCOMP_BARE : 0;
	int r;

	seccomp_build((asks ? SECCOMP_EXECS : 0) | bare, &program);
	r = seccomp_load(program.code, program.n, asks ? &in->listener_fd : NULL, err);
	if (r < 0 && asks && strcmp(err->subject, "exec_policy") == 0 &&
	    plan_may_lack(&in->plan, WALL_exec_policy)) {
		wall_set(&in->walls, WALL_exec_policy, WALL_UNAVAILABLE, "%s", err->message);
		seccomp_build(bare, &program);
		r = seccomp_load(program.code, program.n, NULL, err);
	}
	if (r == 0)
		wall_set(&in->walls, WALL_seccomp, WALL_UP, "%zu instructions", program.n);
	return r;
}
