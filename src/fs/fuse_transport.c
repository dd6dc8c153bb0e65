// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse_transport.h"
#include "base/mem.h"
#include "fs/fuse_uring.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

#define WAKE SIGRTMIN /* ends a blocking read */
/* WRITE's header and fixed part; its data begins at the next page. */
#define HEAD (sizeof(struct fuse_in_header) + sizeof(struct fuse_write_in))
#define REQUEST_ROOM (HEAD + FS_MAX_IO) /* the least that the kernel accepts for FS_MAX_IO */
#define INTERRUPTED 1U			/* a bit that no request's number has */
#define LARGEST_ERRNO 511		/* the kernel refuses an answer with a larger one */
#define LATER_NS 5000000		/* so late may FORGET and INTERRUPT be, beside io_uring */
#define EARLY 64			/* INTERRUPTs that are remembered, beside io_uring */
#define INIT_TRIES 2			/* a kernel with a newer major version sends INIT twice */

struct worker {
	struct fs_transport *t;
	uint8_t *request, *reply; /* REQUEST_ROOM and FS_MAX_IO bytes */
	pthread_t thread;
	int result;
	_Atomic pid_t tid;
	/* The request whose handler runs, with INTERRUPTED if its INTERRUPT was read; 0: none. */
	_Atomic uint64_t in_hand;
};

struct fs_transport {
	struct fs_transport_setup setup;
	struct fs_features features;
	int fd;	  /* /dev/fuse; after a stop, a copy of dead */
	int dead; /* O_PATH: reading and writing fail with EBADF */
	atomic_bool stopped;
	uint8_t *buffers;
	size_t buffers_len;
	unsigned nworkers, room;
	struct worker *workers;	  /* with io_uring: the first one reads the device, the others are
				   * the queues' */
	struct fuse_uring *uring; /* NULL: not agreed on */
	atomic_bool lazy;	  /* requests come by io_uring */
	/* INTERRUPTs of requests that were not found, the oldest is overwritten. */
	pthread_mutex_t early_lock;
	uint64_t early[EARLY];
	unsigned early_at;
};

/* ---- answers and notifications ---- */

/* One write. error: negative errno of an answer, or a notification's code with unique 0. */
static int send_message(struct fs_transport *t, uint64_t unique, int error, const struct iovec *v,
			size_t n)
{
	struct fuse_out_header h = {.len = sizeof(h), .error = error, .unique = unique};
	struct iovec all[3] = {{&h, sizeof(h)}};

	for (size_t i = 0; i < n; i++) {
		all[i + 1] = v[i];
		h.len += (uint32_t)v[i].iov_len;
	}
	return writev(t->fd, all, (int)n + 1) < 0 ? -errno : 0;
}

int fs_transport_answer(struct fs_transport *t, uint64_t unique, const struct fs_reply *r)
{
	int error = r->error < 0 || r->error > LARGEST_ERRNO ? EIO : r->error;
	struct iovec v = {r->out, r->len};
	int sent;

	if (error == 0 && r->len > FS_MAX_IO)
		error = EIO;
	if (t->uring != NULL) {
		const struct fs_reply checked = {.out = r->out, .len = r->len, .error = error};

		if (fuse_uring_answer(t->uring, unique, &checked))
			return 0;
	}
	sent = send_message(t, unique, -error, &v, error == 0 && r->len > 0 ? 1 : 0);
	/* The kernel did not take the answer. Without one its caller would wait for ever. */
	if (sent < 0 && sent != -ENOENT && error == 0)
		(void)send_message(t, unique, -EIO, NULL, 0);
	return sent;
}

static int notify(struct fs_transport *t, int code, const struct iovec *v, size_t n)
{
	int r = send_message(t, 0, code, v, n);

	return r == -ENOENT ? 0 : r; /* not in the kernel's cache */
}

