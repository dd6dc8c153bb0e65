// SPDX-License-Identifier: Apache-2.0
/* Policies and sets as files in a list of directories. */
#include "base/fdio.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/proc.h"
#include "policy/policy.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#define FILE_MAX ((size_t)4 * 1024 * 1024)

void policy_dirs_init(struct strv *dirs, const char *configured)
{
	cleanup_free char *beside = mem_printf("%s/packaging/policies", proc_self_dir());

	*dirs = (struct strv){0};
	if (configured != NULL && configured[0] != '\0')
		strv_add(dirs, configured);
	strv_add(dirs, beside);
	strv_add(dirs, AGENTSH_DATADIR "/policies");
}

/* A file that cannot be read still hides the same name in later directories: the first directory
 * belongs to the operator, and a shipped policy may allow more. */
char *policy_find_file(const struct strv *dirs, bool set, const char *name)
{
	struct stat st;

	if (!id_valid(name))
		return NULL;
	for (size_t i = 0; i < dirs->n; i++) {
		cleanup_free char *path =
			mem_printf("%s/%s%s.yaml", dirs->v[i], set ? "sets/" : "", name);

		if (lstat(path, &st) == 0 || (errno != ENOENT && errno != ENOTDIR))
			return take(path);
	}
	return NULL;
}

/* Loads a file that only root or this user can write or replace. */
int policy_read(const char *path, struct buf *out, struct err *err)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	cleanup_free char *dir = mem_strdup(path);
	char *slash = strrchr(dir, '/');
	struct stat st;

	if (slash != NULL)
		slash[slash == dir] = '\0';
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, E_NOT_FOUND, path, "cannot open %s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, E_FORBIDDEN, path, "%s is not a plain file", path);
	if ((st.st_uid != 0 && st.st_uid != geteuid()) || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
		return err_set(
			err, E_FORBIDDEN, path,
			"%s must belong to root or to user %u, and no other user may be able to "
			"write it (chown, chmod go-w)",
			path, (unsigned)geteuid());
	if (stat(slash != NULL ? dir : ".", &st) == 0 && (st.st_mode & S_IWOTH) != 0 &&
	    (st.st_mode & S_ISVTX) == 0)
		return err_set(err, E_FORBIDDEN, path,
			       "every user can write the directory of %s (chmod o-w)", path);
	return fdio_load(fd, FILE_MAX, out, err);
}

char *policy_unknown_name(const struct strv *dirs, const char *name)
{
	cleanup_buf struct buf names = {0};
	struct strv list = {0};

	policy_list(dirs, false, &list);
	for (size_t i = 0; i < list.n; i++)
		buf_addf(&names, "%s'%s'", i > 0 ? ", " : "", list.v[i]);
	strv_done(&list);
	return mem_printf("no policy '%s'; there is %s", name, names.len > 0 ? names.data : "none");
}

char *policy_unknown(const char *configured, const struct strv *names)
{
	struct strv dirs;
	char *text = NULL;

	policy_dirs_init(&dirs, configured);
	for (size_t i = 0; text == NULL && i < names->n; i++) {
		cleanup_free char *path = policy_find_file(&dirs, false, names->v[i]);

		if (path == NULL)
			text = policy_unknown_name(&dirs, names->v[i]);
	}
	strv_done(&dirs);
	return text;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void policy_list(const struct strv *dirs, bool sets, struct strv *out)
{
	for (size_t i = 0; i < dirs->n; i++) {
		cleanup_free char *path = mem_printf("%s%s", dirs->v[i], sets ? "/sets" : "");
		DIR *dir = opendir(path);
		const struct dirent *e;

		while (dir != NULL && (e = readdir(dir)) != NULL) {
			const size_t len = strlen(e->d_name);
			cleanup_free char *name = mem_strndup(e->d_name, len > 5 ? len - 5 : 0);

			if (len > 5 && strcmp(e->d_name + len - 5, ".yaml") == 0 && id_valid(name))
				strv_add_new(out, name);
		}
		if (dir != NULL)
			closedir(dir);
	}
	if (out->n > 0)
		qsort(out->v, out->n, sizeof(*out->v), by_text);
}
