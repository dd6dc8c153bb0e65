// SPDX-License-Identifier: Apache-2.0
/* A server that a command has started reads its configuration again when the file changes: its user
 * does not know that it runs, and expects the next command to follow the file.
 *
 * inotify watches the directory of the file, or the nearest one above it that exists, so that a
 * file that is replaced, made or removed is noticed too. What the events name does not matter:
 * whether the file is another one than before is asked of the file itself. */
#include "base/log.h"
#include "base/mem.h"
#include "launcher/launcher_state.h"
#include <errno.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#define WATCH_MASK                                                                          \
	(IN_CLOSE_WRITE | IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_ATTRIB | \
	 IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR)

static struct stat look(const char *path)
{
	struct stat st = {0};

	if (stat(path, &st) < 0)
		st = (struct stat){0};
	return st;
}

/* Watches the nearest directory that exists. */
static void arm(struct config_watch *w, const char *file)
{
	cleanup_free char *dir = mem_strdup(file);
	char *slash;
	int wd = -1;

	while (wd < 0 && (slash = strrchr(dir, '/')) != NULL) {
		slash[slash == dir] = '\0';
		wd = inotify_add_watch(w->fd, dir, WATCH_MASK);
		if (slash == dir)
			break;
	}
	if (wd < 0)
		log_warn("changes of the configuration file are not noticed", "error",
			 strerror(errno));
	if (w->dir != wd && w->dir >= 0)
		inotify_rm_watch(w->fd, w->dir);
	w->dir = wd;
}

static void on_change(void *arg)
{
	struct launcher *l = arg;
	struct config_watch *w = &l->config_watch;
	const struct stat *seen = &w->seen;
	char events[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	struct stat now;

	while (read(w->fd, events, sizeof(events)) > 0)
		continue;
	arm(w, l->source.path);
	now = look(l->source.path);
	if (l->stopping || (now.st_dev == seen->st_dev && now.st_ino == seen->st_ino &&
			    now.st_size == seen->st_size && now.st_mode == seen->st_mode &&
			    now.st_mtim.tv_sec == seen->st_mtim.tv_sec &&
			    now.st_mtim.tv_nsec == seen->st_mtim.tv_nsec))
		return;
	w->seen = now;
	log_info("the configuration file has changed", "path", l->source.path);
	launcher_reload(l);
}

void config_watch_start(struct launcher *l)
{
	struct config_watch *w = &l->config_watch;

	if (l->source.path == NULL)
		return;
	w->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (w->fd < 0) {
		log_warn("changes of the configuration file are not noticed", "error",
			 strerror(errno));
		return;
	}
	w->changed = watch_readable(l->loop, w->fd, on_change, l);
	watch_start(w->changed);
	arm(w, l->source.path);
	w->seen = look(l->source.path);
}

void config_watch_stop(struct launcher *l)
{
	struct config_watch *w = &l->config_watch;

	watch_free(w->changed);
	if (w->fd >= 0)
		close(w->fd);
	*w = (struct config_watch){.fd = -1, .dir = -1};
}
