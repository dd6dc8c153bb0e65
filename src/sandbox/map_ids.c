// SPDX-License-Identifier: Apache-2.0
/* The ids of a session as it sees them: the maps of its user namespace, then the ids and
 * capabilities themselves. */
#include "base/fdio.h"
#include "base/mem.h"
#include "sandbox/identity.h"
#include "sandbox/inside.h"
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>

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

int inside_identity(struct inside *in, struct err *err)
{
	/* With 0 a core_pattern that is a pipe would still run a program on the host. */
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
