// SPDX-License-Identifier: Apache-2.0
/* gate/actor.h - which command a process belongs to.
 *
 * Every command has a leader. The leader is the parent or the subreaper of all processes of its
 * command, so that the way up from a process leads to the leader as long as the process lives. The
 * warden writes the leaders into a table; other processes of the session map the table read-only.
 *
 * All ids are those of the warden's PID namespace, outside the session's. A reader in another PID
 * namespace is refused when it opens the table. */
#pragma once
#include "base/err.h"
#include "base/id.h"
#include "gate/file_grant.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define ACTOR_OWN_MAX 32    /* threads of agentsh's own */
#define ACTOR_GRANTS 512    /* threads that have one at a time; the oldest grant goes */
#define ACTOR_ENTRIES 16384 /* a command beyond so many at a time is not in the table */

/* ---- the writer, in the warden; its functions may be called from any thread ---- */

struct actor_table;
struct actor;

struct actor_leader {
	pid_t pid;	/* 0: not known yet */
	uint64_t start; /* its start time, see proc_origin; 0: not known yet */
};

int actor_table_open(struct actor_table **out, struct err *err);
void actor_table_close(struct actor_table *t); /* NULL is fine */
/* For actor_reader_open in another process, which cannot write through it; borrowed. */
int actor_table_fd(const struct actor_table *t);

/* A command is about to start; spawn is a number that no other entry has. */
void actor_table_expect(struct actor_table *t, uint32_t spawn, const struct actor_leader *leader,
			const char *command_id);
/* The initial process of the command is in its exec. Notes its parent as the leader if the leader
 * is not known; returns the leader's pid, or 0. */
pid_t actor_table_initial(struct actor_table *t, uint32_t spawn, pid_t initial);
/* The leader has sent a message. A start time that is missing on one side is taken from the
 * other. */
void actor_table_started(struct actor_table *t, uint32_t spawn, struct actor_leader *leader);
/* A thread of agentsh's own: it belongs to no command, and no policy decides what it does. A thread
 * of the warden notes itself when it starts and is forgotten when it ends; init is noted by its
 * pid. */
void actor_table_own(struct actor_table *t, pid_t tid);
void actor_table_disown(struct actor_table *t, pid_t tid);
/* A command that is not over: its leader, and since when it has it; leader 0: no such command. */
void actor_table_command(struct actor_table *t, const char *command_id, struct actor *out,
			 int64_t *since_us);
/* What an approver has allowed the thread to do, from now on and until the next call of either of
 * these for it. */
void actor_table_grant(struct actor_table *t, pid_t tid, const struct file_grant *g);
void actor_table_revoke(struct actor_table *t, pid_t tid);
/* The command is over. orphans: some of its processes may live on. */
void actor_table_over(struct actor_table *t, uint32_t spawn, bool orphans);

/* ---- a reader; it belongs to one thread ---- */

struct actor_reader;

/* Maps the table of the session's warden; the descriptor is borrowed. */
int actor_reader_open(int fd, struct actor_reader **out, struct err *err);
/* For a thread of the warden. The table is borrowed. */
struct actor_reader *actor_reader_new(struct actor_table *t);
void actor_reader_free(struct actor_reader *r); /* NULL is fine */

struct actor_query {
	pid_t id;	  /* of the process that asks, or of one of its threads */
	pid_t ppid;	  /* the parent of the process, as just read; 0: id may be a thread */
	int64_t asked_us; /* monotonic clock: the process lived at this time */
	bool process;	  /* look up the process and its parent as well if ppid is 0 */
	pid_t leader;	  /* of its command, if it is known; else 0. id may be 0 then */
};
struct actor {
	pid_t pid, ppid; /* the process and its parent; 0 if not looked up, or gone */
	pid_t leader;	 /* 0: not known yet */
	uint32_t spawn;	 /* 0 if no command was found */
	char command_id[ID_MAX + 1];
};
/* False in the warden: the process is gone, or does not belong to a running command. False in
 * another process: the table does not have the answer; ask the warden. While one command runs alone
 * this makes no system call. */
bool actor_find(struct actor_reader *r, const struct actor_query *q, struct actor *out);
/* Whether this is a thread of agentsh's own, see actor_table_own. Any thread; makes no system
 * call. */
bool actor_reader_is_own(const struct actor_reader *r, pid_t tid);
/* Whether the thread was granted all of this; *need then has its approval_id and
 * serial. The same. */
bool actor_reader_granted(const struct actor_reader *r, pid_t tid, struct file_grant *need);
