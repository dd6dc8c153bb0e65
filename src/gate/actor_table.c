// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"
#include "base/mem.h"
#include "base/proc.h"
#include "gate/actor_map.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE)
#define COPY_TRIES 64

struct actor_table {
	int fd;
	struct actor_map *map;
	pthread_mutex_t lock; /* of what follows, and of writing to the mapping */
	struct actor_head head;
	struct actor_entry *entry; /* all of them; the first ACTOR_ENTRIES are in the mapping too */
	size_t room;
};

_Static_assert(sizeof(struct actor_entry) % sizeof(uint64_t) == 0, "copied by words");
_Static_assert(sizeof(struct actor_head) % sizeof(uint64_t) == 0, "copied by words");

/* Copies word by word, because the other side may access the same words at the same time. */
static void copy_words(void *to, const void *from, size_t size)
{
	const uint64_t *source = from;
	uint64_t *target = to;

	for (size_t i = 0; i < size / sizeof(*target); i++)
		__atomic_store_n(&target[i], __atomic_load_n(&source[i], __ATOMIC_RELAXED),
				 __ATOMIC_RELAXED);
}

/* ---- the mapping ---- */

/* 0: it cannot be read. */
static uint64_t own_pid_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

int actor_map_open(int fd, const struct actor_map **out, struct err *err)
{
	const uint64_t namespace = own_pid_namespace();
	const int seals = fcntl(fd, F_GET_SEALS);
	const struct actor_map *map;
	struct stat st;
	int r;

	if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) < 0 ||
	    st.st_size != sizeof(*map))
		return err_set(err, E_BAD_REQUEST, "actor table",
			       "descriptor %d is not the actor table of a warden of this version",
			       fd);
	map = mmap(NULL, sizeof(*map), PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return err_errno(err, E_RESOURCE_LIMIT, "actor table", "cannot map the table");
	if (map->pid_namespace != namespace || namespace == 0) {
		r = err_set(err, E_BAD_REQUEST, "actor table",
			    "the pids of the table belong to PID namespace %llu, and this process "
			    "is in %llu; start it in the warden's, with /proc",
			    (unsigned long long)map->pid_namespace, (unsigned long long)namespace);
		actor_map_close(map);
		return r;
	}
	*out = map;
	return 0;
}

void actor_map_close(const struct actor_map *map)
{
	munmap((void *)(uintptr_t)map, sizeof(*map));
}

static void make_room(struct actor_entry **entry, size_t *room, size_t count)
{
	if (count < *room)
		return;
	*room = count * 2 + 1;
	*entry = mem_resize(*entry, *room, sizeof(**entry));
}

bool actor_map_copy(const struct actor_map *map, struct actor_view *view)
{
	for (int i = 0; i < COPY_TRIES; i++) {
		const uint64_t before = __atomic_load_n(&map->sequence, __ATOMIC_ACQUIRE);
		struct actor_head head;

		if (before == view->sequence)
			return true;
		copy_words(&head, &map->head, sizeof(head));
		if (head.count > ACTOR_ENTRIES)
			return false;
		if (before % 2 != 0)
			continue;
		view->sequence = UINT64_MAX; /* until it is whole */
		make_room(&view->entry, &view->room, head.count);
		copy_words(view->entry, map->entry, head.count * sizeof(*view->entry));
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (__atomic_load_n(&map->sequence, __ATOMIC_RELAXED) == before) {
			view->head = head;
			view->sequence = before;
			return true;
		}
	}
	return false;
}

void actor_table_copy(struct actor_table *t, struct actor_view *view)
{
	if (__atomic_load_n(&t->map->sequence, __ATOMIC_ACQUIRE) == view->sequence)
		return;
	pthread_mutex_lock(&t->lock);
	view->sequence = t->map->sequence;
	view->head = t->head;
	make_room(&view->entry, &view->room, t->head.count);
	memcpy(view->entry, t->entry, t->head.count * sizeof(*view->entry));
	pthread_mutex_unlock(&t->lock);
}

/* ---- the writer ---- */

