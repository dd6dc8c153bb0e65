// SPDX-License-Identifier: Apache-2.0
/* The session's root: a tmpfs that is shut at the end, with the system's directories read-only, one
 * bounded scratch file system behind every writable place besides the workspace, and /run/agentsh.
 *
 * The new root is attached on top of "/" (a place that always exists); our own root and working
 * directory stay below it, so that absolute paths mean the host until pivot_root. Mounts are moved
 * only onto attached ones and cloned only from attached ones: kernels before 6.15 refuse anything
 * else. */
#include "base/fdio.h"
#include "base/mem.h"
#include "sandbox/capture.h"
#include "sandbox/inside.h"
#include "sandbox/mnt.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

#define BACKLOG 64
/* Relative to the root, where a path is handed to a call with a directory descriptor. */
#define RELATIVE(path) (&(path)[1])

static const char *const system_dirs[] = {"usr",   "bin",    "sbin", "lib", "lib32",
					  "lib64", "libx32", "opt",  "etc"};
static const char *const own_dirs[] = {
	"dev",	       "dev/pts",	  "dev/shm", "home", INSIDE_HOME, "proc",	   "run",
	"run/agentsh", "run/agentsh/bin", "tmp",     "var",  "var/tmp",	  INSIDE_WORKSPACE};

/* Places in the scratch file system; all of them share its bound. */
static const struct {
	const char *dir, *at;
	mode_t mode;
	bool own; /* the session's uid */
} scratch[] = {
	{"tmp", "tmp", 01777, false},
	{"var-tmp", "var/tmp", 01777, false},
	{"shm", "dev/shm", 01777, false},
	{"home", INSIDE_HOME, 0700, true},
};

static const char *const root_options[] = {"mode", "0755", "size", "1m", NULL};
static const char *const scratch_options[] = {"mode",	   "0755", "size", "1g",
					      "nr_inodes", "256k", NULL};
/* Device nodes live in the root itself, so it is the one mount without nodev. */
static const struct mnt_fs root_fs = {"tmpfs", root_options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC};
static const struct mnt_fs scratch_fs = {"tmpfs", scratch_options,
					 MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};

void inside_done(struct inside *in)
{
	sandbox_plan_done(&in->plan);
	mem_cleanup_fd(&in->tree_fd);
	mem_cleanup_fd(&in->root_fd);
	mem_cleanup_fd(&in->state_fd);
	in->tree_fd = in->root_fd = in->state_fd = -1;
}

static int make_dir(int dir, const char *path, mode_t mode, struct err *err)
{
	if (mkdirat(dir, path, mode) < 0 && errno != EEXIST)
		return err_errno(err, E_ENFORCEMENT, path, "mkdirat(%s)", path);
	return 0;
}

static int make_file(int dir, const char *path, const char *text, struct err *err)
{
	cleanup_fd int fd = openat(dir, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);

	if (fd == -1 || fdio_write_all(fd, text, strlen(text)) < 0)
		return err_errno(err, E_ENFORCEMENT, path, "cannot make /%s", path);
	return 0;
}

/* What is a link on the host stays a link, what is missing stays missing. */
static int share_system_dir(int root, const char *name, struct err *err)
{
	char path[32], target[PATH_MAX];
	const struct mnt_bind bind = {AT_FDCWD, path, root, name, MNT_SHUT};
	struct stat st;
	ssize_t n;

	snprintf(path, sizeof(path), "/%s", name);
	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 0 : err_errno(err, E_ENFORCEMENT, path, "lstat(%s)", path);
	if (S_ISLNK(st.st_mode)) {
		n = readlink(path, target, sizeof(target) - 1);
		if (n == -1)
			return err_errno(err, E_ENFORCEMENT, path, "readlink(%s)", path);
		target[n] = '\0';
		if (symlinkat(target, root, name) < 0)
			return err_errno(err, E_ENFORCEMENT, name, "symlinkat(/%s)", name);
		return 0;
	}
	if (!S_ISDIR(st.st_mode))
		return 0;
	if (mkdirat(root, name, 0755) < 0)
		return err_errno(err, E_ENFORCEMENT, name, "mkdirat(/%s)", name);
	return mnt_bind(&bind, err);
}

/* Where /etc/resolv.conf is a link into /run (systemd-resolved), that one file comes along, else no
 * name could be resolved. */
