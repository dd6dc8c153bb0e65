// SPDX-License-Identifier: Apache-2.0
/* shell/builtins.h - commands that need no process: cd pwd export unset env alias
 * unalias history pushd popd.
 *
 * They change the session's memory and answer as a shell would: text for stdout and stderr, and an
 * exit code. */
#pragma once
#include "base/buf.h"
#include "shell/session_root.h"
#include "shell/shell_memory.h"

struct builtin_call {
	struct shell_memory *memory;
	int root_fd;
	const char *cwd; /* of this command */
	const char *session_id;
	const struct strv *argv;
	const struct strv *request; /* environment for this command only */
	/* NULL: the session's tree always answers at once. Else a builtin that asks for another
	 * directory than this one changes nothing and only writes its question here: it is to be
	 * run again with the answer. */
	struct root_enter *enter;
	/* filled by builtin_run */
	struct buf out, err; /* buf_done is the caller's */
	char option;	     /* the last letter, or 0 */
	size_t first;	     /* operand in argv */
	bool asks;	     /* it is to be run again */
};
/* False for a command that runs as a program, such as `env` with arguments. */
bool builtin_is(const struct strv *argv);
int builtin_run(struct builtin_call *c); /* exit code */
