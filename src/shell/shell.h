// SPDX-License-Identifier: Apache-2.0
/* shell/shell.h - runs a script in a shell so that its final state comes back as data.
 *
 * Our text runs before the script's first byte, so that nothing in the script (a comment,
 * a here-document, a backslash at the end, `exit`, `set -e`, a syntax error) can damage it: an EXIT
 * trap that runs the capture program, and a `trap` that keeps a user's EXIT handler beside ours.
 * Our text travels in the environment (and leaves it at once): messages of the shell show the
 * script's own lines and numbers.
 *
 * bash: where no command of a script is `trap` (or may read other commands), the capture program
 * takes the shell's place at the shell's end, if that end is certain. For other scripts
 * `trap` is a function; its larger part is parsed when it is first called. DEBUG, RETURN and ERR
 * handlers of the user would be seen, or lost, inside that function: they are wrapped or kept as
 * well. Other shells (special builtins win over functions): `trap` is an alias, which needs a line
 * of its own, so that the script is given as an argument and evaluated. */
#pragma once
#include "base/fields.h"
#include <stdint.h>

struct shell_ask {
	const char
		*shell; /* path inside the session; "bash" as the last part chooses bash's form */
	const char *argv0; /* NULL: the shell's name */
	const char *script;
	/* Program that runs at the end, as a word of a shell. With an argument it runs in the
	 * shell's place, and must end with this status. */
	const char *capture;
	uint32_t last_exit; /* `$?` at the script's beginning */
};
/* Adds the arguments to argv and our text to env. */
void shell_argv(const struct shell_ask *ask, struct strv *argv, struct strv *env);
/* asked: a path or a name; else bash, else sh. The path is the caller's to free. */
char *shell_find(int root_fd, const char *asked);
