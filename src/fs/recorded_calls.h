// SPDX-License-Identifier: Apache-2.0
/* fs/recorded_calls.h - events of path calls that the kernel's program has recorded
 * (bpf/file_layout.h): what the kernel refuses outside of the trees that this process serves, and
 * all that is done below recorded paths.
 *
 * Everything runs on the loop. */
#pragma once
#include "fs/fs_actors.h"
#include "sandbox/sandbox.h"

struct file_record;
struct file_slot;
struct recorded_calls;

/* Everything is borrowed until recorded_calls_free. */
struct recorded_calls_setup {
	struct process_self *p;
	struct fs_session *session;
	struct fs_actors *actors;
	const struct sandbox_plan *plan;
	int tree;	  /* the directory of the workspace, on its file system */
	const char *real; /* its path on the host */
	int ring;	  /* the map */
	struct file_slot *slots;
	struct file_record *record; /* in the first of them */
};
/* From now on calls are recorded. */
int recorded_calls_new(const struct recorded_calls_setup *s, struct recorded_calls **out,
		       struct err *err);
/* Opens of files of this mount are not recorded: agentsh-fs has seen them by itself. */
int recorded_calls_served(struct recorded_calls *c, int mount, struct err *err);
void recorded_calls_free(struct recorded_calls *c); /* NULL is fine */
/* Any thread: agentsh-fs has recorded that a request of the thread failed. NULL is fine. */
void recorded_calls_answered(struct recorded_calls *c, uint32_t tid, int result);
/* A command has ended: writes the events of all that was recorded by now. NULL is fine. */
void recorded_calls_drain(struct recorded_calls *c);
/* fs_similar for a session without FUSE. */
void recorded_calls_similar(const struct recorded_calls *c, const char *path, struct strv *out);