int fs_transport_forget_entry(struct fs_transport *t, uint64_t parent, const char *name)
{
	struct fuse_notify_inval_entry_out out = {
		.parent = parent,
		.namelen = (uint32_t)strlen(name),
		.flags = (t->features.flags & FUSE_HAS_EXPIRE_ONLY) != 0 ? FUSE_EXPIRE_ONLY : 0,
	};
	struct iovec v[] = {{&out, sizeof(out)}, {(char *)name, out.namelen + 1}};

	return notify(t, FUSE_NOTIFY_INVAL_ENTRY, v, 2);
}

int fs_transport_forget_data(struct fs_transport *t, uint64_t node, int64_t offset, int64_t len)
{
	struct fuse_notify_inval_inode_out out = {.ino = node, .off = offset, .len = len};
	struct iovec v = {&out, sizeof(out)};

	return notify(t, FUSE_NOTIFY_INVAL_INODE, &v, 1);
}

int fs_transport_backing_open(struct fs_transport *t, int fd)
{
	const struct fs_backing_map map = {.fd = fd};
	const int id = ioctl(t->fd, FS_BACKING_OPEN, &map);

	return id < 0 ? -errno : id;
}

void fs_transport_backing_close(struct fs_transport *t, int id)
{
	const uint32_t number = (uint32_t)id;

	(void)ioctl(t->fd, FS_BACKING_CLOSE, &number);
}

/* ---- workers ---- */

static bool handled_now(struct fs_transport *t, uint64_t unique)
{
	for (unsigned i = 0; i < t->nworkers; i++) {
		uint64_t expected = unique;

		if (atomic_compare_exchange_strong(&t->workers[i].in_hand, &expected,
						   unique | INTERRUPTED) ||
		    expected == (unique | INTERRUPTED))
			return true;
	}
	return false;
}

static bool tell(struct fs_transport *t, uint64_t unique)
{
	return t->setup.on_interrupt != NULL && t->setup.on_interrupt(t->setup.ctx, unique);
}

static bool interrupt_found(struct fs_transport *t, uint64_t unique)
{
	return handled_now(t, unique) || tell(t, unique);
}

/* Whether the INTERRUPT came before the request was begun. */
static bool was_early(struct fs_transport *t, uint64_t unique)
{
	bool found = false;

	pthread_mutex_lock(&t->early_lock);
	for (unsigned i = 0; i < EARLY && !found; i++)
		if (t->early[i] == unique) {
			t->early[i] = 0;
			found = true;
		}
	pthread_mutex_unlock(&t->early_lock);
	return found;
}

/* A request that is not found has been answered, or a worker has read it and not yet said so.
 * EAGAIN makes the kernel send INTERRUPT again while it waits for the answer; it does not do so for
 * a request that went by io_uring. That INTERRUPT is remembered until the request is parked, and
 * the second look finds one that was parked meanwhile. */
static void interrupt(struct fs_transport *t, const struct fs_request *q)
{
	uint64_t unique = ((const struct fuse_interrupt_in *)q->arg)->unique;
	struct fs_reply again = {.error = EAGAIN};

	if (interrupt_found(t, unique))
		return;
	if (t->uring == NULL) {
		(void)fs_transport_answer(t, q->unique, &again);
		return;
	}
	pthread_mutex_lock(&t->early_lock);
	t->early[t->early_at++ % EARLY] = unique;
	pthread_mutex_unlock(&t->early_lock);
	interrupt_found(t, unique);
}

static void handle(struct worker *w, const struct fs_request *q, struct fs_reply *r)
{
	struct fs_transport *t = w->t;
	bool interrupted;

	atomic_store(&w->in_hand, q->unique);
	t->setup.handle(t->setup.ctx, q, r);
	interrupted = (atomic_exchange(&w->in_hand, 0) & INTERRUPTED) != 0;
	if (r->parked && (interrupted || (t->uring != NULL && was_early(t, q->unique))))
		tell(t, q->unique);
}

