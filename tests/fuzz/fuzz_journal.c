// SPDX-License-Identifier: Apache-2.0
/* Journal records as the reader meets them: the bytes as they are, and as the body of a record
 * whose checksum is right (no fuzzer guesses a checksum). What passes is formatted, and packed
 * again without loss. */
#include "base/mem.h"
#include "event/journal.h"
#include "event/journal_layout.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const void *p, size_t n)
{
	struct buf json = {0}, again = {0}, packed = {0};
	struct event e, copy;
	struct err err = {0};
	size_t used = 0;

	if (journal_check_record(p, n, &used, &e, &err) < 0) {
		ensure(err.code == E_BAD_REQUEST);
		return;
	}
	ensure(used <= n && used % RECORD_ALIGN == 0);
	event_format(&e, &json);
	event_pack(&e, &packed);
	ensure(event_unpack(packed.data, packed.len, &copy, &err) == 0);
	event_format(&copy, &again);
	/* A list of many short arguments is cut when it is packed by us. */
	if (e.exec_argv.n == copy.exec_argv.n)
		ensure(strcmp(json.data, again.data) == 0);
	event_done(&copy);
	event_done(&e);
	buf_done(&packed);
	buf_done(&again);
	buf_done(&json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ring_record r = {.len = (uint32_t)size};
	uint8_t *framed;

	check(data, size);
	if (size > EVENT_MAX + 64)
		return 0;
	framed = mem_alloc(record_size(size));
	if (size > 0)
		memcpy(framed + sizeof(r), data, size);
	r.crc = record_crc(&r, framed + sizeof(r), size);
	memcpy(framed, &r, sizeof(r));
	check(framed, record_size(size));
	free(framed);
	return 0;
}
