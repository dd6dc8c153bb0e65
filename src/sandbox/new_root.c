// SPDX-License-Identifier: Apache-2.0
/* The session's root: a tmpfs that becomes read-only at the end. It contains /etc (etc.c), what the
 * file-system lists show (view.c), one bounded scratch file system for every writable place besides
 * the workspace, and /run/agentsh.
 *
 * The new root is attached on top of "/", which always exists. init's root and working directory
 * stay below it, so that absolute paths mean the host until pivot_root. Mounts are moved only onto
 * attached mounts and cloned only from attached mounts: kernels before 6.15 refuse anything else.
 */
#include "base/fdio.h"
#include "base/mem.h"
#include "model/acmd_names.h"
#include "sandbox/inside.h"
#include "sandbox/mnt.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

#define BACKLOG 64
#define SCRATCH "run/agentsh/.scratch"
/* A path relative to the root, for a call with a directory descriptor. */
#define RELATIVE(path) (&(path)[1])

static const char *const own_dirs[] = {"dev",	      "dev/pts",	 "dev/shm",	  "etc",
				       "home",	      INSIDE_HOME,	 "proc",	  "run",
				       "run/agentsh", "run/agentsh/bin", SCRATCH,	  "tmp",
				       "var",	      "var/tmp",	 INSIDE_WORKSPACE};

/* Directories of the scratch file system; they share its size. */
static const struct {
	const char *dir, *at;
	mode_t mode;
} scratch[] = {
	{"tmp", "tmp", 01777},
	{"var-tmp", "var/tmp", 01777},
	{"shm", "dev/shm", 01777},
	{"home", INSIDE_HOME, 0700},
};

static const char *const root_options[] = {"mode", "0755", "size", "1m", NULL};
static const char *const scratch_options[] = {"mode",	   "0700", "size", "1024m",
					      "nr_inodes", "256k", NULL};
static const struct mnt_fs scratch_fs = {"tmpfs", scratch_options,
					 MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
/* The device nodes are in the root itself, so this mount alone lacks nodev. */
static const struct mnt_fs root_fs = {"tmpfs", root_options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC};

void inside_done(struct inside *in)
{
	sandbox_plan_done(&in->plan);
	strv_done(&in->writable);
	strv_done(&in->shown);
	file_view_done(&in->files);
	sandbox_trees_done(&in->view);
	sandbox_trees_done(&in->served);
	mem_cleanup_fd(&in->tree_fd);
	mem_cleanup_fd(&in->root_fd);
	mem_cleanup_fd(&in->etc_fd);
	mem_cleanup_fd(&in->state_fd);
	mem_cleanup_fd(&in->listener_fd);
	mem_cleanup_fd(&in->ruleset_fd);
	in->tree_fd = in->root_fd = in->etc_fd = in->state_fd = in->listener_fd = in->ruleset_fd =
		-1;
}

static int make_dir(int dir, const char *path, mode_t mode, struct err *err)
{
	if (mkdirat(dir, path, mode) < 0 && errno != EEXIST)
		return err_errno(err, E_ENFORCEMENT, path, "mkdirat(%s)", path);
	return 0;
}

int inside_file(int dir, const char *path, const char *text, struct err *err)
{
	cleanup_fd int fd = openat(dir, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);

	if (fd == -1 || fdio_write_all(fd, text, strlen(text)) < 0)
		return err_errno(err, E_ENFORCEMENT, path, "cannot make /%s", path);
	return 0;
}

/* The file system stays mounted read-only at SCRATCH: an unmount costs more time than all the
 * mounts that are made here. */
static int make_scratch(struct inside *in, struct err *err)
{
	cleanup_fd int fs = -1;
	int r = mnt_make(&scratch_fs, &fs, err);

	if (r == 0)
		r = mnt_place(fs, in->root_fd, SCRATCH, err);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(scratch); i++) {
		const struct mnt_bind bind = {fs, scratch[i].dir, in->root_fd, scratch[i].at, 0};

		r = make_dir(fs, scratch[i].dir, scratch[i].mode, err);
		if (r == 0)
			r = mnt_bind(&bind, err);
	}
	return r < 0 ? r : mnt_set(fs, MOUNT_ATTR_RDONLY, SCRATCH, err);
}

