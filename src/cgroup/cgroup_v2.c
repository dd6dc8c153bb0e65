// SPDX-License-Identifier: Apache-2.0
/* cgroup v2: Documentation/admin-guide/cgroup-v2.rst of the kernel. */
#include "base/mem.h"
#include "cgroup/cgroup_version.h"
#include <errno.h>
#include <stdio.h>
#include <sys/sysmacros.h>

#define LIMIT_TEXT 24

/* A number, or "max" for none. */
static const char *text(char out[LIMIT_TEXT], unsigned long long value, bool limited)
{
	if (!limited)
		return "max";
	snprintf(out, LIMIT_TEXT, "%llu", value);
	return out;
}

static void limit_memory(int dir, const struct cgroup_ask *ask, struct wall_report *walls)
{
	const long long memory = ask->limits.value[LIMIT_max_memory_mb];
	const long long swap = ask->limits.value[LIMIT_memory_swap_max_mb];
	const bool limited = limits_has(&ask->limits, LIMIT_memory_swap_max_mb);
	char a[LIMIT_TEXT];

	if (memory == 0 && !limited && !ask->undo)
		return;
	if (cgroup_write(dir, "memory.max", "%s", text(a, CGROUP_MB(memory), memory != 0)) < 0)
		cgroup_refused(walls, WALL_memory_limit, "memory.max");
	else if (!limited && !ask->undo)
		wall_set(walls, WALL_memory_limit, WALL_UP, "%lld MB", memory);
	else if (cgroup_write(dir, "memory.swap.max", "%s", text(a, CGROUP_MB(swap), limited)) < 0)
		wall_set(walls, WALL_memory_limit,
			 memory == 0 || ask->swap ? WALL_UNAVAILABLE : WALL_PARTIAL,
			 "swap is not limited: the kernel does not account it");
	else if (memory == 0)
		wall_set(walls, WALL_memory_limit, WALL_UP, "swap %lld MB", swap);
	else
		wall_set(walls, WALL_memory_limit, WALL_UP, "%lld MB, swap %lld MB", memory, swap);
}

static void limit_cpu(int dir, const struct cgroup_ask *ask, struct wall_report *walls)
{
	const long long percent = ask->limits.value[LIMIT_max_cpu_percent];
	const long long period = cgroup_period(&ask->limits);

	if (percent == 0 && ask->undo)
		cgroup_write(dir, "cpu.max", "max %lld", period);
	if (percent == 0)
		return;
	if (cgroup_write(dir, "cpu.max", "%lld %lld", percent * period / 100, period) < 0)
		cgroup_refused(walls, WALL_cpu_limit, "cpu.max");
	else
		wall_set(walls, WALL_cpu_limit, WALL_UP, "%lld %% of a CPU", percent);
}

static void limit_pids(int dir, const struct cgroup_ask *ask, struct wall_report *walls)
{
	cgroup_limit_pids(dir, ask, walls, "");
}

static void limit_io(int dir, const struct cgroup_ask *ask, struct wall_report *walls)
{
	const long long reads = ask->limits.value[LIMIT_io_read_bps_max];
	const long long writes = ask->limits.value[LIMIT_io_write_bps_max];
	const dev_t disk = cgroup_disk(ask->io_device);
	char r[LIMIT_TEXT], w[LIMIT_TEXT];

	if (reads == 0 && writes == 0 && !ask->undo)
		return;
	text(r, (unsigned long long)reads, true);
	text(w, (unsigned long long)writes, true);
	if (disk == 0)
		wall_set(walls, WALL_io_limit, WALL_UNAVAILABLE,
			 "the workspace's file system is on no disk of its own");
	else if (cgroup_write(dir, "io.max", "%u:%u rbps=%s wbps=%s", major(disk), minor(disk),
			      reads != 0 ? r : "max", writes != 0 ? w : "max") < 0)
		cgroup_refused(walls, WALL_io_limit, "io.max");
	else
		wall_set(walls, WALL_io_limit, WALL_UP,
			 "disk %u:%u, read %s, write %s bytes a second", major(disk), minor(disk),
			 reads != 0 ? r : "max", writes != 0 ? w : "max");
}

