// SPDX-License-Identifier: Apache-2.0
/* The directories of sessions without namespaces: STATE/own/ID with a home and a tmp.
 *
 * A session may leave there whatever it likes, so that they are removed by a process of its own,
 * which first waits for the session's init, and takes deep trees apart from above: one descriptor
 * of a directory at a time, no recursion, no path. */
#include "launcher/own_dir.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/proc.h"
#include "launcher/launcher_state.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>

#define PARENT "own"
#define INIT_END_MS 10000 /* longer than init itself tries */
#define NAME_LEN 64

static const char *const parts[] = {SANDBOX_OWN_HOME, SANDBOX_OWN_TMP};

/* -1/errno. Root's sessions have namespaces, and its state directory belongs to the API child. */
static int open_parent(const struct launcher *l)
{
	if (l->privileged) {
		errno = ENOENT;
		return -1;
	}
	cleanup_free char *path = mem_printf("%s/%s", l->settings.config.base_dir, PARENT);

	return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

char *own_dir_path(const struct launcher *l, const char *id)
{
	cleanup_free char *real = realpath(l->settings.config.base_dir, NULL);

	return mem_printf("%s/%s/%s", real != NULL ? real : l->settings.config.base_dir, PARENT,
			  id);
}

int own_dir_make(struct launcher *l, const char *id, char **path, struct err *err)
{
	cleanup_free char *parent = mem_printf("%s/%s", l->settings.config.base_dir, PARENT);
	cleanup_free char *made = mem_printf("%s/%s", parent, id);
	cleanup_fd int fd = -1;
	bool ok;

	ensure(!l->privileged);
	ok = (mkdir(parent, 0700) == 0 || errno == EEXIST) && mkdir(made, 0700) == 0;
	fd = ok ? open(made, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
	for (size_t i = 0; fd != -1 && ok && i < ARRAY_LEN(parts); i++)
		ok = mkdirat(fd, parts[i], 0700) == 0;
	if (fd == -1 || !ok)
		return err_errno(err, E_UNAVAILABLE, made, "cannot make %s", made);
	*path = realpath(made, NULL);
	if (*path == NULL)
		return err_errno(err, E_UNAVAILABLE, made, "cannot find %s", made);
	return 0;
}

/* ---- removal ---- */

/* The owner of a directory may change its mode, even if the mode lets him do nothing else. */
static void open_up(int dir, const char *name)
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

	open_up(top, name);
	fd = openat(top, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	dir = fd == -1 ? NULL : fdopendir(fd);
	if (dir == NULL)
		return;
	take_fd(fd);
	while ((e = readdir(dir)) != NULL) {
		char to[NAME_LEN];

		if (dots(e->d_name) || unlinkat(dirfd(dir), e->d_name, 0) == 0)
			continue;
		open_up(dirfd(dir), e->d_name);
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

static void empty(int dir)
{
	unsigned number = 0;

	while (remove_round(dir, &number) > 0)
		;
}

/* Holds neither the launcher's lock nor its sockets: it may outlive it. */
static _Noreturn void remove_now(int parent, const char *name, const struct meta *m)
{
	const int keep[] = {parent};
	int dir;

	fdio_close_except(keep, 1);
	for (size_t i = 1; i < m->n; i++) {
		struct pollfd p = {meta_pidfd(&m->process[i]), POLLIN, 0};

		if (p.fd != -1 && poll(&p, 1, INIT_END_MS) == 0)
			proc_pidfd_signal(p.fd, SIGKILL);
	}
	open_up(parent, name);
	dir = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir != -1)
		empty(dir);
	unlinkat(parent, name, AT_REMOVEDIR);
	_exit(0);
}

static void remove_later(struct launcher *l, int parent, const char *name, const struct meta *m)
{
	pid_t pid;

	orphans_start(l);
	pid = fork();
	if (pid == 0)
		remove_now(parent, name, m);
	if (pid > 0)
		orphans_expect(l, pid);
	else
		log_warn("a session's directory is left to the next start", "name", name);
}

bool own_dir_drop(struct launcher *l, const char *id, const struct meta *m)
{
	cleanup_fd int parent = open_parent(l);
	char gone[ID_MAX + NAME_LEN];

	/* The id is free at once. */
	snprintf(gone, sizeof(gone), ".%s.%llu", id, (unsigned long long)group_next(l));
	if (parent == -1 || renameat(parent, id, parent, gone) < 0)
		return false;
	remove_later(l, parent, gone, m);
	return true;
}

void own_dirs_sweep(struct launcher *l)
{
	static const struct meta none = {0};
	cleanup_fd int parent = open_parent(l);
	cleanup_fd int own = parent == -1 ? -1 : fcntl(parent, F_DUPFD_CLOEXEC, 3);
	DIR *dir = own == -1 ? NULL : fdopendir(own);
	const struct dirent *e;

	if (dir == NULL)
		return;
	take_fd(own);
	while ((e = readdir(dir)) != NULL) {
		const struct session_entry *w = entry_find(l, e->d_name);

		if (dots(e->d_name) || (w != NULL && w->state != ENTRY_DEAD))
			continue;
		remove_later(l, parent, e->d_name, w != NULL ? &w->meta : &none);
	}
	closedir(dir);
}
