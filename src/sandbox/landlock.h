// SPDX-License-Identifier: Apache-2.0
/* sandbox/landlock.h - the second wall around files, and scopes of signals and abstract sockets:
 * landlock(7).
 *
 * init makes a ruleset and enters it before the filter; all processes that it starts are in its
 * domain. The kernel refuses access to every path without a rule; files that are already open stay
 * usable. Raw system calls, for static programs. */
#pragma once
#include "base/err.h"
#include "model/wall.h"
#include <stddef.h>
#include <stdint.h>

enum landlock_access {
	LANDLOCK_READ = 1,   /* files and directories */
	LANDLOCK_CHANGE = 2, /* files; ioctl of devices */
	LANDLOCK_EXEC = 4,
	LANDLOCK_LIST = 8, /* the names in directories; READ has it */
	LANDLOCK_TRUNCATE = 16,
	LANDLOCK_MAKE = 32, /* anything but a link */
	LANDLOCK_REMOVE = 64,
	LANDLOCK_SYMLINK = 128,
	LANDLOCK_MOVE = 256, /* between directories, hard links too */
	LANDLOCK_WRITE = LANDLOCK_CHANGE | LANDLOCK_TRUNCATE | LANDLOCK_MAKE | LANDLOCK_REMOVE |
			 LANDLOCK_SYMLINK | LANDLOCK_MOVE,
	LANDLOCK_ALL = LANDLOCK_READ | LANDLOCK_WRITE | LANDLOCK_EXEC,
};
/* A rule for a file of another kind is an error: if a link of the path leads to a directory, the
 * rule would open all below it. */
enum landlock_kind { LANDLOCK_TREE, LANDLOCK_FILE, LANDLOCK_DEVICE };
#define LANDLOCK_TRUNCATE_ABI 3 /* the first ABI that has TRUNCATE */
#define LANDLOCK_SCOPES_ABI 6	/* the first ABI that has scopes */
enum landlock_scope { LANDLOCK_ABSTRACT_SOCKETS = 1, LANDLOCK_SIGNALS = 2 };

struct landlock_rule {
	int dir;	  /* borrowed; AT_FDCWD for an absolute path */
	const char *path; /* below dir; NULL: dir itself */
	enum landlock_kind kind;
	unsigned access; /* LANDLOCK_READ … */
	bool may_lack;	 /* no error if it does not exist */
};
struct landlock_ask {
	const struct landlock_rule *rules;
	size_t nrules;
	unsigned scopes; /* of enum landlock_scope; missing ones are reported */
	int abi;	 /* 0: the running kernel's; else at most this one */
};

/* The ABI of the running kernel; 0: it has no Landlock, or Landlock is off. */
int landlock_abi(void);
/* If *ruleset is -1, makes the ruleset (close-on-exec, owned by the caller) with the rules and
 * writes the wall's entry: up, or partial with what the ABI lacks. Else adds the rules to it.
 * E_ENFORCEMENT, subject "landlock"; then a ruleset that was there has some of the rules. */
int landlock_prepare(const struct landlock_ask *ask, int *ruleset, struct wall_report *walls,
		     struct err *err);
/* Needs no_new_privs. 0 or an errno. */
int landlock_enter(int ruleset);
/* A further domain that only has scopes (ABI 6): the caller can no longer reach processes of its
 * old domain that are not in the new one. 0 or an errno. */
int landlock_enter_scopes(unsigned scopes);