/* The number behind a word; "max" is none. */
static uint64_t number_of(const char *s, const char *word)
{
	const char *at = s != NULL ? strstr(s, word) : NULL;

	if (at == NULL || at[strlen(word)] < '0' || at[strlen(word)] > '9')
		return CGROUP_NO_LIMIT;
	return strtoull(at + strlen(word), NULL, 10);
}

static void limits(int dir, unsigned controllers, dev_t disk, struct limits *out)
{
	cleanup_buf struct buf file = {0};
	unsigned long long quota, period;

	if ((controllers & 1u << CGROUP_MEMORY) != 0) {
		cgroup_found(out, LIMIT_max_memory_mb, cgroup_number(dir, "memory.max"), 20);
		cgroup_found(out, LIMIT_memory_swap_max_mb, cgroup_number(dir, "memory.swap.max"),
			     20);
	}
	if ((controllers & 1u << CGROUP_CPU) != 0 && cgroup_load(dir, "cpu.max", &file) == 0 &&
	    sscanf(file.data, "%llu %llu", &quota, &period) == 2)
		cgroup_found_cpu(out, quota, period);
	if ((controllers & 1u << CGROUP_PIDS) != 0)
		cgroup_found(out, LIMIT_pids_max, cgroup_number(dir, "pids.max"), 0);
	if ((controllers & 1u << CGROUP_IO) != 0 && disk != 0 &&
	    cgroup_load(dir, "io.max", &file) == 0) {
		const char *line = cgroup_disk_line(file.data, disk);

		cgroup_found(out, LIMIT_io_read_bps_max, number_of(line, "rbps="), 0);
		cgroup_found(out, LIMIT_io_write_bps_max, number_of(line, "wbps="), 0);
	}
}

#define AT(name) offsetof(struct cgroup_counters, name)

static const struct cgroup_counter counters[] = {
	{CGROUP_MEMORY, CGROUP_NOW, "memory.current", NULL, AT(memory_bytes), 1},
	{CGROUP_MEMORY, CGROUP_PEAK, "memory.peak", NULL, AT(memory_peak_bytes),
	 1}, /* Linux 5.19 */
	{CGROUP_MEMORY, CGROUP_HIT, "memory.events", "max ", AT(memory_hits), 1},
	{CGROUP_MEMORY, CGROUP_HIT, "memory.events", "oom_kill ", AT(oom_kills), 1},
	{CGROUP_PIDS, CGROUP_NOW, "pids.current", NULL, AT(pids), 1},
	{CGROUP_PIDS, CGROUP_HIT, "pids.events", "max ", AT(pids_hits), 1},
	{CGROUP_CPU, CGROUP_USE, "cpu.stat", "usage_usec ", AT(cpu_us), 1},
	{CGROUP_CPU, CGROUP_HIT, "cpu.stat", "nr_throttled ", AT(throttled), 1},
	{CGROUP_CPU, CGROUP_HIT, "cpu.stat", "throttled_usec ", AT(throttled_us), 1},
	{CGROUP_IO, CGROUP_USE, "io.stat", "rbytes=", AT(io_read_bytes), 1},
	{CGROUP_IO, CGROUP_USE, "io.stat", "wbytes=", AT(io_write_bytes), 1},
};

static int watch(int dir, unsigned controllers, struct cgroup_files *f)
{
	if ((controllers & 1u << CGROUP_MEMORY) != 0 && cgroup_notify(f, dir, "memory.events") < 0)
		return -1;
	if ((controllers & 1u << CGROUP_PIDS) != 0 && cgroup_notify(f, dir, "pids.events") < 0)
		return -1;
	return 0;
}

const struct cgroup_version cgroup_v2 = {
	.controller = {[CGROUP_MEMORY] = "memory",
		       [CGROUP_CPU] = "cpu",
		       [CGROUP_PIDS] = "pids",
		       [CGROUP_IO] = "io"},
	.limit = {[CGROUP_MEMORY] = limit_memory,
		  [CGROUP_CPU] = limit_cpu,
		  [CGROUP_PIDS] = limit_pids,
		  [CGROUP_IO] = limit_io},
	.limits = limits,
	.counters = counters,
	.ncounters = ARRAY_LEN(counters),
	.watch = watch,
};
