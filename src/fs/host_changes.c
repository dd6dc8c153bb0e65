// SPDX-License-Identifier: Apache-2.0
#include "fs/host_changes.h"
#include "base/clock.h"
#include "base/fnv.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/fanotify.h>
#include <sys/vfs.h>

#define MARKS_MAX 32768
#define MARKS_PART 8	/* of the user's limit, for one session */
#define BUCKETS 16384	/* a power of two */
#define ASKED_ENOUGH 16 /* look-ups of names that the kernel knew */
#define ASKED_LISTING 8 /* a listing counts as so many */
#define RETRY_S 5	/* a file that has a writer is looked at again */
#define BATCH_MS 50	/* events are read so long after the first */
#define AGAIN_MS 300	/* a notification is repeated after that, and before twice that */
#define EVENTS_ROOM 65536

/* A file has no writer while it is marked and steady: one that opens it is an event. */
#define FILE_EVENTS (FAN_OPEN | FAN_MODIFY | FAN_ATTRIB | FAN_MOVE_SELF | FAN_DELETE_SELF)
#define NAME_EVENTS (FAN_CREATE | FAN_DELETE | FAN_MOVED_FROM | FAN_MOVED_TO)
#define DIR_EVENTS (NAME_EVENTS | FAN_ATTRIB | FAN_MOVE_SELF | FAN_DELETE_SELF | FAN_ONDIR)

/* One marked object. */
struct mark {
	uint64_t handle;  /* a hash of the kernel's file handle, which events have */
	uint64_t node;	  /* may be gone; the mark stays with the object */
	uint32_t next;	  /* in its chain, or in the free list */
	uint32_t since_s; /* a directory: its names were last listed; a file: it was last looked at
			   */
	bool directory;
	bool steady;  /* a file: each change of it is an event */
	bool listing; /* a directory: the kernel may use the listing that it has */
};

/* What the kernel is to forget. name NULL: the attributes, and the listing of a directory. */
struct forgotten {
	uint64_t node;
	bool directory;
	char *name; /* owned */
};
struct forgotten_list {
	struct forgotten *v;
	size_t n;
};

struct host_changes {
	int fan, wake;
	dev_t *dev; /* of the trees whose changes are events */
	size_t devices;
	pid_t self;
	atomic_bool on;
	pthread_t thread;
	/* the rest with the lock of the file system */
	struct mark *mark; /* 1 to count */
	uint32_t count, max, free;
	uint32_t bucket[BUCKETS];
	/* Changes when another process has changed something, or a file is opened for writing: what
	 * was looked at before may be old. */
	uint64_t serial;
	uint32_t flushed_s;
	atomic_bool full;
	/* the thread's: to be sent, sent once, to be sent again at again_ms */
	struct forgotten_list now, sent, again;
	int64_t again_ms;
	char *events;
};

static uint32_t now_s(void)
{
	return (uint32_t)(clock_mono_us(&clock_system) / 1000000);
}

/* ---- marks, with the lock ---- */

static uint32_t *bucket_of(struct host_changes *c, uint64_t handle)
{
	return &c->bucket[(handle ^ handle >> 32) & (BUCKETS - 1)];
}

static struct mark *find_mark(struct host_changes *c, uint64_t handle)
{
	uint32_t i = *bucket_of(c, handle);

	while (i != 0 && c->mark[i].handle != handle)
		i = c->mark[i].next;
	return i != 0 ? &c->mark[i] : NULL;
}

static struct mark *add_mark(struct host_changes *c, uint64_t handle)
{
	uint32_t i = c->free, *bucket = bucket_of(c, handle);

	if (i != 0) {
		c->free = c->mark[i].next;
	} else {
		i = c->count + 1;
		c->mark = mem_grow(c->mark, i, sizeof(*c->mark));
		c->count = i;
	}
	c->mark[i] = (struct mark){.handle = handle, .next = *bucket};
	*bucket = i;
	return &c->mark[i];
}

static void drop_mark(struct fs *fs, struct mark *m)
{
	struct host_changes *c = fs->changes;
	const uint32_t i = (uint32_t)(m - c->mark);
	uint32_t *at = bucket_of(c, m->handle);
	struct node *n = node_get(fs->nodes, m->node);

	while (*at != i)
		at = &c->mark[*at].next;
	*at = m->next;
	if (n != NULL && n->mark == i)
		n->mark = 0;
	*m = (struct mark){.next = c->free};
	c->free = i;
}

static struct mark *mark_of(const struct fs *fs, const struct node *n)
{
	return n != NULL && n->mark != 0 ? &fs->changes->mark[n->mark] : NULL;
}

