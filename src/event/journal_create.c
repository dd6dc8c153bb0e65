// SPDX-License-Identifier: Apache-2.0
/* Makes the files of a ring. */
#include "base/fdio.h"
#include "base/mem.h"
#include "event/journal.h"
#include "event/journal_layout.h"
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* Preallocated: a write to the mapping must never meet a full disk, which would be a signal. */
static int make_file(int dir, const char *path, off_t size, const void *start, size_t n,
		     struct err *err)
{
	cleanup_fd int fd =
		openat(dir, path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return err_errno(err, E_UNAVAILABLE, path, "cannot make '%s'", path);
	errno = posix_fallocate(fd, 0, size);
	if (errno != 0 || fdio_write_all(fd, start, n) < 0) {
		err_errno(err, E_UNAVAILABLE, path, "cannot write '%s'", path);
		unlinkat(dir, path, 0);
		return -E_UNAVAILABLE;
	}
	return take_fd(fd);
}

int journal_create(int dir, const char *ring_path, const char *ack_path, uint32_t size,
		   int *ring_fd, int *ack_fd, struct err *err)
{
	const struct ring_page ring = {JOURNAL_RING_MAGIC, JOURNAL_VERSION, size, 0, 0};
	const struct ack_page ack = {JOURNAL_ACK_MAGIC, 0, ~(uint64_t)0};
	int made_ring, made_ack;

	if (!ring_size_valid(size))
		return err_set(err, E_BAD_REQUEST, ring_path, "a ring of %u bytes", size);
	made_ring = make_file(dir, ring_path, (off_t)JOURNAL_PAGE + size, &ring, sizeof(ring), err);
	if (made_ring < 0)
		return made_ring;
	made_ack = make_file(dir, ack_path, JOURNAL_PAGE, &ack, sizeof(ack), err);
	if (made_ack < 0) {
		close(made_ring);
		unlinkat(dir, ring_path, 0);
		return made_ack;
	}
	*ring_fd = made_ring;
	*ack_fd = made_ack;
	return 0;
}
