// SPDX-License-Identifier: Apache-2.0
/* A group for a session that was made without one, when it is to have limits all the same. To join
 * a group waits for the kernel, and a session may have many processes: a child of ours moves them,
 * and who asks for limits meanwhile is answered when it has ended, in the order of the asking.
 *
 * The record names the group before anybody is in it, so that it is dropped at the session's end
 * whatever happens, and no other launcher takes it for nobody's. Until all are inside it has no
 * limits: then it is as if there were none, and the next asking tries again. */
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/proc.h"
#include "launcher/state.h"
#include <event2/event.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

struct asking {
	STAILQ_ENTRY(asking) next;
	struct launcher_limit ask; /* owned */
	uint32_t req;
};
struct gathering {
	pid_t pid;
	int pidfd;
	struct event *done;
	STAILQ_HEAD(, asking) asking;
};

static void asking_free(struct asking *a)
{
	msg_done(MSG_launcher_limit, &a->ask);
	free(a);
}

void gather_forget(struct ward *w)
{
	struct asking *a;

	while (w->gathering != NULL && (a = STAILQ_FIRST(&w->gathering->asking)) != NULL) {
		STAILQ_REMOVE_HEAD(&w->gathering->asking, next);
		asking_free(a);
	}
}

pid_t gather_pid(const struct ward *w)
{
	return w->gathering != NULL ? w->gathering->pid : -1;
}

/* ---- the end of it ---- */

/* Ends the child if it still runs; true if it has moved everybody. */
static bool collect(struct gathering *g)
{
	int status = -1;

	proc_pidfd_signal(g->pidfd, SIGKILL);
	waitpid(g->pid, &status, 0);
	event_free(g->done);
	close(g->pidfd);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void answer_all(struct ward *w, struct gathering *g)
{
	struct launcher *l = w->l;
	struct asking *a;

	while ((a = STAILQ_FIRST(&g->asking)) != NULL) {
		STAILQ_REMOVE_HEAD(&g->asking, next);
		narrow_now(l, &a->ask, a->req);
		asking_free(a);
	}
	free(g);
}

static void save(struct ward *w)
{
	struct err err = {0};

	if (meta_save(w->l->place.sessions_fd, w->id, &w->meta, &err) < 0)
		log_warn("a session's cgroup is not written down", "session_id", w->id, "error",
			 err.message);
}

/* Only once it is dead: what it has said is what holds. */
static void on_done(evutil_socket_t fd, short what, void *arg)
{
	struct ward *w = arg;
	struct gathering *g = take(w->gathering);

	if (collect(g)) {
		w->meta.late = LATE_WHOLE;
		save(w);
	} else {
		log_warn("a session cannot be brought into a cgroup", "session_id", w->id);
	}
	answer_all(w, g);
}

void gather_stop(struct ward *w)
{
	struct gathering *g = take(w->gathering);

	if (g == NULL)
		return;
	collect(g);
	answer_all(w, g);
}

/* ---- the beginning ---- */

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* Holds neither the launcher's lock nor its sockets, and ends with it. */
static _Noreturn void move(const struct ward *w, pid_t parent)
{
	const struct cgroup_host *host = &w->l->groups.host;
	const pid_t init = (pid_t)w->meta.init_pid;
	struct cgroup_session session = {.warden = (pid_t)w->meta.warden_pid};
	int keep[CGROUP_TREES + 1] = {w->l->log_fd};
	struct err err = {0};
	char id[GROUP_ID_MAX];

	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent)
		_exit(1);
	for (size_t i = 0; i < host->n; i++)
		keep[i + 1] = host->tree[i].dir;
	qsort(keep, host->n + 1, sizeof(keep[0]), compare);
	fdio_close_except(keep, host->n + 1);
	/* the number is that process's while the start is the one that was written down */
	if (meta_start_time(init) == w->meta.init_start)
		session.init = init;
	group_make(w->l, w->meta.group);
	group_id(w->l, w->meta.group, id);
	if (cgroup_gather(host, id, &session, &err) < 0) {
		log_warn("processes stay outside of a cgroup", "session_id", w->id, "error",
			 err.message);
		_exit(1);
	}
	_exit(0);
}

static int begin(struct ward *w)
{
	struct gathering *g;
	struct meta before = w->meta;
	const pid_t parent = getpid();
	pid_t pid;

	if (!group_exists(w->l, w->meta.group))
		w->meta.group = group_next(w->l);
	w->meta.late = LATE_PARTLY;
	if (meta_save(w->l->place.sessions_fd, w->id, &w->meta, NULL) < 0) {
		w->meta = before;
		return -1;
	}
	pid = fork();
	if (pid == 0)
		move(w, parent);
	if (pid < 0)
		return -1;
	g = mem_new(struct gathering);
	STAILQ_INIT(&g->asking);
	g->pid = pid;
	g->pidfd = proc_pidfd(pid);
	g->done = g->pidfd < 0 ? NULL : event_new(w->l->base, g->pidfd, EV_READ, on_done, w);
	if (g->done == NULL || event_add(g->done, NULL) < 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		if (g->done != NULL)
			event_free(g->done);
		mem_cleanup_fd(&g->pidfd);
		free(g);
		return -1;
	}
	w->gathering = g;
	return 0;
}

static bool is_outside(const struct ward *w)
{
	return w->l->groups.host.n > 0 &&
	       (w->meta.late == LATE_PARTLY || !group_exists(w->l, w->meta.group));
}

bool gather_first(struct ward *w, struct launcher_limit *ask, uint32_t req)
{
	struct asking *a;

	if (w->gathering == NULL && (!is_outside(w) || !narrow_needs_group(ask) || begin(w) < 0))
		return false;
	a = mem_new(struct asking);
	a->ask = *ask;
	a->req = req;
	*ask = (struct launcher_limit){0};
	STAILQ_INSERT_TAIL(&w->gathering->asking, a, next);
	return true;
}
