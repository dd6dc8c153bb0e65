// SPDX-License-Identifier: Apache-2.0
/* exec/share.h - who may write a caller's memory; private to this folder.
 *
 * A process's memory begins alone: at an exec, or at a fork that copies. It is shared later by
 * threads (counted in /proc), or by clone with CLONE_VM, of which the filter tells:
 *   - without CLONE_VFORK (or with CLONE_PARENT, which hides the relation): nothing is certain any
 *     more in this session, every exec is verified from then on;
 *   - vfork by a process that has executed and has no other thread: it sleeps until the child
 *     executes or dies and can get no thread meanwhile, so one look at the call is enough: nobody
 *     but the child can write. The child cannot outlive that sleep unnoticed: the sleeper is its
 *     parent.
 *   - vfork by a process that is still in the memory of its own vfork's parent (or a copy, which
 *     looks the same): its death would wake that parent while the grandchild still shares. Or by
 *     one with threads: several children may share, and be left to each other by its death. So
 *     such a call is written down until the child has executed, its child is always verified, and
 *     if the caller dies before, everything is.
 *   - a thread of a process that is in its parent's memory: would stay there when that process
 *     ends and its parent wakes. Everything is verified from then on.
 * A child of a process that has never called vfork was made by a copy. */
#pragma once
#include "exec/peer.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SHARE_NOTED_MAX 32
#define SHARE_KNOWN 16
#define SHARE_PIDS 32768 /* pids that differ by this are taken for one */
struct share {
	bool lost; /* nothing is certain any more */
	struct noted_vfork {
		pid_t tid;	     /* sleeps in the call */
		pid_t caller, child; /* processes; child 0: not seen yet */
		int caller_fd, child_fd;
	} noted[SHARE_NOTED_MAX];
	unsigned n;
	/* Callers that have executed, which stays true: a vfork or a thread costs one look. */
	struct vforker {
		pid_t pid;   /* 0: free */
		int task;    /* /proc/PID/task, of this process even if its pid is another's */
		bool single; /* had one thread at its last vfork */
	} known[SHARE_KNOWN];
	unsigned next;
	uint64_t vforked[SHARE_PIDS / 64]; /* pids that ever called vfork; some more may be in it */
};
void share_done(struct share *s);
/* A notification of clone or vfork, before it goes on. */
void share_on_clone(struct share *s, pid_t tid, uint64_t flags);
/* A notification of clone that makes a thread, before it goes on. */
void share_on_thread(struct share *s, pid_t tid);
/* Every exec, before anything else is read: true if nobody but the caller, whose ids were read
 * now, can write its memory until its exec is over. */
bool share_is_private(struct share *s, pid_t tid, const struct peer_ids *ids);
