// SPDX-License-Identifier: Apache-2.0
/* The counters of a group. They can be handed on as open files: a process that gets them reads
 * without any right of its own. A control file is read anew from its start by each pread. */
#include "base/mem.h"
#include "cgroup/cgroup_group.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>

#define TEXT_MAX 4096 /* cpu.stat is the longest, with a few hundred bytes */
#define NS_PER_US 1000

enum counter_kind { NOW = 1, HIT = 2, USE = 4, PEAK = 8, ANY = NOW | HIT | USE | PEAK };

/* Where a counter stands. Rows of the same file stand together. */
struct cgroup_counter {
	bool v2;
	enum cgroup_controller controller;
	enum counter_kind kind;
	const char *file;
	const char *key; /* text before each number, at the start of a word; all are added. NULL:
			    the file is one number */
	size_t offset;	 /* in struct cgroup_counters */
	uint64_t divisor;
};
#define AT(name) offsetof(struct cgroup_counters, name)
static const struct cgroup_counter counters[] = {
	{0, CGROUP_MEMORY, NOW, "memory.usage_in_bytes", NULL, AT(memory_bytes), 1},
	{0, CGROUP_MEMORY, PEAK, "memory.max_usage_in_bytes", NULL, AT(memory_peak_bytes), 1},
	{0, CGROUP_MEMORY, HIT, "memory.failcnt", NULL, AT(memory_hits), 1},
	/* the one that is hit if no swap is allowed; Linux 6.18 leaves both at 0 */
	{0, CGROUP_MEMORY, HIT, "memory.memsw.failcnt", NULL, AT(memory_hits), 1},
	{0, CGROUP_MEMORY, HIT, "memory.oom_control", "oom_kill ", AT(oom_kills), 1},
	{0, CGROUP_PIDS, HIT, "pids.events", "max ", AT(pids_hits), 1},
	{0, CGROUP_CPUACCT, USE, "cpuacct.usage", NULL, AT(cpu_us), NS_PER_US},
	{0, CGROUP_CPU, HIT, "cpu.stat", "nr_throttled ", AT(throttled), 1},
	{0, CGROUP_IO, USE, "blkio.throttle.io_service_bytes", "Read ", AT(io_read_bytes), 1},
	{0, CGROUP_IO, USE, "blkio.throttle.io_service_bytes", "Write ", AT(io_write_bytes), 1},
	{1, CGROUP_MEMORY, NOW, "memory.current", NULL, AT(memory_bytes), 1},
	{1, CGROUP_MEMORY, PEAK, "memory.peak", NULL, AT(memory_peak_bytes), 1}, /* Linux 5.19 */
	{1, CGROUP_MEMORY, HIT, "memory.events", "max ", AT(memory_hits), 1},
	{1, CGROUP_MEMORY, HIT, "memory.events", "oom_kill ", AT(oom_kills), 1},
	{1, CGROUP_PIDS, HIT, "pids.events", "max ", AT(pids_hits), 1},
	{1, CGROUP_CPU, USE, "cpu.stat", "usage_usec ", AT(cpu_us), 1},
	{1, CGROUP_CPU, HIT, "cpu.stat", "nr_throttled ", AT(throttled), 1},
	{1, CGROUP_IO, USE, "io.stat", "rbytes=", AT(io_read_bytes), 1},
	{1, CGROUP_IO, USE, "io.stat", "wbytes=", AT(io_write_bytes), 1},
};

/* The row behind this one if it is of the same file, else NULL. */
static const struct cgroup_counter *next_of_file(const struct cgroup_counter *row)
{
	const struct cgroup_counter *next = row + 1;

	return next < counters + ARRAY_LEN(counters) && next->v2 == row->v2 &&
			       strcmp(next->file, row->file) == 0
		       ? next
		       : NULL;
}

/* ---- opened and read ---- */

/* inotify of one control file. 0 or -1/errno. */
static int notify(struct cgroup_files *f, int dir, const char *file)
{
	char path[64];

	if (f->notify == -1)
		f->notify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (f->notify == -1)
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", dir, file);
	return inotify_add_watch(f->notify, path, IN_MODIFY) == -1 ? -1 : 0;
}

