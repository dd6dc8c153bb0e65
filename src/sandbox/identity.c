// SPDX-License-Identifier: Apache-2.0
/* The ids and capabilities of a session's processes: the maps of its user namespace, then the ids
 * and capabilities themselves; and the last steps of the stub, which gives up the launcher's
 * privileges and executes a program without the launcher's environment.
 *
 * capabilities(7): the securebits come first. With NO_SETUID_FIXUP the capabilities outlive the
 * change of uid, so that the new uid can empty the bounding set. The locks make sure that no later
 * program gets a capability back. */
#include "base/fdio.h"
#include "base/mem.h"
#include "sandbox/inside.h"
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sched.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define SHUT_BITS                                                                                \
	(SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |                         \
	 SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE | \
	 SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED)
#define CAPS_MAX 64

static int set_caps(const struct __user_cap_data_struct data[2])
{
	struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};

	return (int)syscall(SYS_capset, &head, data);
}

/* Makes these capabilities ambient, so that the next program has them. others: all that the process
 * has stay, too. */
static int keep_caps(uint64_t caps, bool others)
{
	struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[2] = {0};

	if (others && syscall(SYS_capget, &head, data) < 0)
		return -1;
	for (int i = 0; i < 2; i++) {
		data[i].inheritable = (uint32_t)(caps >> 32 * i);
		data[i].permitted |= data[i].inheritable;
		data[i].effective |= data[i].inheritable;
	}
	if (set_caps(data) < 0)
		return -1;
	for (int cap = 0; cap < CAPS_MAX; cap++)
		if ((caps >> cap & 1) != 0 &&
		    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) < 0)
			return -1;
	return 0;
}

/* System calls, not libc's wrappers, which signal every thread. */
int identity_become(const struct identity *who)
{
	if (syscall(SYS_setgroups, 0, NULL) < 0 ||
	    syscall(SYS_setresgid, who->gid, who->gid, who->gid) < 0 ||
	    syscall(SYS_setresuid, who->uid, who->uid, who->uid) < 0)
		return errno;
	return 0;
}

/* Drops all other capabilities of the bounding set, which needs CAP_SETPCAP. */
static int drop_bounds(uint64_t keep, bool *bounded, struct err *err)
{
	*bounded = true;
	for (int cap = 0; *bounded && cap < CAPS_MAX; cap++) {
		if ((keep >> cap & 1) != 0 || prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0)
			continue;
		if (errno == EINVAL) /* past the last capability of this kernel */
			break;
		if (errno != EPERM)
			return err_errno(err, E_ENFORCEMENT, NULL, "PR_CAPBSET_DROP(%d)", cap);
		*bounded = false;
	}
	return 0;
}

/* Locks the securebits, takes the ids, drops every other capability in every set. *bounded: those
 * of the bounding set were dropped before; on return, whether they are. */
static int take_identity(const struct identity *who, bool *bounded, struct err *err)
{
	struct __user_cap_data_struct data[2] = {0};
	int r = 0;

	if (who->caps != 0 && keep_caps(who->caps, true) < 0)
		return err_errno(err, E_ENFORCEMENT, NULL, "cannot keep capabilities");
	/* A process without CAP_SETPCAP has nothing to lock, unless it is to change its uid. */
	if (prctl(PR_SET_SECUREBITS, SHUT_BITS, 0, 0, 0) < 0 && (errno != EPERM || who->change))
		return err_errno(err, E_ENFORCEMENT, NULL, "PR_SET_SECUREBITS");
	errno = who->change ? identity_become(who) : 0;
	if (errno != 0)
		return err_errno(err, E_ENFORCEMENT, NULL,
				 "setgroups, setresgid(%u), setresuid(%u)", who->gid, who->uid);
	if (!*bounded)
		r = drop_bounds(who->caps, bounded, err);
	if (r < 0)
		return r;
	if (who->caps == 0 && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return err_errno(err, E_ENFORCEMENT, NULL, "PR_CAP_AMBIENT_CLEAR_ALL");
	for (int i = 0; i < 2; i++)
		data[i].permitted = data[i].effective = data[i].inheritable =
			(uint32_t)(who->caps >> 32 * i);
	if (set_caps(data) < 0)
		return err_errno(err, E_ENFORCEMENT, NULL, "capset");
	return 0;
}

static int set_no_new_privs(struct err *err)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_errno(err, E_ENFORCEMENT, NULL, "PR_SET_NO_NEW_PRIVS");
	return 0;
}

int identity_keep_caps(void)
{
	const uint64_t caps = UINT64_C(1) << CAP_SYS_ADMIN | UINT64_C(1) << CAP_SETPCAP |
			      UINT64_C(1) << CAP_NET_ADMIN;

	return keep_caps(caps, false) < 0 ? errno : 0;
}

/* ---- the stub ---- */

/* The time zone is for the log, the directories for the defaults of the configuration; the rest
 * configures sanitizers in test builds. */
static const char *const passed_on[] = {"TZ",		"HOME",		"XDG_RUNTIME_DIR", "TMPDIR",
					"ASAN_OPTIONS", "LSAN_OPTIONS", "UBSAN_OPTIONS"};

