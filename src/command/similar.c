// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "base/yaml.h"
#include "command/run.h"
#include "gate/gate.h"
#include "shell/session_root.h"
#include <dirent.h>

#define DIRS_MAX 32
#define NAMES_MAX 4096 /* of one directory: the loop waits for them */

static void look_in(const struct run *r, const char *dir, const char *name, struct strv *out)
{
	const struct op op = {.class = OP_FILE, .file = {OP_FILE_list, dir}};
	struct strv names = {0};
	const char *near = NULL;
	const struct dirent *e;
	struct verdict v;
	DIR *d;
	int fd;

	/* The answer must not show names of a directory that the session may not list. */
	gate_decide(r->cs->gate, &op, &v);
	fd = v.effective == DECISION_allow ? root_open(r->cs->root_fd, dir) : -1;
	if (fd < 0)
		return;
	d = fdopendir(fd);
	while (d != NULL && names.n < NAMES_MAX && (e = readdir(d)) != NULL)
		strv_add(&names, e->d_name);
	if (d != NULL)
		closedir(d);
	else
		close(fd);
	if (names.n > 0)
		near = yaml_suggest(name, (const char *const *)names.v);
	if (near != NULL) {
		cleanup_free char *path =
			mem_printf("%s/%s", strcmp(dir, "/") == 0 ? "" : dir, near);

		if (root_executable(r->cs->root_fd, path))
			strv_add_new(out, path);
	}
	strv_done(&names);
}

/* Adds the real path of dir, once. */
static void add_dir(const struct run *r, const char *dir, size_t len, struct strv *dirs)
{
	cleanup_free char *given = mem_strndup(dir, len);
	cleanup_free char *joined = root_join(r->cwd, given);
	cleanup_free char *real = root_real(r->cs->root_fd, joined);

	if (real != NULL && dirs->n < DIRS_MAX)
		strv_add_new(dirs, real);
}

void similar_programs(const struct run *r, const char *missing, struct strv *out)
{
	const char *slash = strrchr(missing, '/'), *asked = strv_env_get(&r->ask.env, "PATH");
	const char *dir = asked != NULL ? asked : strv_env_get(&r->cs->memory->env, "PATH");
	struct strv dirs = {0};

	/* Without namespaces the warden sees more than the session. */
	if (!r->cs->namespaces)
		return;
	if (slash != NULL) {
		add_dir(r, missing, (size_t)(slash - missing) + 1, &dirs);
	} else {
		for (; dir != NULL && *dir != '\0'; dir += *dir == ':') {
			const size_t len = strcspn(dir, ":");

			add_dir(r, dir, len, &dirs);
			dir += len;
		}
	}
	for (size_t i = 0; i < dirs.n; i++)
		look_in(r, dirs.v[i], slash != NULL ? slash + 1 : missing, out);
	strv_done(&dirs);
}