static int bind_program(const struct inside *in, const char *from, const char *at, struct err *err)
{
	const struct mnt_bind bind = {AT_FDCWD, from, in->root_fd, at, MNT_SHUT};
	const int r = inside_file(in->root_fd, at, "", err);

	return r < 0 ? r : mnt_bind(&bind, err);
}

static int make_acmd_links(const struct inside *in, struct err *err)
{
	static const char *const paths[] = {
#define X(name, operands, summary) RELATIVE(ACMD_DIR "/" #name),
		ACMD_LIST(X)
#undef X
	};

	for (size_t i = 0; i < ARRAY_LEN(paths); i++)
		if (symlinkat(ACMD_FILE, in->root_fd, paths[i]) < 0)
			return err_errno(err, E_ENFORCEMENT, paths[i], "symlinkat(/%s)", paths[i]);
	return bind_program(in, in->plan.acmd_program, RELATIVE(ACMD_DIR "/" ACMD_FILE), err);
}

int inside_root(struct inside *in, struct err *err)
{
	int r = 0;

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return mnt_chrooted("/", err)
			       ? -E_ENFORCEMENT
			       : err_errno(err, E_ENFORCEMENT, "/", "mount(/, private)");
	/* In a new namespace the directory that a descriptor names cannot be cloned. But the stub
	 * has made it our working directory, which the kernel carried over (copy_mnt_ns). */
	if (!in->plan.privileged && !in->plan.fuse)
		r = mnt_clone(AT_FDCWD, ".", &in->tree_fd, err);
	if (r == 0 && in->tree_fd != -1)
		r = mnt_set(in->tree_fd, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, "workspace", err);
	if (r == 0)
		r = mnt_make(&root_fs, &in->root_fd, err);
	if (r == 0)
		r = mnt_place(in->root_fd, AT_FDCWD, "/", err);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(own_dirs); i++)
		r = make_dir(in->root_fd, own_dirs[i], 0755, err);
	if (r == 0)
		r = inside_etc(in, err);
	/* What agentsh-fs will serve is not bound. */
	if (r == 0 && !in->plan.privileged)
		r = sandbox_serve(&in->plan, NULL, NULL, err);
	if (r == 0)
		r = inside_view(in, true, err);
	if (r == 0)
		r = make_scratch(in, err);
	if (r == 0 && !in->plan.privileged && in->plan.home != NULL)
		r = mnt_bind(&(struct mnt_bind){AT_FDCWD, in->plan.home, in->root_fd, INSIDE_HOME,
						MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV},
			     err);
	if (r == 0)
		r = inside_view(in, false, err);
	if (r == 0)
		r = bind_program(in, in->plan.state_program, RELATIVE(CAPTURE_PROGRAM), err);
	if (r == 0 && in->plan.acmd_program != NULL)
		r = make_acmd_links(in, err);
	if (r == 0 && (mkdirat(in->root_fd, INSIDE_VOID_DIR, 0) < 0 ||
		       mknodat(in->root_fd, INSIDE_VOID_FILE, S_IFREG, 0) < 0))
		r = err_errno(err, E_ENFORCEMENT, CAPTURE_DIR, "cannot fill " CAPTURE_DIR);
	return r;
}

/* ---- /dev: six harmless devices, the session's own terminals, the usual links ----
 *
 * /dev is part of the root's tmpfs, which becomes read-only. A device on a read-only mount can
 * still be written to. */

const struct inside_device inside_devices[INSIDE_DEVICES] = {
	{"/dev/null", 1, 3},   {"/dev/zero", 1, 5},    {"/dev/full", 1, 7},
	{"/dev/random", 1, 8}, {"/dev/urandom", 1, 9}, {"/dev/tty", 5, 0},
};
static const struct {
	const char *target, *path;
} links[] = {
	{"/proc/self/fd", "dev/fd"},	   {"/proc/self/fd/0", "dev/stdin"},
	{"/proc/self/fd/1", "dev/stdout"}, {"/proc/self/fd/2", "dev/stderr"},
	{"pts/ptmx", "dev/ptmx"},
};
/* All sessions share the 4,096 terminals of the kernel (kernel.pty.max). */
static const char *const pts_options[] = {"mode", "0600", "ptmxmode", "0666", "max", "64", NULL};

