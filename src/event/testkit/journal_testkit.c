// SPDX-License-Identifier: Apache-2.0
#include "event/testkit/journal_testkit.h"
#include <fcntl.h>
#include <stdio.h>

void pair_reader_open(struct pair *p)
{
	struct err err = {0};

	p->r = NULL;
	assert_int_equal(
		journal_reader_open(dup(p->ring_fd), dup(p->ack_fd), "ring-1", &p->r, &err), 0);
}

void pair_producer_open(struct pair *p)
{
	struct err err = {0};

	assert_int_equal(journal_open(p->ring_fd, p->ack_fd, &p->j, &err), 0);
}

static char path_bytes[8192]; /* a path of any length is its end */

int pair_setup(void **state)
{
	struct pair *p = mem_new(struct pair);
	struct err err = {0};

	memset(path_bytes, 'p', sizeof(path_bytes) - 1);
	snprintf(p->dir, sizeof(p->dir), "/tmp/journal_test.XXXXXX");
	assert_non_null(mkdtemp(p->dir));
	snprintf(p->ring, sizeof(p->ring), "%s/ring", p->dir);
	snprintf(p->ack, sizeof(p->ack), "%s/ack", p->dir);
	assert_int_equal(
		journal_create(AT_FDCWD, p->ring, p->ack, PAIR_SIZE, &p->ring_fd, &p->ack_fd, &err),
		0);
	pair_producer_open(p);
	pair_reader_open(p);
	*state = p;
	return 0;
}

int pair_teardown(void **state)
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
int pair_again(void **state)
{
	return pair_teardown(state) + pair_setup(state);
}

bool pair_on_event(const struct event *e, uint64_t pos, void *arg)
{
	struct pair *p = arg;

	p->last_pos = pos;
	if (e->type == EVENT_events_dropped) {
		p->dropped += e->count;
		return true;
	}
	assert_int_equal(e->op_offset, p->next);
	p->next++;
	p->seen++;
	p->last_path = e->path != NULL ? strlen(e->path) : 0;
	return true;
}

int pair_drain(struct pair *p, unsigned max)
{
	struct err err = {0};
	const int n = journal_drain(p->r, max, pair_on_event, p, &err);

	if (n < 0)
		assert_string_equal(err.subject, "ring-1");
	return n;
}

/* Appends the event number n with a path of this length. */
int pair_append(struct pair *p, uint64_t n, size_t path)
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

/* Bytes in the ring of an event of pair_append(). */
size_t pair_record_size(size_t path)
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
uint64_t pair_fill_to(struct pair *p, uint64_t n, uint64_t left)
{
	const size_t small = pair_record_size(0);
	uint64_t todo = PAIR_SIZE - journal_head(p->j) % PAIR_SIZE - left;

	while (todo > 0) {
		size_t take = todo > 4000 ? 2000 : (size_t)todo;

		if (take > 2000)
			take = take / 2 / 8 * 8;
		assert_true(take >= small);
		assert_int_equal(pair_append(p, n++, take - small), 0);
		todo -= take;
	}
	return n;
}

void pair_set_u64(int fd, off_t at, uint64_t v)
{
	assert_int_equal(pwrite(fd, &v, sizeof(v), at), sizeof(v));
}
