// SPDX-License-Identifier: Apache-2.0
#include "warden/limits.h"
#include "base/mem.h"
#include "warden/core.h"
#include <inttypes.h>

#define COUNTER(name) offsetof(struct cgroup_counters, name)

static const struct {
	enum wall wall;
	size_t offset;
	const char *name, *reason;
} rows[] = {
	{WALL_memory_limit, COUNTER(oom_kills), "oom_kills", "the OOM killer ended a process"},
	{WALL_memory_limit, COUNTER(memory_hits), "memory_hits", "memory was taken back"},
	{WALL_pids_limit, COUNTER(pids_hits), "failed_forks", "a fork failed"},
	{WALL_cpu_limit, COUNTER(throttled), "throttled_periods", "the CPU was taken away"},
};

static uint64_t value(const struct cgroup_counters *c, size_t offset)
{
	return *(const uint64_t *)((const char *)c + offset);
}

/* Commands run one after the other; one that is kept in the background has been told of. */
static const struct run *running(const struct warden *w)
{
	const struct run *r;

	TAILQ_FOREACH (r, &w->runs, next)
		if (r->phase == RUN_STARTING || r->phase == RUN_RUNNING || r->phase == RUN_ENDING)
			return r;
	return NULL;
}

static void tell(struct warden *w, size_t row, uint64_t grown, uint64_t total)
{
	const struct run *r = running(w);
	const struct event e = {
		.schema = EVENT_SCHEMA,
		.type = EVENT_resource_limit,
		.time_us = (uint64_t)clock_wall_us(w->clock),
		.session_id = (char *)w->args->session_id,
		.command_id = r != NULL ? r->ask.command_id : NULL,
		.agent_id = w->settings.agent_id,
		.request_id = r != NULL ? r->ask.request_id : NULL,
		.count = grown < UINT32_MAX ? (uint32_t)grown : UINT32_MAX,
		.reason = (char *)rows[row].reason,
		.limit = (char *)wall_name(rows[row].wall),
		.counter = (char *)rows[row].name,
		.value = total,
	};

	record_event(&w->record, &e, NULL, NULL);
}

void limits_look(struct warden *w)
{
	struct limits *l = &w->limits;
	struct cgroup_counters now;

	if (l->files.n == 0)
		return;
	cgroup_files_read(&l->files, &now);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const uint64_t was = value(&l->seen, rows[i].offset);
		const uint64_t is = value(&now, rows[i].offset);

		if (is > was)
			tell(w, i, is - was, is);
	}
	l->seen = now;
}

char *limits_met(const struct run *r)
{
	const struct cgroup_counters *now = &r->w->limits.seen;
	const uint64_t kills = now->oom_kills - r->before.oom_kills;
	const uint64_t forks = now->pids_hits - r->before.pids_hits;

	if (kills > 0)
		return mem_printf("OOM kill: the session has reached its memory limit, and %" PRIu64
				  " of its processes %s ended",
				  kills, kills == 1 ? "was" : "were");
	if (forks > 0)
		return mem_printf("the session has reached its limit of processes, and %" PRIu64
				  " fork%s failed",
				  forks, forks == 1 ? "" : "s");
	return NULL;
}

/* ---- told by the kernel ---- */

static void empty(int fd)
{
	char events[4096] __attribute__((aligned(8)));

	while (read(fd, events, sizeof(events)) > 0)
		;
}

static void on_event(void *arg)
{
	struct warden *w = arg;

	empty(w->limits.files.event);
	limits_look(w);
}

static void on_notify(void *arg)
{
	struct warden *w = arg;

	empty(w->limits.files.notify);
	limits_look(w);
}

int limits_open(struct warden *w, struct err *err)
{
	struct limits *l = &w->limits;

	l->files = CGROUP_FILES_NONE;
	for (size_t i = 0; i < w->args->counters.n; i++) {
		const int r = cgroup_files_parse(&l->files, w->args->counters.v[i], err);

		if (r < 0)
			return r;
	}
	if (l->files.event >= 0)
		watch_start(l->event = watch_readable(w->loop, l->files.event, on_event, w));
	if (l->files.notify >= 0)
		watch_start(l->notify = watch_readable(w->loop, l->files.notify, on_notify, w));
	return 0;
}

void limits_close(struct warden *w)
{
	watch_free(w->limits.event);
	watch_free(w->limits.notify);
	cgroup_files_close(&w->limits.files);
}
