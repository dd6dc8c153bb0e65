// SPDX-License-Identifier: Apache-2.0
/* Sessions that are older than the API child, or than this launcher.
 *
 * A warden lives if its socket accepts a connection. SO_PEERCRED of that connection is the process
 * that called listen(): the stub, which became the warden under the same pid. The creation of a
 * session without ID.meta was never answered: no client knows the session, and it is removed. */
#include "base/log.h"
#include "base/mem.h"
#include "base/proc.h"
#include "launcher/launcher_state.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>

/* The pidfd is the peer's if the connection still stands after it was opened: then the pid was not
 * reused. */
static int peer_pidfd(int conn)
{
	struct pollfd pfd = {conn, 0, 0};
	struct ucred cred = {0};
	socklen_t len = sizeof(cred);
	cleanup_fd int pidfd = -1;

	if (getsockopt(conn, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 || cred.pid <= 0)
		return -1;
	pidfd = proc_pidfd(cred.pid);
	if (pidfd == -1 || poll(&pfd, 1, 0) < 0 || (pfd.revents & (POLLHUP | POLLERR)) != 0)
		return -1;
	return take_fd(pidfd);
}

static void adopt(struct launcher *l, const char *id)
{
	struct session_entry *w = entry_new(l, id);
	const bool known = meta_load(l->place.sessions_fd, id, &w->meta, NULL) == 0;
	cleanup_fd int conn = session_files_connect(l->place.sessions_fd, id);
	const bool stuck = conn == -1 && errno == EAGAIN;
	const int pidfd = conn == -1 ? -1 : peer_pidfd(conn);

	w->adopted = true;
	if (pidfd != -1 && entry_watch(w, (struct child){.pidfd = pidfd}, NULL) == 0) {
		log_info("session found", "session_id", id);
		w->probe_fd = take_fd(conn);
		w->silent = !known;
		if (!known)
			entry_kill(w);
		return;
	}
	if (stuck)
		meta_kill(&w->meta.process[0]);
	snprintf(w->reason, sizeof(w->reason), "%s %s", MAIN_PROCESS->title,
		 stuck ? "did not answer" : "died while no server watched it");
	log_info("session lost", "session_id", id, "reason", w->reason);
	if (l->privileged || !own_dir_drop(l, id, &w->meta))
		meta_kill_others(&w->meta);
	w->meta.group = 0; /* groups_sweep takes it */
	/* A known one is told as lost; its ring is drained before it goes. */
	session_files_remove(l->place.sessions_fd, id, false);
	if (!known)
		entry_remove(w);
}

int adopt_scan(struct launcher *l, struct err *err)
{
	cleanup_fd int fd = openat(l->place.sessions_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd == -1 ? NULL : fdopendir(fd);
	const struct dirent *e;
	struct strv ids = {0}; /* adopting a session may remove files of the directory */
	enum session_file kind;
	char id[ID_MAX + 1];

	if (dir == NULL)
		return err_errno(err, E_UNAVAILABLE, l->place.runtime, "cannot read %s/sessions",
				 l->place.runtime);
	take_fd(fd);
	while ((e = readdir(dir)) != NULL)
		if (session_files_parse(e->d_name, id, &kind) == 0)
			strv_add(&ids, id);
	closedir(dir);
	for (size_t i = 0; i < ids.n; i++)
		if (entry_find(l, ids.v[i]) == NULL)
			adopt(l, ids.v[i]);
	strv_done(&ids);
	groups_sweep(l);
	groups_sweep_strangers(l);
	if (!l->privileged)
		own_dirs_sweep(l);
	return 0;
}

/* Kills a warden that cannot be reached: its session is lost once it is dead. */
static bool tell_found(struct session_entry *w)
{
	const int dir = w->l->place.sessions_fd;
	struct launcher_found found = {.session_id = mem_strdup(w->id)};
	int fd[1 + RINGS_FDS] = {take_fd(w->probe_fd)};
	size_t n;

	if (fd[0] == -1)
		fd[0] = session_files_connect(dir, w->id);
	n = fd[0] != -1 ? session_files_rings(dir, w->id, &found.rings, fd + 1) : 0;
	if (n > 0) {
		w->told = true;
		api_link_post(w->l, MSG_launcher_found, 0, &found, fd, 1 + n);
		return true;
	}
	log_warn("a warden cannot be reached", "session_id", w->id, "error", strerror(errno));
	mem_cleanup_fd(&fd[0]);
	msg_done(MSG_launcher_found, &found);
	entry_kill(w);
	return false;
}

bool adopt_tell(struct launcher *l)
{
	bool waiting = false;
	struct session_entry *w;

	if (!l->api.telling)
		return false;
	TAILQ_FOREACH (w, &l->entries, next) {
		if (w->told || w->silent || w->making != NULL)
			continue;
		if (w->state == ENTRY_DEAD) {
			struct launcher_lost lost = {.session_id = mem_strdup(w->id),
						     .reason = mem_strdup(w->reason)};
			int fd[RINGS_FDS];
			const size_t n =
				session_files_rings(l->place.sessions_fd, w->id, &lost.rings, fd);

			w->told = true;
			api_link_post(l, MSG_launcher_lost, 0, &lost, fd, n);
			return true;
		}
		if (!w->killed && tell_found(w))
			return true;
		waiting = true; /* for a death that is on its way */
	}
	if (waiting)
		return false;
	l->api.telling = false;
	api_link_post(l, MSG_launcher_found_all, 0, &(struct msg_empty){0}, NULL, 0);
	return true;
}
