// SPDX-License-Identifier: Apache-2.0
/* Frames of the stdio stream: the same frames and the same verdict, however the bytes were split;
 * and what is framed anew gives the same bytes.
 *
 * The first byte is the set of types that may come, the second the size of the pieces. */
#include "base/mem.h"
#include "wire/stdio_frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int note(enum stdio_type type, const uint8_t *p, size_t n, void *arg)
{
	stdio_frame(arg, type, p, n);
	return 0;
}

static int run(const uint8_t *data, size_t size, size_t piece, unsigned allowed, struct buf *out)
{
	struct stdio_parser p = {0};
	struct err err = {0};
	int r = 0;

	for (size_t at = 0; r == 0 && at < size; at += piece) {
		const size_t n = size - at < piece ? size - at : piece;
		uint8_t *copy = mem_dup(data + at, n);

		r = stdio_parse(&p, copy, n, allowed, note, out, &err);
		free(copy);
	}
	ensure((r == 0) == (err.code == E_OK));
	stdio_parser_done(&p);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_buf struct buf whole = {0}, split = {0};
	int r;

	if (size < 3)
		return 0;
	buf_reserve(&whole, 0);
	buf_reserve(&split, 0);
	r = run(data + 2, size - 2, size, data[0], &whole);
	ensure(run(data + 2, size - 2, data[1] + 1U, data[0], &split) == r);
	ensure(whole.len == split.len && memcmp(whole.data, split.data, whole.len) == 0);
	ensure(whole.len <= size - 2 && memcmp(whole.data, data + 2, whole.len) == 0);
	return 0;
}
