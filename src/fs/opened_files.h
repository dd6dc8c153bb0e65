// SPDX-License-Identifier: Apache-2.0
/* fs/opened_files.h - the bytes of files that are opened without FUSE: bpf/file_layout.h.
 *
 * The kernel's program counts them in slots; this table remembers which open file has which slot.
 * On the loop. */
#pragma once
#include "bpf/file_layout.h"
#include "gate/actor.h"
#include "model/op.h"

struct opened_files;

/* A file was read or written since the last report. */
struct opened_report {
	const struct actor_query *who; /* opened it */
	const char *path;	       /* by which it was opened */
	enum op_file op;	       /* read or write */
	bool mapped;		       /* also, or only, as memory */
	bool has_bytes;		       /* false: more than these, if any */
	uint64_t bytes;
};
typedef void opened_report_fn(void *arg, const struct opened_report *r);
/* The slots are mapped and borrowed. */
struct opened_files *opened_files_new(const struct file_slot *slots, opened_report_fn *fn,
				      void *arg);
void opened_files_free(struct opened_files *o); /* NULL is fine */
/* An open. Reports the file that had its slot before. path NULL: it is not recorded itself. */
void opened_files_add(struct opened_files *o, const struct file_call *call,
		      const struct actor_query *who, const char *path);
/* Reports all files. */
void opened_files_report(struct opened_files *o);
