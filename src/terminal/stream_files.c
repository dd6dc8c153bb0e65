// SPDX-License-Identifier: Apache-2.0
/* The files DIR/SESSION/NAME.out and .err. Only the API child calls these functions. */
#include "base/fdio.h"
#include "base/id.h"
#include "base/mem.h"
#include "terminal/stream.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

static const char *const ending[2] = {".out", ".err"};
#define ENDING_LEN 4
#define NAME_MAX_LEN (2 * ID_MAX + ENDING_LEN + 2)

/* False for names that could leave the directory. */
static bool file_name(char out[NAME_MAX_LEN], const char *session, const char *command, int i)
{
	if (!id_valid(session) || !id_valid(command))
		return false;
	snprintf(out, NAME_MAX_LEN, "%s/%s%s", session, command, ending[i]);
	return true;
}

int stream_file_create(int dir_fd, const char *session, const char *command, int which)
{
	const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
	char name[NAME_MAX_LEN];
	int fd;

	if (!file_name(name, session, command, which - 1)) {
		errno = EINVAL;
		return -1;
	}
	fd = openat(dir_fd, name, flags, 0600);
	if (fd >= 0 || errno != ENOENT)
		return fd;
	if (mkdirat(dir_fd, session, 0700) < 0 && errno != EEXIST)
		return -1;
	return openat(dir_fd, name, flags, 0600);
}

int stream_file_open(int dir_fd, const char *session, const char *command, int which,
		     struct err *err, int *fd)
{
	char name[NAME_MAX_LEN];
	int got;

	ensure(which == 1 || which == 2);
	errno = ENOENT;
	got = file_name(name, session, command, which - 1)
		      ? openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
		      : -1;
	if (got < 0 && errno == ENOENT)
		return err_set(err, E_NOT_FOUND, command, "no output of '%s'", command);
	if (got < 0)
		return err_errno(err,
				 errno == EMFILE || errno == ENFILE || errno == ENOMEM
					 ? E_UNAVAILABLE
					 : E_INTERNAL,
				 command, "cannot open the output");
	*fd = got;
	return 0;
}

void stream_file_remove(int dir_fd, const char *session, const char *name, int which)
{
	char path[NAME_MAX_LEN];

	if (file_name(path, session, name, which - 1))
		unlinkat(dir_fd, path, 0);
	if (id_valid(session)) /* fails while the directory has other files */
		unlinkat(dir_fd, session, AT_REMOVEDIR);
}

/* One file of the directory. */
struct file_entry {
	char session[ID_MAX + 1], name[ID_MAX + 1];
	int which;
	uint64_t bytes;
	int64_t written_us;
};

static DIR *open_dir(int dir_fd, const char *name)
{
	const int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (d == NULL && fd >= 0)
		close(fd);
	return d;
}

/* Adds the files of a session; skips names that stream_file_create does not make. */
static void list_session(int dir_fd, const char *session, struct buf *entries)
{
	DIR *d = open_dir(dir_fd, session);
	const struct dirent *de;
	struct stat st;

	while (d != NULL && (de = readdir(d)) != NULL) {
		const size_t n = strlen(de->d_name), len = n > ENDING_LEN ? n - ENDING_LEN : 0;
		struct file_entry e = {0};

		if (len == 0 || len > ID_MAX)
			continue;
		memcpy(e.name, de->d_name, len);
		memcpy(e.session, session, strlen(session));
		for (int i = 0; i < 2; i++)
			if (strcmp(de->d_name + len, ending[i]) == 0)
				e.which = i + 1;
		if (e.which == 0 || !id_valid(e.name) ||
		    fstatat(dirfd(d), de->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		e.bytes = (uint64_t)st.st_size;
		e.written_us = (int64_t)st.st_mtim.tv_sec * 1000000 + st.st_mtim.tv_nsec / 1000;
		buf_add(entries, &e, sizeof(e));
	}
	if (d != NULL)
		closedir(d);
}

static int by_age(const void *a, const void *b)
{
	const struct file_entry *x = a, *y = b;

	return (x->written_us > y->written_us) - (x->written_us < y->written_us);
}

uint64_t stream_sweep(int dir_fd, uint64_t quota, int64_t max_age_ms, int64_t now_wall_us,
		      stream_keep_fn *keep, void *arg)
{
	DIR *d = open_dir(dir_fd, ".");
	cleanup_buf struct buf entries = {0};
	uint64_t total = 0, removed = 0;
	struct file_entry *all;
	struct dirent *de;
	size_t n;

	if (d == NULL)
		return 0;
	while ((de = readdir(d)) != NULL)
		if (id_valid(de->d_name))
			list_session(dir_fd, de->d_name, &entries);
	closedir(d);
	all = (struct file_entry *)(void *)entries.data;
	n = entries.len / sizeof(*all);
	if (n == 0)
		return 0;
	qsort(all, n, sizeof(*all), by_age);
	for (size_t i = 0; i < n; i++)
		total += all[i].bytes;
	for (size_t i = 0; i < n; i++) {
		const struct file_entry *e = &all[i];
		const bool old = now_wall_us - e->written_us > max_age_ms * 1000;

		if ((!old && total <= quota) || (keep != NULL && keep(e->session, e->name, arg)))
			continue;
		stream_file_remove(dir_fd, e->session, e->name, e->which);
		total -= e->bytes;
		removed += e->bytes;
	}
	return removed;
}
