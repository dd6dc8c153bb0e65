// SPDX-License-Identifier: Apache-2.0
/* base/mem.h - allocation that aborts, and cleanup attributes.
 *
 * Out of memory aborts; therefore no size that a peer names is allocated without a MAX_. */
#pragma once
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *mem_alloc(size_t n);			  /* zeroed, never NULL */
void *mem_resize(void *p, size_t n, size_t size); /* n * size, overflow aborts */
char *mem_strdup(const char *s);		  /* NULL stays NULL */
char *mem_strndup(const char *s, size_t n);
char *mem_printf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void *mem_dup(const void *p, size_t n);
void mem_replace(char **to, char *owned); /* frees the old text and takes the new one */
/* Makes room for element n of an array; the array doubles at powers of two. */
void *mem_grow(void *p, size_t n, size_t size);
#define mem_new(type) ((type *)mem_alloc(sizeof(type)))

static inline void mem_cleanup_free(void *p)
{
	free(*(void **)p);
}
static inline void mem_cleanup_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}
#define cleanup_free __attribute__((cleanup(mem_cleanup_free)))
#define cleanup_fd __attribute__((cleanup(mem_cleanup_fd)))

/* Moves a pointer or descriptor out of a variable with a cleanup. */
#define take(p)                         \
	({                              \
		__typeof__(p) _t = (p); \
		(p) = NULL;             \
		_t;                     \
	})
#define take_fd(fd)            \
	({                     \
		int _t = (fd); \
		(fd) = -1;     \
		_t;            \
	})
#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* For an invariant of our own code, also in release builds. Never for a peer's bytes. */
#define ensure(x) ((x) ? (void)0 : mem_broken(#x, __FILE__, __LINE__))
_Noreturn void mem_broken(const char *what, const char *file, int line);
