// SPDX-License-Identifier: Apache-2.0
/* A command's first exec comes from our own program, which nobody may read or trace: it is looked
 * at from outside, before there is a process. */
#include "base/mem.h"
#include "exec/exec.h"
#include "exec/exec_thread.h"
#include "exec/image.h"
#include "exec/program_cache.h"
#include <fcntl.h>

struct exec_looker {
	struct program_cache programs;
};
struct exec_first {
	char *path; /* owned; as it was asked for */
	struct image image;
	struct args args; /* v is owned, the strings are borrowed */
	char **argv;	  /* as the kernel will give it */
	struct op op;
};

struct exec_looker *exec_looker_new(int root_fd)
{
	struct exec_looker *l = mem_new(struct exec_looker);

	l->programs.root = root_fd;
	return l;
}

void exec_looker_free(struct exec_looker *l)
{
	if (l == NULL)
		return;
	program_cache_done(&l->programs);
	free(l);
}

/* ---- one exec ---- */

int exec_first_look(struct exec_looker *l, const struct exec_first_ask *ask,
		    struct exec_first **out)
{
	const struct image_name name = {.path = ask->path, .dirfd = AT_FDCWD, .cwd = ask->cwd};
	struct exec_first *f = mem_new(struct exec_first);
	int r;

	f->args.v = ask->argv;
	f->args.n = f->args.argc = ask->argc;
	r = program_cache_resolve(&l->programs, &name, &f->args, &f->image);
	if (r != 0) {
		free(f);
		return r;
	}
	f->path = mem_strdup(ask->path);
	f->op.class = OP_EXEC;
	image_fill_op(&f->image, &f->args, &f->argv, &f->op);
	*out = f;
	return 0;
}

const struct op *exec_first_op(const struct exec_first *f)
{
	return &f->op;
}

const struct verdict *exec_first_objection(const struct exec_first *f)
{
	return f->image.swappable ? &verify_can_be_swapped : NULL;
}

struct exec_first_way exec_first_way(const struct exec_first *f)
{
	static const struct strv nothing = {0};
	const struct image *im = &f->image;

	if (im->fixed)
		return (struct exec_first_way){-1, f->path, &nothing};
	return (struct exec_first_way){im->program_immutable ? -1 : im->fd,
				       im->head.n > 0 ? im->head.v[0] : im->called, &im->head};
}

void exec_first_free(struct exec_first *f)
{
	if (f == NULL)
		return;
	image_done(&f->image);
	free(f->path);
	free(f->argv);
	free(f);
}
