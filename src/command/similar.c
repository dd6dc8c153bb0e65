// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "base/yaml.h"
#include "command/run.h"
#include "gate/gate.h"
#include "shell/session_root.h"
#include <dirent.h>

#define DIRS_MAX 32
#define NAMES_MAX 4096 /* of one directory */

/* path is resolved. */
static bool may(const struct lookup *q, enum op_file what, const char *path)
{
	cleanup_free char *canonical = workspace_canonical(q->names, path);
	const struct op op = {.class = OP_FILE,
			      .file = {what, canonical != NULL ? canonical : path}};
	struct verdict v;

	gate_decide(q->gate, &op, &v);
	return v.effective == DECISION_allow;
}

static void look_in(struct lookup *q, const char *dir, const char *name)
{
	struct strv names = {0};
	const char *near = NULL;
	const struct dirent *e;
	DIR *d;
	int fd;

	/* The answer must not show names of a directory that the session may not list, nor names
	 * that are hidden from it: the warden sees them. */
	fd = may(q, OP_FILE_list, dir) ? root_open(q->root_fd, dir) : -1;
	if (fd < 0)
		return;
	d = fdopendir(fd);
	while (d != NULL && names.n < NAMES_MAX && (e = readdir(d)) != NULL) {
		cleanup_free char *path = mem_printf("%s/%s", dir, e->d_name);

		if (may(q, OP_FILE_stat, path))
			strv_add(&names, e->d_name);
	}
	if (d != NULL)
		closedir(d);
	else
		close(fd);
	if (names.n > 0)
		near = yaml_suggest(name, (const char *const *)names.v);
	if (near != NULL) {
		cleanup_free char *path =
			mem_printf("%s/%s", strcmp(dir, "/") == 0 ? "" : dir, near);

		if (root_executable(q->root_fd, path))
			strv_add_new(&q->similar, path);
	}
	strv_done(&names);
}

/* Adds the real path of dir, once. */
static void add_dir(const struct lookup *q, const char *dir, size_t len, struct strv *dirs)
{
	cleanup_free char *given = mem_strndup(dir, len);
	cleanup_free char *joined = root_join(q->cwd, given);
	cleanup_free char *real = root_real(q->root_fd, joined);

	if (real != NULL && dirs->n < DIRS_MAX)
		strv_add_new(dirs, real);
}

void similar_programs(struct lookup *q)
{
	const char *slash = strrchr(q->missing, '/'), *dir = q->search;
	struct strv dirs = {0};

	if (q->gate == NULL)
		return;
	if (slash != NULL) {
		add_dir(q, q->missing, (size_t)(slash - q->missing) + 1, &dirs);
	} else {
		for (; dir != NULL && *dir != '\0'; dir += *dir == ':') {
			const size_t len = strcspn(dir, ":");

			add_dir(q, dir, len, &dirs);
			dir += len;
		}
	}
	for (size_t i = 0; i < dirs.n; i++)
		look_in(q, dirs.v[i], slash != NULL ? slash + 1 : q->missing);
	strv_done(&dirs);
}
