// SPDX-License-Identifier: Apache-2.0
/* Wardens and their ends. The launcher watches a living warden by a pidfd. When the warden dies,
 * the API child is told and its socket is removed. Ring and record stay until the API child has
 * read the ring and says so. */
#include "base/log.h"
#include "base/mem.h"
#include "launcher/launcher_state.h"
#include <signal.h>
#include <stdio.h>

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
	l->total++;
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
	w->l->total--;
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

void entry_kill(struct session_entry *w)
{
	w->killed |= w->warden.pidfd != -1;
	child_kill(&w->warden);
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
	} else if (w->state == ENTRY_MAKING) {
		entry_kill(w);
	} else if (w->leaving == NULL) {
		w->leaving = watch_timer(w->l->loop, on_stays, w);
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
