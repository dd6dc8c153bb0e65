// SPDX-License-Identifier: Apache-2.0
/* The listening sockets. They belong to the launcher, so that no connection is refused while the
 * API child is replaced. */
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

/* Whether a living program has the socket. One that called listen is known by its connections: a
 * killed server's API child may hold its socket for another moment, and does not count. */
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

/* With the lock, a socket at our path is a dead server's. Anything else there is not ours to
 * remove. */
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

/* Nobody can connect before the chmod, which comes after listen: runtime_await is woken by it. */
static int bind_unix(int fd, const char *path, mode_t mode, struct err *err)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	mode_t old;
	int r;

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
	if (r < 0 || listen(fd, BACKLOG) < 0 || chmod(path, mode) < 0)
		return err_errno(err, E_UNAVAILABLE, path, "cannot listen on %s", path);
	return 0;
}

static int listen_unix(struct runtime *p, bool privileged, struct err *err)
{
	cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct stat st;
	int r;

	if (fd == -1)
		return err_errno(err, E_UNAVAILABLE, p->socket, "socket");
	r = bind_unix(fd, p->socket, privileged ? 0666 : 0600, err);
	if (r < 0)
		return r;
	if (lstat(p->socket, &st) < 0)
		return err_errno(err, E_UNAVAILABLE, p->socket, "cannot stat %s", p->socket);
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

/* "127.0.0.1:80", "[::1]:80", "localhost:80". Names are not looked up: that would read the network.
 */
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

static bool is_loopback(const union address *a)
{
	if (a->any.sa_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr);
	return ntohl(a->v4.sin_addr.s_addr) >> 24 == 127;
}

static char *format_tcp(const union address *a)
{
	char host[INET6_ADDRSTRLEN];

	if (a->any.sa_family == AF_INET6)
		return mem_printf("[%s]:%u",
				  inet_ntop(AF_INET6, &a->v6.sin6_addr, host, sizeof(host)),
				  ntohs(a->v6.sin6_port));
	return mem_printf("%s:%u", inet_ntop(AF_INET, &a->v4.sin_addr, host, sizeof(host)),
			  ntohs(a->v4.sin_port));
}

static int listen_tcp(struct runtime *p, const char *text, struct err *err)
{
	cleanup_fd int fd = -1;
	const int on = 1;
	union address a;
	socklen_t len = sizeof(a);

	if (parse_tcp(text, &a) < 0)
		return err_set(err, E_BAD_REQUEST, "server.http_addr",
			       "not an address and port: '%s' (as in 127.0.0.1:8080)", text);
	if (!is_loopback(&a))
		return err_set(err, E_BAD_REQUEST, "server.http_addr",
			       "%s is not a loopback address: without TLS nothing else is served",
			       text);
	fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd == -1 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind(fd, &a.any, a.any.sa_family == AF_INET6 ? sizeof(a.v6) : sizeof(a.v4)) < 0 ||
	    listen(fd, BACKLOG) < 0 || getsockname(fd, &a.any, &len) < 0)
		return err_errno(err, E_UNAVAILABLE, "server.http_addr", "cannot listen on %s",
				 text);
	p->http = format_tcp(&a);
	p->tcp_fd = take_fd(fd);
	return 0;
}

int runtime_listen(const struct config *c, bool privileged, struct runtime *p, struct err *err)
{
	const bool tcp = c->http_addr != NULL && c->http_addr[0] != '\0';
	/* TCP first: if it fails, a unix socket that worked a moment ago has not been touched. */
	const int r = tcp ? listen_tcp(p, c->http_addr, err) : 0;

	return r < 0 ? r : listen_unix(p, privileged, err);
}
