// SPDX-License-Identifier: Apache-2.0
/* wire/stdio_frame.h - frames of agentsh-stdio/1: 1 byte type, 3 bytes zero, 4 bytes length (big
 * endian), at most 64 KiB. The result frame (type 4) alone may be longer (16 MiB). */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include <stdint.h>

#define STDIO_PROTOCOL "agentsh-stdio/1"
#define STDIO_FRAME_MAX 65536
#define STDIO_RESULT_MAX (16 * 1024 * 1024)
#define STDIO_WINDOW 65536 /* initial credit per stream */
enum stdio_type { STDIO_STDIN, STDIO_STDOUT, STDIO_STDERR, STDIO_CONTROL, STDIO_RESULT };

/* What stands before a payload of n bytes. */
struct stdio_head {
	uint8_t byte[8];
};
struct stdio_head stdio_head(enum stdio_type type, size_t n);
void stdio_frame(struct buf *out, enum stdio_type type, const void *p,
		 size_t n); /* splits output at 64 KiB */
struct stdio_parser {
	struct buf in;
};
/* Called per whole frame. A non-zero return stops and is returned by stdio_parse; the rest is kept
 * for the next call. */
typedef int stdio_fn(enum stdio_type type, const uint8_t *p, size_t n, void *arg);
/* allowed: bit set of 1<<type that this side may receive. E_BAD_REQUEST: unknown or unexpected
 * type, non-zero padding, too long. */
int stdio_parse(struct stdio_parser *p, const void *bytes, size_t n, unsigned allowed, stdio_fn *fn,
		void *arg, struct err *err);
void stdio_parser_done(struct stdio_parser *p);
