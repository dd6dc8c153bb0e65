// SPDX-License-Identifier: Apache-2.0
/* One descriptor for all that tells of a limit: an epoll of inotify and, in v1, an eventfd. */
#include "base/mem.h"
#include "cgroup/cgroup_version.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/inotify.h>

int cgroup_notify(struct cgroup_watch *w, int dir, const char *file)
{
	char path[64];

	if (w->notify == -1)
		w->notify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (w->notify == -1)
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", dir, file);
	return inotify_add_watch(w->notify, path, IN_MODIFY) == -1 ? -1 : 0;
}

static int gather(struct cgroup_watch *w)
{
	const int inner[] = {w->event, w->notify};

	w->fd = epoll_create1(EPOLL_CLOEXEC);
	for (size_t i = 0; w->fd != -1 && i < ARRAY_LEN(inner); i++) {
		struct epoll_event in = {.events = EPOLLIN, .data.fd = inner[i]};

		if (inner[i] != -1 && epoll_ctl(w->fd, EPOLL_CTL_ADD, inner[i], &in) < 0)
			return -1;
	}
	return w->fd == -1 ? -1 : 0;
}

int cgroup_watch_open(const struct cgroup_host *host, const char *id, struct cgroup_watch *w,
		      struct err *err)
{
	struct cgroup_watch made = {-1, -1, -1};
	int r = 0;

	for (size_t i = 0; r == 0 && i < host->n; i++) {
		const struct cgroup_version *v = host->tree[i].v2 ? &cgroup_v2 : &cgroup_v1;
		cleanup_fd int dir = cgroup_group(host, i, id);

		if (dir != -1)
			r = v->watch(dir, host->tree[i].controllers, &made);
	}
	if (r == 0)
		r = gather(&made);
	if (r < 0) {
		r = err_errno(err, E_UNAVAILABLE, id, "cannot watch the session's limits");
		cgroup_watch_close(&made);
		return r;
	}
	*w = made;
	return 0;
}

void cgroup_watch_take(struct cgroup_watch *w)
{
	char events[4096] __attribute__((aligned(8)));
	const int inner[] = {w->event, w->notify};

	for (size_t i = 0; i < ARRAY_LEN(inner); i++)
		while (inner[i] != -1 && read(inner[i], events, sizeof(events)) > 0)
			;
}

void cgroup_watch_close(struct cgroup_watch *w)
{
	const int fds[] = {w->fd, w->event, w->notify};

	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		if (fds[i] != -1)
			close(fds[i]);
	*w = (struct cgroup_watch){-1, -1, -1};
}
