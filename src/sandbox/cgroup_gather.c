// SPDX-License-Identifier: Apache-2.0
/* A living session moves into a group. Whatever a process starts once it is inside is born inside;
 * so those that are outside are moved, pass by pass, until several passes in a row find nobody.
 *
 * A pass looks at everything below the warden, and, where that can be seen, at every process of
 * init's PID namespace, each as soon as it is listed: what starts its successor and ends again and
 * again would else be gone whenever it is looked at, and never be found. Such a chain is faster
 * than any move, and makes this fail. A number is written to the kernel's file right after its
 * process was looked at: it is another's only if all others were used in between. */
#include "base/clock.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "base/proc.h"
#include "sandbox/cgroup_version.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define QUIET 3		     /* passes that find nobody */
#define LIMIT_US 3000000     /* for all of them */
#define LISTED_BYTES 64	     /* one or two entries of /proc */
#define GROUPS_TEXT_MAX 8192 /* of /proc/PID/cgroup */

/* An entry as getdents64 gives it. */
struct listed {
	uint64_t ino;
	int64_t next;
	uint16_t bytes;
	uint8_t type;
	char name[];
};

struct gather {
	const struct cgroup_host *host;
	char *end;		/* what the path of the group ends with */
	int dir[CGROUP_TREES];	/* the group in each tree; -1: could not be made there */
	struct stat space, own; /* init's PID namespace, and ours; alike if it cannot be seen */
	size_t found;		/* outside, by this pass */
	struct err *err;
	int result;
};

/* The controller by whose name a tree is found in /proc/PID/cgroup; v2 has none. */
static const char *name_of_tree(const struct cgroup_host *host, size_t tree)
{
	for (unsigned c = 0; c < CGROUP_CONTROLLERS && !host->tree[tree].v2; c++)
		if ((host->tree[tree].controllers & 1u << c) != 0)
			return cgroup_v1.controller[c];
	return NULL;
}

static bool ends_with(const char *text, const char *end)
{
	const size_t n = strlen(text), m = strlen(end);

	return n >= m && strcmp(text + n - m, end) == 0;
}

/* Whether a thread lives outside of the group in any tree. What is ending is nowhere any more. */
static bool thread_is_outside(const struct gather *g, const char *tid)
{
	cleanup_free char *path = mem_printf("/proc/%s/cgroup", tid);
	cleanup_buf struct buf text = {0};

	if (fdio_load_path(path, GROUPS_TEXT_MAX, &text, NULL) < 0)
		return false;
	for (size_t i = 0; i < g->host->n; i++) {
		cleanup_free char *group = NULL;

		if (g->dir[i] == -1)
			continue;
		group = cgroup_own_path(text.data, name_of_tree(g->host, i));
		if (!ends_with(group, g->end))
			return !proc_ending((pid_t)strtol(tid, NULL, 10));
	}
	return false;
}

static bool is_outside(const struct gather *g, pid_t pid)
{
	cleanup_free char *path = mem_printf("/proc/%d/task", (int)pid);
	DIR *dir = opendir(path);
	const struct dirent *e;
	bool outside = false;

	if (dir == NULL)
		return false;
	while (!outside && (e = readdir(dir)) != NULL)
		outside = e->d_name[0] != '.' && thread_is_outside(g, e->d_name);
	closedir(dir);
	return outside;
}

static void move(struct gather *g, pid_t pid)
{
	if (g->result < 0 || !is_outside(g, pid))
		return;
	g->found++;
	for (size_t i = 0; i < g->host->n; i++)
		if (g->dir[i] != -1 &&
		    cgroup_write(g->dir[i], "cgroup.procs", "%d", (int)pid) < 0 && errno != ESRCH) {
			g->result = err_errno(g->err, E_ENFORCEMENT, "cgroup.procs",
					      "a process cannot be moved into its cgroup");
			return;
		}
}

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Of a process; -1 if it has gone, or must not be looked at. */
static int space_of(const char *pid, struct stat *out)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%.20s/ns/pid", pid);
	return stat(path, out);
}

static void look_at(struct gather *g, const char *name)
{
	struct stat st;

	if (name[0] >= '0' && name[0] <= '9' && space_of(name, &st) == 0 && is_same(&st, &g->space))
		move(g, (pid_t)strtol(name, NULL, 10));
}

static void pass_over_space(struct gather *g)
{
	cleanup_fd int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char some[LISTED_BYTES] __attribute__((aligned(8)));
	long n;

	if (proc == -1 || is_same(&g->space, &g->own))
		return;
	while (g->result == 0 && (n = syscall(SYS_getdents64, proc, some, sizeof(some))) > 0)
		for (long at = 0; at < n;) {
			const struct listed *e = (const struct listed *)(some + at);

			look_at(g, e->name);
			at += e->bytes;
		}
}

static void pass(struct gather *g, pid_t warden)
{
	cleanup_free pid_t *below = NULL;
	const size_t n = proc_descendants(warden, &below);

	g->found = 0;
	move(g, warden);
	for (size_t i = 0; i < n; i++)
		move(g, below[i]);
	pass_over_space(g);
}

static int gather(struct gather *g, pid_t warden)
{
	const int64_t until = clock_mono_us(&clock_system) + LIMIT_US;
	unsigned quiet = 0;

	while (quiet < QUIET) {
		if (clock_mono_us(&clock_system) > until)
			return err_set(g->err, E_ENFORCEMENT, "cgroup.procs",
				       "the session starts processes faster than they are moved");
		pass(g, warden);
		if (g->result < 0)
			return g->result;
		quiet = g->found > 0 ? 0 : quiet + 1;
	}
	return 0;
}

int cgroup_gather(const struct cgroup_host *host, const char *id,
		  const struct cgroup_session *session, struct err *err)
{
	struct gather g = {.host = host, .end = cgroup_end_of_path(id), .err = err};
	cleanup_free char *init = mem_printf("%d", (int)session->init);
	size_t trees = 0;
	int r = -E_ENFORCEMENT;

	for (size_t i = 0; i < host->n; i++) {
		g.dir[i] = cgroup_group(host, i, id);
		trees += g.dir[i] != -1;
	}
	if (space_of("self", &g.own) < 0 || space_of(init, &g.space) < 0)
		g.space = g.own;
	if (trees == 0)
		err_set(err, E_ENFORCEMENT, id, "the session's cgroup cannot be made");
	else
		r = gather(&g, session->warden);
	for (size_t i = 0; i < host->n; i++)
		if (g.dir[i] != -1)
			close(g.dir[i]);
	free(g.end);
	return r;
}
