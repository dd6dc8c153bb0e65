// SPDX-License-Identifier: Apache-2.0
/* A linked worktree of git has a file .git that names a directory of its repository, which a
 * session needs too. An agent can write such a file. So the repository must prove that the
 * workspace is one of its worktrees: only its owner, outside of the session, can have written that.
 */
#include "base/fdio.h"
#include "base/mem.h"
#include "base/path.h"
#include "sandbox/mnt.h"
#include "sandbox/sandbox.h"
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>

#define FILE_MAX (PATH_MAX + 64)
#define PREFIX "gitdir: "
#define WORKTREES "/worktrees/"

/* The path in a file of one line, made absolute; the caller frees it. NULL: it has no path. */
static char *path_in(int fd, const char *prefix, const char *base)
{
	cleanup_buf struct buf text = {0};

	if (fdio_load(fd, FILE_MAX, &text, NULL) < 0 || text.data == NULL ||
	    strlen(text.data) != text.len || strncmp(text.data, prefix, strlen(prefix)) != 0)
		return NULL;
	text.data[strcspn(text.data, "\n")] = '\0';
	return text.data[strlen(prefix)] != '\0' ? path_clean(base, text.data + strlen(prefix))
						 : NULL;
}

/* With the caller's ids. The file may be a device or a FIFO, which is not opened. */
static int open_plain(const struct sandbox_workspace_ask *ask, bool privileged, const char *path)
{
	cleanup_fd int at = -1;
	struct stat st;
	char self[64];
	int fd = -1;

	if (open_as_caller(ask, privileged, path, O_PATH | O_NOFOLLOW, &at, NULL) < 0 ||
	    fstat(at, &st) < 0 || !S_ISREG(st.st_mode))
		return -1;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", at);
	return open_as_caller(ask, privileged, self, O_RDONLY, &fd, NULL) < 0 ? -1 : fd;
}

/* Cuts "REPOSITORY/worktrees/NAME" after REPOSITORY. Returns NAME, or NULL. */
static char *cut(char *dir)
{
	char *name = strrchr(dir, '/'), *middle;

	if (name == NULL)
		return NULL;
	*name++ = '\0';
	middle = strrchr(dir, '/');
	if (middle == NULL || middle == dir || strcmp(middle, "/worktrees") != 0)
		return NULL;
	*middle = '\0';
	return name;
}

void sandbox_worktree(const struct sandbox_workspace_ask *ask, struct sandbox_plan *plan)
{
	const struct strv *const lists[] = {&plan->read_only_paths, &plan->passthrough_paths,
					    &plan->monitored_paths};
	const bool privileged = plan->privileged != 0;
	cleanup_free char *git = mem_printf("%s/.git", ask->path), *dir = NULL;
	cleanup_fd int file = open_plain(ask, privileged, git), here = -1, fd = -1;
	char real[PATH_MAX], *name;

	if (file == -1 ||
	    open_as_caller(ask, privileged, ask->path, O_PATH | O_DIRECTORY, &here, NULL) < 0 ||
	    mnt_name(here, real) <= 0)
		return;
	dir = path_in(file, PREFIX, real);
	name = dir != NULL ? cut(dir) : NULL;
	if (name == NULL || path_overlap(dir, real))
		return;
	/* What lies in a list is shown already. */
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		for (size_t k = 0; k < lists[i]->n; k++)
			if (path_within(dir, lists[i]->v[k]))
				return;
	if (open_as_caller(ask, privileged, dir, O_PATH | O_DIRECTORY | O_NOFOLLOW, &fd, NULL) < 0)
		return;
	mem_replace(&plan->real_path, mem_strdup(real));
	plan->worktree = mem_strdup(name);
	plan->repository = take(dir);
	if (mnt_name(fd, real) > 0 && strcmp(real, plan->repository) == 0 &&
	    repository_is_proven(plan, fd)) {
		strv_add(&plan->passthrough_paths, plan->repository);
		return;
	}
	mem_replace(&plan->worktree, NULL);
	mem_replace(&plan->repository, NULL);
}

bool repository_is_proven(const struct sandbox_plan *plan, int dir)
{
	static const char *const parts[] = {"HEAD", "objects", "refs"};
	const uid_t owner = plan->privileged ? plan->owner_uid : geteuid();
	cleanup_free char *base = mem_printf("%s" WORKTREES "%s", plan->repository, plan->worktree);
	cleanup_free char *link = mem_printf("worktrees/%s/gitdir", plan->worktree);
	cleanup_free char *want = mem_printf("%s/.git", plan->real_path), *got = NULL;
	cleanup_fd int fd = -1;
	struct stat st;

	if (fstat(dir, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_uid != owner)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		if (fstatat(dir, parts[i], &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_uid != owner)
			return false;
	fd = fdio_openat2(dir, link, O_RDONLY | O_NONBLOCK | O_NOCTTY,
			  RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
	if (fd == -1 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != owner)
		return false;
	got = path_in(fd, "", base);
	return got != NULL && strcmp(got, want) == 0;
}
