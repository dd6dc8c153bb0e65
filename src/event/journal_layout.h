// SPDX-License-Identifier: Apache-2.0
/* event/journal_layout.h - the bytes of the ring and ack files; for both sides of the journal only.
 */
#pragma once
#include "event/crc32c.h"
#include "event/journal.h"

#define JOURNAL_VERSION 1
#define JOURNAL_PAGE 4096
#define RECORD_ALIGN 8
#define JOURNAL_RING_MAGIC 0x31474e4952534741ULL /* "AGSRING1" */
#define JOURNAL_ACK_MAGIC 0x31304b4341534741ULL	 /* "AGSACK01" */

/* First page of the ring file; the ring of `size` bytes follows it. */
struct ring_page {
	uint64_t magic;
	uint32_t version, size;
	_Atomic uint64_t head;
	_Atomic uint64_t dropped; /* lost events that no events_dropped reports yet */
};

static inline bool ring_size_valid(uint64_t size)
{
	return size >= JOURNAL_RING_MIN && size <= JOURNAL_RING_MAX && size % RECORD_ALIGN == 0;
}

static inline bool ring_page_valid(const struct ring_page *p)
{
	return p->magic == JOURNAL_RING_MAGIC && p->version == JOURNAL_VERSION &&
	       ring_size_valid(p->size);
}

/* The ack file. The reader writes it with pwrite, which need not be one store: a position counts
 * only together with its complement. */
struct ack_page {
	uint64_t magic;
	_Atomic uint64_t pos, not_pos;
};

#define RECORD_FILLER \
	0x80000000U /* in len: skips len bytes, this head included, to the end of the ring */
struct ring_record {
	uint32_t len; /* of the body */
	uint32_t crc; /* of len, pos and body */
	uint64_t pos;
};
#define RECORD_MAX (sizeof(struct ring_record) + EVENT_MAX)

static inline uint32_t record_crc(const struct ring_record *r, const void *body, size_t n)
{
	const uint32_t crc = crc32c(crc32c(0, &r->len, sizeof(r->len)), &r->pos, sizeof(r->pos));

	return crc32c(crc, body, n);
}

/* Bytes that a record with this body takes. */
static inline size_t record_size(size_t body)
{
	return (sizeof(struct ring_record) + body + RECORD_ALIGN - 1) & ~(size_t)(RECORD_ALIGN - 1);
}
