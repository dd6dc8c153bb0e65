// SPDX-License-Identifier: Apache-2.0
/* A command's first exec comes from our own program, which nobody may read or trace: it is looked
 * at from outside, before there is a process. */
#include "base/mem.h"
#include "exec/exec.h"
#include "exec/image.h"
#include "exec/peer.h"
#include <errno.h>
#include <fcntl.h>

struct exec_first {
	struct image image;
	struct args args; /* v is owned, the strings are borrowed */
	char **argv;	  /* as the kernel will give it */
	struct op op;
};

int exec_first_look(const struct exec_first_ask *ask, struct exec_first **out)
{
	const struct image_name name = {.path = ask->path, .dirfd = AT_FDCWD, .cwd = ask->cwd};
	struct exec_first *f = mem_new(struct exec_first);
	int r;

	f->args.v = ask->argv;
	f->args.n = f->args.argc = ask->argc;
	r = image_resolve_at(ask->root_fd, &name, &f->args, &f->image);
	if (r != 0) {
		free(f);
		return r;
	}
	f->op.class = OP_EXEC;
	image_fill_op(&f->image, &f->args, &f->argv, &f->op);
	*out = f;
	return 0;
}

const struct op *exec_first_op(const struct exec_first *f)
{
	return &f->op;
}

void exec_first_free(struct exec_first *f)
{
	if (f == NULL)
		return;
	image_done(&f->image);
	free(f->argv);
	free(f);
}

pid_t exec_parent_of_unexecuted(pid_t pid)
{
	struct peer_stat st;

	return peer_stat(pid, &st) == 0 && !st.exec_done ? st.ppid : 0;
}
