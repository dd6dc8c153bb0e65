// SPDX-License-Identifier: Apache-2.0
/* trash/trash.h - files that a session deleted under a soft_delete rule.
 *
 * STATE/trash/ID is the trash of one session. It belongs to the owner of the workspace's files, so
 * that this user can take files out of it by his own rights. `index` has a record for each
 * deletion and for the end of each entry, one behind the other. `files` has the objects, by the
 * number of their entry. The group of the directory is the API process's: it may read the index,
 * and nothing in `files`.
 *
 * agentsh-fs puts files in while the session lives; the CLI of the owner takes them out, also
 * later. No process of a session can reach the directory. */
#pragma once
#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

#define TRASH_PARENT "trash" /* below the server's state directory */
#define TRASH_INDEX_MAX (UINT32_C(32) << 20)

struct trash_entry {
	uint64_t id;   /* the time of the deletion, in microseconds, or a little more */
	uint32_t gone; /* not 0: the entry ends by this record, and the rest is empty */
	uint32_t mode; /* with the type: a file or a symbolic link */
	uint64_t size, atime_us, mtime_us;
	char *path;	 /* canonical; owned, like the rest */
	char *real_path; /* on the host; its end is that of the canonical path */
	char *command_id;
	char *tree; /* canonical path of the tree that it was in; NULL: "/workspace" */
};
void trash_entry_done(struct trash_entry *e);
/* The path of its object below its tree, mostly the workspace; part of e->path. NULL: the paths are
 * not those of an entry. */
const char *trash_entry_below(const struct trash_entry *e);

/* ---- reading ---- */

struct trash_list {
	struct trash_entry *v; /* owned, in the order of deletion */
	size_t n;
};
/* The entries with a number of at least `since`. An index that is missing is empty. dir: of a
 * session. E_BAD_REQUEST: it is not an index. */
int trash_load(int dir, uint64_t since, struct trash_list *out, struct err *err);
void trash_list_done(struct trash_list *l);
#define cleanup_trash_list __attribute__((cleanup(trash_list_done)))
const struct trash_entry *trash_find(const struct trash_list *l, uint64_t id); /* or NULL */

/* ---- the owner ---- */

/* Makes the parents of a path; asked before each. */
struct trash_target {
	int root; /* the tree of the entry; borrowed */
	/* The same of an entry, where there are several trees; -1: there is no such tree. NULL: it
	 * is root. */
	int (*choose)(void *arg, const struct trash_entry *e);
	/* Whether this path below the tree may be made: 0 or -code. May be NULL. */
	int (*may_make)(void *arg, const char *path, struct err *err);
	void *arg;
};
/* Puts the object back to its path below its tree, and makes the directories above it. No
 * symbolic link is followed, and nothing is replaced: E_CONFLICT. The entry then has ended. */
int trash_put_back(int dir, const struct trash_entry *e, const struct trash_target *to,
		   struct err *err);
/* Removes the object for good; the entry then has ended. */
int trash_purge(int dir, uint64_t id, struct err *err);

/* ---- agentsh-fs ---- */

struct trash;
/* dir: of a session, empty; borrowed until trash_free. Nothing fits before trash_limit. */
int trash_new(int dir, struct trash **out, struct err *err);
void trash_free(struct trash *t); /* NULL is fine */
/* Bytes of all objects, and the age at which an entry ends; 0: never. Any thread. */
void trash_limit(struct trash *t, uint64_t max_bytes, int64_t max_age_us);

struct trash_victim {
	int dir;	  /* of the tree; borrowed */
	const char *name; /* in it */
	bool open;	  /* a program may still write to it */
	const char *path, *real_path, *command_id;
	const char *tree; /* as in struct trash_entry */
};
/* Takes the name out of the tree, and keeps the object: any thread. 0, an errno below 0 (then it is
 * still there), or one of these. *id: of the entry. */
enum { TRASH_FULL = 1, TRASH_NOT_KEPT /* only files and symbolic links are */ };
int trash_take(struct trash *t, const struct trash_victim *v, uint64_t *id);
/* Ends entries that are too old. */
void trash_expire(struct trash *t);
/* As trash_put_back. *path: the canonical one; owned by the caller. */
int trash_restore(struct trash *t, uint64_t id, const struct trash_target *to, char **path,
		  struct err *err);