/* Opens what becomes readable at a hit. 0 or -1/errno. v1's memory.oom_control does so by eventfd
 * only, its pids.events not on every kernel (6.18 is silent). */
static int watch(int dir, bool v2, unsigned controllers, struct cgroup_files *f)
{
	cleanup_fd int oom = -1;

	if ((controllers & 1u << CGROUP_PIDS) != 0 && notify(f, dir, "pids.events") < 0)
		return -1;
	if ((controllers & 1u << CGROUP_MEMORY) == 0)
		return 0;
	if (v2)
		return notify(f, dir, "memory.events");
	oom = openat(dir, "memory.oom_control", O_RDONLY | O_CLOEXEC);
	f->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (oom == -1 || f->event == -1)
		return -1;
	return cgroup_write(dir, "cgroup.event_control", "%d %d", f->event, oom);
}

/* Opens the files of these kinds in one tree. */
static void open_files(int dir, bool v2, unsigned controllers, unsigned kinds,
		       struct cgroup_files *out)
{
	for (size_t i = 0; i < ARRAY_LEN(counters); i++) {
		const struct cgroup_counter *row = &counters[i];
		const bool reset = row->kind == PEAK && (kinds & NOW) == 0;
		int fd = -1;

		if (row->v2 == v2 && (row->kind & kinds) != 0 &&
		    (controllers & 1u << row->controller) != 0)
			fd = openat(dir, row->file, (reset ? O_RDWR : O_RDONLY) | O_CLOEXEC);
		if (fd >= 0) {
			ensure(out->n < CGROUP_FILES);
			out->file[out->n].fd = fd;
			out->file[out->n++].row = row;
		}
		while (next_of_file(&counters[i]) != NULL)
			i++;
	}
}

void cgroup_files_open(const struct cgroup_host *host, const char *id, struct cgroup_files *out)
{
	bool watched = true;

	*out = CGROUP_FILES_NONE;
	for (size_t i = 0; i < host->n; i++) {
		cleanup_fd int dir = cgroup_group(host, i, id);
		const unsigned controllers = host->tree[i].controllers;

		if (dir == -1)
			continue;
		open_files(dir, host->tree[i].v2, controllers, HIT | USE | PEAK, out);
		watched = watch(dir, host->tree[i].v2, controllers, out) == 0 && watched;
	}
	if (watched)
		return;
	/* with only a part of them, hits would be missed */
	mem_cleanup_fd(&out->event);
	mem_cleanup_fd(&out->notify);
	out->event = out->notify = -1;
}

void cgroup_files_close(struct cgroup_files *f)
{
	for (size_t i = 0; i < f->n; i++)
		close(f->file[i].fd);
	mem_cleanup_fd(&f->event);
	mem_cleanup_fd(&f->notify);
	*f = CGROUP_FILES_NONE;
}

/* Adds the sum of all numbers behind the key, or the number that the text begins with. */
static void count(const struct cgroup_counter *row, const char *text, struct cgroup_counters *out)
{
	uint64_t sum = row->key == NULL ? strtoull(text, NULL, 10) : 0;

	for (const char *s = row->key != NULL ? strstr(text, row->key) : NULL; s != NULL;
	     s = strstr(s + 1, row->key))
		if (s == text || s[-1] == ' ' || s[-1] == '\n')
			sum += strtoull(s + strlen(row->key), NULL, 10);
	*(uint64_t *)((char *)out + row->offset) += sum / row->divisor;
}

/* The sum of the counters of these kinds. Reads only the files that have one. */
static struct cgroup_counters sum_of(const struct cgroup_files *f, unsigned kinds,
				     unsigned controllers)
{
	struct cgroup_counters sum = {0};

	for (size_t i = 0; i < f->n; i++) {
		const struct cgroup_counter *row = f->file[i].row;
		char text[TEXT_MAX];
		ssize_t n = 0;

		if ((controllers & 1u << row->controller) == 0)
			continue;
		for (; row != NULL && n >= 0; row = next_of_file(row)) {
			if ((row->kind & kinds) == 0)
				continue;
			if (n == 0)
				n = pread(f->file[i].fd, text, sizeof(text) - 1, 0);
			text[n > 0 ? n : 0] = '\0';
			count(row, text, &sum);
		}
	}
	return sum;
}

