// SPDX-License-Identifier: Apache-2.0
/* The reader's side: it trusts no byte of the ring. */
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "event/journal_layout.h"

#define WINDOW (32 * 1024)
_Static_assert(WINDOW >= RECORD_MAX, "a window holds any record");

struct journal_reader {
	int ring_fd, ack_fd; /* owned */
	char *ring_id;
	uint32_t size;
	uint64_t pos;
	uint64_t told; /* journal_tell_head */
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

/* Bytes at r->pos up to the head or the end of the ring; at least a whole record if there is one.
 */
static int look(const struct journal_reader *r, uint64_t head, struct window *w,
		const uint8_t **bytes, size_t *len)
{
	const uint64_t place = r->pos % r->size;
	const uint64_t there = head - r->pos < r->size - place ? head - r->pos : r->size - place;
	const size_t want = there < RECORD_MAX ? (size_t)there : RECORD_MAX;

	if (r->pos < w->pos || r->pos + want > w->pos + w->len) {
		w->pos = r->pos;
		w->len = there < WINDOW ? (size_t)there : WINDOW;
		if (fdio_pread_full(r->ring_fd, w->bytes, w->len, JOURNAL_PAGE + place) !=
		    (ssize_t)w->len)
			return -1;
	}
	*bytes = w->bytes + (r->pos - w->pos);
	*len = w->len - (size_t)(r->pos - w->pos);
	return 0;
}

/* Checks the frame of a record of at most len bytes; NULL or what is wrong with it. */
static const char *check_frame(const uint8_t *p, size_t len, struct ring_record *r)
{
	size_t body;

	if (len < sizeof(*r))
		return "no room for a record";
	memcpy(r, p, sizeof(*r));
	body = r->len & RECORD_FILLER ? 0 : r->len;
	if (body > EVENT_MAX)
		return "a record over the limit";
	if (record_size(body) > len)
		return "a record that is not all there";
	if (r->crc != record_crc(r, p + sizeof(*r), body))
		return "a record with a wrong checksum";
	return NULL;
}

int journal_check_record(const void *p, size_t len, size_t *used, struct event *e, struct err *err)
{
	struct ring_record rec;
	const char *problem = check_frame(p, len, &rec);
	int rc;

	if (problem == NULL && rec.len & RECORD_FILLER)
		problem = "a filler";
	if (problem != NULL)
		return err_set(err, E_BAD_REQUEST, NULL, "%s", problem);
	rc = event_unpack((const uint8_t *)p + sizeof(rec), rec.len, e, err);
	if (rc == 0)
		*used = record_size(rec.len);
	return rc;
}

/* Bytes to skip at r->pos; 0 if a record is there. *problem is set if neither. */
static uint64_t skip(const struct journal_reader *r, const uint8_t *bytes, size_t len,
		     const char **problem)
{
	const uint64_t rest = r->size - r->pos % r->size;
	struct ring_record rec;

	if (rest < sizeof(rec))
		return rest;
	*problem = check_frame(bytes, len, &rec);
	if (*problem == NULL && rec.pos != r->pos)
		*problem = "a record of another place";
	if (*problem != NULL || !(rec.len & RECORD_FILLER))
		return 0;
	if ((rec.len & ~RECORD_FILLER) != rest)
		*problem = "a filler that does not reach the end";
	return rest;
}

/* Reads what is at r->pos and moves on: 1 an event, 0 a filler, or -code. */
static int next(struct journal_reader *r, uint64_t head, struct window *w, struct event *e,
		struct err *err)
{
	const char *problem = NULL;
	const uint8_t *bytes;
	size_t len, used;
	uint64_t gap;

	if (look(r, head, w, &bytes, &len) < 0)
		return broken(r, err, "the file is too short");
	gap = skip(r, bytes, len, &problem);
	if (problem == NULL && gap > head - r->pos)
		problem = "a filler behind the head";
	if (problem != NULL)
		return broken(r, err, problem);
	if (gap > 0) {
		r->pos += gap;
		return 0;
	}
	if (journal_check_record(bytes, len, &used, e, err) < 0)
		return broken(r, err, err->message);
	r->pos += used;
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
			on_event(&e, start, arg);
			event_done(&e);
			n++;
		}
	}
	/* What came before the break is good; the next call meets the break again. */
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