/* Makes a device node where root may; else binds the host's device. */
static int make_node(const struct inside *in, const struct inside_device *node, struct err *err)
{
	const char *at = node->path + 1;
	const dev_t dev = makedev(node->major, node->minor);
	const struct mnt_bind bind = {AT_FDCWD, node->path, in->root_fd, at,
				      MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC};

	if (inside_by_root(in) && mknodat(in->root_fd, at, S_IFCHR | 0666, dev) == 0)
		return 0;
	if (mknodat(in->root_fd, at, S_IFREG | 0666, 0) < 0)
		return err_errno(err, E_ENFORCEMENT, at, "mknodat(/%s)", at);
	return mnt_bind(&bind, err);
}

int inside_take_stdio(int null, struct err *err)
{
	for (int i = 0; i <= STDERR_FILENO; i++)
		if (null == -1 || dup2(null, i) == -1)
			return err_errno(err, E_ENFORCEMENT, "/dev/null", "cannot use /dev/null");
	return 0;
}

int inside_dev(struct inside *in, struct err *err)
{
	/* Every mount of devpts is an instance of its own (Linux 4.7). */
	const struct mnt_fs fs = {"devpts", pts_options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC};
	cleanup_fd int pts = -1, null = -1;
	int r = 0;

	for (size_t i = 0; r == 0 && i < INSIDE_DEVICES; i++)
		r = make_node(in, &inside_devices[i], err);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(links); i++)
		if (symlinkat(links[i].target, in->root_fd, links[i].path) < 0)
			r = err_errno(err, E_ENFORCEMENT, links[i].path, "symlinkat(/%s)",
				      links[i].path);
	if (r == 0)
		r = mnt_make(&fs, &pts, err);
	if (r == 0)
		r = mnt_place(pts, in->root_fd, "dev/pts", err);
	if (r < 0)
		return r;
	null = openat(in->root_fd, "dev/null", O_RDWR | O_CLOEXEC);
	return inside_take_stdio(null, err);
}

/* ---- /proc of the session's PID namespace ----
 *
 * A process sees only processes that it may trace, so neither init nor the leaders. Files that
 * change the machine are read-only; files that show its internals are covered.
 *
 * In a user namespace the kernel mounts a new proc only where one is visible that nothing covers
 * (mount_too_revealing); container engines cover theirs. */

enum treatment { SHUT, HIDE_FILE, HIDE_DIR };

static const struct {
	const char *path;
	enum treatment how;
} machine[] = {
	{"proc/sys", SHUT},
	{"proc/bus", SHUT},
	{"proc/fs", SHUT},
	{"proc/irq", SHUT},
	{"proc/kcore", HIDE_FILE},
	{"proc/keys", HIDE_FILE},
	{"proc/sysrq-trigger", HIDE_FILE},
	{"proc/timer_list", HIDE_FILE},
	{"proc/latency_stats", HIDE_FILE},
	{"proc/sched_debug", HIDE_FILE},
	{"proc/scsi", HIDE_DIR},
	{"proc/acpi", HIDE_DIR},
};
static const char *const proc_options[] = {"hidepid", "invisible", NULL};

