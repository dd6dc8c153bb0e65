// SPDX-License-Identifier: Apache-2.0
#include "base/fdio.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOAD_CHUNK 65536
#define OPEN_TRIES 32

int fdio_write_all(int fd, const void *p, size_t n)
{
	const char *at = p;

	while (n > 0) {
		const ssize_t r = TEMP_FAILURE_RETRY(write(fd, at, n));

		if (r == -1)
			return -1;
		at += r;
		n -= (size_t)r;
	}
	return 0;
}

/* offset NULL: from where the descriptor is. */
static ssize_t read_full(int fd, char *p, size_t n, const uint64_t *offset)
{
	size_t got = 0;

	while (got != n) {
		const ssize_t r = TEMP_FAILURE_RETRY(
			offset == NULL ? read(fd, p + got, n - got)
				       : pread(fd, p + got, n - got, (off_t)(*offset + got)));

		if (r == -1)
			return -1;
		if (r == 0)
			break;
		got += (size_t)r;
	}
	return (ssize_t)got;
}

ssize_t fdio_read_full(int fd, void *p, size_t n)
{
	return read_full(fd, p, n, NULL);
}

ssize_t fdio_pread_full(int fd, void *p, size_t n, uint64_t offset)
{
	return read_full(fd, p, n, &offset);
}

static int load(int fd, const char *name, size_t max, struct buf *out, struct err *err)
{
	cleanup_buf struct buf in = {0};

	for (;;) {
		/* One byte more than max shows that a file does not fit. */
		const size_t room = max - in.len < LOAD_CHUNK ? max - in.len + 1 : LOAD_CHUNK;
		ssize_t r;

		buf_reserve(&in, room);
		r = fdio_read_full(fd, in.data + in.len, room);
		if (r == -1)
			return err_errno(err, E_INTERNAL, name, "cannot read %s", name);
		in.len += (size_t)r;
		if (in.len > max)
			return err_set(err, E_TOO_LARGE, name, "%s has more than %zu bytes", name,
				       max);
		if ((size_t)r < room)
			break;
	}
	buf_add(out, in.data, in.len);
	return 0;
}

int fdio_load(int fd, size_t max, struct buf *out, struct err *err)
{
	return load(fd, "file", max, out, err);
}

int fdio_load_path(const char *path, size_t max, struct buf *out, struct err *err)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

	if (fd == -1)
		return err_errno(err,
				 errno == ENOENT || errno == ENOTDIR ? E_NOT_FOUND : E_INTERNAL,
				 path, "cannot open %s", path);
	return load(fd, path, max, out, err);
}

int fdio_mkdirs(const char *path, mode_t mode, struct err *err)
{
	cleanup_free char *part = mem_strdup(path);
	char *end = part;
	struct stat st;

	do {
		char kept;

		end += strspn(end, "/");
		end += strcspn(end, "/");
		kept = *end;
		*end = '\0';
		errno = mkdir(part, mode) < 0 ? errno : 0;
		if (errno == EEXIST && stat(part, &st) == 0)
			errno = S_ISDIR(st.st_mode) ? 0 : ENOTDIR;
		if (errno != 0)
			return err_errno(err, err_disk(E_INTERNAL), path,
					 "cannot make directory %s", part);
		*end = kept;
	} while (end[strspn(end, "/")] != '\0');
	return 0;
}

/* The kernel does not retry a path with ".." after a rename anywhere: it returns EAGAIN. */
int fdio_openat2(int dir, const char *path, uint64_t flags, uint64_t resolve)
{
	const struct open_how how = {.flags = flags | O_CLOEXEC, .resolve = resolve};
	int fd = -1;

	for (int i = 0; i < OPEN_TRIES; i++) {
		fd = (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
		if (fd >= 0 || errno != EAGAIN || (resolve & RESOLVE_CACHED) != 0)
			break;
	}
	return fd;
}

int fdio_nonblock(int fd)
{
	const int flags = fcntl(fd, F_GETFL);

	return flags == -1 ? -1 : fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

int fdio_sealed(const char *name, const void *p, size_t n)
{
	cleanup_fd int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd == -1 || fdio_write_all(fd, p, n) == -1 || lseek(fd, 0, SEEK_SET) == -1 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) == -1)
		return -1;
	return take_fd(fd);
}

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

