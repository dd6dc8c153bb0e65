// SPDX-License-Identifier: Apache-2.0
/* event/journal.h - rings of records in preallocated files: one writer, one reader, no system call
 * on the hot path.
 *
 * The ring file (made by the launcher, root-owned 0600) is mapped read-write by its producer
 * (warden) and read with pread by the API process, which validates in its own memory. The ack file
 * goes the other way: the API process writes the position up to which records are in the store; the
 * producer maps it read-only. Positions are byte counts since the ring was made and never wrap;
 * position mod size is the place. Records are 8-aligned: length, crc32c, the record's own position
 * (so that one of an earlier lap never passes), bytes of event_pack. The head position is stored
 * last, with release order, so that a killed producer leaves whole records only. A record never
 * crosses the end: a filler record skips the rest. An event written is safe from SIGKILL of
 * producer and reader alike. */
#pragma once
#include "base/err.h"
#include "model/event.h"
#include <stdatomic.h>
#include <stdint.h>

#define JOURNAL_RING_MIN (256 * 1024)
#define JOURNAL_RING_DEFAULT (1024 * 1024)
#define JOURNAL_RING_MAX (64 * 1024 * 1024)

/* Makes both files at their size, in a directory (launcher). Descriptors are O_RDWR and owned by
 * the caller. */
int journal_create(int dir, const char *ring, const char *ack, uint32_t size, int *ring_fd,
		   int *ack_fd, struct err *err);

/* Producer side (warden). */
struct journal;
/* Takes nothing: the descriptors may be closed afterwards. Continues at the head that the file has.
 */
int journal_open(int ring_fd, int ack_fd, struct journal **out, struct err *err);
void journal_close(struct journal *j);
/* Appends; returns the position behind the record in *end. -E_RATE_LIMITED when the ring is full
 * (the caller waits for an ack or drops and counts). The event's strings are borrowed. */
int journal_append(struct journal *j, const struct event *e, uint64_t *end, struct err *err);
/* The same for an event that event_pack has packed. */
int journal_append_packed(struct journal *j, const struct buf *packed, uint64_t *end,
			  struct err *err);
uint64_t journal_head(const struct journal *j);
uint64_t journal_acked(const struct journal *j);
uint64_t journal_room(const struct journal *j); /* bytes that are free now */
/* Counts drops; the next successful append is preceded by an events_dropped event with the count.
 */
void journal_count_drops(struct journal *j, uint64_t n);

/* Reader side (API process). Never maps the ring: a shrunk or scribbled file is an error, not a
 * signal. */
struct journal_reader;
int journal_reader_open(
	int ring_fd, int ack_fd, const char *ring_id, struct journal_reader **out,
	struct err *err); /* takes both, also when it fails; ring_id names it (copied) */
void journal_reader_close(struct journal_reader *r);
/* Calls on_event for each whole record from the acknowledged position on, at most max; returns the
 * count or -E_BAD_REQUEST for a broken ring (position and reason in err). pos is the record's
 * start. A callback that returns false ends the call, and the next one begins with its event. */
typedef bool journal_event_fn(const struct event *e, uint64_t pos, void *arg);
int journal_drain(struct journal_reader *r, unsigned max, journal_event_fn *on_event, void *arg,
		  struct err *err);
/* Sets where the head is, as its producer reported it: the head in the file is not read before the
 * reader is there. */
void journal_tell_head(struct journal_reader *r, uint64_t head);
/* Lost events that no event of the ring reports, as its producer counts them. */
uint64_t journal_reader_dropped(const struct journal_reader *r);
uint64_t journal_reader_pos(const struct journal_reader *r); /* read so far */
/* Acknowledges the records before pos, a journal_reader_pos of now or earlier: reading may have
 * gone on since the commit. */
void journal_ack_to(struct journal_reader *r, uint64_t pos);
