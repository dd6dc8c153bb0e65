// SPDX-License-Identifier: Apache-2.0
#include "exec/share.h"
#include "base/mem.h"
#include "base/proc.h"
#include <fcntl.h>
#include <poll.h>
#include <sched.h>

static void drop(struct share *s, unsigned i)
{
	struct noted_vfork *v = &s->noted[i];

	close(v->caller_fd);
	if (v->child_fd >= 0)
		close(v->child_fd);
	*v = s->noted[--s->n];
}

void share_done(struct share *s)
{
	while (s->n > 0)
		drop(s, 0);
	for (size_t i = 0; i < SHARE_KNOWN; i++)
		if (s->known[i].pid != 0)
			close(s->known[i].task);
	memset(s, 0, sizeof(*s));
}

static bool is_dead(int pidfd)
{
	struct pollfd p = {pidfd, POLLIN, 0};

	return poll(&p, 1, 0) != 0;
}

/* What is over for a thread that has come back from its vfork. That of a dead process has not: its
 * id is another's. */
static void drop_caller(struct share *s, pid_t tid)
{
	for (unsigned i = 0; i < s->n; i++)
		if (s->noted[i].tid == tid && !is_dead(s->noted[i].caller_fd)) {
			drop(s, i);
			return;
		}
}

/* The child executed or died: it does not share any more. */
static bool is_over(const struct noted_vfork *v)
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
		if (is_over(&s->noted[i])) {
			drop(s, i);
			continue;
		}
		if (is_dead(s->noted[i].caller_fd)) {
			stray = true;
			if (s->noted[i].child == 0)
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

/* ---- callers of vfork ---- */

static struct vforker *find_vforker(struct share *s, pid_t pid)
{
	for (size_t i = 0; i < SHARE_KNOWN; i++)
		if (s->known[i].pid == pid)
			return &s->known[i];
	return NULL;
}

static void drop_vforker(struct vforker *v)
{
	close(v->task);
	*v = (struct vforker){0};
}

/* How many threads one has that is known to have executed; 0: it is not known. One that is dead is
 * dropped. */
static long threads_of_known(struct share *s, pid_t pid)
{
	struct vforker *v = find_vforker(s, pid);
	const long threads = v == NULL ? 0 : peer_threads_at(v->task);

	if (v != NULL && threads < 1)
		drop_vforker(v);
	return threads > 0 ? threads : 0;
}

static void remember(struct share *s, pid_t pid)
{
	struct vforker *v = find_vforker(s, pid);
	const int task = peer_open(pid, "task", O_PATH | O_DIRECTORY);

	if (v == NULL)
		v = &s->known[s->next++ % SHARE_KNOWN];
	if (v->pid != 0)
		drop_vforker(v);
	if (task >= 0)
		*v = (struct vforker){pid, task, false};
}

static uint64_t *word_of(struct share *s, pid_t pid, uint64_t *bit)
{
	*bit = UINT64_C(1) << ((unsigned)pid % 64);
	return &s->vforked[(unsigned)pid % SHARE_PIDS / 64];
}

static void note_vfork(struct share *s, pid_t pid, bool single)
{
	uint64_t bit, *word = word_of(s, pid, &bit);
	struct vforker *v = find_vforker(s, pid);

	*word |= bit;
	if (v != NULL)
		v->single = single;
}

static bool may_have_vforked(struct share *s, pid_t pid)
{
	uint64_t bit;

	return (*word_of(s, pid, &bit) & bit) != 0;
}

/* Until its child has executed. */
static void note_call(struct share *s, pid_t tid, pid_t pid)
{
	int pidfd;

	review(s);
	pidfd = s->n < SHARE_NOTED_MAX ? proc_pidfd(pid) : -1;
	if (pidfd == -1)
		s->lost = true;
	else
		s->noted[s->n++] = (struct noted_vfork){tid, pid, 0, pidfd, -1};
}

void share_on_clone(struct share *s, pid_t tid, uint64_t flags)
{
	struct peer_stat st = {.exec_done = true};
	pid_t pid = tid;

	if (s->lost)
		return;
	if ((flags & CLONE_VFORK) == 0 || (flags & CLONE_PARENT) != 0) {
		s->lost = true;
		return;
	}
	drop_caller(s, tid);
	st.threads = threads_of_known(s, tid);
	if (st.threads == 0) {
		if (process_stat(tid, &pid, &st) < 0) {
			s->lost = true;
			return;
		}
		if (st.exec_done)
			remember(s, pid);
	}
	note_vfork(s, pid, st.threads == 1);
	if (!st.exec_done || st.threads != 1)
		note_call(s, tid, pid);
}

void share_on_thread(struct share *s, pid_t tid)
{
	struct peer_stat st;
	bool known;
	pid_t pid;

	if (s->lost || threads_of_known(s, tid) > 0)
		return;
	known = process_stat(tid, &pid, &st) == 0;
	if (known && st.exec_done)
		remember(s, pid);
	else
		s->lost = !known || peer_other_memory(tid, st.ppid) != 1;
}

/* ---- execs ---- */

static bool has_executed(pid_t pid)
{
	struct peer_stat st;

	return peer_stat(pid, &st) == 0 && st.exec_done;
}

/* If a vfork of its parent was written down that made this process: notes whose it is. A copy of
 * the parent, made before or by another thread, is none. */
static bool note_child(struct share *s, pid_t child, pid_t parent)
{
	for (unsigned i = 0; i < s->n; i++) {
		struct noted_vfork *v = &s->noted[i];
		int other;

		if (v->child == child)
			return true;
		if (v->caller != parent || v->child != 0 || has_executed(child))
			continue;
		other = peer_other_memory(child, v->tid);
		if (other > 0)
			continue;
		v->child_fd = other == 0 ? proc_pidfd(child) : -1;
		if (v->child_fd == -1)
			s->lost = true;
		else
			v->child = child;
		return true;
	}
	return false;
}

/* Had no other thread when it last called vfork: whether this is that call's child or an earlier
 * fork's, nobody else is in its memory. A later process with the pid would have been noticed at its
 * own vfork. */
static bool is_lone_vforker(struct share *s, pid_t pid)
{
	const struct vforker *v = find_vforker(s, pid);

	return v != NULL && v->single;
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
	/* A fork's child; a vfork's; or whose memory began with its own exec. */
	return !may_have_vforked(s, ids->ppid) || is_lone_vforker(s, ids->ppid) ||
	       peer_threads(ids->ppid) == 1 || has_executed(tid);
}
