// SPDX-License-Identifier: Apache-2.0
/* trash/trash_index.h - records of a trash. Private to trash/. */
#pragma once
#include "trash/trash.h"
#include <sys/types.h>

#define TRASH_INDEX "index"
#define TRASH_FILES "files"
#define TRASH_NAME 24
void trash_name(char out[TRASH_NAME], uint64_t id); /* of an object in `files` */
/* Adds the entries of an index to out, which is empty, and also has some after an error.
 * E_BAD_REQUEST. */
int trash_parse(const void *bytes, size_t left, uint64_t since, struct trash_list *out,
		struct err *err);
/* Appends a record: all of it or nothing. 0 or -errno. *at: where it begins; may be NULL. */
int trash_append(int dir, const struct trash_entry *e, off_t *at);
/* As trash_load, of the record that begins there. */
int trash_load_at(int dir, off_t at, struct trash_list *out, struct err *err);
