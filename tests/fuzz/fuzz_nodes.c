// SPDX-License-Identifier: Apache-2.0
/* Sequences of look-ups, forgets, renames, removals and handles on the node table, compared with a
 * model that keeps names in a list and searches it. */
#include "base/mem.h"
#include "fs/node.h"

#define INODES 8
#define DIRS 4 /* the first inodes are directories */
#define LIVE 24
#define STEPS 400

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

struct model_node {
	uint64_t id; /* 0: free */
	uint64_t lookups;
	unsigned ino;
	bool open;
};
struct model_name {
	uint64_t parent, node; /* ids; parent 0: free */
	char text[2];
};
struct model {
	struct node_table *t;
	struct model_node node[LIVE];
	struct model_name name[LIVE * 4];
};

static struct model_node *find(struct model *m, uint64_t id)
{
	for (size_t i = 0; i < LIVE; i++)
		if (m->node[i].id == id)
			return &m->node[i];
	return NULL;
}

static struct model_name *find_name(struct model *m, uint64_t parent, const char *text)
{
	for (size_t i = 0; i < ARRAY_LEN(m->name); i++)
		if (m->name[i].parent == parent && m->name[i].text[0] == text[0])
			return &m->name[i];
	return NULL;
}

static struct model_name *name_of(struct model *m, uint64_t node)
{
	for (size_t i = 0; i < ARRAY_LEN(m->name); i++)
		if (m->name[i].parent != 0 && m->name[i].node == node)
			return &m->name[i];
	return NULL;
}

static bool is_parent(struct model *m, uint64_t id)
{
	for (size_t i = 0; i < ARRAY_LEN(m->name); i++)
		if (m->name[i].parent == id)
			return true;
	return false;
}

/* What nothing holds goes, with its names, until nothing more goes. */
static void settle(struct model *m)
{
	for (size_t i = 0; i < LIVE; i++) {
		struct model_node *n = &m->node[i];
		struct model_name *nm;

		if (n->id <= NODE_ROOT || n->lookups > 0 || n->open || is_parent(m, n->id))
			continue;
		while ((nm = name_of(m, n->id)) != NULL)
			nm->parent = 0;
		n->id = 0;
		i = (size_t)-1;
	}
}

static void set_name(struct model *m, struct model_node *n, uint64_t parent, const char *text)
{
	struct model_name *nm = find_name(m, parent, text), *old;

	if (n->id == parent || n->id == NODE_ROOT || (nm != NULL && nm->node == n->id))
		return;
	if (nm != NULL)
		nm->parent = 0;
	if (n->ino < DIRS) {
		old = name_of(m, n->id);
		if (old != NULL)
			old->parent = 0;
		for (uint64_t up = parent; (old = name_of(m, up)) != NULL; up = old->parent)
			if (old->parent == n->id) {
				old->parent = 0;
				break;
			}
	}
	for (size_t i = 0; i < ARRAY_LEN(m->name); i++)
		if (m->name[i].parent == 0) {
			m->name[i] = (struct model_name){parent, n->id, {text[0], '\0'}};
			return;
		}
	ensure(!"more names than the model has room for");
}

static void compare(struct model *m)
{
	size_t live = 0;

	for (size_t i = 0; i < LIVE; i++) {
		const struct model_node *n = &m->node[i];
		struct node *real = n->id != 0 ? node_get(m->t, n->id) : NULL;

		if (n->id == 0)
			continue;
		live++;
		ensure(real != NULL && real->ino == n->ino && real->lookups == n->lookups);
		for (size_t j = 0; j < i; j++) /* one node of an inode can be found by it */
			ensure(m->node[j].id == 0 || m->node[j].ino != n->ino || !real->hashed ||
			       !node_get(m->t, m->node[j].id)->hashed);
		for (char c = 'a'; c < 'e'; c++) {
			const char text[2] = {c, '\0'};
			struct node *child = node_child(m->t, real, text);
			struct model_name *nm = find_name(m, n->id, text);

			ensure((child == NULL) == (nm == NULL));
			ensure(child == NULL || node_id(child) == nm->node);
		}
	}
	ensure(node_table_count(m->t) == live);
}

