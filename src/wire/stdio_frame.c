// SPDX-License-Identifier: Apache-2.0
#include "wire/stdio_frame.h"
#include "base/mem.h"

#define HEAD 8

struct stdio_head stdio_head(enum stdio_type type, size_t n)
{
	ensure(n <= (type == STDIO_RESULT ? STDIO_RESULT_MAX : STDIO_FRAME_MAX));
	return (struct stdio_head){{(uint8_t)type, 0, 0, 0, (uint8_t)(n >> 24), (uint8_t)(n >> 16),
				    (uint8_t)(n >> 8), (uint8_t)n}};
}

static void add_frame(struct buf *out, enum stdio_type type, const void *p, size_t n)
{
	const struct stdio_head head = stdio_head(type, n);

	buf_reserve(out, HEAD + n);
	buf_add(out, &head, HEAD);
	buf_add(out, p, n);
}

void stdio_frame(struct buf *out, enum stdio_type type, const void *p, size_t n)
{
	const char *at = p;

	while (type < STDIO_CONTROL && n > STDIO_FRAME_MAX) {
		add_frame(out, type, at, STDIO_FRAME_MAX);
		at += STDIO_FRAME_MAX;
		n -= STDIO_FRAME_MAX;
	}
	add_frame(out, type, at, n);
}

/* Checks a frame's head. */
static int check_head(const uint8_t *h, unsigned allowed, size_t *len, struct err *err)
{
	const size_t n = (size_t)h[4] << 24 | (size_t)h[5] << 16 | (size_t)h[6] << 8 | h[7];

	if (h[0] > STDIO_RESULT || (allowed & 1U << h[0]) == 0)
		return err_set(err, E_BAD_REQUEST, NULL, "unexpected frame type %u", h[0]);
	if ((h[1] | h[2] | h[3]) != 0)
		return err_set(err, E_BAD_REQUEST, NULL, "a frame's padding is not zero");
	if (n > (h[0] == STDIO_RESULT ? STDIO_RESULT_MAX : STDIO_FRAME_MAX))
		return err_set(err, E_BAD_REQUEST, NULL, "a frame of %zu bytes is too long", n);
	*len = n;
	return 0;
}

/* Handles the whole frames of n bytes; *used tells how much. */
static int take_frames(const uint8_t *p, size_t n, size_t *used, unsigned allowed, stdio_fn *fn,
		       void *arg, struct err *err)
{
	size_t len = 0;
	int r = 0;

	*used = 0;
	while (r == 0 && n - *used >= HEAD) {
		const uint8_t *h = p + *used;

		r = check_head(h, allowed, &len, err);
		if (r != 0 || n - *used - HEAD < len)
			break;
		*used += HEAD + len;
		r = fn((enum stdio_type)h[0], h + HEAD, len, arg);
	}
	return r;
}

int stdio_parse(struct stdio_parser *p, const void *bytes, size_t n, unsigned allowed, stdio_fn *fn,
		void *arg, struct err *err)
{
	const bool direct = p->in.len == 0;
	size_t used;
	int r;

	if (!direct)
		buf_add(&p->in, bytes, n);
	r = take_frames(direct ? bytes : (const uint8_t *)p->in.data, direct ? n : p->in.len, &used,
			allowed, fn, arg, err);
	if (!direct)
		buf_drop(&p->in, used);
	else if (used < n)
		buf_add(&p->in, (const uint8_t *)bytes + used, n - used);
	return r;
}

void stdio_parser_done(struct stdio_parser *p)
{
	buf_done(&p->in);
}
