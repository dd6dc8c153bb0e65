// SPDX-License-Identifier: Apache-2.0
/* Sessions and their ends. The launcher watches a living warden by a pidfd. When the warden dies,
 * the launcher sends launcher_gone to the API child and removes the socket. Ring and record stay
 * until the API child has read the ring and asks to remove them.
 *
 * A session may be older than the API child, or than this launcher. Its warden lives if its socket
 * accepts a connection. SO_PEERCRED of that connection is the process that called listen(): the
 * warden. The creation of a session without ID.meta was
 * never answered, so no client has its id: it is removed. */
#include "base/log.h"
#include "base/mem.h"
#include "base/proc.h"
#include "launcher/launcher_state.h"
#include "launcher/make.h"
#include "launcher/own_dir.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>

/* Time for a warden to end by itself after it has reported the end of its session. */
#define LEAVE_MS 300

struct session_entry *entry_find(struct launcher *l, const char *id)
{
	struct session_entry *w;

	TAILQ_FOREACH (w, &l->entries, next)
		if (strcmp(w->id, id) == 0)
			return w;
	return NULL;
}

struct session_entry *entry_new(struct launcher *l, const char *id)
{
	struct session_entry *w = mem_new(struct session_entry);

	w->l = l;
	snprintf(w->id, sizeof(w->id), "%s", id);
	w->state = ENTRY_DEAD;
	w->warden = CHILD_NONE;
	w->probe_fd = -1;
	TAILQ_INSERT_TAIL(&l->entries, w, next);
	return w;
}

void entry_free(struct session_entry *w)
{
	ensure(w->making == NULL);
	w->l->alive -= w->warden.pidfd != -1;
	child_forget(&w->warden);
	watch_free(w->leaving);
	mem_cleanup_fd(&w->probe_fd);
	TAILQ_REMOVE(&w->l->entries, w, next);
	free(w);
}

/* Called before the group is removed. The API child, which has counted the earlier kills, finds out
 * whether this death is a new one. */
static uint64_t oom_kills(const struct session_entry *w)
{
	struct cgroup_counters now = {0};
	char id[GROUP_ID_MAX];

	if (w->killed || w->meta.group == 0)
		return 0;
	group_id(w->l, w->meta.group, id);
	return cgroup_read(&w->l->groups.host, id, &now, NULL) == 0 ? now.oom_kills : 0;
}

/* Kills the other processes of the session: they end when their links close, unless they are
 * stopped or stuck. Without a PID namespace this takes a moment, and the process that removes the
 * session's directories waits for it. */
static void sweep(struct session_entry *w)
{
	const int dir = w->l->place.sessions_fd;

	if (w->l->privileged || !own_dir_drop(w->l, w->id, &w->meta))
		meta_kill_others(&w->meta);
	group_drop(w->l, w->meta.group);
	w->meta.group = 0;
	/* the number of its group, if it had one, is not known */
	if (w->silent && w->adopted)
		groups_sweep(w->l);
	session_files_remove(dir, w->id, w->silent || w->removed);
}

static void died(struct session_entry *w)
{
	struct launcher *l = w->l;

	l->alive--;
	if (w->making != NULL)
		make_finish(w);
	w->state = ENTRY_DEAD;
	log_info("session ended", "session_id", w->id, "reason", w->reason);
	sweep(w);
	l->bpf.check.ended++;
	if (l->orphans.again != NULL)
		orphans_look(l);
	if (!w->silent && w->told) {
		struct launcher_gone gone = {.session_id = mem_strdup(w->id),
					     .reason = mem_strdup(w->reason),
					     .oom_kills = w->oom_kills};

		api_link_post(l, MSG_launcher_gone, 0, &gone, NULL, 0);
	} else if (!w->silent) {
		api_link_kick(l); /* the greeting may wait for this death */
	}
	if (w->silent || w->removed)
		entry_free(w);
	launcher_maybe_end(l);
}

static void on_death(void *arg)
{
	struct session_entry *w = arg;
	siginfo_t si = {.si_code = CLD_KILLED, .si_status = SIGKILL};

	if (w->adopted) {
		child_forget(&w->warden);
		snprintf(w->reason, sizeof(w->reason), "%s ended", MAIN_PROCESS->title);
	} else {
		if (!child_ended(&w->warden, &si))
			return;
		death_reason(MAIN_PROCESS->title, &si, w->reason, sizeof(w->reason));
	}
	if (si.si_code == CLD_KILLED && si.si_status == SIGKILL)
		w->oom_kills = oom_kills(w);
	died(w);
}

int entry_watch(struct session_entry *w, struct child warden, struct err *err)
{
	int r;

	w->warden = warden;
	r = child_watch(&w->warden, w->l->loop, on_death, w, err);
	if (r < 0) {
		child_end(&w->warden, NULL);
		return r;
	}
	w->state = ENTRY_ALIVE;
	w->l->alive++;
	return 0;
}

void entry_kill(void *session_entry)
{
	struct session_entry *w = session_entry;

	w->killed |= w->warden.pidfd != -1;
	child_kill(&w->warden);
}

void entry_remove(struct session_entry *w)
{
	w->removed = true;
	if (w->state == ENTRY_DEAD) {
		sweep(w);
		entry_free(w);
	} else if (w->state == ENTRY_MAKING) {
		entry_kill(w);
	} else if (w->leaving == NULL) {
		w->leaving = watch_timer(w->l->loop, entry_kill, w);
		watch_after(w->leaving, LEAVE_MS);
	}
}

void entries_kill(struct launcher *l)
{
	struct session_entry *w;

	TAILQ_FOREACH (w, &l->entries, next)
		if (w->leaving == NULL)
			entry_kill(w);
}

/* ---- sessions of an earlier launcher or API child ---- */

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
	/* The API child drains the ring of a session that was answered, before its files are
	 * removed. */
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
	char id[ID_MAX + 1];

	if (dir == NULL)
		return err_errno(err, E_UNAVAILABLE, l->place.runtime, "cannot read %s/sessions",
				 l->place.runtime);
	take_fd(fd);
	while ((e = readdir(dir)) != NULL)
		if (session_files_parse(e->d_name, id))
			strv_add(&ids, id);
	closedir(dir);
	for (size_t i = 0; i < ids.n; i++)
		if (entry_find(l, ids.v[i]) == NULL)
			adopt(l, ids.v[i]);
	strv_done(&ids);
	groups_sweep(l);
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
		waiting = true; /* until the process is dead */
	}
	if (waiting)
		return false;
	l->api.telling = false;
	api_link_post(l, MSG_launcher_found_all, 0, &(struct msg_empty){0}, NULL, 0);
	return true;
}
