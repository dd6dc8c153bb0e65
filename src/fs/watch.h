// SPDX-License-Identifier: Apache-2.0
/* fs/watch.h - decides every operation by policy and records it.
 *
 * The decision is made by the canonical path of the node's current name, before the operation; the
 * event is written after it. See docs/architecture/fs.md. */
#pragma once
#include "base/fields.h"
#include "fs/fuse_request.h"
#include "gate/tally.h"

enum fs_actor { FS_ACTOR_OWN, FS_ACTOR_COMMAND, FS_ACTOR_UNKNOWN };

/* Everything is borrowed until fs_free. */
struct fs_watch_setup {
	struct gate *gate; /* its sink records */
	/* Any worker thread. OWN: a process of agentsh, no policy, no event. UNKNOWN: the table
	 * does not have it, the event is handed to late(). tid 0: the kernel itself. */
	enum fs_actor (*actor)(void *arg, uint32_t tid, struct actor *out);
	/* Any worker thread: takes a copy of the settled operation and records it when it knows
	 * the actor. */
	void (*late)(void *arg, uint32_t tid, const struct gate_case *k,
		     const struct gate_report *r);
	/* Any worker thread: events can be recorded. While they cannot, requests that would be
	 * events wait. NULL: always. */
	bool (*has_room)(void *arg);
	/* Any worker thread: an event tells that the thread's request has failed; may be NULL. */
	void (*failed)(void *arg, uint32_t tid, int result);
	/* Canonical paths. What is below a read-only one fails with EROFS if it would change
	 * something; all below a blocked one fails with EACCES. */
	struct strv read_only, blocked;
	/* Any worker thread: whether an approver has allowed the thread to do this; NULL: never. */
	bool (*granted)(void *arg, uint32_t tid, struct file_grant *need);
	/* Goes on with requests that waited for an approver, see gate_hold; NULL: none wait. */
	const struct gate_asker *asker;
	struct tally *tally; /* counts, and refuses what is above the limit; may be NULL */
	/* Any worker thread: tally has one open file less, or a limit to tell of; may be NULL. */
	void (*news)(void *arg);
	void *arg;
};

/* ---- one row per opcode: watch_rows.c; pure ---- */

enum watch_names {
	WATCH_NODE,  /* the request's node */
	WATCH_ENTRY, /* a name in the request's node, which is a directory */
	WATCH_MOVE,  /* two names, each in a directory of its own */
	WATCH_LINK,  /* another node, and a name in the request's node */
};
#define WATCH_OP(name) (1U << OP_FILE_##name)
/* The operations that a read-only path refuses. */
#define WATCH_CHANGES                                                               \
	(WATCH_OP(write) | WATCH_OP(create) | WATCH_OP(delete) | WATCH_OP(rename) | \
	 WATCH_OP(chmod) | WATCH_OP(chown) | WATCH_OP(symlink) | WATCH_OP(link) |   \
	 WATCH_OP(truncate))

enum watch_event {
	WATCH_RECORDED,
	WATCH_DENIALS, /* only a denial is an event */
	WATCH_SILENT,
};
/* What a request needs. */
struct watch_need {
	enum watch_names names;
	unsigned ops, to_ops; /* bits 1 << OP_FILE_… at the first and at the second name */
	enum op_file main;    /* the operation of the event, if nothing is denied */
	uint32_t type;	      /* enum event_type */
	enum watch_event event;
	bool makes; /* a name: what is hidden is refused with EACCES, not ENOENT */
	bool opens; /* a file, with these flags */
	int flags;
};
/* False: the request needs no decision. */
bool watch_need(const struct fs_request *q, struct watch_need *out);
