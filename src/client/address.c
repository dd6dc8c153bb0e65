// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "client/client_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>

static int wrong(const char *text, const char *problem, struct err *err)
{
	return err_set(err, E_BAD_REQUEST, text, "'%s': %s", text, problem);
}

static int parse_path(const char *path, const char *text, struct address *out, struct err *err)
{
	if (path[0] != '/')
		return wrong(text, "a socket's path begins with /", err);
	if (strlen(path) >= sizeof(((struct sockaddr_un *)NULL)->sun_path))
		return wrong(text, "a socket's path has at most 107 bytes", err);
	*out = (struct address){.path = mem_strdup(path)};
	return 0;
}

static int parse_host(const char *host, const char *text, struct address *out, struct err *err)
{
	const size_t len = strcspn(host, "/");
	cleanup_free char *h = mem_strndup(host, len);
	char *colon = strrchr(h, ':'), *end = NULL;
	const long port = colon != NULL && colon[1] >= '0' && colon[1] <= '9'
				  ? strtol(colon + 1, &end, 10)
				  : 0;
	char *name = h;

	if (host[len] != '\0' && strcmp(host + len, "/") != 0)
		return wrong(text, "a server's address has no path", err);
	if (port < 1 || port > 65535 || *end != '\0' || end - colon > 6)
		return wrong(text, "write unix:/path, http://host:port or host:port", err);
	*colon = '\0';
	if (*name == '[') {
		name++;
		end = strchr(name, ']');
		if (end == NULL || end[1] != '\0')
			return wrong(text, "malformed address", err);
		*end = '\0';
	} else if (strchr(name, ':') != NULL) {
		return wrong(text, "an IPv6 address needs brackets", err);
	}
	if (*name == '\0')
		return wrong(text, "the host is missing", err);
	*out = (struct address){.host = mem_strdup(name), .port = mem_strdup(colon + 1)};
	return 0;
}

int address_parse(const char *text, struct address *out, struct err *err)
{
	if (text[0] == '/')
		return parse_path(text, text, out, err);
	if (strncmp(text, "unix:", 5) == 0)
		return parse_path(text + 5, text, out, err);
	if (strncmp(text, "https:", 6) == 0)
		return wrong(text, "agentsh does not support TLS, use http:", err);
	return parse_host(strncmp(text, "http://", 7) == 0 ? text + 7 : text, text, out, err);
}

void address_done(struct address *a)
{
	free(a->path);
	free(a->host);
	free(a->port);
	*a = (struct address){0};
}

int client_above_stdio(int fd)
{
	int higher;

	if (fd < 0 || fd > 2)
		return fd;
	higher = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	close(fd);
	return higher;
}

static int dial_one(const struct sockaddr *sa, socklen_t len)
{
	cleanup_fd int fd =
		client_above_stdio(socket(sa->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));

	if (fd == -1 || TEMP_FAILURE_RETRY(connect(fd, sa, len)) == -1)
		return -1;
	return take_fd(fd);
}

int address_dial(const struct address *a)
{
	const struct addrinfo want = {.ai_socktype = SOCK_STREAM};
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	struct addrinfo *list;
	const int on = 1;
	int fd = -1;

	if (a->path != NULL) {
		memcpy(un.sun_path, a->path, strlen(a->path) + 1);
		return dial_one((const struct sockaddr *)&un, sizeof(un));
	}
	if (getaddrinfo(a->host, a->port, &want, &list) != 0) {
		errno = EADDRNOTAVAIL;
		return -1;
	}
	for (const struct addrinfo *i = list; i != NULL && fd == -1; i = i->ai_next)
		fd = dial_one(i->ai_addr, i->ai_addrlen);
	freeaddrinfo(list);
	if (fd != -1)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return fd;
}
