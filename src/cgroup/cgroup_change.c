// SPDX-License-Identifier: Apache-2.0
/* Other limits for a group at work. What holds it is read from the kernel's files, so that neither
 * a launcher that was started anew nor another writer's change is missed. */
#include "base/mem.h"
#include "cgroup/cgroup_version.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/sysmacros.h>

/* v1 has a number for "none": the largest one that is a multiple of a page. */
#define NONE_FROM (UINT64_C(1) << 62)

uint64_t cgroup_number(int dir, const char *file)
{
	cleanup_buf struct buf text = {0};
	uint64_t n;

	if (cgroup_load(dir, file, &text) < 0 || text.data[0] < '0' || text.data[0] > '9')
		return CGROUP_NO_LIMIT;
	n = strtoull(text.data, NULL, 10);
	return n < NONE_FROM ? n : CGROUP_NO_LIMIT;
}

void cgroup_found(struct limits *l, enum limit i, uint64_t value, unsigned bits)
{
	if (value == CGROUP_NO_LIMIT)
		return;
	l->value[i] = (int64_t)(value >> bits) + ((value & ((UINT64_C(1) << bits) - 1)) != 0);
	l->given[i] = true;
}

void cgroup_found_cpu(struct limits *l, uint64_t quota_us, uint64_t period_us)
{
	if (period_us == CGROUP_NO_LIMIT || period_us == 0)
		return;
	cgroup_found(l, LIMIT_cpu_period_us, period_us, 0);
	if (quota_us != CGROUP_NO_LIMIT)
		cgroup_found(l, LIMIT_max_cpu_percent, (quota_us * 100 + period_us - 1) / period_us,
			     0);
}

const char *cgroup_disk_line(const char *text, dev_t disk)
{
	char begin[32];

	snprintf(begin, sizeof(begin), "%u:%u ", major(disk), minor(disk));
	while (*text != '\0') {
		if (strncmp(text, begin, strlen(begin)) == 0)
			return text + strlen(begin);
		text += strcspn(text, "\n");
		text += *text == '\n';
	}
	return NULL;
}

int cgroup_limits_get(const struct cgroup_host *host, const char *id, dev_t io_device,
		      struct limits *l, struct err *err)
{
	const dev_t disk = cgroup_disk(io_device);
	struct limits got = {0};
	bool found = false;

	for (size_t i = 0; i < host->n; i++) {
		const struct cgroup_version *v = host->tree[i].v2 ? &cgroup_v2 : &cgroup_v1;
		cleanup_fd int dir = cgroup_group(host, i, id);

		if (dir == -1)
			continue;
		found = true;
		v->limits(dir, host->tree[i].controllers, disk, &got);
	}
	if (!found)
		return err_set(err, E_NOT_FOUND, id, "the session has no cgroup");
	*l = got;
	return 0;
}

/* The lowest of this group and of those above it. */
static uint64_t lowest_above(int dir)
{
	uint64_t least = CGROUP_NO_LIMIT;
	cleanup_fd int at = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	while (at != -1 && faccessat(at, "cgroup.procs", F_OK, 0) == 0) {
		const uint64_t here = cgroup_number(at, "memory.max");
		const int above = openat(at, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		least = here < least ? here : least;
		close(at);
		at = above;
	}
	return least;
}

uint64_t cgroup_memory(const struct cgroup_host *host)
{
	static const char key[] = "hierarchical_memory_limit ";
	cleanup_buf struct buf text = {0};

	for (size_t i = 0; i < host->n; i++) {
		const char *at;
		uint64_t n;

		if ((host->tree[i].controllers & 1u << CGROUP_MEMORY) == 0)
			continue;
		if (host->tree[i].v2)
			return lowest_above(host->tree[i].dir);
		at = cgroup_load(host->tree[i].dir, "memory.stat", &text) == 0
			     ? strstr(text.data, key)
			     : NULL;
		n = at != NULL ? strtoull(at + strlen(key), NULL, 10) : NONE_FROM;
		return n < NONE_FROM ? n : CGROUP_NO_LIMIT;
	}
	return CGROUP_NO_LIMIT;
}

/* v2 would end processes to come down to a limit; v1 refuses one that is too low. Both are asked to
 * make room first, and both refuse then. True if that much is in use. */
static bool too_much(const struct cgroup_host *host, const struct cgroup_ask *ask, uint64_t *in_use)
{
	const uint64_t most = CGROUP_MB(ask->limits.value[LIMIT_max_memory_mb]);
	struct cgroup_counters now = {0};

	if (most == 0 || cgroup_read(host, ask->id, &now, NULL) < 0 || now.memory_bytes <= most)
		return false;
	for (size_t i = 0; i < host->n; i++) {
		cleanup_fd int dir = host->tree[i].v2 ? cgroup_group(host, i, ask->id) : -1;

		if (dir == -1 || (host->tree[i].controllers & 1u << CGROUP_MEMORY) == 0)
			continue;
		cgroup_write(dir, "memory.reclaim", "%llu",
			     (unsigned long long)(now.memory_bytes - most));
		if (cgroup_read(host, ask->id, &now, NULL) < 0)
			return false;
		*in_use = now.memory_bytes;
		return now.memory_bytes > most;
	}
	return false;
}

static int refuse(const struct cgroup_ask *ask, uint64_t in_use, struct err *err)
{
	return err_set(err, E_CONFLICT, wall_name(WALL_memory_limit),
		       "%s: %llu MB are in use, more than the %lld MB that were asked for",
		       wall_name(WALL_memory_limit), (unsigned long long)(in_use >> 20),
		       (long long)ask->limits.value[LIMIT_max_memory_mb]);
}

int cgroup_change(const struct cgroup_host *host, const struct cgroup_ask *ask,
		  struct wall_report *walls, struct err *err)
{
	struct cgroup_ask before = {.id = ask->id, .io_device = ask->io_device, .undo = true};
	struct cgroup_counters now = {0};
	struct wall_report fresh = *walls;
	uint64_t in_use;
	int r;

	if (too_much(host, ask, &in_use))
		return refuse(ask, in_use, err);
	cgroup_limits_get(host, ask->id, ask->io_device, &before.limits, NULL);
	r = cgroup_limit(host, ask, &fresh, err);
	if (r == 0)
		*walls = fresh;
	else
		cgroup_limit(host, &before, &(struct wall_report){0}, NULL);
	/* what v1 says is EBUSY */
	if (r < 0 && cgroup_read(host, ask->id, &now, NULL) == 0 &&
	    fresh.wall[WALL_memory_limit].state == WALL_UNAVAILABLE &&
	    now.memory_bytes > CGROUP_MB(ask->limits.value[LIMIT_max_memory_mb]))
		r = refuse(ask, now.memory_bytes, err);
	return r;
}
