// SPDX-License-Identifier: Apache-2.0
/* Nodes lie in chunks that never move. Names are blocks of their own. Two hashes lead to them: by
 * (parent, name) to a name, by (device, inode) to a node. */
#include "fs/node.h"
#include "base/fnv.h"
#include "base/mem.h"
#include <errno.h>
#include <limits.h>
#include <search.h>
#include <string.h>
#include <sys/random.h>

#define CHUNK 1024	  /* nodes */
#define FIRST_BUCKETS 256 /* a power of two */

struct node_table {
	struct node **chunk;
	uint32_t slots; /* in use or free; slot 0 is not used */
	uint32_t trees; /* in the slots behind that of the root */
	uint32_t free;	/* slot; 0: none */
	uint32_t nodes, hashed, names;
	uint32_t *by_key; /* slots */
	struct node_name **by_name;
	uint32_t key_buckets, name_buckets;
	uint64_t seed; /* an agent chooses names: it must not be able to make one long chain */
	dev_t *device;
	uint16_t devices;
	void *listed; /* a tree of struct listed_number */
	uint64_t nlisted;
	node_gone_fn *on_gone;
	void *arg;
};

static struct node *at(const struct node_table *t, uint32_t slot)
{
	return &t->chunk[slot / CHUNK][slot % CHUNK];
}

static uint64_t mix(uint64_t h)
{
	h = (h ^ (h >> 32)) * UINT64_C(0xd6e8feb86659fd93);
	h = (h ^ (h >> 32)) * UINT64_C(0xd6e8feb86659fd93);
	return h ^ (h >> 32);
}

static uint32_t *key_bucket(const struct node_table *t, uint64_t ino, uint16_t device)
{
	const uint64_t h = mix(t->seed ^ ino ^ (uint64_t)device << 48);

	return &t->by_key[h & (t->key_buckets - 1)];
}

static struct node_name **name_bucket(const struct node_table *t, uint32_t parent, const char *name)
{
	const uint64_t h = fnv64(t->seed ^ mix(t->seed + parent), name, strlen(name));

	return &t->by_name[mix(h) & (t->name_buckets - 1)];
}

/* ---- hashes ---- */

static void hash_node(struct node_table *t, struct node *n)
{
	uint32_t *bucket;

	if (t->hashed >= t->key_buckets) {
		t->key_buckets *= 2;
		free(t->by_key);
		t->by_key = mem_alloc(t->key_buckets * sizeof(*t->by_key));
		for (uint32_t s = 1; s <= t->slots; s++) {
			struct node *other = at(t, s);

			if (!other->hashed)
				continue;
			bucket = key_bucket(t, other->ino, other->device);
			other->next = *bucket;
			*bucket = s;
		}
	}
	bucket = key_bucket(t, n->ino, n->device);
	n->next = *bucket;
	*bucket = n->slot;
	n->hashed = true;
	t->hashed++;
}

static void unhash_node(struct node_table *t, struct node *n)
{
	uint32_t *at_slot = key_bucket(t, n->ino, n->device);

	if (!n->hashed)
		return;
	while (*at_slot != n->slot)
		at_slot = &at(t, *at_slot)->next;
	*at_slot = n->next;
	n->hashed = false;
	t->hashed--;
}

static void grow_names(struct node_table *t)
{
	struct node_name **old = t->by_name;
	const uint32_t buckets = t->name_buckets;

	if (t->names < buckets)
		return;
	t->name_buckets *= 2;
	t->by_name = mem_alloc(t->name_buckets * sizeof(struct node_name *));
	for (uint32_t i = 0; i < buckets; i++)
		for (struct node_name *nm = old[i], *next; nm != NULL; nm = next) {
			struct node_name **bucket = name_bucket(t, nm->parent, nm->text);

			next = nm->next_hash;
			nm->next_hash = *bucket;
			*bucket = nm;
		}
	free(old);
}

static uint16_t device_index(struct node_table *t, dev_t dev)
{
	uint16_t i = 0;

	while (i < t->devices && t->device[i] != dev)
		i++;
	if (i == t->devices) {
		ensure(t->devices < UINT16_MAX); /* each is a mount below the root */
		t->device = mem_grow(t->device, t->devices, sizeof(dev_t));
		t->device[t->devices++] = dev;
	}
	return i;
}

/* ---- nodes ---- */

static struct node *new_node(struct node_table *t, const struct node_key *key)
{
	uint32_t slot = t->free;
	struct node *n;

