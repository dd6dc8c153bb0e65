// SPDX-License-Identifier: Apache-2.0
/* base/fdio.h - descriptors: whole reads and writes, directories, sealed memory, passing. */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include <stdint.h>
#include <sys/types.h>

int fdio_write_all(int fd, const void *p,
		   size_t n); /* 0 or -1/errno; retries EINTR and short writes */
ssize_t fdio_read_full(int fd, void *p, size_t n); /* until n or EOF; -1/errno */
ssize_t fdio_pread_full(int fd, void *p, size_t n, uint64_t offset);
/* Appends the whole file; more than max bytes is E_TOO_LARGE, a missing file E_NOT_FOUND. */
int fdio_load(int fd, size_t max, struct buf *out, struct err *err);
int fdio_load_path(const char *path, size_t max, struct buf *out, struct err *err);
int fdio_mkdirs(const char *path, mode_t mode, struct err *err); /* like mkdir -p */
int fdio_nonblock(int fd);
/* openat2 with RESOLVE_* of linux/openat2.h, close-on-exec; -1/errno. A rename meanwhile makes it
 * try again, 32 times at most: then EAGAIN, as for a file under a lease, or at once for a name that
 * RESOLVE_CACHED does not find. */
int fdio_openat2(int dir, const char *path, uint64_t flags, uint64_t resolve);
/* A memfd with these contents, sealed against write, grow and shrink. -1/errno. */
int fdio_sealed(const char *name, const void *p, size_t n);
/* close_range above 2 except the list keep, in which -1 stands for nothing; sorts it. */
void fdio_close_except(int *keep, size_t n);
/* Sends one SEQPACKET datagram with at most FDIO_MAX_FDS descriptors (borrowed); n > 0. 0 or
 * -1/errno (EAGAIN on a full non-blocking socket). */
int fdio_send(int sock, const void *p, size_t n, const int *fds, size_t nfds);
/* Receives one datagram; *nfds is the room in fds and then their number (NULL: none are wanted);
 * descriptors are close-on-exec and owned by the caller; truncation of either is EBADMSG
 * (descriptors closed). Returns bytes, 0 at EOF, -1/errno. cred may be NULL; it is filled where
 * SO_PASSCRED is on (pid 0 if absent). */
struct ucred;
ssize_t fdio_recv(int sock, void *p, size_t n, int *fds, size_t *nfds, struct ucred *cred);
#define FDIO_MAX_FDS 24
