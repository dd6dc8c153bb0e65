// SPDX-License-Identifier: Apache-2.0
#include "base/fdio.h"
#include "base/mem.h"
#include "base/path.h"
#include "cli/cli.h"
#include <pwd.h>
#include <sys/stat.h>

#define GIT_FILE_MAX 8192

/* A repository has a directory .git; a linked worktree has a file that names its repository. A
 * submodule has such a file too, but belongs to the repository above it. */
static bool is_root(const char *dir)
{
	cleanup_free char *git = mem_printf("%s/.git", dir);
	cleanup_buf struct buf text = {0};
	struct stat st;

	if (lstat(git, &st) < 0)
		return false;
	return S_ISDIR(st.st_mode) ||
	       (S_ISREG(st.st_mode) && fdio_load_path(git, GIT_FILE_MAX, &text, NULL) == 0 &&
		text.data != NULL && strstr(text.data, "/worktrees/") != NULL);
}

/* A repository in the caller's home directory itself would show all of the home. */
static bool contains(const char *dir, const char *home)
{
	cleanup_free char *real = home != NULL ? realpath(home, NULL) : NULL;

	return real != NULL && path_within(real, dir);
}

char *cli_run_root(const char *here)
{
	const struct passwd *pw = getpwuid(geteuid());
	cleanup_free char *dir = mem_strdup(here);
	struct stat st;

	while (dir[1] != '\0' && !is_root(dir)) {
		char *slash = strrchr(dir, '/');

		slash[slash == dir] = '\0';
	}
	if (dir[1] == '\0' || stat(dir, &st) < 0 || st.st_uid != geteuid() ||
	    contains(dir, getenv("HOME")) || contains(dir, pw != NULL ? pw->pw_dir : NULL))
		return mem_strdup(here);
	return take(dir);
}
