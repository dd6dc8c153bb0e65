// SPDX-License-Identifier: Apache-2.0
#include "command/limit_counters.h"
#include "base/mem.h"
#include "command/run.h"
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/vfs.h>

#define LASTING_US 20000 /* a shorter command is not worth the reading */
#define SCRATCH_MS 1000	 /* between two looks at the scratch space */
#define SCRATCH_PLACE "tmp"

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

static struct run *in_phase(const struct commands *cs, enum run_phase first, enum run_phase last)
{
	struct run *r;

	TAILQ_FOREACH (r, &cs->runs, next)
		if (r->phase >= first && r->phase <= last)
			return r;
	return NULL;
}

/* Commands run one after the other; a kept one has its result already. */
static struct run *running(const struct commands *cs)
{
	return in_phase(cs, RUN_STARTING, RUN_ENDING);
}

static bool something_is_kept(const struct commands *cs)
{
	return in_phase(cs, RUN_KEPT, RUN_KEPT) != NULL;
}

/* Adds to e what all these events have, and records it. */
static void record(struct commands *cs, struct event *e)
{
	const struct run *r = running(cs);

	e->schema = EVENT_SCHEMA;
	e->type = EVENT_resource_limit;
	e->time_us = (uint64_t)clock_wall_us(cs->clock);
	e->session_id = event_lend(cs->session_id);
	e->agent_id = cs->settings->agent_id;
	if (r != NULL && e->command_id == NULL)
		e->command_id = r->ask.command_id;
	if (r != NULL && strcmp(e->command_id, r->ask.command_id) == 0)
		e->request_id = r->ask.request_id;
	recorder_event(cs->recorder, e, NULL, NULL);
}

/* ---- scratch space ---- */

static bool nearly_none(uint64_t free_units, uint64_t all)
{
	return all > 0 && free_units < (all + 99) / 100;
}

