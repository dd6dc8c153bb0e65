// SPDX-License-Identifier: Apache-2.0
/* acmd/acmd.h - als, acat, afind, astat, aps, aenv, adf and adu: they look at files and processes
 * as ls, cat and so on do, and print JSON. docs/acommands.md describes it.
 *
 * They run as commands of a session, with no rights of their own. One thread. Output is written
 * in pieces, so that memory does not grow with the number of entries. */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "model/acmd_names.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

enum acmd_command {
#define X(name, operands, summary) ACMD_##name,
	ACMD_LIST(X)
#undef X
		ACMD_COMMANDS
};

/* "+N", "-N" or "N". */
struct acmd_compare {
	int sign; /* of more, less, exactly */
	bool given;
	uint64_t value;
};

struct acmd_options {
	bool all, recursive, long_form, follow;
	bool limited; /* --limit was given */
	uint64_t limit, offset, depth;
	const char *name;
	uint32_t types; /* bits 1 << (S_IFMT >> 12); 0: all */
	struct acmd_compare size, age;
	uint64_t first, last; /* lines */
};

#define ACMD_ERRORS 10 /* that an answer lists; the others are counted */
struct acmd {
	enum acmd_command command;
	struct acmd_options o;
	char **operand;
	size_t n;
	char **env;
	int64_t now_s;
	char *start; /* goes before the paths of a walk; owned; NULL: none */

	int out_fd;
	struct buf text; /* not written yet */
	struct jw w;
	uint64_t written;
	bool broken; /* stdout takes nothing any more */

	uint64_t seen, next; /* elements; next is 0 after the last one */
	struct {
		char *path; /* owned */
		int errnum;
	} failed[ACMD_ERRORS];
	uint64_t failures;
};

/* The part of a path behind its last slash. */
const char *acmd_base(const char *path);
/* Runs the command that argv[0] names; the exit status: 0, 1 some of it failed, 2 wrong usage. */
int acmd_main(int argc, char **argv, char **env, int out_fd);

/* ---- acmd_options.c ---- */

/* Fills command, o, operand and n; argv is reordered. 1: help was asked for. E_BAD_REQUEST. */
int acmd_parse(struct acmd *a, int argc, char **argv, struct err *err);
void acmd_help(struct acmd *a);

/* ---- acmd_answer.c ---- */

/* Unless --limit is given, an answer gets no more elements once it has this many bytes, and no more
 * errors once it has ACMD_ERRORS_AT: the default of max_output_bytes leaves it whole. */
#define ACMD_ANSWER 8000
#define ACMD_ERRORS_AT 9000

/* Whether the next element of a list belongs to the answer. After STOP always STOP. */
enum acmd_turn { ACMD_SKIP, ACMD_TAKE, ACMD_STOP };
enum acmd_turn acmd_turn(struct acmd *a);
void acmd_failed(struct acmd *a, const char *path, int errnum); /* goes into "errors" */
/* Ends the answer with "next" and "errors"; the exit status. */
int acmd_finish(struct acmd *a);
/* The answer is this error and nothing else; nothing must be written before. The exit status. */
int acmd_refuse(struct acmd *a, const char *path, int errnum);
void acmd_flush(struct acmd *a, bool all);

/* Begins a walk in the first operand, or in "."; *path is its name. 0 or an errno. */
struct tree_walk;
int acmd_start(struct acmd *a, struct tree_walk *w, const char **path);

/* Text, or base64 and a second key KEY_encoding. */
void acmd_name(struct acmd *a, const char *key, const char *name, size_t n);
void acmd_path(struct acmd *a, const char *path); /* the key "path"; of a walk: with its start */
/* Both end at INT64_MAX. */
void acmd_sum(uint64_t *sum, uint64_t add);
uint64_t acmd_bytes(uint64_t blocks, uint64_t size);
void acmd_time(struct acmd *a, const char *key, const struct timespec *t);
void acmd_user(struct acmd *a, const char *key, uint32_t uid);
void acmd_group(struct acmd *a, const char *key, uint32_t gid);
uint64_t acmd_disk(const struct stat *st); /* bytes */
const char *acmd_type(mode_t mode);	   /* "file", "directory", … */
/* The keys that describe a file; path is below dir. */
enum acmd_detail { ACMD_BRIEF, ACMD_USUAL, ACMD_WHOLE };
void acmd_file(struct acmd *a, int dir, const char *path, const struct stat *st,
	       enum acmd_detail detail);

/* ---- one function for each command: the exit status ---- */
#define X(name, operands, summary) int name##_run(struct acmd *a);
ACMD_LIST(X)
#undef X
