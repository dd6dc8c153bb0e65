// SPDX-License-Identifier: Apache-2.0
/* Makes, joins, reads, kills and removes a session's group in all trees. */
#include "cgroup/cgroup.h"
#include "base/clock.h"
#include "base/fdio.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/proc.h"
#include "cgroup/cgroup_version.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

/* The name of a control file never begins with this. */
#define PREFIX "session-"
#define NAME_BYTES (sizeof(PREFIX) + ID_MAX)
#define TEXT_MAX 65536
#define WAIT_PIDS 64

static const enum wall wall_of[CGROUP_CONTROLLERS] = {
	[CGROUP_MEMORY] = WALL_memory_limit, [CGROUP_CPU] = WALL_cpu_limit,
	[CGROUP_CPUACCT] = WALL_cpu_limit,   [CGROUP_PIDS] = WALL_pids_limit,
	[CGROUP_IO] = WALL_io_limit,
};

static int name_of(char out[NAME_BYTES], const char *id, struct err *err)
{
	if (!id_valid(id))
		return err_set(err, E_BAD_REQUEST, "id", "not the name of a session");
	snprintf(out, NAME_BYTES, PREFIX "%s", id);
	return 0;
}

static const struct cgroup_version *version_of(const struct cgroup_host *host, size_t tree)
{
	return host->tree[tree].v2 ? &cgroup_v2 : &cgroup_v1;
}

/* ---- control files ---- */

int cgroup_write(int dir, const char *file, const char *fmt, ...)
{
	cleanup_fd int fd = openat(dir, file, O_WRONLY | O_CLOEXEC);
	cleanup_buf struct buf text = {0};
	va_list ap;

	if (fd == -1)
		return -1;
	va_start(ap, fmt);
	buf_addv(&text, fmt, ap);
	va_end(ap);
	/* one write is one setting: the rest of a short one would be another */
	return write(fd, text.data, text.len) == (ssize_t)text.len ? 0 : -1;
}

void cgroup_refused(struct wall_report *walls, enum wall wall, const char *file)
{
	wall_set(walls, wall, WALL_UNAVAILABLE, "%s: %s", file, strerror(errno));
}

int cgroup_load(int dir, const char *file, struct buf *out)
{
	cleanup_fd int fd = openat(dir, file, O_RDONLY | O_CLOEXEC);

	buf_clear(out);
	buf_adds(out, "");
	return fd == -1 ? -1 : fdio_load(fd, TEXT_MAX, out, NULL);
}