/* Writes the head, and an entry if it has a place in the mapping. With the lock. */
static void publish(struct actor_table *t, size_t i)
{
	const uint64_t sequence = t->map->sequence;

	__atomic_store_n(&t->map->sequence, sequence + 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	copy_words(&t->map->head, &t->head, sizeof(t->head));
	if (i < t->head.count && i < ACTOR_ENTRIES)
		copy_words(&t->map->entry[i], &t->entry[i], sizeof(t->entry[i]));
	__atomic_store_n(&t->map->sequence, sequence + 2, __ATOMIC_RELEASE);
}

/* With the lock; the number of entries if there is none. */
static size_t find_spawn(const struct actor_table *t, uint32_t spawn)
{
	size_t i = 0;

	while (i < t->head.count && t->entry[i].spawn != spawn)
		i++;
	return i;
}

void actor_table_expect(struct actor_table *t, uint32_t spawn, const struct actor_leader *leader,
			const char *command_id)
{
	struct actor_entry e = {.since_us = clock_mono_us(&clock_system),
				.start = leader->start,
				.leader = leader->pid,
				.spawn = spawn};

	snprintf(e.command_id, ID_MAX + 1, "%s", command_id);
	pthread_mutex_lock(&t->lock);
	make_room(&t->entry, &t->room, t->head.count + 1);
	t->entry[t->head.count++] = e;
	t->head.changed_us = e.since_us;
	publish(t, t->head.count - 1);
	pthread_mutex_unlock(&t->lock);
}

void actor_table_started(struct actor_table *t, uint32_t spawn, struct actor_leader *leader)
{
	size_t i;

	pthread_mutex_lock(&t->lock);
	i = find_spawn(t, spawn);
	if (i < t->head.count) {
		struct actor_entry *e = &t->entry[i];

		if (leader->start == 0 && e->leader == leader->pid)
			leader->start = e->start;
		if (e->leader != leader->pid || e->start != leader->start) {
			e->leader = leader->pid;
			e->start = leader->start;
			publish(t, i);
		}
	}
	pthread_mutex_unlock(&t->lock);
}

pid_t actor_table_initial(struct actor_table *t, uint32_t spawn, pid_t initial)
{
	struct actor_leader leader = {0};
	struct proc_origin of_initial, of_leader;
	size_t i;

	pthread_mutex_lock(&t->lock);
	i = find_spawn(t, spawn);
	if (i < t->head.count)
		leader = (struct actor_leader){t->entry[i].leader, t->entry[i].start};
	pthread_mutex_unlock(&t->lock);
	if (leader.start != 0 || proc_origin(initial, &of_initial) < 0)
		return leader.pid;
	leader.pid = of_initial.ppid;
	/* While the initial process keeps its parent, the parent's pid is not another's. */
	if (proc_origin(leader.pid, &of_leader) == 0 && proc_ppid(initial) == leader.pid) {
		leader.start = of_leader.start;
		actor_table_started(t, spawn, &leader);
	}
	return leader.pid;
}

void actor_table_over(struct actor_table *t, uint32_t spawn, bool orphans)
{
	size_t i;

	pthread_mutex_lock(&t->lock);
	i = find_spawn(t, spawn);
	if (i < t->head.count) {
		t->entry[i] = t->entry[--t->head.count];
		t->head.changed_us = clock_mono_us(&clock_system);
	}
	t->head.orphans |= orphans;
	publish(t, i);
	pthread_mutex_unlock(&t->lock);
}

static int open_map(struct actor_table *t, struct err *err)
{
	t->fd = memfd_create("agentsh-actors", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (t->fd < 0 || ftruncate(t->fd, sizeof(*t->map)) < 0)
		return err_errno(err, E_RESOURCE_LIMIT, "actor table", "cannot make the table");
	t->map = mmap(NULL, sizeof(*t->map), PROT_READ | PROT_WRITE, MAP_SHARED, t->fd, 0);
	if (t->map == MAP_FAILED)
		return err_errno(err, E_RESOURCE_LIMIT, "actor table", "cannot map the table");
	t->map->pid_namespace = own_pid_namespace();
	if (fcntl(t->fd, F_ADD_SEALS, SEALS) < 0)
		return err_errno(err, E_UNAVAILABLE, "actor table", "cannot seal the table");
	return 0;
}

int actor_table_open(struct actor_table **out, struct err *err)
{
	struct actor_table *t = mem_new(struct actor_table);
	int r;

	t->fd = -1;
	t->map = MAP_FAILED;
	pthread_mutex_init(&t->lock, NULL);
	make_room(&t->entry, &t->room, 0);
	r = open_map(t, err);
	if (r < 0)
		actor_table_close(t);
	else
		*out = t;
	return r;
}

void actor_table_close(struct actor_table *t)
{
	if (t == NULL)
		return;
	if (t->map != MAP_FAILED)
		actor_map_close(t->map);
	mem_cleanup_fd(&t->fd);
	pthread_mutex_destroy(&t->lock);
	free(t->entry);
	free(t);
}

int actor_table_fd(const struct actor_table *t)
{
	return t->fd;
}
