// SPDX-License-Identifier: Apache-2.0
/* Ids of a session seen from inside: maps of its user namespace, then the ids and capabilities
 * themselves. */
#include "base/fdio.h"
#include "base/mem.h"
#include "sandbox/identity.h"
#include "sandbox/inside.h"
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>

static int write_file(const char *path, const char *text, struct err *err)
{
	cleanup_fd int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd == -1 || fdio_write_all(fd, text, strlen(text)) < 0)
		return err_errno(err, E_ENFORCEMENT, path, "write(%s, %s)", path, text);
	return 0;
}

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

/* Written by init itself: it is a new program and dumpable, so that its files in /proc are its own,
 * which those of a child of a launcher that hides its memory would not be. user_namespaces(7) lets
 * one's own id be mapped. */
int inside_map_ids(struct inside *in, struct err *err)
{
	char uid[64], gid[64];
	int r;

	if (inside_by_root(in)) {
		wall_set(&in->walls, WALL_user_namespace, WALL_ABSENT,
			 "not needed: namespaces were made by root");
		return 0;
	}
	snprintf(uid, sizeof(uid), "%u %u 1", inside_uid(in), in->plan.uid);
	snprintf(gid, sizeof(gid), "%u %u 1", inside_gid(in), in->plan.gid);
	r = write_file("/proc/self/setgroups", "deny", err);
	if (r == 0)
		r = write_file("/proc/self/gid_map", gid, err);
	if (r == 0)
		r = write_file("/proc/self/uid_map", uid, err);
	if (r == 0)
		wall_set(&in->walls, WALL_user_namespace, WALL_UP, "uid %u only, seen as %u%s",
			 in->plan.uid, inside_uid(in),
			 in->plan.privileged ? ""
					     : "; the user's supplementary groups stay in force");
	return r;
}

int inside_identity(struct inside *in, struct err *err)
{
	/* 0 would still let a core_pattern with a pipe run a program of the host's. */
	const struct rlimit no_core = {1, 1};
	const struct identity who = {in->plan.uid, in->plan.gid, inside_by_root(in)};
	bool bounded;
	int r;

	if (setrlimit(RLIMIT_CORE, &no_core) < 0)
		return err_errno(err, E_ENFORCEMENT, NULL, "setrlimit(RLIMIT_CORE)");
	r = identity_take(&who, &bounded, err);
	if (r < 0)
		return r;
	if (bounded)
		wall_set(&in->walls, WALL_capabilities, WALL_UP, "uid %u, all sets empty", who.uid);
	else
		wall_set(&in->walls, WALL_capabilities, WALL_PARTIAL,
			 "uid %u, none held; the bounding set is as it was", who.uid);
	return 0;
}

int inside_no_new_privs(struct inside *in, struct err *err)
{
	int r = identity_no_new_privs(err);

	if (r == 0)
		wall_set(&in->walls, WALL_no_new_privs, WALL_UP,
			 "set-uid programs and file capabilities give nothing");
	return r;
}
