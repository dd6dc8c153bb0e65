// SPDX-License-Identifier: Apache-2.0
/* fs/made_dirs.h - the directories that the session itself made.
 *
 * A rule with `existing_only` does not match a name in one of them. A directory is known by device,
 * inode and birth time, so that another one with the same inode number is another one. The list is
 * bounded: it forgets the older ones, and then the rule matches again. Pure; the caller holds the
 * lock of the file system. */
#pragma once
#include "fs/node.h"

#define MADE_DIRS_MAX 4096

struct made_dirs;

struct made_dirs *made_dirs_new(void); /* free() ends it */
/* A directory on a file system without birth times is not kept. */
void made_dirs_add(struct made_dirs *m, const struct node_table *t, const struct node *dir);
void made_dirs_remove(struct made_dirs *m, const struct node_key *dir);
/* m may be NULL. */
bool made_dirs_have(const struct made_dirs *m, const struct node_table *t, const struct node *dir);
