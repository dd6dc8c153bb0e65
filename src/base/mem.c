// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include <stdarg.h>
#include <stdio.h>

void *mem_alloc(size_t n)
{
	void *p = calloc(1, n != 0 ? n : 1);

	ensure(p != NULL);
	return p;
}

void *mem_resize(void *p, size_t n, size_t size)
{
	size_t total;

	ensure(!__builtin_mul_overflow(n, size, &total));
	p = realloc(p, total != 0 ? total : 1);
	ensure(p != NULL);
	return p;
}

char *mem_strdup(const char *s)
{
	return s == NULL ? NULL : mem_strndup(s, strlen(s));
}

char *mem_strndup(const char *s, size_t n)
{
	size_t len = strnlen(s, n);
	char *copy = mem_resize(NULL, len + 1, 1);

	memcpy(copy, s, len);
	copy[len] = '\0';
	return copy;
}

char *mem_printf(const char *fmt, ...)
{
	char *s = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&s, fmt, ap);
	va_end(ap);
	ensure(n >= 0);
	return s;
}

void mem_replace(char **to, char *owned)
{
	free(*to);
	*to = owned;
}

void *mem_dup(const void *p, size_t n)
{
	void *copy = mem_resize(NULL, n, 1);

	if (n != 0)
		memcpy(copy, p, n);
	return copy;
}

void *mem_grow(void *p, size_t n, size_t size)
{
	return (n & (n - 1)) == 0 ? mem_resize(p, n > 0 ? n * 2 : 1, size) : p;
}

void mem_broken(const char *what, const char *file, int line)
{
	dprintf(STDERR_FILENO, "agentsh: broken invariant at %s:%d: %s\n", file, line, what);
	abort();
}
