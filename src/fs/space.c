// SPDX-License-Identifier: Apache-2.0
/* The charges lie in a hash table with open addresses: 16 bytes for each object that has one. */
#include "fs/space.h"
#include "base/mem.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/random.h>

#define FIRST_ROOM 256 /* a power of two */
#define LOCKS 64

struct charge {
	uint64_t object; /* a hash of its key; 0: free */
	uint64_t bytes;
};

struct space {
	atomic_uint_fast64_t limit;
	pthread_mutex_t lock; /* of what follows */
	uint64_t added, reserved, seed;
	struct charge *table;
	size_t room, used;
	pthread_mutex_t object[LOCKS];
};

struct space *space_new(void)
{
	struct space *s = mem_new(struct space);

	pthread_mutex_init(&s->lock, NULL);
	for (size_t i = 0; i < LOCKS; i++)
		pthread_mutex_init(&s->object[i], NULL);
	s->room = FIRST_ROOM;
	s->table = mem_alloc(s->room * sizeof(*s->table));
	if (getrandom(&s->seed, sizeof(s->seed), GRND_NONBLOCK) < 0)
		s->seed = (uintptr_t)s;
	return s;
}

void space_free(struct space *s)
{
	if (s == NULL)
		return;
	for (size_t i = 0; i < LOCKS; i++)
		pthread_mutex_destroy(&s->object[i]);
	pthread_mutex_destroy(&s->lock);
	free(s->table);
	free(s);
}

/* ---- the table, with the lock ---- */

static uint64_t mix(uint64_t h)
{
	h = (h ^ (h >> 32)) * UINT64_C(0xd6e8feb86659fd93);
	return h ^ (h >> 32);
}

static uint64_t hash_of(const struct space *s, const struct node_key *k)
{
	const uint64_t h = mix(mix(mix(s->seed ^ k->ino) + k->dev) + k->birth);

	return h + (h == 0);
}

/* Where it is, or the free place for it. */
static size_t place_of(const struct space *s, uint64_t object)
{
	size_t i = object & (s->room - 1);

	while (s->table[i].object != 0 && s->table[i].object != object)
		i = (i + 1) & (s->room - 1);
	return i;
}

static void grow(struct space *s)
{
	struct charge *old = s->table;
	const size_t room = s->room;

	if (s->used * 4 < room * 3)
		return;
	s->room *= 2;
	s->table = mem_alloc(s->room * sizeof(*s->table));
	for (size_t i = 0; i < room; i++)
		if (old[i].object != 0)
			s->table[place_of(s, old[i].object)] = old[i];
	free(old);
}

/* Those behind it that were put there because it was in their way move up. */
static void drop(struct space *s, size_t i)
{
	s->table[i] = (struct charge){0};
	s->used--;
	for (i = (i + 1) & (s->room - 1); s->table[i].object != 0; i = (i + 1) & (s->room - 1)) {
		const struct charge moved = s->table[i];

		s->table[i] = (struct charge){0};
		s->table[place_of(s, moved.object)] = moved;
	}
}

/* ---- charges ---- */

void space_limit(struct space *s, uint64_t bytes)
{
	atomic_store(&s->limit, bytes);
}

bool space_limited(const struct space *s)
{
	return atomic_load(&s->limit) != 0;
}

uint64_t space_left(struct space *s)
{
	const uint64_t limit = atomic_load(&s->limit);
	uint64_t taken;

	if (limit == 0)
		return UINT64_MAX;
	pthread_mutex_lock(&s->lock);
	taken = s->added + s->reserved;
	pthread_mutex_unlock(&s->lock);
	return taken < limit ? limit - taken : 0;
}

bool space_reserve(struct space *s, uint64_t bytes)
{
	const uint64_t limit = atomic_load(&s->limit);
	bool fits;

	pthread_mutex_lock(&s->lock);
	/* what needs nothing is possible above the limit, too */
	fits = bytes == 0 || limit == 0 ||
	       (bytes <= limit && s->added + s->reserved <= limit - bytes);
	if (fits)
		s->reserved += bytes;
	pthread_mutex_unlock(&s->lock);
	return fits;
}

void space_unreserve(struct space *s, uint64_t bytes)
{
	pthread_mutex_lock(&s->lock);
	s->reserved -= bytes;
	pthread_mutex_unlock(&s->lock);
}

void space_charge(struct space *s, const struct node_key *object, int64_t grown, uint64_t most)
{
	const uint64_t hash = hash_of(s, object);
	uint64_t had, bytes;
	size_t i;

	pthread_mutex_lock(&s->lock);
	i = place_of(s, hash);
	had = s->table[i].bytes;
	if (grown >= 0)
		bytes = had + (uint64_t)grown;
	else
		bytes = had > (uint64_t)-grown ? had - (uint64_t)-grown : 0;
	if (bytes > most)
		bytes = most;
	s->added += bytes - had;
	if (bytes > 0) {
		s->used += had == 0;
		s->table[i] = (struct charge){hash, bytes};
		grow(s);
	} else if (had > 0) {
		drop(s, i);
	}
	pthread_mutex_unlock(&s->lock);
}

void space_forget(struct space *s, const struct node_key *object)
{
	size_t i;

	pthread_mutex_lock(&s->lock);
	i = place_of(s, hash_of(s, object));
	if (s->table[i].object != 0)
		drop(s, i);
	pthread_mutex_unlock(&s->lock);
}

uint64_t space_added(struct space *s)
{
	uint64_t n;

	pthread_mutex_lock(&s->lock);
	n = s->added;
	pthread_mutex_unlock(&s->lock);
	return n;
}

void space_lock(struct space *s, uint64_t ino)
{
	pthread_mutex_lock(&s->object[ino % LOCKS]);
}

void space_unlock(struct space *s, uint64_t ino)
{
	pthread_mutex_unlock(&s->object[ino % LOCKS]);
}