/* False: no answer is to be sent, or not now. -EPROTO in *result: not even a header. */
static bool serve_request(struct worker *w, const void *bytes, size_t len, struct fs_reply *r,
			  uint64_t *unique)
{
	struct fs_transport *t = w->t;
	struct fs_request q;
	int parsed = fs_request_parse(bytes, len, t->features.flags, &q);

	*unique = q.unique;
	if (parsed == 0 && q.opcode == FUSE_INTERRUPT) {
		interrupt(t, &q);
	} else if (parsed == 0 && q.opcode != FUSE_INIT && q.opcode != FUSE_DESTROY) {
		handle(w, &q, r);
	} else {
		r->error = q.opcode == FUSE_INIT ? EPROTO : -parsed;
	}
	return !r->parked && fs_opcode_answered(q.opcode);
}

/* -EPROTO: not even a header. */
static int serve_one(struct worker *w, size_t len)
{
	struct fs_reply r = {.out = w->reply, .size = FS_MAX_IO};
	uint64_t unique;

	if (len < sizeof(struct fuse_in_header))
		return -EPROTO;
	if (serve_request(w, w->request, len, &r, &unique))
		(void)fs_transport_answer(w->t, unique, &r);
	return 0;
}

/* By io_uring an answer is due to every request. */
static void serve_queue(void *arg, unsigned queue, const void *bytes, size_t len,
			struct fs_reply *r)
{
	struct fs_transport *t = arg;
	uint64_t unique;

	if (!serve_request(&t->workers[1 + queue], bytes, len, r, &unique) && !r->parked)
		r->len = 0;
	if (r->error < 0 || r->error > LARGEST_ERRNO || (r->error == 0 && r->len > FS_MAX_IO))
		r->error = EIO;
}

/* 0: the mount is gone, or stop was called. */
static int serve(struct worker *w)
{
	struct fs_transport *t = w->t;
	struct pollfd p = {.fd = t->fd, .events = POLLIN};
	const struct timespec later = {.tv_nsec = LATER_NS};
	ssize_t n;
	int r = 0;

	atomic_store(&w->tid, gettid());
	while (r == 0 && !atomic_load(&t->stopped)) {
		n = read(t->fd, w->request, REQUEST_ROOM);
		if (n >= 0) {
			r = serve_one(w, (size_t)n);
		} else if (errno == ENODEV) {
			break;
		} else if (errno == EAGAIN && atomic_load(&t->lazy)) {
			/* FORGETs come in numbers and do not hurry; each would wake the reader */
			if (poll(&p, 1, -1) == 1 && p.revents == POLLIN)
				nanosleep(&later, NULL);
		} else if (errno != EINTR && errno != ENOENT && errno != EAGAIN) {
			r = -errno;
		}
	}
	atomic_store(&w->tid, 0);
	if (atomic_load(&t->stopped))
		return 0;
	if (r < 0)
		fs_transport_stop(t);
	return r;
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	struct fs_transport *t = w->t;

	if (t->uring != NULL) {
		if (fuse_uring_run(t->uring, (unsigned)(w - t->workers) - 1) == 0)
			return NULL;
		/* the kernel has gone back to the device */
		atomic_store(&t->lazy, false);
		fcntl(t->fd, F_SETFL, O_RDWR);
	}
	w->result = serve(w);
	return NULL;
}

static void on_wake(int sig)
{
}

/* Threads beside the caller's take WAKE alone: signals of the process are the caller's affair. */
static int start_thread(struct worker *w)
{
	sigset_t all, old;
	int r;

	sigfillset(&all);
	sigdelset(&all, WAKE);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&w->thread, NULL, worker_main, w);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -r;
}

int fs_transport_run(struct fs_transport *t)
{
	struct sigaction wake = {.sa_handler = on_wake}; /* without SA_RESTART */
	unsigned started = 1;
	sigset_t one;
	int r = 0;

	sigaction(WAKE, &wake, NULL);
	sigemptyset(&one);
	sigaddset(&one, WAKE);
	pthread_sigmask(SIG_UNBLOCK, &one, NULL);
	while (r == 0 && started < t->nworkers)
		if ((r = start_thread(&t->workers[started])) == 0)
			started++;
	if (r < 0)
		fs_transport_stop(t);
	else
		r = serve(&t->workers[0]);
	if (t->uring != NULL)
		fuse_uring_stop(t->uring);
	for (unsigned i = 1; i < started; i++) {
		pthread_join(t->workers[i].thread, NULL);
		if (r == 0)
			r = t->workers[i].result;
	}
	return r;
}

