// SPDX-License-Identifier: Apache-2.0
/* Processes that a session without namespaces has lost: where its warden and its init were both
 * killed, what they had comes to the launcher, as the nearest subreaper, and is ended here.
 * Besides, the processes that remove its directories are waited for.
 *
 * Only once such a session was made is the launcher a subreaper. Then it looks through its children
 * for a while after every warden's death. Whom it does not know is nobody's; but init and leaders
 * that still live end what is below them themselves, and get the time for it. */
#include "base/mem.h"
#include "base/proc.h"
#include "base/tree.h"
#include "launcher/state.h"
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define LOOK_MS 20
#define LOOKS 500    /* at most after a death: longer than an init may take */
#define PATIENCE 250 /* looks, for an init or leader */
#define QUIET 10     /* looks without a stray: there are no more to come */

static bool is_remover(const struct strays *s, pid_t pid)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->remover[i] == pid)
			return true;
	return false;
}

static bool is_known(const struct launcher *l, pid_t pid)
{
	const struct ward *w;

	if (pid == l->api.pid || is_remover(&l->strays, pid))
		return true;
	TAILQ_FOREACH (w, &l->wards, next)
		if (w->child && w->pidfd != -1 && w->meta.warden_pid == (uint64_t)pid)
			return true;
	return false;
}

static bool is_own_program(const struct launcher *l, pid_t pid)
{
	struct stat st;

	return fstat(l->programs.init_fd, &st) == 0 && proc_exe_is(pid, st.st_dev, st.st_ino) == 1;
}

/* A child's pid is its own until it is waited for. */
static void end(const struct launcher *l, pid_t pid)
{
	const bool early = l->strays.looks > LOOKS - PATIENCE;
	const struct tree_root root = {pid, proc_pidfd(pid)};

	if (root.pidfd < 0)
		return;
	if (early && is_own_program(l, pid)) {
		/* whoever was ending it may have died in between */
		proc_pidfd_signal(root.pidfd, SIGCONT);
	} else {
		/* what it has started is a child of ours then, unless it cannot die */
		proc_pidfd_signal(root.pidfd, SIGKILL);
		if (!early)
			tree_kill_round(&root);
	}
	close(root.pidfd);
}

static void reap_removers(struct strays *s)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->n; i++)
		if (waitpid(s->remover[i], NULL, WNOHANG) == 0)
			s->remover[kept++] = s->remover[i];
	s->n = kept;
}

static void look(struct launcher *l)
{
	cleanup_free pid_t *child = NULL;
	const size_t n = proc_children(getpid(), &child);
	bool any = false;

	reap_removers(&l->strays);
	for (size_t i = 0; i < n; i++)
		if (!is_known(l, child[i]) && waitpid(child[i], NULL, WNOHANG) == 0) {
			end(l, child[i]);
			any = true;
		}
	l->strays.quiet = any ? 0 : l->strays.quiet + 1;
	if (l->strays.quiet > QUIET)
		l->strays.looks = 0;
	else if (l->strays.looks > 0)
		l->strays.looks--;
}

static void look_again(struct launcher *l)
{
	if (l->strays.looks > 0 || l->strays.n > 0)
		watch_after(l->strays.again, LOOK_MS);
}

static void on_again(void *arg)
{
	struct launcher *l = arg;

	look(l);
	look_again(l);
}

void strays_start(struct launcher *l)
{
	if (l->strays.again != NULL)
		return;
	l->strays.again = watch_timer(l->loop, on_again, l);
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

void strays_expect(struct launcher *l, pid_t remover)
{
	struct strays *s = &l->strays;

	s->remover = mem_resize(s->remover, s->n + 1, sizeof(*s->remover));
	s->remover[s->n++] = remover;
	look_again(l);
}

void strays_look(struct launcher *l)
{
	if (l->strays.again == NULL)
		return;
	l->strays.looks = LOOKS;
	l->strays.quiet = 0;
	look(l);
	look_again(l);
}

void strays_stop(struct launcher *l)
{
	watch_free(l->strays.again);
	free(l->strays.remover);
	l->strays = (struct strays){0};
}
