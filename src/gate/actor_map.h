// SPDX-License-Identifier: Apache-2.0
/* gate/actor_map.h - the shared mapping of the actor table, and copies of it; private to this
 * folder.
 *
 * The warden makes the sequence odd while it writes, and even again behind it. A copy is good if
 * the sequence was even before and the same afterwards. */
#pragma once
#include "gate/actor.h"

#define ACTOR_ENTRIES 256 /* in the mapping */

struct actor_entry {
	int64_t since_us; /* monotonic clock: no process of the command is older */
	uint64_t start;	  /* the leader's, see struct actor_leader */
	pid_t leader;
	uint32_t spawn;
	char command_id[(ID_MAX + 8) / 8 * 8];
};
struct actor_head {
	uint64_t count;	    /* of commands; above ACTOR_ENTRIES the mapping lacks some */
	uint64_t orphans;   /* 1: processes of a command that is over may live */
	int64_t changed_us; /* monotonic clock: the last command came or went then */
};
struct actor_map {
	uint64_t sequence;
	uint64_t pid_namespace; /* the inode of /proc/self/ns/pid in the warden; never changes */
	struct actor_head head;
	struct actor_entry entry[ACTOR_ENTRIES];
};

struct actor_view {
	uint64_t sequence; /* of the mapping when it was copied */
	struct actor_head head;
	struct actor_entry *entry;
	size_t room; /* for entries */
};
/* Both leave a view alone that is still true. False: the mapping is full, or was changed all the
 * while. */
bool actor_map_copy(const struct actor_map *map, struct actor_view *view);
void actor_table_copy(struct actor_table *t, struct actor_view *view);

/* Also checks that the mapping is sealed and in our PID namespace. */
int actor_map_open(int fd, const struct actor_map **out, struct err *err);
void actor_map_close(const struct actor_map *map);
