// SPDX-License-Identifier: Apache-2.0
/* fs/fs_actors.h - who asks for an operation, and events that wait until this is known.
 *
 * A request waits for its answer while its process is looked up. A process of which the kernel's
 * program has recorded a call may be gone, and its command over, by the time the record is read:
 * the record names the leader, and this file remembers the commands of leaders. */
#pragma once
#include "fs/fs_session.h"
#include "fs/watch.h"

struct fs_actors;

/* On the loop, before other threads start. */
struct fs_actors *fs_actors_new(struct process_self *p, struct fs_session *session);
/* No other thread is left: records what waits, without its actor. NULL is fine. */
void fs_actors_free(struct fs_actors *a);
/* There is an actor table: commands start. */
int fs_actors_open(struct fs_actors *a, struct err *err);

/* Any thread; functions of struct fs_watch_setup, with the actors as arg. */
enum fs_actor fs_actors_find(void *actors, uint32_t tid, struct actor *out);
bool fs_actors_granted(void *actors, uint32_t tid, struct file_grant *need);
void fs_actors_late(void *actors, uint32_t tid, const struct gate_case *k,
		    const struct gate_report *r);

/* On the loop. */
/* The actor of a recorded call: q has leader, id and asked_us. False: it has to be asked for. */
bool fs_actors_led(struct fs_actors *a, const struct actor_query *q, struct actor *out);
/* Takes a copy of the settled operation and records it when the warden has named the actor. */
void fs_actors_ask(struct fs_actors *a, const struct actor_query *q, const struct gate_case *k,
		   const struct gate_report *r);
/* The command has ended, or its last process has. */
void fs_actors_over(struct fs_actors *a, const struct process_settle *command);
/* Asks the warden about what other threads have handed over. */
void fs_actors_woken(struct fs_actors *a);
