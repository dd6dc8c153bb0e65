// SPDX-License-Identifier: Apache-2.0
/* cgroup v1: Documentation/admin-guide/cgroup-v1 of the kernel. */
#include "base/mem.h"
#include "cgroup/cgroup_version.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/sysmacros.h>

/* memsw bounds memory and swap together and may not be below memory, so it comes second. */
static void limit_memory(int dir, const struct cgroup_ask *ask, struct wall_report *walls)
{
	const long long memory = ask->limits.value[LIMIT_max_memory_mb];
	const long long swap = ask->limits.value[LIMIT_memory_swap_max_mb];
	const bool limited = limits_has(&ask->limits, LIMIT_memory_swap_max_mb);

	if (ask->undo) { /* the other way round */
		cgroup_write(dir, "memory.memsw.limit_in_bytes", "%lld",
			     limited ? (long long)CGROUP_MB(memory + swap) : -1);
		cgroup_write(dir, "memory.limit_in_bytes", "%lld",
			     memory != 0 ? (long long)CGROUP_MB(memory) : -1);
		return;
	}
	if (memory == 0) {
		if (limited)
			wall_set(walls, WALL_memory_limit, WALL_UNAVAILABLE,
				 "cgroup v1 limits swap only together with memory");
		return;
	}
	if (cgroup_write(dir, "memory.limit_in_bytes", "%llu", CGROUP_MB(memory)) < 0)
		cgroup_refused(walls, WALL_memory_limit, "memory.limit_in_bytes");
	else if (!limited)
		wall_set(walls, WALL_memory_limit, WALL_UP, "%lld MB (cgroup v1)", memory);
	else if (cgroup_write(dir, "memory.memsw.limit_in_bytes", "%llu",
			      CGROUP_MB(memory + swap)) < 0)
		wall_set(walls, WALL_memory_limit, ask->swap ? WALL_UNAVAILABLE : WALL_PARTIAL,
			 "%lld MB; swap is not limited: boot with swapaccount=1", memory);
	else
		wall_set(walls, WALL_memory_limit, WALL_UP, "%lld MB, swap %lld MB (cgroup v1)",
			 memory, swap);
}

static void limit_cpu(int dir, const struct cgroup_ask *ask, struct wall_report *walls)
{
	const long long percent = ask->limits.value[LIMIT_max_cpu_percent];
	const long long period = cgroup_period(&ask->limits);

	if (percent == 0 && ask->undo)
		cgroup_write(dir, "cpu.cfs_quota_us", "-1");
	if (percent == 0)
		return;
	if (cgroup_write(dir, "cpu.cfs_period_us", "%lld", period) < 0)
		cgroup_refused(walls, WALL_cpu_limit, "cpu.cfs_period_us");
	else if (cgroup_write(dir, "cpu.cfs_quota_us", "%lld", percent * period / 100) < 0)
		cgroup_refused(walls, WALL_cpu_limit, "cpu.cfs_quota_us");
	else
		wall_set(walls, WALL_cpu_limit, WALL_UP, "%lld %% of a CPU (cgroup v1)", percent);
}

static void limit_pids(int dir, const struct cgroup_ask *ask, struct wall_report *walls)
{
	cgroup_limit_pids(dir, ask, walls, " (cgroup v1)");
}

static void limit_io(int dir, const struct cgroup_ask *ask, struct wall_report *walls)
{
	const struct {
		const char *file;
		long long bps;
	} rows[] = {
		{"blkio.throttle.read_bps_device", ask->limits.value[LIMIT_io_read_bps_max]},
		{"blkio.throttle.write_bps_device", ask->limits.value[LIMIT_io_write_bps_max]},
	};
	const dev_t disk = cgroup_disk(ask->io_device);
	bool asked = false;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (rows[i].bps == 0 && !ask->undo)
			continue;
		asked = true;
		if (disk == 0)
			break;
		if (cgroup_write(dir, rows[i].file, "%u:%u %lld", major(disk), minor(disk),
				 rows[i].bps) < 0) {
			cgroup_refused(walls, WALL_io_limit, rows[i].file);
			return;
		}
	}
	if (asked && disk == 0)
		wall_set(walls, WALL_io_limit, WALL_UNAVAILABLE,
			 "the workspace's file system is on no disk of its own");
	else if (asked)
		wall_set(walls, WALL_io_limit, WALL_PARTIAL,
			 "cgroup v1 holds direct I/O only, not what the page cache writes");
}

static uint64_t disk_bps(int dir, const char *file, dev_t disk)
{
	cleanup_buf struct buf text = {0};
	const char *line =
		cgroup_load(dir, file, &text) < 0 ? NULL : cgroup_disk_line(text.data, disk);

	return line == NULL ? CGROUP_NO_LIMIT : strtoull(line, NULL, 10);
}

