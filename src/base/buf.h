// SPDX-License-Identifier: Apache-2.0
/* base/buf.h - a growing byte buffer. data is always NUL-terminated behind len once non-NULL. */
#pragma once
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
	char *data; /* owned */
	size_t len, cap;
};

void buf_done(struct buf *b); /* frees, and leaves it usable as empty */
void buf_reserve(struct buf *b, size_t more);
void buf_add(struct buf *b, const void *p, size_t n);
void buf_adds(struct buf *b, const char *s);
void buf_addc(struct buf *b, char c);
void buf_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_addv(struct buf *b, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
void buf_drop(struct buf *b, size_t n); /* removes n bytes from the front */
void buf_clear(struct buf *b);		/* len = 0, keeps memory */
char *buf_take(struct buf *b);		/* the string, never NULL; b is empty afterwards */
#define cleanup_buf __attribute__((cleanup(buf_done)))
