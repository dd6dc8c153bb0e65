// SPDX-License-Identifier: Apache-2.0
/* event/redo.h - writes that are not yet in the database, in a mapped, preallocated file beside
 * it: safe from SIGKILL by a copy in memory, without a system call.
 *
 * API process, loop thread. Records are added one by one and count when they are published, so that
 * a kill leaves whole groups. The file belongs to one generation: the database stores the number of
 * the last one that it has taken in, in the same transaction. At a start the
 * file has a generation that follows it, which is carried out, or an older one, which has been. Two
 * files take turns: one is filled while the generation of the other is committed.
 * After a power failure the file is as old or as new as the kernel left it: a record with a wrong
 * checksum is damage. */
#pragma once
#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REDO_SIZE (1024 * 1024) /* bytes for records */

struct redo;
/* Opens or makes the file and claims it: another kind of file is E_CONFLICT, a file that another
 * process uses E_UNAVAILABLE, with path and remedy. */
int redo_open(const char *path, struct redo **out, struct err *err);
void redo_close(struct redo *r);
const char *redo_path(const struct redo *r);
uint64_t redo_generation(const struct redo *r);
/* Calls fn for each published record; its first result that is not 0 ends it and is returned. */
typedef int redo_fn(const void *p, size_t n, void *arg, struct err *err);
int redo_each(const struct redo *r, redo_fn *fn, void *arg, struct err *err);
/* Empties it for the given generation. */
void redo_begin(struct redo *r, uint64_t generation);
bool redo_add(struct redo *r, const void *p, size_t n); /* false: no room, nothing added */
void redo_publish(struct redo *r);
void redo_trim(struct redo *r); /* unmaps the pages until the next use */
