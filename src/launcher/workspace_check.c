// SPDX-License-Identifier: Apache-2.0
/* Which directories cannot be a workspace, regardless of their owner: those of the server and of
 * the system. sandbox/workspace_tree.c has checked the kernel's (/proc, /sys, /dev) and the owner
 * before. */
#include "launcher/workspace_check.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/proc.h"
#include "launcher/launcher_state.h"

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

/* A user who can write to these, or replace a directory above them, controls the server: they are
 * its sockets, database, keys, configuration and policies. */
static int check_own_places(const struct launcher *l, const char *workspace, struct err *err)
{
	const struct config *c = &l->settings.config;
	const struct {
		const char *path;
		bool tree; /* nothing below it is a workspace either */
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

/* The configuration may list the workspace itself, or a directory above it that is in place. An
 * entry that contains place is too wide: its author did not think of place. */
static int refuse(const struct launcher *l, const char *workspace, const char *place,
		  struct err *err)
{
	const struct strv *list = &l->settings.config.workspaces;

	for (size_t i = 0; i < list->n; i++) {
		cleanup_free char *real = real_path(list->v[i]);

		if (strcmp(real, workspace) == 0 ||
		    (path_within(workspace, real) && path_within(real, place)))
			return 0;
	}
	return err_set(err, E_FORBIDDEN, workspace,
		       "workspace %s would let the session write to %s, which is the system's: "
		       "choose another directory, or list this one in sandbox.workspaces",
		       workspace, place);
}

/* A session must not change what the machine runs on, or what it sees as read-only, even as root.
 * Projects may lie in such places, but not in /etc and /boot. */
static int check_system(const struct launcher *l, const char *workspace, struct err *err)
{
	static const struct {
		const char *path;
		bool tree;
	} system[] = {{"/etc", true}, {"/boot", true}, {"/var", false}, {"/run", false}};
	const struct strv *const shown[] = {&l->settings.config.read_only_paths,
					    &l->settings.config.passthrough_paths};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(system); i++)
		if (path_within(system[i].path, workspace) ||
		    (system[i].tree && path_within(workspace, system[i].path)))
			r = refuse(l, workspace, system[i].path, err);
	for (size_t i = 0; i < ARRAY_LEN(shown); i++)
		for (size_t k = 0; r == 0 && k < shown[i]->n; k++) {
			cleanup_free char *real = real_path(shown[i]->v[k]);

			/* /workspace is the name of each session's own workspace */
			if (strcmp(shown[i]->v[k], "/workspace") != 0 &&
			    path_within(real, workspace))
				r = refuse(l, workspace, real, err);
		}
	return r;
}

/* ---- programs ---- */

#define MAPS_MAX (4 << 20)

static void guard(struct strv *out, const char *dir)
{
	cleanup_free char *real = dir[0] == '/' ? realpath(dir, NULL) : NULL;

	/* "/" is above every workspace. */
	if (real != NULL && strcmp(real, "/") != 0)
		strv_add_new(out, real);
}

static void guard_file(struct strv *out, const char *path)
{
	cleanup_free char *dir = mem_strndup(path, (size_t)(strrchr(path, '/') - path));

	guard(out, dir);
}

static void guard_path(struct strv *out, const char *list)
{
	cleanup_free char *copy = mem_strdup(list);
	char *next = copy, *dir;

	while ((dir = strsep(&next, ":")) != NULL)
		guard(out, dir);
}

/* The launcher's own libraries; our other programs take theirs from the same directories. */
static void guard_libraries(struct strv *out)
{
	cleanup_buf struct buf maps = {0};
	char *next, *line;

	if (fdio_load_path("/proc/self/maps", MAPS_MAX, &maps, NULL) < 0)
		return;
	for (next = maps.data; (line = strsep(&next, "\n")) != NULL;)
		if (strchr(line, '/') != NULL)
			guard_file(out, strchr(line, '/'));
}

void workspace_guard(struct strv *out)
{
	guard(out, proc_self_dir());
	for (size_t i = 0; i <= PROGRAMS; i++) {
		cleanup_free char *path = NULL, *real = NULL;

		if (proc_sibling(i < PROGRAMS ? program_name(i) : "agentsh-state", &path, NULL) < 0)
			continue;
		guard_file(out, path);
		real = realpath(path, NULL); /* agentsh-check is a link */
		if (real != NULL)
			guard_file(out, real);
	}
	guard_libraries(out);
	guard_path(out, getenv("LD_LIBRARY_PATH"));
	guard_path(out, getenv("PATH"));
}

static void add_inside(struct strv *out, const char *workspace, const char *real)
{
	cleanup_free char *inside = path_swap(real, workspace, "/workspace");

	strv_add_new(out, inside);
}

int workspace_check(const struct launcher *l, const char *workspace, struct sandbox_plan *plan,
		    struct err *err)
{
	const struct strv *blocked = &l->settings.config.blocked_paths;
	int r = check_own_places(l, workspace, err);

	if (r == 0)
		r = check_system(l, workspace, err);
	if (r < 0)
		return r;
	/* The server's user, maybe root, runs the programs of these directories at its next start.
	 */
	for (size_t i = 0; i < l->guarded.n; i++) {
		const char *dir = l->guarded.v[i];

		if (path_within(workspace, dir))
			return err_set(err, E_FORBIDDEN, workspace,
				       "workspace %s lies in %s, from where the server takes "
				       "programs or libraries: choose a directory apart from it",
				       workspace, dir);
		if (path_within(dir, workspace))
			add_inside(&plan->shut_inside, workspace, dir);
	}
	/* A blocked path of the host is blocked by its name in the workspace, too. */
	for (size_t i = 0; i < blocked->n; i++) {
		cleanup_free char *real = realpath(blocked->v[i], NULL);

		if (real == NULL || path_within(blocked->v[i], "/workspace"))
			continue;
		if (path_within(workspace, real))
			return err_set(err, E_FORBIDDEN, workspace,
				       "workspace %s lies in %s, which filesystem.blocked_paths "
				       "blocks: choose another directory",
				       workspace, blocked->v[i]);
		if (path_within(real, workspace))
			add_inside(&plan->blocked_inside, workspace, real);
	}
	return 0;
}
