// SPDX-License-Identifier: Apache-2.0
/* fs/recorded_path.h - a record of the kernel's program (bpf/file_layout.h) as an operation and its
 * paths.
 *
 * The program records what a call said: a directory and a text. The kernel resolves links, and this
 * process cannot, outside of its own tree; so an event says that its path is the argument. */
#pragma once
#include "bpf/file_layout.h"
#include "model/event.h"
#include "model/file_view.h"

struct recorded_call {
	const struct file_call *call; /* borrowed */
	char *path, *to;	      /* owned; to: NULL: none */
};
/* Only from a well-formed record. A path begins with this if its beginning is not known. */
#define RECORDED_UNKNOWN "..."
bool recorded_call_read(const void *record, size_t len, struct recorded_call *out);
bool recorded_call_unknown(const struct recorded_call *r); /* a path of it begins so */
void recorded_call_done(struct recorded_call *r);

struct call_kind {
	enum op_file op;
	uint32_t type;	/* enum event_type */
	bool link_self; /* a link as the last name is not followed */
};
struct call_kind recorded_kind(const struct file_call *call);

/* Follows the symbolic links of the workspace, of which tree is the directory: a name in it may
 * lead out of it. With more links than the kernel follows the path is unknown. */
void recorded_call_follow(struct recorded_call *r, const struct file_view *view, int tree);
/* From now on the paths are those by which rules and events know them. */
void recorded_call_name(struct recorded_call *r, const struct file_view *view);