static bool can_mark(const struct fs *fs)
{
	struct host_changes *c = fs->changes;

	if (c == NULL || !atomic_load(&c->on))
		return false;
	if (c->count >= c->max && c->free == 0 && !c->full &&
	    now_s() - c->flushed_s > fs->setup.kept_ms / 1000) {
		c->full = true; /* the thread begins anew */
		eventfd_write(c->wake, 1);
	}
	return c->count < c->max || c->free != 0;
}

/* ---- marking ---- */

/* What events say of an object: its file system and its handle there. */
static uint64_t hash_object(const void *fsid, const struct file_handle *h)
{
	uint64_t hash = fnv64(FNV64, fsid, sizeof(fsid_t));

	hash = fnv64(hash, &h->handle_type, sizeof(int));
	return fnv64(hash, h->f_handle, h->handle_bytes);
}

static bool file_handle(int fd, uint64_t *hash)
{
	struct {
		struct file_handle h;
		unsigned char room[MAX_HANDLE_SZ];
	} f = {.h.handle_bytes = MAX_HANDLE_SZ};
	struct statfs st;
	int mount;

	if (name_to_handle_at(fd, "", &f.h, &mount, AT_EMPTY_PATH) < 0 || fstatfs(fd, &st) < 0)
		return false;
	*hash = hash_object(&st.f_fsid, &f.h);
	return true;
}

/* The kernel gives a read lease only where the file is not open for writing, so that no mapping can
 * change it either. The lease ends with the descriptor, right after this. */
static bool has_no_writer(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_nlink == 1 && fcntl(fd, F_SETLEASE, F_RDLCK) == 0;
}

/* First the mark, then the look: a writer that comes between them is an event. */
static void mark_object(struct fs *fs, uint64_t node, int fd, bool directory)
{
	struct host_changes *c = fs->changes;
	uint64_t serial, handle;
	struct mark *m;
	struct node *n;
	bool steady;

	pthread_mutex_lock(&fs->lock);
	serial = c->serial;
	pthread_mutex_unlock(&fs->lock);
	if (fanotify_mark(c->fan, FAN_MARK_ADD, directory ? DIR_EVENTS : FILE_EVENTS, fd, NULL) <
		    0 ||
	    !file_handle(fd, &handle))
		return;
	steady = directory || has_no_writer(fd);
	pthread_mutex_lock(&fs->lock);
	n = node_get(fs->nodes, node);
	m = n != NULL ? find_mark(c, handle) : NULL;
	if (n != NULL && m == NULL && can_mark(fs) && (!directory || c->serial == serial))
		m = add_mark(c, handle);
	if (m != NULL) {
		m->node = node;
		m->directory = directory;
		m->steady = steady && c->serial == serial;
		m->since_s = now_s();
		n->mark = (uint32_t)(m - c->mark);
	}
	pthread_mutex_unlock(&fs->lock);
}

static void mark_directory(struct fs *fs, uint64_t dir)
{
	const int fd = backing_open(fs, dir, O_RDONLY | O_DIRECTORY);

	if (fd < 0)
		return;
	mark_object(fs, dir, fd, true);
	close(fd);
}

/* With the lock: whether it was looked into so often that a mark pays. */
static bool wants_mark(const struct fs *fs, struct node *n, unsigned more)
{
	struct node_key key;
	size_t i = 0;

	if (n == NULL || n->mark != 0 || n->way != 0 || !can_mark(fs))
		return false;
	node_key(fs->nodes, n, &key);
	while (i < fs->changes->devices && fs->changes->dev[i] != key.dev)
		i++;
	if (i == fs->changes->devices)
		return false;
	if (n->asked < ASKED_ENOUGH)
		n->asked += more;
	return n->asked >= ASKED_ENOUGH;
}

void host_changes_asked(struct fs *fs, uint64_t dir)
{
	bool wanted;

	if (fs->changes == NULL)
		return;
	pthread_mutex_lock(&fs->lock);
	wanted = wants_mark(fs, node_get(fs->nodes, dir), 1);
	pthread_mutex_unlock(&fs->lock);
	if (wanted)
		mark_directory(fs, dir);
}

