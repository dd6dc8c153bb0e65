// SPDX-License-Identifier: Apache-2.0
/* Reads an exec out of its caller and finds its program. The listener's thread does so itself where
 * that cannot hang; else a walk does it (walk/walker.h), with a case of its own: the listener's may
 * be over before the walk returns. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/proc.h"
#include "exec/exec_thread.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>

struct exec_walk {
	struct walk *walk;
	struct exec_looker *programs; /* lent */
	struct exec_case *found;      /* owned */
	char *target;		      /* of the redirect; NULL: the exec itself is read */
	int result;
};

/* 0, an errno of the kernel, EPERM or EXEC_FAR. */
static int read_strings(struct exec_case *k, struct args_memory *m)
{
	const struct seccomp_data *call = &k->notif.data;
	const __u64 *arg = call->args + (call->nr == SYS_execveat ? 1 : 0);
	cleanup_buf struct buf path = {0};
	int r = args_string(m, arg[0], PATH_MAX, &path);

	if (r == E2BIG)
		return ENAMETOOLONG;
	if (r == 0) {
		k->image.op.exec.path = k->path = buf_take(&path);
		r = args_read(m, arg[1], &k->args);
	}
	if (r == EAGAIN)
		return EXEC_FAR;
	/* the kernel's own errno, or EPERM */
	return r == 0 || r == EFAULT || r == E2BIG ? r : EPERM;
}

/* The caller's ids, directory, path and argv. The same results. */
static int read_call(struct exec_case *k, bool near)
{
	struct caller_pages pages = {k->tid, -1};
	char cwd[PATH_MAX];
	struct args_memory m;
	struct proc_ids ids;
	int r;

	if (proc_ids(k->tid, &ids) != 0)
		return EPERM;
	k->pid = ids.pid;
	k->ppid = ids.ppid;
	if (caller_link(k->tid, "cwd", cwd) != 0)
		return EPERM;
	k->cwd = mem_strdup(cwd);
	if (near)
		args_memory_init(&m, caller_loaded_page, &pages);
	else
		args_memory_init(&m, caller_page, &k->tid);
	r = read_strings(k, &m);
	if (pages.pagemap >= 0)
		close(pages.pagemap);
	k->was_read = r == 0;
	return r;
}

int exec_case_read(struct exec_case *k, struct exec_looker *programs)
{
	const struct seccomp_data *call = &k->notif.data;
	const bool at = call->nr == SYS_execveat;
	struct image_name name = {.tid = k->tid,
				  .dirfd = at ? (int)call->args[0] : AT_FDCWD,
				  .flags = at ? (unsigned)call->args[4] : 0};
	const int r = k->was_read ? 0 : read_call(k, programs->names.near);

	if (r != 0)
		return r;
	name.path = k->path;
	name.cwd = k->cwd;
	return program_cache_resolve(programs, &name, &k->args, &k->image);
}

static int find_target(struct exec_case *k, const char *target, struct exec_looker *programs)
{
	const struct image_name name = {
		.tid = k->tid, .path = target, .dirfd = AT_FDCWD, .cwd = k->cwd};
	struct image found;
	int r = program_cache_resolve(programs, &name, &k->args, &found);

	if (r != 0)
		return r;
	image_done(&k->target);
	k->target = found;
	return 0;
}

int exec_case_find_target(struct exec_case *k, struct exec_looker *programs)
{
	return find_target(k, k->gate.verdict.target, programs);
}

/* ---- by a walk ---- */

static void run(void *arg)
{
	struct exec_walk *w = arg;

	w->result = exec_case_read(w->found, w->programs);
	if (w->result == 0 && w->target != NULL)
		w->result = find_target(w->found, w->target, w->programs);
}

static void drop(void *arg)
{
	struct exec_walk *w = arg;

	exec_case_dispose(w->found);
	exec_looker_free(w->programs);
	free(w->target);
	free(w);
}

static void wake(void *listener)
{
	listener_wake(listener);
}

bool walks_start(struct exec_control *c, struct exec_case *k, bool target)
{
	struct exec_walk *w = mem_new(struct exec_walk);
	const struct walk_job job = {run, drop, w, wake, c->listener};
	struct exec_case *to;

	w->programs = exec_looker_lend(c->programs);
	w->found = to = exec_case_new(c, &k->notif, CASE_READ);
	w->target = target ? mem_strdup(k->gate.verdict.target) : NULL;
	/* The walk needs not read it again. The case keeps the path, for the event of a refusal. */
	if (!target && k->was_read) {
		to->was_read = true;
		to->pid = k->pid;
		to->ppid = k->ppid;
		to->cwd = take(k->cwd);
		to->args = k->args;
		k->args = (struct args){0};
		to->image.op.exec.path = to->path = k->path;
		k->image.op.exec.path = k->path = mem_strdup(to->path);
	}
	k->walk_us = clock_mono_us(&clock_system);
	w->walk = walk_start(c->setup.walker, &job);
	if (w->walk == NULL)
		return false;
	k->walk = w;
	k->state = CASE_WALKING;
	return true;
}

static void take_exec(struct exec_case *k, struct exec_case *found)
{
	args_done(&k->args);
	image_done(&k->image);
	free(k->path);
	free(k->cwd);
	k->pid = found->pid;
	k->ppid = found->ppid;
	k->path = take(found->path);
	k->cwd = take(found->cwd);
	k->args = found->args;
	found->args = (struct args){0};
	k->image = found->image; /* all that its op points to is on the heap */
	found->image = (struct image){.fd = -1};
}

bool walks_take(struct exec_control *c, struct exec_case *k, int *r, bool *target)
{
	struct exec_walk *w = k->walk;

	if (!walk_over(w->walk))
		return false;
	walk_end(w->walk);
	k->walk = NULL;
	*target = w->target != NULL;
	*r = w->result;
	if (!*target) {
		take_exec(k, w->found);
	} else if (*r == 0) {
		/* What was decided stays: the caller's memory may have changed since. The target's
		 * argv is not looked at, and its strings belong to the walk. */
		image_done(&k->target);
		k->target = w->found->target;
		w->found->target = (struct image){.fd = -1};
		free(take(k->target.argv));
		k->target.op = (struct op){.class = OP_EXEC, .exec = {.path = ""}};
	}
	exec_looker_return(c->programs, take(w->programs));
	drop(w);
	return true;
}

void walks_drop(struct exec_case *k)
{
	struct exec_walk *w = k->walk;

	k->walk = NULL;
	if (w != NULL && walk_end(w->walk))
		drop(w);
}
