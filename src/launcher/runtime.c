// SPDX-License-Identifier: Apache-2.0
/* RUNTIME (the directory of the unix socket) and the state directory of the API child, with their
 * locks, and the listening sockets. The sockets belong to the launcher, so that no connection is
 * refused while the API child is restarted.
 *
 * STATE/server.lock: one server for a state directory, wherever its socket is. Two servers would
 * write to one database, and each would count the other's sessions as lost. This happens easily:
 * XDG_RUNTIME_DIR and TMPDIR may differ between two shells of a user, the home directory does not.
 */
#include "launcher/runtime.h"
#include "base/clock.h"
#include "base/fdio.h"
#include "base/file_lock.h"
#include "base/mem.h"
#include "base/proc.h"
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/fsuid.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define BACKLOG 512
#define DYING_MS 50 /* for a server that was killed a moment ago */

/* A user who may write to the directory could replace our sockets and files. */
static int check_dir(int fd, const char *path, struct err *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_errno(err, E_INTERNAL, path, "cannot stat %s", path);
	if (st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
		return err_set(err, E_FORBIDDEN, path,
			       "%s must belong to uid %u, and no other user may be able to write "
			       "it: chmod go-w %s, or choose another directory for "
			       "server.unix_socket",
			       path, geteuid(), path);
	return 0;
}

static int make_dirs(const char *path, mode_t mode, struct err *err)
{
	const mode_t old = umask(0022);
	const int r = fdio_mkdirs(path, mode, err);

	umask(old);
	return r;
}

int runtime_open(const struct config *c, bool privileged, struct runtime *p, struct err *err)
{
	int r;

	*p = RUNTIME_NONE;
	p->socket = mem_strdup(c->unix_socket);
	p->runtime = config_runtime_dir(c);
	r = make_dirs(p->runtime, privileged ? 0755 : 0700, err);
	if (r == 0) {
		p->runtime_fd = open(p->runtime, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		r = p->runtime_fd == -1 ? err_errno(err, E_UNAVAILABLE, p->runtime,
						    "cannot open %s", p->runtime)
					: check_dir(p->runtime_fd, p->runtime, err);
	}
	if (r < 0)
		runtime_done(p);
	return r;
}

/* 0: the server that has the lock has not written its pid yet. */
static pid_t holder_of(const struct runtime *p)
{
	char text[16] = "";

	return pread(p->lock_fd, text, sizeof(text) - 1, 0) > 0 ? atoi(text) : 0;
}

/* E_CONFLICT "already running (pid N)". */
static int take_lock(struct runtime *p, struct err *err)
{
	char text[16];

	if (p->lock_fd == -1)
		p->lock_fd = openat(p->runtime_fd, "server.lock",
				    O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0644);
	if (p->lock_fd == -1)
		return err_errno(err, E_UNAVAILABLE, p->runtime, "cannot open %s/server.lock",
				 p->runtime);
	if (flock(p->lock_fd, LOCK_EX | LOCK_NB) < 0) {
		snprintf(text, sizeof(text), "%d", (int)holder_of(p));
		return err_set(err, E_CONFLICT, p->socket, "already running (pid %s) on %s",
			       text[0] == '0' ? "?" : text, p->socket);
	}
	snprintf(text, sizeof(text), "%d\n", (int)getpid());
	if (ftruncate(p->lock_fd, 0) < 0 ||
	    pwrite(p->lock_fd, text, strlen(text), 0) != (ssize_t)strlen(text))
		return err_errno(err, E_UNAVAILABLE, p->runtime, "cannot write %s/server.lock",
				 p->runtime);
	return 0;
}

/* ---- waiting for another server ---- */

/* An inotify descriptor for changes of RUNTIME. IN_CLOSE_WRITE: a process that has the lock ends.
 * IN_MODIFY: the next server writes its pid. IN_ATTRIB: its chmod after listen. */
static int watch_dir(const struct runtime *p, struct err *err)
{
	cleanup_fd int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);

	if (fd == -1 ||
	    inotify_add_watch(fd, p->runtime,
			      IN_CREATE | IN_MOVED_TO | IN_ATTRIB | IN_CLOSE_WRITE | IN_MODIFY) < 0)
		return err_errno(err, E_UNAVAILABLE, p->runtime, "cannot watch %s", p->runtime);
	return take_fd(fd);
}

/* Waits for the next change, or until the deadline; false: the time is over. */
static bool await_change(int watch, int64_t deadline_us)
{
	const int64_t left_ms = (deadline_us - clock_mono_us(&clock_system)) / 1000;
	struct pollfd pfd = {watch, POLLIN, 0};
	char events[4096];

	if (left_ms <= 0)
		return false;
	poll(&pfd, 1, (int)left_ms);
	while (read(watch, events, sizeof(events)) > 0)
		;
	return true;
}

/* False: the path is too long. */
static bool set_path(struct sockaddr_un *a, const char *path)
{
	a->sun_family = AF_UNIX;
	return snprintf(a->sun_path, sizeof(a->sun_path), "%s", path) < (int)sizeof(a->sun_path);
}

/* A connection to a socket; -1/errno. */
static int connect_to(const char *path)
{
	cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un a;

	return fd == -1 || !set_path(&a, path) ||
			       connect(fd, (const struct sockaddr *)&a, sizeof(a)) < 0
		       ? -1
		       : take_fd(fd);
}

/* A full backlog is a sign of life, too. */
static bool answers(const char *path)
{
	cleanup_fd int fd = connect_to(path);

	return fd != -1 || errno == EAGAIN;
}

int runtime_take(struct runtime *p, bool auto_start, int timeout_ms, bool *other, struct err *err)
{
	const int64_t deadline_us = clock_mono_us(&clock_system) + INT64_C(1000) * timeout_ms;
	cleanup_fd int watch = -1;

	for (;;) {
		int r;

		*other = auto_start && watch != -1 && answers(p->socket);
		r = *other ? 0 : take_lock(p, err);
		if (r != -E_CONFLICT ||
		    (!auto_start && (holder_of(p) <= 0 || !proc_ending(holder_of(p)))))
			return r;
		if (watch == -1) {
			watch = watch_dir(p, err); /* then it looks once more */
			if (watch < 0)
				return watch;
		} else if (!await_change(watch, deadline_us)) {
			return auto_start ? err_set(err, E_UNAVAILABLE, p->socket,
						    "another server holds %s/server.lock and does "
						    "not answer on %s",
						    p->runtime, p->socket)
					  : r;
		}
	}
}

/* ---- directories ---- */

int open_as(const char *path, int flags, bool privileged, uid_t uid, gid_t gid)
{
	int fd;

	if (privileged) {
		setfsgid(gid);
		setfsuid(uid);
	}
	fd = open(path, flags | O_CLOEXEC, 0600);
	if (privileged) {
		setfsuid(geteuid());
		setfsgid(getegid());
	}
	return fd;
}

static bool empty_dir(int fd)
{
	DIR *dir = fdopendir(openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	int n = 0;

	while (dir != NULL && readdir(dir) != NULL)
		n++;
	if (dir != NULL)
		closedir(dir);
	return n == 2; /* "." and ".." */
}

/* The owner of a session's trash may reach it by its name, and nothing else. A directory that
 * belongs to another user is not given away: a typing error in the configuration
 * could name /home. */
static int give_dir(int fd, const char *path, uid_t uid, struct err *err)
{
	cleanup_fd int reached = -1;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_errno(err, E_INTERNAL, path, "cannot stat %s", path);
	if (st.st_uid != uid && !empty_dir(fd))
		return err_set(err, E_FORBIDDEN, path,
			       "sessions.base_dir %s is not empty and belongs to uid %u, not to "
			       "server.api_uid %u: chown -R %u %s, or choose another directory",
			       path, st.st_uid, uid, uid, path);
	if (fchown(fd, uid, uid) < 0 || fchmod(fd, 0711) < 0)
		return err_errno(err, E_UNAVAILABLE, path, "cannot give %s to uid %u", path, uid);
	reached = open_as(path, O_RDONLY | O_DIRECTORY, true, uid, uid);
	if (reached == -1)
		return err_set(
			err, E_UNAVAILABLE, path,
			"uid %u (server.api_uid) cannot reach sessions.base_dir %s: a directory "
			"above it is closed to others",
			uid, path);
	return 0;
}

static int make_state_dir(const struct config *c, bool privileged, struct err *err)
{
	const char *path = c->base_dir;
	cleanup_free char *real = NULL;
	cleanup_fd int fd = -1;
	int r;

	r = make_dirs(path, privileged ? 0755 : 0700, err);
	if (r < 0)
		return r;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd == -1 && (real = realpath(path, NULL)) != NULL && strcmp(real, path) != 0)
		return err_set(
			err, E_UNAVAILABLE, path,
			"sessions.base_dir %s is a symbolic link: name the directory that it "
			"leads to, %s",
			path, real);
	if (fd == -1)
		return err_errno(err, E_UNAVAILABLE, path, "cannot open %s", path);
	return privileged ? give_dir(fd, path, c->api_uid, err) : 0;
}

int runtime_prepare(const struct config *c, bool privileged, struct runtime *p, struct err *err)
{
	cleanup_free char *path = mem_printf("%s/sessions", p->runtime);
	int r;

	if (mkdirat(p->runtime_fd, "sessions", 0700) < 0 && errno != EEXIST)
		return err_errno(err, E_UNAVAILABLE, path, "cannot make %s", path);
	p->sessions_fd =
		openat(p->runtime_fd, "sessions", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (p->sessions_fd == -1 || fchmod(p->sessions_fd, 0700) < 0)
		return err_errno(err, E_UNAVAILABLE, path, "cannot open %s", path);
	r = check_dir(p->sessions_fd, path, err);
	return r < 0 ? r : make_state_dir(c, privileged, err);
}

int runtime_state_file(const char *path, bool privileged, uid_t uid)
{
	return open_as(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, privileged, uid,
		       uid);
}

int runtime_claim(const struct config *c, bool privileged, struct runtime *p, char **other,
		  struct err *err)
{
	cleanup_free char *path = mem_printf("%s/server.lock", c->base_dir);
	cleanup_free char *line = mem_printf("%s\n", p->socket);
	cleanup_fd int fd = runtime_state_file(path, privileged, c->api_uid);
	struct stat st;
	pid_t holder = 0;

	if (fd == -1 || fstat(fd, &st) < 0)
		return err_errno(err, E_UNAVAILABLE, path, "cannot open %s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, E_UNAVAILABLE, path, "%s is not a regular file: remove it",
			       path);
	if (file_lock_take(fd, DYING_MS, &holder) < 0) {
		/* The other server has written the path of its socket. */
		char socket[sizeof(((struct sockaddr_un *)0)->sun_path) + 1] = "";

		if (errno != EAGAIN)
			return err_errno(err, E_UNAVAILABLE, path, "cannot lock %s", path);
		if (fdio_pread_full(fd, socket, sizeof(socket) - 1, 0) > 0 && socket[0] == '/' &&
		    strchr(socket, '\n') != NULL)
			*other = mem_strndup(socket, strcspn(socket, "\n"));
		return err_set(err, E_CONFLICT, c->base_dir,
			       "sessions.base_dir %s is in use by another server (pid %d%s%s): use "
			       "that one, or give this one another directory",
			       c->base_dir, (int)holder, *other != NULL ? " on " : "",
			       *other != NULL ? *other : "");
	}
	/* This line is only information for others: a full disk does not matter. */
	if (ftruncate(fd, 0) == 0)
		(void)!pwrite(fd, line, strlen(line), 0);
	p->claim_fd = take_fd(fd);
	return 0;
}

/* ---- sockets ---- */

/* Whether a living program has the socket. SO_PEERCRED names the process that called listen. The
 * API child of a killed server may hold the socket for another moment, and does not count. */
static bool lives(const char *path)
{
	cleanup_fd int fd = connect_to(path);
	struct ucred cred = {0};
	socklen_t len = sizeof(cred);

	return fd == -1 ? errno == EPROTOTYPE
			: getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 &&
				  cred.pid > 0 && !proc_ending(cred.pid);
}

/* The launcher has the lock: a socket at its path belongs to a dead server. Anything else there is
 * not the launcher's to remove. */
static int clear_path(const char *path, struct err *err)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return errno == ENOENT
			       ? 0
			       : err_errno(err, E_UNAVAILABLE, path, "cannot stat %s", path);
	if (!S_ISSOCK(st.st_mode))
		return err_set(err, E_CONFLICT, path, "%s exists and is not a socket", path);
	if (lives(path))
		return err_set(err, E_CONFLICT, path,
			       "%s is another program's socket: choose another path for "
			       "server.unix_socket",
			       path);
	if (unlink(path) < 0)
		return err_errno(err, E_UNAVAILABLE, path, "cannot remove %s", path);
	return 0;
}

/* A client cannot connect before the chmod, which comes after listen: runtime_take waits for it.
 */
static int listen_unix(struct runtime *p, mode_t mode, struct err *err)
{
	cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	const char *path = p->socket;
	struct sockaddr_un a;
	struct stat st;
	mode_t old;
	int r;

	if (fd == -1)
		return err_errno(err, E_UNAVAILABLE, path, "socket");
	if (!set_path(&a, path))
		return err_set(err, E_BAD_REQUEST, "server.unix_socket",
			       "server.unix_socket is longer than %zu bytes: %s",
			       sizeof(a.sun_path) - 1, path);
	r = clear_path(path, err);
	if (r < 0)
		return r;
	old = umask(0777);
	r = bind(fd, (const struct sockaddr *)&a, sizeof(a));
	umask(old);
	if (r < 0 || listen(fd, BACKLOG) < 0 || chmod(path, mode) < 0 || lstat(path, &st) < 0)
		return err_errno(err, E_UNAVAILABLE, path, "cannot listen on %s", path);
	p->socket_dev = st.st_dev;
	p->socket_ino = st.st_ino;
	p->unix_fd = take_fd(fd);
	return 0;
}

/* Both kinds of address have the port at the same place. */
static int listen_tcp(struct runtime *p, const char *text, struct err *err)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} a = {0};
	socklen_t len = sizeof(a);
	cleanup_fd int fd = -1;
	const int on = 1;
	char host[INET6_ADDRSTRLEN];
	unsigned port;
	bool v6;

	if (config_address_split(text, host, sizeof(host), &port) < 0 || !config_is_loopback(host))
		return err_set(err, E_BAD_REQUEST, "server.http_addr",
			       "server.http_addr is not a loopback address and port: '%s'", text);
	v6 = inet_pton(AF_INET6, host, &a.v6.sin6_addr) == 1;
	if (!v6)
		inet_pton(AF_INET, host, &a.v4.sin_addr);
	a.any.sa_family = v6 ? AF_INET6 : AF_INET;
	a.v4.sin_port = htons((uint16_t)port);
	fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd == -1 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind(fd, &a.any, v6 ? sizeof(a.v6) : sizeof(a.v4)) < 0 || listen(fd, BACKLOG) < 0 ||
	    getsockname(fd, &a.any, &len) < 0)
		return err_errno(err, E_UNAVAILABLE, "server.http_addr", "cannot listen on %s",
				 text);
	p->http = mem_printf(v6 ? "[%s]:%u" : "%s:%u", host, ntohs(a.v4.sin_port));
	p->tcp_fd = take_fd(fd);
	return 0;
}

int runtime_listen(const struct config *c, bool privileged, struct runtime *p, struct err *err)
{
	/* TCP first: if it fails, the unix socket of an earlier server is still there. */
	const int r = c->http_addr[0] != '\0' ? listen_tcp(p, c->http_addr, err) : 0;

	return r < 0 ? r : listen_unix(p, privileged ? 0666 : 0600, err);
}

void runtime_done(struct runtime *p)
{
	int fds[] = {p->unix_fd, p->tcp_fd, p->sessions_fd, p->runtime_fd, p->claim_fd, p->lock_fd};
	struct stat st;

	if (p->unix_fd != -1 && p->socket_ino != 0 && lstat(p->socket, &st) == 0 &&
	    st.st_dev == p->socket_dev && st.st_ino == p->socket_ino)
		unlink(p->socket);
	/* The lock last: the next holder finds nothing left of us. */
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		mem_cleanup_fd(&fds[i]);
	free(p->runtime);
	free(p->socket);
	free(p->http);
	*p = RUNTIME_NONE;
}
