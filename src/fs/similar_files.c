// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "base/path.h"
#include "base/yaml.h"
#include "fs/fs_state.h"
#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <strings.h>
#include <sys/syscall.h>

#define NAMES_MAX 4096 /* of the directory */
#define SHOWN_MAX 5
#define STEM_MIN 3 /* characters that two names must have in common */

/* The directory below the root, by a path that leads nowhere else. */
static DIR *open_beneath(int root, const char *path)
{
	struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
			       .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
					  RESOLVE_NO_MAGICLINKS};
	const int fd =
		(int)syscall(SYS_openat2, root, path[0] != '\0' ? path : ".", &how, sizeof(how));
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;

	if (d == NULL && fd >= 0)
		close(fd);
	return d;
}

static void add(const char *dir, const char *name, struct strv *out)
{
	cleanup_free char *path = mem_printf("%s/%s", dir, name);

	if (out->n < SHOWN_MAX)
		strv_add_new(out, path);
}

void similar_files(const struct similar_ask *ask, const char *path, struct strv *out)
{
	const char *slash = strrchr(path, '/'), *near;
	cleanup_free char *dir = mem_strndup(path, slash != NULL ? (size_t)(slash - path) : 0);
	struct strv names = {0};
	const struct dirent *e;
	char other[POLICY_NAME_MAX];
	const char *inside;
	DIR *d;

	if (!path_within(dir, ask->shown) || !ask->allows(ask->arg, dir, OP_FILE_list))
		return;
	inside = dir + strlen(ask->shown);
	if (ask->redirects != NULL && ask->redirects(ask->arg, dir, other))
		inside = other;
	d = open_beneath(ask->root, inside + strspn(inside, "/"));
	while (d != NULL && names.n < NAMES_MAX && (e = readdir(d)) != NULL) {
		cleanup_free char *one = mem_printf("%s/%s", dir, e->d_name);

		if (e->d_name[0] != '.' && ask->allows(ask->arg, one, OP_FILE_stat))
			strv_add(&names, e->d_name);
	}
	if (d != NULL)
		closedir(d);
	near = names.n > 0 ? yaml_suggest(slash + 1, (const char *const *)names.v) : NULL;
	if (near != NULL)
		add(dir, near, out);
	/* "missing.txt", "missing-backup.txt": one begins with all of the other but its ending */
	for (size_t i = 0; i < names.n; i++) {
		const size_t na = strcspn(slash + 1, "."), nb = strcspn(names.v[i], ".");
		const size_t stem = na < nb ? na : nb;

		if (stem >= STEM_MIN && strncasecmp(slash + 1, names.v[i], stem) == 0)
			add(dir, names.v[i], out);
	}
	strv_done(&names);
}

static bool allows(void *arg, const char *path, enum op_file op)
{
	return watch_allows(arg, path, 1U << (unsigned)op);
}

static bool redirects(void *arg, const char *dir, char out[POLICY_NAME_MAX])
{
	struct watch_target to;

	if (watch_target(arg, dir, &to) <= 0)
		return false;
	strcpy(out, to.path);
	return true;
}

void fs_similar(struct fs *fs, const char *path, struct strv *out)
{
	const char *rest;
	const struct fs_tree *t = fs_tree_of(fs, path, &rest);

	if (t != NULL)
		similar_files(&(struct similar_ask){t->root, t->shown, allows, redirects, fs}, path,
			      out);
}
