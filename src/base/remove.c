// SPDX-License-Identifier: Apache-2.0
/* Deep trees are taken apart from above: one descriptor of a directory at a time, no recursion, no
 * path. */
#include "base/remove.h"
#include "base/mem.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_LEN 64

/* The owner of a directory may change its mode, even if the mode lets him do nothing else. */
void remove_open_up(int dir, const char *name)
{
	cleanup_fd int fd = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char self[64];

	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	if (fd != -1)
		chmod(self, 0700);
}

static bool dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* What is in a directory of top goes; directories in it become top's own. */
static void flatten(int top, const char *name, unsigned *number)
{
	cleanup_fd int fd = -1;
	const struct dirent *e;
	DIR *dir;

	remove_open_up(top, name);
	fd = openat(top, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	dir = fd == -1 ? NULL : fdopendir(fd);
	if (dir == NULL)
		return;
	take_fd(fd);
	while ((e = readdir(dir)) != NULL) {
		char to[NAME_LEN];

		if (dots(e->d_name) || unlinkat(dirfd(dir), e->d_name, 0) == 0)
			continue;
		remove_open_up(dirfd(dir), e->d_name);
		snprintf(to, sizeof(to), ".flat-%u", (*number)++);
		renameat(dirfd(dir), e->d_name, top, to);
	}
	closedir(dir);
}

/* Removes what is there now; how much that was. */
static size_t remove_round(int top, unsigned *number)
{
	cleanup_fd int own = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = own == -1 ? NULL : fdopendir(own);
	const struct dirent *e;
	size_t n = 0;

	if (dir == NULL)
		return 0;
	take_fd(own);
	while ((e = readdir(dir)) != NULL) {
		if (dots(e->d_name))
			continue;
		flatten(top, e->d_name, number);
		if (unlinkat(top, e->d_name, AT_REMOVEDIR) == 0 || unlinkat(top, e->d_name, 0) == 0)
			n++;
	}
	closedir(dir);
	return n;
}

void remove_tree(int parent, const char *name)
{
	cleanup_fd int dir = -1;
	unsigned number = 0;

	remove_open_up(parent, name);
	dir = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	while (dir != -1 && remove_round(dir, &number) > 0)
		;
	unlinkat(parent, name, dir != -1 ? AT_REMOVEDIR : 0);
}