	if (slot != 0) {
		n = at(t, slot);
		t->free = n->next;
		*n = (struct node){.slot = slot, .generation = n->generation};
	} else {
		ensure(t->slots < UINT32_MAX - 1);
		slot = ++t->slots;
		if (slot % CHUNK == 0 || slot == 1) {
			t->chunk = mem_resize(t->chunk, slot / CHUNK + 1, sizeof(struct node *));
			t->chunk[slot / CHUNK] = mem_alloc(CHUNK * sizeof(struct node));
		}
		n = at(t, slot);
		n->slot = slot;
	}
	n->used = true;
	n->ino = key->ino;
	n->birth = key->birth;
	n->device = device_index(t, key->dev);
	n->set = key->set;
	n->way = key->way;
	n->directory = key->directory;
	t->nodes++;
	hash_node(t, n);
	return n;
}

/* Takes the name out of its node's list and out of the hash. Does not look at what is left. */
static void detach_name(struct node_table *t, struct node_name *nm)
{
	struct node_name **p = name_bucket(t, nm->parent, nm->text);

	while (*p != nm)
		p = &(*p)->next_hash;
	*p = nm->next_hash;
	p = &at(t, nm->node)->names;
	while (*p != nm)
		p = &(*p)->next;
	*p = nm->next;
	t->names--;
	at(t, nm->parent)->children--;
}

static void free_node(struct node_table *t, struct node *n)
{
	unhash_node(t, n);
	if (n->open_dir != 0)
		t->on_gone(t->arg, n->open_dir);
	n->used = false;
	n->generation++;
	n->next = t->free;
	t->free = n->slot;
	t->nodes--;
}

bool node_is_root(const struct node_table *t, const struct node *n)
{
	return n->slot < NODE_TREE + t->trees;
}

/* Without a name and without a handle nothing keeps the object: its number may be used again. With
 * an open handle the number stays its own, and another name of it that is found later must lead to
 * this node. A directory has one name at most, so that the call below goes one level deep. */
void node_settle(struct node_table *t, struct node *n)
{
	while (n != NULL && n->used && !node_is_root(t, n) && n->handles == NULL) {
		struct node_name *nm = n->names;
		struct node *parent = nm != NULL ? at(t, nm->parent) : NULL;

		if (nm == NULL)
			unhash_node(t, n);
		if (n->lookups > 0 || n->children > 0)
			return;
		if (nm != NULL)
			detach_name(t, nm);
		free(nm);
		if (n->names != NULL) {
			node_settle(t, parent);
			continue;
		}
		free_node(t, n);
		n = parent;
	}
}

struct node *node_get(const struct node_table *t, uint64_t id)
{
	const uint32_t slot = (uint32_t)id;
	struct node *n;

	if (slot == 0 || slot > t->slots)
		return NULL;
	n = at(t, slot);
	return n->used && n->generation == id >> 32 ? n : NULL;
}

uint64_t node_id(const struct node *n)
{
	return (uint64_t)n->generation << 32 | n->slot;
}

void node_key(const struct node_table *t, const struct node *n, struct node_key *out)
{
	*out = (struct node_key){.ino = n->ino,
				 .dev = t->device[n->device],
				 .birth = n->birth,
				 .set = n->set,
				 .way = n->way,
				 .directory = n->directory};
}

struct node *node_parent(const struct node_table *t, const struct node_name *name)
{
	return name != NULL ? at(t, name->parent) : NULL;
}

#define PATH_CUT "/..."

int node_path(const struct node_table *t, const struct node *n, const char *name, char *out,
	      size_t size)
{
	const size_t cut = sizeof(PATH_CUT) - 1;
	size_t begin = size - 1;
	int r = 0;

	out[begin] = '\0';
	while (r == 0 && (name != NULL || n->slot != NODE_ROOT)) {
		const struct node *up =
			name == NULL && n->directory && n->set & NODE_ALIAS ? at(t, NODE_TREE) : n;
		const struct node_name *nm = up->names;
		const char *text = name != NULL ? name : nm != NULL ? nm->text : NULL;
		const size_t len = text != NULL ? strlen(text) : 0;

		if (text == NULL || len + 1 > begin) {
			/* over what is there already, if there is no room */
			begin = begin > cut ? begin - cut : 0;
			memcpy(out + begin, PATH_CUT, cut);
			r = text == NULL ? -ENOENT : -ENAMETOOLONG;
		} else {
			begin -= len + 1;
			out[begin] = '/';
			memcpy(out + begin + 1, text, len);
			n = name != NULL ? n : at(t, nm->parent);
			name = NULL;
		}
	}
	memmove(out, out + begin, size - begin);
	return r;
}

/* ---- numbers of inodes ---- */

