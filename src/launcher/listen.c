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

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* "127.0.0.1:80" or "[::1]:80". Names are not looked up: that would read the network. */
static int parse_tcp(const char *text, union address *out)
{
	const char *colon = strrchr(text, ':');
	char host[64] = "";
	char *end;
	unsigned long port;
	size_t n;

	if (colon == NULL || colon[1] < '0' || colon[1] > '9' ||
	    (size_t)(colon - text) >= sizeof(host))
		return -1;
	port = strtoul(colon + 1, &end, 10);
	if (*end != '\0' || port > 65535)
		return -1;
	n = (size_t)(colon - text);
	memcpy(host, text, n);
	*out = (union address){0};
	if (host[0] == '[' && host[n - 1] == ']') {
		host[n - 1] = '\0';
		out->v6 = (struct sockaddr_in6){.sin6_family = AF_INET6,
						.sin6_port = htons((uint16_t)port)};
		return inet_pton(AF_INET6, host + 1, &out->v6.sin6_addr) == 1 ? 0 : -1;
	}
	out->v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	return inet_pton(AF_INET, host, &out->v4.sin_addr) == 1 ? 0 : -1;
}

static int listen_tcp(struct runtime *p, const char *text, struct err *err)
{
	cleanup_fd int fd = -1;
	const int on = 1;
	char host[INET6_ADDRSTRLEN];
	union address a;
	socklen_t len = sizeof(a);
	bool v6;

	if (parse_tcp(text, &a) < 0)
		return err_set(err, E_BAD_REQUEST, "server.http_addr",
			       "not an address and port: '%s' (as in 127.0.0.1:8080)", text);
	v6 = a.any.sa_family == AF_INET6;
	if (v6 ? !IN6_IS_ADDR_LOOPBACK(&a.v6.sin6_addr) : ntohl(a.v4.sin_addr.s_addr) >> 24 != 127)
		return err_set(err, E_BAD_REQUEST, "server.http_addr",
			       "%s is not a loopback address: without TLS nothing else is served",
			       text);
	fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd == -1 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind(fd, &a.any, v6 ? sizeof(a.v6) : sizeof(a.v4)) < 0 || listen(fd, BACKLOG) < 0 ||
	    getsockname(fd, &a.any, &len) < 0)
		return err_errno(err, E_UNAVAILABLE, "server.http_addr", "cannot listen on %s",
				 text);
	inet_ntop(a.any.sa_family, v6 ? (void *)&a.v6.sin6_addr : (void *)&a.v4.sin_addr, host,
		  sizeof(host));
	p->http = mem_printf(v6 ? "[%s]:%u" : "%s:%u", host,
			     ntohs(v6 ? a.v6.sin6_port : a.v4.sin_port));
	p->tcp_fd = take_fd(fd);
	return 0;
}

int runtime_listen(const struct config *c, bool privileged, struct runtime *p, struct err *err)
{
	const bool tcp = c->http_addr != NULL && c->http_addr[0] != '\0';
	/* TCP first: if it fails, the unix socket of an earlier server is still there. */
	const int r = tcp ? listen_tcp(p, c->http_addr, err) : 0;

	return r < 0 ? r : listen_unix(p, privileged ? 0666 : 0600, err);
}
