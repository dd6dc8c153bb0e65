// SPDX-License-Identifier: Apache-2.0
/* The limits of a session's group: set, read and changed. cgroup v1 and v2 differ in their files:
 * Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst of the kernel.
 *
 * What holds a group is read from the kernel's files, so that neither a launcher that was started
 * anew nor another writer's change is missed. */
#include "base/id.h"
#include "base/mem.h"
#include "cgroup/cgroup_group.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/sysmacros.h>

#define MB(mb) ((long long)(mb) << 20)
#define LIMIT_TEXT 24
#define PERIOD_US 100000 /* the kernel's own */
/* v1's number for "no limit" is the largest multiple of a page. */
#define NONE_FROM (UINT64_C(1) << 62)

/* By version. */
static const char *const memory_file[] = {"memory.limit_in_bytes", "memory.max"};
static const char *const swap_file[] = {"memory.memsw.limit_in_bytes", "memory.swap.max"};
static const char *const note[] = {" (cgroup v1)", ""};
static const char *const throttle_file[] = {"blkio.throttle.read_bps_device",
					    "blkio.throttle.write_bps_device"};

struct group {
	int dir;
	bool v2;
};

/* ---- set ---- */

/* A number, or the version's word for "no limit". */
static const char *text_of(char out[LIMIT_TEXT], long long value, bool limited, bool v2)
{
	snprintf(out, LIMIT_TEXT, "%lld", limited ? value : -1);
	return limited || !v2 ? out : "max";
}

/* Writes the entry of a limit that could not be set: the file and errno. */
static void refused(struct wall_report *walls, enum wall wall, const char *file)
{
	wall_set(walls, wall, WALL_UNAVAILABLE, "%s: %s", file, strerror(errno));
}

/* v1 bounds swap together with memory, and this bound may not be below that of memory. So it is
 * written second, and to undo a limit it is lifted first. */
static void limit_memory(const struct group *g, const struct cgroup_ask *ask,
			 struct wall_report *walls)
{
	const long long memory = ask->limits.value[LIMIT_max_memory_mb];
	const long long swap = ask->limits.value[LIMIT_memory_swap_max_mb];
	const bool limited = limits_has(&ask->limits, LIMIT_memory_swap_max_mb);
	char a[LIMIT_TEXT], b[LIMIT_TEXT];

	if (memory == 0 && !limited && !ask->undo)
		return;
	if (memory == 0 && !g->v2 && !ask->undo) {
		wall_set(walls, WALL_memory_limit, WALL_UNAVAILABLE,
			 "cgroup v1 limits swap only together with memory");
		return;
	}
	if (!g->v2 && ask->undo)
		cgroup_write(g->dir, swap_file[g->v2], "-1");
	if (cgroup_write(g->dir, memory_file[g->v2], "%s",
			 text_of(a, MB(memory), memory != 0, g->v2)) < 0)
		refused(walls, WALL_memory_limit, memory_file[g->v2]);
	else if (!limited && !ask->undo)
		wall_set(walls, WALL_memory_limit, WALL_UP, "%lld MB%s", memory, note[g->v2]);
	else if (cgroup_write(g->dir, swap_file[g->v2], "%s",
			      text_of(b, MB(g->v2 ? swap : memory + swap), limited, g->v2)) < 0)
		wall_set(walls, WALL_memory_limit,
			 memory == 0 || ask->swap ? WALL_UNAVAILABLE : WALL_PARTIAL,
			 "swap is not limited: the kernel does not account it (boot with "
			 "swapaccount=1)");
	else if (memory == 0)
		wall_set(walls, WALL_memory_limit, WALL_UP, "swap %lld MB", swap);
	else
		wall_set(walls, WALL_memory_limit, WALL_UP, "%lld MB, swap %lld MB%s", memory, swap,
			 note[g->v2]);
}

static void limit_cpu(const struct group *g, const struct cgroup_ask *ask,
		      struct wall_report *walls)
{
	const long long percent = ask->limits.value[LIMIT_max_cpu_percent];
	const long long asked = ask->limits.value[LIMIT_cpu_period_us];
	const long long period = asked != 0 ? asked : PERIOD_US;
	const char *file = g->v2 ? "cpu.max" : "cpu.cfs_period_us";
	char a[LIMIT_TEXT];
	const char *quota = text_of(a, percent * period / 100, percent != 0, g->v2);
	int r;

