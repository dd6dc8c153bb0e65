// SPDX-License-Identifier: Apache-2.0
/* fs/space.h - which objects of the tree the session is charged for, and their sum. Any thread.
 *
 * An object is charged for the bytes that the session has added to it on the disk. What it frees is
 * given back, never more than the object is charged for: the person's own bytes give no more space.
 * Before an operation runs, the most that it can add is reserved, so that several at once stay
 * within the limit. */
#pragma once
#include "fs/node.h"

struct space;

struct space *space_new(void);
void space_free(struct space *s);		   /* NULL is fine */
void space_limit(struct space *s, uint64_t bytes); /* from now on; 0: nothing is counted */
bool space_limited(const struct space *s);
uint64_t space_left(struct space *s); /* UINT64_MAX: there is no limit */
/* False: there is no room for it. */
bool space_reserve(struct space *s, uint64_t bytes);
void space_unreserve(struct space *s, uint64_t bytes);
/* The object has grown, or shrunk. It is charged for `most` afterwards at most. */
void space_charge(struct space *s, const struct node_key *object, int64_t grown, uint64_t most);
/* Another object may have its number; what it was charged for is never given back. */
void space_forget(struct space *s, const struct node_key *object);
uint64_t space_added(struct space *s); /* all charges */
/* Operations that change the size of one object go one after the other. */
void space_lock(struct space *s, uint64_t ino);
void space_unlock(struct space *s, uint64_t ino);
