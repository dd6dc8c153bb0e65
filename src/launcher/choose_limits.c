// SPDX-License-Identifier: Apache-2.0
/* What a session may use. The API child has narrowed it already; it is done again here, because the
 * server's own limits hold even if the API child does not want them to. */
#include "launcher/launcher_state.h"
#include <string.h>

#define MB 20 /* bits */
#define MAX_MB (UINT64_C(1) << 40)
#define MAX_PERCENT 409600
#define MAX_PIDS (UINT64_C(1) << 22)
#define MAX_BPS (UINT64_C(1) << 50)

static const uint64_t limit_walls = UINT64_C(1) << WALL_memory_limit |
				    UINT64_C(1) << WALL_cpu_limit | UINT64_C(1) << WALL_pids_limit |
				    UINT64_C(1) << WALL_io_limit;

/* The smaller of two limits, where 0 is none; not above most. */
static uint64_t within(uint64_t asked, int64_t own, uint64_t most)
{
	uint64_t v = asked == 0 || (own > 0 && (uint64_t)own < asked) ? (uint64_t)own : asked;

	if (v == 0)
		return CGROUP_NO_LIMIT;
	return v < most ? v : most;
}

void limits_choose(const struct config *c, const struct launcher_create *ask, dev_t device,
		   struct cgroup_limits *out)
{
	const uint64_t mb = within(ask->max_memory_mb, c->max_memory_mb, MAX_MB);

	*out = (struct cgroup_limits){
		.memory_bytes = mb == CGROUP_NO_LIMIT ? mb : mb << MB,
		.swap_bytes = mb == CGROUP_NO_LIMIT ? mb : (uint64_t)c->memory_swap_max_mb << MB,
		.cpu_percent = within(ask->max_cpu_percent, c->max_cpu_percent, MAX_PERCENT),
		.cpu_period_us = (uint64_t)c->cpu_period_us,
		.pids = within(ask->pids_max, c->pids_max, MAX_PIDS),
		.io_read_bps = within(ask->io_read_bps_max, c->io_read_bps_max, MAX_BPS),
		.io_write_bps = within(ask->io_write_bps_max, c->io_write_bps_max, MAX_BPS),
		.io_device = device,
	};
}

static uint64_t at_most(uint64_t value, int64_t policy, unsigned bits)
{
	return policy >= 0 && (uint64_t)policy << bits < value ? (uint64_t)policy << bits : value;
}

void limits_narrow(const struct config *c, const int64_t policy[], struct cgroup_limits *l,
		   uint32_t *scratch_mb)
{
	const int64_t disk = policy[POLICY_LIMIT_max_disk_mb];

	l->memory_bytes = at_most(l->memory_bytes, policy[POLICY_LIMIT_max_memory_mb], MB);
	if (l->memory_bytes != CGROUP_NO_LIMIT)
		l->swap_bytes = at_most(l->swap_bytes, c->memory_swap_max_mb, MB);
	l->swap_bytes = at_most(l->swap_bytes, policy[POLICY_LIMIT_memory_swap_max_mb], MB);
	l->cpu_percent = at_most(l->cpu_percent, policy[POLICY_LIMIT_max_cpu_percent], 0);
	l->pids = at_most(l->pids, policy[POLICY_LIMIT_pids_max], 0);
	l->io_read_bps = at_most(l->io_read_bps, policy[POLICY_LIMIT_io_read_bps_max], 0);
	l->io_write_bps = at_most(l->io_write_bps, policy[POLICY_LIMIT_io_write_bps_max], 0);
	if (policy[POLICY_LIMIT_cpu_period_us] >= 0)
		l->cpu_period_us = (uint64_t)policy[POLICY_LIMIT_cpu_period_us];
	if (disk >= 0 && disk <= UINT32_MAX && (*scratch_mb == 0 || disk < *scratch_mb))
		*scratch_mb = (uint32_t)disk;
}

uint32_t limits_scratch_mb(const struct config *c, const struct launcher_create *ask)
{
	const uint64_t mb = within(ask->max_disk_mb, c->max_disk_mb, UINT32_MAX);

	return mb == CGROUP_NO_LIMIT ? 0 : (uint32_t)mb;
}

void limits_share(uint64_t memory_bytes, struct wall_report *walls, uint32_t *scratch_mb)
{
	const enum wall_state state = walls->wall[WALL_memory_limit].state;
	const uint64_t half = memory_bytes >> (MB + 1);
	char detail[sizeof(walls->wall[0].detail)];

	if (memory_bytes == CGROUP_NO_LIMIT || (state != WALL_UP && state != WALL_PARTIAL))
		return;
	memcpy(detail, walls->wall[WALL_memory_limit].detail, sizeof(detail));
	wall_set(walls, WALL_memory_limit, state, "%.90s; /tmp and home count", detail);
	if (*scratch_mb == 0 || half < *scratch_mb)
		*scratch_mb = half < UINT32_MAX ? (uint32_t)half : UINT32_MAX;
	if (*scratch_mb == 0)
		*scratch_mb = 1;
}

uint64_t limits_required(const struct launcher_create *ask)
{
	uint64_t required = ask->required & limit_walls;

	for (unsigned w = 0; w < WALLS; w++)
		if (wall_listed(&ask->unenforced, (enum wall)w))
			required &= ~(UINT64_C(1) << w);
	return required;
}
