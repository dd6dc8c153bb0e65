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
			   struct file_rules *rules, uint32_t *way)
{
	const struct policy *policy = gate_policy(w->setup.gate);
	struct file_redirect to;
	bool elsewhere;

	*way = 0;
	policy_decide_file(policy, error == 0 ? path : w->first, made, rules);
	if (w->unrestricted)
		return 0;
	if (error != 0)
		return SET_TOO_LONG | POLICY_FILE_ALL;
	elsewhere = policy_redirect(policy, path, &to);
	*way = to.way;
	if (listed(&w->setup.blocked, path) || (elsewhere && listed(&w->setup.blocked, to.path)))
		return SET_BLOCKED | POLICY_FILE_ALL;
	return policy_file_set(policy, rules) |
	       (listed(&w->setup.read_only, path) ||
				(elsewhere && listed(&w->setup.read_only, to.path))
			? SET_READ_ONLY | WATCH_CHANGES
			: 0);
}

/* The decision that a thread made last is often the next one: a LOOKUP asks and then enters the
 * name. */
static uint32_t decide(const struct fs_watch *w, const char *path, int error, bool made,
		       struct file_rules *rules, uint32_t *way)
{
	static _Thread_local struct {
		const struct fs_watch *watch;
		struct file_rules rules;
		uint32_t set, way;
		bool made;
		char path[PATH_MAX];
	} last;

	if (error != 0)
		return decide_now(w, path, error, made, rules, way);
	if (last.watch != w || last.made != made || strcmp(last.path, path) != 0) {
		last.set = decide_now(w, path, 0, made, &last.rules, &last.way);
		last.watch = w;
		last.made = made;
		strcpy(last.path, path);
	}
	*rules = last.rules;
	*way = last.way;
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
	memcpy(out, shown, strlen(shown));
	return node_path(fs->nodes, n, name, out + strlen(shown), PATH_MAX - strlen(shown));
}

int watch_locate(struct fs *fs, uint64_t node, const char *name, struct watch_place *p)
{
	const struct node *n, *child, *dir;
	uint32_t way;

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
		decide(fs->watch, p->path, p->error, p->made, &p->rules, &way);
	else
		p->set = decide(fs->watch, p->path, p->error, p->made, &p->rules, &way);
	return 0;
}

bool watch_locate_target(const struct fs_watch *w, const struct watch_place *p,
			 struct watch_place *out)
{
	struct file_redirect to;
	uint32_t way;

	if (p->error != 0 || !policy_redirect(gate_policy(w->setup.gate), p->path, &to))
		return false;
	*out = *p;
	out->error = strlen(to.path) < PATH_MAX ? 0 : -ENAMETOOLONG;
	/* the directory of that name may be one that the session made */
	out->made |= to.here;
	if (out->error == 0)
		strcpy(out->path, to.path);
	out->set = decide(w, out->path, out->error, out->made, &out->rules, &way);
	return true;
}

void watch_set(const struct fs *fs, const struct node *dir, const char *name, struct node_key *out)
{
	struct file_rules rules;
	char path[PATH_MAX];
	int error;

	out->set = out->way = 0;
	if (fs->watch->unrestricted)
		return;
	error = name_node(fs, dir, name != NULL ? name : WATCH_TMPFILE_NAME, path);
	out->set = decide(fs->watch, path, error, made_dirs_have(fs->watch->made, fs->nodes, dir),
			  &rules, &out->way);
}

/* ---- names that lead elsewhere ---- */

bool watch_redirects(const struct fs *fs)
{
	return fs->watch != NULL && fs->watch->redirects;
}

int watch_target(const struct fs *fs, const char *path, struct watch_target *out)
{
	const struct fs_tree *tree;
	struct file_redirect to;
	const char *rest;

	if (!policy_redirect(gate_policy(fs->watch->setup.gate), path, &to)) {
		if (to.way == 0)
			return 0;
		strcpy(to.path, path);
	}
	tree = fs_tree_of(fs, to.path, &rest);
	if (tree == NULL || rest[0] != '/')
		return -EACCES;
	strcpy(out->path, rest + 1);
	out->root = tree->root;
	out->here = to.here;
	return 1;
}

int watch_redirect(const struct fs *fs, const struct node *dir, const char *name,
		   struct watch_target *out)
{
	char path[PATH_MAX];
	int error;

	if (!watch_redirects(fs))
		return 0;
	error = name_node(fs, dir, name, path);
	/* the caller sees for itself that an object has no name */
	return error == 0 ? watch_target(fs, path, out) : error == -ENOENT ? 0 : error;
}

bool watch_doubled(const struct fs *fs, const struct node *dir, const char *name)
{
	struct node_key key;

	if (!watch_redirects(fs))
		return false;
	watch_set(fs, dir, name, &key);
	return key.way != 0;
}

enum watch_shown watch_shown(struct fs *fs, const struct fs_handle *dir, uint64_t node,
			     const char *name)
{
	const bool own = dir->file == NULL || dir->file->kind == FS_ACTOR_OWN;
	struct node_key key = {.set = POLICY_FILE_HIDDEN};
	struct watch_target to = {.here = false};
	const struct node *n;

	if (fs->watch == NULL || fs->watch->unrestricted || (own && !fs->watch->redirects))
		return WATCH_ATTRIBUTES;
	pthread_mutex_lock(&fs->lock);
	n = node_get(fs->nodes, node);
	if (n != NULL) {
		watch_set(fs, n, name, &key);
		watch_redirect(fs, n, name, &to);
	}
	pthread_mutex_unlock(&fs->lock);
	return key.set & POLICY_FILE_HIDDEN && !own ? WATCH_NOTHING
	       : to.here			    ? WATCH_REDIRECTED
	       : key.set & WATCH_OP(stat) && !own   ? WATCH_NAME
						    : WATCH_ATTRIBUTES;
}

bool watch_allows(const struct fs *fs, const char *path, unsigned ops)
{
	struct file_rules rules;
	uint32_t way;

	return fs->watch == NULL ||
	       (decide(fs->watch, path, 0, false, &rules, &way) & (ops | POLICY_FILE_HIDDEN)) == 0;
}

struct gate *watch_gate(const struct fs *fs)
{
	return fs->watch->setup.gate;
}

const char *watch_real_path(const struct fs *fs, const char *path, char out[PATH_MAX])
{
	const struct fs_watch *w = fs->watch;
	const struct fs_tree *t;
	struct file_redirect to;
	const char *rest;

	if (path != NULL && w->redirects && policy_redirect(gate_policy(w->setup.gate), path, &to))
		path = to.path;
	t = path != NULL ? fs_tree_of(fs, path, &rest) : NULL;
	return t != NULL && t->real != NULL &&
			       snprintf(out, PATH_MAX, "%s%s", t->real, rest) < PATH_MAX
		       ? out
		       : NULL;
}
