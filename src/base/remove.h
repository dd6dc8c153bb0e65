// SPDX-License-Identifier: Apache-2.0
/* base/remove.h - removes a tree that another program has written: of any depth, with any modes.
 *
 * For a process that may do no more than the writer of the tree. Follows no link. */
#pragma once

/* Removes what name is, with all below it. A tree that still changes may keep something. */
void remove_tree(int parent, const char *name);
/* The owner of a directory may change its mode, even if the mode lets him do nothing else. */
void remove_open_up(int dir, const char *name);
