// SPDX-License-Identifier: Apache-2.0
/* The control groups of sessions. A group is made before its session is known, so its name is a
 * number and not the session's id; ID.meta stores it. The number is the machine's uptime in
 * microseconds: two launchers never use the same one, and it is the time at which the group was
 * made. The prefix separates servers that share a parent group.
 *
 * A process leaves its group before others can see its end, but the last processes of a session may
 * end after its warden: the launcher tries again to remove a group that is not empty. */
#include "base/clock.h"
#include "base/fnv.h"
#include "base/log.h"
#include "base/mem.h"
#include "launcher/launcher_state.h"
#include <inttypes.h>
#include <stdio.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#define AGAIN_MS 10 /* doubles */
#define AGAIN_MAX_MS 5000
#define CLOSE_MS 2000
/* A group of a living server is empty only until its first process: for a much shorter time. */
#define YOUNG_US 5000000

/* Another program may have removed the group of all sessions while it was empty. */
uint64_t group_next(struct launcher *l)
{
	const uint64_t now = (uint64_t)clock_mono_us(&clock_system);

	if (!cgroup_host_alive(&l->groups.host)) {
		log_warn("the cgroup of all sessions has gone and is made again");
		cgroup_host_close(&l->groups.host);
		cgroup_host_open(&l->groups.host, l->settings.config.cgroup_parent);
	}
	cgroup_weigh(&l->groups.host, l->alive);
	if (l->groups.next < now)
		l->groups.next = now;
	return l->groups.next++;
}

void group_id(const struct launcher *l, uint64_t number, char out[GROUP_ID_MAX])
{
	snprintf(out, GROUP_ID_MAX, "%s%" PRIu64, l->groups.prefix, number);
}

void group_make(const struct launcher *l, uint64_t number)
{
	char id[GROUP_ID_MAX];
	const struct cgroup_ask ask = {.id = id};
	struct wall_report walls;

	group_id(l, number, id);
	wall_report_init(&walls);
	ensure(cgroup_create(&l->groups.host, &ask, &walls, NULL) == 0);
}

pid_t group_fork(const struct launcher *l, uint64_t number, bool *born)
{
	char id[GROUP_ID_MAX];
	pid_t pid;

	group_id(l, number, id);
	*born = true; /* in the child's memory, too */
	pid = cgroup_fork(&l->groups.host, id);
	if (pid >= 0)
		return pid;
	*born = false;
	return fork();
}

static int remove_group(struct launcher *l, uint64_t number, int timeout_ms)
{
	char id[GROUP_ID_MAX];

	group_id(l, number, id);
	if (cgroup_remove(&l->groups.host, id, timeout_ms, NULL) == 0)
		return 0;
	cgroup_kill(&l->groups.host, id, NULL);
	return -1;
}

static void try_later(struct launcher *l)
{
	struct groups *g = &l->groups;

	watch_after(g->again, g->again_ms);
	g->again_ms = g->again_ms * 2 < AGAIN_MAX_MS ? g->again_ms * 2 : AGAIN_MAX_MS;
}

void group_drop(struct launcher *l, uint64_t number)
{
	cgroup_weigh(&l->groups.host, l->alive);
	if (number == 0 || remove_group(l, number, 0) == 0)
		return;
	l->groups.again_ms = AGAIN_MS;
	try_later(l);
}

static bool is_used(const struct launcher *l, uint64_t number)
{
	const struct session_entry *w;
	const struct pooled *p;
	bool used = false;

	TAILQ_FOREACH (w, &l->entries, next)
		used |= w->meta.group == number;
	TAILQ_FOREACH (p, &l->pool.list, next)
		used |= p->group == number;
	return used;
}

/* False: a group of ours that has no session and no stub cannot be removed yet. */
static bool sweep(struct launcher *l, int timeout_ms)
{
	const struct groups *g = &l->groups;
	const int64_t old = clock_mono_us(&clock_system) - YOUNG_US;
	struct strv ids = {0};
	bool clean = true;

	cgroup_list(&g->host, "", &ids);
	for (size_t i = 0; i < ids.n; i++) {
		const char *id = ids.v[i];
		const char *dash = strchr(id, '-'); /* not every name has one */
		const uint64_t number = dash != NULL ? strtoull(dash + 1, NULL, 10) : 0;

		if (strncmp(id, g->prefix, strlen(g->prefix)) == 0)
			clean &= is_used(l, number) || remove_group(l, number, timeout_ms) == 0;
		else if (old > 0 && number < (uint64_t)old && cgroup_empty(&g->host, id))
			cgroup_remove(&g->host, id, 0, NULL);
	}
	strv_done(&ids);
	return clean;
}

void groups_sweep(void *launcher)
{
	if (!sweep(launcher, 0))
		try_later(launcher);
}

void groups_open(struct launcher *l)
{
	struct groups *g = &l->groups;
	struct sysinfo machine;
	uint64_t memory;

	cgroup_host_open(&l->groups.host, l->settings.config.cgroup_parent);
	memory = cgroup_memory(&g->host);
	if (sysinfo(&machine) == 0 && (uint64_t)machine.totalram * machine.mem_unit < memory)
		memory = (uint64_t)machine.totalram * machine.mem_unit;
	g->share_mb = (int64_t)(memory >> 20);
	snprintf(g->prefix, sizeof(g->prefix), "%08" PRIx32 "-",
		 fnv32(FNV32, l->place.runtime, strlen(l->place.runtime)));
	g->again_ms = AGAIN_MS;
	g->again = watch_timer(l->loop, groups_sweep, l);
}

void groups_close(struct launcher *l)
{
	if (!sweep(l, CLOSE_MS))
		log_warn("a session's cgroup cannot be removed");
	watch_free(l->groups.again);
	cgroup_host_remove(&l->groups.host);
	cgroup_host_close(&l->groups.host);
}
