// SPDX-License-Identifier: Apache-2.0
#include "base/buf.h"
#include "base/mem.h"
#include <stdio.h>

#define BUF_FIRST 64

void buf_done(struct buf *b)
{
	free(b->data);
	*b = (struct buf){0};
}

void buf_reserve(struct buf *b, size_t more)
{
	size_t need, cap;

	if (b->data != NULL && more < b->cap - b->len)
		return;
	ensure(!__builtin_add_overflow(b->len, more, &need) && need < SIZE_MAX / 2);
	cap = b->cap * 2 > BUF_FIRST ? b->cap * 2 : BUF_FIRST;
	b->cap = cap > need ? cap : need + 1;
	b->data = mem_resize(b->data, b->cap, 1);
	b->data[b->len] = '\0';
}

void buf_add(struct buf *b, const void *p, size_t n)
{
	buf_reserve(b, n);
	if (n != 0)
		memcpy(b->data + b->len, p, n);
	b->len += n;
	b->data[b->len] = '\0';
}

void buf_adds(struct buf *b, const char *s)
{
	buf_add(b, s, strlen(s));
}

void buf_addc(struct buf *b, char c)
{
	buf_reserve(b, 1);
	b->data[b->len++] = c;
	b->data[b->len] = '\0';
}

void buf_addv(struct buf *b, const char *fmt, va_list ap)
{
	va_list again;
	int n;

	va_copy(again, ap);
	buf_reserve(b, 0);
	n = vsnprintf(b->data + b->len, b->cap - b->len, fmt, ap);
	ensure(n >= 0);
	if ((size_t)n >= b->cap - b->len) {
		buf_reserve(b, (size_t)n);
		vsnprintf(b->data + b->len, b->cap - b->len, fmt, again);
	}
	va_end(again);
	b->len += (size_t)n;
}

void buf_addf(struct buf *b, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	buf_addv(b, fmt, ap);
	va_end(ap);
}

void buf_drop(struct buf *b, size_t n)
{
	ensure(n <= b->len);
	if (n == 0)
		return;
	b->len -= n;
	memmove(b->data, b->data + n, b->len + 1);
}

void buf_clear(struct buf *b)
{
	b->len = 0;
	if (b->data != NULL)
		b->data[0] = '\0';
}

char *buf_take(struct buf *b)
{
	char *s;

	buf_reserve(b, 0);
	s = b->data;
	*b = (struct buf){0};
	return s;
}
