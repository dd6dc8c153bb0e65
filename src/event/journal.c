// SPDX-License-Identifier: Apache-2.0
#include "event/journal.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "event/journal_layout.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define WINDOW (32 * 1024) /* bytes that the reader reads at once */
_Static_assert(WINDOW >= RECORD_MAX, "a window holds any record");

/* ---- the producer's side ---- */

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

static int map_files(struct journal *j, int ring_fd, int ack_fd, struct err *err)
{
	struct ring_page page;
	struct stat ring, ack;
	void *p;

	if (fdio_pread_full(ring_fd, &page, sizeof(page), 0) != sizeof(page) ||
	    !ring_page_valid(&page) || page.head % RECORD_ALIGN != 0)
		return err_set(err, E_BAD_REQUEST, NULL, "not a ring of version %d",
			       JOURNAL_VERSION);
	if (fstat(ring_fd, &ring) < 0 || ring.st_size < (off_t)JOURNAL_PAGE + page.size ||
	    fstat(ack_fd, &ack) < 0 || ack.st_size < JOURNAL_PAGE)
		return err_set(err, E_BAD_REQUEST, NULL, "the ring or ack file is too short");
	j->size = page.size;
	j->head = page.head;
	p = mmap(NULL, (size_t)JOURNAL_PAGE + j->size, PROT_READ | PROT_WRITE, MAP_SHARED, ring_fd,
		 0);
	j->ring = p != MAP_FAILED ? p : NULL;
	p = mmap(NULL, JOURNAL_PAGE, PROT_READ, MAP_SHARED, ack_fd, 0);
	j->ack = p != MAP_FAILED ? p : NULL;
	/* The first events must not wait for their pages: on a disk's file system a page that is
	 * first written takes up to 0.4 ms. An error is not one: the page comes when it is used. */
	if (j->ring != NULL)
		madvise(j->ring, 2 * JOURNAL_PAGE, MADV_POPULATE_WRITE);
	if (j->ring == NULL || j->ack == NULL)
		return err_errno(err, E_UNAVAILABLE, NULL, "cannot map the ring or ack file");
	if (j->ack->magic != JOURNAL_ACK_MAGIC)
		return err_set(err, E_BAD_REQUEST, NULL, "not an ack file");
	return 0;
}

int journal_open(int ring_fd, int ack_fd, struct journal **out, struct err *err)
{
	struct journal *j = mem_new(struct journal);
	const int rc = map_files(j, ring_fd, ack_fd, err);

	if (rc < 0) {
		journal_close(j);
		return rc;
	}
	/* Until the first whole acknowledgement the ring counts as full. */
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
	/* After a kill between the two stores the next producer reports the same drops again: too
	 * many, never too few. */
	if (dropped > 0)
		atomic_store_explicit(&j->ring->dropped, 0, memory_order_relaxed);
	*end = at;
	return 0;
}

void journal_count_drops(struct journal *j, uint64_t n)
{
	const uint64_t before = atomic_load_explicit(&j->ring->dropped, memory_order_relaxed);

	atomic_store_explicit(&j->ring->dropped, before + n, memory_order_relaxed);
}

/* ---- the reader's side: it trusts no byte of the ring ---- */

struct journal_reader {
	int ring_fd, ack_fd; /* owned */
	char *ring_id;
	uint32_t size;
	uint64_t pos;
	uint64_t told; /* the head by journal_tell_head */
};

/* A copy of the ring's bytes from pos on. */
struct window {
	uint64_t pos;
	size_t len;
	_Alignas(8) uint8_t bytes[WINDOW];
};

int journal_reader_open(int ring_fd, int ack_fd, const char *ring_id, struct journal_reader **out,
			struct err *err)
{
	struct journal_reader *r = mem_new(struct journal_reader);
	struct ring_page page;
	struct ack_page ack;
	int rc = 0;

	*r = (struct journal_reader){ring_fd, ack_fd, mem_strdup(ring_id), 0, 0, 0};
	if (fdio_pread_full(ring_fd, &page, sizeof(page), 0) != sizeof(page) ||
	    !ring_page_valid(&page))
		rc = err_set(err, E_BAD_REQUEST, ring_id, "not a ring of version %d",
			     JOURNAL_VERSION);
	else if (fdio_pread_full(ack_fd, &ack, sizeof(ack), 0) != sizeof(ack) ||
		 ack.magic != JOURNAL_ACK_MAGIC || ack.pos != ~ack.not_pos ||
		 ack.pos % RECORD_ALIGN != 0)
		rc = err_set(err, E_BAD_REQUEST, ring_id, "not an ack file");
	if (rc < 0) {
		journal_reader_close(r);
		return rc;
	}
	r->size = page.size;
	r->pos = ack.pos;
	*out = r;
	return 0;
}

void journal_reader_close(struct journal_reader *r)
{
	if (r == NULL)
		return;
	close(r->ring_fd);
	close(r->ack_fd);
	free(r->ring_id);
	free(r);
}

static int broken(const struct journal_reader *r, struct err *err, const char *what)
{
	return err_set(err, E_BAD_REQUEST, r->ring_id, "the ring is broken at %llu: %s",
		       (unsigned long long)r->pos, what);
}

