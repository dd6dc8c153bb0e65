// SPDX-License-Identifier: Apache-2.0
/* The table is a mapping that the warden writes. It makes the sequence odd while it writes, and
 * even again afterwards. A copy is good if the sequence was even before and the same afterwards. */
#include "gate/actor.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/proc.h"
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE)
#define COPY_TRIES 64
#define KNOWN 16
#define DEPTH_MAX 4096 /* of a tree of processes */
#define WALKS_MAX 8    /* while ancestors end during the walk */

struct actor_entry {
	int64_t since_us; /* monotonic clock: no process of the command is older */
	uint64_t start;	  /* the leader's, see struct actor_leader */
	pid_t leader;
	uint32_t spawn;
	char command_id[(ID_MAX + 8) / 8 * 8];
};
struct actor_head {
	uint64_t count;	    /* of entries */
	uint64_t orphans;   /* 1: processes of a command without an entry may live */
	int64_t changed_us; /* monotonic clock: the last command came or went then */
};
/* Like the table, with a sequence of its own. */
struct actor_grant {
	uint64_t sequence;
	struct grant_of_thread {
		int64_t tid; /* 0: free */
		struct file_grant grant;
	} g;
};
struct actor_map {
	uint64_t sequence;
	uint64_t pid_namespace;	  /* the inode of /proc/self/ns/pid in the warden; never changes */
	pid_t own[ACTOR_OWN_MAX]; /* 0: free; each is read and written by itself */
	struct actor_grant grant[ACTOR_GRANTS];
	struct actor_head head;
	struct actor_entry entry[ACTOR_ENTRIES];
};
struct actor_table {
	int fd;
	struct actor_map *map;
	uint64_t last_grant;  /* its serial number */
	pthread_mutex_t lock; /* of writing to the mapping */
};
struct actor_reader {
	struct actor_table *table; /* NULL: in another process than the warden */
	const struct actor_map *map;
	/* a copy of the mapping */
	uint64_t sequence; /* when it was copied; UINT64_MAX: the copy is not whole */
	struct actor_head head;
	struct actor_entry *entry; /* owned */
	size_t room;		   /* for entries */
	/* Processes whose command was found. The pid belongs to the process as long as its pidfd
	 * shows that it lives, and a living process does not change its command. */
	struct found_process {
		pid_t pid; /* 0: free */
		int pidfd;
		uint64_t start;
		uint32_t spawn;
	} known[KNOWN];
	unsigned next;
};

_Static_assert(sizeof(struct actor_entry) % sizeof(uint64_t) == 0, "copied by words");
_Static_assert(sizeof(struct actor_head) % sizeof(uint64_t) == 0, "copied by words");
_Static_assert(sizeof(struct grant_of_thread) % sizeof(uint64_t) == 0, "copied by words");

/* Copies word by word, because the other side may access the same words at the same time. */
static void copy_words(void *to, const void *from, size_t size)
{
	const uint64_t *source = from;
	uint64_t *target = to;

	for (size_t i = 0; i < size / sizeof(*target); i++)
		__atomic_store_n(&target[i], __atomic_load_n(&source[i], __ATOMIC_RELAXED),
				 __ATOMIC_RELAXED);
}

/* ---- the writer ---- */

/* 0: it cannot be read. */
static uint64_t own_pid_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

