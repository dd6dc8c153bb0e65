// SPDX-License-Identifier: Apache-2.0
#include "exec/exec_case.h"
#include "base/mem.h"
#include "base/proc.h"
#include "exec/caller.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/syscall.h>

struct exec_case *exec_case_new(const struct seccomp_notif *n, int64_t now_us)
{
	struct exec_case *k = mem_new(struct exec_case);

	k->tid = (pid_t)n->pid;
	k->id = n->id;
	k->pidfd = -1;
	k->began_us = now_us;
	k->image.fd = k->target.fd = -1;
	k->pid = k->tid;
	k->op = (struct op){.class = OP_EXEC, .exec = {.path = ""}};
	k->gate.op = &k->op;
	return k;
}

void exec_case_free(struct exec_case *k)
{
	if (k->pidfd >= 0)
		close(k->pidfd);
	args_done(&k->args);
	image_done(&k->image);
	image_done(&k->target);
	free(k->argv);
	free(k->path);
	free(k->cwd);
	free(k);
}

int exec_case_read(struct exec_case *k, const struct seccomp_notif *n,
		   struct program_cache *programs)
{
	const bool at = n->data.nr == SYS_execveat;
	const __u64 *arg = n->data.args + (at ? 1 : 0);
	struct image_name name = {.tid = k->tid,
				  .dirfd = at ? (int)n->data.args[0] : AT_FDCWD,
				  .flags = at ? (unsigned)n->data.args[4] : 0};
	cleanup_buf struct buf path = {0};
	char cwd[PATH_MAX];
	struct args_memory m;
	struct proc_ids ids;
	int r;

	if (proc_ids(k->tid, &ids) != 0)
		return EPERM;
	k->pid = ids.pid;
	k->ppid = ids.ppid;
	if (caller_link(k->tid, "cwd", cwd, sizeof(cwd)) != 0)
		return EPERM;
	k->cwd = mem_strdup(cwd);
	args_memory_init(&m, caller_page, &k->tid);
	r = args_string(&m, arg[0], PATH_MAX, &path);
	if (r == E2BIG)
		return ENAMETOOLONG;
	if (r == 0) {
		k->op.exec.path = k->path = buf_take(&path);
		r = args_read(&m, arg[1], &k->args);
	}
	if (r != 0) /* the kernel's own errno, or EPERM */
		return r == EFAULT || r == E2BIG ? r : EPERM;
	name.path = k->path;
	name.cwd = k->cwd;
	r = program_cache_resolve(programs, &name, &k->args, &k->image);
	if (r == 0)
		image_fill_op(&k->image, &k->args, &k->argv, &k->op);
	return r;
}

int exec_case_find_target(struct exec_case *k, struct program_cache *programs)
{
	const struct image_name name = {
		.tid = k->tid, .path = k->gate.verdict.target, .dirfd = AT_FDCWD, .cwd = k->cwd};
	struct image found;
	int r = program_cache_resolve(programs, &name, &k->args, &found);

	if (r != 0)
		return r;
	image_done(&k->target);
	k->target = found;
	return 0;
}