int sandbox_execute(int program_fd, char *const argv[], struct err *err)
{
	char *env[ARRAY_LEN(passed_on) + 1];
	size_t n = 0;
	int r;

	for (size_t i = 0; i < ARRAY_LEN(passed_on); i++)
		if (getenv(passed_on[i]) != NULL)
			env[n++] = mem_printf("%s=%s", passed_on[i], getenv(passed_on[i]));
	env[n] = NULL;
	syscall(SYS_execveat, program_fd, "", argv, env, AT_EMPTY_PATH);
	r = err_errno(err, E_UNAVAILABLE, argv[0], "cannot execute %s", argv[0]);
	while (n > 0)
		free(env[--n]);
	return r;
}

int sandbox_become_user(const struct sandbox_plan *plan, struct err *err)
{
	const struct identity who = {plan->uid, plan->gid, plan->privileged != 0, 0};
	bool bounded = false;
	int r = take_identity(&who, &bounded, err);

	return r < 0 ? r : set_no_new_privs(err);
}

int sandbox_drop_caps(uint64_t permitted, struct err *err)
{
	struct __user_cap_data_struct data[2] = {{.permitted = (uint32_t)permitted},
						 {.permitted = (uint32_t)(permitted >> 32)}};
	bool bounded;
	int r = drop_bounds(permitted, &bounded, err);

	if (r == 0 &&
	    (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 || set_caps(data) < 0))
		r = err_errno(err, E_ENFORCEMENT, NULL, "capset");
	return r;
}

int sandbox_become_holder(uint32_t uid, uint32_t gid, uint64_t caps, struct err *err)
{
	const struct identity who = {uid, gid, true, caps};
	bool bounded = false;
	int r = take_identity(&who, &bounded, err);

	return r < 0 ? r : set_no_new_privs(err);
}

/* ---- init ---- */

bool inside_by_root(const struct inside *in)
{
	return in->plan.privileged && (in->namespaces & CLONE_NEWUSER) == 0;
}

uint32_t inside_uid(const struct inside *in)
{
	return in->plan.root_inside ? 0 : in->plan.uid;
}

uint32_t inside_gid(const struct inside *in)
{
	return in->plan.root_inside ? 0 : in->plan.gid;
}

/* init writes the maps itself: it is a new program and dumpable, so it owns its files in /proc. A
 * child of a launcher that hides its memory would not. user_namespaces(7) allows a process to map
 * its own id. */
int inside_map_ids(struct inside *in, struct err *err)
{
	char uid[64], gid[64];
	const struct {
		const char *path, *text;
	} files[] = {{"/proc/self/setgroups", "deny"},
		     {"/proc/self/gid_map", gid},
		     {"/proc/self/uid_map", uid}};

	if (inside_by_root(in)) {
		wall_set(&in->walls, WALL_user_namespace, WALL_ABSENT,
			 "not needed: namespaces were made by root");
		return 0;
	}
	snprintf(uid, sizeof(uid), "%u %u 1", inside_uid(in), in->plan.uid);
	snprintf(gid, sizeof(gid), "%u %u 1", inside_gid(in), in->plan.gid);
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		cleanup_fd int fd = open(files[i].path, O_WRONLY | O_CLOEXEC);

		if (fd == -1 || fdio_write_all(fd, files[i].text, strlen(files[i].text)) < 0)
			return err_errno(err, E_ENFORCEMENT, files[i].path, "write(%s, %s)",
					 files[i].path, files[i].text);
	}
	wall_set(&in->walls, WALL_user_namespace, WALL_UP, "uid %u only, seen as %u%s",
		 in->plan.uid, inside_uid(in),
		 in->plan.privileged ? "" : "; the user's supplementary groups stay in force");
	return 0;
}

int inside_bounds(struct inside *in, struct err *err)
{
	return drop_bounds(0, &in->bounded, err);
}

int inside_identity(struct inside *in, struct err *err)
{
	/* For init and all that it starts. A core limit of 0 would not stop a core_pattern that is
	 * a pipe; 1 does, and is too little for a file: core(5). */
	static const struct {
		int resource;
		struct rlimit limit;
	} shut[] = {{RLIMIT_CORE, {1, 1}}, {RLIMIT_RTPRIO, {0, 0}}, {RLIMIT_NICE, {0, 0}}};
	const struct identity who = {in->plan.uid, in->plan.gid, inside_by_root(in), 0};
	int r;

	for (size_t i = 0; i < ARRAY_LEN(shut); i++)
		if (setrlimit(shut[i].resource, &shut[i].limit) < 0)
			return err_errno(err, E_ENFORCEMENT, NULL, "setrlimit");
	r = take_identity(&who, &in->bounded, err);
	if (r < 0)
		return r;
	if (in->bounded)
		wall_set(&in->walls, WALL_capabilities, WALL_UP, "uid %u, all sets empty", who.uid);
	else
		wall_set(&in->walls, WALL_capabilities, WALL_PARTIAL,
			 "uid %u, none held; the bounding set is as it was", who.uid);
	return 0;
}

int inside_no_new_privs(struct inside *in, struct err *err)
{
	int r = set_no_new_privs(err);

	if (r == 0)
		wall_set(&in->walls, WALL_no_new_privs, WALL_UP,
			 "set-uid programs and file capabilities give nothing");
	return r;
}