/* One event for each command that saw it full. */
static void look_at_scratch(struct commands *cs)
{
	struct run *r = running(cs);
	struct event e = {.count = 1,
			  .reason = event_lend("less than 1 % of the scratch space is free"),
			  .limit = event_lend(wall_name(WALL_disk_limit)),
			  .counter = event_lend("free_bytes")};
	struct statfs fs;

	if (r == NULL || r->scratch_full || cs->limits.scratch_fd < 0 ||
	    fstatfs(cs->limits.scratch_fd, &fs) < 0 ||
	    !(nearly_none((uint64_t)fs.f_bavail, (uint64_t)fs.f_blocks) ||
	      nearly_none((uint64_t)fs.f_ffree, (uint64_t)fs.f_files)))
		return;
	r->scratch_full = true;
	cs->limits.scratch_mb = (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize >> 20;
	e.value = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
	record(cs, &e);
}

static void on_tick(void *arg)
{
	struct commands *cs = arg;

	look_at_scratch(cs);
	if (running(cs) != NULL)
		watch_after(cs->limits.tick, SCRATCH_MS);
}

/* A session without namespaces uses directories of the machine, which are not limited. */
void limits_watch_scratch(struct commands *cs)
{
	cleanup_fd int fd =
		openat(cs->root_fd, SCRATCH_PLACE, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct statfs fs;

	if (!cs->namespaces || fd < 0 || fstatfs(fd, &fs) < 0 || fs.f_type != TMPFS_MAGIC)
		return;
	cs->limits.tick = watch_timer(cs->loop, on_tick, cs);
	cs->limits.scratch_fd = take_fd(fd);
}

/* ---- counters of the group ---- */

void limits_look(struct commands *cs)
{
	struct limit_counters *l = &cs->limits;
	struct cgroup_counters now;

	look_at_scratch(cs);
	if (l->controllers == 0)
		return;
	cgroup_files_read(&l->files, l->controllers, &now);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const uint64_t was = value(&l->seen, rows[i].offset);
		const uint64_t is = value(&now, rows[i].offset);
		struct event e = {
			.count = is - was < UINT32_MAX ? (uint32_t)(is - was) : UINT32_MAX,
			.reason = event_lend(rows[i].reason),
			.limit = event_lend(wall_name(rows[i].wall)),
			.counter = event_lend(rows[i].name),
			.value = is,
		};

		if (is > was)
			record(cs, &e);
	}
	l->seen = now;
	l->looked = true;
}

void limits_before(struct commands *cs)
{
	if (!cs->limits.looked || something_is_kept(cs))
		limits_look(cs);
}

/* Limits that another process counts. */
static const struct reached_row {
	const char *name;
	enum wall wall;
	const char *reason;
	const char *did, *what; /* of the result's error, before and behind the limit's value */
	bool ends;		/* the command; else its own calls fail */
} reached[] = {
	{"max_file_ops", WALL_file_rules, "the session has had as many as it may have", "had",
	 "operations (limits.max_file_ops)", true},
	{"max_disk_mb", WALL_disk_limit, "the session has added as much as it may to the workspace",
	 "added",
	 "MB to the workspace; remove files that it has made, or ask for more "
	 "(resource_limits.max_disk_mb)",
	 false},
};

void limits_reached(struct commands *cs, const struct process_limit *m)
{
	struct result *kept = results_find(&cs->results, m->command_id);
	struct run *r = run_find(cs, m->command_id);
	const struct reached_row *row = reached;
	struct event e = {.count = 1, .command_id = m->command_id, .value = m->value};
	cleanup_free char *message = NULL;

	while (row < reached + ARRAY_LEN(reached) && strcmp(row->name, m->limit) != 0)
		row++;
	if (row == reached + ARRAY_LEN(reached) || (r == NULL && kept == NULL) ||
	    (r != NULL && (r->limit != NULL || r->tree_full != NULL)))
		return;
	e.reason = event_lend(row->reason);
	e.limit = event_lend(wall_name(row->wall));
	e.counter = event_lend(row->name);
	record(cs, &e);
	message =
		mem_printf("the session has %s its %" PRIu64 " %s", row->did, m->value, row->what);
	if (row->ends && r != NULL) {
		r->limit = take(message);
		if (r->phase == RUN_RUNNING)
			run_begin_kill(r, WHY_LIMIT);
		else
			run_kill(r, &(struct warden_kill){.signal = SIGKILL});
	} else if (kept != NULL) {
		result_limited(kept, message);
	} else {
		r->tree_full = take(message);
	}
}

char *limits_met(const struct run *r)
{
	const struct cgroup_counters *now = &r->cs->limits.seen;
	const uint64_t kills = now->oom_kills - r->before.oom_kills;
	const uint64_t forks = now->pids_hits - r->before.pids_hits;

	if (r->limit != NULL)
		return mem_strdup(r->limit);
	if (kills > 0)
		return mem_printf("OOM kill: the session has reached its memory limit, and %" PRIu64
				  " of its processes %s ended",
				  kills, kills == 1 ? "was" : "were");
	if (forks > 0)
		return mem_printf("the session has reached its limit of processes, and %" PRIu64
				  " fork%s failed",
				  forks, forks == 1 ? "" : "s");
	if (r->tree_full != NULL && (!r->exited || r->end.status != 0))
		return mem_strdup(r->tree_full);
	if (r->scratch_full && (!r->exited || r->end.status != 0))
		return mem_printf("the session's scratch space (/tmp, /var/tmp, /dev/shm and home) "
				  "is full: less than 1 %% of %" PRIu64
				  " MB is free; remove files there, or ask for more "
				  "(resource_limits.max_disk_mb)",
				  r->cs->limits.scratch_mb);
	return NULL;
}

/* ---- what a command uses ---- */

static uint64_t own_cpu_us(void)
{
	struct rusage use;

	getrusage(RUSAGE_SELF, &use);
	return (uint64_t)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000000 +
	       (uint64_t)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

void limits_begin(struct run *r)
{
	const struct cgroup_files *f = &r->cs->limits.files;
	struct limits_use *u = &r->use;

	if (r->cs->limits.scratch_fd >= 0)
		watch_after(r->cs->limits.tick, SCRATCH_MS);
	if (f->n == 0 || u->begun || something_is_kept(r->cs))
		return;
	u->begun = true;
	u->peak = cgroup_files_reset_peak(f) == 0;
	u->own_cpu_us = own_cpu_us();
	cgroup_files_use(f, &u->at);
}

static void raise_to(uint64_t *value, uint64_t now, uint64_t before)
{
	if (now > before && now - before > *value)
		*value = now - before;
}

void limits_measure(struct run *r, struct warden_result *m)
{
	const struct cgroup_files *f = &r->cs->limits.files;
	const struct limits_use *u = &r->use;
	struct cgroup_counters now, left;

	if (!u->begun || m->duration_us < LASTING_US || something_is_kept(r->cs))
		return;
	cgroup_files_use(f, &now);
	raise_to(&m->cpu_us, now.cpu_us, u->at.cpu_us + (own_cpu_us() - u->own_cpu_us));
	raise_to(&m->read_bytes, now.io_read_bytes, u->at.io_read_bytes);
	raise_to(&m->write_bytes, now.io_write_bytes, u->at.io_write_bytes);
	/* Memory that is left after the command is filled with pages of files, not the command's
	 * own. After a reset the peak is the memory in use. */
	if (!u->peak || cgroup_files_reset_peak(f) < 0)
		return;
	cgroup_files_use(f, &left);
	if (left.memory_peak_bytes < u->at.memory_peak_bytes)
		left.memory_peak_bytes = u->at.memory_peak_bytes;
	raise_to(&m->maxrss_kb, now.memory_peak_bytes / 1024, left.memory_peak_bytes / 1024);
}

/* ---- events of the kernel ---- */

static void on_event(void *arg)
{
	struct commands *cs = arg;
	const int fds[] = {cs->limits.files.event, cs->limits.files.notify}; /* non-blocking */
	char events[4096] __attribute__((aligned(8)));

	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		while (fds[i] >= 0 && read(fds[i], events, sizeof(events)) > 0)
			;
	limits_look(cs);
}

void limits_changed(struct commands *cs, const struct wall_report *walls)
{
	limits_look(cs); /* what was hit before */
	/* A controller that limits nothing cannot be hit. */
	cs->limits.controllers = cs->limits.files.n > 0 ? cgroup_limited(walls) : 0;
	cs->limits.looked = false; /* not at the new ones */
}

int limits_open(struct commands *cs, const struct strv *counters, const struct strv *walls,
		struct err *err)
{
	struct limit_counters *l = &cs->limits;
	struct wall_report report;

	l->files = CGROUP_FILES_NONE;
	for (size_t i = 0; i < counters->n; i++) {
		const int r = cgroup_files_parse(&l->files, counters->v[i], err);

		if (r < 0)
			return r;
	}
	wall_report_init(&report);
	wall_unpack(&report, walls, NULL);
	limits_changed(cs, &report);
	if (l->files.event >= 0)
		watch_start(l->event = watch_readable(cs->loop, l->files.event, on_event, cs));
	if (l->files.notify >= 0)
		watch_start(l->notify = watch_readable(cs->loop, l->files.notify, on_event, cs));
	return 0;
}

void limits_close(struct commands *cs)
{
	watch_free(cs->limits.event);
	watch_free(cs->limits.notify);
	watch_free(cs->limits.tick);
	mem_cleanup_fd(&cs->limits.scratch_fd);
	cgroup_files_close(&cs->limits.files);
}
