// SPDX-License-Identifier: Apache-2.0
/* Makes, joins, kills and removes a session's group in all trees. */
#include "cgroup/cgroup.h"
#include "base/clock.h"
#include "base/fdio.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/proc.h"
#include "cgroup/cgroup_group.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* The name of a control file never begins with this. */
#define PREFIX "session-"
#define NAME_BYTES (sizeof(PREFIX) + ID_MAX)
#define TEXT_MAX 65536
#define WAIT_PIDS 64

const enum wall cgroup_wall[CGROUP_CONTROLLERS] = {
	[CGROUP_MEMORY] = WALL_memory_limit, [CGROUP_CPU] = WALL_cpu_limit,
	[CGROUP_CPUACCT] = WALL_cpu_limit,   [CGROUP_PIDS] = WALL_pids_limit,
	[CGROUP_IO] = WALL_io_limit,
};

/* ---- control files ---- */

int cgroup_write(int dir, const char *file, const char *fmt, ...)
{
	cleanup_fd int fd = openat(dir, file, O_WRONLY | O_CLOEXEC);
	cleanup_buf struct buf text = {0};
	va_list ap;

	if (fd == -1)
		return -1;
	va_start(ap, fmt);
	buf_addv(&text, fmt, ap);
	va_end(ap);
	/* one write is one setting: a second write would be another one */
	return write(fd, text.data, text.len) == (ssize_t)text.len ? 0 : -1;
}

int cgroup_load(int dir, const char *file, struct buf *out)
{
	cleanup_fd int fd = openat(dir, file, O_RDONLY | O_CLOEXEC);

	buf_clear(out);
	buf_adds(out, "");
	return fd == -1 ? -1 : fdio_load(fd, TEXT_MAX, out, NULL);
}

/* ---- made and joined ---- */

/* False with EINVAL if it is not an id. */
static bool name_of(char out[NAME_BYTES], const char *id)
{
	errno = EINVAL;
	return id_valid(id) && snprintf(out, NAME_BYTES, PREFIX "%s", id) > 0;
}

int cgroup_group(const struct cgroup_host *host, size_t tree, const char *id)
{
	char name[NAME_BYTES];

	return name_of(name, id) ? openat(host->tree[tree].dir, name, CGROUP_OPEN_DIR) : -1;
}

int cgroup_make(const struct cgroup_host *host, size_t tree, const char *id)
{
	const int dir = host->tree[tree].dir;
	char name[NAME_BYTES];

	/* A launcher that was killed may have left the group. */
	if (!name_of(name, id))
		return -1;
	if (mkdirat(dir, name, 0755) < 0 &&
	    (errno != EEXIST || unlinkat(dir, name, AT_REMOVEDIR) < 0 ||
	     mkdirat(dir, name, 0755) < 0))
		return -1;
	return cgroup_group(host, tree, id);
}

int cgroup_join(const struct cgroup_host *host, const char *id, pid_t pid, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < host->n; i++) {
		cleanup_fd int dir = cgroup_group(host, i, id);
		const unsigned has = host->tree[i].controllers;

		/* The wall report has the trees in which the group could not be made. */
		if (dir == -1 && errno == ENOENT)
			continue;
		if (dir == -1 || cgroup_write(dir, "cgroup.procs", "%d", (int)pid) < 0)
			r = err_errno(err, E_ENFORCEMENT,
				      wall_name(has != 0 ? cgroup_wall[__builtin_ctz(has)]
							 : WALL_cgroup_namespace),
				      "cannot join the session's cgroup");
	}
	return r;
}

pid_t cgroup_fork(const struct cgroup_host *host, const char *id)
{
	const bool one = host->n == 1 && host->tree[0].v2;
	cleanup_fd int dir = one ? cgroup_group(host, 0, id) : -1;
	struct clone_args args = {
		.flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (uint64_t)dir};

	if (!one)
		errno = ENOTSUP;
	return dir == -1 ? -1 : (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

/* ---- the end ---- */

int cgroup_kill(const struct cgroup_host *host, const char *id, struct err *err)
{
	for (size_t i = 0; i < host->n; i++) {
		cleanup_fd int dir = host->tree[i].v2 ? cgroup_group(host, i, id) : -1;

		if (dir != -1 && cgroup_write(dir, "cgroup.kill", "1") == 0)
			return 0;
	}
	return err_set(err, E_UNAVAILABLE, "cgroup.kill",
		       "no cgroup of the session can be killed as a whole");
}

/* Waits until one of the group's processes has ended. A process leaves its group shortly before its
 * end. */
static void wait_for_one(const struct cgroup_host *host, size_t i, const char *id, int64_t left_ms)
{
	struct pollfd p[WAIT_PIDS];
	cleanup_buf struct buf text = {0};
	cleanup_fd int dir = cgroup_group(host, i, id);
	char *end;
	nfds_t n = 0;

	if (dir == -1 || cgroup_load(dir, "cgroup.procs", &text) < 0)
		return;
	for (const char *s = text.data; n < WAIT_PIDS; s = end) {
		const long pid = strtol(s, &end, 10);

		if (end == s)
			break;
		p[n] = (struct pollfd){pid > 0 ? proc_pidfd((pid_t)pid) : -1, POLLIN, 0};
		n += p[n].fd >= 0;
	}
	poll(p, n, n > 0 ? (int)left_ms : 1);
	while (n > 0)
		close(p[--n].fd);
}

int cgroup_remove(const struct cgroup_host *host, const char *id, int timeout_ms, struct err *err)
{
	const int64_t until = clock_mono_us(&clock_system) + (int64_t)timeout_ms * 1000;
	char name[NAME_BYTES];

	if (!name_of(name, id))
		return err_set(err, E_BAD_REQUEST, "id", "not the name of a session");
	for (size_t i = 0; i < host->n;) {
		const int64_t left = until - clock_mono_us(&clock_system);

		if (unlinkat(host->tree[i].dir, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
			i++;
		else if (errno != EBUSY || timeout_ms == 0 || left <= 0)
			return err_errno(err, E_UNAVAILABLE, id,
					 "cannot remove the session's cgroup");
		else
			wait_for_one(host, i, id, left / 1000 + 1);
	}
	return 0;
}

/* ---- what there is ---- */

bool cgroup_empty(const struct cgroup_host *host, const char *id)
{
	cleanup_buf struct buf text = {0};
	bool found = false;

	for (size_t i = 0; i < host->n; i++) {
		cleanup_fd int dir = cgroup_group(host, i, id);

		if (dir == -1)
			continue;
		found = true;
		if (cgroup_load(dir, "cgroup.procs", &text) < 0 || text.len > 0)
			return false;
	}
	return found;
}

void cgroup_list(const struct cgroup_host *host, const char *prefix, struct strv *ids)
{
	for (size_t i = 0; i < host->n; i++) {
		cleanup_fd int fd = openat(host->tree[i].dir, ".", CGROUP_OPEN_DIR);
		DIR *dir = fd == -1 ? NULL : fdopendir(fd);
		const struct dirent *e;

		if (dir == NULL)
			continue;
		take_fd(fd);
		while ((e = readdir(dir)) != NULL)
			if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) == 0 &&
			    strncmp(e->d_name + strlen(PREFIX), prefix, strlen(prefix)) == 0)
				strv_add(ids, e->d_name + strlen(PREFIX));
		closedir(dir);
	}
}
