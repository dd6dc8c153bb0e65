// SPDX-License-Identifier: Apache-2.0
/* exec/image.h - which program an exec would load: path, links, `#!`, ld.so; private to this
 * folder.
 */
#pragma once
#include "base/fields.h"
#include "exec/args.h"
#include "exec/exec.h"
#include "exec/immutable_paths.h"
#include <sys/types.h>

/* The file as the system call names it. */
struct image_name {
	pid_t tid; /* 0: there is no caller yet */
	const char *path;
	int dirfd; /* AT_FDCWD for execve */
	unsigned flags;
	const char *cwd; /* text; may be "" */
};

struct image {
	int fd; /* the program that the kernel loads; kept open, so that its inode is not reused;
		 * -1: the session cannot change it */
	dev_t dev;
	ino_t ino;
	struct strv chain;	/* resolved paths: the file, its interpreter, …, the program */
	struct strv canonical;	/* the chain as op has it */
	struct strv head;	/* replaces argv[0] in the new image, if `#!` was followed */
	char *called;		/* absolute, links not followed */
	char *loads;		/* resolved program that ld.so is given, or NULL; canonical in op */
	char *called_canonical; /* called as op has it */
	unsigned flags;		/* enum op_exec_flag */
	bool fixed;		/* the kernel will find the same files */
	bool program_immutable; /* the name of the program (head's first, or called) always leads
				   to the same file */
	bool comparable;	/* dev and ino are those that the kernel itself has */
	bool swappable;		/* ld.so runs a file that the session can replace */
	char **argv;  /* as the kernel will give it; the strings are head's and borrowed */
	struct op op; /* what the policy sees; points into the above */
};
void image_done(struct image *im);
/* Looks below the session's root. 0; or the errno that the kernel would give; or EPERM: the file
 * cannot be read; or EXEC_FAR. *out is untouched unless 0. */
int image_resolve(int root, const struct image_name *name, const struct args *args,
		  struct immutable_paths *names, struct image *out);
/* Appends argv as the kernel puts it into the new image; argv0 counts where no `#!` was followed.
 * What was cut is missing: all behind the head, or behind argv0. */
void image_new_argv(const struct image *im, const char *argv0, const struct args *args,
		    struct buf *out);
/* Holds the program by an O_PATH descriptor: a close() of a file that was opened for reading asks
 * the file system's server. */
void image_hold_path(struct image *im);
/* Fills argv and op, which names files of the workspace by their canonical paths. names may be
 * NULL.
 */
void image_fill_op(struct image *im, const struct args *args, const struct workspace_names *names);
