// SPDX-License-Identifier: Apache-2.0
/* fs/node.h - the node table: the part of the tree that the kernel remembers.
 *
 * A node is one object of the backing tree under one set of decisions, by one way. Its id is a
 * number (slot and generation), never a pointer: an id that is not known any more is found out. A
 * node has any number of names, a directory one at most. The table says what the kernel has seen,
 * not what is true: the person works in the same tree, so a caller checks what a name leads to.
 *
 * A node lives while the kernel remembers it (lookups), while it is a parent of a name, and while
 * it has open handles. Pure; the caller holds the lock of the file system for every call, and a
 * pointer is good as long as the caller holds it. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define NODE_ROOT 1 /* FUSE_ROOT_ID */

/* The set of a directory: the number of its tree, and this if it is also the root of tree 0, seen
 * through another tree. Its files are named by tree 0 then. */
#define NODE_ALIAS (UINT32_C(1) << 31)

struct fs_handle;
struct node_table;

/* Which object of the backing tree. Numbers of inodes are used again; `birth` tells the new object
 * from the old one where the backing file system has birth times. */
struct node_key {
	uint64_t ino;
	dev_t dev;
	uint32_t birth; /* a hash of the birth time; 0: not known */
	uint32_t set;	/* of decisions; of a directory: see NODE_ALIAS */
	uint32_t way;	/* by which its path leads to it, see policy_redirect */
	bool directory;
};

struct node_name {
	struct node_name *next_hash;
	struct node_name *next; /* of the same node */
	uint32_t parent, node;	/* slots */
	char text[];		/* NUL-terminated, without a slash */
};

struct node {
	uint64_t ino;
	uint64_t lookups;	   /* that the kernel has to forget */
	struct node_name *names;   /* newest first */
	struct fs_handle *handles; /* open ones; kept by handle.c */
	uint32_t slot, generation;
	uint32_t next;	   /* slot, in the chain of a hash or in the free list */
	uint32_t children; /* names whose parent this is */
	uint32_t birth, set;
	uint16_t device;   /* an index */
	uint16_t open_dir; /* its entry in struct backing; 0: none; kept by backing.c */
	bool used;
	bool directory;
	bool hashed;   /* false: its object is gone, and its number may belong to another one */
	uint8_t asked; /* a directory: how often it was looked into again; kept by host_changes.c */
	uint32_t mark; /* of the object, for changes by the host; 0: none; kept by host_changes.c */
	uint32_t way;  /* not 0: another path leads to it, too, so that nothing of it is kept */
};

struct node_table *node_table_new(const struct node_key *root);
void node_table_free(struct node_table *t); /* NULL is fine */
/* The root of a tree, with a name below NODE_ROOT that may have slashes. It stays and is not moved.
 * Before other nodes are made: tree i is node NODE_TREE + i. */
void node_add_tree(struct node_table *t, const struct node_key *key, const char *name);
#define NODE_TREE 2
/* NODE_ROOT, or the root of a tree. */
bool node_is_root(const struct node_table *t, const struct node *n);
/* Called with the entry of a node that is freed, if it has one. */
typedef void node_gone_fn(void *arg, uint16_t open_dir);
void node_on_gone(struct node_table *t, node_gone_fn *fn, void *arg);
size_t node_table_count(const struct node_table *t);

struct node *node_get(const struct node_table *t, uint64_t id); /* NULL: not known any more */
uint64_t node_id(const struct node *n);
void node_key(const struct node_table *t, const struct node *n, struct node_key *out);
/* The parent of one of its names, NULL for the root. */
struct node *node_parent(const struct node_table *t, const struct node_name *name);
/* Writes the path of a node by its newest name, or of the name below it, with a slash before each
 * component: "" for the root; what is below an alias is in tree 0. -ENOENT: the node or a directory
 * above it has no name.
 * -ENAMETOOLONG: it does not fit. `out` then has the end of the path behind "/...". */
int node_path(const struct node_table *t, const struct node *n, const char *name, char *out,
	      size_t size);
/* Calls fn for every name. fn changes nothing. */
typedef void node_name_fn(void *arg, const struct node *parent, const char *name);
void node_each_name(const struct node_table *t, node_name_fn *fn, void *arg);
struct node *node_child(const struct node_table *t, const struct node *parent, const char *name);

/* The node of an object, found or made, with one lookup more. (parent, name) leads to it from now
 * on, and to no other; name NULL: it has no name (O_TMPFILE). A node that has this name alone gets
 * the set and the way of the key: it was moved to where they differ. */
struct node *node_look_up(struct node_table *t, struct node *parent, const char *name,
			  const struct node_key *key);
/* Whether the object has another node, with another set or way. */
bool node_has_twin(const struct node_table *t, const struct node *n);
/* The kernel forgets n lookups, at most all; the node may be gone afterwards. */
void node_forget(struct node_table *t, struct node *n, uint64_t count);
/* The name is gone. */
void node_remove_name(struct node_table *t, struct node *parent, const char *name);
/* A name moved, over the other one if that existed; or both changed places. */
void node_rename(struct node_table *t, struct node *from, const char *name, struct node *to,
		 const char *new_name, bool exchange);
/* A handle was opened: its object exists as long, so a name that is found later leads to this node,
 * unless another node has taken its place. */
void node_keep(struct node_table *t, struct node *n);
/* A handle was closed or the last lookup went: frees the node if nothing holds it. */
void node_settle(struct node_table *t, struct node *n);
/* The number that st_ino shows: unique in the table, and the same for every call. That of the
 * root's device (of tree 0) is the backing's own, unless its upper 16 bits are 1 to 4095 or 65535.
 */
uint64_t node_number(struct node_table *t, dev_t dev, uint64_t ino);
