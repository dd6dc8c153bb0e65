// SPDX-License-Identifier: Apache-2.0
#include "exec/attributes.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "base/path.h"
#include "exec/args.h"
#include "walk/walker.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <utime.h>

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#define NONE 6 /* no such argument; as a path: the descriptor itself is meant */
#define OWN_FD "/proc/self/fd/"
#define STEP_MS 1000 /* the thread waits so long for a file system that may not answer */

enum value { MODE, TIMESPEC, TIMEVAL, UTIMBUF };
static const struct attribute_call {
	int nr;
	unsigned dir, path, value, flags; /* which argument */
	enum value kind;
} calls[] = {
#ifdef SYS_chmod
	{SYS_chmod, NONE, 0, 1, NONE, MODE},	 {SYS_utime, NONE, 0, 1, NONE, UTIMBUF},
	{SYS_utimes, NONE, 0, 1, NONE, TIMEVAL},
#endif
	{SYS_fchmod, 0, NONE, 1, NONE, MODE},	 {SYS_fchmodat, 0, 1, 2, NONE, MODE},
	{SYS_fchmodat2, 0, 1, 2, 3, MODE},	 {SYS_utimensat, 0, 1, 2, 3, TIMESPEC},
};

struct work {
	const struct attribute_call *call;
	pid_t tid;
	int root;      /* see struct attributes */
	char base[32]; /* of a relative path: "cwd" or "fd/3" */
	uint64_t path; /* 0: the descriptor itself */
	uint64_t value;
	unsigned flags;
	int fd; /* of the file, once it is open; else -1 */
	struct timespec times[2];
	int errnum; /* of the last step */
};

/* ---- which file ---- */

/* Where a relative path begins, or the file of a descriptor; a descriptor or -errno. */
static int open_base(const struct work *w, int flags)
{
	const int fd = caller_open(w->tid, w->base, flags | O_PATH);

	return fd == -ENOENT ? -EBADF : fd;
}

/* The caller's own descriptor by the name that libc uses; NULL: another path. */
static const char *own_fd(const char *path)
{
	const size_t n = strlen(OWN_FD);
	const char *digits = path + n;

	if (strncmp(path, OWN_FD, n) != 0 || *digits == '\0' || strlen(digits) > 9 ||
	    digits[strspn(digits, "0123456789")] != '\0')
		return NULL;
	return path + strlen("/proc/self/");
}

/* Opens path in the callers' root. A relative path gets the name of its directory before it: from a
 * descriptor of the directory an absolute link would lead into our own root. A caller that moves
 * the directory meanwhile only reaches another file of its root. */
static int open_in_root(const struct work *w, const char *path, unsigned flags)
{
	const bool relative = path[0] != '/';
	cleanup_free char *name = NULL;
	char base[PATH_MAX] = "";
	int r = relative ? caller_link(w->tid, w->base, base) : 0, fd;

	if (r != 0)
		return r == ENOENT ? -EBADF : -r;
	if (relative && base[0] != '/')
		return -ENOTDIR;
	name = mem_printf("%s/%s", base, path);
	fd = fdio_openat2(w->root, name, flags, RESOLVE_IN_ROOT);
	if (fd >= 0)
		return fd;
	return errno == EXDEV ? -EPERM : -errno; /* a magic link, as below */
}

static int open_below(const struct work *w, const char *path, unsigned flags)
{
	cleanup_fd int base = path[0] == '/' ? -1 : open_base(w, O_DIRECTORY);
	int fd;

	if (path[0] != '/' && base < 0)
		return base;
	fd = fdio_openat2(base, path, flags, RESOLVE_NO_MAGICLINKS);
	if (fd >= 0)
		return fd;
	/* a magic link of another process: no program needs to change a file through one */
	return errno == ELOOP ? -EPERM : -errno;
}

/* The file that the call names, as an O_PATH descriptor, or -errno. */
static int open_named(const struct work *w)
{
	const unsigned stays = (w->flags & AT_SYMLINK_NOFOLLOW) != 0 ? O_NOFOLLOW : 0;
	const unsigned flags = O_PATH | O_CLOEXEC | stays;
	cleanup_buf struct buf path = {0};
	struct args_memory m;
	pid_t tid = w->tid;
	int r;

	if (w->path == 0)
		return open_base(w, 0);
	args_memory_init(&m, caller_page, &tid);
	r = args_string(&m, w->path, PATH_MAX, &path);
	if (r != 0)
		return r == E2BIG ? -ENAMETOOLONG : -EFAULT;
	if (path.data[0] == '\0')
		return (w->flags & AT_EMPTY_PATH) != 0 ? open_base(w, 0) : -ENOENT;
	if (own_fd(path.data) != NULL)
		return caller_open(w->tid, own_fd(path.data), O_PATH);
	return w->root >= 0 ? open_in_root(w, path.data, flags) : open_below(w, path.data, flags);
}

static bool is_own(const struct strv *trees, int fd)
{
	char link[32], real[PATH_MAX];

	snprintf(link, sizeof(link), "fd/%d", fd);
	if (trees == NULL || caller_link(getpid(), link, real) != 0)
		return false;
	for (size_t i = 0; i < trees->n; i++)
		if (path_within(real, trees->v[i]))
			return true;
	return false;
}