/* The kernel may copy the eight bytes while they change and need not do it at once, so a value
 * counts when it was read twice alike. Should the producer outrun that, the lower of two is a place
 * that it has passed. */
static int read_number(const struct journal_reader *r, uint64_t at, uint64_t *out, struct err *err)
{
	uint64_t last = 0, now = 0;

	for (int i = 0; i < 16; i++) {
		last = now;
		if (fdio_pread_full(r->ring_fd, &now, sizeof(now), at) != sizeof(now))
			return broken(r, err, "the file is too short");
		if (i > 0 && now == last)
			break;
	}
	/* The records that the head covers were written before it was. */
	atomic_thread_fence(memory_order_acquire);
	*out = last < now ? last : now;
	return 0;
}

uint64_t journal_reader_dropped(const struct journal_reader *r)
{
	uint64_t n;

	return read_number(r, offsetof(struct ring_page, dropped), &n, NULL) == 0 ? n : 0;
}

/* Checks the record at r->pos, of which len bytes are there; returns NULL or
 * the problem. */
static const char *check_record(const struct journal_reader *r, const uint8_t *p, size_t len,
				struct ring_record *rec)
{
	size_t body;

	if (len < sizeof(*rec))
		return "no room for a record";
	memcpy(rec, p, sizeof(*rec));
	body = rec->len & RECORD_FILLER ? 0 : rec->len;
	if (body > EVENT_MAX)
		return "a record over the limit";
	if (record_size(body) > len)
		return "a record that is not all there";
	if (rec->crc != record_crc(rec, p + sizeof(*rec), body))
		return "a record with a wrong checksum";
	if (rec->pos != r->pos)
		return "a record of another place";
	if (rec->len & RECORD_FILLER && (rec->len & ~RECORD_FILLER) != r->size - r->pos % r->size)
		return "a filler that does not reach the end";
	return NULL;
}

/* Reads the record at r->pos and moves on: 1 an event, 0 a filler, or -code. */
static int next(struct journal_reader *r, uint64_t head, struct window *w, struct event *e,
		struct err *err)
{
	const uint64_t rest = r->size - r->pos % r->size; /* of the lap */
	const uint64_t there = head - r->pos < rest ? head - r->pos : rest;
	const size_t want = there < RECORD_MAX ? (size_t)there : RECORD_MAX;
	struct ring_record rec = {.len = RECORD_FILLER};
	const char *problem = NULL;
	const uint8_t *bytes;

	if (r->pos < w->pos || r->pos + want > w->pos + w->len) {
		w->pos = r->pos;
		w->len = there < WINDOW ? (size_t)there : WINDOW;
		if (fdio_pread_full(r->ring_fd, w->bytes, w->len,
				    JOURNAL_PAGE + r->pos % r->size) != (ssize_t)w->len)
			return broken(r, err, "the file is too short");
	}
	bytes = w->bytes + (r->pos - w->pos);
	/* A rest too short for a record's head is skipped as it is. */
	if (rest >= sizeof(rec))
		problem = check_record(r, bytes, w->len - (size_t)(r->pos - w->pos), &rec);
	if (problem == NULL && rec.len & RECORD_FILLER && rest > head - r->pos)
		problem = "a filler behind the head";
	if (problem != NULL)
		return broken(r, err, problem);
	if (rec.len & RECORD_FILLER) {
		r->pos += rest;
		return 0;
	}
	if (event_unpack(bytes + sizeof(rec), rec.len, e, err) < 0)
		return broken(r, err, err->message);
	r->pos += record_size(rec.len);
	return 1;
}

int journal_drain(struct journal_reader *r, unsigned max, journal_event_fn *on_event, void *arg,
		  struct err *err)
{
	struct err why = {0};
	struct window w;
	uint64_t head = r->told;
	unsigned n = 0;
	int rc = head > r->pos ? 0 : read_number(r, offsetof(struct ring_page, head), &head, err);

	if (rc < 0)
		return rc;
	if (head < r->pos || head - r->pos > r->size || head % RECORD_ALIGN != 0)
		return broken(r, err, "the head is elsewhere");
	w.pos = w.len = 0;
	while (n < max && r->pos < head) {
		struct event e;
		const uint64_t start = r->pos;

		rc = next(r, head, &w, &e, &why);
		if (rc < 0)
			break;
		if (rc > 0) {
			const bool taken = on_event(&e, start, arg);

			event_done(&e);
			if (!taken) {
				r->pos = start;
				break;
			}
			n++;
		}
	}
	/* The events before a broken record are good; the next call meets that record again. */
	if (rc < 0 && n == 0)
		return err_set(err, why.code, why.subject, "%s", why.message);
	return (int)n;
}

void journal_tell_head(struct journal_reader *r, uint64_t head)
{
	r->told = head;
}

uint64_t journal_reader_pos(const struct journal_reader *r)
{
	return r->pos;
}

void journal_ack_to(struct journal_reader *r, uint64_t pos)
{
	const uint64_t both[2] = {pos, ~pos};

	if (pwrite(r->ack_fd, both, sizeof(both), offsetof(struct ack_page, pos)) !=
	    (ssize_t)sizeof(both))
		log_warn("cannot acknowledge events", "ring", r->ring_id);
}
