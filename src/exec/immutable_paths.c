// SPDX-License-Identifier: Apache-2.0
#include "exec/immutable_paths.h"
#include "base/fdio.h"
#include "base/fnv.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#define FUSE_MAGIC 0x65735546 /* its server decides who may write, not the mode */
#define PROC_MAGIC 0x9fa0     /* each process sees another one */
#define TMPFS_MAGIC 0x01021994
#define WORKSPACE "/workspace"
#define MOUNTS_MAX (16 << 20)
#define LINKS_MAX 40 /* MAXSYMLINKS of the kernel */

/* ---- a root that is ours ---- */

/* Whether every mount of a file system is read-only, so that only a process that can mount could
 * write to it. Mounts without a path are not seen; the session has no descriptor of one. A line of
 * mountinfo ("ID PARENT MAJOR:MINOR ROOT POINT OPTIONS …") that cannot be read counts as writable.
 */
static bool is_shut(dev_t dev)
{
	cleanup_buf struct buf text = {0};
	unsigned ma, mi;
	char options[3], *next;

	if (fdio_load_path("/proc/self/mountinfo", MOUNTS_MAX, &text, NULL) < 0)
		return false;
	for (char *line = text.data; line != NULL && *line != '\0'; line = next) {
		next = strchr(line, '\n');
		if (next != NULL)
			*next++ = '\0';
		if (sscanf(line, "%*d %*d %u:%u %*s %*s %2s", &ma, &mi, options) != 3 ||
		    (makedev(ma, mi) == dev && strcmp(options, "ro") != 0))
			return false;
	}
	return true;
}

/* ---- walking ---- */

/* As fstat, of what the kernel knows: the server of a file system, which may not answer, is not
 * asked. */
static bool known_stat(int fd, struct stat *out)
{
	struct statx x;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &x) == -1)
		return false;
	*out = (struct stat){.st_dev = makedev(x.stx_dev_major, x.stx_dev_minor),
			     .st_ino = x.stx_ino,
			     .st_mode = x.stx_mode,
			     .st_uid = x.stx_uid};
	return true;
}

struct path_walk {
	int root, at; /* at is owned */
	const struct immutable_paths *names;
	char rest[PATH_MAX]; /* still to go */
	unsigned links;
};

/* Puts a link's text before what is left. */
static bool follow_link(struct path_walk *w, int link)
{
	char text[PATH_MAX];
	const ssize_t len = readlinkat(link, "", text, sizeof(text));
	const size_t left = strlen(w->rest);

	if (len <= 0 || ++w->links > LINKS_MAX || (size_t)len + 1 + left >= sizeof(w->rest))
		return false;
	memmove(w->rest + len + 1, w->rest, left + 1);
	memcpy(w->rest, text, (size_t)len);
	w->rest[len] = '/';
	if (text[0] != '/')
		return true;
	close(w->at);
	w->at = openat(w->root, ".", O_PATH | O_CLOEXEC);
	return w->at >= 0;
}

/* True if a process with our uid can neither write the file or directory nor change its mode. A
 * read-only mount proves nothing: the same file may be writable at another place. */
static bool is_immutable(const struct immutable_paths *n, int fd, const struct stat *st)
{
	struct statfs fs;

	if (n->work_ino != 0 && st->st_ino == n->work_ino && st->st_dev == n->work_dev)
		return false;
	if (n->shut != 0 && st->st_dev == n->shut)
		return true;
	if (n->near && st->st_dev == n->work_dev)
		return false;
	if (st->st_uid == geteuid() || fstatfs(fd, &fs) == -1 || fs.f_type == FUSE_MAGIC ||
	    fs.f_type == PROC_MAGIC)
		return false;
	return syscall(SYS_faccessat2, fd, "", W_OK, AT_EMPTY_PATH | AT_EACCESS) == -1 &&
	       errno == EACCES;
}

/* Goes one component further; false: it can be replaced, or is missing. */
static bool step(struct path_walk *w)
{
	const size_t skip = strspn(w->rest, "/");
	const size_t len = strcspn(w->rest + skip, "/");
	char name[NAME_MAX + 1];
	cleanup_fd int next = -1;
	struct stat st;

	if (len > NAME_MAX)
		return false;
	memcpy(name, w->rest + skip, len);
	name[len] = '\0';
	memmove(w->rest, w->rest + skip + len, strlen(w->rest + skip + len) + 1);
	if (len == 0)
		return true;
	next = openat(w->at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (next < 0 || !known_stat(next, &st))
		return false;
	if (S_ISLNK(st.st_mode))
		return follow_link(w, next);
	if (!is_immutable(w->names, next, &st))
		return false;
	close(w->at);
	w->at = take_fd(next);
	return true;
}

static bool walk_path(const struct immutable_paths *n, int root, const char *path)
{
	struct path_walk w = {
		.root = root, .at = openat(root, ".", O_PATH | O_CLOEXEC), .names = n};
	struct stat st;
	bool ok = w.at >= 0 && strlen(path) < sizeof(w.rest) && fstat(root, &st) == 0 &&
		  is_immutable(n, root, &st);

	if (ok)
		snprintf(w.rest, sizeof(w.rest), "%s", path);
	while (ok && w.rest[0] != '\0')
		ok = step(&w);
	if (w.at >= 0)
		close(w.at);
	return ok;
}

static void look_at_workspace(struct immutable_paths *n, int root)
{
	const char *path = n->workspace != NULL ? n->workspace : WORKSPACE;
	cleanup_fd int fd = n->looked ? -1 : fdio_openat2(root, path, O_PATH, RESOLVE_IN_ROOT);
	struct stat st;

	n->looked = true;
	if (fd < 0 || !known_stat(fd, &st) || !S_ISDIR(st.st_mode))
		return;
	n->work_dev = st.st_dev;
	n->work_ino = st.st_ino;
}

bool immutable_paths_far(struct immutable_paths *n, int root, int fd)
{
	struct stat st;

	look_at_workspace(n, root);
	return n->work_ino == 0 || !known_stat(fd, &st) || st.st_dev == n->work_dev;
}

bool immutable_path(struct immutable_paths *n, int root, const char *path)
{
	char **known = &n->name[fnv32(FNV32, path, strlen(path)) % IMMUTABLE_PATHS];
	struct statfs fs;
	struct stat st;

	if (path[0] != '/')
		return false;
	if (*known != NULL && strcmp(*known, path) == 0)
		return true;
	/* Only its mounts lead to a tmpfs; a disk may be mounted in other namespaces too. */
	if (fstat(root, &st) == 0 && st.st_dev != n->shut && st.st_uid == geteuid() &&
	    fstatfs(root, &fs) == 0 && fs.f_type == TMPFS_MAGIC && is_shut(st.st_dev))
		n->shut = st.st_dev;
	look_at_workspace(n, root);
	if (!walk_path(n, root, path))
		return false;
	free(*known);
	*known = mem_strdup(path);
	return true;
}

void immutable_paths_done(struct immutable_paths *n)
{
	for (size_t i = 0; i < IMMUTABLE_PATHS; i++)
		free(n->name[i]);
	*n = (struct immutable_paths){0};
}