int inside_proc(struct inside *in, struct err *err)
{
	static const char *const covers[] = {
		[HIDE_FILE] = INSIDE_VOID_FILE, [HIDE_DIR] = INSIDE_VOID_DIR};
	const struct mnt_bind host = {AT_FDCWD, "/proc", in->root_fd, "proc", MNT_SHUT};
	const struct mnt_fs fs = {"proc", proc_options,
				  MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC};
	cleanup_fd int fd = -1;
	int r = mnt_make(&fs, &fd, err);

	/* If the configuration lets the wall be missing, the session gets the host's /proc. */
	if (r < 0 && wall_listed(&in->plan.unenforced, WALL_pid_namespace)) {
		r = mnt_bind(&host, err);
		if (r == 0)
			wall_set(&in->walls, WALL_pid_namespace, WALL_PARTIAL,
				 "no /proc of its own: the host's processes can be seen");
		return r;
	}
	if (r == 0)
		r = mnt_place(fd, in->root_fd, "proc", err);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(machine); i++) {
		const char *path = machine[i].path;
		const struct mnt_bind bind = {
			in->root_fd, machine[i].how == SHUT ? path : covers[machine[i].how],
			in->root_fd, path, MNT_SHUT | MOUNT_ATTR_NOEXEC};

		if (faccessat(in->root_fd, path, F_OK, 0) == 0 || errno != ENOENT)
			r = mnt_bind(&bind, err);
	}
	if (r == 0)
		wall_set(&in->walls, WALL_pid_namespace, WALL_UP,
			 "own processes; /proc hides init and the machine, /proc/sys read-only");
	return r;
}

/* ---- the session ---- */

/* pivot_root(2): with "." twice the old root is mounted on the new one, and umount2 of "." removes
 * it. Then init listens for captures. */
int inside_pivot(struct inside *in, struct err *err)
{
	const struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = CAPTURE_SOCKET};
	cleanup_fd int fd = -1;
	const int on = 1;

	if (fchdir(in->root_fd) < 0 || syscall(SYS_pivot_root, ".", ".") < 0)
		return err_errno(err, E_ENFORCEMENT, "/", "pivot_root");
	if (umount2(".", MNT_DETACH) < 0)
		return err_errno(err, E_ENFORCEMENT, "/", "umount2(the old root)");
	if (chdir("/") < 0)
		return err_errno(err, E_ENFORCEMENT, "/", "chdir(/)");
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd == -1 || bind(fd, (const struct sockaddr *)&at, sizeof(at)) < 0 ||
	    chmod(CAPTURE_SOCKET, 0666) < 0 || listen(fd, BACKLOG) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0)
		return err_errno(err, E_ENFORCEMENT, CAPTURE_SOCKET, "cannot listen at %s",
				 CAPTURE_SOCKET);
	in->state_fd = take_fd(fd);
	return 0;
}

int inside_session(struct inside *in, struct err *err)
{
	const uint64_t mb = in->plan.scratch_mb < SCRATCH_MB ? in->plan.scratch_mb : SCRATCH_MB;
	struct mount_attr shut = {.attr_set = MOUNT_ATTR_RDONLY};
	int r = inside_names(in, err);

	if (r == 0)
		r = inside_file(in->root_fd, RELATIVE(CAPTURE_PROOF), in->plan.session_id, err);
	if (r == 0 && inside_by_root(in) &&
	    fchownat(in->root_fd, INSIDE_HOME, in->plan.uid, in->plan.gid, 0) < 0)
		r = err_errno(err, E_ENFORCEMENT, INSIDE_HOME, "fchownat(/%s)", INSIDE_HOME);
	if (r == 0 && mb > 0)
		r = scratch_set(in->root_fd, mb << 20, &in->walls, err);
	if (r == 0 && in->plan.privileged && in->plan.home != NULL && in->view.n > 0)
		r = mnt_place(in->view.fd[in->view.n - 1], in->root_fd, INSIDE_HOME, err);
	if (r == 0)
		r = inside_view_late(in, err);
	if (r == 0)
		r = inside_workspace(in, err);
	if (r < 0)
		return r;
	if (mount_setattr(in->root_fd, "", AT_EMPTY_PATH, &shut, sizeof(shut)) < 0)
		return err_errno(err, E_ENFORCEMENT, "/", "mount_setattr(/, read-only)");
	close(take_fd(in->tree_fd));
	wall_set(&in->walls, WALL_mount_namespace, WALL_UP,
		 "own root: read-only system, a list of /etc, own /tmp, %s home, workspace at %s%s",
		 in->plan.home != NULL ? "this workspace's" : "own", inside_workspace_path(in),
		 in->shown.n > 2 && strcmp(in->shown.v[3], "/" INSIDE_WORKSPACE) == 0
			 ? " and its real path"
			 : "");
	return 0;
}