	if (percent == 0 && !ask->undo)
		return;
	r = g->v2 ? cgroup_write(g->dir, file, "%s %lld", quota, period)
		  : cgroup_write(g->dir, file, "%lld", period);
	if (r == 0 && !g->v2)
		r = cgroup_write(g->dir, file = "cpu.cfs_quota_us", "%s", quota);
	if (r < 0)
		refused(walls, WALL_cpu_limit, file);
	else
		wall_set(walls, WALL_cpu_limit, WALL_UP, "%lld %% of a CPU%s", percent,
			 note[g->v2]);
}

static void limit_pids(const struct group *g, const struct cgroup_ask *ask,
		       struct wall_report *walls)
{
	const long long n = ask->limits.value[LIMIT_pids_max];
	char a[LIMIT_TEXT];

	if (n == 0 && !ask->undo)
		return;
	if (cgroup_write(g->dir, "pids.max", "%s", text_of(a, n, n != 0, true)) < 0)
		refused(walls, WALL_pids_limit, "pids.max");
	else
		wall_set(walls, WALL_pids_limit, WALL_UP, "%lld processes and threads%s", n,
			 note[g->v2]);
}

static void limit_io(const struct group *g, const struct cgroup_ask *ask, struct wall_report *walls)
{
	const long long bps[] = {ask->limits.value[LIMIT_io_read_bps_max],
				 ask->limits.value[LIMIT_io_write_bps_max]};
	const dev_t disk = cgroup_disk(ask->io_device);
	const char *file = "io.max";
	char a[LIMIT_TEXT], b[LIMIT_TEXT];
	const char *reads = text_of(a, bps[0], bps[0] != 0, true);
	const char *writes = text_of(b, bps[1], bps[1] != 0, true);
	int r = 0;

	if (bps[0] == 0 && bps[1] == 0 && !ask->undo)
		return;
	if (disk == 0) {
		wall_set(walls, WALL_io_limit, WALL_UNAVAILABLE,
			 "the workspace's file system has no disk of its own");
		return;
	}
	if (g->v2)
		r = cgroup_write(g->dir, file, "%u:%u rbps=%s wbps=%s", major(disk), minor(disk),
				 reads, writes);
	for (size_t i = 0; !g->v2 && r == 0 && i < ARRAY_LEN(bps); i++)
		r = cgroup_write(g->dir, file = throttle_file[i], "%u:%u %lld", major(disk),
				 minor(disk), bps[i]);
	if (r < 0)
		refused(walls, WALL_io_limit, file);
	else if (g->v2)
		wall_set(walls, WALL_io_limit, WALL_UP,
			 "disk %u:%u, read %s, write %s bytes a second", major(disk), minor(disk),
			 reads, writes);
	else
		wall_set(walls, WALL_io_limit, WALL_PARTIAL,
			 "cgroup v1 limits direct I/O only, not writes of the page cache");
}

/* Sets the limits of a controller that were asked for and writes the wall's entry. */
static void (*const limit[CGROUP_CONTROLLERS])(const struct group *g, const struct cgroup_ask *ask,
					       struct wall_report *walls) = {
	[CGROUP_MEMORY] = limit_memory,
	[CGROUP_CPU] = limit_cpu,
	[CGROUP_PIDS] = limit_pids,
	[CGROUP_IO] = limit_io,
};

static bool is_asked_for(const struct limits *l, enum cgroup_controller c)
{
	for (unsigned i = 0; limit[c] != NULL && i < LIMITS; i++)
		if (limit_rows[i].by == LIMIT_BY_CGROUP && limit_rows[i].wall == cgroup_wall[c] &&
		    limits_has(l, (enum limit)i))
			return true;
	return false;
}

static int limit_all(const struct cgroup_host *host, const struct cgroup_ask *ask,
		     struct wall_report *walls, bool make, struct err *err)
{
	unsigned done = 0;

