// SPDX-License-Identifier: Apache-2.0
/* Which user ids exist here: user_namespaces(7). A container often has 65,536 of them. */
#include "base/fdio.h"
#include "base/mem.h"
#include "config/config.h"
#include <stdio.h>

#define MAP_MAX (64 * 1024)
#define EXTENTS 340 /* the kernel's limit */

struct id_map {
	size_t n;
	struct {
		uint64_t first, last;
	} extent[EXTENTS];
};

static void load(const char *path, struct id_map *m)
{
	cleanup_buf struct buf text = {0};
	unsigned long long first, count;
	char *next;

	m->n = 0;
	if (fdio_load_path(path, MAP_MAX, &text, NULL) < 0 || text.len == 0)
		return;
	for (char *line = text.data; line != NULL && m->n < EXTENTS; line = next) {
		next = strchr(line, '\n');
		if (next != NULL)
			*next++ = '\0';
		if (sscanf(line, "%llu %*u %llu", &first, &count) != 2 || count == 0)
			continue;
		m->extent[m->n].first = first;
		m->extent[m->n++].last = first + count - 1;
	}
}

static bool has(const struct id_map *m, const struct uid_range *r)
{
	for (size_t i = 0; i < m->n; i++)
		if (r->first >= m->extent[i].first && r->last <= m->extent[i].last)
			return true;
	return false;
}

bool uid_range_has(const struct uid_range *r, uint32_t uid)
{
	return uid >= r->first && uid <= r->last;
}

bool uid_range_exists(const struct uid_range *r)
{
	struct id_map uids, gids;

	load("/proc/self/uid_map", &uids);
	load("/proc/self/gid_map", &gids);
	return has(&uids, r) && has(&gids, r);
}

struct uid_range uid_range_highest(uint32_t n)
{
	struct uid_range best = {0, 0};
	struct id_map uids, gids;

	load("/proc/self/uid_map", &uids);
	load("/proc/self/gid_map", &gids);
	for (size_t i = 0; i < uids.n; i++) {
		const uint64_t top =
			uids.extent[i].last < UINT32_MAX ? uids.extent[i].last : UINT32_MAX - 1;
		const uint64_t least = uids.extent[i].first > 0 ? uids.extent[i].first : 1;
		struct uid_range r;

		if (top < least)
			continue;
		r.last = (uint32_t)top;
		r.first = (uint32_t)(top - least >= n ? top - n + 1 : least);
		if (r.last > best.last && has(&gids, &r))
			best = r;
	}
	return best;
}
