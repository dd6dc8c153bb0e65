// SPDX-License-Identifier: Apache-2.0
/* The names of nodes, and what may be done by them. */
#include "base/path.h"
#include "fs/watch_state.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool listed(const struct strv *list, const char *path)
{
	for (size_t i = 0; i < list->n; i++)
		if (path_within(path, list->v[i]))
			return true;
	return false;
}

/* What may be done by the path. A path that is too long matches no rule for certain: everything is
 * denied by it, unless nothing is ever denied. */
static uint32_t decide_now(const struct fs_watch *w, const char *path, int error, bool made,
			   struct file_rules *rules)
{
	const struct policy *policy = gate_policy(w->setup.gate);

	policy_decide_file(policy, error == 0 ? path : w->first, made, rules);
	if (w->unrestricted)
		return 0;
	if (error != 0)
		return SET_TOO_LONG | POLICY_FILE_ALL;
	if (listed(&w->setup.blocked, path))
		return SET_BLOCKED | POLICY_FILE_ALL;
	return policy_file_set(policy, rules) |
	       (listed(&w->setup.read_only, path) ? SET_READ_ONLY | WATCH_CHANGES : 0);
}

/* The decision that a thread made last is often the next one: a LOOKUP asks and then enters the
 * name. */
static uint32_t decide(const struct fs_watch *w, const char *path, int error, bool made,
		       struct file_rules *rules)
{
	static _Thread_local struct {
		const struct fs_watch *watch;
		struct file_rules rules;
		uint32_t set;
		bool made;
		char path[PATH_MAX];
	} last;

	if (error != 0)
		return decide_now(w, path, error, made, rules);
	if (last.watch != w || last.made != made || strcmp(last.path, path) != 0) {
		last.set = decide_now(w, path, 0, made, &last.rules);
		last.watch = w;
		last.made = made;
		strcpy(last.path, path);
	}
	*rules = last.rules;
	return last.set;
}

/* With the lock: an object without a name is decided by the path by which it was opened, else by
 * the set of its last name. */
static void locate_nameless(const struct fs_watch *w, const struct node *n, const char *name,
			    struct watch_place *p)
{
	const struct fs_handle *h = name == NULL ? n->handles : NULL;

	while (h != NULL && (h->file == NULL || h->file->path[0] == '\0'))
		h = h->next;
	if (h != NULL) {
		strcpy(p->path, h->file->path);
		p->made = h->file->made;
		p->error = 0;
	} else if (w->unrestricted || (name == NULL && !n->directory)) {
		p->set = n->directory ? 0 : n->set;
	} else {
		p->error = -ESTALE;
	}
}

/* With the lock: the canonical path of a node, or of the name in it. A path that is cut or not
 * known begins with that of the tree. */
static int name_node(const struct fs *fs, const struct node *n, const char *name,
		     char out[PATH_MAX])
{
	const int r = node_path(fs->nodes, n, name, out, PATH_MAX);
	const struct node *dir = n->directory ? n : node_parent(fs->nodes, n->names);
	const size_t tree = dir != NULL ? dir->set & ~NODE_ALIAS : 0;
	const char *shown;

	if (r == 0 || tree >= fs->setup.trees)
		return r;
	shown = fs->tree[tree].shown;
	strcpy(out, shown);
	return node_path(fs->nodes, n, name, out + strlen(shown), PATH_MAX - strlen(shown));
}

int watch_locate(struct fs *fs, uint64_t node, const char *name, struct watch_place *p)
{
	const struct node *n, *child, *dir;

	pthread_mutex_lock(&fs->lock);
	n = node_get(fs->nodes, node);
	p->error = n == NULL ? -ESTALE : name_node(fs, n, name, p->path);
	child = n != NULL && name != NULL ? node_child(fs->nodes, n, name) : n;
	p->known = child != NULL;
	p->directory = child != NULL && child->directory;
	if (p->directory)
		node_key(fs->nodes, child, &p->key);
	dir = name != NULL || n == NULL || n->names == NULL ? n : node_parent(fs->nodes, n->names);
	p->made = dir != NULL && made_dirs_have(fs->watch->made, fs->nodes, dir);
	if (p->error == -ENOENT)
		locate_nameless(fs->watch, n, name, p);
	pthread_mutex_unlock(&fs->lock);
	if (p->error == -ESTALE)
		return -ESTALE;
	if (p->error == -ENOENT)
		decide(fs->watch, p->path, p->error, p->made, &p->rules);
	else
		p->set = decide(fs->watch, p->path, p->error, p->made, &p->rules);
	return 0;
}

uint32_t watch_set(const struct fs *fs, const struct node *dir, const char *name)
{
	struct file_rules rules;
	char path[PATH_MAX];
	int error;

	if (fs->watch->unrestricted)
		return 0;
	error = name_node(fs, dir, name != NULL ? name : WATCH_TMPFILE_NAME, path);
	return decide(fs->watch, path, error, made_dirs_have(fs->watch->made, fs->nodes, dir),
		      &rules);
}

enum watch_shown watch_shown(struct fs *fs, const struct fs_handle *dir, uint64_t node,
			     const char *name)
{
	const struct node *n;
	uint32_t set = POLICY_FILE_HIDDEN;

	if (fs->watch == NULL || fs->watch->unrestricted || dir->file == NULL ||
	    dir->file->kind == FS_ACTOR_OWN)
		return WATCH_ATTRIBUTES;
	pthread_mutex_lock(&fs->lock);
	n = node_get(fs->nodes, node);
	if (n != NULL)
		set = watch_set(fs, n, name);
	pthread_mutex_unlock(&fs->lock);
	return set & POLICY_FILE_HIDDEN ? WATCH_NOTHING
	       : set & WATCH_OP(stat)	? WATCH_NAME
					: WATCH_ATTRIBUTES;
}

bool watch_allows(const struct fs *fs, const char *path, unsigned ops)
{
	struct file_rules rules;

	return fs->watch == NULL ||
	       (decide(fs->watch, path, 0, false, &rules) & (ops | POLICY_FILE_HIDDEN)) == 0;
}

struct gate *watch_gate(const struct fs *fs)
{
	return fs->watch->setup.gate;
}

const char *watch_real_path(const struct fs *fs, const char *path, char out[PATH_MAX])
{
	const char *rest;
	const struct fs_tree *t = path != NULL ? fs_tree_of(fs, path, &rest) : NULL;

	return t != NULL && t->real != NULL &&
			       snprintf(out, PATH_MAX, "%s%s", t->real, rest) < PATH_MAX
		       ? out
		       : NULL;
}
