// SPDX-License-Identifier: Apache-2.0
/* launcher/group.h - cgroups of sessions; each has a number. Private to launcher/. */
#pragma once
#include "base/loop.h"
#include "cgroup/cgroup.h"

struct launcher;

struct groups {
	struct cgroup_host host;
	int64_t share_mb; /* "75%" of memory is a part of this */
	char prefix[16];  /* of the ids of this server's groups, whichever launcher made them */
	uint64_t next;
	struct watch *again;
	uint64_t again_ms;
};

#define GROUP_ID_MAX 40
void groups_open(struct launcher *l);  /* once RUNTIME is known */
void groups_close(struct launcher *l); /* waits a while for what is still dying */
uint64_t group_next(struct launcher *l);
void group_id(const struct launcher *l, uint64_t number, char out[GROUP_ID_MAX]);
/* Makes a group without limits, where that is possible. */
void group_make(const struct launcher *l, uint64_t number);
/* As fork; *born: the child is in the group from its first instruction. */
pid_t group_fork(const struct launcher *l, uint64_t number, bool *born);
/* Removes a group as soon as it is empty; kills the processes in it. 0 is fine. */
void group_drop(struct launcher *l, uint64_t number);
/* Removes the groups that an earlier launcher has left, as soon as they are empty: no session and
 * no stub has them. Also the empty ones of other servers that are not young: their server is dead.
 */
void groups_sweep(void *launcher);