/* The descriptor changes under the workers before they are woken. One that has not yet entered
 * read() fails there, one that sleeps in it gets EINTR, and none can miss both. The connection ends
 * when the last of them has left read(). */
void fs_transport_stop(struct fs_transport *t)
{
	int saved = errno;

	if (!atomic_exchange(&t->stopped, true)) {
		dup3(t->dead, t->fd, O_CLOEXEC);
		if (t->uring != NULL)
			fuse_uring_stop(t->uring);
		for (unsigned i = 0; i < t->nworkers; i++) {
			pid_t tid = atomic_load(&t->workers[i].tid);

			if (tid != 0)
				syscall(SYS_tgkill, getpid(), tid, WAKE);
		}
	}
	errno = saved;
}

/* ---- opening ---- */

static int set_option(int context, const char *key, const char *value, struct err *err)
{
	unsigned cmd = value != NULL ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG;

	if (fsconfig(context, cmd, key, value, 0) < 0)
		return err_errno(err, E_ENFORCEMENT, "fuse", "fsconfig(fuse, %s=%s)", key,
				 value != NULL ? value : "");
	return 0;
}

static int make_mount(const struct fs_transport_setup *s, int dev, int *out, struct err *err)
{
	cleanup_fd int context = fsopen("fuse", FSOPEN_CLOEXEC);
	char fd[16], uid[16], gid[16], max_read[16];
	const char *const options[][2] = {
		{"source", "agentsh"},	{"subtype", "agentsh"}, {"fd", fd},
		{"rootmode", "40000"},	{"user_id", uid},	{"group_id", gid},
		{"max_read", max_read},
	};
	int r = 0, mount;

	if (context < 0)
		return err_errno(err, E_ENFORCEMENT, "fuse", "fsopen(fuse)");
	snprintf(fd, sizeof(fd), "%d", dev);
	snprintf(uid, sizeof(uid), "%u", s->uid);
	snprintf(gid, sizeof(gid), "%u", s->gid);
	snprintf(max_read, sizeof(max_read), "%d", FS_MAX_IO);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(options); i++)
		r = set_option(context, options[i][0], options[i][1], err);
	if (r == 0 && s->allow_other)
		r = set_option(context, "allow_other", NULL, err);
	if (r == 0 && s->default_permissions)
		r = set_option(context, "default_permissions", NULL, err);
	if (r < 0)
		return r;
	if (fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return err_errno(err, E_ENFORCEMENT, "fuse", "fsconfig(fuse, create)");
	mount = fsmount(context, FSMOUNT_CLOEXEC, (unsigned)s->mount_attributes);
	if (mount < 0)
		return err_errno(err, E_ENFORCEMENT, "fuse", "fsmount(fuse)");
	*out = mount;
	return 0;
}