	if (!id_valid(ask->id))
		return err_set(err, E_BAD_REQUEST, "id", "not the name of a session");
	for (size_t i = 0; i < host->n; i++) {
		cleanup_fd int dir =
			make ? cgroup_make(host, i, ask->id) : cgroup_group(host, i, ask->id);
		const struct group g = {dir, host->tree[i].v2};

		done |= host->tree[i].controllers;
		for (unsigned c = 0; c < CGROUP_CONTROLLERS; c++) {
			if ((host->tree[i].controllers & 1u << c) == 0 || limit[c] == NULL)
				continue;
			if (dir >= 0)
				limit[c](&g, ask, walls);
			else if (is_asked_for(&ask->limits, c))
				refused(walls, cgroup_wall[c], "the session's cgroup");
		}
	}
	for (unsigned c = 0; c < CGROUP_CONTROLLERS; c++)
		if ((done & 1u << c) == 0 && is_asked_for(&ask->limits, c))
			wall_set(walls, cgroup_wall[c], WALL_UNAVAILABLE, "%s", host->why[c]);
	for (unsigned w = 0; w < WALLS; w++) {
		const enum wall_state state = walls->wall[w].state;

		if ((ask->required & UINT64_C(1) << w) != 0 && state != WALL_UP &&
		    state != WALL_PARTIAL)
			return err_set(err, E_ENFORCEMENT, wall_name(w), "%s",
				       walls->wall[w].detail);
	}
	return 0;
}

int cgroup_create(const struct cgroup_host *host, const struct cgroup_ask *ask,
		  struct wall_report *walls, struct err *err)
{
	const int r = limit_all(host, ask, walls, true, err);

	if (r < 0)
		cgroup_remove(host, ask->id, 0, NULL);
	return r;
}

int cgroup_limit(const struct cgroup_host *host, const struct cgroup_ask *ask,
		 struct wall_report *walls, struct err *err)
{
	return limit_all(host, ask, walls, false, err);
}

/* ---- read ---- */

/* The number at the start of a text; CGROUP_NO_LIMIT for "max", "-1", NULL and v1's largest number.
 */
static uint64_t number_in(const char *text)
{
	const uint64_t n = text != NULL && text[0] >= '0' && text[0] <= '9'
				   ? strtoull(text, NULL, 10)
				   : NONE_FROM;

	return n < NONE_FROM ? n : CGROUP_NO_LIMIT;
}

static uint64_t number_of(int dir, const char *file)
{
	cleanup_buf struct buf text = {0};

	return cgroup_load(dir, file, &text) < 0 ? CGROUP_NO_LIMIT : number_in(text.data);
}

/* Stores the value of a control file in units of 1 << bits, rounded up. */
static void found(struct limits *l, enum limit i, uint64_t value, unsigned bits)
{
	if (value == CGROUP_NO_LIMIT)
		return;
	l->value[i] = (int64_t)(value >> bits) + ((value & ((UINT64_C(1) << bits) - 1)) != 0);
	l->given[i] = true;
}

dev_t cgroup_disk(dev_t dev)
{
	cleanup_free char *dir = mem_printf("/sys/dev/block/%u:%u", major(dev), minor(dev));
	cleanup_fd int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	cleanup_buf struct buf text = {0};
	unsigned ma, mi;

	if (fd == -1)
		return 0;
	if (faccessat(fd, "partition", F_OK, 0) < 0)
		return dev;
	/* a partition lies in its disk's directory, and limits are the disk's */
	if (cgroup_load(fd, "../dev", &text) < 0 || sscanf(text.data, "%u:%u", &ma, &mi) != 2)
		return 0;
	return makedev(ma, mi);
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

static void read_memory(const struct group *g, struct limits *out)
{
	const uint64_t memory = number_of(g->dir, memory_file[g->v2]);
	uint64_t swap = number_of(g->dir, swap_file[g->v2]);

	if (!g->v2 && swap != CGROUP_NO_LIMIT)
		swap = memory <= swap ? swap - memory : CGROUP_NO_LIMIT;
	found(out, LIMIT_max_memory_mb, memory, 20);
	found(out, LIMIT_memory_swap_max_mb, swap, 20);
}

/* The percentage as it was asked for: the quota was rounded down. */
static void read_cpu(const struct group *g, struct limits *out)
{
	cleanup_buf struct buf text = {0};
	unsigned long long quota = CGROUP_NO_LIMIT, period = CGROUP_NO_LIMIT;

	if (!g->v2) {
		quota = number_of(g->dir, "cpu.cfs_quota_us");
		period = number_of(g->dir, "cpu.cfs_period_us");
	} else if (cgroup_load(g->dir, "cpu.max", &text) < 0 ||
		   sscanf(text.data, "%llu %llu", &quota, &period) != 2) {
		return;
	}
	if (period == CGROUP_NO_LIMIT || period == 0)
		return;
	found(out, LIMIT_cpu_period_us, period, 0);
	if (quota != CGROUP_NO_LIMIT)
		found(out, LIMIT_max_cpu_percent, (quota * 100 + period - 1) / period, 0);
}

static void read_io(const struct group *g, dev_t disk, struct limits *out)
{
	static const enum limit limits[] = {LIMIT_io_read_bps_max, LIMIT_io_write_bps_max};
	static const char *const words[] = {"rbps=", "wbps="};

	for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
		cleanup_buf struct buf text = {0};
		const char *at = NULL;

		if (cgroup_load(g->dir, g->v2 ? "io.max" : throttle_file[i], &text) == 0)
			at = cgroup_disk_line(text.data, disk);
		if (g->v2 && at != NULL && (at = strstr(at, words[i])) != NULL)
			at += strlen(words[i]);
		found(out, limits[i], number_in(at), 0);
	}
}

