// SPDX-License-Identifier: Apache-2.0
/* Moves objects into a trash and back. Within one mount an object is renamed; between two, also of
 * one file system, rename(2) fails with EXDEV, and it is copied.
 *
 * An object is also copied if it has other names or is open: a program could change it by these
 * when it is in the trash. */
#include "base/clock.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "trash/trash_index.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENTRY_BYTES 4096 /* beside the object: its record, its inode, its name */
#define BLOCK 512	 /* of st_blocks */
#define CHUNK (1U << 20)
#define TRIES 3
#define BENEATH (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)
#define DIR_FLAGS (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

struct trash_room {
	uint64_t id, bytes;
	off_t record; /* where it begins in the index */
};
struct trash {
	int dir;	    /* borrowed */
	int files;	    /* owned */
	atomic_bool copies; /* the tree is another mount */
	pthread_mutex_t lock;
	/* guarded by it */
	struct trash_room *kept; /* in the order of their numbers */
	size_t n;
	uint64_t bytes, last_id, max_bytes;
	int64_t max_age_us; /* 0: no limit */
};

/* ---- objects ---- */

static uint64_t in_us(struct timespec t)
{
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* Copies a part. copy_file_range shares blocks where the file system can, also between mounts. */
static int copy_part(int from, int to, off_t at, off_t end, char **chunk)
{
	off_t in = at, out = at;

	while (in < end) {
		const size_t want = end - in < CHUNK ? (size_t)(end - in) : CHUNK;
		ssize_t n = *chunk == NULL ? copy_file_range(from, &in, to, &out, want, 0)
					   : pread(from, *chunk, want, in);

		if (n < 0 && *chunk == NULL && errno != EINTR && errno != ENOSPC &&
		    errno != EDQUOT && errno != EIO) {
			*chunk = mem_alloc(CHUNK);
			continue;
		}
		if (n > 0 && *chunk != NULL) {
			n = pwrite(to, *chunk, (size_t)n, in);
			in += n > 0 ? n : 0;
		}
		if (n <= 0)
			return n < 0 ? -errno : -ESTALE; /* it became shorter */
	}
	return 0;
}

/* Copies the parts that have data. */
static int copy_data(int from, int to, off_t size)
{
	cleanup_free char *chunk = NULL;
	off_t at = 0;
	int r = ftruncate(to, size) < 0 ? -errno : 0;

	while (r == 0 && at < size) {
		const off_t data = lseek(from, at, SEEK_DATA);
		const off_t begin = data > at ? data : at;
		const off_t hole = data >= 0 ? lseek(from, begin, SEEK_HOLE) : -1;

		if (data < 0 && errno == ENXIO) /* only a hole is left */
			break;
		at = hole > begin && hole < size ? hole : size;
		r = begin < at ? copy_part(from, to, begin, at, &chunk) : 0;
	}
	return r;
}

static bool same_state(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* The owner of a file may read it, whatever its mode says. */
static int open_to_read(int dir, const char *name, const struct stat *st)
{
	const int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
	int fd = openat(dir, name, flags);

	if (fd >= 0 || errno != EACCES || st->st_uid != geteuid() ||
	    fchmodat(dir, name, (st->st_mode & 07777) | S_IRUSR, 0) < 0)
		return fd >= 0 ? fd : -errno;
	fd = openat(dir, name, flags);
	if (fd >= 0 && fchmod(fd, st->st_mode & 07777) == 0)
		return fd;
	mem_cleanup_fd(&fd);
	return -EACCES;
}

struct object {
	int dir; /* borrowed */
	const char *name;
};

static int copy_file(const struct object *from, const struct object *to, const struct stat *st)
{
	const struct timespec times[] = {st->st_atim, st->st_mtim};
	cleanup_fd int in = open_to_read(from->dir, from->name, st), out = -1;
	struct stat now;
	int r;

	if (in < 0)
		return in;
	if (fstat(in, &now) < 0 || !same_state(st, &now))
		return -ESTALE;
	out = openat(to->dir, to->name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (out == -1)
		return -errno;
	r = copy_data(in, out, st->st_size);
	if (r == 0 && (fchmod(out, 0600) < 0 || futimens(out, times) < 0))
		r = -errno;
	if (r == 0 && (fstat(in, &now) < 0 || !same_state(st, &now)))
		r = -ESTALE;
	if (r < 0)
		unlinkat(to->dir, to->name, 0);
	return r;
}

static int copy_link(const struct object *from, const struct object *to, const struct stat *st)
{
	const struct timespec times[] = {st->st_atim, st->st_mtim};
	char target[PATH_MAX];
	const ssize_t n = readlinkat(from->dir, from->name, target, sizeof(target) - 1);

	if (n < 0)
		return -errno;
	target[n] = '\0';
	if (symlinkat(target, to->dir, to->name) < 0)
		return -errno;
	utimensat(to->dir, to->name, times, AT_SYMLINK_NOFOLLOW);
	return 0;
}

/* A copy under the new name, which must be free. -ESTALE: the object has changed meanwhile. */
static int copy_object(const struct object *from, const struct object *to, const struct stat *st)
{
	return S_ISLNK(st->st_mode) ? copy_link(from, to, st) : copy_file(from, to, st);
}

static int stat_object(const struct object *o, struct stat *st)
{
	return fstatat(o->dir, o->name, st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int end_entry(int dir, uint64_t id)
{
	return trash_append(dir, &(struct trash_entry){.id = id, .gone = 1}, NULL);
}

/* ---- taking ---- */

int trash_new(int dir, struct trash **out, struct err *err)
{
	cleanup_fd int files = -1;
	struct trash *t;

	/* without the group of the directory above it */
	if (mkdirat(dir, TRASH_FILES, 0700) < 0 || fchmodat(dir, TRASH_FILES, 0700, 0) < 0 ||
	    (files = openat(dir, TRASH_FILES, DIR_FLAGS)) == -1)
		return err_errno(err, E_UNAVAILABLE, TRASH_PARENT,
				 "cannot use the session's trash");
	t = mem_new(struct trash);
	t->dir = dir;
	t->files = take_fd(files);
	pthread_mutex_init(&t->lock, NULL);
	*out = t;
	return 0;
}

void trash_free(struct trash *t)
{
	if (t == NULL)
		return;
	close(t->files);
	pthread_mutex_destroy(&t->lock);
	free(t->kept);
	free(t);
}

void trash_limit(struct trash *t, uint64_t max_bytes, int64_t max_age_us)
{
	pthread_mutex_lock(&t->lock);
	t->max_bytes = max_bytes;
	t->max_age_us = max_age_us;
	pthread_mutex_unlock(&t->lock);
}

/* With the lock. */
static struct trash_room *find_room(const struct trash *t, uint64_t id)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->kept[i].id == id)
			return &t->kept[i];
	return NULL;
}

/* With the lock; frees the room of an entry that has ended. */
static void forget(struct trash *t, uint64_t id)
{
	struct trash_room *room = find_room(t, id);

	if (room != NULL) {
		t->bytes -= room->bytes;
		t->n--;
		memmove(room, room + 1, (size_t)(&t->kept[t->n] - room) * sizeof(*room));
	}
}

static void drop(struct trash *t, uint64_t id)
{
	pthread_mutex_lock(&t->lock);
	forget(t, id);
	pthread_mutex_unlock(&t->lock);
}

/* Room for an object, and the number of its entry; 0: the trash is full. The owner may have removed
 * objects by hand: before the answer is no, they are looked for. */
static uint64_t reserve(struct trash *t, uint64_t bytes)
{
	const uint64_t now = (uint64_t)clock_wall_us(&clock_system);
	char name[TRASH_NAME];
	uint64_t id = 0;

	pthread_mutex_lock(&t->lock);
	for (size_t i = t->n;
	     i-- > 0 && bytes <= t->max_bytes && t->bytes > t->max_bytes - bytes;) {
		const uint64_t old = t->kept[i].id;
		struct stat st;

		trash_name(name, old);
		if (stat_object(&(struct object){t->files, name}, &st) == -ENOENT)
			forget(t, old);
	}
	if (bytes <= t->max_bytes && t->bytes <= t->max_bytes - bytes) {
		id = now > t->last_id ? now : t->last_id + 1;
		t->last_id = id;
		t->bytes += bytes;
		t->kept = mem_grow(t->kept, t->n, sizeof(*t->kept));
		t->kept[t->n++] = (struct trash_room){.id = id, .bytes = bytes};
	}
	pthread_mutex_unlock(&t->lock);
	return id;
}

static int add_record(struct trash *t, const struct trash_entry *e)
{
	struct trash_room *room;
	off_t at = 0;
	const int r = trash_append(t->dir, e, &at);

	pthread_mutex_lock(&t->lock);
	room = find_room(t, e->id);
	if (room != NULL)
		room->record = at;
	pthread_mutex_unlock(&t->lock);
	return r;
}

/* The record is written before the object moves: what has a record and is still in the tree cannot
 * be restored, but it is not lost either. */
static int rename_in(struct trash *t, const struct object *from, const struct object *to,
		     const struct trash_entry *e)
{
	int r = add_record(t, e);

	if (r == 0 && renameat2(from->dir, from->name, to->dir, to->name, RENAME_NOREPLACE) < 0) {
		r = errno == EXDEV || errno == EINVAL ? -ESTALE : -errno;
		t->copies = t->copies || r == -ESTALE;
		end_entry(t->dir, e->id);
	}
	/* for the owner, who copies it back; a file of another user stays as it is */
	if (r == 0 && S_ISREG(e->mode))
		(void)!fchmodat(to->dir, to->name, 0600, 0);
	return r;
}

static int copy_in(struct trash *t, const struct object *from, const struct object *to,
		   const struct trash_entry *e, const struct stat *st)
{
	struct stat now;
	int r = copy_object(from, to, st);

	if (r < 0)
		return r;
	r = add_record(t, e);
	if (r == 0) {
		r = stat_object(from, &now);
		if (r == 0 && !same_state(st, &now))
			r = -ESTALE;
		if (r == 0 && unlinkat(from->dir, from->name, 0) < 0)
			r = -errno;
		if (r < 0)
			end_entry(t->dir, e->id);
	}
	if (r < 0)
		unlinkat(to->dir, to->name, 0);
	return r;
}

static int take_once(struct trash *t, const struct trash_victim *v, uint64_t *id)
{
	const struct object from = {v->dir, v->name};
	char name[TRASH_NAME];
	struct trash_entry e;
	struct object to;
	struct stat st;
	int r = stat_object(&from, &st);

	if (r < 0)
		return r;
	if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
		return TRASH_NOT_KEPT;
	*id = reserve(t, (uint64_t)st.st_blocks * BLOCK + ENTRY_BYTES);
	if (*id == 0)
		return TRASH_FULL;
	trash_name(name, *id);
	e = (struct trash_entry){.id = *id,
				 .mode = st.st_mode,
				 .size = (uint64_t)st.st_size,
				 .atime_us = in_us(st.st_atim),
				 .mtime_us = in_us(st.st_mtim),
				 .path = (char *)v->path,
				 .real_path = (char *)v->real_path,
				 .command_id = (char *)v->command_id,
				 .tree = (char *)v->tree};
	to = (struct object){t->files, name};
	r = st.st_nlink == 1 && !v->open && !t->copies ? rename_in(t, &from, &to, &e)
						       : copy_in(t, &from, &to, &e, &st);
	if (r < 0)
		drop(t, *id);
	return r;
}

int trash_take(struct trash *t, const struct trash_victim *v, uint64_t *id)
{
	int r = -ESTALE;

	trash_expire(t);
	for (unsigned i = 0; i < TRIES && r == -ESTALE; i++)
		r = take_once(t, v, id);
	return r == -EFBIG ? TRASH_FULL : r == -ESTALE ? -EBUSY : r;
}

/* ---- ending ---- */

static int purge(int dir, int files, uint64_t id)
{
	char name[TRASH_NAME];
	int r;

	trash_name(name, id);
	r = unlinkat(files, name, 0) < 0 && errno != ENOENT ? -errno : 0;
	if (r == 0)
		end_entry(dir, id);
	return r;
}

void trash_expire(struct trash *t)
{
	const int64_t now = clock_wall_us(&clock_system);

	pthread_mutex_lock(&t->lock);
	while (t->max_age_us > 0 && t->n > 0 && (int64_t)t->kept[0].id < now - t->max_age_us &&
	       purge(t->dir, t->files, t->kept[0].id) == 0)
		forget(t, t->kept[0].id);
	pthread_mutex_unlock(&t->lock);
}

static int open_files(int dir, int *out, struct err *err)
{
	*out = openat(dir, TRASH_FILES, DIR_FLAGS);
	return *out == -1 ? err_errno(err, E_UNAVAILABLE, TRASH_PARENT, "cannot open the trash")
			  : 0;
}

int trash_purge(int dir, uint64_t id, struct err *err)
{
	cleanup_fd int files = -1;
	int r = open_files(dir, &files, err);

	if (r == 0 && (r = purge(dir, files, id)) < 0) {
		errno = -r;
		r = err_errno(err, E_UNAVAILABLE, NULL, "cannot remove the entry");
	}
	return r;
}

/* ---- putting back ---- */

static int no_way(const struct trash_entry *e, const char *what, struct err *err)
{
	const enum err_code code =
		errno == EEXIST					       ? E_CONFLICT
		: errno == ELOOP || errno == ENOTDIR || errno == EXDEV ? E_CONFLICT
		: errno == EACCES || errno == EPERM || errno == EROFS  ? E_FORBIDDEN
								       : err_disk(E_UNAVAILABLE);

	return err_errno(err, code, e->path, "cannot restore %s: %s", e->real_path, what);
}

/* The directory of the last name in `below`, which is cut into names. */
static int reach_parent(const struct trash_entry *e, const struct trash_target *to, char *below,
			int *out, struct err *err)
{
	cleanup_fd int at = fdio_openat2(to->root, ".", DIR_FLAGS, BENEATH);
	char *name = below, *slash;

	while (at >= 0 && (slash = strchr(name, '/')) != NULL) {
		int next, r = 0;

		*slash = '\0';
		next = fdio_openat2(at, name, DIR_FLAGS, BENEATH);
		if (next == -1 && errno == ENOENT) {
			if (to->may_make != NULL)
				r = to->may_make(to->arg, below, err);
			if (r < 0)
				return r;
			if (mkdirat(at, name, 0777) == 0 || errno == EEXIST)
				next = fdio_openat2(at, name, DIR_FLAGS, BENEATH);
		}
		mem_cleanup_fd(&at);
		at = next;
		*slash = '/';
		name = slash + 1;
	}
	if (at < 0)
		return no_way(e, "the directory above it", err);
	*out = take_fd(at);
	return 0;
}

int trash_put_back(int dir, const struct trash_entry *e, const struct trash_target *to,
		   struct err *err)
{
	const char *below = trash_entry_below(e);
	cleanup_free char *path = below != NULL ? mem_strdup(below) : NULL;
	cleanup_fd int files = -1, parent = -1;
	char name[TRASH_NAME];
	struct object from, back;
	struct stat st;
	int r = open_files(dir, &files, err);

	if (path == NULL)
		return err_set(err, E_BAD_REQUEST, NULL, "not an entry of a workspace");
	trash_name(name, e->id);
	from = (struct object){files, name};
	if (r == 0 && stat_object(&from, &st) < 0)
		r = err_errno(err, E_NOT_FOUND, e->path, "the object of %s is missing",
			      e->real_path);
	if (r == 0 && to->may_make != NULL)
		r = to->may_make(to->arg, below, err);
	if (r == 0)
		r = reach_parent(e, to, path, &parent, err);
	if (r < 0)
		return r;
	back = (struct object){parent,
			       strrchr(below, '/') != NULL ? strrchr(below, '/') + 1 : below};
	if (renameat2(from.dir, from.name, back.dir, back.name, RENAME_NOREPLACE) < 0) {
		r = errno == EXDEV || errno == EINVAL ? copy_object(&from, &back, &st) : -errno;
		if (r == 0)
			unlinkat(from.dir, from.name, 0);
	}
	if (r < 0) {
		errno = -r;
		return no_way(e, r == -EEXIST ? "something else has its name" : "moving it", err);
	}
	/* The file gets no power by its mode. If this fails, it stays closed to others. */
	if (S_ISREG(st.st_mode))
		(void)!fchmodat(back.dir, back.name, e->mode & 01777, 0);
	end_entry(dir, e->id);
	return 0;
}

int trash_restore(struct trash *t, uint64_t id, const struct trash_target *to, char **path,
		  struct err *err)
{
	cleanup_trash_list struct trash_list list = {0};
	struct trash_target chosen = *to;
	const struct trash_entry *e = NULL;
	const struct trash_room *room;
	off_t at = 0;
	int r = 0;

	trash_expire(t);
	pthread_mutex_lock(&t->lock);
	room = find_room(t, id);
	if (room != NULL)
		at = room->record;
	pthread_mutex_unlock(&t->lock);
	if (room != NULL)
		r = trash_load_at(t->dir, at, &list, err);
	if (r < 0)
		return r;
	e = trash_find(&list, id);
	if (e == NULL)
		return err_set(err, E_NOT_FOUND, NULL, "no such entry in the trash");
	if (to->choose != NULL) {
		chosen.root = to->choose(to->arg, e);
		if (chosen.root == -1)
			return err_set(err, E_NOT_FOUND, e->path,
				       "the session does not serve %s any more", e->path);
	}
	r = trash_put_back(t->dir, e, &chosen, err);
	if (r < 0)
		return r;
	drop(t, id);
	*path = mem_strdup(e->path);
	return 0;
}
