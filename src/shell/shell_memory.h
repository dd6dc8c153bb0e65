// SPDX-License-Identifier: Apache-2.0
/* shell/shell_memory.h - what a session remembers between commands: environment, directory,
 * aliases, history, `$?`.
 *
 * All of it is data; none of it is executed to restore the state. PWD and OLDPWD are not in env:
 * env_build makes them from cwd and oldpwd. */
#pragma once
#include "base/err.h"
#include "base/fields.h"
#include "policy/policy.h"

#define ENV_HOME "/home/agent"
#define ENV_VARS_MAX 2048
#define ENV_PATH_MAX 4096
#define HISTORY_MAX 500
#define HISTORY_LINE_MAX 1024

struct shell_memory {
	struct strv env;
	char *home;	       /* HOME if the session does not set it */
	size_t env_max;	       /* bytes of env */
	char *cwd, *oldpwd;    /* absolute; oldpwd may be NULL */
	struct strv aliases;   /* "name=value" */
	struct strv dirs;      /* pushd's stack without cwd; the last is the top */
	struct strv history;   /* the last HISTORY_MAX lines */
	uint64_t history_base; /* number of the first of them */
	uint32_t last_exit;
	const struct policy *policy; /* borrowed; NULL: it drops nothing */
	struct strv dropped;	     /* names that it dropped since the last command's result */
};

/* Copies; dangerous variables are stripped. */
void shell_memory_init(struct shell_memory *m, const struct strv *env, const char *cwd,
		       size_t env_max);
void shell_memory_done(struct shell_memory *m);
/* From now on variables are dropped by which programs load code: policy_drops_env. */
void shell_memory_bind(struct shell_memory *m, const struct policy *p);
void shell_memory_remember(struct shell_memory *m, const char *line); /* into the history, cut */

bool env_name_valid(const char *name, size_t len); /* as a shell's identifier */
/* Sets a variable unless it is dangerous. E_TOO_LARGE past env_max or ENV_VARS_MAX. */
int env_set(struct shell_memory *m, const char *name, const char *value, struct err *err);
/* Sets one entry unless env would have more than max bytes or most entries: false. */
bool env_put(struct strv *env, const char *name, const char *value, size_t max, size_t most);
/* Changes the directory; the old one becomes OLDPWD. Not checked here. */
void env_chdir(struct shell_memory *m, const char *path);

/* Names of variables that differ between two environments, each once. */
void env_changes(const struct strv *before, const struct strv *after, struct strv *names);

struct env_ask {
	const char *session_id;
	const char *cwd;	    /* of this command */
	const struct strv *request; /* for this command only; may be NULL */
	struct strv *dropped;	    /* gets names that the policy drops; may be NULL */
};
/* The whole environment of one command. */
void env_build(const struct shell_memory *m, const struct env_ask *ask, struct strv *out);
/* Takes over what a shell changed: given is what it began with, captured what it ended with (is
 * stripped). E_TOO_LARGE leaves everything as it was. */
int env_apply(struct shell_memory *m, const struct strv *given, struct strv *captured,
	      struct err *err);
