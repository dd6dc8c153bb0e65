// SPDX-License-Identifier: Apache-2.0
/* exec/share.h - who may write a caller's memory; private to this folder.
 *
 * A process's memory begins alone: at an exec, or at a fork that copies. It is shared later by
 * threads (counted in /proc), or by clone with CLONE_VM, of which the filter tells:
 *   - without CLONE_VFORK (or with CLONE_PARENT, which hides the relation): nothing is certain any
 *     more in this session, every exec is verified from then on;
 *   - vfork: the calling thread sleeps until the child executes or dies. If the caller had no other
 *     thread, nobody but the child can write. If the caller has itself executed, its child is the
 *     only one that shares with it, and cannot outlive its sleep unnoticed: parent of the child.
 *   - vfork by a process that is still in the memory of its own vfork's parent (or a copy, which
 *     looks the same): its death would wake that parent while the grandchild still shares. So such
 *     a call is written down until the child has executed, its child is always verified, and if
 *     the caller dies before, everything is. */
#pragma once
#include "exec/peer.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SHARE_NESTED_MAX 32
#define SHARE_KNOWN 16
struct share {
	bool lost; /* nothing is certain any more */
	struct nested_vfork {
		pid_t caller, child; /* child 0: not seen yet */
		int caller_fd, child_fd;
	} nested[SHARE_NESTED_MAX];
	unsigned n;
	/* Single-threaded callers that have executed, which stays true: a vfork costs no look. */
	struct {
		pid_t pid; /* 0: free */
		int fd;
	} known[SHARE_KNOWN];
	unsigned next;
};
void share_done(struct share *s);
/* A notification of clone or vfork, before it goes on. */
void share_on_clone(struct share *s, pid_t tid, uint64_t flags);
/* Every exec, before anything else is read: true if nobody but the caller, whose ids were read
 * now, can write its memory until its exec is over. */
bool share_is_private(struct share *s, pid_t tid, const struct peer_ids *ids);