/* Adds the sum of all numbers behind the key, or the number that the text begins with. */
void cgroup_count(const struct cgroup_counter *row, const char *text, struct cgroup_counters *out)
{
	uint64_t sum = row->key == NULL ? strtoull(text, NULL, 10) : 0;

	for (const char *s = row->key != NULL ? strstr(text, row->key) : NULL; s != NULL;
	     s = strstr(s + 1, row->key))
		if (s == text || s[-1] == ' ' || s[-1] == '\n')
			sum += strtoull(s + strlen(row->key), NULL, 10);
	*(uint64_t *)((char *)out + row->offset) += sum / row->divisor;
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

void cgroup_limit_pids(int dir, const struct cgroup_ask *ask, struct wall_report *walls,
		       const char *note)
{
	const long long n = ask->limits.value[LIMIT_pids_max];

	if (n == 0 && ask->undo)
		cgroup_write(dir, "pids.max", "max");
	if (n == 0)
		return;
	if (cgroup_write(dir, "pids.max", "%lld", n) < 0)
		cgroup_refused(walls, WALL_pids_limit, "pids.max");
	else
		wall_set(walls, WALL_pids_limit, WALL_UP, "%lld processes and threads%s", n, note);
}

/* ---- made and joined ---- */

int cgroup_group(const struct cgroup_host *host, size_t tree, const char *id)
{
	char name[NAME_BYTES];

	if (name_of(name, id, NULL) < 0) {
		errno = EINVAL;
		return -1;
	}
	return openat(host->tree[tree].dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

bool cgroup_limits(const struct limits *l, enum cgroup_controller c)
{
	for (unsigned i = 0; i < LIMITS; i++)
		if (limit_rows[i].by == LIMIT_BY_CGROUP && limit_rows[i].wall == wall_of[c] &&
		    limits_has(l, (enum limit)i))
			return c != CGROUP_CPUACCT;
	return false;
}

unsigned cgroup_limited(const struct wall_report *walls)
{
	unsigned controllers = 0;

	for (unsigned c = 0; c < CGROUP_CONTROLLERS; c++) {
		const enum wall_state state = walls->wall[wall_of[c]].state;

		if (state == WALL_UP || state == WALL_PARTIAL)
			controllers |= 1u << c;
	}
	return controllers;
}

static int make_in(const struct cgroup_host *host, size_t i, const char *id)
{
	const int dir = host->tree[i].dir;
	char name[NAME_BYTES];

	ensure(name_of(name, id, NULL) == 0);
	if (mkdirat(dir, name, 0755) == 0)
		return cgroup_group(host, i, id);
	/* A launcher that was killed may have left the group. */
	if (errno != EEXIST || unlinkat(dir, name, AT_REMOVEDIR) < 0 ||
	    mkdirat(dir, name, 0755) < 0)
		return -1;
	return cgroup_group(host, i, id);
}

/* Puts the limits of one tree on the group; returns the controllers that it has spoken for. */
static unsigned limit_tree(const struct cgroup_host *host, size_t i, const struct cgroup_ask *ask,
			   struct wall_report *walls, bool make)
{
	const struct cgroup_version *v = version_of(host, i);
	cleanup_fd int dir = make ? make_in(host, i, ask->id) : cgroup_group(host, i, ask->id);
	unsigned done = 0;

	for (unsigned c = 0; c < CGROUP_CONTROLLERS; c++) {
		if ((host->tree[i].controllers & 1u << c) == 0 || v->limit[c] == NULL)
			continue;
		done |= 1u << c;
		if (dir >= 0)
			v->limit[c](dir, ask, walls);
		else if (cgroup_limits(&ask->limits, c))
			cgroup_refused(walls, wall_of[c], "the session's cgroup");
	}
	return done;
}

static int limit_all(const struct cgroup_host *host, const struct cgroup_ask *ask,
		     struct wall_report *walls, bool make, struct err *err)
{
	unsigned done = 0;

	for (size_t i = 0; i < host->n; i++)
		done |= limit_tree(host, i, ask, walls, make);
	for (unsigned c = 0; c < CGROUP_CONTROLLERS; c++)
		if ((done & 1u << c) == 0 && cgroup_limits(&ask->limits, c))
			wall_set(walls, wall_of[c], WALL_UNAVAILABLE, "%s", host->why[c]);
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
	char name[NAME_BYTES];
	int r = name_of(name, ask->id, err);

	if (r < 0)
		return r;
	r = limit_all(host, ask, walls, true, err);
	if (r < 0)
		cgroup_remove(host, ask->id, 0, NULL);
	return r;
}

int cgroup_limit(const struct cgroup_host *host, const struct cgroup_ask *ask,
		 struct wall_report *walls, struct err *err)
{
	char name[NAME_BYTES];
	const int r = name_of(name, ask->id, err);

	return r < 0 ? r : limit_all(host, ask, walls, false, err);
}

int cgroup_join(const struct cgroup_host *host, const char *id, pid_t pid, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < host->n; i++) {
		cleanup_fd int dir = cgroup_group(host, i, id);
		const unsigned has = host->tree[i].controllers;

		/* The walls say already in which tree the group could not be made. */
		if (dir == -1 && errno == ENOENT)
			continue;
		if (dir == -1 || cgroup_write(dir, "cgroup.procs", "%d", (int)pid) < 0)
			r = err_errno(err, E_ENFORCEMENT,
				      wall_name(has != 0 ? wall_of[__builtin_ctz(has)]
							 : WALL_cgroup_namespace),
				      "cannot join the session's cgroup");
	}
	return r;
}

bool cgroup_bears(const struct cgroup_host *host)
{
	return host->n == 1 && host->tree[0].v2;
}

pid_t cgroup_fork(const struct cgroup_host *host, const char *id)
{
	cleanup_fd int dir = cgroup_group(host, 0, id);
	struct clone_args args = {
		.flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (uint64_t)dir};

	return dir == -1 ? -1 : (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

/* ---- counters ---- */

int cgroup_read(const struct cgroup_host *host, const char *id, struct cgroup_counters *out,
		struct err *err)
{
	cleanup_buf struct buf text = {0};
	struct cgroup_counters sum = {0};
	bool found = false;

	for (size_t i = 0; i < host->n; i++) {
		const struct cgroup_version *v = version_of(host, i);
		cleanup_fd int dir = cgroup_group(host, i, id);
		const char *loaded = "";

		found |= dir != -1;
		for (size_t k = 0; dir != -1 && k < v->ncounters; k++) {
			const struct cgroup_counter *row = &v->counters[k];

			if ((host->tree[i].controllers & 1u << row->controller) == 0)
				continue;
			/* Rows of the same file stand together. */
			if (strcmp(loaded, row->file) != 0 &&
			    cgroup_load(dir, row->file, &text) < 0)
				buf_clear(&text);
			loaded = row->file;
			if (text.len > 0)
				cgroup_count(row, text.data, &sum);
		}
	}
	if (!found)
		return err_set(err, E_NOT_FOUND, id, "the session has no cgroup");
	*out = sum;
	return 0;
}

/* ---- the end ---- */

int cgroup_kill(const struct cgroup_host *host, const char *id, struct err *err)
{
	for (size_t i = 0; i < host->n; i++) {
		cleanup_fd int dir = host->tree[i].v2 ? cgroup_group(host, i, id) : -1;

		if (dir != -1 && cgroup_write(dir, "cgroup.kill", "1") == 0)
			return 0;
	}
	return err_set(err, E_UNAVAILABLE, "cgroup.kill",
		       "no cgroup of the session can be killed as a whole");
}

/* Waits until one of the group's processes has ended. A process leaves its group shortly before its
 * end. */
static void wait_for_one(const struct cgroup_host *host, size_t i, const char *id, int64_t left_ms)
{
	struct pollfd p[WAIT_PIDS];
	cleanup_buf struct buf text = {0};
	cleanup_fd int dir = cgroup_group(host, i, id);
	char *end;
	nfds_t n = 0;

	if (dir == -1 || cgroup_load(dir, "cgroup.procs", &text) < 0)
		return;
	for (const char *s = text.data; n < WAIT_PIDS; s = end) {
		const long pid = strtol(s, &end, 10);

		if (end == s)
			break;
		p[n] = (struct pollfd){pid > 0 ? proc_pidfd((pid_t)pid) : -1, POLLIN, 0};
		n += p[n].fd >= 0;
	}
	poll(p, n, n > 0 ? (int)left_ms : 1);
	while (n > 0)
		close(p[--n].fd);
}

int cgroup_remove(const struct cgroup_host *host, const char *id, int timeout_ms, struct err *err)
{
	const int64_t until = clock_mono_us(&clock_system) + (int64_t)timeout_ms * 1000;
	char name[NAME_BYTES];
	int r = name_of(name, id, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < host->n;) {
		const int64_t left = until - clock_mono_us(&clock_system);

		if (unlinkat(host->tree[i].dir, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
			i++;
		else if (errno != EBUSY || timeout_ms == 0 || left <= 0)
			return err_errno(err, E_UNAVAILABLE, id,
					 "cannot remove the session's cgroup");
		else
			wait_for_one(host, i, id, left / 1000 + 1);
	}
	return 0;
}

/* ---- what there is ---- */

bool cgroup_empty(const struct cgroup_host *host, const char *id)
{
	cleanup_buf struct buf text = {0};
	bool found = false;

	for (size_t i = 0; i < host->n; i++) {
		cleanup_fd int dir = cgroup_group(host, i, id);

		if (dir == -1)
			continue;
		found = true;
		if (cgroup_load(dir, "cgroup.procs", &text) < 0 || text.len > 0)
			return false;
	}
	return found;
}

void cgroup_list(const struct cgroup_host *host, const char *prefix, struct strv *ids)
{
	for (size_t i = 0; i < host->n; i++) {
		cleanup_fd int fd =
			openat(host->tree[i].dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		DIR *dir = fd == -1 ? NULL : fdopendir(fd);
		const struct dirent *e;

		if (dir == NULL)
			continue;
		take_fd(fd);
		while ((e = readdir(dir)) != NULL)
			if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) == 0 &&
			    strncmp(e->d_name + strlen(PREFIX), prefix, strlen(prefix)) == 0)
				strv_add(ids, e->d_name + strlen(PREFIX));
		closedir(dir);
	}
}