/* The upper 16 bits of a number that is shown say which device it is of: those of the first devices
 * are their index, LISTED is for numbers from the list, and the rest is left to the root's device,
 * because some file systems use all 64 bits. */
#define INO_BITS 48
#define SHOWN_DEVICES 4096U
#define LISTED 0xffffU

struct listed_number {
	uint64_t ino, shown;
	uint16_t device;
};

static int compare_listed(const void *one, const void *two)
{
	const struct listed_number *a = one, *b = two;

	if (a->device != b->device)
		return a->device < b->device ? -1 : 1;
	return a->ino < b->ino ? -1 : a->ino > b->ino;
}

static uint64_t listed_number(struct node_table *t, uint16_t device, uint64_t ino)
{
	struct listed_number *new = mem_new(struct listed_number), *found;

	new->ino = ino;
	new->device = device;
	found = *(struct listed_number **)tsearch(new, &t->listed, compare_listed);
	if (found != new)
		free(new);
	else
		new->shown = (uint64_t)LISTED << INO_BITS | t->nlisted++;
	return found->shown;
}

uint64_t node_number(struct node_table *t, dev_t dev, uint64_t ino)
{
	const uint16_t device = device_index(t, dev);
	const uint64_t high = ino >> INO_BITS;

	if (device < SHOWN_DEVICES && high == 0)
		return (uint64_t)device << INO_BITS | ino;
	if (device == 0 && high >= SHOWN_DEVICES && high < LISTED)
		return ino;
	return listed_number(t, device, ino);
}

/* ---- names ---- */

static struct node_name *find_name(const struct node_table *t, uint32_t parent, const char *name)
{
	struct node_name *nm = *name_bucket(t, parent, name);

	while (nm != NULL && (nm->parent != parent || strcmp(nm->text, name) != 0))
		nm = nm->next_hash;
	return nm;
}

struct node *node_child(const struct node_table *t, const struct node *parent, const char *name)
{
	const struct node_name *nm = find_name(t, parent->slot, name);

	return nm != NULL ? at(t, nm->node) : NULL;
}

void node_each_name(const struct node_table *t, node_name_fn *fn, void *arg)
{
	for (uint32_t i = 0; i < t->name_buckets; i++)
		for (const struct node_name *nm = t->by_name[i]; nm != NULL; nm = nm->next_hash)
			fn(arg, at(t, nm->parent), nm->text);
}

static void remove_name(struct node_table *t, struct node_name *nm)
{
	struct node *n = at(t, nm->node), *parent = at(t, nm->parent);

	detach_name(t, nm);
	free(nm);
	node_settle(t, n);
	node_settle(t, parent);
}

void node_remove_name(struct node_table *t, struct node *parent, const char *name)
{
	struct node_name *nm = find_name(t, parent->slot, name);

	if (nm != NULL)
		remove_name(t, nm);
}

/* The person may have moved directories so that the table would have a ring: a name on the way up
 * from the parent to the node is then old, and goes. Its directory exists, so it stays hashed. */
static void break_ring(struct node_table *t, const struct node *n, struct node *parent)
{
	for (struct node *up = parent; up->names != NULL; up = at(t, up->names->parent)) {
		struct node_name *nm = up->names;

		if (nm->parent != n->slot)
			continue;
		detach_name(t, nm);
		free(nm);
		return;
	}
}

/* Nodes that lose their last name by this are settled; n, parent and the old parents are held by
 * the caller's count. */
static void set_name(struct node_table *t, struct node *n, struct node *parent, const char *name)
{
	struct node_name *nm = find_name(t, parent->slot, name);
	size_t len = strlen(name);

	if (n == parent || (nm != NULL && nm->node == n->slot))
		return;
	if (nm != NULL)
		remove_name(t, nm);
	if (n->directory) {
		if (n->names != NULL)
			remove_name(t, n->names);
		if (n->children > 0)
			break_ring(t, n, parent);
	}
	ensure(len <= NAME_MAX || node_is_root(t, n));
	grow_names(t);
	nm = mem_alloc(sizeof(*nm) + len + 1);
	nm->parent = parent->slot;
	nm->node = n->slot;
	memcpy(nm->text, name, len + 1);
	nm->next = n->names;
	n->names = nm;
	nm->next_hash = *name_bucket(t, parent->slot, name);
	*name_bucket(t, parent->slot, name) = nm;
	t->names++;
	parent->children++;
	if (!n->hashed)
		hash_node(t, n);
}

