// SPDX-License-Identifier: Apache-2.0
/* The directories of sessions without namespaces: STATE/own/ID with a home and a tmp.
 *
 * A session may leave there whatever it likes, so that they are removed by a process of its own,
 * which first waits for the session's init. */
#include "launcher/own_dir.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/remove.h"
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

/* Holds neither the launcher's lock nor its sockets: it may outlive it. */
static _Noreturn void remove_now(int parent, const char *name, const struct meta *m)
{
	fdio_close_except(&parent, 1);
	for (size_t i = 1; i < m->n; i++) {
		struct pollfd p = {meta_pidfd(&m->process[i]), POLLIN, 0};

		if (p.fd != -1 && poll(&p, 1, INIT_END_MS) == 0)
			proc_pidfd_signal(p.fd, SIGKILL);
	}
	remove_tree(parent, name);
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

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
		    (w != NULL && w->state != ENTRY_DEAD))
			continue;
		remove_later(l, parent, e->d_name, w != NULL ? &w->meta : &none);
	}
	closedir(dir);
}
