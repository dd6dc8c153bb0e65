// SPDX-License-Identifier: Apache-2.0
/* model/op.h - one operation of a session that the policy decides: a file access, an exec, a
 * connection, a name lookup.
 *
 * All strings are borrowed. Paths are those of the session's view: absolute, without empty, "."
 * or ".." components and without a slash at the end. An operation on two paths (rename, link) is
 * two operations. */
#pragma once
#include "base/buf.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum op_class { OP_FILE, OP_EXEC, OP_NET, OP_DNS, OP_CLASSES };

/* clang-format off */
#define OP_FILE_LIST(X) \
	X(read) X(write) X(open) X(create) X(delete) X(rename) X(stat) X(list) \
	X(chmod) X(chown) X(symlink) X(link) X(truncate) X(execute)
/* clang-format on */
enum op_file {
#define X(name) OP_FILE_##name,
	OP_FILE_LIST(X)
#undef X
		OP_FILES
};

/* Properties of the file of an exec that is not a plain file with a path. */
enum op_exec_flag {
	OP_EXEC_MEMFD = 1 << 0,	  /* lives in memory only */
	OP_EXEC_DELETED = 1 << 1, /* has no name any more */
	OP_EXEC_LOADER = 1 << 2,  /* path is ld.so, script the program that it loads */
	/* These are not kinds of files: */
	OP_EXEC_CUT = 1 << 3,	/* there are more arguments than in argv */
	OP_EXEC_SETID = 1 << 5, /* one of its files has a set-user-ID or set-group-ID bit */
	OP_EXEC_LOOSE = 1 << 4, /* its interpreter will open the script by a name that can lead
				   elsewhere by then, to a file that is the session's */
};
#define OP_EXEC_KINDS (OP_EXEC_MEMFD | OP_EXEC_DELETED | OP_EXEC_LOADER)
#define OP_EXEC_CHAIN_MAX 6 /* files before the program; the kernel follows fewer */

enum op_proto { OP_PROTO_TCP, OP_PROTO_UDP, OP_PROTO_ICMP, OP_PROTOS };

/* An address in network byte order. v4-mapped v6 addresses are decided as v4. */
struct op_address {
	uint8_t family; /* 0 none, 4, 6 */
	uint8_t byte[16];
};

struct op {
	enum op_class class;
	union {
		struct {
			enum op_file op;
			const char *path;
			bool made; /* the session itself made the directory that has the name */
		} file;
		struct {
			const char *path;   /* what the kernel runs, symbolic links resolved */
			const char *called; /* as the caller named it, made absolute against its
					       cwd, links not followed; NULL: as path */
			const char *script; /* resolved file that path interprets (#!, ld.so), or
					       NULL */
			/* resolved, the files that lead to path by `#!`: the script, its
			   interpreter if that is one too, … */
			const char *const *chain;
			size_t nchain; /* at most OP_EXEC_CHAIN_MAX */
			const char *const *argv;
			size_t argc;
			size_t own; /* argv from here on is the caller's, before it from `#!`; 0:
				       all behind argv[0] is the caller's */
			unsigned flags; /* enum op_exec_flag */
		} exec;
		struct {
			const char *host; /* the name it was resolved from, or NULL */
			struct op_address address;
			uint16_t port; /* 0 for a protocol without ports */
			enum op_proto proto;
		} net;
		struct {
			const char *name;
			uint16_t type; /* 1 A, 28 AAAA, … */
		} dns;
	};
};

const char *op_file_name(enum op_file op);		    /* "read" */
bool op_file_parse(const char *name, enum op_file *out);    /* false: unknown */
bool op_address_parse(const char *s, struct op_address *a); /* "10.0.0.1", "::1" */
void op_address_format(const struct op_address *a, struct buf *out);
/* "file_read", "exec", "net_connect", "dns_query": the word of events and denials. */
void op_format_kind(const struct op *op, struct buf *out);
/* The target: the path, the program, HOST:PORT, or the name. */
void op_format_target(const struct op *op, struct buf *out);
/* The index of the caller's first own argument in argv; argc or more if the caller gave none. */
static inline size_t op_exec_own(const struct op *op)
{
	return op->exec.own > 0 ? op->exec.own : 1;
}
/* The caller's arguments behind argv[0], joined by spaces and cut at OP_ARGS_SHOWN; "" for other
 * classes. */
#define OP_ARGS_SHOWN 1024
void op_format_args(const struct op *op, struct buf *out);
