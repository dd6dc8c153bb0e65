// SPDX-License-Identifier: Apache-2.0
/* The mounts of the session's file server.
 *
 * The kernel takes a mount away when the directory that it lies on is removed on the machine. What
 * is made there later would be seen without the file server. In the session itself nothing can
 * mount or unmount. */
#include "base/fdio.h"
#include "base/mem.h"
#include "base/proc.h"
#include "warden/core.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>

#define TEXT_MAX (4 << 20)

/* -1: the namespace is gone. Names have no spaces there. */
static int count_mounts(const struct served_mounts *m)
{
	cleanup_buf struct buf text = {0};
	const char *at;
	int n = 0;

	if (lseek(m->list_fd, 0, SEEK_SET) < 0 || fdio_load(m->list_fd, TEXT_MAX, &text, NULL) < 0)
		return -1;
	for (at = text.data; at != NULL && (at = strstr(at, " - fuse.agentsh ")) != NULL; at++)
		n++;
	return n;
}

static void on_change(void *arg)
{
	struct warden *w = arg;
	struct served_mounts *m = &w->mounts;
	struct epoll_event e;

	epoll_wait(m->changes_fd, &e, 1, 0); /* until the next change it is not readable */
	if (w->phase == WARDEN_LIVE && !proc_ending(w->args->init_pid) && count_mounts(m) < m->n)
		warden_fail(w,
			    "a directory that the file server serves was removed on the machine");
}

int served_mounts_watch(struct warden *w, struct err *err)
{
	struct served_mounts *m = &w->mounts;
	struct epoll_event e = {.events = EPOLLPRI};
	char path[64];

	if (w->place.names.served.n == 0)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/mountinfo", (int)w->args->init_pid);
	m->list_fd = open(path, O_RDONLY | O_CLOEXEC);
	m->changes_fd = epoll_create1(EPOLL_CLOEXEC);
	if (m->list_fd < 0 || m->changes_fd < 0 ||
	    epoll_ctl(m->changes_fd, EPOLL_CTL_ADD, m->list_fd, &e) < 0)
		return err_errno(err, E_ENFORCEMENT, "file_rules",
				 "cannot watch the mounts of the session");
	m->changed = watch_readable(w->loop, m->changes_fd, on_change, w);
	watch_start(m->changed);
	m->n = count_mounts(m);
	return m->n >= 0 ? 0 : err_errno(err, E_ENFORCEMENT, "file_rules", "cannot read %s", path);
}
