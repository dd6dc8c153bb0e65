// SPDX-License-Identifier: Apache-2.0
/* Orphans of sessions without namespaces. If the warden and the init of such a session were both
 * killed, their processes become children of the launcher, the nearest subreaper, which ends them.
 * The launcher also reaps the processes that remove the sessions' directories.
 *
 * The launcher becomes a subreaper when the first such session is made. It then looks through its
 * children for a while after the death of each warden, and kills a process that it did not start.
 * An init or a leader that still lives ends its own processes, and gets the time for it. */
#include "base/mem.h"
#include "base/proc.h"
#include "base/process_tree.h"
#include "launcher/launcher_state.h"
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define LOOK_MS 20
#define LOOKS 500    /* at most after a death: longer than an init may take */
#define PATIENCE 250 /* looks, for an init or leader */
#define QUIET 10     /* looks without an orphan: no more will come */

static bool is_known(const struct launcher *l, pid_t pid)
{
	const struct session_entry *w;
	const struct trim *t;

	if (pid == l->api.child.pid || pid == l->checks.child.pid)
		return true;
	for (size_t i = 0; i < l->orphans.n; i++)
		if (l->orphans.remover[i] == pid)
			return true;
	TAILQ_FOREACH (w, &l->entries, next)
		if (w->warden.pid == pid)
			return true;
	LIST_FOREACH (t, &l->trims, next)
		if (t->child.pid == pid)
			return true;
	return false;
}

/* A child's pid is its own until it is waited for. */
static void end(const struct launcher *l, pid_t pid)
{
	const bool early = l->orphans.looks > LOOKS - PATIENCE;
	const struct tree_root root = {pid, proc_pidfd(pid)};
	struct stat st;

	if (root.pidfd < 0)
		return;
	if (early && fstat(l->programs.fd[process_of(PROCESS_INSIDE)], &st) == 0 &&
	    proc_exe_is(pid, st.st_dev, st.st_ino) == 1) {
		/* the process that was ending it may have died */
		proc_pidfd_signal(root.pidfd, SIGCONT);
	} else {
		/* what it has started is a child of ours then, unless it cannot die */
		proc_pidfd_signal(root.pidfd, SIGKILL);
		if (!early)
			tree_kill_round(&root);
	}
	close(root.pidfd);
}

static void look_again(struct launcher *l)
{
	if (l->orphans.looks > 0 || l->orphans.n > 0)
		watch_after(l->orphans.again, LOOK_MS);
}

static void look(void *arg)
{
	struct launcher *l = arg;
	struct orphans *s = &l->orphans;
	cleanup_free pid_t *child = NULL;
	const size_t n = proc_children(getpid(), &child);
	size_t kept = 0;
	bool any = false;

	for (size_t i = 0; i < s->n; i++)
		if (waitpid(s->remover[i], NULL, WNOHANG) == 0)
			s->remover[kept++] = s->remover[i];
	s->n = kept;
	for (size_t i = 0; i < n; i++)
		if (!is_known(l, child[i]) && waitpid(child[i], NULL, WNOHANG) == 0) {
			end(l, child[i]);
			any = true;
		}
	s->quiet = any ? 0 : s->quiet + 1;
	if (s->quiet > QUIET)
		s->looks = 0;
	else if (s->looks > 0)
		s->looks--;
	look_again(l);
}

void orphans_start(struct launcher *l)
{
	ensure(!l->privileged);
	if (l->orphans.again != NULL)
		return;
	l->orphans.again = watch_timer(l->loop, look, l);
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

void orphans_expect(struct launcher *l, pid_t remover)
{
	struct orphans *s = &l->orphans;

	s->remover = mem_resize(s->remover, s->n + 1, sizeof(*s->remover));
	s->remover[s->n++] = remover;
	look_again(l);
}

void orphans_look(struct launcher *l)
{
	l->orphans.looks = LOOKS;
	l->orphans.quiet = 0;
	look(l);
}

void orphans_stop(struct launcher *l)
{
	watch_free(l->orphans.again);
	free(l->orphans.remover);
	l->orphans = (struct orphans){0};
}