static int share_resolver(int root, struct err *err)
{
	cleanup_free char *real = realpath("/etc/resolv.conf", NULL);
	const struct mnt_bind bind = {AT_FDCWD, real, root, real != NULL ? real + 1 : NULL,
				      MNT_SHUT};
	int r;

	if (real == NULL || strncmp(real, "/run/", 5) != 0 ||
	    strncmp(real, CAPTURE_DIR "/", sizeof(CAPTURE_DIR)) == 0)
		return 0;
	for (char *slash = strchr(real + 5, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		r = make_dir(root, real + 1, 0755, err);
		*slash = '/';
		if (r < 0)
			return r;
	}
	r = make_file(root, real + 1, "", err);
	return r < 0 ? r : mnt_bind(&bind, err);
}

static int make_scratch_dir(int fs, size_t i, const struct sandbox_plan *plan, struct err *err)
{
	const char *dir = scratch[i].dir;

	if (mkdirat(fs, dir, scratch[i].mode) < 0)
		return err_errno(err, E_ENFORCEMENT, dir, "mkdirat(scratch/%s)", dir);
	if (scratch[i].own && plan->privileged && fchownat(fs, dir, plan->uid, plan->gid, 0) < 0)
		return err_errno(err, E_ENFORCEMENT, dir, "fchownat(scratch/%s)", dir);
	return 0;
}

/* The file system rests at the workspace's place while it is cloned from; inside_pivot takes it
 * away. */
static int make_scratch(const struct inside *in, struct err *err)
{
	cleanup_fd int fs = -1;
	int r = mnt_make(&scratch_fs, &fs, err);

	if (r == 0)
		r = mnt_place(fs, in->root_fd, INSIDE_WORKSPACE, err);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(scratch); i++) {
		const struct mnt_bind bind = {fs, scratch[i].dir, in->root_fd, scratch[i].at, 0};

		r = make_scratch_dir(fs, i, &in->plan, err);
		if (r == 0)
			r = mnt_bind(&bind, err);
	}
	return r;
}

static int make_capture_dir(const struct inside *in, struct err *err)
{
	const struct mnt_bind bind = {AT_FDCWD, in->plan.state_program, in->root_fd,
				      RELATIVE(CAPTURE_PROGRAM), MNT_SHUT};
	int r = make_file(in->root_fd, RELATIVE(CAPTURE_PROOF), in->plan.session_id, err);

	if (r == 0)
		r = make_file(in->root_fd, RELATIVE(CAPTURE_PROGRAM), "", err);
	if (r == 0)
		r = mnt_bind(&bind, err);
	return r;
}

/* The directory that a descriptor names cannot be cloned once the namespace is new, but our working
 * directory, which the stub set to it, was carried over by the kernel (copy_mnt_ns). */
static int clone_workspace(struct inside *in, struct err *err)
{
	int fd = -1;
	int r;

	if (in->plan.privileged)
		return 0;
	r = mnt_clone(AT_FDCWD, ".", &fd, err);
	if (r < 0)
		return r;
	close(in->tree_fd);
	in->tree_fd = fd;
	return mnt_set(fd, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, "workspace", err);
}

int inside_root(struct inside *in, struct err *err)
{
	int r;

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return err_errno(err, E_ENFORCEMENT, "/", "mount(/, private)");
	r = clone_workspace(in, err);
	if (r == 0)
		r = mnt_make(&root_fs, &in->root_fd, err);
	if (r == 0)
		r = mnt_place(in->root_fd, AT_FDCWD, "/", err);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(own_dirs); i++)
		r = make_dir(in->root_fd, own_dirs[i], 0755, err);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(system_dirs); i++)
		r = share_system_dir(in->root_fd, system_dirs[i], err);
	if (r == 0)
		r = share_resolver(in->root_fd, err);
	if (r == 0)
		r = make_scratch(in, err);
	if (r == 0)
		r = make_capture_dir(in, err);
	return r;
}

static int listen_for_captures(struct inside *in, struct err *err)
{
	const struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = CAPTURE_SOCKET};
	cleanup_fd int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	const int on = 1;

	if (fd == -1 || bind(fd, (const struct sockaddr *)&at, sizeof(at)) < 0 ||
	    chmod(CAPTURE_SOCKET, 0666) < 0 || listen(fd, BACKLOG) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0)
		return err_errno(err, E_ENFORCEMENT, CAPTURE_SOCKET, "cannot listen at %s",
				 CAPTURE_SOCKET);
	in->state_fd = take_fd(fd);
	return 0;
}

/* pivot_root(2): with "." twice the old root is stacked on the new one, and is what "." means to
 * umount2. */
static int leave_old_root(int root, struct err *err)
{
	if (fchdir(root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0)
		return err_errno(err, E_ENFORCEMENT, "/", "pivot_root");
	if (umount2(".", MNT_DETACH) < 0)
		return err_errno(err, E_ENFORCEMENT, "/", "umount2(the old root)");
	if (chdir("/") < 0)
		return err_errno(err, E_ENFORCEMENT, "/", "chdir(/)");
	return 0;
}

int inside_pivot(struct inside *in, struct err *err)
{
	struct mount_attr shut = {.attr_set = MOUNT_ATTR_RDONLY};
	int r = leave_old_root(in->root_fd, err);

	if (r < 0)
		return r;
	if (umount2("/" INSIDE_WORKSPACE, MNT_DETACH) < 0)
		return err_errno(err, E_ENFORCEMENT, INSIDE_WORKSPACE, "umount2(scratch)");
	r = mnt_place(in->tree_fd, in->root_fd, INSIDE_WORKSPACE, err);
	if (r == 0)
		r = listen_for_captures(in, err);
	if (r < 0)
		return r;
	if (mount_setattr(in->root_fd, "", AT_EMPTY_PATH, &shut, sizeof(shut)) < 0)
		return err_errno(err, E_ENFORCEMENT, "/", "mount_setattr(/, read-only)");
	close(take_fd(in->tree_fd));
	wall_set(&in->walls, WALL_mount_namespace, WALL_UP,
		 "own root; system directories read-only, workspace at /" INSIDE_WORKSPACE);
	return 0;
}