void cgroup_files_read(const struct cgroup_files *f, unsigned controllers,
		       struct cgroup_counters *out)
{
	*out = sum_of(f, HIT, controllers);
}

void cgroup_files_use(const struct cgroup_files *f, struct cgroup_counters *out)
{
	*out = sum_of(f, USE | PEAK, ~0u);
}

int cgroup_files_reset_peak(const struct cgroup_files *f)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->file[i].row->kind == PEAK)
			return pwrite(f->file[i].fd, "0", 1, 0) == 1 ? 0 : -1;
	return -1;
}

int cgroup_read(const struct cgroup_host *host, const char *id, struct cgroup_counters *out,
		struct err *err)
{
	struct cgroup_files f = CGROUP_FILES_NONE;
	bool found = false;

	for (size_t i = 0; i < host->n; i++) {
		cleanup_fd int dir = cgroup_group(host, i, id);

		found |= dir != -1;
		if (dir != -1)
			open_files(dir, host->tree[i].v2, host->tree[i].controllers, ANY, &f);
	}
	if (!found)
		return err_set(err, E_NOT_FOUND, id, "the session has no cgroup");
	*out = sum_of(&f, ANY, ~0u);
	cgroup_files_close(&f);
	return 0;
}

unsigned cgroup_limited(const struct wall_report *walls)
{
	unsigned controllers = 0;

	for (unsigned c = 0; c < CGROUP_CONTROLLERS; c++) {
		const enum wall_state state = walls->wall[cgroup_wall[c]].state;

		if (state == WALL_UP || state == WALL_PARTIAL)
			controllers |= 1u << c;
	}
	return controllers;
}

/* ---- as arguments ---- */

static const char event_name[] = "event", notify_name[] = "notify";
static const char *const prefixes[] = {"1/", "2/"}; /* by version */

static void format(int fd, const char *prefix, const char *name, struct strv *out)
{
	cleanup_free char *text = mem_printf("%d %s%s", fd, prefix, name);

	if (fd >= 0 && fcntl(fd, F_SETFD, 0) == 0)
		strv_add(out, text);
}

void cgroup_files_format(const struct cgroup_files *f, struct strv *out)
{
	for (size_t i = 0; i < f->n; i++)
		format(f->file[i].fd, prefixes[f->file[i].row->v2], f->file[i].row->file, out);
	format(f->event, "", event_name, out);
	format(f->notify, "", notify_name, out);
}

/* The first row of the file with this name; NULL if no file has it, or the list has it already. */
static const struct cgroup_counter *find(const struct cgroup_files *f, const char *name)
{
	const struct cgroup_counter *row = counters;

	while (row < counters + ARRAY_LEN(counters) &&
	       (strncmp(name, prefixes[row->v2], 2) != 0 || strcmp(name + 2, row->file) != 0))
		row++;
	for (size_t i = 0; i < f->n; i++)
		if (f->file[i].row == row)
			return NULL;
	return row < counters + ARRAY_LEN(counters) && f->n < CGROUP_FILES ? row : NULL;
}

int cgroup_files_parse(struct cgroup_files *f, const char *text, struct err *err)
{
	const struct cgroup_counter *row;
	char *name;
	const long fd = strtol(text, &name, 10);

	if (text[0] < '0' || text[0] > '9' || *name != ' ' || fd > INT_MAX ||
	    fcntl((int)fd, F_SETFD, FD_CLOEXEC) < 0)
		return err_set(err, E_BAD_REQUEST, "counter", "'%s' is not an open descriptor",
			       text);
	row = find(f, ++name);
	if (f->event == -1 && strcmp(name, event_name) == 0) {
		f->event = (int)fd;
	} else if (f->notify == -1 && strcmp(name, notify_name) == 0) {
		f->notify = (int)fd;
	} else if (row != NULL) {
		f->file[f->n].fd = (int)fd;
		f->file[f->n++].row = row;
	} else {
		return err_set(err, E_BAD_REQUEST, "counter", "'%s' is not a counter", text);
	}
	return 0;
}
