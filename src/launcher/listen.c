// SPDX-License-Identifier: Apache-2.0
/* The listening sockets. They belong to the launcher, so that no connection is refused while the
 * API child is restarted. */
#include "base/mem.h"
#include "base/proc.h"
#include "launcher/launcher_state.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define BACKLOG 512

/* Whether a living program has the socket. SO_PEERCRED names the process that called listen. The
 * API child of a killed server may hold the socket for another moment, and does not count. */
static bool lives(const struct sockaddr_un *a)
{
	cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct ucred cred = {0};
	socklen_t len = sizeof(cred);

	if (fd == -1 || connect(fd, (const struct sockaddr *)a, sizeof(*a)) < 0)
		return errno == EPROTOTYPE;
	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 && cred.pid > 0 &&
	       !proc_ending(cred.pid);
}

/* The launcher has the lock: a socket at its path belongs to a dead server. Anything else there is
 * not the launcher's to remove. */
static int clear_path(const struct sockaddr_un *a, struct err *err)
{
	const char *path = a->sun_path;
	struct stat st;

	if (lstat(path, &st) < 0)
		return errno == ENOENT
			       ? 0
			       : err_errno(err, E_UNAVAILABLE, path, "cannot stat %s", path);
	if (!S_ISSOCK(st.st_mode))
		return err_set(err, E_CONFLICT, path, "%s exists and is not a socket", path);
	if (lives(a))
		return err_set(err, E_CONFLICT, path,
			       "%s is another program's socket: choose another path for "
			       "server.unix_socket",
			       path);
	if (unlink(path) < 0)
		return err_errno(err, E_UNAVAILABLE, path, "cannot remove %s", path);
	return 0;
}

/* A client cannot connect before the chmod, which comes after listen: runtime_await waits for it.
 */
static int listen_unix(struct runtime *p, mode_t mode, struct err *err)
{
	cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	const char *path = p->socket;
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	struct stat st;
	mode_t old;
	int r;

	if (fd == -1)
		return err_errno(err, E_UNAVAILABLE, path, "socket");
	if (strlen(path) >= sizeof(a.sun_path))
		return err_set(err, E_BAD_REQUEST, "server.unix_socket",
			       "server.unix_socket is longer than %zu bytes: %s",
			       sizeof(a.sun_path) - 1, path);
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	r = clear_path(&a, err);
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