/* With the lock. Writes entry i, if it is below the new count. */
static void publish(struct actor_table *t, const struct actor_head *head, size_t i,
		    const struct actor_entry *e)
{
	const uint64_t sequence = t->map->sequence;

	__atomic_store_n(&t->map->sequence, sequence + 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	copy_words(&t->map->head, head, sizeof(*head));
	if (i < head->count)
		copy_words(&t->map->entry[i], e, sizeof(*e));
	__atomic_store_n(&t->map->sequence, sequence + 2, __ATOMIC_RELEASE);
}

/* With the lock. Returns the number of entries if no entry has this spawn. */
static size_t find_spawn(const struct actor_table *t, uint32_t spawn)
{
	size_t i = 0;

	while (i < t->map->head.count && t->map->entry[i].spawn != spawn)
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
	struct actor_head head;

	snprintf(e.command_id, ID_MAX + 1, "%s", command_id);
	pthread_mutex_lock(&t->lock);
	head = t->map->head;
	head.changed_us = e.since_us;
	head.orphans |= head.count == ACTOR_ENTRIES;
	head.count += head.count < ACTOR_ENTRIES;
	publish(t, &head, t->map->head.count, &e);
	pthread_mutex_unlock(&t->lock);
}

void actor_table_started(struct actor_table *t, uint32_t spawn, struct actor_leader *leader)
{
	size_t i;

	pthread_mutex_lock(&t->lock);
	i = find_spawn(t, spawn);
	if (i < t->map->head.count) {
		struct actor_entry e = t->map->entry[i];

		if (leader->start == 0 && e.leader == leader->pid)
			leader->start = e.start;
		if (e.leader != leader->pid || e.start != leader->start) {
			e.leader = leader->pid;
			e.start = leader->start;
			publish(t, &t->map->head, i, &e);
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
	if (i < t->map->head.count)
		leader = (struct actor_leader){t->map->entry[i].leader, t->map->entry[i].start};
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
	struct actor_head head;
	size_t i;

	pthread_mutex_lock(&t->lock);
	head = t->map->head;
	i = find_spawn(t, spawn);
	if (i < head.count) {
		head.count--;
		head.changed_us = clock_mono_us(&clock_system);
	}
	head.orphans |= orphans;
	publish(t, &head, i, &t->map->entry[head.count]);
	pthread_mutex_unlock(&t->lock);
}

void actor_table_command(struct actor_table *t, const char *command_id, struct actor *out,
			 int64_t *since_us)
{
	*out = (struct actor){0};
	pthread_mutex_lock(&t->lock);
	for (size_t i = 0; i < t->map->head.count; i++) {
		const struct actor_entry *e = &t->map->entry[i];

		if (strcmp(e->command_id, command_id) != 0)
			continue;
		*since_us = e->since_us;
		*out = (struct actor){.leader = e->leader, .spawn = e->spawn};
	}
	pthread_mutex_unlock(&t->lock);
}

/* The first place that holds `old` gets `new`. */
static void replace_own(struct actor_table *t, pid_t old, pid_t new)
{
	size_t i = 0;

	pthread_mutex_lock(&t->lock);
	while (i < ACTOR_OWN_MAX && t->map->own[i] != old)
		i++;
	ensure(i < ACTOR_OWN_MAX);
	__atomic_store_n(&t->map->own[i], new, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&t->lock);
}

void actor_table_own(struct actor_table *t, pid_t tid)
{
	replace_own(t, 0, tid);
}

void actor_table_disown(struct actor_table *t, pid_t tid)
{
	replace_own(t, tid, 0);
}

/* With the lock. */
static void write_grant(struct actor_grant *to, const struct grant_of_thread *g)
{
	const uint64_t sequence = to->sequence;

	__atomic_store_n(&to->sequence, sequence + 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	copy_words(&to->g, g, sizeof(*g));
	__atomic_store_n(&to->sequence, sequence + 2, __ATOMIC_RELEASE);
}

void actor_table_revoke(struct actor_table *t, pid_t tid)
{
	pthread_mutex_lock(&t->lock);
	for (size_t i = 0; i < ACTOR_GRANTS; i++)
		if (t->map->grant[i].g.tid == tid)
			write_grant(&t->map->grant[i], &(struct grant_of_thread){0});
	pthread_mutex_unlock(&t->lock);
}

void actor_table_grant(struct actor_table *t, pid_t tid, const struct file_grant *g)
{
	struct grant_of_thread new = {tid, *g};

	actor_table_revoke(t, tid);
	pthread_mutex_lock(&t->lock);
	new.grant.serial = ++t->last_grant;
	write_grant(&t->map->grant[t->last_grant % ACTOR_GRANTS], &new);
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
		munmap(t->map, sizeof(*t->map));
	mem_cleanup_fd(&t->fd);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

int actor_table_fd(const struct actor_table *t)
{
	return t->fd;
}

/* ---- the reader ---- */

/* False: the mapping was changed all the while. */
static bool copy_map(struct actor_reader *r)
{
	for (int i = 0; i < COPY_TRIES; i++) {
		const uint64_t before = __atomic_load_n(&r->map->sequence, __ATOMIC_ACQUIRE);

		r->sequence = UINT64_MAX;
		copy_words(&r->head, &r->map->head, sizeof(r->head));
		if (before % 2 != 0 || r->head.count > ACTOR_ENTRIES)
			continue;
		if (r->head.count > r->room) {
			r->room = r->head.count * 2;
			r->entry = mem_resize(r->entry, r->room, sizeof(*r->entry));
		}
		copy_words(r->entry, r->map->entry, r->head.count * sizeof(*r->entry));
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (__atomic_load_n(&r->map->sequence, __ATOMIC_RELAXED) == before) {
			r->sequence = before;
			return true;
		}
	}
	return false;
}

/* While the warden's own threads hold the lock nothing is written, and copying succeeds. */
static bool copy_table(struct actor_reader *r)
{
	bool copied;

	if (__atomic_load_n(&r->map->sequence, __ATOMIC_ACQUIRE) == r->sequence)
		return true;
	if (r->table == NULL)
		return copy_map(r);
	pthread_mutex_lock(&r->table->lock);
	copied = copy_map(r);
	pthread_mutex_unlock(&r->table->lock);
	return copied;
}

/* A process that started later is not the one that asked: the pid was reused. The start time is
 * rounded down to a tick. */
static bool is_older(uint64_t start, int64_t asked_us)
{
	const int64_t slept = clock_boot_us(&clock_system) - clock_mono_us(&clock_system);
	const uint64_t tick_us = 1000000 / (uint64_t)sysconf(_SC_CLK_TCK);

	return (int64_t)(start * tick_us) <= asked_us + slept;
}

/* A command alone since before the question: no process of another one lived then. */
static const struct actor_entry *find_alone(const struct actor_reader *r, int64_t asked_us)
{
	return r->head.count == 1 && r->head.orphans == 0 && r->head.changed_us < asked_us
		       ? r->entry
		       : NULL;
}

/* A leader may have become the leader of the next command since the question. start NULL: as long
 * as a leader is in the table no other process gets its pid. */
static const struct actor_entry *find_leader(const struct actor_reader *r, pid_t pid,
					     const uint64_t *start, int64_t asked_us)
{
	for (size_t i = 0; pid != 0 && i < r->head.count; i++) {
		const struct actor_entry *e = &r->entry[i];

		if (e->leader == pid && (start == NULL || e->start == *start) &&
		    e->since_us < asked_us)
			return e;
	}
	return NULL;
}

static bool is_alive(int pidfd)
{
	struct pollfd p = {pidfd, POLLIN, 0};

	return poll(&p, 1, 0) == 0;
}

static void forget(struct found_process *k)
{
	if (k->pid != 0)
		close(k->pidfd);
	*k = (struct found_process){0};
}

static const struct actor_entry *find_known(struct actor_reader *r, pid_t pid, int64_t asked_us)
{
	for (size_t n = 0; n < KNOWN; n++) {
		struct found_process *k = &r->known[n];
		size_t i = 0;

		if (k->pid != pid)
			continue;
		while (i < r->head.count && r->entry[i].spawn != k->spawn)
			i++;
		if (i < r->head.count && is_alive(k->pidfd))
			return r->entry[i].since_us < asked_us && is_older(k->start, asked_us)
				       ? &r->entry[i]
				       : NULL;
		forget(k);
	}
	return NULL;
}

/* Whether `above` was read from the parent of the process that `at` was read from, and not from a
 * later process with the parent's pid. A parent is older than its child; if both started in the
 * same tick, the child must still have the same parent. */
static bool is_parent(pid_t pid, const struct proc_origin *at, const struct proc_origin *above)
{
	struct proc_origin now;

	if (above->start != at->start)
		return above->start < at->start;
	return proc_origin(pid, &now) == 0 && now.start == at->start && now.ppid == at->ppid;
}

/* Walks up from the process. True: *e is its entry, or NULL if it belongs to none or is gone.
 * False: an ancestor ended during the walk. base_start: the start time of base, if the walk came
 * to it. */
static bool walk(const struct actor_reader *r, const struct actor_query *q, pid_t base,
		 uint64_t *base_start, const struct actor_entry **e)
{
	struct proc_origin at, above;
	pid_t pid = q->id;

	*e = NULL;
	*base_start = 0;
	if (proc_origin(pid, &at) < 0 || !is_older(at.start, q->asked_us))
		return true;
	for (int i = 0; i < DEPTH_MAX; i++) {
		if (pid == base)
			*base_start = at.start;
		*e = find_leader(r, pid, &at.start, q->asked_us);
		if (*e != NULL || at.ppid <= 1)
			return true;
		if (proc_origin(at.ppid, &above) < 0 || !is_parent(pid, &at, &above))
			return false;
		pid = at.ppid;
		at = above;
	}
	return true;
}

/* Remembers the process that the next question will most likely be about, if it lived until the
 * walk was over. */
static const struct actor_entry *find_by_walk(struct actor_reader *r, const struct actor_query *q,
					      pid_t base)
{
	cleanup_fd int pidfd = proc_pidfd(base);
	const struct actor_entry *e = NULL;
	uint64_t start = 0;
	int tries = 0;

	while (tries < WALKS_MAX && !walk(r, q, base, &start, &e))
		tries++;
	if (e != NULL && start != 0 && pidfd >= 0 && is_alive(pidfd)) {
		struct found_process *k = &r->known[r->next++ % KNOWN];

		forget(k);
		*k = (struct found_process){base, take_fd(pidfd), start, e->spawn};
	}
	return e;
}

bool actor_find(struct actor_reader *r, const struct actor_query *q, struct actor *out)
{
	const pid_t base = q->ppid != 0 ? q->ppid : q->id;
	const struct actor_entry *e;
	struct proc_ids ids = {q->id, q->ppid};

	*out = (struct actor){0};
	if (q->ppid != 0 || (q->process && proc_ids(q->id, &ids) == 0)) {
		out->pid = ids.pid;
		out->ppid = ids.ppid;
	}
	if (!copy_table(r))
		return false;
	e = find_alone(r, q->asked_us);
	if (e == NULL)
		e = find_leader(r, q->leader, NULL, q->asked_us);
	if (e == NULL && base != 0)
		e = find_known(r, base, q->asked_us);
	if (e == NULL && base != 0)
		e = find_by_walk(r, q, base);
	if (e == NULL)
		return false;
	out->leader = e->leader;
	out->spawn = e->spawn;
	memcpy(out->command_id, e->command_id, sizeof(out->command_id));
	return true;
}

bool actor_reader_is_own(const struct actor_reader *r, pid_t tid)
{
	for (size_t i = 0; i < ACTOR_OWN_MAX; i++)
		if (tid != 0 && __atomic_load_n(&r->map->own[i], __ATOMIC_ACQUIRE) == tid)
			return true;
	return false;
}

static struct actor_reader *new_reader(struct actor_table *t, const struct actor_map *map)
{
	struct actor_reader *r = mem_new(struct actor_reader);

	r->table = t;
	r->map = map;
	r->sequence = UINT64_MAX;
	return r;
}

struct actor_reader *actor_reader_new(struct actor_table *t)
{
	return new_reader(t, t->map);
}

int actor_reader_open(int fd, struct actor_reader **out, struct err *err)
{
	const uint64_t namespace = own_pid_namespace();
	const int seals = fcntl(fd, F_GET_SEALS);
	struct actor_map *map;
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
		munmap(map, sizeof(*map));
		return r;
	}
	*out = new_reader(NULL, map);
	return 0;
}

void actor_reader_free(struct actor_reader *r)
{
	if (r == NULL)
		return;
	for (size_t i = 0; i < KNOWN; i++)
		forget(&r->known[i]);
	if (r->table == NULL)
		munmap((void *)(uintptr_t)r->map, sizeof(*r->map));
	free(r->entry);
	free(r);
}

bool actor_reader_granted(const struct actor_reader *r, pid_t tid, struct file_grant *need)
{
	for (size_t i = 0; i < ACTOR_GRANTS; i++) {
		const struct actor_grant *at = &r->map->grant[i];
		const uint64_t before = __atomic_load_n(&at->sequence, __ATOMIC_ACQUIRE);
		struct grant_of_thread copy;

		if (__atomic_load_n(&at->g.tid, __ATOMIC_RELAXED) != tid)
			continue;
		/* The thread's own does not change while its call is under way. */
		copy_words(&copy, &at->g, sizeof(copy));
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (before % 2 != 0 || copy.tid != tid ||
		    __atomic_load_n(&at->sequence, __ATOMIC_RELAXED) != before)
			continue;
		need->serial = copy.grant.serial;
		memcpy(need->approval_id, copy.grant.approval_id, sizeof(need->approval_id));
		return file_grant_covers(&copy.grant, need);
	}
	return false;
}
