// SPDX-License-Identifier: Apache-2.0
/* A namespace exists while a process or a descriptor holds it. A child that shares our memory (so
 * that a large launcher is not copied) sleeps in it until its maps are written and it is opened.
 * The child touches no memory besides its stack; it dies with us. */
#include "sandbox/idmap.h"
#include "base/fdio.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define STACK_BYTES (16 * 1024)
#define LAST_ID UINT32_C(4294967294) /* the one above means "none" */

static void line(struct buf *out, uint32_t from, uint32_t to, uint64_t count)
{
	if (count > 0)
		buf_addf(out, "%u %u %llu\n", from, to, (unsigned long long)count);
}

void idmap_format(struct buf *out, uint32_t a, uint32_t b)
{
	const uint32_t low = a < b ? a : b, high = a < b ? b : a;

	line(out, 0, 0, low);
	if (low != high) {
		line(out, low, high, 1);
		line(out, low + 1, low + 1, high - low - 1);
	}
	line(out, high, low, 1);
	line(out, high + 1, high + 1, LAST_ID - high);
}

static int sleeper(void *arg)
{
	(void)arg;
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	for (;;)
		pause();
	return 0;
}

static int write_map(pid_t pid, const char *name, uint32_t a, uint32_t b, struct err *err)
{
	cleanup_buf struct buf text = {0};
	cleanup_fd int fd = -1;
	char path[64];

	idmap_format(&text, a, b);
	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd == -1 || fdio_write_all(fd, text.data, text.len) < 0)
		return err_errno(err, E_ENFORCEMENT, name,
				 "cannot write the %s of an idmapped mount", name);
	return 0;
}

static int fill(pid_t pid, const struct idmap *m, int *userns, struct err *err)
{
	char path[64];
	int fd, r = write_map(pid, "uid_map", m->disk_uid, m->shown_uid, err);

	if (r == 0)
		r = write_map(pid, "gid_map", m->disk_gid, m->shown_gid, err);
	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd == -1)
		return err_errno(err, E_ENFORCEMENT, path, "open(%s)", path);
	*userns = fd;
	return 0;
}

int idmap_open(const struct idmap *m, int *userns, struct err *err)
{
	cleanup_free char *stack = mem_alloc(STACK_BYTES);
	sigset_t all, old;
	pid_t pid;
	int r;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &old);
	pid = clone(sleeper, stack + STACK_BYTES, CLONE_VM | CLONE_NEWUSER | SIGCHLD, NULL);
	sigprocmask(SIG_SETMASK, &old, NULL);
	if (pid == -1)
		return err_errno(err, E_ENFORCEMENT, "uid",
				 "the workspace's owners cannot be mapped without a user namespace "
				 "(raise user.max_user_namespaces, or list uid in "
				 "sandbox.allow_unenforced): clone(CLONE_NEWUSER)");
	r = fill(pid, m, userns, err);
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) == -1 && errno == EINTR)
		;
	return r;
}

/* Most sessions of a server have the same owner and uid. */
static struct kept {
	struct idmap map;
	int userns; /* 0: none */
} kept[IDMAP_KEPT];

int idmap_kept(const struct idmap *m, int *userns, struct err *err)
{
	static size_t turn;
	struct kept *k = &kept[turn];
	int fd, r;

	for (size_t i = 0; i < IDMAP_KEPT; i++)
		if (kept[i].userns > 0 && memcmp(&kept[i].map, m, sizeof(*m)) == 0) {
			*userns = kept[i].userns;
			return 0;
		}
	r = idmap_open(m, &fd, err);
	if (r < 0)
		return r;
	if (k->userns > 0)
		close(k->userns);
	*k = (struct kept){*m, fd};
	turn = (turn + 1) % IDMAP_KEPT;
	*userns = fd;
	return 0;
}