static void limits(int dir, unsigned controllers, dev_t disk, struct limits *out)
{
	if ((controllers & 1u << CGROUP_MEMORY) != 0) {
		const uint64_t memory = cgroup_number(dir, "memory.limit_in_bytes");
		const uint64_t both = cgroup_number(dir, "memory.memsw.limit_in_bytes");

		cgroup_found(out, LIMIT_max_memory_mb, memory, 20);
		if (both < CGROUP_NO_LIMIT && memory <= both)
			cgroup_found(out, LIMIT_memory_swap_max_mb, both - memory, 20);
	}
	if ((controllers & 1u << CGROUP_CPU) != 0)
		cgroup_found_cpu(out, cgroup_number(dir, "cpu.cfs_quota_us"),
				 cgroup_number(dir, "cpu.cfs_period_us"));
	if ((controllers & 1u << CGROUP_PIDS) != 0)
		cgroup_found(out, LIMIT_pids_max, cgroup_number(dir, "pids.max"), 0);
	if ((controllers & 1u << CGROUP_IO) != 0 && disk != 0) {
		cgroup_found(out, LIMIT_io_read_bps_max,
			     disk_bps(dir, "blkio.throttle.read_bps_device", disk), 0);
		cgroup_found(out, LIMIT_io_write_bps_max,
			     disk_bps(dir, "blkio.throttle.write_bps_device", disk), 0);
	}
}

#define AT(name) offsetof(struct cgroup_counters, name)
#define NS_PER_US 1000

static const struct cgroup_counter counters[] = {
	{CGROUP_MEMORY, CGROUP_NOW, "memory.usage_in_bytes", NULL, AT(memory_bytes), 1},
	{CGROUP_MEMORY, CGROUP_PEAK, "memory.max_usage_in_bytes", NULL, AT(memory_peak_bytes), 1},
	{CGROUP_MEMORY, CGROUP_HIT, "memory.failcnt", NULL, AT(memory_hits), 1},
	/* the one that is hit if no swap is allowed; Linux 6.18 leaves both at 0 */
	{CGROUP_MEMORY, CGROUP_HIT, "memory.memsw.failcnt", NULL, AT(memory_hits), 1},
	{CGROUP_MEMORY, CGROUP_HIT, "memory.oom_control", "oom_kill ", AT(oom_kills), 1},
	{CGROUP_PIDS, CGROUP_NOW, "pids.current", NULL, AT(pids), 1},
	{CGROUP_PIDS, CGROUP_HIT, "pids.events", "max ", AT(pids_hits), 1},
	{CGROUP_CPUACCT, CGROUP_USE, "cpuacct.usage", NULL, AT(cpu_us), NS_PER_US},
	{CGROUP_CPU, CGROUP_HIT, "cpu.stat", "nr_throttled ", AT(throttled), 1},
	{CGROUP_CPU, CGROUP_HIT, "cpu.stat", "throttled_time ", AT(throttled_us), NS_PER_US},
	{CGROUP_IO, CGROUP_USE, "blkio.throttle.io_service_bytes", "Read ", AT(io_read_bytes), 1},
	{CGROUP_IO, CGROUP_USE, "blkio.throttle.io_service_bytes", "Write ", AT(io_write_bytes), 1},
};

/* memory.oom_control tells by eventfd only; pids.events by inotify as in v2, but not on every
 * kernel (6.18 is silent). */
static int watch(int dir, unsigned controllers, struct cgroup_files *f)
{
	cleanup_fd int oom = -1;

	if ((controllers & 1u << CGROUP_PIDS) != 0 && cgroup_notify(f, dir, "pids.events") < 0)
		return -1;
	if ((controllers & 1u << CGROUP_MEMORY) == 0)
		return 0;
	oom = openat(dir, "memory.oom_control", O_RDONLY | O_CLOEXEC);
	f->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (oom == -1 || f->event == -1)
		return -1;
	return cgroup_write(dir, "cgroup.event_control", "%d %d", f->event, oom);
}

const struct cgroup_version cgroup_v1 = {
	.controller = {[CGROUP_MEMORY] = "memory",
		       [CGROUP_CPU] = "cpu",
		       [CGROUP_CPUACCT] = "cpuacct",
		       [CGROUP_PIDS] = "pids",
		       [CGROUP_IO] = "blkio"},
	.limit = {[CGROUP_MEMORY] = limit_memory,
		  [CGROUP_CPU] = limit_cpu,
		  [CGROUP_PIDS] = limit_pids,
		  [CGROUP_IO] = limit_io},
	.limits = limits,
	.counters = counters,
	.ncounters = ARRAY_LEN(counters),
	.watch = watch,
};
