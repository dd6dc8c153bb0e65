// SPDX-License-Identifier: Apache-2.0
/* event/journal_test.h - a journal with both its sides, for the tests of either. */
#pragma once
#include "base/mem.h"
#include "event/journal.h"
#include "event/journal_layout.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define SIZE JOURNAL_RING_MIN

/* Both sides of one journal, and what the reader saw. */
struct pair {
	char dir[64], ring[80], ack[80];
	int ring_fd, ack_fd;
	struct journal *j;
	struct journal_reader *r;
	uint64_t seen, next, last_pos,
		dropped; /* next: op_offset that must come; last_pos: of the last event */
	size_t last_path;
};

static inline void reader_open(struct pair *p)
{
	struct err err = {0};

	p->r = NULL;
	assert_int_equal(
		journal_reader_open(dup(p->ring_fd), dup(p->ack_fd), "ring-1", &p->r, &err), 0);
}

static inline void producer_open(struct pair *p)
{
	struct err err = {0};

	assert_int_equal(journal_open(p->ring_fd, p->ack_fd, &p->j, &err), 0);
}

static char path_bytes[8192];

static inline int setup(void **state)
{
	struct pair *p = mem_new(struct pair);
	struct err err = {0};

	memset(path_bytes, 'p', sizeof(path_bytes) - 1);
	snprintf(p->dir, sizeof(p->dir), "/tmp/journal_test.XXXXXX");
	assert_non_null(mkdtemp(p->dir));
	snprintf(p->ring, sizeof(p->ring), "%s/ring", p->dir);
	snprintf(p->ack, sizeof(p->ack), "%s/ack", p->dir);
	assert_int_equal(
		journal_create(AT_FDCWD, p->ring, p->ack, SIZE, &p->ring_fd, &p->ack_fd, &err), 0);
	producer_open(p);
	reader_open(p);
	*state = p;
	return 0;
}

static inline int teardown(void **state)
{
	struct pair *p = *state;

	journal_close(p->j);
	journal_reader_close(p->r);
	close(p->ring_fd);
	close(p->ack_fd);
	unlink(p->ring);
	unlink(p->ack);
	rmdir(p->dir);
	free(p);
	return 0;
}

/* Starts the pair's files anew. */
static inline int again(void **state)
{
	return teardown(state) + setup(state);
}

static inline void on_event(const struct event *e, uint64_t pos, void *arg)
{
	struct pair *p = arg;

	p->last_pos = pos;
	if (e->type == EVENT_events_dropped) {
		p->dropped += e->count;
		return;
	}
	assert_int_equal(e->op_offset, p->next);
	p->next++;
	p->seen++;
	p->last_path = e->path != NULL ? strlen(e->path) : 0;
}

static inline int drain(struct pair *p, unsigned max)
{
	struct err err = {0};
	const int n = journal_drain(p->r, max, on_event, p, &err);

	if (n < 0)
		assert_string_equal(err.subject, "ring-1");
	return n;
}

/* Appends the event number n with a path of this length. */
static inline int append(struct pair *p, uint64_t n, size_t path)
{
	const struct event e = {.type = EVENT_file_read,
				.op_offset = n,
				.session_id = (char[]){"s"},
				.path = path_bytes + sizeof(path_bytes) - 1 - path};
	struct err err = {0};
	uint64_t end = 0;
	const int rc = journal_append(p->j, &e, &end, &err);

	if (rc == 0)
		assert_int_equal(end, journal_head(p->j));
	return rc;
}

/* Bytes in the ring of an event of append(). */
static inline size_t size_of(size_t path)
{
	const struct event e = {.type = EVENT_file_read,
				.session_id = (char[]){"s"},
				.path = path_bytes + sizeof(path_bytes) - 1 - path};
	struct buf out = {0};
	size_t n;

	event_pack(&e, &out);
	n = record_size(out.len);
	buf_done(&out);
	return n;
}

/* Appends until exactly `left` bytes of the lap are left; returns the number of the next event. */
static inline uint64_t fill_to(struct pair *p, uint64_t n, uint64_t left)
{
	const size_t small = size_of(0);
	uint64_t todo = SIZE - journal_head(p->j) % SIZE - left;

	while (todo > 0) {
		size_t take = todo > 4000 ? 2000 : (size_t)todo;

		if (take > 2000)
			take = take / 2 / 8 * 8;
		assert_true(take >= small);
		assert_int_equal(append(p, n++, take - small), 0);
		todo -= take;
	}
	return n;
}

static inline void set_u64(int fd, off_t at, uint64_t v)
{
	assert_int_equal(pwrite(fd, &v, sizeof(v), at), sizeof(v));
}
