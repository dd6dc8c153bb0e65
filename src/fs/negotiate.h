// SPDX-License-Identifier: Apache-2.0
/* fs/negotiate.h - INIT: which features of the protocol the kernel and this server agree on.
 *
 * One table of flags says what is wanted always, what only if the caller asks for it, from which
 * protocol version on, and what happens without it. Pure; any thread. */
#pragma once
#include "base/err.h"
#include "fs/fuse_kernel.h"
#include <stdint.h>

#define FS_MAX_IO 131072 /* bytes of one READ or WRITE, at most */

/* What the caller asks for. Zeroes are the defaults. */
struct fs_wanted {
	uint64_t also;		  /* INIT flags of rows that are wanted only by request */
	uint64_t never;		  /* INIT flags that are not to be used, of any row */
	uint32_t max_readahead;	  /* bytes; 0: what the kernel offers */
	uint16_t max_background;  /* asynchronous requests at a time; 0: 64 */
	uint32_t max_stack_depth; /* with FUSE_PASSTHROUGH: layers below this file system; 0: 1 */
};

/* What was agreed. */
struct fs_features {
	uint32_t minor;
	uint64_t flags; /* FUSE_… INIT flags, those of flags2 in bits 32 to 63 */
	uint32_t max_write, max_readahead;
};

enum fs_want { FS_WANT_ALWAYS, FS_WANT_OPTION, FS_WANT_NEVER };

struct fs_flag_row {
	uint64_t flag;
	const char *name; /* "FUSE_ASYNC_READ" */
	uint32_t minor;	  /* the protocol's first version with it */
	enum fs_want want;
	const char
		*without; /* what is done without it; for a row that is never wanted: the reason */
};

const struct fs_flag_row *fs_flag_rows(size_t *n);

/* Answers INIT. E_ENFORCEMENT: the kernel's version is too old; `out` is then untouched. A kernel
 * with a newer major version gets an answer that makes it send INIT again: features->minor is then
 * 0. */
int fs_negotiate(const struct fuse_init_in *in, const struct fs_wanted *w, struct fs_init_out *out,
		 struct fs_features *features, struct err *err);
