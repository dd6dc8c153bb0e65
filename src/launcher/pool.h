// SPDX-License-Identifier: Apache-2.0
/* launcher/pool.h - sandboxes that wait for a session. Private to launcher/. */
#pragma once
#include "launcher/child.h"
#include "spawn/assignment.h"
#include <sys/queue.h>

struct launcher;

TAILQ_HEAD(pooled_list, pooled);
struct pool {
	struct pooled_list list;
	struct watch *refill;
	uint32_t owner_uid, owner_gid; /* of the last session's files */
	int mounts;		       /* /proc/self/mountinfo, for changes; only with refill */
	bool failing; /* the last sandbox could not be prepared, and that was logged */
};

/* A sandbox without a session: a stub that waits for its assignment. */
struct pooled {
	TAILQ_ENTRY(pooled) next;
	struct launcher *l;
	struct child stub;
	int sock;
	uint64_t group;	   /* number of its control group; 0: none */
	struct idmap map;  /* uid and gid of its session, owner of the files; shown_uid 0: none */
	int userns[2];	   /* owned; with that map, and with home_map; -1: none */
	struct buf recipe; /* owned; of the plan that it was prepared for */
	uint64_t fingerprint; /* of the host when it was prepared */
	bool ready;
	bool listed; /* in the pool */
	struct watch *readable;
};
void pool_start(struct launcher *l); /* fills it soon; also after a reload, with new ones */
void pool_stop(struct launcher *l);
void pool_empty(struct launcher *l); /* and fills it again soon */
/* One that is ready for such a session, or NULL. It stays in the pool until it is taken. */
struct pooled *pool_find(struct launcher *l, const struct sandbox_plan *plan);
/* From now on it is the caller's: released or discarded. */
void pool_take(struct pooled *p);
/* The user namespace with such a map, owned by the caller; -1: the sandbox has another map. */
int pooled_userns(struct pooled *p, const struct idmap *map);
/* How a kept home is shown to a session with this uid. */
struct idmap home_map(const struct launcher *l, uint32_t uid);
void pool_discard(struct pooled *p); /* with its group */
/* Forks a stub, which is not prepared yet. NULL: E_UNAVAILABLE. */
struct stub;
struct pooled *pool_make(struct launcher *l, struct stub *stub, struct err *err);
/* Lets go of one that has its assignment; the child is the caller's. */
struct child pool_release(struct pooled *p);

/* ---- stub.c ---- */

struct stub {
	const struct launcher *l;
	const struct sandbox_plan *plan;
	uint64_t group;	  /* 0: none */
	bool makes_group; /* else it is there */
	bool born_in_it;
	int tree_fd;	  /* where a user namespace is needed, else -1 */
	struct idmap map; /* to be made ahead; shown_uid 0: none */
	int sock;	  /* for assignment */
};
/* The forked child: prepares the sandbox, waits for its assignment, starts the session's processes
 * and becomes the main one. */
_Noreturn void stub_main(const struct stub *s, pid_t parent);
