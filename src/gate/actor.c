// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"
#include "base/mem.h"
#include "base/proc.h"
#include "gate/actor_map.h"
#include <poll.h>

#define KNOWN 16
#define DEPTH_MAX 4096 /* of a tree of processes */
#define WALKS_MAX 8    /* while ancestors end during the walk */

struct actor_reader {
	struct actor_table *table; /* NULL: in another process than the warden */
	const struct actor_map *map;
	struct actor_view view;
	/* Processes whose command was found. The pid belongs to the process as long as its pidfd
	 * shows that it lives, and a living process does not change its command. */
	struct found_process {
		pid_t pid; /* 0: free */
		int pidfd;
		uint64_t start;
		uint32_t spawn;
	} known[KNOWN];
	unsigned next;
};

/* A process that started later is not the one that asked: the pid was reused. The start time is
 * rounded down to a tick. */
static bool is_older(uint64_t start, int64_t asked_us)
{
	const int64_t slept = clock_boot_us(&clock_system) - clock_mono_us(&clock_system);
	const uint64_t tick_us = 1000000 / (uint64_t)sysconf(_SC_CLK_TCK);

	return (int64_t)(start * tick_us) <= asked_us + slept;
}

/* A command alone since before the question: no process of another one lived then. */
static const struct actor_entry *find_alone(const struct actor_view *v, int64_t asked_us)
{
	return v->head.count == 1 && v->head.orphans == 0 && v->head.changed_us < asked_us
		       ? v->entry
		       : NULL;
}

/* A leader may have become the leader of the next command since the question. */
static const struct actor_entry *find_leader(const struct actor_view *v, pid_t pid, uint64_t start,
					     int64_t asked_us)
{
	for (size_t i = 0; i < v->head.count; i++) {
		const struct actor_entry *e = &v->entry[i];

		if (e->leader == pid && e->start == start && e->since_us < asked_us)
			return e;
	}
	return NULL;
}

static bool is_alive(int pidfd)
{
	struct pollfd p = {pidfd, POLLIN, 0};

	return poll(&p, 1, 0) == 0;
}

static void forget(struct found_process *k)
{
	if (k->pid != 0)
		close(k->pidfd);
	*k = (struct found_process){0};
}

static const struct actor_entry *find_known(struct actor_reader *r, pid_t pid, int64_t asked_us)
{
	const struct actor_view *v = &r->view;

	for (size_t n = 0; n < KNOWN; n++) {
		struct found_process *k = &r->known[n];
		size_t i = 0;

		if (k->pid != pid)
			continue;
		while (i < v->head.count && v->entry[i].spawn != k->spawn)
			i++;
		if (i < v->head.count && is_alive(k->pidfd))
			return v->entry[i].since_us < asked_us && is_older(k->start, asked_us)
				       ? &v->entry[i]
				       : NULL;
		forget(k);
	}
	return NULL;
}

/* Whether `above` was read from the parent of the process that `at` was read from, and not from a
 * later process with the parent's pid. A parent is older than its child; if both started in the
 * same tick, the child must still have the same parent. */
static bool is_parent(pid_t pid, const struct proc_origin *at, const struct proc_origin *above)
{
	struct proc_origin now;

	if (above->start != at->start)
		return above->start < at->start;
	return proc_origin(pid, &now) == 0 && now.start == at->start && now.ppid == at->ppid;
}

/* Walks up from the process. True: *e is its entry, or NULL if it belongs to none or is gone.
 * False: an ancestor ended during the walk. base_start: the start time of base, if the walk came
 * to it. */
static bool walk(const struct actor_reader *r, const struct actor_query *q, pid_t base,
		 uint64_t *base_start, const struct actor_entry **e)
{
	struct proc_origin at, above;
	pid_t pid = q->id;

	*e = NULL;
	*base_start = 0;
	if (proc_origin(pid, &at) < 0 || !is_older(at.start, q->asked_us))
		return true;
	for (int i = 0; i < DEPTH_MAX; i++) {
		if (pid == base)
			*base_start = at.start;
		*e = find_leader(&r->view, pid, at.start, q->asked_us);
		if (*e != NULL || at.ppid <= 1)
			return true;
		if (proc_origin(at.ppid, &above) < 0 || !is_parent(pid, &at, &above))
			return false;
		pid = at.ppid;
		at = above;
	}
	return true;
}

/* Remembers the process that the next question will most likely be about, if it lived until the
 * walk was over. */
static const struct actor_entry *find_by_walk(struct actor_reader *r, const struct actor_query *q,
					      pid_t base)
{
	cleanup_fd int pidfd = proc_pidfd(base);
	const struct actor_entry *e = NULL;
	uint64_t start = 0;
	int tries = 0;

	while (tries < WALKS_MAX && !walk(r, q, base, &start, &e))
		tries++;
	if (e != NULL && start != 0 && pidfd >= 0 && is_alive(pidfd)) {
		struct found_process *k = &r->known[r->next++ % KNOWN];

		forget(k);
		*k = (struct found_process){base, take_fd(pidfd), start, e->spawn};
	}
	return e;
}

enum actor_answer actor_find(struct actor_reader *r, const struct actor_query *q, struct actor *out)
{
	const enum actor_answer none = r->table != NULL ? ACTOR_NONE : ACTOR_ASK;
	const pid_t base = q->ppid != 0 ? q->ppid : q->id;
	const struct actor_entry *e;
	struct proc_ids ids = {q->id, q->ppid};

	*out = (struct actor){0};
	if (q->ppid != 0 || (q->process && proc_ids(q->id, &ids) == 0)) {
		out->pid = ids.pid;
		out->ppid = ids.ppid;
	}
	if (r->table != NULL)
		actor_table_copy(r->table, &r->view);
	else if (!actor_map_copy(r->map, &r->view))
		return none;
	e = find_alone(&r->view, q->asked_us);
	if (e == NULL)
		e = find_known(r, base, q->asked_us);
	if (e == NULL)
		e = find_by_walk(r, q, base);
	if (e == NULL)
		return none;
	out->leader = e->leader;
	out->spawn = e->spawn;
	memcpy(out->command_id, e->command_id, sizeof(out->command_id));
	return ACTOR_FOUND;
}

struct actor_reader *actor_reader_new(struct actor_table *t)
{
	struct actor_reader *r = mem_new(struct actor_reader);

	r->table = t;
	r->view.sequence = UINT64_MAX;
	return r;
}

int actor_reader_open(int fd, struct actor_reader **out, struct err *err)
{
	const struct actor_map *map;
	const int code = actor_map_open(fd, &map, err);

	if (code < 0)
		return code;
	*out = actor_reader_new(NULL);
	(*out)->map = map;
	return 0;
}

void actor_reader_free(struct actor_reader *r)
{
	if (r == NULL)
		return;
	for (size_t i = 0; i < KNOWN; i++)
		forget(&r->known[i]);
	if (r->map != NULL)
		actor_map_close(r->map);
	free(r->view.entry);
	free(r);
}
