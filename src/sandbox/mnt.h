// SPDX-License-Identifier: Apache-2.0
/* sandbox/mnt.h - the new mount API in a few calls; private to this folder.
 *
 * A mount is made or cloned detached, gets its attributes while no process can see it, and is then
 * attached. Errors are E_ENFORCEMENT and name the call and the path; the caller adds the wall. The
 * oldest kernel that works is Linux 5.12. */
#pragma once
#include "base/err.h"
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mount.h>
#include <sys/types.h>

#define MNT_SHUT (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

struct mnt_fs {
	const char *type;
	const char *const *options; /* key, value, key, value … NULL */
	unsigned attr;		    /* MOUNT_ATTR_… */
};
/* A new file system of its own, detached. */
int mnt_make(const struct mnt_fs *fs, int *fd, struct err *err);
/* A detached copy of what is mounted at path below dir, with all that is mounted below it. An empty
 * path means dir itself. */
int mnt_clone(int dir, const char *path, int *fd, struct err *err);
/* Adds attributes to a mount and everything below it, and makes it private. The error has name. */
int mnt_set(int fd, uint64_t attr, const char *name, struct err *err);
/* Attaches a detached mount at path below root. */
int mnt_place(int fd, int root, const char *path, struct err *err);
/* Attaches a detached mount on top of an O_PATH descriptor. The error has name. */
int mnt_cover(int fd, int at, const char *name, struct err *err);

/* Clone, set and place in one. */
struct mnt_bind {
	int from_dir;
	const char *from;
	int root;
	const char *at;
	uint64_t attr;
};
int mnt_bind(const struct mnt_bind *b, struct err *err);
/* The same, and makes the mount point and its parents first. Does nothing for a path that does not
 * exist or cannot be reached. With attr 0 nothing is set. */
int mnt_show(const struct mnt_bind *b, struct err *err);
/* Makes the directories above a path, which is relative to root. */
int mnt_make_parents(int root, const char *path, struct err *err);
/* Makes a mount point for a tree, a directory or a file as the tree is, and its parents. */
int mnt_make_point(int tree, int root, const char *at, struct err *err);
/* Cuts the next line out of the text of /proc/self/mountinfo: the mount's id, its device
 * ("MAJOR:MINOR"), the directory of the file system that it shows, the mount point and, behind
 * " - ", the type, then source and options. False at the end. */
struct mnt_line {
	uint64_t id;
	char *dev, *root, *point, *type, *rest;
};
bool mnt_next(char **text, struct mnt_line *out);
/* The id of the mount that a descriptor's file was opened by; 0/errno. */
uint64_t mnt_id(int fd);
/* Where a directory with this real path is on its disk: "MAJOR:MINOR PATH", the same by whatever
 * mount it is reached. The caller frees the result. NULL: its mount has no path here. */
char *mnt_origin(int dir, const char *real);
/* The real path of a descriptor's file. Returns its length, or -1/errno. */
ssize_t mnt_name(int fd, char real[PATH_MAX]);
#define MNT_LIST_MAX (16 << 20)
/* Whether a call for a namespace or a mount has failed (errno) because the server runs in a chroot.
 * Only then err is set (E_ENFORCEMENT). */
bool mnt_chrooted(const char *subject, struct err *err);
/* Opens a file with the ids of the client that asks. E_NOT_FOUND, E_FORBIDDEN, E_BAD_REQUEST. */
struct sandbox_workspace_ask;
int open_as_caller(const struct sandbox_workspace_ask *ask, bool privileged, const char *path,
		   int flags, int *out, struct err *err);
/* Whether a directory is the repository that plan->repository means, and has the workspace as its
 * linked worktree. */
struct sandbox_plan;
bool repository_is_proven(const struct sandbox_plan *plan, int dir);
/* Lines for /proc/PID/uid_map: every id to itself, but a to b and b to a. */
struct buf;
void idmap_format(struct buf *out, uint32_t a, uint32_t b);
/* Maps the owners of a detached tree by the namespace of sandbox_idmap. real is where it comes
 * from. E_ENFORCEMENT "uid" with the type of its file system, which also goes to fs (SANDBOX_FS
 * bytes) unless that is NULL. */
int idmap_tree(int tree, int userns, const char *real, char *fs, struct err *err);