/* The kernel has queued INIT when the mount is made; nothing else comes before its answer. */
static int greet(struct fs_transport *t, struct err *err)
{
	const struct fuse_uring_setup s = {.serve = serve_queue, .arg = t, .device = t->fd};
	uint8_t *request = t->workers[0].request;

	for (int i = 0; t->features.minor == 0 && i < INIT_TRIES; i++) {
		struct fs_init_out out;
		struct fs_reply r = {.out = &out, .len = sizeof(out)};
		const struct fuse_init_in *in;
		struct fs_request q;
		ssize_t n;
		int sent;

		do
			n = read(t->fd, request, REQUEST_ROOM);
		while (n < 0 && errno == EINTR);
		if (n < 0)
			return err_errno(err, E_ENFORCEMENT, "fuse", "reading INIT");
		if (fs_request_parse(request, (size_t)n, 0, &q) < 0 || q.opcode != FUSE_INIT)
			return err_set(err, E_ENFORCEMENT, "fuse",
				       "the kernel's first request is not INIT, or is malformed");
		in = q.arg;
		/* The kernel offers io_uring. It holds all requests back until every queue has an
		 * entry, so that the rings are made before the flag is taken. */
		if (t->setup.uring && (in->flags & FUSE_INIT_EXT) != 0 &&
		    ((uint64_t)in->flags2 << 32 & FUSE_OVER_IO_URING) != 0 && t->uring == NULL &&
		    fuse_uring_new(&s, &t->uring) == 0)
			t->setup.wanted.also |= FUSE_OVER_IO_URING;
		if (fs_negotiate(in, &t->setup.wanted, &out, &t->features, err) < 0)
			return -E_ENFORCEMENT;
		if ((sent = fs_transport_answer(t, q.unique, &r)) < 0) {
			errno = -sent;
			return err_errno(err, E_ENFORCEMENT, "fuse", "answering INIT");
		}
	}
	if (t->features.minor == 0)
		return err_set(err, E_ENFORCEMENT, "fuse", "the kernel does not speak FUSE %d",
			       FUSE_KERNEL_VERSION);
	if ((t->features.flags & FUSE_OVER_IO_URING) == 0) {
		fuse_uring_free(t->uring);
		t->uring = NULL;
	}
	if (t->uring != NULL) {
		t->nworkers = 1 + fuse_uring_queues();
		t->lazy = fcntl(t->fd, F_SETFL, O_RDWR | O_NONBLOCK) == 0;
	}
	return 0;
}

/* For each worker: a page that ends with a request's head, the request's data, and the answer. */
static int make_buffers(struct fs_transport *t, struct err *err)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), each = page + 2 * (size_t)FS_MAX_IO;

	t->buffers_len = each * t->room;
	t->buffers = mmap(NULL, t->buffers_len, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (t->buffers == MAP_FAILED) {
		t->buffers = NULL;
		return err_errno(err, E_RESOURCE_LIMIT, "fuse", "buffers of %u threads",
				 t->nworkers);
	}
	for (unsigned i = 0; i < t->room; i++) {
		uint8_t *data = t->buffers + i * each + page;

		t->workers[i].t = t;
		t->workers[i].request = data - HEAD;
		t->workers[i].reply = data + FS_MAX_IO;
	}
	return 0;
}

int fs_transport_open(const struct fs_transport_setup *s, int *mount_fd, struct fs_transport **out,
		      struct err *err)
{
	struct fs_transport *t = mem_new(struct fs_transport);
	cleanup_fd int mount = -1;
	int r;

	ensure(s->handle != NULL && s->threads <= FS_MAX_THREADS);
	t->setup = *s;
	pthread_mutex_init(&t->early_lock, NULL);
	t->nworkers = s->threads != 0 ? s->threads : FS_DEFAULT_THREADS;
	t->room = t->nworkers > 1 + fuse_uring_queues() ? t->nworkers : 1 + fuse_uring_queues();
	t->workers = mem_alloc(t->room * sizeof(*t->workers));
	t->dead = open("/", O_PATH | O_CLOEXEC);
	t->fd = s->device > 0 ? s->device : open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (t->fd < 0 || t->dead < 0)
		r = err_errno(
			err, E_ENFORCEMENT, "fuse",
			"cannot open /dev/fuse; load the fuse module, pass /dev/fuse into the "
			"container, or let this user read and write it (mode 0666)");
	else if ((r = make_buffers(t, err)) == 0 && (r = make_mount(s, t->fd, &mount, err)) == 0)
		r = greet(t, err);
	if (r < 0) {
		fs_transport_free(t);
		return r;
	}
	*mount_fd = take_fd(mount);
	*out = t;
	return 0;
}

const struct fs_features *fs_transport_features(const struct fs_transport *t)
{
	return &t->features;
}

void fs_transport_free(struct fs_transport *t)
{
	if (t == NULL)
		return;
	if (t->fd >= 0)
		close(t->fd);
	if (t->dead >= 0)
		close(t->dead);
	if (t->buffers != NULL)
		munmap(t->buffers, t->buffers_len);
	fuse_uring_free(t->uring);
	pthread_mutex_destroy(&t->early_lock);
	free(t->workers);
	free(t);
}
