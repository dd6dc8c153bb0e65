// SPDX-License-Identifier: Apache-2.0
/* Making the files, and the producer's side. */
#include "event/journal.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "event/journal_layout.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

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

struct journal {
	struct ring_page *ring; /* mapped, the bytes of the ring behind it */
	const struct ack_page *ack;
	uint32_t size;
	uint64_t head;
	uint64_t acked; /* the last one that was whole */
	struct buf scratch;
};

static uint8_t *ring_bytes(const struct journal *j)
{
	return (uint8_t *)j->ring + JOURNAL_PAGE;
}

static int map_ring(struct journal *j, int fd, struct err *err)
{
	struct ring_page page;
	struct stat st;
	void *p;

	if (fdio_pread_full(fd, &page, sizeof(page), 0) != sizeof(page) ||
	    !ring_page_valid(&page) || page.head % RECORD_ALIGN != 0)
		return err_set(err, E_BAD_REQUEST, NULL, "not a ring of version %d",
			       JOURNAL_VERSION);
	if (fstat(fd, &st) < 0 || st.st_size < (off_t)JOURNAL_PAGE + page.size)
		return err_set(err, E_BAD_REQUEST, NULL, "the ring file is too short");
	p = mmap(NULL, (size_t)JOURNAL_PAGE + page.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return err_errno(err, E_UNAVAILABLE, NULL, "cannot map the ring file");
	j->ring = p;
	j->size = page.size;
	j->head = page.head;
	return 0;
}

int journal_open(int ring_fd, int ack_fd, struct journal **out, struct err *err)
{
	struct journal *j = mem_new(struct journal);
	int rc = map_ring(j, ring_fd, err);
	struct stat st;
	void *ack = MAP_FAILED;

	if (rc == 0 && (fstat(ack_fd, &st) < 0 || st.st_size < JOURNAL_PAGE))
		rc = err_set(err, E_BAD_REQUEST, NULL, "the ack file is too short");
	else if (rc == 0)
		ack = mmap(NULL, JOURNAL_PAGE, PROT_READ, MAP_SHARED, ack_fd, 0);
	if (rc == 0 && ack == MAP_FAILED)
		rc = err_errno(err, E_UNAVAILABLE, NULL, "cannot map the ack file");
	if (ack != MAP_FAILED)
		j->ack = ack;
	if (rc == 0 && j->ack->magic != JOURNAL_ACK_MAGIC)
		rc = err_set(err, E_BAD_REQUEST, NULL, "not an ack file");
	if (rc < 0) {
		journal_close(j);
		return rc;
	}
	/* Until a whole position is seen nothing is known to be free. */
	if (j->head > j->size)
		j->acked = j->head - j->size;
	*out = j;
	return 0;
}

void journal_close(struct journal *j)
{
	if (j == NULL)
		return;
	if (j->ring != NULL)
		munmap(j->ring, (size_t)JOURNAL_PAGE + j->size);
	if (j->ack != NULL)
		munmap((void *)(uintptr_t)j->ack, JOURNAL_PAGE);
	buf_done(&j->scratch);
	free(j);
}

uint64_t journal_head(const struct journal *j)
{
	return j->head;
}

uint64_t journal_acked(const struct journal *j)
{
	const uint64_t pos = atomic_load_explicit(&j->ack->pos, memory_order_acquire);
	const uint64_t not_pos = atomic_load_explicit(&j->ack->not_pos, memory_order_acquire);

	return pos == ~not_pos && pos <= j->head ? pos : j->acked;
}

uint64_t journal_room(const struct journal *j)
{
	return j->size - (j->head - journal_acked(j));
}

/* Writes an event behind *at, which moves on; no reader sees it before the head has moved. */
static int put(struct journal *j, const struct buf *packed, uint64_t *at, struct err *err)
{
	const uint64_t rest = j->size - *at % j->size;
	const size_t need = record_size(packed->len);
	uint64_t start = *at;
	struct ring_record r;

	if (need > rest)
		start += rest;
	if (start + need - j->acked > j->size)
		return err_set(err, E_RATE_LIMITED, NULL, "the ring is full");
	/* A rest too short for a record's head is skipped without one. */
	if (start != *at && rest >= sizeof(r)) {
		r = (struct ring_record){RECORD_FILLER | (uint32_t)rest, 0, *at};
		r.crc = record_crc(&r, NULL, 0);
		memcpy(ring_bytes(j) + *at % j->size, &r, sizeof(r));
	}
	r = (struct ring_record){(uint32_t)packed->len, 0, start};
	r.crc = record_crc(&r, packed->data, packed->len);
	memcpy(ring_bytes(j) + start % j->size, &r, sizeof(r));
	memcpy(ring_bytes(j) + start % j->size + sizeof(r), packed->data, packed->len);
	*at = start + need;
	return 0;
}

/* Writes an event about the events that were dropped before the next one. */
static int put_dropped(struct journal *j, const struct buf *next, uint64_t dropped, uint64_t *at,
		       struct err *err)
{
	cleanup_buf struct buf packed = {0};
	struct event after, e = {
				    .type = EVENT_events_dropped,
				    .count = dropped < UINT32_MAX ? (uint32_t)dropped : UINT32_MAX,
				    .reason = event_lend("the ring was full"),
			    };

	ensure(event_unpack(next->data, next->len, &after, NULL) == 0);
	e.time_us = after.time_us;
	e.session_id = after.session_id;
	e.agent_id = after.agent_id;
	event_pack(&e, &packed);
	event_done(&after);
	return put(j, &packed, at, err);
}

int journal_append(struct journal *j, const struct event *e, uint64_t *end, struct err *err)
{
	buf_clear(&j->scratch);
	event_pack(e, &j->scratch);
	return journal_append_packed(j, &j->scratch, end, err);
}

int journal_append_packed(struct journal *j, const struct buf *packed, uint64_t *end,
			  struct err *err)
{
	const uint64_t dropped = atomic_load_explicit(&j->ring->dropped, memory_order_relaxed);
	uint64_t at = j->head;
	int rc = 0;

	j->acked = journal_acked(j);
	if (dropped > 0)
		rc = put_dropped(j, packed, dropped, &at, err);
	if (rc == 0)
		rc = put(j, packed, &at, err);
	if (rc < 0)
		return rc;
	j->head = at;
	atomic_store_explicit(&j->ring->head, at, memory_order_release);
	/* Killed between the two stores, the next producer tells of the same drops again: too many,
	 * never too few. */
	if (dropped > 0)
		atomic_store_explicit(&j->ring->dropped, 0, memory_order_relaxed);
	*end = at;
	return 0;
}

void journal_count_drop(struct journal *j)
{
	const uint64_t n = atomic_load_explicit(&j->ring->dropped, memory_order_relaxed);

	atomic_store_explicit(&j->ring->dropped, n + 1, memory_order_relaxed);
}