/* ---- the change ---- */

static int read_times(const struct work *w, struct timespec out[2])
{
	struct timeval tv[2];
	struct utimbuf u;
	int r;

	switch (w->call->kind) {
	case UTIMBUF:
		r = caller_read(w->tid, w->value, &u, sizeof(u));
		out[0] = (struct timespec){.tv_sec = u.actime};
		out[1] = (struct timespec){.tv_sec = u.modtime};
		return r;
	case TIMEVAL:
		r = caller_read(w->tid, w->value, tv, sizeof(tv));
		for (int i = 0; r == 0 && i < 2; i++) {
			if (tv[i].tv_usec < 0 || tv[i].tv_usec >= 1000000)
				return EINVAL;
			out[i] = (struct timespec){tv[i].tv_sec, tv[i].tv_usec * 1000};
		}
		return r;
	default:
		return caller_read(w->tid, w->value, out, 2 * sizeof(*out));
	}
}

static int set_mode(const struct work *w, int fd)
{
	char self[64];
	struct stat st;

	if (fstat(fd, &st) < 0)
		return errno;
	if (S_ISLNK(st.st_mode))
		return EOPNOTSUPP;
	/* A process outside that runs the file would get the rights of its owner. A directory only
	 * passes its group on. */
	if ((w->value & S_ISUID) != 0 || ((w->value & S_ISGID) != 0 && !S_ISDIR(st.st_mode)))
		return EPERM;
	snprintf(self, sizeof(self), OWN_FD "%d", fd);
	return chmod(self, (mode_t)w->value & 07777) == -1 ? errno : 0;
}

/* Opens the file and reads the times; then changes it. */
static void take_step(void *arg)
{
	struct work *w = arg;

	if (w->fd >= 0 && w->call->kind == MODE) {
		w->errnum = set_mode(w, w->fd);
	} else if (w->fd >= 0) {
		w->errnum = utimensat(w->fd, "", w->value != 0 ? w->times : NULL,
				      AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) == -1
				    ? errno
				    : 0;
	} else {
		w->fd = open_named(w);
		w->errnum = w->fd < 0 ? -w->fd : 0;
		if (w->errnum == 0 && w->call->kind != MODE && w->value != 0)
			w->errnum = read_times(w, w->times);
	}
}

static void drop(void *arg)
{
	struct work *w = arg;

	mem_cleanup_fd(&w->fd);
	free(w);
}

/* False: the file system does not answer, and the work is not ours any more. */
static bool await_step(const struct attributes *a, struct work *w)
{
	if (a->walker != NULL)
		return walk_within(a->walker, &(struct walk_job){take_step, drop, w}, STEP_MS);
	take_step(w);
	return true;
}

/* Takes the work. 0, or the errno for the caller. Nothing is changed for a caller that does not
 * wait any more. */
static int change(const struct attributes *a, struct work *w, struct listener *l, uint64_t id)
{
	int r;

	if (!await_step(a, w))
		return EIO;
	if (w->errnum == 0 && ((a->root < 0 && !is_own(a->trees, w->fd)) || !listener_valid(l, id)))
		w->errnum = EPERM;
	else if (w->errnum == 0 && !await_step(a, w))
		return EIO;
	r = w->errnum;
	drop(w);
	return r;
}

static void on_call(struct listener *l, const struct seccomp_notif *n, void *arg)
{
	const struct attributes *a = arg;
	const __u64 *v = n->data.args;
	const struct attribute_call *call = calls;
	struct work w = {.tid = (pid_t)n->pid, .root = a->root, .fd = -1};
	int dirfd = AT_FDCWD, r;

	while (call->nr != n->data.nr)
		call++;
	w.call = call;
	w.path = call->path != NONE ? v[call->path] : 0;
	w.value = v[call->value];
	if (call->dir != NONE)
		dirfd = (int)v[call->dir];
	if (call->flags != NONE)
		w.flags = (unsigned)v[call->flags];
	snprintf(w.base, sizeof(w.base), dirfd == AT_FDCWD ? "cwd" : "fd/%d", dirfd);
	if (w.path == 0 && (dirfd == AT_FDCWD || call->kind == MODE) && call->path != NONE)
		r = EFAULT;
	else if (w.path == 0 && dirfd == AT_FDCWD)
		r = EBADF;
	else if ((w.flags & ~(unsigned)(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)) != 0)
		r = EINVAL;
	else
		r = change(a, mem_dup(&w, sizeof(w)), l, n->id);
	if (r == 0)
		listener_done(l, n->id);
	else
		listener_send(l, n->id, r);
}

struct listener_handler attributes_handler(const struct attributes *a)
{
	static int numbers[ARRAY_LEN(calls)];

	for (size_t i = 0; i < ARRAY_LEN(calls); i++)
		numbers[i] = calls[i].nr;
	return (struct listener_handler){.calls = numbers,
					 .ncalls = ARRAY_LEN(numbers),
					 .on = on_call,
					 .arg = (void *)(uintptr_t)a};
}