static void look_up(struct model *m, uint64_t parent, const char *text, unsigned ino)
{
	const struct node_key key = {.ino = ino, .dev = 1, .directory = ino < DIRS};
	struct node *n = node_look_up(m->t, node_get(m->t, parent), text, &key);
	struct model_node *known = find(m, node_id(n));

	/* an object that is in use has one node */
	for (size_t i = 0; known == NULL && i < LIVE; i++)
		ensure(m->node[i].id == 0 || m->node[i].ino != ino ||
		       !node_get(m->t, m->node[i].id)->hashed);
	if (known == NULL) {
		known = find(m, 0);
		ensure(known != NULL);
		*known = (struct model_node){.id = node_id(n), .ino = ino};
	}
	ensure(known->ino == ino);
	known->lookups++;
	if (text != NULL)
		set_name(m, known, parent, text);
}

static void rename_name(struct model *m, uint64_t from, const char *a, uint64_t to, const char *b,
			bool exchange)
{
	struct model_name *x = find_name(m, from, a), *y = find_name(m, to, b);
	struct model_node *n = x != NULL ? find(m, x->node) : NULL;
	struct model_node *other = y != NULL ? find(m, y->node) : NULL;

	node_rename(m->t, node_get(m->t, from), a, node_get(m->t, to), b, exchange);
	if (n == other)
		return;
	if (x != NULL)
		x->parent = 0;
	if (y != NULL)
		y->parent = 0;
	if (n != NULL)
		set_name(m, n, to, b);
	if (other != NULL && exchange)
		set_name(m, other, from, a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const struct node_key root = {.ino = 0, .dev = 1, .directory = true};
	struct model *m = mem_new(struct model);

	m->t = node_table_new(&root);
	m->node[0] = (struct model_node){.id = NODE_ROOT, .lookups = 1};
	for (size_t i = 0; i + 4 <= len && i < 4 * STEPS; i += 4) {
		const uint8_t *d = data + i;
		struct model_node *p = &m->node[d[1] % LIVE], *q = &m->node[d[2] % LIVE];
		const char a[2] = {(char)('a' + d[3] % 4), '\0'};
		const char b[2] = {(char)('a' + d[3] / 4 % 4), '\0'};
		struct model_name *nm = find_name(m, p->id, a);

		if (p->id == 0)
			continue;
		if (d[0] % 8 < 3 && p->ino < DIRS && find(m, 0) != NULL) {
			look_up(m, p->id, d[0] & 8 ? NULL : a, d[2] % INODES);
		} else if (d[0] % 8 == 3 && p->id != NODE_ROOT) {
			node_forget(m->t, node_get(m->t, p->id), d[2] % 4);
			p->lookups -= p->lookups < d[2] % 4U ? p->lookups : d[2] % 4U;
		} else if (d[0] % 8 == 4 && p->ino < DIRS) {
			node_remove_name(m->t, node_get(m->t, p->id), a);
			if (nm != NULL)
				nm->parent = 0;
		} else if (d[0] % 8 == 5 && p->ino < DIRS && q->id != 0 && q->ino < DIRS) {
			rename_name(m, p->id, a, q->id, b, d[0] & 8);
		} else if (d[0] % 8 == 6 && p->id != NODE_ROOT) {
			struct node *n = node_get(m->t, p->id);

			p->open = !p->open;
			n->handles = p->open ? (void *)n : NULL;
			if (p->open)
				node_keep(m->t, n);
			else
				node_settle(m->t, n);
		}
		settle(m);
		compare(m);
	}
	for (size_t i = 0; i < LIVE; i++)
		if (m->node[i].id != 0)
			node_get(m->t, m->node[i].id)->handles = NULL;
	node_table_free(m->t);
	free(m);
	return 0;
}
