// SPDX-License-Identifier: Apache-2.0
/* Journal records as the reader meets them: the bytes as they are, and as the body of a record
 * with the right checksum (no fuzzer guesses a checksum). An event that passes is formatted, and
 * packed again without loss. */
#include "base/mem.h"
#include "event/journal.h"
#include "event/journal_layout.h"
#include <fcntl.h>
#include <limits.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int ring_fd = -1, ack_fd;

static void make_ring(void)
{
	char dir[] = "/tmp/fuzz_journal.XXXXXX";
	int fd;

	ensure(mkdtemp(dir) != NULL);
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ensure(journal_create(fd, "ring", "ack", JOURNAL_RING_MIN, &ring_fd, &ack_fd, NULL) == 0);
	unlinkat(fd, "ring", 0);
	unlinkat(fd, "ack", 0);
	close(fd);
	rmdir(dir);
}

static bool on_event(const struct event *e, uint64_t pos, void *arg)
{
	struct buf json = {0}, again = {0}, packed = {0};
	struct event copy;

	event_format(e, &json);
	event_pack(e, &packed);
	ensure(event_unpack(packed.data, packed.len, &copy, NULL) == 0);
	event_format(&copy, &again);
	/* A list of many short arguments is cut when it is packed by us. */
	if (e->exec_argv.n == copy.exec_argv.n)
		ensure(strcmp(json.data, again.data) == 0);
	event_done(&copy);
	buf_done(&packed);
	buf_done(&again);
	buf_done(&json);
	return true;
}

/* Reads a ring that begins with these bytes. */
static void drain(const void *p, size_t n)
{
	const uint64_t head = n / RECORD_ALIGN * RECORD_ALIGN;
	struct journal_reader *r = NULL;
	struct err err = {0};

	ensure(pwrite(ring_fd, p, n, JOURNAL_PAGE) == (ssize_t)n &&
	       pwrite(ring_fd, &head, sizeof(head), offsetof(struct ring_page, head)) ==
		       sizeof(head));
	ensure(journal_reader_open(dup(ring_fd), dup(ack_fd), "ring", &r, &err) == 0);
	if (journal_drain(r, UINT_MAX, on_event, NULL, &err) < 0)
		ensure(err.code == E_BAD_REQUEST);
	ensure(journal_reader_pos(r) <= head);
	journal_reader_close(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ring_record r = {.len = (uint32_t)size};
	uint8_t *framed;

	if (ring_fd == -1)
		make_ring();
	if (size <= JOURNAL_RING_MIN)
		drain(data, size);
	if (size > EVENT_MAX + 64)
		return 0;
	framed = mem_alloc(record_size(size));
	if (size > 0)
		memcpy(framed + sizeof(r), data, size);
	r.crc = record_crc(&r, framed + sizeof(r), size);
	memcpy(framed, &r, sizeof(r));
	drain(framed, record_size(size));
	free(framed);
	return 0;
}