uint32_t host_changes_opened(struct fs *fs, uint64_t dir, int fd)
{
	uint32_t flags = 0;
	struct mark *m;
	struct node *n;
	bool wanted;

	if (fs->changes == NULL)
		return 0;
	pthread_mutex_lock(&fs->lock);
	n = node_get(fs->nodes, dir);
	wanted = wants_mark(fs, n, ASKED_LISTING);
	m = mark_of(fs, n);
	if (m != NULL && n->way == 0) {
		/* a listing from the cache renews no names: every now and then it is read anew */
		flags = FOPEN_CACHE_DIR;
		if (m->listing && now_s() - m->since_s < fs->setup.kept_ms / 2000)
			flags |= FOPEN_KEEP_CACHE;
		m->listing = true;
	}
	pthread_mutex_unlock(&fs->lock);
	if (wanted)
		mark_object(fs, dir, fd, true);
	return flags;
}

void host_changes_listed(struct fs *fs, uint64_t dir)
{
	struct mark *m;

	if (fs->changes == NULL)
		return;
	pthread_mutex_lock(&fs->lock);
	m = mark_of(fs, node_get(fs->nodes, dir));
	if (m != NULL)
		m->since_s = now_s();
	pthread_mutex_unlock(&fs->lock);
}

/* Only files of which a directory is marked. One that is open is perhaps written. */
void host_changes_seen(struct fs *fs, uint64_t node, const struct fuse_attr *attr)
{
	const struct mark *m;
	struct node *n;
	bool wanted;
	int fd;

	if (fs->changes == NULL || !S_ISREG(attr->mode) || attr->nlink != 1)
		return;
	pthread_mutex_lock(&fs->lock);
	n = node_get(fs->nodes, node);
	m = mark_of(fs, n);
	wanted = n != NULL && n->handles == NULL && n->way == 0 &&
		 mark_of(fs, node_parent(fs->nodes, n->names)) != NULL && can_mark(fs) &&
		 (m == NULL || (!m->steady && now_s() - m->since_s >= RETRY_S));
	pthread_mutex_unlock(&fs->lock);
	fd = wanted ? backing_open(fs, node, O_RDONLY | O_NONBLOCK) : -1;
	if (fd < 0)
		return;
	mark_object(fs, node, fd, false);
	close(fd);
}

/* ---- times ---- */

static unsigned longer(const struct fs *fs, unsigned ms)
{
	return ms > fs->setup.kept_ms ? ms : fs->setup.kept_ms;
}

unsigned host_changes_name_ms(const struct fs *fs, const struct node *dir, unsigned ms)
{
	return fs->changes != NULL && ms > 0 && mark_of(fs, dir) != NULL ? longer(fs, ms) : ms;
}

unsigned host_changes_attr_ms(const struct fs *fs, const struct node *n, unsigned ms)
{
	const struct mark *m = fs->changes != NULL && ms > 0 ? mark_of(fs, n) : NULL;

	return m != NULL && m->steady ? longer(fs, ms) : ms;
}

void host_changes_doubt(struct fs *fs, uint64_t node, int fd)
{
	struct mark *m;
	bool kept;

	if (fs->changes == NULL)
		return;
	pthread_mutex_lock(&fs->lock);
	fs->changes->serial++;
	m = mark_of(fs, node_get(fs->nodes, node));
	kept = m != NULL && m->steady;
	if (m != NULL && fd >= 0)
		drop_mark(fs, m);
	else if (m != NULL)
		m->steady = false;
	pthread_mutex_unlock(&fs->lock);
	if (m != NULL && fd >= 0)
		fanotify_mark(fs->changes->fan, FAN_MARK_REMOVE, FILE_EVENTS, fd, NULL);
	if (kept)
		fs_transport_forget_data(fs->transport, node, -1, 0);
}

/* ---- events ---- */

static void forget_later(struct forgotten_list *l, const struct forgotten *f)
{
	l->v = mem_grow(l->v, l->n, sizeof(*l->v));
	l->v[l->n++] = *f;
}

static void forget_name(void *arg, const struct node *parent, const char *name)
{
	struct fs *fs = arg;

	if (parent->mark != 0)
		forget_later(&fs->changes->now, &(struct forgotten){.node = node_id(parent),
								    .name = mem_strdup(name)});
}

/* With the lock. Events were lost: nothing that is marked is certain any more. */
static void forget_all(struct fs *fs)
{
	struct host_changes *c = fs->changes;

	node_each_name(fs->nodes, forget_name, fs);
	for (uint32_t i = 1; i <= c->count; i++) {
		struct mark *m = &c->mark[i];

		if (m->handle == 0)
			continue;
		if (m->steady && node_get(fs->nodes, m->node) != NULL)
			forget_later(&c->now, &(struct forgotten){m->node, m->directory, NULL});
		m->listing = false;
		m->steady = m->directory;
		m->since_s = 0;
	}
}

