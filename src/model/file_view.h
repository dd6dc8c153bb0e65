// SPDX-License-Identifier: Apache-2.0
/* model/file_view.h - what a session sees of files, and what refuses operations there besides the
 * policy's rules.
 *
 * A place is a path and all below it; a place inside another one counts by itself. What lies in no
 * place is not in the view. init describes the view when it has made it; `policy test` describes
 * the one that a session would have. */
#pragma once
#include "base/fields.h"
#include "model/op.h"

enum file_holder {
	HOLDER_NOTHING,
	HOLDER_VIEW, /* the path is not in the view */
	HOLDER_SERVER,
	HOLDER_MOUNT,
	HOLDER_LANDLOCK,
	HOLDERS
};
const char *file_holder_name(enum file_holder h); /* a word for JSON */
const char *file_holder_text(enum file_holder h); /* "by …" */

#define FILE_OP(op) (1U << OP_FILE_##op)
#define FILE_OPS ((1U << OP_FILES) - 1)
struct file_place {
	const char *path, *canonical; /* of a view: owned; canonical: as rules name it, or NULL */
	bool alone;		      /* nothing below it belongs to it */
	uint32_t open;		      /* FILE_OP(…) that nothing refuses */
	uint32_t landlock;	      /* that Landlock refuses */
	enum file_holder rest;	      /* who refuses the others */
};
struct file_view {
	struct file_place *place; /* owned */
	size_t n;
};
void file_view_done(struct file_view *v);
#define cleanup_file_view __attribute__((cleanup(file_view_done)))
/* Adds the place, with copies of its paths, or replaces the one that is there. */
void file_view_add(struct file_view *v, const struct file_place *p);
/* The place of a plain path; NULL: it is not in the view. */
const struct file_place *file_view_find(const struct file_view *v, const char *path);
enum file_holder file_view_holder(const struct file_view *v, enum op_file op, const char *path);
/* Whether a file server decides anywhere. */
bool file_view_served(const struct file_view *v);
/* As strings of a message. E_BAD_REQUEST. */
void file_view_pack(const struct file_view *v, struct strv *out);
int file_view_unpack(const struct strv *in, struct file_view *out, struct err *err);
