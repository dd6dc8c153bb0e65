// SPDX-License-Identifier: Apache-2.0
/* Other limits for a group at work. What holds it is read from the kernel's files, so that neither
 * a launcher that was started anew nor another writer's change is missed. */
#include "base/mem.h"
#include "cgroup/cgroup_version.h"
#include <errno.h>
#include <stdio.h>
#include <sys/sysmacros.h>

/* v1 has a number for "none": the largest one that is a multiple of a page. */
#define NONE_FROM (UINT64_C(1) << 62)
#define DISK_TEXT 32
#define KNOBS 16

uint64_t cgroup_number(int dir, const char *file)
{
	cleanup_buf struct buf text = {0};
	uint64_t n;

	if (cgroup_load(dir, file, &text) < 0 || text.data[0] < '0' || text.data[0] > '9')
		return CGROUP_NO_LIMIT;
	n = strtoull(text.data, NULL, 10);
	return n < NONE_FROM ? n : CGROUP_NO_LIMIT;
}

uint64_t cgroup_percent(uint64_t quota_us, uint64_t period_us)
{
	if (quota_us == CGROUP_NO_LIMIT || period_us == CGROUP_NO_LIMIT || period_us == 0)
		return CGROUP_NO_LIMIT;
	return (quota_us * 100 + period_us - 1) / period_us;
}

static void disk_text(char out[DISK_TEXT], dev_t disk)
{
	snprintf(out, DISK_TEXT, "%u:%u ", major(disk), minor(disk));
}

const char *cgroup_disk_line(const char *text, dev_t disk)
{
	char begin[DISK_TEXT];

	disk_text(begin, disk);
	while (*text != '\0') {
		if (strncmp(text, begin, strlen(begin)) == 0)
			return text + strlen(begin);
		text += strcspn(text, "\n");
		text += *text == '\n';
	}
	return NULL;
}

int cgroup_limits_get(const struct cgroup_host *host, const char *id, struct cgroup_limits *l,
		      struct err *err)
{
	struct cgroup_limits got = {CGROUP_NO_LIMIT, CGROUP_NO_LIMIT, CGROUP_NO_LIMIT,
				    CGROUP_NO_LIMIT, CGROUP_NO_LIMIT, CGROUP_NO_LIMIT,
				    CGROUP_NO_LIMIT, l->io_device};
	bool found = false;

	for (size_t i = 0; i < host->n; i++) {
		const struct cgroup_version *v = host->tree[i].v2 ? &cgroup_v2 : &cgroup_v1;
		cleanup_fd int dir = cgroup_group(host, i, id);

		if (dir == -1)
			continue;
		found = true;
		v->limits(dir, host->tree[i].controllers, &got);
	}
	if (!found)
		return err_set(err, E_NOT_FOUND, id, "the session has no cgroup");
	*l = got;
	return 0;
}

/* ---- changed, and put back ---- */

struct saved {
	size_t n;
	struct {
		int dir; /* owned */
		const struct cgroup_knob *knob;
		struct buf text;
	} knob[KNOBS];
};

static void save(const struct cgroup_host *host, const struct cgroup_ask *ask, struct saved *s)
{
	for (size_t i = 0; i < host->n; i++) {
		const struct cgroup_version *v = host->tree[i].v2 ? &cgroup_v2 : &cgroup_v1;

		for (size_t k = 0; k < v->nknobs && s->n < KNOBS; k++) {
			const enum cgroup_controller c = v->knobs[k].controller;
			cleanup_fd int dir = -1;

			if ((host->tree[i].controllers & 1u << c) == 0 ||
			    !cgroup_limits(&ask->limits, c))
				continue;
			dir = cgroup_group(host, i, ask->id);
			if (dir == -1 ||
			    cgroup_load(dir, v->knobs[k].file, &s->knob[s->n].text) < 0)
				continue;
			s->knob[s->n].knob = &v->knobs[k];
			s->knob[s->n++].dir = take_fd(dir);
		}
	}
}

static void put_back_one(int dir, const struct cgroup_knob *k, const char *text, dev_t disk)
{
	const char *line = k->none == NULL ? text : cgroup_disk_line(text, disk);
	char begin[DISK_TEXT] = "";

	if (k->none != NULL)
		disk_text(begin, disk);
	if (line == NULL)
		line = k->none;
	cgroup_write(dir, k->file, "%s%.*s", begin, (int)strcspn(line, "\n"), line);
}

/* Backwards: memory and swap together may not be below memory. */
static void put_back(const struct saved *s, dev_t device)
{
	for (size_t i = s->n; i-- > 0;)
		put_back_one(s->knob[i].dir, s->knob[i].knob, s->knob[i].text.data,
			     cgroup_disk(device));
}

static void saved_done(struct saved *s)
{
	for (size_t i = 0; i < ARRAY_LEN(s->knob); i++)
		buf_done(&s->knob[i].text);
	while (s->n > 0)
		close(s->knob[--s->n].dir);
}

/* v2 would end processes to come down to a limit; v1 refuses one that is too low. Both are asked to
 * make room first, and both refuse then. True if that much is in use. */
static bool too_much(const struct cgroup_host *host, const struct cgroup_ask *ask, uint64_t *in_use)
{
	struct cgroup_counters now = {0};

	if (ask->limits.memory_bytes == CGROUP_NO_LIMIT ||
	    cgroup_read(host, ask->id, &now, NULL) < 0 ||
	    now.memory_bytes <= ask->limits.memory_bytes)
		return false;
	for (size_t i = 0; i < host->n; i++) {
		cleanup_fd int dir = host->tree[i].v2 ? cgroup_group(host, i, ask->id) : -1;

		if (dir == -1 || (host->tree[i].controllers & 1u << CGROUP_MEMORY) == 0)
			continue;
		cgroup_write(dir, "memory.reclaim", "%llu",
			     (unsigned long long)(now.memory_bytes - ask->limits.memory_bytes));
		if (cgroup_read(host, ask->id, &now, NULL) < 0)
			return false;
		*in_use = now.memory_bytes;
		return now.memory_bytes > ask->limits.memory_bytes;
	}
	return false;
}

static int refuse(const struct cgroup_ask *ask, uint64_t in_use, struct err *err)
{
	return err_set(err, E_CONFLICT, wall_name(WALL_memory_limit),
		       "%s: %llu MB are in use, more than the %llu MB that were asked for",
		       wall_name(WALL_memory_limit), (unsigned long long)(in_use >> 20),
		       (unsigned long long)(ask->limits.memory_bytes >> 20));
}

int cgroup_change(const struct cgroup_host *host, const struct cgroup_ask *ask,
		  struct wall_report *walls, struct err *err)
{
	struct saved before = {0};
	struct cgroup_counters now = {0};
	struct wall_report fresh = *walls;
	uint64_t in_use;
	int r;

	if (too_much(host, ask, &in_use))
		return refuse(ask, in_use, err);
	save(host, ask, &before);
	r = cgroup_limit(host, ask, &fresh, err);
	if (r == 0)
		*walls = fresh;
	else
		put_back(&before, ask->limits.io_device);
	/* what v1 says is EBUSY */
	if (r < 0 && cgroup_read(host, ask->id, &now, NULL) == 0 &&
	    fresh.wall[WALL_memory_limit].state == WALL_UNAVAILABLE &&
	    now.memory_bytes > ask->limits.memory_bytes)
		r = refuse(ask, now.memory_bytes, err);
	saved_done(&before);
	return r;
}