void host_changes_lost(struct fs *fs)
{
	if (fs->changes == NULL)
		return;
	pthread_mutex_lock(&fs->lock);
	forget_all(fs);
	fs->changes->serial++;
	pthread_mutex_unlock(&fs->lock);
	eventfd_write(fs->changes->wake, 1);
}

/* The marks are used up: those that are still needed are made again. */
static void begin_anew(struct fs *fs)
{
	struct host_changes *c = fs->changes;

	pthread_mutex_lock(&fs->lock);
	forget_all(fs);
	for (uint32_t i = 1; i <= c->count; i++)
		if (c->mark[i].handle != 0)
			drop_mark(fs, &c->mark[i]);
	c->serial++;
	pthread_mutex_unlock(&fs->lock);
	fanotify_mark(c->fan, FAN_MARK_FLUSH, 0, AT_FDCWD, NULL);
	pthread_mutex_lock(&fs->lock);
	c->serial++; /* one that was made meanwhile is gone again */
	c->full = false;
	c->flushed_s = now_s();
	pthread_mutex_unlock(&fs->lock);
}

/* The object of an information record, and the name in it or NULL. */
static struct mark *marked_object(struct fs *fs, const struct fanotify_event_info_fid *info,
				  const char **name)
{
	const struct file_handle *h = (const void *)info->handle;

	*name = info->hdr.info_type == FAN_EVENT_INFO_TYPE_DFID_NAME
			? (const char *)h->f_handle + h->handle_bytes
			: NULL;
	return find_mark(fs->changes, hash_object(&info->fsid, h));
}

static void on_record(struct fs *fs, const struct fanotify_event_metadata *e,
		      const struct fanotify_event_info_fid *info)
{
	struct host_changes *c = fs->changes;
	const bool own = e->pid == c->self;
	const char *name;
	struct mark *m = marked_object(fs, info, &name);
	/* an event on the directory itself */
	const bool self = name == NULL || strcmp(name, ".") == 0;

	if (m == NULL)
		return;
	if (!own && !self && m->directory && e->mask & NAME_EVENTS) {
		m->listing = false;
		forget_later(&c->now,
			     &(struct forgotten){.node = m->node, .name = mem_strdup(name)});
	}
	if (!own && (m->directory || (self && m->steady)))
		forget_later(&c->now, &(struct forgotten){m->node, m->directory, NULL});
	if (!m->directory && self && !own) {
		m->steady = false;
		m->since_s = 0;
	}
	if (self && e->mask & FAN_DELETE_SELF)
		drop_mark(fs, m);
}

/* With the lock. The records of the event end at `end`. */
static void on_event(struct fs *fs, const struct fanotify_event_metadata *e, const char *at,
		     const char *end)
{
	if (e->pid != fs->changes->self)
		fs->changes->serial++;
	if (e->mask & FAN_Q_OVERFLOW)
		forget_all(fs);
	while (at < end) {
		const struct fanotify_event_info_fid *info = (const void *)at;

		if (info->hdr.info_type == FAN_EVENT_INFO_TYPE_FID ||
		    info->hdr.info_type == FAN_EVENT_INFO_TYPE_DFID ||
		    info->hdr.info_type == FAN_EVENT_INFO_TYPE_DFID_NAME)
			on_record(fs, e, info);
		at += info->hdr.len;
	}
}

static void read_events(struct fs *fs)
{
	struct host_changes *c = fs->changes;
	struct fanotify_event_metadata e;
	ssize_t n;

	while ((n = read(c->fan, c->events, EVENTS_ROOM)) > 0) {
		pthread_mutex_lock(&fs->lock);
		for (const char *at = c->events; at < c->events + n; at += e.event_len) {
			memcpy(&e, at, sizeof(e)); /* only its records are aligned */
			on_event(fs, &e, at + e.metadata_len, at + e.event_len);
		}
		pthread_mutex_unlock(&fs->lock);
	}
}

/* ---- notifications ---- */

static void send_list(struct fs *fs, const struct forgotten_list *l)
{
	for (size_t i = 0; i < l->n && atomic_load(&fs->changes->on); i++)
		if (l->v[i].name != NULL)
			fs_transport_forget_entry(fs->transport, l->v[i].node, l->v[i].name);
		else /* the listing is all the data that a directory has */
			fs_transport_forget_data(fs->transport, l->v[i].node,
						 l->v[i].directory ? 0 : -1, 0);
}

static void forgotten_done(struct forgotten_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i].name);
	free(l->v);
	*l = (struct forgotten_list){0};
}

