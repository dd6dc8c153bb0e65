// SPDX-License-Identifier: Apache-2.0
/* What follows from the limits of a session. */
#include "launcher/launcher_state.h"
#include "sandbox/scratch.h"
#include <string.h>

void limits_share(int64_t memory_mb, struct wall_report *walls, uint32_t *scratch_mb)
{
	const enum wall_state state = walls->wall[WALL_memory_limit].state;
	const int64_t half = memory_mb / 2;
	char detail[sizeof(walls->wall[0].detail)];

	if (memory_mb == 0 || (state != WALL_UP && state != WALL_PARTIAL))
		return;
	memcpy(detail, walls->wall[WALL_memory_limit].detail, sizeof(detail));
	wall_set(walls, WALL_memory_limit, state, "%.90s; /tmp and home count", detail);
	if (half < (*scratch_mb != 0 ? *scratch_mb : SCRATCH_MB))
		*scratch_mb = half > 0 ? (uint32_t)half : 1;
}

uint64_t limits_required(const struct launcher_create *ask)
{
	uint64_t required = ask->required & CGROUP_WALLS;

	for (unsigned w = 0; w < WALLS; w++)
		if (wall_listed(&ask->unenforced, (enum wall)w))
			required &= ~(UINT64_C(1) << w);
	return required;
}