static struct node *find_key(struct node_table *t, const struct node_key *key)
{
	const uint16_t device = device_index(t, key->dev);
	uint32_t s = *key_bucket(t, key->ino, device);
	struct node *n;

	for (; s != 0; s = n->next) {
		n = at(t, s);
		if (n->ino == key->ino && n->device == device && n->set == key->set &&
		    n->way == key->way && n->birth == key->birth && n->directory == key->directory)
			return n;
	}
	return NULL;
}

void node_keep(struct node_table *t, struct node *n)
{
	struct node_key key;

	node_key(t, n, &key);
	if (!n->hashed && find_key(t, &key) == NULL)
		hash_node(t, n);
}

bool node_has_twin(const struct node_table *t, const struct node *n)
{
	const struct node *other;

	for (uint32_t s = *key_bucket(t, n->ino, n->device); s != 0; s = other->next) {
		other = at(t, s);
		if (other != n && other->ino == n->ino && other->device == n->device &&
		    other->birth == n->birth)
			return true;
	}
	return false;
}

struct node *node_look_up(struct node_table *t, struct node *parent, const char *name,
			  const struct node_key *key)
{
	struct node *n = find_key(t, key);

	if (n == NULL && name != NULL) {
		/* the object that has this name and no other one, whatever its set and way are */
		n = node_child(t, parent, name);
		if (n != NULL && (!n->hashed || n->names->next != NULL || n->ino != key->ino ||
				  n->device != device_index(t, key->dev) ||
				  n->birth != key->birth || n->directory != key->directory))
			n = NULL;
	}
	if (n == NULL)
		n = new_node(t, key);
	n->set = key->set;
	n->way = key->way;
	n->lookups++;
	if (name != NULL && !node_is_root(t, n)) {
		parent->children++; /* holds it */
		set_name(t, n, parent, name);
		parent->children--;
	}
	return n;
}

void node_forget(struct node_table *t, struct node *n, uint64_t count)
{
	n->lookups -= count < n->lookups ? count : n->lookups;
	node_settle(t, n);
}

void node_rename(struct node_table *t, struct node *from, const char *name, struct node *to,
		 const char *new_name, bool exchange)
{
	struct node *n = node_child(t, from, name), *other = node_child(t, to, new_name);

	if (n == other)
		return; /* also: both are unknown. rename() of two links of one object does nothing
			 */
	/* hold everything */
	from->children++;
	to->children++;
	if (n != NULL)
		n->lookups++;
	if (other != NULL)
		other->lookups++;
	node_remove_name(t, from, name);
	node_remove_name(t, to, new_name);
	if (n != NULL)
		set_name(t, n, to, new_name);
	if (other != NULL && exchange)
		set_name(t, other, from, name);
	from->children--;
	to->children--;
	if (n != NULL)
		node_forget(t, n, 1);
	if (other != NULL)
		node_forget(t, other, 1);
	node_settle(t, from);
	if (to != from)
		node_settle(t, to);
}

/* ---- the table ---- */

struct node_table *node_table_new(const struct node_key *root)
{
	struct node_table *t = mem_new(struct node_table);

	t->key_buckets = t->name_buckets = FIRST_BUCKETS;
	t->by_key = mem_alloc(FIRST_BUCKETS * sizeof(*t->by_key));
	t->by_name = mem_alloc(FIRST_BUCKETS * sizeof(struct node_name *));
	if (getrandom(&t->seed, sizeof(t->seed), GRND_NONBLOCK) < 0)
		t->seed = (uintptr_t)t;
	new_node(t, root)->lookups = 1;
	return t;
}

void node_add_tree(struct node_table *t, const struct node_key *key, const char *name)
{
	struct node *n = new_node(t, key);

	t->trees++;
	ensure(n->slot == NODE_TREE + t->trees - 1);
	n->lookups = 1;
	set_name(t, n, at(t, NODE_ROOT), name);
}

void node_table_free(struct node_table *t)
{
	if (t == NULL)
		return;
	for (uint32_t i = 0; i < t->name_buckets; i++)
		for (struct node_name *nm = t->by_name[i], *next; nm != NULL; nm = next) {
			next = nm->next_hash;
			free(nm);
		}
	for (uint32_t i = 0; i <= t->slots / CHUNK; i++)
		free(t->chunk[i]);
	free(t->chunk);
	free(t->by_key);
	free(t->by_name);
	free(t->device);
	tdestroy(t->listed, free);
	free(t);
}

void node_on_gone(struct node_table *t, node_gone_fn *fn, void *arg)
{
	t->on_gone = fn;
	t->arg = arg;
}

size_t node_table_count(const struct node_table *t)
{
	return t->nodes;
}
