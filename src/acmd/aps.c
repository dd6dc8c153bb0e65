// SPDX-License-Identifier: Apache-2.0
/* With a PID namespace, /proc shows the session's processes alone. Without one it shows the
 * machine's: of those below the session's agentsh-init, the ones that a PID namespace with hidepid
 * would show are listed, so neither leaders nor the process that ends the session. */
#include "acmd/acmd.h"
#include "base/clock.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "base/proc.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARGS_MAX 4096

struct process {
	int pid;
	struct proc_stat is;
};
struct process_list {
	struct process *v; /* by pid */
	size_t n;
};

static int by_pid(const void *a, const void *b)
{
	return ((const struct process *)a)->pid - ((const struct process *)b)->pid;
}

static const struct process *find(const struct process_list *p, int pid)
{
	const struct process key = {.pid = pid};

	return p->n > 0 ? bsearch(&key, p->v, p->n, sizeof(*p->v), by_pid) : NULL;
}

/* The process, or the nearest one above it, that has this pid or, if pid is 0, is an init of a
 * session. */
static const struct process *above(const struct process_list *p, int from, int pid)
{
	const struct process *at = find(p, from);

	for (size_t i = 0; at != NULL && i < p->n; i++) {
		if (pid != 0 ? at->pid == pid : strcmp(at->is.name, "agentsh-init") == 0)
			return at;
		at = find(p, at->is.ppid);
	}
	return NULL;
}

static void write_args(struct acmd *a, int proc, const struct process *p)
{
	char path[64], text[ARGS_MAX + 1];
	cleanup_fd int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "%d/cmdline", p->pid);
	fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	n = fd == -1 ? 0 : fdio_read_full(fd, text, sizeof(text));
	jw_karr(&a->w, "args");
	for (ssize_t i = 0; i < n && i < ARGS_MAX;) {
		const size_t len = strnlen(text + i, (size_t)((n < ARGS_MAX ? n : ARGS_MAX) - i));

		jw_strn(&a->w, text + i, len);
		i += (ssize_t)len + 1;
	}
	jw_arr_end(&a->w);
	if (n > ARGS_MAX)
		jw_kbool(&a->w, "args_cut", true);
}

static void add_process(struct acmd *a, int proc, const struct process *p)
{
	static const char letters[] = "RSDTtZI";
	static const char *const words[] = {"running", "sleeping", "waiting", "stopped",
					    "traced",  "zombie",   "idle"};
	const char *state = strchr(letters, p->is.state);
	const int64_t hz = sysconf(_SC_CLK_TCK);
	const int64_t boot_us = clock_wall_us(&clock_system) - clock_boot_us(&clock_system);
	char path[16];
	struct stat st;

	snprintf(path, sizeof(path), "%d", p->pid);
	if (fstatat(proc, path, &st, 0) < 0)
		return; /* it has ended */
	jw_obj(&a->w);
	jw_kint(&a->w, "pid", p->pid);
	jw_kint(&a->w, "ppid", p->is.ppid);
	acmd_user(a, "user", st.st_uid);
	jw_kstr(&a->w, "state", state != NULL ? words[state - letters] : "other");
	acmd_name(a, "name", p->is.name, strlen(p->is.name));
	write_args(a, proc, p);
	jw_ktime_us(&a->w, "started", boot_us + (int64_t)p->is.start * 1000000 / hz);
	jw_kuint(&a->w, "cpu_time_ms", p->is.cpu * 1000 / (uint64_t)hz);
	jw_kint(&a->w, "memory_kb", p->is.pages * (sysconf(_SC_PAGESIZE) / 1024));
	jw_kint(&a->w, "threads", p->is.threads);
	jw_obj_end(&a->w);
}

int aps_run(struct acmd *a)
{
	struct process_list p = {0};
	DIR *dir = opendir("/proc");
	const struct process *init;
	enum acmd_turn turn = ACMD_SKIP;
	const struct dirent *e;
	char self[16] = "";

	if (dir == NULL)
		return acmd_refuse(a, "/proc", errno);
	while ((e = readdir(dir)) != NULL) {
		struct process one = {.pid = atoi(e->d_name)};

		if (one.pid <= 0 || proc_stat(one.pid, &one.is) < 0)
			continue;
		p.v = mem_grow(p.v, p.n, sizeof(*p.v));
		p.v[p.n++] = one;
	}
	if (p.n > 0)
		qsort(p.v, p.n, sizeof(*p.v), by_pid);
	/* /proc may be that of another PID namespace. */
	init = readlinkat(dirfd(dir), "self", self, sizeof(self) - 1) > 0 ? above(&p, atoi(self), 0)
									  : NULL;
	jw_obj(&a->w);
	jw_karr(&a->w, "processes");
	for (size_t i = 0; i < p.n && turn != ACMD_STOP; i++) {
		const struct process *one = &p.v[i];
		char path[32], exe[1];

		if (init != NULL && (one == init || above(&p, one->pid, init->pid) == NULL))
			continue;
		snprintf(path, sizeof(path), "%d/exe", one->pid);
		if (init != NULL && readlinkat(dirfd(dir), path, exe, sizeof(exe)) < 0 &&
		    (errno == EACCES || errno == EPERM))
			continue; /* not traceable */
		turn = acmd_turn(a);
		if (turn == ACMD_TAKE)
			add_process(a, dirfd(dir), one);
	}
	jw_arr_end(&a->w);
	closedir(dir);
	free(p.v);
	return acmd_finish(a);
}
