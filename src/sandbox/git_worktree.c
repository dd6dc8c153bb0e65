// SPDX-License-Identifier: Apache-2.0
/* A linked worktree of git has a file .git that names a directory of its repository, which a
 * session needs too. An agent can write such a file. So the repository must prove that the
 * workspace is one of its worktrees: only its owner, outside of the session, can have written that.
 * A child with the owner's ids reads these files; the launcher gets the repository as a descriptor.
 */
#include "base/fdio.h"
#include "base/mem.h"
#include "base/path.h"
#include "sandbox/as_user.h"
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

/* The file may be a device or a FIFO, which is not opened. */
static int open_plain(const char *path)
{
	cleanup_fd int at = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	char self[64];

	if (at == -1 || fstat(at, &st) < 0 || !S_ISREG(st.st_mode))
		return -1;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", at);
	return open(self, O_RDONLY | O_CLOEXEC);
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

struct worktree_ask {
	const char *path;
	const struct sandbox_plan *plan;
};

/* What lies in a list is shown already. */
static bool is_listed(const struct sandbox_plan *plan, const char *dir)
{
	const struct strv *const lists[] = {&plan->read_only_paths, &plan->passthrough_paths,
					    &plan->monitored_paths};

	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		for (size_t k = 0; k < lists[i]->n; k++)
			if (path_within(dir, lists[i]->v[k]))
				return true;
	return false;
}

/* Tells the workspace's real path, the repository and the worktree's name, a line each. */
static void worktree_look(void *arg, struct findings *f)
{
	const struct worktree_ask *ask = arg;
	struct sandbox_plan plan = *ask->plan;
	cleanup_free char *git = mem_printf("%s/.git", ask->path), *dir = NULL;
	cleanup_fd int file = open_plain(git), fd = -1;
	char real[PATH_MAX], found[PATH_MAX], *name;

	if (file == -1 || realpath(ask->path, real) == NULL || strchr(real, '\n') != NULL)
		return;
	dir = path_in(file, PREFIX, real);
	name = dir != NULL ? cut(dir) : NULL;
	if (name == NULL || path_overlap(dir, real) || is_listed(&plan, dir))
		return;
	fd = open(dir, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	plan.real_path = real;
	plan.repository = dir;
	plan.worktree = name;
	if (fd == -1 || mnt_name(fd, found) <= 0 || strcmp(found, dir) != 0 ||
	    !repository_is_proven(&plan, fd))
		return;
	buf_addf(&f->text, "%s\n%s\n%s\n", real, dir, name);
	f->fd[f->n++] = take_fd(fd);
}

static bool has_git_file(const struct sandbox_workspace_ask *ask, bool privileged)
{
	cleanup_free char *git = mem_printf("%s/.git", ask->path);
	cleanup_fd int at = -1;
	struct stat st;

	return open_as_caller(ask, privileged, git, O_PATH | O_NOFOLLOW, &at, NULL) == 0 &&
	       fstat(at, &st) == 0 && S_ISREG(st.st_mode);
}

void sandbox_worktree(const struct sandbox_workspace_ask *ask, struct sandbox_plan *plan)
{
	struct worktree_ask look = {ask->path, plan};
	const struct as_user owner = {plan->owner_uid, plan->owner_gid, plan->privileged != 0,
				      worktree_look, &look};
	char **const to[] = {&plan->real_path, &plan->repository, &plan->worktree};
	struct findings f;
	char *save = NULL;

	if ((ask->uid != 0 && ask->uid != plan->owner_uid) ||
	    !has_git_file(ask, plan->privileged != 0))
		return;
	as_user_look(&owner, &f);
	if (f.text.len > 0 && f.n == 1) {
		for (size_t i = 0; i < ARRAY_LEN(to); i++)
			mem_replace(to[i],
				    mem_strdup(strtok_r(i == 0 ? f.text.data : NULL, "\n", &save)));
		strv_add(&plan->monitored_paths, plan->repository);
		*ask->repository = take_fd(f.fd[0]);
	}
	findings_done(&f);
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
