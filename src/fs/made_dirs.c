// SPDX-License-Identifier: Apache-2.0
/* A hash table of small sets. In a full set the next entry takes the place of the oldest one. */
#include "fs/made_dirs.h"
#include "base/fnv.h"
#include "base/mem.h"

#define WAYS 8
#define SETS (MADE_DIRS_MAX / WAYS)

struct made_dir {
	uint64_t ino;
	dev_t dev;
	uint32_t birth; /* 0: free */
};
struct made_dirs {
	size_t count;
	struct made_dir dir[SETS][WAYS]; /* of a set: newest first */
};

struct made_dirs *made_dirs_new(void)
{
	return mem_new(struct made_dirs);
}

static struct made_dir *set_of(const struct made_dirs *m, uint64_t ino)
{
	return (struct made_dir *)m->dir[fnv32(FNV32, &ino, sizeof(ino)) % SETS];
}

static struct made_dir *find(const struct made_dirs *m, const struct node_key *k)
{
	struct made_dir *set = set_of(m, k->ino);

	for (unsigned i = 0; i < WAYS; i++)
		if (set[i].birth != 0 && set[i].birth == k->birth && set[i].ino == k->ino &&
		    set[i].dev == k->dev)
			return &set[i];
	return NULL;
}

void made_dirs_add(struct made_dirs *m, const struct node_table *t, const struct node *dir)
{
	struct made_dir *set = set_of(m, dir->ino);
	struct node_key k;

	node_key(t, dir, &k);
	if (k.birth == 0 || find(m, &k) != NULL)
		return;
	m->count += set[WAYS - 1].birth == 0;
	memmove(set + 1, set, (WAYS - 1) * sizeof(*set));
	set[0] = (struct made_dir){k.ino, k.dev, k.birth};
}

void made_dirs_remove(struct made_dirs *m, const struct node_key *dir)
{
	struct made_dir *set = set_of(m, dir->ino), *d = find(m, dir);

	if (d == NULL)
		return;
	memmove(d, d + 1, (size_t)(set + WAYS - 1 - d) * sizeof(*d));
	set[WAYS - 1] = (struct made_dir){0};
	m->count--;
}

bool made_dirs_have(const struct made_dirs *m, const struct node_table *t, const struct node *dir)
{
	struct node_key k;

	if (m == NULL || m->count == 0)
		return false;
	node_key(t, dir, &k);
	return find(m, &k) != NULL;
}