void fdio_close_except(int *keep, size_t n)
{
	int next = STDERR_FILENO + 1;

	if (n > 0)
		qsort(keep, n, sizeof(keep[0]), compare);
	for (size_t i = 0; i <= n; i++) {
		const int kept = i < n ? keep[i] : INT_MAX;

		if (kept > next)
			ensure(close_range((unsigned)next, (unsigned)kept - 1, 0) == 0);
		if (kept >= next && kept < INT_MAX)
			next = kept + 1;
	}
}

int fdio_send(int sock, const void *p, size_t n, const int *fds, size_t nfds)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int) * FDIO_MAX_FDS)];
	} control = {0};
	struct iovec iov = {(void *)(uintptr_t)p, n};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	/* The receiver would take an empty datagram for the end. */
	if (n == 0 || nfds > FDIO_MAX_FDS) {
		errno = EINVAL;
		return -1;
	}
	if (nfds > 0) {
		struct cmsghdr *c = &control.align;

		*c = (struct cmsghdr){CMSG_LEN(sizeof(int) * nfds), SOL_SOCKET, SCM_RIGHTS};
		memcpy(CMSG_DATA(c), fds, sizeof(int) * nfds);
		msg.msg_control = control.space;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * nfds);
	}
	return TEMP_FAILURE_RETRY(sendmsg(sock, &msg, MSG_NOSIGNAL)) == -1 ? -1 : 0;
}

#define CONTROL_ROOM (CMSG_SPACE(sizeof(int) * FDIO_MAX_FDS) + CMSG_SPACE(sizeof(struct ucred)))

ssize_t fdio_recv(int sock, void *p, size_t n, int *fds, size_t *nfds, struct ucred *cred)
{
	union {
		struct cmsghdr align;
		char space[CONTROL_ROOM];
	} control = {0};
	struct iovec iov = {p, n};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.space,
			     .msg_controllen = sizeof(control.space)};
	const size_t room = nfds != NULL ? *nfds : 0;
	/* Without credentials, descriptors may take their room. */
	int got[CONTROL_ROOM / sizeof(int)];
	struct ucred from = {0};
	size_t ngot = 0;
	ssize_t r;

	r = TEMP_FAILURE_RETRY(recvmsg(sock, &msg, MSG_CMSG_CLOEXEC));
	if (r == -1)
		return -1;
	/* The kernel has already installed every descriptor that the control bytes name. */
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c != NULL; c = CMSG_NXTHDR(&msg, c)) {
		const size_t len = c->cmsg_len - CMSG_LEN(0);

		if (c->cmsg_level != SOL_SOCKET)
			continue;
		if (c->cmsg_type == SCM_CREDENTIALS && len == sizeof(from))
			memcpy(&from, CMSG_DATA(c), len);
		if (c->cmsg_type == SCM_RIGHTS) {
			memcpy(got, CMSG_DATA(c), len);
			ngot = len / sizeof(int);
		}
	}
	if ((msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 || ngot > room ||
	    (r == 0 && ngot > 0)) {
		/* The kernel also cuts off a descriptor when this process has no number left. */
		cleanup_fd int copy = fcntl(sock, F_DUPFD_CLOEXEC, 0);
		const bool ours = (msg.msg_flags & MSG_TRUNC) == 0 && ngot <= room && copy == -1;

		for (size_t i = 0; i < ngot; i++)
			close(got[i]);
		errno = ours ? EMFILE : EBADMSG;
		return -1;
	}
	if (ngot > 0)
		memcpy(fds, got, sizeof(int) * ngot);
	if (nfds != NULL)
		*nfds = ngot;
	if (cred != NULL)
		*cred = from;
	return r;
}