int cgroup_limits_get(const struct cgroup_host *host, const char *id, dev_t io_device,
		      struct limits *l, struct err *err)
{
	const dev_t disk = cgroup_disk(io_device);
	struct limits got = {0};
	bool exists = false;

	for (size_t i = 0; i < host->n; i++) {
		const unsigned controllers = host->tree[i].controllers;
		cleanup_fd int dir = cgroup_group(host, i, id);
		const struct group g = {dir, host->tree[i].v2};

		if (dir == -1)
			continue;
		exists = true;
		if ((controllers & 1u << CGROUP_MEMORY) != 0)
			read_memory(&g, &got);
		if ((controllers & 1u << CGROUP_CPU) != 0)
			read_cpu(&g, &got);
		if ((controllers & 1u << CGROUP_PIDS) != 0)
			found(&got, LIMIT_pids_max, number_of(dir, "pids.max"), 0);
		if ((controllers & 1u << CGROUP_IO) != 0 && disk != 0)
			read_io(&g, disk, &got);
	}
	if (!exists)
		return err_set(err, E_NOT_FOUND, id, "the session has no cgroup");
	*l = got;
	return 0;
}

/* The lowest of this group and of those above it. */
static uint64_t lowest_above(int dir)
{
	uint64_t least = CGROUP_NO_LIMIT;
	cleanup_fd int at = openat(dir, ".", CGROUP_OPEN_DIR);

	while (at != -1 && faccessat(at, "cgroup.procs", F_OK, 0) == 0) {
		const uint64_t here = number_of(at, memory_file[true]);
		const int above = openat(at, "..", CGROUP_OPEN_DIR);

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

		if ((host->tree[i].controllers & 1u << CGROUP_MEMORY) == 0)
			continue;
		if (host->tree[i].v2)
			return lowest_above(host->tree[i].dir);
		cgroup_load(host->tree[i].dir, "memory.stat", &text);
		at = strstr(text.data, key);
		return number_in(at != NULL ? at + strlen(key) : NULL);
	}
	return CGROUP_NO_LIMIT;
}

/* ---- changed while the session works ---- */

/* v2 would kill processes to reach a limit below the memory in use; v1 refuses such a limit. So v2
 * is asked to free memory first. True if more than the limit is still in use. */
static bool too_much(const struct cgroup_host *host, const struct cgroup_ask *ask, uint64_t *in_use)
{
	const uint64_t most = (uint64_t)MB(ask->limits.value[LIMIT_max_memory_mb]);
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
	/* v1 refuses a limit below the memory in use with EBUSY */
	if (r < 0 && cgroup_read(host, ask->id, &now, NULL) == 0 &&
	    fresh.wall[WALL_memory_limit].state == WALL_UNAVAILABLE &&
	    now.memory_bytes > (uint64_t)MB(ask->limits.value[LIMIT_max_memory_mb]))
		r = refuse(ask, now.memory_bytes, err);
	return r;
}
