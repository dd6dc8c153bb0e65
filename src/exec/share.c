// SPDX-License-Identifier: Apache-2.0
#include "exec/share.h"
#include "base/mem.h"
#include "base/proc.h"
#include <poll.h>
#include <sched.h>

static void drop(struct share *s, unsigned i)
{
	struct nested_vfork *v = &s->nested[i];

	close(v->caller_fd);
	if (v->child_fd >= 0)
		close(v->child_fd);
	*v = s->nested[--s->n];
}

void share_done(struct share *s)
{
	while (s->n > 0)
		drop(s, 0);
	for (size_t i = 0; i < SHARE_KNOWN; i++)
		if (s->known[i].pid != 0)
			close(s->known[i].fd);
	*s = (struct share){0};
}

/* What is over for a caller that has come back from its vfork. */
static void drop_caller(struct share *s, pid_t caller)
{
	for (unsigned i = 0; i < s->n; i++)
		if (s->nested[i].caller == caller) {
			drop(s, i);
			return;
		}
}

static bool is_dead(int pidfd)
{
	struct pollfd p = {pidfd, POLLIN, 0};

	return poll(&p, 1, 0) != 0;
}

/* The child executed or died: it does not share any more. */
static bool is_over(const struct nested_vfork *v)
{
	struct peer_stat st;

	if (v->child == 0)
		return false;
	return is_dead(v->child_fd) || (peer_stat(v->child, &st) == 0 && st.exec_done);
}

/* Forgets what is over; true if a caller is gone whose child may still share. */
static bool review(struct share *s)
{
	bool stray = false;

	for (unsigned i = 0; i < s->n;) {
		if (is_over(&s->nested[i])) {
			drop(s, i);
			continue;
		}
		if (is_dead(s->nested[i].caller_fd)) {
			stray = true;
			if (s->nested[i].child == 0)
				s->lost = true;
		}
		i++;
	}
	return stray;
}

static int process_stat(pid_t tid, pid_t *pid, struct peer_stat *st)
{
	*pid = tid;
	if (peer_stat(tid, st) != 0)
		return -1;
	if (st->threads == 1)
		return 0;
	*pid = peer_tgid(tid);
	return *pid > 0 && peer_stat(*pid, st) == 0 ? 0 : -1;
}

static bool is_known(const struct share *s, pid_t pid)
{
	for (size_t i = 0; i < SHARE_KNOWN; i++)
		if (s->known[i].pid == pid)
			return !is_dead(s->known[i].fd);
	return false;
}

static void remember(struct share *s, pid_t pid)
{
	const unsigned i = s->next++ % SHARE_KNOWN;

	if (s->known[i].pid != 0)
		close(s->known[i].fd);
	s->known[i].fd = proc_pidfd(pid);
	s->known[i].pid = s->known[i].fd == -1 ? 0 : pid;
}

void share_on_clone(struct share *s, pid_t tid, uint64_t flags)
{
	struct peer_stat st;
	int pidfd;
	pid_t pid;

	if (s->lost)
		return;
	if ((flags & CLONE_VFORK) == 0 || (flags & CLONE_PARENT) != 0) {
		s->lost = true;
		return;
	}
	if (is_known(s, tid))
		return;
	if (process_stat(tid, &pid, &st) < 0) {
		s->lost = true;
		return;
	}
	if (st.exec_done) {
		remember(s, pid);
		return;
	}
	drop_caller(s, pid);
	review(s);
	pidfd = s->n < SHARE_NESTED_MAX && st.threads == 1 ? proc_pidfd(pid) : -1;
	if (pidfd == -1) {
		s->lost = true;
		return;
	}
	s->nested[s->n++] = (struct nested_vfork){pid, 0, pidfd, -1};
}

static bool has_executed(pid_t pid)
{
	struct peer_stat st;

	return peer_stat(pid, &st) == 0 && st.exec_done;
}

/* If the parent of this process wrote down a vfork that made it: notes whose it is. */
static bool note_child(struct share *s, pid_t child, pid_t parent)
{
	for (unsigned i = 0; i < s->n; i++) {
		struct nested_vfork *v = &s->nested[i];

		if (v->child == child)
			return true;
		if (v->caller != parent || v->child != 0 || has_executed(child))
			continue;
		v->child_fd = proc_pidfd(child);
		if (v->child_fd == -1)
			s->lost = true;
		else
			v->child = child;
		return true;
	}
	return false;
}

bool share_is_private(struct share *s, pid_t tid, const struct peer_ids *ids)
{
	bool nested, stray;

	if (s->lost)
		return false;
	drop_caller(s, tid);
	nested = note_child(s, ids->pid, ids->ppid);
	stray = review(s);
	if (s->lost || nested || stray || ids->threads != 1)
		return false;
	/* A vfork's child; or whose memory began with its own exec. */
	return peer_threads(ids->ppid) == 1 || has_executed(tid);
}
