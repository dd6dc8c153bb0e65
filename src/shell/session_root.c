// SPDX-License-Identifier: Apache-2.0
#include "shell/session_root.h"
#include "base/fdio.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>

#define PASSWD_MAX (1024 * 1024)

char *root_join(const char *cwd, const char *path)
{
	return path[0] == '/' ? mem_strdup(path) : mem_printf("%s/%s", cwd, path);
}

static int open_dir(int root_fd, const char *path)
{
	return fdio_openat2(root_fd, path, O_PATH | O_DIRECTORY, RESOLVE_IN_ROOT);
}

int root_dir(int root_fd, const char *path)
{
	cleanup_fd int fd = open_dir(root_fd, path);

	if (fd < 0 || faccessat(fd, "", X_OK, AT_EMPTY_PATH) < 0)
		return errno;
	return 0;
}

char *root_real(int root_fd, const char *path)
{
	cleanup_fd int fd = open_dir(root_fd, path);
	cleanup_fd int again = -1;
	char name[64], real[PATH_MAX];
	struct stat st, st_again;
	ssize_t n;

	if (fd < 0)
		return NULL;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	n = readlink(name, real, sizeof(real) - 1);
	if (n < 0)
		return NULL;
	real[n] = '\0';
	/* The kernel names a mount of another namespace by its path there. The path counts only if
	 * it leads back. */
	again = open_dir(root_fd, real);
	if (again < 0 || fstat(fd, &st) < 0 || fstat(again, &st_again) < 0 ||
	    st.st_dev != st_again.st_dev || st.st_ino != st_again.st_ino) {
		errno = ENOENT;
		return NULL;
	}
	return mem_strdup(real);
}

void root_enter(int root_fd, struct root_enter *ask)
{
	/* `missing/..` does not lead here. */
	ask->errnum = root_dir(root_fd, ask->whole);
	if (ask->errnum == 0 && strcmp(ask->whole, ask->logical) != 0)
		ask->errnum = root_dir(root_fd, ask->logical);
	if (ask->errnum == 0 && ask->physical) {
		ask->real = root_real(root_fd, ask->logical);
		ask->errnum = ask->real == NULL ? errno : 0;
	}
	ask->answered = true;
}

void root_enter_done(struct root_enter *ask)
{
	free(ask->whole);
	free(ask->logical);
	free(ask->real);
	*ask = (struct root_enter){0};
}

bool root_executable(int root_fd, const char *path)
{
	cleanup_fd int fd = fdio_openat2(root_fd, path, O_PATH, RESOLVE_IN_ROOT);
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	       faccessat(fd, "", X_OK, AT_EMPTY_PATH) == 0;
}

int root_open(int root_fd, const char *path)
{
	return fdio_openat2(root_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, RESOLVE_IN_ROOT);
}

char *root_home_of(int root_fd, const char *user, size_t len)
{
	cleanup_fd int fd = root_open(root_fd, "/etc/passwd");
	cleanup_buf struct buf text = {0};
	char *line, *next, *home = NULL;

	if (len == 0 || fd < 0 || fdio_load(fd, PASSWD_MAX, &text, NULL) < 0)
		return NULL;
	/* name:password:uid:gid:gecos:HOME:shell */
	for (next = text.data; home == NULL && (line = strsep(&next, "\n")) != NULL;)
		if (strncmp(line, user, len) == 0 && line[len] == ':')
			for (int field = 0; field < 6; field++)
				home = strsep(&line, ":");
	return mem_strdup(home);
}
