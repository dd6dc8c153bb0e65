// SPDX-License-Identifier: Apache-2.0
/* Wardens and their ends. The launcher watches a living warden by a pidfd. When the warden dies,
 * the API child is told and its socket is removed. Ring and record stay until the API child has
 * read the ring and says so. */
#include "base/log.h"
#include "base/mem.h"
#include "base/proc.h"
#include "launcher/launcher_state.h"
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

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
	w->pidfd = w->probe_fd = -1;
	TAILQ_INSERT_TAIL(&l->entries, w, next);
	l->total++;
	return w;
}

void entry_free(struct session_entry *w)
{
	ensure(w->making == NULL);
	watch_free(w->death);
	watch_free(w->leaving);
	if (w->pidfd != -1) {
		close(w->pidfd);
		w->l->alive--;
	}
	if (w->probe_fd != -1)
		close(w->probe_fd);
	TAILQ_REMOVE(&w->l->entries, w, next);
	w->l->total--;
	free(w);
}

void death_reason(const char *who, const siginfo_t *si, char *out, size_t n)
{
	const char *name = proc_signal_name(si->si_status);

	if (si->si_code == CLD_EXITED)
		snprintf(out, n, "%s ended with exit status %d", who, si->si_status);
	else
		snprintf(out, n, "%s was killed by signal %s (%d)", who, name != NULL ? name : "?",
			 si->si_status);
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
	if (w->silent && !w->child)
		groups_sweep(w->l);
	session_files_remove(dir, w->id, w->silent || w->removed);
}

static void died(struct session_entry *w)
{
	struct launcher *l = w->l;

	watch_free(take(w->death));
	close(w->pidfd);
	w->pidfd = -1;
	l->alive--;
	if (w->making != NULL)
		make_finish(w);
	w->state = ENTRY_DEAD;
	log_info("session ended", "session_id", w->id, "reason", w->reason);
	sweep(w);
	if (l->orphans.again != NULL)
		orphans_look(l);
	if (!w->silent && w->told) {
		struct launcher_gone gone = {.session_id = mem_strdup(w->id),
					     .reason = mem_strdup(w->reason),
					     .oom_kills = w->oom_kills};

		api_link_post(l, MSG_launcher_gone, 0, &gone, NULL, 0);
	} else if (!w->silent) {
		api_link_kick(l); /* a greeting may be waiting for this */
	}
	if (w->silent || w->removed)
		entry_free(w);
	launcher_maybe_end(l);
}

static void on_death(void *arg)
{
	struct session_entry *w = arg;
	siginfo_t si = {0};

	if (!w->child) {
		snprintf(w->reason, sizeof(w->reason), "%s ended", MAIN_PROCESS->title);
		w->oom_kills = oom_kills(w);
	} else {
		if (waitid(P_PIDFD, (id_t)w->pidfd, &si, WEXITED | WNOHANG) < 0 || si.si_pid == 0)
			return;
		death_reason(MAIN_PROCESS->title, &si, w->reason, sizeof(w->reason));
		if (si.si_code == CLD_KILLED && si.si_status == SIGKILL)
			w->oom_kills = oom_kills(w);
	}
	died(w);
}

int entry_watch(struct session_entry *w, int pidfd, struct err *err)
{
	struct watch *death = watch_readable(w->l->loop, pidfd, on_death, w);

	if (watch_start(death) < 0) {
		watch_free(death);
		close(pidfd);
		return err_set(err, E_UNAVAILABLE, w->id, "cannot watch %s of %s: " LOOP_FULL,
			       MAIN_PROCESS->title, w->id);
	}
	w->death = death;
	w->pidfd = pidfd;
	w->state = ENTRY_ALIVE;
	w->l->alive++;
	return 0;
}

void entry_kill(struct session_entry *w)
{
	if (w->pidfd == -1)
		return;
	w->killed = true;
	proc_pidfd_signal(w->pidfd, SIGKILL);
}

static void on_stays(void *arg)
{
	entry_kill(arg);
}

void entry_remove(struct session_entry *w)
{
	w->removed = true;
	if (w->state == ENTRY_DEAD) {
		sweep(w);
		entry_free(w);
	} else if (w->state == ENTRY_ALIVE) {
		if (w->leaving != NULL)
			return;
		w->leaving = watch_timer(w->l->loop, on_stays, w);
		watch_after(w->leaving, LEAVE_MS);
	} else {
		entry_kill(w);
	}
}

void entries_kill(struct launcher *l)
{
	struct session_entry *w;

	TAILQ_FOREACH (w, &l->entries, next)
		if (w->leaving == NULL)
			entry_kill(w);
}
