// SPDX-License-Identifier: Apache-2.0
/* Which directories are nobody's workspace, whoever owns them: the server's own and the system's.
 * sandbox/workspace.c has checked the kernel's (/proc, /sys, /dev) and the owner before. */
#include "base/mem.h"
#include "base/path.h"
#include "launcher/state.h"
#include <limits.h>

/* Where a path leads, also if its last parts do not exist; owned by the caller. */
static char *real_path(const char *path)
{
	cleanup_free char *head = mem_strdup(path);
	char *real = realpath(head, NULL), *slash;

	while (real == NULL && (slash = strrchr(head, '/')) != NULL && slash != head) {
		cleanup_free char *above = NULL;

		*slash = '\0';
		above = realpath(head, NULL);
		if (above != NULL)
			real = mem_printf("%s%s", strcmp(above, "/") == 0 ? "" : above,
					  path + (slash - head));
	}
	return real != NULL ? real : mem_strdup(path);
}

/* Whoever can write below the workspace, or put another directory in the place of one above these,
 * would be the server's master: its sockets, database, keys, configuration and policies. */
static int check_own_places(const struct launcher *l, const char *workspace, struct err *err)
{
	const struct config *c = &l->settings.config;
	const struct {
		const char *path;
		bool tree; /* nothing below it is anybody's workspace either */
	} own[] = {
		{l->place.runtime, true}, {c->base_dir, true},	     {c->policy_dir, true},
		{l->source.path, false},  {c->api_keys_file, false}, {c->events_db, false},
		{c->jsonl_path, false},	  {c->log_output, false},
	};

	for (size_t i = 0; i < ARRAY_LEN(own); i++) {
		cleanup_free char *real = NULL;

		if (own[i].path == NULL || own[i].path[0] != '/')
			continue;
		real = real_path(own[i].path);
		if (path_within(real, workspace) || (own[i].tree && path_within(workspace, real)))
			return err_set(err, E_FORBIDDEN, workspace,
				       "workspace %s would show %s, which is the server's: choose "
				       "a directory apart from it (cd into a project, or "
				       "--workspace DIR), or move the server's by its "
				       "configuration (sessions.base_dir, server.unix_socket, "
				       "policies.dir)",
				       workspace, real);
	}
	return 0;
}

/* A workspace that the configuration lists by itself, or in such a place: whoever lists what is
 * above the place does not have it in mind. */
static bool meant(const struct launcher *l, const char *workspace, const char *place)
{
	const struct strv *list = &l->settings.config.workspaces;

	for (size_t i = 0; i < list->n; i++) {
		cleanup_free char *real = real_path(list->v[i]);

		if (strcmp(real, workspace) == 0 ||
		    (path_within(workspace, real) && path_within(real, place)))
			return true;
	}
	return false;
}

static int refuse(const struct launcher *l, const char *workspace, const char *place,
		  struct err *err)
{
	if (meant(l, workspace, place))
		return 0;
	return err_set(err, E_FORBIDDEN, workspace,
		       "workspace %s would let the session write to %s, which is the system's: "
		       "choose another directory, or list this one in sandbox.workspaces",
		       workspace, place);
}

/* What the machine is run by, and what a session sees as read-only, is no session's to change, not
 * even root's. Projects may lie in such places, but not in /etc and /boot. */
static int check_system(const struct launcher *l, const char *workspace, struct err *err)
{
	static const struct {
		const char *path;
		bool tree;
	} system[] = {{"/etc", true}, {"/boot", true}, {"/var", false}, {"/run", false}};

	for (size_t i = 0; i < ARRAY_LEN(system); i++)
		if (path_within(system[i].path, workspace) ||
		    (system[i].tree && path_within(workspace, system[i].path))) {
			const int r = refuse(l, workspace, system[i].path, err);

			if (r < 0)
				return r;
		}
	return 0;
}

static int check_shown(const struct launcher *l, const char *workspace, const struct strv *paths,
		       struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < paths->n; i++) {
		cleanup_free char *real = real_path(paths->v[i]);

		/* that name is each session's own workspace */
		if (strcmp(paths->v[i], "/workspace") != 0 && path_within(real, workspace))
			r = refuse(l, workspace, real, err);
	}
	return r;
}

int workspace_check(const struct launcher *l, const char *workspace, struct err *err)
{
	const struct config *c = &l->settings.config;
	int r = check_own_places(l, workspace, err);

	if (r == 0)
		r = check_system(l, workspace, err);
	if (r == 0)
		r = check_shown(l, workspace, &c->read_only_paths, err);
	return r < 0 ? r : check_shown(l, workspace, &c->passthrough_paths, err);
}
