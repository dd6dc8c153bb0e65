// SPDX-License-Identifier: Apache-2.0
/* exec/args.h - what an exec's caller has in its memory and in /proc, the `#!` line, and the
 * arguments of ld.so; private to this folder. */
#pragma once
#include "base/buf.h"
#include "base/fields.h"
#include "base/hash.h"
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define EXEC_PAGE 4096
#define EXEC_STRING_MAX (32 * EXEC_PAGE)	 /* MAX_ARG_STRLEN of the kernel, with the NUL */
#define EXEC_ARGS_MAX (6 * 1024 * 1024)		 /* the kernel's limit of strings and pointers */
#define EXEC_ARGS_KEPT (EXEC_STRING_MAX * 3 / 2) /* so argv[0] is always whole */
#define EXEC_ARGC_KEPT 16384

/* The caller by its thread id. The id belongs to the caller while its notification is valid: call
 * listener_valid() after the last read. All but caller_open return 0 or an errno. */
int caller_read(pid_t tid, uint64_t addr, void *out, size_t n);
/* For args_memory_init; arg is a pid_t *. */
int caller_page(void *arg, uint64_t page, uint8_t out[EXEC_PAGE]);
/* The same, if the caller's memory may be a mapped file and its file system may not answer: EAGAIN
 * for a page that the kernel would have to load first. arg is a struct caller_pages *. */
struct caller_pages {
	pid_t tid;
	int pagemap; /* -1: to be opened; owned by the user of the struct */
};
int caller_loaded_page(void *arg, uint64_t page, uint8_t out[EXEC_PAGE]);
/* Link of /proc/TID/NAME ("cwd", "exe", "fd/3") as text. */
int caller_link(pid_t tid, const char *name, char out[PATH_MAX]);
/* Opens /proc/TID/NAME; a descriptor or -errno. */
int caller_open(pid_t tid, const char *name, int flags);

/* Memory that is read by whole pages. */
struct args_memory {
	/* 0 or an errno: EFAULT for memory that is not there. */
	int (*read)(void *arg, uint64_t page, uint8_t out[EXEC_PAGE]);
	void *arg;
	struct args_page {
		uint64_t at; /* 0: empty */
		uint8_t byte[EXEC_PAGE];
	} cache[4];
	unsigned next;
};
void args_memory_init(struct args_memory *m, int (*read)(void *, uint64_t, uint8_t[EXEC_PAGE]),
		      void *arg);

struct args {
	struct buf text; /* kept strings, each with its NUL */
	char **v;	 /* into text */
	size_t n;	 /* kept */
	size_t argc;	 /* of all */
	bool cut;	 /* n < argc; then the next two stand for all behind argv[0] */
	size_t rest;	 /* bytes */
	uint8_t hash[HASH_LEN];
};
void args_done(struct args *a);
/* Puts the n strings of head, copied, in the place of argv[0]. */
void args_replace_first(struct strv *argv, char *const *head, size_t n);
/* Appends the string at addr, NUL included; at most max bytes. 0 or an errno (E2BIG, EFAULT). */
int args_string(struct args_memory *m, uint64_t addr, size_t max, struct buf *out);
/* Reads argv as execve would: no argument at all becomes one empty one. 0 or an errno. */
int args_read(struct args_memory *m, uint64_t addr, struct args *out);

#define BINPRM_BYTES 256
struct shebang {
	char name[BINPRM_BYTES];
	char arg[BINPRM_BYTES];
	bool has_arg;
};
/* head: the first bytes of a file, zero-filled. 0, or ENOEXEC: it names no interpreter. */
int shebang_parse(const char head[BINPRM_BYTES], struct shebang *out);

/* What ld.so was asked to do. */
struct loader_call {
	const char *program; /* borrowed from argv; NULL: none */
	bool runs;	     /* false: it only looks (--verify, --list) */
};
void loader_parse(char *const *argv, size_t argc, struct loader_call *out);