/* An answer that was made before the change may reach its caller after the notification: each is
 * sent a second time. */
static void send_all(struct fs *fs)
{
	struct host_changes *c = fs->changes;
	const int64_t now = clock_mono_us(&clock_system) / 1000;

	send_list(fs, &c->now);
	for (size_t i = 0; i < c->now.n; i++)
		forget_later(&c->sent, &c->now.v[i]);
	c->now.n = 0;
	if (c->again.n > 0 && now >= c->again_ms) {
		send_list(fs, &c->again);
		forgotten_done(&c->again);
	}
	if (c->again.n == 0 && c->sent.n > 0) {
		c->again = c->sent;
		c->sent = (struct forgotten_list){0};
		c->again_ms = now + AGAIN_MS;
	}
}

static void *follow(void *arg)
{
	struct fs *fs = arg;
	struct host_changes *c = fs->changes;
	struct pollfd p[] = {{.fd = c->wake, .events = POLLIN}, {.fd = c->fan, .events = POLLIN}};
	eventfd_t woken;

	while (atomic_load(&c->on)) {
		poll(p, 2, c->again.n > 0 ? BATCH_MS : -1);
		poll(p, 1, BATCH_MS); /* more events follow the first */
		if (p[0].revents != 0)
			eventfd_read(c->wake, &woken);
		read_events(fs);
		if (atomic_load(&c->full))
			begin_anew(fs);
		send_all(fs);
	}
	return NULL;
}

/* ---- beginning and end ---- */

/* File systems of this machine alone, all of whose changes are events. */
static bool tells_changes(int root)
{
	static const uint32_t kinds[] = {EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC,
					 TMPFS_MAGIC, F2FS_SUPER_MAGIC};
	struct statfs st;

	if (fstatfs(root, &st) < 0)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if ((uint32_t)st.f_type == kinds[i])
			return true;
	return false;
}

static uint32_t marks_allowed(void)
{
	FILE *f = fopen("/proc/sys/fs/fanotify/max_user_marks", "re");
	unsigned long n = 0;

	if (f == NULL)
		return 0;
	if (fscanf(f, "%lu", &n) != 1)
		n = 0;
	fclose(f);
	return n / MARKS_PART < MARKS_MAX ? (uint32_t)(n / MARKS_PART) : MARKS_MAX;
}

struct host_changes *host_changes_new(const struct fs *fs)
{
	const uint32_t most = marks_allowed(), marks = fs->setup.marks;
	struct host_changes *c = mem_new(struct host_changes);
	struct stat st;

	c->fan = c->wake = -1;
	for (size_t i = 0; i < fs->setup.trees; i++)
		if (tells_changes(fs->tree[i].root) && fstat(fs->tree[i].root, &st) == 0) {
			c->dev = mem_grow(c->dev, c->devices, sizeof(*c->dev));
			c->dev[c->devices++] = st.st_dev;
		}
	if (most == 0 || c->devices == 0) {
		host_changes_free(c);
		return NULL;
	}
	c->max = marks != 0 && marks < most ? marks : most;
	c->fan = fanotify_init(FAN_CLASS_NOTIF | FAN_REPORT_FID | FAN_REPORT_DFID_NAME |
				       FAN_CLOEXEC | FAN_NONBLOCK,
			       O_RDONLY);
	c->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (c->fan < 0 || c->wake < 0) {
		host_changes_free(c);
		return NULL;
	}
	c->events = mem_alloc(EVENTS_ROOM);
	/* a lease of has_no_writer may be broken */
	signal(SIGIO, SIG_IGN);
	return c;
}

void host_changes_start(struct fs *fs)
{
	struct host_changes *c = fs->changes;
	sigset_t all, old;

	c->self = getpid();
	atomic_store(&c->on, true);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	if (pthread_create(&c->thread, NULL, follow, fs) != 0)
		atomic_store(&c->on, false);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void host_changes_stop(struct fs *fs)
{
	struct host_changes *c = fs->changes;

	if (c == NULL || !atomic_exchange(&c->on, false))
		return;
	eventfd_write(c->wake, 1);
	pthread_join(c->thread, NULL);
}

void host_changes_free(struct host_changes *c)
{
	if (c == NULL)
		return;
	mem_cleanup_fd(&c->fan);
	mem_cleanup_fd(&c->wake);
	forgotten_done(&c->now);
	forgotten_done(&c->sent);
	forgotten_done(&c->again);
	free(c->dev);
	free(c->mark);
	free(c->events);
	free(c);
}
